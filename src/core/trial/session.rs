//! Recorded sessions. A call that several records contain counts once.

use std::collections::HashSet;

use serde::{Serialize, Serializer};

use crate::bill::TokenCounts;
use crate::transcript::AgentKind;

/// A session of an agent, as its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RecordedSession {
    #[serde(serialize_with = "agent_name")]
    pub agent: Option<AgentKind>,
    /// The agent's id of the session. A subagent's name follows after a `/`.
    pub id: String,
    /// The session's directory, if recorded.
    pub directory: Option<String>,
    /// The beginning of the user's first text.
    pub title: String,
    /// Models with the service that their price depends on; calls have an index into these.
    #[serde(skip)]
    pub models: Vec<(String, Option<String>)>,
    /// Calls in the order of the record.
    #[serde(skip)]
    pub calls: Vec<RecordedCall>,
    pub subscription: Option<SubscriptionUse>,
    /// Leading calls that another record has as well.
    #[serde(skip)]
    pub copied: usize,
    /// Whether the session ends with a finished to-do list.
    #[serde(skip)]
    pub ends_finished: bool,
    /// Whether the session ran through baton, as handoffs in it or the journal show.
    pub behind_baton: bool,
    /// Whether calls have no usage, and their sizes are estimated from the session's sums.
    pub estimated: bool,
}

/// A request to a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedCall {
    /// Hash of the id, which is the same in every record; 0 without an id.
    pub id: u64,
    /// Number of the record, from 0.
    pub source: u32,
    /// Number of the entry in the record, from 0.
    pub entry: u32,
    /// When the call was sent, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// When the response was written.
    pub answered_ms: u64,
    pub model: u16,
    pub counts: TokenCounts,
    /// Bill of the provider's own rounds before the answer.
    pub rounds: TokenCounts,
    /// Whether the user spoke since the previous call.
    pub user: bool,
    /// Whether a to-do list was finished before the user spoke.
    pub finished: bool,
    /// Whether the user accepted a plan since the previous call.
    pub plan: bool,
    /// Whether the previous call finished a step of a to-do list.
    pub step_done: bool,
    /// Numbers of finished and of open items, if the previous call wrote a whole to-do list.
    pub steps: Option<(u32, u32)>,
    /// Whether the agent compacted since the previous call.
    pub compacted: bool,
    /// The request of that compaction, if recorded.
    pub compaction: Option<Box<Self>>,
    /// Whether shadow mode would have handed over here.
    pub handoff: bool,
    /// Bytes of messages since the previous call.
    pub said: u64,
    /// Bytes of results since the previous call.
    pub results: u64,
    /// Files that were read or changed since the previous call: hash of the path, and tokens read, or 0 for a change.
    pub files: Vec<(u64, u32)>,
}

/// The share of a subscription's limits that a session used, if recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SubscriptionUse {
    pub plan: String,
    /// Total percentage of the limit of the shortest window; `None` if the record has no limits.
    pub percent: Option<f64>,
    /// The last recorded percentage of the limit.
    #[serde(skip)]
    pub last: Option<f64>,
}

fn agent_name<S: Serializer>(agent: &Option<AgentKind>, serializer: S) -> Result<S::Ok, S::Error> {
    agent.map(AgentKind::name).serialize(serializer)
}

impl RecordedCall {
    /// The requests of the call: the agent's compaction before it, if any, and the call itself.
    pub fn requests(&self) -> impl Iterator<Item = &Self> {
        self.compaction.as_deref().into_iter().chain([self])
    }
}

impl RecordedSession {
    /// Whether this is the session of a subagent.
    pub fn is_subagent(&self) -> bool {
        self.id.contains('/')
    }

    /// Id of the session itself: of a subagent, that of the session that started it.
    pub fn root(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// When the first call was sent, in milliseconds since the Unix epoch.
    pub fn started_ms(&self) -> u64 {
        self.calls.first().map_or(0, |call| call.at_ms)
    }

    /// The calls that no other session has.
    pub fn own(&self) -> &[RecordedCall] {
        self.calls.get(self.copied..).unwrap_or_default()
    }

    /// The agent's name.
    pub fn agent(&self) -> &'static str {
        self.agent.map_or("unknown", AgentKind::name)
    }

    /// The model of a call.
    pub fn model(&self, call: &RecordedCall) -> (&str, Option<&str>) {
        let known = self.models.get(usize::from(call.model));
        known.map_or(("", None), |(name, service)| (name.as_str(), service.as_deref()))
    }

