//! Nested arrays: what they consist of, encoded piece by piece.
//!
//! ```text
//! struct                  list                          keys
//! |- values of field 0    |- length of each row, U32    |- key of each row
//! |- values of field 1    |- values of all elements     |- values of the dictionary
//! ...
//! fixed_list              run_ends
//! |- values of elements   |- length of each run, U32
//!                         |- value of each run
//! ```
//!
//! *Values* here are columns of their own: a leaf is planned as a column is, other arrays are
//! taken apart in turn, and what has no encoding is an Arrow IPC stream below the tree. All
//! nested nodes are of physical type Arrow; which Arrow type an encoding stands for is the
//! column's to say, and `column` checks that the tree fits it.
//!
//! *Nulls.* Structs, lists of all kinds and dictionary arrays have a validity if some of their
//! rows are null, and so have values of any flat type. Lengths and keys have none, nor have
//! run-end encoded arrays, whose values may be null. Rows below the nulls of structs and fixed
//! lists are stored, and how is up to the encoder ([`Values::mask`]): they cost as little
//! as nulls do and count as valid, so that a field has no bitmap because of its struct's.
//! Elements of null lists are not stored.
//!
//! *Bounds.* Every flat node has at most 131,072 values or is made of pieces that have, 32 bytes
//! of header each (`pieces`), or is plain, of as many bytes as its values; nested ones have as
//! many rows as a flat child, with few exceptions that hold no bytes: structs without fields,
//! lists of a fixed length of 0, nulls. Those have less than 2^32.

mod keys;
mod lists;
mod run_ends;
mod structs;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::DataType;

pub(in crate::encoding) use keys::Keys;
pub(in crate::encoding) use lists::{FixedList, List};
pub(in crate::encoding) use run_ends::RunEnds;
pub(in crate::encoding) use structs::Struct;

use super::source::ArrayInput;
use super::{Codec, CodecSet, Encoding, Estimate, Input, Physical};
use crate::chunk::{EncodedNode, MAX_VALUES, NodeView};
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::statistics::{Answer, PlannedParts, Statistics};
use crate::encoding::tree::NodeRole;
use crate::error::{Result, ensure};
use crate::options::Options;

/// What a node takes in a header, and in gaps between buffers.
const NODE_BYTES: usize = 96;

/// Values inside of a nested array.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub array: ArrayRef,
    /// The rows that are not below a null; all if there is none.
    pub mask: Option<BooleanBuffer>,
}

impl Values {
    /// Values none of which is below a null.
    pub fn all(array: ArrayRef) -> Self {
        Self { array, mask: None }
    }

    /// The values as an encoder takes them.
    pub fn input(&self) -> ArrayInput {
        let is_flat = super::source::physical_of(self.array.data_type()) != Physical::Arrow;
        let nulls = if is_flat { self.array.nulls() } else { None };
        let valid = below(nulls, self.mask.as_ref());
        ArrayInput::new(&self.array, valid.as_ref(), false)
    }

