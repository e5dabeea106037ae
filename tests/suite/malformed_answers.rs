//! Responses in which one value has a type that the API does not allow there.
//!
//! The agent still gets valid JSON, and a leg is never joined to anything but a message.

use std::path::PathBuf;

use baton_core::record::WireId;
use baton_core::response::StreamMerge;
use baton_core::rewrite::RequestReading;
use baton_core::wire::{self, Ending, Leg, LegOutput, Operation, ResponseWatch, View, Wire};
use bytes::Bytes;
use serde_json::{Value, json};

const WATCH: ResponseWatch = ResponseWatch {
    hide: baton_core::tools::ToolNames::HANDOFF,
    buffered_bytes: 1 << 20,
};

const ENDINGS: [Ending; 4] = [
    Ending::Own,
    Ending::WithoutCall,
    Ending::Stopped { next_input: 7 },
    Ending::Lost { next_input: 7 },
];

fn golden(wire: &Wire, name: &str) -> Bytes {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(directory.join(wire.id().name()).join(name))
        .unwrap()
        .into()
}

/// Inserts a marker into the model's text, so that the response is not relayed unread.
fn with_mark(text: &[u8]) -> String {
    let text = String::from_utf8(text.to_vec()).unwrap();
    let marked = text.replace("The survey", "[[handoff-resume:x The survey");
    assert_ne!(text, marked);
    marked
}

/// Returns copies of the value, each with one node replaced by a value of another type.
fn odd(value: &Value) -> Vec<Value> {
    let odd = [json!(7), json!("x"), json!([7]), json!({"a": 7}), Value::Null];
    let mut places = Vec::new();
    walk(value, String::new(), &mut places);
    let mut all = Vec::new();
    for place in places {
        for other in &odd {
            let mut changed = value.clone();
            *changed.pointer_mut(&place).unwrap() = other.clone();
            all.push(changed);
        }
    }
    all
}

fn walk(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                walk(value, format!("{place}/{key}"), places);
            }
        }
        Value::Array(elements) => {
            for (i, value) in elements.iter().enumerate() {
                walk(value, format!("{place}/{i}"), places);
            }
        }
        _ => {}
    }
    places.push(place);
}

fn leg(wire: &Wire, body: &Bytes, then: Option<&str>) -> Option<Leg> {
    Some(Leg {
        report: wire.reply(&View::empty(wire.id()), body, WATCH)?,
        body: body.clone(),
        then: then.map(str::to_owned).into_iter().collect(),
    })
}

/// Fails with the first failure of each kind of change.
fn judge(wrong: &[String]) {
    let some: Vec<_> = wrong.iter().take(8).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), some.join("\n"));
}

fn replies_remain_valid_json(wire: &Wire) {
    let request = RequestReading::new(wire, &golden(wire, "00_request_agent.json"), Operation::Generate);
    let view = request.unwrap().view;
    let good = golden(wire, "04_leg2.json");
    let base = with_mark(&golden(wire, "02_response_handoff.json"));
    let mut wrong = Vec::new();
    for (n, body) in odd(&serde_json::from_str(&base).unwrap()).into_iter().enumerate() {
        let body = Bytes::from(body.to_string());
        let Some(first) = leg(wire, &body, Some("told")) else {
            continue;
        };
        let mut check = |made: &[u8], what: &str| {
            if serde_json::from_slice::<Value>(made).is_err() {
                let text = String::from_utf8_lossy(made);
                wrong.push(format!("{what}: {body:?}\n{text}"));
            }
        };
        let alone = Leg {
            then: Vec::new(),
            ..first.clone()
        };
        let other = leg(wire, &good, None).unwrap();
        let before = Leg {
            then: vec!["told".into()],
            ..other.clone()
        };
        let chains = [
            vec![alone.clone()],
            vec![first.clone()],
            vec![first, other],
            vec![before, alone],
        ];
        for (legs, i) in chains.iter().zip(n..) {
            for ending in [ENDINGS[i % 4], ENDINGS[(i + 1) % 4]] {
                let opening = (i % 8 < 4).then_some("opening");
                check(&wire.join(legs, opening, ending), "joined");
            }
        }
        check(&view.shaped_for(body.clone()), "as asked");
        if let Some(more) = (wire.functions.ask_again)(&LegOutput::Reply(body.clone()), &[], WATCH.hide) {
            check(
                format!("[{}]", more.trim_end_matches(',')).as_bytes(),
                "told again",
            );
        }
    }
    judge(&wrong);
}

