//! Messages that the user sends while the agent works (Claude Code).
//!
//! The message is in a block at the end of a result, or in a separate block. A result may contain the same
//! words. So the block must end the result, and the call must print no stored text: only an edit, a file's
//! numbered lines, or a command that builds, tests or waits. Other calls are ignored.

use std::ops::Range;

use memchr::memmem;

use crate::agents::commands;
use crate::agents::tools::{self, ToolKind};

/// Beginning of the message.
pub const INTERJECTION: &str = "The user sent a new message while you were working:\n";

/// Text after the message: the current wording, and the one of 2.1.
const FOLLOWS: [&str; 2] = [
    "\n\nThis is how Claude Code surfaces messages",
    "\n\nIMPORTANT: After completing your current task",
];

const OPENS: &str = "<system-reminder>";
const CLOSES: &str = "</system-reminder>";

/// Tools of Claude Code whose results are numbered lines or fixed words.
const FIXED_RESULTS: [&str; 5] = ["Read", "Edit", "MultiEdit", "Write", "NotebookEdit"];

/// User message in a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interjection {
    /// Range of the user's text.
    pub typed: Range<usize>,
    /// Range of the block that contains it.
    pub block: Range<usize>,
}

/// Range of the user's message in a block that holds nothing else.
pub fn in_reminder(text: &str) -> Option<Range<usize>> {
    let inside = text.strip_prefix(OPENS)?.trim_start();
    let start = text.len() - inside.len();
    typed(text, start..text.trim_end().strip_suffix(CLOSES)?.len())
}

/// Finds the user's messages in the blocks at the end of a result, in order.
///
/// Empty if the result has such words elsewhere.
pub fn interjected(result: &str) -> Vec<Interjection> {
    let mut found = Vec::new();
    let mut rest = result.trim_end();
    while let Some(inside) = rest.strip_suffix(CLOSES)
        && let Some(at) = memmem::rfind(inside.as_bytes(), OPENS.as_bytes())
    {
        if let Some(typed) = in_reminder(&rest[at..]) {
            found.push(Interjection {
                typed: at + typed.start..at + typed.end,
                block: at..rest.len(),
            });
        }
        rest = rest[..at].trim_end();
    }
    // Then the output itself contains such blocks, and the last ones may be quoted as well.
    let is_elsewhere = memmem::find(rest.as_bytes(), OPENS.as_bytes()).is_some();
    match is_elsewhere {
        true => Vec::new(),
        false => found.into_iter().rev().collect(),
    }
}

/// Returns the harness's blocks at the end of a result, if only the harness can have written them.
///
/// The tool must be known to print numbered lines or fixed words before them.
pub fn reminders<'r>(name: &str, arguments: &str, result: &'r str) -> Option<&'r str> {
    let result = result.trim_end();
    let at = memmem::find(result.as_bytes(), OPENS.as_bytes())?;
    let (own, blocks) = result.split_at(at);
    // Numbered lines have no empty line between them.
    let is_apart = own.ends_with("\n\n") && !own.trim().is_empty();
    let is_known = FIXED_RESULTS.contains(&name) && !may_print_stored_text(name, arguments, result);
    (is_apart && is_known && blocks.ends_with(CLOSES)).then_some(blocks)
}

/// Range of the message between its fixed words in the inside of a block.
fn typed(text: &str, inside: Range<usize>) -> Option<Range<usize>> {
    let start = inside.start + INTERJECTION.len();
    let message = text.get(inside)?.strip_prefix(INTERJECTION)?;
    let ends = FOLLOWS.iter();
    let end = ends.filter_map(|follows| memmem::rfind(message.as_bytes(), follows.as_bytes()));
    let end = end.max()?;
    // A block inside the message would be one that the output has begun.
    (!message[..end].contains(OPENS)).then(|| start..start + end)
}

/// Whether the result of a call may end with stored text, or with the model's own, before the harness's
/// blocks.
pub fn may_print_stored_text(name: &str, arguments: &str, result: &str) -> bool {
    // The model's own words may come back in the result, such as those of an edit.
    if arguments.contains("system-reminder") {
        return true;
    }
    let (name, arguments) = tools::called(name.to_owned(), arguments);
    match ToolKind::from_call(&name, &arguments) {
        ToolKind::Write | ToolKind::Edit | ToolKind::Patch | ToolKind::Delete | ToolKind::Todo => false,
        ToolKind::Read => !is_numbered(result),
        ToolKind::Shell => !tools::command(&arguments).is_some_and(|line| commands::prints_own_text(&line)),
        _ => true,
    }
}

/// Whether each line of a result has a number, up to the harness's blocks.
fn is_numbered(result: &str) -> bool {
    let lines = result.split(OPENS).next().unwrap_or_default().lines();
    let mut lines = lines.filter(|line| !line.trim().is_empty());
    lines.all(|line| {
        let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        // An empty last line consists only of its number.
        rest.len() < line.trim_start().len() && (rest.is_empty() || rest.starts_with(['→', '\t']))
    })
}
