//! Drafts of seeded sessions on every wire: required facts are present, secrets are not, and no finished
//! request is shown as open.
//!
//! The sessions of the benchmark (`cargo bench --bench core -- drafts`) are larger.

use baton_core::handoffs::draft::{DraftSpec, Preset, tokens};
use baton_core::record::WireId;
use baton_core::redact::Redactor;
use baton_core::transcript::Transcript;
use baton_core::wire::{Operation, View, WIRES};
use baton_core::work::{DraftIndex, DraftIndexSettings};

#[path = "../../benches/support/history.rs"]
#[allow(dead_code)]
pub(crate) mod history;
#[path = "../../benches/support/sessions.rs"]
pub(crate) mod sessions;

use sessions::Session;

pub(crate) fn settings() -> DraftIndexSettings {
    DraftIndexSettings {
        redactor: Redactor::new(&[]),
        ..DraftIndexSettings::default()
    }
}

pub(crate) fn request(tokens: usize) -> DraftSpec<'static> {
    DraftSpec {
        focus: "",
        preset: Preset::Implement,
        tokens,
        repository: "",
        git: true,
        commands: true,
        why: true,
    }
}

pub(crate) fn view(wire: WireId, body: Vec<u8>) -> View {
    let wire = baton_core::wire::wire(wire);
    wire.read(&body.into(), Operation::Generate).unwrap()
}

/// Percentage of the words that occur in a document.
fn share(words: &[String], text: &str) -> usize {
    let there = words.iter().filter(|word| text.contains(word.as_str())).count();
    there * 100 / words.len()
}

