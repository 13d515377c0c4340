//! A compressed column: the chunks of one Arrow array, and its Arrow field.
//!
//! `check` compares chunks with the column's type; `build`, `text` (strings) and `nested`
//! turn them back into one array; `memory` says what that takes; this file is what users hold in hand.

mod build;
mod check;
mod explain;
mod memory;
mod nested;
mod parts;
#[cfg(feature = "_internals")]
pub mod planning;
mod text;

pub(crate) use build::{concat, decode_to, logical_nulls, rows_of, whole};
pub(crate) use check::check_type;
pub use explain::{ColumnEncoding, EncodingGroup};
pub(crate) use memory::{array_bytes, check_kept_memory, check_memory, is_whole, memory_of};
pub(crate) use text::{is_text, one as one_string};

pub(crate) use crate::encoding::source::physical_of;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Scalar};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::{DataType, Field, FieldRef};
use rayon::prelude::*;

use crate::arrow_type;
use crate::chunk::{Chunk, EncodedNode, Statistics, assemble};
use crate::encoding::fsst::{self, Symbols};
use crate::encoding::plan::{self, Context, Plan};
use crate::encoding::{self, Encoding, Input, Physical, Values, source};
use crate::error::{Error, Place, Result};
use crate::memory::MemoryLimit;
use crate::options::Options;

/// One Arrow array, compressed: random access, statistics per chunk, and back.
///
/// ```
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use lanepack::{Options, compress_array};
/// use std::sync::Arc;
///
/// let prices: ArrayRef = Arc::new(Float64Array::from_iter_values((0..5000).map(|i| i as f64 / 100.0)));
/// let column = compress_array(&prices, &Options::default())?;
/// assert_eq!(column.encoding().to_string(), "alp");
/// assert!(column.bits_per_value() < 16.0);
/// let value = column.value(1234)?.into_inner();
/// assert_eq!(value.as_primitive::<Float64Type>().value(0), 12.34);
/// assert_eq!(&column.decompress()?, &prices);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CompressedColumn {
    field: FieldRef,
    chunks: Vec<Chunk>,
    /// First row of each chunk, and the number of rows.
    starts: Vec<usize>,
    /// How each chunk's encoding was chosen; not stored, so empty after reading.
    plans: Vec<Plan>,
    /// The bodies of all chunks one behind the other, if they came so.
    bodies: Option<Buffer>,
}

impl CompressedColumn {
    /// A column of validated chunks.
    pub(crate) fn new(field: FieldRef, chunks: Vec<Chunk>, plans: Vec<Plan>) -> Self {
        let mut starts = vec![0];
        starts.extend(chunks.iter().scan(0, |rows, chunk| {
            *rows += chunk.rows();
            Some(*rows)
        }));
        Self { field, chunks, starts, plans, bodies: None }
    }

    /// With the buffer in which the bodies of all chunks lie one behind the other.
    pub(crate) fn with_bodies(self, bodies: Buffer) -> Self {
        debug_assert_eq!(
            bodies.len(),
            self.chunks.iter().map(|chunk| chunk.body().len()).sum::<usize>()
        );
        Self { bodies: Some(bodies), ..self }
    }

