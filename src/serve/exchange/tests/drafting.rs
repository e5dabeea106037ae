//! Drafts that need no model: who may hand off, what is written, and the state after a failure.

use std::sync::Arc;

use super::{Stage, claude, model, user};
use crate::exchange::value::Exchange;
use crate::exchange::{App, drafts};
use crate::proxy::testing;
use crate::state::jobs::drafts::{DraftJob, DraftOrder};
use crate::state::journal::short;
use crate::state::store::sqlite::SqliteStore;
use baton_core::handoffs::draft::{DraftEnd, DraftMethod, DraftRequest, Prompts};
use baton_core::marker::seal::SealKey;
use baton_core::record::{Handoff, HandoffOrigin};

fn work() -> Vec<serde_json::Value> {
    vec![
        user("Mend the importer in parse.rs."),
        model("I look at it."),
        user("Keep the tests as they are."),
        model("Done."),
        user("And the docs?"),
    ]
}

fn local() -> DraftRequest {
    DraftRequest {
        method: Some(DraftMethod::Local),
        origin: HandoffOrigin::Api,
        force: true,
        ..DraftRequest::default()
    }
}

fn job(exchange: &Exchange, order: DraftOrder) -> DraftJob {
    let live = exchange.offered.live.as_ref().unwrap();
    let drafting = &exchange.app.drafting;
    drafting
        .begin(live.key(), live.principal(), order)
        .unwrap_or_else(|_| panic!("another draft is open"))
}

async fn hand_over(exchange: &Exchange, order: DraftOrder) -> Result<Handoff, DraftEnd> {
    let job = job(exchange, order);
    drafts::hand_over(exchange, job).await
}

async fn made(stage: &Stage, order: DraftOrder) -> Result<Handoff, DraftEnd> {
    let exchange = stage.request(claude(&work())).exchange().await;
    hand_over(&exchange, order).await
}

#[test]
fn a_prompt_that_cannot_be_read_is_reported_and_one_that_is_not_there_is_the_built_in_one() {
    let directory = tempfile::tempdir().unwrap();
    let read = || {
        let mut config = testing::config("http://127.0.0.1:1");
        config.draft.prompts_dir = Some(directory.path().to_owned());
        let store = Arc::new(SqliteStore::in_memory().unwrap());
        let app = App::new(config, store, SealKey::new(*b"test"));
        app.map(|app| app.prompts).map_err(|error| error.to_string())
    };
    std::fs::write(directory.path().join("document.md"), "Write.").unwrap();
    let prompts = Prompts {
        document: "Write.".to_owned(),
        ..Prompts::default()
    };
    assert_eq!(read(), Ok(prompts));
    std::fs::create_dir(directory.path().join("oneshot.md")).unwrap();
    assert!(read().unwrap_err().contains("oneshot.md"));
}

#[tokio::test]
async fn what_is_too_short_or_too_long_is_not_handed_over() {
    let stage = Stage::new();
    let opening = stage.request(claude(&[user("x")])).exchange().await;
    let end = hand_over(&opening, local().into()).await.unwrap_err();
    assert_eq!(end, DraftEnd::NothingYet);
    let order = DraftOrder {
        prompt: Some("x".repeat(baton_core::limits::PROMPT + 1)),
        ..local().into()
    };
    let end = made(&stage, order).await.unwrap_err();
    assert_eq!(end, DraftEnd::TooLong);
    // Failed drafts do not block the next one.
    assert!(made(&stage, local().into()).await.is_ok());
}

#[tokio::test]
async fn the_report_has_the_sizes_of_what_was_sent_before_and_is_sent_next() {
    let stage = Stage::new();
    let exchange = stage.request(claude(&work())).exchange().await;
    let before = exchange.offered.plan(&stage.app).first(true).rope.concat().len();
    let handoff = hand_over(&exchange, local().into()).await.unwrap();
    let recorder = &exchange.ctx.recorder;
    let event = recorder.read(|e| e.handoffs.last().map(|h| h.before_bytes));
    assert_eq!(event, Some(before as u64));
    let says = |exchange: &Exchange, bytes: usize| {
        let report = drafts::handoff_report(exchange, &handoff);
        let tokens = short(exchange.conversation_tokens(bytes));
        let size = format!("conversation: {tokens} tokens before");
        assert!(report.contains(&size), "{report}");
    };
    says(&exchange, before);
    // Another response that reports the handoff has no event for it, so the size is that of the agent's bytes.
    let again = stage.request(claude(&work())).exchange().await;
    assert!(handoff.history_bytes < 1024, "{}", handoff.history_bytes);
    says(&again, handoff.history_bytes as usize);
}
