//! Kernels of users: the order of launches and copies, arrays and memory, and what is refused.
//! Those over compressed columns are in `columns.rs`.

use std::sync::Arc;

use arrow_array::*;
use bytemuck::{Pod, Zeroable};
use lanepack::*;

use super::columns::compiled;
use super::engines;

/// What the kernels of [`KERNELS`] take.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Arguments {
    values: DevicePtr<u32>,
    out: DevicePtr<u32>,
    len: u32,
    factor: u32,
}

const KERNELS: &str = r#"#include "lanepack/base.cuh"
using namespace lanepack;
struct Arguments {
    const u32* values;
    u32* out;
    u32 len;
    u32 factor;
};
// out = out * factor + values
LANEPACK_KERNEL(multiply_add, 64, 1, Arguments) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < args.len) args.out[at] = args.out[at] * args.factor + args.values[at];
}
struct Shared {
    u32 values[20000];
};
struct Declared {
    u32 values[64];
};
// The values of a block in the opposite order, by way of more shared memory than a kernel
// may declare.
LANEPACK_KERNEL(reverse, 64, 1, Arguments) {
    LANEPACK_DYNAMIC_SHARED(Shared, shared);
    LANEPACK_SHARED(Declared, declared);
    declared.values[threadIdx.x] = args.values[threadIdx.x];
    __syncthreads();
    shared.values[args.len - 1 - threadIdx.x] = declared.values[threadIdx.x];
    __syncthreads();
    args.out[threadIdx.x] = shared.values[args.len - 64 + threadIdx.x];
}
"#;

fn kernel(engine: &Engine, name: &str, source: &str) -> Option<Kernel> {
    compiled(Kernel::from_source(engine, name, source))
}

/// Launches with copies and drops in between, on one device.
pub fn in_order(engine: &Engine, rounds: u32) {
    let len = 3000_u32;
    let values: Vec<u32> = (0..len).collect();
    let Some(kernel) = kernel(engine, "multiply_add", KERNELS) else { return };
    assert_eq!(kernel.name(), "multiply_add");
    let out = DeviceMemory::<u32>::zeros(engine, len as usize).unwrap();
    assert_eq!((out.len(), out.is_empty()), (3000, false));
    let mut expected = vec![0_u32; len as usize];
    for round in 0..rounds {
        let added: Vec<u32> = values.iter().map(|value| value ^ round).collect();
        let memory = DeviceMemory::from_slice(engine, &added).unwrap();
        let arguments = Arguments { values: memory.pointer(), out: out.pointer(), len, factor: 3 };
        // SAFETY: the struct is the kernel's, which stays within `len` values.
        unsafe { kernel.launch(47, 64, &arguments, &[&memory, &out]) }.unwrap();
        // Would be the same memory, while the kernel may still read it.
        drop(memory);
        for (expected, added) in expected.iter_mut().zip(&added) {
            *expected = expected.wrapping_mul(3).wrapping_add(*added);
        }
        if round % 7 == 5 {
            assert_eq!(out.to_vec().unwrap(), expected);
        }
        if round % 11 == 8 {
            out.clear().unwrap();
            expected.fill(0);
        }
    }
    engine.synchronize().unwrap();
    assert_eq!(out.to_vec().unwrap(), expected);
}

#[test]
fn launches_and_copies_keep_their_order() {
    engines().iter().for_each(|engine| in_order(engine, 60));
}

#[test]
fn reads_arrays_in_device_memory() {
    for engine in engines() {
        let Some(kernel) = kernel(&engine, "multiply_add", KERNELS) else { continue };
        let values: Vec<u32> = (0..5000).map(|row| row * row).collect();
        let array: ArrayRef = Arc::new(UInt32Array::from(values.clone()));
        let batch = RecordBatch::try_from_iter([("x", array)]).unwrap();
        let packed = compress(&batch, &Options::default()).unwrap();
        let decoded = engine.upload(&packed).unwrap().decompress().unwrap().remove(0);
        let out = DeviceMemory::<u32>::zeros(&engine, 5000).unwrap();
        let (start, _) = decoded.buffers().next().unwrap();
        let arguments =
            Arguments { values: start.cast(), out: out.pointer(), len: 5000, factor: 0 };
        // SAFETY: the struct is the kernel's, which stays within 5,000 values.
        unsafe { kernel.launch(79, 64, &arguments, &[&decoded, &out]) }.unwrap();
        drop(decoded);
        assert_eq!(out.to_vec().unwrap(), values);
    }
}

