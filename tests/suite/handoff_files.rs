//! `baton handoffs` with handoff files: the real program, and a YAML parser in another language.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use baton_core::handoffs::draft::tokens;
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{HandoffFile, read};
use baton_core::record::WireId;
use serde_json::{Value, json};

use crate::drafts::sessions;
use crate::harness::program;

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = program::baton(dir, &[&["handoffs"], args].concat());
    command
        .env("XDG_STATE_HOME", dir.join("state"))
        .current_dir(dir)
        .stdin(Stdio::null());
    if let Ok(path) = std::env::var("PATH") {
        command.env("PATH", path);
    }
    command
}

pub(crate) fn baton(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

pub(crate) fn said(dir: &Path, args: &[&str]) -> String {
    let done = baton(dir, args);
    let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{args:?}: {complaint}");
    String::from_utf8(done.stdout).unwrap()
}

pub(crate) fn fed(dir: &Path, args: &[&str], input: &str) -> Output {
    let mut child = command(dir, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) fn path_of(text: &str) -> PathBuf {
    PathBuf::from(text.trim())
}

#[test]
fn a_file_is_written_found_listed_and_put_away() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(said(dir, &["show", "--line"]), "");
    assert_eq!(said(dir, &["show", "--files"]), "");
    let made = said(
        dir,
        &[
            "create",
            "api",
            "--goal",
            "Login works",
            "--now",
            "Write: the logout",
            "--blocker",
            "no key",
            "--json",
        ],
    );
    let made = json_of(&made);
    assert_eq!(
        [
            &made["success"],
            &made["session"],
            &made["goal"],
            &made["now"],
            &made["status"]
        ],
        [
            &json!(true),
            &json!("api"),
            &json!("Login works"),
            &json!("Write: the logout"),
            &json!("blocked")
        ]
    );
    assert_eq!(
        (&made["file_count"], &made["blocker_count"]),
        (&json!(0), &json!(1))
    );
    let path = PathBuf::from(made["path"].as_str().unwrap());
    assert!(
        path.starts_with(dir.join("state/baton/handoffs/api")),
        "{}",
        path.display()
    );
    let second = path_of(&said(
        dir,
        &[
            "create",
            "web",
            "--goal",
            "Page",
            "--now",
            "Style",
            "--decision",
            "css=plain, since it is small",
            "--description",
            "The Page",
            "--agent-type",
            "cc",
            "--pane",
            "%3",
            "--tokens-used",
            "50",
            "--tokens-max",
            "200",
        ],
    ));
    assert!(
        second.to_str().unwrap().ends_with("_the-page.yaml"),
        "{}",
        second.display()
    );
    let text = std::fs::read_to_string(&second).unwrap();
    for line in ["agent_type: cc", "tokens_used: 50", "tokens_pct: 25"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(said(dir, &["show", "--line"]).trim(), "Last: Page | Now: Style");
    assert_eq!(
        said(dir, &["show", "--line", "api"]).trim(),
        "Last: Login works | Now: Write: the logout"
    );
    let listed = json_of(&said(dir, &["list", "api", "--json"]));
    assert_eq!((&listed["session"], &listed["count"]), (&json!("api"), &json!(1)));
    let one = &listed["handoffs"][0];
    assert_eq!(one["path"], made["path"]);
    for (member, value) in [
        ("session", json!("api")),
        ("status", json!("blocked")),
        ("goal", json!("Login works")),
        ("is_auto", json!(false)),
    ] {
        assert_eq!(one[member], value);
    }
    assert!(Time::parse(one["date"].as_str().unwrap()).is_some());
    let all = json_of(&said(dir, &["list", "--files", "--json"]));
    assert_eq!((&all["session"], &all["count"]), (&Value::Null, &json!(2)));
    assert_eq!(
        json_of(&said(dir, &["list", "--sessions", "--json"])),
        json!({"count": 2, "sessions": ["api", "web"]})
    );
    assert_eq!(path_of(&said(dir, &["show", "api", "--path"])), path);
    let shown = said(dir, &["show", second.to_str().unwrap()]);
    assert_eq!(shown, std::fs::read_to_string(&second).unwrap());
    let short = format!("web/{}", second.file_name().unwrap().to_str().unwrap());
    assert_eq!(
        json_of(&said(dir, &["show", &short, "--format", "json"]))["decisions"]["css"],
        "plain, since it is small"
    );
    assert!(said(dir, &["show", &short, "--format", "markdown"]).starts_with("# Page\n"));
    let recovered = said(dir, &["show", "--for", "fresh", "api"]);
    assert!(
        recovered.starts_with("Now: Write: the logout\nGoal: Login works\n"),
        "{recovered}"
    );
    assert!(
        recovered.contains("\nNot compared: the working directory is not a Git repository; written just now"),
        "{recovered}"
    );
    assert_eq!(
        said(dir, &["show", "api", "--for", "compact"]).trim(),
        "Last: Login works | Now: Write: the logout"
    );
    assert!(said(dir, &["list", "--ledger", "api"]).contains("- blockers: no key\n"));
    // The status line of the proxy fits into a status bar.
    let mut status = program::baton(dir, &["doctor", "--line"]);
    let status = status.env("XDG_STATE_HOME", dir.join("state")).output();
    assert_eq!(program::printed(status.unwrap()), "baton off, 0 handoffs\n");
    let archived = path_of(&said(dir, &["archive", &short]));
    assert!(archived.is_file() && !second.exists());
    assert_eq!(
        baton(dir, &["archive", archived.to_str().unwrap()]).status.code(),
        Some(64)
    );
    assert_eq!(
        baton(dir, &["delete", "/etc/hostname.yaml"]).status.code(),
        Some(64)
    );
    said(dir, &["delete", path.to_str().unwrap()]);
    assert!(!path.exists());
    assert_eq!(said(dir, &["delete", "--older-than", "1d"]), "0 files deleted\n");
    assert_eq!(baton(dir, &["show", "nowhere.yaml"]).status.code(), Some(66));
}

/// Only the archive is cleaned, and a file describes the transfer of its reservations.
#[test]
fn the_archive_is_cleaned_and_a_transfer_has_its_times() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let files = dir.join("state/baton/handoffs/api");
    std::fs::create_dir_all(files.join(".archive")).unwrap();
    for name in [
        "2020-01-01_10-00_a.yaml",
        "2020-01-02_10-00_b.yaml",
        ".archive/2020-01-03_10-00_c.yaml",
    ] {
        std::fs::write(files.join(name), "goal: g\nnow: n\n").unwrap();
    }
    assert_eq!(
        said(dir, &["delete", "--archived", "--older-than", "30d"]),
        "1 file deleted\n"
    );
    assert_eq!(said(dir, &["delete", "--older-than", "30d"]), "1 file deleted\n");
    assert!(files.join("2020-01-02_10-00_b.yaml").exists(), "the newest stays");
    for flag in ["--archived", "--dry-run"] {
        assert_eq!(baton(dir, &["delete", flag, "x.yaml"]).status.code(), Some(64));
    }
    let create = |more: &[&str]| {
        let begin = [
            "create", "api", "--goal", "g", "--now", "n", "--agent", "BlueLake", "-o", "-", "--format",
            "json",
        ];
        baton(dir, &[&begin[..], more].concat())
    };
    let made = create(&["--transfer-ttl", "60", "--transfer-grace", "1"]);
    let made = json_of(&String::from_utf8(made.stdout).unwrap());
    let transfer = &made["reservation_transfer"];
    assert_eq!(
        [
            &transfer["from_agent"],
            &transfer["ttl_seconds"],
            &transfer["grace_period_seconds"]
        ],
        [&json!("BlueLake"), &json!(60), &json!(1)]
    );
    assert_eq!(
        transfer["project_key"],
        dir.canonicalize().unwrap().to_str().unwrap()
    );
    assert_eq!(
        json_of(&String::from_utf8(create(&[]).stdout).unwrap()).get("reservation_transfer"),
        None
    );
    for bad in ["0", "-1", "1m", "99999999999"] {
        assert_eq!(create(&["--transfer-ttl", bad]).status.code(), Some(64), "{bad}");
    }
}

#[test]
fn every_error_of_a_file_is_told_at_once_and_exits_with_65() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (good, bad, broken) = (
        dir.join("good.yaml"),
        dir.join("bad.yaml"),
        dir.join("broken.yaml"),
    );
    std::fs::write(&good, "goal: a\nnow: b\nversion: '2.0'\nnew_key: {a: 1}\n").unwrap();
    std::fs::write(&bad, "session: a/b\ndate: 2026-02-30\nstatus: done\n").unwrap();
    std::fs::write(&broken, "goal: \"open\n").unwrap();
    let [good, bad, broken] = [&good, &bad, &broken].map(|path| path.to_str().unwrap());
    let told = said(dir, &["check", "--syntax", good]);
    assert!(
        told.contains("note: version: another version than 1.0") && told.contains("good.yaml: valid"),
        "{told}"
    );
    let done = baton(dir, &["check", "--syntax", good, bad, broken, "--json"]);
    assert_eq!(done.status.code(), Some(65));
    let reports = json_of(&String::from_utf8(done.stdout).unwrap());
    assert_eq!(reports[0]["valid"], true);
    assert_eq!(reports[0]["notes"][0]["field"], "version");
    let fields: Vec<_> = reports[1]["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["goal", "now", "session", "date", "status"]);
    assert_eq!(reports[1]["errors"][3]["value"], "2026-02-30");
    assert!(
        reports[1]["errors"][3]["message"]
            .as_str()
            .unwrap()
            .contains("YYYY-MM-DD")
    );
    assert_eq!(reports[2]["errors"][0]["field"], "");
    let done = baton(dir, &["check", "--syntax", bad]);
    assert_eq!(
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stdout).lines().count()
        ),
        (Some(65), 5)
    );
    assert_eq!(
        baton(dir, &["check", "--syntax", "nowhere.yaml"]).status.code(),
        Some(66)
    );
    assert_eq!(
        baton(dir, &["create", "a/b", "--goal", "a", "--now", "b"])
            .status
            .code(),
        Some(65)
    );
    assert_eq!(
        baton(dir, &["create", "--goal", "a", "--json"]).status.code(),
        Some(64)
    );
    assert_eq!(
        baton(dir, &["create", "--goal", "a", "--now", "b", "--decision", "x"])
            .status
            .code(),
        Some(64)
    );
}

