//! What work takes: predictions for the CPU, for devices, and for both together.
//!
//! ```text
//! rates of the machine (file.rs; defaults.json until somebody has calibrated)
//!       |                      times of calls
//!       v                            v
//!   prediction  x  correction of the same kind of work  -->  who does it (engine/choice.rs)
//! ```
//!
//! A rate is bytes of Arrow values a second: for each operation and kind of values ([`Kind`]) one of a
//! thread of the CPU and one of a device, whose data are in its memory. Buses have rates of their own,
//! in each direction, from page-locked memory and from other. Work on a device is predicted as copies
//! up, kernels and copies down that overlap in all but the first and last part; work of the CPU as that
//! of its threads, but no faster than memory, nor than the longest unit; of both as the sum of their
//! rates. The paper on Hybrid-Smash (section III-G) chooses the CPU or a GPU by the size of the data
//! for each codec, and leaves both at once open.
//!
//! Predictions are corrected by what calls have taken ([`Model::learn`]): for each operation, kind of
//! values, order of magnitude and side. A side that is predicted to be little slower than the best and
//! is not known to be does this kind of work a few times.

mod file;
mod kinds;

use std::collections::HashMap;
use std::time::Duration;

pub(crate) use kinds::{Kind, RatesByKind};
use serde::{Deserialize, Serialize};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Compress,
    Decompress,
    /// Filters and aggregates, of which little comes back.
    Scan,
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Cpu,
    Devices,
    Both,
}

impl Side {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Devices, Self::Both];
}

/// A column that is to be worked on.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub kind: Kind,
    /// Bytes of values.
    pub values: usize,
    /// Bytes of bodies; none if they are not known yet.
    pub stored: Option<usize>,
    /// Parts that the CPU works on at a time.
    pub units: usize,
    /// Whether a device does it.
    pub on_device: bool,
}

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub operation: Operation,
    /// Tests and aggregates of a scan.
    pub effort: usize,
    pub columns: Vec<Column>,
    /// Whether what goes up lies in page-locked memory, and whether what comes down will.
    pub page_locked: [bool; 2],
    /// Threads of the CPU, and devices.
    pub threads: usize,
    pub devices: usize,
}

impl Work {
    /// Threads of the CPU that work beside devices. The others start kernels, plan what is compressed,
    /// and where memory is not page-locked copy to what is.
    pub fn threads_beside_devices(&self) -> usize {
        let others = match (self.operation, self.page_locked) {
            // With 14 threads beside an NVIDIA H200 both compress Float64 at 30 GB/s, with 4 at 33 to 38.
            (Operation::Compress, _) => self.threads - self.threads / 4,
            (_, [true, true]) => 2 * self.devices,
            _ => self.threads / 2,
        };
        self.threads.saturating_sub(others).max(1)
    }

    /// What is counted where work is shared: bytes of values, of scans those of bodies.
    pub fn shared_bytes(&self) -> usize {
        match self.operation {
            Operation::Compress | Operation::Decompress => self.values(),
            Operation::Scan => self.columns.iter().filter_map(|column| column.stored).sum(),
        }
    }

    pub fn values(&self) -> usize {
        self.columns.iter().map(|column| column.values).sum()
    }
}

/// Bytes a second of a kind of values: of a thread of the CPU, and of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rate {
    pub cpu: f64,
    pub device: f64,
}

/// Rates of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// What they were measured on: device, driver, threads, release of lanepack.
    pub machine: String,
    /// Bytes a second to the device: from page-locked memory, from other.
    pub up: [f64; 2],
    /// The same from the device.
    pub down: [f64; 2],
    /// Bytes a second that all threads together read or write.
    pub memory: f64,
    /// Seconds that a call on a device takes beside work on its bytes, and for each column a quarter of
    /// it.
    pub call: f64,
    pub compress: RatesByKind,
    pub decompress: RatesByKind,
    /// Of a filter of one test.
    pub scan: RatesByKind,
}

/// Bytes of values that a device works on at a time.
const PART: f64 = 32e6;

/// Bytes of bodies for each byte of values, where nothing is known yet.
const RATIO: f64 = 0.4;

