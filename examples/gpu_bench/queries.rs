//! Queries over several columns in device memory, each by one kernel that is made for it:
//! SSB's Q1.1 to Q1.3, TPC-H's Q6, and filters of one to ten columns.
//!
//! Each on compressed columns, on the same columns stored plain (raw arrays, read by a kernel
//! of the same shape), and on those decompressed first. Results are compared with the CPU's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Float64Array, RecordBatch, UInt32Array};
use lanepack::internals::measure;
use lanepack::scan::{Aggregate, Expr, Literal, Scan, col, count_rows, lit, sum};
use lanepack::{DeviceBatch, Encoding, Engine, Error, Options};

use super::{RUNS, WARM_UP, median};

/// A query over generated columns.
struct Query {
    name: String,
    batch: RecordBatch,
    filter: Expr,
    aggregates: Vec<Aggregate>,
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
            all_same &= measure_query(engine, &query)?;
        }
    }
    Ok(all_same)
}

fn measure_query(engine: &Engine, query: &Query) -> Result<bool, Error> {
    let rows = query.batch.num_rows() as f64;
    let packed = engine.compress_to_device(&query.batch, &Options::default())?;
    let start = Instant::now();
    let found = scan(&packed, query).aggregate(&query.aggregates, engine)?;
    let first = start.elapsed();
    // The same rows on the CPU, of the compressed batch.
    let expected = Scan::new(&packed.download()?)
        .filter(query.filter.clone())
        .aggregate(&query.aggregates, &Engine::cpu())?;
    let same = found == expected;
    let on_packed = time(engine, &packed, query)?;
    let bytes: usize = packed.columns().iter().map(|column| column.device_bytes()).sum();
    let mut decoding = Vec::new();
    for run in 0..WARM_UP + RUNS {
        let mut all = Duration::ZERO;
        for column in packed.columns() {
            all += measure::decompress(column)?.1.all;
        }
        if run >= WARM_UP {
            decoding.push(all);
        }
    }
    drop(packed);
    let plain = Options::default().with_encodings([Encoding::Plain]);
    let raw = engine.compress_to_device(&query.batch, &plain)?;
    let on_raw = time(engine, &raw, query)?;
    let rate = |time: Duration| rows / time.as_secs_f64() / 1e9;
    println!(
        "{:<26} {:>10.1} {:>8.1} {:>8.1} {:>8.1} {:>8.2} {:>8.0}{}",
        query.name,
        first.as_secs_f64() * 1e3,
        rate(on_packed),
        rate(on_raw),
        rate(on_raw + median(decoding)),
        bytes as f64 / rows,
        bytes as f64 / on_packed.as_secs_f64() / 1e9,
        if same { "" } else { "  DIFFERENT" }
    );
    Ok(same)
}

fn scan<'a>(batch: &'a DeviceBatch, query: &Query) -> Scan<'a> {
    Scan::on_device(batch).filter(query.filter.clone())
}

fn time(engine: &Engine, batch: &DeviceBatch, query: &Query) -> Result<Duration, Error> {
    let scan = scan(batch, query);
    let mut times = Vec::new();
    for run in 0..WARM_UP + RUNS {
        let kernels = scan.times(&query.aggregates, engine)?.kernels;
        if run >= WARM_UP {
            times.push(kernels.iter().map(|(_, time)| *time).sum());
        }
    }
    Ok(median(times))
}

