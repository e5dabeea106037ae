//! The kept corpora and all inputs that crashed pass.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, panic};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz")
        .join(name)
}

/// The inputs of a file: a JSON string a line, of which each character is one byte.
fn inputs(file: &Path) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let of_line = |line| serde_json::from_str::<String>(line).unwrap();
    text.lines()
        .map(|line| of_line(line).chars().map(|c| u8::try_from(c).unwrap()).collect())
        .collect()
}

fn replay(target: &str, check: fn(&[u8])) {
    let name = format!("{target}.jsonl");
    let crashes = Some(folder("crashes").join(&name)).filter(|file| file.exists());
    for file in [folder("corpus").join(&name)].into_iter().chain(crashes) {
        let all = inputs(&file);
        assert!(!all.is_empty(), "{} is empty", file.display());
        for (at, input) in all.iter().enumerate() {
            let ended = panic::catch_unwind(|| check(input));
            assert!(ended.is_ok(), "{}:{}", file.display(), at + 1);
        }
    }
}

macro_rules! replayed {
    ($($target:ident: $check:path,)*) => {
        const REPLAYED: &[&str] = &[$(stringify!($target)),*];

        $(#[test]
        fn $target() {
            replay(stringify!($target), $check);
        })*
    };
}

replayed! {
    config: super::config::check,
    course: super::course::check,
    document: super::document::check,
    draft: super::draft::check,
    framer: super::framer::check,
    marks: super::marks::check,
    redaction: super::redaction::check,
    reply: super::reply::check,
    request: super::request::check,
    resp: crate::state::store::redis::fuzzed::check,
    stream: super::stream::check,
    yaml: super::yaml::check,
}

#[test]
fn every_target_is_replayed() {
    let stem = |file: fs::DirEntry| file.path().file_stem().unwrap().to_str().unwrap().to_owned();
    let targets = fs::read_dir(folder("targets"))
        .unwrap()
        .map(|file| stem(file.unwrap()));
    assert_eq!(
        targets.collect::<BTreeSet<_>>(),
        REPLAYED.iter().map(|&name| name.to_owned()).collect()
    );
}
