//! Queries over several columns in device memory, each by one kernel that is made for it:
//! SSB's Q1.1 to Q1.3, TPC-H's Q6, strings among numbers, and filters of one to ten columns.
//!
//! Each on compressed columns, on the same columns stored plain (raw arrays, read by a kernel
//! of the same shape), and on those decompressed first. Results are compared with the CPU's.

use std::ops::Add;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use lanepack::scan::{Aggregate, Expr, Scan, col, count_rows, sum};
use lanepack::{CompressedDeviceBatch, Engine, Error, Options};

use super::RUNS;
use super::runs::{Runs, Spread};
use super::scan::{First, decoding};
use super::tables::{self, Money};

/// A query over generated columns.
pub struct Query {
    pub name: String,
    pub batch: RecordBatch,
    filter: Expr,
    aggregates: Vec<Aggregate>,
}

/// What a query takes.
pub struct Measured {
    pub rows: usize,
    /// Compressed bytes.
    pub bytes: usize,
    /// Its first call by the host's clock, with compilation of its kernel, and the device memory
    /// that the columns keep for later ones.
    pub first: First,
    pub packed: Spread,
    /// Over columns stored plain.
    pub raw: Spread,
    /// Decompression of all columns.
    pub decoding: Spread,
    /// What each column became.
    pub encodings: Vec<(String, String)>,
    /// Whether the result was the CPU's.
    pub same: bool,
}

/// Runs all queries over so many rows; whether all results are those of the CPU.
pub fn run(engine: &Engine, rows: usize, only: &str) -> Result<bool, Error> {
    println!(
        "{:<26} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8}  billions of rows a second; bytes a row, GB/s",
        "query", "first (ms)", "packed", "raw", "decoded", "bytes", "moved"
    );
    let mut all_same = true;
    for query in queries(rows) {
        let query = query();
        if query.name.contains(only) {
            let measured = measure(engine, &query)?;
            println!("{}", text(&query.name, &measured));
            all_same &= measured.same;
        }
    }
    Ok(all_same)
}

/// The line of a query.
fn text(name: &str, measured: &Measured) -> String {
    let rate = |time: Spread| measured.rows as f64 / time.median / 1e9;
    format!(
        "{:<26} {:>10.1} {:>8.1} {:>8.1} {:>8.1} {:>8.2} {:>8.0}{}",
        name,
        measured.first.time.as_secs_f64() * 1e3,
        rate(measured.packed),
        rate(measured.raw),
        rate(measured.raw + measured.decoding),
        measured.bytes as f64 / measured.rows as f64,
        measured.bytes as f64 / measured.packed.median / 1e9,
        if measured.same { "" } else { "  DIFFERENT" }
    )
}

/// Measures a query with default options and over plain columns.
pub fn measure(engine: &Engine, query: &Query) -> Result<Measured, Error> {
    let packed = engine.compress_to_device(&query.batch, &Options::default())?;
    let free = engine.free_memory()?;
    let start = Instant::now();
    let found = scan(&packed, query).aggregate(&query.aggregates, engine)?;
    let time = start.elapsed();
    let first = First { time, kept: free.saturating_sub(engine.free_memory()?) };
    // The same rows on the CPU, of the compressed batch.
    let downloaded = packed.download()?;
    let expected = Scan::new(&downloaded)
        .filter(query.filter.clone())
        .aggregate(&query.aggregates, &Engine::cpu())?;
    let encodings = lanepack::columns(&downloaded)?;
    let encodings =
        encodings.iter().map(|one| (one.field().name().clone(), one.encoding().to_string()));
    let encodings = encodings.collect();
    drop(downloaded);
    let on_packed = runs(engine, &packed, query)?;
    let bytes: usize = packed.columns().iter().map(|column| column.device_bytes()).sum();
    let decoding = packed.columns().iter().map(|column| Ok(decoding(column)?.spread()));
    let decoding = decoding.collect::<Result<Vec<Spread>, Error>>()?;
    drop(packed);
    let raw = engine.compress_to_device(&query.batch, &super::scan::plain())?;
    Ok(Measured {
        rows: query.batch.num_rows(),
        bytes,
        first,
        packed: on_packed.spread(),
        raw: runs(engine, &raw, query)?.spread(),
        decoding: decoding.into_iter().reduce(Spread::add).expect("one column at least"),
        encodings,
        same: found == expected,
    })
}

fn scan<'a>(batch: &'a CompressedDeviceBatch, query: &Query) -> Scan<'a> {
    Scan::on_device(batch).filter(query.filter.clone())
}

fn runs(engine: &Engine, batch: &CompressedDeviceBatch, query: &Query) -> Result<Runs, Error> {
    let scan = scan(batch, query);
    Runs::measure(RUNS, || {
        let kernels = scan.times(&query.aggregates, engine)?.kernels;
        Ok(kernels.iter().map(|(_, time)| *time).sum())
    })
}

/// Queries, each made when it is called: columns are large.
pub fn queries(rows: usize) -> Vec<Box<dyn Fn() -> Query>> {
    let mut queries: Vec<Box<dyn Fn() -> Query>> = Vec::new();
    for number in 0..3 {
        queries.push(Box::new(move || {
            let query = tables::q1().into_iter().nth(number).expect("three queries");
            of_table(query, "", tables::lineorder(rows, 1))
        }));
    }
    for (money, form) in [(Money::Float64, ", Float64"), (Money::Decimal, ", decimals")] {
        queries.push(Box::new(move || {
            of_table(tables::q6(money), form, tables::lineitem(rows, 1, money))
        }));
    }
    for (number, columns) in [(0, [0, 2, 3]), (1, [0, 1, 4])] {
        queries.push(Box::new(move || {
            let query = tables::of_strings().into_iter().nth(number).expect("two queries");
            let table = tables::lineitem_strings(rows / 8, 1);
            of_table(query, "", table.project(&columns).expect("columns that it has"))
        }));
    }
    for columns in [1, 2, 4, 10] {
        queries.push(Box::new(move || several(rows / columns.max(2), columns)));
    }
    queries
}

fn of_table(query: tables::Query, form: &str, batch: RecordBatch) -> Query {
    Query {
        name: format!("{}{form}", query.name),
        batch,
        filter: query.filter,
        aggregates: vec![sum(query.sum)],
    }
}

/// Numbers that look random.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((u128::from(state) * u128::from(below)) >> 64) as u64
    }
}

/// A filter of some columns of 12 bits, each of which keeps nine tenths of the rows.
fn several(rows: usize, columns: usize) -> Query {
    let names: Vec<String> = (0..columns).map(|index| format!("c{index}")).collect();
    let column = |index: usize| -> ArrayRef {
        let mut next = random(100 + index as u64);
        Arc::new(UInt32Array::from_iter_values((0..rows).map(|_| next(4096) as u32)))
    };
    let arrays = (0..columns).map(|index| (names[index].as_str(), column(index)));
    let filter = names.iter().map(|name| col(name).lt(3686)).reduce(Expr::and);
    Query {
        name: format!("count, {columns} columns"),
        batch: RecordBatch::try_from_iter(arrays).expect("columns of one length"),
        filter: filter.expect("at least one column"),
        aggregates: vec![count_rows()],
    }
}
