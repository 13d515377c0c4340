//! Sources that are compiled while the program runs: by the compiler and with the options
//! that the kernels of the build had (`build/simt.rs`), sanitizers included, to objects
//! that use the emulation of this program. It takes 0.3 to 0.7 seconds.
//!
//! ```text
//! OUT_DIR/simt-objects/HASH.so
//! HASH = XXH3-128 of the source, the headers, compiler and options
//! ```
//!
//! Objects stay where they are for other processes and later runs, and stay loaded for ever:
//! fibers and sanitizers know addresses in them.

use std::ffi::{OsStr, c_void};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::checksum::xxh3_128;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::ffi::Object;
use crate::error::{Error, Result};
use crate::gpu::Origin;

/// The compiler and its arguments.
const COMPILER: (&str, &[&str]) = include!(concat!(env!("OUT_DIR"), "/simt_compiler.rs"));

/// What makes an object of one source, which comes through standard input.
const OBJECT: [&str; 5] = ["-shared", "-fvisibility=hidden", "-include", "simt/object.h", "-"];

const FOLDER: &str = concat!(env!("OUT_DIR"), "/simt-objects");

/// Where the folder `kernels` is, which names in the arguments and messages begin with.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Compiles a source unless that has been done, and loads what it has become.
pub(super) fn load(source: &str) -> Result<(Object, Origin)> {
    let path = path(source)?;
    let mut origin = Origin::Cache;
    if !path.exists() {
        let start = Instant::now();
        compile(source, &path)?;
        origin = Origin::Compiled(start.elapsed());
    }
    let failed = |error: libloading::Error| {
        Error::device(format!(
            "loading kernels: {error} (a program that is not of lanepack's package has to be \
             linked with -rdynamic, so that they find the emulation in it)"
        ))
    };
    // SAFETY: the object was made by `compile`; all that is run while it is loaded are
    // constructors of `simt::Kernel`, which enter themselves into its own table.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(failed)?;
    // SAFETY: kernels/simt/object.h gives every object this function, of this type.
    let table = unsafe {
        let object =
            library.get::<unsafe extern "C" fn() -> NonNull<c_void>>(b"lanepack_simt_object");
        object.map_err(failed)?()
    };
    std::mem::forget(library);
    // SAFETY: the table of an object that is never unloaded, since its handle is not dropped.
    Ok((unsafe { Object::new(table) }, origin))
}

/// Where the object of a source is, or is to be.
pub(super) fn path(source: &str) -> Result<PathBuf> {
    let unreadable = |error| Error::device(format!("the headers of kernels: {error}"));
    Ok(Path::new(FOLDER).join(name(source).map_err(unreadable)?))
}

fn name(source: &str) -> std::io::Result<String> {
    let mut all = Vec::new();
    let mut add = |bytes: &[u8]| {
        all.extend((bytes.len() as u64).to_le_bytes());
        all.extend(bytes);
    };
    add(source.as_bytes());
    add(COMPILER.0.as_bytes());
    COMPILER.1.iter().chain(&OBJECT).for_each(|argument| add(argument.as_bytes()));
    // As they are now: that is what the compiler will read.
    for path in headers()? {
        add(&fs::read(path)?);
    }
    Ok(format!("{:032x}.so", xxh3_128(&all)))
}

/// What a source may include, directly or not.
fn headers() -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for (folder, extension) in [("lanepack", "cuh"), ("simt", "h")] {
        for entry in fs::read_dir(Path::new(ROOT).join("kernels").join(folder))? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new(extension)) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

fn compile(source: &str, path: &Path) -> Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unfinished = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let compiled = fs::create_dir_all(FOLDER).and_then(|()| run(source, &unfinished));
    let result = match compiled {
        // Appears whole: another process may look for it.
        Ok(Ok(())) => fs::rename(&unfinished, path).map_err(|error| error.to_string()),
        Ok(Err(said)) => Err(said),
        Err(error) => Err(error.to_string()),
    };
    result.map_err(|what| {
        let _ = fs::remove_file(&unfinished);
        Error::device(format!("compiling kernels ({}): {}", COMPILER.0, what.trim_end()))
    })
}

/// Runs the compiler; gives what it says if it fails.
fn run(source: &str, output: &Path) -> std::io::Result<Result<(), String>> {
    let (compiler, arguments) = COMPILER;
    let mut child = Command::new(compiler)
        .args(arguments)
        .args(OBJECT)
        .arg("-o")
        .arg(output)
        .current_dir(ROOT)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().expect("piped above");
    let whole = format!("#line 1 \"kernel.cu\"\n{source}");
    // A compiler that ends before it has read everything says why.
    let _ = stdin.write_all(whole.as_bytes());
    drop(stdin);
    let done = child.wait_with_output()?;
    let said = || String::from_utf8_lossy(&done.stderr).into_owned();
    Ok(if done.status.success() { Ok(()) } else { Err(said()) })
}
