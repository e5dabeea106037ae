//! Finds what the model looks up again after a cut: information that the carry-over prompt could have included.

use std::collections::HashSet;

use serde_json::Value;

use crate::agents::files;
use crate::agents::tools::{self, ToolKind};
use crate::handoffs::recall::found_nothing;
use crate::record::{HandoffId, HiddenPair};
use crate::redact::Redactor;
use crate::text::prose::one_line;
use crate::tools::RECALL_NAME;
use crate::transcript::{Transcript, TranscriptPartKind, TranscriptTurn};
use crate::wire::Role;

/// Number of requests after a handoff during which a repeated look-up counts as its consequence.
pub const REQUESTS: usize = 20;

/// Maximum size of a reported command in bytes.
const LINE: usize = 120;

/// A file or a command that a call looks up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum LookUp {
    File(String),
    Command(String),
}

/// The files read again and the commands run again after a cut.
#[derive(Debug, Default)]
pub(crate) struct RepeatedLookUps {
    before: HashSet<LookUp>,
    /// A line for the user about each.
    pub(crate) again: Vec<String>,
}

impl RepeatedLookUps {
    /// Takes the calls of a turn, from before or after the cut.
    pub(crate) fn turn(&mut self, turn: &TranscriptTurn<'_>, is_before: bool) {
        look_ups(turn, &mut |look_up| {
            if is_before {
                self.before.insert(look_up);
            // Removed, so that a file which is read three times is reported once.
            } else if self.before.remove(&look_up) {
                self.again.push(match look_up {
                    LookUp::File(path) => path,
                    LookUp::Command(command) => format!("`{}`", one_line(&command, LINE)),
                });
            }
        });
    }
}

/// Everything that was looked up again after a handoff.
///
/// `calls` has the files read again and the commands run again. `pairs` has the hidden calls since the
/// handoff, including questions to recall, which are reported with their success. `None` if nothing is known:
/// neither a transcript with the handoff nor a question.
pub fn looked_up_again<'p>(
    calls: Option<Vec<String>>,
    pairs: impl IntoIterator<Item = &'p HiddenPair>,
    redactor: &Redactor,
) -> Option<Vec<String>> {
    let questions: Vec<String> = pairs.into_iter().filter_map(question).collect();
    let is_known = calls.is_some() || !questions.is_empty();
    let all = calls.into_iter().flatten().chain(questions);
    let clean = all.map(|text| redactor.text(&text).into_owned());
    is_known.then(|| clean.collect())
}

/// Files read again and commands run again within the next requests after a handoff, each once.
///
/// `None` if the sentinel is not in this transcript.
pub fn called_again(transcript: &Transcript<'_>, handoff: HandoffId) -> Option<Vec<String>> {
    let cut = transcript.turn_of(handoff)?;
    let mut repeated = RepeatedLookUps::default();
    // The turn with the sentinel is included, because its calls ran before the cut.
    for turn in transcript.turns().take(cut + 1) {
        repeated.turn(&turn, true);
    }
    let (mut requests, mut is_answer) = (0, false);
    for turn in transcript.turns().skip(cut + 1) {
        let was_answer = std::mem::replace(&mut is_answer, turn.role == Role::Assistant);
        // Consecutive turns of the model belong to one request, so only the first of them counts.
        requests += usize::from(is_answer && !was_answer);
        if requests > REQUESTS {
            break;
        }
        repeated.turn(&turn, false);
    }
    Some(repeated.again)
}

/// A question to recall, and whether it found anything; `None` for another call.
fn question(pair: &HiddenPair) -> Option<String> {
    let call = serde_json::from_str(&pair.call).ok()?;
    let query = (pair.tool == RECALL_NAME).then(|| query(&call))??;
    let found = match found_nothing(pair.answer.text()) {
        true => "nothing found",
        false => "found",
    };
    Some(format!("\"{}\" ({found})", one_line(&query, LINE)))
}

/// The question of a call. Each wire has the arguments in another member, as JSON or as a string.
fn query(call: &Value) -> Option<String> {
    let members = call.as_object()?;
    if let Some(Value::String(query)) = members.get("query") {
        return Some(query.clone());
    }
    members.values().find_map(|value| match value {
        // OpenAI's APIs carry the arguments as a JSON string, the others as an object.
        Value::String(text) if text.starts_with('{') => query(&serde_json::from_str(text).ok()?),
        value => query(value),
    })
}

/// Reports the files that a turn's calls read, and the commands that they run.
fn look_ups(turn: &TranscriptTurn<'_>, found: &mut impl FnMut(LookUp)) {
    if turn.role != Role::Assistant {
        return;
    }
    for part in turn.parts() {
        let TranscriptPartKind::Call(call) = part.kind else {
            continue;
        };
        let (name, arguments) = tools::called(call.named(), &call.given());
        match ToolKind::from_call(&name, &arguments) {
            ToolKind::Shell => {
                tools::command(&arguments)
                    .into_iter()
                    .for_each(|command| found(LookUp::Command(command)));
            }
            kind @ ToolKind::Read => {
                let read = files::named(kind, &arguments, None).into_iter();
                read.for_each(|(path, _)| found(LookUp::File(path)));
            }
            _ => {}
        }
    }
}
