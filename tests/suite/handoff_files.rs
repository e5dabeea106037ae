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
use crate::harness;
use crate::harness::program::{self, words};
use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_members};

fn command(dir: &Path, line: &str) -> Command {
    let mut command = program::baton(dir, &[&["handoffs"], &*words(line)].concat());
    command
        .env("XDG_STATE_HOME", dir.join("state"))
        .current_dir(dir)
        .stdin(Stdio::null());
    if let Ok(path) = std::env::var("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Runs `baton handoffs` with the words of a line.
pub(crate) fn baton(dir: &Path, line: &str) -> Output {
    command(dir, line).output().unwrap()
}

pub(crate) fn said(dir: &Path, line: &str) -> String {
    program::printed(baton(dir, line))
}

pub(crate) fn fed(dir: &Path, line: &str, input: &str) -> Output {
    let mut child = command(dir, line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn exits_with(code: i32, dir: &Path, line: &str) {
    program::refused(&baton(dir, line), code, &[]);
}

pub(crate) fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) fn path_of(text: &str) -> PathBuf {
    PathBuf::from(text.trim())
}

/// The handoff file that a command printed.
fn printed_file(done: Output) -> HandoffFile {
    read(&program::printed(done)).unwrap().file
}

fn file_at(path: &Path) -> HandoffFile {
    read(&std::fs::read_to_string(path).unwrap()).unwrap().file
}

#[test]
fn a_file_is_written_found_listed_and_put_away() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_eq!(said(dir, "show --line"), "");
    assert_eq!(said(dir, "show --files"), "");
    let create = "create api --goal 'Login works' --now 'Write: the logout' --blocker 'no key' --json";
    let made = json_of(&said(dir, create));
    let path = PathBuf::from(made["path"].as_str().unwrap());
    assert_begins(
        &path.display().to_string(),
        &dir.join("state/baton/handoffs/api").display().to_string(),
    );
    let members = json!({"success": true, "session": "api", "goal": "Login works", "now": "Write: the logout",
        "status": "blocked", "file_count": 0, "blocker_count": 1});
    assert_members(&made, &members);
    let create = "create web --goal Page --now Style --decision 'css=plain, since it is small' \
                  --description 'The Page' --agent-type cc --pane %3 --tokens-used 50 --tokens-max 200";
    let second = path_of(&said(dir, create));
    assert_ends(second.to_str().unwrap(), "_the-page.yaml");
    let text = std::fs::read_to_string(&second).unwrap();
    for line in ["agent_type: cc", "tokens_used: 50", "tokens_pct: 25"] {
        assert_contains(&text, line);
    }
    let last = "Last: Login works | Now: Write: the logout\n";
    assert_eq!(said(dir, "show --line"), "Last: Page | Now: Style\n");
    assert_eq!(said(dir, "show --line api"), last);
    assert_eq!(said(dir, "show api --for compact"), last);
    let listed = json_of(&said(dir, "list api --json"));
    assert_members(&listed, &json!({"session": "api", "count": 1}));
    let one = &listed["handoffs"][0];
    let members =
        json!({"path": path, "session": "api", "status": "blocked", "goal": "Login works", "is_auto": false});
    assert_members(one, &members);
    assert!(Time::parse(one["date"].as_str().unwrap()).is_some());
    let all = json_of(&said(dir, "list --files --json"));
    assert_members(&all, &json!({"session": null, "count": 2}));
    let sessions = json_of(&said(dir, "list --sessions --json"));
    assert_eq!(sessions, json!({"count": 2, "sessions": ["api", "web"]}));
    assert_eq!(path_of(&said(dir, "show api --path")), path);
    assert_eq!(said(dir, &format!("show {}", second.display())), text);
    let short = format!("web/{}", second.file_name().unwrap().to_str().unwrap());
    let shown = json_of(&said(dir, &format!("show {short} --format json")));
    assert_eq!(shown["decisions"]["css"], "plain, since it is small");
    assert_begins(&said(dir, &format!("show {short} --format markdown")), "# Page\n");
    let recovered = said(dir, "show --for fresh api");
    assert_begins(&recovered, "Now: Write: the logout\nGoal: Login works\n");
    let compared = "\nNot compared: the working directory is not a Git repository; written just now";
    assert_contains(&recovered, compared);
    assert_contains(&said(dir, "list --ledger api"), "- blockers: no key\n");
    // The status line of the proxy fits into a status bar.
    let mut status = program::baton(dir, &["doctor", "--line"]);
    let status = status.env("XDG_STATE_HOME", dir.join("state")).output();
    assert_eq!(program::printed(status.unwrap()), "baton off, 0 handoffs\n");
    let archived = path_of(&said(dir, &format!("archive {short}")));
    assert!(archived.is_file() && !second.exists());
    exits_with(64, dir, &format!("archive {}", archived.display()));
    exits_with(64, dir, "delete /etc/hostname.yaml");
    said(dir, &format!("delete {}", path.display()));
    assert!(!path.exists());
    assert_eq!(said(dir, "delete --older-than 1d"), "0 files deleted\n");
    exits_with(66, dir, "show nowhere.yaml");
}

/// Only the archive is cleaned, and a file describes the transfer of its reservations.
#[test]
fn the_archive_is_cleaned_and_a_transfer_has_its_times() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let files = dir.join("state/baton/handoffs/api");
    std::fs::create_dir_all(files.join(".archive")).unwrap();
    for name in [
        "2020-01-01_10-00_a",
        "2020-01-02_10-00_b",
        ".archive/2020-01-03_10-00_c",
    ] {
        std::fs::write(files.join(format!("{name}.yaml")), "goal: g\nnow: n\n").unwrap();
    }
    for flag in ["--archived ", ""] {
        assert_eq!(
            said(dir, &format!("delete {flag}--older-than 30d")),
            "1 file deleted\n"
        );
    }
    assert!(files.join("2020-01-02_10-00_b.yaml").exists(), "the newest stays");
    for flag in ["--archived", "--dry-run"] {
        exits_with(64, dir, &format!("delete {flag} x.yaml"));
    }
    let create = "create api --goal g --now n --agent BlueLake -o - --format json";
    let made = json_of(&said(
        dir,
        &format!("{create} --transfer-ttl 60 --transfer-grace 1"),
    ));
    let project = dir.canonicalize().unwrap();
    let members = json!({"from_agent": "BlueLake", "ttl_seconds": 60, "grace_period_seconds": 1, "project_key": project});
    assert_members(&made["reservation_transfer"], &members);
    assert_eq!(json_of(&said(dir, create)).get("reservation_transfer"), None);
    for bad in ["0", "-1", "1m", "99999999999"] {
        exits_with(64, dir, &format!("{create} --transfer-ttl {bad}"));
    }
}

#[test]
fn every_error_of_a_file_is_told_at_once_and_exits_with_65() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (name, text) in [
        ("good.yaml", "goal: a\nnow: b\nversion: '2.0'\nnew_key: {a: 1}\n"),
        ("bad.yaml", "session: a/b\ndate: 2026-02-30\nstatus: done\n"),
        ("broken.yaml", "goal: \"open\n"),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let told = said(dir, "check --syntax good.yaml");
    assert_contains(&told, "note: version: another version than 1.0");
    assert_contains(&told, "good.yaml: valid");
    let done = baton(dir, "check --syntax good.yaml bad.yaml broken.yaml --json");
    assert_eq!(done.status.code(), Some(65));
    let reports = json_of(&String::from_utf8(done.stdout).unwrap());
    assert_eq!(reports[0]["valid"], true);
    assert_eq!(reports[0]["notes"][0]["field"], "version");
    let errors = reports[1]["errors"].as_array().unwrap();
    let fields: Vec<_> = errors
        .iter()
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["goal", "now", "session", "date", "status"]);
    assert_eq!(errors[3]["value"], "2026-02-30");
    assert_contains(errors[3]["message"].as_str().unwrap(), "YYYY-MM-DD");
    assert_eq!(reports[2]["errors"][0]["field"], "");
    let done = baton(dir, "check --syntax bad.yaml");
    let lines = String::from_utf8_lossy(&done.stdout).lines().count();
    assert_eq!((done.status.code(), lines), (Some(65), 5));
    exits_with(66, dir, "check --syntax nowhere.yaml");
    exits_with(65, dir, "create a/b --goal a --now b");
    exits_with(64, dir, "create --goal a --json");
    exits_with(64, dir, "create --goal a --now b --decision x");
}

