//! What the sources of lanepack promise to those who change them.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that may name an encoding, tests not counted.
const MOST: usize = 14;

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
    assert!(sources.len() > 200, "{} sources", sources.len());
    for encoding in ["gcd", "rle", "delta", "limbs"] {
        let names = |path: &&PathBuf| {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap()).to_lowercase();
            text.contains(encoding)
        };
        let naming: Vec<&PathBuf> = sources.iter().filter(names).collect();
        assert!(naming.len() <= MOST, "{} files name {encoding}: {naming:#?}", naming.len());
        let in_scans = naming.iter().find(|path| path.starts_with(root.join("src/scan")));
        assert!(in_scans.is_none(), "{encoding} is named by {in_scans:?}");
    }
}

/// What modules at the root of the crate may not import: those above them.
const ABOVE: [(&[&str], &[&str]); 4] = [
    (
        &[
            "error",
            "options",
            "lanes",
            "ranges",
            "arrow_type",
            "chunk",
            "encoding",
            "fence",
            "column",
            "extension",
        ],
        &["batch", "ipc", "gpu", "engine", "scan"],
    ),
    (&["batch", "gpu"], &["ipc", "engine", "scan"]),
    (&["ipc"], &["gpu", "engine", "scan"]),
    (&["engine"], &["ipc", "scan"]),
];

/// The modules that a line of code names by their paths from the root of the crate.
fn modules_of(line: &str) -> impl Iterator<Item = &str> {
    let code = line.trim_start();
    let paths = if code.starts_with("//") { "" } else { code };
    paths.split("crate::").skip(1).map(|path| {
        path.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap()
    })
}

#[test]
fn imports_point_downwards() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    files(&root, &mut sources);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in &sources {
        let inside = path.strip_prefix(&root).unwrap();
        let module = Path::new(inside.iter().next().unwrap()).file_stem().unwrap();
        let module = module.to_str().unwrap();
        let Some((_, above)) = ABOVE.iter().find(|(below, _)| below.contains(&module)) else {
            continue;
        };
        seen += 1;
        for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            let found = modules_of(line).filter(|name| above.contains(name));
            wrong.extend(found.map(|name| format!("{}:{}: {name}", inside.display(), number + 1)));
        }
    }
    assert!(seen > 100, "{seen} sources");
    assert!(wrong.is_empty(), "modules import those above them: {wrong:#?}");
}
