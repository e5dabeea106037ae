use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{HandoffFile, goal_and_now, read};
use super::full;
use crate::text::testing::assert_contains;

/// Strings that are hard to write: other types in disguise, quotes, line ends, marks, every plane of Unicode.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-zA-Z ,./-]{0,30}",
        2 => any::<String>(),
        1 => "\\PC{0,20}",
        3 => prop::sample::select(vec![
            "", "~", "null", "Null", "true", "Yes", "off", "y", "=", "<<", "1.0", "-1", "+1", "0x1F", "1_000", "1:30",
            "1e3", ".5", ".inf", "-.Inf", ".nan", "2026-01-06", "2026-01-06T12:00:00Z", "- a", "? a", "a: b", "a:",
            "a #b", "#a", ": a", "---", "...", "%YAML", "@a", "`a", "[a]", "{a: b}", "*a", "&a", "!a", "!!str a", "|", ">",
            "'a'", "\"a\"", "it's", "a\nb", "a\n", "\na", " a", "a ", "\ta", "a\r\nb", "\u{85}", "\u{2028}", "\u{feff}a",
            "<system-reminder>\nx\n</system-reminder>", "\\", "\\n", "a\\", "\0", "\u{7f}", "\u{9b}", "🦀", "\u{10ffff}",
            "\u{fffe}", "a,b", "-", "?", ":", "(a)", "/a/b", "_a", "a'\"b\\",
        ]).prop_map(str::to_owned),
    ]
}

fn time() -> impl Strategy<Value = String> {
    let times = ["", "2026-11-22T18:05:48Z", "2026-01-06T12:34:56.789123456-05:00"];
    let text = text().prop_filter("a time that was never set reads as none", |text| {
        !text.starts_with("0001-01-01")
    });
    prop_oneof![prop::sample::select(times.to_vec()).prop_map(str::to_owned), text]
}

/// Values of keys that the format does not define.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let map = prop::collection::btree_map(text(), inner.clone(), 0..3);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            map.prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Values of the shape of a sample. Its strings say of which kind, and the only key `*` stands for any keys.
fn like(sample: &Value) -> BoxedStrategy<Value> {
    match sample {
        Value::String(kind) if kind == "time" => time().prop_map(Value::from).boxed(),
        Value::String(kind) if kind == "any" => value().boxed(),
        Value::String(_) => text().prop_map(Value::from).boxed(),
        Value::Number(_) => any::<i64>().prop_map(Value::from).boxed(),
        Value::Array(one) => prop::collection::vec(like(&one[0]), 0..4)
            .prop_map(Value::from)
            .boxed(),
        Value::Object(members) => match members.get("*") {
            Some(one) => {
                prop::collection::btree_map(prop_oneof![9 => text(), 1 => "[a-z: ]{600}"], like(one), 0..4)
                    .prop_map(|map| map.into_iter().collect())
                    .boxed()
            }
            None => {
                let (keys, values): (Vec<_>, Vec<_>) =
                    members.clone().into_iter().map(|(k, v)| (k, like(&v))).unzip();
                let more = prop::collection::btree_map("x_[a-z ]{0,8}", value(), 0..3);
                let all = (values, more)
                    .prop_map(move |(values, more)| keys.iter().cloned().zip(values).chain(more).collect());
                all.boxed()
            }
        },
        Value::Bool(_) => any::<bool>().prop_map(Value::from).boxed(),
        Value::Null => unreachable!("no sample"),
    }
}

