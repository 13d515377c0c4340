//! Structs: each field by itself.
//!
//! ```text
//! child i:  values of field i, as many as rows
//! ```

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;

use super::{Shape, Split, Values, below, stored_validity};
use crate::chunk::{Encoding, NodeView};
use crate::encoding::tree::NodeRole;
use crate::error::{Result, ensure};

pub(in crate::encoding) struct Struct;

impl Shape for Struct {
    fn encoding(&self) -> Encoding {
        Encoding::Struct
    }

    fn split(&self, array: &ArrayRef, mask: Option<&BooleanBuffer>) -> Option<Split> {
        let DataType::Struct(_) = array.data_type() else { return None };
        let array = array.as_struct();
        let below = below(array.nulls(), mask);
        let field = |field: &ArrayRef| Values { array: field.clone(), mask: below.clone() };
        Some(Split {
            validity: stored_validity(array.nulls(), mask),
            children: array.columns().iter().map(field).collect(),
        })
    }

    fn role(&self, index: usize) -> NodeRole {
        NodeRole::Field(index)
    }

    fn check(&self, node: NodeView<'_>) -> Result<()> {
        node.expect_shape(node.child_count(), 0, 0)?;
        for (index, child) in node.children().enumerate() {
            ensure!(
                child.len() == node.len(),
                "{} values of field {index} in {} structs",
                child.len(),
                node.len()
            );
        }
        Ok(())
    }
}
