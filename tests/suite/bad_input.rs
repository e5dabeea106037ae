//! Requests that are not as they should be, upstreams that fail, agents that leave, a store that is down.
//!
//! At the rim, in `src/proxy/tests`: 200 MB in constant memory, the size limit and bombs (`bodies`), upstreams
//! that cannot be reached, resolved or trusted (`refusals`), agents that leave a relayed answer (`relayed`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use baton_proxy::strict::{Fault, Reply};
use bytes::Bytes;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::harness::anthropic::Anthropic;
use crate::harness::scene::{Flaky, PROMPT, Scene, handoff, history, said, texts, then, user};
use crate::harness::{AgentSide, Baton, config, memory, read_until};

#[tokio::test]
async fn what_cannot_be_read_goes_out_as_it_came() {
    let scene = Scene::new([]).await;
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
        let heard = scene
            .baton
            .post(
                Anthropic.path(),
                Anthropic.headers(),
                Bytes::from(body.to_owned()),
            )
            .await;
        assert_eq!(heard.status, 400, "{body}");
        assert_eq!(heard.header("x-baton-error"), None, "upstream said so: {body}");
        assert_eq!(scene.last().raw, body.as_bytes());
    }
}

#[tokio::test]
async fn odd_content_inside_the_shape_is_left_alone() {
    let scene = Scene::with([], memory(), |_| {}).await;
    let odd = [
        json!(["x", 7, null]),
        json!([{"role": "user"}]),
        json!([{"role": "user", "content": 7}, {"role": 9, "content": {}}]),
        json!([{"role": "assistant", "content": [7, "x", {"type": 9}, {"type": "text", "text": 5}]}]),
    ];
    for messages in odd {
        let mut body = Anthropic.body(&[], true);
        body["messages"] = messages.clone();
        scene.baton.turn(&Anthropic, &body).await;
        assert_eq!(scene.last().body["messages"], messages);
    }
}

#[tokio::test]
async fn compressed_bodies_are_decoded_edited_and_sent_plain() {
    let scene = Scene::new([Reply::text("a"), Reply::text("b")]).await;
    let body = Anthropic.body(&history(), true).to_string();
    for coding in ["gzip", "zstd"] {
        let mut packed = Vec::new();
        match coding {
            "gzip" => GzipEncoder::new(body.as_bytes()).read_to_end(&mut packed).await,
            _ => ZstdEncoder::new(body.as_bytes()).read_to_end(&mut packed).await,
        }
        .unwrap();
        let headers = [Anthropic.headers(), &[("content-encoding", coding)]].concat();
        let heard = scene.baton.post(Anthropic.path(), &headers, packed.into()).await;
        assert_eq!(heard.status, 200);
        let seen = scene.last();
        assert_eq!(seen.header("content-encoding"), None);
        assert_eq!(
            seen.header("content-length"),
            Some(seen.raw.len().to_string().as_str())
        );
        assert!(seen.raw.starts_with(&body.as_bytes()[..40]) && seen.offers_handoff());
    }
    scene.at_peace();
}

/// Upstream knows the response under another id, which the store alone could tell.
#[tokio::test]
async fn a_stored_response_is_not_asked_for_while_its_id_cannot_be_looked_up() {
    let store = Flaky::new(memory());
    let scene = Scene::with([], store.clone(), |_| {}).await;
    let uri = format!("http://{}/v1/responses/resp_1", scene.baton.addr);
    let get = async || {
        let answer = crate::harness::client().get(uri.parse().unwrap()).await;
        crate::harness::read(answer.unwrap()).await
    };
    store.no_reads.store(true, Ordering::SeqCst);
    let heard = get().await;
    assert_eq!(
        (heard.status, heard.header("x-baton-error")),
        (503, Some("store_unavailable"))
    );
    assert_eq!(heard.json()["error"]["code"], "store_unavailable");
    assert_eq!(scene.provider.requests().len(), 0);
    store.no_reads.store(false, Ordering::SeqCst);
    assert_eq!(get().await.header("x-baton-error"), None);
}

