//! The window that a context notice relates the context use to, on every wire.
//!
//! This window is that of the model's generation, the one that the agent assumes, or one that the agent
//! declares.

use baton_strict::{Options, Queue, Reply, Rule};
use serde_json::{Value, json};

use crate::harness::memory;
use crate::matrix::fixture::Fixture;
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

const WIRES: [Variant; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

fn with_headers(variant: Variant, more: &[(&'static str, &'static str)]) -> Variant {
    let headers = [variant.headers, more].concat();
    Variant {
        headers: headers.leak(),
        ..variant
    }
}

/// Starts a fixture with the default thresholds.
async fn fixture(variant: Variant) -> Fixture {
    let script = Queue::new([]);
    let options = Options::default().prefixes().without(Rule::UnknownTool);
    Fixture::under(options, variant, script.clone(), script, memory(), |_| {}).await
}

/// Sends this many further tokens.
async fn say(fixture: &Fixture, history: &mut Vec<Value>, tokens: usize) {
    fixture.push(Reply::text("Read."));
    history.push(fixture.user(&format!("Go on. {}", "word ".repeat(tokens * 4 / 5))));
    let answer = fixture.ask(history, true).await;
    history.extend(answer.keep);
}

/// Returns the notice in the model's last request.
fn notice(fixture: &Fixture) -> Option<String> {
    let last = fixture.provider.generations().pop().unwrap();
    let texts = last.turns().into_iter().flat_map(|turn| turn.texts);
    let notice = |text: String| {
        let at = text.find("<context-notice>")?;
        Some(text[at..].to_owned())
    };
    texts.filter_map(notice).next()
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
        let fixture = fixture(with_headers(LARGE, &[("user-agent", agent)])).await;
        let mut history = Vec::new();
        say(&fixture, &mut history, 170_000).await;
        say(&fixture, &mut history, 5).await;
        let told = notice(&fixture);
        assert_eq!(told.is_some(), expected, "{agent}: {told:?}");
        assert!(told.is_none_or(|told| told.contains("of 272,000 tokens")));
    }
}

#[tokio::test]
async fn a_declared_window_counts_on_every_wire_and_goes_no_further() {
    for variant in WIRES {
        let fixture = fixture(with_headers(variant, &[("x-baton-window", "10000")])).await;
        let mut history = Vec::new();
        say(&fixture, &mut history, 7_000).await;
        say(&fixture, &mut history, 5).await;
        let told = notice(&fixture).unwrap();
        assert!(told.contains("of 10,000 tokens"), "{told}");
        let last = fixture.provider.generations().pop().unwrap();
        let mut names = last.headers.keys();
        assert!(!names.any(|name| name.as_str().starts_with("x-baton")));
        fixture.assert_clean();
    }
}

#[tokio::test]
async fn a_base_url_can_declare_windows() {
    let variants = [
        Variant {
            path: |_| "/w/claude-strict=10000/v1/messages?beta=true",
            ..ANTHROPIC
        },
        Variant {
            path: |_| "/w/10000/v1/responses",
            ..RESPONSES
        },
    ];
    for variant in variants {
        let fixture = fixture(variant).await;
        let mut history = Vec::new();
        say(&fixture, &mut history, 7_000).await;
        say(&fixture, &mut history, 5).await;
        assert!(notice(&fixture).unwrap().contains("of 10,000 tokens"));
        let last = fixture.provider.generations().pop().unwrap();
        assert!(last.path.starts_with("/v1/"), "{}", last.path);
        fixture.assert_clean();
    }
}
