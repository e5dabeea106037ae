//! Repeated calls: the same call with the same result, a command that keeps failing, reviews without a change between.
//!
//! A call that changes files, or may change them, is progress and resets the counts. So does a user message. A doubtful
//! call does not count: one that waits for something, or a successful call of an unknown tool.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::agents::speakers::SpeakerSettings;
use crate::agents::tools::{self, ToolKind};
use crate::agents::{commands, wordings};
use crate::record::LoopMark;
use crate::text::prose::one_line;
use crate::transcript::{ToolUse, Transcript, TranscriptPartKind};
use crate::wire::{Role, View};

/// Maximum length of a call in a message, in bytes.
const MAX_SHOWN_BYTES: usize = 80;

/// Arguments that describe a call and do not change it.
const DESCRIPTIONS: [&str; 6] = [
    "description",
    "explanation",
    "timeout",
    "timeout_ms",
    "task_progress",
    "yield_time_ms",
];

/// Words of commands that wait for something else: the same result again is not a loop.
const WAITING_COMMANDS: [&str; 5] = ["sleep", "wait", "watch", "ping", "until"];

/// Words in the names of tools that wait for something else.
const WAITING_TOOLS: [&str; 6] = ["wait", "poll", "output", "stdin", "status", "monitor"];

named! {
    /// Kind of a repetition.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum RepeatKind {
        /// A call with the same result each time.
        Same = "same",
        /// A command that fails each time, with whatever output.
        Failing = "failing",
        /// A prompt to another agent, repeated.
        Review = "review",
        /// A change of a file that something undoes each time.
        Change = "change",
    }
}

impl RepeatKind {
    /// Count at which the model is told. One more, and the agent is stopped.
    pub fn told_at(self) -> u32 {
        match self {
            Self::Same | Self::Review | Self::Change => 3,
            Self::Failing => 5,
        }
    }
}

/// The call that the model repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepeatedCall {
    pub kind: RepeatKind,
    pub mark: LoopMark,
    /// The call on one line, shortened.
    pub call: String,
}

/// How often a call was seen.
#[derive(Clone, Copy)]
struct SeenCall {
    kind: RepeatKind,
    count: u32,
    /// Turn of the call's last result. A call that the model made before that turn is a parallel one.
    answered: usize,
}

/// Effect of a call on files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallEffect {
    Nothing,
    Unknown,
    Changes,
}

/// Finds the most repeated call of the model's last turn, if it was repeated often enough to tell the model.
///
/// Turns before the user's last words do not count, and neither do those before `kept_from`, which a handoff cut: the
/// model does not know their calls, so it may repeat them.
pub fn repeated_call(view: &View, tags: &[String], kept_from: usize) -> Option<RepeatedCall> {
    let transcript = Transcript::from_view(view);
    let last_model = view.turns.iter().rposition(|turn| turn.role.may_be_models())?;
    // The user may have asked for the same call again.
    let from = last_of_user(&transcript, tags).unwrap_or_default().max(kept_from);
    let agent = transcript.agent();
    let mut seen: HashMap<u64, SeenCall> = HashMap::new();
    let mut newest: Option<RepeatedCall> = None;
    for used in transcript.tool_uses() {
        let Some((answered, _)) = used.answer.filter(|_| used.turn >= from) else {
            continue;
        };
        let end = used.end(agent);
        let failed =
            end.failed == Some(true) || used.result().is_some_and(|result| result.error == Some(true));
        let call = CountedCall::new(&used, failed);
        if call.effect != CallEffect::Nothing {
            // Keeps the call's own count, which progress would otherwise reset, and the counts of other changes: two
            // edits may undo each other in turn.
            let own: Vec<u64> = call.keys.iter().map(|(_, key)| *key).collect();
            seen.retain(|key, seen| own.contains(key) || seen.kind == RepeatKind::Change);
        }
        for (kind, key) in call.keys {
            let entry = seen.entry(key).or_insert(SeenCall {
                kind,
                count: 0,
                answered: 0,
            });
            // Calls made before the last result arrived are parallel ones: the model has not ignored a result.
            if entry.count == 0 || used.turn > entry.answered {
                entry.count += 1;
            }
            entry.answered = entry.answered.max(answered);
            let count = entry.count;
            let is_more = newest.as_ref().is_none_or(|newest| count > newest.mark.count);
            // Only calls of the newest turn count: an earlier loop has ended by itself.
            if answered > last_model && count >= kind.told_at() && is_more {
                newest = Some(RepeatedCall {
                    kind,
                    mark: LoopMark { key, count },
                    call: call.shown.clone(),
                });
            }
        }
    }
    newest
}

