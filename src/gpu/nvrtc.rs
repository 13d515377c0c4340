//! NVRTC, the library that compiles CUDA C++ at run time.
//!
//! Bound here rather than through cudarc, whose loader looks for the names of one
//! major version only: CUDA 13 comes with a `libnvrtc.so.13`. Needs neither a GPU
//! nor a driver.
//!
//! Sources are passed by name and never read from files. NVRTC takes the name in
//! an `#include` for a whole name and does not look in the folder of the file that
//! has it, so the names in includes are made whole first.

use std::borrow::Cow;
use std::ffi::{CStr, CString, NulError, c_char, c_int, c_void};
use std::ptr::null_mut;

use libloading::Library;

use super::cuda::Version;
use crate::error::{Error, Result};

/// A source or header: its path from `kernels/`, and its text.
pub(crate) type Source = (&'static str, &'static str);

/// Options beside the architecture: those that nvcc gets in build/cuda.rs, and integers of
/// 128 bits, which nvcc has by itself.
const OPTIONS: &[&str] = &["--std=c++17", "-fmad=false", "--device-int128"];

/// What is compiled as one.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    /// What messages call the text.
    pub name: &'static str,
    pub text: Cow<'a, str>,
    /// All that it may include.
    pub headers: Vec<Source>,
    /// Beside the architecture.
    pub options: &'static [&'static str],
}

impl<'a> Input<'a> {
    /// All `.cu` among the sources as one program.
    pub fn kernels(sources: &[Source]) -> Self {
        let main = sources.iter().filter(|(name, _)| name.ends_with(".cu"));
        let text = main.map(|(name, _)| format!("#include \"{name}\"\n")).collect();
        let (name, headers) = ("lanepack.cu", sources.to_vec());
        Self { name, text: Cow::Owned(text), headers, options: OPTIONS }
    }

    /// A source that may include the headers of the device library among `sources`.
    pub fn module(text: &'a str, sources: &[Source]) -> Self {
        let library = sources.iter().filter(|(name, _)| name.starts_with("lanepack/"));
        let headers = library.copied().collect();
        Self { name: "kernel.cu", text: Cow::Borrowed(text), headers, options: OPTIONS }
    }
}

/// What a program is compiled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Machine code of a compute capability, such as 90.
    Machine(u32),
    /// PTX of a compute capability, which the driver compiles for its device.
    Ptx(u32),
}

impl Target {
    /// The option that asks for it.
    pub fn option(self) -> String {
        match self {
            Self::Machine(capability) => format!("--gpu-architecture=sm_{capability}"),
            Self::Ptx(capability) => format!("--gpu-architecture=compute_{capability}"),
        }
    }
}

type Program = *mut c_void;
type Strings = *const *const c_char;
type Code = c_int;

/// The library, with those of its functions that are called, as nvrtc.h has them.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    error_string: unsafe extern "C" fn(Code) -> *const c_char,
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code,
    archs_len: unsafe extern "C" fn(*mut c_int) -> Code,
    archs: unsafe extern "C" fn(*mut c_int) -> Code,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        Strings,
        Strings,
    ) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, Strings) -> Code,
    log: Output,
    cubin: Output,
    ptx: Output,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    // Last: the functions are in it.
    _library: Library,
}

/// The two functions that give a result of a program: its size, its bytes.
#[derive(Debug, Clone, Copy)]
struct Output {
    size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    bytes: unsafe extern "C" fn(Program, *mut c_char) -> Code,
}

