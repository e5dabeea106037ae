//! Credential formats of `gitleaks.tsv` and `own.tsv`.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

use super::values;

/// Rule files. If two rules match the same text, the name of the first one is used.
const FILES: [&str; 2] = [include_str!("own.tsv"), include_str!("gitleaks.tsv")];

/// Maximum number of bytes that a rule examines after a keyword: the longest bounded match except base64
/// certificates.
const AHEAD: usize = 2048;

/// Maximum for rules that begin before their keyword. They are searched instead of anchored, so each hit
/// reads all of it.
const AHEAD_OF_SEARCH: usize = 256;

/// Format of a credential.
#[derive(Debug)]
pub(super) struct CredentialRule {
    pub(super) name: &'static str,
    pub(super) keywords: Vec<&'static str>,
    /// Whether the keyword must not follow a letter, digit or underscore.
    word: bool,
    /// Maximum number of bytes before the keyword that belong to the match.
    back: usize,
    entropy: f32,
    pattern: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

pub(super) fn all() -> Vec<CredentialRule> {
    let lines = FILES.iter().flat_map(|file| file.lines());
    lines.filter_map(CredentialRule::parse).collect()
}

impl CredentialRule {
    fn parse(line: &'static str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let mut fields = line.splitn(6, '\t');
        Some(Self {
            name: fields.next()?,
            keywords: fields.next()?.split(',').collect(),
            word: fields.next()? == "w",
            back: fields.next()?.parse().ok()?,
            entropy: fields.next()?.parse().ok()?,
            pattern: fields.next()?,
            compiled: OnceLock::new(),
        })
    }

    /// The expression, compiled at first use. A test compiles all of them.
    pub(super) fn regex(&self) -> Option<&Regex> {
        let compile = || {
            let pattern = match self.back {
                0 => format!(r"\A(?:{})", self.pattern),
                _ => self.pattern.to_owned(),
            };
            RegexBuilder::new(&pattern).unicode(false).build().ok()
        };
        self.compiled.get_or_init(compile).as_ref()
    }

    /// Matches at a keyword. Returns the range of the secret and the end of the match.
    pub(super) fn at(&self, text: &str, keyword: usize) -> Option<(Range<usize>, usize)> {
        let bytes = text.as_bytes();
        let before = keyword.checked_sub(1).map(|at| bytes[at]);
        if self.word && before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return None;
        }
        let from = keyword.saturating_sub(self.back);
        let ahead = if self.back == 0 { AHEAD } else { AHEAD_OF_SEARCH };
        let to = bytes.len().min(keyword + ahead);
        // Counts every byte that the expression may read.
        super::worked(to - from);
        let groups = self.regex()?.captures(&bytes[from..to])?;
        let whole = groups.get(0)?;
        // The secret is the longest capture group, or the whole match without groups.
        let parts = groups.iter().skip(1).flatten();
        let secret = parts.max_by_key(|part| part.len()).unwrap_or(whole);
        super::worked(whole.len());
        if self.entropy > 0.0 && values::entropy(secret.as_bytes()) < self.entropy {
            return None;
        }
        Some((from + secret.start()..from + secret.end(), from + whole.end()))
    }
}
