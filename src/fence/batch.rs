//! Record batches: their nodes and buffers, walked together with the schema in arrow-ipc's order.
//!
//! arrow-ipc takes from the lists of nodes and buffers what the next field has, and panics, or
//! allocates what a length says, if that is not there:
//!
//! ```text
//! field            nodes  buffers                                then
//! Null             1      -
//! Int64, Boolean   1      validity, values
//! Utf8, Binary     1      validity, offsets, values
//! Utf8View         1      validity, views, as many as the next variadic count says
//! List, Map        1      validity, offsets                      the items
//! ListView         1      validity, offsets, sizes               the items
//! FixedSizeList    1      validity                               the items
//! Struct           1      validity                               the fields
//! Dictionary       1      validity, keys                         (values: a message of their own)
//! RunEndEncoded    1      -                                      the run ends, the values
//! Union            1      (V4: validity,) type ids[, offsets]    the fields
//! ```
//!
//! What values are is left to arrow-rs, which answers errors: offsets, keys and views out of range,
//! invalid UTF-8, numbers of nulls that do not agree with bitmaps.

use arrow_ipc::{FieldNode, MetadataVersion, RecordBatch};
use arrow_schema::{DataType, Fields, UnionMode};

use crate::error::{Error, Result, ensure};

/// Values of arrays that take no bytes, and of bitmaps that Arrow expands: what Arrow derives of
/// them takes a bit for each, 32 MiB.
const MOST_WITHOUT_BYTES: u64 = 1 << 28;

/// A buffer of a batch.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Bytes once they are decompressed.
    len: u64,
    /// Address; none of buffers that are decompressed to memory of their own.
    address: Option<usize>,
}

/// The nodes, buffers and counts of a batch that no field has claimed.
pub(super) struct Walk<'a> {
    version: MetadataVersion,
    nodes: Box<dyn Iterator<Item = &'a FieldNode> + 'a>,
    buffers: std::vec::IntoIter<Span>,
    variadic: Box<dyn Iterator<Item = i64> + 'a>,
}

/// The length of an array and the number of its nulls.
#[derive(Clone, Copy)]
struct Node {
    len: u64,
    nulls: u64,
}

/// Checks that a batch with this body has what its fields need, and no more.
///
/// # Errors
/// [`Error::Corrupt`] with what was expected and found.
pub(super) fn check_batch(
    batch: RecordBatch<'_>,
    version: MetadataVersion,
    fields: &Fields,
    body: &[u8],
) -> Result<()> {
    ensure!(batch.length() >= 0, "an IPC batch of {} rows", batch.length());
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Err(Error::corrupt("an IPC batch without its list of nodes or of buffers"));
    };
    let compressed = batch.compression().is_some();
    let buffers = buffers.iter().map(|buffer| span(*buffer, compressed, body));
    let buffers = buffers.collect::<Result<Vec<_>>>()?;
    let stated = |span: &Span| if span.address.is_none() { span.len } else { 0 };
    let (total, most) =
        (buffers.iter().map(stated).fold(0, u64::saturating_add), most_uncompressed(body.len()));
    ensure!(
        total <= most as u64,
        "compressed IPC buffers in a body of {} bytes that state {total} bytes in all, {most} \
         expected at most",
        body.len()
    );
    let mut walk = Walk {
        version,
        nodes: Box::new(nodes.iter()),
        buffers: buffers.into_iter(),
        variadic: Box::new(batch.variadicBufferCounts().into_iter().flatten()),
    };
    for field in fields {
        let node = walk.field(field.data_type())?;
        ensure!(
            node.len == batch.length() as u64,
            "an IPC batch of {} rows with a column of {}",
            batch.length(),
            node.len
        );
    }
    let rest = (walk.nodes.count(), walk.buffers.count(), walk.variadic.count());
    ensure!(
        rest == (0, 0, 0),
        "an IPC batch with {} nodes, {} buffers and {} counts of buffers that no field has",
        rest.0,
        rest.1,
        rest.2
    );
    Ok(())
}

