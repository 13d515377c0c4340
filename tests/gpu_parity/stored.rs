//! Scans of files: chunks that bounds exclude are not read, windows are scanned one by one, and what a GPU
//! gives is what the CPU gives of the same columns in memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    ArrayRef, BinaryArray, Int64Array, ListArray, RecordBatch, RecordBatchReader, record_batch,
};
use arrow_buffer::Buffer;
use lanepack::file::{Dataset, File, ReadAt, Writer};
use lanepack::scan::{Expr, Lookup, Scan, col, count_distinct, count_rows, max, min, sum};
#[cfg(lanepack_simt)]
use lanepack::{Emulation, Reason};
use lanepack::{Engine, Error, Options, columns, compress};

use super::{engines, without_compiler};

/// 9,000 rows in order of `day`.
fn facts() -> RecordBatch {
    let rows = 0..9000_i64;
    let price = |row: i64| (row % 5 > 0).then_some((row * 37 % 1000) as f64 * 0.1);
    record_batch!(
        ("day", Int32, rows.clone().map(|row| (row / 10) as i32).collect::<Vec<_>>()),
        ("shop", Int64, rows.clone().map(|row| row * 7919 % 23).collect::<Vec<_>>()),
        ("price", Float64, rows.clone().map(price).collect::<Vec<_>>()),
        ("name", Utf8, rows.map(|row| format!("item {}", row * 31 % 97)).collect::<Vec<_>>())
    )
    .unwrap()
}

#[test]
fn files_are_scanned_as_columns_in_memory() {
    let options = Options::default().with_chunk_rows(1024);
    let batch = facts();
    let writer = Writer::try_new(Vec::new(), &batch.schema(), options.clone()).unwrap();
    let mut writer = writer.with_filters(&["shop", "name"]).unwrap();
    writer.write(&batch).unwrap();
    let file = File::from_bytes(Buffer::from_vec(writer.into_inner().unwrap())).unwrap();
    let packed = compress(&batch, &options).unwrap();
    let shops = record_batch!(
        ("id", Int64, (0..20).collect::<Vec<i64>>()),
        ("town", Utf8, (0..20).map(|id| format!("town {}", id % 4)).collect::<Vec<_>>())
    );
    let shops = Lookup::try_new(&shops.unwrap(), "id").unwrap();
    let filters: [Option<Expr>; 6] = [
        None,
        // Chunks in the middle, two chunks with others between, none.
        Some(col("day").between(200, 450)),
        Some(col("day").lt(60).or(col("day").gt(800)).and(col("name").not_eq("item 31"))),
        Some(col("day").gt(5000)),
        // Membership filters exclude all chunks, or those of one side.
        Some(col("name").eq("item 100")),
        Some(col("shop").eq(29).or(col("name").eq("item 31").and(col("day").lt(500)))),
    ];
    let aggregates = [count_rows(), sum(col("price")), max(col("price")), min(col("day"))];
    let all = |scan: &Scan<'_>, engine: &Engine| {
        let groups = scan.clone().join(col("shop"), &shops).group_by([col("town"), col("name")]);
        [
            scan.aggregate(&aggregates, engine).unwrap(),
            scan.aggregate(&[count_distinct(col("name"))], engine).unwrap(),
            groups.aggregate(&aggregates, engine).unwrap(),
            scan.gather(&["name", "price", "day"], engine).unwrap(),
            scan.clone().order_by([("price", true)]).limit(9).gather(&["day"], engine).unwrap(),
        ]
    };
    for engine in engines().into_iter().chain(auto()).chain([Engine::cpu()]) {
        // As the engine likes it; all chunks at a time, a few, one.
        for window in [None, Some(u64::MAX), Some(20_000), Some(1)] {
            let file = match window {
                None => file.clone(),
                Some(bytes) => file.clone().with_window_bytes(bytes),
            };
            for filter in &filters {
                let [expected, found] =
                    [Scan::new(&packed), file.scan()].map(|scan| match filter {
                        None => scan,
                        Some(filter) => scan.filter(filter.clone()),
                    });
                let cpu = Engine::cpu();
                assert_eq!(found.mask(&engine).unwrap(), expected.mask(&cpu).unwrap());
                assert_eq!(found.count(&engine).unwrap(), expected.count(&cpu).unwrap());
                let what = format!("{window:?} {filter:?}");
                assert_eq!(all(&found, &engine), all(&expected, &cpu), "{what}");
                let batches = found.batches(&["name", "price", "day"], &engine).unwrap();
                let schema = batches.schema();
                let batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>().unwrap();
                let rows = arrow_select::concat::concat_batches(&schema, &batches).unwrap();
                assert_eq!(rows, all(&expected, &cpu)[3]);
            }
        }
    }
}