#[test]
fn gives_blocks_the_shared_memory_that_is_asked_for() {
    for engine in engines() {
        let values: Vec<u32> = (100..164).collect();
        let memory = DeviceMemory::from_slice(&engine, &values).unwrap();
        let reversed: Vec<u32> = values.into_iter().rev().collect();
        // With what the kernel declares a little more than drivers give unasked; a lot more.
        for words in [20_000, 12 << 10, 75] {
            let source = KERNELS.replace("20000", &words.to_string());
            let Some(kernel) = kernel(&engine, "reverse", &source) else { continue };
            let kernel = kernel.with_shared_bytes(4 * words);
            let out = DeviceMemory::<u32>::zeros(&engine, 64).unwrap();
            let arguments =
                Arguments { values: memory.pointer(), out: out.pointer(), len: words, factor: 0 };
            // SAFETY: the struct is the kernel's, which reads and writes 64 values, and as many
            // words of shared memory as there are.
            unsafe { kernel.launch(1, 64, &arguments, &[&memory, &out]) }.unwrap();
            assert_eq!(out.to_vec().unwrap(), reversed);
        }
    }
}

#[test]
fn memory_holds_values_of_any_plain_type() {
    for engine in engines() {
        let structs = [Arguments { len: 7, ..Zeroable::zeroed() }; 3];
        let copied = DeviceMemory::from_slice(&engine, &structs).unwrap().to_vec().unwrap();
        assert_eq!(bytemuck::bytes_of(&structs), bytemuck::cast_slice::<_, u8>(&copied));
        let bytes: Vec<u8> = (0..=255).collect();
        let memory = DeviceMemory::from_slice(&engine, &bytes).unwrap();
        assert_eq!(memory.pointer().address() % 256, 0);
        assert_eq!(memory.to_vec().unwrap(), bytes);
        let none = DeviceMemory::<f64>::zeros(&engine, 0).unwrap();
        assert!(none.is_empty() && none.to_vec().unwrap().is_empty());
        let error = DeviceMemory::<u64>::zeros(&engine, usize::MAX / 16).unwrap_err();
        assert!(matches!(error, Error::DeviceMemory { .. }), "{error}");
    }
}

#[test]
fn says_what_is_wrong_with_a_source() {
    for engine in engines() {
        if kernel(&engine, "reverse", KERNELS).is_none() {
            continue;
        }
        let broken = KERNELS.replacen("args.values[at]", "args.value[at]", 1);
        let error = Kernel::from_source(&engine, "reverse", &broken).unwrap_err().to_string();
        let line = ["kernel.cu(12)", "kernel.cu:12:"];
        assert!(line.iter().any(|line| error.contains(line)), "{error}");
        assert!(error.contains("value"), "{error}");
        let error = Kernel::from_source(&engine, "revers", KERNELS).unwrap_err().to_string();
        assert!(error.contains("kernel revers:"), "{error}");
    }
}

#[test]
fn needs_a_device() {
    let error = Kernel::from_source(&Engine::cpu(), "reverse", KERNELS).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    let error = DeviceMemory::<u8>::zeros(&Engine::cpu(), 1).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
}

#[test]
fn refuses_launches_that_do_not_fit() {
    for (engine, other) in engines().iter().zip(engines()) {
        let Some(kernel) = kernel(engine, "multiply_add", KERNELS) else { continue };
        let memory = DeviceMemory::<u32>::zeros(engine, 64).unwrap();
        let arguments =
            Arguments { values: memory.pointer(), out: memory.pointer(), len: 64, factor: 1 };
        let refused = |result: Result<()>, words: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("kernel multiply_add") && error.contains(words), "{error}");
        };
        // SAFETY: none of these starts.
        unsafe {
            let uses: [&dyn OnDevice; 1] = [&memory];
            refused(kernel.launch(1, 128, &arguments, &uses), "is made for 64");
            refused(kernel.launch(1, 0, &arguments, &uses), "is made for 64");
            refused(kernel.launch(1 << 31, 64, &arguments, &uses), "2147483647");
            let foreign = DeviceMemory::<u32>::zeros(&other, 64).unwrap();
            refused(kernel.launch(1, 64, &arguments, &[&foreign]), "of another engine");
            // Drivers since CUDA 12.4 tell what a kernel takes.
            let driver = &engine.device().unwrap().driver;
            if ["12.0", "12.1", "12.2", "12.3"].iter().all(|old| driver != old) {
                refused(kernel.launch(1, 64, &[0_u64; 2], &uses), "16 bytes, the kernel takes 24");
            }
            kernel.launch(0, 64, &arguments, &uses).unwrap();
        }
    }
}
