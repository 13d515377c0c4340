//! Rules of nested arrays, and of pieces. Leaves are plain, so that the nodes of a list are
//! itself, its validity if it has one, lengths and elements, each of one buffer.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};
use lanepack::{Encoding, Options};

use super::common::Rng;
use super::damage::{Image, Node, Read, Tree, largest_allocation};
use super::random;
use super::sweeps::hush_arrow;

fn numbers(len: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..len as i64).map(|row| row * row % 1000)))
}

fn item(array: &ArrayRef, nullable: bool) -> Arc<Field> {
    Arc::new(Field::new("item", array.data_type().clone(), nullable))
}

fn nested(array: ArrayRef, encoding: Encoding) -> Image {
    let image = Image::with(&array, encoding);
    image.read().unwrap();
    image
}

/// Changed in one way.
fn changed(image: &Image, change: impl FnOnce(&mut Tree)) -> Image {
    let mut image = image.clone();
    image.change(change);
    image
}

fn structs(nulls: Option<NullBuffer>) -> Image {
    let fields = Fields::from(vec![
        Field::new("number", DataType::Int64, true),
        Field::new("fixed", DataType::FixedSizeBinary(2), true),
    ]);
    let fixed = FixedSizeBinaryArray::new(2, (0..200).collect::<Vec<u8>>().into(), None);
    let array = StructArray::new(fields, vec![numbers(100), Arc::new(fixed)], nulls);
    // Without constants for lengths, few structs are smaller as Arrow IPC.
    let options = Options::default().with_encodings([Encoding::Struct, Encoding::Constant]);
    let image = Image::of(&(Arc::new(array) as ArrayRef), &options);
    assert_eq!(image.tree().nodes[0].encoding, Encoding::Struct as u8);
    image.read().unwrap();
    image
}

/// A hundred lists of two.
fn lists() -> Image {
    let elements = numbers(200);
    let offsets = OffsetBuffer::from_lengths(vec![2; 100]);
    nested(
        Arc::new(ListArray::new(item(&elements, false), offsets, elements, None)),
        Encoding::List,
    )
}

fn fixed_lists() -> Image {
    let elements = numbers(300);
    nested(
        Arc::new(FixedSizeListArray::new(item(&elements, true), 3, elements, None)),
        Encoding::FixedList,
    )
}

fn keys() -> Image {
    let keys = Int16Array::from_iter_values((0..100).map(|row| row % 7));
    nested(Arc::new(DictionaryArray::new(keys, numbers(7))), Encoding::Keys)
}

/// Ten runs of ten.
fn runs() -> Image {
    let ends = Int32Array::from_iter_values((1..=10).map(|run| run * 10));
    let runs = RunArray::<Int32Type>::try_new(&ends, numbers(10).as_ref()).unwrap();
    nested(Arc::new(runs), Encoding::RunEnds)
}

/// A bitmap for a node, without nulls.
fn validity(len: u64) -> Node {
    Node { encoding: 1, len, parameters: [1, 0], ..Node::default() }
}

#[test]
fn structs_have_a_child_of_their_length_for_each_field() {
    let image = structs(None);
    changed(&image, |tree| {
        tree.nodes[1].len = 99;
        tree.buffers[0].truncate(99 * 8);
    })
    .rejects("99 values of field 0 in 100 structs");
    changed(&image, |tree| {
        tree.nodes[0].children = 1;
        tree.nodes.truncate(2);
        tree.buffers.truncate(1);
    })
    .rejects("1 fields of structs, 2 expected");
    changed(&image, |tree| tree.nodes[1].physical = 10)
        .rejects("values of type F64 in a column of type Int64");
    changed(&image, |tree| tree.nodes[0].parameters[1] = 1).rejects("unused parameters");
}

#[test]
fn nested_nodes_are_those_of_their_column_s_type() {
    let images = [structs(None), lists(), fixed_lists(), keys(), runs()];
    for (at, image) in images.iter().enumerate() {
        for (other_at, other) in images.iter().enumerate() {
            let mut mixed = image.clone();
            (mixed.header, mixed.body) = (other.header.clone(), other.body.clone());
            match at == other_at {
                true => drop(mixed.read().unwrap()),
                false => mixed.rejects("node in a column of type"),
            }
        }
        let mut flat = image.clone();
        flat.field = flat.field.with_data_type(DataType::Int64);
        flat.error();
        for encoding in 0..=22 {
            // Which may be the one that it has.
            let _ = changed(image, |tree| tree.nodes[1].encoding = encoding).read();
            let _ = changed(image, |tree| tree.nodes[0].encoding = encoding).read();
            changed(image, |tree| tree.nodes[0].physical = 8).error();
        }
    }
}

