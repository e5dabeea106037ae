//! User-role messages that are not the user's request, as agents word them: `wordings.toml`.
//!
//! These are summaries, earlier carry-over prompts, output of commands that the user ran, and notes of the
//! harness. Each is recognized by the start of its text.

use std::sync::LazyLock;

use serde::Deserialize;

use super::user_shell;
use crate::text::phrases::Beginnings;
use crate::text::table;

/// Kind of a user-role message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserText {
    /// The user's own words.
    User,
    /// A summary of the preceding messages, or a carry-over prompt.
    Summary,
    /// A summary of a branch that was left.
    Branch,
    /// A command that the user ran, or its output.
    UserShell,
    /// Findings of another agent for this one.
    Subagent,
    /// A notice that the user stopped the model.
    Interrupted,
    /// The text of a skill or of a custom command.
    Expansion,
    /// A file, a result or other context that the agent put next to the user's words.
    Attached,
    /// Any other message of the harness.
    Harness,
}

/// Opening tag of the user's pins, which come before a carry-over prompt.
pub const PINNED_BEGINS: &str = "<pinned>\n";
/// Closing tag of the user's pins.
pub const PINNED_ENDS: &str = "</pinned>\n\n";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct BeginningRow {
    kind: UserText,
    texts: Beginnings,
}

static BEGINNINGS: LazyLock<Vec<BeginningRow>> = LazyLock::new(|| table::rows(include_str!("wordings.toml")));

/// Tags of baton's notices.
const NOTICES: [&str; 3] = ["context-notice", "budget-notice", "since-handoff"];

/// Complete messages of a harness after a result (Claude Code, once it has loaded a tool that was requested).
const WHOLE: [&str; 2] = ["Tool loaded.", "Tools loaded."];

/// Question that an agent inserts so that its own summary can follow as the answer (OpenCode).
const SUMMARY_REQUEST: &str = "What did we do so far?";

/// Beginning of the model message that marks the user message before it as a summary (goose).
const FOLLOWS_SUMMARY: [&str; 2] = [
    "Your context was compacted. The previous message",
    "Part of your context was compacted.",
];

/// Whether the user message before this model message is a summary.
pub fn follows_summary(text: &str) -> bool {
    let text = text.trim_start();
    FOLLOWS_SUMMARY.iter().any(|begins| text.starts_with(begins))
}

/// First line of messages that an agent moves from request to request (goose 1.34).
pub const MOVED: &str = "<info-msg>";

/// Message that an agent inserts for a model's response that broke off and is not kept.
///
/// Gemini CLI 0.61 does so after tool results.
const ANSWER_PLACEHOLDER: &str = "[The previous response was interrupted before it completed.]";

/// Text before the user's words at the end of a request for a title (Codex 0.169).
const BEFORE_QUOTED: &str = "\n\nUser prompt:\n";

/// The user's words at the end of a request for a title.
pub fn quoted_at_end(text: &str) -> Option<&str> {
    text.split_once(BEFORE_QUOTED).map(|(_, quoted)| quoted)
}

/// Whether a model message is the placeholder for a response that the agent did not keep.
pub fn is_answer_placeholder(text: &str) -> bool {
    text.trim() == ANSWER_PLACEHOLDER
}

/// Kind of a user-role message, by its beginning. `tags` are further beginnings of a harness's messages.
pub(super) fn user_text(text: &str, tags: &[String]) -> UserText {
    let text = text.trim_start();
    let begins = |row: &&BeginningRow| row.texts.begin(text);
    match BEGINNINGS.iter().find(begins) {
        Some(row) => row.kind,
        None if user_shell::read(text, false).is_some() => UserText::UserShell,
        None if asks_for_summary(text) || WHOLE.contains(&text.trim_end()) => UserText::Harness,
        None if tags
            .iter()
            .any(|tag| !tag.is_empty() && text.starts_with(tag.as_str())) =>
        {
            UserText::Harness
        }
        None => UserText::User,
    }
}

/// A summary without the agent's line before it.
pub fn without_summary_beginning(text: &str) -> &str {
    match text.split_once('\n') {
        Some((first, rest)) if user_text(first, &[]) == UserText::Summary => rest,
        _ => text,
    }
}

