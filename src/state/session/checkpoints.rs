//! Checkpoints: calls of a transcript before which all hidden pairs are cached.
//!
//! A cache of store results. Every entry follows from a transcript and the store, so changes to the
//! conversation's record, or to another conversation with the same key, never invalidate an entry. A
//! transcript that contains the call of a checkpoint contains all calls before it as well, so only later
//! calls need a lookup. A call is identified by its name if that is random or signed. Otherwise branches may
//! have equal calls, and everything before the call must be byte-identical.

use std::cell::Cell;
use std::sync::Arc;

use super::TOUCH_AFTER_MS;
use crate::keyed_hash::hash;
use baton_core::record::{HandoffId, HiddenPair, sibling_key};
use baton_core::text::newest;
use baton_core::wire::unique_part;

/// Maximum number of checkpoints per key. The least recently used is evicted first.
///
/// Each branch has one, and so does each conversation that shares the key.
const KEPT: usize = 16;

/// The checkpoints of one key, least recently used first.
#[derive(Default)]
pub(super) struct Checkpoints {
    all: Vec<Arc<Checkpoint>>,
    /// Number of pair writes. A lookup made before the latest write may lack a pair.
    written: u64,
}

/// All pairs next to the calls after `cut`, up to and including `call`.
struct Checkpoint {
    cut: Option<HandoffId>,
    call: CallMarker,
    pairs: Vec<Arc<HiddenPair>>,
    /// When the oldest of the pairs was read from the store.
    read_ms: u64,
}

/// A call, identified by a name that no call of another branch has.
#[derive(Clone, PartialEq, Eq)]
struct CallMarker {
    name: String,
    /// Turn of the call, and a hash of the transcript up to its end. `None` if the name identifies the call
    /// by itself.
    position: Option<(usize, u128)>,
}

/// The calls of a transcript after its cut.
pub struct CallsAfterCut<'a, Calls> {
    /// Names of the calls, newest first, each with its turn.
    pub newest_first: Calls,
    /// Returns the bytes of the transcript from the cut to the end of a turn.
    pub up_to: &'a dyn Fn(usize) -> &'a [u8],
}

/// The calls of a transcript after every checkpoint, which need a lookup in the store.
pub struct NewCalls {
    cut: Option<HandoffId>,
    newest: Option<CallMarker>,
    calls: Vec<String>,
    base: Option<Arc<Checkpoint>>,
    now_ms: u64,
    written: u64,
}

impl NewCalls {
    /// Returns the distinct names of the calls.
    pub fn calls(&self) -> &[String] {
        &self.calls
    }

    /// Returns the pairs next to the transcript's earlier calls.
    pub fn known(&self) -> &[Arc<HiddenPair>] {
        self.base.as_ref().map_or(&[], |base| &base.pairs)
    }
}

impl Checkpoints {
    /// Returns the checkpoints that a transcript with this cut may contain.
    ///
    /// Old checkpoints are skipped, so that their pairs are read again. Reading marks pairs as used, and a
    /// fork's pairs would otherwise be swept.
    fn of(&self, cut: Option<HandoffId>, now_ms: u64) -> Vec<Arc<Checkpoint>> {
        let fresh = |c: &Checkpoint| now_ms.saturating_sub(c.read_ms) <= TOUCH_AFTER_MS;
        let wanted = self.all.iter().filter(|c| c.cut == cut && fresh(c));
        wanted.cloned().collect()
    }

    /// Returns a function that walks a transcript's calls from the newest back to a checkpoint. It holds no
    /// lock while walking.
    pub(super) fn walk<'a, Calls: Iterator<Item = (usize, String)>>(
        &self,
        cut: Option<HandoffId>,
        now_ms: u64,
    ) -> impl FnOnce(CallsAfterCut<'a, Calls>) -> NewCalls + use<'a, Calls> {
        let (checkpoints, written) = (self.of(cut, now_ms), self.written);
        move |transcript| {
            // The last hash is kept: a checkpoint asks only for its own turn, so at most one turn per
            // checkpoint is hashed.
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
            // An id occurs in the call and again in its result.
            unknown.calls.sort_unstable();
            unknown.calls.dedup();
            unknown
        }
    }

    /// Whether no pair was written since these calls were walked.
    pub(super) fn is_current(&self, unknown: &NewCalls) -> bool {
        unknown.written == self.written
    }

    /// Sets a checkpoint at the newest of the calls. `found` are all pairs that the store has next to the new
    /// calls.
    ///
    /// The checkpoint where the walk ended moves there.
    pub(super) fn set(&mut self, unknown: NewCalls, found: &[Arc<HiddenPair>]) {
        // A pair written meanwhile may be missing in `found`, and the checkpoint would hide it for good.
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
        // A checkpoint at the same call is replaced.
        self.all.retain(|c| c.cut != unknown.cut || c.call != call);
        let checkpoint = Checkpoint {
            cut: unknown.cut,
            call,
            pairs,
            read_ms,
        };
        newest::push(&mut self.all, KEPT, Arc::new(checkpoint));
    }

    /// Discards all checkpoints, because pairs were written next to calls that may have been looked up
    /// before.
    pub(super) fn clear(&mut self) {
        self.written += 1;
        self.all.clear();
    }
}
