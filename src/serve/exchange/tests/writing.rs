//! Records that an exchange writes, and their effect on the next request.

use std::time::Duration;

use tokio::runtime::Handle;

use super::{PROMPT, Stage, claude, model, user};
use crate::exchange::record_writer;
use crate::exchange::value::Exchange;
use baton_core::plan::NewHandoff;
use baton_core::record::HandoffOrigin;

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
