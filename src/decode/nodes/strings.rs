//! Nodes of strings: what kernels of queries and kernels that are there read of them, the dictionaries
//! that tests ask, and what values are made of.

use std::sync::Arc;

use super::{ChunkDictionary, HostNodes, decoded, uses};
use crate::chunk::{NodeView, StringForm};
use crate::decode::decoders::{check_codes, with_dictionary};
use crate::decode::program::{Job, Program, Target, of_encoding};
use crate::decode::strings::Dictionaries;
use crate::decode::trees::{Reader, Trees};
use crate::decode::{all_valid, check_decodable, roots};
use crate::decode::{cascade, strings};
use crate::device::column::DeviceColumn;
use crate::encoding::Encoding;
use crate::error::Result;
use crate::gpu::abi::Node;
use crate::gpu::{DeviceBuffer, Stream};

/// Of the rows of a column with dictionaries at most one in so many is in a chunk without one, where rows
/// of these have codes: batches that were put together have short chunks, for which none pays.
const CODED_ROWS: usize = 32;

/// Whether rows of chunks without a dictionary have codes, which are the numbers of rows: in columns with
/// dictionaries where they are few. Rows of a constant have code 0 in any case. Nodes of all chunks of a
/// column are made where codes are read (`StringCodes`), so that both decide alike.
pub(in crate::decode) fn rows_have_codes<'v>(roots: impl Iterator<Item = NodeView<'v>>) -> bool {
    let (mut with, mut without) = (0, 0);
    for root in roots {
        match root.encoding() {
            Encoding::Dict => with += root.len(),
            Encoding::Constant => {}
            _ => without += root.len(),
        }
    }
    without > 0 && without.saturating_mul(CODED_ROWS) <= with
}

/// The lists of strings: the strings, their lengths as they are stored, and if some chunks are dict
/// the codes of these (`rows_have_codes`). Chunks that have no lengths or codes have a constant there.
pub(super) fn trees<'a>(
    program: &mut Program<'_>,
    targets: &[Target<'a>],
) -> Result<Vec<Trees<'a>>> {
    let of_rows = HostNodes::strings_and_lengths(program, targets)?;
    let numbers = match rows_have_codes(targets.iter().map(|target| target.view)) {
        true => Some(row_numbers(program, targets)?),
        false => None,
    };
    let none = |target: &Target<'_>| Node { parameter: 0, ..all_valid(target) };
    let [mut strings, mut lengths, mut codes] = [(); 3].map(|()| Trees::default());
    for (target, (root, its)) in targets.iter().zip(of_rows) {
        let is_dict = target.view.encoding() == Encoding::Dict;
        strings.push(Reader::words(8, root.encoding), vec![root]);
        let its = if is_dict { none(target) } else { its };
        lengths.push(Reader::words(32, its.encoding), vec![its]);
        match (target.view.encoding(), &numbers) {
            (Encoding::Dict, _) => codes.push_codes(target),
            (Encoding::Constant, _) | (_, None) => {
                codes.push(Reader::words(32, Encoding::Constant as u16), vec![none(target)]);
            }
            (_, Some(numbers)) => {
                let node = Node {
                    buffer: Node::only(numbers.pointer()),
                    encoding: Encoding::Plain as u16,
                    ..none(target)
                };
                codes.push(Reader::words(32, Encoding::Plain as u16), vec![node]);
            }
        }
    }
    codes.decode(program)?;
    let has_codes = codes.readers.iter().any(|reader| matches!(reader, Reader::Parent { .. }));
    Ok([strings, lengths].into_iter().chain(has_codes.then_some(codes)).collect())
}

