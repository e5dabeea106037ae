//! An answer as it is put together: events of a stream of any wire, or a reply in one piece. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde_json::Value;

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
    Call,
    Error,
}

/// A part of an answer.
pub(super) struct Part {
    pub(super) kind: Kind,
    key: Option<u64>,
    pub(super) name: String,
    pub(super) text: String,
}

/// An answer under way.
#[derive(Default)]
pub(super) struct Reply {
    pub(super) parts: Vec<Part>,
}

impl Reply {
    /// Adds to the part under way; `key` tells parts of one kind apart.
    fn add(&mut self, kind: Kind, key: Option<u64>, text: Option<&str>) {
        let Some(text) = text else { return };
        match self.parts.last_mut() {
            Some(last) if last.kind == kind && last.key == key => last.text.push_str(text),
            _ if text.is_empty() => {}
            _ => self.begin(kind, key, "", text),
        }
    }

    fn begin(&mut self, kind: Kind, key: Option<u64>, name: &str, text: &str) {
        self.parts.push(Part {
            kind,
            key,
            name: name.to_owned(),
            text: text.to_owned(),
        });
    }

    /// A call; arguments that come later are added to it.
    fn call(&mut self, key: Option<u64>, name: Option<&str>, arguments: &Value) {
        let text = match arguments {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        match name {
            Some(name) => self.begin(Kind::Call, key, name, &text),
            None => self.add(Kind::Call, key, Some(&text)),
        }
    }

    /// Takes an event of a stream, or an answer in one piece.
    pub(super) fn take(&mut self, event: &Value) {
        match &event["error"] {
            Value::Null => {}
            error => return self.begin(Kind::Error, None, "", &error.to_string()),
        }
        self.anthropic(event);
        self.chat(event);
        self.responses(event);
        self.gemini(event);
        self.ollama(event);
    }

    fn anthropic(&mut self, event: &Value) {
        let key = event["index"].as_u64();
        match event["type"].as_str() {
            Some("content_block_start") => self.block(&event["content_block"], key, false),
            Some("content_block_delta") => {
                let delta = &event["delta"];
                self.add(Kind::Text, key, delta["text"].as_str());
                self.add(Kind::Thinking, key, delta["thinking"].as_str());
                self.add(Kind::Call, key, delta["partial_json"].as_str());
            }
            Some("message") => {
                for (i, block) in list(&event["content"]).iter().enumerate() {
                    self.block(block, Some(i as u64), true);
                }
            }
            _ => {}
        }
    }

    fn block(&mut self, block: &Value, key: Option<u64>, whole: bool) {
        match block["type"].as_str() {
            Some("text") => self.begin(Kind::Text, key, "", block["text"].as_str().unwrap_or_default()),
            Some("thinking") => {
                self.begin(
                    Kind::Thinking,
                    key,
                    "",
                    block["thinking"].as_str().unwrap_or_default(),
                );
            }
            Some("tool_use") => {
                let input = if whole { &block["input"] } else { &Value::Null };
                self.call(key, block["name"].as_str(), input);
            }
            _ => {}
        }
    }

    fn chat(&mut self, event: &Value) {
        for choice in list(&event["choices"]) {
            let delta = match &choice["delta"] {
                Value::Null => &choice["message"],
                delta => delta,
            };
            let thought = delta["reasoning_content"]
                .as_str()
                .or(delta["reasoning"].as_str());
            self.add(Kind::Thinking, None, thought);
            self.add(Kind::Text, None, delta["content"].as_str());
            for (i, call) in list(&delta["tool_calls"]).iter().enumerate() {
                let key = call["index"].as_u64().unwrap_or(i as u64);
                let function = &call["function"];
                self.call(Some(key), function["name"].as_str(), &function["arguments"]);
            }
        }
    }

    fn responses(&mut self, event: &Value) {
        let (key, delta) = (event["output_index"].as_u64(), event["delta"].as_str());
        match event["type"].as_str() {
            Some("response.output_text.delta" | "response.refusal.delta") => {
                self.add(Kind::Text, key, delta);
            }
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
                self.add(Kind::Thinking, key, delta);
            }
            Some("response.output_item.added") if is_call(&event["item"]) => {
                self.call(key, event["item"]["name"].as_str(), &Value::Null);
            }
            Some("response.function_call_arguments.delta" | "response.custom_tool_call_input.delta") => {
                self.add(Kind::Call, key, delta);
            }
            _ => {}
        }
        if event["object"] == "response" {
            for (i, item) in list(&event["output"]).iter().enumerate() {
                self.item(item, Some(i as u64));
            }
        }
    }

    /// An item of a whole response.
    fn item(&mut self, item: &Value, key: Option<u64>) {
        if is_call(item) {
            let arguments = match &item["arguments"] {
                Value::Null => &item["input"],
                arguments => arguments,
            };
            self.call(key, item["name"].as_str(), arguments);
        }
        let kind = match item["type"] == "reasoning" {
            true => Kind::Thinking,
            false => Kind::Text,
        };
        for part in list(&item["content"]).iter().chain(list(&item["summary"])) {
            self.add(kind, key, part["text"].as_str().or(part["refusal"].as_str()));
        }
    }

    fn gemini(&mut self, event: &Value) {
        // Code Assist has the same one level down.
        let candidates = match &event["candidates"] {
            Value::Null => &event["response"]["candidates"],
            candidates => candidates,
        };
        for candidate in list(candidates) {
            for part in list(&candidate["content"]["parts"]) {
                let kind = match part["thought"] == true {
                    true => Kind::Thinking,
                    false => Kind::Text,
                };
                self.add(kind, None, part["text"].as_str());
                let call = &part["functionCall"];
                if let Some(name) = call["name"].as_str() {
                    self.call(None, Some(name), &call["args"]);
                }
            }
        }
    }

    fn ollama(&mut self, event: &Value) {
        let message = &event["message"];
        if !event["done"].is_boolean() {
            return;
        }
        self.add(Kind::Thinking, None, message["thinking"].as_str());
        self.add(Kind::Text, None, message["content"].as_str());
        for call in list(&message["tool_calls"]) {
            let function = &call["function"];
            self.call(None, function["name"].as_str(), &function["arguments"]);
        }
    }
}

/// Whether an item of Responses calls a tool of the agent's.
fn is_call(item: &Value) -> bool {
    item["type"] == "function_call" || item["type"] == "custom_tool_call"
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
