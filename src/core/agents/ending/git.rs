//! Output of git that shows the success of a command.

use crate::agents::commands;
use crate::agents::outcomes::names_commit;

/// Git commands that change something.
///
/// Their output shows whether they succeeded. For other git commands, exit code 1 is a result and not a
/// failure.
const GIT_CHANGES: [GitChange; 12] = {
    const fn says(name: &'static str, says: &'static [&'static str]) -> GitChange {
        GitChange { name, says }
    }
    [
        says("commit", &[" changed, ", " changed\n", "create mode ", "] "]),
        says("push", &[" -> ", "Everything up-to-date"]),
        says("pull", &["Already up to date", "Fast-forward", " changed"]),
        says("merge", &["Already up to date", "Fast-forward", " changed"]),
        says("checkout", &["Switched to ", "Already on ", "Updated "]),
        says("switch", &["Switched to ", "Already on "]),
        says("stash", &["Saved working directory", "Dropped "]),
        says("rebase", &["Successfully rebased", "is up to date"]),
        // Print nothing on success, or nothing that is known, and exit with 128 on failure.
        says("add", &[]),
        says("fetch", &[]),
        says("reset", &[]),
        says("cherry-pick", &[]),
    ]
};

struct GitChange {
    name: &'static str,
    /// Words of the output that show success; empty if the command prints nothing.
    says: &'static [&'static str],
}

/// Whether the output of a git command shows its success, or would show its failure.
pub(super) fn says_success(name: &str, text: &str) -> bool {
    let change = GIT_CHANGES.iter().find(|change| change.name == name);
    change
        .is_some_and(|change| change.says.is_empty() || change.says.iter().any(|words| text.contains(words)))
}

/// Beginnings of the lines that report a failure of git.
const COMPLAINTS: [&str; 5] = ["error:", "fatal:", "! [", "CONFLICT", "hint: "];

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
        if !command.contains("git ") {
            return Self::default();
        }
        let lines = || text.lines().map(str::trim);
        if lines().any(|line| COMPLAINTS.iter().any(|begins| line.starts_with(begins))) {
            return Self::default();
        }
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
        let [program, name] = commands::programs(command).into_iter().next().unwrap_or_default();
        let mut rows = SUCCESSES.iter();
        let at = rows.position(|(known, _)| *known == name);
        program == "git" && at.is_some_and(|at| self.0 & (1 << at) != 0)
    }
}
