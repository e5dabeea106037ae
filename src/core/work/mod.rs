//! The single account of a transcript's work: statements, requests, the effects of calls, and how they ended.
//!
//! ```text
//! transcript ─► index (redacted, bounded) ─► turns, statements ─┐
//!                                       └──► one walk of the calls ─┴► Work
//! ```
//! Drafts, documents, YAML files and the block after a carry-over prompt all read it, so that none contradicts another.
//! The account prefers few certain facts to many uncertain ones. A fact is stated if a call, its result and the tables of
//! `agents` prove it. Otherwise it is reported as unknown: for example how a run without an exit code ended, or whether
//! a check still holds after a command that may have changed files.
//!
//! Must not depend on stores, clocks, git or the reader of the account.

mod anchors;
mod changed_files;
mod claims;
mod due;
pub(crate) mod excerpt;
mod failures;
mod index;
pub(crate) mod lines;
mod markers;
pub(crate) mod message;
pub(crate) mod reader;
pub(crate) mod replaced;
mod repository;
pub(crate) mod requests;
mod results;
mod runs;
pub(crate) mod said;
mod shell;
mod todos;
pub(crate) mod turns;
mod user;
mod value;
mod walk;
mod whereabouts;
pub(crate) mod words;

pub(crate) use anchors::{holds, is_kept};
pub use claims::{ClaimStatus, SeenClaim};
pub use index::DraftIndex;
pub use markers::assumptions;
pub(crate) use markers::{AnchoredSentence, SentenceClass};
pub use reader::DraftIndexSettings;
pub use todos::{finishes_item, todo_list};
pub use value::{
    CallEnd, SeenChange, SeenCommand, SeenEffect, SeenFacts, SeenFailure, SeenStatement, SeenVerification,
    VerdictFile,
};
pub use whereabouts::Whereabouts;

use std::borrow::Cow;

use self::anchors::{anchors, spoken};
use self::excerpt::{one_line, sentences};
use self::markers::SENTENCE;
use self::message::{IndexedCall, IndexedMessage};
use self::replaced::{SpokenText, Statements};
use self::turns::{IndexedTurn, TurnEnd, calls};
use self::walk::TranscriptWalk;
use crate::agents::wordings::UserText;
use crate::transcript::Transcript;

/// Maximum number of sentences per class; the newest are kept.
const MAX_SENTENCES: usize = 40;

/// Maximum number of reported kinds of credentials.
const MAX_KINDS: usize = 12;

/// The account of a transcript's work.
pub struct Work<'i> {
    pub(crate) messages: &'i [IndexedMessage],
    pub(crate) turns: Vec<IndexedTurn<'i>>,
    /// Index of the first turn of the current task.
    pub(crate) current: usize,
    /// For each turn, the index of the last one that continues it.
    ends: Vec<usize>,
    /// Whether the current task is finished.
    ///
    /// The model wrote that all is done, and neither a check nor a to-do list contradicts it.
    pub(crate) all_done: bool,
    /// Sentences to keep, oldest first, each with the number of its turn.
    pub(crate) anchors: Vec<(usize, Cow<'i, AnchoredSentence>)>,
    /// The statements, with those that later ones replaced.
    pub(crate) statements: Statements<'i>,
    /// Redacted credentials: their kind, and the number of the first turn.
    pub(crate) credentials: Vec<(String, usize)>,
    /// The facts of the calls, and the statements about them.
    pub(crate) facts: SeenFacts,
}

impl SeenFacts {
    /// Facts that the calls of a transcript prove, and the requests that were finished.
    ///
    /// Omits excerpts of results, the model's sentences, and marks on replaced sentences, which take most of the time.
    pub fn of_work(settings: DraftIndexSettings, transcript: &Transcript<'_>) -> Self {
        let settings = DraftIndexSettings {
            quotes: false,
            ..settings
        };
        DraftIndex::from_transcript(settings, transcript).seen()
    }
}

impl DraftIndex {
    /// Facts from the messages of this index.
    pub fn seen(&self) -> SeenFacts {
        Work::from_index(self).facts
    }
}

