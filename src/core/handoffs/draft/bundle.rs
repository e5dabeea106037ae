//! The bundle: a selection from a conversation, turn by turn, for the model that writes the carry-over prompt.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::drafting::Drafting;
use super::fill::{BudgetTooSmall, ChosenPiece, DraftPiece, PieceRank, fill};
use super::keeps::{self, RetentionReason};
use super::request::DraftSpec;
use crate::agents::tools::ToolKind;
use crate::text::tokens::tokens;
use crate::text::words::plural;
use crate::work::excerpt::{cut, first_line, one_line, within};
use crate::work::message::{IndexedCall, IndexedResult};
use crate::work::turns::{IndexedTurn, answers, calls, outcomes};
use crate::work::{Work, is_kept};

/// Positions of lines in a turn: statements, sentences, calls, last words. An index is added to each.
const STATEMENTS: usize = 0;
const SENTENCE: usize = 100_000;
const CALLED: usize = 200_000;
const LAST: usize = 900_000;

/// Maximum size of a line in bytes.
const LINE: usize = 200;
/// Size in bytes above which a result is a dump, and is shortened to a line.
const DUMP: usize = 4096;
/// Maximum tokens of an error, a patch or a trace.
const DETAIL: usize = 600;

/// Weight of a dump, or of a repeated search.
const DOWN: f32 = 0.3;

pub(super) fn text(mut made: Drafting<'_, '_>) -> Result<String, BudgetTooSmall> {
    let (work, request) = (made.work, made.request);
    made.keep_lines();
    let again = last_of_each(work);
    for turn in &work.turns {
        made.turn_lines(turn, &again);
    }
    let head = head(work, request);
    let header = |turn: usize| header(work, turn);
    let fixed = tokens(&head);
    let chosen = fill(made.pieces, fixed, request.tokens, &header)?;
    Ok(rendered(&head, &chosen, &header))
}

impl Drafting<'_, '_> {
    fn add_line(
        &mut self,
        turn: usize,
        place: usize,
        rank: PieceRank,
        weight: f32,
        full: String,
        short: Option<String>,
    ) {
        let (age, meant) = self.standing(turn);
        self.pieces.push(DraftPiece {
            at: (turn, place),
            rank,
            // Relevance counts twice as much as newness. Without a goal or a match only newness decides.
            score: weight * (0.5 * age + meant),
            full,
            short,
        });
    }

    fn keep_lines(&mut self) {
        for (at, (keep, rank)) in keeps::ranked(self.work, self.request).iter().enumerate() {
            let place = match keep.kept {
                RetentionReason::Task | RetentionReason::First | RetentionReason::Summary => STATEMENTS,
                RetentionReason::Last => LAST,
                RetentionReason::Sentence(_) | RetentionReason::Failure => SENTENCE + at,
            };
            let line = |text: &str| format!("{}: {text}", keep.kept.label());
            let (full, short) = (line(&keep.full), Some(line(&keep.short)));
            self.add_line(keep.turn, place, *rank, 2.0, full, short);
        }
        for (at, (turn, anchor)) in self.work.anchors.iter().enumerate() {
            // The user's requests and statements stand in the lines of their turns.
            if !is_kept(anchor) && !anchor.by_user {
                let full = format!("{}: {}", anchor.class.label(), anchor.text);
                self.add_line(*turn, SENTENCE + at, PieceRank::Anchor, 1.0, full, None);
            }
        }
    }

    fn turn_lines(&mut self, turn: &IndexedTurn<'_>, again: &HashMap<(ToolKind, &str), usize>) {
        // The first request and those of the current task are kept verbatim by `kept`.
        let is_first = self.work.earlier().next().is_some_and(|first| first.n == turn.n);
        if turn.is_from_user() && !self.work.is_current(turn.n) && !is_first {
            let (asked, said) = self.work.sentences(turn);
            let said = [asked, said].concat().join("\n");
            let full = format!("user: {}", within(&said, 60));
            let short = format!("user: {}", cut(first_line(&said, LINE), 80));
            if !said.is_empty() {
                self.add_line(turn.n, STATEMENTS, PieceRank::UserText, 1.0, full, Some(short));
            }
        }
        // The last words of the two newest turns are among the required pieces.
        if let Some(reply) = turn.replies.last()
            && turn.n + 2 <= self.work.turns.len()
        {
            let full = format!("model, last: {}", one_line(&reply.text, LINE));
            self.add_line(turn.n, LAST, PieceRank::Turn, 0.9, full, None);
        }
        let messages = self.work.messages;
        let answers = answers(messages, turn.messages.clone());
        for (place, (at, i, call)) in calls(messages, turn.messages.clone()).enumerate() {
            // The head has the to-do list, and baton's own calls are not part of the work.
            if matches!(call.kind, ToolKind::Own | ToolKind::Todo)
                || !self.request.commands && call.kind == ToolKind::Shell
            {
                continue;
            }
            let last = again.get(&(call.kind, call.about.as_str()));
            let repeated = last.is_some_and(|last| *last > at);
            let outcome = answers.get(&(at, i)).copied();
            self.call_lines(turn.n, CALLED + place * 2, call, outcome, repeated);
        }
    }

