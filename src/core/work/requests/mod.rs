//! The user's requests: which sentences ask, and which requests are done.

mod closing;
mod continuing;
mod words;

pub(crate) use self::closing::{claims_done, last_offer, last_question, names_next_step};
pub(crate) use self::continuing::continues;

use self::closing::{claims_change, names_rest, says_left};
use self::continuing::{Continuation, continuation};
use self::words::{ASKING, after_reply, ends_with_any, is_choice, praise, words_in, words_of};
use super::excerpt::{one_line, sentences};
use super::markers::SENTENCE;
use super::replaced::Statement;
use super::turns::{IndexedTurn, TurnEnd};
use super::words::WORDS;
use super::{SeenFacts, SeenStatement};
use crate::agents::wordings::UserText;
use crate::text::newest;
use crate::text::phrases::Beginnings;
use crate::text::prose::{list_item, lower};

/// Maximum number of words in an answer to a question: "Add the long one" may be a choice.
const MAX_ANSWER_WORDS: usize = 4;

/// Maximum number of remembered finished requests; the newest are kept.
const MAX_FINISHED: usize = 40;

/// Whether a message only tells the model to continue or to try again, or chooses one of its suggestions.
pub(crate) fn is_reply(text: &str) -> bool {
    /// Maximum number of words in such a message.
    const LONGEST: usize = 8;
    let small = lower(text);
    let words = words_in(&small);
    let is_reply = |word: &str| ASKING.replies.contains(word) || is_choice(word);
    words.clone().nth(LONGEST).is_none() && (words.clone().all(is_reply) || praise(words))
}

/// Whether a message only thanks the model or praises its work.
pub(crate) fn is_praise(text: &str) -> bool {
    let small = lower(text);
    let words = words_in(&small);
    let is_empty = || words.clone().next().is_none() && !text.trim().is_empty() && !text.is_ascii();
    is_empty() || praise(words.clone())
}

/// Whether a message begins by accepting a proposal of the model, and may then ask for more: `Yes, do that, and …`
pub(crate) fn accepts(text: &str) -> bool {
    let small = lower(text);
    let first = small.split([',', '.', '!', ';', '\n']).next().unwrap_or_default();
    let first = first.split(" and ").next().unwrap_or_default();
    let words = words_of(first);
    let accepts = |word: &&str| ASKING.yes_or_no.contains(word) || matches!(*word, "do" | "go");
    is_reply(first) && words.iter().any(accepts) || matches!(continuation(&small), Some(Continuation::Other))
}