impl<'i> Work<'i> {
    /// The account of the messages of an index.
    pub fn from_index(index: &'i DraftIndex) -> Self {
        let messages = &index.messages[..];
        let turns = turns::of(messages);
        let current = requests::current(&turns);
        let mut walk = TranscriptWalk::new(index.whereabouts(), &index.settings.verdicts);
        walk.all(messages, &turns);
        let (facts, left_open) = walk.ended();
        let (todos_turn, todos) = todos::newest(messages, &turns).unwrap_or_default();
        let finished = requests::finished(&turns, &facts);
        let facts = SeenFacts {
            turns: turns.len(),
            todos_turn,
            todos,
            due_again: due::due_again(messages, &turns, &finished),
            finished,
            ..facts
        };
        // Only quotations need marks on replaced sentences.
        let statements = match index.settings.quotes {
            true => Statements::from_texts(&spoken(&turns)),
            false => Statements::default(),
        };
        let mut work = Self {
            messages,
            current,
            ends: requests::ends_of_requests(&turns),
            all_done: requests::is_all_done(&turns, current, &facts),
            anchors: anchors(&turns, &left_open, &statements),
            statements,
            credentials: credentials(messages, &turns),
            turns,
            facts,
        };
        // The answer to a question leaves earlier requests as they are.
        if work.all_done && requests::ends_with_question(&work.turns, &work.facts) {
            let is_done = work.earlier().all(|turn| work.is_done(turn));
            work.all_done = is_done;
        }
        work.add_statements();
        work
    }

    /// Adds the sentences about the work to its facts.
    fn add_statements(&mut self) {
        let of = |class: SentenceClass| {
            let found = self.anchors.iter().filter(|(_, anchor)| anchor.class == class);
            let stated = found.map(|(turn, anchor)| SeenStatement::new(&anchor.text, *turn));
            let mut all: Vec<SeenStatement> = stated.collect();
            all.split_off(all.len().saturating_sub(MAX_SENTENCES))
        };
        let facts = &mut self.facts;
        facts.decisions = of(SentenceClass::Decision);
        facts.blockers = of(SentenceClass::Blocker);
        facts.attempts = of(SentenceClass::DeadEnd);
        facts.assumptions = of(SentenceClass::Assumption);
        // Questions of earlier turns were answered, or the work continued without an answer.
        let last = self.turns.last().filter(|turn| turn.ended == TurnEnd::Question);
        let asked = last.and_then(|turn| Some((turn.n, turn.replies.last()?)));
        let asked = asked.into_iter().flat_map(|(turn, reply)| {
            let open = sentences(&reply.text).filter(|sentence| sentence.trim_end().ends_with('?'));
            open.map(move |sentence| SeenStatement::new(one_line(sentence, SENTENCE), turn))
        });
        let asked: Vec<SeenStatement> = asked.collect();
        let over = self.earlier().filter(|turn| self.is_done(turn));
        let over = over.flat_map(|turn| {
            self.sentences(turn)
                .0
                .into_iter()
                .map(|text| SeenStatement::new(text, turn.n))
        });
        self.facts.done_requests = over.collect();
        self.facts.questions.extend(asked);
    }

