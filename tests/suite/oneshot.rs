//! Handoffs that the model did not begin.
//!
//! A draft is written after the live request, and the conversation continues after it. On every wire,
//! streamed and in one piece, with the strict provider.

use std::time::Duration;

use baton_core::handoffs::draft::{DraftMethod, DraftRequest};
use baton_core::record::HandoffOrigin;
use baton_llm::state::config::Config;
use baton_llm::state::jobs::drafts::{DraftOrder, DraftRecord, DraftState};
use baton_strict::{Fault, Received, Reply, Stop};
use bytes::Bytes;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::harness::{memory, read_until};
use crate::matrix::fixture::{Fixture, behind_line, fresh, outline};
use crate::matrix::variants::{self, Answer, Variant, on_every_wire_both_ways};

const DOCUMENT: &str =
    "## Goal\nMend the importer, then the exporter.\n\n## Next steps\n1. Open exporter.rs.";

/// A conversation in progress whose next request asks for the exporter.
struct Stage {
    fixture: Fixture,
    history: Vec<Value>,
    key: String,
    stream: bool,
}

impl Stage {
    async fn new(side: Variant, stream: bool, change: impl FnOnce(&mut Config)) -> Self {
        let first = Reply::new().thinking("Hm.").say("Looked.");
        let fixture = Fixture::with(side, [first], memory(), change).await;
        let said = fixture.ask(&fixture.history(), stream).await;
        let history = fixture.then(&fixture.history(), &said, "Now the exporter.");
        let key = fixture.baton.events(1).await[0].conversation.clone().unwrap();
        Self {
            fixture,
            history,
            key,
            stream,
        }
    }

    fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        for reply in replies {
            self.fixture.push(reply);
        }
    }

    fn wants(&self, wanted: impl Into<DraftOrder>) -> Uuid {
        let drafting = &self.fixture.baton.drafting;
        let asked = drafting.request(&self.key, "local", wanted.into(), None);
        asked.unwrap().id
    }

    fn draft(&self, id: Uuid) -> DraftRecord {
        self.fixture.baton.drafting.get(id).unwrap()
    }

    /// Sends the request that the draft is made with.
    async fn ask(&self) -> Answer {
        self.fixture.ask(&self.history, self.stream).await
    }

    /// Returns the requests after the opening one.
    fn legs(&self) -> Vec<Received> {
        let all = self.fixture.provider.generations();
        all.iter().skip(1).map(|leg| (**leg).clone()).collect()
    }

    /// Asserts that nothing was handed over: this request and the next one are sent unchanged.
    ///
    /// The user is told of a draft whose progress was shown, or that a command requested.
    async fn goes_on_as_before(&self, answer: &Answer) {
        let told = answer.text.strip_suffix("Went on.").unwrap();
        if !told.is_empty() {
            let told = behind_line(told).unwrap_or(told);
            assert_begins(told, "baton: no handoff was made: ");
            assert_eq!(told.matches("[[handoff-note:").count(), 1, "{told}");
        }
        let seen = outline(self.legs().last().unwrap());
        assert_eq!(seen.last().unwrap(), "u: Now the exporter.");
        assert_eq!(seen[0], "u: Mend the importer.");
        self.fixture.push(Reply::text("And on."));
        let next = self.fixture.then(&self.history, answer, "More.");
        self.fixture.ask(&next, self.stream).await;
        let later = [&seen[..], &["a: Went on.".to_owned(), "u: More.".to_owned()]].concat();
        assert_eq!(outline(self.legs().last().unwrap()), later);
        assert!(self.fixture.baton.drafting.all_open().is_empty());
        self.fixture.assert_clean();
    }
}

fn user() -> DraftRequest {
    DraftRequest {
        focus: "the exporter".to_owned(),
        force: true,
        ..DraftRequest::default()
    }
}

fn by_api() -> DraftRequest {
    DraftRequest {
        origin: HandoffOrigin::Api,
        ..user()
    }
}

fn document() -> Reply {
    Reply::new().thinking("What matters?").say(DOCUMENT)
}

fn is(side: Variant, other: Variant) -> bool {
    side.model == other.model && side.place == other.place && std::ptr::fn_addr_eq(side.body, other.body)
}