/// A response without a message is relayed, because there is nothing to join.
#[test]
fn a_reply_without_a_message_is_relayed() {
    let message = |value: Value| json!({"id": "x", "choices": [{"index": 0, "message": value, "finish_reason": "stop"}], "x": "handoff-"});
    for value in [json!("words"), json!(7), json!(["words"])] {
        let body = Bytes::from(message(value).to_string());
        assert!(
            wire::wire(WireId::OpenaiChat)
                .reply(&View::empty(WireId::OpenaiChat), &body, WATCH)
                .is_none()
        );
    }
    let reply = |content: Value| json!({"id": "x", "type": "message", "content": content, "stop_reason": "end_turn", "x": "handoff-"});
    for value in [json!("words"), json!(7), json!({"type": "text"})] {
        let body = Bytes::from(reply(value).to_string());
        assert!(
            wire::wire(WireId::Anthropic)
                .reply(&View::empty(WireId::Anthropic), &body, WATCH)
                .is_none()
        );
    }
    let output = json!({"id": "x", "output": 7, "x": "handoff-"}).to_string();
    let responses = wire::wire(WireId::OpenaiResponses);
    assert!(
        responses
            .reply(&View::empty(WireId::OpenaiResponses), &Bytes::from(output), WATCH)
            .is_none()
    );
}

/// Returns the frames of a stream, each with its separator.
fn frames(wire: &Wire, name: &str) -> Vec<String> {
    let lines = wire.id() == WireId::Ollama;
    let (kind, end) = if lines { ("ndjson", "\n") } else { ("sse", "\n\n") };
    let text = String::from_utf8(golden(wire, &format!("{name}.{kind}")).to_vec()).unwrap();
    text.split_inclusive(end).map(str::to_owned).collect()
}

/// Splits a frame into prefix, JSON and end.
fn parts(frame: &str) -> Option<(&str, Value, &str)> {
    let at = frame.find('{')?;
    let value = serde_json::from_str(frame[at..].trim_end()).ok()?;
    Some((&frame[..at], value, &frame[frame.trim_end().len()..]))
}

fn streams_remain_valid_json(wire: &Wire) {
    let request =
        RequestReading::new(wire, &golden(wire, "00_request_agent.json"), Operation::Generate).unwrap();
    let (first, second) = (frames(wire, "03_leg1"), frames(wire, "04_leg2").concat());
    let mut wrong = Vec::new();
    for i in 0..first.len() {
        let Some((front, value, end)) = parts(&first[i]) else {
            continue;
        };
        for (n, changed) in odd(&value).into_iter().enumerate() {
            let mut stream = first.clone();
            stream[i] = format!("{front}{changed}{end}");
            let mut merge = StreamMerge::new(wire.machine(&request.view, WATCH), 1 << 20, true);
            let mut out = Vec::new();
            merge.feed(stream.concat().into(), &mut out);
            merge.finish_leg(&mut out);
            merge.say("told", &mut out);
            if n % 2 == 0 {
                merge.next_leg();
                merge.feed(second.clone().into(), &mut out);
                merge.finish_leg(&mut out);
            }
            merge.close(ENDINGS[n % 4], &mut out);
            let text = String::from_utf8(out.concat()).unwrap();
            for line in text.lines() {
                let data = line.strip_prefix("data: ").unwrap_or(line);
                if data.starts_with('{') && serde_json::from_str::<Value>(data).is_err() {
                    wrong.push(format!("{changed}\n{line}"));
                }
            }
        }
    }
    judge(&wrong);
}

macro_rules! on_every_wire {
    ($($wire:ident $id:ident),*) => {
        $(mod $wire {
            use baton_core::record::WireId;
            use baton_core::wire::wire;

            #[test]
            fn replies_remain_valid_json() {
                super::replies_remain_valid_json(wire(WireId::$id));
            }

            #[test]
            fn streams_remain_valid_json() {
                super::streams_remain_valid_json(wire(WireId::$id));
            }
        })*
    };
}

on_every_wire!(anthropic Anthropic, openai_chat OpenaiChat, openai_responses OpenaiResponses, gemini Gemini, ollama Ollama);
