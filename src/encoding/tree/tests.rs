use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::*;
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};

use super::*;
use crate::column::compress_array;
use crate::options::{Effort, Lz, Options};

/// A number without an order.
fn mixed(row: usize) -> u64 {
    (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn longs(value: impl Fn(usize) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..3000).map(value)))
}

fn texts_of(value: impl Fn(usize) -> String) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..3000).map(value)))
}

fn list_of(lengths: impl Iterator<Item = usize>, elements: ArrayRef) -> ArrayRef {
    let item = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(item, offsets, elements, None))
}

/// The tree of the first chunk.
fn tree_of(array: &ArrayRef, options: &Options) -> EncodingTree {
    let column = compress_array(array, options).unwrap();
    let chunk = &column.chunks()[0];
    let tree = chunk.encoding();
    check(&tree, chunk.body().len());
    assert_eq!(tree.role, NodeRole::Values);
    assert_eq!(tree.values, chunk.rows());
    tree
}

/// What is true of any tree.
fn check(tree: &EncodingTree, most: usize) {
    let below: usize = tree.children.iter().map(|child| child.bytes).sum();
    assert_eq!(tree.bytes, tree.own_bytes + below, "{tree}");
    assert!(tree.bytes <= most, "{tree}");
    for (index, child) in tree.children.iter().enumerate() {
        let same = tree.children.iter().filter(|other| other.role == child.role).count();
        assert_eq!(same, 1, "{} of {tree}", child.role);
        assert!(child.role != NodeRole::Validity || index == 0, "{tree}");
        check(child, most);
    }
}

/// The first node of an encoding.
fn node_of(tree: &EncodingTree, encoding: Encoding) -> Option<&EncodingTree> {
    if tree.encoding == encoding {
        return Some(tree);
    }
    tree.children.iter().find_map(|child| node_of(child, encoding))
}

/// Values that an encoding is made for.
fn made_for(encoding: Encoding) -> ArrayRef {
    match encoding {
        Encoding::Plain => longs(|row| mixed(row).wrapping_mul(0x2545_f491_4f6c_dd1d) as i64),
        Encoding::Constant => longs(|_| -7),
        Encoding::Ffor => longs(|row| (mixed(row) % 1000) as i64),
        Encoding::Alp => {
            let value = |row| if row == 5 { f64::NAN } else { (mixed(row) % 5000) as f64 / 100.0 };
            Arc::new(Float64Array::from_iter_values((0..3000).map(value)))
        }
        Encoding::Fsst => texts_of(|row| format!("a text that is number {}", mixed(row) % 100_000)),
        Encoding::Limbs => {
            let value = |row| i128::from(mixed(row)) << 50;
            Arc::new(Decimal128Array::from_iter_values((0..3000).map(value)))
        }
        Encoding::Dict => texts_of(|row| format!("one of a few texts: {}", mixed(row) % 5)),
        Encoding::Rle => longs(|row| mixed(row / 50) as i64),
        Encoding::Delta => longs(|row| (row * row) as i64 + (mixed(row) % 5) as i64),
        Encoding::Pfor => {
            longs(|row| if row % 300 == 7 { mixed(row) as i64 } else { (mixed(row) % 8) as i64 })
        }
        Encoding::AlpRd => {
            let value = |row| 1.0 + mixed(row) as f64 / (1_u64 << 44) as f64 / 3.0;
            Arc::new(Float64Array::from_iter_values((0..3000).map(value)))
        }
        Encoding::Front => texts_of(|row| format!("/a/rather/long/path/to/a/file/{:08}", row * 3)),
        Encoding::Gcd => longs(|row| (mixed(row) % 1000) as i64 * 1_000_000 - 3),
        Encoding::Bits => {
            Arc::new(BooleanArray::from_iter((0..30_000).map(|row| Some(row % 1000 == 7))))
        }
        Encoding::Lz => longs(|row| mixed(row % 700) as i64),
        Encoding::Pieces => {
            let elements = (0..300_000).map(|row| (mixed(row) % 100) as i32);
            let elements = Arc::new(Int32Array::from_iter_values(elements));
            list_of((0..300).map(|_| 1000), elements)
        }
        Encoding::Struct => {
            let fields = ["a", "b"].map(|name| Arc::new(Field::new(name, DataType::Int64, true)));
            let columns = vec![longs(|row| row as i64), longs(|_| 3)];
            Arc::new(StructArray::new(fields.to_vec().into(), columns, None))
        }
        Encoding::List => list_of((0..1500).map(|_| 2), longs(|row| (mixed(row) % 9) as i64)),
        Encoding::FixedList => {
            let item = Arc::new(Field::new_list_field(DataType::Int64, true));
            let values = longs(|row| (mixed(row) % 9) as i64);
            Arc::new(FixedSizeListArray::new(item, 3, values, None))
        }
        Encoding::Keys => {
            let keys = Int32Array::from_iter_values((0..3000).map(|row| (mixed(row) % 3) as i32));
            let values: ArrayRef = Arc::new(StringArray::from_iter_values(["a", "b", "c"]));
            Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
        }
        Encoding::RunEnds => {
            let ends = ScalarBuffer::from(vec![1000_i32, 2999, 3000]);
            let values = Int64Array::from(vec![Some(5), None, Some(7)]);
            let ends = Int32Array::new(ends, None);
            Arc::new(RunArray::<Int32Type>::try_new(&ends, &values).unwrap())
        }
    }
}

