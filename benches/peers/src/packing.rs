//! Frame of reference and bit-packing against fastlanes.
//!
//! Both have the same layout (checked). Unpacking adds the base on both sides;
//! on packing lanepack subtracts it, fastlanes does not: its packing with a base
//! takes the width at compile time only. One call for each of 64 vectors of a
//! width, or of 128 vectors of all widths, which stay in the cache.

use std::hint::black_box;

use fastlanes::{BitPacking, FoR};
use lanepack::internals::lanes::{self, VECTOR};

use crate::{Pair, Visitor};

/// Vectors of one run at a single width.
const VECTORS: usize = 64;
/// Vectors of one run at all widths.
const ALL_VECTORS: usize = 128;
const WIDTHS: [usize; 8] = [3, 7, 12, 17, 24, 31, 47, 63];
const BASE: u8 = 77;

/// Random words, seeded: xorshift64.
fn random(seed: usize) -> impl FnMut() -> u64 {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Vectors of one width, packed and not.
struct Vectors<T> {
    width: usize,
    /// Words of a packed vector.
    packed_len: usize,
    values: Vec<[T; VECTOR]>,
    packed: Vec<T>,
}

macro_rules! compare {
    ($word:ident, $unpack:literal, $pack:literal, $visitor:expr) => {{
        let vectors = |(width, count): (usize, usize)| {
            let mut next = random(width);
            let mask = u64::MAX >> (64 - width);
            let mut value = || ((next() & mask) as $word).wrapping_add($word::from(BASE));
            let values: Vec<[$word; VECTOR]> =
                (0..count).map(|_| std::array::from_fn(|_| value())).collect();
            let packed_len = width * VECTOR / $word::BITS as usize;
            let packed = vec![0; packed_len * count];
            Vectors { width, packed_len, values, packed }
        };
        let ours_pack = |vectors: &mut Vectors<$word>| {
            let packed = vectors.packed.chunks_exact_mut(vectors.packed_len);
            for (values, packed) in black_box(&vectors.values).iter().zip(packed) {
                lanes::pack(values, $word::from(BASE), vectors.width, packed);
            }
        };
        let peer_pack = |vectors: &mut Vectors<$word>| {
            let packed = vectors.packed.chunks_exact_mut(vectors.packed_len);
            for (values, packed) in black_box(&vectors.values).iter().zip(packed) {
                // SAFETY: the packed slice is as long as the width asks for.
                unsafe { $word::unchecked_pack(vectors.width, values, packed) };
            }
        };
        let ours_unpack = |vectors: &mut Vectors<$word>| {
            let packed = black_box(&vectors.packed).chunks_exact(vectors.packed_len);
            for (values, packed) in vectors.values.iter_mut().zip(packed) {
                lanes::unpack(packed, $word::from(BASE), vectors.width, values);
            }
        };
        let peer_unpack = |vectors: &mut Vectors<$word>| {
            let (width, base) = (vectors.width, $word::from(BASE));
            let packed = black_box(&vectors.packed).chunks_exact(vectors.packed_len);
            for (values, packed) in vectors.values.iter_mut().zip(packed) {
                // SAFETY: the packed slice is as long as the width asks for.
                unsafe { $word::unchecked_unfor_pack(width, packed, base, values) };
            }
        };
        let run =
            |name: &str, widths: Vec<(usize, usize)>, counts: bool, visitor: &mut dyn Visitor| {
                let mut ours: Vec<_> = widths.iter().copied().map(vectors).collect();
                for vectors in &mut ours {
                    let values = vectors.values.clone();
                    ours_pack(vectors);
                    vectors.values.fill([0; VECTOR]);
                    peer_unpack(vectors);
                    assert!(vectors.values == values, "{name}: fastlanes unpacks other values");
                    vectors.values.fill([0; VECTOR]);
                    ours_unpack(vectors);
                    assert!(vectors.values == values, "{name}: values differ");
                }
                let mut peer: Vec<_> = widths.into_iter().map(vectors).collect();
                for (peer, ours) in peer.iter_mut().zip(&ours) {
                    peer.packed.copy_from_slice(&ours.packed);
                }
                let bytes = ours.iter().map(|vectors| size_of_val(vectors.values.as_slice())).sum();
                let unpacking = Pair::new(
                    $unpack,
                    name,
                    bytes,
                    || ours.iter_mut().for_each(ours_unpack),
                    || peer.iter_mut().for_each(peer_unpack),
                );
                visitor.pair(unpacking.counting(counts));
                let packing = Pair::new(
                    $pack,
                    name,
                    bytes,
                    || ours.iter_mut().for_each(ours_pack),
                    || peer.iter_mut().for_each(peer_pack),
                );
                visitor.pair(packing.counting(counts));
            };
        let bits = $word::BITS as usize;
        for width in WIDTHS.into_iter().filter(|width| *width < bits) {
            run(&format!("width {width}"), vec![(width, VECTORS)], true, $visitor);
        }
        let all = (1..=bits).map(|width| (width, ALL_VECTORS / bits)).collect();
        run("all widths", all, false, $visitor);
    }};
}

/// All comparisons of packing.
pub fn visit(visitor: &mut dyn Visitor) {
    if !visitor.wants("FFOR") {
        return;
    }
    compare!(u8, "FFOR u8 unpack (peer: fastlanes)", "FFOR u8 pack (peer: fastlanes)", visitor);
    compare!(u16, "FFOR u16 unpack (peer: fastlanes)", "FFOR u16 pack (peer: fastlanes)", visitor);
    compare!(u32, "FFOR u32 unpack (peer: fastlanes)", "FFOR u32 pack (peer: fastlanes)", visitor);
    compare!(u64, "FFOR u64 unpack (peer: fastlanes)", "FFOR u64 pack (peer: fastlanes)", visitor);
}
