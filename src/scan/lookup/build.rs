//! Lookups of batches in GPU memory, built on the GPU.
//!
//! ```text
//! kernel     filter; of each kept row the bit of its key, and an entry of the codes of its columns
//! host       keys that come twice; of each column the codes that rows have, and their values
//! kernel     entries with these codes alone, without gaps
//! ```
//!
//! Columns have the codes that they have as keys of groups (`scan/group/key.rs`): the difference from the
//! least value, or the number in a dictionary of all chunks. The host builds lookups of other columns
//! (floats, numbers of a wide range, strings without dictionaries) and of keys that are far apart.

use std::sync::Arc;

use super::keys::KeyTable;
use super::{
    DeviceTable, DeviceTables, Keys, Lookup, LookupColumn, Table, check_names, code_bits,
    comes_twice, entry_bytes, is_key_type,
};
use crate::device::Context;
use crate::error::Result;
use crate::gpu::abi::DenseKeys;
use crate::gpu::{DeviceBuffer, Event};
use crate::ranges::Key;
use crate::scan::bind::{Binder, Named};
use crate::scan::expr::Expr;
use crate::scan::group::{GroupKey, KeySource};
use crate::scan::{Scan, bounds_on_device};

/// The key table that a device has built of the rows of a scan.
pub(crate) struct Built {
    /// A bit for each key from the least one on, and one more.
    pub bits: Arc<DeviceBuffer>,
    pub entries: Arc<DeviceBuffer>,
    pub entry_bytes: usize,
    /// Keys that there is room for, both included.
    pub bounds: (i64, i64),
    /// Number of keys.
    pub len: usize,
    /// A key that comes twice.
    pub twice: Option<i64>,
    /// Of each column the codes that rows have, in their order.
    pub codes: Vec<Vec<u32>>,
}

/// A key table in the memory of the device that has built it.
pub(super) struct BuiltTable {
    context: Arc<Context>,
    bits: Arc<DeviceBuffer>,
    entries: Arc<DeviceBuffer>,
    entry_bytes: usize,
    pub bounds: (i64, i64),
    pub len: usize,
    ready: Arc<dyn Event>,
}

impl BuiltTable {
    pub fn bytes(&self) -> usize {
        self.bits.len() + self.entries.len()
    }

    /// The same as kernels have it.
    fn on_device(&self) -> DeviceTable {
        let (least, greatest) = self.bounds;
        let keys = DenseKeys {
            bits: self.bits.pointer(),
            entries: self.entries.pointer(),
            least: least as u64,
            span: (greatest.wrapping_sub(least) as u64).wrapping_add(1),
        };
        let buffers = vec![self.bits.clone(), self.entries.clone()];
        DeviceTable::of_dense(keys, self.entry_bytes, buffers, self.ready.clone())
    }

    /// The same in host memory.
    pub fn download(&self) -> Result<KeyTable> {
        self.context.with_stream(|stream| {
            stream.wait(self.ready.as_ref())?;
            let mut bits = vec![0_u64; self.bits.len() / 8];
            stream.download(&self.bits, 0, bytemuck::cast_slice_mut(&mut bits))?;
            let mut entries = vec![0; self.entries.len()];
            stream.download(&self.entries, 0, &mut entries)?;
            let (bounds, len) = (self.bounds, self.len);
            Ok(KeyTable::from_dense(bounds, len, bits, &entries, self.entry_bytes))
        })
    }
}

/// The key and the other columns of a lookup, with the number of the key's column.
struct Asked {
    column: usize,
    key: Key,
    columns: Vec<GroupKey>,
}

impl Asked {
    /// None if keys of the type are not looked up.
    fn of(names: &[&str], binder: &mut Binder<'_>) -> Result<Option<Self>> {
        let Named::Column(column, data_type) = binder.named(names[0])? else { return Ok(None) };
        let Some(key) = Key::of(data_type).filter(|_| is_key_type(data_type)) else {
            return Ok(None);
        };
        let mut columns = Vec::with_capacity(names.len() - 1);
        for name in &names[1..] {
            // The host builds lookups of columns that rows are not grouped by.
            let Ok(column) = GroupKey::new(&Expr::Column((*name).into()), binder) else {
                return Ok(None);
            };
            columns.push(column);
        }
        Ok(Some(Self { column, key, columns }))
    }

    fn reads(asked: &Option<Self>) -> Vec<usize> {
        let Some(asked) = asked else { return Vec::new() };
        let columns = asked.columns.iter().flat_map(GroupKey::columns);
        std::iter::once(asked.column).chain(columns).collect()
    }
}

impl Scan<'_> {
    /// The lookup by the first of some columns, with the others, of a batch in GPU memory; none if the
    /// host is to make it.
    pub(super) fn lookup_on_device(
        &self,
        context: &Arc<Context>,
        names: &[&str],
    ) -> Result<Option<Lookup>> {
        check_names(names[1..].iter().copied())?;
        let asked = |binder: &mut Binder<'_>| Asked::of(names, binder);
        self.on(context, asked, Asked::reads, &mut (), |scan, predicate, asked| {
            let Some(Asked { column, key, mut columns }) = asked else { return Ok(None) };
            let of = scan.columns;
            let bounds =
                |column: usize| (bounds_on_device(of[column]), of[column].null_count() > 0);
            if !scan.code_strings(columns.iter_mut())? {
                return Ok(None);
            }
            columns.iter_mut().try_for_each(|column| column.fit(&bounds, scan.rows))?;
            let Some(built) = scan.build_lookup(predicate, (column, key), &columns)? else {
                return Ok(None);
            };
            let field = of[column].field().clone();
            if let Some(twice) = built.twice {
                return Err(comes_twice(twice, field.name()));
            }
            let (mut shift, mut all) = (0, Vec::with_capacity(columns.len()));
            for (column, codes) in columns.iter().zip(&built.codes) {
                let offset = u64::from(column.has_nulls);
                let codes: Vec<Option<u64>> =
                    codes.iter().map(|code| u64::from(*code).checked_sub(offset)).collect();
                let field = match &column.source {
                    KeySource::Joined(joined) => joined.field(),
                    _ => of[column.columns()[0]].field().clone(),
                };
                let made = LookupColumn::new(field, column.array(&codes)?, shift);
                shift += code_bits(codes.len());
                all.push(made);
            }
            debug_assert_eq!(entry_bytes(shift), built.entry_bytes, "as the kernel has made them");
            let share = built.len as f64 / scan.rows.max(1) as f64;
            let table = BuiltTable {
                context: context.clone(),
                bits: built.bits,
                entries: built.entries,
                entry_bytes: built.entry_bytes,
                bounds: built.bounds,
                len: built.len,
                ready: scan.stream().record()?,
            };
            let on_devices = DeviceTables::with(context, table.on_device());
            let keys = Keys::on_device(table);
            Ok(Some(Lookup(Arc::new(Table { key: field, keys, columns: all, share, on_devices }))))
        })
    }
}
