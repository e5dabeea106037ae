//! Opaque tokens that a provider issues and wants back unchanged: encrypted reasoning, thought signatures.
//!
//! A signature holds a hash of its content, a hash of the transcript before that content, and optionally a nonce. A
//! checksum over these identifies signatures of this provider.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest, Sha256};

/// Bytes of each of the hashes: short enough to read in a log, long enough never to collide here.
const PART: usize = 12;
/// Makes a signature of this provider recognisable; it is no secret.
const SALT: &[u8] = b"strict provider's stamp";

type SignatureHash = [u8; PART];

/// A signature, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    content: SignatureHash,
    prefix: SignatureHash,
    /// Makes signatures of equal content after an equal prefix differ; ignored when the signature comes back.
    nonce: Option<SignatureHash>,
}

impl Signature {
    /// The signature of `content` after `prefix`.
    pub(crate) fn new(content: &str, prefix: &Sha256) -> Self {
        Signature {
            content: hash(content.as_bytes()),
            prefix: shorten(prefix.clone()),
            nonce: None,
        }
    }

    /// The same signature with a nonce.
    pub(crate) fn with_nonce(self, nonce: &str) -> Self {
        Signature {
            nonce: Some(hash(nonce.as_bytes())),
            ..self
        }
    }

    /// The signature as base64.
    pub(crate) fn write(&self) -> String {
        let mut parts = [self.content, self.prefix].concat();
        parts.extend(self.nonce.iter().flatten());
        let checksum = hash(&[SALT, &parts].concat());
        STANDARD.encode([parts, checksum.to_vec()].concat())
    }

    /// Parses a signature; `None` where this provider did not issue it. Either base64 alphabet is accepted, with
    /// or without padding: google-genai decodes what it gets and encodes it again in the other alphabet.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('=').replace('-', "+").replace('_', "/");
        let bytes = STANDARD_NO_PAD.decode(text).ok()?;
        let (parts, rest) = bytes.as_chunks::<PART>();
        let (content, prefix, nonce, checksum) = match parts {
            [content, prefix, checksum] => (content, prefix, None, checksum),
            [content, prefix, nonce, checksum] => (content, prefix, Some(*nonce), checksum),
            _ => return None,
        };
        let hashed = &bytes[..bytes.len().checked_sub(PART)?];
        let valid = rest.is_empty() && hash(&[SALT, hashed].concat()) == *checksum;
        valid.then_some(Signature {
            content: *content,
            prefix: *prefix,
            nonce,
        })
    }

    /// Whether both were issued with the same content.
    pub(crate) fn same_content(&self, other: &Signature) -> bool {
        self.content == other.content
    }

    /// Whether both were issued after the same prefix.
    pub(crate) fn same_prefix(&self, other: &Signature) -> bool {
        self.prefix == other.prefix
    }
}

fn hash(bytes: &[u8]) -> SignatureHash {
    shorten(Sha256::new_with_prefix(bytes))
}

fn shorten(hasher: Sha256) -> SignatureHash {
    let mut out = SignatureHash::default();
    out.copy_from_slice(&hasher.finalize()[..PART]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_round_trips_and_nothing_else_parses_as_one() {
        let signature = Signature::new("call", &Sha256::new_with_prefix("prefix"));
        assert_eq!(Signature::read(&signature.write()), Some(signature));
        let respelled = signature.write().replace('+', "-").replace('/', "_");
        assert_eq!(Signature::read(&respelled), Some(signature));
        assert_eq!(Signature::read("c2lnLTE="), None);
        let with_nonce = signature.with_nonce("id");
        assert_eq!(Signature::read(&with_nonce.write()), Some(with_nonce));
        assert_ne!(with_nonce.write(), signature.with_nonce("another").write());
        assert!(with_nonce.same_content(&signature) && with_nonce.same_prefix(&signature));
        let mut forged = STANDARD.decode(signature.write()).unwrap();
        forged[0] ^= 1;
        assert_eq!(Signature::read(&STANDARD.encode(forged)), None);
        assert!(signature.same_content(&Signature::new("call", &Sha256::new())));
        assert!(!signature.same_prefix(&Signature::new("call", &Sha256::new())));
    }
}
