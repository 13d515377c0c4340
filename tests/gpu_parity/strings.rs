//! Filters of strings and of wide decimals keep on a device what they keep on the CPU:
//! every kind of test over every way that strings are stored.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use lanepack::scan::{Expr, Literal, Scan, TextForm, col, count_rows, lit, max};
use lanepack::{Encoding, Engine, Options, compress};

use super::common::image::Image;
use super::common::{Nulls, Rng, Shape, array_of, char_boundary, strings};
use super::{assert_same, batch_of, engines, oracle, thinned};

/// A column `price`, and perhaps others.
fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let field =
        |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

/// Compares the rows that filters keep; how many rows were kept in all.
#[track_caller]
fn check(engine: &Engine, packed: &RecordBatch, filters: &[Expr]) -> usize {
    let on_device = engine.upload(packed).unwrap();
    let mut kept = 0;
    for filter in filters {
        let expected = Scan::new(packed).filter(filter.clone()).mask(&Engine::cpu()).unwrap();
        let scan = Scan::on_device(&on_device).filter(filter.clone());
        let found = scan.mask(engine).unwrap();
        let differs = (0..expected.len()).find(|row| found.value(*row) != expected.value(*row));
        assert_eq!(differs, None, "the first row that differs, {filter} on {:?}", engine.device());
        assert_eq!(scan.count(engine).unwrap(), expected.true_count());
        kept += expected.true_count();
    }
    kept
}

/// A literal for strings of a type.
fn literal(data_type: &DataType, bytes: &[u8]) -> Literal {
    match oracle::is_text(data_type) {
        true => Literal::Text(String::from_utf8_lossy(bytes).into_owned()),
        false => Literal::Binary(bytes.to_vec()),
    }
}

/// Tests of all kinds around some of an array's values.
fn tests_of(array: &ArrayRef, rng: &mut Rng) -> Vec<Expr> {
    let data_type = array.data_type();
    let of = |bytes: &[u8]| literal(data_type, bytes);
    let s = || col("price");
    let mut some = || -> Vec<u8> {
        let row = rng.below(array.len() as u64) as usize;
        oracle::bytes(array, row).unwrap_or_default()
    };
    let (one, two) = (some(), some());
    let list = |count: usize, some: &mut dyn FnMut() -> Vec<u8>| -> Vec<Expr> {
        let fixed = matches!(data_type, DataType::FixedSizeBinary(_));
        let value = |i: usize, some: &mut dyn FnMut() -> Vec<u8>| {
            let mut value = some();
            // Values that no row has.
            if i % 3 == 2 && !fixed {
                value.extend(b"none");
            }
            lit(of(&value))
        };
        (0..count).map(|i| value(i, some)).collect()
    };
    let mut tests = vec![
        s().eq(lit(of(&one))),
        !s().eq(lit(of(&two))),
        s().in_list(list(5, &mut some)),
        !s().in_list(list(40, &mut some)),
        s().lt(lit(of(&one))),
        s().gt_eq(lit(of(&two))),
    ];
    if !matches!(data_type, DataType::FixedSizeBinary(_)) {
        tests.push(s().eq(lit(of(b""))));
        tests.push(s().eq(lit(of(b"nothing has this"))));
    }
    let text = |form, bytes: &[u8]| Expr::Text(Box::new(s()), form, of(bytes));
    let part = |value: &[u8], from: usize, end: usize| {
        let (from, end) = (value.len() * from / 4, value.len() * end / 4);
        // Long ones have too many states.
        let end = end.min(from + 60);
        if oracle::is_text(data_type) {
            let text = std::str::from_utf8(value).unwrap();
            let (from, end) = (char_boundary(text, from), char_boundary(text, end));
            return value[from..end].to_vec();
        }
        value[from..end].to_vec()
    };
    tests.extend([
        text(TextForm::Prefix, &part(&one, 0, 3)),
        text(TextForm::Suffix, &part(&two, 2, 4)),
        text(TextForm::Contains, &part(&one, 1, 2)),
        !text(TextForm::Contains, &part(&two, 2, 3)),
    ]);
    if oracle::is_text(data_type) {
        let plain =
            |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(['%', '_', '\\'], "");
        let pattern = format!("%{}_%{}%", plain(part(&one, 0, 1)), plain(part(&one, 2, 3)));
        tests.push(s().like(pattern));
        tests.push(s().not_like("_%"));
    }
    tests
}

