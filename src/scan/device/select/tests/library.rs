//! The device library by itself (`kernels/simt/selections.cu`): columns of different
//! types in one warp, and the search for bounds of packed integers.

use bytemuck::{Pod, Zeroable};

use super::*;
use crate::gpu::abi::{Node, SelectArguments, SelectStringsArguments, StringsTest};
use crate::gpu::{DeviceBuffer, DevicePtr, Launch, Stream};
use crate::scan::device::select::parts;

fn uploaded<T: Pod>(stream: &dyn Stream, values: &[T]) -> Result<DeviceBuffer> {
    let buffer = stream.allocate(size_of_val(values))?;
    stream.upload(bytemuck::cast_slice(values), &buffer, 0)?;
    Ok(buffer)
}

/// Runs `work` with a stream of an emulated device.
fn with_stream<T>(engine: &Engine, work: impl FnOnce(&dyn Stream) -> Result<T>) -> T {
    let context = engine.named_device().expect("a device");
    context.with_stream(|stream| work(stream.as_ref())).unwrap()
}

/// `TogetherArguments` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Together {
    shorts: DevicePtr<Node>,
    doubles: DevicePtr<Node>,
    validity: DevicePtr<Node>,
    ranges: DevicePtr<Range>,
    out: DevicePtr<u32>,
    rows: u64,
}

#[test]
fn selections_of_different_types_go_together() {
    let mut rng = Rng(12);
    let rows = 7000;
    let mut key = |row: usize| 32_768 + rng.below(2 << (row / 1024));
    let shorts: Vec<Option<u64>> = (0..rows).map(|row| Some(key(row))).collect();
    let doubles: Vec<Option<f64>> = (0..rows)
        .map(|row| match row % 50 {
            3 => None,
            4 => Some(f64::INFINITY),
            _ => Some((row * row % 300) as f64 / 100.0),
        })
        .collect();
    let doubles: ArrayRef = Arc::new(PrimitiveArray::<Float64Type>::from_iter(doubles));
    let engine = Engine::simt(13, 1 << 30);
    let packed = compressed(&array_of(&DataType::Int16, &shorts), None, 4096);
    let of_shorts = Subject::new(&engine, &packed);
    let of_doubles = Subject::new(&engine, &compressed(&doubles, None, 4096));
    let both = ranges([(32_770, 32_800), (0x8000_0000_0000_0000, 0xc000_0000_0000_0000)]);
    let columns = [of_shorts.column(), of_doubles.column()];
    let (nodes, more, validity) = (
        columns[0].nodes().unwrap(),
        columns[1].nodes().unwrap(),
        columns[1].validity_nodes().unwrap(),
    );
    let found = with_stream(&engine, |stream| {
        let buffers = [
            uploaded(stream, &nodes)?,
            uploaded(stream, &more)?,
            uploaded(stream, &validity)?,
            uploaded(stream, &both)?,
            stream.allocate(bitmap_len(rows))?,
        ];
        let arguments = Together {
            shorts: buffers[0].pointer(),
            doubles: buffers[1].pointer(),
            validity: buffers[2].pointer(),
            ranges: buffers[3].pointer(),
            out: buffers[4].pointer(),
            rows: rows as u64,
        };
        let bodies = columns.map(|column| column.bodies()[0].as_ref());
        stream.launch(&Launch {
            module: None,
            kernel: "select_together",
            blocks: nodes.len(),
            threads: 128,
            shared: 0,
            cache_bytes: 0,
            arguments: bytemuck::bytes_of(&arguments),
            arguments_type: None,
            buffers: &buffers.iter().chain(bodies).collect::<Vec<_>>(),
        })?;
        let mut found = vec![0_u32; bitmap_len(rows) / 4];
        stream.download(&buffers[4], 0, bytemuck::cast_slice_mut(&mut found))?;
        Ok(found)
    });
    let inside = |key: Option<u64>, range: &Range| {
        key.is_some_and(|key| range.low <= key && key <= range.high)
    };
    let expected: Vec<bool> = (shorts.into_iter().zip(keys_of(&doubles)))
        .map(|(short, double)| inside(short, &both[0]) && inside(double, &both[1]))
        .collect();
    assert!(expected.iter().filter(|bit| **bit).count() > 200);
    assert_bits(&found, &expected, || "both".to_owned());
}