/// Whether a message puts off the request before it.
pub(super) fn postpones(text: &str) -> bool {
    let small = lower(text);
    let mut rests = ASKING.postpones.rests(small.trim());
    rests.any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Whether a message may only answer a question of the model: it is short, and asks for nothing but one of its suggestions.
pub(crate) fn is_answer(text: &str) -> bool {
    const MAX_ANSWER_BYTES: usize = 80;
    let small = lower(text);
    let words = words_of(&small);
    let answers = || {
        words
            .first()
            .is_some_and(|first| ASKING.yes_or_no.contains(first))
    };
    // `a` is an article, and `Q:` announces a question.
    let is_number = |word: &&str| is_choice(word) && word.starts_with(|c| matches!(c, '0'..='9' | 'b'..='h'));
    let chooses = || words.iter().any(is_number);
    text.len() <= MAX_ANSWER_BYTES && (!sentences(text).any(asks) || answers() || chooses())
}

/// Whether a message reports that the request before it is not done: `It still fails.`
pub(crate) fn is_complaint(text: &str) -> bool {
    /// Maximum size of such a message in bytes. A longer one makes a request of its own.
    const MAX_COMPLAINT_BYTES: usize = 300;
    let is_unsolved = |small: &str| ASKING.unsolved.occur_in(small) || ASKING.unsolved_within.occur_in(small);
    text.len() <= MAX_COMPLAINT_BYTES && is_unsolved(&lower(text)) && !sentences(text).any(asks)
}

/// Whether a sentence reports a fault that is left.
pub(crate) fn reports_unsolved(text: &str) -> bool {
    let small = lower(text);
    ASKING.unsolved.occur_in(&small) || ASKING.unsolved_within.occur_in(&small)
}

/// Whether a sentence asks for an action or an answer, and so no longer matters once it is done.
pub(crate) fn asks(sentence: &str) -> bool {
    let small = lower(sentence);
    let mut rest = small.trim_start_matches(|c: char| !c.is_alphanumeric());
    loop {
        // `Go through the list` begins with a reply too, and `Yes, now add a test` asks after one.
        if let Some(asks) = is_request_at(rest) {
            return asks;
        }
        match after_reply(rest) {
            // `The test fails` begins with a noun, and `That works, add one` with a reply.
            Some((first, after))
                if !ASKING.before_noun.contains(&first)
                    || !after.starts_with(' ')
                    || after_reply(&after[1..]).is_some() =>
            {
                rest = after.trim_start_matches(|c: char| !c.is_alphanumeric());
            }
            _ => break,
        }
    }
    is_question(&small)
        || ASKING.asks_anywhere.occur_in(&small)
        || !small.is_ascii() && small.split(['，', '。']).any(orders_within)
        || matches!(continuation(&small), Some(Continuation::Other))
        || after_clause(rest).or_else(|| after_label(rest)).is_some_and(asks)
}

/// Whether a lower-case sentence begins with a request, or else with a decision or a correction.
///
/// `None` if the sentence begins with neither.
fn is_request_at(rest: &str) -> Option<bool> {
    // `release_train=2` asks for nothing.
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '=');
    let begins = |words: &Beginnings| words.rests(rest).any(|after| !after.starts_with(is_inner));
    // "I thought we wanted the other one?" is a correction, and "let's keep it simple" a decision.
    let decides =
        ["let's ", "lets "].iter().any(|words| rest.starts_with(words)) && ASKING.contrasts.occur_in(rest);
    // `But can you close it?` asks like any question.
    let asks_still = || {
        rest.strip_prefix("but ")
            .is_some_and(|rest| has_question_mark(rest) && is_request_at(rest) == Some(true))
    };
    if asks_still() {
        return Some(true);
    }
    if decides || begins(&ASKING.corrects) || begins(&ASKING.decides) {
        return Some(false);
    }
    if ASKING.next_thing.rests(rest).any(is_thing) {
        return Some(true);
    }
    // `The build fails` and `release is late` ask for nothing.
    let states = |after: &str| {
        let next = after
            .strip_prefix(' ')
            .and_then(|after| after.split([' ', '.', ',']).next());
        next.is_some_and(|next| ASKING.predicates.contains(&next))
    };
    let mut orders = ASKING
        .asks
        .rests(rest)
        .filter(|after| !after.starts_with(is_inner));
    orders.next().is_some_and(|after| !states(after)).then_some(true)
}

/// Whether the rest of a sentence up to its first comma is only the name of a thing.
fn is_thing(rest: &str) -> bool {
    /// Maximum number of words of a thing. Most statements have more.
    const MAX_WORDS: usize = 3;
    let name = rest.split(',').next().unwrap_or_default();
    let words = words_of(name);
    let states = |word: &&str| {
        ASKING.predicates.contains(word) || ASKING.no_name.contains(word) || word.ends_with("n't")
    };
    (1..=MAX_WORDS).contains(&words.len()) && !words.iter().any(states)
}

/// Whether a lower-case sentence is a question, by its mark or, in languages that need none, by its last clause.
pub(crate) fn is_question(small: &str) -> bool {
    has_question_mark(small) || is_marked_question(last_clause(asking_end(small)))
}

/// Whether a lower-case sentence ends with a question mark.
pub(crate) fn has_question_mark(small: &str) -> bool {
    let end = asking_end(small);
    // `Keep it, okay?` only asks for agreement.
    let is_tag = || {
        let last = last_clause(end);
        let words = last.trim_matches(|c| c == ' ' || QUESTION_MARKS.contains(&c));
        last.len() < end.len() && ASKING.agrees.contains(words)
    };
    end.ends_with(QUESTION_MARKS) && !is_tag()
}

