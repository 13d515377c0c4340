//! Rules of the encoding of floats that are no decimals: alp_rd.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::*;
use lanepack::Encoding;

use super::common::Rng;
use super::damage::{Image, Read};

const F64: bool = true;

/// 2,000 values of two left parts; with exceptions these are rows 3, 700 and 1400.
/// Buffers: packed, dictionary (8 left parts, 2 locators), exceptions.
fn floats(double: bool, exceptions: bool) -> Image {
    let mut rng = Rng(2000);
    let mut value = |row: usize| match row {
        3 | 700 | 1400 if exceptions => f64::NAN,
        // Of bits enough that neither type has zeros at the end.
        _ => [1.0, -2.0][row % 2] * (1.0 + (rng.below(1 << 45) | 1) as f64 / 2_f64.powi(52)),
    };
    let array: ArrayRef = if double {
        Arc::new(Float64Array::from_iter_values((0..2000).map(value)))
    } else {
        let short =
            |value: f64| f32::from_bits((value as f32).to_bits() | value.to_bits() as u32 >> 17);
        Arc::new(Float32Array::from_iter_values((0..2000).map(|row| short(value(row)))))
    };
    let image = Image::with(&array, Encoding::AlpRd);
    let count = if exceptions { 3 } else { 0 };
    assert_eq!(image.tree().nodes[0].parameters[0], count);
    assert_eq!(image.tree().nodes[0].parameters[1] >> 8, 2, "two left parts, no zeros");
    image
}

/// Changes the parameter that says how values are cut.
fn with_cut(double: bool, change: impl Fn(u64) -> u64) -> Image {
    let mut image = floats(double, true);
    image.change(|tree| {
        let cut = &mut tree.nodes[0].parameters[1];
        *cut = change(*cut);
    });
    image
}

/// Changes the dictionary, of which two left parts are used.
fn with_dictionary(change: impl Fn(&mut [u16; 8])) -> Image {
    let mut image = floats(F64, true);
    image.change(|tree| {
        let bytes = &mut tree.buffers[1][..16];
        let mut dictionary =
            std::array::from_fn(|at| u16::from_le_bytes([bytes[at * 2], bytes[at * 2 + 1]]));
        assert!(dictionary[0] != dictionary[1] && dictionary[2..] == [0; 6], "{dictionary:?}");
        change(&mut dictionary);
        bytes.copy_from_slice(&dictionary.map(u16::to_le_bytes).concat());
    });
    image
}

/// Changes the locators of a chunk with exceptions.
fn with_locators(change: impl Fn(&mut [u32; 2])) -> Image {
    let mut image = floats(F64, true);
    image.change(|tree| {
        let mut locators = [tree.word(1, 4), tree.word(1, 5)];
        assert_eq!(locators.map(|locator| locator & 0x7ff), [2, 1]);
        change(&mut locators);
        tree.set_word(1, 4, locators[0]);
        tree.set_word(1, 5, locators[1]);
    });
    image
}

#[test]
fn alp_rd_rejects_left_parts_of_no_bits_and_of_more_than_16() {
    for (double, bits) in [(true, 64), (false, 32)] {
        for right in [bits, bits + 1, 255] {
            with_cut(double, |cut| cut & !0xff | right).rejects("left parts of 0 bits");
        }
        with_cut(double, |cut| cut & !0xff | (bits - 17)).rejects("left parts of 17 bits");
        with_cut(double, |cut| cut | 255 << 16).rejects("left parts of 0 bits");
    }
}

#[test]
fn alp_rd_rejects_unknown_bits_of_the_cut() {
    for bit in [24, 32, 63] {
        with_cut(F64, |cut| cut | 1 << bit).rejects("unknown bits in the cut");
    }
}

#[test]
fn alp_rd_rejects_none_and_more_than_eight_left_parts() {
    for entries in [0, 9, 255] {
        let image = with_cut(F64, |cut| cut & !0xff00 | entries << 8);
        image.rejects(&format!("{entries} left parts, 1 to 8 are allowed"));
    }
}

#[test]
fn alp_rd_rejects_dictionaries_that_do_not_fit_the_cut() {
    with_dictionary(|entries| entries[1] = entries[0]).rejects("comes twice");
    with_cut(F64, |cut| cut + 1).rejects("is wider than 15 bits");
    with_dictionary(|entries| entries[2] = 1).rejects("behind the last of 2");
    with_dictionary(|entries| entries[7] = 1).rejects("behind the last of 2");
    // Others than those of the values are as good as they.
    with_dictionary(|entries| entries.swap(0, 1)).read().unwrap();
    with_dictionary(|entries| entries[0] = 0).read().unwrap();
}

