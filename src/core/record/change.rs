//! Changes to a conversation's record.
//!
//! A write contains changes instead of a whole record, so that processes serving the same conversation do not
//! overwrite each other. Every store applies changes with [`Update::on`], atomically.

use std::slice::from_ref;

use uuid::Uuid;

use super::conversation::{Conversation, NamedTopic, RepeatedAnswer};
use super::ids::HandoffId;
use super::insertion::ThinkingOmission;
use super::ledger::LedgerEntry;
use crate::text::newest;

/// Maximum number of cut points per key; the oldest is dropped first. A cut point is added when the user
/// stops a response after its handoff.
pub const LEFT_OUT_KEPT: usize = 32;

/// Maximum number of insertions per key; the oldest is dropped first. It is then missing from a transcript
/// that is not cut after it.
pub const INSERTIONS_KEPT: usize = 256;

/// Maximum number of thinking omissions per key; the oldest is dropped first. The newest one of a stretch
/// suffices, except after a rewind.
const OMISSIONS_KEPT: usize = 16;

/// Maximum number of interrupted responses per key; the oldest is dropped first.
const REPEATS_KEPT: usize = 32;

/// Maximum number of dropped rules per key. The oldest is dropped first, and that rule may be carried again.
const DROPPED_KEPT: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordChange {
    /// Sets whether requests carry the tool. A later decision by another writer wins.
    Tooled {
        /// Decision that this one replaces.
        from: Option<bool>,
        /// New decision.
        to: bool,
    },
    /// Sets the handoff that cuts the newest transcript. A later change by another writer wins.
    Followed {
        /// Previously active handoff.
        from: Option<HandoffId>,
        /// Newly active handoff.
        to: Option<HandoffId>,
    },
    /// A handoff took effect.
    Fired {
        handoff: HandoffId,
        /// Whether the handoff has a cut point, which finds it while the agent may omit the response.
        placed: bool,
        /// Pairs before the cut, to remove from the list. Pairs that another writer added since then stay.
        pairs: Vec<Uuid>,
        /// Note that lets other processes recognize a repetition of the request.
        repeat: Option<RepeatedAnswer>,
    },
    /// This conversation is a copy of another one. Adopts that conversation's handoff by its cut point, and
    /// marks it as relied on.
    LeftOut(HandoffId),
    /// A request was cut at this handoff's cut point. The cut point therefore stays, whatever happens to the
    /// response that showed the handoff.
    ReliedOn(HandoffId),
    /// The response with these handoffs was delivered completely. Their sentinels find them from now on, and
    /// the agent will not repeat the request.
    Shown(Vec<HandoffId>),
    /// Pairs were written.
    Paired(Vec<Uuid>),
    /// Insertions were written, or adopted from the conversation that this one is a copy of.
    Inserted(Vec<Uuid>),
    /// Upstream refused this thinking, and accepted the request without it.
    ThinkingOmitted(ThinkingOmission),
    /// The user pinned or unpinned a statement.
    Pins {
        /// Newly pinned text.
        pinned: Option<String>,
        /// Text to remove.
        unpinned: Option<String>,
    },
    /// The user dropped a rule that handoffs carry.
    RuleDropped(String),
    /// The user named the topic of the handoffs.
    Topic(NamedTopic),
    /// An entry of a ledger.
    Ledger(LedgerEntry),
}

impl RecordChange {
    /// Applies the change; idempotent.
    pub fn apply(&self, record: &mut Conversation) {
        match self {
            Self::Tooled { from, to } if record.tooled == *from => record.tooled = Some(*to),
            Self::Followed { from, to } if record.active == *from => record.active = *to,
            // Another writer has decided in the meantime.
            Self::Tooled { .. } | Self::Followed { .. } => {}
            Self::Fired {
                handoff,
                placed,
                pairs,
                repeat,
            } => {
                record.active = Some(*handoff);
                // Only the listed ones: another process may have added a pair after this cut.
                record.pairs.retain(|id| !pairs.contains(id));
                if *placed {
                    list(record, *handoff);
                }
                if let Some(repeat) = repeat {
                    note(record, repeat);
                }
            }
            Self::LeftOut(handoff) => {
                list(record, *handoff);
                rely_on(record, *handoff);
            }
            Self::ReliedOn(handoff) => rely_on(record, *handoff),
            Self::Shown(handoffs) => {
                let relied_on = &record.relied_on;
                record
                    .left_out
                    // A cut point that requests rely on stays listed.
                    .retain(|id| !handoffs.contains(id) || relied_on.contains(id));
                record.repeats.retain(|note| !handoffs.contains(&note.handoff));
            }
            Self::Paired(pairs) => {
                let new = pairs.iter().filter(|id| !record.pairs.contains(id));
                let new: Vec<Uuid> = new.copied().collect();
                record.pairs.extend(new);
            }
            Self::Inserted(new) => append(&mut record.insertions, new, INSERTIONS_KEPT),
            Self::ThinkingOmitted(one) => append(&mut record.omissions, from_ref(one), OMISSIONS_KEPT),
            Self::Pins { pinned, unpinned } => {
                record.pins.retain(|pin| Some(pin) != unpinned.as_ref());
                // A repeated write must not pin the text twice.
                let known = |text: &&String| record.pins.contains(text);
                let new = pinned.as_ref().filter(|text| !known(text)).cloned();
                record.pins.extend(new);
            }
            Self::RuleDropped(rule) => append(&mut record.dropped_rules, from_ref(rule), DROPPED_KEPT),
            Self::Topic(topic) => record.topic = Some(topic.clone()),
            Self::Ledger(entry) => record.ledger.get_or_insert_default().apply(entry),
        }
    }
}

