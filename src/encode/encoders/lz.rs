//! Bytes that other encodings leave, as lz: `kernels/encode_lz.cu`.
//!
//! ```text
//! bytes of chunks --counts of looks, then of samples--> host: shapes, estimates
//!        '--------streams of all segments, to scratch--> host: sizes --> bodies
//! ```
//!
//! What a sample is, and what it promises, is the CPU's (`encoding/lz/plan.rs`). Nothing is
//! chosen but what saves a tenth of all else, so chunks that are chosen are compressed at once.
//! Scratch: up to 1.9 bytes for each byte of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::chunk::EncodedNode;
use crate::device::groups::size_groups;
use crate::encode::launch::{Launcher, Pending};
use crate::encode::write::Job;
use crate::encoding::lz::{LzBytes, MOST_SEGMENT_BYTES, Promise, Shape, smallest};
use crate::error::{Error, Result};
use crate::gpu::abi::{self, Header, constant};
use crate::gpu::{DeviceBuffer, DevicePtr, kernels};
use crate::options::Lz as Settings;

const SOURCE: &Header = &Header::read(include_str!("../../../kernels/encode_lz.cuh"));
const _: () = assert!(constant(SOURCE, "MAX_LZ_SEGMENT") == MOST_SEGMENT_BYTES as u64);

/// A chunk that others leave.
#[derive(Clone, Copy)]
pub(in crate::encode) struct Candidate {
    pub chunk: usize,
    /// Its bytes, at a multiple of 8, in padded memory.
    pub from: DevicePtr<u8>,
    pub of: LzBytes,
}

/// Parts of a candidate that are to be looked at.
struct LzSample {
    candidate: usize,
    shape: Shape,
    parts: Vec<Range<usize>>,
}

/// What chunks promise; waits.
pub(in crate::encode) fn promises(
    launcher: &mut Launcher<'_>,
    candidates: &[Candidate],
    settings: &Settings,
) -> Result<Vec<Option<Promise>>> {
    let all = candidates.iter().enumerate().flat_map(|(candidate, Candidate { of, .. })| {
        let shapes = of.shapes(settings).into_iter();
        shapes.map(move |shape| (candidate, shape, of))
    });
    let looks = all.clone().map(|(candidate, shape, of)| {
        let parts = of.first_looks(shape).collect();
        LzSample { candidate, shape, parts }
    });
    let looks: Vec<LzSample> = looks.collect();
    let mut is_worth = vec![false; candidates.len()];
    let counts = counts_of(launcher, candidates, &looks)?;
    for (look, [_, matches, _]) in looks.iter().zip(counts) {
        is_worth[look.candidate] |= matches > 0;
    }
    let samples = all.filter(|(candidate, ..)| is_worth[*candidate]);
    let samples: Vec<LzSample> = samples
        .map(|(candidate, shape, of)| {
            let parts = of.sample(shape).collect();
            LzSample { candidate, shape, parts }
        })
        .collect();
    let counts = counts_of(launcher, candidates, &samples)?;
    let mut promises = vec![None; candidates.len()];
    let sampled: Vec<(&LzSample, [usize; 3])> = samples.iter().zip(counts).collect();
    for shapes in sampled.chunk_by(|(one, _), (other, _)| one.candidate == other.candidate) {
        let candidate = shapes[0].0.candidate;
        let of = &candidates[candidate].of;
        let lens = |(look, counts): &(&LzSample, _)| (look.shape, of.lens(look.shape, *counts));
        promises[candidate] = smallest(shapes.iter().map(lens));
    }
    Ok(promises)
}

