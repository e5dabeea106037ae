//! Handoffs at a threshold, on every wire: inside the agent's loop, which continues as if nothing had
//! happened.

use std::fs;
use std::time::Duration;

use baton_core::handoffs::draft::ReviewPolicy;
use baton_core::nudge::{NudgeOutcome, Thresholds, Windows};
use baton_core::record::HandoffOrigin;
use baton_llm::state::config::Config;
use baton_llm::state::store::{HandoffFilter, SharedStore};
use baton_strict::{Options, Queue, Reply, Rule};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends};
use crate::matrix::fixture::{Fixture, behind_line};
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

const WIRES: [Variant; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

const DOCUMENT: &str = "## Goal\nMend the importer.\n\n## Next steps\n1. Open exporter.rs.";

/// Hands over from 5,000 tokens on.
fn early(config: &mut Config) {
    config.handoff.thresholds = Thresholds {
        auto_at: 0.5,
        ..Thresholds::default()
    };
    config.handoff.windows = Windows::with(vec![(String::new(), 10_000)]);
}

async fn fixture(variant: Variant, store: SharedStore, change: impl FnOnce(&mut Config)) -> Fixture {
    let script = Queue::new([]);
    let options = Options::default().prefixes();
    Fixture::under(options, variant, script.clone(), script, store, |config| {
        early(config);
        change(config);
    })
    .await
}

/// Runs the agent's loop of calls and results until its context has passed the threshold.
async fn full(fixture: &Fixture) -> Vec<Value> {
    let mut history = vec![fixture.user("Mend the importer.")];
    for n in 0..3 {
        fixture.push(Reply::new().call_as(
            format!("toolu_f{n}u1l9"),
            "read_file",
            json!({"path": format!("f{n}")}),
        ));
        let answer = fixture.ask(&history, true).await;
        history.extend(answer.keep.clone());
        history.extend((fixture.variant.results)(&answer.calls, &"word ".repeat(2_000)));
    }
    history
}

async fn origins(store: &SharedStore) -> Vec<HandoffOrigin> {
    let filter = HandoffFilter {
        limit: 9,
        ..HandoffFilter::default()
    };
    let all = store.handoffs(&filter).await.unwrap();
    all.iter().map(|handoff| handoff.origin).collect()
}

async fn outcomes(fixture: &Fixture, exchanges: usize) -> Vec<NudgeOutcome> {
    let events = fixture.baton.events(exchanges).await;
    events.into_iter().flat_map(|event| event.facts.nudges).collect()
}

#[tokio::test]
async fn a_full_context_is_handed_over_inside_the_agents_loop() {
    for variant in WIRES {
        for stream in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let store = memory();
            let saved = directory.path().join("saved");
            let fixture = fixture(variant, store.clone(), |config| {
                config.handoff.save_dir = Some(saved.clone());
            })
            .await;
            let mut history = full(&fixture).await;
            // The document, then the leg after the handoff, which continues with a call.
            fixture.push(Reply::text(DOCUMENT));
            fixture.push(Reply::new().call_as(
                "toolu_n3xt1".to_owned(),
                "read_file",
                json!({"path": "exporter.rs"}),
            ));
            let answer = fixture.ask(&history, stream).await;
            assert_eq!(answer.calls.len(), 1, "the loop goes on: {}", answer.text);
            assert!(answer.text.contains("[[handoff-resume:"), "{}", answer.text);
            assert!(
                answer.text.contains("by a threshold"),
                "the user is told: {}",
                answer.text
            );
            assert_eq!(origins(&store).await, [HandoffOrigin::Auto]);
            let sent = fixture.sent();
            assert!(
                sent[0].contains("Open exporter.rs.") && sent.len() == 1,
                "{sent:?}"
            );
            // The agent continues with its own history, and the model sees only the part after the handoff.
            history.extend(answer.keep.clone());
            history.extend((variant.results)(&answer.calls, "fn main() {}"));
            fixture.push(Reply::text("Done."));
            fixture.ask(&history, stream).await;
            let next = fixture.sent();
            assert_eq!(next[0], sent[0]);
            assert_eq!(next[1..], ["call read_file", "result"]);
            let file = wait_for_file(&saved).await;
            assert!(file.contains("Open exporter.rs.") && file.ends_with('\n') && !file.ends_with("\n\n"));
            fixture.assert_clean();
        }
    }
}

