//! A column taken apart, to be damaged and put together again.
//!
//! [`Image`] holds header and body of one chunk as bytes; [`Tree`] the same as
//! nodes and buffers, from which it makes sealed bytes whatever nonsense they are.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, FieldRef, Fields};
use lanepack::{CompressedColumn, Encoding, Error, Options, compress_array};
use twox_hash::XxHash3_64;

use super::{Nulls, Rng, Shape, array_of, carried_arrays, encoded_types};

/// Bytes of a header before its nodes.
pub const FIXED: usize = 48;
/// Where the checksum of the bounds stands.
pub const BOUNDS: Range<usize> = 40..48;

/// The checksum of some bounds of Int64, as docs/FORMAT.md describes it.
#[allow(dead_code, reason = "not all tests forge bounds")]
pub fn checksum_of_bounds(bounds: [Option<i64>; 2]) -> u64 {
    let bytes = bounds.iter().flat_map(|bound| match bound {
        None => vec![0],
        Some(value) => [&[1], value.to_le_bytes().as_slice()].concat(),
    });
    XxHash3_64::oneshot(&bytes.collect::<Vec<u8>>())
}

/// A column of which one chunk is laid open.
#[derive(Clone)]
pub struct Image {
    pub field: Field,
    storage: StructArray,
    index: usize,
    /// The storage's fields for the chunk.
    pub rows: u32,
    pub nulls: u32,
    pub header: Vec<u8>,
    pub body: Vec<u8>,
}

impl Image {
    /// Compresses an array and lays its only chunk open.
    pub fn of(array: &ArrayRef, options: &Options) -> Self {
        let column = compress_array(array, options).unwrap();
        assert_eq!(column.chunks().len(), 1);
        let (field, storage) = column.to_arrow("price");
        Self::open_up(field, storage, 0)
    }

    /// With 1 to `most` bytes of the body changed, and where to what.
    pub fn damaged(&self, rng: &mut Rng, most: u64) -> (Self, Vec<(usize, u8)>) {
        let mut image = self.clone();
        let mut damage = Vec::new();
        for _ in 0..1 + rng.below(most) {
            let at = rng.below(image.body.len() as u64) as usize;
            let new = [0xff, 0xfe, rng.next() as u8, image.body[at] ^ 1][rng.below(4) as usize];
            image.body[at] = new;
            damage.push((at, new));
        }
        image.seal();
        (image, damage)
    }

    /// With this encoding and plain ones only.
    pub fn with(array: &ArrayRef, encoding: Encoding) -> Self {
        let image = Self::of(array, &Options::default().with_encodings([encoding]));
        assert_eq!(image.tree().nodes[0].encoding, encoding as u8, "chosen for {encoding}");
        image
    }

    /// Lays chunk `index` of a storage array open.
    pub fn open_up(field: Field, storage: StructArray, index: usize) -> Self {
        let count = |at: usize| storage.column(at).as_primitive::<UInt32Type>().value(index);
        let header = storage.column(4).as_binary::<i32>().value(index).to_vec();
        let body = storage.column(5).as_binary::<i64>().value(index).to_vec();
        Self { rows: count(0), nulls: count(1), field, storage, index, header, body }
    }

    /// The storage array with the chunk as it is now.
    pub fn storage(&self) -> StructArray {
        let (fields, mut columns, _) = self.storage.clone().into_parts();
        let counts = |at: usize, here: u32| -> ArrayRef {
            let counts = self.storage.column(at).as_primitive::<UInt32Type>().iter().enumerate();
            let counts =
                counts.map(|(index, count)| if index == self.index { Some(here) } else { count });
            Arc::new(UInt32Array::from_iter(counts))
        };
        (columns[0], columns[1]) = (counts(0, self.rows), counts(1, self.nulls));
        let with = |index: usize, old, new| if index == self.index { new } else { old };
        let headers = columns[4].as_binary::<i32>().iter().flatten().enumerate();
        let headers = headers.map(|(index, old)| with(index, old, self.header.as_slice()));
        let bodies = columns[5].as_binary::<i64>().iter().flatten().enumerate();
        let bodies = bodies.map(|(index, old)| with(index, old, self.body.as_slice()));
        let headers = Arc::new(BinaryArray::from_iter_values(headers));
        let bodies = Arc::new(LargeBinaryArray::from_iter_values(bodies));
        (columns[4], columns[5]) = (headers, bodies);
        StructArray::new(fields, columns, None)
    }