/// The last turn that contains the user's words.
fn last_of_user(transcript: &Transcript<'_>, tags: &[String]) -> Option<usize> {
    let mut newest_first = (0..transcript.len()).rev();
    newest_first.find(|at| has_users_words(transcript, *at, tags))
}

fn has_users_words(transcript: &Transcript<'_>, at: usize, tags: &[String]) -> bool {
    !users_words(transcript, at, tags).is_empty()
}

fn users_words(transcript: &Transcript<'_>, at: usize, tags: &[String]) -> String {
    let is_users = transcript.turn(at).is_some_and(|turn| turn.role == Role::User);
    let settings = SpeakerSettings::tagged(tags);
    let said = if is_users {
        transcript.said_in(at, &settings)
    } else {
        Vec::new()
    };
    said.iter().map(|said| said.users_words()).collect()
}

/// Name of a session that the agent does not name: the user's first words, after the system prompt.
///
/// Without reminders, which some agents add in another number when they resume a session (qwen-code).
pub fn opening(view: &View, tags: &[String]) -> Option<String> {
    let transcript = Transcript::from_view(view);
    let first = (0..transcript.len()).find(|at| has_users_words(&transcript, *at, tags))?;
    let before = (0..first).filter_map(|at| transcript.turn(at));
    let system = before.filter(|turn| turn.role == Role::System);
    let parts = system.flat_map(|turn| turn.parts());
    let mut name: String = parts.map(|part| part.text()).collect();
    name.push_str(&users_words(&transcript, first, tags));
    Some(name)
}

/// Whether a request continues the agent's own work: it adds results of the model's calls, and no input of the user.
pub fn continues_own_work(view: &View, tags: &[String]) -> bool {
    let transcript = Transcript::from_view(view);
    let Some(last) = view.turns.iter().rposition(|turn| turn.role.may_be_models()) else {
        return false;
    };
    let mut has_results = false;
    for at in last + 1..transcript.len() {
        let Some(turn) = transcript.turn(at) else { continue };
        for part in turn.parts() {
            match part.kind {
                TranscriptPartKind::Result(_) => has_results = true,
                TranscriptPartKind::Text(_) => {}
                // An image or a file may be the user's.
                _ if turn.role == Role::User => return false,
                _ => {}
            }
        }
        if has_users_words(&transcript, at, tags) {
            return false;
        }
    }
    has_results
}

/// A call with its fingerprints.
struct CountedCall {
    effect: CallEffect,
    keys: Vec<(RepeatKind, u64)>,
    shown: String,
}

impl CountedCall {
    fn new(used: &ToolUse<'_>, failed: bool) -> Self {
        let (name, arguments) = tools::called(used.call.named(), &used.call.given());
        let kind = ToolKind::from_call(&name, &arguments);
        let is_shell = kind == ToolKind::Shell;
        let command = is_shell.then(|| tools::command(&arguments)).flatten();
        let effect = match (kind, &command) {
            (ToolKind::Shell, Some(line)) if commands::is_read_only(line) => CallEffect::Nothing,
            // A failed edit left the file as it was, so it is not progress.
            (kind, _) if kind.changes() && failed => CallEffect::Nothing,
            (kind, _) if kind.changes() => CallEffect::Changes,
            (ToolKind::Shell | ToolKind::Agent | ToolKind::Other | ToolKind::Editor, _) => {
                CallEffect::Unknown
            }
            _ => CallEffect::Nothing,
        };
        let shown = command
            .clone()
            .unwrap_or_else(|| match tools::paths(kind, &arguments).first() {
                Some(path) => format!("{name} {path}"),
                None => name.clone(),
            });
        let called = Called {
            name: &name,
            arguments: &arguments,
            kind,
            command,
            effect,
            failed,
        };
        let (keys, shown) = (keys(used, &called), one_line(&shown, MAX_SHOWN_BYTES));
        Self { effect, keys, shown }
    }
}

struct Called<'a> {
    name: &'a str,
    arguments: &'a Value,
    kind: ToolKind,
    command: Option<String>,
    effect: CallEffect,
    failed: bool,
}

/// The fingerprints by which a call is counted; none if its repetition proves nothing.
fn keys(used: &ToolUse<'_>, called: &Called<'_>) -> Vec<(RepeatKind, u64)> {
    let is_own = matches!(called.kind, ToolKind::Todo | ToolKind::Ask | ToolKind::Own);
    if is_own || waits(called) {
        return Vec::new();
    }
    let arguments = plain_arguments(called.arguments, called.command.as_deref());
    let key = |kind: RepeatKind, result: &str| {
        let mut hash = DefaultHasher::new();
        (kind.name(), called.name, &arguments, result).hash(&mut hash);
        (kind, hash.finish())
    };
    let result = || {
        let text = used.answer.map(|(_, part)| part.text()).unwrap_or_default();
        plain_result(&text)
    };
    let mut keys = Vec::new();
    if called.kind == ToolKind::Agent {
        // Another agent words its result differently each time, so the result is not part of the key.
        keys.push(key(RepeatKind::Review, ""));
    } else if called.effect == CallEffect::Changes {
        keys.push(key(RepeatKind::Change, ""));
    } else if called.effect == CallEffect::Nothing {
        keys.push(key(RepeatKind::Same, &result()));
    }
    if called.failed && matches!(called.kind, ToolKind::Shell | ToolKind::Other) {
        keys.push(key(RepeatKind::Failing, ""));
    }
    keys
}

