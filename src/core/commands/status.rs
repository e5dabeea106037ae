//! What `status` shows.

use uuid::Uuid;

use crate::record::HandoffId;

/// Things that were looked up again, as many as the status names.
const SHOWN_LOOKUPS: usize = 5;

/// What is known of a conversation.
#[derive(Debug, Default)]
pub struct Status {
    /// The tokens that the agent sends, about.
    pub tokens: u64,
    /// The handoff that the model sees, what it is about, and the tokens of its view.
    pub sees: Option<(HandoffId, String, u64)>,
    /// Why the model cannot hand over by itself.
    pub untooled: Option<&'static str>,
    pub pins: usize,
    /// What the active handoff carried.
    pub carried: Option<String>,
    /// What was looked up again since.
    pub again: Vec<String>,
    /// The open draft: how far it is, and its id.
    pub draft: Option<(&'static str, Uuid)>,
}

impl Status {
    /// The reply to the person.
    pub fn text(&self) -> String {
        let tokens = self.tokens;
        let sees = match &self.sees {
            Some((id, about, sent)) => format!(
                "the model sees the handoff {id}{about} and what came after it, about {sent} tokens of the {tokens} that the \
                 agent sends."
            ),
            None => format!("the model sees the whole history, about {tokens} tokens."),
        };
        let tool = match self.untooled {
            None => "It may hand over by itself.".to_owned(),
            Some(why) => format!("It cannot hand over by itself here: {why}."),
        };
        let pins = match self.pins {
            0 => "Nothing is pinned.".to_owned(),
            1 => "One text is pinned.".to_owned(),
            many => format!("{many} texts are pinned."),
        };
        let carried = self.carried.as_ref();
        let carried = carried.map(|receipt| format!("\n    Your rules, and open to-dos: {receipt}."));
        let (carried, again) = (carried.unwrap_or_default(), self.looked_up_again());
        let draft = self.draft.map(|(state, id)| format!("\n    {state} ({id})."));
        let draft = draft.unwrap_or_default();
        format!("{sees}\n\n    {tool}\n    {pins}{carried}{again}{draft}")
    }

    /// A line with the first things that were looked up again; nothing where there are none.
    fn looked_up_again(&self) -> String {
        let more = match self.again.len().saturating_sub(SHOWN_LOOKUPS) {
            0 if self.again.is_empty() => return String::new(),
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = &self.again[..self.again.len().min(SHOWN_LOOKUPS)];
        format!("\n    Looked up again since: {}{more}.", first.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_line_for_what_there_is() {
        let none = Status {
            tokens: 9,
            ..Status::default()
        };
        assert_eq!(
            none.text(),
            "the model sees the whole history, about 9 tokens.\n\n    It may hand over by itself.\n    Nothing is pinned."
        );
        let all = Status {
            pins: 1,
            untooled: Some("off"),
            carried: Some("2 kept".to_owned()),
            again: (0..7).map(|n| n.to_string()).collect(),
            draft: Some(("A handoff is being written", Uuid::nil())),
            ..none
        };
        let lines = [
            "here: off.",
            "One text is pinned.\n    Your rules, and open to-dos: 2 kept.",
            "\n    Looked up again since: 0, 1, 2, 3, 4 and 2 more.",
            "\n    A handoff is being written (00000000-",
        ];
        let text = all.text();
        let places = lines.map(|line| text.find(line));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    }
}
