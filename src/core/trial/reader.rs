//! Reads an agent's record, one entry at a time.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value as Json;

use super::session::{RecordedCall, RecordedSession};
use super::sizes::TOKEN_BYTES;
use crate::agents::files;
use crate::agents::speakers::{SpeakerSettings, Speakers};
use crate::agents::todo::{self, TodoItem, TodoState};
use crate::agents::tools::{self, ToolKind};
use crate::bill::TokenCounts;
use crate::handoffs::carry::{REQUESTS, RepeatedLookUps};
use crate::handoffs::yaml::time::Time;
use crate::handoffs::yaml::{self, SessionMessage};
use crate::text::newest;
use crate::text::prose::one_line;
use crate::transcript::{SaidPart, ToolCall, TranscriptPartKind, TranscriptTurn, said};
use crate::wire::Role;

/// Maximum size of a session's title in bytes.
const TITLE: usize = 60;

/// Length of the name given to an unnamed subagent, in characters.
const CHAIN_NAME: usize = 8;

/// Beginning of the line that baton writes into a transcript at a handoff.
const HANDOFF: &str = "[[handoff-resume:";

/// Maximum number of calls whose results are awaited.
const AWAITED: usize = 64;

/// Types of entries that mark a compaction.
const COMPACTIONS: [&str; 3] = ["compact_boundary", "compacted", "compaction"];

/// Reads one record, a file or the rows of a database. A record may have several sessions.
#[derive(Debug, Default)]
pub struct TrialReader {
    /// Opening tags of harness text.
    tags: Vec<String>,
    source: u32,
    entries: u32,
    threads: HashMap<String, Thread>,
    /// The session for entries without an id.
    current: String,
    /// For each entry of an unnamed subagent, the first entry of its chain as an index into `roots`.
    chains: HashMap<u64, usize>,
    roots: Vec<String>,
    /// Whether this record has the usage of each request in separate entries (Codex).
    has_requests: bool,
}

/// State of a session while it is read.
#[derive(Debug, Default)]
struct Thread {
    session: RecordedSession,
    speakers: Speakers,
    /// Events since the last call.
    since: RecordedCall,
    /// Time of the last entry that is not a response.
    asked_ms: u64,
    model: String,
    /// Numbers of finished and of open items in the to-do list, if there is one.
    todos: Option<(u32, u32)>,
    /// Whether the user has spoken since the list was finished.
    was_finished: bool,
    /// Awaited results: the hash of the call, and of the file that it reads. A call that submits a plan has no file.
    awaited: Vec<(u64, Option<u64>)>,
    /// Ids of the calls that were read.
    seen: HashSet<u64>,
    /// Whether the last entry was a response.
    was_answer: bool,
    /// Sum of all requests. Codex repeats a figure with an unchanged sum.
    total: u64,
}

impl TrialReader {
    /// Creates the reader of the record with this number. `tags` are opening tags of harness text.
    pub fn new(source: u32, tags: &[String]) -> Self {
        Self {
            tags: tags.to_vec(),
            source,
            ..Self::default()
        }
    }

    /// The sessions in the record.
    pub fn into_sessions(self) -> Vec<RecordedSession> {
        let sessions = self.threads.into_values().map(|thread| RecordedSession {
            ends_finished: thread.is_finished(),
            ..thread.session
        });
        sessions.filter(|session| !session.calls.is_empty()).collect()
    }

    /// Takes an entry.
    pub fn entry(&mut self, entry: &Json) {
        // A fork has a copy of its parent's head after its own.
        let is_head = ["session_meta", "session"].contains(&entry["type"].as_str().unwrap_or_default());
        let id = self.session_id(entry);
        let id = id.filter(|_| !is_head || self.current.is_empty());
        let id = id.unwrap_or_else(|| self.current.clone());
        self.current.clone_from(&id);
        let thread = self.threads.entry(id).or_default();
        thread.session.id.clone_from(&self.current);
        (thread.since.source, thread.since.entry) = (self.source, self.entries);
        self.entries += 1;
        let kind = entry["type"].as_str().unwrap_or_default();
        // Codex states the usage of a request first, and repeats it as the last one of the session.
        self.has_requests |= kind == "token_usage_record";
        let again = self.has_requests && entry["payload"]["type"] == "token_count";
        thread.surroundings(entry, kind);
        // The user types neither the harness's own entries nor a summary, so they begin no turn and give the session
        // no title.
        let messages = match entry["isMeta"] == true || entry["isCompactSummary"] == true {
            true => Vec::new(),
            false => yaml::messages(entry),
        };
        let is_answer = messages.iter().any(SessionMessage::is_models);
        if !is_answer && !messages.is_empty() {
            thread.asked_ms = time_of(entry).unwrap_or(thread.asked_ms);
        }
        // The tool calls of an answer belong to the next request.
        let (before, behind) = messages.split_at(if is_answer { 0 } else { messages.len() });
        thread.messages(before, &self.tags);
        match kind {
            // A response of goose has no usage.
            "goose" if is_answer && !thread.was_answer => {
                let id = entry["id"].as_str().map_or(0, hash);
                thread.push(id, 0, TokenCounts::default(), time_of(entry));
            }
            "goose_sums" => thread.estimate(entry),
            _ if !again => thread.usage(entry),
            _ => {}
        }
        thread.was_answer = is_answer;
        thread.messages(behind, &self.tags);
    }