const KINDS: [DataType; 7] = [
    DataType::Utf8,
    DataType::LargeUtf8,
    DataType::Utf8View,
    DataType::Binary,
    DataType::LargeBinary,
    DataType::BinaryView,
    DataType::FixedSizeBinary(5),
];

#[test]
fn strings_of_every_kind_and_encoding() {
    for engine in engines() {
        let mut rng = Rng(21);
        let (mut kept, mut case) = (0, 0);
        for data_type in KINDS {
            for shape in Shape::ALL {
                for (nulls, rows) in [
                    (Nulls::None, 3000),
                    (Nulls::Random, 2100),
                    (Nulls::Vectors, 2500),
                    (Nulls::All, 50),
                ] {
                    for encodings in [Encoding::ON_GPUS, Encoding::ALL, &[Encoding::Plain]] {
                        let array = array_of(&data_type, rows, shape, nulls);
                        let tests = tests_of(&array, &mut rng);
                        case += 1;
                        if thinned(&engine, case, 3) {
                            continue;
                        }
                        let options = Options::default()
                            .with_chunk_rows([1024, 2048, 131_072][case % 3])
                            .with_encodings(encodings.iter().copied());
                        let packed = compress(&batch(&[("price", array)]), &options).unwrap();
                        kept += check(&engine, &packed, &tests);
                    }
                }
            }
        }
        assert!(kept > 10_000, "{kept}");
    }
}

/// Codes of 254 to 257 and more, segments of 1,024 bytes, empty ones in between, escapes.
#[test]
fn strings_of_every_length() {
    let mut rng = Rng(22);
    let value = |row: usize, rng: &mut Rng| -> Vec<u8> {
        let len = match row % 13 {
            0 => 0,
            1 => 250 + rng.below(12),
            2 if row.is_multiple_of(3) => 1000 + rng.below(5000),
            3 => 16 * rng.below(6),
            _ => rng.below(40),
        } as usize;
        // Letters take codes, all else escapes.
        let letters = rng.below(3) > 0;
        let byte = |at: usize, rng: &mut Rng| match letters {
            true => b"the quick brown fox "[at % 20],
            false => rng.next() as u8,
        };
        (0..len).map(|at| byte(at, rng)).collect()
    };
    let values: Vec<Vec<u8>> = (0..3300).map(|row| value(row, &mut rng)).collect();
    let long: Vec<Vec<u8>> = (0..300).map(|row| vec![b'a' + row as u8 % 3; 70 * row]).collect();
    for engine in engines() {
        for (values, nulls) in
            [(&values, Nulls::None), (&values, Nulls::Random), (&long, Nulls::None)]
        {
            let array = strings(&DataType::Binary, values, nulls);
            for encodings in [Encoding::ON_GPUS, Encoding::ALL, &[Encoding::Plain]] {
                let options = Options::default().with_encodings(encodings.iter().copied());
                let packed = compress(&batch(&[("price", array.clone())]), &options).unwrap();
                let mut tests = tests_of(&array, &mut rng);
                for bytes in [&b"fox the"[..], b"k", b"\xff", b"aaaa"] {
                    let bytes = Literal::Binary(bytes.to_vec());
                    tests.push(Expr::Text(
                        Box::new(col("price")),
                        TextForm::Contains,
                        bytes.clone(),
                    ));
                    tests.push(Expr::Text(Box::new(col("price")), TextForm::Suffix, bytes));
                }
                // Each decodes lz again.
                let is_left_out =
                    |case: usize| encodings.contains(&Encoding::Lz) && thinned(&engine, case, 4);
                let tests: Vec<_> = (tests.into_iter().enumerate())
                    .filter(|(case, _)| !is_left_out(*case))
                    .map(|(_, test)| test)
                    .collect();
                assert!(check(&engine, &packed, &tests) > 0);
            }
        }
    }
}

