//! An agent that keeps an answer as one text, with nothing between what were blocks, parts or items.

use baton_proxy::strict::Reply;
use pretty_assertions::assert_eq;

use crate::matrix::fixture::{Fixture, carry, fresh, handoff};
use crate::matrix::variants::{self, Variant};

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

macro_rules! wires {
    ($($wire:ident = $variant:ident;)*) => {
        $(#[tokio::test]
        async fn $wire() {
            joined_texts(variants::$variant).await;
        })*
    };
}

wires! {
    anthropic = ANTHROPIC;
    openai_chat = CHAT;
    openai_responses = RESPONSES;
    gemini = GEMINI;
    ollama = OLLAMA;
}
