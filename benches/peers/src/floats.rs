//! ALP against the crate alp 0.0.4, which vortex-alp 0.90 calls for its encoding
//! and decoding, with fastlanes for packing as Vortex does.
//!
//! Both get the file tiled to 16 MB, in chunks of 131,072 values, and write into
//! memory that is there already:
//!
//! ```text
//! encode    exponents, integers, exceptions, frame of reference, packing
//!           lanepack: pair and width per vector; alp: per chunk, its interface
//! ... only  the same without packing (and the peer without frame of reference),
//!           which is all that `alp_encode` of vortex-alp does
//! decode    unpacking, floats, exceptions
//! ```
//!
//! The peer decodes vector by vector, through a buffer that stays in the cache.
//! Files with nulls are left out, and those that another file holds, too;
//! starred are also files that ALP makes no smaller, which lanepack stores in
//! another way.

use std::hint::black_box;
use std::ops::Range;

use alp::ALPFloat;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_schema::DataType;
use fastlanes::{BitPacking, FoR};
use lanepack::internals::alp::{
    AlpFloat, Encoded, Exponents, candidates, choose, decode_vector, encode_vector,
    sampled_vectors, trim,
};
use lanepack::internals::lanes::{self, VECTOR};

use crate::{Pair, Size, TIMED_BYTES, Visitor, data};

const CHUNK: usize = 128 * VECTOR;
/// Bits of all slots of a vector.
const VALID: [u64; VECTOR / 64] = [u64::MAX; VECTOR / 64];
/// Files whose values are also in the file of the same name with `_rg`.
const CONTAINED: [&str; 3] = ["bitcoin_transactions_f", "city_temperature_f", "nyc29"];

/// A float that both sides encode.
trait Float:
    AlpFloat<Bits: BitPacking + FoR + bytemuck::Pod>
    + ALPFloat<ALPInt: bytemuck::Pod + Ord>
    + bytemuck::Pod
{
    const ENCODE_GROUP: &'static str;
    const ENCODE_ONLY_GROUP: &'static str;
    const DECODE_GROUP: &'static str;
    const SIZE_GROUP: &'static str;

    /// Bits from `min` to `max`.
    fn width(min: Self::ALPInt, max: Self::ALPInt) -> usize;

    /// `values - base`.
    fn rebase(values: &[Self::ALPInt], base: Self::ALPInt, out: &mut [Self::Bits; VECTOR]);
}

macro_rules! float {
    ($float:ident, $int:ident, $bits:ident) => {
        impl Float for $float {
            const ENCODE_GROUP: &'static str =
                concat!("ALP ", stringify!($float), " encode (peer: alp and fastlanes)");
            const ENCODE_ONLY_GROUP: &'static str =
                concat!("ALP ", stringify!($float), " encode only, no packing (peer: alp)");
            const DECODE_GROUP: &'static str =
                concat!("ALP ", stringify!($float), " decode (peer: alp and fastlanes)");
            const SIZE_GROUP: &'static str =
                concat!("ALP ", stringify!($float), " size (peer: alp and fastlanes)");

            fn width(min: $int, max: $int) -> usize {
                ($bits::BITS - max.wrapping_sub(min).leading_zeros()) as usize
            }

            fn rebase(values: &[$int], base: $int, out: &mut [$bits; VECTOR]) {
                for (out, value) in out.iter_mut().zip(values) {
                    *out = value.wrapping_sub(base) as $bits;
                }
            }
        }
    };
}

float!(f32, i32, u32);
float!(f64, i64, u64);

/// Words of a packed vector.
fn packed_len<F>(width: usize) -> usize {
    width * VECTOR / 8 / size_of::<F>()
}

/// Room for the packed words of a column of vectors, at any width.
fn packed<F: Float>(len: usize) -> Vec<F::Bits> {
    vec![F::Bits::default(); len]
}

/// A vector as lanepack encodes it.
struct Vector<F: AlpFloat> {
    exponents: Exponents,
    base: F::Int,
    packed: Range<usize>,
    width: usize,
    exceptions: Range<usize>,
}

/// A column as lanepack encodes it.
struct Ours<F: Float> {
    packed: Vec<F::Bits>,
    vectors: Vec<Vector<F>>,
    positions: Vec<u16>,
    exceptions: Vec<F>,
    encoded: Encoded<F>,
}

impl<F: Float> Ours<F> {
    fn new(len: usize) -> Self {
        let (vectors, positions, exceptions) = (Vec::new(), Vec::new(), Vec::new());
        Self { packed: packed::<F>(len), vectors, positions, exceptions, encoded: Encoded::new() }
    }

