//! From a draft to the automaton: the fewest states, in the order of first reach.
//!
//! Hopcroft's algorithm (1971): states start in two blocks, those that accept and those
//! that do not, and a block is split where some byte leads part of it into another. Of
//! the parts of a split only one need be looked at again, the smaller, which is what
//! bounds the work. Most bytes of most states reject: as the part with that sink is
//! never the one that is looked at, these transitions are not even listed.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::{ACCEPT, Automaton, Draft, REJECT};

impl Draft {
    /// The least automaton that accepts the same strings.
    pub(super) fn minimised(self) -> Automaton {
        let block_of = self.blocks();
        let width = self.ranges.len();
        let (reject, accept) = (block_of[REJECT as usize], block_of[ACCEPT as usize]);
        // A state of each block that can be reached, by the block's number to come.
        let mut states = Vec::new();
        let mut numbers = HashMap::new();
        let mut waiting = VecDeque::from([self.start]);
        while let Some(state) = waiting.pop_front() {
            let block = block_of[state as usize];
            if block == reject || block == accept || numbers.contains_key(&block) {
                continue;
            }
            numbers.insert(block, states.len() as u16);
            states.push(state);
            waiting.extend(&self.next[state as usize * width..][..width]);
        }
        numbers.insert(reject, states.len() as u16);
        numbers.insert(accept, states.len() as u16 + 1);
        let number = |state: u16| numbers[&block_of[state as usize]];

        // Ranges that lead from every state to the same ones are one class.
        let mut class_of_range = Vec::with_capacity(width);
        let mut columns: HashMap<Vec<u16>, u8> = HashMap::new();
        let mut firsts = Vec::new();
        for range in 0..width {
            let column = states.iter().map(|&state| self.next[state as usize * width + range]);
            let class = columns.len() as u8;
            let class = *columns.entry(column.map(number).collect()).or_insert(class);
            if class as usize == firsts.len() {
                firsts.push(range);
            }
            class_of_range.push(class);
        }
        let next = states.iter().flat_map(|&state| {
            let row = &self.next[state as usize * width..][..width];
            firsts.iter().map(|&range| number(row[range]))
        });
        Automaton {
            class_of: Box::new(self.ranges.of.map(|range| class_of_range[range as usize])),
            classes: firsts.len(),
            next: next.collect(),
            accepts: states.iter().map(|&state| self.accepts[state as usize]).collect(),
            start: number(self.start),
        }
    }

    /// The block of each state, such that states of one block accept the same strings.
    fn blocks(&self) -> Vec<u16> {
        let sources = Sources::new(self);
        let mut partition = Partition::new(&self.accepts);
        let mut waiting = vec![1];
        let mut incoming: Vec<(u8, u16)> = Vec::new();
        let mut touched = Vec::new();
        while let Some(splitter) = waiting.pop() {
            incoming.clear();
            for &state in partition.states(splitter) {
                incoming.extend(sources.of(state));
            }
            incoming.sort_unstable();
            for by_one_range in incoming.chunk_by(|left, right| left.0 == right.0) {
                for &(_, state) in by_one_range {
                    let block = partition.block_of[state as usize];
                    if partition.mark(state) {
                        touched.push(block);
                    }
                }
                for block in touched.drain(..) {
                    if let Some(part) = partition.split(block) {
                        // Whether the block waits or was looked at before, its part is
                        // enough to tell the two apart.
                        waiting.push(part);
                    }
                }
            }
        }
        partition.block_of
    }
}

/// For each state, the ranges and states that lead to it; none for the sink [`REJECT`].
struct Sources {
    starts: Vec<u32>,
    sources: Vec<(u8, u16)>,
}

impl Sources {
    fn new(draft: &Draft) -> Sources {
        let mut starts = vec![0; draft.accepts.len() + 1];
        for &target in draft.next.iter().filter(|&&target| target != REJECT) {
            starts[target as usize] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        // Filled from the back, so that the ends become starts.
        let mut sources = vec![(0, 0); sum as usize];
        for (state, row) in (0..).zip(draft.next.chunks_exact(draft.ranges.len())) {
            for (range, &target) in (0..=255).zip(row) {
                if target != REJECT {
                    starts[target as usize] -= 1;
                    sources[starts[target as usize] as usize] = (range, state);
                }
            }
        }
        Sources { starts, sources }
    }

    fn of(&self, state: u16) -> &[(u8, u16)] {
        let state = state as usize;
        &self.sources[self.starts[state] as usize..self.starts[state + 1] as usize]
    }
}

/// States in blocks, each a range of `order` whose first states may be marked.
struct Partition {
    order: Vec<u16>,
    /// Where in `order` each state stands.
    place: Vec<u32>,
    block_of: Vec<u16>,
    blocks: Vec<Range<u32>>,
    marked: Vec<u32>,
}

impl Partition {
    /// Block 0 of the states that do not accept, block 1 of those that do; neither is
    /// empty, as each has a sink.
    fn new(accepts: &[bool]) -> Partition {
        let mut order: Vec<u16> = (0..accepts.len() as u16).collect();
        order.sort_by_key(|&state| accepts[state as usize]);
        let mut place = vec![0; order.len()];
        for (at, &state) in (0..).zip(&order) {
            place[state as usize] = at;
        }
        let others = accepts.iter().filter(|&&accepts| !accepts).count() as u32;
        Partition {
            place,
            block_of: accepts.iter().map(|&accepts| u16::from(accepts)).collect(),
            blocks: vec![0..others, others..order.len() as u32],
            marked: vec![0; 2],
            order,
        }
    }

    fn states(&self, block: u16) -> &[u16] {
        let Range { start, end } = self.blocks[block as usize];
        &self.order[start as usize..end as usize]
    }

    /// Marks a state that is not; whether it is the first of its block.
    fn mark(&mut self, state: u16) -> bool {
        let block = self.block_of[state as usize] as usize;
        let (from, to) =
            (self.place[state as usize], self.blocks[block].start + self.marked[block]);
        let other = self.order[to as usize];
        self.order.swap(from as usize, to as usize);
        self.place[state as usize] = to;
        self.place[other as usize] = from;
        self.marked[block] += 1;
        self.marked[block] == 1
    }

    /// Unmarks a block, and if only some of it was marked splits off the smaller part, or
    /// the marked one where the other has the sink that rejects, as a new block.
    fn split(&mut self, block: u16) -> Option<u16> {
        let whole = self.blocks[block as usize].clone();
        let marked = std::mem::take(&mut self.marked[block as usize]);
        if marked as usize == whole.len() {
            return None;
        }
        let middle = whole.start + marked;
        let rejects = self.block_of[REJECT as usize] == block;
        let (rest, part) = if rejects || marked as usize * 2 <= whole.len() {
            (middle..whole.end, whole.start..middle)
        } else {
            (whole.start..middle, middle..whole.end)
        };
        let number = self.blocks.len() as u16;
        for &state in &self.order[part.start as usize..part.end as usize] {
            self.block_of[state as usize] = number;
        }
        self.blocks[block as usize] = rest;
        self.blocks.push(part);
        self.marked.push(0);
        Some(number)
    }
}