#[test]
fn a_file_is_made_from_what_an_agent_said_or_its_session_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let answer = "I've completed the parser. \n\nNext: benchmark it\nUsing regex for speed.\n";
    std::fs::write(dir.join("answer.txt"), answer).unwrap();
    let path = path_of(&said(dir, "create --output answer.txt --now 'given wins'"));
    let file = file_at(&path);
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
    assert!(harness::git(&repository, &["init", "-q", "-b", "trunk"]));
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
    let done = fed(dir, "create --auto --hook", &hook.to_string());
    let path = path_of(&program::printed(done));
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("auto-handoff-") && path.starts_with(dir.join("state/baton/handoffs/shop")),
        "{}",
        path.display()
    );
    let file = file_at(&path);
    assert_eq!(
        (file.goal.as_str(), file.now.as_str(), file.agent_type.as_str()),
        ("the cart", "the till", "cc")
    );
    let tokens = (file.tokens_used, file.tokens_max, file.tokens_pct);
    assert_eq!(tokens, (50_000, 200_000, 25.0));
    assert_eq!(file.findings["git_branch"], "trunk");
    assert_eq!(file.files.created, ["new.rs"]);
    // Input that Codex gives to its notification program.
    let notified = json!({"type": "agent-turn-complete", "cwd": repository, "input-messages": ["Mend it"], "last-assistant-message": "Hm."});
    let hooked = |input: &Value| {
        printed_file(fed(
            dir,
            "create codex --auto --hook --alone -o -",
            &input.to_string(),
        ))
    };
    let file = hooked(&notified);
    let said = (file.goal.as_str(), file.status.as_str(), file.tokens_used);
    assert_eq!(said, ("Asked for: Mend it", "partial", 0));
    // The id of the session leads to Codex' own record of it.
    let rollout = dir.join(".codex/sessions/2026/11/26");
    std::fs::create_dir_all(&rollout).unwrap();
    let count = json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
        "last_token_usage": {"input_tokens": 13_689, "output_tokens": 8, "total_tokens": 13_697},
        "model_context_window": 258_400}}});
    let rollout = rollout.join("rollout-2026-11-26T06-11-48-01a2167b.jsonl");
    std::fs::write(rollout, count.to_string()).unwrap();
    // The input from the OpenCode plugin contains the counts.
    let plugin = json!({"tokens_used": 8199, "model": "claude-sonnet-4-5"});
    for (more, tokens) in [
        (json!({"thread-id": "01a2167b"}), (13_697, 258_400)),
        (plugin, (8199, 200_000)),
    ] {
        let mut notified = notified.clone();
        let members = notified.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let file = hooked(&notified);
        assert_eq!((file.tokens_used, file.tokens_max), tokens, "{notified}");
        assert_eq!(file.goal, "Asked for: Mend it");
    }
    let here = command(dir, "show --for fresh --here")
        .current_dir(&repository)
        .output();
    assert_begins(&program::printed(here.unwrap()), "Now: the till\n");
    // Another repository of that name neither reads the file nor is read.
    let other = harness::temp();
    let same_name = other.path().join(repository.file_name().unwrap());
    std::fs::create_dir(&same_name).unwrap();
    let here = command(dir, "show --for fresh --here")
        .current_dir(&same_name)
        .output();
    assert_eq!(program::printed(here.unwrap()), "");
    // A hook cannot ask the user, and an empty session leaves nothing.
    let nothing = fed(dir, "create --auto --hook --alone", "{}");
    assert!(nothing.status.success() && nothing.stdout.is_empty());
    let done = fed(
        dir,
        "create x --auto --output - --alone -o -",
        "Done: all of it\n",
    );
    assert_contains(&printed_file(done).now, "ask the user");
    // A JSON file written by hand.
    let given = json!({"session": "x", "goal": "a", "now": "b", "next": ["c"], "mine": 1});
    std::fs::write(dir.join("given.json"), given.to_string()).unwrap();
    let file = printed_file(baton(dir, "create --from-file given.json --goal other -o -"));
    assert_eq!(
        [&*file.session, &file.goal, &file.next.concat()],
        ["x", "other", "c"]
    );
    assert_eq!(file.extra.len(), 1);
    baton(dir, "create --goal a --now b -o out.md --format markdown");
    assert_begins(&std::fs::read_to_string(dir.join("out.md")).unwrap(), "# a\n");
}

