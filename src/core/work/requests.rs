//! The user's requests, and which of them are done.

use super::excerpt::one_line;
use super::markers::SENTENCE;
use super::turns::{IndexedTurn, TurnEnd};
use super::words::WORDS;
use super::{SeenFacts, SeenStatement, SeenVerification};
use crate::agents::wordings::UserText;
use crate::text::newest;

/// Maximum number of remembered finished requests; the newest are kept.
const MAX_FINISHED: usize = 40;

/// Whether nothing of the current task is open.
pub(super) fn is_all_done(turns: &[IndexedTurn<'_>], current: usize, facts: &SeenFacts) -> bool {
    let has_open_todo = facts.todos_turn > current && facts.todos.iter().any(|todo| todo.state.is_open());
    let is_of_task = |check: &SeenVerification| check.turn > current;
    !has_open_todo
        && turns.last().is_some_and(is_claimed_done)
        && !has_failing_check(&facts.verification, is_of_task)
}

/// The requests that the model ended by stating that all was done, while no check failed.
pub(super) fn finished(turns: &[IndexedTurn<'_>], checks: &[SeenVerification]) -> Vec<SeenStatement> {
    let mut found: Vec<SeenStatement> = Vec::new();
    for turn in turns {
        let asked = turn.opening.iter().filter(|text| text.kind == UserText::User);
        for request in asked.filter(|text| text.text.len() <= SENTENCE) {
            let text = one_line(&request.text, SENTENCE);
            found.retain(|known| !known.text.eq_ignore_ascii_case(&text));
            if is_claimed_done(turn) && !has_failing_check(checks, |check| check.turn == turn.n) {
                newest::push(&mut found, MAX_FINISHED, SeenStatement::new(text, turn.n));
            }
        }
    }
    found
}

/// Whether the last run of one of these checks failed.
fn has_failing_check(checks: &[SeenVerification], counts: impl Fn(&SeenVerification) -> bool) -> bool {
    checks
        .iter()
        .any(|check| check.passed == Some(false) && counts(check))
}

/// Whether the model ended a turn by stating that all was done.
fn is_claimed_done(turn: &IndexedTurn<'_>) -> bool {
    let last = turn.replies.last().filter(|_| turn.ended == TurnEnd::Answered);
    last.is_some_and(|reply| claims_done(&reply.text))
}

/// Whether a model's last words state that the task is done.
fn claims_done(text: &str) -> bool {
    // "Let me know" is an offer of help: its "let me" does not announce more work.
    let text = text.to_lowercase().replace("let me know", "");
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    has(&WORDS.done) && !has(&WORDS.not_done)
}
