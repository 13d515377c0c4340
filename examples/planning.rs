//! How long columns take to compress on one thread, and which share of it choosing their
//! encodings does, for each effort:
//!
//! ```sh
//! cargo run --release --features _internals --example planning -- data/
//! ```
//!
//! Times are the least of some runs. `tables` is the training of symbol tables, `planning` all
//! estimates, what is found in all rows for them included (distinct values, runs, prefixes),
//! which the encoders take. `choice` is what the same columns take less where only the
//! encodings are allowed that they were given.

#[path = "support/files.rs"]
mod files;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;
use clap::Parser;
use files::{Found, Source, Unreadable};
use lanepack::internals::{PlanningTimes, time_planning};
use lanepack::{Effort, Options, compress_array};

/// Time of choosing encodings.
#[derive(Parser)]
struct Args {
    /// Files, and folders to search for files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Runs of each column.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Columns of so many rows at least.
    #[arg(long, default_value_t = 20_000)]
    rows: usize,
    /// Only columns in whose names this stands.
    #[arg(long, default_value = "")]
    only: String,
}

type Failure = Box<dyn std::error::Error>;

/// What a column, or several, take.
#[derive(Clone, Copy, Default)]
struct Times {
    bytes: usize,
    all: Duration,
    tables: Duration,
    plans: Duration,
    /// All of it where only the encodings are allowed that were chosen.
    chosen: Duration,
}

impl Times {
    fn of(array: &ArrayRef, options: &Options, runs: usize) -> Result<Self, Failure> {
        let [mut all, mut tables, mut plans, mut chosen] = [Duration::MAX; 4];
        let only =
            options.clone().with_encodings(compress_array(array, options)?.encoding().encodings());
        for _ in 0..runs.max(1) {
            for (options, time) in [(options, &mut all), (&only, &mut chosen)] {
                let start = Instant::now();
                black_box(compress_array(array, options)?);
                *time = start.elapsed().min(*time);
            }
            let found: PlanningTimes = time_planning(array, options)?;
            tables = tables.min(found.tables);
            plans = plans.min(found.plans);
        }
        Ok(Self { bytes: array.get_array_memory_size(), all, tables, plans, chosen })
    }

    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.all += other.all;
        self.tables += other.tables;
        self.plans += other.plans;
        self.chosen += other.chosen;
    }

    fn share(&self, of: Duration) -> f64 {
        100.0 * of.as_secs_f64() / self.all.as_secs_f64()
    }

    fn print(&self, name: &str) {
        let speed = self.bytes as f64 / self.all.as_secs_f64() / 1e6;
        let [tables, plans] = [self.tables, self.plans].map(|time| self.share(time));
        let choice = 100.0 - self.share(self.chosen);
        println!(
            "{name:40} {speed:7.0} MB/s  tables {tables:5.1} %  planning {plans:5.1} %  choice {choice:5.1} %"
        );
    }
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    // One pool for all: starting threads would be part of the times.
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    let mut files: Vec<Found> = Vec::new();
    for path in &args.paths {
        files::find(path, &mut files)?;
    }
    for effort in [Effort::Fast, Effort::Balanced, Effort::Small] {
        let options = Options::default().with_effort(effort);
        let (mut sum, mut columns) = (Times::default(), Vec::new());
        for file in &files {
            let opened = Source::open(&file.path, None).and_then(|mut source| {
                let batches = source.take(usize::MAX)?;
                Ok((source.schema, batches))
            });
            let (schema, batches) = match opened {
                Ok(opened) => opened,
                Err(Unreadable(why)) => {
                    eprintln!("{} ({} bytes): {why}", file.name, file.bytes);
                    continue;
                }
            };
            for (index, field) in schema.fields().iter().enumerate() {
                let name = format!("{}.{}", file.name, field.name());
                if !name.contains(&args.only) {
                    continue;
                }
                let parts: Vec<&dyn Array> =
                    batches.iter().map(|batch| batch.column(index).as_ref()).collect();
                let rows: usize = parts.iter().map(|part| part.len()).sum();
                if rows < args.rows {
                    continue;
                }
                let times = Times::of(&concat(&parts)?, &options, args.runs)?;
                sum.add(times);
                columns.push((name, times));
            }
        }
        println!("{effort:?}, {} columns", columns.len());
        sum.print("  all");
        columns.sort_by(|(_, one), (_, other)| {
            let share = |times: &Times| times.share(times.plans);
            share(other).total_cmp(&share(one))
        });
        for (name, times) in columns.iter().take(4) {
            times.print(&format!("  {name}"));
        }
    }
    Ok(())
}