#[tokio::test]
async fn an_unknown_coding_is_relayed_untouched() {
    let scene = Scene::new([]).await;
    let headers = [Anthropic.headers(), &[("content-encoding", "x-own")]].concat();
    let body = Bytes::from(Anthropic.body(&history(), true).to_string());
    scene.baton.post(Anthropic.path(), &headers, body.clone()).await;
    let seen = scene.last();
    assert_eq!(
        (seen.header("content-encoding"), &seen.raw),
        (Some("x-own"), &body)
    );
}

#[tokio::test]
async fn ten_thousand_messages_are_cut_in_good_time() {
    let scene = Scene::new([handoff(), Reply::text("Fresh."), Reply::text("Next.")]).await;
    let mut long = Vec::new();
    for i in 0..5_000 {
        long.push(user(&format!("ask {i}")));
        long.push(json!({"role": "assistant", "content": [{"type": "text", "text": format!("answer {i}")}]}));
    }
    long.push(user("Go on."));
    let begun = Instant::now();
    let told = scene.turn(&long).await;
    assert_eq!(said(&told)[2], "Fresh.");
    let next = then(&long, &told, "More.");
    scene.turn(&next).await;
    let took = begun.elapsed();
    let sent = texts(scene.last().messages());
    assert_eq!(sent, [format!("u: {PROMPT}").as_str(), "a: Fresh.", "u: More."]);
    assert!(took < Duration::from_secs(20), "{took:?}");
    scene.at_peace();
}

/// A history whose model said `text`, and what upstream got of it.
async fn sent_with(scene: &Scene, text: &str) -> Vec<String> {
    scene.script.push(Reply::text("ok"));
    let history = [
        user("a"),
        json!({"role": "assistant", "content": text}),
        user("b"),
    ];
    scene.turn(&history).await;
    texts(scene.last().messages())
}

#[tokio::test]
async fn sentinels_that_are_not_quite_ours() {
    let scene = Scene::new([handoff(), Reply::text("Fresh.")]).await;
    let told = scene.turn(&history()).await;
    let sentinel = said(&told)[1].to_owned();
    let id = &sentinel[19..55];
    let carry = format!("u: {PROMPT}");

    // Unknown: plain text.
    let unknown = sentinel.replace(id, "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11");
    assert_eq!(sent_with(&scene, &unknown).await[1], format!("a: {unknown}"));
    // Never closed: the store knows it, and what is left of the prompt goes.
    let opened = format!("\n\n[[handoff-resume:{id}]]");
    for rest in [
        "",
        "\n",
        "\nGoal: skip",
        &format!("\n{PROMPT}"),
        &format!("\n{PROMPT}\n[[/handoff-res"),
    ] {
        let sent = sent_with(&scene, &format!("{opened}{rest}")).await;
        assert_eq!(sent, [carry.as_str(), "u: b"], "{rest:?}");
    }
    // Twice in one string, as after a retry: the last one counts.
    let twice = format!("x{sentinel}y{sentinel}z");
    assert_eq!(sent_with(&scene, &twice).await, [&carry, "a: z", "u: b"]);
    // Inside a line: a quotation.
    let inline = format!("see [[handoff-resume:{id}]] there");
    assert_eq!(sent_with(&scene, &inline).await[1], format!("a: {inline}"));
    scene.at_peace();
}

#[tokio::test]
async fn an_upstream_that_answers_html() {
    let page = |status| Reply::failing(Fault::html(status));
    let scene = Scene::new([page(502), page(200), handoff(), page(200)]).await;
    for status in [502, 200] {
        let heard = scene.ask(&history()).await;
        assert_eq!(heard.status, status);
        assert!(
            heard.text().contains("cf-ray") && heard.header("content-type").unwrap().starts_with("text/html")
        );
    }
    // In place of the next leg: nothing of it is shown, and the handoff is not lost.
    let told = scene.turn(&history()).await;
    assert_eq!(told.stop.as_deref(), Some("pause_turn"));
    scene.script.push(Reply::text("Fresh."));
    scene.turn(&then(&history(), &told, "More.")).await;
    assert_eq!(
        texts(scene.last().messages()),
        [format!("u: {PROMPT}").as_str(), "u: More."]
    );
}

