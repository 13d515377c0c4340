//! Every type at every awkward size, with every pattern of nulls, in every encoding.

use arrow_array::*;
use arrow_schema::DataType;
use lanepack::{Encoding, Options, compress_array};

use super::common::*;
use super::{assert_same, check, engines, packed, thinned};

#[test]
fn every_type_size_and_null_pattern() {
    let options = Options::default();
    for engine in engines() {
        for data_type in encoded_types() {
            for (case, len) in [0, 1, 2, 63, 1023, 1024, 1025, 3000].into_iter().enumerate() {
                // Short arrays of all shapes are alike: one shape each, another for each length; so
                // are those on the emulation but for one length, with half of the patterns.
                let is_one = len < 64 || (len < 3000 && thinned(&engine, 1, 2));
                let shapes = match is_one {
                    true => &[Shape::ALL[case % Shape::ALL.len()]][..],
                    false => &Shape::ALL[..],
                };
                for shape in shapes {
                    for (index, nulls) in Nulls::ALL.into_iter().enumerate() {
                        if !thinned(&engine, case + index, 2) {
                            check(&engine, &array_of(&data_type, len, *shape, nulls), &options);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn sizes_around_a_chunk() {
    for engine in engines() {
        for (number, data_type) in encoded_types().into_iter().enumerate() {
            for (case, len) in [131_071, 131_073].into_iter().enumerate() {
                if thinned(&engine, number + case, 2) {
                    continue;
                }
                let array = array_of(&data_type, len, Shape::Outliers, Nulls::Random);
                check(&engine, &array, &Options::default());
            }
        }
    }
}

#[test]
fn each_encoding_alone() {
    for engine in engines() {
        for encoding in Encoding::ON_GPUS {
            let options = Options::default().with_encodings([*encoding]);
            for data_type in encoded_types() {
                for shape in Shape::ALL {
                    check(&engine, &array_of(&data_type, 2100, shape, Nulls::Random), &options);
                }
            }
        }
    }
}

/// Chunks that begin anywhere: their values, bits and strings lie at odd places
/// of the output.
#[test]
fn concatenations_of_slices_of_chunks() {
    for engine in engines() {
        for data_type in encoded_types() {
            for shape in Shape::ALL {
                // Storage of chunks of 1, 1024, 2048 + 77, 5 and 1500 rows.
                let parts: Vec<ArrayRef> = [1, 1024, 2125, 5, 1500]
                    .map(|len| {
                        let nulls = if len % 2 == 0 { Nulls::None } else { Nulls::Random };
                        array_of(&data_type, len, shape, nulls)
                    })
                    .into();
                let options = Options::default().with_chunk_rows(2048);
                let packed: Vec<RecordBatch> = parts
                    .iter()
                    .map(|part| packed(&compress_array(part, &options).unwrap()))
                    .collect();
                let joined =
                    arrow_select::concat::concat_batches(&packed[0].schema(), &packed).unwrap();
                let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                let expected = arrow_select::concat::concat(&parts).unwrap();
                let back = engine.decompress(&joined).unwrap();
                assert_same(back.column(0), &expected, || format!("{data_type} {shape:?}"));
                // A slice of the storage: the last two chunks but one.
                let sliced = joined.slice(3, 2);
                let back = engine.decompress(&sliced).unwrap();
                let start = 1 + 1024 + 2048;
                assert_same(back.column(0), &expected.slice(start, 82), || {
                    format!("{data_type} {shape:?}, sliced")
                });
            }
        }
    }
}

#[test]
fn slices_of_arrays_at_odd_offsets() {
    let options = Options::default().with_chunk_rows(1024);
    for engine in engines() {
        for data_type in encoded_types() {
            let array = array_of(&data_type, 3000, Shape::Outliers, Nulls::Random);
            for (offset, len) in [(1, 2999), (7, 1024), (2999, 1)] {
                check(&engine, &array.slice(offset, len), &options);
            }
        }
    }
}

/// Every width of every integer type, and the largest.
#[test]
fn every_bit_width() {
    for engine in engines() {
        let mut rng = Rng(5);
        for width in 0..=64_u32 {
            let mut values = |bits: u32| -> Vec<u64> {
                let mask = |word: u64| if width == 0 { 0 } else { word >> (64 - width.min(bits)) };
                (0..2500).map(|_| mask(rng.next()).wrapping_add(1 << (bits - 1))).collect()
            };
            let options = Options::default().with_encodings([Encoding::Ffor]);
            let wide = values(64);
            let arrays: [ArrayRef; 2] = [
                std::sync::Arc::new(UInt64Array::from(wide.clone())),
                std::sync::Arc::new(Int64Array::from_iter_values(wide.iter().map(|v| *v as i64))),
            ];
            arrays.iter().for_each(|array| check(&engine, array, &options));
            if width <= 32 {
                let narrow = values(32).into_iter().map(|v| v as u32);
                let array: ArrayRef = std::sync::Arc::new(UInt32Array::from_iter_values(narrow));
                check(&engine, &array, &options);
            }
            if width <= 16 {
                let narrow = values(16).into_iter().map(|v| v as i16);
                let array: ArrayRef = std::sync::Arc::new(Int16Array::from_iter_values(narrow));
                check(&engine, &array, &options);
            }
            if width <= 8 {
                let narrow = values(8).into_iter().map(|v| v as u8);
                let array: ArrayRef = std::sync::Arc::new(UInt8Array::from_iter_values(narrow));
                check(&engine, &array, &options);
            }
        }
    }
}

/// ALP vectors with no, one, some and nothing but exceptions, of all kinds of bits.
#[test]
fn exceptions_of_every_number_and_place() {
    let options = Options::default().with_encodings([Encoding::Alp]);
    for engine in engines() {
        let mut rng = Rng(6);
        for count in [0, 1, 2, 7, 16, 33, 100, 700, 1024] {
            let values: Vec<f64> = (0..4000)
                .map(|row| match rng.below(1024) < count {
                    true => f64::from_bits(rng.next() | 0x7ff0 << 48),
                    false => row as f64 / 100.0,
                })
                .collect();
            let doubles = Float64Array::from(values.clone());
            check(&engine, &(std::sync::Arc::new(doubles) as ArrayRef), &options);
            let floats = values.iter().map(|value| f32::from_bits((value.to_bits() >> 32) as u32));
            let floats = floats.zip(0..).map(|(value, row)| match row % 5 {
                0 => value,
                _ => row as f32 / 10.0,
            });
            let floats = Float32Array::from_iter_values(floats);
            check(&engine, &(std::sync::Arc::new(floats) as ArrayRef), &options);
            // Integers of 16 bits divided by 10, 100, .., a power each vector.
            let hundredths = values.iter().zip(0..).map(|(value, row)| match value.is_finite() {
                true => (row * 7919 % 65536 - 30_000) as f32 / 10_f32.powi(row / 1024 * 3 + 1),
                false => f32::from_bits(value.to_bits() as u32),
            });
            let hundredths = Float32Array::from_iter_values(hundredths);
            check(&engine, &(std::sync::Arc::new(hundredths) as ArrayRef), &options);
        }
        // All exceptions in one lane, then in one row.
        for slots in [(0..64).map(|i| i * 16 + 3).collect::<Vec<_>>(), (64..80).collect()] {
            let mut values: Vec<f64> = (0..1024).map(|row| row as f64 / 8.0).collect();
            slots.iter().for_each(|slot| values[*slot] = f64::NAN);
            check(
                &engine,
                &(std::sync::Arc::new(Float64Array::from(values)) as ArrayRef),
                &options,
            );
        }
    }
}

#[test]
fn strings_of_all_kinds_of_length() {
    let mut rng = Rng(7);
    let mut values: Vec<Vec<u8>> = (0..=255_u8).map(|byte| vec![byte; byte as usize]).collect();
    values.extend((0..500).map(|_| Vec::new()));
    values.push((0..2_u64 << 20).map(|i| ((i * i) >> 9) as u8).collect());
    values.extend((0..300).map(|_| (0..rng.below(40)).map(|_| rng.next() as u8).collect()));
    for engine in engines() {
        for data_type in [DataType::Binary, DataType::LargeBinary, DataType::BinaryView] {
            check(&engine, &strings(&data_type, &values, Nulls::None), &Options::default());
        }
    }
}

#[test]
fn text_of_one_to_four_bytes_a_character() {
    let mut rng = Rng(8);
    let alphabet = ["a", "é", "ß", "€", "한", "\u{10ffff}", "😀", "\u{800}", "\u{d7ff}", "z"];
    let text = |rng: &mut Rng| -> Vec<u8> {
        let count = rng.below(30);
        (0..count).flat_map(|_| alphabet[rng.below(10) as usize].bytes()).collect()
    };
    let values: Vec<Vec<u8>> = (0..5000).map(|_| text(&mut rng)).collect();
    for engine in engines() {
        for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            for encoding in [Encoding::Fsst, Encoding::Plain] {
                let options = Options::default().with_encodings([encoding]).with_chunk_rows(2048);
                check(&engine, &strings(&data_type, &values, Nulls::Random), &options);
            }
        }
    }
}

#[test]
fn carried_types_are_read_by_the_cpu() {
    for engine in engines() {
        for array in carried_arrays(1025) {
            check(&engine, &array, &Options::default());
        }
    }
}

/// Single arrays, by the engine's own functions for them.
#[test]
fn single_arrays() {
    let options = Options::default().with_chunk_rows(1024);
    for engine in engines() {
        for data_type in encoded_types() {
            let array = array_of(&data_type, 2500, Shape::Outliers, Nulls::Random);
            let expected = compress_array(&array, &options).unwrap();
            let found = engine.compress_array(&array, &options).unwrap();
            assert_eq!(engine.last_choice().unwrap().devices.first(), engine.device());
            assert_eq!(found.chunks().len(), expected.chunks().len());
            for (found, expected) in found.chunks().iter().zip(expected.chunks()) {
                assert_eq!(found.header(), expected.header(), "{data_type}");
                assert_eq!(found.body(), expected.body(), "{data_type}");
            }
            let back = engine.decompress_column(&found).unwrap();
            assert_same(&back, &array, || format!("{data_type} on {:?}", engine.device()));
        }
    }
}
