//! Errors that baton reports: one table from code to status, owner and advice.
//!
//! Only [`Fault::response`] turns a row into a response, in the shape of the agent's wire.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use crate::state::telemetry::ExceededLimit;
use baton_core::record::WireId;
use baton_core::wire::{ProxyError, wire};

/// Party responsible for a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The request, or the client that sent it.
    Agent,
    /// The provider, or the network path to it.
    Upstream,
    /// The proxy.
    Proxy,
}

/// Row of the table of everything that can go wrong with an exchange before its response has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Value of the `x-baton-error` header.
    pub name: &'static str,
    /// HTTP status.
    pub status: u16,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Party responsible for the fault.
    pub owner: Owner,
    /// Cause and remedy, separated by a semicolon.
    pub message: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $status:literal, $retry:literal, $owner:ident, $message:literal;)*) => {
        impl Code {
            $($(#[$doc])* pub const $id: Self = Self {
                name: $name, status: $status, retryable: $retry, owner: Owner::$owner, message: $message,
            };)*

            /// Every row.
            pub const ALL: &'static [Self] = &[$(Self::$id),*];
        }
    };
}

codes! {
    /// The URL cannot be joined with the upstream's.
    BAD_TARGET = "bad_target", 400, false, Agent, "the request's path cannot be sent upstream; check the base URL given to the agent";
    /// The request names no host, or more than one.
    BAD_HOST = "bad_host", 400, false, Agent, "the request does not name one host; send one Host header, as HTTP/1.1 requires";
    /// The agent aborted in the middle of its body.
    BODY_BROKEN = "body_broken", 400, true, Agent, "the request body ended before it was complete; send the request again";
    /// No client key, or one that is not configured.
    CLIENT_KEY = "client_key", 401, false, Agent, "this proxy requires a client key; give the agent the key of a client of this proxy as its API key";
    /// A declared budget that is not a number of dollars.
    BUDGET = "bad_budget", 400, false, Agent, "x-baton-budget is not a number of US dollars from 0.01 to 1000000, and nothing was sent; write one such as 5 or 2.50";
    /// A header for baton that does not exist.
    HEADER = "unknown_header", 400, false, Agent, "the request has a header for baton that does not exist, and nothing was sent; correct its name, or remove it";
    /// The request used a host name that anybody may own.
    FOREIGN_HOST = "foreign_host", 403, false, Agent, "the request names a host that is not this proxy's; give the agent a base URL at localhost or 127.0.0.1, or add the name to server.hosts in the config";
    /// A web page of another site made the request.
    FOREIGN_ORIGIN = "foreign_origin", 403, false, Agent, "a web page made this request, and pages could use the proxy's keys; to allow it, add its origin to server.origins in the config";
    /// A path or a stored response that a client may not use with the proxy's key.
    PATH = "path_not_allowed", 403, false, Agent, "clients of this proxy reach the models of this upstream, and nothing else of the account behind its key; to allow a path, add it to upstreams.NAME.paths in the config";
    /// `/u/NAME` with a name that is not configured.
    UNKNOWN_UPSTREAM = "unknown_upstream", 404, false, Agent, "no upstream of that name is served; add [upstreams.NAME] to the config, and NAME to server.upstreams if that is set, or correct /u/NAME in the agent's base URL";
    /// A `CONNECT` request, although baton is not a forward proxy, or `TRACE`, which could show the proxy's key.
    METHOD = "method_not_allowed", 405, false, Agent, "CONNECT and TRACE are not relayed; set the agent's base URL to this proxy, not its HTTP proxy";
    /// The agent sends its body more slowly than the minimum rate.
    BODY_TIMEOUT = "body_timeout", 408, true, Agent, "the request body arrived too slowly; send the request again";
    /// The body is longer than the limit.
    BODY_TOO_LARGE = "body_too_large", 413, false, Agent, "the request body, decompressed, is over the limit; raise limits.body_bytes in the config, or start a new conversation";
    /// The credential or the path belongs to another vendor than the upstream.
    OTHER_VENDOR = "other_vendor", 421, false, Agent, "the request belongs to another vendor than the upstream of its path, and nothing was sent; name the upstream with /u/NAME in the agent's base URL";
    /// A WebSocket upgrade. Codex then falls back to HTTP. Inside a WebSocket the history is not sent again, so there
    /// would be nothing to cut.
    UPGRADE = "websocket_unsupported", 426, false, Agent, "WebSocket is not supported; use HTTP with server-sent events";
    /// A panic, or a state that should be impossible.
    INTERNAL = "internal", 500, true, Proxy, "the proxy failed on this request; see its log for details";
    /// The drain time is over while a response streams.
    STOPPING = "stopping", 503, true, Proxy, "the proxy stopped before the response was complete; send the request again";
    /// The store cannot be read or written, and the request cannot be served without it.
    STORE = "store_unavailable", 503, true, Proxy, "the store of handoffs cannot be read or written, and the request needs it; mend that, and send the request again";
    /// Too many concurrent exchanges.
    OVERLOADED = "overloaded", 503, true, Proxy, "too many concurrent requests; try again shortly, or raise limits.max_concurrent_requests in the config";
    /// The memory budget has no room for the body.
    BODIES_FULL = "bodies_full", 503, true, Proxy, "the bodies of concurrent requests fill limits.bodies_bytes; try again shortly, or raise it in the config";
    /// The connection was refused, or the network is unavailable.
    UNREACHABLE = "upstream_unreachable", 502, true, Upstream, "upstream cannot be reached; check its base_url in the config and the network";
    /// The host name does not resolve.
    DNS = "upstream_dns", 502, true, Upstream, "the upstream's host name does not resolve; check its base_url in the config and the network";
    /// The TLS handshake failed.
    TLS = "upstream_tls", 502, false, Upstream, "no TLS connection to upstream; check the certificate it presents and base_url in the config";
    /// No connection within the time limit.
    CONNECT_TIMEOUT = "upstream_connect_timeout", 504, true, Upstream, "upstream did not accept a connection in time; check the network, or raise the upstream's connect_secs";
    /// No byte within the time limit.
    SILENT = "upstream_silent", 504, true, Upstream, "upstream sent nothing for too long; try again, or raise the upstream's idle_secs";
    /// The connection ended, or broke the protocol, before a response was complete.
    CLOSED = "upstream_closed", 502, true, Upstream, "upstream closed the connection before its response was complete; try again";
    /// The response header block exceeds the line or byte limit.
    HEAD_TOO_LARGE = "upstream_head_too_large", 502, false, Upstream, "upstream's response headers exceed 256 lines or limits.header_bytes; the same request would fail again, so raise the limit or find the source of the headers";
    /// The response's coding or framing is broken, and the agent has received none of it.
    UNREADABLE = "upstream_unreadable", 502, true, Upstream, "upstream's response cannot be read; try again, and check other proxies on the way to upstream";
}

