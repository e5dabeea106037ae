//! The request without its turns: system prompts and offered tools.

use super::literal::JsonText;
use super::texts;
use crate::text::{Span, json};

/// Members that hold a system prompt, by wire: Anthropic, Responses, Gemini in both of its spellings.
const SYSTEM: [&[u8]; 4] = [
    b"system",
    b"instructions",
    b"systemInstruction",
    b"system_instruction",
];

/// Members that hold the turns of a request.
const TURNS: [&[u8]; 3] = [b"messages", b"input", b"contents"];

/// Members that hold a whole request on Gemini: of Code Assist, and of `countTokens` in both spellings.
const WRAPPERS: [&[u8]; 3] = [b"request", b"generateContentRequest", b"generate_content_request"];

/// Lists of tools inside of an element of `tools`: Gemini's, and namespaces of Responses.
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// Members that hold the schema of a tool's arguments.
const SCHEMAS: [&str; 4] = [
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
];

/// Members of an object, key (inside its quotes) and value.
type ObjectMembers = Vec<(Span, Span)>;

/// The parts of a request that the model reads besides its turns.
#[derive(Debug, Clone, Default)]
pub struct Surroundings<'a> {
    /// System prompts that are next to the turns, in order.
    pub system: Vec<SystemPrompt<'a>>,
    /// Tools that are next to the turns, in order.
    pub tools: Vec<OfferedTool<'a>>,
}

impl<'a> Surroundings<'a> {
    /// What is around the turns of a request. `body` may lack the turns.
    pub fn from_body(body: &'a [u8]) -> Self {
        Self::of_members(body, &request(body))
    }

    /// What these members of a request say around its transcript.
    pub(super) fn of_members(body: &'a [u8], members: &[(Span, Span)]) -> Self {
        let mut found = Self::default();
        for &(key, value) in members {
            if SYSTEM.contains(&key.of(body)) && value.of(body) != b"null" {
                found.system.push(SystemPrompt {
                    body,
                    key,
                    span: value,
                });
            } else if key.of(body) == b"tools" {
                found.tools.extend(offered(body, value));
            }
        }
        found
    }
}

/// The members of a request with their names, those of a wrapped request by their path (`request.tools`).
pub fn named_members(body: &[u8]) -> Vec<(String, Span)> {
    let name = |key: Span| key.text(body);
    let (all, wrapper) = members(body);
    let inside = wrapper.map(|at| all[at]);
    let outside = all.iter().enumerate().filter(|(at, _)| Some(*at) != wrapper);
    let mut named: Vec<_> = outside.map(|(_, (key, value))| (name(*key), *value)).collect();
    if let Some((outer, request)) = inside {
        let inner = json::members(body, request).into_iter();
        named.extend(inner.map(|(key, value)| (format!("{}.{}", name(outer), name(key)), value)));
    }
    named
}

/// The members of a body, and the one that wraps the request, if any.
fn members(body: &[u8]) -> (ObjectMembers, Option<usize>) {
    let all = json::members(body, json::whole(body).unwrap_or_default());
    let wraps = |(key, value): &(Span, Span)| {
        WRAPPERS.contains(&key.of(body)) && value.of(body).first() == Some(&b'{')
    };
    let wrapper = match all.iter().any(|(key, _)| TURNS.contains(&key.of(body))) {
        true => None,
        false => all.iter().position(wraps),
    };
    (all, wrapper)
}

/// The members of the request itself.
fn request(body: &[u8]) -> ObjectMembers {
    let (all, wrapper) = members(body);
    match wrapper {
        Some(at) => json::members(body, all[at].1),
        None => all,
    }
}

/// A system prompt next to the turns.
#[derive(Debug, Clone, Copy)]
pub struct SystemPrompt<'a> {
    body: &'a [u8],
    key: Span,
    /// Its value: a string, or blocks in the wire's shape.
    pub span: Span,
}

impl<'a> SystemPrompt<'a> {
    /// The member's name.
    pub fn key(&self) -> JsonText<'a> {
        JsonText::new(self.body, self.key)
    }

    /// Its texts, in order.
    pub fn texts(&self) -> Vec<JsonText<'a>> {
        let mut all = Vec::new();
        for block in self.blocks() {
            texts::collect(self.body, block, &mut all);
        }
        all
    }

    /// Its blocks: the string, the elements of its list, or nothing where it is neither.
    pub fn blocks(&self) -> Vec<Span> {
        if self.body.get(self.span.start) == Some(&b'"') {
            return vec![self.span];
        }
        let list = json::get(self.body, self.span, "parts").unwrap_or(self.span);
        json::elements(self.body, list)
    }
}

/// A tool that is offered, or several under one name.
#[derive(Debug, Clone, Copy)]
pub struct OfferedTool<'a> {
    body: &'a [u8],
    /// Its definition.
    pub span: Span,
}

/// The elements of `tools`; each function of an element of Gemini's.
fn offered(body: &[u8], tools: Span) -> Vec<OfferedTool<'_>> {
    let tools = json::elements(body, tools).into_iter();
    let each = tools.flat_map(|tool| {
        let lists = DECLARATIONS.iter().filter_map(|key| json::get(body, tool, key));
        let all: Vec<Span> = lists.flat_map(|list| json::elements(body, list)).collect();
        match all.is_empty() {
            true => vec![tool],
            false => all,
        }
    });
    each.map(|span| OfferedTool { body, span }).collect()
}

impl<'a> OfferedTool<'a> {
    /// The tools of an item that changes which tools exist.
    pub(super) fn of_item(body: &'a [u8], item: Span) -> Vec<Self> {
        json::get(body, item, "tools").map_or(Vec::new(), |tools| offered(body, tools))
    }

    /// The tool itself, or those that are under its name.
    pub fn single(&self) -> Vec<Self> {
        let namespace =
            json::get(self.body, self.span, "type").is_some_and(|t| t.of(self.body) == b"\"namespace\"");
        match namespace {
            true => Self::of_item(self.body, self.span),
            false => vec![*self],
        }
    }

    /// The object that has its name and description: Chat has it in a member of its own.
    fn function(&self) -> Span {
        let inner = json::pick(self.body, self.span, ["function", "custom"]);
        let mut inner = inner.into_iter().flatten();
        inner
            .find(|inner| self.body[inner.start] == b'{')
            .unwrap_or(self.span)
    }

    /// Its name. A tool of the provider's own is identified by its type, or by its only member.
    pub fn name(&self) -> Option<JsonText<'a>> {
        let literal = |of: Span, key| JsonText::literal(self.body, json::get(self.body, of, key)?);
        let only = || {
            let (key, _) = *json::members(self.body, self.span).first()?;
            Some(JsonText::new(self.body, key))
        };
        literal(self.function(), "name")
            .or_else(|| literal(self.span, "type"))
            .or_else(only)
    }

    /// The result that the model reads.
    pub fn description(&self) -> Option<JsonText<'a>> {
        JsonText::literal(self.body, json::get(self.body, self.function(), "description")?)
    }

    /// The schema of its arguments.
    pub fn schema(&self) -> Option<Span> {
        SCHEMAS
            .iter()
            .find_map(|key| json::get(self.body, self.function(), key))
    }
}
