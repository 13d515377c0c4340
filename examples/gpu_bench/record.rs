//! `record`: a fixed list of cases with default options first, as one JSON document.
//!
//! Every column is generated or read once, then decompressed, compressed and scanned:
//!
//! ```text
//! values --compress_array--> chunks, repeated --> decode
//!    repeated, on the device ------------------> encode --> scan
//! ```
//!
//! Results are checked as in the other commands. A wrong one has no figures, is listed under
//! `failures`, and makes the exit status 1. The document is written after each case.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use clap::{Args, ValueEnum};
use lanepack::internals::measure::Times;
use lanepack::{CompressedDeviceBatch, DeviceArray, Engine, Options, compress};
use serde_json::{Map, Value, json};

use super::cases::Case;
use super::document::{Better, Document, Figures, rounded};
use super::host::Engines;
use super::list::{self, Entry};
use super::runs::Runs;
use super::scan::{First, TENTH};
use super::{
    copies, copies_of, decode, encode, gather, host, kernel_times, lz, queries, scan, scan_strings,
    sizes,
};

pub type Failure = Box<dyn std::error::Error>;

/// A group of figures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    Decode,
    Encode,
    Scan,
    Gather,
    Lz,
    Queries,
    Host,
}

impl Suite {
    const ALL: [Self; 7] =
        [Self::Decode, Self::Encode, Self::Scan, Self::Gather, Self::Lz, Self::Queries, Self::Host];

    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Encode => "encode",
            Self::Scan => "scan",
            Self::Gather => "gather",
            Self::Lz => "lz",
            Self::Queries => "queries",
            Self::Host => "host",
        }
    }
}

#[derive(Args)]
pub struct What {
    /// The file to write.
    #[arg(long, required_unless_present = "list")]
    out: Option<PathBuf>,
    /// The commit that is measured.
    #[arg(long, required_unless_present = "list")]
    commit: Option<String>,
    /// The date, as in 2026-11-24.
    #[arg(long, default_value = "")]
    date: String,
    /// Only these suites.
    #[arg(long, value_delimiter = ',')]
    suite: Vec<Suite>,
    /// Only cases whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Print suites and cases, and measure nothing.
    #[arg(long)]
    list: bool,
    /// Bytes of values to work on at a time.
    #[arg(long, default_value_t = 1_050_000_000)]
    bytes: usize,
    /// Rows of the tables of queries.
    #[arg(long, default_value_t = 240_000_000)]
    rows: usize,
    /// Which GPU.
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// The emulation instead of a GPU, to try the program: times mean nothing.
    #[cfg(lanepack_simt)]
    #[arg(long)]
    emulate: bool,
}

impl What {
    fn wants(&self, suite: Suite) -> bool {
        self.suite.is_empty() || self.suite.contains(&suite)
    }

    /// The suites of an entry that are asked for.
    fn suites(&self, entry: &Entry) -> Vec<Suite> {
        let wanted = |suite: &Suite| self.wants(*suite) && entry.is_in(*suite);
        let named = entry.name().contains(&self.only);
        Suite::ALL.into_iter().filter(|suite| named && wanted(suite)).collect()
    }

    /// Rows of a column before it is repeated, at most: the emulation is slow.
    fn most_rows(&self) -> usize {
        #[cfg(lanepack_simt)]
        if self.emulate {
            return 3000;
        }
        usize::MAX
    }

    fn engines(&self) -> Result<Engines, lanepack::Error> {
        #[cfg(lanepack_simt)]
        if self.emulate {
            let ordinary = Engine::simt(1, 1 << 32).with_pinned_limit(0);
            return Ok(Engines { pinned: Engine::simt(1, 1 << 32), ordinary });
        }
        Engines::new(self.device)
    }
}