#[test]
fn alp_rd_rejects_packed_data_of_another_length() {
    for double in [true, false] {
        for len in [0, 1, 128] {
            let mut image = floats(double, true);
            image.change(|tree| tree.buffers[0].extend(vec![0; len + 1]));
            image.rejects("packed buffer of");
            let mut image = floats(double, true);
            image.change(|tree| tree.buffers[0].truncate(len));
            image.rejects("packed buffer of");
        }
        // One bit more or less of every value.
        with_cut(double, |cut| cut - 1).error();
        with_cut(double, |cut| cut + 1).error();
    }
}

#[test]
fn alp_rd_rejects_dictionaries_of_another_length() {
    for exceptions in [true, false] {
        for len in [0, 15, 17, 20, 23, 25] {
            let mut image = floats(F64, exceptions);
            image.change(|tree| tree.buffers[1].resize(len, 0));
            image.rejects("dictionary and locators of");
        }
        // Locators there are only where exceptions are declared.
        let mut image = floats(F64, exceptions);
        image.change(|tree| tree.nodes[0].parameters[0] ^= 3);
        image.rejects("dictionary and locators of");
    }
}

#[test]
fn alp_rd_rejects_counts_of_exceptions_that_disagree() {
    for count in [1, 2, 4, u64::MAX] {
        let mut image = floats(F64, true);
        image.change(|tree| tree.nodes[0].parameters[0] = count);
        image.rejects("the vectors count 3");
    }
    with_locators(|locators| locators[1] += 1).rejects("the vectors count 4");
    with_locators(|locators| locators.swap(0, 1)).error();
}

#[test]
fn alp_rd_rejects_blocks_that_do_not_follow() {
    with_locators(|locators| locators[1] += 1 << 11).rejects("vector 1: exceptions at unit");
    with_locators(|locators| locators[0] |= 0xffff_f800).rejects("vector 0: exceptions at unit");
    let mut image = with_locators(|locators| locators[0] = 2047);
    image.change(|tree| tree.nodes[0].parameters[0] = 2048);
    image.rejects("2047 exceptions in a vector of 1024 values");
    for len in 0..floats(F64, true).tree().buffers[2].len() {
        let mut image = floats(F64, true);
        image.change(|tree| tree.buffers[2].truncate(len));
        image.rejects("exceptions");
    }
    let mut image = floats(F64, false);
    image.change(|tree| tree.buffers[2].extend([0; 8]));
    image.rejects("8 bytes of exceptions, 0 expected");
}

#[test]
fn alp_rd_rejects_exceptions_that_do_not_ascend_or_lie_past_the_vector() {
    let with_slot = |slot: u16| {
        let mut image = floats(F64, true);
        // Two values of the first block, then their slots.
        image.change(|tree| tree.buffers[2][16..18].copy_from_slice(&slot.to_le_bytes()));
        image
    };
    with_slot(1023).rejects("behind slot 1023");
    with_slot(u16::MAX).rejects("behind slot");
}

#[test]
fn alp_rd_rejects_what_is_no_float() {
    for physical in [0, 3, 4, 7, 8, 9, 11, 13, 14] {
        let mut image = floats(F64, true);
        image.change(|tree| tree.nodes[0].physical = physical);
        image.error();
    }
}

#[test]
fn alp_rd_reads_any_packed_bits_as_some_float() {
    for double in [true, false] {
        let mut image = floats(double, true);
        image.change(|tree| tree.buffers[0].fill(0xff));
        let array = image.read().unwrap();
        if double {
            assert!(array.as_primitive::<Float64Type>().value(3).is_nan());
        } else {
            assert!(array.as_primitive::<Float32Type>().value(3).is_nan());
        }
        // Codes without a left part have one of zeros.
        let mut image = with_cut(double, |cut| cut);
        image.change(|tree| {
            let width = (tree.nodes[0].parameters[1] & 0xff) as usize + 2;
            tree.nodes[0].parameters[1] += 1 << 8;
            tree.buffers[1][4..6].copy_from_slice(&5_u16.to_le_bytes());
            tree.buffers[0] = vec![0xff; 2 * width * 128];
        });
        let array = image.read().unwrap();
        if double {
            let value = array.as_primitive::<Float64Type>().value(0).to_bits();
            assert_eq!(value, (1 << (image.tree().nodes[0].parameters[1] & 0xff)) - 1);
        }
    }
}

#[test]
fn alp_rd_children_of_absurd_length_are_rejected() {
    for len in [1 << 32, 1 << 58, u64::MAX] {
        let mut image = floats(F64, false);
        image.change(|tree| tree.nodes[0].len = len);
        image.error();
    }
}
