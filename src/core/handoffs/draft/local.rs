//! The document that is composed from facts without a model. The same conversation gives the same bytes.

use super::carried::{self, EARLIER_GOAL, LAST_GOAL, OPEN_GOAL, earlier_goal, goal_in};
use super::drafting::Drafting;
use super::fill::{BudgetTooSmall, ChosenPiece, DraftPiece, PieceRank, fill};
use super::keeps::{self, RetentionReason};
use super::request::DraftSection;
use crate::agents::commands::CommandPurpose;
use crate::text::tokens::tokens;
use crate::text::words::plural;
use crate::work::excerpt::{one_line, sentences};
use crate::work::lines::{place, quoted};
use crate::work::turns::IndexedTurn;
use crate::work::{AnchoredSentence, SeenCommand, SentenceClass, is_kept, requests};
use std::borrow::Cow;
use std::collections::HashSet;

/// Declares the groups of lines by section, each with the text above it.
macro_rules! groups {
    ($($section:ident: $($name:ident $above:expr),+;)+) => {
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
        Said "What else the user said, newest first:",
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
    Files: Files "",
        Doubtful "Changed by calls, and perhaps not as they left them:";
    Notes: Blockers "Blockers:",
        DeadEnds "Failed attempts:",
        Later "Still to be looked at:",
        Assumed "Taken for granted, not confirmed:",
        EarlierLeft "Earlier requests that may not be done:",
        Earlier carried::DONE;
    Read: Read "";
}

/// Groups that quote the user, the model or an earlier prompt. Quotations may name steps of other work, and have headings.
const QUOTING: [LineGroup; 6] = {
    use LineGroup::{Before, Last, RequestDone, RequestOpen, Summaries, Words};
    [Words, Last, RequestOpen, RequestDone, Summaries, Before]
};

/// A document that was composed here, without the text that it quotes.
pub fn without_quotes(document: &str) -> String {
    without(document, &QUOTING)
}

/// A document that was composed here, without quoted words from before the task, which claim nothing about later runs.
pub fn without_earlier(document: &str) -> String {
    without(document, &[LineGroup::Summaries, LineGroup::Before])
}

fn without(document: &str, groups: &[LineGroup]) -> String {
    let is_heading = |line: &str| groups.iter().any(|group| GROUPS[*group as usize].1 == line);
    let mut is_quote = false;
    let own = document.lines().filter(|line| {
        let goes_on = line.starts_with("- ") || line.starts_with("  ");
        is_quote = is_heading(line) || is_quote && goes_on;
        !is_quote
    });
    own.collect::<Vec<_>>().join("\n")
}

/// Maximum size of a quoted request, step or command in bytes.
const LINE: usize = 160;

pub(super) fn document(mut made: Drafting<'_, '_>) -> Result<String, BudgetTooSmall> {
    made.state();
    let quotes_first = made.kept();
    made.task();
    if made.request.commands {
        made.runs();
    }
    made.surroundings();
    made.files();
    made.notes(quotes_first);
    let header = |group: usize| GROUPS[group].1.to_owned();
    let headings = DraftSection::ALL.map(|section| section.marks());
    let fixed = headings
        .iter()
        .map(|(open, close)| tokens(open) + tokens(close) + 2)
        .sum();
    let chosen = fill(made.pieces, fixed, made.request.tokens, &header)?;
    Ok(rendered(&chosen))
}

impl Drafting<'_, '_> {
    fn add(&mut self, group: LineGroup, rank: PieceRank, turn: usize, full: String, short: Option<String>) {
        let (section, _) = GROUPS[group as usize];
        let (age, meant) = self.standing(turn);
        self.pieces.push(DraftPiece {
            // Within a group, pieces keep the order of these calls.
            at: (group as usize, self.pieces.len()),
            rank,
            // With the 1.0, the preset's weight counts even for an old piece that matches nothing.
            score: self.request.preset.weight(section) * (1.0 + age + meant),
            full,
            short,
        });
    }

    fn must(&mut self, group: LineGroup, turn: usize, text: String) {
        self.add(group, PieceRank::Must, turn, text, None);
    }

    /// Whether a turn belongs to the document's task. A goal that the user gives begins a new task.
    fn is_task(&self, turn: usize) -> bool {
        !self.request.has_goal() && self.work.is_current(turn)
    }

    /// The group of an earlier request.
    fn done_group(&self, turn: &IndexedTurn<'_>) -> LineGroup {
        match self.work.is_done(turn) {
            true => LineGroup::Earlier,
            false => LineGroup::EarlierLeft,
        }
    }

    /// Adds the required content. Returns whether all of the first request is quoted.
    fn kept(&mut self) -> bool {
        let mut quotes_first = false;
        for (keep, rank) in keeps::ranked(self.work, self.request) {
            let is_first = keep.kept == RetentionReason::First;
            quotes_first |= is_first && keep.is_complete();
            let first = self.work.earlier().next().filter(|_| is_first);
            let done = first.map(|turn| self.done_group(turn));
            // A first request that states nothing else is one of the finished ones.
            let is_only_asking = first.is_some_and(|turn| self.work.only_asks(turn));
            let group = match keep.kept {
                RetentionReason::First => done.filter(|_| is_only_asking).unwrap_or(LineGroup::State),
                RetentionReason::Task if self.is_task(keep.turn) => LineGroup::Words,
                RetentionReason::Task if self.work.all_done => LineGroup::RequestDone,
                RetentionReason::Task => LineGroup::RequestOpen,
                RetentionReason::Last if self.is_task(keep.turn) => LineGroup::Last,
                RetentionReason::Last => LineGroup::Before,
                RetentionReason::Sentence(class) => group_of(class),
                RetentionReason::Failure => LineGroup::Failures,
                RetentionReason::Summary => LineGroup::Summaries,
            };
            let item = |text: &str| match keep.kept {
                RetentionReason::First if !is_only_asking => {
                    let is_done = match done {
                        Some(LineGroup::Earlier) => " (done)",
                        _ => "",
                    };
                    format!("It began with{is_done}: {}", indented(text))
                }
                // The line of a failure has its place before the quoted error.
                RetentionReason::Failure => format!("- {}", indented(text)),
                _ => format!("- {} (turn {})", indented(text), keep.turn),
            };
            self.add(group, rank, keep.turn, item(&keep.full), Some(item(&keep.short)));
        }
        quotes_first
    }

    fn state(&mut self) {
        let count = self.work.turns.len();
        let turns = plural(count as u64, "turn");
        let state = match self.work.all_done {
            _ if self.request.has_goal() => format!("Before this goal: {turns}."),
            true if self.work.facts.next_todo().is_some() => {
                format!("The last request is done after {turns}; items of the to-do list are open.")
            }
            true => format!("Nothing is open after {turns}."),
            false => format!("Under way after {turns}."),
        };
        self.must(LineGroup::State, count, state);
    }

    fn task(&mut self) {
        if self.request.has_goal() {
            let step = format!("1. {}", one_line(self.request.focus, LINE));
            self.must(LineGroup::Steps, self.work.turns.len(), step);
        } else {
            self.stated_goal();
            self.steps();
        }
        let turn = self.work.facts.todos_turn;
        let group = match self.request.has_goal() {
            true => LineGroup::TodosBefore,
            false => LineGroup::Todos,
        };
        let todos = &self.work.facts.todos;
        // A list of an earlier task is of interest if something of it is open.
        let is_over = !self.work.is_current(turn) && !todos.iter().any(|todo| todo.state.is_open());
        for todo in todos.iter().filter(|_| !is_over) {
            let rank = match todo.state.is_open() && self.work.is_current(turn) {
                true => PieceRank::Must,
                false => PieceRank::Anchor,
            };
            let text = format!("- {}", todo.line(LINE));
            self.add(group, rank, turn, text, None);
        }
    }

    /// Adds a goal if the user gives none.
    ///
    /// Sources in this order: the newest request, the newest message, the goal of the work that was handed over.
    fn stated_goal(&mut self) {
        let work = self.work;
        let is_request = |turn: &&IndexedTurn<'_>| requests::is_request(&work.turns, turn);
        let of_task = work.of_task().rfind(is_request).or_else(|| work.of_task().next());
        let typed = of_task.map(|turn| (turn.n, goal_in(&work.newest_said(turn))));
        let typed = typed.filter(|(_, goal)| !goal.is_empty());
        let (turn, goal) = match (typed, work.all_done) {
            (Some((turn, goal)), true) => (turn, format!("{LAST_GOAL}{goal}")),
            (Some((turn, goal)), false) => (turn, format!("{OPEN_GOAL}{goal}")),
            (None, is_done) => match earlier_goal(work) {
                Some((turn, goal)) if is_done => (turn, format!("{LAST_GOAL}{goal}")),
                Some((turn, goal)) => (turn, format!("{EARLIER_GOAL}{goal}")),
                None => (0, "Goal: none is stated; ask the user.".to_owned()),
            },
        };
        self.must(LineGroup::Goal, turn, goal);
    }

    /// Adds the next step of the to-do list, or else the steps that the model announced.
    fn steps(&mut self) {
        /// Maximum number of announced steps.
        const MAX_STEPS: usize = 3;
        if self.work.all_done {
            return;
        }
        let facts = &self.work.facts;
        let is_of_task = self.work.is_current(facts.todos_turn);
        let steps: Vec<&str> = match facts.next_todo().filter(|_| is_of_task) {
            Some(todo) => vec![&todo.text],
            None => {
                let last = self.work.turns.last().and_then(|turn| turn.replies.last());
                let all = last.into_iter().flat_map(|reply| sentences(&reply.text));
                all.filter(|sentence| requests::names_next_step(sentence))
                    .take(MAX_STEPS)
                    .collect()
            }
        };
        let turns = self.work.turns.len();
        for (at, step) in steps.into_iter().enumerate() {
            let text = format!("{}. {}", at + 1, one_line(step, LINE));
            self.must(LineGroup::Steps, turns, text);
        }
    }

    fn runs(&mut self) {
        let facts = &self.work.facts;
        for run in &facts.verification {
            let line = format!("- {}", run.line());
            self.add(LineGroup::Runs, PieceRank::Anchor, run.turn, line, None);
        }
        for effect in &facts.effects {
            let is_known = effect.purpose != CommandPurpose::Script;
            let group = match (effect.purpose, effect.passed) {
                // It is among the failures until it is settled.
                (CommandPurpose::Git, Some(false)) => continue,
                (CommandPurpose::Git, _) => LineGroup::Runs,
                // The user's commands have a group of their own.
                _ if effect.by_user => continue,
                _ if effect.is_running => LineGroup::Left,
                (_, Some(true)) if is_known => LineGroup::Left,
                // The effect of a script is unknown. Its output shows whether it left something.
                (_, Some(true) | None) if !effect.lines.is_empty() => LineGroup::Left,
                _ => continue,
            };
            let line = format!("- {}", effect.line());
            let full = format!("{line}{}", quoted(&effect.lines));
            self.add(group, PieceRank::Anchor, effect.turn, full, Some(line));
        }
        for run in by_user(&facts.commands) {
            let line = format!("- {}", run.line());
            // The lines of an error are listed with the failure.
            let lines = if run.has_failed() { &[] } else { &run.output[..] };
            let full = format!("{line}{}", quoted(lines));
            self.add(LineGroup::ByUser, PieceRank::Anchor, run.turn, full, Some(line));
        }
        for failure in facts.failures.iter().filter(|failure| !failure.is_run) {
            let (call, turn) = (&failure.command, failure.turn);
            let error = failure.lines.first().map_or("", String::as_str);
            let text = format!("- {call}: {error}{}", place(turn, failure.call));
            self.add(LineGroup::DeadEnds, PieceRank::Anchor, turn, text, None);
        }
    }

    fn surroundings(&mut self) {
        for secret in &self.work.facts.secrets {
            let text = format!("- {}", secret.text);
            self.add(LineGroup::Credentials, PieceRank::Anchor, secret.turn, text, None);
        }
        for (kind, turn) in &self.work.credentials {
            let text = format!("- {kind}, first seen in turn {turn}");
            self.add(LineGroup::Credentials, PieceRank::Anchor, *turn, text, None);
        }
        let repository = self.request.repository.trim();
        if !repository.is_empty() {
            let text = format!("```\n{repository}\n```");
            self.must(LineGroup::Repository, self.work.turns.len(), text);
        }
    }

    fn files(&mut self) {
        let facts = &self.work.facts;
        let certain = facts.files.iter().map(|file| (LineGroup::Files, file));
        let doubtful = facts
            .doubtful_files
            .iter()
            .map(|file| (LineGroup::Doubtful, file));
        for (group, file) in certain.chain(doubtful) {
            let rank = match self.work.is_current(file.turn) {
                true => PieceRank::Anchor,
                false => PieceRank::Turn,
            };
            let (full, plain) = (file.line(self.request.why), file.line(false));
            self.add(
                group,
                rank,
                file.turn,
                format!("- {full}"),
                Some(format!("- {plain}")),
            );
        }
        for read in &facts.read {
            let is_changed = facts.files.iter().any(|file| file.path == read.text);
            if !is_changed {
                self.add(
                    LineGroup::Read,
                    PieceRank::Turn,
                    read.turn,
                    read.text.clone(),
                    None,
                );
            }
        }
    }

    fn notes(&mut self, quotes_first: bool) {
        let work = self.work;
        let by_model =
            |(_, anchor): &&(usize, Cow<'_, AnchoredSentence>)| !is_kept(anchor) && !anchor.by_user;
        for (turn, anchor) in work.anchors.iter().filter(by_model) {
            let text = format!("- {} (turn {turn})", anchor.text);
            self.add(group_of(anchor.class), PieceRank::Anchor, *turn, text, None);
        }
        let first = work.earlier().next().map(|turn| turn.n);
        for turn in work.earlier().rev() {
            let (_, said) = work.sentences(turn);
            let is_quoted = quotes_first && first == Some(turn.n);
            // The sentences of a message share a line, because they belong together.
            if !said.is_empty() && !is_quoted {
                let (said, item) = (said.join(" "), |text: &str| format!("- {text} (turn {})", turn.n));
                let short = item(&one_line(&said, LINE));
                self.add(
                    LineGroup::Said,
                    PieceRank::Anchor,
                    turn.n,
                    item(&said),
                    Some(short),
                );
            }
        }
        for turn in work.earlier() {
            let (asked, _) = work.sentences(turn);
            // The first request is there already.
            if !asked.is_empty() && first != Some(turn.n) {
                let group = self.done_group(turn);
                let text = format!("- {} (turn {})", one_line(&asked.join(" "), LINE), turn.n);
                self.add(group, PieceRank::UserText, turn.n, text, None);
            }
        }
    }
}

/// The last run of each command of the user, limited to the newest ones.
fn by_user(commands: &[SeenCommand]) -> Vec<&SeenCommand> {
    const MAX_RUNS: usize = 20;
    let mut known = HashSet::new();
    let runs = commands.iter().rev().filter(|ran| ran.by_user);
    let mut last: Vec<_> = runs
        .filter(|ran| known.insert(&ran.command))
        .take(MAX_RUNS)
        .collect();
    last.reverse();
    last
}

/// The group for sentences of this class.
fn group_of(class: SentenceClass) -> LineGroup {
    match class {
        SentenceClass::Constraint => LineGroup::Constraints,
        SentenceClass::Fact => LineGroup::Facts,
        SentenceClass::Decision => LineGroup::Decisions,
        SentenceClass::Blocker => LineGroup::Blockers,
        SentenceClass::Later | SentenceClass::LeftOpen => LineGroup::Later,
        SentenceClass::DeadEnd => LineGroup::DeadEnds,
        SentenceClass::Assumption => LineGroup::Assumed,
        SentenceClass::Asked => LineGroup::Earlier,
        SentenceClass::Said | SentenceClass::Lift => LineGroup::Said,
    }
}

/// Indents a multi-line string as one item of a list.
fn indented(text: &str) -> String {
    text.trim().replace('\n', "\n  ")
}

/// Renders the chosen lines, without empty sections.
fn rendered(chosen: &[ChosenPiece]) -> String {
    let mut out = String::new();
    for section in DraftSection::ALL {
        let lines: Vec<_> = chosen
            .iter()
            .filter(|line| GROUPS[line.at.0].0 == section)
            .collect();
        // The tags around the files that were read end the list of finished work, even if no file was read.
        let ends_done = section == DraftSection::Read
            && chosen.iter().any(|line| line.at.0 == LineGroup::Earlier as usize);
        if lines.is_empty() && !ends_done {
            continue;
        }
        let (open, close) = section.marks();
        out.push_str(&format!("{open}\n"));
        for group in lines.chunk_by(|line, next| line.at.0 == next.at.0) {
            let (_, above) = GROUPS[group[0].at.0];
            if !above.is_empty() {
                out.push_str(&format!("\n{above}\n"));
            }
            group.iter().for_each(|line| out.extend([&line.text, "\n"]));
        }
        out.push_str(&format!("{close}\n"));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