/// A buffer inside of a body.
fn span(buffer: arrow_ipc::Buffer, compressed: bool, body: &[u8]) -> Result<Span> {
    let (offset, length) = (buffer.offset(), buffer.length());
    let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
    let bytes = range.and_then(|(offset, length)| body.get(offset..)?.get(..length));
    let Some(bytes) = bytes else {
        return Err(Error::corrupt(format!(
            "an IPC buffer of {length} bytes at {offset} in a body of {}",
            body.len()
        )));
    };
    if !compressed || bytes.is_empty() {
        return Ok(Span { len: bytes.len() as u64, address: Some(bytes.as_ptr() as usize) });
    }
    // A compressed buffer begins with its size before; -1 if it is not compressed.
    let Some((stated, rest)) = bytes.split_first_chunk() else {
        return Err(Error::corrupt(format!(
            "a compressed IPC buffer of {length} bytes, 8 expected at least"
        )));
    };
    let (stated, most) = (i64::from_le_bytes(*stated), most_uncompressed(bytes.len()));
    ensure!(
        (-1..=most).contains(&stated),
        "a compressed IPC buffer of {length} bytes that states {stated}"
    );
    Ok(match u64::try_from(stated) {
        Ok(len) => Span { len, address: None },
        Err(_) => Span { len: rest.len() as u64, address: Some(rest.as_ptr() as usize) },
    })
}

/// What a compressed buffer may become: chunks are compressed already, so far
/// less than LZ4 and Zstandard can do.
fn most_uncompressed(bytes: usize) -> i64 {
    (bytes as i64).saturating_mul(1024).max(64 << 20)
}

