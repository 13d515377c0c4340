//! Rules of the header: the fixed part, nodes, buffers, and the tree they make.

use std::sync::Arc;

use arrow_array::*;
use lanepack::scan::{Scan, col};
use lanepack::{Encoding, Engine, Error, Options};

use super::common::image::{BOUNDS, FIXED, checksum_of_bounds};
use super::common::{Nulls, Shape, array_of};
use super::damage::{Image, Node, Read};

/// 1,500 integers in two vectors; nodes and buffers: ffor with `packed`, `vectors`.
fn integers() -> Image {
    let array = Arc::new(Int64Array::from_iter_values((0..1500).map(|i| i * i % 1000))) as ArrayRef;
    Image::with(&array, Encoding::Ffor)
}

/// The same with nulls: ffor, then the validity.
fn with_nulls() -> Image {
    let array = array_of(&arrow_schema::DataType::Int64, 1500, Shape::Narrow, Nulls::Random);
    Image::with(&array, Encoding::Ffor)
}

#[test]
fn intact_chunks_read() {
    for image in [integers(), with_nulls()] {
        let (header, body) = image.tree().to_bytes();
        assert_eq!((&header, &body), (&image.header, &image.body));
        image.read().unwrap();
    }
}

#[test]
fn rejects_other_versions_before_anything_else() {
    for version in [0_u16, 2, 257, u16::MAX] {
        let mut image = integers();
        image.header[0..2].copy_from_slice(&version.to_le_bytes());
        image.header[2..FIXED].fill(0xee);
        let error = image.read().unwrap_err();
        let found = matches!(error, Error::Version { found, supported: 1, .. } if found == u64::from(version));
        assert!(found, "{error}");
        image.rejects("column \"price\", chunk 0: format version");
    }
}

#[test]
fn rejects_a_header_without_its_fixed_part() {
    for len in [0, 1, FIXED - 1] {
        let mut image = integers();
        image.header.truncate(len);
        image.rejects("at least 48 needed");
    }
}

#[test]
fn rejects_counts_of_nodes_and_buffers_that_the_length_contradicts() {
    for (at, count) in [(2, 0), (2, 2), (2, u16::MAX), (12, 0), (12, 3), (12, u16::MAX)] {
        let mut image = integers();
        image.patch(at, &count.to_le_bytes());
        image.rejects("needed for");
    }
}

#[test]
fn rejects_a_header_without_nodes() {
    let mut image = integers();
    image.change(|tree| {
        tree.nodes.clear();
        tree.buffers.clear();
    });
    image.rejects("without nodes");
}

#[test]
fn rejects_a_wrong_checksum_of_the_header() {
    let mut image = integers();
    image.header[34] ^= 1;
    let error = image.read().unwrap_err();
    assert!(matches!(error, Error::Checksum { part: "header", .. }), "{error}");
    image.rejects("column \"price\", chunk 0: checksum of the header");
}

