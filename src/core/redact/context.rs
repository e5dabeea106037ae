//! Credentials recognized by their context: private keys, JWTs, passwords in URLs and commands, HTTP
//! authentication.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::matches::Matches;
use super::run;
use super::values::{self, is_template};

/// Maximum number of bytes to examine around a keyword.
const NEAR: usize = 300;

/// Finds private keys from BEGIN to END. A key without END extends as far as the text looks like a key.
#[derive(Default)]
pub(super) struct Pem {
    /// Start of an open key and of its content.
    open: Option<(usize, usize)>,
    /// End of the text already examined for keys without BEGIN.
    seen: usize,
}

impl Pem {
    /// Processes the words PRIVATE KEY.
    pub(super) fn at(&mut self, start: usize, end: usize, found: &mut Matches<'_>) {
        /// Maximum number of bytes of a marker before these words.
        const BEFORE: usize = 48;
        let bytes = found.text().as_bytes();
        let from = start.saturating_sub(BEFORE);
        super::worked(BEFORE);
        let line = &bytes[from..start];
        let begins = memchr::memmem::rfind(line, b"BEGIN ");
        let ends = memchr::memmem::rfind(line, b"END ");
        // `-----BEGIN`, and `---- BEGIN` of SSH2.
        let dashes = |at: usize| {
            let blank = usize::from(line[..at].ends_with(b"- "));
            let run = line[..at - blank].iter().rev().take_while(|b| **b == b'-');
            run.count() + blank
        };
        let last = closing(bytes, end);
        match (begins, ends) {
            (Some(at), _) if dashes(at) >= 4 => {
                self.leave(from + at, found);
                self.open = Some((from + at - dashes(at), last));
            }
            (None, Some(at)) if dashes(at) >= 4 => self.end(from + at - dashes(at), last, found),
            _ => {}
        }
    }

    fn end(&mut self, start: usize, last: usize, found: &mut Matches<'_>) {
        match self.open.take() {
            Some((begin, body)) if body <= start && is_one(&found.text().as_bytes()[body..start]) => {
                found.push(begin..last, "private-key");
            }
            Some(open) => {
                self.open = Some(open);
                self.leave(start, found);
            }
            // The rest of a key, from the middle of a file.
            None => {
                let from = back(found.text().as_bytes(), self.seen.min(start), start);
                found.push(from..last, "private-key");
            }
        }
        self.seen = last;
    }

    /// Ends the open key, which has no END before `limit`.
    fn leave(&mut self, limit: usize, found: &mut Matches<'_>) {
        if let Some((begin, body)) = self.open.take() {
            let end = forth(found.text().as_bytes(), body, limit.max(body));
            found.push(begin..end, "private-key");
            self.seen = end;
        }
    }

    pub(super) fn finish(&mut self, found: &mut Matches<'_>) {
        self.leave(found.text().len(), found);
    }
}

/// End of a marker whose words end at `at`.
fn closing(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let block = if rest.starts_with(b" BLOCK") { 6 } else { 0 };
    let blank = usize::from(rest[block..].starts_with(b" -"));
    let dashes = rest[block + blank..].iter().take(5).take_while(|b| **b == b'-');
    at + block + blank + dashes.count()
}

/// Whether the text between BEGIN and END may be a key. It has no quote, or consists only of base64 and
/// characters between string literals.
fn is_one(body: &[u8]) -> bool {
    super::worked(body.len());
    memchr::memchr(b'"', body).is_none()
        || body.iter().all(|b| {
            b.is_ascii_alphanumeric() || b.is_ascii_whitespace() || b"+/=\\\"'`.,():;-&|>".contains(b)
        })
}

fn is_base64(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')
}

