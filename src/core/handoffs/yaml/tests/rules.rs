use super::super::time::Time;
use super::super::{HandoffFile, analyze, read};
use super::full;

#[test]
fn a_full_file_holds() {
    assert_eq!(full().errors(), []);
    assert!(full().errors().is_empty() && full().notes().is_empty());
}

#[test]
fn every_violation_is_reported_at_once() {
    let text = "version: \"2.0\"\nsession: a/b\ndate: 2026-02-30\ncreated_at: yesterday\nstatus: done\noutcome: GOOD\n\
                agent_type: gpt\ntokens_used: 9\ntokens_max: 5\ntokens_pct: 180\n";
    let read = read(text).unwrap();
    let errors = read.errors();
    let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "goal",
            "now",
            "session",
            "date",
            "created_at",
            "status",
            "outcome",
            "agent_type",
            "tokens_used",
            "tokens_pct"
        ]
    );
    assert_eq!(errors[3].value, "2026-02-30");
    assert_eq!(read.file.notes()[0].field, "version");
    let json = serde_json::to_value(&errors[5]).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"field": "status", "message": "one of complete, partial, blocked, or empty", "value": "done"})
    );
}

#[test]
fn what_may_be_empty_may() {
    let minimal = read("goal: a\nnow: b\n").unwrap();
    assert_eq!(minimal.errors(), []);
    assert_eq!(minimal.file.version, "1.0");
    assert_eq!(minimal.file.session_name(), "general");
    assert!(!read("goal: ' '\nnow: b").unwrap().file.errors().is_empty());
    for number in ["-1", "5"] {
        let text = format!("goal: a\nnow: b\ntokens_used: {number}\n");
        assert_eq!(
            read(&text).unwrap().file.errors().is_empty(),
            number == "5",
            "{number}"
        );
    }
}

#[test]
fn the_writer_sets_defaults_and_clamps() {
    let now = Time::parse("2026-11-22T18:05:48Z").unwrap();
    let mut file = HandoffFile {
        tokens_used: 900,
        tokens_max: 300,
        ..HandoffFile::default()
    };
    file.prepare(now);
    assert_eq!((file.tokens_used, file.tokens_pct), (300, 100.0));
    assert_eq!(file.date, "2026-11-22");
    let later = Time::of_seconds(now.seconds + 100_000);
    file.prepare(later);
    assert_eq!(file.created_at, "2026-11-22T18:05:48Z");
    assert_eq!(file.updated_at, later.rfc3339());
    file.set_tokens(-5, -1);
    assert_eq!((file.tokens_used, file.tokens_max, file.tokens_pct), (0, 0, 0.0));
    file.set_tokens(7, 0);
    assert_eq!((file.tokens_used, file.tokens_pct), (7, 0.0));
}

#[test]
fn a_text_fills_no_list_without_end() {
    let text: String = (0..60)
        .map(|n| format!("Done: part {n}\n[DONE] thing {n}\n"))
        .collect();
    assert_eq!(analyze(&text).done_this_session.len(), 50);
}

#[test]
fn files_are_counted_and_named_once() {
    let file = full();
    assert_eq!(file.file_count(), 3);
    assert_eq!(file.paths(), ["src/auth.rs", "src/lib.rs"]);
    assert!(!file.is_blocked());
}
