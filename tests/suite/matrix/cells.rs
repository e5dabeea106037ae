//! The features: each is one function over any side.

use std::time::Duration;

use baton_proxy::config::Mode;
use baton_proxy::store::HandoffFilter;
use baton_proxy::strict::{Autopilot, Fault, Part, Queue, Reply};
use http_body_util::BodyExt;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::sides::Side;
use super::stage::{PROMPT, Stage, carry, fresh, handoff, handoff_beside, sketch};
use crate::harness::{memory, sqlite, temp};

pub async fn stream(side: Side) {
    handed_off(side, true).await;
}

pub async fn non_stream(side: Side) {
    handed_off(side, false).await;
}

/// The call is hidden, the sentinel shown, the next leg follows in the same answer; later requests are cut.
async fn handed_off(side: Side, stream: bool) {
    let stage = Stage::new(side, [handoff(), fresh(), Reply::text("Next.")]).await;
    let said = stage.ask(&stage.history(), stream).await;
    let text = &said.text;
    assert!(
        text.starts_with("Done with that.") && text.ends_with("Fresh."),
        "{text}"
    );
    assert_eq!(text.matches("[[handoff-resume:").count(), 1);
    assert_eq!((said.calls.len(), said.stop.as_str()), (0, side.stops[0]));
    let legs = stage.provider.generations();
    assert!(legs.iter().all(|leg| leg.offers_handoff()));
    assert_eq!(sketch(&legs[1]), [carry()]);

    let next = stage.then(&stage.history(), &said, "More.");
    let told = stage.ask(&next, stream).await;
    assert_eq!(told.text, "Next.");
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    let events = stage.baton.events(2).await;
    assert_eq!(events[0].model.as_deref(), Some(side.model));
    assert_eq!(
        (events[0].wire, events[0].streamed),
        (events[1].wire, stream),
        "{:?}",
        events[0].route
    );
    assert_eq!(events[1].pinned.as_ref(), events[0].fired.first());
    // The context in use is the last leg's.
    assert_eq!(said.input, stage.measured(&legs[1]).await);
    assert!(said.output > told.output);
    stage.at_peace();
}

/// A call of ours beside the agent's own, in front of it and behind it.
pub async fn mixed_batch(side: Side) {
    let read = |reply: Reply| reply.call("read_file", json!({"path": "x"}));
    for first in [true, false] {
        let both = match first {
            true => read(handoff_beside(Reply::new().thinking("Both."))),
            false => handoff_beside(read(Reply::new().thinking("Both."))),
        };
        let ends = Reply::text("The turn ends.");
        let stage = Stage::new(side, [both, ends, fresh(), Reply::text("Next.")]).await;
        let said = stage.ask(&stage.history(), true).await;
        let names: Vec<_> = said.calls.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["read_file"]);
        let ran = stage.ran(&stage.history(), &said);
        let fired = stage.ask(&ran, true).await;
        let legs = stage.provider.generations();
        let [one, two] = match first {
            true => ["call session_handoff", "call read_file"],
            false => ["call read_file", "call session_handoff"],
        };
        let mut seen = sketch(&legs[1]).split_off(3);
        // Where a wire has results apart from calls, ours stands first or second.
        seen.retain(|line| line != "result");
        assert_eq!(seen, [one, two]);
        assert_eq!(sketch(&legs[1]).len(), 7);
        let text = &fired.text;
        assert!(
            text.starts_with("The turn ends.") && text.ends_with("Fresh."),
            "{text}"
        );
        stage.ask(&stage.then(&ran, &fired, "More."), true).await;
        assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
        stage.at_peace();
    }
}

/// A call that cannot be followed is answered by the proxy, and the model asked again.
pub async fn refused_call(side: Side) {
    for stream in [true, false] {
        let bad = Reply::text("Handing over.").call("session_handoff", json!({"prompt": " "}));
        let stage = Stage::new(side, [bad, Reply::text("Then I go on."), Reply::text("Next.")]).await;
        let said = stage.ask(&stage.history(), stream).await;
        assert!(said.text.starts_with("Handing over.") && said.text.ends_with("Then I go on."));
        assert!(said.text.contains("[[handoff-aside:") && !said.text.contains("handoff-resume"));
        let pair = ["a: Handing over.", "call session_handoff", "result"];
        assert_eq!(stage.sent()[3..], pair);
        stage
            .ask(&stage.then(&stage.history(), &said, "More."), stream)
            .await;
        let rest = [&pair[..], &["a: Then I go on.", "u: More."]].concat();
        assert_eq!(stage.sent()[3..], rest);
        stage.at_peace();
    }
}

