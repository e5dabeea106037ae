//! The conversation of one agent: its own history, and the expected view of the model.

use serde_json::{Value, json};

use super::agent_quirks::AgentQuirks;
use super::items::Item;
use super::oracle::Agent;
use super::view::{Opening, View};
use super::wires::WireProfile;
use crate::matrix::variants::Call;

/// A point that a user may rewind to.
#[derive(Debug, Clone)]
struct Snapshot {
    history: Vec<Value>,
    view: View,
    rules: Vec<String>,
    previous: Option<Held>,
}

/// The part of a history that the provider stores.
#[derive(Debug, Clone)]
struct Held {
    /// Id of the last response.
    id: String,
    /// Length of the history up to that response.
    len: usize,
}

/// A conversation.
#[derive(Clone)]
pub struct AgentConversation {
    pub name: usize,
    pub history: Vec<Value>,
    pub view: View,
    /// Whether the opening contains a prohibition.
    forbids: bool,
    /// Prohibitions of the user, oldest first.
    pub rules: Vec<String>,
    pub quirks: AgentQuirks,
    profile: WireProfile,
    snapshots: Vec<Snapshot>,
    /// Calls that the agent has to answer.
    calls: Vec<Call>,
    opening: Opening,
    /// Whether the history ends with a user message or a tool result.
    asked: bool,
    /// The last response, if the agent continues by its id.
    previous: Option<Held>,
    /// Whether the history contains an interrupted response and its repetition. An undo of both is not
    /// modelled.
    pub doubled: bool,
}

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

fn message(role: &str, blocks: &[Value]) -> Value {
    json!({"role": role, "content": blocks})
}

/// The opening that replaces `kind` on wires without it.
fn kind_on(profile: &WireProfile, kind: u8) -> u8 {
    let lists = profile.transcript != "messages";
    match kind {
        3 if profile.system.is_none() => 1,
        4 if lists => 1,
        1 if profile.traits.one_string => 4,
        3 if profile.traits.one_string => 5,
        kind => kind,
    }
}

/// A prohibition in the opening.
const FIRST_RULE: &str = "Never touch module 0.";

/// Openings of agents: without a preamble, or with one in blocks, in a message of its own, with a system
/// message after it, inside one string, or with the last two combined.
fn opening(kind: u8, forbids: bool) -> Opening {
    let ask = |ask: &str| match forbids {
        true => format!("{ask} {FIRST_RULE}"),
        false => ask.to_owned(),
    };
    let harness = text("<system-reminder>CLAUDE.md says: be brief.</system-reminder>");
    let begin = text(ask("Mend the importer."));
    let system = message("system", &[text("Environment: a test.")]);
    let first = message("user", &[harness.clone(), begin.clone()]);
    let mut out = Opening {
        counted: 1,
        ..Opening::default()
    };
    match kind {
        0 => out.messages = vec![message("user", &[begin])],
        1 => (out.messages, out.blocks) = (vec![first], vec![harness]),
        2 => {
            out.messages = vec![
                message("user", std::slice::from_ref(&harness)),
                message("user", &[begin]),
            ];
            out.before = vec![message("user", &[harness])];
        }
        3 => {
            out.messages = vec![first, system.clone()];
            (out.blocks, out.behind) = (vec![harness], vec![system]);
        }
        _ => {
            let both = format!("{}\n{}", harness["text"].as_str().unwrap(), ask("Mend it."));
            out.messages = vec![message("user", &[text(both)])];
            out.before = vec![message("user", &[harness])];
            if kind == 5 {
                out.messages.push(system.clone());
                out.behind = vec![system];
            }
        }
    }
    out
}

impl AgentConversation {
    pub fn new(profile: WireProfile, name: usize, kind: u8, forbids: bool, quirks: AgentQuirks) -> Self {
        let kind = kind_on(&profile, kind);
        let forbids = forbids && !quirks.stored();
        let opening = opening(kind, forbids);
        // In a string the preamble is found as text; in blocks it must fill its block.
        let strings = quirks.strings || kind == 4 && profile.traits.blocks;
        let text_first = quirks.text_first && !profile.traits.text_first && !profile.traits.apart;
        let references = quirks.references && profile.traits.apart;
        let chained = quirks.chained && profile.traits.apart;
        let trim = quirks.trim && (quirks.glue || !profile.traits.trims_joined);
        let quirks = AgentQuirks {
            strings,
            text_first,
            references,
            chained,
            trim,
            ..quirks
        };
        Self {
            name,
            history: Vec::new(),
            view: View::new(opening.clone()),
            forbids,
            rules: Vec::new(),
            quirks,
            profile,
            snapshots: Vec::new(),
            calls: Vec::new(),
            opening,
            asked: false,
            previous: None,
            doubled: false,
        }
    }

