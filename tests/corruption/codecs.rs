//! Rules of the encodings of numbers: plain, constant, ffor, alp, limbs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::*;
use arrow_schema::DataType;
use lanepack::{CompressedColumn, Encoding};

use super::common::{Nulls, Shape, array_of};
use super::damage::{Image, Node, Read, largest_allocation};

const F64: bool = true;

fn of(data_type: &DataType, encoding: Encoding) -> Image {
    let small = (0..1500).map(|i| i % 20);
    let array: ArrayRef = match data_type {
        DataType::Int8 => Arc::new(Int8Array::from_iter_values(small.map(|i| i as i8))),
        DataType::Int16 => Arc::new(Int16Array::from_iter_values(small)),
        DataType::UInt16 => Arc::new(UInt16Array::from_iter_values(small.map(|i| i as u16))),
        DataType::UInt64 => Arc::new(UInt64Array::from_iter_values(small.map(|i| i as u64))),
        other => array_of(other, 1500, Shape::Narrow, Nulls::None),
    };
    Image::with(&array, encoding)
}

/// 1,500 decimals; with exceptions these are rows 3, 700 and 1400. Buffers:
/// packed, vectors (2 scales, 2 places, 2 locators), exceptions.
fn floats(double: bool, exceptions: bool) -> Image {
    let value = |i: i32| f64::from(i % 500) / 4.0;
    let exception = |i: i32| exceptions && matches!(i, 3 | 700 | 1400);
    let values = (0..1500).map(|i| if exception(i) { f64::NAN } else { value(i) });
    let array: ArrayRef = if double {
        Arc::new(Float64Array::from_iter_values(values))
    } else {
        Arc::new(Float32Array::from_iter_values(values.map(|value| value as f32)))
    };
    let image = Image::with(&array, Encoding::Alp);
    let count = if exceptions { 3 } else { 0 };
    assert_eq!(image.tree().nodes[0].parameters[0], count);
    image
}

/// Where scales and locators begin in the vectors' buffer.
fn parts(double: bool) -> (usize, usize) {
    if double { (0, 24) } else { (0, 16) }
}

/// Changes a scale of a chunk of floats.
fn with_scale(double: bool, change: impl Fn(u64) -> u64) -> Image {
    let mut image = floats(double, false);
    image.change(|tree| {
        let size = if double { 8 } else { 4 };
        let scale = &mut tree.buffers[1][parts(double).0..][..size];
        let mut word = [0; 8];
        word[..size].copy_from_slice(scale);
        let word = change(u64::from_le_bytes(word)).to_le_bytes();
        scale.copy_from_slice(&word[..size]);
    });
    image
}

/// Changes locators of a chunk of doubles with exceptions.
fn with_locators(change: impl Fn(&mut [u32; 2])) -> Image {
    let mut image = floats(F64, true);
    image.change(|tree| {
        let mut locators = [tree.word(1, 6), tree.word(1, 7)];
        assert_eq!(locators.map(|locator| locator & 0x7ff), [2, 1]);
        change(&mut locators);
        tree.set_word(1, 6, locators[0]);
        tree.set_word(1, 7, locators[1]);
    });
    image
}

#[test]
fn plain_rejects_buffers_of_another_size() {
    for data_type in [DataType::Boolean, DataType::Int8, DataType::Float32, DataType::Int64] {
        for (extra, name) in [(true, "longer"), (false, "shorter")] {
            let mut image = of(&data_type, Encoding::Plain);
            image.change(|tree| match extra {
                true => tree.buffers[0].push(0),
                false => drop(tree.buffers[0].pop()),
            });
            assert!(image.error().contains("bytes for 1500 values"), "{data_type} {name}");
        }
    }
    for data_type in [DataType::Decimal128(38, 4), DataType::Decimal256(76, 10)] {
        let mut image = of(&data_type, Encoding::Plain);
        image.change(|tree| tree.buffers[0].truncate(16));
        image.rejects("16 bytes for 1500 values");
    }
}

#[test]
fn plain_rejects_another_shape() {
    let mut image = of(&DataType::Int64, Encoding::Plain);
    image.change(|tree| {
        tree.nodes[0].buffers = 2;
        tree.buffers.push(Vec::new());
    });
    image.rejects("plain node with 0 children and 2 buffers");
    let mut image = of(&DataType::Int64, Encoding::Plain);
    image.change(|tree| {
        tree.nodes[0].children = 1;
        tree.nodes.push(Node { encoding: 1, physical: 4, len: 1500, ..Node::default() });
    });
    image.rejects("plain node with 1 children");
}

#[test]
fn plain_children_of_absurd_length_are_rejected() {
    for len in [1 << 32, 1 << 58, 1 << 61, u64::MAX] {
        let mut image = of(&DataType::Decimal128(38, 4), Encoding::Limbs);
        image.change(|tree| tree.nodes[1].len = len);
        image.error();
    }
}

