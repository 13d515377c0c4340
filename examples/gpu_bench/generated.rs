//! Generated columns: integers, decimals, and values for encodings that nest.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, StringArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array, make_array,
};
use arrow_buffer::NullBuffer;
use lanepack::{Encoding, Options};

/// Columns for encodings that take more than one look at values: bits of a value first.
#[derive(Clone, Copy)]
pub enum Cascade {
    /// Integers below 2^width, but for so many a vector.
    Patched(usize, u32, u64),
    /// Reals from 1 to 2.
    Real(usize),
    /// Float32 that are bfloat16.
    Brain,
    /// Integers whose differences are below 2^width.
    Growing(usize, u32),
    /// Integers of so many bits, with all encodings that are allowed by default.
    Packed(usize, u32),
    /// Integers of so many.
    Distinct(usize, usize),
    /// The same with all encodings that are allowed by default.
    Repeated(usize, usize),
    /// Integers that come up to so many times in a row.
    Runs(usize, u64),
    /// So many bits, one row in so many null.
    Nulls(usize, u32, u64),
    /// Booleans, one in so many true.
    Flags(u64),
    /// Multiples of a thousand, of so many bits without these.
    Divided(usize, u32),
    /// Strings of so many, of 5 to 15 bytes.
    Words(usize),
}

impl Cascade {
    pub fn name(self) -> String {
        match self {
            Self::Patched(bits, width, exceptions) => {
                format!("pfor u{bits} of {width} bits, {exceptions} exc.")
            }
            Self::Real(bits) => format!("alp_rd f{bits}"),
            Self::Brain => "alp_rd f32 of 16 bits".to_owned(),
            Self::Growing(bits, width) => format!("delta u{bits} of {width} bits"),
            Self::Packed(bits, width) => format!("default u{bits} of {width} bits"),
            Self::Distinct(bits, count) => format!("dict u{bits} of {count}"),
            Self::Repeated(bits, count) => format!("default u{bits} of {count} values"),
            Self::Runs(bits, longest) => format!("rle u{bits} of runs up to {longest}"),
            Self::Nulls(bits, width, one_in) => {
                format!("default u{bits} of {width} bits, 1 in {one_in} null")
            }
            Self::Flags(one_in) => format!("default booleans, 1 in {one_in} true"),
            Self::Divided(bits, width) => format!("gcd u{bits} of {width} bits"),
            Self::Words(count) => format!("dict strings of {count}"),
        }
    }

    /// The name of the data, whatever the options.
    pub fn data(self) -> String {
        match self {
            Self::Patched(bits, width, exceptions) => {
                format!("u{bits} of {width} bits, {exceptions} exc.")
            }
            Self::Real(bits) => format!("f{bits} from 1 to 2"),
            Self::Brain => "f32 of bfloat16".to_owned(),
            Self::Growing(bits, width) => format!("u{bits} growing by {width} bits"),
            Self::Packed(bits, width) => format!("u{bits} of {width} bits"),
            Self::Distinct(bits, count) | Self::Repeated(bits, count) => {
                format!("u{bits} of {count} values")
            }
            Self::Runs(bits, longest) => format!("u{bits} in runs up to {longest}"),
            Self::Nulls(bits, width, one_in) => {
                format!("u{bits} of {width} bits, 1 in {one_in} null")
            }
            Self::Flags(one_in) => format!("booleans, 1 in {one_in} true"),
            Self::Divided(bits, width) => format!("u{bits} of {width} bits times 1000"),
            Self::Words(count) => format!("strings of {count} values"),
        }
    }

    /// The encoding that is asked for, whatever else would be smaller.
    pub fn options(self) -> Options {
        let encodings: &[Encoding] = match self {
            Self::Patched(..) => &[Encoding::Pfor],
            Self::Real(_) | Self::Brain => &[Encoding::AlpRd],
            Self::Growing(..) => &[Encoding::Delta, Encoding::Ffor],
            Self::Packed(..) | Self::Repeated(..) | Self::Nulls(..) | Self::Flags(_) => {
                return Options::default();
            }
            Self::Runs(..) => &[Encoding::Rle, Encoding::Ffor],
            Self::Distinct(..) => &[Encoding::Dict, Encoding::Ffor],
            Self::Divided(..) => &[Encoding::Gcd, Encoding::Ffor],
            Self::Words(_) => &[Encoding::Dict, Encoding::Ffor, Encoding::Fsst],
        };
        Options::default().with_encodings(encodings.iter().copied())
    }