/// End of the base64 lines from `at` on. Line ends may be escaped.
fn forth(bytes: &[u8], mut at: usize, limit: usize) -> usize {
    /// Minimum length of a run of base64, in bytes. Words of a language are shorter.
    const MIN_OPAQUE_WORD: usize = 16;
    let mut end = at;
    while at < limit {
        let start = skip_blank(bytes, at, limit);
        let len = run(&bytes[start..limit], is_base64);
        super::worked(start - at + len);
        at = start + len;
        if len == 0 || len < MIN_OPAQUE_WORD && at < bytes.len() {
            break;
        }
        end = at;
    }
    end
}

/// Start of the base64 lines before `at`.
fn back(bytes: &[u8], limit: usize, at: usize) -> usize {
    let before = bytes[limit..at].iter().rev();
    let is_encoded = |b: &&u8| is_base64(**b) || b.is_ascii_whitespace() || **b == b'\\';
    let run = before.take_while(is_encoded).count();
    super::worked(run);
    at - run
}

fn skip_blank(bytes: &[u8], mut at: usize, limit: usize) -> usize {
    while at < limit {
        match bytes[at] {
            b'\\' => at += 1,
            b'n' | b'r' | b't' if at > 0 && bytes[at - 1] == b'\\' => at += 1,
            b if b.is_ascii_whitespace() => at += 1,
            _ => break,
        }
    }
    at
}

/// Matches a base64 word with a credential at `at`, and returns its end. Hits before `searched_to` belong to
/// the previous match.
pub(super) fn encoded(at: usize, searched_to: usize, found: &mut Matches<'_>) -> usize {
    if at < searched_to {
        return searched_to;
    }
    let bytes = found.text().as_bytes();
    let before = bytes[searched_to..at].iter().rev().take_while(|b| is_base64(**b));
    let start = at - before.count();
    let end = at + run(&bytes[at..], is_base64);
    super::worked(end - start);
    found.push(start..end, "encoded-credential");
    end
}

/// Finds JSON web tokens: base64url parts separated by dots.
#[derive(Default)]
pub(super) struct Jwt {
    /// The part that was measured last.
    part: Range<usize>,
    /// End of the examined text. No token begins before it.
    scanned_to: usize,
}

impl Jwt {
    pub(super) fn at(&mut self, start: usize, found: &mut Matches<'_>) {
        /// Minimum length of header and payload, in bytes.
        const LEAST: usize = 11;
        let bytes = found.text().as_bytes();
        let inside = start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
        if start < self.scanned_to || inside {
            return;
        }
        let header = self.part_end(bytes, start);
        let dot = |at: usize| bytes.get(at) == Some(&b'.');
        // Any later header that ends at the same place would fail in the same way.
        if header < start + LEAST || !dot(header) {
            self.scanned_to = header;
            return;
        }
        let mut end = self.part_end(bytes, header + 1);
        let plain = bytes[header + 1..].starts_with(b"eyJ") && end >= header + 1 + LEAST;
        let mut parts = 2;
        // Signed tokens have three parts, encrypted ones five.
        while parts < 5 && dot(end) {
            end = self.part_end(bytes, end + 1);
            parts += 1;
        }
        if plain || parts == 5 {
            found.push(start..end, "jwt");
            self.scanned_to = end;
        } else {
            self.scanned_to = header;
        }
    }

    /// End of the part at `at`. Each byte is examined only once.
    fn part_end(&mut self, bytes: &[u8], at: usize) -> usize {
        if !self.part.contains(&at) {
            let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
            self.part = at..at + run(&bytes[at..], is_part);
            super::worked(self.part.len());
        }
        self.part.end
    }
}

