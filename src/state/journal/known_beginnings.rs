//! A cache of the beginnings of stored bodies: the next request of a conversation begins like the one before.

use quick_cache::unsync::Cache;

use super::chunks::MessageChunks;
use super::deleted_rows::DeletedRows;
use super::keyed_hash::{BLOCK, KeyedHash};
use super::note::BodyLayout;
use baton_core::record::WireId;

/// Cached beginnings of bodies, some 150 bytes each; a conversation of 1 MB has 32.
const BEGINNINGS: usize = 8 * 1024;

/// The region before the messages: its end, its hash and its last node.
pub(super) type BodyHead = (usize, KeyedHash, i64);

/// The cache entry of a prefix of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownBeginning {
    /// The wire as which it was read.
    pub(super) wire: WireId,
    pub(super) head: BodyHead,
    /// How many whole messages it holds, and where the last one ends.
    pub(super) messages: (usize, usize),
    /// The hash chain of these messages, and the last node.
    pub(super) list: (KeyedHash, i64),
}

impl KnownBeginning {
    fn exists(&self, deleted: &DeletedRows) -> bool {
        deleted.node_exists(self.head.2) && deleted.node_exists(self.list.1)
    }
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

    /// Removes those with deleted nodes.
    pub(super) fn purge(&mut self, deleted: &DeletedRows) {
        self.0.retain(|_, known| known.exists(deleted));
    }

    /// A beginning whose nodes all exist.
    fn get(&self, hash: &KeyedHash, deleted: &DeletedRows) -> Option<KnownBeginning> {
        self.0.get(hash).copied().filter(|known| known.exists(deleted))
    }

    /// The cache entry of the longest known beginning of a body with these messages.
    pub(super) fn find(
        &self,
        beginnings: &[KeyedHash],
        (wire, transcript): (WireId, &BodyLayout),
        deleted: &DeletedRows,
    ) -> Option<KnownBeginning> {
        let mut longest = beginnings.iter().rev();
        let known = longest.find_map(|hash| self.get(hash, deleted))?;
        let (messages, end) = known.messages;
        let head = transcript.list.start + 1;
        let last = match messages {
            0 => head,
            n => transcript.turns.get(n - 1)?.span.end,
        };
        // Another wire may have split the same bytes differently.
        (wire == known.wire && head == known.head.0 && last == end).then_some(known)
    }

    /// Caches the beginnings of a body of this wire. The messages from index `from` on are given by their hashes and nodes.
    pub(super) fn remember(
        &mut self,
        (wire, beginnings): (WireId, &[KeyedHash]),
        head: BodyHead,
        messages: MessageChunks<'_>,
        (from, chain): (usize, &[(KeyedHash, i64)]),
        deleted: &DeletedRows,
    ) {
        // Earlier ones hold fewer messages.
        let known = messages.end_of_first(from).div_ceil(BLOCK).saturating_sub(1);
        for (n, hash) in beginnings.iter().enumerate().skip(known) {
            let end = (n + 1) * BLOCK;
            let whole = messages.up_to(end);
            let Some(last) = whole.0.checked_sub(from).and_then(|at| chain.get(at)) else {
                continue;
            };
            if head.0 > end || self.get(hash, deleted).is_some() {
                continue;
            }
            let known = KnownBeginning {
                wire,
                head,
                messages: whole,
                list: *last,
            };
            self.0.insert(*hash, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::wire::{Operation, Requests, Turn, anthropic::Anthropic};
    use bytes::Bytes;

    #[test]
    fn a_beginning_is_known_where_it_was_split_the_same_way() {
        let body = Bytes::from_static(
            br#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#,
        );
        let view = Anthropic.read(&body, Operation::Generate).unwrap();
        let transcript = |turns: &[Turn]| BodyLayout {
            list: view.list,
            turns: turns.to_vec(),
        };
        let (mut known, none) = (KnownBeginnings::new(), DeletedRows::default());
        let head = (view.list.start + 1, 1, 1);
        let messages = MessageChunks::at(&body, head.0, &view.turns);
        let chain = [(0, 0), (2, 2), (3, 3)];
        known.remember((WireId::Anthropic, &[7]), head, messages, (0, &chain), &none);
        let find = |hashes: &[_], wire, turns: &[Turn]| known.find(hashes, (wire, &transcript(turns)), &none);
        let found = find(&[7, 8], WireId::Anthropic, &view.turns);
        assert_eq!(found.unwrap().messages, (2, view.turns[1].span.end));
        assert!(find(&[8], WireId::Anthropic, &view.turns).is_none());
        assert!(find(&[7], WireId::OpenaiChat, &view.turns).is_none());
        assert!(find(&[7], WireId::Anthropic, &view.turns[..1]).is_none());
        let mut other = view.turns.clone();
        other[1].span.end -= 1;
        assert!(find(&[7], WireId::Anthropic, &other).is_none());
    }
}