impl Code {
    /// Limit that a request with this fault exceeded.
    pub(super) fn limit(self) -> Option<ExceededLimit> {
        match self {
            Self::OVERLOADED => Some(ExceededLimit::MaxConcurrentRequests),
            Self::BODIES_FULL => Some(ExceededLimit::BodiesBytes),
            Self::BODY_TOO_LARGE => Some(ExceededLimit::BodyBytes),
            _ => None,
        }
    }

    /// Seconds until the agent should retry. Only overload has such a time, because it is soon over.
    pub(super) fn retry_after(self) -> Option<u32> {
        matches!(self, Self::OVERLOADED | Self::BODIES_FULL).then_some(2)
    }
}

/// A row of the table with the details of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Row of the table.
    pub code: Code,
    /// Cause or name, appended to the row's message.
    pub detail: Option<String>,
}

impl std::fmt::Display for Fault {
    /// Writes only the detail, or the row's message if the detail is missing or empty.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let detail = self.detail.as_deref().filter(|detail| !detail.is_empty());
        f.write_str(detail.unwrap_or(self.code.message))
    }
}

impl std::error::Error for Fault {}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Self { code, detail: None }
    }
}

impl Fault {
    /// Creates a fault with a cause, which must contain neither a credential nor text of a conversation.
    pub fn because(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: Some(detail.into()),
        }
    }

    /// Creates a fault for a connection that ended, or broke the protocol, before a body was complete.
    pub(crate) fn closed(cause: impl std::fmt::Display) -> Self {
        Self::because(
            Code::CLOSED,
            format!("upstream ended the response early: {cause}"),
        )
    }

    /// Whether the rest of a body may arrive if its request is sent again.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.code, Code::SILENT | Code::CLOSED)
    }

    /// Returns the cause in a few words, without advice.
    pub(crate) fn cause(&self) -> String {
        let (cause, _) = self
            .code
            .message
            .split_once(';')
            .unwrap_or((self.code.message, ""));
        cause.to_owned()
    }

    /// Returns the message for the agent: that of the row, with the detail in parentheses.
    pub fn message(&self) -> String {
        match &self.detail {
            Some(detail) => format!("baton: {} ({detail})", self.code.message),
            None => format!("baton: {}", self.code.message),
        }
    }

    /// Response body in the wire's error shape.
    pub fn body(&self, shape: WireId) -> String {
        wire(shape).error_body(ProxyError {
            status: self.code.status,
            code: self.code.name,
            message: &self.message(),
        })
    }

    /// Builds the whole response, for any type of body.
    pub fn response<B: From<String>>(&self, wire: WireId) -> Response<B> {
        let mut response = Response::new(B::from(self.body(wire)));
        *response.status_mut() =
            StatusCode::from_u16(self.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            HeaderName::from_static("x-baton-error"),
            HeaderValue::from_static(self.code.name),
        );
        // The SDKs of OpenAI and Anthropic obey this header, and would otherwise repeat a hopeless request.
        if !self.code.retryable {
            headers.insert(
                HeaderName::from_static("x-should-retry"),
                HeaderValue::from_static("false"),
            );
        }
        if let Some(seconds) = self.code.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::CLIENT_KEY {
            close(headers);
        }
        if self.code == Code::UPGRADE {
            // RFC 9110 section 15.5.22 asks for the protocol to use instead.
            headers.insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        response
    }
}

