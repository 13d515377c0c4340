//! Structs that kernels and host share: written once, in C++, and generated for Rust.
//!
//! ```text
//! kernels/*.{cu,cuh}, kernels/lanepack/*.cuh
//!   -> OUT_DIR/arguments.rs       the structs in Rust, with checks of sizes and offsets
//!   -> OUT_DIR/checks/NAME.cu     #include <NAME.cu>, then the same checks in C++
//!   -> OUT_DIR/checks/headers.cu  the checks of structs in headers
//! ```
//!
//! A struct is shared if its name ends in `Arguments`, if the last line of the comment above it is
//! "Shared with the host.", or if a shared struct has it as a field or points to it. The sources are
//! searched for these: there is no list. Templates are not shared.
//!
//! A field is an integer, a float, another struct, an array of these or a pointer, one on a line.
//! Member functions (which begin with LANEPACK_DEVICE) and `static constexpr` members are left out.
//! Anything else in a shared struct ends the build, as does padding, which neither side would write.
//!
//! Kernels are the lines that begin with LANEPACK_KERNEL: `abi::takes` knows which argument each takes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

const MARKER: &str = "Shared with the host.";

/// Reads the kernels' sources and writes what is generated to OUT_DIR.
pub fn build() {
    println!("cargo:rerun-if-changed=build/arguments.rs");
    println!("cargo:rerun-if-changed=kernels");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let sources = Sources::read(&root.join("kernels"));
    let found = sources.shared().and_then(|structs| Ok((sources.kernels(&structs)?, structs)));
    let (kernels, structs) = found.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        std::process::exit(1)
    });
    fs::write(out.join("arguments.rs"), rust(&structs, &kernels)).expect("OUT_DIR can be written");
    let checks = out.join("checks");
    // Of sources that are gone nothing may stay.
    let _ = fs::remove_dir_all(&checks);
    fs::create_dir_all(&checks).expect("OUT_DIR can be written");
    for (name, text) in cpp(&structs) {
        fs::write(checks.join(name), text).expect("OUT_DIR can be written");
    }
}

/// What is compiled in place of the source `name` of the folder `kernels`: the file with its checks,
/// if it has some.
#[cfg_attr(not(any(feature = "cuda", feature = "_simt")), expect(dead_code))]
pub fn checked(name: &str) -> Option<PathBuf> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    Some(out.join("checks").join(name)).filter(|path| path.is_file())
}

/// The text of all sources, and what they declare.
struct Sources {
    files: Vec<(String, Vec<String>)>,
    /// By name: file and line of each declaration.
    structs: BTreeMap<String, Vec<(usize, usize)>>,
    /// By name, the values it has.
    constants: BTreeMap<String, BTreeSet<u64>>,
}

/// A struct, and where its fields are stored.
struct Shared {
    name: String,
    /// Relative to the folder of the kernels.
    file: String,
    docs: Vec<String>,
    fields: Vec<Field>,
    size: u64,
    align: u64,
    has_floats: bool,
    /// Whether there is an array of more values than `Default` is defined for.
    has_long_array: bool,
}

struct Field {
    name: String,
    docs: Vec<String>,
    /// In Rust.
    of: String,
    offset: u64,
}

/// A type as C++ sources name it.
struct Type {
    rust: String,
    size: u64,
    align: u64,
    has_floats: bool,
    has_long_array: bool,
}

type Result<T> = std::result::Result<T, String>;

impl Sources {
    fn read(kernels: &Path) -> Self {
        let mut names = Vec::new();
        for (folder, extensions) in [("", &["cu", "cuh"][..]), ("lanepack/", &["cuh"])] {
            let entries =
                fs::read_dir(kernels.join(folder)).expect("the kernels are in the package");
            let paths = entries.map(|entry| entry.expect("a readable folder").path());
            let is_source = |path: &PathBuf| {
                path.extension().is_some_and(|found| extensions.iter().any(|one| found == *one))
            };
            let name = |path: PathBuf| format!("{folder}{}", path.file_name()?.to_str()?).into();
            names.extend(paths.filter(is_source).filter_map(name));
        }
        names.sort_by_key(|name: &String| (name.ends_with(".cu"), name.clone()));
        let files = names.into_iter().map(|name| {
            let text = fs::read_to_string(kernels.join(&name)).expect("a readable source");
            (name, text)
        });
        Self::of(files)
    }

