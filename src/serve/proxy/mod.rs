//! The HTTP side of the proxy: sockets, bodies, headers, upstreams. It knows which paths carry transcripts; the
//! handler that it is given (`exchange`) reads what is in them.
//!
//! ```text
//! server ─► handle ─► route, admit ─► body ─► exchange ─► upstream
//!                                  └────────► relay ────► upstream
//! ```

mod admit;
mod agent_stream;
pub mod body;
mod budget;
mod buffers;
mod clock;
pub mod coding;
pub(crate) mod confirming_stream;
mod connect;
mod declared_windows;
mod decode;
pub mod descriptors;
pub mod download;
pub mod exchange_recorder;
pub mod fault;
mod forward;
mod guard;
mod head_timeout;
pub mod headers;
mod known_scans;
mod min_rate;
mod multi_member;
pub mod relay;
pub mod response_body;
pub mod route;
mod sender;
pub mod server;
mod unmodifiable;

pub mod spill;
mod stalled_streams;
mod stored_responses;
mod target;
pub mod upload;
pub mod upstream;
mod welcome;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use hyper::body::Incoming;

use self::admit::{Admission, Admitted};
use self::body::Collected;
use self::budget::Budget;
pub use self::clock::Clock;
use self::coding::Coding;
use self::confirming_stream::ConnectionEnds;
use self::exchange_recorder::{EventHook, ExchangeRecorder};
use self::fault::{Code, Fault};
use self::headers::Sending;
pub use self::known_scans::BodyScan;
use self::known_scans::KnownScans;
use self::min_rate::MinRateBody;
use self::response_body::ResponseBody;
use self::route::{Endpoint, Route};
use self::spill::Spill;
use self::unmodifiable::Unmodifiable;
use self::upstream::{Upstream, Upstreams};
use crate::state::config::{Config, Secret};
use crate::state::files::documents::DocumentWriter;
use crate::state::jobs::drafts::DraftQueue;
use crate::state::jobs::recalls::{CallAnswerer, Recaller};
use crate::state::journal::{BodyCapture, Recorder, Recording};
use crate::state::session::Sessions;
use crate::state::store::SharedStore;
use crate::state::store::seals::Seals;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::handoffs::draft::Prompts;
use baton_core::handoffs::recall::RecallIndexSettings;
use baton_core::record::WireId;
use baton_core::redact::Redactor;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::tools::{RECALL_NAME, Tool, ToolTable};
use baton_core::wire::{SharedTurns, View};

/// `retry-after` in seconds where too many exchanges are under way.
const OVERLOAD_RETRY_SECS: u32 = 2;

/// Conversations kept in memory in front of the store: each takes about a kilobyte.
const LIVE_CONVERSATIONS: usize = 16_384;

/// An exchange under way.
pub type Answering = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;

/// Answers a request whose transcript is read: `exchange::handle`, given by who puts the rooms together.
pub type Handler = fn(Arc<App>, RequestContext, Collected) -> Answering;

/// The text to put behind a request of a conversation, if any; called with its key and the request.
pub type Reminder = Arc<dyn Fn(&str, &View) -> Option<String> + Send + Sync>;

/// What all exchanges share.
pub struct App {
    /// The checked config.
    pub config: Config,
    /// A client for each upstream.
    pub upstreams: Upstreams,
    /// The conversations, with the store behind them.
    pub sessions: Arc<Sessions>,
    /// The keys of the sentinels' seals.
    pub seals: Seals,
    /// The time of what is recorded.
    pub clock: Clock,
    /// Our tools, as the model sees them.
    pub tools: Arc<ToolTable>,
    /// Those of requests behind a cut that was made with recall: one more. Where recall was turned off since then such
    /// requests still have it, since their prefix has.
    pub recall_tools: Arc<ToolTable>,
    /// What answers those that are answered with a text.
    pub answers: Arc<dyn CallAnswerer>,
    /// What is put behind requests; nothing, where there is none.
    pub reminder: Option<Reminder>,
    /// The drafts of all conversations.
    pub drafting: Arc<DraftQueue>,
    /// What models are asked with for the document of a handoff.
    pub prompts: Prompts,
    /// Gets one event for each exchange.
    pub events: EventHook,
    /// Gets a copy of what goes by.
    pub journal: Recorder,
    /// Writes documents of handoffs.
    pub packets: DocumentWriter,
    /// Answers what carries a transcript.
    handler: Handler,
    /// Keeps requests while their responses stream.
    pub(crate) spill: Spill,
    /// Memory of the requests that are under way.
    pub(crate) bodies: Budget,
    /// What scans of earlier bodies found.
    scans: KnownScans,
    admission: Admission,
    /// Knows the config's keys and patterns, and removes them from events and logs.
    pub(crate) redactor: Redactor,
}

