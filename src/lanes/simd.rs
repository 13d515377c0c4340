//! Choice of the instruction set at run time.
//!
//! Each hot loop is written once as portable code that the compiler vectorises,
//! and is compiled for the build's own target and again for AVX2 and AVX-512.
//! The standard library caches the detection; asking costs a few loads for
//! 1,024 values. AVX-512 pays: on a Sapphire Rapids core unpacking takes 0.7 of
//! the time of AVX2, ALP encoding 0.6.

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

#[inline(always)]
fn detected() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return Level::Avx512;
        }
        if is_x86_feature_detected!("avx2") {
            return Level::Avx2;
        }
    }
    Level::Baseline
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
