//! Calls that the CPU and several devices share: the same bytes and values whoever does what, with
//! devices of unequal speed and memory, that fail, and with limits.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{Field, Schema};
use lanepack::scan::{Aggregate, Expr, Scan, avg, col, count, count_rows, lit, max, min, sum};
use lanepack::{DeviceMemory, Engine, Error, Options, compress, decompress};

use super::common::*;
use super::{assert_same_bytes, cuda};

fn batch_of(columns: &[ArrayRef]) -> RecordBatch {
    let field = |(index, array): (usize, &ArrayRef)| {
        Field::new(index.to_string(), array.data_type().clone(), true)
    };
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.to_vec()).unwrap()
}

/// A column of every type that has an encoding of its own, and some that are carried.
fn every_type(rows: usize) -> RecordBatch {
    let types = encoded_types();
    let flat = types.iter().enumerate().map(|(at, data_type)| {
        array_of(data_type, rows, Shape::ALL[at % 4], Nulls::ALL[at % Nulls::ALL.len()])
    });
    batch_of(&flat.chain(carried_arrays(rows)).collect::<Vec<_>>())
}

/// Compresses and decompresses a batch, and compares with the CPU.
fn check(engine: &Engine, batch: &RecordBatch, options: &Options, what: &str) {
    let expected = compress(batch, options).unwrap();
    let found = engine.compress(batch, options).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_same_bytes(&found, &expected, || what.to_owned());
    let back = engine.decompress(&expected).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(back == decompress(&expected).unwrap(), "{what}: values differ");
}

