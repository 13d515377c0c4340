//! The packing loops, one body for every type, width and instruction set.
//!
//! ```text
//! for each lane (SIMD):  for each row (unrolled, W constant):
//!     value = word >> shift [ | next << (BITS - shift) ] & mask    store base + value
//! ```
//!
//! A kernel walks the lanes and runs through all rows of each. Rows are unrolled
//! by macro, because only then each shift is a constant; the compiler turns the
//! loop over lanes into SIMD. The 744 kernels for packing and unpacking take 19 s of one core to compile and
//! 1.4 MB of code. Lost: tables as plain trait constants instead of statics, for
//! every crate that uses them compiled all kernels again.

use super::select::{SelectFn, select_baseline};
#[cfg(target_arch = "x86_64")]
use super::select::{select_avx2, select_avx512};
use super::simd::Level;
use super::{Lane, VECTOR, index};

/// A kernel that packs one vector at the width it was made for.
pub type PackFn<T> = unsafe fn(&[T; VECTOR], T, &mut [T]);
/// A kernel that unpacks one vector at the width it was made for.
pub type UnpackFn<T> = unsafe fn(&[T], T, &mut [T; VECTOR]);

/// Kernels by level, then by width. A kernel may be called only where its level
/// was detected.
pub type LevelTable<K> = [&'static &'static [K]; Level::ALL.len()];

/// The kernels of a type for widths 0..=BITS.
pub trait Kernels: Sized + 'static {
    /// Packing.
    const PACK: LevelTable<PackFn<Self>>;
    /// Unpacking.
    const UNPACK: LevelTable<UnpackFn<Self>>;
    /// Unpacking only which values lie in a range.
    const SELECT: LevelTable<SelectFn<Self>>;
}

