//! A provider rejects the thinking of a cut request, because something before it has changed.
//!
//! baton repeats the request without that thinking, and every later request up to the next cut has the same
//! view. baton counts thinking that a provider drops without an error.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_llm::state::config::Config;
use baton_llm::state::journal::{self, JournalReader, Recorder};
use baton_llm::state::store::SharedStore;
use baton_llm::state::telemetry::{ExchangeEvent, Metrics, ThinkingRetry};
use baton_strict::{Options, Queue, Received, Reply, Rule, Strict};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::conversations::shared;
use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{assistant, handoff, history, then};
use crate::harness::redis::RedisServer;
use crate::harness::texts::assert_contains;
use crate::harness::{self, AgentWire, Baton, Message, RawResponse, memory, sqlite, temp};

/// An agent and its provider, with a system prompt that can change.
struct Agent {
    script: Queue,
    provider: Strict,
    baton: Baton,
    config: Config,
    recorder: Recorder,
    dir: tempfile::TempDir,
    system: &'static str,
    /// Whether the provider drops mismatching thinking instead of rejecting it.
    drops: bool,
}

impl Agent {
    async fn new(store: SharedStore) -> Self {
        let script = Queue::new([]);
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let dir = temp();
        let mut config = harness::config(&provider.url());
        config.state_dir = dir.path().to_owned();
        config.journal.enabled = true;
        let recorder = journal::start(&config.journal, dir.path(), &config.handoff.preamble_tags).unwrap();
        Self {
            script,
            baton: Baton::journaled(config.clone(), store, harness::KEY, recorder.clone()),
            provider,
            config,
            recorder,
            dir,
            system: "You are an agent.",
            drops: false,
        }
    }

    /// Replaces the proxy by another process over this store.
    fn restart(&mut self, store: SharedStore) {
        self.baton = Baton::journaled(self.config.clone(), store, harness::KEY, self.recorder.clone());
    }