const QUESTION_MARKS: [char; 2] = ['?', '？'];

/// A sentence up to its last letter or question mark: a smiley may follow it.
fn asking_end(small: &str) -> &str {
    small.trim_end_matches(|c: char| !c.is_alphanumeric() && !QUESTION_MARKS.contains(&c))
}

fn last_clause(end: &str) -> &str {
    end.rsplit(['，', ',', '。']).next().unwrap_or_default()
}

/// Whether a clause has a word of a question in a language without question marks.
pub(super) fn is_marked_question(clause: &str) -> bool {
    let clause = clause.trim();
    // `这里不需要什么` denies.
    let denies = |word: &&str| {
        let (before, after) = clause.split_once(*word).unwrap_or_default();
        after.contains("什么") && !before.contains("什么") && !before.ends_with('需')
    };
    let is_denied = || ["不需要", "无需", "不必"].iter().any(denies);
    ends_with_any(clause, &ASKING.asks_last) || ASKING.asks_within.occur_in(clause) && !is_denied()
}

/// Whether a clause in a language without spaces has an order, which neither `可以加上` nor `打开的端口` is.
fn orders_within(clause: &str) -> bool {
    // `测试环境是新的` names a thing.
    let states = |after: &str| {
        after.starts_with(['的', '了', '过', '后', '时', '中', '完', '来', '会'])
            || after.contains(['是', '不'])
            || ASKING.no_order.iter().any(|word| after.contains(word))
    };
    let first = clause.trim_start_matches(|c: char| !c.is_alphanumeric());
    let before = ASKING.orders_after.iter();
    let first = before.fold(first, |first, word| first.strip_prefix(word).unwrap_or(first));
    if ASKING.orders_first.rests(first).any(|after| !states(after)) {
        return true;
    }
    let is_stated = |before: &str| ASKING.states_before.iter().any(|word| before.contains(word));
    let mut orders = ASKING
        .orders_within
        .iter()
        .filter_map(|word| clause.split_once(word));
    orders.any(|(before, after)| !is_stated(before) && !after.starts_with(['的', '了', '過']))
}

/// The rest of a sentence after a clause that leads to its request.
fn after_clause(sentence: &str) -> Option<&str> {
    let (clause, rest) = sentence.split_once(", ")?;
    let first = clause.split_whitespace().next()?;
    ASKING.before_request.contains(&first).then_some(rest)
}

/// The rest of a list's item after a short label: `2. Data: Add the rows`.
fn after_label(sentence: &str) -> Option<&str> {
    const MAX_LABEL_WORDS: usize = 2;
    let (label, rest) = list_item(sentence)?.split_once(": ")?;
    label
        .split_whitespace()
        .nth(MAX_LABEL_WORDS)
        .is_none()
        .then_some(rest)
}

/// Whether a sentence has a wish or a decision, or is about those who speak.
pub(super) fn is_personal(sentence: &str) -> bool {
    ASKING.personal.occur_in(&lower(sentence))
}

/// Whether a user's words only tell the model to continue, or thank it.
pub(crate) fn lets_go_on(turn: &IndexedTurn<'_>) -> bool {
    let text = turn.user_text();
    !text.trim().is_empty() && (is_reply(&text) || continues(&text))
}

