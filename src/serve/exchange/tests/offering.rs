//! Additions to a request, with a real store. `core/plan` tests the decision.

use super::{Stage, claude, user};
use crate::exchange::context::append;

#[tokio::test]
async fn a_turn_has_room_for_one_notice() {
    let stage = Stage::new();
    let mut exchange = stage.request(claude(&[user("Mend it.")])).exchange().await;
    assert!(append(&mut exchange, "a notice").await.unwrap());
    assert!(!append(&mut exchange, "another").await.unwrap());
}

#[tokio::test]
async fn where_nothing_changes_the_bytes_are_the_agents() {
    let stage = Stage::new();
    let body = claude(&[user("Mend it.")]);
    let request = stage.request(&body).header("x-baton-handoff", "off");
    let offered = request.offered().await;
    let rope = offered.plan(&stage.app).first(false).rope;
    assert_eq!(rope.concat(), body.to_string().as_bytes());
    assert!(offered.raw(&rope).is_some());
}
