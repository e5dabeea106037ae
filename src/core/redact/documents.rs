//! Redacts JSON and streams of JSON: each string on its own, by its member's name, and across events.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::names::{self, SecretName};
use super::{Redactor, context, mark, scan, values};
use crate::text::{Span, json};

/// Prefix of escaped letters, which can hide a keyword from a search over the raw bytes.
const SPELLED_OUT: &[u8] = br"\u";

/// Redacts a piece of JSON, or anything with JSON in it.
pub(super) fn json<'a>(redactor: &Redactor, text: &'a [u8]) -> Cow<'a, [u8]> {
    let hidden = memchr::memmem::find(text, SPELLED_OUT).is_some();
    // In these cases a string may contain a secret without containing a keyword.
    let all = hidden || !redactor.custom.is_empty() || redactor.known.is_some();
    if !all && !scan::any(text) {
        return Cow::Borrowed(text);
    }
    let mut members = MemberTracker::default();
    let mut edits = Vec::new();
    let mut end = 0;
    for Literal { before, span, inner } in literals(text) {
        outside(redactor, text, before, all, &mut edits);
        end = span.end;
        let inner = inner.of(text);
        super::worked(inner.len());
        let secret_name = members.take(before.of(text), inner, is_key(text, span), hidden);
        if members.is_key {
            // A name is not a secret, unless a secret is used as a map key.
            if let Some(edit) = searched(redactor, inner, all) {
                edits.push((span, edit));
            }
            if let Some(number) = members.number(text, span) {
                edits.push((number, json::quote(&mark("password"))));
            }
            continue;
        }
        let secret = secret_name.and_then(|secret_name| {
            let value = json::unescape(inner);
            judged(value.as_bytes(), secret_name).then(|| json::quote(&mark(secret_name.kind())))
        });
        if let Some(edit) = secret.or_else(|| searched(redactor, inner, all)) {
            edits.push((span, edit));
        }
    }
    outside(redactor, text, Span::new(end, text.len()), all, &mut edits);
    apply(text, edits)
}

/// Searches the bytes outside of literals.
///
/// Valid JSON has only numbers and keywords there, but text that is not quite JSON may contain anything. A
/// match is replaced together with the rest of its word, so that JSON stays valid.
fn outside(redactor: &Redactor, text: &[u8], span: Span, all: bool, edits: &mut Vec<(Span, String)>) {
    let is_structure = |b: &u8| b.is_ascii_whitespace() || b",:[]{}\"".contains(b);
    let outer = span.of(text);
    if outer.len() < super::SHORTEST_KNOWN || outer.iter().all(is_structure) || !(all || scan::any(outer)) {
        return;
    }
    super::worked(outer.len());
    // Invalid UTF-8 may be next to a match. The search sees spaces instead, so that positions stay the same.
    let mut readable = String::with_capacity(outer.len());
    for chunk in outer.utf8_chunks() {
        readable.push_str(chunk.valid());
        readable.extend(chunk.invalid().iter().map(|_| ' '));
    }
    for found in redactor.find(&readable).all() {
        let before = &outer[..found.start()];
        let after = &outer[found.end()..];
        let start = span.start + before.iter().rposition(is_structure).map_or(0, |at| at + 1);
        let end = span.end
            - after
                .iter()
                .position(is_structure)
                .map_or(0, |at| after.len() - at);
        let taken = edits.last().map_or(0, |(last, _)| last.end);
        let start = start.max(taken);
        if start < end {
            edits.push((Span::new(start, end), json::quote(&mark(found.kind()))));
        }
    }
}

/// Rewrites a literal if something was found in it.
fn searched(redactor: &Redactor, inner: &[u8], all: bool) -> Option<String> {
    if !all && !scan::any(inner) {
        return None;
    }
    let inside = json::unescape(inner);
    match redactor.find(&inside).replaced() {
        Cow::Borrowed(_) => None,
        Cow::Owned(clean) => Some(json::quote(&clean)),
    }
}

