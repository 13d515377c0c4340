//! What needs a driver or a GPU is reported as skipped where there is none;
//! LANEPACK_REQUIRE_GPU=1 makes that a failure.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;

use super::stream::CudaStream;
use super::{Context, PageLocked, Shared, devices, driver, open};
use crate::error::Error;
use crate::gpu::module::SOURCES;
use crate::gpu::nvrtc::{Input, Nvrtc, Source};
use crate::gpu::{DevicePtr, HostMemory, Launch, Priority, Stream};
use crate::skipped;

const KERNEL: Source = (
    "test.cu",
    r#"#include "arguments.cuh"
struct TestArguments {
    const lanepack::u32* in;
    lanepack::u32* out;
    lanepack::u64 len;
    lanepack::u32 add;
    lanepack::u32 rounds;
};
// Slow on purpose: one round after another.
LANEPACK_KERNEL(test_add, 256, 1, TestArguments) {
    const lanepack::u64 at = blockIdx.x * 256ull + threadIdx.x;
    if (at >= args.len) return;
    lanepack::u32 value = args.in[at];
    for (lanepack::u32 round = 0; round < args.rounds; round++) value = value * 3 + args.add;
    args.out[at] = value;
}
"#,
);

fn skip(why: &str) {
    skipped::skip("LANEPACK_REQUIRE_GPU", why);
}

/// The kernel of these tests with the headers of all.
fn sources() -> Vec<Source> {
    let headers = SOURCES.iter().filter(|(name, _)| name.ends_with(".cuh"));
    headers.copied().chain([KERNEL]).collect()
}

