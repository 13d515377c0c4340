//! Scans on a GPU.
//!
//! ```text
//! one test               a kernel that is there (kernels/select.cu), to a bitmap
//! more, or arithmetic    one kernel for all of it, made for the query (source.rs)
//! wide values among      launches that join one bitmap, the fused part first:
//! them, or no NVRTC
//!     all(f, any(g, w))     f --set--> bitmap     g --set--> other, w --or--> other
//!                           bitmap <--and-- other
//! aggregates             a kernel made for the query, over the filter itself or its bitmap
//! groups                 the same, into a table of groups (groups.rs)
//! ```
//!
//! What is joined with a bitmap by AND does not look at vectors that have no row left
//! there, by OR not at those that have all; of strings only rows that are left are looked
//! at. Nothing waits for the device before a result is asked for, except the first scan of a
//! column (`decode/nodes.rs`, `decode/stored.rs`); what tests have found damaged is an error
//! then. Columns that kernels do not read as they are stored are scanned in stages, which wait for
//! each other (staged.rs).
//! Without NVRTC a filter that needs no kernel of its own is joined test by test; keys of joins are
//! decoded then, and looked up by a kernel that is there, groups are the CPU's.

mod aggregate;
mod gather;
mod groups;
mod lookup;
mod plan;
mod query;
mod select;
mod source;
mod staged;
mod strings;

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;

use super::aggregate::Plan;
use super::join::{JoinedColumn, Probe};
use super::lookup::Table;
use super::predicate::{BytesForm, BytesTest, Predicate, Test};
use crate::decode::nodes::{ColumnNodes, ReadBy, WordDictionaries};
use crate::decode::{self, Pending};
use crate::device::parameters::Parameters;
use crate::device::{Context, DeviceColumn, Marks};
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::gpu::abi::{Node, Range};
use crate::gpu::{Device, DeviceBuffer, Module, Stream, kernels};
use crate::memory::MemoryLimit;
use crate::ranges::{Key, Ranges};
pub(super) use aggregate::Found;
use aggregate::Piece;
use gather::KeptRows;
pub(super) use plan::Planned;
use plan::Planning;
use query::Query;
use select::{ColumnTest, Combine, Report, StringTests, WordType};
use source::{Output, Source, TestsOf, source};

/// A scan that has been checked, of columns with the numbers of its predicates.
pub(super) struct DeviceScan<'a> {
    context: &'a Arc<Context>,
    stream: &'a Arc<dyn Stream>,
    pub columns: &'a [&'a DeviceColumn],
    pub rows: usize,
    pub marks: &'a mut dyn Marks,
    /// What tests found wrong, and with which column.
    reports: Vec<NamedReport>,
    /// Whether, and where, it keeps what would be done in place of doing it.
    plan: Planning,
}

/// The rows that a predicate keeps, as a bitmap on the device.
pub(super) struct Selection {
    stream: Arc<dyn Stream>,
    bitmap: Arc<DeviceBuffer>,
    rows: usize,
    reports: Vec<NamedReport>,
}

/// A kernel that was made for a query.
struct MadeKernel {
    nodes: Vec<Arc<ColumnNodes>>,
    source: Source,
    module: Arc<dyn Module>,
    /// The rows that it works on, if they were found before.
    selection: Option<Selection>,
}

impl MadeKernel {
    fn query<'a>(&'a self, columns: &'a [&'a DeviceColumn]) -> Query<'a> {
        query(columns, &self.nodes, self.module.as_ref(), &self.source)
    }

    fn within(&self) -> Option<&Arc<DeviceBuffer>> {
        self.selection.as_ref().map(|selection| &selection.bitmap)
    }
}

/// What a test finds wrong with a column.
struct NamedReport {
    report: Report,
    column: String,
    /// The chunk of the column that the report's first one is.
    first_chunk: usize,
}

