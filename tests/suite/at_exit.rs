//! Documents that the sessions of `baton run` leave when their agent exits.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_core::handoffs::document::{HandoffDocument, validate};
use baton_core::record::{Conversation, LOCAL};
use baton_llm::state::files::documents::{JSON, MARKDOWN};
use baton_llm::state::store::records::StoredRecord;
use baton_strict::{Received, Reply};
use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents::{CLAUDE_CODE, Ran, Scene, request, work};
use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{PROMPT, handoff, texts, user};
use crate::harness::texts::assert_contains;
use crate::harness::{self, AgentWire, post};

/// Hands over on request, and answers everything else.
fn model(seen: &Received) -> Reply {
    match texts(seen.messages()).last() {
        Some(last) if last == "u: Hand over." => handoff(),
        Some(last) if *last == format!("u: {PROMPT}") => Reply::text("Fresh."),
        _ => Reply::text("Done: the importer."),
    }
}

/// Sends a request of a session to the agent's URL, and returns the response.
async fn ask(url: &str, session: &str, messages: &[Value]) -> Value {
    let mut headers = Anthropic.headers().to_vec();
    headers.push(("x-claude-code-session-id", session));
    let body = request(CLAUDE_CODE, &["Edit", "Bash"], messages).to_string();
    let heard = post(&format!("{url}{}", Anthropic.path()), &headers, body.into()).await;
    assert_eq!(heard.status, 200, "{}", heard.text());
    let message = Anthropic.parse(&heard.raw, true, false).unwrap();
    json!({"role": "assistant", "content": message.content})
}

/// Documents named on standard error.
fn left(ran: &Ran) -> Vec<(PathBuf, HandoffDocument)> {
    let directories = ran.err.lines().filter_map(|line| {
        let rest = line.strip_prefix("baton: this session's handoff is in ")?;
        Some(PathBuf::from(rest.split(';').next()?))
    });
    let read = |directory: PathBuf| {
        let json = fs::read_to_string(directory.join(JSON)).unwrap();
        let markdown = fs::read_to_string(directory.join(MARKDOWN)).unwrap();
        assert_eq!(validate(&json, Some(&markdown)), []);
        let document = HandoffDocument::read(&json).unwrap();
        (directory, document)
    };
    directories.map(read).collect()
}

/// The only document named on standard error.
fn one_left(ran: &Ran) -> HandoffDocument {
    let mut all = left(ran);
    assert_eq!(all.len(), 1, "{}", ran.err);
    all.pop().unwrap().1
}

fn repository(dir: &Path) -> bool {
    fs::create_dir_all(dir).unwrap();
    harness::git(dir, &["init", "-q", "-b", "feature/x"])
}

