//! A request as spans of its body, limited to the parts that a rewrite needs.

pub use super::edits::{beside, edited_part, kept, without, without_member};
pub(super) use super::edits::{first_member, members_without, set_member};
pub use super::turn::{Role, Turn, TurnChange, TurnContent, TurnPart, TurnPartKind};
use crate::record::WireId;
use crate::text::splice::Edit;
use crate::text::{Span, json, lossy};
use crate::tools::{TOOL_NAME, ToolNames, ToolTable};
use bytes::Bytes;
use memchr::memmem;
use std::borrow::Cow;

named! {
    /// Purpose of a request, as far as a rewrite depends on it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Operation {
        /// Generate a response.
        Generate = "generate",
        /// Count tokens. The request is rewritten like the real one, so that the count is correct.
        Count = "count",
        /// Compact the transcript on the provider's side. The request is cut, but does not get the tool.
        Compact = "compact",
    }
}

/// Reason why a body is relayed unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnreadReason {
    /// Not JSON at this offset.
    #[error("not JSON at byte {0}")]
    NotJson(usize),
    /// JSON of a different shape than this wire has.
    #[error("JSON of an unexpected shape")]
    OtherShape,
    /// A key that a rewrite would touch occurs twice. Parsers disagree about which value counts.
    #[error("a key occurs twice")]
    RepeatedKey,
}

/// A parsed request.
#[derive(Debug, Clone)]
pub struct View {
    /// API that the request is for.
    pub wire: WireId,
    /// The whole body.
    pub body: Bytes,
    /// Members of the object that holds the transcript: of the body, or of an envelope in it. Each is the
    /// span of the key, inside its quotes, and of the value.
    pub around: Vec<(Span, Span)>,
    /// The array of turns, including its brackets.
    pub list: Span,
    /// Elements of that array, in order.
    pub turns: Vec<Turn>,
    /// Buffers of turns that a rewrite created.
    pub made: Vec<Bytes>,
    pub tools: Option<ToolList>,
    /// Properties that decide whether the tool is offered.
    pub facts: RequestFacts,
}

impl View {
    /// Bytes outside the conversation: system prompt, tools and parameters.
    pub fn fixed_bytes(&self) -> usize {
        // System messages inside the transcript belong to the fixed part.
        let spoken = self.turns.iter().filter(|turn| turn.role != Role::System);
        let spoken: usize = spoken.map(|turn| turn.span.len()).sum();
        self.body.len().saturating_sub(spoken)
    }

    /// An empty request to this API.
    pub fn empty(wire: WireId) -> Self {
        Self {
            wire,
            body: Bytes::new(),
            around: Vec::new(),
            list: Span::default(),
            turns: Vec::new(),
            made: Vec::new(),
            tools: None,
            facts: RequestFacts::default(),
        }
    }

    /// A request to this API whose body is not parsed yet.
    pub(super) fn unread(wire: WireId, body: &Bytes, facts: RequestFacts) -> Self {
        Self {
            body: body.clone(),
            facts,
            ..Self::empty(wire)
        }
    }

    /// Bytes of a span.
    pub fn text(&self, span: Span) -> &[u8] {
        span.of(&self.body)
    }