    /// The session that an entry names. A subagent's name follows a `/`.
    fn session_id(&mut self, entry: &Json) -> Option<String> {
        let text = |value: &Json| value.as_str().map(str::to_owned);
        let named = match entry["type"].as_str() {
            Some("session_meta") => text(&entry["payload"]["id"]),
            Some("session") => text(&entry["id"]),
            _ => text(&entry["sessionId"]),
        }?;
        if entry["isSidechain"] != true {
            return Some(named);
        }
        let agent = text(&entry["agentId"]).unwrap_or_else(|| self.chain(entry));
        Some(format!("{named}/{agent}"))
    }

    /// A name for the subagent of an unnamed entry.
    ///
    /// Older versions of Claude Code write the turns of all subagents into the session's own file, each
    /// chained to the previous one.
    fn chain(&mut self, entry: &Json) -> String {
        let uuid = entry["uuid"].as_str().unwrap_or_default();
        let parent = entry["parentUuid"].as_str().map(hash);
        let root = parent.and_then(|parent| self.chains.get(&parent)).copied();
        let root = root.unwrap_or_else(|| {
            self.roots.push(uuid.chars().take(CHAIN_NAME).collect());
            self.roots.len() - 1
        });
        self.chains.insert(hash(uuid), root);
        self.roots[root].clone()
    }
}

impl Thread {
    /// Takes the directory, model, compaction and limits of an entry.
    fn surroundings(&mut self, entry: &Json, kind: &str) {
        let payload = &entry["payload"];
        let places = [entry, payload, &entry["message"]["path"]];
        let mut directories = places.iter().filter_map(|place| place["cwd"].as_str());
        let own = &mut self.session.directory;
        *own = own.take().or_else(|| directories.next().map(str::to_owned));
        if let Some(model) = payload["model"].as_str().filter(|_| kind == "turn_context") {
            model.clone_into(&mut self.model);
        }
        let is_compaction = |name: &Json| name.as_str().is_some_and(|name| COMPACTIONS.contains(&name));
        self.since.compacted |= is_compaction(&entry["type"]) || is_compaction(&entry["subtype"]);
        let limits = &payload["rate_limits"];
        if let Some(plan) = limits["plan_type"].as_str() {
            let used = limits["primary"]["used_percent"].as_f64();
            let own = self.session.subscription.get_or_insert_default();
            plan.clone_into(&mut own.plan);
            // The percentage falls when the limit's window restarts, so only increases count as use.
            if let Some(now) = used {
                let last = own.last.replace(now).unwrap_or(now);
                own.percent = Some(own.percent.unwrap_or_default() + (now - last).max(0.0));
            }
        }
    }

    /// Reads the usage of a call, if the entry has one.
    fn usage(&mut self, entry: &Json) {
        let at_ms = time_of(entry);
        let Some(usage) = yaml::usage(entry) else { return };
        let sum = entry["payload"]["info"]["total_token_usage"]["total_tokens"].as_u64();
        if sum.is_some_and(|sum| std::mem::replace(&mut self.total, sum) == sum) {
            return;
        }
        let names = [&entry["requestId"], &entry["uuid"]];
        let named = || names.iter().find_map(|name| name.as_str());
        let id = usage.id.as_deref().or_else(named).map_or(0, hash);
        if id != 0 && !self.seen.insert(id) {
            // Agents write a response again as it grows. Only the last call can still grow, so an older id is a copy.
            if let Some(last) = self.session.calls.last_mut().filter(|last| last.id == id) {
                last.counts = usage.counts;
            }
            return;
        }
        let model = usage.model.unwrap_or_else(|| self.model.clone());
        let model = self.session.model_index(&model, usage.service.as_deref());
        self.since.rounds = usage.rounds;
        self.push(id, model, usage.counts, at_ms);
    }