/// Engines that choose who works: emulations that are always chosen.
fn auto() -> Vec<Engine> {
    #[cfg(lanepack_simt)]
    return [true, false]
        .map(|with_cpu| Engine::simt_auto([Emulation::default()], with_cpu))
        .into();
    #[cfg(not(lanepack_simt))]
    Vec::new()
}

#[cfg(lanepack_simt)]
#[test]
fn files_go_to_a_gpu_that_is_chosen_and_to_the_cpu_if_it_fails() {
    let batch = facts();
    let file = File::from_bytes(Buffer::from_vec(written(&batch))).unwrap();
    // More than one window.
    let small = file.clone().with_window_bytes(10_000);
    let filter = || col("shop").lt(9).and(col("name").not_eq("item 31"));
    let asked = [count_rows(), sum(col("price")), max(col("day"))];
    let expected = file.scan().filter(filter()).aggregate(&asked, &Engine::cpu()).unwrap();
    let engine = |emulation| Engine::simt_auto([emulation], false);
    let works = engine(Emulation::default());
    let found = small.scan().filter(filter()).aggregate(&asked, &works).unwrap();
    assert_eq!(found, expected);
    let choice = works.last_choice().unwrap();
    assert_eq!((choice.cpu, choice.devices.len()), (false, 1));
    assert!(choice.reason == Reason::Predicted && choice.shares.is_none());
    assert!(choice.predicted.is_some() && choice.took.is_some());

    let mut gave_up = 0;
    let without_memory =
        (0..6).map(|step| Emulation { memory: 1000 << (2 * step), ..Emulation::default() });
    let lost =
        (0..12).map(|step| Emulation { lost_after: Some(step * step), ..Emulation::default() });
    for emulation in without_memory.chain(lost) {
        let engine = engine(emulation.clone());
        for file in [&file, &small] {
            let scan = || file.scan().filter(filter());
            assert_eq!(scan().aggregate(&asked, &engine).unwrap(), expected, "{emulation:?}");
            let choice = engine.last_choice().unwrap();
            let failures = choice.shares.as_ref().map_or(0, |shares| shares.failures.len());
            assert_eq!(choice.cpu, failures == 1, "{emulation:?}: {choice}");
            gave_up += failures;
            let batches = scan().batches(&["shop", "price"], &engine).unwrap();
            let rows: usize = batches.map(|batch| batch.unwrap().num_rows()).sum();
            assert_eq!(rows, file.scan().filter(filter()).count(&Engine::cpu()).unwrap());
        }
    }
    assert!(gave_up > 8, "{gave_up}");
    // A device that was asked for by name.
    let named = Engine::simt_devices([Emulation { memory: 1000, ..Emulation::default() }]);
    assert!(file.scan().filter(filter()).count(&named).is_err());
}

