//! Lookups: tables of keys that scans are joined with.
//!
//! ```text
//! dimension        key  name    year            lookup
//!                  17   ASIA    1993            keys      17 -> entry 0b0_01, 19 -> entry 0b1_00, ..
//!                  19   EUROPE  1992            columns   year  values 1992 1993    bits 0
//!                  ..                                     name  values ASIA EUROPE  bit  2
//! ```
//!
//! Each column besides the key has a dictionary; an entry is made of the codes of a row, so that a row
//! of the scan finds all that it needs in one access, of as few bytes as hold the codes. Groups are
//! numbered by codes, tests of a column become sets of codes, and values are looked up for results
//! only.

mod build;
mod device;
mod keys;

use std::fmt;
use std::sync::{Arc, OnceLock};

use ahash::RandomState;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_buffer::i256;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, FieldRef, Schema};
use hashbrown::HashTable;

pub(crate) use build::Built;
use build::BuiltTable;
use device::DeviceTables;
pub(crate) use device::{DeviceTable, NumbersByCode};
use keys::KeyTable;
pub(crate) use keys::{NarrowKeys, entry_bytes, hashed_slots, is_dense};

use super::Scan;
use super::bind::no_column;
use super::literal::{self, Value};
use crate::batch;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::ranges::{Key, Order};

/// Unique keys of a dimension and values of its other columns, which scans are joined with:
/// [`Scan::join`] and its like.
///
/// Cheap to clone; clones share the table.
///
/// ```
/// use arrow_array::record_batch;
/// use lanepack::scan::{Lookup, Scan, col, count_rows};
/// use lanepack::{Engine, Options, compress};
///
/// let engine = Engine::cpu();
/// let customers = record_batch!(
///     ("customer", Int64, [10, 11, 12]),
///     ("city", Utf8, ["Oslo", "Rome", "Oslo"])
/// )?;
/// let orders = record_batch!(("buyer", Int64, [12, 10, 11, 10, 99]))?;
/// let (customers, orders) =
///     (compress(&customers, &Options::default())?, compress(&orders, &Options::default())?);
///
/// let customers = Scan::new(&customers).lookup("customer", &["city"], &engine)?;
/// let joined = Scan::new(&orders).join(col("buyer"), &customers);
/// assert_eq!(joined.clone().filter(col("city").eq("Oslo")).count(&engine)?, 3);
/// let by_city = joined.group_by([col("city")]).aggregate(&[count_rows()], &engine)?;
/// let expected = record_batch!(("city", Utf8, ["Oslo", "Rome"]), ("count(*)", Int64, [3, 1]))?;
/// assert_eq!(by_city.columns(), expected.columns());
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Clone)]
pub struct Lookup(Arc<Table>);

/// What clones of a lookup share.
pub(crate) struct Table {
    /// The column of the keys.
    pub key: FieldRef,
    pub keys: Keys,
    pub columns: Vec<LookupColumn>,
    /// The share of the rows of its source that it has.
    pub share: f64,
    on_devices: DeviceTables,
}

/// The keys of a lookup, with their entries: in host memory, or in that of the device that has found them,
/// from which they are copied if the host asks for them.
pub(crate) struct Keys {
    len: usize,
    /// Bounds of all keys; of tables that a device has built those of the key column of all rows.
    bounds: Option<(i64, i64)>,
    bytes: usize,
    host: OnceLock<KeyTable>,
    device: Option<BuiltTable>,
}

impl Keys {
    fn on_host(table: KeyTable) -> Self {
        let (len, bounds, bytes) = (table.len(), table.bounds(), table.bytes());
        Self { len, bounds, bytes, host: table.into(), device: None }
    }

