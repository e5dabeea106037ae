//! Another model after a handoff, on every wire: by a command, by a route, after an undo, and if upstream
//! does not know it.

use baton_llm::state::config::HandoffRoute;
use baton_llm::state::store::SharedStore;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::memory;
use crate::harness::texts::assert_ends;
use crate::matrix::fixture::Fixture;
use crate::matrix::talk::Talk;
use crate::matrix::variants::{ANTHROPIC, Variant, WIRES};

const BUILDER: &str = "builder-strict-2";

const COMMAND: &str = "::handoff --force --method local --to builder-strict-2";

/// Returns a conversation that is long enough for a handoff.
async fn begun(variant: Variant, store: SharedStore, routes: Vec<HandoffRoute>) -> Talk {
    let stage = Fixture::with(variant, [], store, |config| config.handoff.routes = routes);
    let mut talk = Talk::new(stage.await);
    talk.says("Plan the importer.", "I look at it.").await;
    talk.says("Go on.", "Planned.").await;
    talk
}

fn route(reason: Option<&str>) -> Vec<HandoffRoute> {
    vec![HandoffRoute {
        from: "*".to_owned(),
        reason: reason.map(str::to_owned),
        to: BUILDER.to_owned(),
    }]
}

/// Returns the model of the last request.
fn asked(talk: &Talk) -> String {
    let last = talk.provider.generations().pop().unwrap();
    match last.body["model"].as_str() {
        Some(model) => model.to_owned(),
        None => {
            let (_, model) = last.path.split_once("/models/").unwrap();
            model.split(':').next().unwrap().to_owned()
        }
    }
}

/// The model hands over for this reason.
fn hands_over(talk: &Talk, reason: &str) {
    let call = json!({"prompt": "Build the importer by plan.md.", "reason": reason});
    talk.push(Reply::text("Planned.").call("session_handoff", call));
}

#[tokio::test]
async fn a_command_names_the_model_that_goes_on_and_undo_goes_back() {
    for variant in WIRES {
        let store = memory();
        let mut talk = begun(variant, store.clone(), Vec::new()).await;
        let own = asked(&talk);
        talk.command(COMMAND).await;
        assert_ends(&talk.says("Build it.", "Built.").await.text, "Built.");
        assert_eq!(asked(&talk), BUILDER);
        let last = talk.provider.generations().pop().unwrap();
        assert_eq!(
            last.body.get("thinking"),
            None,
            "without what is bound to a model"
        );
        // Every later request uses it, including those in another process.
        talk.restart(store);
        talk.says("And the tests?", "Tested.").await;
        assert_eq!(asked(&talk), BUILDER);
        talk.command("::handoff undo").await;
        talk.says("Go on.", "Whole.").await;
        assert_eq!(asked(&talk), own);
        talk.assert_clean();
    }
}

#[tokio::test]
async fn a_route_takes_the_handoffs_of_a_model_for_a_reason() {
    for variant in WIRES {
        for (reason, is_routed) in [("the plan is done", true), ("tests are green", false)] {
            let mut talk = begun(variant, memory(), route(Some("Plan"))).await;
            let expected = if is_routed {
                BUILDER.to_owned()
            } else {
                asked(&talk)
            };
            hands_over(&talk, reason);
            assert_ends(&talk.says("Hand over.", "Building.").await.text, "Building.");
            assert_eq!(asked(&talk), expected, "the leg after it");
            talk.says("Go on.", "Built.").await;
            assert_eq!(asked(&talk), expected, "the next request");
            talk.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_model_that_upstream_does_not_know_is_tried_once() {
    for variant in WIRES {
        let mut talk = begun(variant, memory(), route(None)).await;
        let own = asked(&talk);
        hands_over(&talk, "planned");
        talk.push(Reply::status(404, "there is no such model"));
        assert_ends(&talk.says("Hand over.", "Building.").await.text, "Building.");
        assert_eq!(asked(&talk), own);
        let sent = talk.provider.generations().len();
        talk.says("Go on.", "Built.").await;
        assert_eq!(asked(&talk), own);
        assert_eq!(
            talk.provider.generations().len(),
            sent + 1,
            "it is not tried again"
        );
        talk.assert_clean();
    }
}

#[tokio::test]
async fn an_error_that_is_not_the_models_fault_is_relayed_and_the_route_stays() {
    let mut talk = begun(ANTHROPIC, memory(), Vec::new()).await;
    talk.command(COMMAND).await;
    for _ in 0..2 {
        talk.push(Reply::status(400, "prompt is too long"));
    }
    let refused = [&talk.history[..], &[talk.user("Build it.")]].concat();
    assert_eq!(talk.send(&refused, true).await.status, 400);
    talk.says("Build less.", "Built.").await;
    assert_eq!(asked(&talk), BUILDER);
    talk.assert_clean();
}

#[tokio::test]
async fn the_agents_own_choice_counts_where_it_changes_its_model() {
    let mut talk = begun(ANTHROPIC, memory(), Vec::new()).await;
    talk.command(COMMAND).await;
    talk.variant.body = |history, stream| {
        let mut body = (ANTHROPIC.body)(history, stream);
        body["model"] = json!("claude-strict-9");
        body
    };
    talk.says("Build it.", "Built.").await;
    assert_eq!(asked(&talk), "claude-strict-9");
    talk.assert_clean();
}