/// Options that have an encoding chosen for what it is made for.
fn options_of(encoding: Encoding) -> Options {
    match encoding {
        Encoding::Front => Options::default().with_effort(Effort::Small),
        Encoding::Plain | Encoding::Lz => Options::default().with_encodings([encoding]),
        Encoding::Dict | Encoding::AlpRd => {
            Options::default().with_encodings([encoding, Encoding::Ffor, Encoding::Fsst])
        }
        Encoding::Rle | Encoding::Delta | Encoding::Bits | Encoding::Limbs => Options::default()
            .with_encodings([encoding, Encoding::Ffor, Encoding::Constant, Encoding::Pfor]),
        _ => Options::default(),
    }
}

/// A tree has the parameters and roles that its encoding is documented with.
#[test]
fn trees_of_every_encoding() {
    use EncodingParameters as P;
    let mut seen = EncodingSet::EMPTY;
    for encoding in Encoding::ALL.iter().copied() {
        let tree = tree_of(&made_for(encoding), &options_of(encoding));
        let node = node_of(&tree, encoding).unwrap_or_else(|| panic!("{encoding}: {tree}"));
        let facts = texts(&node.parameters.facts()).join(", ");
        let roles: Vec<String> = node.children.iter().map(|child| child.role.to_string()).collect();
        let roles = roles.join(", ");
        let (is_right, expected_roles) = match encoding {
            Encoding::Plain => (node.parameters == P::None, ""),
            Encoding::Constant => (
                matches!(node.parameters, P::Constant { bits: Some(bits) } if bits == -7_i64 as u64),
                "",
            ),
            Encoding::Ffor => {
                (matches!(&node.parameters, P::Ffor { bits } if *bits == (10..=10)), "")
            }
            Encoding::Alp => {
                let P::Alp { bits, exponents, factors, exceptions } = &node.parameters else {
                    panic!("{facts}")
                };
                let places: Vec<u8> =
                    exponents.clone().zip(factors.clone()).map(|(e, f)| e - f).collect();
                (*bits.end() == 13 && places == [2] && *exceptions == 1, "")
            }
            Encoding::Fsst => {
                let P::Fsst { symbols, code_bytes, value_bytes } = node.parameters else {
                    panic!("{facts}")
                };
                let is_right = (1..=255).contains(&symbols) && code_bytes < value_bytes / 2;
                (is_right && value_bytes > 3000 * 22, "code lengths, lengths")
            }
            Encoding::Limbs => (node.parameters == P::None, "limb 0, limb 1"),
            Encoding::Dict => (node.parameters == P::Dict { distinct: 5 }, "codes, dictionary"),
            // Of runs of 50 values 20 to 22 are in a vector of 1,024.
            Encoding::Rle => (
                matches!(node.parameters, P::Rle { runs: 60..=63, is_bitmap: false }),
                "run values, run lengths",
            ),
            Encoding::Delta => (node.parameters == P::None, "deltas"),
            Encoding::Pfor => (
                matches!(&node.parameters, P::Pfor { bits, exceptions: 10 } if *bits == (3..=3)),
                "",
            ),
            Encoding::AlpRd => (
                matches!(node.parameters, P::AlpRd { left_parts: 1..=8, right_bits: 48..=63, .. }),
                "",
            ),
            Encoding::Front => {
                (node.parameters == P::Front { value_bytes: 3000 * 38 }, "prefixes, suffixes")
            }
            Encoding::Gcd => (
                matches!(node.parameters, P::Gcd { divisor: 1_000_000, offset: -3..=999_999_997 }),
                "quotients",
            ),
            Encoding::Bits => (node.parameters == P::None, "bytes"),
            Encoding::Lz => {
                let P::Lz { segments, matches, value_bytes, offset_bytes, .. } = node.parameters
                else {
                    panic!("{facts}")
                };
                ((segments, value_bytes, offset_bytes) == (1, 24_000, 2) && matches > 0, "")
            }
            Encoding::Pieces => (node.parameters == P::None, "piece 0, piece 1, piece 2"),
            Encoding::Struct => (node.parameters == P::None, "field 0, field 1"),
            Encoding::List => (node.parameters == P::None, "lengths, elements"),
            Encoding::FixedList => (node.parameters == P::None, "elements"),
            Encoding::Keys => (node.parameters == P::None, "keys, dictionary"),
            Encoding::RunEnds => (node.parameters == P::None, "run lengths, run values"),
        };
        assert!(is_right, "{encoding}: {:?}", node.parameters);
        assert_eq!(roles, expected_roles, "{encoding}: {tree}");
        assert!(tree.encodings().contains(encoding));
        seen = seen.union(tree.encodings());
    }
    assert_eq!(seen, EncodingSet::ALL);
}

