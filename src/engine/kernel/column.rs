//! Columns as arguments of users' kernels: the C++ type that reads a column
//! (`kernels/lanepack/column.cuh`) and pointers to its nodes.
//!
//! ```text
//! DeviceColumn::reader    trees of the column's chunks (trees.rs) -> name of a C++ type
//! Kernel::for_columns     source = "using Column0 = <type>; using Column1 = .." + user's source
//! ColumnReader::argument  pointers, the value of the kernel's `Column0`
//! Kernel::launch          refuses readers of other types than the kernel was compiled for
//! ```

use std::fmt::Write;
use std::sync::Arc;

use arrow_schema::DataType;
use bytemuck::{Pod, Zeroable};

use super::{OnDevice, Parts};
use crate::column::physical_of;
use crate::decode::check_decodable;
use crate::decode::nodes::{ColumnNodes, ReadBy};
use crate::decode::trees::{Reader, TreeList};
use crate::device::DeviceColumn;
use crate::device::column::DeviceChunk;
use crate::device::column::order_of;
use crate::device::status::status_words;
use crate::encoding::{self, Encoding, Physical};
use crate::error::{Error, Place, Result};
use crate::gpu::abi::{self, ColumnPointers};
use crate::gpu::{DeviceBuffer, DevicePtr};

/// A compressed column as users' kernels read it, whatever its encodings. Made by
/// [`DeviceColumn::reader`].
///
/// A kernel is compiled for readers ([`Kernel::for_columns`](crate::Kernel::for_columns)) and
/// launched with them, or with readers of other columns whose chunks have the same encodings.
/// Call `for_columns` for each batch of a table: sources that have been compiled before are not
/// compiled again.
#[derive(Debug)]
pub struct ColumnReader<'a> {
    column: &'a DeviceColumn,
    nodes: Arc<ColumnNodes>,
    type_name: String,
    /// The type without the widths of packed vectors. Equal forms read the same columns: widths
    /// select specialised code, and other widths are read by general code.
    form: String,
    status: Arc<DeviceBuffer>,
    /// Whether kernels may find the column's data damaged.
    can_fail: bool,
}

/// A column as the argument of a kernel: the value of `Column0`, `Column1` and so on in the
/// kernel's source, 32 bytes. Valid as long as the [`ColumnReader`] it was made by.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct ColumnArgument(ColumnPointers);

impl DeviceColumn {
    /// A reader of the column for kernels of your own
    /// ([`Kernel::for_columns`](crate::Kernel::for_columns)): of numbers, dates, times, intervals,
    /// decimals of up to 128 bits and booleans, with any encoding.
    ///
    /// Kernels read values as they are stored. What the first reader or scan makes stays with the
    /// column in device memory: the values of its dictionaries, an index of 2 bits a row of short runs,
    /// and of a column whose chunks have more than eight different trees of encodings the values of
    /// chunks with further trees. Chunks
    /// encoded as `lz` are decoded for the reader, and freed with it.
    ///
    /// # Errors
    /// [`Error::Mismatch`] names the column, its type and its encodings if these are strings,
    /// decimals that take more than 128 bits, nested values or values carried as Arrow IPC.
    /// [`Error::Corrupt`] if data that are decoded are damaged, [`Error::DeviceMemory`],
    /// [`Error::Device`].
    pub fn reader(&self) -> Result<ColumnReader<'_>> {
        self.make_reader().map_err(|error| error.in_column(self.field().name()))
    }

    fn make_reader(&self) -> Result<ColumnReader<'_>> {
        let is_bytes = physical_of(self.field().data_type()) == Physical::Bytes;
        if is_bytes || check_decodable(self).is_err() {
            return Err(self.unreadable());
        }
        let stream = self.context().ordered()?;
        // What is decoded is the reader's.
        let nodes = if self.reads().decoded.is_empty() {
            self.scan_nodes(&stream, ReadBy::Row)?
        } else {
            Arc::new(ColumnNodes::new(&stream, self, 0..self.chunks().len(), ReadBy::Row)?)
        };
        Ok(ColumnReader {
            column: self,
            type_name: self.type_name(&nodes, TreeList::reader)?,
            form: self.type_name(&nodes, TreeList::form)?,
            status: Arc::new(status_words(&stream, 1)?),
            can_fail: nodes.can_fail(),
            nodes,
        })
    }

    /// The type of the column in a kernel's source; `reader` writes that of a list of trees.
    fn type_name(&self, nodes: &ColumnNodes, reader: fn(&TreeList) -> String) -> Result<String> {
        let data_type = self.field().data_type();
        let physical = physical_of(data_type);
        let valid = match &nodes.validity {
            Some(list) => format!("Valid<{}, {}>", reader(list), list.stride),
            None => "AllValid".to_owned(),
        };
        // A column without rows has no trees.
        let plain = |bits: usize| {
            let plain = Reader::words(bits, Encoding::Plain as u16);
            TreeList { readers: vec![plain], stride: 1, ..TreeList::default() }
        };
        let list = |number: usize, bits: usize| {
            let list = nodes.lists.get(number).filter(|list| !list.readers.is_empty());
            list.cloned().unwrap_or_else(|| plain(bits))
        };
        Ok(match physical {
            Physical::Bool => {
                let list = list(0, 1);
                format!("BoolColumn<{}, {}, {valid}>", reader(&list), list.stride)
            }
            Physical::I128 | Physical::I256 if nodes.lists.len() > 2 => {
                return Err(self.unreadable());
            }
            Physical::I128 | Physical::I256 => {
                let (low, high) = (list(0, 64), list(1, 64));
                let is_sign = nodes.lists.len() < 2;
                let upper = if is_sign { "SignWord".to_owned() } else { reader(&high) };
                let (low, strides) = (reader(&low), [low.stride, high.stride]);
                format!("WideColumn<{low}, {}, {upper}, {}, {valid}>", strides[0], strides[1])
            }
            _ => {
                let bits = physical.bits().unwrap_or(64);
                let list = list(0, bits);
                let value = value_name(bits, order_of(data_type));
                // Readers know the bits of Float16 as integers, in another order.
                let by_value = list.asks_codes() || *data_type == DataType::Float16;
                let (of, stride) = (reader(&list), list.stride);
                format!("Column<{value}, {of}, {stride}, {by_value}, {valid}>")
            }
        })
    }

    fn unreadable(&self) -> Error {
        let what = format!(
            "expected numbers, booleans or decimals of up to 128 bits, which kernels read, found \
             {} encoded as {}",
            self.field().data_type(),
            self.encodings()
        );
        Error::Mismatch { place: Place::default(), what }
    }

    /// The encodings of its chunks, for messages.
    fn encodings(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for name in self.chunks().iter().map(DeviceChunk::root).map(encoding::tree::describe) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join("+")
    }
}

