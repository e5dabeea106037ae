//! The YAML file of a handoff, from its document. The same document gives the same file.

use super::last_words::LastWords;
use super::model::{CompletedTask, FileChanges, HandoffFile};
use super::names;
use super::text::{one_line, shortened};
use super::text_rules::analyze;
use super::time::Time;
use crate::agents::files::FileChange;
use crate::agents::todo::TodoState;
use crate::handoffs::document::{HandoffDocument, NO_NEXT_ACTION, Severity};
use crate::handoffs::draft;
use crate::record::without_label;
use crate::work::lines::place;

/// Maximum number of items in a list. The limits only apply to the file, the document has everything.
const ITEMS: usize = 5;
/// Number of items that a chronological list keeps, the newest ones.
const NEWEST: usize = 3;
/// Maximum number of files for each kind of change.
const FILES: usize = 8;
/// Maximum size of an item in bytes.
const ITEM_BYTES: usize = 160;

/// Maximum size of the goal and of the next step in bytes.
const GOAL_BYTES: usize = 240;

impl HandoffFile {
    /// Converts a document to a file.
    pub fn of_document(document: &HandoffDocument) -> Self {
        let mut file = Self::headed(document);
        file.say(document);
        // From the last change back, so that the oldest ones are left out.
        let mut changed: Vec<_> = document.changed_files.iter().collect();
        changed.sort_by_key(|changed| (changed.turn, changed.call));
        let mut left_out = 0;
        for changed in changed.iter().rev() {
            match file.files.of(changed.change) {
                list if list.len() < FILES => list.insert(0, changed.path.clone()),
                _ => left_out += 1,
            }
        }
        if left_out > 0 {
            let count = left_out.to_string();
            file.findings.insert("files_left_out".to_owned(), count);
        }
        if let Some(context) = document.context {
            file.set_context(context.used, context.window);
        }
        // Otherwise a goal without blockers would be inferred as complete.
        if file.blockers.is_empty() && !is_finished(document) {
            file.status = names::STATUS[1].to_owned();
            file.outcome = names::OUTCOME[1].to_owned();
        }
        file.infer_status();
        if let Some(at) = Time::parse(&document.created_at) {
            file.prepare(at);
        }
        file
    }

    /// Fills empty members from a session.
    ///
    /// Sources, in this order: the model's last words by the text rules, the facts of its document, the user's last
    /// request.
    pub fn fill_from_session(&mut self, words: &LastWords, document: Option<&HandoffDocument>) {
        // The model's own account comes first; the facts then fill the rest.
        self.fill(analyze(&words.model));
        if let Some(document) = document {
            let mut facts = Self {
                // Goal and next step are the model's own, or fall back to the user's request.
                session: String::new(),
                goal: String::new(),
                now: String::new(),
                ..Self::of_document(document)
            };
            if draft::is_done(&document.prompt).is_none() || !self.blockers.is_empty() {
                // The status follows from the goal and the blockers below.
                facts.status.clear();
                facts.outcome.clear();
            }
            let mut failing = facts.blockers.clone();
            // Values of the file take precedence over facts. Failing checks remain blockers in any case.
            let own = std::mem::replace(self, facts);
            self.take(own);
            failing.retain(|check| !self.blockers.contains(check));
            self.blockers.append(&mut failing);
        }
        if self.now.is_empty() {
            let named = document.and_then(|document| document.next_action.as_ref());
            let named = named.map(|step| shortened(step, GOAL_BYTES));
            self.now = named.or(self.next.first().cloned()).unwrap_or_default();
        }
        let is_complete = document.is_some_and(|document| draft::is_done(&document.prompt) == Some(true));
        if self.now.is_empty() && is_complete {
            NO_NEXT_ACTION.clone_into(&mut self.now);
        }
        if self.agent_type.is_empty() {
            words.agent_type().clone_into(&mut self.agent_type);
        }
        self.infer_status();
        let goal = document.and_then(|document| draft::goal_of(&document.prompt));
        self.fall_back_to(goal.unwrap_or(&words.user));
    }

    /// Converts a document, and keeps every file that it names: for comparison with the repository, not for readers.
    pub fn of_whole_document(document: &HandoffDocument) -> Self {
        let mut file = Self::of_document(document);
        file.files = FileChanges::default();
        for changed in &document.changed_files {
            file.files.of(changed.change).push(changed.path.clone());
        }
        file
    }

    /// The header: session, goal and next step.
    fn headed(document: &HandoffDocument) -> Self {
        let mut directories = document.repository.rsplit(['/', '\\']);
        let session = directories
            .find(|name| !name.is_empty())
            .unwrap_or(&document.topic);
        let now = document.next_action.as_deref().unwrap_or(NO_NEXT_ACTION);
        Self {
            session: names::session_of(session),
            created_at: document.created_at.clone(),
            goal: shortened(&sentence(without_label(&document.summary)), GOAL_BYTES),
            now: shortened(&one_line(now), GOAL_BYTES),
            test: test(document),
            ..Self::default()
        }
    }