/// Measures everything that is asked for; whether all results were right.
pub fn run(what: &What) -> Result<bool, Failure> {
    if what.list {
        return list(what).map(|()| true);
    }
    let (out, commit) = what.out.clone().zip(what.commit.as_ref()).expect("clap asks for both");
    let engines = what.engines()?;
    let device = engines.pinned.device().expect("a GPU's engine has a device");
    let mut document = Document::new(out, commit, &what.date, device);
    document.set("bytes", what.bytes);
    document.set("rows", what.rows);
    let suites = Suite::ALL.into_iter().filter(|suite| what.wants(*suite));
    document.set("suites", suites.map(Suite::name).collect::<Vec<_>>());
    let copy = copies_of(&engines.pinned, what.bytes)?;
    let rate = 2.0 * what.bytes as f64 / copy.median().as_secs_f64();
    document.set("limits", json!({ "copy_gb_per_s": rounded(rate / 1e9) }));
    let mut recorder = Recorder { engines, document, bytes: what.bytes, copy: rate };
    recorder.run(what)?;
    Ok(recorder.document.failures.is_empty())
}

/// Prints the suites and options of each case.
fn list(what: &What) -> Result<(), Failure> {
    let print = |suites: &[Suite], name: &str, options: &str| {
        let suites: Vec<&str> = suites.iter().map(|suite| suite.name()).collect();
        println!("{:<28} {name:<40} {options}", suites.join(","));
    };
    for entry in list::entries()? {
        let suites = what.suites(&entry);
        if !suites.is_empty() {
            print(&suites, &entry.name(), &entry.options());
        }
    }
    if what.wants(Suite::Lz) {
        list::LZ.iter().for_each(|name| print(&[Suite::Lz], name, "encodings lz"));
    }
    if what.wants(Suite::Queries) {
        println!("{:<28} {} queries", Suite::Queries.name(), queries::queries(what.rows).len());
    }
    Ok(())
}

struct Recorder {
    engines: Engines,
    document: Document,
    bytes: usize,
    /// Bytes per second that a copy within the device reads and writes.
    copy: f64,
}

/// A column that takes more than 1 GB, on the host and on the device.
struct Repeated {
    copies: usize,
    field: Arc<Field>,
    array: ArrayRef,
    on_device: DeviceArray,
}

impl Repeated {
    fn new(engine: &Engine, case: &Case, bytes: usize) -> Result<Self, Failure> {
        let (copies, _) = copies(&case.array, bytes);
        let array = scan::repeated(&case.array, copies)?;
        let field = Arc::new(Field::new("x", array.data_type().clone(), true));
        let on_device = engine.copy_to_device(&array)?;
        Ok(Self { copies, field, array, on_device })
    }

    fn schema(&self) -> Arc<Schema> {
        Arc::new(Schema::new(vec![self.field.clone()]))
    }

    fn batch(&self) -> Result<RecordBatch, Failure> {
        Ok(RecordBatch::try_new(self.schema(), vec![self.array.clone()])?)
    }

    /// Compressed on the device.
    fn packed(
        &self,
        engine: &Engine,
        options: &Options,
    ) -> Result<CompressedDeviceBatch, lanepack::Error> {
        engine.compress_arrays(&self.schema(), std::slice::from_ref(&self.on_device), options)
    }
}

impl Recorder {
    fn run(&mut self, what: &What) -> Result<(), Failure> {
        for entry in list::entries()? {
            let suites = what.suites(&entry);
            if !suites.is_empty() {
                self.step(&entry.name(), |this| this.entry(&entry, &suites, what.most_rows()))?;
            }
        }
        if what.wants(Suite::Lz) {
            for case in list::LZ.into_iter().flat_map(lz::cases) {
                if case.name.contains(&what.only) {
                    self.step(&case.name, |this| this.lz(&case))?;
                }
            }
        }
        if what.wants(Suite::Queries) {
            for make in queries::queries(what.rows) {
                let query = make();
                if query.name.contains(&what.only) {
                    self.step(&query.name, |this| this.query(&query))?;
                }
            }
        }
        Ok(())
    }

