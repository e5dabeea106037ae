//! Every target is replayed.

use std::collections::BTreeSet;
use std::fs;

use super::replay::{directory, replay};

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
    response: super::response::check,
    document: super::document::check,
    draft: super::draft::check,
    framer: super::framer::check,
    marks: super::marks::check,
    plan: super::plan::check,
    redaction: super::redaction::check,
    reply: super::reply::check,
    request: super::request::check,
    returned: super::returned::check,
    speakers: super::speakers::check,
    stream: super::stream::check,
    yaml: super::yaml::check,
}

#[test]
fn every_target_is_replayed() {
    // The crate of the state replays its own.
    let replayed = REPLAYED.iter().chain(&["resp"]);
    let stem = |file: fs::DirEntry| file.path().file_stem().unwrap().to_str().unwrap().to_owned();
    let targets = fs::read_dir(directory("targets"))
        .unwrap()
        .map(|file| stem(file.unwrap()));
    assert_eq!(
        targets.collect::<BTreeSet<_>>(),
        replayed.map(|&name| name.to_owned()).collect()
    );
}
