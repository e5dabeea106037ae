//! Output of git that shows the success of a command.

use crate::agents::command_table::{NamedWords, WORDS};
use crate::agents::commands;
use crate::agents::outcomes::names_commit;
use crate::text::phrases::Beginnings;

/// The lines of an output. PowerShell puts the name of the program before the first line of its errors.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.map(|line| line.strip_prefix("git : ").unwrap_or(line))
}

/// Whether git reports a failure in the output of a line.
pub(super) fn complains(command: &str, text: &str) -> bool {
    command.contains(PROGRAM) && has_line(text, &WORDS.git_complaints)
}

const PROGRAM: &str = "git ";

fn has_line(text: &str, beginnings: &Beginnings) -> bool {
    lines(text).any(|line| beginnings.begin(line))
}

fn begins(line: &str, with: &[&str]) -> bool {
    with.iter().any(|words| line.starts_with(words))
}

/// Git's reports about the commands of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GitEnds {
    /// The commands of `git_successes` that succeeded as often as the line has them, as bits.
    succeeded: u16,
    /// Whether the line has one git command, which failed.
    pub(super) has_failed: bool,
    /// The commands of `git_idle` that report no change, as bits.
    idle: u16,
}

impl GitEnds {
    /// Reads the output of a line. If git complains, it only shows commits.
    pub(super) fn read(command: &str, text: &str) -> Self {
        if !command.contains(PROGRAM) {
            return Self::default();
        }
        let command = &*commands::without_git_directories(command);
        let ran: Vec<&str> = command.split(PROGRAM).skip(1).collect();
        // The words may also be part of a message, and then count once more.
        let runs_of = |row: &NamedWords| ran.iter().filter(|after| after.starts_with(row.name)).count();
        let succeeds = |row: &NamedWords| {
            let ran = runs_of(row);
            let says = |line: &&str| match row.words[..] {
                [] => names_commit(line),
                ref words => begins(line, words) || row.name == "push" && updates_ref(line),
            };
            let is_commit = row.name == "commit";
            let is_said = ran > 0 && lines(text).filter(says).count() >= ran;
            (is_said || is_commit && shows_commit(command, text)) && (is_commit || !complains(command, text))
        };
        let is_idle = |row: &NamedWords| {
            let ran = runs_of(row);
            ran > 0 && lines(text).filter(|line| begins(line, &row.words)).count() >= ran
        };
        let is_only = ran.len() == 1 && !command.contains("git log");
        Self {
            succeeded: bits(&WORDS.git_successes, succeeds),
            has_failed: is_only && has_line(text, &WORDS.git_failures),
            idle: bits(&WORDS.git_idle, is_idle),
        }
    }

    /// Whether this command succeeded.
    pub(super) fn has_passed(self, command: &str) -> bool {
        has(self.succeeded, &WORDS.git_successes, command)
    }

    /// Whether this command reports no change.
    pub(crate) fn is_idle(self, command: &str) -> bool {
        has(self.idle, &WORDS.git_idle, command)
    }
}

/// The rows that a condition holds for, as bits.
fn bits(rows: &[NamedWords], holds: impl Fn(&NamedWords) -> bool) -> u16 {
    let rows = rows.iter().enumerate();
    rows.fold(0, |bits, (at, row)| bits | u16::from(holds(row)) << at)
}

/// Whether the row of a command is among the bits.
fn has(bits: u16, rows: &[NamedWords], command: &str) -> bool {
    let name = commands::name_of(&commands::without_git_directories(command));
    let name = name.strip_prefix("git ").and_then(|rest| rest.split(' ').next());
    let at = rows.iter().position(|row| Some(row.name) == name);
    at.is_some_and(|at| bits & (1 << at) != 0)
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
