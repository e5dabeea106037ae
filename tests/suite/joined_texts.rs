//! Agents that store a response as one string, joining its blocks, parts or items without a separator.

use baton_strict::Reply;
use pretty_assertions::assert_eq;

use crate::matrix::fixture::{Fixture, carry, fresh, handoff};
use crate::matrix::variants::{Variant, on_every_wire};

async fn joined_texts(variant: Variant) {
    let fixture = Fixture::new(variant, [handoff(), fresh(), Reply::text("Next.")]).await;
    let history = fixture.history();
    let said = fixture.ask(&history, true).await;
    let answer = (variant.message)("assistant", &said.text);
    fixture
        .ask(&[&history[..], &[answer, fixture.user("More.")]].concat(), true)
        .await;
    assert_eq!(fixture.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    fixture.assert_clean();
}

on_every_wire!(joined_texts);