/// The bytes of a file of a batch, in chunks of 1,024 rows.
fn written(batch: &RecordBatch) -> Vec<u8> {
    let options = Options::default().with_chunk_rows(1024);
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn columns_of_files_go_to_the_device_as_they_are() {
    let (batch, names) = (facts(), ["name", "day", "price"]);
    let bytes = written(&batch);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.lanepack");
    std::fs::write(&path, &bytes).unwrap();
    let on_disk = File::open(&path).unwrap();
    let file = File::from_bytes(Buffer::from_vec(bytes)).unwrap();
    // In the second file there is no price.
    let days =
        File::from_bytes(Buffer::from_vec(written(&batch.project(&[0, 3]).unwrap()))).unwrap();
    let both = Dataset::try_new_with_schema(vec![file.clone(), days], &batch.schema()).unwrap();
    let expected = file.columns(&names).unwrap();
    for engine in engines().into_iter().filter(|engine| engine.device().is_some()) {
        for limit in [1 << 30, 0] {
            let engine = engine.clone().with_pinned_limit(limit);
            for window in [u64::MAX, 20_000, 1] {
                for file in [&file, &on_disk] {
                    let file = file.clone().with_window_bytes(window);
                    let on_device = file.to_device(&names, &engine).unwrap();
                    assert_eq!(on_device.num_rows(), batch.num_rows());
                    for (column, expected) in on_device.columns().iter().zip(&expected) {
                        let bodies = expected.chunks().iter().map(|chunk| chunk.body().len());
                        assert_eq!(column.device_bytes(), bodies.sum::<usize>());
                    }
                    for (found, expected) in
                        columns(&on_device.download().unwrap()).unwrap().iter().zip(&expected)
                    {
                        assert_eq!(found.chunks().len(), expected.chunks().len());
                        for (found, expected) in found.chunks().iter().zip(expected.chunks()) {
                            assert_eq!(found.header(), expected.header());
                            assert_eq!(found.body(), expected.body());
                        }
                    }
                    let scan = Scan::on_device(&on_device).filter(col("day").between(200, 450));
                    let expected = file.scan().filter(col("day").between(200, 450));
                    assert_eq!(
                        scan.gather(&names, &engine).unwrap(),
                        expected.gather(&names, &Engine::cpu()).unwrap()
                    );
                }
                let both = both.clone().with_window_bytes(window);
                let on_device = both.to_device(&names, &engine).unwrap();
                let sums = [count_rows(), sum(col("price")), max(col("day"))];
                assert_eq!(
                    Scan::on_device(&on_device).aggregate(&sums, &engine).unwrap(),
                    both.scan().aggregate(&sums, &Engine::cpu()).unwrap()
                );
                assert_eq!(
                    both.scan().filter(col("day").lt(99)).gather(&names, &engine).unwrap(),
                    both.scan().filter(col("day").lt(99)).gather(&names, &Engine::cpu()).unwrap()
                );
            }
        }
    }
    let refused = file.to_device(&names, &Engine::cpu()).unwrap_err();
    assert!(matches!(refused, Error::NoDevice { .. }), "{refused}");
}

#[test]
fn damage_and_failures_are_found_on_the_way_to_the_device() {
    let bytes = written(&facts());
    let file = File::from_bytes(Buffer::from_vec(bytes.clone())).unwrap();
    let at = |body: &[u8]| bytes.windows(body.len()).position(|window| window == body).unwrap();
    let chunk = file.columns(&["price"]).unwrap()[0].chunks()[5].clone();
    let at = at(chunk.body());
    let mut damaged = bytes.clone();
    damaged[at + 40] ^= 1;
    let damaged = File::from_bytes(Buffer::from_vec(damaged)).unwrap().with_name("damaged");
    let failing = Failing { bytes: Buffer::from_vec(bytes), at: at as u64 };
    let failing = File::from_source(Arc::new(failing)).unwrap().with_name("failing");
    for engine in engines() {
        for (file, is_expected) in [
            (&damaged, (|error| matches!(error, Error::Checksum { .. })) as fn(&Error) -> bool),
            (&failing, |error| matches!(error, Error::Io { .. })),
        ] {
            for window in [u64::MAX, 1] {
                let file = file.clone().with_window_bytes(window);
                let mut errors =
                    vec![file.scan().aggregate(&[sum(col("price"))], &engine).unwrap_err()];
                if engine.device().is_some() {
                    errors.push(file.to_device(&["day", "price"], &engine).unwrap_err());
                }
                for error in errors {
                    assert!(is_expected(&error), "{error}");
                    let place = error.place().unwrap();
                    assert_eq!(place.file.as_deref(), file.name());
                    assert_eq!(place.column.as_deref(), Some("price"), "{error}");
                    // Chunks that are read together fail together.
                    let is_exact = window == 1 || file.name() == Some("damaged");
                    assert!(place.chunk == Some(5) || !is_exact, "{error}");
                }
            }
        }
    }
}

/// Random numbers: 4 columns of 1.6 MB in 7 chunks, which are read to page-locked memory, and copied without
/// waiting.
fn numbers() -> RecordBatch {
    let column = |seed: u64| {
        let mut state = seed;
        let value = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 29)) as i64
        };
        (0..200_000).map(value).collect::<Vec<i64>>()
    };
    record_batch!(
        ("a", Int64, column(1)),
        ("b", Int64, column(2)),
        ("c", Int64, column(3)),
        ("d", Int64, column(4))
    )
    .unwrap()
}

