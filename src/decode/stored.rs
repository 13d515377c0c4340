//! What the host has to know of strings in device memory to test them as they are stored:
//! symbol tables, constant values, and bounds.
//!
//! Of dict it is the dictionary's strings that are tested.
//!
//! Tables lie in bodies, not in headers. A kernel brings those of all chunks together and
//! one copy brings them to the host, once for each column: a test is made for each table
//! that differs, and chunks that were compressed together share one.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::program::Target;
use crate::chunk::{Statistics, StringForm};
use crate::decode::{check_decodable, roots};
use crate::device::column::DeviceColumn;
use crate::error::{Error, Result};
use crate::gpu::abi::{ByteSpan, SpansArguments};
use crate::gpu::{DevicePtr, Launch, Stream, kernels};

/// The strings of a column, chunk by chunk.
#[derive(Debug)]
pub(crate) struct StoredStrings {
    /// The symbol tables of all chunks, each once.
    pub tables: Vec<Box<[u8]>>,
    pub chunks: Vec<StoredChunk>,
}

/// The strings of a chunk.
#[derive(Debug)]
pub(crate) struct StoredChunk {
    pub form: StoredForm,
    pub bounds: Statistics,
}

/// What the strings of a chunk are stored as.
#[derive(Debug)]
pub(crate) enum StoredForm {
    /// All are this one.
    Constant(Box<[u8]>),
    Bytes,
    /// Codes by one of the tables.
    Codes(usize),
}

/// The node whose strings are tested: of dict the dictionary.
fn tested<'a>(root: &Target<'a>) -> Target<'a> {
    match root.view.encoding().string_form() {
        Some(StringForm::Lookup) => root.child(1),
        Some(
            StringForm::Bytes
            | StringForm::One
            | StringForm::Codes
            | StringForm::Prefixes
            | StringForm::Segments,
        )
        | None => *root,
    }
}

/// Tables in the copy begin at multiples of this.
const ALIGNMENT: usize = 64;

impl StoredStrings {
    /// Reads those of a column; waits for a copy.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the column is nested or carried as
    /// Arrow IPC, [`Error::DeviceMemory`](crate::Error::DeviceMemory),
    /// [`Error::Device`](crate::Error::Device).
    pub fn read(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Self> {
        check_decodable(column)?;
        // The tables and the constant values are buffers 0 of their nodes.
        let targets: Vec<Target<'_>> = roots(column.chunks()).iter().map(tested).collect();
        let mut places = Vec::new();
        let mut spans = Vec::new();
        let mut len = 0;
        for target in &targets {
            match target.view.string_form()? {
                StringForm::One | StringForm::Codes => {}
                StringForm::Bytes
                | StringForm::Lookup
                | StringForm::Prefixes
                | StringForm::Segments => continue,
            }
            let range = target.view.buffer_range(0);
            spans.push(ByteSpan {
                from: target.body.add(range.start),
                to: DevicePtr::NULL,
                bytes: range.len() as u64,
            });
            places.push(len..len + range.len());
            len = places[places.len() - 1].end.next_multiple_of(ALIGNMENT);
        }
        let mut bytes = vec![0; len];
        if len > 0 {
            gather_spans(stream, column, spans, &places, &mut bytes)?;
        }

        let mut places = places.into_iter();
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut tables = Vec::new();
        let mut chunks = Vec::with_capacity(targets.len());
        for (target, chunk) in targets.iter().zip(column.chunks()) {
            let mut buffer = || places.next().map_or(&[][..], |place| &bytes[place]);
            let form = match target.view.string_form()? {
                // Of front coding and lz they are put together for those who ask.
                StringForm::Bytes | StringForm::Prefixes | StringForm::Segments => {
                    StoredForm::Bytes
                }
                StringForm::One => StoredForm::Constant(buffer().into()),
                StringForm::Lookup => {
                    return Err(Error::corrupt("a dictionary in a dictionary of strings"));
                }
                StringForm::Codes => {
                    let table = buffer();
                    StoredForm::Codes(*numbers.entry(table).or_insert_with(|| {
                        tables.push(table.into());
                        tables.len() - 1
                    }))
                }
            };
            chunks.push(StoredChunk { form, bounds: chunk.statistics(column.field().data_type()) });
        }
        Ok(Self { tables, chunks })
    }
}

/// Copies parts of a column's bodies to the host; the bytes of each span go where `places` says.
fn gather_spans(
    stream: &Arc<dyn Stream>,
    column: &DeviceColumn,
    mut spans: Vec<ByteSpan>,
    places: &[Range<usize>],
    bytes: &mut [u8],
) -> Result<()> {
    let kernel = kernels::COPY_SPANS;
    let to = stream.allocate(bytes.len())?;
    // What lies between tables is copied as well.
    stream.fill(&to, 0, bytes.len(), 0)?;
    let longest = spans.iter().map(|span| span.bytes as usize).max().unwrap_or(0);
    spans.iter_mut().zip(places).for_each(|(span, place)| span.to = to.pointer_at(place.start));
    let from = stream.allocate(size_of_val(spans.as_slice()))?;
    stream.upload(bytemuck::cast_slice(&spans), &from, 0)?;
    stream.wait(column.ready())?;
    let blocks_per_span = longest.div_ceil(kernel.block);
    let arguments =
        SpansArguments { spans: from.pointer(), blocks_per_span: blocks_per_span as u32, zero: 0 };
    let mut buffers = vec![&from, &to];
    buffers.extend(column.bodies().iter().map(AsRef::as_ref));
    stream.launch(&Launch::new(kernel, spans.len() * blocks_per_span, &arguments, &buffers))?;
    stream.download(&to, 0, bytes)
}
