//! Strings on a device: bytes, offsets, and the arrays made of them.
//!
//! ```text
//! fsst_decode, bytes_plain, bytes_constant, lz --> bytes, of all chunks one behind the other
//! offsets_32, offsets_64                   --> offsets of all rows, and one behind the last
//! dict_lengths, dict_plain, dict_strings   --> dict only: lengths of rows, and their bytes
//! front_lengths, front_strings             --> front only: the same
//! utf8                                     --> text only: checks chunks with bytes above 127,
//!                                              except FSST's, which fsst_decode checks
//! views, fixed                             --> for view types and FixedSizeBinary
//! ```
//!
//! Bytes and offsets are independent of each other: both follow from the header
//! and from the starts of vectors. Two kinds of kernels read offsets and so run behind those
//! that write them: fsst_decode of text, which checks that rows begin at characters, and those
//! of rows that are codes of a dictionary or begin as others do. The dictionary's strings, or
//! the suffixes, are decoded before, as those of any column.

use std::sync::Arc;

use arrow_schema::DataType;

use super::cascade;
use super::decoders::with_dictionary;
use super::program::{
    Job, Launched, Program, Strings, Target, Words, bytes_to, checked_to, codes_to, jobs, longest,
    most_rows, of_encoding, words_to,
};
use crate::chunk::StringForm;
use crate::column::is_text;
use crate::device::array::DeviceSlice;
use crate::device::column::views_hold;
use crate::device::groups::size_groups;
use crate::encoding::{self, Encoding};
use crate::error::{Error, Result};
use crate::gpu::abi::{DictStringsArguments, Node, OffsetsArguments};
use crate::gpu::{DeviceBuffer, DevicePtr, Stream, kernels};
use crate::lanes::VECTOR;

/// Where the strings of a column go: their bytes, and the offsets of all rows and one
/// behind the last.
pub(crate) struct Buffers {
    pub bytes: Arc<DeviceBuffer>,
    pub offsets: Arc<DeviceBuffer>,
    pub offset_bytes: usize,
}

impl Buffers {
    /// For `rows` strings of `total` bytes.
    pub fn allocate(
        stream: &Arc<dyn Stream>,
        data_type: &DataType,
        rows: usize,
        total: usize,
    ) -> Result<Self> {
        check(data_type, total)?;
        let offset_bytes = if is_narrow(data_type) { 4 } else { 8 };
        // `utf8` reads the last 16 bytes whole.
        let bytes = Arc::new(stream.allocate(total + 16)?);
        stream.fill(&bytes, total, 16, 0)?;
        let offsets = Arc::new(stream.allocate((rows + 1) * offset_bytes)?);
        if rows == 0 {
            stream.fill(&offsets, 0, offset_bytes, 0)?;
        }
        Ok(Self { bytes, offsets, offset_bytes })
    }
}

/// Whether offsets have 32 bits.
fn is_narrow(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Binary)
}

/// Checks that an array of this type can have so many bytes.
pub(crate) fn check(data_type: &DataType, bytes: usize) -> Result<()> {
    if is_narrow(data_type) && i32::try_from(bytes).is_err() {
        return Err(Error::too_large(format!(
            "{bytes} bytes of values, {data_type} holds {}; decompress fewer chunks at a time",
            i32::MAX
        )));
    }
    Ok(())
}

