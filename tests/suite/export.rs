//! `baton export`: the active carry-over prompt and the work since, on every wire, and reports about missing
//! parts.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use baton_llm::state::config::HandoffMode;
use baton_llm::state::journal::{self, Recorder};
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness;
use crate::matrix::fixture::{Fixture, PROMPT, handoff, handoff_beside};
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

const WIRES: [Variant; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

/// A secret that the journal omits.
const SECRET: &str = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz";

struct Run {
    fixture: Fixture,
    recorder: Recorder,
    dir: tempfile::TempDir,
}

impl Run {
    async fn new(variant: Variant, replies: impl IntoIterator<Item = Reply>, mode: HandoffMode) -> Self {
        let dir = harness::temp();
        let mut recorder = None;
        let store = harness::sqlite(dir.path());
        let fixture = Fixture::journaled_over(variant, replies, store, |config| {
            config.state_dir = dir.path().to_owned();
            config.journal.enabled = true;
            config.handoff.mode = mode;
            let started = journal::start(&config.journal, dir.path(), &config.handoff.preamble_tags);
            recorder.insert(started.unwrap()).clone()
        })
        .await;
        let recorder = recorder.unwrap();
        Self {
            fixture,
            recorder,
            dir,
        }
    }

    /// Waits until the journal has this many exchanges.
    async fn written(&self, exchanges: usize) {
        self.fixture.baton.events(exchanges).await;
        let recorder = self.recorder.clone();
        let flushed = tokio::task::spawn_blocking(move || recorder.flush(Duration::from_secs(30))).await;
        assert!(flushed.unwrap());
    }

    fn baton(&self, args: &[&str]) -> Output {
        baton(self.dir.path(), args)
    }

    fn said(&self, args: &[&str]) -> String {
        let done = self.baton(args);
        let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{args:?}: {complaint}");
        String::from_utf8(done.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.said(args)).unwrap()
    }

    /// Key of the conversation in the journal.
    fn key(&self) -> String {
        let log = self.said(&["log", "--jsonl"]);
        let row: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        row["conversation"].as_str().unwrap().to_owned()
    }
}

fn baton(dir: &Path, args: &[&str]) -> Output {
    let mut command = harness::program::baton(dir, args);
    command.arg("--state-dir").arg(dir).output().unwrap()
}

/// The parts of an export: speaker, kind, and text.
fn parts(work: &Value) -> Vec<(String, String, String)> {
    let turns = work.as_array().unwrap().iter();
    let parts = turns.flat_map(|turn| {
        let role = turn["role"].as_str().unwrap().to_owned();
        let parts = turn["parts"].as_array().unwrap().clone();
        parts.into_iter().map(move |part| (role.clone(), part))
    });
    let told = parts.map(|(role, part)| {
        let kind = part["kind"].as_str().unwrap().to_owned();
        let what = match kind.as_str() {
            "call" => format!("{} {}", part["tool"].as_str().unwrap(), part["arguments"]),
            "result" => format!(
                "{} {}",
                part["tool"].as_str().unwrap(),
                part["text"].as_str().unwrap()
            ),
            _ => part["text"].as_str().unwrap().to_owned(),
        };
        (role, kind, what)
    });
    told.filter(|(_, kind, _)| kind != "thinking").collect()
}

fn calls() -> Reply {
    Reply::text("Looking at the reader.").call("read_file", json!({"path": "src/reader.rs"}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_and_the_work_since_on_every_wire() {
    for variant in WIRES {
        for stream in [true, false] {
            let about = format!("{} {stream}", variant.model);
            let mended = Reply::text("Mended the reader.");
            let run = Run::new(variant, [handoff(), calls(), mended], HandoffMode::Continue).await;
            let first = run.fixture.ask(&run.fixture.history(), stream).await;
            let told = run.fixture.user(&format!("The key is {SECRET}."));
            let history = [run.fixture.ran(&run.fixture.history(), &first), vec![told]].concat();
            run.fixture.ask(&history, stream).await;
            run.written(2).await;
            run.fixture.assert_clean();

            let key = run.key();
            let export = run.json(&["export", &key[..9], "--format", "json"]);
            assert_eq!(export["conversation"], json!(key), "{about}");
            assert_eq!(export["handoff"]["prompt"], json!(PROMPT), "{about}");
            assert_eq!(
                (&export["notes"], &export["title"]),
                (&json!([]), &json!("Mend the importer.")),
                "{about}"
            );
            let told = parts(&export["work"]);
            let user = &told[told.len() - 2];
            assert!(
                user.0 == "user" && user.2.starts_with("The key is ") && !user.2.contains(SECRET),
                "{about}: {user:?}"
            );
            let kinds: Vec<_> = told.iter().map(|(_, kind, _)| kind.as_str()).collect();
            assert_eq!(
                kinds,
                ["text", "call", "result", "text", "text"],
                "{about}: {told:?}"
            );
            assert_eq!(told[0].2, "Looking at the reader.", "{about}");
            assert_eq!(told[1].2, r#"read_file {"path":"src/reader.rs"}"#, "{about}");
            assert!(
                told[2].2.starts_with("read_file ") && told[2].2.contains("fn main() {}"),
                "{about}: {told:?}"
            );
            assert_eq!(
                told[4],
                ("assistant".into(), "text".into(), "Mended the reader.".into()),
                "{about}"
            );

            let id = export["handoff"]["id"].as_str().unwrap();
            let resume = format!("[[handoff-resume:{id}]]");
            for by in [id, &id[..18], &resume] {
                assert_eq!(run.json(&["export", by, "--format", "json"]), export, "{about}");
            }
            let lines = run.said(&["export", &key, "--format", "jsonl"]);
            let lines: Vec<Value> = lines
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            assert_eq!(lines[0]["handoff"], export["handoff"], "{about}");
            assert_eq!(json!(lines[1..]), export["work"], "{about}");

            let text = run.said(&["export", &key]);
            let order = [
                "# Mend the importer.\n",
                "\n## Carry-over prompt\n",
                PROMPT,
                "\n## Work since\n",
                "\n### Assistant\n\nLooking at the reader.\n",
                "```json\n{\"path\":\"src/reader.rs\"}\n```",
                "\n#### Result of `read_file`",
                "fn main() {}",
                "\n### User\n\nThe key is ",
                "Mended the reader.",
            ];
            let places: Vec<_> = order.iter().map(|part| text.find(part)).collect();
            assert!(
                places.iter().all(Option::is_some) && places.is_sorted(),
                "{about}: {places:?}\n{text}"
            );
            for left_out in ["Go on.", SECRET, "session_handoff", "Handed over"] {
                assert!(!text.contains(left_out), "{about}: {left_out} in\n{text}");
            }
        }
    }
}

/// A hidden call next to the agent's calls belongs to baton and does not count as work. A handoff that ended
/// its response has no work after it yet. A later handoff supersedes an earlier one, which can still be found
/// by its id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_calls_stops_and_superseded_handoffs() {
    for variant in WIRES {
        let run = Run::new(variant, [handoff_beside(calls()), calls()], HandoffMode::Continue).await;
        let first = run.fixture.ask(&run.fixture.history(), true).await;
        run.fixture
            .ask(&run.fixture.ran(&run.fixture.history(), &first), true)
            .await;
        run.written(2).await;
        let export = run.json(&["export", &run.key(), "--format", "json"]);
        assert_eq!(export["handoff"], Value::Null, "nothing fired: {export}");
        let told = parts(&export["work"]);
        assert_eq!(told[0].2, "Mend the importer.");
        assert_eq!(told.last().unwrap().2, r#"read_file {"path":"src/reader.rs"}"#);
        assert!(!export.to_string().contains("session_handoff"), "{export}");
        assert!(
            run.said(&["export", &run.key()])
                .contains("\n## The conversation\n")
        );

        let run = Run::new(variant, [handoff(), calls(), handoff()], HandoffMode::Stop).await;
        let first = run.fixture.ask(&run.fixture.history(), true).await;
        run.written(1).await;
        let export = run.json(&["export", &run.key(), "--format", "json"]);
        assert_eq!(
            (&export["handoff"]["prompt"], &export["work"]),
            (&json!(PROMPT), &json!([]))
        );
        let history = run.fixture.then(&run.fixture.history(), &first, "On with it.");
        let second = run.fixture.ask(&history, true).await;
        run.fixture.ask(&run.fixture.ran(&history, &second), true).await;
        run.written(3).await;
        let later = run.json(&["export", &run.key(), "--format", "json"]);
        assert_eq!(later["work"], json!([]), "{later}");
        let earlier = export["handoff"]["id"].as_str().unwrap();
        assert_ne!(later["handoff"]["id"], json!(earlier));
        let earlier = run.json(&["export", earlier, "--format", "json"]);
        let told: Vec<_> = parts(&earlier["work"]).into_iter().map(|part| part.2).collect();
        assert_eq!(told[..2], ["On with it.", "Looking at the reader."], "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_said() {
    let run = Run::new(ANTHROPIC, [handoff(), calls()], HandoffMode::Continue).await;
    run.fixture.ask(&run.fixture.history(), true).await;
    run.written(1).await;
    let key = run.key();
    let dir = run.dir.path();

    // The store is lost: the journal has the prompt as well.
    let elsewhere = harness::temp();
    std::fs::copy(dir.join(journal::FILE), elsewhere.path().join(journal::FILE)).unwrap();
    let wal = format!("{}-wal", journal::FILE);
    let _ = std::fs::copy(dir.join(&wal), elsewhere.path().join(&wal));
    let done = baton(elsewhere.path(), &["export", &key, "--format", "json"]);
    let export: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(export["handoff"]["prompt"], json!(PROMPT), "{export}");
    assert!(
        export["notes"].to_string().contains("the journal's copy"),
        "{export}"
    );
    assert_eq!(parts(&export["work"]).len(), 2);

    // The journal is lost: the store has the prompt.
    for file in [journal::FILE.to_owned(), wal, format!("{}-shm", journal::FILE)] {
        let _ = std::fs::remove_file(dir.join(file));
    }
    let export = run.json(&["export", &key[..9], "--format", "json"]);
    assert_eq!(
        (&export["handoff"]["prompt"], &export["work"]),
        (&json!(PROMPT), &json!([]))
    );
    assert!(
        export["notes"]
            .to_string()
            .contains("The work since is missing: there is no journal"),
        "{export}"
    );
    let text = run.said(&["export", &key]);
    assert!(
        text.contains("> The work since is missing") && text.trim_end().ends_with(PROMPT),
        "{text}"
    );
    let id = export["handoff"]["id"].as_str().unwrap();
    assert_eq!(run.json(&["export", id, "--format", "json"]), export);

    for (args, exit, told) in [
        (
            &["export", "nope"][..],
            66,
            "there is no conversation and no handoff nope",
        ),
        (&["export", ""], 66, "no conversation"),
        (&["export", &key, "--format", "pdf"], 64, "--format"),
    ] {
        let refused = run.baton(args);
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(exit), "{args:?}: {complaint}");
        assert!(complaint.contains(told), "{args:?}: {complaint}");
    }
}

/// The whole conversation of the agent, including the sentinel, and every exchange as HAR. Works for an older
/// handoff as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_conversation_as_markdown_and_as_har() {
    for variant in WIRES {
        let replies = [Reply::text("Well."), handoff(), Reply::text("On it.")];
        let run = Run::new(variant, replies, HandoffMode::Continue).await;
        let history = run.fixture.history();
        run.fixture.ask(&history, true).await;
        run.fixture.ask(&history, true).await;
        run.written(2).await;
        let key = run.key();
        let whole = run.said(&["export", &key, "--whole"]);
        assert!(!whole.contains("## Carry-over prompt"), "{whole}");
        for part in ["## The conversation", "[[handoff-resume:", "On it."] {
            assert!(whole.contains(part), "{part} in {whole}");
        }
        let har: Value = serde_json::from_str(&run.said(&["export", &key, "--format", "har"])).unwrap();
        let entries = har["log"]["entries"].as_array().unwrap();
        // Two requests from the agent, and three sent upstream.
        assert_eq!(entries.len(), 5, "{}", variant.model);
        let started = |entry: &Value| entry["startedDateTime"].as_str().unwrap().to_owned();
        assert!(started(&entries[0]) <= started(&entries[4]));
        let last = entries[4]["response"]["content"]["text"].as_str().unwrap();
        assert!(last.contains("On it."), "{last}");
    }
}
