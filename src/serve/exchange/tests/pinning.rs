//! The second stage: the handoff that a request is cut at.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{PROMPT, Stage, an_id, claude, model, sent, user};
use crate::state::config::TranscriptDetail;
use crate::state::store::sqlite::SqliteStore;
use baton_core::mark::sentinel;
use baton_core::plan::Unresolved;
use baton_core::record::{Handoff, HandoffId};

const BEFORE: &str = "Mend the importer.";

/// The transcript that an agent sends after it was shown this text in the answer.
fn after(shown: &str) -> Vec<Value> {
    vec![
        user(BEFORE),
        model(&format!("Handing over.\n\n{shown}\n\nIt runs.")),
        user("Thanks."),
    ]
}

fn short(handoff: &Handoff) -> String {
    sentinel::short(handoff.id, None)
}

async fn active(stage: &Stage, messages: &[Value], principal: &str) -> Option<HandoffId> {
    let request = stage.request(claude(messages)).principal(principal);
    request.offered().await.active_id()
}

#[tokio::test]
async fn a_known_sentinel_cuts_everything_before_it() {
    let stage = Stage::with(|config| config.handoff.transcript = TranscriptDetail::Sentinel);
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let request = stage.request(claude(&after(&short(&handoff))));
    let offered = request.offered().await;
    assert_eq!(offered.active_id(), Some(handoff.id));
    assert!(!offered.pin.unpinned && !offered.pin.resumed);
    let messages = json!(sent(&stage, &offered).messages).to_string();
    assert!(messages.contains(PROMPT), "{messages}");
    assert!(
        messages.contains("It runs.") && messages.contains("Thanks."),
        "{messages}"
    );
    assert!(
        !messages.contains(BEFORE) && !messages.contains("Handing over."),
        "{messages}"
    );
    assert_eq!(offered.carry_over().as_deref(), Some(PROMPT));
}

#[tokio::test]
async fn the_last_sentinel_that_counts_is_the_one() {
    let stage = Stage::new();
    let first = stage.handoff(&[user(BEFORE)]).await;
    let second = stage
        .handoff(&[user(BEFORE), model("More."), user("Go on.")])
        .await;
    let mut messages = after(&short(&first));
    messages.extend([model(&short(&second)), user("And the docs.")]);
    assert_eq!(active(&stage, &messages, "local").await, Some(second.id));
    // An unknown one is skipped.
    messages.extend([model(&sentinel::short(an_id(9), None)), user("More.")]);
    assert_eq!(active(&stage, &messages, "local").await, Some(second.id));
}

#[tokio::test]
async fn a_handoff_belongs_to_its_client() {
    let stage = Stage::with(|config| config.handoff.transcript = TranscriptDetail::Sentinel);
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let messages = after(&short(&handoff));
    assert_eq!(active(&stage, &messages, "local").await, Some(handoff.id));
    assert_eq!(active(&stage, &messages, "alice").await, None);
}

#[tokio::test]
async fn a_seal_stands_for_a_lost_store_and_no_other_text_does() {
    let stage = Stage::new();
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let request = stage.request(claude(&[user(BEFORE)]));
    let shown = request.offered().await.sentinel(&stage.app, &handoff);
    assert!(shown.contains(PROMPT), "{shown}");
    let empty = Stage::over(Arc::new(SqliteStore::in_memory().unwrap()), |_| ());
    assert_eq!(active(&empty, &after(&shown), "local").await, Some(handoff.id));
    let forged = shown.replace("the importer", "the exporter");
    assert_ne!(forged, shown);
    assert_eq!(active(&empty, &after(&forged), "local").await, None);
    assert_eq!(active(&empty, &after(&shown), "alice").await, None);
}

#[tokio::test]
async fn a_lost_sentinel_is_reported_and_the_history_goes_whole() {
    let stage = Stage::new();
    let lost = an_id(1);
    let request = stage.request(claude(&after(&sentinel::short(lost, None))));
    let offered = request.offered().await;
    assert_eq!((offered.pin.lost, offered.pin.unpinned), (Some(lost), true));
    assert_eq!(offered.pin.unresolved, None);
    let messages = json!(sent(&stage, &offered).messages).to_string();
    assert!(messages.contains(BEFORE), "{messages}");
}

#[tokio::test]
async fn a_session_that_had_a_handoff_and_shows_none_is_unpinned() {
    let stage = Stage::new();
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    stage.request(claude(&after(&short(&handoff)))).offered().await;
    let fork = stage.request(claude(&[user("Another task."), model("Yes."), user("Go.")]));
    let offered = fork.offered().await;
    assert_eq!((offered.active_id(), offered.pin.unpinned), (None, true));
}

#[tokio::test]
async fn a_persons_line_resumes_a_handoff_or_is_answered_here() {
    let stage = Stage::new();
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let line = |id: &str| user(&format!("[[handoff-resume:{id}]]\n\nGo on."));
    let fresh = |message: Value| {
        let mut body = claude(&[message]);
        body["metadata"]["user_id"] = json!("{\"session_id\":\"s-2\"}");
        body
    };
    let known = stage.request(fresh(line(&handoff.id.to_string())));
    let offered = known.offered().await;
    assert_eq!(
        (offered.active_id(), offered.pin.resumed),
        (Some(handoff.id), true)
    );
    assert_eq!(offered.pin.unresolved, None);
    let unknown = stage.request(fresh(line(&an_id(2).to_string()))).offered().await;
    assert_eq!(unknown.pin.unresolved, Some(Unresolved::Unknown));
    assert!(!unknown.pin.resumed);
}

#[tokio::test]
async fn commands_and_their_answers_never_reach_the_model() {
    let stage = Stage::new();
    let first = stage.request(claude(&[user(BEFORE), model("Yes."), user("::pins")]));
    let offered = first.offered().await;
    assert_eq!(offered.pin.command.as_deref(), Some("::pins"));
    // Text that only contains the prefix is no command.
    let plain = stage.request(claude(&[user("Type ::pins to list them.")]));
    assert_eq!(plain.offered().await.pin.command, None);
    let unset = Stage::with(|config| config.commands.prefix.clear());
    let plain = unset.request(claude(&[user("::pins")]));
    assert_eq!(plain.offered().await.pin.command, None);
}
