//! What is remembered beside a transcript, and goes back into it: in its own place, in its own branch, and in no
//! other conversation.

use baton_proxy::strict::{Fault, Reply};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::harness::memory;
use crate::harness::scene::Flaky;
use crate::matrix::sides::{self, CHAT, GEMINI, OLLAMA, Said, Side};
use crate::matrix::stage::{Stage, carry, fresh, handoff, handoff_beside, sketch};

/// Gemini as agents speak it that drop the ids of calls.
const GEMINI_BARE: Side = Side {
    body: |history, stream| (GEMINI.body)(&without_ids(history), stream),
    ..GEMINI
};

/// Ollama as agents speak it that drop the ids of calls.
const OLLAMA_BARE: Side = Side {
    body: |history, stream| (OLLAMA.body)(&without_ids(history), stream),
    ..OLLAMA
};

/// A history without the ids of calls and results.
fn without_ids(history: &[Value]) -> Vec<Value> {
    let mut history = history.to_vec();
    let remove = |holder: Option<&mut Value>| {
        if let Some(holder) = holder.and_then(Value::as_object_mut) {
            holder.remove("id");
        }
    };
    for message in &mut history {
        for list in ["parts", "tool_calls"] {
            for part in message
                .get_mut(list)
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                remove(part.get_mut("functionCall"));
                remove(part.get_mut("functionResponse"));
                remove(Some(part));
            }
        }
    }
    history
}

macro_rules! on {
    ($($test:ident: $($name:ident $side:expr),*;)*) => {
        $(mod $test {
            #[allow(unused_imports)]
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                super::$test($side).await;
            })*
        })*
    };
}

on! {
    rewinding_twice_keeps_a_hidden_pair: anthropic sides::ANTHROPIC, openai_chat CHAT,
        openai_responses sides::RESPONSES, gemini GEMINI, gemini_bare GEMINI_BARE, ollama OLLAMA,
        ollama_bare OLLAMA_BARE;
    a_neighbours_handoff_during_a_look_up: anthropic sides::ANTHROPIC, openai_chat CHAT,
        openai_responses sides::RESPONSES, gemini GEMINI, gemini_bare GEMINI_BARE, ollama OLLAMA,
        ollama_bare OLLAMA_BARE;
    branches_that_agree_in_their_last_calls: anthropic sides::ANTHROPIC, openai_chat CHAT,
        openai_responses sides::RESPONSES, gemini GEMINI, gemini_bare GEMINI_BARE, ollama OLLAMA,
        ollama_bare OLLAMA_BARE;
    a_pair_whose_place_is_gone_is_counted: anthropic sides::ANTHROPIC, openai_chat CHAT,
        openai_responses sides::RESPONSES, gemini GEMINI, ollama OLLAMA;
    answers_that_break_off_at_once: anthropic sides::ANTHROPIC, openai_chat CHAT,
        openai_responses sides::RESPONSES, gemini GEMINI, ollama OLLAMA;
    an_answer_that_was_not_read_goes_on_when_it_is_asked_for_again: anthropic sides::ANTHROPIC, openai_chat CHAT,
        openai_responses sides::RESPONSES, gemini GEMINI, ollama OLLAMA;
    an_identical_earlier_call_has_no_pair: anthropic sides::ANTHROPIC, gemini GEMINI, gemini_bare GEMINI_BARE,
        ollama OLLAMA, ollama_bare OLLAMA_BARE;
    a_conversation_that_opens_alike_has_no_pair: anthropic sides::ANTHROPIC, gemini GEMINI,
        gemini_bare GEMINI_BARE, ollama OLLAMA, ollama_bare OLLAMA_BARE;
    a_pair_behind_an_aside_has_its_place: anthropic sides::ANTHROPIC, openai_chat CHAT,
        openai_responses sides::RESPONSES, gemini GEMINI, gemini_bare GEMINI_BARE, ollama OLLAMA,
        ollama_bare OLLAMA_BARE;
    late_results_beside_calls_without_ids: gemini_bare GEMINI_BARE, ollama_bare OLLAMA_BARE;
    a_pair_follows_its_branch_into_another_session: anthropic sides::ANTHROPIC, openai_chat CHAT,
        openai_responses sides::RESPONSES, gemini GEMINI, ollama OLLAMA;
    a_call_without_an_id_is_no_proof_in_another_conversation: gemini_bare GEMINI_BARE, ollama_bare OLLAMA_BARE;
    a_counted_id_is_no_proof_in_another_conversation: openai_chat CHAT, ollama OLLAMA;
}

