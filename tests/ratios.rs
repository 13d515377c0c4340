//! What the columns of the shared data take: no more than docs/ratios.csv records, of which
//! docs/RATIOS.md is the readable form.
//!
//! `LANEPACK_BLESS=1 cargo nextest run --test ratios` writes both anew.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use common::*;
use lanepack::file::{File, Writer};
use lanepack::{CompressedColumn, Effort, Options};
use rayon::prelude::*;

/// The folders.
const FOLDERS: [&str; 3] = ["strings", "floats", "tables"];

/// Bytes of each file as pyarrow 26 writes it to Parquet with zstd(3), and as Vortex 0.93 writes it by default.
const FILES: [(&str, usize, usize); 67] = [
    ("floats/alp_avx512dq_f32", 1_430, 3_804),
    ("floats/alp_avx512dq_f64", 2_187, 4_596),
    ("floats/alp_edge_case", 538, 2_908),
    ("floats/arade4", 7_530, 5_956),
    ("floats/basel_temp_f", 5_336, 7_052),
    ("floats/basel_temp_f32", 4_542, 6_164),
    ("floats/bird_migration_f", 3_040, 4_964),
    ("floats/bitcoin_transactions_f", 7_365, 6_940),
    ("floats/bitcoin_transactions_f_rg", 875_107, 606_992),
    ("floats/city_temperature_f", 2_516, 3_996),
    ("floats/city_temperature_f_rg", 143_441, 182_952),
    ("floats/cms1", 7_783, 8_172),
    ("floats/cms25", 9_501, 8_252),
    ("floats/double_test_0", 513, 2_420),
    ("floats/edge_f32", 262_026, 337_720),
    ("floats/edge_f32_nulls", 15_256, 18_324),
    ("floats/edge_f64", 391_536, 482_648),
    ("floats/edge_f64_nulls", 15_209, 14_084),
    ("floats/float_test_0", 483, 2_588),
    ("floats/float_test_1", 483, 2_588),
    ("floats/float_test_2", 483, 2_588),
    ("floats/gov10", 4_582, 6_732),
    ("floats/gov30", 560, 2_708),
    ("floats/gov31", 526, 2_868),
    ("floats/kv_cache_original", 393_392, 408_976),
    ("floats/medicare9", 1_667, 4_052),
    ("floats/neon_air_pressure", 6_054, 4_884),
    ("floats/neon_bio_temp_c", 2_669, 3_868),
    ("floats/neon_pm10_dust", 1_449, 3_548),
    ("floats/neon_wind_dir", 5_199, 4_596),
    ("floats/nyc29", 2_846, 5_508),
    ("floats/nyc29_rg", 511_699, 724_536),
    ("floats/poi_lat", 9_324, 9_788),
    ("floats/shapesall", 1_184_149, 569_584),
    ("floats/ssd_hdd_benchmarks_f", 1_216, 3_516),
    ("floats/stocks_de", 2_172, 4_180),
    ("floats/stocks_uk", 1_390, 3_740),
    ("strings/c_name", 459_199, 606_712),
    ("strings/chinese", 352_776, 473_280),
    ("strings/city", 96_701, 100_992),
    ("strings/credentials", 98_961, 108_776),
    ("strings/firstname", 374_424, 391_792),
    ("strings/genome", 546_465, 304_968),
    ("strings/hamlet", 97_369, 132_112),
    ("strings/l_comment", 927_267, 1_239_560),
    ("strings/location", 1_174_014, 1_274_072),
    ("strings/movies", 1_329_781, 1_607_176),
    ("strings/street", 78_706, 90_776),
    ("strings/urls2", 693_009, 930_240),
    ("strings/uuid", 1_530_171, 1_779_616),
    ("strings/wiki", 1_346_405, 1_759_424),
    ("strings/wikipedia", 1_221_474, 1_503_432),
    ("tables/alp_generated_doubles", 13_488, 44_640),
    ("tables/arrow_rs_bigdelta", 2_538, 11_636),
    ("tables/bgg_reviews", 945_806, 1_228_400),
    ("tables/bimbo", 283_655, 379_468),
    ("tables/examiner_headlines", 1_605_706, 2_260_200),
    ("tables/hail_2015", 727_382, 605_648),
    ("tables/iublibrary", 180_306, 236_676),
    ("tables/linear_road", 229_863, 168_768),
    ("tables/question_tags", 265_503, 315_416),
    ("tables/smart_grid", 114_327, 236_948),
    ("tables/ssb_date", 8_078, 22_356),
    ("tables/ssb_part", 268_171, 273_644),
    ("tables/ssb_supplier", 8_937, 20_940),
    ("tables/vortex_taxi_example", 27_596, 37_600),
    ("tables/weather_forecast", 120_719, 201_112),
];

