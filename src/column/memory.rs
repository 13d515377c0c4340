//! How much memory decompressed values take, added up from headers and compared with a limit before
//! memory is taken (`src/memory.rs`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_schema::DataType;

use super::CompressedColumn;
use crate::chunk::{Chunk, NodeView};
use crate::encoding::{self, Encoding, Physical};
use crate::error::Result;
use crate::memory::MemoryLimit;

/// Bytes for each string or list beside its values: a view, or an offset and a size of 64 bits.
const PER_STRING: u64 = 16;

/// Checks what the values of columns take against a limit.
pub(crate) fn check_memory(limit: MemoryLimit, columns: &[CompressedColumn]) -> Result<()> {
    let stored = columns.iter().map(CompressedColumn::compressed_bytes).sum();
    let needed = |column: &CompressedColumn| {
        let parts = column.chunks().iter().map(|chunk| (chunk.root(), chunk.rows()));
        memory_of(parts, column.data_type())
    };
    let columns = columns.iter().map(|column| (column.field().name().as_str(), needed(column)));
    limit.check(stored, columns).map(drop)
}

/// What gathered rows of columns take, once that is checked: `kept` is how many rows of each chunk are in vectors
/// that have kept rows, which are decoded as a whole.
pub(crate) fn check_kept_memory(
    limit: MemoryLimit,
    columns: &[&CompressedColumn],
    kept: &[usize],
) -> Result<u64> {
    let stored = columns.iter().map(|column| column.compressed_bytes()).sum();
    let needed = |column: &CompressedColumn| {
        let rows = |(chunk, kept): (&'_ Chunk, &usize)| match *kept > 0 && is_whole(chunk.root()) {
            true => chunk.rows(),
            false => *kept,
        };
        let chunks = column.chunks().iter().zip(kept);
        let parts = chunks.map(|(chunk, kept)| (chunk.root(), rows((chunk, kept))));
        memory_of(parts, column.data_type())
    };
    let columns = columns.iter().map(|column| (column.field().name().as_str(), needed(column)));
    limit.check(stored, columns)
}

/// Checks what the values of one chunk take, where a scan or a single value needs all of them.
pub(super) fn check_chunk(chunk: &Chunk, data_type: &DataType) -> Result<()> {
    let needed = memory_of([(chunk.root(), chunk.rows())].into_iter(), data_type);
    MemoryLimit::default().check(chunk.compressed_bytes(), std::iter::once(("", needed))).map(drop)
}

/// Whether some rows of a node are decoded with all others: carried arrays and dictionaries.
pub(crate) fn is_whole(node: NodeView<'_>) -> bool {
    match node.encoding() {
        Encoding::Plain | Encoding::Lz => node.physical() == Physical::Arrow,
        Encoding::Keys => true,
        encoding => encoding.is_nested() && node.children().any(is_whole),
    }
}

/// Bytes of memory that some rows of nodes of values of a type take as Arrow arrays, each node
/// given with how many. Of values of fixed width it is what they take, of others at most as much.
pub(crate) fn memory_of<'a>(
    parts: impl Iterator<Item = (NodeView<'a>, usize)>,
    data_type: &DataType,
) -> u64 {
    parts.map(|(node, rows)| bytes_of(node, data_type, rows)).fold(0, u64::saturating_add)
}

fn bytes_of(node: NodeView<'_>, data_type: &DataType, rows: usize) -> u64 {
    if rows == 0 {
        return 0;
    }
    let bitmap = rows.div_ceil(8) as u64;
    let rows = rows as u64;
    match node.physical() {
        // Nulls above become a bitmap of elements.
        Physical::Arrow => nested(node, data_type, rows).saturating_add(bitmap),
        physical => {
            let values = match physical.bits() {
                Some(bits) => rows.saturating_mul(bits as u64).div_ceil(8),
                None => strings(node, data_type, rows),
            };
            let validity = if node.validity().is_some() { bitmap } else { 0 };
            values.saturating_add(validity)
        }
    }
}

