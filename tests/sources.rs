//! What the sources of lanepack promise to those who change them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What generates the structs that kernels and host share, for its tests.
#[allow(dead_code, reason = "called by the build script")]
#[path = "../build/arguments.rs"]
mod arguments;

/// Files that may name an encoding, tests not counted.
const MOST: usize = 15;

/// All files under a path but those of tests.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    let name = path.file_stem().unwrap_or_default();
    if name == "tests" {
        return;
    }
    if path.is_file() {
        found.push(path.to_owned());
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        files(&entry.unwrap().path(), found);
    }
}

/// What is to be changed for another encoding is found in few places: those that know one.
#[test]
fn few_files_name_an_encoding() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for path in ["src", "kernels", "build.rs"] {
        files(&root.join(path), &mut sources);
    }
    // Rates that were measured need not have one: src/model/defaults.json.
    sources.retain(|path| path.extension().is_none_or(|extension| extension != "json"));
    assert!(sources.len() > 200, "{} sources", sources.len());
    for encoding in ["gcd", "rle", "delta", "limbs"] {
        let names = |path: &&PathBuf| {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap()).to_lowercase();
            let code = text.split("\nmod tests {").next().unwrap_or_default();
            code.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == encoding)
        };
        let naming: Vec<&PathBuf> = sources.iter().filter(names).collect();
        assert!(naming.len() <= MOST, "{} files name {encoding}: {naming:#?}", naming.len());
        let in_scans = naming.iter().find(|path| path.starts_with(root.join("src/scan")));
        assert!(in_scans.is_none(), "{encoding} is named by {in_scans:?}");
    }
}

/// The modules of each layer, the lowest first, as docs/ARCHITECTURE.md has them: those in the second
/// column of its table.
fn layers() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ARCHITECTURE.md");
    let text = fs::read_to_string(path).unwrap();
    let modules = |line: &str| -> Option<Vec<String>> {
        let cell = line.strip_prefix('|')?.split('|').nth(1)?;
        let names = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        (!names.is_empty()).then_some(names)
    };
    let mut layers: Vec<_> = text.lines().filter_map(modules).collect();
    layers.reverse();
    layers
}

/// Code without comments and without the module of unit tests, which is the last one of a file.
fn code(text: &str) -> String {
    let end = text.find("\nmod tests {").unwrap_or(text.len());
    if let Some((_, rest)) = text[end..].split_once("\n}") {
        assert!(rest.trim().is_empty(), "code behind the tests: {rest}");
    }
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that code names, behind `crate::`; items of the crate's root by their own names.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, path) in code.match_indices("crate::") {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = &code[at + path.len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default().split(',').collect(),
            None => vec![rest],
        };
        let word = |name: &str| -> String {
            let is_word = |letter: &char| letter.is_alphanumeric() || *letter == '_';
            name.trim().chars().take_while(is_word).collect()
        };
        found.extend(names.into_iter().map(word).filter(|name| !name.is_empty()));
    }
    found
}

#[test]
fn imports_point_downwards() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    files(&root, &mut sources);
    let layers = layers();
    assert!(layers.len() > 10, "{layers:?}");
    let mut wrong = Vec::new();
    let mut modules = BTreeMap::new();
    for file in &sources {
        let path = file.strip_prefix(&root).unwrap();
        let first = path.iter().next().unwrap().to_str().unwrap();
        let module = first.strip_suffix(".rs").unwrap_or(first);
        if module == "lib" {
            continue;
        }
        let layer_of =
            |module: &str| layers.iter().position(|layer| layer.iter().any(|one| one == module));
        let Some(layer) = layer_of(module) else {
            wrong.push(format!("{}: the module is in no layer", path.display()));
            continue;
        };
        let code = code(&fs::read_to_string(file).unwrap());
        for import in imports(&code).iter().filter(|import| *import != module) {
            *modules.entry(module.to_owned()).or_insert(0) += 1;
            match layer_of(import) {
                Some(other) if other < layer => {}
                Some(_) => wrong.push(format!("{}: imports {import}", path.display())),
                None => wrong.push(format!("{}: {import} is no module", path.display())),
            }
        }
        // As many steps up as the file is deep lead to the root; one more where a module is inline.
        let depth = path.iter().count() - usize::from(path.ends_with("mod.rs"));
        let is_inline = |line: &&str| line.starts_with("    ") && line.contains("use super::");
        let chain = "super::".repeat(depth);
        if code.lines().filter(|line| !is_inline(line)).any(|line| line.contains(&chain)) {
            wrong.push(format!("{}: names the crate's root as super", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing is checked where nothing is found.
    for module in ["encoding", "device", "decode", "encode", "engine", "scan", "ipc"] {
        assert!(modules.get(module).is_some_and(|imports| *imports > 5), "{module}: {modules:?}");
    }
}

#[test]
fn imports_are_seen() {
    let text = "use crate::scan::Scan; // crate::ipc\n    crate::{batch, engine::Engine}; \
                mycrate::chunk; pub(in crate::encode) fn a() {}\nmod tests { use crate::gpu; }";
    let text = text.replace("\nmod tests", "\n\nmod tests");
    assert_eq!(imports(&code(&text)), ["scan", "batch", "engine", "encode"]);
}