/// Whether a request forbids calls, in the words of any wire.
fn forbids_calls(leg: &Received) -> bool {
    let body = leg.body.get("request").unwrap_or(&leg.body);
    [&body["tool_choice"], &body["tool_choice"]["type"]].contains(&&json!("none"))
        || body["toolConfig"]["functionCallingConfig"]["mode"] == "NONE"
}

/// Returns the bytes of the history in a request.
fn bytes_of(history: &[Value]) -> String {
    let list = serde_json::to_string(history).unwrap();
    list[1..list.len() - 1].to_owned()
}

fn holds(leg: &Received, text: &str) -> bool {
    memchr::memmem::find(&leg.raw, text.as_bytes()).is_some()
}

on_every_wire_both_ways!(handed_over refused_without_calls every_failure methods given cancelled kept_alive);

/// The draft request is the live request plus one message. The sentinel comes first, then the leg after it.
///
/// Later requests are cut there.
async fn handed_over(side: Variant, stream: bool) {
    let stage = Stage::new(side, stream, |_| {}).await;
    let id = stage.wants(by_api());
    stage.script([document(), fresh()]);
    let answer = stage.ask().await;
    let text = &answer.text;
    let told = behind_line(text);
    assert_eq!(told.is_some(), stream, "{text}");
    assert_begins(told.unwrap_or(text), "baton: handed over (by the API), ");
    assert_eq!(text.matches("[[handoff-resume:").count(), 1, "{text}");
    assert_contains(text, DOCUMENT);
    assert_ends(text, "Fresh.");
    let [draft, behind] = &stage.legs()[..] else {
        panic!()
    };
    let live = &stage.fixture.provider.generations()[0];
    // The live history, byte for byte.
    assert!(holds(draft, &bytes_of(&stage.history)));
    assert_eq!(draft.tools().len(), 2);
    assert_eq!(draft.tool_names(), live.tool_names());
    for key in "system thinking model stream instructions reasoning".split(' ') {
        assert_eq!(draft.body.get(key), live.body.get(key), "{key}");
    }
    assert_eq!(forbids_calls(draft), !is(side, variants::OLLAMA));
    let seen = outline(draft);
    let [.., looked, asked] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(looked, "a: Looked.");
    assert_begins(asked, "u: Now the exporter.Stop here:");
    assert_ends(asked, "The goal:\n\nthe exporter");
    let [carried] = &outline(behind)[..] else { panic!() };
    let part = "u: <handoff-context>\nGoal: the exporter\n\n## Goal\nMend the importer";
    assert_begins(carried, part);
    assert_ends(carried, "still to be answered:\n\nNow the exporter.");
    stage.script([Reply::text("Next.")]);
    let next = stage.fixture.then(&stage.history, &answer, "More.");
    stage.fixture.ask(&next, stream).await;
    assert_eq!(stage.fixture.sent(), [carried.as_str(), "a: Fresh.", "u: More."]);
    let done = stage.draft(id);
    assert_eq!(
        (done.state, done.method),
        (DraftState::Done, Some(DraftMethod::Oneshot))
    );
    let events = stage.fixture.baton.events(3).await;
    let (made, later) = (&events[1], &events[2]);
    assert_eq!((made.draft_legs.as_slice(), made.sent_bytes.len()), (&[0][..], 2));
    assert_eq!(made.handoffs[0].origin, "api");
    assert!(made.handoffs[0].before_bytes > 0 && made.drafted().output > 0);
    assert_eq!(made.spent().output, made.tokens[1].unwrap().output);
    assert_eq!(later.pinned, done.handoff.map(|id| id.to_string()));
    stage.fixture.assert_clean();
}

/// A server that rejects such a tool choice gets one more request without it.
async fn refused_without_calls(side: Variant, stream: bool) {
    let stage = Stage::new(side, stream, |_| {}).await;
    let id = stage.wants(user());
    let refused = Reply::status(400, "tool_choice none is not supported");
    let calls = document().call("read_file", json!({"path": "a"}));
    stage.script([refused, calls, fresh()]);
    let answer = stage.ask().await;
    assert_contains(&answer.text, DOCUMENT);
    assert_eq!(answer.calls.len(), 0);
    let [_, again, _] = &stage.legs()[..] else {
        panic!()
    };
    assert!(!forbids_calls(again) && holds(again, &bytes_of(&stage.history)));
    assert_eq!(stage.draft(id).state, DraftState::Done);
    stage.fixture.assert_clean();
}