/// Whether the response to this message is a summary.
pub fn asks_for_summary(text: &str) -> bool {
    text.trim() == SUMMARY_REQUEST
}

/// Removes the harness's blocks after a result: `<system-reminder>` of Claude Code, and baton's notices.
pub fn before_reminders(result: &str) -> &str {
    before_blocks(result, &["system-reminder", NOTICES[0], NOTICES[1], NOTICES[2]])
}

/// Removes baton's notices after the user's words. They are part of the same string if a message is one
/// string.
pub fn before_notices(text: &str) -> &str {
    before_blocks(text, &NOTICES)
}

/// Removes the user's pins, which every handoff carries before its prompt.
pub fn after_pins(text: &str) -> &str {
    let pinned = text.strip_prefix(PINNED_BEGINS);
    let after = pinned.and_then(|inside| inside.split_once(PINNED_ENDS));
    after.map_or(text, |(_, after)| after.trim_start())
}

/// Returns the text before the blocks with these tags at its end.
fn before_blocks<'a>(text: &'a str, tags: &[&str]) -> &'a str {
    let mut rest = text;
    // Several blocks may follow each other, in any order.
    'blocks: loop {
        for tag in tags {
            let inside = rest.trim_end().strip_suffix('>');
            let inside = inside.and_then(|rest| rest.strip_suffix(tag)?.strip_suffix("</"));
            let begins = inside
                .and_then(|inside| memchr::memmem::rfind(inside.as_bytes(), format!("<{tag}>").as_bytes()));
            if let Some(at) = begins {
                rest = text[..at].trim_end();
                continue 'blocks;
            }
        }
        return rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handoffs::yaml::Drift;

    #[test]
    fn a_result_ends_before_what_the_harness_adds() {
        let one = "<system-reminder>\nx\n</system-reminder>";
        assert_eq!(before_reminders(&format!("a\nb\n\n{one}\n\n{one}\n")), "a\nb");
        assert_eq!(before_reminders(one), "");
        let quoted = format!("{one}\nand more");
        assert_eq!(before_reminders(&quoted), quoted);
        assert_eq!(before_reminders("</system-reminder>"), "</system-reminder>");
        let notice = "<context-notice>\nAt 50%.\n</context-notice>";
        assert_eq!(before_reminders(&format!("a\n\n{one}\n\n{notice}")), "a");
        assert_eq!(
            before_notices(&format!("Port it.\n\n{notice}\n\n{notice}")),
            "Port it."
        );
        assert_eq!(
            before_notices(&format!("{notice}\nand more ")),
            format!("{notice}\nand more ")
        );
        assert_eq!(
            before_notices(&format!("Port it.\n{one}")),
            format!("Port it.\n{one}")
        );
    }

    #[test]
    fn what_has_changed_since_a_handoff_is_not_the_users() {
        let notice = Drift::default().for_the_model();
        assert_eq!(user_text(&notice, &[]), UserText::Harness);
        assert_eq!(before_notices(&format!("Port it.\n\n{notice}")), "Port it.");
    }

    #[test]
    fn a_placeholder_is_the_whole_text() {
        let text = "[The previous response was interrupted before it completed.]";
        assert!(is_answer_placeholder(text) && is_answer_placeholder(&format!("{text}\n")));
        assert!(!is_answer_placeholder(&format!("It said {text}")));
    }

    #[test]
    fn texts_that_are_not_the_users_are_recognised() {
        let tags = ["<mine>".to_owned()];
        for (text, kind) in [
            ("Port the importer.", UserText::User),
            ("\n<system-reminder>x", UserText::Harness),
            ("<mine>x</mine>", UserText::Harness),
            (
                "This session is being continued from a previous conversation that ran out of context.",
                UserText::Summary,
            ),
            (
                "[Request interrupted by user for tool use]",
                UserText::Interrupted,
            ),
            ("<bash-input>ls</bash-input>", UserText::UserShell),
            ("Ran `cargo test` and it fails.", UserText::User),
            ("What did we do so far?", UserText::Harness),
            ("Tool loaded.", UserText::Harness),
            ("Tool loaded. What next?", UserText::User),
        ] {
            assert_eq!(user_text(text, &tags), kind, "{text}");
        }
    }
}
