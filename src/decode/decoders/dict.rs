//! Dict: codes of ffor, pfor and plain are unpacked and looked up in one pass, others are decoded
//! to scratch first, as dictionaries are, which mostly are small. Of codes that are runs, those of
//! runs are looked up, and their values spread.
//!
//! Strings are looked up by `decode/strings.rs`, their lengths as words by this.

use std::sync::Arc;

use super::strings::with_starts;
use super::{Decoder, by_width};
use crate::decode::cascade::{CODES, plain};
use crate::decode::program::{Job, Launched, Program, Target, checked_to, most_rows};
use crate::encoding::{Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::abi::{DictArguments, DictSharedArguments, Node};
use crate::gpu::kernels::{ByWidth, Kernel, rows, shape, unit};
use crate::gpu::{DeviceBuffer, DevicePtr};
use crate::lanes::VECTOR;

/// The encodings of codes that kernels look up, and these by bits of the values; units are of
/// codes.
const LOOKED_UP: [(Encoding, ByWidth<DictArguments>); 3] =
    [(Encoding::Ffor, DICT_FFOR), (Encoding::Pfor, DICT_PFOR), (Encoding::Plain, DICT_PLAIN)];
const DICT_FFOR: ByWidth<DictArguments> = [
    unit("dict_ffor_8", 4),
    unit("dict_ffor_16", 4),
    unit("dict_ffor_32", 4),
    unit("dict_ffor_64", 4),
];
const DICT_PFOR: ByWidth<DictArguments> = [
    unit("dict_pfor_8", 4),
    unit("dict_pfor_16", 4),
    unit("dict_pfor_32", 4),
    unit("dict_pfor_64", 4),
];
const DICT_PLAIN: ByWidth<DictArguments> = [
    unit("dict_plain_8", 4),
    unit("dict_plain_16", 4),
    unit("dict_plain_32", 4),
    unit("dict_plain_64", 4),
];

/// Blocks that stay: a launch says how many, and what shared memory they ask for. Of 32 and 64 bits.
const DICT_SHARED: [Kernel<DictSharedArguments>; 2] = [
    Kernel::new("dict_shared_32", "DICT_SHARED_THREADS", "DICT_SHARED_THREADS"),
    Kernel::new("dict_shared_64", "DICT_SHARED_THREADS", "DICT_SHARED_THREADS"),
];
/// Bytes of the least dictionary that is for these, and of shared memory that they have beside it.
const DICT_SHARED_LEAST: usize = shape("DICT_SHARED_LEAST") as usize;
const DICT_SHARED_OTHER: usize = shape("DICT_SHARED_OTHER") as usize;

const CHECK_THREADS: u32 = shape("DICT_CHECK_THREADS");
const DICT_CHECK: Kernel<DictArguments> =
    rows("dict_check", CHECK_THREADS, CHECK_THREADS as usize / 32 * VECTOR);

pub(super) struct Dict;

impl Decoder for Dict {
    fn encoding(&self) -> Encoding {
        Encoding::Dict
    }

    fn node(&self, target: &Target<'_>) -> Node {
        match target.view.physical() {
            Physical::Bytes => with_starts(target),
            _ => target.own_node(),
        }
    }

    /// Where codes are runs, of four rows or more, the codes of runs are looked up, and their
    /// values spread.
    fn decode_words(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let has_runs = |target: &&Target<'_>| {
            let codes = target.view.child(0);
            codes.encoding().is_runs() && codes.child(0).len() <= codes.len() / 4
        };
        let (runs, others): (Vec<Target<'_>>, Vec<Target<'_>>) = targets.iter().partition(has_runs);
        let reads = LOOKED_UP.map(|(encoding, _)| encoding);
        let children = |index| others.iter().map(|target| target.child(index)).collect::<Vec<_>>();
        let jobs = program.with_dictionaries(&children(0), &children(1), &reads)?;
        program.look_up(&jobs, bits, out)?;
        if runs.is_empty() {
            return Ok(());
        }
        let codes: Vec<Target<'_>> = runs.iter().map(|target| target.child(0)).collect();
        let mut rows = 0;
        let codes_of_runs = codes.iter().map(|codes| {
            let at = rows;
            rows += codes.child(0).view.len().next_multiple_of(VECTOR);
            Target { at, ..codes.child(0) }
        });
        let codes_of_runs: Vec<Target<'_>> = codes_of_runs.collect();
        let dictionaries: Vec<Target<'_>> = runs.iter().map(|target| target.child(1)).collect();
        let jobs = program.with_dictionaries(&codes_of_runs, &dictionaries, &reads)?;
        let scratch = program.scratch(rows * bits / 8)?;
        program.look_up(&jobs, bits, &scratch)?;
        let values = codes_of_runs
            .iter()
            .map(|target| plain(target, scratch.pointer_at::<u8>(target.at * bits / 8)));
        let values: Vec<Job> = values.collect();
        program.spread_runs(&codes, &values, bits, out)
    }
}

