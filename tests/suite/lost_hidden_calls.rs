//! Thinking is bound to the transcript that the model saw. Hidden calls are part of it, and depend on the
//! store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use baton_strict::{Reply, Rule};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::fixture::FlakyStore;
use crate::harness::memory;
use crate::matrix::fixture::{Fixture, handoff};
use crate::matrix::talk::Talk;
use crate::matrix::variants::ANTHROPIC;

/// Starts a conversation with a hidden call next to one of the agent's calls, which has its result.
///
/// With `behind_handoff`, that response follows a handoff.
async fn begun(store: &Arc<FlakyStore>, behind_handoff: bool) -> Talk {
    let mut talk = Talk::new(Fixture::with(ANTHROPIC, [], store.clone(), |_| {}).await);
    if behind_handoff {
        talk.says("warm up", "Hi.").await;
        talk.push(handoff());
    }
    talk.history.push(talk.user("Read it."));
    let refused = Reply::text("Look.").call("session_handoff", json!({"prompt": ""}));
    talk.runs(refused.call("read_file", json!({"path": "a"})), "ok")
        .await;
    talk
}

/// Sends the transcript. The response contains thinking.
async fn thinks(talk: &mut Talk) {
    talk.push(Reply::new().thinking("What comes next?").say("On."));
    talk.goes_on().await;
}

/// The provider rejects thinking that is bound to another transcript.
///
/// The agent gets the response to the last of `requests` requests, and the next turn needs only one. Both
/// have the tool.
async fn leaves_thinking_out_once(talk: &mut Talk, requests: usize) {
    for requests in [requests, 1] {
        let sent = talk.provider.generations().len();
        let complaints = talk.provider.complaints().len();
        talk.history.push(talk.user("Go on."));
        thinks(talk).await;
        assert_eq!(talk.provider.generations().len() - sent, requests);
        assert!(talk.last().offers_handoff());
        let mut new = talk.provider.complaints().split_off(complaints);
        // A history unknown to baton is first sent without the tool.
        new.retain(|complaint| complaint.rule != Rule::ToolsChanged);
        assert!(
            new.iter().all(|complaint| complaint.rule == Rule::Binding),
            "{new:?}"
        );
        assert_eq!(new.len(), requests - 1, "{new:?}");
    }
}

/// Thinking from an outage is bound to a transcript without the hidden calls and without the tool.
///
/// Once they are back the thinking is removed. The tool stays, because without it the provider rejects the
/// hidden calls.
#[tokio::test]
async fn thinking_of_an_outage_is_left_out_once_the_hidden_calls_are_back() {
    let store = FlakyStore::new(memory());
    let mut talk = begun(&store, false).await;
    // A new process, which has no records while the store is offline.
    talk.restart(store.clone());
    store.no_reads.store(true, Ordering::SeqCst);
    thinks(&mut talk).await;
    assert!(!talk.last().body.to_string().contains("session_handoff"));
    store.no_reads.store(false, Ordering::SeqCst);
    leaves_thinking_out_once(&mut talk, 2).await;
}

/// The opposite case: thinking is bound to hidden calls that were lost with the store.
async fn lost(behind_handoff: bool, requests: usize) {
    let mut talk = begun(&FlakyStore::new(memory()), behind_handoff).await;
    thinks(&mut talk).await;
    talk.restart(memory());
    leaves_thinking_out_once(&mut talk, requests).await;
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
