//! The source of a kernel for one query, written on `kernels/lanepack/scan.cuh`.
//!
//! ```text
//! predicate   a block for each part, entered while a row is left:
//!               all   s1 = s0; if (any(s1)) { .. s1 = s2; } if (any(s1)) { .. s1 = s3; }
//!               any   s1 = 0; s2 = s0; if (any(s2)) { .. s1 |= s3; s2 &= ~s3; } ..
//! bitmap      of one test of bits or numbers: rows are kept in the order of the bitmap, which tests of
//!             runs and differences give
//! strings     last, as the tests of their chunks say, which lie in memory; what is wrong with
//!             them goes to a status word for each test
//! aggregates  one loop over the kept rows for all that need the same columns to be valid
//! ```
//!
//! A source has the shape of a query, not its values: types, operators, which encodings and
//! widths the columns have, and no literal: those are words of the kernel's argument, so
//! that queries of one shape share a kernel. Nothing in it comes from the user, no name and
//! no text.
//!
//! Of widths there is code for those that the columns have when the query comes, 30 ms of
//! NVRTC's time each; a column that has others later is another source.

mod aggregates;
mod filters;
mod groups;
mod joins;
mod lookup;
mod numbers;

use std::fmt::Write;
use std::sync::Arc;

use arrow_buffer::i256;

use crate::decode::nodes::ColumnNodes;
use crate::decode::trees::TreeList;
use crate::error::Result;
use crate::gpu::abi::{Node, Range, Reduction};
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::ranges::{Key, Order, Ranges};
use crate::scan::aggregate::Plan;
pub(super) use groups::{GroupLayout, GroupMemory, GroupWords, SlotMemory};
pub(super) use lookup::LookupTarget;

use crate::scan::device::select::{CodeTests, StringTests, WordType};
use crate::scan::explain::StepOrder;
use crate::scan::expr::Comparison;
use crate::scan::group::Grouping;
use crate::scan::join::{JoinedColumn, Probe};
use crate::scan::lookup::{DeviceTable, NumbersByCode, Table};
use crate::scan::number::{Kind, Number, Width};
use crate::scan::predicate::{BytesForm, BytesTest, Predicate, Test};

/// The variable that has the rows of a vector before any test.
const ROWS: &str = "rows";

/// Shared memory of a block, and what of it a warp takes beside tests and values: for patches and
/// for lengths of strings.
const SHARED: usize = 48 << 10;
const PATCHES: usize = 256;
const LENGTHS: usize = 1152;

/// Shared memory of a warp for tests of leaves; further ones do without.
const MOST_TESTS: usize = SHARED / 8 - PATCHES - LENGTHS;

/// Words of lists of nodes and literals that the argument of a kernel has room for: some
/// 4,000 bytes on all devices.
const MOST_WORDS: usize = 480;

/// A kernel for a query, and what it is started with.
pub(super) struct Source {
    pub text: String,
    /// The order in which it tests rows.
    pub order: StepOrder,
    /// Bytes of lookups in which all rows are looked up.
    pub cache_bytes: usize,
    /// Whether blocks have a table of groups in their shared memory.
    pub has_shared_groups: bool,
    /// The lists of nodes, the first of which has all rows.
    pub nodes: Vec<DevicePtr<Node>>,
    pub literals: Vec<u64>,
    /// Ranges that lie in memory: at which word of the literals their address is missing.
    pub ranges: Vec<(usize, Vec<Range>)>,
    /// Tests of strings and dictionaries: at which word of the literals their address is missing,
    /// and of which column they are.
    pub strings: Vec<(usize, StringTests, usize)>,
    /// Sets of codes, a bit for each: at which word of the literals their address is missing.
    pub sets: Vec<(usize, Vec<u64>)>,
    /// What the literals point to.
    pub buffers: Vec<Arc<DeviceBuffer>>,
    /// Of which column each status word is.
    pub reporting: Vec<usize>,
    /// Shared memory of a warp, at most.
    shared: usize,
    /// Warps of a block, and vectors of a warp at most.
    pub warps: usize,
    pub each: usize,
    /// Partials of a vector, and what becomes of them.
    pub partials: usize,
    pub reductions: Vec<Reduction>,
    /// For each aggregate where its partials are.
    pub places: Vec<Place>,
}