    /// Makes the checksums of header and body right.
    pub fn seal(&mut self) {
        if self.header.len() >= FIXED {
            let body = XxHash3_64::oneshot(&self.body);
            self.header[24..32].copy_from_slice(&body.to_le_bytes());
            self.header[32..40].fill(0);
            let header = XxHash3_64::oneshot(&self.header);
            self.header[32..40].copy_from_slice(&header.to_le_bytes());
        }
    }

    /// Overwrites bytes of the header and seals it.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.header[at..at + bytes.len()].copy_from_slice(bytes);
        self.seal();
    }

    /// Nodes and buffers of the chunk, which must still be whole.
    pub fn tree(&self) -> Tree {
        Tree::of(&self.header, &self.body)
    }

    /// Changes nodes or buffers and seals.
    pub fn change(&mut self, change: impl FnOnce(&mut Tree)) {
        let mut tree = self.tree();
        change(&mut tree);
        (self.header, self.body) = tree.to_bytes();
    }

    /// Overwrites the stored bounds, with arrays of one value each, and seals them.
    pub fn set_bounds(&mut self, min: ArrayRef, max: ArrayRef, checksum: u64) {
        assert_eq!(self.storage.len(), 1, "a column of one chunk");
        let (fields, mut columns, nulls) = self.storage.clone().into_parts();
        (columns[2], columns[3]) = (min, max);
        self.storage = StructArray::new(fields, columns, nulls);
        self.patch(BOUNDS.start, &checksum.to_le_bytes());
    }

    /// Has both bounds in another type than the column's.
    pub fn set_bounds_of_type(&mut self, bound: ArrayRef) {
        let (fields, mut columns, nulls) = self.storage.clone().into_parts();
        let typed = |(index, field): (usize, &FieldRef)| match index {
            2 | 3 => Arc::new(field.as_ref().clone().with_data_type(bound.data_type().clone())),
            _ => field.clone(),
        };
        let fields: Fields = fields.iter().enumerate().map(typed).collect();
        (columns[2], columns[3]) = (bound.clone(), bound.clone());
        self.field = self.field.clone().with_data_type(DataType::Struct(fields.clone()));
        self.storage = StructArray::new(fields, columns, nulls);
    }

    /// Opens the column.
    pub fn open(&self) -> Result<CompressedColumn, Error> {
        CompressedColumn::try_from_arrow(&self.field, &self.storage())
    }
}

