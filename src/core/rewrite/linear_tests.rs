//! The cost of any request is linear in its size, counted at 10 and 100 KB, and in long runs at 1 and 10 MB.

use bytes::Bytes;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::marker::seal::SealKey;
use crate::marker::{aside, gap, note, sentinel};
use crate::record::WireId;
use crate::record::{HiddenPair, HiddenResult, InsertionPoint, LOCAL};
use crate::rewrite::preamble;
use crate::text::cost::{self, assert_linear, at_sizes, up_to_1_mb};
use crate::wire::{Operation, WIRES, Wire, wire};

const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);

/// A message that consists only of text.
pub(super) fn message(wire: WireId, role: &str, texts: &[String]) -> Value {
    let model = role == "assistant";
    match wire {
        WireId::Gemini => json!({"role": if model { "model" } else { "user" },
            "parts": texts.iter().map(|t| json!({"text": t})).collect::<Vec<_>>()}),
        WireId::Ollama => json!({"role": role, "content": texts.concat()}),
        WireId::OpenaiResponses => json!({"type": "message", "role": role,
            "content": texts.iter().map(|t| json!({"type": "output_text", "text": t})).collect::<Vec<_>>()}),
        WireId::Anthropic | WireId::OpenaiChat => json!({"role": role,
            "content": texts.iter().map(|t| json!({"type": "text", "text": t})).collect::<Vec<_>>()}),
    }
}