    /// The model of most calls.
    pub fn main_model(&self) -> &str {
        let calls = self.calls.iter().map(|call| usize::from(call.model));
        let count = |at: usize| calls.clone().filter(|model| *model == at).count();
        let most = (0..self.models.len()).max_by_key(|at| (count(*at), usize::MAX - at));
        most.map_or("", |at| self.models[at].0.as_str())
    }

    fn join(&mut self, next: Self) {
        for mut call in next.calls {
            let (name, service) = next.models[usize::from(call.model)].clone();
            call.model = self.model_index(&name, service.as_deref());
            self.calls.push(call);
        }
        self.calls.sort_by_key(|call| call.at_ms);
        self.directory = self.directory.take().or(next.directory);
        if self.title.is_empty() {
            self.title = next.title;
        }
        self.subscription = self.subscription.take().or(next.subscription);
        self.ends_finished = next.ends_finished;
        self.behind_baton |= next.behind_baton;
    }

    /// The index of a model; adds it if it is new.
    pub fn model_index(&mut self, name: &str, service: Option<&str>) -> u16 {
        let is = |known: &(String, Option<String>)| known.0 == name && known.1.as_deref() == service;
        let at = self.models.iter().position(is).unwrap_or_else(|| {
            self.models.push((name.to_owned(), service.map(str::to_owned)));
            self.models.len() - 1
        });
        u16::try_from(at).unwrap_or(u16::MAX)
    }
}

/// Sorts sessions by time, and keeps each call in only one of them.
///
/// Forks and resumed sessions begin with copies of earlier calls. The result does not depend on the order of `all`.
pub fn counted_once(all: Vec<RecordedSession>) -> Vec<RecordedSession> {
    let mut sessions = joined(all);
    let key = |session: &RecordedSession| (session.started_ms(), session.calls.len(), session.id.clone());
    // The earliest and shortest session is the original; later ones have copies of its calls.
    sessions.sort_by_cached_key(key);
    let mut seen = HashSet::new();
    for session in &mut sessions {
        // The last copied call is kept, because it shows the length of the history that this session continues.
        let is_copied = |call: &&RecordedCall| call.id != 0 && seen.contains(&call.id);
        let last = session.calls.iter().take_while(is_copied).last().cloned();
        session.calls.retain(|call| call.id == 0 || seen.insert(call.id));
        session.copied = usize::from(last.is_some());
        session.calls.splice(..0, last);
    }
    sessions.retain(|session| !session.own().is_empty());
    attach_compactions(&mut sessions);
    sessions
}

/// First letters of the subagent's name that Claude Code gives to the request of a compaction.
const COMPACTION: &str = "acompact";

/// Attaches recorded requests of compactions to the first call that was answered after them.
fn attach_compactions(sessions: &mut Vec<RecordedSession>) {
    let is_compaction = |session: &mut RecordedSession| {
        let name = session.id.split_once('/').map_or("", |(_, name)| name);
        name.starts_with(COMPACTION)
    };
    let mut compactions: Vec<RecordedSession> = sessions.extract_if(.., is_compaction).collect();
    for compaction in &mut compactions {
        let agent = compaction.agent;
        let is_parent = |one: &&mut RecordedSession| one.id == compaction.root() && one.agent == agent;
        let Some(parent) = sessions.iter_mut().find(is_parent) else {
            continue;
        };
        let models = std::mem::take(&mut compaction.models);
        for mut request in compaction.calls.drain(compaction.copied..) {
            let (name, service) = &models[usize::from(request.model)];
            request.model = parent.model_index(name, service.as_deref());
            let own = parent.copied;
            let is_after = |call: &&mut RecordedCall| call.answered_ms >= request.answered_ms;
            let mut later = parent.calls.iter_mut().skip(own);
            // Each call takes one compaction. If none fits, the compaction becomes a call, so that its cost is not lost.
            match later.find(|call| is_after(call) && call.compaction.is_none()) {
                Some(call) => call.compaction = Some(Box::new(request)),
                None => parent.calls.push(request),
            }
        }
    }
    sessions.extend(compactions.into_iter().filter(|left| !left.own().is_empty()));
}

/// Joins sessions that are recorded in several files.
fn joined(mut all: Vec<RecordedSession>) -> Vec<RecordedSession> {
    all.sort_by_cached_key(|session| (session.agent(), session.id.clone(), session.started_ms()));
    let mut sessions: Vec<RecordedSession> = Vec::new();
    for next in all {
        match sessions.last_mut() {
            Some(last) if !next.id.is_empty() && last.id == next.id && last.agent == next.agent => {
                last.join(next)
            }
            _ => sessions.push(next),
        }
    }
    sessions
}