#[test]
fn lengths_of_lists_add_up_to_the_elements() {
    let image = lists();
    for (row, length) in [(0, 3), (50, 1), (99, u32::MAX), (7, 0)] {
        let changed = changed(&image, |tree| tree.set_word(0, row, length));
        changed.rejects("lengths of lists add up to");
    }
    for len in [0, 199, 201, 1 << 20] {
        let changed = changed(&image, |tree| {
            tree.nodes[2].len = len;
            tree.buffers[1].resize(len as usize * 8, 0);
        });
        changed.rejects(&format!("there are {len} elements"));
    }
}

#[test]
fn lengths_of_lists_are_numbers_for_each() {
    let image = lists();
    changed(&image, |tree| tree.nodes[1].physical = 3).rejects("lengths of type I32");
    changed(&image, |tree| {
        tree.nodes[1].len = 99;
        tree.buffers[0].truncate(99 * 4);
    })
    .rejects("99 lengths for 100 lists");
    changed(&image, |tree| {
        (tree.nodes[1].flags, tree.nodes[1].children) = (1, 1);
        tree.nodes.push(validity(100));
    })
    .rejects("lengths of type U32 with nulls");
}

/// Nulls in a field that has none by its type.
#[test]
fn nulls_where_there_are_none_are_an_error() {
    let image = changed(&lists(), |tree| {
        (tree.nodes[2].flags, tree.nodes[2].children) = (1, 1);
        tree.nodes.push(Node { encoding: 1, len: 200, ..Node::default() });
    });
    image.rejects("non-nullable");
}

#[test]
fn fixed_lists_have_as_many_elements_as_their_type_says() {
    let image = fixed_lists();
    for len in [0, 100, 299, 301] {
        changed(&image, |tree| {
            tree.nodes[1].len = len;
            tree.buffers[0].resize(len as usize * 8, 0);
        })
        .rejects(&format!("{len} elements for 100 lists of 3"));
    }
}

#[test]
fn keys_are_those_of_the_dictionary() {
    let image = keys();
    for key in [7_i16, -1, i16::MAX, i16::MIN] {
        changed(&image, |tree| tree.buffers[0][20..22].copy_from_slice(&key.to_le_bytes()))
            .rejects(&format!("Invalid dictionary key {key}"));
    }
    changed(&image, |tree| tree.nodes[1].physical = 6)
        .rejects("values of type U16 in a column of type Int16");
    changed(&image, |tree| {
        (tree.nodes[1].physical, tree.nodes[1].encoding, tree.nodes[1].buffers) = (9, 1, 0);
        tree.buffers.remove(0);
    })
    .rejects("100 keys of type F32");
    changed(&image, |tree| {
        tree.nodes[1].len = 99;
        tree.buffers[0].truncate(99 * 2);
    })
    .rejects("99 keys");
    changed(&image, |tree| {
        (tree.nodes[1].flags, tree.nodes[1].children) = (1, 1);
        tree.nodes.push(validity(100));
    })
    .rejects("100 keys of type I16 with nulls");
    let empty = changed(&image, |tree| {
        tree.nodes[2].len = 0;
        tree.buffers[1].clear();
    });
    empty.rejects("Invalid dictionary key 0");
}

