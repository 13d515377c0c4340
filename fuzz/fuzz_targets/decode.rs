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

use lanepack_fuzz::{Chunk, array, options, patch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(([kind, shape, rows, encoding], patches)) = input.split_first_chunk::<4>() else {
        return;
    };
    let mut chunk = Chunk::of(&array(*kind, *shape, *rows), &options(*encoding % 32));
    patch(patches, |place, change| {
        let bytes = if place >> 15 == 1 { &mut chunk.body } else { &mut chunk.header };
        change(bytes, usize::from(place & 0x7fff));
    });
    chunk.read();
});
