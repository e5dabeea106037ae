//! Which headers of a request and of a response are passed on. New maps are built by filtering, since
//! taking names out of a `HeaderMap` disturbs the order of the rest.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::state::config::UpstreamConfig;
use baton_core::record::WireId;
use baton_core::wire::error::{CREDENTIAL_HEADERS, KeyHeader};
use baton_core::wire::wire;

/// Meant for one connection only (RFC 9110 section 7.6.1), besides what `Connection` names.
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

/// Headers that the client library sets for upstream, or that are never sent on.
fn is_remade(name: &str) -> bool {
    matches!(name, "host" | "content-length" | "expect")
}

/// What a load balancer in front of the proxy may have added: the agent's address is none of upstream's business.
const FORWARDING: &[&str] = &["forwarded", "x-real-ip", "x-forwarded-"];

/// Bound to one attempt. A later leg is another request and must not share them.
fn is_per_attempt(name: &str) -> bool {
    matches!(
        name,
        "idempotency-key" | "x-client-request-id" | "x-stainless-retry-count"
    )
}

/// True of the bytes that upstream sent, and of no others.
fn is_bound_to_body(name: &str) -> bool {
    matches!(
        name,
        "content-length" | "content-encoding" | "etag" | "digest" | "content-digest" | "repr-digest"
    )
}

/// Sent to the agent, names another host than the one it is connected to.
const ABOUT_THE_HOST: &str = "alt-svc";

/// The header in which an agent declares the windows of its models. Like all headers of ours it goes no further.
pub const DECLARED_WINDOWS: &str = "x-baton-window";

/// The header in which an agent declares the topic of its handoffs.
pub const DECLARED_TOPIC: &str = "x-baton-topic";

/// Whether a request gets the tool: `off`, or [`SHADOW`].
pub const HANDOFF: &str = "x-baton-handoff";

/// Whether a request gets no tool of ours.
pub fn is_off(headers: &HeaderMap) -> bool {
    value(headers, HANDOFF).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"off"))
}

/// Whether a request is no step of the task, by Claude Code's own header, where it is configured to send it.
pub fn is_side_call(headers: &HeaderMap) -> bool {
    let class = text(headers, "x-claude-code-request-class");
    matches!(class, Some("compaction" | "auxiliary"))
}

/// Everything is relayed as it is, and what would have been done is noted.
pub const SHADOW: &str = "shadow";

/// The header with the id of the `baton run` that started the agent.
pub const RUN: &str = "x-baton-run";

/// Headers that the requests of subagents alone have: Claude Code's, Codex's, OpenCode's.
const OF_SUBAGENTS: [&str; 3] = [
    "x-claude-code-agent-id",
    "x-openai-subagent",
    "x-parent-session-id",
];

/// Whether a subagent sends the request.
pub fn is_of_subagent(headers: &HeaderMap) -> bool {
    OF_SUBAGENTS.iter().any(|name| value(headers, name).is_some())
}

/// How a request is changed on its way upstream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sending {
    /// The response will be read, so upstream is asked not to compress it.
    pub read: bool,
    /// The body is sent as plain text whatever the agent's `content-encoding` was.
    pub plain: bool,
    /// A leg after the first.
    pub later_leg: bool,
    /// A request besides the one that carries the agent's message.
    pub added: bool,
}

impl Sending {
    /// A leg after the first, which is read. `added`: another request carries the agent's message.
    pub(crate) fn later(added: bool) -> Self {
        Self {
            read: true,
            plain: true,
            later_leg: true,
            added,
        }
    }
}

/// Says whether a user or the agent began a request. GitHub Copilot charges those of a user.
const INITIATOR: &str = "x-initiator";

/// The agent's headers for upstream, where they go with `target`. The proxy's own client key is out of them already.
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
        if sending.added && text == INITIATOR {
            out.insert(name.clone(), HeaderValue::from_static("agent"));
            continue;
        }
        let dropped = hop_by_hop(text, &named)
            || is_remade(text)
            || text.starts_with("x-baton-")
            || FORWARDING.iter().any(|f| text.starts_with(f))
            || (sending.read && name == header::ACCEPT_ENCODING)
            || (sending.plain && name == header::CONTENT_ENCODING)
            || (sending.later_leg && is_per_attempt(text))
            || (upstream.api_key.is_some() && CREDENTIAL_HEADERS.contains(&text));
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

/// The config's key and headers for this upstream, in place of the agent's.
fn own_credentials(out: &mut HeaderMap, upstream: &UpstreamConfig, of: WireId, target: &str) {
    if let Some(key) = &upstream.api_key {
        let KeyHeader { name, prefix } = wire(of).facts().key_header(target, key.reveal());
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
    value.set_sensitive(true);
    Some(value)
}

/// Upstream's headers for the agent. `changed`: the body may differ from what upstream sent.
pub fn back(upstream: &HeaderMap, changed: bool) -> HeaderMap {
    let named = connection_names(upstream);
    let mut out = HeaderMap::with_capacity(upstream.len() + 4);
    for (name, value) in upstream {
        let text = name.as_str();
        let dropped = hop_by_hop(text, &named)
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

/// The value of `name` (lower case), the first one where there are several. A map's own search hashes the name, which
/// takes longer than to pass by the dozen or two that agents send.
pub fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a HeaderValue> {
    headers.iter().find(|(n, _)| n.as_str() == name).map(|(_, v)| v)
}

/// The same as text; `None` also where it is none.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    value(headers, name)?.to_str().ok()
}

/// The `baton run` whose session a request belongs to. Subagents have no session of their own.
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

/// Has proxies between us and the agent pass a stream on as it arrives.
pub fn unbuffered(out: &mut HeaderMap) {
    out.entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache"));
    out.insert(
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
