//! Columns that are decoded for scans, a stage of chunks at a time: what comes of them is what the
//! CPU finds, damage is named by its chunk of the column, and nothing stays in device memory.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, Schema};
use lanepack::scan::{Expr, Literal, Scan, avg, col, count, count_rows, lit, max, min, sum};
use lanepack::{Encoding, Engine, Options, compress_array};

use super::common::image::Image;
use super::lz::repeated;
use super::{assert_same, batch_of, engines, thinned};

fn only(encodings: &[Encoding]) -> Options {
    Options::default().with_encodings(encodings.iter().copied())
}

/// Words, floats and blobs that become lz, paths that become front coding, and two columns that
/// kernels read as they are stored.
pub fn columns(first: usize, rows: usize) -> Vec<(&'static str, ArrayRef, Options)> {
    let all = || first..first + rows;
    let words = repeated(first + rows);
    let word = |row: usize| words[row] as i64;
    let nulls = || Some(NullBuffer::from_iter(all().map(|row| row % 11 != 5)));
    let path = |row: usize| format!("/usr/share/{:05}/name", row / 3);
    let lz = only(&[Encoding::Lz, Encoding::Ffor]);
    let front = only(&[Encoding::Front, Encoding::Fsst, Encoding::Ffor, Encoding::Pfor]);
    let blob = |row: usize| format!("{}{}", "blob of many bytes ".repeat(row % 9), row % 500);
    vec![
        ("word", Arc::new(Int64Array::new(all().map(word).collect(), nulls())), lz.clone()),
        (
            "float",
            Arc::new(Float64Array::from_iter_values(all().map(|row| word(row) as f64 / 3e9))),
            lz.clone(),
        ),
        (
            "blob",
            Arc::new(BinaryArray::from_iter_values(all().map(|row| blob(row).into_bytes()))),
            only(&[Encoding::Lz]),
        ),
        ("path", Arc::new(StringArray::from_iter_values(all().map(path))), front),
        (
            "small",
            Arc::new(Int32Array::new(all().map(|row| row as i32 % 100).collect(), nulls())),
            Options::default(),
        ),
        (
            "name",
            Arc::new(StringArray::from_iter_values(all().map(|row| format!("{}", row % 77)))),
            Options::default(),
        ),
    ]
}

/// The columns of some rows, packed in chunks of so many.
pub fn packed(first: usize, rows: usize, chunk_rows: usize) -> RecordBatch {
    let column = |(name, array, options): (&str, ArrayRef, Options)| {
        let column = compress_array(&array, &options.with_chunk_rows(chunk_rows)).unwrap();
        let expected = match name {
            "word" | "float" | "blob" => "lz",
            "path" => "front",
            _ => "",
        };
        let expected = if rows > 1000 { expected } else { "" };
        assert!(column.encoding().to_string().contains(expected), "{}", column.explain());
        let (field, storage) = column.to_arrow(name);
        (field, Arc::new(storage) as ArrayRef)
    };
    let (fields, storages): (Vec<Field>, Vec<ArrayRef>) =
        columns(first, rows).into_iter().map(column).unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), storages).unwrap()
}

fn filters() -> Vec<Expr> {
    vec![
        col("word").gt(1_i64 << 60),
        col("word").is_null(),
        !col("word").eq(0_i64),
        col("blob").eq(&b"blob of many bytes 1"[..]),
        col("path").like("%/share/0%9/%"),
        col("small").lt(50).and(col("path").gt("/usr/share/00100")),
        (col("word") + col("small")).gt_eq(col("word") * lit(2_i64)),
        col("float").lt(9000.0).or(col("name").eq("7").and(col("blob").is_not_null())),
        col("name").eq("13"),
    ]
}