/// Where no rates are known.
const UNKNOWN: Rate = Rate { cpu: 3e8, device: 3e10 };

/// Seconds until threads work on a call that is shared.
const SHARED: f64 = 300e-6;

/// Seconds until all threads of a pool work.
const POOL: f64 = 20e-6;

impl Rates {
    fn rate(&self, operation: Operation, kind: Kind) -> Rate {
        let rates = match operation {
            Operation::Compress => &self.compress,
            Operation::Decompress => &self.decompress,
            Operation::Scan => &self.scan,
        };
        rates.rate(kind).unwrap_or(UNKNOWN)
    }

    /// Seconds that work takes on one side.
    fn seconds(&self, work: &Work, side: Side) -> f64 {
        match side {
            Side::Cpu => POOL + self.cpu(work, work.threads as f64, |_| true),
            Side::Devices => {
                // What no device does is the CPU's.
                let others = self.cpu(work, work.threads as f64, |column| !column.on_device);
                self.devices(work).max(others)
            }
            Side::Both => {
                let threads = work.threads_beside_devices() as f64;
                let (cpu, devices) = (self.cpu(work, threads, |_| true), self.devices(work));
                SHARED + 1.0 / (1.0 / cpu + 1.0 / devices) + self.longest(work) / 2.0
            }
        }
    }

    /// Seconds of the longest unit on one thread.
    fn longest(&self, work: &Work) -> f64 {
        let unit = |column: &Column| {
            let rate = self.rate(work.operation, column.kind).cpu;
            column.values as f64 / column.units.max(1) as f64 / rate
        };
        work.columns.iter().map(unit).fold(0.0, f64::max)
    }

    fn cpu(&self, work: &Work, threads: f64, takes: impl Fn(&Column) -> bool) -> f64 {
        let (mut total, mut longest, mut bytes) = (0.0, 0.0_f64, 0.0);
        for column in work.columns.iter().filter(|column| takes(column)) {
            let seconds = column.values as f64 / self.rate(work.operation, column.kind).cpu;
            total += seconds;
            longest = longest.max(seconds / column.units.max(1) as f64);
            let stored = column.stored.map_or(column.values as f64 * RATIO, |bytes| bytes as f64);
            bytes += match work.operation {
                Operation::Scan => stored,
                Operation::Compress | Operation::Decompress => column.values as f64 + stored,
            };
        }
        (total / threads).max(longest).max(bytes / self.memory)
    }

    fn devices(&self, work: &Work) -> f64 {
        let (mut up, mut kernels, mut down, mut count) = (0.0, 0.0, 0.0, 0);
        for column in work.columns.iter().filter(|column| column.on_device) {
            let values = column.values as f64;
            let stored = column.stored.map_or(values * RATIO, |bytes| bytes as f64);
            let (goes_up, comes_down) = match work.operation {
                Operation::Compress => (values, stored),
                Operation::Decompress => (stored, values),
                Operation::Scan => (stored, 0.0),
            };
            up += goes_up / self.up[usize::from(!work.page_locked[0])];
            down += comes_down / self.down[usize::from(!work.page_locked[1])];
            kernels += values / self.rate(work.operation, column.kind).device;
            count += 1;
        }
        let devices = work.devices.max(1) as f64;
        let slowest = up.max(kernels).max(down);
        // Before the first part has arrived and after the last has been worked on nothing overlaps.
        let first = (PART / (work.values() as f64).max(1.0)).min(1.0);
        let calls = self.call * (1.0 + f64::from(count) / 4.0);
        calls + (slowest + (up + kernels + down - slowest) * first) / devices
    }
}

/// Work that is alike: what corrections are kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Alike {
    operation: Operation,
    /// The bits of the number of tests and aggregates.
    effort: u32,
    /// Of the column with most bytes.
    kind: Option<Kind>,
    page_locked: [bool; 2],
    /// Half the bits of the number of bytes.
    magnitude: u32,
    columns: u32,
}

