//! A client of Agent Mail: JSON-RPC over HTTP, as MCP has it (the streamable transport). Every call has a limit of ten
//! seconds.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use baton_core::handoffs::yaml::{InboxMessage, Reservation};

/// Time for a call.
const LIMIT: Duration = Duration::from_secs(10);

/// Bytes of an answer.
const ANSWER_BYTES: usize = 4 << 20;

/// The protocol's version that is requested where a server wants a session.
const PROTOCOL: &str = "2025-06-18";

/// The header of a session.
const SESSION: &str = "mcp-session-id";

/// The tool through which a server offers those that it does not list (`MCP_TOOLS_MODE=core`, the default of version
/// 0.1.0), and what it answers to their own names.
const CALL_EXTENDED: &str = "call_extended_tool";
const UNKNOWN_TOOL: &str = "Unknown tool";

/// Messages that are requested.
const INBOX: u64 = 10;

/// Why a call failed: whose fault, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailError {
    /// In words, without credentials.
    pub message: String,
}

impl MailError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl std::fmt::Display for MailError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for MailError {}

/// Agent Mail at one address.
pub struct AgentMail {
    url: http::Uri,
    token: Option<HeaderValue>,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    next: AtomicU64,
    session: Mutex<Option<HeaderValue>>,
    /// Whether its tools for reservations are called through another one.
    extended: AtomicBool,
    /// Tokens that agents registered with, by name.
    agents: BTreeMap<String, String>,
}

impl std::fmt::Debug for AgentMail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without tokens.
        f.debug_struct("AgentMail")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// An answer of the server's.
struct HttpReply {
    status: StatusCode,
    session: Option<HeaderValue>,
    body: Bytes,
}

impl AgentMail {
    /// A client of the server at this URL, with a bearer token where it wants one.
    ///
    /// # Errors
    /// The URL or the token is none, or TLS cannot be set up.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, MailError> {
        // Servers are mounted at a folder, and answer its name without a slash with a redirect.
        let url = format!("{}/", url.trim_end_matches('/'));
        let url = url
            .parse()
            .map_err(|_| MailError::new("the address of Agent Mail is no URL"))?;
        let token = token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| MailError::new("the token of Agent Mail cannot stand in a header"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
            .map_err(|error| MailError::new(io::Error::other(error).to_string()))?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            url,
            token: token.transpose()?,
            client: Client::builder(TokioExecutor::new()).build(connector),
            next: AtomicU64::new(1),
            session: Mutex::new(None),
            extended: AtomicBool::new(false),
            agents: BTreeMap::new(),
        })
    }

    /// A client for agents that registered with these tokens: newer servers do nothing in an agent's name without its
    /// own.
    #[must_use]
    pub fn with_agents(mut self, agents: impl IntoIterator<Item = (String, String)>) -> Self {
        self.agents.extend(agents);
        self
    }

    /// Calls a tool; returns what it answers. Servers that show agents few tools offer the others through one of those.
    ///
    /// # Errors
    /// The server is not there, refuses, takes too long, or the tool fails.
    pub async fn call(&self, tool: &str, mut arguments: Value) -> Result<Value, MailError> {
        let token = arguments["agent_name"]
            .as_str()
            .and_then(|name| self.agents.get(name));
        if let Some(token) = token {
            arguments["registration_token"] = token.as_str().into();
        }
        limited(async {
            if !self.extended.load(Relaxed) {
                match self.call_named(tool, tool, arguments.clone()).await {
                    Err(error) if error.message.contains(UNKNOWN_TOOL) => {}
                    answer => return answer,
                }
            }
            let through = json!({"tool_name": tool, "arguments": arguments});
            let answer = self.call_named(CALL_EXTENDED, tool, through).await;
            self.extended.store(answer.is_ok(), Relaxed);
            answer.map_err(|error| match error.message.contains(UNKNOWN_TOOL) {
                true => MailError::new(format!("{tool}: Agent Mail has no such tool")),
                false => error,
            })
        })
        .await
    }

    async fn call_named(&self, name: &str, meant: &str, arguments: Value) -> Result<Value, MailError> {
        let parameters = json!({"name": name, "arguments": arguments});
        let result = self.request_in_session("tools/call", parameters).await?;
        tool_result(meant, result)
    }

    /// Reads a resource: JSON in a text.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn resource(&self, uri: &str) -> Result<Value, MailError> {
        let read = self.request_in_session("resources/read", json!({"uri": uri}));
        let result = limited(read).await?;
        let text = result.pointer("/contents/0/text").and_then(Value::as_str);
        let read = text.and_then(|text| serde_json::from_str(text).ok());
        read.ok_or_else(|| MailError::new("Agent Mail's resource is no JSON"))
    }

    /// Sends a request; a server that wants a session first gets one.
    async fn request_in_session(&self, method: &str, parameters: Value) -> Result<Value, MailError> {
        let id = self.next.fetch_add(1, Relaxed);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters});
        let answer = self.post(&body).await?;
        let wants_session = matches!(answer.status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND);
        let answer = match wants_session && self.session().is_none() {
            true if self.initialize().await.is_ok() => self.post(&body).await?,
            _ => answer,
        };
        result_of(id, &answer)
    }

    async fn initialize(&self) -> Result<(), MailError> {
        let id = self.next.fetch_add(1, Relaxed);
        let parameters = json!({
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "baton", "version": env!("CARGO_PKG_VERSION")},
        });
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": parameters});
        let answer = self.post(&body).await?;
        result_of(id, &answer)?;
        if let Ok(mut session) = self.session.lock() {
            session.clone_from(&answer.session);
        }
        self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        Ok(())
    }

    fn session(&self) -> Option<HeaderValue> {
        self.session.lock().ok()?.clone()
    }

    async fn post(&self, body: &Value) -> Result<HttpReply, MailError> {
        let failed = |what: &str| MailError::new(format!("Agent Mail: {what}"));
        let mut request = Request::post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(session) = self.session() {
            request = request.header(SESSION, session);
        }
        let request = request
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|_| failed("the request cannot be made"))?;
        let response = self
            .client
            .request(request)
            .await
            .map_err(|_| failed("it cannot be reached"))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await;
        let body = body.map_err(|_| failed("its answer broke off or is too long"))?;
        Ok(HttpReply {
            status: parts.status,
            session: parts.headers.get(SESSION).cloned(),
            body: body.to_bytes(),
        })
    }

    /// The newest messages of an agent.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn inbox(&self, project: &str, agent: &str) -> Result<Vec<InboxMessage>, MailError> {
        let arguments = json!({"project_key": project, "agent_name": agent, "limit": INBOX});
        let answer = self.call("fetch_inbox", arguments).await?;
        Ok(list(&answer).iter().map(InboxMessage::of).collect())
    }

    /// The reservations of an agent.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn reservations(&self, project: &str, agent: &str) -> Result<Vec<Reservation>, MailError> {
        let project_in_uri: String = project.bytes().map(in_uri).collect();
        let uri = format!("resource://file_reservations/{project_in_uri}?active_only=true&format=json");
        let answer = match self.resource(&uri).await {
            Ok(answer) => answer,
            // Other versions have a tool for it.
            Err(_) => {
                let arguments = json!({"project_key": project, "agent_name": agent});
                self.call("list_file_reservations", arguments).await?
            }
        };
        let all = list(&answer);
        let all = all.iter().map(Reservation::of);
        Ok(all.filter(|one| one.agent == agent).collect())
    }
}

