//! A fast hash with a key of its own for each process: tells whether a text is known without reading it twice.
//!
//! XXH3 goes over a text at the speed of memory. Its key is 192 random bytes that leave this process in no form, so
//! that nobody can make two texts that meet in it. What is written down is found by SHA-256.

use twox_hash::XxHash3_128;

/// Bytes of the key: what XXH3 asks for where it is given one.
const KEY: usize = 192;

/// A text's hash; it means nothing in another process.
pub(super) type Fast = u128;

/// The key.
pub(super) struct Key([u8; KEY]);

impl Key {
    pub(super) fn new() -> Self {
        let mut key = [0; KEY];
        // Without randomness, equal texts are still found; only nobody's ill will is kept out.
        let _ = getrandom::fill(&mut key);
        Self(key)
    }

    /// The hash of a text.
    pub(super) fn hash(&self, text: &[u8]) -> Fast {
        // Fails for shorter keys alone.
        XxHash3_128::oneshot_with_secret(&self.0, text).unwrap_or_default()
    }

    /// The hash of a sequence, from that of all before its last part and that of the last part.
    pub(super) fn chain(&self, before: Fast, last: Fast) -> Fast {
        let mut both = [0; 32];
        both[..16].copy_from_slice(&before.to_le_bytes());
        both[16..].copy_from_slice(&last.to_le_bytes());
        self.hash(&both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_meet_and_each_process_has_its_own_hash() {
        let (one, other) = (Key::new(), Key::new());
        for len in [0, 1, 16, 17, 128, 240, 241, 1024, 5000] {
            let text = vec![b'x'; len];
            assert_eq!(one.hash(&text), one.hash(&text.clone()));
            assert_ne!(one.hash(&text), other.hash(&text), "{len}");
            assert_ne!(one.hash(&text), one.hash(&vec![b'x'; len + 1]), "{len}");
        }
        assert_ne!(one.chain(1, 2), one.chain(2, 1));
    }
}