/// Small chunks of every type and encoding, with a name each.
pub fn images(len: usize) -> Vec<(String, Image)> {
    let mut images: Vec<(String, Image)> = Vec::new();
    let mut push = |array: &ArrayRef, options: &Options, what: &str| {
        let image = Image::of(array, options);
        let encoding = image.open().unwrap().encoding().to_string();
        let name = format!("{} {encoding} {what}", array.data_type());
        if images.iter().all(|(other, _)| *other != name) {
            images.push((name, image));
        }
    };
    let all = Options::default();
    for data_type in encoded_types() {
        for shape in Shape::ALL {
            for nulls in [Nulls::None, Nulls::Random] {
                let array = array_of(&data_type, len, shape, nulls);
                push(&array, &all, &format!("{nulls:?}"));
                let every = all.clone().with_encodings(Encoding::ALL.iter().copied());
                push(&array, &every, &format!("{nulls:?}"));
                for encoding in Encoding::ALL {
                    let options = all.clone().with_encodings([*encoding]);
                    push(&array, &options, &format!("{nulls:?}"));
                }
            }
        }
    }
    // Decimals with exceptions, which the generated floats seldom are.
    let prices = (0..len).map(|i| if i % 40 == 7 { f64::NAN } else { i as f64 / 100.0 });
    let doubles = Arc::new(Float64Array::from_iter_values(prices.clone())) as ArrayRef;
    let floats = Arc::new(Float32Array::from_iter_values(prices.map(|price| price as f32)));
    push(&doubles, &all, "with exceptions");
    push(&(floats as ArrayRef), &all, "with exceptions");
    // Two left parts with right parts of no bits, which a few values pay for, and exceptions.
    let coarse = |i: usize| if i % 13 == 7 { 1.0 / 3.0 } else { [0.5, -2.0][i % 2] };
    let doubles = Float64Array::from_iter_values((0..len).map(coarse));
    let floats = Float32Array::from_iter_values((0..len).map(|i| coarse(i) as f32));
    // And right parts, which take many.
    let reals = (0..len).map(|i| (1.0 + (i * i % 1009) as f64 / 1009.0) * [1.0, -4.0][i % 2]);
    let reals = Float64Array::from_iter_values(reals);
    let arrays: [ArrayRef; 3] = [Arc::new(doubles), Arc::new(floats), Arc::new(reals)];
    for (array, what) in arrays.iter().zip(["coarse", "coarse", "real"]) {
        push(array, &all.clone().with_encodings([Encoding::AlpRd]), what);
    }
    // Steps that are even, nearly so, and of which one is much larger.
    let steps: [fn(i64) -> i64; 3] = [
        |i| 5 * i,
        |i| 90 * i + i * i % 7,
        |i| 90 * i + i * i % 7 + if i > 100 { 1 << 30 } else { 0 },
    ];
    let integers = all.clone().with_encodings([
        Encoding::Constant,
        Encoding::Ffor,
        Encoding::Delta,
        Encoding::Pfor,
    ]);
    for (step, what) in steps.iter().zip(["even", "nearly even", "with a gap"]) {
        let values = || (0..len as i64).map(step);
        let [bytes, shorts, words, longs]: [ArrayRef; 4] = [
            Arc::new(UInt8Array::from_iter_values(values().map(|value| value as u8))),
            Arc::new(Int16Array::from_iter_values(values().map(|value| value as i16))),
            Arc::new(UInt32Array::from_iter_values(values().map(|value| value as u32))),
            Arc::new(Int64Array::from_iter(values().map(|value| (value % 4 > 0).then_some(value)))),
        ];
        for array in [bytes, shorts, words, longs] {
            push(&array, &integers, what);
        }
    }
    // Strings that begin as those before.
    let keys = |row: usize| format!("/a long path/{:05}/{}", row / 3, row * row % 7);
    let texts = StringArray::from_iter((0..len).map(|row| (row % 17 != 5).then(|| keys(row))));
    let fronts = [Encoding::Front, Encoding::Fsst, Encoding::Ffor];
    push(&(Arc::new(texts) as ArrayRef), &all.clone().with_encodings(fronts), "in order");
    // Runs, some of them short, of numbers and of codes.
    let value = |row: usize| (row / 9 * 9 + row / 50).wrapping_mul(0x9e37_79b9) % 97;
    let nulls = (0..len).map(|row| (row % 60 > 4).then(|| value(row) as i64));
    let arrays: [ArrayRef; 5] = [
        Arc::new(UInt8Array::from_iter_values((0..len).map(|row| value(row) as u8))),
        Arc::new(Int16Array::from_iter_values((0..len).map(|row| value(row) as i16))),
        Arc::new(Float32Array::from_iter_values((0..len).map(|row| value(row) as f32 / 4.0))),
        Arc::new(Int64Array::from_iter(nulls)),
        Arc::new(StringArray::from_iter_values((0..len).map(|row| format!("text {}", value(row))))),
    ];
    for array in &arrays {
        push(array, &all.clone().with_encodings([Encoding::Rle]), "runs");
        push(array, &all.clone().with_encodings(Encoding::ALL.iter().copied()), "runs");
    }
    // Times of days, some of them far from the others.
    let day = |row: usize| (row * row % 300 + if row % 90 == 8 { 1 << 20 } else { 0 }) as i64;
    let days = || (0..len).map(day);
    let arrays: [ArrayRef; 3] = [
        Arc::new(Date64Array::from_iter_values(days().map(|day| day * 86_400_000))),
        Arc::new(UInt32Array::from_iter_values(days().map(|day| day as u32 * 100))),
        Arc::new(Int64Array::from_iter(days().map(|day| (day % 5 > 0).then_some(day * -60)))),
    ];
    for array in &arrays {
        for child in [Encoding::Ffor, Encoding::Pfor] {
            push(array, &all.clone().with_encodings([Encoding::Gcd, child]), "divided");
        }
    }
    let steps = (0..len).map(|row| (row * 60 + row * row % 7) as i64 * 60_000);
    let divided = all.clone().with_encodings([Encoding::Gcd, Encoding::Delta, Encoding::Ffor]);
    push(&(Arc::new(Int64Array::from_iter_values(steps)) as ArrayRef), &divided, "divided");
    // Few nulls, and booleans in a pattern, of as many rows as bytes of them need.
    let rows = len.max(2500);
    let booleans: [fn(usize) -> bool; 3] =
        [|row| row % 1501 == 7, |row| row % 8 == 3, |row| row / 170 % 2 == 0 && row < 1700];
    for is_set in booleans {
        let booleans = BooleanArray::from_iter((0..rows).map(|row| Some(is_set(row))));
        push(&(Arc::new(booleans) as ArrayRef), &all, "seldom");
        let bytes = (0..rows).map(|row| is_set(row).then_some(7));
        push(&(Arc::new(UInt8Array::from_iter(bytes)) as ArrayRef), &all, "seldom");
    }
    for array in carried_arrays(len.min(60)) {
        push(&array, &all, "carried");
    }
    let names: Vec<&str> = images.iter().map(|(name, _)| name.as_str()).collect();
    // Pieces are of more values than images should have.
    for encoding in Encoding::ALL.iter().filter(|one| **one != Encoding::Pieces) {
        assert!(names.iter().any(|name| name.contains(encoding.name())), "no {encoding}");
    }
    images
}

