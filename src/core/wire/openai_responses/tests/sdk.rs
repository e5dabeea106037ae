//! Streams as upstream sends them, and the view of an SDK on baton's stream.

use pretty_assertions::assert_eq;

use super::*;
use crate::response::StreamMerge;
use crate::wire::{Ending, LegReport, ResponseWatch};

pub(super) const WATCH: ResponseWatch = ResponseWatch {
    hide: crate::tools::ToolNames::HANDOFF,
    buffered_bytes: 1000,
};

/// Events as upstream sends them: numbered, with the response object in the last one.
pub(super) fn leg(id: &str, items: &[Vec<Value>], end: Value) -> String {
    let tools =
        json!([{"type": "function", "name": "session_handoff"}, {"type": "function", "name": "read"}]);
    let created = json!({"id": id, "object": "response", "created_at": 1, "status": "in_progress", "model": "m",
        "output": [], "previous_response_id": null, "tools": tools, "usage": null});
    let mut response = created.clone();
    response
        .as_object_mut()
        .unwrap()
        .extend(end.as_object().unwrap().clone());
    let done = items.iter().map(|events| events.last().unwrap()["item"].clone());
    if response["output"] == json!([]) {
        response["output"] = done.filter(|i| !i.is_null()).collect();
    }
    let status = response["status"].as_str().unwrap();
    let mut all = vec![
        json!({"type": "response.created", "response": created}),
        json!({"type": "response.in_progress", "response": created}),
    ];
    all.extend(items.concat());
    all.push(json!({"type": format!("response.{status}"), "response": response}));
    frames(all)
}

pub(super) fn frames(events: Vec<Value>) -> String {
    let numbered = events.into_iter().enumerate().map(|(n, mut event)| {
        event["sequence_number"] = n.into();
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
    });
    numbered.collect()
}