#[test]
fn bounds_other_than_those_that_were_written_are_not_used() {
    let intact = integers();
    let greatest = (0..1500_i64).map(|i| i * i % 1000).max().unwrap();
    let expected = (0..1500_i64).filter(|i| i * i % 1000 >= 500).count();
    let [min, max] = [Some(0), Some(greatest)];
    let stated = u64::from_le_bytes(intact.header[BOUNDS].try_into().unwrap());
    assert_eq!(stated, checksum_of_bounds([min, max]));
    let one = |bound: Option<i64>| Arc::new(Int64Array::from(vec![bound])) as ArrayRef;
    for bounds in [[min, Some(greatest - 1)], [Some(1), max], [min, None], [None, max], [max, min]]
    {
        let mut image = intact.clone();
        image.set_bounds(one(bounds[0]), one(bounds[1]), stated);
        image.read().unwrap();
        let column = image.open().unwrap();
        assert!(column.chunks()[0].min().is_null(0) && column.chunks()[0].max().is_null(0));
        let error = column.verify_checksums().unwrap_err();
        assert!(matches!(error, Error::Checksum { part: "bounds", .. }), "{error}");
        let text = "column \"price\", chunk 0: checksum of the bounds: expected 0x";
        assert!(error.to_string().starts_with(text), "{error}");
        image.set_bounds(one(bounds[0]), one(bounds[1]), checksum_of_bounds(bounds));
        image.open().unwrap().verify_checksums().unwrap();
    }
    // Every bit, so that no scan counts by a bound that was damaged.
    for bit in 0..64 {
        let mut image = intact.clone();
        image.set_bounds(one(min), one(Some(greatest ^ 1 << bit)), stated);
        let schema = arrow_schema::Schema::new(vec![image.field.clone()]);
        let packed = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(image.storage())]);
        let packed = packed.unwrap();
        let scan = Scan::new(&packed).filter(col("price").gt_eq(500));
        assert_eq!(scan.count(&Engine::cpu()).unwrap(), expected, "bit {bit}");
    }
    // Bounds of another type are none.
    let mut image = intact.clone();
    let times = Arc::new(Date64Array::from(vec![7])) as ArrayRef;
    image.set_bounds_of_type(times);
    assert!(image.open().unwrap().chunks()[0].max().is_null(0));
}

/// Bounds of every type come back as they were written.
#[test]
fn bounds_of_every_type_have_a_checksum() {
    for data_type in super::common::encoded_types() {
        for shape in Shape::ALL {
            for nulls in [Nulls::None, Nulls::Random, Nulls::All] {
                let array = array_of(&data_type, 50, shape, nulls);
                let mut image = Image::of(&array, &Options::default());
                image.read().unwrap();
                let chunk = image.open().unwrap().chunks()[0].clone();
                image.patch(BOUNDS.start, &[image.header[BOUNDS.start] ^ 1]);
                // Of no bounds the checksum says nothing.
                let is_none = |bound: &&ArrayRef| bound.logical_null_count() == 1;
                let none = [chunk.min(), chunk.max()].iter().all(is_none);
                let verified = image.open().unwrap().verify_checksums();
                assert_eq!(verified.is_ok(), none, "{data_type} {shape:?} {nulls:?}");
            }
        }
    }
}

#[test]
fn rejects_no_rows_and_more_than_a_chunk_has() {
    for rows in [0, 131_073, u32::MAX] {
        let mut image = integers();
        image.rows = rows;
        image.change(|tree| {
            tree.rows = rows;
            tree.nodes[0].len = rows.into();
        });
        image.rejects("1 to 131072 are allowed");
    }
}

#[test]
fn rejects_more_nulls_than_rows() {
    for nulls in [1501, u32::MAX] {
        let mut image = with_nulls();
        image.nulls = nulls;
        image.change(|tree| tree.nulls = nulls);
        image.rejects("nulls among 1500 rows");
    }
}

#[test]
fn rejects_reserved_bytes_that_are_not_zero() {
    for at in 14..16 {
        let mut image = integers();
        image.patch(at, &[1]);
        image.rejects("reserved bytes of the header");
    }
    for at in 0..2 {
        let mut image = integers();
        image.change(|tree| tree.nodes[0].reserved[at] = 0x80);
        image.rejects("node 0: reserved bytes");
    }
}

#[test]
fn rejects_buffer_lengths_beyond_addresses() {
    for len in [u64::MAX, u64::MAX - 63, u64::MAX - 64, 1 << 63, 1 << 40] {
        let mut image = integers();
        let at = FIXED + 32;
        image.patch(at, &len.to_le_bytes());
        assert!(image.error().contains("body of") || image.error().contains("address"));
        image.patch(16, &(len & !63).wrapping_add(128).to_le_bytes());
        image.error();
    }
    // Two lengths that wrap to the right sum.
    let mut image = integers();
    let half = (1_u64 << 63).to_le_bytes();
    image.patch(FIXED + 32, &[half, half].concat());
    image.rejects("address");
}

