//! Checks that hostile transcripts cost drafts, searches and the user's words time in proportion to their size.

use std::time::Duration;

use serde_json::{Value, json};

use super::carry::{self, CarryPolicy, CarryScope, RuleSources, UserMessages};
use super::recall::{CutPart, Question, RecallIndex, RecallIndexSettings};
use super::testing::{called, draft_request, failing, model, ran, user, view};
use crate::limits;
use crate::redact::Redactor;
use crate::text::cost::at_sizes;
use crate::text::cut::floor;
use crate::transcript::{Transcript, TranscriptPartKind};
use crate::wire::View;
use crate::work::{DraftIndex, DraftIndexSettings, SeenFacts};

/// Size of the largest transcript in bytes.
const LARGEST: usize = 400_000;

at_sizes! {
    drafts_of_hostile_transcripts
    searches_in_hostile_transcripts
    hostile_words
    sentences_of_a_result
}

/// Both methods without a model, and the completion of a model's document.
fn drafts(view: &View) {
    let settings = DraftIndexSettings {
        redactor: Redactor::new(&[]),
        ..DraftIndexSettings::default()
    };
    let index = DraftIndex::from_transcript(settings, &Transcript::from_view(view));
    let _ = (
        index.local(&draft_request(4000)),
        index.bundle(&draft_request(4000)),
        index.completed("x", &draft_request(0)),
        index.seen().claims("All tests pass."),
    );
}

fn searches(view: &View) {
    let whole = CutPart {
        transcript: Transcript::from_view(view),
        end: view.list.end,
    };
    for query in ["error in src/a.rs", "errov"] {
        let question = Question {
            query: query.to_owned(),
            limit: 8,
        };
        let settings = RecallIndexSettings {
            redactor: Redactor::new(&[]),
            ..RecallIndexSettings::default()
        };
        let _ = RecallIndex::new(&whole, &settings).answer(&question);
    }
}

/// The user's words, their rules, the observed facts, and the block behind a prompt that repeats the words.
fn carries(view: &View) {
    let transcript = Transcript::from_view(view);
    let said = transcript.turns().flat_map(|turn| turn.parts());
    let said = said.filter(|part| matches!(part.kind, TranscriptPartKind::Text(_)));
    let said = said.flat_map(|part| part.texts().into_iter().map(|text| text.get().into_owned()));
    let mut prompt = said.collect::<Vec<_>>().join("\n");
    prompt.truncate(floor(&prompt, limits::PROMPT));
    let words = carry::users_words(&RuleSources {
        since: None,
        earlier: &carry::EarlierWords::default(),
        said: &UserMessages::from_transcript(&transcript, &[], None),
        without: &[],
        markers: &[],
        redactor: &Redactor::new(&[]),
    });
    let policy = CarryPolicy {
        scope: CarryScope::All,
        tokens: 600,
    };
    let seen = SeenFacts::of_work(DraftIndexSettings::default(), &transcript);
    let _ = carry::carry(&prompt, &words, Some(&seen), policy);
}

/// User messages made from their numbers, each one answered, and listed as to-dos.
fn said(n: usize, make: fn(usize) -> String) -> Vec<Value> {
    // A message has about 40 bytes, and stands in the list as well.
    let texts: Vec<String> = (0..n).map(make).collect();
    let status = |n: usize| {
        if n.is_multiple_of(2) {
            "pending"
        } else {
            "completed"
        }
    };
    let todos = texts.iter().enumerate();
    let todos: Vec<Value> = todos
        .map(|(n, text)| json!({"content": text, "status": status(n)}))
        .collect();
    let answered = texts.iter().flat_map(|text| [user(text), model("All done.")]);
    answered
        .chain(called("TodoWrite", json!({"todos": todos}), "ok"))
        .collect()
}

fn calls_in_one_message(n: usize, name: &str, input: fn(usize) -> Value) -> Vec<Value> {
    let calls =
        (0..n).map(|i| json!({"type": "tool_use", "id": format!("c{i}"), "name": name, "input": input(i)}));
    let results = (0..n)
        .map(|i| json!({"type": "tool_result", "tool_use_id": format!("c{i}"), "content": "error: x", "is_error": true}));
    vec![
        user("go"),
        json!({"role": "assistant", "content": calls.collect::<Vec<_>>()}),
        json!({"role": "user", "content": results.collect::<Vec<_>>()}),
    ]
}

