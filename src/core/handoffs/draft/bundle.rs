//! The bundle: a selection from a conversation, turn by turn, for a model that writes the carry-over.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::anchors::is_kept;
use super::excerpt::{cut, first_line, one_line, within};
use super::facts::DraftFacts;
use super::fill::{BudgetTooSmall, ChosenPiece, DraftPiece, PieceRank, fill, standing};
use super::keeps::{self, RetentionReason};
use super::message::{IndexedCall, IndexedResult};
use super::request::DraftSpec;
use super::tokens::tokens;
use super::turns::{IndexedTurn, answers, calls, outcomes};
use crate::agents::tools::ToolKind;
use crate::text::words::plural;

/// Lines of a turn, in order.
const STATEMENTS: usize = 0;
const SENTENCE: usize = 100_000;
const CALLED: usize = 200_000;
const LAST: usize = 900_000;

/// Bytes of a line.
const LINE: usize = 200;
/// Results larger than this are dumps, and shortened to a line.
const DUMP: usize = 4096;
/// Tokens of an error, a patch or a trace.
const DETAIL: usize = 600;

/// Weight of a dump, or of a repeated search.
const DOWN: f32 = 0.3;

pub(super) fn text(
    facts: &DraftFacts<'_>,
    relevance: &[f32],
    request: &DraftSpec<'_>,
) -> Result<String, BudgetTooSmall> {
    let mut made = BundleBuilder {
        facts,
        relevance,
        request,
        pieces: Vec::new(),
    };
    made.kept();
    let again = last_of_each(facts);
    for turn in &facts.turns {
        made.turn(turn, &again);
    }
    let head = head(facts, request);
    let header = |turn: usize| header(facts, turn);
    let fixed = tokens(&head);
    let chosen = fill(made.pieces, fixed, request.tokens, &header)?;
    Ok(rendered(&head, &chosen, &header))
}

struct BundleBuilder<'m, 'i> {
    facts: &'m DraftFacts<'i>,
    relevance: &'m [f32],
    request: &'m DraftSpec<'m>,
    pieces: Vec<DraftPiece>,
}

impl BundleBuilder<'_, '_> {
    fn add(
        &mut self,
        turn: usize,
        place: usize,
        rank: PieceRank,
        weight: f32,
        full: String,
        short: Option<String>,
    ) {
        let (age, meant) = standing(turn, self.facts.turns.len(), self.relevance);
        self.pieces.push(DraftPiece {
            at: (turn, place),
            rank,
            score: weight * (0.5 * age + meant),
            full,
            short,
        });
    }

    fn kept(&mut self) {
        for (at, (keep, rank)) in keeps::ranked(self.facts, self.request).iter().enumerate() {
            let place = match keep.kept {
                RetentionReason::Task | RetentionReason::First | RetentionReason::Summary => STATEMENTS,
                RetentionReason::Last => LAST,
                RetentionReason::Sentence(_) | RetentionReason::Failure => SENTENCE + at,
            };
            let line = |text: &str| format!("{}: {text}", keep.kept.label());
            let (full, short) = (line(&keep.full), Some(line(&keep.short)));
            self.add(keep.turn, place, *rank, 2.0, full, short);
        }
        for (at, (turn, anchor)) in self.facts.anchors.iter().enumerate() {
            if !is_kept(anchor) {
                let full = format!("{}: {}", anchor.class.label(), anchor.text);
                self.add(*turn, SENTENCE + at, PieceRank::Anchor, 1.0, full, None);
            }
        }
    }

    fn turn(&mut self, turn: &IndexedTurn<'_>, again: &HashMap<(ToolKind, &str), usize>) {
        let is_first = self.facts.earlier().next().is_some_and(|first| first.n == turn.n);
        if turn.is_from_user() && !self.facts.is_current(turn.n) && !is_first {
            let said = self.facts.uncovered_user_text(turn);
            let full = format!("user: {}", within(&said, 60));
            let short = format!("user: {}", cut(first_line(&said, LINE), 80));
            if !said.is_empty() {
                self.add(
                    turn.n,
                    STATEMENTS,
                    PieceRank::ValueStatement,
                    1.0,
                    full,
                    Some(short),
                );
            }
        }
        if let Some(reply) = turn.replies.last()
            && turn.n + 2 <= self.facts.turns.len()
        {
            let full = format!("model, last: {}", one_line(&reply.text, LINE));
            self.add(turn.n, LAST, PieceRank::Turn, 0.9, full, None);
        }
        let messages = self.facts.messages;
        let answers = answers(messages, turn.messages.clone());
        for (place, (at, i, call)) in calls(messages, turn.messages.clone()).enumerate() {
            if matches!(call.kind, ToolKind::Own | ToolKind::Todo)
                || !self.request.commands && call.kind == ToolKind::Shell
            {
                continue;
            }
            let last = again.get(&(call.kind, call.about.as_str()));
            let repeated = last.is_some_and(|last| *last > at);
            let outcome = answers.get(&(at, i)).copied();
            self.called(turn.n, CALLED + place * 2, call, outcome, repeated);
        }
    }