#[test]
fn stages_give_what_the_cpu_gives() {
    let whole = packed(0, 9000, 3072);
    let parts: Vec<RecordBatch> = [(0, 1100), (1100, 5), (1105, 6000), (7105, 3001)]
        .map(|(at, n)| packed(at, n, 2048))
        .into();
    let joined = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
    for engine in engines() {
        for (number, packed) in [&whole, &joined].into_iter().enumerate() {
            let on_device = engine.upload(packed).unwrap();
            for (index, filter) in filters().into_iter().enumerate() {
                // A kernel for each filter takes long to compile.
                if thinned(&engine, number + index, 2) {
                    continue;
                }
                let cpu = Scan::new(packed).filter(filter.clone());
                let scan = Scan::on_device(&on_device).filter(filter.clone());
                let expected = cpu.mask(&Engine::cpu()).unwrap();
                assert!(scan.mask(&engine).unwrap() == expected, "{filter}");
                let names = ["word", "blob", "path", "small", "name"];
                let kept = cpu.gather(&names, &Engine::cpu()).unwrap();
                let found = scan.gather(&names, &engine).unwrap();
                for (index, name) in names.iter().enumerate() {
                    let what = || format!("{name} where {filter}");
                    assert_same(found.column(index), kept.column(index), what);
                }
                let aggregates = [
                    count_rows(),
                    count(col("word")),
                    sum(col("small")),
                    min(col("word")),
                    max(col("float")),
                    // In the CPU's order, over all stages.
                    sum(col("float") * lit(0.1)),
                    avg(col("small")),
                    max(col("path")),
                    min(col("name")),
                ];
                let expected = cpu.aggregate(&aggregates, &Engine::cpu()).unwrap();
                let found = scan.aggregate(&aggregates, &engine).unwrap();
                assert_eq!(found, expected, "{filter}");
                // By kernels, stage by stage, and by the CPU.
                for key in ["small", "name"] {
                    let groups = |scan: &Scan<'_>, engine: &Engine| {
                        let groups = scan.clone().group_by([col(key)]);
                        groups.aggregate(&aggregates[..6], engine).unwrap()
                    };
                    let expected = groups(&cpu, &Engine::cpu());
                    assert_eq!(groups(&scan, &engine), expected, "{filter} by {key}");
                }
            }
        }
    }
}

/// Damage behind the first stage.
#[test]
fn damage_is_named_by_its_chunk_of_the_column() {
    let array: ArrayRef = Arc::new(UInt64Array::from(repeated(4096)));
    let sound = Image::of(&array, &only(&[Encoding::Lz, Encoding::Ffor]));
    let mut broken = Image::of(&array, &only(&[Encoding::Lz, Encoding::Ffor]));
    // Flags: more matches than there are.
    broken.change(|tree| tree.buffers[2].fill(255));
    let images = [&sound, &sound, &sound, &broken, &sound];
    let parts: Vec<RecordBatch> =
        images.iter().map(|image| batch_of(image.field.clone(), image.storage())).collect();
    let joined = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
    let filter = || col("price").gt(1_u64 << 63);
    let expected = Scan::new(&joined).filter(filter()).count(&Engine::cpu()).unwrap_err();
    assert!(expected.to_string().starts_with("column \"price\", chunk 3: "), "{expected}");
    for engine in engines() {
        let on_device = engine.upload(&joined).unwrap();
        let scan = Scan::on_device(&on_device).filter(filter());
        let errors = [
            scan.count(&engine).unwrap_err(),
            scan.aggregate(&[sum(col("price"))], &engine).unwrap_err(),
            scan.gather(&["price"], &engine).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.to_string(), expected.to_string());
        }
    }
}

/// Who asks for nulls decodes no values, so that damage of these is no error.
#[test]
fn nulls_of_damaged_values_are_found() {
    let nulls = Some(NullBuffer::from_iter((0..20_000).map(|row| row % 3001 != 7)));
    let blobs = (0..20_000).map(|row| format!("{} {row}", "bytes that come again ".repeat(5)));
    let blobs = BinaryArray::from_iter_values(blobs.map(String::into_bytes));
    let (offsets, bytes, _) = blobs.into_parts();
    let array: ArrayRef = Arc::new(BinaryArray::new(offsets, bytes, nulls));
    let options = only(&[Encoding::Lz, Encoding::Bits, Encoding::Pfor, Encoding::Ffor]);
    let values = || col("price").gt(Literal::Arrow(array.slice(5000, 1)));
    let broken = |buffer: usize| {
        let mut image = Image::of(&array, &options);
        image.change(|tree| tree.buffers[buffer].fill(255));
        batch_of(image.field.clone(), image.storage())
    };
    // A buffer of values.
    let fails = |packed: &RecordBatch, filter| {
        Scan::new(packed).filter(filter).count(&Engine::cpu()).is_err()
    };
    let buffers = Image::of(&array, &options).tree().buffers.len();
    let packed = (0..buffers)
        .map(broken)
        .find(|packed| fails(packed, values()) && !fails(packed, col("price").is_null()));
    let packed = packed.expect("buffers of values");
    let encoding = lanepack::columns(&packed).unwrap()[0].encoding().to_string();
    assert!(encoding.starts_with("lz"), "{encoding}");
    for engine in engines() {
        let on_device = engine.upload(&packed).unwrap();
        let rows = |filter: Expr| Scan::on_device(&on_device).filter(filter).count(&engine);
        rows(values()).unwrap_err();
        for filter in [col("price").is_null(), col("price").is_not_null()] {
            let expected = Scan::new(&packed).filter(filter.clone()).count(&Engine::cpu());
            assert_eq!(rows(filter).unwrap(), expected.unwrap());
        }
        let valid = [count(col("price"))];
        let found = Scan::on_device(&on_device).aggregate(&valid, &engine).unwrap();
        assert_eq!(found, Scan::new(&packed).aggregate(&valid, &Engine::cpu()).unwrap());
    }
}