    fn push(&mut self, id: u64, model: u16, counts: TokenCounts, at_ms: Option<u64>) {
        let mut call = std::mem::take(&mut self.since);
        (call.id, call.model, call.counts) = (id, model, counts);
        let times = [Some(self.asked_ms).filter(|ms| *ms > 0), at_ms];
        let last = self.session.calls.last().map_or(0, |call| call.at_ms);
        // Entries may be out of order. A call never precedes the previous one, or the pause between them would be
        // negative.
        call.at_ms = times.into_iter().flatten().min().unwrap_or_default().max(last);
        call.answered_ms = at_ms.unwrap_or(call.at_ms);
        self.session.calls.push(call);
    }

    /// Estimates the usage of goose's calls.
    ///
    /// goose records the sums of a session, and its last input. Two unknowns, the tokens of the prefix and
    /// per byte, follow from these and from the bytes of each call.
    fn estimate(&mut self, sums: &Json) {
        let number = |key: &str| sums[key].as_u64().unwrap_or_default();
        let (all, last, output) = (number("all_input"), number("last_input"), number("all_output"));
        let calls = &mut self.session.calls;
        let count = calls.len() as u64;
        if all == 0 || last == 0 || count == 0 {
            calls.clear();
            return;
        }
        let added = |call: &RecordedCall| (call.said + call.results) as f64;
        // Bytes added after each call.
        let mut behind: Vec<f64> = calls.iter().skip(1).map(added).chain([0.0]).collect();
        for at in (1..behind.len()).rev() {
            behind[at - 1] += behind[at];
        }
        // If each call had the last input, the sum would be `count * last`. The difference is the input added later.
        let missing: f64 = behind.iter().sum();
        let grown = (count * last).saturating_sub(all) as f64 / missing.max(1.0);
        for (call, behind) in calls.iter_mut().zip(behind) {
            call.counts.input = last.saturating_sub((grown * behind) as u64);
            call.counts.output = output / count;
        }
        self.session.estimated = true;
        self.session.models = vec![(sums["model"].as_str().unwrap_or_default().to_owned(), None)];
    }

    fn messages(&mut self, messages: &[SessionMessage], tags: &[String]) {
        for message in messages {
            self.session.agent = message.agent.or(self.session.agent);
            let text = message.message.to_string();
            let turn = TranscriptTurn::alone(text.as_bytes(), message.role());
            let settings = SpeakerSettings::tagged(tags);
            for said in said(&mut self.speakers, &settings, &turn) {
                let part = &said.part;
                match part.kind {
                    TranscriptPartKind::Text(_) => self.text(&said),
                    TranscriptPartKind::Call(call) => self.call(&call),
                    TranscriptPartKind::Result(result) => {
                        let bytes = part.texts().iter().map(|text| text.raw().len() as u64).sum();
                        let id = result.call.map_or(0, |id| hash(&id.get()));
                        self.result(id, bytes, result.error == Some(true));
                    }
                    _ => {}
                }
            }
        }
    }

    fn text(&mut self, said: &SaidPart<'_>) {
        self.since.said = self.since.said.saturating_add(said.text.len() as u64);
        // A user may quote such a line. Only in the model's text does it stand at the beginning of a line.
        let is_models = said.spoken.is_empty();
        self.session.behind_baton |= is_models && said.text.lines().any(|line| line.starts_with(HANDOFF));
        let own = said.users_words();
        if own.is_empty() {
            return;
        }
        if self.session.title.is_empty() {
            self.session.title = one_line(&own, TITLE);
        }
        self.since.user = true;
        // The task ended before this text: the user speaks again after a finished list.
        self.since.finished |= self.is_finished();
        self.was_finished |= self.since.finished;
    }

    fn call(&mut self, call: &ToolCall<'_>) {
        let (name, arguments) = tools::called(call.named(), &call.given());
        let id = call.id.map_or(0, |id| hash(&id.get()));
        let kind = ToolKind::from_call(&name, &arguments);
        if tools::PLANS.contains(&name.as_str()) {
            self.awaits(id, None);
        } else if kind == ToolKind::Todo {
            self.todos(&name, &arguments);
        } else if kind == ToolKind::Read || kind.changes() || kind == ToolKind::Editor {
            let command = tools::command(&arguments);
            for (path, change) in files::named(kind, &arguments, command.as_deref()) {
                let path = hash(&path);
                match change {
                    Some(_) => self.since.files.push((path, 0)),
                    None => self.awaits(id, Some(path)),
                }
            }
        }
    }