    fn encode<const PACK: bool>(&mut self, values: &[[F; VECTOR]]) {
        self.vectors.clear();
        self.positions.clear();
        self.exceptions.clear();
        let mut end = 0;
        for chunk in values.chunks(CHUNK / VECTOR) {
            let sample: Vec<_> =
                sampled_vectors(chunk.len()).map(|index| (&chunk[index], VALID)).collect();
            let pairs = candidates(&sample);
            for values in chunk {
                let exponents = choose(values, &VALID, &pairs);
                encode_vector(values, &VALID, exponents, &mut self.encoded);
                trim(&mut self.encoded, &VALID);
                let (encoded, width) = (&self.encoded, usize::from(self.encoded.width));
                let packed = end..end + packed_len::<F>(width);
                end = packed.end;
                if PACK {
                    let out = &mut self.packed[packed.clone()];
                    lanes::pack(&encoded.values, F::Bits::default(), width, out);
                }
                let first = self.exceptions.len();
                if encoded.exception_count > 0 {
                    for (word, bits) in encoded.exceptions.iter().enumerate() {
                        let mut bits = *bits;
                        while bits != 0 {
                            let slot = word * 64 + bits.trailing_zeros() as usize;
                            self.positions.push(slot as u16);
                            self.exceptions.push(values[slot]);
                            bits &= bits - 1;
                        }
                    }
                }
                let exceptions = first..self.exceptions.len();
                self.vectors.push(Vector {
                    exponents,
                    base: encoded.base,
                    packed,
                    width,
                    exceptions,
                });
            }
        }
    }

    fn decode(&self, out: &mut [[F; VECTOR]]) {
        for (vector, out) in self.vectors.iter().zip(out) {
            let packed = &self.packed[vector.packed.clone()];
            decode_vector(packed, vector.base, vector.width, vector.exponents, out);
            let positions = &self.positions[vector.exceptions.clone()];
            for (slot, value) in positions.iter().zip(&self.exceptions[vector.exceptions.clone()]) {
                out[usize::from(*slot)] = *value;
            }
        }
    }

    /// Packed words, exceptions with positions, and a word and a half of
    /// parameters for each vector.
    fn bytes(&self) -> usize {
        let packed = self.vectors.last().map_or(0, |vector| vector.packed.end) * size_of::<F>();
        let parameters = self.vectors.len() * (size_of::<F>() + 4);
        packed + parameters + self.exceptions.len() * (size_of::<F>() + 2)
    }
}

/// A chunk as the peer encodes it.
struct PeerChunk<F: ALPFloat> {
    exponents: alp::Exponents,
    base: F::ALPInt,
    width: usize,
    start: usize,
    positions: Vec<u64>,
    exceptions: Vec<F>,
    /// First exception of each vector.
    offsets: Vec<u64>,
}

/// A column as the peer encodes it.
struct Peer<F: Float> {
    packed: Vec<F::Bits>,
    chunks: Vec<PeerChunk<F>>,
    integers: Vec<F::ALPInt>,
}

impl<F: Float> Peer<F> {
    fn new(len: usize) -> Self {
        let zero = <F::ALPInt as bytemuck::Zeroable>::zeroed();
        let chunk = |_| PeerChunk {
            exponents: alp::Exponents { e: 0, f: 0 },
            base: zero,
            width: 0,
            start: 0,
            positions: Vec::new(),
            exceptions: Vec::new(),
            offsets: Vec::new(),
        };
        let chunks = (0..len.div_ceil(CHUNK)).map(chunk).collect();
        Self { packed: packed::<F>(len), chunks, integers: Vec::with_capacity(CHUNK) }
    }

    fn encode<const PACK: bool>(&mut self, values: &[F]) {
        let mut end = 0;
        for (values, chunk) in values.chunks(CHUNK).zip(&mut self.chunks) {
            chunk.positions.clear();
            chunk.exceptions.clear();
            chunk.offsets.clear();
            self.integers.clear();
            chunk.exponents = alp::encode_into(
                values,
                None,
                &mut self.integers.spare_capacity_mut()[..values.len()],
                &mut chunk.positions,
                &mut chunk.exceptions,
                &mut chunk.offsets,
            );
            // SAFETY: `encode_into` initialises one integer per value.
            unsafe { self.integers.set_len(values.len()) };
            if !PACK {
                black_box(&mut self.integers);
                continue;
            }
            let bounds = self.integers.iter().min().zip(self.integers.iter().max());
            let (min, max) = bounds.map(|(min, max)| (*min, *max)).expect("values");
            (chunk.base, chunk.width, chunk.start) = (min, F::width(min, max), end);
            let mut vector = [F::Bits::default(); VECTOR];
            for values in self.integers.chunks_exact(VECTOR) {
                F::rebase(values, min, &mut vector);
                let packed = &mut self.packed[end..end + packed_len::<F>(chunk.width)];
                // SAFETY: the packed slice is as long as the width asks for.
                unsafe { F::Bits::unchecked_pack(chunk.width, &vector, packed) };
                end += packed.len();
            }
        }
    }