/// The partials of an aggregate: of the number of rows, and of its own from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub count: usize,
    pub first: usize,
    /// Words of a value: 1; of wide sums 3, of wide bounds 2.
    pub words: usize,
}

/// What a kernel gives.
pub(super) enum Output<'a> {
    /// A bitmap.
    Mask,
    Aggregates(&'a [&'a Plan], &'a [Reach]),
    /// Groups, in a table.
    Groups {
        grouping: Grouping<'a>,
        layout: &'a GroupLayout,
        memory: &'a GroupMemory,
    },
    /// A lookup.
    Lookup(&'a LookupTarget<'a>),
}

/// How far integers of an aggregate go: whether 64 bits hold the sum of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Narrow,
    Wide,
}

/// The type that numbers are computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scalar {
    I64,
    I128,
    F32,
    F64,
}

impl Scalar {
    fn of(number: &Number, width: Width) -> Self {
        match (number.kind, width) {
            (Kind::Float32, _) => Self::F32,
            (Kind::Float64, _) => Self::F64,
            (Kind::Exact { .. }, Width::Bits64) => Self::I64,
            (Kind::Exact { .. }, Width::Bits128) => Self::I128,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::F32 => "float",
            Self::F64 => "double",
        }
    }
}

/// The tests of a column's words in ranges.
type WordTests<'a> = dyn Fn(usize, WordType, &[Range]) -> Result<CodeTests> + 'a;

/// What kernels are to know of tests of a column, and of lookups.
#[derive(Clone, Copy)]
pub(super) struct TestsOf<'a> {
    /// Of strings.
    pub strings: &'a dyn Fn(usize, &BytesTest) -> Result<StringTests>,
    /// Of words in ranges where chunks have dictionaries.
    pub words: &'a WordTests<'a>,
    /// Of keys, of codes where chunks have dictionaries.
    pub keys: &'a dyn Fn(usize, &Probe) -> Result<CodeTests>,
    /// The table of a lookup.
    pub tables: &'a dyn Fn(&Table) -> Result<Arc<DeviceTable>>,
    /// The numbers of a column of a lookup.
    pub numbers: &'a dyn Fn(&JoinedColumn) -> Result<NumbersByCode>,
}

/// Writes the source for columns that have the numbers of predicates and aggregates.
///
/// # Errors
/// Those of `tests_of`.
pub(super) fn source(
    columns: &[&ColumnNodes],
    tests_of: TestsOf<'_>,
    predicate: &Predicate,
    output: &Output<'_>,
) -> Result<Source> {
    let mut writer = Writer::new(columns, tests_of);
    let body = writer.body(predicate, output)?;
    Ok(writer.finish(&body))
}

impl Source {
    /// Why no kernel can be made of it, if it takes more than there is room for.
    pub fn too_large(&self) -> Option<String> {
        let words = self.nodes.len() + self.literals.len();
        if self.shared > SHARED {
            return Some(format!(
                "tests and columns take {} bytes of a warp's memory, which has room for {SHARED}: scan \
                 in several steps",
                self.shared
            ));
        }
        (words > MOST_WORDS).then(|| {
            format!(
                "columns and literals take {words} words of a kernel's argument, which has room for \
                 {MOST_WORDS}: scan in several steps"
            )
        })
    }
}