/// Makes a response the last one of its connection, for senders without a client key. The connection could otherwise wait
/// for another head for minutes.
pub(super) fn close(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
}

pub(super) fn too_large(limit: usize) -> Fault {
    Fault::because(Code::BODY_TOO_LARGE, format!("the limit is {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    #[test]
    fn each_wire_has_its_shape() {
        let fault = Fault::because(Code::UNREACHABLE, "connection refused");
        let message = "baton: upstream cannot be reached; check its base_url in the config and the network (connection refused)";
        let parsed = |wire| serde_json::from_str::<serde_json::Value>(&fault.body(wire)).unwrap();
        assert_eq!(
            parsed(WireId::Anthropic),
            json!({"type": "error", "error": {"type": "api_error", "message": message}})
        );
        let openai = json!({"error": {"message": message, "type": "server_error", "param": null, "code": "upstream_unreachable"}});
        assert_eq!(parsed(WireId::OpenaiChat), openai);
        assert_eq!(parsed(WireId::OpenaiResponses), openai);
        assert_eq!(
            parsed(WireId::Gemini),
            json!({"error": {"code": 502, "message": message, "status": "UNAVAILABLE"}})
        );
        assert_eq!(parsed(WireId::Ollama), json!({"error": message}));
    }

    #[test]
    fn every_row_has_a_name_of_its_own_and_says_what_to_do() {
        for (at, code) in Code::ALL.iter().enumerate() {
            assert!(
                Code::ALL[..at].iter().all(|c| c.name != code.name),
                "{}",
                code.name
            );
            assert!(code.message.contains(';'), "{}: cause; what to do", code.name);
            let response = Fault::from(*code).response::<String>(WireId::Anthropic);
            assert_eq!(response.status().as_u16(), code.status);
            assert_eq!(response.headers()["x-baton-error"], code.name);
            assert_eq!(response.headers().contains_key("x-should-retry"), !code.retryable);
        }
    }
}