#[tokio::test]
async fn an_upstream_cut_anywhere_loses_nothing() {
    let scene = Scene::new([]).await;
    let length = |reply: Reply| async {
        scene.script.push(reply);
        scene.ask(&[user("measure")]).await.raw.len()
    };
    let (first, second) = (length(handoff_shape()).await, length(Reply::text("Fresh.")).await);
    for at in (0..first - 60).step_by(97) {
        scene.script.push(handoff().fault(Fault::CutAfterBytes(at)));
        let heard = scene.ask(&history()).await;
        // Before the first event the agent is told so by a status.
        assert!(
            (heard.broken || heard.status == 502) && !heard.text().contains("[[handoff-resume:"),
            "cut at {at}: {}",
            heard.text()
        );
    }
    let mut sent_again = 0;
    for at in (0..second - 60).step_by(41) {
        let mine = [
            &history()[..],
            &[
                json!({"role": "assistant", "content": "x"}),
                user(&format!("{at}")),
            ],
        ]
        .concat();
        scene.script.push(handoff());
        scene
            .script
            .push(Reply::text("Fresh.").fault(Fault::CutAfterBytes(at)));
        scene.script.push(Reply::text("Fresh."));
        let heard = scene.ask(&mine).await;
        let text = heard.text();
        assert!(text.contains("[[handoff-resume:"), "cut at {at}: {text}");
        if !heard.broken {
            // Nothing of it was shown yet: it was sent again in the same answer.
            assert!(text.contains("Fresh.") && text.contains("message_stop"), "{text}");
            sent_again += 1;
            continue;
        }
        // Asked again, it goes straight on behind the sentinel.
        let told = scene.turn(&mine).await;
        assert!(said(&told)[0].starts_with("\n\n[[handoff-resume:") && said(&told)[1] == "Fresh.");
        assert_eq!(texts(scene.last().messages()), [format!("u: {PROMPT}")]);
    }
    assert!(sent_again > 2 && sent_again < second / 41 / 2, "{sent_again}");
    assert_eq!(scene.script.left(), 0);
}

/// As long as a handoff, and none.
fn handoff_shape() -> Reply {
    Reply::text("Done with that.").call("read_file", json!({"prompt": PROMPT, "reason": "done"}))
}

#[tokio::test]
async fn an_event_over_the_limit_goes_by_unread() {
    let big = Reply::text("Hello there.").fault(Fault::Oversize {
        events: 3,
        size: 300_000,
    });
    let scene = Scene::with([big], memory(), |c| c.limits.frame_bytes = 64 << 10).await;
    let told = scene.turn(&history()).await;
    assert_eq!(
        (said(&told), told.stop.as_deref()),
        (vec!["Hello there."], Some("end_turn"))
    );
}