/// The section of a document under this heading.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let at = document
        .find(heading)
        .unwrap_or_else(|| panic!("{heading} in {document}"));
    let rest = &document[at + heading.len()..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

/// Messages of a bundle in turns that are shown as open.
fn open_turns(bundle: &str) -> String {
    let turns = bundle.split("\n### Turn ").skip(1);
    turns
        .filter(|turn| turn.lines().next().unwrap_or_default().contains("(open"))
        .collect()
}

#[test]
fn drafts_keep_what_must_be_kept_and_tell_no_secret_on_every_wire() {
    for wire in WIRES {
        for (seed, turns) in [(1, 30), (2, 200)] {
            let session = Session::new(seed, turns);
            let view = view(wire.id(), session.body(wire.id()));
            let index = DraftIndex::from_transcript(settings(), &Transcript::from_view(&view));
            let (local, bundle) = (
                index.local(&request(4000)).unwrap(),
                index.bundle(&request(4000)).unwrap(),
            );
            let about = format!("{} of {turns} turns", wire.id().name());
            let last = share(&session.kept, &session.last_turns(4000));
            for text in [&local, &bundle] {
                assert!(tokens(text) <= 4000, "{about}: {} tokens", tokens(text));
                let kept = share(&session.kept, text);
                let missing: Vec<_> = session
                    .kept
                    .iter()
                    .filter(|word| !text.contains(word.as_str()))
                    .collect();
                assert!(
                    kept >= 95 && kept >= 2 * last,
                    "{about}: {kept} %, last turns {last} %, {missing:?} in\n{text}"
                );
                let told: Vec<_> = session
                    .secrets
                    .iter()
                    .filter(|secret| text.contains(secret.as_str()))
                    .collect();
                assert!(told.is_empty(), "{about}: {told:?} in {text}");
            }
            let open = [section(&local, "## Task"), &open_turns(&bundle)].concat();
            let finished: Vec<_> = session
                .finished
                .iter()
                .filter(|id| open.contains(id.as_str()))
                .collect();
            assert!(finished.is_empty(), "{about}: {finished:?} told as open");
            assert!(
                section(&local, "## Task").contains(&session.open),
                "{about}: {local}"
            );
        }
    }
}

/// The command needs no provider, because the journal contains the agent's requests.
mod command {
    use std::path::Path;
    use std::process::{Command, Output};

    use baton_llm::state::journal;
    use baton_strict::{Autopilot, Options, Strict};
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::sessions::Session;
    use crate::harness::{self, Baton};
    use crate::matrix::variants::{self, Variant};

    fn baton(dir: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.env_clear().env("HOME", dir).env("XDG_CONFIG_HOME", dir);
        if let Ok(path) = std::env::var("PATH") {
            command.env("PATH", path);
        }
        command.args(args).arg("--state-dir").arg(dir).output().unwrap()
    }

    fn said(dir: &Path, args: &[&str]) -> String {
        let done = baton(dir, args);
        let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{args:?}: {complaint}");
        String::from_utf8(done.stdout).unwrap()
    }

    fn json_of(dir: &Path, args: &[&str]) -> Value {
        serde_json::from_str(&said(dir, args)).unwrap()
    }

    /// An agent sends a session through the proxy. Then everything is stopped.
    async fn played(
        variant: &Variant,
        session: &Session,
        wire: baton_core::record::WireId,
    ) -> tempfile::TempDir {
        let provider = Strict::start(Autopilot, Options::default()).await.unwrap();
        let dir = harness::temp();
        let mut config = harness::config(&provider.url());
        if let Some((name, directory)) = variant.place {
            let mut place = config.upstreams["openai"].clone();
            place.base_url = format!("{}{directory}", provider.url());
            config.upstreams.insert(name.to_owned(), place);
        }
        config.state_dir = dir.path().to_owned();
        config.journal.enabled = true;
        let tap = journal::start(&config.journal, dir.path(), &config.handoff.preamble_tags).unwrap();
        let baton = Baton::journaled(config, harness::sqlite(dir.path()), harness::KEY, tap.clone());
        let body: Bytes = session.body(wire).into();
        // Whatever the provider's response, the request was made.
        baton.post((variant.path)(false), variant.headers, body).await;
        let written = tokio::task::spawn_blocking(move || tap.flush(std::time::Duration::from_secs(30)));
        assert!(written.await.unwrap());
        dir
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_handoff_is_drafted_from_the_journal_of_every_wire() {
        use baton_core::record::WireId;

        let wires = [
            (WireId::Anthropic, variants::ANTHROPIC),
            (WireId::OpenaiChat, variants::CHAT),
            (WireId::OpenaiResponses, variants::RESPONSES),
            (WireId::Gemini, variants::GEMINI),
            (WireId::Ollama, variants::OLLAMA),
        ];
        for (wire, variant) in wires {
            let session = Session::new(7, 40);
            let dir = played(&variant, &session, wire).await;
            let dir = dir.path();
            let log = said(dir, &["log", "--jsonl"]);
            let row: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
            let key = row["conversation"].as_str().unwrap();
            let made = json_of(
                dir,
                &["handoffs", "draft", &key[..8], "--json", "--tokens", "4000"],
            );
            let document = made["document"].as_str().unwrap();
            assert_eq!(made["origin"], "local", "{made}");
            assert_eq!(made["tokens"], baton_core::handoffs::draft::tokens(document));
            assert!(document.contains(&session.open), "{}: {document}", wire.name());
            let id = made["handoff"].as_str().unwrap();
            let stored = json_of(dir, &["handoffs", "show", id, "--json"]);
            assert_eq!(
                (&stored["origin"], &stored["wire"]),
                (&json!("local"), &json!(wire.name()))
            );
            let prompt = stored["prompt"].as_str().unwrap();
            assert!(
                prompt.starts_with("<handoff-context>\n## Task\n") && prompt.contains(document.trim()),
                "{prompt}"
            );
            assert_eq!(stored["resume"], format!("[[handoff-resume:{id}]]"));
            // Files that no user writes contain the tokens counted by the provider, which may refuse the
            // request.
            let counted = row["tokens"][0].as_object().map(|tokens| {
                let kinds = ["input", "cache_read", "cache_write", "output"];
                kinds
                    .iter()
                    .filter_map(|kind| tokens[*kind].as_i64())
                    .sum::<i64>()
            });
            for yaml in [
                said(dir, &["handoffs", "show", id, "--format", "yaml"]),
                said(
                    dir,
                    &[
                        "handoffs",
                        "create",
                        "--conversation",
                        key,
                        "--auto",
                        "--alone",
                        "-o",
                        "-",
                    ],
                ),
            ] {
                let file = baton_core::handoffs::yaml::read(&yaml).unwrap().file;
                assert_eq!(
                    file.tokens_used,
                    counted.unwrap_or_default(),
                    "{}: {yaml}",
                    wire.name()
                );
            }
            for text in [log.as_str(), prompt] {
                assert!(
                    !session
                        .secrets
                        .iter()
                        .any(|secret| text.contains(secret.as_str())),
                    "{}",
                    wire.name()
                );
            }
        }
    }

    const GOAL: &str = "implement the importer next";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn bundles_given_documents_and_flags() {
        let session = Session::new(3, 30);
        let played = played(
            &variants::ANTHROPIC,
            &session,
            baton_core::record::WireId::Anthropic,
        )
        .await;
        let dir = played.path();
        let row: Value =
            serde_json::from_str(said(dir, &["log", "--jsonl"]).lines().next().unwrap()).unwrap();
        let key = row["conversation"].as_str().unwrap();

        let bundle = said(
            dir,
            &["handoffs", "draft", key, "--bundle", "--focus", "the exporter"],
        );
        assert!(
            bundle.starts_with("Write the carry-over") && bundle.contains("The goal:\n\nthe exporter\n\n"),
            "{bundle}"
        );
        assert!(
            bundle.contains("### Turn 1 (done") && bundle.contains(&session.open),
            "{bundle}"
        );
        assert_eq!(
            said(dir, &["handoffs", "list", "--json"]).trim(),
            "[]",
            "nothing is stored"
        );

        let answer = dir.join("answer.md");
        std::fs::write(&answer, "## Goal\nGo on.\n").unwrap();
        let made = json_of(
            dir,
            &[
                "handoffs",
                "draft",
                key,
                "--from",
                answer.to_str().unwrap(),
                "--json",
            ],
        );
        let document = made["document"].as_str().unwrap();
        assert!(
            document.starts_with("## Goal\nGo on.\n\n## Also known\n") && document.contains(&session.open),
            "{document}"
        );
        assert_eq!(made["origin"], "person");

        let local = json_of(dir, &["handoffs", "draft", key, "--focus", GOAL, "--json"]);
        let from = [
            "handoffs",
            "draft",
            key,
            "--from",
            answer.to_str().unwrap(),
            "--focus",
            GOAL,
            "--json",
        ];
        for made in [local, json_of(dir, &from)] {
            let document = made["document"].as_str().unwrap();
            assert!(
                document.starts_with("Goal: implement the importer next\n\n## "),
                "{document}"
            );
            let id = made["handoff"].as_str().unwrap();
            let stored = json_of(dir, &["handoffs", "show", id, "--json"]);
            let prompt = stored["prompt"].as_str().unwrap();
            assert!(
                prompt.starts_with("<handoff-context>\nGoal: implement the importer next\n"),
                "{prompt}"
            );
        }

        let plain = said(
            dir,
            &["handoffs", "draft", key, "--tokens", "4000", "--no-commands"],
        );
        assert!(
            plain.contains("begin a new session's first message with:\n[[handoff-resume:"),
            "{plain}"
        );
        let latest = said(dir, &["handoffs", "show"]);
        assert!(!latest.contains("Failed, and not yet settled"), "{latest}");

        let small = baton(dir, &["handoffs", "draft", key, "--tokens", "100"]);
        let complaint = String::from_utf8_lossy(&small.stderr).into_owned();
        assert_eq!(small.status.code(), Some(64), "{complaint}");
        assert!(
            complaint.contains("the required parts take ≈") && complaint.contains("--tokens "),
            "{complaint}"
        );
        for (args, told) in [
            (
                &["handoffs", "draft", "nope"][..],
                "there is no conversation nope",
            ),
            (&["handoffs", "draft", key, "--from", "/nowhere"], "/nowhere"),
            (&["handoffs", "draft", key, "--preset", "all"], "--preset"),
        ] {
            let refused = baton(dir, args);
            let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(
                !refused.status.success() && complaint.contains(told),
                "{args:?}: {complaint}"
            );
        }
    }
}
