//! Facts that the proxy observed in calls and results, as opposed to statements about them.
//!
//! Few certain facts rather than many uncertain ones: a fact is stated where a call, its result and the tables of `agents`
//! prove it. An exit code that no result states is unknown, and so is whether a run is stale once a command ran after
//! it that may have changed files.

mod changed_files;
mod claims;
mod repository;
mod runs;
mod value;
mod walk;
mod whereabouts;

pub use claims::{ClaimStatus, SeenClaim};
pub use value::{
    SeenChange, SeenCommand, SeenFacts, SeenFailure, SeenStatement, SeenVerification, VerdictFile,
};
pub use whereabouts::Whereabouts;

use self::walk::TranscriptWalk;
use super::excerpt::{one_line, sentences};
use super::facts::DraftFacts;
use super::index::DraftIndex;
use super::markers::SentenceClass;
use super::message::{IndexedItem, IndexedResult};
use super::reader::DraftIndexSettings;
use super::todos;
use super::turns::{self, IndexedTurn, TurnEnd, claims_done};
use crate::agents::wordings::UserText;
use crate::handoffs::newest;
use crate::transcript::Transcript;

/// Bytes of a sentence.
const SENTENCE: usize = 280;

/// Sentences of a kind that are kept, the newest ones: each assumption is checked against all later results.
const SENTENCES: usize = 40;

impl SeenFacts {
    /// What the calls of a transcript prove, and which requests were finished: without quotations of results and without
    /// sentences, which take most of the time of an index.
    pub fn of_work(settings: DraftIndexSettings, transcript: &Transcript<'_>) -> Self {
        let settings = DraftIndexSettings {
            quotes: false,
            ..settings
        };
        let index = DraftIndex::from_transcript(settings, transcript);
        index.work(
            &turns::of(&index.messages),
            &Whereabouts::from_transcript(transcript),
        )
    }
}

impl DraftIndex {
    fn work(&self, turns: &[IndexedTurn<'_>], whereabouts: &Whereabouts) -> SeenFacts {
        let mut walk = TranscriptWalk::new(whereabouts, &self.settings.verdicts);
        walk.all(&self.messages, turns);
        let todos = todos::newest(&self.messages, turns);
        SeenFacts {
            turns: turns.len(),
            todos: todos.map(|(_, todos)| todos.into_owned()).unwrap_or_default(),
            finished: finished(turns),
            ..walk.seen()
        }
    }

    /// What was seen in the messages of this index.
    pub fn seen(&self, whereabouts: &Whereabouts) -> SeenFacts {
        let facts = DraftFacts::from_index(self);
        let mut seen = self.work(&facts.turns, whereabouts);
        let secrets = facts.secrets.iter().map(|secret| {
            let path = whereabouts.relative(&secret.file.path);
            SeenStatement::new(secret.text(&path), secret.turn)
        });
        seen.secrets = secrets.collect();
        let of = |class: SentenceClass| {
            let found = facts.anchors.iter().filter(|(_, anchor)| anchor.class == class);
            let stated = found.map(|(turn, anchor)| SeenStatement::new(&anchor.text, *turn));
            let all: Vec<SeenStatement> = stated.collect();
            let newest = all.len().saturating_sub(SENTENCES);
            all.into_iter().skip(newest)
        };
        seen.decisions = of(SentenceClass::Decision).collect();
        seen.blockers = of(SentenceClass::Blocker).collect();
        seen.attempts = of(SentenceClass::DeadEnd).collect();
        seen.assumptions = of(SentenceClass::Assumption)
            .filter(|stated| !is_confirmed(&facts, stated))
            .collect();
        if let Some(last) = facts.turns.last().filter(|turn| turn.ended == TurnEnd::Question) {
            let reply = last.replies.last().into_iter();
            let open = reply.flat_map(|reply| sentences(&reply.text).filter(|s| s.trim_end().ends_with('?')));
            let open = open.map(|sentence| SeenStatement::new(one_line(sentence, SENTENCE), last.n));
            seen.questions.extend(open);
        }
        seen
    }
}

/// The requests that ended with words of the model's that all was done.
fn finished(turns: &[IndexedTurn<'_>]) -> Vec<SeenStatement> {
    let mut found: Vec<SeenStatement> = Vec::new();
    for turn in turns {
        let asked = turn.opening.iter().filter(|text| text.kind == UserText::User);
        for request in asked.filter(|text| text.text.len() <= SENTENCE) {
            let text = one_line(&request.text, SENTENCE);
            found.retain(|known| !known.text.eq_ignore_ascii_case(&text));
            let last = turn.replies.last().filter(|_| turn.ended == TurnEnd::Answered);
            if last.is_some_and(|reply| claims_done(&reply.text)) {
                newest::push(&mut found, SENTENCES, SeenStatement::new(text, turn.n));
            }
        }
    }
    found
}

/// Whether a later result that went well has most of an assumption's words.
fn is_confirmed(facts: &DraftFacts<'_>, stated: &SeenStatement) -> bool {
    let later = facts.turns.iter().filter(|turn| turn.n >= stated.turn);
    let messages = later.flat_map(|turn| turn.messages.clone());
    let mut items = messages.flat_map(|at| &facts.messages[at].items);
    items.any(|item| match item {
        IndexedItem::Result(IndexedResult { failed, lines, .. }) => {
            let text = lines.join("\n").to_lowercase();
            *failed == Some(false) && !text.is_empty() && super::keeps::holds(&text, &stated.text)
        }
        _ => false,
    })
}
