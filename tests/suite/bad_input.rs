//! Malformed requests, failing upstreams, agents that leave, and a store that is down.
//!
//! `src/proxy/tests` has: 200 MB in constant memory, the size limit and bombs (`bodies`), upstreams that
//! cannot be reached, resolved or trusted (`refusals`), agents that leave a relayed answer (`relayed`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use baton_core::record::HiddenResult;
use baton_strict::{Fault, Reply};
use bytes::Bytes;
use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{
    AnthropicFixture, FlakyStore, PROMPT, handoff, history, said, texts, then, user,
};
use crate::harness::texts::{assert_contains, assert_lacks};
use crate::harness::{AgentWire, Baton, RawResponse, config, memory, read_until};
use crate::matrix::fixture::Fixture;
use crate::matrix::talk::Talk;
use crate::matrix::variants::{ANTHROPIC, GEMINI};

#[tokio::test]
async fn unreadable_bodies_are_relayed_unchanged() {
    let fixture = AnthropicFixture::new([]).await;
    let whole = Anthropic.body(&history(), true).to_string();
    let twice = whole.replacen('{', "{\"messages\":[],", 1);
    let tools_twice = whole.replacen('{', "{\"tools\":[],", 1);
    let bodies = [
        "",
        "{",
        "not json",
        "\u{feff}{}",
        "[]",
        "\"text\"",
        "null",
        "{}",
        "{\"messages\":7}",
        "{\"messages\":[]}",
        "{\"messages\":{}}",
        "{\"model\":\"m\"}",
        &whole[..whole.len() - 1],
        &format!("{whole} x"),
        &twice,
        &tools_twice,
    ];
    for body in bodies {
        let response = fixture
            .baton
            .post(
                Anthropic.path(),
                Anthropic.headers(),
                Bytes::from(body.to_owned()),
            )
            .await;
        assert_eq!(response.status, 400, "{body}");
        assert_eq!(response.header("x-baton-error"), None, "upstream said so: {body}");
        assert_eq!(fixture.last().raw, body.as_bytes());
    }
}

#[tokio::test]
async fn unusual_content_of_a_valid_shape_is_left_unchanged() {
    let fixture = AnthropicFixture::with([], memory(), |_| {}).await;
    let odd = [
        json!(["x", 7, null]),
        json!([{"role": "user"}]),
        json!([{"role": "user", "content": 7}, {"role": 9, "content": {}}]),
        json!([{"role": "assistant", "content": [7, "x", {"type": 9}, {"type": "text", "text": 5}]}]),
    ];
    for messages in odd {
        let mut body = Anthropic.body(&[], true);
        body["messages"] = messages.clone();
        fixture.baton.turn(&Anthropic, &body).await;
        assert_eq!(fixture.last().body["messages"], messages);
    }
}

#[tokio::test]
async fn compressed_bodies_are_decoded_edited_and_sent_plain() {
    let fixture = AnthropicFixture::new([Reply::text("a"), Reply::text("b")]).await;
    let body = Anthropic.body(&history(), true).to_string();
    for coding in ["gzip", "zstd"] {
        let mut packed = Vec::new();
        match coding {
            "gzip" => GzipEncoder::new(body.as_bytes()).read_to_end(&mut packed).await,
            _ => ZstdEncoder::new(body.as_bytes()).read_to_end(&mut packed).await,
        }
        .unwrap();
        let headers = [Anthropic.headers(), &[("content-encoding", coding)]].concat();
        let response = fixture
            .baton
            .post(Anthropic.path(), &headers, packed.into())
            .await;
        assert_eq!(response.status, 200);
        let seen = fixture.last();
        assert_eq!(seen.header("content-encoding"), None);
        assert_eq!(
            seen.header("content-length"),
            Some(seen.raw.len().to_string().as_str())
        );
        assert!(seen.raw.starts_with(&body.as_bytes()[..40]) && seen.offers_handoff());
    }
    fixture.assert_clean();
}

