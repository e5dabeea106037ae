//! The document.

use std::collections::BTreeMap;

use super::names;
use super::names::{STATUS, VERSION};
use super::text::{one_line, shortened};
use super::time::Time;
use super::value::YamlValue;

/// Bytes of a request that is in for a goal.
const REQUEST_BYTES: usize = 200;

/// A handoff file. Its members are in the order in which they are written. Texts may be empty, and are then left out
/// except for those up to `test`; times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HandoffFile {
    /// Version of the format.
    pub version: String,
    /// The session that hands over: `[a-zA-Z0-9_-]+`, or empty for `general`.
    pub session: String,
    /// `YYYY-MM-DD`.
    pub date: String,
    /// When it was first written.
    pub created_at: String,
    /// When it was last written.
    pub updated_at: String,
    /// `complete`, `partial` or `blocked`.
    pub status: String,
    /// `SUCCEEDED`, `PARTIAL_PLUS`, `PARTIAL_MINUS` or `FAILED`.
    pub outcome: String,
    /// What the session accomplished.
    pub goal: String,
    /// What the next session does first.
    pub now: String,
    /// A command that verifies the work.
    pub test: String,
    /// What was done.
    pub done_this_session: Vec<CompletedTask>,
    /// Blockers.
    pub blockers: Vec<String>,
    /// Open questions.
    pub questions: Vec<String>,
    /// What was decided, with the reason.
    pub decisions: BTreeMap<String, String>,
    /// Findings.
    pub findings: BTreeMap<String, String>,
    pub worked: Vec<String>,
    /// What did not.
    pub failed: Vec<String>,
    /// What comes next, in order.
    pub next: Vec<String>,
    /// Files that were touched.
    pub files: FileChanges,
    /// Tasks in progress, `id: title`.
    pub active_beads: Vec<String>,
    pub agent_mail_threads: Vec<String>,
    /// Memories, carried along from file to file.
    pub cm_memories: Vec<String>,
    /// Name of the agent.
    pub agent_id: String,
    /// `cc`, `cod` or `gmi`.
    pub agent_type: String,
    /// Its terminal pane.
    pub pane_id: String,
    /// Tokens of its context in use.
    pub tokens_used: i64,
    /// Size of its context in tokens.
    pub tokens_max: i64,
    /// The share in use, 0 to 100.
    pub tokens_pct: f64,
    /// How good the file is.
    pub quality: Option<QualityReport>,
    /// Reservations of files that another agent may take over.
    pub reservation_transfer: Option<ReservationTransfer>,
    /// Keys that the format does not know, as they were read.
    pub extra: Vec<(String, YamlValue)>,
}

/// A task that was done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompletedTask {
    /// What it was.
    pub task: String,
    /// The files it touched.
    pub files: Vec<String>,
    /// Unknown keys.
    pub extra: Vec<(String, YamlValue)>,
}

impl CompletedTask {
    /// A task without files.
    pub fn new(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            ..Self::default()
        }
    }
}

/// Files that a session touched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileChanges {
    /// New ones.
    pub created: Vec<String>,
    /// Changed ones.
    pub modified: Vec<String>,
    /// Those that are gone.
    pub deleted: Vec<String>,
    /// Unknown keys.
    pub extra: Vec<(String, YamlValue)>,
}

/// Quality of a file as a starting point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QualityReport {
    /// 0 to 100: the mean of the dimensions.
    pub score: i64,
    /// `high`, `medium` or `low`.
    pub status: String,
    /// When it was judged.
    pub scored_at: String,
    /// What it was judged by.
    pub dimensions: Vec<Dimension>,
    /// Codes of what is missing, as in `coverage.missing_goal`.
    pub reasons: Vec<String>,
    /// How to fix it.
    pub hints: Vec<String>,
    /// Unknown keys.
    pub extra: Vec<(String, YamlValue)>,
}

/// One dimension of the quality.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dimension {
    /// `coverage`, `recency`, `actionability` or `traceability`.
    pub name: String,
    pub score: i64,
    /// Codes of what is missing.
    pub reasons: Vec<String>,
    /// How to fix it.
    pub hints: Vec<String>,
    /// Unknown keys.
    pub extra: Vec<(String, YamlValue)>,
}

/// Reservations of files that go from one agent to another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReservationTransfer {
    /// Who holds them.
    pub from_agent: String,
    /// The project, as Agent Mail knows it.
    pub project_key: String,
    /// For how long they are reserved again; 0 for the default.
    pub ttl_seconds: i64,
    /// Pause before the second try; 0 for the default.
    pub grace_period_seconds: i64,
    /// When the list was made.
    pub created_at: String,
    pub reservations: Vec<ReservationSnapshot>,
    /// Unknown keys.
    pub extra: Vec<(String, YamlValue)>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReservationSnapshot {
    /// A path or a glob.
    pub path_pattern: String,
    /// Whether it is exclusive.
    pub exclusive: bool,
    /// What it was reserved for.
    pub reason: String,
    /// When it ends.
    pub expires_at: String,
    /// Unknown keys.
    pub extra: Vec<(String, YamlValue)>,
}

