//! Files, results and other content that agents attach to the user's words: `attached.toml`.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use serde::Deserialize;

use super::blocks;
use crate::agents::wordings::UserText;
use crate::text::table;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct AttachedForms {
    turn: Vec<&'static str>,
    expansion: Vec<&'static str>,
    elements: Vec<&'static str>,
    ended: Vec<Ended>,
    replies: Vec<&'static str>,
    typed: Vec<&'static str>,
}

/// Content before the user's words, up to its own closing heading.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    begins: &'static str,
    ends: &'static str,
}

static FORMS: LazyLock<AttachedForms> = LazyLock::new(|| table::read(include_str!("attached.toml")));

/// Extent of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attachment {
    /// This many bytes.
    Element(usize),
    /// The rest of the turn.
    Turn,
    /// The rest of the text.
    Text(UserText),
    /// The result of a question to the user.
    Reply,
}

/// Finds the first attachment, and the offset of the line that it begins with.
pub(super) fn first(text: &str) -> Option<(usize, Attachment)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(attachment) = begins(line.trim_start(), &text[at..], at == 0) {
            return Some((at, attachment));
        }
        at += line.len();
    }
    None
}

/// Reads the attachment that begins with this line. `rest` is the text from the line on.
fn begins(line: &str, rest: &str, is_first: bool) -> Option<Attachment> {
    // Cheap check first: no form begins with another character.
    if !line.starts_with(['<', '-', '[', '#', 'B', 'C', 'E', 'H', 'I', 'R']) {
        return None;
    }
    let starts = |all: &[&str]| all.iter().any(|begins| line.starts_with(begins));
    if let Some(tool) = result_of(line) {
        return Some(match FORMS.replies.contains(&tool) {
            true => Attachment::Reply,
            false => Attachment::Turn,
        });
    }
    if starts(&FORMS.turn) {
        return Some(Attachment::Turn);
    }
    if is_first && starts(&FORMS.expansion) {
        return Some(Attachment::Text(UserText::Expansion));
    }
    let mut ended = FORMS.ended.iter();
    if let Some(form) = ended.find(|form| is_first && line.starts_with(form.begins)) {
        // The last one, because the content may contain the same heading.
        let end = memmem::rfind(rest.as_bytes(), form.ends.as_bytes());
        return Some(match end {
            Some(end) => Attachment::Element(end + form.ends.len()),
            None => Attachment::Turn,
        });
    }
    let name = line.strip_prefix('<')?;
    let is_element = |element: &&&str| {
        let after = name.strip_prefix(**element);
        after.is_some_and(|after| after.starts_with([' ', '>', '\n', '\r']))
    };
    FORMS.elements.iter().find(is_element)?;
    let indent = rest.len() - rest.trim_start().len();
    Some(Attachment::Element(indent + blocks::block_len(&rest[indent..])))
}

/// Tool of a line that announces its result as text, such as `[read_file for 'README.md'] Result:` (Cline,
/// Roo).
fn result_of(line: &str) -> Option<&str> {
    let inside = line.strip_prefix('[')?;
    let end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))?;
    let is_result = end > 0 && inside[end..].starts_with([']', ' ']) && line.contains("] Result:");
    is_result.then(|| &inside[..end])
}

/// Range of the user's words in the result of a question to the user.
pub(super) fn reply(text: &str) -> Option<Range<usize>> {
    let mut elements = FORMS
        .typed
        .iter()
        .filter_map(|name| blocks::element(text, &format!("<{name}>"), &format!("</{name}>")));
    elements.next()
}
