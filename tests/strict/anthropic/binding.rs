//! Signatures of thinking blocks, which bind each block to everything before it.
//!
//! A signature contains four hashes. The first covers the prefix: system, tools, earlier messages, and
//! earlier blocks of the same message. The others cover the thinking and the previous thinking block's
//! signature; the last is a checksum over these three. Thinking blocks are not part of the prefix, so the
//! oldest may be removed. The link to the previous block reveals a gap.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::context::has_beta;
use super::transcript::{as_blocks, canonical_form};
use crate::canonical;
use crate::dialect::Received;
use crate::fields::{list, text};

/// Length of each of the four hashes, in bytes: short enough to read in a log, long enough never to collide
/// here.
const PART: usize = 12;
/// Makes this provider's signatures recognizable. It is not a secret.
const SALT: &[u8] = b"strict provider";

type BlockHash = [u8; PART];

/// Reason for refusing a thinking block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingError {
    /// This provider did not issue the signature.
    Foreign,
    /// The thinking was changed.
    Thinking,
    /// The transcript before it differs.
    Prefix,
    /// A thinking block between this one and the previous one is missing, or a removed one came back.
    Link,
}

impl BindingError {
    pub(super) fn why(self) -> &'static str {
        match self {
            BindingError::Foreign => "the signature was not made by this provider",
            BindingError::Thinking => "the thinking was changed",
            BindingError::Prefix => "system, tools or earlier messages differ from those it was made for",
            BindingError::Link => {
                "a thinking block between this one and the one before is missing or came back"
            }
        }
    }
}

/// Hash of a transcript up to some block.
pub(super) struct BlockPrefix {
    hasher: Sha256,
    role: String,
    /// Checksum of the last thinking block's signature.
    last: Option<BlockHash>,
}