/// Flags, matches and literals of looks; waits.
fn counts_of(
    launcher: &mut Launcher<'_>,
    candidates: &[Candidate],
    looks: &[LzSample],
) -> Result<Vec<[usize; 3]>> {
    let mut counts = vec![[0; 3]; looks.len()];
    let mut started: Vec<(Vec<usize>, Pending<[u32; 3]>)> = Vec::new();
    for (shape, of_shape) in by_shape(looks.iter().map(|look| look.shape)) {
        let parts = of_shape.iter().flat_map(|look| {
            let LzSample { candidate, parts, .. } = &looks[*look];
            parts.iter().map(move |part| (*look, candidates[*candidate].from, part))
        });
        let (owners, chunks): (Vec<usize>, Vec<abi::LzChunk>) = (parts.enumerate())
            .map(|(number, (look, from, part))| {
                let (bytes, first) = (from.add(part.start), number as u32);
                (look, abi::LzChunk { bytes, len: part.len() as u64, first, zero: 0 })
            })
            .unzip();
        let places = launcher.allocate(chunks.len() * 12)?;
        let arguments = abi::LzArguments {
            chunks: launcher.upload(&chunks)?,
            places: places.pointer(),
            count: chunks.len() as u32,
            most_segments: 1,
            ..arguments_of(shape)
        };
        find(launcher, shape, &arguments)?;
        started.push((owners, launcher.result(&places, 0, chunks.len())?));
    }
    for (owners, pending) in started {
        for (look, found) in owners.into_iter().zip(launcher.read(&pending)?) {
            counts[look].iter_mut().zip(found).for_each(|(sum, count)| *sum += count as usize);
        }
    }
    Ok(counts)
}

/// The numbers of those that have the same shape.
fn by_shape(shapes: impl Iterator<Item = Shape>) -> Vec<(Shape, Vec<usize>)> {
    let mut all: Vec<(Shape, Vec<usize>)> = Vec::new();
    for (number, shape) in shapes.enumerate() {
        match all.iter_mut().find(|(other, _)| *other == shape) {
            Some((_, numbers)) => numbers.push(number),
            None => all.push((shape, vec![number])),
        }
    }
    all
}

/// What arguments for segments of a shape have in common.
fn arguments_of(shape: Shape) -> abi::LzArguments {
    let matches = shape.segment / shape.least();
    let lengths_at = (matches * shape.offset).next_multiple_of(8);
    abi::LzArguments {
        segment: shape.segment as u32,
        symbol: shape.symbol as u32,
        offset: shape.offset as u32,
        window: shape.window as u32,
        token_bytes: (lengths_at + matches).next_multiple_of(8) as u32,
        lengths_at: lengths_at as u32,
        ..Default::default()
    }
}

/// Starts finding the matches of all segments.
fn find(launcher: &mut Launcher<'_>, shape: Shape, arguments: &abi::LzArguments) -> Result<()> {
    let kernel = kernels::LZ_FIND[shape.offset - 1][shape.symbol.trailing_zeros() as usize];
    let segments = arguments.count as usize * arguments.most_segments as usize;
    launcher.launch(kernel, segments.div_ceil(kernel.block), arguments)
}

/// Chunks whose segments are compressed, to scratch.
#[derive(Default)]
pub(in crate::encode) struct LzChunks {
    groups: Vec<Group>,
    /// For each such chunk its group, and its number there.
    places: BTreeMap<usize, (usize, usize)>,
}

/// Chunks whose segments have one shape (`size_groups`).
struct Group {
    shape: Shape,
    arguments: abi::LzArguments,
    bytes: Vec<usize>,
    /// Flags, matches and literals of each chunk.
    totals: Vec<[usize; 3]>,
}

impl LzChunks {
    /// Compresses chunks; waits for their sizes.
    pub fn new(launcher: &mut Launcher<'_>, chosen: &[(Candidate, Shape)]) -> Result<Self> {
        let mut this = Self::default();
        let mut started = Vec::new();
        let groups = by_shape(chosen.iter().map(|(_, shape)| *shape)).into_iter();
        let groups = groups.flat_map(|(shape, of_shape)| {
            let of_shape = of_shape.into_iter().map(|number| chosen[number].0).collect();
            let size = |candidate: &Candidate| candidate.of.bytes;
            size_groups(of_shape, size).into_iter().map(move |group| (shape, group))
        });
        for (shape, candidates) in groups {
            for (number, candidate) in candidates.iter().enumerate() {
                this.places.insert(candidate.chunk, (this.groups.len(), number));
            }
            let (arguments, totals) = start(launcher, shape, &candidates)?;
            started.push(launcher.result::<[u32; 3]>(&totals, 0, candidates.len())?);
            let bytes = candidates.iter().map(|candidate| candidate.of.bytes).collect();
            this.groups.push(Group { shape, arguments, bytes, totals: Vec::new() });
        }
        for (group, pending) in this.groups.iter_mut().zip(started) {
            let totals = launcher.read(&pending)?.into_iter();
            group.totals = totals.map(|counts| counts.map(|count| count as usize)).collect();
        }
        Ok(this)
    }

