//! Texts that belong to a user and the proxy in between: no provider should ever read them.

use super::complaint::{Findings, Rule};
use super::dialect::Received;
use super::transcript::Role;

/// The words of commands in the chat, after their usual prefix.
const COMMANDS: [&str; 4] = ["::handoff", "::pin", "::pins", "::unpin"];

/// Lengths of what a note's line has for an id: nothing, a short id, a whole one.
const IDS: [usize; 3] = [0, 22, 36];

/// Finds notes in the model's texts, and commands in the user's.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    for (n, turn) in request.turns().iter().enumerate() {
        for text in &turn.texts {
            let found = match turn.role {
                Role::User => is_command(text).then_some("a command"),
                Role::Assistant => has_note(text).then_some("a note"),
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

/// Whether a note of the proxy's is on a line of its own.
fn has_note(text: &str) -> bool {
    let id = |line: &str| {
        let rest = line.trim().strip_prefix("[[handoff-note:")?;
        rest.strip_suffix("]]").map(str::len)
    };
    text.lines()
        .any(|line| id(line).is_some_and(|chars| IDS.contains(&chars)))
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
            (format!("baton: so.\n\n[[handoff-note:{id}]]"), true),
            ("baton: so.\n\n[[handoff-note:]]".to_owned(), true),
            (format!("see [[handoff-note:{id}]]"), false),
            (format!("[[handoff-resume:{id}]]"), false),
        ] {
            assert_eq!(has_note(&text), found, "{text}");
        }
    }
}