#[test]
fn a_file_is_made_from_what_an_agent_said_or_its_session_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(
        dir.join("answer.txt"),
        "I've completed the parser. \n\nNext: benchmark it\nUsing regex for speed.\n",
    )
    .unwrap();
    let path = path_of(&said(
        dir,
        &["create", "--output", "answer.txt", "--now", "given wins"],
    ));
    let file = read(&std::fs::read_to_string(&path).unwrap()).unwrap().file;
    assert_eq!(
        (file.goal.as_str(), file.now.as_str()),
        ("the parser", "given wins")
    );
    assert_eq!(
        (file.status.as_str(), file.decisions["regex"].as_str()),
        ("complete", "speed")
    );
    assert!(path.to_str().unwrap().ends_with("_the-parser.yaml") && file.quality.is_some());
    assert!(path.starts_with(dir.join("state/baton/handoffs/general")));
    // A session file of a repository that is present.
    let repository = dir.join("shop");
    std::fs::create_dir(&repository).unwrap();
    let git = Command::new("git")
        .current_dir(&repository)
        .args(["init", "-q", "-b", "trunk"])
        .status();
    std::fs::write(repository.join("new.rs"), "x").unwrap();
    let line = |role: &str, content: Value| {
        json!({"type": role, "sessionId": "s", "cwd": repository, "message": {"role": role, "content": content}}).to_string()
    };
    let session = [
        line("user", json!("Write the cart")),
        "half a line".to_owned(),
        line(
            "assistant",
            json!([{"type": "text", "text": "Done: the cart\nNext: the till"}]),
        ),
        json!({"type": "assistant", "sessionId": "s", "message": {"role": "assistant", "model": "claude-sonnet-4-5", "content": [],
            "usage": {"input_tokens": 4, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 49_000, "output_tokens": 96}}})
            .to_string(),
    ];
    std::fs::write(dir.join("s.jsonl"), session.join("\n")).unwrap();
    let hook = json!({"session_id": "s", "transcript_path": dir.join("s.jsonl"), "cwd": repository, "hook_event_name": "PreCompact"});
    let done = fed(dir, &["create", "--auto", "--hook"], &hook.to_string());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let path = path_of(&String::from_utf8(done.stdout).unwrap());
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("auto-handoff-") && path.starts_with(dir.join("state/baton/handoffs/shop")),
        "{}",
        path.display()
    );
    let file = read(&std::fs::read_to_string(&path).unwrap()).unwrap().file;
    assert_eq!(
        (file.goal.as_str(), file.now.as_str(), file.agent_type.as_str()),
        ("the cart", "the till", "cc")
    );
    assert_eq!(
        (file.tokens_used, file.tokens_max, file.tokens_pct),
        (50_000, 200_000, 25.0)
    );
    if git.is_ok_and(|status| status.success()) {
        assert_eq!(file.findings["git_branch"], "trunk");
        assert_eq!(file.files.created, ["new.rs"]);
    }
    // Input that Codex gives to its notification program.
    let notified = json!({"type": "agent-turn-complete", "cwd": repository, "input-messages": ["Mend it"], "last-assistant-message": "Hm."});
    let done = fed(
        dir,
        &["create", "codex", "--auto", "--hook", "--alone", "-o", "-"],
        &notified.to_string(),
    );
    let file = read(&String::from_utf8(done.stdout).unwrap()).unwrap().file;
    assert_eq!(
        (file.goal.as_str(), file.status.as_str()),
        ("Asked for: Mend it", "partial")
    );
    assert_eq!(file.tokens_used, 0);
    // The id of the session leads to Codex' own record of it.
    let rollout = dir.join(".codex/sessions/2026/11/26");
    std::fs::create_dir_all(&rollout).unwrap();
    let count = json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
        "last_token_usage": {"input_tokens": 13_689, "output_tokens": 8, "total_tokens": 13_697},
        "model_context_window": 258_400}}});
    std::fs::write(
        rollout.join("rollout-2026-11-26T06-11-48-01a2167b.jsonl"),
        count.to_string(),
    )
    .unwrap();
    // The input from the OpenCode plugin contains the counts.
    for (more, tokens) in [
        (json!({"thread-id": "01a2167b"}), (13_697, 258_400)),
        (
            json!({"tokens_used": 8199, "model": "claude-sonnet-4-5"}),
            (8199, 200_000),
        ),
    ] {
        let mut notified = notified.clone();
        notified
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let done = fed(
            dir,
            &["create", "counted", "--auto", "--hook", "--alone", "-o", "-"],
            &notified.to_string(),
        );
        let file = read(&String::from_utf8(done.stdout).unwrap()).unwrap().file;
        assert_eq!((file.tokens_used, file.tokens_max), tokens, "{notified}");
        assert_eq!(file.goal, "Asked for: Mend it");
    }
    assert!(
        command(dir, &["show", "--for", "fresh", "--here"])
            .current_dir(&repository)
            .output()
            .unwrap()
            .stdout
            .starts_with(b"Now: the till\n")
    );
    // A hook cannot ask the user, and an empty session leaves nothing.
    let nothing = fed(dir, &["create", "--auto", "--hook", "--alone"], "{}");
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    let done = fed(
        dir,
        &["create", "x", "--auto", "--output", "-", "--alone", "-o", "-"],
        "Done: all of it\n",
    );
    assert!(
        read(&String::from_utf8(done.stdout).unwrap())
            .unwrap()
            .file
            .now
            .contains("ask the user")
    );
    // A JSON file written by hand.
    std::fs::write(
        dir.join("given.json"),
        r#"{"session": "x", "goal": "a", "now": "b", "next": ["c"], "mine": 1}"#,
    )
    .unwrap();
    let text = said(
        dir,
        &[
            "create",
            "--from-file",
            "given.json",
            "--goal",
            "other",
            "-o",
            "-",
        ],
    );
    let file = read(&text).unwrap().file;
    assert_eq!(
        (file.session.as_str(), file.goal.as_str(), file.next.as_slice()),
        ("x", "other", &["c".to_owned()][..])
    );
    assert_eq!(file.extra.len(), 1);
    said(
        dir,
        &[
            "create", "--goal", "a", "--now", "b", "-o", "out.md", "--format", "markdown",
        ],
    );
    assert!(
        std::fs::read_to_string(dir.join("out.md"))
            .unwrap()
            .starts_with("# a\n")
    );
}

