//! The report of a handoff to a person.

use super::DraftEnd;
use crate::record::{HandoffId, HandoffOrigin};

/// Tells a person that a handoff was made. `sizes`: of the request before its cut, and of the next one. `prefix`: of chat
/// commands; empty where there are none.
pub fn handoff_report(id: HandoffId, origin: HandoffOrigin, sizes: &[String; 2], prefix: &str) -> String {
    let undo = match prefix {
        "" => "To undo it, go back in your agent to before this answer.".to_owned(),
        prefix => format!("To undo it: `{prefix}handoff undo`."),
    };
    let ([before, after], how) = (sizes, how(origin));
    format!("handed over ({how}), {before} before, {after} now, {id}. {undo}")
}

/// Tells a person who asked for a handoff why none was made.
pub fn not_made(end: &DraftEnd, prefix: &str) -> String {
    let again = match end {
        DraftEnd::NotSmaller { .. } => format!(" (`{prefix}handoff --force`)"),
        _ => String::new(),
    };
    format!("no handoff was made: {end}{again}.")
}

/// Tells a person that a draft waits.
pub fn waits_for_approval(prefix: &str) -> String {
    format!(
        "the draft waits for your approval: {}.",
        approval_commands(prefix)
    )
}

/// The same to a person who continues without it.
pub fn still_waits(prefix: &str) -> String {
    let commands = approval_commands(prefix);
    format!("a draft of a handoff waits for your approval: {commands}. Until then nothing changes.")
}

/// How a person approves or rejects a draft.
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
        HandoffOrigin::Person => "as given",
        HandoffOrigin::Auto => "by a threshold",
        HandoffOrigin::Api => "by the API",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_sizes_origin_and_the_way_back_that_exists() {
        let id = HandoffId::from_u128(7);
        let sizes = ["1.5 MiB".to_owned(), "1023 B".to_owned()];
        assert_eq!(
            handoff_report(id, HandoffOrigin::Auto, &sizes, "::"),
            "handed over (by a threshold), 1.5 MiB before, 1023 B now, 00000000-0000-0000-0000-000000000007. To undo it: \
             `::handoff undo`."
        );
        let without = handoff_report(id, HandoffOrigin::Auto, &sizes, "");
        assert!(without.ends_with("To undo it, go back in your agent to before this answer."));
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
