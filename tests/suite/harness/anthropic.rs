//! An agent on Anthropic Messages, with a parser that accepts only correct messages.

use serde_json::{Value, json};

use super::{AgentWire, Message};

/// The agent. Its requests enable thinking and streaming, and declare two tools.
#[derive(Debug, Clone, Copy)]
pub struct Anthropic;

impl AgentWire for Anthropic {
    fn path(&self) -> &'static str {
        "/v1/messages?beta=true"
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("anthropic-version", "2026-10-21"),
            ("authorization", "Bearer sk-ant-api03-agent"),
        ]
    }

    fn body(&self, history: &[Value], stream: bool) -> Value {
        json!({
            "model": "claude-strict-1", "max_tokens": 8192, "stream": stream,
            "system": [{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
            "thinking": {"type": "adaptive"},
            "tools": tools(),
            "messages": history,
        })
    }

    fn parse(&self, raw: &[u8], stream: bool, broken: bool) -> Result<Message, String> {
        if !stream {
            let whole: Value = serde_json::from_slice(raw).map_err(|e| e.to_string())?;
            return Ok(whole_message(whole));
        }
        let mut ear = Ear::default();
        let text = std::str::from_utf8(raw).map_err(|e| e.to_string())?;
        let text = text.replace("\r\n", "\n");
        let mut rest = text.as_str();
        while let Some(end) = rest.find("\n\n") {
            ear.frame(&rest[..end])?;
            rest = &rest[end + 2..];
        }
        if !rest.is_empty() && !broken {
            return Err(format!("an event is not complete: {rest:?}"));
        }
        Ok(ear.message)
    }
}

/// The agent's tools.
pub fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    json!([
        {"name": "read_file", "description": "Reads.", "input_schema": schema},
        {"name": "run", "description": "Runs.", "input_schema": schema},
    ])
}

fn whole_message(whole: Value) -> Message {
    Message {
        content: whole["content"].as_array().cloned().unwrap_or_default(),
        stop: whole["stop_reason"].as_str().map(str::to_owned),
        usage: whole["usage"].clone(),
        ended: true,
        error: None,
        pings: 0,
        id: whole["id"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Reads a stream event by event.
#[derive(Default)]
struct Ear {
    message: Message,
    begun: bool,
    open: Option<(Value, String)>,
    closing: bool,
}

impl Ear {
    fn frame(&mut self, frame: &str) -> Result<(), String> {
        let mut name = None;
        let mut data = String::new();
        for line in frame.lines() {
            if let Some(n) = line.strip_prefix("event: ") {
                name = Some(n);
            } else if let Some(d) = line.strip_prefix("data: ") {
                data.push_str(d);
            } else if line.starts_with(':') {
                self.message.pings += 1;
            } else {
                return Err(format!("what is this line? {line:?}"));
            }
        }
        if name.is_none() && data.is_empty() {
            // Only comments.
            return Ok(());
        }
        let data: Value = serde_json::from_str(&data).map_err(|e| format!("{e}: {frame}"))?;
        let kind = data["type"].as_str().unwrap_or_default().to_owned();
        if name != Some(kind.as_str()) {
            return Err(format!("event {name:?} is a {kind:?}"));
        }
        if self.message.ended || self.message.error.is_some() {
            return Err(format!("{kind} behind the end"));
        }
        if !self.begun && kind != "message_start" && kind != "error" {
            return Err(format!("{kind} before message_start"));
        }
        self.event(&kind, &data)
    }

    fn event(&mut self, kind: &str, data: &Value) -> Result<(), String> {
        match kind {
            "message_start" if self.begun => Err("a second message_start".to_owned()),
            "message_start" => {
                self.begun = true;
                self.message.usage = data["message"]["usage"].clone();
                self.message.id = data["message"]["id"].as_str().unwrap_or_default().to_owned();
                Ok(())
            }
            "content_block_start" => self.start(data),
            "content_block_delta" => self.delta(data),
            "content_block_stop" => self.stop(data),
            "message_delta" => self.message_delta(data),
            "message_stop" if !self.closing => Err("message_stop without message_delta".to_owned()),
            "message_stop" => {
                self.message.ended = true;
                Ok(())
            }
            "ping" => {
                self.message.pings += 1;
                Ok(())
            }
            "error" => {
                self.message.error = Some(data["error"].clone());
                Ok(())
            }
            _ => Err(format!("unknown event {kind}")),
        }
    }

    fn here(&self, data: &Value) -> Result<(), String> {
        let wanted = self.message.content.len();
        if data["index"] != json!(wanted) || self.closing {
            return Err(format!("index {} where {wanted} is next", data["index"]));
        }
        Ok(())
    }

    fn start(&mut self, data: &Value) -> Result<(), String> {
        self.here(data)?;
        if self.open.is_some() {
            return Err("a block inside a block".to_owned());
        }
        self.open = Some((data["content_block"].clone(), String::new()));
        Ok(())
    }

    fn delta(&mut self, data: &Value) -> Result<(), String> {
        self.here(data)?;
        let (block, input) = self.open.as_mut().ok_or("a delta without a block")?;
        let delta = &data["delta"];
        let (kind, key) = match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => ("text", "text"),
            "thinking_delta" => ("thinking", "thinking"),
            "signature_delta" => ("thinking", "signature"),
            "input_json_delta" => ("tool_use", "partial_json"),
            other => return Err(format!("unknown delta {other}")),
        };
        if block["type"] != kind {
            return Err(format!("a {key} delta in {}", block["type"]));
        }
        let piece = delta[key].as_str().ok_or("a delta without its text")?;
        if key == "partial_json" {
            input.push_str(piece);
        } else {
            let all = format!("{}{piece}", block[key].as_str().unwrap_or_default());
            block[key] = all.into();
        }
        Ok(())
    }

    fn stop(&mut self, data: &Value) -> Result<(), String> {
        self.here(data)?;
        let (mut block, input) = self.open.take().ok_or("a stop without a block")?;
        if !input.is_empty() {
            block["input"] = serde_json::from_str(&input).map_err(|e| format!("{e}: {input}"))?;
        }
        self.message.content.push(block);
        Ok(())
    }

    fn message_delta(&mut self, data: &Value) -> Result<(), String> {
        if self.open.is_some() || self.closing {
            return Err("message_delta in the wrong place".to_owned());
        }
        self.closing = true;
        self.message.stop = data["delta"]["stop_reason"].as_str().map(str::to_owned);
        for (key, value) in data["usage"].as_object().ok_or("no usage")? {
            if !value.is_null() {
                self.message.usage[key.as_str()] = value.clone();
            }
        }
        Ok(())
    }
}
