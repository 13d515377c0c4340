//! Floats: exact bounds of decimals, and whatever bits there are, in total order.

use super::*;

/// Keys that the values of a column should be compared with.
fn literals(data_type: &DataType, values: &[f64]) -> Vec<u64> {
    let array: ArrayRef = match data_type {
        DataType::Float32 => Arc::new(PrimitiveArray::<Float32Type>::from_iter_values(
            values.iter().map(|value| *value as f32),
        )),
        _ => Arc::new(PrimitiveArray::<Float64Type>::from_iter_values(values.iter().copied())),
    };
    keys_of(&array).into_iter().flatten().collect()
}

/// From every literal on, up to it, and it alone, its neighbours too; then pairs.
fn check_bounds(
    engine: &Engine,
    subject: &Subject,
    keys: &[Option<u64>],
    literals: &[u64],
    last: u64,
) {
    let check = |ranges: &[Range]| subject.check_ranges(engine, keys, ranges);
    for literal in literals {
        check(&ranges([(*literal, last)]));
        check(&ranges([(0, *literal)]));
        check(&ranges([(*literal, *literal)]));
        check(&ranges([(literal.saturating_sub(1), literal.saturating_sub(1))]));
        check(&ranges([((literal + 1).min(last), last)]));
    }
    for pair in literals.windows(2) {
        check(&ranges([(pair[0].min(pair[1]), pair[0].max(pair[1]))]));
    }
    let mut rng = Rng(3);
    check(&ranges_around(&mut literals.to_vec(), &mut rng, last));
}

const SPECIAL: [f64; 10] = [
    0.0,
    -0.0,
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
];

/// Decimals of every number of places and of many widths, without exceptions and with.
#[test]
fn decimals_are_selected_exactly() {
    for data_type in [DataType::Float64, DataType::Float32] {
        let (widest, places, last) = match data_type {
            DataType::Float64 => (50_u32, 15_i32, u64::MAX),
            _ => (20, 5, u64::from(u32::MAX)),
        };
        let mut rng = Rng(4);
        let mut selected = 0;
        for place in 0..=places {
            let mut decimals = Vec::new();
            for step in 0..9 {
                // A vector of numbers of so many bits, around or on either side of zero.
                let width = (widest * step / 8).min(if place < 3 { 64 } else { widest - 6 });
                let mask = (1_u64 << width) - 1;
                let base = [0, -((mask / 2) as i64), mask as i64, -(2 * mask as i64)]
                    [rng.below(4) as usize];
                let base = base.clamp(-(1 << (widest - 1)), 1 << (widest - 1));
                let decimal = |_| {
                    let number = base + rng.upto(mask) as i64;
                    // As a reader of text would have it.
                    format!("{number}e-{place}").parse::<f64>().unwrap()
                };
                decimals.extend((0..1024).map(decimal));
            }
            for exceptions in [0, 40] {
                let mut values: Vec<f64> = decimals.clone();
                for _ in 0..exceptions * 9 {
                    let row = rng.below(values.len() as u64) as usize;
                    values[row] = match rng.below(3) {
                        0 => f64::from_bits(rng.next()),
                        1 => SPECIAL[rng.below(10) as usize],
                        _ => values[row] * 1.000_000_1,
                    };
                }
                values.truncate(9 * 1024 - 100);
                let keys: Vec<Option<u64>> =
                    literals(&data_type, &values).into_iter().map(Some).collect();
                let packed = compressed(&array_of(&data_type, &keys), Some(Encoding::Alp), 131_072);
                if encodings(&packed) != [Encoding::Alp] {
                    continue;
                }
                selected += 1;
                let pick = |rng: &mut Rng| values[rng.below(values.len() as u64) as usize];
                let mut bounds: Vec<f64> = (0..6).map(|_| pick(&mut rng)).collect();
                bounds.extend([pick(&mut rng) + 0.4 / 10_f64.powi(place), 0.0, -0.0, f64::NAN]);
                let bounds = literals(&data_type, &bounds);
                for engine in engines() {
                    let subject = Subject::new(&engine, &packed);
                    check_bounds(&engine, &subject, &keys, &bounds, last);
                    // More ranges than are asked for one by one.
                    let mut many: Vec<u64> =
                        (0..300).map(|row| keys[row * 29].unwrap_or(0)).collect();
                    let many = ranges_around(&mut many, &mut rng, last);
                    subject.check_ranges(&engine, &keys, &many);
                }
            }
        }
        println!("{data_type}: {selected} of {} columns are decimals", 2 * (places + 1));
        assert!(selected > places, "{data_type}: {selected}");
    }
}

