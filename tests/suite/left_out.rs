//! An agent stops an answer behind its handoff, and leaves all of it out of its next request: the handoff holds all the
//! same where that request goes on from the same point, on every wire.

use std::time::Duration;

use baton_proxy::store::SharedStore;
use baton_proxy::strict::Reply;
use http_body_util::BodyExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{memory, read_until, sqlite, temp};
use crate::matrix::sides::{self, Said, Side};
use crate::matrix::stage::{PROMPT, Stage, carry, fresh, handoff, sketch};

const SECOND: &str = "Goal: the second one.";

macro_rules! wires {
    ($($wire:ident = $side:ident: $($test:ident)*;)*) => {
        $(mod $wire {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::sides::$side).await;
            })*
        })*
    };
}

wires! {
    anthropic = ANTHROPIC: streamed whole restarted rewound copied handed_over_again kept told_to_the_end;
    openai_chat = CHAT: streamed whole restarted rewound copied handed_over_again kept told_to_the_end;
    openai_responses = RESPONSES: streamed whole restarted rewound copied handed_over_again kept told_to_the_end;
    gemini = GEMINI: streamed whole restarted rewound copied handed_over_again kept told_to_the_end;
    ollama = OLLAMA: streamed whole restarted rewound copied handed_over_again kept told_to_the_end;
}

/// A leg that nobody waits for.
fn slow() -> Reply {
    fresh()
        .delay(Duration::from_secs(20))
        .head_delay(Duration::from_millis(300))
}

fn second() -> Reply {
    Reply::text("Done, too.").call("session_handoff", json!({"prompt": SECOND}))
}

async fn stage(side: Side, store: SharedStore) -> Stage {
    Stage::with(side, [handoff(), slow()], store, |_| {}).await
}

/// Asks, and leaves when the sentinel was shown (streamed), or while the answer is made.
async fn stop(stage: &Stage, history: &[Value], stream: bool) {
    let body = (stage.side.body)(history, stream).to_string();
    let path = (stage.side.path)(stream);
    let asked = stage.provider.generations().len();
    if stream {
        let response = stage.baton.open(path, stage.side.headers, body.into()).await;
        let (_, mut rest) = read_until(response, "[[/handoff-resume:").await;
        let more = tokio::time::timeout(Duration::from_millis(50), rest.frame()).await;
        drop(more);
        drop(rest);
    } else {
        let asking = stage.baton.post(path, stage.side.headers, body.into());
        let second_leg = async {
            while stage.provider.generations().len() < asked + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            heard = asking => panic!("answered: {}", heard.text()),
            () = second_leg => {}
        }
    }
    // The proxy has seen the agent leave when its exchange is over.
    let over = stage.baton.events(1).await;
    assert_eq!(over[0].fired.len(), 1, "{over:?}");
}

/// The transcript with new text behind it.
fn and(stage: &Stage, history: &[Value], text: &str) -> Vec<Value> {
    [history, &[stage.user(text)]].concat()
}

async fn says(stage: &Stage, history: &[Value], reply: &str) -> Said {
    stage.push(Reply::text(reply));
    let said = stage.ask(history, true).await;
    assert_eq!(said.text, reply);
    said
}

async fn streamed(side: Side) {
    left_out(side, true).await;
}

async fn whole(side: Side) {
    left_out(side, false).await;
}

async fn left_out(side: Side, stream: bool) {
    let stage = stage(side, memory()).await;
    let history = stage.history();
    stop(&stage, &history, stream).await;
    let next = and(&stage, &history, "Go on, please.");
    let said = says(&stage, &next, "Next.").await;
    let opening = format!("{}Go on, please.", carry());
    assert_eq!(stage.sent(), [opening.as_str()]);
    let after = stage.then(&next, &said, "More.");
    says(&stage, &after, "More of it.").await;
    assert_eq!(stage.sent(), [opening.as_str(), "a: Next.", "u: More."]);
    let events = stage.baton.events(3).await;
    for event in &events[1..3] {
        assert_eq!(
            (event.pinned.as_ref(), event.unpinned),
            (events[0].fired.first(), false)
        );
    }
    stage.at_peace();
}