impl Walk<'_> {
    fn node(&mut self, data_type: &DataType) -> Result<Node> {
        let Some(node) = self.nodes.next() else {
            return Err(missing("node", data_type));
        };
        let (length, nulls) = (node.length(), node.null_count());
        ensure!(
            length >= 0 && (0..=length).contains(&nulls),
            "an IPC array of {length} values, {nulls} of them null"
        );
        Ok(Node { len: length as u64, nulls: nulls as u64 })
    }

    fn buffer(&mut self, data_type: &DataType) -> Result<Span> {
        self.buffers.next().ok_or_else(|| missing("buffer", data_type))
    }

    /// The bitmap of an array, which may be missing where no value is null.
    fn validity(&mut self, data_type: &DataType, node: Node) -> Result<()> {
        let span = self.buffer(data_type)?;
        let bytes = if node.nulls > 0 { node.len.div_ceil(8) } else { 0 };
        at_least(data_type, "validity", span, bytes)
    }

    /// A buffer of whole words, which Arrow reads as such.
    fn words(&mut self, data_type: &DataType, what: &str, words: u64, width: u64) -> Result<Span> {
        let span = self.buffer(data_type)?;
        at_least(data_type, what, span, words.saturating_mul(width))?;
        ensure!(
            span.len % width == 0,
            "{what} of an IPC array of type {}: {} bytes, expected a multiple of {width}",
            brief(data_type),
            span.len
        );
        Ok(span)
    }

    /// Offsets: one more than there are values; none if there are no values.
    fn offsets(&mut self, data_type: &DataType, node: Node, width: u64) -> Result<()> {
        let span = self.words(data_type, "offsets", 0, width)?;
        if node.len == 0 && span.len == 0 {
            return Ok(());
        }
        at_least(data_type, "offsets", span, node.len.saturating_add(1).saturating_mul(width))
    }

    /// Claims what a field of this type has.
    fn field(&mut self, data_type: &DataType) -> Result<Node> {
        use DataType as T;
        if matches!(data_type, T::Union(..)) {
            return self.union(data_type);
        }
        let node = self.node(data_type)?;
        match data_type {
            T::Null => {
                ensure!(
                    node.nulls == node.len,
                    "an IPC array of type Null of {} values, {} of them null",
                    node.len,
                    node.nulls
                );
                without_bytes(data_type, node.len)?;
            }
            T::RunEndEncoded(ends, values) => {
                without_bytes(data_type, node.len)?;
                let runs = self.node(ends.data_type())?;
                self.validity(ends.data_type(), runs)?;
                let width = ends.data_type().primitive_width().unwrap_or(1) as u64;
                self.words(ends.data_type(), "run ends", runs.len, width)?;
                self.field(values.data_type())?;
            }
            _ => {
                self.validity(data_type, node)?;
                self.values(data_type, node)?;
            }
        }
        Ok(node)
    }

    /// Claims what a field has behind its bitmap.
    fn values(&mut self, data_type: &DataType, node: Node) -> Result<()> {
        use DataType as T;
        match data_type {
            T::Utf8 | T::Binary | T::LargeUtf8 | T::LargeBinary => {
                let large = matches!(data_type, T::LargeUtf8 | T::LargeBinary);
                self.offsets(data_type, node, if large { 8 } else { 4 })?;
                self.buffer(data_type)?;
            }
            T::Utf8View | T::BinaryView => {
                self.words(data_type, "views", node.len, 16)?;
                let count = self.variadic.next();
                let left = self.buffers.len();
                let count = count.and_then(|count| usize::try_from(count).ok());
                let Some(count) = count.filter(|count| *count <= left) else {
                    return Err(Error::corrupt(format!(
                        "an IPC array of type {data_type} without a count of its buffers, of \
                         {left} at most"
                    )));
                };
                self.buffers.by_ref().take(count).for_each(drop);
            }
            T::List(item) | T::Map(item, _) => {
                self.offsets(data_type, node, 4)?;
                self.field(item.data_type())?;
            }
            T::LargeList(item) => {
                self.offsets(data_type, node, 8)?;
                self.field(item.data_type())?;
            }
            T::ListView(item) | T::LargeListView(item) => {
                let width = if matches!(data_type, T::ListView(_)) { 4 } else { 8 };
                self.words(data_type, "offsets", node.len, width)?;
                self.words(data_type, "sizes", node.len, width)?;
                self.field(item.data_type())?;
            }
            T::FixedSizeList(item, len) => {
                let expected = node.len.checked_mul((*len).max(0) as u64);
                let items = self.field(item.data_type())?;
                ensure!(
                    expected.is_some_and(|expected| expected <= items.len),
                    "an IPC array of {} lists of {len} values with {} values",
                    node.len,
                    items.len
                );
                // Arrow expands the bitmap of the lists to compare it with that of the items.
                let expanded = node.nulls > 0 && !item.is_nullable();
                without_bytes(data_type, if expanded { items.len } else { 0 })?;
                without_bytes(data_type, if *len == 0 { node.len } else { 0 })?;
            }
            T::Struct(fields) => {
                without_bytes(data_type, if fields.is_empty() { node.len } else { 0 })?;
                for field in fields {
                    let child = self.field(field.data_type())?;
                    ensure!(
                        child.len == node.len,
                        "an IPC array of {} structs with a field of {} values",
                        node.len,
                        child.len
                    );
                }
            }
            T::Dictionary(key, _) => {
                let width = key.primitive_width().unwrap_or(1) as u64;
                self.words(data_type, "keys", node.len, width)?;
            }
            T::Boolean => {
                let span = self.buffer(data_type)?;
                at_least(data_type, "values", span, node.len.div_ceil(8))?;
            }
            T::FixedSizeBinary(width) => {
                let width = (*width).max(0) as u64;
                without_bytes(data_type, if width == 0 { node.len } else { 0 })?;
                let span = self.buffer(data_type)?;
                at_least(data_type, "values", span, node.len.saturating_mul(width))?;
            }
            primitive => {
                let Some(width) = primitive.primitive_width() else {
                    return Err(Error::corrupt(format!(
                        "an IPC array of type {}",
                        brief(primitive)
                    )));
                };
                let span = self.buffer(data_type)?;
                at_least(data_type, "values", span, node.len.saturating_mul(width as u64))?;
            }
        }
        Ok(())
    }

    fn union(&mut self, data_type: &DataType) -> Result<Node> {
        let DataType::Union(fields, mode) = data_type else {
            return Err(missing("union", data_type));
        };
        let node = self.node(data_type)?;
        if self.version < MetadataVersion::V5 {
            self.buffer(data_type)?;
        }
        let ids = self.buffer(data_type)?;
        at_least(data_type, "type ids", ids, node.len)?;
        if *mode == UnionMode::Dense {
            let offsets = self.words(data_type, "offsets", node.len, 4)?;
            ensure!(
                offsets.address.is_none_or(|address| address.is_multiple_of(4)),
                "offsets of an IPC union that are not aligned to 4 bytes"
            );
        }
        for (_, field) in fields.iter() {
            let child = self.field(field.data_type())?;
            ensure!(
                *mode == UnionMode::Dense || child.len == node.len,
                "a sparse IPC union of {} values with a field of {}",
                node.len,
                child.len
            );
        }
        Ok(node)
    }
}

fn at_least(data_type: &DataType, what: &str, span: Span, bytes: u64) -> Result<()> {
    ensure!(
        span.len >= bytes,
        "{what} of an IPC array of type {}: {} bytes, expected {bytes} at least",
        brief(data_type),
        span.len
    );
    Ok(())
}

/// Checks the length of an array that no buffer bounds.
fn without_bytes(data_type: &DataType, len: u64) -> Result<()> {
    ensure!(
        len <= MOST_WITHOUT_BYTES,
        "an IPC array of type {} of {len} values that take no bytes, expected \
         {MOST_WITHOUT_BYTES} at most",
        brief(data_type)
    );
    Ok(())
}

fn missing(what: &str, data_type: &DataType) -> Error {
    Error::corrupt(format!(
        "an IPC batch without the {what} of a field of type {}",
        brief(data_type)
    ))
}

/// The start of a type's name: a hostile one may be long.
fn brief(data_type: &DataType) -> String {
    format!("{data_type:?}").chars().take(40).collect()
}
