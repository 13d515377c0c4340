//! Whether a chunk's tree holds values of the column's type: what the encodings, which know
//! no Arrow types, cannot check.

use arrow_schema::DataType;

use crate::chunk::{Chunk, NodeView};
use crate::encoding::source::{MAX_ABSENT_WIDTH, physical_of};
use crate::encoding::{self, Encoding, Physical};
use crate::error::{Result, ensure};

/// Checks that a chunk holds values of this Arrow type.
pub(crate) fn check_type(chunk: &Chunk, data_type: &DataType) -> Result<()> {
    let root = chunk.root();
    check_node(root, data_type)?;
    if let (DataType::FixedSizeBinary(width), Physical::Bytes) = (data_type, root.physical()) {
        let width = *width as usize;
        let absent =
            width <= MAX_ABSENT_WIDTH && has_bytes(root, chunk.rows() - chunk.null_count(), width);
        ensure!(
            absent || has_bytes(root, chunk.rows(), width),
            "{} bytes of values for {} rows and {} nulls of {data_type}",
            encoding::value_bytes(root),
            chunk.rows(),
            chunk.null_count()
        );
    }
    Ok(())
}

/// Whether the values of a node are as long together as so many of this width.
fn has_bytes(node: NodeView<'_>, values: usize, width: usize) -> bool {
    values.checked_mul(width) == Some(encoding::value_bytes(node))
}

/// Checks a node, and those below it that are values as well.
fn check_node(node: NodeView<'_>, data_type: &DataType) -> Result<()> {
    let (found, expected) = (node.physical(), physical_of(data_type));
    if node.encoding().is_nested() {
        return check_nested(node, data_type);
    }
    // Strings of 2 GiB are carried as Arrow IPC.
    let carried = found == Physical::Arrow && expected == Physical::Bytes;
    ensure!(
        found == expected || carried,
        "values of type {found:?} in a column of type {data_type}"
    );
    Ok(())
}

/// Checks a node inside of others, of which no value is absent.
fn check_inner(node: NodeView<'_>, data_type: &DataType) -> Result<()> {
    check_node(node, data_type)?;
    if let (DataType::FixedSizeBinary(width), Physical::Bytes) = (data_type, node.physical()) {
        ensure!(
            has_bytes(node, node.len(), *width as usize),
            "{} bytes of values for {} rows of {data_type} in others",
            encoding::value_bytes(node),
            node.len()
        );
    }
    Ok(())
}

fn check_nested(node: NodeView<'_>, data_type: &DataType) -> Result<()> {
    use DataType as T;
    match (node.encoding(), data_type) {
        (Encoding::Struct, T::Struct(fields)) => {
            let count = node.child_count();
            ensure!(count == fields.len(), "{count} fields of structs, {} expected", fields.len());
            (node.children().zip(fields))
                .try_for_each(|(child, field)| check_inner(child, field.data_type()))
        }
        (
            Encoding::List,
            T::List(item)
            | T::LargeList(item)
            | T::ListView(item)
            | T::LargeListView(item)
            | T::Map(item, _),
        ) => check_inner(node.child(1), item.data_type()),
        (Encoding::FixedList, T::FixedSizeList(item, width)) => {
            let elements = node.child(0);
            ensure!(
                node.len().checked_mul(*width as usize) == Some(elements.len()),
                "{} elements for {} lists of {width}",
                elements.len(),
                node.len()
            );
            check_inner(elements, item.data_type())
        }
        (Encoding::Keys, T::Dictionary(keys, values)) => {
            check_inner(node.child(0), keys)?;
            check_inner(node.child(1), values)
        }
        (Encoding::RunEnds, T::RunEndEncoded(_, values)) => {
            check_inner(node.child(1), values.data_type())
        }
        (encoding, _) => {
            ensure!(false, "a {encoding} node in a column of type {data_type}");
            Ok(())
        }
    }
}
