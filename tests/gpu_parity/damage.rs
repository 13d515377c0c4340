//! Damaged chunks: the CPU and a device refuse the same ones, what they
//! accept has the same values on both, nobody leaves a buffer (the emulation
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
    compare_batch(engine, &batch_of(image.field.clone(), image.storage()), damage)
}

fn compare_batch(engine: &Engine, packed: &RecordBatch, damage: impl Fn() -> String) -> bool {
    let cpu = lanepack::decompress(packed);
    match (engine.decompress(packed), cpu) {
        (Ok(found), Ok(expected)) => {
            assert_same(found.column(0), expected.column(0), damage);
            false
        }
        (Ok(_), Err(error)) => panic!("{}: only the CPU says: {error}", damage()),
        (Err(error), Ok(_)) => panic!("{}: only the device says: {error}", damage()),
        (Err(error), Err(_)) => {
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
            let lz = Lz::default().with_segment_symbols(256);
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

/// Codes of a warp: four tiles of 512.
const WARP_CODES: usize = 2048;

fn text_image(data_type: &arrow_schema::DataType) -> Image {
    Image::of(&array_of(data_type, 40, Shape::Narrow, Nulls::None), &Options::default())
}

/// Bytes as FSST codes in a column of the type of `of_text`, whether they are text or not.
fn as_text(of_text: &Image, values: &[&[u8]]) -> Image {
    let array: ArrayRef = std::sync::Arc::new(BinaryArray::from_vec(values.to_vec()));
    let encodings = [Encoding::Fsst, Encoding::Ffor, Encoding::Pfor];
    let of_bytes = Image::of(&array, &Options::default().with_encodings(encodings));
    assert_eq!(of_bytes.tree().nodes[0].encoding, Encoding::Fsst as u8);
    let mut image = of_text.clone();
    (image.rows, image.nulls) = (of_bytes.rows, of_bytes.nulls);
    (image.header, image.body) = (of_bytes.header, of_bytes.body);
    image
}

/// Where the bytes of the warps behind the first begin.
fn seams(image: &Image) -> Vec<usize> {
    let tree = image.tree();
    let (tiles, warps) = (&tree.buffers[3], tree.buffers[1].len().div_ceil(WARP_CODES));
    let group = |tile: usize| tile / 16 * 40;
    let place = |tile: usize| {
        let head = u64::from_le_bytes(tiles[group(tile)..group(tile) + 8].try_into().unwrap());
        let at = group(tile) + 8 + tile % 16 * 2;
        (head & ((1 << 48) - 1)) as usize
            + usize::from(u16::from_le_bytes(tiles[at..at + 2].try_into().unwrap()))
    };
    (1..warps).map(|warp| place(warp * WARP_CODES / 512)).collect()
}

/// In text that is ASCII, a lead or a byte behind one alone at every end of a line of 128 bytes and
/// of a warp, in the first chunk of a column or in one behind that.
#[test]
fn single_bytes_that_are_no_text_are_found() {
    use arrow_schema::DataType;
    let mut rng = Rng(31);
    let ascii: Vec<u8> = (0..16_000).map(|_| b"etaoin shrdlu"[rng.below(13) as usize]).collect();
    let rows = |bytes: &[u8]| -> Vec<Vec<u8>> { bytes.chunks(4000).map(Vec::from).collect() };
    let image_of = |of_text: &Image, bytes: &[u8]| {
        as_text(of_text, &rows(bytes).iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    for engine in engines() {
        let (mut case, mut at_seams) = (0, 0);
        for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            let of_text = text_image(&data_type);
            let intact = image_of(&of_text, &ascii);
            let ends = (1..125).map(|line| line * 128);
            let ends: Vec<usize> = ends.chain(seams(&intact)).collect();
            assert!(ends.len() > 124, "several warps");
            for end in ends {
                // Bytes before an end that let the codes of the warp end there, too.
                for (at, byte) in [(end, 0x80), (end - 1, 0xc3), (end - 2, 0xe4), (end - 3, 0xc3)] {
                    case += 1;
                    if case % 3 != 0 && end % 128 == 0 {
                        continue;
                    }
                    let mut bytes = ascii.clone();
                    bytes[at] = byte;
                    let image = image_of(&of_text, &bytes);
                    let seams = seams(&image);
                    at_seams += usize::from(seams.contains(&at) || seams.contains(&(at + 1)));
                    let what = || format!("{data_type} {byte:x} at {at}");
                    assert!(compare(&engine, &image, what), "{}", what());
                    let parts = [&intact, &image]
                        .map(|image| batch_of(image.field.clone(), image.storage()));
                    let both =
                        arrow_select::concat::concat_batches(&parts[0].schema(), &parts).unwrap();
                    assert!(compare_batch(&engine, &both, what), "{}", what());
                }
            }
        }
        assert!(at_seams > 0);
    }
}

/// Rows of which most are empty, which begin at a character or inside one.
#[test]
fn many_empty_rows_of_text() {
    let of_text = text_image(&arrow_schema::DataType::Utf8);
    let mut rng = Rng(17);
    for engine in engines() {
        let mut errors = 0;
        for case in 0..12 {
            let text = stretches(&mut rng, 40_000).into_bytes();
            let is_character = |at: &usize| text[*at] & 0xc0 != 0x80;
            let half = 20_000 + case;
            let begins: Vec<usize> = (0..20_000).step_by(200).filter(is_character).collect();
            let begins = begins.into_iter().chain(std::iter::repeat_n(half, 3000));
            let begins = begins.chain((half + 1..text.len()).step_by(200).filter(is_character));
            let begins: Vec<usize> = begins.chain([text.len()]).collect();
            let values: Vec<&[u8]> = begins.windows(2).map(|row| &text[row[0]..row[1]]).collect();
            let image = as_text(&of_text, &values);
            let is_error = compare(&engine, &image, || format!("case {case}"));
            assert_eq!(is_error, !is_character(&half), "case {case}");
            errors += usize::from(is_error);
        }
        assert!(errors > 0 && errors < 12, "{errors} errors");
    }
}

/// FSST codes of many warps, whose bytes or rows are no text at some place: kernels check them
/// piece by piece.
#[test]
fn text_of_codes_is_judged_as_the_cpu_judges_it() {
    let of_text = text_image(&arrow_schema::DataType::Utf8);
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
            let mut image = as_text(&of_text, &values);
            let is_text = values.iter().all(|value| std::str::from_utf8(value).is_ok());
            if case % 4 == 3 {
                // A code beside a seam of two warps becomes another of as many bytes.
                image.change(|tree| {
                    let lengths: Vec<u8> = (1..=8)
                        .flat_map(|length| {
                            vec![length; usize::from(tree.buffers[0][usize::from(length) - 1])]
                        })
                        .collect();
                    let seams = (tree.buffers[1].len() - 5) / WARP_CODES;
                    let seam = WARP_CODES * (1 + rng.below(seams as u64) as usize);
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
