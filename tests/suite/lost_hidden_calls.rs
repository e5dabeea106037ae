//! Thinking is bound to the transcript that the model saw. Hidden calls are part of it, and come and go with the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_strict::{Options, Queue, Reply, Rule, Strict};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::fixture::{FlakyStore, handoff};
use crate::harness::{Baton, config, memory};
use crate::matrix::variants::{ANTHROPIC, Call};

/// A conversation whose first answer has a hidden call beside a call of the agent's own, whose result is there.
struct WithHiddenCall {
    provider: Strict,
    script: Queue,
    history: Vec<Value>,
}

impl WithHiddenCall {
    /// `before`: answers before that one, in the same response.
    async fn start(store: &Arc<FlakyStore>, before: Option<Reply>) -> (Self, Baton) {
        let refused = Reply::text("Look.")
            .call("session_handoff", json!({"prompt": ""}))
            .call("read_file", json!({"path": "a"}));
        let script = Queue::new(before.into_iter().chain([refused]));
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let baton = Baton::start(config(&provider.url()), store.clone());
        let mut begun = Self {
            provider,
            script,
            history: vec![(ANTHROPIC.message)("user", "Read it.")],
        };
        let calls = begun.ask(&baton).await;
        begun.history.extend((ANTHROPIC.results)(&calls, "ok"));
        (begun, baton)
    }

    /// Asks, and keeps the answer; its calls are returned.
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

    /// The next answer thinks.
    async fn think(&mut self, baton: &Baton, text: &str) {
        self.script
            .push(Reply::new().thinking("What comes next?").say(text));
        self.ask(baton).await;
    }

    /// The provider refuses the thinking that is bound to another transcript. The agent gets the answer to the retry, and the
    /// next request needs none. The tool stays.
    async fn leaves_thinking_out_once(&mut self, baton: &Baton) {
        for (text, requests) in [("Back.", 2), ("And on.", 1)] {
            let (sent, complaints) = (
                self.provider.generations().len(),
                self.provider.complaints().len(),
            );
            self.history.push((ANTHROPIC.message)("user", "Go on."));
            self.think(baton, text).await;
            let all = self.provider.generations();
            assert_eq!(all.len() - sent, requests, "{text}");
            for request in &all[sent..] {
                assert!(
                    request.body["tools"].to_string().contains("session_handoff"),
                    "{text}"
                );
            }
            let new = &self.provider.complaints()[complaints..];
            assert!(
                new.iter().all(|complaint| complaint.rule == Rule::Binding),
                "{new:?}"
            );
            assert_eq!(new.is_empty(), requests == 1, "{new:?}");
        }
    }
}

/// Thinking of an outage is bound to a transcript without the hidden calls and without the tool. Once they are back it is left
/// out: the tool stays, without which the provider refuses the hidden calls.
#[tokio::test]
async fn thinking_of_an_outage_is_left_out_once_the_hidden_calls_are_back() {
    let store = FlakyStore::new(memory());
    let (mut conversation, _) = WithHiddenCall::start(&store, None).await;
    // A new process, which knows nothing while the store is offline.
    let provider = &conversation.provider;
    let baton = Baton::start(config(&provider.url()), store.clone());
    store.no_reads.store(true, Ordering::SeqCst);
    conversation.think(&baton, "In the outage.").await;
    let offline = conversation.provider.generations().pop().unwrap();
    assert!(!offline.body.to_string().contains("session_handoff"));
    store.no_reads.store(false, Ordering::SeqCst);
    conversation.leaves_thinking_out_once(&baton).await;
}

/// The other way round: the thinking is bound to hidden calls that were lost with the store. The sentinel's seal still proves
/// the handoff before them.
#[tokio::test]
async fn thinking_after_hidden_calls_that_are_lost_is_left_out() {
    let store = FlakyStore::new(memory());
    let (mut conversation, baton) = WithHiddenCall::start(&store, Some(handoff())).await;
    conversation.think(&baton, "Before the loss.").await;
    let baton = Baton::start(config(&conversation.provider.url()), memory());
    conversation.leaves_thinking_out_once(&baton).await;
}
