//! Behavior that all commands share: closed pipes, list formats, usage errors.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

use baton_llm::state::store::sqlite::SqliteStore;
use baton_strict::{Options, Received, Reply, Strict};
use serde_json::Value;

use crate::harness::fixture::{PROMPT, handoff, history, texts};
use crate::harness::program::{Program, ask, baton, config_for};
use crate::harness::temp;

fn done(dir: &Path, words: &[&str]) -> Output {
    baton(dir, words)
        .arg("--state-dir")
        .arg(dir.join("state"))
        .output()
        .unwrap()
}

fn printed(dir: &Path, words: &[&str]) -> String {
    let out = done(dir, words);
    assert!(out.status.success(), "{words:?}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// Exit code and standard error.
fn failed(dir: &Path, words: &[&str]) -> (Option<i32>, String) {
    let out = done(dir, words);
    (
        out.status.code(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
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
    while printed(dir.path(), &["log", "--jsonl"])
        .matches("complete")
        .count()
        < 2
    {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    dir
}

#[tokio::test]
async fn lists_are_one_array_or_one_object_a_line() {
    let dir = used().await;
    for list in [
        &["log"][..],
        &["handoffs", "list"],
        &["handoffs", "list", "--files"],
    ] {
        let array = printed(dir.path(), &[list, &["--json"]].concat());
        let array: Value = serde_json::from_str(&array).unwrap();
        // Files are listed with their session.
        let array = array
            .get("handoffs")
            .unwrap_or(&array)
            .as_array()
            .unwrap()
            .clone();
        let lines = printed(dir.path(), &[list, &["--jsonl"]].concat());
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(array, lines, "{list:?}");
        assert!(!lines.is_empty(), "{list:?}");
        let both = done(dir.path(), &[list, &["--json", "--jsonl"]].concat());
        assert_eq!(both.status.code(), Some(64), "{list:?}");
    }
    let empty = temp();
    for list in [&["log"][..], &["handoffs", "list"]] {
        assert_eq!(
            printed(empty.path(), &[list, &["--json"]].concat()).trim(),
            "[]",
            "{list:?}"
        );
        assert_eq!(
            printed(empty.path(), &[list, &["--jsonl"]].concat()),
            "",
            "{list:?}"
        );
    }
}

#[tokio::test]
async fn a_reader_that_has_enough_is_no_failure() {
    let dir = used().await;
    for words in [
        &["log"][..],
        &["log", "--json"],
        &["log", "--jsonl"],
        &["doctor", "--offline"],
        &["handoffs", "list"],
        &["handoffs", "show"],
        &["handoffs", "show", "--format", "md"],
        &["handoffs", "list", "--json"],
    ] {
        let mut command = baton(dir.path(), words);
        command.arg("--state-dir").arg(dir.path().join("state"));
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{words:?}: {out:?}");
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{words:?}");
    }
}

#[test]
fn a_usage_error_names_what_is_missing_and_nothing_that_the_environment_gives() {
    let dir = temp();
    for (words, missing) in [
        (&["show"][..], "<EXCHANGE>"),
        (&["handoffs", "resume", "--with", "codex"], "<ID>"),
    ] {
        let mut command = baton(dir.path(), words);
        let out = command
            .env("BATON_CONFIG", dir.path().join("baton.toml"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(64), "{said}");
        assert!(said.contains(missing) && !said.contains("--config"), "{said}");
    }
}

#[test]
fn the_config_of_the_environment_is_used() {
    let dir = temp();
    let file = dir.path().join("other.toml");
    std::fs::write(&file, "[server]\nlisten = 7\n").unwrap();
    let out = baton(dir.path(), &["check"])
        .env("BATON_CONFIG", &file)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(78), "{out:?}");
    let out = baton(dir.path(), &["check"])
        .env("BATON_CONFIG", "")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{out:?}");
}

#[test]
fn a_store_that_is_a_file_is_named_as_such() {
    let dir = temp();
    let file = dir.path().join("baton.db");
    std::fs::write(&file, "x").unwrap();
    let url = format!("sqlite:{}", file.display());
    for words in [
        &["store", "copy", "--from", &url][..],
        &["store", "copy", "--to", &url],
        &["store", "check", &url],
    ] {
        let (code, said) = failed(dir.path(), words);
        assert_eq!(code, Some(66), "{words:?}: {said}");
        assert!(
            said.contains("is a file") && said.contains("sqlite:DIR"),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn a_store_that_is_missing_or_does_not_answer_is_an_error() {
    let dir = temp();
    let missing = format!("sqlite:{}", dir.path().join("missing").display());
    let target = dir.path().join("target");
    let to = format!("sqlite:{}", target.display());
    let complaint = |words: &[&str], expected| {
        let (code, complaint) = failed(dir.path(), words);
        assert_eq!(code, Some(expected), "{words:?}: {complaint}");
        complaint
    };
    for words in [
        &["store", "check"][..],
        &["store", "check", &missing],
        &["store", "copy", "--from", &missing, "--to", &to],
        &["store", "copy", "--to", &to],
    ] {
        let complaint = complaint(words, 66);
        assert!(
            complaint.contains("there is no store in"),
            "{words:?}: {complaint}"
        );
    }
    // Nothing listens there.
    let nobody = "redis://127.0.0.1:1";
    complaint(&["store", "copy", "--from", nobody, "--to", &to], 69);
    assert!(!target.exists(), "no target is created");
    SqliteStore::open(&dir.path().join("state")).unwrap();
    let complaint = complaint(&["store", "copy", "--to", nobody], 69);
    assert!(complaint.contains("the store does not answer"), "{complaint}");
}

#[test]
fn a_store_is_copied_to_another_one_and_the_keys_of_the_config_are_named() {
    let dir = temp();
    let state = dir.path().join("state");
    let own = format!("sqlite:{}", state.display());
    SqliteStore::open(&state).unwrap();
    for words in [&["store", "copy"][..], &["store", "copy", "--to", &own]] {
        let (code, complaint) = failed(dir.path(), words);
        assert_eq!(code, Some(64), "{words:?}: {complaint}");
        assert!(
            complaint.contains("same store") && complaint.contains("--from or --to"),
            "{complaint}"
        );
    }
    let target = format!("sqlite:{}", dir.path().join("target").display());
    let report = printed(dir.path(), &["store", "copy", "--to", &target]);
    assert!(
        report.contains("set store.kind = \"sqlite\" and state.dir = \""),
        "{report}"
    );
    let report = printed(dir.path(), &["store", "copy", "--from", &target]);
    assert!(!report.contains("store.kind"), "{report}");
}

#[test]
fn a_filter_is_checked_before_there_is_a_journal() {
    let dir = temp();
    let (code, said) = failed(dir.path(), &["log", "error since:1x"]);
    assert_eq!(code, Some(64), "{said}");
    assert!(
        said.contains("\"1x\" is not an age such as 90s") && said.contains("log --help"),
        "{said}"
    );
    let (code, said) = failed(dir.path(), &["log", "error since:1h"]);
    assert!(
        code == Some(0) && said.contains("nothing in the journal yet"),
        "{said}"
    );
}

#[tokio::test]
async fn a_time_span_is_spelled_the_same_everywhere() {
    let dir = used().await;
    for start in ["1h", "2w", "2026-01-01"] {
        assert_eq!(
            printed(dir.path(), &["log", "--since", start, "--jsonl"])
                .lines()
                .count(),
            2
        );
        let words = ["log", &format!("since:{start}"), "--jsonl"];
        assert_eq!(printed(dir.path(), &words).lines().count(), 2, "{start}");
        printed(dir.path(), &["savings", "--since", start]);
    }
    assert_eq!(
        printed(dir.path(), &["log", "--since", "2100-01-01", "--jsonl"]),
        ""
    );
    for words in [
        &["log", "--since", "1y"][..],
        &["savings", "--since", "1y"],
        &["try", "--since", "1y"],
        &["handoffs", "delete", "--older-than", "1y"],
    ] {
        let (code, said) = failed(dir.path(), words);
        assert_eq!(code, Some(64), "{said}");
        assert!(
            said.contains("write an age such as 90s, 30m, 12h, 7d or 8w, or a date"),
            "{said}"
        );
    }
}

#[test]
fn an_unknown_option_is_named_with_a_guess_and_without_a_wrong_tip() {
    let dir = temp();
    let (code, said) = failed(dir.path(), &["run", "--shadw", "claude"]);
    assert_eq!(code, Some(64), "{said}");
    assert!(
        said.contains("there is no option --shadw") && said.contains("did you mean `--shadow`?"),
        "{said}"
    );
    let (code, said) = failed(dir.path(), &["savings", "--last", "7d"]);
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("'--last'") && !said.contains("-- --last"), "{said}");
}

#[tokio::test]
async fn an_unknown_agent_that_is_not_installed_is_not_found() {
    let dir = used().await;
    let ids = printed(dir.path(), &["handoffs", "list", "--jsonl"]);
    let id = serde_json::from_str::<Value>(&ids).unwrap()["id"].clone();
    let mut command = baton(
        dir.path(),
        &["handoffs", "resume", id.as_str().unwrap(), "--with", "nosuch"],
    );
    let out = command
        .env("PATH", "/nowhere")
        .arg("--state-dir")
        .arg(dir.path().join("state"))
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(127), "{out:?}");
}

#[test]
fn a_file_that_is_not_a_price_table_is_named_with_what_it_lacks() {
    let dir = temp();
    let file = dir.path().join("prices.toml");
    std::fs::write(&file, "date = \"2026-01-01\"\n").unwrap();
    let (code, said) = failed(dir.path(), &["savings", "--prices", file.to_str().unwrap()]);
    assert_eq!(code, Some(78), "{said}");
    assert!(
        said.contains("not a price table: missing field `source`"),
        "{said}"
    );
    assert!(!said.contains("TOML parse error"), "{said}");
}

#[test]
fn a_list_that_is_followed_says_that_it_waits_for_a_journal() {
    let dir = temp();
    let mut child = baton(dir.path(), &["log", "--follow", "--conversation", "c0ffee"])
        .arg("--state-dir")
        .arg(dir.path().join("state"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        line.trim_end().ends_with("; waiting for the first exchange"),
        "{line}"
    );
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let dir = temp();
    let (code, said) = failed(dir.path(), &["show", "0199"]);
    assert_eq!(code, Some(66), "{said}");
    assert!(
        said.contains("help: run an agent first: `baton run AGENT`"),
        "{said}"
    );
    let (code, said) = failed(dir.path(), &["savings"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("no answered exchanges in ") && said.contains("help: run an agent first"),
        "{said}"
    );
    let missing = dir.path().join("missing.toml");
    let out = baton(dir.path(), &["check", "--config"])
        .arg(&missing)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        said.contains("cannot be read: No such file or directory\n"),
        "{said}"
    );
    for (words, wrong) in [
        (&["log", "--limit", "x"][..], "not a number"),
        (&["show", "0199", "--leg", "0"], "legs count from 1"),
        (
            &["export", "3f", "--format", "pdf"],
            "possible values: md, json, jsonl, har",
        ),
    ] {
        let out = baton(dir.path(), words).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(64), "{said}");
        assert!(said.contains(wrong), "{said}");
    }
}

#[test]
fn the_built_in_config_can_be_printed_and_is_valid() {
    let dir = temp();
    let out = baton(dir.path(), &["check", "--defaults"]).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let file = dir.path().join("printed.toml");
    std::fs::write(&file, &out.stdout).unwrap();
    let out = baton(dir.path(), &["check", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
}

/// Opening a FIFO waits for its other end.
#[test]
fn a_fifo_in_a_state_directory_holds_nobody() {
    for name in [
        "baton.db",
        "journal.db",
        "seal.key",
        "serving.lock",
        "serving.json",
    ] {
        let dir = temp();
        let state = dir.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(state.join(name))
            .status();
        assert!(made.unwrap().success());
        for words in [&["doctor"][..], &["seal-key"], &["log"]] {
            // Some fail, and all of them end.
            done(dir.path(), words);
        }
    }
}

#[tokio::test]
async fn a_list_without_rows_has_no_heading() {
    let dir = used().await;
    let out = done(dir.path(), &["log", "model:another"]);
    assert!(out.status.success() && out.stdout.is_empty(), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("no exchange matches"));
}

#[tokio::test]
async fn the_key_that_log_shows_is_accepted_by_the_commands_that_take_one() {
    let dir = used().await;
    let log = printed(dir.path(), &["log"]);
    let mut lines = log
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let column = lines
        .next()
        .unwrap()
        .iter()
        .position(|name| *name == "KEY")
        .unwrap();
    // The time consists of two words.
    let key = lines.next().unwrap()[column + 1];
    printed(dir.path(), &["export", key]);
    printed(dir.path(), &["savings", "--conversation", key]);
    let filtered = printed(dir.path(), &["log", &format!("conversation:{key}")]);
    assert_eq!(filtered, log);
    let followed = printed(
        dir.path(),
        &["log", "--jsonl", "--limit", "0", "--conversation", key],
    );
    assert!(
        followed.contains(&format!("\"conversation\":\"{key}")),
        "{followed}"
    );
}

#[tokio::test]
async fn a_handoff_file_of_a_proxied_conversation_has_the_tokens_of_its_last_answer() {
    let dir = used().await;
    let log = printed(dir.path(), &["log", "--jsonl"]);
    let row: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let last = row["tokens"].as_array().unwrap().last().unwrap();
    let kinds = ["input", "cache_read", "cache_write", "output"];
    let tokens: u64 = kinds.iter().filter_map(|kind| last[*kind].as_u64()).sum();
    let key = row["conversation"].as_str().unwrap();
    let create = [
        "handoffs",
        "create",
        "--conversation",
        key,
        "--goal",
        "x",
        "--now",
        "y",
    ];
    let file = printed(
        dir.path(),
        &[&create[..], &["--auto", "--alone", "-o", "-"]].concat(),
    );
    assert!(
        tokens > 0 && file.contains(&format!("\ntokens_used: {tokens}\n")),
        "{tokens}: {file}"
    );
}
