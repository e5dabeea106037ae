//! A provider rejects the thinking of a cut request, because something before it has changed.
//!
//! baton repeats the request without that thinking, and every later request up to the next cut has the same
//! view. baton counts thinking that a provider drops without an error.

use std::sync::Arc;

use baton_llm::state::journal::JournalReader;
use baton_llm::state::store::SharedStore;
use baton_llm::state::telemetry::{ExchangeEvent, Metrics, ThinkingRetry};
use baton_strict::{Complaint, Received, Reply, Rule};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::conversations::shared;
use crate::harness::redis::RedisServer;
use crate::harness::texts::assert_contains;
use crate::harness::{memory, sqlite, temp};
use crate::matrix::fixture::{Fixture, handoff};
use crate::matrix::journaled::Journaled;
use crate::matrix::talk::Talk;
use crate::matrix::variants::{ANTHROPIC, GEMINI, RESPONSES, Variant};

/// Starts an agent, whose system prompt can change.
async fn begun(store: SharedStore) -> Journaled {
    Journaled::over(ANTHROPIC, [], store, temp(), |_| {}).await
}

/// Returns an agent after a handoff, whose model is within a loop of tools and has thought twice.
async fn stretch(store: SharedStore) -> Journaled {
    let mut run = begun(store).await;
    let talk = &mut run.fixture;
    talk.push(handoff());
    talk.says("Go on.", thought("One.").say("Fresh.")).await;
    talk.history.push(talk.user("Go on."));
    talk.runs(reads("Two."), "fn main() {}").await;
    run
}

fn says_in_system(talk: &mut Talk, system: &'static str) {
    talk.edit = Box::new(move |body| body["system"] = json!(system));
}

/// Sends the transcript. Returns the requests that it took.
async fn requests(talk: &mut Talk) -> Vec<Arc<Received>> {
    let before = talk.provider.generations().len();
    talk.goes_on().await;
    talk.provider.generations().split_off(before)
}

/// Returns the requests that the provider rejected because of their thinking.
fn refused(talk: &Talk) -> Vec<usize> {
    let complaints = talk.provider.complaints();
    assert!(complaints.iter().all(|complaint| complaint.rule == Rule::Binding));
    let mut all: Vec<usize> = complaints.iter().map(|complaint| complaint.request).collect();
    all.dedup();
    all
}

/// The event of this exchange, and what `baton show` says of it.
async fn shown(run: &Journaled, count: usize) -> (ExchangeEvent, String) {
    let query: JournalReader = run.query(count).await;
    let event = run.fixture.baton.events(count).await.pop().unwrap();
    let notes = query.exchange(&event.id).unwrap().unwrap().notes;
    (event, notes.join("\n"))
}

#[track_caller]
fn assert_counted(events: &[ExchangeEvent], line: &str) {
    let metrics = Metrics::new();
    events.iter().for_each(|event| metrics.record(event));
    assert!(metrics.text().unwrap().lines().any(|found| found == line));
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking(text)
}

fn reads(text: &str) -> Reply {
    thought(text).call("read_file", json!({"path": "a.rs"}))
}

/// Returns the thinking in a request, in order.
fn thinking(seen: &Received) -> Vec<String> {
    let blocks = seen
        .messages()
        .iter()
        .filter_map(|message| message["content"].as_array());
    let blocks = blocks.flatten().filter_map(|block| block["thinking"].as_str());
    blocks.map(str::to_owned).collect()
}

/// The system prompt changes in the middle: one request is rejected, and later ones are accepted at once.
async fn recovers(talk: &mut Talk) {
    says_in_system(talk, "You are another agent.");
    talk.push(thought("Three.").say("Read."));
    let sent = requests(talk).await;
    let [first, taken] = &sent[..] else {
        panic!("{} requests", sent.len());
    };
    assert_eq!(thinking(first), ["One.", "Two."]);
    assert_eq!(thinking(taken), [""; 0]);
    assert_eq!(refused(talk), [first.number]);
    let calls = taken.turns().iter().map(|turn| turn.calls.len()).sum::<usize>();
    assert_eq!(calls, 1, "the call stays, with its result");
}

