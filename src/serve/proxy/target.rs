//! Validation of request paths.
//!
//! A path is appended to an upstream's base URL, whose own path may be a boundary (`https://gateway/team-a`).
//! No request path may escape it, however upstream parses the path.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Rounds of percent-decoding: more than any server performs.
const ROUNDS: usize = 4;

/// Bytes that servers may treat as separators of path segments.
const SEPARATORS: &[u8] = b"/\\";

/// Returns the fault of a path, if it has one.
///
/// Checks the path as it is and after each round of percent-decoding. Servers and proxies differ in what they
/// decode before they resolve dot segments (RFC 3986, section 5.2.4), and the URL standard takes `\` for `/`.
pub(super) fn fault(path: &str) -> Option<&'static str> {
    if has_pair(path, *b"//") {
        return Some("it contains an empty segment, `//`: is there an extra slash after the base URL?");
    }
    // Nearly every path returns here.
    if !has_pair(path, *b"/.") && !path.contains(['%', '\\']) {
        return None;
    }
    let mut seen = path.as_bytes().to_vec();
    for _ in 0..=ROUNDS {
        if seen.contains(&b'\\') {
            return Some("it contains a backslash");
        }
        if seen.split(|b| SEPARATORS.contains(b)).any(is_dots) {
            return Some("it contains a segment `.` or `..`");
        }
        match Cow::from(percent_decode(&seen)) {
            Cow::Borrowed(_) => return None,
            Cow::Owned(decoded) => seen = decoded,
        }
    }
    Some("it is percent-encoded repeatedly")
}

/// Whether these two bytes are adjacent. Paths are short, so building a searcher would take longer than this scan.
fn has_pair(path: &str, pair: [u8; 2]) -> bool {
    path.as_bytes().windows(2).any(|two| two == pair)
}

/// Whether a segment is `.` or `..`, even with parameters (`..;x`), which some servers remove first.
fn is_dots(segment: &[u8]) -> bool {
    let name = segment.split(|b| *b == b';').next().unwrap_or(segment);
    matches!(name, b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_base_urls_path() {
        for path in [
            "/u/keyed/../admin",
            "/u/keyed/..",
            "/..",
            "/../",
            "/./v1",
            "/v1/.",
            "/v1/%2e%2e/admin",
            "/v1/%2E./admin",
            "/v1/.%2e/admin",
            "/v1/..%2fadmin",
            "/v1/%2e%2e%2Fadmin",
            "/v1/x%2f..%2f..%2fadmin",
            "/v1/..\\admin",
            "/v1/%5c..%5cadmin",
            "/v1/a%5Cb",
            "/v1/%252e%252e/admin",
            "/v1/%25252e%25252e/admin",
            "/v1/%25252525252525252e",
            "/v1/..;/admin",
            "/v1/..;a=b/admin",
            "//admin",
            "/u/keyed//admin",
        ] {
            assert!(fault(path).is_some(), "{path}");
        }
    }

    #[test]
    fn paths_of_real_apis_are_none_of_its_business() {
        for path in [
            "/",
            "*",
            "",
            "/v1/models/",
            "/v1/models/org%2Fmodel-1.5",
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
            "/v1/projects/p/locations/l/publishers/anthropic/models/c@20250101:rawPredict",
            "/v1internal:generateContent",
            "/v1/files/file-1.tar..gz",
            "/v1/files/...",
            "/.well-known/x",
            "/v1/x%20y%C3%A9%zz%",
            "/model/us.anthropic.claude:0/invoke",
        ] {
            assert_eq!(fault(path), None, "{path}");
        }
    }
}
