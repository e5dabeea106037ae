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

use crate::harness::{memory, read_until, sqlite, temp};
use crate::matrix::fixture::{Fixture, carry, fresh, handoff};
use crate::matrix::variants::{self, Answer, Variant, on_every_wire};

on_every_wire!(streamed whole rewound rewound_after_a_restart older_branch copied repeated_after_a_restart placeholder moved undone;);

/// A leg that is slower than the test.
fn slow() -> Reply {
    fresh()
        .delay(Duration::from_secs(20))
        .head_delay(Duration::from_millis(300))
}

async fn fixture(variant: Variant, store: SharedStore) -> Fixture {
    Fixture::with(variant, [handoff(), slow()], store, |_| {}).await
}

/// Sends a turn and disconnects once the sentinel was shown (streamed), or while the response is being
/// produced.
async fn stop(fixture: &Fixture, history: &[Value], stream: bool) {
    let body = (fixture.variant.body)(history, stream).to_string();
    let path = (fixture.variant.path)(stream);
    let asked = fixture.provider.generations().len();
    if stream {
        let response = fixture
            .baton
            .open(path, fixture.variant.headers, body.into())
            .await;
        let (_, mut rest) = read_until(response, "[[/handoff-resume:").await;
        let more = tokio::time::timeout(Duration::from_millis(50), rest.frame()).await;
        drop(more);
        drop(rest);
    } else {
        let asking = fixture.baton.post(path, fixture.variant.headers, body.into());
        let second_leg = async {
            while fixture.provider.generations().len() < asked + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            reply = asking => panic!("answered: {}", reply.text()),
            () = second_leg => {}
        }
    }
    // Once the exchange has ended, the proxy has noticed that the agent disconnected.
    let over = fixture.baton.events(1).await;
    assert_eq!(over[0].fired.len(), 1, "{over:?}");
}

/// Sends a turn, and disconnects once the sentinel was shown.
async fn leave(fixture: &Fixture, history: &[Value]) {
    let (path, headers) = ((fixture.variant.path)(true), fixture.variant.headers);
    let body = (fixture.variant.body)(history, true).to_string();
    let response = fixture.baton.open(path, headers, body.into()).await;
    drop(read_until(response, "[[/handoff-resume:").await);
}

/// Returns the transcript with a new user message.
fn and(fixture: &Fixture, history: &[Value], text: &str) -> Vec<Value> {
    [history, &[fixture.user(text)]].concat()
}

async fn says(fixture: &Fixture, history: &[Value], reply: &str) -> Answer {
    fixture.push(Reply::text(reply));
    let answer = fixture.ask(history, true).await;
    assert_eq!(answer.text, reply);
    answer
}

async fn streamed(variant: Variant) {
    left_out(variant, true).await;
}

async fn whole(variant: Variant) {
    left_out(variant, false).await;
}

async fn left_out(variant: Variant, stream: bool) {
    let fixture = fixture(variant, memory()).await;
    let history = fixture.history();
    stop(&fixture, &history, stream).await;
    let next = and(&fixture, &history, "Go on, please.");
    let answer = says(&fixture, &next, "Next.").await;
    let opening = format!("{}Go on, please.", carry());
    assert_eq!(fixture.sent(), [opening.as_str()]);
    let after = fixture.then(&next, &answer, "More.");
    says(&fixture, &after, "More of it.").await;
    assert_eq!(fixture.sent(), [opening.as_str(), "a: Next.", "u: More."]);
    let events = fixture.baton.events(3).await;
    for event in &events[1..3] {
        assert_eq!(
            (event.pinned.as_ref(), event.lost_sentinel),
            (events[0].fired.first(), false)
        );
    }
    fixture.assert_clean();
}

/// Repeats a request to a new process: the response continues after the sentinel, without the finished
/// task.
async fn repeated_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut fixture = fixture(variant, sqlite(dir.path())).await;
    let history = fixture.history();
    stop(&fixture, &history, true).await;
    fixture.restart(sqlite(dir.path()));
    fixture.push(fresh());
    let answer = fixture.ask(&history, true).await;
    assert!(
        answer.text.trim_start().starts_with("[[handoff-resume:"),
        "{}",
        answer.text
    );
    assert_eq!(fixture.sent(), [carry()]);
    // Shown to its end, the handoff is found by its sentinel. An identical request is then a new one.
    says(&fixture, &fixture.then(&history, &answer, "More."), "Next.").await;
    assert_eq!(fixture.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    says(&fixture, &history, "Again.").await;
    assert_eq!(fixture.sent()[0], "u: Mend the importer.");
    fixture.assert_clean();
}

