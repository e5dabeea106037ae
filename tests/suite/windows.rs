//! The window that a context notice relates the context use to, on every wire.
//!
//! This window is that of the model's generation, the one that the agent assumes, or one that the agent
//! declares. `nudge::windows` has the tables.

use baton_strict::{Options, Queue, Rule};
use serde_json::json;

use crate::harness::memory;
use crate::harness::texts::assert_contains;
use crate::matrix::fixture::Fixture;
use crate::matrix::talk::Talk;
use crate::matrix::variants::{ANTHROPIC, CHAT, RESPONSES, Variant, WIRES};

/// Sends this many tokens, and a few more. Returns the notice in the model's last request.
async fn notice(variant: Variant, tokens: usize) -> (Talk, Option<String>) {
    let script = Queue::new([]);
    let options = Options::default().prefixes().without(Rule::UnknownTool);
    let stage = Fixture::under(options, variant, script.clone(), script, memory(), |_| {}).await;
    let mut talk = Talk::new(stage);
    for tokens in [tokens, 5] {
        talk.says(&format!("Go on. {}", "word ".repeat(tokens * 4 / 5)), "Read.")
            .await;
    }
    talk.assert_clean();
    let last = talk.provider.generations().pop().unwrap();
    let mut texts = last.turns().into_iter().flat_map(|turn| turn.texts);
    let told = texts.find(|text| text.contains("<context-notice>"));
    (talk, told)
}

/// A model whose window is larger than the one that some agents assume for it.
const LARGE: Variant = Variant {
    body: |history, stream| {
        let mut body = (CHAT.body)(history, stream);
        body["model"] = json!("gpt-6.1-sol");
        body
    },
    model: "gpt-6.1-sol",
    ..CHAT
};

#[tokio::test]
async fn an_agent_that_assumes_less_is_told_by_its_own_window() {
    let codex = "codex_exec/0.169.0 (Debian 12.0.0; x86_64)";
    for (agent, expected) in [(codex, true), ("opencode/1.18.33", false)] {
        let (_, told) = notice(LARGE.with_headers(&[("user-agent", agent)]), 170_000).await;
        assert_eq!(told.is_some(), expected, "{agent}: {told:?}");
        assert!(told.is_none_or(|told| told.contains("of 272,000 tokens")));
    }
}

/// By a header, or by the base URL.
#[tokio::test]
async fn a_declared_window_counts_on_every_wire_and_goes_no_further() {
    let declared = WIRES.map(|variant| variant.with_headers(&[("x-baton-window", "10000")]));
    let named = Variant {
        path: |_| "/w/claude-strict=10000/v1/messages?beta=true",
        ..ANTHROPIC
    };
    let unnamed = Variant {
        path: |_| "/w/10000/v1/responses",
        ..RESPONSES
    };
    for variant in declared.into_iter().chain([named, unnamed]) {
        let (talk, told) = notice(variant, 7_000).await;
        assert_contains(&told.unwrap(), "of 10,000 tokens");
        let last = talk.provider.generations().pop().unwrap();
        let mut names = last.headers.keys();
        assert!(!names.any(|name| name.as_str().starts_with("x-baton")));
        assert!(!last.path.starts_with("/w/"), "{}", last.path);
    }
}
