//! Records that an exchange writes, and their effect on the next request.

use std::time::Duration;

use tokio::runtime::Handle;

use super::{PROMPT, Stage, claude, model, user};
use crate::exchange::answer::EffectResult;
use crate::exchange::record_writer;
use crate::exchange::value::Exchange;
use crate::state::config::HandoffMode;
use baton_core::plan::NewHandoff;
use baton_core::record::{HandoffOrigin, ResponseOrigin};
use baton_core::response::{LegEvent, ResponseEffect};

const SECOND: Duration = Duration::from_secs(1);

/// Maximum time for which an end may be unread.
const UNREAD: Duration = Duration::from_secs(10);

/// Advances time.
async fn passes(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    // Lets the tasks run that waited for it.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handoff_is_stored_counted_and_active_when_its_sentinel_may_be_shown() {
    let stage = Stage::new();
    let exchange = stage.request(claude(&[user("Mend it.")])).exchange().await;
    let reason = Some("full".to_owned());
    let handoff =
        record_writer::write_handoff(&exchange, NewHandoff::of_model(PROMPT.to_owned(), reason, None))
            .await
            .unwrap();
    let stored = stage
        .app
        .sessions
        .handoff("local", handoff.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (&*stored.prompt, stored.reason.as_deref()),
        (PROMPT, Some("full"))
    );
    assert_eq!(
        (stored.origin, stored.model.as_deref()),
        (HandoffOrigin::Model, Some("claude-opus-4-8"))
    );
    assert!(stored.head.contains("Go on with the importer"), "{}", stored.head);
    assert_eq!(exchange.answer.fired().clone(), [handoff.id]);
    let fired = exchange.ctx.recorder.read(|e| e.fired.clone());
    assert_eq!(fired, [handoff.id.to_string()]);
    let sizes = exchange
        .ctx
        .recorder
        .read(|e| e.handoffs.last().map(|h| h.after_bytes));
    assert!(sizes.is_some_and(|after| after > 0));
}

#[tokio::test]
async fn the_same_request_goes_on_after_its_handoff_and_another_one_does_not() {
    let stage = Stage::with(|config| config.limits.waits.unread = UNREAD);
    let body = || claude(&[user("Mend it.")]);
    let broken = stage.request(body()).exchange().await;
    let handoff = record_writer::write_handoff(&broken, NewHandoff::of_model(PROMPT.to_owned(), None, None))
        .await
        .unwrap();
    let again = stage.request(body()).exchange().await;
    assert_eq!(again.repeated(), Some(handoff.id));
    let other = stage.request(claude(&[user("Mend that.")])).exchange().await;
    assert_eq!(other.repeated(), None);
    // Once its end is read, the same request is new. Not at once, because the agent may have left with the
    // end unread.
    again.answer.fired().push(handoff.id);
    again.completed()();
    drop((broken, again));
    passes(UNREAD - SECOND).await;
    let third = stage.request(body()).exchange().await;
    assert_eq!(third.repeated(), Some(handoff.id));
    third.answer.fired().push(handoff.id);
    third.completed()();
    drop(third);
    passes(UNREAD + SECOND).await;
    assert_eq!(stage.request(body()).exchange().await.repeated(), None);
    let quiet = stage
        .request(claude(&[user("Mend that.")]))
        .principal("alice")
        .exchange()
        .await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    quiet.completed()();
    assert_eq!(tasks(), before, "nothing waits where nothing could be repeated");
}

#[tokio::test]
async fn where_responses_stop_at_a_handoff_no_repetition_goes_on_after_it() {
    let stage = Stage::with(|config| config.handoff.mode = HandoffMode::Stop);
    let body = || claude(&[user("Mend it.")]);
    let first = stage.request(body()).exchange().await;
    record_writer::write_handoff(&first, NewHandoff::of_model(PROMPT.to_owned(), None, None))
        .await
        .unwrap();
    assert_eq!(stage.request(body()).exchange().await.repeated(), None);
}

