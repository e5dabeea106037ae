//! Texts that belong to a person and the proxy in between: no provider should ever read them.

use super::complaint::{Findings, Rule};
use super::dialect::Received;
use super::transcript::Role;

/// The words of commands in the chat, after their usual prefix.
const COMMANDS: [&str; 4] = ["::handoff", "::pin", "::pins", "::unpin"];

/// Length of an id in a note's line.
const ID: usize = 36;

/// Finds notes in the model's texts, and commands in the user's.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    for (n, turn) in request.turns().iter().enumerate() {
        for text in &turn.texts {
            let found = match turn.role {
                Role::User => is_command(text).then_some("a command"),
                Role::Assistant => shown(text),
                Role::System => None,
            };
            if let Some(what) = found {
                let begin: String = text.chars().take(80).collect();
                findings.add(
                    Rule::ProxyText,
                    format!("turn {n}: {what} of the proxy's own: {begin:?}"),
                );
            }
        }
    }
}

fn is_command(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    text.trim_start().starts_with("::") && COMMANDS.contains(&word)
}

/// What of a proxy's answers is on lines of its own in a text.
fn shown(text: &str) -> Option<&'static str> {
    let is_mark = |line: &str, word: &str| {
        let inside = line.trim().strip_prefix("[[handoff-");
        inside
            .and_then(|rest| rest.strip_prefix(word)?.strip_prefix(':')?.strip_suffix("]]"))
            .is_some_and(|id| id.len() == ID)
    };
    let words = [("note", "a note"), ("draft", "a draft as it was written")];
    let mut found = words
        .into_iter()
        .filter(|(word, _)| text.lines().any(|line| is_mark(line, word)));
    found.next().map(|(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_shown_marks_are_found() {
        for (text, found) in [
            ("::pin x", true),
            (" ::handoff", true),
            ("::pinned", false),
            ("see ::pin x", false),
        ] {
            assert_eq!(is_command(text), found, "{text}");
        }
        let id = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
        for (text, found) in [
            (format!("baton: so.\n\n[[handoff-note:{id}]]"), Some("a note")),
            (
                format!("baton: so.\n[[handoff-draft:{id}]]\n## Goal"),
                Some("a draft as it was written"),
            ),
            (format!("see [[handoff-note:{id}]]"), None),
            (format!("[[handoff-resume:{id}]]"), None),
        ] {
            assert_eq!(shown(&text), found, "{text}");
        }
    }
}
