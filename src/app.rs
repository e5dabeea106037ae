//! Composition root of the data listener.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::serve::exchange;
use crate::serve::proxy::App;
use crate::serve::proxy::server::Bound;
use crate::state::config::Config;
use crate::state::files::documents::{DocumentSettings, DocumentWriter};
use crate::state::jobs::drafts::DraftQueue;
use crate::state::journal::Recorder;
use crate::state::session::Sessions;
use crate::state::store::SharedStore;
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

/// A bound data listener with all that its exchanges share.
pub(crate) struct DataListener {
    bound: Bound,
    app: Arc<App>,
    reporter: JoinHandle<()>,
    documents: DocumentWriter,
}

/// Capacity of the event queue.
const EVENT_QUEUE: usize = 4096;

/// Timeout for reporting the last events at shutdown.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// Timeout for writing the last documents at shutdown.
const DOCUMENTS_TIME: Duration = Duration::from_secs(5);

impl DataListener {
    /// Prepares a client for each upstream, and the hook that logs and counts each exchange. Call it within the runtime.
    pub(crate) fn new(
        bound: Bound,
        config: &Config,
        metrics: &Arc<Metrics>,
        store: SharedStore,
        seals: Seals,
        journal: Recorder,
        traces: Traces,
    ) -> io::Result<Self> {
        let counted = Arc::clone(metrics);
        let noted = journal.clone();
        // Events are reported by a task of their own: the last bytes of an answer do not wait for the log.
        let (events, mut queue) = mpsc::channel(EVENT_QUEUE);
        let reporter = tokio::spawn(async move {
            while let Some(event) = queue.recv().await {
                drop(event);
            }
        });
        let json = config.log.json;
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
        let documents = DocumentWriter::start(DocumentSettings::of(config), Arc::clone(&store));
        let counted = documents.clone();
        metrics.count_documents_by(move || {
            let counts = counted.counts();
            [counts.written, counts.failed, counts.dropped]
        });
        let app = App::new(config.clone(), store, seals, Arc::new(on_end), exchange::handle)?
            .with_journal(journal)
            .with_packets(documents.clone());
        let app = Arc::new(app);
        let (places, weak) = (config.limits.exchanges, Arc::downgrade(&app));
        metrics.count_open_by(move || {
            weak.upgrade()
                .map_or(0, |app| places.saturating_sub(app.free_exchanges()))
        });
        Ok(Self {
            bound,
            app,
            reporter,
            documents,
        })
    }

    /// The drafts of its conversations.
    pub(crate) fn drafting(&self) -> Arc<DraftQueue> {
        Arc::clone(&self.app.drafting)
    }

    /// Its conversations.
    pub(crate) fn sessions(&self) -> Arc<Sessions> {
        Arc::clone(&self.app.sessions)
    }

    /// The address, with the port that was picked.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.bound.addr()
    }

    /// Serves until `stop` is done, and all exchanges have ended and are reported, or the drain time is over.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) {
        self.bound.run(self.app, stop).await;
        // The queue closes with the last exchange.
        let _ = tokio::time::timeout(REPORT_TIME, self.reporter).await;
        self.documents.flush(DOCUMENTS_TIME).await;
    }
}