/// `StringsArguments` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Strings {
    strings: DevicePtr<Node>,
    lengths: DevicePtr<Node>,
    tests: DevicePtr<StringsTest>,
    live: DevicePtr<u32>,
    out: DevicePtr<u32>,
    rows: u64,
}

/// Selections of strings, with tables where they lie, of rows that are asked for.
#[test]
fn strings_are_selected_among_live_rows() {
    let mut rng = Rng(32);
    let numbers: Vec<usize> = (0..5000).map(|_| rng.below(100) as usize).collect();
    let texts = numbers.iter().map(|number| super::strings::text(*number));
    let array: ArrayRef = Arc::new(arrow_array::StringArray::from_iter_values(texts));
    let live: Vec<u32> = (0..bitmap_len(numbers.len()) / 4).map(|_| rng.next() as u32).collect();
    let engine = Engine::simt(33, 1 << 30);
    for encoding in [Encoding::Fsst, Encoding::Plain] {
        let subject = Subject::new(&engine, &compressed(&array, Some(encoding), 2048));
        let column = subject.column();
        for (test, holds) in super::strings::tests() {
            let negated = test.negated;
            let context = engine.named_device().expect("a device");
            let found = context.with_stream(|stream| {
                let (chunks, _) = test.on_device(stream, column)?;
                let test = ColumnTest::Strings { chunks, negated };
                let nodes = column.kernel_nodes(stream)?;
                let parts = parts::of(stream, column, &nodes, &test)?;
                assert_eq!(parts.len(), 1);
                let (parameters, kernel) =
                    parts[0].upload(stream, SelectArguments::default(), &[], None)?;
                let arguments: SelectStringsArguments =
                    bytemuck::pod_read_unaligned(&kernel.argument);
                let buffers = [uploaded(stream.as_ref(), &live)?, stream.allocate(live.len() * 4)?];
                let launched = Strings {
                    strings: arguments.select.nodes,
                    lengths: arguments.lengths,
                    tests: arguments.tests,
                    live: buffers[0].pointer(),
                    out: buffers[1].pointer(),
                    rows: numbers.len() as u64,
                };
                let mut named = vec![&buffers[0], &buffers[1], &parameters];
                named.extend(column.bodies().iter().map(AsRef::as_ref));
                stream.launch(&Launch {
                    module: None,
                    kernel: "select_strings_among",
                    blocks: parts[0].nodes.len(),
                    threads: 128,
                    shared: 0,
                    cache_bytes: 0,
                    arguments: bytemuck::bytes_of(&launched),
                    arguments_type: None,
                    buffers: &named,
                })?;
                let mut found = vec![0_u32; live.len()];
                stream.download(&buffers[1], 0, bytemuck::cast_slice_mut(&mut found))?;
                Ok(found)
            });
            let is_live = |row: usize| live[row / 32] >> (row % 32) & 1 == 1;
            let expected: Vec<bool> = (numbers.iter().enumerate())
                .map(|(row, number)| is_live(row) && holds(*number) != negated)
                .collect();
            assert_bits(&found.unwrap(), &expected, || format!("{encoding}"));
        }
    }
}

/// `SearchArguments` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Search {
    ranges: DevicePtr<Range>,
    out: DevicePtr<[u64; 4]>,
    scale: u64,
    width: u32,
    count: u32,
}

/// The least packed integer from which on a condition holds, 2^width if there is none.
fn first_where(width: u32, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut begin, mut end) = (0, 1_u64 << width);
    while begin < end {
        let middle = (begin + end) / 2;
        if holds(middle) { end = middle } else { begin = middle + 1 }
    }
    begin
}

/// What packed integers of a type stand for.
struct Decoder {
    data_type: DataType,
    base: i64,
    e: u32,
    f: u32,
}

