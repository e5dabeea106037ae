//! Hidden pairs are stored and restored at their position in the transcript, in their branch, and in no other
//! conversation.

use baton_strict::{Fault, Reply};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::harness::fixture::FlakyStore;
use crate::harness::memory;
use crate::matrix::fixture::{Fixture, carry, fresh, handoff, handoff_beside, outline};
use crate::matrix::variants::{self, Answer, CHAT, GEMINI, OLLAMA, Variant};

/// Gemini with an agent that drops the ids of calls.
const GEMINI_BARE: Variant = Variant {
    body: |history, stream| (GEMINI.body)(&without_ids(history), stream),
    ..GEMINI
};

/// Ollama with an agent that drops the ids of calls.
const OLLAMA_BARE: Variant = Variant {
    body: |history, stream| (OLLAMA.body)(&without_ids(history), stream),
    ..OLLAMA
};

/// Removes the ids of calls and results from a history.
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
    ($($test:ident: $($name:ident $variant:expr),*;)*) => {
        $(mod $test {
            #[allow(unused_imports)]
            use super::*;
            $(#[tokio::test]
            async fn $name() {
                super::$test($variant).await;
            })*
        })*
    };
}

on! {
    rewinding_twice_keeps_a_hidden_pair: anthropic variants::ANTHROPIC, openai_chat CHAT,
        openai_responses variants::RESPONSES, gemini GEMINI, gemini_bare GEMINI_BARE, ollama OLLAMA,
        ollama_bare OLLAMA_BARE;
    a_handoff_of_another_conversation_during_a_lookup: anthropic variants::ANTHROPIC, openai_chat CHAT,
        openai_responses variants::RESPONSES, gemini GEMINI, gemini_bare GEMINI_BARE, ollama OLLAMA,
        ollama_bare OLLAMA_BARE;
    branches_that_agree_in_their_last_calls: anthropic variants::ANTHROPIC, openai_chat CHAT,
        openai_responses variants::RESPONSES, gemini GEMINI, gemini_bare GEMINI_BARE, ollama OLLAMA,
        ollama_bare OLLAMA_BARE;
    a_pair_whose_place_is_gone_is_counted: anthropic variants::ANTHROPIC, openai_chat CHAT,
        openai_responses variants::RESPONSES, gemini GEMINI, ollama OLLAMA;
    answers_that_break_off_at_once: anthropic variants::ANTHROPIC, openai_chat CHAT,
        openai_responses variants::RESPONSES, gemini GEMINI, ollama OLLAMA;
    a_repeated_request_continues_an_answer_that_was_not_read: anthropic variants::ANTHROPIC, openai_chat CHAT,
        openai_responses variants::RESPONSES, gemini GEMINI, ollama OLLAMA;
    an_identical_earlier_call_has_no_pair: anthropic variants::ANTHROPIC, gemini GEMINI, gemini_bare GEMINI_BARE,
        ollama OLLAMA, ollama_bare OLLAMA_BARE;
    a_conversation_with_the_same_opening_has_no_pair: anthropic variants::ANTHROPIC, gemini GEMINI,
        gemini_bare GEMINI_BARE, ollama OLLAMA, ollama_bare OLLAMA_BARE;
    a_pair_after_an_aside_is_put_back_in_its_place: anthropic variants::ANTHROPIC, openai_chat CHAT,
        openai_responses variants::RESPONSES, gemini GEMINI, gemini_bare GEMINI_BARE, ollama OLLAMA,
        ollama_bare OLLAMA_BARE;
    late_results_beside_calls_without_ids: gemini_bare GEMINI_BARE, ollama_bare OLLAMA_BARE;
    a_pair_follows_its_branch_into_another_session: anthropic variants::ANTHROPIC, openai_chat CHAT,
        openai_responses variants::RESPONSES, gemini GEMINI, ollama OLLAMA;
    a_call_without_an_id_does_not_identify_a_conversation: gemini_bare GEMINI_BARE, ollama_bare OLLAMA_BARE;
    a_sequential_call_id_does_not_identify_a_conversation: openai_chat CHAT, ollama OLLAMA;
}

/// A call of the agent's tool.
fn reads(path: &str) -> Reply {
    Reply::text("Reading.").call("read_file", json!({"path": path}))
}

/// Calls the tool like `reads`, after a handoff call. On wires that sign the first call, the signed one is
/// baton's.
fn reads_beside(path: &str) -> Reply {
    handoff_beside(Reply::new()).call("read_file", json!({"path": path}))
}

