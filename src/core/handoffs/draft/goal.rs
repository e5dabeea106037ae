//! The goal and the next steps of a document that is composed without a model.

use crate::work::excerpt::{one_line, sentences};
use crate::work::{Work, requests};

/// Labels of the goal: of an open request, of a finished one, and of a request before the task.
pub(super) const OPEN_GOAL: &str = "Goal (the last open request): ";
pub(super) const LAST_GOAL: &str = "Last goal (done): ";
pub(super) const EARLIER_GOAL: &str = "Goal (as stated before): ";

/// The goal of an open request in a document that was composed here.
pub(super) fn open_goal(document: &str) -> Option<&str> {
    let mut labelled = document.lines().filter_map(|line| {
        let goal = line.strip_prefix(OPEN_GOAL);
        goal.or_else(|| line.strip_prefix(EARLIER_GOAL))
    });
    labelled.next()
}

/// A message as a goal: all of a short one, otherwise the part from the first sentence that asks.
pub(super) fn goal_in(words: &str) -> String {
    const MAX_GOAL_BYTES: usize = 300;
    // `Great!` and `For the exporter:` are not goals, but `Look at this error:` is one.
    let is_goal = |sentence: &&str| {
        let end = sentence.trim_end().chars().next_back();
        end != Some('!') && (end != Some(':') || requests::asks(sentence))
    };
    let mut rest = sentences(words)
        .skip_while(|sentence| !is_goal(sentence))
        .peekable();
    if rest.peek().is_none() {
        return one_line(words, MAX_GOAL_BYTES);
    }
    let all: Vec<&str> = rest.collect();
    let length: usize = all.iter().map(|sentence| sentence.len() + 1).sum();
    let asks = all
        .iter()
        .position(|sentence| is_goal(sentence) && requests::asks(sentence));
    let from = asks.filter(|_| length > MAX_GOAL_BYTES).unwrap_or_default();
    one_line(&all[from..].join(" "), MAX_GOAL_BYTES)
}

/// The user's newest message before the task, or else the goal of a summary or of an earlier carry-over prompt.
pub(super) fn earlier_goal(work: &Work<'_>) -> Option<(usize, String)> {
    let typed = work
        .earlier()
        .next_back()
        .map(|turn| (turn.n, goal_in(&work.said(turn))));
    let handed_over = || {
        let turn = work.turns.iter().rev().find(|turn| !turn.opening.is_empty())?;
        let text = &turn.opening.last()?.text;
        let labelled = text.lines().find_map(|line| {
            let line = line.trim_start_matches(['#', '*', '-', ' ']);
            let (label, goal) = line.split_once(':')?;
            let is_goal = label.to_lowercase().starts_with("goal") || label.eq_ignore_ascii_case("next");
            (is_goal && goal.contains(char::is_alphanumeric)).then(|| goal.trim())
        });
        let goal =
            labelled.or_else(|| sentences(text).find(|sentence| !sentence.trim_end().ends_with(':')))?;
        Some((turn.n, goal_in(goal)))
    };
    typed.filter(|(_, goal)| !goal.is_empty()).or_else(handed_over)
}
