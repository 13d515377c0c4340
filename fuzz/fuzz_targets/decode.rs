//! Compresses a value, patches header and body, and reads the result.
//!
//! ```text
//! byte 0 kind | 1 shape | 2 rows | 3 encoding | patches of 4 bytes:
//!   u16 where (bit 15: body, else header) | operation | operand
//! ```
//!
//! Random input as a chunk would hardly pass the first check; this reaches the
//! decoders of every encoding.
#![no_main]

use lanepack_fuzz::{Chunk, array, options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(([kind, shape, rows, encoding], patches)) = input.split_first_chunk::<4>() else {
        return;
    };
    let mut chunk = Chunk::of(&array(*kind, *shape, *rows), &options(*encoding % 32));
    for patch in patches.as_chunks::<4>().0 {
        let place = u16::from_le_bytes([patch[0], patch[1]]);
        let bytes = if place >> 15 == 1 { &mut chunk.body } else { &mut chunk.header };
        if bytes.is_empty() {
            continue;
        }
        let at = usize::from(place & 0x7fff) % bytes.len();
        let operand = patch[3];
        match patch[2] % 5 {
            0 => bytes[at] = operand,
            1 => bytes[at] ^= operand,
            2 => bytes[at] = bytes[at].wrapping_add(operand),
            3 => bytes.truncate(at),
            _ => bytes.resize(bytes.len() + usize::from(operand), 0),
        }
    }
    chunk.read();
});
