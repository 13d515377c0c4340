//! Dictionary arrays: their keys, and their dictionary whole and in its order, values that no
//! key of the chunk uses included.
//!
//! ```text
//! child 0: key of each row, of the array's type of keys; those of null rows are as cheap as nulls
//! child 1: values of the dictionary
//! ```
//!
//! A dictionary is part of what its array is to those who made it, so it comes back as it was,
//! and is repeated in every chunk. (Dictionaries that only make a chunk smaller are `dict`.)

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;

use super::{Shape, Split, Values, below, stored_validity};
use crate::chunk::{Encoding, NodeView};
use crate::encoding::tree::NodeRole;
use crate::error::{Result, ensure};

pub(in crate::encoding) struct Keys;

impl Shape for Keys {
    fn encoding(&self) -> Encoding {
        Encoding::Keys
    }

    fn split(&self, array: &ArrayRef, mask: Option<&BooleanBuffer>) -> Option<Split> {
        let DataType::Dictionary(..) = array.data_type() else { return None };
        let array = array.as_any_dictionary();
        let nulls = array.keys().nulls();
        let keys = array.keys().to_data().into_builder().nulls(None).build().ok()?;
        Some(Split {
            validity: stored_validity(nulls, mask),
            children: vec![
                Values { array: make_array(keys), mask: below(nulls, mask) },
                Values::all(array.values().clone()),
            ],
        })
    }

    fn role(&self, index: usize) -> NodeRole {
        [NodeRole::Keys, NodeRole::Dictionary][index.min(1)]
    }

    fn check(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(2, 0, 0)?;
        let keys = node.child(0);
        ensure!(
            keys.physical().is_integer() && keys.len() == node.len() && keys.validity().is_none(),
            "{} keys of type {:?}{} for {} rows",
            keys.len(),
            keys.physical(),
            if keys.validity().is_some() { " with nulls" } else { "" },
            node.len()
        );
        Ok(())
    }
}