/// A name, and a transcript of `n` parts of about 100 bytes.
type Shape = (&'static str, fn(usize) -> Vec<Value>);

const DRAFTED: [Shape; 6] = [
    ("runs in one message, answered in one", |n| {
        calls_in_one_message(n, "Bash", |i| json!({"command": format!("make a{i}")}))
    }),
    ("summaries and their followers", |n| {
        let summary = "Part of your context was compacted.";
        (0..n)
            .flat_map(|i| [user(&format!("a{i}")), model(summary)])
            .collect()
    }),
    ("followers without a summary", |n| {
        let followers = (0..n).map(|_| model("Part of your context was compacted."));
        [user("go")].into_iter().chain(followers).collect()
    }),
    ("files that are changed and taken away", |n| {
        let changed = |i: usize| {
            let path = json!({"file_path": format!("src/{i}.rs")});
            let gone = format!("rm other{i} && make a{i}");
            let edit = called("Edit", path, "ok");
            edit.into_iter().chain(ran(&gone, "ok"))
        };
        [user("go")]
            .into_iter()
            .chain((0..n / 4).flat_map(changed))
            .collect()
    }),
    ("one long line", |n| {
        vec![user("go"), model(&"must [redacted:a] src/a.rs: error ".repeat(n))]
    }),
    ("tags that never close", |n| {
        vec![user(&"<system-reminder>".repeat(n)), model("x")]
    }),
];

const SEARCHED: [Shape; 6] = [
    ("edits in one message, answered in one", |n| {
        calls_in_one_message(n, "Edit", |_| json!({"file_path": "src/a.rs"}))
    }),
    ("calls of one id", |n| {
        vec![failing(ran("make error", "x")); n].concat()
    }),
    ("lines of ours", |n| {
        let line = "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\nerror\n";
        vec![user("go"), model(&line.repeat(n))]
    }),
    ("one word of letters", |n| {
        vec![
            user("go"),
            model(&"error/".repeat(20 * n)),
            model(&"é".repeat(20 * n)),
        ]
    }),
    ("words that look alike", |n| {
        vec![
            user("go"),
            model(&(0..n).map(|i| format!("errox{i} ")).collect::<String>()),
        ]
    }),
    ("tags that never close", |n| {
        vec![user(&"<system-reminder>".repeat(n)), model("error")]
    }),
];

const SAID: [Shape; 9] = [
    ("rules of their own", |n| {
        said(n, |n| format!("Never touch module m{n}."))
    }),
    ("one value replaced again and again", |n| {
        said(n, |n| format!("The port is now {n}."))
    }),
    ("prohibitions alike", |n| {
        said(n, |n| format!("Never put wool{n} in the lab of ours."))
    }),
    ("lifted rules", |n| {
        said(n, |n| format!("You may now touch m{n}. Never touch m{n}."))
    }),
    ("tags that never close", |n| {
        said(n, |n| format!("<a{n}><b>\nAlways c{n}."))
    }),
    ("lists of what is open", |n| {
        said(n, |n| format!("Next: a{n}, b, c\n- [ ] d{n}"))
    }),
    ("many words", |n| {
        said(n, |n| {
            format!("must {n} five hundred and twenty of 3 of 5 dollars the the the")
        })
    }),
    ("sentinels without an end, on many lines", |n| {
        said(1, |_| String::new())
            .into_iter()
            .chain([user(&"[[handoff-resume:x\n".repeat(5 * n))])
            .collect()
    }),
    ("sentinels without an end, on one line", |n| {
        vec![user(&"[[handoff-resume:x [[/handoff-resume:y]] ".repeat(2 * n))]
    }),
];

fn drafts_of_hostile_transcripts(sizes: &[usize]) {
    check(&DRAFTED, drafts, sizes);
}

fn searches_in_hostile_transcripts(sizes: &[usize]) {
    check(&SEARCHED, searches, sizes);
}

fn hostile_words(sizes: &[usize]) {
    check(&SAID, carries, sizes);
}

/// Processor time of the current thread, which excludes other work on the machine.
fn worked(work: impl FnOnce()) -> Duration {
    let now = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap()
    };
    let began = now();
    work();
    now() - began
}

/// Checks that ten times the size takes about ten times as long.
///
/// A hundred times as long would reveal a search that starts over.
fn check(shapes: &[Shape], reader: fn(&View), sizes: &[usize]) {
    let time = |messages: &[Value]| {
        let view = view(messages);
        worked(|| reader(&view))
    };
    let count = sizes.last().map_or(0, |size| *size.min(&LARGEST)) / 100;
    for (name, make) in shapes {
        let small = make(count / 10);
        // The best of three runs, so that no pause in one of them hides a slow search.
        let small = (0..3).map(|_| time(&small)).min().unwrap();
        let small = small.max(Duration::from_millis(4));
        let large = time(&make(count));
        assert!(large < small * 40, "{name}: {small:?}, then {large:?}");
    }
}

/// The user's sentences occur in an earlier result again and again, or within each other.
fn sentences_of_a_result(_: &[usize]) {
    let alike = "The importer must never run before the exporter.\n".repeat(6_000);
    let nested: String = (40..770).map(|len| "a".repeat(len) + "\n").collect();
    for (name, said) in [("alike", alike), ("nested", nested)] {
        let time = |result: &str| {
            let mut messages = ran("cat notes", result).to_vec();
            messages.extend([model("Done."), user(&said)]);
            let view = view(&messages);
            worked(|| {
                let _ = UserMessages::from_transcript(&Transcript::from_view(&view), &[], None);
            })
        };
        let other = time(&"The page has a list of all. ".repeat(12_000));
        for result in [&said, &"a".repeat(300_000)] {
            let found = time(result);
            assert!(
                found < other * 10,
                "{name}: {other:?} without, {found:?} with them"
            );
        }
    }
}
