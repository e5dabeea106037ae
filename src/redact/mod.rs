//! Takes credentials out of texts before they are written down, shown or passed on. Pure: text in, text out.
//!
//! ```text
//! text ─► keywords (one automaton, one pass) ─► scan: at each hit the rule, name or place that it stands for ─► finds
//! ```
//! What is looked for: the credential formats of `gitleaks.tsv` and `own.tsv`; values of assignments and JSON members with
//! telling names (`names`, `values`); private keys, JWTs, passwords in URLs and commands (`places`); what the config names.
//! Bodies are looked at text by text: each JSON string is unescaped, searched, and written anew only where something
//! was found, so JSON stays JSON and everything else keeps its bytes. In streams the texts under one key are searched as one,
//! since a provider cuts them anywhere.
//!
//! Every step is linear: the automaton reads a text once, and what is done at a hit looks at a bounded number of bytes or
//! at bytes that no other hit looks at. A text without any hit costs one pass. Expressions are compiled when their keyword
//! is first met.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod assign;
mod documents;
mod names;
mod places;
mod rules;
mod scan;
mod values;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use aho_corasick::AhoCorasick;
use regex::Regex;

use crate::text::json;

/// Texts shorter than the shortest credential are not searched.
const SHORTEST: usize = 8;

/// A known secret shorter than this would be found in ordinary words.
const SHORTEST_KNOWN: usize = 6;

/// Finds and replaces credentials.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// The config's own expressions, which may begin with anything and be of any length.
    custom: Vec<Regex>,
    /// Secrets known by their value, in every spelling.
    known: Option<AhoCorasick>,
}

/// One find in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) range: Range<usize>,
    pub(crate) kind: &'static str,
}

impl Redactor {
    /// The built-in rules and these expressions, which the config has checked; one that does not compile is left out.
    pub fn new(custom: &[String]) -> Self {
        // Made here, since whoever makes a redactor is not in a hurry.
        scan::prepare();
        Self::lazy(custom)
    }

    /// The same; the search is made ready by the first text, which takes milliseconds.
    pub fn lazy(custom: &[String]) -> Self {
        Self {
            custom: custom
                .iter()
                .filter_map(|pattern| Regex::new(pattern).ok())
                .collect(),
            known: None,
        }
    }

    /// Also takes out these values wherever they stand: the proxy's own keys. Values under six bytes are left out.
    #[must_use]
    pub fn knowing<'a>(mut self, secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let long = secrets.into_iter().filter(|s| s.len() >= SHORTEST_KNOWN);
        let spelled = long.flat_map(|secret| {
            let quoted = json::quote(secret);
            let escaped = quoted[1..quoted.len() - 1].to_owned();
            [
                secret.to_owned(),
                escaped,
                in_url(secret, true),
                in_url(secret, false),
            ]
        });
        let mut all: Vec<String> = spelled.collect();
        all.sort();
        all.dedup();
        self.known = (!all.is_empty()).then(|| AhoCorasick::new(all).ok()).flatten();
        self
    }

    /// A plain text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        replaced(text, &self.find(text))
    }

    /// Anything that is neither JSON nor a stream.
    pub fn raw<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        match String::from_utf8_lossy(text) {
            Cow::Borrowed(text) => match self.text(text) {
                Cow::Borrowed(_) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(clean) => Cow::Owned(clean.into_bytes()),
            },
            Cow::Owned(lossy) => match self.text(&lossy) {
                Cow::Borrowed(_) => Cow::Borrowed(text),
                Cow::Owned(clean) => Cow::Owned(clean.into_bytes()),
            },
        }
    }

    /// A piece of JSON, or anything with JSON in it.
    pub fn json<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        documents::json(self, text)
    }

    /// A stream of JSON events. Texts under one key are searched across the events.
    pub fn stream<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        documents::stream(self, text)
    }

    /// A path, or a method and a path: also segments that are credentials are taken out.
    pub fn path<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found = self.known_in(text);
        segments(text, &mut found);
        replaced(text, &merged(found))
    }

    /// The address of a request without its query: scheme and host are kept, the path loses its credentials.
    pub fn address(&self, url: &str) -> String {
        let host = url.find("://").map_or(0, |at| at + 3);
        let at = url[host..].find('/').map_or(url.len(), |at| host + at);
        [&url[..at], &*self.path(&url[at..])].concat()
    }

    /// A header's value, or what stands in its place.
    pub fn header(&self, name: &str, value: &[u8]) -> String {
        match names::is_credential_header(name) {
            true => mark("credential"),
            false => self.text(&String::from_utf8_lossy(value)).into_owned(),
        }
    }

    /// Finds in order, none overlapping another.
    pub(crate) fn find(&self, text: &str) -> Vec<Found> {
        let mut found = self.known_in(text);
        if text.len() >= SHORTEST {
            scan::find(text, &mut found);
        }
        merged(found)
    }

    /// What the config names: the proxy's own keys and its expressions.
    fn known_in(&self, text: &str) -> Vec<Found> {
        let mut found = Vec::new();
        if let Some(known) = &self.known {
            // Overlapping, since one may begin with another: what overlaps is taken out in one piece.
            found.extend(known.find_overlapping_iter(text).map(|hit| Found {
                range: hit.range(),
                kind: "own-key",
            }));
        }
        for pattern in &self.custom {
            found.extend(pattern.find_iter(text).map(|hit| Found {
                range: hit.range(),
                kind: "custom",
            }));
        }
        found
    }
}

