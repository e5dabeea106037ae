//! HTTP side of the proxy: sockets, bodies, headers, upstreams.
//!
//! This module finds out which requests carry a transcript. Reading the transcript is left to the handler
//! that the composition root supplies.
//!
//! ```text
//! server ─► handle ─► route, admit ─► body ─► handler ──► upstream
//!                                  └────────► relay ────► upstream
//! ```

mod admit;
mod agent_stream;
pub(crate) mod answer_form;
pub mod body;
mod budget;
mod buffers;
pub mod certificate;
pub mod coding;
pub(crate) mod connect;
mod declared;
mod decode;
pub mod descriptors;
pub mod download;
pub mod exchange_recorder;
pub mod fault;
mod guard;
pub mod headers;
mod min_rate;
mod own_key;
mod reach;
pub mod relay;
pub mod response_body;
pub mod route;
mod sender;
pub mod server;
mod unmodifiable;

pub mod spill;
pub mod stated_usage;
mod stored_responses;
mod target;
pub(crate) mod turn;
pub mod upload;
pub mod upstream;
pub(crate) mod waiting;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use hyper::body::Incoming;

use self::admit::{Admission, Admitted};
use self::body::RequestBody;
use self::coding::Coding;
use self::exchange_recorder::{EventHook, ExchangeRecorder};
use self::fault::{Code, Fault};
use self::headers::Sending;
use self::min_rate::MinRateBody;
use self::response_body::AgentResponse;
use self::route::Route;
use self::spill::OpenRequest;
use self::unmodifiable::Unmodifiable;
use self::upstream::{Upstream, Upstreams};
use crate::connections::Peer;
use crate::state::access::peers;
use crate::state::clock::now_ms;
use crate::state::config::{ClientKey, Config};
use crate::state::journal::{BodyCapture, Recorder, Recording};
use crate::state::store::SharedStore;
use crate::state::telemetry::{ExchangeOutcome, ParentSpan, ProviderLimit};
use baton_core::quota;
use baton_core::record::{LOCAL, WireId};
use baton_core::redact::Redactor;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::text::cut::floor;
use baton_core::wire::Operation;

pub use self::budget::Budget;

/// Future of the response to one request.
pub type Answering = Pin<Box<dyn Future<Output = AgentResponse> + Send>>;

/// Handler of requests whose transcript baton reads.
pub trait TranscriptHandler: Send + Sync {
    /// Starts to answer a request whose body has been collected.
    fn answer(self: Arc<Self>, ctx: RequestContext, body: RequestBody) -> Answering;
}

/// Dependencies that the composition root supplies.
pub struct GatewayParts {
    /// The checked config.
    pub config: Arc<Config>,
    /// Store that maps response ids between agent and upstream.
    pub store: SharedStore,
    /// Journal that receives a copy of the traffic.
    pub journal: Recorder,
    /// Removes credentials from the paths that name exchanges.
    pub redactor: Redactor,
    /// Memory budget of request bodies and of responses that are read whole.
    pub bodies: Budget,
    /// Hook that receives one event per exchange.
    pub events: EventHook,
    /// Handler of requests with a transcript.
    pub handler: Arc<dyn TranscriptHandler>,
}

/// HTTP side of the proxy, shared by all requests.
pub struct Gateway {
    parts: GatewayParts,
    /// One client per upstream.
    upstreams: Upstreams,
    admission: Admission,
}

impl Gateway {
    /// Prepares a client for each upstream without opening a connection.
    ///
    /// # Errors
    /// TLS to the upstreams cannot be set up.
    pub fn new(parts: GatewayParts) -> io::Result<Self> {
        Ok(Self {
            upstreams: Upstreams::new(&parts.config)?,
            admission: Admission::new(&parts.config),
            parts,
        })
    }

    /// Creates a gateway for another config that shares this one's exchange permits.
    ///
    /// Exchanges that still run under the old config keep counting against the limit.
    ///
    /// # Errors
    /// TLS to the upstreams cannot be set up.
    pub fn reloaded(&self, parts: GatewayParts) -> io::Result<Self> {
        let new = Self::new(parts)?;
        Ok(Self {
            admission: self.admission.reloaded(&new.parts.config),
            ..new
        })
    }