/// A call of the agent's own tool, and its result.
pub(super) fn call(wire: WireId, id: &str, arguments: &Value) -> Value {
    match wire {
        WireId::Gemini => {
            json!({"role": "model", "parts": [{"functionCall": {"id": id, "name": "f", "args": arguments}}]})
        }
        WireId::Ollama => json!({"role": "assistant", "content": "",
            "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}),
        WireId::OpenaiResponses => json!({"type": "function_call", "call_id": id, "name": "f",
            "arguments": arguments.to_string(), "x": arguments}),
        WireId::Anthropic => json!({"role": "assistant",
            "content": [{"type": "tool_use", "id": id, "name": "f", "input": arguments}]}),
        WireId::OpenaiChat => json!({"role": "assistant", "content": null, "x": arguments,
            "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
    }
}

pub(super) fn result(wire: WireId, id: &str) -> Value {
    match wire {
        WireId::Gemini => {
            json!({"role": "user", "parts": [{"functionResponse": {"id": id, "name": "f", "response": {}}}]})
        }
        WireId::Ollama => json!({"role": "tool", "content": "done", "tool_name": "f"}),
        WireId::OpenaiResponses => json!({"type": "function_call_output", "call_id": id, "output": "done"}),
        WireId::Anthropic => json!({"role": "user",
            "content": [{"type": "tool_result", "tool_use_id": id, "content": "done"}]}),
        WireId::OpenaiChat => json!({"role": "tool", "tool_call_id": id, "content": "done"}),
    }
}

pub(super) fn body(wire: WireId, messages: Vec<Value>) -> Bytes {
    let (list, tools) = match wire {
        WireId::OpenaiResponses => ("input", json!([{"type": "function", "name": "f"}])),
        WireId::Gemini => ("contents", json!([{"functionDeclarations": [{"name": "f"}]}])),
        _ => (
            "messages",
            json!([{"type": "custom", "name": "f", "function": {"name": "f"}}]),
        ),
    };
    let mut body = json!({"model": "m", "tools": tools});
    body[list] = messages.into();
    body.to_string().into()
}

fn pair(wire: &Wire, id: u128, place: InsertionPoint) -> HiddenPair {
    let call = crate::wire::HiddenCall {
        id: "h".into(),
        arguments: "{}".into(),
        complete: true,
        ..Default::default()
    };
    HiddenPair {
        id: Uuid::from_u128(id),
        principal: LOCAL.into(),
        conversation: "c".into(),
        wire: wire.id(),
        tool: "session_handoff".into(),
        call_id: "h".into(),
        call: (wire.functions.hidden_call)(&call),
        answer: HiddenResult::EMPTY_PROMPT,
        place,
        pending: None,
        created_ms: 0,
    }
}

/// Repeats `text` to about this many bytes.
fn filled(text: &str, bytes: usize) -> String {
    text.repeat(bytes / text.len() + 1)
}

type Case = fn(WireId, usize) -> Vec<Value>;

/// Adversarial transcripts of about a given size in bytes.
const CASES: [(&str, Case); 13] = [
    ("opening lines and one closing line", |w, n| {
        let text =
            filled(&format!("{}\n", sentinel::opening(ID)), n) + "[[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]";
        vec![
            message(w, "user", &["a".into()]),
            message(w, "assistant", &[text]),
        ]
    }),
    ("opening and closing lines in turn", |w, n| {
        let text = filled(
            &format!(
                "{}\n[[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]\n",
                sentinel::opening(ID)
            ),
            n,
        );
        vec![message(w, "assistant", &[text])]
    }),
    ("broken-up marks", |w, n| {
        vec![message(w, "assistant", &[filled("[[handoff-resume\\:", n)])]
    }),
    ("broken-up marks behind one opening line", |w, n| {
        let text = format!("{}\n{}", sentinel::opening(ID), filled("[[handoff-aside\\: ", n));
        vec![message(w, "assistant", &[text])]
    }),
    ("marks among blanks and backslashes", |w, n| {
        vec![message(
            w,
            "assistant",
            &[filled(
                &format!("        {}  \n\\\\\\\\\n", sentinel::opening(ID)),
                n,
            )],
        )]
    }),
    ("a part for each mark", |w, n| {
        let parts = vec![gap::spaced(&sentinel::opening(ID)); n / 80];
        vec![message(w, "user", &["a".into()]), message(w, "assistant", &parts)]
    }),
    ("unknown asides", |w, n| {
        vec![message(
            w,
            "assistant",
            &[filled(&format!("{}\n", aside::line(ID)), n)],
        )]
    }),
    ("known asides in one text", |w, n| {
        let lines = (0..n / 50).map(|i| format!("{}\n", aside::line(Uuid::from_u128(i as u128 % 64))));
        vec![
            message(w, "user", &["a".into()]),
            message(w, "assistant", &[lines.collect()]),
        ]
    }),
    ("known asides in a message each", |w, n| {
        let all = (0..n / 150).flat_map(|i| {
            let aside = gap::spaced(&aside::line(Uuid::from_u128(i as u128)));
            [
                message(w, "user", &["a".into()]),
                message(w, "assistant", &[aside]),
            ]
        });
        all.collect()
    }),
    ("a sibling's id in its arguments", |w, n| {
        let arguments = json!({"x": vec!["call_s"; n / 9]});
        vec![
            message(w, "user", &["a".into()]),
            call(w, "call_t", &arguments),
            result(w, "call_t"),
        ]
    }),
    ("results whose calls were cut", |w, n| {
        let mut all = vec![message(w, "assistant", &[gap::spaced(&sentinel::opening(ID))])];
        all.extend((0..n / 100).map(|i| result(w, &format!("call_{i}"))));
        all.push(message(w, "user", &["b".into()]));
        all
    }),
    ("calls without results", |w, n| {
        let all = (0..n / 150).map(|i| call(w, &format!("call_{i}"), &json!({"i": i % 7})));
        [message(w, "user", &["a".into()])]
            .into_iter()
            .chain(all)
            .collect()
    }),
    ("headings of a preamble", |w, n| {
        let text = filled("# AGENTS.md instructions </x>\n", n) + "\n<x>";
        vec![
            message(w, "user", &[text]),
            message(w, "assistant", &["a".into()]),
        ]
    }),
];

/// Runs all processing of a request before it is sent.
fn all_of_it(wire: &Wire, body: &Bytes, pairs: &[HiddenPair]) -> usize {
    let reading = RequestReading::new(wire, body, Operation::Generate).unwrap();
    let candidates = reading.candidates();
    let key = SealKey::new(*b"key").into();
    let opened = |c: &Candidate| {
        c.sentinel
            .sealed
            .map(|s| s.opened(body, &key, LOCAL, c.sentinel.id))
    };
    assert!(
        candidates
            .iter()
            .filter_map(opened)
            .all(|prompt| prompt.is_none())
    );
    let ids = reading.call_names().len() + reading.asides().len();
    let tags = ["# AGENTS.md".to_owned(), "<system-reminder>".to_owned()];
    let found = preamble::of(&reading.view, None, &tags);
    let head = preamble::head(wire, &found, "Go on.");
    let cuts = candidates.first().map(|candidate| Cut::At {
        candidate,
        prompt: Some("Go on."),
        head: &head,
    });
    let cuts = cuts.into_iter().chain([Cut::None, Cut::Fresh { head: &head }]);
    let done = cuts.map(|cut| {
        let what = Rewrite {
            cut,
            tools: Some(crate::tools::ToolTable::handoff()),
            pairs,
            tags: &tags,
            ..Rewrite::default()
        };
        rewrite(&reading, &what).rope.len()
    });
    ids + done.sum::<usize>()
}

fn straight(wire: &Wire, name: &str, case: Case, sizes: &[usize], pairs: &[HiddenPair]) {
    let name = format!("{name} on {}", wire.id().name());
    assert_linear(&name, sizes, |size| {
        let body = body(wire.id(), case(wire.id(), size));
        (cost::of(|| all_of_it(wire, &body, pairs)).0, body.len())
    });
}

fn pairs(wire: &Wire) -> Vec<HiddenPair> {
    let beside = InsertionPoint::Beside {
        sibling: "call_s".into(),
        offset: 0,
    };
    let mut all: Vec<_> = (0..64).map(|id| pair(wire, id, InsertionPoint::Aside)).collect();
    all.push(pair(wire, 1000, beside));
    all
}

at_sizes! {
    every_transcript_costs_steps_in_proportion_to_its_size
    notes_cost_steps_in_proportion_to_the_transcript
    pairs_by_the_thousand_cost_no_more_each
    pairs_beside_calls_cost_no_more_each
    items_of_the_responses_api
    a_member_that_is_repeated_in_a_preamble
}

/// Runs the largest size on one wire only.
fn on_every_wire(sizes: &[usize], test: impl Fn(&'static Wire, &[usize])) {
    let small = up_to_1_mb(sizes);
    for wire in WIRES {
        test(wire, small);
    }
    if small.len() < sizes.len() {
        test(wire(WireId::Anthropic), sizes);
    }
}

fn every_transcript_costs_steps_in_proportion_to_its_size(sizes: &[usize]) {
    on_every_wire(sizes, |wire, sizes| {
        for (name, case) in CASES {
            straight(wire, name, case, sizes, &pairs(wire));
        }
    });
}

/// Thousands of baton's replies: with their commands, all in one string, and undone repeatedly.
fn notes_cost_steps_in_proportion_to_the_transcript(sizes: &[usize]) {
    let cases: [(&str, Case); 3] = [
        ("a note in each answer", |w, n| {
            let noted = |id: u128| format!("baton: so.\n\n{}", note::line(Uuid::from_u128(id)));
            let both = (0..n / 200).flat_map(|i| {
                [
                    message(w, "user", &["::pins".into()]),
                    message(w, "assistant", &[noted(i as u128 + 1)]),
                ]
            });
            both.chain([message(w, "user", &["a".into()])]).collect()
        }),
        ("notes in one text", |w, n| {
            let line = format!("{}\n", note::line(ID));
            vec![
                message(w, "user", &["::pins".into()]),
                message(w, "assistant", &[filled(&line, n)]),
                message(w, "user", &["a".into()]),
            ]
        }),
        ("one handoff undone again and again", |w, n| {
            let opening = message(w, "assistant", &[gap::spaced(&sentinel::opening(ID))]);
            let undo = (0..n / 200).flat_map(|_| {
                [
                    message(w, "user", &["::handoff undo".into()]),
                    message(w, "assistant", &[format!("baton: so.\n\n{}", note::line(ID))]),
                ]
            });
            let first = [message(w, "user", &["a".into()]), opening];
            let last = [message(w, "user", &["b".into()])];
            first.into_iter().chain(undo).chain(last).collect()
        }),
    ];
    let look = notes::NoteSearch {
        prefix: "::",
        tags: &[],
    };
    for wire in WIRES {
        for (name, case) in cases {
            let name = format!("{name} on {}", wire.id().name());
            assert_linear(&name, up_to_1_mb(sizes), |size| {
                let body = body(wire.id(), case(wire.id(), size));
                let reading = RequestReading::new(wire, &body, Operation::Generate).unwrap();
                let (steps, cleaned) = cost::of(|| notes::take_out(&reading, look, &[]));
                assert!(cleaned.is_some_and(|c| c.removed > size / 4), "{name}");
                (steps, body.len())
            });
        }
    }
}

/// As many pairs as there are positions for them.
fn pairs_by_the_thousand_cost_no_more_each(sizes: &[usize]) {
    let case = CASES
        .iter()
        .find(|(name, _)| *name == "known asides in a message each")
        .unwrap();
    for wire in WIRES {
        assert_linear(wire.id().name(), up_to_1_mb(sizes), |size| {
            let pairs: Vec<_> = (0..size as u128 / 150)
                .map(|id| pair(wire, id, InsertionPoint::Aside))
                .collect();
            let body = body(wire.id(), case.1(wire.id(), size));
            (cost::of(|| all_of_it(wire, &body, &pairs)).0, body.len())
        });
    }
}

/// A transcript of calls with these ids, in a message each or all in one.
fn calling(wire: WireId, ids: &[String], in_one: bool) -> Vec<Value> {
    let calls = ids.iter().map(|id| call(wire, id, &json!({"id": id})));
    let mut calls: Vec<Value> = calls.collect();
    let results = ids.iter().map(|id| result(wire, id));
    let mut all = vec![message(wire, "user", &["a".into()])];
    if !in_one {
        all.extend(
            calls
                .into_iter()
                .zip(results)
                .flat_map(|(call, result)| [call, result]),
        );
        return all;
    }
    for list in ["content", "parts", "tool_calls"] {
        let parts = calls
            .iter_mut()
            .filter_map(|c| c.get_mut(list)?.get_mut(0).map(Value::take));
        let parts: Vec<Value> = parts.collect();
        if !parts.is_empty() {
            calls.truncate(1);
            calls[0][list] = parts.into();
        }
    }
    all.extend(calls);
    all.extend(results);
    all
}

/// Cost and bytes of restoring as many pairs as there are calls. `here` means that they belong to this
/// transcript and not to another branch.
fn cost_of_pairs(wire: &Wire, size: usize, in_one: bool, here: bool) -> (u64, usize) {
    let count = size / 140;
    let ids: Vec<String> = (0..count).map(|n| format!("call_{n:08x}")).collect();
    let body = body(wire.id(), calling(wire.id(), &ids, in_one));
    let reading = RequestReading::new(wire, &body, Operation::Generate).unwrap();
    let siblings = match here {
        true => reading.call_names(),
        false => (0..count).map(|n| format!("call_x{n:08x}")).collect(),
    };
    let pairs = siblings.into_iter().enumerate().map(|(n, sibling)| {
        let offset = [0, -1, 1][n % 3];
        pair(wire, n as u128, InsertionPoint::Beside { sibling, offset })
    });
    let pairs: Vec<HiddenPair> = pairs.collect();
    let what = Rewrite {
        pairs: &pairs,
        ..Rewrite::default()
    };
    let (steps, done) = cost::of(|| rewrite(&reading, &what));
    assert_eq!(done.placed.len(), if here { pairs.len() } else { 0 });
    (steps, body.len())
}

/// As many pairs as there are calls, in a message each and all in one; and as many whose calls are missing.
fn pairs_beside_calls_cost_no_more_each(sizes: &[usize]) {
    on_every_wire(sizes, |wire, sizes| {
        for (in_one, here) in [(true, true), (false, true), (false, false)] {
            let name = format!("{}, {in_one} {here}", wire.id().name());
            assert_linear(&name, sizes, |size| cost_of_pairs(wire, size, in_one, here));
        }
    });
}

fn items_of_the_responses_api(sizes: &[usize]) {
    let wire = wire(WireId::OpenaiResponses);
    let cases: [(&str, Case); 4] = [
        ("ids of ours in one item", |w, n| {
            vec![
                message(w, "user", &["a".into()]),
                json!({"type": "reasoning", "x": vec!["msg_handoff_"; n / 15]}),
            ]
        }),
        ("reasoning behind the cut", |w, n| {
            let mut all = vec![message(w, "assistant", &[sentinel::opening(ID)])];
            all.extend(vec![json!({"type": "reasoning", "summary": []}); n / 35]);
            all
        }),
        ("lists of tools", |_, n| {
            vec![json!({"type": "additional_tools", "tools": []}); n / 40]
        }),
        ("references to ours", |_, n| {
            let item = format!("msg_handoff_{}", ID.simple());
            vec![json!({"type": "item_reference", "id": item}); n / 80]
        }),
    ];
    for (name, case) in cases {
        straight(wire, name, case, up_to_1_mb(sizes), &[]);
    }
}

fn a_member_that_is_repeated_in_a_preamble(sizes: &[usize]) {
    let wire = wire(WireId::Anthropic);
    assert_linear("a repeated member", sizes, |n| {
        let repeated = filled(r#","cache_control":1"#, n);
        let block = format!(r#"{{"type":"text","text":"<system-reminder>x</system-reminder>"{repeated}}}"#);
        let turn = format!(r#"{{"role":"user","content":[{block},{{"type":"text","text":"a"}}]}}"#);
        let body = Bytes::from(format!(r#"{{"messages":[{turn}],"tools":[{{"name":"f"}}]}}"#));
        (cost::of(|| all_of_it(wire, &body, &[])).0, body.len())
    });
}
