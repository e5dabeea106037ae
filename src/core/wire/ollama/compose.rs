//! Synthetic chat responses, complete or as the lines of a stream; messages that ask the model again.

use bytes::Bytes;

use super::answer::{LineMembers, OllamaMessage};
use super::pairs;
use crate::record::HiddenPair;
use crate::text::date::rfc3339;
use crate::text::json;
use crate::tools::ToolNames;
use crate::wire::{AnswerShape, Framing, LegOutput, StreamOpening, SyntheticResponse, View};

pub(super) fn compose(_: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes {
    let line = |text: &str, rest: &str| line(answer, text, rest);
    let end = format!(
        r#""done":true,"done_reason":"stop","total_duration":1,"load_duration":1,"prompt_eval_count":{},"prompt_eval_duration":1,"eval_count":{},"eval_duration":1"#,
        answer.input(),
        answer.output()
    );
    let text = json::quote(answer.text);
    match shape {
        AnswerShape::Whole => line(&text, &end).into(),
        AnswerShape::Stream(_) => {
            format!("{}\n{}\n", line(&text, r#""done":false"#), line(r#""""#, &end)).into()
        }
    }
}

pub(super) fn stream_opening(_: &View, answer: &SyntheticResponse<'_>, _: Framing) -> StreamOpening {
    let line = line(answer, r#""""#, r#""done":false"#);
    StreamOpening::shown(format!("{line}\n"))
}

fn line(answer: &SyntheticResponse<'_>, text: &str, rest: &str) -> String {
    let (model, at) = (json::quote(answer.model), rfc3339(answer.seconds()));
    format!(
        r#"{{"model":{model},"created_at":"{at}","message":{{"role":"assistant","content":{text}}},{rest}}}"#
    )
}

/// Builds the model's message, unchanged, followed by the results of its calls.
pub(super) fn ask_again(spoken: &LegOutput, pairs: &[HiddenPair], ours_are: ToolNames) -> Option<String> {
    let mut message = OllamaMessage::default();
    let mut ours = pairs.iter();
    for text in &spoken.pieces() {
        let Some(line) = LineMembers::read(text) else {
            continue;
        };
        message
            .content
            .push_str(&json::string_or_empty(text, line.content));
        message
            .thinking
            .push_str(&json::string_or_empty(text, line.thinking));
        message
            .calls
            .extend(line.calls(text).into_iter().filter_map(|call| {
                let name = call.name.map(|name| json::unescape(name.of(text)));
                if !name.is_some_and(|name| ours_are.has(&name)) {
                    return Some(call.span.text(text));
                }
                // In the same form as on every later request. Further calls of baton's tools are omitted.
                ours.next().map(|p| p.call.clone())
            }));
    }
    let results: Vec<_> = pairs.iter().map(pairs::result).collect();
    Some(format!("{{{}}},{}", message.members(), results.join(",")))
}