impl NamedReport {
    /// Waits for the test.
    fn check(&self, stream: &Arc<dyn Stream>) -> Result<()> {
        let explained = |error: Error| error.after_chunks(self.first_chunk).in_column(&self.column);
        self.report.check(stream).map_err(explained)
    }
}

impl Selection {
    /// Waits for the tests; an error if one has found a column damaged.
    fn check(&self) -> Result<()> {
        self.reports.iter().try_for_each(|report| report.check(&self.stream))
    }

    /// How many rows are kept; waits for it.
    pub fn count(&self) -> Result<usize> {
        let count = select::count(&self.stream, &self.bitmap, self.rows)?;
        self.check()?;
        Ok(count)
    }

    /// How many rows are kept, and their values of some columns; waits for them.
    pub fn values(
        &self,
        columns: &[&DeviceColumn],
        limit: MemoryLimit,
        marks: &mut dyn Marks,
    ) -> Result<(usize, Vec<ArrayRef>)> {
        let Some(first) = columns.first() else { return Ok((self.count()?, Vec::new())) };
        self.check()?;
        let kept = KeptRows::find(&self.stream, first, &self.bitmap, marks)?;
        DeviceColumn::check_kept(limit, columns.iter().copied(), |_| kept.of_chunks())?;
        let values = |column: &&DeviceColumn| {
            kept.values(column, marks).map_err(|error| error.in_column(column.field().name()))
        };
        let arrays = columns.iter().map(values).collect::<Result<_>>()?;
        Ok((kept.len(), arrays))
    }

    /// For each row whether it is kept; waits for it.
    pub fn mask(&self) -> Result<BooleanArray> {
        self.check()?;
        let mut bytes = vec![0; select::bitmap_len(self.rows)];
        self.stream.download(&self.bitmap, 0, &mut bytes)?;
        let bits = BooleanBuffer::new(Buffer::from_vec(bytes), 0, self.rows);
        Ok(BooleanArray::new(bits, None))
    }
}