/// Adds the steps for a column of strings: the buffers of its array, validity
/// left out.
pub(super) fn start<'a>(
    program: &mut Program<'_>,
    data_type: &DataType,
    roots: &[Target<'a>],
    rows: usize,
    validity: Option<&Arc<DeviceBuffer>>,
) -> Result<Vec<DeviceSlice>> {
    let mut total = 0_usize;
    let mut parts = Vec::new();
    for root in roots {
        let bytes = encoding::value_bytes(root.view);
        if !views_hold(data_type, bytes) {
            let what = format!("{bytes} bytes of values in a chunk of {data_type}");
            return Err(Error::too_large(format!("{what}, views hold {}", i32::MAX)));
        }
        let end = total
            .checked_add(bytes)
            .ok_or_else(|| Error::corrupt("values of more bytes than an address"))?;
        parts.push(total..end);
        total = end;
    }
    let buffers = Buffers::allocate(program.stream, data_type, rows, total)?;
    let common = decode(program, data_type, roots, 0, &buffers)?;
    let Buffers { bytes, offsets, .. } = buffers;
    match data_type {
        DataType::Utf8View | DataType::BinaryView => {
            let views = program.allocate(rows * 16)?;
            let arguments = Strings { out: views.pointer(), ..common }.arguments();
            let buffers = [&bytes, &offsets, &views];
            program.step(kernels::VIEWS, &jobs(roots), &[], longest(roots), arguments, &buffers);
            let parts = parts.into_iter().map(|part| DeviceSlice::of(&bytes, part));
            Ok(std::iter::once(views.into()).chain(parts).collect())
        }
        DataType::FixedSizeBinary(width) => {
            let width = *width as usize;
            let values = program.allocate(rows * width)?;
            let arguments = Strings {
                out: values.pointer(),
                valid: validity.map_or(DevicePtr::NULL, |bitmap| bitmap.pointer()),
                width: width as u32,
                ..common
            }
            .arguments();
            let buffers = [&bytes, &offsets, &values];
            let buffers = buffers.into_iter().chain(validity).collect::<Vec<_>>();
            program.step(kernels::FIXED, &jobs(roots), &[], longest(roots), arguments, &buffers);
            Ok(vec![values.into()])
        }
        _ => Ok(vec![offsets.into(), DeviceSlice::of(&bytes, 0..total)]),
    }
}

/// Adds the steps that make bytes and offsets of chunks whose bytes begin at `at` and
/// whose rows where the roots say. What steps that work on them have in common.
pub(super) fn decode<'a>(
    program: &mut Program<'_>,
    data_type: &DataType,
    roots: &[Target<'a>],
    mut at: usize,
    buffers: &Buffers,
) -> Result<Strings> {
    let Buffers { bytes, offsets, offset_bytes } = buffers;
    let place = |root: &Target<'a>| {
        let placed = Target { at, ..*root };
        at += encoding::value_bytes(root.view);
        placed
    };
    let strings: Vec<Target<'a>> = roots.iter().map(place).collect();
    let looked_up = LookedUp::of(program, roots)?;
    let fronts = Fronts::of(program, roots)?;
    let of_dict = looked_up.as_ref().map_or(&[][..], |found| &found.lengths);
    let of_front = fronts.as_ref().map_or(&[][..], |fronts| &fronts.lengths);
    let lengths = value_lengths(program, roots, of_dict, of_front)?;
    let mut groups = values(program, &strings, bytes);
    self::offsets(program, &strings, &lengths, buffers);
    codes(program, roots, &strings, buffers, is_text(data_type));
    groups.extend(looked_up.map(|looked_up| looked_up.write(program, buffers)));
    groups.extend(fronts.map(|fronts| fronts.write(program, buffers)));
    let common = Strings {
        bytes: bytes.pointer(),
        offsets: offsets.pointer(),
        offset_bytes: *offset_bytes as u32,
        ..Strings::default()
    };
    if is_text(data_type) {
        for Group { targets, not_ascii, longest } in &groups {
            let arguments = Strings { not_ascii: *not_ascii, ..common }.arguments();
            let jobs = jobs(&at_rows(targets, roots));
            program.step(kernels::UTF8, &jobs, &[], *longest, arguments, &[bytes, offsets]);
        }
    }
    Ok(common)
}

