//! A compressed column as an Arrow extension array.
//!
//! One row of the storage is one chunk (docs/FORMAT.md, section "Storage"). There are two storages:
//!
//! ```text
//! in memory, streams, Parquet   Struct<rows: UInt32, null_count: UInt32, min: T, max: T,
//!                                      header: Binary, body: LargeBinary>
//! packed, in files              LargeBinary: header, zeros up to a multiple of 64, body
//! ```
//!
//! The extension name is `lanepack.column`; the metadata is a JSON object with
//! the format version and the exact Arrow type. Everything else that makes a
//! field stays what it was: name, nullability, metadata.

use std::collections::HashMap;
use std::sync::Arc;

use crate::checksum::xxh3_64;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, GenericBinaryArray, LargeBinaryArray,
    OffsetSizeTrait, StructArray, UInt32Array, new_empty_array,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::extension::{
    EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY, ExtensionType,
};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::arrow_type;
use crate::chunk::{Chunk, FORMAT_VERSION, Header, Statistics, aligned, joined, realigned};
use crate::column::CompressedColumn;
use crate::encoding;
use crate::error::{Error, Place, Result, ensure};

/// Name of the extension type.
pub const EXTENSION_NAME: &str = "lanepack.column";

/// Metadata of the schema of a file with an index: the number of rows of the columns before compression, for
/// other tools.
pub(crate) const ROWS_KEY: &str = "lanepack.rows";
/// What keys of schemas begin with that are lanepack's, some maybe of later versions.
const OWN_KEYS: &str = "lanepack.";

/// Removes keys that say something of a file, and not of its values.
pub(crate) fn remove_own_keys(schema: &mut Schema) {
    schema.metadata.retain(|key, _| !key.starts_with(OWN_KEYS));
}

/// Where a field says what extension type it has.
const INNER_KEYS: [&str; 2] = [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY];

/// The extension type of compressed columns, for use with
/// [`Field::try_extension_type`].
///
/// ```
/// use arrow_array::{ArrayRef, Int32Array};
/// use arrow_schema::DataType;
/// use lanepack::{ColumnType, Options, compress_array};
/// use std::sync::Arc;
///
/// let array: ArrayRef = Arc::new(Int32Array::from_iter_values(0..10));
/// let (field, _storage) = compress_array(&array, &Options::default())?.to_arrow("n");
/// let column_type: ColumnType = field.try_extension_type()?;
/// assert_eq!(column_type.data_type(), &DataType::Int32);
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnType {
    data_type: DataType,
    /// Name and metadata of the extension type that the values themselves have.
    inner: [Option<String>; 2],
    /// Whether the field says that the order of its dictionary means something.
    dictionary_ordered: bool,
}

/// The JSON of the metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Metadata {
    version: u64,
    /// The Arrow type as arrow-rs displays it.
    #[serde(rename = "type")]
    data_type: String,
    /// An Arrow IPC schema message with one field, in hexadecimal digits: for
    /// types whose display does not say everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    /// The values' own extension type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extension_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extension_metadata: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dictionary_ordered: bool,
}

impl ColumnType {
    /// The Arrow type of the values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The type of a field that is to be compressed.
    fn of(field: &Field) -> Self {
        let inner = INNER_KEYS.map(|key| field.metadata().get(key).cloned());
        let dictionary_ordered = field.dict_is_ordered().unwrap_or(false);
        Self { data_type: field.data_type().clone(), inner, dictionary_ordered }
    }

    fn storage_fields(&self) -> Fields {
        let bound = Statistics::data_type(&self.data_type);
        Fields::from(vec![
            Field::new("rows", DataType::UInt32, false),
            Field::new("null_count", DataType::UInt32, false),
            Field::new("min", bound.clone(), true),
            Field::new("max", bound, true),
            Field::new("header", DataType::Binary, false),
            Field::new("body", DataType::LargeBinary, false),
        ])
    }

    fn to_json(&self) -> String {
        let display = self.data_type.to_string();
        let exact = arrow_type::parse(&display).is_ok_and(|parsed| parsed == self.data_type);
        let [extension_name, extension_metadata] = self.inner.clone();
        let metadata = Metadata {
            version: FORMAT_VERSION.into(),
            data_type: display,
            schema: (!exact).then(|| hex(&schema_message(&self.data_type))),
            extension_name,
            extension_metadata,
            dictionary_ordered: self.dictionary_ordered,
        };
        serde_json::to_string(&metadata).expect("a struct of strings is valid JSON")
    }