#[test]
fn what_fails_on_the_way_leaves_memory_to_others() {
    let batch = numbers();
    let options = Options::default().with_chunk_rows(32_768);
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.lanepack");
    std::fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).unwrap();
    let chunk = file.columns(&["c"]).unwrap()[0].chunks()[4].clone();
    let at = bytes.windows(256).position(|window| window == &chunk.body()[..256]).unwrap();
    let failing = Failing { bytes: Buffer::from_vec(bytes), at: at as u64 };
    let failing = File::from_source(Arc::new(failing)).unwrap();
    let filter = || col("a").gt(0).and(col("b").lt(col("c")));
    let names = ["d", "c"];
    let expected = file.scan().filter(filter()).gather(&names, &Engine::cpu()).unwrap();
    for engine in engines() {
        for limit in [1 << 30, 3 << 20, 0] {
            let engine = engine.clone().with_pinned_limit(limit);
            for window in [u64::MAX, 2 << 20] {
                let [file, failing] =
                    [&file, &failing].map(|file| file.clone().with_window_bytes(window));
                for _ in 0..2 {
                    let error =
                        failing.scan().filter(filter()).gather(&names, &engine).unwrap_err();
                    assert!(matches!(error, Error::Io { .. }), "{error}");
                    let found = file.scan().filter(filter()).gather(&names, &engine).unwrap();
                    assert_eq!(found, expected);
                }
                if engine.device().is_some() {
                    let on_device = file.to_device(&["a", "b", "c", "d"], &engine).unwrap();
                    let found = Scan::on_device(&on_device).filter(filter());
                    assert_eq!(found.gather(&names, &engine).unwrap(), expected);
                }
            }
        }
        // A limit of device memory, and the CPU beside it: spans are copied one by one.
        for engine in [engine.clone().with_device_memory_limit(8 << 20), engine.clone().with_cpu()]
        {
            let found = file.scan().filter(filter()).gather(&names, &engine).unwrap();
            assert_eq!(found, expected);
        }
    }
}

/// Parts that are longer than what is copied at a time, of which the host keeps nothing.
#[test]
fn chunks_of_many_bytes_go_to_the_device() {
    let mut state = 5_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let values: Vec<Vec<u8>> = (0..9000).map(|_| (0..600).map(|_| byte()).collect()).collect();
    let values = BinaryArray::from_iter_values(values);
    let id = Int64Array::from_iter_values(0..9000);
    let batch = RecordBatch::try_from_iter([
        ("value", Arc::new(values) as ArrayRef),
        ("id", Arc::new(id) as ArrayRef),
    ])
    .unwrap();
    let options = Options::default().with_chunk_rows(4096);
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values.lanepack");
    std::fs::write(&path, writer.into_inner().unwrap()).unwrap();
    let file = File::open(&path).unwrap();
    assert!(file.statistics("value").unwrap().bytes.value(0) > 2 << 20);
    for engine in engines() {
        for limit in [1 << 30, 3 << 20, 0] {
            let engine = engine.clone().with_pinned_limit(limit);
            for _ in 0..3 {
                assert_eq!(file.scan().gather(&["value", "id"], &engine).unwrap(), batch);
            }
        }
    }
}

