//! The document.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::fields::{self, Field, Mapping, MappingFields, mapping};
use super::names::{self, STATUS, VERSION};
use super::text::{one_line, shortened};
use super::time::Time;
use super::value::YamlValue;
use crate::redact::{self, Redactor};

/// Maximum size of a request that replaces a goal, in bytes.
const REQUEST_BYTES: usize = 200;

mapping! {
    /// A handoff file.
    ///
    /// Members are declared in the order of the file. Empty strings are omitted after `test`. Times are RFC 3339.
    HandoffFile {
        /// Version of the format.
        version: Text(String),
        /// Name of the session that hands over: `[a-zA-Z0-9_-]+`, or empty for `general`.
        session: Text(String),
        /// Date of creation, `YYYY-MM-DD`.
        date: Text(String),
        /// When the file was first written.
        created_at: Time(String),
        /// When the file was last written.
        updated_at: Time(String),
        /// `complete`, `partial` or `blocked`.
        status: Text(String),
        /// `SUCCEEDED`, `PARTIAL_PLUS`, `PARTIAL_MINUS` or `FAILED`.
        outcome: Text(String),
        /// The result of the session.
        goal: Text(String),
        /// The first step of the next session.
        now: Text(String),
        /// A command that verifies the work.
        test: Text(String),
        /// Finished tasks.
        done_this_session: Inner(Vec<CompletedTask>),
        blockers: Texts(Vec<String>),
        /// Open questions.
        questions: Texts(Vec<String>),
        /// Decisions, each with its reason.
        decisions: Named(BTreeMap<String, String>),
        findings: Named(BTreeMap<String, String>),
        worked: Texts(Vec<String>),
        /// Attempts that did not work.
        failed: Texts(Vec<String>),
        /// Next steps, in order.
        next: Texts(Vec<String>),
        /// Files that the session touched.
        files: Inner(FileChanges),
        /// Tasks in progress, as `id: title`.
        active_beads: Texts(Vec<String>),
        agent_mail_threads: Texts(Vec<String>),
        /// Memories that are passed on from file to file.
        cm_memories: Texts(Vec<String>),
        /// Name of the agent.
        agent_id: GivenText(String),
        /// `cc`, `cod` or `gmi`.
        agent_type: GivenText(String),
        /// The agent's terminal pane.
        pane_id: GivenText(String),
        /// Tokens of the agent's context in use.
        tokens_used: GivenWhole(i64),
        /// Size of the agent's context in tokens.
        tokens_max: GivenWhole(i64),
        /// Percentage in use, 0 to 100.
        tokens_pct: GivenShare(f64),
        /// Quality of the file.
        quality: Inner(Option<QualityReport>),
        /// File reservations that another agent may take over.
        reservation_transfer: Inner(Option<ReservationTransfer>),
    }
}