/// Why columns are larger than Parquet's.
const WHYS: [(&str, &str); 5] = [
    (
        "text",
        "zstd copies text that it has seen before, of any length, and spends fewer bits on what \
         is frequent; FSST replaces up to 8 bytes by a byte, and any value decodes alone.",
    ),
    (
        "rows",
        "Sequences of rows come again (in half of the rows or more, the value and the three behind \
         it have come before), and zstd copies them whole.",
    ),
    (
        "bits",
        "Packed values of a vector, codes and lengths of runs among them, take the same whole number \
         of bits each; zstd spends fewer on those that are frequent, and parts of bits.",
    ),
    (
        "mixed",
        "Edge cases of many kinds strewn together: no encoding of values fits them all, and zstd \
         finds the bytes that they share.",
    ),
    (
        "small",
        "Less than 4,000 bytes: what a chunk costs beside its data (48 bytes, 32 a node, 8 and a \
         gap of up to 63 a buffer, whole vectors) is much of it.",
    ),
];

/// Columns below this size lose by what chunks cost beside their data.
const SMALL: usize = 4000;

/// Why each other column is larger.
const REASONS: &[(&str, &str)] = &[
    ("floats/edge_f32.value", "mixed"),
    ("floats/edge_f64.value", "mixed"),
    ("strings/chinese.value", "text"),
    ("strings/hamlet.value", "text"),
    ("strings/movies.value", "text"),
    ("strings/urls2.value", "text"),
    ("strings/wiki.value", "text"),
    ("strings/wikipedia.value", "text"),
    ("tables/arrow_rs_bigdelta.int_col", "rows"),
    ("tables/arrow_rs_bigdelta.bigint_col", "rows"),
    ("tables/bgg_reviews.comment", "text"),
    ("tables/bimbo.Demanda_uni_equil", "bits"),
    ("tables/bimbo.Dev_proxima", "bits"),
    ("tables/bimbo.Dev_uni_proxima", "bits"),
    ("tables/bimbo.Producto_ID", "rows"),
    ("tables/bimbo.Venta_uni_hoy", "bits"),
    ("tables/examiner_headlines.headline_text", "text"),
    ("tables/hail_2015.RANGE", "bits"),
    ("tables/hail_2015.SEVPROB", "bits"),
    ("tables/hail_2015.PROB", "bits"),
    ("tables/hail_2015.MAXSIZE", "bits"),
    ("tables/iublibrary.Author", "text"),
    ("tables/iublibrary.DateofPublication260c", "text"),
    ("tables/iublibrary.Title", "text"),
    ("tables/linear_road.Column_4", "bits"),
    ("tables/question_tags.Tag", "bits"),
    ("tables/smart_grid.Column_1", "rows"),
    ("tables/smart_grid.Column_2", "rows"),
    ("tables/smart_grid.Column_3", "rows"),
    ("tables/smart_grid.Column_4", "rows"),
    ("tables/smart_grid.Column_5", "rows"),
    ("tables/ssb_part.P_MFGR", "bits"),
    ("tables/ssb_part.P_CATEGORY", "bits"),
    ("tables/ssb_part.P_BRAND1", "text"),
    ("tables/ssb_part.P_COLOR", "bits"),
    ("tables/ssb_part.P_TYPE", "bits"),
    ("tables/ssb_part.P_CONTAINER", "bits"),
    ("tables/weather_forecast.Column_3", "rows"),
    ("tables/weather_forecast.Column_4", "rows"),
    ("tables/weather_forecast.Column_5", "rows"),
    ("tables/weather_forecast.Column_6", "rows"),
    ("tables/weather_forecast.Column_7", "rows"),
    ("tables/weather_forecast.Column_8", "rows"),
];

/// One line of docs/ratios.csv; of a file, whose column is `*`, sizes are those of the whole.
#[derive(Clone)]
struct Line {
    file: String,
    column: String,
    data_type: String,
    rows: usize,
    /// Bytes as Arrow arrays, as Parquet with zstd(3) and dictionaries, and compressed: with
    /// the default encodings and with all.
    arrow: usize,
    parquet: usize,
    packed: usize,
    packed_all: usize,
    /// The trees of all encodings.
    encoding: String,
}