/// A device never ends, and opening a FIFO waits for its other end.
#[test]
fn only_a_regular_file_is_read_wherever_the_user_may_name_one() {
    let dir = harness::temp();
    let fifo = dir.path().join("fifo");
    program::fifo(&fifo);
    for path in [fifo.to_str().unwrap(), "/dev/zero"] {
        for option in ["--from-file", "--output", "--session-file"] {
            let create = format!("create s {option} {path} --goal g --now n");
            program::refused(&baton(dir.path(), &create), 66, &["not a regular file"]);
        }
        let check = program::baton(dir.path(), &["check", "--config", path]).output();
        let check = check.unwrap();
        assert!(!check.status.success(), "{check:?}");
        let all = [check.stdout, check.stderr].concat();
        assert_contains(&String::from_utf8_lossy(&all), "not a regular file");
    }
}

/// Tools that hang and input that is never closed: within 30 seconds the hook has written its file, or its
/// process has ended.
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
    let hanging = |line: &str| {
        let mut command = command(dir, line);
        command
            .env("PATH", format!("{}:/usr/bin:/bin", tools.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let began = Instant::now();
    // Both at once.
    let mut unclosed = hanging("create --auto --within 1 --hook");
    let mut child = hanging("create shop --auto --within 3 --agent BlueLake --git-dir . --hook");
    let hook = json!({"cwd": dir, "last_assistant_message": "Done: the cart\nNext: the till"});
    let mut input = child.stdin.take().unwrap();
    input.write_all(hook.to_string().as_bytes()).unwrap();
    drop(input);
    let done = child.wait_with_output().unwrap();
    let taken = began.elapsed();
    let path = path_of(&program::printed(done));
    let file = file_at(&path);
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
        "create api",
        "Login works\nLogout\nno key\n\ncookie=signed\nno pair\n\n",
    );
    let path = path_of(&program::printed(done));
    let file = file_at(&path);
    assert_eq!((file.goal.as_str(), file.now.as_str()), ("Login works", "Logout"));
    assert_eq!(
        (file.blockers.as_slice(), file.decisions["cookie"].as_str()),
        (&["no key".to_owned()][..], "signed")
    );
    assert_eq!(fed(dir.path(), "create", "\n\n\n\n").status.code(), Some(65));
}

#[test]
fn drift_exits_with_one_and_the_quality_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    exits_with(66, dir, "check");
    let git = |args: &[&str]| crate::harness::git(dir, args);
    assert!(git(&["init", "-q", "-b", "main"]));
    std::fs::write(dir.join("a.rs"), "1").unwrap();
    assert!(git(&["add", "a.rs"]) && git(&["commit", "-q", "-m", "x"]));
    std::fs::write(dir.join("a.rs"), "2").unwrap();
    said(dir, "create api --goal a --now b");
    assert!(said(dir, "check api").starts_with("Up to date: written just now"));
    std::fs::remove_file(dir.join("a.rs")).unwrap();
    let done = baton(dir, "check api --json");
    assert_eq!(done.status.code(), Some(1));
    let told = json_of(&String::from_utf8(done.stdout).unwrap());
    assert_eq!(
        (&told["drifted"], &told["drift"]["gone"]),
        (&json!(true), &json!(["a.rs"]))
    );
    assert_eq!(told["quality"]["dimensions"].as_array().unwrap().len(), 4);
    assert!(said(dir, "show --for fresh api").contains("\nDrift: "));
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
    let made = said(dir, "create bench --session-file s.jsonl --alone -o -");
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
