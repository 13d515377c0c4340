//! Sources compiled while the test runs.

use std::thread;

use super::*;

/// Kernels of one struct of arguments: sums of blocks in shared memory, and products of
/// 128 bits.
const SOURCE: &str = r#"#include "lanepack/base.cuh"
using namespace lanepack;
struct Arguments {
    const u32* in;
    u32* out;
    u32 n;
    u32 mode;
};
LANEPACK_KERNEL(sum, 64, 1, Arguments) {
    LANEPACK_SHARED(u32[2], sums);
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 value = at < args.n ? args.in[at] : 0;
    const u32 warp = __reduce_add_sync(FULL, value);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = warp;
    if (args.mode == 1 && threadIdx.x == 5) __syncwarp(1);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(args.out, sums[0] + sums[1]);
}
LANEPACK_KERNEL(multiply, 32, 1, Arguments) {
    const __int128 high = static_cast<__int128>(args.in[threadIdx.x]) << 64;
    args.out[threadIdx.x] = static_cast<u32>(-high * args.n / args.in[0] >> 64);
}
"#;

/// A device and a module on it.
struct Compiled {
    bench: Bench,
    device: SimtDevice,
    module: Arc<dyn Module>,
}

impl Compiled {
    fn new(source: &str) -> Self {
        let device = SimtDevice::new(0, 1 << 30, 1);
        let bench = Bench { stream: device.stream(Priority::Usual).unwrap() };
        let module = device.compile(source).unwrap();
        Self { bench, device, module }
    }

    fn run(
        &self,
        kernel: &str,
        (blocks, threads): (usize, u32),
        input: &[u32],
        len: usize,
        (n, mode): (u32, u32),
    ) -> Result<Vec<u32>> {
        let (input, output) = (self.bench.words(input), self.bench.words(&vec![0; len]));
        let arguments = Arguments { input: input.pointer(), output: output.pointer(), n, mode };
        self.bench.stream.launch(&Launch {
            module: Some(self.module.as_ref()),
            kernel,
            blocks,
            threads,
            shared: 0,
            cache_bytes: 0,
            arguments: bytemuck::bytes_of(&arguments),
            arguments_type: None,
            buffers: &[&input, &output],
        })?;
        Ok(self.bench.read(&output))
    }
}

#[test]
fn runs_kernels_of_a_source() {
    let compiled = Compiled::new(SOURCE);
    let input: Vec<u32> = (1..=300).collect();
    let found = compiled.run("sum", (5, 64), &input, 1, (300, 0)).unwrap();
    assert_eq!(found, [300 * 301 / 2]);
    let found = compiled.run("multiply", (1, 32), &input, 32, (3, 0)).unwrap();
    assert_eq!(found, (1..=32).map(|value: u32| (value * 3).wrapping_neg()).collect::<Vec<_>>());
}

#[test]
fn says_what_the_compiler_says_and_where() {
    let device = SimtDevice::new(0, 1 << 30, 1);
    let broken = "#include \"lanepack/base.cuh\"\n\nint f() { return nothing; }\n";
    // An error is not kept.
    for _ in 0..2 {
        let error = device.compile(broken).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Device { .. }), "{text}");
        assert!(text.contains("kernel.cu:3:") && text.contains("nothing"), "{text}");
    }
}

#[test]
fn names_the_lines_of_a_source_in_errors_of_launches() {
    let compiled = Compiled::new(SOURCE);
    let found = failure(compiled.run("sum", (1, 64), &[1; 64], 1, (64, 1)));
    assert!(found.contains("kernel sum: block 0") && found.contains("kernel.cu:15"), "{found}");
}

#[test]
fn refuses_launches_that_do_not_fit() {
    let compiled = Compiled::new(SOURCE);
    let run = |kernel, threads| failure(compiled.run(kernel, (1, threads), &[1; 64], 64, (64, 0)));
    assert!(run("none", 64).contains("kernel none: there is no such kernel"));
    // Lanepack's own are elsewhere.
    assert!(run("ffor_8", 64).contains("there is no such kernel"));
    assert!(run("sum", 128).contains("blocks of 128 threads, the kernel is made for 64"));
    let launch = |stream: &Arc<dyn Stream>, arguments| {
        let (module, kernel) = (Some(compiled.module.as_ref()), "sum");
        let launch = Launch {
            module,
            kernel,
            blocks: 1,
            threads: 64,
            shared: 0,
            cache_bytes: 0,
            arguments,
            arguments_type: None,
            buffers: &[],
        };
        stream.launch(&launch).unwrap_err().to_string()
    };
    let found = launch(&compiled.bench.stream, &[0; 16]);
    assert!(found.contains("arguments of 16 bytes, the kernel takes 24"), "{found}");
    let found = launch(&Bench::new(0).stream, &[0; 24]);
    assert!(found.contains("kernels compiled for another device"), "{found}");
}

#[test]
fn a_source_without_kernels_has_none_of_the_program() {
    let compiled = Compiled::new("#include \"lanepack/base.cuh\"\n");
    let found = failure(compiled.run("selftest_sum", (1, 128), &[1; 128], 1, (0, 0)));
    assert!(found.contains("there is no such kernel"), "{found}");
}

#[test]
fn kernels_of_several_sources_may_have_one_name() {
    // Also the name of a kernel that is in this program.
    let source = |value: u32| {
        format!(
            "#include \"lanepack/base.cuh\"\n\
             struct Arguments {{ const lanepack::u32* in; lanepack::u32* out; lanepack::u64 n; }};\n\
             LANEPACK_DEVICE lanepack::u32 result() {{ return {value}; }}\n\
             LANEPACK_KERNEL(selftest_sum, 32, 1, Arguments) {{ args.out[threadIdx.x] = result(); }}\n"
        )
    };
    let compiled = [7, 8, 9].map(|value| Compiled::new(&source(value)));
    for (compiled, value) in compiled.iter().zip(7..) {
        let found = compiled.run("selftest_sum", (1, 32), &[], 32, (0, 0)).unwrap();
        assert_eq!(found, [value; 32]);
    }
    let sum = Bench::new(0).run("selftest_sum", (1, 128), &[1; 128], &[0; 1], (0, 0)).unwrap();
    assert_eq!(sum, [128]);
}

#[test]
fn compiles_a_source_once() {
    let compiled = Compiled::new(SOURCE);
    let again = compiled.device.compile(SOURCE).unwrap();
    assert!(Arc::ptr_eq(&compiled.module, &again));
    // For other devices and processes there is a file.
    let path = object::path(SOURCE).unwrap();
    let made = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let before = made();
    let other = Compiled::new(SOURCE);
    assert!(!Arc::ptr_eq(&compiled.module, &other.module));
    assert_eq!(made(), before);
    assert_ne!(path, object::path(&format!("{SOURCE}\n")).unwrap());
}

#[test]
fn serves_threads_at_once() {
    thread::scope(|scope| {
        for thread in 0..6u32 {
            scope.spawn(move || {
                let source = SOURCE.replace("args.out, ", &format!("args.out, {} + ", thread / 2));
                let compiled = Compiled::new(&source);
                for _ in 0..20 {
                    let found = compiled.run("sum", (4, 64), &[1; 256], 1, (256, 0)).unwrap();
                    assert_eq!(found, [256 + thread / 2 * 4]);
                }
            });
        }
    });
}
