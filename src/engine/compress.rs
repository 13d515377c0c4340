//! Compression with an engine.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, FieldRef, SchemaRef};

use super::Engine;
use crate::arrow_type;
use crate::batch;
use crate::column::{CompressedColumn, compress_field};
use crate::device::{CompressedDeviceBatch, Context, DeviceArray};
use crate::encode::{self, encodes_on_device};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::transfer;
use crate::transfer::shared;

impl Engine {
    /// Copies an array to GPU memory, as it is.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for an engine without a GPU; [`Error::Unsupported`] for types
    /// that only the CPU reads; [`Error::DeviceMemory`], [`Error::Device`].
    pub fn copy_to_device(&self, array: &ArrayRef) -> Result<DeviceArray> {
        DeviceArray::upload(self.context()?, array)
    }

    /// Compresses every column of a batch; see [`compress`](crate::compress). The
    /// result is the same, byte for byte, whatever the engine runs on.
    ///
    /// Columns of types that a GPU does not encode are compressed by the CPU: views,
    /// FixedSizeBinary, and those that are carried as Arrow IPC. Nested columns are taken apart by
    /// the CPU, and their leaves compressed by the GPU.
    ///
    /// # Errors
    /// As [`compress`](crate::compress); on a GPU also [`Error::DeviceMemory`] and
    /// [`Error::Device`].
    pub fn compress(&self, values: &RecordBatch, options: &Options) -> Result<RecordBatch> {
        let columns = self.compress_columns(values, options)?;
        batch::compressed_batch(&values.schema(), values.num_rows(), &columns)
    }

    /// The same, without making Arrow arrays of the columns.
    pub(crate) fn compress_columns(
        &self,
        values: &RecordBatch,
        options: &Options,
    ) -> Result<Vec<CompressedColumn>> {
        options.validate()?;
        batch::check_uncompressed(&values.schema())?;
        let schema = values.schema();
        let compress = |context: &Arc<Context>| -> Result<Vec<CompressedColumn>> {
            let compress = |(field, array): (&FieldRef, &ArrayRef)| {
                let column = transfer::compress(context, field, array, options);
                column.map_err(|error: Error| error.in_column(field.name()))
            };
            let columns = schema.fields().iter().zip(values.columns()).collect();
            options.install(|| encode::side_by_side(columns, compress))?
        };
        self.run(
            || self.compression(values.columns(), options),
            || options.install(|| batch::compress_columns(values, options))?,
            compress,
            |workers| shared::compress(workers, schema.fields(), values.columns(), options),
        )
    }

    /// Compresses one array, as a nullable field without a name; see
    /// [`compress_array`](crate::compress_array). The result is the same, byte for byte, whatever the
    /// engine runs on.
    ///
    /// What runs where is as for [`Engine::compress`]. Columns that a GPU has compressed have no
    /// estimates in [`CompressedColumn::explain`].
    ///
    /// ```
    /// use arrow_array::{ArrayRef, Int64Array};
    /// use lanepack::{Engine, Options};
    /// use std::sync::Arc;
    ///
    /// let engine = Engine::auto();
    /// let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5000));
    /// let column = engine.compress_array(&array, &Options::default())?;
    /// assert_eq!(&engine.decompress_column(&column)?, &array);
    /// # Ok::<(), lanepack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`compress_array`](crate::compress_array); on a GPU also [`Error::DeviceMemory`] and
    /// [`Error::Device`].
    pub fn compress_array(&self, array: &ArrayRef, options: &Options) -> Result<CompressedColumn> {
        options.validate()?;
        let field: FieldRef = Arc::new(Field::new("", array.data_type().clone(), true));
        self.run(
            || self.compression(std::slice::from_ref(array), options),
            || options.install(|| compress_field(field.clone(), array, options))?,
            |context| {
                let compress = || transfer::compress(context, &field, array, options);
                options.install(compress)?.map_err(|error| error.in_column(field.name()))
            },
            |workers| {
                let (fields, arrays) = (std::slice::from_ref(&field), std::slice::from_ref(array));
                let (mut columns, shares) = shared::compress(workers, fields, arrays, options)?;
                Ok((columns.remove(0), shares))
            },
        )
    }

    /// Compresses every column of a batch to GPU memory.
    ///
    /// # Errors
    /// As [`Engine::compress`]; [`Error::NoDevice`] for an engine without a GPU.
    pub fn compress_to_device(
        &self,
        values: &RecordBatch,
        options: &Options,
    ) -> Result<CompressedDeviceBatch> {
        options.validate()?;
        batch::check_uncompressed(&values.schema())?;
        let context = self.context()?;
        let columns =
            options.install(|| encode::upload_and_compress(context, values, options))??;
        Ok(CompressedDeviceBatch::new(context.clone(), values.schema(), columns, values.num_rows()))
    }

    /// Compresses arrays that lie in GPU memory, one for each field of `schema`, to
    /// GPU memory.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if types or lengths do not fit the schema and each other;
    /// [`Error::Unsupported`] for a column that is compressed already; [`Error::NoDevice`],
    /// [`Error::DeviceMemory`], [`Error::Device`].
    pub fn compress_arrays(
        &self,
        schema: &SchemaRef,
        arrays: &[DeviceArray],
        options: &Options,
    ) -> Result<CompressedDeviceBatch> {
        options.validate()?;
        batch::check_uncompressed(schema)?;
        let context = self.context()?;
        let rows = encode::check_arrays(context, schema, arrays)?;
        let compress = |(field, array): (&FieldRef, &DeviceArray)| {
            let column = || {
                arrow_type::check(field.data_type())?;
                if !encodes_on_device(field.data_type()) {
                    return encode::compressed_by_cpu(context, field, &array.to_host()?, options);
                }
                let column = encode::encode_array(field, array, options, &mut ())?;
                encode::verify(&column, || array.to_host(), options)?;
                Ok(column)
            };
            column().map_err(|error: Error| error.in_column(field.name()))
        };
        let columns = options.install(|| {
            encode::side_by_side(schema.fields().iter().zip(arrays).collect(), compress)
        })??;
        Ok(CompressedDeviceBatch::new(context.clone(), schema.clone(), columns, rows))
    }
}
