//! Every type at every awkward size, with every pattern of nulls, comes back
//! bit for bit.

mod common;

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use common::*;
use lanepack::{CompressedColumn, Encoding, Options, compress, compress_array, decompress};

/// Compresses, passes through the Arrow storage, decompresses and compares;
/// also single values by random access.
fn check(array: &ArrayRef, options: &Options) -> CompressedColumn {
    let column = compress_array(array, options).unwrap();
    let (field, storage) = column.to_arrow("column");
    let column = CompressedColumn::try_from_arrow(&field, &storage).unwrap();
    column.verify_checksums().unwrap();
    let back = column.decompress().unwrap();
    assert_same(&back, array);
    for row in [0, 1, 63, 64, 1023, 1024, array.len() / 2, array.len().wrapping_sub(1)] {
        if row < array.len() {
            let value = column.value(row).unwrap().into_inner();
            assert_same(&value, &array.slice(row, 1));
        }
    }
    column
}

/// Arrow's equality of arrays compares floats by their bits.
fn assert_same(found: &ArrayRef, expected: &ArrayRef) {
    assert_eq!(found.data_type(), expected.data_type());
    assert!(found == expected, "{} differs", expected.data_type());
}

#[test]
fn arrow_equality_tells_nan_payloads_and_zeros_apart() {
    let floats = |bits: u64| Arc::new(Float64Array::from(vec![f64::from_bits(bits)])) as ArrayRef;
    assert_eq!(&floats(0x7ff8_0000_0000_0001), &floats(0x7ff8_0000_0000_0001));
    assert_ne!(&floats(0x7ff8_0000_0000_0001), &floats(0x7ff8_0000_0000_0002));
    assert_ne!(&floats(0), &floats(1 << 63));
}

#[test]
fn round_trips_every_type_size_and_null_pattern() {
    let options = Options::default();
    for data_type in encoded_types() {
        for len in [0, 1, 2, 63, 1023, 1024, 1025, 3000] {
            for shape in Shape::ALL {
                for nulls in Nulls::ALL {
                    check(&array_of(&data_type, len, shape, nulls), &options);
                }
            }
        }
    }
}

#[test]
fn round_trips_sizes_around_a_chunk() {
    for data_type in encoded_types() {
        for len in [131_071, 131_072, 131_073] {
            check(&array_of(&data_type, len, Shape::Outliers, Nulls::Random), &Options::default());
        }
    }
}

#[test]
fn round_trips_types_without_an_encoding() {
    for len in [0, 1, 7, 1025, 3000] {
        for array in carried_arrays(len) {
            let column = check(&array, &Options::default().with_chunk_rows(1024));
            assert_eq!(column.null_count(), array.logical_null_count());
        }
    }
}

/// Too wide for nulls to be stored as empty strings.
#[test]
fn round_trips_nulls_of_wide_binary_values() {
    for nulls in Nulls::ALL {
        let array = array_of(&DataType::FixedSizeBinary(1025), 1500, Shape::Narrow, nulls);
        check(&array, &Options::default());
        check(&array.slice(1, 1), &Options::default());
    }
}

#[test]
fn round_trips_slices_at_odd_offsets() {
    let options = Options::default().with_chunk_rows(1024);
    for data_type in encoded_types() {
        let array = array_of(&data_type, 3000, Shape::Outliers, Nulls::Random);
        for (offset, len) in [(1, 2999), (7, 1024), (1023, 1500), (2999, 1), (5, 0)] {
            check(&array.slice(offset, len), &options);
        }
    }
    for array in carried_arrays(3000) {
        check(&array.slice(13, 2001), &options);
    }
}

#[test]
fn each_encoding_alone_round_trips_everything() {
    for encoding in Encoding::ALL {
        let options = Options::default().with_encodings([*encoding]);
        for data_type in encoded_types() {
            for shape in Shape::ALL {
                check(&array_of(&data_type, 1500, shape, Nulls::Random), &options);
            }
        }
    }
}

