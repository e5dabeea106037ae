//! The rows of an exchange do not depend on the transactions of its notes.

use std::sync::Arc;

use http::HeaderMap;
use rusqlite::Connection;
use rusqlite::types::Value as Column;

use super::super::queue::{JournalNote, LegNote};
use super::*;

fn captured(text: &'static [u8]) -> CapturedBody {
    CapturedBody {
        chunks: vec![Bytes::from_static(text)],
        truncated: false,
        ended: true,
    }
}

/// Notes of an exchange with two legs, in order. The first leg gets no response in JSON.
fn notes(n: u32) -> Vec<JournalNote> {
    let received = body(&[chat_message("user", "y")]);
    let id: Arc<str> = id(n).into();
    let begun = ReceivedRequest {
        at_ms: 1_000,
        ..begun(&id, "c", &received)
    };
    let of_leg = |leg, at_ms, what| JournalNote::Leg {
        id: Arc::clone(&id),
        leg,
        at_ms,
        what,
    };
    let sent = |request: &Arc<RecordedBody>| {
        LegNote::Sent(Box::new(SentLeg {
            request: Arc::clone(request),
            ..leg_of(from_ref(&received), &[])
        }))
    };
    let mut headers = HeaderMap::new();
    headers.insert("server", "s".parse().unwrap());
    let headers = || PackedHeaders::new(&headers);
    let (first, second) = (sent(&begun.received), sent(&begun.received));
    let usage = Usage {
        input: 7,
        ..Usage::default()
    };
    vec![
        JournalNote::Begin(Box::new(begun)),
        of_leg(0, 1_001, first),
        of_leg(0, 1_002, LegNote::Answered(Some((529, headers())))),
        of_leg(0, 1_003, LegNote::Received(captured(b"<h1>busy</h1>"))),
        of_leg(1, 1_004, second),
        of_leg(1, 1_005, LegNote::Answered(Some((200, headers())))),
        of_leg(
            1,
            1_006,
            LegNote::Received(captured(
                br#"{"type":"message","content":[{"type":"text","text":"hi"}]}"#,
            )),
        ),
        of_leg(1, 1_007, LegNote::Counted(usage, StopReason::Done)),
        JournalNote::Shown {
            id: Arc::clone(&id),
            headers: headers(),
            body: captured(b"{}"),
        },
        JournalNote::End {
            event: Box::new(over(&id, "c", received.len(), &[received.len(); 2])),
            partial: false,
        },
    ]
}

fn rows(conn: &Connection) -> Vec<Vec<Column>> {
    let mut all = Vec::new();
    for table in ["exchanges", "legs"] {
        let mut ask = conn
            .prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2"))
            .unwrap();
        let columns = ask.column_count();
        let found = ask
            .query_map([], |row| (0..columns).map(|i| row.get(i)).collect())
            .unwrap();
        all.extend(found.map(Result::unwrap));
    }
    all
}

fn written(transactions: Vec<Vec<JournalNote>>) -> (Vec<Vec<Column>>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = new_archive(dir.path());
    let mut changes = 0;
    for notes in transactions {
        changes = archive.conn.total_changes();
        archive.begin_writing().unwrap();
        for note in notes {
            archive.write(note).unwrap();
        }
        archive.settle().unwrap();
        changes = archive.conn.total_changes() - changes;
    }
    (rows(&archive.conn), changes)
}

/// A clock that ran ahead leaves later ids on older exchanges.
#[test]
fn the_newest_exchange_is_the_last_that_began() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = new_archive(dir.path());
    archive.begin_writing().unwrap();
    for n in [1, 9, 2] {
        for note in notes(n) {
            archive.write(note).unwrap();
        }
    }
    archive.settle().unwrap();
    let listed = |before: Option<u32>| {
        let filter = ExchangeFilter {
            before: before.map(id),
            conversation: Some("c".to_owned()),
            ..ExchangeFilter::default()
        };
        let rows = query(dir.path()).list(&filter).unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(None), [2, 9, 1].map(id));
    assert_eq!(listed(Some(9)), [id(1)]);
}

#[test]
fn rows_do_not_depend_on_transactions() {
    let (together, _) = written(vec![notes(1).into_iter().chain(notes(2)).collect()]);
    let alone = |notes: Vec<JournalNote>| notes.into_iter().map(|note| vec![note]);
    let (apart, _) = written(alone(notes(1)).chain(alone(notes(2))).collect());
    assert_eq!(together, apart);
    // Interleaved exchanges differ only in the order of their ends.
    let mixed = notes(1)
        .into_iter()
        .zip(notes(2))
        .map(|(one, other)| vec![one, other]);
    let (mixed, _) = written(mixed.collect());
    assert_eq!(mixed, together);
    assert_eq!(together.len(), 6);
}

/// Each change of a row costs a search, a new record and its index entries.
#[test]
fn the_rows_of_an_exchange_are_written_once() {
    let (_, changes) = written(vec![notes(1), notes(2)]);
    // One row is inserted at the begin, one for each leg, and the first is updated at the end. The chunks are known, so
    // only their references are counted.
    let (own_rows, references) = (1 + 2 + 1, 9);
    assert_eq!(changes, own_rows + references);
}

/// A relayed request has neither a beginning nor legs, but its response may state usage.
#[test]
fn a_relayed_request_is_in_its_clients_bill() {
    let journal = TestJournal::start();
    let mut event = over(&id(1), "c", 0, &[0]);
    event.conversation = None;
    event.client = Some("ada".to_owned());
    event.tokens = vec![Some(Usage {
        input: 7,
        ..Usage::default()
    })];
    journal.end(event);
    // A model writes a compaction as well.
    let received = body(&[chat_message("user", "y")]);
    let recording = journal.exchange(&id(2));
    recording.begin(|| ReceivedRequest {
        operation: Operation::Compact,
        principal: "ada".to_owned(),
        ..begun(&id(2), "d", &received)
    });
    recording.sent(|| leg_of(from_ref(&received), &[]));
    let usage = Usage {
        input: 5,
        ..Usage::default()
    };
    recording.counted(usage, StopReason::Done);
    drop(recording);
    journal.end(over(&id(2), "d", received.len(), &[received.len()]));
    let prices = crate::prices::table(None).unwrap();
    let bill = journal.read().bill(&BillFilter::default(), &prices).unwrap();
    let rows: Vec<_> = bill
        .iter()
        .map(|row| (row.client.as_deref(), row.tokens.input))
        .collect();
    assert_eq!(rows, [(Some("ada"), 7), (Some("ada"), 5)]);
}

/// A clock that ran ahead does not keep a conversation on top.
#[test]
fn the_first_conversation_is_the_last_that_was_used() {
    let journal = TestJournal::start();
    for (n, conversation) in [(9, "c"), (2, "d")] {
        journal.end(over(&id(n), conversation, 0, &[0]));
    }
    let listed = journal.read().conversations(None, 9).unwrap();
    let keys: Vec<_> = listed.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["d", "c"]);
}
