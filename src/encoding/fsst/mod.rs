//! FSST string compression: bytes become one-byte codes of symbols of 1 to 8
//! bytes (Boncz, Neumann, Leis, VLDB 2020).
//!
//! ```text
//! value   "https://a.io/b"     -> 17 4 203 255 'b'
//!          code 17 = "https://"  code 4 = "a"   code 203 = ".io/"   escape + literal
//! ```
//!
//! One [`SymbolTable`] serves a chunk of values; values longer than [`SEGMENT`]
//! are parsed segment by segment. [`sample`] picks the bytes it is
//! trained on, [`Encoder`] and [`Decoder`] hold lookup tables derived from it,
//! and [`tile_index`] makes the codes of a chunk decodable from every 512th
//! code byte on, for engines with many threads per chunk.

#[cfg(target_arch = "x86_64")]
mod blocks;
mod decode;
mod encode;
mod lanes;
mod node;
mod sample;
mod symbols;
mod tiles;
mod train;

pub use decode::Decoder;
pub use encode::Encoder;
pub(crate) use node::{
    ESTIMATE_PIECES, Fsst, SampledCodes, Symbols, Trained, coded, coded_by_own, pays, tiles_len,
};
pub use sample::sample;
pub(crate) use sample::{LEAST_SAMPLE, MOST_SAMPLE, PIECE, SAMPLE_SHARE};
pub use symbols::SymbolTable;
pub(crate) use symbols::{ESCAPE, SEGMENT};
pub(crate) use tiles::{GROUP, OFFSET_BITS, TILES_PER_GROUP};
pub use tiles::{TILE, TileStart, tile_index};
pub(crate) use train::{
    ADDITIONS, BYTES_PER_OCCURRENCE, LEAST_COUNT, REFINEMENTS, SHARES, SINGLE_WEIGHT, SWAPS,
    VACANT, WHOLE,
};