#[test]
fn values_under_nulls_do_not_change_the_bytes() {
    for data_type in encoded_types() {
        let nulls = Nulls::Random.bitmap(2000);
        let with = |shape| {
            let visible = array_of(&data_type, 2000, Shape::Narrow, Nulls::Random);
            let garbage = array_of(&data_type, 2000, shape, Nulls::None);
            let valid = |row| nulls.as_ref().unwrap().is_valid(row);
            let rows: Vec<_> = (0..2000).map(|row| (usize::from(!valid(row)), row)).collect();
            let mixed = arrow_select::interleave::interleave(&[&visible, &garbage], &rows).unwrap();
            let data = mixed.to_data().into_builder().nulls(nulls.clone()).build().unwrap();
            compress_array(&make_array(data), &Options::default()).unwrap().to_arrow("").1
        };
        assert_eq!(with(Shape::Random), with(Shape::Constant), "{data_type}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_on_any_number_of_threads() {
    for data_type in encoded_types() {
        let array = array_of(&data_type, 10_000, Shape::Outliers, Nulls::Random);
        let packed = |threads| {
            let options = Options::default().with_chunk_rows(1024).with_threads(threads);
            compress_array(&array, &options).unwrap().to_arrow("").1
        };
        assert_eq!(packed(1), packed(3), "{data_type}");
    }
}

#[test]
fn statistics_bound_the_valid_values() {
    let floats = Float64Array::from(vec![None, Some(-0.0), Some(0.0), Some(f64::NAN), Some(1.5)]);
    let (_, storage) =
        compress_array(&(Arc::new(floats) as ArrayRef), &Options::default()).unwrap().to_arrow("");
    let bound = |name: &str| storage.column_by_name(name).unwrap().clone();
    assert_same(&bound("min"), &(Arc::new(Float64Array::from(vec![-0.0])) as ArrayRef));
    assert_same(&bound("max"), &(Arc::new(Float64Array::from(vec![f64::NAN])) as ArrayRef));

    let long = "é".repeat(50);
    let texts = StringArray::from(vec![None, Some("b"), Some(&long), Some("a")]);
    let (_, storage) =
        compress_array(&(Arc::new(texts) as ArrayRef), &Options::default()).unwrap().to_arrow("");
    let bound = |name: &str| {
        let bound = storage.column_by_name(name).unwrap().clone();
        cast::AsArray::as_string::<i32>(&bound).value(0).to_owned()
    };
    assert_eq!(bound("min"), "a");
    let max = bound("max");
    assert!(max.as_str() > long.as_str() && max.len() <= 64, "{max}");
}

#[test]
fn long_binary_bounds_that_cannot_be_increased_are_absent() {
    let array: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&[0xff; 100], b"a"]));
    let (_, storage) = compress_array(&array, &Options::default()).unwrap().to_arrow("");
    assert!(storage.column_by_name("max").unwrap().is_null(0));
    assert!(storage.column_by_name("min").unwrap().is_valid(0));
}

#[test]
fn strings_of_all_kinds_of_length_round_trip() {
    let mut rng = Rng(7);
    let mut values: Vec<Vec<u8>> = (0..=255_u8).map(|byte| vec![byte; byte as usize]).collect();
    values.extend((0..500).map(|_| Vec::new()));
    values.push((0..20_u64 << 20).map(|i| ((i * i) >> 9) as u8).collect());
    values.extend((0..300).map(|_| (0..rng.below(40)).map(|_| rng.next() as u8).collect()));
    for data_type in [DataType::Binary, DataType::LargeBinary, DataType::BinaryView] {
        check(&strings(&data_type, &values, Nulls::None), &Options::default());
    }
}

#[test]
fn batches_share_chunks_and_keep_schema_and_metadata() {
    let metadata = |key: &str| [(key.to_owned(), "v".to_owned())].into();
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false).with_metadata(metadata("unit")),
        Field::new("name", DataType::Utf8, true),
    ])
    .with_metadata(metadata("origin"));
    let batch = RecordBatch::try_new(
        Arc::new(schema),
        vec![
            array_of(&DataType::Int64, 5000, Shape::Narrow, Nulls::None),
            array_of(&DataType::Utf8, 5000, Shape::Narrow, Nulls::Random),
        ],
    )
    .unwrap();
    let packed = compress(&batch, &Options::default().with_chunk_rows(2048)).unwrap();
    assert_eq!(packed.num_rows(), 3);
    assert_eq!(decompress(&packed).unwrap(), batch);
    // One chunk's row is those rows of the batch.
    assert_eq!(decompress(&packed.slice(1, 2)).unwrap(), batch.slice(2048, 5000 - 2048));
    let joined =
        arrow_select::concat::concat_batches(&packed.schema(), [&packed.slice(2, 1), &packed])
            .unwrap();
    assert_eq!(decompress(&joined).unwrap().slice(5000 - 4096, 5000), batch);
}

#[test]
fn batches_without_rows_or_columns_round_trip() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
    let empty = RecordBatch::new_empty(schema);
    assert_eq!(decompress(&compress(&empty, &Options::default()).unwrap()).unwrap(), empty);
    let options = RecordBatchOptions::new().with_row_count(Some(77));
    let bare =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    assert_eq!(decompress(&compress(&bare, &Options::default()).unwrap()).unwrap(), bare);
}

#[test]
fn verification_accepts_what_is_right() {
    for data_type in encoded_types() {
        let array = array_of(&data_type, 2500, Shape::Outliers, Nulls::Random);
        compress_array(&array, &Options::default().with_verify(true)).unwrap();
    }
}

#[test]
fn all_shared_files_round_trip_with_every_encoding() {
    for path in shared_files() {
        let batch = read_parquet(&path);
        let each = [Encoding::Fsst, Encoding::Alp, Encoding::AlpRd, Encoding::Plain].map(Some);
        for encoding in std::iter::once(None).chain(each) {
            let options = Options::default();
            let options = match encoding {
                Some(encoding) => options.with_encodings([encoding]),
                None => options,
            };
            let packed = compress(&batch, &options).unwrap();
            assert!(decompress(&packed).unwrap() == batch, "{} differs", path.display());
        }
    }
}
