//! Converts an agent's session file to the request that the agent would send next, so that any transcript reader works.
//!
//! The file has one JSON object per line, as Claude Code, Codex, pi, Gemini CLI and Qwen Code write them, or
//! in the plain form `{"role": …, "content": …}`. The objects arrive one at a time. Some have the tokens in use.

use std::sync::LazyLock;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::bill::TokenCounts;
use crate::record::WireId;
use crate::text::table;
use crate::transcript::AgentKind;

/// Reads the objects of a session file.
#[derive(Default)]
pub struct SessionReader {
    /// The directory that the session works in, if the file states it.
    pub directory: Option<String>,
    /// Usage of the model's context at the end.
    pub usage: SessionUsage,
    /// The error that the session itself ended with.
    pub error: Option<String>,
    agent: Option<AgentKind>,
    shape: Option<SessionShape>,
    messages: Vec<String>,
    /// Id of the last message. Gemini CLI writes a message again when its calls have ended.
    last_id: Option<String>,
}

/// The wire of a file's messages, and the request member that lists them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionShape(WireId, &'static str);

const ANTHROPIC: SessionShape = SessionShape(WireId::Anthropic, "messages");
const CHAT: SessionShape = SessionShape(WireId::OpenaiChat, "messages");
const RESPONSES: SessionShape = SessionShape(WireId::OpenaiResponses, "input");
const GEMINI: SessionShape = SessionShape(WireId::Gemini, "contents");

impl SessionReader {
    /// The request, and its wire.
    pub fn request(&self) -> (WireId, Bytes) {
        let SessionShape(wire, turns) = self.shape.unwrap_or(CHAT);
        let agent = self.agent.map_or("", AgentKind::words);
        let directory = self.directory.as_deref().unwrap_or_default();
        // The words identify the agent to readers of transcripts, as in its own system prompt.
        let system = json!(format!("{agent}\nWorking directory: {directory}\n"));
        let messages = self.messages.join(",");
        let body = format!("{{\"system\":{system},\"{turns}\":[{messages}]}}");
        (wire, body.into())
    }

    /// Takes the object of a line.
    pub fn entry(&mut self, entry: &Json) {
        // A subagent's turns do not belong to the session.
        if entry["isSidechain"] == true {
            return;
        }
        // Gemini CLI replaces its whole list of messages.
        if let Some(messages) = entry["$set"]["messages"].as_array() {
            self.messages.clear();
            messages.iter().for_each(|message| self.entry(message));
        }
        if let Some(error) = entry["error"].as_str() {
            self.error = Some(error.to_owned());
        }
        for place in [entry, &entry["payload"]] {
            // Later records of Claude Code name the directory that its shell has moved to.
            if let Some(directory) = place["cwd"].as_str().filter(|_| self.directory.is_none()) {
                self.directory = Some(directory.trim_end_matches('/').to_owned());
            }
        }
        if let Some(usage) = usage(entry) {
            self.usage = usage;
        }
        for message in messages(entry) {
            self.agent = message.agent.or(self.agent);
            // The message with the results replaces the one without.
            if message.replaces && message.id.is_some() && message.id == self.last_id {
                self.messages.pop();
            }
            self.last_id.clone_from(&message.id);
            self.push(message.shape, &message.message);
        }
    }

    /// Adds a message. Messages of a second shape are ignored, because a file has only one.
    fn push(&mut self, shape: SessionShape, message: &Json) {
        if *self.shape.get_or_insert(shape) == shape {
            // The session continued after the error.
            self.error = None;
            self.messages.push(message.to_string());
        }
    }
}

/// A message of a session, as its agent sends it.
pub(crate) struct SessionMessage {
    pub(crate) agent: Option<AgentKind>,
    shape: SessionShape,
    /// An element of the request's turns.
    pub(crate) message: Json,
    /// Id of the message, for an agent that writes it again when its calls have ended.
    id: Option<String>,
    pub(crate) replaces: bool,
}

impl SessionMessage {
    fn new(agent: Option<AgentKind>, shape: SessionShape, message: Json) -> Self {
        Self {
            agent,
            shape,
            message,
            id: None,
            replaces: false,
        }
    }
}

/// The messages of a line.
pub(crate) fn messages(entry: &Json) -> Vec<SessionMessage> {
    let one = SessionMessage::new;
    let (message, payload) = (&entry["message"], &entry["payload"]);
    let kind = entry["type"].as_str().unwrap_or_default();
    let found = match kind {
        // Codex also writes each message as an event, which is ignored here.
        "response_item" => one(Some(AgentKind::Codex), RESPONSES, payload.clone()),
        "gemini" => of_gemini_cli(entry),
        "user" if entry["content"].is_array() => of_gemini_cli(entry),
        "message" => match of_pi(message) {
            Some(message) => one(Some(AgentKind::Pi), ANTHROPIC, message),
            None => return Vec::new(),
        },
        "opencode" => return of_opencode(entry),
        "goose" => one(
            Some(AgentKind::Goose),
            ANTHROPIC,
            json!({"role": entry["role"], "content": of_goose(&entry["content"])}),
        ),
        _ if message["parts"].is_array() => one(Some(AgentKind::QwenCode), GEMINI, said(message, "parts")),
        // Claude Code also stores whole requests; those have no `message.content`.
        "user" | "assistant" if message["content"] != Json::Null => {
            one(Some(AgentKind::ClaudeCode), ANTHROPIC, said(message, "content"))
        }
        "cline" => one(Some(AgentKind::Cline), ANTHROPIC, said(entry, "content")),
        _ if entry["role"].is_string() => one(None, CHAT, entry.clone()),
        _ => return Vec::new(),
    };
    vec![found]
}