/// Lengths with exceptions, around 255, from which on kernels look up each length by itself.
#[test]
fn lengths_with_exceptions() {
    let mut rng = Rng(23);
    let options =
        Options::default().with_encodings([Encoding::Plain, Encoding::Ffor, Encoding::Pfor]);
    for engine in engines() {
        for base in [0, 3, 253, 254, 255, 256, 700] {
            let len = |row: usize| match row % 61 {
                7 => row * 31 % 2000,
                8 => 255,
                _ => base + row % 2,
            };
            let values = (0..2600).map(|row| vec![b'a' + (row % 5) as u8; len(row)]);
            let array = Arc::new(BinaryArray::from_iter_values(values)) as ArrayRef;
            let packed = compress(&batch(&[("price", array.clone())]), &options).unwrap();
            let encoding = lanepack::columns(&packed).unwrap()[0].encoding().to_string();
            assert_eq!(encoding, "plain(pfor)");
            let tests = tests_of(&array, &mut rng);
            assert!(check(&engine, &packed, &tests) > 0);
            let on_device = engine.upload(&packed).unwrap();
            let filter = || col("price").gt(Literal::Binary(b"b".to_vec()));
            let expected = Scan::new(&packed).filter(filter()).gather(&["price"], &Engine::cpu());
            let found = Scan::on_device(&on_device).filter(filter()).gather(&["price"], &engine);
            let what = || format!("lengths from {base} on");
            assert_same(found.unwrap().column(0), expected.unwrap().column(0), what);
        }
    }
}

/// Automata of more than 256 states, whose rows are words.
#[test]
fn automata_of_many_states() {
    let needle = "needle in a haystack ".repeat(20);
    let value = |row: usize| match row % 4 {
        0 => format!("{row} {needle}{row}"),
        1 => format!("{}{row}", &needle[..needle.len() - 1]),
        2 => needle.replacen("hay", "straw", row / 4 % 2 + 1),
        _ => format!("{row}"),
    };
    let array: ArrayRef = Arc::new(StringArray::from_iter_values((0..2200).map(value)));
    let filters = [
        col("price").contains(needle.as_str()),
        col("price").ends_with(&needle[20..]),
        col("price").not_like(format!("%{needle}_")),
    ];
    for engine in engines() {
        for encoding in [Encoding::Fsst, Encoding::Plain] {
            let options = Options::default().with_encodings([encoding]);
            let packed = compress(&batch(&[("price", array.clone())]), &options).unwrap();
            assert!(check(&engine, &packed, &filters) > 1000);
        }
    }
}

/// Many literals, of equal heads and lengths.
#[test]
fn lists_of_many_literals() {
    let name = |i: u64| {
        format!("customer-of-the-house-{:05}/{}", i * 7 % 5000, "x".repeat(i as usize % 5))
    };
    let array: ArrayRef = Arc::new(StringArray::from_iter_values((0..4000).map(name)));
    for engine in engines() {
        for encoding in [Encoding::Fsst, Encoding::Plain] {
            let options = Options::default().with_encodings([encoding]).with_chunk_rows(2048);
            let packed = compress(&batch(&[("price", array.clone())]), &options).unwrap();
            let list =
                |step: usize| (0..6000).step_by(step).map(|i| lit(name(i))).collect::<Vec<_>>();
            let filters = [
                col("price").in_list(list(1)),
                col("price").in_list(list(3)),
                !col("price").in_list(list(7)),
                col("price").in_list(list(1000)),
            ];
            assert!(check(&engine, &packed, &filters) > 5000);
        }
    }
}

/// Rows that other tests have left, few and many, in runs and alone.
#[test]
fn only_rows_that_are_left_are_looked_at() {
    let mut rng = Rng(23);
    let rows = 5000;
    let text = |rng: &mut Rng| match rng.below(8) {
        0 => String::new(),
        1 => "lorem ipsum dolor sit amet ".repeat(1 + rng.below(30) as usize),
        _ => format!("item {} of {}", rng.below(500), rng.below(9)),
    };
    let texts: Vec<String> = (0..rows).map(|_| text(&mut rng)).collect();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
    let sparse: ArrayRef =
        Arc::new(Int32Array::from_iter_values((0..rows).map(|_| rng.below(1000) as i32)));
    let columns = [("price", texts), ("x", numbers), ("y", sparse)];
    let left = || {
        [
            col("y").lt(1),
            col("y").lt(20),
            col("y").lt(300),
            col("y").lt(990),
            col("x").between(700, 705),
            col("x").between(1000, 2100),
            col("x").in_list([0, 31, 32, 1023, 1024, 4999]),
        ]
    };
    let strings = [
        col("price").contains("tem 1"),
        col("price").not_like("item%"),
        col("price").starts_with("lorem"),
        col("price").lt("item 3"),
        col("price").eq(""),
        col("price").in_list(["item 3 of 4", "item 77 of 1", "lorem ipsum dolor sit amet "]),
        !col("price").eq("item 3 of 4"),
    ];
    for engine in engines() {
        let mut case = 0;
        for encoding in [Encoding::Fsst, Encoding::Plain] {
            let options = Options::default().with_encodings([encoding]).with_chunk_rows(3072);
            let packed = compress(&batch(&columns), &options).unwrap();
            let mut filters = Vec::new();
            for (string, left) in strings.iter().flat_map(|s| left().map(|left| (s.clone(), left)))
            {
                filters.push(string.clone().and(left.clone()));
                // A kernel each: on the emulation not all of them.
                case += 1;
                if !thinned(&engine, case, 6) {
                    filters.push(string.clone().or(left.clone()));
                    filters.push((!string.and(left)).and(col("price").contains("m")));
                }
            }
            assert!(check(&engine, &packed, &filters) > 10_000);
        }
    }
}