    /// Calls `work` with the values as an encoder's input.
    fn with_input<R>(&self, work: impl Fn(&Input<'_>) -> R) -> R {
        work(&self.input().input())
    }

    fn plan(&self, options: &Options) -> Plan {
        self.planned(self.with_input(|input| plan::plan_input(input, &Context::new(options, None))))
    }

    /// What a plan of the values comes to as that of a part.
    pub fn planned(&self, mut plan: Plan) -> Plan {
        // Arrays have counted theirs.
        if !plan.encoding.is_nested() && self.validity().is_some() {
            plan.bytes = plan.bytes.saturating_add(validity_bytes(self.array.len()));
        }
        plan.bytes = plan.bytes.saturating_add(NODE_BYTES);
        plan
    }

    fn encode(&self, plan: &Plan, options: &Options) -> Result<EncodedNode> {
        let context = Context::new(options, None);
        let mut node = self.with_input(|input| plan::encode(input, plan, &context))?;
        // Arrays have seen to their own.
        if node.physical != Physical::Arrow {
            node.validity = encoded_validity(self.validity().as_ref(), &context)?;
        }
        Ok(node)
    }

    /// Which of them are valid, if that is stored.
    pub fn validity(&self) -> Option<BooleanBuffer> {
        stored_validity(self.array.nulls(), self.mask.as_ref())
    }
}

/// A nested array taken apart.
#[derive(Debug)]
pub(crate) struct Split {
    /// A bit for each row, if some are null.
    pub validity: Option<BooleanBuffer>,
    /// What becomes the node's children.
    pub children: Vec<Values>,
}

/// All shapes, each of types of its own.
static SHAPES: [&dyn Shape; 5] = [&Struct, &List, &FixedList, &Keys, &RunEnds];

/// Whether arrays of a type may be taken apart.
pub(crate) fn comes_apart(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Struct(_)
            | T::List(_)
            | T::LargeList(_)
            | T::ListView(_)
            | T::LargeListView(_)
            | T::FixedSizeList(..)
            | T::Map(..)
            | T::Dictionary(..)
            | T::RunEndEncoded(..)
    )
}

/// Takes values apart by one of some encodings; none if no such encoding suits them.
pub(crate) fn split(values: &Values, allowed: CodecSet) -> Option<(Encoding, Split)> {
    let allowed = |shape: &&&dyn Shape| allowed.has(shape.encoding());
    let split = |shape: &&dyn Shape| {
        Some((shape.encoding(), split_as(*shape, &values.array, values.mask.as_ref())?))
    };
    SHAPES.iter().filter(allowed).find_map(split)
}

/// Takes an array apart, if it is of a shape and its parts are not too many values.
fn split_as(
    shape: &(impl Shape + ?Sized),
    array: &ArrayRef,
    mask: Option<&BooleanBuffer>,
) -> Option<Split> {
    let fits = |split: &Split| split.children.iter().all(|one| one.array.len() <= MAX_VALUES);
    shape.split(array, mask).filter(fits)
}

/// What one encoding makes of arrays of its types.
pub(crate) trait Shape: Sync {
    /// Which one.
    fn encoding(&self) -> Encoding;

    /// Takes an array apart; none if it is of another type, or does not fit. `mask` has the
    /// rows that are not below a null.
    fn split(&self, array: &ArrayRef, mask: Option<&BooleanBuffer>) -> Option<Split>;

    /// What the values of the `index`-th child are.
    fn role(&self, index: usize) -> NodeRole;

    /// Checks number, types and lengths of a node's children.
    fn check(&self, node: NodeView<'_>) -> Result<()>;
}

/// The codec of a shape.
pub(in crate::encoding) struct Nested<S>(pub S);

impl<S: Shape> Codec for Nested<S> {
    fn encoding(&self) -> Encoding {
        self.0.encoding()
    }

    fn takes(&self, physical: Physical) -> bool {
        physical == Physical::Arrow
    }

    fn validate(&self, node: NodeView<'_>) -> Result<()> {
        if node.physical() != Physical::Arrow {
            return Err(super::io::mismatch(node));
        }
        self.0.check(node)
    }

    fn role(&self, _: NodeView<'_>, index: usize) -> NodeRole {
        self.0.role(index)
    }

    fn plan(&self, values: &dyn Statistics, context: &Context<'_>) -> Answer<Option<Estimate>> {
        let Some(parts) = values.parts(self.encoding(), context)? else { return Ok(None) };
        let PlannedParts { plans: children, nulls, parameters } = parts;
        let validity = nulls.map_or(0, validity_bytes);
        Ok(Some(Estimate { parameters, children, ..Estimate::of([validity]) }))
    }

    fn plan_parts(&self, input: &Input<'_>, context: &Context<'_>) -> Option<PlannedParts> {
        let super::Values::Arrow(array) = input.values else { return None };
        let mask = input
            .valid
            .map(|words| BooleanBuffer::new(Buffer::from_slice_ref(words), 0, input.len()));
        let split = split_as(&self.0, array, mask.as_ref())?;
        Some(PlannedParts {
            plans: split.children.iter().map(|child| child.plan(context.options)).collect(),
            nulls: split.validity.as_ref().map(BooleanBuffer::len),
            parameters: Parameters::Nested(Arc::new(split)),
        })
    }