/// Queries, each made when it is called: columns are large.
fn queries(rows: usize) -> Vec<Box<dyn Fn() -> Query>> {
    let mut queries: Vec<Box<dyn Fn() -> Query>> = Vec::new();
    for number in 1..=3 {
        queries.push(Box::new(move || star(rows, number)));
    }
    queries.push(Box::new(move || forecast(rows, false)));
    queries.push(Box::new(move || forecast(rows, true)));
    for columns in [1, 2, 4, 10] {
        queries.push(Box::new(move || several(rows / columns.max(2), columns)));
    }
    queries
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

/// Days of 1992 to 1998 as yyyymmdd.
fn days() -> Vec<u32> {
    let mut days = Vec::new();
    for year in 1992..=1998 {
        for month in 1..=12 {
            let last = match month {
                2 if year % 4 == 0 => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            days.extend((1..=last).map(|day| year * 10_000 + month * 100 + day));
        }
    }
    days
}

/// SSB's first queries.
fn star(rows: usize, number: usize) -> Query {
    let days = days();
    let mut next = random(1);
    let dates = UInt32Array::from_iter_values((0..rows).map(|_| days[next(2406) as usize]));
    let mut next = random(2);
    let quantities = UInt32Array::from_iter_values((0..rows).map(|_| 1 + next(50) as u32));
    let mut next = random(3);
    let discounts = UInt32Array::from_iter_values((0..rows).map(|_| next(11) as u32));
    let mut next = random(4);
    // The price of a part, 900 to 2,100 dollars in cents, times the quantity.
    let prices = UInt32Array::from_iter_values(
        quantities.values().iter().map(|quantity| quantity * (90_000 + next(120_000) as u32)),
    );
    let batch = RecordBatch::try_from_iter([
        ("orderdate", Arc::new(dates) as ArrayRef),
        ("quantity", Arc::new(quantities)),
        ("discount", Arc::new(discounts)),
        ("extendedprice", Arc::new(prices)),
    ]);
    let (dates, discounts, quantities) = match number {
        1 => ((19_930_101, 19_931_231), (1, 3), (0, 24)),
        2 => ((19_940_101, 19_940_131), (4, 6), (26, 35)),
        _ => ((19_940_204, 19_940_210), (5, 7), (26, 35)),
    };
    Query {
        name: format!("SSB Q1.{number}"),
        batch: batch.expect("columns of one length"),
        filter: col("orderdate")
            .between(dates.0, dates.1)
            .and(col("discount").between(discounts.0, discounts.1))
            .and(col("quantity").between(quantities.0, quantities.1)),
        aggregates: vec![sum(col("extendedprice") * col("discount"))],
    }
}

/// TPC-H's Q6, with prices as Float64 or as decimals.
fn forecast(rows: usize, decimals: bool) -> Query {
    let mut next = random(5);
    let dates = Date32Array::from_iter_values((0..rows).map(|_| 8036 + next(2526) as i32));
    let mut next = random(6);
    let quantities: Vec<i64> = (0..rows).map(|_| 1 + next(50) as i64).collect();
    let mut next = random(7);
    let discounts: Vec<i64> = (0..rows).map(|_| next(11) as i64).collect();
    let mut next = random(8);
    let prices: Vec<i64> =
        quantities.iter().map(|quantity| quantity * (90_000 + next(120_000) as i64)).collect();
    let column = |values: Vec<i64>, scale: i8| -> ArrayRef {
        if decimals {
            let values = Decimal128Array::from_iter_values(values.into_iter().map(i128::from));
            Arc::new(values.with_precision_and_scale(15, scale).expect("15 digits are enough"))
        } else {
            let power = 10_f64.powi(scale.into());
            Arc::new(Float64Array::from_iter_values(values.into_iter().map(|v| v as f64 / power)))
        }
    };
    let batch = RecordBatch::try_from_iter([
        ("shipdate", Arc::new(dates) as ArrayRef),
        ("quantity", column(quantities, 0)),
        ("discount", column(discounts, 2)),
        ("extendedprice", column(prices, 2)),
    ]);
    let number = |units: i128, scale: i8| -> Expr {
        match decimals {
            true => lit(Literal::decimal(units, scale)),
            false => lit(units as f64 / 10_f64.powi(scale.into())),
        }
    };
    Query {
        name: format!("TPC-H Q6, {}", if decimals { "decimals" } else { "Float64" }),
        batch: batch.expect("columns of one length"),
        // 1994-01-01 and a year later.
        filter: (col("shipdate").gt_eq(8766).and(col("shipdate").lt(9131)))
            .and(col("discount").between(number(5, 2), number(7, 2)))
            .and(col("quantity").lt(number(24, 0))),
        aggregates: vec![sum(col("extendedprice") * col("discount"))],
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
