//! What every wire shares.

use std::time::Duration;

use baton_proxy::config::{Config, Mode};
use baton_proxy::strict::{Fault, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::matrix::sides::Side;
use crate::matrix::stage::{Stage, carry, fresh, handoff, handoff_beside, sketch};

fn stops(config: &mut Config) {
    config.handoff.mode = Mode::Stop;
}

/// A stage behind a handoff that ended its answer, and the sentinel as it was shown.
async fn stopped(side: Side, replies: impl IntoIterator<Item = Reply>) -> (Stage, String) {
    let replies = std::iter::once(handoff()).chain(replies);
    let stage = Stage::with(side, replies, memory(), stops).await;
    let said = stage.ask(&stage.history(), true).await;
    let sentinel = said.text.trim_start_matches("Done with that.").to_owned();
    (stage, sentinel)
}

pub async fn nothing_or_blanks_left_of_the_split_message(side: Side) {
    let (stage, sentinel) = stopped(side, (0..3).map(|_| Reply::text("ok"))).await;
    for rest in ["", " \n\n ", "\n\t"] {
        let cut = (side.message)("assistant", &format!("Done.\n{sentinel}{rest}"));
        let history = [&stage.history()[..], &[cut, stage.user("More.")]].concat();
        stage.ask(&history, true).await;
        assert_eq!(stage.sent(), [carry() + "More."], "{rest:?}");
    }
    stage.at_peace();
}

pub async fn results_whose_calls_were_cut(side: Side) {
    let read = Reply::text("Reading.").call("read_file", json!({"path": "x"}));
    let script = [
        read,
        handoff(),
        fresh(),
        Reply::text("ok"),
        Reply::text("ok"),
        Reply::text("ok"),
    ];
    let stage = Stage::new(side, script).await;
    let called = stage.ask(&stage.history(), true).await;
    let ran = stage.ran(&stage.history(), &called);
    let said = stage.ask(&ran, true).await;
    let late = (side.results)(&called.calls, "late");
    let behind = [&ran, &said.keep, &late, &[stage.user("More.")][..]].concat();
    stage.ask(&behind, true).await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    // And again behind the next turn.
    let told = stage.ask(&behind, true).await;
    let further = [&behind[..], &told.keep, &late, &[stage.user("Further.")]].concat();
    stage.ask(&further, true).await;
    assert_eq!(stage.sent()[3..], ["a: ok", "u: Further."]);
    stage.at_peace();
}

/// A late result goes, and the hidden pair finds its place among those that stay.
pub async fn a_late_result_beside_a_hidden_pair(side: Side) {
    let read = || Reply::text("Reading.").call("read_file", json!({"path": "x"}));
    for hidden_first in [true, false] {
        let both = match hidden_first {
            true => handoff_beside(Reply::new()).call("read_file", json!({"path": "y"})),
            false => handoff_beside(read()),
        };
        let script = [
            read(),
            handoff(),
            fresh(),
            both,
            Reply::text("The turn ends."),
            fresh(),
        ];
        let stage = Stage::new(side, script).await;
        let called = stage.ask(&stage.history(), true).await;
        let ran = stage.ran(&stage.history(), &called);
        let said = stage.ask(&ran, true).await;
        let behind = stage.then(&ran, &said, "More.");
        let mixed = stage.ask(&behind, true).await;
        let answered = [&called.calls[..], &mixed.calls].concat();
        let results = (side.results)(&answered, "fn main() {}");
        let last = [&behind[..], &mixed.keep, &results].concat();
        let fired = stage.ask(&last, true).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        let legs = stage.provider.generations();
        let sent = sketch(&legs[legs.len() - 2]);
        assert_eq!(sent.iter().filter(|l| *l == "result").count(), 2, "{sent:?}");
        stage.at_peace();
    }
}

pub async fn a_result_right_behind_the_cut(side: Side) {
    let read = Reply::text("Reading.").call("read_file", json!({"path": "x"}));
    let stage = Stage::with(side, [read, handoff(), Reply::text("ok")], memory(), stops).await;
    let called = stage.ask(&stage.history(), true).await;
    let ran = stage.ran(&stage.history(), &called);
    let said = stage.ask(&ran, true).await;
    let late = (side.results)(&called.calls, "late");
    let behind = [&ran, &said.keep, &late, &[stage.user("More.")][..]].concat();
    stage.ask(&behind, true).await;
    assert_eq!(stage.sent(), [carry() + "More."]);
    stage.at_peace();
}

/// The agent left its own call unanswered: that is between it and its provider. Ours is answered all the same.
pub async fn a_call_that_the_agent_never_answered(side: Side) {
    let both = handoff_beside(Reply::text("Both.").call("read_file", json!({"path": "x"})));
    let stage = Stage::new(side, [both, Reply::text("ok")]).await;
    let said = stage.ask(&stage.history(), true).await;
    stage
        .send(&stage.then(&stage.history(), &said, "Stop."), true)
        .await;
    let requests = stage.provider.requests();
    let mut seen = sketch(requests.last().unwrap()).split_off(3);
    assert!(seen.iter().any(|line| line == "u: Stop."));
    seen.retain(|line| line.starts_with("call") || line == "result");
    assert_eq!(seen, ["call read_file", "call session_handoff", "result"]);
}

pub async fn a_leg_that_calls_without_a_word(side: Side) {
    let mute = Reply::new().call("read_file", json!({"path": "x"}));
    let stage = Stage::new(side, [handoff(), mute, Reply::text("ok"), Reply::text("ok")]).await;
    let said = stage.ask(&stage.history(), true).await;
    assert_eq!(said.calls.len(), 1);
    let ran = stage.ran(&stage.history(), &said);
    let told = stage.ask(&ran, true).await;
    let begin = [carry(), "call read_file".to_owned(), "result".to_owned()];
    assert_eq!(stage.sent(), begin);
    stage.ask(&stage.then(&ran, &told, "More."), false).await;
    assert_eq!(stage.sent()[3..], ["a: ok", "u: More."]);
    stage.at_peace();
}

pub async fn a_rewind_unpins_or_pins_to_the_handoff_before(side: Side) {
    let script = [handoff(), fresh(), handoff(), Reply::text("Fresher.")];
    let stage = Stage::new(side, script).await;
    let one = stage.ask(&stage.history(), true).await;
    let behind_one = stage.then(&stage.history(), &one, "Go on.");
    let two = stage.ask(&behind_one, true).await;
    stage.push(Reply::text("ok"));
    stage.ask(&stage.then(&behind_one, &two, "More."), true).await;
    assert_eq!(stage.sent()[1..], ["a: Fresher.", "u: More."]);
    // To between the two, and to before both.
    stage.push(Reply::text("ok"));
    stage
        .ask(&stage.then(&stage.history(), &one, "Another way."), true)
        .await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: Another way."]);
    let before = [&stage.history()[..2], &[stage.user("Another way.")]].concat();
    stage.push(Reply::text("ok"));
    stage.ask(&before, true).await;
    let whole = ["u: Mend the importer.", "a: Looking.", "u: Another way."];
    assert_eq!(stage.sent(), whole);
    stage.at_peace();
}

pub async fn the_agents_own_compaction(side: Side) {
    let script = [
        handoff(),
        fresh(),
        Reply::text("Summary: BOMs."),
        Reply::text("ok"),
    ];
    let stage = Stage::new(side, script).await;
    let said = stage.ask(&stage.history(), true).await;
    stage
        .ask(&stage.then(&stage.history(), &said, "Sum it up."), true)
        .await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: Sum it up."]);
    stage
        .ask(&[stage.user("Summary: BOMs. Go on from there.")], true)
        .await;
    assert_eq!(stage.sent(), ["u: Summary: BOMs. Go on from there."]);
    stage.at_peace();
}

/// FAILURES 27: agents decide by status, `retry-after` and the very words.
pub async fn errors_are_the_providers_own(side: Side) {
    for (status, seconds) in [(429, Some(7)), (503, None), (400, None)] {
        let failing = || {
            Reply::failing(Fault::Status {
                status,
                retry_after: seconds,
                message: "prompt is too long: 1 > 0".to_owned(),
            })
        };
        let stage = Stage::new(side, [failing(), failing()]).await;
        let heard = stage.send(&stage.history(), true).await;
        let seen = stage.provider.generations().pop().unwrap();
        let url = format!("{}{}", stage.provider.url(), seen.path);
        let direct = crate::harness::post(&url, side.headers, seen.raw.clone()).await;
        assert_eq!((heard.status, heard.text()), (status, direct.text()));
        let after = heard.header("retry-after").map(str::to_owned);
        assert_eq!(after, seconds.map(|s| s.to_string()));
        assert_eq!(heard.header("x-baton-error"), None);
        assert_eq!(stage.provider.generations().len(), 2, "not tried again inside");
    }
}

/// FAILURES 12: nobody is there any more to read it.
pub async fn an_agent_that_leaves_between_the_legs(side: Side) {
    let slow = fresh().head_delay(Duration::from_secs(60));
    let stage = Stage::new(side, [handoff(), slow]).await;
    let body = (side.body)(&stage.history(), true).to_string();
    let response = stage
        .baton
        .open((side.path)(true), side.headers, body.into())
        .await;
    let (_, rest) = crate::harness::read_until(response, "[[/handoff-resume:").await;
    for _ in 0..300 {
        if stage.provider.requests().len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(rest);
    assert!(stage.provider.wait_aborted(1).await);
    // What was handed over is not lost with the answer.
    let said: Value = stage.baton.events(1).await[0].fired.clone().into();
    assert_eq!(said.as_array().unwrap().len(), 1);
}