/// A call of the agent's own.
fn reads(path: &str) -> Reply {
    Reply::text("Reading.").call("read_file", json!({"path": path}))
}

/// The same beside a call of ours, which comes first: where calls are signed, ours is the one.
fn reads_beside(path: &str) -> Reply {
    handoff_beside(Reply::new()).call("read_file", json!({"path": path}))
}

fn ends() -> Reply {
    Reply::text("The turn ends.")
}

/// What the model saw of the last request but one: the leg in which the waiting handoff fired.
fn fired_in(stage: &Stage) -> Vec<String> {
    let legs = stage.provider.generations();
    sketch(&legs[legs.len() - 2])
}

/// The calls in a sketch.
fn calls(sketch: &[String]) -> Vec<&str> {
    let calls = sketch.iter().filter_map(|line| line.strip_prefix("call "));
    calls.collect()
}

/// A handoff of one branch takes the pair of another off the conversation's list; a request from before both is
/// not the last word on what the transcripts of the branch hold.
async fn rewinding_twice_keeps_a_hidden_pair(side: Side) {
    let script = [
        reads("a"),
        reads_beside("b"),
        handoff(),
        fresh(),
        Reply::text("Back."),
        ends(),
        fresh(),
    ];
    let stage = Stage::new(side, script).await;
    let called = stage.ask(&stage.history(), true).await;
    let before = stage.ran(&stage.history(), &called);
    let mixed = stage.ask(&before, true).await;
    let branch = stage.ran(&before, &mixed);
    let other = [&stage.history()[..2], &[stage.user("Another way.")]].concat();
    let fired = stage.ask(&other, true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    stage.ask(&before, true).await;
    let fired = stage.ask(&branch, true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let seen = fired_in(&stage);
    assert_eq!(calls(&seen), ["read_file", "session_handoff", "read_file"]);
    stage.at_peace();
}

/// Two conversations open alike and name no session. One hands over while the other one's calls are looked up.
async fn a_neighbours_handoff_during_a_look_up(side: Side) {
    let store = Flaky::new(memory());
    let script = [reads_beside("b"), handoff(), fresh(), reads("c"), ends(), fresh()];
    let mut stage = Stage::with(side, script, store.clone(), |_| {}).await;
    let mixed = stage.ask(&stage.history(), true).await;
    let ran = stage.ran(&stage.history(), &mixed);
    stage.restart(store.clone());
    let (reached, looked_up) = oneshot::channel();
    let (go_on, wait) = oneshot::channel();
    store.hold_look_up(reached, wait);
    let neighbour = [&stage.history()[..2], &[stage.user("Hand over.")]].concat();
    let (said, ()) = tokio::join!(stage.ask(&ran, true), async {
        looked_up.await.unwrap();
        let fired = stage.ask(&neighbour, true).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        go_on.send(()).unwrap();
    });
    let fired = stage.ask(&stage.ran(&ran, &said), true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let seen = fired_in(&stage);
    assert_eq!(calls(&seen), ["session_handoff", "read_file", "read_file"]);
    stage.at_peace();
}

/// Two branches of a conversation agree in their last calls and what led to them, and one has a pair further back. A
/// handoff of a third takes that off the conversation's list.
async fn branches_that_agree_in_their_last_calls(side: Side) {
    let stage = Stage::new(side, [reads_beside("b"), handoff(), fresh()]).await;
    let mixed = stage.ask(&stage.history(), true).await;
    let mut branch = stage.ran(&stage.history(), &mixed);
    let third = [&stage.history()[..2], &[stage.user("Another way.")]].concat();
    let fired = stage.ask(&third, true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let mut other = stage.history();
    for path in ["a", "c", "d"] {
        stage.push(reads(path));
        let called = stage.ask(&other, true).await;
        other = stage.ran(&other, &called);
    }
    stage.push(ends());
    stage.ask(&other, true).await;
    for path in ["c", "d"] {
        stage.push(reads(path));
        let called = stage.ask(&branch, true).await;
        branch = stage.ran(&branch, &called);
    }
    for reply in [ends(), fresh()] {
        stage.push(reply);
    }
    let fired = stage.ask(&branch, true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let wanted = ["session_handoff", "read_file", "read_file", "read_file"];
    assert_eq!(calls(&fired_in(&stage)), wanted);
    stage.at_peace();
}

/// An agent that takes an old call out of its history, a store that has lost a refused call; and a person who goes back to
/// before both, which loses nothing.
async fn a_pair_whose_place_is_gone_is_counted(side: Side) {
    let refused = || Reply::text("Handing over.").call("session_handoff", json!({"prompt": " "}));
    let script = [
        reads_beside("b"),
        reads("c"),
        reads("d"),
        ends(),
        ends(),
        refused(),
        ends(),
        ends(),
    ];
    let mut stage = Stage::new(side, script).await;
    let mixed = stage.ask(&stage.history(), true).await;
    let with = stage.ran(&stage.history(), &mixed);
    let mut later = with.clone();
    for _ in 0..2 {
        let called = stage.ask(&later, true).await;
        later = stage.ran(&later, &called);
    }
    let without = [&stage.history(), &later[with.len()..]].concat();
    stage.ask(&without, true).await;
    assert_eq!(calls(&stage.sent()), ["read_file", "read_file"]);
    stage.ask(&stage.history(), true).await;
    let aside = stage.ask(&stage.history(), true).await;
    let next = [stage.history(), aside.keep, vec![stage.user("On.")]].concat();
    let lost = async |stage: &Stage, n: usize| {
        stage
            .baton
            .events(n)
            .await
            .iter()
            .map(|e| e.lost_pairs)
            .collect::<Vec<_>>()
    };
    assert_eq!(lost(&stage, 6).await, [0, 0, 0, 1, 0, 0]);
    stage.restart(memory());
    stage.ask(&next, true).await;
    assert_eq!(lost(&stage, 1).await, [1]);
}

/// Two conversations open alike, and the answers of both break off behind their sentinels.
async fn answers_that_break_off_at_once(side: Side) {
    let cut = || fresh().deltas(1).fault(Fault::CutAfterEvents(6));
    let stage = Stage::new(side, [handoff(), cut(), handoff(), cut(), fresh(), fresh()]).await;
    let mine = stage.history();
    let neighbours = [&stage.history()[..2], &[stage.user("Hand over.")]].concat();
    for history in [&mine, &neighbours] {
        let heard = stage.send(history, true).await;
        assert!(heard.broken && heard.text().contains("[[handoff-resume:"));
    }
    for history in [&mine, &neighbours] {
        let said = stage.ask(history, true).await;
        assert!(
            said.text.trim_start().starts_with("[[handoff-resume:"),
            "{}",
            said.text
        );
        assert_eq!(stage.sent(), [carry()]);
    }
    stage.at_peace();
}

/// An answer in one piece that the agent never took: nothing of it was read, so nothing of it was shown.
async fn an_answer_that_was_not_read_goes_on_when_it_is_asked_for_again(side: Side) {
    let stage = Stage::new(side, [handoff(), fresh(), fresh()]).await;
    let body = (side.body)(&stage.history(), false).to_string();
    // The agent has no room for the body: the head comes, and the server waits.
    let client = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .http2_initial_stream_window_size(0)
        .build_http();
    let url = format!("http://{}{}", stage.baton.addr, (side.path)(false));
    let mut request = http::Request::post(url).header("content-type", "application/json");
    for (name, value) in side.headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(bytes::Bytes::from(body))).unwrap();
    let mut response = client.request(request).await.unwrap();
    let nothing = tokio::time::timeout(std::time::Duration::from_millis(50), response.frame()).await;
    assert!(nothing.is_err());
    drop(response);
    stage.baton.events(1).await;
    let said = stage.ask(&stage.history(), false).await;
    assert!(
        said.text.trim_start().starts_with("[[handoff-resume:"),
        "{}",
        said.text
    );
    assert_eq!(stage.sent(), [carry()]);
    // This one was read: the same request again is a new one.
    stage.push(Reply::text("From the start."));
    assert_eq!(stage.ask(&stage.history(), false).await.text, "From the start.");
    stage.at_peace();
}

/// The same call as before, and this time one of ours stands beside it.
async fn an_identical_earlier_call_has_no_pair(side: Side) {
    for stream in [true, false] {
        let stage = Stage::new(side, [reads("x"), reads_beside("x"), ends(), fresh()]).await;
        let called = stage.ask(&stage.history(), stream).await;
        let ran = stage.ran(&stage.history(), &called);
        let mixed = stage.ask(&ran, stream).await;
        let fired = stage.ask(&stage.ran(&ran, &mixed), stream).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        let seen = fired_in(&stage);
        let first = seen.iter().position(|line| line == "result").unwrap();
        assert_eq!(calls(&seen[..first]), ["read_file"], "{seen:?}");
        assert_eq!(
            calls(&seen[first..]),
            ["session_handoff", "read_file"],
            "{seen:?}"
        );
        stage.at_peace();
    }
}

/// Two conversations open alike, and make the same call at the same place. What was said or called before tells them
/// apart.
async fn a_conversation_that_opens_alike_has_no_pair(side: Side) {
    for by_call in [true, false] {
        let stage = Stage::new(side, []).await;
        let mut mine = stage.history();
        let mut neighbours = match by_call {
            true => mine.clone(),
            false => [&mine[..2], &[stage.user("And the tests?")]].concat(),
        };
        if by_call {
            for (history, path) in [(&mut mine, "a"), (&mut neighbours, "b")] {
                stage.push(reads(path));
                let called = stage.ask(history, true).await;
                *history = stage.ran(history, &called);
            }
        }
        for (history, reply) in [(&mut mine, reads_beside("x")), (&mut neighbours, reads("x"))] {
            stage.push(reply);
            let called = stage.ask(history, true).await;
            *history = stage.ran(history, &called);
        }
        stage.push(Reply::text("Mended."));
        assert_eq!(stage.ask(&neighbours, true).await.text, "Mended.");
        assert!(!calls(&stage.sent()).contains(&"session_handoff"));
        stage.push(ends());
        stage.push(fresh());
        let fired = stage.ask(&mine, true).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        assert!(calls(&fired_in(&stage)).contains(&"session_handoff"));
        stage.at_peace();
    }
}

/// Behind a refused call the transcript is edited before the pair is put back, and its call stands elsewhere then.
async fn a_pair_behind_an_aside_has_its_place(side: Side) {
    for stream in [true, false] {
        let refused = || Reply::text("Handing over.").call("session_handoff", json!({"prompt": " "}));
        let stage = Stage::new(side, [refused(), reads("x"), reads_beside("x"), ends(), fresh()]).await;
        let called = stage.ask(&stage.history(), stream).await;
        let ran = stage.ran(&stage.history(), &called);
        let mixed = stage.ask(&ran, stream).await;
        let fired = stage.ask(&stage.ran(&ran, &mixed), stream).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        let seen = fired_in(&stage);
        let wanted = ["session_handoff", "read_file", "session_handoff", "read_file"];
        assert_eq!(calls(&seen), wanted, "{seen:?}");
        stage.at_peace();
    }
}

/// Results that go with a cut are edited out before the pair is put back.
async fn late_results_beside_calls_without_ids(side: Side) {
    super::every::a_late_result_beside_a_hidden_pair(side).await;
}

/// Asks as the agent of a session that has a name.
async fn ask_in(stage: &Stage, session: &'static str, history: &[Value]) -> Said {
    let headers = [stage.side.headers, &[("x-session-id", session)]].concat();
    let body = (stage.side.body)(history, true).to_string();
    let heard = stage
        .baton
        .post((stage.side.path)(true), &headers, body.into())
        .await;
    stage.said(&heard, true)
}

/// A conversation that goes on under another session's name takes its pairs along: ids and signatures are proof.
async fn a_pair_follows_its_branch_into_another_session(side: Side) {
    let both = handoff_beside(Reply::new().call("read_file", json!({"path": "x"})));
    let stage = Stage::new(side, [both, ends(), fresh()]).await;
    let mixed = ask_in(&stage, "one", &stage.history()).await;
    let fired = ask_in(&stage, "two", &stage.ran(&stage.history(), &mixed)).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    stage.at_peace();
}

async fn a_call_without_an_id_is_no_proof_in_another_conversation(side: Side) {
    stays_in_its_session(side, |reply| reply.call("read_file", json!({"path": "x"}))).await;
}

/// Servers that count their calls give the same ids in every conversation.
async fn a_counted_id_is_no_proof_in_another_conversation(side: Side) {
    stays_in_its_session(side, |reply| {
        reply.call_as("call_0", "read_file", json!({"path": "x"}))
    })
    .await;
}

/// Two sessions that are equal but for the call of ours in one of them.
async fn stays_in_its_session(side: Side, reads: fn(Reply) -> Reply) {
    let stage = Stage::new(side, []).await;
    stage.push(reads(handoff_beside(Reply::new())));
    let mixed = ask_in(&stage, "one", &stage.history()).await;
    stage.push(reads(Reply::text("Reading.")));
    let called = ask_in(&stage, "two", &stage.history()).await;
    stage.push(Reply::text("Mended."));
    let said = ask_in(&stage, "two", &stage.ran(&stage.history(), &called)).await;
    assert_eq!(said.text, "Mended.");
    assert_eq!(calls(&stage.sent()), ["read_file"]);
    stage.push(ends());
    stage.push(fresh());
    let fired = ask_in(&stage, "one", &stage.ran(&stage.history(), &mixed)).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    stage.at_peace();
}
