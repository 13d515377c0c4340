//! The tile index: where each 512 code bytes of a chunk begin in its output.
//!
//! ```text
//! codes    |..... 17 255|'b' 4 17 ......|
//!                       ^ tile t: inside_escape, offset = bytes of all codes
//!                         up to and including 17; 'b' is the tile's own
//! ```
//!
//! A thread block decodes a tile knowing only this. The index follows from the
//! lengths of values and of their codes, and only values that a boundary cuts
//! are walked, up to the last boundary in them.

use super::symbols::{ESCAPE, SymbolTable};

/// Code bytes per tile.
pub const TILE: usize = 512;

/// State of decoding at the first byte of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileStart {
    /// Bytes that the codes wholly before the tile stand for.
    pub offset: u64,
    /// Whether the first byte of the tile is the literal of an escape.
    pub inside_escape: bool,
}

/// The start of each tile of the codes that [`Encoder::encode`] appended.
///
/// `code_lens` and `offsets` are those of the same call, so code `lens` add up
/// to the length of `codes`; positions in the result count from the first
/// code. Codes without symbol count as no bytes.
///
/// [`Encoder::encode`]: super::Encoder::encode
pub fn tile_index(
    table: &SymbolTable,
    codes: &[u8],
    code_lens: &[u32],
    offsets: &[usize],
) -> Vec<TileStart> {
    let mut bytes_of = [0u8; 256];
    for (bytes, symbol) in bytes_of.iter_mut().zip(table.words()) {
        *bytes = symbol.len as u8;
    }
    let tiles = codes.len().div_ceil(TILE);
    let mut starts = Vec::with_capacity(tiles);
    let mut value_codes = 0;
    for (&len, pair) in code_lens.iter().zip(offsets.windows(2)) {
        let value_end = value_codes + len as usize;
        let mut position = value_codes;
        let mut offset = (pair[0] - offsets[0]) as u64;
        while starts.len() < tiles && starts.len() * TILE < value_end {
            let boundary = starts.len() * TILE;
            let mut inside_escape = false;
            while position < boundary {
                let escape = codes[position] == ESCAPE;
                inside_escape = escape && position + 1 == boundary;
                if inside_escape {
                    break;
                }
                offset += if escape { 1 } else { bytes_of[codes[position] as usize] as u64 };
                position += 1 + escape as usize;
            }
            starts.push(TileStart { offset, inside_escape });
        }
        value_codes = value_end;
    }
    starts
}
