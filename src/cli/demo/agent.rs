//! The scripted agent: it sends its whole history with each request, as agents do, and knows nothing of the
//! proxy. A wire is one row of the wardrobe.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::script::{PREAMBLE, SYSTEM, Script, TOOLS, tool_result, wish};
use crate::cli::exit::{Exit, Failure};
use crate::wire::WireId;

/// How an agent speaks one wire. There is no streaming here: a reply in one piece shows the same cut.
pub(super) struct Dress {
    /// The wire.
    pub(super) wire: WireId,
    /// The name of its list of messages.
    pub(super) list: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    opening: fn(Script) -> Vec<Value>,
    body: fn(&[Value]) -> Value,
    reply: fn(Value) -> Option<Replied>,
    results: fn(&[(String, String)]) -> Vec<Value>,
}

/// A reply: the messages to keep, and the calls in them.
type Replied = (Vec<Value>, Vec<Call>);

/// A call that the agent answers: id, name, arguments.
struct Call {
    id: String,
    name: String,
    arguments: Value,
}

/// The wires that the agent can speak.
pub(super) const WARDROBE: &[Dress] = &[
    Dress {
        wire: WireId::Anthropic,
        list: "messages",
        path: "/v1/messages",
        headers: &[("anthropic-version", "2023-06-01"), ("x-api-key", "sk-demo")],
        opening: |script| {
            let blocks =
                [PREAMBLE.to_owned(), wish(script)].map(|text| json!({"type": "text", "text": text}));
            vec![json!({"role": "user", "content": blocks})]
        },
        body: |history| {
            let tool = |(name, text, keys): &(&str, &str, &[&str])| json!({"name": name, "description": text, "input_schema": schema(keys)});
            json!({
                "model": "claude-demo", "max_tokens": 8192, "thinking": {"type": "enabled", "budget_tokens": 4096},
                "system": SYSTEM, "tools": TOOLS.iter().map(tool).collect::<Vec<_>>(), "messages": history,
            })
        },
        reply: |reply| {
            let content = reply.get("content")?.as_array()?;
            let calls = content.iter().filter(|block| block["type"] == "tool_use");
            let calls = calls.map(|block| Call {
                id: text(&block["id"]),
                name: text(&block["name"]),
                arguments: block["input"].clone(),
            });
            let calls = calls.collect();
            Some((vec![json!({"role": "assistant", "content": content})], calls))
        },
        results: |results| {
            let block = |(id, text): &(String, String)| json!({"type": "tool_result", "tool_use_id": id, "content": text});
            let blocks: Vec<_> = results.iter().map(block).collect();
            vec![json!({"role": "user", "content": blocks})]
        },
    },
    Dress {
        wire: WireId::OpenaiChat,
        list: "messages",
        path: "/v1/chat/completions",
        headers: &[("authorization", "Bearer sk-demo")],
        opening: |script| {
            let [preamble, wish] =
                [PREAMBLE.to_owned(), wish(script)].map(|text| json!({"role": "user", "content": text}));
            vec![json!({"role": "system", "content": SYSTEM}), preamble, wish]
        },
        body: |history| {
            let tool = |(name, text, keys): &(&str, &str, &[&str])| json!({"type": "function", "function": {"name": name, "description": text, "parameters": schema(keys)}});
            json!({"model": "gpt-demo", "messages": history, "tools": TOOLS.iter().map(tool).collect::<Vec<_>>()})
        },
        reply: |reply| {
            let message = reply.pointer("/choices/0/message")?;
            let calls = message.get("tool_calls").and_then(Value::as_array);
            let calls = calls.into_iter().flatten().map(|call| Call {
                id: text(&call["id"]),
                name: text(&call["function"]["name"]),
                arguments: serde_json::from_str(&text(&call["function"]["arguments"])).unwrap_or_default(),
            });
            Some((vec![message.clone()], calls.collect()))
        },
        results: |results| {
            let message =
                |(id, text): &(String, String)| json!({"role": "tool", "tool_call_id": id, "content": text});
            results.iter().map(message).collect()
        },
    },
];

fn schema(keys: &[&str]) -> Value {
    let properties: serde_json::Map<_, _> = keys
        .iter()
        .map(|key| ((*key).to_owned(), json!({"type": "string"})))
        .collect();
    json!({"type": "object", "properties": properties, "required": keys})
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The agent at work.
pub(super) struct Agent {
    dress: &'static Dress,
    line: SendRequest<Full<Bytes>>,
    host: String,
    history: Vec<Value>,
    turn: usize,
}

/// What came of one request.
pub(super) struct Asked {
    /// The request's body as the agent sent it.
    pub(super) body: Bytes,
    /// The handoff that it was pinned to.
    pub(super) pinned: Option<String>,
    /// Nothing is left to do.
    pub(super) done: bool,
}

impl Agent {
    /// An agent whose base URL is `address`.
    pub(super) async fn start(
        dress: &'static Dress,
        script: Script,
        address: SocketAddr,
    ) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        let (line, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        Ok(Self {
            dress,
            line,
            host: address.to_string(),
            history: (dress.opening)(script),
            turn: 0,
        })
    }

    /// Sends the history, takes the reply into it, runs the tools that the reply calls.
    pub(super) async fn ask(&mut self) -> Result<Asked, Failure> {
        let body = Bytes::from((self.dress.body)(&self.history).to_string());
        let (headers, reply) = self.post(body.clone()).await?;
        let read = serde_json::from_slice(&reply).ok().and_then(self.dress.reply);
        let (messages, calls) = read.ok_or_else(|| {
            Failure::new(
                Exit::SOFTWARE,
                format!("the reply of turn {} cannot be read", self.turn + 1),
            )
        })?;
        self.history.extend(messages);
        let results: Vec<_> = calls
            .iter()
            .map(|call| {
                (
                    call.id.clone(),
                    tool_result(&call.name, &call.arguments, self.turn),
                )
            })
            .collect();
        if !results.is_empty() {
            self.history.extend((self.dress.results)(&results));
        }
        self.turn += 1;
        let pinned = headers.get("x-baton-handoff").and_then(|id| id.to_str().ok());
        Ok(Asked {
            body,
            pinned: pinned.map(str::to_owned),
            done: results.is_empty(),
        })
    }

    async fn post(&mut self, body: Bytes) -> Result<(HeaderMap, Bytes), Failure> {
        let mut request = Request::post(self.dress.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("x-session-id", "demo");
        for (name, value) in self.dress.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).map_err(broken)?;
        self.line.ready().await.map_err(broken)?;
        let response = self.line.send_request(request).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(broken)?.to_bytes();
        if head.status != StatusCode::OK {
            let said = String::from_utf8_lossy(&body);
            return Err(Failure::new(
                Exit::SOFTWARE,
                format!("answered {}: {said}", head.status),
            ));
        }
        Ok((head.headers, body))
    }
}

fn broken(error: impl std::error::Error) -> Failure {
    Failure::new(
        Exit::SOFTWARE,
        format!("the demo's own connection failed: {error}"),
    )
}