#[test]
fn rejects_a_body_length_that_buffers_do_not_add_up_to() {
    for difference in [1, 64, u64::MAX, 1 << 40] {
        let mut image = integers();
        let len = (image.body.len() as u64).wrapping_add(difference);
        image.patch(16, &len.to_le_bytes());
        image.rejects("its 2 buffers take");
    }
}

#[test]
fn rejects_a_body_of_another_length_than_stated() {
    let mut image = integers();
    image.body.extend([0; 64]);
    image.seal();
    image.rejects("the header states");
    image.body.clear();
    image.seal();
    image.rejects("body of 0 bytes, the header states");
}

#[test]
fn rejects_unknown_encodings() {
    for encoding in [15, 22, 128, 255] {
        let mut image = integers();
        image.change(|tree| tree.nodes[0].encoding = encoding);
        image.rejects(&format!("unknown encoding {encoding}"));
        // Its checksum is right: not damage, but a later version.
        let error = image.read().unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    }
}

#[test]
fn rejects_unknown_physical_types() {
    for physical in [15, 16, 128, 255] {
        let mut image = integers();
        image.change(|tree| tree.nodes[0].physical = physical);
        image.rejects(&format!("unknown physical type {physical}"));
    }
}

#[test]
fn rejects_unknown_flags() {
    for flags in [2, 3, 0x80, 0xff] {
        let mut image = with_nulls();
        image.change(|tree| tree.nodes[0].flags = flags);
        image.rejects("unknown flags");
    }
}

#[test]
fn rejects_a_root_of_another_length_than_the_chunk() {
    for len in [0, 1499, 1501, 131_072, u64::MAX] {
        let mut image = integers();
        image.change(|tree| tree.nodes[0].len = len);
        image.rejects("in a chunk of 1500 rows");
    }
}

#[test]
fn rejects_nulls_without_bitmap_and_bitmap_without_nulls() {
    let mut image = integers();
    image.change(|tree| tree.nulls = 1);
    image.rejects("lacks a validity bitmap");
    let mut image = with_nulls();
    image.change(|tree| tree.nulls = 0);
    image.rejects("has a validity bitmap");
    let mut image = with_nulls();
    image.change(|tree| tree.nodes[0].flags = 0);
    image.rejects("lacks a validity bitmap");
    let mut image = integers();
    image.change(|tree| tree.nodes[0].flags = 1);
    image.rejects("node 0 is nullable, but has no validity bitmap");
}

#[test]
fn rejects_claims_that_the_lists_do_not_meet() {
    for children in [2, 255, u16::MAX] {
        let mut image = with_nulls();
        image.change(|tree| tree.nodes[0].children = children);
        image.rejects("its children are");
    }
    let mut image = with_nulls();
    image.change(|tree| (tree.nodes[0].children, tree.nodes[0].flags) = (0, 0));
    image.rejects("node 1 is nobody's child");
    for buffers in [3, 255] {
        let mut image = integers();
        image.change(|tree| tree.nodes[0].buffers = buffers);
        image.rejects("its buffers are");
    }
    for buffers in [0, 1] {
        let mut image = integers();
        image.change(|tree| tree.nodes[0].buffers = buffers);
        image.rejects("of which nodes claim");
    }
}

/// Limbs with one child each, so many levels.
fn nested(levels: usize) -> Image {
    let mut image = integers();
    image.change(|tree| {
        let node = Node { encoding: 5, physical: 11, children: 1, len: 1500, ..Node::default() };
        tree.nodes = vec![node; levels];
        tree.nodes[levels - 1] = Node { children: 0, encoding: 1, ..tree.nodes[0].clone() };
        tree.buffers.clear();
    });
    image
}

#[test]
fn rejects_trees_deeper_than_sixteen_levels() {
    nested(17).rejects("node 16 is nested deeper than 16 levels");
    nested(1000).rejects("nested deeper than 16 levels");
    assert!(!nested(16).error().contains("nested deeper"));
}

