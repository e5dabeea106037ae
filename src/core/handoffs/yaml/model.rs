//! The document.

use std::collections::BTreeMap;

use super::fields::{Field, Mapping, MappingFields, mapping};
use super::names;
use super::names::{STATUS, VERSION};
use super::text::{one_line, shortened};
use super::time::Time;
use super::value::YamlValue;

/// Bytes of a request that is in for a goal.
const REQUEST_BYTES: usize = 200;

mapping! {
    /// A handoff file. Its members are in the order in which they are written. Texts may be empty, and are then left out
    /// except for those up to `test`; times are RFC 3339.
    HandoffFile {
        /// Version of the format.
        version: Text(String),
        /// The session that hands over: `[a-zA-Z0-9_-]+`, or empty for `general`.
        session: Text(String),
        /// `YYYY-MM-DD`.
        date: Text(String),
        /// When it was first written.
        created_at: Time(String),
        /// When it was last written.
        updated_at: Time(String),
        /// `complete`, `partial` or `blocked`.
        status: Text(String),
        /// `SUCCEEDED`, `PARTIAL_PLUS`, `PARTIAL_MINUS` or `FAILED`.
        outcome: Text(String),
        /// What the session accomplished.
        goal: Text(String),
        /// What the next session does first.
        now: Text(String),
        /// A command that verifies the work.
        test: Text(String),
        /// What was done.
        done_this_session: Inner(Vec<CompletedTask>),
        /// Blockers.
        blockers: Texts(Vec<String>),
        /// Open questions.
        questions: Texts(Vec<String>),
        /// What was decided, with the reason.
        decisions: Named(BTreeMap<String, String>),
        /// Findings.
        findings: Named(BTreeMap<String, String>),
        worked: Texts(Vec<String>),
        /// What did not.
        failed: Texts(Vec<String>),
        /// What comes next, in order.
        next: Texts(Vec<String>),
        /// Files that were touched.
        files: Inner(FileChanges),
        /// Tasks in progress, `id: title`.
        active_beads: Texts(Vec<String>),
        agent_mail_threads: Texts(Vec<String>),
        /// Memories, carried along from file to file.
        cm_memories: Texts(Vec<String>),
        /// Name of the agent.
        agent_id: GivenText(String),
        /// `cc`, `cod` or `gmi`.
        agent_type: GivenText(String),
        /// Its terminal pane.
        pane_id: GivenText(String),
        /// Tokens of its context in use.
        tokens_used: GivenWhole(i64),
        /// Size of its context in tokens.
        tokens_max: GivenWhole(i64),
        /// The share in use, 0 to 100.
        tokens_pct: GivenShare(f64),
        /// How good the file is.
        quality: Inner(Option<QualityReport>),
        /// Reservations of files that another agent may take over.
        reservation_transfer: Inner(Option<ReservationTransfer>),
    }
}

mapping! {
    /// A task that was done.
    CompletedTask {
        /// What it was.
        task: Text(String),
        /// The files it touched.
        files: Texts(Vec<String>),
    }

    /// A task that has no files is easily written as a text.
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
        /// New ones.
        created: Texts(Vec<String>),
        /// Changed ones.
        modified: Texts(Vec<String>),
        /// Those that are gone.
        deleted: Texts(Vec<String>),
    }
}

mapping! {
    /// Quality of a file as a starting point.
    QualityReport {
        /// 0 to 100: the mean of the dimensions.
        score: Whole(i64),
        /// `high`, `medium` or `low`.
        status: Text(String),
        /// When it was judged.
        scored_at: GivenTime(String),
        /// What it was judged by.
        dimensions: Inner(Vec<Dimension>),
        /// Codes of what is missing, as in `coverage.missing_goal`.
        reasons: Texts(Vec<String>),
        /// How to fix it.
        hints: Texts(Vec<String>),
    }
}

mapping! {
    /// One dimension of the quality.
    Dimension {
        /// `coverage`, `recency`, `actionability` or `traceability`.
        name: Text(String),
        score: Whole(i64),
        /// Codes of what is missing.
        reasons: Texts(Vec<String>),
        /// How to fix it.
        hints: Texts(Vec<String>),
    }
}

mapping! {
    /// Reservations of files that go from one agent to another.
    ReservationTransfer {
        /// Who holds them.
        from_agent: Text(String),
        /// The project, as Agent Mail knows it.
        project_key: Text(String),
        /// For how long they are reserved again; 0 for the default.
        ttl_seconds: GivenWhole(i64),
        /// Pause before the second try; 0 for the default.
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
        /// Whether it is exclusive.
        exclusive: Flag(bool),
        /// What it was reserved for.
        reason: GivenText(String),
        /// When it ends.
        expires_at: GivenTime(String),
    }
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

    /// Without words of the agent's own, what the user requested says what it was about. It does not count as done.
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

    /// The directory it belongs into.
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
