//! What a GPU decompresses and compresses equals what the CPU does, bit for bit: the same tests
//! on the host emulation (feature `simt`) and on CUDA (feature `cuda`, where there
//! is a driver; LANEPACK_REQUIRE_GPU=1 makes it an error if there is none).
//!
//! `arrays` has every type, size, null pattern and encoding, `batches` random schemas, `bitmaps`
//! nulls and booleans as bytes, `cascades` encodings of children of others, `files` the shared
//! data, `compress` what is about compression alone, `damage` corrupt chunks, `derived` and `distinct_strings`
//! dictionaries and runs, `devices` what is about devices: memory, threads, errors, export;
//! `front` front coding; `host` what is about host memory; `integers` windows and deltas; `lz`
//! segments of LZ; `nested` columns whose leaves are compressed; `quotients` multiples of divisors; `reals` floats that are no decimals; `scan` filters,
//! `strings` those of strings and wide decimals, `gather` values of the rows that they keep,
//! `fused` queries that have a kernel of their own, `kernels` sources of users; `trees`
//! scans of encodings that nest, `staged` of those that are decoded for it; `small` has a little of all for compute-sanitizer.

// What planners of both engines are told is compared, which only `internals` shows.
#![cfg(all(feature = "internals", any(feature = "cuda", feature = "simt")))]

mod common;

#[path = "nested/random.rs"]
mod any_type;
#[path = "gpu_parity/arrays.rs"]
mod arrays;
#[path = "gpu_parity/batches.rs"]
mod batches;
#[path = "gpu_parity/bitmaps.rs"]
mod bitmaps;
#[path = "gpu_parity/cascades.rs"]
mod cascades;
#[path = "gpu_parity/columns.rs"]
mod columns;
#[path = "gpu_parity/compress.rs"]
mod compress;
#[path = "gpu_parity/damage.rs"]
mod damage;
#[path = "gpu_parity/decode.rs"]
mod decode;
#[path = "gpu_parity/derived.rs"]
mod derived;
#[path = "gpu_parity/devices.rs"]
mod devices;
#[path = "gpu_parity/distinct_strings.rs"]
mod distinct_strings;
#[path = "gpu_parity/files.rs"]
mod files;
#[path = "gpu_parity/front.rs"]
mod front;
#[path = "gpu_parity/fused.rs"]
mod fused;
#[path = "gpu_parity/gather.rs"]
mod gather;
#[path = "gpu_parity/host.rs"]
mod host;
#[path = "gpu_parity/integers.rs"]
mod integers;
#[path = "gpu_parity/kernels.rs"]
mod kernels;
#[path = "gpu_parity/lz.rs"]
mod lz;
#[cfg(feature = "simt")]
#[path = "gpu_parity/memory.rs"]
mod memory;
#[path = "gpu_parity/nested.rs"]
mod nested;
#[path = "scan/oracle.rs"]
#[allow(dead_code, reason = "the CPU is compared with it elsewhere")]
mod oracle;
#[path = "gpu_parity/quotients.rs"]
mod quotients;
#[path = "scan/random.rs"]
mod random;
#[path = "gpu_parity/reals.rs"]
mod reals;
#[path = "gpu_parity/scan.rs"]
mod scan;
#[path = "gpu_parity/small.rs"]
mod small;
#[path = "gpu_parity/staged.rs"]
mod staged;
#[path = "gpu_parity/strings.rs"]
mod strings;
#[path = "gpu_parity/trees.rs"]
mod trees;

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{Field, Schema};
use lanepack::internals::PlanLog;
use lanepack::{CompressedColumn, Engine, Options, compress_array};

/// Device memory of the emulation.
#[cfg(feature = "simt")]
const SIMT_MEMORY: u64 = 4 << 30;

/// The engines to compare with the CPU.
fn engines() -> Vec<Engine> {
    simt().into_iter().chain(cuda()).collect()
}

fn simt() -> Option<Engine> {
    #[cfg(feature = "simt")]
    return Some(Engine::simt(1, SIMT_MEMORY));
    #[cfg(not(feature = "simt"))]
    None
}