/// The chunks of the targets, at their rows.
fn at_rows<'a>(targets: &[Target<'_>], roots: &[Target<'a>]) -> Vec<Target<'a>> {
    targets.iter().map(|target| roots[target.chunk]).collect()
}

/// The bytes of values that are FSST codes, which are checked if they are text.
fn codes(
    program: &mut Program<'_>,
    roots: &[Target<'_>],
    strings: &[Target<'_>],
    buffers: &Buffers,
    is_text: bool,
) {
    let Buffers { bytes, offsets, offset_bytes } = buffers;
    let size = |target: &Target<'_>| encoding::value_bytes(target.view);
    let code_bytes = |target: &Target<'_>| target.view.buffer_range(1).len();
    for targets in size_groups(of_encoding(strings, Encoding::Fsst), size) {
        let longest = targets.iter().map(code_bytes).max().unwrap_or(0);
        let (rows, offsets_at) = match is_text {
            true => (jobs(&at_rows(&targets, roots)), offsets.pointer()),
            false => (Vec::new(), DevicePtr::NULL),
        };
        let arguments = codes_to(bytes.pointer(), offsets_at, *offset_bytes);
        let kernel = kernels::FSST_DECODE;
        program.step(kernel, &jobs(&targets), &rows, longest, arguments, &[bytes, offsets]);
    }
}

/// Chunks of one encoding that go together into a launch (`size_groups`).
struct Group<'a> {
    targets: Vec<Target<'a>>,
    /// For each, whether it has bytes above 127.
    not_ascii: Words,
    /// Bytes of values of the longest.
    longest: usize,
}

/// The bytes of values of the encodings plain, constant and lz.
fn values<'a>(
    program: &mut Program<'_>,
    strings: &[Target<'a>],
    bytes: &Arc<DeviceBuffer>,
) -> Vec<Group<'a>> {
    let size = |target: &Target<'_>| encoding::value_bytes(target.view);
    let mut groups = Vec::new();
    for (encoding, kernel) in
        [(Encoding::Plain, kernels::BYTES_PLAIN), (Encoding::Constant, kernels::BYTES_CONSTANT)]
    {
        for targets in size_groups(of_encoding(strings, encoding), size) {
            let longest = targets.iter().map(size).max().unwrap_or(0);
            let not_ascii = program.words(targets.len());
            let arguments = bytes_to(bytes.pointer(), not_ascii);
            program.step(kernel, &jobs(&targets), &[], longest, arguments, &[bytes]);
            groups.push(Group { targets, not_ascii, longest });
        }
    }
    let of_lz = of_encoding(strings, Encoding::Lz);
    for (targets, not_ascii) in program.segments_of(&of_lz, |target| target.at, bytes) {
        let longest = targets.iter().map(size).max().unwrap_or(0);
        groups.push(Group { targets, not_ascii, longest });
    }
    groups
}

/// Where each value begins, and the end of the last one.
fn offsets(program: &mut Program<'_>, strings: &[Target<'_>], lengths: &[Job], buffers: &Buffers) {
    let out = &buffers.offsets;
    let kernel = if buffers.offset_bytes == 4 { kernels::OFFSETS_32 } else { kernels::OFFSETS_64 };
    let out_at = out.pointer();
    let arguments = move |at: &Launched| OffsetsArguments {
        nodes: at.nodes,
        out: out_at,
        status: at.status,
        node_count: at.node_count,
        blocks_per_node: at.blocks_per_node,
    };
    program.step(kernel, &jobs(strings), lengths, longest(strings), arguments, &[out]);
}

/// The encodings of lengths that kernels of strings know.
pub(super) const LENGTHS: [Encoding; 4] =
    [Encoding::Plain, Encoding::Constant, Encoding::Ffor, Encoding::Pfor];

/// The lengths of values, of dict and of front coding those that have been found.
fn value_lengths(
    program: &mut Program<'_>,
    roots: &[Target<'_>],
    of_dict: &[Job],
    of_front: &[Job],
) -> Result<Vec<Job>> {
    let own = lengths(program, roots, &LENGTHS, |count| count - 1)?;
    let (mut of_dict, mut of_front) = (of_dict.iter(), of_front.iter());
    let lengths = |(root, own): (&Target<'_>, Job)| {
        Ok(match root.view.string_form()? {
            StringForm::Lookup => of_dict.next().copied().unwrap_or(own),
            StringForm::Prefixes => of_front.next().copied().unwrap_or(own),
            StringForm::Bytes | StringForm::One | StringForm::Codes | StringForm::Segments => own,
        })
    };
    roots.iter().zip(own).map(lengths).collect()
}

/// The lengths of values, the last child; of constants, dict and front, which have none, the
/// root.
pub(super) fn own_lengths(program: &mut Program<'_>, roots: &[Target<'_>]) -> Result<Vec<Job>> {
    lengths(program, roots, &LENGTHS, |count| count - 1)
}

