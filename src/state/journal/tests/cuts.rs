//! Cut requests are read back unchanged.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::journal::queue::{JournalNote, LegNote};
use crate::journal::retention;
use baton_core::text::Span;
use baton_core::text::splice::{Edit, splice};
use baton_core::wire::{View, anthropic};

fn read(received: &Bytes) -> View {
    anthropic::WIRE.read(received, Operation::Generate).unwrap()
}

/// Returns the sent body after replacing the first `gone` messages by one and offering a tool.
fn cut(received: &Bytes, view: &View, gone: usize) -> Vec<Bytes> {
    let head = r#"{"role":"user","content":"Go on."}"#;
    let from = view.turns[0].span.start;
    let edits = vec![
        Edit::replace(Span::new(from, view.turns[gone - 1].span.end), head),
        Edit::insert(received.len() - 2, r#",{"name":"session_handoff"}"#),
    ];
    splice(received, edits)
}

/// The cut moves with the growing conversation, and each message is stored once.
#[test]
fn cut_requests_of_a_growing_conversation_are_kept_as_they_are() {
    let journal = TestJournal::start();
    let all = talk(40, 700);
    let mut sent = Vec::new();
    for (n, turns) in (30..80).step_by(2).chain([79, 41, 44]).enumerate() {
        // Like agents do: the last message carries the cache breakpoint, and loses it a turn later.
        let mut messages = all[..turns].to_vec();
        let last = messages.last_mut().unwrap();
        last["content"] =
            json!([{"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}]);
        let received = body(&messages);
        let view = read(&received);
        // The last requests are cut elsewhere.
        let rope = cut(&received, &view, if n < 25 { 12 } else { 28 });
        let id = id(n as u32);
        let recording = journal.exchange(&id);
        let shared = Arc::new(RecordedBody::from(LocatedBody::from(&view)));
        recording.begin(|| ReceivedRequest {
            received: Arc::clone(&shared),
            ..begun(&id, "c", &received)
        });
        recording.sent(|| SentLeg {
            request: shared,
            ..leg_of(&rope, &[])
        });
        drop(recording);
        journal.end(over(&id, "c", received.len(), &[1]));
        sent.push((id, received, rope.concat()));
    }
    let query = journal.read();
    for (id, received, sent) in &sent {
        assert!(
            query.body(id, BodySide::Received).unwrap().unwrap() == *received,
            "{id}"
        );
        assert!(
            query.body(id, BodySide::Sent(0)).unwrap().unwrap() == *sent,
            "{id}"
        );
    }
    assert_eq!(journal.dropped(), 0);
}

/// A change inside a string of the envelope: position, number of letters removed, and replacement.
///
/// The letters differ by position, so that no two changes have the same result by chance.
#[derive(Debug, Clone, Copy)]
struct EnvelopeEdit(usize, usize, &'static str);

impl EnvelopeEdit {
    fn edit(self, body: &[u8], key: &str) -> Edit {
        let at = memchr::memmem::find(body, key.as_bytes()).unwrap() + key.len() + self.0;
        Edit::replace(Span::new(at, at + self.1), self.2)
    }
}

fn change() -> impl Strategy<Value = EnvelopeEdit> {
    (
        0..4_usize,
        0..3_usize,
        prop::sample::select(vec!["", "y", "z", "yz"]),
    )
        .prop_map(|(at, len, with)| EnvelopeEdit(at, len, with))
}

/// A request, and how it is cut.
#[derive(Debug, Clone)]
struct Drawn {
    wire: WireId,
    envelope: (bool, bool),
    messages: Vec<bool>,
    comma: &'static str,
    first: Index,
    /// Whether the cut ends after a message, inside of one, or before one.
    ends: usize,
    /// Whether the first message stays before the one that replaces the others.
    system_stays: bool,
    head: bool,
    changes: (EnvelopeEdit, EnvelopeEdit),
    failed: bool,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let shape = (
        prop::sample::select(vec![WireId::Anthropic, WireId::OpenaiChat]),
        any::<(bool, bool)>(),
        prop::collection::vec(any::<bool>(), 3..7),
        prop::sample::select(vec![",", " , "]),
    );
    let cut = (
        any::<Index>(),
        0..3_usize,
        any::<(bool, bool)>(),
        (change(), change()),
    );
    (shape, cut, prop::bool::weighted(0.1)).prop_map(
        |((wire, envelope, messages, comma), (first, ends, (system_stays, head), changes), failed)| Drawn {
            wire,
            envelope,
            messages,
            comma,
            first,
            ends,
            system_stays,
            head,
            changes,
            failed,
        },
    )
}

/// Requests and cuts that differ little from the first one, so that a wrong match is a match with one of
/// these.
fn alike() -> impl Strategy<Value = Vec<(Drawn, bool)>> {
    let differs = prop::collection::vec(prop::bool::weighted(0.2), 9);
    let others = prop::collection::vec((drawn(), differs, prop::bool::weighted(0.1)), 1..40);
    (drawn(), others).prop_map(|(base, others)| {
        let all = others.into_iter().map(|(other, differs, collects)| {
            let one = Drawn {
                wire: pick(differs[0], &other.wire, &base.wire),
                envelope: pick(differs[1], &other.envelope, &base.envelope),
                messages: pick(differs[2], &other.messages, &base.messages),
                comma: pick(differs[3], &other.comma, &base.comma),
                first: pick(differs[4], &other.first, &base.first),
                ends: pick(differs[5], &other.ends, &base.ends),
                system_stays: pick(differs[6], &other.system_stays, &base.system_stays),
                head: pick(differs[6], &other.head, &base.head),
                changes: (
                    pick(differs[7], &other.changes.0, &base.changes.0),
                    pick(differs[8], &other.changes.1, &base.changes.1),
                ),
                failed: other.failed,
            };
            (one, collects)
        });
        all.collect()
    })
}

fn pick<T: Clone>(differs: bool, other: &T, base: &T) -> T {
    if differs { other.clone() } else { base.clone() }
}

impl Drawn {
    fn received(&self) -> Bytes {
        let letter = |more: bool| if more { 'X' } else { 'h' };
        let message = |more: &bool| format!(r#"{{"role":"user","content":"t{}"}}"#, letter(*more));
        let messages: Vec<String> = self.messages.iter().map(message).collect();
        let (a, b) = (letter(self.envelope.0), letter(self.envelope.1));
        format!(
            r#"{{"a":"abcdefg{a}","messages":[{}],"b":"abcdefg{b}"}}"#,
            messages.join(self.comma)
        )
        .into()
    }

    fn rope(&self, received: &Bytes) -> Vec<Bytes> {
        let view = read(received);
        let span = |i: usize| view.turns[i].span;
        let first = 2 + self.first.index(self.messages.len() - 2);
        let head = format!(
            r#"{{"role":"user","content":"{}"}}"#,
            ["no", "on"][usize::from(self.head)]
        );
        let (from, comma) = match self.system_stays {
            true => (span(0).end, ","),
            false => (span(0).start, ""),
        };
        let inside = span(first - 1).end - 3;
        let (to, more) = match self.ends {
            0 => (span(first - 1).end, String::new()),
            1 => {
                let begun = &received[span(first - 1).start..inside];
                (inside, format!(",{}", std::str::from_utf8(begun).unwrap()))
            }
            _ => (span(first).start, ",".to_owned()),
        };
        let edits = vec![
            self.changes.0.edit(received, r#""a":""#),
            Edit::replace(Span::new(from, to), format!("{comma}{head}{more}")),
            self.changes.1.edit(received, r#""b":""#),
        ];
        splice(received, edits)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// For any bodies, cuts and orders, even if rows are deleted or a transaction fails in between.
    #[test]
    fn what_is_cut_is_read_back_byte_for_byte(all in alike()) {
        let dir = tempfile::tempdir().unwrap();
        let mut archive = new_archive(dir.path());
        let bounds = |max_bytes| retention::JournalBounds { max_bytes, max_age_ms: u64::MAX };
        let mut written = Vec::new();
        let mut collected = 0;
        for (n, (drawn, collects)) in all.iter().enumerate() {
            let received = drawn.received();
            let rope = drawn.rope(&received);
            let id = id(n as u32);
            let begun = ReceivedRequest { wire: drawn.wire, ..begun(&id, "c", &received) };
            let leg = SentLeg { request: Arc::clone(&begun.received), ..leg_of(&rope, &[]) };
            let sent = JournalNote::Leg { id: Arc::from(id.as_str()), leg: 0, at_ms: 1, what: LegNote::Sent(Box::new(leg)) };
            let event = Box::new(over(&id, "c", received.len(), &[1]));
            archive.begin_writing().unwrap();
            for note in [JournalNote::Begin(Box::new(begun)), sent, JournalNote::End { event, partial: false }] {
                archive.write(note).unwrap();
            }
            if drawn.failed {
                archive.conn.execute_batch("ROLLBACK").unwrap();
                archive.rolled_back();
                continue;
            }
            archive.settle().unwrap();
            written.push((id, received, rope.concat()));
            if *collects {
                retention::step(&mut archive, bounds(1), 0, false).unwrap();
                while retention::step(&mut archive, bounds(u64::MAX), 0, false).unwrap() {}
                collected = written.len();
            }
        }
        let query = query(dir.path());
        for (n, (id, received, sent)) in written.iter().enumerate() {
            let Some(exchange) = query.exchange(id).unwrap() else {
                prop_assert!(n < collected, "{id} is gone");
                continue;
            };
            let kept = query.body(id, BodySide::Received).unwrap().unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&kept), String::from_utf8_lossy(received));
            let kept = query.body(id, BodySide::Sent(0)).unwrap().unwrap();
            prop_assert_eq!(String::from_utf8_lossy(&kept), String::from_utf8_lossy(sent));
            let json: Value = serde_json::from_slice(sent).unwrap();
            prop_assert_eq!(exchange.legs[0].sent.messages.len(), json["messages"].as_array().unwrap().len());
        }
    }
}