impl<'a> DeviceScan<'a> {
    pub fn new(
        context: &'a Arc<Context>,
        stream: &'a Arc<dyn Stream>,
        columns: &'a [&'a DeviceColumn],
        rows: usize,
        marks: &'a mut dyn Marks,
    ) -> Self {
        Self { context, stream, columns, rows, marks, reports: Vec::new(), plan: None }
    }

    fn device(&self) -> &dyn Device {
        self.context.device()
    }

    /// Starts to find the rows that a predicate keeps.
    pub fn select(&mut self, predicate: &Predicate) -> Result<Selection> {
        match self.stages()? {
            Some(stages) => self.select_staged(predicate, &stages),
            None => self.select_at_once(predicate),
        }
    }

    fn select_at_once(&mut self, predicate: &Predicate) -> Result<Selection> {
        let bitmap = self.bitmap()?;
        self.join(predicate, Combine::Set, &bitmap)?;
        let reports = std::mem::take(&mut self.reports);
        Ok(Selection { stream: self.stream.clone(), bitmap, rows: self.rows, reports })
    }

    /// The rows of a bitmap in host memory.
    pub fn selection_of(&self, bits: &BooleanBuffer) -> Result<Selection> {
        let bitmap = self.bitmap()?;
        let bytes = bits.sliced();
        let len = bitmap.len().min(bytes.len());
        self.stream.upload(&bytes[..len], &bitmap, 0)?;
        Ok(Selection { stream: self.stream.clone(), bitmap, rows: self.rows, reports: Vec::new() })
    }

    /// What the rows that a predicate keeps come to; waits for it. What kernels do not
    /// compute the CPU does, of the rows that they have found.
    pub fn aggregate(&mut self, predicate: &Predicate, plans: &[&Plan]) -> Result<Found> {
        let by_kernels: Vec<bool> =
            plans.iter().map(|plan| aggregate::is_computed(plan, self.columns)).collect();
        if self.rows == 0 || matches!(predicate, Predicate::Constant(false)) {
            return Ok(Found { by_kernels, pieces: Vec::new(), others: Vec::new() });
        }
        self.check_chunks()?;
        let (here, there) = aggregate::parted(plans, &by_kernels);
        // The rows are found once, on the way unless the CPU needs them too.
        let selection = (!there.is_empty()).then(|| self.select(predicate)).transpose()?;
        let others = match &selection {
            Some(selection) if !self.is_planned() => {
                aggregate::on_host(&there, self.columns, selection.mask()?.values())?
            }
            _ => Vec::new(),
        };
        let pieces = match (here.is_empty(), self.stages()?) {
            (true, _) => Vec::new(),
            (false, Some(stages)) => self.aggregate_staged(predicate, &here, &stages)?,
            (false, None) => vec![self.aggregate_at_once(predicate, &here, selection)?],
        };
        Ok(Found { by_kernels, pieces, others })
    }

    /// Aggregates that kernels compute; `selection` has the rows that the predicate keeps, if they
    /// have been found.
    fn aggregate_at_once(
        &mut self,
        predicate: &Predicate,
        plans: &[&Plan],
        selection: Option<Selection>,
    ) -> Result<Piece> {
        if self.columns.is_empty() {
            let states = plans.iter().map(|plan| plan.of_rows(self.rows));
            return Ok(Piece::States(states.collect::<Result<_>>()?));
        }
        let reaches: Vec<_> =
            plans.iter().map(|plan| aggregate::reach(plan, self.columns)).collect::<Result<_>>()?;
        let reads = plans.iter().flat_map(|plan| plan.columns_read());
        let output = Output::Aggregates(plans, &reaches);
        let made = self.made(predicate, reads, selection, &output)??;
        if self.is_planned() {
            self.plan_kernels(&[kernels::REDUCE_PARTIALS.shape()])?;
            return Ok(Piece::States(Vec::new()));
        }
        let (count, reductions) = (made.source.partials, &made.source.reductions);
        let query = made.query(self.columns);
        let (words, reports) =
            query.partials(self.stream, made.within(), count, reductions, self.marks)?;
        self.check_reports(&made, reports)?;
        Ok(Piece::Partials { places: made.source.places, words })
    }

    /// Makes a kernel that works on the rows that a predicate keeps, and reads the values of columns
    /// `reads`; `selection` has the rows, if they have been found. The inner error says why there is no
    /// kernel: it would take too much memory, or nothing compiles it.
    fn made(
        &mut self,
        predicate: &Predicate,
        reads: impl IntoIterator<Item = usize>,
        mut selection: Option<Selection>,
        output: &Output<'_>,
    ) -> Result<Result<MadeKernel>> {
        let nodes = self.nodes(std::slice::from_ref(predicate), reads)?;
        if selection.is_none() && !is_fusable(predicate, &nodes) {
            selection = Some(self.select_at_once(predicate)?);
        }
        let all = Predicate::Constant(true);
        let source = loop {
            let left = if selection.is_some() { &all } else { predicate };
            let source = self.source(&nodes, left, output)?;
            match (source.too_large(), &selection) {
                (None, _) => break source,
                (Some(what), Some(_)) => return Ok(Err(Error::expression(what))),
                (Some(_), None) => selection = Some(self.select_at_once(predicate)?),
            }
        };
        match self.compile(&source) {
            Err(error @ Error::NoDevice { .. }) => Ok(Err(error)),
            compiled => Ok(Ok(MadeKernel { nodes, source, module: compiled?, selection })),
        }
    }

    /// Waits for a kernel; an error if it, or the filter before it, has found a column damaged.
    fn check_reports(&self, made: &MadeKernel, reports: Vec<Report>) -> Result<()> {
        let reports = self.named(&made.source, reports);
        reports.iter().try_for_each(|report| report.check(self.stream))?;
        made.selection.as_ref().map_or(Ok(()), Selection::check)
    }

    fn bitmap(&self) -> Result<Arc<DeviceBuffer>> {
        Ok(Arc::new(self.stream.allocate(select::bitmap_len(self.rows))?))
    }

    /// The nodes of the columns, which have the same chunks; of columns whose values neither
    /// predicates read nor `reads` has those of the validity.
    fn nodes(
        &self,
        predicates: &[Predicate],
        reads: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<Arc<ColumnNodes>>> {
        self.check_chunks()?;
        let mut read = vec![ReadBy::Validity; self.columns.len()];
        let mut by = |column: usize, by: ReadBy| read[column] = read[column].max(by);
        for predicate in predicates {
            predicate.values_read(&mut |column| by(column, ReadBy::Vector));
            probed(predicate, &mut |column| by(column, ReadBy::Row));
        }
        reads.into_iter().for_each(|column| by(column, ReadBy::Row));
        let nodes = |(column, read): (&&DeviceColumn, ReadBy)| {
            let in_column = |error: Error| error.in_column(column.field().name());
            column.scan_nodes(self.stream, read).map_err(in_column)
        };
        self.columns.iter().zip(read).map(nodes).collect()
    }

    /// Checks that the columns have the same chunks.
    fn check_chunks(&self) -> Result<()> {
        let Some(first) = self.columns.first() else { return Ok(()) };
        match self.columns.iter().find(|column| !first.has_chunks_of(column)) {
            Some(other) => {
                let name = first.field().name();
                let what = format!("chunk boundaries other than those of column {name:?}");
                Err(Error::corrupt(what).in_column(other.field().name()))
            }
            None => Ok(()),
        }
    }

    fn source(
        &self,
        nodes: &[Arc<ColumnNodes>],
        predicate: &Predicate,
        output: &Output<'_>,
    ) -> Result<Source> {
        let columns: Vec<&ColumnNodes> = nodes.iter().map(AsRef::as_ref).collect();
        let strings = |column: usize, test: &BytesTest| {
            let column = self.columns[column];
            let tests = test.on_device(self.stream, column);
            let tests = tests.and_then(|(chunks, report)| StringTests::of(&chunks, report));
            tests.map_err(|error| error.in_column(column.field().name()))
        };
        let in_column =
            |error: Error, column: usize| error.in_column(self.columns[column].field().name());
        let words = |column: usize, words: WordType, ranges: &[Range]| {
            let of = self.columns[column];
            let tests = select::codes::in_ranges(self.stream, of, &nodes[column], words, ranges);
            tests.map_err(|error| in_column(error, column))
        };
        let tables = |table: &Table| table.on_device(self.context, self.stream);
        let numbers = |joined: &JoinedColumn| {
            let table = tables(&joined.join.table)?;
            let column = joined.column();
            let is_float = *column.field.data_type() == DataType::Float32;
            table.numbers(joined.column, (column.numbers(), is_float), self.stream)
        };
        let keys = |column: usize, probe: &Probe| {
            let table = tables(&probe.join.table)?;
            let of = self.columns[column];
            let tests = select::codes::in_lookup(self.stream, of, &nodes[column], probe, &table);
            tests.map_err(|error| in_column(error, column))
        };
        let tests_of = TestsOf {
            strings: &strings,
            words: &words,
            keys: &keys,
            tables: &tables,
            numbers: &numbers,
        };
        source(&columns, tests_of, predicate, output)
    }

    /// Joins the rows that a predicate keeps with a bitmap, by one kernel for all of it; false if no
    /// kernel has room for all of it, or nothing can compile one, and parts may do.
    fn fused(
        &mut self,
        nodes: &[Arc<ColumnNodes>],
        predicate: &Predicate,
        how: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<bool> {
        let source = self.source(nodes, predicate, &Output::Mask)?;
        if let Some(what) = source.too_large() {
            let has_parts = launches(predicate) > 1;
            return if has_parts { Ok(false) } else { Err(Error::expression(what)) };
        }
        let module = match self.compile(&source) {
            // Test by test.
            Err(Error::NoDevice { .. }) if !has_arithmetic(predicate) => return Ok(false),
            compiled => compiled?,
        };
        if self.is_planned() {
            return Ok(true);
        }
        let query = query(self.columns, nodes, module.as_ref(), &source);
        let reports = query.mask(self.stream, how, bitmap, self.marks)?;
        self.reports.extend(self.named(&source, reports));
        Ok(true)
    }

    /// What a query says of columns that may be damaged, and tests of dictionaries.
    fn named(&self, source: &Source, reports: Vec<Report>) -> Vec<NamedReport> {
        let named = |(report, column): (Report, &usize)| {
            let column = self.columns[*column].field().name().clone();
            NamedReport { report, column, first_chunk: 0 }
        };
        let of_dictionaries =
            source.strings.iter().map(|(_, tests, column)| (tests.report.clone(), column));
        reports.into_iter().zip(&source.reporting).chain(of_dictionaries).map(named).collect()
    }

    /// Joins the rows that a predicate keeps with those of a bitmap.
    fn join(
        &mut self,
        predicate: &Predicate,
        how: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if launches(predicate) > 1 || !self.has_kernels(predicate) {
            let nodes = self.nodes(std::slice::from_ref(predicate), [])?;
            if is_fusable(predicate, &nodes) && self.fused(&nodes, predicate, how, bitmap)? {
                return Ok(());
            }
        }
        self.within(predicate, |scan| scan.join_parts(predicate, how, bitmap))
    }

    /// The same by more kernels than one, or one that is there.
    fn join_parts(
        &mut self,
        predicate: &Predicate,
        how: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        match predicate {
            Predicate::Constant(value) => {
                let decides = match how {
                    Combine::Set => true,
                    Combine::And => !value,
                    Combine::Or => *value,
                };
                if decides {
                    let byte = if *value { 0xff } else { 0 };
                    self.stream.fill(bitmap, 0, select::bitmap_len(self.rows), byte)?;
                }
                Ok(())
            }
            Predicate::IsValid(column) => self.test(*column, &ColumnTest::Valid, how, bitmap),
            Predicate::Test(column, test) => {
                let test = match test {
                    Test::Words(key, ranges) => test_of_words(*key, ranges),
                    Test::Wide(ranges) => ColumnTest::Wide(ranges.as_slice().to_vec()),
                    Test::Bytes(test) => {
                        let of = self.columns[*column];
                        let chunks = test.on_device(self.stream, of);
                        let (chunks, report) =
                            chunks.map_err(|error| error.in_column(of.field().name()))?;
                        let column = of.field().name().clone();
                        self.reports.push(NamedReport { report, column, first_chunk: 0 });
                        ColumnTest::Strings { chunks, negated: test.negated }
                    }
                };
                self.test(*column, &test, how, bitmap)
            }
            Predicate::All(parts) if how != Combine::Or => {
                let parts = self.grouped(parts, Predicate::All)?;
                self.each(&parts, how, Combine::And, bitmap)
            }
            Predicate::Any(parts) if how != Combine::And => {
                let parts = self.grouped(parts, Predicate::Any)?;
                self.each(&parts, how, Combine::Or, bitmap)
            }
            Predicate::Not(inner) => {
                if let Predicate::IsValid(column) = **inner {
                    return self.test(column, &ColumnTest::Null, how, bitmap);
                }
                let other = self.bitmap()?;
                self.join(inner, Combine::Set, &other)?;
                self.join_bitmaps(&other, true, how, bitmap)
            }
            Predicate::All(_) | Predicate::Any(_) => {
                let other = self.bitmap()?;
                self.join_parts(predicate, Combine::Set, &other)?;
                self.join_bitmaps(&other, false, how, bitmap)
            }
            Predicate::Probe(probe) => self.probe(probe, how, bitmap),
            Predicate::Compare(..) => unreachable!("what needs a kernel of its own is fused"),
        }
    }

    /// Whether kernels that are there read all columns of a predicate as they are stored.
    fn has_kernels(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::Test(column, _) => {
                let reads = self.columns[*column].reads();
                reads.has_kernels && reads.has_validity_kernels
            }
            Predicate::Constant(_) => true,
            Predicate::IsValid(column) => self.columns[*column].reads().has_validity_kernels,
            Predicate::Compare(..) | Predicate::Probe(_) => false,
            Predicate::All(parts) | Predicate::Any(parts) => {
                parts.iter().all(|part| self.has_kernels(part))
            }
            Predicate::Not(inner) => self.has_kernels(inner),
        }
    }

    /// The parts of a predicate, those that one kernel serves as one; it comes first.
    fn grouped(
        &self,
        parts: &[Predicate],
        join: impl Fn(Vec<Predicate>) -> Predicate,
    ) -> Result<Vec<Predicate>> {
        let nodes = self.nodes(parts, [])?;
        let (fused, others): (Vec<_>, Vec<_>) =
            parts.iter().cloned().partition(|part| is_fusable(part, &nodes));
        // All of them: there is nothing to compile with.
        let mut parts = match others.is_empty() || fused.len() < 2 {
            true => fused.into_iter().chain(others).collect::<Vec<_>>(),
            false => std::iter::once(join(fused)).chain(others).collect(),
        };
        parts.sort_by_key(cost);
        Ok(parts)
    }

    /// Joins the first part with a bitmap in one way, the others in another.
    fn each(
        &mut self,
        parts: &[Predicate],
        first: Combine,
        others: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        for (index, part) in parts.iter().enumerate() {
            self.join(part, if index == 0 { first } else { others }, bitmap)?;
        }
        Ok(())
    }

    /// Joins the rows whose keys a lookup has with a bitmap: the keys are decoded for it.
    fn probe(&mut self, probe: &Probe, how: Combine, bitmap: &Arc<DeviceBuffer>) -> Result<()> {
        if self.is_planned() {
            let kernels = [kernels::PROBE_KEYS.shape(), kernels::JOIN_SELECTED.shape()];
            return self.plan_kernels(&kernels);
        }
        let column = self.columns[probe.join.column];
        let in_column = |error: Error| error.in_column(column.field().name());
        let keys = decode::start(self.stream, column, self.marks).and_then(Pending::finish);
        let keys = keys.map_err(in_column)?;
        let (_, values) = keys.slices();
        let node = Node {
            buffer: Node::only(values[0].pointer()),
            rows: u32::try_from(self.rows)
                .map_err(|_| Error::unsupported("keys of 2^32 rows without NVRTC"))?,
            encoding: Encoding::Plain as u16,
            ..Node::default()
        };
        let table = probe.join.table.on_device(self.context, self.stream)?;
        let found = self.bitmap()?;
        let mut parameters = Parameters::default();
        let at = parameters.push(&[node]);
        let parameters = parameters.upload(self.stream)?;
        let buffers = [values[0].buffer().as_ref(), &parameters];
        let keys = WordDictionaries {
            values: at.within(&parameters),
            count: 1,
            longest: self.rows,
            bits: self.rows,
        };
        select::probe_keys(self.stream, &keys, &buffers, probe, &table, &found)?;
        if column.null_count() > 0 {
            self.test(probe.join.column, &ColumnTest::Valid, Combine::And, &found)?;
        }
        self.join_bitmaps(&found, false, how, bitmap)
    }

    /// Joins the rows that pass a test of one column with a bitmap.
    fn test(
        &mut self,
        column: usize,
        test: &ColumnTest,
        how: Combine,
        bitmap: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let column = self.columns[column];
        let name = column.field().name();
        if self.is_planned() {
            let kernels = select::kernels_of(self.stream, column, test);
            return self.plan_kernels(&kernels.map_err(|error| error.in_column(name))?);
        }
        let report = select::select(self.stream, column, test, how, bitmap, self.marks)
            .map_err(|error| error.in_column(name))?;
        self.reports.push(NamedReport { report, column: name.clone(), first_chunk: 0 });
        Ok(())
    }
}

