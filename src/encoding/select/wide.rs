//! Values of 128 and 256 bits, as 256 bits have them.

use arrow_buffer::i256;

use super::{Selector, Verdict};
use crate::encoding::{self, NodeView, Output, Physical};
use crate::error::Result;
use crate::lanes::{Mask, VECTOR};
use crate::ranges::Ranges;

/// The test of values that are decoded vector by vector.
pub(crate) fn decoded<'a>(node: NodeView<'a>, ranges: &Ranges<i256>) -> Verdict<'a> {
    Verdict::some(DecodedTest { node, ranges: ranges.clone() })
}

struct DecodedTest<'a> {
    node: NodeView<'a>,
    ranges: Ranges<i256>,
}

impl Selector for DecodedTest<'_> {
    fn select(&self, vector: usize, mask: &mut Mask) -> Result<()> {
        let mut of_vector = [i256::ZERO; VECTOR];
        values(self.node, vector, &mut of_vector)?;
        for (word, values) in mask.iter_mut().zip(of_vector.as_chunks::<64>().0) {
            *word = 0;
            for (bit, value) in values.iter().enumerate() {
                *word |= u64::from(self.ranges.contains(*value)) << bit;
            }
        }
        Ok(())
    }
}

/// The values of a vector; those past the end stay as they are.
pub(crate) fn values(node: NodeView<'_>, vector: usize, values: &mut [i256; VECTOR]) -> Result<()> {
    let rows = vector * VECTOR..node.len().min((vector + 1) * VECTOR);
    let count = rows.len();
    match node.physical() {
        Physical::I128 => {
            let mut words = [[0; 2]; VECTOR];
            encoding::decode(node, rows, Output::W128(&mut words[..count]))?;
            for (value, words) in values.iter_mut().zip(&words[..count]) {
                *value = i256::from_i128(bytemuck::cast(*words));
            }
        }
        _ => {
            let mut words = [[0; 4]; VECTOR];
            encoding::decode(node, rows, Output::W256(&mut words[..count]))?;
            for (value, words) in values.iter_mut().zip(&words[..count]) {
                *value = i256::from_le_bytes(bytemuck::cast(*words));
            }
        }
    }
    Ok(())
}
