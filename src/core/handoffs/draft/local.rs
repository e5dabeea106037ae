//! The document that is made without a model: facts, composed. The same conversation makes the same bytes.

use super::excerpt::{one_line, sentences};
use super::facts::{CommandFact, DraftFacts};
use super::fill::{BudgetTooSmall, ChosenPiece, DraftPiece, PieceRank, fill, standing};
use super::keeps::{self, RetentionReason};
use super::markers::SentenceClass;
use super::message::IndexedResult;
use super::request::{DraftSection, DraftSpec};
use super::tokens::tokens;
use crate::agents::commands::CommandPurpose;
use crate::agents::files::FileChange;
use crate::agents::todo::TodoState;
use crate::text::words::plural;

/// The groups of lines, in order: their section, and what is above them.
const GROUPS: [(DraftSection, &str); 28] = [
    (DraftSection::Task, ""),
    (DraftSection::Task, "Steps:"),
    (DraftSection::Task, "In the person's words:"),
    (DraftSection::Task, "To-do list as last written:"),
    (DraftSection::Task, "What the model said last:"),
    (DraftSection::Context, ""),
    (DraftSection::Context, "The request before this goal, open:"),
    (DraftSection::Context, "The request before this goal, done:"),
    (
        DraftSection::Context,
        "To-do list before this goal, as last written:",
    ),
    (DraftSection::Context, "Constraints:"),
    (DraftSection::Context, "Decisions:"),
    (DraftSection::Context, "From an earlier session or summary:"),
    (DraftSection::Context, "Before this task the model ended with:"),
    (DraftSection::Operational, "Last runs:"),
    (DraftSection::Operational, "Failed, and not yet settled:"),
    (DraftSection::Operational, "Left behind by commands:"),
    (DraftSection::Operational, "Credentials (values are left out):"),
    (DraftSection::Operational, "Repository:"),
    (DraftSection::Files, ""),
    (DraftSection::Notes, "Blockers:"),
    (DraftSection::Notes, "Failed attempts:"),
    (DraftSection::Notes, "Still to be looked at:"),
    (DraftSection::Notes, "Taken for granted, not confirmed:"),
    (
        DraftSection::Notes,
        "Earlier requests. They are done; do not run them again:",
    ),
    (DraftSection::Read, ""),
    (DraftSection::Modified, ""),
    (DraftSection::Operational, "Commands that the person ran:"),
    (DraftSection::Context, "Facts that the person gave:"),
];

const GOAL: usize = 0;
const STEPS: usize = 1;
const WORDS: usize = 2;
const TODOS: usize = 3;
const LAST: usize = 4;
const STATE: usize = 5;
const REQUEST_OPEN: usize = 6;
const REQUEST_DONE: usize = 7;
const TODOS_BEFORE: usize = 8;
const CONSTRAINTS: usize = 9;
const DECISIONS: usize = 10;
const SUMMARIES: usize = 11;
const BEFORE: usize = 12;
const RUNS: usize = 13;
const FAILURES: usize = 14;
const LEFT: usize = 15;
const CREDENTIALS: usize = 16;
const REPOSITORY: usize = 17;
const FILES: usize = 18;
const BLOCKERS: usize = 19;
const DEAD_ENDS: usize = 20;
const LATER: usize = 21;
const ASSUMED: usize = 22;
const EARLIER: usize = 23;
const READ: usize = 24;
const MODIFIED: usize = 25;
const BY_PERSON: usize = 26;
const FACTS: usize = 27;

/// Bytes of an earlier request.
const LINE: usize = 160;

pub(super) fn document(
    facts: &DraftFacts<'_>,
    relevance: &[f32],
    request: &DraftSpec<'_>,
) -> Result<String, BudgetTooSmall> {
    let mut made = DraftBuilder {
        facts,
        relevance,
        request,
        pieces: Vec::new(),
    };
    made.state();
    made.kept();
    made.task();
    if request.commands {
        made.runs();
    }
    made.surroundings();
    made.files();
    made.notes();
    let header = |_: usize, group: usize| GROUPS[group].1.to_owned();
    let fixed = tokens(&rendered(&[]));
    let chosen = fill(made.pieces, fixed, request.tokens, &header)?;
    Ok(rendered(&chosen))
}

