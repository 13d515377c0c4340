//! Where kernels come from.
//!
//! Machine code made by nvcc when lanepack was built is part of the binary. Without
//! it, the sources, which are always part of it, are compiled by NVRTC for the
//! device at hand when that is opened, which takes seconds, and kept in a folder:
//! `LANEPACK_CACHE_DIR`, or `lanepack` in `XDG_CACHE_HOME` or in `~/.cache`.
//!
//! Sources that are compiled while the program runs always go through NVRTC, each for
//! itself, and are kept in the same folder.
//!
//! `LANEPACK_KERNELS` set to `fatbin` or `nvrtc` asks for one of the two ways.
//!
//! ```text
//! HASH.cubin = XXH3-128 of the code, 16 bytes | code
//! HASH       = XXH3-128 of source, headers, options, target and version of NVRTC
//! ```
//!
//! A file that is damaged is made anew; a folder that cannot be written to is no
//! error, and neither are two processes at once: files appear whole, by renaming.

use std::borrow::Cow;
use std::env;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::checksum::xxh3_128;

use super::Origin;
use super::cuda::Version;
use super::nvrtc::{Input, Nvrtc, Source, Target};
use crate::error::{Error, Result};

/// All kernels and their headers.
pub(crate) const SOURCES: &[Source] = &include!(concat!(env!("OUT_DIR"), "/kernel_sources.rs"));

/// What nvcc made of them, and its version, if there was one.
#[cfg(lanepack_fatbin)]
const FATBIN: Option<(&[u8], &str)> =
    Some((include_bytes!(concat!(env!("OUT_DIR"), "/lanepack.fatbin")), env!("LANEPACK_NVCC")));
#[cfg(not(lanepack_fatbin))]
const FATBIN: Option<(&[u8], &str)> = None;

/// Bytes of the checksum in front of a cached file.
const CHECKSUM: usize = 16;

/// The kernels, for a device of this compute capability under this driver.
pub(crate) fn image(capability: (u32, u32), driver: Version) -> Result<Cow<'static, [u8]>> {
    let way = env::var("LANEPACK_KERNELS").unwrap_or_default();
    match (way.as_str(), FATBIN) {
        ("" | "fatbin", Some((fatbin, nvcc))) => {
            check_driver(driver, nvcc)?;
            Ok(fatbin.into())
        }
        ("" | "nvrtc", _) => {
            let nvrtc = Nvrtc::load(Some(driver)).map_err(or_nvcc)?;
            let (code, _) = compile(&nvrtc, capability, &Input::kernels(SOURCES))?;
            Ok(Cow::Owned(code))
        }
        ("fatbin", None) => Err(Error::NoDevice {
            what: "LANEPACK_KERNELS=fatbin, but lanepack was built without nvcc".to_owned(),
        }),
        _ => Err(Error::NoDevice {
            what: format!("LANEPACK_KERNELS={way}: expected fatbin, nvrtc or nothing"),
        }),
    }
}

/// Adds the other way to get lanepack's own kernels.
fn or_nvcc(error: Error) -> Error {
    match error {
        Error::NoDevice { what } => Error::NoDevice {
            what: format!(
                "{what}, or build lanepack with nvcc (named by NVCC, or in CUDA_HOME or PATH)"
            ),
        },
        other => other,
    }
}

/// The machine code of a source, for a device of this compute capability; made now or earlier.
pub(crate) fn compile(
    nvrtc: &Nvrtc,
    capability: (u32, u32),
    input: &Input<'_>,
) -> Result<(Vec<u8>, Origin)> {
    compiled(nvrtc, input, nvrtc.target(capability)?, crate::cache::folder().as_deref())
}

/// Drivers load what compilers of their own major version make, and older ones.
fn check_driver(driver: Version, nvcc: &str) -> Result<()> {
    let major = nvcc.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if driver.major >= major {
        return Ok(());
    }
    Err(Error::NoDevice {
        what: format!(
            "the driver is too old: it is for CUDA {driver}, the kernels were compiled by nvcc \
             {nvcc} and need {major}.0 or later; LANEPACK_KERNELS=nvrtc compiles them anew with \
             the NVRTC of CUDA {}",
            driver.major
        ),
    })
}

fn compiled(
    nvrtc: &Nvrtc,
    input: &Input<'_>,
    target: Target,
    folder: Option<&Path>,
) -> Result<(Vec<u8>, Origin)> {
    let mut origin = Origin::Cache;
    let mut make = || {
        let start = Instant::now();
        let code = nvrtc.compile(input, target)?;
        origin = Origin::Compiled(start.elapsed());
        Ok(code)
    };
    let code = match folder {
        Some(folder) => {
            let name = cache_name(input, target, nvrtc.version()?);
            cached(&folder.join(name), make)?
        }
        None => make()?,
    };
    Ok((code, origin))
}

