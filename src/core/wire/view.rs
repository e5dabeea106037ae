//! A request as spans: what a rewrite has to know of it, and nothing else.

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
use std::fmt;

named! {
    /// What a request asks for, as far as a rewrite cares.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Operation {
        /// A model's answer.
        Generate = "generate",
        /// The size of a request: rewritten like the real one, so that the number is honest.
        Count = "count",
        /// A compaction by the provider: cut, but never tooled.
        Compact = "compact",
    }
}

/// Why a body is relayed as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreadReason {
    /// Not JSON at this offset.
    NotJson(usize),
    /// JSON, and not of the shape this wire has.
    OtherShape,
    /// A key that a rewrite would touch occurs twice: parsers disagree on which one counts.
    RepeatedKey,
}

impl fmt::Display for UnreadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(at) => write!(f, "not JSON at byte {at}"),
            Self::OtherShape => f.write_str("JSON of another shape"),
            Self::RepeatedKey => f.write_str("a key occurs twice"),
        }
    }
}

/// An agent's request, indexed.
#[derive(Debug, Clone)]
pub struct View {
    /// The API that the request is for.
    pub wire: WireId,
    /// The whole body.
    pub body: Bytes,
    /// The members of the object that holds the transcript: the body, or an envelope in it. Each is the inside of its key,
    /// and its value.
    pub around: Vec<(Span, Span)>,
    /// The array of turns, brackets included.
    pub list: Span,
    /// Its elements, in order.
    pub turns: Vec<Turn>,
    /// The texts of turns that a rewrite made.
    pub made: Vec<Bytes>,
    pub tools: Option<ToolList>,
    /// What decides whether the tool is offered.
    pub facts: RequestFacts,
}

impl View {
    /// Bytes of the request outside of the conversation: the system prompt, the tools, the parameters.
    pub fn fixed_bytes(&self) -> usize {
        let spoken = self.turns.iter().filter(|turn| turn.role != Role::System);
        let spoken: usize = spoken.map(|turn| turn.span.len()).sum();
        self.body.len().saturating_sub(spoken)
    }

    /// No request, to this API.
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

    /// A request to this API of whose body nothing is read yet.
    pub(super) fn unread(wire: WireId, body: &Bytes, facts: RequestFacts) -> Self {
        Self {
            body: body.clone(),
            facts,
            ..Self::empty(wire)
        }
    }

    /// The bytes of a span.
    pub fn text(&self, span: Span) -> &[u8] {
        span.of(&self.body)
    }

    /// The bytes of a span as text; JSON that is not UTF-8 is taken as it is, byte for byte, elsewhere.
    pub fn str(&self, span: Span) -> Cow<'_, str> {
        lossy(self.text(span))
    }

    /// The text that the spans of a turn and of its parts are in.
    pub fn text_of(&self, turn: usize) -> &Bytes {
        match self.turns.get(turn).map_or(0, |turn| turn.text) {
            0 => &self.body,
            n => &self.made[n - 1],
        }
    }

    /// The bytes of a turn.
    pub fn raw(&self, turn: usize) -> &[u8] {
        self.turns[turn].span.of(self.text_of(turn))
    }

    /// A span of a turn as text.
    pub fn str_in(&self, turn: usize, span: Span) -> Cow<'_, str> {
        lossy(span.of(self.text_of(turn)))
    }

    /// The turn that holds this offset of the agent's body.
    pub fn turn_at(&self, offset: usize) -> Option<usize> {
        let i = self.turns.partition_point(|t| t.span.end <= offset);
        self.turns
            .get(i)
            .is_some_and(|t| t.span.holds(offset))
            .then_some(i)
    }

    /// Whether the transcript's bytes hold one of these: decided before anything of it is read.
    pub(super) fn transcript_has(&self, words: &[&str]) -> bool {
        let transcript = self.text(self.list);
        words
            .iter()
            .any(|word| memmem::find(transcript, word.as_bytes()).is_some())
    }

    /// Whether this string is a value outside of the transcript, or in a turn of it that may change which tools exist.
    pub fn has_beside_transcript(&self, value: &str) -> bool {
        let quoted = json::quote(value);
        let holds = |span: Span| memmem::find(self.text(span), quoted.as_bytes()).is_some();
        holds(Span::new(0, self.list.start))
            || holds(Span::new(self.list.end, self.body.len()))
            || self.has_in_changes(value)
    }

    /// Whether a tool of the agent's has the name of one of these.
    pub fn has_tool_named(&self, ours: ToolNames) -> bool {
        self.tools.is_some_and(|tools| tools.taken)
            || ours.iter().any(|name| match name {
                TOOL_NAME => self.has_in_changes(name),
                _ => self.has_beside_transcript(name),
            })
    }

    /// Whether this string is a value in a turn that may change which tools exist.
    fn has_in_changes(&self, value: &str) -> bool {
        let mut changes = self.turns.iter().filter(|turn| !turn.role.is_spoken()).peekable();
        if changes.peek().is_none() {
            return false;
        }
        let quoted = json::quote(value);
        changes.any(|turn| memmem::find(self.text(turn.span), quoted.as_bytes()).is_some())
    }

    /// How many leading turns are the system's.
    pub fn leading(&self) -> usize {
        self.turns.iter().take_while(|t| !t.role.is_spoken()).count()
    }

    /// The last turn that belongs to the conversation itself.
    pub fn last_spoken(&self) -> Option<usize> {
        self.turns.iter().rposition(|t| t.role.is_spoken())
    }

    /// Whether the request is one message of the user's, with no system prompt and nothing before it.
    pub fn is_lone_message(&self) -> bool {
        !self.facts.system
            && self.facts.previous.is_none()
            && matches!(self.turns[..], [turn] if turn.role == Role::User)
    }

    /// Whether the model has spoken before.
    pub fn under_way(&self) -> bool {
        self.turns.iter().any(|t| t.role == Role::Assistant)
    }
}

