//! FSST string compression: bytes become one-byte codes of symbols of 1 to 8
//! bytes (Boncz, Neumann, Leis, VLDB 2020).
//!
//! ```text
//! value   "https://a.io/b"     -> 17 4 203 255 'b'
//!          code 17 = "https://"  code 4 = "a"   code 203 = ".io/"   escape + literal
//! ```
//!
//! One [`SymbolTable`] serves a chunk. [`sample`] picks the bytes it is
//! trained on, [`Encoder`] and [`Decoder`] hold lookup tables derived from it,
//! and [`tile_index`] makes the codes of a chunk decodable from every 512th
//! code byte on, for engines with many threads per chunk.

mod decode;
mod encode;
mod node;
mod symbols;
mod tiles;
mod train;

pub use decode::{DecodeError, Decoder};
pub use encode::Encoder;
pub(crate) use node::{Fsst, GROUP_BYTES, Symbols};
pub use symbols::{ESCAPE, MAX_SYMBOL_LEN, MAX_SYMBOLS, SEGMENT, SymbolTable};
pub use tiles::{TILE, TileStart, tile_index};
pub use train::sample;

/// Bytes of the sample that a table is trained on.
pub(crate) const SAMPLE_BYTES: usize = 64 << 10;