fn cache_name(input: &Input<'_>, target: Target, nvrtc: Version) -> String {
    let mut all = Vec::new();
    let mut add = |text: &str| {
        all.extend((text.len() as u64).to_le_bytes());
        all.extend(text.as_bytes());
    };
    [input.name, &input.text].into_iter().for_each(&mut add);
    input.headers.iter().for_each(|(name, text)| [*name, *text].into_iter().for_each(&mut add));
    input.options.iter().copied().for_each(&mut add);
    add(&target.option());
    add(&nvrtc.to_string());
    format!("{:032x}.cubin", xxh3_128(&all))
}

/// The bytes kept in a file, or those that `make` makes, which are then kept.
fn cached(path: &Path, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    if let Some(kept) = read(path) {
        return Ok(kept);
    }
    let made = make()?;
    // Without the file it is only made again.
    let _ = write(path, &made);
    Ok(made)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut file = fs::read(path).ok()?;
    let (checksum, code) = file.split_first_chunk::<CHECKSUM>()?;
    if xxh3_128(code).to_le_bytes() != *checksum {
        return None;
    }
    file.drain(..CHECKSUM);
    Some(file)
}

fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unfinished = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let bytes = [&xxh3_128(code).to_le_bytes(), code].concat();
    let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::nvrtc::Target::Machine;
    use crate::skipped::skip;

    /// A folder that is removed afterwards.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(env::temp_dir().join(format!("lanepack-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// NVRTC; nothing, which is reported, if there is none.
    fn nvrtc() -> Option<Nvrtc> {
        match Nvrtc::load(None) {
            Ok(nvrtc) => Some(nvrtc),
            Err(error) => {
                skip("LANEPACK_REQUIRE_NVRTC", &error.to_string());
                None
            }
        }
    }

    /// All kernels to PTX, which takes a minute; to machine code of each architecture nvcc compiles
    /// them (`scripts/check-kernels`), and NVRTC a few.
    #[test]
    fn compiles_all_kernels_with_nvrtc() {
        let Some(nvrtc) = nvrtc() else { return };
        // Not optimised, which takes a fifth of the time: nvcc compiles them as they are used.
        let mut all = Input::kernels(SOURCES);
        all.options = [all.options, &["--device-debug"]].concat().leak();
        let code = nvrtc.compile(&all, Target::Ptx(90)).unwrap();
        assert!(code.ends_with(b"\0"));
        const FEW: [&str; 2] = ["bits.cu", "bytes.cu"];
        let is_few = |(name, _): &(&str, &str)| !name.ends_with(".cu") || FEW.contains(name);
        let few: Vec<_> = SOURCES.iter().copied().filter(is_few).collect();
        assert!(few.iter().any(|(name, _)| name.ends_with(".cu")));
        for capability in [(8, 0), (9, 0), (10, 0)] {
            let target = nvrtc.target(capability).unwrap();
            let code = nvrtc.compile(&Input::kernels(&few), target).unwrap();
            if target == Machine(capability.0 * 10 + capability.1) {
                assert!(code.starts_with(b"\x7fELF"));
            } else {
                assert!(code.ends_with(b"\0"));
            }
        }
    }

    #[test]
    fn shows_what_nvrtc_says_of_a_source() {
        let Some(nvrtc) = nvrtc() else { return };
        let broken = [("broken.cu", "#include \"lanepack/none.cuh\"\n")];
        let error = nvrtc.compile(&Input::kernels(&broken), Machine(80)).unwrap_err().to_string();
        assert!(error.contains("broken.cu(1)") && error.contains("none.cuh"), "{error}");
    }

    #[test]
    fn compiles_single_sources_over_the_device_library() {
        let Some(nvrtc) = nvrtc() else { return };
        // Every header, each by itself, and integers of 128 bits.
        for (header, _) in SOURCES.iter().filter(|(name, _)| name.starts_with("lanepack/")) {
            let source = format!(
                "#include \"{header}\"\n\
                 struct A {{ lanepack::u64* out; }};\n\
                 LANEPACK_KERNEL(wide_{}, 32, 1, A) {{\n\
                     const unsigned __int128 square = (unsigned __int128)args.out[0] * args.out[1];\n\
                     args.out[threadIdx.x] = (lanepack::u64)(square / args.out[2] >> 64);\n\
                 }}\n",
                header.len()
            );
            let code = nvrtc.compile(&Input::module(&source, SOURCES), Machine(80)).unwrap();
            let name = format!("wide_{}", header.len());
            assert!(code.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{header}");
        }
    }

    #[test]
    fn names_the_lines_of_single_sources() {
        let Some(nvrtc) = nvrtc() else { return };
        let error = |source| {
            let input = Input::module(source, SOURCES);
            nvrtc.compile(&input, Machine(80)).unwrap_err().to_string()
        };
        let found = error("#include \"lanepack/base.cuh\"\n\nint f() { return nothing; }\n");
        assert!(found.contains("kernel.cu(3)") && found.contains("nothing"), "{found}");
        // Not of the device library.
        let found = error("#include \"arguments.cuh\"\n");
        assert!(found.contains("kernel.cu(1)") && found.contains("arguments.cuh"), "{found}");
    }

    #[test]
    fn compiles_once_and_keeps_the_code() {
        let Some(nvrtc) = nvrtc() else { return };
        let folder = Folder::new("keeps");
        let source =
            "#include \"lanepack/base.cuh\"\nstruct A {};\nLANEPACK_KERNEL(none, 32, 1, A) {}\n";
        let input = Input::module(source, SOURCES);
        let made = || compiled(&nvrtc, &input, Machine(90), Some(&folder.0)).unwrap();
        let (code, origin) = made();
        assert!(matches!(origin, Origin::Compiled(_)), "{origin:?}");
        assert_eq!(made(), (code.clone(), Origin::Cache));
        let path = folder.0.join(cache_name(&input, Machine(90), nvrtc.version().unwrap()));
        assert!(cached(&path, || panic!("compiled again")).unwrap() == code);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "and nothing else");
    }

    #[test]
    fn makes_damaged_files_anew() {
        let folder = Folder::new("damaged");
        let path = folder.0.join("code.cubin");
        let code = vec![7; 1000];
        let make = || cached(&path, || Ok(code.clone())).unwrap();
        let kept = || cached(&path, || panic!("made again")).unwrap();
        assert_eq!(make(), code);
        assert_eq!(kept(), code);
        let good = fs::read(&path).unwrap();
        for len in [0, 1, CHECKSUM, good.len() - 1] {
            fs::write(&path, &good[..len]).unwrap();
            assert_eq!(make(), code);
            assert_eq!(kept(), code);
        }
        for at in [0, CHECKSUM, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).unwrap();
            assert_eq!(make(), code);
            assert_eq!(kept(), code);
        }
    }

    #[test]
    fn needs_no_folder_that_can_be_written() {
        // A file where a folder should be: not even root can write there.
        let folder = Folder::new("file");
        fs::create_dir_all(&folder.0).unwrap();
        fs::write(folder.0.join("file"), b"").unwrap();
        let path = folder.0.join("file").join("code.cubin");
        assert_eq!(cached(&path, || Ok(vec![1, 2])).unwrap(), [1, 2]);
    }

    #[test]
    fn keeps_no_errors() {
        let folder = Folder::new("errors");
        let path = folder.0.join("code.cubin");
        assert!(cached(&path, || Err(Error::device("broken"))).is_err());
        assert_eq!(cached(&path, || Ok(vec![3])).unwrap(), [3]);
    }

    #[test]
    fn names_code_by_everything_it_depends_on() {
        let version = Version { major: 13, minor: 0 };
        let headers = [("a.cuh", "1"), ("lanepack/b.cuh", "2")];
        let of = |headers: &[Source]| cache_name(&Input::kernels(headers), Machine(80), version);
        let input = Input::kernels(&headers);
        let mut names = vec![
            of(&headers),
            of(&[("a.cuh", "1"), ("lanepack/b.cuh", "3")]),
            of(&[("a.cuh", "1lanepack/b.cuh"), ("", "2")]),
            of(&[("a.cu", "1"), ("lanepack/b.cuh", "2")]),
            cache_name(&Input::module("", &headers), Machine(80), version),
            cache_name(&Input::module("1", &headers), Machine(80), version),
            cache_name(&Input { options: &[], ..Input::kernels(&headers) }, Machine(80), version),
            cache_name(&input, Target::Ptx(80), version),
            cache_name(&input, Machine(90), version),
            cache_name(&input, Machine(80), Version { major: 12, minor: 9 }),
        ];
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn says_which_driver_the_kernels_need() {
        let driver = |major, minor| Version { major, minor };
        assert!(check_driver(driver(13, 0), "13.1").is_ok());
        assert!(check_driver(driver(14, 0), "13.0").is_ok());
        let text = check_driver(driver(12, 4), "13.0").unwrap_err().to_string();
        assert!(text.contains("12.4") && text.contains("13.0"), "{text}");
    }
}
