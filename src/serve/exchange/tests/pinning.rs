//! Cut point of a request, with a real store. `core/plan` tests the decision.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{PROMPT, Stage, claude, model, sent, user};
use crate::state::config::TranscriptDetail;
use crate::state::store::sqlite::SqliteStore;
use baton_core::marker::sentinel;
use baton_core::record::{Handoff, HandoffId};

const BEFORE: &str = "Mend the importer.";

/// Transcript that an agent sends after it was shown this text in the response.
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
    assert!(!offered.pin.lost_sentinel && !offered.pin.resumed);
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
    assert_eq!(offered.pin.carry_over().as_deref(), Some(PROMPT));
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
    let shown = request
        .offered()
        .await
        .plan(&stage.app)
        .sentinel(&handoff, || stage.app.seals.now());
    assert!(shown.contains(PROMPT), "{shown}");
    let empty = Stage::over(Arc::new(SqliteStore::in_memory().unwrap()), |_| ());
    assert_eq!(active(&empty, &after(&shown), "local").await, Some(handoff.id));
    let forged = shown.replace("the importer", "the exporter");
    assert_ne!(forged, shown);
    assert_eq!(active(&empty, &after(&forged), "local").await, None);
    assert_eq!(active(&empty, &after(&shown), "alice").await, None);
}

#[tokio::test]
async fn commands_and_their_answers_never_reach_the_model() {
    let stage = Stage::new();
    let first = stage.request(claude(&[user(BEFORE), model("Yes."), user("::pins")]));
    let offered = first.offered().await;
    assert_eq!(offered.pin.command.as_deref(), Some("::pins"));
    // Text that only contains the prefix is not a command.
    let plain = stage.request(claude(&[user("Type ::pins to list them.")]));
    assert_eq!(plain.offered().await.pin.command, None);
    let unset = Stage::with(|config| config.commands.prefix.clear());
    let plain = unset.request(claude(&[user("::pins")]));
    assert_eq!(plain.offered().await.pin.command, None);
}
