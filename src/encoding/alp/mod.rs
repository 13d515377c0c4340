//! ALP: floats that were decimals, stored as packed integers.
//!
//! ```text
//! value --* 10^e --* 10^-f --round--> n --- - base --> packed at `width` bits
//! value <-* 10^-e <-* 10^f <--------- n <-- + base --- packed
//! f32 also:  n / 10^e
//! ```
//!
//! A value whose way there and back isn't bit-identical is an exception and is
//! stored whole beside the vector. Source: Afroozeh, Kuffo, Boncz, "ALP:
//! Adaptive Lossless floating-Point Compression", SIGMOD 2023. Differences
//! here: `n` is limited to what a float's mantissa holds, so that decoding needs
//! no integer-to-float conversion, the search for exponents weighs sizes
//! instead of counting winners, outlying values may become exceptions, too, and
//! integers of `f32` may be divided ([`Exponents`]).

mod decode;
mod encode;
mod float;
mod node;
mod search;
mod select;
mod trim;

pub use decode::{decode_one, decode_vector};
pub use encode::{Encoded, encode_vector, estimate};
pub use float::{AlpFloat, Exponents};
pub(crate) use node::{Alp, sampled};
pub use search::{MAX_CANDIDATES, candidates, choose, sampled_vectors};
pub use trim::trim;

#[cfg(test)]
mod tests;
