//! Times of the runs of one measurement, and their spread.

use std::ops::Add;
use std::time::Duration;

use lanepack::Error;

use super::WARM_UP;

/// Times of all runs, the shortest first.
#[derive(Clone, Debug)]
pub struct Runs(Vec<Duration>);

impl Runs {
    /// Takes the times of `runs` runs after those that warm up.
    pub fn measure(
        runs: usize,
        mut run: impl FnMut() -> Result<Duration, Error>,
    ) -> Result<Self, Error> {
        for _ in 0..WARM_UP {
            run()?;
        }
        (0..runs).map(|_| run()).collect()
    }

    pub fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    /// Median and quartiles.
    pub fn spread(&self) -> Spread {
        let len = self.0.len();
        let at = |index: usize| self.0[index].as_secs_f64();
        Spread { median: at(len / 2), fast: at(len / 4), slow: at(len - 1 - len / 4), runs: len }
    }
}

impl FromIterator<Duration> for Runs {
    /// # Panics
    /// If there are no times.
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut times: Vec<Duration> = times.into_iter().collect();
        assert!(!times.is_empty(), "expected one run at least");
        times.sort();
        Self(times)
    }
}

/// Median and quartiles of times, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub fast: f64,
    pub slow: f64,
    pub runs: usize,
}

impl Add for Spread {
    type Output = Self;

    /// One piece of work after another.
    fn add(self, other: Self) -> Self {
        Self {
            median: self.median + other.median,
            fast: self.fast + other.fast,
            slow: self.slow + other.slow,
            runs: self.runs.min(other.runs),
        }
    }
}
