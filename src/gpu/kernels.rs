//! The kernels that the host starts: their names, and the shapes of their
//! launches, read from `kernels/launch.cuh` when the crate is compiled.

use super::abi::constant;

/// A kernel with its launch shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    /// Name in the module.
    pub name: &'static str,
    /// Threads of a block.
    pub threads: u32,
    /// What a block works on at most, in the unit of the kernel: values, bytes, ...
    pub block: usize,
}

impl Kernel {
    /// Blocks for the longest node of a launch.
    pub fn blocks_per_node(self, longest: usize) -> u32 {
        longest.div_ceil(self.block).max(1) as u32
    }
}

const LAUNCH: &str = include_str!("../../kernels/launch.cuh");

const fn shape(name: &str) -> u32 {
    constant(LAUNCH, name) as u32
}

const fn words(name: &'static str) -> Kernel {
    Kernel { name, threads: shape("WORDS_THREADS"), block: shape("WORDS_VALUES") as usize }
}

/// Values of 8, 16, 32 and 64 bits.
pub(crate) type ByWidth = [Kernel; 4];

pub(crate) const FFOR: ByWidth =
    [words("ffor_8"), words("ffor_16"), words("ffor_32"), words("ffor_64")];
pub(crate) const PLAIN: ByWidth =
    [words("plain_8"), words("plain_16"), words("plain_32"), words("plain_64")];
pub(crate) const CONSTANT: ByWidth =
    [words("constant_8"), words("constant_16"), words("constant_32"), words("constant_64")];
pub(crate) const ALP_32: Kernel = words("alp_32");
pub(crate) const ALP_64: Kernel = words("alp_64");

const fn limb(name: &'static str) -> Kernel {
    Kernel { name, threads: shape("LIMB_THREADS"), block: shape("LIMB_VALUES") as usize }
}

pub(crate) const LIMB_FFOR: Kernel = limb("limb_ffor");
pub(crate) const LIMB_PLAIN: Kernel = limb("limb_plain");
pub(crate) const LIMB_CONSTANT: Kernel = limb("limb_constant");

/// Blocks count words of 32 bits, of which a node may touch one more than it fills.
pub(crate) const BITS: Kernel =
    Kernel { name: "bits", threads: shape("BITS_THREADS"), block: shape("BITS_THREADS") as usize };

/// Blocks count codes.
pub(crate) const FSST_DECODE: Kernel = Kernel {
    name: "fsst_decode",
    threads: shape("FSST_THREADS"),
    block: shape("FSST_CODES") as usize,
};

const fn bytes(name: &'static str) -> Kernel {
    Kernel { name, threads: shape("BYTES_THREADS"), block: shape("BYTES_BYTES") as usize }
}

pub(crate) const BYTES_PLAIN: Kernel = bytes("bytes_plain");
pub(crate) const BYTES_CONSTANT: Kernel = bytes("bytes_constant");

const fn offsets(name: &'static str) -> Kernel {
    let threads = shape("OFFSETS_THREADS");
    Kernel { name, threads, block: (threads / 32) as usize * crate::lanes::VECTOR }
}

pub(crate) const OFFSETS_32: Kernel = offsets("offsets_32");
pub(crate) const OFFSETS_64: Kernel = offsets("offsets_64");

/// Blocks count bytes, and as many rows.
pub(crate) const UTF8: Kernel = Kernel {
    name: "utf8",
    threads: shape("UTF8_THREADS"),
    block: (shape("UTF8_THREADS") * shape("UTF8_BYTES")) as usize,
};
pub(crate) const VIEWS: Kernel = Kernel {
    name: "views",
    threads: shape("VIEWS_THREADS"),
    block: shape("VIEWS_THREADS") as usize,
};
pub(crate) const FIXED: Kernel = Kernel {
    name: "fixed",
    threads: shape("FIXED_THREADS"),
    block: shape("FIXED_VALUES") as usize,
};
