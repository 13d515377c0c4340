//! What `record` measures: the same columns each time, with default options first.

use std::path::Path;

use arrow_array::Array;
use lanepack::{Encoding, Options, compress_array};

use super::cases::{Case, Failure, Source, data_folder, schema, shared_files};
use super::generated::Cascade;
use super::record::Suite;

/// A column to measure.
pub struct Entry {
    source: Source,
    /// The encodings that are allowed; none for those that are by default.
    encodings: Option<Vec<Encoding>>,
    suites: Vec<Suite>,
}

/// Shapes of LZ: symbols of one byte with all of a window, and those that GPULZ has.
pub const LZ: [&str; 3] =
    ["l_comment S1 C65536 L5", "l_comment S1 C4096 L4", "l_comment S2 C2048 L3"];

/// Public floats of full chunks.
const FLOATS: [&str; 5] = [
    "bitcoin_transactions_f_rg",
    "city_temperature_f_rg",
    "kv_cache_original",
    "nyc29_rg",
    "shapesall",
];

/// Columns of tables.
const TABLES: [(&str, &str); 6] = [
    ("bgg_reviews", "comment"),
    ("bimbo", "Venta_hoy"),
    ("examiner_headlines", "headline_text"),
    ("linear_road", "Column_6"),
    ("question_tags", "Tag"),
    ("weather_forecast", "Column_2"),
];

/// Cases that are gathered from, too.
const GATHERED: [&str; 4] = ["f64 of 16 bits, 8 exc.", "u32 of 16 bits", "l_comment", "wiki"];

/// Cases that are measured from host to host, too.
const FROM_HOST: [&str; 4] = ["u64 of 8 bits", "f64 of 16 bits, 8 exc.", "l_comment", "wiki"];

impl Entry {
    fn new(source: Source) -> Self {
        let mut suites = vec![Suite::Decode, Suite::Encode, Suite::Scan];
        let data = source.data();
        if GATHERED.contains(&data.as_str()) {
            suites.push(Suite::Gather);
        }
        if FROM_HOST.contains(&data.as_str()) {
            suites.push(Suite::Host);
        }
        Self { source, encodings: None, suites }
    }

    /// The data, and in brackets what is allowed if that is not the default.
    pub fn name(&self) -> String {
        match &self.encodings {
            None => self.source.data(),
            Some(encodings) => format!("{} [{}]", self.source.data(), names(encodings)),
        }
    }

    /// The options in words.
    pub fn options(&self) -> String {
        match &self.encodings {
            None => "default".to_owned(),
            Some(encodings) => format!("encodings {}", names(encodings)),
        }
    }

    pub fn is_in(&self, suite: Suite) -> bool {
        self.suites.contains(&suite)
    }

    /// The column, `most` rows of it at most.
    pub fn case(&self, most: usize) -> Result<Case, Failure> {
        let array = self.source.array()?;
        let array = array.slice(0, most.min(array.len()));
        if array.is_empty() {
            return Err("expected rows, found none".into());
        }
        let options = match &self.encodings {
            None => Options::default(),
            Some(encodings) => Options::default().with_encodings(encodings.iter().copied()),
        };
        let column = compress_array(&array, &options)?;
        Ok(Case { name: self.name(), array, column, options })
    }
}

fn names(encodings: &[Encoding]) -> String {
    encodings.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")
}

/// All columns: default options first.
pub fn entries() -> Result<Vec<Entry>, Failure> {
    let files = shared_files()?;
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let strings = data_folder().join("strings");
    let mut entries = Vec::new();
    for file in files.iter().filter(|file| file.starts_with(&strings)) {
        entries.push(Entry::new(Source::Column(file.clone(), 0, "value".to_owned())));
    }
    for name in FLOATS {
        let file = data_folder().join("floats").join(name).with_extension("parquet");
        entries.push(Entry::new(Source::Column(file, 0, "value".to_owned())));
    }
    for (table, column) in TABLES {
        let file = files.iter().find(|file| stem(file) == table);
        let file = file.ok_or_else(|| format!("expected {table}.parquet in the shared data"))?;
        let index = schema(file)?.index_of(column)?;
        entries.push(Entry::new(Source::Column(file.clone(), index, column.to_owned())));
    }
    entries.extend(generated().into_iter().map(Entry::new));
    entries.extend(fixed());
    Ok(entries)
}

