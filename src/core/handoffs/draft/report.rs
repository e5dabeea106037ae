//! The report of a handoff to a user.

use super::DraftEnd;
use crate::record::HandoffOrigin;
use crate::text::units::short;

/// Reciprocal of the minimum share of the conversation in the request: with less, a handoff frees little.
const LEAST_SHARE: u64 = 20;

/// Tells a user that a handoff was made.
///
/// `tokens` has the estimated size of the conversation before and after the cut. `prefix` is that of chat
/// commands, and is empty if they are off.
pub fn handoff_report(origin: HandoffOrigin, tokens: [u64; 2], prefix: &str) -> String {
    let undo = match prefix {
        "" => "To undo it, go back in your agent to before this answer.".to_owned(),
        prefix => format!("To undo it: `{prefix}handoff undo`."),
    };
    let ([before, after], how) = (tokens.map(short), how(origin));
    format!("handed over ({how}), conversation: {before} tokens before, {after} now. {undo}")
}

/// Tells a user, before anything is drafted, that a handoff would free almost nothing; `None` if it frees more.
///
/// `conversation` and `fixed` are the estimated tokens of the conversation, and of the system prompt with the tools.
pub fn frees_little(conversation: u64, fixed: u64, prefix: &str) -> Option<String> {
    let whole = conversation.saturating_add(fixed);
    (conversation.saturating_mul(LEAST_SHARE) < whole).then(|| {
        format!(
            "no handoff was made: it would free less than {} % of the context. Conversation: {} tokens. System prompt and tools: {}, \
             always sent. `{prefix}handoff --force` makes it.",
            100 / LEAST_SHARE,
            short(conversation),
            short(fixed)
        )
    })
}

/// Tells a user who requested a handoff why none was made.
pub fn not_made(end: &DraftEnd, prefix: &str) -> String {
    let again = match end {
        DraftEnd::NotSmaller { .. } => format!(" (`{prefix}handoff --force`)"),
        _ => String::new(),
    };
    format!("no handoff was made: {end}{again}.")
}

/// Tells a user that a draft waits for approval.
pub fn waits_for_approval(prefix: &str) -> String {
    format!(
        "the draft waits for your approval: {}.",
        approval_commands(prefix)
    )
}

/// Tells a user who continues without approving that the draft still waits.
pub fn still_waits(prefix: &str) -> String {
    let commands = approval_commands(prefix);
    format!("a draft of a handoff waits for your approval: {commands}. Until then nothing changes.")
}

/// How a user approves or rejects a draft.
fn approval_commands(prefix: &str) -> String {
    match prefix {
        "" => "on the inspector's page of the conversation".to_owned(),
        prefix => {
            format!("`{prefix}handoff accept`, `{prefix}handoff edit TEXT` or `{prefix}handoff reject`")
        }
    }
}

/// How a handoff was made.
fn how(origin: HandoffOrigin) -> &'static str {
    match origin {
        HandoffOrigin::Model => "by the model",
        HandoffOrigin::Oneshot => "written by the model",
        HandoffOrigin::Bundle => "written from a selection",
        HandoffOrigin::Local => "composed without a model",
        HandoffOrigin::User => "as given",
        HandoffOrigin::Auto => "by a threshold",
        HandoffOrigin::Api => "by the API",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::assert_contains;

    #[test]
    fn a_report_names_sizes_origin_and_the_way_back_that_exists() {
        assert_eq!(
            handoff_report(HandoffOrigin::Auto, [98_000, 2_100], "::"),
            "handed over (by a threshold), conversation: 98.0 k tokens before, 2.1 k now. To undo it: `::handoff undo`."
        );
        let without = handoff_report(HandoffOrigin::Auto, [98_000, 2_100], "");
        assert!(without.ends_with("To undo it, go back in your agent to before this answer."));
    }

    #[test]
    fn a_handoff_of_a_short_conversation_frees_little() {
        assert_eq!(frees_little(2_000, 33_000, "::"), None);
        let text = frees_little(1_200, 33_000, "::").unwrap();
        assert_contains(&text, "less than 5 %");
        assert_contains(&text, "`::handoff --force`");
    }

    #[test]
    fn a_draft_is_approved_in_the_chat_where_there_are_commands() {
        assert_eq!(
            approval_commands("/b "),
            "`/b handoff accept`, `/b handoff edit TEXT` or `/b handoff reject`"
        );
        assert!(!approval_commands("").contains("accept"));
    }
}
