//! Markdown form of an export.

use serde_json::Value;

use super::work::{ConversationExport, ExportHead, ExportedPart, ExportedTurn};
use baton_core::handoffs::document::fence;
use baton_core::text::date::rfc3339_millis;

pub(super) fn document(document: &ConversationExport) -> String {
    let mut out = head(&document.head);
    if document.work.is_empty() {
        return out;
    }
    out.push_str(match document.head.handoff {
        Some(_) => "\n## Work since\n",
        None => "\n## The conversation\n",
    });
    for turn in &document.work {
        self::turn(turn, &mut out);
    }
    out
}

fn head(head: &ExportHead) -> String {
    let name = head.title.as_deref().filter(|title| !title.is_empty());
    let mut out = format!("# {}\n\n", name.unwrap_or("A conversation"));
    let mut about = vec![format!("conversation `{}`", head.conversation)];
    about.extend(head.model.as_ref().map(|model| format!("model `{model}`")));
    about.extend(head.wire.as_ref().map(|wire| format!("API `{wire}`")));
    about.extend(
        head.at_ms
            .map(|at| format!("last request {}", rfc3339_millis(at))),
    );
    out.push_str(&format!("{}\n", about.join(", ")));
    for note in &head.notes {
        out.push_str(&format!("\n> {note}\n"));
    }
    let Some(handoff) = &head.handoff else { return out };
    out.push_str(&format!("\n## Carry-over prompt\n\nhandoff `{}`", handoff.id));
    let made = handoff
        .created_ms
        .map(|at| format!(", made {}", rfc3339_millis(at)));
    let reason = handoff.reason.as_ref();
    let because = reason.map(|reason| format!(", because: {reason}"));
    out.extend(made.into_iter().chain(because));
    out.push_str(&format!("\n\n{}\n", handoff.prompt.trim()));
    out
}

fn turn(turn: &ExportedTurn, out: &mut String) {
    let speaker = match turn.role {
        "user" => "User",
        "tool" => "Tools",
        _ => "Assistant",
    };
    // A turn that only has results is described by their headings.
    let results = |part: &ExportedPart| matches!(part, ExportedPart::Result { .. });
    if !turn.parts.iter().all(results) {
        out.push_str(&format!("\n### {speaker}\n"));
    }
    for part in &turn.parts {
        self::part(part, out);
    }
}

fn part(part: &ExportedPart, out: &mut String) {
    match part {
        ExportedPart::Text { text } => out.push_str(&format!("\n{}\n", text.trim())),
        // Left out, because the work shows the result of the thinking.
        ExportedPart::Thinking { .. } => {}
        ExportedPart::Call { tool, arguments } => {
            let (kind, text) = match arguments {
                Value::String(text) => ("", text.clone()),
                other => ("json", other.to_string()),
            };
            out.push_str(&format!("\nCalls `{tool}`:\n\n{}", fenced(kind, &text)));
        }
        ExportedPart::Result {
            tool,
            text,
            failed,
            exit,
        } => {
            let of = tool
                .as_ref()
                .map(|tool| format!(" of `{tool}`"))
                .unwrap_or_default();
            let how = match (exit, failed) {
                (Some(code), _) => format!(" (exit code {code})"),
                (None, Some(true)) => " (failed)".to_owned(),
                _ => String::new(),
            };
            out.push_str(&format!("\n#### Result{of}{how}\n\n{}", fenced("", text)));
        }
        ExportedPart::Image => out.push_str("\n(an image)\n"),
        ExportedPart::Error { text } => {
            let text = fenced("", text);
            out.push_str(&format!("\nThe provider answered with an error:\n\n{text}"));
        }
    }
}

/// Fences a block so that nothing in the text can end it.
fn fenced(kind: &str, text: &str) -> String {
    let fence = fence(text);
    format!("{fence}{kind}\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_ends_its_block() {
        assert_eq!(fenced("json", "{}"), "```json\n{}\n```\n");
        assert_eq!(fenced("", "a\n````\nb\n"), "`````\na\n````\nb\n`````\n");
    }
}