/// A device never ends, and opening a FIFO waits for its other end.
#[test]
fn only_a_regular_file_is_read_wherever_the_user_may_name_one() {
    let dir = crate::harness::temp();
    let fifo = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    for path in [fifo.to_str().unwrap(), "/dev/zero"] {
        for option in ["--from-file", "--output", "--session-file"] {
            let given = ["create", "s", option, path, "--goal", "g", "--now", "n"];
            let done = baton(dir.path(), &given);
            let complaint = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(66), "{option} {path}: {complaint}");
            assert!(
                complaint.contains("not a regular file"),
                "{option} {path}: {complaint}"
            );
        }
        let check = crate::harness::program::baton(dir.path(), &["check", "--config", path]).output();
        let check = check.unwrap();
        let complaint = String::from_utf8_lossy(&[check.stdout, check.stderr].concat()).into_owned();
        assert!(
            !check.status.success() && complaint.contains("not a regular file"),
            "{complaint}"
        );
    }
}

#[test]
fn a_hook_is_done_in_its_time_whatever_hangs() {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let tools = dir.join("tools");
    std::fs::create_dir(&tools).unwrap();
    for name in ["git", "br"] {
        std::fs::write(tools.join(name), "#!/bin/sh\nexec sleep 600\n").unwrap();
        std::fs::set_permissions(tools.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let hanging = |args: &[&str]| {
        let mut command = command(dir, args);
        command
            .env("PATH", format!("{}:/usr/bin:/bin", tools.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let began = Instant::now();
    // Both at once.
    let mut unclosed = hanging(&["create", "--auto", "--within", "1", "--hook"]);
    let mut child = hanging(&[
        "create",
        "shop",
        "--auto",
        "--within",
        "3",
        "--agent",
        "BlueLake",
        "--git-dir",
        ".",
        "--hook",
    ]);
    let hook = json!({"cwd": dir, "last_assistant_message": "Done: the cart\nNext: the till"});
    let mut input = child.stdin.take().unwrap();
    input.write_all(hook.to_string().as_bytes()).unwrap();
    drop(input);
    let done = child.wait_with_output().unwrap();
    let taken = began.elapsed();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let path = path_of(&String::from_utf8(done.stdout).unwrap());
    let file = read(&std::fs::read_to_string(&path).unwrap()).unwrap().file;
    assert_eq!((file.goal.as_str(), file.now.as_str()), ("the cart", "the till"));
    assert!(taken < Duration::from_secs(3), "{taken:?}");
    // The input is still open.
    let open = unclosed.stdin.take();
    let status = unclosed.wait().unwrap();
    assert_eq!(status.code(), Some(69));
    let taken = began.elapsed();
    assert!(taken < Duration::from_secs(8), "{taken:?}");
    drop(open);
}

#[test]
fn without_a_source_the_user_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let done = fed(
        dir.path(),
        &["create", "api"],
        "Login works\nLogout\nno key\n\ncookie=signed\nno pair\n\n",
    );
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let path = path_of(&String::from_utf8(done.stdout).unwrap());
    let file = read(&std::fs::read_to_string(path).unwrap()).unwrap().file;
    assert_eq!((file.goal.as_str(), file.now.as_str()), ("Login works", "Logout"));
    assert_eq!(
        (file.blockers.as_slice(), file.decisions["cookie"].as_str()),
        (&["no key".to_owned()][..], "signed")
    );
    assert_eq!(fed(dir.path(), &["create"], "\n\n\n\n").status.code(), Some(65));
}

#[test]
fn drift_exits_with_one_and_the_quality_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(baton(dir, &["check"]).status.code(), Some(66));
    let git = |args: &[&str]| crate::harness::git(dir, args);
    assert!(git(&["init", "-q", "-b", "main"]));
    std::fs::write(dir.join("a.rs"), "1").unwrap();
    assert!(git(&["add", "a.rs"]) && git(&["commit", "-q", "-m", "x"]));
    std::fs::write(dir.join("a.rs"), "2").unwrap();
    said(dir, &["create", "api", "--goal", "a", "--now", "b"]);
    assert!(said(dir, &["check", "api"]).starts_with("Up to date: written just now"));
    std::fs::remove_file(dir.join("a.rs")).unwrap();
    let done = baton(dir, &["check", "api", "--json"]);
    assert_eq!(done.status.code(), Some(1));
    let told = json_of(&String::from_utf8(done.stdout).unwrap());
    assert_eq!(
        (&told["drifted"], &told["drift"]["gone"]),
        (&json!(true), &json!(["a.rs"]))
    );
    assert_eq!(told["quality"]["dimensions"].as_array().unwrap().len(), 4);
    assert!(said(dir, &["show", "--for", "fresh", "api"]).contains("\nDrift: "));
}

/// Creates the file of a session from the record that an agent of this wire would keep.
fn of_session(dir: &Path, seed: u64, turns: usize, wire: WireId) -> HandoffFile {
    let session = sessions::Session::new(seed, turns);
    let mut body: Value = serde_json::from_slice(&session.body(wire)).unwrap();
    let messages = ["messages", "input", "contents"].map(|turns| body[turns].take());
    let messages = messages.iter().filter_map(Value::as_array).flatten();
    let lines = messages.map(|message| match wire {
        WireId::Anthropic => json!({"type": message["role"], "sessionId": "s", "message": message}),
        WireId::OpenaiResponses => json!({"type": "response_item", "payload": message}),
        WireId::Gemini => json!({"type": "user", "message": message}),
        _ => message.clone(),
    });
    let lines: Vec<_> = lines.map(|line| line.to_string()).collect();
    std::fs::write(dir.join("s.jsonl"), lines.join("\n")).unwrap();
    let made = said(
        dir,
        &[
            "create",
            "bench",
            "--session-file",
            "s.jsonl",
            "--alone",
            "-o",
            "-",
        ],
    );
    for secret in &session.secrets {
        assert!(!made.contains(secret.as_str()), "{secret} in {made}");
    }
    read(&made).unwrap().file
}

#[test]
fn the_median_of_the_benchs_sessions_is_below_five_hundred_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let mut sizes = Vec::new();
    for wire in WireId::ALL {
        for (seed, turns) in [(1, 30), (2, 60), (3, 120), (4, 200)] {
            let file = of_session(dir.path(), seed, turns, wire);
            assert_eq!(file.errors(), [], "{}", file.to_yaml());
            sizes.push(tokens(&file.to_yaml()));
        }
    }
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    assert!(median < 500, "{sizes:?}");
    assert!(median > 100, "{sizes:?}");
}
