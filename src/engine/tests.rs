//! Every iterator of the device library (`kernels/simt/iterators.cu`), over the nodes that a
//! column hands out.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float32Array, Float64Array, RecordBatch, StringArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::Schema;
use bytemuck::{Pod, Zeroable};

use super::{CompressedDeviceBatch, Engine};
use crate::encoding::{self, Output};
use crate::gpu::{DeviceBuffer, DevicePtr, Launch, Stream};
use crate::{CompressedColumn, DeviceNode, Encoding, Options, Result, compress_array};

/// A column of one encoding, in chunks of two vectors, on an emulated device.
fn upload(
    engine: &Engine,
    array: &ArrayRef,
    encoding: Encoding,
) -> (CompressedColumn, CompressedDeviceBatch) {
    let options = Options::default().with_encodings([encoding]).with_chunk_rows(2048);
    let column = compress_array(array, &options).unwrap();
    let (field, storage) = column.to_arrow("price");
    let schema = Arc::new(Schema::new(vec![field]));
    let packed = RecordBatch::try_new(schema, vec![Arc::new(storage)]).unwrap();
    let batch = engine.upload(&packed).unwrap();
    (column, batch)
}

fn with_stream<T>(engine: &Engine, work: impl FnOnce(&dyn Stream) -> Result<T>) -> T {
    engine.context().unwrap().with_stream(|stream| work(stream.as_ref())).unwrap()
}

fn uploaded<T: Pod>(stream: &dyn Stream, values: &[T]) -> Result<DeviceBuffer> {
    let buffer = stream.allocate(size_of_val(values))?;
    stream.upload(bytemuck::cast_slice(values), &buffer, 0)?;
    Ok(buffer)
}

/// Decodes a column lane by lane with `kernel` and compares the bytes of its values.
fn check_lanes(array: &ArrayRef, encoding: Encoding, kernel: &'static str) {
    let engine = Engine::simt(3, 1 << 30);
    let (column, batch) = upload(&engine, array, encoding);
    assert_eq!(column.encoding().to_string(), encoding.name(), "{kernel}");
    let nodes: Vec<DeviceNode> = batch.columns()[0].nodes().unwrap();
    let expected = array.to_data().buffers()[0].as_slice().to_vec();
    let found = with_stream(&engine, |stream| {
        let nodes_buffer = uploaded(stream, &nodes)?;
        let out = stream.allocate(expected.len())?;
        stream.launch(&Launch {
            module: None,
            kernel,
            blocks: nodes.len(),
            threads: 32,
            shared: 0,
            cache_bytes: 0,
            arguments: bytemuck::bytes_of(&[nodes_buffer.pointer::<u8>(), out.pointer()]),
            arguments_type: None,
            buffers: &[&nodes_buffer, &out, &batch.columns()[0].bodies()[0]],
        })?;
        let mut found = vec![0; expected.len()];
        stream.download(&out, 0, &mut found)?;
        Ok(found)
    });
    assert!(found == expected, "{kernel}");
}

/// Numbers of `row / 1024` times three bits, so that widths differ from vector to vector.
fn number(row: u64, bits: u32) -> u64 {
    let width = (row / 1024 * 3 + 1).min(u64::from(bits)) as u32;
    row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width)
}

