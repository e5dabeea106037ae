//! Messages that the user sends while the agent works (Claude Code).
//!
//! The message is in a block at the end of a result, or in a separate block. A file or a program may print the same
//! words. So a message in a result is certain only if the result begins with output that only Claude Code can have
//! written: a fixed sentence with the arguments of its call, lines that its tool numbers, or nothing. And no block
//! with text of others may precede the message, because such text may close its block and open another one.

use std::ops::Range;

use memchr::memmem;
use serde_json::Value;

use crate::agents::tools;

/// Beginning of the message.
pub const INTERJECTION: &str = "The user sent a new message while you were working:\n";

/// Text after the message: the current wording, and the one of 2.1.
const FOLLOWS: [&str; 2] = [
    "\n\nThis is how Claude Code surfaces messages",
    "\n\nIMPORTANT: After completing your current task",
];

const OPENS: &str = "<system-reminder>";
const CLOSES: &str = "</system-reminder>";

/// The agent that sends such messages.
const AGENT: &str = "claude-code";

/// Beginnings of blocks without text of a file, the model or the user. They may precede the message.
const PLAIN: [&str; 2] = [
    "<total_tokens>",
    "Whenever you read a file, you should consider whether it",
];

/// Words after the sentence of a change.
const CURRENT: &str = " (file state is current in your context \u{2014} no need to Read it back)";
/// End of the sentence before a part of the changed file, whose lines are numbered.
const SNIPPET: &str = " Here's the result of running `cat -n` on a snippet of the edited file:\n";

/// Result of a command without output.
const SILENT: &str = "(Bash completed with no output)";
/// Beginning of the result of a command that still runs when the message is sent.
const MOVED: &str = "Command was moved to the background (ID: ";

/// A call, and the agent that made it.
#[derive(Debug, Clone, Copy)]
pub struct AgentsCall<'c> {
    /// Name of the agent; empty in doubt.
    pub agent: &'c str,
    pub name: &'c str,
    pub arguments: &'c str,
}

/// User message in a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interjection {
    /// Range of the user's text.
    pub typed: Range<usize>,
    /// Range of the block that contains it.
    pub block: Range<usize>,
    /// Whether no one but the user can have written the text.
    pub is_certain: bool,
}

/// Range of the user's message in a block that holds nothing else.
pub fn in_reminder(text: &str) -> Option<Range<usize>> {
    let inside = text.strip_prefix(OPENS)?.trim_start();
    let start = text.len() - inside.len();
    typed(text, start..text.trim_end().strip_suffix(CLOSES)?.len())
}