impl Program<'_> {
    /// Nodes of dict, with their dictionaries, for kernels that read the codes of scans.
    pub fn dictionaries(&mut self, targets: &[Target<'_>]) -> Result<Vec<Job>> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        let children = |index| targets.iter().map(|target| target.child(index)).collect::<Vec<_>>();
        self.with_dictionaries(&children(0), &children(1), &CODES)
    }

    /// Nodes of dict for kernels that know the encodings `reads` of codes, of codes and
    /// dictionaries.
    fn with_dictionaries(
        &mut self,
        codes: &[Target<'_>],
        values: &[Target<'_>],
        reads: &[Encoding],
    ) -> Result<Vec<Job>> {
        let codes = self.readable(codes, reads)?;
        let values = self.readable(values, &[Encoding::Plain])?;
        let pairs = codes.iter().zip(&values);
        Ok(pairs.map(|(codes, values)| with_dictionary(codes, values)).collect())
    }

    /// Values of nodes of dict to `out`, whose codes are of ffor, pfor or plain.
    pub fn look_up(&mut self, jobs: &[Job], bits: usize, out: &Arc<DeviceBuffer>) -> Result<()> {
        let room = self.shared_room();
        let (large, small): (Vec<Job>, Vec<Job>) =
            jobs.iter().partition(|job| bits >= 32 && is_large(job, bits, room));
        self.look_up_large(&large, bits, out);
        for (codes, kernels) in LOOKED_UP {
            let kernel = by_width(&kernels, bits)
                .ok_or_else(|| Error::corrupt(format!("dictionaries of {bits} bits")))?;
            let has_codes = |job: &&Job| job.node.size >> 32 == codes as u64;
            let jobs: Vec<Job> = small.iter().filter(has_codes).copied().collect();
            let arguments = checked_to(out.pointer());
            self.step(kernel, &jobs, &[], most_rows(&jobs), arguments, &[out]);
        }
        Ok(())
    }

    /// Bytes of shared memory that a block has for a dictionary.
    fn shared_room(&self) -> usize {
        (self.stream.info().shared_memory as usize - DICT_SHARED_OTHER) / 16 * 16
    }

    /// The same of dictionaries that blocks have in shared memory.
    fn look_up_large(&mut self, jobs: &[Job], bits: usize, out: &Arc<DeviceBuffer>) {
        let multiprocessors = self.stream.info().multiprocessors as usize;
        let largest = jobs.iter().map(|job| dictionary_bytes(job, bits)).max().unwrap_or(0);
        let shared = largest.next_multiple_of(16).min(self.shared_room());
        let vectors = most_rows(jobs).div_ceil(VECTOR);
        let blocks = multiprocessors.min(jobs.len() * vectors);
        let out_at = out.pointer();
        let arguments = move |at: &Launched| DictSharedArguments {
            nodes: at.nodes,
            out: out_at,
            status: at.status,
            node_count: at.node_count,
            vectors_per_node: vectors as u32,
            shared_values: (shared * 8 / bits) as u32,
            zero: 0,
        };
        let kernel = DICT_SHARED[bits / 64];
        self.step_of_blocks(kernel, jobs, (blocks, shared as u32), arguments, &[out]);
    }
}

/// Bytes of the dictionary of a node of dict.
fn dictionary_bytes(job: &Job, bits: usize) -> usize {
    (job.node.size as u32) as usize * bits / 8
}

/// Whether a dictionary is worth reading as a whole before its codes: it is too large for the
/// first-level cache beside others, four fifths of it fit into `room` bytes of shared memory, and
/// there are more codes than values.
fn is_large(job: &Job, bits: usize, room: usize) -> bool {
    let bytes = dictionary_bytes(job, bits);
    let values = job.node.size as u32;
    bytes > DICT_SHARED_LEAST && bytes * 4 <= room * 5 && job.node.rows >= 2 * values
}

/// A node of dict, as `kernels/lanepack/dict.cuh` has it, of its codes and its plain values.
pub(in crate::decode) fn with_dictionary(codes: &Job, values: &Job) -> Job {
    let mut node = codes.node;
    node.buffer[3] = values.node.buffer[0];
    node.size = u64::from(values.node.rows) | u64::from(codes.node.encoding) << 32;
    node.encoding = Encoding::Dict as u16;
    Job { chunk: codes.chunk, node }
}

/// Adds the step that looks whether all codes of nodes of dict have a value.
pub(in crate::decode) fn check_codes(program: &mut Program<'_>, jobs: &[Job]) {
    let is_dict = |job: &&Job| job.node.encoding == Encoding::Dict as u16;
    let jobs: Vec<Job> = jobs.iter().filter(is_dict).copied().collect();
    program.step(DICT_CHECK, &jobs, &[], most_rows(&jobs), checked_to(DevicePtr::NULL), &[]);
}
