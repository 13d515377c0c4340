//! FastLanes bit-packing: 1,024 values of `T` at any width 0..=`T::BITS`.
//!
//! A vector is packed as `T::LANES` interleaved bit streams, so that one
//! machine word of any SIMD width holds the same bit position of neighbouring
//! lanes and no instruction ever moves bits across lanes:
//!
//! ```text
//! packed[w * LANES + l]     lane 0   lane 1   ...   lane LANES-1
//!              word 0      [row 0 | row 1 | row 2 ..]  <- each lane holds its
//!              word 1      [.. row 2 | row 3 | ..   ]     rows back to back,
//!              word W-1    [..          row BITS-1  ]     W bits each
//! ```
//!
//! Width `W` takes `W * 128` bytes whatever `T` is. Source: Afroozeh, Boncz,
//! "The FastLanes Compression Layout", VLDB 2023.

mod kernels;
mod lane;
pub(crate) mod mask;
mod order;
mod pack;
mod select;
pub(crate) mod simd;

pub(crate) use kernels::{LevelTable, for_each_width, level_table, unpack_rows};
pub use lane::Lane;
pub use order::{VECTOR, index, row_lane};
pub use pack::{pack, packed_len, unpack, unpack_one};
pub(crate) use select::{Mask, select_packed, select_values};
