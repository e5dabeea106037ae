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
use crate::admin::readiness::{self, JournalPlace};
use crate::admin::{self, AdminState, Inspector};
use crate::app::App;
use crate::proxy::Gateway;
use crate::proxy::exchange_recorder::EventHook;
use crate::proxy::server::{self, Bound, GatewaySlot};
use crate::state::config::{Config, StoreRetention};
use crate::state::files::documents::{DocumentSettings, DocumentWriter};
use crate::state::instance;
use crate::state::journal::{self, Recorder};
use crate::state::prices::Prices;
use crate::state::store::SharedStore;
use crate::state::store::records::Retention;
use crate::state::store::seals::Seals;
use crate::state::telemetry::{ExchangeEvent, Metrics, Traces};

/// An event on its way to the log, the metrics, the journal and the traces. Dropping it delivers it, so that none is
/// lost with a cancelled task.
struct EndedExchange {
    event: ExchangeEvent,
    /// Whether the log is for machines.
    json: bool,
    metrics: Arc<Metrics>,
    journal: Recorder,
    traces: Traces,
}

impl Drop for EndedExchange {
    fn drop(&mut self) {
        match self.json {
            true => self.event.log(),
            false => self.event.log_line(),
        }
        self.metrics.record(&self.event);
        self.journal.end(&self.event);
        self.traces.record(&self.event);
    }
}

/// The HTTP side in front of these exchanges.
///
/// # Errors
/// TLS to the upstreams cannot be set up.
pub fn gateway(app: &Arc<App>, events: EventHook) -> io::Result<Gateway> {
    Gateway::new(reload::gateway_parts(app, events))
}

/// A bound data listener with all that its exchanges share.
struct DataListener {
    bound: Bound,
    app: Arc<App>,
    gateway: GatewaySlot,
    events: EventHook,
    reporter: JoinHandle<()>,
    documents: DocumentWriter,
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

impl DataListener {
    /// Prepares a client for each upstream, and the hook that logs and counts each exchange. Call it within the runtime.
    fn new(bound: Bound, mut app: App, metrics: &Arc<Metrics>, traces: Traces) -> io::Result<Self> {
        let counted = Arc::clone(metrics);
        let noted = app.journal.clone();
        // Events are reported by a task of their own: the last bytes of an answer do not wait for the log.
        let (events, mut queue) = mpsc::channel(EVENT_QUEUE);
        let reporter = tokio::spawn(async move {
            while let Some(event) = queue.recv().await {
                drop(event);
            }
        });
        let json = app.config.log.json;
        let on_end = move |event: ExchangeEvent| {
            let ended = EndedExchange {
                event,
                json,
                metrics: Arc::clone(&counted),
                journal: noted.clone(),
                traces: traces.clone(),
            };
            // If the queue is full or closed, the event is dropped here, which reports it.
            let _ = events.try_send(ended);
        };
        let store = Arc::clone(app.sessions.store());
        let documents = DocumentWriter::start(DocumentSettings::of(&app.config), store);
        let counted = documents.clone();
        metrics.count_documents_by(move || counted.counts());
        app.documents = documents.clone();
        let app = Arc::new(app);
        let events: EventHook = Arc::new(on_end);
        let gateway = gateway(&app, Arc::clone(&events))?;
        let gateway = server::slot(Arc::new(gateway));
        let (places, weak) = (app.config.limits.exchanges, Arc::downgrade(&gateway));
        metrics.count_open_by(move || {
            weak.upgrade().map_or(0, |gateway| {
                places.saturating_sub(gateway.load().free_exchanges())
            })
        });
        Ok(Self {
            bound,
            app,
            gateway,
            events,
            reporter,
            documents,
        })
    }

