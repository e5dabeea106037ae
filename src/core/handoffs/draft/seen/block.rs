//! The observed facts as a short text after a carry-over prompt.

use super::{SeenChange, SeenFacts, SeenVerification};
use crate::agents::files::FileChange;
use crate::agents::todo::TodoState;
use crate::handoffs::draft::TokenCounter;
use crate::handoffs::draft::excerpt::one_line;

/// What is around the lines. It becomes part of a prefix: the text is always the same.
const OPENS: &str = "<seen-by-proxy>\nRead off tool calls and their results since the last handoff, not claimed by the model:";
const CLOSES: &str = "</seen-by-proxy>";

/// Bytes of a command or of an item in a line.
const PIECE: usize = 80;

/// Files that a line names.
const FILES: usize = 6;

impl SeenFacts {
    /// The facts in at most this many tokens, the most important first; `None` if there are none.
    pub fn block(&self, most: usize, count: TokenCounter) -> Option<String> {
        let mut out = OPENS.to_owned();
        let mut used = count.tokens(OPENS) + count.tokens(CLOSES) + 2;
        let mut listed = false;
        for line in self.lines() {
            // A line break is part of a token.
            let cost = count.tokens(&line) + 1;
            if used + cost > most {
                continue;
            }
            used += cost;
            out.push('\n');
            out.push_str(&line);
            listed = true;
        }
        out.push('\n');
        out.push_str(CLOSES);
        listed.then_some(out)
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let failed = |run: &&SeenVerification| run.passed == Some(false);
        let runs = self.verification.iter().rev();
        lines.extend(runs.clone().filter(failed).map(run_line));
        lines.extend(runs.filter(|run| !failed(run)).map(run_line));
        let others = self.failed.iter().rev().filter(|failed| {
            let shown =
                |run: &SeenVerification| run.turn == failed.turn && failed.command.contains(&run.command);
            !self.verification.iter().any(shown)
        });
        lines.extend(others.map(|failed| {
            let (command, exit, turn) = (one_line(&failed.command, PIECE), failed.exit, failed.turn);
            format!("- `{command}`: exit {exit} in turn {turn}, not run again with success")
        }));
        for change in [
            FileChange::Created,
            FileChange::Modified,
            FileChange::Written,
            FileChange::Deleted,
        ] {
            let of = self.files.iter().rev().filter(|file| file.change == change);
            lines.extend(files_line(change.name(), &of.collect::<Vec<_>>()));
        }
        let todo = |state: TodoState| self.todos.iter().filter(move |todo| todo.state == state);
        if let Some(active) = todo(TodoState::Active).next() {
            lines.push(format!("- to-do in progress: {}", one_line(&active.text, PIECE)));
        }
        if let Some(next) = todo(TodoState::Pending).next() {
            let more = todo(TodoState::Pending).count() - 1;
            let more = match more {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            lines.push(format!("- to-do pending: {}{more}", one_line(&next.text, PIECE)));
        }
        lines.extend(
            self.questions
                .iter()
                .map(|question| format!("- asked, unanswered: {}", one_line(&question.text, PIECE))),
        );
        lines
    }
}

fn run_line(run: &SeenVerification) -> String {
    let how = match (run.passed, run.exit) {
        (Some(true), _) => "passed".to_owned(),
        (Some(false), Some(code)) => format!("FAILED (exit {code})"),
        (Some(false), None) => "FAILED (exit code unknown)".to_owned(),
        (None, _) => "exit code unknown".to_owned(),
    };
    let since = match run.stale {
        Some(true) => ", files changed after it",
        Some(false) => "",
        None => ", files may have changed after it",
    };
    let (command, turn) = (one_line(&run.command, PIECE), run.turn);
    format!("- `{command}`: {how} in turn {turn}{since}")
}

fn files_line(what: &str, files: &[&SeenChange]) -> Option<String> {
    let first = files.iter().take(FILES);
    let named: Vec<_> = first.map(|file| one_line(&file.path, PIECE)).collect();
    let more = match files.len().saturating_sub(FILES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty()).then(|| format!("- {what}: {}{more}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::commands::CommandPurpose;

    #[test]
    fn a_block_fits_and_begins_with_what_failed() {
        let run = |n: usize| SeenVerification {
            purpose: CommandPurpose::Test,
            command: format!("cargo test -p part{n}"),
            exit: Some(if n == 1 { 101 } else { 0 }),
            passed: Some(n != 1),
            turn: n,
            stale: Some(n > 30),
        };
        let seen = SeenFacts {
            verification: (0..40).map(run).collect(),
            ..SeenFacts::default()
        };
        let block = seen.block(200, TokenCounter::Estimated).unwrap();
        assert!(
            TokenCounter::Estimated.tokens(&block) <= 200,
            "{}: {block}",
            TokenCounter::Estimated.tokens(&block)
        );
        assert!(
            block.starts_with(&format!(
                "{OPENS}\n- `cargo test -p part1`: FAILED (exit 101) in turn 1\n"
            )),
            "{block}"
        );
        assert!(block.ends_with("</seen-by-proxy>"), "{block}");
        assert_eq!(SeenFacts::default().block(200, TokenCounter::Estimated), None);
    }
}
