//! A cache of the beginnings of stored bodies: the next request of a conversation begins like the one before.

use quick_cache::unsync::Cache;

use super::chunks::Regions;
use super::keyed_hash::{BLOCK, KeyedHash};
use crate::text::Span;

/// Cached beginnings of bodies, some 150 bytes each; a conversation of 1 MB has 32.
const BEGINNINGS: usize = 8 * 1024;

/// The region before the messages: its end, its hash and its last node.
pub(super) type Head = (usize, KeyedHash, i64);

/// What is cached for a beginning of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownBeginning {
    pub(super) head: Head,
    /// How many whole messages it holds, and where the last one ends.
    pub(super) messages: (usize, usize),
    /// The hash chain of these messages, and the last node.
    pub(super) list: (KeyedHash, i64),
}

/// Beginnings by their hashes; each is a number of whole blocks.
pub(super) struct KnownBeginnings(Cache<KeyedHash, KnownBeginning>);

impl KnownBeginnings {
    pub(super) fn new() -> Self {
        Self(Cache::new(BEGINNINGS))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps only those whose nodes are still there.
    pub(super) fn retain(&mut self, is_there: impl Fn(i64) -> bool) {
        self.0
            .retain(|_, known| is_there(known.head.2) && is_there(known.list.1));
    }

    /// The cache entry of the longest known beginning.
    pub(super) fn find(&self, beginnings: &[KeyedHash], regions: &Regions) -> Option<KnownBeginning> {
        let mut longest = beginnings.iter().rev();
        let known = *longest.find_map(|hash| self.0.get(hash))?;
        let (messages, end) = known.messages;
        let last = match messages {
            0 => regions.head.end,
            n => regions.list.get(n - 1)?.1.end,
        };
        // Another wire may have split the same bytes differently.
        (regions.head.end == known.head.0 && last == end).then_some(known)
    }

    /// Caches the beginnings of a body. The messages from index `from` on are given by their hashes and nodes.
    pub(super) fn remember(
        &mut self,
        beginnings: &[KeyedHash],
        head: Head,
        list: &[(Span, Span)],
        (from, chain): (usize, &[(KeyedHash, i64)]),
    ) {
        for (n, hash) in beginnings.iter().enumerate() {
            let end = (n + 1) * BLOCK;
            let whole = list.partition_point(|(_, span)| span.end <= end);
            let Some(last) = whole.checked_sub(from).and_then(|at| chain.get(at)) else {
                continue;
            };
            if head.0 > end || self.0.get(hash).is_some() {
                continue;
            }
            let at = whole.checked_sub(1).map_or(head.0, |last| list[last].1.end);
            let known = KnownBeginning {
                head,
                messages: (whole, at),
                list: *last,
            };
            self.0.insert(*hash, known);
        }
    }
}