    /// Serves until `stop` is done, and all exchanges have ended and are reported, or the drain time is over.
    async fn run(self, stop: BoxFuture<'static, ()>) {
        self.bound.run(self.gateway, stop).await;
        // The queue's other senders.
        drop((self.app, self.events));
        // The queue closes with the last exchange.
        let _ = tokio::time::timeout(REPORT_TIME, self.reporter).await;
        self.documents.flush(DOCUMENTS_TIME).await;
    }
}

/// What a process serves with, opened and bound.
pub struct ServiceParts {
    /// With the ports that were picked.
    pub config: Config,
    pub metrics: Arc<Metrics>,
    pub prices: Prices,
    pub store: SharedStore,
    pub seals: Seals,
    /// The listener of agents.
    pub data: Bound,
    /// The listener of people and scrapers.
    pub admin: TcpListener,
}

/// The data listener, the admin listener, and what they share.
pub struct Service {
    data: DataListener,
    admin: AdminListener,
    store: SharedStore,
    keep: StoreRetention,
    journal: Recorder,
    traces: Traces,
    draining: Arc<AtomicBool>,
}

struct AdminListener {
    listener: TcpListener,
    state: Arc<AdminState>,
}

impl Service {
    /// Starts what the listeners share. Call it within the runtime.
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
        } = parts;
        let journal = open_journal(&config);
        let dropped = journal.clone();
        metrics.count_dropped_by(move || dropped.dropped());
        let instance = instance::name(data.addr());
        let traces = open_traces(&config, &instance, &metrics);
        let mut app = App::new(config.clone(), Arc::clone(&store), seals)?;
        app.journal = journal.clone();
        let data = DataListener::new(data, app, &metrics, traces.clone())?;
        let draining = Arc::new(AtomicBool::new(false));
        let journal_place = JournalPlace {
            enabled: config.journal.enabled,
            recorder: journal.clone(),
            dir: config.state_dir.clone(),
        };
        let inspector = Inspector {
            journal: journal.clone(),
            dir: config.state_dir.clone(),
            store: Arc::clone(&store),
            drafting: Arc::clone(&data.app.drafting),
            sessions: Arc::clone(&data.app.sessions),
            windows: config.handoff.windows.clone(),
            thresholds: config.handoff.thresholds,
            command_prefix: config.commands.prefix.clone(),
            prices,
            data_listener: Some(data.bound.addr()),
            instance,
            started: Instant::now(),
        };
        let state = Arc::new(AdminState {
            metrics,
            ready: readiness::of(Arc::clone(&store), journal_place, Arc::clone(&draining)),
            token: config.admin.token.clone(),
            inspector: Some(inspector),
        });
        Ok(Self {
            data,
            admin: AdminListener {
                listener: admin,
                state,
            },
            store,
            keep: config.store.keep,
            journal,
            traces,
            draining,
        })
    }

    /// What applies a changed config. `loaded`: the config of this service as it was loaded.
    pub fn reloader(&self, loaded: Config) -> Reloader {
        Reloader::new(
            Arc::clone(&self.data.gateway),
            self.data.bound.certificate(),
            Arc::clone(&self.data.events),
            Arc::clone(&self.data.app),
            loaded,
        )
    }

    /// The address of the data listener, with the port that was picked.
    pub fn addr(&self) -> SocketAddr {
        self.data.bound.addr()
    }

    /// Serves until `stop` is done and what is in progress has ended. Then calls `drained`, and writes what is pending.
    pub async fn run(self, stop: BoxFuture<'static, ()>, drained: impl FnOnce()) {
        // The admin listener stays open while streams drain, so that `/readyz` reports it.
        let (end, until_drained) = watch::channel(false);
        let AdminListener { listener, state } = self.admin;
        let admin = tokio::spawn(admin::serve(listener, state, Box::pin(is_true(until_drained))));
        let draining = self.draining;
        let stop = Box::pin(async move {
            stop.await;
            draining.store(true, Ordering::Relaxed);
        });
        let sweeper = tokio::spawn(sweep(self.store, self.keep));
        self.data.run(stop).await;
        sweeper.abort();
        drained();
        let _ = end.send(true);
        // Its responses are short, and all exchanges have ended.
        let _ = admin.await;
        self.traces.flush(TRACES_TIME).await;
        let journal = self.journal;
        let written = tokio::task::spawn_blocking(move || journal.flush(JOURNAL_TIME));
        let _ = written.await;
    }
}

/// Waits until the value is true or the sender is dropped.
pub async fn is_true(mut channel: watch::Receiver<bool>) {
    let _ = channel.wait_for(|value| *value).await;
}

/// Starts the journal, or none if it fails: the proxy does not depend on it.
fn open_journal(config: &Config) -> Recorder {
    let tags = &config.handoff.preamble_tags;
    journal::start(&config.journal, &config.state_dir, tags).unwrap_or_else(|error| {
        tracing::error!(%error, "the journal is off");
        Recorder::off()
    })
}

/// Starts the trace exporter, or none if it fails: the proxy does not depend on it.
fn open_traces(config: &Config, instance: &str, metrics: &Metrics) -> Traces {
    let Some(endpoint) = &config.telemetry.otlp_endpoint else {
        return Traces::off();
    };
    Traces::start(endpoint, instance.to_owned(), metrics).unwrap_or_else(|error| {
        tracing::error!(%error, "no traces are sent");
        Traces::off()
    })
}

/// Deletes unused records periodically.
async fn sweep(store: SharedStore, keep: StoreRetention) {
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
            Ok(records) => tracing::info!(records, "deleted records that no conversation has used for long"),
            Err(error) => tracing::warn!(%error, "the store could not be swept"),
        }
    }
}
