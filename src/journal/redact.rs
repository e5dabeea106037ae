//! Credentials are taken out before anything is written.
//!
//! Bodies are looked at text by text: each JSON string is unescaped, searched, and written anew only where
//! something was found, so that JSON stays JSON and everything else stays the agent's own bytes. In streams the
//! texts of one kind are searched as if they stood in one piece, since a provider cuts them anywhere.
//!
//! Nearly no text holds a credential, and each kind of credential begins in its own way: a text with none of these
//! beginnings is gone over once, at some gigabytes a second, and no pattern looks at it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::borrow::Cow;
use std::ops::Range;

use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;
use regex::Regex;

use super::redact_stream;
use crate::json::{self, Span};

/// Name and pattern of well-known credentials, after the prefixes that their issuers document so that scanners
/// can find them (GitHub's, Anthropic's, OpenAI's, AWS's, Google's, Slack's, Stripe's and GitLab's token formats; RFC 7468
/// for PEM; RFC 7519 for JWTs, whose header begins with `{"`). Word boundaries are those of ASCII: the others would keep
/// the fast engines off every text with an umlaut in it.
const KNOWN: &[(&str, &str)] = &[
    ("anthropic-key", r"sk-ant-[A-Za-z0-9_-]{8,}"),
    (
        "openai-key",
        r"(?-u:\b)sk-(?:proj-|svcacct-|admin-|or-v1-)?[A-Za-z0-9_-]{20,}",
    ),
    (
        "github-token",
        r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    ),
    ("gitlab-token", r"(?-u:\b)glpat-[A-Za-z0-9_-]{16,}"),
    ("aws-key", r"(?-u:\b)(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?-u:\b)"),
    ("google-key", r"(?-u:\b)AIza[A-Za-z0-9_-]{30,}"),
    ("google-token", r"(?-u:\b)ya29\.[A-Za-z0-9_.-]{20,}"),
    ("slack-token", r"(?-u:\b)xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("stripe-key", r"(?-u:\b)[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("huggingface-token", r"(?-u:\b)hf_[A-Za-z0-9]{30,}"),
    ("npm-token", r"(?-u:\b)npm_[A-Za-z0-9]{36}"),
    (
        "jwt",
        r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    ),
    (
        "private-key",
        r#"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:[^"]*?-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s]|\\+[nr])*)"#,
    ),
];

/// One of these is in every text that a known pattern finds something in.
const BEGINNINGS: &str = r"sk-|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|ABIA|ACCA|AIza|ya29\.|xox[abeoprs]-|[rs]k_live_|[rs]k_test_|hf_|npm_|eyJ|-----BEGIN ";

/// How a letter is spelled where JSON is to hide it: only so can a beginning stand in a text and not in its bytes.
const SPELLED_OUT: &[u8] = br"\u00";

/// Headers that are a credential as a whole.
const CREDENTIAL_HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "set-cookie",
];

/// Parts of names that headers with credentials have.
const TELLING: &[&str] = &[
    "auth",
    "token",
    "secret",
    "apikey",
    "api-key",
    "password",
    "credential",
    "cookie",
    "signature",
];

/// Names that sound like it and are counts and limits.
const HARMLESS: &[&str] = &["ratelimit", "rate-limit", "max-tokens", "authority"];

/// Texts shorter than the shortest credential are not searched.
const SHORTEST: usize = 12;

/// Finds and replaces what must not be written down.
#[derive(Debug)]
pub struct Redactor {
    hint: Hint,
    known: Vec<(&'static str, Regex)>,
    /// The config's own, which may begin with anything and be of any length.
    own: Vec<Regex>,
}

/// Tells texts that may hold a credential from those that cannot.
#[derive(Debug)]
struct Hint {
    /// There is one: the pattern is a constant.
    beginnings: Option<regex::bytes::Regex>,
    spelled_out: memmem::Finder<'static>,
}

impl Hint {
    fn new() -> Self {
        Self {
            beginnings: regex::bytes::Regex::new(BEGINNINGS).ok(),
            spelled_out: memmem::Finder::new(SPELLED_OUT),
        }
    }

    /// A text without escapes.
    fn is_in(&self, text: &[u8]) -> bool {
        self.beginnings
            .as_ref()
            .is_none_or(|beginnings| beginnings.is_match(text))
    }

    /// A text with the escapes of JSON.
    fn may_be_in(&self, json: &[u8]) -> bool {
        self.is_in(json) || self.spelled_out.find(json).is_some()
    }
}

/// One find in a text.
pub(super) struct Found {
    pub(super) range: Range<usize>,
    pub(super) kind: &'static str,
}

impl Redactor {
    /// The well-known patterns and these, which the config has checked; what is no pattern is left out.
    pub fn new(custom: &[String]) -> Self {
        let known = KNOWN
            .iter()
            .filter_map(|(kind, pattern)| Some((*kind, Regex::new(pattern).ok()?)));
        Self {
            hint: Hint::new(),
            known: known.collect(),
            own: custom
                .iter()
                .filter_map(|pattern| Regex::new(pattern).ok())
                .collect(),
        }
    }

    /// A plain text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for one in &found {
            out.push_str(&text[at..one.range.start]);
            out.push_str(&mark(one.kind));
            at = one.range.end;
        }
        out.push_str(&text[at..]);
        Cow::Owned(out)
    }

    /// A piece of JSON, or anything with JSON in it.
    pub fn json<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        if self.own.is_empty() && !self.hint.may_be_in(text) {
            return Cow::Borrowed(text);
        }
        let edits = literals(text).into_iter().filter_map(|span| {
            let inside = json::unescape(span.inner().of(text));
            match self.text(&inside) {
                Cow::Borrowed(_) => None,
                Cow::Owned(clean) => Some((span, json::quote(&clean))),
            }
        });
        apply(text, edits.collect())
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

    /// A stream of JSON events. Texts under one key are searched across the events.
    pub fn stream<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let whole = apply(text, redact_stream::edits(text, |joined| self.find(joined)));
        // Whatever a lane does not show: texts that hold one by themselves, keys, plain lines.
        match self.json(&whole) {
            Cow::Borrowed(_) => whole,
            Cow::Owned(clean) => Cow::Owned(clean),
        }
    }

    /// Headers as name and value, credentials replaced.
    pub fn headers(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let shown = headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), self.header(name, value)));
        shown.collect()
    }

    /// A header's value, or what stands in its place.
    pub fn header(&self, name: &HeaderName, value: &HeaderValue) -> String {
        match is_credential(name) {
            true => mark("credential"),
            false => self.text(&String::from_utf8_lossy(value.as_bytes())).into_owned(),
        }
    }

    /// Finds in order, none overlapping another.
    fn find(&self, text: &str) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let mut search = |kind: &'static str, pattern: &Regex| {
            let range = |m: regex::Match<'_>| Found {
                range: m.range(),
                kind,
            };
            found.extend(pattern.find_iter(text).map(range));
        };
        if text.len() >= SHORTEST && self.hint.is_in(text.as_bytes()) {
            self.known
                .iter()
                .for_each(|(kind, pattern)| search(kind, pattern));
        }
        self.own.iter().for_each(|pattern| search("custom", pattern));
        found.sort_by_key(|f| (f.range.start, std::cmp::Reverse(f.range.end)));
        let mut out: Vec<Found> = Vec::new();
        for next in found {
            match out.last_mut() {
                // What overlaps is one secret.
                Some(last) if next.range.start < last.range.end => {
                    last.range.end = last.range.end.max(next.range.end);
                }
                _ => out.push(next),
            }
        }
        out
    }
}

