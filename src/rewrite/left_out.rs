//! Finds where a handoff stands in a transcript that lacks its sentinel.
//!
//! An agent that is stopped while it reads an answer may leave all of that answer out of its next request. It then sends
//! the transcript of the request before, byte for byte except for cache breakpoints, and new user text. The handoff that
//! the answer showed stands between the two.

use std::borrow::Cow;

use memchr::memmem;
use sha2::{Digest, Sha256};

use crate::record::CutPoint;
use crate::text::json;
use crate::wire::Wire;
use crate::wire::view::{PartKind, Role, View};

/// Hexadecimal digits of a digest: 128 bits.
const DIGITS: usize = 32;

/// Most positions of a missing answer that are looked up in the store, the newest first: each costs a query, and a
/// transcript may consist of user texts alone.
const MOST_MISSING: usize = 256;

/// How many elements a transcript has behind its leading system messages, and their digest.
pub fn of(view: &View) -> (usize, String) {
    let turns = view.turns.len() - view.leading();
    let digest = digests(view, &[turns]).pop().unwrap_or_default();
    (turns, digest)
}

/// The last of these cut points that holds in a transcript, behind turn `behind`; and the turn that it stands before,
/// which is neither the first one nor the first behind the leading system messages.
pub fn last_in<'a>(
    wire: &dyn Wire,
    view: &View,
    points: impl IntoIterator<Item = &'a CutPoint>,
    behind: Option<usize>,
) -> Option<(usize, &'a CutPoint)> {
    let leading = view.leading();
    let mut maybe: Vec<&CutPoint> = points.into_iter().collect();
    maybe.retain(|p| {
        let at = leading + p.turns;
        // Nothing behind the system's word can be told from any other request that upstream holds the rest of.
        p.turns > 0 && behind.is_none_or(|turn| at > turn) && new_text(wire, view, at)
    });
    maybe.sort_by_key(|p| (p.turns, p.handoff));
    let counts: Vec<usize> = maybe.iter().map(|p| p.turns).collect();
    let digests = digests(view, &counts);
    let held = maybe.iter().zip(digests).rfind(|(p, digest)| p.digest == *digest);
    held.map(|(p, _)| (leading + p.turns, *p))
}

/// Digests of what a transcript holds in front of each user text that follows no answer, behind turn `behind`: where
/// an answer may be missing. The last 256 of them, in the transcript's order.
pub fn missing_answers(wire: &dyn Wire, view: &View, behind: Option<usize>) -> Vec<String> {
    let leading = view.leading();
    let first = behind.map_or(leading + 1, |turn| turn + 1).max(leading + 1);
    let answers_missing = |at: &usize| {
        let before = view.turns[at - 1].role;
        matches!(before, Role::User | Role::Tool) && new_text(wire, view, *at)
    };
    let newest = (first..view.turns.len()).rev().filter(answers_missing);
    let mut counts: Vec<usize> = newest.take(MOST_MISSING).map(|at| at - leading).collect();
    counts.reverse();
    digests(view, &counts)
}

/// Whether turn `at` is text of the user's.
fn new_text(wire: &dyn Wire, view: &View, at: usize) -> bool {
    let is_users = view.turns.get(at).is_some_and(|t| t.role == Role::User);
    is_users
        && wire
            .anatomy(view, at)
            .parts
            .iter()
            .any(|p| p.kind == PartKind::Text)
}

/// Digests of the first so many elements behind the leading system messages, for each of `counts`, which ascend.
fn digests(view: &View, counts: &[usize]) -> Vec<String> {
    if counts.is_empty() {
        return Vec::new();
    }
    let mut hash = Sha256::new();
    let previous = view.facts.previous.as_ref().map_or("", |p| p.id.as_str());
    add(&mut hash, previous.as_bytes());
    let mut turns = view.turns[view.leading()..].iter();
    let mut done = 0;
    let mut out = Vec::new();
    for &count in counts {
        for turn in turns.by_ref().take(count - done) {
            add(&mut hash, &without_breakpoints(view.text(turn.span)));
        }
        done = count;
        out.push(hexadecimal(&hash.clone().finalize()));
    }
    out
}

