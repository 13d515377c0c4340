//! Users' kernels compiled for columns (`kernels/lanepack/column.cuh`): values and range tests of
//! every type and encoding, the example of docs/guide/kernels.md on columns of every encoding, damaged
//! data, and columns and launches that are refused.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::*;
use arrow_schema::DataType;
use bytemuck::{Pod, Zeroable};
use lanepack::scan::{Scan, col, count_rows, sum};
use lanepack::*;

use super::common::image::{Image, images};
use super::common::{Rng, skip};
use super::integers::only;
use super::{batch_of, engines, packed};

/// A kernel. None, which is reported, if there is no compiler for a GPU.
pub fn compiled(kernel: Result<Kernel>) -> Option<Kernel> {
    match kernel {
        Ok(kernel) => Some(kernel),
        Err(Error::NoDevice { what, .. }) => {
            skip("LANEPACK_REQUIRE_NVRTC", &what);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Copies the values of a column and tests them for a range. A warp takes two vectors. Values of
/// rows that do not exist are read as well: they must be 0.
const COPY: &str = r#"using namespace lanepack;
template <class Of>
struct Copy {
    Of column;
    typename Of::Value* out;
    // 32 words a vector.
    u32* valid;
    u32* inside;
    u64 low;
    u64 high;
    u64 pairs;
};

template <class Value>
LANEPACK_DEVICE bool is_zero(Value value) { return value == Value(0); }
LANEPACK_DEVICE bool is_zero(Half value) { return value.bits == 0; }

template <class Of>
LANEPACK_DEVICE void copy(const Copy<Of>& args, u32 chunk, u32 vector, typename Of::Scratch& scratch) {
    const typename Of::Values values(args.column, chunk, vector, scratch);
    const u32 valid = args.column.valid(chunk, vector, scratch);
    const u64 first = args.column.first_row(chunk) + vector * VECTOR;
    for (u32 step = 0; step < WARP; step++) {
        const u64 row = first + step_position(step) + threadIdx.x;
        const typename Of::Value value = values(step);
        if ((valid >> step & 1) != 0) args.out[row] = value;
        const bool exists = vector * VECTOR + step_position(step) + threadIdx.x < args.column.rows(chunk);
        if (!exists && !is_zero(value)) __trap();
    }
    const u64 at = (chunk * args.pairs * 2 + vector) * WARP + step_word(threadIdx.x);
    args.valid[at] = by_step(valid);
}

template <class Of, class Scratch>
LANEPACK_DEVICE void copy_chunk(const Copy<Of>& args, Scratch& scratch) {
    const u32 chunk = static_cast<u32>(blockIdx.x / args.pairs);
    const u32 first = static_cast<u32>(blockIdx.x % args.pairs) * 2;
    const u32 end = min(first + 2, args.column.vectors(chunk));
    for (u32 vector = first; vector < end; vector++) copy(args, chunk, vector, scratch);
}

template <class Of>
LANEPACK_DEVICE void test_chunk(const Copy<Of>& args, typename Of::template Test<2>& test) {
    const u32 chunk = static_cast<u32>(blockIdx.x / args.pairs);
    const u32 first = static_cast<u32>(blockIdx.x % args.pairs) * 2;
    const u32 end = min(first + 2, args.column.vectors(chunk));
    if (first >= end) return;
    using Type = ValueType<typename Of::Value>;
    using Word = typename Type::Word;
    const auto value = [](u64 word) { return Type::from(static_cast<Word>(word)); };
    test.prepare(args.column, chunk, first, end - first, value(args.low), value(args.high));
    for (u32 vector = first; vector < end; vector++) {
        const u32 selection = test.select(args.column, chunk, vector, vector - first);
        const u64 at = (chunk * args.pairs * 2 + vector) * WARP + step_word(threadIdx.x);
        args.inside[at] = by_step(selection);
    }
}
"#;

/// Kernels of [`COPY`] for column `number`; `test_N` only for columns of numbers.
fn copy_of(number: usize, has_numbers: bool) -> String {
    let mut text = format!(
        "LANEPACK_KERNEL(copy_{number}, 32, 1, Copy<Column{number}>) {{\n\
         LANEPACK_SHARED(Column{number}::Scratch, scratch);\ncopy_chunk(args, scratch);\n}}\n"
    );
    if has_numbers {
        let _ = write!(
            text,
            "LANEPACK_KERNEL(test_{number}, 32, 1, Copy<Column{number}>) {{\n\
             LANEPACK_SHARED(Column{number}::Test<2>, test);\ntest_chunk(args, test);\n}}\n"
        );
    }
    text
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Copy {
    column: ColumnArgument,
    out: DevicePtr<u8>,
    valid: DevicePtr<u32>,
    inside: DevicePtr<u32>,
    low: u64,
    high: u64,
    pairs: u64,
}

/// The width of values and their bytes; of booleans one byte each.
fn bytes_of(array: &ArrayRef) -> (usize, Vec<u8>) {
    if let Some(booleans) = array.as_boolean_opt() {
        return (1, booleans.values().iter().map(u8::from).collect());
    }
    let width = array.data_type().primitive_width().unwrap();
    let data = array.to_data();
    let bytes = &data.buffers()[0].as_slice()[data.offset() * width..][..array.len() * width];
    (width, bytes.to_vec())
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// A value as a number in the order of Arrow's kernels.
fn key_of(data_type: &DataType, bytes: &[u8]) -> i128 {
    let (word, bits) = (word_of(bytes), bytes.len() * 8);
    let signed = (word << (64 - bits)) as i64 >> (64 - bits);
    match data_type {
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => word.into(),
        DataType::Float16 | DataType::Float32 | DataType::Float64 if signed < 0 => {
            let magnitude = word & (u64::MAX >> (65 - bits));
            -i128::from(magnitude) - 1
        }
        _ => signed.into(),
    }
}

/// A column that users' kernels read.
struct Readable {
    name: String,
    array: ArrayRef,
    batch: CompressedDeviceBatch,
}

impl Readable {
    fn reader(&self) -> ColumnReader<'_> {
        self.batch.columns()[0].reader().unwrap()
    }
}

/// Columns of every type and encoding that users' kernels read, and the encodings of all nodes of
/// these. Others must be refused with an error that names column, type and encodings.
fn readable(engine: &Engine) -> (Vec<Readable>, BTreeSet<u8>) {
    let mut found: Vec<Readable> = Vec::new();
    let mut encodings = BTreeSet::new();
    let mut known = BTreeSet::new();
    for (name, image) in images(2100) {
        let array = image.open().unwrap().decompress().unwrap();
        let batch = engine.upload(&batch_of(image.field.clone(), image.storage())).unwrap();
        match batch.columns()[0].reader() {
            Ok(reader) => {
                let nodes: Vec<u8> = image.tree().nodes.iter().map(|node| node.encoding).collect();
                if known.insert((reader.type_name().to_owned(), nodes.clone())) {
                    encodings.extend(nodes);
                    drop(reader);
                    found.push(Readable { name, array, batch });
                }
            }
            Err(error) => {
                assert!(matches!(error, Error::Mismatch { .. }), "{name}: {error}");
                let (text, data_type) = (error.to_string(), array.data_type());
                let is_carried = batch.columns()[0].validity_nodes().is_err();
                let is_number = data_type.is_primitive() || *data_type == DataType::Boolean;
                let is_wide = matches!(data_type, DataType::Decimal256(..));
                assert!(is_carried || is_wide || !is_number, "{name}: {text}");
                let encoding = image.open().unwrap().encoding().to_string();
                let expected = format!("found {data_type} encoded as {encoding}");
                assert!(text.contains(&expected) && text.contains("\"price\""), "{name}: {text}");
            }
        }
    }
    (found, encodings)
}

#[test]
fn kernels_read_columns_of_every_type_and_encoding() {
    for engine in engines() {
        let mut rng = Rng(271);
        let (columns, encodings) = readable(&engine);
        for encoding in Encoding::ALL {
            let is_refused = matches!(encoding, Encoding::Fsst | Encoding::Front)
                || Encoding::NESTED.contains(encoding);
            assert!(encodings.contains(&(*encoding as u8)) != is_refused, "{encoding}");
        }
        // Types of readers, and for each the columns that have it.
        let mut types: Vec<(ColumnReader<'_>, Vec<&Readable>)> = Vec::new();
        for column in &columns {
            let reader = column.reader();
            let has = |(known, _): &&mut (ColumnReader<'_>, Vec<&Readable>)| {
                known.type_name() == reader.type_name()
            };
            match types.iter_mut().find(has) {
                Some((_, all)) => all.push(column),
                None => types.push((reader, vec![column])),
            }
        }
        for group in types.chunks(32) {
            let readers: Vec<&ColumnReader<'_>> = group.iter().map(|(reader, _)| reader).collect();
            let mut source = COPY.to_owned();
            for (number, reader) in readers.iter().enumerate() {
                source += &copy_of(number, has_numbers(reader));
            }
            for (number, (_, columns)) in group.iter().enumerate() {
                let kernel = |of: &str| {
                    let name = format!("{of}_{number}");
                    compiled(Kernel::for_columns(&engine, &name, &source, &readers))
                };
                let Some(copy) = kernel("copy") else { return };
                let test = has_numbers(readers[number]).then(|| kernel("test").unwrap());
                for column in columns {
                    let reader = column.reader();
                    let mut readers = readers.clone();
                    readers[number] = &reader;
                    check(&engine, column, number, &readers, &copy, test.as_ref(), &mut rng);
                }
            }
        }
    }
}

fn has_numbers(reader: &ColumnReader<'_>) -> bool {
    reader.type_name().starts_with("Column<")
}

/// Compares what kernels of [`COPY`] find of a column with its values; `number` is that of its
/// reader.
fn check(
    engine: &Engine,
    column: &Readable,
    number: usize,
    readers: &[&ColumnReader<'_>],
    copy: &Kernel,
    test: Option<&Kernel>,
    rng: &mut Rng,
) {
    let Readable { name, array, .. } = column;
    let reader = readers[number];
    let (width, bytes) = bytes_of(array);
    let out = DeviceMemory::<u8>::zeros(engine, bytes.len()).unwrap();
    let pairs = reader.vectors().div_ceil(2);
    let words = reader.chunks() * pairs * 2 * 32;
    let valid = DeviceMemory::<u32>::zeros(engine, words).unwrap();
    let inside = DeviceMemory::<u32>::zeros(engine, words).unwrap();
    let rows: Vec<usize> = (0..array.len()).filter(|row| array.is_valid(*row)).collect();
    let bytes_at = |row: usize| &bytes[row * width..][..width];
    let key_at = |row: usize| key_of(array.data_type(), bytes_at(row));
    let mut ends = [0, 1].map(|_| match rows.as_slice() {
        [] => 0,
        rows => rows[rng.below(rows.len() as u64) as usize],
    });
    if width <= 8 {
        ends.sort_by_key(|row| key_at(*row));
    }
    let [low, high] = ends.map(|row| word_of(&bytes_at(row)[..width.min(8)]));
    let arguments = Copy {
        column: reader.argument(),
        out: out.pointer().cast(),
        valid: valid.pointer(),
        inside: inside.pointer(),
        low,
        high,
        pairs: pairs as u64,
    };
    let mut uses: Vec<&dyn OnDevice> = vec![&out, &valid, &inside];
    uses.extend(readers.iter().map(|reader| *reader as &dyn OnDevice));
    let blocks = reader.chunks() * pairs;
    // SAFETY: the struct is that of the kernel, which writes as many values as the column has.
    unsafe { copy.launch(blocks, 32, &arguments, &uses) }.unwrap();
    // Positions of a vector are rows, as the column has one chunk.
    assert_eq!(reader.chunks(), 1, "{name}");
    let is_set = |words: &[u32], row: usize| words[row / 32] >> (row % 32) & 1 == 1;
    let (found, valid) = (out.to_vec().unwrap(), valid.to_vec().unwrap());
    for row in 0..array.len() {
        assert_eq!(is_set(&valid, row), array.is_valid(row), "{name}: row {row}");
        if array.is_valid(row) {
            // Decimals of 256 bits that kernels read have values of 128 bits there.
            let of = match width {
                32 => &found[row * 16..][..16],
                _ => &found[row * width..][..width],
            };
            assert_eq!(of, &bytes_at(row)[..width.min(16)], "{name}: row {row}");
        }
    }
    let Some(test) = test else { return };
    // SAFETY: as above; it writes a word for 32 rows.
    unsafe { test.launch(blocks, 32, &arguments, &uses) }.unwrap();
    let inside = inside.to_vec().unwrap();
    let (low, high) = (key_at(ends[0]), key_at(ends[1]));
    for row in 0..array.len() {
        let expected = array.is_valid(row) && (low..=high).contains(&key_at(row));
        assert_eq!(is_set(&inside, row), expected, "{name}: test of row {row}");
    }
}

const SUM_WHERE: &str = include_str!("../../kernels/examples/sum_where.cu");

#[test]
fn the_example_is_that_of_the_documentation() {
    assert!(include_str!("../../docs/guide/kernels.md").contains(SUM_WHERE));
}

/// `EACH` of the kernel.
const EACH: usize = 8;

/// `SumWhere` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SumWhere {
    quantity: ColumnArgument,
    price: ColumnArgument,
    sum: DevicePtr<f64>,
    count: DevicePtr<u64>,
    most: i64,
    chunks: u32,
    warps_each: u32,
}

/// What the kernel of the example makes of a batch of quantities and prices; none where
/// nothing compiles it.
fn sum_where(engine: &Engine, packed: &RecordBatch, most: i64) -> Result<Option<(f64, u64)>> {
    let table = engine.upload(packed)?;
    let [quantity, price] = [0, 1].map(|column: usize| table.columns()[column].reader().unwrap());
    let readers = [&quantity, &price];
    let kernel = Kernel::for_columns(engine, "sum_where", SUM_WHERE, &readers);
    let Some(kernel) = compiled(kernel) else { return Ok(None) };
    let sum = DeviceMemory::<f64>::zeros(engine, 1)?;
    let count = DeviceMemory::<u64>::zeros(engine, 1)?;
    let (chunks, warps_each) = (price.chunks(), price.vectors().div_ceil(EACH));
    let arguments = SumWhere {
        quantity: quantity.argument(),
        price: price.argument(),
        sum: sum.pointer(),
        count: count.pointer(),
        most,
        chunks: chunks as u32,
        warps_each: warps_each as u32,
    };
    let uses: [&dyn OnDevice; 4] = [&quantity, &price, &sum, &count];
    let blocks = (chunks * warps_each).div_ceil(kernel.threads() as usize / 32);
    // SAFETY: the struct is the kernel's, and leads to what is listed.
    unsafe { kernel.launch(blocks, kernel.threads(), &arguments, &uses) }?;
    // Freed when the kernel has ended.
    drop((quantity, price));
    drop(table);
    Ok(Some((sum.to_vec()?[0], count.to_vec()?[0])))
}

/// A number that looks random.
fn mixed(number: i64) -> i64 {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) as i64
}

/// Quantities and prices whose chunks get every encoding of numbers with default options, and
/// other trees with few encodings. Sums are exact in any order: prices are multiples of 2^-20.
#[test]
fn the_example_sums_columns_of_every_encoding() {
    const UNIT: f64 = 1.0 / (1 << 20) as f64;
    let rows = 30_000;
    let below = |row: i64, end: i64| mixed(row).rem_euclid(end);
    let quantity = |row: i64| match row / 2048 {
        0 | 1 => (row % 11 != 0).then_some(row * 7 % 50 - 20),
        2 => Some(13),
        3 => Some(mixed(row)),
        4 => Some(row / 30 * (row / 30) % 700),
        5 => Some(row / 6 * 7919 % 50 - 25),
        6 => Some((row * row % 500 - 250) * 1000),
        7 => (row % 1000 != 3).then_some(row * 77 + row * row % 50),
        8 => Some((row * 7919 % 40).pow(7)),
        9 => Some(below(row, 1000) + if row % 300 == 8 { mixed(row) >> 20 } else { 0 }),
        10 => (row % 7 == 0).then_some(row / 900),
        11 => Some(mixed(row % 1500)),
        12 => Some(below(row, 40)),
        _ => Some((row * row % 13) * 10 - 40),
    };
    let price = |row: i64| match row / 2048 % 7 {
        0 if row % 7 == 3 => None,
        0 if row % 91 == 1 => Some(row as f64 * UNIT),
        // Decimals: fewer bits than the floats have.
        0 => Some(below(row, 4000) as f64 * 100.0),
        1 => Some(250.5),
        2 => Some((row * 0x9e37_79b9 % (1 << 30)) as f64 * UNIT),
        3 => Some((row / 40) as f64 * UNIT),
        4 => Some(1.5 + (row * 7919 % 30 * 1_000_003 % (1 << 20)) as f64 * UNIT),
        5 => Some(below(row, 1 << 40) as f64 * UNIT),
        _ => (row % 3 == 0).then_some(0.25),
    };
    let batch = RecordBatch::try_from_iter([
        ("quantity", Arc::new(Int64Array::from_iter((0..rows).map(quantity))) as ArrayRef),
        ("price", Arc::new(Float64Array::from_iter((0..rows).map(price)))),
    ])
    .unwrap();
    use Encoding::*;
    let all = [
        Options::default(),
        only(Encoding::ALL),
        only(&[Gcd, Delta, Pfor, Ffor, Alp]),
        only(&[Rle, Delta, Ffor, AlpRd]),
        only(&[Dict, Pfor, Lz]),
    ];
    for (number, options) in all.into_iter().enumerate() {
        let packed = compress(&batch, &options.with_chunk_rows(2048)).unwrap();
        if number == 0 {
            let trees: String = columns(&packed)
                .unwrap()
                .iter()
                .map(|column| column.encoding().to_string() + "+")
                .collect();
            let names: Vec<&str> = trees.split(['+', '(', ')', ',', ' ']).collect();
            for encoding in [Plain, Constant, Ffor, Pfor, Gcd, Delta, Rle, Dict, Alp, AlpRd, Lz] {
                assert!(names.contains(&encoding.name()), "no {encoding}: {trees}");
            }
        }
        for engine in engines() {
            for most in [i64::MIN, -1, 12, 13, i64::MAX] {
                let scan = Scan::new(&packed).filter(col("quantity").lt_eq(most));
                let expected = scan.aggregate(&[sum(col("price")), count_rows()], &Engine::cpu());
                let kept = scan.filter(col("price").is_not_null()).count(&Engine::cpu()).unwrap();
                let expected = expected.unwrap();
                let expected_sum = expected.column(0).as_primitive::<Float64Type>();
                let expected_sum =
                    if expected_sum.is_null(0) { 0.0 } else { expected_sum.value(0) };
                let rows = expected.column(1).as_primitive::<Int64Type>().value(0);
                let Some(found) = sum_where(&engine, &packed, most).unwrap() else { continue };
                assert_eq!(found, (expected_sum, kept as u64), "{most}, {rows} rows");
            }
        }
    }
}

/// A column of runs whose lengths do not add up.
fn damaged_prices() -> RecordBatch {
    let values = Float64Array::from_iter_values((0..1500).map(|row| f64::from(row / 50)));
    let mut image = Image::with(&(Arc::new(values) as ArrayRef), Encoding::Rle);
    image.change(|tree| tree.buffers[2][0] = 0);
    batch_of(image.field.clone(), image.storage())
}

#[test]
fn damaged_columns_are_errors_of_calls_that_wait() {
    for engine in engines() {
        let damaged = engine.upload(&damaged_prices()).unwrap();
        let reader = damaged.columns()[0].reader().unwrap();
        let source = COPY.to_owned() + &copy_of(0, true);
        let kernel = Kernel::for_columns(&engine, "copy_0", &source, &[&reader]);
        let Some(kernel) = compiled(kernel) else { return };
        let out = DeviceMemory::<f64>::zeros(&engine, 1500).unwrap();
        let words = DeviceMemory::<u32>::zeros(&engine, 64).unwrap();
        let arguments = Copy {
            column: reader.argument(),
            out: out.pointer().cast(),
            valid: words.pointer(),
            pairs: 1,
            ..Zeroable::zeroed()
        };
        // SAFETY: the struct is the kernel's, which writes 1,500 values.
        let launch = || unsafe { kernel.launch(1, 32, &arguments, &[&reader, &out, &words]) };
        for _ in 0..2 {
            launch().unwrap();
            let error = out.to_vec().unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("price") && text.contains("chunk 0"), "{text}");
            // Once for each launch.
            out.to_vec().unwrap();
        }
        launch().unwrap();
        drop(reader);
        assert!(matches!(engine.synchronize().unwrap_err(), Error::Corrupt { .. }));
        engine.synchronize().unwrap();
    }
}

/// Whatever a body holds, kernels stay within its buffers (the emulation's sanitizers say so) and
/// either read values or report damage.
#[test]
fn kernels_stay_within_the_buffers_of_damaged_columns() {
    for engine in engines() {
        let mut rng = Rng(272);
        let mut known = BTreeSet::new();
        for (name, image) in images(2100) {
            if !matches!(image.field.data_type(), DataType::Int64 | DataType::Float64) {
                continue;
            }
            let whole = engine.upload(&batch_of(image.field.clone(), image.storage())).unwrap();
            let reader = whole.columns()[0].reader().unwrap();
            if !known.insert(reader.type_name().to_owned()) {
                continue;
            }
            let source = COPY.to_owned() + &copy_of(0, true);
            let kernel =
                |name: &str| compiled(Kernel::for_columns(&engine, name, &source, &[&reader]));
            let (Some(copy), Some(test)) = (kernel("copy_0"), kernel("test_0")) else { return };
            let out = DeviceMemory::<u64>::zeros(&engine, 2100).unwrap();
            let words = DeviceMemory::<u32>::zeros(&engine, 128).unwrap();
            for _ in 0..12 {
                let (image, damage) = image.damaged(&mut rng, 3);
                // Damage that only the values show.
                if image.open().is_err() {
                    continue;
                }
                let batch = engine.upload(&batch_of(image.field.clone(), image.storage())).unwrap();
                let found = batch.columns()[0].reader().and_then(|reader| {
                    let arguments = Copy {
                        column: reader.argument(),
                        out: out.pointer().cast(),
                        valid: words.pointer(),
                        inside: words.pointer(),
                        low: rng.next() >> 1,
                        high: u64::MAX >> 1,
                        pairs: 2,
                    };
                    let uses: [&dyn OnDevice; 3] = [&reader, &out, &words];
                    // SAFETY: the struct is that of the kernels, which write 2,100 values at most.
                    unsafe { copy.launch(2, 32, &arguments, &uses) }?;
                    // SAFETY: as above.
                    unsafe { test.launch(2, 32, &arguments, &uses) }?;
                    engine.synchronize()
                });
                let is_expected = matches!(found, Ok(()) | Err(Error::Corrupt { .. }));
                assert!(is_expected, "{name}, {damage:?}: {found:?}");
            }
        }
    }
}

#[test]
fn kernels_are_started_with_columns_like_those_they_were_compiled_for() {
    let of = |values: &dyn Fn(i64) -> i64, encodings: &[Encoding]| {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1500).map(values)));
        packed(&compress_array(&array, &only(encodings)).unwrap())
    };
    let narrow = of(&|row| row * row % 100, &[Encoding::Ffor]);
    let wider = of(&|row| row * row % 1000, &[Encoding::Ffor]);
    let divided = of(&|row| row * row % 100 * 7, &[Encoding::Gcd, Encoding::Ffor]);
    for engine in engines() {
        let batches = [&narrow, &wider, &divided].map(|batch| engine.upload(batch).unwrap());
        let [narrow, wider, divided] =
            batches.each_ref().map(|batch| batch.columns()[0].reader().unwrap());
        let source = COPY.to_owned() + &copy_of(0, true);
        let kernel = Kernel::for_columns(&engine, "copy_0", &source, &[&narrow]);
        let Some(kernel) = compiled(kernel) else { return };
        assert_eq!(kernel.threads(), 32);
        // Other widths are read as well.
        assert_ne!(narrow.type_name(), wider.type_name());
        let out = DeviceMemory::<i64>::zeros(&engine, 1500).unwrap();
        let words = DeviceMemory::<u32>::zeros(&engine, 64).unwrap();
        let launch = |reader: &ColumnReader<'_>, uses: &[&dyn OnDevice]| {
            let arguments = Copy {
                column: reader.argument(),
                out: out.pointer().cast(),
                valid: words.pointer(),
                pairs: 1,
                ..Zeroable::zeroed()
            };
            // SAFETY: the struct is the kernel's, which writes 1,500 values.
            unsafe { kernel.launch(1, 32, &arguments, uses) }
        };
        launch(&wider, &[&wider, &out, &words]).unwrap();
        let squares: Vec<i64> = (0..1500).map(|row| row * row % 1000).collect();
        assert_eq!(out.to_vec().unwrap(), squares);
        let refused = |result: Result<()>, what: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("kernel copy_0") && error.contains(what), "{error}");
        };
        let of_divided = "found column \"price\" (Int64 encoded as gcd(ffor))";
        refused(launch(&divided, &[&divided, &out, &words]), of_divided);
        let counts = "expected 1 readers of columns, as it was compiled for, found ";
        refused(launch(&narrow, &[&out, &words]), &format!("{counts}0"));
        refused(launch(&narrow, &[&narrow, &wider, &out, &words]), &format!("{counts}2"));
    }
}

/// Columns without rows have readers as well; kernels over them have no blocks.
#[test]
fn columns_without_rows_have_readers() {
    for engine in engines() {
        let array: ArrayRef = Arc::new(Float32Array::from_iter_values([]));
        let empty =
            engine.upload(&packed(&compress_array(&array, &Options::default()).unwrap())).unwrap();
        let reader = empty.columns()[0].reader().unwrap();
        assert_eq!((reader.chunks(), reader.vectors()), (0, 0));
        let source = COPY.to_owned() + &copy_of(0, true);
        let kernel = Kernel::for_columns(&engine, "copy_0", &source, &[&reader]);
        let Some(kernel) = compiled(kernel) else { return };
        let arguments = Copy { column: reader.argument(), ..Zeroable::zeroed() };
        // SAFETY: there are no blocks.
        unsafe { kernel.launch(0, 32, &arguments, &[&reader]) }.unwrap();
        engine.synchronize().unwrap();
    }
}