/// Of several refused calls in one answer the first is answered: what is signed stands on it.
pub async fn two_refused_calls(side: Side) {
    for stream in [true, false] {
        let bad = |reply: Reply| reply.call("session_handoff", json!({"prompt": " "}));
        let both = bad(bad(Reply::new().thinking("Both?").say("Handing over.")));
        let ends = Reply::new().thinking("So.").say("Then I go on.");
        let stage = Stage::new(side, [both, ends, Reply::text("Next.")]).await;
        let said = stage.ask(&stage.history(), stream).await;
        let pair = ["a: Handing over.", "call session_handoff", "result"];
        assert_eq!(stage.sent()[3..], pair);
        stage
            .ask(&stage.then(&stage.history(), &said, "More."), stream)
            .await;
        let rest = [&pair[..], &["a: Then I go on.", "u: More."]].concat();
        assert_eq!(stage.sent()[3..], rest);
        stage.at_peace();
    }
}

/// Arguments over the bound are not kept: the call goes back without them, with its result.
pub async fn call_over_the_bound(side: Side) {
    let tight = |c: &mut baton_proxy::config::Config| c.limits.held_bytes = 4096;
    let long = || {
        let prompt = "x".repeat(10_000);
        let reply = Reply::new().thinking("All of it.").say("Handing over.");
        reply.call("session_handoff", json!({"prompt": prompt}))
    };
    for stream in [true, false] {
        let ends = Reply::new().thinking("So.").say("Then I go on.");
        let beside = long().call("read_file", json!({"path": "x"}));
        let stage = Stage::with(
            side,
            [long(), ends.clone(), beside, ends, Reply::text("Next.")],
            memory(),
            tight,
        )
        .await;
        let said = stage.ask(&stage.history(), stream).await;
        let pair = ["a: Handing over.", "call session_handoff", "result"];
        assert_eq!(stage.sent()[3..], pair);
        let history = stage.then(&stage.history(), &said, "More.");
        let said = stage.ask(&history, stream).await;
        let ran = stage.ran(&history, &said);
        let said = stage.ask(&ran, stream).await;
        stage.ask(&stage.then(&ran, &said, "More."), stream).await;
        let sent = stage.sent();
        assert_eq!(sent.iter().filter(|l| *l == "call session_handoff").count(), 2);
        let last = stage.provider.generations().pop().unwrap();
        assert!(last.raw.len() < 10_000, "{}", last.raw.len());
        stage.at_peace();
    }
}

/// A message item of several parts (Responses).
fn message_of(texts: &[&str]) -> Part {
    let part = |text: &&str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    let content: Vec<_> = texts.iter().map(part).collect();
    let head = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"});
    let mut item = head;
    item["content"] = content.into();
    Part::Block(item)
}

/// What looks like a sentinel is broken up over all texts of a message, and given back in whatever parts it returns.
pub async fn broken_up_text(side: Side) {
    for stream in [true, false] {
        for delta in [1, 7, 1000] {
            let texts = ["See [[hand", "off-resume:x]] and [[handoff-aside", r":y]] and \:"];
            let reply = match side.stops[0] {
                // Items stay apart, parts of one item do not.
                "completed" => Reply::new().part(message_of(&texts)),
                _ => texts.iter().fold(Reply::new(), |r, t| r.thinking("Hm.").say(*t)),
            };
            let reply = reply.deltas(delta);
            let stage = Stage::new(side, [reply, Reply::text("Next.")]).await;
            let said = stage.ask(&stage.history(), stream).await;
            assert_eq!(
                said.text,
                r"See [[handoff-resume\:x]] and [[handoff-aside\:y]] and \:"
            );
            stage
                .ask(&stage.then(&stage.history(), &said, "More."), stream)
                .await;
            let sent = stage.sent();
            assert_eq!(
                sent[3],
                r"a: See [[handoff-resume:x]] and [[handoff-aside:y]] and \:"
            );
            stage.at_peace();
        }
    }
}

/// A count is the size of what will be sent: with the tool, with a hidden pair, behind a cut.
pub async fn counting(side: Side) {
    let both = handoff_beside(Reply::new().call("read_file", json!({"path": "x"})));
    let stage = Stage::new(
        side,
        [both, Reply::text("The turn ends."), fresh(), Reply::text("Next.")],
    )
    .await;
    let mut history = stage.history();
    let counted = stage.count(&history).await;
    let said = stage.ask(&history, true).await;
    assert_eq!(counted, said.input, "with the tool");

    history = stage.ran(&history, &said);
    let counted = stage.count(&history).await;
    let said = stage.ask(&history, true).await;
    let legs = stage.provider.generations();
    let with_pair = stage.measured(&legs[legs.len() - 2]).await;
    assert_eq!(counted, with_pair, "with a hidden pair");

    history = stage.then(&history, &said, "More.");
    let counted = stage.count(&history).await;
    let said = stage.ask(&history, false).await;
    assert_eq!(counted, said.input, "behind the cut");
    assert!(counted < with_pair);
    stage.at_peace();
}