#[test]
fn runs_have_rows_and_add_up() {
    let image = runs();
    changed(&image, |tree| tree.set_word(0, 3, 0)).rejects("a run without rows");
    for length in [1, 11, u32::MAX] {
        changed(&image, |tree| tree.set_word(0, 9, length)).rejects("lengths of runs add up to");
    }
    changed(&image, |tree| {
        tree.nodes[2].len = 9;
        tree.buffers[1].truncate(72);
    })
    .rejects("10 lengths of runs and 9 values");
    changed(&image, |tree| {
        for (node, width) in [(1, 4), (2, 8)] {
            tree.nodes[node].len = 101;
            tree.buffers[node - 1].resize(101 * width, 0);
        }
    })
    .rejects("101 lengths of runs");
    changed(&image, |tree| {
        (tree.nodes[0].flags, tree.nodes[0].children) = (1, 3);
        tree.nodes.insert(1, validity(100));
    })
    .rejects("run-end encoded values with a bitmap");
    let none = changed(&image, |tree| {
        (tree.nodes[1].len, tree.nodes[2].len) = (0, 0);
        tree.buffers = vec![Vec::new(), Vec::new()];
    });
    none.rejects("lengths of runs add up to 0");
}

#[test]
fn nulls_are_as_many_as_the_header_states() {
    let nulls = NullBuffer::from_iter((0..100).map(|row| row % 3 > 0));
    let image = structs(Some(nulls));
    let found = image.tree();
    assert_eq!((found.nulls, found.nodes[0].flags), (34, 1));
    for nulls in [0, 33, 100] {
        let mut image = changed(&image, |tree| tree.nulls = nulls);
        image.nulls = nulls;
        image.rejects("34 nulls among the values");
    }
    let mut without = changed(&structs(None), |tree| tree.nulls = 5);
    without.nulls = 5;
    without.rejects("0 nulls among the values");
    let mut carried = Image::with(&numbers_in_a_list(), Encoding::Plain);
    carried.change(|tree| {
        (tree.nodes[0].flags, tree.nodes[0].children) = (1, 1);
        tree.nodes.push(validity(100));
    });
    carried.rejects("a carried array has a validity bitmap");
}

fn numbers_in_a_list() -> ArrayRef {
    let elements = numbers(200);
    let offsets = OffsetBuffer::from_lengths(vec![2; 100]);
    Arc::new(ListArray::new(item(&elements, true), offsets, elements, None))
}

#[test]
fn no_value_of_a_fixed_size_is_absent_inside_of_others() {
    // Behind the validity are the fields, of which the second has lengths and bytes.
    let image = structs(None);
    let tree = image.tree();
    let bytes = tree.buffers.iter().position(|buffer| buffer.len() == 200).unwrap();
    changed(&image, |tree| {
        tree.buffers[bytes].truncate(198);
    })
    .error();
    let constant = changed(&image, |tree| {
        tree.nodes.truncate(3);
        let of = Node { encoding: 1, physical: 13, buffers: 1, len: 100, ..Node::default() };
        tree.nodes[2] = of;
        tree.buffers.truncate(1);
        tree.buffers.push(Vec::new());
    });
    constant.rejects("0 bytes of values for 100 rows of FixedSizeBinary(2) in others");
}

/// A node of so many values that hold no bytes.
fn constant(physical: u8, len: u64) -> Node {
    Node { encoding: 1, physical, len, ..Node::default() }
}

#[test]
fn a_few_bytes_are_not_many_elements() {
    for len in [131_073, 1 << 32, 1 << 40, u64::MAX] {
        let image = changed(&lists(), |tree| {
            tree.nodes[2] = constant(4, len);
            tree.nodes[1] = Node { parameters: [u64::from(u32::MAX), 0], ..constant(7, 100) };
            tree.buffers.clear();
        });
        let (opened, largest) = largest_allocation(|| image.open());
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(&format!("a constant node of {len} values")), "{error}");
        assert!(largest < 1 << 20, "an allocation of {largest} bytes");
    }
    // What holds no bytes at all is bounded as well.
    let empty: ArrayRef = Arc::new(StructArray::new_empty_fields(200, None));
    let offsets = OffsetBuffer::from_lengths(vec![2; 100]);
    let list: ArrayRef = Arc::new(ListArray::new(item(&empty, true), offsets, empty, None));
    let options = Options::default().with_encodings([Encoding::List, Encoding::Struct]);
    let image = Image::of(&list, &options);
    changed(&image, |tree| tree.nodes[2].len = 1 << 32)
        .rejects("a struct node of 4294967296 values");
    // As many as there may be take offsets of 64 bits.
    changed(&image, |tree| {
        tree.nodes[2].len = 100 * 40_000_000;
        (0..100).for_each(|row| tree.set_word(0, row, 40_000_000));
    })
    .rejects("4000000000 elements of lists");
    // Nothing but few encodings are of no values.
    changed(&lists(), |tree| {
        (0..100).for_each(|row| tree.set_word(0, row, 0));
        tree.nodes[2] = Node { encoding: 2, physical: 4, buffers: 2, ..Node::default() };
        tree.buffers[1].clear();
        tree.buffers.push(Vec::new());
    })
    .rejects("a ffor node of 0 values");
}