    fn from_json(json: &str) -> Result<Self> {
        // The version first: later versions may have other fields.
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let broken = |error: serde_json::Error| {
            Error::not_lanepack(
                "extension metadata of JSON with version and type",
                error.to_string(),
            )
        };
        let Version { version } = serde_json::from_str(json).map_err(broken)?;
        if version != u64::from(FORMAT_VERSION) {
            let place = Place::default();
            return Err(Error::Version { place, found: version, supported: FORMAT_VERSION.into() });
        }
        let metadata: Metadata = serde_json::from_str(json).map_err(broken)?;
        let data_type = match &metadata.schema {
            None => arrow_type::parse(&metadata.data_type).map_err(|error| {
                Error::not_lanepack("an Arrow type in the extension metadata", error)
            })?,
            Some(digits) => type_of_message(digits)?,
        };
        arrow_type::check(&data_type)?;
        let inner = [metadata.extension_name, metadata.extension_metadata];
        Ok(Self { data_type, inner, dictionary_ordered: metadata.dictionary_ordered })
    }
}

/// An IPC schema message with one field of this type.
fn schema_message(data_type: &DataType) -> Vec<u8> {
    let schema = Schema::new(vec![Field::new("", data_type.clone(), true)]);
    let mut tracker = arrow_ipc::writer::DictionaryTracker::new(false);
    arrow_ipc::writer::IpcDataGenerator::default()
        .schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &Default::default())
        .ipc_message
}

fn type_of_message(digits: &str) -> Result<DataType> {
    let broken =
        |what: String| Error::not_lanepack("an IPC schema message in the extension metadata", what);
    let bytes = unhex(digits).ok_or_else(|| broken("other characters than digits".to_owned()))?;
    let message = arrow_ipc::root_as_message(&bytes).map_err(|error| broken(error.to_string()))?;
    let schema = message.header_as_schema().ok_or_else(|| broken("another message".to_owned()))?;
    let schema = crate::fence::schema_of(schema).map_err(|error| broken(error.to_string()))?;
    match schema.fields().as_ref() {
        [field] => Ok(field.data_type().clone()),
        fields => Err(broken(format!("a schema of {} fields", fields.len()))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(pair).collect())?
}

impl ExtensionType for ColumnType {
    const NAME: &'static str = EXTENSION_NAME;
    type Metadata = Self;

    fn metadata(&self) -> &Self {
        self
    }

    fn serialize_metadata(&self) -> Option<String> {
        Some(self.to_json())
    }

    fn deserialize_metadata(metadata: Option<&str>) -> Result<Self, ArrowError> {
        let Some(json) = metadata else {
            return Err(Error::not_lanepack("extension metadata", "none").into());
        };
        Ok(Self::from_json(json)?)
    }

    fn supports_data_type(&self, data_type: &DataType) -> Result<(), ArrowError> {
        Ok(self.check_storage(data_type)?)
    }

    fn try_new(data_type: &DataType, metadata: Self) -> Result<Self, ArrowError> {
        metadata.supports_data_type(data_type)?;
        Ok(metadata)
    }
}

impl ColumnType {
    /// Checks that the storage is packed, or names and types of its fields. Other writers may have
    /// changed their nullability or metadata, the types of the bounds (Parquet has no times in
    /// seconds, say), and which type of binary headers and bodies have.
    fn check_storage(&self, data_type: &DataType) -> Result<()> {
        if is_binary(data_type) {
            return Ok(());
        }
        let expected = self.storage_fields();
        let same = match data_type {
            DataType::Struct(fields) => {
                fields.len() == expected.len()
                    && fields.iter().zip(&expected).all(|(found, expected)| {
                        found.name() == expected.name()
                            && match found.name().as_str() {
                                "min" | "max" => true,
                                "header" | "body" => is_binary(found.data_type()),
                                _ => found.data_type() == expected.data_type(),
                            }
                    })
            }
            _ => false,
        };
        if same {
            return Ok(());
        }
        let expected = DataType::Struct(expected);
        Err(Error::not_lanepack(expected.to_string(), data_type.to_string()))
    }
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Whether a field says that it is a compressed column.
pub fn is_compressed(field: &Field) -> bool {
    field.extension_type_name() == Some(EXTENSION_NAME)
}

/// The extension field of a field whose values are compressed.
pub(crate) fn storage_field(field: &Field) -> Field {
    let storage = DataType::Struct(ColumnType::of(field).storage_fields());
    extension_field(field, storage)
}

/// The same with the packed storage.
pub(crate) fn packed_field(field: &Field) -> Field {
    extension_field(field, DataType::LargeBinary)
}

fn extension_field(field: &Field, storage: DataType) -> Field {
    let column_type = ColumnType::of(field);
    let mut metadata = field.metadata().clone();
    metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), EXTENSION_NAME.to_owned());
    metadata.insert(EXTENSION_TYPE_METADATA_KEY.to_owned(), column_type.to_json());
    Field::new(field.name(), storage, field.is_nullable()).with_metadata(metadata)
}

