//! Arrays of random nested types: slices of longer ones, with values under their nulls,
//! elements that no list has, views in any order, dictionaries with values that no key uses.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, UnionFields, UnionMode};

use super::common::{Nulls, Rng, Shape, array_of, encoded_types};

fn pick<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize].clone()
}

/// A type nested at most so deep, with a name and nullability for each part.
pub fn data_type(rng: &mut Rng, depth: usize) -> DataType {
    let nested = depth > 0 && rng.below(4) > 0;
    if !nested {
        return match rng.below(12) {
            0 => DataType::Null,
            1 => DataType::Interval(IntervalUnit::MonthDayNano),
            _ => pick(rng, &encoded_types()),
        };
    }
    let mut field = |name: &str| Arc::new(field(rng, name, depth - 1));
    let inner = [field("first"), field("second"), field("item")];
    let item = inner[2].clone();
    match rng.below(11) {
        0 | 1 => {
            let count = rng.below(3) as usize;
            DataType::Struct(Fields::from(inner[..count].to_vec()))
        }
        2 => DataType::Struct(Fields::from(inner.to_vec())),
        3 => DataType::List(item),
        4 => DataType::LargeList(item),
        5 => DataType::ListView(item),
        6 => DataType::LargeListView(item),
        7 => DataType::FixedSizeList(item, rng.below(4) as i32),
        8 => {
            let key = Field::new("k", pick(rng, &[DataType::Utf8, DataType::Int64]), false);
            let entries = Fields::from(vec![Arc::new(key), item]);
            let entries = Field::new("entries", DataType::Struct(entries), false);
            DataType::Map(Arc::new(entries), rng.below(2) == 0)
        }
        9 => {
            use DataType::*;
            let keys = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
            let value = match item.data_type() {
                // Schemas of Arrow IPC know no dictionary of a dictionary.
                Dictionary(..) => Utf8,
                other => pick(rng, &[other.clone(), other.clone(), Utf8View, Int64]),
            };
            Dictionary(Box::new(pick(rng, &keys)), Box::new(value))
        }
        _ if rng.below(2) == 0 => {
            let value = pick(rng, &encoded_types());
            let ends = pick(rng, &[DataType::Int32, DataType::Int64]);
            DataType::RunEndEncoded(
                Arc::new(Field::new("run_ends", ends, false)),
                Arc::new(Field::new("values", value, true)),
            )
        }
        _ => {
            let fields =
                vec![Field::new("i", DataType::Int32, true), Field::new("s", DataType::Utf8, true)];
            let mode = pick(rng, &[UnionMode::Sparse, UnionMode::Dense]);
            DataType::Union(UnionFields::try_new(vec![3, 5], fields).unwrap(), mode)
        }
    }
}

fn field(rng: &mut Rng, name: &str, depth: usize) -> Field {
    let data_type = data_type(rng, depth);
    // Arrow has no nulls to mask in these.
    let has_bitmap = |data_type: &DataType| {
        !matches!(data_type, DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..))
    };
    let always = match &data_type {
        DataType::Dictionary(_, values) => !has_bitmap(values),
        other => !has_bitmap(other),
    };
    let metadata = [("note".to_owned(), format!("{}", rng.below(10)))];
    Field::new(name, data_type, always || rng.below(3) > 0).with_metadata(metadata.into())
}

/// Nulls of so many rows, or none.
fn nulls(rng: &mut Rng, len: usize) -> Option<NullBuffer> {
    match rng.below(7) {
        0 => pick(rng, &Nulls::ALL).bitmap(len),
        1 => Some(NullBuffer::new(BooleanBuffer::from_iter((0..len).map(|_| rng.below(2) == 0)))),
        2 => Some(NullBuffer::new(BooleanBuffer::from_iter((0..len).map(|_| rng.below(20) > 0)))),
        _ => None,
    }
}

/// An array of a type, a slice of a longer one.
pub fn array(rng: &mut Rng, data_type: &DataType, len: usize) -> ArrayRef {
    let (before, behind) = (rng.below(9) as usize, rng.below(9) as usize);
    let whole = before + len + behind;
    let nulls = nulls(rng, whole);
    filled(rng, data_type, whole, nulls).slice(before, len)
}

/// An array of a field inside of rows that `above` may make null.
fn child(rng: &mut Rng, field: &Field, len: usize, above: Option<&NullBuffer>) -> ArrayData {
    let nulls = match field.is_nullable() {
        true => nulls(rng, len),
        // Nulls that are null above as well are no nulls of the field.
        false => above.filter(|_| rng.below(2) == 0).cloned(),
    };
    match field.data_type() {
        // A key of a null is one, too.
        DataType::Dictionary(keys, values) if !field.is_nullable() => {
            dictionary(rng, keys, values, len, nulls, false).to_data()
        }
        data_type => filled(rng, data_type, len, nulls).to_data(),
    }
}

