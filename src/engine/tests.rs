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
    sum: u64,
    bound: f64,
    blocks_per_node: u32,
    zero: u32,
}

#[test]
fn a_kernel_of_a_user_reads_a_compressed_column() {
    let value = |row: u32| if row.is_multiple_of(91) { 1e300 } else { f64::from(row % 977) / 4.0 };
    let values = Float64Array::from_iter_values((0..5000).map(value));
    let expected: f64 = values.iter().flatten().filter(|value| *value > 100.0).sum();
    let array: ArrayRef = Arc::new(values);
    let options = Options::default().with_chunk_rows(2048);
    let (field, storage) = compress_array(&array, &options).unwrap().to_arrow("price");
    let schema = Arc::new(Schema::new(vec![field]));
    let packed = RecordBatch::try_new(schema, vec![Arc::new(storage)]).unwrap();

    let engine = Engine::simt(1, 1 << 30);
    let Kind::Device(context) = &engine.kind else { panic!("a device") };
    let batch = engine.upload(&packed).unwrap();
    let column = &batch.columns()[0];
    let nodes = column.nodes().unwrap();
    assert_eq!(nodes.len(), 3);
    let sum = context.with_stream(|stream| {
        let nodes_buffer = stream.allocate(size_of_val(nodes.as_slice()))?;
        stream.upload(bytemuck::cast_slice(&nodes), &nodes_buffer, 0)?;
        let sum = stream.allocate(8)?;
        stream.fill(&sum, 0, 8, 0)?;
        let arguments = SumAbove {
            nodes: nodes_buffer.address(),
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
