//! A request outside of its messages: the system prompt and the tools as rows of their own, and what differs between
//! two requests. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::HashMap;

use super::diff::State;
use super::exchange::{EnvelopeChange, Message};
use super::gist::{self, ShownPart};
use crate::rewrite::Why;
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;

/// Members that hold a system prompt, by wire: Anthropic, Responses, Gemini in both of its spellings.
const SYSTEM: [&str; 4] = [
    "system",
    "instructions",
    "systemInstruction",
    "system_instruction",
];

/// Lists of functions inside an element of Gemini's `tools`.
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// Members that hold the schema of a tool's arguments.
const SCHEMAS: [&str; 4] = [
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
];

/// Members that hold the messages of a request.
const MESSAGES: [&str; 3] = ["messages", "input", "contents"];

/// Members that hold a whole request on Gemini: of Code Assist, and of `countTokens` in both spellings.
const WRAPPERS: [&str; 3] = ["request", "generateContentRequest", "generate_content_request"];

/// The system prompt or a tool.
struct Entry {
    role: &'static str,
    name: String,
    span: Span,
}

type Members = Vec<(String, Span)>;

fn members(text: &[u8], of: Span) -> Members {
    let all = json::members(text, of).into_iter();
    all.map(|(key, value)| (String::from_utf8_lossy(key.of(text)).into_owned(), value))
        .collect()
}

/// The members of the body, and where it wraps the request, which of them does.
fn body(text: &[u8]) -> (Members, Option<usize>) {
    let all = members(text, json::whole(text).unwrap_or_default());
    let names = |(key, _): &(String, Span)| MESSAGES.contains(&key.as_str());
    let wraps = |(key, value): &(String, Span)| {
        WRAPPERS.contains(&key.as_str()) && value.of(text).first() == Some(&b'{')
    };
    let wrapper = match all.iter().any(names) {
        true => None,
        false => all.iter().position(wraps),
    };
    (all, wrapper)
}

/// The members of the request itself.
fn request(text: &[u8]) -> Members {
    let (all, wrapper) = body(text);
    match wrapper {
        Some(at) => members(text, all[at].1),
        None => all,
    }
}

/// The members of the body, those of a wrapped request by their path.
fn flat(text: &[u8]) -> Members {
    let (mut all, wrapper) = body(text);
    if let Some(at) = wrapper {
        let (outer, inside) = all.remove(at);
        let inner = members(text, inside).into_iter();
        all.extend(inner.map(|(key, value)| (format!("{outer}.{key}"), value)));
    }
    all
}

/// What the model reads of a request beside its messages, in the order in which it stands there.
fn entries(text: &[u8]) -> Vec<Entry> {
    #[cfg(test)]
    tests::READ.with(|n| n.set(n.get() + 1));
    let mut out = Vec::new();
    for (key, value) in request(text) {
        if SYSTEM.contains(&key.as_str()) && value.of(text) != b"null" {
            let (role, name) = ("system", key);
            out.push(Entry {
                role,
                name,
                span: value,
            });
        } else if key == "tools" {
            let tools = json::elements(text, value).into_iter();
            out.extend(tools.flat_map(|tool| declared(text, tool)).map(|span| Entry {
                role: "tools",
                name: tool_name(text, span),
                span,
            }));
        }
    }
    // The system prompt is what the model reads first, wherever it stands.
    out.sort_by_key(|entry| entry.role != "system");
    out
}

/// The functions of an element of `tools`; the element itself, where it is one.
fn declared(text: &[u8], tool: Span) -> Vec<Span> {
    let lists = DECLARATIONS.iter().filter_map(|key| json::get(text, tool, key));
    let all: Vec<Span> = lists.flat_map(|list| json::elements(text, list)).collect();
    match all.is_empty() {
        true => vec![tool],
        false => all,
    }
}

/// The object that has a tool's name and description: Chat has it in `function`.
fn function(text: &[u8], tool: Span) -> Span {
    json::get(text, tool, "function")
        .filter(|inner| text[inner.start] == b'{')
        .unwrap_or(tool)
}

fn tool_name(text: &[u8], tool: Span) -> String {
    let name = json::get_string(text, function(text, tool), "name");
    let name = name.or_else(|| json::get_string(text, tool, "type"));
    // A tool of the provider's own may be known by its only member.
    let only = || {
        json::members(text, tool)
            .first()
            .map(|(key, _)| String::from_utf8_lossy(key.of(text)))
    };
    name.or_else(only)
        .map(|name| name.to_string())
        .unwrap_or_default()
}