impl App {
    /// Prepares clients for all upstreams; opens no connection.
    ///
    /// # Errors
    /// TLS to the upstreams cannot be set up.
    pub fn new(
        config: Config,
        store: SharedStore,
        seals: impl Into<Seals>,
        events: EventHook,
        handler: Handler,
    ) -> io::Result<Self> {
        let upstreams = Upstreams::new(&config)?;
        let secrets = config.journal.secrets.iter().map(Secret::reveal);
        let redactor = Redactor::lazy(&config.journal.redact)
            .knowing(secrets)
            .with_secret_files(&config.draft.secret_files);
        let admission = Admission::new(&config);
        let handoff = Tool::handoff(config.handoff.description.as_deref());
        let recall = Tool::recall(config.recall.per_turn);
        let recall_tools = Arc::new(ToolTable::new(vec![handoff.clone(), recall]));
        let answers = recaller(&config, &redactor);
        let drafting = DraftQueue::expiring_after(config.draft.expires);
        let prompts = prompts(config.draft.prompts_dir.as_deref())?;
        let spill = Spill::new(config.state_dir.clone(), config.limits.shelf_bytes);
        let bodies = Budget::new(config.limits.bodies_bytes, config.limits.body_bytes);
        Ok(Self {
            config,
            redactor,
            bodies,
            tools: Arc::new(ToolTable::new(vec![handoff])),
            recall_tools,
            answers,
            reminder: None,
            drafting: Arc::new(drafting),
            prompts,
            upstreams,
            sessions: Arc::new(Sessions::new(store, LIVE_CONVERSATIONS)),
            seals: seals.into(),
            clock: Clock::default(),
            events,
            journal: Recorder::off(),
            packets: DocumentWriter::off(),
            handler,
            spill,
            scans: KnownScans::new(),
            admission,
        })
    }

    /// Sets the journal's recorder.
    pub fn with_journal(self, journal: Recorder) -> Self {
        Self { journal, ..self }
    }

    /// Sets the writer of packets.
    pub fn with_packets(self, packets: DocumentWriter) -> Self {
        Self { packets, ..self }
    }

    /// Adds these tools behind `session_handoff`, and what answers their calls.
    pub fn with_tools(self, more: Vec<Tool>, answers: Arc<dyn CallAnswerer>) -> Self {
        let all: Vec<Tool> = self.tools.iter().cloned().chain(more).collect();
        let recall = self.recall_tools.get(RECALL_NAME).cloned();
        Self {
            tools: Arc::new(ToolTable::new(all.clone())),
            recall_tools: Arc::new(ToolTable::new(all.into_iter().chain(recall).collect())),
            answers,
            ..self
        }
    }

    /// Sets another clock.
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Sets what is put behind requests.
    pub fn with_reminder(self, reminder: Reminder) -> Self {
        Self {
            reminder: Some(reminder),
            ..self
        }
    }

    /// Our tools that a request is offered: behind a cut that was made with recall one more.
    pub(crate) fn tools_with(&self, recall: bool) -> &ToolTable {
        match recall {
            true => &self.recall_tools,
            false => &self.tools,
        }
    }

    /// Which turns of a request that was just read an earlier one had, and which are kept for later ones.
    pub(crate) fn shared_turns(&self, scan: &BodyScan, view: &View) -> SharedTurns {
        self.scans.share(scan, view)
    }

    /// Exchanges that could still be begun.
    pub fn free_exchanges(&self) -> usize {
        self.admission.free_places()
    }
}

