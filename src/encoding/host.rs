//! Statistics of values in host memory, each part computed when it is asked for.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::alp_rd::Cut;
use super::dict::{Distinct, SampledValues};
use super::fsst::Symbols;
use super::io::{OwnedValues, with_words};
use super::lz::{LzBytes, Promise};
use super::plan::{Context, Parameters};
use super::statistics::{
    Answer, Child, CodedSample, Missing, PlannedParts, Prefixes, SampledBytes, SampledRuns,
    Statistics, TableOf, sampled_vectors,
};
use super::{
    CODECS, Encoding, Input, Physical, Values, alp, alp_rd, codec, constant, ffor, front, fsst,
    gcd, lz, pfor, plain, rank, rle,
};
use crate::lanes::VECTOR;
use crate::options::Lz;

/// Values that a codec derives from others, to become children of a node.
#[derive(Debug)]
pub(crate) struct Derived {
    /// How much a search has found; 1 where nothing is counted.
    pub found: usize,
    pub children: Vec<Derivative>,
    /// Whether they are of sampled vectors only.
    pub is_sample: bool,
}

impl Derived {
    /// These children of all rows.
    pub fn of(children: impl IntoIterator<Item = Derivative>) -> Self {
        let children = children.into_iter().collect();
        Self { found: 1, children, is_sample: false }
    }
}

/// One child.
#[derive(Debug)]
pub(crate) struct Derivative {
    pub physical: Physical,
    pub values: OwnedValues,
    /// Whether it has the nulls of what it is derived from.
    pub has_nulls: bool,
}

impl Derivative {
    /// Values all of which are valid.
    pub fn new(physical: Physical, values: OwnedValues) -> Self {
        Self { physical, values, has_nulls: false }
    }

    /// What is encoded, if all values are valid.
    pub fn input(&self) -> Input<'_> {
        self.values.input(self.physical)
    }
}

/// Statistics of an input. What others are derived from is kept while they are planned.
pub(crate) struct HostStatistics<'a> {
    input: Input<'a>,
    /// The symbol table of the chunk's group, for strings.
    symbols: Option<&'a Arc<Symbols>>,
    /// Vectors that the input is a sample of, if it is one.
    sample_of: Option<usize>,
    /// By the rank of the encoding.
    derived: [OnceCell<Option<Arc<Derived>>>; CODECS.len()],
    lengths: OnceCell<OwnedValues>,
    prefixes: OnceCell<OwnedValues>,
    bytes: OnceCell<Option<Cow<'a, [u8]>>>,
    /// The parts of the values by an encoding, if these have been planned before.
    parts: Option<(Encoding, PlannedParts)>,
}

impl<'a> HostStatistics<'a> {
    /// `symbols` is the symbol table of the chunk's group, for strings.
    pub fn new(input: &Input<'a>, symbols: Option<&'a Arc<Symbols>>) -> Self {
        Self {
            input: *input,
            symbols,
            sample_of: None,
            derived: [const { OnceCell::new() }; CODECS.len()],
            lengths: OnceCell::new(),
            prefixes: OnceCell::new(),
            bytes: OnceCell::new(),
            parts: None,
        }
    }

    /// Of values whose parts by an encoding have been planned before.
    pub fn of_parts(input: &Input<'a>, encoding: Encoding, parts: PlannedParts) -> Self {
        Self { parts: Some((encoding, parts)), ..Self::new(input, None) }
    }

    /// Of values that are a sample of so many vectors.
    fn sample(input: &Input<'a>, vectors: usize) -> Self {
        Self { sample_of: Some(vectors), ..Self::new(input, None) }
    }

    /// Of values that are derived from these.
    fn child<'c>(&self, input: &Input<'c>) -> Child<'c>
    where
        'a: 'c,
    {
        Box::new(HostStatistics::new(input, self.symbols))
    }

    fn vectors_to_look_at(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        sampled_vectors(self.input.vectors())
    }

    /// What a codec derives of the values, the argument being that of the first call.
    fn derived(&self, encoding: Encoding, argument: u64) -> Option<&Arc<Derived>> {
        let derive = || codec(encoding).derive(&self.input, argument).map(Arc::new);
        self.derived[rank(encoding)].get_or_init(derive).as_ref()
    }

    /// The bytes that lz compresses.
    fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get_or_init(|| lz::bytes_of(&self.input).ok().flatten()).as_deref()
    }
}

