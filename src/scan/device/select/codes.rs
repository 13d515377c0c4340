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

/// Starts to test whether words lie in ranges, which are in the order domain of their type.
///
/// # Errors
/// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error).
pub(crate) fn in_ranges(
    stream: &Arc<dyn Stream>,
    nodes: &ColumnNodes,
    of: WordType,
    ranges: &[Range],
) -> Result<CodeTests> {
    let kernel = kernels::VALUES_IN_RANGES;
    let dictionaries = &nodes.dictionaries;
    tests(stream, nodes, |found| {
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
        let buffers: Vec<&DeviceBuffer> =
            [&parameters, found.as_ref()].into_iter().chain(nodes.buffers()).collect();
        let blocks = dictionaries.count * blocks_per_node as usize;
        stream.launch(&Launch::new(kernel, blocks, &arguments, &buffers))
    })
}

/// Starts to test whether a lookup has keys.
///
/// # Errors
/// [`Error::DeviceMemory`](crate::Error), [`Error::Device`](crate::Error).
pub(crate) fn in_lookup(
    stream: &Arc<dyn Stream>,
    nodes: &ColumnNodes,
    probe: &Probe,
    table: &DeviceTable,
) -> Result<CodeTests> {
    let dictionaries = &nodes.dictionaries;
    tests(stream, nodes, |found| {
        let plain = (dictionaries.values, dictionaries.count, dictionaries.longest);
        let buffers: Vec<&DeviceBuffer> = nodes.buffers().collect();
        probe_keys(stream, plain, &buffers, probe, table, found)
    })
}

/// Starts what makes tests of the verdicts that `ask` starts to find, a bit for each value.
fn tests(
    stream: &Arc<dyn Stream>,
    nodes: &ColumnNodes,
    ask: impl FnOnce(&Arc<DeviceBuffer>) -> Result<()>,
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
        ask(&buffer)?;
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
