//! Redacts credentials before text is stored, shown or passed on. Pure: text in, text out.
//!
//! ```text
//! text ─► keywords (one automaton, one pass) ─► scan: each hit runs its rule, name or context ─► matches
//! ```
//!
//! The search covers:
//! * the credential formats of `gitleaks.tsv` and `own.tsv`
//! * values of assignments and JSON members with secret names (`names`, `values`)
//! * private keys, JWTs, and passwords in URLs and commands (`context`)
//! * the secrets of the configuration itself
//!
//! In JSON each string is unescaped, searched, and rewritten only if something was found. JSON therefore
//! stays valid, and everything else keeps its bytes. In streams the strings under one key are searched as one
//! string, because providers split them anywhere.
//!
//! The whole search takes linear time. The automaton reads the text once, and each hit examines a bounded
//! number of bytes, or bytes that no other hit examines. Without hits the cost is one pass. An expression is
//! compiled when its keyword first occurs.

mod assign;
mod columns;
mod context;
mod documents;
mod matches;
mod names;
mod prose;
mod rendered;
mod rules;
mod scan;
pub mod unnamed;
mod values;
mod words;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use aho_corasick::AhoCorasick;
use regex::Regex;

use crate::text::{cost, json};
use matches::Matches;
pub use names::is_credential_header;
pub use prose::{is_asked_for, may_be_asked_for};

/// Minimum length of text to search, in bytes: the shortest credential.
const SHORTEST: usize = 8;

/// Minimum length of a known secret. Shorter ones would match in ordinary words.
const SHORTEST_KNOWN: usize = 6;

/// Finds and replaces credentials.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Configured expressions, which are not anchored at keywords.
    custom: Vec<Regex>,
    /// Secrets known by value, in all their encodings.
    known: Option<AhoCorasick>,
    /// Patterns of files with credentials, in addition to those recognized by name.
    secret_files: Vec<String>,
}

impl Redactor {
    /// Creates a redactor with the built-in rules and these expressions.
    ///
    /// The configuration has validated the expressions; invalid ones are ignored. The automaton is built for
    /// the first text of the process, which takes milliseconds.
    pub fn new(custom: &[String]) -> Self {
        Self {
            custom: custom
                .iter()
                .filter_map(|pattern| Regex::new(pattern).ok())
                .collect(),
            known: None,
            secret_files: Vec::new(),
        }
    }

    /// Omits files that match these patterns (`draft.secret_files`) from quoted calls as well.
    #[must_use]
    pub fn with_secret_files(mut self, patterns: &[String]) -> Self {
        self.secret_files = patterns.to_vec();
        self
    }

    /// Patterns of files to omit from quoted calls.
    pub fn secret_files(&self) -> &[String] {
        &self.secret_files
    }

    /// Redacts these values, the proxy's own keys, everywhere as well. Values shorter than six bytes are
    /// ignored.
    #[must_use]
    pub fn knowing<'a>(mut self, secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let long = secrets.into_iter().filter(|s| s.len() >= SHORTEST_KNOWN);
        // A key may occur unchanged, escaped in JSON, or percent-encoded.
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

