//! What a column's encodings are, for users: trees by chunk, and as text.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use super::CompressedColumn;
use crate::chunk::{Chunk, EncodingSet};
use crate::encoding::Encoding;
use crate::encoding::tree::{EncodingTree, Fact, NodeRole, texts};

/// The encodings of a column: chunks may have different ones, and those with equal trees of
/// encodings are a group.
///
/// Its text ([`Display`](fmt::Display)) has that of each tree once, in order of first use, joined
/// by `+`: `alp+plain`.
///
/// ```
/// use arrow_array::{ArrayRef, Int32Array};
/// use lanepack::{Encoding, Options, compress_array};
/// use std::sync::Arc;
///
/// let rows = (0..4096).map(|i| if i < 1024 { 7 } else { i * 7919 % 100 });
/// let array: ArrayRef = Arc::new(Int32Array::from_iter_values(rows));
/// let column = compress_array(&array, &Options::default().with_chunk_rows(1024))?;
/// let encoding = column.encoding();
/// assert_eq!(encoding.to_string(), "constant+ffor");
/// assert_eq!(encoding.groups()[1].chunks(), [1, 2, 3]);
/// assert!(encoding.encodings().contains(Encoding::Ffor));
/// # Ok::<(), lanepack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnEncoding {
    groups: Vec<EncodingGroup>,
}

/// Chunks of a column whose trees have the same encodings, types and roles, and validities in the
/// same places; numbers of values and parameters may differ.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodingGroup {
    chunks: Vec<usize>,
    trees: Vec<EncodingTree>,
}

impl EncodingGroup {
    /// The indexes of the chunks in the column, ascending; at least one.
    pub fn chunks(&self) -> &[usize] {
        &self.chunks
    }

    /// The tree of each of [`EncodingGroup::chunks`].
    pub fn trees(&self) -> &[EncodingTree] {
        &self.trees
    }

    /// Bytes of the buffers of all trees.
    pub fn bytes(&self) -> usize {
        self.trees.iter().map(|tree| tree.bytes).sum()
    }
}

impl fmt::Display for EncodingGroup {
    /// The text of its trees, as in `fsst(ffor, ffor)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trees.first().map_or(Ok(()), |tree| tree.fmt(f))
    }
}

impl ColumnEncoding {
    /// The groups, in the order of their first chunks.
    pub fn groups(&self) -> &[EncodingGroup] {
        &self.groups
    }

    /// The encodings of all nodes.
    pub fn encodings(&self) -> EncodingSet {
        let trees = self.groups.iter().filter_map(|group| group.trees.first());
        trees.map(EncodingTree::encodings).fold(EncodingSet::EMPTY, EncodingSet::union)
    }

    fn of(chunks: &[Chunk]) -> Self {
        let mut groups: Vec<EncodingGroup> = Vec::new();
        let mut places = HashMap::new();
        for (index, chunk) in chunks.iter().enumerate() {
            let tree = chunk.encoding();
            let place = *places.entry(shape_of(&tree)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => {
                    group.chunks.push(index);
                    group.trees.push(tree);
                }
                None => groups.push(EncodingGroup { chunks: vec![index], trees: vec![tree] }),
            }
        }
        Self { groups }
    }
}

impl fmt::Display for ColumnEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<String> = Vec::new();
        for name in self.groups.iter().map(ToString::to_string) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        f.pad(&names.join("+"))
    }
}

/// What trees of a group have in common. Of pieces, which are many, each shape once.
fn shape_of(tree: &EncodingTree) -> String {
    let mut children: Vec<String> = tree.children.iter().map(shape_of).collect();
    if tree.encoding == Encoding::Pieces {
        children.sort_unstable();
        children.dedup();
    }
    let role = match tree.role {
        NodeRole::Piece(_) => "piece".to_owned(),
        role => role.to_string(),
    };
    format!("{role} {} {} ({})", tree.physical, tree.encoding, children.join(", "))
}

/// Indexes in ascending order as text: `0 to 3, 7`. After some the rest is a count.
fn spans(indexes: &[usize]) -> String {
    const MOST: usize = 8;
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for index in indexes {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => spans.push((*index, *index)),
        }
    }
    let text = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first} to {last}"),
    };
    let mut texts: Vec<String> = spans.iter().take(MOST).map(text).collect();
    let rest: usize = spans.iter().skip(MOST).map(|(first, last)| last - first + 1).sum();
    if rest > 0 {
        texts.push(format!("and {rest} more"));
    }
    texts.join(", ")
}

/// The parameters of nodes of one encoding, each from its least to its greatest value.
fn facts_of(nodes: &[&EncodingTree]) -> Vec<Fact> {
    let mut all = nodes[0].parameters.facts();
    for node in &nodes[1..] {
        for ((_, [least, most]), (_, [low, high])) in all.iter_mut().zip(node.parameters.facts()) {
            (*least, *most) = ((*least).min(low), (*most).max(high));
        }
    }
    all
}

