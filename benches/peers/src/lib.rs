//! lanepack beside its peers on one machine, on the same bytes, in the same run.
//!
//! ```text
//! cargo bench -p peers --bench cpu_codecs -- --summary [--json] [text]   Markdown tables, or JSON
//! cargo bench -p peers --bench cpu_codecs -- [filter]                    criterion
//! ```
//!
//! [`strings`] is FSST against fsst-rs, [`floats`] ALP against the crate alp,
//! [`packing`] bit-packing against fastlanes, [`scans`] filters and [`queries`] sums of
//! filtered rows against Arrow's kernels, [`tables`] whole tables against Parquet. Each is a
//! function that prepares inputs, checks that both sides give the same, and hands every
//! comparison to a [`Visitor`] as a [`Pair`]; the two ways to run above are two visitors.
//! `--summary text` keeps the groups whose name contains the text, which begins with FSST,
//! ALP, FFOR, scan, queries, table or folder.
//!
//! Inputs are the files of `../shared/data` beside the repository, or of the
//! folder that `LANEPACK_DATA` names, and TPC-H lineitem at the scale factor
//! `LANEPACK_TPCH_SF` (0.1). Without the folder its comparisons are left out.
//!
//! lanepack picks its kernels when it runs, the peers' are compiled for the
//! target: `RUSTFLAGS="-C target-cpu=native"` gives the peers the same
//! instructions.

pub mod data;
pub mod floats;
pub mod packing;
pub mod queries;
pub mod scans;
pub mod strings;
pub mod summary;
pub mod tables;

/// Bytes that an input is tiled to at least before it is timed.
pub const TIMED_BYTES: usize = 16 << 20;

/// The same work done by lanepack and by a peer.
pub struct Pair<'a> {
    /// What is compared, and with whom.
    pub group: &'static str,
    /// What it is done to.
    pub input: String,
    /// Uncompressed bytes of one run; none where the time says more.
    pub bytes: Option<usize>,
    /// Whether it belongs in the mean of its group: synthetic data and sums of
    /// other rows do not.
    pub counts: bool,
    ours: Box<dyn FnMut() + 'a>,
    peer: Box<dyn FnMut() + 'a>,
}

impl<'a> Pair<'a> {
    /// A comparison of throughputs that counts in the mean.
    pub fn new(
        group: &'static str,
        input: impl Into<String>,
        bytes: usize,
        ours: impl FnMut() + 'a,
        peer: impl FnMut() + 'a,
    ) -> Self {
        let (ours, peer) = (Box::new(ours), Box::new(peer));
        Self { group, input: input.into(), bytes: Some(bytes), counts: true, ours, peer }
    }

    /// Compares times, not throughputs.
    pub fn timed(self) -> Self {
        Self { bytes: None, ..self }
    }

    /// Says whether it counts in the mean.
    pub fn counting(self, counts: bool) -> Self {
        Self { counts, ..self }
    }

    /// Runs lanepack once.
    pub fn ours(&mut self) {
        (self.ours)();
    }

    /// Runs the peer once.
    pub fn peer(&mut self) {
        (self.peer)();
    }
}

/// What lanepack and a peer make of the same input, in bytes.
#[derive(Debug, Clone)]
pub struct Size {
    /// What is counted, and with whom it is compared.
    pub group: &'static str,
    /// What was compressed.
    pub input: String,
    /// Bytes before.
    pub raw: usize,
    /// Bytes of lanepack's.
    pub ours: usize,
    /// Bytes of the peer's.
    pub peer: usize,
    /// As [`Pair::counts`].
    pub counts: bool,
}

/// What to do with comparisons.
pub trait Visitor {
    /// Whether to prepare what belongs to this name.
    fn wants(&self, _name: &str) -> bool {
        true
    }

    /// Takes a comparison of times.
    fn pair(&mut self, pair: Pair<'_>);

    /// Takes a comparison of sizes.
    fn size(&mut self, size: Size);
}

/// Every comparison there is.
pub fn visit(visitor: &mut dyn Visitor) {
    strings::visit(visitor);
    floats::visit(visitor);
    packing::visit(visitor);
    scans::visit(visitor);
    queries::visit(visitor);
    tables::visit(visitor);
}