    fn on_device(table: BuiltTable) -> Self {
        let (len, bounds, bytes) = (table.len, Some(table.bounds), table.bytes());
        Self { len, bounds, bytes, host: OnceLock::new(), device: Some(table) }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bounds of all keys; none if there are no keys.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        self.bounds
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are keys below 0.
    ///
    /// # Errors
    /// As [`Keys::table`].
    pub fn has_negative(&self) -> Result<bool> {
        match self.bounds {
            Some((least, _)) if least < 0 => Ok(self.table()?.may_have(i64::MIN, -1)),
            _ => Ok(false),
        }
    }

    /// Whether a key may lie between two numbers, both included. By the table, if it is in host memory.
    pub fn may_have(&self, low: i64, high: i64) -> bool {
        match (self.host.get(), self.bounds) {
            (Some(table), _) => table.may_have(low, high),
            (None, Some((least, greatest))) => low <= greatest && least <= high,
            (None, None) => false,
        }
    }

    /// The table in host memory.
    ///
    /// # Errors
    /// [`Error::Device`] if it cannot be copied.
    pub fn table(&self) -> Result<&KeyTable> {
        if let Some(table) = self.host.get() {
            return Ok(table);
        }
        let device = self.device.as_ref().expect("on the host or on a device");
        let table = device.download()?;
        Ok(self.host.get_or_init(|| table))
    }
}

/// A column besides the key, whose codes are a field of entries.
pub(crate) struct LookupColumn {
    pub field: FieldRef,
    /// The distinct values by code, a null among them if the column has some.
    pub values: ArrayRef,
    /// The first bit of the field, and its bits.
    pub shift: u32,
    bits: u32,
    /// The code of null, if there is one.
    pub null: Option<usize>,
    numbers: OnceLock<Numbers>,
    /// The values, compressed, for tests of them.
    compressed: OnceLock<RecordBatch>,
}

/// Numbers by code; 0 for null.
pub(crate) enum Numbers {
    /// Integers, or the digits of decimals.
    Integers(Vec<i128>),
    Floats(Vec<f64>),
}

/// Bits of the codes of so many values.
pub(crate) fn code_bits(values: usize) -> u32 {
    values.saturating_sub(1).checked_ilog2().map_or(0, |bits| bits + 1)
}

impl LookupColumn {
    /// A column of some values, whose codes begin at bit `shift`.
    fn new(field: FieldRef, values: ArrayRef, shift: u32) -> Self {
        let nulls = values.logical_nulls();
        let null = nulls.and_then(|nulls| (0..nulls.len()).find(|code| nulls.is_null(*code)));
        let (bits, numbers, compressed) =
            (code_bits(values.len()), OnceLock::new(), OnceLock::new());
        Self { field, values, shift, bits, null, numbers, compressed }
    }

    /// The code of a row, given its entry.
    pub fn code(&self, entry: u64) -> usize {
        // A field of no bits may begin behind the last one.
        (entry.checked_shr(self.shift).unwrap_or(0) & self.mask()) as usize
    }

    /// The bits of the field, at the place of bit 0.
    pub fn mask(&self) -> u64 {
        bits_below(self.bits)
    }

    /// The values as numbers; 0 of other types.
    pub fn numbers(&self) -> &Numbers {
        self.numbers.get_or_init(|| {
            let key = Key::of(self.field.data_type());
            let value = |code: usize| match Some(code) == self.null {
                true => None,
                false => literal::value_of(&self.values, code),
            };
            let values = (0..self.values.len()).map(value);
            match key.filter(|key| key.is_float()) {
                Some(key) => Numbers::Floats(
                    (values.map(|value| match value {
                        Some(Value::Word(word)) => key.float(word),
                        _ => 0.0,
                    }))
                    .collect(),
                ),
                None => Numbers::Integers(
                    (values.map(|value| match (value, key) {
                        (Some(Value::Word(word)), Some(key)) => key.integer(word),
                        (Some(Value::Wide(value)), _) => value.as_i128(),
                        _ => 0,
                    }))
                    .collect(),
                ),
            }
        })
    }

    /// The least and the greatest of integers; one if there is none, for then nothing is computed.
    pub fn bounds(&self) -> Option<(i256, i256)> {
        let Numbers::Integers(values) = self.numbers() else { return None };
        let valid = || {
            let values = values.iter().enumerate().filter(|(code, _)| Some(*code) != self.null);
            values.map(|(_, value)| *value)
        };
        let [least, greatest] =
            [valid().min(), valid().max()].map(|end| i256::from_i128(end.unwrap_or(1)));
        Some((least, greatest))
    }

    /// The values as a compressed batch of one column.
    pub fn compressed(&self) -> Result<&RecordBatch> {
        if let Some(compressed) = self.compressed.get() {
            return Ok(compressed);
        }
        let schema = Arc::new(Schema::new(vec![self.field.clone()]));
        let values = RecordBatch::try_new(schema, vec![self.values.clone()])?;
        let compressed = batch::compress_here(&values, &Options::default())?;
        Ok(self.compressed.get_or_init(|| compressed))
    }
}

fn bits_below(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits).unwrap_or(0)
}

