//! A fast keyed hash, with a random key for each process, by which known texts are recognised.
//!
//! XXH3 runs at memory speed. Its key is 192 random bytes that never leave the process, so nobody can construct colliding texts.
//! The file itself identifies chunks by SHA-256.

use std::sync::Arc;

use twox_hash::XxHash3_128;

/// Bytes of the key: what XXH3 asks for where it is given one.
const KEY: usize = 192;

/// A text's hash; it means nothing in another process.
pub(crate) type KeyedHash = u128;

/// The key. Clones are the same one.
#[derive(Clone)]
pub(super) struct HashKey(Arc<[u8; KEY]>);

impl HashKey {
    pub(super) fn new() -> Self {
        let mut key = [0; KEY];
        // Without randomness, equal texts are still found; only crafted collisions are not prevented.
        let _ = getrandom::fill(&mut key);
        Self(Arc::new(key))
    }

    /// The hash of a text.
    pub(super) fn hash(&self, text: &[u8]) -> KeyedHash {
        // Fails for shorter keys alone.
        XxHash3_128::oneshot_with_secret(&self.0[..], text).unwrap_or_default()
    }

    /// The hash of a sequence, from that of all before its last part and that of the last part.
    pub(super) fn chain(&self, before: KeyedHash, last: KeyedHash) -> KeyedHash {
        let mut both = [0; 32];
        both[..16].copy_from_slice(&before.to_le_bytes());
        both[16..].copy_from_slice(&last.to_le_bytes());
        self.hash(&both)
    }
}

/// Bytes of a block, small enough to be in a core's cache still when it is full.
pub(crate) const BLOCK: usize = 32 << 10;

/// The start value of the chain of a body's blocks.
const BLOCKS: KeyedHash = 5;

/// Hashes of a body's beginnings, taken while it arrives: the bytes are in the cache then, and most of what an agent sends
/// it has sent before. One for each whole block, of all up to its end.
#[derive(Clone)]
pub struct Beginnings {
    key: HashKey,
    hashes: Vec<KeyedHash>,
}

impl Beginnings {
    pub(super) fn new(key: &HashKey) -> Self {
        Self {
            key: key.clone(),
            hashes: Vec::new(),
        }
    }

    /// Hashes with a key of their own: where nothing is recorded.
    pub(crate) fn with_own_key() -> Self {
        Self::new(&HashKey::new())
    }

    /// `text` is all that has arrived.
    pub fn read(&mut self, text: &[u8]) {
        let from = self.hashes.len() * BLOCK;
        for block in text.get(from..).unwrap_or_default().chunks_exact(BLOCK) {
            let before = self.hashes.last().copied().unwrap_or(BLOCKS);
            self.hashes.push(self.key.chain(before, self.key.hash(block)));
        }
    }

    /// The hashes in order; the nth covers n + 1 blocks.
    pub(crate) fn hashes(&self) -> &[KeyedHash] {
        &self.hashes
    }
}

impl std::fmt::Debug for Beginnings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Beginnings").field(&self.hashes.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_the_same_however_a_body_arrives() {
        let key = HashKey::new();
        let text: Vec<u8> = (0..5 * BLOCK + 7).map(|i| (i * i % 251) as u8).collect();
        let mut whole = Beginnings::new(&key);
        whole.read(&text);
        assert_eq!(whole.hashes().len(), 5);
        let mut parts = Beginnings::new(&key);
        for end in (0..text.len()).step_by(9_999).chain([text.len()]) {
            parts.read(&text[..end]);
        }
        assert_eq!(parts.hashes(), whole.hashes());
        let mut other = Beginnings::new(&key);
        let mut changed = text;
        changed[2 * BLOCK] ^= 1;
        other.read(&changed);
        let same = other.hashes().iter().zip(whole.hashes()).filter(|(a, b)| a == b);
        assert_eq!(same.count(), 2, "the first difference counts for all that follow");
    }

    #[test]
    fn equal_texts_meet_and_each_process_has_its_own_hash() {
        let (one, other) = (HashKey::new(), HashKey::new());
        for len in [0, 1, 16, 17, 128, 240, 241, 1024, 5000] {
            let text = vec![b'x'; len];
            assert_eq!(one.hash(&text), one.hash(&text.clone()));
            assert_ne!(one.hash(&text), other.hash(&text), "{len}");
            assert_ne!(one.hash(&text), one.hash(&vec![b'x'; len + 1]), "{len}");
        }
        assert_ne!(one.chain(1, 2), one.chain(2, 1));
    }
}