/// No failure changes the conversation.
async fn every_failure(side: Variant, stream: bool) {
    let (is_anthropic, is_ollama) = (is(side, variants::ANTHROPIC), is(side, variants::OLLAMA));
    let cut = if stream {
        document().deltas(5).fault(Fault::CutAfterEvents(2))
    } else {
        document().fault(Fault::CutAfterBytes(20))
    };
    let mut failures = vec![
        (Reply::status(500, "no power"), Some("provider_error")),
        (Reply::new().thinking("Hm."), None),
        (document().stop(Stop::MaxTokens), Some("truncated")),
        (cut, Some("provider_unreached")),
    ];
    if is_anthropic {
        failures.push((document().stop(Stop::PauseTurn), Some("paused")));
    }
    if !is_ollama {
        failures.push((document().stop(Stop::Refusal), Some("refusal")));
    }
    for (reply, failure) in failures {
        let state = failure.map_or(DraftState::Empty, |_| DraftState::Failed);
        let stage = Stage::new(side, stream, |_| {}).await;
        let id = stage.wants(user());
        stage.script([reply, Reply::text("Went on.")]);
        let answer = stage.ask().await;
        let draft = stage.draft(id);
        assert_eq!((draft.state, draft.failure), (state, failure), "{:?}", draft.why);
        assert!(draft.handoff.is_none() && draft.why.is_some());
        stage.goes_on_as_before(&answer).await;
    }
    let stage = Stage::new(side, stream, |config| {
        config.draft.timeout = Duration::from_millis(300)
    })
    .await;
    let id = stage.wants(user());
    let late = document().head_delay(Duration::from_secs(3));
    stage.script([late, Reply::text("Went on.")]);
    let answer = stage.ask().await;
    assert_eq!(stage.draft(id).failure, Some("timeout"));
    stage.goes_on_as_before(&answer).await;
}

/// An automatic trigger tries one method after another. For a history that does not fit, every trigger uses a
/// selection.
async fn methods(side: Variant, stream: bool) {
    let stage = Stage::new(side, stream, |_| {}).await;
    let id = stage.wants(by_api());
    stage.script([Reply::status(500, "no power"), document(), fresh()]);
    assert!(stage.ask().await.text.ends_with("Fresh."));
    assert_eq!(stage.draft(id).method, Some(DraftMethod::Bundle));
    let bundle = &stage.legs()[1];
    assert!(bundle.tools().is_empty() && !forbids_calls(bundle));
    let [text] = &outline(bundle)[..] else { panic!() };
    assert_contains(text, "Mend the importer.");
    assert_contains(text, "You were not in the session.");
    stage.fixture.assert_clean();

    let stage = Stage::new(side, stream, |_| {}).await;
    let id = stage.wants(by_api());
    stage.script([Reply::status(500, "a"), Reply::status(500, "b"), fresh()]);
    let answer = stage.ask().await;
    let part = "The request before this goal, open:\n- Now the exporter. (turn 3)";
    assert_contains(&answer.text, part);
    assert_eq!(stage.draft(id).method, Some(DraftMethod::Local));
    stage.fixture.assert_clean();

    let stage = Stage::new(side, stream, |_| {}).await;
    let id = stage.wants(user());
    let refused = Reply::status(400, "prompt is too long: 9 tokens > 8 maximum");
    stage.script([refused, document(), fresh()]);
    stage.ask().await;
    assert_eq!(stage.draft(id).method, Some(DraftMethod::Bundle));

    let stage = Stage::new(side, stream, |_| {}).await;
    let id = stage.wants(DraftRequest {
        model: Some("small-strict-1".to_owned()),
        ..user()
    });
    stage.script([document(), fresh()]);
    stage.ask().await;
    assert_eq!(
        stage.draft(id).method,
        Some(DraftMethod::Bundle),
        "the history is another model's"
    );
    let legs = stage.legs();
    let named = |leg: &Received| leg.path.contains("small-strict-1") || leg.body["model"] == "small-strict-1";
    assert_eq!(legs.iter().map(named).collect::<Vec<_>>(), [true, false]);
    stage.fixture.assert_clean();
}

