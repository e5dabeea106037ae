//! The report of a handoff to a person.

use crate::record::{HandoffId, HandoffOrigin};

/// A handoff and what it changed.
pub struct HandoffReport {
    pub id: HandoffId,
    pub origin: HandoffOrigin,
    /// The size of the request before its cut, as a person reads it.
    pub before: String,
    /// The size of the next request.
    pub after: String,
}

impl HandoffReport {
    /// The text for a person. `prefix`: of chat commands; empty where there are none.
    pub fn text(&self, prefix: &str) -> String {
        let undo = match prefix {
            "" => "To undo it, go back in your agent to before this answer.".to_owned(),
            prefix => format!("To undo it: `{prefix}handoff undo`."),
        };
        format!(
            "handed over ({}), {} before, {} now, {}. {undo}",
            how(self.origin),
            self.before,
            self.after,
            self.id
        )
    }
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
        let report = HandoffReport {
            id: HandoffId::from_u128(7),
            origin: HandoffOrigin::Auto,
            before: "1.5 MiB".to_owned(),
            after: "1023 B".to_owned(),
        };
        assert_eq!(
            report.text("::"),
            "handed over (by a threshold), 1.5 MiB before, 1023 B now, 00000000-0000-0000-0000-000000000007. To undo it: \
             `::handoff undo`."
        );
        assert!(
            report
                .text("")
                .ends_with("To undo it, go back in your agent to before this answer.")
        );
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