/// 0, 1, 2, .. for the rows of the longest chunk that has neither a dictionary nor one string.
fn row_numbers(program: &mut Program<'_>, targets: &[Target<'_>]) -> Result<Arc<DeviceBuffer>> {
    let has_codes = |target: &&Target<'_>| {
        matches!(target.view.encoding(), Encoding::Dict | Encoding::Constant)
    };
    let others = targets.iter().filter(|target| !has_codes(target));
    let longest = others.map(|target| target.view.len() as u32).max().unwrap_or(0);
    let numbers: Vec<u32> = (0..longest).collect();
    let buffer = program.scratch(size_of_val(numbers.as_slice()))?;
    program.stream.upload(bytemuck::cast_slice(&numbers), &buffer, 0)?;
    Ok(buffer)
}

impl HostNodes {
    pub(super) fn of_strings(program: &mut Program<'_>, targets: &[Target<'_>]) -> Result<Self> {
        let nodes = Self::strings_and_lengths(program, targets)?;
        let mut host = Self::default();
        for (target, (root, lengths)) in targets.iter().zip(nodes) {
            host.roots.push(Job { chunk: target.chunk, node: root });
            host.stored_lengths.push(lengths);
        }
        let dict = of_encoding(targets, Encoding::Dict);
        let codes = checked_codes(program, &dict)?;
        for (target, codes) in dict.iter().zip(codes) {
            let place = targets.partition_point(|other| other.chunk < target.chunk);
            host.stored_lengths[place] = codes.node;
        }
        Ok(host)
    }

    /// Of each chunk of strings the root and the lengths as they are stored; strings of front coding
    /// and lz are put together.
    fn strings_and_lengths(
        program: &mut Program<'_>,
        targets: &[Target<'_>],
    ) -> Result<Vec<(Node, Node)>> {
        let stored = strings::stored_lengths(program, targets)?;
        let nodes = |(target, lengths): (&Target<'_>, Job)| match target.view.string_form()? {
            StringForm::Prefixes | StringForm::Segments => {
                let [strings, lengths] = strings::put_together(program, target)?;
                Ok((strings.node, lengths.node))
            }
            StringForm::Bytes | StringForm::One | StringForm::Codes | StringForm::Lookup => {
                Ok((target.node(), lengths.node))
            }
        };
        targets.iter().zip(stored).map(nodes).collect()
    }
}

/// The codes of chunks of dict for kernels that are there, and a step that looks whether all have
/// values.
fn checked_codes(program: &mut Program<'_>, dict: &[Target<'_>]) -> Result<Vec<Job>> {
    let codes: Vec<Target<'_>> = dict.iter().map(|target| target.child(0)).collect();
    let codes = program.readable(&codes, &cascade::CODES)?;
    let looked_up = |(target, codes): (&Target<'_>, &Job)| {
        let rows = target.view.child(1).len() as u32;
        with_dictionary(codes, &Job { node: Node { rows, ..Node::default() }, ..*codes })
    };
    check_codes(program, &dict.iter().zip(&codes).map(looked_up).collect::<Vec<_>>());
    Ok(codes)
}

/// The dictionaries of a column of strings, which tests ask before they look at codes.
#[derive(Debug)]
pub(crate) struct StringDictionaries {
    pub nodes: Vec<ChunkDictionary>,
    /// Those of front coding, put together.
    decoded: Vec<Arc<DeviceBuffer>>,
}

impl StringDictionaries {
    /// Waits for the device if there is something to decode.
    pub(in crate::decode) fn new(stream: &Arc<dyn Stream>, column: &DeviceColumn) -> Result<Self> {
        let mut program = Program::new(stream);
        let mut at = 0;
        let values = of_encoding(&roots(column.chunks()), Encoding::Dict).into_iter().map(|root| {
            let values = Target { at, ..root.child(1) };
            // Bits for the next one begin with a word.
            at = (at + values.view.len()).next_multiple_of(32);
            values
        });
        let values: Vec<Target<'_>> = values.collect();
        let nodes = HostNodes::strings_and_lengths(&mut program, &values)?;
        let node =
            |(target, (values, stored_lengths)): (&Target<'_>, (Node, Node))| ChunkDictionary {
                values: Job { chunk: target.chunk, node: values },
                stored_lengths,
                ..ChunkDictionary::default()
            };
        let nodes: Vec<ChunkDictionary> = values.iter().zip(nodes).map(node).collect();
        let is_used = |buffer: &DeviceBuffer| {
            nodes.iter().any(|of| uses(&of.values.node, buffer) || uses(&of.stored_lengths, buffer))
        };
        let decoded = decoded(program, column, is_used)?;
        Ok(Self { nodes, decoded })
    }

