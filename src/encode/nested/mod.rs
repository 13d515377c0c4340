//! Nested columns: taken apart on the host as the CPU does, their leaves encoded by kernels, and put
//! together on the device.
//!
//! ```text
//! array in host memory --split, chunk by chunk--> trees (tree.rs)
//! leaves: values, lengths, nulls --upload--> columns of one type (columns.rs) --encode--> bodies
//! trees, plans of leaves --plan--> nodes, headers, places;  buffers of leaves --copy--> bodies
//! ```
//!
//! Leaves of all places of the tree and of all chunks of a part are encoded together if they have the
//! same type and about as many values: a struct of ten integers is one column of ten times the
//! chunks, and all its strings train their symbol tables at a time. What kernels do not encode, short
//! leaves and arrays that are carried as Arrow IPC, the host encodes and uploads. Buffers of leaves
//! are copied once more to their places, a read and a write of what is compressed.

mod columns;
mod tree;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::FieldRef;
use rayon::prelude::*;

use super::launch::{Launcher, Scope};
use super::write::{self, HostCopies};
use super::{part_bytes, side_by_side, with_launcher};
use crate::chunk::{Chunk, Header, Statistics, aligned, lay_out};
use crate::column::{compress_chunk, whole};
use crate::device::Context;
use crate::device::column::{Bounds, DeviceChunk, DeviceColumn};
use crate::encoding::nested::Values;
use crate::encoding::plan;
use crate::error::{Error, Place, Result};
use crate::gpu::abi::ByteSpan;
use crate::gpu::{DeviceBuffer, DevicePtr, Event};
use crate::options::Options;
use columns::{LeafColumn, columns_of};
use tree::{EncodedPiece, NodeBuffer, Tree, buffers_in_order};

/// Compresses a nested column that lies in host memory, to device memory.
pub(crate) fn compress_nested(
    context: &Arc<Context>,
    field: &FieldRef,
    array: &ArrayRef,
    options: &Options,
) -> Result<DeviceColumn> {
    let chunk_rows = options.chunk_rows;
    let slice = |start: usize| array.slice(start, chunk_rows.min(array.len() - start));
    let chunks: Vec<ArrayRef> = (0..array.len()).step_by(chunk_rows).map(slice).collect();
    let EncodedChunks { chunks: placed, bodies, ready } = encode_arrays(context, &chunks, options)?;
    let column = DeviceColumn::new(context.clone(), field.clone(), placed, bodies, ready);
    if options.verify {
        verify_chunks(column.download()?.chunks(), &chunks)?;
    }
    Ok(column)
}

/// Chunks in device memory, which are there at `ready`.
pub(crate) struct EncodedChunks {
    pub chunks: Vec<DeviceChunk>,
    pub bodies: Vec<Arc<DeviceBuffer>>,
    pub ready: Arc<dyn Event>,
}

/// Compresses arrays of any types that lie in host memory, each to one chunk, to device memory: what
/// they have of one type is encoded together.
pub(crate) fn encode_arrays(
    context: &Arc<Context>,
    chunks: &[ArrayRef],
    options: &Options,
) -> Result<EncodedChunks> {
    let plan_context = plan::Context::new(options, None);
    with_launcher(context, &mut (), |mut launcher| {
        let (mut placed, mut bodies) = (Vec::with_capacity(chunks.len()), Vec::new());
        let (mut start, mut rest) = (0, chunks);
        while !rest.is_empty() {
            let first = placed.len();
            let trees = trees_of_part(rest, part_bytes(context), &plan_context);
            let (part, others) = rest.split_at(trees.len());
            rest = others;
            launcher.scope = Scope::Part(0);
            let mut made =
                encode_chunks(context, &mut launcher, &trees, part, first, &plan_context)?;
            let body = write_chunks(&mut launcher, &mut made)?;
            launcher.release(launcher.scope);
            let statistics: Vec<Statistics> = part.par_iter().map(Statistics::of).collect();
            let mut at = body.pointer::<u8>();
            for (made, statistics) in made.into_iter().zip(statistics) {
                let (header, has_checksum) = match made {
                    MadeChunk::OfLeaves { header, .. } => (header, false),
                    MadeChunk::OfCpu(chunk) => (chunk.parsed_header().clone(), true),
                };
                let bounds = Bounds::Known(statistics);
                let chunk = DeviceChunk::new(header, has_checksum, bounds, at, start);
                at = at.add(chunk.body_len());
                start += chunk.rows();
                placed.push(chunk);
            }
            bodies.push(body);
        }
        Ok(EncodedChunks { chunks: placed, bodies, ready: launcher.stream.record()? })
    })
}

/// Compares the values of chunks with the arrays that they have been made of.
pub(crate) fn verify_chunks(chunks: &[Chunk], arrays: &[ArrayRef]) -> Result<()> {
    let verify = |(index, (chunk, array)): (usize, (&Chunk, &ArrayRef))| match &whole(
        chunk,
        array.data_type(),
    )? == array
    {
        true => Ok(()),
        false => Err(Error::Verify { place: Place::default() }.in_chunk(index)),
    };
    chunks.par_iter().zip(arrays).enumerate().try_for_each(verify)
}