/// Batches that were compressed apart have tables of their own, and begin anywhere.
#[test]
fn chunks_have_symbol_tables_of_their_own() {
    let words = ["alpha", "beta", "gamma", "delta", "constant"];
    let part = |index: usize, rows: usize| {
        let value = |row: usize| match index {
            4 => words[4].to_owned(),
            _ => format!("{0} {1} {0}", words[index], words[index].repeat(row % 7)),
        };
        let array: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(value)));
        compress(&batch(&[("price", array)]), &Options::default()).unwrap()
    };
    let parts = [part(0, 1100), part(4, 70), part(1, 3), part(2, 2048), part(3, 1), part(0, 1025)];
    let joined = concat_batches(&parts[0].schema(), &parts).unwrap();
    let filters = [
        col("price").contains("ma gam"),
        col("price").eq("beta  beta"),
        col("price").in_list(["constant", "delta  delta", "alpha alphaalpha alpha"]),
        col("price").gt("b"),
        col("price").starts_with("alpha alphaalpha"),
        !col("price").ends_with("a"),
        // Bounds leave no chunk, or all.
        col("price").gt("z"),
        !col("price").eq("zeta"),
    ];
    for engine in engines() {
        assert!(check(&engine, &joined, &filters) > 3000);
        let rows = Scan::new(&joined).filter(col("price").eq("constant")).rows(&engine).unwrap();
        assert_eq!(rows.values(), (1100..1170).collect::<Vec<u64>>().as_slice());
    }
}

/// Chunks of dictionaries, whose codes are differences or packed, beside chunks of strings: warps take
/// several vectors of the former and one of the latter, and tests of both share memory.
#[test]
fn chunks_of_codes_beside_chunks_of_strings() {
    let mut rng = Rng(27);
    let name = |number: usize| format!("name {:05} of a list", number * 7919 % 100_000);
    let mut column = |starts_with: &str, rows: usize| -> ArrayRef {
        let value = |row: usize| {
            let random = rng.below(1 << 20) as usize;
            let value = match starts_with {
                "dict(delta(" => format!("name {:05} of a list", row / 3),
                "dict(ffor, " => name(random % 40),
                "fsst(" => name(random),
                _ => String::new(),
            };
            (random % 700 != 7 || starts_with == "constant").then_some(value)
        };
        let array: ArrayRef = Arc::new(StringArray::from_iter((0..rows).map(value)));
        let packed = lanepack::compress_array(&array, &Options::default()).unwrap();
        let encoding = packed.encoding().to_string();
        assert!(encoding.starts_with(starts_with), "{encoding} instead of {starts_with}");
        array
    };
    let mut part = |price: &str, other: &str, rows: usize| {
        let columns = [("price", column(price, rows)), ("other", column(other, rows))];
        compress(&batch(&columns), &Options::default()).unwrap()
    };
    let parts = [
        part("dict(delta(", "fsst(", 12_000),
        part("fsst(", "dict(ffor, ", 9000),
        part("dict(ffor, ", "dict(delta(", 10_500),
        part("fsst(", "fsst(", 500),
        part("constant", "constant", 1),
    ];
    let joined = concat_batches(&parts[0].schema(), &parts).unwrap();
    let (s, other) = (|| col("price"), || col("other"));
    // More tests than a warp has memory for.
    let many = (0..60).map(|number| s().like(format!("%{number:02}%7_ of%")));
    let filters = [
        s().eq("name 00007 of a list"),
        !s().eq(name(3)),
        s().in_list([name(1).as_str(), "name 03999 of a list", "", "nothing"]),
        s().starts_with("name 0039"),
        s().lt("name 02"),
        s().like("%1_ of%"),
        !s().ends_with("list"),
        s().like("%1_ of%").and(other().starts_with("name 0")),
        s().eq("name 00007 of a list").or(!s().like("%7%").or(other().is_null())),
        other().lt("name 5").and(s().gt("name 00100").or(other().like("%9 of%"))),
        many.reduce(Expr::or).unwrap(),
    ];
    let expected = |filter: &Expr| {
        let scan = Scan::new(&joined).filter(filter.clone());
        scan.aggregate(&[max(col("price")), count_rows()], &Engine::cpu()).unwrap()
    };
    for engine in engines() {
        assert!(check(&engine, &joined, &filters) > 30_000);
        let on_device = engine.upload(&joined).unwrap();
        for filter in &filters[6..] {
            let scan = Scan::on_device(&on_device).filter(filter.clone());
            let found = scan.aggregate(&[max(col("price")), count_rows()], &engine).unwrap();
            assert_eq!(found, expected(filter), "{filter}");
        }
    }
}

