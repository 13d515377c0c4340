//! What the emulation costs: `cargo test --features _simt speed -- --ignored --nocapture`.

use super::*;

#[test]
#[ignore = "prints figures"]
fn speed_of_rendezvous_and_blocks() {
    let bench = Bench::new(0);
    let time = |blocks: usize, rounds, mode| {
        let output = vec![0; blocks];
        let start = Instant::now();
        bench.run("selftest_spend", (blocks, 128), &[], &output, (rounds, mode)).unwrap();
        start.elapsed().as_secs_f64()
    };
    // The stacks are touched for the first time.
    time(100, 1, 0);
    let rounds = 100_000;
    for (name, mode) in [("shuffle", 0), ("barrier", 1)] {
        let nanoseconds = time(1, rounds, mode) * 1e9 / f64::from(rounds) / 128.0;
        println!("{name}: {nanoseconds:.1} ns per thread");
    }
    let blocks = 20_000;
    println!("{:.0} blocks of 128 threads per second", blocks as f64 / time(blocks, 0, 0));
    let launches = 1_000;
    let start = Instant::now();
    for _ in 0..launches {
        time(4, 0, 0);
    }
    let microseconds = start.elapsed().as_secs_f64() * 1e6 / f64::from(launches);
    println!("{microseconds:.1} us per launch of 4 blocks");
}
