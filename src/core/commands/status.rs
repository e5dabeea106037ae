//! Reply to the `status` command.

use uuid::Uuid;

use crate::record::HandoffId;
use crate::text::units::{brief, short};

/// Maximum number of repeated lookups that the status names.
const SHOWN_LOOKUPS: usize = 5;

/// State of a conversation.
#[derive(Debug, Default)]
pub struct Status {
    /// Estimated tokens of the conversation that the agent sends.
    pub tokens: u64,
    /// Whether the provider stores the history, so that its size is unknown.
    pub is_stored: bool,
    /// Estimated tokens of the system prompt and the tools, which every request includes.
    pub fixed_tokens: u64,
    /// Handoff that the model sees: its id, its subject, and the tokens of the conversation since.
    pub sees: Option<(HandoffId, String, u64)>,
    /// Reason why the model cannot hand over by itself, if it cannot.
    pub untooled: Option<&'static str>,
    pub pins: usize,
    /// Summary of the items that the active handoff carries.
    pub carried: Option<String>,
    /// Results that the model has looked up again since the handoff.
    pub again: Vec<String>,
    /// The session's budgets, as a sentence.
    pub budgets: Option<String>,
    /// Open draft, as its state in words and its id.
    pub draft: Option<(&'static str, Uuid)>,
}

impl Status {
    /// Formats the reply to the user.
    pub fn text(&self) -> String {
        let (all, fixed) = (short(self.tokens), short(self.fixed_tokens));
        let (sees, conversation) = match &self.sees {
            Some((id, about, sent)) => {
                let id = brief(*id);
                let sees = format!("the model sees the handoff {id}{about} and what came after it.");
                let sent_size = short(*sent);
                let sizes = match *sent <= self.tokens {
                    true => format!("{sent_size} of {all} tokens"),
                    // A prompt may be longer than its history.
                    false => format!("{sent_size} tokens with the prompt, the whole history {all}"),
                };
                (sees, sizes)
            }
            None => (
                "the model sees the whole history.".to_owned(),
                format!("{all} tokens"),
            ),
        };
        let conversation = match self.is_stored {
            true => "stored by the provider".to_owned(),
            false => conversation,
        };
        let sizes = format!("Conversation: {conversation}. System prompt and tools: {fixed}, always sent.");
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
        let carried = carried.map(|receipt| format!("\n- Your rules, and open to-dos: {receipt}."));
        let (carried, again) = (carried.unwrap_or_default(), self.looked_up_again());
        let draft = self.draft.map(|(state, id)| format!("\n- {state} ({id})."));
        let draft = draft.unwrap_or_default();
        let budgets = self.budgets.as_ref().map(|line| format!("\n- {line}"));
        let budgets = budgets.unwrap_or_default();
        format!("{sees}\n\n- {sizes}\n- {tool}\n- {pins}{budgets}{carried}{again}{draft}")
    }

    /// Formats a line with the first repeated lookups; empty if there are none.
    fn looked_up_again(&self) -> String {
        let more = match self.again.len().saturating_sub(SHOWN_LOOKUPS) {
            0 if self.again.is_empty() => return String::new(),
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = &self.again[..self.again.len().min(SHOWN_LOOKUPS)];
        format!("\n- Looked up again since: {}{more}.", first.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_line_for_what_there_is() {
        let none = Status {
            tokens: 9_800,
            fixed_tokens: 33_000,
            ..Status::default()
        };
        assert_eq!(
            none.text(),
            "the model sees the whole history.\n\n- Conversation: 9.8 k tokens. System prompt and tools: 33.0 k, always sent.\n\
             - It may hand over by itself.\n- Nothing is pinned."
        );
        let all = Status {
            sees: Some((Uuid::nil(), " (the exporter)".to_owned(), 2_100)),
            pins: 1,
            untooled: Some("off"),
            carried: Some("2 kept".to_owned()),
            again: (0..7).map(|n| n.to_string()).collect(),
            draft: Some(("A handoff is being written", Uuid::nil())),
            ..none
        };
        let lines = [
            "the handoff 00000000-0000 (the exporter) and what came after it.",
            "Conversation: 2.1 k of 9.8 k tokens. ",
            "here: off.",
            "One text is pinned.\n- Your rules, and open to-dos: 2 kept.",
            "\n- Looked up again since: 0, 1, 2, 3, 4 and 2 more.",
            "\n- A handoff is being written (00000000-",
        ];
        let longer = Status {
            tokens: 363,
            sees: Some((Uuid::nil(), String::new(), 699)),
            ..Status::default()
        };
        let stored = Status {
            is_stored: true,
            ..Status::default()
        };
        assert!(
            stored
                .text()
                .contains("Conversation: stored by the provider. System")
        );
        let sizes = "Conversation: 699 tokens with the prompt, the whole history 363. System";
        assert!(longer.text().contains(sizes), "{}", longer.text());
        let text = all.text();
        let places = lines.map(|line| text.find(line));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    }
}
