//! The context use of a key's threads. Only in memory: after a restart the next answer reports it again.

use baton_core::bill::CutLedger;
use baton_core::nudge::{ContextUse, NearLimit};
use baton_core::record::HandoffId;
use tokio::sync::oneshot;

/// Threads kept for one key; the least recently used goes first. Branches, and conversations that share the key, have one each.
const KEPT: usize = 16;

/// A thread of a key. It means nothing under another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(u64);

/// The part of a request's transcript that identifies its thread.
pub struct ThreadTurns<'a> {
    /// How many elements it has.
    pub turns: usize,
    /// The digest of the last few of them up to this one: a single one may be like another thread's ("Go on.").
    pub digest: &'a dyn Fn(usize) -> u128,
    /// Whether the agent named its session: the key is that of no other conversation.
    pub named: bool,
}

/// The threads of one key, least recently used first.
#[derive(Default)]
pub(super) struct ContextUses {
    all: Vec<KnownThread>,
    ids: u64,
}

/// What a thread has cost, and what waits in it.
#[derive(Default)]
pub struct ThreadCosts {
    /// What its answers were billed.
    pub ledger: CutLedger,
    /// Elements of the request before the newest one; `None` where this is the first.
    pub before: Option<usize>,
    /// Whether a person was offered a cut since the last answer of the model's.
    pub offered: bool,
    /// The usage limit that is near by the provider's last answer.
    pub limit: Option<NearLimit>,
    /// When the limit of which the model was notified is lifted.
    pub notified_limit: Option<u64>,
    /// Dropped with the thread's next request: nothing waits for a pause any more.
    pub pause: Option<oneshot::Sender<()>>,
}

struct KnownThread {
    id: ThreadId,
    /// Elements of the newest request, and the digest of its last ones.
    turns: usize,
    last: u128,
    context: ContextUse,
    costs: ThreadCosts,
}

impl ContextUses {
    /// The thread of a request that has come, cut at `cut`; and whether it continues the thread's newest request,
    /// and does not repeat it. `notified`: the transcript has a nudge after the cut.
    pub(super) fn exchange(
        &mut self,
        request: &ThreadTurns<'_>,
        cut: Option<HandoffId>,
        notified: bool,
    ) -> (ThreadId, bool) {
        let Some(last) = request.turns.checked_sub(1) else {
            return (ThreadId(u64::MAX), false);
        };
        let digest = (request.digest)(last);
        let goes_on =
            |known: &&KnownThread| known.turns <= last && known.last == (request.digest)(known.turns - 1);
        let repeats = |known: &KnownThread| known.turns == request.turns && known.last == digest;
        if let Some(known) = self.all.iter().rev().find(|known| repeats(known)) {
            return (known.id, false);
        }
        let found = self.all.iter().rposition(|known| goes_on(&known));
        // An agent may change what it has sent, and still continue.
        let found = found.or_else(|| {
            let longest = self
                .all
                .iter()
                .enumerate()
                .filter(|(_, known)| known.turns < request.turns);
            let longest = longest.max_by_key(|(_, known)| known.turns).map(|(at, _)| at);
            longest.filter(|_| request.named)
        });
        let mut known = match found {
            Some(at) => self.all.remove(at),
            None => {
                self.ids += 1;
                KnownThread {
                    id: ThreadId(self.ids),
                    turns: 0,
                    last: 0,
                    context: ContextUse::default(),
                    costs: ThreadCosts::default(),
                }
            }
        };
        known.costs.before = Some(known.turns).filter(|turns| *turns > 0);
        known.costs.pause = None;
        (known.turns, known.last) = (request.turns, digest);
        if known.context.cut() != cut {
            // The history is another one: after a handoff, an undo, or a rewind to before it.
            known.costs.ledger.handed_over();
        }
        known.context.exchange(cut, notified);
        let id = known.id;
        if self.all.len() == KEPT {
            self.all.remove(0);
        }
        self.all.push(known);
        (id, true)
    }

    /// The context and the costs of a thread that is still known.
    pub(super) fn of(&mut self, thread: ThreadId) -> Option<(&mut ContextUse, &mut ThreadCosts)> {
        let known = self.all.iter_mut().find(|known| known.id == thread)?;
        Some((&mut known.context, &mut known.costs))
    }
}
