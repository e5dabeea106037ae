//! Compares the messages of the agent's request with those of a leg's request. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::HashMap;

use serde::Serialize;

use super::summary::role_named;
use baton_core::marker::{self, MarkerKind};
use baton_core::rewrite::ChangeReason;
use baton_core::tools::is_ours;
use baton_core::transcript::{JsonText, TranscriptPartKind, TranscriptTurn};

/// A message, reduced to the fields that a comparison needs.
#[derive(Debug, Clone)]
pub(super) struct ComparedMessage {
    pub(super) chunk: i64,
    pub(super) role: String,
}

/// State of a message on the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// The same bytes on both sides.
    Kept,
    /// Received but not sent.
    Cut,
    /// Sent but not received.
    New,
    /// On both sides, but edited.
    Changed,
}

/// State of a message and the reason for it. Kept messages have no reason.
pub(super) type MessageFate = (MessageState, Option<ChangeReason>);

/// Compares two lists of messages. Returns the fates of the received ones, then of the sent ones.
///
/// `text` is called only for the few messages that need a closer look.
pub(super) fn compare(
    received: &[ComparedMessage],
    sent: &[ComparedMessage],
    whys: &[ChangeReason],
    text: &dyn Fn(i64) -> String,
) -> (Vec<MessageFate>, Vec<MessageFate>) {
    let kept: MessageFate = (MessageState::Kept, None);
    let mut fates = (vec![kept; received.len()], vec![kept; sent.len()]);
    let mut from = (0, 0);
    let mut uncut = whys.contains(&ChangeReason::Cut);
    let ends = [(received.len(), sent.len())];
    for (r, s) in matches(received, sent).into_iter().chain(ends) {
        // A cut inserts user messages, and inserts them before everything that it keeps. The first gap with
        // one is the cut.
        let cut = uncut && r > from.0 && sent[from.1..s].iter().any(|item| item.role == "user");
        uncut &= !cut;
        let gap = MessageGap {
            cut,
            received,
            sent,
            whys,
            text,
            last: s == sent.len(),
        };
        gap.judge(from.0..r, from.1..s, &mut fates);
        from = (r + 1, s + 1);
    }
    fates
}

/// Pairs equal messages, in the same order on both sides.
fn matches(received: &[ComparedMessage], sent: &[ComparedMessage]) -> Vec<(usize, usize)> {
    let same = |(r, s): &(&ComparedMessage, &ComparedMessage)| r.chunk == s.chunk;
    let prefix = received.iter().zip(sent).take_while(same).count();
    let (r_rest, s_rest) = (&received[prefix..], &sent[prefix..]);
    let from_end = r_rest.iter().rev().zip(s_rest.iter().rev());
    let suffix = from_end.take_while(same).count();
    let (r_end, s_end) = (received.len() - suffix, sent.len() - suffix);
    let mut out: Vec<_> = (0..prefix).map(|i| (i, i)).collect();
    // One pass with an index instead of a longest common subsequence, which would be quadratic in the number
    // of messages.
    let mut places: HashMap<i64, Vec<usize>> = HashMap::new();
    for (i, item) in received.iter().enumerate().take(r_end).skip(prefix) {
        places.entry(item.chunk).or_default().push(i);
    }
    let mut from = prefix;
    for (j, item) in sent.iter().enumerate().take(s_end).skip(prefix) {
        let all = places.get(&item.chunk);
        let at = all.and_then(|all| all.get(all.partition_point(|&i| i < from)));
        if let Some(&i) = at {
            out.push((i, j));
            from = i + 1;
        }
    }
    out.extend((0..suffix).map(|i| (r_end + i, s_end + i)));
    out
}

/// Number of messages searched for the edited form of another. Edits stay in place, and few messages are
/// inserted nearby.
const NEAR: usize = 16;

/// First words of the results of baton's handoff tool.
const ANSWERS: [&str; 2] = ["Handoff queued", "Handoff refused"];

/// The messages between two that both sides share.
struct MessageGap<'a> {
    /// Whether the transcript was cut here.
    cut: bool,
    received: &'a [ComparedMessage],
    sent: &'a [ComparedMessage],
    whys: &'a [ChangeReason],
    text: &'a dyn Fn(i64) -> String,
    last: bool,
}