struct DraftBuilder<'m, 'i> {
    facts: &'m DraftFacts<'i>,
    relevance: &'m [f32],
    request: &'m DraftSpec<'m>,
    pieces: Vec<DraftPiece>,
}

impl DraftBuilder<'_, '_> {
    fn add(&mut self, group: usize, rank: PieceRank, turn: usize, full: String, short: Option<String>) {
        let section = GROUPS[group].0;
        let (age, meant) = standing(turn, self.facts.turns.len(), self.relevance);
        self.pieces.push(DraftPiece {
            at: (section as usize, group, self.pieces.len()),
            rank,
            score: self.request.preset.weight(section) * (1.0 + age + meant),
            full,
            short,
        });
    }

    fn must(&mut self, group: usize, turn: usize, text: String) {
        self.add(group, PieceRank::Must, turn, text, None);
    }

    /// Whether a turn is of the task that the document is for; a goal that the person gives begins another one.
    fn is_task(&self, turn: usize) -> bool {
        !self.request.has_goal() && self.facts.is_current(turn)
    }

    fn kept(&mut self) {
        for (keep, rank) in keeps::ranked(self.facts, self.request) {
            if keep.kept == RetentionReason::First {
                let began = |text: &str| format!("It began with (done): {}", indented(text));
                self.add(
                    STATE,
                    rank,
                    keep.turn,
                    began(&keep.full),
                    Some(began(&keep.short)),
                );
                continue;
            }
            let group = match keep.kept {
                RetentionReason::Task if self.is_task(keep.turn) => WORDS,
                RetentionReason::Task if self.facts.all_done => REQUEST_DONE,
                RetentionReason::Task | RetentionReason::First => REQUEST_OPEN,
                RetentionReason::Last if self.is_task(keep.turn) => LAST,
                RetentionReason::Last => BEFORE,
                RetentionReason::Sentence(SentenceClass::Decision) => DECISIONS,
                RetentionReason::Sentence(SentenceClass::Blocker) => BLOCKERS,
                RetentionReason::Sentence(SentenceClass::LeftOpen) => LATER,
                RetentionReason::Sentence(SentenceClass::Fact) => FACTS,
                RetentionReason::Sentence(_) => CONSTRAINTS,
                RetentionReason::Failure => FAILURES,
                RetentionReason::Summary => SUMMARIES,
            };
            let item = |text: &str| format!("- {} (turn {})", indented(text), keep.turn);
            self.add(group, rank, keep.turn, item(&keep.full), Some(item(&keep.short)));
        }
    }

    fn state(&mut self) {
        let count = self.facts.turns.len();
        let turns = plural(count as u64, "turn");
        let task = self.facts.of_task().next();
        let questions = task.map_or(String::new(), |turn| one_line(&self.facts.said(turn), LINE));
        let state = match self.facts.all_done {
            _ if self.request.has_goal() => format!("Before this goal: {turns}."),
            true if questions.is_empty() => format!("Nothing is open after {turns}."),
            true => format!("Nothing is open after {turns}; the last request was: {questions}"),
            false => format!("Under way after {turns}: {questions}"),
        };
        self.must(STATE, count, state);
    }

    fn task(&mut self) {
        if self.request.has_goal() {
            let step = format!("1. {}", one_line(self.request.focus, LINE));
            self.must(STEPS, self.facts.turns.len(), step);
        } else {
            self.stated_goal();
            self.steps();
        }
        let Some((turn, todos)) = self.facts.todos.clone() else {
            return;
        };
        let group = match self.request.has_goal() {
            true => TODOS_BEFORE,
            false => TODOS,
        };
        for todo in todos.iter() {
            let rank = match todo.state {
                TodoState::Active | TodoState::Pending if self.facts.is_current(turn) => PieceRank::Must,
                _ => PieceRank::Anchor,
            };
            let text = format!("- [{}] {}", todo.state.name(), one_line(&todo.text, LINE));
            self.add(group, rank, turn, text, None);
        }
    }