fn ends() -> Reply {
    Reply::text("The turn ends.")
}

/// Returns the outline of the second-to-last request: the leg in which the waiting handoff fired.
fn fired_in(fixture: &Fixture) -> Vec<String> {
    let legs = fixture.provider.generations();
    outline(&legs[legs.len() - 2])
}

/// Returns the calls in an outline.
fn calls(outline: &[String]) -> Vec<&str> {
    let calls = outline.iter().filter_map(|line| line.strip_prefix("call "));
    calls.collect()
}

/// A handoff in one branch removes the other branch's pair from the conversation's list.
///
/// A request from before both branches does not decide the contents of their transcripts.
async fn rewinding_twice_keeps_a_hidden_pair(variant: Variant) {
    let script = [
        reads("a"),
        reads_beside("b"),
        handoff(),
        fresh(),
        Reply::text("Back."),
        ends(),
        fresh(),
    ];
    let fixture = Fixture::new(variant, script).await;
    let called = fixture.ask(&fixture.history(), true).await;
    let before = fixture.ran(&fixture.history(), &called);
    let mixed = fixture.ask(&before, true).await;
    let branch = fixture.ran(&before, &mixed);
    let other = [&fixture.history()[..2], &[fixture.user("Another way.")]].concat();
    let fired = fixture.ask(&other, true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    fixture.ask(&before, true).await;
    let fired = fixture.ask(&branch, true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let seen = fired_in(&fixture);
    assert_eq!(calls(&seen), ["read_file", "session_handoff", "read_file"]);
    fixture.assert_clean();
}

/// Two conversations have the same opening and no session id. One hands off while the other one's calls are
/// looked up.
async fn a_handoff_of_another_conversation_during_a_lookup(variant: Variant) {
    let store = FlakyStore::new(memory());
    let script = [reads_beside("b"), handoff(), fresh(), reads("c"), ends(), fresh()];
    let mut fixture = Fixture::with(variant, script, store.clone(), |_| {}).await;
    let mixed = fixture.ask(&fixture.history(), true).await;
    let ran = fixture.ran(&fixture.history(), &mixed);
    fixture.restart(store.clone());
    let (reached, looked_up) = oneshot::channel();
    let (go_on, wait) = oneshot::channel();
    store.hold_look_up(reached, wait);
    let neighbour = [&fixture.history()[..2], &[fixture.user("Hand over.")]].concat();
    let (answer, ()) = tokio::join!(fixture.ask(&ran, true), async {
        looked_up.await.unwrap();
        let fired = fixture.ask(&neighbour, true).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        go_on.send(()).unwrap();
    });
    let fired = fixture.ask(&fixture.ran(&ran, &answer), true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let seen = fired_in(&fixture);
    assert_eq!(calls(&seen), ["session_handoff", "read_file", "read_file"]);
    fixture.assert_clean();
}

/// Two branches agree in their last calls and in everything that led to them, and one has an earlier pair.
///
/// A handoff of a third branch removes that pair from the conversation's list.
async fn branches_that_agree_in_their_last_calls(variant: Variant) {
    let fixture = Fixture::new(variant, [reads_beside("b"), handoff(), fresh()]).await;
    let mixed = fixture.ask(&fixture.history(), true).await;
    let mut branch = fixture.ran(&fixture.history(), &mixed);
    let third = [&fixture.history()[..2], &[fixture.user("Another way.")]].concat();
    let fired = fixture.ask(&third, true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let mut other = fixture.history();
    for path in ["a", "c", "d"] {
        fixture.push(reads(path));
        let called = fixture.ask(&other, true).await;
        other = fixture.ran(&other, &called);
    }
    fixture.push(ends());
    fixture.ask(&other, true).await;
    for path in ["c", "d"] {
        fixture.push(reads(path));
        let called = fixture.ask(&branch, true).await;
        branch = fixture.ran(&branch, &called);
    }
    for reply in [ends(), fresh()] {
        fixture.push(reply);
    }
    let fired = fixture.ask(&branch, true).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let wanted = ["session_handoff", "read_file", "read_file", "read_file"];
    assert_eq!(calls(&fired_in(&fixture)), wanted);
    fixture.assert_clean();
}

/// An agent removes an old call from its history, and the store has lost a refused call.
///
/// A user who rewinds to before both loses nothing.
async fn a_pair_whose_place_is_gone_is_counted(variant: Variant) {
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
    let mut fixture = Fixture::new(variant, script).await;
    let mixed = fixture.ask(&fixture.history(), true).await;
    let with = fixture.ran(&fixture.history(), &mixed);
    let mut later = with.clone();
    for _ in 0..2 {
        let called = fixture.ask(&later, true).await;
        later = fixture.ran(&later, &called);
    }
    let without = [&fixture.history(), &later[with.len()..]].concat();
    fixture.ask(&without, true).await;
    assert_eq!(calls(&fixture.sent()), ["read_file", "read_file"]);
    fixture.ask(&fixture.history(), true).await;
    let aside = fixture.ask(&fixture.history(), true).await;
    let next = [fixture.history(), aside.keep, vec![fixture.user("On.")]].concat();
    let lost = async |fixture: &Fixture, n: usize| {
        fixture
            .baton
            .events(n)
            .await
            .iter()
            .map(|e| e.lost_pairs)
            .collect::<Vec<_>>()
    };
    assert_eq!(lost(&fixture, 6).await, [0, 0, 0, 1, 0, 0]);
    fixture.restart(memory());
    fixture.ask(&next, true).await;
    assert_eq!(lost(&fixture, 1).await, [1]);
}

/// Two conversations have the same opening, and both responses are interrupted after their sentinels.
async fn answers_that_break_off_at_once(variant: Variant) {
    let cut = || fresh().deltas(1).fault(Fault::CutAfterEvents(6));
    let fixture = Fixture::new(variant, [handoff(), cut(), handoff(), cut(), fresh(), fresh()]).await;
    let mine = fixture.history();
    let neighbours = [&fixture.history()[..2], &[fixture.user("Hand over.")]].concat();
    for history in [&mine, &neighbours] {
        let response = fixture.send(history, true).await;
        assert!(response.broken && response.text().contains("[[handoff-resume:"));
    }
    for history in [&mine, &neighbours] {
        let answer = fixture.ask(history, true).await;
        assert!(
            answer.text.trim_start().starts_with("[[handoff-resume:"),
            "{}",
            answer.text
        );
        assert_eq!(fixture.sent(), [carry()]);
    }
    fixture.assert_clean();
}

/// The agent did not receive a response in one piece, so nothing of it was shown.
async fn a_repeated_request_continues_an_answer_that_was_not_read(variant: Variant) {
    let script = [handoff(), fresh(), fresh()];
    let fixture = Fixture::with(variant, script, memory(), |config| {
        config.limits.waits.unread = std::time::Duration::from_secs(600);
    })
    .await;
    let body = (variant.body)(&fixture.history(), false).to_string();
    // The agent disconnects once it has the head.
    let client = Client::builder(TokioExecutor::new()).build_http();
    let url = format!("http://{}{}", fixture.baton.addr, (variant.path)(false));
    let mut request = http::Request::post(url).header("content-type", "application/json");
    for (name, value) in variant.headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(bytes::Bytes::from(body))).unwrap();
    drop(client.request(request).await.unwrap());
    fixture.baton.events(1).await;
    let answer = fixture.ask(&fixture.history(), false).await;
    assert!(
        answer.text.trim_start().starts_with("[[handoff-resume:"),
        "{}",
        answer.text
    );
    assert_eq!(fixture.sent(), [carry()]);
    fixture.assert_clean();
}

/// Repeats an earlier call, next to a handoff call.
async fn an_identical_earlier_call_has_no_pair(variant: Variant) {
    for stream in [true, false] {
        let fixture = Fixture::new(variant, [reads("x"), reads_beside("x"), ends(), fresh()]).await;
        let called = fixture.ask(&fixture.history(), stream).await;
        let ran = fixture.ran(&fixture.history(), &called);
        let mixed = fixture.ask(&ran, stream).await;
        let fired = fixture.ask(&fixture.ran(&ran, &mixed), stream).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        let seen = fired_in(&fixture);
        let first = seen.iter().position(|line| line == "result").unwrap();
        assert_eq!(calls(&seen[..first]), ["read_file"], "{seen:?}");
        assert_eq!(
            calls(&seen[first..]),
            ["session_handoff", "read_file"],
            "{seen:?}"
        );
        fixture.assert_clean();
    }
}

/// Two conversations have the same opening and make the same call at the same position.
///
/// Earlier text or calls distinguish them.
async fn a_conversation_with_the_same_opening_has_no_pair(variant: Variant) {
    for by_call in [true, false] {
        let fixture = Fixture::new(variant, []).await;
        let mut mine = fixture.history();
        let mut neighbours = match by_call {
            true => mine.clone(),
            false => [&mine[..2], &[fixture.user("And the tests?")]].concat(),
        };
        if by_call {
            for (history, path) in [(&mut mine, "a"), (&mut neighbours, "b")] {
                fixture.push(reads(path));
                let called = fixture.ask(history, true).await;
                *history = fixture.ran(history, &called);
            }
        }
        for (history, reply) in [(&mut mine, reads_beside("x")), (&mut neighbours, reads("x"))] {
            fixture.push(reply);
            let called = fixture.ask(history, true).await;
            *history = fixture.ran(history, &called);
        }
        fixture.push(Reply::text("Mended."));
        assert_eq!(fixture.ask(&neighbours, true).await.text, "Mended.");
        assert!(!calls(&fixture.sent()).contains(&"session_handoff"));
        fixture.push(ends());
        fixture.push(fresh());
        let fired = fixture.ask(&mine, true).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        assert!(calls(&fired_in(&fixture)).contains(&"session_handoff"));
        fixture.assert_clean();
    }
}

/// After a refused call the transcript is edited before the pair is restored, so its call has moved.
async fn a_pair_after_an_aside_is_put_back_in_its_place(variant: Variant) {
    for stream in [true, false] {
        let refused = || Reply::text("Handing over.").call("session_handoff", json!({"prompt": " "}));
        let fixture = Fixture::new(
            variant,
            [refused(), reads("x"), reads_beside("x"), ends(), fresh()],
        )
        .await;
        let called = fixture.ask(&fixture.history(), stream).await;
        let ran = fixture.ran(&fixture.history(), &called);
        let mixed = fixture.ask(&ran, stream).await;
        let fired = fixture.ask(&fixture.ran(&ran, &mixed), stream).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        let seen = fired_in(&fixture);
        let wanted = ["session_handoff", "read_file", "session_handoff", "read_file"];
        assert_eq!(calls(&seen), wanted, "{seen:?}");
        fixture.assert_clean();
    }
}

/// Results that a cut removes are edited out before the pair is restored.
async fn late_results_beside_calls_without_ids(variant: Variant) {
    super::all_wires::a_late_result_beside_a_hidden_pair(variant).await;
}

/// Sends a turn with a session id.
async fn ask_in(fixture: &Fixture, session: &'static str, history: &[Value]) -> Answer {
    let headers = [fixture.variant.headers, &[("x-session-id", session)]].concat();
    let body = (fixture.variant.body)(history, true).to_string();
    let response = fixture
        .baton
        .post((fixture.variant.path)(true), &headers, body.into())
        .await;
    fixture.answer(&response, true)
}

/// A conversation that continues under another session id keeps its pairs, because ids and signatures
/// identify them.
async fn a_pair_follows_its_branch_into_another_session(variant: Variant) {
    let both = handoff_beside(Reply::new().call("read_file", json!({"path": "x"})));
    let fixture = Fixture::new(variant, [both, ends(), fresh()]).await;
    let mixed = ask_in(&fixture, "one", &fixture.history()).await;
    let fired = ask_in(&fixture, "two", &fixture.ran(&fixture.history(), &mixed)).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    fixture.assert_clean();
}

async fn a_call_without_an_id_does_not_identify_a_conversation(variant: Variant) {
    stays_in_its_session(variant, |reply| reply.call("read_file", json!({"path": "x"}))).await;
}

/// Servers with sequential call ids use the same ids in every conversation.
async fn a_sequential_call_id_does_not_identify_a_conversation(variant: Variant) {
    stays_in_its_session(variant, |reply| {
        reply.call_as("call_0", "read_file", json!({"path": "x"}))
    })
    .await;
}

/// Two sessions differ only in the handoff call of one of them.
async fn stays_in_its_session(variant: Variant, reads: fn(Reply) -> Reply) {
    let fixture = Fixture::new(variant, []).await;
    fixture.push(reads(handoff_beside(Reply::new())));
    let mixed = ask_in(&fixture, "one", &fixture.history()).await;
    fixture.push(reads(Reply::text("Reading.")));
    let called = ask_in(&fixture, "two", &fixture.history()).await;
    fixture.push(Reply::text("Mended."));
    let answer = ask_in(&fixture, "two", &fixture.ran(&fixture.history(), &called)).await;
    assert_eq!(answer.text, "Mended.");
    assert_eq!(calls(&fixture.sent()), ["read_file"]);
    fixture.push(ends());
    fixture.push(fresh());
    let fired = ask_in(&fixture, "one", &fixture.ran(&fixture.history(), &mixed)).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    fixture.assert_clean();
}