/// A call with its time limit.
async fn limited(request: impl Future<Output = Result<Value, MailError>>) -> Result<Value, MailError> {
    let late = || MailError::new(format!("Agent Mail did not answer within {} s", LIMIT.as_secs()));
    tokio::time::timeout(LIMIT, request).await.map_err(|_| late())?
}

/// A byte in a path segment of a URI.
fn in_uri(byte: u8) -> String {
    match byte {
        b if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~') => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    }
}

/// A list, or the one in an object's `result`.
fn list(answer: &Value) -> Vec<Value> {
    let inner = answer.get("result").or_else(|| answer.get("reservations"));
    inner.unwrap_or(answer).as_array().cloned().unwrap_or_default()
}

/// The result of a JSON-RPC answer, which may be the one event of a stream.
fn result_of(id: u64, answer: &HttpReply) -> Result<Value, MailError> {
    if !answer.status.is_success() {
        return Err(MailError::new(format!(
            "Agent Mail answered with status {}",
            answer.status.as_u16()
        )));
    }
    let text = String::from_utf8_lossy(&answer.body);
    let whole = serde_json::from_str::<Value>(&text).ok();
    let message = whole.or_else(|| {
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        events
            .filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok())
            .find(|message| message.get("id").and_then(Value::as_u64) == Some(id))
    });
    let Some(message) = message else {
        return Err(MailError::new("Agent Mail's answer is no JSON-RPC"));
    };
    if let Some(error) = message.get("error") {
        let message = error.get("message").and_then(Value::as_str);
        return Err(MailError::new(format!(
            "Agent Mail: {}",
            message.unwrap_or("an error without words")
        )));
    }
    message
        .get("result")
        .cloned()
        .ok_or_else(|| MailError::new("Agent Mail's answer has no result"))
}

/// The result of a tool: structured, or JSON in its first text.
fn tool_result(tool: &str, result: Value) -> Result<Value, MailError> {
    let text = result.pointer("/content/0/text").and_then(Value::as_str);
    if result.get("isError") == Some(&Value::Bool(true)) {
        let message = text.unwrap_or("it failed without words");
        return Err(MailError::new(format!("{tool}: {message}")));
    }
    if let Some(structured) = result.get("structuredContent").filter(|value| !value.is_null()) {
        return Ok(structured.clone());
    }
    match text {
        Some(text) => {
            serde_json::from_str(text).map_err(|_| MailError::new(format!("{tool}: its answer is no JSON")))
        }
        // An empty list may come without content.
        None if result.get("content").is_some() => Ok(Value::Array(Vec::new())),
        None => Ok(result),
    }
}
