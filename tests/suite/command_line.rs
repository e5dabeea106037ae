//! Behavior that all commands share: closed pipes, list formats, usage errors.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use baton_llm::state::store::sqlite::SqliteStore;
use baton_strict::{Options, Received, Reply, Strict};
use serde_json::Value;

use crate::harness::fixture::{PROMPT, handoff, history, texts};
use crate::harness::program::{self, Program, ask, baton, config_for, refused, words};
use crate::harness::temp;
use crate::harness::texts::{assert_contains, assert_ends, assert_lacks};

fn command(dir: &Path, line: &str) -> Command {
    let mut command = baton(dir, &words(line));
    command.arg("--state-dir").arg(dir.join("state"));
    command
}

fn done(dir: &Path, line: &str) -> Output {
    command(dir, line).output().unwrap()
}

fn printed(dir: &Path, line: &str) -> String {
    program::printed(done(dir, line))
}

/// What the command complains about, after its exit code is checked.
#[track_caller]
fn complaint(dir: &Path, line: &str, code: i32) -> String {
    let done = done(dir, line);
    refused(&done, code, &[]);
    String::from_utf8(done.stderr).unwrap()
}

/// A state directory after two exchanges, the second with a handoff.
async fn used() -> tempfile::TempDir {
    let model = |seen: &Received| match texts(seen.messages()) == [format!("u: {PROMPT}")] {
        true => Reply::text("Fresh."),
        false => handoff(),
    };
    let provider = Strict::start(model, Options::default()).await.unwrap();
    let dir = temp();
    let config = config_for(&provider, dir.path(), "");
    let program = Program::start(&config, &dir.path().join("state"));
    for _ in 0..2 {
        ask(&program, &history()).await;
    }
    let complete = || printed(dir.path(), "log --jsonl").matches("complete").count();
    while complete() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    dir
}