#[tokio::test]
async fn an_agent_that_leaves_ends_every_leg() {
    let stall = |events| Fault::Stall { events, time: None };
    let second = || Reply::text("Fresh.");
    // Where it leaves: in leg 1, in hidden arguments, between the legs, in leg 2.
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
        let scene = Scene::new(replies).await;
        let body = Anthropic.body(&history(), true).to_string();
        let response = scene
            .baton
            .open(Anthropic.path(), Anthropic.headers(), body.into())
            .await;
        let (_, rest) = read_until(response, mark).await;
        if mark == "[[/handoff-resume:" {
            for _ in 0..200 {
                if scene.provider.requests().len() == 2 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let before = scene.provider.aborted();
        drop(rest);
        assert!(scene.provider.wait_aborted(before + 1).await, "left at {mark}");
        let event = scene.baton.events(1).await.remove(0);
        assert_eq!(event.outcome.name(), "cancelled", "{mark}");
    }
}

#[tokio::test]
async fn a_store_that_is_down_fails_pinned_requests_and_no_others() {
    let store = Flaky::new(memory());
    let scene = Scene::with([handoff(), Reply::text("Fresh.")], store.clone(), |_| {}).await;
    let told = scene.turn(&history()).await;
    let next = then(&history(), &told, "More.");
    // A new process: nothing is in memory.
    store.no_reads.store(true, Ordering::SeqCst);
    let baton = Baton::start(config(&scene.provider.url()), store.clone());
    let before = scene.provider.requests().len();
    for stream in [true, false] {
        let heard = baton.turn(&Anthropic, &Anthropic.body(&next, stream)).await;
        assert_eq!(
            (heard.status, heard.header("x-baton-error")),
            (503, Some("store_unavailable"))
        );
        assert_eq!(heard.header("x-should-retry"), None, "it may be tried again");
        assert_eq!(heard.json()["type"], "error");
    }
    assert_eq!(
        scene.provider.requests().len(),
        before,
        "the whole history is not sent"
    );
    scene.script.push(Reply::text("Hello."));
    let heard = baton
        .turn(&Anthropic, &Anthropic.body(&[user("new")], true))
        .await;
    assert_eq!(heard.status, 200);
    assert!(
        !scene.last().offers_handoff(),
        "what cannot be remembered is not begun"
    );
    store.no_reads.store(false, Ordering::SeqCst);
    scene.script.push(Reply::text("Next."));
    baton.turn(&Anthropic, &Anthropic.body(&next, true)).await;
    assert_eq!(texts(scene.last().messages())[0], format!("u: {PROMPT}"));
}

#[tokio::test]
async fn a_handoff_that_cannot_be_written_is_not_shown() {
    let store = Flaky::new(memory());
    let scene = Scene::with([Reply::text("Hi.")], store.clone(), |_| {}).await;
    scene.turn(&[user("warm up")]).await;
    for stream in [true, false] {
        let begun = [
            user("warm up"),
            json!({"role": "assistant", "content": "Hi."}),
            user("Go on."),
        ];
        store.no_writes.store(true, Ordering::SeqCst);
        scene.script.push(handoff());
        let heard = scene
            .baton
            .turn(&Anthropic, &Anthropic.body(&begun, stream))
            .await;
        let told = Anthropic.hear(&heard.raw, stream, heard.broken).unwrap();
        assert_eq!(said(&told), ["Done with that."]);
        assert_eq!((told.stop.as_deref(), told.ended), (Some("end_turn"), true));
        assert!(!heard.text().contains("handoff-resume"), "{}", heard.text());
        // Beside other calls: they go on without it.
        let both: Value = json!({"prompt": "p"});
        scene.script.push(
            Reply::new()
                .call("read_file", json!({"path": "x"}))
                .call("session_handoff", both),
        );
        let heard = scene
            .baton
            .turn(&Anthropic, &Anthropic.body(&begun, stream))
            .await;
        let told = Anthropic.hear(&heard.raw, stream, heard.broken).unwrap();
        assert_eq!((told.content.len(), told.stop.as_deref()), (1, Some("tool_use")));
        // Refused: it is not asked again, since that could not be told later.
        scene
            .script
            .push(Reply::new().call("session_handoff", json!({"prompt": ""})));
        let heard = scene
            .baton
            .turn(&Anthropic, &Anthropic.body(&begun, stream))
            .await;
        let told = Anthropic.hear(&heard.raw, stream, heard.broken).unwrap();
        assert_eq!((said(&told).len(), told.stop.as_deref()), (1, Some("end_turn")));
        store.no_writes.store(false, Ordering::SeqCst);
    }
    scene.at_peace();
}