/// A node as the header has it.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub encoding: u8,
    pub physical: u8,
    pub flags: u8,
    pub buffers: u8,
    pub children: u16,
    pub reserved: [u8; 2],
    pub len: u64,
    pub parameters: [u64; 2],
}

/// A chunk as nodes and buffers.
#[derive(Clone, Debug)]
pub struct Tree {
    pub rows: u32,
    pub nulls: u32,
    /// The checksum of the bounds.
    pub bounds: u64,
    pub nodes: Vec<Node>,
    pub buffers: Vec<Vec<u8>>,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Tree {
    fn of(header: &[u8], body: &[u8]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let u16_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let lengths = FIXED + 32 * usize::from(u16_at(header, 2));
        let nodes = header[FIXED..lengths].chunks(32).map(|node| Node {
            encoding: node[0],
            physical: node[1],
            flags: node[2],
            buffers: node[3],
            children: u16_at(node, 4),
            reserved: node[6..8].try_into().unwrap(),
            len: u64_at(node, 8),
            parameters: [u64_at(node, 16), u64_at(node, 24)],
        });
        let mut at = 0;
        let buffers = header[lengths..].chunks(8).map(|len| {
            let len = u64_at(len, 0) as usize;
            let buffer = body[at..at + len].to_vec();
            at = (at + len).next_multiple_of(64);
            buffer
        });
        let (nodes, buffers) = (nodes.collect(), buffers.collect());
        let bounds = u64_at(header, BOUNDS.start);
        Self { rows: u32_at(4), nulls: u32_at(8), bounds, nodes, buffers }
    }

    /// Header and body, sealed.
    pub fn to_bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let mut body = Vec::new();
        for buffer in &self.buffers {
            body.extend(buffer);
            body.resize(body.len().next_multiple_of(64), 0);
        }
        let mut header = vec![1, 0];
        header.extend((self.nodes.len() as u16).to_le_bytes());
        header.extend(self.rows.to_le_bytes());
        header.extend(self.nulls.to_le_bytes());
        header.extend((self.buffers.len() as u16).to_le_bytes());
        header.extend([0; 2]);
        header.extend((body.len() as u64).to_le_bytes());
        header.extend([0; 16]);
        header.extend(self.bounds.to_le_bytes());
        for node in &self.nodes {
            header.extend([node.encoding, node.physical, node.flags, node.buffers]);
            header.extend(node.children.to_le_bytes());
            header.extend(node.reserved);
            header.extend(node.len.to_le_bytes());
            header.extend(node.parameters.iter().flat_map(|parameter| parameter.to_le_bytes()));
        }
        header.extend(self.buffers.iter().flat_map(|buffer| (buffer.len() as u64).to_le_bytes()));
        header[24..32].copy_from_slice(&XxHash3_64::oneshot(&body).to_le_bytes());
        let checksum = XxHash3_64::oneshot(&header);
        header[32..40].copy_from_slice(&checksum.to_le_bytes());
        (header, body)
    }

    /// Word `index` of a buffer of u32.
    pub fn word(&self, buffer: usize, index: usize) -> u32 {
        u32::from_le_bytes(self.buffers[buffer][index * 4..][..4].try_into().unwrap())
    }

    /// Overwrites word `index` of a buffer of u32.
    pub fn set_word(&mut self, buffer: usize, index: usize, word: u32) {
        self.buffers[buffer][index * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }

    /// The codes of value `row` in an `fsst` tree without nulls, whose lengths are plain.
    pub fn codes_of(&self, row: usize) -> Range<usize> {
        assert_eq!((self.nodes[0].encoding, self.nodes[1].encoding), (4, 0));
        let start = (0..row).map(|row| self.word(4, row) as usize).sum();
        start..start + self.word(4, row) as usize
    }
}
