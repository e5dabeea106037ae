//! Finds the position of a handoff in a transcript that lacks its sentinel.
//!
//! An agent that is stopped while it reads a response may omit the whole response from its next request. It
//! then sends the transcript of the previous request, byte for byte except for cache breakpoints, and new
//! user text. The handoff in the response belongs between the two.
//!
//! Gemini CLI puts a placeholder in the response's position. When it resumes such a session, it resends the
//! earlier transcript with changes: calls without their signatures, and results twice. After a placeholder,
//! only the text must be the same.
//!
//! goose moves one of its messages through the transcript, so the bytes before the position change. The text
//! around that message identifies the position.

use super::positions::digests;
use super::text_fingerprints::{are_before, has_moved, texts};
use crate::agents::wordings;
use crate::record::CutPoint;
use crate::text::json;
use crate::wire::view::{Role, TurnPart, TurnPartKind, View};

/// Maximum number of cut points that are looked up by their text, newest first.
const MOST_MOVED: usize = 4;

/// Maximum number of positions of a missing response that are looked up in the store, newest first.
///
/// Each costs a query, and a transcript may consist of user messages only.
const MAX_MISSING: usize = 256;

/// Finds the last of these cut points that matches a transcript after turn `after`, and the turn that follows
/// it.
///
/// That turn is neither the first one nor the first after the leading system messages. `is_relied_on` tells
/// whether a request was cut there before. If none was, and the model has spoken since, the transcript is an
/// older branch that continued without the handoff.
pub fn last_in<'a>(
    view: &View,
    points: impl IntoIterator<Item = &'a CutPoint>,
    after: Option<usize>,
    is_relied_on: impl Fn(&CutPoint) -> bool,
) -> Option<(usize, &'a CutPoint)> {
    let leading = view.leading();
    let mut maybe: Vec<&CutPoint> = points.into_iter().collect();
    let is_movable = |p: &&CutPoint| is_relied_on(p) || has_moved(&p.texts);
    let movable: Vec<&CutPoint> = maybe.iter().copied().filter(is_movable).collect();
    // Cheap conditions first, because a digest takes time in proportion to the transcript.
    maybe.retain(|p| {
        let at = leading + p.position.turns;
        // The position right after the system messages fits any other request whose rest upstream stores, so
        // it proves nothing.
        let fits = p.position.turns > 0 && after.is_none_or(|turn| at > turn) && answer_missing(view, at);
        fits && (is_relied_on(p) || ends_with_new_text(view, at))
    });
    // If two are at one position, the last listed is the newer one. Ids do not tell, because they come from
    // different clocks.
    maybe.sort_by_key(|p| p.position.turns);
    let counts: Vec<usize> = maybe.iter().map(|p| p.position.turns).collect();
    let digests = digests(view, &counts);
    let valid = maybe
        .iter()
        .zip(digests)
        // The last one that matches is the newest handoff.
        .rfind(|(p, digest)| p.position.digest == *digest || is_resent(view, p));
    let valid = valid.map(|(p, _)| (leading + p.position.turns, *p));
    let is_found = |point: &CutPoint| valid.is_some_and(|(_, found)| found.handoff == point.handoff);
    // The text around a moved message is weaker evidence than a digest, so it can only show a later handoff.
    let behind = valid.map(|(turn, _)| turn).or(after);
    let newest_first = movable.iter().rev().take(MOST_MOVED);
    let mut newer = newest_first.take_while(|point| !is_found(point));
    let moved = newer.find_map(|point| {
        let at = moved_to(view, point, behind)?;
        (is_relied_on(point) || ends_with_new_text(view, at)).then_some((at, *point))
    });
    moved.or(valid)
}

/// Finds the turn after this cut point by the text before it, because the agent has moved one of its
/// messages.
fn moved_to(view: &View, point: &CutPoint, after: Option<usize>) -> Option<usize> {
    let mut places = places_of_answers(view, after);
    places.find(|at| are_before(view, *at, &point.texts))
}

/// Digests of the transcript up to each position after turn `after` where a response may be missing.
///
/// These are user messages that follow no response. Only the last 256 count, in transcript order.
pub fn missing_answers(view: &View, after: Option<usize>) -> Vec<String> {
    let counts = places_of_answers(view, after).map(|at| at - view.leading());
    digests(view, &counts.collect::<Vec<_>>())
}

