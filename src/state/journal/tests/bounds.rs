//! Copies dropped for lack of room, and a journal that is off or cannot be created.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_full_queue_drops_copies_counts_them_and_keeps_the_row() {
    let journal = TestJournal::with(|small| small.queue_bytes = 64 << 10);
    let received = body(&[chat_message("user", &"x".repeat(100 << 10))]);
    let id = note_relayed(&journal, 1, &received);
    let other = note_relayed(&journal, 2, &body(&[chat_message("user", "y")]));
    assert!(journal.flush(TIMEOUT));
    assert_eq!(journal.dropped(), 1);
    let query = journal.read();
    let row = query.row(&id).unwrap().unwrap();
    assert!(row.partial && row.event.received_bytes > 100 << 10);
    assert_eq!(stored_request(journal.dir.path(), &id), None);
    assert!(!query.row(&other).unwrap().unwrap().partial);
}

#[test]
fn a_long_answer_is_cut_off_and_says_so() {
    let journal = TestJournal::with(|short| short.response_bytes = 10);
    let one = body(&[chat_message("user", "y")]);
    let answer = Bytes::from_static(b"0123456789abcdef");
    let id = note(&journal, 1, &one, from_ref(&one), &[], &answer);
    let query = journal.read();
    assert_eq!(query.body(&id, BodySide::Shown).unwrap().unwrap(), b"0123456789");
    let exchange = query.exchange(&id).unwrap().unwrap();
    assert!(exchange.shown.truncated && exchange.legs[0].response.truncated);
}

#[test]
fn a_damaged_file_does_not_hold_a_reader() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = started(dir.path());
    let turns: Vec<_> = (0..3)
        .map(|n| chat_message("user", &format!("turn {n}")))
        .collect();
    let id = note_relayed(&recorder, 1, &body(&turns));
    assert!(recorder.flush(TIMEOUT));
    drop(recorder);
    let damage = |sql: &str| {
        let conn = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
        conn.execute_batch(sql).unwrap();
    };
    damage("UPDATE nodes SET parent = (SELECT max(id) FROM nodes) WHERE parent = 0");
    let reader = query(dir.path());
    assert_eq!(reader.row(&id).unwrap().unwrap().id, id);
    let _ = reader.body(&id, BodySide::Received);
    damage("ALTER TABLE exchanges RENAME TO hidden; CREATE VIEW exchanges AS SELECT * FROM hidden");
    let error = query(dir.path()).row(&id).unwrap_err().to_string();
    assert!(error.contains("view"), "{error}");
}

#[test]
fn switched_off_there_is_no_file_and_no_work() {
    let journal = TestJournal::with(|off| off.enabled = false);
    let recording = journal.exchange("x");
    recording.begin(|| panic!("nobody asks for it"));
    assert!(!journal.is_on() && !recording.is_on() && journal.watch().is_none());
    assert_eq!(std::fs::read_dir(journal.dir.path()).unwrap().count(), 0);
    assert!(JournalReader::open(journal.dir.path()).unwrap().is_none());
}

#[test]
fn a_file_that_cannot_be_made_costs_the_copies_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", dir.path().join(FILE)).unwrap();
    let recorder = started(dir.path());
    let one = body(&[chat_message("user", "y")]);
    note_relayed(&recorder, 1, &one);
    assert!(recorder.flush(TIMEOUT), "nobody waits for it");
    assert!(recorder.dropped() > 0);
}

#[test]
fn starts_at_once_make_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let taps: Vec<_> = (0..4).map(|_| started(dir.path())).collect();
    let one = body(&[chat_message("user", "y")]);
    for (n, recorder) in taps.iter().enumerate() {
        note_relayed(recorder, n as u32, &one);
        assert!(recorder.flush(TIMEOUT));
    }
    let all = query(dir.path()).list(&ExchangeFilter::default()).unwrap();
    assert_eq!(all.len(), 4);
    drop(taps);
    let names = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name());
    let strange: Vec<_> = names
        .filter(|name| !name.to_string_lossy().starts_with("journal.db"))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}