/// The field of the values that an extension field stands for.
pub(crate) fn value_field(field: &Field) -> Result<Field> {
    if !is_compressed(field) {
        let found = field.extension_type_name().unwrap_or("none");
        return Err(Error::not_lanepack(format!("extension {EXTENSION_NAME:?}"), found));
    }
    let json = field.extension_type_metadata();
    let json = json.ok_or_else(|| Error::not_lanepack("extension metadata", "none"))?;
    let column_type = ColumnType::from_json(json)?;
    column_type.check_storage(field.data_type())?;
    let mut metadata = field.metadata().clone();
    metadata.remove(EXTENSION_TYPE_NAME_KEY);
    metadata.remove(EXTENSION_TYPE_METADATA_KEY);
    for (key, value) in INNER_KEYS.into_iter().zip(column_type.inner) {
        if let Some(value) = value {
            metadata.insert(key.to_owned(), value);
        }
    }
    let value_field = Field::new(field.name(), column_type.data_type, field.is_nullable());
    Ok(value_field.with_dict_is_ordered(column_type.dictionary_ordered).with_metadata(metadata))
}

impl CompressedColumn {
    /// The column as an extension field of this name and its storage array, one
    /// row a chunk. The bodies lie one behind the other in one buffer that
    /// begins at a multiple of 64 bytes.
    pub fn to_arrow(&self, name: &str) -> (Field, StructArray) {
        let field = storage_field(self.field()).with_name(name);
        (field, self.to_storage())
    }

    /// The storage array alone.
    pub(crate) fn to_storage(&self) -> StructArray {
        let chunks = self.chunks();
        let count = |count: fn(&Chunk) -> usize| -> ArrayRef {
            let counts = chunks.iter().map(|chunk| count(chunk) as u32);
            Arc::new(UInt32Array::from_iter_values(counts))
        };
        let column_type = ColumnType::of(self.field());
        let bounds = |bound: fn(&Statistics) -> &ArrayRef| -> ArrayRef {
            let parts: Vec<&dyn Array> =
                chunks.iter().map(|chunk| bound(chunk.statistics()).as_ref()).collect();
            match parts.as_slice() {
                [] => new_empty_array(&Statistics::data_type(self.data_type())),
                parts => arrow_select::concat::concat(parts).expect("bounds are of one type"),
            }
        };
        let headers = BinaryArray::from_iter_values(chunks.iter().map(|chunk| chunk.header()));
        let offsets =
            OffsetBuffer::<i64>::from_lengths(chunks.iter().map(|chunk| chunk.body().len()));
        let bodies = match self.body_runs_of(0..self.chunks().len()).as_slice() {
            [bodies] => bodies.clone(),
            runs => joined(runs),
        };
        let columns: Vec<ArrayRef> = vec![
            count(Chunk::rows),
            count(Chunk::null_count),
            bounds(|statistics| &statistics.min),
            bounds(|statistics| &statistics.max),
            Arc::new(headers),
            Arc::new(LargeBinaryArray::new(offsets, bodies, None)),
        ];
        let fields = column_type.storage_fields();
        StructArray::try_new_with_length(fields, columns, None, chunks.len())
            .expect("the storage has the fields of its type")
    }

