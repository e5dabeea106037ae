//! Content of a conversation that a draft must have, each with its rank.

use std::collections::HashSet;

use super::fill::PieceRank;
use super::request::DraftSpec;
use crate::agents::wordings::UserText;
use crate::text::prose::joined;
use crate::text::tokens::tokens;
use crate::work::excerpt::{bounded, one_line, within};
use crate::work::replaced::SpokenText;
use crate::work::turns::IndexedTurn;
use crate::work::{SeenFailure, SentenceClass, Work, holds, is_kept};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetentionReason {
    /// The user's words in the current task.
    Task,
    /// The first request.
    First,
    /// The model's last words in one of the last two turns.
    Last,
    Sentence(SentenceClass),
    /// A failure that is not settled.
    Failure,
    /// A summary, or an earlier carry-over prompt.
    Summary,
}

impl RetentionReason {
    /// Label before the text.
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

/// Required content of a draft, in full and in a short form.
#[derive(Debug, Clone)]
pub(super) struct RetainedText {
    pub(super) kept: RetentionReason,
    /// Number of the turn.
    pub(super) turn: usize,
    pub(super) full: String,
    pub(super) short: String,
    /// Whether the text is kept whole and verbatim, as the first request is.
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

    /// Whether the full text lacks nothing.
    pub(super) fn is_complete(&self) -> bool {
        !self.full.ends_with("[…]")
    }
}

/// Tokens of an excerpt, and of its short form.
const EXCERPT: usize = 600;
const SHORT: usize = 60;
/// Bytes of an excerpt of the model's words, and tokens of its short form.
const STATEMENT_BYTES: usize = 1200;
const STATEMENT_SHORT: usize = 40;
/// Tokens of a summary in its short form.
const SUMMARY: usize = 150;
/// Minimum tokens of the first request that are kept: the scope of the work, in the user's words.
const MIN_FIRST: usize = 1000;

/// The required content in order of its kinds.
///
/// All summaries together may take `summary` tokens. The first request may take `most_first` tokens, or [`MIN_FIRST`] if
/// that is more.
pub(super) fn all(work: &Work<'_>, summary: usize, most_first: usize) -> Vec<RetainedText> {
    let mut keeps = Vec::new();
    let most_first = most_first.max(MIN_FIRST);
    keeps.extend(work.of_task().map(|turn| task(work, turn, most_first)));
    let first = work.earlier().next().map(|turn| first(work, turn, most_first));
    keeps.extend(first.clone());
    keeps.extend(summaries(work, summary));
    let sentences = work.anchors.iter().filter(|(turn, anchor)| {
        let is_in_first = || {
            first
                .as_ref()
                .is_some_and(|first| first.turn == *turn && first.is_complete())
        };
        // The user's words in the current task are included verbatim anyway.
        is_kept(anchor)
            && !(anchor.by_user && work.is_current(*turn))
            && !(anchor.class == SentenceClass::Fact && is_in_first())
    });
    keeps.extend(sentences.map(|(turn, anchor)| {
        RetainedText::new(
            RetentionReason::Sentence(anchor.class),
            *turn,
            &*anchor.text,
            &*anchor.text,
        )
    }));
    let commands = work.facts.failures.iter().filter(|failure| failure.is_run);
    keeps.extend(commands.map(failure));
    let from = work.turns.len().saturating_sub(2);
    keeps.extend(work.turns[from..].iter().filter_map(|turn| last(turn)));
    keeps
}

/// The required content of a draft, each with its rank.
pub(super) fn ranked(work: &Work<'_>, request: &DraftSpec<'_>) -> Vec<(RetainedText, PieceRank)> {
    let mut keeps = all(work, request.tokens / 2, request.tokens / 3);
    keeps.retain(|keep| is_wanted(keep, request));
    use RetentionReason::{Failure, Sentence};
    let is_open = |keep: &RetainedText| matches!(keep.kept, Failure | Sentence(SentenceClass::LeftOpen));
    let is_fact = |keep: &RetainedText| keep.kept == Sentence(SentenceClass::Fact);
    // Neither open failures nor facts may fill the document: a third and a quarter of it are required at most.
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

/// Whether a draft of this specification includes the text.
fn is_wanted(keep: &RetainedText, request: &DraftSpec<'_>) -> bool {
    request.commands || keep.kept != RetentionReason::Failure
}

/// Indexes of the oldest items of a kind beyond a token budget.
///
/// These may be dropped, so that a session with many of them still gets a document.
fn beyond(keeps: &[RetainedText], gives_way: impl Fn(&RetainedText) -> bool, most: usize) -> HashSet<usize> {
    /// Tokens of the label and the line break of an item.
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
fn first(work: &Work<'_>, turn: &IndexedTurn<'_>, most: usize) -> RetainedText {
    let said = work.said(turn);
    RetainedText {
        kept: RetentionReason::First,
        turn: turn.n,
        short: within(&joined(&said), SHORT).into_owned(),
        full: within(&said, most).into_owned(),
        whole: true,
    }
}

/// A request of the current task. If it is the first of the conversation, it is kept whole.
fn task(work: &Work<'_>, turn: &IndexedTurn<'_>, most_first: usize) -> RetainedText {
    let text = work.said(turn);
    let is_first = work.earlier().next().is_none() && work.of_task().next().is_some_and(|t| t.n == turn.n);
    let is_newest = turn.n == work.turns.len();
    let most = match is_first {
        true => most_first.max(EXCERPT),
        false if is_newest => MIN_FIRST,
        false => EXCERPT,
    };
    RetainedText {
        kept: RetentionReason::Task,
        turn: turn.n,
        full: within(&text, most).into_owned(),
        short: within(&text, SHORT).into_owned(),
        whole: is_first,
    }
}

fn summaries(work: &Work<'_>, most: usize) -> Vec<RetainedText> {
    let is_summary = |kind: UserText| matches!(kind, UserText::Summary | UserText::Branch);
    let spoken = work.turns.iter().flat_map(|turn| {
        let texts = turn.opening.iter().chain(&turn.replies);
        let texts = texts.filter(|spoken| is_summary(spoken.kind));
        texts.map(|spoken| SpokenText::new(turn.n, false, &spoken.text))
    });
    let all: Vec<_> = spoken.collect();
    // Each summary covers those before it, so the last one may take more than half of the room.
    let each = most / all.len().max(1);
    let last = all.len().saturating_sub(1);
    let share = |at: usize| match at == last {
        true => most.saturating_sub(each * last / 2),
        false => each / 2,
    };
    let keep = |(at, spoken): (usize, &SpokenText<'_>)| {
        let text = work.statements.marked(*spoken);
        let (full, short) = (within(&text, share(at)), within(&text, SUMMARY.min(most / 4)));
        RetainedText::new(RetentionReason::Summary, spoken.turn, full, short)
    };
    all.iter().enumerate().map(keep).collect()
}

fn failure(failure: &SeenFailure) -> RetainedText {
    let (full, short) = (failure.line(usize::MAX), failure.line(1));
    RetainedText::new(RetentionReason::Failure, failure.turn, full, short)
}

fn last(turn: &IndexedTurn<'_>) -> Option<RetainedText> {
    let text = &turn
        .replies
        .iter()
        .rfind(|reply| reply.kind == UserText::User)?
        .text;
    let line = one_line(text, STATEMENT_BYTES);
    // The end names remaining work and offers.
    let (full, short) = (bounded(text, STATEMENT_BYTES), within(&line, STATEMENT_SHORT));
    Some(RetainedText::new(RetentionReason::Last, turn.n, full, short))
}

/// The section to append to a model's document: required facts that the document does not mention.
///
/// The section has at most `most` tokens in addition to the first request. Empty if nothing is missing.
pub(super) fn lacking(work: &Work<'_>, document: &str, request: &DraftSpec<'_>, most: usize) -> String {
    let small = document.to_lowercase();
    let quoted = joined(document);
    let mut out = String::new();
    let mut left = most;
    let keeps = all(work, SUMMARY, MIN_FIRST);
    for keep in keeps
        .iter()
        .filter(|keep| is_asked_for(keep) && is_wanted(keep, request))
    {
        let text = match keep.whole {
            // A request that is kept whole must be there verbatim, while the words of other items suffice.
            true if quoted.contains(&joined(&keep.full)) => continue,
            false if holds(&small, &keep.short) => continue,
            true => keep.full.replace('\n', "\n  "),
            false => keep.short.clone(),
        };
        let line = format!("- {}: {text}", label(keep, work, request));
        let cost = match keep.whole {
            true => 0,
            false => tokens(&line) + 1,
        };
        let Some(after) = left.checked_sub(cost) else {
            // Text that is kept whole may follow, and does not count.
            left = 0;
            continue;
        };
        left = after;
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Whether a model's document is expected to include the text.
fn is_asked_for(keep: &RetainedText) -> bool {
    use RetentionReason::{Last, Sentence, Summary};
    !matches!(keep.kept, Last | Summary | Sentence(SentenceClass::Fact))
}

fn label(keep: &RetainedText, work: &Work<'_>, request: &DraftSpec<'_>) -> String {
    let label = match keep.kept {
        RetentionReason::Task if !request.has_goal() => "The user said",
        RetentionReason::Task if work.all_done => "The request before this goal (done)",
        RetentionReason::Task => "The request before this goal (open)",
        RetentionReason::First => "First request (done)",
        kept => kept.label(),
    };
    label[..1].to_uppercase() + &label[1..]
}