async fn restarted(side: Side) {
    let dir = temp();
    let mut stage = stage(side, sqlite(dir.path())).await;
    let history = stage.history();
    stop(&stage, &history, true).await;
    stage.restart(sqlite(dir.path()));
    let next = and(&stage, &history, "Go on, please.");
    let said = says(&stage, &next, "Next.").await;
    let opening = format!("{}Go on, please.", carry());
    assert_eq!(stage.sent(), [opening.as_str()]);
    stage.restart(sqlite(dir.path()));
    says(&stage, &stage.then(&next, &said, "More."), "More of it.").await;
    assert_eq!(stage.sent(), [opening.as_str(), "a: Next.", "u: More."]);
    stage.at_peace();
}

/// A request that goes on from an earlier point has the old transcript; the branch is found again afterwards.
async fn rewound(side: Side) {
    let stage = stage(side, memory()).await;
    let history = stage.history();
    stop(&stage, &history, true).await;
    let earlier = and(&stage, &history[..2], "Something else.");
    for _ in 0..2 {
        says(&stage, &earlier, "Else.").await;
        assert_eq!(
            stage.sent(),
            ["u: Mend the importer.", "a: Looking.", "u: Something else."]
        );
        says(&stage, &and(&stage, &history, "Go on, please."), "Next.").await;
        assert_eq!(stage.sent(), [format!("{}Go on, please.", carry())]);
    }
    let other = [
        stage.user("Mend the exporter."),
        history[1].clone(),
        history[2].clone(),
    ];
    says(&stage, &and(&stage, &other, "Go on, please."), "Next.").await;
    assert_eq!(stage.sent()[0], "u: Mend the exporter.");
    stage.at_peace();
}

/// An agent copies its session: the copy has another name.
async fn copied(side: Side) {
    let dir = temp();
    let mut stage = stage(side, sqlite(dir.path())).await;
    let named = |session: &'static str| -> &'static [(&'static str, &'static str)] {
        let headers: Vec<_> = side
            .headers
            .iter()
            .copied()
            .chain([("x-session-id", session)])
            .collect();
        Box::leak(headers.into_boxed_slice())
    };
    stage.side.headers = named("one");
    let history = stage.history();
    stop(&stage, &history, true).await;
    let next = and(&stage, &history, "Go on, please.");
    let said = says(&stage, &next, "Next.").await;
    stage.side.headers = named("two");
    let copy = stage.then(&next, &said, "In the copy.");
    let opening = format!("{}Go on, please.", carry());
    says(&stage, &copy, "Copied.").await;
    assert_eq!(stage.sent(), [opening.as_str(), "a: Next.", "u: In the copy."]);
    stage.restart(sqlite(dir.path()));
    says(&stage, &copy, "Copied.").await;
    assert_eq!(stage.sent(), [opening.as_str(), "a: Next.", "u: In the copy."]);
    stage.at_peace();
}

async fn handed_over_again(side: Side) {
    let stage = stage(side, memory()).await;
    let history = stage.history();
    stop(&stage, &history, true).await;
    // The second one is shown and kept.
    let next = and(&stage, &history, "Go on, please.");
    let said = says(&stage, &next, "Next.").await;
    let after = stage.then(&next, &said, "Finish.");
    stage.push(second());
    stage.push(Reply::text("Second."));
    let shown = stage.ask(&after, true).await;
    assert!(shown.text.ends_with("Second."), "{}", shown.text);
    says(&stage, &stage.then(&after, &shown, "More."), "Third.").await;
    assert_eq!(
        stage.sent(),
        [format!("u: {SECOND}").as_str(), "a: Second.", "u: More."]
    );
    // Back to before it: the first one holds.
    says(
        &stage,
        &and(&stage, &after[..after.len() - 1], "Not that."),
        "Well.",
    )
    .await;
    let opening = format!("{}Go on, please.", carry());
    assert_eq!(stage.sent(), [opening.as_str(), "a: Next.", "u: Not that."]);
    // A second one that is left out, too.
    stage.push(second());
    stage.push(slow());
    let body = (side.body)(&after, true).to_string();
    let response = stage
        .baton
        .open((side.path)(true), side.headers, body.into())
        .await;
    drop(read_until(response, "[[/handoff-resume:").await);
    tokio::time::sleep(Duration::from_millis(500)).await;
    says(&stage, &and(&stage, &after, "Then this."), "This.").await;
    assert_eq!(stage.sent(), [format!("u: {SECOND}Then this.")]);
    stage.at_peace();
}