/// Five tasks, each begun by a handoff that was called beside the last step of the one before.
pub async fn chain_of_five(side: Side) {
    for directive in ["#task 1/5 steps=2 mixed", "#task 1/5 steps=1 refuse"] {
        let store = memory();
        let stage = Stage::playing(side, Autopilot, Queue::default(), store.clone(), |_| {}).await;
        let mut history = vec![stage.user(directive)];
        let mut told = String::new();
        for turn in 0..20 {
            let said = stage.ask(&history, turn % 2 == 0).await;
            told.push_str(&said.text);
            if said.calls.is_empty() {
                break;
            }
            history = stage.ran(&history, &said);
        }
        assert!(told.ends_with("All 5 tasks done."), "{told}");
        assert_eq!(told.matches("[[handoff-resume:").count(), 4, "{told}");
        let handoffs = store.handoffs(&HandoffFilter::default()).await.unwrap();
        assert_eq!(handoffs.len(), 4);
        let last = stage.sent();
        assert!(last[0].starts_with("u: Task 4 of 5 is done."), "{last:?}");
        assert!(last.len() < 8, "{last:?}");
        stage.at_peace();
    }
}

/// The answer ends with the sentinel, and the next message goes on from there.
pub async fn stop_mode(side: Side) {
    for stream in [true, false] {
        let stop = |c: &mut baton_proxy::config::Config| c.handoff.mode = Mode::Stop;
        let stage = Stage::with(side, [handoff(), fresh()], memory(), stop).await;
        let said = stage.ask(&stage.history(), stream).await;
        assert!(
            said.text.starts_with("Done with that.") && said.text.trim_end().ends_with("]]"),
            "{}",
            said.text
        );
        assert_eq!(said.stop, side.stops[1]);
        stage
            .ask(&stage.then(&stage.history(), &said, "More."), stream)
            .await;
        // The sketch joins neighbours.
        assert_eq!(stage.sent(), [carry() + "More."]);
        assert_eq!(stage.provider.generations().len(), 2);
        stage.at_peace();
    }
}

/// While the next leg keeps the agent waiting, the line is kept alive in the wire's own way.
pub async fn keep_alive(side: Side) {
    let slow = fresh().head_delay(Duration::from_millis(300));
    let often = |c: &mut baton_proxy::config::Config| c.handoff.keepalive = Duration::from_millis(30);
    let stage = Stage::with(side, [handoff(), slow], memory(), often).await;
    let body = (side.body)(&stage.history(), true).to_string();
    let response = stage
        .baton
        .open((side.path)(true), side.headers, body.into())
        .await;
    let (mut body, mut pieces) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        pieces.push(frame.unwrap().into_data().unwrap_or_default());
    }
    let at = |mark: &str| {
        let found = pieces
            .iter()
            .position(|p| memchr::memmem::find(p, mark.as_bytes()).is_some());
        found.unwrap_or_else(|| panic!("no {mark:?} in {pieces:?}"))
    };
    let between = at("Fresh.") - at("[[/handoff-resume:");
    assert!(between > 3, "{between} pieces: {pieces:?}");
    let said = (side.hear)(&pieces.concat(), true).unwrap();
    assert!(said.text.ends_with("Fresh."), "{}", said.text);
    stage.at_peace();
}

/// An answer that broke off behind its sentinel goes straight on when it is asked for again.
pub async fn repeat_after_a_broken_stream(side: Side) {
    let stage = Stage::new(
        side,
        [
            handoff(),
            fresh().deltas(1).fault(Fault::CutAfterEvents(6)),
            fresh(),
        ],
    )
    .await;
    let heard = stage.send(&stage.history(), true).await;
    assert!(heard.broken && heard.text().contains("[[handoff-resume:"));
    let said = stage.ask(&stage.history(), true).await;
    let text = said.text.trim_start();
    assert!(
        text.starts_with("[[handoff-resume:") && text.ends_with("Fresh."),
        "{text}"
    );
    assert_eq!(stage.sent(), [carry()]);
    stage.push(Reply::text("Next."));
    stage
        .ask(&stage.then(&stage.history(), &said, "More."), true)
        .await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    stage.at_peace();
}

/// The proxy is another process for each request: what was hidden comes back, what was pinned stays so.
pub async fn restart_in_the_middle(side: Side) {
    let dir = temp();
    let both = handoff_beside(
        Reply::new()
            .thinking("Both.")
            .call("read_file", json!({"path": "x"})),
    );
    let script = [both, Reply::text("The turn ends."), fresh(), Reply::text("Next.")];
    let mut stage = Stage::with(side, script, sqlite(dir.path()), |_| {}).await;
    let said = stage.ask(&stage.history(), true).await;
    let ran = stage.ran(&stage.history(), &said);
    stage.restart(sqlite(dir.path()));
    let fired = stage.ask(&ran, true).await;
    assert!(fired.text.ends_with("Fresh.") && fired.text.contains(PROMPT.split('\n').next().unwrap()));
    stage.restart(sqlite(dir.path()));
    stage.ask(&stage.then(&ran, &fired, "More."), true).await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    stage.at_peace();
}
