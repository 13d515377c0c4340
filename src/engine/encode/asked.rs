//! What is to be measured of words, by what they are.

use crate::encoding::plan::Context;
use crate::encoding::{Encoding, Physical};
use crate::options::Options;

/// What is asked of words beside their bounds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// Exponents of floats.
    pub alp: bool,
    /// Where floats may be cut.
    pub reals: bool,
    /// Windows with exceptions.
    pub patches: bool,
    pub deltas: bool,
    /// Distinct values and runs of a sample.
    pub sample: bool,
    /// What the values of a sample can be divided by.
    pub divisors: bool,
    /// All that at once, of all vectors: for words that mostly have exceptions.
    pub whole: bool,
}

impl Asked {
    /// Nothing but bounds.
    pub const BOUNDS: Self = Self {
        alp: false,
        reals: false,
        patches: false,
        deltas: false,
        sample: false,
        divisors: false,
        whole: true,
    };

    /// What the allowed encodings of lengths of strings need.
    pub fn of_lengths(options: &Options) -> Self {
        let by = Self::by(&Context::new(options, None), Physical::U32);
        Self { deltas: false, sample: false, divisors: false, whole: true, ..by }
    }

    /// What those of the bytes of bits need, whose runs are counted in any case.
    pub fn of_bits(context: &Context<'_>) -> Self {
        Self { deltas: false, sample: true, ..Self::by(context, Physical::U8) }
    }

    /// What those of quotients need, of which nothing else is made.
    pub fn of_quotients(context: &Context<'_>, physical: Physical) -> Self {
        Self { sample: false, divisors: false, ..Self::by(context, physical) }
    }

    /// What those of codes of dictionaries need, of which 0 and 1 have no divisor.
    pub fn of_codes(context: &Context<'_>) -> Self {
        Self { divisors: false, ..Self::by(context, Physical::U32) }
    }

    /// What those of lengths of runs need.
    pub fn of_run_lengths(context: &Context<'_>) -> Self {
        Self { deltas: false, sample: false, ..Self::by(context, Physical::U16) }
    }

    /// What the encodings of a type that are allowed there need.
    pub fn by(context: &Context<'_>, physical: Physical) -> Self {
        let options = context.options;
        let dictionaries = options.allows(Encoding::Dict) && !context.in_dictionary;
        let runs = options.allows(Encoding::Rle) && !context.in_runs;
        let is_float = matches!(physical, Physical::F32 | Physical::F64);
        Self {
            alp: is_float && options.allows(Encoding::Alp),
            reals: is_float && options.allows(Encoding::AlpRd),
            patches: physical.is_integer() && options.allows(Encoding::Pfor),
            deltas: physical.signed().is_some()
                && options.allows(Encoding::Delta)
                && context.may_nest(),
            sample: context.may_nest() && (dictionaries || runs),
            divisors: physical.is_integer()
                && matches!(physical.bits(), Some(32 | 64))
                && options.allows(Encoding::Gcd)
                && context.may_nest(),
            whole: false,
        }
    }
}
