//! The envelope of a request, that is everything except its messages. Shows the system prompt and the tools
//! as rows, and the differences between two requests. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::HashMap;

use super::diff::MessageState;
use super::row::{EnvelopeChange, MessageSummary};
use super::summary::{self, ShownPart};
use baton_core::rewrite::ChangeReason;
use baton_core::text::{Span, cost, json};
use baton_core::tools::{NAMES, is_ours};
use baton_core::transcript::{JsonText, OfferedTool, Surroundings, SystemPrompt, named_members};

/// The system prompt or a tool.
enum EnvelopePart<'a> {
    System(SystemPrompt<'a>),
    Tool(OfferedTool<'a>),
}

impl EnvelopePart<'_> {
    fn role(&self) -> &'static str {
        match self {
            Self::System(_) => "system",
            Self::Tool(_) => "tools",
        }
    }

    fn name(&self) -> String {
        let name = match self {
            Self::System(prompt) => Some(prompt.key()),
            Self::Tool(tool) => tool.name(),
        };
        name.map(|name| name.get().into_owned()).unwrap_or_default()
    }

    fn span(&self) -> Span {
        match self {
            Self::System(prompt) => prompt.span,
            Self::Tool(tool) => tool.span,
        }
    }
}

/// Returns the parts of a request that the model reads in addition to its messages.
///
/// The system prompt comes first wherever it is in the request, because the model reads it first.
fn entries(text: &[u8]) -> Vec<EnvelopePart<'_>> {
    let Surroundings { system, tools } = Surroundings::from_body(text);
    let system = system.into_iter().map(EnvelopePart::System);
    system.chain(tools.into_iter().map(EnvelopePart::Tool)).collect()
}

/// Returns the rows of a single request.
pub(super) fn rows(text: &[u8]) -> Vec<MessageSummary> {
    let row = |(i, entry): (usize, &EnvelopePart<'_>)| MessageSummary {
        i,
        // Chunks of the envelope do not coincide with its rows.
        chunk: 0,
        role: entry.role().to_owned(),
        kind: match entry {
            EnvelopePart::Tool(_) => "tools",
            EnvelopePart::System(_) => "text",
        }
        .to_owned(),
        bytes: entry.span().len() as u64,
        first_line: first_line(text, entry),
        state: MessageState::Kept,
        why: None,
    };
    entries(text).iter().enumerate().map(row).collect()
}

fn first_line(text: &[u8], entry: &EnvelopePart<'_>) -> String {
    match entry {
        EnvelopePart::Tool(tool) => {
            let described = tool.description().map(|described| described.get());
            let described = described.unwrap_or_default();
            summary::cut(&format!("{}  {}", entry.name(), described.trim()))
        }
        EnvelopePart::System(prompt) => summary::cut(&summary::distinctive_line(text, prompt.span)),
    }
}

/// Returns the rows of two requests, each row with its state.
pub(super) fn compare(received: &[u8], sent: &[u8]) -> (Vec<MessageSummary>, Vec<MessageSummary>) {
    let (before, after) = (entries(received), entries(sent));
    let (mut theirs, mut ours) = (rows(received), rows(sent));
    let mut places: HashMap<(&str, String), usize> = HashMap::new();
    for (i, entry) in before.iter().enumerate() {
        // Tools with the same name are compared by their first occurrence.
        places.entry((entry.role(), entry.name())).or_insert(i);
    }
    let mut met = vec![false; before.len()];
    for (entry, row) in after.iter().zip(&mut ours) {
        let name = entry.name();
        let is_ours = is_ours(&name);
        match places.get(&(entry.role(), name)) {
            // Each part of the agent's request is matched once. A second tool of the same name is new.
            Some(&i) if !std::mem::replace(&mut met[i], true) => {
                if before[i].span().of(received) != entry.span().of(sent) {
                    row.state = MessageState::Changed;
                    theirs[i].state = MessageState::Changed;
                }
            }
            _ => {
                row.state = MessageState::New;
                row.why = is_ours.then_some(ChangeReason::Tool);
            }
        }
    }
    for (row, _) in theirs.iter_mut().zip(met).filter(|(_, met)| !met) {
        row.state = MessageState::Cut;
    }
    (theirs, ours)
}

/// Returns a row in full: a tool's description as text, then its schema.
pub(super) fn parts(text: &[u8], i: usize) -> Option<(&'static str, Vec<ShownPart>)> {
    let entry = entries(text).into_iter().nth(i)?;
    Some((entry.role(), shown(text, &entry)))
}

/// Returns the first row with a part that satisfies `holds`. Parses the text once, however many rows it has.
pub(super) fn position(text: &[u8], mut holds: impl FnMut(ShownPart) -> bool) -> Option<usize> {
    let all = entries(text);
    all.iter()
        .position(|entry| shown(text, entry).into_iter().any(&mut holds))
}

fn shown(text: &[u8], entry: &EnvelopePart<'_>) -> Vec<ShownPart> {
    let tool = match entry {
        EnvelopePart::System(prompt) => return system_parts(text, prompt),
        EnvelopePart::Tool(tool) => tool,
    };
    let described = tool.description();
    let text_of = |described: &JsonText<'_>| ShownPart::text("text", described.get().into_owned());
    let mut parts: Vec<_> = described.iter().map(text_of).collect();
    // Without a description the whole tool is shown, so that nothing is missing.
    let rest = tool.schema().filter(|_| described.is_some()).unwrap_or(tool.span);
    parts.push(ShownPart::json("tools", rest.of(text)));
    parts
}

