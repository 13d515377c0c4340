//! Limbs: each child is written to its words of all values, the last one with its sign to those
//! above; children that are not plain, constant or ffor are decoded to scratch first.

use std::sync::Arc;

use super::{Decoder, WideWord};
use crate::decode::cascade::SIMPLE;
use crate::decode::program::{Job, Launched, Program, Target, most_rows};
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::DeviceBuffer;
use crate::gpu::abi::{FORMAT, LimbArguments, constant};
use crate::gpu::kernels::{Kernel, copy, unit};

const _: () = assert!(constant(FORMAT, "LIMBS") == Encoding::Limbs as u64);

/// The encodings of children that kernels read, and these.
const CHILDREN: [(Encoding, Kernel<LimbArguments>); 3] = [
    (Encoding::Plain, copy("limb_plain", 8)),
    (Encoding::Constant, copy("limb_constant", 8)),
    (Encoding::Ffor, unit("limb_ffor", 8)),
];

pub(super) struct Limbs;

impl Decoder for Limbs {
    fn encoding(&self) -> Encoding {
        Encoding::Limbs
    }

    fn decode_wide(
        &self,
        program: &mut Program<'_>,
        targets: &[Target<'_>],
        limbs: usize,
        out: &Arc<DeviceBuffer>,
    ) -> Result<()> {
        for limb in 0..limbs {
            for fill in 1..=limbs - limb {
                // The children that hold this limb, the last ones of their node also those above.
                let children: Vec<Target<'_>> = (targets.iter())
                    .filter(|target| {
                        let count = target.view.child_count();
                        let fills = if limb + 1 == count { limbs - limb } else { 1 };
                        limb < count && fills == fill
                    })
                    .map(|target| target.child(limb))
                    .collect();
                let children = program.readable(&children, &SIMPLE)?;
                for (encoding, kernel) in CHILDREN {
                    let has = |job: &&Job| job.node.encoding == encoding as u16;
                    let jobs: Vec<Job> = children.iter().filter(has).copied().collect();
                    let out_at = out.pointer();
                    let arguments = move |at: &Launched| LimbArguments {
                        nodes: at.nodes,
                        out: out_at,
                        blocks_per_node: at.blocks_per_node,
                        limbs: limbs as u32,
                        limb: limb as u32,
                        fill: fill as u32,
                    };
                    program.step(kernel, &jobs, &[], most_rows(&jobs), arguments, &[out]);
                }
            }
        }
        Ok(())
    }

    fn wide_word<'a>(&self, target: &Target<'a>, word: usize) -> WideWord<'a> {
        match word < target.view.child_count() {
            true => WideWord::Node(target.child(word)),
            false => WideWord::Sign,
        }
    }
}