/// The lengths of what is stored, the first child; of constants, dict and front the root.
pub(super) fn stored_lengths(program: &mut Program<'_>, roots: &[Target<'_>]) -> Result<Vec<Job>> {
    lengths(program, roots, &LENGTHS, |_| 0)
}

fn lengths(
    program: &mut Program<'_>,
    roots: &[Target<'_>],
    reads: &[Encoding],
    which: impl Fn(usize) -> usize,
) -> Result<Vec<Job>> {
    let has_some = |root: &&Target<'_>| {
        matches!(root.view.encoding(), Encoding::Fsst | Encoding::Plain | Encoding::Lz)
    };
    let own = roots.iter().filter(has_some);
    let own: Vec<Target<'_>> = own.map(|root| root.child(which(root.view.child_count()))).collect();
    let mut own = program.readable(&own, reads)?.into_iter();
    let next = |root: &Target<'_>| match has_some(&root) {
        true => own.next(),
        false => Some(Job::from(root)),
    };
    Ok(roots.iter().filter_map(next).collect())
}

/// The strings of dictionaries, decoded.
pub(super) struct Dictionaries<'a> {
    dictionaries: Vec<Target<'a>>,
    values: Buffers,
    /// Their lengths, one behind the other.
    lengths: Arc<DeviceBuffer>,
}

impl<'a> Dictionaries<'a> {
    /// Decodes the dictionaries of chunks of dict, if there are some.
    pub fn of(program: &mut Program<'_>, roots: &[Target<'a>]) -> Result<Option<Self>> {
        if roots.is_empty() {
            return Ok(None);
        }
        let (mut count, mut bytes) = (0, 0_usize);
        let mut dictionaries = Vec::with_capacity(roots.len());
        for root in roots {
            let dictionary = Target { at: count, ..root.child(1) };
            count += dictionary.view.len();
            bytes = bytes
                .checked_add(encoding::value_bytes(dictionary.view))
                .ok_or_else(|| Error::corrupt("values of more bytes than an address"))?;
            dictionaries.push(dictionary);
        }
        let all = DataType::LargeBinary;
        let values = Buffers::allocate(program.stream, &all, count, bytes)?;
        program.keep([&values.bytes, &values.offsets]);
        decode(program, &all, &dictionaries, 0, &values)?;
        let lengths = program.scratch(count * 4)?;
        let found = Self { dictionaries, values, lengths };
        let offsets = |(index, dictionary)| cascade::plain(dictionary, found.pointers(index)[1]);
        let jobs: Vec<Job> = found.dictionaries.iter().enumerate().map(offsets).collect();
        let arguments = words_to(found.lengths.pointer());
        program.step(kernels::DICT_LENGTHS, &jobs, &[], most_rows(&jobs), arguments, &[]);
        Ok(Some(found))
    }

    /// The strings of all dictionaries, and the offsets of one dictionary's.
    pub fn pointers(&self, index: usize) -> [DevicePtr<u8>; 2] {
        let offsets = self.values.offsets.pointer_at(self.dictionaries[index].at * 8);
        [self.values.bytes.pointer(), offsets]
    }

    /// The lengths of the strings of each dictionary, plain.
    pub fn lengths(&self) -> Vec<Job> {
        let lengths = |dictionary: &Target<'_>| {
            cascade::plain(dictionary, self.lengths.pointer::<u32>().add(dictionary.at))
        };
        self.dictionaries.iter().map(lengths).collect()
    }
}