/// Columns of few types, for scans: floats whose sum depends on the order, integers that grow, text,
/// booleans, decimals, lists.
fn for_scans(rows: usize) -> RecordBatch {
    let numbers = || 0..rows as i64;
    let floats =
        numbers().map(|i| (i % 17 != 3).then(|| ((i * 7919 % 10_007) as f64).sqrt() * 1e3));
    let text =
        numbers().map(|i| (i % 11 != 5).then(|| format!("{} of {}", i * 31 % 997, i / 5000)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("float", Arc::new(Float64Array::from_iter(floats))),
        ("growing", Arc::new(Int64Array::from_iter_values(numbers().map(|i| i * 5 + i % 3)))),
        ("small", Arc::new(UInt8Array::from_iter_values(numbers().map(|i| (i * i % 251) as u8)))),
        ("text", Arc::new(StringArray::from_iter(text))),
        ("flag", Arc::new(BooleanArray::from_iter(numbers().map(|i| Some(i % 3 == 0))))),
        ("decimal", Arc::new(Decimal128Array::from_iter_values(numbers().map(i128::from)))),
        ("list", list_of(rows)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

/// A list in each row, or none.
fn list_of(rows: usize) -> ArrayRef {
    let list =
        |row: usize| (row % 7 != 2).then(move || (0..row % 4).map(move |i| Some((row + i) as i32)));
    let lists = (0..rows).map(list);
    Arc::new(ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>(lists))
}

fn filters(rows: usize) -> Vec<Option<Expr>> {
    let middle = rows as i64 * 5 / 2;
    vec![
        None,
        Some(col("growing").gt(middle)),
        Some(col("small").lt(100_u8).and(col("text").starts_with("1"))),
        Some(col("text").is_null().or(col("float").gt(90_000.0))),
        Some(col("list").is_null()),
        Some(col("growing").lt(-1_i64)),
        Some((col("growing") * lit(2_i64)).lt(col("decimal") + lit(middle))),
    ]
}

fn aggregates() -> Vec<Aggregate> {
    vec![
        count_rows(),
        sum(col("float")),
        count(col("text")),
        sum(col("growing") * col("small")),
        min(col("text")),
        max(col("decimal")),
        avg(col("float")),
    ]
}

/// Compares scans by an engine with those of the CPU. What cannot be gathered by a GPU alone is an
/// error there.
fn check_scans(engine: &Engine, packed: &RecordBatch, gathers_lists: bool, what: &str) {
    for (at, filter) in filters(packed.num_rows()).into_iter().enumerate() {
        let what = format!("{what}: {}", filter.as_ref().map_or("all".to_owned(), Expr::to_string));
        let scan = match filter {
            Some(filter) => Scan::new(packed).filter(filter),
            None => Scan::new(packed),
        };
        let cpu = Engine::cpu();
        let expected = scan.mask(&cpu).unwrap();
        let failed = |error: Error| -> ! { panic!("{what}: {error}") };
        assert!(scan.mask(engine).unwrap_or_else(|e| failed(e)) == expected, "{what}");
        assert_eq!(scan.rows(engine).unwrap(), scan.rows(&cpu).unwrap(), "{what}");
        let mut names = vec!["text", "float", "flag", "growing"];
        let gathered = scan.gather(&names, engine).unwrap_or_else(|e| failed(e));
        assert!(gathered == scan.gather(&names, &cpu).unwrap(), "{what}");
        for few in [&["flag", "flag"][..], &[]] {
            let gathered = scan.gather(few, engine).unwrap_or_else(|e| failed(e));
            assert!(gathered == scan.gather(few, &cpu).unwrap(), "{what}: {few:?}");
        }
        names.push("list");
        match scan.gather(&names, engine) {
            Ok(gathered) => assert!(gathered == scan.gather(&names, &cpu).unwrap(), "{what}"),
            Err(Error::Unsupported { .. }) if !gathers_lists => {}
            Err(error) => failed(error),
        }
        // Kernels that emulations compile take seconds.
        if at % 3 == 1 || !super::thinned(engine, 1, 2) {
            let found = scan.aggregate(&aggregates(), engine).unwrap_or_else(|e| failed(e));
            assert_eq!(found, scan.aggregate(&aggregates(), &cpu).unwrap(), "{what}");
        }
        assert_eq!(scan.count(engine).unwrap(), expected.true_count(), "{what}");
    }
}

#[test]
fn a_gpu_and_the_cpu_share_scans() {
    let Some(engine) = cuda() else { return };
    let rows = if super::thinned(&engine, 1, 2) { 30_000 } else { 4_000_000 };
    let packed = compress(&for_scans(rows), &Options::default()).unwrap();
    for engine in [engine.clone().with_cpu(), engine.with_cpu().with_device_memory_limit(1 << 30)] {
        check_scans(&engine, &packed, true, "shared");
        let choice = engine.last_choice().unwrap();
        assert!(choice.cpu && choice.devices.len() == 1 && choice.shares.is_some(), "{choice}");
    }
}

/// Compresses and decompresses batches together, and compares with each by the CPU.
fn check_batches(engine: &Engine, batches: &[RecordBatch], options: &Options, what: &str) {
    let expected: Vec<RecordBatch> =
        batches.iter().map(|batch| compress(batch, options).unwrap()).collect();
    let found = engine.compress_batches(batches, options);
    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(found.len(), batches.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_same_bytes(found, expected, || format!("{what}, batch {index}"));
    }
    let back = engine.decompress_batches(&expected);
    let back = back.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(back.len(), batches.len(), "{what}");
    for (index, (found, packed)) in back.iter().zip(&expected).enumerate() {
        assert!(found == &decompress(packed).unwrap(), "{what}: values of batch {index} differ");
    }
}

/// Batches of every type, short, empty, and longer than a chunk.
fn small_batches(rows: &[usize]) -> Vec<RecordBatch> {
    rows.iter().map(|rows| every_type(*rows)).collect()
}

#[test]
fn a_gpu_does_many_batches_in_one_call() {
    let Some(engine) = cuda() else { return };
    let rows: Vec<usize> =
        (0..40).map(|index| [10_000, 1, 3000, 1024, 0, 70_000][index % 6]).collect();
    let batches = small_batches(if super::thinned(&engine, 1, 2) { &rows[..5] } else { &rows });
    for engine in [engine.clone(), engine.with_cpu()] {
        check_batches(&engine, &batches, &Options::default(), "batches");
    }
}

#[test]
fn a_gpu_and_the_cpu_share_columns_of_every_type() {
    let Some(engine) = cuda() else { return };
    let batch = every_type(300_000);
    for engine in [engine.clone().with_cpu(), engine.with_cpu().with_device_memory_limit(1 << 30)] {
        check(&engine, &batch, &Options::default(), "shared");
        let choice = engine.last_choice().unwrap();
        assert!(choice.cpu && choice.devices.len() == 1 && choice.shares.is_some(), "{choice}");
    }
}

/// All GPUs of this machine; where there are several, the last one with hardly any memory left.
#[test]
fn all_gpus_share() {
    if cuda().is_none() {
        return;
    }
    let all = || Engine::all_devices().unwrap();
    let batch = every_type(2_000_000);
    let first = || Engine::cuda(0).unwrap();
    check_copies(&first(), &first(), &batch, &Options::default());
    let packed = compress(&for_scans(4_000_000), &Options::default()).unwrap();
    for engine in [all(), all().with_cpu(), all().with_device_memory_limit(1 << 30)] {
        check(&engine, &batch, &Options::default(), "all GPUs");
        check_scans(&engine, &packed, false, "all GPUs");
    }
    let count = Engine::cuda_devices().unwrap();
    if count < 2 {
        return; // Other tests use the first.
    }
    let last = Engine::cuda(count - 1).unwrap();
    check_copies(&first(), &last, &batch, &Options::default());
    // Devices that have gone and come again.
    check_copies(&Engine::cuda(count - 1).unwrap(), &first(), &batch, &Options::default());
    check_copies(&first(), &Engine::cuda(count - 1).unwrap(), &batch, &Options::default());
    let most = last.free_memory().unwrap() - (256 << 20);
    let taken = DeviceMemory::<u8>::zeros(&last, most as usize).unwrap();
    let engine = all().with_cpu();
    check(&engine, &batch, &Options::default(), "little memory");
    check_scans(&engine, &packed, true, "little memory");
    drop(taken);
}

/// Copies a batch from the memory of one device to that of another, and compares what is there.
fn check_copies(from: &Engine, to: &Engine, batch: &RecordBatch, options: &Options) {
    let expected = compress(batch, options).unwrap();
    let original = from.compress_to_device(batch, options).unwrap();
    let copy = to.copy_from_device(&original).unwrap();
    assert_eq!(Some(copy.device()), to.device(), "where it is");
    drop(original);
    assert_same_bytes(&copy.download().unwrap(), &expected, || "a copy".to_owned());
    // What came from the host.
    let uploaded = from.upload(&expected).unwrap();
    let copy = to.copy_from_device(&uploaded).unwrap();
    for (column, array) in copy.columns().iter().zip(batch.columns()) {
        match column.decompress() {
            Ok(values) => assert_eq!(&values.to_host().unwrap(), array, "{}", column.field()),
            Err(Error::Unsupported { .. }) => {}
            Err(error) => panic!("{}: {error}", column.field()),
        }
    }
}

#[cfg(lanepack_simt)]
mod emulated {
    use arrow_schema::DataType;
    use lanepack::{Emulation, Predicted};

    use super::*;

    /// Devices of these memories.
    fn devices(memories: &[u64]) -> Vec<Emulation> {
        let device = |(at, memory): (usize, &u64)| Emulation {
            seed: at as u64,
            memory: *memory,
            ..Emulation::default()
        };
        memories.iter().enumerate().map(device).collect()
    }

    fn options() -> Options {
        Options::default().with_chunk_rows(1024)
    }

    #[test]
    fn columns_of_every_type() {
        let batch = every_type(9000);
        let two = || Engine::simt_devices(devices(&[1 << 30; 2]));
        let one = || Engine::simt_devices(devices(&[1 << 30]));
        for (what, engine) in [
            ("one device and the CPU", one().with_cpu()),
            ("two devices", two()),
            ("two devices and the CPU", two().with_cpu()),
        ] {
            check(&engine, &batch, &options(), what);
            let choice = engine.last_choice().unwrap();
            let shares = choice.shares.as_ref().unwrap();
            assert_eq!(shares.devices.len(), choice.devices.len(), "{choice}");
            assert!(shares.failures.is_empty() && shares.devices.iter().sum::<usize>() > 0);
        }
    }

    #[test]
    fn batches_are_copied_from_device_to_device() {
        let batch = every_type(3000);
        let one = |seed| Engine::simt(seed, 1 << 26);
        let (from, to) = (one(1), one(2));
        check_copies(&from, &to, &batch, &options());
        check_copies(&from, &from, &batch, &options());
        check_copies(&from, &to, &every_type(0), &options());
        let short: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values((0..1500).map(|_| ""))),
            Arc::new(Int64Array::new_null(1500)),
            Arc::new(StringArray::new_null(1500)),
            Arc::new(BooleanArray::from(vec![true; 1500])),
            Arc::new(Int32Array::from_iter_values((0..1500).map(|row| (row < 1024) as i32 * row))),
        ];
        check_copies(&from, &to, &batch_of(&short), &options());
        for engine in [&from, &to] {
            assert_eq!(engine.free_memory().unwrap(), 1 << 26, "all is freed");
        }
        let original = from.compress_to_device(&batch, &options()).unwrap();
        let full = Engine::simt(3, 4096).copy_from_device(&original).unwrap_err();
        assert!(matches!(full, Error::DeviceMemory { .. }), "{full}");
        let none = Engine::cpu().copy_from_device(&original).unwrap_err();
        assert!(matches!(none, Error::NoDevice { .. }), "{none}");
        let lost = |after| Emulation { lost_after: Some(after), ..Emulation::default() };
        let lost = Engine::simt_devices([lost(0)]);
        let error = lost.copy_from_device(&original).unwrap_err();
        assert!(matches!(error, Error::Device { .. }), "{error}");
        to.fail_allocations(5..6);
        let failed = to.copy_from_device(&original).unwrap_err();
        assert!(failed.to_string().contains("column"), "{failed}");
        to.fail_allocations(0..0);
        assert_eq!(to.free_memory().unwrap(), 1 << 26, "all is freed");
        // The copy stays when the original and its engine are gone.
        let copy = to.copy_from_device(&original).unwrap();
        drop((original, from));
        let packed = copy.download().unwrap();
        assert_same_bytes(&packed, &compress(&batch, &options()).unwrap(), || "a copy".to_owned());
        // Scans use it as any other, on its device.
        let packed = packed_for_scans(5000);
        let copy = to.copy_from_device(&one(4).upload(&packed).unwrap()).unwrap();
        let few = || col("small").lt(100_u8).and(col("text").starts_with("1"));
        let found = Scan::on_device(&copy).filter(few()).rows(&to).unwrap();
        let expected = Scan::new(&packed).filter(few()).rows(&Engine::cpu()).unwrap();
        assert!(found == expected && !found.is_empty());
    }

    /// Threads of a pool that all wait for calls, which need the pool themselves.
    #[test]
    fn calls_of_all_threads_of_a_pool_end() {
        let batch = every_type(5000);
        let engine = Engine::simt_devices(devices(&[1 << 30; 2])).with_cpu();
        let expected = compress(&batch, &options()).unwrap();
        let call = || {
            let found = engine.compress(&batch, &options()).unwrap();
            assert_same_bytes(&found, &expected, || "in a pool".to_owned());
            assert!(engine.decompress(&expected).unwrap() == decompress(&expected).unwrap());
        };
        rayon::scope(|scope| {
            (0..2 * rayon::current_num_threads()).for_each(|_| scope.spawn(|_| call()));
        });
        // With a number of threads that was asked for.
        let found = engine.compress(&batch, &options().with_threads(1)).unwrap();
        assert_same_bytes(&found, &expected, || "one thread".to_owned());
    }

    /// Batches of odd numbers of rows put together: bitmaps are not cut at bytes.
    #[test]
    fn chunks_of_any_number_of_rows() {
        let packed: Vec<RecordBatch> = [1, 1023, 700, 64, 3000, 1]
            .map(|rows| compress(&every_type(rows), &options()).unwrap())
            .into();
        let packed = arrow_select::concat::concat_batches(&packed[0].schema(), &packed).unwrap();
        let engine = Engine::simt_devices(devices(&[1 << 30; 2])).with_cpu();
        assert!(engine.decompress(&packed).unwrap() == decompress(&packed).unwrap());
        check(&engine, &every_type(0), &options(), "no rows");
        let sliced = every_type(5000).slice(1001, 3003);
        check(&engine, &sliced, &options(), "a slice");
    }

    #[test]
    fn groups_of_strings_keep_their_symbol_tables() {
        let text = |row: usize| format!("row {} of group {}", row % 1000, row / 20_000);
        let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..70_000).map(text)));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..70_000).map(|i| i * 7)));
        let engine = Engine::simt_devices(devices(&[1 << 30; 3])).with_cpu();
        // 35 chunks in groups of up to 10.
        let options = Options::default().with_chunk_rows(2048).with_group_rows(20_480);
        check(&engine, &batch_of(&[text, numbers]), &options, "groups");
    }

    /// Parts in the middle of a column that only the host has room for.
    #[test]
    fn long_parts_stay_where_they_belong() {
        let text = |row: usize| match row / 8192 {
            1 => "long ".repeat(30) + &row.to_string(),
            _ => row.to_string(),
        };
        let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..32_768).map(text)));
        let options = Options::default().with_chunk_rows(1024).with_group_rows(8192);
        let engine = Engine::simt_devices(devices(&[1 << 30])).with_cpu();
        let engine = engine.with_device_memory_limit(400_000);
        check(&engine, &batch_of(&[text]), &options, "long parts");
    }

    /// Unequal devices, devices that are lost in the middle, little memory, limits, with the CPU or
    /// without.
    #[test]
    fn random_devices_that_fail() {
        let mut rng = Rng(77);
        let mut failed = 0;
        for case in 0..24 {
            let count = 1 + rng.below(4) as usize;
            let mut emulations = devices(&vec![1 << 30; count]);
            for emulation in &mut emulations {
                if rng.below(3) == 0 {
                    emulation.bus = Some(20_000_000 << rng.below(4));
                }
                if rng.below(3) == 0 {
                    emulation.lost_after = Some(rng.below(400));
                }
                if rng.below(4) == 0 {
                    emulation.memory = 100_000 << rng.below(6);
                }
            }
            let mut lenient = Engine::simt_auto(emulations.clone(), rng.below(2) == 0);
            if rng.below(3) == 0 {
                lenient = lenient.with_device_memory_limit(200_000 << rng.below(5));
            }
            let options = options().with_verify(rng.below(3) == 0);
            let types = encoded_types();
            let mut column = || {
                let data_type = &types[rng.below(types.len() as u64) as usize];
                let [shape, nulls] = [4, 3].map(|end| rng.below(end) as usize);
                array_of(data_type, 30_000, Shape::ALL[shape], Nulls::ALL[nulls])
            };
            let batch = batch_of(&[column(), column(), column()]);
            let what = format!("case {case}: {emulations:?}");
            check(&lenient, &batch, &options, &what);
            let choice = lenient.last_choice().unwrap();
            // One device alone shares with nobody, unless it fails.
            failed += choice.shares.as_ref().map_or(0, |shares| shares.failures.len());
            // Asked for by name, a device that fails is an error, and the engine works on.
            let named = Engine::simt_devices(emulations).with_cpu();
            match named.compress(&batch, &options) {
                Ok(found) => {
                    let expected = compress(&batch, &options).unwrap();
                    assert_same_bytes(&found, &expected, || what.clone());
                }
                Err(Error::Device { .. } | Error::DeviceMemory { .. }) => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
        assert!(failed > 3, "{failed} devices have failed");
    }

    fn packed_for_scans(rows: usize) -> RecordBatch {
        compress(&for_scans(rows), &options()).unwrap()
    }

    #[test]
    fn scans_are_shared() {
        let packed = packed_for_scans(20_000);
        let two = || Engine::simt_devices(devices(&[1 << 30; 2]));
        let one = || Engine::simt_devices(devices(&[1 << 30]));
        for (what, engine, has_cpu) in [
            ("one device and the CPU", one().with_cpu(), true),
            ("two devices", two(), false),
            ("two devices and the CPU", two().with_cpu(), true),
            ("a limit", one().with_device_memory_limit(1 << 20), false),
            ("both", Engine::simt_auto(devices(&[1 << 30]), true), true),
            ("of both the device", Engine::simt_auto(devices(&[1 << 30]), false), true),
        ] {
            check_scans(&engine, &packed, has_cpu, what);
            let choice = engine.last_choice().unwrap();
            assert!(choice.took.is_some() && !choice.devices.is_empty(), "{what}: {choice}");
        }
    }

    /// Batches of odd numbers of rows put together, empty ones, a slice.
    #[test]
    fn scans_of_chunks_of_any_number_of_rows() {
        let packed: Vec<RecordBatch> = [1, 1023, 700, 64, 3000, 1].map(packed_for_scans).into();
        let packed = arrow_select::concat::concat_batches(&packed[0].schema(), &packed).unwrap();
        let engine = Engine::simt_devices(devices(&[1 << 30; 2])).with_cpu();
        check_scans(&engine, &packed, true, "odd chunks");
        check_scans(&engine, &packed_for_scans(0), true, "no rows");
        check_scans(&engine, &packed.slice(1, 3), true, "a slice");
    }

    #[test]
    fn scans_by_random_devices_that_fail() {
        let packed = packed_for_scans(20_000);
        let mut rng = Rng(78);
        let mut failed = 0;
        for case in 0..10 {
            let mut emulations = devices(&vec![1 << 30; 1 + rng.below(4) as usize]);
            for emulation in &mut emulations {
                match rng.below(4) {
                    0 => emulation.bus = Some(20_000_000 << rng.below(4)),
                    1 => emulation.lost_after = Some(rng.below(200)),
                    2 => emulation.memory = 50_000 << rng.below(6),
                    _ => emulation.has_compiler = false,
                }
            }
            let what = format!("case {case}: {emulations:?}");
            let engine = Engine::simt_auto(emulations, rng.below(2) == 0);
            check_scans(&engine, &packed, true, &what);
            let shares = engine.last_choice().unwrap().shares;
            failed += shares.map_or(0, |shares| shares.failures.len());
        }
        assert!(failed > 3, "{failed} devices have failed");
    }

    #[test]
    fn batches_are_shared() {
        let batches = small_batches(&[1, 1000, 1024, 0, 2500, 1024, 700, 1]);
        let with_rows: Vec<RecordBatch> =
            batches.iter().filter(|batch| batch.num_rows() > 0).cloned().collect();
        let empty = vec![batches[3].clone(); 3];
        let engine = Engine::simt(2, 1 << 30);
        check_batches(&engine, &with_rows, &options(), "no empty batch");
        check_batches(&engine, &empty, &options(), "empty batches");
        for (what, engine) in [
            ("the CPU", Engine::cpu()),
            ("two devices and the CPU", Engine::simt_devices(devices(&[1 << 30; 2])).with_cpu()),
            ("auto", Engine::simt_auto(devices(&[1 << 30]), false)),
        ] {
            check_batches(&engine, &batches, &options().with_verify(true), what);
        }
        let engine = Engine::simt(3, 1 << 30);
        assert!(engine.compress_batches(&[], &options()).unwrap().is_empty());
        let other = batch_of(&[array_of(&DataType::Int8, 10, Shape::Random, Nulls::None)]);
        let mixed = [batches[0].clone(), other];
        let error = engine.compress_batches(&mixed, &options()).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        let many = engine.compress_batches(&batches, &options()).unwrap();
        let error = engine.with_memory_limit(1000).decompress_batches(&many).unwrap_err();
        assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
    }

    /// What filters and limits do not allow is the same error whoever finds it.
    #[test]
    fn errors_of_shared_scans() {
        let packed = packed_for_scans(20_000);
        let engine = Engine::simt_devices(devices(&[1 << 30; 2])).with_cpu();
        let errors = |engine: &Engine| {
            let scan = Scan::new(&packed);
            let limited = engine.clone().with_memory_limit(1000);
            [
                scan.clone().filter(col("none").gt(1_i64)).count(engine).unwrap_err(),
                scan.gather(&["text", "float"], &limited).unwrap_err(),
                scan.aggregate(&[sum(col("text"))], engine).unwrap_err(),
            ]
            .map(|error| error.to_string())
        };
        assert_eq!(errors(&engine), errors(&Engine::cpu()));
        let small = engine.with_device_memory_limit(100);
        let count = Scan::new(&packed).filter(col("growing").gt(5_i64)).count(&small);
        assert_eq!(count.unwrap(), 19_999, "the CPU does what devices have no room for");
        let alone = Engine::simt(1, 1 << 30).with_device_memory_limit(100);
        let error = Scan::new(&packed).count(&alone).unwrap_err().to_string();
        assert!(error.contains("device_memory_limit"), "{error}");
    }

    #[test]
    fn predictions_come_from_what_was_calibrated() {
        let batch = batch_of(&[array_of(&DataType::Int64, 5000, Shape::Random, Nulls::None)]);
        let engine = Engine::simt(1, 1 << 30);
        let predicted = |engine: &Engine| {
            check(engine, &batch, &options(), "calibrated");
            let choice = engine.last_choice().unwrap();
            assert!(choice.took.is_some(), "{choice}");
            choice.predicted.unwrap()
        };
        let shipped = predicted(&engine);
        engine.calibrate().unwrap();
        let calibrated = predicted(&engine);
        let Predicted { cpu, devices, both, .. } = calibrated;
        assert!([cpu, devices, both].iter().all(|time| !time.is_zero()));
        // An emulation is slower than the GPU whose rates are shipped.
        assert!(devices > shipped.devices, "{calibrated:?}, {shipped:?}");
        assert!(Engine::cpu().calibrate().is_err());
    }

    #[test]
    fn a_limit_of_device_memory_is_kept_and_names_what_is_needed() {
        let array = array_of(&DataType::Int64, 200_000, Shape::Random, Nulls::None);
        let batch = batch_of(&[array]);
        // The column has 1.6 MB.
        let engine = Engine::simt(1, 900_000).with_device_memory_limit(800_000);
        check(&engine, &batch, &options(), "limit");
        let small = Engine::simt(1, 1 << 30).with_device_memory_limit(1000);
        let least = |error: Error| -> u64 {
            assert!(matches!(error, Error::Options { name: "device_memory_limit", .. }), "{error}");
            error.to_string().rsplit(' ').next().unwrap().parse().unwrap()
        };
        let expected = compress(&batch, &options()).unwrap();
        let needed = least(small.compress(&batch, &options()).unwrap_err());
        let enough = small.clone().with_device_memory_limit(needed);
        let found = enough.compress(&batch, &options()).unwrap();
        assert_same_bytes(&found, &expected, || "the least limit".to_owned());
        let needed = least(small.decompress(&expected).unwrap_err());
        let enough = small.with_device_memory_limit(needed);
        assert!(enough.decompress(&expected).unwrap() == batch);
    }

    #[test]
    fn damage_is_found_whoever_finds_it() {
        let errors = [DataType::Utf8, DataType::Int32]
            .map(|data_type| damaged(&array_of(&data_type, 50_000, Shape::Random, Nulls::Random)));
        assert!(errors.iter().all(|errors| *errors > 1), "{errors:?} errors");
    }

    /// Damages one place of a chunk after the other and compares with the CPU; how many errors there
    /// were. Bitmaps have 128 bytes, and begin at a multiple of 64.
    fn damaged(array: &ArrayRef) -> usize {
        let column = lanepack::compress_array(array, &options()).unwrap();
        let (field, storage) = column.to_arrow("values");
        let engine = Engine::simt_devices(devices(&[1 << 30; 2])).with_cpu();
        let mut rng = Rng(5);
        let mut errors = 0;
        let places = (0..column.chunks()[0].body().len()).step_by(64);
        for (case, at) in places.flat_map(|at| [at, at]).enumerate() {
            let (fields, mut columns, _) = storage.clone().into_parts();
            let bodies = columns[5].as_any().downcast_ref::<LargeBinaryArray>().unwrap();
            let mut values: Vec<Vec<u8>> = bodies.iter().flatten().map(<[u8]>::to_vec).collect();
            let chunk = if case % 3 == 0 { 0 } else { values.len() - 2 };
            let body = &mut values[chunk];
            let end = body.len().min(at + 128);
            match case % 2 {
                _ if at >= end => {}
                // Of a bitmap: all rows are valid.
                0 => body[at..end].fill(0xff),
                _ => body[at + rng.below((end - at) as u64) as usize] ^= 1 << rng.below(8),
            }
            columns[5] = Arc::new(LargeBinaryArray::from_iter_values(values));
            let storage = StructArray::new(fields, columns, None);
            let schema = Arc::new(Schema::new(vec![field.clone()]));
            let batch = RecordBatch::try_new(schema, vec![Arc::new(storage)]).unwrap();
            match (engine.decompress(&batch), decompress(&batch)) {
                (Ok(found), Ok(expected)) => assert!(found == expected),
                (Err(found), Err(expected)) => {
                    assert_eq!(found.to_string(), expected.to_string());
                    errors += 1;
                }
                (found, expected) => panic!("{found:?}, on the CPU {expected:?}"),
            }
            // Scans, and many batches in one call, refuse the same and find the same.
            let scan = Scan::new(&batch).filter(col("values").is_not_null());
            let gather = |engine: &Engine| scan.gather(&["values"], engine);
            match (gather(&engine), gather(&Engine::cpu())) {
                (Ok(found), Ok(expected)) => assert!(found == expected),
                (Err(_), Err(_)) => {}
                (found, expected) => panic!("{found:?}, on the CPU {expected:?}"),
            }
            if case % 8 == 0 {
                let batches = [batch.clone(), batch.clone()];
                match (engine.decompress_batches(&batches), decompress(&batch)) {
                    (Ok(found), Ok(expected)) => assert!(found.iter().all(|one| one == &expected)),
                    (Err(found), Err(expected)) => {
                        assert_eq!(found.to_string(), expected.to_string());
                    }
                    (found, expected) => panic!("{found:?}, on the CPU {expected:?}"),
                }
            }
        }
        errors
    }
}