/// Text that Gemini CLI puts in place of an interrupted response.
const PLACEHOLDER: &str = "[The previous response was interrupted before it completed.]";

/// The agent puts a placeholder in place of the response, as a message from the model.
async fn placeholder(variant: Variant) {
    let dir = temp();
    let mut fixture = fixture(variant, sqlite(dir.path())).await;
    let history = fixture.history();
    stop(&fixture, &history, true).await;
    fixture.restart(sqlite(dir.path()));
    let interrupted = [&history[..], &[(variant.message)("assistant", PLACEHOLDER)]].concat();
    let next = and(&fixture, &interrupted, "Go on, please.");
    let answer = says(&fixture, &next, "Next.").await;
    let opening = [
        carry(),
        format!("a: {PLACEHOLDER}"),
        "u: Go on, please.".to_owned(),
    ];
    assert_eq!(fixture.sent(), opening);
    says(&fixture, &fixture.then(&next, &answer, "More."), "More of it.").await;
    let more = ["a: Next.".to_owned(), "u: More.".to_owned()];
    assert_eq!(fixture.sent(), [&opening[..], &more].concat());
    // The model's own words are not a placeholder.
    let own = [&history[..], &[(variant.message)("assistant", "Looking again.")]].concat();
    says(&fixture, &and(&fixture, &own, "Go on, please."), "Well.").await;
    assert_eq!(fixture.sent()[0], "u: Mend the importer.");
    fixture.assert_clean();
}

/// goose moves one of its messages from request to request, to before the model's last message, and when it resumes.
async fn moved(variant: Variant) {
    let dir = temp();
    let mut fixture = fixture(variant, sqlite(dir.path())).await;
    let history = fixture.history();
    let told = |history: &[Value], at: usize, time: &str| {
        let info = format!("<info-msg>\nIt is currently {time}.\n</info-msg>");
        let info = (variant.message)("user", &info);
        [&history[..at], &[info], &history[at..]].concat()
    };
    let first = told(&history, 1, "09:00");
    let next = and(&fixture, &history, "Go on, please.");
    let asked = told(&next, 2, "09:00");
    stop(&fixture, &first, true).await;
    let answer = says(&fixture, &asked, "Next.").await;
    assert_eq!(fixture.sent(), [format!("{}Go on, please.", carry())]);
    let after = fixture.then(&next, &answer, "More.");
    let (moved, moved_again) = (
        told(&after, next.len(), "09:01"),
        told(&after, next.len(), "09:02"),
    );
    for (restarted, asked) in [(false, &moved), (true, &moved_again)] {
        if restarted {
            fixture.restart(sqlite(dir.path()));
        }
        says(&fixture, asked, "More of it.").await;
        let sent = fixture.sent();
        assert!(
            sent[0].starts_with(&format!("{}Go on, please.", carry())),
            "{sent:?}"
        );
        assert_eq!(sent[sent.len() - 2..], ["a: Next.", "u: More."]);
        assert!(!sent.concat().contains("Mend the importer."), "{sent:?}");
    }
    // After a rewind to before that position, the full history is sent.
    let rewound = told(&and(&fixture, &history[..2], "Something else."), 1, "09:03");
    says(&fixture, &rewound, "Well.").await;
    assert!(fixture.sent()[0].starts_with("u: Mend the importer."));
    fixture.assert_clean();
}

