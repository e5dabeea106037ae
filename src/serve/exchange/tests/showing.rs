//! A draft that the agent sees while it is written.

use serde_json::{Value, json};

use super::{Stage, changed, claude, model, user};
use crate::serve::exchange::Exchange;
use crate::serve::exchange::shown::TextExtractor;
use baton_core::handoffs::draft::DraftRequest;
use baton_core::mark::note;
use baton_core::wire::Framing;

fn shows(show: Option<bool>) -> DraftRequest {
    DraftRequest {
        show,
        ..DraftRequest::default()
    }
}

async fn exchange(stage: &Stage, stream: bool) -> Exchange {
    let body = claude(&[user("Mend it."), model("Yes."), user("Go.")]);
    stage
        .request(changed(body, json!({"stream": stream})))
        .exchange()
        .await
}

/// The texts in the deltas of a stream.
fn texts(stream: &str) -> String {
    let events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    events
        .filter_map(|event| event["delta"]["text"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn a_draft_is_shown_where_the_agent_streams_and_its_text_where_it_is_wanted() {
    let rows = [
        (false, true, None, Some(false)),
        (true, true, None, Some(true)),
        (true, false, None, None),
        (true, true, Some(false), Some(false)),
        (false, true, Some(true), Some(true)),
    ];
    for (config, stream, request, text) in rows {
        let stage = Stage::with(|c| c.draft.show = config);
        let exchange = exchange(&stage, stream).await.showing(&shows(request), true);
        assert!(exchange.begun_draft().is_none(), "no model was asked yet");
        let shown = exchange.shown.as_ref();
        shown.inspect(|shown| shown.begin());
        let found = shown.map(|shown| shown.has_text());
        assert_eq!(found, text, "{config} {stream} {request:?}");
    }
}

/// The line is a whole answer of ours, so what breaks off behind it leaves nothing.
#[tokio::test]
async fn the_line_is_complete_at_once_and_in_no_later_request() {
    let stage = Stage::with(|_| {});
    let exchange = exchange(&stage, true).await.showing(&shows(None), true);
    let shown = exchange.shown.as_ref().unwrap();
    assert!(!shown.keep_alive());
    shown.begin();
    shown.begin();
    shown.piece("# Goal");
    let first = String::from_utf8(shown.take().unwrap().to_vec()).unwrap();
    assert!(first.contains("event: content_block_stop\n"), "{first}");
    let line = texts(&first);
    assert!(
        line.starts_with("baton: a handoff is being written.\n\n[[handoff-note:"),
        "{line}"
    );
    assert!(shown.take_merge().is_none());
    shown.end("no handoff was made: cancelled.", "");
    let all = line.clone() + &texts(std::str::from_utf8(&shown.take().unwrap()).unwrap());
    assert!(
        all.contains("baton: no handoff was made: cancelled.\n\n[[handoff-note:"),
        "{all}"
    );
    assert!(!all.contains("# Goal"), "{all}");
    for kept in [&line, &all] {
        let later = claude(&[
            user("Mend it."),
            model("Yes."),
            user("Go."),
            model(&format!("{kept}Went.")),
            user("Thanks."),
        ]);
        let offered = stage.request(later).offered().await;
        let sent = String::from_utf8(offered.first(&stage.app, true).rope.concat()).unwrap();
        assert!(
            !sent.contains("handoff is being") && !sent.contains("handoff-note"),
            "{sent}"
        );
        assert!(sent.contains("Went.") && sent.contains("\"Go.\""), "{sent}");
    }
}

#[tokio::test]
async fn the_text_stands_between_two_marks_by_which_it_is_taken_out() {
    let stage = Stage::with(|config| config.draft.show = true);
    let exchange = exchange(&stage, true).await.showing(&shows(None), true);
    let shown = exchange.shown.as_ref().unwrap();
    shown.begin();
    shown.piece("# Goal\n");
    shown.piece("Mend it.");
    shown.end("handed over.", "");
    shown.piece("too late");
    let out = String::from_utf8(shown.take().unwrap().to_vec()).unwrap();
    assert!(out.starts_with("event: message_start\n"), "{out}");
    let text = texts(&out);
    assert!(text.starts_with(note::BEGINS), "{text}");
    let places = [
        "[[handoff-draft:",
        "# Goal",
        "Mend it.",
        "handed over.",
        "[[handoff-note:",
    ]
    .map(|part| text.find(part));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert!(!text.contains("too late"), "{text}");
    // What was shown is no part of the next request.
    let later = claude(&[
        user("Mend it."),
        model("Yes."),
        user("Go."),
        model(&text),
        user("Thanks."),
    ]);
    let offered = stage.request(later).offered().await;
    let rope = offered.first(&stage.app, true).rope.concat();
    let sent = String::from_utf8(rope).unwrap();
    assert!(!sent.contains("# Goal") && sent.contains("Thanks."), "{sent}");
}

#[tokio::test]
async fn an_attempt_that_failed_is_named_before_the_next_one() {
    let stage = Stage::with(|config| config.draft.show = true);
    let exchange = exchange(&stage, true).await.showing(&shows(None), true);
    let shown = exchange.shown.as_ref().unwrap();
    shown.begin_again("the model refused");
    assert!(
        shown.take().is_none(),
        "nothing was shown, so nothing is to be explained"
    );
    shown.begin();
    shown.piece("# Go");
    shown.begin_again("the model refused");
    let text = texts(std::str::from_utf8(&shown.take().unwrap()).unwrap());
    assert!(
        text.ends_with("(the model refused; another method is used)\n\n"),
        "{text}"
    );
}

#[test]
fn text_is_extracted_however_the_stream_is_split() {
    let delta = |index: usize, text: &str| {
        let event = json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}});
        format!("event: content_block_delta\ndata: {event}\n\n")
    };
    let stream = format!(
        "event: ping\ndata: {{\"type\":\"ping\"}}\n\n{}{}",
        delta(0, "Mend "),
        delta(0, "\u{e9}t\u{e9}.")
    );
    for split in 0..=stream.len() {
        let (first, rest) = stream.as_bytes().split_at(split);
        let mut extractor = TextExtractor::new(Framing::Sse, 1 << 16);
        let text = [first, rest]
            .map(|part| extractor.feed(bytes::Bytes::copy_from_slice(part)))
            .concat();
        assert_eq!(text, "Mend \u{e9}t\u{e9}.", "split at {split}");
    }
}