    /// A span as a string. Invalid UTF-8 is replaced here only; rewrites copy the bytes unchanged.
    pub fn str(&self, span: Span) -> Cow<'_, str> {
        lossy(self.text(span))
    }

    /// The buffer that the spans of a turn and its parts refer to: the request's body, or text that a rewrite has
    /// made.
    pub fn text_of(&self, turn: usize) -> &Bytes {
        match self.turns.get(turn).map_or(0, |turn| turn.text) {
            0 => &self.body,
            n => &self.made[n - 1],
        }
    }

    /// Bytes of a turn.
    pub fn raw(&self, turn: usize) -> &[u8] {
        self.turns[turn].span.of(self.text_of(turn))
    }

    /// A span of a turn as a string.
    pub fn str_in(&self, turn: usize, span: Span) -> Cow<'_, str> {
        lossy(span.of(self.text_of(turn)))
    }

    /// Index of the turn that contains this offset of the agent's body.
    pub fn turn_at(&self, offset: usize) -> Option<usize> {
        let i = self.turns.partition_point(|t| t.span.end <= offset);
        let turn = self.turns.get(i);
        turn.is_some_and(|t| t.span.holds(offset)).then_some(i)
    }

    /// Whether the transcript contains one of these words. A byte search, so that most requests need no
    /// parsing.
    pub(super) fn transcript_has(&self, words: &[&str]) -> bool {
        let transcript = self.text(self.list);
        let has = |word: &&str| memmem::find(transcript, word.as_bytes()).is_some();
        words.iter().any(has)
    }

    /// Whether this string occurs as a value outside the transcript, or in a turn that may change the
    /// available tools.
    pub fn has_beside_transcript(&self, value: &str) -> bool {
        // With its quotes, the value does not match inside a longer string.
        let quoted = json::quote(value);
        let holds = |span: Span| memmem::find(self.text(span), quoted.as_bytes()).is_some();
        holds(Span::new(0, self.list.start))
            || holds(Span::new(self.list.end, self.body.len()))
            || self.has_in_changes(value)
    }

    /// Whether a tool of the agent has the same name as a tool of baton.
    pub fn has_tool_named(&self, ours: ToolNames) -> bool {
        self.tools.is_some_and(|tools| tools.taken)
            || ours.iter().any(|name| match name {
                // `taken` already covers the list of tools for this name; only later tool changes are left to
                // search.
                TOOL_NAME => self.has_in_changes(name),
                _ => self.has_beside_transcript(name),
            })
    }

    /// Whether this string occurs as a value in a turn that may change the available tools.
    fn has_in_changes(&self, value: &str) -> bool {
        let mut changes = self.turns.iter().filter(|turn| !turn.role.is_spoken()).peekable();
        // Most requests have no such turn.
        if changes.peek().is_none() {
            return false;
        }
        let quoted = json::quote(value);
        changes.any(|turn| memmem::find(self.text(turn.span), quoted.as_bytes()).is_some())
    }

    /// Number of leading turns that do not belong to the conversation itself, such as system messages.
    pub fn leading(&self) -> usize {
        self.turns.iter().take_while(|t| !t.role.is_spoken()).count()
    }

    /// Last turn that belongs to the conversation itself.
    pub fn last_spoken(&self) -> Option<usize> {
        self.turns.iter().rposition(|t| t.role.is_spoken())
    }

    /// Whether the request is a single user message without a system prompt or a previous response.
    pub fn is_lone_message(&self) -> bool {
        !self.facts.system
            && self.facts.previous.is_none()
            && matches!(self.turns[..], [turn] if turn.role == Role::User)
    }

    /// Whether the model has already produced output in this transcript.
    pub fn under_way(&self) -> bool {
        self.turns.iter().any(|t| t.role == Role::Assistant)
    }

    /// Returns the settings of effort and thinking as written, or an empty string without any. Only the
    /// members around the transcript are searched.
    pub fn effort(&self) -> String {
        let beside = [
            Span::new(0, self.list.start),
            Span::new(self.list.end, self.body.len()),
        ];
        let mut found = String::new();
        for (key, span) in EFFORT.iter().flat_map(|key| beside.map(|span| (key, span))) {
            let text = self.text(span);
            for at in memmem::find_iter(text, key) {
                if let Some(value) = value_after(text, at + key.len()) {
                    found.push_str(&String::from_utf8_lossy(value));
                    found.push(' ');
                }
            }
        }
        found.trim_end().to_owned()
    }
}

/// A body and the positions of its turns.
#[derive(Debug, Clone, Default)]
pub struct LocatedBody {
    pub text: Bytes,
    /// The array of turns, including its brackets; empty if there is none.
    pub list: Span,
    /// Elements of that array, in order.
    pub turns: Vec<Turn>,
}

impl From<&View> for LocatedBody {
    fn from(view: &View) -> Self {
        Self {
            text: view.body.clone(),
            list: view.list,
            turns: view.turns.clone(),
        }
    }
}

/// The list of tools in a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolList {
    /// Offset of the list's closing bracket, where baton's tools are inserted.
    pub end: usize,
    /// Number of tools.
    pub count: usize,
    /// Whether the agent runs at least one of them.
    pub client: bool,
    /// Whether one of them has the name of baton's handoff tool.
    pub taken: bool,
    /// Whether the schemas use the older of two styles (Gemini: `parameters`).
    pub old_style: bool,
}

impl ToolList {
    /// Returns the edit that appends baton's tools.
    pub fn with(&self, ours: &ToolTable, shape: ToolShape) -> Edit {
        let [before, name, description, after] = shape.around;
        let mut text = String::new();
        for (n, tool) in ours.iter().enumerate() {
            // The agent's list may be empty.
            let comma = if self.count + n > 0 { "," } else { "" };
            let schema = match shape.openapi {
                true => &tool.openapi_schema,
                false => &tool.schema,
            };
            let pieces: [&str; 8] = [
                comma,
                before,
                tool.name,
                name,
                &tool.description,
                description,
                schema,
                after,
            ];
            text.reserve(pieces.iter().map(|piece| piece.len()).sum());
            text.extend(pieces);
        }
        Edit::insert(self.end, text)
    }
}

/// Declaration of a tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolShape {
    /// JSON before the name, between name, description and schema, and after the schema.
    pub around: [&'static str; 4],
    /// Whether the schema follows OpenAPI instead of JSON Schema.
    pub openapi: bool,
}

impl ToolShape {
    /// A declaration with a JSON Schema.
    pub fn new(around: [&'static str; 4]) -> Self {
        Self {
            around,
            openapi: false,
        }
    }
}

/// Freedom of the model to call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call a tool.
    Forced,
}

