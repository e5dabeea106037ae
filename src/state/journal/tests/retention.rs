//! What retention deletes and keeps, and the remains of a killed process.

use pretty_assertions::assert_eq;

use super::*;
use crate::journal::queue::{JournalNote, MAX_LOST_ENDS};
use crate::journal::retention;

/// Bounds without a maximum age.
fn up_to(max_bytes: u64) -> JournalBounds {
    JournalBounds {
        max_bytes,
        max_age_ms: u64::MAX,
    }
}

fn chunks_and_nodes(query: &JournalReader) -> i64 {
    let count = "SELECT (SELECT COUNT(*) FROM pieces) + (SELECT COUNT(*) FROM nodes)";
    query.conn.query_row(count, [], |row| row.get(0)).unwrap()
}

#[test]
fn the_oldest_go_when_there_is_too_much_and_take_their_texts_along() {
    let dir = tempfile::tempdir().unwrap();
    let all = talk(60, 400);
    {
        let recorder = started(dir.path());
        for turn in 0..60 {
            let received = body(&all[..=2 * turn]);
            note_relayed(&recorder, turn as u32, &received);
        }
        assert!(recorder.flush(TIMEOUT));
    }
    let before = query(dir.path()).totals().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let tight = Settings {
        max_age: Duration::ZERO,
        ..settings()
    };
    let recorder = start(&tight, dir.path(), &[]).unwrap();
    let query = query(dir.path());
    let left = || (query.totals().unwrap().exchanges, chunks_and_nodes(&query));
    for _ in 0..800 {
        if left() == (0, 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    let after = query.totals().unwrap();
    assert_eq!(left(), (0, 0));
    // Only the pages of the empty tables are left.
    assert!(
        after.bytes <= 64 << 10 && after.bytes < before.bytes,
        "{before:?} {after:?}"
    );
    // Later exchanges do not find ids of deleted rows.
    let received = body(&all[..3]);
    let id = note_relayed(&recorder, 99, &received);
    assert!(recorder.flush(TIMEOUT));
    let read = stored_request(dir.path(), &id);
    assert_eq!(read.unwrap_or_else(|| received.to_vec()), received);
}

#[test]
fn shared_texts_outlive_the_exchange_that_brought_them() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = started(dir.path());
    let all = talk(10, 50);
    let ids: Vec<_> = (0..10)
        .map(|turn| {
            let received = body(&all[..=2 * turn]);
            note_relayed(&recorder, turn as u32, &received)
        })
        .collect();
    assert!(recorder.flush(TIMEOUT));
    drop(recorder);
    let mut archive = archive_of(schema::open(dir.path()).unwrap());
    // One step drops eight exchanges. Later steps delete the rows that only they referred to.
    assert!(retention::step(&mut archive, up_to(1), 0, false).unwrap());
    while retention::step(&mut archive, up_to(u64::MAX), 0, false).unwrap() {}
    let query = query(dir.path());
    assert_eq!(query.totals().unwrap().exchanges, 2);
    assert_eq!(stored_request(dir.path(), &ids[9]).unwrap(), body(&all[..19]));
    assert_eq!(stored_request(dir.path(), &ids[0]), None);
}

/// Returns the bytes on disk: the file, its log and the log's index.
fn on_disk(dir: &Path) -> u64 {
    let size = |name: &str| std::fs::metadata(dir.join(name)).map_or(0, |meta| meta.len());
    size(FILE) + size("journal.db-wal")
}

#[test]
fn the_bound_holds_under_a_flood_log_included() {
    let bound = 4 << 20;
    let journal = TestJournal::with(|small| {
        (small.max_bytes, small.queue_bytes) = (bound, 8 << 20);
    });
    let (mut most, mut bytes) = (0, 0_u64);
    for n in 0..4_200 {
        // 2 KB of new words.
        let words = (0..250).map(|i| {
            format!(
                "{:x}",
                (u64::from(n) * 1_000 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            )
        });
        let received = body(&[chat_message("user", &words.collect::<Vec<_>>().join(" "))]);
        bytes += received.len() as u64;
        note_relayed(&journal, n, &received);
        most = most.max(on_disk(journal.dir.path()));
        if n % 500 == 499 {
            assert!(journal.flush(TIMEOUT));
            most = most.max(on_disk(journal.dir.path()));
        }
    }
    assert!(journal.flush(TIMEOUT));
    most = most.max(on_disk(journal.dir.path()));
    println!(
        "{bytes} bytes written, at most {most} on the disk, {} copies dropped",
        journal.dropped()
    );
    assert!(bytes > 5 * bound && most <= bound, "{most} of {bound}");
    // The newest exchange is still stored.
    let query = journal.read();
    assert!(query.row(&id(4_199)).unwrap().is_some());
    assert!(query.totals().unwrap().exchanges > 100);
}

#[test]
fn a_lost_end_does_not_keep_the_oldest_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let (recorder, notes, load) = Recorder::new(1 << 30, 1 << 20, Redactor::default());
    let one = body(&[chat_message("user", "y")]);
    // The queue is full of notes that nobody takes, so the ends of the first exchanges are lost.
    let recording = recorder.exchange(&id(500));
    recording.begin(|| begun(&id(500), "c", &one));
    for n in 0..40 {
        // The second half begins in another transaction.
        for _ in 0..if n == 20 { 5_000 } else { 0 } {
            recording.counted(Usage::default(), StopReason::Done);
        }
        let recording = recorder.exchange(&id(n));
        recording.begin(|| begun(&id(n), "c", &one));
    }
    while recorder.dropped() == 0 {
        recording.counted(Usage::default(), StopReason::Done);
    }
    for n in 10_000.. {
        let before = recorder.dropped();
        recorder.end(over(&id(n), "c", 1, &[]));
        if recorder.dropped() > before {
            break;
        }
    }
    recorder.end(over(&id(500), "c", 1, &[]));
    for n in 0..40 {
        recorder.end(over(&id(n), "c", one.len(), &[]));
    }
    let writer = JournalWriter {
        archive: new_archive(dir.path()),
        notes,
        load,
        live: None,
        bounds: up_to(1 << 40),
        next: None,
    };
    let thread = std::thread::spawn(move || writer.run());
    assert!(recorder.flush(TIMEOUT));
    for n in 0..40 {
        let row = query(dir.path()).row(&id(n)).unwrap().unwrap();
        assert!(!row.open && row.partial, "{row:?}");
    }
    drop((recorder, recording));
    thread.join().unwrap();
    // When retention looks for room later, it finds ended exchanges after open ones.
    let mut archive = archive_of(schema::open(dir.path()).unwrap());
    archive.begin_writing().unwrap();
    for n in 2_000..2_020 {
        let begun = JournalNote::Begin(Box::new(begun(&id(n), "d", &one)));
        archive.write(begun).unwrap();
    }
    archive.settle().unwrap();
    while retention::step(&mut archive, up_to(4), 0, true).unwrap() {}
    let left = query(dir.path()).totals().unwrap().exchanges;
    assert_eq!(left, 20, "those under way");
}

/// Returns about `bytes` bytes of new words that hardly compress.
fn noise(n: u32, bytes: usize) -> Bytes {
    let words = (0..bytes as u64 / 17).map(|i| {
        let n = (u64::from(n) << 32 | i) + 1;
        format!(
            "{:016x}",
            n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .wrapping_mul(n | 1)
        )
    });
    let text = words.collect::<Vec<_>>().join(" ");
    json!({"model": "m", "messages": [chat_message("user", &text)]})
        .to_string()
        .into()
}

#[test]
fn a_file_full_of_exchanges_under_way_has_room_again_when_they_end() {
    let journal = TestJournal::with(|small| small.max_bytes = 1 << 20);
    // First large bodies, then smaller ones, until not even a small one fits. None of the exchanges ends
    // meanwhile.
    let mut under_way = 0;
    for bytes in [200_000, 50_000, 1_500] {
        let before = journal.dropped();
        while journal.dropped() == before {
            assert!(under_way < 2_000);
            for _ in 0..if bytes > 10_000 { 1 } else { 8 } {
                let received = noise(under_way, bytes);
                let recording = journal.exchange(&id(under_way));
                recording.begin(|| begun(&id(under_way), "c", &received));
                under_way += 1;
            }
            assert!(journal.flush(TIMEOUT));
        }
    }
    for n in 0..under_way {
        journal.end(over(&id(n), "c", 1, &[]));
    }
    assert!(journal.flush(TIMEOUT));
    for n in 10_000..10_100 {
        let received = noise(n, 300);
        note_relayed(&journal, n, &received);
        assert!(journal.flush(TIMEOUT));
    }
    let query = journal.read();
    let row = query.row(&id(10_099)).unwrap().expect("the newest is there");
    assert!(!row.open && !row.partial, "{row:?}");
    // No exchange that ended without room stays open.
    for n in 0..under_way {
        assert!(query.row(&id(n)).unwrap().is_none_or(|row| !row.open), "{n}");
    }
}

#[test]
fn an_exchange_whose_body_found_no_room_does_not_claim_to_be_whole() {
    let journal = TestJournal::with(|small| small.max_bytes = 1 << 20);
    let received = noise(1, 600_000);
    let id = note_relayed(&journal, 1, &received);
    assert!(journal.flush(TIMEOUT));
    assert!(stored_request(journal.dir.path(), &id).is_none_or(|body| body.is_empty()));
    assert!(journal.read().row(&id).unwrap().unwrap().partial);
}

#[test]
fn what_a_rolled_back_transaction_took_along_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = new_archive(dir.path());
    let one = body(&[chat_message("user", "y")]);
    let begin = |n| JournalNote::Begin(Box::new(begun(&id(n), "c", &one)));
    let end = |n| JournalNote::End {
        event: Box::new(over(&id(n), "c", one.len(), &[])),
        partial: false,
    };
    archive.begin_writing().unwrap();
    archive.write(begin(1)).unwrap();
    archive.settle().unwrap();
    // The end of the first exchange and the beginning of the second one are lost.
    archive.begin_writing().unwrap();
    archive.write(end(1)).unwrap();
    archive.write(begin(2)).unwrap();
    archive.conn.execute_batch("ROLLBACK").unwrap();
    archive.rolled_back();
    archive.begin_writing().unwrap();
    archive.write(end(2)).unwrap();
    archive.settle().unwrap();
    for n in [1, 2] {
        let row = query(dir.path()).row(&id(n)).unwrap().unwrap();
        assert!(!row.open && row.partial, "{row:?}");
    }
}