/// What single tests of damaged strings make of them is what they make of them on the CPU,
/// verdicts and errors.
#[test]
fn damaged_strings_are_errors_as_on_the_cpu() {
    let mut images = Vec::new();
    for (shape, nulls) in [
        (Shape::Narrow, Nulls::None),
        (Shape::Outliers, Nulls::Random),
        (Shape::Random, Nulls::None),
    ] {
        for data_type in [DataType::Utf8, DataType::BinaryView] {
            for encoding in [Encoding::Fsst, Encoding::Plain] {
                let array = array_of(&data_type, 1100, shape, nulls);
                let options = Options::default().with_encodings([encoding, Encoding::Ffor]);
                images.push((array.clone(), Image::of(&array, &options)));
            }
        }
    }
    for engine in engines() {
        let mut rng = Rng(24);
        let (mut same, mut errors, mut case) = (0, 0, 0);
        for (array, intact) in &images {
            let filters = tests_of(array, &mut rng);
            for _ in 0..60 {
                let (image, damage) = intact.damaged(&mut rng, 3);
                case += 1;
                if thinned(&engine, case, 3) {
                    continue;
                }
                let packed = batch_of(image.field.clone(), image.storage());
                let Ok(on_device) = engine.upload(&packed) else { continue };
                for filter in &filters {
                    let cpu = Scan::new(&packed).filter(filter.clone()).mask(&Engine::cpu());
                    let found = Scan::on_device(&on_device).filter(filter.clone()).mask(&engine);
                    match (found, cpu) {
                        (Ok(found), Ok(expected)) => {
                            assert!(found == expected, "{filter}: {damage:?}");
                            same += 1;
                        }
                        (Err(error), Err(_)) => {
                            let text = error.to_string();
                            assert!(text.starts_with("column \"price\", chunk 0: "), "{text}");
                            errors += 1;
                        }
                        (found, cpu) => panic!("{filter}: {damage:?}: {found:?}, not {cpu:?}"),
                    }
                }
            }
        }
        println!("{same} as on the CPU, {errors} errors");
        assert!(errors > 50 && same > errors);
        let (array, _) = &images[0];
        let packed = compress(&batch(&[("price", array.clone())]), &Options::default()).unwrap();
        check(&engine, &packed, &tests_of(array, &mut rng));
    }
}

