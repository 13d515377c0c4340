//! Compiles the kernels with nvcc, if there is one, and embeds their sources.
//!
//! Into OUT_DIR go `kernel_sources.rs`, the list of sources for NVRTC, and, if an nvcc is
//! found, `lanepack.fatbin`, with cfg `lanepack_fatbin` set, and `lanepack.log`, what nvcc and
//! ptxas said. The nvcc is what NVCC
//! names, else in CUDA_HOME, CUDA_PATH or PATH. LANEPACK_REQUIRE_NVCC=1 makes it an
//! error that there is none; LANEPACK_CUDA_ARCHS (such as `90` or `80,90`) says what
//! to compile for, for builds that are quicker than one for everything.
//!
//! All `.cu` are one program: one file to embed and to load, as with NVRTC. For nvcc the checks of
//! build/arguments.rs are part of it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arguments::checked;

/// Compute capabilities to compile machine code for; the lowest also as PTX, for
/// devices in between and newer ones.
const ARCHS: [u32; 4] = [80, 90, 100, 120];

/// As in src/gpu/nvrtc.rs. No fused multiply-add: bits must be those of the CPU.
const OPTIONS: [&str; 4] = ["-std=c++17", "-fmad=false", "-O3", "--fatbin"];

pub fn build() {
    println!("cargo:rustc-check-cfg=cfg(lanepack_fatbin)");
    println!("cargo:rerun-if-changed=build/cuda.rs");
    println!("cargo:rerun-if-changed=kernels");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let kernels = root.join("kernels");
    let kernel_files = files(&kernels, "", "cu");
    let mut all = kernel_files.clone();
    all.extend(files(&kernels, "", "cuh"));
    all.extend(files(&kernels, "lanepack/", "cuh"));

    let mut list = String::from("[\n");
    for name in &all {
        let path = kernels.join(name);
        list += &format!("    ({name:?}, include_str!({path:?})),\n");
    }
    fs::write(out.join("kernel_sources.rs"), list + "]\n").expect("OUT_DIR can be written");

    match nvcc() {
        Some(nvcc) => compile(&nvcc, &kernels, &kernel_files, &out),
        None if flag("LANEPACK_REQUIRE_NVCC") => fail(
            "LANEPACK_REQUIRE_NVCC is set, but there is no nvcc in NVCC, CUDA_HOME, \
                  CUDA_PATH or PATH; scripts/install-cuda installs one",
        ),
        None => {}
    }
}

/// Ends the build. A panic would hide the reason among its own words.
fn fail(why: &str) -> ! {
    eprintln!("error: {why}");
    std::process::exit(1)
}

/// A variable that the build depends on, unless it is empty.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    println!("cargo:rerun-if-env-changed={name}");
    env::var_os(name).filter(|value| !value.is_empty())
}

fn flag(name: &str) -> bool {
    variable(name).is_some_and(|value| value != "0")
}

/// Files in a folder of the kernels, in order of their names.
fn files(kernels: &Path, folder: &str, extension: &str) -> Vec<String> {
    let entries = fs::read_dir(kernels.join(folder)).expect("the kernels are in the package");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension() == Some(OsStr::new(extension)))
        .filter_map(|path| Some(format!("{folder}{}", path.file_name()?.to_str()?)))
        .collect();
    names.sort();
    names
}

fn nvcc() -> Option<PathBuf> {
    // Set to nothing: none, wherever there is one.
    if env::var_os("NVCC").is_some_and(|nvcc| nvcc.is_empty()) {
        return None;
    }
    if let Some(nvcc) = variable("NVCC") {
        return Some(nvcc.into());
    }
    let name = format!("nvcc{}", env::consts::EXE_SUFFIX);
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable);
    let mut folders: Vec<_> = toolkits.map(|toolkit| Path::new(&toolkit).join("bin")).collect();
    folders.extend(env::split_paths(&variable("PATH").unwrap_or_default()));
    folders.into_iter().map(|folder| folder.join(&name)).find(|path| path.is_file())
}

/// What nvcc prints.
fn ask(nvcc: &Path, option: &str) -> String {
    let output = Command::new(nvcc).arg(option).output();
    let output = output.unwrap_or_else(|error| fail(&format!("{}: {error}", nvcc.display())));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn compile(nvcc: &Path, kernels: &Path, kernel_files: &[String], out: &Path) {
    // A bare name, which the system looks for, is no file to watch.
    if nvcc.is_file() {
        println!("cargo:rerun-if-changed={}", nvcc.display());
    }
    let version = ask(nvcc, "--version");
    let version = version.split("release ").nth(1).and_then(|rest| rest.split(',').next());
    let version = version.unwrap_or_else(|| fail(&format!("{}: no nvcc", nvcc.display())));

    let include = |name: &String| match checked(name) {
        Some(path) => format!("#include {path:?}\n"),
        None => format!("#include \"{name}\"\n"),
    };
    let headers = String::from("headers.cu");
    let main: String = kernel_files.iter().chain([&headers]).map(include).collect();
    let source = out.join("lanepack.cu");
    fs::write(&source, main).expect("OUT_DIR can be written");

    let archs = archs(nvcc);
    let mut command = Command::new(nvcc);
    // Machine code of several devices at a time; more than that is no gain. What ptxas says
    // is kept for scripts/check-kernels.
    command.args(OPTIONS).args(["--threads=0", "-Xptxas=-v", "-I"]).arg(kernels);
    for (index, arch) in archs.iter().enumerate() {
        let ptx = if index == 0 { format!(",compute_{arch}") } else { String::new() };
        command.arg("-gencode").arg(format!("arch=compute_{arch},code=[sm_{arch}{ptx}]"));
    }
    command.arg("-o").arg(out.join("lanepack.fatbin")).arg(&source);
    let output = command.output();
    let output = output.unwrap_or_else(|error| fail(&format!("{}: {error}", nvcc.display())));
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        fail(&format!("{command:?}\n{}{said}", String::from_utf8_lossy(&output.stdout)));
    }
    fs::write(out.join("lanepack.log"), &*said).expect("OUT_DIR can be written");
    // Warnings are shown, and errors only in scripts/check-kernels: what another
    // nvcc warns of need not concern whoever builds with it.
    for line in said.lines().filter(|line| line.contains("warning")) {
        println!("cargo:warning={line}");
    }
    println!("cargo:rustc-cfg=lanepack_fatbin");
    println!("cargo:rustc-env=LANEPACK_NVCC={version}");
}

/// What to compile for, lowest first: what is asked for, or else all that nvcc knows of.
fn archs(nvcc: &Path) -> Vec<u32> {
    let mut archs: Vec<u32> = match variable("LANEPACK_CUDA_ARCHS") {
        Some(asked) => {
            let asked = asked.to_string_lossy();
            let wrong = || fail(&format!("LANEPACK_CUDA_ARCHS={asked}: expected such as 80,90"));
            let parts = asked.split([',', ' ', ';']).filter(|part| !part.is_empty());
            parts.map(|part| part.parse().unwrap_or_else(|_| wrong())).collect()
        }
        None => {
            let known = ask(nvcc, "--list-gpu-code");
            let known: Vec<_> = known.split_whitespace().collect();
            ARCHS.into_iter().filter(|arch| known.contains(&&*format!("sm_{arch}"))).collect()
        }
    };
    archs.sort_unstable();
    archs.dedup();
    if archs.is_empty() {
        fail("no compute capability to compile kernels for");
    }
    archs
}
