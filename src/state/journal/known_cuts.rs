//! A cache of cut requests: the next request of a conversation is cut like the one before.

use quick_cache::unsync::Cache;

use super::deleted_rows::DeletedRows;
use super::keyed_hash::KeyedHash;

/// Cached cuts, some 100 bytes each; a conversation that is cut has one, as long as its envelope stays.
const CUTS: usize = 8 * 1024;

/// The stored parts of a cut request without the messages that it kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShortBody {
    /// The last nodes of what is before and after the messages.
    pub(super) head: i64,
    pub(super) tail: i64,
    /// The hash chain of the messages in front of those that were kept, and the last node.
    pub(super) list: (KeyedHash, i64),
    /// How many these are.
    pub(super) messages: usize,
}

impl ShortBody {
    fn exists(&self, deleted: &DeletedRows) -> bool {
        let nodes = [self.head, self.tail, self.list.1];
        nodes.into_iter().all(|node| deleted.node_exists(node))
    }
}

/// Cut requests, without the messages that they kept, by a hash of how each was assembled.
pub(super) struct KnownCuts(Cache<KeyedHash, ShortBody>);

impl KnownCuts {
    pub(super) fn new() -> Self {
        Self(Cache::new(CUTS))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Removes those with deleted nodes.
    pub(super) fn purge(&mut self, deleted: &DeletedRows) {
        self.0.retain(|_, short| short.exists(deleted));
    }

    /// A cut whose nodes all exist.
    pub(super) fn get(&self, recipe: KeyedHash, deleted: &DeletedRows) -> Option<ShortBody> {
        self.0.get(&recipe).copied().filter(|short| short.exists(deleted))
    }

    pub(super) fn insert(&mut self, recipe: KeyedHash, short: ShortBody) {
        self.0.insert(recipe, short);
    }
}
