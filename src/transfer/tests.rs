//! Parts that overlap, and what remains undone after an error.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::*;
use crate::gpu::simt;

/// Where something fails.
#[derive(Clone, Copy, PartialEq)]
enum Fails {
    Nowhere,
    Upload(usize),
    Work(usize),
    Download(usize),
}

/// Runs parts of 2 pieces and 3 results each; the results, and how many parts have been worked on.
fn run(parts: usize, fails: Fails) -> (Result<Vec<usize>>, usize) {
    let context =
        Context::new(simt::open(0, simt::Emulation { memory: 1 << 20, ..Default::default() }));
    let fail = |at: Fails| match fails == at {
        true => Err(Error::device("on purpose")),
        false => Ok(()),
    };
    let uploaded: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
    let mut worked = 0;
    let results = context.with_stream(|stream| {
        let upload = |_: &dyn Stream, part: usize, _: usize| {
            fail(Fails::Upload(part))?;
            uploaded[part].fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let work = |part: usize| {
            fail(Fails::Work(part))?;
            assert_eq!(uploaded[part].load(Ordering::Relaxed), 2, "part {part} has arrived");
            if part >= 100 {
                // Time for errors of other threads to be seen.
                thread::sleep(Duration::from_millis(1));
            }
            worked += 1;
            Ok((0..3).map(|result| part * 3 + result).collect())
        };
        let download = |_: &dyn Stream, job: usize| {
            fail(Fails::Download(job))?;
            Ok(job)
        };
        pipeline(&context, stream, &vec![2; parts], &upload, work, &download)
    });
    (results, worked)
}

#[test]
fn results_have_the_order_of_parts() {
    for parts in [0, 1, 2, 40] {
        let (results, worked) = run(parts, Fails::Nowhere);
        assert_eq!(results.unwrap(), (0..3 * parts).collect::<Vec<_>>());
        assert_eq!(worked, parts);
    }
}

#[test]
fn errors_of_every_step_end_the_pipeline() {
    let parts = 2000;
    for fails in [Fails::Upload(3), Fails::Work(3), Fails::Download(9), Fails::Download(0)] {
        let (results, worked) = run(parts, fails);
        assert!(results.unwrap_err().to_string().contains("on purpose"));
        assert!(worked < parts, "{worked} parts");
    }
    let (results, worked) = run(4, Fails::Download(11));
    assert!(results.is_err(), "the last result");
    assert_eq!(worked, 4);
}
