//! Synthetic chat responses, complete or as the lines of a stream.

use bytes::Bytes;

use crate::text::date::rfc3339;
use crate::text::json;
use crate::wire::{AnswerShape, Framing, StreamOpening, SyntheticResponse, View};

pub(super) fn compose(_view: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes {
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

pub(super) fn stream_opening(
    _view: &View,
    answer: &SyntheticResponse<'_>,
    _framing: Framing,
) -> StreamOpening {
    let line = line(answer, r#""""#, r#""done":false"#);
    StreamOpening::shown(format!("{line}\n"))
}

fn line(answer: &SyntheticResponse<'_>, text: &str, rest: &str) -> String {
    format!(
        r#"{{"model":{},"created_at":"{}","message":{{"role":"assistant","content":{text}}},{rest}}}"#,
        json::quote(answer.model),
        rfc3339(answer.seconds())
    )
}
