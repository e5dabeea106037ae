//! Cut point of a request whose sentinel is not in its transcript, and the consequences of a cut.

use std::sync::Arc;

use serde_json::Value;

use super::{Stage, an_id, claude, model, user};
use crate::exchange::{resumed, value::Exchange};
use crate::state::config::TranscriptDetail;
use baton_core::marker::sentinel;
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

fn body(exchange: &Exchange) -> String {
    let rope = exchange.plan().first(true).rope;
    String::from_utf8(rope.concat()).unwrap()
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