#[test]
fn rejects_a_tree_of_sixty_thousand_siblings() {
    let mut image = integers();
    image.change(|tree| {
        let leaf = Node { encoding: 1, physical: 4, len: 1500, ..Node::default() };
        tree.nodes = vec![leaf; 60_001];
        tree.nodes[0].children = 60_000;
        tree.buffers.clear();
    });
    image.rejects("constant node with 60000 children");
}

#[test]
fn rejects_children_with_nulls_of_their_own() {
    let array =
        array_of(&arrow_schema::DataType::Decimal128(38, 4), 100, Shape::Narrow, Nulls::None);
    let mut image = Image::with(&array, Encoding::Limbs);
    image.change(|tree| {
        (tree.nodes[1].flags, tree.nodes[1].children) = (1, 1);
        tree.nodes.push(Node { encoding: 1, len: 100, ..Node::default() });
    });
    image.rejects("a child of limbs has nulls of its own");
}

#[test]
fn rejects_a_validity_that_is_none() {
    let changes: [fn(&mut Node); 4] = [
        |node| node.len = 1499,
        |node| node.len = u64::MAX,
        |node| node.physical = 5,
        |node| node.physical = 13,
    ];
    for change in changes {
        let mut image = with_nulls();
        image.change(|tree| change(&mut tree.nodes[1]));
        image.rejects("the validity of 1500 values");
    }
    let mut image = with_nulls();
    image.change(|tree| {
        (tree.nodes[1].flags, tree.nodes[1].children) = (1, 1);
        tree.nodes.push(Node { encoding: 1, len: 1500, ..Node::default() });
    });
    image.rejects("the validity of 1500 values");
    for encoding in [2, 3, 4, 5] {
        let mut image = with_nulls();
        image.change(|tree| tree.nodes[1].encoding = encoding);
        image.error();
    }
}

#[test]
fn rejects_a_bitmap_with_another_number_of_nulls() {
    let mut image = with_nulls();
    image.nulls += 1;
    image.change(|tree| tree.nulls += 1);
    image.rejects("nulls");
    let mut image = with_nulls();
    image.change(|tree| tree.buffers[2][0] ^= 1);
    image.rejects("nulls");
}

#[test]
fn rejects_counts_other_than_the_storage_states() {
    let mut image = integers();
    image.rows += 1;
    image.rejects("1501 rows in the storage array, 1500 in the header");
    let mut image = with_nulls();
    image.nulls -= 1;
    image.rejects("nulls in the storage array");
}

#[test]
fn rejects_values_of_another_type_than_the_column() {
    let names = ["Bool", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "F32", "F64"];
    for (physical, name) in names.iter().enumerate().filter(|(_, name)| **name != "I64") {
        let mut image = integers();
        image.change(|tree| {
            tree.nodes =
                vec![Node { encoding: 1, physical: physical as u8, len: 1500, ..Node::default() }];
            tree.buffers.clear();
        });
        image.rejects(&format!("values of type {name} in a column of type Int64"));
    }
}

#[test]
fn names_column_and_chunk() {
    let array = Arc::new(Int64Array::from_iter_values(0..5000)) as ArrayRef;
    let column =
        lanepack::compress_array(&array, &Options::default().with_chunk_rows(1024)).unwrap();
    let (field, storage) = column.to_arrow("price");
    for index in 0..5 {
        let mut image = Image::open_up(field.clone(), storage.clone(), index);
        image.read().unwrap();
        let last = image.body.len() - 1;
        image.body[last] ^= 1;
        let error = image.open().unwrap().verify_checksums().unwrap_err();
        let place = error.place().unwrap();
        assert_eq!((place.column.as_deref(), place.chunk), (Some("price"), Some(index)));
        let text = format!("column \"price\", chunk {index}: checksum of the body: expected 0x");
        assert!(error.to_string().starts_with(&text), "{error}");
        image.patch(14, &[1]);
        image.rejects(&format!("column \"price\", chunk {index}: corrupt data: reserved bytes"));
    }
}