    /// Reads a column from an extension field and its storage array, which may
    /// be sliced. Every size, offset, width and count is validated; bodies are
    /// used where they lie if they begin at multiples of 64 bytes, and copied
    /// if they do not. Headers and bodies may be Binary, LargeBinary or BinaryView: other tools store
    /// them as they like.
    ///
    /// # Errors
    /// [`Error::NotLanepack`] if field or array are not a compressed column,
    /// [`Error::Version`] for another format version, [`Error::Corrupt`] or
    /// [`Error::Checksum`] if a chunk breaks a rule of the format.
    pub fn try_from_arrow(field: &Field, storage: &dyn Array) -> Result<Self> {
        Self::read(field, storage).map_err(|error| error.in_column(field.name()))
    }

    fn read(field: &Field, storage: &dyn Array) -> Result<Self> {
        let values = value_field(field)?;
        if storage.data_type() != field.data_type() {
            let (expected, found) = (field.data_type(), storage.data_type());
            return Err(Error::not_lanepack(expected.to_string(), found.to_string()));
        }
        ensure!(storage.null_count() == 0, "{} chunks are null", storage.null_count());
        if is_binary(storage.data_type()) {
            return Self::read_packed(values, storage);
        }
        let storage = storage.as_struct();
        let columns: [&ArrayRef; 6] =
            storage.columns().iter().collect::<Vec<_>>().try_into().map_err(|_| {
                Error::not_lanepack("a storage array of 6 fields", "another number")
            })?;
        let [rows, null_counts, mins, maxs, headers, bodies] = columns;
        for (column, name) in
            columns.into_iter().zip(["rows", "null_count", "min", "max", "header", "body"])
        {
            let optional = matches!(name, "min" | "max");
            ensure!(optional || column.null_count() == 0, "field {name} of a chunk is null");
        }
        let rows = rows.as_primitive::<UInt32Type>();
        let null_counts = null_counts.as_primitive::<UInt32Type>();
        let headers = binaries(headers)?;
        let (bodies, all_bodies) = aligned_bodies(bodies)?;
        // Bounds that came back as another type are no bounds.
        let bound = Statistics::data_type(values.data_type());
        let bounds =
            (mins.data_type() == &bound && maxs.data_type() == &bound).then_some((mins, maxs));
        let chunk = |index: usize| -> Result<Chunk> {
            let header = Buffer::from(headers[index].as_slice());
            let body = bodies[index].clone();
            let statistics = bounds.as_ref().map(|(mins, maxs)| Statistics {
                min: mins.slice(index, 1),
                max: maxs.slice(index, 1),
            });
            let data_type = values.data_type();
            let chunk = Chunk::parse(header, body, statistics, data_type, encoding::validate_tree)?;
            for (what, stated, found) in [
                ("rows", rows.value(index), chunk.rows()),
                ("nulls", null_counts.value(index), chunk.null_count()),
            ] {
                ensure!(
                    stated as usize == found,
                    "{stated} {what} in the storage array, {found} in the header"
                );
            }
            crate::column::check_type(&chunk, data_type)?;
            Ok(chunk)
        };
        let chunks = (0..storage.len())
            .into_par_iter()
            .map(|index| chunk(index).map_err(|error| error.in_chunk(index)))
            .collect::<Result<_>>()?;
        let column = Self::new(Arc::new(values), chunks, Vec::new());
        Ok(match all_bodies {
            Some(bodies) => column.with_bodies(bodies),
            None => column,
        })
    }
}

impl CompressedColumn {
    /// Reads a column from its packed storage, which has no bounds.
    fn read_packed(values: Field, storage: &dyn Array) -> Result<Self> {
        let packed = binaries(&arrow_array::make_array(storage.to_data()))?;
        let chunks = (packed.into_par_iter().enumerate())
            .map(|(index, packed)| {
                let chunk = chunk_of_packed(packed, None, values.data_type());
                chunk.map_err(|error| error.in_chunk(index))
            })
            .collect::<Result<_>>()?;
        Ok(Self::new(Arc::new(values), chunks, Vec::new()))
    }
}

/// Reads a chunk that is packed: validated, with its bounds, if they are known.
///
/// # Errors
/// As [`CompressedColumn::try_from_arrow`].
pub(crate) fn chunk_of_packed(
    packed: Buffer,
    statistics: Option<Statistics>,
    data_type: &DataType,
) -> Result<Chunk> {
    let body_at = packed_body(&packed)?;
    let header = packed.slice_with_length(0, Header::stated_len(&packed)?);
    let chunk = Chunk::parse(
        header,
        packed.slice(body_at),
        statistics,
        data_type,
        encoding::validate_tree,
    )?;
    crate::column::check_type(&chunk, data_type)?;
    Ok(chunk)
}

