//! Required content of a conversation, and which of it a later sentence replaces.

use std::borrow::Cow;
use std::collections::HashSet;

use super::anchors::is_kept;
use super::excerpt::{one_line, up_to, within};
use super::facts::{CallFailure, DraftFacts};
use super::fill::PieceRank;
use super::markers::{AnchoredSentence, SentenceClass};
use super::request::DraftSpec;
use super::tokens::tokens;
use super::turns::IndexedTurn;
use crate::agents::wordings::UserText;
use crate::handoffs::replaced::{Relation, SENTENCE, SpokenText, Statements};
use crate::text::prose::joined;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetentionReason {
    /// What the user wrote in the current task.
    Task,
    /// The first request.
    First,
    /// What the model wrote last in one of the last two turns.
    Last,
    Sentence(SentenceClass),
    /// A failure that is not settled.
    Failure,
    /// A summary, or an earlier carry-over.
    Summary,
}

impl RetentionReason {
    /// In front of such a text.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Task | Self::First => "person",
            Self::Last => "model, last",
            Self::Sentence(class) => class.label(),
            Self::Failure => "failed, not settled",
            Self::Summary => "summary",
        }
    }
}

/// A required text.
#[derive(Debug, Clone)]
pub(super) struct RetainedText {
    pub(super) kept: RetentionReason,
    /// The turn's number.
    pub(super) turn: usize,
    pub(super) full: String,
    pub(super) short: String,
    /// It is kept whole, word for word: the first request.
    pub(super) whole: bool,
}

impl RetainedText {
    fn new(kept: RetentionReason, turn: usize, full: impl Into<String>, short: impl Into<String>) -> Self {
        let (full, short, whole) = (full.into(), short.into(), false);
        Self {
            kept,
            turn,
            full,
            short,
            whole,
        }
    }
}

/// Tokens of an excerpt, and of one that has to be short.
const EXCERPT: usize = 600;
const SHORT: usize = 60;
/// The same for what the model wrote.
const STATEMENT: usize = 300;
const STATEMENT_SHORT: usize = 40;
/// Tokens of a summary that has to be short.
const SUMMARY: usize = 150;
/// Bytes of the first request that are kept: the scope of the work, in the user's words.
const FIRST: usize = 2000;

/// What must be kept, in order of its kinds. A summary may take `summary` tokens.
pub(super) fn all(facts: &DraftFacts<'_>, summary: usize) -> Vec<RetainedText> {
    let mut keeps = Vec::new();
    keeps.extend(facts.of_task().map(|turn| task(facts, turn)));
    keeps.extend(facts.earlier().next().map(|turn| first(facts, turn)));
    keeps.extend(summaries(facts, summary));
    let sentences = facts.anchors.iter().filter(|(turn, anchor)| {
        // What the user says in the current task is there as it was written.
        is_kept(anchor) && !(anchor.by_user && facts.is_current(*turn))
    });
    keeps.extend(sentences.map(|(turn, anchor)| {
        RetainedText::new(
            RetentionReason::Sentence(anchor.class),
            *turn,
            &*anchor.text,
            &*anchor.text,
        )
    }));
    let commands = facts.failures.iter().filter(|failure| failure.is_run);
    keeps.extend(commands.map(failure));
    let from = facts.turns.len().saturating_sub(2);
    keeps.extend(facts.turns[from..].iter().filter_map(|turn| last(turn)));
    keeps
}

/// All that is kept of a draft, each with how firmly.
pub(super) fn ranked(facts: &DraftFacts<'_>, request: &DraftSpec<'_>) -> Vec<(RetainedText, PieceRank)> {
    let mut keeps = all(facts, request.tokens / 2);
    keeps.retain(|keep| is_wanted(keep, request));
    use RetentionReason::{Failure, Sentence};
    let is_open = |keep: &RetainedText| matches!(keep.kept, Failure | Sentence(SentenceClass::LeftOpen));
    let is_fact = |keep: &RetainedText| keep.kept == Sentence(SentenceClass::Fact);
    let mut beyond = beyond(&keeps, is_open, request.tokens / 3);
    beyond.extend(self::beyond(&keeps, is_fact, request.tokens / 4));
    let ranked = keeps.into_iter().enumerate().map(|(at, keep)| {
        let rank = match keep.whole {
            _ if beyond.contains(&at) => PieceRank::Anchor,
            true => PieceRank::Whole,
            false => PieceRank::Must,
        };
        (keep, rank)
    });
    ranked.collect()
}

/// Whether a draft of this specification has it.
fn is_wanted(keep: &RetainedText, request: &DraftSpec<'_>) -> bool {
    request.commands || keep.kept != RetentionReason::Failure
}

