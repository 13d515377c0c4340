//! Damaged chunks: whatever the CPU refuses a device refuses, what a device
//! accepts equals what the CPU makes of it, nobody leaves a buffer (the emulation
//! runs under AddressSanitizer), and the device works on afterwards.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use lanepack::scan::{Scan, col, count, max, min};
use lanepack::{Encoding, Engine, Error, Lz, Options};

use super::common::bad::{Found, bad_input, great_quotients};
use super::common::image::{Image, images};
use super::common::{Nulls, Rng, Shape, array_of};
use super::{assert_same, batch_of, check, engines, thinned};

/// Reads a damaged image on both; whether it was an error on the device.
fn compare(engine: &Engine, image: &Image, damage: impl Fn() -> String) -> bool {
    let packed = batch_of(image.field.clone(), image.storage());
    let cpu = lanepack::decompress(&packed);
    match (engine.decompress(&packed), cpu) {
        (Ok(found), Ok(expected)) => {
            assert_same(found.column(0), expected.column(0), damage);
            false
        }
        (Ok(_), Err(error)) => panic!("{}: only the CPU says: {error}", damage()),
        (Err(error), _) => {
            let text = error.to_string();
            assert!(text.starts_with("column \"price\""), "{}: {text}", damage());
            true
        }
    }
}

/// The device still decompresses what is whole.
fn still_works(engine: &Engine) {
    for data_type in [arrow_schema::DataType::Utf8, arrow_schema::DataType::Float64] {
        let array = array_of(&data_type, 1500, Shape::Outliers, Nulls::Random);
        check(engine, &array, &Options::default());
    }
}

#[test]
fn random_damage_to_bodies() {
    for engine in engines() {
        let mut rng = Rng(2);
        let (mut reads, mut errors, mut case) = (0, 0, 0);
        for (name, intact) in images(1100) {
            if intact.body.is_empty() {
                continue;
            }
            for _ in 0..60 {
                let mut image = intact.clone();
                let mut damage = Vec::new();
                for _ in 0..1 + rng.below(4) {
                    let at = rng.below(image.body.len() as u64) as usize;
                    let new = [0, 0xff, 0x80, rng.next() as u8, image.body[at] ^ 1]
                        [rng.below(5) as usize];
                    image.body[at] = new;
                    damage.push((at, new));
                }
                image.seal();
                case += 1;
                if !thinned(&engine, case, 6) {
                    reads += 1;
                    errors +=
                        usize::from(compare(&engine, &image, || format!("{name}: {damage:?}")));
                }
            }
        }
        println!("{reads} reads, {errors} of them errors");
        assert!(errors > 0 && errors < reads);
        still_works(&engine);
    }
}

#[test]
fn every_byte_of_parameters_and_tables() {
    for engine in engines() {
        let mut case = 0;
        for (name, image) in images(1100) {
            let buffers = image.tree().buffers;
            let small = buffers.iter().enumerate().filter(|(_, bytes)| bytes.len() <= 200);
            for (buffer, bytes) in small {
                for (at, old) in bytes.iter().enumerate() {
                    for new in [0, 0x7f, 0xff, old ^ 1] {
                        case += 1;
                        if thinned(&engine, case, 23) {
                            continue;
                        }
                        let mut image = image.clone();
                        image.change(|tree| tree.buffers[buffer][at] = new);
                        compare(&engine, &image, || {
                            format!("{name}: buffer {buffer} byte {at} is {new}")
                        });
                    }
                }
            }
        }
        still_works(&engine);
    }
}