    /// Does a case, says how long it took, and writes the document.
    fn step(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        if let Err(error) = work(self) {
            self.fail(format!("{name}: {error}"));
        }
        eprintln!("{:>6.1} s  {name}", start.elapsed().as_secs_f64());
        self.document.write()
    }

    fn fail(&mut self, what: String) {
        eprintln!("FAILED {what}");
        self.document.failures.push(what);
    }

    /// Measures a column in some suites.
    fn entry(&mut self, entry: &Entry, suites: &[Suite], most: usize) -> Result<(), Failure> {
        let case = entry.case(most)?;
        let options = entry.options();
        let has = |suite: Suite| suites.contains(&suite);
        if has(Suite::Decode) {
            self.decode(Suite::Decode, "speed", &case, &options)?;
        }
        if has(Suite::Gather) {
            self.gather(&case, &options)?;
        }
        if !(has(Suite::Encode) || has(Suite::Scan) || has(Suite::Host)) {
            return Ok(());
        }
        let repeated = Repeated::new(&self.engines.pinned, &case, self.bytes)?;
        // The CPU's bytes, with which the GPU's are compared.
        let packed = match has(Suite::Encode) || has(Suite::Host) {
            true => Some(compress(&repeated.batch()?, &case.options)?),
            false => None,
        };
        if let Some(packed) = packed.as_ref().filter(|_| has(Suite::Encode)) {
            self.encode(Suite::Encode, "speed", &case, &options, &repeated, packed)?;
        }
        if let Some(packed) = packed.filter(|_| has(Suite::Host)) {
            self.add_host(&case, &options, &repeated, &packed)?;
        }
        if has(Suite::Scan) {
            self.scan(&case, &options, &repeated)?;
        }
        Ok(())
    }

    fn decode(
        &mut self,
        suite: Suite,
        metric: &str,
        case: &Case,
        options: &str,
    ) -> Result<(), Failure> {
        let decoded = decode::column(&self.engines.pinned, case, self.bytes)?;
        if !decoded.same {
            self.fail(format!("{}: {}: other values were decoded", suite.name(), case.name));
            return Ok(());
        }
        let ratio = decoded.written as f64 / decoded.read.max(1) as f64;
        let about = json!({
            "options": options,
            "type": case.array.data_type().to_string(),
            "rows": case.array.len() * decoded.copies,
            "arrow_bytes": decoded.written,
            "value_bytes": decoded.values,
            "device_bytes": decoded.read,
            "ratio": rounded(ratio),
            "encoding": case.column.encoding().to_string(),
            "decode_kernels_us": kernels(&decoded.times),
        });
        let moved = (decoded.read + decoded.written) as f64;
        let copy = self.copy;
        let mut figures = self.document.case(suite, &case.name, about);
        figures.speed(metric, decoded.written, &decoded.all);
        if suite == Suite::Decode {
            figures.speed("values", decoded.values, &decoded.all);
            figures.rate("of copy", "%", moved / copy * 100.0 * 1e9, decoded.all.spread());
        }
        figures.amount("ratio", "", ratio, Better::Higher);
        Ok(())
    }

    fn encode(
        &mut self,
        suite: Suite,
        metric: &str,
        case: &Case,
        options: &str,
        repeated: &Repeated,
        expected: &RecordBatch,
    ) -> Result<(), Failure> {
        let found = repeated.packed(&self.engines.pinned, &case.options)?.download()?;
        if found != *expected {
            self.fail(format!("{}: {}: other bytes than the CPU's", suite.name(), case.name));
            return Ok(());
        }
        let field = &repeated.field;
        let encoded = encode::column(field, &repeated.on_device, &case.options, SERIAL_RUNS)?;
        let read = repeated.array.to_data().get_slice_memory_size()?;
        let ratio = read as f64 / encoded.written.max(1) as f64;
        let about = json!({
            "options": options,
            "type": case.array.data_type().to_string(),
            "rows": repeated.array.len(),
            "arrow_bytes": read,
            "value_bytes": sizes(&repeated.array).1,
            "device_bytes": encoded.written,
            "ratio": rounded(ratio),
            "encoding": lanepack::columns(expected)?[0].encoding().to_string(),
            "encode_kernels_us": kernels(&encoded.times),
        });
        let mut figures = self.document.case(suite, &case.name, about);
        figures.speed(metric, read, &encoded.all);
        if suite == Suite::Encode {
            figures.amount("ratio", "", ratio, Better::Higher);
        }
        Ok(())
    }

