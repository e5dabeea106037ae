use pretty_assertions::assert_eq;

use super::super::value::YamlValue;
use super::super::{CompletedTask, read, value_of};
use crate::text::testing::assert_contains;

/// A file in the layout of Go's yaml.v3.
///
/// The layout has indents of four spaces, times with a fraction and a zone, quotes only if needed, and blocks for multi-line
/// strings.
const NTM: &str = r#"version: "1.0"
session: api
date: "2026-01-06"
created_at: 2026-01-06T12:34:56.789123456-05:00
updated_at: 2026-01-06T17:40:00Z
status: complete
outcome: SUCCEEDED
goal: 'Implemented the "fast" path: it is 2x'
now: |-
    Run the tests
    then ship
test: go test ./...
done_this_session:
    - task: Added <system-reminder> tags
      files:
        - internal/a.go
        - internal/b.go
    - task: "yes"
blockers:
    - 'it''s "blocked"'
decisions:
    2026: "a year"
    storage: sqlite
findings:
    folded: >-
        one line
        that goes on
files:
    created:
        - a.go
    modified: []
agent_type: cod
tokens_used: 1200
tokens_max: 4000
tokens_pct: 30
ntm_future_key:
    nested: [1, two, {three: 3}]
quality:
    score: 85
    status: high
    dimensions:
        - name: coverage
          score: 90
          reasons: []
"#;

#[test]
fn a_file_of_gos_yaml_is_read() {
    let read = read(NTM).unwrap();
    assert_eq!(read.errors(), []);
    let file = read.file;
    assert_eq!(file.goal, "Implemented the \"fast\" path: it is 2x");
    assert_eq!(file.now, "Run the tests\nthen ship");
    assert_eq!(file.created_at, "2026-01-06T12:34:56.789123456-05:00");
    assert_eq!(file.done_this_session[0].task, "Added <system-reminder> tags");
    assert_eq!(
        file.done_this_session[0].files,
        ["internal/a.go", "internal/b.go"]
    );
    assert_eq!(file.done_this_session[1], CompletedTask::new("yes"));
    assert_eq!(file.blockers, ["it's \"blocked\""]);
    assert_eq!(file.decisions["2026"], "a year");
    assert_eq!(file.findings["folded"], "one line that goes on");
    assert_eq!(file.files.created, ["a.go"]);
    assert_eq!(
        (file.tokens_used, file.tokens_max, file.tokens_pct),
        (1200, 4000, 30.0)
    );
    assert_eq!(file.quality.as_ref().unwrap().dimensions[0].score, 90);
    assert_eq!(file.extra[0].0, "ntm_future_key");
}

#[test]
fn unknown_keys_are_written_again() {
    let file = read(NTM).unwrap().file;
    let again = read(&file.to_yaml()).unwrap().file;
    assert_eq!(again, file);
    let YamlValue::Map(nested) = &again.extra[0].1 else {
        panic!("{:?}", again.extra)
    };
    assert_eq!(nested[0].1.to_json().to_string(), "[1,\"two\",{\"three\":3}]");
}

#[test]
fn a_time_that_was_never_set_is_none() {
    let file = read("goal: a\ncreated_at: 0001-01-01T00:00:00Z\n").unwrap().file;
    assert_eq!(file.created_at, "");
    assert!(file.to_yaml().contains("created_at: 0001-01-01T00:00:00Z\n"));
}

#[test]
fn anchors_tags_flow_and_windows_line_ends_are_read() {
    let text = "\u{feff}---\r\ngoal: &g !!str 12\r\nnow: *g\r\nnext: [\"a\", 'b', c d]\r\nfiles: {created: [x]}\r\n...\r\n";
    let file = read(text).unwrap().file;
    assert_eq!((file.goal.as_str(), file.now.as_str()), ("12", "12"));
    assert_eq!(file.next, ["a", "b", "c d"]);
    assert_eq!(file.files.created, ["x"]);
}

#[test]
fn members_of_the_wrong_type_are_reported_and_the_rest_is_read() {
    let text = "goal: [a]\nnow: go on\nblockers: one\ntokens_used: many\nfiles: 3\ndecisions:\n  a: {b: c}\n\
                done_this_session:\n  - a text\n  - files: [x]\nquality:\n";
    let read = read(text).unwrap();
    let fields: Vec<_> = read.errors().iter().map(|error| error.field.clone()).collect();
    assert_eq!(fields, ["goal", "blockers", "tokens_used", "files", "decisions"]);
    assert_eq!(read.file.now, "go on");
    assert_eq!(read.file.blockers, ["one"]);
    assert_eq!(read.file.done_this_session[0].task, "a text");
    assert_eq!(read.file.done_this_session[1].files, ["x"]);
    assert_eq!(read.file.decisions["a"], "{\"b\":\"c\"}");
}

