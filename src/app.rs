//! The seam to the rooms that the commands start: what an exchange needs, put together in one place.

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
use crate::state::files::documents::{PacketSettings, PacketWriter};
use crate::state::jobs::drafts::Drafting;
use crate::state::journal::Recorder;
use crate::state::session::Sessions;
use crate::state::store::SharedStore;
use crate::state::store::seals::Seals;
use crate::state::telemetry::{ExchangeEvent, Metrics, Traces};

/// An event on its way to the log, the counters, the journal and the traces. It gets there when it is dropped, so
/// that none is lost with a task that did not come to it.
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
    telling: JoinHandle<()>,
    packets: PacketWriter,
}

/// Ended exchanges that may wait to be told.
const UNTOLD: usize = 4096;

/// How long ended exchanges may take to be told when the process ends.
const TOLD_TIME: Duration = Duration::from_secs(1);

/// How long packets may take to be written when the process ends.
const PACKETS_TIME: Duration = Duration::from_secs(5);

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
        // The last handle of an exchange goes with its answer's last bytes: they leave first, and a task tells.
        let (tell, mut ended) = mpsc::channel(UNTOLD);
        let telling = tokio::spawn(async move {
            while let Some(told) = ended.recv().await {
                drop(told);
            }
        });
        let json = config.log.json;
        let on_end = move |event: ExchangeEvent| {
            let told = EndedExchange {
                event,
                json,
                metrics: Arc::clone(&counted),
                journal: noted.clone(),
                traces: traces.clone(),
            };
            // Where nobody takes it any more, or the log stands still, it is told here.
            let _ = tell.try_send(told);
        };
        let packets = PacketWriter::start(PacketSettings::of(config), Arc::clone(&store));
        let counted = packets.clone();
        metrics.count_packets_by(move || {
            let counts = counted.counts();
            [counts.written, counts.failed, counts.dropped]
        });
        let app = App::new(config.clone(), store, seals, Arc::new(on_end), exchange::handle)?
            .with_journal(journal)
            .with_packets(packets.clone());
        let app = Arc::new(app);
        let (all, asked) = (config.limits.exchanges, Arc::downgrade(&app));
        metrics.count_open_by(move || {
            asked
                .upgrade()
                .map_or(0, |app| all.saturating_sub(app.free_exchanges()))
        });
        Ok(Self {
            bound,
            app,
            telling,
            packets,
        })
    }

    /// The drafts of its conversations.
    pub(crate) fn drafting(&self) -> Arc<Drafting> {
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

    /// Serves until `stop` is done and what was under way has ended and is told, or the drain time is over.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) {
        self.bound.run(self.app, stop).await;
        // The last exchange lets go of the last way to tell.
        let _ = tokio::time::timeout(TOLD_TIME, self.telling).await;
        self.packets.flush(PACKETS_TIME).await;
    }
}