/// Upstream has the response under a different id, which only the store knows.
#[tokio::test]
async fn a_stored_response_is_not_asked_for_while_its_id_cannot_be_looked_up() {
    let store = FlakyStore::new(memory());
    let fixture = AnthropicFixture::with([], store.clone(), |_| {}).await;
    let uri = format!("http://{}/v1/responses/resp_1", fixture.baton.addr);
    let get = async || {
        let answer = crate::harness::client().get(uri.parse().unwrap()).await;
        crate::harness::read(answer.unwrap()).await
    };
    store.no_reads.store(true, Ordering::SeqCst);
    let response = get().await;
    is_unavailable(&response);
    assert_eq!(response.json()["error"]["code"], "store_unavailable");
    assert_eq!(fixture.provider.requests().len(), 0);
    store.no_reads.store(false, Ordering::SeqCst);
    assert_eq!(get().await.header("x-baton-error"), None);
}

/// Sends a history with `text` from the model, and returns the messages that upstream received.
async fn sent_with(fixture: &AnthropicFixture, text: &str) -> Vec<String> {
    fixture.script.push(Reply::text("ok"));
    let history = [
        user("a"),
        json!({"role": "assistant", "content": text}),
        user("b"),
    ];
    fixture.turn(&history).await;
    texts(fixture.last().messages())
}

#[tokio::test]
async fn damaged_quoted_and_unknown_sentinels() {
    let fixture = AnthropicFixture::new([handoff(), Reply::text("Fresh.")]).await;
    let message = fixture.turn(&history()).await;
    let sentinel = said(&message)[1].to_owned();
    let id = &sentinel[19..55];
    let carry = format!("u: {PROMPT}");

    // Unknown, so plain text.
    let unknown = sentinel.replace(id, "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11");
    assert_eq!(sent_with(&fixture, &unknown).await[1], format!("a: {unknown}"));
    // Never closed. The store knows the prompt, so its remainder is removed.
    let opened = format!("\n\n[[handoff-resume:{id}]]");
    for rest in [
        "",
        "\n",
        "\nGoal: skip",
        &format!("\n{PROMPT}"),
        &format!("\n{PROMPT}\n[[/handoff-res"),
    ] {
        let sent = sent_with(&fixture, &format!("{opened}{rest}")).await;
        assert_eq!(sent, [carry.as_str(), "u: b"], "{rest:?}");
    }
    // Twice in one string, as after a retry: the last one counts.
    let twice = format!("x{sentinel}y{sentinel}z");
    assert_eq!(sent_with(&fixture, &twice).await, [&carry, "a: z", "u: b"]);
    // Inside a line it is a quotation.
    let inline = format!("see [[handoff-resume:{id}]] there");
    assert_eq!(sent_with(&fixture, &inline).await[1], format!("a: {inline}"));
    fixture.assert_clean();
}

#[tokio::test]
async fn an_upstream_that_answers_html() {
    let page = |status| Reply::failing(Fault::html(status));
    let fixture = AnthropicFixture::new([page(502), page(200), handoff(), page(200)]).await;
    for status in [502, 200] {
        let response = fixture.ask(&history()).await;
        assert_eq!(response.status, status);
        assert!(
            response.text().contains("cf-ray")
                && response.header("content-type").unwrap().starts_with("text/html")
        );
    }
    // The next leg fails without any output, and the handoff is not lost.
    let message = fixture.turn(&history()).await;
    assert_eq!(message.stop.as_deref(), Some("pause_turn"));
    fixture.script.push(Reply::text("Fresh."));
    fixture.turn(&then(&history(), &message, "More.")).await;
    assert_eq!(
        texts(fixture.last().messages()),
        [format!("u: {PROMPT}").as_str(), "u: More."]
    );
}