    fn of(files: impl Iterator<Item = (String, String)>) -> Self {
        let files = files.map(|(name, text)| (name, text.lines().map(str::to_owned).collect()));
        let mut sources =
            Self { files: files.collect(), structs: BTreeMap::new(), constants: BTreeMap::new() };
        for (file, (_, lines)) in sources.files.iter().enumerate() {
            for (number, line) in lines.iter().enumerate() {
                let is_template = number > 0 && lines[number - 1].starts_with("template");
                let name = line.strip_prefix("struct ").and_then(|rest| rest.strip_suffix(" {"));
                if let Some(name) = name.filter(|name| is_name(name) && !is_template) {
                    sources.structs.entry(name.to_owned()).or_default().push((file, number));
                }
                let constant = line.strip_prefix("constexpr u32 ").and_then(|rest| {
                    let (name, value) = rest.strip_suffix(';')?.split_once(" = ")?;
                    Some((name, value.parse().ok()?))
                });
                if let Some((name, value)) = constant {
                    sources.constants.entry(name.to_owned()).or_default().insert(value);
                }
            }
        }
        sources
    }

    /// All shared structs, each behind those that it has as fields.
    fn shared(&self) -> Result<Vec<Shared>> {
        let mut found = Found::default();
        for (name, places) in &self.structs {
            let is_marked = |(file, line): &(usize, usize)| {
                self.comment(*file, *line).last().is_some_and(|last| last == MARKER)
            };
            if name.ends_with("Arguments") || places.iter().any(is_marked) {
                self.add(name, "", &mut found)?;
            }
        }
        while let Some((name, place)) = found.pointed_to.pop() {
            self.add(&name, &place, &mut found)?;
        }
        Ok(found.structs)
    }

    /// The names of kernels, and of the structs that they take.
    fn kernels(&self, structs: &[Shared]) -> Result<Vec<(&str, &str)>> {
        let mut kernels = Vec::new();
        for (file, (name, lines)) in self.files.iter().enumerate() {
            for (number, line) in lines.iter().enumerate() {
                let text = line.trim_start();
                let is_other =
                    text.starts_with("//") || text.starts_with("#define LANEPACK_KERNEL(");
                if !name.ends_with(".cu") || is_other || !text.contains("LANEPACK_KERNEL(") {
                    continue;
                }
                let parts = line.strip_prefix("LANEPACK_KERNEL(").and_then(|rest| {
                    let (parts, _) = rest.split_once(')')?;
                    Some((parts.split_once(", ")?.0, parts.rsplit_once(", ")?.1))
                });
                let place = self.place((file, number));
                let Some((kernel, argument)) = parts.filter(|(name, _)| is_name(name)) else {
                    return Err(format!(
                        "{place}: cannot read \"{text}\": the host has to know the argument of each \
                         kernel, so write \"LANEPACK_KERNEL(name, threads, blocks, Arguments)\" at the \
                         beginning of a line, outside of macros"
                    ));
                };
                if !structs.iter().any(|made| made.name == argument) {
                    return Err(format!(
                        "{place}: {kernel} takes {argument}, which is not shared with the host: let \
                         its name end in Arguments, or the comment above it in \"{MARKER}\""
                    ));
                }
                kernels.push((kernel, argument));
            }
        }
        Ok(kernels)
    }

    /// The lines of the comment above a line.
    fn comment(&self, file: usize, line: usize) -> Vec<String> {
        let above = self.files[file].1[..line].iter().rev();
        let mut lines: Vec<String> =
            above.map_while(|line| Some(line.strip_prefix("//")?.trim().to_owned())).collect();
        lines.reverse();
        lines
    }

