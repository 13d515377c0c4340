//! The order in which the parts of a filter are evaluated, as told by what evaluates them: the steps
//! of a chunk on the CPU, the writer of a kernel's source, launches. Plans print it, so that they
//! cannot say anything else than what is done.

use crate::scan::predicate::Predicate;

/// A part of a filter.
#[derive(Debug, Clone)]
pub(in crate::scan) enum Part {
    /// Rows that all of the deeper parts behind it keep.
    All,
    /// Rows that one of them keeps.
    Any,
    /// Rows that the one part behind it does not keep.
    Not,
    /// A predicate without parts.
    Leaf(Predicate),
}

/// Parts of a filter in the order of their evaluation, each with its depth.
#[derive(Debug, Clone, Default)]
pub(in crate::scan) struct StepOrder {
    parts: Vec<(usize, Part)>,
    depth: usize,
}

impl StepOrder {
    /// Begins a predicate, whose parts follow; [`StepOrder::leave`] ends it.
    pub fn enter(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::All(_) => self.push(Part::All),
            Predicate::Any(_) => self.push(Part::Any),
            Predicate::Not(_) => self.push(Part::Not),
            leaf => self.push(Part::Leaf(leaf.clone())),
        }
        self.depth += 1;
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Adds a part at the depth of the predicates that have begun.
    pub fn push(&mut self, part: Part) {
        self.parts.push((self.depth, part));
    }

    /// Adds parts that something else has told, deeper than the predicates that have begun.
    pub fn extend(&mut self, other: &Self) {
        let depth = self.depth;
        self.parts.extend(other.parts.iter().map(|(at, part)| (depth + at, part.clone())));
    }

    /// Adds a part that has others, which `tell` adds.
    pub fn within(&mut self, part: Part, tell: impl FnOnce(&mut Self)) {
        self.push(part);
        self.depth += 1;
        tell(self);
        self.depth -= 1;
    }

    /// The first predicate with its parts.
    pub fn first(&self) -> Self {
        let end = self.parts.iter().skip(1).position(|(depth, _)| *depth == 0);
        let end = end.map_or(self.parts.len(), |at| at + 1);
        Self { parts: self.parts[..end].to_vec(), depth: 0 }
    }

    /// The parts, without constants, which nothing evaluates. Rows have to pass all parts of a list, so an
    /// `All` at the top has no part of its own.
    pub fn parts(&self) -> Vec<(usize, &Part)> {
        let mut found = Vec::with_capacity(self.parts.len());
        let mut is_within = false;
        for (depth, part) in &self.parts {
            match (depth, part) {
                (_, Part::Leaf(Predicate::Constant(_))) => {}
                (0, Part::All) => is_within = true,
                (0, part) => {
                    is_within = false;
                    found.push((0, part));
                }
                (depth, part) => found.push((depth - usize::from(is_within), part)),
            }
        }
        found
    }
}
