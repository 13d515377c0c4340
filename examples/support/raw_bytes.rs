//! The size of Arrow data before compression.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray, make_array};
use arrow_buffer::ArrowNativeType;
use arrow_data::ArrayData;
use arrow_schema::{DataType, UnionMode};

/// Bytes of an uncompressed column, counted batch by batch: Arrow's buffers
/// without padding, as one array of all rows would have them. Validity counts
/// where there are nulls; a dictionary that batches share counts once.
#[derive(Debug)]
pub struct RawBytes {
    data_type: DataType,
    rows: usize,
    nulls: bool,
    /// Bytes whose number does not follow from the type and the rows.
    strings: usize,
    children: Vec<Self>,
    /// The dictionary that was counted last.
    dictionary: Option<ArrayData>,
}

impl RawBytes {
    /// No rows yet.
    pub fn new(data_type: &DataType) -> Self {
        use DataType::*;
        let children: Vec<&DataType> = match data_type {
            List(field)
            | LargeList(field)
            | ListView(field)
            | LargeListView(field)
            | FixedSizeList(field, _)
            | Map(field, _) => vec![field.data_type()],
            Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
            Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
            Dictionary(_, values) => vec![values],
            RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
            _ => Vec::new(),
        };
        let children = children.into_iter().map(Self::new).collect();
        let data_type = data_type.clone();
        Self { data_type, rows: 0, nulls: false, strings: 0, children, dictionary: None }
    }

    /// Counts the rows of one more batch.
    pub fn add(&mut self, array: &dyn Array) {
        use DataType::*;
        self.rows += array.len();
        self.nulls |= array.null_count() > 0;
        match array.data_type() {
            Utf8 => self.strings += data(array.as_string::<i32>()),
            LargeUtf8 => self.strings += data(array.as_string::<i64>()),
            Binary => self.strings += data(array.as_binary::<i32>()),
            LargeBinary => self.strings += data(array.as_binary::<i64>()),
            Utf8View => self.strings += long_values(array.as_string_view()),
            BinaryView => self.strings += long_values(array.as_binary_view()),
            List(_) => {
                let list = array.as_list::<i32>();
                self.add_elements(list.values(), list.value_offsets());
            }
            LargeList(_) => {
                let list = array.as_list::<i64>();
                self.add_elements(list.values(), list.value_offsets());
            }
            Map(..) => {
                let map = array.as_map();
                let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
                self.add_elements(&entries, map.value_offsets());
            }
            Struct(_) => self.add_children(array.as_struct().columns()),
            Dictionary(..) => {
                let values = array.as_any_dictionary().values();
                let data = values.to_data();
                if !self.dictionary.as_ref().is_some_and(|last| last.ptr_eq(&data)) {
                    self.children[0].add(values);
                    self.dictionary = Some(data);
                }
            }
            _ => {
                let children: Vec<ArrayRef> =
                    array.to_data().child_data().iter().cloned().map(make_array).collect();
                self.add_children(&children);
            }
        }
    }

    fn add_children(&mut self, arrays: &[ArrayRef]) {
        for (child, array) in self.children.iter_mut().zip(arrays) {
            child.add(array);
        }
    }

    /// The elements of a list, of which a slice of the list may use a part.
    fn add_elements<O: ArrowNativeType>(&mut self, values: &ArrayRef, offsets: &[O]) {
        let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
        self.children[0].add(&values.slice(first, last - first));
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> usize {
        use DataType::*;
        let fixed = match &self.data_type {
            Boolean => self.rows.div_ceil(8),
            FixedSizeBinary(width) => self.rows * width.as_usize(),
            // Offsets; of views, lengths too.
            Utf8 | Binary | List(_) | Map(..) => (self.rows + 1) * 4,
            LargeUtf8 | LargeBinary | LargeList(_) => (self.rows + 1) * 8,
            ListView(_) => self.rows * 8,
            Utf8View | BinaryView | LargeListView(_) => self.rows * 16,
            // Type ids, and in dense ones offsets.
            Union(_, UnionMode::Sparse) => self.rows,
            Union(_, UnionMode::Dense) => self.rows * 5,
            Dictionary(key, _) => self.rows * key.primitive_width().unwrap_or(0),
            other => self.rows * other.primitive_width().unwrap_or(0),
        };
        let validity = if self.nulls { self.rows.div_ceil(8) } else { 0 };
        let children: usize = self.children.iter().map(Self::bytes).sum();
        fixed + validity + self.strings + children
    }
}

fn data<T: ByteArrayType>(array: &GenericByteArray<T>) -> usize {
    let offsets = array.value_offsets();
    offsets[array.len()].as_usize() - offsets[0].as_usize()
}

/// Bytes of the values that do not fit into their views.
fn long_values<T: ByteViewType>(array: &GenericByteViewArray<T>) -> usize {
    // The low half of a view is the length.
    let lengths = array.views().iter().map(|view| *view as u32 as usize);
    lengths
        .enumerate()
        .filter(|(row, len)| *len > 12 && array.is_valid(*row))
        .map(|(_, len)| len)
        .sum()
}