/// Appends new items once each, and drops the oldest beyond `most`.
fn append<T: PartialEq + Clone>(list: &mut Vec<T>, new: &[T], most: usize) {
    list.retain(|old| !new.contains(old));
    list.extend_from_slice(new);
    let more = list.len().saturating_sub(most);
    list.drain(..more);
}

/// Lists a handoff whose response the agent may omit.
fn list(record: &mut Conversation, handoff: HandoffId) {
    record.left_out.retain(|id| *id != handoff);
    if record.left_out.len() == LEFT_OUT_KEPT {
        let gone = record.left_out.remove(0);
        // The cut point of a handoff that is no longer listed cannot be used.
        record.relied_on.retain(|id| *id != gone);
    }
    record.left_out.push(handoff);
}

/// Marks a listed handoff whose cut point requests rely on.
fn rely_on(record: &mut Conversation, handoff: HandoffId) {
    if record.left_out.contains(&handoff) && !record.relied_on.contains(&handoff) {
        record.relied_on.push(handoff);
    }
}

/// Adds an interrupted response, replacing the note of an earlier interruption of the same response.
fn note(record: &mut Conversation, repeat: &RepeatedAnswer) {
    let replaced = |old: &RepeatedAnswer| {
        old.handoff == repeat.handoff
            || old.body_hash == repeat.body_hash && repeat.replaces.contains(&old.handoff)
    };
    record.repeats.retain(|old| !replaced(old));
    newest::push(&mut record.repeats, REPEATS_KEPT, repeat.clone());
}

/// Changes to one conversation's record, written together.
#[derive(Debug, Clone)]
pub struct Update {
    /// The record as known to the writer, used if the store has none.
    pub known: Conversation,
    /// Changes to apply, in order.
    pub changes: Vec<RecordChange>,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
}

/// Result of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateOutcome {
    /// The record as written.
    pub record: Conversation,
    /// Whether another writer changed the record since the writer read it.
    pub overtaken: bool,
}

