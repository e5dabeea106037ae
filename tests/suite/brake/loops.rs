//! Loops of requests, and budgets of time.

use baton_llm::state::clock::Clock;
use pretty_assertions::assert_eq;

use super::limits::ticking;
use super::*;
use crate::harness::texts::assert_contains;

/// An agent that sends the same request again although it had complete responses. A response that broke off does not
/// count, because agents repeat such a request.
#[tokio::test]
async fn a_storm_of_the_same_request_is_stopped() {
    let stage = fixture(ANTHROPIC, |config| config.brake.no_progress = Some(true)).await;
    let history = worked(&stage, 1).await;
    for n in 0..8 {
        stage.push(Reply::status(529, "Overloaded."));
        assert_eq!(stage.send(&history, false).await.status, 529);
        stage.baton.events(n + 2).await;
    }
    for n in 0..5 {
        stage.push(Reply::text("Done."));
        assert_eq!(stage.ask(&history, false).await.text, "Done.", "{n}");
        stage.baton.events(n + 10).await;
    }
    let ended = stage.ask(&history, false).await;
    assert_contains(&ended.text, "the same request again after 5 complete");
    let go = stage.then(&history, &ended, "::go");
    stage.push(Reply::text("Once more."));
    assert!(stage.ask(&go, true).await.text.ends_with("Once more."));
    stage.assert_clean();
}

/// Days and minutes by a clock of the test's own.
#[tokio::test]
async fn budgets_of_time_follow_the_clock() {
    const MINUTE: i64 = 60_000;
    // Noon of a day, so that the test does not cross midnight by itself.
    let day = 86_400_000;
    let now = Clock::default().now_ms();
    let noon = i64::try_from(now / day * day + day / 2).unwrap() - i64::try_from(now).unwrap();
    let clock = Clock::ahead(noon);
    let mut stage = Fixture::new(ANTHROPIC, []).await;
    stage.restart_by(memory(), |config| config.brake.day.tokens = 1, ticking(&clock));
    let history = worked(&stage, 1).await;
    let ended = stopped(&stage, &history).await;
    assert_contains(&ended.text, "this day is used up");
    assert_contains(&ended.text, "opens again at 00:00 UTC");
    clock.advance(24 * 60 * MINUTE);
    stage.push(Reply::text("Good morning."));
    assert_eq!(stage.ask(&history, true).await.text, "Good morning.");

    stage.restart_by(
        memory(),
        |config| config.brake.session.millis = 600_000,
        ticking(&clock),
    );
    let history = worked(&stage, 1).await;
    clock.advance(9 * MINUTE);
    stage.push(Reply::new().call_as("toolu_m1n2", "read_file", json!({"path": "b"})));
    let answer = stage.ask(&history, true).await;
    let working = stage.ran(&history, &answer);
    clock.advance(2 * MINUTE);
    let ended = stopped(&stage, &working).await;
    assert!(ended.text.contains("(11 min of 10 min)"), "{}", ended.text);
    stage.assert_clean();
}
