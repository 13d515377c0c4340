//! Damaged parameters and packed data: whatever validation lets pass gives verdicts on
//! what the bytes say, and no access out of bounds (the emulation runs under
//! AddressSanitizer).

use arrow_array::{BinaryArray, LargeBinaryArray, StructArray};

use super::*;
use crate::decompress;

/// A batch of one chunk whose body is another.
fn with_body(packed: &RecordBatch, body: &[u8]) -> RecordBatch {
    let storage = packed.column(0).as_struct();
    let (fields, mut columns, _) = storage.clone().into_parts();
    let header: &BinaryArray = columns[4].as_binary();
    assert_eq!(header.len(), 1);
    columns[5] = Arc::new(LargeBinaryArray::from_iter_values([body]));
    let storage = StructArray::new(fields, columns, None);
    RecordBatch::try_new(packed.schema(), vec![Arc::new(storage)]).unwrap()
}

/// Bases of the vectors of an ffor chunk, as keys; none for other encodings.
fn bases(data_type: &DataType, packed: &RecordBatch) -> Vec<u64> {
    let column = &crate::columns(packed).unwrap()[0];
    let chunk = &column.chunks()[0];
    let root = chunk.root();
    if root.encoding() != Encoding::Ffor {
        return Vec::new();
    }
    let width = data_type.primitive_width().unwrap();
    let vectors = root.len().div_ceil(1024);
    let words = root.buffer(1)[..vectors * width].chunks(width);
    let sign = if data_type.is_signed_integer() { 1 << (width * 8 - 1) } else { 0 };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    words.map(|bytes| word(bytes) ^ sign).collect()
}

#[test]
fn damaged_bytes_change_verdicts_only() {
    let mut cases: Vec<(DataType, Vec<Option<u64>>)> = Vec::new();
    let mut rng = Rng(11);
    for data_type in [
        DataType::Int8,
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt32,
        DataType::Int64,
        DataType::UInt64,
    ] {
        let keys = (0..2000).map(|row| (row % 9 > 0).then(|| 90 + rng.below(13 + row / 1024 * 20)));
        cases.push((data_type, keys.collect()));
    }
    for data_type in [DataType::Float32, DataType::Float64] {
        let value = |row: u32| match row % 50 {
            7 => f64::NAN,
            9 => 1e30,
            _ => f64::from(row % 300) / 100.0,
        };
        let array: ArrayRef = match data_type {
            DataType::Float32 => Arc::new(PrimitiveArray::<Float32Type>::from_iter_values(
                (0..2000).map(|row| value(row) as f32),
            )),
            _ => Arc::new(PrimitiveArray::<Float64Type>::from_iter_values((0..2000).map(value))),
        };
        cases.push((data_type, keys_of(&array)));
    }
    for (data_type, keys) in &cases {
        let bits = data_type.primitive_width().unwrap() as u32 * 8;
        let last = u64::MAX >> (64 - bits);
        let packed = compressed(&array_of(data_type, keys), None, 2048);
        let columns = crate::columns(&packed).unwrap();
        let chunk = &columns[0].chunks()[0];
        let body = chunk.body().to_vec();
        // Parameters of vectors byte by byte, the rest here and there.
        let parameters = chunk.root().buffer_range(1);
        let places: Vec<usize> =
            (0..body.len()).filter(|at| parameters.contains(at) || at.is_multiple_of(23)).collect();
        for engine in engines() {
            let (mut read, mut refused) = (0, 0);
            for (case, at) in places.iter().enumerate() {
                for new in [0, 0x7f + 0x80 * (case % 2) as u8, body[*at] ^ 1] {
                    let mut damaged = body.clone();
                    damaged[*at] = new;
                    let damaged = with_body(&packed, &damaged);
                    let Ok(batch) = engine.upload(&damaged) else {
                        refused += 1;
                        continue;
                    };
                    read += 1;
                    let subject = Subject { rows: batch.num_rows(), batch };
                    let select = |ranges: &[Range]| {
                        let test = ColumnTest::In(ranges.to_vec());
                        subject.words(&engine, &test, Combine::Set, None).unwrap().0
                    };
                    let some = keys[case * 7 % 2000].unwrap_or(100);
                    let tested = [
                        ranges([(some, some)]),
                        ranges([(some.saturating_sub(4), last)]),
                        ranges([(0, some / 2), (some, some + 5)]),
                    ];
                    let Ok(decoded) = decompress(&damaged) else {
                        // Nulls that are not those stated: nothing to compare with.
                        tested.iter().for_each(|ranges| drop(select(ranges)));
                        continue;
                    };
                    let decoded = keys_of(decoded.column(0));
                    let bases = bases(data_type, &damaged);
                    for ranges in &tested {
                        let expected: Vec<bool> = (decoded.iter().enumerate())
                            .map(|(row, key)| {
                                // Decoding wraps around, selections do not.
                                let base = bases.get(row / 1024).copied().unwrap_or(0);
                                key.is_some_and(|key| {
                                    let inside =
                                        |range: &Range| range.low <= key && key <= range.high;
                                    key >= base && ranges.iter().any(inside)
                                })
                            })
                            .collect();
                        assert_bits(&select(ranges), &expected, || {
                            format!("{data_type}, byte {at} is {new}, {ranges:?}")
                        });
                    }
                }
            }
            assert!(read > 100 && refused > 10, "{data_type}: {read} read, {refused} refused");
        }
    }
}