/// The oldest texts of a kind beyond a budget of tokens. They may be dropped, so that a session with many of them still
/// gets a document.
fn beyond(keeps: &[RetainedText], gives_way: impl Fn(&RetainedText) -> bool, most: usize) -> HashSet<usize> {
    /// Tokens of what is around one.
    const AROUND: usize = 12;
    let mut newest: Vec<usize> = (0..keeps.len()).filter(|at| gives_way(&keeps[*at])).collect();
    newest.sort_by_key(|at| std::cmp::Reverse((keeps[*at].turn, *at)));
    let mut used = 0;
    let fits = |at: &usize| {
        used += tokens(&keeps[*at].short) + AROUND;
        used <= most
    };
    let kept = newest.iter().copied().take_while(fits).count();
    newest.split_off(kept).into_iter().collect()
}

/// The first request.
fn first(facts: &DraftFacts<'_>, turn: &IndexedTurn<'_>) -> RetainedText {
    let full = up_to(&facts.said(turn), FIRST);
    RetainedText {
        kept: RetentionReason::First,
        turn: turn.n,
        short: within(&one_line(&full, FIRST), SHORT).into_owned(),
        full,
        whole: true,
    }
}

/// A request of the current task; the first of the conversation is kept whole here, too.
fn task(facts: &DraftFacts<'_>, turn: &IndexedTurn<'_>) -> RetainedText {
    let text = facts.said(turn);
    let full = within(&text, EXCERPT).into_owned();
    let is_first = facts.earlier().next().is_none() && facts.of_task().next().is_some_and(|t| t.n == turn.n);
    let whole = is_first.then(|| up_to(&text, FIRST));
    RetainedText {
        kept: RetentionReason::Task,
        turn: turn.n,
        full: whole.filter(|whole| whole.len() > full.len()).unwrap_or(full),
        short: within(&text, SHORT).into_owned(),
        whole: is_first,
    }
}

fn summaries(facts: &DraftFacts<'_>, most: usize) -> Vec<RetainedText> {
    let is_summary = |kind: UserText| matches!(kind, UserText::Summary | UserText::Branch);
    let spoken = facts.turns.iter().flat_map(|turn| {
        let texts = turn.opening.iter().chain(&turn.replies);
        let texts = texts.filter(|spoken| is_summary(spoken.kind));
        texts.map(|spoken| SpokenText::new(turn.n, false, &spoken.text))
    });
    let all: Vec<_> = spoken.collect();
    // Each summary covers those before it, so the last one may have half of the room by itself.
    let each = most / all.len().max(1);
    let last = all.len().saturating_sub(1);
    let share = |at: usize| match at == last {
        true => most.saturating_sub(each * last / 2),
        false => each / 2,
    };
    let keep = |(at, spoken): (usize, &SpokenText<'_>)| {
        let text = facts.statements.marked(*spoken);
        let (full, short) = (within(&text, share(at)), within(&text, SUMMARY.min(most / 4)));
        RetainedText::new(RetentionReason::Summary, spoken.turn, full, short)
    };
    all.iter().enumerate().map(keep).collect()
}

fn failure(failure: &CallFailure<'_>) -> RetainedText {
    let command = match failure.call.command {
        Some(_) => failure.call.about.clone(),
        None => format!("{} {}", failure.call.name, failure.call.about),
    };
    let who = match failure.call.by_user {
        true => ", run by the user",
        false => "",
    };
    let exit = match (failure.outcome.end.code, failure.outcome.failed) {
        (Some(code), _) => format!(" (exit {code})"),
        (None, Some(_)) => String::new(),
        (None, None) => " (reads as failed)".to_owned(),
    };
    let lines = &failure.outcome.lines;
    let listed = |lines: &[String]| -> String { lines.iter().map(|line| format!("\n  > {line}")).collect() };
    let text = |lines: &[String]| format!("`{command}`{exit}{who}{}", listed(lines));
    let short = text(&lines[..lines.len().min(1)]);
    RetainedText::new(RetentionReason::Failure, failure.turn, text(lines), short)
}

fn last(turn: &IndexedTurn<'_>) -> Option<RetainedText> {
    let text = &turn
        .replies
        .iter()
        .rfind(|reply| reply.kind == UserText::User)?
        .text;
    let line = one_line(text, STATEMENT);
    let (full, short) = (within(text, STATEMENT), within(&line, STATEMENT_SHORT));
    Some(RetainedText::new(RetentionReason::Last, turn.n, full, short))
}

