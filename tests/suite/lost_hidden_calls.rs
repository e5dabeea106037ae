//! Thinking is bound to the transcript that the model saw. Hidden calls are part of it, and depend on the
//! store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_strict::{Options, Queue, Reply, Rule, Strict};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::fixture::{FlakyStore, handoff};
use crate::harness::{Baton, config, memory};
use crate::matrix::variants::{ANTHROPIC, Call};

/// A conversation whose first response has a hidden call next to one of the agent's calls, which has its
/// result.
struct WithHiddenCall {
    provider: Strict,
    script: Queue,
    history: Vec<Value>,
}

impl WithHiddenCall {
    /// Starts the conversation. With `behind_handoff`, that response follows a handoff.
    async fn start(store: &Arc<FlakyStore>, behind_handoff: bool) -> (Self, Baton) {
        let refused = Reply::text("Look.")
            .call("session_handoff", json!({"prompt": ""}))
            .call("read_file", json!({"path": "a"}));
        let script = Queue::new([]);
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let baton = Baton::start(config(&provider.url()), store.clone());
        let mut begun = Self {
            provider,
            script,
            history: Vec::new(),
        };
        if behind_handoff {
            begun.script.push(Reply::text("Hi."));
            begun.user("warm up");
            begun.ask(&baton).await;
            begun.script.push(handoff());
        }
        begun.script.push(refused);
        begun.user("Read it.");
        let calls = begun.ask(&baton).await;
        begun.history.extend((ANTHROPIC.results)(&calls, "ok"));
        (begun, baton)
    }

    fn user(&mut self, text: &str) {
        self.history.push((ANTHROPIC.message)("user", text));
    }

    /// Sends the history, stores the response in it, and returns the calls.
    async fn ask(&mut self, baton: &Baton) -> Vec<Call> {
        let body = (ANTHROPIC.body)(&self.history, true).to_string();
        let response = baton
            .post((ANTHROPIC.path)(true), ANTHROPIC.headers, body.into())
            .await;
        assert_eq!(response.status, 200, "{}", response.text());
        let answer = (ANTHROPIC.parse)(&response.raw, true).unwrap();
        self.history.extend(answer.keep);
        answer.calls
    }

    /// Makes the next response contain thinking.
    async fn think(&mut self, baton: &Baton, text: &str) {
        self.script
            .push(Reply::new().thinking("What comes next?").say(text));
        self.ask(baton).await;
    }

    /// The provider rejects thinking that is bound to another transcript.
    ///
    /// The agent gets the response to the last of `requests` requests, and the next turn needs only one. Both
    /// have the tool.
    async fn leaves_thinking_out_once(&mut self, baton: &Baton, requests: usize) {
        for (text, requests) in [("Back.", requests), ("And on.", 1)] {
            let (sent, complaints) = (
                self.provider.generations().len(),
                self.provider.complaints().len(),
            );
            self.user("Go on.");
            self.think(baton, text).await;
            let all = self.provider.generations();
            assert_eq!(all.len() - sent, requests, "{text}");
            let tools = all.last().unwrap().body["tools"].to_string();
            assert!(tools.contains("session_handoff"), "{text}");
            let mut new = self.provider.complaints().split_off(complaints);
            // A history unknown to baton is first sent without the tool.
            new.retain(|complaint| complaint.rule != Rule::ToolsChanged);
            assert!(
                new.iter().all(|complaint| complaint.rule == Rule::Binding),
                "{new:?}"
            );
            assert_eq!(new.len(), requests - 1, "{new:?}");
        }
    }
}

/// Thinking from an outage is bound to a transcript without the hidden calls and without the tool.
///
/// Once they are back the thinking is removed. The tool stays, because without it the provider rejects the
/// hidden calls.
#[tokio::test]
async fn thinking_of_an_outage_is_left_out_once_the_hidden_calls_are_back() {
    let store = FlakyStore::new(memory());
    let (mut conversation, _) = WithHiddenCall::start(&store, false).await;
    // A new process, which has no records while the store is offline.
    let baton = Baton::start(config(&conversation.provider.url()), store.clone());
    store.no_reads.store(true, Ordering::SeqCst);
    conversation.think(&baton, "In the outage.").await;
    let offline = conversation.provider.generations().pop().unwrap();
    assert!(!offline.body.to_string().contains("session_handoff"));
    store.no_reads.store(false, Ordering::SeqCst);
    conversation.leaves_thinking_out_once(&baton, 2).await;
}

/// The opposite case: thinking is bound to hidden calls that were lost with the store.
async fn lost(behind_handoff: bool, requests: usize) {
    let store = FlakyStore::new(memory());
    let (mut conversation, baton) = WithHiddenCall::start(&store, behind_handoff).await;
    conversation.think(&baton, "Before the loss.").await;
    let baton = Baton::start(config(&conversation.provider.url()), memory());
    conversation.leaves_thinking_out_once(&baton, requests).await;
}

/// A history unknown to baton is sent without the tool, and then with it. The thinking is bound to neither.
#[tokio::test]
async fn thinking_after_hidden_calls_that_are_lost_is_left_out() {
    lost(false, 3).await;
}

/// The sentinel's seal still proves the handoff.
#[tokio::test]
async fn thinking_after_hidden_calls_that_are_lost_behind_a_handoff_is_left_out() {
    lost(true, 2).await;
}