#[tokio::test]
async fn a_session_with_work_since_its_last_handoff_leaves_one() {
    let scene = Scene::with(model, "").await;
    let directory = scene.path("work");
    let has_git = repository(&directory);
    let (other, others) = scene.waiting("other", &[]);
    let (run, url) = scene.waiting("claude", &["--topic", "importer"]);
    assert!(url.contains("/r/") && url.ends_with("/t/importer"), "{url}");
    ask(&others, "elsewhere", &work(&directory, "Go on.")).await;
    ask(&url, "one", &work(&directory, "Go on.")).await;
    // The whole work of this session is handed over.
    ask(&url, "two", &work(&directory, "Hand over.")).await;
    // The proxy continues for the other agent.
    let ran = run.goes();
    ran.said(0, &[]);
    let document = one_left(&ran);
    assert_eq!(
        [&document.topic, &document.origin, &document.repository],
        ["importer", "local", directory.to_str().unwrap()]
    );
    if has_git {
        assert_eq!(document.branch, "feature/x");
    }
    assert_contains(&document.prompt, "Mend the importer.");
    let listed = scene.ran("handoffs list", &["--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    scene.agent("claude", "echo \"$@\"");
    let resumed = scene.shell(ran.err.split('`').nth(1).unwrap());
    assert_contains(&resumed.out, &format!("[[handoff-resume:{}]]", document.id));
    // A run that sends nothing leaves nothing, and neither does one whose session has no new work.
    let (idle, _) = scene.waiting("codex", &[]);
    assert_eq!(left(&idle.goes()).len(), 0);
    assert!(left(&ran)[0].0.is_dir());
    let its = one_left(&other.goes());
    assert_ne!(its.conversation, document.conversation);
    assert_eq!(its.topic, its.conversation);
}

/// The next step of the handoff that was undone is none of the finished work after it.
#[tokio::test]
async fn after_an_undo_finished_work_is_not_the_next_step() {
    let scene = Scene::with(model, "").await;
    let (run, url) = scene.waiting("claude", &[]);
    let mut messages = work(&scene.path("work"), "Hand over.");
    for next in ["Port the reader to the new format.", "::handoff undo"] {
        messages.push(ask(&url, "one", &messages).await);
        messages.push(user(next));
    }
    let undone = ask(&url, "one", &messages).await.to_string();
    assert_contains(&undone, "was undone");
    let document = one_left(&run.goes());
    assert_contains(&document.prompt, "Last goal (done): Port the reader");
    assert_eq!(document.next_action, None, "{}", document.prompt);
}

/// The agent's own screen is gone, so the run says why the agent stopped.
#[tokio::test]
async fn a_run_ends_with_the_reason_why_its_agent_stopped() {
    let limited = |_: &Received| Reply::status(429, "Later.").retry_after(3_600);
    let scene = Scene::with(limited, "").await;
    let (run, url) = scene.waiting("claude", &[]);
    let body = Anthropic.body(&[user("Mend the importer.")], false).to_string();
    let url = format!("{url}{}", Anthropic.path());
    let refused = post(&url, Anthropic.headers(), body.into()).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    let part = "baton: the provider's limit is reached; it opens again at ";
    assert_contains(&run.goes().err, part);
}

#[tokio::test]
async fn a_command_in_the_chat_is_no_work_and_names_the_topic() {
    let scene = Scene::with(model, "").await;
    let (run, url) = scene.waiting("claude", &["--topic", "importer"]);
    let mut messages = work(&scene.path("gone"), "Go on.");
    messages.push(ask(&url, "one", &messages).await);
    messages.push(user("::handoff topic parser"));
    ask(&url, "one", &messages).await;
    let document = one_left(&run.goes());
    assert_eq!(document.topic, "parser");
    // The directory is gone, so it is only named, and the work comes from the transcript.
    assert_eq!(document.repository, scene.path("gone").to_str().unwrap());
    assert!(!document.prompt.contains("::handoff"), "{}", document.prompt);
}

#[tokio::test]
async fn an_agent_that_is_killed_leaves_a_handoff_and_its_signal() {
    let scene = Scene::with(model, "").await;
    let (run, url) = scene.waiting("claude", &[]);
    ask(&url, "one", &work(&scene.path("gone"), "Go on.")).await;
    run.signal(Signal::TERM);
    let ran = run.ends();
    ran.said(143, &[]);
    one_left(&ran);
}

/// In print mode an agent shows nothing before its response ends. Another run gets no message.
#[tokio::test]
async fn a_run_without_a_screen_tells_at_once_that_a_draft_is_written() {
    fn slow(seen: &Received) -> Reply {
        match texts(seen.messages()).last() {
            Some(last) if last == "u: Go on." => Reply::text("Done: the importer."),
            _ => Reply::text("## Goal\nMend it.").head_delay(Duration::from_secs(60)),
        }
    }
    let scene = Scene::with(slow, "").await;
    let (other, _) = scene.waiting("codex", &[]);
    let (mut run, url) = scene.waiting("claude", &[]);
    let mut messages = work(&scene.path("gone"), "Go on.");
    messages.push(ask(&url, "one", &messages).await);
    messages.push(user("::handoff the parser next"));
    let began = Instant::now();
    let waits = tokio::spawn(async move { ask(&url, "one", &messages).await });
    let mut lines = BufReader::new(run.stderr()).lines();
    let told = tokio::task::spawn_blocking(move || lines.next().unwrap().unwrap());
    assert_eq!(
        told.await.unwrap(),
        "baton: please wait: a handoff is being written."
    );
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "before the draft is there"
    );
    waits.abort();
    run.goes();
    assert_eq!(other.goes().err, "");
}

/// The essential fields of a document.
const FIELDS: [&str; 7] = [
    "summary",
    "changed_files",
    "commands_run",
    "failed_attempts",
    "open_risks",
    "next_action",
    "verdict_pointer",
];