/// Generated columns.
fn generated() -> Vec<Source> {
    let mut sources = Vec::new();
    for exceptions in [0, 8] {
        sources.extend([8, 16, 24].map(|width| Source::Decimals(true, width, exceptions)));
        sources.extend([8, 16].map(|width| Source::Decimals(false, width, exceptions)));
        sources.push(Source::Whole(16, exceptions));
    }
    for (bits, width) in [(8, 3), (16, 5), (32, 8), (32, 16), (64, 8), (64, 16), (64, 24)] {
        sources.push(Source::Integers(bits, width));
    }
    let cascades = [
        Cascade::Patched(32, 5, 8),
        Cascade::Patched(64, 5, 8),
        Cascade::Growing(32, 8),
        Cascade::Growing(64, 8),
        Cascade::Growing(64, 16),
        Cascade::Divided(32, 8),
        Cascade::Divided(64, 8),
        Cascade::Divided(64, 16),
        Cascade::Runs(32, 20),
        Cascade::Runs(64, 20),
        Cascade::Runs(64, 1000),
        Cascade::Distinct(32, 200),
        Cascade::Distinct(64, 200),
        Cascade::Distinct(64, 30_000),
        Cascade::Words(7),
        Cascade::Words(300),
        Cascade::Words(30_000),
        Cascade::Nulls(64, 8, 2),
        Cascade::Nulls(64, 8, 5000),
        Cascade::Flags(2),
        Cascade::Flags(5000),
        Cascade::Real(32),
        Cascade::Real(64),
        Cascade::Brain,
    ];
    sources.extend(cascades.map(Source::Cascade));
    sources
}

/// Generated columns with one encoding, or one over another.
fn fixed() -> Vec<Entry> {
    let with = |source: Source, encodings: &[Encoding], suites: &[Suite]| Entry {
        source,
        encodings: Some(encodings.to_vec()),
        suites: suites.to_vec(),
    };
    let mut entries = Vec::new();
    for (bits, width) in [(32, 1), (32, 8), (32, 16), (32, 24), (64, 1), (64, 8), (64, 16)] {
        entries.push(with(Source::Integers(bits, width), &[Encoding::Ffor], &[Suite::Decode]));
    }
    for width in [24, 32, 48, 63] {
        entries.push(with(Source::Integers(64, width), &[Encoding::Ffor], &[Suite::Decode]));
    }
    let all = [Suite::Decode, Suite::Encode, Suite::Scan];
    for exceptions in [0, 8] {
        for double in [true, false] {
            let source = Source::Decimals(double, 8, exceptions);
            entries.push(with(source, &[Encoding::Alp], &all));
        }
    }
    let cascades = [
        (Cascade::Patched(32, 5, 8), &[Encoding::Pfor][..]),
        (Cascade::Patched(64, 5, 8), &[Encoding::Pfor]),
        (Cascade::Growing(32, 8), &[Encoding::Delta, Encoding::Ffor]),
        (Cascade::Growing(64, 8), &[Encoding::Delta, Encoding::Ffor]),
        (Cascade::Divided(64, 8), &[Encoding::Gcd, Encoding::Ffor]),
        (Cascade::Runs(64, 20), &[Encoding::Rle, Encoding::Ffor]),
        (Cascade::Distinct(64, 200), &[Encoding::Dict, Encoding::Ffor]),
        (Cascade::Words(300), &[Encoding::Dict, Encoding::Ffor, Encoding::Fsst]),
    ];
    for (cascade, encodings) in cascades {
        entries.push(with(Source::Cascade(cascade), encodings, &all));
    }
    entries
}