/// Whether a call waits for something else.
fn waits(called: &Called<'_>) -> bool {
    match &called.command {
        Some(line) => {
            let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
            words.any(|word| WAITING_COMMANDS.contains(&word))
        }
        // Names are spelled in several ways: `BashOutput`, `write_stdin`.
        None => {
            let name = called.name.to_ascii_lowercase();
            WAITING_TOOLS.iter().any(|word| name.contains(word))
        }
    }
}

/// Arguments without descriptions, in the order of their names.
fn plain_arguments(arguments: &Value, command: Option<&str>) -> String {
    // Freeform tools of Codex take plain text instead of an object.
    let Value::Object(members) = arguments else {
        return command.map_or_else(|| arguments.to_string(), |line| line.trim().to_owned());
    };
    let members = members.iter();
    let kept = members.filter(|(name, _)| !DESCRIPTIONS.contains(&name.as_str()));
    let mut kept: Vec<String> = kept.map(|(name, value)| format!("{name}={value}")).collect();
    // Models write the members in any order.
    kept.sort_unstable();
    kept.join("\n")
}

/// Names of values that differ each time: Codex's code mode, Gemini CLI's shell.
const VOLATILE_NAMES: [&str; 6] = [
    "chunk_id",
    "wall_time_seconds",
    "duration_seconds",
    "duration_ms",
    "pgid",
    "pid",
];

/// Units of durations.
const UNITS: [&str; 9] = ["s", "ms", "us", "ns", "sec", "secs", "min", "seconds", "minutes"];

/// The words of a result, with `~` in place of each value that differs from run to run.
pub(super) fn plain_result(text: &str) -> String {
    // A reminder of the agent differs from call to call, and would hide the repetition.
    let text = wordings::before_reminders(text);
    // Includes the members of JSON, which Codex prints on one line.
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ',' | '"'));
    let mut words = words.filter(|word| !matches!(*word, "" | ":")).peekable();
    let (mut plain, mut before) = (Vec::new(), "");
    while let Some(word) = words.next() {
        let is_duration = words.peek().is_some_and(|next| UNITS.contains(next)) && is_number(bare(word));
        let name = bare(before);
        let is_named = VOLATILE_NAMES
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name));
        plain.push(match is_duration || is_named || is_volatile(word) {
            true => "~",
            false => word,
        });
        before = word;
    }
    plain.join(" ")
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Whether a word is a time, a duration, an address or an id.
fn is_volatile(word: &str) -> bool {
    let bare = bare(word);
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 {
        return false;
    }
    let number = bare.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_duration = is_number(number) && UNITS.contains(&&bare[number.len()..]);
    let is_time = bare.contains(':') && bare.bytes().all(|b| b.is_ascii_digit() || b":.-TZ+".contains(&b));
    let is_id = bare.len() >= 8 && digits >= 2 && bare.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_duration || is_time || is_id || bare.starts_with("0x")
}

#[cfg(test)]
mod tests {
    use super::plain_result;

    #[test]
    fn times_and_ids_of_agents_do_not_count_and_other_numbers_do() {
        let codex = |wall: &str, id: &str, code: u32| {
            format!(
                "Script completed\nWall time {wall} seconds\nOutput:\n\
                 {{\"chunk_id\":\"{id}\",\"wall_time_seconds\":{wall}17,\"exit_code\":{code},\"output\":\"x\\n\"}}"
            )
        };
        let gemini = |pid: u32, left: u32| format!("Output: {left} failed\nProcess Group PGID: {pid}");
        for (one, other, is_same) in [
            (codex("0.1", "4423f8", 1), codex("12.4", "76db96", 1), true),
            (codex("0.1", "4423f8", 1), codex("0.1", "4423f8", 2), false),
            (gemini(1645, 3), gemini(1649, 3), true),
            (gemini(1645, 3), gemini(1645, 2), false),
            ("FAILED in 0.02s".to_owned(), "FAILED in 1.30s".to_owned(), true),
            ("{\"left\": 3}".to_owned(), "{\"left\": 2}".to_owned(), false),
        ] {
            assert_eq!(
                plain_result(&one) == plain_result(&other),
                is_same,
                "{one}\n{other}"
            );
        }
    }
}