/// Lengths with exceptions, of which some are changed: an error, or other values that add up.
#[test]
fn damaged_lengths_are_what_they_are_on_the_cpu() {
    let length = |row: usize| if row.is_multiple_of(97) { 200 + row % 50 } else { row * 7 % 5 };
    let texts = (0..2100).map(|row| format!("{row:04}").repeat(63)[..length(row)].to_owned());
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    for encoding in [Encoding::Plain, Encoding::Fsst] {
        let options = Options::default().with_encodings([encoding, Encoding::Pfor]);
        let intact = Image::of(&array, &options);
        let encodings = lanepack::compress_array(&array, &options).unwrap().encoding().to_string();
        assert!(encodings.ends_with("pfor)"), "{encodings}");
        let packed = batch_of(intact.field.clone(), intact.storage());
        for engine in engines() {
            let found = engine.upload(&packed).unwrap().decompress().unwrap().remove(0);
            assert_same(&found.to_host().unwrap(), &array, || encodings.clone());
            let mut rng = Rng(97);
            let (mut same, mut errors) = (0, 0);
            for case in 0..150 {
                let mut image = intact.clone();
                image.change(|tree| {
                    // Words, bases and places, and exceptions of the value lengths.
                    let first = tree.buffers.len() - 3;
                    let buffer = &mut tree.buffers[first + 2 * (case % 2)];
                    let at = rng.below(buffer.len() as u64) as usize;
                    buffer[at] ^= 1 << rng.below(8);
                });
                let packed = batch_of(image.field.clone(), image.storage());
                let expected = lanepack::decompress(&packed);
                let Ok(on_device) = engine.upload(&packed) else {
                    assert!(expected.is_err(), "case {case}");
                    continue;
                };
                match (expected, on_device.decompress()) {
                    (Ok(expected), Ok(mut found)) => {
                        same += 1;
                        let found = found.remove(0).to_host().unwrap();
                        assert_same(&found, expected.column(0), || format!("case {case}"));
                    }
                    (Err(expected), Err(error)) => {
                        errors += 1;
                        assert_eq!(error.to_string(), expected.to_string(), "case {case}");
                    }
                    // Lengths of each vector are compared with where the next one starts.
                    (Ok(_), Err(_)) => errors += 1,
                    (Err(error), Ok(_)) => panic!("case {case}: {error}"),
                }
            }
            assert!(errors > 20, "{same} the same, {errors} errors");
        }
    }
}

/// Decimals of one limb and more, plain ones, and all these in one column.
#[test]
fn wide_decimals_of_every_number_of_limbs() {
    let limit = |bits: u32| i256::from_i128(1) << bits as u8;
    let mut rng = Rng(25);
    for data_type in [DataType::Decimal128(38, 4), DataType::Decimal256(76, 10)] {
        let all = if matches!(data_type, DataType::Decimal128(..)) { 127 } else { 252 };
        // Chunks of 1,024 values of so many bits each.
        let bits: Vec<u32> = [7, 40, 62, 64, 65, 90, 126, 150, 190, 200, 252]
            .into_iter()
            .filter(|bits| *bits <= all)
            .collect();
        let value = |bits: u32, rng: &mut Rng| {
            let words = [rng.next(), rng.next(), rng.next(), rng.next()];
            let mut bytes = [0; 32];
            for (bytes, word) in bytes.chunks_mut(8).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            let value = i256::from_le_bytes(bytes).wrapping_rem(limit(bits));
            // Some that differ in their lowest limb only.
            if rng.below(3) == 0 { limit(bits).wrapping_div(i256::from_i128(3)) } else { value }
        };
        let values: Vec<Option<i256>> = (0..bits.len() * 1024 - 100)
            .map(|row| (rng.below(9) > 0).then(|| value(bits[row / 1024], &mut rng)))
            .collect();
        let array: ArrayRef = match &data_type {
            DataType::Decimal128(..) => Arc::new(
                Decimal128Array::from_iter(
                    values.iter().map(|value| value.map(|value| value.as_i128())),
                )
                .with_data_type(data_type.clone()),
            ),
            _ => Arc::new(Decimal256Array::from_iter(values).with_data_type(data_type.clone())),
        };
        let scalar = |rng: &mut Rng| loop {
            let row = rng.below(array.len() as u64) as usize;
            if array.is_valid(row) {
                return lit(Literal::Arrow(array.slice(row, 1)));
            }
        };
        for engine in engines() {
            for encodings in
                [Encoding::ON_GPUS, Encoding::ALL, &[Encoding::Plain], &[Encoding::Limbs]]
            {
                let options = Options::default()
                    .with_chunk_rows(1024)
                    .with_encodings(encodings.iter().copied());
                let packed = compress(&batch(&[("price", array.clone())]), &options).unwrap();
                let mut filters = Vec::new();
                for _ in 0..12 {
                    let list: Vec<Expr> = (0..20).map(|_| scalar(&mut rng)).collect();
                    filters.extend([
                        col("price").lt(scalar(&mut rng)),
                        col("price").gt_eq(scalar(&mut rng)),
                        !col("price").eq(scalar(&mut rng)),
                        col("price").between(scalar(&mut rng), scalar(&mut rng)),
                        col("price").in_list(list),
                    ]);
                }
                assert!(check(&engine, &packed, &filters) > 10_000);
            }
        }
    }
}
