//! Checks that hostile conversations cost time in proportion to their size.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CarryPolicy, CarryScope, RuleSources, UserMessages, carry, users_words};
use crate::handoffs::draft::tests::linear::worked;
use crate::limits;
use crate::record::WireId;
use crate::redact::Redactor;
use crate::text::cost::{at_sizes, up_to_1_mb};
use crate::text::cut::floor;
use crate::transcript::Transcript;
use crate::wire::{self, Operation};
use crate::work::{DraftIndexSettings, SeenFacts};

/// Time for the user's words, their rules, the observed facts and the block.
fn time(texts: &[String]) -> Duration {
    let todos = texts.iter().enumerate().map(
        |(n, text)| json!({"content": text, "status": if n % 2 == 0 { "pending" } else { "completed" }}),
    );
    let todos = json!({"todos": todos.collect::<Vec<Value>>()});
    let call = json!({"type": "tool_use", "id": "t", "name": "TodoWrite", "input": todos});
    let listed = json!({"role": "assistant", "content": [call]});
    let said = texts.iter().flat_map(|text| {
        let done = json!({"role": "assistant", "content": "All done."});
        [json!({"role": "user", "content": text}), done]
    });
    let said = said.chain([listed]);
    let body = json!({"model": "m", "messages": said.collect::<Vec<Value>>()}).to_string();
    let wire = wire::wire(WireId::Anthropic);
    let view = wire.read(&body.into(), Operation::Generate).unwrap();
    worked(|| {
        let transcript = Transcript::from_view(&view);
        let words = users_words(&RuleSources {
            since: None,
            earlier: &[],
            said: &UserMessages::from_transcript(&transcript, &[], None),
            without: &[],
            markers: &[],
            redactor: &Redactor::new(&[]),
        });
        let policy = CarryPolicy {
            scope: CarryScope::All,
            tokens: 600,
        };
        let mut prompt = texts.join("\n");
        prompt.truncate(floor(&prompt, limits::PROMPT));
        let seen = SeenFacts::of_work(DraftIndexSettings::default(), &transcript);
        let _ = carry(&prompt, &words, Some(&seen), policy);
    })
}

at_sizes! {
    hostile_words_cost_time_in_proportion_to_their_size
    sentinels_without_an_end_cost_time_in_proportion_to_their_size
    sentences_of_a_result_cost_time_in_proportion_to_their_size
}

/// The user's sentences occur in an earlier result again and again, or within each other.
fn sentences_of_a_result_cost_time_in_proportion_to_their_size(_: &[usize]) {
    let alike = |bytes: usize| "The importer must never run before the exporter.\n".repeat(bytes / 50);
    let nested = |bytes: usize| {
        let lines = (40..).map(|len| "a".repeat(len));
        let mut all = 0;
        let lines = lines.take_while(|line| {
            all += line.len();
            all < bytes
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    for (name, said) in [("alike", alike(300_000)), ("nested", nested(300_000))] {
        let time = |said: &str, result: &str| {
            let result = json!({"type": "tool_result", "tool_use_id": "t", "content": result});
            let body = json!({"model": "m", "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]},
                {"role": "user", "content": [result]},
                {"role": "assistant", "content": "Done."},
                {"role": "user", "content": said},
            ]});
            let wire = wire::wire(WireId::Anthropic);
            let view = wire.read(&body.to_string().into(), Operation::Generate).unwrap();
            worked(|| {
                let _ = UserMessages::from_transcript(&Transcript::from_view(&view), &[], None);
            })
        };
        let other = time(&said, &"The page has a list of all. ".repeat(12_000));
        let same = time(&said, &said);
        let longest = time(&said, &"a".repeat(300_000));
        for found in [same, longest] {
            assert!(
                found < other * 10,
                "{name}: {other:?} without, {found:?} with them"
            );
        }
    }
}

/// A user's text of nothing but beginnings of sentinels, on many lines or on one.
fn sentinels_without_an_end_cost_time_in_proportion_to_their_size(sizes: &[usize]) {
    for pair in sizes.windows(2) {
        for begins in [
            "[[handoff-resume:x\n",
            "[[handoff-resume:x [[/handoff-resume:y]] ",
        ] {
            let text = |bytes: usize| [begins.repeat(bytes / begins.len())];
            let small = time(&text(pair[0])).max(Duration::from_millis(4));
            let large = time(&text(pair[1]));
            assert!(large < small * 40, "{small:?}, then {large:?} at {}", pair[1]);
        }
    }
}

/// Checks that ten times the size takes about ten times as long.
fn hostile_words_cost_time_in_proportion_to_their_size(sizes: &[usize]) {
    type TextMaker = fn(usize) -> String;
    let shapes: [(&str, TextMaker); 7] = [
        ("rules of their own", |n| format!("Never touch module m{n}.")),
        ("one value replaced again and again", |n| {
            format!("The port is now {n}.")
        }),
        ("prohibitions alike", |n| {
            format!("Never put wool{n} in the lab of ours.")
        }),
        ("lifted rules", |n| {
            format!("You may now touch m{n}. Never touch m{n}.")
        }),
        ("tags that never close", |n| format!("<a{n}><b>\nAlways c{n}.")),
        ("lists of what is open", |n| {
            format!("Next: a{n}, b, c\n- [ ] d{n}")
        }),
        ("many words", |n| {
            format!("must {n} five hundred and twenty of 3 of 5 dollars the the the")
        }),
    ];
    for pair in up_to_1_mb(sizes).windows(2) {
        for (name, make) in shapes {
            let texts = |bytes: usize| -> Vec<String> { (0..bytes / make(1000).len()).map(make).collect() };
            let small = time(&texts(pair[0])).max(Duration::from_millis(4));
            let large = time(&texts(pair[1]));
            assert!(
                large < small * 40,
                "{name}: {small:?}, then {large:?} at {}",
                pair[1]
            );
        }
    }
}
