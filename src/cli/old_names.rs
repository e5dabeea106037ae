//! Commands under the names that the previous version had: they are translated, and the new name is printed.

use std::ffi::OsString;

use super::output::{Out, visible};

/// Options of the old commands that take a value in the next word.
const WITH_VALUE: [&str; 8] = [
    "--config",
    "--state-dir",
    "--dir",
    "--limit",
    "--topic",
    "--format",
    "--for",
    "--git-dir",
];

/// What a command is called now, and how its words change.
struct OldName {
    old: &'static [&'static str],
    new: &'static [&'static str],
    change: fn(&mut Vec<String>),
}

const OLD_NAMES: &[OldName] = &[
    old(&["packets", "list"], &["handoffs", "list"], listed),
    old(&["packets", "show"], &["handoffs", "show"], document),
    old(&["packets", "latest"], &["handoffs", "show"], document),
    old(&["packets", "create"], &["handoffs", "create"], same),
    old(&["packets", "recover"], &["handoffs", "show"], summary),
    old(&["packets", "line"], &["handoffs", "show", "--line"], same),
    old(&["packets", "check"], &["handoffs", "check"], same),
    old(&["packets", "validate"], &["handoffs", "check", "--syntax"], same),
    old(&["packets", "archive"], &["handoffs", "archive"], activated),
    old(&["packets", "delete"], &["handoffs", "delete"], same),
    old(&["packets", "clean"], &["handoffs", "delete"], same),
    old(&["packets", "ledger"], &["handoffs", "list", "--ledger"], same),
    old(&["packets", "transfer"], &["handoffs", "transfer"], same),
    old(
        &["packets", "watch"],
        &["handoffs", "list", "--follow"],
        without_pause,
    ),
    old(&["packets"], &["handoffs"], same),
    old(&["handoffs", "latest"], &["handoffs", "show"], same),
    old(&["handoffs", "export"], &["handoffs", "show"], document),
    old(&["resume"], &["handoffs", "resume"], same),
    old(&["seal-key", "show"], &["seal-key"], same),
    old(&["seal-key", "rotate"], &["seal-key", "--rotate"], same),
    old(&["seal-key", "retire"], &["seal-key", "--retire"], retired),
];

const fn old(
    old: &'static [&'static str],
    new: &'static [&'static str],
    change: fn(&mut Vec<String>),
) -> OldName {
    OldName { old, new, change }
}

/// The words under their new names, program name first. An old name is reported on standard error.
pub(super) fn translated(args: Vec<OsString>) -> Vec<OsString> {
    let Some((words, name)) = translation(&args) else {
        return args;
    };
    // Standard error may be closed.
    let _ = Out::stderr().line(format_args!(
        "baton: `baton {}` is `baton {}` now; the old name will be removed in the next version",
        name.old.join(" "),
        visible(&name.new.join(" "))
    ));
    words
}

fn translation(args: &[OsString]) -> Option<(Vec<OsString>, &'static OldName)> {
    let words = args.get(1..)?;
    let name = OLD_NAMES.iter().find(|name| {
        words.len() >= name.old.len() && name.old.iter().zip(words).all(|(old, word)| word == old)
    })?;
    let rest = &words[name.old.len()..];
    // Words that are no text are names of files, and stay as they are.
    let Some(mut rest) = rest
        .iter()
        .map(|word| Some(word.to_str()?.to_owned()))
        .collect::<Option<Vec<_>>>()
    else {
        let new = name.new.iter().map(OsString::from);
        return Some((
            args.iter()
                .take(1)
                .cloned()
                .chain(new)
                .chain(rest.iter().cloned())
                .collect(),
            name,
        ));
    };
    (name.change)(&mut rest);
    let new = name
        .new
        .iter()
        .map(OsString::from)
        .chain(rest.into_iter().map(OsString::from));
    Some((args.iter().take(1).cloned().chain(new).collect(), name))
}

fn same(_: &mut Vec<String>) {}

fn has(words: &[String], options: &[&str]) -> bool {
    let given = |option: &&str| {
        words
            .iter()
            .any(|word| word == option || word.starts_with(&format!("{option}=")))
    };
    options.iter().any(given)
}

/// The first word that is neither an option nor its value.
fn operand(words: &[String]) -> Option<&str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// Active handoffs only, where nothing else was listed.
fn listed(words: &mut Vec<String>) {
    let is_plain = operand(words).is_none() && !has(words, &["--all", "--files", "--sessions", "--help"]);
    if is_plain {
        words.extend(["--status", "active"].map(str::to_owned));
    }
}

/// The document, as Markdown or JSON; a handoff file as it is.
fn document(words: &mut Vec<String>) {
    let is_file =
        operand(words).is_some_and(|name| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)));
    if let Some(json) = words.iter_mut().find(|word| *word == "--json") {
        *json = "--format=json".to_owned();
    } else if !is_file && !has(words, &["--format", "--path", "--files", "--help"]) {
        words.push("--format=md".to_owned());
    }
}

fn summary(words: &mut Vec<String>) {
    if !has(words, &["--for"]) {
        words.push("--for=fresh".to_owned());
    }
}

