//! Many files as one.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch, UInt64Array, new_null_array, record_batch};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use lanepack::file::{Dataset, File, Writer};
use lanepack::scan::{Scan, col, count_distinct, count_rows, max, sum};
use lanepack::{Engine, Error, compress};

use crate::{facts, file_of, open, options};

const NAMES: [&str; 4] = ["day", "shop", "price", "name"];

/// The facts in three files, in another order of columns in the second.
fn parts() -> Vec<File> {
    let batch = facts();
    let other = batch.project(&[3, 0, 2, 1]).unwrap();
    [batch.slice(0, 3000), other.slice(3000, 2500), batch.slice(5500, 3500)]
        .map(|part| open(&file_of(&[part], &options())).unwrap())
        .into()
}

#[test]
fn files_are_scanned_as_one() {
    let (batch, cpu) = (facts(), Engine::cpu());
    let dataset = Dataset::try_new(parts()).unwrap();
    assert_eq!((dataset.num_rows(), dataset.num_chunks(), dataset.files().len()), (9000, 10, 3));
    assert_eq!(dataset.schema(), &batch.schema());
    let packed = compress(&batch, &options()).unwrap();
    let aggregates =
        [count_rows(), sum(col("shop")), max(col("price")), count_distinct(col("name"))];
    for window in [u64::MAX, 1] {
        let dataset = dataset.clone().with_window_bytes(window);
        let filters = [None, Some(col("day").between(280, 320)), Some(col("day").gt(5000))];
        for filter in filters {
            let [expected, found] =
                [Scan::new(&packed), dataset.scan()].map(|scan| match &filter {
                    None => scan,
                    Some(filter) => scan.filter(filter.clone()),
                });
            assert_eq!(found.mask(&cpu).unwrap(), expected.mask(&cpu).unwrap());
            let both = |give: &dyn Fn(&Scan<'_>) -> RecordBatch| {
                assert_eq!(give(&found), give(&expected), "{filter:?}");
            };
            both(&|scan| scan.gather(&NAMES, &cpu).unwrap());
            both(&|scan| scan.aggregate(&aggregates, &cpu).unwrap());
            both(&|scan| {
                scan.clone().group_by([col("shop")]).aggregate(&aggregates, &cpu).unwrap()
            });
        }
    }
    let rows = vec![8999, 3000, 2999, 5500, 0, 3000];
    let expected = take_record_batch(&batch, &UInt64Array::from(rows.clone())).unwrap();
    assert_eq!(dataset.take(&rows, &cpu).unwrap(), expected);
    let expected = expected.project(&[3]).unwrap();
    assert_eq!(dataset.take_columns(&rows, &["name"], &cpu).unwrap(), expected);
    let chunks: Vec<RecordBatch> =
        (0..10).map(|chunk| dataset.chunk(chunk, &cpu).unwrap()).collect();
    assert_eq!(concat_batches(&batch.schema(), &chunks).unwrap(), batch);
    let columns = dataset.columns(&["name", "day"]).unwrap();
    assert_eq!(columns[0].decompress().unwrap().as_ref(), batch.column(3).as_ref());
    assert_eq!(columns[1].decompress().unwrap().as_ref(), batch.column(0).as_ref());
    let statistics = dataset.statistics("day").unwrap();
    assert_eq!(statistics.rows.values()[2..5], [952, 1024, 1024]);
    assert_eq!((statistics.min.len(), statistics.bytes.len()), (10, 10));
}

