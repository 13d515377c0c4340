//! Builds the key table of a lookup on a GPU, of the rows that a scan keeps: see `scan/lookup/build.rs`.

use std::sync::Arc;

use super::select::Report;
use super::source::{LookupTarget, Output};
use super::{DeviceScan, MadeKernel};
use crate::device::parameters::Parameters;
use crate::device::status::StatusWords;
use crate::error::Result;
use crate::gpu::abi::{LookupMemory, RemapArguments, RemappedField};
use crate::gpu::{DeviceBuffer, Launch, Stream, kernels};
use crate::ranges::Key;
use crate::scan::bounds_on_device;
use crate::scan::group::{GroupKey, KeySource};
use crate::scan::lookup::{Built, code_bits, entry_bytes, hashed_slots, is_dense};
use crate::scan::predicate::Predicate;

/// Codes that a column of strings may have: the host looks at each.
const MOST_CODES: u128 = 1 << 20;
/// The same of a column of numbers.
const MOST_NUMBERS: u128 = 1 << 16;

impl DeviceScan<'_> {
    pub fn stream(&self) -> &Arc<dyn Stream> {
        self.stream
    }

    /// Gives strings among keys the codes that the columns' dictionaries have; false if some have none.
    pub fn code_strings<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k mut GroupKey>,
    ) -> Result<bool> {
        if self.stages()?.is_some() {
            return Ok(keys.all(|key| !matches!(key.source, KeySource::Strings { .. })));
        }
        let mut have_codes = true;
        for key in keys {
            let KeySource::Strings { column, .. } = key.source else { continue };
            let column = self.columns[column];
            let codes = column.string_codes(self.stream);
            let codes = codes.map_err(|error| error.in_column(column.field().name()))?;
            have_codes &= codes.is_some();
            key.with_codes(codes);
        }
        Ok(have_codes)
    }

    /// A table of the kept rows by a column of keys, with the codes of some columns; none if keys are not
    /// close together, or there are too many codes. Waits for it.
    pub fn build_lookup(
        &mut self,
        predicate: &Predicate,
        (column, key): (usize, Key),
        columns: &[GroupKey],
    ) -> Result<Option<Built>> {
        if self.rows == 0 || self.stages()?.is_some() {
            return Ok(None);
        }
        let most = |column: &GroupKey| match column.source {
            KeySource::Words { .. } | KeySource::Number { .. } => MOST_NUMBERS,
            _ => MOST_CODES,
        };
        if columns.iter().any(|column| column.codes() > most(column)) {
            return Ok(None);
        }
        let (mut shifts, mut shift) = (Vec::with_capacity(columns.len()), 0);
        for column in columns {
            shifts.push(shift);
            shift += code_bits(column.codes() as usize);
        }
        let (low, high) = bounds_on_device(self.columns[column]);
        let end = |end: arrow_buffer::i256| end.to_i128().and_then(|end| i64::try_from(end).ok());
        let (Some(least), Some(greatest)) = (end(low), end(high)) else { return Ok(None) };
        let span = (greatest.wrapping_sub(least) as u64).wrapping_add(1);
        let from_bytes = entry_bytes(shift);
        if shift > 64 || !is_dense(span, hashed_slots(self.rows), from_bytes) {
            return Ok(None);
        }

        let bits = self.zeros((span as usize + 1).div_ceil(64) * 8)?;
        let entries = self.zeros(span as usize * from_bytes)?;
        let all_codes: usize = columns.iter().map(|column| column.codes() as usize).sum();
        // The status words of the kernel are behind.
        let of_status = (16 + all_codes).next_multiple_of(8);
        let status = self.zeros(of_status + 8 * self.columns.len())?;
        self.stream.fill(&status, 8, 8, 0xff)?;
        let memory = LookupMemory {
            bits: bits.pointer(),
            entries: entries.pointer(),
            least: least as u64,
            span,
            status: status.pointer(),
            used: status.pointer_at(16),
        };
        let target = LookupTarget {
            memory,
            column,
            key,
            columns,
            shifts: &shifts,
            entry_bytes: from_bytes,
            buffers: [&bits, &entries, &status],
        };
        let Some((made, words)) = self.build(predicate, &target, of_status)? else {
            return Ok(None);
        };
        let mut found = vec![0_u64; of_status / 8 + words.count()];
        self.stream.download(&status, 0, bytemuck::cast_slice_mut(&mut found))?;
        words.set(&found[of_status / 8..]);
        self.check_reports(&made, Report::of_each(&words))?;
        let [len, twice] = [found[0], found[1]];
        let twice = Some(twice).filter(|place| *place != u64::MAX);
        let found: &[u8] = bytemuck::cast_slice(&found);
        let mut used = &found[16..16 + all_codes];
        let mut codes = Vec::with_capacity(columns.len());
        for column in columns {
            let (own, others) = used.split_at(column.codes() as usize);
            let own = own.iter().enumerate().filter(|(_, used)| **used != 0);
            codes.push(own.map(|(code, _)| code as u32).collect::<Vec<u32>>());
            used = others;
        }
        let (entries, entry_bytes) =
            self.remapped(entries, span as usize, from_bytes, columns, &shifts, &codes)?;
        let bounds = (least, greatest);
        let twice = twice.map(|place| least.wrapping_add(place as i64));
        let len = len as usize;
        Ok(Some(Built { bits, entries, entry_bytes, bounds, len, twice, codes }))
    }

    pub(super) fn zeros(&self, bytes: usize) -> Result<Arc<DeviceBuffer>> {
        let buffer = self.stream.allocate(bytes)?;
        self.stream.fill(&buffer, 0, bytes, 0)?;
        Ok(Arc::new(buffer))
    }

    /// Starts to add the kept rows to a table, with status words in the target's from byte `at` on; none if
    /// no kernel does.
    fn build(
        &mut self,
        predicate: &Predicate,
        target: &LookupTarget<'_>,
        at: usize,
    ) -> Result<Option<(MadeKernel, Arc<StatusWords>)>> {
        let columns = target.columns.iter().flat_map(GroupKey::columns);
        let reads = std::iter::once(target.column).chain(columns);
        let output = Output::Lookup(target);
        let Ok(made) = self.made(predicate, reads, None, &output)? else { return Ok(None) };
        let [_, _, status] = target.buffers;
        let count = made.source.reporting.len();
        let status = Arc::new(StatusWords::within(self.stream, status, at, count)?);
        let query = made.query(self.columns);
        query.rows(self.stream, made.within(), &target.buffers, &status, self.marks)?;
        Ok(Some((made, status)))
    }

    /// Entries of the codes alone that rows have.
    fn remapped(
        &mut self,
        entries: Arc<DeviceBuffer>,
        count: usize,
        from_bytes: usize,
        columns: &[GroupKey],
        shifts: &[u32],
        codes: &[Vec<u32>],
    ) -> Result<(Arc<DeviceBuffer>, usize)> {
        let are_all =
            columns.iter().zip(codes).all(|(of, codes)| of.codes() == codes.len() as u128);
        if are_all {
            return Ok((entries, from_bytes));
        }
        let bits: u32 = codes.iter().map(|codes| code_bits(codes.len())).sum();
        let to_bytes = entry_bytes(bits);
        let to = self.zeros(count * to_bytes)?;
        if to_bytes == 0 {
            return Ok((to, 0));
        }
        let mut parameters = Parameters::default();
        let fields = parameters.reserve::<RemappedField>(columns.len());
        let tables: Vec<_> = (columns.iter().zip(codes))
            .map(|(column, codes)| {
                let mut table = vec![0_u32; column.codes() as usize];
                for (new, old) in codes.iter().enumerate() {
                    table[*old as usize] = new as u32;
                }
                parameters.push(&table)
            })
            .collect();
        let buffer = parameters.allocate(self.stream)?;
        let mut to_shift = 0;
        let mut list = Vec::with_capacity(columns.len());
        for (((column, codes), from), table) in columns.iter().zip(codes).zip(shifts).zip(tables) {
            let mask = (1_u64 << code_bits(column.codes() as usize)) - 1;
            list.push(RemappedField {
                codes: table.within(&buffer),
                from_shift: (*from).min(63).into(),
                mask,
                to_shift: u64::from(to_shift),
            });
            to_shift += code_bits(codes.len());
        }
        list.iter_mut().for_each(|field| field.to_shift = field.to_shift.min(63));
        parameters.fill(fields, &list);
        parameters.copy_to(self.stream, &buffer)?;
        let kernel = kernels::REMAP_ENTRIES;
        let arguments = RemapArguments {
            from: entries.pointer(),
            to: to.pointer(),
            fields: fields.within(&buffer),
            count: count as u64,
            field_count: columns.len() as u32,
            from_bytes: from_bytes as u32,
            to_bytes: to_bytes as u32,
            zero: 0,
        };
        let buffers = [entries.as_ref(), to.as_ref(), &buffer];
        self.marks.mark(self.stream, "")?;
        let blocks = count.div_ceil(kernel.block);
        self.stream.launch(&Launch::new(kernel, blocks, &arguments, &buffers))?;
        self.marks.mark(self.stream, kernel.name)?;
        Ok((to, to_bytes))
    }
}