/// A file with members of every kind, read from JSON, which is YAML.
fn file() -> impl Strategy<Value = HandoffFile> {
    let paths = json!({"created": ["text"], "modified": ["text"], "deleted": ["text"]});
    let dimension = json!({"name": "text", "score": 1, "reasons": ["text"], "hints": ["text"]});
    let quality = json!({"score": 1, "status": "text", "scored_at": "time", "dimensions": [dimension], "reasons": ["text"]});
    let reserved = json!({"path_pattern": "text", "exclusive": true, "reason": "text", "expires_at": "time"});
    let transfer = json!({"from_agent": "text", "project_key": "text", "ttl_seconds": 1, "created_at": "time", "reservations": [reserved]});
    let sample = json!({
        "session": "text", "date": "text", "created_at": "time", "updated_at": "time", "status": "text", "goal": "text", "now": "text",
        "done_this_session": [{"task": "text", "files": ["text"]}], "blockers": ["text"], "decisions": {"*": "text"},
        "findings": {"*": "text"}, "next": ["text"], "files": paths, "agent_id": "text", "tokens_used": 1, "quality": quality,
        "reservation_transfer": transfer,
    });
    like(&sample).prop_map(|json| {
        let found = read(&json.to_string()).unwrap_or_else(|error| panic!("{error}\n{json}"));
        assert_eq!(found.mistyped, [], "{json}");
        assert_eq!(found.file.goal, json["goal"]);
        assert_eq!(
            found.file.blockers,
            serde_json::from_value::<Vec<String>>(json["blockers"].clone()).unwrap()
        );
        found.file
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(file in file()) {
        let text = file.to_yaml();
        let read = read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(&read.mistyped, &vec![], "{}", text);
        prop_assert_eq!(&read.file, &file, "{}", text);
        // YAML allows every character of the document.
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn a_broken_file_is_read_with_all_that_is_wrong_or_refused(
        file in file(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6, "[-a-z0-9:{}\\[\\]\"'|>&*!#%@` \n\t\\\\]{0,4}"), 1..8),
    ) {
        let mut text: Vec<char> = file.to_yaml().chars().collect();
        for (at, gone, new) in cuts {
            let at = at.index(text.len() + 1);
            let end = (at + gone).min(text.len());
            text.splice(at..end, new.chars());
        }
        let text: String = text.into_iter().collect();
        let _ = goal_and_now(&text);
        match read(&text) {
            Ok(found) => {
                // Every wrong field is reported, and the result is written as a file that can be read again.
                prop_assert!(found.errors().iter().all(|error| !error.message.is_empty()));
                let again = read(&found.file.to_yaml());
                prop_assert!(again.is_ok(), "{:?}: {}", again, found.file.to_yaml());
                prop_assert_eq!(again.unwrap().file, found.file);
            }
            Err(error) => prop_assert!(!error.message.is_empty()),
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = read(&text);
        let _ = super::super::goal_and_now(&text);
    }
}

#[test]
fn the_members_stand_in_the_order_of_the_format() {
    let text = full().to_yaml();
    let keys: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(
        keys,
        [
            "version",
            "session",
            "date",
            "created_at",
            "updated_at",
            "status",
            "outcome",
            "goal",
            "now",
            "test",
            "done_this_session",
            "blockers",
            "questions",
            "decisions",
            "findings",
            "worked",
            "failed",
            "next",
            "files",
            "active_beads",
            "agent_mail_threads",
            "cm_memories",
            "agent_id",
            "agent_type",
            "pane_id",
            "tokens_used",
            "tokens_max",
            "tokens_pct",
        ]
    );
    assert_contains(&text, "\ngoal: 'Login works: \"remember me\" too'\n");
    assert!(text.contains("\ncreated_at: 2026-11-22T18:05:48Z\n"), "{text}");
    assert!(
        text.contains("\nversion: \"1.0\"\n") || text.starts_with("version: \"1.0\"\n"),
        "{text}"
    );
    let part = "\ndecisions:\n  a: b\n  cookie: signed, since no store is there\n";
    assert_contains(&text, part);
    let part =
        "\ndone_this_session:\n  - task: the form\n    files:\n      - src/auth.rs\n  - task: the session";
    assert_contains(&text, part);
}

#[test]
fn what_is_always_written_is_there_in_an_empty_file() {
    let text = HandoffFile::default().to_yaml();
    let keys: Vec<_> = text.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(
        keys,
        [
            "version",
            "session",
            "date",
            "created_at",
            "updated_at",
            "status",
            "outcome",
            "goal",
            "now",
            "test"
        ]
    );
}

#[test]
fn json_has_the_same_members_with_numbers_as_numbers() {
    let json = full().to_value().to_json();
    assert_eq!(json["tokens_used"], 150_000);
    assert_eq!(json["tokens_pct"], 75);
    assert_eq!(json["version"], "1.0");
    assert_eq!(json["created_at"], "2026-11-22T18:05:48Z");
    assert_eq!(json["done_this_session"][0]["files"][0], "src/auth.rs");
}

#[test]
fn a_key_that_escapes_make_long_is_read_again() {
    let key = "\u{4}".repeat(300);
    let file = read(&format!("findings:\n  ? \"{}\"\n  : a\n", "\\x04".repeat(300)))
        .unwrap()
        .file;
    assert_eq!(file.findings, [(key, "a".to_owned())].into());
    assert_eq!(read(&file.to_yaml()).unwrap().file, file);
}
