//! Seals: a MAC which proves that this proxy wrote a carry-over prompt, even after the store is lost.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

use crate::record::LOCAL;
use crate::text::units::hex;

/// Length of a seal in bytes: 128 bits of the HMAC.
const SEAL_BYTES: usize = 16;

/// Length of a key id in bytes, enough to tell a handful of keys apart.
const ID_BYTES: usize = 4;

/// Length of a seal in base64url without padding, in characters.
pub(super) const SEAL_CHARS: usize = 22;

/// Whether `text` has the form of a seal.
pub(super) fn is_seal(text: &[u8]) -> bool {
    text.len() == SEAL_CHARS
        && text
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// Secret key that creates and verifies seals.
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey(Vec<u8>);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(…)")
    }
}

impl SealKey {
    /// Creates a key from bytes. HMAC accepts any length.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    fn keyed(&self) -> Hmac<Sha256> {
        // HMAC accepts keys of any length, so the empty fallback is never used.
        Hmac::new_from_slice(&self.0).unwrap_or_else(|_| Hmac::new(&Default::default()))
    }

    /// Starts the MAC of a prompt.
    ///
    /// Every principal except `local` is part of the input. A sealed prompt that someone copies into another
    /// client's transcript therefore proves nothing there.
    fn mac(&self, principal: &str, id: Uuid, prompt: &str) -> Hmac<Sha256> {
        let mut mac = self.keyed();
        if principal != LOCAL {
            mac.update(principal.as_bytes());
            // The zero byte separates the principal from the id.
            mac.update(b"\0");
        }
        mac.update(id.hyphenated().to_string().as_bytes());
        mac.update(b"\n");
        mac.update(prompt.as_bytes());
        mac
    }

    /// Seals an id and its prompt for a principal.
    pub fn seal(&self, principal: &str, id: Uuid, prompt: &str) -> String {
        let mac = self.mac(principal, id, prompt).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(&mac[..SEAL_BYTES])
    }

    /// Whether `seal` is valid for this id, prompt and principal. The comparison takes constant time.
    pub fn verifies(&self, principal: &str, id: Uuid, prompt: &str, seal: &[u8]) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(seal) else {
            return false;
        };
        let mac = self.mac(principal, id, prompt);
        // `verify_truncated_left` accepts any length, so the length of the seal must be checked.
        bytes.len() == SEAL_BYTES && mac.verify_truncated_left(&bytes).is_ok()
    }

    /// Public id of the key: eight hexadecimal digits that do not reveal the key.
    pub fn id(&self) -> String {
        let mut mac = self.keyed();
        mac.update(b"the id of a seal key");
        let mac = mac.finalize().into_bytes();
        hex(&mac[..ID_BYTES])
    }

    /// Raw bytes of the key.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The keys in use. The newest one creates seals; all of them verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealKeys {
    newest: SealKey,
    older: Vec<SealKey>,
}

impl From<SealKey> for SealKeys {
    fn from(only: SealKey) -> Self {
        Self::new(only, Vec::new())
    }
}

impl SealKeys {
    /// Combines the key that creates seals with the older ones that still verify.
    pub fn new(newest: SealKey, older: Vec<SealKey>) -> Self {
        Self { newest, older }
    }

    /// Number of keys, at least one.
    pub fn count(&self) -> usize {
        1 + self.older.len()
    }

    /// All keys, the newest first.
    pub fn all(&self) -> impl Iterator<Item = &SealKey> {
        std::iter::once(&self.newest).chain(&self.older)
    }

    /// Seals an id and its prompt for a principal, with the newest key.
    pub fn seal(&self, principal: &str, id: Uuid, prompt: &str) -> String {
        self.newest.seal(principal, id, prompt)
    }

    /// Whether any key verifies `seal` for this id, prompt and principal.
    pub fn verifies(&self, principal: &str, id: Uuid, prompt: &str, seal: &[u8]) -> bool {
        self.all().any(|key| key.verifies(principal, id, prompt, seal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);
    const PROMPT: &str = "Goal: make the CSV importer skip BOMs. Done: survey of src/import/*.rs; decided to strip U+FEFF in reader.rs::open(). Next: edit reader.rs, then run the importer tests.";

    #[test]
    fn the_seal_is_the_golden_one() {
        let key = SealKey::new(*b"golden-test-key");
        let golden = b"VR-iunEUwURMLNGuL8sekw";
        assert_eq!(key.seal(LOCAL, ID, PROMPT).as_bytes(), golden);
        assert!(key.verifies(LOCAL, ID, PROMPT, golden));
        assert!(!key.verifies(LOCAL, ID, "another", golden));
        assert!(!key.verifies(LOCAL, ID, PROMPT, b"VR-iunEUwURMLNGuL8sekx!"));
        assert!(!key.verifies(LOCAL, ID, PROMPT, b""));
    }

    #[test]
    fn the_newest_key_makes_seals_and_all_of_them_verify() {
        let key = |byte: u8| SealKey::new([byte; 32]);
        let keys = SealKeys::new(key(3), vec![key(2), key(1)]);
        assert_eq!(
            (keys.seal(LOCAL, ID, PROMPT), keys.count()),
            (key(3).seal(LOCAL, ID, PROMPT), 3)
        );
        for (byte, holds) in [(1, true), (2, true), (3, true), (4, false)] {
            let seal = key(byte).seal("ann", ID, PROMPT);
            assert_eq!(keys.verifies("ann", ID, PROMPT, seal.as_bytes()), holds, "{byte}");
            assert!(!keys.verifies("bob", ID, PROMPT, seal.as_bytes()), "{byte}");
        }
    }

    #[test]
    fn an_id_is_short_and_no_part_of_a_seal_or_the_key() {
        let (one, other) = (SealKey::new([1; 32]), SealKey::new([2; 32]));
        assert_eq!((one.id().len(), one.id()), (8, one.id()));
        assert_ne!(one.id(), other.id());
        assert!(!"01".repeat(32).contains(&one.id()));
    }

    #[test]
    fn a_seal_is_its_principals_alone() {
        let key = SealKey::new(*b"golden-test-key");
        let of = |principal| key.seal(principal, ID, PROMPT);
        assert!(key.verifies("ann", ID, PROMPT, of("ann").as_bytes()));
        for (sealed, shown) in [("ann", "bob"), ("ann", LOCAL), (LOCAL, "ann")] {
            assert!(
                !key.verifies(shown, ID, PROMPT, of(sealed).as_bytes()),
                "{sealed} for {shown}"
            );
        }
    }
}