    fn encode(
        &self,
        input: &Input<'_>,
        plan: &Plan,
        context: &Context<'_>,
    ) -> Result<Option<EncodedNode>> {
        let Parameters::Nested(split) = &plan.parameters else { return Ok(None) };
        let mut node = EncodedNode::new(self.encoding(), Physical::Arrow, input.len());
        node.validity = encoded_validity(split.validity.as_ref(), context)?;
        for (child, plan) in split.children.iter().zip(&plan.children) {
            node.children.push(child.encode(plan, context.options)?);
        }
        Ok(Some(node))
    }

    /// Those of the leaves, and of carried arrays the streams.
    fn value_bytes(&self, node: NodeView<'_>) -> usize {
        let bytes = |child: NodeView<'_>| match child.physical().bits() {
            Some(bits) => (child.len() * bits).div_ceil(8),
            None => super::value_bytes(child),
        };
        node.children().map(bytes).fold(0, usize::saturating_add)
    }
}

fn validity_bytes(rows: usize) -> usize {
    rows.div_ceil(8) + NODE_BYTES
}

/// The validity of an array of which rows outside `mask` are below a null, and count as valid.
fn stored_validity(
    nulls: Option<&NullBuffer>,
    mask: Option<&BooleanBuffer>,
) -> Option<BooleanBuffer> {
    let own = nulls.filter(|nulls| nulls.null_count() > 0)?.inner();
    let bits = mask.map_or_else(|| own.clone(), |mask| own | &!mask);
    (bits.count_set_bits() < bits.len()).then_some(bits)
}

/// The rows of an array's children that are not below a null: its own and those around it.
fn below(nulls: Option<&NullBuffer>, mask: Option<&BooleanBuffer>) -> Option<BooleanBuffer> {
    let bits = match (nulls.map(NullBuffer::inner), mask) {
        (Some(own), Some(mask)) => own & mask,
        (Some(bits), None) | (None, Some(bits)) => bits.clone(),
        (None, None) => return None,
    };
    (bits.count_set_bits() < bits.len()).then_some(bits)
}

fn encoded_validity(
    bits: Option<&BooleanBuffer>,
    context: &Context<'_>,
) -> Result<Option<Box<EncodedNode>>> {
    let Some(bits) = bits else { return Ok(None) };
    let input = Input::new(Physical::Bool, super::Values::Bits(bits));
    let plan = plan::plan_input(&input, context);
    Ok(Some(Box::new(plan::encode(&input, &plan, context)?)))
}

/// The rows of an array in these ranges, one behind the other; none if Arrow cannot copy them.
fn gathered(array: &ArrayRef, ranges: &[Range<usize>]) -> Option<ArrayRef> {
    match ranges {
        [] => Some(array.slice(0, 0)),
        [range] => Some(array.slice(range.start, range.len())),
        ranges => {
            let data = array.to_data();
            let rows = ranges.iter().map(Range::len).sum();
            let copied = crate::fence::fenced(|| {
                let mut copy = MutableArrayData::new(vec![&data], false, rows);
                ranges.iter().try_for_each(|range| copy.try_extend(0, range.start, range.end))?;
                Ok(make_array(copy.freeze()))
            });
            copied.ok()
        }
    }
}

/// Appends a range to those before, to the last if it begins where that ends.
fn push_range(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Checks a child of integers without nulls that counts something.
fn check_counts(node: NodeView<'_>, child: NodeView<'_>, what: &str) -> Result<()> {
    ensure!(
        child.physical() == Physical::U32 && child.validity().is_none(),
        "{what} of type {:?}{} in a {} node",
        child.physical(),
        if child.validity().is_some() { " with nulls" } else { "" },
        node.encoding()
    );
    Ok(())
}
