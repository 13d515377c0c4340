//! Tables in Markdown, or lines of JSON, of both sides of every pair, measured in turns.
//!
//! ```text
//! round 1  ours ours .. | peer peer ..     each side as often as takes 10 ms
//! round 2  ours ours .. | peer peer ..     the best round of each side is shown
//! ```
//!
//! Turns, because the machine's clock and neighbours change over seconds; the
//! best round, because both only ever add time. A line of JSON has the quartiles of each
//! side's rounds, and of the ratios of both sides in the same round.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{Pair, Size, Visitor, visit};

/// Time of one side of a round, at least.
const SIDE: Duration = Duration::from_millis(10);
/// Time of all rounds of a pair, about.
const PAIR: Duration = Duration::from_millis(1500);
const MIN_ROUNDS: usize = 5;
const MAX_ROUNDS: usize = 25;

/// A row of a table: numbers of both sides, larger is better for `ratio`.
struct Row {
    group: &'static str,
    input: String,
    cells: String,
    ratio: f64,
    counts: bool,
}

/// Rows by group, in order of the groups' first rows.
struct Summary {
    only: Option<String>,
    heads: Vec<(&'static str, &'static str)>,
    rows: Vec<Row>,
}

/// Measures and prints everything, or what has `only` in its name.
pub fn print(only: Option<String>) {
    let mut summary = Summary { only, heads: Vec::new(), rows: Vec::new() };
    visit(&mut summary);
    for (group, head) in &summary.heads {
        let rows: Vec<&Row> = summary.rows.iter().filter(|row| row.group == *group).collect();
        println!("\n### {group}\n\n| input | {head} | ratio |\n|---|--:|--:|--:|");
        for row in &rows {
            let star = if row.counts { "" } else { " *" };
            println!("| {}{star} | {} | {:.2} |", row.input, row.cells, row.ratio);
        }
        let means = [("geometric mean", true), ("geometric mean without *", false)];
        let starred = rows.iter().any(|row| !row.counts);
        for (name, all) in means.into_iter().filter(|(_, all)| *all || starred) {
            let logs: Vec<f64> =
                rows.iter().filter(|row| all || row.counts).map(|row| row.ratio.ln()).collect();
            if !logs.is_empty() {
                let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
                println!("| **{name}** | | | **{mean:.2}** |");
            }
        }
    }
}

/// Prints everything, or what has `only` in its name, as lines of JSON.
pub fn print_json(only: Option<String>) {
    visit(&mut Lines { only });
}

/// Prints a line of JSON for each comparison.
struct Lines {
    only: Option<String>,
}

impl Visitor for Lines {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name))
    }

    fn pair(&mut self, mut pair: Pair<'_>) {
        if !self.only.as_ref().is_none_or(|only| pair.group.contains(only.as_str())) {
            return;
        }
        let rounds = measure(&mut pair);
        let side = |side: usize| quartiles(rounds.iter().map(|round| round[side]).collect());
        let line = json!({
            "group": pair.group,
            "input": pair.input,
            "counts": pair.counts,
            "bytes": pair.bytes,
            "rounds": rounds.len(),
            "ours_seconds": side(0),
            "peer_seconds": side(1),
            "ratio": quartiles(rounds.iter().map(|[ours, peer]| peer / ours).collect()),
        });
        println!("{line}");
    }

    fn size(&mut self, size: Size) {
        if !self.only.as_ref().is_none_or(|only| size.group.contains(only.as_str())) {
            return;
        }
        let line = json!({
            "group": size.group,
            "input": size.input,
            "counts": size.counts,
            "bytes": size.raw,
            "ours_bytes": size.ours,
            "peer_bytes": size.peer,
        });
        println!("{line}");
    }
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let len = values.len();
    [values[len / 4], values[len / 2], values[len - 1 - len / 4]]
}

/// The least of each side.
fn best(rounds: &[[f64; 2]]) -> [f64; 2] {
    rounds
        .iter()
        .fold([f64::INFINITY; 2], |best, round| [best[0].min(round[0]), best[1].min(round[1])])
}

/// Seconds of both sides in each round.
fn measure(pair: &mut Pair<'_>) -> Vec<[f64; 2]> {
    fn time(repeats: usize, mut run: impl FnMut()) -> Duration {
        let start = Instant::now();
        (0..repeats).for_each(|_| run());
        start.elapsed()
    }
    let repeats = |once: Duration| SIDE.as_nanos().div_ceil(once.as_nanos().max(1)) as usize;
    // The first run of a side warms up, the second says how often to repeat.
    pair.ours();
    let ours = repeats(time(1, || pair.ours()));
    pair.peer();
    let peer = repeats(time(1, || pair.peer()));
    let start = Instant::now();
    let mut rounds = Vec::new();
    for round in 0..MAX_ROUNDS {
        if round >= MIN_ROUNDS && start.elapsed() > PAIR {
            break;
        }
        rounds.push([
            time(ours, || pair.ours()).as_secs_f64() / ours as f64,
            time(peer, || pair.peer()).as_secs_f64() / peer as f64,
        ]);
    }
    rounds
}

impl Summary {
    fn push(&mut self, head: &'static str, row: Row) {
        eprintln!("{}: {}: {} | {:.2}", row.group, row.input, row.cells, row.ratio);
        if !self.heads.iter().any(|(group, _)| *group == row.group) {
            self.heads.push((row.group, head));
        }
        self.rows.push(row);
    }
}

impl Visitor for Summary {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name))
    }

    fn pair(&mut self, mut pair: Pair<'_>) {
        if !self.only.as_ref().is_none_or(|only| pair.group.contains(only.as_str())) {
            return;
        }
        let [ours, peer] = best(&measure(&mut pair));
        let (head, cells) = match pair.bytes {
            Some(bytes) => {
                let speed = |seconds: f64| bytes as f64 / seconds / 1e6;
                ("ours, MB/s | peer, MB/s", format!("{:.0} | {:.0}", speed(ours), speed(peer)))
            }
            None => ("ours, ms | peer, ms", format!("{:.2} | {:.2}", ours * 1e3, peer * 1e3)),
        };
        let Pair { group, input, counts, .. } = pair;
        self.push(head, Row { group, input, cells, ratio: peer / ours, counts });
    }

    fn size(&mut self, size: Size) {
        if !self.only.as_ref().is_none_or(|only| size.group.contains(only.as_str())) {
            return;
        }
        let side = |bytes: usize| format!("{bytes} B ({:.2})", size.raw as f64 / bytes as f64);
        let cells = format!("{} | {}", side(size.ours), side(size.peer));
        let ratio = size.peer as f64 / size.ours as f64;
        let Size { group, input, counts, .. } = size;
        self.push("ours (factor) | peer (factor)", Row { group, input, cells, ratio, counts });
    }
}
