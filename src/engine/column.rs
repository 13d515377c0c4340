//! Compressed columns in device memory.
//!
//! A column's bodies lie one behind the other, as in its Arrow storage, and are
//! uploaded in one copy; headers stay on the host, where they have been
//! validated and where launches are planned.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, SchemaRef};

use super::Context;
use crate::chunk::{Chunk, Header, NodeView};
use crate::column::CompressedColumn;
use crate::encoding::{self, Physical};
use crate::error::Result;
use crate::gpu::{DeviceBuffer, DeviceInfo, Event};

/// A compressed batch in device memory, made by [`Engine::upload`](crate::Engine::upload).
#[derive(Debug)]
pub struct DeviceBatch {
    context: Arc<Context>,
    schema: SchemaRef,
    columns: Vec<DeviceColumn>,
    rows: usize,
}

impl DeviceBatch {
    pub(super) fn upload(
        context: &Arc<Context>,
        schema: SchemaRef,
        columns: &[CompressedColumn],
        packed_rows: usize,
    ) -> Result<Self> {
        let rows = columns.first().map_or(packed_rows, CompressedColumn::len);
        let columns = columns
            .iter()
            .map(|column| {
                DeviceColumn::upload(context, column)
                    .map_err(|error| error.in_column(column.field().name()))
            })
            .collect::<Result<_>>()?;
        Ok(Self { context: context.clone(), schema, columns, rows })
    }

    /// The schema of the values.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The columns.
    pub fn columns(&self) -> &[DeviceColumn] {
        &self.columns
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// The device that it lies on.
    pub fn device(&self) -> &DeviceInfo {
        self.context.device.info()
    }
}

/// A compressed column in device memory.
#[derive(Debug)]
pub struct DeviceColumn {
    context: Arc<Context>,
    field: FieldRef,
    chunks: Vec<DeviceChunk>,
    bodies: Arc<DeviceBuffer>,
    /// When the bodies have arrived.
    ready: Arc<dyn Event>,
}

/// Where a chunk's body lies, and what its header says.
#[derive(Debug)]
pub(super) struct DeviceChunk {
    header: Header,
    /// Address of the body.
    pub body: u64,
    /// The column's first row in this chunk.
    pub start: usize,
}

impl DeviceChunk {
    /// The root of the encoding tree, without access to the body.
    pub fn root(&self) -> NodeView<'_> {
        NodeView::of_header(&self.header)
    }

    pub fn rows(&self) -> usize {
        self.header.rows
    }

    pub fn null_count(&self) -> usize {
        self.header.null_count
    }
}

/// Whether a device decodes the column: not if chunks are carried as Arrow IPC,
/// nor if one has more bytes than views have offsets for.
pub(super) fn decodes_on_device(column: &CompressedColumn) -> bool {
    !column.is_empty()
        && column.chunks().iter().all(|chunk| match chunk.root().physical() {
            Physical::Arrow => false,
            Physical::Bytes => views_hold(column.data_type(), encoding::value_bytes(chunk.root())),
            _ => true,
        })
}

/// Whether a chunk of strings of so many bytes can have views: their offsets are
/// signed and of 32 bits.
pub(super) fn views_hold(data_type: &DataType, bytes: usize) -> bool {
    let views = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
    !views || i32::try_from(bytes).is_ok()
}

impl DeviceColumn {
    pub(super) fn upload(context: &Arc<Context>, column: &CompressedColumn) -> Result<Self> {
        context.with_stream(|stream| {
            let body_bytes: usize = column.chunks().iter().map(|chunk| chunk.body().len()).sum();
            let bodies = stream.allocate(body_bytes)?;
            let mut at = 0;
            for run in column.body_runs() {
                stream.upload(&run, &bodies, at)?;
                at += run.len();
            }
            let (mut body, mut start) = (bodies.address(), 0);
            let place = |chunk: &Chunk| {
                let placed = DeviceChunk { header: chunk.parsed_header().clone(), body, start };
                body += chunk.body().len() as u64;
                start += chunk.rows();
                placed
            };
            let chunks = column.chunks().iter().map(place).collect();
            Ok(Self {
                context: context.clone(),
                field: column.field().clone(),
                chunks,
                bodies: Arc::new(bodies),
                ready: stream.record()?,
            })
        })
    }

    /// The Arrow field of the values.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |chunk| chunk.start + chunk.rows())
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nulls among the values.
    pub fn null_count(&self) -> usize {
        self.chunks.iter().map(DeviceChunk::null_count).sum()
    }

    /// Bytes of device memory that the compressed column takes.
    pub fn device_bytes(&self) -> usize {
        self.bodies.len()
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn chunks(&self) -> &[DeviceChunk] {
        &self.chunks
    }

    pub(super) fn bodies(&self) -> &Arc<DeviceBuffer> {
        &self.bodies
    }

    /// When the bodies have arrived.
    pub(super) fn ready(&self) -> &dyn Event {
        self.ready.as_ref()
    }
}
