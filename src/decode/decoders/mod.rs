//! How each encoding is decoded on a device: its kernels, what these see of its nodes, and the
//! steps of a [`Program`] that run them.
//!
//! An encoding that has more to say than one kernel for each width has a file here, and a row of
//! [`DECODERS`]; nothing outside names it. Children that its kernels do not read as they are
//! stored it asks for by [`Program::readable`], which decodes them to scratch.

mod bits;
mod delta;
mod dict;
mod gcd;
mod limbs;
mod lz;
mod plain;
mod rle;
mod single;
mod strings;

use std::sync::Arc;

pub(super) use dict::{check_codes, with_dictionary};

use super::program::{Program, Target};
use crate::chunk::NodeView;
use crate::encoding::{self, Encoding, Physical};
use crate::error::{Error, Result};
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::Node;
use crate::gpu::kernels::Kernel;

/// What decodes one encoding: what `DECODERS` has a row for.
pub(super) trait Decoder: Sync {
    /// Which one.
    fn encoding(&self) -> Encoding;

    /// What kernels see of a node.
    fn node(&self, target: &Target<'_>) -> Node {
        match target.view.physical() {
            // Bytes of the values as they are stored.
            Physical::Bytes => {
                Node { size: target.view.buffer_range(0).len() as u64, ..target.own_node() }
            }
            _ => target.own_node(),
        }
    }

    /// Adds the steps that decode words of so many bits, 8 to 64, to `out`.
    fn decode_words(
        &self,
        _: &mut Program<'_>,
        _: &[Target<'_>],
        bits: usize,
        _: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        Err(no_values(self.encoding(), bits))
    }

    /// The same of wide values, of so many words of 64 bits each.
    fn decode_wide(
        &self,
        _: &mut Program<'_>,
        _: &[Target<'_>],
        words: usize,
        _: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        Err(no_values(self.encoding(), words * 64))
    }

    /// Where a word of wide values is stored.
    fn wide_word<'a>(&self, _: &Target<'a>, _: usize) -> WideWord<'a> {
        WideWord::Beside
    }
}

/// Where the words of 64 bits of a chunk's wide values are stored that have the same place in them.
pub(super) enum WideWord<'a> {
    /// In a node of their own.
    Node(Target<'a>),
    /// Beside the other words of the value.
    Beside,
    /// They are the sign of the words below.
    Sign,
}

/// All encodings that devices decode.
static DECODERS: [&dyn Decoder; 15] = [
    &plain::Plain,
    &single::CONSTANT,
    &single::FFOR,
    &single::PFOR,
    &single::ALP,
    &single::ALP_RD,
    &delta::Delta,
    &dict::Dict,
    &gcd::Gcd,
    &rle::Rle,
    &limbs::Limbs,
    &bits::Bits,
    &lz::Lz,
    &strings::Fsst,
    &strings::Front,
];

/// What decodes an encoding; none if only the CPU does.
pub(super) fn of(encoding: Encoding) -> Option<&'static dyn Decoder> {
    DECODERS.iter().find(|decoder| decoder.encoding() == encoding).copied()
}

/// An encoding of a tree that only the CPU decodes.
pub(super) fn only_on_cpu(root: NodeView<'_>) -> Option<Encoding> {
    encoding::find(root, |encoding| of(encoding).is_none())
}

/// Where a word of a chunk's wide values is stored.
pub(super) fn wide_word<'a>(target: &Target<'a>, word: usize) -> WideWord<'a> {
    of(target.view.encoding()).map_or(WideWord::Beside, |decoder| decoder.wide_word(target, word))
}

/// The error for values that no kernel decodes.
pub(super) fn no_values(encoding: Encoding, bits: usize) -> Error {
    Error::corrupt(format!("{encoding} values of {bits} bits"))
}

/// The kernel for values of so many bits: `kernels` are for 8 to 64 bits, or for 32 and 64.
fn by_width<A>(kernels: &[Kernel<A>], bits: usize) -> Option<Kernel<A>> {
    let width = matches!(bits, 8 | 16 | 32 | 64).then(|| bits.trailing_zeros() as usize - 3)?;
    kernels.get(width.checked_sub(4 - kernels.len())?).copied()
}
