//! The document that is made without a model: facts, composed. The same conversation makes the same bytes.

use super::anchors::is_kept;
use super::excerpt::{one_line, sentences};
use super::facts::{CommandFact, DraftFacts};
use super::fill::{BudgetTooSmall, ChosenPiece, DraftPiece, PieceRank, fill, standing};
use super::keeps::{self, RetentionReason};
use super::markers::SentenceClass;
use super::message::IndexedResult;
use super::request::{DraftSection, DraftSpec};
use super::tokens::tokens;
use super::turns;
use crate::agents::commands::CommandPurpose;
use crate::agents::files::FileChange;
use crate::agents::todo::TodoState;
use crate::text::words::plural;

/// The groups of lines by section: what is above them.
macro_rules! groups {
    ($($section:ident: $($name:ident $above:literal),+;)+) => {
        /// A group of lines, in the order of the document.
        #[derive(Clone, Copy, PartialEq)]
        enum LineGroup { $($($name),+),+ }

        const GROUPS: &[(DraftSection, &str)] = &[$($((DraftSection::$section, $above)),+),+];
    };
}

groups! {
    Task: Goal "", Steps "Steps:", Words "In the user's words:", Todos "To-do list as last written:",
        Last "What the model said last:";
    Context: State "",
        RequestOpen "The request before this goal, open:",
        RequestDone "The request before this goal, done:",
        TodosBefore "To-do list before this goal, as last written:",
        Constraints "Constraints:",
        Decisions "Decisions:",
        Summaries "From an earlier session or summary:",
        Before "Before this task the model ended with:",
        Facts "Facts that the user gave:";
    Operational: Runs "Last runs:",
        Failures "Failed, and not yet settled:",
        Left "Left behind by commands:",
        Credentials "Credentials (values are left out):",
        Repository "Repository:",
        ByUser "Commands that the user ran:";
    Files: Files "";
    Notes: Blockers "Blockers:",
        DeadEnds "Failed attempts:",
        Later "Still to be looked at:",
        Assumed "Taken for granted, not confirmed:",
        Earlier "Earlier requests. They are done; do not run them again:";
    Read: Read "";
    Modified: Modified "";
}

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
    let header = |group: usize| GROUPS[group].1.to_owned();
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
    fn add(&mut self, group: LineGroup, rank: PieceRank, turn: usize, full: String, short: Option<String>) {
        let (section, _) = GROUPS[group as usize];
        let (age, meant) = standing(turn, self.facts.turns.len(), self.relevance);
        self.pieces.push(DraftPiece {
            at: (group as usize, self.pieces.len()),
            rank,
            score: self.request.preset.weight(section) * (1.0 + age + meant),
            full,
            short,
        });
    }

    fn must(&mut self, group: LineGroup, turn: usize, text: String) {
        self.add(group, PieceRank::Must, turn, text, None);
    }

    /// Whether a turn is of the task that the document is for; a goal that the user gives begins another one.
    fn is_task(&self, turn: usize) -> bool {
        !self.request.has_goal() && self.facts.is_current(turn)
    }

    fn kept(&mut self) {
        for (keep, rank) in keeps::ranked(self.facts, self.request) {
            let group = match keep.kept {
                RetentionReason::First => LineGroup::State,
                RetentionReason::Task if self.is_task(keep.turn) => LineGroup::Words,
                RetentionReason::Task if self.facts.all_done => LineGroup::RequestDone,
                RetentionReason::Task => LineGroup::RequestOpen,
                RetentionReason::Last if self.is_task(keep.turn) => LineGroup::Last,
                RetentionReason::Last => LineGroup::Before,
                RetentionReason::Sentence(class) => group_of(class),
                RetentionReason::Failure => LineGroup::Failures,
                RetentionReason::Summary => LineGroup::Summaries,
            };
            let item = |text: &str| match keep.kept {
                RetentionReason::First => format!("It began with (done): {}", indented(text)),
                _ => format!("- {} (turn {})", indented(text), keep.turn),
            };
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
        self.must(LineGroup::State, count, state);
    }

    fn task(&mut self) {
        if self.request.has_goal() {
            let step = format!("1. {}", one_line(self.request.focus, LINE));
            self.must(LineGroup::Steps, self.facts.turns.len(), step);
        } else {
            self.stated_goal();
            self.steps();
        }
        let Some((turn, todos)) = self.facts.todos.clone() else {
            return;
        };
        let group = match self.request.has_goal() {
            true => LineGroup::TodosBefore,
            false => LineGroup::Todos,
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

    /// The goal, where the user gives none: the newest request, from its first sentence that asks or states something.
    fn stated_goal(&mut self) {
        let mut requests = self.facts.of_task();
        let goal = requests.rfind(|turn| turns::is_request(&self.facts.turns, turn));
        let goal = goal.or_else(|| self.facts.of_task().next());
        let words = goal.map(|turn| self.facts.said(turn)).unwrap_or_default();
        // `Great!` and `For the exporter:` are no goals.
        let is_goal = |sentence: &&str| !sentence.trim_end().ends_with(['!', ':']);
        let sentence = sentences(&words)
            .find(is_goal)
            .or_else(|| sentences(&words).next());
        let sentence = sentence.map_or(String::new(), |sentence| one_line(sentence, 300));
        let goal_turn = goal.map_or(0, |turn| turn.n);
        let goal = match (sentence.is_empty(), self.facts.all_done) {
            (true, _) => "Goal: none is stated; ask the user.".to_owned(),
            (false, true) => format!("Last goal (done): {sentence}"),
            (false, false) => format!("Goal (the last open request): {sentence}"),
        };
        self.must(LineGroup::Goal, goal_turn, goal);
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
            let none = "No next step was recorded; look at the user's words and at what failed.";
            steps.push(none.to_owned());
        }
        let turns = self.facts.turns.len();
        for (at, step) in steps.iter().take(8).enumerate() {
            self.must(LineGroup::Steps, turns, format!("{}. {step}", at + 1));
        }
    }

    fn runs(&mut self) {
        let facts = self.facts;
        for ran in &facts.runs {
            let shows = ran.purpose.verifies() || ran.purpose == CommandPurpose::Git;
            let is_known = ran.purpose != CommandPurpose::Script;
            let group = match (shows, ran.good) {
                (true, _) => LineGroup::Runs,
                (false, _) if ran.by_user => continue,
                (false, Some(true)) if is_known => LineGroup::Left,
                (false, Some(true) | None) if !ran.effects.is_empty() => LineGroup::Left,
                _ => continue,
            };
            let line = ran_line(ran, group);
            let effects: String = ran.effects.iter().map(|line| format!("\n  > {line}")).collect();
            let full = format!("{line}{effects}");
            self.add(group, PieceRank::Anchor, ran.turn, full, Some(line));
        }
        for run in &facts.user_runs {
            let ended = run.outcome.map_or("no result", IndexedResult::ended);
            let line = format!("- `{}`: {ended} (turn {})", run.call.about, run.turn);
            // The lines of an error are where it is listed as a failure.
            let outcome = run.outcome.filter(|outcome| !outcome.is_error());
            let lines = outcome.into_iter().flat_map(IndexedResult::shown);
            let listed: String = lines.map(|line| format!("\n  > {line}")).collect();
            let full = format!("{line}{listed}");
            self.add(LineGroup::ByUser, PieceRank::Anchor, run.turn, full, Some(line));
        }
        for failure in facts.failures.iter().filter(|failure| !failure.is_run) {
            let line = failure.outcome.lines.first().map_or("", String::as_str);
            let (call, turn) = (failure.call, failure.turn);
            let text = format!("- {} {}: {line} (turn {turn})", call.name, call.about);
            self.add(LineGroup::DeadEnds, PieceRank::Anchor, turn, text, None);
        }
    }

    fn surroundings(&mut self) {
        for secret in &self.facts.secrets {
            let text = format!("- {}", secret.text(&secret.file.path));
            self.add(LineGroup::Credentials, PieceRank::Anchor, secret.turn, text, None);
        }
        for (kind, turn) in &self.facts.credentials {
            let text = format!("- {kind}, first seen in turn {turn}");
            self.add(LineGroup::Credentials, PieceRank::Anchor, *turn, text, None);
        }
        let repository = self.request.repository.trim();
        if !repository.is_empty() {
            let text = format!("```\n{repository}\n```");
            self.must(LineGroup::Repository, self.facts.turns.len(), text);
        }
    }

    fn files(&mut self) {
        let facts = self.facts;
        for file in &facts.files {
            let path = file.path.clone();
            let Some(change) = file.change else {
                self.add(LineGroup::Read, PieceRank::Turn, file.turn, path, None);
                continue;
            };
            let rank = match facts.is_current(file.turn) {
                true => PieceRank::Anchor,
                false => PieceRank::Turn,
            };
            self.add(LineGroup::Modified, rank, file.turn, path, None);
            let what = match change {
                FileChange::Created => "created",
                FileChange::Modified => "changed",
                FileChange::Deleted => "deleted",
                FileChange::Written => "written",
            };
            let plain = format!("- `{}` {what} in turn {}", file.path, file.turn);
            let why = file.why.as_ref().filter(|_| self.request.why);
            let full = why.map_or(plain.clone(), |why| format!("{plain}: {why}"));
            self.add(LineGroup::Files, PieceRank::Turn, file.turn, full, Some(plain));
        }
    }

    fn notes(&mut self) {
        let facts = self.facts;
        for (turn, anchor) in facts.anchors.iter().filter(|(_, anchor)| !is_kept(anchor)) {
            let text = format!("- {} (turn {turn})", anchor.text);
            self.add(group_of(anchor.class), PieceRank::Anchor, *turn, text, None);
        }
        for turn in facts.earlier() {
            let said = one_line(&facts.uncovered_user_text(turn), LINE);
            if !said.is_empty() {
                let text = format!("- {said} (turn {})", turn.n);
                self.add(LineGroup::Earlier, PieceRank::ValueStatement, turn.n, text, None);
            }
        }
    }
}

/// The group of sentences of this class.
fn group_of(class: SentenceClass) -> LineGroup {
    match class {
        SentenceClass::Constraint => LineGroup::Constraints,
        SentenceClass::Fact => LineGroup::Facts,
        SentenceClass::Decision => LineGroup::Decisions,
        SentenceClass::Blocker => LineGroup::Blockers,
        SentenceClass::Later | SentenceClass::LeftOpen => LineGroup::Later,
        SentenceClass::DeadEnd => LineGroup::DeadEnds,
        SentenceClass::Assumption => LineGroup::Assumed,
    }
}

fn ran_line(ran: &CommandFact, group: LineGroup) -> String {
    let how = match (group == LineGroup::Left, ran.good) {
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
        for line in chosen.iter().filter(|line| GROUPS[line.at.0].0 == section) {
            if line.at.0 != group {
                group = line.at.0;
                let (_, above) = GROUPS[group];
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
