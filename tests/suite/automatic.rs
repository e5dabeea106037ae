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
use serde_json::json;

use crate::harness::memory;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends};
use crate::matrix::fixture::{Fixture, behind_line};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{Variant, WIRES};

const DOCUMENT: &str = "## Goal\nMend the importer.\n\n## Next steps\n1. Open exporter.rs.";

fn reads(n: usize) -> Reply {
    Reply::new().call_as(
        format!("toolu_f{n}u1l9"),
        "read_file",
        json!({"path": format!("f{n}")}),
    )
}

/// Runs the agent's loop of calls and results until its context has passed the threshold, which is at 5,000 tokens.
async fn full(variant: Variant, store: &SharedStore, change: impl FnOnce(&mut Config)) -> Talk {
    let script = Queue::new([]);
    let options = Options::default().prefixes();
    let stage = Fixture::under(
        options,
        variant,
        script.clone(),
        script,
        store.clone(),
        |config| {
            config.handoff.thresholds = Thresholds {
                auto_at: 0.5,
                ..Thresholds::default()
            };
            config.handoff.windows = Windows::with(vec![(String::new(), 10_000)]);
            change(config);
        },
    );
    let mut talk = Talk::new(stage.await);
    talk.history.push(talk.user("Mend the importer."));
    for n in 0..3 {
        talk.runs(reads(n), &"word ".repeat(2_000)).await;
    }
    talk
}

pub async fn origins(store: &SharedStore) -> Vec<HandoffOrigin> {
    let filter = HandoffFilter {
        limit: 9,
        ..HandoffFilter::default()
    };
    let all = store.handoffs(&filter).await.unwrap();
    all.iter().map(|handoff| handoff.origin).collect()
}

/// An unwritable directory is only reported in the log.
#[tokio::test]
async fn a_full_context_is_handed_over_inside_the_agents_loop() {
    for variant in WIRES {
        for is_writable in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("file"), "").unwrap();
            let saved = directory
                .path()
                .join(if is_writable { "saved" } else { "file/below" });
            let store = memory();
            let save = |config: &mut Config| config.handoff.save_dir = Some(saved.clone());
            let mut talk = full(variant, &store, save).await;
            talk.stream = is_writable;
            // The document, then the leg after the handoff, which continues with a call.
            talk.push(Reply::text(DOCUMENT));
            let answer = talk.runs(reads(3), "fn main() {}").await;
            assert_eq!(answer.calls.len(), 1, "the loop goes on: {}", answer.text);
            assert_contains(&answer.text, "[[handoff-resume:");
            assert_contains(&answer.text, "by a threshold");
            assert_eq!(origins(&store).await, [HandoffOrigin::Auto]);
            let sent = talk.sent();
            assert_eq!(sent.len(), 1, "{sent:?}");
            assert_contains(&sent[0], "Open exporter.rs.");
            // The agent continues with its own history, and the model sees only the part after the handoff.
            talk.push(Reply::text("Done."));
            talk.goes_on().await;
            assert_eq!(talk.sent(), [sent[0].as_str(), "call read_file", "result"]);
            if is_writable {
                let file = wait_for_file(&saved).await;
                assert_contains(&file, "Open exporter.rs.");
                assert!(file.ends_with('\n') && !file.ends_with("\n\n"));
            }
            talk.assert_clean();
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
            let is_named = name.starts_with("handoff-2") && name.ends_with(".md") && name.len() == 30;
            assert!(is_named, "{name}");
            let text = fs::read_to_string(file).unwrap();
            if !text.is_empty() {
                return text;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no file in {}", directory.display());
}

/// `handoff.review`: with "manual" a threshold waits for nobody. With "always" its draft waits for a user,
/// and no second draft is written meanwhile.
#[tokio::test]
async fn a_threshold_waits_for_a_users_yes_where_the_config_says_so() {
    for (variant, review) in WIRES
        .into_iter()
        .flat_map(|v| [(v, ReviewPolicy::Manual), (v, ReviewPolicy::Always)])
    {
        let store = memory();
        let mut talk = full(variant, &store, |config| config.handoff.review = review).await;
        talk.push(Reply::text(DOCUMENT));
        talk.push(Reply::text("Went on."));
        let answer = talk.goes_on().await;
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
        let told = talk.says("More.", "On.").await.text;
        assert_contains(&told, "a draft of a handoff waits for your approval");
        assert_ends(&told, "On.");
        assert_eq!(talk.sent()[0], "u: Mend the importer.", "nothing is cut before");
        assert_contains(&talk.command("::handoff accept").await, "[[handoff-resume:");
        talk.says("And now.", "Behind it.").await;
        let seen = talk.sent();
        assert_contains(&seen[0], "Open exporter.rs.");
        // The work since the draft, which was made after the part that is cut now.
        assert_eq!(seen[1..], ["a: Went on.", "u: More.", "a: On.", "u: And now."]);
        let mut complaints = talk.provider.complaints().into_iter();
        assert!(complaints.all(|complaint| complaint.rule == Rule::Prefix));
    }
}

/// No draft at all: the request is sent unchanged, and the next attempt waits until the context has grown.
#[tokio::test]
async fn where_no_draft_can_be_made_the_request_goes_up_as_it_came() {
    for variant in WIRES {
        let store = memory();
        let mut talk = full(variant, &store, |config| {
            // Too little room for any document.
            config.draft.facts_tokens = 1;
            config.draft.bundle_tokens = 1;
        })
        .await;
        talk.push(Reply::status(403, "no"));
        talk.push(Reply::text("Went on."));
        let answer = talk.goes_on().await;
        let told = behind_line(&answer.text).unwrap();
        assert_begins(told, "baton: no handoff was made: the required parts take");
        assert_ends(told, "Went on.");
        assert_eq!(origins(&store).await, []);
        for _ in 0..2 {
            talk.says("More.", "On.").await;
        }
        let events = talk.baton.events(6).await.into_iter();
        let outcomes: Vec<_> = events.flat_map(|event| event.facts.nudges).collect();
        assert_eq!(outcomes, [NudgeOutcome::AutoFailed], "tried once");
        talk.assert_clean();
    }
}