    /// Refuses later requests of the clients that are not `present`, and logs their names.
    pub fn revoke(&self, present: &[ClientKey]) {
        for client in self.admission.revoke(present) {
            tracing::warn!(target: "baton", client, "removed a client; its key is refused");
        }
    }

    /// Config of the gateway's requests.
    pub fn config(&self) -> &Arc<Config> {
        &self.parts.config
    }

    /// Number of requests that wait for an exchange permit.
    pub fn waiting_exchanges(&self) -> usize {
        self.admission.waiting.load(Relaxed)
    }

    /// Number of free exchange permits.
    pub fn free_exchanges(&self) -> usize {
        self.admission.exchanges.available_permits()
    }
}

/// One agent request, without its body.
#[derive(Clone)]
pub struct RequestContext {
    /// Id of the exchange, as in `x-baton-exchange`.
    pub id: String,
    /// Name of the client, or `local`.
    pub principal: String,
    /// Upstream that receives the request.
    pub upstream: Arc<Upstream>,
    /// Wire of the request, if known. Always `Some` for a call that carries a transcript.
    pub wire: Option<WireId>,
    /// Operation that the request asks for. `None` if it carries no transcript.
    pub operation: Option<Operation>,
    /// The agent's method.
    pub method: Method,
    /// Path and query as the agent wrote them, without `/u/NAME` and without baton's client key.
    pub target: String,
    /// The agent's headers, except those that carry baton's client key.
    pub headers: HeaderMap,
    /// Recorder of the exchange's event.
    pub recorder: ExchangeRecorder,
    /// Recording of this exchange for the journal.
    pub recording: Recording,
    /// The request's part of the client's share of open requests.
    pub open: Option<Arc<OpenRequest>>,
}

impl RequestContext {
    /// Wire that shapes baton's error responses and selects the header for the upstream's key.
    ///
    /// Falls back to Chat Completions if the wire is unknown.
    pub fn shape(&self) -> WireId {
        self.wire.unwrap_or(WireId::OpenaiChat)
    }

    /// Builds the headers to send upstream.
    pub fn onward(&self, sending: Sending) -> HeaderMap {
        headers::onward(
            &self.headers,
            &self.upstream.config,
            (self.shape(), &self.target),
            sending,
        )
    }

    /// Records that upstream refused the request because of a limit of the account. Returns when it accepts requests
    /// again, if it states that.
    pub(crate) fn note_limit(&self, headers: &HeaderMap, body: &[u8]) -> Option<u64> {
        let opens_ms = quota::opens_ms(|name| headers::text(headers, name), body, now_ms());
        self.recorder
            .note(|e| e.provider_limit = Some(ProviderLimit { opens_ms }));
        opens_ms
    }

    /// Builds an error response in the shape of the wire.
    pub fn refuse(&self, fault: Fault) -> AgentResponse {
        refuse(&self.recorder, self.shape(), &fault)
    }
}