    /// The goal, where the person gives none: the last request.
    fn stated_goal(&mut self) {
        let goal = self.facts.of_task().next();
        let words = goal.map(|turn| self.facts.said(turn)).unwrap_or_default();
        let sentence = sentences(&words)
            .next()
            .map_or(String::new(), |sentence| one_line(sentence, 300));
        let goal_turn = goal.map_or(0, |turn| turn.n);
        let goal = match (sentence.is_empty(), self.facts.all_done) {
            (true, _) => "Goal: none is stated; ask the person.".to_owned(),
            (false, true) => format!("Last goal (done): {sentence}"),
            (false, false) => format!("Goal (the last open request): {sentence}"),
        };
        self.must(GOAL, goal_turn, goal);
    }

    /// The to-do item that is under way, else the first pending one, else what the model says comes next.
    fn steps(&mut self) {
        if self.facts.all_done {
            return;
        }
        let (turn, todos) = self.facts.todos.clone().unwrap_or_default();
        let mut steps: Vec<String> = [TodoState::Active, TodoState::Pending]
            .iter()
            .flat_map(|state| todos.iter().filter(move |todo| todo.state == *state))
            .map(|todo| one_line(&todo.text, LINE))
            .collect();
        if !self.facts.is_current(turn) {
            steps.clear();
        }
        if steps.is_empty() {
            let last = self.facts.turns.last().and_then(|turn| turn.replies.last());
            let next = last
                .into_iter()
                .flat_map(|reply| sentences(&reply.text).filter(|s| names_next_step(s)));
            steps.extend(next.map(|sentence| one_line(sentence, LINE)).take(3));
        }
        if steps.is_empty() {
            let none = "No next step was recorded; look at the person's words and at what failed.";
            steps.push(none.to_owned());
        }
        let turns = self.facts.turns.len();
        for (at, step) in steps.iter().take(8).enumerate() {
            self.must(STEPS, turns, format!("{}. {step}", at + 1));
        }
    }

    fn runs(&mut self) {
        let facts = self.facts;
        for ran in &facts.runs {
            let shows = ran.purpose.verifies() || ran.purpose == CommandPurpose::Git;
            let is_known = ran.purpose != CommandPurpose::Script;
            let group = match (shows, ran.good) {
                (true, _) => RUNS,
                (false, _) if ran.by_person => continue,
                (false, Some(true)) if is_known => LEFT,
                (false, Some(true) | None) if !ran.effects.is_empty() => LEFT,
                _ => continue,
            };
            let line = ran_line(ran, group);
            let effects: String = ran.effects.iter().map(|line| format!("\n  > {line}")).collect();
            self.add(
                group,
                PieceRank::Anchor,
                ran.turn,
                format!("{line}{effects}"),
                Some(line),
            );
        }
        for run in &facts.person_runs {
            let ended = run.outcome.map_or("no result", IndexedResult::ended);
            let line = format!("- `{}`: {ended} (turn {})", run.call.about, run.turn);
            // The lines of an error are where it is listed as a failure.
            let outcome = run.outcome.filter(|outcome| !outcome.is_error());
            let lines = outcome.into_iter().flat_map(IndexedResult::shown);
            let listed: String = lines.map(|line| format!("\n  > {line}")).collect();
            let full = format!("{line}{listed}");
            self.add(BY_PERSON, PieceRank::Anchor, run.turn, full, Some(line));
        }
        for failure in facts.failures.iter().filter(|failure| !failure.is_run) {
            let line = failure.outcome.lines.first().map_or("", String::as_str);
            let (call, turn) = (failure.call, failure.turn);
            let text = format!("- {} {}: {line} (turn {turn})", call.name, call.about);
            self.add(DEAD_ENDS, PieceRank::Anchor, turn, text, None);
        }
    }

