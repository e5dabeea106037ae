//! A fast hash under a random key of this process, for recognizing known bytes.
//!
//! XXH3 runs at memory speed. The key never leaves the process, so nobody outside can construct a collision,
//! and a hash has no meaning in another process.

use std::sync::LazyLock;

use twox_hash::XxHash3_128;

/// The result of [`hash`].
pub(crate) type KeyedHash = u128;

/// Hashes bytes.
pub fn hash(bytes: &[u8]) -> KeyedHash {
    /// Minimum length of an XXH3 secret.
    const KEY: usize = 192;
    static SECRET: LazyLock<[u8; KEY]> = LazyLock::new(|| {
        let mut key = [0; KEY];
        // If randomness is unavailable, the key stays zero: equal bytes still match, only the protection is
        // lost.
        let _ = getrandom::fill(&mut key);
        key
    });
    XxHash3_128::oneshot_with_secret(&*SECRET, bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_meet() {
        for len in [0, 1, 16, 17, 128, 240, 241, 1024, 5000] {
            let text = vec![b'x'; len];
            assert_eq!(hash(&text), hash(&text.clone()));
            assert_ne!(hash(&text), hash(&vec![b'x'; len + 1]), "{len}");
        }
    }
}
