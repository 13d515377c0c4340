//! Tests of values of 128 and 256 bits.
//!
//! Most have one limb of 64 bits, whose node is then tested like any other; the rest are
//! put together and compared one by one.

use arrow_buffer::i256;

use super::{Found, NONE, Selector, words};
use crate::chunk::NodeView;
use crate::encoding::{self, Encoding, Output, Physical};
use crate::error::Result;
use crate::lanes::{Mask, VECTOR};
use crate::scan::ranges::{Key, Ranges};

/// The test of a node's values; statistics have not decided it.
pub(super) fn found<'a>(node: NodeView<'a>, ranges: &Ranges<i256>) -> Result<Found<'a>> {
    if node.encoding() == Encoding::Limbs && node.child_count() == 1 {
        return words::found(node.child(0), Key::LIMB, &ranges.of_one_limb());
    }
    Ok(Found::some(WideTest { node, ranges: ranges.clone() }))
}

struct WideTest<'a> {
    node: NodeView<'a>,
    ranges: Ranges<i256>,
}

impl Selector for WideTest<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        *mask = NONE;
        let mut values = [i256::ZERO; VECTOR];
        let rows = unpack(self.node, vector, &mut values)?;
        for (position, value) in values[..rows].iter().enumerate() {
            mask[position / 64] |= u64::from(self.ranges.contains(*value)) << (position % 64);
        }
        Ok(())
    }
}

/// The values of a vector; gives how many there are.
pub(super) fn unpack(
    node: NodeView<'_>,
    vector: usize,
    values: &mut [i256; VECTOR],
) -> Result<usize> {
    let rows = vector * VECTOR..node.len().min((vector + 1) * VECTOR);
    let count = rows.len();
    match node.physical() {
        Physical::I128 => {
            let mut limbs = [[0; 2]; VECTOR];
            encoding::decode(node, rows, Output::W128(&mut limbs[..count]))?;
            for (value, limbs) in values.iter_mut().zip(&limbs[..count]) {
                *value = i256::from_i128(bytemuck::cast(*limbs));
            }
        }
        _ => {
            let mut limbs = [[0; 4]; VECTOR];
            encoding::decode(node, rows, Output::W256(&mut limbs[..count]))?;
            for (value, limbs) in values.iter_mut().zip(&limbs[..count]) {
                *value = i256::from_le_bytes(bytemuck::cast(*limbs));
            }
        }
    }
    Ok(count)
}