#[test]
fn offsets_of_quotients_are_those_of_their_type() {
    let offset = |array: &ArrayRef| {
        let options = Options::default().with_encodings([Encoding::Gcd, Encoding::Ffor]);
        match tree_of(array, &options).parameters {
            EncodingParameters::Gcd { divisor: 1000, offset } => offset,
            other => panic!("{other:?}"),
        }
    };
    let values = |row: usize| (mixed(row) % 1000) as i32 * 1000 - 2_000_000_000;
    let least = (0..3000).map(values).min().unwrap();
    let signed: ArrayRef = Arc::new(Int32Array::from_iter_values((0..3000).map(values)));
    assert_eq!(offset(&signed), least.into());
    let unsigned = UInt32Array::from_iter_values((0..3000).map(|row| values(row) as u32));
    assert_eq!(offset(&(Arc::new(unsigned) as ArrayRef)), (least as u32).into());
    let long =
        UInt64Array::from_iter_values((0..3000).map(|row| (1 << 63) + mixed(row) % 99 * 1000));
    assert!(offset(&(Arc::new(long) as ArrayRef)) >= 1 << 63);
}

#[test]
fn parameters_of_lz_are_its_options() {
    let lz = Lz::default().with_level(2).with_symbol_bytes(4).with_segment_symbols(512);
    let options = Options::default().with_encodings([Encoding::Lz]).with_lz(lz);
    let tree = tree_of(&longs(|row| mixed(row % 7) as i64), &options);
    let EncodingParameters::Lz { symbol_bytes, offset_bytes, segment_symbols, segments, .. } =
        tree.parameters
    else {
        panic!("{tree}");
    };
    assert_eq!((symbol_bytes, offset_bytes, segment_symbols, segments), (4, 1, 512, 12));
}

#[test]
fn nulls_are_a_child_of_their_own() {
    let array: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..3000).map(|row| (row % 3 > 0).then_some((mixed(row) % 100) as i64)),
    ));
    let tree = tree_of(&array, &Options::default());
    assert_eq!(tree.to_string(), "ffor");
    let validity = tree.validity().unwrap();
    assert_eq!((validity.physical, validity.values), (Physical::Bool, 3000));
    assert_eq!(tree.children.len(), 1);
    assert!(tree_of(&longs(|row| row as i64), &Options::default()).validity().is_none());
}

#[test]
fn columns_group_chunks_by_their_trees() {
    let value = |row: usize| match row / 1024 {
        0 | 3 => Some(5),
        1 => Some((mixed(row) % 8) as i64),
        2 => Some((mixed(row) % 1000) as i64),
        _ => (!row.is_multiple_of(3)).then_some((mixed(row) % 8) as i64),
    };
    let array: ArrayRef = Arc::new(Int64Array::from_iter((0..5 * 1024).map(value)));
    let options = Options::default().with_chunk_rows(1024);
    let column = compress_array(&array, &options).unwrap();
    let encoding = column.encoding();
    assert_eq!(encoding.to_string(), "constant+ffor");
    let chunks: Vec<&[usize]> = encoding.groups().iter().map(|group| group.chunks()).collect();
    // The last chunk has nulls.
    assert_eq!(chunks, [vec![0, 3], vec![1, 2], vec![4]]);
    for group in encoding.groups() {
        for (chunk, tree) in group.chunks().iter().zip(group.trees()) {
            assert_eq!(*tree, column.chunks()[*chunk].encoding());
        }
    }
    let explained = column.explain();
    let lines: Vec<&str> = explained.lines().map(str::trim_start).collect();
    let bytes = encoding.groups()[1].bytes();
    for line in [
        "chunks 0, 3: 2048 rows, ",
        "values: constant, 2048 values of type i64, 0 B; bits 0x5",
        "chunks 1 to 2: 2048 rows, ",
        &format!("values: ffor, 2048 values of type i64, {bytes} B; bits 3 to 10"),
        "chunk 4: 1024 rows, ",
        "validity: ",
        "chunk 2: ffor of estimates plain ",
    ] {
        assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{explained}");
    }
}

/// Pieces are many and alike: one line for those with equal trees.
#[test]
fn pieces_are_explained_together() {
    let column = compress_array(&made_for(Encoding::Pieces), &Options::default()).unwrap();
    let explained = column.explain();
    assert!(explained.contains("3 pieces: ffor, 300000 values of type i32"), "{explained}");
    assert_eq!(column.encoding().to_string(), "list(constant, pieces(ffor))");
}

#[test]
fn keys_of_any_type_have_trees() {
    let keys = Int64Array::from_iter_values((0..3000).map(|row| (mixed(row) % 3) as i64));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let array: ArrayRef = Arc::new(DictionaryArray::<Int64Type>::new(keys, values));
    let tree = tree_of(&array, &Options::default());
    let dictionary = tree.child(NodeRole::Dictionary).unwrap();
    assert_eq!((dictionary.values, dictionary.validity().unwrap().values), (3, 3));
}