impl HandoffFile {
    /// A new file of a session.
    pub fn new(session: impl Into<String>, now: Time) -> Self {
        let mut file = Self {
            session: session.into(),
            ..Self::default()
        };
        file.prepare(now);
        file
    }

    /// Makes it ready to be written: defaults for what is empty, `updated_at` renewed, tokens within bounds.
    pub fn prepare(&mut self, now: Time) {
        if self.version.is_empty() {
            VERSION.clone_into(&mut self.version);
        }
        if self.created_at.is_empty() {
            self.created_at = now.rfc3339();
        }
        if self.date.is_empty() {
            let created = Time::parse(&self.created_at).unwrap_or(now);
            self.date = created.date();
        }
        self.updated_at = now.rfc3339();
        if (self.tokens_used, self.tokens_max) != (0, 0) {
            self.set_tokens(self.tokens_used, self.tokens_max);
        }
    }

    /// Sets the tokens in use, within 0 and the maximum, and their share. Without a maximum there is no share.
    pub fn set_tokens(&mut self, used: i64, max: i64) {
        self.tokens_max = max.max(0);
        self.tokens_used = match self.tokens_max {
            0 => used.max(0),
            max => used.clamp(0, max),
        };
        self.tokens_pct = match self.tokens_max {
            0 => 0.0,
            // Two decimals, as people read them.
            max => (self.tokens_used as f64 / max as f64 * 10_000.0).round() / 100.0,
        };
    }

    /// Sets the tokens of a model's context in use, and its window where that is known.
    pub fn set_context(&mut self, used: u64, window: Option<u64>) {
        let whole = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        self.set_tokens(whole(used), whole(window.unwrap_or_default()));
    }

    /// Sets status and outcome from what the file says: blockers, else a goal, else neither. A status that is set
    /// stays.
    pub fn infer_status(&mut self) {
        if !self.status.is_empty() {
            return;
        }
        let (status, outcome) = match (self.blockers.is_empty(), self.goal.is_empty()) {
            (false, _) => (STATUS[2], "PARTIAL_MINUS"),
            (true, false) => (STATUS[0], "SUCCEEDED"),
            (true, true) => (STATUS[1], "PARTIAL_PLUS"),
        };
        status.clone_into(&mut self.status);
        if self.outcome.is_empty() {
            outcome.clone_into(&mut self.outcome);
        }
    }

    /// Takes over the values of another file; values that it lacks stay.
    pub fn take(&mut self, given: Self) {
        fn take<T: Default + PartialEq>(place: &mut T, given: T) {
            if given != T::default() {
                *place = given;
            }
        }
        take(&mut self.session, given.session);
        take(&mut self.status, given.status);
        take(&mut self.outcome, given.outcome);
        take(&mut self.goal, given.goal);
        take(&mut self.now, given.now);
        take(&mut self.test, given.test);
        take(&mut self.agent_id, given.agent_id);
        take(&mut self.agent_type, given.agent_type);
        take(&mut self.pane_id, given.pane_id);
        take(&mut self.blockers, given.blockers);
        take(&mut self.questions, given.questions);
        take(&mut self.next, given.next);
        take(&mut self.done_this_session, given.done_this_session);
        self.decisions.extend(given.decisions);
    }

    /// Without words of the agent's own, what the person requested says what it was about. It does not count as done.
    pub fn fall_back_to(&mut self, request: &str) {
        let request = shortened(&one_line(request), REQUEST_BYTES);
        if request.is_empty() {
            return;
        }
        if self.goal.is_empty() {
            // Before the goal is there, or it would look complete.
            self.infer_status();
            self.goal = format!("Asked for: {request}");
        }
        if self.now.is_empty() {
            self.now = format!("Go on with: {request}");
        }
    }

    /// The folder it belongs into.
    pub fn session_name(&self) -> &str {
        names::session(&self.session)
    }

    /// Whether it names a blocker.
    pub fn is_blocked(&self) -> bool {
        self.status == STATUS[2]
    }

    /// How many files were touched.
    pub fn file_count(&self) -> usize {
        self.files.created.len() + self.files.modified.len() + self.files.deleted.len()
    }

    /// Every file that it names, each once, in order.
    pub fn paths(&self) -> Vec<&str> {
        let files = &self.files;
        let changed = files.created.iter().chain(&files.modified);
        let tasks = self.done_this_session.iter().flat_map(|task| &task.files);
        let mut seen = std::collections::HashSet::new();
        let all = changed.chain(tasks).map(String::as_str);
        all.filter(|path| !path.is_empty() && seen.insert(*path))
            .collect()
    }
}
