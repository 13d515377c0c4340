//! Integers: every width of every type, on all sides of every bound.

use super::*;

/// Vectors of 1,024 keys of each width from 0 to `bits`, whose bases lie anywhere, at the
/// least and at the greatest key that they can have.
fn vectors(bits: u32, rng: &mut Rng) -> Vec<(u64, u64, Vec<u64>)> {
    let last = u64::MAX >> (64 - bits);
    let vector = |width: u32| {
        let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
        let base = match rng.below(3) {
            0 => 0,
            1 => last - mask,
            _ => rng.upto(last - mask),
        };
        let mut keys: Vec<u64> = (0..1024).map(|_| base + rng.upto(mask)).collect();
        // So that the base is the least and the width what it should be.
        let at = rng.below(1023) as usize;
        (keys[at], keys[at + 1]) = (base, base + mask);
        (base, mask, keys)
    };
    (0..=bits).map(vector).collect()
}

/// The widths of the vectors of a column that is one chunk of ffor.
fn widths(packed: &RecordBatch) -> Vec<u32> {
    assert_eq!(encodings(packed), [Encoding::Ffor]);
    let column = &crate::columns(packed).unwrap()[0];
    let root = column.chunks()[0].root();
    let places = &root.buffer(1)[root.buffer(1).len() - root.len().div_ceil(1024) * 4..];
    places.chunks(4).map(|place| u32::from(place[3])).collect()
}

fn check_every_width(data_type: &DataType) {
    let bits = data_type.primitive_width().unwrap() as u32 * 8;
    let last = u64::MAX >> (64 - bits);
    let mut rng = Rng(u64::from(bits));
    let vectors = vectors(bits, &mut rng);
    let keys: Vec<Option<u64>> =
        vectors.iter().flat_map(|(_, _, keys)| keys.iter().copied().map(Some)).collect();
    // A short vector last, which has the width of the whole one.
    let keys = &keys[..keys.len() - 1];
    let array = array_of(data_type, keys);
    assert_eq!(keys_of(&array), keys);
    let packed = compressed(&array, Some(Encoding::Ffor), 131_072);
    assert_eq!(widths(&packed), (0..=bits).collect::<Vec<_>>());
    for engine in engines() {
        let subject = Subject::new(&engine, &packed);
        let check = |ranges: &[Range]| subject.check_ranges(&engine, keys, ranges);
        check(&[]);
        check(&ranges([(0, last)]));
        check(&ranges([(0, 0)]));
        check(&ranges([(last, last)]));
        let mut middles = Vec::new();
        for (base, mask, keys) in &vectors {
            // One value; from one to another; all; all but the least; all but the greatest.
            let [one, two] = [0; 2].map(|_| keys[rng.below(1024) as usize]);
            check(&ranges([(one, one)]));
            check(&ranges([(one.min(two), one.max(two))]));
            check(&ranges([(*base, base + mask)]));
            if *mask > 0 {
                check(&ranges([(base + 1, base + mask)]));
                check(&ranges([(*base, base + mask - 1)]));
                // More ranges than are asked for one by one.
                let mut many: Vec<u64> =
                    (0..40).map(|i| base + (mask / 40).max(1) * i % mask).collect();
                if *mask > 60 {
                    check(&ranges_around(&mut many, &mut rng, last));
                }
                middles.extend([base + mask / 4, base + mask / 2, one]);
            }
        }
        // Many ranges, some of which no vector meets.
        check(&ranges_around(&mut middles, &mut rng, last));
        for count in [2, 3, 10] {
            let mut around: Vec<u64> =
                (0..count).map(|_| keys[rng.below(keys.len() as u64) as usize].unwrap()).collect();
            check(&ranges_around(&mut around, &mut rng, last));
        }
    }
}

#[test]
fn every_width_of_8_bits_is_selected_exactly() {
    check_every_width(&DataType::Int8);
    check_every_width(&DataType::UInt8);
}

#[test]
fn every_width_of_16_bits_is_selected_exactly() {
    check_every_width(&DataType::Int16);
    check_every_width(&DataType::UInt16);
}

#[test]
fn every_width_of_32_bits_is_selected_exactly() {
    check_every_width(&DataType::Int32);
    check_every_width(&DataType::UInt32);
}

#[test]
fn every_width_of_64_bits_is_selected_exactly() {
    check_every_width(&DataType::Int64);
    check_every_width(&DataType::UInt64);
}

