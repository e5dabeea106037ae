//! Calls of the agent's tools with their outcomes.

use serde_json::Value;

use crate::agents::ending::LineEnd;
use crate::agents::files;
use crate::agents::secret_files;
use crate::agents::tools::{self, ToolKind};
use crate::transcript::ToolCall;

/// Maximum size of a call's subject, in bytes.
const ABOUT: usize = 160;

#[derive(Debug, Clone)]
pub(super) struct RecalledCall {
    /// Index of the message with the call.
    pub(super) turn: usize,
    /// Subject of the call on one line: a command, a path or a question. Not redacted.
    pub(super) about: String,
    pub(super) name: String,
    pub(super) kind: ToolKind,
    /// Named files, and whether the call changes them.
    pub(super) paths: Vec<(String, bool)>,
    /// Whether the call reads a file with credentials, so that its result must not be quoted.
    pub(super) secret: bool,
    /// How the call ended; `None` if it has no result.
    pub(super) end: Option<LineEnd>,
}

/// Reads a call into its record and its searchable text.
///
/// `more` has patterns of additional files with credentials.
pub(super) fn read(call: &ToolCall<'_>, turn: usize, more: &[String]) -> (RecalledCall, String) {
    let (name, arguments) = tools::called(call.named(), &call.given());
    let kind = ToolKind::from_call(&name, &arguments);
    let command = tools::command(&arguments).filter(|_| kind == ToolKind::Shell);
    let paths = files::named(kind, &arguments, command.as_deref());
    let secret = !secret_files::of_call(kind, &paths, command.as_deref(), more).is_empty();
    let about = match (&command, paths.first()) {
        (Some(command), _) => command.as_str(),
        (None, Some((path, _))) => path,
        (None, None) => tools::query(&arguments).unwrap_or_default(),
    };
    let called = RecalledCall {
        turn,
        about: beginning(about),
        kind,
        secret,
        end: None,
        paths: paths
            .into_iter()
            .map(|(path, change)| (path, change.is_some()))
            .collect(),
        name,
    };
    // A shell call is searched by its command, other calls by the names and values of their arguments.
    let words = match command {
        Some(command) => command,
        None => written(&arguments),
    };
    (called, words)
}

/// The arguments in readable form, one per line.
fn written(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key}: {text}\n"),
                other => format!("{key}: {other}\n"),
            })
            .collect(),
        other => other.to_string(),
    }
}

/// The first words, on one line.
fn beginning(about: &str) -> String {
    let mut line = String::new();
    for word in about.split_whitespace() {
        if line.len() + word.len() > ABOUT {
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Messages after `after` that have a call which changed this file and did not fail, in order.
pub(super) fn changes<'c>(
    calls: &'c [RecalledCall],
    path: &'c str,
    after: usize,
) -> impl DoubleEndedIterator<Item = usize> + 'c {
    // The calls are in the order of their messages.
    let from = calls.partition_point(|called| called.turn <= after);
    let changed = calls[from..].iter().filter(move |called| {
        let mut paths = called.paths.iter();
        called.end.is_none_or(|end| end.failed != Some(true))
            && paths.any(|(named, changes)| *changes && named == path)
    });
    changed.map(|called| called.turn)
}