    fn surroundings(&mut self) {
        for secret in &self.facts.secrets {
            let text = format!("- {}", secret.text(&secret.file.path));
            self.add(CREDENTIALS, PieceRank::Anchor, secret.turn, text, None);
        }
        for (kind, turn) in &self.facts.credentials {
            let text = format!("- {kind}, first seen in turn {turn}");
            self.add(CREDENTIALS, PieceRank::Anchor, *turn, text, None);
        }
        let repository = self.request.repository.trim();
        if !repository.is_empty() {
            let text = format!("```\n{repository}\n```");
            self.must(REPOSITORY, self.facts.turns.len(), text);
        }
    }

    fn files(&mut self) {
        let facts = self.facts;
        for file in &facts.files {
            let Some(change) = file.change else {
                self.add(READ, PieceRank::Turn, file.turn, file.path.clone(), None);
                continue;
            };
            let rank = match facts.is_current(file.turn) {
                true => PieceRank::Anchor,
                false => PieceRank::Turn,
            };
            self.add(MODIFIED, rank, file.turn, file.path.clone(), None);
            let what = match change {
                FileChange::Created => "created",
                FileChange::Modified => "changed",
                FileChange::Deleted => "deleted",
                FileChange::Written => "written",
            };
            let plain = format!("- `{}` {what} in turn {}", file.path, file.turn);
            let why = file.why.as_ref().filter(|_| self.request.why);
            let full = why.map_or(plain.clone(), |why| format!("{plain}: {why}"));
            self.add(FILES, PieceRank::Turn, file.turn, full, Some(plain));
        }
    }

    fn notes(&mut self) {
        let facts = self.facts;
        for (turn, anchor) in &facts.anchors {
            let group = match anchor.class {
                SentenceClass::DeadEnd => DEAD_ENDS,
                SentenceClass::Later => LATER,
                SentenceClass::Assumption => ASSUMED,
                SentenceClass::Constraint
                | SentenceClass::Fact
                | SentenceClass::Decision
                | SentenceClass::Blocker
                | SentenceClass::LeftOpen => continue,
            };
            let text = format!("- {} (turn {turn})", anchor.text);
            self.add(group, PieceRank::Anchor, *turn, text, None);
        }
        for turn in facts.earlier() {
            let said = one_line(&facts.otherwise_said(turn), LINE);
            if !said.is_empty() {
                let text = format!("- {said} (turn {})", turn.n);
                self.add(EARLIER, PieceRank::Said, turn.n, text, None);
            }
        }
    }
}

fn ran_line(ran: &CommandFact, group: usize) -> String {
    let how = match (group == LEFT, ran.good) {
        (true, Some(_)) => ran.purpose.leaves().unwrap_or("ran"),
        (true, None) => "ran, exit code unknown",
        (false, Some(true)) => "passed",
        (false, Some(false)) => "FAILED",
        (false, None) => "ended in a way that is not known",
    };
    let stale = match ran.stale && ran.purpose.verifies() {
        true => "; files changed after it",
        false => "",
    };
    format!("- `{}`: {how} (turn {}{stale})", ran.text, ran.turn)
}

fn names_next_step(sentence: &str) -> bool {
    const NEXT: [&str; 8] = [
        "next",
        "now i",
        "i'll",
        "i will",
        "let me",
        "remaining",
        "then i",
        "todo",
    ];
    let small = sentence.to_lowercase();
    NEXT.iter().any(|word| small.contains(word))
}

/// A text of several lines as one item of a list.
fn indented(text: &str) -> String {
    text.trim().replace('\n', "\n  ")
}

/// The document of these lines. All sections are there, also without lines.
fn rendered(chosen: &[ChosenPiece]) -> String {
    let mut out = String::new();
    for section in DraftSection::ALL {
        let (open, close) = section.marks();
        out.push_str(open);
        out.push('\n');
        let mut group = usize::MAX;
        let lines = chosen.iter().filter(|line| line.at.0 == section as usize);
        for line in lines {
            if line.at.1 != group {
                group = line.at.1;
                let above = GROUPS[group].1;
                if !above.is_empty() {
                    out.push_str(&format!("\n{above}\n"));
                }
            }
            out.push_str(&line.text);
            out.push('\n');
        }
        if !close.is_empty() {
            out.push_str(close);
            out.push('\n');
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