    /// Parses a struct, which is used at a place, and those that it has as fields, unless that has
    /// been done.
    fn add(&self, name: &str, user: &str, found: &mut Found) -> Result<()> {
        if found.structs.iter().any(|known| known.name == name) {
            return Ok(());
        }
        let places = self.structs.get(name).map_or(&[][..], Vec::as_slice);
        let &[(file, line)] = places else {
            let at: Vec<String> = places.iter().map(|place| self.place(*place)).collect();
            return Err(match at.as_slice() {
                [] => format!(
                    "{user}: {name}, which a struct that is shared with the host uses, is not found: \
                     expected a line \"struct {name} {{\" in kernels/ or kernels/lanepack/"
                ),
                _ => format!(
                    "two structs named {name}, which is shared with the host: {}; rename one",
                    at.join(", ")
                ),
            });
        };
        let mut docs = self.comment(file, line);
        docs.retain(|line| line != MARKER);
        let mut made = Shared {
            name: name.to_owned(),
            file: self.files[file].0.clone(),
            docs,
            fields: Vec::new(),
            size: 0,
            align: 1,
            has_floats: false,
            has_long_array: false,
        };
        self.add_fields(&mut made, (file, line), found)?;
        if !made.size.is_multiple_of(made.align) {
            return Err(format!(
                "{}: {name} has {} bytes, no multiple of {}: add fields named zero to its end",
                self.place((file, line)),
                made.size,
                made.align
            ));
        }
        found.structs.push(made);
        Ok(())
    }

    fn add_fields(
        &self,
        made: &mut Shared,
        (file, first): (usize, usize),
        found: &mut Found,
    ) -> Result<()> {
        let mut docs = Vec::new();
        let mut lines = self.files[file].1.iter().enumerate().skip(first + 1);
        while let Some((number, line)) = lines.next() {
            let text = line.trim();
            if let Some(comment) = text.strip_prefix("//") {
                docs.push(comment.trim().to_owned());
                continue;
            }
            if line == "};" {
                return Ok(());
            }
            // Other members end with the line whose braces close and that ends them.
            if text.starts_with("static constexpr ") || text.starts_with("LANEPACK_DEVICE ") {
                let mut depth = 0;
                let mut last = text;
                loop {
                    depth += last.matches('{').count() as i32 - last.matches('}').count() as i32;
                    if depth == 0 && last.ends_with([';', '}']) {
                        break;
                    }
                    last = lines.next().map_or("", |(_, line)| line.trim());
                    if last.is_empty() && lines.len() == 0 {
                        break;
                    }
                }
            } else if !text.is_empty() {
                let place = self.place((file, number));
                let (field, comment) = text.split_once("//").unwrap_or((text, ""));
                docs.extend(Some(comment.trim().to_owned()).filter(|text| !text.is_empty()));
                let Some((of, name)) = self.field(field.trim(), &place, found)? else {
                    return Err(format!(
                        "{place}: cannot read \"{text}\" of {}, which is shared with the host: \
                         expected fields like `u32 name;`, `const Node* name;` or `u64 name[4];`, one \
                         on a line, with lengths that are numbers or `constexpr u32 NAME = 4;`; move \
                         anything else out of the struct",
                        made.name
                    ));
                };
                if !made.size.is_multiple_of(of.align) {
                    return Err(format!(
                        "{place}: {} of {} would follow padding: it begins behind {} bytes, no \
                         multiple of {}; put fields named zero before it",
                        name, made.name, made.size, of.align
                    ));
                }
                made.fields.push(Field {
                    name,
                    docs: std::mem::take(&mut docs),
                    of: of.rust,
                    offset: made.size,
                });
                made.size += of.size;
                made.align = made.align.max(of.align);
                made.has_floats |= of.has_floats;
                made.has_long_array |= of.has_long_array;
            }
            docs.clear();
        }
        Err(format!("{}: {} has no line \"}};\"", self.place((file, first)), made.name))
    }

