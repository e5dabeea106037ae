//! Progress line that an agent sees while a draft is written.

use serde_json::{Value, json};

use super::{Stage, changed, claude, model, user};
use crate::exchange::value::Exchange;
use baton_core::response::AnswerOpening;

async fn exchange(stage: &Stage, stream: bool) -> Exchange {
    let body = claude(&[user("Mend it."), model("Yes."), user("Go.")]);
    stage
        .request(changed(body, json!({"stream": stream})))
        .exchange()
        .await
}

/// Texts in the deltas of a stream.
fn texts(stream: &str) -> String {
    let events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    events
        .filter_map(|event| event["delta"]["text"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn the_line_is_shown_where_the_agent_streams() {
    for stream in [true, false] {
        let stage = Stage::new();
        let exchange = exchange(&stage, stream).await.showing();
        assert!(exchange.begun_draft().is_none(), "no model was asked yet");
        assert_eq!(exchange.shown.is_some(), stream);
    }
}

/// The line is a complete synthetic response, so an interruption after it leaves nothing unfinished.
#[tokio::test]
async fn the_line_is_complete_at_once_and_in_no_later_request() {
    let stage = Stage::new();
    let exchange = exchange(&stage, true).await.showing();
    let shown = exchange.shown.as_ref().unwrap();
    assert!(!shown.line().keep_alive());
    shown.begin();
    shown.begin();
    let first = String::from_utf8(shown.line().take().unwrap().to_vec()).unwrap();
    assert!(first.contains("event: content_block_stop\n"), "{first}");
    let line = texts(&first);
    assert!(line == "baton: a handoff is being written.\n\n", "{line}");
    assert!(shown.line().take_merge().is_none());
    let told = AnswerOpening::notice("no handoff was made: cancelled.");
    shown.end(told.before_model().unwrap());
    let all = line.clone() + &texts(std::str::from_utf8(&shown.line().take().unwrap()).unwrap());
    assert!(
        all.contains("written.\n\nbaton: no handoff was made: cancelled.\n\n[[handoff-note:]]")
            && all.matches("[[").count() == 1,
        "{all}"
    );
    for kept in [&line, &all] {
        let later = claude(&[
            user("Mend it."),
            model("Yes."),
            user("Go."),
            model(&format!("{kept}Went.")),
            user("Thanks."),
        ]);
        let offered = stage.request(later).offered().await;
        let sent = String::from_utf8(offered.plan(&stage.app).first(true).rope.concat()).unwrap();
        assert!(
            !sent.contains("handoff is being") && !sent.contains("handoff-note"),
            "{sent}"
        );
        assert!(sent.contains("Went.") && sent.contains("\"Go.\""), "{sent}");
    }
}
