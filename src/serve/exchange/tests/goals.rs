//! The goal of the agent's session, carried over a cut.

use serde_json::{Value, json};

use super::{PROMPT, Stage, changed, claude, model, sent, user};
use baton_core::marker::sentinel;
use baton_core::record::Handoff;

const GOAL: &str = "The parser tests pass.";

fn goal(text: &str) -> Value {
    user(&format!(
        "A session-scoped Stop hook is now active with condition: \"{text}\". Briefly acknowledge the goal, then \
         immediately start (or continue) working toward it."
    ))
}

/// Transcript with the handoff at its end.
fn shown(before: &[Value], handoff: &Handoff) -> Vec<Value> {
    let sentinel = sentinel::short(handoff.id, None);
    [
        before,
        &[
            model(&sentinel),
            user("<system-reminder>\nStop hook feedback:\n[The parser tests pass.]: no\n</system-reminder>"),
        ],
    ]
    .concat()
}

async fn first_message(stage: &Stage, messages: &[Value]) -> Value {
    let offered = stage.request(claude(messages)).offered().await;
    sent(stage, &offered)[0].clone()
}

#[tokio::test]
async fn the_active_goal_is_the_same_in_every_request_after_a_cut() {
    let stage = Stage::with(|config| {
        config.handoff.transcript = crate::state::config::TranscriptDetail::Sentinel;
    });
    let before = [goal(GOAL)];
    let handoff = stage.handoff(&before).await;
    let mut messages = shown(&before, &handoff);
    let first = first_message(&stage, &messages).await;
    assert_eq!(
        first["content"],
        format!(
            "<active-goal>\nThe goal of this session, which is still pursued:\n{GOAL}\n</active-goal>\n\n{PROMPT}"
        )
    );
    // Even after the agent pursues another goal.
    messages.extend([model("Done."), goal("The docs are right."), model("Yes.")]);
    messages.push(user("Go on."));
    assert_eq!(first_message(&stage, &messages).await, first);
    // The next cut carries the newest goal, and none if that was dropped.
    messages.truncate(messages.len() - 2);
    let next = stage.handoff(&messages).await;
    assert!(
        next.head.contains("The docs are right.") && !next.head.contains(GOAL),
        "{}",
        next.head
    );
    messages.extend([model("Yes."), user("Thanks. Now the changelog.")]);
    let last = stage.handoff(&messages).await;
    assert!(!last.head.contains("<active-goal>"), "{}", last.head);
}

#[tokio::test]
async fn a_goal_that_the_transcript_does_not_mention_any_more_is_the_active_handoffs() {
    let stage = Stage::new();
    let handoff = stage.handoff(&[goal(GOAL)]).await;
    let later = [
        user(&sentinel::short(handoff.id, None)),
        model("Yes."),
        user("Go on."),
    ];
    let next = stage.handoff(&later).await;
    assert_eq!(next.head, handoff.head);
}

/// After each answer, Claude Code 2.1.331 asks a small model without tools.
#[tokio::test]
async fn the_judge_of_a_goal_sees_the_work_since_the_cut_and_nothing_from_before() {
    let stage = Stage::new();
    let before = [user("Mend the importer."), model("Which one?"), goal(GOAL)];
    let handoff = stage.handoff(&before).await;
    let mut messages = [&before[..], &[model(&sentinel::short(handoff.id, None))]].concat();
    messages.extend([
        user("<system-reminder>\nStop hook feedback:\n[The parser tests pass.]: no\n</system-reminder>"),
        model("test result: ok. 40 passed"),
    ]);
    messages.push(user("Based on the conversation transcript above, has the following stopping condition been satisfied? Answer based on transcript evidence only.\n\nCondition: The parser tests pass."));
    let judge = changed(
        claude(&messages),
        json!({
            "model": "claude-haiku-4-5",
            "tools": [],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        }),
    );
    let offered = stage.request(judge).offered().await;
    assert_eq!(offered.active_id(), Some(handoff.id));
    assert!(!offered.offer.tooled);
    let messages = json!(sent(&stage, &offered)).to_string();
    for kept in [PROMPT, "40 passed", "Condition: The parser tests pass."] {
        assert!(messages.contains(kept), "{kept}: {messages}");
    }
    assert!(!messages.contains("Mend the importer."), "{messages}");
}
