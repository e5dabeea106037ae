//! Another model after a handoff, on every wire: by a command, by a route, after an undo, and if upstream
//! does not know it.

use baton_llm::state::config::{Config, HandoffRoute};
use baton_llm::state::store::SharedStore;
use baton_strict::{Queue, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{memory, sqlite};
use crate::matrix::fixture::Fixture;
use crate::matrix::variants::{ANTHROPIC, Answer, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

const WIRES: [Variant; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

const BUILDER: &str = "builder-strict-2";

async fn fixture(variant: Variant, store: SharedStore, change: impl FnOnce(&mut Config)) -> Fixture {
    let script = Queue::new([]);
    Fixture::playing(variant, script.clone(), script, store, |config| {
        config.commands.prefix = "::".to_owned();
        change(config);
    })
    .await
}

/// Returns the model of the last request, and whether it has a thinking setting.
fn asked(fixture: &Fixture) -> (String, bool) {
    let last = fixture.provider.generations().pop().unwrap();
    let model = match last.body["model"].as_str() {
        Some(model) => model.to_owned(),
        None => last
            .path
            .split("/models/")
            .nth(1)
            .unwrap()
            .split(':')
            .next()
            .unwrap()
            .to_owned(),
    };
    (model, last.body.get("thinking").is_some())
}

async fn say(fixture: &Fixture, history: &mut Vec<Value>, text: &str, replies: &[&str]) -> Answer {
    for reply in replies {
        fixture.push(Reply::text(*reply));
    }
    history.push(fixture.user(text));
    let answer = fixture.ask(history, true).await;
    history.extend(answer.keep.clone());
    answer
}

/// Returns a conversation that is long enough for a handoff.
async fn begun(fixture: &Fixture) -> Vec<Value> {
    let mut history = Vec::new();
    say(fixture, &mut history, "Plan the importer.", &["I look at it."]).await;
    say(fixture, &mut history, "Go on.", &["Planned."]).await;
    history
}

#[tokio::test]
async fn a_command_names_the_model_that_goes_on_and_undo_goes_back() {
    for variant in WIRES {
        let store = memory();
        let mut fixture = fixture(variant, store.clone(), |_| ()).await;
        let mut history = begun(&fixture).await;
        let own = asked(&fixture).0;
        let command = format!("::handoff --force --method local --to {BUILDER}");
        say(&fixture, &mut history, &command, &[]).await;
        let answer = say(&fixture, &mut history, "Build it.", &["Built."]).await;
        assert_eq!(
            asked(&fixture),
            (BUILDER.to_owned(), false),
            "without what is bound to a model"
        );
        assert!(answer.text.ends_with("Built."), "{}", answer.text);
        // Every later request uses it, including those in another process.
        fixture.restart_with(store, |config| config.commands.prefix = "::".to_owned());
        say(&fixture, &mut history, "And the tests?", &["Tested."]).await;
        assert_eq!(asked(&fixture).0, BUILDER);
        say(&fixture, &mut history, "::handoff undo", &[]).await;
        say(&fixture, &mut history, "Go on.", &["Whole."]).await;
        assert_eq!(asked(&fixture).0, own);
        fixture.assert_clean();
    }
}

#[tokio::test]
async fn a_route_takes_the_handoffs_of_a_model_for_a_reason() {
    for variant in WIRES {
        for (reason, to) in [("the plan is done", BUILDER), ("tests are green", "")] {
            let fixture = fixture(variant, memory(), |config| {
                config.handoff.routes = vec![HandoffRoute {
                    from: "*".to_owned(),
                    reason: Some("Plan".to_owned()),
                    to: BUILDER.to_owned(),
                }];
            })
            .await;
            let mut history = begun(&fixture).await;
            let own = asked(&fixture).0;
            let call = json!({"prompt": "Build the importer by plan.md.", "reason": reason});
            fixture.push(Reply::new().say("Planned.").call("session_handoff", call));
            let answer = say(&fixture, &mut history, "Hand over.", &["Building."]).await;
            assert!(answer.text.ends_with("Building."), "{}", answer.text);
            let expected = if to.is_empty() { &own } else { to };
            assert_eq!(&asked(&fixture).0, expected, "the leg after it");
            say(&fixture, &mut history, "Go on.", &["Built."]).await;
            assert_eq!(&asked(&fixture).0, expected, "the next request");
            fixture.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_model_that_upstream_does_not_know_is_tried_once() {
    for variant in WIRES {
        let fixture = fixture(variant, memory(), |config| {
            config.handoff.routes = vec![HandoffRoute {
                from: "*".to_owned(),
                reason: None,
                to: BUILDER.to_owned(),
            }];
        })
        .await;
        let mut history = begun(&fixture).await;
        let own = asked(&fixture).0;
        let call = json!({"prompt": "Build the importer.", "reason": "planned"});
        fixture.push(Reply::new().say("Planned.").call("session_handoff", call));
        fixture.push(Reply::status(404, "there is no such model"));
        let answer = say(&fixture, &mut history, "Hand over.", &["Building."]).await;
        assert!(answer.text.ends_with("Building."), "{}", answer.text);
        assert_eq!(asked(&fixture).0, own);
        let sent = fixture.provider.generations().len();
        say(&fixture, &mut history, "Go on.", &["Built."]).await;
        assert_eq!(asked(&fixture).0, own);
        assert_eq!(
            fixture.provider.generations().len(),
            sent + 1,
            "it is not tried again"
        );
        fixture.assert_clean();
    }
}

#[tokio::test]
async fn an_error_that_is_not_the_models_fault_is_relayed_and_the_route_stays() {
    let fixture = fixture(ANTHROPIC, memory(), |_| ()).await;
    let mut history = begun(&fixture).await;
    say(
        &fixture,
        &mut history,
        &format!("::handoff --force --method local --to {BUILDER}"),
        &[],
    )
    .await;
    for _ in 0..2 {
        fixture.push(Reply::status(400, "prompt is too long"));
    }
    let mut refused = history.clone();
    refused.push(fixture.user("Build it."));
    assert_eq!(fixture.send(&refused, true).await.status, 400);
    say(&fixture, &mut history, "Build less.", &["Built."]).await;
    assert_eq!(asked(&fixture).0, BUILDER);
    fixture.assert_clean();
}

#[tokio::test]
async fn the_agents_own_choice_counts_where_it_changes_its_model() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = fixture(ANTHROPIC, sqlite(dir.path()), |_| ()).await;
    let mut history = begun(&fixture).await;
    say(
        &fixture,
        &mut history,
        &format!("::handoff --force --method local --to {BUILDER}"),
        &[],
    )
    .await;
    history.push(fixture.user("Build it."));
    let mut body = (ANTHROPIC.body)(&history, true);
    body["model"] = json!("claude-strict-9");
    fixture.push(Reply::text("Built."));
    let path = (ANTHROPIC.path)(true);
    let response = fixture
        .baton
        .post(path, ANTHROPIC.headers, body.to_string().into())
        .await;
    fixture.answer(&response, true);
    assert_eq!(asked(&fixture).0, "claude-strict-9");
    fixture.assert_clean();
}
