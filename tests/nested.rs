//! Nested columns: any type nested anyhow comes back as it was, in several chunks, by row and
//! through scans; what is not there to see does not show in the bytes; and leaves are
//! compressed as columns are.

mod common;
#[path = "nested/random.rs"]
mod random;
#[path = "nested/shapes.rs"]
mod shapes;

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use common::Rng;
use lanepack::scan::{Scan, col};
use lanepack::*;
use proptest::prelude::*;

fn options() -> impl Strategy<Value = Options> {
    let rows = prop_oneof![Just(1024), Just(2048), Just(MAX_CHUNK_ROWS)];
    let encodings = prop_oneof![
        2 => Just(Encoding::ALL.to_vec()),
        2 => Just(Options::default().encodings().iter().collect()),
        1 => prop::sample::subsequence(Encoding::ALL.to_vec(), 0..Encoding::ALL.len()),
    ];
    (rows, encodings).prop_map(|(rows, encodings)| {
        Options::default().with_chunk_rows(rows).with_encodings(encodings)
    })
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![1 => 0_usize..3, 3 => 3_usize..200, 2 => 1000_usize..3000]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arrays_of_any_nested_type_come_back(
        seed in any::<u64>(),
        len in lengths(),
        options in options(),
        rows in prop::collection::vec(0.0..1.0, 3),
    ) {
        let mut rng = Rng(seed);
        let data_type = random::data_type(&mut rng, 4);
        let array = random::array(&mut rng, &data_type, len);
        let column = compress_array(&array, &options).unwrap();
        prop_assert_eq!(column.null_count(), array.logical_null_count());
        let (field, storage) = column.to_arrow("column");
        let column = CompressedColumn::try_from_arrow(&field, &storage).unwrap();
        let back = column.decompress().unwrap_or_else(|error| panic!("{error}: {data_type}"));
        prop_assert_eq!(back.data_type(), &data_type);
        back.to_data().validate_full().unwrap();
        prop_assert!(*back == *array, "{data_type} differs, as {}", column.explain());
        for row in rows {
            if len > 0 {
                let row = (row * len as f64) as usize;
                let value = column.value(row).unwrap().into_inner();
                value.to_data().validate_full().unwrap();
                prop_assert_eq!(value.data_type(), &data_type);
                prop_assert!(value == array.slice(row, 1), "row {row} of {}", column.explain());
            }
        }
    }

    #[test]
    fn scans_keep_rows_of_nested_columns(seed in any::<u64>(), len in 1_usize..2500) {
        let mut rng = Rng(seed);
        let data_type = random::data_type(&mut rng, 3);
        let array = random::array(&mut rng, &data_type, len);
        let numbers = Int64Array::from_iter_values((0..len).map(|row| row as i64 * 7 % 100));
        let schema = Schema::new(vec![
            Field::new("nested", data_type, true),
            Field::new("number", DataType::Int64, false),
        ]);
        let batch =
            RecordBatch::try_new(Arc::new(schema), vec![array.clone(), Arc::new(numbers)]).unwrap();
        let packed = compress(&batch, &Options::default().with_chunk_rows(1024)).unwrap();
        let engine = Engine::cpu();
        let is_null = |row: usize| {
            array.logical_nulls().is_some_and(|nulls| nulls.is_null(row))
        };
        let nulls = (0..len).filter(|row| is_null(*row)).count();
        let count = |filter| Scan::new(&packed).filter(filter).count(&engine).unwrap();
        prop_assert_eq!(count(col("nested").is_null()), nulls);
        prop_assert_eq!(count(col("nested").is_not_null()), len - nulls);

        let scan = Scan::new(&packed).filter(col("number").lt(3).and(col("nested").is_not_null()));
        let kept: Vec<u32> = (0..len)
            .filter(|row| row * 7 % 100 < 3 && !is_null(*row))
            .map(|row| row as u32)
            .collect();
        let found = scan.gather(&["nested"], &engine);
        let found = found.unwrap_or_else(|error| panic!("{error}: {}", array.data_type()));
        prop_assert_eq!(found.num_rows(), kept.len());
        for (at, row) in kept.into_iter().enumerate() {
            let found = found.column(0).slice(at, 1);
            prop_assert!(found == array.slice(row as usize, 1), "row {row}");
        }
    }
}
