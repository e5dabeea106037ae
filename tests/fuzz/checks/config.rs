//! Any text as a config file, or as variables: a config, or problems that each have a message and a place in the text.

use crate::state::config::{Config, Environment, Flags, KeyOrigin, Problem};

const NAME: &str = "fuzzed.toml";

fn has_a_place(problem: &Problem, text: &str, variables: &Environment) {
    assert!(!problem.message.is_empty(), "{problem:?}");
    match &problem.origin {
        KeyOrigin::Place { file, line, column } if file == NAME => {
            let line = text
                .split('\n')
                .nth(line - 1)
                .unwrap_or_else(|| panic!("no such line: {problem}"));
            assert!(
                (1..=line.chars().count() + 1).contains(column),
                "no such column: {problem}"
            );
        }
        KeyOrigin::Variable(name) => assert!(variables.get(name).is_some(), "no such variable: {problem}"),
        KeyOrigin::Place { .. } | KeyOrigin::File(_) | KeyOrigin::Flag(_) => {}
    }
}

pub fn check(input: &[u8]) {
    let [way, text @ ..] = input else { return };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    // A file, or lines `NAME=VALUE` of an environment.
    let (file, variables) = match way % 4 {
        0 => ("", text.lines().filter_map(|line| line.split_once('=')).collect()),
        _ => (text, Environment::default()),
    };
    if let Err(problems) = Config::from_text(Some((NAME, file)), &variables, &Flags::default()) {
        assert!(!problems.is_empty());
        problems
            .iter()
            .for_each(|problem| has_a_place(problem, file, &variables));
    }
}
