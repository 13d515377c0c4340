//! Workers that fail or panic in the middle of a call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::{DataType, Field, FieldRef};

use super::*;
use crate::gpu::simt;
use crate::options::Options;
use crate::transfer::compress_to_device;

const MEMORY: u64 = 1 << 24;

fn workers(devices: u64, threads: usize) -> Workers {
    let device = |seed| simt::Emulation { seed, memory: MEMORY, ..Default::default() };
    let context = |seed| Context::new(simt::open(seed as usize, device(seed)));
    Workers { threads, devices: (0..devices).map(context).collect(), ..Workers::default() }
}

/// Units, of which the host does the last one.
fn units(count: usize) -> Vec<Unit> {
    let fits = |chunk| if chunk + 1 == count { Fits::Host } else { Fits::Alone };
    let unit = |chunk| Unit { column: 0, chunks: chunk..chunk + 1, bytes: 1, fits: fits(chunk) };
    (0..count).map(unit).collect()
}

/// Has units done by workers, of which devices allocate memory for each; what is done, in order.
fn call(
    workers: &Workers,
    count: usize,
    on_host: impl Fn(usize) -> Result<()> + Sync,
    on_device: impl Fn(usize) -> Result<()> + Sync,
) -> Result<Vec<usize>> {
    let field: FieldRef = Arc::new(Field::new("value", DataType::Int64, false));
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
    let on_device = |context: &Arc<Context>, range: Range<usize>| {
        let column = compress_to_device(context, &field, &array, &Options::default())?;
        on_device(range.start)?;
        drop(column);
        Ok(())
    };
    let (done, _) = share(workers, &LONG_SPANS, &units(count), &on_host, &on_device)?;
    Ok(done.into_iter().flat_map(|(range, ())| range).collect())
}

/// Whether all memory of devices is free.
fn is_free(workers: &Workers) -> bool {
    workers.devices.iter().all(|context| context.device().free_memory().unwrap() == MEMORY)
}

#[test]
fn a_panic_of_a_worker_ends_the_call_and_nothing_else() {
    let workers = workers(2, 0);
    let no_panic = |_| Ok(());
    let panics_at = |place: usize| {
        move |unit| match unit == place {
            true => panic!("unit {unit}"),
            false => Ok(()),
        }
    };
    for place in [0, 3] {
        let call = || call(&workers, 20, no_panic, panics_at(place));
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(panic.downcast_ref::<String>().unwrap(), &format!("unit {place}"));
        assert!(is_free(&workers), "unit {place}");
    }
    // The last unit is the host's.
    let call_with_host = || call(&workers, 20, panics_at(19), no_panic);
    let panic = catch_unwind(AssertUnwindSafe(call_with_host)).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), "unit 19");
    assert!(is_free(&workers));
    let done = call(&workers, 20, no_panic, no_panic).unwrap();
    assert_eq!(done, (0..20).collect::<Vec<_>>());
}

#[test]
fn nothing_is_begun_after_a_panic() {
    let workers = workers(1, 0);
    let done = AtomicUsize::new(0);
    let panics = |unit| {
        assert_ne!(unit, 0, "the first unit");
        thread::sleep(Duration::from_millis(20));
        done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    assert!(catch_unwind(AssertUnwindSafe(|| call(&workers, 500, |_| Ok(()), panics))).is_err());
    assert!(done.into_inner() < 400);
}

#[test]
fn an_error_ends_the_call_and_leaves_nothing() {
    let workers = workers(2, 1);
    let fails = |unit| match unit {
        5.. => Err(Error::Options { name: "unit", what: unit.to_string() }),
        _ => Ok(()),
    };
    let error = call(&workers, 50, fails, fails).unwrap_err();
    assert!(matches!(error, Error::Options { .. }), "{error}");
    assert!(is_free(&workers));
}

#[test]
fn the_first_unit_with_an_error_names_it() {
    let errors = FirstError::default();
    assert!(!errors.is_set());
    for unit in [7, 3, 9] {
        errors.set(unit, Error::device(format!("unit {unit}")));
    }
    assert!(errors.is_set());
    let error = errors.into_result().unwrap_err().to_string();
    assert!(error.contains("unit 3"), "{error}");
}
