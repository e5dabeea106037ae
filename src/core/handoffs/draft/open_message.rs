//! Finds the person's message that the model has not answered yet.

use crate::agents::wordings::{self, UserText};
use crate::transcript::{Transcript, TranscriptPartKind};
use crate::wire::{Role, View};

/// The person's texts after the model's last turn: no later request shows them, so a handoff carries them. `tags`: of the
/// harness's own texts.
pub fn open_message(view: &View, tags: &[String]) -> String {
    let turns = Transcript::of(view).turns().rev();
    // A turn that is sent by its id alone is the model's, mostly.
    let open = turns.take_while(|turn| !matches!(turn.role, Role::Assistant | Role::Other));
    let mut texts = Vec::new();
    for turn in open.filter(|turn| turn.role == Role::User) {
        for part in turn.parts().iter().rev() {
            let TranscriptPartKind::Text(text) = part.kind else {
                continue;
            };
            let text = text.get();
            let own = wordings::after_harness(&text, tags);
            if !own.trim().is_empty() && wordings::user_text(own, tags) == UserText::Person {
                texts.push(own.trim().to_owned());
            }
        }
    }
    texts.reverse();
    texts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::WireId;
    use crate::wire::{Operation, wire};
    use serde_json::{Value, json};

    fn open(messages: Value) -> String {
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        let wire = wire(WireId::Anthropic);
        let view = wire.read(&body.into(), Operation::Generate).unwrap();
        open_message(&view, &["<system-reminder>".to_owned()])
    }

    fn text(role: &str, text: &str) -> Value {
        json!({"role": role, "content": [{"type": "text", "text": text}]})
    }

    #[test]
    fn only_what_the_model_has_not_answered_is_open() {
        let answered = [text("user", "Mend it."), text("assistant", "Done.")];
        assert_eq!(open(json!(answered)), "");
        let asks = [&answered[..], &[text("user", " And the docs? ")]].concat();
        assert_eq!(open(json!(asks)), "And the docs?");
        assert_eq!(open(json!([text("user", "Mend it.")])), "Mend it.");
    }

    #[test]
    fn several_texts_keep_their_order_and_results_are_no_texts() {
        let messages = json!([
            text("user", "Mend it."),
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "run", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
                {"type": "text", "text": "First."},
                {"type": "text", "text": "Second."},
            ]},
        ]);
        assert_eq!(open(messages), "First.\n\nSecond.");
    }

    #[test]
    fn texts_of_the_harness_are_not_the_persons() {
        let reminder = "<system-reminder>\nBe brief.\n</system-reminder>";
        assert_eq!(open(json!([text("user", reminder)])), "");
        assert_eq!(
            open(json!([text("user", &format!("{reminder}\nGo on."))])),
            "Go on."
        );
    }
}
