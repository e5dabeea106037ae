//! What goes wrong on the way of one request and its answer.

use std::time::Duration;

use baton_proxy::strict::{Fault, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::anthropic::Anthropic;
use crate::harness::scene::{Scene, assistant, handoff, handoff_to, history, said, texts, then, user};
use crate::harness::{AgentSide, memory, read_until};

use super::carry;

#[tokio::test]
async fn row_1_bytes_outside_the_edit_are_the_agents_own() {
    let scene = Scene::new([Reply::text("a")]).await;
    let odd = "{ \"model\":\"m\\u0041\\/\",\"max_tokens\":8192.0,\"big\":12345678901234567890123, \"stream\" : true ,\
               \"messages\":[{\"content\":\"\\u00e9 \\ud83e\\udd80\",\"role\":\"user\"}],\n\"tools\":[{\"name\":\"t\",\
               \"input_schema\":{\"type\":\"object\",\"x\":1.50e+1}} ],\"zz\":null }";
    scene
        .baton
        .post(Anthropic.path(), Anthropic.headers(), odd.into())
        .await;
    let sent = String::from_utf8(scene.last().raw.to_vec()).unwrap();
    let (front, back) = odd.split_at(odd.find(" ],\"zz\"").unwrap() + 1);
    assert!(
        sent.starts_with(front.trim_end()) && sent.ends_with(back),
        "{sent}"
    );
    assert!(scene.last().offers_handoff());
}

#[tokio::test]
async fn row_3_results_whose_calls_were_cut_go_and_the_others_stay() {
    let scene = Scene::new([handoff(), Reply::new().call_as("c2", "run", json!({"path": "x"}))]).await;
    let told = scene.turn(&history()).await;
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": id});
    for results in [vec![result("c1"), result("c2")], vec![result("c2"), result("c1")]] {
        scene.script.push(Reply::text("ok"));
        let answer = json!({"role": "user", "content": results});
        scene
            .turn(&[&history()[..], &[assistant(&told.content), answer]].concat())
            .await;
        let seen = scene.last();
        assert_eq!(seen.messages()[2]["content"], json!([result("c2")]));
    }
    // Nothing but a late result: the message goes.
    scene.script.push(Reply::text("ok"));
    let upto = told.content.iter().position(|b| b["type"] == "tool_use").unwrap();
    let late = json!({"role": "user", "content": [result("c1")]});
    scene
        .turn(
            &[
                &history()[..],
                &[assistant(&told.content[..upto]), late, user("b")],
            ]
            .concat(),
        )
        .await;
    assert_eq!(texts(scene.last().messages()), [carry().as_str(), "u: b"]);
    scene.at_peace();
}

#[tokio::test]
async fn row_5_tokens_come_as_they_are_made_and_errors_with_their_status() {
    let stall = Fault::Stall {
        events: 4,
        time: None,
    };
    let slow = Reply::text("first words").fault(stall);
    let busy = Reply::status(529, "overloaded")
        .retry_after(7)
        .header("anthropic-ratelimit-x", "9");
    let scene = Scene::new([slow, busy]).await;
    let body = Anthropic.body(&history(), true).to_string();
    let response = scene
        .baton
        .open(Anthropic.path(), Anthropic.headers(), body.into())
        .await;
    let read = tokio::time::timeout(Duration::from_secs(5), read_until(response, "first words")).await;
    assert!(read.is_ok(), "held back");
    // Row 27, too: what upstream answers is the agent's to read, byte for byte.
    let heard = scene.ask(&history()).await;
    assert_eq!((heard.status, heard.header("retry-after")), (529, Some("7")));
    assert_eq!(heard.header("anthropic-ratelimit-x"), Some("9"));
    assert!(heard.header("request-id").is_some());
    assert_eq!(
        heard.json()["error"],
        json!({"type": "overloaded_error", "message": "overloaded"})
    );
}

#[tokio::test]
async fn row_7_the_line_is_kept_alive_and_a_dead_upstream_is_noticed() {
    let pause = Duration::from_millis(600);
    let quick = |c: &mut baton_proxy::config::Config| c.handoff.keepalive = Duration::from_millis(50);
    let stalled = |time| Fault::Stall { events: 12, time };
    let hidden = handoff().deltas(4).fault(stalled(Some(pause)));
    let scene = Scene::with([hidden, Reply::text("Fresh.")], memory(), quick).await;
    assert!(
        scene.turn(&history()).await.pings >= 5,
        "while arguments are hidden"
    );
    scene.script.push(handoff());
    scene.script.push(Reply::text("Fresh.").head_delay(pause));
    let told = scene.turn(&history()).await;
    assert!(told.pings >= 5, "while leg 2 is awaited: {}", told.pings);
    // Between tokens that the agent sees, upstream's own silence is upstream's own.
    scene.script.push(Reply::text("Hi there.").fault(Fault::Stall {
        events: 4,
        time: Some(pause),
    }));
    assert_eq!(scene.turn(&history()).await.pings, 1);

    let dead = handoff().deltas(4).fault(stalled(None));
    let scene = Scene::with([dead], memory(), |c| {
        quick(c);
        c.upstreams.get_mut("anthropic").unwrap().idle = Duration::from_millis(400);
    })
    .await;
    let heard = scene.ask(&history()).await;
    assert!(
        heard.broken,
        "pings must not hide that upstream is dead: {}",
        heard.text()
    );
}

#[tokio::test]
async fn row_13_chains_and_refusals_are_bounded() {
    let scene = Scene::new((0..8).map(|n| handoff_to(&format!("again {n}")))).await;
    let told = scene.turn(&history()).await;
    assert_eq!((scene.script.left(), told.stop.as_deref()), (0, Some("end_turn")));
    let sentinels = said(&told)
        .iter()
        .filter(|t| t.contains("[[handoff-resume:"))
        .count();
    assert_eq!(sentinels, 7);
    for _ in 0..3 {
        scene
            .script
            .push(Reply::text("Well.").call("session_handoff", json!({"prompt": ""})));
    }
    let told = scene.turn(&history()).await;
    assert_eq!((scene.script.left(), told.stop.as_deref()), (0, Some("end_turn")));
    scene.at_peace();
}

#[tokio::test]
async fn row_16_compressed_answers_reach_the_agent_plain() {
    let scene = Scene::new([
        handoff().gzip(),
        Reply::text("Fresh.").gzip(),
        Reply::text("x").gzip(),
    ])
    .await;
    let told = scene.turn(&history()).await;
    assert_eq!(said(&told).last(), Some(&"Fresh."));
    let heard = scene.ask(&then(&history(), &told, "More.")).await;
    assert_eq!(heard.header("content-encoding"), None);
    assert!(heard.text().contains("message_stop"));
}