impl Lookup {
    /// A lookup of the rows of a batch by one of its columns: integers, dates, times, timestamps or
    /// durations. Rows without a key are left out.
    ///
    /// # Errors
    /// [`Error::Expression`] if there is no such column, or a key comes twice; [`Error::Unsupported`]
    /// for keys of other types, and columns whose distinct values take more than 64 bits together.
    pub fn try_new(batch: &RecordBatch, key: &str) -> Result<Self> {
        let schema = batch.schema();
        let at = schema.index_of(key).map_err(|_| no_column(key, schema.fields().iter()))?;
        let columns: Vec<usize> = (0..batch.num_columns()).filter(|index| *index != at).collect();
        Self::of(batch, at, &columns, batch.num_rows())
    }

    /// A lookup by column `key`, with some others, of some of `all` rows.
    fn of(batch: &RecordBatch, key: usize, others: &[usize], all: usize) -> Result<Self> {
        // Rows without a key are nowhere, nor are their values.
        let (keyed, schema) = (batch.column(key).logical_nulls(), batch.schema());
        let batch = match keyed.filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => {
                let keyed = BooleanArray::new(nulls.inner().clone(), None);
                &arrow_select::filter::filter_record_batch(batch, &keyed)?
            }
            None => batch,
        };
        let array = batch.column(key);
        let field = schema.fields()[key].clone();
        let name = field.name();
        if !is_key_type(field.data_type()) {
            let what = format!(
                "keys of type {}: integers, dates, times, timestamps and durations can be looked up",
                field.data_type()
            );
            return Err(Error::unsupported(what).in_column(name));
        }
        let keys = keys_of(array);
        if keys.iter().filter(|key| key.is_none()).count() > array.logical_null_count() {
            let what = "keys above 2^63 - 1, which are not looked up";
            return Err(Error::unsupported(what).in_column(name));
        }
        check_names(others.iter().map(|other| schema.field(*other).name().as_str()))?;
        let mut entries = vec![0_u64; keys.len()];
        let (mut columns, mut shift) = (Vec::with_capacity(others.len()), 0);
        for other in others {
            let field = schema.fields()[*other].clone();
            let (codes, values) =
                distinct(batch.column(*other)).map_err(|error| error.in_column(field.name()))?;
            let bits = code_bits(values.len());
            if shift + bits > 64 {
                let what =
                    "columns whose codes take more than 64 bits together: look up fewer columns";
                return Err(Error::unsupported(what).in_column(field.name()));
            }
            for (entry, code) in entries.iter_mut().zip(codes) {
                // A field of no bits is nowhere.
                *entry |= u64::from(code).checked_shl(shift).unwrap_or(0);
            }
            columns.push(LookupColumn::new(field, values, shift));
            shift += bits;
        }
        let rows = keys.into_iter().zip(entries);
        let (keys, entries): (Vec<i64>, Vec<u64>) =
            rows.filter_map(|(key, entry)| Some((key?, entry))).unzip();
        let keys = KeyTable::new(&keys, &entries, shift)
            .map_err(|keys::DuplicateKey(key)| comes_twice(key, name))?;
        let keys = Keys::on_host(keys);
        let share = keys.len() as f64 / all.max(1) as f64;
        Ok(Self(Arc::new(Table {
            key: field,
            keys,
            columns,
            share,
            on_devices: DeviceTables::default(),
        })))
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.0.keys.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column of the keys.
    pub fn key(&self) -> &FieldRef {
        &self.0.key
    }

    /// The other columns, whose names scans that are joined with this may use.
    pub fn columns(&self) -> impl Iterator<Item = &FieldRef> {
        self.0.columns.iter().map(|column| &column.field)
    }

    /// Bytes of memory that the keys and the codes take, where the lookup was made.
    pub fn table_bytes(&self) -> usize {
        self.0.keys.bytes()
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.0
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> = self.columns().map(|field| field.name()).collect();
        (f.debug_struct("Lookup").field("key", self.key().name()))
            .field("keys", &self.len())
            .field("columns", &columns)
            .finish()
    }
}