impl BlockPrefix {
    /// Prefix before the first message.
    pub(super) fn new(body: &Value) -> Self {
        let mut prefix = BlockPrefix {
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

    /// Prefix after the last message, without checking thinking blocks.
    pub(super) fn whole(body: &Value) -> Self {
        let mut prefix = BlockPrefix::new(body);
        for message in list(body, "messages") {
            prefix.enter(message);
            for block in as_blocks(message.get("content")) {
                match signature_of(&block) {
                    Some(signature) => prefix.last = decode(signature).map(|parts| parts[3]).or(prefix.last),
                    None => prefix.push(&block),
                }
            }
        }
        prefix
    }

    /// Begins a message. A message with the same role as the previous one continues it.
    pub(super) fn enter(&mut self, message: &Value) {
        self.enter_role(text(message, "role"));
        let mut rest = canonical_form(message);
        if let Value::Object(fields) = &mut rest {
            fields.retain(|key, _| !matches!(key.as_str(), "role" | "content" | "output_config"));
            if !fields.is_empty() {
                self.feed("fields", &rest);
            }
        }
    }

    /// Begins a message with this role.
    pub(super) fn enter_role(&mut self, role: &str) {
        if self.role != role {
            self.hasher.update([1]);
            self.hasher.update(role.as_bytes());
            self.role = role.to_owned();
        }
    }

    /// Extends the prefix by a block that is not thinking.
    pub(super) fn push(&mut self, block: &Value) {
        self.feed("block", block);
    }

    fn feed(&mut self, kind: &str, value: &Value) {
        self.hasher.update([2]);
        self.hasher.update(kind.as_bytes());
        self.hasher
            .update(canonical::text(&canonical_form(value)).as_bytes());
    }

    /// Signs a thinking block at this position.
    pub(super) fn sign(&mut self, thinking: &str) -> String {
        let parts = self.parts(thinking, self.last.unwrap_or_default());
        self.last = Some(parts[3]);
        STANDARD.encode(parts.concat())
    }

    /// Verifies a thinking block at this position.
    pub(super) fn verify(&mut self, thinking: &str, signature: &str) -> Result<(), BindingError> {
        let given = decode(signature).ok_or(BindingError::Foreign)?;
        let before = self.last.replace(given[3]);
        let made = self.parts(thinking, given[2]);
        if checksum(&given) != given[3] {
            Err(BindingError::Foreign)
        } else if made[1] != given[1] {
            Err(BindingError::Thinking)
        } else if made[0] != given[0] {
            Err(BindingError::Prefix)
        } else if before.is_some_and(|before| before != given[2]) {
            Err(BindingError::Link)
        } else {
            Ok(())
        }
    }

    fn parts(&self, thinking: &str, before: BlockHash) -> [BlockHash; 4] {
        let prefix = shorten(self.hasher.clone());
        let content = shorten(Sha256::new().chain_update(thinking.as_bytes()));
        let mut parts = [prefix, content, before, BlockHash::default()];
        parts[3] = checksum(&parts);
        parts
    }
}

/// A thinking block that does not follow its original prefix, or comes from another provider.
pub(super) struct RefusedThinking {
    /// Position of the block in the notation of the API's error messages.
    pub(super) path: String,
    pub(super) kind: String,
    /// Reason for the refusal.
    pub(super) why: BindingError,
}

/// Refused thinking blocks of a request, in order.
pub(super) fn refused(body: &Value) -> Vec<RefusedThinking> {
    let mut prefix = BlockPrefix::new(body);
    let mut out = Vec::new();
    for (n, message) in list(body, "messages").iter().enumerate() {
        prefix.enter(message);
        for (m, block) in as_blocks(message.get("content")).iter().enumerate() {
            let Some(signature) = signature_of(block) else {
                prefix.push(block);
                continue;
            };
            if let Err(why) = prefix.verify(text(block, "thinking"), signature) {
                let (path, kind) = (
                    format!("messages.{n}.content.{m}"),
                    text(block, "type").to_owned(),
                );
                out.push(RefusedThinking { path, kind, why });
            }
        }
    }
    out
}

/// Beta with which a request chooses the handling and the report of such blocks.
const CONTROLS: &str = "thinking-binding-controls-2026-08-01";

/// Whether the request has this beta.
pub(super) fn has_controls(request: &Received) -> bool {
    has_beta(request, CONTROLS)
}

/// Whether the request asks to drop thinking whose prefix differs.
pub(super) fn drops_mismatches(request: &Received) -> bool {
    let behaviour = request
        .body
        .pointer("/thinking/block_binding/prefix_mismatch_behavior");
    behaviour.and_then(Value::as_str) == Some("drop_block")
}

/// Report about dropped thinking: the first block that fails the check, and every one after it. `None`
/// without the beta.
pub(super) fn input_transformations(request: &Received) -> Option<Value> {
    if !has_controls(request) {
        return None;
    }
    let first = refused(&request.body)
        .into_iter()
        .next()
        .map(|refused| refused.path);
    let mut dropped = Vec::new();
    for (n, message) in list(&request.body, "messages").iter().enumerate() {
        for (m, block) in as_blocks(message.get("content")).iter().enumerate() {
            let path = format!("messages.{n}.content.{m}");
            if signature_of(block).is_some() && (!dropped.is_empty() || first.as_ref() == Some(&path)) {
                let reason = "prefix_binding_mismatch";
                dropped.push(json!({"type": "thinking_dropped", "path": path, "reason": reason}));
            }
        }
    }
    Some(Value::Array(dropped))
}

/// Signature of a thinking block: `signature`, or `data` of redacted thinking.
pub(super) fn signature_of(block: &Value) -> Option<&str> {
    match text(block, "type") {
        "thinking" => Some(text(block, "signature")),
        "redacted_thinking" => Some(text(block, "data")),
        _ => None,
    }
}

fn checksum(parts: &[BlockHash; 4]) -> BlockHash {
    shorten(Sha256::new().chain_update(SALT).chain_update(parts[..3].concat()))
}

fn shorten(hasher: Sha256) -> BlockHash {
    let mut out = BlockHash::default();
    out.copy_from_slice(&hasher.finalize()[..PART]);
    out
}

fn decode(signature: &str) -> Option<[BlockHash; 4]> {
    let bytes = STANDARD.decode(signature).ok()?;
    let mut out = [BlockHash::default(); 4];
    if bytes.len() != 4 * PART {
        return None;
    }
    for (part, bytes) in out.iter_mut().zip(bytes.chunks_exact(PART)) {
        part.copy_from_slice(bytes);
    }
    Some(out)
}