/// A supplied carry-over prompt needs no model. One request later, nothing is left to hand over.
async fn given(side: Variant, stream: bool) {
    let stage = Stage::new(side, stream, |_| {}).await;
    let id = stage.wants(DraftOrder {
        ask: by_api(),
        prompt: Some(" Mend the exporter [[handoff-resume: only.\n".to_owned()),
    });
    stage.script([fresh()]);
    let answer = stage.ask().await;
    assert_begins(&answer.text, "baton: handed over (as given)");
    let [behind] = &stage.legs()[..] else { panic!() };
    let carried = "u: Mend the exporter [[handoff-resume\\: only.\n\nThe user's last message, still to be answered:\n\nNow the exporter.";
    assert_eq!(outline(behind), [carried]);
    assert_eq!(
        (stage.draft(id).state, stage.draft(id).method),
        (DraftState::Done, None)
    );
    stage.fixture.assert_clean();
}

/// While the model's own turn is open, a draft waits.
#[tokio::test]
async fn a_draft_waits_until_nothing_is_open() {
    let side = variants::CHAT;
    let stage = Stage::new(side, true, |_| {}).await;
    let id = stage.wants(by_api());
    let open = [&stage.history[..], &[(side.message)("assistant", "It is")]].concat();
    stage.script([Reply::text("Went on."), document(), fresh()]);
    stage.fixture.ask(&open, true).await;
    assert_eq!(stage.draft(id).state, DraftState::Requested);
    stage.ask().await;
    assert_eq!(stage.draft(id).state, DraftState::Done);
    stage.fixture.assert_clean();
}