impl Nvrtc {
    /// Loads the library: that of the driver's major version if there is one, since
    /// a driver need not load what a newer compiler makes.
    ///
    /// # Errors
    /// [`Error::NoDevice`] with what to install if there is none.
    pub fn load(driver: Option<Version>) -> Result<Self> {
        let mut majors = [13, 12];
        majors.sort_by_key(|&major| driver.is_some_and(|driver| driver.major != major));
        let mut names: Vec<_> = majors.map(|major| format!("libnvrtc.so.{major}")).into();
        names.push("libnvrtc.so".to_owned());
        let library = names.iter().find_map(|name| {
            // SAFETY: loads a library of the CUDA toolkit by its well-known name; its
            // initialisers are NVIDIA's own.
            unsafe { Library::new(name) }.ok()
        });
        let library = library.ok_or_else(|| Error::NoDevice {
            what: format!(
                "no kernels: NVRTC, which would compile them, is not found (looked for {}). \
                 Install it (package cuda-nvrtc of the CUDA toolkit, or nvidia-cuda-nvrtc of \
                 PyPI) where LD_LIBRARY_PATH finds it",
                names.join(", ")
            ),
        })?;
        Self::bind(library).map_err(|error| Error::NoDevice {
            what: format!("no kernels: the NVRTC library lacks a function: {error}"),
        })
    }

    fn bind(library: Library) -> Result<Self, libloading::Error> {
        /// A function of the library; its type is that of the field it goes to.
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the fields have the types of nvrtc.h, and go with the library.
                *unsafe { library.get($name) }?
            };
        }
        Ok(Self {
            error_string: function!(b"nvrtcGetErrorString"),
            version: function!(b"nvrtcVersion"),
            archs_len: function!(b"nvrtcGetNumSupportedArchs"),
            archs: function!(b"nvrtcGetSupportedArchs"),
            create: function!(b"nvrtcCreateProgram"),
            compile: function!(b"nvrtcCompileProgram"),
            log: Output {
                size: function!(b"nvrtcGetProgramLogSize"),
                bytes: function!(b"nvrtcGetProgramLog"),
            },
            cubin: Output {
                size: function!(b"nvrtcGetCUBINSize"),
                bytes: function!(b"nvrtcGetCUBIN"),
            },
            ptx: Output { size: function!(b"nvrtcGetPTXSize"), bytes: function!(b"nvrtcGetPTX") },
            destroy: function!(b"nvrtcDestroyProgram"),
            _library: library,
        })
    }

    fn check(&self, code: Code, what: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: gives a static string for any code.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) };
        Err(Error::device(format!("{what}: {}", text.to_string_lossy())))
    }

    pub fn version(&self) -> Result<Version> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two integers.
        let code = unsafe { (self.version)(&raw mut major, &raw mut minor) };
        self.check(code, "nvrtcVersion")?;
        Ok(Version { major: major.unsigned_abs(), minor: minor.unsigned_abs() })
    }

    /// What to compile to for a device of this compute capability.
    pub fn target(&self, (major, minor): (u32, u32)) -> Result<Target> {
        let mut len = 0;
        // SAFETY: writes one integer.
        let code = unsafe { (self.archs_len)(&raw mut len) };
        self.check(code, "nvrtcGetNumSupportedArchs")?;
        let mut archs = vec![0; usize::try_from(len).unwrap_or(0)];
        // SAFETY: writes as many integers as it has just said there are.
        let code = unsafe { (self.archs)(archs.as_mut_ptr()) };
        self.check(code, "nvrtcGetSupportedArchs")?;
        let archs: Vec<u32> = archs.iter().map(|&arch: &c_int| arch.unsigned_abs()).collect();
        best_target(&archs, major * 10 + minor).ok_or_else(|| Error::NoDevice {
            what: format!(
                "no kernels: this NVRTC compiles for no compute capability up to {major}.{minor}"
            ),
        })
    }

    /// Compiles to a cubin or, for PTX, a text that ends with a zero byte.
    pub fn compile(&self, input: &Input<'_>, target: Target) -> Result<Vec<u8>> {
        let main = strings([input.name, &input.text])?;
        let names = strings(input.headers.iter().map(|(name, _)| *name))?;
        let texts = strings(input.headers.iter().map(|(name, text)| whole_names(name, text)))?;
        let (names, texts) = (pointers(&names), pointers(&texts));

        let mut program = Compilation { nvrtc: self, program: null_mut() };
        // SAFETY: there are as many names as texts; all are strings that end with a
        // NUL and live to the end of this function.
        let code = unsafe {
            (self.create)(
                &raw mut program.program,
                main[1].as_ptr(),
                main[0].as_ptr(),
                names.len() as c_int,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        self.check(code, "nvrtcCreateProgram")?;

        let more = input.options.iter().copied().map(str::to_owned);
        let options = strings([target.option()].into_iter().chain(more))?;
        let options = pointers(&options);
        // SAFETY: the program has been created; the options are strings as above.
        let code =
            unsafe { (self.compile)(program.program, options.len() as c_int, options.as_ptr()) };
        self.check(code, "nvrtcCompileProgram").map_err(|error| {
            let log = program.output(self.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            Error::device(format!(
                "compiling kernels ({}): {error}\n{}",
                target.option(),
                log.trim_end_matches('\0').trim_end()
            ))
        })?;
        program.output(match target {
            Target::Machine(_) => self.cubin,
            Target::Ptx(_) => self.ptx,
        })
    }
}

/// A program, destroyed when dropped.
struct Compilation<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl Compilation<'_> {
    fn output(&self, output: Output) -> Result<Vec<u8>> {
        let mut len = 0;
        // SAFETY: the program has been created; writes one integer.
        let code = unsafe { (output.size)(self.program, &raw mut len) };
        self.nvrtc.check(code, "size of an NVRTC result")?;
        let mut bytes = vec![0u8; len];
        // SAFETY: writes as many bytes as it has just said there are.
        let code = unsafe { (output.bytes)(self.program, bytes.as_mut_ptr().cast()) };
        self.nvrtc.check(code, "an NVRTC result")?;
        Ok(bytes)
    }
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: created, and destroyed once. There is nobody to tell of an error.
            unsafe { (self.nvrtc.destroy)(&raw mut self.program) };
        }
    }
}