/// The strings of a chunk whose codes, tiles or lengths say other things than
/// each other, rule by rule.
#[test]
fn strings_that_contradict_themselves_are_errors() {
    use arrow_schema::DataType;
    let array = array_of(&DataType::Utf8, 1100, Shape::Narrow, Nulls::None);
    let fsst = Image::with(&array, Encoding::Fsst);
    assert_eq!(fsst.tree().nodes[0].encoding, Encoding::Fsst as u8);
    let with = |change: &dyn Fn(&mut super::common::image::Tree)| {
        let mut image = fsst.clone();
        image.change(|tree| change(tree));
        image
    };
    let symbols = fsst.tree().buffers[0][..8].iter().map(|count| *count as usize).sum::<usize>();
    assert!(symbols < 255);
    let cases = [
        ("a code without a symbol", with(&|tree| tree.buffers[1][100] = symbols as u8)),
        ("an escape at the end", with(&|tree| *tree.buffers[1].last_mut().unwrap() = 255)),
        ("an escape in place of a code", with(&|tree| tree.buffers[1][300] = 255)),
        // The second tile's offset, behind the head and the first tile's.
        ("a tile one byte later", with(&|tree| tree.buffers[3][10] ^= 1)),
        ("a tile inside an escape", with(&|tree| tree.buffers[3][6] ^= 2)),
        (
            "a longer value",
            with(&|tree| {
                // The value lengths are the last node, the first of its buffers holds them.
                let buffers = usize::from(tree.nodes[2].buffers);
                let lengths = tree.buffers.len() - buffers;
                tree.buffers[lengths][0] ^= 1;
            }),
        ),
    ];
    for engine in engines() {
        for (what, image) in &cases {
            let packed = batch_of(image.field.clone(), image.storage());
            match engine.decompress(&packed) {
                Ok(_) => panic!("{what}: read without an error"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("corrupt") && text.contains("chunk 0"), "{what}: {text}");
                }
            }
        }
        still_works(&engine);
    }
}

/// The fault of the first damaged chunk is reported, whichever is found first, and however large
/// others are.
#[test]
fn the_first_damaged_chunk_is_named() {
    use arrow_schema::DataType;
    let cases = [
        (DataType::Utf8, Encoding::Fsst, 1),
        // Flags: more matches than there are.
        (DataType::Binary, Encoding::Lz, 2),
    ];
    for (data_type, encoding, buffer) in cases {
        let of = |rows| {
            let array = array_of(&data_type, rows, Shape::Narrow, Nulls::None);
            // Short segments, so that chunks have several.
            let lz = Lz { segment_symbols: Some(256), ..Lz::default() };
            let options = Options::default().with_encodings([encoding]).with_lz(lz);
            let image = Image::of(&array, &options);
            assert_eq!(image.tree().nodes[0].encoding, encoding as u8);
            image
        };
        let broken = |rows| {
            let mut image: Image = of(rows);
            image.change(|tree| tree.buffers[buffer].fill(255));
            image
        };
        let images = [of(1100), of(1500), broken(1100), of(1100), broken(1600)];
        let parts: Vec<RecordBatch> =
            images.iter().map(|image| batch_of(image.field.clone(), image.storage())).collect();
        let joined = arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
        for engine in engines() {
            // All chunks at once.
            let uploaded = engine.upload(&joined).unwrap();
            for _ in 0..5 {
                let errors = [engine.decompress(&joined).err(), uploaded.decompress().err()];
                for error in errors.map(|error| error.unwrap().to_string()) {
                    assert!(error.starts_with("column \"price\", chunk 2: "), "{error}");
                }
            }
        }
    }
}

/// Leads of every kind with second bytes around every limit, whole, cut short and
/// too long, at every place of a word.
#[test]
fn text_is_judged_as_the_cpu_judges_it() {
    let text: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["a".repeat(40)]));
    let intact = Image::with(&text, Encoding::Plain);
    assert_eq!(intact.tree().buffers[0].len(), 40);
    for engine in engines() {
        let (mut case, mut errors, mut valid) = (0, 0, 0);
        for lead in 0x7f..=0xff_u8 {
            for second in [0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0] {
                for tail in 0..=3 {
                    case += 1;
                    let at = case % 37;
                    let mut image = intact.clone();
                    image.change(|tree| {
                        let bytes = [lead, second, 0x80, 0x80, 0x80];
                        let end = (at + 2 + tail).min(40);
                        tree.buffers[0][at..end].copy_from_slice(&bytes[..end - at]);
                    });
                    if compare(&engine, &image, || format!("{lead:x} {second:x} {tail} at {at}")) {
                        errors += 1;
                    } else {
                        valid += 1;
                    }
                }
            }
        }
        assert!(errors > 1000 && valid > 100, "{errors} errors, {valid} valid");
    }
}

