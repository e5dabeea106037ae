//! Documents that the sessions of `baton run` leave when their agent exits.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use baton_core::handoffs::document::{HandoffDocument, validate};
use baton_core::record::{Conversation, LOCAL};
use baton_llm::state::files::documents::{JSON, MARKDOWN};
use baton_llm::state::store::records::StoredRecord;
use baton_strict::{Received, Reply};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::agents::{Scene, pid, text};
use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{PROMPT, handoff, texts};
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

/// Starts a run whose agent waits for its file `go`, and captures its standard error.
fn started(scene: &Scene, name: &str, options: &[&str]) -> Child {
    let script = format!(
        "echo \"$ANTHROPIC_BASE_URL\" > $T/{name}.url; while [ ! -e $T/{name}.go ]; do sleep 0.02; done"
    );
    scene.agent(name, &script);
    let mut run = scene.baton("run", &[options, &[name]].concat());
    // Sessions work below the start directory of their run.
    run.current_dir(scene.path(""));
    run.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(scene: &Scene, name: &str, run: Child) -> Output {
    fs::write(scene.path(&format!("{name}.go")), "").unwrap();
    run.wait_with_output().unwrap()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// A session's messages: it works in this directory, and has done something.
fn work(directory: &Path, last: &str) -> Vec<Value> {
    let says = format!(
        "<system-reminder>\n# Environment\n - Primary working directory: {}\n</system-reminder>",
        directory.display()
    );
    vec![
        json!({"role": "user", "content": [
            {"type": "text", "text": says},
            {"type": "text", "text": "Mend the importer."},
        ]}),
        json!({"role": "assistant", "content": "Looking."}),
        user(last),
    ]
}

/// Sends a request of a session to the agent's URL, and returns the response.
async fn ask(url: &str, session: &str, messages: &[Value]) -> Value {
    let mut headers = Anthropic.headers().to_vec();
    headers.push(("x-claude-code-session-id", session));
    let mut body = Anthropic.body(messages, true);
    body["system"] = json!("You are Claude Code, Anthropic's official CLI for Claude.");
    for name in ["Edit", "Bash"] {
        let tool = json!({"name": name, "description": "A tool.", "input_schema": {"type": "object"}});
        body["tools"].as_array_mut().unwrap().push(tool);
    }
    let body = body.to_string();
    let heard = post(&format!("{url}{}", Anthropic.path()), &headers, body.into()).await;
    assert_eq!(heard.status, 200, "{}", heard.text());
    let message = Anthropic.parse(&heard.raw, true, false).unwrap();
    json!({"role": "assistant", "content": message.content})
}

/// Documents named on standard error.
fn left(out: &Output) -> Vec<(PathBuf, HandoffDocument)> {
    let said = text(&out.stderr);
    let directories = said.lines().filter_map(|line| {
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

fn repository(dir: &Path) -> bool {
    fs::create_dir_all(dir).unwrap();
    let git = Command::new("git")
        .current_dir(dir)
        .args(["init", "-q", "-b", "feature/x"])
        .status();
    git.is_ok_and(|status| status.success())
}

#[tokio::test]
async fn a_session_with_work_since_its_last_handoff_leaves_one() {
    let scene = Scene::with(model, "").await;
    let directory = scene.path("work");
    let has_git = repository(&directory);
    let other = started(&scene, "other", &[]);
    let run = started(&scene, "claude", &["--topic", "importer"]);
    let (url, others) = (scene.wrote("claude.url"), scene.wrote("other.url"));
    assert!(url.contains("/r/") && url.ends_with("/t/importer"), "{url}");
    ask(&others, "elsewhere", &work(&directory, "Go on.")).await;
    ask(&url, "one", &work(&directory, "Go on.")).await;
    // The whole work of this session is handed over.
    ask(&url, "two", &work(&directory, "Hand over.")).await;
    // The proxy continues for the other agent.
    let out = ended(&scene, "claude", run);
    assert!(out.status.success());
    let all = left(&out);
    assert_eq!(all.len(), 1, "{}", text(&out.stderr));
    let (dir, document) = &all[0];
    assert_eq!(
        (document.topic.as_str(), document.origin.as_str()),
        ("importer", "local")
    );
    assert_eq!(document.repository, directory.to_str().unwrap());
    if has_git {
        assert_eq!(document.branch, "feature/x");
    }
    assert_contains(&document.prompt, "Mend the importer.");
    let listed = scene.output("handoffs list", &["--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert!(text(&out.stderr).contains(&format!("resume {}`", &document.id.to_string()[..13])));
    // A run that sends nothing leaves nothing, and neither does one whose session has no new work.
    let run = started(&scene, "codex", &[]);
    scene.wrote("codex.url");
    assert_eq!(left(&ended(&scene, "codex", run)).len(), 0);
    assert!(dir.is_dir());
    let out = ended(&scene, "other", other);
    let all = left(&out);
    assert_eq!(all.len(), 1, "{}", text(&out.stderr));
    assert_ne!(all[0].1.conversation, document.conversation);
    assert_eq!(all[0].1.topic, all[0].1.conversation);
}

/// The next step of the handoff that was undone is none of the finished work after it.
#[tokio::test]
async fn after_an_undo_finished_work_is_not_the_next_step() {
    let scene = Scene::with(model, "").await;
    let run = started(&scene, "claude", &[]);
    let url = scene.wrote("claude.url");
    let mut messages = work(&scene.path("work"), "Hand over.");
    for next in ["Port the reader to the new format.", "::handoff undo"] {
        messages.push(ask(&url, "one", &messages).await);
        messages.push(user(next));
    }
    let undone = ask(&url, "one", &messages).await.to_string();
    assert!(undone.contains("was undone"), "{undone}");
    let out = ended(&scene, "claude", run);
    let [(_, document)] = &left(&out)[..] else {
        panic!("{}", text(&out.stderr))
    };
    assert_contains(&document.prompt, "Last goal (done): Port the reader");
    assert_eq!(document.next_action, None, "{}", document.prompt);
}

/// The agent's own screen is gone, so the run says why the agent stopped.
#[tokio::test]
async fn a_run_ends_with_the_reason_why_its_agent_stopped() {
    let limited = |_: &Received| Reply::status(429, "Later.").retry_after(3_600);
    let scene = Scene::with(limited, "").await;
    let run = started(&scene, "claude", &[]);
    let url = format!("{}{}", scene.wrote("claude.url"), Anthropic.path());
    let body = Anthropic.body(&[user("Mend the importer.")], false).to_string();
    let refused = post(&url, Anthropic.headers(), body.into()).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    let out = ended(&scene, "claude", run);
    let said = text(&out.stderr);
    let part = "baton: the provider's limit is reached; it opens again at ";
    assert_contains(&said, part);
}

#[tokio::test]
async fn a_command_in_the_chat_is_no_work_and_names_the_topic() {
    let scene = Scene::with(model, "").await;
    let run = started(&scene, "claude", &["--topic", "importer"]);
    let url = scene.wrote("claude.url");
    let mut messages = work(&scene.path("gone"), "Go on.");
    ask(&url, "one", &messages).await;
    messages.push(json!({"role": "assistant", "content": "Done: the importer."}));
    messages.push(user("::handoff topic parser"));
    ask(&url, "one", &messages).await;
    let out = ended(&scene, "claude", run);
    let all = left(&out);
    assert_eq!(all.len(), 1, "{}", text(&out.stderr));
    let document = &all[0].1;
    assert_eq!(document.topic, "parser");
    // The directory is gone, so it is only named, and the work comes from the transcript.
    assert_eq!(document.repository, scene.path("gone").to_str().unwrap());
    assert!(!document.prompt.contains("::handoff"), "{}", document.prompt);
}

#[tokio::test]
async fn an_agent_that_is_killed_leaves_a_handoff_and_its_signal() {
    let scene = Scene::with(model, "").await;
    let run = started(&scene, "claude", &[]);
    let url = scene.wrote("claude.url");
    ask(&url, "one", &work(&scene.path("gone"), "Go on.")).await;
    kill_process(pid(&run), Signal::TERM).unwrap();
    let out = run.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(143), "{}", text(&out.stderr));
    assert_eq!(left(&out).len(), 1, "{}", text(&out.stderr));
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
    let other = started(&scene, "codex", &[]);
    let mut run = started(&scene, "claude", &[]);
    let url = scene.wrote("claude.url");
    scene.wrote("codex.url");
    let mut messages = work(&scene.path("gone"), "Go on.");
    ask(&url, "one", &messages).await;
    messages.push(json!({"role": "assistant", "content": "Done: the importer."}));
    messages.push(user("::handoff the parser next"));
    let began = Instant::now();
    let waits = tokio::spawn(async move { ask(&url, "one", &messages).await });
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let told = tokio::task::spawn_blocking(move || lines.next().unwrap().unwrap());
    assert_eq!(told.await.unwrap(), "baton: a handoff is being written.");
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "before the draft is there"
    );
    waits.abort();
    ended(&scene, "claude", run);
    assert_eq!(text(&ended(&scene, "codex", other).stderr), "");
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
    let mut hook = scene.baton("handoffs create", &["--auto", "--hook", "--alone"]);
    let mut hook = hook
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    write!(hook.stdin.take().unwrap(), "{input}").unwrap();
    let out = hook.wait_with_output().unwrap();
    assert!(
        out.status.success() && out.stderr.is_empty(),
        "{}",
        text(&out.stderr)
    );
    let shown = scene.output("handoffs show", &["--format", "json"]);
    let document: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let directory = scene
        .state
        .join("handoffs")
        .join(document["id"].as_str().unwrap());
    let markdown = fs::read_to_string(directory.join(MARKDOWN)).unwrap();
    assert_eq!(validate(&text(&shown.stdout), Some(&markdown)), []);
    let file = fs::read_to_string(text(&out.stdout).trim()).unwrap();
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
    let run = started(&scene, "claude", &[]);
    ask(&scene.wrote("claude.url"), "one", &messages).await;
    let out = ended(&scene, "claude", run);
    let all = left(&out);
    let of_run: Value = serde_json::from_str(&all[0].1.json()).unwrap();
    fs::write(scene.path("one.jsonl"), &lines).unwrap();
    let first = hooked(&scene, &directory);
    for field in FIELDS {
        assert_eq!(first[field], of_run[field], "{field}");
    }
    assert_eq!(first["changed_files"][0]["path"], "src/importer.rs");
    assert_eq!(first["commands_run"][0]["exit"], 101);
    assert_eq!(first["open_risks"][0]["severity"], "block");
    assert_ne!(first["id"], of_run["id"]);
    assert_eq!(
        (&first["conversation"], &first["topic"]),
        (&of_run["conversation"], &of_run["topic"])
    );
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
    ] {
        let scene = Scene::with(model, more).await;
        let run = started(&scene, "claude", &[]);
        let url = scene.wrote("claude.url");
        ask(&url, "one", &work(&scene.path("gone"), "Go on.")).await;
        let out = ended(&scene, "claude", run);
        assert!(out.status.success());
        assert_eq!(text(&out.stderr), "", "{more}");
        assert!(!scene.state.join("handoffs").exists(), "{more}");
    }
}
