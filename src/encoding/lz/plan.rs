//! Whether bytes are to be compressed so, from looks at some of them: by the CPU and for GPUs, which
//! find the same matches.
//!
//! Words that nothing else makes smaller mostly do not become so here either, and byte strings may
//! have been compressed before. So a first look, at 2,048 symbols of words or four times 4,096 of
//! strings, has to save something, before a sample of whole segments is compressed, which is a
//! quarter of a chunk of 1 MiB. Random words of 16, 32 and 64 bits are compressed at 1.2, 1.6 and
//! 1.5 GB/s by a thread (1.7, 2.1 and 1.6 without any look, 0.5, 0.8 and 0.9 with one at 8,192
//! symbols). What comes again only more than 2,048 symbols later is not seen so, and mostly a
//! dictionary's.

use std::ops::Range;

use super::{MOST_BYTES, Settings, Shape};
use crate::encoding::Estimate;
use crate::encoding::statistics::SAMPLED_VECTORS;

/// Average bytes of a text from which on it may be compressed so.
const LONG_TEXT: usize = 256;

/// Fewest bytes of the stream of an array that is carried.
const LEAST_STREAM: usize = 4096;

/// Bytes that others leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LzBytes {
    pub bytes: usize,
    /// Bytes of a symbol that suits the values.
    own: usize,
    /// Bytes that the best other encoding takes.
    limit: usize,
    /// The part of these that has to be saved: 1 of so many.
    share: usize,
    /// Whether they are words, or an array that is carried.
    is_words: bool,
}

impl LzBytes {
    /// Those of words of `own` bytes, if others save less than a tenth.
    pub fn of_words(bytes: usize, own: usize, limit: usize) -> Option<Self> {
        let words = Self { bytes, own, limit, share: 10, is_words: true };
        Some(words).filter(|words| words.fits() && limit >= bytes - bytes / 10)
    }

    /// Those of the stream of an array that is carried, of an estimated length, if nothing takes
    /// less than carrying it; that of a few rows, which is mostly schema, stays as it is.
    pub fn of_stream(bytes: usize, limit: usize) -> Option<Self> {
        let stream = Self { bytes, own: 1, limit, share: 10, is_words: true };
        let carried = Estimate::of([bytes]).stored_bytes();
        Some(stream).filter(|_| bytes >= LEAST_STREAM && limit >= carried)
    }

    /// The same of the stream itself, which has so many bytes: the children of a union may have
    /// far more rows than are carried.
    pub fn of_its_bytes(self, bytes: usize) -> Option<Self> {
        let limit = self.limit.min(Estimate::of([bytes]).stored_bytes());
        Some(Self { bytes, limit, ..self }).filter(Self::fits)
    }

    /// Those of so many byte strings, each of `width` bytes if all are of as many; of text only
    /// if they are long, as others scan it and find single values of it much faster.
    pub fn of_strings(
        bytes: usize,
        rows: usize,
        width: Option<usize>,
        is_text: bool,
        limit: usize,
    ) -> Option<Self> {
        let own =
            width.filter(|width| *width > 0).map_or(1, |width| 1 << width.trailing_zeros().min(3));
        let share = if is_text { 2 } else { 10 };
        let strings = Self { bytes, own, limit, share, is_words: false };
        let suits = !is_text || bytes / rows.max(1) >= LONG_TEXT;
        Some(strings).filter(|strings| strings.fits() && suits)
    }

    fn fits(&self) -> bool {
        (1..=MOST_BYTES).contains(&self.bytes)
    }

    /// How segments may be cut, for each size of symbols that may suit.
    pub fn shapes(&self, settings: &Settings) -> Vec<Shape> {
        let symbols = match settings.symbol_bytes {
            Some(symbol) if self.own.is_multiple_of(symbol) => vec![symbol],
            _ if self.own == 1 => vec![1],
            _ => vec![self.own, 1],
        };
        symbols.into_iter().map(|symbol| Shape::of(settings, symbol)).collect()
    }

    /// What tells whether a sample is worth it: whether there are matches, as there are none in
    /// what they do not make smaller.
    pub fn first_looks(&self, shape: Shape) -> impl Iterator<Item = Range<usize>> + use<> {
        let (bytes, segment) = (self.bytes, shape.segment_bytes());
        let segments = bytes.div_ceil(segment);
        let (looks, symbols) = if self.is_words { (1, 2048) } else { (4, 4096) };
        let (looks, len) = (segments.min(looks), shape.segment.min(symbols) * shape.symbol);
        (0..looks).map(move |look| {
            let start = (2 * look + 1) * segments / (2 * looks) * segment;
            start..bytes.min(start + len)
        })
    }

    /// Segments that an estimate looks at: an eighth, but at least four, each from the middle of as
    /// many (the first of a stream is schema).
    pub fn sample(&self, shape: Shape) -> impl Iterator<Item = Range<usize>> + use<> {
        let (bytes, segment) = (self.bytes, shape.segment_bytes());
        let segments = bytes.div_ceil(segment);
        let count = segments.div_ceil(8).clamp(4, SAMPLED_VECTORS).min(segments);
        (0..count).map(move |index| {
            let start = (2 * index + 1) * segments / (2 * count) * segment;
            start..bytes.min(start + segment)
        })
    }

    /// Estimated lengths of the buffers, from flags, matches and literals of the sample.
    pub fn lens(&self, shape: Shape, counts: [usize; 3]) -> [usize; 4] {
        let looked_at: usize = self.sample(shape).map(|part| part.len()).sum();
        let all = counts.map(|count| {
            (count as u128 * self.bytes as u128).div_ceil(looked_at.max(1) as u128) as usize
        });
        shape.lens(self.bytes, all)
    }

    /// Whether a node that takes so many bytes saves enough.
    pub fn saves(&self, bytes: usize) -> bool {
        bytes <= self.limit - self.limit.div_ceil(self.share)
    }
}

/// How segments are cut, and the lengths of the buffers then.
pub(crate) type Promise = (Shape, [usize; 4]);

/// The shape that takes least. Symbols of the values' own size, which come first, are read faster:
/// others are to save an eighth.
pub(crate) fn smallest(all: impl Iterator<Item = Promise>) -> Option<Promise> {
    let sum = |lens: &[usize; 4]| lens.iter().sum::<usize>();
    all.reduce(|best, other| {
        let before = sum(&best.1);
        if sum(&other.1) < before - before / 8 { other } else { best }
    })
}
