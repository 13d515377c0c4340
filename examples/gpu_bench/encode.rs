//! Compression in device memory.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{Field, FieldRef, Schema};
use lanepack::internals::measure::{self, Times};
use lanepack::{DeviceArray, Error, Options, compress};

use super::runs::Runs;
use super::{Case, Engines, Line, RUNS, WARM_UP, copies, host, kernels};

/// Compression of one column.
pub struct Encoded {
    /// Compressed bytes on the device.
    pub written: usize,
    /// With waits for the host.
    pub all: Runs,
    /// Kernels one after the other, in runs of their own.
    pub times: Vec<Times>,
}

/// Measures an array in device memory; `serially` runs are made for the times of kernels.
pub fn column(
    field: &FieldRef,
    array: &DeviceArray,
    options: &Options,
    serially: usize,
) -> Result<Encoded, Error> {
    let mut written = 0;
    let all = Runs::measure(RUNS, || {
        let (column, time) = measure::compress(field, array, options)?;
        written = column.device_bytes();
        Ok(time)
    })?;
    let times = (0..serially).map(|_| Ok(measure::compress_serially(field, array, options)?.1));
    Ok(Encoded { written, all, times: times.collect::<Result<_, Error>>()? })
}

/// Measures one column.
pub fn case(engines: &Engines, case: &Case, bytes: usize, copy: f64) -> Result<Line, Error> {
    let (copies, values) = copies(&case.array, bytes);
    let parts: Vec<&dyn Array> = (0..copies).map(|_| case.array.as_ref()).collect();
    let array = arrow_select::concat::concat(&parts)?;
    let field = Arc::new(Field::new(&case.name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let batch = RecordBatch::try_new(schema, vec![array.clone()])?;
    let options = &case.options;
    let read = array.to_data().get_slice_memory_size()?;
    let packed = compress(&batch, options)?;
    let host = host::rates(
        engines,
        &batch,
        read,
        |engine, batch| engine.compress(batch, options),
        |found| *found == packed,
    )?;
    drop((packed, batch));
    let array = engines.pinned.copy_to_device(&array)?;
    let encoded = column(&field, &array, options, WARM_UP + RUNS)?;
    let seconds = encoded.all.median().as_secs_f64();
    let moved = (read + encoded.written) as f64 / seconds;
    Ok(Line {
        what: case.column.encoding().to_string(),
        case: case.name.clone(),
        arrow: read as f64 / seconds,
        values: (values * copies) as f64 / seconds,
        moved,
        of_copy: moved / copy,
        ratio: read as f64 / encoded.written.max(1) as f64,
        host: Some(host),
        kernels: kernels(&encoded.times[WARM_UP..]),
    })
}
