//! Schemas: all that arrow-ipc's conversion of a flatbuffer to a schema takes for granted.
//!
//! It panics for fields without a type or the children of their type, for units, widths, precisions
//! and modes that it does not know, for unions of more than 128 fields or with type ids twice, and
//! for schemas without fields or with big-endian decimals.

use arrow_ipc::{self as fb, Type};
use arrow_schema::Schema;

use super::fenced;
use crate::arrow_type;
use crate::error::{Error, Result, ensure};

/// Fields that a union can have, one for each of its type ids.
const UNION_FIELDS: usize = 128;

/// Checks the schema of a message or a footer, and converts it.
///
/// # Errors
/// [`Error::Corrupt`] with the field and what was expected of it.
pub(crate) fn schema_of(schema: fb::Schema<'_>) -> Result<Schema> {
    ensure!(
        schema.endianness() == fb::Endianness::Little,
        "an IPC schema of {:?}-endian values, little-endian ones expected",
        schema.endianness()
    );
    let Some(fields) = schema.fields() else {
        return Err(Error::corrupt("an IPC schema without a list of fields"));
    };
    fields.iter().try_for_each(check_field)?;
    let schema = fenced(|| Ok(arrow_ipc::convert::fb_to_schema(schema)))?;
    match schema.fields().iter().find_map(|field| arrow_type::flaw(field.data_type())) {
        None => Ok(schema),
        Some(flaw) => {
            Err(Error::corrupt(format!("an IPC schema of types that no array has: {flaw}")))
        }
    }
}

/// An error about a field.
fn broken(field: fb::Field<'_>, what: &str) -> Error {
    let name: String = field.name().unwrap_or_default().chars().take(40).collect();
    Error::corrupt(format!("IPC field {name:?} of type {:?}: {what}", field.type_type()))
}

/// Checks a field, its children and its dictionary. The verifier of flatbuffers has limited how
/// deeply fields are nested.
fn check_field(field: fb::Field<'_>) -> Result<()> {
    let check = |holds: bool, what: &dyn Fn() -> String| -> Result<()> {
        if holds { Ok(()) } else { Err(broken(field, &what())) }
    };
    if let Some(dictionary) = field.dictionary() {
        let width = dictionary.indexType().map(|int| int.bitWidth());
        check(is_width(width), &|| {
            format!("dictionary keys of {} bits, 8, 16, 32 or 64 expected", width.unwrap_or(0))
        })?;
    }
    let children = field.children().map_or(0, |children| children.len());
    let expected = match field.type_type() {
        Type::List
        | Type::LargeList
        | Type::ListView
        | Type::LargeListView
        | Type::FixedSizeList
        | Type::Map => Some(1),
        Type::RunEndEncoded => Some(2),
        // Any number. Others have none, and arrow-ipc does not look at them.
        _ => None,
    };
    if let Some(expected) = expected {
        check(children == expected, &|| format!("{expected} children expected, found {children}"))?;
    }
    check_parameters(field).map_err(|what| broken(field, &what))?;
    field.children().into_iter().flatten().try_for_each(check_field)
}

/// Whether integers can have so many bits.
fn is_width(bits: Option<i32>) -> bool {
    matches!(bits, Some(8 | 16 | 32 | 64))
}

/// Checks what belongs to the type of a field; what is wrong if something is.
fn check_parameters(field: fb::Field<'_>) -> Result<(), String> {
    /// The parameters, which a type of this name has.
    fn known<T>(parameters: Option<T>) -> Result<T, String> {
        parameters.ok_or_else(|| "the parameters of the type are missing".to_owned())
    }
    /// One of the variants that the format names.
    fn variant<T: PartialEq + std::fmt::Debug>(found: T, names: &[T]) -> Result<(), String> {
        match names.contains(&found) {
            true => Ok(()),
            false => Err(format!("{found:?} found, one of {names:?} expected")),
        }
    }
    match field.type_type() {
        Type::Null
        | Type::Bool
        | Type::Binary
        | Type::BinaryView
        | Type::LargeBinary
        | Type::Utf8
        | Type::Utf8View
        | Type::LargeUtf8
        | Type::List
        | Type::LargeList
        | Type::ListView
        | Type::LargeListView
        | Type::Struct_
        | Type::RunEndEncoded => Ok(()),
        Type::Int => {
            let bits = known(field.type_as_int())?.bitWidth();
            if is_width(Some(bits)) {
                Ok(())
            } else {
                Err(format!("{bits} bits found, 8, 16, 32 or 64 expected"))
            }
        }
        Type::FixedSizeBinary => {
            let width = known(field.type_as_fixed_size_binary())?.byteWidth();
            if width >= 0 { Ok(()) } else { Err(format!("a width of {width} bytes")) }
        }
        Type::FixedSizeList => {
            let len = known(field.type_as_fixed_size_list())?.listSize();
            if len >= 0 { Ok(()) } else { Err(format!("lists of {len} values")) }
        }
        Type::FloatingPoint => {
            variant(known(field.type_as_floating_point())?.precision(), fb::Precision::ENUM_VALUES)
        }
        Type::Date => variant(known(field.type_as_date())?.unit(), fb::DateUnit::ENUM_VALUES),
        Type::Time => {
            let time = known(field.type_as_time())?;
            let (bits, unit) = (time.bitWidth(), time.unit());
            match (bits, unit) {
                (32, fb::TimeUnit::SECOND | fb::TimeUnit::MILLISECOND)
                | (64, fb::TimeUnit::MICROSECOND | fb::TimeUnit::NANOSECOND) => Ok(()),
                _ => Err(format!("{bits} bits for a time in {unit:?}")),
            }
        }
        Type::Timestamp => {
            variant(known(field.type_as_timestamp())?.unit(), fb::TimeUnit::ENUM_VALUES)
        }
        Type::Duration => {
            variant(known(field.type_as_duration())?.unit(), fb::TimeUnit::ENUM_VALUES)
        }
        Type::Interval => {
            variant(known(field.type_as_interval())?.unit(), fb::IntervalUnit::ENUM_VALUES)
        }
        Type::Map => known(field.type_as_map()).map(drop),
        Type::Decimal => {
            let decimal = known(field.type_as_decimal())?;
            let (bits, precision, scale) =
                (decimal.bitWidth(), decimal.precision(), decimal.scale());
            let fits = u8::try_from(precision).is_ok() && i8::try_from(scale).is_ok();
            match bits {
                32 | 64 | 128 | 256 if fits => Ok(()),
                _ => Err(format!("{bits} bits, {precision} digits, scale {scale}")),
            }
        }
        Type::Union => check_union(field, known(field.type_as_union())?),
        other => Err(format!("an unknown type with number {}", other.0)),
    }
}

fn check_union(field: fb::Field<'_>, union: fb::Union<'_>) -> Result<(), String> {
    if !fb::UnionMode::ENUM_VALUES.contains(&union.mode()) {
        return Err(format!("the unknown mode {:?}", union.mode()));
    }
    let fields = field.children().map_or(0, |children| children.len());
    if fields > UNION_FIELDS {
        return Err(format!("{fields} fields, {UNION_FIELDS} expected at most"));
    }
    let Some(ids) = union.typeIds() else { return Ok(()) };
    if ids.len() != fields {
        return Err(format!("{} type ids for {fields} fields", ids.len()));
    }
    let mut seen = [false; UNION_FIELDS];
    for id in ids {
        let at = usize::try_from(id).ok().filter(|at| *at < UNION_FIELDS);
        match at.and_then(|at| seen.get_mut(at)) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(format!("type id {id}, ids from 0 to 127 expected, each once")),
        }
    }
    Ok(())
}
