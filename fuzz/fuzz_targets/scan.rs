//! Compresses several columns to several chunks, patches headers and bodies, makes checksums right
//! or not, and scans.
//!
//! ```text
//! byte 0 columns, and which checksums are made right | 1..4 kinds | 4 shape | 5 rows | 6 encoding |
//! 7..11 filters | patches of 4 bytes:
//!   u16 where (bit 15: body, else header; 13, 14: column; 11, 12: chunk) | operation | operand
//! ```
//!
//! Without bounds, which damage may have made lies, a scan's answers have to be those that Arrow's
//! kernels give for the decompressed values.
#![no_main]

use lanepack_fuzz::{Seal, Table, options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((head, patches)) = input.split_first_chunk::<11>() else { return };
    let kinds = &head[1..2 + usize::from(head[0] % 3)];
    let seal = match head[0] / 3 % 4 {
        0 => Seal::Nothing,
        1 => Seal::Chunks,
        _ => Seal::WithoutBounds,
    };
    let mut table = Table::of(kinds, head[4], head[5], options(head[6] % 32));
    table.patch(patches);
    table.scan(seal, [head[7], head[8], head[9], head[10]]);
});
