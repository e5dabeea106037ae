//! What goes, what stays, and what is left of a process that was killed.

use pretty_assertions::assert_eq;

use super::*;
use crate::journal::keep;

fn settled(dir: &Path, most: u64) -> Query {
    for _ in 0..400 {
        let query = query(dir);
        if query.totals().unwrap().exchanges <= most {
            return query;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("not tidied: {:?}", query(dir).totals());
}

#[test]
fn the_oldest_go_when_there_is_too_much_and_take_their_texts_along() {
    let dir = tempfile::tempdir().unwrap();
    let all = talk(60, 400);
    {
        let tap = started(dir.path());
        for turn in 0..60 {
            let received = body(&all[..=2 * turn]);
            note(
                &tap,
                turn as u32,
                &received,
                from_ref(&received),
                &[],
                &Bytes::from_static(b"{}"),
            );
        }
        assert!(tap.flush(LONG));
    }
    let before = query(dir.path()).totals().unwrap();
    let tight = Settings {
        max_age: Duration::ZERO,
        ..settings()
    };
    std::thread::sleep(Duration::from_millis(5));
    let tap = start(&tight, dir.path(), &[]).unwrap();
    let query = settled(dir.path(), 0);
    for _ in 0..400 {
        let left: i64 = query
            .conn
            .query_row(
                "SELECT (SELECT COUNT(*) FROM pieces) + (SELECT COUNT(*) FROM nodes)",
                [],
                |r| r.get(0),
            )
            .unwrap();
        if left == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    let after = query.totals().unwrap();
    let left: i64 = query
        .conn
        .query_row(
            "SELECT (SELECT COUNT(*) FROM pieces) + (SELECT COUNT(*) FROM nodes)",
            [],
            |r| r.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
    // What is left are the empty tables' own pages.
    assert!(
        after.bytes <= 64 << 10 && after.bytes < before.bytes,
        "{before:?} {after:?}"
    );
    // What comes later finds no id of what is gone.
    let received = body(&all[..3]);
    let id = note(
        &tap,
        99,
        &received,
        from_ref(&received),
        &[],
        &Bytes::from_static(b"{}"),
    );
    let read = || {
        Query::open(dir.path())
            .unwrap()
            .unwrap()
            .body(&id, Side::Received)
            .unwrap()
    };
    assert!(tap.flush(LONG));
    assert_eq!(read().unwrap_or_else(|| received.to_vec()), received);
}

#[test]
fn shared_texts_outlive_the_exchange_that_brought_them() {
    let dir = tempfile::tempdir().unwrap();
    let tap = started(dir.path());
    let all = talk(10, 50);
    let ids: Vec<_> = (0..10)
        .map(|turn| {
            let received = body(&all[..=2 * turn]);
            note(
                &tap,
                turn as u32,
                &received,
                from_ref(&received),
                &[],
                &Bytes::from_static(b"{}"),
            )
        })
        .collect();
    assert!(tap.flush(LONG));
    drop(tap);
    let conn = schema::open(dir.path()).unwrap();
    let mut archive = Archive::new(conn, Redactor::new(&[]), Vec::new()).unwrap();
    let one_byte = Bounds {
        max_bytes: 1,
        max_age_ms: u64::MAX,
    };
    // One step drops eight; then what they alone had goes.
    assert!(keep::step(&mut archive, one_byte, 0).unwrap());
    let enough = Bounds {
        max_bytes: u64::MAX,
        max_age_ms: u64::MAX,
    };
    while keep::step(&mut archive, enough, 0).unwrap() {}
    let query = query(dir.path());
    assert_eq!(query.totals().unwrap().exchanges, 2);
    assert_eq!(
        query.body(&ids[9], Side::Received).unwrap().unwrap(),
        body(&all[..19])
    );
    assert_eq!(query.body(&ids[0], Side::Received).unwrap(), None);
}

#[test]
fn what_a_killed_process_left_is_read_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let one = body(&[said("user", "y")]);
    {
        let tap = started(dir.path());
        let recording = tap.exchange(&id(1));
        recording.begin(|| begun(&id(1), "c", &one));
        assert!(tap.flush(LONG));
        assert!(query(dir.path()).row(&id(1)).unwrap().unwrap().open);
    }
    // Another process, later.
    let tap = started(dir.path());
    assert!(tap.flush(LONG));
    let row = query(dir.path()).row(&id(1)).unwrap().unwrap();
    assert!(!row.open && row.partial);
    assert_eq!(
        query(dir.path()).body(&id(1), Side::Received).unwrap().unwrap(),
        one
    );
}

#[test]
fn a_file_that_cannot_be_had_is_an_error_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join(FILE),
        b"this is not a database, whatever it says it is....",
    )
    .unwrap();
    assert!(start(&settings(), dir.path(), &[]).is_err());
}
