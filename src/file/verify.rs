//! Whether a file is what it says: all of it is read, and what is said of parts is compared with them.
//!
//! ```text
//! messages   ARROW1 | schema | batch | .. | end marker   one behind the other up to the index, with no byte between
//!                                  |
//!                                  '- where its chunks are, which is what the index says
//! chunks     header, checksums, tree of encodings, values; then nulls, bounds and filters of the values
//! ```
//!
//! [`File::open`] and what reads a file check the parts that they use; this checks all, and goes on behind the
//! first damaged chunk.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_ipc::{Block, root_as_footer};
use arrow_ord::ord::make_comparator;
use arrow_schema::SortOptions;
use rayon::prelude::*;

use super::access;
use super::framing::MAGIC;
use super::index::Entry;
use super::read::{File, footer_of};
use super::source::{ReadAt, read_exact};
use crate::chunk::Statistics;
use crate::column::check_memory;
use crate::engine::Engine;
use crate::error::{Error, Result, ensure};
use crate::extension::{ROWS_KEY, remove_own_keys};
use crate::fence::{message_of, schema_of};
use crate::scan::ChunkSource;

/// What messages begin with, and the length of their metadata behind it.
const CONTINUATION: [u8; 4] = [0xff; 4];
const PREFIX: u64 = 8;
/// Messages begin at a multiple of this.
const UNIT: u64 = 8;

