//! What the fuzz targets share: arrays to compress, chunks taken apart and put together again, and
//! tables of several columns ([`Table`]).

mod table;

pub use table::{Seal, Table};

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::Field;
use lanepack::{CompressedColumn, Encoding, Error, Lz, Options, compress_array};
use xxhash_rust::xxh3::xxh3_64;

/// Kinds of arrays that [`array`] makes.
const KINDS: u8 = 17;

/// An array that three bytes of input stand for.
pub fn array(kind: u8, shape: u8, rows: u8) -> ArrayRef {
    // Up to 8,161 rows, so that chunks have one to eight vectors.
    array_of(kind, shape, usize::from(rows) * 32 + 1)
}

/// An array of so many rows.
fn array_of(kind: u8, shape: u8, rows: usize) -> ArrayRef {
    let valid = |row: usize| shape & 8 == 0 || (row * 7 + usize::from(shape)) % 5 > 0;
    let nulls =
        || (shape & 8 != 0).then(|| NullBuffer::new(BooleanBuffer::collect_bool(rows, valid)));
    let bits = |row: usize| match shape % 8 {
        0 => 42,
        1 => row as u64,
        2 => (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        3 if row % 50 == 7 => u64::MAX - row as u64,
        _ => (row as u64 * 37) % 500,
    };
    let decimal = |row: usize| match bits(row) {
        bits if bits > 1 << 40 => f64::from_bits(bits),
        bits => bits as f64 / 100.0,
    };
    let text = |row: usize| match bits(row) % 7 {
        0 => String::new(),
        1 => "über/".repeat((bits(row) % 300) as usize),
        _ => format!("https://example.org/{}", bits(row)),
    };
    macro_rules! ints {
        ($array:ty) => {
            Arc::new(<$array>::new((0..rows).map(|row| bits(row) as _).collect(), nulls()))
        };
    }
    macro_rules! texts {
        ($array:ty) => {
            Arc::new(<$array>::from_iter((0..rows).map(|row| valid(row).then(|| text(row)))))
        };
    }
    match kind % KINDS {
        0 => Arc::new(BooleanArray::new(
            BooleanBuffer::collect_bool(rows, |row| bits(row) & 1 == 1),
            nulls(),
        )),
        1 => ints!(Int8Array),
        2 => ints!(UInt16Array),
        3 => ints!(Int32Array),
        4 => ints!(Int64Array),
        5 => ints!(UInt64Array),
        6 => {
            Arc::new(Float32Array::new((0..rows).map(|row| decimal(row) as f32).collect(), nulls()))
        }
        7 => Arc::new(Float64Array::new((0..rows).map(decimal).collect(), nulls())),
        8 => Arc::new(Decimal128Array::new(
            (0..rows).map(|row| bits(row) as i128 * 3 - 700).collect(),
            nulls(),
        )),
        9 => Arc::new(Decimal128Array::new(
            (0..rows).map(|row| (bits(row) as i128) << 40).collect(),
            nulls(),
        )),
        10 => texts!(StringArray),
        11 => texts!(LargeStringArray),
        12 => texts!(StringViewArray),
        13 => texts!(BinaryArray),
        14 => {
            let bytes = (0..rows).flat_map(|row| bits(row).to_le_bytes()).collect::<Vec<u8>>();
            Arc::new(FixedSizeBinaryArray::new(8, bytes.into(), nulls()))
        }
        15 => {
            let keys =
                Int16Array::new((0..rows).map(|row| (bits(row) % 3) as i16).collect(), nulls());
            let values = StringArray::from(vec!["a", "bb", "ccc"]);
            Arc::new(DictionaryArray::new(keys, Arc::new(values)))
        }
        _ => {
            // Lists of structs, whose fields are of other kinds.
            let shape = shape & 7;
            let fields = [4, 10, 14, 15].map(|kind| array_of(kind, shape, rows));
            let named = fields.iter().enumerate().map(|(at, array)| {
                Field::new(format!("field {at}"), array.data_type().clone(), true)
            });
            let structs = StructArray::new(named.collect(), fields.to_vec(), nulls());
            let lengths = (0..rows).map(|row| usize::from(row < rows / 3 * 2) * (row % 2));
            let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(ListArray::new(item, offsets, Arc::new(structs), nulls()))
        }
    }
}

/// Options of which one encoding, or all, may be chosen; from 128 on LZ in short segments.
pub fn options(choice: u8) -> Options {
    match Encoding::ALL.get(usize::from(choice)) {
        Some(encoding) => Options::default().with_encodings([*encoding]),
        None if choice >= 128 => {
            let symbol_bytes = Some(1_usize << (choice / 5 % 4));
            let lz = Lz::default()
                .with_level(1 + choice % 5)
                .with_symbol_bytes(symbol_bytes)
                .with_segment_symbols(1024);
            Options::default().with_encodings([Encoding::Lz]).with_lz(lz)
        }
        None => Options::default(),
    }
}

/// Changes bytes by patches of four: `u16` where, operation, operand. `place` gives the bytes, and
/// the place in them, for a number.
pub fn patch(patches: &[u8], mut place: impl FnMut(u16, &mut dyn FnMut(&mut Vec<u8>, usize))) {
    for patch in patches.as_chunks::<4>().0 {
        let operand = patch[3];
        place(u16::from_le_bytes([patch[0], patch[1]]), &mut |bytes, at| {
            if bytes.is_empty() {
                return;
            }
            let at = at % bytes.len();
            match patch[2] % 6 {
                0 => bytes[at] = operand,
                1 => bytes[at] ^= operand,
                2 => bytes[at] = bytes[at].wrapping_add(operand),
                3 => bytes.truncate(at),
                4 => bytes.resize(bytes.len() + usize::from(operand), 0),
                _ => bytes[at] ^= 1 << (operand % 8),
            }
        });
    }
}

/// arrow-rs has seen nothing that it panics for.
///
/// # Panics
/// If the fence around it has caught a panic.
pub fn not_refused_by_arrow(error: &Error) {
    assert!(!error.to_string().contains("refused by arrow"), "{error}");
}

/// The only chunk of a column, as bytes.
pub struct Chunk {
    field: Field,
    storage: StructArray,
    pub header: Vec<u8>,
    pub body: Vec<u8>,
}

impl Chunk {
    /// Compresses an array.
    pub fn of(array: &ArrayRef, options: &Options) -> Self {
        let column = compress_array(array, options).expect("everything can be compressed");
        let (field, storage) = column.to_arrow("column");
        let header = storage.column(4).as_binary::<i32>().value(0).to_vec();
        let body = storage.column(5).as_binary::<i64>().value(0).to_vec();
        Self { field, storage, header, body }
    }

    /// Makes the checksums right, and the storage's counts those of the header.
    fn seal(&mut self) {
        if self.header.len() >= 40 {
            self.header[24..32].copy_from_slice(&xxh3_64(&self.body).to_le_bytes());
            self.header[32..40].fill(0);
            let checksum = xxh3_64(&self.header);
            self.header[32..40].copy_from_slice(&checksum.to_le_bytes());
        }
    }

    fn count(&self, at: usize) -> ArrayRef {
        let bytes = self
            .header
            .get(at..at + 4)
            .map_or([0; 4], |bytes| bytes.try_into().expect("four bytes"));
        Arc::new(UInt32Array::from(vec![u32::from_le_bytes(bytes)]))
    }

    /// Seals the chunk and does all that readers do with it.
    ///
    /// # Panics
    /// If what comes back is not of the declared number and type.
    pub fn read(mut self) {
        self.seal();
        let (fields, mut columns, _) = self.storage.clone().into_parts();
        (columns[0], columns[1]) = (self.count(4), self.count(8));
        columns[4] = Arc::new(BinaryArray::from_iter_values([&self.header]));
        columns[5] = Arc::new(LargeBinaryArray::from_iter_values([&self.body]));
        let storage = StructArray::new(fields, columns, None);
        let column = match CompressedColumn::try_from_arrow(&self.field, &storage) {
            Ok(column) => column,
            Err(error) => return not_refused_by_arrow(&error),
        };
        match column.verify_checksums() {
            // That of the bounds is not made right.
            Ok(()) | Err(Error::Checksum { part: "bounds", .. }) => {}
            Err(error) => panic!("the chunk is sealed: {error}"),
        }
        column.explain();
        let len = column.len();
        for row in [0, 1, 63, 1023, 1024, len / 2, len - 1] {
            if let Ok(value) = column.value(row) {
                assert_eq!(value.into_inner().data_type(), column.data_type());
            }
        }
        match column.decompress() {
            Ok(array) => {
                assert_eq!((array.len(), array.data_type()), (len, column.data_type()));
                array.to_data().validate_full().expect("a valid array");
            }
            Err(error) => not_refused_by_arrow(&error),
        }
    }
}