/// For each turn, the index of the last one that continues it, or that reports that it is not done.
pub(super) fn ends_of_requests(turns: &[IndexedTurn<'_>]) -> Vec<usize> {
    let mut ends: Vec<usize> = (0..turns.len()).collect();
    for at in (1..turns.len()).rev() {
        let (turn, before) = (&turns[at], &turns[at - 1]);
        let is_correction =
            || before.ended == TurnEnd::Interrupted && (!asks_anew(turn) || share_matter(turn, before));
        if lets_go_on(turn) || is_complaint(&turn.user_text()) || is_correction() {
            ends[at - 1] = ends[at];
        }
    }
    ends
}

/// Whether two requests share more than one word.
pub(super) fn share_matter(turn: &IndexedTurn<'_>, before: &IndexedTurn<'_>) -> bool {
    let (text, before) = (turn.user_text(), before.user_text());
    let (text, before) = (Statement::from_sentence(&text), Statement::from_sentence(&before));
    text.overlap(&before).1 > 1
}

/// The last turn that does more than to thank the model.
fn last_work<'t, 'i>(turns: &'t [IndexedTurn<'i>]) -> Option<&'t IndexedTurn<'i>> {
    let mut back = turns.iter().rev();
    // The thanks and the model's answer to them: no calls.
    back.find(|turn| turn.messages.len() > 2 || !is_praise(&turn.user_text()))
}

/// Whether a turn only asks for information, and the model answered.
fn is_answered_question(turn: &IndexedTurn<'_>) -> bool {
    let text = turn.user_text();
    let informs = |sentence: &str| {
        let small = lower(sentence);
        is_question(&small) && ASKING.informs.begin(&small)
    };
    let is_unsure = || turn.replies.last().is_some_and(|reply| names_rest(&reply.text));
    let mut asked = sentences(&text).peekable();
    asked.peek().is_some() && asked.all(informs) && turn.ended == TurnEnd::Answered && !is_unsure()
}