    async fn ask(&self, history: &[Value], stream: bool) -> RawResponse {
        let mut body = Anthropic.body(history, stream);
        body["system"] = json!(self.system);
        let mut headers = Anthropic.headers().to_vec();
        if self.drops {
            body["thinking"]["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
            headers.push(("anthropic-beta", "thinking-binding-controls-2026-08-01"));
        }
        let body = body.to_string().into();
        self.baton.post(Anthropic.path(), &headers, body).await
    }

    /// Sends a streamed turn. Returns its complete response and the requests that it took.
    async fn turn(&self, history: &[Value]) -> (Message, Vec<Arc<Received>>) {
        let before = self.provider.generations().len();
        let response = self.ask(history, true).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let message = Anthropic.parse(&response.raw, true, false).unwrap();
        assert!(message.ended, "{}", response.text());
        (message, self.provider.generations().split_off(before))
    }

    /// Returns the transcript of a branch after a handoff whose model is within a loop of tools and has
    /// thought twice.
    async fn stretch(&self) -> Vec<Value> {
        self.script.push(handoff());
        self.script.push(thought("One.").say("Fresh."));
        let (fresh, _) = self.turn(&history()).await;
        let transcript = then(&history(), &fresh, "Go on.");
        self.script.push(reads("Two.", "toolu_a"));
        let (reads, _) = self.turn(&transcript).await;
        ran(&transcript, &reads, "toolu_a")
    }

    /// Returns the requests that the provider rejected because of their thinking.
    fn refused(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.provider.complaints().iter().map(|c| c.request).collect();
        let binding = |rule: Rule| matches!(rule, Rule::Binding);
        assert!(self.provider.complaints().iter().all(|c| binding(c.rule)));
        all.dedup();
        all
    }

    async fn event(&self, count: usize) -> ExchangeEvent {
        self.baton.events(count).await.pop().unwrap()
    }

    /// Returns the output of `baton show` for this exchange.
    async fn shown(&self, event: &ExchangeEvent) -> Vec<String> {
        let recorder = self.recorder.clone();
        let flushed = tokio::task::spawn_blocking(move || recorder.flush(Duration::from_secs(30)));
        assert!(flushed.await.unwrap());
        let query = JournalReader::open(self.dir.path()).unwrap().unwrap();
        query.exchange(&event.id).unwrap().unwrap().notes
    }
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking(text)
}

fn reads(text: &str, id: &str) -> Reply {
    thought(text).call_as(id, "read_file", json!({"path": "a.rs"}))
}

/// Returns the transcript with the call's result.
fn ran(transcript: &[Value], message: &Message, id: &str) -> Vec<Value> {
    let result = json!({"type": "tool_result", "tool_use_id": id, "content": "fn main() {}"});
    let result = json!({"role": "user", "content": [result]});
    [transcript, &[assistant(&message.content), result]].concat()
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
async fn recovers(agent: &Agent, transcript: &[Value]) -> Vec<Value> {
    agent.script.push(thought("Three.").say("Read."));
    let (message, sent) = agent.turn(transcript).await;
    let [refused, taken] = sent.as_slice() else {
        panic!("{} requests", sent.len());
    };
    assert_eq!(thinking(refused), ["One.", "Two."]);
    assert_eq!(thinking(taken), Vec::<String>::new());
    assert_eq!(agent.refused(), [refused.number]);
    let calls = taken.turns().iter().map(|turn| turn.calls.len()).sum::<usize>();
    assert_eq!(calls, 1, "the call stays, with its result");
    then(transcript, &message, "And the tests.")
}

/// Asserts that the next request's view begins with the view of the previous one.
async fn goes_on(agent: &Agent, transcript: &[Value], kept: &[&str]) -> Vec<Value> {
    let refused = agent.refused();
    let before = agent.provider.generations().last().unwrap().messages().to_vec();
    agent.script.push(thought("Later.").say("Done."));
    let (message, sent) = agent.turn(transcript).await;
    assert_eq!(sent.len(), 1, "answered at once");
    assert_eq!(sent[0].messages()[..before.len()], before);
    assert_eq!(thinking(&sent[0]), kept);
    assert_eq!(agent.refused(), refused);
    then(transcript, &message, "More.")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_request_is_sent_once_more_without_its_thinking_and_later_ones_have_that_view() {
    let mut agent = Agent::new(memory()).await;
    let transcript = agent.stretch().await;
    agent.system = "You are another agent.";
    let next = recovers(&agent, &transcript).await;
    let event = agent.event(3).await;
    assert_eq!(event.thinking_retry, Some(ThinkingRetry::Accepted));
    let metrics = Metrics::new();
    metrics.record(&event);
    let accepted = r#"baton_thinking_retries_total{wire="anthropic",outcome="accepted"} 1"#;
    assert!(metrics.text().unwrap().lines().any(|line| line == accepted));
    let notes = agent.shown(&event).await.join("\n");
    let part = "Leg 1: Upstream responded with 400, and baton sent another request.";
    assert_contains(&notes, part);
    assert_contains(&notes, "Leg 2: baton left out thinking that upstream had refused");

    let next = goes_on(&agent, &next, &["Three."]).await;
    let event = agent.event(4).await;
    assert_eq!(event.thinking_retry, None);
    let notes = agent.shown(&event).await.join("\n");
    assert!(notes.contains("thinking that upstream had refused"), "{notes}");
    goes_on(&agent, &next, &["Three.", "Later."]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_view_is_kept_over_a_restart() {
    let dir = temp();
    let store = |dir: &Path| sqlite(dir);
    let mut agent = Agent::new(store(dir.path())).await;
    let transcript = agent.stretch().await;
    agent.system = "You are another agent.";
    let next = recovers(&agent, &transcript).await;
    agent.restart(store(dir.path()));
    goes_on(&agent, &next, &["Three."]).await;
}

/// With a store on a server.
mod redis {
    use super::*;

    /// Another process over the same store has the same view.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn replicas_keep_the_view() {
        let server = RedisServer::start(&[]);
        let mut agent = Agent::new(shared(&server.url(), "baton")).await;
        let transcript = agent.stretch().await;
        let second = Baton::journaled(
            agent.config.clone(),
            shared(&server.url(), "baton"),
            harness::KEY,
            agent.recorder.clone(),
        );
        let first = std::mem::replace(&mut agent.baton, second);
        agent.system = "You are another agent.";
        let next = recovers(&agent, &transcript).await;
        // The first process has the earlier state of the conversation in memory.
        agent.baton = first;
        goes_on(&agent, &next, &["Three."]).await;
    }
}

/// A second mismatch removes later thinking as well. A handoff ends all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mismatch_costs_one_request_and_a_cut_begins_afresh() {
    let mut agent = Agent::new(memory()).await;
    let transcript = agent.stretch().await;
    agent.system = "You are another agent.";
    let next = recovers(&agent, &transcript).await;
    agent.system = "You are a third agent.";
    agent.script.push(thought("Four.").say("Tested."));
    let (message, sent) = agent.turn(&next).await;
    assert_eq!(
        sent.iter().map(|seen| thinking(seen)).collect::<Vec<_>>(),
        [vec!["Three."], vec![]]
    );
    let next = goes_on(&agent, &then(&next, &message, "Go on."), &["Four."]).await;
    let refused = agent.refused();

    agent.script.push(handoff());
    agent.script.push(thought("Five.").say("Afresh."));
    let (message, _) = agent.turn(&next).await;
    let next = then(&next, &message, "Go on.");
    agent.script.push(thought("Six.").say("On."));
    let (_, sent) = agent.turn(&next).await;
    assert_eq!(
        sent.iter().map(|seen| thinking(seen)).collect::<Vec<_>>(),
        [["Five."]]
    );
    assert_eq!(agent.refused(), refused);
}

/// A hidden call that waits there stays in the view, and fires after the retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_call_stays_where_its_thinking_is_left_out() {
    let mut agent = Agent::new(memory()).await;
    agent.script.push(handoff());
    agent.script.push(thought("One.").say("Fresh."));
    let (fresh, _) = agent.turn(&history()).await;
    let transcript = then(&history(), &fresh, "Go on.");
    let queued = json!({"prompt": "Goal: the writer."});
    agent
        .script
        .push(reads("Two.", "toolu_a").call("session_handoff", queued));
    let (read, _) = agent.turn(&transcript).await;
    let transcript = ran(&transcript, &read, "toolu_a");
    agent.system = "You are another agent.";
    agent.script.push(thought("Three.").say("Read."));
    agent.script.push(thought("Four.").say("Fresh again."));
    let (_, sent) = agent.turn(&transcript).await;
    assert_eq!((sent.len(), agent.refused()), (3, vec![sent[0].number]));
    let view = json!(sent[1].messages()).to_string();
    assert_eq!(thinking(&sent[1]), Vec::<String>::new());
    assert_contains(&view, "session_handoff");
    assert_contains(&view, "Handoff queued");
    assert_eq!(sent[2].messages()[0]["content"], "Goal: the writer.");
}

/// The error that the API returns.
fn mismatch(which: &str) -> Reply {
    Reply::status(
        400,
        format!(
            "{which}: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
        ),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_tried_once_and_the_providers_own_error_is_relayed() {
    let agent = Agent::new(memory()).await;
    let transcript = agent.stretch().await;
    agent.script.push(mismatch("first"));
    agent.script.push(mismatch("second"));
    let before = agent.provider.generations().len();
    let response = agent.ask(&transcript, true).await;
    assert_eq!(response.status, 400);
    assert!(response.text().contains("first: Invalid"), "{}", response.text());
    assert_eq!(agent.provider.generations().len() - before, 2);
    assert_eq!(agent.event(3).await.thinking_retry, Some(ThinkingRetry::Refused));
    // The retry did not help, so later requests keep the thinking.
    agent.script.push(thought("Three.").say("Read."));
    let (_, sent) = agent.turn(&transcript).await;
    assert_eq!(
        sent.iter().map(|seen| thinking(seen)).collect::<Vec<_>>(),
        [["One.", "Two."]]
    );

    // If the retry gets an overload error, the agent retries.
    agent.script.push(mismatch("third"));
    agent.script.push(Reply::status(529, "Overloaded"));
    let response = agent.ask(&transcript, true).await;
    assert_eq!((response.status, agent.script.left()), (529, 0));
    assert_eq!(agent.provider.complaints(), []);
}

/// Without thinking there is nothing to remove, and another 400 has a different cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_errors_are_relayed_at_once() {
    let agent = Agent::new(memory()).await;
    agent.script.push(handoff());
    agent.script.push(Reply::text("Fresh."));
    let (fresh, _) = agent.turn(&history()).await;
    let transcript = then(&history(), &fresh, "Go on.");
    for reply in [mismatch("first"), Reply::status(400, "max_tokens: too large")] {
        agent.script.push(reply);
        let response = agent.ask(&transcript, false).await;
        assert_eq!((response.status, agent.script.left()), (400, 0));
    }
}

/// Thinking that the provider drops without an error: in a stream, in one piece, and in a later leg.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thinking_that_is_dropped_silently_is_counted_and_shown() {
    let mut agent = Agent::new(memory()).await;
    agent.drops = true;
    let transcript = agent.stretch().await;
    agent.system = "You are another agent.";
    for stream in [true, false] {
        agent.script.push(Reply::text("Read."));
        let response = agent.ask(&transcript, stream).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(
            response.text().contains("thinking_dropped"),
            "the agent is told, too"
        );
    }
    // A refused call: the second leg has the same thinking before it.
    agent
        .script
        .push(Reply::new().call("session_handoff", json!({"prompt": ""})));
    agent.script.push(Reply::text("Then not."));
    agent.turn(&transcript).await;
    let events = agent.baton.events(5).await;
    let dropped: Vec<u32> = events.iter().map(|event| event.dropped_for_prefix).collect();
    assert_eq!(dropped, [0, 0, 2, 2, 4]);
    let metrics = Metrics::new();
    events.iter().for_each(|event| metrics.record(event));
    let counted = r#"baton_thinking_dropped_total{wire="anthropic",reason="prefix"} 8"#;
    assert!(metrics.text().unwrap().lines().any(|line| line == counted));
    let notes = agent.shown(&events[2]).await.join("\n");
    assert!(notes.contains("Upstream dropped 2 blocks of thinking"), "{notes}");
    assert_eq!(agent.provider.complaints(), []);
}

/// Content of another account or service that the provider cannot read: OpenAI's encrypted reasoning and
/// Gemini's signatures.
mod foreign {
    use baton_llm::state::telemetry::ThinkingRetry;
    use baton_strict::{Reply, Rule};
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use crate::harness::memory;
    use crate::matrix::fixture::{Fixture, handoff};
    use crate::matrix::variants::{self, Variant};

    /// Members that only the provider that created them can read.
    const SEALED: [&str; 2] = ["encrypted_content", "thoughtSignature"];

    /// Returns the transcript as if another provider had created it.
    fn made_elsewhere(value: &Value) -> Value {
        match value {
            Value::Array(all) => all.iter().map(made_elsewhere).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, field)| {
                    let sealed = SEALED.contains(&key.as_str()) && field.is_string();
                    let field = if sealed {
                        json!("Zm9yZWlnbg==")
                    } else {
                        made_elsewhere(field)
                    };
                    (key.clone(), field)
                });
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    fn reads(path: &str) -> Reply {
        let thought = Reply::new().thinking("Let me see.");
        thought.call("read_file", json!({"path": path}))
    }

    async fn is_left_out(variant: Variant) {
        let stage = Fixture::with(variant, [], memory(), |_| {}).await;
        let history = stage.history();
        stage.push(handoff());
        stage.push(Reply::new().thinking("So.").say("Fresh."));
        let fresh = stage.ask(&history, true).await;
        let transcript = stage.then(&history, &fresh, "Go on.");
        stage.push(reads("a.rs"));
        let answer = stage.ask(&transcript, true).await;
        let transcript = stage.ran(&transcript, &answer);
        let moved: Vec<Value> = transcript.iter().map(made_elsewhere).collect();
        assert_ne!(moved, transcript, "something is sealed");

        stage.push(reads("b.rs"));
        let before = stage.provider.generations().len();
        let answer = stage.ask(&moved, true).await;
        let sent = stage.provider.generations().split_off(before);
        let complaints = stage.provider.complaints();
        assert_eq!(sent.len(), 2, "{complaints:?}");
        let foreign =
            |c: &baton_strict::Complaint| c.rule == Rule::ForeignThinking && c.request == sent[0].number;
        assert!(
            !complaints.is_empty() && complaints.iter().all(foreign),
            "{complaints:?}"
        );
        let event = stage.baton.events(3).await.pop().unwrap();
        assert_eq!(event.thinking_retry, Some(ThinkingRetry::Accepted));

        // New thinking stays, and the view of the previous request is kept.
        let next = stage.ran(&moved, &answer);
        let view = sent[1].messages().to_vec();
        stage.push(Reply::text("Read."));
        stage.ask(&next, true).await;
        let sent = stage.provider.generations();
        let last = sent.last().unwrap();
        assert_eq!(last.messages()[..view.len()], view);
        let sealed = json!(last.messages()[view.len()..]).to_string();
        assert!(SEALED.iter().any(|key| sealed.contains(key)), "{sealed}");
        assert_eq!(stage.provider.complaints(), complaints);
    }

    /// OpenAI drops reasoning after another prefix, and still responds.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reasoning_that_is_dropped_silently_is_counted() {
        let stage = Fixture::with(variants::RESPONSES, [], memory(), |_| {}).await;
        let history = stage.history();
        stage.push(handoff());
        stage.push(Reply::text("Fresh."));
        let fresh = stage.ask(&history, true).await;
        let mut transcript = stage.then(&history, &fresh, "Go on.");
        let edited = transcript.len() - 1;
        stage.push(reads("a.rs"));
        let answer = stage.ask(&transcript, true).await;
        transcript[edited] = stage.user("Go on, please.");
        let transcript = stage.ran(&transcript, &answer);
        for (n, stream) in [(3, true), (4, false)] {
            stage.push(Reply::text("Read."));
            stage.ask(&transcript, stream).await;
            let event = stage.baton.events(n).await.pop().unwrap();
            assert_eq!((event.dropped_for_prefix, event.thinking_retry), (1, None));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reasoning_is_left_out_of_responses() {
        is_left_out(variants::RESPONSES).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn signatures_are_stood_in_for_on_gemini() {
        is_left_out(variants::GEMINI).await;
    }
}