/// Hint about a value from its position in a document.
#[derive(Debug, Clone, Copy)]
enum ValueHint {
    /// Name of the member.
    Name(SecretName),
    /// Member of an object named `headers`.
    Header,
}

impl ValueHint {
    fn kind(self) -> &'static str {
        match self {
            Self::Name(SecretName::Password | SecretName::Phrase) => "password",
            Self::Name(_) | Self::Header => "credential",
        }
    }
}

fn judged(value: &[u8], hint: ValueHint) -> bool {
    match hint {
        ValueHint::Header => value.len() >= 4 && !values::is_template(value),
        ValueHint::Name(secret_name) => {
            values::is_secret_member(value, secret_name) || context::is_basic(value)
        }
    }
}

/// Tracks the member of each literal in a document.
#[derive(Default)]
struct MemberTracker {
    /// Whether the last literal was a name.
    is_key: bool,
    /// Hint of the last name.
    hint: Option<ValueHint>,
    /// Whether the last name is `value` or similar.
    is_value: bool,
    /// Whether the last name is `name` or similar.
    is_name: bool,
    /// Hint of the name in `{"name": …, "value": …}`.
    named: Option<ValueHint>,
    /// Nesting depth inside an object named `headers`; 0 outside.
    depth: usize,
    /// Whether the last name was `headers`.
    opens: bool,
    /// Whether the position is inside a list that is the last name's value.
    listed: bool,
}

impl MemberTracker {
    /// Processes a literal and the bytes between literals before it. Returns the hint if the literal is a
    /// value.
    fn take(&mut self, before: &[u8], inner: &[u8], is_key: bool, hidden: bool) -> Option<ValueHint> {
        for b in before {
            match b {
                b'{' => {
                    let opened = std::mem::take(&mut self.opens);
                    self.depth += usize::from(self.depth > 0 || opened);
                    self.clear();
                }
                b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.named = None;
                    self.clear();
                }
                // Each string in a list under a secret name is a value of that name.
                b'[' => (self.listed, self.opens) = (self.hint.is_some(), false),
                b',' if self.listed => {}
                b',' | b']' => self.clear(),
                _ => {}
            }
        }
        self.is_key = is_key;
        if is_key {
            self.name(inner, hidden);
            return None;
        }
        if std::mem::take(&mut self.is_name) && (hidden || scan::any(inner)) {
            self.named = names::member(&json::unescape(inner)).map(ValueHint::Name);
        }
        // A hint applies to a single value, or to all values of a list.
        let hint = if self.listed { self.hint } else { self.hint.take() };
        self.opens = false;
        let value = std::mem::take(&mut self.is_value).then_some(self.named).flatten();
        hint.or(value)
    }

    /// Resets the state after a value.
    fn clear(&mut self) {
        (self.hint, self.is_value, self.opens, self.listed) = (None, false, false, false);
    }

    /// Span of the number after the name at `span`, if the number is a password.
    fn number(&self, text: &[u8], span: Span) -> Option<Span> {
        /// Minimum number of digits. Shorter numbers are counts.
        const MIN_VALUE_CHARS: usize = 6;
        /// Maximum number of digits to examine.
        const MAX_VALUE_CHARS: usize = 64;
        if !matches!(
            self.hint,
            Some(ValueHint::Name(
                SecretName::Password | SecretName::Secret | SecretName::Phrase
            ))
        ) {
            return None;
        }
        let start = json::blank(text, json::blank(text, span.end) + 1);
        let digits = text.get(start..)?.iter().take(MAX_VALUE_CHARS);
        let digits = digits.take_while(|b| b.is_ascii_digit()).count();
        let after = text.get(start + digits);
        let whole = after.is_none_or(|b| b.is_ascii_whitespace() || matches!(b, b',' | b'}'));
        (digits >= MIN_VALUE_CHARS && whole).then(|| Span::new(start, start + digits))
    }

    fn name(&mut self, raw: &[u8], hidden: bool) {
        self.listed = false;
        let is = |word: &str| raw.eq_ignore_ascii_case(word.as_bytes());
        self.opens = is("headers") || is("http_headers") || is("extra_headers");
        self.is_name = is("name") || is("key");
        self.is_value = is("value");
        let name = (hidden || scan::any(raw) || self.depth > 0).then(|| json::unescape(raw));
        self.hint = name.and_then(|name| {
            let header = self.depth > 0 && !names::is_plain_header(&name);
            let new_hint = names::member(&name).map(|secret_name| match secret_name {
                // Servers receive this as a credential, whatever its form.
                SecretName::Authorization => ValueHint::Header,
                other => ValueHint::Name(other),
            });
            if header { Some(ValueHint::Header) } else { new_hint }
        });
    }
}