#[test]
fn constant_rejects_values_wider_than_the_type() {
    for (physical, data_type, value) in [
        (0, DataType::Boolean, 2_u64),
        (1, DataType::Int8, 256),
        (1, DataType::Int8, u64::MAX),
        (6, DataType::UInt16, 1 << 16),
        (9, DataType::Float32, 1 << 32),
    ] {
        let array = array_of(&data_type, 1500, Shape::Constant, Nulls::None);
        let mut image = Image::with(&array, Encoding::Constant);
        assert_eq!(image.tree().nodes[0].physical, physical);
        image.change(|tree| tree.nodes[0].parameters[0] = value);
        image.rejects("does not fit");
    }
}

#[test]
fn constant_rejects_types_it_has_no_value_for() {
    for data_type in [DataType::Decimal128(38, 4), DataType::Decimal256(76, 10)] {
        let mut image = of(&data_type, Encoding::Plain);
        image.change(|tree| {
            (tree.nodes[0].encoding, tree.nodes[0].buffers) = (1, 0);
            tree.buffers.clear();
        });
        image.rejects("where it does not fit");
    }
}

#[test]
fn constant_rejects_buffers_and_children() {
    let array = array_of(&DataType::Int64, 1500, Shape::Constant, Nulls::None);
    let mut image = Image::with(&array, Encoding::Constant);
    image.change(|tree| {
        tree.nodes[0].buffers = 1;
        tree.buffers.push(vec![1; 8]);
    });
    image.rejects("constant node with 0 children and 1 buffers");
}

#[test]
fn ffor_rejects_widths_above_the_type() {
    for (data_type, bits) in
        [(DataType::Int8, 8), (DataType::UInt16, 16), (DataType::Int32, 32), (DataType::UInt64, 64)]
    {
        for width in [bits + 1, 255] {
            // Places lie behind the bases of two vectors.
            let place = (2 * bits as usize / 8).div_ceil(4);
            let mut image = of(&data_type, Encoding::Ffor);
            image.change(|tree| tree.set_word(1, place, width << 24));
            image.rejects(&format!("vector 0: width {width}, at most {bits} is allowed"));
        }
    }
}

#[test]
fn ffor_rejects_places_that_do_not_follow() {
    for units in [0, 1, 0xff_ffff] {
        let mut image = of(&DataType::Int64, Encoding::Ffor);
        image.change(|tree| {
            let width = tree.word(1, 5) >> 24;
            tree.set_word(1, 5, units | width << 24);
        });
        image.rejects("vector 1: packed data at unit");
    }
    let mut image = of(&DataType::Int64, Encoding::Ffor);
    image.change(|tree| {
        let place = tree.word(1, 4);
        tree.set_word(1, 4, place | 1);
    });
    image.rejects("vector 0: packed data at unit 1, 0 expected");
}

#[test]
fn ffor_rejects_packed_data_of_another_length() {
    let changes: [fn(&mut Vec<u8>); 4] = [
        |packed| packed.extend([0; 128]),
        |packed| packed.truncate(packed.len() - 128),
        |packed| packed.truncate(packed.len() - 1),
        Vec::clear,
    ];
    for change in changes {
        let mut image = of(&DataType::Int64, Encoding::Ffor);
        image.change(|tree| change(&mut tree.buffers[0]));
        image.error();
    }
    // A narrower last vector leaves packed data that are nobody's.
    let mut image = of(&DataType::Int64, Encoding::Ffor);
    image.change(|tree| {
        let place = tree.word(1, 5);
        tree.set_word(1, 5, place - (1 << 24));
    });
    image.rejects("packed buffer of");
}

#[test]
fn ffor_rejects_parameters_of_another_length() {
    for data_type in [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64] {
        let mut image = of(&data_type, Encoding::Ffor);
        image.change(|tree| tree.buffers[1].push(0));
        image.rejects("bytes of vector parameters");
        let mut image = of(&data_type, Encoding::Ffor);
        image.change(|tree| tree.buffers[1].clear());
        image.rejects("0 bytes of vector parameters");
    }
}

#[test]
fn ffor_rejects_what_is_no_integer() {
    for physical in [0, 9, 10, 11, 12, 13, 14] {
        let mut image = of(&DataType::Int64, Encoding::Ffor);
        image.change(|tree| tree.nodes[0].physical = physical);
        image.error();
    }
}

#[test]
fn alp_rejects_widths_above_the_mantissa() {
    for (double, most) in [(true, 52), (false, 23)] {
        for width in [most + 1, 64, 255] {
            let place = if double { 4 } else { 2 };
            let mut image = floats(double, false);
            image.change(|tree| tree.set_word(1, place, width << 24));
            image.rejects(&format!("vector 0: width {width}, at most {most} is allowed"));
        }
    }
}

