//! Filters of request and response headers.
//!
//! New maps are built by filtering, because removing names from a `HeaderMap` disturbs the order of the rest.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::state::config::UpstreamConfig;
use baton_core::quota::{self, UsageLimit};
use baton_core::record::WireId;
use baton_core::wire::error::{CREDENTIAL_HEADERS, KeyHeader};
use baton_core::wire::wire;

/// Whether a header applies to one connection only (RFC 9110, section 7.6.1), apart from those that
/// `Connection` names.
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
    )
}

/// Whether the client library sets a header itself, or baton never forwards it.
fn is_remade(name: &str) -> bool {
    matches!(name, "host" | "content-length" | "expect")
}

/// Headers that a load balancer may have added, matched by their beginning. Upstream must not learn the agent's address,
/// and some servers take the path from the last two.
const FORWARDING: &[&str] = &[
    "forwarded",
    "x-real-ip",
    "x-forwarded-",
    "x-original-ur",
    "x-rewrite-url",
];

/// Beginnings of headers that choose where at the provider a key works: the account to bill, the organization, the
/// workspace. With the config's key, only the config chooses it.
///
/// Anthropic's workspace belongs to Claude Platform on AWS and to keys of several workspaces.
const ACCOUNT: &[&str] = &[
    "anthropic-organization",
    "anthropic-workspace",
    "chatgpt-account-id",
    "openai-organization",
    "openai-project",
    "x-goog-user-project",
];

/// Headers of a trace (W3C Trace Context and Baggage). Their ids and values are the operator's own.
const TRACE_CONTEXT: &[&str] = &["traceparent", "tracestate", "baggage"];

/// Whether a header is bound to one attempt. A later leg is another request and must not repeat it.
fn is_per_attempt(name: &str) -> bool {
    matches!(
        name,
        "idempotency-key" | "x-client-request-id" | "x-stainless-retry-count"
    )
}

/// Whether a header describes exactly the bytes that upstream sent.
fn is_bound_to_body(name: &str) -> bool {
    matches!(
        name,
        "content-length" | "content-encoding" | "etag" | "digest" | "content-digest" | "repr-digest"
    )
}

/// Response header that names another host than the one the agent is connected to.
const ABOUT_THE_HOST: &str = "alt-svc";

/// Header that declares the windows of the agent's models. No `x-baton-` header is forwarded.
pub const DECLARED_WINDOWS: &str = "x-baton-window";

/// Header that declares the topic of the agent's handoffs.
pub const DECLARED_TOPIC: &str = "x-baton-topic";

/// Header that declares the budget of the agent's session, in US dollars.
pub const DECLARED_BUDGET: &str = "x-baton-budget";

/// Header with the session of a subagent's parent (OpenCode).
pub const PARENT_SESSION: &str = "x-parent-session-id";

/// Header that decides whether a request gets the tool: `off`, or [`SHADOW`].
pub const HANDOFF: &str = "x-baton-handoff";

/// Whether a request declines baton's tools.
pub fn is_off(headers: &HeaderMap) -> bool {
    value(headers, HANDOFF).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"off"))
}

/// Whether a request is a side call instead of a step of the task.
///
/// Reads a header that Claude Code sends if it is configured to.
pub fn is_side_call(headers: &HeaderMap) -> bool {
    let class = text(headers, "x-claude-code-request-class");
    matches!(class, Some("compaction" | "auxiliary"))
}

/// Value of [`HANDOFF`] for shadow mode: baton relays everything unchanged and only records its decisions.
pub const SHADOW: &str = "shadow";

/// The header with the id of the `baton run` that started the agent.
pub const RUN: &str = "x-baton-run";

/// Headers that only requests of subagents have: Claude Code's, Codex's, OpenCode's.
const OF_SUBAGENTS: [&str; 3] = ["x-claude-code-agent-id", "x-openai-subagent", PARENT_SESSION];

/// Whether the request comes from a subagent.
pub fn is_of_subagent(headers: &HeaderMap) -> bool {
    OF_SUBAGENTS.iter().any(|name| value(headers, name).is_some())
}

