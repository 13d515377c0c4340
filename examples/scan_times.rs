//! How fast one thread filters columns of common trees of encodings:
//!
//! ```sh
//! cargo run --release --example scan_times
//! cargo run --release --example scan_times -- --only delta
//! ```
//!
//! A line for each tree: billions of rows a second that a filter of some of the values looks at
//! (`range`), one of 12 values (`list`), and values decompressed for comparison (`decode`). Times
//! are the least of some runs.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::*;
use clap::Parser;
use lanepack::scan::{Expr, Literal, Scan, col};
use lanepack::{Encoding, Engine, Lz, Options, compress_array};

/// Speed of filters on one thread.
#[derive(Parser)]
struct Args {
    /// Runs of each filter.
    #[arg(long, default_value_t = 15)]
    runs: usize,
    /// Rows of each column.
    #[arg(long, default_value_t = 1 << 20)]
    rows: u64,
    /// Only trees in whose names this stands.
    #[arg(long, default_value = "")]
    only: String,
}

/// A column and the encodings it may have.
struct Tree {
    name: &'static str,
    encodings: &'static [Encoding],
    array: ArrayRef,
}

fn trees(rows: u64) -> Vec<Tree> {
    use Encoding::*;
    fn mix(row: u64) -> u64 {
        let mixed = (row ^ row >> 15).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    }
    let u32s = |value: &dyn Fn(u64) -> u64| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values((0..rows).map(|row| value(row) as u32)))
    };
    let i64s = |value: &dyn Fn(u64) -> u64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|row| value(row) as i64)))
    };
    let decimals = |value: &dyn Fn(u64) -> i128| -> ArrayRef {
        let values = Decimal128Array::from_iter_values((0..rows).map(value));
        Arc::new(values.with_precision_and_scale(38, 2).expect("a decimal type"))
    };
    let floats = |value: &dyn Fn(u64) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..rows).map(value)))
    };
    let texts = |value: &dyn Fn(u64) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..rows / 4).map(value)))
    };
    let outlier = |row: u64| if mix(row).is_multiple_of(200) { 1 << 24 } else { 0 };
    let tree = |name, encodings, array| Tree { name, encodings, array };
    vec![
        tree("ffor u32", &[Ffor], u32s(&|row| mix(row) % 1000)),
        tree("ffor i64", &[Ffor], i64s(&|row| mix(row) % 1000)),
        tree("pfor u32", &[Ffor, Pfor], u32s(&|row| mix(row) % 500 + outlier(row))),
        tree("pfor i64", &[Ffor, Pfor], i64s(&|row| mix(row) % 500 + outlier(row))),
        tree("gcd(ffor) u32", &[Gcd, Ffor], u32s(&|row| mix(row) % 500 * 1000)),
        tree("gcd(ffor) i64", &[Gcd, Ffor], i64s(&|row| mix(row) % 500 * 1000)),
        tree(
            "gcd(pfor) i64",
            &[Gcd, Ffor, Pfor],
            i64s(&|row| (mix(row) % 500 + outlier(row)) * 1000),
        ),
        tree(
            "gcd(delta(ffor)) i64",
            &[Gcd, Delta, Ffor],
            i64s(&|row| (row * 50 + mix(row) % 7) * 60_000),
        ),
        tree("delta(ffor) u32", &[Delta, Ffor], u32s(&|row| row % 50_000 * 999 + mix(row) % 900)),
        tree(
            "delta(ffor) i64",
            &[Delta, Ffor],
            i64s(&|row| row % 50_000 * 999_999 + mix(row) % 900),
        ),
        tree(
            "delta(pfor) i64",
            &[Delta, Ffor, Pfor],
            i64s(&|row| row % 50_000 * 77 + mix(row) % 50 + row % 50_000 / 300 * 9_000_000),
        ),
        tree("rle(ffor, ffor) i64", &[Rle, Ffor], i64s(&|row| mix(row / 30) % 700)),
        tree("rle(ffor, ffor) u32", &[Rle, Ffor], u32s(&|row| mix(row / 100) % 700)),
        tree(
            "rle by bits i64",
            &[Rle, Ffor],
            i64s(&|row| mix(row / 6 * 2 + u64::from(row % 6 > 0)) % 90_000),
        ),
        tree("rle(gcd) i64", &[Rle, Gcd, Ffor], i64s(&|row| mix(row / 30) % 700 * 1000)),
        tree("dict(ffor) i64", &[Dict, Ffor], i64s(&|row| (mix(row) % 90).pow(7))),
        tree(
            "dict(ffor) f64",
            &[Dict, Ffor, Alp],
            floats(&|row| 1.0 / (1.0 + (mix(row) % 900) as f64)),
        ),
        tree("rle(alp) f64", &[Rle, Ffor, Alp], floats(&|row| (mix(row / 30) % 900) as f64 / 8.0)),
        tree("limbs(ffor)", &[Limbs, Ffor], decimals(&|row| i128::from(mix(row) % 10_000))),
        tree("limbs(gcd)", &[Limbs, Gcd, Ffor], decimals(&|row| i128::from(mix(row) % 5000 * 100))),
        tree(
            "limbs(ffor, ffor)",
            &[Limbs, Ffor],
            decimals(&|row| i128::from(mix(row) % 10_000) * 10_i128.pow(20)),
        ),
        tree("lz i64", &[Lz], i64s(&|row| (row % 300).pow(7))),
        tree("lz binary", &[Lz], {
            let value = |row: u64| format!("{} of {}, again and again", row % 700, mix(row) % 90);
            Arc::new(BinaryArray::from_iter_values((0..rows / 4).map(value)))
        }),
        tree("front(fsst)", &[Front, Fsst, Ffor], texts(&|row| format!("https://a.org/{row:09}"))),
        tree("dict(fsst)", &[Dict, Fsst, Ffor], texts(&|row| format!("value {}", mix(row) % 900))),
    ]
}

/// The least time that work takes.
fn time(runs: usize, mut work: impl FnMut()) -> Duration {
    let timed = (0..runs.max(1)).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    timed.min().unwrap_or_default()
}

fn main() -> Result<(), lanepack::Error> {
    let args = Args::parse();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("the first pool");
    let engine = Engine::cpu();
    println!("{:24} {:>8} {:>8} {:>8}  Grows/s", "", "range", "list", "decode");
    for tree in trees(args.rows) {
        if !tree.name.contains(&args.only) {
            continue;
        }
        let lz = Lz::default().with_segment_symbols(2048);
        let options = Options::default().with_encodings(tree.encodings.iter().copied());
        let column = compress_array(&tree.array, &options.with_lz(lz))?;
        let at = |part: usize| Literal::Arrow(tree.array.slice(tree.array.len() * part / 64, 1));
        let list: Vec<Literal> = (0..12).map(|part| at(part * 5 + 1)).collect();
        let speed = |time: Duration| tree.array.len() as f64 / time.as_secs_f64() / 1e9;
        let filtered = |filter: Expr| {
            let columns = std::slice::from_ref(&column);
            let scan = Scan::of(columns).filter(filter);
            speed(time(args.runs, || {
                black_box(scan.count(&engine).expect("a filter of the column's type"));
            }))
        };
        let name = column.field().name();
        let range = filtered(col(name).gt(at(33)));
        let listed = filtered(col(name).in_list(list));
        let decode = speed(time(args.runs, || {
            black_box(column.decompress().expect("a whole column"));
        }));
        println!("{:24} {range:8.3} {listed:8.3} {decode:8.3}  {}", tree.name, column.encoding());
    }
    Ok(())
}