/// The model's thinking after a cut is bound to it. Once the handoff is undone, that thinking must be
/// removed.
///
/// This holds although no sentinel shows where it began.
async fn undone(variant: Variant) {
    let fixture = fixture(variant, memory()).await;
    let thought = |text: &str| Reply::new().thinking("So it is.").say(text);
    let history = fixture.history();
    stop(&fixture, &history, true).await;
    let mut asked = and(&fixture, &history, "Go on, please.");
    let whole = ["u: Mend the importer.", "a: Looking."];
    let cut = [format!("{}Go on, please.", carry()), "a: Cut.".to_owned()];
    for (reply, next) in [("Cut.", "::handoff undo"), ("Whole.", "And?")] {
        fixture.push(thought(reply));
        let answer = fixture.ask(&asked, true).await;
        asked = fixture.then(&asked, &answer, next);
        if next.starts_with("::") {
            let undone = fixture.ask(&asked, true).await;
            assert!(undone.text.contains("was undone"), "{}", undone.text);
            asked = fixture.then(&asked, &undone, "Well.");
        }
    }
    fixture.push(thought("Whole still."));
    let answer = fixture.ask(&asked, true).await;
    assert_eq!(fixture.sent()[..2], whole);
    asked = fixture.then(&asked, &answer, "::handoff undo");
    let reverted = fixture.ask(&asked, true).await;
    assert!(reverted.text.contains("was reverted"), "{}", reverted.text);
    asked = fixture.then(&asked, &reverted, "On.");
    fixture.push(thought("Cut again."));
    fixture.ask(&asked, true).await;
    assert_eq!(fixture.sent()[..2], cut);
    fixture.assert_clean();
}

/// Gemini CLI 0.61 resumes the session with `--resume`. As recorded, the calls have lost their signatures,
/// and each result occurs twice.
#[tokio::test]
async fn gemini_cli_resumes_behind_its_placeholder() {
    let dir = temp();
    let store = sqlite(dir.path());
    let step = Reply::text("Reading.").call("read_file", json!({"path": "x.txt"}));
    let mut fixture = Fixture::with(variants::GEMINI, [step, handoff(), slow()], store, |_| {}).await;
    let opening = [fixture.user("Do task one.")];
    let called = fixture.ask(&opening, true).await;
    let asked = fixture.ran(&opening, &called);
    let body = (variants::GEMINI.body)(&asked, true).to_string();
    let path = (variants::GEMINI.path)(true);
    let response = fixture
        .baton
        .open(path, variants::GEMINI.headers, body.into())
        .await;
    drop(read_until(response, "[[handoff-resume:").await);
    assert_eq!(fixture.baton.events(2).await[1].fired.len(), 1);
    fixture.restart(sqlite(dir.path()));
    let mut resumed = asked.clone();
    for part in resumed[1]["parts"].as_array_mut().unwrap() {
        part.as_object_mut().unwrap().remove("thoughtSignature");
    }
    let results = resumed[2]["parts"].as_array_mut().unwrap();
    let twice = results[0].clone();
    results.push(twice);
    resumed.push((variants::GEMINI.message)("assistant", PLACEHOLDER));
    let next = and(&fixture, &resumed, "Go on, please.");
    let answer = says(&fixture, &next, "Next.").await;
    let opening = [
        carry(),
        format!("a: {PLACEHOLDER}"),
        "u: Go on, please.".to_owned(),
    ];
    assert_eq!(fixture.sent(), opening);
    says(&fixture, &fixture.then(&next, &answer, "More."), "More of it.").await;
    assert_eq!(fixture.sent()[..3], opening);
    fixture.assert_clean();
}

/// A request that continues from an earlier point is not cut. The branch with the handoff is recognized again
/// later.
async fn rewound(variant: Variant) {
    let fixture = fixture(variant, memory()).await;
    let history = fixture.history();
    stop(&fixture, &history, true).await;
    let earlier = and(&fixture, &history[..2], "Something else.");
    for _ in 0..2 {
        says(&fixture, &earlier, "Else.").await;
        assert_eq!(
            fixture.sent(),
            ["u: Mend the importer.", "a: Looking.", "u: Something else."]
        );
        says(&fixture, &and(&fixture, &history, "Go on, please."), "Next.").await;
        assert_eq!(fixture.sent(), [format!("{}Go on, please.", carry())]);
    }
    let other = [
        fixture.user("Mend the exporter."),
        history[1].clone(),
        history[2].clone(),
    ];
    says(&fixture, &and(&fixture, &other, "Go on, please."), "Next.").await;
    assert_eq!(fixture.sent()[0], "u: Mend the exporter.");
    fixture.assert_clean();
}