impl Decoder {
    fn scale(&self) -> u64 {
        match self.data_type {
            DataType::Float64 => (self.base << 10) as u64 | u64::from(self.e << 5 | self.f),
            _ => u64::from((self.base << 8) as u32 | self.e << 4 | self.f),
        }
    }

    fn key(&self, packed: u64) -> u64 {
        let number = self.base + packed as i64;
        let power = |sign: &str, exponent: u32| format!("1e{sign}{exponent}");
        let array: ArrayRef = match self.data_type {
            DataType::Float64 => {
                let power = |sign, exponent| power(sign, exponent).parse::<f64>().unwrap();
                let value = number as f64 * power("", self.f) * power("-", self.e);
                Arc::new(PrimitiveArray::<Float64Type>::from_iter_values([value]))
            }
            _ => {
                let power = |sign, exponent| power(sign, exponent).parse::<f32>().unwrap();
                let value = number as f32 * power("", self.f) * power("-", self.e);
                Arc::new(PrimitiveArray::<Float32Type>::from_iter_values([value]))
            }
        };
        keys_of(&array)[0].unwrap()
    }
}

/// Around an estimate and digit by digit the search finds what bisection finds, for all
/// exponents, at every width, on both sides of zero.
#[test]
fn bounds_of_packed_integers_are_exact() {
    let engine = Engine::simt(14, 1 << 30);
    let mut rng = Rng(15);
    for (data_type, greatest_e, greatest_width, kernel) in
        [(DataType::Float64, 18, 52, "search_alp_64"), (DataType::Float32, 10, 23, "search_alp_32")]
    {
        let last = if data_type == DataType::Float64 { u64::MAX } else { u64::from(u32::MAX) };
        for case in 0..300 {
            let width = case % (greatest_width + 1);
            let e = rng.upto(greatest_e) as u32;
            let f = rng.upto(u64::from(e)) as u32;
            let greatest_base = 1_i64 << (greatest_width - 1);
            let base = match rng.below(4) {
                0 => -((1_i64 << width) / 2).min(greatest_base),
                1 => greatest_base,
                2 => -greatest_base,
                _ => rng.below(2 * greatest_base as u64) as i64 - greatest_base,
            };
            let decoder = Decoder { data_type: data_type.clone(), base, e, f };
            let mask = (1_u64 << width) - 1;
            let (least, greatest) = (decoder.key(0), decoder.key(mask));
            let near = |key: u64, rng: &mut Rng| {
                (key as i128 + i128::from(rng.below(3)) - 1).clamp(0, i128::from(last)) as u64
            };
            let mut picked = ranges([(0, last), (least, least), (greatest, last), (0, greatest)]);
            for _ in 0..8 {
                let low = decoder.key(rng.upto(mask));
                let high = decoder.key(rng.upto(mask));
                let (low, high) = (near(low.min(high), &mut rng), near(low.max(high), &mut rng));
                // Those that meet the vector.
                let low = low.min(greatest);
                picked.push(Range { low, high: high.max(low).max(least) });
            }
            let mut found = vec![[0_u64; 4]; picked.len()];
            with_stream(&engine, |stream| {
                let ranges = uploaded(stream, &picked)?;
                let out = stream.allocate(picked.len() * 32)?;
                let arguments = Search {
                    ranges: ranges.pointer(),
                    out: out.pointer(),
                    scale: decoder.scale(),
                    width,
                    count: picked.len() as u32,
                };
                stream.launch(&Launch {
                    module: None,
                    kernel,
                    blocks: 1,
                    threads: 32,
                    shared: 0,
                    cache_bytes: 0,
                    arguments: bytemuck::bytes_of(&arguments),
                    arguments_type: None,
                    buffers: &[&ranges, &out],
                })?;
                stream.download(&out, 0, bytemuck::cast_slice_mut(&mut found))
            });
            for (range, found) in picked.iter().zip(found) {
                let low = first_where(width, |packed| decoder.key(packed) >= range.low);
                let end = first_where(width, |packed| decoder.key(packed) > range.high);
                let expected = [low, end - 1, low, end - 1];
                assert_eq!(found, expected, "{data_type} {base} {e} {f} {width} {range:x?}");
            }
        }
    }
}
