//! Declarations for baton: headers, and prefixes of the base URL for agents that cannot set headers.
//!
//! Several prefixes may follow each other:
//! * windows of models (`/w/500000/v1/messages`)
//! * topic of the handoffs (`/t/importer/…`)
//! * run that started the agent (`/r/ID/…`)
//! * shadow mode (`/h/shadow/…`)
//! * budget of the session in US dollars (`/b/5/…`)

use std::borrow::Cow;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue};

use super::fault::{Code, Fault};
use super::headers::{self, DECLARED_BUDGET, DECLARED_TOPIC, DECLARED_WINDOWS, HANDOFF, RUN, SHADOW};
use baton_core::brake::parse_dollars;
use baton_core::nudge::declares_windows;
use baton_core::record::is_topic;
use baton_core::redact::Redactor;
use baton_core::text::closest::closest_name;
use baton_core::text::cut::cut;

/// Kind of declaration: its path prefix, the equivalent header, and the check of its value.
struct Declaration {
    prefix: &'static str,
    header: &'static str,
    fits: fn(&str) -> bool,
}

const DECLARATIONS: [Declaration; 5] = [
    Declaration {
        prefix: "/w/",
        header: DECLARED_WINDOWS,
        fits: declares_windows,
    },
    Declaration {
        prefix: "/t/",
        header: DECLARED_TOPIC,
        fits: is_topic,
    },
    Declaration {
        prefix: "/r/",
        header: RUN,
        fits: |text| uuid::Uuid::parse_str(text).is_ok(),
    },
    Declaration {
        prefix: "/h/",
        header: HANDOFF,
        fits: |text| text == SHADOW,
    },
    Declaration {
        prefix: "/b/",
        header: DECLARED_BUDGET,
        fits: |text| parse_dollars(text).is_ok(),
    },
];

/// Moves declarations from the path into their headers.
///
/// A header that the agent sent takes precedence. A path without a valid declaration stays unchanged.
pub(super) fn take_from_path(parts: &mut Parts) {
    // Takes each kind once: the agent's own path may begin with the same prefix.
    let mut left: Vec<&Declaration> = DECLARATIONS.iter().collect();
    while let Some(at) = left.iter().position(|one| one.take(parts).is_some()) {
        left.remove(at);
    }
}

/// Removes a topic that is a credential, because topics are written to log, journal and handoffs.
pub(super) fn remove_credential(headers: &mut HeaderMap, redactor: &Redactor) {
    let topic = headers::text(headers, DECLARED_TOPIC).map(|topic| redactor.text(topic));
    if matches!(topic, Some(Cow::Owned(_))) {
        headers.remove(DECLARED_TOPIC);
    }
}

/// Start of the names of all headers for baton.
const HEADER_PREFIX: &str = "x-baton-";

/// Rest of the names of baton's response headers that declare nothing. A program may copy them into a request.
const OF_RESPONSES: [&str; 3] = ["exchange", "untooled", "error"];

/// Maximum bytes of an unknown name that are compared and shown.
const MAX_SHOWN_NAME: usize = 64;

/// Refuses a header for baton that does not exist.
///
/// Without the refusal, a mistyped `x-baton-budget` would leave a session without its limit.
pub(super) fn refuse_unknown(headers: &HeaderMap) -> Result<(), Fault> {
    let names = headers.keys();
    let mut names = names.filter_map(|name| name.as_str().strip_prefix(HEADER_PREFIX));
    let known = DECLARATIONS
        .iter()
        .filter_map(|one| one.header.strip_prefix(HEADER_PREFIX));
    let is_known = |name: &str| OF_RESPONSES.contains(&name) || known.clone().any(|known| known == name);
    let Some(name) = names.find(|name| !is_known(name)) else {
        return Ok(());
    };
    let name = cut(name, MAX_SHOWN_NAME);
    let help = match closest_name(name, known.clone()) {
        Some(meant) => format!("did you mean `{HEADER_PREFIX}{meant}`?"),
        None => format!("after {HEADER_PREFIX}: {}", known.collect::<Vec<_>>().join(", ")),
    };
    Err(Fault::because(
        Code::HEADER,
        format!("`{HEADER_PREFIX}{name}`; {help}"),
    ))
}

