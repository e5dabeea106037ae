//! One event as log fields and as a line.

use std::io::Write;
use std::sync::{Arc, Mutex};

use super::*;
use crate::jobs::recalls::AnswerOutcome;
use baton_core::commands::UndoOutcome;
use baton_core::nudge::NudgeOutcome;
use baton_core::rewrite::untooled::ToolOmission;

#[test]
fn the_context_is_that_of_the_last_counted_leg_of_the_agents() {
    let counted = |input, output| {
        Some(Usage {
            input,
            cache_read: 100,
            output,
            ..Usage::default()
        })
    };
    let zeros = Some(Usage::default());
    let legs = [counted(1, 2), counted(3, 4), None, zeros, counted(5, 6)];
    for (own, expected) in [
        (&[][..], Some(111)),
        (&[4], Some(107)),
        (&[1, 4], Some(103)),
        (&[0, 1, 4], None),
    ] {
        assert_eq!(Usage::of_context(&legs, own), expected, "{own:?}");
    }
}

/// A log in memory.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn logged(event: &ExchangeEvent) -> serde_json::Value {
    line_of(|| event.log())
}

fn line_of(log: impl FnOnce()) -> serde_json::Value {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, log);
    let text = lines.text();
    assert_eq!(text.lines().count(), 1);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn an_exchange_is_one_line_with_stable_field_names() {
    let tokens = Usage {
        input: 10,
        cache_read: 90,
        output: 5,
        ..Usage::default()
    };
    let event = ExchangeEvent {
        wire: Some(WireId::Anthropic),
        model: Some("m\u{1b}[31m\n".repeat(1000)),
        conversation: Some("c".into()),
        facts: ExchangeFacts {
            pinned: Some("p".into()),
            fired: vec!["f".into(), "g".into()],
            lost_sentinel: true,
            text_tool_calls: 1,
            lost_pairs: 1,
            lost_insertions: 1,
            dropped_thinking: 2,
            thinking_retry: Some(ThinkingRetry::Accepted),
            nudges: vec![NudgeOutcome::Followed, NudgeOutcome::Notified],
            undo: Some(UndoOutcome::TakenBack),
            recalls: vec![AnswerOutcome::Found, AnswerOutcome::Nothing],
            untooled: Some(ToolOmission::Summary),
            tokens: vec![Some(tokens), None, Some(tokens)],
            first_byte_ms: Some(1.5),
            ..ExchangeFacts::default()
        },
        ..ExchangeEvent::new("x", "anthropic", "POST /v1/messages")
    };
    let line = logged(&event);
    let names: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "timestamp level message baton.exchange http.request.method url.path baton.wire baton.upstream \
        gen_ai.provider.name gen_ai.request.model gen_ai.conversation.id http.response.status_code baton.outcome baton.streamed \
        baton.tooled baton.fired baton.recalls baton.lost_sentinel baton.lost_pairs baton.lost_insertions baton.dropped_thinking \
        baton.thinking_retry baton.nudges baton.undo baton.pinned baton.untooled baton.legs baton.retries baton.refused_calls \
        baton.text_tool_calls baton.escaped_sentinels gen_ai.usage.input_tokens gen_ai.usage.cache_read.input_tokens \
        gen_ai.usage.cache_creation.input_tokens gen_ai.usage.output_tokens baton.received_bytes \
        baton.sent_bytes baton.response_bytes baton.first_byte_ms baton.total_ms baton.added_ms target";
    let expected: Vec<_> = expected.split_whitespace().collect();
    assert_eq!(names, expected);
    assert_eq!(line["gen_ai.usage.input_tokens"], 200);
    assert_eq!(line["baton.nudges"], "followed,told");
    assert_eq!(line["baton.undo"], "taken_back");
    assert_eq!(line["baton.dropped_thinking"], 2);
    assert_eq!(line["baton.thinking_retry"], "accepted");
    assert_eq!(line["baton.first_byte_ms"], 1.5);
    assert_eq!(line["baton.recalls"], "found,nothing");
    assert!(line["gen_ai.request.model"].as_str().unwrap().len() <= 200);
}

#[test]
fn the_reference_has_every_field_of_the_log() {
    let page = include_str!("../../../docs/reference.md");
    let (_, section) = page.split_once("\n## Log fields\n").unwrap();
    let items = section.split("\n## ").next().unwrap().split("\n* `").skip(1);
    let names = items.filter_map(|item| item.split(": ").next());
    let mut listed: Vec<_> = names
        .flat_map(|names| names.split(','))
        .map(|name| name.trim_matches(|c: char| c == '`' || c.is_whitespace()))
        .collect();
    let event = ExchangeEvent::default();
    let mut logged: Vec<_> = event.fields().map(|(name, _)| name).collect();
    listed.sort_unstable();
    logged.sort_unstable();
    assert_eq!(listed, logged);
}

#[test]
fn the_reference_has_every_field_of_a_handoffs_line() {
    let page = include_str!("../../../docs/reference.md");
    let (_, section) = page.split_once("\n## Log fields\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let event = HandoffEvent {
        reason: Some("done".to_owned()),
        ..HandoffEvent::default()
    };
    let line = line_of(|| event.log());
    let fields = line.as_object().unwrap().keys();
    let missing: Vec<_> = fields
        .filter(|name| !section.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_is_not_known_is_not_logged() {
    let line = logged(&ExchangeEvent::new("x", "openai", "GET /v1/models"));
    assert!(line.get("baton.wire").is_none());
    assert!(line.get("gen_ai.request.model").is_none());
    assert!(line.get("gen_ai.usage.output_tokens").is_none());
    assert_eq!(line["url.path"], "/v1/models");
}
