//! Where a document's work took place: directory, branch, and the repository's state.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{DocumentSettings, id, settings, store, stored};
use crate::files::documents::{document_of, find, write};
use baton_core::handoffs::document::HandoffDocument;
use baton_core::record::HandoffStatus;

/// Creates a repository on this branch with an uncommitted file. It has no commits if `commits` is false.
fn repository(dir: &Path, branch: &str, commits: bool) {
    std::fs::create_dir_all(dir).unwrap();
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
        let done = Command::new("git")
            .current_dir(dir)
            .args([&who[..], arguments].concat())
            .output();
        assert!(done.unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "-q", "-b", branch]);
    if commits {
        git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    }
    std::fs::write(dir.join(format!("{}.txt", branch.replace('/', "-"))), "x").unwrap();
}

/// Returns a Claude Code session that states its directory and commits on a branch.
fn session(says: &str, commands: &[(&str, &str)]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": [
        {"type": "text", "text": format!("<system-reminder>\n# Environment\n{says}\n</system-reminder>")},
        {"type": "text", "text": "Mend the form."},
    ]})];
    for (at, (command, output)) in commands.iter().enumerate() {
        messages.push(json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": at.to_string(), "name": "Bash", "input": {"command": command}}]}));
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": at.to_string(), "content": output}]}));
    }
    let system = "You are Claude Code, Anthropic's official CLI for Claude.";
    json!({"model": "m", "max_tokens": 9, "system": system, "messages": messages})
}

const COMMITTED: (&str, &str) = (
    "git checkout -b feature/x && git commit -qm form && git branch --show-current",
    "Switched to a new branch 'feature/x'\nfeature/x",
);

async fn document(settings: DocumentSettings, dir: &Path, principal: &str, body: Value) -> HandoffDocument {
    let store = store(dir);
    let mut made = stored(1, 1_000_000);
    made.handoff.principal = principal.into();
    made.transcript = Box::new(move || Some(body.to_string().into()));
    write(&Arc::new(settings), &store, made).await.unwrap();
    document_of(&find(&store, principal, id(1)).await.unwrap().unwrap()).unwrap()
}

fn has_git(dir: &Path) -> bool {
    Command::new("git")
        .current_dir(dir)
        .arg("--version")
        .output()
        .is_ok()
}

fn names(document: &HandoffDocument, file: &str) -> bool {
    document.open_risks.iter().any(|risk| risk.detail.contains(file))
}

#[tokio::test]
async fn the_directory_comes_from_the_request_then_from_its_calls_then_from_the_config() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !has_git(dir) {
        return;
    }
    let [own, other, empty] = ["own", "other", "empty"].map(|name| dir.join(name));
    repository(&own, "feature/x", true);
    repository(&other, "master", true);
    repository(&empty, "main", false);
    let gone = dir.join("gone");
    let named = |directory: &Path| format!(" - Primary working directory: {}", directory.display());
    let in_own = format!("cd {} && make", own.display());
    let rows: [(&str, Value, &str, &Path, &str, &str); 6] = [
        (
            "named by the agent",
            session(&named(&own), &[COMMITTED]),
            "local",
            &own,
            "feature/x",
            "feature-x.txt",
        ),
        // A model may be directed anywhere by text that it reads.
        (
            "named by its calls",
            session("", &[(&in_own, "ok")]),
            "local",
            Path::new(""),
            "",
            "",
        ),
        (
            "configured",
            session("", &[("make", "ok")]),
            "local",
            &other,
            "master",
            "master.txt",
        ),
        (
            "gone",
            session(&named(&gone), &[COMMITTED]),
            "local",
            &gone,
            "feature/x",
            "",
        ),
        (
            "without a commit",
            session(&named(&empty), &[]),
            "local",
            &empty,
            "main",
            "main.txt",
        ),
        (
            "of a client elsewhere",
            session(&named(&own), &[]),
            "alice",
            &own,
            "",
            "",
        ),
    ];
    for (at, (what, body, principal, directory, branch, changed)) in rows.into_iter().enumerate() {
        let mut settings = settings(&dir.join(at.to_string()));
        settings.git_dir = Some(other.clone());
        let made = document(settings, &dir.join(at.to_string()), principal, body).await;
        assert_eq!(made.repository, directory.to_str().unwrap(), "{what}");
        assert_eq!(made.branch, branch, "{what}");
        for file in ["feature-x.txt", "master.txt", "main.txt"] {
            assert_eq!(names(&made, file), file == changed, "{what}: {file}");
        }
    }
}

/// Sessions on one branch supersede each other only if they have the same topic.
#[tokio::test]
async fn two_sessions_of_one_topic_supersede_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(dir.path());
    settings.topic = None;
    let (settings, store) = (Arc::new(settings), store(dir.path()));
    let sessions = [
        ("a", Some("importer")),
        ("b", Some("importer")),
        ("c", Some("parser")),
        ("d", None),
        ("e", None),
        ("d", None),
    ];
    for (n, (session, topic)) in (1..).zip(sessions) {
        let mut made = stored(n, u64::try_from(n).unwrap() * 1_000_000);
        made.handoff.conversation = session.to_owned();
        made.topic = topic.map(str::to_owned);
        write(&settings, &store, made).await.unwrap();
    }
    let mut active = Vec::new();
    for n in 1..=6 {
        let record = find(&store, "local", id(n)).await.unwrap().unwrap();
        active.push(record.status == HandoffStatus::Active);
    }
    assert_eq!(active, [false, true, true, false, true, true]);
}

/// The configured repository is on another branch than the session's commits.
#[tokio::test]
async fn a_configured_repository_on_another_branch_is_not_the_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !has_git(dir) {
        return;
    }
    let other = dir.join("other");
    repository(&other, "master", true);
    let mut settings = settings(dir);
    settings.git_dir = Some(other);
    let made = document(settings, dir, "local", session("", &[COMMITTED])).await;
    assert_eq!(
        (made.repository.as_str(), made.branch.as_str()),
        ("", "feature/x")
    );
    assert!(!names(&made, "master.txt"));
}