    /// The agent of this conversation.
    pub fn agent(&self) -> Agent {
        Agent {
            profile: self.profile,
            thoughts: !self.quirks.no_thoughts || self.quirks.chained,
            chained: self.quirks.chained,
            held: self.previous.is_some() && !self.is_pinned(),
            unordered: self.quirks.text_first || self.quirks.references,
        }
    }

    /// Headers that identify the conversation, if the agent sends any.
    pub fn session(&self) -> Vec<(&'static str, &'static str)> {
        if self.quirks.chained {
            // A request that continues by an id contains no opening to identify it by.
            return vec![("x-session-id", ["c0", "c1", "c2", "c3"][self.name])];
        }
        match (self.name, self.profile.traits.blocks) {
            (2, true) => vec![("x-claude-code-session-id", "s1")],
            (3, true) => vec![
                ("x-claude-code-session-id", "s1"),
                ("x-claude-code-agent-id", "a1"),
            ],
            (2, false) => vec![("x-session-id", "s1")],
            (3, false) => vec![("x-session-id", "s2")],
            _ => Vec::new(),
        }
    }

    pub fn begun(&self) -> bool {
        !self.history.is_empty()
    }

    /// Converts a message of the oracle to this wire.
    fn native(&self, message: &Value) -> Value {
        let blocks = message["content"].as_array().unwrap().iter();
        let texts: Vec<String> = blocks.map(|b| b["text"].as_str().unwrap().to_owned()).collect();
        match (message["role"].as_str(), self.profile.system) {
            (Some("system"), Some(system)) => system(&texts.concat()),
            _ => (self.profile.user)(&texts),
        }
    }

    fn open(&mut self, opening: &Opening) {
        self.history = opening.messages.iter().map(|m| self.native(m)).collect();
        self.asked = true;
        if self.forbids && self.states_rules() {
            self.rules.push(FIRST_RULE.to_owned());
        }
    }

    /// Adds the agent's next message: results of its calls, or a user message.
    pub fn ask(&mut self, says: u8, n: usize) {
        if !self.begun() {
            return self.open(&self.opening.clone());
        }
        let calls = std::mem::take(&mut self.calls);
        let answer = match says {
            2 => format!("See {n}:\n{}", self.quoted()),
            3 => format!("<system-reminder>later</system-reminder> {n}"),
            5 if self.states_rules() || self.is_subagent() => format!("Go on, {n}. Never touch module {n}."),
            _ => format!("Go on, {n}."),
        };
        let is_said = calls.is_empty() || matches!(says, 1 | 5);
        if calls.is_empty() {
            self.say(&answer);
        } else {
            self.answer(&calls, is_said.then_some(&answer));
        }
        if is_said && says == 5 && self.states_rules() {
            self.rules.push(format!("Never touch module {n}."));
        }
        if says == 4 {
            self.note(n);
        }
    }

    /// Whether each request contains all of the user's words, unchanged.
    fn states_rules(&self) -> bool {
        !self.is_subagent() && !self.quirks.stored()
    }

    /// Whether the user is another model, whose statements are not rules of the user.
    fn is_subagent(&self) -> bool {
        self.name == 3 && self.profile.traits.blocks
    }

    /// Adds a user message.
    pub fn say(&mut self, answer: &str) {
        self.snapshots.push(Snapshot {
            history: self.history.clone(),
            view: self.view.clone(),
            rules: self.rules.clone(),
            previous: self.previous.clone(),
        });
        self.calls.clear();
        self.history.push((self.profile.user)(&[answer.to_owned()]));
        self.view.user(&[text(answer)]);
        self.asked = true;
    }

    /// Whether the user may address baton now: the model has finished, and no call is pending.
    pub fn may_command(&self) -> bool {
        let lost = self.view.cut.is_some() && self.view.may_undo().is_none();
        let held = self.quirks.stored();
        self.begun() && !self.asked && self.calls.is_empty() && !lost && !held && !self.doubled
    }

    /// Adds a command to baton, which no view of the model contains.
    pub fn command(&mut self, command: &str) {
        self.snapshots.push(Snapshot {
            history: self.history.clone(),
            view: self.view.clone(),
            rules: self.rules.clone(),
            previous: self.previous.clone(),
        });
        self.history.push((self.profile.user)(&[command.to_owned()]));
    }