fn of_gemini_cli(entry: &Json) -> SessionMessage {
    let mut parts: Vec<Json> = match &entry["content"] {
        Json::String(text) => vec![json!({"text": text})],
        content => content.as_array().cloned().unwrap_or_default(),
    };
    let calls = entry["toolCalls"].as_array().into_iter().flatten();
    parts.extend(calls.map(|call| json!({"functionCall": call})));
    let role = match entry["type"] == "gemini" {
        true => "model",
        false => "user",
    };
    let message = json!({"role": role, "parts": parts});
    SessionMessage {
        id: entry["id"].as_str().map(str::to_owned),
        replaces: true,
        ..SessionMessage::new(Some(AgentKind::GeminiCli), GEMINI, message)
    }
}

/// Converts a message of pi, whose blocks are Anthropic's under other names.
fn of_pi(message: &Json) -> Option<Json> {
    let content = &message["content"];
    let (role, content) = match message["role"].as_str() {
        Some("toolResult") => {
            let result = tool_result(&message["toolCallId"], &message["isError"], content);
            ("user", json!([result]))
        }
        Some(role @ ("user" | "assistant")) => (role, renamed(content)),
        _ => return None,
    };
    Some(json!({"role": role, "content": content}))
}

/// Converts a message of OpenCode, whose calls contain their results.
fn of_opencode(entry: &Json) -> Vec<SessionMessage> {
    let (mut said, mut results) = (Vec::new(), Vec::new());
    for part in entry["parts"].as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("text") => said.push(json!({"type": "text", "text": part["text"]})),
            Some("tool") => {
                let state = &part["state"];
                said.push(tool_use(&part["callID"], &part["tool"], &state["input"]));
                let text = match &state["output"] {
                    Json::Null => &state["error"],
                    output => output,
                };
                results.push(tool_result(&part["callID"], state["status"] == "error", text));
            }
            _ => {}
        }
    }
    let all = [(entry["message"]["role"].clone(), said), ("user".into(), results)];
    let all = all.into_iter().filter(|(_, content)| !content.is_empty());
    all.map(|(role, content)| {
        let message = json!({"role": role, "content": content});
        SessionMessage::new(Some(AgentKind::OpenCode), ANTHROPIC, message)
    })
    .collect()
}

/// Converts blocks of goose, whose calls and results are wrapped in their status.
fn of_goose(content: &Json) -> Vec<Json> {
    let blocks = content.as_array().into_iter().flatten();
    let renamed = blocks.map(|block| match block["type"].as_str() {
        Some("toolRequest") => {
            let call = &block["toolCall"]["value"];
            tool_use(&block["id"], &call["name"], &call["arguments"])
        }
        Some("toolResponse") => {
            let result = &block["toolResult"];
            let failed = result["status"] == "error" || result["value"]["isError"] == true;
            let content = match &result["value"]["content"] {
                Json::Null => &result["value"],
                content => content,
            };
            tool_result(&block["id"], failed, content)
        }
        _ => block.clone(),
    });
    renamed.collect()
}

fn tool_use(id: &Json, name: &Json, input: &Json) -> Json {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn tool_result(id: &Json, failed: impl serde::Serialize, content: &Json) -> Json {
    json!({"type": "tool_result", "tool_use_id": id, "is_error": failed, "content": content})
}

/// A message without the members that the agent's record adds.
fn said(message: &Json, content: &str) -> Json {
    json!({"role": message["role"], content: message[content]})
}

fn renamed(content: &Json) -> Json {
    let blocks = content.as_array().into_iter().flatten();
    let renamed = blocks.map(|block| match block["type"] == "toolCall" {
        true => tool_use(&block["id"], &block["name"], &block["arguments"]),
        false => block.clone(),
    });
    match content.is_array() {
        true => renamed.collect(),
        false => content.clone(),
    }
}

/// Usage of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// Tokens of the input, including cached ones, and of the output.
    pub tokens: u64,
    /// The model's window, if the agent records it.
    pub window: Option<u64>,
    pub model: Option<String>,
    /// Counts that the provider billed for the response.
    pub counts: TokenCounts,
    /// Counts billed in addition: the provider's own rounds before the response.
    pub rounds: TokenCounts,
    /// Identifier of the response in every copy of the record.
    pub id: Option<String>,
    /// The speed or tier of the service, if the price depends on it.
    pub service: Option<String>,
}