/// The built-in texts, or in their place the files of this folder.
fn prompts(dir: Option<&Path>) -> io::Result<Prompts> {
    let Some(dir) = dir else {
        return Ok(Prompts::default());
    };
    let mut failed = None;
    let prompts = Prompts::with(|name| {
        let file = dir.join(name);
        match std::fs::read_to_string(&file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_dir() => None,
            Err(error) => {
                failed = Some(io::Error::new(
                    error.kind(),
                    format!("{}: {error}", file.display()),
                ));
                None
            }
        }
    });
    failed.map_or(Ok(prompts), Err)
}

fn recaller(config: &Config, redactor: &Redactor) -> Arc<dyn CallAnswerer> {
    let settings = RecallIndexSettings {
        tags: config.handoff.preamble_tags.clone(),
        redactor: redactor.clone(),
    };
    Arc::new(Recaller::new(settings, config.recall.index_bytes))
}

/// One agent request, without its body.
#[derive(Clone)]
pub struct RequestContext {
    /// Id of the exchange, as in `x-baton-exchange`.
    pub id: String,
    /// Name of the client, or `local`.
    pub principal: String,
    /// The upstream that it goes to.
    pub upstream: Arc<Upstream>,
    /// The wire, where it is known. It is, for every call that carries a transcript.
    pub wire: Option<WireId>,
    /// What the request asks for.
    pub endpoint: Endpoint,
    /// The agent's method.
    pub method: Method,
    /// Path and query, without `/u/NAME` and the proxy's own client key, as the agent wrote them.
    pub target: String,
    /// The agent's headers, all of them but those with the proxy's own client key.
    pub headers: HeaderMap,
    /// Records the exchange's event.
    pub recorder: ExchangeRecorder,
    /// Takes copies for the journal.
    pub recording: Recording,
    /// Gets the answer's end where it matters whether the agent has it.
    pub(crate) ends: ConnectionEnds,
}

impl RequestContext {
    /// The wire whose shape errors of our own take, and whose header the upstream's key goes into.
    pub fn shape(&self) -> WireId {
        self.wire.unwrap_or(WireId::OpenaiChat)
    }

    /// The agent's headers as they go to the upstream.
    pub fn onward(&self, sending: Sending) -> HeaderMap {
        headers::onward(
            &self.headers,
            &self.upstream.config,
            (self.shape(), &self.target),
            sending,
        )
    }

    /// An error of our own as the response.
    pub fn refuse(&self, fault: Fault) -> Response<ResponseBody> {
        refuse(&self.recorder, self.shape(), &fault)
    }
}

/// Answers one request. The response's body carries the recorder and the permit; dropping this future or the body
/// ends the exchange where it stands.
pub async fn handle(app: Arc<App>, request: Request<Incoming>) -> Response<ResponseBody> {
    let (mut parts, body) = request.into_parts();
    declared_windows::take_from_path(&mut parts);
    if welcome::is_for(&parts) && app.admission.knows_host(&parts) {
        return welcome::page(&parts, app.config.server.tls.is_some(), app.config.admin.listen);
    }
    let ends = parts.extensions.remove().unwrap_or_default();
    let body = MinRateBody::new(body, app.config.limits.body_rate);
    let id = uuid::Uuid::now_v7().to_string();
    let route = find_route(&app, &parts.uri, &parts.headers);
    let recorder = start_recorder(&app, &parts, &route, &id);
    let recording = app.journal.exchange(&id);
    let mut permit = app.admission.place();
    let shape = route.shape();
    let response = match app
        .admission
        .admit(&app.upstreams, &parts, route, permit.is_some())
    {
        Ok(Admitted {
            client,
            upstream,
            route,
        }) => {
            let ctx = RequestContext {
                id: id.clone(),
                principal: client.name.clone(),
                upstream,
                wire: route.wire,
                endpoint: route.endpoint,
                target: route.target,
                method: parts.method,
                headers: client.headers_without(parts.headers),
                recorder: recorder.clone(),
                recording: recording.clone(),
                ends,
            };
            // Its state is large, and of an allocation of both together less would be used again while answers
            // stream: 4 MiB at a thousand.
            Box::pin(answer(app, ctx, body)).await
        }
        Err(fault) => {
            // Nobody holds a place by what is not let in.
            permit = None;
            body::discard(&parts.headers, body).await;
            refuse(&recorder, shape, &fault)
        }
    };
    let (head, body) = response.into_parts();
    let mut response = match body.begun().await {
        Ok(body) => Response::from_parts(head, body),
        Err(fault) => refuse(&recorder, shape, &fault.into()),
    };
    if let Ok(id) = HeaderValue::try_from(id) {
        response
            .headers_mut()
            .insert(HeaderName::from_static("x-baton-exchange"), id);
    }
    // Known by the recorder, so that an answer which failed before its first byte, and was replaced, has it, too.
    let pinned = recorder.read(|e| e.pinned.clone()).flatten();
    if let Some(id) = pinned.and_then(|id| HeaderValue::try_from(id).ok()) {
        response
            .headers_mut()
            .insert(HeaderName::from_static("x-baton-handoff"), id);
    }
    if let Some(why) = recorder.read(|e| e.untooled).flatten() {
        response.headers_mut().insert(
            HeaderName::from_static("x-baton-untooled"),
            HeaderValue::from_static(why.name()),
        );
    }
    recorder.note(|e| e.status = response.status().as_u16());
    let shown = match recording.is_on() {
        true => recording.capture_shown(response.headers()),
        false => BodyCapture::default(),
    };
    response.map(|body| body.guarded(recorder, shown, permit))
}