    fn awaits(&mut self, id: u64, what: Option<u64>) {
        // Drops the oldest, so that calls without a result cannot fill the list.
        newest::push(&mut self.awaited, AWAITED, (id, what));
    }

    fn result(&mut self, id: u64, bytes: u64, failed: bool) {
        self.since.results = self.since.results.saturating_add(bytes);
        // At least 1, because 0 stands for a change of the file.
        let tokens = u32::try_from(bytes / TOKEN_BYTES).unwrap_or(u32::MAX).max(1);
        let at = self.awaited.iter().position(|(call, _)| *call == id);
        match at.map(|at| self.awaited.remove(at).1) {
            // A rejected plan is reported as a failed call.
            Some(None) => self.since.plan |= !failed,
            Some(Some(path)) => self.since.files.push((path, tokens)),
            None => {}
        }
    }

    /// Whether the to-do list is finished, and the user has not spoken since.
    fn is_finished(&self) -> bool {
        !self.was_finished && self.todos.is_some_and(|(_, open)| open == 0)
    }

    fn todos(&mut self, name: &str, arguments: &Json) {
        let list = todo::list(arguments);
        let before = self.todos.map_or(0, |(done, _)| done);
        let (done, open) = self.todos.unwrap_or_default();
        let state = todo::state_of_one(arguments);
        self.todos = match state {
            Some(TodoState::Done | TodoState::Cancelled) => Some((done + 1, open.saturating_sub(1))),
            None if !list.is_empty() => {
                let count = |is: fn(&TodoItem) -> bool| list.iter().filter(|item| is(item)).count() as u32;
                let done = count(|item| item.state == TodoState::Done);
                let counted = (done, count(|item| item.state.is_open()));
                self.since.steps = Some(counted);
                Some(counted)
            }
            // Claude Code's newer tool adds a single item.
            None if name == "TaskCreate" => Some((done, open + 1)),
            _ => self.todos,
        };
        let now = self.todos.map_or(0, |(done, _)| done);
        self.since.step_done |= match list.is_empty() {
            true => state == Some(TodoState::Done),
            false => now > before,
        };
        // A new list begins another task.
        self.was_finished &= self.todos.is_some_and(|(_, open)| open == 0);
    }
}

/// When an entry was written, in milliseconds since the Unix epoch.
fn time_of(entry: &Json) -> Option<u64> {
    let millis = [&entry["message"]["time"]["created"], &entry["ts"]];
    if let Some(ms) = millis.iter().find_map(|value| value.as_u64()) {
        return Some(ms);
    }
    let time = Time::parse(entry["timestamp"].as_str()?)?;
    let ms = u64::try_from(time.seconds.checked_mul(1000)?).ok()?;
    ms.checked_add((time.nanos / 1_000_000).into())
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    // 0 stands for no id.
    hasher.finish().max(1)
}

impl SessionMessage {
    pub(super) fn is_models(&self) -> bool {
        let kind = self.message["type"].as_str().unwrap_or_default();
        self.role() == Role::Assistant || kind.ends_with("_call") || kind == "reasoning"
    }

    pub(super) fn role(&self) -> Role {
        match self.message["role"].as_str() {
            Some("assistant" | "model") => Role::Assistant,
            Some("system" | "developer") => Role::System,
            Some("user" | "tool") => Role::User,
            _ => Role::Other,
        }
    }
}

/// Reads the entries of a session around a cut.
#[derive(Debug, Default)]
pub struct MissedReader {
    repeated: RepeatedLookUps,
    answers: usize,
}

impl MissedReader {
    /// Takes an entry of the session, from before or after the cut.
    pub fn entry(&mut self, entry: &Json, is_before: bool) {
        // Later look-ups are no longer a consequence of the cut.
        if self.answers > REQUESTS {
            return;
        }
        let messages = yaml::messages(entry);
        self.answers += usize::from(!is_before && messages.iter().any(yaml::SessionMessage::is_models));
        for message in messages {
            let text = message.message.to_string();
            let turn = TranscriptTurn::alone(text.as_bytes(), message.role());
            self.repeated.turn(&turn, is_before);
        }
    }

    /// Files read again and commands run again within the next requests that this prompt does not name.
    pub fn beyond(self, prompt: &str) -> Vec<String> {
        let is_named = |text: &String| {
            // A prompt may name a file without its directories.
            let name = text.rsplit('/').next().unwrap_or(text);
            prompt.contains(name.trim_matches('`'))
        };
        let again = self.repeated.again.into_iter();
        again.filter(|text| !is_named(text)).collect()
    }
}