/// Properties that decide whether the tool is offered, and a few that are only logged.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts {
    /// Model as requested.
    pub model: Option<String>,
    /// Whether the agent requested a stream.
    pub stream: bool,
    /// Value of `tool_choice` or the wire's equivalent.
    pub choice: ToolChoice,
    /// Whether there is a system prompt next to the transcript.
    pub system: bool,
    /// Whether the output is bound to a JSON schema, which a sentinel would violate.
    pub structured: bool,
    /// Whether more than one choice is requested.
    pub many: bool,
    /// Whether the output limit (`max_tokens` or the wire's equivalent) leaves no room for a call.
    pub cramped: bool,
    /// Whether the provider stores the conversation or runs the request in the background.
    pub server_side: bool,
    /// Responses only: whether the request names a conversation that the provider stores.
    pub names_conversation: bool,
    /// Anthropic only: the request contains the whole conversation and asks the provider to store it from
    /// here on.
    pub begins_branch: bool,
    /// Whether the agent states how much of its history it could clear.
    pub context_hint: bool,
    /// Whether the request asks for a compaction or a summary.
    pub summary: bool,
    /// Session id from the body.
    pub session: Option<String>,
    /// Names of baton's tools. Calls with these names do not belong to the agent.
    pub ours: ToolNames,
    /// Chat only: the agent requested usage in the stream.
    pub wants_usage: bool,
    /// Responses only: the provider does not store the response, so no later request continues it by id.
    pub unstored: bool,
    /// Responses only: the response that this request continues. The provider stores everything before it.
    pub previous: Option<PreviousResponse>,
}

impl RequestFacts {
    /// Facts of a request when only the operation is established.
    pub(super) fn for_operation(operation: Operation) -> Self {
        Self {
            summary: operation == Operation::Compact,
            ..Self::default()
        }
    }
}

/// A reference to an earlier response, with the id that the agent received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousResponse {
    /// Span of the literal in the body.
    pub value: Span,
    pub id: String,
}

/// Kind of an injected item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedKind {
    Sentinel,
    Aside,
    /// The placeholder for a response without any output of the model: [`EMPTY_TURN`](super::EMPTY_TURN).
    Filler,
    /// A synthetic response.
    SyntheticResponse,
}

/// An injected item, recognized by its id (Responses) even if its text has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectedItem {
    pub turn: usize,
    /// Id of the handoff or the aside, or nil for other kinds.
    pub id: uuid::Uuid,
    pub kind: InjectedKind,
    /// Whether the item is only a reference. Upstream does not know its id.
    pub reference: bool,
}

/// Keys of the settings for thinking effort, for all wires. Like the model, these settings are part of
/// the cache key of a provider.
const EFFORT: [&str; 6] = [
    "\"effort\"",
    "\"reasoning_effort\"",
    "\"thinking\"",
    "\"thinkingConfig\"",
    "\"thinking_config\"",
    "\"think\"",
];

/// Maximum length of a setting's value. A tool's schema may use these keys as well, but with longer values.
const EFFORT_BYTES: usize = 120;

/// Returns the short value of the key that ends at `key_end`. A string that merely contains the word has no
/// colon after it.
fn value_after(text: &[u8], key_end: usize) -> Option<&[u8]> {
    let colon = json::blank(text, key_end);
    if text.get(colon) != Some(&b':') {
        return None;
    }
    let start = json::blank(text, colon + 1);
    let end = json::value_end(text, start).ok()?;
    Some(&text[start..end]).filter(|value| value.len() <= EFFORT_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::record::WireId;
    use crate::wire::{Operation, wire};

    fn effort(id: WireId, body: Value) -> String {
        let body = body.to_string();
        wire(id).read(&body.into(), Operation::Generate).unwrap().effort()
    }

    #[test]
    fn every_wires_settings_are_found_beside_the_turns() {
        let turns = json!([{"role": "user", "content": "the \"effort\": 3 of it"}]);
        let contents = json!([{"role": "user", "parts": [{"text": "x"}]}]);
        let rows = [
            (
                WireId::Anthropic,
                json!({"model": "m", "max_tokens": 9, "messages": turns, "output_config": {"effort": "high"}, "thinking": {"type": "adaptive"}}),
                "\"high\" {\"type\":\"adaptive\"}",
            ),
            (
                WireId::OpenaiChat,
                json!({"model": "m", "messages": turns, "reasoning_effort": "low"}),
                "\"low\"",
            ),
            (
                WireId::OpenaiResponses,
                json!({"model": "m", "input": turns, "reasoning": {"effort": "medium"}}),
                "\"medium\"",
            ),
            (
                WireId::Gemini,
                json!({"contents": contents, "generationConfig": {"thinkingConfig": {"thinkingBudget": 5}}}),
                "{\"thinkingBudget\":5}",
            ),
            (
                WireId::Ollama,
                json!({"model": "m", "messages": turns, "think": true}),
                "true",
            ),
            (WireId::OpenaiChat, json!({"model": "m", "messages": turns}), ""),
        ];
        for (id, body, wanted) in rows {
            assert_eq!(effort(id, body), wanted, "{id:?}");
        }
    }
}
