//! What the sessions of `baton run` leave when their agent exits.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use baton_core::handoffs::document::fields::{HandoffDocument, validate};
use baton_llm::state::files::documents::{JSON, MARKDOWN};
use baton_strict::{Received, Reply};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::agents::{Scene, pid, text};
use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{PROMPT, handoff, texts};
use crate::harness::{AgentWire, post};

/// Hands over where it is told to, and answers everything else.
fn model(seen: &Received) -> Reply {
    match texts(seen.messages()).last() {
        Some(last) if last == "u: Hand over." => handoff(),
        Some(last) if *last == format!("u: {PROMPT}") => Reply::text("Fresh."),
        _ => Reply::text("Done: the importer."),
    }
}

/// A run whose agent waits until its file `go` is there, with what it writes to standard error.
fn started(scene: &Scene, name: &str, options: &[&str]) -> Child {
    let script = format!(
        "echo \"$ANTHROPIC_BASE_URL\" > $T/{name}.url; while [ ! -e $T/{name}.go ]; do sleep 0.02; done"
    );
    scene.agent(name, &script);
    let mut run = scene.baton("run", &[options, &[name]].concat());
    run.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(scene: &Scene, name: &str, run: Child) -> Output {
    fs::write(scene.path(&format!("{name}.go")), "").unwrap();
    run.wait_with_output().unwrap()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// A session's messages: it works in this folder, and has done something.
fn work(folder: &Path, last: &str) -> Vec<Value> {
    let says = format!(
        "<system-reminder>\n - Primary working directory: {}\n</system-reminder>",
        folder.display()
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

/// A request of a session, through the URL that an agent was given.
async fn ask(url: &str, session: &str, messages: &[Value]) {
    let mut headers = Anthropic.headers().to_vec();
    headers.push(("x-claude-code-session-id", session));
    let body = Anthropic.body(messages, true).to_string();
    let heard = post(&format!("{url}{}", Anthropic.path()), &headers, body.into()).await;
    assert_eq!(heard.status, 200, "{}", heard.text());
}

/// The documents that standard error names.
fn left(out: &Output) -> Vec<(PathBuf, HandoffDocument)> {
    let said = text(&out.stderr);
    let folders = said.lines().filter_map(|line| {
        let rest = line.strip_prefix("baton: this session's handoff is in ")?;
        Some(PathBuf::from(rest.split(';').next()?))
    });
    let read = |folder: PathBuf| {
        let json = fs::read_to_string(folder.join(JSON)).unwrap();
        let markdown = fs::read_to_string(folder.join(MARKDOWN)).unwrap();
        assert_eq!(validate(&json, Some(&markdown)), []);
        let document = HandoffDocument::read(&json).unwrap();
        (folder, document)
    };
    folders.map(read).collect()
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
    let folder = scene.path("work");
    let has_git = repository(&folder);
    let other = started(&scene, "other", &[]);
    let run = started(&scene, "claude", &["--topic", "importer"]);
    let (url, others) = (scene.wrote("claude.url"), scene.wrote("other.url"));
    assert!(url.contains("/r/") && url.ends_with("/t/importer"), "{url}");
    ask(&others, "elsewhere", &work(&folder, "Go on.")).await;
    ask(&url, "one", &work(&folder, "Go on.")).await;
    // All of this session's work is handed over.
    ask(&url, "two", &work(&folder, "Hand over.")).await;
    // The proxy goes on for the other agent.
    let out = ended(&scene, "claude", run);
    assert!(out.status.success());
    let all = left(&out);
    assert_eq!(all.len(), 1, "{}", text(&out.stderr));
    let (dir, document) = &all[0];
    assert_eq!(
        (document.topic.as_str(), document.origin.as_str()),
        ("importer", "local")
    );
    assert_eq!(document.repository, folder.to_str().unwrap());
    if has_git {
        assert_eq!(document.branch, "feature/x");
    }
    assert!(
        document.prompt.contains("Mend the importer."),
        "{}",
        document.prompt
    );
    let listed = scene.output("handoffs list", &["--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert!(text(&out.stderr).contains(&format!("resume {}`", &document.id.to_string()[..13])));
    // A run that sends nothing leaves nothing, and neither does one whose session has nothing new.
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
    // The folder is gone: it is named, and the transcript alone says what was done.
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

/// An agent in print mode shows nothing before its answer ends. Another run is not told.
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