    /// Redacts plain text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.find(text).replaced()
    }

    /// Redacts credentials and words that look like one.
    pub fn cleaned(&self, text: &str) -> String {
        unnamed::redacted(&self.text(text)).into_owned()
    }

    /// Redacts bytes that are neither JSON nor a stream.
    pub fn raw<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        match self.text(&String::from_utf8_lossy(text)) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(clean.into_bytes()),
        }
    }

    /// Redacts JSON, a fragment of it, or anything containing JSON.
    pub fn json<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        documents::json(self, text)
    }

    /// Redacts a stream of JSON events. Strings under one key are searched across events.
    pub fn stream<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        documents::stream(self, text)
    }

    /// Redacts a path, or a method and a path, including segments that look like credentials.
    pub fn path<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut found = self.known_in(text);
        segments(&mut found);
        found.merged().replaced()
    }

    /// Redacts the path of a URL without a query. Scheme and host stay.
    pub fn address(&self, url: &str) -> String {
        let host = url.find("://").map_or(0, |at| at + 3);
        let at = url[host..].find('/').map_or(url.len(), |at| host + at);
        [&url[..at], &*self.path(&url[at..])].concat()
    }

    /// Redacts the value of a header. The caller decides whether the header is a credential.
    ///
    /// In a URL the value of each parameter with the name of a secret is redacted, whatever its form.
    pub fn header_value<'a>(&self, is_credential: bool, value: &'a [u8]) -> Cow<'a, str> {
        if is_credential {
            return Cow::Owned(mark("credential"));
        }
        match String::from_utf8_lossy(value) {
            Cow::Borrowed(value) => self.in_header(value).replaced(),
            Cow::Owned(value) => Cow::Owned(self.in_header(&value).replaced().into_owned()),
        }
    }

    fn in_header<'t>(&self, value: &'t str) -> Matches<'t> {
        let mut found = self.find(value);
        parameters(&mut found);
        found.merged()
    }

    /// Finds all matches, in order and without overlaps.
    pub(crate) fn find<'t>(&self, text: &'t str) -> Matches<'t> {
        let mut found = self.known_in(text);
        if text.len() >= SHORTEST {
            scan::find(&mut found);
            self.find_rendered(&mut found);
        }
        found.merged()
    }

    /// Appends the matches of the text as a reader sees it, if that differs.
    fn find_rendered(&self, found: &mut Matches<'_>) {
        let Some(rendered) = rendered::Rendered::new(found.text()) else {
            return;
        };
        let mut seen = self.known_in(&rendered.text);
        scan::find(&mut seen);
        for one in seen.all() {
            found.push(rendered.source(&(one.start()..one.end())), one.kind());
        }
    }

    /// Finds the proxy's own keys, and matches of the configured expressions.
    fn known_in<'t>(&self, text: &'t str) -> Matches<'t> {
        let mut found = Matches::new(text);
        if let Some(known) = &self.known {
            // Overlapping, because one key may be a prefix of another; overlaps are merged.
            for hit in known.find_overlapping_iter(text) {
                found.push(hit.range(), "own-key");
            }
        }
        for pattern in &self.custom {
            for hit in pattern.find_iter(text) {
                found.push(hit.range(), "custom");
            }
        }
        found
    }
}

/// Percent-encodes all except unreserved characters (RFC 3986, section 2.3), with upper-case or lower-case
/// digits.
fn in_url(text: &str, upper: bool) -> String {
    let spelled = text.bytes().map(|b| match (b, upper) {
        (b'-' | b'.' | b'_' | b'~', _) => char::from(b).to_string(),
        _ if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        (_, true) => format!("%{b:02X}"),
        (_, false) => format!("%{b:02x}"),
    });
    spelled.collect()
}

/// Appends the path segments that are credentials, and credentials of known formats.
fn segments(found: &mut Matches<'_>) {
    /// Minimum length of a segment that may be a credential. Usual paths have none and are not scanned.
    const MIN_SEGMENT_BYTES: usize = 16;
    const ENDS: [char; 5] = ['/', '?', '&', '=', ' '];
    let mut at = 0;
    let mut long = false;
    for segment in found.text().split_inclusive(ENDS) {
        let word = segment.trim_end_matches(ENDS);
        long |= word.len() >= MIN_SEGMENT_BYTES;
        if values::is_credential_segment(word) {
            found.push(at..at + word.len(), "segment");
        }
        at += segment.len();
    }
    if long {
        scan::find(found);
    }
}

/// Appends the values of parameters in the query of a URL whose names are those of secrets.
fn parameters(found: &mut Matches<'_>) {
    const ENDS: [char; 9] = ['?', '&', '#', ';', ',', ' ', '<', '>', '"'];
    let Some(mut at) = found.text().find('?') else {
        return;
    };
    for parameter in found.text()[at..].split_inclusive(ENDS) {
        let value = parameter.trim_end_matches(ENDS);
        if let Some((name, value)) = value.split_once('=')
            && names::secret_name(name).is_some()
        {
            let start = at + name.len() + 1;
            found.push(start..start + value.len(), "parameter");
        }
        at += parameter.len();
    }
}

/// Whether a part of the text was redacted, so that it cannot be compared with its original.
pub(crate) fn is_marked(text: &str) -> bool {
    text.contains("[redacted:")
}

/// Replacement of a match.
pub(crate) fn mark(kind: &str) -> String {
    format!("[redacted:{kind}]")
}

/// Length of the prefix of `bytes` whose bytes are of a kind.
fn run(bytes: &[u8], is_of_kind: impl Fn(u8) -> bool) -> usize {
    let other = bytes.iter().position(|byte| !is_of_kind(*byte));
    other.unwrap_or(bytes.len())
}

/// Counts the bytes examined in addition to the automaton's pass.
#[inline]
fn worked(bytes: usize) {
    cost::add(bytes);
}