struct Writer<'a> {
    columns: &'a [&'a ColumnNodes],
    tests_of: TestsOf<'a>,
    order: StepOrder,
    nodes: Vec<DevicePtr<Node>>,
    literals: Vec<u64>,
    ranges: Vec<(usize, Vec<Range>)>,
    strings: Vec<(usize, StringTests, usize)>,
    sets: Vec<(usize, Vec<u64>)>,
    buffers: Vec<Arc<DeviceBuffer>>,
    /// Tables of lookups, and the type that looks up keys in them.
    lookups: Vec<(Arc<DeviceTable>, &'static str, Key)>,
    /// Whether keys are looked up, or a lookup is made.
    looks_up: bool,
    /// Bytes of lookups in which all rows are looked up.
    cache_bytes: usize,
    /// Whether keys of few rows are listed.
    lists_keys: bool,
    reporting: Vec<usize>,
    /// Columns whose values are looked at for whether they are outside of their bounds.
    bounded: Vec<usize>,
    /// Readers of lists of trees, by the lists' numbers.
    readers: Vec<(usize, String)>,
    /// What a warp has in shared memory: type, name, and bytes at most.
    scratch: Vec<(String, String, usize)>,
    /// Tests so far.
    tests: usize,
    /// Structs of values that are added up.
    types: String,
    /// What all warps of a block do first and last, and shared memory that they have together.
    begun: String,
    ended: String,
    block_bytes: usize,
    /// What is done before a warp's vectors: tests are prepared, sums begin.
    prepared: String,
    /// What is done with the rows that were listed.
    listed: String,
    /// What is done after them.
    finished: String,
    /// Whether rows are kept by step (`by_step` in `kernels/lanepack/steps.cuh`), as bitmaps have
    /// them, rather than as selections.
    is_by_step: bool,
    /// Whether there is one test, of a column of strings.
    is_test_of_strings: bool,
    /// Whether strings of some chunks are read, not codes alone.
    walks_strings: bool,
    /// Of columns whose chunks have codes or strings the shared memory for lengths.
    lengths: Vec<(usize, String)>,
    /// Of a test of strings of which some are in dictionaries: the list of their roots.
    mixed_strings: Option<usize>,
    /// Variables so far.
    variables: usize,
    partials: usize,
    reductions: Vec<Reduction>,
    places: Vec<Place>,
}

/// Declarations of what a block of code reads values with: step by step of a vector, and with
/// the same names row by row of a chunk.
#[derive(Default)]
struct Readers {
    lines: Vec<String>,
    by_row: Vec<String>,
    /// Whether some only read vectors.
    are_of_vectors: bool,
    /// Whether some only read them step by step.
    have_steps_alone: bool,
}