#[test]
fn broken_files_are_refused_with_their_line() {
    for (text, line) in [
        ("goal: \"open\nnow: x", None),
        ("goal: a\n\tnow: b\n", Some(1)),
        ("goal: a\ngoal: b\n", Some(2)),
        ("- a\n- b\n", Some(0)),
        ("just a text", Some(0)),
        ("", Some(0)),
        ("# nothing\n", Some(0)),
        ("goal: *nobody\n", None),
        ("goal: a: b\n", Some(1)),
        ("? [a]\n: b\n", Some(1)),
    ] {
        let error = read(text).expect_err(text);
        if let Some(line) = line {
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
    }
}

#[test]
fn nothing_grows_out_of_bounds() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let before = level - 1;
        let list = vec![format!("*a{before}"); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    assert!(read(&bomb).unwrap_err().message.contains("values"));
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(500_000),
        vec!["*a"; 50_000].join(", ")
    );
    assert!(read(&long).unwrap_err().message.contains("values"));
    assert!(read(&"[".repeat(100_000)).is_err());
    assert!(read(&"- ".repeat(100_000)).is_err());
    assert_contains(
        &read(&format!("goal: {}", "x".repeat(2 << 20)))
            .unwrap_err()
            .message,
        "bytes",
    );
}

/// A file of PyYAML with `default_style='|'`.
///
/// The layout has a block for every string, quotes if a block cannot hold it, and tags on numbers.
const BLOCKS: &str = r#""version": |-
  1.0
"goal": |-
  a: b
  c
"now": |-
  x
"next":
- |-
  plain
- |2-
   blank
- "blank "
- |2-

  begins
- |
  ends
- "tab\tbed"
- |-
  ---
- ""
- |-
  #a
"findings":
  "key one": |-
    v
  ? "long long long long long long long long long long long long long long long long\
    \ long long long long long long long long long long long long long long long long\
    \ long long long long long long long long "
  : |-
    x
  ? |-
    two
    lines
  : |-
    y
  ? ""
  : |-
    e
  " b": |-
    z
"tokens_used": !!int |-
  1
"tokens_max": !!int |-
  3
"tokens_pct": !!float |-
  33.3
"files":
  "created":
  - |-
    a
"flag": !!bool |-
  true
"none": !!null |-
  null
"#;

#[test]
fn a_file_of_blocks_is_read() {
    let read = read(BLOCKS).unwrap();
    assert_eq!(read.errors(), []);
    let file = read.file;
    assert_eq!(
        (file.version.as_str(), file.goal.as_str(), file.now.as_str()),
        ("1.0", "a: b\nc", "x")
    );
    assert_eq!(
        file.next,
        [
            "plain", " blank", "blank ", "\nbegins", "ends\n", "tab\tbed", "---", "", "#a"
        ]
    );
    let findings: Vec<_> = file
        .findings
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let long = "long ".repeat(40);
    assert_eq!(
        findings,
        [
            ("", "e"),
            (" b", "z"),
            ("key one", "v"),
            (&long, "x"),
            ("two\nlines", "y")
        ]
    );
    assert_eq!((file.tokens_used, file.tokens_max, file.tokens_pct), (1, 3, 33.3));
    assert_eq!(file.files.created, ["a"]);
    let extra = [
        ("flag", YamlValue::Plain("true".to_owned())),
        ("none", YamlValue::Null),
    ];
    assert_eq!(file.extra, extra.map(|(key, value)| (key.to_owned(), value)));
    // The two keys are read without the rest.
    assert_eq!(
        (
            value_of(BLOCKS, "goal").as_str(),
            value_of(BLOCKS, "now").as_str()
        ),
        ("a: b\nc", "x")
    );
}

/// YAML 1.1 has three more line breaks, and its writers put them into blocks. YAML 1.2 forbids that, but it is read.
#[test]
fn line_breaks_of_yaml_1_1_stop_nothing() {
    for c in ['\u{85}', '\u{2028}', '\u{2029}'] {
        let text = format!("goal: |-\n  x\nnow: y\nnext:\n- |2+\n{c}\n- |-\n  a\n");
        let file = read(&text).unwrap_or_else(|error| panic!("{c:?}: {error}")).file;
        assert_eq!(
            (file.goal.as_str(), file.now.as_str(), file.next[1].as_str()),
            ("x", "y", "a")
        );
    }
}