/// The emulation of a machine that has no compiler for kernels of queries.
fn without_compiler() -> Option<Engine> {
    #[cfg(feature = "simt")]
    return Some(Engine::simt_without_compiler(1, SIMT_MEMORY));
    #[cfg(not(feature = "simt"))]
    None
}

/// The first GPU; none, with a printed reason, if there is none and none is required.
fn cuda() -> Option<Engine> {
    match Engine::cuda(0) {
        Ok(engine) => Some(engine),
        Err(lanepack::Error::NoDevice { what, .. }) => {
            let required = std::env::var("LANEPACK_REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "a GPU is required: {what}");
            println!("CUDA skipped: {what}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Fewer cases where each costs much: the emulation's share of a test's cases is
/// one in this many.
fn thinned(engine: &Engine, case: usize, every: usize) -> bool {
    engine.device().is_some_and(|device| device.name.contains("emulation"))
        && !case.is_multiple_of(every)
}

/// A column as a packed batch.
fn batch_of(field: Field, storage: StructArray) -> RecordBatch {
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(storage)]).unwrap()
}

/// A packed batch of one column.
fn packed(column: &CompressedColumn) -> RecordBatch {
    let (field, storage) = column.to_arrow("price");
    batch_of(field, storage)
}

/// Decompresses on a device and compares with the array that went in; and what is compressed there
/// with what the CPU makes of it, and what the planner was told of chunks on both.
#[track_caller]
fn check(engine: &Engine, array: &ArrayRef, options: &Options) {
    let log = PlanLog::default();
    let options = &options.clone().with_plan_log(log.clone());
    let column = compress_array(array, options).unwrap();
    let expected = log.take();
    let packed = packed(&column);
    let what = || format!("{} on {:?}", column.explain(), engine.device());
    let back = engine.decompress(&packed).unwrap();
    assert_same(back.column(0), array, what);
    let field = Field::new("price", array.data_type().clone(), true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array.clone()]);
    let found = engine.compress(&batch.unwrap(), options).unwrap();
    assert_eq!(log.take(), expected, "statistics of {}", what());
    assert_same_bytes(&found, &packed, what);
}

/// Compares compressed batches chunk by chunk.
#[track_caller]
fn assert_same_bytes(found: &RecordBatch, expected: &RecordBatch, what: impl Fn() -> String) {
    if found == expected {
        return;
    }
    let columns = |batch| lanepack::columns(batch).unwrap();
    for (found, expected) in columns(found).iter().zip(columns(expected)) {
        assert_eq!(found.field(), expected.field(), "{}", what());
        let chunks = found.chunks().iter().zip(expected.chunks());
        for (index, (found_chunk, expected)) in chunks.enumerate() {
            let place = || format!("chunk {index} of {}\n{}", found.explain(), what());
            assert_eq!(found_chunk.min(), expected.min(), "min, {}", place());
            assert_eq!(found_chunk.max(), expected.max(), "max, {}", place());
            let differs =
                found_chunk.body().iter().zip(expected.body().iter()).position(|(a, b)| a != b);
            assert_eq!(differs, None, "first byte that differs, {}", place());
            assert_eq!(found_chunk.header(), expected.header(), "header, {}", place());
        }
    }
    panic!("{found:?}, not {expected:?}: {}", what());
}

/// Arrow's equality of arrays compares floats by their bits.
#[track_caller]
fn assert_same(found: &ArrayRef, expected: &ArrayRef, what: impl Fn() -> String) {
    assert_eq!(found.data_type(), expected.data_type(), "{}", what());
    assert_eq!(found.len(), expected.len(), "{}", what());
    if found != expected {
        let differs = |row: &usize| found.slice(*row, 1) != expected.slice(*row, 1);
        let row = (0..found.len()).find(differs);
        let at = |array: &ArrayRef| row.map(|row| array.slice(row, 1));
        panic!("{}: row {row:?} is {:?}, not {:?}", what(), at(found), at(expected));
    }
    found.to_data().validate_full().unwrap();
}
