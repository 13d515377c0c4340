//! Which Arrow types a column may have.
//!
//! Types come from metadata that anyone may have written, and arrow-rs panics
//! when it makes arrays of some that its own constructors would refuse.

use arrow_schema::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION,
    DECIMAL256_MAX_PRECISION, DataType, TimeUnit,
};

use crate::error::{Error, Result};

/// Deepest nesting of types: what readers of Arrow's schema messages accept.
const MAX_DEPTH: usize = 60;

/// Checks that arrays of a type can exist.
pub(crate) fn check(data_type: &DataType) -> Result<()> {
    match flaw(data_type) {
        None => Ok(()),
        Some(flaw) => Err(Error::not_lanepack("an Arrow type that arrays can have", flaw)),
    }
}

/// Why there are no arrays of a type, if that is so.
pub(crate) fn flaw(data_type: &DataType) -> Option<String> {
    let what = check_at(data_type, 1).err()?;
    Some(format!("{what} in {}", brief(data_type)))
}

fn check_at(data_type: &DataType, depth: usize) -> Result<(), String> {
    use DataType as T;
    if depth > MAX_DEPTH {
        return Err(format!("types nested deeper than {MAX_DEPTH} levels"));
    }
    let width = |width: i32| if width < 0 { Err(format!("width {width}")) } else { Ok(()) };
    let precision = |precision: u8, most: u8| match precision {
        0 => Err("a decimal of no digits".to_owned()),
        precision if precision > most => Err(format!("a decimal of {precision} digits")),
        _ => Ok(()),
    };
    match data_type {
        T::FixedSizeBinary(bytes) => width(*bytes),
        T::FixedSizeList(item, len) => {
            width(*len)?;
            check_at(item.data_type(), depth + 1)
        }
        T::Time32(TimeUnit::Second | TimeUnit::Millisecond)
        | T::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond) => Ok(()),
        T::Time32(unit) | T::Time64(unit) => Err(format!("a time of {unit:?}")),
        T::Decimal32(digits, _) => precision(*digits, DECIMAL32_MAX_PRECISION),
        T::Decimal64(digits, _) => precision(*digits, DECIMAL64_MAX_PRECISION),
        T::Decimal128(digits, _) => precision(*digits, DECIMAL128_MAX_PRECISION),
        T::Decimal256(digits, _) => precision(*digits, DECIMAL256_MAX_PRECISION),
        T::Dictionary(key, value) => {
            if !key.is_dictionary_key_type() {
                return Err(format!("dictionary keys of type {}", brief(key)));
            }
            check_at(value, depth + 1)
        }
        T::RunEndEncoded(ends, values) => {
            if !ends.data_type().is_run_ends_type() {
                return Err(format!("run ends of type {}", brief(ends.data_type())));
            }
            check_at(values.data_type(), depth + 1)
        }
        T::Map(entries, _) => match entries.data_type() {
            T::Struct(fields) if fields.len() == 2 => check_at(entries.data_type(), depth + 1),
            other => Err(format!("map entries of type {}", brief(other))),
        },
        T::Union(fields, _) => {
            if fields.is_empty() {
                return Err("a union of nothing".to_owned());
            }
            fields.iter().try_for_each(|(_, field)| check_at(field.data_type(), depth + 1))
        }
        T::Struct(fields) => {
            fields.iter().try_for_each(|field| check_at(field.data_type(), depth + 1))
        }
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
            check_at(item.data_type(), depth + 1)
        }
        _ => Ok(()),
    }
}

/// The start of a type's name: a hostile one may be long, or deep.
fn brief(data_type: &DataType) -> String {
    if data_type.is_nested() {
        return format!("{:.40}", format!("{data_type:?}").split('(').next().unwrap_or_default());
    }
    data_type.to_string()
}

/// Parses the display of a type, unless its brackets nest so deeply that the
/// parser, which recurses, could run out of stack.
pub(crate) fn parse(text: &str) -> Result<DataType, String> {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest > 2 * MAX_DEPTH {
        return Err(format!("brackets nested {deepest} times"));
    }
    text.parse().map_err(|error: arrow_schema::ArrowError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{Field, UnionFields, UnionMode};
    use std::sync::Arc;

    #[test]
    fn accepts_ordinary_types() {
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        for data_type in [
            DataType::FixedSizeBinary(0),
            DataType::FixedSizeList(item.clone(), 3),
            DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8)),
            DataType::Decimal256(76, -5),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::LargeListView(item),
        ] {
            check(&data_type).unwrap();
            assert_eq!(parse(&data_type.to_string()).as_ref(), Ok(&data_type));
        }
    }

    #[test]
    fn rejects_types_that_no_array_has() {
        let union = UnionFields::empty();
        for data_type in [
            DataType::FixedSizeBinary(-1),
            DataType::Time32(TimeUnit::Nanosecond),
            DataType::Decimal128(39, 0),
            DataType::Dictionary(Box::new(DataType::Utf8), Box::new(DataType::Utf8)),
            DataType::Union(union, UnionMode::Sparse),
            DataType::Map(Arc::new(Field::new("m", DataType::Int8, true)), false),
        ] {
            assert!(check(&data_type).is_err(), "{data_type:?}");
        }
    }

    #[test]
    fn rejects_deep_nesting_without_recursing_into_it() {
        assert!(parse(&"List(".repeat(100_000)).is_err());
        let nest = |depth: usize| {
            (0..depth).fold(DataType::Int8, |inner, _| {
                DataType::List(Arc::new(Field::new("item", inner, true)))
            })
        };
        assert!(check(&nest(MAX_DEPTH - 1)).is_ok());
        assert!(check(&nest(MAX_DEPTH)).is_err());
    }
}