/// Matches `user:password@` or `token@` after `://`.
pub(super) fn url(start: usize, found: &mut Matches<'_>) {
    /// Minimum length of a user name that may be a token, in bytes.
    const TOKEN: usize = 16;
    let bytes = found.text().as_bytes();
    let near = &bytes[start..bytes.len().min(start + NEAR)];
    let ends = |b: &u8| b.is_ascii_whitespace() || b"\"'<>`/?#\\,|".contains(b);
    let len = near.iter().position(ends).unwrap_or(near.len());
    super::worked(len);
    let authority = &near[..len];
    // A password may contain `@`, so the last one ends it.
    let Some(at) = memchr::memrchr(b'@', authority) else {
        return;
    };
    let user = &authority[..at];
    match memchr::memchr(b':', user) {
        Some(colon) if at > colon + 1 => {
            let password = &user[colon + 1..];
            if !is_template(password) {
                found.push(start + colon + 1..start + at, "url-password");
            }
        }
        _ => {
            if user.len() >= TOKEN && values::is_token(user) {
                found.push(start..start + at, "url-token");
            }
        }
    }
}

fn begins_word(bytes: &[u8], at: usize) -> bool {
    at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

/// End of the run of token characters from `at` on, within a limit.
fn token_run(bytes: &[u8], at: usize) -> usize {
    let near = &bytes[at..bytes.len().min(at + NEAR)];
    let len = run(near, |b| b.is_ascii_alphanumeric() || b"-._~+/=:|".contains(&b));
    super::worked(len);
    at + len
}

/// Matches a token after `Bearer ` or `token `.
pub(super) fn bearer(start: usize, end: usize, found: &mut Matches<'_>) {
    /// Minimum length of a token. Shorter strings are words.
    const LEAST: usize = 12;
    let bytes = found.text().as_bytes();
    let to = token_run(bytes, end);
    let token = &bytes[end..to];
    if begins_word(bytes, start) && token.len() >= LEAST && values::is_token(token) {
        let to = longer(bytes, to);
        found.push(end..to, "bearer-token");
    }
}

/// Extends a match beyond the examined bytes to its end.
fn longer(bytes: &[u8], at: usize) -> usize {
    let len = run(&bytes[at..], |b| {
        b.is_ascii_alphanumeric() || b"-._+/=".contains(&b)
    });
    super::worked(len);
    at + len
}

/// Matches `user:password` in base64 after `Basic `.
pub(super) fn basic(start: usize, end: usize, found: &mut Matches<'_>) {
    let bytes = found.text().as_bytes();
    let to = token_run(bytes, end);
    if begins_word(bytes, start) && is_basic(&bytes[end..to]) {
        found.push(end..to, "basic-credentials");
    }
}

/// Whether this is `user:password` in base64.
pub(super) fn is_basic(value: &[u8]) -> bool {
    let decoded = STANDARD.decode(value).or_else(|_| STANDARD_NO_PAD.decode(value));
    value.len() >= 8
        && decoded.is_ok_and(|plain| {
            memchr::memchr(b':', &plain).is_some() && plain.iter().all(|b| (b' '..0x7f).contains(b))
        })
}

/// Matches `user:password` after `-u` or `--user` of a command that fetches.
pub(super) fn user(start: usize, end: usize, found: &mut Matches<'_>) {
    let bytes = found.text().as_bytes();
    let rest = &bytes[end..bytes.len().min(end + NEAR)];
    let blank = run(rest, |b| matches!(b, b' ' | b'=' | b'"' | b'\'' | b'\\'));
    let ends = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'');
    let len = rest[blank..].iter().position(ends);
    let word = &rest[blank..][..len.unwrap_or(rest.len() - blank)];
    super::worked(rest.len());
    let Some(colon) = memchr::memchr(b':', word).filter(|at| *at > 0) else {
        return;
    };
    let password = &word[colon + 1..];
    let password = password.strip_suffix(b"\\").unwrap_or(password);
    if password.len() < 3 || is_template(password) || password.starts_with(b"/") {
        return;
    }
    let before = &bytes[start.saturating_sub(NEAR)..start];
    super::worked(before.len());
    let fetches = ["curl", "wget", "http "]
        .iter()
        .any(|tool| memchr::memmem::find(before, tool.as_bytes()).is_some());
    if fetches {
        let from = end + blank + colon + 1;
        found.push(from..longer(bytes, from + password.len()), "password");
    }
}