/// Takes apart the first of some chunks: those that are encoded at a time, as their leaves have about
/// so many bytes.
fn trees_of_part(chunks: &[ArrayRef], most: usize, plan_context: &plan::Context<'_>) -> Vec<Tree> {
    const AT_A_TIME: usize = 16;
    let new = |array: &ArrayRef| Tree::new(Values::all(array.clone()), plan_context);
    let (mut trees, mut bytes) = (Vec::new(), 0);
    for some in chunks.chunks(AT_A_TIME) {
        if bytes >= most {
            break;
        }
        let first = trees.len();
        trees.par_extend(some.par_iter().map(new));
        bytes += trees[first..].iter().map(Tree::bytes).sum::<usize>();
    }
    trees
}

/// A chunk whose leaves have been encoded.
enum MadeChunk {
    /// A header, and where the buffers of the body come from and begin.
    OfLeaves { header: Header, buffers: Vec<(NodeBuffer, usize)> },
    /// What the CPU has compressed, as there is no room in a header for what was planned.
    OfCpu(Chunk),
}

impl MadeChunk {
    fn body_len(&self) -> usize {
        match self {
            Self::OfLeaves { header, .. } => header.body_len,
            Self::OfCpu(chunk) => chunk.body().len(),
        }
    }
}

/// Encodes the leaves of chunks, of which the first has a number in the column.
fn encode_chunks(
    context: &Arc<Context>,
    launcher: &mut Launcher<'_>,
    trees: &[Tree],
    chunks: &[ArrayRef],
    first: usize,
    plan_context: &plan::Context<'_>,
) -> Result<Vec<MadeChunk>> {
    let columns = columns_of(context, trees.iter().flat_map(Tree::leaves));
    let encode = |column: &LeafColumn<'_>| column.encode(context, plan_context.options);
    let mut pieces: Vec<(usize, EncodedPiece)> = Vec::new();
    for encoded in side_by_side(columns.iter().collect(), encode)? {
        launcher.stream.wait(encoded.ready.as_ref())?;
        launcher.keep(&encoded.bodies);
        pieces.extend(encoded.pieces);
    }
    pieces.sort_unstable_by_key(|(number, _)| *number);
    let mut pieces = pieces.into_iter().map(|(_, piece)| piece);
    let of_tree = |tree: &Tree| -> Vec<EncodedPiece> {
        let count = tree.leaves().iter().map(|leaf| leaf.pieces.len()).sum();
        pieces.by_ref().take(count).collect()
    };
    let pieces: Vec<Vec<EncodedPiece>> = trees.iter().map(of_tree).collect();
    let made = |(index, ((tree, pieces), array)): (usize, ((&Tree, _), &ArrayRef))| {
        made_of(tree, pieces, array, plan_context)
            .map_err(|error: Error| error.in_chunk(first + index))
    };
    trees.par_iter().zip(pieces).zip(chunks).enumerate().map(made).collect()
}

/// A chunk of what the pieces of its leaves have become.
fn made_of(
    tree: &Tree,
    pieces: Vec<EncodedPiece>,
    array: &ArrayRef,
    context: &plan::Context<'_>,
) -> Result<MadeChunk> {
    let (_, root) = tree.encode(&mut pieces.into_iter(), context)?;
    if !root.fits() {
        return compress_chunk(array, context.options).map(MadeChunk::OfCpu);
    }
    let (header, _) = lay_out(&root, array.logical_null_count(), NodeBuffer::len);
    let places = header.buffers.iter().map(|range| range.start);
    let buffers = buffers_in_order(root).into_iter().zip(places).collect();
    Ok(MadeChunk::OfLeaves { header, buffers })
}

/// Starts writing the bodies of chunks, one behind the other.
fn write_chunks(
    launcher: &mut Launcher<'_>,
    chunks: &mut [MadeChunk],
) -> Result<Arc<DeviceBuffer>> {
    let bodies = launcher.allocate(chunks.iter().map(MadeChunk::body_len).sum())?;
    let mut body: DevicePtr<u8> = bodies.pointer();
    let (mut spans, mut of_host) = (Vec::new(), HostCopies::default());
    for chunk in chunks {
        match chunk {
            MadeChunk::OfLeaves { buffers, .. } => {
                for (buffer, at) in std::mem::take(buffers) {
                    let to = body.add(at);
                    match buffer {
                        // Zeros follow up to the next buffer, as they do where it comes from.
                        NodeBuffer::Device { from, len } => {
                            spans.push(ByteSpan { from, to, bytes: aligned(len) as u64 });
                        }
                        NodeBuffer::Host(bytes) => of_host.add_padded(to, &bytes),
                    }
                }
            }
            MadeChunk::OfCpu(chunk) => of_host.add_padded(body, chunk.body()),
        }
        body = body.add(chunk.body_len());
    }
    write::copy_spans(launcher, &spans)?;
    of_host.start(launcher)?;
    Ok(bodies)
}
