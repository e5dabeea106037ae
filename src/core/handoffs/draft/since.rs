//! Completes a draft that was written ahead with verbatim quotes of the later part of the transcript.

use std::fmt::Write;

use crate::transcript::{Transcript, TranscriptPart, TranscriptPartKind};
use crate::wire::{Role, View};

/// Maximum size of the later part in bytes; beyond it, a new draft is better.
const MOST_BYTES: usize = 24 << 10;

/// The document followed by quotes of the turns from index `from`; `None` if they are too large.
///
/// The user's text after the model's last turn is not quoted, because it is still unanswered.
pub fn completed_since(document: &str, view: &View, from: usize) -> Option<String> {
    let transcript = Transcript::from_view(view);
    let last = view.turns.iter().rposition(|turn| turn.role.may_be_models());
    let mut text = document.trim_end().to_owned();
    let begins = text.len();
    for at in from..transcript.len() {
        let Some(turn) = transcript.turn(at) else { break };
        // The user's unanswered text is carried separately, as the open message.
        let is_open = last.is_none_or(|last| at > last) && turn.role == Role::User;
        let mut speaks = false;
        for part in turn.parts() {
            let is_text = matches!(part.kind, TranscriptPartKind::Text(_));
            if !(is_text && is_open) {
                quote(&mut text, &part, (!speaks).then_some(turn.role));
            }
            speaks = is_text;
            if text.len() - begins > MOST_BYTES {
                return None;
            }
        }
    }
    if text.len() > begins {
        text.insert_str(begins, "\n\n## Since this was written");
    }
    Some(text.trim_end().to_owned())
}

/// Appends a part, without thinking and pictures. `speaker` is set if a new speaker's text begins here.
fn quote(text: &mut String, part: &TranscriptPart<'_>, speaker: Option<Role>) {
    // Writing into memory cannot fail.
    let _ = match part.kind {
        TranscriptPartKind::Text(words) => match speaker {
            _ if words.get().trim().is_empty() => Ok(()),
            Some(role) if role.may_be_models() => {
                write!(text, "\n\nYou wrote:\n\n{}", words.get().trim_start())
            }
            Some(_) => write!(text, "\n\nThe user wrote:\n\n{}", words.get().trim_start()),
            None => write!(text, "{}", words.get()),
        },
        TranscriptPartKind::Call(call) => {
            write!(text, "\n\nYou called {} with {}", call.named(), call.given())
        }
        TranscriptPartKind::Result(_) => {
            write!(text, "\n\nIt returned:\n\n{}", part.text().trim())
        }
        _ => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::record::WireId;
    use crate::wire::{Operation, wire};

    fn completed(messages: Value, from: usize) -> Option<String> {
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        let view = wire(WireId::Anthropic)
            .read(&body.into(), Operation::Generate)
            .unwrap();
        completed_since("# Work\n", &view, from)
    }

    fn text(role: &str, text: &str) -> Value {
        json!({"role": role, "content": [{"type": "text", "text": text}]})
    }

    #[test]
    fn what_came_since_is_quoted_and_the_open_message_is_not() {
        let call = json!({"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "cargo test"}});
        let messages = json!([
            text("user", "Mend it."),
            {"role": "assistant", "content": [{"type": "text", "text": " Done, but"}, {"type": "text", "text": " for one."}]},
            text("user", "Which?"),
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, call]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "1 failed"},
                {"type": "text", "text": "And now?"},
            ]},
        ]);
        let since = completed(messages.clone(), 1).unwrap();
        assert_eq!(
            since,
            "# Work\n\n## Since this was written\n\nYou wrote:\n\nDone, but for one.\n\nThe user wrote:\n\nWhich?\n\nYou called run with \
             {\"command\":\"cargo test\"}\n\nIt returned:\n\n1 failed"
        );
        assert_eq!(completed(messages, 5).unwrap(), "# Work");
    }

    #[test]
    fn too_much_is_refused() {
        let long = text("assistant", &"x".repeat(MOST_BYTES + 1));
        assert_eq!(
            completed(json!([text("user", "a"), long, text("user", "b")]), 1),
            None
        );
    }
}