fn strings<T: Into<Vec<u8>>>(texts: impl IntoIterator<Item = T>) -> Result<Vec<CString>> {
    let strings = texts.into_iter().map(CString::new).collect::<Result<_, NulError>>();
    strings.map_err(|_| Error::device("a kernel source with a NUL"))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

/// The machine code of the device itself, or of the next lower one of its
/// generation, which it also runs; else the newest PTX that it can take.
fn best_target(archs: &[u32], device: u32) -> Option<Target> {
    let best = archs.iter().copied().filter(|&arch| arch <= device).max()?;
    Some(if best / 10 == device / 10 { Target::Machine(best) } else { Target::Ptx(best) })
}

/// The text of the file `name` with the names in its includes, which are relative to
/// its folder or to `kernels/`, relative to `kernels/` only.
fn whole_names(name: &str, text: &str) -> String {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut whole = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("#include \"") {
            Some(rest) if !folder.is_empty() && !rest.starts_with("lanepack/") => {
                let (mut folder, mut rest) = (folder, rest);
                while let Some(up) = rest.strip_prefix("../") {
                    folder = folder.rsplit_once('/').map_or("", |(up, _)| up);
                    rest = up;
                }
                let slash = if folder.is_empty() { "" } else { "/" };
                whole.extend(["#include \"", folder, slash, rest]);
            }
            _ => whole.push_str(line),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_machine_code_of_the_same_generation_or_else_ptx() {
        let archs = [75, 80, 86, 90, 100, 120];
        assert_eq!(best_target(&archs, 90), Some(Target::Machine(90)));
        assert_eq!(best_target(&archs, 89), Some(Target::Machine(86)));
        assert_eq!(best_target(&archs, 103), Some(Target::Machine(100)));
        assert_eq!(best_target(&archs, 110), Some(Target::Ptx(100)));
        assert_eq!(best_target(&archs[3..], 80), None);
    }

    #[test]
    fn makes_names_of_includes_whole() {
        let text = "#include \"base.cuh\"\n// #include\n#include \"../simt/simt.h\"\n";
        assert_eq!(
            whole_names("lanepack/node.cuh", text),
            "#include \"lanepack/base.cuh\"\n// #include\n#include \"simt/simt.h\"\n"
        );
        let whole = "#include \"lanepack/node.cuh\"\n";
        assert_eq!(whole_names("arguments.cuh", whole), whole);
        assert_eq!(whole_names("lanepack/ffor.cuh", whole), whole);
    }
}
