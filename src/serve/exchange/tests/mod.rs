//! Tests of the stages, each on the value of the previous one, with a store in memory and without sockets.

mod commanding;
mod contexts;
mod drafting;
mod forks;
mod goals;
mod loaded_tools;
mod pairing;
mod reading;
mod writing;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use super::read::{self, ParsedRequest};
use super::request::PlannedExchange;
use super::value::Exchange;
use super::{App, record_writer};
use crate::proxy::body::RequestBody;
use crate::proxy::exchange_recorder::ExchangeRecorder;
use crate::proxy::fault::Fault;
use crate::proxy::upstream::Upstreams;
use crate::proxy::{RequestContext, testing};
use crate::state::config::{Config, InjectPolicy};
use crate::state::journal::Recorder;
use crate::state::store::SharedStore;
use crate::state::store::sqlite::SqliteStore;
use baton_core::handoffs::carry::CarryScope;
use baton_core::marker::seal::SealKey;
use baton_core::plan::NewHandoff;
use baton_core::record::{Handoff, WireId};
use baton_core::wire::Operation;

const PROMPT: &str = "Go on with the importer. Its tests fail in parse.rs.";

/// A proxy without its listener.
struct Stage {
    app: Arc<App>,
    upstreams: Upstreams,
}

impl Stage {
    fn new() -> Self {
        Self::with(|_| ())
    }

    /// Creates a stage with another config.
    fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::over(Arc::new(SqliteStore::in_memory().unwrap()), change)
    }

    fn over(store: SharedStore, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = testing::config("http://127.0.0.1:1");
        config.handoff.inject = InjectPolicy::Always;
        config.commands.prefix = "::".to_owned();
        // Items appended to a prompt have their own tests.
        config.handoff.append_missing = CarryScope::Rules;
        change(&mut config);
        Self {
            upstreams: Upstreams::new(&config).unwrap(),
            app: Arc::new(App::new(config, store, SealKey::new(*b"test")).unwrap()),
        }
    }

    /// A request of an agent on the Anthropic wire.
    fn request(&self, body: impl ToString) -> TestRequest<'_> {
        let id = "exchange-1".to_owned();
        let hook = Arc::new(|_| ());
        let recorder = ExchangeRecorder::start(id.clone(), String::new(), "anthropic".to_owned(), hook);
        TestRequest {
            stage: self,
            body: body.to_string(),
            ctx: RequestContext {
                recording: Recorder::off().exchange(&id),
                id,
                principal: "local".to_owned(),
                upstream: Arc::clone(self.upstreams.get("anthropic").unwrap()),
                wire: Some(WireId::Anthropic),
                operation: Some(Operation::Generate),
                method: Method::POST,
                target: "/v1/messages".to_owned(),
                headers: HeaderMap::new(),
                recorder,
                open: None,
            },
        }
    }

    /// A handoff that took effect in a conversation with these messages.
    async fn handoff(&self, messages: &[Value]) -> Handoff {
        let exchange = self.request(claude(messages)).exchange().await;
        handed_over(&exchange, PROMPT).await
    }
}

/// Lets a handoff of the model take effect.
async fn handed_over(exchange: &Exchange, prompt: &str) -> Handoff {
    let new = NewHandoff::of_model(prompt.to_owned(), None, None);
    record_writer::write_handoff(exchange, new).await.unwrap()
}

/// A request before its stages.
struct TestRequest<'s> {
    stage: &'s Stage,
    ctx: RequestContext,
    body: String,
}

impl TestRequest<'_> {
    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        self.ctx.headers.append(name, value);
        self
    }

    fn principal(mut self, name: &str) -> Self {
        self.ctx.principal = name.to_owned();
        self
    }

    fn received(&self) -> Option<ParsedRequest> {
        let body = RequestBody::Plain(self.body.clone().into());
        read::receive(&self.stage.app, &self.ctx, &read::ScannedBody::new(body))
    }

    async fn planned(&self) -> Result<PlannedExchange, Fault> {
        let received = self.received().expect("a request that is read");
        super::request::plan(&self.stage.app, &self.ctx, received).await
    }

    async fn offered(&self) -> PlannedExchange {
        self.planned().await.unwrap_or_else(|_| panic!("not planned"))
    }

    async fn exchange(self) -> Exchange {
        let offered = self.offered().await;
        Exchange::new(Arc::clone(&self.stage.app), self.ctx, offered)
    }
}

/// A request of Claude Code in its own session.
fn claude(messages: &[Value]) -> Value {
    json!({
        "model": "claude-opus-4-8",
        "max_tokens": 32000,
        "system": "Be brief.",
        "metadata": {"user_id": "{\"session_id\":\"s-1\"}"},
        "tools": [{"name": "run", "description": "Runs.", "input_schema": {"type": "object"}}],
        "messages": messages,
    })
}

/// Replaces members of a request.
fn changed(mut request: Value, members: Value) -> Value {
    let Value::Object(members) = members else {
        panic!("no members: {members}");
    };
    for (name, value) in members {
        match value {
            Value::Null => drop(request.as_object_mut().unwrap().remove(&name)),
            value => request[name] = value,
        }
    }
    request
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn model(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

fn calls(id: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "run", "input": {}}]})
}

fn result(id: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]})
}

/// Messages sent upstream.
fn sent(stage: &Stage, offered: &PlannedExchange) -> Vec<Value> {
    let rope = offered.plan(&stage.app).first(offered.offer.tooled).rope;
    let body: Value = serde_json::from_slice(&rope.concat()).unwrap();
    body["messages"].as_array().unwrap().clone()
}
