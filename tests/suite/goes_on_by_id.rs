//! Agents that name the response which they continue (Responses, `previous_response_id`): the provider stores
//! the transcript, with hidden calls in it that only the proxy can answer.

use baton_core::record::HiddenResult;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::texts::{assert_contains, assert_ends};
use crate::harness::{sqlite, temp};
use crate::matrix::fixture::{Fixture, PROMPT};
use crate::matrix::variants::{self, Answer};

const HEADERS: &[(&str, &str)] = &[("authorization", "Bearer sk-agent"), ("x-session-id", "one")];

/// An agent, and the response that it continues.
struct Chained {
    stage: Fixture,
    dir: TempDir,
    previous: Value,
    headers: &'static [(&'static str, &'static str)],
}

impl Chained {
    async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let dir = temp();
        let store = sqlite(dir.path());
        let stage = Fixture::with(variants::RESPONSES, replies, store, |config| {
            config.handoff.retries = 0;
        })
        .await;
        let previous = Value::Null;
        Self {
            stage,
            dir,
            previous,
            headers: HEADERS,
        }
    }

    /// Starts another process with the same store.
    fn restart(&mut self) {
        self.stage
            .restart_with(sqlite(self.dir.path()), |config| config.handoff.retries = 0);
    }

    async fn ask(&mut self, input: &[Value], stream: bool) -> Answer {
        let mut body = (variants::RESPONSES.body)(input, stream);
        body["store"] = json!(true);
        if !self.previous.is_null() {
            body["previous_response_id"] = self.previous.clone();
        }
        let response = self
            .stage
            .baton
            .post("/v1/responses", self.headers, body.to_string().into())
            .await;
        assert_eq!(response.status, 200, "{}", response.text());
        let answer = (variants::RESPONSES.parse)(&response.raw, stream).unwrap();
        let text = response.text();
        let id = text
            .split("\"resp_")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap();
        self.previous = format!("resp_{id}").into();
        answer
    }

    /// The response to a command, for which nothing is sent upstream.
    async fn command(&mut self, text: &str) -> String {
        self.say(text, false).await.text
    }

    async fn say(&mut self, text: &str, stream: bool) -> Answer {
        let said = self.stage.user(text);
        self.ask(&[said], stream).await
    }

    /// The latest request that upstream received.
    fn sent(&self) -> Value {
        self.stage.provider.generations().last().unwrap().body.clone()
    }
}

fn output(call_id: &str, answer: &HiddenResult) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": answer.text()})
}

fn calls(id: &str, arguments: Value) -> Reply {
    Reply::new().call_as(id.to_owned(), "session_handoff", arguments)
}

/// A refused call was answered, and the leg with its result is lost. The result is sent with the agent's next
/// request, whichever process receives it, and with every later one that continues from there.
#[tokio::test]
async fn a_result_that_never_arrived_is_sent_with_the_next_request() {
    for stream in [true, false] {
        let lost = Reply::status(500, "busy");
        let two =
            calls("hid_1", json!({"prompt": " "})).call_as("hid_2".to_owned(), "session_handoff", json!({}));
        let mut agent = Chained::new([Reply::text("One."), two, lost]).await;
        agent.say("Mend it.", stream).await;
        let first = agent.previous.clone();
        agent.say("More.", stream).await;
        let shown = agent.previous.clone();
        assert_ne!(shown, first);
        let owed = [
            output("hid_1", &HiddenResult::EMPTY_PROMPT),
            output("hid_2", &HiddenResult::NOT_TAKEN),
        ];
        for restarted in [false, true] {
            if restarted {
                agent.restart();
            }
            agent.stage.push(Reply::text("Well."));
            agent.previous = shown.clone();
            agent.say("Go on.", stream).await;
            let sent = agent.sent();
            let wanted = [&owed[..], &[agent.stage.user("Go on.")]].concat();
            assert_eq!(sent["input"], json!(wanted), "{stream} {restarted}");
            assert_eq!(sent["previous_response_id"], shown);
        }
        // Upstream has the results by now.
        agent.stage.push(Reply::text("Good."));
        agent.say("And on.", stream).await;
        assert_eq!(agent.sent()["input"], json!([agent.stage.user("And on.")]));
        agent.stage.assert_clean();
    }
}

/// A dropped call, here in a truncated turn, is part of the response that upstream has stored.
#[tokio::test]
async fn a_dropped_call_is_answered_with_the_next_request() {
    for stream in [true, false] {
        let cut_off = calls("hid_1", json!({"prompt": PROMPT})).stop(baton_strict::Stop::MaxTokens);
        let mut agent = Chained::new([Reply::text("One."), cut_off]).await;
        agent.say("Mend it.", stream).await;
        agent.say("More.", stream).await;
        agent.stage.push(Reply::text("Well."));
        agent.say("Go on.", stream).await;
        let wanted = [
            output("hid_1", &HiddenResult::CUT_OFF),
            agent.stage.user("Go on."),
        ];
        assert_eq!(agent.sent()["input"], json!(wanted));
        agent.stage.assert_clean();
    }
}