    fn scan(&mut self, case: &Case, options: &str, repeated: &Repeated) -> Result<(), Failure> {
        let engine = &self.engines.pinned;
        let packed = repeated.packed(engine, &case.options)?;
        let plain = || repeated.packed(engine, &scan::plain());
        let about = |encoding: &str, size: usize, touched: usize, first: &First| {
            json!({
                "options": options,
                "type": case.array.data_type().to_string(),
                "rows": repeated.array.len(),
                "value_bytes": size,
                "device_bytes": touched - repeated.array.len() / 8,
                "encoding": encoding,
                "first_scan_us": first.time.as_micros() as u64,
            })
        };
        let wrong = format!("scan: {}: other rows than Arrow's kernels keep", case.name);
        if *case.array.data_type() == DataType::Utf8 {
            let scanned =
                scan_strings::column(engine, &case.array, repeated.copies, packed, plain)?;
            if !scanned.same {
                self.fail(wrong);
                return Ok(());
            }
            let scan_strings::Scanned { size, touched, ref first, .. } = scanned;
            let mut about = about(&scanned.encoding, size, touched, first);
            let kept = scan_strings::TESTS.iter().zip(&scanned.tests);
            let kept = kept.map(|(test, (_, share))| ((*test).to_owned(), rounded(*share).into()));
            about["kept"] = Value::Object(kept.collect());
            let mut figures = self.document.case(Suite::Scan, &case.name, about);
            for (test, (runs, _)) in scan_strings::TESTS.iter().zip(&scanned.tests) {
                figures.speed(test, size, runs);
            }
            figures.speed("moved", touched, &scanned.tests[scan_strings::LIKE].0);
            against(&mut figures, size, &scanned.raw, &scanned.decoding);
            figures.time("later scans", &scanned.again);
            kept_memory(&mut figures, first);
            return Ok(());
        }
        let Some(scanned) = scan::column(engine, case, repeated.copies, packed, plain)? else {
            self.fail(format!("scan: {}: not scanned", case.name));
            return Ok(());
        };
        if !scanned.same {
            self.fail(wrong);
            return Ok(());
        }
        let scan::Scanned { size, touched, ref first, .. } = scanned;
        let about = about(&scanned.encoding, size, touched, first);
        let mut figures = self.document.case(Suite::Scan, &case.name, about);
        for (share, runs) in scan::SHARES.iter().zip(&scanned.shares) {
            figures.speed(&percent(*share), size, runs);
        }
        figures.speed("moved", touched, &scanned.shares[TENTH]);
        against(&mut figures, size, &scanned.raw, &scanned.decoding);
        kept_memory(&mut figures, first);
        Ok(())
    }

    fn gather(&mut self, case: &Case, options: &str) -> Result<(), Failure> {
        let gathered = gather::case(&self.engines, case, self.bytes)?;
        if !gathered.same {
            self.fail(format!("gather: {}: other values than the CPU's", case.name));
            return Ok(());
        }
        let about = json!({
            "options": options,
            "type": case.array.data_type().to_string(),
            "encoding": gathered.encoding,
        });
        let mut figures = self.document.case(Suite::Gather, &case.name, about);
        for (share, (runs, _)) in gather::SHARES.iter().zip(&gathered.shares) {
            figures.time(&percent(*share), runs);
        }
        figures.time("all", &gathered.decompressed);
        Ok(())
    }

