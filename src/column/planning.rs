//! What choosing encodings costs: for `examples/planning.rs`.

use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef};

use super::{chunk_ranges, symbols_of, validity_bits};
use crate::encoding::plan::{self, Context};
use crate::encoding::{Input, Physical, Values, source};
use crate::error::Result;
use crate::options::Options;

/// Time of the first steps of compressing an array.
#[derive(Debug, Clone, Copy)]
pub struct PlanningTimes {
    /// Training symbol tables of strings.
    pub tables: Duration,
    /// Choosing encodings, chunk by chunk.
    pub plans: Duration,
}

/// Takes the first steps of [`compress_array`](crate::compress_array), one chunk after the
/// other, and drops what they give.
///
/// # Errors
/// [`Error::Options`](crate::Error::Options) for a setting out of range.
pub fn time_planning(array: &ArrayRef, options: &Options) -> Result<PlanningTimes> {
    options.validate()?;
    options.install(|| {
        let start = Instant::now();
        let ranges = chunk_ranges(array.len(), options);
        let symbols = symbols_of(array, &ranges, options);
        let tables = start.elapsed();
        for (range, symbols) in ranges.iter().zip(&symbols) {
            let slice = array.slice(range.start, range.len());
            let context = Context::new(options, symbols.as_ref());
            let bits = validity_bits(&slice);
            source::with_input(&slice, bits, true, |input| {
                plan::plan_input(input, &context);
                if let Some(bits) = bits {
                    plan::plan_input(&Input::new(Physical::Bool, Values::Bits(bits)), &context);
                }
            });
        }
        PlanningTimes { tables, plans: start.elapsed() - tables }
    })
}