/// What a row costs, roughly, to say which launch comes first.
fn cost(predicate: &Predicate) -> usize {
    match predicate {
        Predicate::Constant(_) => 0,
        Predicate::IsValid(_) => 1,
        Predicate::Test(_, Test::Words(..)) => 4,
        Predicate::Test(_, Test::Wide(_)) => 8,
        Predicate::Test(_, Test::Bytes(test)) => match test.form {
            BytesForm::OneOf(_) => 8,
            BytesForm::Automaton(_) => 64,
        },
        Predicate::Compare(..) | Predicate::Probe(_) => 16,
        Predicate::All(parts) | Predicate::Any(parts) => parts.iter().map(cost).sum(),
        Predicate::Not(inner) => cost(inner),
    }
}

fn query<'a>(
    columns: &'a [&'a DeviceColumn],
    nodes: &'a [Arc<ColumnNodes>],
    module: &'a dyn Module,
    source: &'a Source,
) -> Query<'a> {
    let Source { nodes: lists, literals, ranges, strings, sets, buffers, .. } = source;
    Query {
        module,
        columns,
        column_nodes: nodes,
        nodes: lists,
        literals,
        ranges,
        strings,
        sets,
        buffers,
        statuses: source.reporting.len(),
        cache_bytes: source.cache_bytes,
        warps: source.warps,
        each: source.each,
    }
}