/// As a URL spells it: all but its unreserved characters (RFC 3986, 2.3) as `%2F`, or `%2f`.
fn in_url(text: &str, upper: bool) -> String {
    let spelled = text.bytes().map(|b| match (b, upper) {
        (b'-' | b'.' | b'_' | b'~', _) => char::from(b).to_string(),
        _ if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        (_, true) => format!("%{b:02X}"),
        (_, false) => format!("%{b:02x}"),
    });
    spelled.collect()
}

/// Appends a path's segments that are credentials, and the credentials that are known by their form.
fn segments(path: &str, found: &mut Vec<Found>) {
    /// The bytes of a segment that may be a credential. The usual path has none, and is not searched.
    const LONG: usize = 16;
    const ENDS: [char; 5] = ['/', '?', '&', '=', ' '];
    let mut at = 0;
    let mut long = false;
    for segment in path.split_inclusive(ENDS) {
        let word = segment.trim_end_matches(ENDS);
        long |= word.len() >= LONG;
        if values::is_credential_segment(word) {
            found.push(Found {
                range: at..at + word.len(),
                kind: "segment",
            });
        }
        at += segment.len();
    }
    if long {
        scan::find(path, found);
    }
}

/// What stands where something was taken out.
pub(crate) fn mark(kind: &str) -> String {
    format!("[redacted:{kind}]")
}

/// In order; what overlaps is one secret.
fn merged(mut found: Vec<Found>) -> Vec<Found> {
    found.retain(|f| !f.range.is_empty());
    found.sort_by_key(|f| (f.range.start, std::cmp::Reverse(f.range.end)));
    let mut out: Vec<Found> = Vec::with_capacity(found.len());
    for next in found {
        match out.last_mut() {
            Some(last) if next.range.start < last.range.end => {
                last.range.end = last.range.end.max(next.range.end);
            }
            _ => out.push(next),
        }
    }
    out
}

fn replaced<'a>(text: &'a str, found: &[Found]) -> Cow<'a, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for one in found {
        out.push_str(&text[at..one.range.start]);
        out.push_str(&mark(one.kind));
        at = one.range.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// Counts work in tests: bytes looked at beside the automaton's one pass.
#[inline]
fn worked(_bytes: usize) {
    #[cfg(test)]
    tests::WORK.with(|work| work.set(work.get() + _bytes));
}