/// The process ended before the end of the response counted as read. A request that contains the response
/// proves that the agent received it.
async fn rewound_after_a_restart(variant: Variant) {
    let dir = temp();
    let unread = |config: &mut Config| config.limits.waits.unread = Duration::from_secs(600);
    let store = sqlite(dir.path());
    let mut fixture = Fixture::with(variant, [handoff(), fresh()], store, unread).await;
    let history = fixture.history();
    let answer = fixture.ask(&history, true).await;
    fixture.restart(sqlite(dir.path()));
    says(&fixture, &fixture.then(&history, &answer, "More."), "Next.").await;
    assert_eq!(fixture.sent()[0], carry());
    says(&fixture, &and(&fixture, &history, "No, the other one."), "Well.").await;
    assert_eq!(fixture.sent()[0], "u: Mend the importer.");
    fixture.assert_clean();
}

/// The agent had sent more at this point before the handoff, and returns to that branch, which has no
/// handoff.
async fn older_branch(variant: Variant) {
    let fixture = Fixture::with(variant, [Reply::text("Else.")], memory(), |_| {}).await;
    let history = fixture.history();
    let branch = and(&fixture, &history, "Something else.");
    let answer = fixture.ask(&branch, true).await;
    fixture.push(handoff());
    fixture.push(slow());
    leave(&fixture, &history).await;
    assert_eq!(fixture.baton.events(2).await[1].fired.len(), 1);
    says(&fixture, &fixture.then(&branch, &answer, "More."), "More of it.").await;
    assert_eq!(fixture.sent()[0], "u: Mend the importer.");
    fixture.assert_clean();
}

/// A user hands off by a command, and returns to an earlier branch while the command's response may count as
/// unread.
///
/// After the handoff the provider would reject the thinking of that branch.
#[tokio::test]
async fn thinking_of_an_older_branch_stays_valid() {
    let thought = Reply::new().thinking("Hm.").say("Else.");
    let replies = [Reply::text("Looking."), thought];
    let unread = |config: &mut Config| config.limits.waits.unread = Duration::from_secs(600);
    let fixture = Fixture::with(variants::ANTHROPIC, replies, memory(), unread).await;
    let opening = [fixture.user("Mend the importer.")];
    let looked = fixture.ask(&opening, true).await;
    let branch = fixture.then(&opening, &looked, "Something else.");
    let answer = fixture.ask(&branch, true).await;
    let command = fixture.then(&opening, &looked, "::handoff --force --method local --no-git");
    let made = fixture.ask(&command, true).await;
    assert!(made.text.contains("[[handoff-resume:"), "{}", made.text);
    says(&fixture, &fixture.then(&branch, &answer, "More."), "More of it.").await;
    assert_eq!(fixture.sent()[0], "u: Mend the importer.");
    fixture.assert_clean();
}

/// An agent copies its session. The copy has another session id.
async fn copied(variant: Variant) {
    let dir = temp();
    let mut fixture = fixture(variant, sqlite(dir.path())).await;
    let named = |session: &'static str| -> &'static [(&'static str, &'static str)] {
        let headers: Vec<_> = variant
            .headers
            .iter()
            .copied()
            .chain([("x-session-id", session)])
            .collect();
        Box::leak(headers.into_boxed_slice())
    };
    fixture.variant.headers = named("one");
    let history = fixture.history();
    stop(&fixture, &history, true).await;
    let next = and(&fixture, &history, "Go on, please.");
    let answer = says(&fixture, &next, "Next.").await;
    fixture.variant.headers = named("two");
    let copy = fixture.then(&next, &answer, "In the copy.");
    let opening = format!("{}Go on, please.", carry());
    says(&fixture, &copy, "Copied.").await;
    assert_eq!(fixture.sent(), [opening.as_str(), "a: Next.", "u: In the copy."]);
    fixture.restart(sqlite(dir.path()));
    says(&fixture, &copy, "Copied.").await;
    assert_eq!(fixture.sent(), [opening.as_str(), "a: Next.", "u: In the copy."]);
    fixture.assert_clean();
}

/// The agent continues from a response that upstream stores, without a message of its own.
///
/// Without a message the request cannot be recognized again, so nothing is cut.
#[tokio::test]
async fn a_system_message_alone_is_no_cut_point() {
    let dir = temp();
    let mut fixture = Fixture::with(
        variants::RESPONSES,
        [Reply::text("One.")],
        sqlite(dir.path()),
        |_| {},
    )
    .await;
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
    let first = fixture
        .baton
        .post("/v1/responses", HEADERS, first.into())
        .await
        .json();
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