/// Circumstances of a request that change its headers on the way upstream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sending {
    /// baton reads the response, so upstream should not compress it.
    pub read: bool,
    /// The body is sent as plain text, whatever the agent's `content-encoding` was.
    pub plain: bool,
    /// The request is a leg after the first.
    pub later_leg: bool,
    /// The request is sent in addition to the one that carries the agent's message.
    pub added: bool,
}

impl Sending {
    /// Settings of a leg after the first. `added` is true if another request carries the agent's message.
    pub(crate) fn later(added: bool) -> Self {
        Self {
            read: true,
            plain: true,
            later_leg: true,
            added,
        }
    }
}

/// Header that tells whether a user or the agent began a request. GitHub Copilot charges for those of a user.
const INITIATOR: &str = "x-initiator";

/// Builds the headers of a request to `target` on the upstream. `agent` must no longer contain a client key of
/// baton.
pub fn onward(
    agent: &HeaderMap,
    upstream: &UpstreamConfig,
    (of, target): (WireId, &str),
    sending: Sending,
) -> HeaderMap {
    let named = connection_names(agent);
    let mut out = HeaderMap::with_capacity(agent.len() + 4);
    for (name, value) in agent {
        let text = name.as_str();
        // Sent in addition to the agent's request, so it must not be charged as the user's.
        if sending.added && text == INITIATOR {
            out.insert(name.clone(), HeaderValue::from_static("agent"));
            continue;
        }
        // Not forwarded: headers of the agent's connection, headers for baton or from load balancers, a trace context
        // that the upstream must not get, headers that baton's changes falsify, and replaced credentials.
        let dropped = hop_by_hop(text, &named)
            || is_remade(text)
            || text.starts_with("x-baton-")
            || FORWARDING.iter().any(|f| text.starts_with(f))
            || (!upstream.trace_context && TRACE_CONTEXT.contains(&text))
            || (sending.read && name == header::ACCEPT_ENCODING)
            || (sending.plain && name == header::CONTENT_ENCODING)
            || (sending.later_leg && is_per_attempt(text))
            || (upstream.api_key.is_some() && CREDENTIAL_HEADERS.contains(&text))
            || (upstream.has_own_key() && ACCOUNT.iter().any(|begin| text.starts_with(begin)));
        if !dropped {
            out.append(name.clone(), value.clone());
        }
    }
    if sending.read {
        out.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    own_credentials(&mut out, upstream, of, target);
    out
}

/// Adds the configured key and headers of this upstream, replacing the agent's.
fn own_credentials(out: &mut HeaderMap, upstream: &UpstreamConfig, of: WireId, target: &str) {
    if let Some(key) = &upstream.api_key {
        let KeyHeader { name, prefix } = wire(of).key_header(target, key.reveal());
        if let Some(value) = secret_value(&format!("{prefix}{}", key.reveal())) {
            out.insert(HeaderName::from_static(name), value);
        }
    }
    for (name, value) in &upstream.headers {
        if let (Ok(name), Some(value)) = (HeaderName::try_from(name.as_str()), secret_value(value.reveal())) {
            out.insert(name, value);
        }
    }
}

fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    // Keeps the key out of debug output.
    value.set_sensitive(true);
    Some(value)
}

/// Builds the headers for the agent from upstream's. `changed` is true if the body may differ from upstream's.
pub fn back(upstream: &HeaderMap, changed: bool) -> HeaderMap {
    let named = connection_names(upstream);
    let mut out = HeaderMap::with_capacity(upstream.len() + 4);
    for (name, value) in upstream {
        let text = name.as_str();
        let dropped = hop_by_hop(text, &named)
            // Only baton may tell the agent about itself.
            || text.starts_with("x-baton-")
            || text == ABOUT_THE_HOST
            || (changed && is_bound_to_body(text));
        if !dropped {
            out.append(name.clone(), value.clone());
        }
    }
    if is_stream(upstream) {
        unbuffered(&mut out);
    }
    out
}

/// Returns the first value of `name`, which must be in lower case.
///
/// The map's own search hashes the name, which takes longer than a pass over the dozen or two headers that
/// agents send.
pub fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a HeaderValue> {
    headers.iter().find(|(n, _)| n.as_str() == name).map(|(_, v)| v)
}