/// Asserts that the next request's view begins with the view of the previous one.
async fn goes_on(talk: &mut Talk, kept: &[&str]) {
    let refusals = refused(talk);
    let before = talk.last().messages().to_vec();
    talk.push(thought("Later.").say("Done."));
    talk.history.push(talk.user("And the tests."));
    let sent = requests(talk).await;
    assert_eq!(sent.len(), 1, "answered at once");
    assert_eq!(sent[0].messages()[..before.len()], before);
    assert_eq!(thinking(&sent[0]), kept);
    assert_eq!(refused(talk), refusals);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_request_is_sent_once_more_without_its_thinking_and_later_ones_have_that_view() {
    let mut run = stretch(memory()).await;
    recovers(&mut run.fixture).await;
    let (event, notes) = shown(&run, 3).await;
    assert_eq!(event.thinking_retry, Some(ThinkingRetry::Accepted));
    assert_counted(
        &[event],
        r#"baton_thinking_retries_total{wire="anthropic",outcome="accepted"} 1"#,
    );
    assert_contains(
        &notes,
        "Leg 1: Upstream responded with 400, and baton sent another request.",
    );
    assert_contains(&notes, "Leg 2: baton left out thinking that upstream had refused");

    goes_on(&mut run.fixture, &["Three."]).await;
    let (event, notes) = shown(&run, 4).await;
    assert_eq!(event.thinking_retry, None);
    assert_contains(&notes, "thinking that upstream had refused");
    goes_on(&mut run.fixture, &["Three.", "Later."]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_view_is_kept_over_a_restart() {
    let dir = temp();
    let mut run = stretch(sqlite(dir.path())).await;
    recovers(&mut run.fixture).await;
    run.fixture.baton = run.replica(sqlite(dir.path()));
    goes_on(&mut run.fixture, &["Three."]).await;
}

/// With a store on a server.
mod redis {
    use super::*;

    /// Another process over the same store has the same view.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn replicas_keep_the_view() {
        let server = RedisServer::start(&[]);
        let mut run = stretch(shared(&server.url(), "baton")).await;
        let second = run.replica(shared(&server.url(), "baton"));
        let first = std::mem::replace(&mut run.fixture.baton, second);
        recovers(&mut run.fixture).await;
        // The first process has the earlier state of the conversation in memory.
        run.fixture.baton = first;
        goes_on(&mut run.fixture, &["Three."]).await;
    }
}

/// A second mismatch removes later thinking as well. A handoff ends all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mismatch_costs_one_request_and_a_cut_begins_afresh() {
    let mut run = stretch(memory()).await;
    let talk = &mut run.fixture;
    recovers(talk).await;
    says_in_system(talk, "You are a third agent.");
    talk.push(thought("Four.").say("Tested."));
    talk.history.push(talk.user("And the tests."));
    let sent = requests(talk).await;
    assert_eq!([thinking(&sent[0]), thinking(&sent[1])], [vec!["Three."], vec![]]);
    goes_on(talk, &["Four."]).await;
    let refusals = refused(talk);

    talk.push(handoff());
    talk.says("Go on.", thought("Five.").say("Afresh.")).await;
    talk.says("Go on.", thought("Six.").say("On.")).await;
    assert_eq!(thinking(&talk.last()), ["Five."]);
    assert_eq!(refused(talk), refusals);
}

/// A hidden call that waits there stays in the view, and fires after the retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_call_stays_where_its_thinking_is_left_out() {
    let mut run = begun(memory()).await;
    let talk = &mut run.fixture;
    talk.push(handoff());
    talk.says("Go on.", thought("One.").say("Fresh.")).await;
    talk.history.push(talk.user("Go on."));
    let queued = json!({"prompt": "Goal: the writer."});
    talk.runs(reads("Two.").call("session_handoff", queued), "fn main() {}")
        .await;
    says_in_system(talk, "You are another agent.");
    talk.push(thought("Three.").say("Read."));
    talk.push(thought("Four.").say("Fresh again."));
    let sent = requests(talk).await;
    assert_eq!((sent.len(), refused(talk)), (3, vec![sent[0].number]));
    let view = json!(sent[1].messages()).to_string();
    assert_eq!(thinking(&sent[1]), [""; 0]);
    assert_contains(&view, "session_handoff");
    assert_contains(&view, "Handoff queued");
    assert_eq!(sent[2].messages()[0]["content"], "Goal: the writer.");
}

