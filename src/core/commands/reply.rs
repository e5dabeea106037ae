//! The reply to a command: its message, and its changes.

use serde::{Deserialize, Serialize};

use crate::marker::note;
use crate::record::{HandoffId, RecordChange};

/// Reply to a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandReply {
    pub text: String,
    /// Handoff that the command undoes. The reply's note names it.
    pub note: Option<HandoffId>,
    /// Sentinel of the handoff that the model sees from now on.
    pub sentinel: Option<ReplySentinel>,
    /// Change to the conversation's record.
    pub change: Option<RecordChange>,
    pub undo: Option<UndoOutcome>,
    /// Handoff in force after an undo, or after its reversal.
    pub in_force: Option<HandoffId>,
}

/// Sentinel of a handoff at a reply's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplySentinel {
    pub handoff: HandoffId,
    pub text: String,
}

impl CommandReply {
    /// Creates a reply that changes nothing.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Creates a reply that reports a change to the conversation's record.
    pub(super) fn changing(change: RecordChange, text: impl Into<String>) -> Self {
        Self {
            change: Some(change),
            ..Self::new(text)
        }
    }

    /// Creates a reply that makes the model see this handoff from now on.
    pub fn of_handoff(text: &str, handoff: HandoffId, sentinel: String) -> Self {
        Self {
            sentinel: Some(ReplySentinel {
                handoff,
                text: sentinel,
            }),
            ..Self::new(text)
        }
    }

    /// Handoff that the model sees from now on.
    pub fn handoff(&self) -> Option<HandoffId> {
        self.sentinel.as_ref().map(|sentinel| sentinel.handoff)
    }

    /// Formats the reply for the agent.
    ///
    /// The note makes later requests drop the reply. The sentinel comes after the note, so it stays.
    pub fn shown(&self) -> String {
        let mut text = note::answer(&self.text, self.note.unwrap_or_default());
        if let Some(sentinel) = &self.sentinel {
            text.push_str("\n\n");
            text.push_str(sentinel.text.trim());
        }
        text
    }
}

named! {
    /// Outcome of an undo, whatever its origin.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum UndoOutcome {
        /// The model sees its earlier view again, and all later messages.
        Undone = "undone",
        /// An earlier undo was reversed.
        TakenBack = "taken_back",
        /// Nothing was changed.
        Refused = "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    use crate::marker::sentinel;

    #[test]
    fn a_sentinel_stands_after_the_note_that_takes_the_reply_out() {
        let handoff = Uuid::from_u128(9);
        let reply = CommandReply {
            sentinel: Some(ReplySentinel {
                handoff,
                text: format!("\n\n{}", sentinel::short(handoff, None)),
            }),
            ..CommandReply::new("done.")
        };
        let shown = reply.shown();
        let parts = [
            note::BEGINS,
            "done.",
            &note::line(Uuid::nil()),
            &sentinel::short(handoff, None),
        ];
        let places = parts.map(|part| shown.find(part));
        assert!(places.iter().all(Option::is_some), "{shown}");
        assert!(places.is_sorted(), "{shown}");
        assert!(!shown.contains("\n\n\n"), "{shown}");
    }
}
