//! Signatures of thinking blocks, which bind each block to everything that came before it.
//!
//! A signature holds four hashes: of the prefix (system, tools, earlier messages, earlier blocks of the
//! same message), of the thinking itself, of the thinking block before it, and a seal over these three.
//! Thinking blocks are no part of the prefix, so that the oldest of them may be removed; the link to the
//! block before is what notices that one is missing between two others.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{as_blocks, list, plain, text};
use crate::strict::canonical;

/// Bytes of each of the four hashes: short enough to read in a log, long enough never to collide here.
const PART: usize = 12;
/// Makes a signature of ours recognisable as such; it is no secret.
const SEAL: &[u8] = b"strict provider";

type Hash = [u8; PART];

/// Why a thinking block was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The signature was not made here.
    Foreign,
    /// The thinking was changed.
    Thinking,
    /// What came before is not what it was.
    Prefix,
    /// A thinking block between this one and the one before is missing, or one came back.
    Link,
}

impl Broken {
    pub(super) fn why(self) -> &'static str {
        match self {
            Broken::Foreign => "the signature was not made by this provider",
            Broken::Thinking => "the thinking was changed",
            Broken::Prefix => "system, tools or earlier messages differ from those it was made for",
            Broken::Link => "a thinking block between this one and the one before is missing or came back",
        }
    }
}

/// A transcript, hashed block by block up to some place.
pub(super) struct Prefix {
    hasher: Sha256,
    role: String,
    last: Option<Hash>,
}

impl Prefix {
    /// The prefix before the first message.
    pub(super) fn new(body: &Value) -> Self {
        let mut prefix = Prefix {
            hasher: Sha256::new(),
            role: String::new(),
            last: None,
        };
        for block in as_blocks(body.get("system")) {
            prefix.feed("system", &block);
        }
        for tool in list(body, "tools") {
            prefix.feed("tool", tool);
        }
        prefix
    }

    /// The prefix after the last message, with no thinking block checked.
    pub(super) fn whole(body: &Value) -> Self {
        let mut prefix = Prefix::new(body);
        for message in list(body, "messages") {
            prefix.enter(message);
            for block in as_blocks(message.get("content")) {
                match seal_of(&block) {
                    Some(signature) => prefix.last = decode(signature).map(|parts| parts[3]).or(prefix.last),
                    None => prefix.push(&block),
                }
            }
        }
        prefix
    }

    /// Goes into a message. A message of the same role as the one before continues it.
    pub(super) fn enter(&mut self, message: &Value) {
        self.enter_role(text(message, "role"));
        let mut rest = plain(message);
        if let Value::Object(fields) = &mut rest {
            fields.retain(|key, _| !matches!(key.as_str(), "role" | "content" | "output_config"));
            if !fields.is_empty() {
                self.feed("fields", &rest);
            }
        }
    }

    /// Goes into a message of this role.
    pub(super) fn enter_role(&mut self, role: &str) {
        if self.role != role {
            self.hasher.update([1]);
            self.hasher.update(role.as_bytes());
            self.role = role.to_owned();
        }
    }

    /// Goes past a block that is not thinking.
    pub(super) fn push(&mut self, block: &Value) {
        self.feed("block", block);
    }

    fn feed(&mut self, kind: &str, value: &Value) {
        self.hasher.update([2]);
        self.hasher.update(kind.as_bytes());
        self.hasher.update(canonical::text(&plain(value)).as_bytes());
    }

    /// Signs thinking at this place and goes past it.
    pub(super) fn sign(&mut self, thinking: &str) -> String {
        let parts = self.parts(thinking, self.last.unwrap_or_default());
        self.last = Some(parts[3]);
        STANDARD.encode(parts.concat())
    }

    /// Checks a thinking block at this place and goes past it.
    pub(super) fn verify(&mut self, thinking: &str, signature: &str) -> Result<(), Broken> {
        let given = decode(signature).ok_or(Broken::Foreign)?;
        let before = self.last.replace(given[3]);
        let made = self.parts(thinking, given[2]);
        if seal(&given) != given[3] {
            Err(Broken::Foreign)
        } else if made[1] != given[1] {
            Err(Broken::Thinking)
        } else if made[0] != given[0] {
            Err(Broken::Prefix)
        } else if before.is_some_and(|before| before != given[2]) {
            Err(Broken::Link)
        } else {
            Ok(())
        }
    }

    fn parts(&self, thinking: &str, before: Hash) -> [Hash; 4] {
        let prefix = shorten(self.hasher.clone());
        let own = shorten(Sha256::new().chain_update(thinking.as_bytes()));
        let mut parts = [prefix, own, before, Hash::default()];
        parts[3] = seal(&parts);
        parts
    }
}

/// What carries a thinking block's signature: `signature`, or `data` of redacted thinking.
pub(super) fn seal_of(block: &Value) -> Option<&str> {
    match text(block, "type") {
        "thinking" => Some(text(block, "signature")),
        "redacted_thinking" => Some(text(block, "data")),
        _ => None,
    }
}

fn seal(parts: &[Hash; 4]) -> Hash {
    shorten(Sha256::new().chain_update(SEAL).chain_update(parts[..3].concat()))
}

fn shorten(hasher: Sha256) -> Hash {
    let mut out = Hash::default();
    out.copy_from_slice(&hasher.finalize()[..PART]);
    out
}

fn decode(signature: &str) -> Option<[Hash; 4]> {
    let bytes = STANDARD.decode(signature).ok()?;
    let mut out = [Hash::default(); 4];
    if bytes.len() != 4 * PART {
        return None;
    }
    for (part, bytes) in out.iter_mut().zip(bytes.chunks_exact(PART)) {
        part.copy_from_slice(bytes);
    }
    Some(out)
}