/// A session whose last test failed, and the lines of Claude Code's own record of it.
fn unfinished(directory: &Path) -> (Vec<Value>, String) {
    let mut messages = work(directory, "Go on.");
    let path = directory.join("src/importer.rs");
    let edit = json!({"file_path": path, "old_string": "a", "new_string": "b"});
    let test = json!({"command": "cargo test importer"});
    let fails = "Exit code 101\ntest bom ... FAILED\nerror: test failed";
    for (id, name, input, result, failed) in [
        ("e", "Edit", edit, "The file has been updated.", false),
        ("t", "Bash", test, fails, true),
    ] {
        let call = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": result, "is_error": failed});
        messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": "Step."}, call]}));
        messages.push(json!({"role": "user", "content": [result]}));
    }
    let said = json!({"role": "assistant", "content": "Done: the importer."});
    let lines = messages.iter().chain([&said]).map(|message| {
        json!({"type": message["role"], "sessionId": "one", "cwd": directory, "message": message}).to_string()
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    (messages, lines)
}

/// Runs the hook for the end of a session like Claude Code, and returns the newest document afterwards.
fn hooked(scene: &Scene, directory: &Path) -> Value {
    let input = json!({"session_id": "one", "transcript_path": scene.path("one.jsonl"), "cwd": directory,
        "hook_event_name": "SessionEnd"});
    fs::write(scene.path("input"), input.to_string()).unwrap();
    let mut hook = scene.baton("handoffs create", &["--auto", "--hook", "--alone"]);
    hook.stdin(File::open(scene.path("input")).unwrap());
    let ran = Ran::from(hook.output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let shown = scene.ran("handoffs show", &["--format", "json"]);
    let document = shown.json();
    let directory = scene
        .state
        .join("handoffs")
        .join(document["id"].as_str().unwrap());
    let markdown = fs::read_to_string(directory.join(MARKDOWN)).unwrap();
    assert_eq!(validate(&shown.out, Some(&markdown)), []);
    let file = fs::read_to_string(ran.out.trim()).unwrap();
    assert!(file.contains(document["id"].as_str().unwrap()), "{file}");
    document
}

/// A hook without `baton run`, and `baton run` itself. A later hook of a session rewrites its document,
/// unless someone has resumed it.
#[tokio::test]
async fn a_hook_leaves_what_a_run_leaves() {
    let scene = Scene::with(model, "").await;
    let directory = scene.path("work");
    repository(&directory);
    let (messages, lines) = unfinished(&directory);
    let (run, url) = scene.waiting("claude", &[]);
    ask(&url, "one", &messages).await;
    let of_run: Value = serde_json::from_str(&one_left(&run.goes()).json()).unwrap();
    fs::write(scene.path("one.jsonl"), &lines).unwrap();
    let first = hooked(&scene, &directory);
    for field in FIELDS.into_iter().chain(["conversation", "topic"]) {
        assert_eq!(first[field], of_run[field], "{field}");
    }
    assert_eq!(first["changed_files"][0]["path"], "src/importer.rs");
    assert_eq!(first["commands_run"][0]["exit"], 101);
    assert_eq!(first["open_risks"][0]["severity"], "block");
    assert_ne!(first["id"], of_run["id"]);
    let more = json!({"type": "user", "sessionId": "one", "message": {"role": "user", "content": "Now the exporter."}});
    fs::write(scene.path("one.jsonl"), format!("{lines}\n{more}")).unwrap();
    let second = hooked(&scene, &directory);
    assert_eq!(second["id"], first["id"]);
    assert!(second["prompt"].as_str().unwrap().contains("Now the exporter."));
    let files = fs::read_dir(scene.state.join("handoffs/work")).unwrap().count();
    assert!(files >= 2, "{files}");
    let store = harness::sqlite(&scene.state);
    let resumed = Conversation {
        key: "resumed".to_owned(),
        principal: LOCAL.to_owned(),
        active: Some(first["id"].as_str().unwrap().parse().unwrap()),
        ..Conversation::default()
    };
    let resumed = vec![StoredRecord::Conversation(Box::new(resumed))];
    store.put("write a conversation", resumed).await.unwrap();
    assert_ne!(hooked(&scene, &directory)["id"], first["id"]);
}

#[tokio::test]
async fn switched_off_a_session_leaves_nothing() {
    for more in [
        "handoff.at_exit = false\n",
        "handoff.documents = false\n",
        "journal.enabled = false\n",
        "store.kind = 'memory'\n",
        "handoff.inject = 'never'\n",
        "handoff.inject = 'shadow'\n",
        "",
    ] {
        let scene = Scene::with(model, more).await;
        let flags: &[&str] = if more.is_empty() { &["--shadow"] } else { &[] };
        let (run, url) = scene.waiting("claude", flags);
        ask(&url, "one", &work(&scene.path("gone"), "Go on.")).await;
        let ran = run.goes();
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{more}");
        assert!(!scene.state.join("handoffs").exists(), "{more}");
    }
}
