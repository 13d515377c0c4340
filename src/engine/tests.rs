//! Kernels of users, over the nodes that a column hands out.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::Schema;
use bytemuck::{Pod, Zeroable};

use super::{Engine, Kind};
use crate::gpu::Launch;
use crate::{Options, compress_array};

/// `SumAboveArguments` of `kernels/examples/sum_above.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SumAbove {
    nodes: u64,
    validity: u64,
    sum: u64,
    bound: f64,
    blocks_per_node: u32,
    zero: u32,
}

#[test]
fn a_kernel_of_a_user_reads_a_compressed_column() {
    // Chunks of alp with nulls and exceptions, of one value, and of random bits.
    let value = |row: u32| match row {
        0..4096 if row.is_multiple_of(7) => None,
        0..4096 if row.is_multiple_of(91) => Some(1e300),
        0..4096 => Some(f64::from(row % 977) / 4.0),
        4096..6144 => Some(250.5),
        _ => Some(f64::from_bits(
            0x4080_0000_0000_0000 | u64::from(row).wrapping_mul(0x9e37_79b9_7f4a),
        )),
    };
    let values = Float64Array::from_iter((0..7000).map(value));
    let expected: f64 = values.iter().flatten().filter(|value| *value > 100.0).sum();
    let array: ArrayRef = Arc::new(values);
    let options = Options::default().with_chunk_rows(2048);
    let column = compress_array(&array, &options).unwrap();
    assert_eq!(column.encoding(), "alp+constant+plain");
    let (field, storage) = column.to_arrow("price");
    let schema = Arc::new(Schema::new(vec![field]));
    let packed = RecordBatch::try_new(schema, vec![Arc::new(storage)]).unwrap();

    let engine = Engine::simt(1, 1 << 30);
    let Kind::Device(context) = &engine.kind else { panic!("a device") };
    let batch = engine.upload(&packed).unwrap();
    let column = &batch.columns()[0];
    let nodes = column.nodes().unwrap();
    let validity = column.validity_nodes().unwrap();
    assert_eq!((nodes.len(), validity.len()), (4, 4));
    let sum = context.with_stream(|stream| {
        let bytes = size_of_val(nodes.as_slice());
        let nodes_buffer = stream.allocate(2 * bytes)?;
        stream.upload(bytemuck::cast_slice(&nodes), &nodes_buffer, 0)?;
        stream.upload(bytemuck::cast_slice(&validity), &nodes_buffer, bytes)?;
        let sum = stream.allocate(8)?;
        stream.fill(&sum, 0, 8, 0)?;
        let arguments = SumAbove {
            nodes: nodes_buffer.address(),
            validity: nodes_buffer.address() + bytes as u64,
            sum: sum.address(),
            bound: 100.0,
            blocks_per_node: 1,
            zero: 0,
        };
        stream.launch(&Launch {
            kernel: "sum_above",
            blocks: nodes.len(),
            threads: 256,
            arguments: bytemuck::bytes_of(&arguments),
            buffers: &[&nodes_buffer, &sum, column.bodies()],
        })?;
        let mut bytes = [0; 8];
        stream.download(&sum, 0, &mut bytes)?;
        Ok(f64::from_le_bytes(bytes))
    });
    let sum = sum.unwrap();
    assert!((sum - expected).abs() <= expected * 1e-12, "{sum}, not {expected}");
}