pub(super) fn completed(output: u64) -> Value {
    json!({"status": "completed", "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 90},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 100 + output}})
}

/// Events of an item without content events.
pub(super) fn plain_item(index: u64, item: Value) -> Vec<Value> {
    vec![
        json!({"type": "response.output_item.added", "output_index": index, "item": item}),
        json!({"type": "response.output_item.done", "output_index": index, "item": item}),
    ]
}

pub(super) fn call_item(index: u64, mut item: Value) -> Vec<Value> {
    let whole = item.clone();
    let arguments = item["arguments"].take();
    item["arguments"] = "".into();
    item["status"] = "in_progress".into();
    let (first, second) = arguments.as_str().unwrap().split_at(3);
    let delta = |piece: &str| {
        json!({"type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": index,
            "delta": piece})
    };
    vec![
        json!({"type": "response.output_item.added", "output_index": index, "item": item}),
        delta(first),
        delta(second),
        json!({"type": "response.function_call_arguments.done", "item_id": item["id"], "output_index": index,
            "arguments": arguments}),
        json!({"type": "response.output_item.done", "output_index": index, "item": whole}),
    ]
}

pub(super) fn text_item(index: u64, id: &str, pieces: &[&str]) -> Vec<Value> {
    let part = |text: &str| json!({"type": "output_text", "annotations": [], "text": text});
    let at = |kind: &str, key: &str, value: Value| json!({"type": kind, "item_id": id, "output_index": index, "content_index": 0, key: value});
    let text = pieces.concat();
    let mut begun = message(id, "");
    begun["content"] = json!([]);
    let mut all = vec![
        json!({"type": "response.output_item.added", "output_index": index, "item": begun}),
        at("response.content_part.added", "part", part("")),
    ];
    all.extend(
        pieces
            .iter()
            .map(|p| at("response.output_text.delta", "delta", json!(p))),
    );
    all.push(at("response.output_text.done", "text", json!(text)));
    all.push(at("response.content_part.done", "part", part(&text)));
    all.push(json!({"type": "response.output_item.done", "output_index": index, "item": message(id, &text)}));
    all
}

pub(super) struct SdkRun {
    pub(super) merge: StreamMerge,
    pub(super) out: Vec<Bytes>,
}

impl SdkRun {
    pub(super) fn new(request: &Value) -> Self {
        Self::watching(request, WATCH)
    }

    pub(super) fn watching(request: &Value, watch: ResponseWatch) -> Self {
        let machine = WIRE.machine(&reading(request).view, watch);
        Self {
            merge: StreamMerge::new(machine, 1 << 20, true),
            out: Vec::new(),
        }
    }

    pub(super) fn feed(&mut self, stream: &str) -> LegReport {
        self.merge
            .feed(Bytes::copy_from_slice(stream.as_bytes()), &mut self.out);
        self.merge.finish_leg(&mut self.out);
        self.merge.report().clone()
    }

    pub(super) fn say(&mut self, text: &str) {
        self.merge.say(text, &mut self.out);
    }

    pub(super) fn close(mut self, ending: Ending) -> SdkView {
        self.merge.close(ending, &mut self.out);
        check(&self.out.concat())
    }
}

pub(super) fn hi() -> Value {
    with_input(json!([user("hi")]))
}

pub(super) fn shown_sentinel() -> String {
    format!("[[handoff-resume:{ID}]]")
}

/// Result of an SDK that reads a stream.
#[derive(Debug)]
pub(super) struct SdkView {
    pub(super) kinds: Vec<String>,
    pub(super) items: Vec<Value>,
    pub(super) texts: Vec<String>,
    pub(super) end: Value,
}

/// Reads a stream with the checks of the official accumulators.
pub(super) fn check(stream: &[u8]) -> SdkView {
    let text = String::from_utf8(stream.to_vec()).unwrap();
    let events = text
        .lines()
        .filter_map(|l| l.strip_prefix("data: "))
        .filter(|d| *d != "[DONE]");
    let (mut seen, mut id) = (
        SdkView {
            kinds: vec![],
            items: vec![],
            texts: vec![],
            end: Value::Null,
        },
        Value::Null,
    );
    for (n, data) in events.enumerate() {
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(event["sequence_number"], n, "{data}");
        let kind = event["type"].as_str().unwrap().to_owned();
        assert!(seen.end.is_null(), "behind the end: {data}");
        if let Some(response) = event.get("response") {
            if kind == "response.created" {
                assert_eq!((n, &id), (0, &Value::Null));
                id = response["id"].clone();
            }
            assert_eq!(response["id"], id);
            assert!(!response["tools"].to_string().contains("session_handoff"));
        }
        let index = event["output_index"].as_u64().map(|i| i as usize);
        match (&*kind, index) {
            ("response.output_item.added", Some(index)) => {
                assert_eq!(index, seen.items.len(), "indexes without gaps");
                seen.items.push(event["item"].clone());
                seen.texts.push(String::new());
            }
            ("response.output_item.done", Some(index)) => {
                for key in ["id", "type", "call_id"] {
                    assert_eq!(seen.items[index][key], event["item"][key]);
                }
                let text = &event["item"]["content"][0]["text"];
                assert!(text.is_null() || *text == *seen.texts[index], "{text}");
                seen.items[index] = event["item"].clone();
            }
            ("response.output_text.delta", Some(index)) => {
                seen.texts[index] += event["delta"].as_str().unwrap()
            }
            ("response.output_text.done", Some(index)) => assert_eq!(event["text"], *seen.texts[index]),
            ("response.content_part.done", Some(index)) => {
                assert_eq!(event["part"]["text"], *seen.texts[index])
            }
            ("response.completed" | "response.failed" | "response.incomplete", _) => {
                seen.end = event["response"].clone();
            }
            _ => {}
        }
        if let (Some(index), Some(item)) = (index, event.get("item_id")) {
            assert_eq!(seen.items[index]["id"], *item);
        }
        seen.kinds.push(kind);
    }
    seen
}