fn activated(words: &mut Vec<String>) {
    let is_file = operand(words).is_some_and(|name| name.ends_with(".yaml"));
    if has(words, &["--undo"]) && !is_file {
        words.push("--activate".to_owned());
    }
}

/// The key follows the option.
fn retired(words: &mut Vec<String>) {
    let key = operand(words).map(str::to_owned);
    let Some(key) = key.or_else(|| has(words, &["--all"]).then(|| "all".to_owned())) else {
        return;
    };
    words.retain(|word| *word != key && word != "--all");
    words.insert(0, key);
}

fn without_pause(words: &mut Vec<String>) {
    if let Some(at) = words.iter().position(|word| word == "--every") {
        words.drain(at..words.len().min(at + 2));
    }
    words.retain(|word| !word.starts_with("--every="));
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::args::Args;

    fn new_words(text: &str) -> Option<String> {
        let args: Vec<_> = std::iter::once("baton")
            .chain(text.split(' '))
            .map(OsString::from)
            .collect();
        let (words, _) = translation(&args)?;
        let words: Vec<_> = words[1..].iter().map(|word| word.to_str().unwrap()).collect();
        Some(words.join(" "))
    }

    #[test]
    fn every_old_command_has_a_new_one_that_is_understood() {
        for (old, new) in [
            ("packets list", "handoffs list --status active"),
            (
                "packets list --topic x",
                "handoffs list --topic x --status active",
            ),
            ("packets list --all", "handoffs list --all"),
            ("packets list api --json", "handoffs list api --json"),
            ("packets list --files", "handoffs list --files"),
            ("packets show 01", "handoffs show 01 --format=md"),
            ("packets show 01 --json", "handoffs show 01 --format=json"),
            ("packets show a/b.yaml", "handoffs show a/b.yaml"),
            (
                "packets show a/b.yaml --format markdown",
                "handoffs show a/b.yaml --format markdown",
            ),
            ("packets latest", "handoffs show --format=md"),
            ("packets latest --files --path", "handoffs show --files --path"),
            ("packets recover", "handoffs show --for=fresh"),
            ("packets recover api --for clear", "handoffs show api --for clear"),
            ("packets recover --here", "handoffs show --here --for=fresh"),
            ("packets line api --follow", "handoffs show --line api --follow"),
            ("packets check api", "handoffs check api"),
            (
                "packets validate a.yaml b.yaml",
                "handoffs check --syntax a.yaml b.yaml",
            ),
            (
                "packets archive 01 --undo",
                "handoffs archive 01 --undo --activate",
            ),
            (
                "packets archive a/b.yaml --undo",
                "handoffs archive a/b.yaml --undo",
            ),
            ("packets delete a/b.yaml", "handoffs delete a/b.yaml"),
            (
                "packets clean --older-than 30d --dry-run",
                "handoffs delete --older-than 30d --dry-run",
            ),
            ("packets ledger api", "handoffs list --ledger api"),
            (
                "packets transfer a.yaml --to B",
                "handoffs transfer a.yaml --to B",
            ),
            ("packets watch --every 2", "handoffs list --follow"),
            ("packets create api --goal G", "handoffs create api --goal G"),
            ("handoffs latest --json", "handoffs show --json"),
            ("handoffs export 01", "handoffs show 01 --format=md"),
            (
                "handoffs export 01 --format yaml",
                "handoffs show 01 --format yaml",
            ),
            ("resume 01 --with pi", "handoffs resume 01 --with pi"),
            ("seal-key show --json", "seal-key --json"),
            ("seal-key rotate", "seal-key --rotate"),
            ("seal-key retire 3f", "seal-key --retire 3f"),
            (
                "seal-key retire --state-dir s --all",
                "seal-key --retire all --state-dir s",
            ),
        ] {
            assert_eq!(new_words(old).as_deref(), Some(new), "{old}");
            let words = std::iter::once("baton").chain(new.split(' '));
            assert!(Args::try_parse_from(words).is_ok(), "{new}");
        }
        for new in [
            "handoffs list",
            "handoffs show 01",
            "log",
            "run packets",
            "seal-key",
        ] {
            assert_eq!(new_words(new), None);
        }
    }

    /// Every command that help shows, with its path.
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        let mut children = command
            .get_subcommands()
            .filter(|child| !child.is_hide_set())
            .peekable();
        if children.peek().is_none() {
            found.push((path.to_owned(), command.clone()));
        }
        for child in children {
            leaves(child, &format!("{path} {}", child.get_name()), found);
        }
    }

    #[test]
    fn the_tree_is_small_and_every_leaf_says_what_it_is_for() {
        let mut found = Vec::new();
        leaves(&Args::command(), "baton", &mut found);
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.len() <= 31, "{} commands: {names:?}", names.len());
        for (name, leaf) in &found {
            assert!(leaf.get_about().is_some(), "{name} has no description");
            let examples = leaf.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                examples.contains(name.as_str()),
                "{name} has no example of itself"
            );
        }
    }
}
