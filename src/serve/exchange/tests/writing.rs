//! Records that an exchange writes, and their effect on the next request.

use std::time::Duration;

use tokio::runtime::Handle;

use super::{PROMPT, Stage, claude, handed_over, user};

const SECOND: Duration = Duration::from_secs(1);

/// Maximum time for which an end may be unread.
const UNREAD: Duration = Duration::from_secs(10);

/// Advances time.
async fn passes(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    // Lets the tasks run that waited for it.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_same_request_goes_on_after_its_handoff_and_another_one_does_not() {
    let stage = Stage::with(|config| config.limits.waits.unread = UNREAD);
    let body = || claude(&[user("Mend it.")]);
    let broken = stage.request(body()).exchange().await;
    let handoff = handed_over(&broken, PROMPT).await;
    let again = stage.request(body()).exchange().await;
    assert_eq!(again.repeated(), Some(handoff.id));
    let other = stage.request(claude(&[user("Mend that.")])).exchange().await;
    assert_eq!(other.repeated(), None);
    // Once its end is read, the same request is new. Not at once, because the agent may have left with the
    // end unread.
    again.answer.fired().push(handoff.id);
    again.completed()();
    drop((broken, again));
    passes(UNREAD - SECOND).await;
    let third = stage.request(body()).exchange().await;
    assert_eq!(third.repeated(), Some(handoff.id));
    third.answer.fired().push(handoff.id);
    third.completed()();
    drop(third);
    passes(UNREAD + SECOND).await;
    assert_eq!(stage.request(body()).exchange().await.repeated(), None);
    let quiet = stage
        .request(claude(&[user("Mend that.")]))
        .principal("alice")
        .exchange()
        .await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    quiet.completed()();
    assert_eq!(tasks(), before, "nothing waits where nothing could be repeated");
}