/// An agent that keeps what it has read of the answer is found by the sentinel, as ever.
async fn kept(side: Side) {
    let stage = stage(side, memory()).await;
    let history = stage.history();
    stop(&stage, &history, true).await;
    stage.push(handoff());
    stage.push(fresh());
    let said = stage.ask(&and(&stage, &history[..2], "Go on!"), true).await;
    let history = and(&stage, &history[..2], "Go on!");
    says(&stage, &stage.then(&history, &said, "More."), "Next.").await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    stage.at_peace();
}

/// An answer that the agent has all of, and takes out later, was taken back by a person.
async fn told_to_the_end(side: Side) {
    for stream in [true, false] {
        let stage = Stage::new(side, [handoff(), fresh()]).await;
        let history = stage.history();
        let said = stage.ask(&history, stream).await;
        assert!(said.text.contains(PROMPT));
        says(&stage, &and(&stage, &history, "No, the other one."), "Well.").await;
        let seen = sketch(stage.provider.generations().last().unwrap());
        assert_eq!(seen[0], "u: Mend the importer.", "{seen:?}");
        stage.at_peace();
    }
}

/// The agent goes on from a response that upstream holds, and says nothing itself: nothing of such a request can be found
/// again, and nothing is cut away in its name.
#[tokio::test]
async fn nothing_but_the_systems_word_is_no_place_to_cut() {
    let dir = temp();
    let mut stage = Stage::with(
        sides::RESPONSES,
        [Reply::text("One.")],
        sqlite(dir.path()),
        |_| {},
    )
    .await;
    const HEADERS: &[(&str, &str)] = &[("authorization", "Bearer sk-agent"), ("x-session-id", "one")];
    let body = |input: &[Value], previous: &Value, stream: bool| {
        let mut body = (sides::RESPONSES.body)(input, stream);
        body["store"] = json!(true);
        if !previous.is_null() {
            body["previous_response_id"] = previous.clone();
        }
        body.to_string()
    };
    let first = body(&[stage.user("Mend the importer.")], &Value::Null, false);
    let first = stage
        .baton
        .post("/v1/responses", HEADERS, first.into())
        .await
        .json();
    let developer = json!({"type": "message", "role": "developer", "content": "continue"});
    stage.push(handoff());
    stage.push(slow());
    let asked = body(std::slice::from_ref(&developer), &first["id"], true);
    let response = stage.baton.open("/v1/responses", HEADERS, asked.into()).await;
    drop(read_until(response, "[[/handoff-resume:").await);
    assert_eq!(stage.baton.events(2).await[1].fired.len(), 1);
    for restarted in [false, true] {
        if restarted {
            stage.restart(sqlite(dir.path()));
        }
        for input in [vec![developer.clone(), stage.user("x")], vec![stage.user("x")]] {
            stage.push(Reply::text("Next."));
            let asked = body(&input, &first["id"], false);
            let heard = stage.baton.post("/v1/responses", HEADERS, asked.into()).await;
            assert_eq!(heard.status, 200, "{}", heard.text());
            let sent = stage.provider.generations().last().unwrap().clone();
            assert_eq!(sent.body["input"], json!(input));
        }
    }
    stage.at_peace();
}