fn rows(lines: &str) -> Vec<Value> {
    let rows = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

#[tokio::test]
async fn lists_are_one_array_or_one_object_a_line() {
    let (dir, empty) = (used().await, temp());
    for list in ["log", "handoffs list", "handoffs list --files"] {
        let array = printed(dir.path(), &format!("{list} --json"));
        let array: Value = serde_json::from_str(&array).unwrap();
        // Files are listed with their session.
        let array = array.get("handoffs").unwrap_or(&array);
        let lines = rows(&printed(dir.path(), &format!("{list} --jsonl")));
        assert_eq!(*array, Value::from(lines.clone()), "{list}");
        assert!(!lines.is_empty(), "{list}");
        complaint(dir.path(), &format!("{list} --json --jsonl"), 64);
    }
    for list in ["log", "handoffs list"] {
        assert_eq!(
            printed(empty.path(), &format!("{list} --json")).trim(),
            "[]",
            "{list}"
        );
        assert_eq!(printed(empty.path(), &format!("{list} --jsonl")), "", "{list}");
    }
}

#[tokio::test]
async fn a_reader_that_has_enough_is_no_failure() {
    let dir = used().await;
    for line in [
        "log",
        "log --json",
        "log --jsonl",
        "doctor --offline",
        "handoffs list",
        "handoffs show",
        "handoffs show --format md",
        "handoffs list --json",
    ] {
        let mut command = command(dir.path(), line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{line}: {out:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{line}");
    }
}

#[test]
fn a_usage_error_names_what_is_missing_and_nothing_that_the_environment_gives() {
    let dir = temp();
    for (line, missing) in [("show", "<EXCHANGE>"), ("handoffs resume --with codex", "<ID>")] {
        let mut command = baton(dir.path(), &words(line));
        let out = command
            .env("BATON_CONFIG", dir.path().join("baton.toml"))
            .output();
        let out = out.unwrap();
        refused(&out, 64, &[missing]);
        assert_lacks(&String::from_utf8_lossy(&out.stderr), "--config");
    }
}

#[test]
fn the_config_of_the_environment_is_used() {
    let dir = temp();
    let file = dir.path().join("other.toml");
    std::fs::write(&file, "[server]\nlisten = 7\n").unwrap();
    for (config, code) in [(file.to_str().unwrap(), 78), ("", 0)] {
        let out = baton(dir.path(), &["check"]).env("BATON_CONFIG", config).output();
        refused(&out.unwrap(), code, &[]);
    }
}

#[test]
fn a_store_that_is_a_file_is_named_as_such() {
    let dir = temp();
    let file = dir.path().join("baton.db");
    std::fs::write(&file, "x").unwrap();
    for command in ["copy --from", "copy --to", "check"] {
        let done = done(dir.path(), &format!("store {command} sqlite:{}", file.display()));
        refused(&done, 66, &["is a file", "sqlite:DIR"]);
    }
}

#[test]
fn a_store_that_is_missing_or_does_not_answer_is_an_error() {
    let dir = temp();
    let missing = format!("sqlite:{}", dir.path().join("missing").display());
    let target = dir.path().join("target");
    let to = format!("--to sqlite:{}", target.display());
    for line in [
        "check".to_owned(),
        format!("check {missing}"),
        format!("copy --from {missing} {to}"),
        format!("copy {to}"),
    ] {
        let done = done(dir.path(), &format!("store {line}"));
        refused(&done, 66, &["there is no store in"]);
    }
    // Nothing listens there.
    let nobody = "redis://127.0.0.1:1";
    complaint(dir.path(), &format!("store copy --from {nobody} {to}"), 69);
    assert!(!target.exists(), "no target is created");
    SqliteStore::open(&dir.path().join("state")).unwrap();
    let done = done(dir.path(), &format!("store copy --to {nobody}"));
    refused(&done, 69, &["the store does not answer"]);
}

#[test]
fn a_store_is_copied_to_another_one_and_the_keys_of_the_config_are_named() {
    let dir = temp();
    let state = dir.path().join("state");
    SqliteStore::open(&state).unwrap();
    for to in [String::new(), format!("--to sqlite:{}", state.display())] {
        let done = done(dir.path(), &format!("store copy {to}"));
        refused(&done, 64, &["same store", "--from or --to"]);
    }
    let target = format!("sqlite:{}", dir.path().join("target").display());
    let report = printed(dir.path(), &format!("store copy --to {target}"));
    assert_contains(&report, "set store.kind = \"sqlite\" and state.dir = \"");
    let report = printed(dir.path(), &format!("store copy --from {target}"));
    assert_lacks(&report, "store.kind");
}

#[test]
fn a_filter_is_checked_before_there_is_a_journal() {
    let dir = temp();
    let done = |filter: &str| done(dir.path(), &format!("log 'error since:{filter}'"));
    refused(
        &done("1x"),
        64,
        &["\"1x\" is not an age such as 90s", "log --help"],
    );
    refused(
        &done("1h"),
        66,
        &["there is no directory", "leave out --state-dir"],
    );
    std::fs::create_dir(dir.path().join("state")).unwrap();
    refused(&done("1h"), 0, &["nothing in the journal yet"]);
}

#[tokio::test]
async fn a_time_span_is_spelled_the_same_everywhere() {
    let dir = used().await;
    for start in ["1h", "2w", "2026-01-01"] {
        for filter in [format!("--since {start}"), format!("since:{start}")] {
            let log = printed(dir.path(), &format!("log {filter} --jsonl"));
            assert_eq!(log.lines().count(), 2, "{filter}");
        }
        printed(dir.path(), &format!("savings --since {start}"));
    }
    assert_eq!(printed(dir.path(), "log --since 2100-01-01 --jsonl"), "");
    for line in [
        "log --since 1y",
        "savings --since 1y",
        "try --since 1y",
        "handoffs delete --older-than 1y",
    ] {
        let help = "write an age such as 90s, 30m, 12h, 7d or 8w, or a date";
        refused(&done(dir.path(), line), 64, &[help]);
    }
}

#[test]
fn an_unknown_option_is_named_with_a_guess_and_without_a_wrong_tip() {
    let dir = temp();
    let texts = ["there is no option --shadw", "did you mean `--shadow`?"];
    refused(&done(dir.path(), "run --shadw claude"), 64, &texts);
    let said = complaint(dir.path(), "savings --last 7d", 64);
    assert_contains(&said, "'--last'");
    assert_lacks(&said, "-- --last");
}

#[tokio::test]
async fn an_unknown_agent_that_is_not_installed_is_not_found() {
    let dir = used().await;
    let listed = rows(&printed(dir.path(), "handoffs list --jsonl"));
    let resume = format!(
        "handoffs resume {} --with nosuch",
        listed[0]["id"].as_str().unwrap()
    );
    let out = command(dir.path(), &resume).env("PATH", "/nowhere").output();
    refused(&out.unwrap(), 127, &[]);
}

#[test]
fn a_file_that_is_not_a_price_table_is_named_with_what_it_lacks() {
    let dir = temp();
    let file = dir.path().join("prices.toml");
    std::fs::write(&file, "date = \"2026-01-01\"\n").unwrap();
    let said = complaint(dir.path(), &format!("savings --prices {}", file.display()), 78);
    assert_contains(&said, "not a price table: missing field `source`");
    assert_lacks(&said, "TOML parse error");
}

#[test]
fn a_list_that_is_followed_says_that_it_waits_for_a_journal() {
    let dir = temp();
    let mut command = command(dir.path(), "log --follow --conversation c0ffee");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut complaints = BufReader::new(child.stderr.take().unwrap());
    complaints.read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ends(line.trim_end(), "; waiting for the first exchange");
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let dir = temp();
    for (line, code, said) in [
        ("show 0199", 66, "help: run an agent first: `baton run AGENT`"),
        ("savings", 0, "no answered exchanges in "),
        ("savings", 0, "help: run an agent first"),
        ("log --limit x", 64, "not a number"),
        ("show 0199 --leg 0", 64, "legs count from 1"),
        (
            "export 3f --format pdf",
            64,
            "possible values: md, json, jsonl, har",
        ),
    ] {
        refused(&done(dir.path(), line), code, &[said]);
    }
    let mut check = baton(dir.path(), &["check", "--config"]);
    let out = check.arg(dir.path().join("missing.toml")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert_contains(&said, "cannot be read: No such file or directory\n");
}

#[test]
fn the_built_in_config_can_be_printed_and_is_valid() {
    let dir = temp();
    let defaults = baton(dir.path(), &["check", "--defaults"]).output().unwrap();
    let file = dir.path().join("printed.toml");
    std::fs::write(&file, program::printed(defaults)).unwrap();
    let out = baton(dir.path(), &["check", "--config"]).arg(&file).output();
    program::printed(out.unwrap());
}

/// Opening a FIFO waits for its other end.
#[test]
fn a_fifo_in_a_state_directory_holds_nobody() {
    for name in "baton.db journal.db seal.key serving.lock serving.json".split(' ') {
        let dir = temp();
        let state = dir.path().join("state");
        std::fs::create_dir(&state).unwrap();
        program::fifo(&state.join(name));
        for line in ["doctor", "seal-key", "log"] {
            // Some fail, and all of them end.
            done(dir.path(), line);
        }
    }
}

#[tokio::test]
async fn a_list_without_rows_has_no_heading() {
    let dir = used().await;
    let out = done(dir.path(), "log model:another");
    refused(&out, 0, &["no exchange matches"]);
    assert!(out.stdout.is_empty(), "{out:?}");
}

#[tokio::test]
async fn the_key_that_log_shows_is_accepted_by_the_commands_that_take_one() {
    let dir = used().await;
    let log = printed(dir.path(), "log");
    let mut lines = log
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let column = lines.next().unwrap().iter().position(|name| *name == "KEY");
    // The time consists of two words.
    let key = lines.next().unwrap()[column.unwrap() + 1];
    printed(dir.path(), &format!("export {key}"));
    printed(dir.path(), &format!("savings --conversation {key}"));
    assert_eq!(printed(dir.path(), &format!("log conversation:{key}")), log);
    let followed = printed(dir.path(), &format!("log --jsonl --limit 0 --conversation {key}"));
    assert_contains(&followed, &format!("\"conversation\":\"{key}"));
}

#[tokio::test]
async fn a_handoff_file_of_a_proxied_conversation_has_the_tokens_of_its_last_answer() {
    let dir = used().await;
    let row = &rows(&printed(dir.path(), "log --jsonl"))[0];
    let last = row["tokens"].as_array().unwrap().last().unwrap();
    let kinds = ["input", "cache_read", "cache_write", "output"];
    let tokens: u64 = kinds.iter().filter_map(|kind| last[*kind].as_u64()).sum();
    let key = row["conversation"].as_str().unwrap();
    let create = format!("handoffs create --conversation {key} --goal x --now y --auto --alone -o -");
    let file = printed(dir.path(), &create);
    assert!(tokens > 0);
    assert_contains(&file, &format!("\ntokens_used: {tokens}\n"));
}