#[test]
fn ends_that_cannot_be_written_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = new_archive(dir.path());
    let end = JournalNote::End {
        event: Box::new(over(&id(1), "c", 1, &[])),
        partial: false,
    };
    for n in 0..u32::try_from(MAX_LOST_ENDS).unwrap() {
        archive.lose_end(id(2 * n).into());
        archive.lose_end(id(2 * n + 1).into());
        archive.skip(&end);
    }
    assert_eq!(archive.unended.len(), MAX_LOST_ENDS);
}

/// A body whose memory panics when the journal releases it.
struct Odd(Bytes);

impl AsRef<[u8]> for Odd {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        panic!("an odd body");
    }
}

#[test]
fn an_odd_body_costs_its_own_copy_and_nothing_else() {
    let journal = TestJournal::start();
    let one = body(&[chat_message("user", "y")]);
    let recording = journal.exchange(&id(1));
    recording.begin(|| begun(&id(1), "c", &one));
    recording.sent(|| leg_of(&[Bytes::from_owner(Odd(one.clone()))], &[]));
    journal.end(over(&id(1), "c", one.len(), &[]));
    let other = note_relayed(&journal, 2, &one);
    assert!(journal.flush(TIMEOUT), "the thread goes on");
    let query = journal.read();
    assert!(query.row(&id(1)).unwrap().unwrap().partial);
    assert!(!query.row(&other).unwrap().unwrap().partial);
    assert_eq!(stored_request(journal.dir.path(), &other).unwrap(), one);
    assert_eq!(journal.dropped(), 1);
}

