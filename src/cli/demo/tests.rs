use std::sync::Arc;

use baton_strict::{Options, Received, Reply, Strict};

use super::*;
use baton_state::store::SharedStore;
use baton_state::store::sqlite::SqliteStore;

/// Number of tool calls in each task.
const TURNS: usize = 6;

fn run_demo() -> DemoRun {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(story::play()).unwrap()
}

#[test]
fn the_sizes_make_a_sawtooth_under_a_ramp() {
    let story = run_demo();
    judge(&story).unwrap();
    // A handoff and the next task's first step are one turn for the agent.
    assert_eq!(story.turns.len(), 4 * TURNS + 1);
    let legs = story.turns.iter().map(|turn| turn.sent_bytes.len());
    let fired: Vec<_> = legs
        .enumerate()
        .filter(|(_, legs)| *legs == 2)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(fired, [TURNS, 2 * TURNS, 3 * TURNS]);
    for (at, turn) in story.turns.iter().enumerate() {
        let is_cut = *turn.sent_bytes.last().unwrap() < turn.received_bytes;
        assert_eq!(is_cut, at >= TURNS, "{turn:?}");
    }
    let turns = story.turns.windows(2);
    turns.for_each(|two| assert!(two[0].received_bytes < two[1].received_bytes));
    let tops: Vec<_> = fired.iter().map(|at| story.turns[*at].sent_bytes[0]).collect();
    assert!(tops.iter().all(|top| *top < 2 * tops[0]), "{tops:?}");
    assert!(story.totals.sent_bytes * 2 < story.totals.received_bytes);
    let cost = story.totals.cost.unwrap();
    assert!(0.0 < cost.with && cost.with < cost.without, "{cost:?}");
}

#[test]
fn json_has_the_parts_that_programs_read() {
    let story = run_demo();
    let value = serde_json::to_value(&story).unwrap();
    let names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["seconds", "totals", "turns", "handoffs"]);
    let prompt = value["handoffs"][2]["prompt"].as_str().unwrap();
    assert!(
        prompt.starts_with("Goal: ") && prompt.contains("Next: task 4 of 4"),
        "{prompt}"
    );
}

/// Plays the script on the strict provider, because the demo's provider does not check the API's
/// rules.
#[tokio::test(flavor = "multi_thread")]
async fn agent_and_proxy_keep_the_rules_of_the_api() {
    let model = |request: &Received| {
        let blocks = script::output(request.number - 1);
        blocks.iter().fold(Reply::new(), |reply, block| {
            let text = |name: &str| block[name].as_str().unwrap_or_default();
            match text("type") {
                "thinking" => reply.thinking(text("thinking")),
                "tool_use" => reply.call(text("name"), block["input"].clone()),
                _ => reply.say(text("text")),
            }
        })
    };
    let provider = Strict::start(model, Options::default()).await.unwrap();
    let store: SharedStore = Arc::new(SqliteStore::in_memory().unwrap());
    let mut agent = story::Agent::new(story::proxy(provider.addr(), &store).unwrap());
    while !agent.ask().await.unwrap().1 {}
    assert_eq!(provider.complaints(), []);
    assert_eq!(provider.generations().len(), 4 * TURNS + 4);
}
