//! Cut point of a request whose sentinel is not in its transcript, and the consequences of a cut.

use std::sync::Arc;

use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{PROMPT, Stage, an_id, calls, changed, claude, model, result, sent, user};
use crate::exchange::{resumed, send, value::Exchange};
use crate::state::config::TranscriptDetail;
use baton_core::marker::sentinel;
use baton_core::plan::Unresolved;
use baton_core::record::Handoff;

const BEFORE: &str = "Mend the importer.";

/// A transcript that shows the handoff, and continues with these messages.
fn after(handoff: &Handoff, more: &[Value]) -> Vec<Value> {
    let shown = sentinel::short(handoff.id, None);
    [&[user(BEFORE), model(&shown), user("Go on.")], more].concat()
}

fn short_sentinels() -> Stage {
    Stage::with(|config| config.handoff.transcript = TranscriptDetail::Sentinel)
}

#[tokio::test]
async fn an_answer_that_was_left_out_cuts_in_front_of_what_follows_its_request() {
    let stage = Stage::new();
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let offered = stage
        .request(claude(&[user(BEFORE), user("And the docs.")]))
        .offered()
        .await;
    assert_eq!(
        (offered.active_id(), offered.pin.kept_from()),
        (Some(handoff.id), 1)
    );
    let view = offered.view();
    assert_eq!(
        offered.plan(&stage.app).cut_part(false).end,
        view.turns[1].span.start
    );
    let messages = json!(sent(&stage, &offered).messages).to_string();
    assert!(
        messages.contains(PROMPT) && messages.contains("And the docs."),
        "{messages}"
    );
    assert!(!messages.contains(BEFORE), "{messages}");
    // A rewind to another text does not continue the handoff.
    let rewound = stage.request(claude(&[user("Mend the exporter."), user("And the docs.")]));
    assert_eq!(rewound.offered().await.active_id(), None);
}

#[tokio::test]
async fn a_cut_ends_at_the_sentinel_and_keeps_what_follows_its_turn() {
    let stage = short_sentinels();
    let uncut = stage.request(claude(&[user(BEFORE)])).offered().await;
    assert_eq!(uncut.pin.kept_from(), 0);
    assert_eq!(
        uncut.plan(&stage.app).cut_part(false).end,
        uncut.view().list.start
    );
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let offered = stage.request(claude(&after(&handoff, &[]))).offered().await;
    let at = offered.text();
    let at = String::from_utf8_lossy(at).find("[[handoff-resume:").unwrap();
    assert_eq!(
        (
            offered.pin.kept_from(),
            offered.plan(&stage.app).cut_part(false).end
        ),
        (2, at)
    );
}

fn thought(id: &str) -> Value {
    json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"},
        {"type": "tool_use", "id": id, "name": "run", "input": {}},
    ]})
}

fn body(exchange: &Exchange) -> String {
    let rope = exchange.plan().first(true).rope;
    String::from_utf8(rope.concat()).unwrap()
}

#[tokio::test]
async fn refused_thinking_is_left_out_of_the_stretch_and_of_no_later_step() {
    let stage = short_sentinels();
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let step = [thought("t1"), result("t1")];
    let mut refused = stage.request(claude(&after(&handoff, &step))).exchange().await;
    let first = refused.offered.plan(&stage.app).first(true);
    assert!(body(&refused).contains("Let me see."));
    let retry = refused
        .plan()
        .without_thinking(&first, None)
        .expect("a request without it");
    send::prepare(&mut refused, &retry);
    let again = String::from_utf8(retry.request.rope.concat()).unwrap();
    assert!(!again.contains("Let me see.") && again.contains("t1"), "{again}");
    send::remember_omission(&refused).await;
    // The model's later thinking is valid.
    let later = [&step[..], &[thought("t2"), result("t2")]].concat();
    let later = stage.request(claude(&after(&handoff, &later))).exchange().await;
    assert_eq!(body(&later).matches("Let me see.").count(), 1);
}

#[tokio::test]
async fn without_thinking_after_the_cut_there_is_no_second_try() {
    let stage = short_sentinels();
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let step = [calls("t1"), result("t1")];
    let refused = stage.request(claude(&after(&handoff, &step))).exchange().await;
    let first = refused.plan().first(true);
    assert!(refused.plan().without_thinking(&first, None).is_none());
}

async fn text_of(response: http::Response<crate::proxy::response_body::ResponseBody>) -> String {
    let body = response.into_body().collect().await;
    let body = body.unwrap_or_else(|_| panic!("no body")).to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn an_unknown_line_is_answered_in_the_form_of_the_request() {
    let stage = Stage::new();
    for (why, words) in [
        (Unresolved::Unknown, "is not known here"),
        (Unresolved::Ambiguous, "more than one handoff"),
    ] {
        for (stream, kind) in [
            (false, "application/json"),
            (true, "text/event-stream; charset=utf-8"),
        ] {
            let body = changed(claude(&[user("Go on.")]), json!({"stream": stream}));
            let exchange = stage.request(body).exchange().await;
            let response = exchange.unresolved_handoff(why).await;
            assert_eq!(response.headers()["content-type"], kind);
            assert_eq!(response.headers()["cache-control"], "no-cache");
            let text = text_of(response).await;
            assert!(text.contains(words), "{text}");
        }
    }
}

#[tokio::test]
async fn what_moved_since_is_put_after_the_next_request_of_its_handoff_once() {
    let stage = short_sentinels();
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let mut exchange = stage.request(claude(&after(&handoff, &[]))).exchange().await;
    let live = Arc::clone(exchange.offered.live.as_ref().unwrap());
    live.set_notice(an_id(5), "Of another handoff.".to_owned());
    assert!(resumed::is_resumed(&exchange.offered));
    resumed::notify(&mut exchange).await;
    assert!(exchange.offered.places.insertions.is_empty() && live.has_notice());
    live.set_notice(handoff.id, "parse.rs has moved.".to_owned());
    resumed::notify(&mut exchange).await;
    assert!(body(&exchange).contains("parse.rs has moved."));
    assert!(!resumed::is_resumed(&exchange.offered));
}
