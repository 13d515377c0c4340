//! Statistics that kernels compute of words, by their type and place in a tree.

use super::encoders::{self, MEASUREMENTS, Measurement};
use crate::encoding::plan::Context;
use crate::encoding::{Encoding, Physical};
use crate::gpu::abi::encoding_bit;
use crate::options::Options;

/// What is asked of words beside their bounds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measurements {
    /// The encodings that something is measured for, as bits.
    encodings: u32,
    /// Distinct values and runs of a sample.
    pub sample: bool,
    /// All that at once, of all vectors: for words that mostly have exceptions.
    pub whole: bool,
}

impl Measurements {
    /// Nothing but bounds.
    pub const BOUNDS: Self = Self { encodings: 0, sample: false, whole: true };

    /// What the encodings of a type that are allowed there need.
    pub fn by(context: &Context<'_>, physical: Physical) -> Self {
        let is_asked = |one: &&Measurement| {
            (one.suits)(physical)
                && context.options.allows(one.encoding)
                && (!one.has_children || context.may_nest())
        };
        let asked = MEASUREMENTS.iter().filter(is_asked);
        let encodings = asked.fold(0, |all, one| all | encoding_bit(one.encoding as u16));
        Self { encodings, sample: encoders::samples_rows(context), whole: false }
    }

    /// What the allowed encodings of lengths of strings need.
    pub fn of_lengths(options: &Options) -> Self {
        let by = Self::by(&Context::new(options, None), Physical::U32);
        Self { whole: true, ..by.leaves() }
    }

    /// What those of the bytes of bits need, whose runs are counted in any case.
    pub fn of_bits(context: &Context<'_>) -> Self {
        Self { sample: true, ..Self::by(context, Physical::U8).leaves() }
    }

    /// What those of codes of dictionaries need.
    pub fn of_codes(context: &Context<'_>) -> Self {
        Self::by(context, Physical::U32).only(|one| one.suits_codes)
    }

    /// The same of words that no other words are made of.
    pub fn leaves(self) -> Self {
        self.without_sample().only(|one| !one.has_children)
    }

    /// The same without an encoding.
    pub fn without(self, encoding: Encoding) -> Self {
        self.only(|one| one.encoding != encoding)
    }

    /// The same without what a sample of rows says.
    pub fn without_sample(self) -> Self {
        Self { sample: false, ..self }
    }

    fn only(self, keeps: impl Fn(&Measurement) -> bool) -> Self {
        let kept = MEASUREMENTS.iter().filter(|one| keeps(one));
        let kept = kept.fold(0, |all, one| all | encoding_bit(one.encoding as u16));
        Self { encodings: self.encodings & kept, ..self }
    }

    /// Whether something is measured for an encoding.
    pub fn has(self, encoding: Encoding) -> bool {
        self.encodings & encoding_bit(encoding as u16) != 0
    }
}
