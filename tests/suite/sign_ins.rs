//! Sign-ins with a plan or an account instead of an API key.

use baton_proxy::strict::Reply;
use pretty_assertions::assert_eq;

use crate::matrix::fixture::{Fixture, fresh, handoff};
use crate::matrix::variants::{Variant, on_every_wire_both_ways};

/// Some servers name no content type.
async fn untyped(variant: Variant, stream: bool) {
    let replies = [handoff(), fresh(), Reply::text("Next.")].map(Reply::untyped);
    let fixture = Fixture::new(variant, replies).await;
    let response = fixture.send(&fixture.history(), stream).await;
    assert_eq!(response.header("content-type"), None);
    let answer = fixture.answer(&response, stream);
    assert!(
        answer.text.contains("[[handoff-resume:") && answer.text.ends_with("Fresh."),
        "{}",
        answer.text
    );
    let next = fixture.then(&fixture.history(), &answer, "More.");
    assert_eq!(fixture.ask(&next, stream).await.text, "Next.");
    assert_eq!(fixture.baton.events(1).await[0].streamed, stream);
    fixture.assert_clean();
}

on_every_wire_both_ways!(untyped);
