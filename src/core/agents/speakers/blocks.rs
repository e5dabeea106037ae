//! Blocks at the start of a message: `<tag>…</tag>` of a harness, and the user's commands that the agent
//! expands.

use std::ops::Range;

use memchr::memmem;

use crate::agents::wordings::{self, UserText};
use crate::text::cost;

/// Element of a command that the user typed and the agent expands (Claude Code). The expansion is in the next
/// text block.
const EXPANDED: &str = "<command-message>";
/// Elements that open a command. The agent itself handles a command that opens with the name.
const INVOCATIONS: [&str; 2] = [EXPANDED, "<command-name>"];

/// Commands whose arguments the agent itself takes, and the model never sees.
const SETTINGS: [&str; 4] = ["/model", "/effort", "/output-style", "/permissions"];

/// Beginning of a command's template that states the arguments in a fence (spec-kit in Codex), and the fence.
const TEMPLATE: &str = "## User Input";
const ARGUMENTS: &str = "```text\n";

/// Beginning of a notice that the user stopped the model. It ends with a bracket.
const INTERRUPTED: &str = "[Request interrupted by user";

/// A command whose expansion follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Invocation {
    /// Name without the slash.
    name: String,
    args: String,
}

impl Invocation {
    /// Whether all words of an expansion come from the user.
    ///
    /// That is the command's name after punctuation, and the arguments that the user typed after it. For
    /// example, the custom command `/pin TEXT` expands to `::pin TEXT`.
    pub(super) fn is_all_of(&self, expansion: &str) -> bool {
        let words = expansion.trim();
        let words = words.trim_start_matches(|c: char| c.is_ascii_punctuation());
        let args = words.strip_prefix(&*self.name).filter(|_| !self.name.is_empty());
        args.is_some_and(|args| {
            args.trim() == self.args && (args.is_empty() || args.starts_with(char::is_whitespace))
        })
    }
}

/// Recognizes a command that the agent expands.
///
/// Returns the invocation that identifies the following expansion, if any, and the range of the arguments
/// that the user typed.
pub(super) fn invocation(text: &str) -> Option<(Option<Invocation>, Option<Range<usize>>)> {
    let rest = text.trim_start();
    if let Some(after) = rest.strip_prefix(TEMPLATE)
        && let Some(inside) = after.trim_start().strip_prefix(ARGUMENTS)
    {
        let start = text.len() - inside.len();
        let len = inside.find("\n```").unwrap_or_default();
        return Some((None, Some(start..start + len)));
    }
    INVOCATIONS.iter().find(|tag| rest.starts_with(**tag))?;
    let name = element(text, "<command-name>", "</command-name>").map_or("", |name| &text[name]);
    let args =
        element(text, "<command-args>", "</command-args>").filter(|_| !SETTINGS.contains(&name.trim()));
    let follows = rest.starts_with(EXPANDED).then(|| Invocation {
        name: name.trim().trim_start_matches('/').to_owned(),
        args: args.clone().map_or("", |args| &text[args]).trim().to_owned(),
    });
    Some((follows, args))
}

/// Range inside an element, from its first opening to its last closing tag.
pub(super) fn element(text: &str, opens: &str, closes: &str) -> Option<Range<usize>> {
    let start = memmem::find(text.as_bytes(), opens.as_bytes())? + opens.len();
    let end = memmem::rfind(&text.as_bytes()[start..], closes.as_bytes())?;
    Some(start..start + end)
}

/// Range of the task in the message that begins the conversation of a teammate (agent teams of Claude Code).
pub(super) fn task(text: &str) -> Option<Range<usize>> {
    text.starts_with("<teammate-message")
        .then(|| element(text, ">", "</teammate-message>"))?
}

/// Kind and length of the block at the start of a message.
pub(super) fn at_start(text: &str, tags: &[String]) -> Option<(UserText, usize)> {
    if text.starts_with(INTERRUPTED) {
        return Some((UserText::Interrupted, text.find(']')? + 1));
    }
    harness_len(text, tags).map(|len| (UserText::Harness, len))
}

/// Length of the harness's block at the start of a message.
pub(super) fn harness_len(text: &str, tags: &[String]) -> Option<usize> {
    let opens = |tag: &&String| !tag.is_empty() && text.starts_with(tag.as_str());
    let tag = tags.iter().find(opens);
    let is_block = || text.starts_with('<') && wordings::user_text(text, &[]) == UserText::Harness;
    match tag {
        // A heading that is configured as a tag covers the text up to the next block, and that block.
        Some(tag) if !tag.starts_with('<') => Some(match text.find("\n<") {
            Some(at) => at + 1 + block_len(&text[at + 1..]),
            None => text.len(),
        }),
        Some(_) => Some(block_len(text)),
        None => is_block().then(|| block_len(text)),
    }
}

/// Length of the block at the start of a message, up to the last closing tag of its name. Without a closing
/// tag it is the whole message.
pub(super) fn block_len(text: &str) -> usize {
    let name = text.strip_prefix('<').unwrap_or_default();
    let end = name.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | ':')));
    let close = format!("</{}>", &name[..end.unwrap_or(name.len())]);
    let found = memmem::rfind(text.as_bytes(), close.as_bytes());
    let len = found.map_or(text.len(), |at| at + close.len());
    // Counted for the tests that hold the total cost linear.
    cost::add(text.len());
    len
}
