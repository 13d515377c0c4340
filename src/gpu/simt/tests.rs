//! The emulation tested with kernels of its own (`kernels/simt/selftest.cu`).

mod compiled;
mod memory;
mod sanitizers;
mod speed;

use bytemuck::{Pod, Zeroable};

use super::*;
use crate::gpu::abi;

/// `SelfArguments` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Arguments {
    input: DevicePtr<u32>,
    output: DevicePtr<u32>,
    n: u32,
    mode: u32,
}

/// A stream of a device of its own, and buffers of 32-bit words.
struct Bench {
    stream: Arc<dyn Stream>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let device = SimtDevice::new(0, 1 << 30, seed);
        let stream = device.stream(Priority::Usual).unwrap();
        Self { stream }
    }

    fn words(&self, words: &[u32]) -> DeviceBuffer {
        let buffer = self.stream.allocate(words.len() * 4).unwrap();
        self.stream.upload(bytemuck::cast_slice(words), &buffer, 0).unwrap();
        buffer
    }

    fn read(&self, buffer: &DeviceBuffer) -> Vec<u32> {
        let mut words = vec![0; buffer.len() / 4];
        self.stream.download(buffer, 0, bytemuck::cast_slice_mut(&mut words)).unwrap();
        words
    }

    /// Launches `kernel`; gives what `output` has become.
    fn run(
        &self,
        kernel: &'static str,
        (blocks, threads): (usize, u32),
        input: &[u32],
        output: &[u32],
        (n, mode): (u32, u32),
    ) -> Result<Vec<u32>> {
        let (input, output) = (self.words(input), self.words(output));
        let arguments = Arguments { input: input.pointer(), output: output.pointer(), n, mode };
        self.stream.launch(&Launch {
            module: None,
            kernel,
            blocks,
            threads,
            shared: 0,
            cache_bytes: 0,
            arguments: bytemuck::bytes_of(&arguments),
            arguments_type: None,
            buffers: &[&input, &output],
        })?;
        Ok(self.read(&output))
    }
}

/// Every test of results holds for all of these.
const SEEDS: std::ops::Range<u64> = 0..20;

fn warp_of(value: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(value).collect()
}

/// For each lane, eight results.
fn expected(results: impl Fn(u32) -> [u32; 8]) -> Vec<u32> {
    (0..32).flat_map(results).collect()
}

#[test]
fn threads_of_many_blocks_know_their_places() {
    for seed in SEEDS {
        let (blocks, all) = (201, 201 * 48);
        let output = vec![0; all];
        let found = Bench::new(seed)
            .run("selftest_index", (blocks, 48), &[], &output, (all as u32, 0))
            .unwrap();
        let place = |at: u32| ((at / 48) << 16) | (201 << 8) | (at % 48);
        assert_eq!(found, (0..all as u32).map(place).collect::<Vec<_>>());
    }
}

#[test]
fn shuffles_exchange_values() {
    let value = |lane: u32| 1000 + lane * lane;
    let expected = expected(|lane| {
        let down = if lane % 8 < 5 { lane + 3 } else { lane };
        // Other lanes than the mask's give what was never written.
        [
            value(5),
            value(if lane < 3 { lane } else { lane - 3 }),
            value(down),
            value(lane ^ 9),
            value(lane ^ 1),
            value(31 - lane),
            value(if lane & 8 == 0 { lane } else { lane ^ 8 }),
            0xa5a5_a5a5,
        ]
    });
    for seed in SEEDS {
        let found =
            Bench::new(seed).run("selftest_shuffle", (1, 32), &warp_of(value), &[0; 256], (0, 0));
        assert_eq!(found.unwrap(), expected);
    }
}

#[test]
fn votes_matches_and_reductions_see_the_whole_warp() {
    let value = |lane: u32| lane * 7 % 90;
    let all = warp_of(value);
    let lanes_where = |holds: &dyn Fn(u32) -> bool| {
        (0..32).map(|lane| u32::from(holds(value(lane))) << lane).sum::<u32>()
    };
    let (most, least) = (*all.iter().max().unwrap(), *all.iter().min().unwrap());
    let ands = all.iter().fold(u32::MAX, |and, value| and & (value | 64));
    let xors = all.iter().fold(0, |xor, value| xor ^ value);
    let expected = expected(|lane| {
        [
            lanes_where(&|value| value % 2 == 1),
            u32::from(all.contains(&77)) | 2,
            lanes_where(&|other| other % 5 == value(lane) % 5),
            all.iter().sum(),
            most << 16 | least,
            least.wrapping_sub(50),
            ands ^ xors,
            u32::MAX.wrapping_add(1),
        ]
    });
    for seed in SEEDS {
        let found = Bench::new(seed).run("selftest_vote", (1, 32), &all, &[0; 256], (0, 0));
        assert_eq!(found.unwrap(), expected);
    }
}

