//! An agent that keeps an answer as one text, with nothing between what were blocks, parts or items.

use baton_proxy::strict::Reply;
use pretty_assertions::assert_eq;

use crate::matrix::sides::{self, Side};
use crate::matrix::stage::{Stage, carry, fresh, handoff};

async fn glued(side: Side) {
    let stage = Stage::new(side, [handoff(), fresh(), Reply::text("Next.")]).await;
    let history = stage.history();
    let said = stage.ask(&history, true).await;
    let answer = (side.message)("assistant", &said.text);
    stage
        .ask(&[&history[..], &[answer, stage.user("More.")]].concat(), true)
        .await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    stage.at_peace();
}

macro_rules! wires {
    ($($wire:ident = $side:ident;)*) => {
        $(#[tokio::test]
        async fn $wire() {
            glued(sides::$side).await;
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
