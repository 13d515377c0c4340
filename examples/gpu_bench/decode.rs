//! Decompression in device memory.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;
use lanepack::internals::measure::{self, Times};
use lanepack::{Engine, Error};
use rayon::prelude::*;

use super::runs::Runs;
use super::{Case, Engines, Line, RUNS, WARM_UP, copies, host, kernels};

/// Decompression of one column.
pub struct Decoded {
    /// The compressed column, as often as it takes.
    pub packed: RecordBatch,
    pub copies: usize,
    /// Bytes of Arrow's buffers, and of the values among them.
    pub written: usize,
    pub values: usize,
    /// Compressed bytes on the device.
    pub read: usize,
    pub all: Runs,
    pub times: Vec<Times>,
    /// Whether the values were those that were compressed.
    pub same: bool,
}

/// Whether an array is so many copies of a case's.
pub fn is_right(case: &Case, copies: usize, back: &ArrayRef) -> bool {
    let rows = case.array.len();
    back.len() == copies * rows
        && (0..copies)
            .into_par_iter()
            .all(|index| back.slice(index * rows, rows).as_ref() == case.array.as_ref())
}

/// Measures the kernels for one column of `bytes` bytes.
pub fn column(engine: &Engine, case: &Case, bytes: usize) -> Result<Decoded, Error> {
    let (field, storage) = case.column.to_arrow(&case.name);
    let (copies, values) = copies(&case.array, bytes);
    let schema = Arc::new(Schema::new(vec![field]));
    let packed = RecordBatch::try_new(schema.clone(), vec![Arc::new(storage)])?;
    let packed = arrow_select::concat::concat_batches(&schema, vec![&packed; copies])?;
    // As compression gives it: the bodies at a multiple of 64 bytes.
    let (_, storage) = lanepack::columns(&packed)?[0].to_arrow(&case.name);
    let packed = RecordBatch::try_new(schema, vec![Arc::new(storage)])?;
    let on_device = engine.upload(&packed)?;
    let on_device = &on_device.columns()[0];
    let (array, _) = measure::decompress(on_device)?;
    let written: usize =
        array.buffers().chain(array.validity()).map(|(_, bytes)| bytes).sum::<usize>();
    let same = is_right(case, copies, &array.to_host()?);
    drop(array);
    let mut times: Vec<Times> = Vec::with_capacity(RUNS);
    for run in 0..WARM_UP + RUNS {
        let (_, measured) = measure::decompress(on_device)?;
        if run >= WARM_UP {
            times.push(measured);
        }
    }
    Ok(Decoded {
        packed,
        copies,
        written,
        values: values * copies,
        read: on_device.device_bytes(),
        all: times.iter().map(|times| times.all).collect(),
        times,
        same,
    })
}

/// Measures one column on the device and from host to host.
pub fn case(engines: &Engines, case: &Case, bytes: usize, copy: f64) -> Result<Line, Error> {
    let decoded = column(&engines.pinned, case, bytes)?;
    let seconds = decoded.all.median().as_secs_f64();
    let moved = (decoded.read + decoded.written) as f64 / seconds;
    let Decoded { written, copies, same, .. } = decoded;
    let host = host::rates(engines, &decoded.packed, written, Engine::decompress, |back| {
        same && is_right(case, copies, back.column(0))
    })?;
    Ok(Line {
        what: case.column.encoding().to_string(),
        case: case.name.clone(),
        arrow: written as f64 / seconds,
        values: decoded.values as f64 / seconds,
        moved,
        of_copy: moved / copy,
        ratio: written as f64 / decoded.read.max(1) as f64,
        host: Some(host),
        kernels: kernels(&decoded.times),
    })
}