/// Whether the last words of a task answer a question, and report no work.
pub(super) fn ends_with_question(turns: &[IndexedTurn<'_>], facts: &SeenFacts) -> bool {
    last_work(turns).is_some_and(|turn| is_answered_question(turn) && !is_claimed_done(turn, facts))
}

/// Whether a turn makes a new request, and neither tells the model to continue nor answers its question.
pub(crate) fn is_request(turns: &[IndexedTurn<'_>], turn: &IndexedTurn<'_>) -> bool {
    let text = turn.user_text();
    let before = turn.n.checked_sub(2).and_then(|before| turns.get(before));
    let is_asked = before.is_some_and(|before| before.ended == TurnEnd::Question);
    // `The second one` after a question is an answer, and continues the task.
    let is_short = text.split_whitespace().count() <= MAX_ANSWER_WORDS;
    // After a question that only asked, `Yes, go ahead, and open it` requests more.
    let is_question = |sentence: &str| is_question(&lower(sentence));
    let only_asked = before.is_some_and(|before| sentences(&before.user_text()).all(is_question));
    only_asked && !is_short || !(lets_go_on(turn) || is_asked && is_short)
}

/// Whether a turn begins with a request in several words, and not with the answer to a question.
fn asks_anew(turn: &IndexedTurn<'_>) -> bool {
    let text = turn.user_text();
    text.split_whitespace().count() > MAX_ANSWER_WORDS && sentences(&text).any(asks)
}

/// Start of the current task: the last request, and the earlier requests that it continues.
///
/// A request continues the previous one if that was stopped or ended with a question that it answers. It also does if it
/// only tells the model to continue.
pub(crate) fn current(turns: &[IndexedTurn<'_>]) -> usize {
    let Some(mut at) = turns.len().checked_sub(1) else {
        return 0;
    };
    while at > 0 {
        let goes_on = lets_go_on(&turns[at]) || is_complaint(&turns[at].user_text());
        // A new request after a question drops the question.
        let unfinished = match turns[at - 1].ended {
            TurnEnd::Answered => answers(&turns[at - 1], &turns[at]),
            TurnEnd::Question | TurnEnd::Announced => !asks_anew(&turns[at]),
            TurnEnd::Interrupted | TurnEnd::Working => true,
        };
        let from_user = turns[at].is_from_user();
        if from_user && !goes_on && !unfinished {
            break;
        }
        at -= 1;
    }
    at
}

/// Whether a turn answers a question that the model asked in the turn before.
fn answers(before: &IndexedTurn<'_>, turn: &IndexedTurn<'_>) -> bool {
    let is_asked = || {
        before
            .replies
            .last()
            .is_some_and(|reply| last_question(&reply.text).is_some())
    };
    is_answer(&turn.user_text()) && is_asked()
}

/// Whether nothing of the current task is open.
pub(super) fn is_all_done(turns: &[IndexedTurn<'_>], current: usize, facts: &SeenFacts) -> bool {
    let has_open_todo = facts.todos_turn > current && facts.todos.iter().any(|todo| todo.state.is_open());
    !has_open_todo
        && last_work(turns).is_some_and(|turn| {
            // The answer to a question within a task does not finish the task.
            is_claimed_done(turn, facts) || turn.n == current + 1 && is_answered_question(turn)
        })
        && !has_failure(facts, |turn| turn > current)
}

/// The requests that the model ended by stating that all was done, while nothing failed that leaves work.
pub(super) fn finished(turns: &[IndexedTurn<'_>], facts: &SeenFacts) -> Vec<SeenStatement> {
    let mut found: Vec<SeenStatement> = Vec::new();
    for turn in turns {
        let said = turn.user_text();
        if is_complaint(&said) || continues(&said) {
            found.retain(|known| known.turn + 1 < turn.n);
        }
        let asked = turn.opening.iter().filter(|text| text.kind == UserText::User);
        for request in asked.filter(|text| text.text.len() <= SENTENCE) {
            let text = one_line(&request.text, SENTENCE);
            // A request that was made again is open until its last occurrence is done.
            found.retain(|known| !known.text.eq_ignore_ascii_case(&text));
            if is_claimed_done(turn, facts) && !has_failure(facts, |failed| failed == turn.n) {
                newest::push(&mut found, MAX_FINISHED, SeenStatement::new(text, turn.n));
            }
        }
    }
    found
}

/// Whether the last run of a check failed in one of these turns, or another failure there leaves work.
fn has_failure(facts: &SeenFacts, is_turn: impl Fn(usize) -> bool) -> bool {
    let mut checks = facts.verification.iter();
    let mut failures = facts.failures.iter();
    checks.any(|check| check.passed == Some(false) && is_turn(check.turn))
        || failures.any(|failure| failure.leaves_work() && is_turn(failure.turn))
}

/// Whether the model ended a turn by stating that all was done.
fn is_claimed_done(turn: &IndexedTurn<'_>, facts: &SeenFacts) -> bool {
    turn.ended == TurnEnd::Answered && reports(turn, facts, claims_done)
}

/// Whether the model's last words in a turn report its request as done, even if they end with a question.
pub(crate) fn is_reported_done(turn: &IndexedTurn<'_>, facts: &SeenFacts) -> bool {
    reports(turn, facts, |text| {
        claims_done(text) || WORDS.did.occur_in(&lower(text))
    })
}

/// Whether the model's last words in a turn satisfy `claims`, or name a change, and the turn changed files.
fn reports(turn: &IndexedTurn<'_>, facts: &SeenFacts, claims: impl Fn(&str) -> bool) -> bool {
    let changed = || facts.files.iter().any(|file| file.turn == turn.n);
    let last = turn.replies.last();
    last.is_some_and(|reply| claims(&reply.text) || claims_change(&reply.text) && changed())
}

/// Whether the model reported that a part of a request is left, or a failure of the turn leaves work.
pub(crate) fn is_unfinished(turn: &IndexedTurn<'_>, facts: &SeenFacts) -> bool {
    has_failure(facts, |failed| failed == turn.n)
        || turn.replies.last().is_some_and(|reply| says_left(&reply.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_ask_in_each_form_of_chinese() {
        for order in [
            "分析项目",
            "先重构一下",
            "合并回master",
            "請幫我寫測試",
            "把按钮放到左边",
            "recreate the index",
        ] {
            assert!(asks(order), "{order}");
        }
        for statement in [
            "测试环境是新的",
            "退回代码之后，立马就能正常打开了",
            "安装后没有变化",
            "将来会有三层",
            "lets continue to use the old door",
        ] {
            assert!(!asks(statement), "{statement}");
        }
    }
}
