//! The features. Each is a function that takes a variant of a wire.

use std::time::Duration;

use baton_llm::state::config::HandoffMode;
use baton_llm::state::telemetry::ExchangeOutcome;
use baton_strict::{Fault, Part, Reply};
use http_body_util::BodyExt;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::fixture::{Fixture, carry, fresh, handoff, handoff_beside, outline};
use super::variants::{Answer, Variant};
use crate::harness::memory;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends};

pub async fn stream(variant: Variant) {
    handed_off(variant, true).await;
}

pub async fn non_stream(variant: Variant) {
    handed_off(variant, false).await;
}

/// The call is hidden, the sentinel is shown, and the next leg follows in the same response. Later requests
/// are cut.
async fn handed_off(variant: Variant, stream: bool) {
    let fixture = Fixture::new(variant, [handoff(), fresh(), Reply::text("Next.")]).await;
    let answer = fixture.ask(&fixture.history(), stream).await;
    let text = &answer.text;
    assert_begins(text, "Done with that.");
    assert_ends(text, "Fresh.");
    assert_eq!(text.matches("[[handoff-resume:").count(), 1);
    assert_eq!((answer.calls.len(), answer.stop.as_str()), (0, variant.stops[0]));
    let legs = fixture.provider.generations();
    assert!(legs.iter().all(|leg| leg.offers_handoff()));
    assert_eq!(outline(&legs[1]), [carry()]);

    let next = fixture.then(&fixture.history(), &answer, "More.");
    let message = fixture.ask(&next, stream).await;
    assert_eq!(message.text, "Next.");
    assert_eq!(fixture.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    let events = fixture.baton.events(2).await;
    assert_eq!(events[0].model.as_deref(), Some(variant.model));
    assert_eq!(
        (events[0].wire, events[0].streamed),
        (events[1].wire, stream),
        "{:?}",
        events[0].route
    );
    assert_eq!(events[1].pinned.as_ref(), events[0].fired.first());
    // The agent gets the input tokens of the last leg.
    assert_eq!(answer.input, fixture.measured(&legs[1]).await);
    assert!(answer.output > message.output);
    fixture.assert_clean();
}

/// A handoff call before or after one of the agent's calls.
pub async fn mixed_batch(variant: Variant) {
    let read = |reply: Reply| reply.call("read_file", json!({"path": "x"}));
    for first in [true, false] {
        let both = match first {
            true => read(handoff_beside(Reply::new().thinking("Both."))),
            false => handoff_beside(read(Reply::new().thinking("Both."))),
        };
        let ends = Reply::text("The turn ends.");
        let fixture = Fixture::new(variant, [both, ends, fresh(), Reply::text("Next.")]).await;
        let answer = fixture.ask(&fixture.history(), true).await;
        let names: Vec<_> = answer.calls.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["read_file"]);
        let ran = fixture.ran(&fixture.history(), &answer);
        let fired = fixture.ask(&ran, true).await;
        let legs = fixture.provider.generations();
        let [one, two] = match first {
            true => ["call session_handoff", "call read_file"],
            false => ["call read_file", "call session_handoff"],
        };
        let mut seen = outline(&legs[1]).split_off(3);
        // If results are separate messages, baton's is first or second.
        seen.retain(|line| line != "result");
        assert_eq!(seen, [one, two]);
        assert_eq!(outline(&legs[1]).len(), 7);
        let text = &fired.text;
        assert_begins(text, "The turn ends.");
        assert_ends(text, "Fresh.");
        fixture.ask(&fixture.then(&ran, &fired, "More."), true).await;
        assert_eq!(fixture.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
        fixture.assert_clean();
    }
}

/// Asserts that the refused call got a result, and that both are restored on the next request.
async fn assert_put_back(fixture: &Fixture, answer: &Answer, stream: bool) {
    let pair = ["a: Handing over.", "call session_handoff", "result"];
    assert_eq!(fixture.sent()[3..], pair);
    let next = fixture.then(&fixture.history(), answer, "More.");
    fixture.ask(&next, stream).await;
    let rest = [&pair[..], &["a: Then I go on.", "u: More."]].concat();
    assert_eq!(fixture.sent()[3..], rest);
    fixture.assert_clean();
}

/// A refused handoff call gets an error result from the proxy, which then asks the model again.
pub async fn refused_call(variant: Variant) {
    for stream in [true, false] {
        let bad = Reply::text("Handing over.").call("session_handoff", json!({"prompt": " "}));
        let fixture = Fixture::new(variant, [bad, Reply::text("Then I go on."), Reply::text("Next.")]).await;
        let answer = fixture.ask(&fixture.history(), stream).await;
        assert!(answer.text.starts_with("Handing over.") && answer.text.ends_with("Then I go on."));
        assert!(answer.text.contains("[[handoff-aside:") && !answer.text.contains("handoff-resume"));
        assert_put_back(&fixture, &answer, stream).await;
    }
}

/// Of several refused calls in one response the first one gets the result, because a signature would be on
/// that one.
pub async fn two_refused_calls(variant: Variant) {
    for stream in [true, false] {
        let bad = |reply: Reply| reply.call("session_handoff", json!({"prompt": " "}));
        let both = bad(bad(Reply::new().thinking("Both?").say("Handing over.")));
        let ends = Reply::new().thinking("So.").say("Then I go on.");
        let fixture = Fixture::new(variant, [both, ends, Reply::text("Next.")]).await;
        let answer = fixture.ask(&fixture.history(), stream).await;
        assert_put_back(&fixture, &answer, stream).await;
    }
}

/// A model writes the call as text, as small local models do. The proxy only counts such calls.
pub async fn written_call(variant: Variant) {
    let text = "```json\n{\"name\": \"session_handoff\", \"arguments\": {\"prompt\": \"Go on.\"}}\n```";
    for stream in [true, false] {
        let said = "On the other hand: {\"name\": \"read_file\"}";
        let fixture = Fixture::new(variant, [Reply::text(text), Reply::text(said)]).await;
        let response = fixture.send(&fixture.history(), stream).await;
        let answer = (variant.parse)(&response.raw, stream).unwrap();
        assert_eq!(answer.text, text);
        let next = fixture.then(&fixture.history(), &answer, "More.");
        fixture.ask(&next, stream).await;
        let events = fixture.baton.events(2).await;
        let counts = events.iter().map(|e| (e.text_tool_calls, e.fired.len()));
        assert_eq!(counts.collect::<Vec<_>>(), [(1, 0), (0, 0)], "streamed: {stream}");
        fixture.assert_clean();
    }
}

/// Arguments over the size limit are dropped. The call is restored without them, with its result.
pub async fn call_over_the_size_limit(variant: Variant) {
    let tight = |c: &mut baton_llm::state::config::Config| c.limits.tool_arguments_bytes = 4096;
    let long = || {
        let prompt = "x".repeat(10_000);
        let reply = Reply::new().thinking("All of it.").say("Handing over.");
        reply.call("session_handoff", json!({"prompt": prompt}))
    };
    for stream in [true, false] {
        let ends = Reply::new().thinking("So.").say("Then I go on.");
        let beside = long().call("read_file", json!({"path": "x"}));
        let fixture = Fixture::with(
            variant,
            [long(), ends.clone(), beside, ends, Reply::text("Next.")],
            memory(),
            tight,
        )
        .await;
        let answer = fixture.ask(&fixture.history(), stream).await;
        let pair = ["a: Handing over.", "call session_handoff", "result"];
        assert_eq!(fixture.sent()[3..], pair);
        let history = fixture.then(&fixture.history(), &answer, "More.");
        let answer = fixture.ask(&history, stream).await;
        let ran = fixture.ran(&history, &answer);
        let answer = fixture.ask(&ran, stream).await;
        fixture.ask(&fixture.then(&ran, &answer, "More."), stream).await;
        let sent = fixture.sent();
        assert_eq!(sent.iter().filter(|l| *l == "call session_handoff").count(), 2);
        let last = fixture.provider.generations().pop().unwrap();
        assert!(last.raw.len() < 10_000, "{}", last.raw.len());
        fixture.assert_clean();
    }
}

/// A message item with several parts (Responses).
fn message_of(texts: &[&str]) -> Part {
    let part = |text: &&str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    let content: Vec<_> = texts.iter().map(part).collect();
    let head = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"});
    let mut item = head;
    item["content"] = content.into();
    Part::Block(item)
}

/// Sentinel-like text is escaped across all text of a message, and restored however the agent splits it.
pub async fn escaped_text(variant: Variant) {
    for stream in [true, false] {
        for delta in [1, 7, 1000] {
            let texts = ["See [[hand", "off-resume:x]] and [[handoff-aside", r":y]] and \:"];
            let reply = match variant.stops[0] {
                // Items stay separate. The parts of one item are joined.
                "completed" => Reply::new().part(message_of(&texts)),
                _ => texts.iter().fold(Reply::new(), |r, t| r.thinking("Hm.").say(*t)),
            };
            let reply = reply.deltas(delta);
            let fixture = Fixture::new(variant, [reply, Reply::text("Next.")]).await;
            let answer = fixture.ask(&fixture.history(), stream).await;
            assert_eq!(
                answer.text,
                r"See [[handoff-resume\:x]] and [[handoff-aside\:y]] and \:"
            );
            fixture
                .ask(&fixture.then(&fixture.history(), &answer, "More."), stream)
                .await;
            let sent = fixture.sent();
            assert_eq!(
                sent[3],
                r"a: See [[handoff-resume:x]] and [[handoff-aside:y]] and \:"
            );
            fixture.assert_clean();
        }
    }
}

/// A token count covers the rewritten request: with the tool, with a hidden pair, after a cut.
pub async fn counting(variant: Variant) {
    let both = handoff_beside(Reply::new().call("read_file", json!({"path": "x"})));
    let fixture = Fixture::new(
        variant,
        [both, Reply::text("The turn ends."), fresh(), Reply::text("Next.")],
    )
    .await;
    let mut history = fixture.history();
    let counted = fixture.count(&history).await;
    let answer = fixture.ask(&history, true).await;
    assert_eq!(counted, answer.input, "with the tool");

    history = fixture.ran(&history, &answer);
    let counted = fixture.count(&history).await;
    let answer = fixture.ask(&history, true).await;
    let legs = fixture.provider.generations();
    let with_pair = fixture.measured(&legs[legs.len() - 2]).await;
    assert_eq!(counted, with_pair, "with a hidden pair");

    history = fixture.then(&history, &answer, "More.");
    let counted = fixture.count(&history).await;
    let answer = fixture.ask(&history, false).await;
    assert_eq!(counted, answer.input, "behind the cut, with both tools");
    fixture.assert_clean();
}

/// The response ends with the sentinel, and the next message continues from there.
pub async fn stop_mode(variant: Variant) {
    for stream in [true, false] {
        let stop = |c: &mut baton_llm::state::config::Config| c.handoff.mode = HandoffMode::Stop;
        let fixture = Fixture::with(variant, [handoff(), fresh()], memory(), stop).await;
        let answer = fixture.ask(&fixture.history(), stream).await;
        assert!(
            answer.text.starts_with("Done with that.") && answer.text.trim_end().ends_with("]]"),
            "{}",
            answer.text
        );
        assert_eq!(answer.stop, variant.stops[1]);
        fixture
            .ask(&fixture.then(&fixture.history(), &answer, "More."), stream)
            .await;
        // The outline joins consecutive text.
        assert_eq!(fixture.sent(), [carry() + "More."]);
        assert_eq!(fixture.provider.generations().len(), 2);
        fixture.assert_clean();
    }
}

/// If the next leg is refused, the response ends with a line for the user, which the model never sees.
pub async fn lost_leg(variant: Variant) {
    for stream in [true, false] {
        let refused = Reply::status(400, "the prompt is too old");
        let fixture = Fixture::new(variant, [handoff(), refused, fresh()]).await;
        let answer = fixture.ask(&fixture.history(), stream).await;
        let (_, note) = answer.text.split_once("\nbaton: ").expect("a line of baton");
        assert_begins(
            note,
            "the handoff is stored, but the next request to the provider failed (400: ",
        );
        assert_contains(note, "the prompt is too old). Send any message to go on.");
        assert_ends(note.trim_end(), "[[handoff-note:]]");
        let events = fixture.baton.events(1).await;
        assert_eq!(events[0].outcome, ExchangeOutcome::LegLost);
        fixture
            .ask(&fixture.then(&fixture.history(), &answer, "More."), stream)
            .await;
        assert_eq!(fixture.sent(), [carry() + "More."]);
        assert_eq!(fixture.provider.generations().len(), 3);
        fixture.assert_clean();
    }
}

/// While the next leg is slow, the agent gets keep-alives in the form of its wire.
pub async fn keep_alive(variant: Variant) {
    let slow = fresh().head_delay(Duration::from_millis(300));
    let often = |c: &mut baton_llm::state::config::Config| c.handoff.keepalive = Duration::from_millis(30);
    let fixture = Fixture::with(variant, [handoff(), slow], memory(), often).await;
    let body = (variant.body)(&fixture.history(), true).to_string();
    let response = fixture
        .baton
        .open((variant.path)(true), variant.headers, body.into())
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
    let answer = (variant.parse)(&pieces.concat(), true).unwrap();
    assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
    fixture.assert_clean();
}

/// If a stream breaks after the sentinel, the repeated request continues directly with the next leg.
pub async fn repeat_after_a_broken_stream(variant: Variant) {
    let fixture = Fixture::new(
        variant,
        [
            handoff(),
            fresh().deltas(1).fault(Fault::CutAfterEvents(6)),
            fresh(),
        ],
    )
    .await;
    let response = fixture.send(&fixture.history(), true).await;
    assert!(response.broken && response.text().contains("[[handoff-resume:"));
    let answer = fixture.ask(&fixture.history(), true).await;
    let text = answer.text.trim_start();
    assert_begins(text, "[[handoff-resume:");
    assert_ends(text, "Fresh.");
    assert_eq!(fixture.sent(), [carry()]);
    fixture.push(Reply::text("Next."));
    fixture
        .ask(&fixture.then(&fixture.history(), &answer, "More."), true)
        .await;
    assert_eq!(fixture.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    fixture.assert_clean();
}