impl MessageGap<'_> {
    fn judge(
        &self,
        r: std::ops::Range<usize>,
        s: std::ops::Range<usize>,
        fates: &mut (Vec<MessageFate>, Vec<MessageFate>),
    ) {
        let mut left = r.clone();
        for j in s.clone() {
            let partner = match self.cut {
                // A cut keeps only the end of the message with the sentinel.
                true => (!left.is_empty() && j + 1 == s.end && j > s.start)
                    .then(|| r.end - 1)
                    .filter(|&i| self.related(i, j)),
                false => left.clone().take(NEAR).find(|&i| self.related(i, j)),
            };
            match partner {
                Some(i) => {
                    let why = self.changed(i, j);
                    fates.0[i] = (MessageState::Changed, why);
                    fates.1[j] = (MessageState::Changed, why);
                    // Messages before the partner have no partner of their own, so they were cut.
                    for skipped in left.start..i {
                        fates.0[skipped] = (MessageState::Cut, self.reason_of_cut());
                    }
                    left = i + 1..r.end;
                }
                None => fates.1[j] = (MessageState::New, self.reason_of_new(j)),
            }
        }
        for i in left {
            fates.0[i] = (MessageState::Cut, self.reason_of_cut());
        }
    }

    /// Whether one message may be an edited form of the other: the same role, and half of the shorter one in
    /// common.
    fn related(&self, i: usize, j: usize) -> bool {
        if self.received[i].role != self.sent[j].role {
            return false;
        }
        let (a, b) = (
            (self.text)(self.received[i].chunk),
            (self.text)(self.sent[j].chunk),
        );
        let same = |(x, y): &(u8, u8)| x == y;
        // Common prefix and suffix only, which is linear. Edits replace one range of a message.
        let front = a.bytes().zip(b.bytes()).take_while(same).count();
        let back = a.bytes().rev().zip(b.bytes().rev()).take_while(same).count();
        let shorter = a.len().min(b.len());
        2 * (front + back).min(shorter) >= shorter
    }

    fn changed(&self, i: usize, j: usize) -> Option<ChangeReason> {
        let (a, b) = (self.ours(&self.received[i]), self.ours(&self.sent[j]));
        // A call was restored, perhaps in place of its aside.
        if b.calls > a.calls || a.aside && !b.aside {
            return self.first_of(&[ChangeReason::Pair]);
        }
        match self.cut {
            true => Some(ChangeReason::Cut),
            false => self.first_of(&[
                ChangeReason::Unescaped,
                ChangeReason::Pair,
                ChangeReason::Inserted,
                ChangeReason::Thinking,
                ChangeReason::AskAgain,
                ChangeReason::Tool,
            ]),
        }
    }

    fn reason_of_new(&self, j: usize) -> Option<ChangeReason> {
        let requested = self.first_of(&[ChangeReason::AskAgain, ChangeReason::Draft]);
        // baton's own request to the model (for a draft, or after a refused call) is the last message.
        if self.last && requested.is_some() && self.whys.len() > 1 {
            return requested;
        }
        let ours = self.ours(&self.sent[j]);
        if ours.calls > 0 || ours.answered {
            return self.first_of(&[ChangeReason::Pair, ChangeReason::AskAgain, ChangeReason::Cut]);
        }
        self.first_of(&[
            ChangeReason::Cut,
            ChangeReason::Pair,
            ChangeReason::Inserted,
            ChangeReason::AskAgain,
            ChangeReason::Draft,
        ])
    }

    /// Returns which parts of a message baton wrote.
    fn ours(&self, item: &ComparedMessage) -> OwnParts {
        let text = (self.text)(item.chunk);
        let mut ours = OwnParts::default();
        for part in TranscriptTurn::alone(text.as_bytes(), role_named(&item.role)).parts() {
            match part.kind {
                TranscriptPartKind::Call(call) => {
                    ours.calls += usize::from(call.name.is_some_and(|name| is_ours(&name.get())))
                }
                TranscriptPartKind::Result(_) => {
                    let is_answer =
                        |text: &JsonText<'_>| ANSWERS.iter().any(|answer| text.get().starts_with(answer));
                    ours.answered |= part.texts().iter().any(is_answer);
                }
                TranscriptPartKind::Text(text) => {
                    let marks = marker::marks(text.raw());
                    ours.aside |= marks.iter().any(|mark| matches!(mark.kind, MarkerKind::Aside(_)));
                }
                _ => {}
            }
        }
        ours
    }

    fn reason_of_cut(&self) -> Option<ChangeReason> {
        self.first_of(&[
            ChangeReason::Cut,
            ChangeReason::Note,
            ChangeReason::Thinking,
            ChangeReason::Pair,
            ChangeReason::Unescaped,
        ])
    }

    fn first_of(&self, wanted: &[ChangeReason]) -> Option<ChangeReason> {
        let mut wanted = wanted.iter().copied();
        let found = wanted.find(|why| self.whys.contains(why));
        found.or(self.whys.first().copied())
    }
}