/// Does `work` with columns in the memory of a device, on a stream. What is wrong with a column is
/// said in the words of the CPU.
pub(super) fn on_columns<T>(
    context: &Arc<Context>,
    columns: &[&DeviceColumn],
    rows: usize,
    marks: &mut dyn Marks,
    work: impl FnOnce(&mut DeviceScan<'_>) -> Result<T>,
) -> Result<T> {
    let on_stream = |stream: &Arc<dyn Stream>| {
        work(&mut DeviceScan::new(context, stream, columns, rows, marks))
    };
    let explained =
        |error| columns.iter().fold(error, |error, column: &&DeviceColumn| column.explained(error));
    context.with_stream(on_stream).map_err(explained)
}

/// Columns as scans read them: those that only the CPU reads, and whose values nothing needs, are replaced by
/// their validity.
pub(super) fn readable<'c>(
    columns: impl Iterator<Item = &'c DeviceColumn>,
    needed: &[bool],
) -> Result<Vec<&'c DeviceColumn>> {
    let column = |(column, is_needed): (&'c DeviceColumn, &bool)| match *is_needed
        || decode::check_decodable(column).is_ok()
    {
        true => Ok(column),
        false => column.validity_column().map_err(|error| error.in_column(column.field().name())),
    };
    columns.zip(needed).map(column).collect()
}