impl Update {
    /// Applies the update to the stored record. Returns `None` if that belongs to another principal.
    ///
    /// `step`, at least 1, is added to the version.
    pub fn on(&self, stored: Option<Conversation>, step: u64) -> Option<UpdateOutcome> {
        let mut overtaken = false;
        let mut record = match stored {
            // A key of another client, which must neither be read nor overwritten.
            Some(stored) if stored.principal != self.known.principal => return None,
            Some(stored) => {
                // The stored record counts, and the writer learns that its copy is out of date.
                overtaken = stored.version != self.known.version;
                stored
            }
            None => self.known.clone(),
        };
        for change in &self.changes {
            change.apply(&mut record);
        }
        record.version += step;
        // Clocks of replicas differ, and the time must not go backward.
        record.updated_ms = record.updated_ms.max(self.now_ms);
        Some(UpdateOutcome { record, overtaken })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Position;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn changed(record: &Conversation, changes: &[RecordChange]) -> Conversation {
        let mut record = record.clone();
        for change in changes {
            change.apply(&mut record);
        }
        record
    }

    fn omission(handoff: u128, turns: usize) -> ThinkingOmission {
        ThinkingOmission {
            handoff: id(handoff),
            position: Position {
                turns,
                digest: turns.to_string(),
            },
        }
    }

    #[test]
    fn the_newest_omissions_of_thinking_are_kept_once_each() {
        let mut record = Conversation::default();
        for turns in 0..2 * OMISSIONS_KEPT {
            let change = RecordChange::ThinkingOmitted(omission(1, turns));
            record = changed(&record, &[change.clone(), change]);
        }
        let kept: Vec<usize> = record
            .omissions
            .iter()
            .map(|omission| omission.position.turns)
            .collect();
        assert_eq!(kept, (OMISSIONS_KEPT..2 * OMISSIONS_KEPT).collect::<Vec<_>>());
    }

    fn fired(handoff: u128, pairs: Vec<Uuid>) -> RecordChange {
        RecordChange::Fired {
            handoff: id(handoff),
            placed: true,
            pairs,
            repeat: Some(RepeatedAnswer {
                body_hash: 9,
                handoff: id(handoff),
                replaces: Vec::new(),
                at_ms: 1,
            }),
        }
    }

    #[test]
    fn two_writers_of_one_record_lose_nothing() {
        let known = Conversation {
            pairs: vec![id(1)],
            active: Some(id(100)),
            ..Conversation::default()
        };
        let all = [
            RecordChange::Tooled { from: None, to: true },
            fired(101, vec![id(1)]),
            RecordChange::Paired(vec![id(2)]),
            RecordChange::LeftOut(id(102)),
            RecordChange::Inserted(vec![id(3)]),
            RecordChange::ThinkingOmitted(omission(100, 3)),
            RecordChange::Pins {
                pinned: Some("p".into()),
                unpinned: None,
            },
        ];
        for (a, one) in all.iter().enumerate() {
            for two in all.iter().skip(a + 1) {
                let both = changed(&known, &[one.clone(), two.clone()]);
                assert_eq!(changed(&both, &[one.clone(), two.clone()]), both, "twice is once");
                let other = changed(&known, &[two.clone(), one.clone()]);
                let lists = |c: &Conversation| {
                    let (mut pairs, mut left_out) = (c.pairs.clone(), c.left_out.clone());
                    pairs.sort_unstable();
                    left_out.sort_unstable();
                    (
                        c.tooled,
                        c.active,
                        pairs,
                        left_out,
                        c.insertions.clone(),
                        c.omissions.clone(),
                    )
                };
                assert_eq!(lists(&both), lists(&other), "{one:?} {two:?}");
            }
        }
    }

    #[test]
    fn what_was_decided_since_stays() {
        let known = Conversation::default();
        let decided = changed(&known, &[RecordChange::Tooled { from: None, to: true }]);
        let late = RecordChange::Tooled {
            from: None,
            to: false,
        };
        assert_eq!(changed(&decided, &[late]).tooled, Some(true));
        let toggled = RecordChange::Tooled {
            from: Some(true),
            to: false,
        };
        assert_eq!(changed(&decided, &[toggled]).tooled, Some(false));

        let followed = RecordChange::Followed {
            from: None,
            to: Some(id(1)),
        };
        let fired = changed(&known, &[fired(2, Vec::new())]);
        assert_eq!(
            changed(&fired, std::slice::from_ref(&followed)).active,
            Some(id(2))
        );
        assert_eq!(changed(&known, &[followed]).active, Some(id(1)));
    }

    #[test]
    fn shown_handoffs_are_listed_no_more_but_where_a_request_was_cut_by_one() {
        let listed = changed(
            &Conversation::default(),
            &[fired(1, Vec::new()), fired(2, Vec::new())],
        );
        assert_eq!((listed.left_out.len(), listed.repeats.len()), (2, 2));
        let relied = changed(
            &listed,
            &[RecordChange::ReliedOn(id(1)), RecordChange::ReliedOn(id(7))],
        );
        assert_eq!(relied.relied_on, [id(1)]);
        let shown = changed(&relied, &[RecordChange::Shown(vec![id(1), id(2)])]);
        assert_eq!((&*shown.left_out, shown.repeats.len()), (&[id(1)][..], 0));
        let mut many = shown;
        for n in 0..2 * LEFT_OUT_KEPT as u128 {
            many = changed(&many, &[fired(1000 + n, Vec::new())]);
        }
        assert_eq!(
            (many.left_out.len(), many.repeats.len()),
            (LEFT_OUT_KEPT, REPEATS_KEPT)
        );
        assert!(many.relied_on.is_empty(), "gone with its place");
    }

    #[test]
    fn an_update_is_made_on_what_is_stored() {
        let known = Conversation {
            key: "k".into(),
            principal: "a".into(),
            version: 3,
            ..Conversation::default()
        };
        let update = Update {
            known: known.clone(),
            changes: vec![RecordChange::Paired(vec![id(1)])],
            now_ms: 5,
        };
        let new = update.on(None, 1).unwrap();
        assert_eq!(
            (new.record.version, new.record.updated_ms, new.overtaken),
            (4, 5, false)
        );
        let stored = Conversation {
            version: 8,
            updated_ms: 9,
            pairs: vec![id(2)],
            ..known.clone()
        };
        let written = update.on(Some(stored), 2).unwrap();
        assert_eq!(written.record.pairs, [id(2), id(1)]);
        assert_eq!((written.record.version, written.record.updated_ms), (10, 9));
        assert!(written.overtaken);
        assert!(!update.on(Some(known), 1).unwrap().overtaken);
        let foreign = Conversation {
            principal: "b".into(),
            ..Conversation::default()
        };
        assert!(update.on(Some(foreign), 1).is_none());
    }
}