    /// Adds the results of calls, and a user message with them.
    fn answer(&mut self, calls: &[Call], answer: Option<&String>) {
        let read = format!(
            "It says\n[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\n{}",
            self.quoted()
        );
        let result = |(id, _): &Call| json!({"type": "tool_result", "tool_use_id": id, "content": read});
        let mut blocks: Vec<Value> = calls.iter().map(result).collect();
        self.history.extend((self.profile.variant.results)(calls, &read));
        if let Some(answer) = answer {
            self.history
                .push((self.profile.user)(std::slice::from_ref(answer)));
            blocks.push(text(answer));
        }
        self.view.user(&blocks);
        self.asked = true;
    }

    /// The last assistant text in the history. It may be a sentinel, because files and logs quote them.
    fn quoted(&self) -> String {
        let items = (self.profile.read)(&self.history);
        let found = items.into_iter().rev().find_map(|item| match item {
            Item::Model(text) if text.contains("[[handoff-resume:") => Some(text),
            _ => None,
        });
        found.unwrap_or_else(|| "nothing".to_owned())
    }

    /// The history as sent.
    pub fn sent(&self) -> Vec<Value> {
        let held = self.previous.as_ref().map_or(0, |held| held.len);
        (self.profile.alter)(self.quirks, &self.history[held..])
    }

    /// Body of a request.
    pub fn body(&self, stream: bool) -> Value {
        let mut body = (self.profile.variant.body)(&self.sent(), stream);
        if self.quirks.stored() {
            body["store"] = true.into();
        }
        if let Some(held) = &self.previous {
            body["previous_response_id"] = held.id.clone().into();
        }
        body
    }

    /// Whether the next request is cut at a handoff, and has the conversation's tools.
    pub fn is_pinned(&self) -> bool {
        let held = || self.view.later.iter().any(|m| m["role"] == "assistant");
        self.view.cut.is_some() && !(self.quirks.chained && held())
    }

    /// Records that the provider stores everything so far under this id.
    pub fn held_as(&mut self, id: String) {
        if self.quirks.chained {
            let len = self.history.len();
            self.previous = Some(Held { id, len });
        }
    }

    /// Appends the model's response to the history.
    pub fn keep(&mut self, messages: Vec<Value>, calls: Vec<Call>) {
        self.calls = calls;
        self.history.extend(messages);
        self.asked = false;
    }

    /// Appends the part of an interrupted response that arrived.
    pub fn keep_partial(&mut self, messages: Vec<Value>, view: View) {
        self.view = view;
        self.keep(messages, Vec::new());
    }

    /// Adds a system message for this turn, which the next cut removes.
    fn note(&mut self, n: usize) {
        let Some(system) = self.profile.system else { return };
        let note = format!("{n} tokens left");
        self.history.push(system(&note));
        self.view.later.push(message("system", &[text(note)]));
    }

    pub fn fork(&mut self, back: usize) {
        let Some(at) = self.snapshots.len().checked_sub(1 + back) else {
            return;
        };
        let snapshot = self.snapshots[at].clone();
        self.history = snapshot.history;
        self.view = snapshot.view;
        self.rules = snapshot.rules;
        self.previous = snapshot.previous;
        self.calls.clear();
        self.asked = false;
    }

    /// Lets the agent compact its history and start over.
    pub fn compact(&mut self, n: usize) {
        if !self.begun() {
            return;
        }
        let opening = Opening {
            messages: vec![message(
                "user",
                &[text(format!("Summary {n} of what went before."))],
            )],
            counted: 1,
            ..Opening::default()
        };
        self.open(&opening);
        (self.previous, self.rules) = (None, Vec::new());
        self.view = View::new(opening);
        self.calls.clear();
    }

    /// Whether the conversation does not need the store, because its transcript contains everything.
    pub fn stands_alone(&self) -> bool {
        !self.begun() || !self.quirks.stored() && self.view.stands_alone()
    }

    pub fn forget_dependent(&mut self) {
        let stored = self.quirks.stored();
        self.snapshots.retain(|s| !stored && s.view.stands_alone());
        self.view.forget_dependent();
        for snapshot in &mut self.snapshots {
            snapshot.view.forget_dependent();
        }
    }

    pub fn may_ask(&self) -> bool {
        !self.asked
    }
}
