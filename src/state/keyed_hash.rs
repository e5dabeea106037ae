//! A fast hash under a random key of this process, by which known bytes are recognised.
//!
//! XXH3 runs at memory speed. Its key never leaves the process, so nobody outside can construct a collision, and a hash means
//! nothing in another process.

use std::sync::LazyLock;

use twox_hash::XxHash3_128;

/// What [`hash`] gives.
pub(crate) type KeyedHash = u128;

/// The hash of some bytes.
pub fn hash(bytes: &[u8]) -> KeyedHash {
    /// Minimum length of an XXH3 secret.
    const KEY: usize = 192;
    static SECRET: LazyLock<[u8; KEY]> = LazyLock::new(|| {
        let mut key = [0; KEY];
        // Without randomness, equal texts are still found.
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