const HEADER: &str =
    "file,column,type,rows,arrow_bytes,parquet_zstd3_bytes,default_bytes,all_bytes,all_encoding";

impl Line {
    fn parse(line: &str) -> Self {
        // Trees have commas, and come last.
        let fields: Vec<&str> = line.splitn(9, ',').collect();
        let number = |index: usize| fields[index].parse().unwrap();
        Self {
            file: fields[0].to_owned(),
            column: fields[1].to_owned(),
            data_type: fields[2].to_owned(),
            rows: number(3),
            arrow: number(4),
            parquet: number(5),
            packed: number(6),
            packed_all: number(7),
            encoding: fields[8].to_owned(),
        }
    }

    fn text(&self) -> String {
        let Self { file, column, data_type, rows, arrow, parquet, packed, packed_all, encoding } =
            self;
        format!(
            "{file},{column},{data_type},{rows},{arrow},{parquet},{packed},{packed_all},{encoding}\n"
        )
    }

    fn is_file(&self) -> bool {
        self.column == "*"
    }

    fn name(&self) -> String {
        format!("{}.{}", self.file, self.column)
    }

    /// Whether it is more than 3 % larger than Parquet's.
    fn loses(&self) -> bool {
        self.packed_all * 100 > self.parquet * 103
    }

    /// Why, of a column that loses.
    fn why(&self) -> Option<&'static str> {
        if self.packed_all < SMALL {
            return Some("small");
        }
        let name = self.name();
        REASONS.iter().find(|(column, _)| *column == name).map(|(_, why)| *why)
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

fn is_blessed() -> bool {
    std::env::var_os("LANEPACK_BLESS").is_some_and(|bless| bless == "1")
}

fn recorded() -> Vec<Line> {
    let text = std::fs::read_to_string(path("ratios.csv")).unwrap();
    text.lines().skip(1).map(Line::parse).collect()
}

/// Bytes of the file that a batch becomes, and of each column, with its trees.
fn packed(batch: &RecordBatch, options: &Options) -> (usize, Vec<(usize, String)>) {
    let mut writer = Writer::try_new(Vec::new(), &batch.schema(), options.clone()).unwrap();
    writer.write(batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let len = bytes.len();
    let file = File::from_bytes(Buffer::from_vec(bytes)).unwrap();
    let names: Vec<&String> =
        batch.schema_ref().fields().iter().map(|field| field.name()).collect();
    let column = |column: CompressedColumn| {
        let encoding = column.encoding().to_string();
        let mut trees: Vec<&str> = Vec::new();
        for tree in encoding.split('+') {
            if !trees.contains(&tree) {
                trees.push(tree);
            }
        }
        (column.compressed_bytes(), trees.join("+"))
    };
    (len, file.columns(&names).unwrap().into_iter().map(column).collect())
}

/// The lines of a file; Arrow and Parquet by `baseline`.
fn lines(path: &Path, baseline: &HashMap<(String, String), [String; 3]>) -> Vec<Line> {
    let folder = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let file = format!("{folder}/{}", path.file_stem().unwrap().to_str().unwrap());
    let batch = read_parquet(path);
    let all = Options::default().with_effort(Effort::Small);
    let (len, columns) = packed(&batch, &Options::default());
    let (len_all, columns_all) = packed(&batch, &all);
    let schema = batch.schema();
    let mut lines: Vec<Line> = (schema.fields().iter().zip(columns).zip(columns_all))
        .map(|((field, (packed, _)), (packed_all, encoding))| {
            let key = (file.clone(), field.name().clone());
            let [data_type, arrow, parquet] = baseline[&key].clone();
            Line {
                file: file.clone(),
                column: field.name().clone(),
                data_type,
                rows: batch.num_rows(),
                arrow: arrow.parse().unwrap(),
                parquet: parquet.parse().unwrap(),
                packed,
                packed_all,
                encoding,
            }
        })
        .collect();
    let sum = |of: fn(&Line) -> usize| lines.iter().map(of).sum();
    lines.push(Line {
        column: "*".to_owned(),
        data_type: String::new(),
        arrow: sum(|line| line.arrow),
        parquet: sum(|line| line.parquet),
        packed: len,
        packed_all: len_all,
        encoding: String::new(),
        ..lines[0].clone()
    });
    lines
}

/// Type, bytes in Arrow and bytes in Parquet of every column of the shared data.
fn baseline(root: &Path) -> HashMap<(String, String), [String; 3]> {
    let text = std::fs::read_to_string(root.join("baseline_ratios.csv")).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| header.iter().position(|found| *found == name).unwrap();
    let [file, column, data_type, arrow, parquet] =
        ["file", "column", "type", "raw_bytes", "parquet_zstd3_dict"].map(at);
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let file = fields[file].trim_end_matches(".parquet").to_owned();
            let values = [data_type, arrow, parquet].map(|at| fields[at].to_owned());
            ((file, fields[column].to_owned()), values)
        })
        .collect()
}

