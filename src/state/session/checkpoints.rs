//! Records up to which call of a transcript the hidden pairs next to its calls are known.
//!
//! A cache of what the store returned: every entry follows only from a transcript and the store. So no change of the
//! conversation's record, or of another conversation with the same key, invalidates an entry. A transcript that holds
//! the call of a checkpoint holds all calls before it, too, so only the calls after it have to be looked up. A call is
//! recognised by its name where that was drawn at random or is signed. Otherwise branches may have equal calls, and
//! everything before the call must be the same, byte for byte.

use std::cell::Cell;
use std::sync::Arc;

use super::TOUCH_AFTER_MS;
use crate::keyed_hash::hash;
use baton_core::record::{HandoffId, HiddenPair, sibling_key};
use baton_core::wire::unique_part;

/// Checkpoints kept for one key; the least recently used goes first. Branches, and conversations that share the
/// key, have one each.
const KEPT: usize = 16;

/// The checkpoints of one key, least recently used first.
#[derive(Default)]
pub(super) struct Checkpoints {
    all: Vec<Arc<Checkpoint>>,
    /// Counts the pairs that were written: what was looked up before one of them may lack it.
    written: u64,
}

/// All pairs next to the calls between `cut` and `call`, `call` included.
struct Checkpoint {
    cut: Option<HandoffId>,
    call: CallMarker,
    pairs: Vec<Arc<HiddenPair>>,
    /// When the oldest of them was read from the store.
    read_ms: u64,
}

/// A call, by a name that no call of another branch has.
#[derive(Clone, PartialEq, Eq)]
struct CallMarker {
    name: String,
    /// Its turn, and what the transcript is up to the end of that; `None` where the name does by itself.
    position: Option<(usize, u128)>,
}

/// A transcript's calls after its cut.
pub struct CallsAfterCut<'a, Calls> {
    /// Their names from the newest one back, each with its turn.
    pub newest_first: Calls,
    /// The transcript's bytes from the cut to the end of a turn.
    pub up_to: &'a dyn Fn(usize) -> &'a [u8],
}

/// The calls of a transcript that are after every checkpoint: to be looked up in the store.
pub struct NewCalls {
    cut: Option<HandoffId>,
    newest: Option<CallMarker>,
    calls: Vec<String>,
    base: Option<Arc<Checkpoint>>,
    now_ms: u64,
    written: u64,
}

impl NewCalls {
    /// The names of the calls, each once.
    pub fn calls(&self) -> &[String] {
        &self.calls
    }

    /// The pairs next to the transcript's other calls.
    pub fn known(&self) -> &[Arc<HiddenPair>] {
        self.base.as_ref().map_or(&[], |base| &base.pairs)
    }
}

impl Checkpoints {
    /// Those that a transcript with this cut may contain. One that was read long ago is skipped: reading pairs marks
    /// them as used, and a fork's would be swept otherwise.
    fn of(&self, cut: Option<HandoffId>, now_ms: u64) -> Vec<Arc<Checkpoint>> {
        let fresh = |c: &Checkpoint| now_ms.saturating_sub(c.read_ms) <= TOUCH_AFTER_MS;
        let wanted = self.all.iter().filter(|c| c.cut == cut && fresh(c));
        wanted.cloned().collect()
    }

    /// Walks a transcript's calls, from the newest back to a checkpoint. Nothing is locked while it walks.
    pub(super) fn walk<'a, Calls: Iterator<Item = (usize, String)>>(
        &self,
        cut: Option<HandoffId>,
        now_ms: u64,
    ) -> impl FnOnce(CallsAfterCut<'a, Calls>) -> NewCalls + use<'a, Calls> {
        let (checkpoints, written) = (self.of(cut, now_ms), self.written);
        move |transcript| {
            // Each checkpoint has one turn, so that as few are hashed as there are checkpoints.
            let hashed: Cell<Option<(usize, u128)>> = Cell::default();
            let up_to = |turn: usize| {
                let known = hashed.get().filter(|(of, _)| *of == turn);
                let hash = known.map_or_else(|| hash((transcript.up_to)(turn)), |(_, hash)| hash);
                hashed.set(Some((turn, hash)));
                hash
            };
            let called = |turn: usize, name: &str| {
                let unique = unique_part(name);
                CallMarker {
                    name: unique.unwrap_or(name).to_owned(),
                    position: unique.is_none().then(|| (turn, up_to(turn))),
                }
            };
            let is_here =
                |call: &CallMarker, turn: usize, name: &str, unique: Option<&str>| match call.position {
                    None => unique == Some(&call.name),
                    Some((at, before)) => call.name == name && at == turn && before == up_to(turn),
                };
            let mut unknown = NewCalls {
                cut,
                newest: None,
                calls: Vec::new(),
                base: None,
                now_ms,
                written,
            };
            for (turn, name) in transcript.newest_first {
                if !checkpoints.is_empty() {
                    let unique = unique_part(&name);
                    let mut all = checkpoints.iter();
                    unknown.base = all.find(|c| is_here(&c.call, turn, &name, unique)).cloned();
                }
                unknown.newest.get_or_insert_with(|| called(turn, &name));
                if unknown.base.is_some() {
                    break;
                }
                unknown.calls.push(sibling_key(&name).to_owned());
            }
            // An id comes with its call, and again with its result.
            unknown.calls.sort_unstable();
            unknown.calls.dedup();
            unknown
        }
    }

    /// Whether no pair was written since these calls were walked.
    pub(super) fn is_current(&self, unknown: &NewCalls) -> bool {
        unknown.written == self.written
    }

    /// Sets a checkpoint at the newest of the calls; `found` are all pairs that the store has next to the unknown ones.
    /// The checkpoint that the walk ended at moves there.
    pub(super) fn set(&mut self, unknown: NewCalls, found: &[Arc<HiddenPair>]) {
        let is_current = self.is_current(&unknown);
        let Some(call) = unknown.newest.filter(|_| is_current) else {
            return;
        };
        let mut pairs = found.to_vec();
        let mut read_ms = unknown.now_ms;
        if let Some(base) = &unknown.base {
            pairs.extend(base.pairs.iter().cloned());
            read_ms = base.read_ms;
            self.all.retain(|c| !Arc::ptr_eq(c, base));
        }
        self.all.retain(|c| c.cut != unknown.cut || c.call != call);
        if self.all.len() == KEPT {
            self.all.remove(0);
        }
        self.all.push(Arc::new(Checkpoint {
            cut: unknown.cut,
            call,
            pairs,
            read_ms,
        }));
    }

    /// Pairs were written next to calls that may have been looked up before.
    pub(super) fn clear(&mut self) {
        self.written += 1;
        self.all.clear();
    }
}