/// A row of `session_usage.toml`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct UsageRow {
    usage: &'static str,
    input: &'static str,
    read: &'static str,
    write: &'static str,
    long: &'static str,
    output: Vec<&'static str>,
    total: &'static str,
    whole: bool,
    window: &'static str,
    model: &'static str,
    id: &'static str,
}

static USAGES: LazyLock<Vec<UsageRow>> = LazyLock::new(|| table::rows(include_str!("session_usage.toml")));

/// The usage in a line of a session file.
///
/// All-zero usage is ignored: agents write it for messages of their own.
pub(crate) fn usage(line: &Json) -> Option<SessionUsage> {
    USAGES.iter().find_map(|row| row.of(line))
}

/// The value at a path; `None` for an empty path.
fn at<'j>(value: &'j Json, path: &str) -> Option<&'j Json> {
    value.pointer(path).filter(|_| !path.is_empty())
}

impl UsageRow {
    fn of(&self, line: &Json) -> Option<SessionUsage> {
        let usage = at(line, self.usage)?;
        let counts = self.counts(usage)?;
        let text = |of: &Json, path: &str| at(of, path).and_then(Json::as_str).map(str::to_owned);
        let rounds = usage["iterations"].as_array().into_iter().flatten();
        let mut all = TokenCounts::default();
        rounds
            .filter_map(|round| self.counts(round))
            .for_each(|round| all += round);
        (counts.total() > 0).then(|| SessionUsage {
            tokens: counts.total(),
            window: at(line, self.window).and_then(Json::as_u64),
            model: text(line, self.model),
            counts,
            rounds: all.beyond(counts),
            id: text(line, self.id),
            service: text(usage, "/speed").or_else(|| text(usage, "/service_tier")),
        })
    }

    /// The counts of a usage object.
    fn counts(&self, usage: &Json) -> Option<TokenCounts> {
        let number = |path: &str| at(usage, path).and_then(Json::as_u64);
        let given = number(self.input)?;
        let some = |path: &str| number(path).unwrap_or_default();
        let (cache_read, cache_write) = (some(self.read), some(self.write));
        let cached = cache_read.saturating_add(cache_write);
        // OpenAI and Gemini count cached tokens as input, Anthropic does not.
        let input = given.saturating_sub(if self.whole { cached } else { 0 });
        let whole = input.saturating_add(cached);
        let sum = self
            .output
            .iter()
            .map(|path| some(path))
            .fold(0, u64::saturating_add);
        let counts = TokenCounts {
            input,
            cache_read,
            cache_write,
            cache_write_long: 0,
            // The total minus the input includes reasoning, which some agents do not list.
            output: number(self.total).map_or(sum, |total| total.saturating_sub(whole)),
        };
        Some(counts.splitting_long(some(self.long)))
    }
}

#[cfg(test)]
mod session_usage_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_agents_record_of_an_answer_has_its_tokens() {
        for (agent, line, expected) in [
            (
                "Claude Code",
                json!({"type": "assistant", "message": {"model": "claude-sonnet-4-5", "usage": {"input_tokens": 2,
                    "cache_creation_input_tokens": 2821, "cache_read_input_tokens": 20380, "output_tokens": 8,
                    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 2821}}}}),
                Some((23_211, None, Some("claude-sonnet-4-5"))),
            ),
            (
                "Codex",
                json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
                    "total_token_usage": {"total_tokens": 99_999},
                    "last_token_usage": {"input_tokens": 13_689, "output_tokens": 8, "total_tokens": 13_697},
                    "model_context_window": 258_400}}}),
                Some((13_697, Some(258_400), None)),
            ),
            (
                "pi",
                json!({"type": "message", "message": {"role": "assistant", "model": "claude-sonnet-4-5",
                    "usage": {"input": 0, "output": 7, "cacheRead": 12, "cacheWrite": 1565, "totalTokens": 1584}}}),
                Some((1584, None, Some("claude-sonnet-4-5"))),
            ),
            (
                "Gemini CLI",
                json!({"type": "gemini", "content": "x", "model": "gemini-2.5-pro",
                    "tokens": {"input": 12_844, "output": 8, "cached": 0, "thoughts": 0, "tool": 0, "total": 12_852}}),
                Some((12_852, None, Some("gemini-2.5-pro"))),
            ),
            (
                "Qwen Code",
                json!({"type": "assistant", "model": "qwen3-coder-plus", "contextWindowSize": 1_000_000,
                    "usageMetadata": {"promptTokenCount": 22_167, "candidatesTokenCount": 8, "totalTokenCount": 22_175}}),
                Some((22_175, Some(1_000_000), Some("qwen3-coder-plus"))),
            ),
            (
                "an error of Claude Code's own",
                json!({"message": {"model": "<synthetic>", "usage": {"input_tokens": 0, "output_tokens": 0}}}),
                None,
            ),
            (
                "a request",
                json!({"message": {"role": "user", "content": "x"}}),
                None,
            ),
        ] {
            let found = usage(&line);
            let found = found
                .as_ref()
                .map(|one| (one.tokens, one.window, one.model.as_deref()));
            assert_eq!(found, expected, "{agent}");
        }
    }
}