/// Where the body of a packed chunk begins.
fn packed_body(packed: &[u8]) -> Result<usize> {
    let body_at = aligned(Header::stated_len(packed)?);
    ensure!(
        packed.len() >= body_at,
        "a packed chunk of {} bytes, whose header and gap take {body_at}",
        packed.len()
    );
    Ok(body_at)
}

/// The checksum of the body of a packed chunk.
pub(crate) fn packed_checksum(packed: &[u8]) -> Result<u64> {
    Ok(xxh3_64(&packed[packed_body(packed)?..]))
}

/// The values of an array of any type of binary, without copies of those longer than a view.
fn binaries(array: &ArrayRef) -> Result<Vec<Buffer>> {
    fn slices<O: OffsetSizeTrait>(array: &GenericBinaryArray<O>) -> Vec<Buffer> {
        let starts = array.value_offsets().windows(2);
        let slice = |pair: &[O]| {
            let (start, end) = (pair[0].as_usize(), pair[1].as_usize());
            array.values().slice_with_length(start, end - start)
        };
        starts.map(slice).collect()
    }
    match array.data_type() {
        DataType::Binary => Ok(slices(array.as_binary::<i32>())),
        DataType::LargeBinary => Ok(slices(array.as_binary::<i64>())),
        _ => {
            let array = array.as_binary_view();
            let value = |(row, view): (usize, &u128)| match ByteView::from(*view) {
                view if view.length <= MAX_INLINE_VIEW_LEN => Buffer::from(array.value(row)),
                view => array.data_buffers()[view.buffer_index as usize]
                    .slice_with_length(view.offset as usize, view.length as usize),
            };
            Ok(array.views().iter().enumerate().map(value).collect())
        }
    }
}

/// The values of views, each beginning at a multiple of 64. Those of the same bytes are copied once,
/// as tools share them; different ones may not add up to more than all bytes: copies of views that
/// overlap would take many times the input.
fn aligned_views(array: &BinaryViewArray, values: Vec<Buffer>) -> Result<Vec<Buffer>> {
    let mut copies: HashMap<(usize, usize), Buffer> = HashMap::new();
    let buffers = array.data_buffers().iter().map(Buffer::len).sum::<usize>();
    let all = buffers.saturating_add(array.len() * MAX_INLINE_VIEW_LEN as usize);
    let mut copied = 0_usize;
    let aligned = |value: Buffer| {
        let key = (value.as_ptr() as usize, value.len());
        if let Some(copy) = copies.get(&key) {
            return Ok(copy.clone());
        }
        copied = copied.saturating_add(value.len());
        ensure!(copied <= all, "views of {copied} bytes of headers or bodies in {all} bytes");
        let value = realigned(value);
        copies.insert(key, value.clone());
        Ok(value)
    };
    values.into_iter().map(aligned).collect()
}

/// Each body, beginning at a multiple of 64, and the bytes of all of them if they lie one behind the
/// other: one copy for the whole column where a writer or file has moved them.
fn aligned_bodies(array: &ArrayRef) -> Result<(Vec<Buffer>, Option<Buffer>)> {
    let bodies = binaries(array)?;
    let all = match array.data_type() {
        DataType::Binary => used(array.as_binary::<i32>()),
        DataType::LargeBinary => used(array.as_binary::<i64>()),
        _ => return Ok((aligned_views(array.as_binary_view(), bodies)?, None)),
    };
    let all = realigned(all);
    let mut at = 0;
    let bodies = (bodies.iter())
        .map(|body| {
            at += body.len();
            all.slice_with_length(at - body.len(), body.len())
        })
        .collect();
    Ok((bodies, Some(all)))
}

/// The bytes of all values of an array.
fn used<O: OffsetSizeTrait>(array: &GenericBinaryArray<O>) -> Buffer {
    let first = array.value_offsets()[0].as_usize();
    let len = array.value_offsets()[array.len()].as_usize() - first;
    array.values().slice_with_length(first, len)
}
