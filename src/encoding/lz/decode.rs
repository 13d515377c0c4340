//! From streams back to bytes, segment by segment.
//!
//! Flags are read 56 at a time; runs of literals are one copy, as are matches that do not
//! overlap. Copies of up to 16 bytes, most of all, are of 16 where there is room for as many
//! behind them: the next item writes over what was too much. A match whose offset is shorter is
//! copied as often as it takes, twice as much each time.
//!
//! A segment is checked as it is read: each copy against what there is, and at its end that
//! all of its symbols, matches and literals have been used.

use std::ops::Range;

use super::{SEGMENT_ENTRY, Shape};
use crate::chunk::{NodeView, cast};
use crate::error::{Error, Result, ensure};

/// Flags that are read together: what is left of a word that begins inside of a byte.
const FLAGS: usize = 56;

/// Bytes that short copies have.
const SHORT: usize = 16;

/// The streams of a node.
#[derive(Debug)]
pub(super) struct Segments<'a> {
    shape: Shape,
    /// Bytes of all segments.
    bytes: usize,
    literals: &'a [u8],
    offsets: &'a [u8],
    lengths: &'a [u8],
    flags: &'a [u8],
    /// Flags, matches and literals before each segment.
    places: &'a [[u32; 3]],
}

/// What a segment has of each stream.
#[derive(Debug)]
struct Streams {
    flags: Range<usize>,
    matches: Range<usize>,
    literals: Range<usize>,
}

impl<'a> Segments<'a> {
    /// Of a node whose parameters are in range.
    pub fn new(node: NodeView<'a>) -> Result<Self> {
        let shape = Shape::parse(node.parameter(1))?;
        let tokens = node.buffer(1);
        let matches = tokens.len() / shape.token();
        ensure!(
            tokens.len() == matches * shape.token(),
            "{} bytes of matches of {} bytes",
            tokens.len(),
            shape.token()
        );
        let (offsets, lengths) = tokens.split_at(matches * shape.offset);
        let literals = node.buffer(0);
        ensure!(
            literals.len().is_multiple_of(shape.symbol),
            "{} bytes of literals of {} bytes",
            literals.len(),
            shape.symbol
        );
        let bytes = node.parameter(0) as usize;
        let places: &[[u32; 3]] = cast(node.buffer(3))?;
        Ok(Self { shape, bytes, literals, offsets, lengths, flags: node.buffer(2), places })
    }

    /// Checks that each segment has as much of the streams as it may need.
    pub fn validate(&self) -> Result<()> {
        let Shape { symbol, .. } = self.shape;
        let count = self.bytes.div_ceil(self.shape.segment_bytes());
        ensure!(
            self.places.len() == count,
            "{} bytes of places of {count} segments",
            self.places.len() * SEGMENT_ENTRY
        );
        let mut end = [0; 3];
        for index in 0..count {
            let start = self.places[index].map(|start| start as usize);
            ensure!(start == end, "segment {index} begins at {start:?}, {end:?} expected");
            let symbols = self.range(index).len() / symbol;
            let Some(Streams { flags, matches, literals }) = self.streams(index) else {
                return Err(Error::corrupt(format!("segment {index} ends before it begins")));
            };
            let least = literals.len() + matches.len() * self.shape.least();
            let most = literals.len() + matches.len() * self.shape.most();
            ensure!(
                (least..=most).contains(&symbols),
                "{} literals and {} matches for {symbols} symbols of segment {index}",
                literals.len(),
                matches.len()
            );
            end = [flags.end, matches.end, literals.end];
        }
        let expected = [end[0].div_ceil(8), end[1], end[2] * symbol];
        let found = [self.flags.len(), self.lengths.len(), self.literals.len()];
        ensure!(
            found == expected,
            "{found:?} bytes of flags, matches and bytes of literals, {expected:?} expected"
        );
        Ok(())
    }

    /// The bytes of a segment among all.
    fn range(&self, index: usize) -> Range<usize> {
        let len = self.shape.segment_bytes();
        index * len..self.bytes.min((index + 1) * len)
    }

    /// What a segment has of the streams; none if it ends before it begins.
    fn streams(&self, index: usize) -> Option<Streams> {
        let [flags, matches, literals] = self.places[index].map(|start| start as usize);
        let next = self.places.get(index + 1).map(|place| place.map(|start| start as usize));
        let [_, matches_end, literals_end] =
            next.unwrap_or([0, self.lengths.len(), self.literals.len() / self.shape.symbol]);
        let count = matches_end.checked_sub(matches)?;
        let items = count + literals_end.checked_sub(literals)?;
        Some(Streams {
            flags: flags..flags + if count > 0 { items } else { 0 },
            matches: matches..matches_end,
            literals: literals..literals_end,
        })
    }

    /// Decodes a range of the bytes.
    pub fn decode(&self, range: Range<usize>, out: &mut [u8]) -> Result<()> {
        debug_assert!(range.len() == out.len() && range.end <= self.bytes);
        let len = self.shape.segment_bytes();
        let (mut at, mut out) = (range.start, out);
        let mut whole = Vec::new();
        while at < range.end {
            let segment = self.range(at / len);
            let part = at..range.end.min(segment.end);
            let (here, rest) = out.split_at_mut(part.len());
            if part == segment {
                self.segment(at / len, here)?;
            } else {
                whole.resize(segment.len(), 0);
                self.segment(at / len, &mut whole)?;
                here.copy_from_slice(&whole[part.start - segment.start..part.end - segment.start]);
            }
            (at, out) = (part.end, rest);
        }
        Ok(())
    }