#[tokio::test]
async fn a_draft_for_review_is_stored_and_cuts_nothing() {
    let stage = Stage::new();
    let exchange = stage.request(claude(&[user("Mend it.")])).exchange().await;
    let id = stage.app.clock.new_id();
    let new = NewHandoff {
        prompt: PROMPT.to_owned(),
        reason: None,
        parent: None,
        origin: HandoffOrigin::Bundle,
        to: None,
        kept: None,
    };
    record_writer::write_for_review(&exchange, id, new).await.unwrap();
    assert!(exchange.answer.fired().is_empty());
    let live = exchange.offered.live.as_ref().unwrap();
    assert_eq!(live.active(), None);
    let stored = stage.app.sessions.store().handoff("local", id).await.unwrap();
    assert_eq!(stored.map(|handoff| handoff.origin), Some(HandoffOrigin::Bundle));
}

#[tokio::test]
async fn what_a_prompt_lacks_becomes_part_of_it_and_goes_on_through_the_next_handoff() {
    const RULE: &str = "Never touch the API.";
    let stage = Stage::new();
    let new = |parent| NewHandoff {
        to: None,
        kept: None,
        prompt: "Go on.".to_owned(),
        reason: None,
        parent,
        origin: HandoffOrigin::Model,
    };
    let exchange = stage
        .request(claude(&[user(&format!("Mend it. {RULE}")), model("On it.")]))
        .exchange()
        .await;
    let write = async |exchange: &Exchange, parent| {
        let prepared = record_writer::prepare(exchange, new(parent), 0).unwrap();
        record_writer::write(exchange, prepared).await.unwrap()
    };
    let handoff = write(&exchange, None).await;
    assert!(
        handoff.prompt.starts_with("Go on.\n\n<carried-over>\n"),
        "{}",
        handoff.prompt
    );
    assert!(handoff.head.contains(RULE), "{}", handoff.head);
    // The agent's history is gone, as after a compaction.
    let later = stage
        .request(claude(&[user("Go on."), model("Done.")]))
        .exchange()
        .await;
    let next = write(&later, Some(handoff.id)).await;
    assert_eq!(next.prompt, handoff.prompt);
    // A subagent's user messages come from its parent model.
    let subagent = stage
        .request(claude(&[user(RULE), model("Done.")]))
        .header("x-claude-code-agent-id", "a1")
        .exchange()
        .await;
    let own = write(&subagent, None).await;
    assert_eq!(own.prompt, "Go on.");
}

#[tokio::test]
async fn a_response_id_is_stored_for_its_client() {
    let stage = Stage::new();
    let mut exchange = stage.request(claude(&[user("x")])).exchange().await;
    let origin = ResponseOrigin::read("resp_upstream");
    let effect = ResponseEffect::WriteId {
        shown: "resp_shown".to_owned(),
        origin: origin.clone(),
    };
    let result = exchange.perform(effect, None, false).await;
    assert!(matches!(result, EffectResult::Event(LegEvent::Written)));
    let store = stage.app.sessions.store();
    let found = store.response_id("local", "resp_shown").await.unwrap();
    assert_eq!(found.as_deref(), Some(&*origin.written()));
    assert_eq!(store.response_id("alice", "resp_shown").await.unwrap(), None);
}

#[tokio::test]
async fn a_spilled_request_comes_back_as_it_was() {
    let stage = Stage::with(|config| config.state_dir = std::env::temp_dir());
    let body = claude(&[user("Mend it."), model("Yes."), user("Go.")]);
    let request = stage.request(&body).header("x-agent", "one");
    let mut exchange = request.exchange().await;
    let before = exchange.offered.plan(&stage.app).first(true).rope.concat();
    exchange.spill();
    assert!(exchange.ctx.headers.is_empty() && exchange.offered.text().is_empty());
    exchange.reclaim().await.unwrap();
    assert_eq!(exchange.ctx.headers["x-agent"], "one");
    assert_eq!(
        exchange.offered.plan(&stage.app).first(true).rope.concat(),
        before
    );
}
