//! A state directory with damaged files: each command names the file or the record, with one remedy.
#![cfg(unix)]

use std::fs;
use std::process::Output;

use baton_strict::Reply;
use rusqlite::Connection;
use serde_json::Value;

use crate::harness::fixture::{handoff, history};
use crate::harness::program::{Place, printed, serve};
use crate::harness::texts::{assert_contains, assert_lacks};

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The findings of `baton doctor` that are not `ok`, about one check.
fn findings(place: &Place, check: &str) -> Vec<Value> {
    let output = place.baton(&["doctor", "--offline", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = report["findings"].as_array().unwrap().clone();
    let is_bad = |row: &Value| row["check"] == check && row["severity"] != "ok";
    all.into_iter().filter(is_bad).collect()
}

#[tokio::test]
async fn a_damaged_record_hides_no_other() {
    let replies = [handoff(), Reply::text("Fresh."), handoff(), Reply::text("Fresh.")];
    let place = Place::new(replies, "").await;
    let program = place.start();
    for _ in 0..2 {
        assert_contains(&program.sends(&history()).await.text(), "Fresh.");
    }
    drop(program);
    let store = Connection::open(place.state.join("baton.db")).unwrap();
    let id = |order: &str| -> String {
        let sql = format!("SELECT id FROM records WHERE kind = 'handoff' ORDER BY id {order} LIMIT 1");
        store.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    let (first, last) = (id("ASC"), id("DESC"));
    let damage = "UPDATE records SET record = CAST(x'7bff' AS TEXT) WHERE kind = 'handoff' AND id = ?1";
    assert_eq!(store.execute(damage, [&first]).unwrap(), 1);
    let listed = place.baton(&["handoffs", "list"]);
    let told = stderr(&listed);
    assert_contains(&told, &format!("{first} (handoffs) is damaged"));
    assert_contains(&told, "restore a backup");
    let rows = printed(listed);
    assert_contains(&rows, &last[..13]);
    assert_lacks(&rows, &first[..13]);
    let found = findings(&place, "store");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_contains(found[0]["message"].as_str().unwrap(), "1 record damaged");
}

#[tokio::test]
async fn the_doctor_says_of_damaged_files_what_serve_says() {
    let place = Place::new([], "").await;
    drop(place.start());
    for (file, check) in [("seal.key", "keys"), ("baton.db", "store")] {
        let path = place.state.join(file);
        let before = fs::read(&path).unwrap();
        for log in ["baton.db-wal", "baton.db-shm"] {
            let _ = fs::remove_file(place.state.join(log));
        }
        fs::write(&path, "x".repeat(5_000)).unwrap();
        let refused = serve(&place.state)
            .arg("--config")
            .arg(&place.config)
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(73), "{file}: {}", stderr(&refused));
        let found = findings(&place, check);
        assert_eq!(found.len(), 1, "{file}: {found:?}");
        let told = stderr(&refused);
        for part in ["message", "help"] {
            assert_contains(&told, found[0][part].as_str().unwrap());
        }
        assert_eq!(told.matches("help:").count(), 1, "{told}");
        fs::write(&path, before).unwrap();
    }
}