#[test]
fn chunks_at_odd_places_go_to_the_device() {
    let batch = facts().project(&[1, 2, 3]).unwrap();
    let mut bytes = written(&batch);
    let file = File::from_bytes(Buffer::from_vec(bytes.clone())).unwrap();
    let len = |name: &str, chunk: usize| file.statistics(name).unwrap().bytes.value(chunk) as usize;
    // The index begins where the footer says; its parts are described in docs/FORMAT.md.
    let key = b"lanepack.index";
    let at = bytes.windows(key.len()).rposition(|window| window == key).unwrap();
    let digits: Vec<u64> = bytes[at - 64..at + 64]
        .split(|byte| !byte.is_ascii_digit())
        .filter_map(|number| std::str::from_utf8(number).unwrap().parse().ok())
        .collect();
    let index = digits.windows(2).find(|pair| pair[0] + pair[1] < bytes.len() as u64).unwrap();
    let (at, end) = (index[0] as usize, (index[0] + index[1]) as usize);
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let entry = |bytes: &[u8], column: usize, chunk: usize| {
        at + word(bytes, at + 24 + 8 * column) as usize + 8 * chunk
    };
    // A chunk of `price` moves into one of `name`, which has more bytes and is not read.
    let (from, to) = (entry(&bytes, 1, 3), entry(&bytes, 2, 3));
    let (from_at, to_at) = (word(&bytes, from) as usize, word(&bytes, to) as usize + 8);
    let moved = bytes[from_at..from_at + len("price", 3)].to_vec();
    assert!(moved.len() + 8 <= len("name", 3));
    bytes[to_at..to_at + moved.len()].copy_from_slice(&moved);
    bytes[from..from + 8].copy_from_slice(&(to_at as u64).to_le_bytes());
    let sum = twox_hash::XxHash3_64::oneshot(&bytes[at + 8..end]);
    bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    let file = File::from_bytes(Buffer::from_vec(bytes)).unwrap();
    let expected = batch.project(&[1, 0]).unwrap();
    for engine in engines() {
        for limit in [1 << 30, 0] {
            let engine = engine.clone().with_pinned_limit(limit);
            assert_eq!(file.scan().gather(&["price", "shop"], &engine).unwrap(), expected);
        }
    }
}

#[test]
fn nested_columns_and_files_without_rows_are_scanned() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..3000).map(|row| (row % 7 > 0).then(|| vec![Some(row), None])),
    );
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from_iter_values(0..3000)) as ArrayRef, false),
        ("lists", Arc::new(lists) as ArrayRef, true),
    ])
    .unwrap();
    let file = File::from_bytes(Buffer::from_vec(written(&batch))).unwrap();
    let none = File::from_bytes(Buffer::from_vec(written(&batch.slice(0, 0)))).unwrap();
    let filter = || col("lists").is_not_null().and(col("id").gt_eq(1500));
    let expected = file.scan().filter(filter()).gather(&["id"], &Engine::cpu()).unwrap();
    assert_eq!(expected.num_rows(), 1286);
    for engine in engines().into_iter().chain(without_compiler()) {
        assert_eq!(file.scan().filter(filter()).gather(&["id"], &engine).unwrap(), expected);
        let lists = file.scan().filter(filter()).gather(&["lists"], &engine);
        let error = lists.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert_eq!(none.scan().filter(filter()).count(&engine).unwrap(), 0);
        let sums = none.scan().aggregate(&[count_rows(), sum(col("id"))], &engine).unwrap();
        assert_eq!(sums.column(0).as_primitive::<Int64Type>().value(0), 0);
        assert_eq!(file.scan().count(&engine).unwrap(), 3000);
        // Some of the batches, and no more.
        let file = file.clone().with_window_bytes(1);
        let mut batches = file.scan().batches(&["id"], &engine).unwrap();
        assert_eq!(batches.next_batch().unwrap().unwrap().num_rows(), 1024);
        drop(batches);
        let choice = engine.last_choice().unwrap();
        assert_eq!(choice.devices.len(), 1);
        assert!(choice.took.is_some());
    }
}

/// A file of which one chunk cannot be read.
#[derive(Debug)]
struct Failing {
    bytes: Buffer,
    at: u64,
}

impl ReadAt for Failing {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, range: std::ops::Range<u64>) -> lanepack::Result<Buffer> {
        // Footer and index are read in one piece from the end.
        if range.contains(&self.at) && range.end < self.len() {
            return Err(std::io::Error::other("no such bytes").into());
        }
        self.bytes.read_at(range)
    }

    fn gap(&self) -> u64 {
        0
    }
}
