//! Random transcripts, written for each wire and read again.
//!
//! Every text is found once, in order and at its position, and a rewrite sees the same turns.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::record::WireId;
use crate::wire::TurnPartKind;

/// A part as the generator writes it.
#[derive(Debug, Clone, PartialEq)]
enum SpokenPart {
    Text(String),
    Thinking(String),
    Call(String, String),
    Result(String, Vec<String>),
    Image,
}

/// Strings with everything that JSON escapes. They are never empty, because some wires drop empty ones.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{1,12}",
        any::<String>().prop_map(|text| format!("{text}.")),
        Just("\"\\\n\u{2028}\u{1F980}{[".to_owned()),
    ]
}

/// A question, the model's output, and the results of its calls.
fn round() -> impl Strategy<Value = [Vec<SpokenPart>; 3]> {
    let spoken_text = prop::collection::vec(words(), 1..3);
    let calls = prop::collection::vec((words(), prop::collection::vec(words(), 1..3)), 0..3);
    (
        spoken_text,
        prop::option::of(words()),
        words(),
        calls,
        any::<bool>(),
    )
        .prop_map(|(user_words, thought, spoken_text, calls, image)| {
            let mut question: Vec<_> = user_words.into_iter().map(SpokenPart::Text).collect();
            question.extend(image.then_some(SpokenPart::Image));
            let mut answer: Vec<_> = thought.map(SpokenPart::Thinking).into_iter().collect();
            answer.push(SpokenPart::Text(spoken_text));
            let ids = (0..calls.len()).map(|n| format!("call_{n}"));
            let (mut asks, mut results) = (Vec::new(), Vec::new());
            for (id, (argument, texts)) in ids.zip(calls) {
                asks.push(SpokenPart::Call(id.clone(), argument));
                results.push(SpokenPart::Result(id, texts));
            }
            answer.extend(asks);
            [question, answer, results]
        })
}

fn blocks(parts: &[SpokenPart]) -> Vec<Value> {
    let block = |part: &SpokenPart| match part {
        SpokenPart::Text(text) => json!({"type": "text", "text": text}),
        SpokenPart::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": "s"}),
        SpokenPart::Call(id, argument) => {
            json!({"type": "tool_use", "id": id, "name": "f", "input": {"a": argument}})
        }
        SpokenPart::Result(id, texts) => {
            let texts: Vec<_> = texts
                .iter()
                .map(|text| json!({"type": "text", "text": text}))
                .collect();
            json!({"type": "tool_result", "tool_use_id": id, "content": texts})
        }
        SpokenPart::Image => json!({"type": "image", "source": {"type": "base64", "data": "aGk="}}),
    };
    parts.iter().map(block).collect()
}

fn gemini(parts: &[SpokenPart]) -> Vec<Value> {
    let part = |part: &SpokenPart| match part {
        SpokenPart::Text(text) => json!({"text": text}),
        SpokenPart::Thinking(text) => json!({"text": text, "thought": true}),
        SpokenPart::Call(id, argument) => {
            json!({"functionCall": {"id": id, "name": "f", "args": {"a": argument}}})
        }
        SpokenPart::Result(id, texts) => {
            json!({"functionResponse": {"id": id, "name": "f", "response": {"output": texts}}})
        }
        SpokenPart::Image => json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
    };
    parts.iter().map(part).collect()
}

/// Messages that have thinking and calls next to the content.
fn beside(role: &str, parts: &[SpokenPart], ollama: bool) -> Vec<Value> {
    let mut message = json!({"role": role});
    let (mut content, mut calls, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        match part {
            SpokenPart::Text(text) => content.push(json!({"type": "text", "text": text})),
            SpokenPart::Thinking(text) if ollama => message["thinking"] = json!(text),
            SpokenPart::Thinking(text) => {
                message["reasoning_content"] = json!(text);
                message["reasoning"] = json!(text);
            }
            SpokenPart::Call(id, argument) => {
                let arguments = json!({"a": argument});
                let arguments = if ollama {
                    arguments
                } else {
                    json!(arguments.to_string())
                };
                calls.push(json!({"id": id, "function": {"name": "f", "arguments": arguments}}));
            }
            SpokenPart::Result(id, texts) => {
                let texts: Vec<_> = texts
                    .iter()
                    .map(|text| json!({"type": "text", "text": text}))
                    .collect();
                let texts = if ollama {
                    texts[0]["text"].clone()
                } else {
                    json!(texts)
                };
                out.push(json!({"role": "tool", "tool_call_id": id, "content": texts}));
            }
            SpokenPart::Image if ollama => message["images"] = json!(["aGk="]),
            SpokenPart::Image => content.push(json!({"type": "image_url", "image_url": {"url": "data:x"}})),
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message["content"] = match ollama {
        true => content.first().map_or(Value::Null, |block| block["text"].clone()),
        false => content.into(),
    };
    if out.is_empty() { vec![message] } else { out }
}

/// Items, with thinking and calls as separate items.
fn items(role: &str, parts: &[SpokenPart]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for part in parts {
        let content = match part {
            SpokenPart::Text(text) => json!({"type": "input_text", "text": text}),
            SpokenPart::Image => json!({"type": "input_image", "image_url": "data:x"}),
            SpokenPart::Thinking(text) => {
                out.push(json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], "content": null}));
                continue;
            }
            SpokenPart::Call(id, argument) => {
                let arguments = json!({"a": argument}).to_string();
                out.push(
                    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": arguments}),
                );
                continue;
            }
            SpokenPart::Result(id, texts) => {
                let texts: Vec<_> = texts
                    .iter()
                    .map(|text| json!({"type": "input_text", "text": text}))
                    .collect();
                out.push(json!({"type": "function_call_output", "call_id": id, "output": texts}));
                continue;
            }
        };
        match out.last_mut() {
            Some(last) if last["type"] == "message" => {
                if let Some(all) = last["content"].as_array_mut() {
                    all.push(content);
                }
            }
            _ => out.push(json!({"type": "message", "role": role, "content": [content]})),
        }
    }
    out
}