    fn decode(&self, out: &mut [F]) {
        let mut integers = [F::Bits::default(); VECTOR];
        for (out, chunk) in out.chunks_mut(CHUNK).zip(&self.chunks) {
            let len = packed_len::<F>(chunk.width);
            let base: F::Bits = bytemuck::cast(chunk.base);
            for (index, out) in out.chunks_exact_mut(VECTOR).enumerate() {
                let packed = &self.packed[chunk.start + index * len..][..len];
                // SAFETY: the packed slice is as long as the width asks for.
                unsafe {
                    F::Bits::unchecked_unfor_pack(chunk.width, packed, base, &mut integers);
                }
                alp::decode_into(bytemuck::cast_slice(&integers), chunk.exponents, out);
                let next =
                    chunk.offsets.get(index + 1).map_or(chunk.positions.len() as u64, |&n| n);
                let exceptions = chunk.offsets[index] as usize..next as usize;
                let positions = &chunk.positions[exceptions.clone()];
                for (position, value) in positions.iter().zip(&chunk.exceptions[exceptions]) {
                    out[*position as usize - index * VECTOR] = *value;
                }
            }
        }
    }

    /// As [`Ours::bytes`], with the parameters counted once per chunk.
    fn bytes(&self, len: usize) -> usize {
        let chunks = self.chunks.iter().enumerate();
        let bytes = chunks.map(|(index, chunk)| {
            let vectors = CHUNK.min(len - index * CHUNK) / VECTOR;
            let exceptions = chunk.exceptions.len() * (size_of::<F>() + 2);
            vectors * chunk.width * VECTOR / 8 + exceptions + size_of::<F>() + 4
        });
        bytes.sum()
    }
}

/// All comparisons of ALP.
pub fn visit(visitor: &mut dyn Visitor) {
    if !visitor.wants("ALP") {
        return;
    }
    let files = data::files("floats");
    for file in files.iter().filter(|file| !CONTAINED.contains(&file.name.as_str())) {
        let column = file.column();
        match column.data_type() {
            _ if column.null_count() > 0 => {}
            DataType::Float32 => compare::<Float32Type>(file, &column, visitor),
            _ => compare::<Float64Type>(file, &column, visitor),
        }
    }
}

fn compare<T: ArrowPrimitiveType<Native: Float>>(
    file: &data::File,
    column: &dyn Array,
    visitor: &mut dyn Visitor,
) {
    let name = file.name.as_str();
    let values = column.as_primitive::<T>().values();
    let len = TIMED_BYTES / size_of::<T::Native>();
    let values: Vec<T::Native> = values.iter().copied().cycle().take(len).collect();
    let (vectors, _) = values.as_chunks::<VECTOR>();
    let (mut ours, mut peer) = (Ours::<T::Native>::new(len), Peer::<T::Native>::new(len));
    ours.encode::<true>(vectors);
    peer.encode::<true>(&values);
    let counts = file.is_real() && ours.bytes() < TIMED_BYTES;

    let mut out = vec![[T::Native::default(); VECTOR]; vectors.len()];
    let mut peer_out = vec![T::Native::default(); len];
    ours.decode(&mut out);
    peer.decode(&mut peer_out);
    let bits = bytemuck::cast_slice::<_, u8>(&values);
    assert!(bytemuck::cast_slice::<_, u8>(out.as_flattened()) == bits, "{name}: values differ");
    assert!(bytemuck::cast_slice::<_, u8>(&peer_out) == bits, "{name}: the peer's values differ");

    visitor.size(Size {
        group: T::Native::SIZE_GROUP,
        input: name.to_owned(),
        raw: TIMED_BYTES,
        ours: ours.bytes(),
        peer: peer.bytes(len),
        counts,
    });
    let decoding = Pair::new(
        T::Native::DECODE_GROUP,
        name,
        TIMED_BYTES,
        || ours.decode(black_box(&mut out)),
        || peer.decode(black_box(&mut peer_out)),
    );
    visitor.pair(decoding.counting(counts));
    let encoding = Pair::new(
        T::Native::ENCODE_GROUP,
        name,
        TIMED_BYTES,
        || ours.encode::<true>(black_box(vectors)),
        || peer.encode::<true>(black_box(&values)),
    );
    visitor.pair(encoding.counting(counts));
    let encoding_only = Pair::new(
        T::Native::ENCODE_ONLY_GROUP,
        name,
        TIMED_BYTES,
        || ours.encode::<false>(black_box(vectors)),
        || peer.encode::<false>(black_box(&values)),
    );
    visitor.pair(encoding_only.counting(counts));
}