    /// What launches that use the nodes have to name beside the column's bodies.
    pub fn buffers(&self) -> &[Arc<DeviceBuffer>] {
        &self.decoded
    }
}

/// What kernels read that make values of strings.
#[derive(Debug)]
pub(crate) struct ValueNodes {
    /// Of each chunk the root; of dict buffer 0 has the dictionary's strings, buffer 2 their offsets.
    pub roots: Vec<Node>,
    /// The lengths as they are stored, of dict the codes; of constants the root.
    pub stored_lengths: Vec<Node>,
    pub value_lengths: Vec<Node>,
    decoded: Vec<Arc<DeviceBuffer>>,
}

impl ValueNodes {
    /// Decodes what kernels do not read of the chunks that are needed, and waits for it. Of others
    /// nothing but the number of rows can be used.
    pub fn new(
        stream: &Arc<dyn Stream>,
        column: &DeviceColumn,
        is_needed: impl Fn(usize) -> bool,
    ) -> Result<Self> {
        check_decodable(column)?;
        stream.wait(column.ready())?;
        let mut program = Program::new(stream);
        let all = roots(column.chunks());
        let targets: Vec<Target<'_>> =
            all.iter().filter(|target| is_needed(target.chunk)).copied().collect();
        let host = HostNodes::of_strings(&mut program, &targets)?;
        let own = strings::own_lengths(&mut program, &targets)?;
        let none = |target: &Target<'_>| Node { parameter: 0, ..all_valid(target) };
        let mut nodes = Self {
            roots: all.iter().map(none).collect(),
            stored_lengths: all.iter().map(none).collect(),
            value_lengths: all.iter().map(none).collect(),
            decoded: Vec::new(),
        };
        for (index, target) in targets.iter().enumerate() {
            let is_put_together = match target.view.string_form()? {
                StringForm::Prefixes | StringForm::Segments => true,
                StringForm::Bytes | StringForm::One | StringForm::Codes | StringForm::Lookup => {
                    false
                }
            };
            let stored = host.stored_lengths[index];
            nodes.roots[target.chunk] = host.roots[index].node;
            nodes.stored_lengths[target.chunk] = stored;
            nodes.value_lengths[target.chunk] =
                if is_put_together { stored } else { own[index].node };
        }
        let dict = of_encoding(&targets, Encoding::Dict);
        if let Some(found) = Dictionaries::of(&mut program, &dict)? {
            for (index, (target, lengths)) in dict.iter().zip(found.lengths()).enumerate() {
                let chunk = target.chunk;
                let [values, offsets] = found.pointers(index);
                nodes.roots[chunk].buffer[0] = values;
                nodes.roots[chunk].buffer[2] = offsets;
                let codes = Job { chunk, node: nodes.stored_lengths[chunk] };
                nodes.value_lengths[chunk] = with_dictionary(&codes, &lengths).node;
            }
        }
        let lists = [&nodes.roots, &nodes.stored_lengths, &nodes.value_lengths];
        let is_used = |buffer: &DeviceBuffer| {
            lists.iter().any(|nodes| nodes.iter().any(|node| uses(node, buffer)))
        };
        nodes.decoded = decoded(program, column, is_used)?;
        Ok(nodes)
    }

    /// What launches that use the nodes have to name beside the column's bodies.
    pub fn buffers(&self) -> &[Arc<DeviceBuffer>] {
        &self.decoded
    }
}
