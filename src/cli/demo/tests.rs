use std::time::{Duration, Instant};

use super::*;
use crate::cli::demo::agent::DemoAgent;
use crate::cli::demo::script::DemoLength;
use baton_strict::{Options, Strict};

fn run_demo(adapter: &'static Adapter, script: DemoLength) -> DemoRun {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(story::play(adapter, script)).unwrap()
}

fn adapters() -> impl Iterator<Item = &'static Adapter> {
    ADAPTERS.iter()
}

#[test]
fn every_wire_shows_the_cut_and_the_provider_has_no_complaint() {
    for adapter in adapters() {
        let began = Instant::now();
        let story = run_demo(adapter, DemoLength { tasks: 3, turns: 6 });
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!(story.complaints, [""; 0]);
        judge(&story).unwrap();
        // A handoff and the next task's first step are one turn of the agent.
        assert_eq!(story.turns.len(), 3 * 6 + 1);
        let first = story.handoffs[0].turn;
        for turn in &story.turns {
            let last = *turn.sent_bytes.last().unwrap();
            match turn.turn < first {
                true => assert!(last >= turn.received_bytes && turn.pinned.is_none()),
                false => assert!(last < turn.received_bytes),
            }
            assert_eq!(turn.sent_bytes.len(), 1 + usize::from(turn.fired.is_some()));
            assert_eq!(turn.pinned.is_some(), turn.turn > first);
        }
    }
}

/// Without the proxy: shows that the agent itself is correct.
#[tokio::test]
async fn the_agent_keeps_the_rules_of_every_wire() {
    let script = DemoLength { tasks: 1, turns: 6 };
    for adapter in ADAPTERS {
        let provider = Strict::start(script, Options::default()).await.unwrap();
        let mut agent = DemoAgent::start(adapter, script, provider.addr()).await.unwrap();
        for turn in 1..=7 {
            let reply = agent.ask().await;
            let reply = reply.unwrap_or_else(|failure| panic!("{:?}: {failure:?}", adapter.wire));
            assert_eq!(reply.done, turn == 7, "{:?}", adapter.wire);
        }
        assert_eq!(provider.complaints(), [], "{:?}", adapter.wire);
    }
}

#[test]
fn the_sizes_make_a_sawtooth_under_a_ramp() {
    let story = run_demo(&ADAPTERS[0], DemoLength { tasks: 4, turns: 6 });
    assert!(
        story
            .turns
            .windows(2)
            .all(|w| w[0].received_bytes < w[1].received_bytes)
    );
    let top = |turn: usize| story.turns[turn - 1].sent_bytes[0];
    let tops: Vec<_> = story.handoffs.iter().map(|h| top(h.turn)).collect();
    assert!(tops.iter().all(|top| *top < 2 * tops[0]), "{tops:?}");
    assert!(story.totals.sent_bytes * 2 < story.totals.received_bytes);
}

#[test]
fn json_text_and_picture_tell_the_same_story() {
    let story = run_demo(&ADAPTERS[0], DemoLength { tasks: 2, turns: 3 });
    let value = serde_json::to_value(&story).unwrap();
    let names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "wire tasks turns_per_task seconds totals turns handoffs complaints example";
    assert_eq!(names, expected.split(' ').collect::<Vec<_>>());
    let after: Vec<_> = value["turns"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|t| !t["pinned"].is_null())
        .collect();
    assert!(!after.is_empty());
    for turn in after {
        assert!(turn["sent_bytes"][0].as_u64() < turn["received_bytes"].as_u64());
    }
    let example = &value["example"];
    assert!(example["sent"]["messages"].as_u64() < example["received"]["messages"].as_u64());
    let begins = |side: &str| example[side]["parts"].to_string();
    assert!(begins("received").contains("[[handoff-resume:"));
    assert!(!begins("sent").contains("[[handoff-resume:"));
    let picture = picture::svg(&story);
    assert!(picture.contains(">handoff 1</text>") && !picture.contains("NaN"));
}

#[test]
fn one_task_needs_no_handoff() {
    let story = run_demo(&ADAPTERS[0], DemoLength { tasks: 1, turns: 2 });
    judge(&story).unwrap();
    assert!(story.example.is_none() && story.handoffs.is_empty());
}

#[test]
fn an_unknown_wire_is_a_usage_error() {
    let failure = adapter_named("smoke").err().unwrap();
    assert_eq!(failure.exit, Exit::USAGE);
}

#[test]
fn every_value_of_the_wire_option_has_an_adapter() {
    for wire in WireId::ALL {
        assert_eq!(
            adapter_named(wire.name()).map(|found| found.wire).ok(),
            Some(wire)
        );
    }
}
