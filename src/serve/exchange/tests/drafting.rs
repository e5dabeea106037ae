//! Drafts that need no model: who may hand off, what is written, and the state after a failure.

use std::sync::Arc;

use super::{Stage, calls, claude, model, result, sent, user};
use crate::exchange::value::Exchange;
use crate::exchange::{App, drafts};
use crate::proxy::testing;
use crate::state::jobs::drafts::{DraftJob, DraftOrder, DraftState};
use crate::state::journal::short;
use crate::state::store::sqlite::SqliteStore;
use baton_core::handoffs::draft::{DraftEnd, DraftMethod, DraftRequest, Prompts, ReviewPolicy};
use baton_core::marker::seal::SealKey;
use baton_core::plan::{DueHandoff, Responder};
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
async fn a_local_draft_becomes_the_active_handoff_with_the_open_message() {
    let stage = Stage::new();
    let exchange = stage.request(claude(&work())).exchange().await;
    let job = job(&exchange, local().into());
    let id = job.id;
    let handoff = drafts::hand_over(&exchange, job).await.unwrap();
    assert_eq!(handoff.origin, HandoffOrigin::Api);
    assert!(handoff.prompt.contains("And the docs?"), "{}", handoff.prompt);
    assert!(handoff.prompt.contains("parse.rs"), "{}", handoff.prompt);
    let draft = stage.app.drafting.get(id).unwrap();
    assert_eq!((draft.state, draft.handoff), (DraftState::Done, Some(handoff.id)));
}

#[tokio::test]
async fn a_given_document_is_carried_word_for_word() {
    let stage = Stage::new();
    let order = DraftOrder {
        prompt: Some(" Go on with the docs.\n".to_owned()),
        ..local().into()
    };
    let handoff = made(&stage, order).await.unwrap();
    assert_eq!(handoff.origin, HandoffOrigin::User);
    assert!(
        handoff.prompt.starts_with("Go on with the docs."),
        "{}",
        handoff.prompt
    );
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
async fn a_draft_for_review_waits_and_its_approval_hands_over() {
    let stage = Stage::with(|config| config.handoff.review = ReviewPolicy::Manual);
    let end = made(&stage, local().into()).await.unwrap_err();
    assert_eq!(end, DraftEnd::Review);
    let exchange = stage.request(claude(&work())).exchange().await;
    assert_eq!(exchange.offered.live.as_ref().unwrap().active(), None);
    let app = &exchange.app;
    assert!(drafts::waiting_job(&exchange).is_none());
    let notice = drafts::pending_notice(&exchange).expect("a notice");
    assert!(notice.before_model().unwrap().contains("waits for your approval"));
    assert!(drafts::pending_notice(&exchange).is_none(), "shown once");
    let draft = app.drafting.all_open().into_iter().next().unwrap();
    app.drafting
        .accept(draft.id, Some("Only the docs.".to_owned()))
        .unwrap();
    let job = drafts::waiting_job(&exchange).expect("an approved draft");
    let handoff = drafts::hand_over(&exchange, job).await.unwrap();
    assert!(handoff.prompt.contains("Only the docs."), "{}", handoff.prompt);
}

#[tokio::test]
async fn a_draft_waits_for_a_request_at_which_the_conversation_may_be_cut() {
    let stage = Stage::new();
    let opening = stage.request(claude(&work())).exchange().await;
    let live = Arc::clone(opening.offered.live.as_ref().unwrap());
    stage
        .app
        .drafting
        .request(live.key(), live.principal(), local().into(), None)
        .unwrap();
    let open_call = [&work()[..], &[calls("t1")]].concat();
    let rows = [
        (claude(&[&open_call[..], &[user("Stop.")]].concat()), false),
        (claude(&[&open_call[..], &[result("t1")]].concat()), true),
    ];
    for (body, taken) in rows {
        let exchange = stage.request(body).exchange().await;
        let mut exchange = exchange;
        assert_eq!(exchange.decide().by == Responder::WaitingDraft, taken);
    }
}

#[tokio::test]
async fn an_automatic_draft_is_begun_once() {
    let stage = Stage::new();
    let exchange = stage.request(claude(&work())).exchange().await;
    let automatic = || DueHandoff {
        reason: "the context had 1234 tokens".to_owned(),
        ..DueHandoff::default()
    };
    let job = drafts::automatic_job(&exchange, automatic()).expect("a draft");
    assert_eq!(job.wanted.ask.origin, HandoffOrigin::Auto);
    assert_eq!(
        job.wanted.ask.reason.as_deref(),
        Some("the context had 1234 tokens")
    );
    assert!(
        drafts::automatic_job(&exchange, automatic()).is_none(),
        "another one is open"
    );
}

#[tokio::test]
async fn the_report_has_the_sizes_of_what_was_sent_before_and_is_sent_next() {
    let stage = Stage::new();
    let exchange = stage.request(claude(&work())).exchange().await;
    let before = exchange.offered.plan(&stage.app).first(true).rope.concat().len();
    let handoff = hand_over(&exchange, local().into()).await.unwrap();
    let event = exchange
        .ctx
        .recorder
        .read(|e| e.handoffs.last().map(|h| h.before_bytes));
    assert_eq!(event, Some(before as u64));
    let report = drafts::handoff_report(&exchange, &handoff);
    let tokens = |bytes: usize| short(exchange.conversation_tokens(bytes));
    assert!(
        report.contains(&format!("conversation: {} tokens before", tokens(before))),
        "{report}"
    );
    // Another response that reports the handoff has no event for it, so the size is that of the agent's bytes.
    let again = stage.request(claude(&work())).exchange().await;
    let report = drafts::handoff_report(&again, &handoff);
    assert!(handoff.history_bytes < 1024, "{}", handoff.history_bytes);
    assert!(
        report.contains(&format!(
            "conversation: {} tokens before",
            tokens(handoff.history_bytes as usize)
        )),
        "{report}"
    );
}

#[tokio::test]
async fn the_next_request_is_cut_at_a_drafted_handoff() {
    let stage = Stage::new();
    let exchange = stage.request(claude(&work())).exchange().await;
    let handoff = hand_over(&exchange, local().into()).await.unwrap();
    let shown = exchange.sentinel(&handoff);
    let later = [&work()[..], &[model(&shown), user("Thanks.")]].concat();
    let offered = stage.request(claude(&later)).offered().await;
    assert_eq!(offered.active_id(), Some(handoff.id));
    let view = sent(&stage, &offered);
    assert!(view.messages.len() < later.len(), "{:?}", view.messages);
}