    /// The requests before the current task.
    pub(crate) fn earlier(&self) -> impl DoubleEndedIterator<Item = &IndexedTurn<'i>> {
        let turns = self.turns.iter().take(self.current);
        turns.filter(|turn| turn.is_from_user())
    }

    /// The requests of the current task.
    pub(crate) fn of_task(&self) -> impl DoubleEndedIterator<Item = &IndexedTurn<'i>> {
        let turns = self.turns.iter().skip(self.current);
        turns.filter(|turn| turn.is_from_user())
    }

    /// The user's words in a turn, verbatim, with marks on statements that a later one replaced.
    pub(crate) fn said(&self, turn: &IndexedTurn<'_>) -> String {
        self.marked(turn.n, &turn.user_text())
    }

    /// The last block of a turn's words that requests something: messages may have waited for the model.
    pub(crate) fn newest_said(&self, turn: &IndexedTurn<'_>) -> String {
        let blocks = turn
            .opening
            .iter()
            .rev()
            .filter(|block| block.kind == UserText::User);
        let newest = blocks
            .map(|block| &block.text)
            .find(|text| !requests::is_reply(text));
        newest.map_or_else(|| self.said(turn), |text| self.marked(turn.n, text))
    }

    /// The user's words with marks on statements that a later one replaced.
    fn marked(&self, turn: usize, text: &str) -> String {
        let said = SpokenText::new(turn, true, text);
        self.statements.marked(said).into_owned()
    }

    /// Whether a turn only reports a fault in a few sentences, without any wish, and the model then changed files.
    ///
    /// The report then counts as a request for a repair, which is done with the change.
    pub(crate) fn is_report(&self, turn: &IndexedTurn<'_>) -> bool {
        /// Maximum number of sentences of a report. More of them specify something.
        const MAX_REPORT_SENTENCES: usize = 3;
        let has_wish = |anchor: &AnchoredSentence| {
            let text = &anchor.text;
            anchor.class == SentenceClass::Asked || requests::is_personal(text)
        };
        let changes = |(_, _, call): (usize, usize, &IndexedCall)| call.kind.changes();
        self.users(turn).nth(MAX_REPORT_SENTENCES).is_none()
            && !self.users(turn).any(has_wish)
            && calls(self.messages, turn.messages.clone()).any(changes)
    }

    /// Whether the task is about the request directly before it.
    fn is_followed_up(&self, turn: &IndexedTurn<'_>) -> bool {
        let task = self.of_task().next().filter(|task| task.n == turn.n + 1);
        task.is_some_and(|task| requests::share_matter(task, turn))
    }

    /// The user's sentences in a turn that are not kept anyway: those that are over with it, and the others.
    ///
    /// A report that the task asks about is not over.
    pub(crate) fn sentences(&self, turn: &IndexedTurn<'_>) -> (Vec<&str>, Vec<&str>) {
        let is_report = self.is_report(turn) && !self.is_followed_up(turn);
        let (mut asked, mut said) = (Vec::new(), Vec::new());
        for anchor in self.users(turn).filter(|anchor| !is_kept(anchor)) {
            match is_report || anchor.class == SentenceClass::Asked {
                true => asked.push(&*anchor.text),
                false => said.push(&*anchor.text),
            }
        }
        (asked, said)
    }

    /// Whether an earlier request is done: the model answered it, and the user moved on to another subject.
    ///
    /// Nothing shows that a part of it is left. A request that the next message complains about belongs to the task.
    pub(crate) fn is_done(&self, turn: &IndexedTurn<'_>) -> bool {
        /// Minimum number of later requests, if nothing else shows that a request is done.
        const MOVED_ON: usize = 2;
        let last = &self.turns[self.ends[turn.n - 1]];
        let is_question = || requests::is_question(turn.user_text().to_lowercase().trim_end());
        let is_answered = || turn.ended == TurnEnd::Answered && (is_question() || !self.is_followed_up(turn));
        let next = self.turns.get(last.n);
        let is_put_off = || {
            last.ended == TurnEnd::Interrupted
                || next.is_some_and(|next| requests::postpones(&next.user_text()))
        };
        let has_moved_on = || !is_put_off() && (self.turns.len() - turn.n >= MOVED_ON || is_answered());
        (requests::is_reported_done(last, &self.facts) || has_moved_on())
            && !requests::is_unfinished(last, &self.facts)
    }

    /// Whether the user only asked in a turn, and stated nothing that outlives it.
    pub(crate) fn only_asks(&self, turn: &IndexedTurn<'_>) -> bool {
        let (asked, said) = self.sentences(turn);
        !asked.is_empty() && said.is_empty() && !self.users(turn).any(is_kept)
    }

    /// The sentences of the user in a turn.
    fn users(&self, turn: &IndexedTurn<'_>) -> impl Iterator<Item = &AnchoredSentence> {
        let (n, from) = (turn.n, self.anchors.partition_point(|(at, _)| *at < turn.n));
        let here = self.anchors[from..].iter().take_while(move |(at, _)| *at == n);
        here.map(|(_, anchor)| &**anchor).filter(|anchor| anchor.by_user)
    }

    /// Whether a turn belongs to the current task.
    pub(crate) fn is_current(&self, turn: usize) -> bool {
        turn > self.current
    }
}

/// The kinds of credentials that were redacted, each with the first turn that had one.
fn credentials(messages: &[IndexedMessage], turns: &[IndexedTurn<'_>]) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let mut take = |text: &str, turn: usize| {
        for (at, mark) in text.match_indices("[redacted:") {
            let kind = text[at + mark.len()..].split(']').next().unwrap_or_default();
            // A longer kind is not a mark of the redactor, but text that imitates one. A string that only looks random
            // may be no credential.
            let is_kind = kind.len() < 40 && kind != "entropy";
            if is_kind && found.len() < MAX_KINDS && !found.iter().any(|(known, _)| known == kind) {
                found.push((kind.to_owned(), turn));
            }
        }
    };
    for turn in turns {
        let spoken = turn.opening.iter().chain(&turn.replies);
        spoken.for_each(|spoken| take(&spoken.text, turn.n));
        calls(messages, turn.messages.clone()).for_each(|(_, _, call)| take(&call.about, turn.n));
    }
    found
}
