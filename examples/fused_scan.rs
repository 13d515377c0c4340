//! A kernel of one's own over two compressed columns: `sum(price) where quantity <= 23`, which
//! decodes in registers and writes nothing but the sum. Compared with the CPU and timed:
//!
//! ```sh
//! cargo run --release --features cuda --example fused_scan
//! cargo run --release --features cuda --example fused_scan -- --rows 500000000
//! cargo run --release --features _simt --example fused_scan   # without a GPU: emulated, few rows
//! ```
//!
//! What to look at: `fused` is all that a program needs. The kernel is
//! `kernels/examples/sum_where.cu`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use bytemuck::{Pod, Zeroable};
use clap::Parser;
use lanepack::scan::{Scan, col, count_rows, sum};
use lanepack::{
    ColumnArgument, CompressedDeviceBatch, DeviceMemory, DevicePtr, Engine, Kernel, Options,
    compress,
};

const SOURCE: &str = include_str!("../kernels/examples/sum_where.cu");

/// `EACH` of the kernel: vectors of a warp.
const EACH: usize = 8;

/// `SumWhere` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SumWhere {
    quantity: ColumnArgument,
    price: ColumnArgument,
    sum: DevicePtr<f64>,
    count: DevicePtr<u64>,
    most: i64,
    chunks: u32,
    warps_each: u32,
}

/// Launches that are timed.
const RUNS: u32 = 20;

/// Sum prices of small quantities in a kernel of one's own.
#[derive(Parser)]
struct Args {
    /// Rows of the table; by default 100 million, or 100,000 where the GPU is emulated.
    #[arg(long)]
    rows: Option<usize>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (engine, rows) = match open() {
        Ok(found) => found,
        Err(error) => {
            println!("skipped: {error}");
            println!("(with --features _simt the kernel runs on an emulation)");
            return Ok(ExitCode::SUCCESS);
        }
    };
    let rows = Args::parse().rows.unwrap_or(rows);
    let packed = compress(&table(rows)?, &Options::default())?;

    let start = Instant::now();
    let scan = Scan::new(&packed).filter(col("quantity").lt_eq(23));
    let result = scan.aggregate(&[sum(col("price")), count_rows()], &Engine::cpu())?;
    let on_cpu = start.elapsed();
    let expected_sum = result.column(0).as_primitive::<Float64Type>().value(0);
    let expected_count = result.column(1).as_primitive::<Int64Type>().value(0) as u64;

    let (sum, count, time) = fused(&engine, &engine.upload(&packed)?, 23)?;

    let name = &engine.device().expect("an engine of a GPU").name;
    let rate = |time: Duration| rows as f64 * 16.0 / time.as_secs_f64() / 1e9;
    println!("{rows} rows, sum(price) where quantity <= 23: {sum:.2} of {count} rows");
    println!("{name}: {:.3} ms, {:.0} GB/s of values", time.as_secs_f64() * 1e3, rate(time));
    println!("CPU: {:.3} ms, {:.1} GB/s", on_cpu.as_secs_f64() * 1e3, rate(on_cpu));
    // Blocks add in any order, so the last digits may differ.
    if count == expected_count && (sum - expected_sum).abs() <= expected_sum * 1e-9 {
        return Ok(ExitCode::SUCCESS);
    }
    println!("DIFFERENT: the CPU has {expected_sum:.2} of {expected_count} rows");
    Ok(ExitCode::FAILURE)
}

/// The sum, the rows that it is of, and the time of a launch.
fn fused(
    engine: &Engine,
    table: &CompressedDeviceBatch,
    most: i64,
) -> Result<(f64, u64, Duration), lanepack::Error> {
    // Columns of one batch have the same chunks.
    let (quantity, price) = (table.columns()[0].reader()?, table.columns()[1].reader()?);
    let kernel = Kernel::for_columns(engine, "sum_where", SOURCE, &[&quantity, &price])?;
    let sum = DeviceMemory::<f64>::zeros(engine, 1)?;
    let count = DeviceMemory::<u64>::zeros(engine, 1)?;

    let (chunks, warps_each) = (price.chunks(), price.vectors().div_ceil(EACH));
    let blocks = (chunks * warps_each).div_ceil(kernel.threads() as usize / 32);
    let arguments = SumWhere {
        quantity: quantity.argument(),
        price: price.argument(),
        sum: sum.pointer(),
        count: count.pointer(),
        most,
        chunks: chunks as u32,
        warps_each: warps_each as u32,
    };
    let launch = || {
        // SAFETY: `arguments` is the kernel's struct; all that it leads to is listed, and warps
        // past the end of a chunk do nothing.
        unsafe {
            kernel.launch(blocks, kernel.threads(), &arguments, &[&quantity, &price, &sum, &count])
        }
    };
    launch()?;
    let result = (sum.to_vec()?[0], count.to_vec()?[0]);

    let start = Instant::now();
    (0..RUNS).try_for_each(|_| launch())?;
    engine.synchronize()?;
    Ok((result.0, result.1, start.elapsed() / RUNS))
}

/// Quantities from 1 to 50, and prices of that many parts from 900.00 to 2,099.00.
fn table(rows: usize) -> Result<RecordBatch, Box<dyn Error>> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let drawn = (0..rows).map(|_| (1 + next() % 50, 90_000 + next() % 119_900));
    let (quantity, price): (Vec<i64>, Vec<f64>) =
        drawn.map(|(quantity, cents)| (quantity as i64, (quantity * cents) as f64 / 100.0)).unzip();
    let (quantity, price): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(quantity)), Arc::new(Float64Array::from(price)));
    Ok(RecordBatch::try_from_iter([("quantity", quantity), ("price", price)])?)
}

/// The engine, and how many rows suit it.
fn open() -> Result<(Engine, usize), lanepack::Error> {
    #[cfg(lanepack_simt)]
    return Ok((Engine::simt(1, 4 << 30), 100_000));
    #[cfg(not(lanepack_simt))]
    Ok((Engine::cuda(0)?, 100_000_000))
}
