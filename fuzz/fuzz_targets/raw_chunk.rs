//! Reads any bytes as header and body of a chunk.
//!
//! ```text
//! byte 0 kind of column | u16 length of the header | header | body
//! ```
#![no_main]

use lanepack_fuzz::{Chunk, array, options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some(([kind, low, high], bytes)) = input.split_first_chunk::<3>() else { return };
    let len = usize::from(u16::from_le_bytes([*low, *high])).min(bytes.len());
    let (header, body) = bytes.split_at(len);
    let mut chunk = Chunk::of(&array(*kind, 0, 0), &options(u8::MAX));
    chunk.header = header.to_vec();
    chunk.body = body.to_vec();
    chunk.read();
});