    /// Type and name of a field, if it is one.
    fn field(&self, text: &str, place: &str, found: &mut Found) -> Result<Option<(Type, String)>> {
        let Some(text) = text.strip_suffix(';') else { return Ok(None) };
        let (text, is_const) = match text.strip_prefix("const ") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let Some((of, rest)) = text.split_once(' ') else { return Ok(None) };
        let mut parts = rest.split('[');
        let name = parts.next().unwrap_or_default();
        let pointee = of.strip_suffix('*');
        if !is_name(name) || !is_name(pointee.unwrap_or(of)) || (is_const && pointee.is_none()) {
            return Ok(None);
        }
        let mut of = match pointee {
            Some(pointee) => pointer(pointee, place, found),
            None => self.value(of, place, found)?,
        };
        let lengths: Option<Vec<u64>> =
            parts.map(|part| self.number(part.strip_suffix(']')?)).collect();
        let Some(lengths) = lengths else { return Ok(None) };
        for length in lengths.into_iter().rev() {
            of.rust = format!("[{}; {length}]", of.rust);
            of.size *= length;
            of.has_long_array |= length > 32;
        }
        Ok(Some((of, name.to_owned())))
    }

    /// The type of a field that is no pointer.
    fn value(&self, name: &str, place: &str, found: &mut Found) -> Result<Type> {
        if let Some((rust, size)) = primitive(name) {
            let (rust, has_floats) = (rust.to_owned(), rust.starts_with('f'));
            return Ok(Type { rust, size, align: size, has_floats, has_long_array: false });
        }
        self.add(name, place, found)?;
        let made = found.structs.iter().find(|made| made.name == name).expect("added above");
        let Shared { size, align, has_floats, has_long_array, .. } = *made;
        Ok(Type { rust: name.to_owned(), size, align, has_floats, has_long_array })
    }

    /// A product of numbers and constants.
    fn number(&self, text: &str) -> Option<u64> {
        let factor = |part: &str| match self.constants.get(part.trim()) {
            Some(values) if values.len() == 1 => values.first().copied(),
            Some(_) => None,
            None => part.trim().parse().ok(),
        };
        text.split('*').map(factor).product()
    }

    fn place(&self, (file, line): (usize, usize)) -> String {
        format!("kernels/{}:{}", self.files[file].0, line + 1)
    }
}