/// Waits for the single file of a directory to be complete.
async fn wait_for_file(directory: &std::path::Path) -> String {
    for _ in 0..300 {
        let files = fs::read_dir(directory).into_iter().flatten().flatten();
        let files: Vec<_> = files.map(|file| file.path()).collect();
        if let [file] = &files[..] {
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(
                name.starts_with("handoff-2") && name.ends_with(".md") && name.len() == 30,
                "{name}"
            );
            let text = fs::read_to_string(file).unwrap();
            if !text.is_empty() {
                return text;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no file in {}", directory.display());
}

/// If the model writes nothing, a selection is tried, then no model at all. An unwritable directory is only
/// reported in the log.
#[tokio::test]
async fn where_the_model_writes_nothing_the_document_is_composed_without_it() {
    for variant in WIRES {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let store = memory();
        let fixture = fixture(variant, store.clone(), |config| {
            config.handoff.save_dir = Some(file.join("below"));
            config.handoff.retries = 0;
        })
        .await;
        let history = full(&fixture).await;
        fixture.push(Reply::status(403, "no"));
        fixture.push(Reply::status(403, "no"));
        fixture.push(Reply::text("Fresh."));
        let answer = fixture.ask(&history, true).await;
        assert_contains(&answer.text, "[[handoff-resume:");
        assert_contains(&answer.text, "Fresh.");
        assert_eq!(origins(&store).await, [HandoffOrigin::Auto]);
        assert!(
            fixture.sent()[0].contains("Mend the importer."),
            "{:?}",
            fixture.sent()
        );
        fixture.assert_clean();
    }
}

/// `handoff.review`: with "manual" a threshold waits for nobody. With "always" its draft waits for a user,
/// and no second draft is written meanwhile.
#[tokio::test]
async fn a_threshold_waits_for_a_users_yes_where_the_config_says_so() {
    for variant in WIRES {
        for review in [ReviewPolicy::Manual, ReviewPolicy::Always] {
            let store = memory();
            let fixture = fixture(variant, store.clone(), |config| config.handoff.review = review).await;
            let history = full(&fixture).await;
            fixture.push(Reply::text(DOCUMENT));
            fixture.push(Reply::text("Went on."));
            let answer = fixture.ask(&history, true).await;
            let waits = review == ReviewPolicy::Always;
            assert_eq!(
                !answer.text.contains("[[handoff-resume:"),
                waits,
                "{}",
                answer.text
            );
            if !waits {
                assert_eq!(origins(&store).await, [HandoffOrigin::Auto]);
                continue;
            }
            let history = fixture.then(&history, &answer, "More.");
            fixture.push(Reply::text("On."));
            let answer = fixture.ask(&history, true).await;
            assert_contains(&answer.text, "a draft of a handoff waits for your approval");
            assert_ends(&answer.text, "On.");
            let seen = fixture.sent();
            assert_eq!(seen[0], "u: Mend the importer.", "nothing is cut before");
            let asked = fixture.provider.requests().len();
            let history = fixture.then(&history, &answer, "::handoff accept");
            let answer = fixture.ask(&history, true).await;
            assert!(answer.text.contains("[[handoff-resume:"), "{}", answer.text);
            assert_eq!(fixture.provider.requests().len(), asked);
            fixture.push(Reply::text("Behind it."));
            fixture
                .ask(&fixture.then(&history, &answer, "And now."), true)
                .await;
            let seen = fixture.sent();
            assert!(seen[0].contains("Open exporter.rs."), "{seen:?}");
            // The work since the draft, which was made after the part that is cut now.
            assert_eq!(seen[1..], ["a: Went on.", "u: More.", "a: On.", "u: And now."]);
            let complaints = fixture.provider.complaints();
            assert!(
                complaints.iter().all(|complaint| complaint.rule == Rule::Prefix),
                "{complaints:?}"
            );
        }
    }
}

/// No draft at all: the request is sent unchanged, and the next attempt waits until the context has grown.
#[tokio::test]
async fn where_no_draft_can_be_made_the_request_goes_up_as_it_came() {
    for variant in WIRES {
        let store = memory();
        let fixture = fixture(variant, store.clone(), |config| {
            // Too little room for any document.
            config.draft.facts_tokens = 1;
            config.draft.bundle_tokens = 1;
        })
        .await;
        let mut history = full(&fixture).await;
        fixture.push(Reply::status(403, "no"));
        fixture.push(Reply::text("Went on."));
        let mut answer = fixture.ask(&history, true).await;
        let told = behind_line(&answer.text).unwrap();
        assert_begins(told, "baton: no handoff was made: the required parts take");
        assert_ends(told, "Went on.");
        assert_eq!(origins(&store).await, []);
        for n in 0..2 {
            history = fixture.then(&history, &answer, &format!("More {n}."));
            fixture.push(Reply::text(format!("On {n}.")));
            answer = fixture.ask(&history, true).await;
        }
        assert_eq!(
            outcomes(&fixture, 6).await,
            [NudgeOutcome::AutoFailed],
            "tried once"
        );
        fixture.assert_clean();
    }
}

/// The part after the handoff already exceeds the threshold, but the session is not handed over repeatedly.
#[tokio::test]
async fn it_is_no_treadmill() {
    for variant in WIRES {
        let store = memory();
        let fixture = fixture(variant, store.clone(), |config| {
            config.handoff.thresholds.nudge_at = 0.01;
            config.handoff.thresholds.auto_at = 0.02;
        })
        .await;
        let mut history = vec![fixture.user("Mend the importer.")];
        fixture.push(Reply::text("Looked."));
        let answer = fixture.ask(&history, true).await;
        history = fixture.then(&history, &answer, "Go on.");
        fixture.push(Reply::text(DOCUMENT));
        fixture.push(Reply::text("Fresh."));
        let mut answer = fixture.ask(&history, true).await;
        for n in 0..3 {
            history = fixture.then(&history, &answer, "More.");
            fixture.push(Reply::text(format!("Turn {n}.")));
            answer = fixture.ask(&history, true).await;
            assert_eq!(answer.text, format!("Turn {n}."));
        }
        assert_eq!(origins(&store).await, [HandoffOrigin::Auto]);
        fixture.assert_clean();
    }
}
