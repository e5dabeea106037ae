//! The tests that the documentation names exist, and its first commands are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const PAGES: [&str; 3] = ["docs/invariants.md", "docs/wires.md", "docs/agents.md"];

/// Every Rust file below `folder`.
fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") {
            out.push(path);
        }
    }
}

/// The last segment of each path in backticks of a table's row: a test, or a module of tests.
fn named(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let paths = code.filter(|text| text.contains("::") && !text.contains(' '));
    paths
        .filter_map(|path| path.split("::").filter(|part| part.len() > 1).last())
        .filter(|name| {
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_test_that_the_documentation_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests/suite"), &mut files);
    let mut missing = BTreeMap::new();
    for page in PAGES {
        let names = named(&std::fs::read_to_string(root.join(page)).unwrap());
        assert!(!names.is_empty(), "{page} names no test");
        missing.extend(names.into_iter().map(|name| (name, page)));
    }
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for name in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            missing.remove(name);
        }
        missing.remove(&*file.file_stem().unwrap().to_string_lossy());
    }
    assert!(missing.is_empty(), "no tests, but named: {missing:?}");
}
