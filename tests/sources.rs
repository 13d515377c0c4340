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
