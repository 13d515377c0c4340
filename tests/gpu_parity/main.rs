//! What a GPU decompresses and compresses equals what the CPU does, bit for bit: the same tests
//! on the host emulation (cfg `lanepack_simt`, which the feature `_simt` sets) and on CUDA (feature
//! `cuda`, if there is a GPU; LANEPACK_REQUIRE_GPU=1 makes it an error if there is none). With
//! neither there is nothing to test, and the tests fail.
//!
//! | modules | tests |
//! |---|---|
//! | `arrays`, `batches`, `files` | every type, size, null pattern and encoding; random schemas; the shared data |
//! | `integers`, `reals`, `quotients`, `bitmaps`, `strings`, `front`, `lz`, `nested` | types and encodings one by one |
//! | `derived`, `distinct_strings`, `cascades`, `trees` | dictionaries and runs; encodings of children; nested trees |
//! | `compress`, `decode`, `damage` | compression and decompression alone; corrupt chunks |
//! | `scan`, `staged`, `gather`, `fused` | filters, columns that scans decode first, values of kept rows, one kernel for a query |
//! | `joins`, `ssb`, `tpch` | joins with lookups, groups; the Star Schema Benchmark, TPC-H |
//! | `explain`, `stored` | plans of scans; scans of files |
//! | `columns`, `kernels` | kernels of users |
//! | `devices`, `host`, `memory` | threads, errors and export; host memory; device memory |
//! | `small` | a little of everything, for compute-sanitizer |

// Shared with other tests.
#[path = "../nested/random.rs"]
mod any_type;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../examples/support/compressed.rs"]
#[allow(dead_code, reason = "the examples use more of it")]
mod compressed;
#[path = "../../examples/support/generator.rs"]
#[allow(dead_code, reason = "the examples use more of it")]
mod generator;
#[path = "../scan/oracle.rs"]
#[allow(dead_code, reason = "the CPU is compared with it elsewhere")]
mod oracle;
#[path = "../scan/random.rs"]
mod random;
#[path = "../scan/star.rs"]
mod star;

mod arrays;
mod batches;
mod bitmaps;
mod cascades;
mod columns;
mod compress;
mod damage;
mod decode;
mod derived;
mod devices;
mod distinct_strings;
mod explain;
mod files;
mod front;
mod fused;
mod gather;
mod host;
mod integers;
mod joins;
mod kernels;
mod lz;
#[cfg(lanepack_simt)]
mod memory;
mod nested;
mod quotients;
mod reals;
mod scan;
mod shared;
mod small;
mod ssb;
mod staged;
mod stored;
mod strings;
mod tpch;
mod trees;

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{Field, Schema};
use common::skip;
use lanepack::internals::PlanLog;
use lanepack::{CompressedColumn, Engine, Options, compress_array};

/// Device memory of the emulation.
#[cfg(lanepack_simt)]
const SIMT_MEMORY: u64 = 4 << 30;

/// Why a test that is for the emulation alone is skipped.
const NO_EMULATION: &str = "no emulation of GPUs (feature _simt with a g++)";

/// The engines to compare with the CPU: one at least.
fn engines() -> Vec<Engine> {
    simt().into_iter().chain(cuda()).collect()
}

fn simt() -> Option<Engine> {
    #[cfg(lanepack_simt)]
    return Some(Engine::simt(1, SIMT_MEMORY));
    #[cfg(not(lanepack_simt))]
    None
}

/// The emulation of a machine that has no compiler for kernels of queries.
fn without_compiler() -> Option<Engine> {
    #[cfg(lanepack_simt)]
    return Some(Engine::simt_without_compiler(1, SIMT_MEMORY));
    #[cfg(not(lanepack_simt))]
    None
}

/// The first GPU; without one the part of the test that is for CUDA is reported as skipped.
///
/// # Panics
/// If there is neither a GPU nor the emulation: a test that compares nothing may not pass.
fn cuda() -> Option<Engine> {
    match Engine::cuda(0) {
        Ok(engine) => Some(engine),
        Err(lanepack::Error::NoDevice { what, .. }) => {
            if !cfg!(lanepack_simt) {
                panic!(
                    "no device to compare with the CPU: {what}. Build with --features _simt and a \
                     g++ for the emulation, or with --features cuda on a machine with a GPU"
                );
            }
            skip("LANEPACK_REQUIRE_GPU", &format!("on CUDA: {what}"));
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