mapping! {
    /// A finished task.
    CompletedTask {
        /// Description of the task.
        task: Text(String),
        /// Files that the task touched.
        files: Texts(Vec<String>),
    }

    /// Accepts a plain string, which is how a task without files is often written.
    fn of_text(text: &str) -> Option<Self> {
        Some(Self::new(text))
    }
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

mapping! {
    /// Files that a session touched.
    FileChanges {
        /// New files.
        created: Texts(Vec<String>),
        /// Changed files.
        modified: Texts(Vec<String>),
        /// Deleted files.
        deleted: Texts(Vec<String>),
    }
}

mapping! {
    /// Quality of a file as a starting point.
    QualityReport {
        /// Mean of the dimensions, 0 to 100.
        score: Whole(i64),
        /// `high`, `medium` or `low`.
        status: Text(String),
        /// When the file was rated.
        scored_at: GivenTime(String),
        /// Dimensions of the rating.
        dimensions: Inner(Vec<Dimension>),
        /// Codes of missing content, as in `coverage.missing_goal`.
        reasons: Texts(Vec<String>),
        /// How to fix each reason.
        hints: Texts(Vec<String>),
    }
}

mapping! {
    /// A dimension of the quality.
    Dimension {
        /// `coverage`, `recency`, `actionability` or `traceability`.
        name: Text(String),
        score: Whole(i64),
        /// Codes of missing content.
        reasons: Texts(Vec<String>),
        /// How to fix each reason.
        hints: Texts(Vec<String>),
    }
}

mapping! {
    /// File reservations that pass from one agent to another.
    ReservationTransfer {
        /// The agent that holds them.
        from_agent: Text(String),
        /// Agent Mail's key of the project.
        project_key: Text(String),
        /// Duration of the new reservations; 0 for the default.
        ttl_seconds: GivenWhole(i64),
        /// Pause before the second attempt; 0 for the default.
        grace_period_seconds: GivenWhole(i64),
        /// When the list was made.
        created_at: GivenTime(String),
        reservations: Inner(Vec<ReservationSnapshot>),
    }
}

mapping! {
    ReservationSnapshot {
        /// A path or a glob.
        path_pattern: Text(String),
        exclusive: Flag(bool),
        /// Purpose of the reservation.
        reason: GivenText(String),
        /// When the reservation ends.
        expires_at: GivenTime(String),
    }
}

impl HandoffFile {
    /// Prepares the file for writing: fills empty members with defaults, renews `updated_at` and bounds the tokens.
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

    /// Sets the tokens in use, between 0 and the maximum, and their percentage. Without a maximum it is 0.
    pub fn set_tokens(&mut self, used: i64, max: i64) {
        self.tokens_max = max.max(0);
        self.tokens_used = match self.tokens_max {
            0 => used.max(0),
            max => used.clamp(0, max),
        };
        self.tokens_pct = match self.tokens_max {
            0 => 0.0,
            // Two decimals are enough for a reader.
            max => (self.tokens_used as f64 / max as f64 * 10_000.0).round() / 100.0,
        };
    }

    /// Sets the tokens of a model's context in use, and the window if known.
    pub fn set_context(&mut self, used: u64, window: Option<u64>) {
        let whole = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        self.set_tokens(whole(used), whole(window.unwrap_or_default()));
    }

    /// Infers status and outcome from blockers or, if there are none, from a goal. An existing status is kept.
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
        // An outcome may be given without a status.
        if self.outcome.is_empty() {
            outcome.clone_into(&mut self.outcome);
        }
    }

    /// Takes over the values of another file. Values that it lacks are kept.
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

    /// Fills empty members with those that were found in prose. Existing values are kept.
    pub fn fill(&mut self, found: Self) {
        let own = self.clone();
        self.take(found);
        self.take(own);
    }

    /// Fills goal and next step from the user's request if the agent stated none. The request does not count as done.
    pub fn fall_back_to(&mut self, request: &str) {
        let request = shortened(&one_line(request), REQUEST_BYTES);
        if request.is_empty() {
            return;
        }
        if self.goal.is_empty() {
            // Infer the status before the goal is set: with a goal it would look complete.
            self.infer_status();
            self.goal = format!("Asked for: {request}");
        }
        if self.now.is_empty() {
            self.now = format!("Go on with: {request}");
        }
    }

    /// Redacts credentials in all strings, wherever they come from: arguments, the repository, other files.
    pub fn redact(&mut self, redactor: &Redactor) {
        let session = std::mem::take(&mut self.session);
        fields::redact(self, &|text| redactor.text(text).into_owned());
        self.session = match redactor.text(&session) {
            Cow::Borrowed(_) => session,
            // The name of a directory.
            Cow::Owned(redacted) => names::session_of(&redacted),
        };
    }

    /// Name of the session's directory.
    pub fn session_name(&self) -> &str {
        names::session(&self.session)
    }

    /// Whether the status is `blocked`.
    pub fn is_blocked(&self) -> bool {
        self.status == STATUS[2]
    }

    /// Number of touched files.
    pub fn file_count(&self) -> usize {
        self.files.created.len() + self.files.modified.len() + self.files.deleted.len()
    }

    /// All files that the document names, each once, in order. Redacted names are omitted, because no file has them.
    pub fn paths(&self) -> Vec<&str> {
        let files = &self.files;
        let changed = files.created.iter().chain(&files.modified);
        let tasks = self.done_this_session.iter().flat_map(|task| &task.files);
        let mut seen = std::collections::HashSet::new();
        let all = changed.chain(tasks).map(String::as_str);
        all.filter(|path| !path.is_empty() && !redact::is_marked(path) && seen.insert(*path))
            .collect()
    }
}
