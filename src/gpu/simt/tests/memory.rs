//! Buffers, copies, events.

use super::*;

#[test]
fn memory_begins_unwritten_and_aligned() {
    let bench = Bench::new(0);
    for len in [0, 1, 255, 256, 1000] {
        let buffer = bench.stream.allocate(len).unwrap();
        assert_eq!(buffer.len(), len);
        assert_eq!(buffer.pointer::<u8>().address() % PADDING as u64, 0);
        let mut bytes = vec![0; len];
        bench.stream.download(&buffer, 0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|&byte| byte == UNWRITTEN));
    }
}

#[test]
fn memory_ends_at_the_limit() {
    let device = SimtDevice::new(3, 10_000, 0);
    assert_eq!(device.info().memory, 10_000);
    assert_eq!(device.info().ordinal, 3);
    let stream = device.stream(Priority::Usual).unwrap();
    let first = stream.allocate(6_000).unwrap();
    assert_eq!(device.free_memory().unwrap(), 3_744);
    for len in [3_489, 4_000, usize::MAX] {
        match stream.allocate(len).unwrap_err() {
            Error::DeviceMemory { needed, free, total, device, .. } => {
                assert_eq!((needed, free, total), (len as u64, 3_744, 10_000));
                assert_eq!(device, "host emulation");
            }
            other => panic!("{other}"),
        }
    }
    drop(stream.allocate(3_488).unwrap());
    drop(first);
    assert_eq!(device.free_memory().unwrap(), 10_000);
}

#[test]
fn an_allocation_beyond_the_host_is_an_error() {
    let device = SimtDevice::new(0, u64::MAX, 0);
    let error = device.stream(Priority::Usual).unwrap().allocate(1 << 60).unwrap_err();
    assert!(matches!(error, Error::DeviceMemory { needed: 0x1000_0000_0000_0000, .. }), "{error}");
    assert_eq!(device.free_memory().unwrap(), u64::MAX);
}

#[test]
fn copies_move_bytes() {
    let bench = Bench::new(0);
    let (from, to) = (bench.words(&[1, 2, 3, 4]), bench.words(&[0; 4]));
    bench.stream.copy(&from, 4, &to, 8, 8).unwrap();
    bench.stream.fill(&to, 0, 4, 7).unwrap();
    bench.stream.upload(&[9], &to, 4).unwrap();
    assert_eq!(bench.read(&to), [0x0707_0707, 9, 2, 3]);
    let mut part = [0; 4];
    bench.stream.download(&to, 12, &mut part).unwrap();
    assert_eq!(part, [3, 0, 0, 0]);
}

#[test]
fn copies_past_the_end_are_refused() {
    let bench = Bench::new(0);
    let (stream, buffer, other) = (&bench.stream, bench.words(&[0; 4]), bench.words(&[0; 8]));
    let elsewhere = Bench::new(0).words(&[0; 8]);
    let mut target = [0; 9];
    let refused = [
        stream.fill(&buffer, 16, 1, 0),
        stream.fill(&buffer, usize::MAX, 2, 0),
        stream.upload(&[0; 17], &buffer, 0),
        stream.upload(&[0], &buffer, 17),
        stream.download(&buffer, 8, &mut target),
        stream.copy(&buffer, 8, &other, 0, 9),
        stream.copy(&other, 0, &buffer, 8, 9),
        stream.copy(&other, 0, &other, 8, 9),
        stream.fill(&elsewhere, 0, 1, 0),
        stream.copy(&buffer, 0, &elsewhere, 0, 4),
    ];
    for (at, result) in refused.into_iter().enumerate() {
        assert!(matches!(result, Err(Error::Device { .. })), "call {at}: {result:?}");
    }
}

#[test]
fn events_tell_time_and_belong_to_a_device() {
    let bench = Bench::new(0);
    let first = bench.stream.record().unwrap();
    bench.run("selftest_spend", (1, 128), &[], &[0], (100, 0)).unwrap();
    let second = bench.stream.record().unwrap();
    assert!(second.elapsed(first.as_ref()).unwrap() > Duration::ZERO);
    assert_eq!(first.elapsed(second.as_ref()).unwrap(), Duration::ZERO);
    assert!(first.handle().is_null());
    bench.stream.wait(first.as_ref()).unwrap();
    bench.stream.synchronize().unwrap();
    first.synchronize().unwrap();
    let other = Bench::new(0).stream.record().unwrap();
    assert!(bench.stream.wait(other.as_ref()).is_err());
    assert!(first.elapsed(other.as_ref()).is_err());
}

#[test]
fn threads_launch_at_the_same_time() {
    let input: Vec<u32> = (0..1280).collect();
    let sums: Vec<u32> = input.chunks(128).map(|part| part.iter().sum()).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (input, sums) = (&input, &sums);
            scope.spawn(move || {
                let bench = Bench::new(seed);
                for _ in 0..20 {
                    let found = bench.run("selftest_sum", (10, 128), input, &[0; 10], (0, 0));
                    assert_eq!(found.unwrap(), *sums);
                }
            });
        }
    });
}
