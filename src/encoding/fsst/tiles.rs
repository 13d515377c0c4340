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

use super::decode::DecodeError;
use super::symbols::{ESCAPE, SymbolTable};

/// Code bytes per tile.
pub const TILE: usize = 512;
/// Tiles that share an offset in the stored index, and the bytes they take there.
pub(crate) const TILES_PER_GROUP: usize = 16;
pub(crate) const GROUP: usize = 8 + TILES_PER_GROUP * 2;
/// Bits of a group's offset; above are those of tiles that begin inside an escape.
pub(crate) const OFFSET_BITS: u32 = 48;

/// State of decoding at the first byte of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileStart {
    /// Bytes that the codes wholly before the tile stand for.
    pub offset: u64,
    /// Whether the first byte of the tile is the literal of an escape.
    pub inside_escape: bool,
}

impl TileStart {
    /// Tile `tile` of a stored index, which has been validated.
    fn read(index: &[u8], tile: usize) -> Self {
        let (group, place) = (tile / TILES_PER_GROUP * GROUP, tile % TILES_PER_GROUP);
        let head = index[group..].first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
        let relative = index[group + 8 + place * 2..].first_chunk();
        let relative = relative.map_or(0, |relative| u16::from_le_bytes(*relative));
        Self {
            offset: (head & ((1 << OFFSET_BITS) - 1)) + u64::from(relative),
            inside_escape: head >> (OFFSET_BITS + place as u32) & 1 == 1,
        }
    }
}

/// A stored tile index that is compared with what its codes stand for while they are decoded, so
/// that the CPU, which does not need it, accepts no index that a GPU refuses.
pub(crate) struct TileCheck<'a> {
    index: &'a [u8],
    /// Tiles of the index.
    tiles: usize,
    /// The next tile to compare.
    tile: usize,
    /// Code bytes, and bytes that they stand for, before the first of the decoded codes.
    before: [usize; 2],
}

impl<'a> TileCheck<'a> {
    /// Of no index.
    pub fn none() -> Self {
        Self { index: &[], tiles: 0, tile: 0, before: [0; 2] }
    }

    /// Of the index of `codes` code bytes, decoded from where `before` says on.
    pub fn new(index: &'a [u8], codes: usize, before: [usize; 2]) -> Self {
        Self { index, tiles: codes.div_ceil(TILE), tile: before[0].div_ceil(TILE), before }
    }

    /// Where the next tile begins, in code bytes from the first that is decoded on.
    #[inline(always)]
    pub fn next(&self) -> usize {
        if self.tile < self.tiles { self.tile * TILE - self.before[0] } else { usize::MAX }
    }

    /// Compares the next tile: `written` bytes have been decoded before it.
    pub fn pass(&mut self, written: usize, inside_escape: bool) -> Result<(), DecodeError> {
        let found = TileStart { offset: (self.before[1] + written) as u64, inside_escape };
        let stated = TileStart::read(self.index, self.tile);
        self.tile += 1;
        if stated == found { Ok(()) } else { Err(DecodeError::Tile) }
    }
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

#[cfg(test)]
mod tests {
    use super::super::Encoder;
    use super::*;

    /// The index by decoding all codes one by one.
    fn reference(table: &SymbolTable, codes: &[u8]) -> Vec<TileStart> {
        let mut starts = Vec::new();
        let (mut offset, mut position) = (0, 0);
        for boundary in (0..codes.len()).step_by(TILE) {
            let mut inside_escape = false;
            while position < boundary {
                let escape = codes[position] == ESCAPE;
                if escape && position + 1 == boundary {
                    inside_escape = true;
                    break;
                }
                offset += if escape { 1 } else { table.symbol_len(codes[position]) as u64 };
                position += 1 + escape as usize;
            }
            starts.push(TileStart { offset, inside_escape });
        }
        starts
    }

    #[test]
    fn the_index_equals_a_naive_walk() {
        let table = SymbolTable::from_symbols([&b"a"[..], b"bc", b"abcabc", b"cab"]).unwrap();
        let encoder = Encoder::new(&table).unwrap();
        let mut seed = 1u64;
        let mut inside = 0;
        for round in 0..40 {
            let mut data = Vec::new();
            let mut offsets = vec![0];
            for _ in 0..round * 5 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let len = (seed >> 33) as usize % [5, 100, 5000][round % 3];
                data.extend(
                    (0..len).map(|i| b"abcabcabd"[(seed >> 40) as usize * (i + i / 9) % 9]),
                );
                offsets.push(data.len());
            }
            let (mut codes, mut lens) = (Vec::new(), Vec::new());
            encoder.encode(&data, &offsets, &mut codes, &mut lens);
            let index = tile_index(&table, &codes, &lens, &offsets);
            assert_eq!(index, reference(&table, &codes));
            inside += index.iter().filter(|start| start.inside_escape).count();
        }
        assert!(inside > 0);
    }

    #[test]
    fn a_tile_that_starts_inside_an_escape_owns_its_literal() {
        let table = SymbolTable::from_symbols([&b"aa"[..]]).unwrap();
        let encoder = Encoder::new(&table).unwrap();
        let mut data = vec![b'a'; 2 * (TILE - 1)];
        data.extend(b"xaa");
        let offsets = [0, 500, data.len()];
        let (mut codes, mut lens) = (Vec::new(), Vec::new());
        encoder.encode(&data, &offsets, &mut codes, &mut lens);
        let index = tile_index(&table, &codes, &lens, &offsets);
        let offset = 2 * (TILE as u64 - 1);
        assert_eq!(index[1], TileStart { offset, inside_escape: true });
    }

    #[test]
    fn no_codes_have_no_tiles() {
        assert!(tile_index(&SymbolTable::empty(), &[], &[], &[]).is_empty());
        assert!(tile_index(&SymbolTable::empty(), &[], &[0, 0], &[3, 3, 3]).is_empty());
    }
}