impl Scan<'_> {
    /// A lookup of the rows that are kept, by column `key`, with some other columns.
    ///
    /// Of a batch in GPU memory the GPU builds the lookup if the keys are close together, and the other
    /// columns are numbers of a small range or strings that are stored by dictionaries.
    ///
    /// # Errors
    /// As [`Scan::gather`] and [`Lookup::try_new`].
    pub fn lookup<S: AsRef<str>>(
        &self,
        key: &str,
        columns: &[S],
        engine: &Engine,
    ) -> Result<Lookup> {
        let names: Vec<&str> =
            std::iter::once(key).chain(columns.iter().map(AsRef::as_ref)).collect();
        if let Some(context) = self.resident(engine)?
            && let Some(lookup) = self.lookup_on_device(context, &names)?
        {
            return Ok(lookup);
        }
        let batch = self.gather(&names, engine)?;
        Lookup::of(&batch, 0, &(1..names.len()).collect::<Vec<_>>(), self.source_rows())
    }
}

/// The error of a key that two rows have.
fn comes_twice(key: i64, name: &str) -> Error {
    let what =
        format!("key {key} of column {name:?} comes twice: rows of a lookup need unique keys");
    Error::expression(what)
}

/// Checks that columns have names of their own.
fn check_names<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Result<()> {
    for (at, name) in names.clone().enumerate() {
        if names.clone().take(at).any(|before| before == name) {
            return Err(Error::expression(format!("more than one column is called {name:?}")));
        }
    }
    Ok(())
}

/// Whether values of a type may be keys.
pub(super) fn is_key_type(data_type: &DataType) -> bool {
    use DataType as T;
    let is_decimal = matches!(data_type, T::Decimal32(..) | T::Decimal64(..));
    let key = Key::of(data_type).filter(|_| !is_decimal);
    key.is_some_and(|key| key.bits >= 8 && key.order != Order::Float)
}

/// The keys of an array of such a type; none of nulls, and of numbers above 2^63 - 1, which no lookup
/// has.
pub(super) fn keys_of(array: &ArrayRef) -> Vec<Option<i64>> {
    let (data, rows) = (array.to_data(), array.len());
    let nulls = array.logical_nulls();
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    macro_rules! read {
        ($type:ty) => {{
            let values = data.buffer::<$type>(0)[..rows].iter().enumerate();
            let key = |(row, value): (usize, &$type)| {
                i64::try_from(*value).ok().filter(|_| is_valid(row))
            };
            values.map(key).collect()
        }};
    }
    match Key::of(array.data_type()).map(|key| (key.bits, key.order)) {
        Some((8, Order::Unsigned)) => read!(u8),
        Some((16, Order::Unsigned)) => read!(u16),
        Some((32, Order::Unsigned)) => read!(u32),
        Some((64, Order::Unsigned)) => read!(u64),
        Some((8, _)) => read!(i8),
        Some((16, _)) => read!(i16),
        Some((32, _)) => read!(i32),
        Some((64, _)) => read!(i64),
        _ => vec![None; rows],
    }
}

/// The distinct values of an array in the order in which they come first, and the code of each row.
fn distinct(array: &ArrayRef) -> Result<(Vec<u32>, ArrayRef)> {
    let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(array))?;
    let (hasher, mut table) = (RandomState::new(), HashTable::<u32>::new());
    let (mut firsts, mut codes) = (Vec::<u32>::new(), Vec::with_capacity(array.len()));
    let too_many = |_| Error::unsupported("a lookup of 2^32 rows or more");
    for row in 0..array.len() {
        let bytes = rows.row(row);
        let hash = |code: &u32, firsts: &[u32]| {
            hasher.hash_one(rows.row(firsts[*code as usize] as usize).as_ref())
        };
        let is_it = |code: &u32| rows.row(firsts[*code as usize] as usize) == bytes;
        let of_row = hasher.hash_one(bytes.as_ref());
        let code = match table.find(of_row, is_it) {
            Some(code) => *code,
            None => {
                let code = u32::try_from(firsts.len()).map_err(too_many)?;
                firsts.push(u32::try_from(row).map_err(too_many)?);
                table.insert_unique(of_row, code, |code| hash(code, &firsts));
                code
            }
        };
        codes.push(code);
    }
    let values = arrow_select::take::take(array, &UInt32Array::from(firsts), None)?;
    Ok((codes, values))
}