#[test]
fn what_differs_is_told_of_all_files() {
    let same = || parts().remove(0).with_name("a");
    let other = record_batch!(
        ("day", Int64, [1]),
        ("shop", Int64, [1]),
        ("price", Float64, [1.0]),
        ("town", Utf8, ["x"])
    );
    let other = open(&file_of(&[other.unwrap()], &options())).unwrap().with_name("b");
    let error = Dataset::try_new(vec![same(), other]).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }));
    let message = error.to_string();
    for part in [
        "file \"b\" has Int64 in column \"day\", not Int32",
        "file \"b\" has no column \"name\"",
        "file \"b\" has a column \"town\" more",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(Dataset::try_new(Vec::new()).is_err());
    let field = |name: &str| Field::new(name, DataType::Int32, false);
    let twice = Schema::new(vec![field("x"), field("x")]);
    let numbers = || Arc::new(arrow_array::Int32Array::from(vec![1])) as arrow_array::ArrayRef;
    let twice = RecordBatch::try_new(Arc::new(twice), vec![numbers(), numbers()]).unwrap();
    let twice = open(&file_of(&[twice], &options())).unwrap();
    let error = Dataset::try_new(vec![twice]).unwrap_err();
    assert!(error.to_string().contains("two columns \"x\""), "{error}");
    // May have nulls if it may in some file.
    let sure = RecordBatch::try_new(
        Arc::new(Schema::new(vec![Field::new("day", DataType::Int32, false)])),
        vec![facts().column(0).clone()],
    );
    let sure = open(&file_of(&[sure.unwrap()], &options())).unwrap();
    let unsure = open(&file_of(&[facts().project(&[0]).unwrap()], &options())).unwrap();
    for files in [[sure.clone(), unsure.clone()], [unsure, sure]] {
        let dataset = Dataset::try_new(files.into()).unwrap();
        assert!(dataset.schema().field(0).is_nullable());
        assert_eq!(dataset.take(&[9000, 3], &Engine::cpu()).unwrap().num_rows(), 2);
    }
    // Nulls where there may be none.
    let sure = Schema::new(vec![Field::new("day", DataType::Int32, false)]);
    let error = Dataset::try_new_with_schema(vec![same()], &sure).unwrap_err();
    assert!(error.to_string().contains("may have nulls in column \"day\""), "{error}");
}

#[test]
fn columns_that_a_file_lacks_are_null_on_request() {
    let (batch, cpu) = (facts(), Engine::cpu());
    let first = open(&file_of(&[batch.project(&[0, 1]).unwrap().slice(0, 3000)], &options()));
    let second = open(&file_of(&[batch.slice(3000, 3000)], &options()));
    let struct_type = DataType::Struct(vec![Field::new("x", DataType::Utf8View, true)].into());
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("day", DataType::Int32, true),
        Field::new("price", DataType::Float64, true),
        Field::new("extra", struct_type.clone(), true),
    ]);
    let files = vec![first.unwrap(), second.unwrap()];
    let error = Dataset::try_new(files.clone()).unwrap_err();
    assert!(error.to_string().contains("has a column \"price\" more"), "{error}");
    let dataset = Dataset::try_new_with_schema(files, &schema).unwrap();
    let nulls = |data_type: &DataType| new_null_array(data_type, 3000);
    let head = vec![
        nulls(&DataType::Utf8),
        batch.column(0).slice(0, 3000),
        nulls(&DataType::Float64),
        nulls(&struct_type),
    ];
    let tail = vec![
        batch.column(3).slice(3000, 3000),
        batch.column(0).slice(3000, 3000),
        batch.column(2).slice(3000, 3000),
        nulls(&struct_type),
    ];
    let schema = Arc::new(schema);
    let [head, tail] =
        [head, tail].map(|columns| RecordBatch::try_new(schema.clone(), columns).unwrap());
    let expected = concat_batches(&schema, [&head, &tail]).unwrap();
    let all = ["name", "day", "price", "extra"];
    assert_eq!(dataset.scan().gather(&all, &cpu).unwrap(), expected);
    let scan = dataset.scan().filter(col("price").is_null());
    let prices = expected.column(2).null_count();
    assert_eq!(scan.count(&cpu).unwrap(), prices);
    let scan = dataset.scan().filter(col("name").is_not_null());
    assert_eq!(scan.count(&cpu).unwrap(), 3000);
    assert_eq!(dataset.statistics("name").unwrap().null_counts.values()[..3], [1024, 1024, 952]);
    // Of every type.
    let every = crate::every_type(10);
    let fields = every.schema().fields().clone();
    let all: Vec<&String> = fields.iter().map(|field| field.name()).collect();
    let files = vec![open(&file_of(&[batch.slice(0, 1500)], &options())).unwrap()];
    let of_every_type = Dataset::try_new_with_schema(files, &every.schema()).unwrap();
    for _ in 0..2 {
        let nulls = of_every_type.scan().gather(&all, &cpu).unwrap();
        for (array, field) in nulls.columns().iter().zip(&fields) {
            assert_eq!(array.as_ref(), new_null_array(field.data_type(), 1500).as_ref());
        }
    }
    // A column that must not be null.
    let mut fields: Vec<Field> =
        schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    fields[2] = Field::new("price", DataType::Float64, false);
    let files = dataset.files().cloned().collect();
    let error = Dataset::try_new_with_schema(files, &Schema::new(fields)).unwrap_err();
    assert!(error.to_string().contains("has no column \"price\""), "{error}");
}

