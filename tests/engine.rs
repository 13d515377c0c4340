//! Single arrays by an engine: the same as without one, and by the same rule as batches.

mod common;

use arrow_array::{Array, Int64Array};
use common::*;
use lanepack::{Encoding, Engine, Error, Options, compress_array};
use std::sync::Arc;

#[test]
fn arrays_of_every_type_are_compressed_as_without_an_engine() {
    let options = Options::default().with_chunk_rows(1024);
    for engine in [Engine::cpu(), Engine::auto()] {
        let flat = encoded_types();
        let flat =
            flat.iter().map(|data_type| array_of(data_type, 3000, Shape::Outliers, Nulls::Random));
        for array in flat.chain(carried_arrays(3000)) {
            let column = engine.compress_array(&array, &options).unwrap();
            let expected = compress_array(&array, &options).unwrap();
            assert_eq!(column.field(), expected.field());
            let bytes = |column: &lanepack::CompressedColumn| -> Vec<_> {
                let chunks = column.chunks().iter();
                chunks.map(|chunk| (chunk.header().clone(), chunk.body().clone())).collect()
            };
            assert!(bytes(&column) == bytes(&expected), "{}", array.data_type());
            let back = engine.decompress_column(&column).unwrap();
            assert!(*back == *array, "{} differs", array.data_type());
        }
    }
}

#[test]
fn engines_say_what_arrays_ran_on() {
    let array = Arc::new(Int64Array::from_iter_values(0..2000)) as arrow_array::ArrayRef;
    let engine = Engine::cpu();
    let column = engine.compress_array(&array, &Options::default()).unwrap();
    assert_eq!(engine.last_choice().unwrap().to_string(), "CPU: asked for");
    let auto = Engine::auto();
    assert!(auto.last_choice().is_none());
    auto.decompress_column(&column).unwrap();
    // Too few bytes for any GPU.
    assert!(auto.last_choice().unwrap().devices.is_empty());
}

#[test]
fn options_out_of_range_are_refused() {
    let array = Arc::new(Int64Array::from_iter_values(0..2000)) as arrow_array::ArrayRef;
    for engine in [Engine::cpu(), Engine::auto()] {
        let options = Options::default().with_chunk_rows(1000);
        let error = engine.compress_array(&array, &options).unwrap_err();
        assert!(matches!(error, Error::Options { name: "chunk_rows", .. }), "{error}");
        let options = Options::default().with_encodings([Encoding::Lz]).with_threads(0);
        let error = engine.compress_array(&array, &options).unwrap_err();
        assert!(matches!(error, Error::Options { name: "threads", .. }), "{error}");
    }
}