impl Declaration {
    fn take(&self, parts: &mut Parts) -> Option<()> {
        let whole = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
        let rest = whole.strip_prefix(self.prefix)?;
        let (text, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if !(self.fits)(text) {
            return None;
        }
        // A base URL that consists of declarations leaves no path: the root takes its place.
        let root = if rest.starts_with('/') { "" } else { "/" };
        let value = HeaderValue::from_str(text).ok()?;
        let path = format!("{root}{rest}").parse().ok()?;
        let mut uri = std::mem::take(&mut parts.uri).into_parts();
        uri.path_and_query = Some(path);
        parts.uri = uri.try_into().unwrap_or_default();
        parts.headers.entry(self.header).or_insert(value);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    /// Remaining path, and the declared headers.
    fn taken(uri: &str, header: Option<&str>) -> (String, [Option<String>; 3]) {
        let mut request = Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header(DECLARED_WINDOWS, header);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        take_from_path(&mut parts);
        let value = |name| Some(parts.headers.get(name)?.to_str().unwrap().to_owned());
        (
            parts.uri.to_string(),
            [DECLARED_WINDOWS, DECLARED_TOPIC, RUN].map(value),
        )
    }

    #[test]
    fn an_unknown_header_for_baton_is_refused_with_the_closest_known_one() {
        let refusal = |name: &str| {
            let name = format!("{HEADER_PREFIX}{name}");
            let request = Request::builder().header(name, "off").body(()).unwrap();
            let fault = refuse_unknown(request.headers()).err()?;
            assert_eq!(fault.code, Code::HEADER);
            fault.detail
        };
        for (name, help) in [
            ("handof", "did you mean `x-baton-handoff`?"),
            ("Budegt", "did you mean `x-baton-budget`?"),
            ("windows", "did you mean `x-baton-window`?"),
            ("apend", "after x-baton-: window, topic, run, handoff, budget"),
            ("", "after x-baton-: window, topic, run, handoff, budget"),
        ] {
            let expected = format!("`x-baton-{}`; {help}", name.to_lowercase());
            assert_eq!(refusal(name), Some(expected));
        }
        let long = refusal(&"a".repeat(30_000)).unwrap();
        assert!(long.len() < 200, "{long}");
        let known = DECLARATIONS.map(|one| &one.header[HEADER_PREFIX.len()..]);
        for name in known.into_iter().chain(OF_RESPONSES) {
            assert_eq!(refusal(name), None, "{name}");
        }
    }

    const ID: &str = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";

    #[test]
    fn a_declaration_goes_from_the_path_into_the_header() {
        let windows = |text: &str| [Some(text.to_owned()), None, None];
        let none = [const { None }; 3];
        let all = format!("/r/{ID}/t/importer/w/500000/v1/messages");
        for (uri, path, values) in [
            (
                "/w/500000/v1/messages?beta=true",
                "/v1/messages?beta=true",
                windows("500000"),
            ),
            (
                "/w/a=5000,b:1=6000/u/mine/v1/x",
                "/u/mine/v1/x",
                windows("a=5000,b:1=6000"),
            ),
            ("/w/500000", "/", windows("500000")),
            ("/w/500000?x=%2Fw", "/?x=%2Fw", windows("500000")),
            ("http://h:1/w/500000/v1/", "http://h:1/v1/", windows("500000")),
            ("/w/500000//v1", "//v1", windows("500000")),
            ("/w/12/v1/messages", "/w/12/v1/messages", none.clone()),
            ("/w//v1", "/w//v1", none.clone()),
            ("/w/v1/messages", "/w/v1/messages", none.clone()),
            ("/v1/messages", "/v1/messages", none.clone()),
            ("*", "*", none.clone()),
            ("/t/a%20b/v1", "/t/a%20b/v1", none.clone()),
            ("/r/1/v1", "/r/1/v1", none.clone()),
            (
                &all,
                "/v1/messages",
                [Some("500000"), Some("importer"), Some(ID)].map(|value| value.map(str::to_owned)),
            ),
            ("/t/a/t/b", "/t/b", [None, Some("a".to_owned()), None]),
        ] {
            assert_eq!(taken(uri, None), (path.to_owned(), values), "{uri}");
        }
        assert_eq!(
            taken("/w/500000/v1", Some("400000")),
            ("/v1".to_owned(), windows("400000"))
        );
    }
}
