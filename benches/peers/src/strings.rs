//! FSST against fsst-rs: training, compressing, decompressing, and factors.
//!
//! Both train on the file as it is, on a sample that each takes itself, and
//! code every value on its own. They then compress and decompress the file
//! tiled to 16 MB, whole column at once, with the table given and into memory
//! that is there already. fsst-rs compresses by `compress_bulk_into`, which unlike
//! `compress_bulk` allocates nothing per value; it trusts its table and codes
//! where lanepack checks them.
//!
//! A factor is string bytes over codes and symbol table, or over these and code
//! lengths. For both sides the lengths are counted as packed per 1,024 values,
//! the table as lanepack stores it.

use std::hint::black_box;

use arrow_array::cast::AsArray;
use lanepack::internals::fsst::{Decoder, Encoder, SymbolTable, sample};

use crate::{Pair, Size, TIMED_BYTES, Visitor, data};

/// Values of a vector.
const VECTOR: usize = 1024;

/// Values one behind the other.
struct Column {
    bytes: Vec<u8>,
    offsets: Vec<usize>,
}

impl Column {
    fn read(file: &data::File) -> Self {
        let column = file.column();
        let values = column.as_string::<i32>();
        let offsets = values.offsets().iter().map(|offset| *offset as usize).collect();
        Self { bytes: values.values().to_vec(), offsets }
    }

    fn tiled(&self, bytes: usize) -> Self {
        let copies = bytes.div_ceil(self.bytes.len());
        let lengths = self.offsets.windows(2).map(|pair| pair[1] - pair[0]);
        let lengths: Vec<usize> = lengths.collect::<Vec<_>>().repeat(copies);
        let mut offsets = vec![0];
        offsets.extend(lengths.iter().scan(0, |end, len| {
            *end += len;
            Some(*end)
        }));
        Self { bytes: self.bytes.repeat(copies), offsets }
    }

    fn values(&self) -> Vec<&[u8]> {
        self.offsets.windows(2).map(|pair| &self.bytes[pair[0]..pair[1]]).collect()
    }
}

fn train(values: &[&[u8]]) -> (SymbolTable, Encoder) {
    let sample = sample(values.len(), |index| values[index]);
    let table = SymbolTable::train(&sample);
    let encoder = Encoder::new(&table).expect("a table that was trained");
    (table, encoder)
}

/// Codes of a column and the length of each value's.
#[derive(Default)]
struct Ours {
    codes: Vec<u8>,
    lengths: Vec<u32>,
}

impl Ours {
    fn compress(&mut self, encoder: &Encoder, column: &Column) {
        self.codes.clear();
        self.lengths.clear();
        encoder.encode(&column.bytes, &column.offsets, &mut self.codes, &mut self.lengths);
    }
}

/// Codes of a column and the end of each value's.
#[derive(Default)]
struct Peer {
    codes: Vec<u8>,
    ends: Vec<u64>,
}

impl Peer {
    fn compress(&mut self, compressor: &fsst::Compressor, values: &[&[u8]]) {
        const LANES: usize = fsst::Compressor::DEFAULT_BULK_LANES;
        self.codes.clear();
        self.ends.clear();
        compressor.compress_bulk_into::<LANES>(values, &mut self.codes, &mut self.ends);
    }

    fn lengths(&self) -> Vec<u32> {
        let starts = std::iter::once(&0).chain(&self.ends);
        self.ends.iter().zip(starts).map(|(end, start)| (end - start) as u32).collect()
    }
}

/// Appends the values of `codes` to `out`, which is empty and large enough.
fn peer_decompress(decompressor: &fsst::Decompressor<'_>, codes: &[u8], out: &mut Vec<u8>) {
    let len = decompressor.decompress_into(codes, out.spare_capacity_mut());
    // SAFETY: `decompress_into` wrote as many bytes as it says.
    unsafe { out.set_len(len) };
}

/// Bytes of lengths that are packed from the least of each vector on.
fn packed_lengths(lengths: &[u32]) -> usize {
    let width = |lengths: &[u32]| {
        let bounds = lengths.iter().min().zip(lengths.iter().max());
        bounds.map_or(0, |(min, max)| 32 - (max - min).leading_zeros() as usize)
    };
    if width(lengths) == 0 {
        return 4;
    }
    lengths.chunks(VECTOR).map(|vector| width(vector) * VECTOR / 8 + 8).sum()
}

/// All comparisons of FSST.
pub fn visit(visitor: &mut dyn Visitor) {
    if !visitor.wants("FSST") {
        return;
    }
    for file in data::files("strings") {
        compare(&file, &Column::read(&file), visitor);
    }
}

fn compare(file: &data::File, column: &Column, visitor: &mut dyn Visitor) {
    let (name, counts) = (file.name.as_str(), file.is_real());
    let values = column.values();
    let (table, encoder) = train(&values);
    let compressor = fsst::Compressor::train(&values);
    let (mut ours, mut peer) = (Ours::default(), Peer::default());
    ours.compress(&encoder, column);
    peer.compress(&compressor, &values);
    let peer_symbols = compressor.symbol_lengths().iter().map(|len| usize::from(*len));
    let ours_bytes = ours.codes.len() + table.serialised_len();
    let peer_bytes = peer.codes.len() + 8 + peer_symbols.sum::<usize>();
    let size = |group, ours, peer| {
        let (input, raw) = (name.to_owned(), column.bytes.len());
        Size { group, input, raw, ours, peer, counts }
    };
    visitor.size(size("FSST factor, codes and table (peer: fsst-rs)", ours_bytes, peer_bytes));
    visitor.size(size(
        "FSST factor, code lengths too (peer: fsst-rs)",
        ours_bytes + packed_lengths(&ours.lengths),
        peer_bytes + packed_lengths(&peer.lengths()),
    ));
    let training = Pair::new(
        "FSST training (peer: fsst-rs)",
        name,
        0,
        || drop(black_box(train(&values))),
        || drop(black_box(fsst::Compressor::train(&values))),
    );
    visitor.pair(training.timed().counting(counts));

    let tiled = column.tiled(TIMED_BYTES);
    let values = tiled.values();
    let decoder = Decoder::new(&table);
    let decompressor = compressor.decompressor();
    ours.compress(&encoder, &tiled);
    peer.compress(&compressor, &values);
    let mut out = vec![0; tiled.bytes.len()];
    let mut peer_out = Vec::with_capacity(tiled.bytes.len() + 8);
    decoder.decode_exact(&ours.codes, &mut out).expect("codes of this table");
    peer_decompress(&decompressor, &peer.codes, &mut peer_out);
    assert!(out == tiled.bytes && peer_out == tiled.bytes, "{name}: values differ");
    let decompression = Pair::new(
        "FSST decompress (peer: fsst-rs)",
        name,
        tiled.bytes.len(),
        || decoder.decode_exact(&ours.codes, black_box(&mut out)).expect("codes of this table"),
        || {
            peer_out.clear();
            peer_decompress(&decompressor, &peer.codes, black_box(&mut peer_out));
        },
    );
    visitor.pair(decompression.counting(counts));
    let compression = Pair::new(
        "FSST compress (peer: fsst-rs)",
        name,
        tiled.bytes.len(),
        || ours.compress(&encoder, black_box(&tiled)),
        || peer.compress(&compressor, black_box(&values)),
    );
    visitor.pair(compression.counting(counts));
}