/// The error that the API returns.
fn mismatch(which: &str) -> Reply {
    let message = "Invalid `signature` in `thinking` block. The block is bound to a different conversation.";
    Reply::status(400, format!("{which}: {message}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_tried_once_and_the_providers_own_error_is_relayed() {
    let mut run = stretch(memory()).await;
    let talk = &mut run.fixture;
    talk.push(mismatch("first"));
    talk.push(mismatch("second"));
    let response = talk.sends().await;
    assert_eq!((response.status, talk.script.left()), (400, 0));
    assert_contains(&response.text(), "first: Invalid");
    let event = talk.baton.events(3).await.pop().unwrap();
    assert_eq!(event.thinking_retry, Some(ThinkingRetry::Refused));
    // If the retry gets an overload error, the agent retries.
    talk.push(mismatch("third"));
    talk.push(Reply::status(529, "Overloaded"));
    let response = talk.sends().await;
    assert_eq!((response.status, talk.script.left()), (529, 0));
    // The retry did not help, so later requests keep the thinking.
    talk.push(thought("Three.").say("Read."));
    let sent = requests(talk).await;
    assert_eq!(sent.len(), 1);
    assert_eq!(thinking(&sent[0]), ["One.", "Two."]);
    assert_eq!(talk.provider.complaints(), []);
}

/// Without thinking there is nothing to remove, and another 400 has a different cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_errors_are_relayed_at_once() {
    let mut talk = Talk::opened(Fixture::new(ANTHROPIC, []).await);
    talk.push(handoff());
    talk.says("Go on.", "Fresh.").await;
    talk.history.push(talk.user("Go on."));
    for reply in [mismatch("first"), Reply::status(400, "max_tokens: too large")] {
        talk.push(reply);
        let response = talk.sends().await;
        assert_eq!((response.status, talk.script.left()), (400, 0));
    }
}

/// Thinking that the provider drops without an error: in a stream, in one piece, and in a later leg.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thinking_that_is_dropped_silently_is_counted_and_shown() {
    let mut run = stretch(memory()).await;
    let talk = &mut run.fixture;
    talk.variant = ANTHROPIC.with_headers(&[("anthropic-beta", "thinking-binding-controls-2026-08-01")]);
    talk.edit = Box::new(|body| {
        body["system"] = json!("You are another agent.");
        body["thinking"]["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
    });
    for stream in [true, false] {
        talk.stream = stream;
        talk.push(Reply::text("Read."));
        // The agent is told, too.
        assert_contains(&talk.sends().await.text(), "thinking_dropped");
    }
    // A refused call: the second leg has the same thinking before it.
    talk.push(Reply::new().call("session_handoff", json!({"prompt": ""})));
    talk.push(Reply::text("Then not."));
    talk.sends().await;
    let events = talk.baton.events(5).await;
    let dropped: Vec<u32> = events.iter().map(|event| event.dropped_for_prefix).collect();
    assert_eq!(dropped, [0, 0, 2, 2, 4]);
    assert_counted(
        &events,
        r#"baton_thinking_dropped_total{wire="anthropic",reason="prefix"} 8"#,
    );
    assert_eq!(talk.provider.complaints(), []);
    let notes = run.query(5).await.exchange(&events[2].id).unwrap().unwrap().notes;
    assert_contains(&notes.join("\n"), "Upstream dropped 2 blocks of thinking");
}

/// Content of another account or service that the provider cannot read: OpenAI's encrypted reasoning and
/// Gemini's signatures.
mod foreign {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Members that only the provider that created them can read.
    const SEALED: [&str; 2] = ["encrypted_content", "thoughtSignature"];

    /// Changes a transcript as if another provider had created it.
    fn made_elsewhere(value: &mut Value) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(made_elsewhere),
            Value::Object(fields) => {
                for (key, field) in fields {
                    match SEALED.contains(&key.as_str()) && field.is_string() {
                        true => *field = json!("Zm9yZWlnbg=="),
                        false => made_elsewhere(field),
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns a conversation whose model has thought and called a tool after a handoff.
    async fn called(variant: Variant) -> Talk {
        let mut talk = Talk::opened(Fixture::new(variant, []).await);
        talk.push(handoff());
        talk.says("Go on.", thought("So.").say("Fresh.")).await;
        talk.history.push(talk.user("Go on."));
        talk.runs(reads("Let me see."), "fn main() {}").await;
        talk
    }

    async fn is_left_out(variant: Variant) {
        let mut talk = called(variant).await;
        let before = talk.history.clone();
        talk.history.iter_mut().for_each(made_elsewhere);
        assert_ne!(talk.history, before, "something is sealed");

        let asked = talk.provider.generations().len();
        talk.runs(reads("Let me see."), "fn main() {}").await;
        let sent = talk.provider.generations().split_off(asked);
        let complaints = talk.provider.complaints();
        assert_eq!(sent.len(), 2, "{complaints:?}");
        let foreign = |c: &Complaint| c.rule == Rule::ForeignThinking && c.request == sent[0].number;
        assert!(
            !complaints.is_empty() && complaints.iter().all(foreign),
            "{complaints:?}"
        );
        let event = talk.baton.events(3).await.pop().unwrap();
        assert_eq!(event.thinking_retry, Some(ThinkingRetry::Accepted));

        // New thinking stays, and the view of the previous request is kept.
        let view = sent[1].messages();
        talk.push(Reply::text("Read."));
        talk.goes_on().await;
        let last = talk.last();
        assert_eq!(last.messages()[..view.len()], *view);
        let sealed = json!(last.messages()[view.len()..]).to_string();
        assert!(SEALED.iter().any(|key| sealed.contains(key)), "{sealed}");
        assert_eq!(talk.provider.complaints(), complaints);
    }

    /// OpenAI drops reasoning after another prefix, and still responds.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reasoning_that_is_dropped_silently_is_counted() {
        let mut talk = called(RESPONSES).await;
        let edited = talk
            .history
            .iter()
            .rposition(|item| item["role"] == "user")
            .unwrap();
        talk.history[edited] = talk.user("Go on, please.");
        for (n, stream) in [(3, true), (4, false)] {
            talk.stream = stream;
            talk.push(Reply::text("Read."));
            talk.sends().await;
            let event = talk.baton.events(n).await.pop().unwrap();
            assert_eq!((event.dropped_for_prefix, event.thinking_retry), (1, None));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reasoning_is_left_out_of_responses() {
        is_left_out(RESPONSES).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn signatures_are_stood_in_for_on_gemini() {
        is_left_out(GEMINI).await;
    }
}
