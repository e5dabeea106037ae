//! Token counts, and a prompt cache that remembers every prefix it has seen.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::canonical;
use super::reply::{Part, Reply};

/// Bytes of canonical JSON that count as one token: a common rule of thumb that grows with size.
const BYTES_PER_TOKEN: usize = 4;

/// A piece of a request at whose end a cached prefix can end.
pub(crate) struct Segment {
    /// The piece in canonical JSON.
    pub(crate) text: String,
    /// Whether the request asks for the cache to be written up to here.
    pub(crate) mark: bool,
}

/// Segments without a cache mark, one for each of `parts`.
pub(crate) fn unmarked<'a>(parts: impl Iterator<Item = &'a Value>) -> Vec<Segment> {
    let segment = |part| Segment {
        text: canonical::text(part),
        mark: false,
    };
    parts.map(segment).collect()
}

/// The tokens of one request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Neither read from the cache nor written to it.
    pub input: usize,
    /// Written to the cache.
    pub cache_write: usize,
    /// Read from the cache.
    pub cache_read: usize,
    /// Output tokens.
    pub output: usize,
}

impl Usage {
    /// All input tokens.
    pub fn prompt(&self) -> usize {
        self.input + self.cache_write + self.cache_read
    }
}

/// The prefixes seen so far, by hash. Every request is remembered, marked or not.
#[derive(Default)]
pub(crate) struct PromptCache(Mutex<HashSet<[u8; 32]>>);

impl PromptCache {
    /// Counts the tokens of a request; `remember` is false for token counts, which do not write the cache.
    pub(crate) fn measure(&self, segments: &[Segment], remember: bool) -> Usage {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hasher = Sha256::new();
        let (mut bytes, mut read, mut marked) = (0, 0, 0);
        let mut unbroken = true;
        for segment in segments {
            hasher.update(segment.text.as_bytes());
            hasher.update([0]);
            bytes += segment.text.len();
            let key: [u8; 32] = hasher.clone().finalize().into();
            unbroken &= known.contains(&key);
            if unbroken {
                read = bytes;
            } else if remember {
                known.insert(key);
            }
            if segment.mark {
                marked = bytes;
            }
        }
        let (total, read) = (bytes / BYTES_PER_TOKEN, read / BYTES_PER_TOKEN);
        let cache_write = (marked / BYTES_PER_TOKEN).saturating_sub(read);
        Usage {
            input: total - read - cache_write,
            cache_write,
            cache_read: read,
            output: 0,
        }
    }
}

/// The tokens of a reply; at least one.
pub(crate) fn output(reply: &Reply) -> usize {
    let bytes: usize = reply.parts.iter().map(part_size).sum();
    (bytes / BYTES_PER_TOKEN).max(1)
}

/// The tokens of a reply's thinking.
pub(crate) fn thoughts(reply: &Reply) -> usize {
    let thinking = reply
        .parts
        .iter()
        .filter(|part| matches!(part, Part::Thinking(_) | Part::Redacted));
    thinking.map(part_size).sum::<usize>() / BYTES_PER_TOKEN
}

fn part_size(part: &Part) -> usize {
    match part {
        Part::Thinking(text) | Part::Text(text) => text.len(),
        Part::Redacted => BYTES_PER_TOKEN,
        Part::Call { name, arguments, .. } => name.len() + arguments.text().len(),
        Part::Block(value) => value.to_string().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(texts: &[&str]) -> Vec<Segment> {
        texts
            .iter()
            .map(|text| Segment {
                text: text.repeat(40),
                mark: text.starts_with('*'),
            })
            .collect()
    }

    #[test]
    fn the_longest_prefix_seen_before_is_read_from_the_cache() {
        let cache = PromptCache::default();
        let first = cache.measure(&segments(&["a", "b"]), true);
        assert_eq!(
            first,
            Usage {
                input: 20,
                ..Usage::default()
            }
        );
        let longer = cache.measure(&segments(&["a", "b", "*c", "d"]), true);
        assert_eq!(
            longer,
            Usage {
                input: 10,
                cache_write: 20,
                cache_read: 20,
                output: 0
            }
        );
        let forked = cache.measure(&segments(&["a", "x"]), false);
        assert_eq!((forked.cache_read, forked.input), (10, 10));
        let counted_only = cache.measure(&segments(&["a", "x"]), true);
        assert_eq!(counted_only.cache_read, 10, "a count leaves nothing in the cache");
    }

    #[test]
    fn output_grows_with_the_text() {
        assert_eq!(output(&Reply::new()), 1);
        assert!(output(&Reply::text("x".repeat(400))) >= 100);
    }
}