/// Redacts a stream. The strings under one key are first searched as one string, then each on its own.
pub(super) fn stream<'a>(redactor: &Redactor, text: &'a [u8]) -> Cow<'a, [u8]> {
    let whole = apply(text, across(redactor, text));
    match json(redactor, &whole) {
        Cow::Borrowed(_) => whole,
        Cow::Owned(clean) => Cow::Owned(clean),
    }
}

/// Rewrites the literals of matches that span several literals, in order.
fn across(redactor: &Redactor, text: &[u8]) -> Vec<(Span, String)> {
    let mut joined: HashMap<&[u8], JoinedStrings> = HashMap::new();
    let mut key = Span::default();
    for Literal { span, inner, .. } in literals(text) {
        if is_key(text, span) {
            key = inner;
        } else {
            super::worked(span.len());
            let texts = joined.entry(key.of(text)).or_default();
            texts.add(span, &json::unescape(inner.of(text)));
        }
    }
    let all = joined.values().flat_map(|texts| texts.edits(redactor));
    let mut edits: Vec<_> = all.collect();
    edits.sort_by_key(|(span, _)| span.start);
    edits
}

/// The joined strings under one key of a stream.
#[derive(Default)]
struct JoinedStrings {
    text: String,
    pieces: Vec<(Span, Range<usize>)>,
}

impl JoinedStrings {
    fn add(&mut self, span: Span, text: &str) {
        let from = self.text.len();
        self.text.push_str(text);
        self.pieces.push((span, from..self.text.len()));
    }

    /// Rewrites the literals: the mark replaces the beginning of a match, and its continuation is removed.
    fn edits(&self, redactor: &Redactor) -> Vec<(Span, String)> {
        let found = redactor.find(&self.text);
        let pieces = self.pieces.iter();
        pieces
            .filter_map(|(span, piece)| Some((*span, json::quote(&found.marked(piece, false)?))))
            .collect()
    }
}

/// A string literal in a document that may be JSON.
struct Literal {
    /// Bytes between the previous literal and this one.
    before: Span,
    /// Span of the literal including its quotes.
    span: Span,
    /// Span between the quotes, or up to the end of the text if the second one is missing.
    inner: Span,
}

/// String literals in order. The end of the text ends an open literal.
fn literals(text: &[u8]) -> impl Iterator<Item = Literal> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = memchr::memchr(b'"', text.get(from..)?).map(|at| from + at)?;
        let before = Span::new(from, start);
        let (span, inner) = match json::string_end(text, start) {
            Ok(end) => (Span::new(start, end), Span::new(start + 1, end - 1)),
            // The body was truncated inside a string, so the remainder is searched.
            Err(_) => (Span::new(start, text.len()), Span::new(start + 1, text.len())),
        };
        from = span.end;
        Some(Literal { before, span, inner })
    })
}

/// Whether the literal is the name of a member.
fn is_key(text: &[u8], literal: Span) -> bool {
    text.get(json::blank(text, literal.end)) == Some(&b':')
}

fn apply(text: &[u8], edits: Vec<(Span, String)>) -> Cow<'_, [u8]> {
    if edits.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for (span, with) in edits {
        out.extend_from_slice(&text[at..span.start]);
        out.extend_from_slice(with.as_bytes());
        at = span.end;
    }
    out.extend_from_slice(&text[at..]);
    Cow::Owned(out)
}
