//! The request without its turns: system prompts and offered tools.

use super::literal::{self, JsonText};
use crate::text::{Span, json};

/// Members that hold a system prompt: on Anthropic, on Responses, and on Gemini in both spellings.
const SYSTEM: [&[u8]; 4] = [
    b"system",
    b"instructions",
    b"systemInstruction",
    b"system_instruction",
];

/// Members that hold the turns of a request.
const TURNS: [&[u8]; 3] = [b"messages", b"input", b"contents"];

/// Members that hold a whole Gemini request: in Code Assist, and in `countTokens` in both spellings.
const WRAPPERS: [&[u8]; 3] = [b"request", b"generateContentRequest", b"generate_content_request"];

/// Lists of tools inside an element of `tools`: Gemini's declarations in both spellings.
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// Members that hold the schema of a tool's arguments.
const SCHEMAS: [&str; 4] = [
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
];

/// Members of an object: the key, without its quotes, and the value.
type ObjectMembers = Vec<(Span, Span)>;

/// The parts of a request that the model reads in addition to its turns.
#[derive(Debug, Clone, Default)]
pub struct Surroundings<'a> {
    /// System prompts next to the turns, in order.
    pub system: Vec<SystemPrompt<'a>>,
    /// Tools next to the turns, in order.
    pub tools: Vec<OfferedTool<'a>>,
}

impl<'a> Surroundings<'a> {
    /// Reads the surroundings of the turns. `body` may lack the turns.
    pub fn from_body(body: &'a [u8]) -> Self {
        Self::of_members(body, &request(body))
    }

    /// Reads the system prompts and tools from these members of a request.
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

/// The members of a request by name. Members of a wrapped request are named by path (`request.tools`).
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

/// The members of a body, and the index of the member that wraps the request, if any.
fn members(body: &[u8]) -> (ObjectMembers, Option<usize>) {
    let all = json::members(body, json::whole(body).unwrap_or_default());
    let wraps = |(key, value): &(Span, Span)| {
        WRAPPERS.contains(&key.of(body)) && value.of(body).first() == Some(&b'{')
    };
    // A request with turns of its own is not wrapped, whatever its other members are called.
    let wrapper = match all.iter().any(|(key, _)| TURNS.contains(&key.of(body))) {
        true => None,
        false => all.iter().position(wraps),
    };
    (all, wrapper)
}

/// The members of the request itself, unwrapped.
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
    /// The value: a string, or blocks in the wire's shape.
    pub span: Span,
}

impl<'a> SystemPrompt<'a> {
    /// The member's name.
    pub fn key(&self) -> JsonText<'a> {
        JsonText::new(self.body, self.key)
    }

    /// Strings of the prompt, in order.
    pub fn texts(&self) -> Vec<JsonText<'a>> {
        let mut all = Vec::new();
        for block in self.blocks() {
            literal::collect(self.body, block, &mut all);
        }
        all
    }

    /// Blocks of the prompt: the string, the elements of the list, or nothing if the value is neither.
    pub fn blocks(&self) -> Vec<Span> {
        if self.body.get(self.span.start) == Some(&b'"') {
            return vec![self.span];
        }
        // Gemini's prompt is a content with parts, Anthropic's a list of blocks.
        let list = json::get(self.body, self.span, "parts").unwrap_or(self.span);
        json::elements(self.body, list)
    }
}

/// An offered tool, or several under one name.
#[derive(Debug, Clone, Copy)]
pub struct OfferedTool<'a> {
    body: &'a [u8],
    /// The definition of the tool.
    pub span: Span,
}

/// The elements of `tools`. An element of Gemini's list counts as one tool for each function that it declares.
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
    /// The definition as it was sent.
    pub(super) fn raw(&self) -> &'a [u8] {
        self.span.of(self.body)
    }

    /// The tools of an item that changes the set of tools.
    pub(super) fn of_item(body: &'a [u8], item: Span) -> Vec<Self> {
        json::get(body, item, "tools").map_or(Vec::new(), |tools| offered(body, tools))
    }

    /// The tool itself, or the tools of its namespace.
    pub fn single(&self) -> Vec<Self> {
        let namespace =
            json::get(self.body, self.span, "type").is_some_and(|t| t.of(self.body) == b"\"namespace\"");
        match namespace {
            true => Self::of_item(self.body, self.span),
            false => vec![*self],
        }
    }

    /// The object with the name and description; Chat nests it in another member.
    fn function(&self) -> Span {
        let inner = json::pick(self.body, self.span, ["function", "custom"]);
        let mut inner = inner.into_iter().flatten();
        // Chat nests a function or a custom tool; a server tool has neither.
        inner
            .find(|inner| self.body[inner.start] == b'{')
            .unwrap_or(self.span)
    }

    /// The tool's name. A tool that the provider runs is identified by its type, or by its only member.
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

    /// The description that the model reads.
    pub fn description(&self) -> Option<JsonText<'a>> {
        JsonText::literal(self.body, json::get(self.body, self.function(), "description")?)
    }

    /// The schema of the arguments.
    pub fn schema(&self) -> Option<Span> {
        SCHEMAS
            .iter()
            .find_map(|key| json::get(self.body, self.function(), key))
    }
}
