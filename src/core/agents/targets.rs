//! Scripts and targets of the project itself, as commands run them: `targets.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::command_table::{CommandPurpose, CommandRow};
use crate::text::table;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Targets {
    runners: Vec<&'static str>,
    takes_next: Vec<&'static str>,
    interpreters: Vec<&'static str>,
    names: Vec<CommandRow>,
}

static TARGETS: LazyLock<Targets> = LazyLock::new(|| table::read(include_str!("targets.toml")));

/// Directories of programs that are not the project's own.
const INSTALLED: [&str; 3] = ["node_modules/", "venv/", "vendor/"];

/// Purpose of the script or target that a command runs, by its name.
///
/// [`CommandPurpose::Script`] if the name does not reveal it. `None` if the command runs neither.
pub(super) fn purpose(command: &str) -> Option<CommandPurpose> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let name = target(&words).or_else(|| script(&words))?;
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    let known = parts.find_map(|part| {
        let small = part.to_ascii_lowercase();
        let row = TARGETS.names.iter().find(|row| row.words.contains(&&*small));
        row.map(|row| row.purpose)
    });
    Some(known.unwrap_or(CommandPurpose::Script))
}

/// Whether an option of a runner takes the next word.
pub(super) fn takes_next(word: &str) -> bool {
    TARGETS.takes_next.contains(&word)
}

/// First target in the arguments of a target runner.
fn target<'w>(words: &[&'w str]) -> Option<&'w str> {
    let first = words.first()?;
    let begins = |runner: &&&str| {
        let mut given = words.iter();
        runner.starts_with(first) && runner.split(' ').all(|word| given.next() == Some(&word))
    };
    let runner = TARGETS.runners.iter().find(begins)?;
    let mut rest = words[runner.split(' ').count()..].iter().copied();
    while let Some(word) = rest.next() {
        match word {
            // Everything after `--` goes to another program.
            "--" => return None,
            _ if TARGETS.takes_next.contains(&word) => drop(rest.next()),
            // Options, redirections and variables are not targets.
            _ if word.starts_with(['-', '+', '>', '<']) || word.contains('=') || word.contains('>') => {}
            _ => return Some(word),
        }
    }
    None
}

/// File name of the script that a command is, or that it passes to an interpreter.
fn script<'w>(words: &[&'w str]) -> Option<&'w str> {
    let (first, rest) = words.split_first()?;
    let path = match TARGETS.interpreters.contains(first) {
        true => *rest.first()?,
        false => first,
    };
    // A bare word is a program of the machine. After an interpreter, a name with a dot is a file as well.
    let is_file = path.contains('/') || path != *first && path.contains('.');
    let own = !path.starts_with(['/', '~', '-', '$'])
        && !INSTALLED.iter().any(|directory| path.contains(directory));
    let name = path.rsplit('/').next().unwrap_or(path);
    (is_file && own && name.contains(|c: char| c.is_ascii_alphanumeric())).then(|| {
        match name.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => name,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_target_or_a_script_says_what_it_does() {
        use CommandPurpose::{Build, Change, Generate, Install, Lint, Migrate, Script, Serve, Test};
        for (command, expected) in [
            ("make migrate", Some(Migrate)),
            ("make -C app DEBUG=1 db-migrate", Some(Migrate)),
            ("make check-migrations", Some(Lint)),
            ("make -j 8", None),
            ("just", None),
            ("just generate-test-data", Some(Generate)),
            ("npm run db:seed", Some(Change)),
            ("npm run -- x", None),
            ("npm test", None),
            ("cargo xtask codegen", Some(Generate)),
            ("cargo xtask ci", Some(Script)),
            ("./scripts/gen.sh --all", Some(Generate)),
            ("scripts/check", Some(Lint)),
            ("bash scripts/setup.sh", Some(Change)),
            ("make deps", Some(Install)),
            ("python tools/build_all.py", Some(Build)),
            ("python app.py", Some(Script)),
            ("node server.js", Some(Serve)),
            ("node test.js", Some(Test)),
            ("sh -c 'make'", None),
            ("python -m pytest", None),
            ("/usr/bin/env", None),
            ("node_modules/.bin/jest", None),
            ("./target/debug/app", Some(Script)),
            ("..", None),
        ] {
            assert_eq!(purpose(command), expected, "{command}");
        }
    }
}
