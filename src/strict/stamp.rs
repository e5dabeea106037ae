//! What a provider gives out and wants back unchanged: encrypted reasoning, thought signatures.
//!
//! A stamp holds hashes: of the thing it was given out with, of everything that came before that thing, of the
//! occasion where there is one, and a seal over these, by which a stamp of ours is told from anything else.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest, Sha256};

/// Bytes of each of the hashes: short enough to read in a log, long enough never to collide here.
const PART: usize = 12;
/// Makes a stamp of ours recognisable as such; it is no secret.
const SEAL: &[u8] = b"strict provider's stamp";

type Hash = [u8; PART];

/// What a stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    own: Hash,
    prefix: Hash,
    /// What makes it another one where thing and prefix are the same; not looked at when it comes back.
    occasion: Option<Hash>,
}

impl Stamp {
    /// The stamp of `own` behind `prefix`.
    pub(crate) fn new(own: &str, prefix: &Sha256) -> Self {
        Stamp {
            own: hash(own.as_bytes()),
            prefix: shorten(prefix.clone()),
            occasion: None,
        }
    }

    /// The same, as it is given out this once.
    pub(crate) fn once(self, occasion: &str) -> Self {
        Stamp {
            occasion: Some(hash(occasion.as_bytes())),
            ..self
        }
    }

    /// The stamp as it travels.
    pub(crate) fn write(&self) -> String {
        let mut parts = [self.own, self.prefix].concat();
        parts.extend(self.occasion.iter().flatten());
        let seal = hash(&[SEAL, &parts].concat());
        STANDARD.encode([parts, seal.to_vec()].concat())
    }

    /// Reads a stamp; `None` where it was not made here. Both alphabets of base64 will do, with padding or
    /// without: google-genai decodes what it gets, and writes it again in the other alphabet.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('=').replace('-', "+").replace('_', "/");
        let bytes = STANDARD_NO_PAD.decode(text).ok()?;
        let (parts, rest) = bytes.as_chunks::<PART>();
        let (own, prefix, occasion, seal) = match parts {
            [own, prefix, seal] => (own, prefix, None, seal),
            [own, prefix, occasion, seal] => (own, prefix, Some(*occasion), seal),
            _ => return None,
        };
        let said = &bytes[..bytes.len().checked_sub(PART)?];
        let sealed = rest.is_empty() && hash(&[SEAL, said].concat()) == *seal;
        sealed.then_some(Stamp {
            own: *own,
            prefix: *prefix,
            occasion,
        })
    }

    /// Whether it was given out with the same thing.
    pub(crate) fn same_thing(&self, other: &Stamp) -> bool {
        self.own == other.own
    }

    /// Whether it was given out behind the same prefix.
    pub(crate) fn same_prefix(&self, other: &Stamp) -> bool {
        self.prefix == other.prefix
    }
}

fn hash(bytes: &[u8]) -> Hash {
    shorten(Sha256::new_with_prefix(bytes))
}

fn shorten(hasher: Sha256) -> Hash {
    let mut out = Hash::default();
    out.copy_from_slice(&hasher.finalize()[..PART]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_survives_its_way_and_nothing_else_passes_for_one() {
        let stamp = Stamp::new("call", &Sha256::new_with_prefix("prefix"));
        assert_eq!(Stamp::read(&stamp.write()), Some(stamp));
        let respelled = stamp.write().replace('+', "-").replace('/', "_");
        assert_eq!(Stamp::read(&respelled), Some(stamp));
        assert_eq!(Stamp::read("c2lnLTE="), None);
        let once = stamp.once("id");
        assert_eq!(Stamp::read(&once.write()), Some(once));
        assert_ne!(once.write(), stamp.once("another").write());
        assert!(once.same_thing(&stamp) && once.same_prefix(&stamp));
        let mut forged = STANDARD.decode(stamp.write()).unwrap();
        forged[0] ^= 1;
        assert_eq!(Stamp::read(&STANDARD.encode(forged)), None);
        assert!(stamp.same_thing(&Stamp::new("call", &Sha256::new())));
        assert!(!stamp.same_prefix(&Stamp::new("call", &Sha256::new())));
    }
}
