//! Context use of a branch, and its consequences.

use super::{Stage, calls, claude, result, user};
use crate::exchange::context;
use crate::exchange::value::Exchange;
use crate::state::config::Config;
use baton_core::nudge::NudgeWording;
use baton_core::plan::{DueStep, Responder};
use baton_core::wire::{LegReport, Usage};

/// Notices from 1,000 tokens on, and automatic handoffs from 2,000 on. The model's window has a million.
fn thresholds(config: &mut Config) {
    config.handoff.thresholds.nudge_tokens = 1_000;
    config.handoff.thresholds.auto_at = 0.002;
}

fn used(input: u64) -> LegReport {
    answered(Usage {
        input,
        ..Usage::default()
    })
}

fn answered(usage: Usage) -> LegReport {
    LegReport {
        usage,
        ..LegReport::default()
    }
}

/// Turns of a loop, one step longer each time.
fn steps(count: usize) -> Vec<serde_json::Value> {
    let step = |n: usize| {
        let id = format!("t{n}");
        [calls(&id), result(&id)]
    };
    [user("Mend it.")]
        .into_iter()
        .chain((0..count).flat_map(step))
        .collect()
}

async fn exchange(stage: &Stage, steps_done: usize) -> Exchange {
    stage.request(claude(&steps(steps_done))).exchange().await
}

#[tokio::test]
async fn without_thresholds_or_beside_the_loop_no_branch_is_followed() {
    let off = Stage::new();
    let mut plain = exchange(&off, 0).await;
    assert!(context::enter(&mut plain).is_none() && plain.branch.is_none());
    let stage = Stage::with(thresholds);
    let mut followed = exchange(&stage, 0).await;
    assert!(context::enter(&mut followed).is_some());
    let untooled = stage.request(claude(&steps(0))).header("x-baton-handoff", "off");
    let mut untooled = untooled.exchange().await;
    assert!(context::enter(&mut untooled).is_none() && untooled.branch.is_none());
    let summary = stage.request(claude(&steps(0)));
    let summary = summary.header("x-claude-code-request-class", "compaction");
    let mut summary = summary.exchange().await;
    assert!(context::enter(&mut summary).is_none() && summary.branch.is_none());
}

#[tokio::test]
async fn the_same_request_again_is_not_new_in_its_branch() {
    let stage = Stage::with(thresholds);
    let mut first = exchange(&stage, 0).await;
    assert!(context::enter(&mut first).is_some());
    let mut again = exchange(&stage, 0).await;
    assert!(context::enter(&mut again).is_none() && again.branch.is_some());
    let mut next = exchange(&stage, 1).await;
    assert!(context::enter(&mut next).is_some());
}

#[tokio::test]
async fn a_measured_context_is_due_at_its_thresholds() {
    for (tokens, due) in [(900, "nothing"), (1_500, "a notice"), (2_500, "a handoff")] {
        let stage = Stage::with(thresholds);
        let mut first = exchange(&stage, 0).await;
        let branch = context::enter(&mut first).unwrap();
        branch.measure(0, None, &used(tokens));
        let mut next = exchange(&stage, 1).await;
        let branch = context::enter(&mut next).unwrap();
        let step = match next.plan().due(&branch.state().unwrap(), 0) {
            None => "nothing",
            Some(DueStep::Nudge(_)) => "a notice",
            Some(DueStep::HandOff { .. }) => "a handoff",
        };
        assert_eq!(step, due, "{tokens} tokens");
    }
}

#[tokio::test]
async fn cached_input_fills_a_context_as_well() {
    let stage = Stage::with(thresholds);
    let mut first = exchange(&stage, 0).await;
    let branch = context::enter(&mut first).unwrap();
    let usage = Usage {
        input: 10,
        cache_read: 1_000,
        cache_write: 300,
        output: 90,
        ..Usage::default()
    };
    branch.measure(0, None, &answered(usage));
    let mut next = exchange(&stage, 1).await;
    let branch = context::enter(&mut next).unwrap();
    let Some(DueStep::Nudge(text)) = next.plan().due(&branch.state().unwrap(), 0) else {
        panic!("no notice");
    };
    assert!(text.contains("1,400") || text.contains("1400"), "{text}");
}

#[tokio::test]
async fn a_notice_in_plain_words_names_no_number() {
    let stage = Stage::with(|config| {
        thresholds(config);
        config.handoff.nudge_wording = NudgeWording::Plain;
    });
    let mut first = exchange(&stage, 0).await;
    let branch = context::enter(&mut first).unwrap();
    branch.measure(0, None, &used(1_500));
    let mut next = exchange(&stage, 1).await;
    let branch = context::enter(&mut next).unwrap();
    let Some(DueStep::Nudge(text)) = next.plan().due(&branch.state().unwrap(), 0) else {
        panic!("no notice");
    };
    assert!(!text.contains(|c: char| c.is_ascii_digit()), "{text}");
}

/// Lets the model answer, with a notice if one is due.
async fn follow(exchange: &mut Exchange) {
    let decision = exchange.decide();
    assert_eq!(decision.by, Responder::Model);
    if let (Some(text), Some(branch)) = (decision.nudge, exchange.branch.clone()) {
        context::nudge(&branch, exchange, &text).await;
    }
}

#[tokio::test]
async fn a_notice_is_sent_once_and_stays_in_the_model_s_view() {
    let stage = Stage::with(thresholds);
    let mut first = exchange(&stage, 0).await;
    follow(&mut first).await;
    first.branch.as_ref().unwrap().measure(0, None, &used(1_500));
    let mut next = exchange(&stage, 1).await;
    follow(&mut next).await;
    let notices = |exchange: &Exchange| exchange.offered.places.insertions.len();
    assert_eq!(notices(&next), 1);
    next.branch.as_ref().unwrap().measure(0, None, &used(1_510));
    let mut later = exchange(&stage, 2).await;
    follow(&mut later).await;
    assert_eq!(notices(&later), 1);
}
