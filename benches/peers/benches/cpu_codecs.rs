//! The comparisons of the crate `peers`, by criterion or as a summary.
//!
//! ```text
//! cargo bench -p peers --bench cpu_codecs -- [filter]
//! cargo bench -p peers --bench cpu_codecs -- --summary [--json] [text]
//! ```

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use peers::{Pair, Size, Visitor};

/// Hands pairs to criterion, which runs one side after the other: take ratios
/// from the summary.
struct Bench(Criterion);

impl Visitor for Bench {
    fn pair(&mut self, mut pair: Pair<'_>) {
        let mut group = self.0.benchmark_group(pair.group);
        if let Some(bytes) = pair.bytes {
            group.throughput(Throughput::Bytes(bytes as u64));
        }
        let input = pair.input.clone();
        group.bench_function(BenchmarkId::new("ours", &input), |b| b.iter(|| pair.ours()));
        group.bench_function(BenchmarkId::new("peer", &input), |b| b.iter(|| pair.peer()));
        group.finish();
    }

    fn size(&mut self, _: Size) {}
}

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--summary");
    if arguments.next().is_some() {
        let (options, texts): (Vec<String>, Vec<String>) =
            arguments.partition(|argument| argument.starts_with("--"));
        let only = texts.into_iter().next();
        return match options.iter().any(|option| option == "--json") {
            true => peers::summary::print_json(only),
            false => peers::summary::print(only),
        };
    }
    let criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let mut bench = Bench(criterion);
    peers::visit(&mut bench);
    bench.0.final_summary();
}
