//! Facts as lines of text, worded the same for models and for users.

use super::{CallEnd, SeenChange, SeenCommand, SeenEffect, SeenFailure, SeenStatement, SeenVerification};
use crate::agents::todo::TodoItem;
use crate::text::prose::{joined, one_line};

/// Formats a string as inline code.
pub(crate) fn code(text: &str) -> String {
    let text = joined(text);
    match longest_fence(&text) {
        0 => format!("`{text}`"),
        longest => {
            let fence = "`".repeat(longest + 1);
            format!("{fence} {text} {fence}")
        }
    }
}

/// Length of the longest run of backticks.
pub(crate) fn longest_fence(text: &str) -> usize {
    let runs = text.split(|c: char| c != '`');
    runs.map(str::len).max().unwrap_or_default()
}

/// The exit code of a whole line, or else how it ended. Zero does not prove that each of its commands passed.
pub(crate) fn exit(exit: Option<i32>, ended: Option<CallEnd>) -> String {
    match exit {
        Some(0) => "exit 0".to_owned(),
        Some(code) => format!("**exit {code}**"),
        None => ended.map_or("exit code unknown", CallEnd::name).to_owned(),
    }
}

/// The place of a call, which `session_recall` finds; empty if there is no turn.
pub(crate) fn place(turn: usize, call: usize) -> String {
    match (turn, call) {
        (0, _) => String::new(),
        (turn, 0) => format!(" (turn {turn})"),
        (turn, call) => format!(" (turn {turn}, call {call})"),
    }
}

/// A statement with its turn. Turn 0 stands for none.
pub(crate) fn statement(stated: &SeenStatement) -> String {
    joined(&stated.text) + &place(stated.turn, 0)
}

/// Lines of an output below the line about their call.
pub(crate) fn quoted<'l>(lines: impl IntoIterator<Item = &'l String>) -> String {
    let lines = lines.into_iter();
    lines.map(|line| format!("\n  > {line}")).collect()
}

impl TodoItem {
    /// The item with its state, in at most this many bytes of its text.
    pub(crate) fn line(&self, bytes: usize) -> String {
        format!("[{}] {}", self.state.name(), one_line(&self.text, bytes))
    }
}

impl SeenVerification {
    /// How the run ended, and whether that still holds.
    pub(crate) fn line(&self) -> String {
        let ended = match self.has_passed() {
            Some(true) => "passed".to_owned(),
            Some(false) => exit(self.exit, Some(CallEnd::Failed)),
            None => exit(None, self.is_running.then_some(CallEnd::Running)),
        };
        let since = match self.stale {
            Some(true) => "; files changed after it",
            Some(false) => "",
            None => "; files may have changed after it",
        };
        let elsewhere = match self.directory_unknown {
            true => "; in a directory that is not known",
            false => "",
        };
        format!(
            "{}: {ended}{}{elsewhere}{since}",
            code(&self.command),
            place(self.turn, self.call)
        )
    }
}

impl SeenCommand {
    /// How the line ended, and who ran it.
    pub(crate) fn line(&self) -> String {
        let who = if self.by_user { ", run by the user" } else { "" };
        let (ended, place) = (exit(self.exit, self.ended), place(self.turn, self.call));
        format!("{}: {ended}{who}{place}", code(&self.command))
    }
}

impl SeenChange {
    /// The change of the file, and its reason.
    pub(crate) fn line(&self, has_why: bool) -> String {
        let place = place(self.turn, self.call);
        let why = self.why.as_ref().filter(|_| has_why);
        let why = why.map_or(String::new(), |why| format!(": {}", joined(why)));
        format!("{} {}{place}{why}", code(&self.path), self.change.name())
    }
}

impl SeenEffect {
    /// The effect of the command.
    pub(crate) fn line(&self) -> String {
        let ended = match self.passed {
            Some(true) if self.is_idle => "changed nothing",
            Some(true) => self.purpose.leaves().unwrap_or("ran"),
            Some(false) => "**failed**",
            None if self.is_running => CallEnd::Running.name(),
            None => "ran, exit code unknown",
        };
        let since = match self.may_have_ended {
            true => "; not known whether it still runs",
            false => "",
        };
        format!(
            "{}: {ended}{}{since}",
            code(&self.command),
            place(self.turn, self.call)
        )
    }
}

impl SeenFailure {
    /// The failed command with its place, and the lines of its error.
    pub(crate) fn line(&self, lines: usize) -> String {
        let exit = match self.exit {
            Some(code) => format!(" (exit {code})"),
            None if self.is_reported => String::new(),
            None => " (reads as failed)".to_owned(),
        };
        let who = if self.by_user { ", run by the user" } else { "" };
        let since = match self.unknown_since {
            Some(turn) if turn == self.turn => "; not known whether it still fails".to_owned(),
            Some(turn) => format!("; not known whether it still fails since turn {turn}"),
            None => String::new(),
        };
        let quoted = quoted(self.lines.iter().take(lines));
        let place = place(self.turn, self.call);
        format!("{}{exit}{who}{place}{since}{quoted}", code(&self.command))
    }
}
