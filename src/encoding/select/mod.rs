//! Which values of a node are in ranges, found on what is stored.
//!
//! ```text
//! ranges of values --the encoding: less an offset, divided, looked up--> ranges of its children's
//!                                                                          | a vector
//! mask of 1,024 bits <--sums, runs, exceptions-- verdicts on packed words <-+
//! ```
//!
//! Each encoding answers for itself (`Codec::select`): a [`Verdict`] on a whole node, with a
//! [`Selector`] for its vectors where values have to be looked at. Encodings without an order of
//! their own are decoded, a vector at a time. Scans are loops over selectors, and name none.
//!
//! Sums and products that pass the end of their type, which no writer makes of valid values, may be
//! taken for ones that are in no range (docs/FORMAT.md, "What readers check").

mod matcher;
mod wide;

use std::borrow::Cow;
use std::marker::PhantomData;

use arrow_buffer::i256;

pub(crate) use matcher::{Matcher, packed_in};
pub(crate) use wide::{decoded as decoded_wide, values as wide_values};

use super::{NodeView, Words, codec};
use crate::error::{Error, Result};
use crate::lanes::mask::{self, NONE};
use crate::lanes::{Mask, VECTOR};
use crate::ranges::{Key, Order, Ranges};

/// Which rows of a vector pass a test.
pub(crate) trait Selector {
    /// Writes the rows that pass, valid or not; bits past the end hold anything.
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()>;
}

/// What a test says of a node's values.
pub(crate) enum Verdict<'a> {
    /// None pass.
    None,
    /// All pass.
    All,
    /// Those pass that a selector finds.
    Some(Box<dyn Selector + 'a>),
}

impl<'a> Verdict<'a> {
    /// All or none.
    pub fn constant(passes: bool) -> Self {
        if passes { Self::All } else { Self::None }
    }

    /// Those that a selector finds.
    pub fn some(selector: impl Selector + 'a) -> Self {
        Self::Some(Box::new(selector))
    }

    /// Values that both pass.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::All, other) | (other, Self::All) => other,
            (Self::Some(one), Self::Some(other)) => Self::some(Both(one, other)),
        }
    }

    /// Values that one passes.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, other) | (other, Self::None) => other,
            (Self::Some(one), Self::Some(other)) => Self::some(Either(one, other)),
        }
    }
}

/// What passes both; the second is not asked where the first finds nothing.
struct Both<'a>(Box<dyn Selector + 'a>, Box<dyn Selector + 'a>);

impl Selector for Both<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        self.0.select(vector, mask)?;
        if *mask != NONE {
            let mut other = NONE;
            self.1.select(vector, &mut other)?;
            mask::intersect(mask, &other);
        }
        Ok(())
    }
}

/// What passes one of two.
struct Either<'a>(Box<dyn Selector + 'a>, Box<dyn Selector + 'a>);

impl Selector for Either<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        self.0.select(vector, mask)?;
        let mut other = NONE;
        self.1.select(vector, &mut other)?;
        mask::unite(mask, &other);
        Ok(())
    }
}

/// Ranges that values of up to 64 bits are tested for.
#[derive(Debug, Clone)]
pub(crate) struct RangeTest {
    /// How values become keys.
    pub key: Key,
    /// Of keys.
    pub ranges: Ranges<u64>,
}

impl RangeTest {
    /// A test for ranges of keys.
    pub fn new(key: Key, ranges: Ranges<u64>) -> Self {
        Self { key, ranges }
    }

    /// Whether a value passes, given its bits.
    pub fn passes(&self, bits: u64) -> bool {
        self.ranges.contains(self.key.of_bits(bits))
    }

    /// The same test of integers: of floats that are stored as their bits (Float16) ranges of
    /// these, which descend below zero.
    pub fn of_integers(&self) -> Cow<'_, Self> {
        let Self { key, ranges } = self;
        if key.order != Order::Float {
            return Cow::Borrowed(self);
        }
        let unsigned = Key { order: Order::Unsigned, ..*key };
        let zero = key.of_bits(0);
        let negative = ranges.intersection(&Ranges::between(0, zero - 1));
        let positive = ranges.intersection(&Ranges::between(zero, key.max()));
        let flipped = negative.iter().map(|(low, high)| (key.to_bits(high), key.to_bits(low)));
        let kept = positive.iter().map(|(low, high)| (key.to_bits(low), key.to_bits(high)));
        Cow::Owned(Self::new(unsigned, Ranges::of(flipped.chain(kept).collect())))
    }
}

