//! Handoffs that the model did not begin.
//!
//! A draft is written after the live request, and the conversation continues after it. On every wire,
//! streamed and in one piece, with the strict provider.

use std::path::Path;
use std::time::Duration;

use baton_core::handoffs::draft::{DraftMethod, DraftRequest};
use baton_core::record::HandoffOrigin;
use baton_llm::state::config::Config;
use baton_llm::state::jobs::drafts::{DraftOrder, DraftRecord, DraftState};
use baton_strict::{Fault, Received, Reply, Stop};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::harness::{memory, read_until};
use crate::matrix::fixture::{Fixture, behind_line, fresh, outline, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{self, Answer, Variant, on_every_wire_both_ways};

const DOCUMENT: &str =
    "## Goal\nMend the importer, then the exporter.\n\n## Next steps\n1. Open exporter.rs.";

/// The message whose request a draft is made with.
const NEXT: &str = "Now the exporter.";

/// Starts a conversation of two turns.
async fn looked(variant: Variant, stream: bool, change: impl FnOnce(&mut Config)) -> Talk {
    let mut talk = Talk::opened(Fixture::with(variant, [], memory(), change).await);
    talk.stream = stream;
    talk.says("Go on.", thought("Looked.")).await;
    talk
}

/// Requests a draft in this conversation.
async fn wants(talk: &Talk, wanted: impl Into<DraftOrder>) -> Uuid {
    let key = talk.baton.events(1).await[0].conversation.clone().unwrap();
    let asked = talk.baton.drafting.request(&key, "local", wanted.into(), None);
    asked.unwrap_or_else(|busy| panic!("busy with {}", busy.id)).id
}

fn draft(talk: &Talk, id: Uuid) -> DraftRecord {
    talk.baton.drafting.get(id).unwrap()
}

/// Sends the next message. The script has these replies.
async fn asks(talk: &mut Talk, replies: impl IntoIterator<Item = Reply>) -> Answer {
    replies.into_iter().for_each(|reply| talk.push(reply));
    talk.asks(NEXT).await
}

/// Returns the requests after the opening one.
fn legs(talk: &Talk) -> Vec<Received> {
    let all = talk.provider.generations();
    all.iter().skip(1).map(|leg| (**leg).clone()).collect()
}

/// Asserts that nothing was handed over: this request and the next one are sent unchanged.
///
/// The user is told of a draft whose progress was shown, or that a command requested.
async fn goes_on_as_before(talk: &mut Talk, answer: &Answer) {
    let told = answer.text.strip_suffix("Went on.").unwrap();
    if !told.is_empty() {
        let told = behind_line(told).unwrap_or(told);
        assert_begins(told, "baton: no handoff was made: ");
        assert_eq!(told.matches("[[handoff-note:").count(), 1, "{told}");
    }
    let seen = outline(legs(talk).last().unwrap());
    assert_eq!(seen.last().unwrap(), "u: Now the exporter.");
    assert_eq!(seen[0], "u: Mend the importer.");
    talk.says("More.", "And on.").await;
    let later = [&seen[..], &["a: Went on.".to_owned(), "u: More.".to_owned()]].concat();
    assert_eq!(outline(legs(talk).last().unwrap()), later);
    assert!(talk.baton.drafting.all_open().is_empty());
    talk.assert_clean();
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

fn slow(time: u64) -> Reply {
    document().head_delay(Duration::from_millis(time))
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

/// Whether a request has this history, byte for byte.
fn holds(leg: &Received, history: &[Value]) -> bool {
    let list = serde_json::to_string(history).unwrap();
    memchr::memmem::find(&leg.raw, &list.as_bytes()[1..list.len() - 1]).is_some()
}

on_every_wire_both_ways!(handed_over refused_without_calls every_failure methods given cancelled kept_alive);

/// The draft request is the live request plus one message. The sentinel comes first, then the leg after it.
///
/// Later requests are cut there.
async fn handed_over(side: Variant, stream: bool) {
    let mut talk = looked(side, stream, |_| {}).await;
    let id = wants(&talk, by_api()).await;
    let live = talk.provider.generations()[0].clone();
    let history = [&talk.history[..], &[talk.user(NEXT)]].concat();
    talk.push(document());
    let text = &talk.says(NEXT, fresh()).await.text;
    let told = behind_line(text);
    assert_eq!(told.is_some(), stream, "{text}");
    assert_begins(told.unwrap_or(text), "baton: handed over (by the API), ");
    assert_eq!(text.matches("[[handoff-resume:").count(), 1, "{text}");
    assert_contains(text, DOCUMENT);
    assert_ends(text, "Fresh.");
    let [draft_leg, behind] = &legs(&talk)[..] else {
        panic!()
    };
    assert!(holds(draft_leg, &history), "the live history");
    assert_eq!(draft_leg.tools().len(), 2);
    assert_eq!(draft_leg.tool_names(), live.tool_names());
    for key in "system thinking model stream instructions reasoning".split(' ') {
        assert_eq!(draft_leg.body.get(key), live.body.get(key), "{key}");
    }
    assert_eq!(forbids_calls(draft_leg), !is(side, variants::OLLAMA));
    let seen = outline(draft_leg);
    let [.., looked, asked] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(looked, "a: Looked.");
    assert_begins(asked, "u: Now the exporter.Stop here:");
    assert_ends(asked, "The goal:\n\nthe exporter");
    let [carried] = &outline(behind)[..] else { panic!() };
    assert_begins(
        carried,
        "u: <handoff-context>\nGoal: the exporter\n\n## Goal\nMend the importer",
    );
    assert_ends(carried, "still to be answered:\n\nNow the exporter.");
    talk.says("More.", "Next.").await;
    assert_eq!(talk.sent(), [carried.as_str(), "a: Fresh.", "u: More."]);
    let done = draft(&talk, id);
    assert_eq!(
        (done.state, done.result.method),
        (DraftState::Done, Some(DraftMethod::Oneshot))
    );
    let events = talk.baton.events(3).await;
    let (made, later) = (&events[1], &events[2]);
    assert_eq!((made.draft_legs.as_slice(), made.sent_bytes.len()), (&[0][..], 2));
    assert_eq!(made.handoffs[0].origin, "api");
    assert!(made.handoffs[0].before_bytes > 0 && made.drafted().output > 0);
    assert_eq!(made.spent().output, made.tokens[1].unwrap().output);
    assert_eq!(later.pinned, done.result.handoff.map(|id| id.to_string()));
    talk.assert_clean();
}

/// A server that rejects such a tool choice gets one more request without it.
async fn refused_without_calls(side: Variant, stream: bool) {
    let mut talk = looked(side, stream, |_| {}).await;
    let id = wants(&talk, user()).await;
    let refused = Reply::status(400, "tool_choice none is not supported");
    let calls = document().call("read_file", json!({"path": "a"}));
    let history = [&talk.history[..], &[talk.user(NEXT)]].concat();
    let answer = asks(&mut talk, [refused, calls, fresh()]).await;
    assert_contains(&answer.text, DOCUMENT);
    assert_eq!(answer.calls.len(), 0);
    let [_, again, _] = &legs(&talk)[..] else { panic!() };
    assert!(!forbids_calls(again) && holds(again, &history));
    assert_eq!(draft(&talk, id).state, DraftState::Done);
    talk.assert_clean();
}

/// No failure changes the conversation.
async fn every_failure(side: Variant, stream: bool) {
    let cut = match stream {
        true => document().deltas(5).fault(Fault::CutAfterEvents(2)),
        false => document().fault(Fault::CutAfterBytes(20)),
    };
    let stopped = |why| document().stop(why);
    let mut failures = vec![
        (Reply::status(500, "no power"), Some("provider_error")),
        (Reply::new().thinking("Hm."), None),
        (stopped(Stop::MaxTokens), Some("truncated")),
        (cut, Some("provider_unreached")),
        (slow(3_000), Some("timeout")),
    ];
    if is(side, variants::ANTHROPIC) {
        failures.push((stopped(Stop::PauseTurn), Some("paused")));
    }
    if !is(side, variants::OLLAMA) {
        failures.push((stopped(Stop::Refusal), Some("refusal")));
    }
    for (reply, failure) in failures {
        let hurry = failure == Some("timeout");
        let mut talk = looked(side, stream, |config| {
            if hurry {
                config.draft.timeout = Duration::from_millis(300);
            }
        })
        .await;
        let id = wants(&talk, user()).await;
        let answer = asks(&mut talk, [reply, Reply::text("Went on.")]).await;
        let made = draft(&talk, id);
        let state = failure.map_or(DraftState::Empty, |_| DraftState::Failed);
        assert_eq!(
            (made.state, made.result.failure),
            (state, failure),
            "{:?}",
            made.why
        );
        assert!(made.result.handoff.is_none() && made.why.is_some());
        goes_on_as_before(&mut talk, &answer).await;
    }
}

/// An automatic trigger tries one method after another. For a history that does not fit, every trigger uses a
/// selection, and so does another model.
async fn methods(side: Variant, stream: bool) {
    let no = || Reply::status(500, "no power");
    let too_long = Reply::status(400, "prompt is too long: 9 tokens > 8 maximum");
    let small = DraftRequest {
        model: Some("small-strict-1".to_owned()),
        ..user()
    };
    for (wanted, replies, method) in [
        (by_api(), vec![no(), document(), fresh()], DraftMethod::Bundle),
        (by_api(), vec![no(), no(), fresh()], DraftMethod::Local),
        (user(), vec![too_long, document(), fresh()], DraftMethod::Bundle),
        (small.clone(), vec![document(), fresh()], DraftMethod::Bundle),
    ] {
        let mut talk = looked(side, stream, |_| {}).await;
        let id = wants(&talk, wanted.clone()).await;
        let tries = replies.len() - 1;
        let text = asks(&mut talk, replies).await.text;
        assert_ends(&text, "Fresh.");
        assert_eq!(draft(&talk, id).result.method, Some(method));
        let all = legs(&talk);
        let bundle = &all[tries - 1];
        if method == DraftMethod::Bundle {
            assert!(bundle.tools().is_empty() && !forbids_calls(bundle));
            let [asked] = &outline(bundle)[..] else { panic!() };
            assert_contains(asked, "Mend the importer.");
            assert_contains(asked, "You were not in the session.");
        } else {
            assert_contains(
                &text,
                "The request before this goal, open:\n- Now the exporter. (turn 3)",
            );
        }
        let is_small =
            |leg: &Received| leg.path.contains("small-strict-1") || leg.body["model"] == "small-strict-1";
        assert_eq!(is_small(bundle), wanted.model.is_some());
        assert!(!is_small(all.last().unwrap()));
        talk.assert_clean();
    }
}

/// A supplied carry-over prompt needs no model. One request later, nothing is left to hand over.
async fn given(side: Variant, stream: bool) {
    let mut talk = looked(side, stream, |_| {}).await;
    let order = DraftOrder {
        ask: by_api(),
        prompt: Some(" Mend the exporter [[handoff-resume: only.\n".to_owned()),
    };
    let id = wants(&talk, order).await;
    let answer = asks(&mut talk, [fresh()]).await;
    assert_begins(&answer.text, "baton: handed over (as given)");
    let [behind] = &legs(&talk)[..] else { panic!() };
    let carried = "u: Mend the exporter [[handoff-resume\\: only.\n\nThe user's last message, still to be answered:\n\nNow the exporter.";
    assert_eq!(outline(behind), [carried]);
    let made = draft(&talk, id);
    assert_eq!((made.state, made.result.method), (DraftState::Done, None));
    talk.assert_clean();
}

/// While the model's own turn is open, a draft waits. A side call, which lists no tools, does not make it.
#[tokio::test]
async fn a_draft_waits_for_a_request_at_which_nothing_is_open() {
    let side = variants::CHAT;
    let mut talk = looked(side, true, |_| {}).await;
    let id = wants(&talk, by_api()).await;
    let replies = ["Went on.", "A title.", DOCUMENT];
    replies.into_iter().for_each(|reply| talk.push(reply.into()));
    let open = [
        &talk.history[..],
        &[talk.user(NEXT), (side.message)("assistant", "It is")],
    ]
    .concat();
    talk.ask(&open, true).await;
    assert_eq!(draft(&talk, id).state, DraftState::Requested);
    let mut body = (side.body)(&open[..5], true);
    body.as_object_mut().unwrap().remove("tools");
    let title = talk
        .baton
        .open((side.path)(true), side.headers, body.to_string().into())
        .await;
    drop(read_until(title, "A title.").await);
    assert_eq!(draft(&talk, id).state, DraftState::Requested);
    talk.says(NEXT, fresh()).await;
    assert_eq!(draft(&talk, id).state, DraftState::Done);
    assert_eq!(talk.script.left(), 0);
}

/// Cancelled by its requester, or because the agent disconnects.
async fn cancelled(side: Variant, stream: bool) {
    let mut talk = looked(side, stream, |_| {}).await;
    let id = wants(&talk, by_api()).await;
    let key = talk.baton.events(1).await[0].conversation.clone().unwrap();
    let busy = talk.baton.drafting.request(&key, "local", user().into(), None);
    assert_eq!(busy.unwrap_err().id, id, "one draft for each conversation");
    let drafting = talk.baton.drafting.clone();
    let cancel = async {
        while drafting.get(id).unwrap().state != DraftState::Writing {
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(50)).await;
        drafting.cancel(id).unwrap();
    };
    let (answer, ()) = tokio::join!(asks(&mut talk, [slow(30_000), "Went on.".into()]), cancel);
    assert_eq!(draft(&talk, id).state, DraftState::Cancelled);
    goes_on_as_before(&mut talk, &answer).await;

    let quick = |config: &mut Config| config.handoff.keepalive = Duration::from_millis(50);
    let mut talk = looked(side, stream, quick).await;
    let id = wants(&talk, by_api()).await;
    assert!(
        timeout(Duration::from_millis(400), asks(&mut talk, [slow(30_000)]))
            .await
            .is_err()
    );
    for _ in 0..200 {
        if draft(&talk, id).state == DraftState::Cancelled {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(draft(&talk, id).state, DraftState::Cancelled);
    assert!(talk.baton.drafting.all_open().is_empty());
    // Counted as well: the agent has disconnected, and the exchange ends with the step that it was waiting
    // for.
    let events = talk.baton.events(2).await;
    let tries: Vec<_> = events[1].drafts.iter().map(|d| (d.method, d.outcome)).collect();
    assert_eq!(tries, [("oneshot", "cancelled")]);
}

/// The agent gets keep-alives while the draft is written, and a later error is reported in the stream.
async fn kept_alive(side: Variant, stream: bool) {
    let quick = |config: &mut Config| config.handoff.keepalive = Duration::from_millis(60);
    for (behind, status) in [(fresh(), 200), (Reply::status(400, "no such thing"), 400)] {
        let mut talk = looked(side, stream, quick).await;
        let id = wants(&talk, by_api()).await;
        talk.push(slow(500));
        talk.push(behind);
        talk.history.push(talk.user(NEXT));
        let response = talk.send(&talk.history, stream).await;
        assert_eq!(response.status, if stream { 200 } else { status });
        let text = response.text();
        assert_contains(&text, if status == 200 { "Fresh." } else { "no such thing" });
        if stream && status == 200 && !is(side, variants::OLLAMA) {
            let (_, waits) = text.split_once("is being written.").unwrap();
            let (waits, _) = waits.split_once("handed over").unwrap();
            let alive = ["event: ping", ": keep-alive", ": keepalive", "\n\n\n"];
            assert!(alive.iter().any(|word| waits.contains(word)), "{text}");
        }
        // The handoff is stored, so the agent's retry continues after it.
        assert_eq!(draft(&talk, id).state, DraftState::Done);
        if status == 200 {
            assert_ends(&talk.answer(&response, stream).text, "Fresh.");
        } else {
            talk.push(fresh());
            let again = talk.goes_on().await.text;
            assert_contains(&again, "[[handoff-resume:");
            assert_ends(&again, "Fresh.");
        }
        talk.assert_clean();
    }
}

/// Killed while a draft is written: nothing was handed over, and the request is sent unchanged.
#[tokio::test]
async fn a_proxy_that_dies_while_it_drafts_leaves_the_conversation_as_it_was() {
    let store = memory();
    let mut talk = Talk::worked_in(Fixture::with(variants::ANTHROPIC, [], store.clone(), |_| {}).await).await;
    wants(&talk, by_api()).await;
    assert!(
        timeout(Duration::from_millis(300), asks(&mut talk, [slow(30_000)]))
            .await
            .is_err()
    );
    talk.restart(store);
    talk.push("Went on.".into());
    let answer = talk.goes_on().await;
    goes_on_as_before(&mut talk, &answer).await;
}

/// In the middle of an agent's loop, and with the harness's reminders, the draft contains the last results.
///
/// No user message is pending.
#[tokio::test]
async fn inside_a_loop_the_results_are_in_the_draft() {
    let mut talk = Talk::opened(Fixture::new(variants::ANTHROPIC, []).await);
    talk.history.push(talk.user("Go on."));
    let reads = Reply::text("Reading.").call("read_file", json!({"path": "a"}));
    talk.runs(reads, "fn main() {}").await;
    let reminder = json!({"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"});
    let results = talk.history.last_mut().unwrap()["content"].as_array_mut();
    results.unwrap().push(reminder);
    wants(&talk, by_api()).await;
    talk.push(document());
    talk.push(fresh());
    talk.goes_on().await;
    let [draft, behind] = &legs(&talk)[..] else {
        panic!()
    };
    assert!(outline(draft).contains(&"result".to_owned()));
    let [carried] = &outline(behind)[..] else { panic!() };
    let tells = carried.ends_with("do not run them again.") || carried.contains("## Also known");
    assert!(tells, "{carried}");
    assert_lacks(carried, "still to be answered");
    talk.assert_clean();
}

/// Makes a repository with a commit and a changed file.
fn repository(dir: &Path, branch: &str) {
    let git = |arguments: &[&str]| assert!(crate::harness::git(dir, arguments), "{arguments:?}");
    git(&["init", "-q", "-b", branch]);
    std::fs::write(dir.join("importer.rs"), "fn main() {}\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "port the exporter"]);
    std::fs::write(dir.join("importer.rs"), "fn main() { port() }\n").unwrap();
}

/// Hands over by a command with these flags to a model that writes nothing. Returns what it was asked.
async fn asked_with(talk: &mut Talk, flags: &str) -> String {
    let text = format!("::handoff --force --method oneshot {flags} the importer");
    let answer = talk.says(&text, Reply::new()).await;
    assert_contains(&answer.text, "the model wrote nothing");
    outline(legs(talk).last().unwrap()).last().unwrap().clone()
}

/// The configured repository is that of sessions whose agent states no directory.
#[tokio::test]
async fn a_draft_reports_the_repository_that_the_agent_states() {
    let (own, other) = (crate::harness::temp(), crate::harness::temp());
    repository(own.path(), "work");
    repository(other.path(), "elsewhere");
    let dir = other.path().to_owned();
    let mut talk = looked(variants::CHAT, true, move |config| {
        config.draft.git_dir = Some(dir)
    })
    .await;
    let directory = format!("Working directory: {}\n", own.path().display());
    for (directory, told, other) in [
        (&*directory, "## work", "## elsewhere"),
        ("", "## elsewhere", "## work"),
    ] {
        let system = format!("You are opencode, an interactive CLI tool.\n<env>\n{directory}</env>");
        talk.history.splice(
            ..talk.history.len() - 4,
            [json!({"role": "system", "content": system})],
        );
        let asked = asked_with(&mut talk, "").await;
        assert_contains(&asked, told);
        assert_lacks(&asked, other);
        talk.history.truncate(5);
    }
    talk.assert_clean();
}

/// The state of the repository, and flags as words.
#[tokio::test]
async fn what_a_model_is_asked_follows_the_flags() {
    let directory = crate::harness::temp();
    repository(directory.path(), "work");
    let dir = directory.path().to_owned();
    let mut talk = looked(variants::CHAT, true, move |config| {
        config.draft.git_dir = Some(dir)
    })
    .await;
    let mut asked = Vec::new();
    for flags in [
        "",
        "--preset docs",
        "--preset debug",
        "--no-git",
        "--no-commands",
        "--no-why",
    ] {
        talk.history.truncate(4);
        let text = asked_with(&mut talk, flags).await;
        assert!(!asked.contains(&text), "{flags}: {text}");
        let has_state =
            ["## work", "importer.rs | 2 +-", "port the exporter"].map(|part| text.contains(part));
        assert_eq!(has_state, [flags != "--no-git"; 3], "{flags}: {text}");
        asked.push(text);
    }
    talk.assert_clean();
}

/// Copilot charges for requests that a user began.
///
/// Only the first request that a message causes counts as the user's.
#[tokio::test]
async fn a_request_that_baton_adds_is_the_agents() {
    let side = variants::CHAT.with_headers(&[("x-initiator", "user")]);
    let mut talk = looked(side, true, |_| {}).await;
    let initiators = |talk: &Talk, from: usize| -> Vec<String> {
        let of = |leg: &Received| leg.header("x-initiator").unwrap_or("none").to_owned();
        legs(talk)[from..].iter().map(of).collect()
    };
    // The model hands off.
    talk.hands_over(NEXT).await;
    assert_eq!(initiators(&talk, 0), ["user", "agent"]);
    // A draft, followed by the message's request.
    let work = [talk.user("More."), (side.message)("assistant", "So.")];
    talk.history.extend(work.clone());
    wants(&talk, by_api()).await;
    asks(&mut talk, [document(), fresh()]).await;
    assert_eq!(initiators(&talk, 2), ["agent", "user"]);
    // A command, which the model never sees.
    talk.history.extend(work);
    talk.says("::handoff --force", document()).await;
    assert_eq!(initiators(&talk, 4), ["agent"]);
    talk.assert_clean();
}