impl File {
    /// Reads all of the file and checks what it says: that its messages are one behind the other and have the
    /// chunks that the index has, and of every chunk the header, the checksums, that it decodes, the nulls and
    /// bounds that are stated of its values, and that its filter has all values. Bytes that have no meaning, such
    /// as those between parts, are not looked at. An engine decompresses, chunk by chunk, each within its
    /// [`Engine::with_memory_limit`].
    ///
    /// Gives what is wrong: one error for the messages, then one for each damaged chunk of a column. A sound
    /// file has none.
    ///
    /// ```
    /// use arrow_array::record_batch;
    /// use arrow_buffer::Buffer;
    /// use lanepack::{Engine, Error, Options, file};
    ///
    /// let batch = record_batch!(("id", Int64, (0..5000_i64).collect::<Vec<_>>()))?;
    /// let mut writer = file::Writer::try_new(Vec::new(), &batch.schema(), Options::default())?;
    /// writer.write(&batch)?;
    /// let mut bytes = writer.into_inner()?;
    /// let file = file::File::from_bytes(Buffer::from_vec(bytes.clone()))?;
    /// assert!(file.verify(&Engine::cpu()).is_empty());
    ///
    /// // In the only chunk.
    /// let body = file.columns(&["id"])?[0].chunks()[0].body().to_vec();
    /// let at = bytes.windows(body.len()).position(|bytes| bytes == body).unwrap();
    /// bytes[at] ^= 1;
    /// let damaged = file::File::from_bytes(Buffer::from_vec(bytes))?;
    /// let errors = damaged.verify(&Engine::cpu());
    /// assert!(matches!(errors[..], [Error::Checksum { .. }]));
    /// assert_eq!(errors[0].place().and_then(|place| place.chunk), Some(0));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn verify(&self, engine: &Engine) -> Vec<Error> {
        let messages = self.verify_messages().err().map(|error| self.named(error));
        let file = self.clone().with_checksums(true);
        let columns = self.schema().fields().len();
        let pairs = (0..self.num_chunks()).into_par_iter();
        let pairs = pairs.flat_map_iter(|chunk| (0..columns).map(move |column| (chunk, column)));
        let of_chunks: Vec<Error> = pairs
            .filter_map(|(chunk, column)| {
                let error = file.verify_chunk(chunk, column, engine).err()?;
                let name = self.schema().field(column).name();
                Some(self.named(error.in_chunk(chunk).in_column(name)))
            })
            .collect();
        messages.into_iter().chain(of_chunks).collect()
    }

    /// Checks what lies in front of the index: that it is an IPC file with the chunks of the index.
    fn verify_messages(&self) -> Result<()> {
        let source = self.source();
        let (_, footer) = footer_of(source.len(), &|range| read_exact(source, range))?;
        let footer = root_as_footer(&footer)
            .map_err(|error| Error::corrupt(format!("footer of the IPC file: {error}")))?;
        let schema = footer.schema().ok_or_else(|| Error::corrupt("an IPC file without schema"))?;
        let mut schema = schema_of(schema)?;
        let rows = schema.metadata.get(ROWS_KEY);
        ensure!(
            rows.is_some_and(|rows| rows.parse() == Ok(self.num_rows())),
            "{ROWS_KEY} is {rows:?}, and the index has {} rows",
            self.num_rows()
        );
        ensure!(
            footer.dictionaries().is_none_or(|dictionaries| dictionaries.is_empty()),
            "dictionaries beside columns of binary values"
        );
        let head = read_exact(source, 0..PREFIX)?;
        ensure!(
            head[..] == [&MAGIC[..], &[0; 2]].concat(),
            "a file that does not begin as an IPC file"
        );
        let (metadata, mut at) = metadata_at(source, PREFIX, self.chunks_end())?;
        let message = message_of(&metadata)?;
        let first = message.header_as_schema().map(schema_of);
        let mut first =
            first.ok_or_else(|| Error::corrupt("a file that begins without a schema"))??;
        [&mut first, &mut schema].into_iter().for_each(remove_own_keys);
        ensure!(first == schema, "the schema in front of the batches is not that of the footer");

        let mut chunks = 0;
        for block in footer.recordBatches().into_iter().flatten() {
            ensure!(
                u64::try_from(block.offset()) == Ok(at),
                "a batch at {} where the one before ends at {at}",
                block.offset()
            );
            chunks += self.verify_batch(block, chunks)?;
            // Both have been compared with the file.
            at += block.metaDataLength() as u64 + block.bodyLength() as u64;
        }
        let all = self.num_chunks();
        ensure!(chunks == all, "batches of {chunks} chunks, {all} in the index");
        let (end, index) = ((at + PREFIX).next_multiple_of(UNIT), self.chunks_end());
        ensure!(end == index, "batches that end at {at} in front of an index at {index}");
        let marker = read_exact(source, at..at + PREFIX)?;
        ensure!(marker[..] == [&CONTINUATION[..], &[0; 4]].concat(), "batches without end marker");
        Ok(())
    }

    /// Compares the chunks of a batch, of which the first has a number, with the index; how many there are.
    fn verify_batch(&self, block: &Block, first: usize) -> Result<usize> {
        let source = self.source();
        let (metadata, body_at) = metadata_at(source, block.offset() as u64, self.chunks_end())?;
        let message = message_of(&metadata)?;
        let len = message.bodyLength();
        ensure!(
            block.bodyLength() == len
                && i64::from(block.metaDataLength()) == body_at as i64 - block.offset(),
            "a batch of other lengths than its block in the footer"
        );
        let end = u64::try_from(len).ok().and_then(|len| body_at.checked_add(len));
        let end = end.filter(|end| *end <= self.chunks_end());
        let end = end.ok_or_else(|| Error::corrupt("a batch that ends behind the index"))?;
        let batch = message.header_as_record_batch();
        let batch = batch.ok_or_else(|| Error::corrupt("a message that is not a batch"))?;
        ensure!(batch.compression().is_none(), "a batch that Arrow has compressed");
        let variadic = batch.variadicBufferCounts().into_iter().flatten();
        ensure!(variadic.count() == 0, "buffers of views in a batch of binary values");
        let count = usize::try_from(batch.length()).ok();
        let count = count.filter(|count| first + count <= self.num_chunks());
        let count = count.ok_or_else(|| Error::corrupt("more chunks than in the index"))?;
        let columns = self.schema().fields().len();
        let nodes = batch.nodes().into_iter().flatten();
        let is_node = |length, nulls| usize::try_from(length) == Ok(count) && nulls == 0;
        ensure!(
            nodes.clone().count() == columns
                && nodes.clone().all(|node| is_node(node.length(), node.null_count())),
            "a batch of other columns than its schema, or with nulls"
        );
        let buffers: Vec<Range<u64>> = (batch.buffers().into_iter().flatten())
            .map(|buffer| {
                let start = u64::try_from(buffer.offset()).ok()?.checked_add(body_at)?;
                let stop = start.checked_add(u64::try_from(buffer.length()).ok()?)?;
                (stop <= end).then_some(start..stop)
            })
            .collect::<Option<_>>()
            .ok_or_else(|| Error::corrupt("a buffer that is not in its batch"))?;
        ensure!(buffers.len() == 3 * columns, "a batch of {} buffers", buffers.len());
        let behind = buffers.iter().map(|buffer| buffer.end).max().unwrap_or(body_at);
        for (column, buffers) in buffers.chunks_exact(3).enumerate() {
            let name = self.schema().field(column).name();
            let chunks = first..first + count;
            (self.verify_places(&buffers[1], &buffers[2], column, chunks.clone()))
                .and_then(|()| self.verify_filter_places(behind..end, column, chunks))
                .map_err(|error| error.in_column(name))?;
        }
        Ok(count)
    }

    /// Checks that the filters of the chunks of a batch are in its body behind the buffers, given that range.
    fn verify_filter_places(
        &self,
        within: Range<u64>,
        column: usize,
        chunks: Range<usize>,
    ) -> Result<()> {
        for chunk in chunks {
            let Some(filter) = self.filter(column, chunk) else { continue };
            let Entry { at, len } = filter.entry;
            if at < within.start || at + len > within.end {
                let what = format!("a filter of {len} bytes at {at}, not in its batch");
                return Err(Error::corrupt(what).in_chunk(chunk));
            }
        }
        Ok(())
    }

    /// Compares where the chunks of a column are in a batch, by its buffers, with the index.
    fn verify_places(
        &self,
        offsets: &Range<u64>,
        values: &Range<u64>,
        column: usize,
        chunks: Range<usize>,
    ) -> Result<()> {
        let bytes = (chunks.len() as u64 + 1) * size_of::<i64>() as u64;
        ensure!(offsets.end - offsets.start == bytes, "offsets of another number of chunks");
        let offsets = read_exact(self.source(), offsets.clone())?;
        let offsets: Vec<u64> = (offsets.chunks_exact(size_of::<i64>()))
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        for (chunk, ends) in chunks.zip(offsets.windows(2)) {
            let place = |at: u64| values.start.checked_add(at).filter(|at| *at <= values.end);
            let found = match (place(ends[0]), place(ends[1])) {
                (Some(at), Some(end)) if at <= end => Some(Entry { at, len: end - at }),
                _ => None,
            };
            let stated = self.entry(column, chunk);
            if found != Some(stated) {
                let what =
                    format!("{} bytes at {} in the index, not in its batch", stated.len, stated.at);
                return Err(Error::corrupt(what).in_chunk(chunk));
            }
        }
        Ok(())
    }

    /// Reads, checks and decodes a chunk of a column, and compares its values with what is stated of them.
    fn verify_chunk(&self, chunk: usize, column: usize, engine: &Engine) -> Result<()> {
        let read = access::read(self, &[column], &[chunk])?.remove(0);
        let (_, stated) = self.facts(column, chunk);
        check_memory(engine.memory_limit(), std::slice::from_ref(&read))?;
        let values = engine.decompress_column(&read)?;
        verify_bounds(&stated, &values)?;
        self.verify_filter(column, chunk, &values)
    }
}