/// The argument of kernels that write the bytes of rows, which are made of other strings.
fn put_to(
    values: &Buffers,
    not_ascii: Words,
    to: &Buffers,
) -> impl Fn(&Launched) -> DictStringsArguments + 'static + use<> {
    let (values, out, offsets) = (values.bytes.pointer(), to.bytes.pointer(), to.offsets.pointer());
    let offset_bytes = to.offset_bytes as u32;
    move |at| DictStringsArguments {
        nodes: at.nodes,
        values,
        out,
        offsets,
        status: at.status,
        not_ascii: at.words(not_ascii),
        blocks_per_node: at.blocks_per_node,
        offset_bytes,
    }
}

/// Rows that are codes of dictionaries of strings, to be written.
struct LookedUp<'a> {
    roots: Vec<Target<'a>>,
    dictionaries: Dictionaries<'a>,
    /// For each chunk its codes, and the lengths of its rows, both plain.
    codes: Vec<Job>,
    lengths: Vec<Job>,
}

impl<'a> LookedUp<'a> {
    /// Finds the lengths of the rows of chunks of dict, if there are some.
    fn of(program: &mut Program<'_>, roots: &[Target<'a>]) -> Result<Option<Self>> {
        let roots = of_encoding(roots, Encoding::Dict);
        let Some(dictionaries) = Dictionaries::of(program, &roots)? else { return Ok(None) };
        let codes: Vec<Target<'a>> = roots.iter().map(|root| root.child(0)).collect();
        let codes = program.readable(&codes, &[Encoding::Plain])?;
        // Whole vectors, so that pieces of 16 bytes belong to one chunk.
        let mut rows = 0;
        let mut jobs = Vec::with_capacity(roots.len());
        for (codes, lengths) in codes.iter().zip(&dictionaries.lengths()) {
            let mut job = with_dictionary(codes, lengths);
            job.node.at = rows as u64;
            rows += (job.node.rows as usize).next_multiple_of(VECTOR);
            jobs.push(job);
        }
        let of_rows = program.scratch(rows * 4)?;
        program.look_up(&jobs, 32, &of_rows)?;
        let placed = roots.iter().zip(&jobs);
        let lengths = placed
            .map(|(root, job)| {
                cascade::plain(root, of_rows.pointer::<u32>().add(job.node.at as usize))
            })
            .collect();
        Ok(Some(Self { roots, dictionaries, codes, lengths }))
    }

    /// Writes the bytes of all rows, whose offsets are there.
    fn write(&self, program: &mut Program<'_>, buffers: &Buffers) -> Group<'a> {
        let Buffers { bytes, offsets, .. } = buffers;
        let job = |(index, codes): (usize, &Job)| {
            let mut node = codes.node;
            node.buffer[1] = self.dictionaries.pointers(index)[1];
            node.size = self.roots[index].view.child(1).len() as u64;
            Job { node, ..*codes }
        };
        let jobs: Vec<Job> = self.codes.iter().enumerate().map(job).collect();
        let not_ascii = program.words(jobs.len());
        let arguments = put_to(&self.dictionaries.values, not_ascii, buffers);
        let longest = self.roots.iter().map(|root| encoding::value_bytes(root.view)).max();
        let rows = most_rows(&jobs);
        program.step(kernels::DICT_STRINGS, &jobs, &[], rows, arguments, &[bytes, offsets]);
        Group { targets: self.roots.clone(), not_ascii, longest: longest.unwrap_or(0) }
    }
}

/// Rows that begin as those before them do, to be put together.
struct Fronts<'a> {
    roots: Vec<Target<'a>>,
    suffixes: Buffers,
    /// For each chunk prefixes and offsets of suffixes, and the lengths of its rows, plain.
    parts: Vec<Job>,
    lengths: Vec<Job>,
}

