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

    use baton_core::record::WireId;
    use baton_llm::state::journal;
    use baton_strict::{Autopilot, Options, Strict};
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::sessions::Session;
    use crate::harness::program::{baton_in, printed, refused};
    use crate::harness::texts::{assert_begins, assert_contains, assert_lacks, assert_members};
    use crate::harness::{self, Baton};
    use crate::matrix::variants::{self, Variant};

    fn said(dir: &Path, line: &str) -> String {
        printed(baton_in(dir, line))
    }

    fn json_of(dir: &Path, line: &str) -> Value {
        serde_json::from_str(&said(dir, line)).unwrap()
    }

    /// An agent sends a session through the proxy. Then everything is stopped.
    async fn played(variant: &Variant, session: &Session, wire: WireId) -> tempfile::TempDir {
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
            let log = said(dir, "log --jsonl");
            let row: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
            let key = row["conversation"].as_str().unwrap();
            let made = json_of(dir, &format!("handoffs draft {} --json --tokens 4000", &key[..8]));
            let document = made["document"].as_str().unwrap();
            assert_eq!(made["origin"], "local", "{made}");
            assert_eq!(made["tokens"], baton_core::handoffs::draft::tokens(document));
            assert!(document.contains(&session.open), "{}: {document}", wire.name());
            let id = made["handoff"].as_str().unwrap();
            let stored = json_of(dir, &format!("handoffs show {id} --json"));
            assert_members(&stored, &json!({"origin": "local", "wire": wire.name()}));
            let prompt = stored["prompt"].as_str().unwrap();
            assert_begins(prompt, "<handoff-context>\n## Task\n");
            assert_contains(prompt, document.trim());
            assert_eq!(stored["resume"], format!("[[handoff-resume:{id}]]"));
            // Files that no user writes contain the tokens counted by the provider, which may refuse the
            // request.
            let counted = row["tokens"][0].as_object().map(|tokens| {
                let kinds = ["input", "cache_read", "cache_write", "output"].iter();
                kinds.filter_map(|kind| tokens[*kind].as_i64()).sum::<i64>()
            });
            for command in [
                format!("handoffs show {id} --format yaml"),
                format!("handoffs create --conversation {key} --auto --alone -o -"),
            ] {
                let yaml = said(dir, &command);
                let file = baton_core::handoffs::yaml::read(&yaml).unwrap().file;
                assert_eq!(file.tokens_used, counted.unwrap_or_default(), "{wire:?}: {yaml}");
            }
            for secret in &session.secrets {
                assert_lacks(&log, secret);
                assert_lacks(prompt, secret);
            }
        }
    }

    const GOAL: &str = "implement the importer next";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn bundles_given_documents_and_flags() {
        let session = Session::new(3, 30);
        let played = played(&variants::ANTHROPIC, &session, WireId::Anthropic).await;
        let dir = played.path();
        let row: Value = serde_json::from_str(said(dir, "log --jsonl").lines().next().unwrap()).unwrap();
        let key = row["conversation"].as_str().unwrap();

        let bundle = said(
            dir,
            &format!("handoffs draft {key} --bundle --focus 'the exporter'"),
        );
        assert_begins(&bundle, "Write the carry-over");
        assert_contains(&bundle, "The goal:\n\nthe exporter\n\n");
        assert_contains(&bundle, "### Turn 1 (done");
        assert_contains(&bundle, &session.open);
        // Nothing is stored.
        assert_eq!(said(dir, "handoffs list --json").trim(), "[]");

        let answer = dir.join("answer.md");
        std::fs::write(&answer, "## Goal\nGo on.\n").unwrap();
        let made = json_of(
            dir,
            &format!("handoffs draft {key} --from {} --json", answer.to_str().unwrap()),
        );
        let document = made["document"].as_str().unwrap();
        assert_begins(document, "## Goal\nGo on.\n\n## Also known\n");
        assert_contains(document, &session.open);
        assert_eq!(made["origin"], "person");

        let local = json_of(dir, &format!("handoffs draft {key} --focus '{GOAL}' --json"));
        let from = format!(
            "handoffs draft {key} --from {} --focus '{GOAL}' --json",
            answer.display()
        );
        for made in [local, json_of(dir, &from)] {
            let document = made["document"].as_str().unwrap();
            assert_begins(document, "Goal: implement the importer next\n\n## ");
            let id = made["handoff"].as_str().unwrap();
            let stored = json_of(dir, &format!("handoffs show {id} --json"));
            let prompt = stored["prompt"].as_str().unwrap();
            assert_begins(prompt, "<handoff-context>\nGoal: implement the importer next\n");
        }

        let plain = said(dir, &format!("handoffs draft {key} --tokens 4000 --no-commands"));
        let part = "begin a new session's first message with:\n[[handoff-resume:";
        assert_contains(&plain, part);
        assert_lacks(&said(dir, "handoffs show"), "Failed, and not yet settled");

        let small = baton_in(dir, &format!("handoffs draft {key} --tokens 100"));
        refused(&small, 64, &["the required parts take ≈", "--tokens "]);
        for (arguments, code, told) in [
            ("nope".to_owned(), 66, "there is no conversation nope"),
            (format!("{key} --from /nowhere"), 66, "/nowhere"),
            (format!("{key} --preset all"), 64, "--preset"),
        ] {
            refused(
                &baton_in(dir, &format!("handoffs draft {arguments}")),
                code,
                &[told],
            );
        }
    }
}
