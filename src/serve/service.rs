//! Composition root of a serving process.

pub mod reload;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::reload::Reloader;
use crate::admin::{self, AdminState, readiness};
use crate::app::App;
use crate::proxy::certificate::Certificate;
use crate::proxy::exchange_recorder::EventHook;
use crate::proxy::server::{self, Bound, GatewaySlot};
use crate::proxy::{Gateway, turn};
use crate::state::config::Config;
use crate::state::files::documents::{self, DocumentSettings, DocumentWriter};
use crate::state::files::yaml_files::HandoffDirectory;
use crate::state::instance;
use crate::state::journal::{self, Recorder};
use crate::state::prices::Prices;
use crate::state::store::SharedStore;
use crate::state::store::records::Retention;
use crate::state::store::seals::Seals;
use crate::state::telemetry::{self, ExchangeEvent, Metrics, ScrapedCounts, Traces};

/// Event on its way to the log, the metrics, the journal and the traces.
///
/// Dropping it delivers it, so that none is lost with a cancelled task.
struct EndedExchange {
    /// `None` once it is delivered.
    event: Option<Box<ExchangeEvent>>,
    /// Whether the log is in JSON, for machines.
    json: bool,
    metrics: Arc<Metrics>,
    journal: Recorder,
    traces: Traces,
}

impl Drop for EndedExchange {
    fn drop(&mut self) {
        let Some(event) = self.event.take() else { return };
        match self.json {
            true => event.log(),
            false => event.log_line(),
        }
        self.metrics.record(&event);
        self.traces.record(&event);
        // Requests without a client's key are not recorded: anybody could push those of clients out of the journal.
        if !event.facts.refused_key {
            self.journal.end(event);
        }
    }
}

/// Creates the HTTP side of these exchanges.
///
/// # Errors
/// TLS to the upstreams cannot be set up.
pub fn gateway(app: &Arc<App>, events: EventHook) -> io::Result<Gateway> {
    Gateway::new(reload::gateway_parts(app, events))
}

/// Capacity of the event queue.
const EVENT_QUEUE: usize = 4096;

/// Delay of the first sweep, so that the first requests do not wait for it.
const FIRST_SWEEP: Duration = Duration::from_secs(60);

/// Interval of sweeps.
const SWEEP_EVERY: Duration = Duration::from_secs(6 * 60 * 60);

/// Timeout for writing pending journal notes at shutdown.
const JOURNAL_TIME: Duration = Duration::from_secs(5);

/// Timeout for sending the last spans at shutdown.
const TRACES_TIME: Duration = Duration::from_secs(3);

/// Timeout for reporting the last events at shutdown.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// Timeout for writing the last documents at shutdown.
const DOCUMENTS_TIME: Duration = Duration::from_secs(5);

/// Opened and bound parts of a serving process.
pub struct ServiceParts {
    /// Config with the ports that the system picked.
    pub config: Config,
    pub metrics: Arc<Metrics>,
    pub prices: Prices,
    pub store: SharedStore,
    pub seals: Seals,
    /// Listener for agents.
    pub data: Bound,
    /// Listener for users and scrapers.
    pub admin: TcpListener,
    /// Certificate of the admin listener, if it speaks HTTPS.
    pub admin_certificate: Option<Certificate>,
}

/// The data listener, the admin listener, and their shared state.
pub struct Service {
    data: Bound,
    app: Arc<App>,
    gateway: GatewaySlot,
    events: EventHook,
    reporter: JoinHandle<()>,
    documents: DocumentWriter,
    admin: TcpListener,
    admin_certificate: Option<Certificate>,
    state: Arc<AdminState>,
    traces: Traces,
    draining: Arc<AtomicBool>,
    refused: Arc<AtomicBool>,
}