    /// Whether a chunk is among them.
    pub fn has(&self, chunk: usize) -> bool {
        self.places.contains_key(&chunk)
    }

    /// Sets the parameters and the first four buffers of a chunk's node.
    pub fn fill<B>(
        &self,
        chunk: usize,
        node: &mut EncodedNode<B>,
        part: impl Fn(usize) -> B,
    ) -> Result<()> {
        let missing = || Error::device("a chunk that has not been compressed");
        let (group, number) = *self.places.get(&chunk).ok_or_else(missing)?;
        let Group { shape, bytes, totals, .. } = &self.groups[group];
        node.parameters = [bytes[number] as u64, shape.parameter()];
        node.buffers = shape.lens(bytes[number], totals[number]).into_iter().map(part).collect();
        Ok(())
    }

    /// Starts writing the first four buffers of nodes, given the chunk of each.
    pub fn write<'a>(
        &self,
        launcher: &mut Launcher<'_>,
        jobs: impl Iterator<Item = (usize, &'a Job)>,
    ) -> Result<()> {
        let mut targets: Vec<Vec<abi::LzTarget>> = vec![Vec::new(); self.groups.len()];
        for (chunk, job) in jobs {
            if let Some((group, number)) = self.places.get(&chunk) {
                let [literals, matches, flags, segments, ..] = job.buffers;
                let buffer = [literals, matches, flags, segments];
                targets[*group].push(abi::LzTarget { buffer, chunk: *number as u32, zero: 0 });
            }
        }
        for (group, targets) in self.groups.iter().zip(targets) {
            if targets.is_empty() {
                continue;
            }
            let arguments = abi::LzArguments {
                targets: launcher.upload(&targets)?,
                count: targets.len() as u32,
                ..group.arguments
            };
            let segments = targets.len() * arguments.most_segments as usize;
            for kernel in [kernels::LZ_BORDERS, kernels::LZ_WRITE] {
                launcher.launch(kernel, segments.div_ceil(kernel.block), &arguments)?;
            }
        }
        Ok(())
    }
}

/// Starts compressing chunks: what kernels know of them, and where their totals will be.
fn start(
    launcher: &mut Launcher<'_>,
    shape: Shape,
    candidates: &[Candidate],
) -> Result<(abi::LzArguments, Arc<DeviceBuffer>)> {
    let (mut segments, mut most) = (0, 0);
    let chunk = |candidate: &Candidate| {
        let len = candidate.of.bytes;
        let (first, own) = (segments as u32, len.div_ceil(shape.segment_bytes()));
        segments += own;
        most = most.max(own);
        abi::LzChunk { bytes: candidate.from, len: len as u64, first, zero: 0 }
    };
    let chunks: Vec<abi::LzChunk> = candidates.iter().map(chunk).collect();
    let totals = launcher.allocate(chunks.len() * 12)?;
    let mut scratch = |bytes: usize| launcher.allocate(segments * bytes);
    let of_shape = arguments_of(shape);
    let arguments = abi::LzArguments {
        places: scratch(12)?.pointer(),
        literals: scratch(shape.segment_bytes())?.pointer(),
        tokens: scratch(of_shape.token_bytes as usize)?.pointer(),
        flags: scratch(shape.segment / 8)?.pointer(),
        totals: totals.pointer(),
        chunks: launcher.upload(&chunks)?,
        count: chunks.len() as u32,
        most_segments: most as u32,
        ..of_shape
    };
    find(launcher, shape, &arguments)?;
    launcher.launch(kernels::LZ_LAYOUT, chunks.len(), &arguments)?;
    Ok((arguments, totals))
}