/// A transcript in a wire's form, and the parts of it that the wire can express.
fn spoken(wire: WireId, rounds: &[[Vec<SpokenPart>; 3]]) -> (Value, Vec<SpokenPart>) {
    let (mut list, mut spoken_text) = (Vec::new(), Vec::new());
    let turns = rounds
        .iter()
        .flat_map(|round| round.iter().zip(["user", "assistant", "user"]));
    for (parts, role) in turns.filter(|(parts, _)| !parts.is_empty()) {
        let mut parts = parts.clone();
        if wire == WireId::Ollama {
            // Ollama's messages have one text each.
            let mut texts = 0;
            parts
                .retain(|part| !matches!(part, SpokenPart::Text(_)) || std::mem::replace(&mut texts, 1) == 0);
            for part in &mut parts {
                if let SpokenPart::Result(_, texts) = part {
                    texts.truncate(1);
                }
            }
        }
        match wire {
            WireId::Anthropic => list.push(json!({"role": role, "content": blocks(&parts)})),
            WireId::Gemini => {
                let role = if role == "assistant" { "model" } else { role };
                list.push(json!({"role": role, "parts": gemini(&parts)}));
            }
            WireId::OpenaiChat => list.extend(beside(role, &parts, false)),
            WireId::Ollama => list.extend(beside(role, &parts, true)),
            WireId::OpenaiResponses => list.extend(items(role, &parts)),
        }
        spoken_text.extend(parts);
    }
    let key = match wire {
        WireId::OpenaiResponses => "input",
        WireId::Gemini => "contents",
        _ => "messages",
    };
    (json!({"model": "m", key: list}), spoken_text)
}

/// A part in the generator's form, with each text taken from its position in the body.
fn heard(part: &TranscriptPart<'_>) -> SpokenPart {
    let texts = || {
        part.texts()
            .iter()
            .map(|text| text.get().into_owned())
            .collect::<Vec<_>>()
    };
    match part.kind {
        TranscriptPartKind::Text(text) => SpokenPart::Text(text.get().into_owned()),
        TranscriptPartKind::Thinking => SpokenPart::Thinking(texts().concat()),
        TranscriptPartKind::Call(call) => SpokenPart::Call(
            call.id.unwrap().get().into_owned(),
            call.arguments.unwrap().named("a").unwrap(),
        ),
        TranscriptPartKind::Result(result) => {
            SpokenPart::Result(result.call.unwrap().get().into_owned(), texts())
        }
        TranscriptPartKind::Image => SpokenPart::Image,
        TranscriptPartKind::ToolChange | TranscriptPartKind::Other(_) => panic!("{part:?}"),
    }
}

fn check(wire: &Wire, rounds: &[[Vec<SpokenPart>; 3]]) {
    let (body, spoken_text) = spoken(wire.id(), rounds);
    let view = view(wire.id().name(), body.to_string());
    let transcript = Transcript::from_view(&view);
    let mut all = Vec::new();
    let mut places = Vec::new();
    for turn in transcript.turns() {
        for part in turn.parts() {
            assert!(turn.span.start <= part.span.start && part.span.end <= turn.span.end);
            let mut own: Vec<Span> = part.texts().iter().map(|text| text.span).collect();
            if let TranscriptPartKind::Call(call) = part.kind {
                own.push(call.arguments.unwrap().span);
            }
            assert!(
                own.iter()
                    .all(|span| turn.span.start < span.start && span.end < turn.span.end)
            );
            places.extend(own);
            all.push(heard(&part));
        }
    }
    places.sort();
    assert!(
        places.windows(2).all(|two| two[0].end <= two[1].start),
        "a text is found twice"
    );
    // Images of Ollama are next to the text, and are read after it.
    assert_eq!(all, spoken_text, "{:?}", wire.id());
    let uses = transcript.tool_uses();
    assert!(uses.iter().all(|tool| tool.answer.is_some()));
    agrees(&view);
}

/// Checks that a rewrite sees the same texts, calls and results.
fn agrees(view: &View) {
    for (at, turn) in Transcript::from_view(view).turns().enumerate() {
        let parts = turn.parts();
        let read = parts.iter().filter_map(|part| match part.kind {
            TranscriptPartKind::Text(text) => Some((TurnPartKind::Text, Some(text.span), None)),
            TranscriptPartKind::Call(call) => Some((TurnPartKind::Call, None, call.id.map(|id| id.span))),
            TranscriptPartKind::Result(result) => {
                Some((TurnPartKind::Result, None, result.call.map(|id| id.span)))
            }
            _ => None,
        });
        let kinds = [TurnPartKind::Text, TurnPartKind::Call, TurnPartKind::Result];
        let rewritten = view.content(at).parts.into_iter();
        let rewritten = rewritten.filter(|part| kinds.contains(&part.kind));
        let rewritten = rewritten.map(|part| (part.kind, part.text, part.id));
        assert_eq!(read.collect::<Vec<_>>(), rewritten.collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn every_text_is_found_once(rounds in prop::collection::vec(round(), 1..4)) {
        for wire in WIRES {
            check(wire, &rounds);
        }
    }
}