/// A body, and where its turns are.
#[derive(Debug, Clone, Default)]
pub struct LocatedBody {
    pub text: Bytes,
    /// The array of turns, brackets included; empty where none were found.
    pub list: Span,
    /// Its elements, in order.
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

/// The turns of a transcript.
pub trait Turns {
    /// What a turn is made of, for `View::content` alone. Its spans are in `text`, the text that the turn is in.
    fn content(&self, view: &View, turn: Turn, text: &[u8]) -> TurnContent;

    /// Whether the transcript holds anything bound to its prefix (signed thinking, encrypted reasoning).
    fn bound(&self, view: &View) -> bool;
}

/// The list of tools in a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolList {
    /// Offset of the list's closing bracket: where ours goes.
    pub end: usize,
    /// How many there are.
    pub count: usize,
    /// Whether one of them is run by the agent.
    pub client: bool,
    /// Whether one of them has our name.
    pub taken: bool,
    /// Whether their schemas are in the older of two styles (Gemini: `parameters`).
    pub old_style: bool,
}

impl ToolList {
    /// The edit that puts our tools after the others.
    pub fn with(&self, ours: &ToolTable, shape: ToolShape) -> Edit {
        let [before, name, description, after] = shape.around;
        let mut text = String::new();
        for (n, tool) in ours.iter().enumerate() {
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

/// How a tool of ours is declared.
#[derive(Debug, Clone, Copy)]
pub struct ToolShape {
    /// What is before, between and after its name, its description and its schema.
    pub around: [&'static str; 4],
    /// Whether the schema is OpenAPI's kind.
    pub openapi: bool,
}

impl ToolShape {
    /// With a schema in JSON Schema.
    pub fn new(around: [&'static str; 4]) -> Self {
        Self {
            around,
            openapi: false,
        }
    }
}

/// Whether the model may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It may call nothing.
    None,
    /// It must call something.
    Forced,
}

/// What decides whether the tool is offered, and a few things worth logging.
#[derive(Debug, Clone, Default)]
pub struct RequestFacts {
    /// Model as requested.
    pub model: Option<String>,
    /// Whether a stream was requested.
    pub stream: bool,
    /// `tool_choice` and its kin.
    pub choice: ToolChoice,
    /// A system prompt next to the transcript.
    pub system: bool,
    /// Output bound to a JSON schema: a sentinel would break it.
    pub structured: bool,
    /// More than one choice was requested.
    pub many: bool,
    /// Too little room for a call (`max_tokens` and its kin).
    pub cramped: bool,
    /// The provider holds the conversation, or runs the request in the background.
    pub server_side: bool,
    /// Anthropic: the provider is asked to hold the conversation from this request on, which has all of it.
    pub begins_thread: bool,
    /// It says how much of its history the agent could clear.
    pub context_hint: bool,
    /// A compaction or summary.
    pub summary: bool,
    /// A session id from the body.
    pub session: Option<String>,
    /// The names of our tools: calls of these are not the agent's.
    pub ours: ToolNames,
    /// Chat: whether the agent requested usage in the stream.
    pub wants_usage: bool,
    /// Responses: the provider does not store the response, so that no later request continues it by its id.
    pub unstored: bool,
    /// Responses: the response this request continues. The provider holds what came before it.
    pub previous: Option<PreviousResponse>,
}

impl RequestFacts {
    /// The facts of a request of which only the operation is known.
    pub(super) fn for_operation(operation: Operation) -> Self {
        Self {
            summary: operation == Operation::Compact,
            ..Self::default()
        }
    }
}

/// A reference to an earlier response, as the agent knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousResponse {
    /// Its literal in the body.
    pub value: Span,
    pub id: String,
}

/// What an item of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedKind {
    Sentinel,
    Aside,
    /// The placeholder where the model had written nothing: [`EMPTY_TURN`](super::EMPTY_TURN).
    Filler,
    /// An answer of baton's own.
    SyntheticResponse,
}

/// An item of ours that is recognised by its id (Responses), even if its text has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectedItem {
    pub turn: usize,
    /// The handoff's id, or the aside's; nil where it is neither.
    pub id: uuid::Uuid,
    pub kind: InjectedKind,
    /// Nothing but a reference, which means nothing to upstream.
    pub reference: bool,
}

/// Members that state the requested thinking effort, of all wires: besides the model, a provider's cache depends on it.
const EFFORT: [&str; 6] = [
    "\"effort\"",
    "\"reasoning_effort\"",
    "\"thinking\"",
    "\"thinkingConfig\"",
    "\"thinking_config\"",
    "\"think\"",
];

/// Bytes of one statement: settings are short, and a tool's schema may use these words, too.
const EFFORT_BYTES: usize = 120;

impl View {
    /// The settings of effort and thinking, as they are written; empty where there are none. It is looked for next to the
    /// turns only.
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

/// The short value of a key that ends here. Of a string that has the word, no colon follows.
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
