//! Loops of requests, and budgets of time.

use baton_llm::state::clock::Clock;
use pretty_assertions::assert_eq;

use super::limits::ticking;
use super::*;

/// An agent that sends the same request again although it had complete responses. A response that broke off does not
/// count, because agents repeat such a request.
#[tokio::test]
async fn a_storm_of_the_same_request_is_stopped() {
    let mut talk = worked(ANTHROPIC, |config| config.brake.no_progress = Some(true), 1).await;
    talk.stream = false;
    for n in 0..8 {
        talk.push(Reply::status(529, "Overloaded."));
        assert_eq!(talk.sends().await.status, 529);
        talk.baton.events(n + 2).await;
    }
    for n in 0..5 {
        talk.push(Reply::text("Done."));
        assert_eq!(talk.ask(&talk.history, false).await.text, "Done.", "{n}");
        talk.baton.events(n + 10).await;
    }
    let ended = talk.goes_on().await.text;
    assert_contains(&ended, "the same request again after 5 complete");
    assert_ends(&talk.says("::go", "Once more.").await.text, "Once more.");
    talk.assert_clean();
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
    let mut talk = begun(ANTHROPIC, |_| {}).await;
    talk.restart_by(memory(), |config| config.brake.day.tokens = 1, ticking(&clock));
    works(&mut talk, 0..1).await;
    let history = talk.history.clone();
    let ended = stopped(&mut talk).await.text;
    assert_contains(&ended, "this day is used up");
    assert_contains(&ended, "opens again at 00:00 UTC");
    clock.advance(24 * 60 * MINUTE);
    talk.history = history;
    talk.push(Reply::text("Good morning."));
    assert_eq!(talk.goes_on().await.text, "Good morning.");

    let short = |config: &mut Config| config.brake.session.millis = 600_000;
    talk.restart_by(memory(), short, ticking(&clock));
    talk.history.truncate(1);
    works(&mut talk, 0..1).await;
    clock.advance(9 * MINUTE);
    let call = Reply::new().call_as("toolu_m1n2", "read_file", json!({"path": "b"}));
    talk.runs(call, "fn main() {}").await;
    clock.advance(2 * MINUTE);
    assert_contains(&stopped(&mut talk).await.text, "(11 min of 10 min)");
    talk.assert_clean();
}
