use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::super::{HandoffFile, read};
use crate::handoffs::document::HandoffDocument;
use crate::handoffs::draft::tokens;

fn document() -> Value {
    serde_json::from_str(include_str!("../../../../../tests/golden/document.json")).unwrap()
}

fn of(document: &Value) -> HandoffFile {
    HandoffFile::of_document(&HandoffDocument::read(&document.to_string()).unwrap())
}

#[test]
fn the_file_of_a_document_says_the_same() {
    let file = of(&document());
    assert_eq!(file.errors(), []);
    assert_eq!(
        (file.session.as_str(), file.date.as_str()),
        ("shop-app", "2026-11-22")
    );
    assert_eq!(
        (file.goal.as_str(), file.now.as_str()),
        ("form", "Write the cookie")
    );
    assert_eq!(file.test, "cargo test");
    assert_eq!(file.done_this_session[0].task, "form");
    assert_eq!(file.next, ["cookie (in progress)", "docs"]);
    assert_eq!(file.questions, ["Keep the old cookie?"]);
    assert_eq!(
        (file.worked.len(), file.failed[0].as_str()),
        (1, "a global lock: deadlock")
    );
    assert_eq!(file.decisions["01"], "Signed cookies, since no store is there.");
    let files = &file.files;
    assert_eq!(
        [&files.created[0], &files.modified[0], &files.deleted[0]],
        ["src/auth.rs", "src/lib.rs", "src/old.rs"]
    );
    assert_eq!(file.findings["handoff"], "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11");
    assert_eq!(
        (file.status.as_str(), file.created_at.as_str()),
        ("partial", "2026-11-22T18:05:48Z")
    );
    assert_eq!(file.outcome, "PARTIAL_PLUS");
    assert_eq!(file.updated_at, file.created_at);
    assert_eq!(of(&document()), file);
    assert!(tokens(&file.to_yaml()) < 500, "{}", file.to_yaml());
    assert_eq!(read(&file.to_yaml()).unwrap().file, file);
}

#[test]
fn work_is_complete_only_where_the_transcript_shows_it() {
    let status = |todo: Value, passed: bool| {
        let mut document = document();
        document["todo"] = todo;
        for run in document["verification"].as_array_mut().unwrap() {
            run["exit"] = json!(if passed { 0 } else { 1 });
        }
        of(&document).outcome
    };
    let done = || json!([{"text": "form", "state": "done"}]);
    assert_eq!(status(done(), true), "SUCCEEDED");
    assert_eq!(status(done(), false), "PARTIAL_PLUS");
    assert_eq!(status(json!([]), true), "PARTIAL_PLUS");
    let half = json!([{"text": "form", "state": "done"}, {"text": "cookie", "state": "pending"}]);
    assert_eq!(status(half, true), "PARTIAL_PLUS");
}

#[test]
fn without_a_next_action_it_says_so_and_a_block_is_a_blocker() {
    let mut document = document();
    document["next_action"] = Value::Null;
    document["open_risks"] = json!([{"severity": "block", "detail": "`cargo test` failed"}]);
    document["repository"] = json!("");
    let file = of(&document);
    assert_eq!(file.now, "no next step is recorded; ask the user");
    assert_eq!(
        (file.status.as_str(), file.blockers.as_slice()),
        ("blocked", &["`cargo test` failed".to_owned()][..])
    );
    assert_eq!(file.session, "3f2a");
    let many: Vec<_> = (0..50)
        .map(|n| json!({"path": format!("src/{n}.rs"), "change": "written", "why": null}))
        .collect();
    document["changed_files"] = json!(many);
    document["todo"] = (0..50)
        .map(|_| json!({"text": "long ".repeat(100), "state": "pending"}))
        .collect();
    let file = of(&document);
    assert_eq!((file.files.modified.len(), file.next.len()), (8, 5));
}

#[test]
fn the_files_that_changed_last_are_kept_and_the_others_are_counted() {
    let mut document = document();
    let changed = (1..=12).map(|call| json!({"path": format!("src/{call}.rs"), "change": "modified", "why": null, "turn": 1, "call": call}));
    document["changed_files"] = changed.rev().collect();
    document["doubtful_files"] = json!([{"path": "src/old.rs", "change": "modified", "why": null}]);
    let file = of(&document);
    let kept: Vec<String> = (5..=12).map(|call| format!("src/{call}.rs")).collect();
    assert_eq!(file.files.modified, kept);
    assert_eq!(file.findings["files_left_out"], "4");
    assert_eq!(file.findings["perhaps_changed"], "src/old.rs");
}