    fn call_lines(
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
        self.add_line(turn, place, rank, weight, full, None);
        let Some(outcome) = outcome else { return };
        // The last of the repeated calls shows the result.
        if repeated {
            return;
        }
        let detail = outcome.detail.as_ref().map(|detail| {
            let detail = within(detail, DETAIL);
            format!("  {}", detail.replace('\n', "\n  "))
        });
        if let Some(full) = detail.clone().filter(|_| outcome.is_error()) {
            let short = outcome.lines.first().map(|line| format!("  {line}"));
            self.add_line(turn, place + 1, PieceRank::Anchor, 0.5, full, short);
            return;
        }
        let named = call
            .paths
            .iter()
            .any(|(path, _)| self.request.focus.contains(path.as_str()));
        // A large result keeps its weight if the goal names its file.
        let weight = if outcome.bytes > DUMP && !named { DOWN } else { 1.0 };
        let lines = outcome.shown();
        let short = (!lines.is_empty()).then(|| format!("  {}", lines.join("\n  ")));
        if let Some(full) = detail.or_else(|| short.clone()) {
            let rank = match rank {
                PieceRank::Anchor => rank,
                _ => PieceRank::Result,
            };
            self.add_line(turn, place + 1, rank, weight, full, short);
        }
    }
}

/// For each search, command or read file, the last message that calls it. Only the last of repeated calls counts fully.
fn last_of_each<'i>(work: &Work<'i>) -> HashMap<(ToolKind, &'i str), usize> {
    let all = calls(work.messages, 0..work.messages.len());
    let same =
        all.filter(|(_, _, call)| matches!(call.kind, ToolKind::Search | ToolKind::Shell | ToolKind::Read));
    same.map(|(at, _, call)| ((call.kind, call.about.as_str()), at))
        .collect()
}

/// The text above the turns: size, repository, to-do list, changed files.
fn head(work: &Work<'_>, request: &DraftSpec<'_>) -> String {
    /// Maximum number of files named above the turns; the last ones are kept.
    const MAX_FILES: usize = 36;
    let mut out = format!(
        "{}; turns and lines that matter least are left out. Earlier requests are done.\n",
        plural(work.turns.len() as u64, "turn")
    );
    let repository = request.repository.trim();
    if !repository.is_empty() {
        out.push_str(&format!("\nRepository now:\n```\n{repository}\n```\n"));
    }
    let facts = &work.facts;
    let mut list = |above: String, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(out, "\n{above}\n- {}\n", lines.join("\n- "));
        }
    };
    let todos = facts.todos.iter().take(MAX_FILES).map(|todo| todo.line(LINE));
    let above = format!("To-do list as last written (turn {}):", facts.todos_turn);
    list(above, todos.collect());
    let secrets = facts.secrets.iter().map(|secret| secret.text.clone());
    list("Credentials (values are left out):".to_owned(), secrets.collect());
    for (above, files) in [
        ("Files that were changed:", &facts.files),
        (
            "Files that calls changed, and that are perhaps not as they left them:",
            &facts.doubtful_files,
        ),
    ] {
        let files = files[files.len().saturating_sub(MAX_FILES)..].iter();
        list(above.to_owned(), files.map(|file| file.line(false)).collect());
    }
    out
}

fn header(work: &Work<'_>, turn: usize) -> String {
    let Some(turn) = turn.checked_sub(1).and_then(|at| work.turns.get(at)) else {
        return String::new();
    };
    let messages = turn.messages.clone();
    let state = match (work.is_current(turn.n), work.all_done) {
        (true, false) => "open",
        _ => "done",
    };
    let error = match outcomes(work.messages, messages.clone()).any(|(_, outcome)| outcome.is_error()) {
        true => ", with an error",
        false => "",
    };
    let time = work.messages[messages]
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
