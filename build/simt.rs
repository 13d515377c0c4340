//! The feature `_simt`: every kernel compiled by g++ for the host emulation, with
//! AddressSanitizer and UndefinedBehaviorSanitizer unless `LANEPACK_SIMT_SANITIZE=0`.
//!
//! Sets the cfg `lanepack_simt`. On a machine without g++ or the sanitizers' libraries the build
//! warns and goes on without the emulation, so that `--all-features` builds everywhere;
//! LANEPACK_REQUIRE_SIMT=1 makes it an error.
//!
//! The emulation itself is compiled without them and optimised: it is not what is
//! tested, and every warp collective passes through it. Kernels enter themselves
//! into a table before `main`, so the linker must keep objects that nothing refers
//! to (`+whole-archive`).
//!
//! Other sources are compiled while programs run (src/gpu/simt/object.rs): for these
//! `simt_compiler.rs` in OUT_DIR has the compiler and its arguments, and programs export
//! the emulation, which such objects refer to.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use crate::arguments;

const SANITIZERS: &str = "-fsanitize=address,undefined";

/// Compiles and links the emulation and the kernels, if there is a compiler for them.
pub fn build() {
    println!("cargo:rerun-if-changed=build/simt.rs");
    // Folders count as changed when a file anywhere in them does.
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-env-changed=LANEPACK_SIMT_SANITIZE");
    let sanitize = env::var("LANEPACK_SIMT_SANITIZE").map_or(true, |value| value != "0");
    println!("cargo:rustc-check-cfg=cfg(lanepack_sanitized)");

    let mut kernels = compiler();
    kernels.opt_level(1).flags(["-x", "c++", "-fno-exceptions"]);
    // Often wrong about what a loop sets in its first step, and about code that sanitizers have grown.
    kernels.flag("-Wno-maybe-uninitialized");
    kernels.link_lib_modifier("+whole-archive");

    let sanitizers: &[&str] = if sanitize { &[SANITIZERS] } else { &[] };
    if let Err(why) = probe(&kernels, sanitizers) {
        let why = format!("no emulation of GPUs (feature _simt), which needs g++: {why}");
        if env::var("LANEPACK_REQUIRE_SIMT").is_ok_and(|value| value == "1") {
            eprintln!("error: LANEPACK_REQUIRE_SIMT is set, but there is {why}");
            process::exit(1);
        }
        println!("cargo:warning={why}");
        // Next time again, as long as that is so.
        println!("cargo:rerun-if-changed=no compiler");
        return;
    }
    println!("cargo:rustc-cfg=lanepack_simt");

    let mut emulation = compiler();
    emulation.opt_level(2).flag("-pthread").files(sources("kernels/simt", "cpp"));

    if sanitize {
        kernels.flags([SANITIZERS, "-fno-sanitize-recover=all"]);
        emulation.define("LANEPACK_SIMT_ASAN", None);
        // Before every other library: their calls of malloc must find AddressSanitizer's.
        // Not as the linker's `-fsanitize`, which rustc's `-nodefaultlibs` makes void.
        println!("cargo:rustc-link-lib=dylib=asan");
        println!("cargo:rustc-link-lib=dylib=ubsan");
        println!("cargo:rustc-cfg=lanepack_sanitized");
    }
    // What is compiled while programs run is small, and runs once: a third less time to compile.
    let mut at_run_time = kernels.clone();
    at_run_time.opt_level_str("g");
    write_compiler(&at_run_time);
    // Everything in the namespace that has a name outside its file.
    println!("cargo:rustc-link-arg=-Wl,--export-dynamic-symbol=_ZN8lanepack4simt*");

    // With the checks of build/arguments.rs.
    let checked = |path: PathBuf| path.file_name()?.to_str().and_then(arguments::checked);
    let of_kernels = sources("kernels", "cu").into_iter();
    kernels.files(of_kernels.map(|path| checked(path.clone()).unwrap_or(path)));
    kernels.files(arguments::checked("headers.cu"));
    kernels.files(sources("kernels/simt", "cu"));
    for build in [&mut kernels, &mut emulation] {
        build.flag("-Werror");
    }
    kernels.compile("lanepack_simt_kernels");
    emulation.compile("lanepack_simt");
}

fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.debug(false).cpp(true).std("c++17").pic(true).warnings(true).extra_warnings(true);
    build.include("kernels").define("LANEPACK_SIMT", "1");
    build.flags(["-Wno-unknown-pragmas", "-ffp-contract=off"]);
    // Line numbers and frames, for the sanitizers' reports: variables and types would cost a
    // quarter of the time and two thirds of the size.
    build.flags(["-g1", "-fno-omit-frame-pointer"]);
    build
}

/// Whether the compiler makes a library of a small source. The error is one line.
fn probe(kernels: &cc::Build, sanitizers: &[&str]) -> Result<(), String> {
    let system = env::var("CARGO_CFG_TARGET_OS").expect("set by cargo");
    if system != "linux" {
        return Err(format!("it is for Linux, and this is {system}"));
    }
    let tool = kernels.try_get_compiler().map_err(|error| error.to_string())?;
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let source = out.join("probe.cpp");
    fs::write(&source, "#include <string>\nstd::string probe() { return {}; }\n")
        .expect("OUT_DIR can be written");
    let mut command = tool.to_command();
    command.args(sanitizers).args(["-shared", "-o"]).arg(out.join("probe.so")).arg(&source);
    let output = command.output().map_err(|error| format!("{}: {error}", tool.path().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}", tool.path().display(), said.lines().next().unwrap_or("failed")))
}

/// What kernels are compiled by and with, as a Rust expression.
fn write_compiler(kernels: &cc::Build) {
    let tool = kernels.get_compiler();
    let path = tool.path().to_str().expect("a compiler whose path is UTF-8");
    let arguments: Vec<&str> =
        tool.args().iter().map(|argument| argument.to_str().expect("written above")).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let text = format!("({path:?}, &{arguments:?})");
    fs::write(out.join("simt_compiler.rs"), text).expect("OUT_DIR can be written");
}

/// The files of a folder with an extension, in order.
fn sources(folder: impl AsRef<Path>, extension: &str) -> Vec<PathBuf> {
    let folder = folder.as_ref();
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry of a folder that was just opened").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}
