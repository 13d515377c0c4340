//! What is about devices rather than values.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use lanepack::*;

#[cfg(lanepack_simt)]
use super::check;
use super::common::*;
use super::{assert_same, engines, packed};

fn batch(rows: usize) -> RecordBatch {
    let types = [DataType::Int32, DataType::Utf8, DataType::Float64, DataType::Boolean];
    let fields = types.iter().map(|t| Field::new(t.to_string(), t.clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let arrays = types.iter().map(|t| array_of(t, rows, Shape::Outliers, Nulls::Random));
    RecordBatch::try_new(Arc::new(schema), arrays.collect()).unwrap()
}

#[test]
fn an_uploaded_batch_stays_compressed_and_decompresses_many_times() {
    let batch = batch(5000);
    let packed = compress(&batch, &Options::default().with_chunk_rows(2048)).unwrap();
    for engine in engines() {
        let on_device = engine.upload(&packed).unwrap();
        drop(packed.clone());
        assert_eq!((on_device.num_rows(), on_device.schema()), (5000, &batch.schema()));
        for (column, array) in on_device.columns().iter().zip(batch.columns()) {
            assert_eq!((column.len(), column.null_count()), (5000, array.null_count()));
            assert!(column.device_bytes() < array.get_array_memory_size());
        }
        for _ in 0..3 {
            let arrays = on_device.decompress().unwrap();
            for (array, expected) in arrays.iter().zip(batch.columns()) {
                assert_eq!(array.device(), engine.device().unwrap());
                assert_same(&array.to_host().unwrap(), expected, String::new);
            }
        }
    }
}

#[test]
fn arrays_outlive_the_batch_and_the_engine() {
    let batch = batch(3000);
    let packed = compress(&batch, &Options::default()).unwrap();
    for engine in engines() {
        let arrays = engine.upload(&packed).unwrap().decompress().unwrap();
        drop(engine);
        for (array, expected) in arrays.iter().zip(batch.columns()) {
            assert_same(&array.to_host().unwrap(), expected, String::new);
        }
    }
}

#[test]
fn threads_share_an_engine() {
    let batch = batch(3000);
    let packed = compress(&batch, &Options::default()).unwrap();
    for engine in engines() {
        let on_device = engine.upload(&packed).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        assert!(engine.decompress(&packed).unwrap() == batch);
                        let arrays = on_device.decompress().unwrap();
                        assert_same(&arrays[1].to_host().unwrap(), batch.column(1), String::new);
                    }
                });
            }
        });
    }
}

#[test]
fn batches_without_rows_or_columns() {
    for engine in engines() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        let empty = RecordBatch::new_empty(schema);
        let packed = compress(&empty, &Options::default()).unwrap();
        assert_eq!(engine.decompress(&packed).unwrap(), empty);
        let arrays = engine.upload(&packed).unwrap().decompress().unwrap();
        assert_same(&arrays[0].to_host().unwrap(), empty.column(0), String::new);
        for data_type in encoded_types() {
            let empty = new_empty_array(&data_type);
            let column = compress_array(&empty, &Options::default()).unwrap();
            let on_device = engine.upload(&super::packed(&column)).unwrap();
            let array = on_device.decompress().unwrap().remove(0);
            assert_same(&array.to_host().unwrap(), &empty, || data_type.to_string());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(77));
        let bare =
            RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
        let packed = compress(&bare, &Options::default()).unwrap();
        assert_eq!(engine.decompress(&packed).unwrap(), bare);
    }
}

#[test]
fn carried_types_stay_off_the_device() {
    for engine in engines() {
        for array in carried_arrays(10) {
            for len in [10, 0] {
                let column = compress_array(&array.slice(0, len), &Options::default()).unwrap();
                let on_device = engine.upload(&packed(&column)).unwrap();
                let error = on_device.decompress().unwrap_err().to_string();
                assert!(error.contains("only the CPU reads") && error.contains("price"), "{error}");
                assert!(on_device.columns()[0].nodes().is_err());
                assert!(on_device.columns()[0].validity_nodes().is_err());
            }
        }
    }
}

/// Chunks of one row beside one of thousands, and of values of one byte beside one of
/// a megabyte.
#[test]
fn chunks_of_very_different_sizes() {
    for engine in engines() {
        for data_type in [DataType::Utf8, DataType::Int32, DataType::FixedSizeBinary(5)] {
            let sizes = [1, 9000, 1, 2, 3, 1, 70];
            let parts: Vec<ArrayRef> =
                (sizes.iter())
                    .map(|rows| array_of(&data_type, *rows, Shape::Random, Nulls::None))
                    .chain((data_type == DataType::Utf8).then(|| {
                        Arc::new(StringArray::from(vec!["ab€".repeat(200_000)])) as ArrayRef
                    }))
                    .collect();
            let options = Options::default();
            let batches: Vec<RecordBatch> =
                parts.iter().map(|part| packed(&compress_array(part, &options).unwrap())).collect();
            let joined =
                arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            let expected = arrow_select::concat::concat(&parts).unwrap();
            let back = engine.decompress(&joined).unwrap();
            assert_same(back.column(0), &expected, || data_type.to_string());
        }
    }
}