#[test]
fn alp_rejects_places_that_do_not_follow() {
    for double in [true, false] {
        let mut image = floats(double, false);
        image.change(|tree| {
            let last = if double { 5 } else { 3 };
            let place = tree.word(1, last);
            tree.set_word(1, last, place + 1);
        });
        image.rejects("vector 1: packed data at unit");
        let mut image = floats(double, false);
        image.change(|tree| tree.buffers[0].extend([0; 128]));
        image.rejects("packed buffer of");
    }
}

#[test]
fn alp_rejects_exponents_out_of_range() {
    // e above 18 (10), and f above e.
    for scale in [19 << 5, 31 << 5, 2 << 5 | 3, 2 << 5 | 15, 31] {
        with_scale(true, |word| word & !0x3ff | scale).rejects("exponents or base out of range");
    }
    // 15 instead of f divides, by 10 at least.
    for scale in [11 << 4, 15 << 4, 2 << 4 | 3, 15, 11 << 4 | 15, 15 << 4 | 15] {
        with_scale(false, |word| word & !0xff | scale).rejects("exponents or base out of range");
    }
    for e in [1, 10] {
        with_scale(false, |word| word & !0xff | e << 4 | 15).read().unwrap();
    }
}

#[test]
fn alp_rejects_bases_beyond_the_mantissa() {
    for base in [(1_i64 << 51) + 1, -(1 << 51) - 1, (1 << 53) - 1, -(1 << 53)] {
        with_scale(true, |word| word & 0x3ff | (base << 10) as u64).rejects("out of range");
    }
    for base in [(1_i64 << 22) + 1, -(1 << 22) - 1, (1 << 23) - 1, -(1 << 23)] {
        let base = (base << 8) as u64 & 0xffff_ffff;
        with_scale(false, |word| word & 0xff | base).rejects("out of range");
    }
    // The bounds themselves are values like any other.
    for base in [1_i64 << 51, -(1 << 51)] {
        with_scale(true, |word| word & 0x3ff | (base << 10) as u64).read().unwrap();
    }
}

#[test]
fn alp_rejects_parameters_of_another_length() {
    for (double, exceptions) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut image = floats(double, exceptions);
        image.change(|tree| tree.buffers[1].push(0));
        image.rejects("bytes of vector parameters");
        // Locators there are only where exceptions are declared.
        let mut image = floats(double, exceptions);
        image.change(|tree| tree.nodes[0].parameters[0] ^= 3);
        image.rejects("bytes of vector parameters");
    }
}

#[test]
fn alp_rejects_counts_of_exceptions_that_disagree() {
    for count in [1, 2, 4, u64::MAX] {
        let mut image = floats(F64, true);
        image.change(|tree| tree.nodes[0].parameters[0] = count);
        image.rejects("the vectors count 3");
    }
    with_locators(|locators| locators[1] += 1).rejects("the vectors count 4");
    with_locators(|locators| locators.swap(0, 1)).error();
}

#[test]
fn alp_rejects_blocks_that_do_not_follow() {
    with_locators(|locators| locators[1] += 1 << 11).rejects("vector 1: exceptions at unit");
    with_locators(|locators| locators[1] &= 0x7ff).rejects("vector 1: exceptions at unit 0");
    with_locators(|locators| locators[0] |= 0xffff_f800).rejects("vector 0: exceptions at unit");
    let mut image = with_locators(|locators| locators[0] = 1 << 11);
    image.change(|tree| tree.nodes[0].parameters[0] = 1);
    image.rejects("vector 0 has an offset but no exceptions");
}

#[test]
fn alp_rejects_more_exceptions_than_a_vector_has_values() {
    for count in [1025, 2047] {
        let mut image = with_locators(|locators| locators[0] = count);
        image.change(|tree| tree.nodes[0].parameters[0] = u64::from(count) + 1);
        image.rejects("exceptions in a vector of 1024 values");
    }
    let mut image = with_locators(|locators| locators[0] = 1024);
    image.change(|tree| tree.nodes[0].parameters[0] = 1025);
    image.rejects("1024 exceptions in");
}

/// Changes the slots of the first block, which has two exceptions.
fn with_slots(double: bool, change: impl Fn(&mut [u16; 2])) -> Image {
    let mut image = floats(double, true);
    image.change(|tree| {
        let at = if double { 16 } else { 8 };
        let bytes = &mut tree.buffers[2][at..at + 4];
        let mut slots = [0, 2].map(|i| u16::from_le_bytes([bytes[i], bytes[i + 1]]));
        assert!(slots[0] < slots[1], "{slots:?}");
        change(&mut slots);
        bytes.copy_from_slice(&slots.map(u16::to_le_bytes).concat());
    });
    image
}