    /// The bodies of some chunks in as few pieces as they lie in.
    pub(crate) fn body_runs_of(&self, chunks: Range<usize>) -> Vec<Buffer> {
        let len = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.body().len()).sum();
        match &self.bodies {
            Some(bodies) => {
                let start = len(&self.chunks[..chunks.start]);
                vec![bodies.slice_with_length(start, len(&self.chunks[chunks]))]
            }
            None => self.chunks[chunks].iter().map(|chunk| chunk.body().clone()).collect(),
        }
    }

    /// Bytes of the values as Arrow arrays hold them, offsets and bitmaps left
    /// out; of nested types those of their leaves, of types carried as Arrow IPC of the stream.
    pub(crate) fn decompressed_bytes(&self) -> usize {
        let bytes = |chunk: &Chunk| match chunk.root().physical().bits() {
            Some(bits) => chunk.rows() * bits / 8,
            None => encoding::value_bytes(chunk.root()),
        };
        self.chunks.iter().map(bytes).sum()
    }

    /// The Arrow field of the values: name, type, nullability, metadata.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The Arrow type of the values.
    pub fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.starts[self.chunks.len()]
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nulls among the values.
    pub fn null_count(&self) -> usize {
        self.chunks.iter().map(Chunk::null_count).sum()
    }

    /// The chunks, in row order.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    pub(crate) fn into_chunks(self) -> Vec<Chunk> {
        self.chunks
    }

    /// The rows of each chunk.
    pub(crate) fn chunk_rows(&self) -> impl Iterator<Item = Range<usize>> {
        self.starts.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// Bytes of all headers and bodies.
    pub fn compressed_bytes(&self) -> usize {
        self.chunks.iter().map(Chunk::compressed_bytes).sum()
    }

    /// Bits of header and body per value; 0 for an empty column.
    pub fn bits_per_value(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.compressed_bytes() as f64 * 8.0 / self.len() as f64 }
    }

    /// Decodes one value without decoding the rest of its chunk (of strings and
    /// lengths, its vector's lengths; of nested types, vectors of their leaves, all
    /// lengths of lists and runs before it, and dictionaries; of types carried as Arrow
    /// IPC, the chunk).
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Corrupt`] if the chunk's data are damaged, or, of nested types,
    /// [`Error::MemoryLimit`] for a chunk that takes more than [`CompressedColumn::decompress`] may.
    pub fn value(&self, row: usize) -> Result<Scalar<ArrayRef>> {
        if row >= self.len() {
            return Err(Error::OutOfRange { place: Place::default(), row, rows: self.len() });
        }
        let index = self.starts.partition_point(|start| *start <= row) - 1;
        let node = self.chunks[index].root();
        let row = row - self.starts[index];
        let value = || {
            if node.physical() == Physical::Arrow {
                memory::check_chunk(&self.chunks[index], self.data_type())?;
                return build::rows_of(&self.chunks[index], self.data_type(), row..row + 1);
            }
            if let Some(validity) = node.validity()
                && encoding::value(validity, row)? == encoding::Value::Bit(false)
            {
                return Ok(arrow_array::new_null_array(self.data_type(), 1));
            }
            build::one(encoding::value(node, row)?, self.data_type())
        };
        value().map(Scalar::new).map_err(|error: Error| self.place(error.in_chunk(index)))
    }

    /// Decodes all values, chunks in parallel.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`] if the values take more than 1 GiB and 32,768 times the compressed
    /// bytes, or than the machine has ([`Engine::with_memory_limit`](crate::Engine::with_memory_limit)
    /// allows more);
    /// [`Error::Corrupt`] if a chunk's data are damaged, [`Error::TooLarge`] if
    /// the strings of a Utf8 or Binary column pass 2 GiB.
    pub fn decompress(&self) -> Result<ArrayRef> {
        check_memory(MemoryLimit::default(), std::slice::from_ref(self))?;
        self.decode()
    }

    /// Decodes all values, whose memory has been checked.
    pub(crate) fn decode(&self) -> Result<ArrayRef> {
        build::array(&self.chunks, self.data_type()).map_err(|error| self.place(error))
    }

    /// Compares every body with its checksum.
    ///
    /// # Errors
    /// [`Error::Checksum`] for one that differs.
    pub fn verify_checksums(&self) -> Result<()> {
        self.chunks.par_iter().enumerate().try_for_each(|(index, chunk)| {
            chunk.verify_checksum().map_err(|error| self.place(error.in_chunk(index)))
        })
    }

    fn place(&self, error: Error) -> Error {
        error.in_column(self.field.name())
    }
}

/// Compresses one array, as a nullable field without a name.
///
/// # Errors
/// [`Error::Options`] for a setting out of range; [`Error::Verify`] if asked to verify.
pub fn compress_array(array: &ArrayRef, options: &Options) -> Result<CompressedColumn> {
    options.validate()?;
    let field = Arc::new(Field::new("", array.data_type().clone(), true));
    options.install(|| compress_field(field, array, options))?
}

/// A column of booleans, true in all rows, with the chunks and the nulls (logical ones) of a column
/// whose values an engine does not read.
pub(crate) fn validity_of(column: &CompressedColumn) -> Result<CompressedColumn> {
    let name = column.field().name();
    let options = Options::default();
    let context = Context::new(&options, None);
    let chunk = |(index, chunk): (usize, &Chunk)| {
        let validity = || {
            let nulls = logical_nulls(chunk, column.data_type())?;
            let array = BooleanArray::new(BooleanBuffer::new_set(chunk.rows()), nulls);
            Ok(encode_chunk(&(Arc::new(array) as ArrayRef), &context)?.0)
        };
        validity().map_err(|error: Error| error.in_chunk(index).in_column(name))
    };
    let chunks = column.chunks().par_iter().enumerate().map(chunk).collect::<Result<_>>()?;
    let field = Arc::new(Field::new(name, DataType::Boolean, true));
    Ok(CompressedColumn::new(field, chunks, Vec::new()))
}

