//! The kept corpus of a target and all inputs that crashed it pass.

use std::path::{Path, PathBuf};
use std::{fs, panic};

/// A directory of `tests/fuzz`, from whichever crate of the workspace.
pub fn directory(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut directories = crates.map(|of| of.join("tests/fuzz").join(name));
    directories
        .find(|directory| directory.is_dir())
        .expect("tests/fuzz")
}

/// The inputs of a file: a JSON string a line, of which each character is one byte.
fn inputs(file: &Path) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let of_line = |line| serde_json::from_str::<String>(line).unwrap();
    text.lines()
        .map(|line| of_line(line).chars().map(|c| u8::try_from(c).unwrap()).collect())
        .collect()
}

pub fn replay(target: &str, check: fn(&[u8])) {
    let name = format!("{target}.jsonl");
    let crashes = Some(directory("crashes").join(&name)).filter(|file| file.exists());
    for file in [directory("corpus").join(&name)].into_iter().chain(crashes) {
        let all = inputs(&file);
        assert!(!all.is_empty(), "{} is empty", file.display());
        for (at, input) in all.iter().enumerate() {
            let ended = panic::catch_unwind(|| check(input));
            assert!(ended.is_ok(), "{}:{}", file.display(), at + 1);
        }
    }
}
