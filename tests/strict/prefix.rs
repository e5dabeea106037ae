//! Prefix fidelity on every wire: what each reply was made after. A later request that holds the reply holds the same
//! before it, value for value. Thinking is bound to its prefix by some APIs; prompt caches live on it everywhere.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::api::Wire;
use super::complaint::{Findings, Rule};
use super::dialect::Received;
use super::reply::{Part, Reply};
use super::transcript::{Role, Turn};

type PrefixHash = [u8; 32];

/// What a reply is identified by: the id of a call, or a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ReplyKey {
    Call(Wire, String),
    Text(Wire, String),
}

/// The prefixes of all replies. A text that was written more than once has several.
#[derive(Debug, Default)]
pub(crate) struct Prefixes(Mutex<HashMap<ReplyKey, HashSet<PrefixHash>>>);

/// The hash of a transcript that grows. Neighbouring texts of one speaker are one text.
#[derive(Default)]
struct GrowingPrefix {
    hasher: Sha256,
    speaker: Option<Role>,
}

impl GrowingPrefix {
    fn add(&mut self, turn: &Turn) {
        for text in turn.texts.iter().filter(|text| !text.is_empty()) {
            if self.speaker != Some(turn.role) {
                self.part(&format!("{:?}", turn.role));
                self.speaker = Some(turn.role);
            }
            self.hasher.update(text.as_bytes());
        }
        for call in &turn.calls {
            self.part(&format!("call {} {} {}", call.id, call.name, call.arguments));
        }
        for result in &turn.results {
            self.part(&format!("result {} {}", result.id, result.text));
        }
    }

    fn part(&mut self, part: &str) {
        self.speaker = None;
        self.hasher.update([0]);
        self.hasher.update(part.as_bytes());
        self.hasher.update([0]);
    }

    fn hash(&self) -> PrefixHash {
        self.hasher.clone().finalize().into()
    }
}

impl Prefixes {
    /// Remembers what this reply is made after: the request up to the model's last words.
    pub(crate) fn record(&self, request: &Received, reply: &Reply) {
        if reply.fault.is_some() {
            return;
        }
        let turns = request.turns();
        let models = turns.iter().rev().take_while(|turn| turn.role == Role::Assistant);
        let before = turns.len() - models.count();
        let mut growing = GrowingPrefix::default();
        turns[..before].iter().for_each(|turn| growing.add(turn));
        let hash = growing.hash();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for part in &reply.parts {
            let key = match part {
                Part::Text(text) => ReplyKey::Text(request.wire, text.clone()),
                Part::Call { id: Some(id), .. } => ReplyKey::Call(request.wire, id.clone()),
                _ => continue,
            };
            known.entry(key).or_default().insert(hash);
        }
    }

    /// Checks what is before each reply that the request holds.
    pub(crate) fn check(&self, request: &Received, findings: &mut Findings<'_>) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut growing = GrowingPrefix::default();
        let mut before: Option<PrefixHash> = None;
        for (n, turn) in request.turns().iter().enumerate() {
            if turn.role != Role::Assistant {
                before = None;
            } else {
                let hash = *before.get_or_insert_with(|| growing.hash());
                let texts = turn
                    .texts
                    .iter()
                    .map(|text| ReplyKey::Text(request.wire, text.clone()));
                let calls = turn
                    .calls
                    .iter()
                    .map(|call| ReplyKey::Call(request.wire, call.id.clone()));
                let moved = |key: &ReplyKey| known.get(key).is_some_and(|made| !made.contains(&hash));
                if let Some(key) = texts.chain(calls).find(moved) {
                    let what =
                        format!("turn {n} ({key:?}) stands behind another prefix than it was made for");
                    findings.add(Rule::Prefix, what);
                    return;
                }
            }
            growing.add(turn);
        }
    }
}