/// A scan leaves nothing on the device but dictionaries and its own bookkeeping.
#[cfg(lanepack_simt)]
#[test]
fn scans_keep_no_rows_in_memory() {
    const SCRATCH: u64 = 3 << 19;
    const CHUNK_ROWS: usize = 8192;
    let rows = 40 * CHUNK_ROWS;
    let all = |value: &dyn Fn(usize) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..rows).map(value)))
    };
    let fsst = only(&[Encoding::Fsst, Encoding::Ffor, Encoding::Pfor]);
    let dict = |codes| only(&[Encoding::Dict, Encoding::Fsst, Encoding::Ffor, codes]);
    let cases: [(&str, ArrayRef, Options, Expr); 6] = [
        (
            "lz",
            Arc::new(UInt64Array::from(repeated(rows))),
            only(&[Encoding::Lz, Encoding::Ffor]),
            col("x").gt(1_u64 << 63),
        ),
        (
            "lz",
            Arc::new(BinaryArray::from_iter_values((0..rows).map(|row| {
                format!("{} {}", "some bytes that come again ".repeat(4), row / 100).into_bytes()
            }))),
            only(&[Encoding::Lz]),
            col("x").gt(&b"some bytes that come again some c"[..]),
        ),
        (
            "front",
            all(&|row| format!("/usr/share/{:06}/{}", row / 2, "name".repeat(8))),
            only(&[Encoding::Front, Encoding::Fsst, Encoding::Ffor]),
            col("x").like("%9/%"),
        ),
        (
            "pfor",
            all(&|row| "word ".repeat(if row % 100 == 7 { 30 } else { row % 3 })),
            fsst,
            col("x").eq("word word "),
        ),
        (
            "dict(rle",
            all(&|row| format!("value {}", row / 40 % 90)),
            dict(Encoding::Rle),
            col("x").eq("value 13"),
        ),
        (
            "dict(pfor",
            all(&|row| format!("value {}", if row % 50 == 7 { row / 50 % 90 } else { 1 })),
            dict(Encoding::Pfor),
            col("x").like("%1%"),
        ),
    ];
    for (encoding, array, options, filter) in cases {
        let column = compress_array(&array, &options.with_chunk_rows(CHUNK_ROWS)).unwrap();
        assert!(
            column.encoding().to_string().contains(encoding),
            "{encoding}: {}",
            column.explain()
        );
        let (field, storage) = column.to_arrow("x");
        let packed = batch_of(field, storage);
        let bodies: usize = column.chunks().iter().map(|chunk| chunk.body().len()).sum();
        let memory = (bodies + rows / 8 * 2) as u64 + SCRATCH;
        // Lengths that were decoded would take as much.
        assert!(rows as u64 * 4 > SCRATCH / 2 && array.get_buffer_memory_size() as u64 > SCRATCH);
        let engine = Engine::simt(1, memory);
        let on_device = engine.upload(&packed).unwrap();
        let before = engine.free_memory().unwrap();
        for _ in 0..2 {
            let found = Scan::on_device(&on_device).filter(filter.clone()).count(&engine).unwrap();
            let expected = Scan::new(&packed).filter(filter.clone()).count(&Engine::cpu()).unwrap();
            assert_eq!(found, expected, "{filter}");
        }
        let after = engine.free_memory().unwrap();
        assert!(before - after < 64 << 10, "{encoding}: {} bytes are kept", before - after);
    }
}