    fn add_host(
        &mut self,
        case: &Case,
        options: &str,
        repeated: &Repeated,
        packed: &RecordBatch,
    ) -> Result<(), Failure> {
        let batch = repeated.batch()?;
        let bytes = repeated.array.to_data().get_slice_memory_size()?;
        let engines = &self.engines;
        let compressed = host::rates(
            engines,
            &batch,
            bytes,
            |engine, batch| engine.compress(batch, &case.options),
            |found| found == packed,
        )?;
        let is_right = |back: &RecordBatch| decode::is_right(case, repeated.copies, back.column(0));
        let decompressed = host::rates(engines, packed, bytes, Engine::decompress, is_right)?;
        if !(compressed.same && decompressed.same) {
            self.fail(format!("host: {}: other results than the CPU's", case.name));
            return Ok(());
        }
        let about = json!({
            "options": options,
            "type": case.array.data_type().to_string(),
            "arrow_bytes": bytes,
            "encoding": lanepack::columns(packed)?[0].encoding().to_string(),
        });
        let mut figures = self.document.case(Suite::Host, &case.name, about);
        figures.speed("compress, page-locked", bytes, &compressed.pinned);
        figures.speed("compress, ordinary memory", bytes, &compressed.ordinary);
        figures.speed("decompress, page-locked", bytes, &decompressed.pinned);
        figures.speed("decompress, ordinary memory", bytes, &decompressed.ordinary);
        Ok(())
    }

    fn lz(&mut self, case: &Case) -> Result<(), Failure> {
        let options = format!("encodings lz, {:?}", case.options.lz());
        self.decode(Suite::Lz, "decode", case, &options)?;
        let repeated = Repeated::new(&self.engines.pinned, case, self.bytes)?;
        let packed = compress(&repeated.batch()?, &case.options)?;
        self.encode(Suite::Lz, "encode", case, &options, &repeated, &packed)
    }

    fn query(&mut self, query: &queries::Query) -> Result<(), Failure> {
        let measured = queries::measure(&self.engines.pinned, query)?;
        if !measured.same {
            self.fail(format!("queries: {}: another result than the CPU's", query.name));
            return Ok(());
        }
        let encodings = measured.encodings.into_iter().map(|(name, one)| (name, one.into()));
        let about = json!({
            "options": "default",
            "rows": measured.rows,
            "device_bytes": measured.bytes,
            "encoding": Value::Object(encodings.collect()),
            "first_call_us": measured.first.time.as_micros() as u64,
        });
        let rows = measured.rows as f64;
        let mut figures = self.document.case(Suite::Queries, &query.name, about);
        let unit = "billion rows/s";
        figures.rate("packed", unit, rows, measured.packed);
        figures.rate("raw", unit, rows, measured.raw);
        figures.rate("decoded first", unit, rows, measured.raw + measured.decoding);
        figures.rate("moved", "GB/s", measured.bytes as f64, measured.packed);
        figures.amount("size of a row", "bytes", measured.bytes as f64 / rows, Better::Lower);
        kept_memory(&mut figures, &measured.first);
        Ok(())
    }
}

/// Runs for the times of each of compression's kernels.
const SERIAL_RUNS: usize = 3;

/// A share of rows, in words.
fn percent(share: f64) -> String {
    format!("{} %", share * 100.0)
}

/// Rates of the raw array, and of decompression before.
fn against(figures: &mut Figures<'_>, size: usize, raw: &Runs, decoding: &Runs) {
    figures.speed("raw", size, raw);
    figures.rate("decoded first", "GB/s", size as f64, raw.spread() + decoding.spread());
}

/// Device memory that scans keep beside the compressed column.
fn kept_memory(figures: &mut Figures<'_>, first: &First) {
    figures.amount("memory kept", "MB", first.kept as f64 / 1e6, Better::Lower);
}

/// Medians of each kernel, in microseconds.
fn kernels(times: &[Times]) -> Value {
    let kernels = kernel_times(times).into_iter().map(|(name, runs)| {
        let name = if name.is_empty() { "host and gaps" } else { name };
        (name.to_owned(), rounded(runs.median().as_secs_f64() * 1e6).into())
    });
    Value::Object(kernels.collect::<Map<_, _>>())
}