/// Adds the exchange id, the handoff and the reason for a missing tool to the response headers.
///
/// The recorder still holds these values if a response failed before its first byte and was replaced.
fn describe(headers: &mut HeaderMap, id: &str, recorder: &ExchangeRecorder) {
    let (pinned, untooled) = recorder.read(|e| (e.pinned.clone(), e.untooled));
    let named = [
        ("x-baton-exchange", Some(id)),
        ("x-baton-handoff", pinned.as_deref()),
        ("x-baton-untooled", untooled.map(|why| why.name())),
    ];
    for (name, value) in named {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Answers one request.
///
/// The response body carries the recorder and the permit. Dropping this future or that body ends the exchange
/// at the point it has reached.
pub async fn handle(gateway: Arc<Gateway>, request: Request<Incoming>, peer: Peer) -> AgentResponse {
    let (mut parts, body) = request.into_parts();
    // Declarations leave the path first, so that routing sees the agent's own path.
    declared::take_from_path(&mut parts);
    declared::remove_credential(&mut parts.headers, &gateway.parts.redactor);
    // Answered without admission: a probe has no client key, and its answer is not an exchange.
    if relay::asks_for_welcome(&parts) && gateway.admission.guard.host(&parts).is_ok() {
        return relay::welcome(&gateway.parts.config);
    }
    let limits = &gateway.parts.config.limits;
    // Every reader of the body gets the minimum rate, including the one that drains a refused body.
    let body = MinRateBody::new(body, limits);
    let id = uuid::Uuid::now_v7().to_string();
    let route = find_route(&gateway, &parts.uri, &parts.headers);
    let recorder = start_recorder(&gateway, &parts, &route, &id);
    let sender = peers::sender(peer.address, &parts.headers, &gateway.parts.config.server.trusted);
    let parent = headers::text(&parts.headers, "traceparent").and_then(ParentSpan::parse);
    recorder.note(|e| (e.sender, e.parent) = (Some(sender), parent));
    let recording = gateway.parts.journal.exchange(&id);
    // Admission takes the route, but an error still needs its shape.
    let shape = route.shape();
    let mut permit = None;
    // Checked before waiting for a permit: a request that is refused anyway must not wait.
    let admitted = match gateway.admission.admit(&gateway.upstreams, &parts, route) {
        Ok(admitted) => {
            peer.admit();
            let place = gateway.admission.place(limits.waits.place).await;
            place.map(|place| {
                permit = Some(place);
                admitted
            })
        }
        Err(fault) => Err(fault),
    };
    let response = match admitted {
        Ok(admitted) => {
            let ctx = request_context(parts, admitted, &id, &recorder, &recording);
            // Boxed: this state is large. In one allocation with the caller's state, less of it would be
            // reused while responses stream, about 4 MiB per thousand streams.
            Box::pin(answer(&gateway, ctx, body)).await
        }
        Err(fault) => {
            before_refusal(&gateway, &fault, &parts.headers, body, sender).await;
            refuse(&recorder, shape, &fault)
        }
    };
    // Until the head is sent, a body that fails at once can still become an error status.
    let (head, body) = response.into_parts();
    let mut response = match body.begun().await {
        Ok(body) => Response::from_parts(head, body),
        Err(fault) => refuse(&recorder, shape, &fault),
    };
    describe(response.headers_mut(), &id, &recorder);
    recorder.note(|e| e.status = response.status().as_u16());
    // Without a journal the response is not copied.
    let shown = match recording.is_on() {
        true => recording.capture_shown(response.headers()),
        false => BodyCapture::default(),
    };
    response.map(|body| body.guarded(recorder, shown, permit))
}

/// Records the sender in the exchange's event, and builds the context of the request.
fn request_context(
    parts: Parts,
    admitted: Admitted,
    id: &str,
    recorder: &ExchangeRecorder,
    recording: &Recording,
) -> RequestContext {
    let Admitted {
        client,
        upstream,
        route,
    } = admitted;
    let server = upstream.server.clone();
    let named = Some(&client.name).filter(|name| *name != LOCAL).cloned();
    let headers = client.headers_without(parts.headers);
    // Upstream does not get the agent's credential, so it could not check a signature.
    let headers = match upstream.is_guarded || upstream.config.has_own_key() {
        true => unmodifiable::unbound(headers),
        false => headers,
    };
    recorder.note(|e| {
        (e.server, e.client) = (server, named);
        // The proxy's own key is billed by tokens, whatever credential the client sends.
        e.subscription =
            !upstream.config.has_own_key() && sender::is_on_subscription(&headers, parts.uri.path());
    });
    RequestContext {
        id: id.to_owned(),
        principal: client.name.clone(),
        upstream,
        wire: route.wire,
        operation: route.operation,
        target: route.target,
        method: parts.method,
        headers,
        recorder: recorder.clone(),
        recording: recording.clone(),
        open: None,
    }
}

/// Drains the body of a refused request, and delays the refusal of a sender with many wrong keys.
async fn before_refusal(
    gateway: &Gateway,
    fault: &Fault,
    headers: &HeaderMap,
    body: MinRateBody,
    sender: IpAddr,
) {
    // Without a valid host the body is not drained: the sender need not upload it to learn of the error.
    if fault.code != Code::BAD_HOST {
        body::discard(headers, body).await;
    }
    if fault.code == Code::CLIENT_KEY {
        tokio::time::sleep(gateway.admission.wrong_keys.note(sender)).await;
    }
}

/// Hands a readable transcript to the handler and relays every other request.
async fn answer(gateway: &Gateway, ctx: RequestContext, body: MinRateBody) -> AgentResponse {
    // Only a POST carries a transcript: the warning would be wrong for other methods.
    let unmodifiable =
        Unmodifiable::from_request(&ctx.target, &ctx.headers).filter(|_| ctx.method == Method::POST);
    if let Some(unmodifiable) = unmodifiable {
        unmodifiable.say(&ctx);
    }
    let asks = ctx.operation.is_some() && ctx.method == Method::POST;
    let unread = match unmodifiable {
        Some(_) => Some(ToolOmission::Signed),
        None => (Coding::from_headers(&ctx.headers) == Coding::Opaque).then_some(ToolOmission::UnreadCoding),
    };
    if !asks || unread.is_some() {
        if asks && let Err(fault) = ctx.check_unread(&gateway.parts.config) {
            return ctx.refuse(fault);
        }
        // Only a request that could have got the tool has a reason for not getting it.
        ctx.recorder.note(|e| e.untooled = unread.filter(|_| asks));
        let response = Box::pin(stored_responses::run(gateway, ctx.clone(), body)).await;
        let parts = &gateway.parts;
        return stated_usage::counted((&parts.config, &parts.bodies, &parts.store), &ctx, response).await;
    }
    let limit = gateway.parts.config.limits.body_bytes;
    match body::collect(&ctx.headers, body, limit, &gateway.parts.bodies).await {
        Ok(body) => {
            ctx.recorder.request_read(body.len() as u64);
            Arc::clone(&gateway.parts.handler).answer(ctx, body).await
        }
        Err(fault) => ctx.refuse(fault),
    }
}

fn find_route(gateway: &Gateway, uri: &Uri, headers: &HeaderMap) -> Route {
    // A target without a path (`CONNECT`) is refused at admission.
    let root = PathAndQuery::from_static("/");
    let target = uri.path_and_query().unwrap_or(&root);
    route::find(target, headers, &gateway.parts.config.upstreams)
}

/// Maximum recorded size of a path and of an upstream's name in bytes.
const MAX_NAME_BYTES: usize = 512;

fn start_recorder(gateway: &Gateway, parts: &Parts, route: &Route, id: &str) -> ExchangeRecorder {
    let redactor = &gateway.parts.redactor;
    // Bounded, because a path may have as many bytes as thousands of exchanges take in the journal.
    let bounded = |text: &str| text[..floor(text, MAX_NAME_BYTES)].to_owned();
    let name = format!("{} {}", parts.method, redactor.path(parts.uri.path()));
    let upstream = redactor.text(&route.upstream);
    let events = gateway.parts.events.clone();
    let recorder = ExchangeRecorder::start(id.to_owned(), bounded(&name), bounded(&upstream), events);
    // Only calls with a transcript are listed by agent and run.
    if route.operation.is_some() {
        recorder.note(|e| {
            e.wire = route.wire;
            e.agent = sender::agent(&parts.headers).map(|name| redactor.text(&name).into_owned());
            e.run = headers::run(&parts.headers);
        });
    }
    recorder
}

fn refuse(recorder: &ExchangeRecorder, shape: WireId, fault: &Fault) -> AgentResponse {
    if fault.code == Code::UPGRADE {
        // Expected: the agent falls back to HTTP at once. Nothing failed, so no event is recorded.
        tracing::debug!(code = fault.code.name, "refused");
        recorder.forget();
        return fault.response(shape);
    }
    let sender = recorder.read(|e| e.sender.map(|sender| sender.to_string()));
    let (code, owner) = (fault.code.name, fault.code.owner);
    tracing::warn!(code, owner = ?owner, client.address = sender, detail = fault.detail, "refused");
    // An agent that aborted its upload never sees this response: the exchange was cancelled, not refused.
    let outcome = match fault.code {
        Code::BODY_BROKEN => ExchangeOutcome::Cancelled,
        _ => ExchangeOutcome::Refused,
    };
    recorder.decide(outcome);
    recorder.note(|e| {
        e.limit = fault.code.limit();
        e.refused_key = fault.code == Code::CLIENT_KEY;
    });
    fault.response(shape)
}
