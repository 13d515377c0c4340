//! Nodes of encodings of strings; `decode/strings.rs` has their steps.

use super::Decoder;
use crate::decode::program::Target;
use crate::encoding::Encoding;
use crate::gpu::DevicePtr;
use crate::gpu::abi::Node;

pub(super) struct Fsst;

impl Decoder for Fsst {
    fn encoding(&self) -> Encoding {
        Encoding::Fsst
    }

    fn node(&self, target: &Target<'_>) -> Node {
        // Bytes of codes.
        Node { size: target.view.buffer_range(1).len() as u64, ..target.own_node() }
    }
}

pub(super) struct Front;

impl Decoder for Front {
    fn encoding(&self) -> Encoding {
        Encoding::Front
    }

    fn node(&self, target: &Target<'_>) -> Node {
        with_starts(target)
    }
}

/// What kernels see of strings that are put together from others: their starts, where other
/// encodings have them, and bytes of values.
pub(super) fn with_starts(target: &Target<'_>) -> Node {
    let own = target.own_node();
    starts_of(own, own.buffer[0])
}

/// The same with starts that are stored elsewhere.
pub(super) fn starts_of(own: Node, starts: DevicePtr<u8>) -> Node {
    let buffer = [DevicePtr::NULL, starts, DevicePtr::NULL, DevicePtr::NULL];
    Node { buffer, size: own.parameter, ..own }
}
