//! How a chunk's text is stored: compressed where that saves space, and found by its hash.

use sha2::{Digest, Sha256};

/// Bytes of a chunk's hash: 128 bits of SHA-256, so that two chunks never meet by chance.
const HASH: usize = 16;

/// Texts below this size are not worth compressing.
const PACKED_FROM: usize = 96;

/// zstd's own default: a tenth of the time of what would save another few percent.
const LEVEL: i32 = 3;

pub(super) type ChunkHash = [u8; HASH];

/// Compresses one text after the other.
pub(super) struct Packer(Option<zstd::bulk::Compressor<'static>>);

impl Packer {
    pub(super) fn new() -> Self {
        Self(zstd::bulk::Compressor::new(LEVEL).ok())
    }

    /// The text compressed; `None` where it is too short to try, or cannot be.
    pub(super) fn pack(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let packer = self.0.as_mut().filter(|_| text.len() >= PACKED_FROM)?;
        packer.compress(text).ok()
    }
}

/// The hash by which equal texts are found in the file.
pub(super) fn content_hash(text: &[u8]) -> ChunkHash {
    let mut short = [0; HASH];
    short.copy_from_slice(&Sha256::digest(text)[..HASH]);
    short
}

/// The text of a stored chunk.
pub(super) fn unpack(body: Vec<u8>, packed: bool, size: usize) -> Vec<u8> {
    match packed {
        true => zstd::bulk::decompress(&body, size).unwrap_or_default(),
        false => body,
    }
}