/// The C++ type of values.
fn value_name(bits: usize, order: u32) -> String {
    match (order, bits) {
        (abi::FLOAT, 16) => "Half".to_owned(),
        (abi::FLOAT, 32) => "float".to_owned(),
        (abi::FLOAT, _) => "double".to_owned(),
        (abi::SIGNED, _) => format!("i{bits}"),
        _ => format!("u{bits}"),
    }
}

impl ColumnReader<'_> {
    /// The column's value in the kernel's argument.
    pub fn argument(&self) -> ColumnArgument {
        let trees =
            |list: usize| self.nodes.lists.get(list).map_or(DevicePtr::NULL, |list| list.start);
        ColumnArgument(ColumnPointers {
            trees: trees(0),
            upper: trees(1),
            validity: self.nodes.validity.as_ref().map_or(self.nodes.rows, |list| list.start),
            status: self.status.pointer(),
        })
    }

    /// The column.
    pub fn column(&self) -> &DeviceColumn {
        self.column
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.nodes.chunks
    }

    /// Vectors of 1,024 rows in the longest chunk.
    pub fn vectors(&self) -> usize {
        self.nodes.longest
    }

    /// The type of the column in a kernel's source. A kernel may also be launched with columns
    /// whose types differ only in the last arguments of `Words`: the widths of packed vectors that
    /// the kernel has specialised code for.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    pub(super) fn form(&self) -> &str {
        &self.form
    }

    /// The status word that kernels report damage to, if the column's encodings need one.
    pub(super) fn status(&self) -> Option<&Arc<DeviceBuffer>> {
        self.can_fail.then_some(&self.status)
    }
}

impl OnDevice for ColumnReader<'_> {
    fn parts(&self) -> Parts<'_> {
        let mut parts = self.column.parts();
        parts.buffers.extend(self.nodes.buffers());
        parts.buffers.push(&self.status);
        parts.reader = Some(self);
        parts
    }
}

/// The source of a kernel after the types of its columns. Line numbers are those of `source`.
pub(super) fn with_columns(source: &str, readers: &[&ColumnReader<'_>]) -> String {
    let mut text = String::from("#include \"lanepack/column.cuh\"\nnamespace lanepack {\n");
    for (number, reader) in readers.iter().enumerate() {
        let _ = writeln!(text, "using Column{number} = {};", reader.type_name);
    }
    text + "}\n#line 1 \"kernel.cu\"\n" + source
}

/// Why a kernel compiled for columns of these forms cannot be launched with these readers, if it
/// cannot.
pub(super) fn difference(forms: &[String], used: &[&ColumnReader<'_>]) -> Option<String> {
    if forms.len() != used.len() {
        return Some(format!(
            "expected {} readers of columns, as it was compiled for, found {}",
            forms.len(),
            used.len()
        ));
    }
    let is_other = |(form, reader): &(&String, &&ColumnReader<'_>)| **form != reader.form;
    let number = forms.iter().zip(used).position(|pair| is_other(&pair))?;
    let (form, found) = (&forms[number], used[number]);
    let column = found.column;
    Some(format!(
        "expected as Column{number} a {form}, which it was compiled for, found column {:?} \
         ({} encoded as {}), a {}: compile the kernel for its reader",
        column.field().name(),
        column.field().data_type(),
        column.encodings(),
        found.form
    ))
}
