//! Whether bytes are to be compressed so, from looks at some of them: by the CPU and for GPUs, which
//! find the same matches.
//!
//! Words that nothing else makes smaller mostly do not become so here either. So a first look at
//! 8,192 symbols of each size that may suit has to save a twentieth, before a sample of whole
//! segments is compressed, which is a quarter of a chunk of 1 MiB.

use std::ops::Range;

use super::{MOST_BYTES, Settings, Shape};
use crate::encoding::Estimate;
use crate::encoding::plan::SAMPLED_VECTORS;

/// Average bytes of a text from which on it may be compressed so.
const LONG_TEXT: usize = 256;

/// Fewest bytes of the stream of an array that is carried.
const LEAST_STREAM: usize = 4096;

/// Symbols of a first look.
const LOOK: usize = 8192;

/// Bytes that others leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leftover {
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

impl Leftover {
    /// Those of words of `own` bytes, if others save less than a tenth.
    pub fn of_words(bytes: usize, own: usize, limit: usize) -> Option<Self> {
        let words = Self { bytes, own, limit, share: 10, is_words: true };
        Some(words).filter(|words| words.fits() && limit >= bytes - bytes / 10)
    }

    /// Those of the stream of an array that is carried, if nothing takes less than carrying it;
    /// that of a few rows, which is mostly schema, stays as it is.
    pub fn of_stream(bytes: usize, limit: usize) -> Option<Self> {
        let carried = Estimate::of([bytes]).stored_bytes();
        let stream = Self::of_words(bytes, 1, limit);
        stream.filter(|_| bytes >= LEAST_STREAM && limit >= carried)
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

    /// The same of so many bytes.
    pub fn of_bytes(self, bytes: usize) -> Option<Self> {
        Some(Self { bytes, ..self }).filter(Self::fits)
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

    /// Whether there is a first look; strings are worth a sample in any case.
    pub fn looks_first(&self) -> bool {
        self.is_words
    }

    /// What tells whether a sample is worth it.
    pub fn first_look(&self, shape: Shape) -> Option<Range<usize>> {
        let segments = self.bytes.div_ceil(shape.segment_bytes());
        let start = segments / 2 * shape.segment_bytes();
        let len = shape.segment.min(LOOK) * shape.symbol;
        self.is_words.then(|| start..self.bytes.min(start + len))
    }

    /// Segments that an estimate looks at: an eighth, but at least four.
    pub fn sample(&self, shape: Shape) -> impl Iterator<Item = Range<usize>> + use<> {
        let (bytes, segment) = (self.bytes, shape.segment_bytes());
        let segments = bytes.div_ceil(segment);
        let count = segments.div_ceil(8).clamp(4, SAMPLED_VECTORS).min(segments);
        (0..count).map(move |index| {
            let start = index * segments / count * segment;
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

impl Shape {
    /// Whether a first look at so many bytes found enough.
    pub fn promises(self, counts: [usize; 3], bytes: usize) -> bool {
        let [literals, matches, flags, _] = self.lens(bytes, counts);
        literals + matches + flags <= bytes - bytes / 20
    }
}

/// The shape that takes least. Symbols of the values' own size, which come first, are read faster:
/// others are to save an eighth.
pub(crate) fn smallest(
    all: impl Iterator<Item = (Shape, [usize; 4])>,
) -> Option<(Shape, [usize; 4])> {
    let sum = |lens: &[usize; 4]| lens.iter().sum::<usize>();
    all.reduce(|best, other| {
        let before = sum(&best.1);
        if sum(&other.1) < before - before / 8 { other } else { best }
    })
}