#[test]
fn alp_rejects_exceptions_past_the_vector() {
    for double in [F64, false] {
        for slot in [1024, 1025, u16::MAX] {
            let image = with_slots(double, |slots| slots[1] = slot);
            image.rejects(&format!("exception in slot {slot} of 1024"));
        }
    }
}

#[test]
fn alp_rejects_exceptions_that_do_not_ascend() {
    with_slots(F64, |_| ()).read().unwrap();
    with_slots(F64, |slots| slots[1] = slots[0]).rejects("behind slot");
    with_slots(F64, |slots| slots.swap(0, 1)).rejects("behind slot");
    with_slots(false, |slots| slots[0] = 1023).rejects("behind slot 1023");
}

#[test]
fn alp_rejects_blocks_cut_short_or_too_long() {
    let len = floats(F64, true).tree().buffers[2].len();
    for cut in 0..len {
        let mut image = floats(F64, true);
        image.change(|tree| tree.buffers[2].truncate(cut));
        image.rejects("exceptions");
    }
    let mut image = floats(F64, true);
    image.change(|tree| tree.buffers[2].extend([0; 8]));
    image.rejects("bytes of exceptions");
    let mut image = floats(F64, false);
    image.change(|tree| tree.buffers[2].extend([0; 8]));
    image.rejects("8 bytes of exceptions, 0 expected");
}

#[test]
fn alp_rejects_what_is_no_float() {
    for physical in [0, 3, 4, 7, 8, 11, 13, 14] {
        let mut image = floats(F64, true);
        image.change(|tree| tree.nodes[0].physical = physical);
        image.error();
    }
    let mut image = floats(F64, true);
    image.change(|tree| tree.nodes[0].physical = 9);
    image.error();
}

#[test]
fn alp_reads_any_packed_bits_as_some_float() {
    for double in [true, false] {
        let mut image = floats(double, true);
        image.change(|tree| tree.buffers[0].fill(0xff));
        let array = image.read().unwrap();
        if double {
            assert!(array.as_primitive::<Float64Type>().value(3).is_nan());
        }
    }
}

#[test]
fn limbs_rejects_none_and_too_many() {
    for (data_type, most) in [(DataType::Decimal128(38, 4), 2), (DataType::Decimal256(76, 1), 4)] {
        for count in [0, most + 1] {
            let mut image = of(&data_type, Encoding::Limbs);
            image.change(|tree| {
                let limb = Node { encoding: 1, physical: 4, len: 1500, ..Node::default() };
                tree.nodes[0].children = count;
                tree.nodes.truncate(1);
                tree.nodes.extend(vec![limb; usize::from(count)]);
                tree.buffers.clear();
            });
            image.rejects(&format!("{count} limbs, 1 to {most} are allowed"));
        }
    }
}

#[test]
fn limbs_rejects_children_of_another_type_or_length() {
    let changes: [fn(&mut Node); 4] = [
        |limb| limb.len += 1,
        |limb| limb.len = 0,
        |limb| limb.physical = 8,
        |limb| limb.physical = 3,
    ];
    for change in changes {
        let mut image = of(&DataType::Decimal128(38, 4), Encoding::Limbs);
        image.change(|tree| {
            tree.nodes.truncate(2);
            tree.nodes[0].children = 1;
            tree.nodes[1] = Node { encoding: 1, physical: 4, len: 1500, ..Node::default() };
            tree.buffers.clear();
            change(&mut tree.nodes[1]);
        });
        image.rejects("limb 0 holds");
    }
}

#[test]
fn limbs_rejects_what_is_no_wide_integer() {
    for physical in [0, 4, 8, 10, 13, 14] {
        let mut image = of(&DataType::Decimal128(38, 4), Encoding::Limbs);
        image.change(|tree| tree.nodes[0].physical = physical);
        image.rejects("where it does not fit");
    }
}

#[test]
fn constants_of_strings_end_at_1024_bytes_and_128_mib() {
    let array = Arc::new(StringArray::from(vec!["x"; 1000])) as ArrayRef;
    let sized = |rows: u32, len: usize| {
        let mut image = Image::with(&array, Encoding::Constant);
        image.rows = rows;
        image.change(|tree| {
            (tree.rows, tree.nodes[0].len) = (rows, rows.into());
            tree.buffers[0] = vec![b'x'; len];
        });
        image
    };
    sized(1000, 1025).rejects("constant of 1025 bytes, at most 1024 are allowed");
    sized(1000, 1 << 20).rejects("at most 1024 are allowed");
    sized(1000, 1024).read().unwrap();
    let whole = sized(131_072, 1024).open().unwrap();
    let (array, largest) = largest_allocation(|| CompressedColumn::decompress(&whole));
    assert_eq!(array.unwrap().len(), 131_072);
    assert!(largest <= 128 << 20, "an allocation of {largest} bytes");
}
