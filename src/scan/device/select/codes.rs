//! Tests of codes of words, for kernels that are compiled for a query: the values of all dictionaries of a
//! column are asked first. All of it stays on the device, so that the host does the same however many
//! chunks there are.
//!
//! ```text
//! dictionaries --probe_keys or values_in_ranges--> a bit for each value
//!              --code_ranges--> a test for each chunk; of chunks without a dictionary that nothing passes
//! ```

use std::sync::Arc;

use super::{WordType, bitmap_len, probe_keys};
use crate::decode::nodes::ColumnNodes;
use crate::device::DeviceColumn;
use crate::device::parameters::Parameters;
use crate::error::Result;
use crate::gpu::abi::{self, Range, StringsTest};
use crate::gpu::{DeviceBuffer, DevicePtr, Launch, Stream, kernels};
use crate::scan::join::Probe;
use crate::scan::lookup::DeviceTable;

/// The tests of the chunks of a column, known once kernels that were started are done.
pub(crate) struct CodeTests {
    pub tests: DevicePtr<StringsTest>,
    /// What has them, and what they point to.
    pub buffer: Arc<DeviceBuffer>,
}

/// Starts to test whether the words of a column, which has these nodes, lie in ranges, which are in the order
/// domain of their type.
///
/// # Errors
/// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error).
pub(crate) fn in_ranges(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    nodes: &ColumnNodes,
    of: WordType,
    ranges: &[Range],
) -> Result<CodeTests> {
    let kernel = kernels::VALUES_IN_RANGES;
    let dictionaries = &nodes.dictionaries;
    tests(stream, column, nodes, |found, values| {
        let mut parameters = Parameters::default();
        let at = parameters.push(ranges);
        let parameters = parameters.upload(stream)?;
        let blocks_per_node = kernel.blocks_per_node(dictionaries.count, dictionaries.longest);
        let arguments = abi::ValuesInRangesArguments {
            nodes: dictionaries.values,
            out: found.pointer(),
            ranges: at.within(&parameters),
            range_count: ranges.len() as u32,
            order: of.order,
            value_bytes: (of.bits / 8) as u32,
            blocks_per_node,
        };
        let mut buffers = vec![&parameters, found.as_ref()];
        buffers.extend(values);
        let blocks = dictionaries.count * blocks_per_node as usize;
        stream.launch(&Launch::new(kernel, blocks, &arguments, &buffers))
    })
}

/// Starts to test whether a lookup has the keys of a column, which has these nodes.
///
/// # Errors
/// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error).
pub(crate) fn in_lookup(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    nodes: &ColumnNodes,
    probe: &Probe,
    table: &DeviceTable,
) -> Result<CodeTests> {
    tests(stream, column, nodes, |found, values| {
        probe_keys(stream, &nodes.dictionaries, values, probe, table, found)
    })
}

/// Starts kernels that make a test for each chunk; `ask` starts those that set a bit for each value that
/// passes, given the buffers that have the values.
fn tests(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    nodes: &ColumnNodes,
    ask: impl FnOnce(&Arc<DeviceBuffer>, &[&DeviceBuffer]) -> Result<()>,
) -> Result<CodeTests> {
    let dictionaries = &nodes.dictionaries;
    let ranges = bitmap_len(dictionaries.bits).next_multiple_of(64);
    let tests = (ranges + dictionaries.count * size_of::<abi::CodeRange>()).next_multiple_of(64);
    let size = tests + nodes.chunks * size_of::<StringsTest>();
    let buffer = Arc::new(stream.allocate(size)?);
    // Zeros are tests that nothing passes.
    stream.fill(&buffer, 0, size, 0)?;
    let tests = buffer.pointer_at(tests);
    if dictionaries.count > 0 {
        // Values that were not decoded lie in the column's bodies.
        let bodies = column.bodies().iter().map(AsRef::as_ref);
        let values: Vec<&DeviceBuffer> = nodes.buffers().chain(bodies).collect();
        ask(&buffer, &values)?;
        let kernel = kernels::CODE_RANGES;
        let arguments = abi::CodeRangesArguments {
            nodes: dictionaries.values,
            bitmap: buffer.pointer(),
            ranges: buffer.pointer_at(ranges),
            tests,
            count: dictionaries.count as u32,
            zero: 0,
        };
        let buffers: Vec<&DeviceBuffer> =
            std::iter::once(buffer.as_ref()).chain(nodes.buffers()).collect();
        let blocks = dictionaries.count.div_ceil(kernel.block);
        stream.launch(&Launch::new(kernel, blocks, &arguments, &buffers))?;
    }
    Ok(CodeTests { tests, buffer })
}
