//! Compressed columns in device memory.
//!
//! A column's bodies lie one behind the other, as in its Arrow storage, and are
//! uploaded in one copy; headers stay on the host, where they have been
//! validated and where launches are planned.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, SchemaRef};

use super::array::DeviceArray;
use super::{Context, decode};
use crate::chunk::{Chunk, Header, NodeView};
use crate::column::CompressedColumn;
use crate::encoding::{self, Physical};
use crate::error::{Error, Result};
use crate::gpu::abi::Node as DeviceNode;
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

    /// Decompresses every column to device memory: all kernels first, then one
    /// wait.
    ///
    /// # Errors
    /// As [`DeviceColumn::decompress`].
    pub fn decompress(&self) -> Result<Vec<DeviceArray>> {
        self.context.with_stream(|stream| {
            let in_column =
                |column: &DeviceColumn, error: Error| error.in_column(column.field.name());
            let started: Vec<_> = self
                .columns
                .iter()
                .map(|column| {
                    decode::start(stream, column, &mut ()).map_err(|error| in_column(column, error))
                })
                .collect::<Result<_>>()?;
            let finished = started.into_iter().zip(&self.columns);
            finished
                .map(|(pending, column)| pending.finish().map_err(|error| in_column(column, error)))
                .collect()
        })
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
    let views = matches!(column.data_type(), DataType::Utf8View | DataType::BinaryView);
    !column.is_empty()
        && column.chunks().iter().all(|chunk| {
            let bytes = || encoding::value_bytes(chunk.root());
            chunk.root().physical() != Physical::Arrow && (!views || u32::try_from(bytes()).is_ok())
        })
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

    /// What kernels of your own see of the column: for each chunk the root of its
    /// encoding, as `lanepack::Node` in `kernels/lanepack/node.cuh`, with `at`
    /// counting rows. docs/GPU.md in the repository has a complete kernel.
    ///
    /// The addresses are valid as long as the column is; the bodies have arrived
    /// when this returns.
    ///
    /// # Errors
    /// [`Error::Device`] if the upload failed.
    pub fn nodes(&self) -> Result<Vec<DeviceNode>> {
        self.ready.synchronize()?;
        Ok(decode::roots(&self.chunks).iter().map(decode::Target::node).collect())
    }

    /// The nodes of the chunks' validity: bits, 1 for valid; of a chunk without
    /// nulls a constant 1. See [`DeviceColumn::nodes`].
    ///
    /// # Errors
    /// As [`DeviceColumn::nodes`].
    pub fn validity_nodes(&self) -> Result<Vec<DeviceNode>> {
        self.ready.synchronize()?;
        Ok(decode::validity(&self.chunks).iter().map(|job| job.node).collect())
    }

    /// Decompresses the column to device memory and waits for it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a chunk's data are damaged, [`Error::TooLarge`] if the
    /// strings of a Utf8 or Binary column pass 2 GiB or if the column's type is
    /// carried as Arrow IPC, which only the CPU reads; [`Error::DeviceMemory`],
    /// [`Error::Device`].
    pub fn decompress(&self) -> Result<DeviceArray> {
        let decompress =
            || self.context.with_stream(|stream| decode::start(stream, self, &mut ())?.finish());
        decompress().map_err(|error| error.in_column(self.field.name()))
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

    pub(super) fn ready(&self) -> &dyn Event {
        self.ready.as_ref()
    }
}