/// Device 0 with the kernel of these tests.
fn device() -> Option<Arc<Shared>> {
    let made = Context::new(0).and_then(|context| {
        let nvrtc = Nvrtc::load(Some(context.driver))?;
        let target = nvrtc.target(context.info.compute_capability)?;
        let image = nvrtc.compile(&Input::kernels(&sources()), target)?;
        Ok(Arc::new(Shared::new(context, &image)?))
    });
    match made {
        Ok(shared) => Some(shared),
        Err(error @ Error::NoDevice { .. }) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn stream(shared: &Arc<Shared>) -> CudaStream {
    CudaStream::new(shared, Priority::Usual).unwrap()
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn is_device_error<T>(result: crate::Result<T>, words: &str) {
    match result {
        Err(Error::Device { what, .. }) => assert!(what.contains(words), "{what}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("no error where {words:?} was expected"),
    }
}

#[test]
fn says_that_there_is_no_driver() {
    if driver::is_present() {
        return skipped::report("there is a driver");
    }
    for error in [devices().unwrap_err(), open(0).unwrap_err()] {
        let text = error.to_string();
        assert!(matches!(error, Error::NoDevice { .. }), "{text}");
        assert!(text.contains("no CUDA driver"), "{text}");
    }
}

#[test]
fn compiles_kernels_with_their_headers() {
    let nvrtc = match Nvrtc::load(None) {
        Ok(nvrtc) => nvrtc,
        Err(error) => return skipped::skip("LANEPACK_REQUIRE_NVRTC", &error.to_string()),
    };
    let input = Input::kernels(&sources());
    let code = nvrtc.compile(&input, nvrtc.target((8, 0)).unwrap()).unwrap();
    assert!(code.windows(8).any(|bytes| bytes == b"test_add"));
}

#[test]
fn says_how_many_devices_there_are() {
    let Ok(count) = devices() else { return skip("no driver") };
    let text = open(count + 1).unwrap_err().to_string();
    assert!(count == 0 || text.contains(&format!("device {} of {count}", count + 1)), "{text}");
}

#[test]
fn shares_one_context() {
    let (a, b) = match (open(0), open(0)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(error), _) | (_, Err(error)) => return skip(&error.to_string()),
    };
    assert!(std::ptr::eq(a.info(), b.info()));
    assert!(a.free_memory().unwrap() <= a.info().memory);
}

#[test]
fn round_trips_bytes_of_any_length() {
    let Some(shared) = device() else { return };
    let stream = stream(&shared);
    for len in [0, 1, 4095, 65_536, 65_537, 8 << 20, (8 << 20) + 1, 50_000_001] {
        let source = noise(len);
        let buffer = stream.allocate(len + 3).unwrap();
        let other = stream.allocate(len + 7).unwrap();
        stream.upload(&source, &buffer, 3).unwrap();
        stream.copy(&buffer, 3, &other, 5, len).unwrap();
        let mut back = vec![0; len];
        stream.download(&other, 5, &mut back).unwrap();
        assert!(back == source, "{len} bytes");
    }
}

/// Page-locked memory of `len` bytes, none of them written.
#[allow(clippy::mut_from_ref, reason = "raw memory, in a test")]
fn page_locked(memory: &PageLocked) -> &mut [MaybeUninit<u8>] {
    // SAFETY: `memory` has so many bytes, and every test takes them once.
    unsafe { std::slice::from_raw_parts_mut(memory.start().as_ptr().cast(), memory.len()) }
}

#[test]
fn round_trips_page_locked_bytes_of_any_length() {
    let Some(shared) = device() else { return };
    let stream = stream(&shared);
    for len in [0, 1, 65_537, 2 << 20, (2 << 20) + 1, 50_000_001] {
        let source = noise(len);
        let buffer = stream.allocate(len + 3).unwrap();
        stream.upload(&source, &buffer, 3).unwrap();
        let locked = PageLocked::new(&shared.context, len).unwrap();
        let bytes = page_locked(&locked);
        stream.download_to(&buffer, 3, bytes).unwrap();
        // SAFETY: every byte has been written.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), len) };
        assert!(bytes == source, "{len} bytes");
        stream.fill(&buffer, 0, len + 3, 0).unwrap();
        stream.upload(bytes, &buffer, 1).unwrap();
        let mut back = vec![0; len];
        stream.download(&buffer, 1, &mut back).unwrap();
        assert!(back == source, "{len} bytes");
    }
}

#[test]
fn knows_page_locked_memory() {
    let Some(shared) = device() else { return };
    let (context, len) = (&shared.context, 3 << 20);
    let (locked, ordinary) = (PageLocked::new(context, len).unwrap(), vec![0_u8; len]);
    let start = locked.start().as_ptr();
    for is_ours in [true, false] {
        if !is_ours {
            // As if others had locked it: the driver knows.
            context.forget_page_locked();
        }
        assert!(context.is_page_locked(start, len), "{is_ours}");
        assert!(context.is_page_locked(start.wrapping_add(77), len - 77), "{is_ours}");
        assert!(!context.is_page_locked(start, len + (64 << 20)), "{is_ours}");
        assert!(!context.is_page_locked(ordinary.as_ptr(), len), "{is_ours}");
    }
}

#[test]
fn rejects_what_does_not_fit_a_buffer() {
    let Some(shared) = device() else { return };
    let stream = stream(&shared);
    let (a, b) = (stream.allocate(100).unwrap(), stream.allocate(100).unwrap());
    is_device_error(stream.upload(&[0; 2], &a, 99), "upload: bytes 99 to 101 of a buffer of 100");
    is_device_error(stream.download(&a, 101, &mut []), "download");
    is_device_error(stream.fill(&a, 1, usize::MAX, 0), "fill");
    is_device_error(stream.copy(&a, 0, &b, 1, 100), "copy");
    is_device_error(stream.copy(&a, 0, &a, 1, 50), "overlap");
    stream.synchronize().unwrap();
}

#[test]
fn says_how_much_memory_there_is_and_goes_on() {
    let Some(shared) = device() else { return };
    let stream = stream(&shared);
    let total = shared.context.info.memory;
    let held = stream.allocate(1 << 20).unwrap();
    // More than there is, and more than is left.
    for bytes in [total as usize * 2, total as usize - (1 << 20)] {
        match stream.allocate(bytes) {
            Err(Error::DeviceMemory { needed, free, total: of, .. }) => {
                assert!(needed >= bytes as u64 && free < needed && of == total);
            }
            other => panic!("{other:?}"),
        }
    }
    stream.fill(&held, 0, held.len(), 1).unwrap();
    stream.synchronize().unwrap();
}

fn add(from: DevicePtr<u32>, to: DevicePtr<u32>, (len, add, rounds): (u64, u32, u32)) -> Vec<u8> {
    let words = [from.address(), to.address(), len, u64::from(add) | u64::from(rounds) << 32];
    bytemuck::cast_slice(&words).to_vec()
}

#[test]
fn launches_kernels_or_names_the_one_that_failed() {
    let Some(shared) = device() else { return };
    let stream = stream(&shared);
    let source: Vec<u32> = (0..1000).collect();
    let (a, b) = (stream.allocate(4000).unwrap(), stream.allocate(4000).unwrap());
    stream.upload(bytemuck::cast_slice(&source), &a, 0).unwrap();
    let arguments = add(a.pointer(), b.pointer(), (1000, 7, 2));
    let launch = |kernel, blocks| {
        let (arguments, buffers) = (&arguments[..], &[&a, &b][..]);
        stream.launch(&Launch {
            module: None,
            kernel,
            blocks,
            threads: 256,
            shared: 0,
            cache_bytes: 0,
            arguments,
            arguments_type: None,
            buffers,
        })
    };
    launch("no_such_kernel", 0).unwrap();
    is_device_error(launch("no_such_kernel", 1), "no_such_kernel");
    is_device_error(launch("test_add", 1 << 31), "test_add");
    let before = stream.record().unwrap();
    launch("test_add", 4).unwrap();
    let after = stream.record().unwrap();
    let mut back = vec![0u32; 1000];
    stream.download(&b, 0, bytemuck::cast_slice_mut(&mut back)).unwrap();
    assert!(back.iter().zip(&source).all(|(back, value)| *back == (value * 3 + 7) * 3 + 7));
    assert!(after.elapsed(before.as_ref()).unwrap().as_nanos() > 0);
    assert!(!after.handle().is_null());
}

#[test]
fn compiles_sources_and_launches_their_kernels() {
    let Some(shared) = device() else { return };
    let source = |factor: u32| {
        format!(
            "#include \"lanepack/base.cuh\"\n\
             struct A {{ const lanepack::u64* in; lanepack::u64* out; lanepack::u64 n; }};\n\
             LANEPACK_KERNEL(test_add, 128, 1, A) {{\n\
                 const lanepack::u64 at = blockIdx.x * 128ull + threadIdx.x;\n\
                 const unsigned __int128 wide = (unsigned __int128)args.in[at] << 64;\n\
                 if (at < args.n) args.out[at] = (lanepack::u64)(wide * {factor} >> 64);\n\
             }}\n"
        )
    };
    let values: Vec<u64> =
        (0..1000).map(|value: u64| value.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let stream = stream(&shared);
    let (a, b) = (stream.allocate(8192).unwrap(), stream.allocate(8192).unwrap());
    stream.upload(bytemuck::cast_slice(&values), &a, 0).unwrap();
    let words = [a.pointer::<u64>().address(), b.pointer::<u64>().address(), 1000];
    let modules = [2, 3].map(|factor| shared.compile(&source(factor)).unwrap());
    assert!(Arc::ptr_eq(&modules[0], &shared.compile(&source(2)).unwrap()));
    // The same name in two modules and among the device's own kernels.
    let launch = |factor: usize, kernel| {
        stream.launch(&Launch {
            module: Some(modules[factor - 2].as_ref()),
            kernel,
            blocks: 8,
            threads: 128,
            shared: 0,
            cache_bytes: 0,
            arguments: bytemuck::cast_slice(&words),
            arguments_type: None,
            buffers: &[&a, &b],
        })
    };
    for factor in [2, 3, 2] {
        launch(factor, "test_add").unwrap();
        let mut back = vec![0u64; 1000];
        stream.download(&b, 0, bytemuck::cast_slice_mut(&mut back)).unwrap();
        let product = |value: &u64| value.wrapping_mul(factor as u64);
        assert!(back.iter().zip(&values).all(|(back, value)| *back == product(value)));
    }
    is_device_error(launch(2, "no_such_kernel"), "no_such_kernel");
    is_device_error(shared.compile(&source(2).replace("wide *", "wild *")), "kernel.cu(6)");
}

#[test]
fn frees_after_other_streams_are_done() {
    let Some(shared) = device() else { return };
    let (home, guest) = (stream(&shared), stream(&shared));
    let len = 1 << 20;
    let source: Vec<u32> = (0..len as u32).collect();
    for round in 0..20 {
        let result = guest.allocate(len * 4).unwrap();
        {
            let buffer = home.allocate(len * 4).unwrap();
            home.upload(bytemuck::cast_slice(&source), &buffer, 0).unwrap();
            guest.wait(home.record().unwrap().as_ref()).unwrap();
            let launch = Launch {
                module: None,
                kernel: "test_add",
                blocks: len / 256,
                threads: 256,
                shared: 0,
                cache_bytes: 0,
                arguments: &add(buffer.pointer(), result.pointer(), (len as u64, round, 2000)),
                arguments_type: None,
                buffers: &[&buffer, &result],
            };
            guest.launch(&launch).unwrap();
        }
        // Would be the same memory, while the guest still reads it.
        let next = home.allocate(len * 4).unwrap();
        home.fill(&next, 0, len * 4, 0xff).unwrap();
        let mut back = vec![0u32; len];
        guest.download(&result, 0, bytemuck::cast_slice_mut(&mut back)).unwrap();
        let expected =
            |value| (0..2000).fold(value, |v: u32, _| v.wrapping_mul(3).wrapping_add(round));
        assert!(back.iter().zip(&source).step_by(4099).all(|(back, v)| *back == expected(*v)));
    }
}

#[test]
fn serves_threads_at_once() {
    let Some(shared) = device() else { return };
    thread::scope(|scope| {
        for thread in 0..8 {
            let shared = &shared;
            scope.spawn(move || {
                let stream = stream(shared);
                for round in 0..10 {
                    let source = noise(20_000_000 + thread * 1001 + round);
                    let buffer = stream.allocate(source.len()).unwrap();
                    stream.upload(&source, &buffer, 0).unwrap();
                    let mut back = vec![0; source.len()];
                    stream.download(&buffer, 0, &mut back).unwrap();
                    assert!(back == source);
                }
            });
        }
    });
}