/// For each of `count` columns whether its values are needed: by a predicate, or because they are
/// read.
pub(super) fn needed(predicate: &Predicate, reads: &[usize], count: usize) -> Vec<bool> {
    let mut needed = vec![false; count];
    predicate.values_read(&mut |column| needed[column] = true);
    reads.iter().for_each(|column| needed[*column] = true);
    needed
}

/// How many of the first columns a predicate uses.
pub(super) fn columns_used(predicate: &Predicate) -> usize {
    match predicate {
        Predicate::Constant(_) => 0,
        Predicate::IsValid(column) | Predicate::Test(column, _) => column + 1,
        Predicate::Compare(_, pair, _) => {
            let mut columns = Vec::new();
            pair.iter().for_each(|number| number.columns(&mut columns));
            columns.into_iter().max().map_or(0, |column| column + 1)
        }
        Predicate::Probe(probe) => probe.join.column + 1,
        Predicate::All(parts) | Predicate::Any(parts) => {
            parts.iter().map(columns_used).max().unwrap_or(0)
        }
        Predicate::Not(inner) => columns_used(inner),
    }
}

/// Calls `each` with the columns whose keys a predicate looks up: row by row, where few are left.
fn probed(predicate: &Predicate, each: &mut impl FnMut(usize)) {
    match predicate {
        Predicate::Probe(probe) => each(probe.join.column),
        Predicate::All(parts) | Predicate::Any(parts) => {
            parts.iter().for_each(|part| probed(part, each));
        }
        Predicate::Not(inner) => probed(inner, each),
        _ => {}
    }
}

