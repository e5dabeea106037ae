//! An agent stops a response after its handoff and omits the response from its next request.
//!
//! The handoff still applies if that request continues from the same point, on every wire.

use std::time::Duration;

use baton_llm::state::config::Config;
use baton_llm::state::store::SharedStore;
use baton_strict::Reply;
use http_body_util::BodyExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::harness::texts::{assert_begins, assert_contains, assert_lacks};
use crate::harness::{memory, read_until, sqlite, temp};
use crate::matrix::fixture::{Fixture, carry, fresh, handoff, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(streamed whole rewound rewound_after_a_restart copied repeated_after_a_restart placeholder moved undone;);

/// A leg that is slower than the test.
fn slow() -> Reply {
    fresh()
        .delay(Duration::from_secs(20))
        .head_delay(Duration::from_millis(300))
}

/// The carry-over prompt, with the user's message after it.
fn cut() -> String {
    format!("{}Go on, please.", carry())
}

/// A conversation whose agent stops the response to "Go on." after the handoff.
async fn left(variant: Variant, store: SharedStore) -> Talk {
    let mut talk = Talk::opened(Fixture::with(variant, [], store, |_| {}).await);
    stop(&mut talk, "Go on.", true).await;
    talk
}

/// Sends a turn at which the model hands over, and disconnects once the sentinel was shown (streamed), or while
/// the response is being produced.
async fn stop(talk: &mut Talk, text: &str, stream: bool) {
    talk.push(handoff());
    talk.push(slow());
    talk.history.push(talk.user(text));
    let asked = talk.provider.generations().len();
    if stream {
        let body = (talk.variant.body)(&talk.history, stream).to_string();
        let path = (talk.variant.path)(stream);
        let response = talk.baton.open(path, talk.variant.headers, body.into()).await;
        let (_, mut rest) = read_until(response, "[[/handoff-resume:").await;
        let more = timeout(Duration::from_millis(50), rest.frame()).await;
        drop(more);
        drop(rest);
    } else {
        let second_leg = async {
            while talk.provider.generations().len() < asked + 2 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            reply = talk.send(&talk.history, stream) => panic!("answered: {}", reply.text()),
            () = second_leg => {}
        }
    }
    // Once the exchange has ended, the proxy has noticed that the agent disconnected.
    let over = talk.baton.events(asked + 1).await;
    assert_eq!(over[asked].fired.len(), 1, "{over:?}");
}

async fn streamed(variant: Variant) {
    left_out(variant, true).await;
}

async fn whole(variant: Variant) {
    left_out(variant, false).await;
}

async fn left_out(variant: Variant, stream: bool) {
    let mut talk = Talk::opened(Fixture::new(variant, []).await);
    stop(&mut talk, "Go on.", stream).await;
    talk.says("Go on, please.", "Next.").await;
    assert_eq!(talk.sent(), [cut()]);
    talk.says("More.", "More of it.").await;
    assert_eq!(talk.sent(), [&*cut(), "a: Next.", "u: More."]);
    let events = talk.baton.events(3).await;
    for event in &events[1..3] {
        let found = (event.pinned.as_ref(), event.lost_sentinel);
        assert_eq!(found, (events[0].fired.first(), false));
    }
    talk.assert_clean();
}

/// Repeats a request to a new process: the response continues after the sentinel, without the finished
/// task.
async fn repeated_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut talk = left(variant, sqlite(dir.path())).await;
    let asked = talk.history.clone();
    talk.restart(sqlite(dir.path()));
    talk.push(fresh());
    let answer = talk.goes_on().await;
    assert_begins(answer.text.trim_start(), "[[handoff-resume:");
    assert_eq!(talk.sent(), [carry()]);
    // Shown to its end, the handoff is found by its sentinel. An identical request is then a new one.
    talk.says("More.", "Next.").await;
    assert_eq!(talk.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    talk.history = asked;
    talk.push(Reply::text("Again."));
    talk.goes_on().await;
    assert_eq!(talk.sent()[0], "u: Mend the importer.");
    talk.assert_clean();
}

/// Text that Gemini CLI puts in place of an interrupted response.
const PLACEHOLDER: &str = "[The previous response was interrupted before it completed.]";

/// The agent puts a placeholder in place of the response, as a message from the model.
async fn placeholder(variant: Variant) {
    let dir = temp();
    let mut talk = left(variant, sqlite(dir.path())).await;
    let asked = talk.history.clone();
    talk.restart(sqlite(dir.path()));
    talk.history.push((variant.message)("assistant", PLACEHOLDER));
    continues_behind_the_placeholder(&mut talk).await;
    // The model's own words are not a placeholder.
    talk.history = asked;
    talk.history
        .push((variant.message)("assistant", "Looking again."));
    talk.says("Go on, please.", "Well.").await;
    assert_eq!(talk.sent()[0], "u: Mend the importer.");
    talk.assert_clean();
}

async fn continues_behind_the_placeholder(talk: &mut Talk) {
    talk.says("Go on, please.", "Next.").await;
    let (carried, placeholder) = (carry(), format!("a: {PLACEHOLDER}"));
    let opening = [&*carried, &*placeholder, "u: Go on, please."];
    assert_eq!(talk.sent(), opening);
    talk.says("More.", "More of it.").await;
    assert_eq!(talk.sent(), [&opening[..], &["a: Next.", "u: More."]].concat());
}

/// goose moves one of its messages from request to request, to before the model's last message, and when it resumes.
async fn moved(variant: Variant) {
    let dir = temp();
    let mut talk = Talk::opened(Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await);
    let told = |time: &str| {
        let info = format!("<info-msg>\nIt is currently {time}.\n</info-msg>");
        (variant.message)("user", &info)
    };
    talk.history.insert(1, told("09:00"));
    stop(&mut talk, "Go on.", true).await;
    talk.history.swap(1, 2);
    talk.says("Go on, please.", "Next.").await;
    assert_eq!(talk.sent(), [cut()]);
    talk.history.remove(2);
    let end = talk.history.len() - 1;
    let next = talk.history.clone();
    for (restarted, time) in [(false, "09:01"), (true, "09:02")] {
        if restarted {
            talk.restart(sqlite(dir.path()));
        }
        talk.history.clone_from(&next);
        talk.history.insert(end, told(time));
        talk.says("More.", "More of it.").await;
        let sent = talk.sent();
        assert_begins(&sent[0], &cut());
        assert_eq!(sent[sent.len() - 2..], ["a: Next.", "u: More."]);
        assert_lacks(&sent.concat(), "Mend the importer.");
    }
    // After a rewind to before that position, the full history is sent.
    talk.history.truncate(2);
    talk.history.insert(1, told("09:03"));
    talk.says("Something else.", "Well.").await;
    assert_begins(&talk.sent()[0], "u: Mend the importer.");
    talk.assert_clean();
}

/// The model's thinking after a cut is bound to it. Once the handoff is undone, that thinking must be
/// removed.
///
/// This holds although no sentinel shows where it began.
async fn undone(variant: Variant) {
    let mut talk = left(variant, memory()).await;
    talk.says("Go on, please.", thought("Cut.")).await;
    assert_contains(&talk.command("::handoff undo").await, "was undone");
    talk.says("Well.", thought("Whole.")).await;
    talk.says("And?", thought("Whole still.")).await;
    assert_eq!(talk.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    assert_contains(&talk.command("::handoff undo").await, "was reverted");
    talk.says("On.", thought("Cut again.")).await;
    assert_eq!(talk.sent()[..2], [&*cut(), "a: Cut."]);
    talk.assert_clean();
}

/// Gemini CLI 0.61 resumes the session with `--resume`. As recorded, the calls have lost their signatures,
/// and each result occurs twice.
#[tokio::test]
async fn gemini_cli_resumes_behind_its_placeholder() {
    let dir = temp();
    let mut talk = Talk::new(Fixture::with(variants::GEMINI, [], sqlite(dir.path()), |_| {}).await);
    talk.history.push(talk.user("Do task one."));
    let step = Reply::text("Reading.").call("read_file", json!({"path": "x.txt"}));
    talk.runs(step, "fn main() {}").await;
    let results = talk.history.pop().unwrap();
    talk.push(handoff());
    talk.push(slow());
    talk.history.push(results);
    let body = (talk.variant.body)(&talk.history, true).to_string();
    let path = (talk.variant.path)(true);
    let response = talk.baton.open(path, talk.variant.headers, body.into()).await;
    drop(read_until(response, "[[/handoff-resume:").await);
    assert_eq!(talk.baton.events(2).await[1].fired.len(), 1);
    talk.restart(sqlite(dir.path()));
    for part in talk.history[1]["parts"].as_array_mut().unwrap() {
        part.as_object_mut().unwrap().remove("thoughtSignature");
    }
    let results = talk.history[2]["parts"].as_array_mut().unwrap();
    results.push(results[0].clone());
    talk.history
        .push((variants::GEMINI.message)("assistant", PLACEHOLDER));
    continues_behind_the_placeholder(&mut talk).await;
    talk.assert_clean();
}

/// A request that continues from an earlier point is not cut. The branch with the handoff is recognized again
/// later.
async fn rewound(variant: Variant) {
    let mut talk = left(variant, memory()).await;
    let asked = talk.history.clone();
    for _ in 0..2 {
        talk.history = asked[..2].to_vec();
        talk.says("Something else.", "Else.").await;
        let whole = ["u: Mend the importer.", "a: Looking.", "u: Something else."];
        assert_eq!(talk.sent(), whole);
        talk.history.clone_from(&asked);
        talk.says("Go on, please.", "Next.").await;
        assert_eq!(talk.sent(), [cut()]);
    }
    talk.history = asked;
    talk.history[0] = talk.user("Mend the exporter.");
    talk.says("Go on, please.", "Next.").await;
    assert_eq!(talk.sent()[0], "u: Mend the exporter.");
    talk.assert_clean();
}

/// Counts a response as unread for longer than a test.
fn unread(config: &mut Config) {
    config.limits.waits.unread = Duration::from_secs(600);
}

/// The process ended before the end of the response counted as read. A request that contains the response
/// proves that the agent received it.
async fn rewound_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut talk = Talk::opened(Fixture::with(variant, [], sqlite(dir.path()), unread).await);
    talk.hands_over("Go on.").await;
    talk.restart(sqlite(dir.path()));
    talk.says("More.", "Next.").await;
    assert_eq!(talk.sent()[0], carry());
    talk.history.truncate(3);
    talk.says("No, the other one.", "Well.").await;
    assert_eq!(talk.sent()[0], "u: Mend the importer.");
    talk.assert_clean();
}

/// A user hands off by a command, and returns to an earlier branch while the command's response may count as
/// unread. `plan::tests::decisions` has the same of a response that was left out.
///
/// After the handoff the provider would reject the thinking of that branch.
#[tokio::test]
async fn thinking_of_an_older_branch_stays_valid() {
    let mut talk = Talk::new(Fixture::with(variants::ANTHROPIC, [], memory(), unread).await);
    talk.says("Mend the importer.", "Looking.").await;
    let looked = talk.history.clone();
    talk.says("Something else.", thought("Else.")).await;
    let branch = std::mem::replace(&mut talk.history, looked);
    let made = talk.command("::handoff --force --method local --no-git").await;
    assert_contains(&made, "[[handoff-resume:");
    talk.history = branch;
    talk.says("More.", "More of it.").await;
    assert_eq!(talk.sent()[0], "u: Mend the importer.");
    talk.assert_clean();
}

/// An agent copies its session. The copy has another session id.
async fn copied(variant: Variant) {
    let dir = temp();
    let mut talk = left(variant.in_session("one"), sqlite(dir.path())).await;
    talk.says("Go on, please.", "Next.").await;
    talk.variant = variant.in_session("two");
    let copy = talk.history.clone();
    for restarted in [false, true] {
        if restarted {
            talk.restart(sqlite(dir.path()));
        }
        talk.history.clone_from(&copy);
        talk.says("In the copy.", "Copied.").await;
        assert_eq!(talk.sent(), [&*cut(), "a: Next.", "u: In the copy."]);
    }
    talk.assert_clean();
}

/// The agent continues from a response that upstream stores, without a message of its own.
///
/// Without a message the request cannot be recognized again, so nothing is cut.
#[tokio::test]
async fn a_system_message_alone_is_no_cut_point() {
    let dir = temp();
    let one = [Reply::text("One.")];
    let mut fixture = Fixture::with(variants::RESPONSES, one, sqlite(dir.path()), |_| {}).await;
    const HEADERS: &[(&str, &str)] = &[("authorization", "Bearer sk-agent"), ("x-session-id", "one")];
    let body = |input: &[Value], previous: &Value, stream: bool| {
        let mut body = (variants::RESPONSES.body)(input, stream);
        body["store"] = json!(true);
        if !previous.is_null() {
            body["previous_response_id"] = previous.clone();
        }
        body.to_string()
    };
    let first = body(&[fixture.user("Mend the importer.")], &Value::Null, false);
    let first = fixture.baton.post("/v1/responses", HEADERS, first.into()).await;
    let first = first.json();
    let developer = json!({"type": "message", "role": "developer", "content": "continue"});
    fixture.push(handoff());
    fixture.push(slow());
    let asked = body(std::slice::from_ref(&developer), &first["id"], true);
    let response = fixture.baton.open("/v1/responses", HEADERS, asked.into()).await;
    drop(read_until(response, "[[/handoff-resume:").await);
    assert_eq!(fixture.baton.events(2).await[1].fired.len(), 1);
    for restarted in [false, true] {
        if restarted {
            fixture.restart(sqlite(dir.path()));
        }
        for input in [
            vec![developer.clone(), fixture.user("x")],
            vec![fixture.user("x")],
        ] {
            fixture.push(Reply::text("Next."));
            let asked = body(&input, &first["id"], false);
            let reply = fixture.baton.post("/v1/responses", HEADERS, asked.into()).await;
            assert_eq!(reply.status, 200, "{}", reply.text());
            let sent = fixture.provider.generations().last().unwrap().clone();
            assert_eq!(sent.body["input"], json!(input));
        }
    }
    fixture.assert_clean();
}
