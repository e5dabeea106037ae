//! Parsers that accept only a correct response, like the strictest SDK of each wire.

use serde_json::{Value, json};

use super::variants::{Answer, Call};
use crate::harness::AgentWire;
use crate::harness::anthropic::Anthropic;

type RawResponse = Result<Answer, String>;

fn parsed(raw: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(raw).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(raw)))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn function_calls(calls: &[Value]) -> Vec<Call> {
    let call = |c: &Value| (text(&c["id"]), text(&c["function"]["name"]));
    calls.iter().map(call).collect()
}

fn sum(usage: &Value, keys: &[&str]) -> u64 {
    keys.iter().filter_map(|key| usage[key].as_u64()).sum()
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

pub fn anthropic(raw: &[u8], stream: bool) -> RawResponse {
    let message = Anthropic.parse(raw, stream, false)?;
    ensure(message.ended && message.error.is_none(), || {
        format!("it did not end well: {message:?}")
    })?;
    let of = |kind: &str| {
        message
            .content
            .iter()
            .filter(|b| b["type"] == kind)
            .cloned()
            .collect::<Vec<_>>()
    };
    Ok(Answer {
        text: of("text").iter().map(|b| text(&b["text"])).collect(),
        calls: of("tool_use")
            .iter()
            .map(|b| (text(&b["id"]), text(&b["name"])))
            .collect(),
        stop: message.stop.unwrap_or_default(),
        input: sum(
            &message.usage,
            &[
                "input_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
            ],
        ),
        output: sum(&message.usage, &["output_tokens"]),
        keep: vec![json!({"role": "assistant", "content": message.content})],
    })
}

/// Returns the data of each event. Comments are allowed, and anything else is an error.
fn events(raw: &[u8], names: bool) -> Result<Vec<String>, String> {
    let all = String::from_utf8(raw.to_vec()).map_err(|e| e.to_string())?;
    let (all, mut out) = (all.replace("\r\n", "\n"), Vec::new());
    ensure(all.ends_with("\n\n"), || {
        format!("the last event is not complete: {all:?}")
    })?;
    for block in all.split("\n\n").filter(|b| !b.trim().is_empty()) {
        let lines: Vec<&str> = block
            .trim_start_matches('\n')
            .lines()
            .filter(|l| !l.starts_with(':'))
            .collect();
        match lines[..] {
            [] => {}
            [data] if data.starts_with("data: ") => out.push(data["data: ".len()..].to_owned()),
            [name, data] if names && name.starts_with("event: ") && data.starts_with("data: ") => {
                out.push(data["data: ".len()..].to_owned());
            }
            _ => return Err(format!("what is this event? {block:?}")),
        }
    }
    Ok(out)
}

pub fn chat(raw: &[u8], stream: bool) -> RawResponse {
    if !stream {
        let whole = parsed(raw)?;
        let choice = &whole["choices"][0];
        return chat_said(&choice["message"], &choice["finish_reason"], &whole["usage"]);
    }
    let mut events = events(raw, false)?;
    ensure(events.pop().as_deref() == Some("[DONE]"), || {
        "no [DONE] at the end".to_owned()
    })?;
    let (mut message, mut stop, mut usage) = (json!({}), Value::Null, Value::Null);
    let mut identity = None;
    for event in events {
        let chunk = parsed(event.as_bytes())?;
        ensure(usage.is_null(), || "a chunk behind the usage".to_owned())?;
        let named = (chunk["id"].clone(), chunk["model"].clone());
        let first = identity.get_or_insert_with(|| named.clone());
        ensure(*first == named, || format!("{named:?} after {first:?}"))?;
        usage = chunk["usage"].clone();
        let Some(choice) = chunk["choices"].get(0) else {
            continue;
        };
        add(&mut message, &choice["delta"])?;
        if !choice["finish_reason"].is_null() {
            ensure(stop.is_null(), || "two ends".to_owned())?;
            stop = choice["finish_reason"].clone();
        }
    }
    chat_said(&message, &stop, &usage)
}

/// Like the Python SDK, concatenates all strings and finds calls by their index.
fn add(message: &mut Value, delta: &Value) -> Result<(), String> {
    for (key, value) in delta.as_object().into_iter().flatten() {
        match value {
            Value::String(piece) => {
                let all = text(&message[key]) + piece;
                message[key] = all.into();
            }
            Value::Array(calls) => {
                let mut known = list(&message[key]);
                for call in calls {
                    let at = call["index"].as_u64().unwrap_or_default() as usize;
                    ensure(at <= known.len(), || format!("call {at} of {}", known.len()))?;
                    if at == known.len() {
                        known.push(json!({"type": "function"}));
                    }
                    let id = text(&known[at]["id"]) + &text(&call["id"]);
                    known[at]["id"] = id.into();
                    for field in ["name", "arguments"] {
                        let all = text(&known[at]["function"][field]) + &text(&call["function"][field]);
                        known[at]["function"][field] = all.into();
                    }
                }
                message[key] = known.into();
            }
            _ => {}
        }
    }
    Ok(())
}

fn chat_said(message: &Value, stop: &Value, usage: &Value) -> RawResponse {
    ensure(message["role"] == "assistant", || format!("role: {message}"))?;
    let mut keep = message.clone();
    let calls = list(&message["tool_calls"]);
    if calls.is_empty() {
        keep.as_object_mut().unwrap().remove("tool_calls");
    }
    if keep.get("content").is_none() {
        keep["content"] = Value::Null;
    }
    Ok(Answer {
        text: text(&message["content"]),
        calls: function_calls(&calls),
        stop: text(stop),
        input: sum(usage, &["prompt_tokens"]),
        output: sum(usage, &["completion_tokens"]),
        keep: vec![keep],
    })
}

pub fn responses(raw: &[u8], stream: bool) -> RawResponse {
    match stream {
        true => responses_stream(raw, false),
        false => responses_said(&parsed(raw)?),
    }
}

/// Parses responses of ChatGPT's server. They are always streamed, and the last event may omit the output.
pub fn chatgpt(raw: &[u8], _stream: bool) -> RawResponse {
    responses_stream(raw, true)
}

fn responses_stream(raw: &[u8], lean: bool) -> RawResponse {
    let (mut items, mut open, mut id, mut end) = (Vec::new(), None, None, None);
    for (at, event) in events(raw, true)?.iter().enumerate() {
        let event = parsed(event.as_bytes())?;
        let kind = text(&event["type"]);
        ensure(end.is_none(), || format!("{kind} behind the end"))?;
        ensure(event["sequence_number"] == at, || {
            format!("event {at} is numbered {}", event["sequence_number"])
        })?;
        if let Some(response) = event.get("response") {
            let first = id.get_or_insert_with(|| response["id"].clone());
            ensure(*first == response["id"], || {
                "Lifecycle response identity changed.".to_owned()
            })?;
        }
        if let Some(index) = event.get("output_index") {
            ensure(*index == items.len(), || {
                format!("{kind}: index {index} where {} is next", items.len())
            })?;
        }
        match kind.as_str() {
            "response.output_item.added" => open = Some(event["item"]["id"].clone()),
            "response.output_item.done" => {
                ensure(open.take() == Some(event["item"]["id"].clone()), || {
                    format!("not the open one: {event}")
                })?;
                items.push(event["item"].clone());
            }
            "response.completed" | "response.incomplete" => end = Some(event["response"].clone()),
            "response.failed" => return Err(event.to_string()),
            _ => {}
        }
    }
    let mut end = end.ok_or("no end")?;
    if lean && end["output"] == json!([]) {
        end["output"] = json!(items);
    }
    ensure(end["output"] == json!(items), || {
        format!("{items:?} and in the end {}", end["output"])
    })?;
    responses_said(&end)
}

fn responses_said(response: &Value) -> RawResponse {
    let output = list(&response["output"]);
    let mut ids: Vec<_> = output.iter().filter_map(|item| item["id"].as_str()).collect();
    ids.sort_unstable();
    ensure(ids.windows(2).all(|pair| pair[0] != pair[1]), || {
        format!("two items of one id: {ids:?}")
    })?;
    let of = |kind: &'static str| output.iter().filter(move |item| item["type"] == kind);
    let texts = of("message").flat_map(|item| list(&item["content"]));
    Ok(Answer {
        text: texts.map(|part| text(&part["text"])).collect(),
        calls: of("function_call")
            .map(|c| (text(&c["call_id"]), text(&c["name"])))
            .collect(),
        stop: text(&response["status"]),
        input: sum(&response["usage"], &["input_tokens"]),
        output: sum(&response["usage"], &["output_tokens"]),
        keep: output,
    })
}

pub fn gemini(raw: &[u8], stream: bool) -> RawResponse {
    if !stream {
        return chunks(&[parsed(raw)?]);
    }
    let all = std::str::from_utf8(raw).map_err(|e| e.to_string())?;
    // No comments, event names or `[DONE]`: the Python SDK raises an error for each of them.
    for line in all.lines().filter(|l| !l.is_empty()) {
        ensure(line.starts_with("data: {"), || {
            format!("what is this line? {line:?}")
        })?;
    }
    let events = events(raw, false)?;
    let all: Result<Vec<_>, _> = events.iter().map(|e| parsed(e.as_bytes())).collect();
    chunks(&all?)
}

pub fn gemini_array(raw: &[u8], stream: bool) -> RawResponse {
    match stream {
        true => chunks(&list(&parsed(raw)?)),
        false => gemini(raw, false),
    }
}

fn chunks(all: &[Value]) -> RawResponse {
    let all: Vec<&Value> = all.iter().map(|c| c.get("response").unwrap_or(c)).collect();
    let (mut answer, mut parts) = (Answer::default(), Vec::new());
    let last = all.last().ok_or("an empty stream")?;
    for chunk in &all {
        let candidate = &chunk["candidates"][0];
        let here = list(&candidate["content"]["parts"]);
        ensure(!here.is_empty(), || format!("a chunk without parts: {chunk}"))?;
        ensure(chunk["responseId"] == all[0]["responseId"], || {
            format!("another response: {chunk}")
        })?;
        let is_last = std::ptr::eq(*chunk, *last);
        ensure(candidate.get("finishReason").is_some() == is_last, || {
            format!("the end is elsewhere: {chunk}")
        })?;
        parts.extend(here);
    }
    parts.retain(|p| p["thought"] != true && (p["text"] != "" || p.get("thoughtSignature").is_some()));
    answer.text = parts.iter().map(|p| text(&p["text"])).collect();
    let calls = parts.iter().filter_map(|p| p.get("functionCall"));
    answer.calls = calls.map(|c| (text(&c["id"]), text(&c["name"]))).collect();
    answer.stop = text(&last["candidates"][0]["finishReason"]);
    answer.input = sum(&last["usageMetadata"], &["promptTokenCount"]);
    answer.output = sum(
        &last["usageMetadata"],
        &["candidatesTokenCount", "thoughtsTokenCount"],
    );
    answer.keep = vec![json!({"role": "model", "parts": parts})];
    Ok(answer)
}

pub fn ollama(raw: &[u8], stream: bool) -> RawResponse {
    let all = std::str::from_utf8(raw).map_err(|e| e.to_string())?;
    let lines: Vec<&str> = match stream {
        true => all.strip_suffix('\n').ok_or("a torn line")?.split('\n').collect(),
        false => vec![all],
    };
    let (mut message, mut last) = (json!({"role": "assistant", "content": ""}), Value::Null);
    for line in lines {
        ensure(last["done"] != true, || "a line behind the end".to_owned())?;
        last = parsed(line.as_bytes())?;
        let parsed = &last["message"];
        for key in ["content", "thinking"] {
            let all = text(&message[key]) + &text(&parsed[key]);
            if !all.is_empty() {
                message[key] = all.into();
            }
        }
        let calls = [list(&message["tool_calls"]), list(&parsed["tool_calls"])].concat();
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
    }
    ensure(last["done"] == true, || "no end".to_owned())?;
    let calls = list(&message["tool_calls"]);
    Ok(Answer {
        text: text(&message["content"]),
        calls: function_calls(&calls),
        stop: text(&last["done_reason"]),
        input: sum(&last, &["prompt_eval_count"]),
        output: sum(&last, &["eval_count"]),
        keep: vec![message],
    })
}