impl<'a> Fronts<'a> {
    /// Decodes the suffixes of chunks of front coding, if there are some, and finds the lengths
    /// of their rows.
    fn of(program: &mut Program<'_>, roots: &[Target<'a>]) -> Result<Option<Self>> {
        let roots = of_encoding(roots, Encoding::Front);
        if roots.is_empty() {
            return Ok(None);
        }
        let prefixes: Vec<Target<'a>> = roots.iter().map(|root| root.child(0)).collect();
        let prefixes = program.readable(&prefixes, &[Encoding::Plain])?;
        let (mut count, mut bytes) = (0, 0_usize);
        let mut suffixes = Vec::with_capacity(roots.len());
        for root in &roots {
            let suffix = Target { at: count, ..root.child(1) };
            count += suffix.view.len();
            bytes = bytes
                .checked_add(encoding::value_bytes(suffix.view))
                .ok_or_else(|| Error::corrupt("values of more bytes than an address"))?;
            suffixes.push(suffix);
        }
        let all = DataType::LargeBinary;
        let found = Buffers::allocate(program.stream, &all, count, bytes)?;
        program.keep([&found.bytes, &found.offsets]);
        decode(program, &all, &suffixes, 0, &found)?;
        // Whole vectors, as lengths are read.
        let mut rows = 0;
        let part = |(suffix, prefixes): (&Target<'_>, &Job)| {
            let mut job = *prefixes;
            job.node.buffer[1] = found.offsets.pointer_at(suffix.at * 8);
            job.node.at = rows as u64;
            rows += suffix.view.len().next_multiple_of(VECTOR);
            job
        };
        let parts: Vec<Job> = suffixes.iter().zip(&prefixes).map(part).collect();
        let lengths = program.scratch(rows * 4)?;
        let arguments = checked_to(lengths.pointer());
        program.step(kernels::FRONT_LENGTHS, &parts, &[], most_rows(&parts), arguments, &[]);
        let lengths = (roots.iter().zip(&parts))
            .map(|(root, part)| {
                cascade::plain(root, lengths.pointer::<u32>().add(part.node.at as usize))
            })
            .collect();
        Ok(Some(Self { roots, suffixes: found, parts, lengths }))
    }

    /// Writes the bytes of all rows, whose offsets are there.
    fn write(&self, program: &mut Program<'_>, buffers: &Buffers) -> Group<'a> {
        let Buffers { bytes, offsets, .. } = buffers;
        let job = |(root, part): (&Target<'_>, &Job)| {
            let node = Node { at: root.at as u64, ..part.node };
            Job { node, ..*part }
        };
        let jobs: Vec<Job> = self.roots.iter().zip(&self.parts).map(job).collect();
        let not_ascii = program.words(jobs.len());
        let arguments = put_to(&self.suffixes, not_ascii, buffers);
        let longest = self.roots.iter().map(|root| encoding::value_bytes(root.view)).max();
        let rows = most_rows(&jobs);
        program.step(kernels::FRONT_STRINGS, &jobs, &[], rows, arguments, &[bytes, offsets]);
        Group { targets: self.roots.clone(), not_ascii, longest: longest.unwrap_or(0) }
    }
}

/// Strings of front coding or lz as kernels of scans read them: put together, as a plain node of
/// the chunk, and its lengths.
pub(super) fn put_together(program: &mut Program<'_>, root: &Target<'_>) -> Result<[Job; 2]> {
    let (rows, size) = (root.view.len(), encoding::value_bytes(root.view));
    let all = DataType::LargeBinary;
    let values = Buffers::allocate(program.stream, &all, rows, size)?;
    program.keep([&values.bytes, &values.offsets]);
    decode(program, &all, &[Target { at: 0, ..*root }], 0, &values)?;
    let lengths = program.scratch(rows.next_multiple_of(VECTOR) * 4)?;
    let offsets = cascade::plain(&Target { at: 0, ..*root }, values.offsets.pointer::<u64>());
    let arguments = words_to(lengths.pointer());
    program.step(kernels::DICT_LENGTHS, &[offsets], &[], rows, arguments, &[]);
    let mut strings = cascade::plain(root, values.bytes.pointer::<u8>());
    // Where vectors begin stands where plain strings have it, too.
    strings.node.buffer[1] = root.node().buffer[1];
    strings.node.size = size as u64;
    Ok([strings, cascade::plain(root, lengths.pointer::<u32>())])
}