#[test]
fn an_engine_says_what_it_runs_on() {
    let batch = batch(100);
    let packed = compress(&batch, &Options::default()).unwrap();
    for engine in engines() {
        assert!(engine.last_choice().is_none());
        engine.decompress(&packed).unwrap();
        let choice = engine.last_choice().unwrap();
        assert_eq!(choice.devices.iter().collect::<Vec<_>>(), engine.device_infos());
        assert!(!choice.cpu);
        assert!(choice.to_string().ends_with("asked for"), "{choice}");
    }
}

/// An exported array holds on to its memory until it is released.
#[test]
fn exported_arrays_have_the_layout_of_the_interface() {
    for engine in engines() {
        for data_type in encoded_types() {
            let array = array_of(&data_type, 1500, Shape::Narrow, Nulls::Random);
            let column = compress_array(&array, &Options::default()).unwrap();
            let on_device =
                engine.upload(&packed(&column)).unwrap().decompress().unwrap().remove(0);
            let buffers: Vec<_> = on_device.buffers().map(|(start, _)| start).collect();
            let validity = on_device.validity().map(|(start, _)| start).unwrap_or_default();
            let exported = on_device.export().unwrap();
            assert_eq!((exported.len(), exported.null_count()), (1500, Some(array.null_count())));
            // CUDA's handle is not null; an emulation has none.
            let (kind, _) = exported.device();
            assert_eq!(exported.sync_event().is_null(), kind == ArrowDeviceType::Cpu);
            let found = exported.buffer_pointers();
            assert_eq!(found[0], validity);
            assert_eq!(found[1..=buffers.len()], buffers, "{data_type}");
            let views = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
            assert_eq!(found.len(), 1 + buffers.len() + usize::from(views));
        }
    }
}

#[test]
#[cfg(lanepack_simt)]
fn exported_arrays_hold_their_memory_until_they_are_released() {
    let engine = Engine::simt(1, 1 << 30);
    for data_type in encoded_types() {
        let array = array_of(&data_type, 1500, Shape::Narrow, Nulls::Random);
        let column = compress_array(&array, &Options::default()).unwrap();
        let before = engine.free_memory().unwrap();
        let exported = {
            let on_device = engine.upload(&packed(&column)).unwrap();
            on_device.decompress().unwrap().remove(0).export().unwrap()
        };
        assert!(engine.free_memory().unwrap() < before, "{data_type}");
        drop(exported);
        assert_eq!(engine.free_memory().unwrap(), before, "{data_type}");
    }
}

#[test]
#[cfg(lanepack_simt)]
fn columns_larger_than_the_memory_are_errors_that_name_sizes() {
    let array = array_of(&DataType::Int64, 100_000, Shape::Random, Nulls::None);
    let column = compress_array(&array, &Options::default()).unwrap();
    // The column fits compressed, but not beside what it decompresses to.
    for memory in [100_000, 1_200_000] {
        let engine = Engine::simt(1, memory);
        let error = engine.decompress(&packed(&column)).unwrap_err();
        let Error::DeviceMemory { needed, free, total, .. } = &error else { panic!("{error}") };
        assert!(*needed >= 800_000 && free < needed && *total == memory, "{error}");
        assert!(error.to_string().starts_with("column \"price\": "), "{error}");
        // What fits still works.
        let small = array_of(&DataType::Int64, 1000, Shape::Random, Nulls::None);
        check(&engine, &small, &Options::default());
    }
}

#[test]
fn engines_without_a_device_say_why() {
    let engine = Engine::cpu();
    assert_eq!(engine.device(), None);
    let packed = compress(&batch(10), &Options::default()).unwrap();
    assert!(matches!(engine.upload(&packed), Err(Error::NoDevice { .. })));
    assert!(matches!(engine.free_memory(), Err(Error::NoDevice { .. })));
    let error = Engine::cuda(1000).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    for engine in engines() {
        assert!(engine.free_memory().unwrap() <= engine.device().unwrap().memory);
    }
}

#[test]
fn auto_takes_the_cpu_for_small_batches_and_says_so() {
    let batch = batch(100);
    let packed = compress(&batch, &Options::default()).unwrap();
    let engine = Engine::auto();
    assert!(engine.decompress(&packed).unwrap() == batch);
    let choice = engine.last_choice().unwrap();
    assert!(choice.cpu && choice.devices.is_empty());
    assert_ne!(choice.reason, Reason::AskedFor);
    let before = engine.choose(&columns(&packed).unwrap());
    assert!(before.cpu && before.took.is_none() && choice.took.is_some());
}