#[test]
fn a_warp_that_parted_meets_again() {
    let low: u32 = (0..16).sum();
    let high: u32 = (16..32).map(|lane| 2 * lane).sum();
    let lane_result = |lane: u32| {
        let own = if lane < 16 { low } else { high };
        let own = if lane < 32 { own + low } else { lane + 32 };
        // The last warp has eight lanes.
        let even = if lane < 32 { 0x5555_5555 } else { 0x55 };
        if lane.is_multiple_of(2) { own.wrapping_add(even) } else { own }
    };
    for seed in SEEDS {
        let found = Bench::new(seed).run("selftest_divergence", (1, 40), &[], &[0; 40], (0, 0));
        assert_eq!(found.unwrap(), (0..40).map(lane_result).collect::<Vec<_>>());
    }
}

#[test]
fn barriers_count_threads_that_have_not_returned() {
    let input: Vec<u32> = (0..128).map(|at| at * 13 % 100).collect();
    let below = input[..100].iter().filter(|&&value| value < 20).count() as u32;
    let mut expected = [below, 0, 1, 100 - below].repeat(100);
    expected.extend([9; 28 * 4]);
    for seed in SEEDS {
        let bench = Bench::new(seed);
        let found = bench.run("selftest_barrier", (1, 128), &input, &[9; 512], (0, 0)).unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_missing_barrier_shows() {
    let input: Vec<u32> = (0..512).collect();
    let sums: Vec<u32> = input.chunks(128).map(|part| part.iter().sum()).collect();
    let run = |seed, mode| {
        Bench::new(seed).run("selftest_sum", (4, 128), &input, &[0; 4], (0, mode)).unwrap()
    };
    for seed in SEEDS {
        assert_eq!(run(seed, 0), sums, "seed {seed}");
    }
    assert!(SEEDS.filter(|&seed| run(seed, 1) != sums).count() > 10);
}

#[test]
fn the_order_of_threads_comes_from_the_seed_alone() {
    let input: Vec<u32> = (0..128).collect();
    let run =
        |seed| Bench::new(seed).run("selftest_sum", (1, 128), &input, &[0; 1], (0, 1)).unwrap();
    for seed in SEEDS {
        assert_eq!(run(seed), run(seed));
    }
    assert!(SEEDS.into_iter().any(|seed| run(seed) != run(0)));
}

#[test]
fn atomics_of_all_blocks_add_up() {
    let all = 100 * 128;
    let output = [0, 0, u32::MAX, 0, 0, 0, 0, 0];
    let xor = (0..all).fold(0, |xor, thread| xor ^ thread);
    for seed in SEEDS {
        let found = Bench::new(seed).run("selftest_atomics", (100, 128), &[], &output, (0, 0));
        assert_eq!(found.unwrap(), [all, all - 1, 0, xor, all, all, 2 * all, u32::MAX]);
    }
}

#[test]
fn shared_memory_begins_unwritten_and_barely_aligned() {
    let bench = Bench::new(0);
    for _ in 0..3 {
        let found = bench.run("selftest_shared", (5, 32), &[], &[0; 4], (0, 0)).unwrap();
        assert_eq!(found, [0xa5a5_01a5, 1, 4, 16]);
    }
}

#[test]
fn integer_and_float_functions_give_what_cuda_gives() {
    let (x, y) = (0x7ff1_8283u32, 0x7012_3456u32);
    let wide = u64::from(x) << 32 | u64::from(y);
    let expected = [
        x.count_ones() << 24 | 1 << 16 | 2 << 8 | 32,
        x.reverse_bits(),
        y << 12 | x >> 20,
        x >> 12 | y << 20,
        // Bytes 4 and 7 of y:x, the sign of byte 3, byte 3.
        0x7f00_7056,
        0xef03_b6d9,
        0xffff_ffff,
        0x0000_ffff,
        3f32.to_bits(),
        2 | 1 << 8 | 1 << 9,
        ((u64::from(x) * u64::from(y)) >> 32) as u32,
        7 | x << 8,
        1 << 16 | (32 + 2) << 8 | wide.count_ones(),
        y.reverse_bits(),
        0x0fdf_4e2d,
        (0.75f64.to_bits() >> 32) as u32,
    ];
    let found = Bench::new(0).run("selftest_intrinsics", (1, 1), &[x, y], &[0; 16], (0, 0));
    for (at, (found, expected)) in found.unwrap().iter().zip(expected).enumerate() {
        assert_eq!(*found, expected, "result {at}: {found:#x}, expected {expected:#x}");
    }
}

#[test]
fn a_thread_that_sleeps_lets_others_run() {
    for seed in SEEDS {
        let found = Bench::new(seed).run("selftest_spin", (1, 32), &[], &[0; 32], (0, 0));
        assert_eq!(found.unwrap(), [1; 32]);
    }
}

/// The error of a launch that fails.
fn failure<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(error @ Error::Device { .. }) => error.to_string(),
        other => panic!("expected a device error, found {other:?}"),
    }
}