/// A number with commas.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// What others make of a file.
fn peer(file: &str) -> (&'static str, usize, usize) {
    *FILES.iter().find(|(name, ..)| *name == file).expect("a file of the shared data")
}

/// docs/RATIOS.md.
fn table(lines: &[Line]) -> String {
    let mut out = String::from(
        "# Sizes of the shared data\n\n\
         Written by `LANEPACK_BLESS=1 cargo nextest run --test ratios`, with [ratios.csv](ratios.csv); the same test fails \
         where a column has grown by more than 1 %. The data are public files (`../shared/data`: 15 of strings, 37 of \
         floats, 15 tables), of which some are synthetic or made of edge cases.\n\n\
         - *Arrow*: the buffers of the arrays, without padding.\n\
         - *default*, *all*: headers and bodies of the compressed column, with all encodings but front \
         coding (`Effort::Balanced`), and with all (`Effort::Small`); *tree*: what all became.\n\
         - *Parquet*: the column chunk with zstd(3) and dictionaries, as pyarrow 26 writes it.\n\
         - *why*: why all encodings take over 3 % more than Parquet:\n",
    );
    for (why, text) in WHYS {
        let _ = writeln!(out, "  - *{why}*: {text}");
    }
    out += "\n## Folders\n\nSums of columns, and whole files (`file::Writer`; Parquet with zstd(3) by pyarrow 26; Vortex 0.93 with its defaults), in MB.\n\n";
    out += "| folder | Arrow | default | all | Parquet | file, default | file, all | file, Parquet | file, Vortex |\n";
    out += "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n";
    for folder in FOLDERS {
        let within = |line: &&Line| line.file.split('/').next() == Some(folder);
        let sum = |is_file: bool, of: fn(&Line) -> usize| {
            let lines = lines.iter().filter(within).filter(|line| line.is_file() == is_file);
            lines.map(of).sum::<usize>() as f64 / 1e6
        };
        let peers = || FILES.iter().filter(|(name, ..)| name.split('/').next() == Some(folder));
        let _ = writeln!(
            out,
            "| {folder} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            sum(false, |line| line.arrow),
            sum(false, |line| line.packed),
            sum(false, |line| line.packed_all),
            sum(false, |line| line.parquet),
            sum(true, |line| line.packed),
            sum(true, |line| line.packed_all),
            peers().map(|(_, parquet, _)| parquet).sum::<usize>() as f64 / 1e6,
            peers().map(|(_, _, vortex)| vortex).sum::<usize>() as f64 / 1e6,
        );
    }
    out += "\n## Files\n\nBytes of whole files, written as above. None is larger than Vortex writes it but those of text that it compresses with zstd.\n\n";
    out += "| file | default | all | Parquet | Vortex |\n|---|--:|--:|--:|--:|\n";
    for line in lines.iter().filter(|line| line.is_file()) {
        let (_, parquet, vortex) = peer(&line.file);
        let [packed, all, parquet, vortex] =
            [line.packed, line.packed_all, parquet, vortex].map(with_commas);
        let _ = writeln!(out, "| {} | {packed} | {all} | {parquet} | {vortex} |", line.file);
    }
    for folder in FOLDERS {
        let _ = write!(out, "\n## {folder}\n\n");
        out += "| column | type | rows | Arrow | default | all | tree | Parquet | why |\n";
        out += "|---|---|--:|--:|--:|--:|---|--:|---|\n";
        let columns = lines.iter().filter(|line| !line.is_file());
        for line in columns.filter(|line| line.file.split('/').next() == Some(folder)) {
            let name = line.name();
            let name = name[folder.len() + 1..].trim_end_matches(".value");
            let [rows, arrow, packed, packed_all, parquet] =
                [line.rows, line.arrow, line.packed, line.packed_all, line.parquet]
                    .map(with_commas);
            let why = if line.loses() { line.why().unwrap_or("?") } else { "" };
            let (data_type, tree) = (&line.data_type, &line.encoding);
            let _ = writeln!(
                out,
                "| {name} | {data_type} | {rows} | {arrow} | {packed} | {packed_all} | {tree} | {parquet} | {why} |"
            );
        }
    }
    out
}

