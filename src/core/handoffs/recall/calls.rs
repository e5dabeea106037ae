//! Calls of the agent's tools, each with its outcome.

use serde_json::Value;

use crate::agents::files;
use crate::agents::secret_files;
use crate::agents::tools::{self, ToolKind};
use crate::transcript::ToolCall;

/// Bytes of what a call is about.
const ABOUT: usize = 160;

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CallOutcome {
    /// It has no result, or one that does not say.
    #[default]
    Unknown,
    Succeeded,
    /// With the exit code, where there is one.
    Failed(Option<i32>),
}

#[derive(Debug, Clone)]
pub(super) struct RecalledCall {
    /// Its message.
    pub(super) turn: usize,
    /// A command, a path, a question, on one line; not redacted.
    pub(super) about: String,
    pub(super) name: String,
    pub(super) kind: ToolKind,
    /// Files that it names, and whether it changes them.
    pub(super) paths: Vec<(String, bool)>,
    /// What it reads holds credentials, so that nothing of it may be quoted.
    pub(super) secret: bool,
    /// The message with its result.
    pub(super) answered: Option<usize>,
    pub(super) outcome: CallOutcome,
}

/// The calls of a transcript, in order.
#[derive(Debug, Default)]
pub(super) struct CallHistory(Vec<RecalledCall>);

/// The text of an agent's call, and the record kept of it. `more`: patterns of further files with credentials.
pub(super) fn read(call: &ToolCall<'_>, turn: usize, more: &[String]) -> (RecalledCall, String) {
    let (name, arguments) = tools::called(call.named(), &call.given());
    let kind = ToolKind::of(&name, &arguments);
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
        answered: None,
        outcome: CallOutcome::Unknown,
        paths: paths
            .into_iter()
            .map(|(path, change)| (path, change.is_some()))
            .collect(),
        name,
    };
    let words = match command {
        Some(command) => command,
        None => written(&arguments),
    };
    (called, words)
}

/// Arguments as a person would write them down: a line for each.
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

impl CallHistory {
    pub(super) fn add(&mut self, called: RecalledCall) -> usize {
        self.0.push(called);
        self.0.len() - 1
    }

    pub(super) fn get(&self, at: usize) -> Option<&RecalledCall> {
        self.0.get(at)
    }

    /// Records a call's outcome from the first message that answers it, at `turn`.
    pub(super) fn settle(&mut self, at: usize, turn: usize, outcome: CallOutcome) {
        if let Some(called) = self.0.get_mut(at).filter(|called| called.answered.is_none()) {
            (called.answered, called.outcome) = (Some(turn), outcome);
        }
    }

    /// The messages, after this one, in which a call changed this file and did not fail, in order.
    pub(super) fn changes<'c>(
        &'c self,
        path: &'c str,
        after: usize,
    ) -> impl DoubleEndedIterator<Item = usize> + 'c {
        let from = self.0.partition_point(|called| called.turn <= after);
        let changed = self.0[from..].iter().filter(move |called| {
            !matches!(called.outcome, CallOutcome::Failed(_))
                && called
                    .paths
                    .iter()
                    .any(|(named, changes)| *changes && named == path)
        });
        changed.map(|called| called.turn)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
