//! Output of git that shows the success of a command.

use crate::agents::commands;
use crate::agents::outcomes::names_commit;

/// Beginnings of the lines that report a failure of git, in its languages.
const COMPLAINTS: [&str; 26] = [
    "error:",
    "fatal:",
    "! [",
    "CONFLICT",
    "hint: ",
    "usage: git",
    "Aborting",
    "Could not apply",
    "Fehler",
    "Schwerwiegend",
    "erreur",
    "fatal :",
    "fatale:",
    "errore:",
    "erro:",
    "fel:",
    "fout:",
    "致命",
    "错误",
    "錯誤",
    "エラー",
    "ошибка",
    "фатальн",
    "오류",
    "치명적",
    "błąd",
];

/// Complaints that only git prints, and only if the command itself failed.
const FAILURES: [&str; 10] = [
    "fatal:",
    "fatal :",
    "fatale:",
    "致命",
    "фатальн",
    "치명적",
    "! [",
    "CONFLICT",
    "error: failed to push",
    "Schwerwiegend",
];

/// The lines of an output. PowerShell puts the name of the program before the first line of its errors.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.map(|line| line.strip_prefix("git : ").unwrap_or(line))
}

/// Whether git reports a failure in the output of a line.
pub(super) fn complains(command: &str, text: &str) -> bool {
    let mut lines = lines(text);
    command.contains("git ") && lines.any(|line| COMPLAINTS.iter().any(|begins| line.starts_with(begins)))
}

/// Whether the only git command of a line reports that it failed.
fn has_failed(command: &str, text: &str) -> bool {
    let begins = |line: &str| FAILURES.iter().any(|begins| line.starts_with(begins));
    command.matches("git ").count() == 1 && !command.contains("git log") && lines(text).any(begins)
}

/// Commands with the beginnings of the lines that they print on success, and on nothing else.
const SUCCESSES: [(&str, &[&str]); 11] = [
    ("commit", &[]),
    ("cherry-pick", &[]),
    ("revert", &[]),
    ("push", &["To ", "Everything up-to-date"]),
    ("merge", &["Already up to date", "Fast-forward", "Merge made by "]),
    ("rebase", &["Successfully rebased", "Current branch "]),
    ("stash", &["Saved working directory", "Dropped "]),
    ("checkout", &["Switched to ", "Already on "]),
    ("switch", &["Switched to ", "Already on "]),
    ("worktree", &["HEAD is now at "]),
    ("reset", &["HEAD is now at "]),
];

/// Git's reports about the commands of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GitEnds {
    /// The commands of [`SUCCESSES`] that succeeded as often as the line has them, as bits.
    succeeded: u16,
    /// Whether the line has one git command, which failed.
    pub(super) has_failed: bool,
}

impl GitEnds {
    /// Reads the output of a line. If git complains, it only shows commits.
    pub(super) fn read(command: &str, text: &str) -> Self {
        if !command.contains("git ") {
            return Self::default();
        }
        let complains = complains(command, text);
        let succeeds = |(name, begins): &(&str, &[&str])| {
            // The words may also be part of a message, and then count once more.
            let ran = command.matches(&format!("git {name}")).count();
            let says = |line: &&str| match *name {
                "push" => begins.iter().any(|begins| line.starts_with(begins)) || updates_ref(line),
                _ if begins.is_empty() => names_commit(line),
                _ => begins.iter().any(|begins| line.starts_with(begins)),
            };
            let is_said = ran > 0 && lines(text).filter(says).count() >= ran;
            (is_said || *name == "commit" && shows_commit(command, text)) && (!complains || *name == "commit")
        };
        let bits = SUCCESSES.iter().enumerate().filter(|(_, row)| succeeds(row));
        Self {
            succeeded: bits.fold(0, |bits, (at, _)| bits | (1 << at)),
            has_failed: has_failed(command, text),
        }
    }

    /// Whether this command succeeded.
    pub(super) fn has_passed(self, command: &str) -> bool {
        let name = commands::name_of(command);
        let mut words = name.split(' ');
        let is_git = words.next() == Some("git");
        let at = words
            .next()
            .and_then(|name| SUCCESSES.iter().position(|row| row.0 == name));
        is_git && at.is_some_and(|at| self.succeeded & (1 << at) != 0)
    }
}

/// Whether a push reports a new state of a branch: `1a2b3c4..2b3c4d5  main -> main`.
fn updates_ref(line: &str) -> bool {
    let range = || line.split(' ').next().and_then(|first| first.split_once(".."));
    let is_hash = |text: &str| text.len() >= 7 && text.bytes().all(|b| b.is_ascii_hexdigit());
    line.contains(" -> ")
        && (line.starts_with("* [new ")
            || range().is_some_and(|(old, new)| is_hash(old) && is_hash(new.trim_start_matches('.'))))
}

/// Whether the end of an output shows the only commit of a line by its files.
fn shows_commit(command: &str, text: &str) -> bool {
    const OTHERS: [&str; 7] = ["diff", "show", "log", "merge", "pull", "stash", "apply"];
    let is_only = command.matches("git commit").count() == 1
        && !OTHERS.iter().any(|name| command.contains(&format!("git {name}")));
    let is_file = |line: &str| line.starts_with("create mode ") || line.starts_with("delete mode ");
    is_only && lines(text).any(is_file)
}