/// The metadata of the message at a place in the first `end` bytes, and where its body begins.
fn metadata_at(source: &dyn ReadAt, at: u64, end: u64) -> Result<(arrow_buffer::Buffer, u64)> {
    let short = || Error::corrupt(format!("an IPC message at {at} that ends behind the batches"));
    let start = at.checked_add(PREFIX).filter(|start| *start <= end).ok_or_else(short)?;
    let prefix = read_exact(source, at..start)?;
    ensure!(prefix.starts_with(&CONTINUATION), "no IPC message at {at}");
    let len = u32::from_le_bytes(prefix[4..8].try_into().expect("four bytes"));
    let body = start.checked_add(len.into()).filter(|body| *body <= end).ok_or_else(short)?;
    Ok((read_exact(source, start..body)?, body))
}

/// Checks that bounds are some of values.
fn verify_bounds(stated: &Statistics, values: &ArrayRef) -> Result<()> {
    let found = Statistics::of(values);
    for (what, stated, found, expected) in [
        ("least", &stated.min, &found.min, Ordering::Less),
        ("greatest", &stated.max, &found.max, Ordering::Greater),
    ] {
        if stated.logical_null_count() > 0 {
            continue;
        }
        let compare = make_comparator(stated, found, SortOptions::default())?;
        let holds = found.is_valid(0) && [Ordering::Equal, expected].contains(&compare(0, 0));
        ensure!(holds, "a {what} value in the index that the values do not have");
    }
    Ok(())
}