/// What has been parsed, and what is still to be.
#[derive(Default)]
struct Found {
    structs: Vec<Shared>,
    /// With the places that point to them.
    pointed_to: Vec<(String, String)>,
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The names of numbers in Rust, and their bytes.
fn primitive(name: &str) -> Option<(&'static str, u64)> {
    Some(match name {
        "u8" => ("u8", 1),
        "u16" => ("u16", 2),
        "u32" => ("u32", 4),
        "u64" => ("u64", 8),
        "i8" => ("i8", 1),
        "i16" => ("i16", 2),
        "i32" => ("i32", 4),
        "i64" => ("i64", 8),
        "float" | "f32" => ("f32", 4),
        "double" | "f64" => ("f64", 8),
        _ => return None,
    })
}

fn pointer(pointee: &str, place: &str, found: &mut Found) -> Type {
    let of = match (primitive(pointee), pointee) {
        (Some((rust, _)), _) => rust,
        (None, "void") => "u8",
        (None, "uint2") => "[u32; 2]",
        (None, "uint4") => "[u32; 4]",
        (None, name) => {
            found.pointed_to.push((name.to_owned(), place.to_owned()));
            name
        }
    };
    let rust = format!("DevicePtr<{of}>");
    Type { rust, size: 8, align: 8, has_floats: false, has_long_array: false }
}

/// Structs and kernels in Rust.
fn rust(structs: &[Shared], kernels: &[(&str, &str)]) -> String {
    let mut text = String::from("// Generated by build/arguments.rs.\n");
    for made in structs {
        let Shared { name, file, .. } = made;
        text.push('\n');
        write_docs(&mut text, "", &made.docs);
        text += if made.docs.is_empty() { "" } else { "///\n" };
        let _ = writeln!(text, "/// `lanepack::{name}` of `kernels/{file}`.");
        let _ = writeln!(text, "#[repr(C)]");
        let more = [(!made.has_floats, ", Eq"), (!made.has_long_array, ", Default")];
        let more: String = more.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        let _ = writeln!(text, "#[derive(Debug, Clone, Copy, PartialEq{more}, Pod, Zeroable)]");
        let _ = writeln!(text, "pub struct {name} {{");
        for field in &made.fields {
            write_docs(&mut text, "    ", &field.docs);
            let _ = writeln!(text, "    pub {}: {},", field.name, field.of);
        }
        let _ = writeln!(text, "}}\n\nimpl Arguments for {name} {{");
        let _ = writeln!(text, "    const NAME: &'static str = {name:?};\n}}\n\nconst _: () = {{");
        let _ = writeln!(text, "    assert!(size_of::<{name}>() == {});", made.size);
        for Field { name: field, offset, .. } in &made.fields {
            let _ = writeln!(text, "    assert!(offset_of!({name}, {field}) == {offset});");
        }
        let _ = writeln!(text, "}};");
    }
    text += "\n/// The kernels, and the structs that they take.\n";
    let _ = writeln!(text, "pub(crate) const KERNELS: &[(&str, &str)] = &{kernels:#?};");
    text
}

fn write_docs(text: &mut String, indent: &str, docs: &[String]) {
    for line in docs {
        // Nothing of C++ is a link or a tag.
        let line = line.replace('[', "\\[").replace('<', "\\<");
        let _ = writeln!(text, "{indent}/// {line}");
    }
}

/// Files of checks in C++, by name.
fn cpp(structs: &[Shared]) -> Vec<(String, String)> {
    let mut by_file: BTreeMap<&str, Vec<&Shared>> = BTreeMap::new();
    structs.iter().for_each(|made| by_file.entry(&made.file).or_default().push(made));
    let mut headers = (String::new(), String::new());
    let mut files = Vec::new();
    for (file, structs) in by_file {
        let asserts: String = structs.into_iter().map(asserts).collect();
        if file.ends_with(".cuh") {
            let _ = writeln!(headers.0, "#include <{file}>");
            headers.1 += &asserts;
        } else {
            files.push((file.to_owned(), with_asserts(&format!("#include <{file}>\n"), &asserts)));
        }
    }
    files.push(("headers.cu".to_owned(), with_asserts(&headers.0, &headers.1)));
    files
}

fn with_asserts(includes: &str, asserts: &str) -> String {
    format!(
        "// Generated by build/arguments.rs.\n{includes}#include <cstddef>\n\nnamespace lanepack {{\n\n\
         {asserts}}}  // namespace lanepack\n"
    )
}

fn asserts(made: &Shared) -> String {
    let Shared { name, size, .. } = made;
    let why = "\"build/arguments.rs has generated another layout for the host\"";
    let mut text = format!("static_assert(sizeof({name}) == {size}, {why});\n");
    for Field { name: field, offset, .. } in &made.fields {
        let _ = writeln!(text, "static_assert(offsetof({name}, {field}) == {offset}, {why});");
    }
    text + "\n"
}

// Run by tests/sources.rs: build scripts have no tests of their own.
#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str) -> Sources {
        Sources::of([("one.cu".to_owned(), text.to_owned())].into_iter())
    }

    /// Why a source is refused.
    fn refused(text: &str) -> String {
        let sources = sources(text);
        let structs = sources.shared().and_then(|structs| sources.kernels(&structs).map(|_| ()));
        structs.unwrap_err()
    }

    #[test]
    fn structs_and_what_they_reach_are_generated() {
        let sources = sources(
            "constexpr u32 ENTRIES = 3;\n\
             // Not reached.\nstruct Other {\n    int what;\n};\n\
             // A part.\nstruct Part {\n    u16 entries[2 * ENTRIES][4];\n};\n\
             // Pointed to.\nstruct Item {\n    static constexpr u32 NONE = 1u << 31;\n    u32 at;\n};\n\
             // Taken by its name.\n// Shared with the host.\nstruct Marked {\n    float ratio;\n};\n\
             // Of a [kernel].\nstruct TestArguments {\n    // Where they are.\n    const Item* items;\n    \
             void* out;\n    Part part;\n\n    LANEPACK_DEVICE u32 twice() const {\n        if (items) {\n            \
             return 2;\n        }\n        return 0;\n    }\n};\n\
             LANEPACK_KERNEL(test, 32, 1, TestArguments) {}\n",
        );
        let structs = sources.shared().unwrap();
        let names: Vec<&str> = structs.iter().map(|made| made.name.as_str()).collect();
        assert_eq!(names, ["Marked", "Part", "TestArguments", "Item"]);
        let kernels = sources.kernels(&structs).unwrap();
        assert_eq!(kernels, [("test", "TestArguments")]);
        let rust = rust(&structs, &kernels);
        for text in [
            "/// Of a \\[kernel].\n///\n/// `lanepack::TestArguments` of `kernels/one.cu`.\n#[repr(C)]\n\
             #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]\n\
             pub struct TestArguments {\n    /// Where they are.\n    pub items: DevicePtr<Item>,\n    \
             pub out: DevicePtr<u8>,\n    pub part: Part,\n}\n",
            "pub entries: [[u16; 4]; 6],",
            "#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]\npub struct Marked {",
            "assert!(size_of::<TestArguments>() == 64);",
            "assert!(offset_of!(TestArguments, part) == 16);",
        ] {
            assert!(rust.contains(text), "{text}\n--- is not in\n{rust}");
        }
        let cpp = cpp(&structs);
        assert_eq!(cpp[0].0, "one.cu");
        assert!(cpp[0].1.contains("#include <one.cu>\n"), "{}", cpp[0].1);
        assert!(cpp[0].1.contains("static_assert(offsetof(TestArguments, part) == 16, "));
    }

    #[test]
    fn what_cannot_be_generated_is_an_error_with_its_place() {
        let fields = |fields: &str| refused(&format!("struct Arguments {{\n{fields}}};\n"));
        let error = fields("    u32 one;\n    u64 two;\n");
        assert!(
            error.starts_with("kernels/one.cu:3: two of Arguments would follow padding"),
            "{error}"
        );
        let error = fields("    u64 one;\n    u32 two;\n");
        assert!(error.starts_with("kernels/one.cu:1: Arguments has 12 bytes"), "{error}");
        for wrong in
            ["u32 one, two;", "u32 list[UNKNOWN];", "u32& one;", "enum { A };", "u32 one = 1;"]
        {
            let error = fields(&format!("    {wrong}\n"));
            assert!(error.starts_with("kernels/one.cu:2: cannot read"), "{wrong}: {error}");
        }
        let error = fields("    Unknown one;\n");
        assert!(error.starts_with("kernels/one.cu:2: Unknown, which"), "{error}");
        let error = refused("struct Arguments {\n    u32 one;\n");
        assert!(error.contains("no line \"};\""), "{error}");
        let error = refused("struct Arguments {\n};\nstruct Arguments {\n};\n");
        assert!(error.contains("kernels/one.cu:1, kernels/one.cu:3"), "{error}");
        let error =
            refused("struct State {\n    u32 one;\n};\nLANEPACK_KERNEL(run, 32, 1, State) {}\n");
        assert!(error.starts_with("kernels/one.cu:4: run takes State"), "{error}");
        let error = refused("#define RUN(name) LANEPACK_KERNEL(run_##name, 32, 1, Arguments) {}\n");
        assert!(error.starts_with("kernels/one.cu:1: cannot read"), "{error}");
    }
}