#[tokio::test]
async fn an_upstream_cut_anywhere_loses_nothing() {
    let fixture = AnthropicFixture::new([]).await;
    let length = |reply: Reply| async {
        fixture.script.push(reply);
        fixture.ask(&[user("measure")]).await.raw.len()
    };
    let (first, second) = (length(handoff_shape()).await, length(Reply::text("Fresh.")).await);
    for at in (0..first - 60).step_by(97) {
        fixture.script.push(handoff().fault(Fault::CutAfterBytes(at)));
        let response = fixture.ask(&history()).await;
        // Before the first event, the agent gets an error status.
        assert!(
            (response.broken || response.status == 502) && !response.text().contains("[[handoff-resume:"),
            "cut at {at}: {}",
            response.text()
        );
    }
    // Cuts before the first visible output all wait for their retry, so they run concurrently.
    let tries = (0..second - 60).step_by(41).map(async |at| {
        let fixture = AnthropicFixture::new([]).await;
        let mine = [
            &history()[..],
            &[
                json!({"role": "assistant", "content": "x"}),
                user(&format!("{at}")),
            ],
        ]
        .concat();
        fixture.script.push(handoff());
        fixture
            .script
            .push(Reply::text("Fresh.").fault(Fault::CutAfterBytes(at)));
        fixture.script.push(Reply::text("Fresh."));
        let response = fixture.ask(&mine).await;
        let text = response.text();
        assert!(text.contains("[[handoff-resume:"), "cut at {at}: {text}");
        if !response.broken {
            // No output was shown yet, so the leg was retried in the same response.
            assert!(text.contains("Fresh.") && text.contains("message_stop"), "{text}");
            return true;
        }
        // A repeated request continues directly after the sentinel.
        let message = fixture.turn(&mine).await;
        assert!(said(&message)[0].starts_with("\n\n[[handoff-resume:") && said(&message)[1] == "Fresh.");
        assert_eq!(texts(fixture.last().messages()), [format!("u: {PROMPT}")]);
        assert_eq!(fixture.script.left(), 0);
        false
    });
    let sent_again = join_all(tries).await.into_iter().filter(|again| *again).count();
    assert!(sent_again > 2 && sent_again < second / 41 / 2, "{sent_again}");
    assert_eq!(fixture.script.left(), 0);
}

/// A history with sentinel-like text of the same length as a sentinel.
fn handoff_shape() -> Reply {
    Reply::text("Done with that.").call("read_file", json!({"prompt": PROMPT, "reason": "done"}))
}

#[tokio::test]
async fn an_event_over_the_limit_is_relayed_unread() {
    let big = Reply::text("Hello there.").fault(Fault::Oversize {
        events: 3,
        size: 300_000,
    });
    let fixture = AnthropicFixture::with([big], memory(), |c| c.limits.frame_bytes = 64 << 10).await;
    let message = fixture.turn(&history()).await;
    assert_eq!(
        (said(&message), message.stop.as_deref()),
        (vec!["Hello there."], Some("end_turn"))
    );
}