/// Launches that a predicate takes test by test.
pub(super) fn launches(predicate: &Predicate) -> usize {
    match predicate {
        Predicate::Constant(_) => 0,
        Predicate::Test(..)
        | Predicate::IsValid(_)
        | Predicate::Compare(..)
        | Predicate::Probe(_) => 1,
        Predicate::All(parts) | Predicate::Any(parts) => parts.iter().map(launches).sum(),
        Predicate::Not(inner) => launches(inner),
    }
}

/// Whether numbers are compared that no test of one column is.
fn has_arithmetic(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::Compare(..) => true,
        Predicate::Probe(_) => false,
        Predicate::All(parts) | Predicate::Any(parts) => parts.iter().any(has_arithmetic),
        Predicate::Not(inner) => has_arithmetic(inner),
        Predicate::Constant(_) | Predicate::Test(..) | Predicate::IsValid(_) => false,
    }
}

/// Ranges of wide values that a kernel for a query has literals for.
const MOST_RANGES: usize = 16;

/// Whether one kernel serves all of a predicate.
fn is_fusable(predicate: &Predicate, nodes: &[Arc<ColumnNodes>]) -> bool {
    match predicate {
        Predicate::Constant(_) | Predicate::IsValid(_) | Predicate::Compare(..) => true,
        Predicate::Test(_, Test::Words(..)) | Predicate::Probe(_) => true,
        // Of more words than two there is no arithmetic; ranges are literals of two words.
        Predicate::Test(column, Test::Wide(ranges)) => {
            nodes[*column].lists.len() <= 2 && ranges.as_slice().len() <= MOST_RANGES
        }
        Predicate::Test(_, Test::Bytes(_)) => true,
        Predicate::All(parts) | Predicate::Any(parts) => {
            parts.iter().all(|part| is_fusable(part, nodes))
        }
        Predicate::Not(inner) => is_fusable(inner, nodes),
    }
}

/// Ranges as kernels take them; or, with true, where they have both ends of the order those
/// of what they leave out, which is one less: a vector is looked at once for each range that
/// it meets.
fn shortest(key: Key, ranges: &Ranges<u64>) -> (Vec<Range>, bool) {
    let ranges = ranges.as_slice();
    match ranges {
        [(0, _), .., (_, last)] if *last == key.max() => {
            let gap = |pair: &[(u64, u64)]| Range { low: pair[0].1 + 1, high: pair[1].0 - 1 };
            (ranges.windows(2).map(gap).collect(), true)
        }
        _ => (ranges.iter().map(|(low, high)| Range { low: *low, high: *high }).collect(), false),
    }
}

fn test_of_words(key: Key, ranges: &Ranges<u64>) -> ColumnTest {
    match (key.bits, ranges.contains(0), ranges.contains(1)) {
        (1, false, true) => return ColumnTest::True,
        (1, true, false) => return ColumnTest::False,
        (1, true, true) => return ColumnTest::Valid,
        _ => {}
    }
    match shortest(key, ranges) {
        (gaps, true) => ColumnTest::NotIn(gaps),
        (ranges, false) => ColumnTest::In(ranges),
    }
}
