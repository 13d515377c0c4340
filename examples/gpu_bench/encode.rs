//! Compression in device memory.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{Field, Schema};
use lanepack::internals::measure::{self, Times};
use lanepack::{Error, Options, compress};

use super::{Case, Engines, Line, RUNS, WARM_UP, copies, host, kernels, median};

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
    let (column, runs) = runs(&field, &engines.pinned.copy_to_device(&array)?, options)?;
    let seconds = median(runs.iter().map(|run| run.all).collect()).as_secs_f64();
    let moved = (read + column) as f64 / seconds;
    Ok(Line {
        what: case.column.encoding(),
        case: case.name.clone(),
        arrow: read as f64 / seconds,
        values: (values * copies) as f64 / seconds,
        moved,
        of_copy: moved / copy,
        ratio: read as f64 / column.max(1) as f64,
        host: Some(host),
        kernels: kernels(&runs),
    })
}

/// The bytes that come out, and the times of each run.
fn runs(
    field: &Arc<Field>,
    array: &lanepack::DeviceArray,
    options: &Options,
) -> Result<(usize, Vec<Times>), Error> {
    let mut bytes = 0;
    let mut runs = Vec::new();
    for run in 0..WARM_UP + RUNS {
        let (column, times) = measure::compress(field, array, options)?;
        bytes = column.device_bytes();
        if run >= WARM_UP {
            runs.push(times);
        }
    }
    Ok((bytes, runs))
}