/// Whether a text covers a required text: it contains most of its distinctive words.
pub(super) fn holds(text: &str, keep: &str) -> bool {
    /// Required share of such words, in tenths.
    const MIN_SHARED_TENTHS: usize = 6;
    let terms = keep.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')));
    let terms: Vec<String> = terms
        .map(|word| word.trim_matches(['.', '-', '/']).to_lowercase())
        .filter(|word| word.len() > 3 || word.bytes().any(|b| b.is_ascii_digit()))
        .collect();
    let there = terms.iter().filter(|word| text.contains(word.as_str())).count();
    there * 10 >= terms.len() * MIN_SHARED_TENTHS
}

/// The section to append to a model's document: missing headings, and required facts that the document does not
/// mention, in at most `most` tokens besides the first request. Empty where nothing is missing.
pub(super) fn lacking(
    facts: &DraftFacts<'_>,
    document: &str,
    headings: &[&str],
    request: &DraftSpec<'_>,
    most: usize,
) -> String {
    let small = document.to_lowercase();
    let is_there = |heading: &&&str| {
        let wanted = heading.to_lowercase();
        small
            .lines()
            .any(|line| line.starts_with(['#', '*']) && line.contains(&wanted))
    };
    let missing = headings.iter().filter(|heading| !is_there(heading));
    let missing: Vec<&str> = missing.copied().collect();
    let mut lines = Vec::new();
    if !missing.is_empty() {
        lines.push((false, format!("- Nothing is said under: {}.", missing.join("; "))));
    }
    let quoted = joined(document);
    let keeps = all(facts, SUMMARY);
    for keep in keeps
        .iter()
        .filter(|keep| is_asked_for(keep) && is_wanted(keep, request))
    {
        let text = match keep.whole {
            true if quoted.contains(&joined(&keep.full)) => continue,
            false if holds(&small, &keep.short) => continue,
            true => keep.full.replace('\n', "\n  "),
            false => keep.short.clone(),
        };
        lines.push((keep.whole, format!("- {}: {text}", label(keep, facts, request))));
    }
    let mut out = String::new();
    let mut left = most;
    for (whole, line) in lines {
        let cost = match whole {
            true => 0,
            false => tokens(&line) + 1,
        };
        let Some(after) = left.checked_sub(cost) else {
            // What is kept whole may follow.
            left = 0;
            continue;
        };
        left = after;
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Whether a model's document is expected to have it.
fn is_asked_for(keep: &RetainedText) -> bool {
    use RetentionReason::{Last, Sentence, Summary};
    !matches!(keep.kept, Last | Summary | Sentence(SentenceClass::Fact))
}

fn label(keep: &RetainedText, facts: &DraftFacts<'_>, request: &DraftSpec<'_>) -> String {
    let label = match keep.kept {
        RetentionReason::Task if !request.has_goal() => "The user said",
        RetentionReason::Task if facts.all_done => "The request before this goal (done)",
        RetentionReason::Task => "The request before this goal (open)",
        RetentionReason::First => "First request (done)",
        kept => kept.label(),
    };
    label[..1].to_uppercase() + &label[1..]
}

impl<'i> Statements<'i> {
    /// A kept sentence as it is to be shown; `None`: a later one says it with another value.
    pub(super) fn shown(
        &self,
        turn: usize,
        anchor: &'i AnchoredSentence,
    ) -> Option<Cow<'i, AnchoredSentence>> {
        match self.fate(&spoken(turn, anchor), &anchor.text) {
            None => Some(Cow::Borrowed(anchor)),
            Some((Relation::Surely, _)) => None,
            Some((Relation::Perhaps, by)) => Some(Cow::Owned(AnchoredSentence {
                text: format!("{}{}", anchor.text, self.mark(Relation::Perhaps, by)),
                ..anchor.clone()
            })),
        }
    }

    /// The newest statement that replaces a kept sentence, with its turn: it is kept in the sentence's place.
    pub(super) fn instead(
        &self,
        turn: usize,
        anchor: &AnchoredSentence,
    ) -> Option<(usize, AnchoredSentence)> {
        let (_, by) = self.fate(&spoken(turn, anchor), &anchor.text)?;
        let said = self.newest(by);
        let mark = said.replaced.map(|(relation, by)| self.mark(relation, by));
        let instead = AnchoredSentence {
            class: anchor.class,
            by_user: said.by_user,
            text: one_line(said.text, SENTENCE) + &mark.unwrap_or_default(),
        };
        Some((said.turn, instead))
    }
}

fn spoken(turn: usize, anchor: &AnchoredSentence) -> SpokenText<'_> {
    SpokenText::new(turn, anchor.by_user, &anchor.text)
}