#[test]
fn threads_that_can_never_go_on_are_reported() {
    let reasons = [
        ["no thread can go on", "__shfl_sync with mask 0xffffffff", "__syncwarp"],
        ["lanes", "return", "__ballot_sync"],
        ["no thread can go on", "__any_sync", "__syncthreads (kernels/simt/selftest.cu:"],
        ["__syncthreads while others", "wait at __syncthreads", "selftest.cu"],
        ["__syncwarp with mask 0x00000001", "itself", "thread"],
        ["shared memory of 49153 bytes", "large", "thread"],
    ];
    for seed in SEEDS {
        let bench = Bench::new(seed);
        for (mode, parts) in reasons.iter().enumerate() {
            let found = bench.run("selftest_stuck", (3, 64), &[], &[0; 4], (0, mode as u32));
            let found = failure(found);
            let parts = [&["kernel selftest_stuck: block "], &parts[..]].concat();
            for part in parts {
                // A lane that returns may find others waiting, or they find it gone.
                assert!(found.contains(part), "mode {mode}, seed {seed}: {part:?} not in {found}");
            }
            // The stacks that were left serve again.
            let sum = bench.run("selftest_sum", (1, 128), &[1; 128], &[0; 1], (0, 0)).unwrap();
            assert_eq!(sum, [128]);
        }
    }
}

#[test]
fn launches_that_do_not_fit_the_kernel_are_refused() {
    let bench = Bench::new(0);
    let run = |kernel, threads| failure(bench.run(kernel, (1, threads), &[], &[0; 4], (0, 0)));
    assert!(run("selftest_none", 32).contains("kernel selftest_none: there is no such kernel"));
    assert!(run("selftest_shared", 64).contains("blocks of 64 threads, the kernel is made for 32"));

    let launch = |blocks, arguments: &[u8], buffers: &[&DeviceBuffer]| {
        let kernel = "selftest_shared";
        bench.stream.launch(&Launch {
            module: None,
            kernel,
            blocks,
            threads: 32,
            shared: 0,
            cache_bytes: 0,
            arguments,
            arguments_type: None,
            buffers,
        })
    };
    let error = launch(1, &[0; 16], &[]).unwrap_err().to_string();
    assert!(error.contains("arguments of 16 bytes, the kernel takes 24"), "{error}");
    let error = launch(1 << 31, &[0; 24], &[]).unwrap_err().to_string();
    assert!(error.contains("a grid has at most"), "{error}");
    launch(0, &[0; 24], &[]).unwrap();

    let output = bench.words(&[0; 4]);
    let arguments =
        Arguments { input: DevicePtr::NULL, output: output.pointer_at(4), n: 0, mode: 0 };
    let error = launch(1, bytemuck::bytes_of(&arguments), &[]).unwrap_err().to_string();
    assert!(error.contains("does not name"), "{error}");
    let other = Bench::new(0).words(&[0; 4]);
    let error = launch(1, &[0; 24], &[&other]).unwrap_err().to_string();
    assert!(error.contains("a buffer of another device"), "{error}");
}

#[test]
fn arguments_of_another_type_are_refused() {
    let bench = Bench::new(0);
    let launch = |kernel, threads, arguments_type| {
        let (arguments, buffers) = (&[0; 24][..], &[][..]);
        let (module, blocks, shared) = (None, 0, 0);
        bench.stream.launch(&Launch {
            module,
            kernel,
            blocks,
            threads,
            shared,
            cache_bytes: 0,
            arguments,
            arguments_type,
            buffers,
        })
    };
    launch("selftest_shared", 32, Some("SelfArguments")).unwrap();
    launch("selftest_shared", 32, None).unwrap();
    let error = failure(launch("selftest_shared", 32, Some("WordsArguments")));
    let what = "an argument of type WordsArguments, the kernel takes SelfArguments";
    assert!(error.contains(what), "{error}");
    // What was read from the sources is what was compiled.
    for (kernel, argument) in abi::KERNELS {
        let error = failure(launch(kernel, 0, Some(argument)));
        assert!(error.contains("blocks of 0 threads"), "{error}");
    }
}

#[test]
fn writes_into_the_padding_are_refused() {
    let found = failure(Bench::new(0).run("selftest_wild", (1, 32), &[], &[0; 4], (6, 0)));
    assert!(found.contains("has written 8 bytes past the end of a buffer of 16 bytes"), "{found}");
}

#[test]
fn every_kernel_is_in_the_table_once() {
    let mut names = ffi::kernels();
    assert!(names.iter().any(|name| name == "selftest_sum"));
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
