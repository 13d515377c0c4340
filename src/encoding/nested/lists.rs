//! Lists: the elements of all rows one behind the other, and where they differ the lengths.
//!
//! ```text
//! list         child 0: length of each row, U32; 0 of null rows
//!              child 1: values of all elements, in order
//! fixed_list   child 0: values of all elements, those of null rows too
//! ```
//!
//! Lists with offsets of 32 and 64 bits, list views and maps are all `list`: offsets are sums
//! of lengths, and a view's elements come in the order of its rows. Elements of null rows are
//! left out, as are those that no row has. Rows of a `fixed_list` have no lengths to say
//! that something is left out: elements of null rows are below a null, and as cheap.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListViewArray, OffsetSizeTrait, UInt32Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

use super::{Shape, Split, Values, below, check_counts, gathered, push_range, stored_validity};
use crate::chunk::{Encoding, MAX_VALUES, NodeView};
use crate::encoding::tree::NodeRole;
use crate::error::{Result, ensure};

pub(in crate::encoding) struct List;

pub(in crate::encoding) struct FixedList;

/// Rows of a list view may share elements; if so many times as many would be stored as
/// there are, the array is not taken apart.
const MOST_SHARED: usize = 4;

type Rows<'a> = Box<dyn Fn(usize) -> Range<usize> + 'a>;

/// The elements of each row of a list of any kind, and all of them.
fn rows_of(array: &ArrayRef) -> Option<(Rows<'_>, ArrayRef)> {
    fn offsets<O: OffsetSizeTrait>(offsets: &[O]) -> Rows<'_> {
        Box::new(|row| offsets[row].as_usize()..offsets[row + 1].as_usize())
    }
    fn views<O: OffsetSizeTrait>(array: &GenericListViewArray<O>) -> Rows<'_> {
        Box::new(|row| {
            let start = array.value_offsets()[row].as_usize();
            start..start + array.value_sizes()[row].as_usize()
        })
    }
    Some(match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (offsets(list.value_offsets()), list.values().clone())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (offsets(list.value_offsets()), list.values().clone())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            (offsets(map.value_offsets()), Arc::new(map.entries().clone()))
        }
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            (views(list), list.values().clone())
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            (views(list), list.values().clone())
        }
        _ => return None,
    })
}

impl Shape for List {
    fn encoding(&self) -> Encoding {
        Encoding::List
    }

    fn split(&self, array: &ArrayRef, mask: Option<&BooleanBuffer>) -> Option<Split> {
        let (rows, elements) = rows_of(array)?;
        let stored = below(array.nulls(), mask);
        let (mut lengths, mut ranges) = (Vec::with_capacity(array.len()), Vec::new());
        let mut total = 0_usize;
        for row in 0..array.len() {
            let is_stored = stored.as_ref().is_none_or(|stored| stored.value(row));
            let range = if is_stored { rows(row) } else { 0..0 };
            lengths.push(u32::try_from(range.len()).ok()?);
            total += range.len();
            push_range(&mut ranges, range);
        }
        if total > MAX_VALUES || total / MOST_SHARED > elements.len() {
            return None;
        }
        let lengths = UInt32Array::from(lengths);
        Some(Split {
            validity: stored_validity(array.nulls(), mask),
            children: vec![
                Values::all(Arc::new(lengths)),
                Values::all(gathered(&elements, &ranges)?),
            ],
        })
    }

    fn role(&self, index: usize) -> NodeRole {
        [NodeRole::Lengths, NodeRole::Elements][index.min(1)]
    }

    fn check(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(2, 0, 0)?;
        let lengths = node.child(0);
        check_counts(node, lengths, "lengths")?;
        ensure!(lengths.len() == node.len(), "{} lengths for {} lists", lengths.len(), node.len());
        Ok(())
    }
}

impl Shape for FixedList {
    fn encoding(&self) -> Encoding {
        Encoding::FixedList
    }

    fn split(&self, array: &ArrayRef, mask: Option<&BooleanBuffer>) -> Option<Split> {
        let DataType::FixedSizeList(_, width) = array.data_type() else { return None };
        let array = array.as_fixed_size_list();
        let elements = array.values();
        let below = below(array.nulls(), mask);
        let expand = |mask| NullBuffer::new(mask).expand(*width as usize).into_inner();
        Some(Split {
            validity: stored_validity(array.nulls(), mask),
            children: vec![Values { array: elements.clone(), mask: below.map(expand) }],
        })
    }

    fn role(&self, _: usize) -> NodeRole {
        NodeRole::Elements
    }

    fn check(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(1, 0, 0)
    }
}