impl<'a> Writer<'a> {
    fn new(columns: &'a [&'a ColumnNodes], tests_of: TestsOf<'a>) -> Self {
        Self {
            columns,
            tests_of,
            order: StepOrder::default(),
            // A node for each chunk, with its rows.
            nodes: vec![columns[0].rows],
            literals: Vec::new(),
            ranges: Vec::new(),
            strings: Vec::new(),
            sets: Vec::new(),
            buffers: Vec::new(),
            lookups: Vec::new(),
            looks_up: false,
            cache_bytes: 0,
            lists_keys: false,
            reporting: Vec::new(),
            bounded: Vec::new(),
            readers: Vec::new(),
            scratch: Vec::new(),
            tests: 0,
            types: String::new(),
            begun: String::new(),
            ended: String::new(),
            block_bytes: 0,
            prepared: String::new(),
            listed: String::new(),
            finished: String::new(),
            is_by_step: false,
            is_test_of_strings: false,
            walks_strings: false,
            lengths: Vec::new(),
            mixed_strings: None,
            variables: 0,
            partials: 0,
            reductions: Vec::new(),
            places: Vec::new(),
        }
    }

    /// The number of a list of nodes.
    fn list(&mut self, start: DevicePtr<Node>) -> usize {
        let found = self.nodes.iter().position(|known| *known == start);
        found.unwrap_or_else(|| {
            self.nodes.push(start);
            self.nodes.len() - 1
        })
    }

    /// The number of a list of trees, for which the kernel has a reader then.
    fn trees(&mut self, list: &TreeList) -> usize {
        let number = self.list(list.start);
        if !self.readers.iter().any(|(known, _)| *known == number) {
            self.readers.push((number, list.reader()));
        }
        number
    }

    /// What has the fault of a column whose data may turn out to be damaged; `none` of others.
    fn fault(&mut self, column: usize) -> String {
        if !self.columns[column].can_fail() {
            return "none".to_owned();
        }
        format!("fault{}", self.status(column))
    }

    /// The status word of a column.
    fn status(&mut self, column: usize) -> usize {
        let known = self.reporting.iter().position(|known| *known == column);
        known.unwrap_or_else(|| {
            self.reporting.push(column);
            self.reporting.len() - 1
        })
    }

    /// Shared memory of a warp by its name; the same if it is there already.
    fn scratch(&mut self, of: String, name: &str, bytes: usize) -> String {
        if !self.scratch.iter().any(|(_, known, _)| known == name) {
            self.scratch.push((of, name.to_owned(), bytes));
        }
        format!("scratch.{name}")
    }

    /// The number of the first of some words.
    fn literal(&mut self, words: &[u64]) -> usize {
        self.literals.extend_from_slice(words);
        self.literals.len() - words.len()
    }

    fn variable(&mut self) -> String {
        self.variables += 1;
        format!("s{}", self.variables)
    }

    /// What is done for each vector.
    fn body(&mut self, predicate: &Predicate, output: &Output<'_>) -> Result<String> {
        let mut code = String::new();
        match output {
            Output::Mask => {
                self.is_by_step = self.is_one_test(predicate);
                self.is_test_of_strings = matches!(predicate, Predicate::Test(_, Test::Bytes(_)));
                let rows = match self.is_by_step {
                    // Asked for twice rather than kept meanwhile: registers are short.
                    true => "undecided_by_step(args, chunk, vector, rows_by_step(args, place, i))",
                    false => {
                        code += "const u32 rows = undecided(args, chunk, vector, ";
                        code += "rows_within(args, place, i));\n";
                        "rows"
                    }
                };
                let _ =
                    writeln!(code, "if (args.combine != COMBINE_SET && !any({rows})) continue;");
                if self.is_by_step {
                    let found = self.select(predicate, "FULL", &mut code)?;
                    let _ = writeln!(code, "put_by_step(args, chunk, vector, {found} & {rows});");
                } else {
                    let kept = self.select(predicate, rows, &mut code)?;
                    let _ = writeln!(code, "put_mask(args, chunk, vector, {kept});");
                }
            }
            Output::Aggregates(plans, reaches) => {
                code += "const u32 rows = rows_within(args, place, i);\n";
                let kept = self.select(predicate, ROWS, &mut code)?;
                self.aggregates(plans, reaches, &kept, &mut code)?;
            }
            Output::Groups { grouping, layout, memory } => {
                code += "const u32 rows = rows_within(args, place, i);\n";
                let kept = self.select(predicate, ROWS, &mut code)?;
                self.groups(*grouping, layout, memory, &kept, &mut code)?;
            }
            Output::Lookup(target) => {
                code += "const u32 rows = rows_within(args, place, i);\n";
                let kept = self.select(predicate, ROWS, &mut code)?;
                self.lookup_rows(target, &kept, &mut code)?;
            }
        }
        Ok(code)
    }

    fn finish(self, body: &str) -> Source {
        let mut text = String::from("#include \"lanepack/scan.cuh\"\n");
        if self.looks_up {
            text += "#include \"lanepack/select_keys.cuh\"\n";
        }
        if !self.begun.is_empty() || !self.bounded.is_empty() {
            text += "#include \"lanepack/groups.cuh\"\n";
        }
        if self.walks_strings {
            text += "#include \"lanepack/select_strings.cuh\"\n";
        }
        text += "\nnamespace lanepack {\n\n";
        let _ = writeln!(
            text,
            "using Arguments = ScanArguments<{}, {}>;",
            self.nodes.len(),
            self.literals.len().max(1)
        );
        for (number, reader) in &self.readers {
            let _ = writeln!(text, "using Reader{number} = {reader};");
        }
        text += &self.types;
        text += "struct Scratch {\n";
        let mut bytes = PATCHES;
        for (of, name, its) in &self.scratch {
            let _ = writeln!(text, "    {of} {name};");
            // Places of 16 bytes, which some types ask for.
            bytes += its.next_multiple_of(16);
        }
        let room = SHARED - self.block_bytes;
        let warps = [8, 4, 2].into_iter().find(|warps| warps * bytes <= room).unwrap_or(1);
        // No reader uses patches while keys are listed.
        text += match self.lists_keys {
            true => "    union {\n        Patches patches;\n        ListedKeys keys;\n    };\n};\n",
            false => "    Patches patches;\n};\n",
        };
        let _ =
            writeln!(text, "static_assert(sizeof(Scratch) <= {bytes}, \"as the host has it\");\n");
        let is_plain = self.columns.iter().flat_map(|nodes| &nodes.lists).all(TreeList::is_plain);
        let each = match (self.is_test_of_strings && self.walks_strings, is_plain) {
            (true, _) => kernels::SCAN_EACH_STRINGS,
            (false, true) => kernels::SCAN_EACH_PLAIN,
            (false, false) => kernels::SCAN_EACH,
        };
        let blocks = match (self.walks_strings, self.looks_up || !self.begun.is_empty()) {
            (true, _) => "SCAN_BLOCKS_STRINGS",
            (false, true) => "SCAN_BLOCKS_KEYS",
            (false, false) => "SCAN_BLOCKS",
        };
        let _ = writeln!(text, "LANEPACK_KERNEL(scan, {}, {blocks}, Arguments) {{", 32 * warps);
        let _ = writeln!(text, "    LANEPACK_SHARED(Scratch[{warps}], all);");
        text += "    Scratch& scratch = all[warp_in_block()];\n";
        text += "    const u32 chunk = scan_chunk(args);\n";
        let each_of_chunk = match self.mixed_strings.filter(|_| self.is_test_of_strings) {
            Some(strings) => {
                format!(
                    "args.nodes[{strings}][chunk].encoding == DICT ? SCAN_EACH_CODES : args.each"
                )
            }
            None => "args.each".to_owned(),
        };
        let _ = writeln!(text, "    const ScanPlace place(args, {each_of_chunk});");
        text += &self.begun;
        // All warps take part in what a block does at its end.
        let is_early = self.ended.is_empty();
        text += if is_early {
            "    if (place.count == 0) return;\n"
        } else {
            "    if (place.count > 0) {\n"
        };
        text += "    [[maybe_unused]] u32 none = 0;\n";
        for status in 0..self.reporting.len() {
            let _ = writeln!(text, "    u32 fault{status} = 0;");
        }
        text += &self.prepared;
        text += "#pragma unroll 1\n";
        text += "    for (u32 i = 0; i < place.count; i++) {\n";
        text += "        const u32 vector = place.first + i;\n";
        text += body;
        text += "    }\n";
        text += &self.listed;
        text += &self.finished;
        for status in 0..self.reporting.len() {
            let _ = writeln!(text, "    report_fault(args, {status}, chunk, fault{status});");
        }
        text += if is_early { "" } else { "    }\n" };
        text += &self.ended;
        text += "}\n\n}  // namespace lanepack\n";
        let Self {
            order,
            nodes,
            mut literals,
            ranges,
            strings,
            sets,
            buffers,
            reporting,
            partials,
            reductions,
            places,
            ..
        } = self;
        if literals.is_empty() {
            literals.push(0);
        }
        Source {
            text,
            order,
            cache_bytes: self.cache_bytes,
            has_shared_groups: self.block_bytes > 0,
            nodes,
            literals,
            ranges,
            strings,
            sets,
            buffers,
            reporting,
            shared: bytes + self.block_bytes,
            warps,
            each,
            partials,
            reductions,
            places,
        }
    }

    /// Writes what finds the rows that a predicate keeps, of those of variable `live`; the
    /// name of the variable that has them.
    fn select(&mut self, predicate: &Predicate, live: &str, code: &mut String) -> Result<String> {
        let kept = self.variable();
        self.order.enter(predicate);
        match predicate {
            Predicate::Constant(value) => {
                let of = if *value { live } else { "0" };
                let _ = writeln!(code, "const u32 {kept} = {of};");
            }
            Predicate::IsValid(column) => {
                let valid = self.valid(*column);
                let _ = writeln!(code, "const u32 {kept} = {live}{valid};");
            }
            Predicate::Test(column, Test::Wide(ranges))
                if self.columns[*column].lists.len() > 1 =>
            {
                let mut readers = Readers::default();
                let value = self.wide_reader(*column, &mut readers);
                let within = self.within(ranges);
                let test = format!("const i128 value = {value}(at); return {within};");
                self.select_each(&[*column], &readers, &test, live, &kept, code);
            }
            Predicate::Test(column, Test::Bytes(test)) => {
                let rows = self.variable();
                let valid = self.valid(*column);
                let _ = writeln!(code, "const u32 {rows} = {live}{valid};");
                let test = self.strings(*column, test, &rows)?;
                let _ = writeln!(code, "const u32 {kept} = {rows} & {test};");
            }
            Predicate::Test(column, test) => {
                let test = self.test(*column, test)?;
                let valid = self.valid(*column);
                let _ = writeln!(code, "const u32 {kept} = {live} & {test}{valid};");
            }
            Predicate::Compare(comparison, pair, width) => {
                let mut used = Vec::new();
                pair.iter().for_each(|number| number.columns(&mut used));
                let mut readers = Readers::default();
                let left = self.number(&pair[0], *width, &mut readers)?;
                let right = self.number(&pair[1], *width, &mut readers)?;
                let operator = match comparison {
                    Comparison::Equal => "==",
                    Comparison::NotEqual => "!=",
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                let test = format!("return order_key({left}) {operator} order_key({right});");
                self.select_each(&used, &readers, &test, live, &kept, code);
            }
            Predicate::Probe(probe) => self.probe(probe, live, &kept, code)?,
            Predicate::All(parts) => {
                let parts = self.by_cost(parts);
                let Some((first, others)) = parts.split_first() else {
                    unreachable!("of two parts")
                };
                let found = self.select(first, live, code)?;
                let _ = writeln!(code, "u32 {kept} = {found};");
                for part in others {
                    let _ = writeln!(code, "if (any({kept})) {{");
                    let found = self.select(part, &kept, code)?;
                    let _ = writeln!(code, "{kept} = {found};\n}}");
                }
            }
            Predicate::Any(parts) => {
                let left = self.variable();
                let _ = writeln!(code, "u32 {kept} = 0;\nu32 {left} = {live};");
                for part in self.by_cost(parts) {
                    let _ = writeln!(code, "if (any({left})) {{");
                    let found = self.select(part, &left, code)?;
                    let _ = writeln!(code, "{kept} |= {found};\n{left} &= ~{found};\n}}");
                }
            }
            Predicate::Not(inner) => {
                let found = self.select(inner, live, code)?;
                let _ = writeln!(code, "const u32 {kept} = {live} & ~{found};");
            }
        }
        self.order.leave();
        Ok(kept)
    }

    /// Writes what tests the rows one by one in which all of `columns` are valid.
    fn select_each(
        &mut self,
        columns: &[usize],
        readers: &Readers,
        test: &str,
        live: &str,
        kept: &str,
        code: &mut String,
    ) {
        let valid: String = columns.iter().map(|column| self.valid(*column)).collect();
        let rows = self.variable();
        let _ = writeln!(code, "const u32 {rows} = {live}{valid};");
        let _ = writeln!(code, "u32 {kept} = 0;");
        let _ = writeln!(code, "if (any({rows})) {{");
        readers.write(code);
        let _ = writeln!(code, "{kept} = select_each({rows}, [&](u32 at) {{ {test} }});\n}}");
    }

    /// The condition that an `i128 value` lies in ranges.
    fn within(&mut self, ranges: &Ranges<i256>) -> String {
        let end = |value: i128| i256::from_i128(value);
        let all = Ranges::between(end(i128::MIN), end(i128::MAX));
        let narrow = |value: i256| value.to_i128().expect("within 128 bits");
        let tests: Vec<String> = (ranges.intersection(&all).iter())
            .map(|(low, high)| {
                let [low, high] = [low, high].map(|end| self.integer(narrow(end), Scalar::I128));
                format!("(value >= {low} && value <= {high})")
            })
            .collect();
        if tests.is_empty() { "false".to_owned() } else { tests.join(" || ") }
    }

    /// The parts of a predicate, those first that read least.
    fn by_cost<'p>(&self, parts: &'p [Predicate]) -> Vec<&'p Predicate> {
        let mut parts: Vec<&Predicate> = parts.iter().collect();
        parts.sort_by_key(|part| self.cost(part));
        parts
    }

    /// Bits that a row takes, roughly.
    fn cost(&self, predicate: &Predicate) -> u32 {
        let bits = |column: usize| self.columns[column].lists.iter().map(TreeList::bits).sum();
        match predicate {
            Predicate::Constant(_) => 0,
            Predicate::IsValid(_) => 1,
            // The lengths at least; a code costs more than its bits.
            Predicate::Test(column, Test::Bytes(test)) => {
                8 * bits(*column)
                    + if matches!(test.form, BytesForm::Automaton(_)) { 1024 } else { 64 }
            }
            Predicate::Test(column, _) => bits(*column),
            Predicate::Compare(_, pair, _) => {
                let mut used = Vec::new();
                pair.iter().for_each(|number| number.columns(&mut used));
                let mut joined = Vec::new();
                pair.iter().for_each(|number| number.joined_columns(&mut joined));
                // Value by value is slower than in packed words, and entries are slower than bits.
                let of_columns: u32 = used.into_iter().map(|column| 2 * bits(column)).sum();
                of_columns + 256 * joined.len() as u32
            }
            // A row that is tested costs about as much as one that is read, whatever its bits; tests
            // that keep few rows come first.
            Predicate::Probe(probe) => {
                let kept = probe.share().clamp(0.0, 0.99);
                (f64::from(64 + 2 * bits(probe.join.column)) / (1.0 - kept)) as u32
            }
            Predicate::All(parts) | Predicate::Any(parts) => {
                parts.iter().map(|part| self.cost(part)).sum()
            }
            Predicate::Not(inner) => self.cost(inner),
        }
    }

    /// Whether a predicate is one test of one column, of bits or of numbers of one word.
    fn is_one_test(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::IsValid(_) | Predicate::Test(_, Test::Words(..)) => true,
            Predicate::Test(column, Test::Wide(_)) => self.columns[*column].lists.len() == 1,
            _ => false,
        }
    }

    /// What leaves the valid rows of a column: nothing, where all are.
    fn valid(&mut self, column: usize) -> String {
        let Some(list) = self.columns[column].validity.clone() else { return String::new() };
        let (number, fault) = (self.trees(&list), self.fault(column));
        let tree = tree(number, &list);
        // One for all places that ask.
        let name = format!("valid{number}");
        let is_new = !self.scratch.iter().any(|(_, known, _)| *known == name);
        let test =
            self.scratch(format!("Reader{number}::Test<SCAN_EACH>"), &name, list.test_bytes());
        if is_new {
            let _ = writeln!(
                self.prepared,
                "    {test}.prepare({tree}, place.first, place.count, is_set());"
            );
        }
        let form = self.form();
        format!(
            " & {form}<Reader{number}>({test}.select({tree}, vector, i, is_set(), scratch.patches, \
             {fault}))"
        )
    }

    /// The function that makes of verdicts what rows are kept as.
    fn form(&self) -> &'static str {
        if self.is_by_step { "by_step_of" } else { "selection_of" }
    }
}

impl Readers {
    /// A variable of a type, made of something; the same one if it is there already.
    fn declare(&mut self, name: String, of: String, from: String) -> String {
        let line = format!("const {of} {name}({from});");
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
        name
    }

    /// The same to read it row by row.
    fn declare_by_row(&mut self, line: String) {
        if !self.by_row.contains(&line) {
            self.by_row.push(line);
        }
    }

    fn write(&self, code: &mut String) {
        for line in &self.lines {
            let _ = writeln!(code, "{line}");
        }
    }
}

/// The tree of the block's chunk, of a list.
fn tree(number: usize, list: &TreeList) -> String {
    match list.stride {
        1 => format!("args.nodes[{number}] + chunk"),
        stride => format!("args.nodes[{number}] + chunk * {stride}"),
    }
}

fn order_name(order: Order) -> &'static str {
    match order {
        Order::Unsigned => "UNSIGNED",
        Order::Signed => "SIGNED",
        Order::Float => "FLOAT",
    }
}