/// Transcripts are read, everything else is relayed; so is what cannot be read.
async fn answer(app: Arc<App>, ctx: RequestContext, body: MinRateBody) -> Response<ResponseBody> {
    let unmodifiable = Unmodifiable::of(&ctx.target, &ctx.headers).filter(|_| ctx.method == Method::POST);
    if let Some(unmodifiable) = unmodifiable {
        unmodifiable.say(&ctx);
    }
    let asks = ctx.endpoint.carries_transcript() && ctx.method == Method::POST;
    let unread = match unmodifiable {
        Some(_) => Some(ToolOmission::Signed),
        None => (Coding::of(&ctx.headers) == Coding::Opaque).then_some(ToolOmission::UnreadCoding),
    };
    if !asks || unread.is_some() {
        ctx.recorder.note(|e| e.untooled = unread.filter(|_| asks));
        return Box::pin(stored_responses::run(&app, ctx, body)).await;
    }
    let reader = app.scans.reader(ctx.wire, app.journal.beginnings());
    let limit = app.config.limits.body_bytes;
    match body::collect(&ctx.headers, body, limit, &app.bodies, reader).await {
        Ok(collected) => {
            ctx.recorder.request_read(collected.body.len() as u64);
            (app.handler)(app, ctx, collected).await
        }
        Err(fault) => ctx.refuse(fault),
    }
}

fn find_route(app: &App, uri: &Uri, headers: &HeaderMap) -> Route {
    let root = PathAndQuery::from_static("/");
    let target = uri.path_and_query().unwrap_or(&root);
    route::find(target, headers, &app.config.upstreams)
}

fn start_recorder(app: &App, parts: &Parts, route: &Route, id: &str) -> ExchangeRecorder {
    let name = format!("{} {}", parts.method, app.redactor.path(parts.uri.path()));
    let recorder = ExchangeRecorder::start(id.to_owned(), name, route.upstream.clone(), app.events.clone());
    if route.endpoint.carries_transcript() {
        recorder.note(|e| {
            e.wire = route.wire;
            e.agent = sender::agent(&parts.headers);
            e.subscription = sender::is_on_subscription(&parts.headers, parts.uri.path());
        });
    }
    recorder
}

fn refuse(recorder: &ExchangeRecorder, shape: WireId, fault: &Fault) -> Response<ResponseBody> {
    tracing::warn!(code = fault.code.name, owner = ?fault.code.owner, detail = fault.detail, "refused");
    // An agent that broke off its own request is not told anything any more.
    let outcome = match fault.code {
        Code::BODY_BROKEN => ExchangeOutcome::Cancelled,
        _ => ExchangeOutcome::Refused,
    };
    recorder.decide(outcome);
    fault.response(shape)
}
