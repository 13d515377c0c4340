//! Strings on a device: bytes, offsets, and the arrays made of them.
//!
//! ```text
//! fsst_decode, bytes_plain, bytes_constant --> bytes, of all chunks one behind the other
//! offsets_32, offsets_64                   --> offsets of all rows, and one behind the last
//! utf8                                     --> text only: checks chunks with bytes above 127
//! views, fixed                             --> for view types and FixedSizeBinary
//! ```
//!
//! Bytes and offsets are independent of each other: both follow from the header
//! and from the starts of vectors.

use std::sync::Arc;

use arrow_schema::DataType;

use super::array::DeviceSlice;
use super::program::{Arguments, Program, Strings, Target, Words, jobs, longest, of_encoding};
use crate::encoding::{self, Encoding};
use crate::error::{Error, Result};
use crate::gpu::DeviceBuffer;
use crate::gpu::kernels;

/// Whether values of this type are decoded here.
pub(super) fn is_string(data_type: &DataType) -> bool {
    use DataType as T;
    let text = is_text(data_type);
    text || matches!(data_type, T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_))
}

/// Whether values of a type must be UTF-8.
fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
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
    let mut strings = Vec::new();
    for root in roots {
        let bytes = encoding::value_bytes(root.view);
        strings.push(Target { at: total, ..*root });
        parts.push(total..total + bytes);
        total = total
            .checked_add(bytes)
            .ok_or_else(|| Error::corrupt("values of more bytes than an address"))?;
    }
    let narrow = matches!(data_type, DataType::Utf8 | DataType::Binary);
    if narrow && i32::try_from(total).is_err() {
        return Err(Error::too_large(format!(
            "{total} bytes of values, {data_type} holds {}; decompress fewer chunks at a time",
            i32::MAX
        )));
    }
    // `utf8` reads the last 16 bytes whole.
    let bytes = program.allocate(total + 16)?;
    program.stream.fill(&bytes, total, 16, 0)?;
    let (grouped, not_ascii) = values(program, &strings, &bytes);
    let offset_bytes = if narrow { 4 } else { 8 };
    let offsets = offsets(program, &strings, roots, rows, offset_bytes)?;
    // From here on targets are chunks at their rows.
    let at_rows = |targets: &[Target<'a>]| -> Vec<Target<'a>> {
        targets.iter().map(|target| roots[target.chunk]).collect()
    };
    let common = Strings {
        bytes: bytes.address(),
        offsets: offsets.address(),
        not_ascii,
        offset_bytes: offset_bytes as u32,
        ..Strings::default()
    };
    if is_text(data_type) {
        let most_bytes = parts.iter().map(|part| part.len()).max().unwrap_or(0);
        program.step(
            kernels::UTF8,
            &jobs(&at_rows(&grouped)),
            &[],
            most_bytes,
            Arguments::Strings(common),
            &[&bytes, &offsets],
        );
    }
    match data_type {
        DataType::Utf8View | DataType::BinaryView => {
            let views = program.allocate(rows * 16)?;
            let arguments = Arguments::Strings(Strings { out: views.address(), ..common });
            let buffers = [&bytes, &offsets, &views];
            program.step(kernels::VIEWS, &jobs(roots), &[], longest(roots), arguments, &buffers);
            let parts = parts.into_iter().map(|part| DeviceSlice::of(&bytes, part));
            Ok(std::iter::once(views.into()).chain(parts).collect())
        }
        DataType::FixedSizeBinary(width) => {
            let width = *width as usize;
            let values = program.allocate(rows * width)?;
            let arguments = Arguments::Strings(Strings {
                out: values.address(),
                valid: validity.map_or(0, |bitmap| bitmap.address()),
                width: width as u32,
                ..common
            });
            let buffers = [&bytes, &offsets, &values];
            let buffers = buffers.into_iter().chain(validity).collect::<Vec<_>>();
            program.step(kernels::FIXED, &jobs(roots), &[], longest(roots), arguments, &buffers);
            Ok(vec![values.into()])
        }
        _ => Ok(vec![offsets.into(), DeviceSlice::of(&bytes, 0..total)]),
    }
}

/// The bytes of all values. The targets in the order of the steps, and for each
/// a word that says whether it has bytes above 127.
fn values<'a>(
    program: &mut Program<'_>,
    strings: &[Target<'a>],
    bytes: &Arc<DeviceBuffer>,
) -> (Vec<Target<'a>>, Words) {
    let words = program.words(strings.len());
    let mut grouped = Vec::with_capacity(strings.len());
    for (encoding, kernel) in [
        (Encoding::Fsst, kernels::FSST_DECODE),
        (Encoding::Plain, kernels::BYTES_PLAIN),
        (Encoding::Constant, kernels::BYTES_CONSTANT),
    ] {
        let targets = of_encoding(strings, encoding);
        let not_ascii = words.from(grouped.len());
        // Codes for fsst, bytes of values for the others.
        let size = |target: &Target<'_>| match encoding {
            Encoding::Fsst => target.view.buffer_range(1).len(),
            _ => encoding::value_bytes(target.view),
        };
        let longest = targets.iter().map(size).max().unwrap_or(0);
        let arguments = Arguments::Bytes { out: bytes.address(), not_ascii };
        program.step(kernel, &jobs(&targets), &[], longest, arguments, &[bytes]);
        grouped.extend(targets);
    }
    (grouped, words)
}

/// Where each value begins, and the end of the last one.
fn offsets(
    program: &mut Program<'_>,
    strings: &[Target<'_>],
    roots: &[Target<'_>],
    rows: usize,
    offset_bytes: usize,
) -> Result<Arc<DeviceBuffer>> {
    let out = program.allocate((rows + 1) * offset_bytes)?;
    if strings.is_empty() {
        program.stream.fill(&out, 0, offset_bytes, 0)?;
    }
    // The value lengths are the last child; constants have none, their node stands in.
    let lengths: Vec<Target<'_>> = roots
        .iter()
        .map(|root| match root.view.child_count() {
            0 => *root,
            count => Target { view: root.view.child(count - 1), ..*root },
        })
        .collect();
    let kernel = if offset_bytes == 4 { kernels::OFFSETS_32 } else { kernels::OFFSETS_64 };
    let arguments = Arguments::Offsets { out: out.address() };
    program.step(kernel, &jobs(strings), &jobs(&lengths), longest(roots), arguments, &[&out]);
    Ok(out)
}