fn system_parts(text: &[u8], prompt: &SystemPrompt<'_>) -> Vec<ShownPart> {
    let blocks = prompt.blocks();
    if blocks.is_empty() {
        return vec![ShownPart::json("other", prompt.span.of(text))];
    }
    let block_text = |block| json::string(text, block).or_else(|| json::get_string(text, block, "text"));
    let shown = blocks.into_iter().map(|block| match block_text(block) {
        Some(string) => ShownPart::text("text", string.into_owned()),
        None => ShownPart::json("other", block.of(text)),
    });
    shown.collect()
}

/// Describes each member that was added, removed or changed.
pub(super) fn differences(received: &[u8], sent: &[u8]) -> Vec<EnvelopeChange> {
    let (before, after) = (named_members(received), named_members(sent));
    // If a name is repeated, its first value counts. Maps keep this linear, since a request may have very
    // many members.
    let (old_values, new_values) = (by_name(&before), by_name(&after));
    let mut out = Vec::new();
    for (key, value) in &after {
        let what = match old_values.get(&CountedName(key)) {
            None => "added".to_owned(),
            Some(old) if old.of(received) == value.of(sent) => continue,
            Some(old) => described(received, *old, sent, *value),
        };
        out.push(EnvelopeChange {
            key: key.clone(),
            what,
        });
    }
    let before = before.iter();
    let gone = before.filter(|(key, _)| !new_values.contains_key(&CountedName(key)));
    out.extend(gone.map(|(key, _)| EnvelopeChange {
        key: key.clone(),
        what: "removed".to_owned(),
    }));
    out
}
/// A name that counts its comparisons.
#[derive(Eq, Hash)]
struct CountedName<'a>(&'a str);

impl PartialEq for CountedName<'_> {
    fn eq(&self, other: &Self) -> bool {
        cost::add(1);
        self.0 == other.0
    }
}

fn by_name(members: &[(String, Span)]) -> HashMap<CountedName<'_>, Span> {
    let mut all = HashMap::with_capacity(members.len());
    for (key, value) in members {
        all.entry(CountedName(key)).or_insert(*value);
    }
    all
}

fn described(received: &[u8], old: Span, sent: &[u8], new: Span) -> String {
    let (before, after) = (
        json::elements(received, old).len(),
        json::elements(sent, new).len(),
    );
    let is_in = |text, name: &str| memchr::memmem::find(text, name.as_bytes()).is_some();
    let mut added = NAMES.to_vec();
    added.retain(|name| is_in(new.of(sent), name) && !is_in(old.of(received), name));
    // Names describe the change only if nothing else was added or removed.
    if !added.is_empty() && after == before + added.len() {
        return format!("{} added ({before} → {after})", added.join(" and "));
    }
    format!("changed ({} → {} bytes)", old.len(), new.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(debug_assertions)] // steps are not counted in a release build
    #[test]
    fn a_row_is_found_by_reading_the_text_once() {
        let tools = ["{}"; 1_000].join(",");
        let text = format!(r#"{{"tools":[{tools},{{"name":"wanted"}}],"system":"s"}}"#);
        let holds = |part: ShownPart| part.json.is_some_and(|json| json.get().contains("wanted"));
        let (once, _) = cost::of(|| entries(text.as_bytes()).len());
        let (steps, found) = cost::of(|| position(text.as_bytes(), holds));
        // After the system prompt and the other tools.
        assert_eq!(
            (steps <= 2 * once, found),
            (true, Some(1_001)),
            "{steps}, {once} for a reading"
        );
        assert_eq!(position(text.as_bytes(), |_| false), None);
    }

    #[cfg(debug_assertions)] // steps are not counted in a release build
    #[test]
    fn many_names_cost_as_many_comparisons() {
        let body = |n: usize, from: usize| {
            let members = (from..from + n).map(|i| format!("\"k{i}\":{i}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(",")).into_bytes()
        };
        for n in [1_000, 10_000, 100_000] {
            let (before, after) = (body(n, 0), body(n, n / 2));
            let (steps, described) = cost::of(|| differences(&before, &after));
            assert_eq!(described.len(), n / 2 * 2);
            assert!(steps <= 100 * n as u64, "{steps} for {n}");
        }
    }

    #[test]
    fn the_envelope_names_what_differs() {
        let before = br#"{"model":"m","tools":[{"name":"a"}],"old":1}"#;
        let after = br#"{"model":"m","tools":[{"name":"a"},{"name":"session_handoff"}],"stream_options":{}}"#;
        let described: Vec<_> = differences(before, after)
            .into_iter()
            .map(|c| format!("{} {}", c.key, c.what))
            .collect();
        assert_eq!(
            described,
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
        for wrapper in ["request", "generateContentRequest", "generate_content_request"] {
            let wrapped = |inner: &str| format!(r#"{{"model":"m","{wrapper}":{inner}}}"#).into_bytes();
            let (before, after) = (wrapped(inner), wrapped(&with_tool));
            let (theirs, ours) = compare(&before, &after);
            assert_eq!(theirs.len(), 2);
            let lines: Vec<_> = ours.iter().map(|row| row.first_line.trim()).collect();
            assert_eq!(lines, ["Be brief.", "a", "session_handoff"]);
            assert_eq!(
                (ours[2].state, ours[2].why),
                (MessageState::New, Some(ChangeReason::Tool))
            );
            assert!(parts(&after, 2).is_some());
            let described = differences(&before, &after);
            assert_eq!(described.len(), 1);
            assert_eq!(described[0].key, format!("{wrapper}.tools"));
        }
        // Anywhere else `request` is a member like any other.
        let own = br#"{"messages":[],"request":{"system":"s"},"system":"t"}"#;
        let lines: Vec<_> = rows(own).into_iter().map(|row| row.first_line).collect();
        assert_eq!(lines, ["t"]);
    }
}