/// Cancelled by its requester, or because the agent disconnects.
async fn cancelled(side: Variant, stream: bool) {
    let stage = Stage::new(side, stream, |_| {}).await;
    let id = stage.wants(by_api());
    let busy = stage
        .fixture
        .baton
        .drafting
        .request(&stage.key, "local", user().into(), None);
    assert_eq!(busy.unwrap_err().id, id, "one draft for each conversation");
    stage.script([
        document().head_delay(Duration::from_secs(30)),
        Reply::text("Went on."),
    ]);
    let drafting = stage.fixture.baton.drafting.clone();
    let cancel = async {
        while drafting.get(id).unwrap().state != DraftState::Writing {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        drafting.cancel(id).unwrap();
    };
    let (answer, ()) = tokio::join!(stage.ask(), cancel);
    assert_eq!(stage.draft(id).state, DraftState::Cancelled);
    stage.goes_on_as_before(&answer).await;

    let stage = Stage::new(side, stream, |config| {
        config.handoff.keepalive = Duration::from_millis(50)
    })
    .await;
    let id = stage.wants(by_api());
    stage.script([document().head_delay(Duration::from_secs(30))]);
    let sent = tokio::time::timeout(
        Duration::from_millis(400),
        stage.fixture.send(&stage.history, stream),
    );
    assert!(sent.await.is_err());
    for _ in 0..200 {
        if stage.draft(id).state == DraftState::Cancelled {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(stage.draft(id).state, DraftState::Cancelled);
    assert!(stage.fixture.baton.drafting.all_open().is_empty());
    // Counted as well: the agent has disconnected, and the exchange ends with the step that it was waiting
    // for.
    let events = stage.fixture.baton.events(2).await;
    let tries: Vec<_> = events[1].drafts.iter().map(|d| (d.method, d.outcome)).collect();
    assert_eq!(tries, [("oneshot", "cancelled")]);
}

/// The agent gets keep-alives while the draft is written, and a later error is reported in the stream.
async fn kept_alive(side: Variant, stream: bool) {
    let quick = |config: &mut Config| config.handoff.keepalive = Duration::from_millis(60);
    let stage = Stage::new(side, stream, quick).await;
    stage.wants(by_api());
    let slow = document().head_delay(Duration::from_millis(500));
    stage.script([slow, fresh()]);
    let response = stage.fixture.send(&stage.history, stream).await;
    let answer = stage.fixture.answer(&response, stream);
    assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
    let alive = ["event: ping", ": keep-alive", ": keepalive", "\n\n\n"];
    if stream && !is(side, variants::OLLAMA) {
        let text = response.text();
        let (_, waits) = text.split_once("is being written.").unwrap();
        let (waits, _) = waits.split_once("handed over").unwrap();
        assert!(alive.iter().any(|word| waits.contains(word)), "{text}");
    }
    stage.fixture.assert_clean();

    let stage = Stage::new(side, stream, quick).await;
    let id = stage.wants(by_api());
    let slow = document().head_delay(Duration::from_millis(500));
    stage.script([slow, Reply::status(400, "no such thing")]);
    let response = stage.fixture.send(&stage.history, stream).await;
    assert_eq!(response.status, if stream { 200 } else { 400 });
    assert!(response.text().contains("no such thing"), "{}", response.text());
    // The handoff is stored, so the agent's retry continues after it.
    assert_eq!(stage.draft(id).state, DraftState::Done);
    stage.script([fresh()]);
    let answer = stage.ask().await;
    assert!(answer.text.contains("[[handoff-resume:") && answer.text.ends_with("Fresh."));
    stage.fixture.assert_clean();
}

/// Killed while a draft is written: nothing was handed over, and the request is sent unchanged.
#[tokio::test]
async fn a_proxy_that_dies_while_it_drafts_leaves_the_conversation_as_it_was() {
    let store = memory();
    let fixture = Fixture::with(
        variants::ANTHROPIC,
        [Reply::text("Looked.")],
        store.clone(),
        |_| {},
    )
    .await;
    let said = fixture.ask(&fixture.history(), true).await;
    let history = fixture.then(&fixture.history(), &said, "Now the exporter.");
    let key = fixture.baton.events(1).await[0].conversation.clone().unwrap();
    let mut stage = Stage {
        fixture,
        history,
        key,
        stream: true,
    };
    stage.wants(by_api());
    stage.script([document().head_delay(Duration::from_secs(30))]);
    let dies = tokio::time::timeout(
        Duration::from_millis(300),
        stage.fixture.send(&stage.history, true),
    );
    assert!(dies.await.is_err());
    stage.fixture.restart(store);
    stage.script([Reply::text("Went on.")]);
    let answer = stage.ask().await;
    stage.goes_on_as_before(&answer).await;
}

/// In the middle of an agent's loop, and with the harness's reminders, the draft contains the last results.
///
/// No user message is pending.
#[tokio::test]
async fn inside_a_loop_the_results_are_in_the_draft() {
    let reads = Reply::text("Reading.").call("read_file", json!({"path": "a"}));
    let fixture = Fixture::new(variants::ANTHROPIC, [reads]).await;
    let said = fixture.ask(&fixture.history(), true).await;
    let mut history = fixture.ran(&fixture.history(), &said);
    let reminder = json!({"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"});
    history.last_mut().unwrap()["content"]
        .as_array_mut()
        .unwrap()
        .push(reminder);
    let key = fixture.baton.events(1).await[0].conversation.clone().unwrap();
    let stage = Stage {
        fixture,
        history,
        key,
        stream: true,
    };
    stage.wants(by_api());
    stage.script([document(), fresh()]);
    stage.ask().await;
    let [draft, behind] = &stage.legs()[..] else {
        panic!()
    };
    assert!(outline(draft).contains(&"result".to_owned()));
    let [carried] = &outline(behind)[..] else { panic!() };
    assert!(
        carried.ends_with("do not run them again.") || carried.contains("## Also known"),
        "{carried}"
    );
    assert!(!carried.contains("still to be answered"), "{carried}");
    stage.fixture.assert_clean();
}

/// A side call, or a request that lists no tools, does not make a draft.
#[tokio::test]
async fn side_calls_are_left_alone() {
    let side = variants::CHAT;
    let stage = Stage::new(side, true, |_| {}).await;
    let id = stage.wants(by_api());
    stage.script([Reply::text("A title."), document(), fresh()]);
    let mut body = (side.body)(&stage.history, true);
    body.as_object_mut().unwrap().remove("tools");
    let body = Bytes::from(body.to_string());
    let open = stage
        .fixture
        .baton
        .open((side.path)(true), side.headers, body)
        .await;
    let (_, rest) = read_until(open, "A title.").await;
    drop(rest);
    assert_eq!(stage.draft(id).state, DraftState::Requested);
    stage.ask().await;
    assert_eq!(stage.draft(id).state, DraftState::Done);
}

/// Makes a repository with a commit and a changed file.
fn repository(dir: &std::path::Path, branch: &str) {
    let git = |arguments: &[&str]| assert!(crate::harness::git(dir, arguments), "{arguments:?}");
    git(&["init", "-q", "-b", branch]);
    std::fs::write(dir.join("importer.rs"), "fn main() {}\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "port the exporter"]);
    std::fs::write(dir.join("importer.rs"), "fn main() { port() }\n").unwrap();
}

/// The configured repository is that of sessions whose agent states no directory.
#[tokio::test]
async fn a_draft_reports_the_repository_that_the_agent_states() {
    let (own, other) = (crate::harness::temp(), crate::harness::temp());
    repository(own.path(), "work");
    repository(other.path(), "elsewhere");
    let dir = other.path().to_owned();
    let side = variants::CHAT;
    let stage = Stage::new(side, true, move |config| config.draft.git_dir = Some(dir)).await;
    let mut asked = Vec::new();
    for stated in [Some(own.path()), None] {
        stage.script([Reply::new()]);
        let directory = stated.map_or(String::new(), |dir| {
            format!("Working directory: {}\n", dir.display())
        });
        let system = format!("You are opencode, an interactive CLI tool.\n<env>\n{directory}</env>");
        let text = "::handoff --force --method oneshot the importer";
        let history = [
            &[json!({"role": "system", "content": system})],
            &stage.history[..1],
            &[(side.message)("assistant", "Looked."), stage.fixture.user(text)],
        ]
        .concat();
        stage.fixture.ask(&history, true).await;
        asked.push(outline(stage.legs().last().unwrap()).last().unwrap().clone());
    }
    assert_contains(&asked[0], "## work");
    assert_lacks(&asked[0], "## elsewhere");
    assert!(asked[1].contains("## elsewhere"), "{}", asked[1]);
    stage.fixture.assert_clean();
}

/// The state of the repository, and flags as words.
#[tokio::test]
async fn what_a_model_is_asked_follows_the_flags() {
    let directory = crate::harness::temp();
    repository(directory.path(), "work");
    let dir = directory.path().to_owned();
    let side = variants::CHAT;
    let stage = Stage::new(side, true, move |config| config.draft.git_dir = Some(dir)).await;
    let mut asked = Vec::new();
    let flags = [
        "",
        "--preset docs",
        "--preset debug",
        "--no-git",
        "--no-commands",
        "--no-why",
    ];
    for flags in flags {
        stage.script([Reply::new()]);
        let text = format!("::handoff --force --method oneshot {flags} the importer");
        let history = [
            &stage.history[..1],
            &[(side.message)("assistant", "Looked."), stage.fixture.user(&text)],
        ]
        .concat();
        let answer = stage.fixture.ask(&history, true).await;
        assert!(
            answer.text.contains("the model wrote nothing"),
            "{flags}: {}",
            answer.text
        );
        asked.push(outline(stage.legs().last().unwrap()).last().unwrap().clone());
    }
    for (at, text) in asked.iter().enumerate() {
        assert!(!asked[..at].contains(text), "{}: {text}", flags[at]);
        let has_state =
            ["## work", "importer.rs | 2 +-", "port the exporter"].map(|part| text.contains(part));
        assert_eq!(has_state, [flags[at] != "--no-git"; 3], "{}: {text}", flags[at]);
    }
    stage.fixture.assert_clean();
}

/// Copilot charges for requests that a user began.
///
/// Only the first request that a message causes counts as the user's.
#[tokio::test]
async fn a_request_that_baton_adds_is_the_agents() {
    let side = Variant {
        headers: &[("authorization", "Bearer sk-agent"), ("x-initiator", "user")],
        ..variants::CHAT
    };
    let stage = Stage::new(side, true, |_| {}).await;
    let initiators = |from: usize| -> Vec<String> {
        let legs = stage.legs();
        let of = |leg: &Received| leg.header("x-initiator").unwrap_or("none").to_owned();
        legs[from..].iter().map(of).collect()
    };
    // The model hands off.
    stage.script([crate::matrix::fixture::handoff(), fresh()]);
    let answer = stage.ask().await;
    assert_eq!(initiators(0), ["user", "agent"]);
    // A draft, followed by the message's request.
    let more = [
        stage.fixture.then(&stage.history, &answer, "More."),
        vec![(side.message)("assistant", "So."), stage.fixture.user("And?")],
    ]
    .concat();
    stage.wants(by_api());
    stage.script([document(), fresh()]);
    stage.fixture.ask(&more, true).await;
    assert_eq!(initiators(2), ["agent", "user"]);
    // A command, which the model never sees.
    stage.script([document()]);
    let command = [
        &more[..],
        &[
            (side.message)("assistant", "So."),
            stage.fixture.user("::handoff --force"),
        ],
    ]
    .concat();
    stage.fixture.ask(&command, true).await;
    assert_eq!(initiators(4), ["agent"]);
    stage.fixture.assert_clean();
}
