//! What kernels find wrong with data, as messages.

use super::abi::Header;

/// What kernels find wrong: `lanepack::Fault`.
pub(crate) struct Fault;

impl Fault {
    const CODE: u32 = 1;
    const ESCAPE: u32 = 2;
    const TILE_BYTES: u32 = 3;
    const LENGTHS: u32 = 4;
    const UTF8: u32 = 5;
    const CHARACTER: u32 = 6;
    const WIDTH: u32 = 7;
    const VALUE: u32 = 8;
    const RUNS: u32 = 9;
    const PREFIX: u32 = 10;
    const SEGMENT: u32 = 11;
    const BOUNDS: u32 = 12;

    /// The rule that is broken.
    pub fn message(fault: u32) -> String {
        let what = match fault {
            Self::CODE => "a code that stands for no symbol",
            Self::ESCAPE => "codes that end inside an escape",
            Self::TILE_BYTES => "codes that stand for more or fewer bytes than the tile index says",
            Self::LENGTHS => "lengths of a vector that do not add up to its bytes",
            Self::UTF8 => "text that is not UTF-8",
            Self::CHARACTER => "a text that ends inside a character",
            Self::WIDTH => "a value of another width than its column's",
            Self::RUNS => "runs of a vector that do not add up to its values",
            Self::PREFIX => "a row that begins with more bytes than the one before has",
            Self::SEGMENT => "literals and matches that do not make the symbols of a segment",
            Self::BOUNDS => "a value outside the bounds of its column",
            Self::VALUE => "a code of a dictionary that stands for no value",
            _ => return format!("fault {fault} of a kernel"),
        };
        what.to_owned()
    }
}

const NODE: &Header = &Header::read(include_str!("../../kernels/lanepack/node.cuh"));

const fn fault(name: &str) -> u32 {
    NODE.number("FAULT_", name) as u32
}

const _: () = {
    assert!(fault("CODE") == Fault::CODE);
    assert!(fault("ESCAPE") == Fault::ESCAPE);
    assert!(fault("TILE_BYTES") == Fault::TILE_BYTES);
    assert!(fault("LENGTHS") == Fault::LENGTHS);
    assert!(fault("UTF8") == Fault::UTF8);
    assert!(fault("CHARACTER") == Fault::CHARACTER);
    assert!(fault("WIDTH") == Fault::WIDTH);
    assert!(fault("VALUE") == Fault::VALUE);
    assert!(fault("RUNS") == Fault::RUNS);
    assert!(fault("PREFIX") == Fault::PREFIX);
    assert!(fault("SEGMENT") == Fault::SEGMENT);
    assert!(fault("BOUNDS") == Fault::BOUNDS);
};