/// Which values of a node of up to 64 bits are in ranges.
pub(crate) fn words<'a>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
    if test.ranges.is_empty() {
        return Ok(Verdict::None);
    }
    codec(node.encoding()).select(node, test)
}

/// Which values of a node of 128 or 256 bits are in ranges.
pub(crate) fn wide<'a>(node: NodeView<'a>, ranges: &Ranges<i256>) -> Result<Verdict<'a>> {
    if ranges.is_empty() {
        return Ok(Verdict::None);
    }
    codec(node.encoding()).select_wide(node, ranges)
}

/// Checks of a tree what decoding finds and tests of what is stored do not look at.
pub(crate) fn check(node: NodeView<'_>) -> Result<()> {
    node.children().try_for_each(check)?;
    codec(node.encoding()).check_selected(node)
}

/// The node of signed words of 64 bits that has the values of a wide one, if there is one.
pub(crate) fn as_words(node: NodeView<'_>) -> Option<NodeView<'_>> {
    codec(node.encoding()).as_words(node)
}

/// The test of bits, given as a bitmap.
pub(crate) fn bits<'a>(bits: Cow<'a, [u8]>, test: &RangeTest) -> Verdict<'a> {
    match (test.ranges.contains(0), test.ranges.contains(1)) {
        (false, false) => Verdict::None,
        (true, true) => Verdict::All,
        (_, wanted) => Verdict::some(BitsTest { bits, wanted }),
    }
}

struct BitsTest<'a> {
    bits: Cow<'a, [u8]>,
    wanted: bool,
}

impl Selector for BitsTest<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        *mask = mask::of_bitmap(&self.bits, vector);
        if !self.wanted {
            mask::invert(mask);
        }
        Ok(())
    }
}

/// The error of a node whose values are no words of 8 to 64 bits.
pub(crate) fn unexpected(node: NodeView<'_>) -> Error {
    Error::corrupt(format!("a {} node of type {:?} is tested", node.encoding(), node.physical()))
}

/// Calls a function of a word type by the bits of a node's values.
macro_rules! by_word {
    ($node:expr, $call:ident($($argument:expr),*)) => {
        match $node.physical().bits() {
            Some(8) => $call::<u8>($($argument),*),
            Some(16) => $call::<u16>($($argument),*),
            Some(32) => $call::<u32>($($argument),*),
            Some(64) => $call::<u64>($($argument),*),
            _ => Err($crate::encoding::select::unexpected($node)),
        }
    };
}
pub(crate) use by_word;

/// The test of values that are stored as they are.
pub(crate) fn plain<'a>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
    fn of<'a, T: Words>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        let values: &[T] = node.typed(0)?;
        Ok(Verdict::some(PlainTest { values, matcher: Matcher::new(test) }))
    }
    by_word!(node, of(node, test))
}

struct PlainTest<'a, T> {
    values: &'a [T],
    matcher: Matcher,
}

impl<T: Words> Selector for PlainTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        self.matcher.words(&self.values[vector * VECTOR..], mask);
        Ok(())
    }
}

/// The test of values that are decoded vector by vector.
pub(crate) fn decoded<'a>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
    fn of<'a, T: Words>(node: NodeView<'a>, test: &RangeTest) -> Result<Verdict<'a>> {
        let matcher = Matcher::new(test);
        Ok(Verdict::some(DecodedTest::<T> { node, matcher, words: PhantomData }))
    }
    by_word!(node, of(node, test))
}

struct DecodedTest<'a, T> {
    node: NodeView<'a>,
    matcher: Matcher,
    words: PhantomData<T>,
}

impl<T: Words> Selector for DecodedTest<'_, T> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let rows = vector * VECTOR..self.node.len().min((vector + 1) * VECTOR);
        let mut words = [T::ZERO; VECTOR];
        let words = &mut words[..rows.len()];
        super::decode(self.node, rows, T::output(words))?;
        self.matcher.words(words, mask);
        Ok(())
    }
}