/// The pending call is in a response that later requests do not contain. It still takes effect at the end of
/// its turn.
#[tokio::test]
async fn a_handoff_that_waits_fires_at_the_end_of_a_turn_that_the_provider_holds() {
    for stream in [true, false] {
        let mixed = Reply::new()
            .call_as("call_1".to_owned(), "read_file", json!({"path": "a"}))
            .call_as("hid_1".to_owned(), "session_handoff", json!({"prompt": PROMPT}));
        let reads = Reply::new().call_as("call_2".to_owned(), "read_file", json!({"path": "b"}));
        let mut agent = Chained::new([Reply::text("One."), mixed, reads]).await;
        agent.say("Mend it.", stream).await;
        agent.say("More.", stream).await;
        let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "text"});
        agent.ask(&[result("call_1")], stream).await;
        let once = [output("hid_1", &HiddenResult::QUEUED), result("call_1")];
        assert_eq!(agent.sent()["input"], json!(once));
        agent.restart();
        agent.stage.push(Reply::text("That was all."));
        agent.stage.push(Reply::text("Fresh."));
        let answer = agent.ask(&[result("call_2")], stream).await;
        assert_contains(&answer.text, PROMPT);
        assert_ends(&answer.text, "Fresh.");
        assert_eq!(agent.sent().get("previous_response_id"), None);
        agent.stage.push(Reply::text("Next."));
        agent.say("Go on.", stream).await;
        assert_eq!(agent.sent()["input"], json!([agent.stage.user("Go on.")]));
        agent.stage.assert_clean();
    }
}

/// A synthetic response may be continued by its id. After a response about an unknown handoff the transcript
/// is unchanged; after a resumed handoff the model knows only that handoff.
#[tokio::test]
async fn an_answer_of_our_own_is_continued_by_its_id() {
    let id = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    for stream in [true, false] {
        let mut agent = Chained::new([Reply::text("One.")]).await;
        agent.say(&format!("[[handoff-resume:{id}]]"), stream).await;
        agent.say("Mend it.", stream).await;
        assert_eq!(agent.sent().get("previous_response_id"), None);
        let first = agent.previous.clone();
        agent.say(&format!("[[handoff-resume:{id}]]"), stream).await;
        agent.stage.push(calls("hid_1", json!({"prompt": PROMPT})));
        agent.stage.push(Reply::text("Fresh."));
        let fired = agent.say("More.", stream).await;
        let handoff = fired.text.split("[[handoff-resume:").nth(1).unwrap();
        let resume = format!("::handoff resume {}", &handoff[..id.len()]);

        agent.previous = first;
        agent.restart();
        agent.say(&resume, stream).await;
        agent.stage.push(Reply::text("Well."));
        agent.say("Go on.", stream).await;
        let sent = agent.sent();
        assert_eq!(sent.get("previous_response_id"), None);
        let wanted = [agent.stage.user(PROMPT), agent.stage.user("Go on.")];
        assert_eq!(sent["input"], json!(wanted));
        agent.stage.assert_clean();
    }
}

/// Requests of an agent that names no session are one conversation, by the ids of its responses.
#[tokio::test]
async fn requests_that_continue_a_response_are_one_conversation() {
    let hands_over = calls("hid_1", json!({"prompt": PROMPT}));
    let mut agent = Chained::new([Reply::text("One."), hands_over, Reply::text("Fresh.")]).await;
    agent.headers = &HEADERS[..1];
    agent.say("Mend it.", false).await;
    let first = agent.previous.clone();
    assert_contains(
        &agent.command("::handoff").await,
        "the provider holds this transcript",
    );
    agent.command("::pin Keep the lamp lit.").await;
    agent.restart();
    assert_contains(&agent.command("::handoff status").await, "One text is pinned.");
    agent.say("More.", true).await;
    assert_contains(&agent.sent()["input"].to_string(), "Keep the lamp lit.");
    agent.stage.push(Reply::text("Next."));
    agent.say("Go on.", false).await;
    agent.restart();
    let status = agent.command("::handoff status").await;
    assert_contains(&status, "the model sees the handoff ");
    assert_contains(&status, "Conversation: stored by the provider.");
    // A response before the handoff can be continued as well.
    agent.previous = first;
    let status = agent.command("::handoff status").await;
    assert_contains(
        &status,
        "the model sees the whole history.\n\n- Conversation: stored by the provider.",
    );
    assert_contains(&status, "One text is pinned.");
    agent.stage.assert_clean();
}

/// Nothing is pending after a response that the provider does not store.
#[tokio::test]
async fn what_is_not_stored_is_owed_nothing() {
    let store = crate::harness::memory();
    let cut_off = calls("hid_1", json!({"prompt": PROMPT})).stop(baton_strict::Stop::MaxTokens);
    let stage = Fixture::with(variants::RESPONSES, [cut_off], store.clone(), |_| {}).await;
    let answer = stage.send(&stage.history(), false).await;
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(
        store.response_id(baton_core::record::LOCAL, &id).await.unwrap(),
        None
    );
    stage.assert_clean();
}