fn description(text: &[u8], tool: Span) -> Option<String> {
    let text = json::get_string(text, function(text, tool), "description")?;
    Some(text.to_string())
}

/// The rows of a request by itself.
pub(super) fn rows(text: &[u8]) -> Vec<Message> {
    let row = |(i, entry): (usize, &Entry)| Message {
        i,
        piece: 0,
        role: entry.role.to_owned(),
        kind: if entry.role == "tools" { "tools" } else { "text" }.to_owned(),
        bytes: entry.span.len() as u64,
        first_line: first_line(text, entry),
        state: State::Kept,
        why: None,
    };
    entries(text).iter().enumerate().map(row).collect()
}

fn first_line(text: &[u8], entry: &Entry) -> String {
    match entry.role {
        "tools" => {
            let told = description(text, entry.span).unwrap_or_default();
            gist::cut(&format!("{}  {}", entry.name, told.trim()))
        }
        _ => gist::cut(&gist::telling_line(text, entry.span)),
    }
}

/// The rows of two requests, each with what became of it.
pub(super) fn compare(received: &[u8], sent: &[u8]) -> (Vec<Message>, Vec<Message>) {
    let (before, after) = (entries(received), entries(sent));
    let (mut theirs, mut ours) = (rows(received), rows(sent));
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for (i, entry) in before.iter().enumerate() {
        places.entry((entry.role, &entry.name)).or_insert(i);
    }
    let mut met = vec![false; before.len()];
    for (entry, row) in after.iter().zip(&mut ours) {
        match places.get(&(entry.role, entry.name.as_str())) {
            Some(&i) if !std::mem::replace(&mut met[i], true) => {
                if before[i].span.of(received) != entry.span.of(sent) {
                    row.state = State::Changed;
                    theirs[i].state = State::Changed;
                }
            }
            _ => {
                row.state = State::New;
                row.why = (entry.name == TOOL_NAME).then_some(Why::Tool);
            }
        }
    }
    for (row, _) in theirs.iter_mut().zip(met).filter(|(_, met)| !met) {
        row.state = State::Cut;
    }
    (theirs, ours)
}

/// A row in full: a tool's description as text, then its schema.
pub(super) fn parts(text: &[u8], i: usize) -> Option<(&'static str, Vec<ShownPart>)> {
    let entry = entries(text).into_iter().nth(i)?;
    Some((entry.role, shown(text, &entry)))
}

/// The first row one of whose parts `holds`. Stops there; the text is read once, however many rows it has.
pub(super) fn position(text: &[u8], mut holds: impl FnMut(ShownPart) -> bool) -> Option<usize> {
    let all = entries(text);
    all.iter()
        .position(|entry| shown(text, entry).into_iter().any(&mut holds))
}

fn shown(text: &[u8], entry: &Entry) -> Vec<ShownPart> {
    if entry.role == "system" {
        return system_parts(text, entry.span);
    }
    let inner = function(text, entry.span);
    let schema = SCHEMAS.iter().find_map(|key| json::get(text, inner, key));
    let mut parts: Vec<ShownPart> = description(text, entry.span)
        .map(|told| ShownPart::text("text", told))
        .into_iter()
        .collect();
    let rest = schema.filter(|_| !parts.is_empty()).unwrap_or(entry.span);
    parts.push(ShownPart::json("tools", rest.of(text)));
    parts
}

fn system_parts(text: &[u8], value: Span) -> Vec<ShownPart> {
    if let Some(string) = json::string(text, value) {
        return vec![ShownPart::text("text", string.into_owned())];
    }
    let list = json::get(text, value, "parts").unwrap_or(value);
    let blocks = json::elements(text, list).into_iter();
    let shown = blocks.map(|block| match json::get_string(text, block, "text") {
        Some(string) => ShownPart::text("text", string.into_owned()),
        None => ShownPart::json("other", block.of(text)),
    });
    let shown: Vec<_> = shown.collect();
    match shown.is_empty() {
        true => vec![ShownPart::json("other", value.of(text))],
        false => shown,
    }
}