/// Text of stretches of one alphabet each, so that some are ASCII alone.
fn stretches(rng: &mut Rng, bytes: usize) -> String {
    let alphabets = [
        "etaoin shrdlu",
        "the quick brown fox jumps over the lazy dog, the five boxing wizards too: 漢é😀",
        "éßñçаяю",
        "漢字仮名交",
        "กขคงจ",
        "퐀힣한글",
        "😀𝄞\u{10fff0}",
    ];
    let mut text = String::new();
    while text.len() < bytes {
        let alphabet: Vec<char> = alphabets[rng.below(7) as usize].chars().collect();
        for _ in 0..1 + rng.below(1000) {
            text.push(alphabet[rng.below(alphabet.len() as u64) as usize]);
        }
    }
    text
}

/// FSST codes of many warps, whose bytes or rows are no text at some place: kernels check them
/// piece by piece.
#[test]
fn text_of_codes_is_judged_as_the_cpu_judges_it() {
    const WARP_CODES: usize = 2048;
    let of_text: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["text"; 40]));
    let of_text = Image::of(&of_text, &Options::default());
    let mut rng = Rng(3);
    for engine in engines() {
        let (mut errors, mut valid) = (0, 0);
        for case in 0..1000 {
            let mut bytes = stretches(&mut rng, 20_000).into_bytes();
            if case % 4 == 1 {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = [0x41, 0x80, 0xbf, 0xc1, 0xc3, 0xe0, 0xe4, 0xed, 0xf0, 0xf4, 0xf8]
                    [rng.below(11) as usize];
            }
            let mut ends: Vec<usize> =
                (0..rng.below(3000)).map(|_| rng.below(bytes.len() as u64) as usize).collect();
            ends.sort_unstable();
            let is_character = |at: &usize| bytes[*at] & 0xc0 != 0x80;
            let cut = (case % 4 == 2).then(|| rng.below(ends.len() as u64 + 1) as usize);
            let mut row = 0;
            ends.retain(|at| {
                row += 1;
                is_character(at) || cut == Some(row)
            });
            ends.push(bytes.len());
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let values: Vec<&[u8]> =
                starts.zip(&ends).map(|(start, end)| &bytes[start..*end]).collect();
            let array: ArrayRef = std::sync::Arc::new(BinaryArray::from_vec(values.clone()));
            let of_bytes = Image::with(&array, Encoding::Fsst);
            let mut image = of_text.clone();
            image.rows = of_bytes.rows;
            (image.header, image.body) = (of_bytes.header, of_bytes.body);
            let mut is_text = values.iter().all(|value| std::str::from_utf8(value).is_ok());
            if case % 4 == 3 {
                // A code beside a seam of two warps becomes another of as many bytes.
                is_text = false;
                image.change(|tree| {
                    let lengths: Vec<u8> = (1..=8)
                        .flat_map(|length| {
                            vec![length; usize::from(tree.buffers[0][usize::from(length) - 1])]
                        })
                        .collect();
                    let seams = tree.buffers[1].len() / WARP_CODES;
                    let seam = WARP_CODES * (1 + rng.below(seams as u64 - 1) as usize);
                    let at = seam - 4 + rng.below(8) as usize;
                    let codes = &mut tree.buffers[1];
                    if let Some(length) = lengths.get(usize::from(codes[at])) {
                        let same: Vec<usize> =
                            (0..lengths.len()).filter(|code| lengths[*code] == *length).collect();
                        codes[at] = same[rng.below(same.len() as u64) as usize] as u8;
                    }
                });
            }
            let is_error = compare(&engine, &image, || format!("case {case}"));
            if case % 4 != 3 {
                assert_eq!(is_error, !is_text, "case {case}");
            }
            errors += usize::from(is_error);
            valid += usize::from(!is_error);
        }
        assert!(errors > 250 && valid > 250, "{errors} errors, {valid} valid");
    }
}

/// The text of the error that damage has to be.
#[track_caller]
fn corrupt<T>(name: &str, result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("{name}: read without an error"),
        Err(error @ Error::Corrupt { .. }) => error.to_string(),
        Err(error) => panic!("{name}: {error:?}"),
    }
}

