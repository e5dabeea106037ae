//! Risks on every wire.

use baton_llm::state::config::{Config, HandoffMode};
use baton_strict::{Fault, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::memory;
use crate::matrix::fixture::{Fixture, carry, fresh, handoff, handoff_beside, outline};
use crate::matrix::variants::Variant;

fn stops(config: &mut Config) {
    config.handoff.mode = HandoffMode::Stop;
}

/// Returns a fixture after a handoff that ended its response, and the sentinel that was shown.
async fn stopped(variant: Variant, replies: impl IntoIterator<Item = Reply>) -> (Fixture, String) {
    let replies = std::iter::once(handoff()).chain(replies);
    let fixture = Fixture::with(variant, replies, memory(), stops).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    let sentinel = answer.text.trim_start_matches("Done with that.").to_owned();
    (fixture, sentinel)
}

pub async fn nothing_or_blanks_left_of_the_split_message(variant: Variant) {
    let (fixture, sentinel) = stopped(variant, (0..3).map(|_| Reply::text("ok"))).await;
    for rest in ["", " \n\n ", "\n\t"] {
        let cut = (variant.message)("assistant", &format!("Done.\n{sentinel}{rest}"));
        let history = [&fixture.history()[..], &[cut, fixture.user("More.")]].concat();
        fixture.ask(&history, true).await;
        assert_eq!(fixture.sent(), [carry() + "More."], "{rest:?}");
    }
    fixture.assert_clean();
}

pub async fn results_whose_calls_were_cut(variant: Variant) {
    let read = Reply::text("Reading.").call("read_file", json!({"path": "x"}));
    let script = [
        read,
        handoff(),
        fresh(),
        Reply::text("ok"),
        Reply::text("ok"),
        Reply::text("ok"),
    ];
    let fixture = Fixture::new(variant, script).await;
    let called = fixture.ask(&fixture.history(), true).await;
    let ran = fixture.ran(&fixture.history(), &called);
    let answer = fixture.ask(&ran, true).await;
    let late = (variant.results)(&called.calls, "late");
    let behind = [&ran, &answer.keep, &late, &[fixture.user("More.")][..]].concat();
    fixture.ask(&behind, true).await;
    assert_eq!(fixture.sent(), [carry().as_str(), "a: Fresh.", "u: More."]);
    // Sends the late result again after the next turn.
    let message = fixture.ask(&behind, true).await;
    let further = [&behind[..], &message.keep, &late, &[fixture.user("Further.")]].concat();
    fixture.ask(&further, true).await;
    assert_eq!(fixture.sent()[3..], ["a: ok", "u: Further."]);
    fixture.assert_clean();
}

/// A late result is dropped, and the hidden pair is restored among the remaining ones.
pub async fn a_late_result_beside_a_hidden_pair(variant: Variant) {
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
        let fixture = Fixture::new(variant, script).await;
        let called = fixture.ask(&fixture.history(), true).await;
        let ran = fixture.ran(&fixture.history(), &called);
        let answer = fixture.ask(&ran, true).await;
        let behind = fixture.then(&ran, &answer, "More.");
        let mixed = fixture.ask(&behind, true).await;
        let answered = [&called.calls[..], &mixed.calls].concat();
        let results = (variant.results)(&answered, "fn main() {}");
        let last = [&behind[..], &mixed.keep, &results].concat();
        let fired = fixture.ask(&last, true).await;
        assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
        let legs = fixture.provider.generations();
        let sent = outline(&legs[legs.len() - 2]);
        assert_eq!(sent.iter().filter(|l| *l == "result").count(), 2, "{sent:?}");
        fixture.assert_clean();
    }
}

pub async fn a_result_right_behind_the_cut(variant: Variant) {
    let read = Reply::text("Reading.").call("read_file", json!({"path": "x"}));
    let fixture = Fixture::with(variant, [read, handoff(), Reply::text("ok")], memory(), stops).await;
    let called = fixture.ask(&fixture.history(), true).await;
    let ran = fixture.ran(&fixture.history(), &called);
    let answer = fixture.ask(&ran, true).await;
    let late = (variant.results)(&called.calls, "late");
    let behind = [&ran, &answer.keep, &late, &[fixture.user("More.")][..]].concat();
    fixture.ask(&behind, true).await;
    assert_eq!(fixture.sent(), [carry() + "More."]);
    fixture.assert_clean();
}

/// The agent left one of its calls without a result, which the provider rejects. baton's hidden call still
/// gets its result.
pub async fn a_call_that_the_agent_never_answered(variant: Variant) {
    let both = handoff_beside(Reply::text("Both.").call("read_file", json!({"path": "x"})));
    let fixture = Fixture::new(variant, [both, Reply::text("ok")]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    fixture
        .send(&fixture.then(&fixture.history(), &answer, "Stop."), true)
        .await;
    let requests = fixture.provider.requests();
    let mut seen = outline(requests.last().unwrap()).split_off(3);
    assert!(seen.iter().any(|line| line == "u: Stop."));
    seen.retain(|line| line.starts_with("call") || line == "result");
    assert_eq!(seen, ["call read_file", "call session_handoff", "result"]);
}

/// Agents decide by status, `retry-after` and the exact wording.
pub async fn errors_are_the_providers_own(variant: Variant) {
    for (status, seconds) in [(429, Some(7)), (503, None), (400, None)] {
        let failing = || {
            Reply::failing(Fault::Status {
                status,
                retry_after: seconds,
                message: "prompt is too long: 1 > 0".to_owned(),
            })
        };
        let fixture = Fixture::new(variant, [failing(), failing()]).await;
        let response = fixture.send(&fixture.history(), true).await;
        let seen = fixture.provider.generations().pop().unwrap();
        let url = format!("{}{}", fixture.provider.url(), seen.path);
        let direct = crate::harness::post(&url, variant.headers, seen.raw.clone()).await;
        assert_eq!((response.status, response.text()), (status, direct.text()));
        let after = response.header("retry-after").map(str::to_owned);
        assert_eq!(after, seconds.map(|s| s.to_string()));
        assert_eq!(response.header("x-baton-error"), None);
        assert_eq!(fixture.provider.generations().len(), 2, "not tried again inside");
    }
}