#[test]
fn no_column_grows_by_more_than_one_percent() {
    let Some(root) = shared_data() else { return };
    let baseline = baseline(&root);
    let found: Vec<Line> =
        shared_files().par_iter().flat_map_iter(|path| lines(path, &baseline)).collect();
    if is_blessed() {
        let text: String = found.iter().map(Line::text).collect();
        std::fs::write(path("ratios.csv"), format!("{HEADER}\n{text}")).unwrap();
        std::fs::write(path("RATIOS.md"), table(&found)).unwrap();
        return;
    }
    let recorded: BTreeMap<String, Line> =
        recorded().into_iter().map(|line| (line.name(), line)).collect();
    let mut grown: Vec<(f64, String)> = Vec::new();
    for line in &found {
        let known = recorded.get(&line.name());
        let sizes = |of: fn(&Line) -> usize| (of(line), known.map_or(0, of));
        for (which, (now, before)) in
            [("default", sizes(|line| line.packed)), ("all", sizes(|line| line.packed_all))]
        {
            if now * 100 > before * 101 {
                let percent = (now as f64 / before as f64 - 1.0) * 100.0;
                let name = line.name();
                grown.push((
                    percent,
                    format!("{name}, {which} encodings: {before} to {now} bytes, {percent:+.1} %"),
                ));
            }
        }
    }
    grown.sort_by(|one, other| other.0.total_cmp(&one.0));
    let worst: Vec<&str> = grown.iter().take(20).map(|(_, text)| text.as_str()).collect();
    assert!(
        grown.is_empty(),
        "{} sizes have grown by more than 1 %, the worst:\n{}\nif that is meant: \
         LANEPACK_BLESS=1 cargo nextest run --test ratios",
        grown.len(),
        worst.join("\n")
    );
}

#[test]
fn the_table_is_that_of_the_recorded_sizes() {
    if is_blessed() {
        report("it is being written");
        return;
    }
    let found = std::fs::read_to_string(path("RATIOS.md")).unwrap();
    assert!(
        found == table(&recorded()),
        "docs/RATIOS.md is not of docs/ratios.csv: LANEPACK_BLESS=1 cargo nextest run --test ratios"
    );
}

#[test]
fn every_column_that_loses_to_parquet_has_a_reason() {
    if is_blessed() {
        report("sizes are being written");
        return;
    }
    let lines = recorded();
    let columns: Vec<&Line> = lines.iter().filter(|line| !line.is_file()).collect();
    let silent: Vec<String> = (columns.iter())
        .filter(|line| line.loses() && line.why().is_none())
        .map(|line| line.name())
        .collect();
    assert!(
        silent.is_empty(),
        "over 3 % larger than Parquet's, and REASONS do not say why: {silent:?}"
    );
    let needless: Vec<&str> = (REASONS.iter())
        .filter(|(name, _)| {
            let column = columns.iter().find(|line| line.name() == *name);
            !column.is_some_and(|line| line.loses() && line.packed_all >= SMALL)
        })
        .map(|(name, _)| *name)
        .collect();
    assert!(needless.is_empty(), "REASONS for columns that need none: {needless:?}");
    assert!(REASONS.iter().all(|(_, why)| WHYS.iter().any(|(known, _)| known == why)));
}

/// Files that are larger than Vortex's, all of natural text.
const LARGER_THAN_VORTEX: [&str; 1] = ["strings/wikipedia"];

#[test]
fn files_are_no_larger_than_those_of_vortex() {
    if is_blessed() {
        report("sizes are being written");
        return;
    }
    let larger = |line: &Line| line.packed > peer(&line.file).2;
    let files = recorded();
    let larger: Vec<&str> = (files.iter())
        .filter(|line| line.is_file() && larger(line))
        .map(|line| line.file.as_str())
        .collect();
    assert_eq!(larger, LARGER_THAN_VORTEX);
}

#[test]
fn small_is_never_larger_than_balanced() {
    if is_blessed() {
        report("sizes are being written");
        return;
    }
    let grown = |line: &Line| line.packed_all > line.packed;
    let grown: Vec<String> = recorded().iter().filter(|line| grown(line)).map(Line::name).collect();
    assert_eq!(grown, [""; 0]);
}