/// The parts of a message that baton wrote.
#[derive(Default)]
struct OwnParts {
    /// Number of calls of baton's tools.
    calls: usize,
    /// Whether the message has the result of such a call.
    answered: bool,
    /// Whether the message has an aside, which holds the place of such a call.
    aside: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn items(all: &[(&str, &str)]) -> (Vec<ComparedMessage>, HashMap<i64, String>) {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let id = |text: &str| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish() as i64
        };
        let items = all.iter().map(|(role, text)| ComparedMessage {
            chunk: id(text),
            role: (*role).to_owned(),
        });
        let texts = all.iter().map(|(_, text)| (id(text), (*text).to_owned()));
        (items.collect(), texts.collect())
    }

    fn states(received: &[(&str, &str)], sent: &[(&str, &str)], whys: &[ChangeReason]) -> [String; 2] {
        let ((r, mut texts), (s, more)) = (items(received), items(sent));
        texts.extend(more);
        let (a, b) = compare(&r, &s, whys, &|chunk| texts[&chunk].clone());
        let letter = |fates: Vec<MessageFate>| {
            let letters = fates.into_iter().map(|(state, why)| match (state, why) {
                (MessageState::Kept, None) => 'k',
                (MessageState::Cut, Some(ChangeReason::Cut)) => 'c',
                (MessageState::New, Some(ChangeReason::Cut)) => 'n',
                (MessageState::New, Some(ChangeReason::Pair)) => 'p',
                (MessageState::New, Some(ChangeReason::AskAgain)) => 'a',
                (MessageState::Changed, Some(ChangeReason::Cut)) => 't',
                (MessageState::Changed, Some(ChangeReason::Pair)) => 'P',
                (MessageState::Changed, Some(ChangeReason::Unescaped)) => 'g',
                other => panic!("{other:?}"),
            });
            letters.collect::<String>()
        };
        [a, b].map(letter)
    }

    #[test]
    fn a_cut_keeps_what_follows_and_brings_the_prompt() {
        let (system, after) = (("system", "s"), ("user", "after"));
        let model = |text| ("assistant", text);
        let received = [system, ("user", "one"), model("two"), model("x"), after];
        let sent = [system, ("user", "prompt"), after];
        let whys = [ChangeReason::Cut, ChangeReason::Tool];
        assert_eq!(states(&received, &sent, &whys), ["kccck", "knk"]);
        let received = [("user", "one"), model("SENTINEL and then some more"), after];
        let sent = [("user", "prompt"), model(" and then some more"), after];
        assert_eq!(states(&received, &sent, &[ChangeReason::Cut]), ["ctk", "ntk"]);
    }

    #[test]
    fn pairs_texts_and_questions_are_distinguished() {
        let message = |blocks: &[&str]| format!(r#"{{"content":[{}]}}"#, blocks.join(","));
        let call =
            |name: &str| format!(r#"{{"type":"tool_use","name":"{name}","input":{{"path":"src/a.rs"}}}}"#);
        let result = |text: &str| format!(r#"{{"type":"tool_result","content":"{text}"}}"#);
        let (read, ours) = (call("read"), call("session_handoff"));
        let done = result("all of the file that was read");
        let queued = result("Handoff queued; it runs.");
        let (called, answered) = (message(&[&read]), message(&[&done]));
        let (both_called, both_answered) = (message(&[&read, &ours]), message(&[&done, &queued]));
        let (requested, refused) = (message(&[&ours]), message(&[&result("Handoff refused: why")]));
        let said = |model, user| [("user", "a"), ("assistant", model), ("user", user)];
        let whys = [ChangeReason::Pair];
        let found = states(
            &said(&called, &answered),
            &said(&both_called, &both_answered),
            &whys,
        );
        assert_eq!(found, ["kPP", "kPP"]);
        let escaped = said(r"see [[handoff-resume\:x]] there", "b");
        let sent = said("see [[handoff-resume:x]] there", "b");
        assert_eq!(
            states(&escaped, &sent, &[ChangeReason::Unescaped]),
            ["kgk", "kgk"]
        );
        let whys = [ChangeReason::Tool, ChangeReason::AskAgain];
        let found = states(&[("user", "a")], &said(&requested, &refused), &whys);
        assert_eq!(found, ["k", "kaa"]);
    }

    #[test]
    fn texts_are_looked_at_as_often_as_there_are_messages() {
        for n in [100, 1_000, 10_000] {
            let item = |chunk: usize| ComparedMessage {
                chunk: chunk as i64,
                role: "user".to_owned(),
            };
            // Nothing in common, everything the same, and half in common.
            let other: Vec<_> = (0..n).map(item).collect();
            let lists = [
                (other.clone(), (n..2 * n).map(item).collect::<Vec<_>>()),
                (
                    (0..n).map(|_| item(0)).collect(),
                    (0..n).map(|i| item(i % 2 * (i + 1))).collect(),
                ),
                (other.clone(), (0..n).map(|i| item(i % 2 * n + i)).collect()),
            ];
            for (received, sent) in lists {
                let requested = std::cell::Cell::new(0);
                let text = |chunk: i64| {
                    requested.set(requested.get() + 1);
                    format!("{chunk:x}").repeat(3)
                };
                for whys in [&[ChangeReason::Unescaped][..], &[ChangeReason::Cut]] {
                    compare(&received, &sent, whys, &text);
                }
                assert!(
                    requested.get() <= 2 * 2 * (2 * NEAR + 4) * n,
                    "{} for {n}",
                    requested.get()
                );
            }
        }
    }

    #[test]
    fn untouched_is_all_kept() {
        let same = [("user", "a"), ("assistant", "b")];
        assert_eq!(states(&same, &same, &[ChangeReason::Tool]), ["kk", "kk"]);
    }
}
