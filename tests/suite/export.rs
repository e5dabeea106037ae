//! `baton export`: the active carry-over prompt and the work since, on every wire, and reports about missing
//! parts.

use std::process::Output;

use baton_llm::state::config::HandoffMode;
use baton_llm::state::journal;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness;
use crate::harness::program::{baton_in, printed, refused};
use crate::harness::texts::assert_contains;
use crate::matrix::fixture::{PROMPT, handoff, handoff_beside};
use crate::matrix::journaled::Journaled;
use crate::matrix::variants::{ANTHROPIC, Variant, WIRES};

/// A secret that the journal omits.
const SECRET: &str = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz";

struct Run(Journaled);

impl Run {
    async fn new(variant: Variant, replies: impl IntoIterator<Item = Reply>, mode: HandoffMode) -> Self {
        Self(Journaled::with(variant, replies, |config| config.handoff.mode = mode).await)
    }

    fn baton(&self, line: &str) -> Output {
        baton_in(self.0.dir.path(), line)
    }

    fn said(&self, line: &str) -> String {
        printed(self.baton(line))
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.said(line)).unwrap()
    }

    /// Key of the conversation in the journal.
    fn key(&self) -> String {
        let log = self.said("log --jsonl");
        let row: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        row["conversation"].as_str().unwrap().to_owned()
    }
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

