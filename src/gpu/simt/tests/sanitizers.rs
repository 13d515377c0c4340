//! Faults that end the process, each in a process of its own: this test binary
//! again, told by a variable to run the kernel that goes wrong.

use std::process::Command;

use super::*;
use crate::skipped::report;

const VARIABLE: &str = "LANEPACK_SIMT_FAULT";

/// In the child, runs `fault`; else starts the child for the test `name` and
/// checks that it ends with a report that has all of `parts`.
fn ends_the_process(name: &str, fault: impl FnOnce(), parts: &[&str]) {
    if std::env::var_os(VARIABLE).is_some() {
        fault();
        return;
    }
    if !cfg!(lanepack_sanitized) {
        return report("built with LANEPACK_SIMT_SANITIZE=0");
    }
    let test = format!("gpu::simt::tests::sanitizers::{name}");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success(), "{name} went unnoticed: {report}");
    for part in parts {
        assert!(report.contains(part), "{part:?} not in {report}");
    }
}

/// Runs the kernel that goes astray as `mode` says.
fn stray(n: u32, mode: u32) {
    let result = Bench::new(0).run("selftest_wild", (1, 32), &[1; 8], &[0; 8], (n, mode));
    println!("no sanitizer has ended this: {result:?}");
}

#[test]
fn a_write_past_a_device_buffer() {
    // 8 words and the padding.
    let parts = ["AddressSanitizer: heap-buffer-overflow", "WRITE of size 4", "selftest.cu"];
    ends_the_process("a_write_past_a_device_buffer", || stray(8 + 64, 0), &parts);
}

#[test]
fn a_read_past_a_device_buffer() {
    let parts = ["AddressSanitizer: heap-buffer-overflow", "READ of size 4"];
    ends_the_process("a_read_past_a_device_buffer", || stray(8 + 64, 3), &parts);
}

#[test]
fn a_write_past_a_shared_array() {
    let parts = ["AddressSanitizer: use-after-poison", "WRITE of size 4"];
    ends_the_process("a_write_past_a_shared_array", || stray(33, 1), &parts);
}

#[test]
fn a_misaligned_wide_load() {
    let parts = ["runtime error", "misaligned address"];
    ends_the_process("a_misaligned_wide_load", || stray(0, 2), &parts);
}

#[test]
fn a_buffer_that_was_freed() {
    let fault = || {
        let bench = Bench::new(0);
        let freed = bench.words(&[1]).pointer();
        let arguments = Arguments { input: freed, output: freed, n: 0, mode: 3 };
        let arguments = bytemuck::bytes_of(&arguments);
        let launch = Launch {
            module: None,
            kernel: "selftest_wild",
            blocks: 1,
            threads: 32,
            shared: 0,
            cache_bytes: 0,
            arguments,
            arguments_type: None,
            buffers: &[],
        };
        println!("no sanitizer has ended this: {:?}", bench.stream.launch(&launch));
    };
    ends_the_process("a_buffer_that_was_freed", fault, &["heap-use-after-free"]);
}

#[test]
fn a_write_of_a_kernel_compiled_at_run_time() {
    let fault = || {
        let device = SimtDevice::new(0, 1 << 30, 0);
        let bench = Bench { stream: device.stream(Priority::Usual).unwrap() };
        let source = "#include \"lanepack/base.cuh\"\n\
                      struct A { unsigned* out; };\n\
                      LANEPACK_KERNEL(wild, 32, 1, A) { args.out[72 + threadIdx.x] = 1; }\n";
        let module = device.compile(source).unwrap();
        let output = bench.words(&[0; 8]);
        let arguments = output.pointer::<u32>();
        let launch = Launch {
            module: Some(module.as_ref()),
            kernel: "wild",
            blocks: 1,
            threads: 32,
            shared: 0,
            cache_bytes: 0,
            arguments: bytemuck::bytes_of(&arguments),
            arguments_type: None,
            buffers: &[&output],
        };
        println!("no sanitizer has ended this: {:?}", bench.stream.launch(&launch));
    };
    let parts = ["heap-buffer-overflow", "WRITE of size 4", "kernel.cu:3"];
    ends_the_process("a_write_of_a_kernel_compiled_at_run_time", fault, &parts);
}

#[test]
fn a_read_past_memory_of_rust() {
    let fault = || {
        let bench = Bench::new(0);
        let (heap, output) = (vec![1u32; 8], bench.words(&[0; 40]));
        let input = DevicePtr::from_address(heap.as_ptr().addr() as u64);
        let arguments = Arguments { input, output: output.pointer(), n: 8, mode: 3 };
        let arguments = bytemuck::bytes_of(&arguments);
        let buffers = &[&output];
        let launch = Launch {
            module: None,
            kernel: "selftest_wild",
            blocks: 1,
            threads: 32,
            shared: 0,
            cache_bytes: 0,
            arguments,
            arguments_type: None,
            buffers,
        };
        println!("no sanitizer has ended this: {:?}", bench.stream.launch(&launch));
    };
    ends_the_process("a_read_past_memory_of_rust", fault, &["heap-buffer-overflow", "READ"]);
}
