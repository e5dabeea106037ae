//! Context use of a branch, and its consequences.

use super::{Stage, calls, claude, result, user};
use crate::exchange::context;
use crate::exchange::value::Exchange;
use crate::state::config::Config;

/// Notices from 1,000 tokens on, and automatic handoffs from 2,000 on. The model's window has a million.
fn thresholds(config: &mut Config) {
    config.handoff.thresholds.nudge_tokens = 1_000;
    config.handoff.thresholds.auto_at = 0.002;
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