/// After a handoff by a chat command nothing was sent yet, and the work before it is not exported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_without_a_request_since() {
    let replies = [calls(), Reply::text("Mended the reader.")];
    let run = Run::new(ANTHROPIC, replies, HandoffMode::Continue).await;
    let stage = &run.0.fixture;
    let first = stage.ask(&stage.history(), true).await;
    let told = [stage.ran(&stage.history(), &first), vec![stage.user("Go on.")]].concat();
    let second = stage.ask(&told, true).await;
    let command = stage.user("::handoff --method local --force --no-git the writer");
    let commanded = [told, second.keep, vec![command]].concat();
    let third = stage.ask(&commanded, true).await;
    run.0.written(3).await;
    let key = run.key();
    let export = run.json(&format!("export {key} --format json"));
    let id = export["handoff"]["id"].as_str().expect("the handoff is active");
    assert_eq!((&export["work"], &export["notes"]), (&json!([]), &json!([])));
    assert_eq!(export["title"], json!("Mend the importer."));
    assert!(
        export["model"].is_string() && export["exchange"].is_string(),
        "{export}"
    );
    assert_eq!(run.json(&format!("export {id} --format json")), export);
    let undo = [commanded, third.keep, vec![stage.user("::handoff undo")]].concat();
    stage.ask(&undo, true).await;
    run.0.written(4).await;
    let whole = run.json(&format!("export {key} --format json"));
    assert_eq!(whole["handoff"], json!(null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_and_the_work_since_on_every_wire() {
    for variant in WIRES {
        for stream in [true, false] {
            let about = format!("{} {stream}", variant.model);
            let mended = Reply::text("Mended the reader.");
            let run = Run::new(variant, [handoff(), calls(), mended], HandoffMode::Continue).await;
            let first = run.0.fixture.ask(&run.0.fixture.history(), stream).await;
            let told = run.0.fixture.user(&format!("The key is {SECRET}."));
            let history = [run.0.fixture.ran(&run.0.fixture.history(), &first), vec![told]].concat();
            run.0.fixture.ask(&history, stream).await;
            run.0.written(2).await;
            run.0.fixture.assert_clean();

            let key = run.key();
            let export = run.json(&format!("export {} --format json", &key[..9]));
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
                assert_eq!(run.json(&format!("export {by} --format json")), export, "{about}");
            }
            let lines = run.said(&format!("export {key} --format jsonl"));
            let lines: Vec<Value> = lines
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            assert_eq!(lines[0]["handoff"], export["handoff"], "{about}");
            assert_eq!(json!(lines[1..]), export["work"], "{about}");

            let text = run.said(&format!("export {key}"));
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
        let first = run.0.fixture.ask(&run.0.fixture.history(), true).await;
        run.0
            .fixture
            .ask(&run.0.fixture.ran(&run.0.fixture.history(), &first), true)
            .await;
        run.0.written(2).await;
        let export = run.json(&format!("export {} --format json", &run.key()));
        assert_eq!(export["handoff"], Value::Null, "nothing fired: {export}");
        let told = parts(&export["work"]);
        assert_eq!(told[0].2, "Mend the importer.");
        assert_eq!(told.last().unwrap().2, r#"read_file {"path":"src/reader.rs"}"#);
        assert!(!export.to_string().contains("session_handoff"), "{export}");
        assert_contains(
            &run.said(&format!("export {}", &run.key())),
            "\n## The conversation\n",
        );

        let run = Run::new(variant, [handoff(), calls(), handoff()], HandoffMode::Stop).await;
        let first = run.0.fixture.ask(&run.0.fixture.history(), true).await;
        run.0.written(1).await;
        let export = run.json(&format!("export {} --format json", &run.key()));
        assert_eq!(
            (&export["handoff"]["prompt"], &export["work"]),
            (&json!(PROMPT), &json!([]))
        );
        let history = run
            .0
            .fixture
            .then(&run.0.fixture.history(), &first, "On with it.");
        let second = run.0.fixture.ask(&history, true).await;
        run.0
            .fixture
            .ask(&run.0.fixture.ran(&history, &second), true)
            .await;
        run.0.written(3).await;
        let later = run.json(&format!("export {} --format json", &run.key()));
        assert_eq!(later["work"], json!([]), "{later}");
        let earlier = export["handoff"]["id"].as_str().unwrap();
        assert_ne!(later["handoff"]["id"], json!(earlier));
        let earlier = run.json(&format!("export {earlier} --format json"));
        let told: Vec<_> = parts(&earlier["work"]).into_iter().map(|part| part.2).collect();
        assert_eq!(told[..2], ["On with it.", "Looking at the reader."], "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_said() {
    let run = Run::new(ANTHROPIC, [handoff(), calls()], HandoffMode::Continue).await;
    run.0.fixture.ask(&run.0.fixture.history(), true).await;
    run.0.written(1).await;
    let key = run.key();
    let dir = run.0.dir.path();

    // The store is lost: the journal has the prompt as well.
    let elsewhere = harness::temp();
    std::fs::copy(dir.join(journal::FILE), elsewhere.path().join(journal::FILE)).unwrap();
    let wal = format!("{}-wal", journal::FILE);
    let _ = std::fs::copy(dir.join(&wal), elsewhere.path().join(&wal));
    let done = baton_in(elsewhere.path(), &format!("export {key} --format json"));
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
    let export = run.json(&format!("export {} --format json", &key[..9]));
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
    let text = run.said(&format!("export {key}"));
    assert!(
        text.contains("> The work since is missing") && text.trim_end().ends_with(PROMPT),
        "{text}"
    );
    let id = export["handoff"]["id"].as_str().unwrap();
    assert_eq!(run.json(&format!("export {id} --format json")), export);

    for (line, exit, told) in [
        ("export nope", 66, "there is no conversation and no handoff nope"),
        ("export ''", 66, "no conversation"),
        (&format!("export {key} --format pdf"), 64, "--format"),
    ] {
        refused(&run.baton(line), exit, &[told]);
    }
}

/// The whole conversation of the agent, including the sentinel, and every exchange as HAR. Works for an older
/// handoff as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_conversation_as_markdown_and_as_har() {
    for variant in WIRES {
        let replies = [Reply::text("Well."), handoff(), Reply::text("On it.")];
        let run = Run::new(variant, replies, HandoffMode::Continue).await;
        let history = run.0.fixture.history();
        run.0.fixture.ask(&history, true).await;
        run.0.fixture.ask(&history, true).await;
        run.0.written(2).await;
        let key = run.key();
        let whole = run.said(&format!("export {key} --whole"));
        assert!(!whole.contains("## Carry-over prompt"), "{whole}");
        for part in ["## The conversation", "[[handoff-resume:", "On it."] {
            assert!(whole.contains(part), "{part} in {whole}");
        }
        let har: Value = serde_json::from_str(&run.said(&format!("export {key} --format har"))).unwrap();
        let entries = har["log"]["entries"].as_array().unwrap();
        // Two requests from the agent, and three sent upstream.
        assert_eq!(entries.len(), 5, "{}", variant.model);
        let started = |entry: &Value| entry["startedDateTime"].as_str().unwrap().to_owned();
        assert!(started(&entries[0]) <= started(&entries[4]));
        let last = entries[4]["response"]["content"]["text"].as_str().unwrap();
        assert!(last.contains("On it."), "{last}");
    }
}