    pub fn array(self) -> ArrayRef {
        let mut next = random(77);
        match self {
            Self::Patched(bits, width, exceptions) => words(bits, |_| {
                let value = next();
                if next() % 1024 < exceptions { value } else { value >> (64 - width) }
            }),
            Self::Growing(bits, width) => {
                let mut sum = 0_u64;
                words(bits, |_| {
                    sum = sum.wrapping_add(next() >> (64 - width));
                    sum
                })
            }
            Self::Packed(bits, width) => integers(bits, width),
            Self::Nulls(bits, width, one_in) => {
                let nulls = (0..ROWS).map(|_| !next().is_multiple_of(one_in));
                let data = integers(bits, width)
                    .to_data()
                    .into_builder()
                    .nulls(Some(NullBuffer::from_iter(nulls)));
                make_array(data.build().expect("a bit for each row"))
            }
            Self::Flags(one_in) => {
                let flags = (0..ROWS).map(|_| next().is_multiple_of(one_in));
                Arc::new(BooleanArray::from_iter(flags.map(Some)))
            }
            Self::Runs(bits, longest) => {
                let (mut left, mut value) = (0, 0);
                words(bits, |_| {
                    if left == 0 {
                        (left, value) = (1 + next() % longest, next());
                    }
                    left -= 1;
                    value
                })
            }
            Self::Divided(bits, width) => words(bits, |_| (next() >> (64 - width)) * 1000 + 7),
            Self::Distinct(bits, count) | Self::Repeated(bits, count) => {
                let values: Vec<u64> = (0..count).map(|_| next()).collect();
                words(bits, |_| values[next() as usize % count])
            }
            Self::Real(bits) => {
                let values = (0..ROWS).map(|_| 1.0 + (next() >> 11) as f64 / (1_u64 << 53) as f64);
                match bits {
                    32 => {
                        Arc::new(Float32Array::from_iter_values(values.map(|value| value as f32)))
                    }
                    _ => Arc::new(Float64Array::from_iter_values(values)),
                }
            }
            Self::Brain => {
                let real = (0..ROWS).map(|_| (next() >> 40) as f32 / (1_u64 << 24) as f32);
                let values = real.map(|value| f32::from_bits(value.to_bits() & !0xffff));
                Arc::new(Float32Array::from_iter_values(values))
            }
            Self::Words(count) => {
                let text = |_| {
                    let len = 5 + next() % 11;
                    (0..len).map(|_| char::from(b'a' + (next() % 26) as u8)).collect()
                };
                let texts: Vec<String> = (0..count).map(text).collect();
                let picked = (0..ROWS).map(|_| texts[next() as usize % count].as_str());
                Arc::new(StringArray::from_iter_values(picked))
            }
        }
    }
}

/// Pseudo-random numbers (SplitMix64).
pub fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Rows of generated columns: eight chunks.
const ROWS: usize = 8 * lanepack::MAX_CHUNK_ROWS;

pub fn integers(bits: usize, width: u32) -> ArrayRef {
    let mut next = random(u64::from(width));
    let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
    words(bits, |_| (next() & mask).wrapping_add(if width < 8 { 3 } else { 0 }))
}

/// Unsigned integers of so many bits.
fn words(bits: usize, value: impl FnMut(usize) -> u64) -> ArrayRef {
    let values = (0..ROWS).map(value);
    match bits {
        8 => Arc::new(UInt8Array::from_iter_values(values.map(|value| value as u8))),
        16 => Arc::new(UInt16Array::from_iter_values(values.map(|value| value as u16))),
        32 => Arc::new(UInt32Array::from_iter_values(values.map(|value| value as u32))),
        _ => Arc::new(UInt64Array::from_iter_values(values)),
    }
}

/// Numbers below 2^width in steps of 1 / `per_one`.
pub fn decimals(double: bool, width: u32, exceptions: u64, per_one: f64) -> ArrayRef {
    let mut next = random(u64::from(width) + 100);
    let values = (0..ROWS).map(|_| {
        let value = (next() >> (64 - width)) as f64 / per_one;
        if next() % 1024 < exceptions { value * std::f64::consts::PI } else { value }
    });
    match double {
        true => Arc::new(Float64Array::from_iter_values(values)),
        false => Arc::new(Float32Array::from_iter_values(values.map(|value| value as f32))),
    }
}