/// Compresses one array on the current threads. Options have been validated.
pub(crate) fn compress_field(
    field: FieldRef,
    array: &ArrayRef,
    options: &Options,
) -> Result<CompressedColumn> {
    arrow_type::check(field.data_type()).map_err(|error| error.in_column(field.name()))?;
    let ranges = chunk_ranges(array.len(), options);
    let symbols = symbols_of(array, &ranges, options);
    let encode = |(index, range): (usize, &Range<usize>)| {
        let slice = array.slice(range.start, range.len());
        let context = Context::new(options, symbols[index].as_ref());
        encode_chunk(&slice, &context)
            .map_err(|error| error.in_chunk(index).in_column(field.name()))
    };
    let encoded: Vec<(Chunk, Plan)> =
        ranges.par_iter().enumerate().map(encode).collect::<Result<_>>()?;
    let (chunks, plans) = encoded.into_iter().unzip();
    Ok(CompressedColumn::new(field, chunks, plans))
}

/// The rows of each chunk of so many.
fn chunk_ranges(rows: usize, options: &Options) -> Vec<Range<usize>> {
    let chunk_rows = options.chunk_rows;
    (0..rows).step_by(chunk_rows).map(|start| start..(start + chunk_rows).min(rows)).collect()
}

/// A symbol table for each chunk of a column of strings; one serves a group of consecutive
/// chunks, see [`Options::groups`].
fn symbols_of(
    array: &ArrayRef,
    ranges: &[Range<usize>],
    options: &Options,
) -> Vec<Option<Arc<Symbols>>> {
    if physical_of(array.data_type()) != Physical::Bytes || !options.allows(Encoding::Fsst) {
        return vec![None; ranges.len()];
    }
    let train = |group: Range<usize>| {
        let rows = ranges[group.start].start..ranges[group.end - 1].end;
        if !fsst::pays(source::string_bytes(array, &rows), rows.len()) {
            return vec![None; group.len()];
        }
        let value = source::string_values(array);
        let symbols = Symbols::train(rows.len(), |row| value(rows.start + row)).map(Arc::new);
        vec![symbols; group.len()]
    };
    options.groups(ranges.len()).into_par_iter().flat_map(train).collect()
}

/// Which rows of a chunk are valid, if some are not. Nested arrays see to their nulls themselves.
fn validity_bits(array: &ArrayRef) -> Option<&BooleanBuffer> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.filter(|_| physical_of(array.data_type()) != Physical::Arrow);
    nulls.map(NullBuffer::inner)
}

/// The tree of a chunk's values and of their validity.
fn encode_root(
    input: &Input<'_>,
    validity: Option<&BooleanBuffer>,
    context: &Context<'_>,
) -> Result<(EncodedNode, Plan)> {
    let plan = plan::plan_input(input, context);
    let mut root = plan::encode(input, &plan, context)?;
    if let (true, Some(bits)) = (input.physical != Physical::Arrow, validity) {
        let validity = Input::new(Physical::Bool, Values::Bits(bits));
        let plan = plan::plan_input(&validity, context);
        root.validity = Some(Box::new(plan::encode(&validity, &plan, context)?));
    }
    Ok((root, plan))
}

/// Compresses an array of the rows of one chunk, whose strings share no symbol table with others.
pub(crate) fn compress_chunk(array: &ArrayRef, options: &Options) -> Result<Chunk> {
    encode_chunk(array, &Context::new(options, None)).map(|(chunk, _)| chunk)
}

fn encode_chunk(array: &ArrayRef, context: &Context<'_>) -> Result<(Chunk, Plan)> {
    let bits = validity_bits(array);
    let (root, plan) = source::with_input(array, bits, true, |input| {
        let (root, plan) = encode_root(input, bits, context)?;
        if root.fits() {
            return Ok::<_, Error>((root, plan));
        }
        // Bitmaps as they are take a level where nulls as bytes take up to three.
        let options = context.options.clone().without(Encoding::Bits);
        let (root, shallow) = encode_root(input, bits, &Context::new(&options, context.symbols))?;
        if root.fits() {
            return Ok((root, shallow));
        }
        // The plans that were not chosen are kept for `explain`; none of them is to be tried.
        Ok((plan::encode(input, &plan::plain(), context)?, plan.left_plain()))
    })?;
    let statistics = Statistics::of(array);
    let (header, body) = assemble(&root, array.logical_null_count(), &statistics);
    let chunk = Chunk::parse(
        Buffer::from_vec(header),
        body,
        Some(statistics),
        array.data_type(),
        encoding::validate_tree,
    )?;
    if context.options.verify {
        let back = build::array(std::slice::from_ref(&chunk), array.data_type())?;
        if &back != array {
            return Err(Error::Verify { place: Place::default() });
        }
    }
    Ok((chunk, plan.without_data()))
}