/// An array with these nulls, if its type may have some.
fn filled(rng: &mut Rng, data_type: &DataType, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let builder = ArrayDataBuilder::new(data_type.clone()).len(len).nulls(nulls.clone());
    let build = |builder: ArrayDataBuilder| make_array(builder.build().unwrap());
    match data_type {
        DataType::Null => Arc::new(NullArray::new(len)),
        DataType::Struct(fields) => {
            let fields =
                fields.iter().map(|field| child(rng, field, len, nulls.as_ref())).collect();
            build(builder.child_data(fields))
        }
        DataType::List(item) | DataType::Map(item, _) => {
            let (offsets, elements) = offsets(rng, len);
            let offsets: Vec<i32> = offsets.into_iter().map(|offset| offset as i32).collect();
            let elements = child(rng, item, elements, None);
            build(builder.add_buffer(Buffer::from_vec(offsets)).add_child_data(elements))
        }
        DataType::LargeList(item) => {
            let (offsets, elements) = offsets(rng, len);
            let elements = child(rng, item, elements, None);
            build(builder.add_buffer(Buffer::from_vec(offsets)).add_child_data(elements))
        }
        DataType::ListView(item) => {
            let (starts, lengths, elements) = views(rng, len);
            let narrow = |words: Vec<i64>| words.into_iter().map(|word| word as i32).collect();
            let [starts, lengths]: [Vec<i32>; 2] = [narrow(starts), narrow(lengths)];
            let elements = child(rng, item, elements, None);
            let builder = builder.add_buffer(Buffer::from_vec(starts));
            build(builder.add_buffer(Buffer::from_vec(lengths)).add_child_data(elements))
        }
        DataType::LargeListView(item) => {
            let (starts, lengths, elements) = views(rng, len);
            let elements = child(rng, item, elements, None);
            let builder = builder.add_buffer(Buffer::from_vec(starts));
            build(builder.add_buffer(Buffer::from_vec(lengths)).add_child_data(elements))
        }
        DataType::FixedSizeList(item, width) => {
            let above = nulls.as_ref().map(|nulls| nulls.expand(*width as usize));
            let elements = child(rng, item, len * *width as usize, above.as_ref());
            build(builder.add_child_data(elements))
        }
        DataType::Dictionary(keys, values) => dictionary(rng, keys, values, len, nulls, true),
        DataType::RunEndEncoded(ends, values) => runs(rng, data_type, ends, values, len),
        DataType::Union(fields, mode) => union(rng, fields, *mode, len),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let mut value = |_| IntervalMonthDayNano::new(rng.below(9) as i32, 2, 3);
            let values: Vec<IntervalMonthDayNano> = (0..len).map(&mut value).collect();
            Arc::new(IntervalMonthDayNanoArray::new(values.into(), nulls))
        }
        leaf => {
            let values = array_of(leaf, len, pick(rng, &Shape::ALL), Nulls::None);
            build(values.to_data().into_builder().nulls(nulls))
        }
    }
}

/// Offsets that begin anywhere, and the number of elements.
fn offsets(rng: &mut Rng, len: usize) -> (Vec<i64>, usize) {
    let mut end = rng.below(5) as i64;
    let mut offsets = vec![end];
    let most = 1 + rng.below(4);
    for _ in 0..len {
        end += rng.below(most) as i64;
        offsets.push(end);
    }
    (offsets, end as usize + rng.below(5) as usize)
}

/// Starts in any order, lengths, and the number of elements.
fn views(rng: &mut Rng, len: usize) -> (Vec<i64>, Vec<i64>, usize) {
    let elements = 5 + len;
    let starts: Vec<i64> = (0..len).map(|_| rng.below(1 + len as u64) as i64).collect();
    let lengths = (0..len).map(|_| rng.below(3) as i64).collect();
    (starts, lengths, elements)
}

fn dictionary(
    rng: &mut Rng,
    key_type: &DataType,
    value_type: &DataType,
    len: usize,
    nulls: Option<NullBuffer>,
    nullable: bool,
) -> ArrayRef {
    let count = 1 + rng.below(100);
    let values = match nullable {
        true => array(rng, value_type, count as usize),
        false => filled(rng, value_type, count as usize, None),
    };
    macro_rules! keyed {
        ($key:ty) => {{
            let key = |_| rng.below(count) as <$key as ArrowPrimitiveType>::Native;
            let keys: Vec<<$key as ArrowPrimitiveType>::Native> = (0..len).map(key).collect();
            let keys = PrimitiveArray::<$key>::new(keys.into(), nulls);
            Arc::new(DictionaryArray::new(keys, values)) as ArrayRef
        }};
    }
    downcast_integer! {
        key_type => (keyed),
        _ => unreachable!()
    }
}

fn runs(rng: &mut Rng, data_type: &DataType, ends: &Field, values: &Field, len: usize) -> ArrayRef {
    let mut found: Vec<i64> = Vec::new();
    while found.last().copied().unwrap_or(0) < len as i64 {
        found.push(found.last().copied().unwrap_or(0) + 1 + rng.below(6) as i64);
    }
    let values = array(rng, values.data_type(), found.len()).to_data();
    let found: ArrayRef = match ends.data_type() {
        DataType::Int32 => {
            Arc::new(Int32Array::from_iter_values(found.iter().map(|end| *end as i32)))
        }
        _ => Arc::new(Int64Array::from(found)),
    };
    let builder = ArrayDataBuilder::new(data_type.clone()).len(len);
    let builder = builder.add_child_data(found.to_data()).add_child_data(values);
    make_array(builder.build().unwrap())
}

fn union(rng: &mut Rng, fields: &UnionFields, mode: UnionMode, len: usize) -> ArrayRef {
    let ids: Vec<i8> = (0..len).map(|_| pick(rng, &[3, 5])).collect();
    let children: Vec<ArrayRef> =
        fields.iter().map(|(_, field)| array(rng, field.data_type(), len)).collect();
    let offsets = (mode == UnionMode::Dense).then(|| {
        let offsets: Vec<i32> = (0..len as i32).collect();
        offsets.into()
    });
    Arc::new(UnionArray::try_new(fields.clone(), ids.into(), offsets, children).unwrap())
}