/// Writes lines about nodes that stand for each other in trees of one shape, and about those below.
fn write_nodes(nodes: &[&EncodingTree], role: &str, depth: usize, out: &mut String) {
    let Some(first) = nodes.first() else { return };
    let sum = |part: fn(&EncodingTree) -> usize| nodes.iter().map(|node| part(node)).sum::<usize>();
    let _ = write!(
        out,
        "{:width$}{role}: {}, {} values of type {}, {} B",
        "",
        first.encoding,
        sum(|node| node.values),
        first.physical,
        sum(|node| node.bytes),
        width = 2 * depth
    );
    if !first.children.is_empty() {
        let _ = write!(out, " ({} B of its own)", sum(|node| node.own_bytes));
    }
    let mut details = texts(&facts_of(nodes));
    if nodes.iter().all(|node| node.parameters == first.parameters) && details.is_empty() {
        details =
            vec![first.parameters.to_string()].into_iter().filter(|it| !it.is_empty()).collect();
    }
    if !details.is_empty() {
        let _ = write!(out, "; {}", details.join(", "));
    }
    out.push('\n');
    if first.encoding != Encoding::Pieces {
        for (index, child) in first.children.iter().enumerate() {
            let children: Vec<&EncodingTree> =
                nodes.iter().filter_map(|node| node.children.get(index)).collect();
            write_nodes(&children, &child.role.to_string(), depth + 1, out);
        }
        return;
    }
    let mut kinds: Vec<(String, Vec<&EncodingTree>)> = Vec::new();
    for piece in nodes.iter().flat_map(|node| &node.children) {
        let shape = shape_of(piece);
        match kinds.iter_mut().find(|(other, _)| *other == shape) {
            Some((_, pieces)) => pieces.push(piece),
            None => kinds.push((shape, vec![piece])),
        }
    }
    for (_, pieces) in kinds {
        let role = match (pieces[0].role, pieces.len()) {
            (NodeRole::Piece(_), 1) => "1 piece".to_owned(),
            (NodeRole::Piece(_), count) => format!("{count} pieces"),
            (role, _) => role.to_string(),
        };
        write_nodes(&pieces, &role, depth + 1, out);
    }
}

impl CompressedColumn {
    /// The encodings of all chunks. Reads headers and parameters, no values.
    pub fn encoding(&self) -> ColumnEncoding {
        ColumnEncoding::of(&self.chunks)
    }

    /// Lines that say what was chosen and what it takes: for each group of chunks with equal trees
    /// of encodings the tree, with bytes and parameters of its nodes in all of them; for a column
    /// that was compressed here, also the estimates that each chunk's encoding was chosen by.
    ///
    /// ```text
    /// "price": Float64, 5000 rows, 0 nulls, 1 chunk, 13.58 bits per value
    ///   chunk 0: 5000 rows, 8488 B, alp
    ///     values: alp, 5000 values of type f64, 8380 B; bits 13, exponent 14, factor 12, exceptions 0
    ///     chunk 0: alp of estimates plain 40040 B, alp 8440 B; exponent pairs (14, 12)
    /// ```
    pub fn explain(&self) -> String {
        let counted = |count: usize| match count {
            1 => "1 chunk".to_owned(),
            count => format!("{count} chunks"),
        };
        let mut out = format!(
            "{:?}: {}, {} rows, {} nulls, {}, {:.2} bits per value\n",
            self.field.name(),
            self.data_type(),
            self.len(),
            self.null_count(),
            counted(self.chunks.len()),
            self.bits_per_value()
        );
        for group in &self.encoding().groups {
            let chunks = || group.chunks.iter().map(|index| &self.chunks[*index]);
            let _ = writeln!(
                out,
                "  chunk{} {}: {} rows, {} B, {group}",
                if group.chunks.len() == 1 { "" } else { "s" },
                spans(&group.chunks),
                chunks().map(Chunk::rows).sum::<usize>(),
                chunks().map(Chunk::compressed_bytes).sum::<usize>(),
            );
            let trees: Vec<&EncodingTree> = group.trees.iter().collect();
            write_nodes(&trees, "values", 2, &mut out);
            for index in &group.chunks {
                if let Some(plan) = self.plans.get(*index) {
                    let _ = writeln!(out, "    chunk {index}: {plan}");
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_indexes() {
        assert_eq!(spans(&[0]), "0");
        assert_eq!(spans(&[0, 1, 2, 5, 7, 8]), "0 to 2, 5, 7 to 8");
        let even: Vec<usize> = (0..20).map(|index| 2 * index).collect();
        assert!(spans(&even).ends_with("14, and 12 more"), "{}", spans(&even));
    }
}