fn add(hash: &mut Sha256, part: &[u8]) {
    // With its length in front, no part can pass for two.
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

fn hexadecimal(digest: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
    let bytes = digest.iter().take(DIGITS / 2);
    bytes.flat_map(|b| [digit(b >> 4), digit(b & 0xf)]).collect()
}

/// JSON without its members `cache_control`: agents move those to the newest message.
fn without_breakpoints(raw: &[u8]) -> Cow<'_, [u8]> {
    const KEY: &[u8] = b"\"cache_control\"";
    let mut kept: Vec<u8> = Vec::new();
    let mut done = 0;
    for at in memmem::find_iter(raw, KEY) {
        let colon = json::blank(raw, at + KEY.len());
        // Inside a string the closing quote would be escaped; a string that is this word has no colon behind it.
        if at < done || raw.get(colon) != Some(&b':') {
            continue;
        }
        let Ok(end) = json::value_end(raw, json::blank(raw, colon + 1)) else {
            continue;
        };
        let before = raw[done..at].trim_ascii_end();
        match before.strip_suffix(b",") {
            Some(before) => {
                kept.extend_from_slice(before);
                done = end;
            }
            None => {
                kept.extend_from_slice(before);
                let next = json::blank(raw, end);
                done = if raw.get(next) == Some(&b',') {
                    next + 1
                } else {
                    end
                };
            }
        }
    }
    if done == 0 {
        return Cow::Borrowed(raw);
    }
    kept.extend_from_slice(&raw[done..]);
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Call;
    use crate::wire::Requests;
    use crate::wire::anthropic::Anthropic;
    use bytes::Bytes;
    use serde_json::{Value, json};
    use uuid::Uuid;

    fn view(messages: &[Value]) -> View {
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        Anthropic.read(&Bytes::from(body), Call::Generate).unwrap()
    }

    fn point(view: &View) -> CutPoint {
        let (turns, digest) = of(view);
        CutPoint {
            handoff: Uuid::now_v7(),
            principal: "local".to_owned(),
            conversation: "c".to_owned(),
            turns,
            digest,
            texts: Vec::new(),
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
    fn a_transcript_with_new_text_behind_it_is_found_and_nothing_else_is() {
        let before = [user("one"), call(), result(true)];
        let known = point(&view(&before));
        let found = |messages: &[Value]| {
            last_in(&Anthropic, &view(messages), [&known], None).map(|(at, p)| (at, p.handoff))
        };
        let here = Some((3, known.handoff));
        let next = [user("one"), call(), result(false), user("two")];
        assert_eq!(found(&next), here);
        assert_eq!(
            found(&[&next[..], &[call(), result(true)]].concat()),
            here,
            "found again later"
        );
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
            missing_answers(&Anthropic, &view(&next), None),
            std::slice::from_ref(&known.digest)
        );
        assert!(missing_answers(&Anthropic, &view(&next), Some(3)).is_empty());
        assert_eq!(
            last_in(&Anthropic, &view(&next), [&known], Some(3)),
            None,
            "a sentinel stands behind it"
        );
    }

    #[test]
    fn only_the_newest_of_very_many_user_texts_are_looked_up() {
        let texts: Vec<Value> = (0..1_000).map(|i| user(&i.to_string())).collect();
        let missing = missing_answers(&Anthropic, &view(&texts), None);
        assert_eq!(missing.len(), MOST_MISSING);
        let newest = point(&view(&texts[..999]));
        assert_eq!(missing.last(), Some(&newest.digest));
        let oldest = point(&view(&texts[..1_000 - MOST_MISSING]));
        assert_eq!(missing.first(), Some(&oldest.digest));
    }

    #[test]
    fn of_several_the_last_one_counts() {
        let one = point(&view(&[user("one")]));
        let two = point(&view(&[user("one"), user("two")]));
        let all = view(&[user("one"), user("two"), user("three")]);
        let found = last_in(&Anthropic, &all, [&two, &one], None);
        assert_eq!(found.map(|(at, p)| (at, p.handoff)), Some((2, two.handoff)));
        let later = CutPoint {
            handoff: Uuid::now_v7(),
            ..two.clone()
        };
        let found = last_in(&Anthropic, &all, [&later, &two], None);
        assert_eq!(
            found.map(|(_, p)| p.handoff),
            Some(later.handoff),
            "one answer showed both"
        );
    }

    /// What upstream holds may be all that was said: nothing of this request tells it from another one.
    #[test]
    fn nothing_behind_the_systems_word_is_no_place() {
        let system = json!({"role": "system", "content": "s"});
        let known = point(&view(std::slice::from_ref(&system)));
        assert_eq!(known.turns, 0);
        for next in [&[system, user("x")][..], &[user("x")]] {
            assert_eq!(last_in(&Anthropic, &view(next), [&known], None), None);
        }
    }

    #[test]
    fn breakpoints_are_taken_out_wherever_they_stand() {
        for (with, without) in [
            (r#"{"a":1,"cache_control":{"x":[","]}}"#, r#"{"a":1}"#),
            (r#"{"cache_control":null,"a":1}"#, r#"{"a":1}"#),
            (r#"{"cache_control" : {"t":1} }"#, r#"{ }"#),
            (
                r#"[{"a":1, "cache_control":{}},{"b":2,"cache_control":{}}]"#,
                r#"[{"a":1},{"b":2}]"#,
            ),
            (r#"{"a":"\"cache_control\":1"}"#, r#"{"a":"\"cache_control\":1"}"#),
            (r#"{"a":"cache_control"}"#, r#"{"a":"cache_control"}"#),
        ] {
            assert_eq!(without_breakpoints(with.as_bytes()), without.as_bytes());
        }
    }
}