impl Statistics for HostStatistics<'_> {
    fn physical(&self) -> Physical {
        self.input.physical
    }

    fn rows(&self) -> usize {
        self.sample_of.map_or(self.input.len(), |vectors| vectors * VECTOR)
    }

    fn single(&self) -> Answer<Option<usize>> {
        Ok(constant::single(&self.input).map(|value| value.byte_len()))
    }

    fn widths(&self) -> Answer<usize> {
        with_words!(Values, self.input.values, words => {
            Ok(ffor::widths(&self.input, words, self.vectors_to_look_at()))
        }, Err(Missing))
    }

    fn patched(&self) -> Answer<SampledBytes> {
        with_words!(Values, self.input.values, words => {
            Ok(pfor::patched(&self.input, words, self.vectors_to_look_at()))
        }, Err(Missing))
    }

    fn divisor(&self) -> Answer<u64> {
        with_words!(Values, self.input.values, words => {
            Ok(gcd::divisor_of(&self.input, words, self.vectors_to_look_at()))
        }, Err(Missing))
    }

    fn decimals(&self) -> Answer<(SampledBytes, Parameters)> {
        alp::sampled(&self.input).ok_or(Missing)
    }

    fn cut(&self, limit: usize) -> Answer<Option<(Cut, usize)>> {
        Ok(alp_rd::sampled_cut(&self.input, limit))
    }

    fn sampled_values(&self) -> Answer<Option<SampledValues>> {
        Ok(Distinct::count(&self.input, self.vectors_to_look_at()))
    }

    fn sampled_runs(&self) -> Answer<SampledRuns> {
        with_words!(Values, self.input.values, words => {
            Ok(rle::count(&self.input, words, self.vectors_to_look_at()))
        }, Err(Missing))
    }

    fn value_bytes(&self) -> Answer<usize> {
        match self.input.values {
            Values::Bytes(values) => Ok(values.total()),
            Values::Arrow(array) => Ok(plain::stream_bytes(array)),
            _ => Err(Missing),
        }
    }

    fn lengths(&self) -> Answer<Child<'_>> {
        let Values::Bytes(values) = self.input.values else { return Err(Missing) };
        let lengths = self.lengths.get_or_init(|| OwnedValues::W32(values.lengths()));
        Ok(self.child(&lengths.input(Physical::U32)))
    }

    fn coded(&self, by: TableOf) -> Answer<Option<CodedSample>> {
        let Values::Bytes(values) = self.input.values else { return Err(Missing) };
        Ok(match (by, self.symbols) {
            (TableOf::Group, symbols) => symbols.and_then(|symbols| fsst::coded(values, symbols)),
            (TableOf::Chunk, _) => fsst::coded_by_own(values),
        })
    }

    fn sampled_prefixes(&self) -> Answer<Option<Prefixes<'_>>> {
        let Values::Bytes(values) = self.input.values else { return Err(Missing) };
        let prefixes = || {
            let rows = self.vectors_to_look_at().flat_map(|vector| self.input.rows_of(vector));
            OwnedValues::W32(rows.map(|row| front::prefix(values, row)).collect())
        };
        let OwnedValues::W32(prefixes) = self.prefixes.get_or_init(prefixes) else {
            return Err(Missing);
        };
        let bytes = |vector: usize| {
            let rows = self.input.rows_of(vector);
            values.offsets[rows.end] - values.offsets[rows.start]
        };
        let lengths = Input::new(Physical::U32, Values::W32(prefixes));
        Ok(Some(Prefixes {
            saved: prefixes.iter().map(|prefix| u64::from(*prefix)).sum(),
            bytes: self.vectors_to_look_at().map(bytes).sum(),
            lengths: Box::new(HostStatistics::sample(&lengths, self.input.vectors())),
        }))
    }

    fn lz_bytes(&self, limit: usize) -> Answer<Option<LzBytes>> {
        let lz_bytes = lz::lz_bytes_of(&self.input, limit);
        Ok(lz_bytes.and_then(|lz_bytes| match self.input.values {
            Values::Arrow(_) => lz_bytes.of_its_bytes(self.bytes()?.len()),
            _ => Some(lz_bytes),
        }))
    }

    fn matches(&self, of: &LzBytes, settings: &Lz) -> Answer<Option<Promise>> {
        Ok(self.bytes().and_then(|bytes| lz::matches_of(bytes, of, settings)))
    }

    fn search(&self, encoding: Encoding, argument: u64) -> Answer<Option<usize>> {
        Ok(self.derived(encoding, argument).map(|derived| derived.found))
    }

    fn children(&self, encoding: Encoding) -> Answer<Vec<Child<'_>>> {
        let derived = self.derived(encoding, 0).ok_or(Missing)?;
        let sample_of = derived.is_sample.then(|| self.input.vectors());
        let mut children: Vec<Child<'_>> = Vec::with_capacity(derived.children.len());
        for Derivative { physical, values, has_nulls } in &derived.children {
            let valid = self.input.valid.filter(|_| *has_nulls);
            let input = Input { valid, ..values.input(*physical) };
            let child = HostStatistics { sample_of, ..HostStatistics::new(&input, self.symbols) };
            children.push(Box::new(child));
        }
        Ok(children)
    }

    fn parts(&self, encoding: Encoding, context: &Context<'_>) -> Answer<Option<PlannedParts>> {
        match &self.parts {
            Some((of, parts)) => Ok((*of == encoding).then(|| parts.clone())),
            None => Ok(codec(encoding).plan_parts(&self.input, context)),
        }
    }

    fn parameters(&self, encoding: Encoding) -> Parameters {
        let derived = self.derived(encoding, 0).cloned();
        derived.map_or(Parameters::None, Parameters::Derived)
    }
}
