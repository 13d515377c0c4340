//! Words of cascades: which nodes a kernel reads together, and what is decoded to scratch
//! before.
//!
//! ```text
//! delta           one pass: its kernel unpacks the deltas itself (plain, constant, ffor, pfor)
//! dict            its kernels unpack codes of ffor and pfor; codes of other encodings are scratch
//!                 codes that are runs: those of runs are looked up, and their values spread
//!                 the dictionary, mostly small, is scratch
//! rle             its kernel reads lengths and values of ffor and pfor; other values are scratch
//! bits            the bytes are scratch: a bitmap
//! gcd             its kernels unpack quotients of ffor and pfor; others are scratch
//! lz              one pass; scans read scratch
//! limbs, lengths  a child that is not plain, constant or ffor is scratch
//! ```
//!
//! Scratch is a *plain* node, which all kernels know. It is written by the same steps as any
//! column, so cascades of any depth come apart level by level.

use std::sync::Arc;

use super::program::{Arguments, Job, Program, Target, jobs, longest, most_rows, of_encoding};
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::Node;
use crate::gpu::kernels::{self, Kernel};
use crate::lanes::VECTOR;

/// The encodings of words that kernels for children of other nodes know.
pub(super) const SIMPLE: [Encoding; 3] = [Encoding::Plain, Encoding::Constant, Encoding::Ffor];

/// The encodings of codes that scans of dictionaries know.
pub(super) const CODES: [Encoding; 2] = [Encoding::Ffor, Encoding::Plain];

/// The encodings of values and lengths of runs that kernels know.
const RUNS: [Encoding; 4] = [Encoding::Plain, Encoding::Constant, Encoding::Ffor, Encoding::Pfor];

/// The encodings of codes that kernels look up, and these by bits of the values.
const LOOKED_UP: [(Encoding, kernels::ByWidth); 3] = [
    (Encoding::Ffor, kernels::DICT_FFOR),
    (Encoding::Pfor, kernels::DICT_PFOR),
    (Encoding::Plain, kernels::DICT_PLAIN),
];

/// The encodings of quotients that kernels multiply, and these for 32 and 64 bits.
const QUOTIENTS: [(Encoding, [Kernel; 2]); 3] = [
    (Encoding::Ffor, kernels::GCD_FFOR),
    (Encoding::Pfor, kernels::GCD_PFOR),
    (Encoding::Plain, kernels::GCD_PLAIN),
];

/// The kernel for words of one encoding that is read as a whole.
fn words_kernel(encoding: Encoding, bits: usize) -> Option<Kernel> {
    let by_width = match encoding {
        Encoding::Plain => kernels::PLAIN,
        Encoding::Constant => kernels::CONSTANT,
        Encoding::Ffor => kernels::FFOR,
        Encoding::Pfor => kernels::PFOR,
        Encoding::Delta => kernels::DELTA,
        Encoding::Alp => return of_words([kernels::ALP_32, kernels::ALP_64], bits),
        Encoding::AlpRd => return of_words([kernels::ALP_RD_32, kernels::ALP_RD_64], bits),
        _ => return None,
    };
    by_width.get(width_index(bits)?).copied()
}

/// That for 32 or 64 bits.
fn of_words(kernels: [Kernel; 2], bits: usize) -> Option<Kernel> {
    kernels.get(width_index(bits)?.checked_sub(2)?).copied()
}

/// Of 8, 16, 32 and 64 bits.
fn width_index(bits: usize) -> Option<usize> {
    matches!(bits, 8 | 16 | 32 | 64).then(|| bits.trailing_zeros() as usize - 3)
}

