//! The JSON document of a record; docs/benchmarks/README.md describes it.

use std::path::PathBuf;

use lanepack::DeviceInfo;
use serde_json::{Map, Value, json};

use super::record::{Failure, Suite};
use super::runs::{Runs, Spread};
use super::{HOST_RUNS, RUNS, WARM_UP};

/// Version of the document's layout.
const FORMAT: u32 = 1;

/// What has been measured so far.
pub struct Document {
    path: PathBuf,
    head: Map<String, Value>,
    cases: Vec<Value>,
    figures: Vec<Value>,
    pub failures: Vec<String>,
}

/// Which of two values of a figure is better.
#[derive(Clone, Copy)]
pub enum Better {
    Higher,
    Lower,
}

/// Figures of one case in one suite.
pub struct Figures<'a> {
    document: &'a mut Document,
    suite: Suite,
    case: &'a str,
}

/// A number with five digits.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().expect("a number that was written")
}

impl Document {
    pub fn new(path: PathBuf, commit: &str, date: &str, device: &DeviceInfo) -> Self {
        let (major, minor) = device.compute_capability;
        let head = json!({
            "format": FORMAT,
            "kind": "gpu",
            "commit": commit,
            "date": date,
            "lanepack": env!("CARGO_PKG_VERSION"),
            "device": device.name,
            "device_memory": device.memory,
            "compute_capability": format!("{major}.{minor}"),
            "multiprocessors": device.multiprocessors,
            "cuda": device.driver,
            "driver": driver_release(),
            "host": { "cpu": cpu_model(), "cores": cores() },
            "options": "default, unless a case has others",
            "runs": { "warm_up": WARM_UP, "device": RUNS, "host": HOST_RUNS },
            "spread": "value is the median of the runs, low and high are their quartiles",
        });
        let Value::Object(head) = head else { unreachable!("an object") };
        Self { path, head, cases: Vec::new(), figures: Vec::new(), failures: Vec::new() }
    }

    /// Adds to the head.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.head.insert(key.to_owned(), value.into());
    }

    /// Adds a case, with what is known of it beside its figures.
    pub fn case<'a>(&'a mut self, suite: Suite, case: &'a str, mut about: Value) -> Figures<'a> {
        about["suite"] = suite.name().into();
        about["case"] = case.into();
        self.cases.push(about);
        Figures { document: self, suite, case }
    }

    /// Writes the file, one case or figure a line.
    pub fn write(&self) -> Result<(), Failure> {
        let lines = |values: &[Value]| {
            let lines: Vec<String> = values.iter().map(Value::to_string).collect();
            format!("[\n{}\n]", lines.join(",\n"))
        };
        let mut text = String::from("{\n");
        for (key, value) in &self.head {
            text += &format!("{}: {value},\n", Value::from(key.as_str()));
        }
        text += &format!("\"failures\": {},\n", Value::from(self.failures.clone()));
        text += &format!("\"cases\": {},\n", lines(&self.cases));
        text += &format!("\"figures\": {}\n}}\n", lines(&self.figures));
        Ok(std::fs::write(&self.path, text)?)
    }
}

impl Figures<'_> {
    fn push(&mut self, metric: &str, unit: &str, values: [f64; 3], runs: usize, better: Better) {
        let [value, low, high] = values.map(rounded);
        self.document.figures.push(json!({
            "suite": self.suite.name(),
            "case": self.case,
            "metric": metric,
            "unit": unit,
            "value": value,
            "low": low,
            "high": high,
            "runs": runs,
            "better": match better { Better::Higher => "higher", Better::Lower => "lower" },
        }));
    }

    /// An amount per second: bytes as GB/s, rows as billions.
    pub fn rate(&mut self, metric: &str, unit: &str, amount: f64, time: Spread) {
        let rate = |seconds: f64| amount / seconds / 1e9;
        let values = [rate(time.median), rate(time.slow), rate(time.fast)];
        self.push(metric, unit, values, time.runs, Better::Higher);
    }

    /// Bytes per second.
    pub fn speed(&mut self, metric: &str, bytes: usize, runs: &Runs) {
        self.rate(metric, "GB/s", bytes as f64, runs.spread());
    }

    /// A time in microseconds.
    pub fn time(&mut self, metric: &str, runs: &Runs) {
        let Spread { median, fast, slow, runs } = runs.spread();
        let values = [median, fast, slow].map(|seconds| seconds * 1e6);
        self.push(metric, "us", values, runs, Better::Lower);
    }

    /// What is the same in all runs.
    pub fn amount(&mut self, metric: &str, unit: &str, value: f64, better: Better) {
        self.push(metric, unit, [value; 3], 1, better);
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The release of the NVIDIA driver, as in `580.159.04`.
fn driver_release() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_release = |word: &&str| {
        word.contains('.') && word.chars().all(|char| char.is_ascii_digit() || char == '.')
    };
    text.lines().next()?.split_whitespace().find(is_release).map(str::to_owned)
}