#[test]
fn files_are_found_by_a_pattern_and_errors_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let batch = facts();
    for (part, rows) in [("2026/b", 3000..9000), ("2025/a", 0..3000)] {
        let path = folder.path().join(part).with_extension("lanepack");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let rows = batch.slice(rows.start, rows.len());
        std::fs::write(path, file_of(&[rows], &options())).unwrap();
    }
    std::fs::write(folder.path().join("2025/notes.txt"), "none").unwrap();
    let pattern = |end: &str| format!("{}/{end}", folder.path().display());
    let dataset = Dataset::glob(&pattern("**/*.lanepack")).unwrap();
    let cpu = Engine::cpu();
    assert_eq!(dataset.scan().gather(&NAMES, &cpu).unwrap(), batch);
    assert!(dataset.files().next().unwrap().name().unwrap().ends_with("2025/a.lanepack"));
    // Not files that are being written, and not folders.
    let mut writer =
        Writer::create(pattern("2025/c.lanepack"), &batch.schema(), options()).unwrap();
    writer.write(&batch).unwrap();
    std::fs::create_dir(folder.path().join("2025/d.lanepack")).unwrap();
    for all in ["2025/*lanepack*", "2025/[a-d].lanepack", "2025/*.part*"] {
        let found = Dataset::glob(&pattern(all));
        assert_eq!(
            found.map_or(0, |found| found.num_rows()),
            if all.contains("part") { 0 } else { 3000 }
        );
    }
    drop(writer);
    let error = Dataset::glob(&pattern("*.lanepack")).unwrap_err();
    assert!(error.to_string().contains("no file matches"), "{error}");
    assert!(matches!(Dataset::glob("a***b"), Err(Error::Mismatch { .. })));
    let error = Dataset::glob(&pattern("2025/*")).unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error}");
    let missing = [pattern("2025/a.lanepack"), pattern("2025/missing")];
    let error = Dataset::open(&missing).unwrap_err();
    assert!(error.to_string().contains("2025/missing"), "{error}");

    // Damage in a file that is open: the error names it, and the chunk within.
    let path = folder.path().join("2026/b.lanepack");
    let bytes = std::fs::read(&path).unwrap();
    let whole = File::open(&path).unwrap();
    let names = whole.columns(&["name"]).unwrap();
    let body = names[0].chunks()[2].body().as_slice();
    let at = bytes.windows(body.len()).position(|window| window == body).unwrap();
    let mut damaged = bytes.clone();
    damaged[at + body.len() / 2] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let found = Dataset::glob(&pattern("**/*.lanepack")).unwrap();
    for error in [
        found.scan().filter(col("name").eq("item 7")).count(&cpu).unwrap_err(),
        found.columns(&["name"]).unwrap_err(),
        found.chunk(5, &cpu).unwrap_err(),
        found.take(&[3000 + 2048], &cpu).unwrap_err(),
    ] {
        let place = error.place().unwrap();
        assert!(place.file.as_deref().unwrap().ends_with("2026/b.lanepack"), "{error}");
        assert_eq!((place.column.as_deref(), place.chunk), (Some("name"), Some(2)), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn many_files_do_not_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let batch = record_batch!(("id", Int64, [1, 2, 3, 4])).unwrap();
    let bytes = file_of(std::slice::from_ref(&batch), &options());
    let paths: Vec<_> = (0..257).map(|n| folder.path().join(format!("{n:03}.lanepack"))).collect();
    paths.iter().for_each(|path| std::fs::write(path, &bytes).unwrap());
    let open_files = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let files = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
        files.filter(|file| file.starts_with(folder.path())).count()
    };
    let few = Dataset::open(&paths[..256]).unwrap();
    assert_eq!(open_files(), 256);
    drop(few);
    let all = Dataset::open(&paths).unwrap();
    assert_eq!(open_files(), 0);
    let total = |all: &Dataset| all.scan().aggregate(&[sum(col("id"))], &Engine::cpu());
    let expected = record_batch!(("sum(id)", Int64, [2570])).unwrap();
    assert_eq!(total(&all).unwrap().columns(), expected.columns());
    // Another file of the same bytes in its place, and none.
    for replace in [true, false] {
        std::fs::remove_file(&paths[7]).unwrap();
        if replace {
            std::fs::write(&paths[7], &bytes).unwrap();
        }
        let error = total(&all).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(error.place().unwrap().file.as_deref(), paths[7].to_str());
    }
}
