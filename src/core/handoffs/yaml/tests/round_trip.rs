use proptest::prelude::*;

use super::super::model::{Dimension, FileChanges, QualityReport, ReservationSnapshot, ReservationTransfer};
use super::super::value::YamlValue;
use super::super::{CompletedTask, HandoffFile, goal_and_now, read};
use super::full;

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

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..4)
}

fn map() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    prop::collection::btree_map(prop_oneof![9 => text(), 1 => "[a-z: ]{600}"], text(), 0..4)
}

fn time() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("2026-11-22T18:05:48Z".to_owned()),
        Just("2026-01-06T12:34:56.789123456-05:00".to_owned()),
        text(),
    ]
    .prop_filter("a time that was never set reads as none", |text| {
        !text.starts_with("0001-01-01")
    })
}

fn value() -> impl Strategy<Value = YamlValue> {
    let leaf = prop_oneof![
        Just(YamlValue::Null),
        text().prop_map(YamlValue::Text),
        prop::sample::select(vec!["1", "-2.5", "true", "2026-01-06", "0x1f", "yes", "1:30"])
            .prop_map(|text| YamlValue::Plain(text.to_owned())),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(YamlValue::List),
            prop::collection::btree_map(text(), inner, 0..3)
                .prop_map(|map| YamlValue::Map(map.into_iter().collect())),
        ]
    })
}

/// Keys that the format does not define.
fn extra() -> impl Strategy<Value = Vec<(String, YamlValue)>> {
    prop::collection::btree_map("x_[a-z ]{0,8}", value(), 0..3).prop_map(|map| map.into_iter().collect())
}

fn task() -> impl Strategy<Value = CompletedTask> {
    (text(), texts(), extra()).prop_map(|(task, files, extra)| CompletedTask { task, files, extra })
}

fn changes() -> impl Strategy<Value = FileChanges> {
    (texts(), texts(), texts(), extra()).prop_map(|(created, modified, deleted, extra)| FileChanges {
        created,
        modified,
        deleted,
        extra,
    })
}

fn report() -> impl Strategy<Value = QualityReport> {
    let dimension =
        (text(), any::<i64>(), texts(), texts(), extra()).prop_map(|(name, score, reasons, hints, extra)| {
            Dimension {
                name,
                score,
                reasons,
                hints,
                extra,
            }
        });
    (
        any::<i64>(),
        text(),
        time(),
        prop::collection::vec(dimension, 0..3),
        texts(),
        texts(),
        extra(),
    )
        .prop_map(
            |(score, status, scored_at, dimensions, reasons, hints, extra)| QualityReport {
                score,
                status,
                scored_at,
                dimensions,
                reasons,
                hints,
                extra,
            },
        )
}

fn transfer() -> impl Strategy<Value = ReservationTransfer> {
    let one = (text(), any::<bool>(), text(), time(), extra()).prop_map(
        |(path_pattern, exclusive, reason, expires_at, extra)| ReservationSnapshot {
            path_pattern,
            exclusive,
            reason,
            expires_at,
            extra,
        },
    );
    (
        text(),
        text(),
        any::<i64>(),
        any::<i64>(),
        time(),
        prop::collection::vec(one, 0..3),
        extra(),
    )
        .prop_map(
            |(
                from_agent,
                project_key,
                ttl_seconds,
                grace_period_seconds,
                created_at,
                reservations,
                extra,
            )| {
                ReservationTransfer {
                    from_agent,
                    project_key,
                    ttl_seconds,
                    grace_period_seconds,
                    created_at,
                    reservations,
                    extra,
                }
            },
        )
}

fn file() -> impl Strategy<Value = HandoffFile> {
    let head = (
        "[1-9]\\.[0-9]",
        text(),
        text(),
        (time(), time()),
        (text(), text()),
        (text(), text(), text()),
    );
    let lists = (
        prop::collection::vec(task(), 0..3),
        (texts(), texts(), texts(), texts(), texts()),
        (map(), map()),
        changes(),
        (texts(), texts(), texts()),
    );
    let rest = (
        (text(), text(), text()),
        (any::<i64>(), any::<i64>(), -1.0e6_f64..1.0e6),
        prop::option::of(report()),
        prop::option::of(transfer()),
        extra(),
    );
    (head, lists, rest).prop_map(|(head, lists, rest)| {
        let (version, session, date, (created_at, updated_at), (status, outcome), (goal, now, test)) = head;
        let (done_this_session, five, (decisions, findings), files, three) = lists;
        let (blockers, questions, worked, failed, next) = five;
        let (active_beads, agent_mail_threads, cm_memories) = three;
        let ((agent_id, agent_type, pane_id), tokens, quality, reservation_transfer, extra) = rest;
        HandoffFile {
            version,
            session,
            date,
            created_at,
            updated_at,
            status,
            outcome,
            goal,
            now,
            test,
            done_this_session,
            blockers,
            questions,
            decisions,
            findings,
            worked,
            failed,
            next,
            files,
            active_beads,
            agent_mail_threads,
            cm_memories,
            agent_id,
            agent_type,
            pane_id,
            tokens_used: tokens.0,
            tokens_max: tokens.1,
            tokens_pct: tokens.2,
            quality,
            reservation_transfer,
            extra,
        }
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
    assert!(
        text.contains("\ngoal: 'Login works: \"remember me\" too'\n"),
        "{text}"
    );
    assert!(text.contains("\ncreated_at: 2026-11-22T18:05:48Z\n"), "{text}");
    assert!(
        text.contains("\nversion: \"1.0\"\n") || text.starts_with("version: \"1.0\"\n"),
        "{text}"
    );
    assert!(
        text.contains("\ndecisions:\n  a: b\n  cookie: signed, since no store is there\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "\ndone_this_session:\n  - task: the form\n    files:\n      - src/auth.rs\n  - task: the session"
        ),
        "{text}"
    );
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
