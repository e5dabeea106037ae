//! `baton try` over session files that real agents wrote with the strict provider (`tests/recordings/homes`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::harness::texts::assert_contains;
use crate::harness::{program, temp};

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/homes")
}

/// Copies a directory tree. A `.sql` file becomes the database that it describes.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let into = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &into);
            continue;
        }
        fs::create_dir_all(to).unwrap();
        match entry.extension().is_some_and(|ending| ending == "sql") {
            true => {
                let database = rusqlite::Connection::open(into.with_extension("db")).unwrap();
                let rows = fs::read_to_string(&entry).unwrap();
                // Two recordings of an agent share a database.
                let rows = rows.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ");
                let rows = format!("BEGIN;{rows}COMMIT;");
                database.execute_batch(&rows).unwrap();
            }
            false => _ = fs::copy(&entry, &into).unwrap(),
        }
    }
}

/// Returns a home directory with the sessions of some recordings.
fn home(names: &[&str]) -> tempfile::TempDir {
    let dir = temp();
    names
        .iter()
        .for_each(|name| copy(&recordings().join(name), dir.path()));
    dir
}

fn every() -> Vec<String> {
    let entries = fs::read_dir(recordings()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn run(home: &Path, words: &[&str]) -> Output {
    let words = [&["try"], words].concat();
    program::baton(home, &words).output().unwrap()
}

fn json(home: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&printed(home, &[words, &["--json"]].concat())).unwrap()
}

fn printed(home: &Path, words: &[&str]) -> String {
    program::printed(run(home, words))
}

/// Every call with a response in an agent's loop is read, exact to the token.
#[test]
fn each_agents_calls_are_those_that_the_provider_counted() {
    for name in every() {
        let home = home(&[name.as_str()]);
        let truth: Value =
            serde_json::from_slice(&fs::read(home.path().join("truth.json")).unwrap()).unwrap();
        let tried = json(home.path(), &[]);
        let sessions = tried["sessions"].as_array().unwrap();
        let sum = |key: fn(&Value) -> u64| sessions.iter().map(key).sum::<u64>();
        let input = sum(|one| {
            let of = |key: &str| one["tokens"][key].as_u64().unwrap();
            of("input") + of("cache_read") + of("cache_write") + of("cache_write_long")
        });
        let calls = sum(|one| one["calls"].as_u64().unwrap());
        let estimated = sessions.iter().any(|one| one["estimated"] == true);
        // goose records two calls of one response as two.
        let counted = truth["calls"].as_u64().unwrap();
        assert!(
            calls == counted || estimated && calls == counted + 1,
            "{name}: {calls}"
        );
        let off = input.abs_diff(truth["input"].as_u64().unwrap()) as f64 / input as f64;
        // goose records only sums, so calls are estimated.
        assert!(off <= if estimated { 0.01 } else { 0.0 }, "{name}: {off}");
    }
}

/// The promise of `docs/try.md`: what is replayed without cuts is what the records say.
#[test]
fn the_replay_without_cuts_is_what_was_paid() {
    let (mut paid, mut replayed) = (0.0, 0.0);
    for name in every() {
        let home = home(&[name.as_str()]);
        for one in json(home.path(), &[])["sessions"].as_array().unwrap() {
            let Some(recorded) = one["paid"].as_f64() else {
                continue;
            };
            let none = one["arms"][0]["cost"].as_f64().unwrap();
            let off = (none / recorded - 1.0).abs();
            let most = if one["calls"].as_u64() < Some(20) {
                0.15
            } else {
                0.10
            };
            assert!(off <= most, "{name}: {recorded} and {none}");
            (paid, replayed) = (paid + recorded, replayed + none);
        }
    }
    assert!(
        paid > 0.0 && (replayed / paid - 1.0_f64).abs() <= 0.03,
        "{paid} and {replayed}"
    );
}

#[test]
fn all_agents_are_found_in_a_home_and_nothing_is_written_there() {
    let names = every();
    let home = home(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let files = |dir: &Path| {
        let mut all = Vec::new();
        let mut directories = vec![dir.to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap().path();
                match entry.is_dir() {
                    true => directories.push(entry),
                    false => all.push((entry.clone(), fs::read(&entry).unwrap())),
                }
            }
        }
        all.sort();
        all
    };
    let before = files(home.path());
    let screen = printed(home.path(), &[]);
    assert_eq!(files(home.path()), before);
    for agent in "claude-code codex gemini-cli qwen-code pi opencode goose cline".split(' ') {
        assert_contains(&screen, &format!("\n  {agent}\n"));
    }
    for part in [
        "With the defaults: ",
        "In hindsight, ",
        "handoff at task ends (default)",
        "differs from the record",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let plot = home.path().join("plot.svg");
    let lines = printed(home.path(), &["--csv", "--plot", plot.to_str().unwrap()]);
    assert!(
        lines.starts_with("id,agent,model,") && lines.lines().count() > 8,
        "{lines}"
    );
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg "));
}

#[test]
fn a_session_in_detail_says_what_would_have_been_carried() {
    let home = home(&["claude_code"]);
    let tried = json(home.path(), &[]);
    let id = tried["sessions"][0]["id"].as_str().unwrap();
    let text = printed(home.path(), &["--session", &id[..8]]);
    assert_contains(&text, "a request");
    assert_contains(&text, "(UTC)");
    assert_contains(&text, "best moment (hindsight)");
    let none = run(home.path(), &["--session", "none"]);
    assert_contains(&String::from_utf8_lossy(&none.stderr), "there is no session none");
}

#[test]
fn damaged_foreign_and_missing_files_cost_a_line_each() {
    let home = home(&["pi"]);
    let directory = home.path().join(".claude/projects/x");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("foreign.jsonl"), "{\"some\": \"thing\"}\n").unwrap();
    fs::write(directory.join("binary.jsonl"), [0xff, 0xfe, b'\n', 0]).unwrap();
    let opencode = home.path().join(".local/share/opencode");
    fs::create_dir_all(&opencode).unwrap();
    fs::write(opencode.join("opencode.db"), b"SQLite format 3\0and then nothing").unwrap();
    // In the formats that gemini-cli and OpenCode used before their .jsonl files and their database.
    let chats = home.path().join(".gemini/tmp/0f/chats");
    let storage = home.path().join(".local/share/opencode/storage/session/0f");
    for (directory, name) in [(chats, "session-1.json"), (storage, "ses_1.json")] {
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(name), r#"{"sessionId": "x", "messages": []}"#).unwrap();
    }
    fs::write(home.path().join(".gemini/tmp/0f/logs.json"), "[]").unwrap();
    let screen = printed(home.path(), &[]);
    for part in [
        "5 files",
        "session-1.json: an earlier version of the agent wrote it",
        "ses_1.json: an earlier version of the agent wrote it",
        "no usage of a model's call",
        "2 lines that cannot be read: left out",
        "opencode.db: ",
        "\n  pi\n",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let empty = temp();
    let texts = [".claude/projects", "--from PATH"];
    program::refused(&run(empty.path(), &[]), 66, &texts);
    let gone = run(empty.path(), &["--from", "/nowhere/at/all"]);
    assert_contains(&String::from_utf8_lossy(&gone.stderr), "/nowhere/at/all");
}

/// An agent's model may write into the directory of its sessions.
#[cfg(unix)]
#[test]
fn links_devices_and_fifos_are_not_read() {
    use std::os::unix::fs::symlink;
    let home = home(&["pi"]);
    let directory = home.path().join(".claude/projects/x");
    fs::create_dir_all(&directory).unwrap();
    symlink("/dev/zero", directory.join("zero.jsonl")).unwrap();
    symlink("/etc/passwd", directory.join("file.jsonl")).unwrap();
    symlink(&directory, directory.join("again")).unwrap();
    let fifo = directory.join("fifo.jsonl");
    program::fifo(&fifo);
    let screen = printed(home.path(), &[]);
    assert!(screen.contains("\n  pi\n"), "{screen}");
    assert!(!screen.contains(".jsonl"), "{screen}");
    for path in [&fifo, Path::new("/dev/zero")] {
        run(home.path(), &["--from", path.to_str().unwrap()]);
    }
}

/// A copied file, a file in two parts, and another order of files give the same result.
#[test]
fn copies_parts_and_order_change_nothing() {
    let home = home(&["claude_code", "codex"]);
    let report = |home: &Path| {
        let tried = json(home, &[]);
        (tried["report"].clone(), tried["sessions"].clone())
    };
    let once = report(home.path());
    let directory = home.path().join(".claude/projects/-home-dev-project");
    let file = fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    fs::copy(&file, directory.join("a-copy.jsonl")).unwrap();
    assert_eq!(report(home.path()), once, "a copy");
    fs::remove_file(directory.join("a-copy.jsonl")).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let middle = text[..text.len() / 2].rfind('\n').unwrap() + 1;
    fs::write(&file, &text[middle..]).unwrap();
    fs::write(directory.join("zz.jsonl"), &text[..middle]).unwrap();
    let parts = report(home.path());
    let calls = |of: &Value| of["calls"].as_u64().unwrap();
    assert_eq!(
        (calls(&parts.0), &parts.0["paid"]),
        (calls(&once.0), &once.0["paid"]),
        "in parts"
    );
}