/// Like [`value`], but as a string. `None` if the header is missing or is not visible ASCII.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    value(headers, name)?.to_str().ok()
}

/// Returns the usage limits that a response states.
pub fn limits(headers: &HeaderMap, now_ms: u64) -> Vec<UsageLimit> {
    match headers.keys().any(|name| quota::may_state_limit(name.as_str())) {
        true => quota::limits(|name| text(headers, name), now_ms),
        false => Vec::new(),
    }
}

/// Returns the `baton run` whose session a request belongs to. Subagents have no session of their own.
pub fn run(headers: &HeaderMap) -> Option<String> {
    text(headers, RUN)
        .filter(|_| !is_of_subagent(headers))
        .map(str::to_owned)
}

/// The content type without its parameters.
pub fn media_type(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    kind.split(';').next().map(str::trim)
}

/// Whether a response is a stream of events, by its content type.
pub fn is_stream(headers: &HeaderMap) -> bool {
    const STREAMS: &[&str] = &[
        "text/event-stream",
        "application/x-ndjson",
        "application/vnd.amazon.eventstream",
    ];
    media_type(headers).is_some_and(|kind| STREAMS.iter().any(|s| kind.eq_ignore_ascii_case(s)))
}

/// Tells intermediate proxies to pass a stream on as it arrives.
pub fn unbuffered(out: &mut HeaderMap) {
    out.entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache"));
    out.insert(
        // For nginx, which buffers responses by default.
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
}

fn hop_by_hop(name: &str, named: &[String]) -> bool {
    is_hop_by_hop(name) || named.iter().any(|n| n == name)
}

/// Names listed in `Connection`, lower case.
fn connection_names(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .map(|n| n.trim().to_ascii_lowercase())
        // `close` is not a header, and `content-type` is end-to-end: without it the body could not be read.
        .filter(|n| !n.is_empty() && n != "close" && n != "content-type")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::testing;
    use crate::state::config::Secret;
    use pretty_assertions::assert_eq;

    fn map(rows: &[(&'static str, &'static str)]) -> HeaderMap {
        rows.iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .fold(HeaderMap::new(), |mut all, (n, v)| {
                all.append(n, v);
                all
            })
    }

    fn rows(headers: &HeaderMap) -> Vec<(&str, &str)> {
        headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.to_str().unwrap()))
            .collect()
    }

    fn upstream() -> UpstreamConfig {
        testing::config("http://127.0.0.1:9").upstreams["openai"].clone()
    }

    const AGENT: &[(&str, &str)] = &[
        ("host", "127.0.0.1:1"),
        ("anthropic-beta", "b-2,  b-1"),
        ("x-api-key", "agents"),
        ("anthropic-beta", "c"),
        ("connection", "keep-alive, X-Hop"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("expect", "100-continue"),
        ("accept-encoding", "gzip, br"),
        ("x-baton-handoff", "off"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "10.0.0.1"),
        ("idempotency-key", "k"),
        ("x-stainless-retry-count", "0"),
        ("content-encoding", "zstd"),
        ("content-length", "7"),
        ("x-stainless-lang", "js"),
    ];

    #[test]
    fn a_relayed_request_keeps_all_but_the_connections_own() {
        let out = onward(
            &map(AGENT),
            &upstream(),
            (WireId::Anthropic, "/"),
            Sending::default(),
        );
        assert_eq!(
            rows(&out),
            [
                ("anthropic-beta", "b-2,  b-1"),
                ("anthropic-beta", "c"),
                ("x-api-key", "agents"),
                ("accept-encoding", "gzip, br"),
                ("cookie", "a=b"),
                ("idempotency-key", "k"),
                ("x-stainless-retry-count", "0"),
                ("content-encoding", "zstd"),
                ("x-stainless-lang", "js"),
            ]
        );
    }

    #[test]
    fn a_later_leg_is_plain_and_has_no_attempt_of_its_own() {
        let sending = Sending {
            read: true,
            plain: true,
            later_leg: true,
            added: true,
        };
        let out = onward(&map(AGENT), &upstream(), (WireId::Anthropic, "/"), sending);
        assert_eq!(
            rows(&out),
            [
                ("anthropic-beta", "b-2,  b-1"),
                ("anthropic-beta", "c"),
                ("x-api-key", "agents"),
                ("cookie", "a=b"),
                ("x-stainless-lang", "js"),
                ("accept-encoding", "identity"),
            ]
        );
    }

    #[test]
    fn an_added_request_is_the_agents_where_a_request_says_whose_it_is() {
        for (given, added, sent) in [
            (Some("user"), false, Some("user")),
            (Some("user"), true, Some("agent")),
            (Some("agent"), true, Some("agent")),
            (None, true, None),
        ] {
            let agent: Vec<_> = given.map(|value| (INITIATOR, value)).into_iter().collect();
            let sending = Sending {
                later_leg: true,
                added,
                ..Sending::default()
            };
            let out = onward(&map(&agent), &upstream(), (WireId::OpenaiChat, "/"), sending);
            assert_eq!(text(&out, INITIATOR), sent, "{given:?} {added}");
        }
    }

    #[test]
    fn the_configs_credentials_replace_the_agents() {
        let agent = map(&[
            ("authorization", "Bearer agents"),
            ("x-api-key", "client"),
            ("x-org", "theirs"),
            ("openai-organization", "theirs"),
            ("openai-project", "theirs"),
            ("x-goog-user-project", "theirs"),
            ("anthropic-workspace-id", "theirs"),
            ("anthropic-organization-id", "theirs"),
            ("chatgpt-account-id", "theirs"),
        ]);
        let azure = "/openai/deployments/d/chat/completions?api-version=1";
        let vertex = "/projects/p/locations/l/publishers/anthropic/models/c:rawPredict";
        #[rustfmt::skip]
        let table = [
            (WireId::Anthropic, "/v1/messages", "sk-ant-api", "x-api-key", "sk-ant-api"),
            (WireId::Anthropic, "/v1/messages", "sk-ant-oat01", "authorization", "Bearer sk-ant-oat01"),
            (WireId::Anthropic, vertex, "t", "authorization", "Bearer t"),
            (WireId::OpenaiChat, "/v1/chat/completions", "sk", "authorization", "Bearer sk"),
            (WireId::OpenaiChat, azure, "k", "api-key", "k"),
            (WireId::Gemini, "/v1beta/models/g:generateContent", "AI", "x-goog-api-key", "AI"),
            (WireId::Gemini, "/v1/projects/p/x", "ya29.t", "authorization", "Bearer ya29.t"),
        ];
        for (wire, target, key, name, value) in table {
            let mut place = upstream();
            place.api_key = Some(Secret::new(key));
            place.headers = vec![("X-Org".to_owned(), Secret::new("ours"))];
            let out = onward(&agent, &place, (wire, target), Sending::default());
            let mut expected = vec![("x-org", "ours"), (name, value)];
            expected.sort_unstable();
            let mut found = rows(&out);
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_response_loses_what_its_new_body_belies() {
        let upstream = map(&[
            ("content-type", "text/event-stream; charset=utf-8"),
            ("content-length", "3"),
            ("etag", "e"),
            ("set-cookie", "a"),
            ("request-id", "r"),
            ("set-cookie", "b"),
            ("transfer-encoding", "chunked"),
            ("alt-svc", "h3"),
            ("retry-after", "3"),
        ]);
        let same = ("content-type", "text/event-stream; charset=utf-8");
        let tail = [
            ("set-cookie", "a"),
            ("set-cookie", "b"),
            ("request-id", "r"),
            ("retry-after", "3"),
        ];
        let ours = [("cache-control", "no-cache"), ("x-accel-buffering", "no")];
        let changed = [&[same][..], &tail, &ours].concat();
        assert_eq!(rows(&back(&upstream, true)), changed);
        let kept = [&[same, ("content-length", "3"), ("etag", "e")][..], &tail, &ours].concat();
        assert_eq!(rows(&back(&upstream, false)), kept);
    }
}