/// The members that were added, removed or changed, each in words.
pub(super) fn differences(received: &[u8], sent: &[u8]) -> Vec<EnvelopeChange> {
    let (before, after) = (flat(received), flat(sent));
    // The first of a name, as before; a request may have very many.
    let (old_values, new_values) = (by_name(&before), by_name(&after));
    let mut out = Vec::new();
    for (key, value) in &after {
        let what = match old_values.get(&Name(key)) {
            None => "added".to_owned(),
            Some(old) if old.of(received) == value.of(sent) => continue,
            Some(old) => told(received, *old, sent, *value),
        };
        out.push(EnvelopeChange {
            key: key.clone(),
            what,
        });
    }
    let gone = before
        .iter()
        .filter(|(key, _)| !new_values.contains_key(&Name(key)));
    out.extend(gone.map(|(key, _)| EnvelopeChange {
        key: key.clone(),
        what: "removed".to_owned(),
    }));
    out
}
/// A name, whose comparisons a test counts.
#[derive(Eq, Hash)]
struct Name<'a>(&'a str);

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        tests::COMPARED.with(|n| n.set(n.get() + 1));
        self.0 == other.0
    }
}

fn by_name(members: &[(String, Span)]) -> HashMap<Name<'_>, Span> {
    let mut all = HashMap::with_capacity(members.len());
    for (key, value) in members {
        all.entry(Name(key)).or_insert(*value);
    }
    all
}

fn told(received: &[u8], old: Span, sent: &[u8], new: Span) -> String {
    let (before, after) = (
        json::elements(received, old).len(),
        json::elements(sent, new).len(),
    );
    if after == before + 1 && memchr::memmem::find(new.of(sent), TOOL_NAME.as_bytes()).is_some() {
        return format!("{} added ({before} → {after})", TOOL_NAME);
    }
    format!("changed ({} → {} bytes)", old.len(), new.len())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
        pub(super) static READ: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn a_row_is_found_by_reading_the_text_once() {
        let tools = ["{}"; 1_000].join(",");
        let text = format!(r#"{{"tools":[{tools},{{"name":"wanted"}}],"system":"s"}}"#);
        READ.with(|read| read.set(0));
        let holds = |part: ShownPart| part.json.is_some_and(|json| json.get().contains("wanted"));
        // Behind the system prompt and the others.
        assert_eq!(position(text.as_bytes(), holds), Some(1_001));
        assert_eq!(position(text.as_bytes(), |_| false), None);
        assert_eq!(READ.with(Cell::get), 2);
    }

    #[test]
    fn many_names_cost_as_many_comparisons() {
        let body = |n: usize, from: usize| {
            let members = (from..from + n).map(|i| format!("\"k{i}\":{i}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(",")).into_bytes()
        };
        for n in [1_000, 10_000, 100_000] {
            COMPARED.with(|compared| compared.set(0));
            let told = differences(&body(n, 0), &body(n, n / 2));
            assert_eq!(told.len(), n / 2 * 2);
            let compared = COMPARED.with(Cell::get);
            assert!(compared <= 4 * n, "{compared} for {n}");
        }
    }

    #[test]
    fn the_envelope_tells_what_differs() {
        let before = br#"{"model":"m","tools":[{"name":"a"}],"old":1}"#;
        let after = br#"{"model":"m","tools":[{"name":"a"},{"name":"session_handoff"}],"stream_options":{}}"#;
        let told: Vec<_> = differences(before, after)
            .into_iter()
            .map(|c| format!("{} {}", c.key, c.what))
            .collect();
        assert_eq!(
            told,
            [
                "tools session_handoff added (1 → 2)",
                "stream_options added",
                "old removed"
            ]
        );
    }

    #[test]
    fn a_request_inside_of_another_object_is_the_request() {
        let inner = r#"{"contents":[],"systemInstruction":{"parts":[{"text":"Be brief."}]},"tools":[{"functionDeclarations":[{"name":"a"}]}]}"#;
        let with_tool = inner.replace(r#"{"name":"a"}"#, r#"{"name":"a"},{"name":"session_handoff"}"#);
        for wrapper in WRAPPERS {
            let wrapped = |inner: &str| format!(r#"{{"model":"m","{wrapper}":{inner}}}"#).into_bytes();
            let (before, after) = (wrapped(inner), wrapped(&with_tool));
            let (theirs, ours) = compare(&before, &after);
            assert_eq!(theirs.len(), 2);
            let lines: Vec<_> = ours.iter().map(|row| row.first_line.trim()).collect();
            assert_eq!(lines, ["Be brief.", "a", "session_handoff"]);
            assert_eq!((ours[2].state, ours[2].why), (State::New, Some(Why::Tool)));
            assert!(parts(&after, 2).is_some());
            let told = differences(&before, &after);
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].key, format!("{wrapper}.tools"));
        }
        // Elsewhere it is a member like any other.
        let own = br#"{"messages":[],"request":{"system":"s"},"system":"t"}"#;
        let lines: Vec<_> = rows(own).into_iter().map(|row| row.first_line).collect();
        assert_eq!(lines, ["t"]);
    }
}
