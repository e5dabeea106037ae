//! What an agent sends to Ollama, as spans, and the tool and the carry-over message that go in.

use super::Ollama;
use crate::tools::ToolTable;
use bytes::Bytes;
use std::fmt::Write;

use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;
use crate::wire::view::{RequestFacts, Role, ToolList, Turn, View};
use crate::wire::walk;
use crate::wire::{BodyFacts, Operation, Requests, SharedTurns, UnreadReason};

/// Output room under which no call can be made.
const LEAST_ROOM: u64 = 1024;

/// Top-level keys that a rewrite reads or edits: repeated, the body is left alone.
const KEYS: [&str; 6] = ["messages", "tools", "model", "stream", "format", "options"];

impl Requests for Ollama {
    fn read_scanned(
        &self,
        body: &Bytes,
        operation: Operation,
        scanned: &BodyFacts,
    ) -> Result<View, UnreadReason> {
        let text: &[u8] = body;
        let mut view = View {
            body: body.clone(),
            list: Span::default(),
            turns: Vec::new(),
            tools: None,
            facts: RequestFacts {
                stream: true,
                summary: operation == Operation::Compact,
                ..RequestFacts::default()
            },
            shared: SharedTurns::default(),
        };
        walk::body(text, &KEYS, |key, at| {
            let end = scanned.prescan.value_end(text, at)?;
            member(text, key, Span::new(at, end), &mut view);
            Ok(end)
        })?;
        if view.turns.is_empty() {
            return Err(UnreadReason::OtherShape);
        }
        Ok(view)
    }

    fn tools(&self, view: &View, ours: &ToolTable) -> Option<Edit> {
        Some(view.tools?.with(ours, |text, tool| {
            let (name, description, schema) = (tool.name, &tool.description, &tool.schema);
            write!(
                text,
                r#"{{"type":"function","function":{{"name":"{name}","description":{description},"parameters":{schema}}}}}"#
            )
        }))
    }

    fn carry_over(&self, _blocks: &[String], prompt: &str) -> String {
        self.user_text(prompt)
    }

    fn user_text(&self, text: &str) -> String {
        format!(r#"{{"role":"user","content":{}}}"#, json::quote(text))
    }

    fn absent_content(&self) -> Option<&'static str> {
        Some(r#""""#)
    }
}

fn member(text: &[u8], key: &[u8], value: Span, view: &mut View) {
    let raw = value.of(text);
    match key {
        b"messages" => {
            view.list = value;
            view.turns = turns(text, value);
        }
        b"tools" => view.tools = tools(text, value),
        b"model" => view.facts.model = json::string(text, value).map(|m| m.into_owned()),
        b"stream" => view.facts.stream = raw != b"false",
        b"format" => view.facts.structured = !matches!(raw, b"null" | b"\"\""),
        b"options" => {
            view.facts.cramped = json::get_u64(text, value, "num_predict").is_some_and(|n| n < LEAST_ROOM);
        }
        _ => {}
    }
}

fn turns(text: &[u8], messages: Span) -> Vec<Turn> {
    let objects = json::elements(text, messages)
        .into_iter()
        .filter(|s| text.get(s.start) == Some(&b'{'));
    let turn = |span| {
        let role = match json::get(text, span, "role").map(|r| r.of(text)) {
            Some(b"\"user\"") => Role::User,
            Some(b"\"assistant\"") => Role::Assistant,
            Some(b"\"system\"") => Role::System,
            Some(b"\"tool\"") => Role::Tool,
            _ => Role::Other,
        };
        Turn { span, role }
    };
    objects.map(turn).collect()
}

fn tools(text: &[u8], value: Span) -> Option<ToolList> {
    if text.get(value.start) != Some(&b'[') {
        return None;
    }
    let all = json::elements(text, value);
    let name = |tool: &Span| json::get_string(text, json::get(text, *tool, "function")?, "name");
    Some(ToolList {
        end: value.end - 1,
        count: all.len(),
        client: !all.is_empty(),
        taken: all.iter().any(|t| name(t).is_some_and(|n| n == TOOL_NAME)),
        old_style: false,
    })
}