#[tokio::test]
async fn an_agent_that_leaves_ends_every_leg() {
    let stall = |events| Fault::Stall { events, time: None };
    let second = || Reply::text("Fresh.");
    // The agent leaves during leg 1, during hidden arguments, between the legs, and during leg 2.
    let table: [(Vec<Reply>, &str); 4] = [
        (vec![Reply::text("Hello.").fault(stall(4))], "Hello."),
        (vec![handoff().deltas(4).fault(stall(14))], "\"index\":0}"),
        (
            vec![handoff(), second().head_delay(Duration::from_secs(60))],
            "[[/handoff-resume:",
        ),
        (vec![handoff(), second().fault(stall(4))], "Fresh."),
    ];
    for (replies, mark) in table {
        let fixture = AnthropicFixture::new(replies).await;
        let body = Anthropic.body(&history(), true).to_string();
        let response = fixture
            .baton
            .open(Anthropic.path(), Anthropic.headers(), body.into())
            .await;
        let (_, rest) = read_until(response, mark).await;
        if mark == "[[/handoff-resume:" {
            for _ in 0..200 {
                if fixture.provider.requests().len() == 2 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let before = fixture.provider.aborted();
        drop(rest);
        assert!(fixture.provider.wait_aborted(before + 1).await, "left at {mark}");
        let event = fixture.baton.events(1).await.remove(0);
        assert_eq!(event.outcome.name(), "cancelled", "{mark}");
    }
}

#[tokio::test]
async fn a_store_that_is_down_fails_pinned_requests_and_no_others() {
    let store = FlakyStore::new(memory());
    let fixture = AnthropicFixture::with([handoff(), Reply::text("Fresh.")], store.clone(), |_| {}).await;
    let message = fixture.turn(&history()).await;
    let next = then(&history(), &message, "More.");
    // A new process with empty memory.
    store.no_reads.store(true, Ordering::SeqCst);
    let baton = Baton::start(config(&fixture.provider.url()), store.clone());
    let before = fixture.provider.requests().len();
    for stream in [true, false] {
        let response = baton.turn(&Anthropic, &Anthropic.body(&next, stream)).await;
        is_unavailable(&response);
        assert_eq!(response.header("x-should-retry"), None, "it may be tried again");
        assert_eq!(response.json()["type"], "error");
    }
    assert_eq!(
        fixture.provider.requests().len(),
        before,
        "the whole history is not sent"
    );
    fixture.script.push(Reply::text("Hello."));
    let response = baton
        .turn(&Anthropic, &Anthropic.body(&[user("new")], true))
        .await;
    assert_eq!(response.status, 200);
    assert!(
        !fixture.last().offers_handoff(),
        "what cannot be remembered is not begun"
    );
    store.no_reads.store(false, Ordering::SeqCst);
    fixture.script.push(Reply::text("Next."));
    baton.turn(&Anthropic, &Anthropic.body(&next, true)).await;
    assert_eq!(texts(fixture.last().messages())[0], format!("u: {PROMPT}"));
}

/// Gemini refuses a call without its signature, which belongs to the hidden call next to it.
#[tokio::test]
async fn what_upstream_refuses_without_the_hidden_calls_is_sent_again_once_the_store_is_back() {
    let store = FlakyStore::new(memory());
    let beside = Reply::text("Both.")
        .call("session_handoff", json!({"prompt": "Goal: skip BOMs."}))
        .call("read_file", json!({"path": "a"}));
    let mut talk = Talk::new(Fixture::with(GEMINI, [], store.clone(), |_| {}).await);
    talk.says("Read it.", "Yes.").await;
    talk.history.push(talk.user("Go on."));
    talk.runs(beside, "ok").await;
    // A new process with empty memory.
    talk.restart(store.clone());
    store.no_reads.store(true, Ordering::SeqCst);
    is_unavailable(&talk.sends().await);
    let complaints = talk.provider.complaints();
    assert_ne!(complaints, [], "upstream has refused it");
    store.no_reads.store(false, Ordering::SeqCst);
    talk.push(Reply::text("Done."));
    talk.push(Reply::text("Fresh."));
    talk.goes_on().await;
    assert_eq!(talk.provider.complaints(), complaints);
}

fn is_unavailable(response: &RawResponse) {
    let told = (response.status, response.header("x-baton-error"));
    assert_eq!(told, (503, Some("store_unavailable")));
}

/// The hidden calls in a copied conversation need the tool, even if that decision cannot be written to the store.
#[tokio::test]
async fn a_copy_with_hidden_calls_has_the_tool_while_nothing_can_be_written() {
    let store = FlakyStore::new(memory());
    let refused = Reply::text("Look.")
        .call("session_handoff", json!({"prompt": ""}))
        .call("read_file", json!({"path": "a"}));
    let mut talk = Talk::new(Fixture::with(ANTHROPIC, [], store.clone(), |_| {}).await);
    talk.history.push(talk.user("Read it."));
    talk.push(refused);
    talk.runs(Reply::text("Done."), "ok").await;
    store.no_writes.store(true, Ordering::SeqCst);
    talk.variant = ANTHROPIC.in_session("copy");
    talk.push(Reply::text("Done."));
    talk.goes_on().await;
    let sent = &talk.last().body;
    for part in ["messages", "tools"] {
        assert_contains(&sent[part].to_string(), "session_handoff");
    }
    assert_eq!(talk.provider.complaints(), []);
}

/// The model learns that its handoff was not stored, and goes on. Later requests contain what it has seen, stored or not.
#[tokio::test]
async fn a_handoff_that_cannot_be_written_is_not_shown_and_the_model_goes_on() {
    let store = FlakyStore::new(memory());
    let fixture = AnthropicFixture::with([Reply::text("Hi.")], store.clone(), |_| {}).await;
    fixture.turn(&[user("warm up")]).await;
    let answer = json!({"role": "assistant", "content": "Hi."});
    let mut history = vec![user("warm up"), answer, user("Go on.")];
    for stream in [true, false] {
        store.no_writes.store(true, Ordering::SeqCst);
        fixture.script.push(handoff());
        fixture.script.push(Reply::text("Going on."));
        let message = fixture.heard(&history, stream).await;
        let texts = said(&message);
        assert_eq!(
            [texts[0], texts[texts.len() - 1]],
            ["Done with that.", "Going on."]
        );
        assert_lacks(&texts.concat(), "handoff-resume");
        assert_eq!((message.stop.as_deref(), message.ended), (Some("end_turn"), true));
        history = then(&history, &message, "And?");
        for is_down in [true, false] {
            store.no_writes.store(is_down, Ordering::SeqCst);
            fixture.script.push(Reply::text("Yes."));
            let message = fixture.heard(&history, stream).await;
            let sent = fixture.last().body["messages"].to_string();
            assert_contains(&sent, HiddenResult::NOT_STORED.text());
            history = then(&history, &message, "And?");
        }
    }
    // The store has them now, so another process finds them.
    let pairs = fixture.last().body["messages"].clone();
    let restarted = AnthropicFixture::with([Reply::text("Yes.")], store.clone(), |_| {}).await;
    restarted.heard(&history, true).await;
    let sent = restarted.last().body["messages"].clone();
    let before = pairs.as_array().unwrap().len();
    assert_eq!(sent.as_array().unwrap()[..before], pairs.as_array().unwrap()[..]);
    fixture.assert_clean();
}

/// A model that repeats its call is not asked without end. Next to other calls, which are forwarded, the call waits.
#[tokio::test]
async fn a_call_repeated_while_the_store_is_down_ends_the_turn() {
    let store = FlakyStore::new(memory());
    let fixture = AnthropicFixture::with([Reply::text("Hi.")], store.clone(), |_| {}).await;
    fixture.turn(&[user("warm up")]).await;
    for stream in [true, false] {
        let answer = json!({"role": "assistant", "content": "Hi."});
        let begun = [user("warm up"), answer, user("Go on.")];
        store.no_writes.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            fixture.script.push(handoff());
        }
        let message = fixture.heard(&begun, stream).await;
        assert_lacks(&said(&message).concat(), "handoff-resume");
        assert_eq!((message.stop.as_deref(), message.ended), (Some("end_turn"), true));
        assert_eq!(fixture.script.left(), 0);
        let read = Reply::new().call("read_file", json!({"path": "x"}));
        fixture
            .script
            .push(read.call("session_handoff", json!({"prompt": "p"})));
        let message = fixture.heard(&begun, stream).await;
        assert_eq!(
            (message.content.len(), message.stop.as_deref()),
            (1, Some("tool_use"))
        );
        store.no_writes.store(false, Ordering::SeqCst);
    }
    fixture.assert_clean();
}