/// The last 256 user messages after turn `after` that follow no response, in transcript order.
fn places_of_answers(view: &View, after: Option<usize>) -> impl Iterator<Item = usize> {
    let first = view.leading() + 1;
    let first = after.map_or(first, |turn| turn + 1).max(first);
    let is_missing = |at: &usize| {
        let before = view.turns[at - 1].role;
        matches!(before, Role::User | Role::Tool) && answer_missing(view, *at)
    };
    let newest = (first..view.turns.len()).rev().filter(is_missing);
    let mut places: Vec<usize> = newest.take(MAX_MISSING).collect();
    places.reverse();
    places.into_iter()
}

/// Whether a response may be missing before turn `at`, because the user speaks there, or after a placeholder
/// there.
fn answer_missing(view: &View, at: usize) -> bool {
    new_text(view, at) || is_placeholder(view, at) && new_text(view, at + 1)
}

/// Whether the model is silent from turn `at` on.
fn ends_with_new_text(view: &View, at: usize) -> bool {
    let from = at + usize::from(is_placeholder(view, at));
    (from..view.turns.len()).all(|turn| !view.is_models(turn))
}

/// Whether turn `at` is an agent's placeholder for a response.
fn is_placeholder(view: &View, at: usize) -> bool {
    if view.turns.get(at).is_none_or(|turn| turn.role != Role::Assistant) {
        return false;
    }
    let parts = view.content(at).parts;
    let [TurnPart { text: Some(text), .. }] = parts[..] else {
        return false;
    };
    wordings::is_answer_placeholder(&json::unescape(view.text(text)))
}

/// Whether the text since the previous cut, up to a placeholder, is that of the cut point's request.
fn is_resent(view: &View, point: &CutPoint) -> bool {
    let at = view.leading() + point.position.turns;
    !point.texts.is_empty() && is_placeholder(view, at) && texts(view, 0..at).starts_with(&point.texts)
}

/// Whether turn `at` contains user text.
fn new_text(view: &View, at: usize) -> bool {
    let is_users = view.turns.get(at).is_some_and(|t| t.role == Role::User);
    is_users
        && view
            .content(at)
            .parts
            .iter()
            .any(|p| p.kind == TurnPartKind::Text)
}

#[cfg(test)]
mod tests {
    use super::super::positions;
    use super::*;
    use crate::wire::Operation;
    use crate::wire::anthropic;
    use bytes::Bytes;
    use serde_json::{Value, json};
    use uuid::Uuid;

    fn view(messages: &[Value]) -> View {
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        anthropic::WIRE
            .read(&Bytes::from(body), Operation::Generate)
            .unwrap()
    }

    fn point(view: &View) -> CutPoint {
        CutPoint {
            handoff: Uuid::now_v7(),
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            position: positions::of(view),
            texts: Vec::new(),
            before_command: false,
            created_ms: 1,
        }
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": [{"type": "text", "text": text}]})
    }

