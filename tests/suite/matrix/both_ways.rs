//! Streamed responses and complete ones behave alike.
//!
//! On every wire, equal scripts lead to the same text, end, upstream requests and notes.

use std::sync::atomic::Ordering;

use baton_llm::state::config::{Config, HandoffMode};
use baton_strict::{Fault, Reply};
use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use regex::Regex;
use serde_json::json;

use super::fixture::{Fixture, carry, fresh, handoff, handoff_beside, outline};
use super::variants::{GEMINI_ARRAY, Variant, on_every_wire};
use crate::harness::fixture::FlakyStore;
use crate::harness::memory;

/// A script for both forms.
struct Case {
    name: &'static str,
    config: fn(&mut Config),
    replies: Vec<Reply>,
    /// From this turn on the store accepts no writes.
    no_writes_from: usize,
}

fn case(name: &'static str, replies: impl IntoIterator<Item = Reply>) -> Case {
    Case {
        name,
        config: |_| {},
        replies: replies.into_iter().collect(),
        no_writes_from: usize::MAX,
    }
}

impl Case {
    fn under(self, config: fn(&mut Config)) -> Self {
        Self { config, ..self }
    }

    /// Adds an ordinary first turn. After it nothing can be written.
    fn unwritten(mut self) -> Self {
        self.replies.insert(0, Reply::text("Hm."));
        self.no_writes_from = 1;
        self
    }
}

/// The result of a run: each turn as the agent saw it, the upstream requests, and the records.
#[derive(Debug, PartialEq)]
struct Progress {
    turns: Vec<(String, Vec<String>, String, u64)>,
    sent: Vec<Vec<String>>,
    noted: Vec<String>,
}

fn refused() -> Reply {
    Reply::text("Handing over.").call("session_handoff", json!({"prompt": " "}))
}

fn busy() -> Reply {
    Reply::status(529, "busy").retry_after(0)
}

/// A leg that breaks off before its first event.
fn cut() -> Reply {
    fresh().fault(Fault::CutAfterBytes(9))
}

fn beside() -> Reply {
    handoff_beside(Reply::new().call("read_file", json!({"path": "x"})))
}

fn chain_of_two(config: &mut Config) {
    config.handoff.max_chain = 2;
}

fn one_retry(config: &mut Config) {
    config.handoff.retries = 1;
}

fn stop_mode(config: &mut Config) {
    config.handoff.mode = HandoffMode::Stop;
}

fn cases() -> Vec<Case> {
    let next = || Reply::text("Next.");
    let thinks = || Reply::new().thinking("Is it done?");
    let alone = || thinks().call("session_handoff", json!({"prompt": "p"}));
    vec![
        case("fire", [handoff(), fresh(), next()]),
        case("chain", [handoff(), handoff(), handoff(), fresh(), next()]),
        case("a chain at its end", [handoff(), handoff(), next()]).under(chain_of_two),
        case(
            "nothing but a call at the chain's end",
            [handoff(), alone(), next()],
        )
        .under(chain_of_two),
        case(
            "mixed",
            [beside(), Reply::text("The turn ends."), fresh(), next()],
        ),
        case("refused", [refused(), Reply::text("Then I go on."), next()]),
        case("refused three times", [refused(), refused(), refused(), next()]),
        case(
            "refused behind a handoff",
            [handoff(), refused(), fresh(), next()],
        ),
        case("stop mode", [handoff(), next()]).under(stop_mode),
        case("a leg had late", [handoff(), busy(), fresh(), next()]).under(one_retry),
        case("a leg lost", [handoff(), busy(), busy(), next()]).under(one_retry),
        case(
            "a leg lost for good",
            [handoff(), Reply::status(404, "gone"), next()],
        ),
        case("a leg broken off, then had", [handoff(), cut(), fresh(), next()]).under(one_retry),
        case("a leg broken off, then lost", [handoff(), cut(), busy(), next()]).under(one_retry),
        case("the model not asked again", [refused(), busy(), busy(), next()]).under(one_retry),
        case("asked again, broken off", [refused(), cut(), fresh(), next()]).under(one_retry),
        case(
            "asked again behind a handoff, lost",
            [handoff(), refused(), busy(), busy(), next()],
        )
        .under(one_retry),
        case("a handoff not written", [handoff(), next()]).unwritten(),
        case("nothing but a handoff not written", [alone(), next()]).unwritten(),
        case("a refused call not written", [refused(), next()]).unwritten(),
        case("a mixed call not written", [beside(), next()]).unwritten(),
    ]
}

async fn run(variant: Variant, case: &Case, stream: bool) -> Progress {
    let store = FlakyStore::new(memory());
    let fixture = Fixture::with(variant, case.replies.clone(), store.clone(), case.config).await;
    let marks = Regex::new(r"\[\[(/?handoff-\w+):[^\]]+\]\]").unwrap();
    let mut history = fixture.history();
    let mut turns = Vec::new();
    while fixture.script.left() > 0 {
        store
            .no_writes
            .store(turns.len() >= case.no_writes_from, Ordering::SeqCst);
        let answer = fixture.ask(&history, stream).await;
        let text = marks.replace_all(&answer.text, "[[$1]]").into_owned();
        let names = answer.calls.iter().map(|(_, name)| name.clone()).collect();
        history = match answer.calls.is_empty() {
            true => fixture.then(&history, &answer, "More."),
            false => fixture.ran(&history, &answer),
        };
        turns.push((text, names, answer.stop, answer.output));
    }
    fixture.assert_clean();
    let events = fixture.baton.events(turns.len()).await;
    let noted = events.iter().map(|e| {
        let shown = (e.fired.len(), e.refused_calls, e.retries);
        format!("{shown:?} {:?} pinned: {}", e.outcome, e.pinned.is_some())
    });
    Progress {
        turns,
        sent: fixture
            .provider
            .generations()
            .iter()
            .map(|leg| outline(leg))
            .collect(),
        noted: noted.collect(),
    }
}

async fn agree(variant: Variant) {
    join_all(cases().into_iter().map(async |case| {
        let (streamed, whole) = tokio::join!(run(variant, &case, true), run(variant, &case, false));
        assert_eq!(streamed, whole, "{}", case.name);
        if case.name.contains("lost") {
            let (text, _, stop, _) = &streamed.turns[0];
            let handed_over = text.contains("[[handoff-resume]]");
            let pauses = variant.stops[0] == "end_turn" && handed_over;
            assert_eq!(
                stop,
                if pauses { "pause_turn" } else { variant.stops[0] },
                "{}",
                case.name
            );
            let sent = streamed.sent.last().unwrap();
            assert_eq!(
                sent[0].starts_with(&carry()),
                handed_over,
                "{}: {sent:?}",
                case.name
            );
        }
    }))
    .await;
}

on_every_wire!(agree);

#[tokio::test]
async fn gemini_array() {
    agree(GEMINI_ARRAY).await;
}