#[test]
fn what_a_killed_process_left_is_read_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let one = body(&[chat_message("user", "y")]);
    {
        let recorder = started(dir.path());
        let recording = recorder.exchange(&id(1));
        recording.begin(|| begun(&id(1), "c", &one));
        assert!(recorder.flush(TIMEOUT));
        assert!(query(dir.path()).row(&id(1)).unwrap().unwrap().open);
    }
    // Later, in another process.
    let recorder = started(dir.path());
    assert!(recorder.flush(TIMEOUT));
    let row = query(dir.path()).row(&id(1)).unwrap().unwrap();
    assert!(!row.open && row.partial);
    assert_eq!(stored_request(dir.path(), &id(1)).unwrap(), one);
}

#[test]
fn a_file_that_cannot_be_had_is_an_error_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let text = "this is not a database, whatever it says it is....";
    std::fs::write(dir.path().join(FILE), text).unwrap();
    assert!(start(&settings(), dir.path(), &[]).is_err());
}

/// Exchanges are deleted from the file of a running proxy, and after its end with all their text.
#[test]
fn forgotten_exchanges_take_their_texts_along() {
    let dir = tempfile::tempdir().unwrap();
    let all = talk(6, 40);
    let recorder = started(dir.path());
    let received: Vec<_> = (0..6).map(|turn| body(&all[..=2 * turn])).collect();
    for (n, body) in (0..).zip(&received) {
        note_relayed(&recorder, n, body);
    }
    let cut = id(50);
    let recording = recorder.exchange(&cut);
    recording.begin(|| begun(&cut, "other", &received[0]));
    let event = over(&cut, "other", received[0].len(), &[]);
    let facts = ExchangeFacts {
        pinned: Some("the-handoff".to_owned()),
        ..event.facts
    };
    recorder.end(ExchangeEvent { facts, ..event });
    let open = id(90);
    recorder.exchange(&open).begin(|| begun(&open, "c", &received[0]));
    assert!(recorder.flush(TIMEOUT));
    let one = ForgottenExchanges::Handoff {
        id: "the-handoff",
        conversation: "another",
        from_ms: 0,
    };
    let named = forget(dir.path(), one, true, true).unwrap();
    assert_eq!(named, 1, "named in its event");
    assert_eq!(query(dir.path()).totals().unwrap().exchanges, 8, "a dry run");
    assert_eq!(forget(dir.path(), one, true, false).unwrap(), 1);
    // The recorder's caches know the deleted rows, and its later rows are whole.
    let later = note_relayed(&recorder, 99, &received[5]);
    assert!(recorder.flush(TIMEOUT));
    assert_eq!(stored_request(dir.path(), &later).unwrap(), received[5]);
    let client = ForgottenExchanges::Client("local");
    let forgotten = forget(dir.path(), client, true, false).unwrap();
    assert_eq!(forgotten, 7, "the open one stays");
    drop(recorder);
    let conversation = ForgottenExchanges::Conversation("c");
    assert_eq!(forget(dir.path(), conversation, false, false).unwrap(), 1);
    assert_eq!(chunks_and_nodes(&query(dir.path())), 0);
}