/// Trees that are too deep or too wide, children of another type, runs that do not add up and codes
/// past the dictionary: one error, whichever engine reads, and whatever it reads for.
#[test]
fn bad_input_is_the_same_error_on_both_engines() {
    for engine in engines() {
        for bad in bad_input() {
            let name = bad.name;
            let packed = batch_of(bad.image.field.clone(), bad.image.storage());
            let expected = corrupt(name, lanepack::decompress(&packed));
            assert!(expected.contains(bad.says), "{name}: {expected}");
            let scan = Scan::new(&packed).filter(bad.filter.clone());
            assert_eq!(corrupt(name, scan.mask(&Engine::cpu())), expected, "{name}: CPU");
            assert_eq!(corrupt(name, engine.decompress(&packed)), expected, "{name}");
            assert_eq!(corrupt(name, scan.mask(&engine)), expected, "{name}: mask of the host's");
            if bad.found == Found::Opening {
                assert_eq!(corrupt(name, engine.upload(&packed)), expected, "{name}: upload");
                continue;
            }
            let uploaded = || engine.upload(&packed).unwrap();
            // Each reads first, of a column that no other has read.
            let column = uploaded();
            let filtered = || Scan::on_device(&column).filter(bad.filter.clone());
            assert_eq!(corrupt(name, filtered().mask(&engine)), expected, "{name}: mask");
            // What is found wrong is found again.
            assert_eq!(corrupt(name, filtered().count(&engine)), expected, "{name}: count");
            let column = uploaded();
            let scan = Scan::on_device(&column).filter(bad.filter.clone());
            let counted = scan.aggregate(&[count(col("price"))], &engine);
            assert_eq!(corrupt(name, counted), expected, "{name}: filter and aggregate");
            let column = uploaded();
            let scan = Scan::on_device(&column).filter(bad.filter.clone());
            let gathered = scan.gather(&["price"], &engine);
            assert_eq!(corrupt(name, gathered), expected, "{name}: filter and gather");
            let column = uploaded();
            let gathered = Scan::on_device(&column).gather(&["price"], &engine);
            assert_eq!(corrupt(name, gathered), expected, "{name}: gather");
            let column = uploaded();
            let greatest = Scan::on_device(&column).aggregate(&[max(col("price"))], &engine);
            assert_eq!(corrupt(name, greatest), expected, "{name}: aggregate");
            let decompressed = corrupt(name, uploaded().decompress());
            assert!(
                decompressed.starts_with("column \"price\", chunk 0: corrupt"),
                "{decompressed}"
            );
        }
        still_works(&engine);
    }
}

/// Products that pass the end of the type are read modulo it on both engines, and filters of both
/// keep all else.
#[test]
fn quotients_that_are_too_great_are_the_same_values_on_both_engines() {
    for engine in engines() {
        for great in great_quotients() {
            let packed = batch_of(great.image.field.clone(), great.image.storage());
            let values = lanepack::decompress(&packed).unwrap().column(0).clone();
            let decompressed = engine.decompress(&packed).unwrap();
            assert_same(decompressed.column(0), &values, || great.name.into());
            let on_device = engine.upload(&packed).unwrap();
            let scan = Scan::on_device(&on_device);
            let gathered = scan.gather(&["price"], &engine).unwrap();
            assert_same(gathered.column(0), &values, || great.name.into());
            let bounds = [min(col("price")), max(col("price"))];
            let expected = Scan::new(&packed).aggregate(&bounds, &Engine::cpu()).unwrap();
            assert_eq!(scan.aggregate(&bounds, &engine).unwrap(), expected, "{}", great.name);
            great.check(values.as_primitive::<Int64Type>(), |filter| {
                let filtered = scan.clone().filter(filter);
                let mask = filtered.mask(&engine).unwrap();
                let kept = filtered.gather(&["price"], &engine).unwrap();
                let expected = arrow_select::filter::filter(&values, &mask).unwrap();
                assert_same(kept.column(0), &expected, || great.name.into());
                mask
            });
        }
        still_works(&engine);
    }
}