/// Every value of two vectors alone, and every range that begins or ends at one.
#[test]
fn every_bound_of_narrow_vectors() {
    let keys: Vec<Option<u64>> = (0..1500_u64).map(|row| Some(100 + row * 7 % 23)).collect();
    for data_type in [DataType::Int8, DataType::UInt16, DataType::Int32, DataType::UInt64] {
        let packed = compressed(&array_of(&data_type, &keys), Some(Encoding::Ffor), 2048);
        for engine in engines() {
            let subject = Subject::new(&engine, &packed);
            for bound in 98..126 {
                subject.check_ranges(&engine, &keys, &ranges([(bound, bound)]));
                subject.check_ranges(&engine, &keys, &ranges([(0, bound)]));
                subject.check_ranges(&engine, &keys, &ranges([(bound, 255)]));
            }
        }
    }
}

/// Chunks of every encoding, nulls, short vectors, chunks of one and of two vectors.
#[test]
fn encodings_and_nulls_go_together() {
    for data_type in [
        DataType::Int8,
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float16,
        DataType::Date32,
        TimestampMicrosecondType::DATA_TYPE,
        Decimal64Type::DATA_TYPE,
    ] {
        let bits = data_type.primitive_width().unwrap() as u32 * 8;
        let last = u64::MAX >> (64 - bits);
        let mut rng = Rng(1);
        let middle = last / 3;
        let mut key = |row: usize| match row {
            0..2048 => middle + rng.below(30),
            2048..4096 => middle + 7,
            4096..6144 => rng.upto(last),
            6144..8192 => last - rng.below(5),
            _ => rng.below(3),
        };
        let keys: Vec<u64> = (0..9999).map(&mut key).collect();
        for (nulls, chunk_rows) in [(0, 2048), (0, 1024), (3, 2048), (50, 1024)] {
            let is_null = |row: usize| {
                nulls > 0 && (row.is_multiple_of(nulls) || (3000..3072).contains(&row))
            };
            let keys: Vec<Option<u64>> = (keys.iter().enumerate())
                .map(|(row, key)| (!is_null(row)).then_some(*key))
                .collect();
            let array = array_of(&data_type, &keys);
            assert_eq!(keys_of(&array), keys);
            let packed = compressed(&array, None, chunk_rows);
            let found = encodings(&packed);
            for encoding in [Encoding::Ffor, Encoding::Plain, Encoding::Constant] {
                assert!(found.contains(&encoding), "{data_type}, {encoding}: {found:?}");
            }
            for engine in engines() {
                let subject = Subject::new(&engine, &packed);
                let check = |ranges: &[Range]| subject.check_ranges(&engine, &keys, ranges);
                check(&[]);
                check(&ranges([(0, last)]));
                check(&ranges([(middle + 7, middle + 7)]));
                check(&ranges([(middle + 8, last - 1)]));
                check(&ranges([(0, 0), (2, middle + 6), (middle + 9, middle + 20), (last, last)]));
                let mut around = (0..40)
                    .map(|_| keys[rng.below(9999) as usize].unwrap_or(5))
                    .collect::<Vec<_>>();
                check(&ranges_around(&mut around, &mut rng, last));
                subject.check(&engine, &ColumnTest::Valid, |row| keys[row].is_some());
                subject.check(&engine, &ColumnTest::Null, |row| keys[row].is_none());
            }
        }
    }
}

/// Chunks of more vectors than a block takes, and of fewer than its blocks.
#[test]
fn chunks_of_several_blocks() {
    let mut rng = Rng(16);
    let keys: Vec<Option<u64>> =
        (0..60_000).map(|row| (row % 7 > 0).then(|| 1000 + rng.below(500))).collect();
    for data_type in [DataType::UInt16, DataType::Int64] {
        let packed = compressed(&array_of(&data_type, &keys), None, 20_480);
        assert_eq!(encodings(&packed).len(), 3);
        for engine in engines() {
            let subject = Subject::new(&engine, &packed);
            subject.check_ranges(&engine, &keys, &ranges([(1100, 1200)]));
            subject.check(&engine, &ColumnTest::Valid, |row| keys[row].is_some());
        }
    }
}

/// Short columns, whose only vector has few rows.
#[test]
fn short_columns() {
    for rows in [1, 2, 31, 32, 33, 127, 500, 1023, 1024, 1025] {
        let keys: Vec<Option<u64>> =
            (0..rows).map(|row| (row % 5 != 4).then_some(1000 + row % 9)).collect();
        for data_type in [DataType::UInt16, DataType::Int32, DataType::UInt64] {
            let keys: Vec<Option<u64>> = keys.to_vec();
            let packed = compressed(&array_of(&data_type, &keys), None, 131_072);
            for engine in engines() {
                let subject = Subject::new(&engine, &packed);
                subject.check_ranges(&engine, &keys, &ranges([(1002, 1006)]));
                subject.check_ranges(&engine, &keys, &ranges([(1001, 1001), (1007, 5000)]));
                subject.check(&engine, &ColumnTest::Null, |row| keys[row].is_none());
            }
        }
    }
}