    /// Decodes a range of the bytes, and what else their segments have; gives which bytes these
    /// are. `decoded` holds those of another range, which are kept as far as they are needed.
    pub fn decode_around(
        &self,
        range: Range<usize>,
        decoded: &mut (Range<usize>, Vec<u8>),
    ) -> Result<()> {
        let len = self.shape.segment_bytes();
        let start = range.start / len * len;
        let end = range.end.next_multiple_of(len).min(self.bytes);
        let (before, bytes) = decoded;
        let kept = start.clamp(before.start, before.end)..end.clamp(before.start, before.end);
        if kept.start == start {
            bytes.copy_within(kept.start - before.start..kept.end - before.start, 0);
        }
        let have = if kept.start == start { kept.len() } else { 0 };
        *before = 0..0;
        bytes.resize(end - start, 0);
        for segment in (start + have) / len..end.div_ceil(len) {
            let of = self.range(segment);
            self.segment(segment, &mut bytes[of.start - start..of.end - start])?;
        }
        *before = start..end;
        Ok(())
    }

    /// Decodes a segment.
    fn segment(&self, index: usize, out: &mut [u8]) -> Result<()> {
        let damaged = || Error::corrupt(format!("the streams of segment {index} do not fit"));
        let Shape { symbol, .. } = self.shape;
        let Streams { flags, matches, literals } = self.streams(index).ok_or_else(damaged)?;
        let literals = literals.start * symbol..literals.end * symbol;
        let literals = self.literals.get(literals).ok_or_else(damaged)?;
        if matches.is_empty() {
            ensure!(
                literals.len() == out.len(),
                "{} bytes of literals in segment {index} of {}",
                literals.len(),
                out.len()
            );
            out.copy_from_slice(literals);
            return Ok(());
        }
        let mut writer = Writer { out, end: 0, literals, used: 0 };
        let (mut flag, mut token) = (flags.start, matches.start);
        while flag < flags.end {
            let count = FLAGS.min(flags.end - flag);
            let mut left = count;
            let mut word = self.flags_at(flag);
            loop {
                let run = (word.trailing_zeros() as usize).min(left);
                writer.literals(run * symbol).ok_or_else(damaged)?;
                if run == left {
                    break;
                }
                if token == matches.end {
                    return Err(damaged());
                }
                let (offset, len) = self.token(token);
                writer.repeat(offset * symbol, len * symbol).ok_or_else(damaged)?;
                token += 1;
                left -= run + 1;
                word >>= run + 1;
            }
            flag += count;
        }
        let is_used = token == matches.end && writer.used == writer.literals.len();
        if is_used && writer.end == writer.out.len() { Ok(()) } else { Err(damaged()) }
    }

    /// Offset and length of a match, in symbols.
    fn token(&self, index: usize) -> (usize, usize) {
        let offset = match self.shape.offset {
            1 => usize::from(self.offsets[index]),
            _ => usize::from(u16::from_le_bytes([
                self.offsets[2 * index],
                self.offsets[2 * index + 1],
            ])),
        };
        (offset + 1, usize::from(self.lengths[index]) + self.shape.least())
    }

    /// Flags from one on, [`FLAGS`] at least; zeros behind the last.
    fn flags_at(&self, at: usize) -> u64 {
        let bytes = self.flags.get(at / 8..).unwrap_or_default();
        let word = bytes.first_chunk::<8>().copied().unwrap_or_else(|| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            word
        });
        u64::from_le_bytes(word) >> (at % 8)
    }
}

/// A segment that is being written.
struct Writer<'a> {
    out: &'a mut [u8],
    end: usize,
    literals: &'a [u8],
    used: usize,
}

impl Writer<'_> {
    /// Appends the next bytes of literals; none if there are not so many, or no room.
    fn literals(&mut self, len: usize) -> Option<()> {
        let (end, used) = (self.end + len, self.used + len);
        if len <= SHORT
            && let Some(from) = self.literals.get(self.used..self.used + SHORT)
            && let Some(to) = self.out.get_mut(self.end..self.end + SHORT)
        {
            to.copy_from_slice(from);
        } else {
            self.out.get_mut(self.end..end)?.copy_from_slice(self.literals.get(self.used..used)?);
        }
        (self.end, self.used) = (end, used);
        Some(())
    }

    /// Appends bytes that stand `offset` before; none if nothing does, or there is no room.
    fn repeat(&mut self, offset: usize, len: usize) -> Option<()> {
        let (start, end) = (self.end.checked_sub(offset)?, self.end + len);
        let (before, to) = self.out.split_at_mut(self.end);
        if len <= SHORT
            && let Some(from) = before.get(start..start + SHORT)
            && let Some(to) = to.get_mut(..SHORT)
        {
            to.copy_from_slice(from);
        } else if len <= offset {
            to.get_mut(..len)?.copy_from_slice(&before[start..start + len]);
        } else {
            if end > self.out.len() {
                return None;
            }
            let mut written = 0;
            while written < len {
                let some = (offset + written).min(len - written);
                self.out.copy_within(start..start + some, self.end + written);
                written += some;
            }
        }
        self.end = end;
        Some(())
    }
}