impl Alike {
    fn of(work: &Work) -> Self {
        let largest = work.columns.iter().max_by_key(|column| column.values);
        Self {
            operation: work.operation,
            effort: work.effort.checked_ilog2().map_or(0, |bits| bits + 1),
            kind: largest.map(|column| column.kind),
            page_locked: work.page_locked,
            magnitude: work.values().checked_ilog2().unwrap_or(0) / 2,
            columns: work.columns.len().checked_ilog2().unwrap_or(0) / 2,
        }
    }
}

impl Alike {
    /// The key of a side: the CPU does not care where memory is page-locked.
    fn on(self, side: Side) -> Self {
        match side {
            Side::Cpu => Self { page_locked: [false; 2], ..self },
            Side::Devices | Side::Both => self,
        }
    }
}

/// Rates, and what calls have taken.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    rates: Rates,
    /// Times that calls have taken, as multiples of what was predicted.
    taken: HashMap<Alike, BySide>,
}

/// What calls have taken on each side, in the order of [`Side::ALL`].
type BySide = [Taken; 3];

/// How often a side has done work of a kind, and the last times but the first one: that allocates
/// memory, page-locked memory above all, and loads kernels, which those after it find.
#[derive(Debug, Clone, Copy)]
struct Taken {
    calls: u32,
    last: [f64; REMEMBERED],
}

impl Default for Taken {
    fn default() -> Self {
        Self { calls: 0, last: [f64::INFINITY; REMEMBERED] }
    }
}

impl Taken {
    /// The least of the last times, as calls are disturbed more often than they are faster; 1 if there
    /// are none.
    fn seen(self) -> f64 {
        let least = self.last.into_iter().fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { 1.0 }
    }

    /// The same if there are enough.
    fn factor(self) -> f64 {
        if self.calls < KNOWN { 1.0 } else { self.seen() }
    }
}

/// Times of a side that are remembered.
const REMEMBERED: usize = 4;

/// Calls after which a side is known.
const KNOWN: u32 = 3;

/// Calls after which another side is tried again: machines change, and calls are disturbed.
const AGAIN: u32 = 64;

/// At first every second call may try a side, later one of so many: a side that has turned out to be as
/// good as the best, because that became slower, is not worth several slow calls one after the other.
const TRIES: [u32; 2] = [2, 8];

/// Calls after which tries are rare.
const FIRST: u32 = 24;

/// Seconds that are predicted at most.
const LONGEST: f64 = 1e6;

/// A side that is slower than the best by less than this is tried.
const WORTH_A_TRY: f64 = 1.6;

/// The same of compression by a side that is predicted by rates alone: before values are compressed
/// their encoding is not known, and rates differ by more than with it.
const WORTH_A_TRY_UNSEEN: f64 = 4.0;

/// Work that the CPU is predicted to do in this share of the time that a call on a device takes is not
/// looked up: that would take as long.
const TINY: f64 = 0.25;

/// Kinds of work that are remembered.
const MOST_ALIKE: usize = 2048;

impl Model {
    pub fn new(rates: Rates) -> Self {
        Self { rates, taken: HashMap::new() }
    }

    /// Whether the CPU is done before a device has begun, in whatever memory the data lie.
    pub fn is_small(&self, work: &Work) -> bool {
        let factor = self.taken(Alike::of(work))[Side::Cpu as usize].factor();
        self.rates.seconds(work, Side::Cpu) * factor <= self.rates.call
    }

    /// What work takes on each side by the rates alone, if it is the CPU's and tiny.
    pub fn tiny(&self, work: &Work) -> Option<[Duration; 3]> {
        let is_tiny = self.rates.seconds(work, Side::Cpu) <= self.rates.call * TINY;
        is_tiny.then(|| self.predict(work, &BySide::default()))
    }

    /// What calls have taken on each side.
    fn taken(&self, alike: Alike) -> BySide {
        let of = |key: &Alike| self.taken.get(key).copied().unwrap_or_default();
        let mut taken = of(&alike);
        let cpu = Side::Cpu as usize;
        taken[cpu] = of(&alike.on(Side::Cpu))[cpu];
        taken
    }

    /// What work will take on each side.
    fn predict(&self, work: &Work, taken: &BySide) -> [Duration; 3] {
        Side::ALL.map(|side| {
            let seconds = self.rates.seconds(work, side) * taken[side as usize].factor();
            Duration::try_from_secs_f64(seconds.min(LONGEST)).unwrap_or(Duration::ZERO)
        })
    }

