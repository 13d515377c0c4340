//! Choice of the instruction set at run time.
//!
//! Each hot loop is written once as portable code that the compiler vectorises,
//! and is compiled for the build's own target and again for AVX2 and AVX-512.
//! The level is cached in one byte: the standard library's own cache, asked for
//! four features, takes 6 ns of the 15 that unpacking 1,024 `u8` takes. AVX-512 pays: on a Sapphire Rapids core unpacking takes 0.75 of
//! the time of AVX2, ALP encoding 0.6.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU8, Ordering};

/// The instruction sets that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What the build's target guarantees: SSE2 on x86-64, NEON on AArch64.
    Baseline = 0,
    /// AVX2 was detected.
    #[cfg(target_arch = "x86_64")]
    Avx2 = 1,
    /// AVX-512 F, BW, DQ and VL were detected.
    #[cfg(target_arch = "x86_64")]
    Avx512 = 2,
}

impl Level {
    /// All levels of this architecture, in order.
    pub(crate) const ALL: &[Level] = &[
        Level::Baseline,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512,
    ];
}

/// The best level that this processor runs.
#[inline(always)]
pub(crate) fn level() -> Level {
    #[cfg(test)]
    return detected().min(tests::LIMIT.get());
    #[cfg(not(test))]
    detected()
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn detected() -> Level {
    Level::Baseline
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn detected() -> Level {
    /// The detected level, or more than any before the first call.
    static DETECTED: AtomicU8 = AtomicU8::new(u8::MAX);

    #[cold]
    fn detect() -> Level {
        let level = if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            Level::Avx512
        } else if is_x86_feature_detected!("avx2") {
            Level::Avx2
        } else {
            Level::Baseline
        };
        DETECTED.store(level as u8, Ordering::Relaxed);
        level
    }

    match DETECTED.load(Ordering::Relaxed) {
        0 => Level::Baseline,
        1 => Level::Avx2,
        2 => Level::Avx512,
        _ => detect(),
    }
}

/// Compiles one generic function for every [`Level`] and picks at run time.
///
/// The body must be portable code; what it calls must be `#[inline(always)]` to
/// be compiled for the level, too.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$g:ident: $bound:path>(
        $($arg:ident: $ty:ty),* $(,)?
    ) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name<$g: $bound>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn portable<$g: $bound>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2<$g: $bound>($($arg: $ty),*) $(-> $ret)? {
                portable::<$g>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512<$g: $bound>($($arg: $ty),*) $(-> $ret)? {
                portable::<$g>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            match $crate::lanes::simd::level() {
                // SAFETY: `level` detected the features that the function enables.
                $crate::lanes::simd::Level::Avx512 => return unsafe { avx512::<$g>($($arg),*) },
                // SAFETY: as above.
                $crate::lanes::simd::Level::Avx2 => return unsafe { avx2::<$g>($($arg),*) },
                $crate::lanes::simd::Level::Baseline => {}
            }
            portable::<$g>($($arg),*)
        }
    };
}
pub(crate) use multiversion;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// The highest level that this thread may use.
        pub(super) static LIMIT: Cell<Level> = const { Cell::new(*Level::ALL.last().unwrap()) };
    }

    /// Runs `test` at each level that this processor has.
    pub(crate) fn at_each_level(test: impl Fn()) {
        for &at in Level::ALL {
            LIMIT.set(at);
            test();
        }
    }
}