impl Service {
    /// Starts the shared parts and prepares a client for each upstream. Call it inside the runtime.
    ///
    /// # Errors
    /// TLS to the upstreams cannot be set up.
    pub fn new(parts: ServiceParts) -> io::Result<Self> {
        let ServiceParts {
            config,
            metrics,
            prices,
            store,
            seals,
            data,
            admin,
            admin_certificate,
        } = parts;
        let journal = open_journal(&config);
        let instance = instance::name(data.addr());
        let traces = open_traces(&config, &instance, &metrics);
        let documents = DocumentWriter::start(DocumentSettings::from_config(&config), Arc::clone(&store));
        let mut app = App::new(config, Arc::clone(&store), seals)?;
        app.journal = journal.clone();
        app.documents = documents.clone();
        let app = Arc::new(app);
        let (events, reporter) = reported(&app, &metrics, traces.clone());
        let gateway = server::slot(Arc::new(gateway(&app, Arc::clone(&events))?));
        let permits = app.config.limits.max_concurrent_requests;
        // Weak, because the metrics must not keep the gateway alive.
        let serving = Arc::downgrade(&gateway);
        let (dropped, written) = (journal.clone(), documents.clone());
        metrics.count_by(move || {
            let gateway = serving.upgrade().map(|gateway| gateway.load_full());
            let free = gateway
                .as_ref()
                .map_or(permits, |gateway| gateway.free_exchanges());
            ScrapedCounts {
                open: permits.saturating_sub(free),
                waiting: gateway.map_or(0, |gateway| gateway.waiting_exchanges()),
                dropped: dropped.dropped(),
                documents: written.counts(),
            }
        });
        let draining = Arc::new(AtomicBool::new(false));
        let refused = Arc::new(AtomicBool::new(false));
        let flags = [&draining, &refused].map(Arc::clone);
        let config = Arc::clone(&app.config);
        let ready = readiness::of(Arc::clone(&store), journal.clone(), config, flags);
        let state = Arc::new(AdminState {
            metrics,
            ready,
            config: Arc::clone(&app.config),
            journal,
            store,
            drafting: Arc::clone(&app.drafting),
            sessions: Arc::clone(&app.sessions),
            prices,
            data_listener: Some(data.addr()),
            instance,
            started: Instant::now(),
        });
        Ok(Self {
            data,
            app,
            gateway,
            events,
            reporter,
            documents,
            admin,
            admin_certificate,
            state,
            traces,
            draining,
            refused,
        })
    }

    /// Creates the reloader of this service. `loaded` is the service's config as it was loaded.
    pub fn reloader(&self, loaded: Config) -> Reloader {
        Reloader::new(
            Arc::clone(&self.gateway),
            [self.data.certificate(), self.admin_certificate.clone()],
            Arc::clone(&self.events),
            Arc::clone(&self.refused),
            Arc::clone(&self.app),
            loaded,
        )
    }

    /// Address of the data listener, with the port that the system picked.
    pub fn addr(&self) -> SocketAddr {
        self.data.addr()
    }

    /// Serves until `stop` resolves, then drains.
    ///
    /// Calls `drained` when all exchanges have ended and are reported, or when the drain time is over.
    /// Pending spans and journal notes are written after that.
    // Boxed, so that only this crate compiles the future.
    pub fn run(
        self,
        stop: BoxFuture<'static, ()>,
        drained: Box<dyn FnOnce() + Send>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.run_until(stop, drained))
    }

    async fn run_until(self, stop: BoxFuture<'static, ()>, drained: Box<dyn FnOnce() + Send>) {
        // Checked once before any probe, so that a later failure of the store counts as degraded, not as never reached.
        let ready = Arc::clone(&self.state.ready);
        tokio::spawn(async move { ready().await });
        // The admin listener stays open while streams drain, so that `/readyz` reports it.
        let (end, until_drained) = watch::channel(false);
        let drained_now = Box::pin(is_true(until_drained));
        let admin = admin::serve(self.admin, self.admin_certificate, self.state, drained_now);
        let admin = tokio::spawn(admin);
        let draining = self.draining;
        let delay = self.app.config.server.stop_delay;
        let stop = Box::pin(async move {
            stop.await;
            draining.store(true, Ordering::Relaxed);
            // Balancers notice by `/readyz`, and meanwhile connections are still accepted.
            tokio::time::sleep(delay).await;
        });
        let store = Arc::clone(self.app.sessions.store());
        let sweeper = tokio::spawn(sweep(store, Arc::clone(&self.app.config)));
        let journal = self.app.journal.clone();
        let closing = Arc::clone(&self.app.closing);
        self.data.run(self.gateway, stop, closing).await;
        // The app and the hook hold the queue's other senders.
        drop((self.app, self.events));
        // The queue closes with the last exchange.
        let _ = tokio::time::timeout(REPORT_TIME, self.reporter).await;
        self.documents.flush(DOCUMENTS_TIME).await;
        sweeper.abort();
        drained();
        let _ = end.send(true);
        // Admin responses are short, and all exchanges have ended.
        let _ = admin.await;
        self.traces.flush(TRACES_TIME).await;
        let written = tokio::task::spawn_blocking(move || journal.flush(JOURNAL_TIME));
        let _ = written.await;
    }
}