    fn result(cached: bool) -> Value {
        let mut block =
            json!({"type": "tool_result", "tool_use_id": "t", "content": "\"cache_control\": \"x\""});
        if cached {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
        json!({"role": "user", "content": [block]})
    }

    fn call() -> Value {
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]})
    }

    #[test]
    fn a_transcript_followed_by_new_text_is_found_and_nothing_else_is() {
        let before = [user("one"), call(), result(true)];
        let known = point(&view(&before));
        let found = |messages: &[Value]| {
            last_in(&view(messages), [&known], None, |_| false).map(|(at, p)| (at, p.handoff))
        };
        let here = Some((3, known.handoff));
        let next = [user("one"), call(), result(false), user("two")];
        assert_eq!(found(&next), here);
        let later = view(&[&next[..], &[call(), result(true)]].concat());
        let found_later = |relied: bool| last_in(&later, [&known], None, |_| relied).map(|(at, _)| at);
        assert_eq!(found_later(true), Some(3), "found again later");
        assert_eq!(found_later(false), None, "an older branch");
        assert_eq!(found(&before), None, "the same request again");
        assert_eq!(found(&[user("one"), user("two")]), None, "from an earlier point");
        assert_eq!(
            found(&[user("One"), call(), result(false), user("two")]),
            None,
            "another transcript"
        );
        assert_eq!(
            found(&[user("one"), call(), result(false), call()]),
            None,
            "no text"
        );
        let system = json!({"role": "system", "content": "s"});
        assert_eq!(found(&[&[system][..], &next].concat()), Some((4, known.handoff)));
        assert_eq!(
            missing_answers(&view(&next), None),
            std::slice::from_ref(&known.position.digest)
        );
        assert!(missing_answers(&view(&next), Some(3)).is_empty());
        assert_eq!(
            last_in(&view(&next), [&known], Some(3), |_| true),
            None,
            "a sentinel stands behind it"
        );
    }

    /// Gemini CLI, live and resumed. The resumed transcript has the results twice, and its calls have lost a
    /// part.
    #[test]
    fn a_placeholder_stands_for_the_answer() {
        let placeholder =
            |text: &str| json!({"role": "assistant", "content": [{"type": "text", "text": text}]});
        let interrupted = placeholder("[The previous response was interrupted before it completed.]");
        let before = [user("one"), call(), result(true)];
        let mut known = point(&view(&before));
        known.texts = texts(&view(&before), 0..3);
        let found =
            |messages: &[Value]| last_in(&view(messages), [&known], None, |_| false).map(|(at, _)| at);
        let then = |placeholder: &Value| [placeholder.clone(), user("two")];
        assert_eq!(found(&[&before[..], &then(&interrupted)].concat()), Some(3));
        assert_eq!(found(&[&before[..], &then(&placeholder("Well."))].concat()), None);
        assert_eq!(
            found(&[&before[..], &then(&interrupted)[..1]].concat()),
            None,
            "no text behind it"
        );
        let mut resent = before.clone();
        resent[1]["content"][0]["input"] = json!({"x": 1});
        let twice = resent[2]["content"][0].clone();
        resent[2]["content"].as_array_mut().unwrap().push(twice);
        assert_eq!(found(&[&resent[..], &then(&interrupted)].concat()), Some(3));
        assert_eq!(
            found(&[&resent[..], &[user("two")]].concat()),
            None,
            "another transcript"
        );
        resent[0] = user("three");
        assert_eq!(found(&[&resent[..], &then(&interrupted)].concat()), None);
        let copied = view(&[&before[..], &then(&interrupted)].concat());
        assert_eq!(
            missing_answers(&copied, None),
            std::slice::from_ref(&known.position.digest)
        );
    }

    #[test]
    fn only_the_newest_of_very_many_user_texts_are_looked_up() {
        let texts: Vec<Value> = (0..1_000).map(|i| user(&i.to_string())).collect();
        let missing = missing_answers(&view(&texts), None);
        assert_eq!(missing.len(), MAX_MISSING);
        let newest = point(&view(&texts[..999]));
        assert_eq!(missing.last(), Some(&newest.position.digest));
        let oldest = point(&view(&texts[..1_000 - MAX_MISSING]));
        assert_eq!(missing.first(), Some(&oldest.position.digest));
    }

    #[test]
    fn of_several_the_last_one_counts() {
        let one = point(&view(&[user("one")]));
        let two = point(&view(&[user("one"), user("two")]));
        let all = view(&[user("one"), user("two"), user("three")]);
        let found = last_in(&all, [&two, &one], None, |_| false);
        assert_eq!(found.map(|(at, p)| (at, p.handoff)), Some((2, two.handoff)));
        let later = CutPoint {
            handoff: Uuid::now_v7(),
            ..two.clone()
        };
        let found = last_in(&all, [&two, &later], None, |_| false);
        assert_eq!(
            found.map(|(_, p)| p.handoff),
            Some(later.handoff),
            "one answer showed both"
        );
    }

    /// The part that upstream stores may be the whole transcript, so this request fits others as well.
    #[test]
    fn the_start_of_the_transcript_is_no_cut_point() {
        let system = json!({"role": "system", "content": "s"});
        let known = point(&view(std::slice::from_ref(&system)));
        assert_eq!(known.position.turns, 0);
        for next in [&[system, user("x")][..], &[user("x")]] {
            assert_eq!(last_in(&view(next), [&known], None, |_| true), None);
        }
    }
}