/// Runs `$step!(row)` for each row of `$t`, unrolled.
macro_rules! for_each_row {
    ($t:ident, $step:ident) => {
        for_each_row!(@ $step 0 1 2 3 4 5 6 7);
        if $t::BITS > 8 {
            for_each_row!(@ $step 8 9 10 11 12 13 14 15);
        }
        if $t::BITS > 16 {
            for_each_row!(@ $step 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        }
        if $t::BITS > 32 {
            for_each_row!(@ $step 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
            for_each_row!(@ $step 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
        }
    };
    (@ $step:ident $($row:literal)*) => { $($step!($row);)* };
}

/// Expands `$go! { $args; widths }` with all widths of a type of `$bits` bits.
macro_rules! for_each_width {
    (8, $go:ident, $($args:tt)*) => {
        $go! { $($args)*; 0 1 2 3 4 5 6 7 8 }
    };
    (16, $go:ident, $($args:tt)*) => {
        $go! { $($args)*; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 }
    };
    (23, $go:ident, $($args:tt)*) => {
        $go! { $($args)*; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 }
    };
    (32, $go:ident, $($args:tt)*) => {
        $go! { $($args)*; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25
            26 27 28 29 30 31 32 }
    };
    (52, $go:ident, $($args:tt)*) => {
        $go! { $($args)*; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25
            26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 }
    };
    (64, $go:ident, $($args:tt)*) => {
        $go! { $($args)*; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25
            26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53
            54 55 56 57 58 59 60 61 62 63 64 }
    };
}
pub(crate) use for_each_width;

/// Unpacks width `W` and stores `map` of each value.
#[inline(always)]
pub(crate) fn unpack_rows<T: Lane, O: Copy, const W: usize>(
    packed: &[T],
    values: &mut [O; VECTOR],
    map: impl Fn(T) -> O,
) {
    if W == 0 {
        *values = [map(T::ZERO); VECTOR];
        return;
    }
    // One check here instead of one for each word below.
    let packed = &packed[..W * T::LANES];
    for lane in 0..T::LANES {
        let mut word = packed[lane];
        macro_rules! row {
            ($row:literal) => {
                let shift = $row * W % T::BITS;
                let mut value = word >> shift;
                if shift + W >= T::BITS && $row + 1 < T::BITS {
                    word = packed[($row * W / T::BITS + 1) * T::LANES + lane];
                    if shift + W > T::BITS {
                        value |= word << (T::BITS - shift);
                    }
                }
                values[index($row, lane)] = map(value & T::mask(W));
            };
        }
        for_each_row!(T, row);
    }
}

/// Packs `value - base` at width `W`.
#[inline(always)]
fn pack_rows<T: Lane, const W: usize>(values: &[T; VECTOR], base: T, packed: &mut [T]) {
    if W == 0 {
        return;
    }
    if W == T::BITS && base == T::ZERO {
        // A copy of rows: half the time of the same with a subtraction.
        for (row, words) in packed.chunks_exact_mut(T::LANES).enumerate() {
            words.copy_from_slice(&values[index(row, 0)..][..T::LANES]);
        }
        return;
    }
    let packed = &mut packed[..W * T::LANES];
    for lane in 0..T::LANES {
        let mut word = T::ZERO;
        macro_rules! row {
            ($row:literal) => {
                let shift = $row * W % T::BITS;
                let value = values[index($row, lane)].wrapping_sub(base) & T::mask(W);
                word |= value << shift;
                if shift + W >= T::BITS {
                    packed[$row * W / T::BITS * T::LANES + lane] = word;
                    word = if shift + W > T::BITS { value >> (T::BITS - shift) } else { T::ZERO };
                }
            };
        }
        for_each_row!(T, row);
        let _ = word; // the last row always fills its word
    }
}

macro_rules! level_kernels {
    ($pack:ident, $unpack:ident $(, $feature:literal)?) => {
        $(#[cfg(target_arch = "x86_64")] #[target_feature(enable = $feature)])?
        fn $pack<T: Lane, const W: usize>(values: &[T; VECTOR], base: T, packed: &mut [T]) {
            pack_rows::<T, W>(values, base, packed);
        }

        $(#[cfg(target_arch = "x86_64")] #[target_feature(enable = $feature)])?
        fn $unpack<T: Lane, const W: usize>(packed: &[T], base: T, values: &mut [T; VECTOR]) {
            unpack_rows::<T, T, W>(packed, values, |value| base.wrapping_add(value));
        }
    };
}

level_kernels!(pack_baseline, unpack_baseline);
level_kernels!(pack_avx2, unpack_avx2, "avx2");
level_kernels!(pack_avx512, unpack_avx512, "avx512f,avx512bw,avx512dq,avx512vl");

/// The table of kernels `$fn` by level, then by width.
///
/// Statics, so that the code is generated once, in this crate, and not in each
/// crate that uses it.
macro_rules! level_table {
    ($fn:ty; $baseline:ident $avx2:ident $avx512:ident; $t:ident; $($w:literal)*) => {{
        static BASELINE: &[$fn] = &[$($baseline::<$t, $w>),*];
        #[cfg(target_arch = "x86_64")]
        static AVX2: &[$fn] = &[$($avx2::<$t, $w>),*];
        #[cfg(target_arch = "x86_64")]
        static AVX512: &[$fn] = &[$($avx512::<$t, $w>),*];
        [
            &BASELINE,
            #[cfg(target_arch = "x86_64")]
            &AVX2,
            #[cfg(target_arch = "x86_64")]
            &AVX512,
        ]
    }};
}
pub(crate) use level_table;

macro_rules! kernels {
    ($t:ident; $($w:literal)*) => {
        impl Kernels for $t {
            const PACK: LevelTable<PackFn<$t>> =
                level_table!(PackFn<$t>; pack_baseline pack_avx2 pack_avx512; $t; $($w)*);
            const UNPACK: LevelTable<UnpackFn<$t>> =
                level_table!(UnpackFn<$t>; unpack_baseline unpack_avx2 unpack_avx512; $t; $($w)*);
            const SELECT: LevelTable<SelectFn<$t>> =
                level_table!(SelectFn<$t>; select_baseline select_avx2 select_avx512; $t; $($w)*);
        }
    };
}

for_each_width!(8, kernels, u8);
for_each_width!(16, kernels, u16);
for_each_width!(32, kernels, u32);
for_each_width!(64, kernels, u64);