#[test]
fn lanes_of_every_type_give_the_values_of_their_vectors() {
    // The last vector is short, but not so short that plain values would be smaller.
    const ROWS: u64 = 24_576 - 20;
    let eight = UInt8Array::from_iter_values((0..ROWS).map(|row| number(row, 7) as u8));
    check_lanes(&(Arc::new(eight) as ArrayRef), Encoding::Ffor, "iterate_ffor_8");
    let sixteen = UInt16Array::from_iter_values((0..ROWS).map(|row| number(row, 15) as u16));
    check_lanes(&(Arc::new(sixteen) as ArrayRef), Encoding::Ffor, "iterate_ffor_16");
    let narrow = UInt32Array::from_iter_values((0..ROWS).map(|row| number(row, 31) as u32));
    check_lanes(&(Arc::new(narrow) as ArrayRef), Encoding::Ffor, "iterate_ffor_32");
    let wide = UInt64Array::from_iter_values((0..ROWS).map(|row| number(row, 62)));
    check_lanes(&(Arc::new(wide) as ArrayRef), Encoding::Ffor, "iterate_ffor_64");
    let value = |row: u64| match row % 97 {
        0 => f64::NAN,
        1 => -0.0,
        _ => number(row, 20) as f64 / 100.0,
    };
    let doubles = Float64Array::from_iter_values((0..ROWS).map(value));
    check_lanes(&(Arc::new(doubles) as ArrayRef), Encoding::Alp, "iterate_alp_64");
    let value = |row: u64| match row % 97 {
        0 => f32::NEG_INFINITY,
        1 => -0.0,
        _ => number(row, 14) as f32 / 10.0,
    };
    let floats = Float32Array::from_iter_values((0..ROWS).map(value));
    check_lanes(&(Arc::new(floats) as ArrayRef), Encoding::Alp, "iterate_alp_32");
}

/// `ValuesArguments` of `kernels/simt/iterators.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Values {
    node: DevicePtr<DeviceNode>,
    places: DevicePtr<[u32; 4]>,
    out: DevicePtr<u8>,
    wrong: DevicePtr<u32>,
    count: u32,
    zero: u32,
}

#[test]
fn strings_decode_value_by_value() {
    let text = |row: usize| match row % 11 {
        0 => String::new(),
        1 => "\u{1}\u{2}\u{7f}".repeat(row % 5),
        _ => format!("https://example.org/{}/{}", row % 37, "long ".repeat(row % 300)),
    };
    let values = StringArray::from_iter_values((0..1500).map(text));
    let bytes = values.values().to_vec();
    let offsets: Vec<u32> = values.offsets().iter().map(|offset| *offset as u32).collect();
    let engine = Engine::simt(4, 1 << 30);
    let (column, batch) = upload(&engine, &(Arc::new(values) as ArrayRef), Encoding::Fsst);
    let root = column.chunks()[0].root();
    assert_eq!((column.chunks().len(), root.encoding()), (1, Encoding::Fsst));
    let mut code_lengths = vec![0; root.len()];
    encoding::decode(root.child(0), 0..root.len(), Output::W32(&mut code_lengths)).unwrap();
    let mut codes_at = 0;
    let places: Vec<[u32; 4]> = (code_lengths.iter().zip(offsets.windows(2)))
        .map(|(codes, pair)| {
            let place = [codes_at, *codes, pair[0], pair[1] - pair[0]];
            codes_at += codes;
            place
        })
        .collect();
    let nodes = batch.columns()[0].nodes().unwrap();
    assert_eq!(batch.columns()[0].child_nodes(1).unwrap()[0].unwrap().0.rows, 1500);
    let (found, wrong) = with_stream(&engine, |stream| {
        let nodes_buffer = uploaded(stream, &nodes)?;
        let places_buffer = uploaded(stream, bytemuck::cast_slice::<_, u32>(&places))?;
        let (out, wrong) = (stream.allocate(bytes.len())?, uploaded(stream, &[0_u32])?);
        let arguments = Values {
            node: nodes_buffer.pointer(),
            places: places_buffer.pointer(),
            out: out.pointer(),
            wrong: wrong.pointer(),
            count: places.len() as u32,
            zero: 0,
        };
        stream.launch(&Launch {
            module: None,
            kernel: "iterate_fsst",
            blocks: 1,
            threads: 64,
            shared: 0,
            cache_bytes: 0,
            arguments: bytemuck::bytes_of(&arguments),
            arguments_type: None,
            buffers: &[
                &nodes_buffer,
                &places_buffer,
                &out,
                &wrong,
                &batch.columns()[0].bodies()[0],
            ],
        })?;
        let (mut found, mut count) = (vec![0; bytes.len()], [0; 4]);
        stream.download(&out, 0, &mut found)?;
        stream.download(&wrong, 0, &mut count)?;
        Ok((found, u32::from_le_bytes(count)))
    });
    assert_eq!(wrong, 0);
    assert!(found == bytes);
}