    /// The side of some that takes least, and the times of all three.
    pub fn choose(&self, work: &Work, sides: &[Side]) -> (Side, [Duration; 3]) {
        let taken = self.taken(Alike::of(work));
        let times = self.predict(work, &taken);
        let time = |side: &Side| times[*side as usize];
        let calls = |side: Side| taken[side as usize].calls;
        let all = taken.iter().fold(0_u32, |all, taken| all.wrapping_add(taken.calls));
        // After the first calls a side that is not known is only tried.
        let is_first = all < FIRST || sides.iter().all(|side| calls(*side) < KNOWN);
        let known = sides.iter().copied().filter(|side| is_first || calls(*side) >= KNOWN);
        let best = known.min_by_key(time).unwrap_or(Side::Cpu);
        // By what is known of it, or else, once in a while, by the rates alone.
        let is_again = all % AGAIN == AGAIN - 1;
        let most = |side: Side| {
            let is_unseen = work.operation == Operation::Compress && calls(side) == 0;
            let factor = if is_unseen { WORTH_A_TRY_UNSEEN } else { WORTH_A_TRY };
            time(&best).as_secs_f64() * factor
        };
        let is_worth_it = |side: &&Side| match is_again {
            true => **side != best && self.rates.seconds(work, **side) <= most(**side),
            false => {
                let seen = taken[**side as usize].seen();
                let is_unknown = **side != best && calls(**side) < KNOWN;
                is_unknown && self.rates.seconds(work, **side) * seen <= most(**side)
            }
        };
        let each = TRIES[usize::from(!is_first)];
        let is_time = calls(best) >= KNOWN && all % each == each - 1;
        match sides.iter().filter(is_worth_it).min_by_key(|side| time(side)) {
            Some(side) if is_time => (*side, times),
            _ => (best, times),
        }
    }