/// Every kind of float in chunks of every encoding, with nulls and short vectors.
#[test]
fn every_kind_of_float_has_its_place() {
    for data_type in [DataType::Float64, DataType::Float32] {
        let last = if data_type == DataType::Float64 { u64::MAX } else { u64::from(u32::MAX) };
        for (nulls, chunk_rows) in [(0, 2048), (3, 1024), (40, 2048)] {
            let mut rng = Rng(5);
            let mut key = |row: usize| match row {
                // Decimals, a tenth of them exceptions of all kinds; one value; any bits.
                0..4096 if row.is_multiple_of(10) && rng.below(2) == 0 => rng.upto(last),
                0..4096 if row.is_multiple_of(10) => {
                    literals(&data_type, &[SPECIAL[rng.below(10) as usize]])[0]
                }
                0..4096 => literals(&data_type, &[f64::from(row as u32 % 500) / 8.0 - 10.0])[0],
                4096..6144 => literals(&data_type, &[-0.0])[0],
                6144..8192 => rng.upto(last),
                _ => literals(&data_type, &[f64::from(row as u32 % 20)])[0],
            };
            let keys: Vec<u64> = (0..8900).map(&mut key).collect();
            let keys: Vec<Option<u64>> = (keys.iter().enumerate())
                .map(|(row, key)| (nulls == 0 || row % nulls > 0).then_some(*key))
                .collect();
            let packed = compressed(&array_of(&data_type, &keys), None, chunk_rows);
            let found = encodings(&packed);
            for encoding in [Encoding::Alp, Encoding::Plain, Encoding::Constant] {
                // Exceptions are stored without those that are null.
                if encoding == Encoding::Plain && nulls == 3 {
                    continue;
                }
                assert!(found.contains(&encoding), "{data_type}, {encoding}: {found:?}");
            }
            let mut bounds = literals(&data_type, &SPECIAL);
            bounds.extend(literals(&data_type, &[1.5, 7.0, 52.375, 52.3, -10.0, 1e30]));
            bounds.extend((0..4).map(|_| rng.upto(last)));
            for engine in engines() {
                let subject = Subject::new(&engine, &packed);
                check_bounds(&engine, &subject, &keys, &bounds, last);
                subject.check(&engine, &ColumnTest::Valid, |row| keys[row].is_some());
                subject.check(&engine, &ColumnTest::Null, |row| keys[row].is_none());
            }
        }
    }
}

/// Vectors that are nothing but exceptions, and as many as a vector can have.
#[test]
fn vectors_full_of_exceptions() {
    for data_type in [DataType::Float64, DataType::Float32] {
        let last = if data_type == DataType::Float64 { u64::MAX } else { u64::from(u32::MAX) };
        let mut rng = Rng(6);
        let value = |row: u32| f64::from(row % 90) / 4.0;
        let keys: Vec<Option<u64>> = (0..20_480_u32)
            .map(|row| match row / 1024 {
                3 => Some(rng.upto(last)),
                5 if row.is_multiple_of(2) => Some(rng.upto(last)),
                7 => Some(literals(&data_type, &[f64::NAN])[0]),
                _ => Some(literals(&data_type, &[value(row)])[0]),
            })
            .collect();
        let packed = compressed(&array_of(&data_type, &keys), Some(Encoding::Alp), 131_072);
        assert_eq!(encodings(&packed), [Encoding::Alp]);
        let bounds = literals(&data_type, &[0.0, 3.25, 3.3, f64::NAN, -1e300, 1e300]);
        for engine in engines() {
            let subject = Subject::new(&engine, &packed);
            check_bounds(&engine, &subject, &keys, &bounds, last);
        }
    }
}