    fn called(
        &mut self,
        turn: usize,
        place: usize,
        call: &IndexedCall,
        outcome: Option<&IndexedResult>,
        repeated: bool,
    ) {
        let state = match outcome {
            None => " (no answer)",
            Some(outcome) if outcome.is_error() => " (failed)",
            Some(_) => "",
        };
        let weight = if repeated { DOWN * 0.8 } else { 0.8 };
        let (rank, who) = match (call.by_user, outcome) {
            (true, _) => (PieceRank::Anchor, "the user ran "),
            (false, Some(outcome)) if !outcome.effects.is_empty() => (PieceRank::Anchor, ""),
            (false, _) => (PieceRank::Turn, ""),
        };
        let full = format!("{who}{} {}{state}", call.name, call.about);
        self.add(turn, place, rank, weight, full, None);
        let Some(outcome) = outcome else { return };
        if repeated {
            return;
        }
        let detail = outcome.detail.as_ref().map(|detail| {
            let detail = within(detail, DETAIL);
            format!("  {}", detail.replace('\n', "\n  "))
        });
        if let Some(full) = detail.clone().filter(|_| outcome.is_error()) {
            let short = outcome.lines.first().map(|line| format!("  {line}"));
            self.add(turn, place + 1, PieceRank::Anchor, 0.5, full, short);
            return;
        }
        let named = call
            .paths
            .iter()
            .any(|(path, _)| self.request.focus.contains(path.as_str()));
        let weight = if outcome.bytes > DUMP && !named { DOWN } else { 1.0 };
        let lines = outcome.shown();
        let short = (!lines.is_empty()).then(|| format!("  {}", lines.join("\n  ")));
        if let Some(full) = detail.or_else(|| short.clone()) {
            let rank = match rank {
                PieceRank::Anchor => rank,
                _ => PieceRank::Result,
            };
            self.add(turn, place + 1, rank, weight, full, short);
        }
    }
}

/// Last place of each call: of a repeated search or command, the last one counts.
fn last_of_each<'i>(facts: &DraftFacts<'i>) -> HashMap<(ToolKind, &'i str), usize> {
    let all = calls(facts.messages, 0..facts.messages.len());
    let same =
        all.filter(|(_, _, call)| matches!(call.kind, ToolKind::Search | ToolKind::Shell | ToolKind::Read));
    same.map(|(at, _, call)| ((call.kind, call.about.as_str()), at))
        .collect()
}

/// What is above the turns: size, repository, to-do list, files that were changed.
fn head(facts: &DraftFacts<'_>, request: &DraftSpec<'_>) -> String {
    /// Files that are named above the turns, the last ones.
    const MAX_FILES: usize = 40;
    let mut out = format!(
        "{}; turns and lines that matter least are left out. Earlier requests are done.\n",
        plural(facts.turns.len() as u64, "turn")
    );
    let repository = request.repository.trim();
    if !repository.is_empty() {
        out.push_str(&format!("\nRepository now:\n```\n{repository}\n```\n"));
    }
    if let Some((turn, todos)) = &facts.todos {
        out.push_str(&format!("\nTo-do list as last written (turn {turn}):\n"));
        for todo in todos.iter().take(MAX_FILES) {
            let _ = writeln!(out, "- [{}] {}", todo.state.name(), one_line(&todo.text, LINE));
        }
    }
    if !facts.secrets.is_empty() {
        out.push_str("\nCredentials (values are left out):\n");
        for secret in &facts.secrets {
            let _ = writeln!(out, "- {}", secret.text(&secret.file.path));
        }
    }
    let changed: Vec<_> = facts.files.iter().filter(|file| file.change.is_some()).collect();
    if !changed.is_empty() {
        out.push_str("\nFiles that were changed:\n");
        for file in &changed[changed.len().saturating_sub(MAX_FILES)..] {
            out.push_str(&format!("- {} (turn {})\n", file.path, file.turn));
        }
    }
    out
}

fn header(facts: &DraftFacts<'_>, turn: usize) -> String {
    let Some(turn) = turn.checked_sub(1).and_then(|at| facts.turns.get(at)) else {
        return String::new();
    };
    let messages = turn.messages.clone();
    let state = match (facts.is_current(turn.n), facts.all_done) {
        (true, false) => "open",
        _ => "done",
    };
    let error = match outcomes(facts.messages, messages.clone()).any(|(_, outcome)| outcome.is_error()) {
        true => ", with an error",
        false => "",
    };
    let time = facts.messages[messages]
        .iter()
        .find_map(|message| message.time.as_deref());
    let time = time.map(|time| format!(", {time}")).unwrap_or_default();
    format!("### Turn {} ({state}{error}{time})", turn.n)
}

fn rendered(head: &str, chosen: &[ChosenPiece], header: &dyn Fn(usize) -> String) -> String {
    let mut out = head.to_owned();
    let mut turn = usize::MAX;
    for line in chosen {
        if line.at.0 != turn {
            turn = line.at.0;
            out.push_str(&format!("\n{}\n", header(turn)));
        }
        out.push_str(&line.text);
        out.push('\n');
    }
    out
}