/// Elements of a list in two pieces.
fn pieces(elements: ArrayRef) -> Image {
    let offsets = OffsetBuffer::from_lengths([100_000, 50_000]);
    let list: ArrayRef = Arc::new(ListArray::new(item(&elements, true), offsets, elements, None));
    let options = Options::default().with_encodings([
        Encoding::List,
        Encoding::Pieces,
        Encoding::Constant,
        Encoding::Ffor,
    ]);
    let image = Image::of(&list, &options);
    image.read().unwrap();
    let tree = image.tree();
    assert_eq!((tree.nodes[2].encoding, tree.nodes[2].children), (16, 2));
    image
}

#[test]
fn pieces_are_of_one_length_and_type() {
    let image = pieces(Arc::new(Int64Array::from(vec![7; 150_000])));
    for (node, len) in [(3, 131_071), (4, 18_927), (4, 18_929), (3, 0)] {
        changed(&image, |tree| tree.nodes[node].len = len).rejects("values of type I64, ");
    }
    changed(&image, |tree| tree.nodes[4].physical = 8).rejects("piece 1 holds");
    changed(&image, |tree| tree.nodes[2].len = 131_073).rejects("piece 1 holds 18928");
    changed(&image, |tree| tree.nodes[2].len = 131_072).rejects("a pieces node of 131072 values");
    changed(&image, |tree| tree.nodes[2].len = 262_145).rejects("2 children");
    changed(&image, |tree| (tree.nodes[2].physical, tree.nodes[3].physical) = (14, 14)).error();
    changed(&image, |tree| {
        (tree.nodes[3].flags, tree.nodes[3].children) = (1, 1);
        tree.nodes.push(validity(131_072));
    })
    .rejects("a child of pieces has nulls of its own");
}

#[test]
fn pieces_of_strings_add_up() {
    let texts = StringArray::from_iter_values((0..150_000).map(|row| ["a", "bc"][row / 131_072]));
    let image = pieces(Arc::new(texts));
    let tree = image.tree();
    assert_eq!(tree.buffers.iter().filter(|buffer| buffer.len() <= 2).count(), 2);
    let of_other_length = changed(&image, |tree| {
        let text = tree.buffers.iter_mut().find(|buffer| buffer.as_slice() == b"bc").unwrap();
        text.push(0xc3);
    });
    of_other_length.rejects("not UTF-8");
}

/// Fields of headers, and bodies, of arrays nested anyhow.
#[test]
fn random_damage_to_random_arrays_does_no_harm() {
    hush_arrow();
    let mut errors = 0;
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let data_type = random::data_type(&mut rng, 4);
        let len = 1 + rng.below(80) as usize;
        let array = random::array(&mut rng, &data_type, len);
        let image = Image::of(&array, &Options::default());
        image.read().unwrap();
        for _ in 0..25 {
            let mut image = image.clone();
            if rng.below(2) == 0 && !image.body.is_empty() {
                image = image.damaged(&mut rng, 3).0;
            } else {
                image.change(|tree| {
                    let node = rng.below(tree.nodes.len() as u64) as usize;
                    let other = tree.nodes[rng.below(tree.nodes.len() as u64) as usize].clone();
                    let node = &mut tree.nodes[node];
                    match rng.below(6) {
                        0 => {
                            node.len = [0, 1, node.len + 1, 1 << 20, 1 << 31][rng.below(5) as usize]
                        }
                        1 => node.encoding = rng.below(23) as u8,
                        2 => (node.encoding, node.physical) = (other.encoding, other.physical),
                        3 => node.parameters[0] = rng.next() >> rng.below(64),
                        4 => node.physical = rng.below(15) as u8,
                        _ => node.flags ^= 1,
                    }
                });
            }
            errors += usize::from(image.read().is_err());
        }
    }
    assert!(errors > 1000, "{errors} errors");
}