    /// Adds the finished and open work, the decisions and the findings.
    fn say(&mut self, document: &HandoffDocument) {
        let state = |state: TodoState| document.todo.iter().filter(move |todo| todo.state == state);
        let done = newest(state(TodoState::Done).map(|todo| &todo.text));
        self.done_this_session = done.into_iter().map(CompletedTask::new).collect();
        let risks = document.open_risks.iter();
        let blocks = risks.filter(|risk| risk.severity == Severity::Block);
        let blocks: Vec<&String> = blocks.map(|risk| &risk.detail).collect();
        self.blockers = newest(blocks.iter());
        self.questions = items(document.questions_for_human.iter().map(|question| &question.text));
        let open = state(TodoState::Active).chain(state(TodoState::Pending));
        self.next = items(open.map(|todo| match todo.state {
            TodoState::Active => format!("{} (in progress)", todo.text),
            _ => todo.text.clone(),
        }));
        // The summary is the goal of the next session, while this field is the result of this one.
        if !self.done_this_session.is_empty() {
            let done: Vec<_> = self
                .done_this_session
                .iter()
                .map(|done| done.task.as_str())
                .collect();
            self.goal = shortened(&done.join("; "), GOAL_BYTES);
        }
        let decisions = newest(document.decisions.iter().map(|decision| &decision.text));
        for (at, decision) in decisions.into_iter().enumerate() {
            // The format maps decisions to reasons. The number keeps their order in a sorted map.
            self.decisions.insert(format!("{:02}", at + 1), decision);
        }
        let runs = document.verification.iter();
        let passed = runs.filter(|run| run.has_passed() == Some(true) && run.stale != Some(true));
        self.worked =
            newest(passed.map(|run| format!("`{}` passed{}", run.command, place(run.turn, run.call))));
        // A failing check is listed once, as a blocker.
        let is_blocker = |tried: &str| blocks.iter().any(|block| block.contains(tried));
        let failed = document.failed_attempts.iter();
        let failed = failed.filter(|attempt| !is_blocker(&attempt.tried));
        self.failed = newest(failed.map(|attempt| match attempt.why.as_str() {
            "" => attempt.tried.clone(),
            why => format!("{}: {why}", attempt.tried),
        }));
        let doubtful = newest(document.doubtful_files.iter().map(|changed| &changed.path));
        for (name, value) in [
            ("handoff", document.id.to_string()),
            (names::DIRECTORY, document.repository.clone()),
            ("git_branch", document.branch.clone()),
            ("last_known_good_commit", document.last_known_good_commit.clone()),
            ("perhaps_changed", doubtful.join(", ")),
        ] {
            if !value.is_empty() {
                self.findings.insert(name.to_owned(), value);
            }
        }
    }
}

impl FileChanges {
    /// The list for this kind of change.
    pub(super) fn of(&mut self, change: FileChange) -> &mut Vec<String> {
        match change {
            FileChange::Created => &mut self.created,
            FileChange::Deleted => &mut self.deleted,
            _ => &mut self.modified,
        }
    }
}

/// Whether the transcript shows that the work is finished: no open to-do item, and no failure in the last run.
///
/// A draft without a model states whether it is; otherwise an item must be done.
fn is_finished(document: &HandoffDocument) -> bool {
    let has = |state| document.todo.iter().any(|todo| todo.state == state);
    let is_open = has(TodoState::Active) || has(TodoState::Pending);
    let is_done = draft::is_done(&document.prompt).unwrap_or_else(|| has(TodoState::Done));
    let last = document.verification.last();
    is_done && !is_open && last.is_none_or(|run| run.has_passed() == Some(true))
}

/// The command that verifies the work: the last one that passed, or else the last one.
fn test(document: &HandoffDocument) -> String {
    let runs = || document.verification.iter().rev();
    let last = runs()
        .find(|run| run.has_passed() == Some(true))
        .or_else(|| runs().next());
    last.map_or(String::new(), |run| {
        shortened(&one_line(&run.command), ITEM_BYTES)
    })
}

/// The first items of a list.
fn items<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> Vec<String> {
    lines(texts).take(ITEMS).collect()
}

/// The last items of a chronological list.
fn newest<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> Vec<String> {
    let mut all: Vec<_> = lines(texts).collect();
    all.split_off(all.len().saturating_sub(NEWEST))
}

fn lines<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> impl Iterator<Item = String> {
    let texts = texts.map(|text| shortened(&one_line(text.as_ref()), ITEM_BYTES));
    texts.filter(|text| !text.is_empty())
}

/// The first sentence of a paragraph.
fn sentence(text: &str) -> String {
    let text = one_line(text);
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    text[..end].to_owned()
}
