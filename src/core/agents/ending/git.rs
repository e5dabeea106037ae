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

/// Whether git reports a failure in the output of a line.
pub(super) fn complains(command: &str, text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    command.contains("git ") && lines.any(|line| COMPLAINTS.iter().any(|begins| line.starts_with(begins)))
}

/// Commands with the beginnings of the lines that they print on success, and on nothing else.
const SUCCESSES: [(&str, &[&str]); 9] = [
    ("commit", &[]),
    ("cherry-pick", &[]),
    ("revert", &[]),
    ("push", &["To ", "Everything up-to-date"]),
    ("merge", &["Already up to date", "Fast-forward", "Merge made by "]),
    ("rebase", &["Successfully rebased", "Current branch "]),
    ("stash", &["Saved working directory", "Dropped "]),
    ("checkout", &["Switched to ", "Already on "]),
    ("reset", &["HEAD is now at "]),
];

/// The commands of [`SUCCESSES`] that succeeded as often as a line has them, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GitSuccesses(u16);

impl GitSuccesses {
    /// Reads the output of a line. If git complains, it shows nothing.
    pub(super) fn read(command: &str, text: &str) -> Self {
        if !command.contains("git ") || complains(command, text) {
            return Self::default();
        }
        let lines = || text.lines().map(str::trim);
        let succeeds = |(name, begins): &(&str, &[&str])| {
            // The words may also be part of a message, and then count once more.
            let ran = command.matches(&format!("git {name}")).count();
            let says = |line: &&str| match begins.is_empty() {
                true => names_commit(line),
                false => begins.iter().any(|begins| line.starts_with(begins)),
            };
            ran > 0 && lines().filter(says).count() >= ran
        };
        let bits = SUCCESSES.iter().enumerate().filter(|(_, row)| succeeds(row));
        Self(bits.fold(0, |bits, (at, _)| bits | (1 << at)))
    }

    /// Whether this command succeeded.
    pub(super) fn has(self, command: &str) -> bool {
        let name = commands::name_of(command);
        let mut words = name.split(' ');
        let is_git = words.next() == Some("git");
        let at = words
            .next()
            .and_then(|name| SUCCESSES.iter().position(|row| row.0 == name));
        is_git && at.is_some_and(|at| self.0 & (1 << at) != 0)
    }
}