fn strings(node: NodeView<'_>, data_type: &DataType, rows: u64) -> u64 {
    let all = encoding::value_bytes(node) as u64;
    let bytes = match node.encoding() {
        Encoding::Constant => rows.saturating_mul(all / node.len().max(1) as u64),
        _ => all,
    };
    // Nulls of values of fixed width are stored as no bytes.
    let width = match data_type {
        DataType::FixedSizeBinary(width) => *width as u64,
        _ => 0,
    };
    bytes.max(rows.saturating_mul(width)).saturating_add(rows.saturating_mul(PER_STRING))
}

fn nested(node: NodeView<'_>, data_type: &DataType, rows: u64) -> u64 {
    use DataType as T;
    let some = |child: NodeView<'_>, data_type: &DataType, rows: u64| {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        // Elements may be below nulls, which become a bitmap of theirs.
        bytes_of(child, data_type, rows).saturating_add(rows as u64 / 8 + 1)
    };
    let all =
        |child: NodeView<'_>, data_type: &DataType| some(child, data_type, child.len() as u64);
    match (node.encoding(), data_type) {
        (Encoding::Struct, T::Struct(fields)) => (node.children().zip(fields))
            .map(|(child, field)| some(child, field.data_type(), rows))
            .fold(0, u64::saturating_add),
        (Encoding::FixedList, T::FixedSizeList(item, width)) => {
            some(node.child(0), item.data_type(), rows.saturating_mul(*width as u64))
        }
        (
            Encoding::List,
            T::List(item)
            | T::LargeList(item)
            | T::ListView(item)
            | T::LargeListView(item)
            | T::Map(item, _),
        ) => all(node.child(1), item.data_type()).saturating_add(PER_STRING * rows),
        (Encoding::Keys, T::Dictionary(keys, values)) => {
            some(node.child(0), keys, rows).saturating_add(all(node.child(1), values))
        }
        (Encoding::RunEnds, T::RunEndEncoded(ends, values)) => {
            let runs = node.child(0).len() as u64;
            let width = ends.data_type().primitive_width().unwrap_or(8) as u64;
            all(node.child(1), values.data_type()).saturating_add(runs.saturating_mul(width))
        }
        // Carried arrays are as large as their streams, but may have bitmaps that these lack.
        _ => (encoding::value_bytes(node) as u64).saturating_add(node.len() as u64 / 8),
    }
}

/// Bytes of an array's buffers as far as its rows refer to them, where Arrow's own count takes all
/// elements of lists. Of dictionaries and list views all values count.
pub(crate) fn array_bytes(array: &dyn Array) -> usize {
    fn list<O: OffsetSizeTrait>(offsets: &[O], elements: &ArrayRef) -> usize {
        let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
        size_of_val(offsets) + array_bytes(&elements.slice(first, last - first))
    }
    let children = match array.data_type() {
        DataType::List(_) => {
            list(array.as_list::<i32>().value_offsets(), array.as_list::<i32>().values())
        }
        DataType::LargeList(_) => {
            list(array.as_list::<i64>().value_offsets(), array.as_list::<i64>().values())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            list(map.value_offsets(), &entries)
        }
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|child| array_bytes(child)).sum()
        }
        DataType::FixedSizeList(..) => array_bytes(array.as_fixed_size_list().values()),
        DataType::Utf8View => {
            let views = array.as_string_view();
            size_of_val(&views.views()[..]) + views.total_buffer_bytes_used()
        }
        DataType::BinaryView => {
            let views = array.as_binary_view();
            size_of_val(&views.views()[..]) + views.total_buffer_bytes_used()
        }
        _ => return array.to_data().get_slice_memory_size().unwrap_or(0),
    };
    children.saturating_add(array.nulls().map_or(0, |nulls| nulls.len().div_ceil(8)))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, ListArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn slices_of_lists_take_their_own_elements() {
        let elements: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let field = Arc::new(Field::new_list_field(DataType::Int64, true));
        let offsets = OffsetBuffer::from_lengths([10; 100]);
        let lists = ListArray::new(field, offsets, elements, None);
        assert_eq!(array_bytes(&lists), 101 * 4 + 8000);
        assert_eq!(array_bytes(&lists.slice(7, 2)), 3 * 4 + 160);
        assert_eq!(array_bytes(&lists.slice(7, 0)), 4);
    }
}
