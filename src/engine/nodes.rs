//! The nodes of a column in device memory, where scans look again and again: made, with what
//! code for a column has to know of it, when a column is scanned for the first time, and kept.
//!
//! ```text
//! lists      words up to 64 bits: the roots        booleans: the roots
//!            wider ones: for each limb the node that holds it in each chunk
//!            strings: the roots, and the lengths as they are stored
//! validity   of each chunk the bits of valid rows, or a constant
//! ```

use std::sync::Arc;

use super::column::DeviceColumn;
use super::decode::{check_scannable, roots, validity};
use super::program::Target;
use super::select::stored_lengths;
use crate::column::physical_of;
use crate::encoding::{Encoding, Physical};
use crate::error::Result;
use crate::gpu::abi::{self, Node};
use crate::gpu::kernels;
use crate::gpu::{DeviceBuffer, Event, Launch, Stream};

/// The lists of nodes of a column.
#[derive(Debug)]
pub(crate) struct ColumnNodes {
    buffer: Arc<DeviceBuffer>,
    ready: Arc<dyn Event>,
    pub lists: Vec<NodeList>,
    /// Address of the nodes of the validity.
    pub validity: u64,
    pub has_nulls: bool,
    /// Vectors of the longest chunk, and rows of all.
    pub longest: usize,
    pub chunks: usize,
}

/// A node for each chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NodeList {
    pub address: u64,
    /// Which encodings there are, as bits by their ids.
    pub encodings: u32,
    /// Widths of packed vectors, bit w - 1 for width w.
    pub widths: u64,
    /// Bytes of a value.
    size: u32,
}

impl NodeList {
    /// Bits that a value takes at most, roughly.
    pub fn bits(&self) -> u32 {
        let stored = [Encoding::Plain as u32, abi::STRIDED].map(abi::encoding_bit);
        match stored.iter().any(|bit| self.encodings & bit != 0) {
            true => 8 * self.size,
            false => 64 - self.widths.leading_zeros(),
        }
    }
}

impl ColumnNodes {
    /// What launches that use the nodes have to name.
    pub fn buffer(&self) -> &DeviceBuffer {
        &self.buffer
    }

    /// Uploads the nodes of a column; waits for the device.
    fn new(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Self> {
        check_scannable(column)?;
        stream.wait(column.ready())?;
        let targets = roots(column.chunks());
        let mut parts: Vec<Vec<Node>> =
            vec![validity(column.chunks()).iter().map(|job| job.node).collect()];
        let physical = physical_of(column.field().data_type());
        let size = match physical {
            // Of a length; of strings themselves nothing is said.
            Physical::Bytes => 4,
            Physical::Bool => 1,
            _ => physical.bits().unwrap_or(0).min(64) as u32 / 8,
        };
        match physical {
            Physical::Bytes => {
                parts.push(targets.iter().map(Target::node).collect());
                parts.push(targets.iter().map(stored_lengths).collect());
            }
            Physical::I128 | Physical::I256 => parts.extend(limbs(&targets)),
            _ => parts.push(targets.iter().map(Target::node).collect()),
        }
        let nodes: Vec<Node> = parts.concat();
        let widths_at = size_of_val(nodes.as_slice());
        let buffer = Arc::new(stream.allocate(widths_at + 8 * parts.len())?);
        stream.upload(bytemuck::cast_slice(&nodes), &buffer, 0)?;
        stream.fill(&buffer, widths_at, 8 * parts.len(), 0)?;
        let address =
            |part: usize| buffer.address() + (part * targets.len() * size_of::<Node>()) as u64;
        let mut lists: Vec<NodeList> = (parts.iter().enumerate().skip(1))
            .map(|(part, nodes)| {
                let bit = |node: &Node| abi::encoding_bit(node.encoding);
                let encodings = nodes.iter().map(bit).fold(0, |all, bit| all | bit);
                NodeList { address: address(part), encodings, widths: 0, size }
            })
            .collect();
        if physical != Physical::Bool {
            for (index, list) in lists.iter_mut().enumerate() {
                list.widths = widths(stream, column, &buffer, list, widths_at + 8 * index)?;
            }
        }
        let longest = targets.iter().map(|target| target.view.len()).max().unwrap_or(0);
        Ok(Self {
            ready: stream.record()?,
            lists,
            validity: address(0),
            has_nulls: column.null_count() > 0,
            longest: longest.div_ceil(crate::lanes::VECTOR),
            chunks: targets.len(),
            buffer,
        })
    }
}

/// The widths of the packed vectors of a list, found at `at` of its buffer; waits for them.
fn widths(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    buffer: &Arc<DeviceBuffer>,
    list: &NodeList,
    at: usize,
) -> Result<u64> {
    let packed = [Encoding::Ffor, Encoding::Alp].map(|of| abi::encoding_bit(of as u32));
    if packed.iter().all(|bit| list.encodings & bit == 0) {
        return Ok(0);
    }
    let kernel = kernels::PACKED_WIDTHS;
    let arguments = abi::WidthsArguments {
        nodes: list.address,
        out: buffer.address() + at as u64,
        count: column.chunks().len() as u32,
        size: list.size,
    };
    let mut buffers: Vec<&DeviceBuffer> = vec![buffer];
    buffers.extend(column.bodies().iter().map(AsRef::as_ref));
    stream.launch(&Launch {
        module: None,
        kernel: kernel.name,
        blocks: column.chunks().len().div_ceil(kernel.block),
        threads: kernel.threads,
        shared: kernel.shared,
        arguments: bytemuck::bytes_of(&arguments),
        buffers: &buffers,
    })?;
    let mut word = [0; 8];
    stream.download(buffer, at, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// For each limb that some chunk has, the node that holds it in every chunk.
fn limbs(targets: &[Target<'_>]) -> Vec<Vec<Node>> {
    let words = |target: &Target<'_>| target.view.physical().bits().unwrap_or(64) / 64;
    let count = |target: &Target<'_>| match target.view.encoding() {
        Encoding::Limbs => target.view.child_count(),
        _ => words(target),
    };
    let limb = |target: &Target<'_>, limb: usize| match target.view.encoding() {
        Encoding::Limbs if limb < target.view.child_count() => {
            Target { view: target.view.child(limb), ..*target }.node()
        }
        Encoding::Limbs => Node { encoding: abi::SIGN, buffer: [0; 4], ..target.node() },
        _ => {
            let mut node = target.node();
            node.buffer[0] += limb as u64 * 8;
            Node { encoding: abi::STRIDED, size: words(target) as u64, ..node }
        }
    };
    let most = targets.iter().map(count).max().unwrap_or(0);
    (0..most).map(|index| targets.iter().map(|target| limb(target, index)).collect()).collect()
}

impl DeviceColumn {
    /// The nodes of the column, usable on a stream.
    pub(crate) fn scan_nodes(&self, stream: &Arc<dyn Stream>) -> Result<Arc<ColumnNodes>> {
        let nodes = self.keep_nodes(|| ColumnNodes::new(stream, self).map(Arc::new))?;
        stream.wait(nodes.ready.as_ref())?;
        Ok(nodes)
    }
}
