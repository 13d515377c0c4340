//! Reports of tests that are skipped, whole or in part, for unit and integration tests.
//!
//! A report is a line of the process's standard error, which `cargo test` shows of passing tests as
//! well, and a line of the file that LANEPACK_SKIPPED names: `test<TAB>reason`. scripts/test counts
//! these at its end.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Mutex;
use std::{env, thread};

/// Reports that the current test is skipped, or the part of it that `why` names.
///
/// # Panics
/// If the variable `promise` (LANEPACK_REQUIRE_...) is 1: the environment has promised what is missing.
#[track_caller]
pub fn skip(promise: &str, why: &str) {
    let is_promised = env::var(promise).is_ok_and(|value| value == "1");
    assert!(!is_promised, "{promise}=1, but {why}");
    report(why);
}

/// Reports that the current test is skipped: a machine that has all has nothing to test here.
pub fn report(why: &str) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let why = why.lines().next().unwrap_or_default();
    // nextest tells the name; else the thread has it.
    let named = env::var("NEXTEST_TEST_NAME").ok();
    let name = named.or_else(|| thread::current().name().map(str::to_owned)).unwrap_or_default();
    let line = format!("{name}\t{why}\n");
    if !REPORTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(line.clone()) {
        return;
    }
    // Not eprintln!, which tests that pass keep to themselves.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
    if let Some(path) = env::var_os("LANEPACK_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        // One write: other processes append to the file as well.
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("LANEPACK_SKIPPED={}: {error}", path.display()));
    }
}