    /// Remembers what work has taken.
    pub fn learn(&mut self, work: &Work, side: Side, taken: Duration) {
        let (key, predicted) = (Alike::of(work).on(side), self.rates.seconds(work, side));
        let is_full = self.taken.len() >= MOST_ALIKE && !self.taken.contains_key(&key);
        if predicted <= 0.0 || is_full {
            return;
        }
        let ratio = taken.as_secs_f64() / predicted;
        let taken = &mut self.taken.entry(key).or_default()[side as usize];
        if taken.calls > 0 {
            taken.last.rotate_right(1);
            taken.last[0] = ratio;
        }
        taken.calls = taken.calls.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{Encoding, Physical};

    /// A machine whose device is 20 times as fast as a thread, behind a bus of 10 GB/s.
    fn rates() -> Rates {
        let rate = Rate { cpu: 1e9, device: 2e10 };
        let kinds = |rate: Rate| {
            let mut kinds = RatesByKind::default();
            kinds.insert(F64, rate);
            kinds
        };
        Rates {
            machine: String::new(),
            up: [1e10, 5e9],
            down: [1e10, 5e9],
            memory: 1e11,
            call: 1e-3,
            compress: kinds(rate),
            decompress: kinds(rate),
            scan: kinds(Rate { cpu: 4e9, ..rate }),
        }
    }

    const F64: Kind = Kind { encoding: None, physical: Physical::F64 };

    fn work(values: usize) -> Work {
        let kind = F64;
        let units = values.div_ceil(1 << 20);
        Work {
            operation: Operation::Compress,
            effort: 0,
            columns: vec![Column { kind, values, stored: None, units, on_device: true }],
            page_locked: [true; 2],
            threads: 4,
            devices: 1,
        }
    }

    fn chosen(work: &Work) -> Side {
        Model::new(rates()).choose(work, &Side::ALL).0
    }

    #[test]
    fn small_work_is_the_cpus_and_large_work_is_shared() {
        assert_eq!(chosen(&work(100_000)), Side::Cpu);
        assert_eq!(chosen(&work(1 << 30)), Side::Both);
        // Of a single unit nothing can be shared.
        let mut alone = work(1 << 30);
        alone.columns[0].units = 1;
        assert_eq!(chosen(&alone), Side::Devices);
    }

    #[test]
    fn seconds_are_those_of_the_rates() {
        let (rates, large) = (rates(), work(4_000_000_000));
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.05;
        assert!(near(rates.seconds(&large, Side::Cpu), 1.0));
        assert!(near(rates.seconds(&large, Side::Devices), 0.4), "the bus");
        let other = Work { page_locked: [false; 2], ..large.clone() };
        assert!(near(rates.seconds(&other, Side::Devices), 0.8));
        let two = Work { devices: 2, ..large.clone() };
        assert!(near(rates.seconds(&two, Side::Devices), 0.2));
        assert_eq!(large.threads_beside_devices(), 1);
        assert!(near(rates.seconds(&large, Side::Both), 1.0 / (2.5 + 0.25)));
        let down = Work { operation: Operation::Decompress, ..large };
        assert_eq!(down.threads_beside_devices(), 2);
    }

    #[test]
    fn scans_read_what_is_stored() {
        let rates = rates();
        let mut scan = Work { operation: Operation::Scan, effort: 2, ..work(1 << 30) };
        scan.columns[0].stored = Some(1 << 27);
        assert_eq!((scan.values(), scan.shared_bytes()), (1 << 30, 1 << 27));
        // 16 GB/s by four threads; the bus has 10 for an eighth of the bytes.
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.1;
        assert!(near(rates.seconds(&scan, Side::Cpu), (1 << 30) as f64 / 16e9));
        assert!(rates.seconds(&scan, Side::Devices) < rates.seconds(&scan, Side::Cpu));
        scan.columns[0].stored = Some(1 << 30);
        assert_eq!(chosen(&scan), Side::Both);
    }

    #[test]
    fn of_unknown_kinds_the_slowest_is_expected() {
        let mut rates = rates();
        let strings = Kind { encoding: None, physical: Physical::Bytes };
        rates.compress.insert(strings, Rate { cpu: 1e8, device: 1e10 });
        let of = |encoding, physical| rates.rate(Operation::Compress, Kind { encoding, physical });
        assert_eq!(of(None, Physical::Bool), Rate { cpu: 1e8, device: 1e10 });
        assert_eq!(of(Some(Encoding::Alp), Physical::F64), Rate { cpu: 1e9, device: 2e10 });
        rates.compress = RatesByKind::default();
        assert!(rates.seconds(&work(1000), Side::Cpu) > 0.0);
    }

    #[test]
    fn what_calls_take_corrects_predictions() {
        let (mut model, work, other) = (Model::new(rates()), work(1 << 30), work(1 << 20));
        let choose = |model: &Model| model.choose(&work, &Side::ALL).0;
        let predict =
            |model: &Model, work: &Work| model.choose(work, &Side::ALL).1[Side::Both as usize];
        let before = predict(&model, &other);
        let slow = predict(&model, &work) * 3;
        assert_eq!(choose(&model), Side::Both);
        for _ in 0..2 {
            model.learn(&work, Side::Both, slow);
            assert_eq!(
                choose(&model),
                Side::Both,
                "one time says nothing, nor does the first call"
            );
        }
        model.learn(&work, Side::Both, slow);
        assert_eq!(choose(&model), Side::Devices, "the next best");
        let found = predict(&model, &work).as_secs_f64() / slow.as_secs_f64();
        assert!((found - 1.0).abs() < 1e-6);
        assert_eq!(predict(&model, &other), before, "of another size");
        let fast = slow / 10;
        model.learn(&work, Side::Both, fast);
        assert_eq!(choose(&model), Side::Both);
    }

    #[test]
    fn work_is_small_if_the_cpu_is_done_before_a_device_has_begun() {
        let (mut model, small) = (Model::new(rates()), work(1 << 20));
        // A millisecond for a unit on one thread.
        assert!(!model.is_small(&small));
        assert!(model.is_small(&work(900_000)));
        let predicted = Duration::from_secs_f64(rates().seconds(&small, Side::Cpu));
        (0..3).for_each(|_| model.learn(&small, Side::Cpu, predicted / 2));
        assert!(model.is_small(&small), "as calls have shown");
        assert!(model.tiny(&small).is_none() && model.tiny(&work(200_000)).is_some());
        let ordinary = Work { page_locked: [false; 2], ..small.clone() };
        assert!(model.is_small(&ordinary), "in other memory");
        (0..REMEMBERED).for_each(|_| model.learn(&ordinary, Side::Cpu, predicted));
        assert!(!model.is_small(&small), "as later calls have shown");
    }

    #[test]
    fn what_may_be_as_good_is_tried() {
        let (mut model, work) = (Model::new(rates()), work(1 << 30));
        let mut tried = Vec::new();
        for _ in 0..9 {
            let side = model.choose(&work, &Side::ALL).0;
            let predicted = Duration::from_secs_f64(model.rates.seconds(&work, side));
            model.learn(&work, side, predicted);
            tried.push(side);
        }
        let (both, devices) = (Side::Both, Side::Devices);
        assert_eq!(tried[..3], [both; 3]);
        // Little slower: every second call until it is known. The CPU is much slower.
        assert_eq!(tried[3..], [devices, both, devices, both, devices, both]);
    }

    #[test]
    fn later_a_side_that_is_not_known_is_tried_now_and_then() {
        let (mut model, work) = (Model::new(rates()), work(1 << 30));
        let predicted = Duration::from_secs_f64(rates().seconds(&work, Side::Devices));
        // So far twice as fast as devices are predicted to be: they are not tried.
        (0..2 * FIRST).for_each(|_| model.learn(&work, Side::Both, predicted / 2));
        assert_eq!(model.choose(&work, &Side::ALL).0, Side::Both);
        let mut tried = Vec::new();
        for _ in 0..4 * TRIES[1] {
            let side = model.choose(&work, &Side::ALL).0;
            tried.push(side == Side::Devices);
            // Those that are known have become slower, devices even more than predicted.
            model.learn(&work, side, predicted * if side == Side::Devices { 5 } else { 4 } / 2);
        }
        assert_eq!(tried.iter().filter(|tried| **tried).count(), KNOWN as usize, "{tried:?}");
        let in_a_row = tried.windows(2).any(|pair| pair == [true; 2]);
        assert!(!in_a_row, "{tried:?}");
    }

    #[test]
    fn a_side_that_was_disturbed_is_tried_again() {
        let (mut model, work) = (Model::new(rates()), work(1 << 30));
        let seconds = |side: Side| rates().seconds(&work, side);
        let (both, devices) = (seconds(Side::Both), seconds(Side::Devices));
        for _ in 0..3 {
            model.learn(&work, Side::Both, Duration::from_secs_f64(both * 9.0));
        }
        let mut again = 0;
        for _ in 0..4 * AGAIN {
            let side = model.choose(&work, &Side::ALL).0;
            again += u32::from(side == Side::Both);
            let time = if side == Side::Both { both } else { devices };
            model.learn(&work, side, Duration::from_secs_f64(time));
        }
        assert!(again > AGAIN, "{again} calls of the faster side");
    }

    #[test]
    fn rates_of_any_size_give_times() {
        for rate in [1e-300, 1e300, f64::INFINITY, f64::NAN] {
            let mut rates = rates();
            rates.compress.insert(F64, Rate { cpu: rate, device: rate });
            (rates.memory, rates.call) = (rate, rate);
            let model = Model::new(rates);
            for values in [0, 1, 1 << 40] {
                model.choose(&work(values), &[Side::Devices]);
                model.choose(&work(values), &Side::ALL);
            }
        }
    }

    #[test]
    fn only_so_much_is_remembered() {
        let mut model = Model::new(rates());
        for columns in 0..3 * MOST_ALIKE {
            let mut work = work(1 << 20);
            work.columns[0].values = 1 << (columns % 40);
            work.columns[0].kind.encoding =
                Encoding::ALL.get(columns % Encoding::ALL.len()).copied();
            work.page_locked = [columns % 2 == 0, columns % 3 == 0];
            model.learn(&work, Side::ALL[columns % 3], Duration::from_millis(1));
        }
        assert!(model.taken.len() <= MOST_ALIKE);
    }
}