/// Creates the hook for ended exchanges, and the task that logs and counts them while the log takes no lines.
///
/// Otherwise they are logged and counted at the end of the connection's turn: the last bytes of a response must not wait for
/// the log, and a task would wake another thread.
fn reported(app: &App, metrics: &Arc<Metrics>, traces: Traces) -> (EventHook, JoinHandle<()>) {
    let (events, mut queue) = mpsc::channel(EVENT_QUEUE);
    let reporter = tokio::spawn(async move {
        while let Some(event) = queue.recv().await {
            drop(event);
        }
    });
    let (json, metrics, journal) = (app.config.log.json, Arc::clone(metrics), app.journal.clone());
    let on_end = move |event: Box<ExchangeEvent>| {
        let ended = EndedExchange {
            event: Some(event),
            json,
            metrics: Arc::clone(&metrics),
            journal: journal.clone(),
            traces: traces.clone(),
        };
        let events = events.clone();
        // If the log takes lines, or the queue is full or closed, the event is dropped here, which reports it.
        turn::afterwards(move || {
            let _ = telemetry::may_write() || events.try_send(ended).is_ok();
        });
    };
    (Arc::new(on_end), reporter)
}

/// Waits until the value is true or the sender is dropped.
pub async fn is_true(mut channel: watch::Receiver<bool>) {
    let _ = channel.wait_for(|value| *value).await;
}

/// Starts the journal. If that fails it stays off, because the proxy does not depend on it.
fn open_journal(config: &Config) -> Recorder {
    let tags = &config.handoff.preamble_tags;
    journal::start(&config.journal, &config.state_dir, tags).unwrap_or_else(|error| {
        tracing::error!(%error, "failed to start the journal; the journal is off");
        Recorder::off()
    })
}

/// Starts the trace exporter. If that fails it stays off, because the proxy does not depend on it.
fn open_traces(config: &Config, instance: &str, metrics: &Metrics) -> Traces {
    let Some(endpoint) = &config.telemetry.otlp_endpoint else {
        return Traces::off();
    };
    Traces::start(endpoint, instance.to_owned(), metrics).unwrap_or_else(|error| {
        tracing::error!(%error, "failed to start the trace exporter; sending no traces");
        Traces::off()
    })
}

/// Deletes unused records, and the files of deleted handoffs, periodically.
async fn sweep(store: SharedStore, config: Arc<Config>) {
    let keep = config.store.keep;
    let mut due = tokio::time::interval_at(tokio::time::Instant::now() + FIRST_SWEEP, SWEEP_EVERY);
    loop {
        due.tick().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = |kept: Duration| u64::try_from(now.saturating_sub(kept).as_millis()).unwrap_or_default();
        let retention = Retention {
            conversations: before(keep.conversations),
            pairs: before(keep.pairs),
            places: before(keep.places),
            response_ids: before(keep.response_ids),
            handoffs: keep.handoffs.map(before),
        };
        match store.sweep(&retention).await {
            Ok(0) => {}
            Ok(records) => tracing::info!(records, "deleted unused records"),
            Err(error) => tracing::warn!(%error, "failed to sweep the store; trying again later"),
        }
        if let Some(before_ms) = retention.handoffs {
            sweep_files(&store, &config, before_ms).await;
        }
    }
}

/// Deletes the files of handoffs that the store has deleted.
async fn sweep_files(store: &SharedStore, config: &Config, before_ms: u64) {
    let swept = match HandoffDirectory::new(&config.handoffs_dir()) {
        Ok(directory) => documents::sweep_files(directory, store, before_ms).await,
        Err(error) => return tracing::warn!(%error, "failed to open the handoff files; none were deleted"),
    };
    match swept {
        Ok(0) => {}
        Ok(files) => tracing::info!(files, "deleted the files of old handoffs"),
        Err(error) => tracing::warn!(%error, "failed to delete old files; trying again later"),
    }
}