/// What stands where something was taken out.
pub(super) fn mark(kind: &str) -> String {
    format!("[redacted:{kind}]")
}

fn is_credential(name: &HeaderName) -> bool {
    let name = name.as_str();
    CREDENTIAL_HEADERS.contains(&name)
        || (TELLING.iter().any(|part| name.contains(part)) || name.ends_with("-key"))
            && !HARMLESS.iter().any(|part| name.contains(part))
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

/// The string literals, quotes included. Text that ends inside one ends it.
pub(super) fn literals(text: &[u8]) -> Vec<Span> {
    let mut out = Vec::new();
    let mut from = 0;
    while let Some(start) = memchr::memchr(b'"', &text[from..]).map(|at| from + at) {
        match json::string_end(text, start) {
            Ok(end) => {
                out.push(Span::new(start, end));
                from = end;
            }
            // A body cut off inside a text: what is there is searched, too.
            Err(_) => {
                out.extend((start + 1 < text.len()).then(|| Span::new(start, text.len())));
                break;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        Redactor::new(&["hunter[0-9]".to_owned()])
    }

    /// Shaped like the real ones, and nobody's.
    fn seeds() -> Vec<String> {
        vec![
            format!("sk-ant-api03-{}", "aB3_".repeat(20)),
            format!("sk-proj-{}", "Zz9-".repeat(12)),
            format!("ghp_{}", "a1B2".repeat(9)),
            format!("AKIA{}", "ABCD1234EFGH5678"),
            format!("AIza{}", "Sy0_".repeat(9)),
            format!("xoxb-{}", "123456789012-abcdef"),
            format!("eyJ{}.eyJ{}.{}", "hbGciOiJI", "zdWIiOiIx", "c2lnbmF0dXJl"),
            format!(
                "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
                "MIIEowIBAAKCAQEA".repeat(4)
            ),
            "hunter2".to_owned(),
        ]
    }

    #[test]
    fn no_seed_survives_in_json_and_json_stays_json() {
        for seed in seeds() {
            let body = serde_json::json!({"a": [format!("export K={seed} # ok"), {"args": serde_json::json!({"env": seed}).to_string()}], "n": 12.5});
            let body = body.to_string();
            let clean = redactor().json(body.as_bytes()).into_owned();
            let text = String::from_utf8(clean).unwrap();
            assert!(text.contains("[redacted:"), "{seed}\n{text}");
            assert!(
                !text.contains(&seed[4..]) && !text.contains(&json::quote(&seed)[5..]),
                "{text}"
            );
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(text.contains("12.5") && value["a"][0].as_str().unwrap().ends_with(" # ok"));
            serde_json::from_str::<serde_json::Value>(value["a"][1]["args"].as_str().unwrap()).unwrap();
        }
    }

    #[test]
    fn every_known_kind_has_its_beginning_among_the_hints() {
        let hint = Hint::new();
        let only_known = Redactor::new(&[]);
        for seed in seeds().iter().filter(|seed| !seed.starts_with("hunter")) {
            assert!(hint.is_in(seed.as_bytes()), "{seed}");
            let hidden = format!("\\u{:04x}{}", seed.as_bytes()[0], &seed[1..]);
            let text = format!(r#"{{"a":"{}"}}"#, hidden.replace('\n', "\\n"));
            let clean = String::from_utf8(only_known.json(text.as_bytes()).into_owned()).unwrap();
            assert!(clean.contains("[redacted:"), "{clean}");
        }
        for (kind, pattern) in KNOWN {
            // What a pattern needs first, its classes and counts left out.
            let beginning = pattern.trim_start_matches(r"(?-u:\b)");
            let first = beginning
                .trim_start_matches("(?:")
                .split(['[', '\\', '|', '('])
                .next()
                .unwrap();
            let same = |hint: &str| first.starts_with(hint) || hint.starts_with(first);
            assert!(BEGINNINGS.split('|').any(same), "{kind}: {first}");
        }
        assert!(matches!(
            only_known.text("no task-force in Zürich asks for \u{1F511}"),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn a_key_cut_off_is_redacted_to_its_last_letter() {
        let text = r#"{"t":"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA"#;
        let clean = redactor().json(text.as_bytes()).into_owned();
        assert_eq!(clean, br#"{"t":"[redacted:private-key]""#);
    }

    #[test]
    fn streams_are_searched_across_events_at_every_split() {
        for seed in seeds() {
            for cut in 1..seed.len() {
                let event = |text: &str| {
                    format!(
                        "data: {}\n\n",
                        serde_json::json!({"type": "delta", "delta": {"text": text}})
                    )
                };
                let stream = event(&format!("A {}", &seed[..cut])) + &event(&format!("{} Z", &seed[cut..]));
                let clean = String::from_utf8(redactor().stream(stream.as_bytes()).into_owned()).unwrap();
                let texts: Vec<_> = clean
                    .lines()
                    .filter_map(|l| l.strip_prefix("data: "))
                    .map(|d| {
                        serde_json::from_str::<serde_json::Value>(d).unwrap()["delta"]["text"]
                            .as_str()
                            .unwrap()
                            .to_owned()
                    })
                    .collect();
                assert_eq!(texts.len(), 2);
                let joined = texts.concat();
                assert!(
                    joined.starts_with("A [redacted:") && joined.ends_with("] Z"),
                    "{joined}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_credential_stays_byte_for_byte() {
        let text = br#"{"a":"sk-1 \u00e4 task-specific-and-rather-long-name AKIA", "b" :1.0e5}"#;
        assert!(matches!(redactor().json(text), Cow::Borrowed(_)));
        let stream = b"event: x\ndata: {\"text\":\"a\\u0041\"}\n\n";
        assert!(matches!(redactor().stream(stream), Cow::Borrowed(_)));
    }

    #[test]
    fn credential_headers_are_replaced_and_others_kept() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer abc"),
            ("x-api-key", "abc"),
            ("x-team-token", "abc"),
            ("cookie", "a=b"),
            ("x-amz-security-token", "abc"),
            ("ocp-apim-subscription-key", "abc"),
            ("anthropic-ratelimit-tokens-limit", "4000"),
            ("x-note", "key AIzaSyA0123456789012345678901234567890 end"),
            ("anthropic-version", "2023-06-01"),
        ] {
            headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        }
        let shown = redactor().headers(&headers);
        let get = |name: &str| shown.iter().find(|(n, _)| n == name).unwrap().1.as_str();
        for name in [
            "authorization",
            "x-api-key",
            "x-team-token",
            "cookie",
            "x-amz-security-token",
            "ocp-apim-subscription-key",
        ] {
            assert_eq!(get(name), "[redacted:credential]", "{name}");
        }
        assert_eq!(get("anthropic-ratelimit-tokens-limit"), "4000");
        assert_eq!(get("x-note"), "key [redacted:google-key] end");
        assert_eq!(get("anthropic-version"), "2023-06-01");
    }
}