impl Program<'_> {
    /// Values of 8 to 64 bits to `out`.
    pub fn words_of(&mut self, targets: &[Target<'_>], out: &Arc<DeviceBuffer>) -> Result<()> {
        for encoding in Encoding::ALL {
            let targets = of_encoding(targets, *encoding);
            let Some(first) = targets.first() else { continue };
            let bits = first.view.physical().bits().unwrap_or(0);
            match encoding {
                Encoding::Dict => {
                    self.values_of_codes(&targets, bits, out)?;
                    continue;
                }
                Encoding::Rle => {
                    self.runs_of(&targets, bits, out)?;
                    continue;
                }
                Encoding::Lz => {
                    self.segments_of(&targets, |target| target.at * bits / 8, out);
                    continue;
                }
                Encoding::Gcd => {
                    self.multiples_of(&targets, bits, out)?;
                    continue;
                }
                _ => {}
            }
            let kernel = words_kernel(*encoding, bits)
                .ok_or_else(|| Error::corrupt(format!("{encoding} values of {bits} bits")))?;
            let arguments = Arguments::Words { out: out.address() };
            self.step(kernel, &jobs(&targets), &[], longest(&targets), arguments, &[out]);
        }
        Ok(())
    }

    /// Values of runs to `out`.
    fn runs_of(
        &mut self,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let values: Vec<Target<'_>> = targets.iter().map(|target| target.child(0)).collect();
        let values = self.readable(&values, &RUNS)?;
        self.spread(targets, &values, bits, out)
    }

    /// Values of runs to the rows of nodes of rle.
    fn spread(
        &mut self,
        runs: &[Target<'_>],
        values: &[Job],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let job = |target: &Target<'_>| Job { chunk: target.chunk, node: target.own_node() };
        let jobs: Vec<Job> = runs.iter().map(job).collect();
        // Lengths are read as they are stored; runs that are marked by bits have none.
        let lengths = runs.iter().map(|target| match target.view.child_count() {
            1 => Job { chunk: target.chunk, node: Node::default() },
            _ => Job::from(&target.child(1)),
        });
        let more: Vec<Job> = lengths.chain(values.iter().copied()).collect();
        let width =
            width_index(bits).ok_or_else(|| Error::corrupt(format!("runs of {bits} bits")))?;
        let arguments = Arguments::Dict { out: out.address() };
        self.step(kernels::RLE[width], &jobs, &more, most_rows(&jobs), arguments, &[out]);
        Ok(())
    }

    /// Multiples of divisors to `out`.
    fn multiples_of(
        &mut self,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let children: Vec<Target<'_>> = targets.iter().map(|target| target.child(0)).collect();
        let mut jobs = self.readable(&children, &QUOTIENTS.map(|(encoding, _)| encoding))?;
        for (job, target) in jobs.iter_mut().zip(targets) {
            job.node.size = target.view.parameter(0);
            job.node.parameter = target.view.parameter(1);
        }
        for (encoding, by_width) in QUOTIENTS {
            let kernel = of_words(by_width, bits)
                .ok_or_else(|| Error::corrupt(format!("multiples of {bits} bits")))?;
            let has = |job: &&Job| job.node.encoding == encoding as u16;
            let jobs: Vec<Job> = jobs.iter().filter(has).copied().collect();
            let arguments = Arguments::Words { out: out.address() };
            self.step(kernel, &jobs, &[], most_rows(&jobs), arguments, &[out]);
        }
        Ok(())
    }

    /// Values of dictionaries to `out`. Where codes are runs, of four rows or more, the codes of runs
    /// are looked up, and their values spread.
    fn values_of_codes(
        &mut self,
        targets: &[Target<'_>],
        bits: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        let has_runs = |target: &&Target<'_>| {
            let codes = target.view.child(0);
            codes.encoding() == Encoding::Rle && codes.child(0).len() <= codes.len() / 4
        };
        let (runs, others): (Vec<Target<'_>>, Vec<Target<'_>>) = targets.iter().partition(has_runs);
        let reads = LOOKED_UP.map(|(encoding, _)| encoding);
        let children = |index| others.iter().map(|target| target.child(index)).collect::<Vec<_>>();
        let jobs = self.with_dictionaries(&children(0), &children(1), &reads)?;
        self.look_up(&jobs, bits, out)?;
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
        let jobs = self.with_dictionaries(&codes_of_runs, &dictionaries, &reads)?;
        let scratch = self.scratch(rows * bits / 8)?;
        self.look_up(&jobs, bits, &scratch)?;
        let values = codes_of_runs
            .iter()
            .map(|target| plain(target, scratch.address() + (target.at * bits / 8) as u64));
        let values: Vec<Job> = values.collect();
        self.spread(&codes, &values, bits, out)
    }

    /// Nodes of dict, with their dictionaries.
    fn dictionaries(&mut self, targets: &[Target<'_>]) -> Result<Vec<Job>> {
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
        let width = width_index(bits)
            .ok_or_else(|| Error::corrupt(format!("dictionaries of {bits} bits")))?;
        let room = self.shared_room();
        let (large, small): (Vec<Job>, Vec<Job>) =
            jobs.iter().partition(|job| bits >= 32 && is_large(job, bits, room));
        self.look_up_large(&large, bits, out);
        for (codes, kernels) in LOOKED_UP {
            let jobs = &small;
            let has_codes = |job: &&Job| job.node.size >> 32 == codes as u64;
            let jobs: Vec<Job> = jobs.iter().filter(has_codes).copied().collect();
            let arguments = Arguments::Dict { out: out.address() };
            self.step(kernels[width], &jobs, &[], most_rows(&jobs), arguments, &[out]);
        }
        Ok(())
    }

    /// Bytes of shared memory that a block has for a dictionary.
    fn shared_room(&self) -> usize {
        (self.stream.info().shared_memory as usize - kernels::DICT_SHARED_OTHER) / 16 * 16
    }

    /// The same of dictionaries that blocks have in shared memory.
    fn look_up_large(&mut self, jobs: &[Job], bits: usize, out: &Arc<DeviceBuffer>) {
        let multiprocessors = self.stream.info().multiprocessors as usize;
        let largest = jobs.iter().map(|job| dictionary_bytes(job, bits)).max().unwrap_or(0);
        let shared = largest.next_multiple_of(16).min(self.shared_room());
        let vectors = most_rows(jobs).div_ceil(VECTOR);
        let blocks = multiprocessors.min(jobs.len() * vectors);
        let arguments = Arguments::DictShared {
            out: out.address(),
            vectors: vectors as u32,
            values: (shared * 8 / bits) as u32,
        };
        let kernel = kernels::DICT_SHARED[bits / 64];
        self.step_of_blocks(kernel, jobs, (blocks, shared as u32), arguments, &[out]);
    }

    /// Nodes of words for kernels that know the encodings `reads`; the values of others are
    /// decoded to scratch first.
    pub fn readable(&mut self, targets: &[Target<'_>], reads: &[Encoding]) -> Result<Vec<Job>> {
        let is_readable = |target: &Target<'_>| reads.contains(&target.view.encoding());
        let mut others: Vec<Target<'_>> = Vec::new();
        let mut rows = 0;
        for target in targets.iter().filter(|target| !is_readable(target)) {
            others.push(Target { at: rows, ..*target });
            rows += target.view.len().next_multiple_of(VECTOR);
        }
        let first = others.first();
        let size = first.and_then(|target| target.view.physical().bits()).unwrap_or(0) / 8;
        let mut scratch = 0;
        if !others.is_empty() {
            let buffer = self.scratch(rows * size)?;
            self.words_of(&others, &buffer)?;
            scratch = buffer.address();
        }
        let mut others = others.iter().map(|other| scratch + (other.at * size) as u64);
        let is_dict =
            |target: &Target<'_>| is_readable(target) && target.view.encoding() == Encoding::Dict;
        let dict: Vec<Target<'_>> =
            targets.iter().filter(|target| is_dict(target)).copied().collect();
        let mut dict = self.dictionaries(&dict)?.into_iter();
        let job = |target: &Target<'_>| match is_readable(target) {
            true if is_dict(target) => dict.next(),
            true => Some(Job::from(target)),
            false => others.next().map(|address| plain(target, address)),
        };
        Ok(targets.iter().filter_map(job).collect())
    }
}

impl Program<'_> {
    /// Nodes of bits for kernels, which know constants and bitmaps; others become bitmaps in
    /// scratch first.
    pub fn readable_bits(&mut self, targets: &[Target<'_>]) -> Result<Vec<Job>> {
        let is_bits = |target: &Target<'_>| target.view.encoding() == Encoding::Bits;
        let mut bytes: Vec<Target<'_>> = Vec::new();
        let mut at = 0;
        for target in targets.iter().filter(|target| is_bits(target)) {
            let child = target.child(0);
            bytes.push(Target { at, ..child });
            at += child.view.len().next_multiple_of(VECTOR);
        }
        let mut scratch = 0;
        if !bytes.is_empty() {
            let buffer = self.scratch(at)?;
            // Bitmaps are read in whole words.
            self.stream.fill(&buffer, 0, at, 0)?;
            self.words_of(&bytes, &buffer)?;
            scratch = buffer.address();
        }
        let mut bytes = bytes.iter().map(|bytes| scratch + bytes.at as u64);
        let job = |target: &Target<'_>| match is_bits(target) {
            true => bytes.next().map(|address| plain(target, address)),
            false => Some(Job::from(target)),
        };
        Ok(targets.iter().filter_map(job).collect())
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
    bytes > kernels::DICT_SHARED_LEAST && bytes * 4 <= room * 5 && job.node.rows >= 2 * values
}

/// A plain node of the values of another, which lie at `address`.
pub(super) fn plain(target: &Target<'_>, address: u64) -> Job {
    let node = Node {
        buffer: [address, 0, 0, 0],
        at: target.at as u64,
        rows: target.view.len() as u32,
        encoding: Encoding::Plain as u16,
        ..Node::default()
    };
    Job { chunk: target.chunk, node }
}

/// A node of dict, as `kernels/lanepack/dict.cuh` has it, of its codes and its plain values.
pub(super) fn with_dictionary(codes: &Job, values: &Job) -> Job {
    let mut node = codes.node;
    node.buffer[3] = values.node.buffer[0];
    node.size = u64::from(values.node.rows) | u64::from(codes.node.encoding) << 32;
    node.encoding = Encoding::Dict as u16;
    Job { chunk: codes.chunk, node }
}