/// Finds the user's messages in the blocks at the end of a result, in order.
///
/// Empty if the result has such words elsewhere, or if another agent made the call.
pub fn interjected(call: &AgentsCall<'_>, result: &str) -> Vec<Interjection> {
    if !matches!(call.agent, "" | AGENT) {
        return Vec::new();
    }
    let certain = certain(call, result);
    let mut found = Vec::new();
    let mut rest = result.trim_end();
    while let Some(inside) = rest.strip_suffix(CLOSES)
        && let Some(at) = memmem::rfind(inside.as_bytes(), OPENS.as_bytes())
    {
        if let Some(typed) = in_reminder(&rest[at..]) {
            let typed = at + typed.start..at + typed.end;
            found.push(Interjection {
                is_certain: certain.contains(&typed),
                block: at..rest.len(),
                typed,
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

/// Ranges of the messages that directly follow output of the tool itself.
fn certain(call: &AgentsCall<'_>, result: &str) -> Vec<Range<usize>> {
    let result = result.trim_end();
    let mut found = Vec::new();
    let Some(mut rest) = after_own_output(call, result).filter(|_| result.ends_with(CLOSES)) else {
        return found;
    };
    while let Some(end) = memmem::find(rest.as_bytes(), CLOSES.as_bytes()) {
        let block = &rest[..end + CLOSES.len()];
        let Some(inside) = block.strip_prefix(OPENS) else {
            break;
        };
        let is_plain = || PLAIN.iter().any(|plain| inside.trim_start().starts_with(plain));
        match in_reminder(block) {
            Some(typed) => {
                let start = result.len() - rest.len();
                found.push(start + typed.start..start + typed.end);
            }
            None if is_plain() => {}
            None => break,
        }
        rest = rest[block.len()..].trim_start();
    }
    found
}

/// Returns the harness's blocks at the end of a result, if only the harness can have written them.
pub fn reminders<'r>(call: &AgentsCall<'_>, result: &'r str) -> Option<&'r str> {
    let result = result.trim_end();
    let blocks = after_own_output(call, result)?;
    (blocks.len() < result.len() && blocks.ends_with(CLOSES)).then_some(blocks)
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

/// The rest of a result from its first block on, if the output before it has a form that only this tool of Claude Code
/// gives it.
fn after_own_output<'r>(call: &AgentsCall<'_>, result: &'r str) -> Option<&'r str> {
    let at = memmem::find(result.as_bytes(), OPENS.as_bytes())?;
    let (own, blocks) = result.split_at(at);
    // Numbered lines have no empty line between them.
    let is_apart = own.is_empty() || own.ends_with("\n\n");
    // The model's own words may come back in the result, such as those of an edit.
    if call.agent != AGENT || !is_apart || call.arguments.contains("system-reminder") {
        return None;
    }
    let arguments = tools::arguments(call.arguments);
    let own = own.trim_end();
    let is_own = match call.name {
        "Edit" | "MultiEdit" | "Write" => is_change(&arguments, own),
        "Read" => is_numbered(own, Some(first_line(&arguments))),
        "Bash" => prints_only(&arguments, own),
        "TaskUpdate" => is_update(own),
        _ => false,
    };
    is_own.then_some(blocks)
}

/// Whether a result is the sentence of a changed file, and at most numbered lines of that file.
fn is_change(arguments: &Value, own: &str) -> bool {
    let path = arguments
        .get("file_path")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let after = |before: &str, after: &str| {
        let rest = own.strip_prefix(before)?.strip_prefix(path)?;
        rest.strip_prefix(after)
    };
    if path.is_empty() || path.contains(['\n', '<']) {
        return false;
    }
    let created = after("File created successfully at: ", "");
    let rest = created.or_else(|| after("The file ", " has been updated successfully."));
    let numbered = || after("The file ", " has been updated.")?.strip_prefix(SNIPPET);
    match rest {
        Some(rest) => rest.is_empty() || rest == CURRENT,
        None => numbered().is_some_and(|lines| is_numbered(lines, None)),
    }
}

/// Number of the first line that a call of `Read` asks for.
fn first_line(arguments: &Value) -> u64 {
    let offset = arguments.get("offset").and_then(Value::as_u64);
    offset.unwrap_or_default().max(1)
}

/// Whether each line has the number after that of the line before it. `first` is the number of the first one; `None` if any
/// number is right.
fn is_numbered(own: &str, first: Option<u64>) -> bool {
    let mut next = first;
    !own.is_empty()
        && own.split('\n').all(|line| {
            let line = line.trim_start_matches(' ');
            let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number: Option<u64> = line[..digits].parse().ok();
            let is_next = number.is_some() && (next.is_none() || next == number);
            next = number.and_then(|number| number.checked_add(1));
            // An empty last line consists only of its number.
            is_next && (digits == line.len() || line[digits..].starts_with(['\u{2192}', '\t', ':']))
        })
}

/// Whether a result is exactly the output of a command that only waits.
///
/// The command's words must be plain. A path may be a program of the repository, and an assignment may choose one.
fn prints_only(arguments: &Value, own: &str) -> bool {
    let Some(line) = arguments.get("command").and_then(Value::as_str) else {
        return false;
    };
    let mut printed = Vec::new();
    let is_known = line
        .split([';', '\n'])
        .flat_map(|step| step.split("&&"))
        .all(|step| {
            let words: Vec<&str> = step.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
            match words[..] {
                [] | ["true" | ":" | "wait"] => true,
                ["sleep", time] => is_time(time),
                ["echo", ref words @ ..] => {
                    printed.push(words.join(" "));
                    words.iter().all(|word| is_plain_word(word))
                }
                _ => false,
            }
        });
    let is_silent = printed.is_empty() && own == SILENT;
    is_known && (is_silent || own.starts_with(MOVED) || own == printed.join("\n").trim_end())
}

fn is_time(word: &str) -> bool {
    let number = word.strip_suffix(['s', 'm', 'h']).unwrap_or(word);
    !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn is_plain_word(word: &str) -> bool {
    !word.starts_with('-')
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.,:".contains(c))
}

/// Whether a result is the sentence of a changed task, which names the changed fields.
fn is_update(own: &str) -> bool {
    let Some((number, fields)) = own
        .strip_prefix("Updated task #")
        .and_then(|rest| rest.split_once(' '))
    else {
        return false;
    };
    let is_field = |c: char| c.is_ascii_alphabetic() || matches!(c, ' ' | ',' | '_');
    number.chars().all(|c| c.is_ascii_digit()) && fields.chars().all(is_field)
}
