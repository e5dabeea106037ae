//! `baton serve`: opens the state and the listeners, prints their addresses, and shuts down gracefully.

use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::args::ServeArgs;
use super::doctor::config::open_listener;
use super::exit::{CommandFailure, Exit};
use super::load_or_fail;
use super::output::Out;
use super::reload::{self, ConfigSource, FileVersion};
use super::running::{self, Process, StateDirLock, reachable};
use super::sharing;
use crate::app::{Service, ServiceParts, is_true};
use crate::serve::proxy::{descriptors, server};
use crate::state::clock::now_ms;
use crate::state::config::{Config, Flags};
use crate::state::store::seals::Seals;
use crate::state::store::{self, SharedStore};
use crate::state::telemetry::{self, Metrics, ModelPricing};
use baton_core::bill::PriceTable;
use baton_core::mark::seal::{SealKey, SealKeys};

pub(super) fn run(args: &ServeArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let flags = Flags {
        listen: args.listen.clone(),
        admin: args.admin.clone(),
        state_dir: args.state_dir.clone(),
        log_level: args.log_level.clone(),
    };
    let source = ConfigSource {
        given: args.config.clone(),
        flags,
    };
    let version = source.version();
    let mut config = load_or_fail(args.config.as_ref(), &source.flags)?;
    let loaded = config.clone();
    let versions = reload::versions(version, &loaded);
    if args.for_agents {
        sharing::detach();
        config.server.drain = config.server.drain.min(sharing::DRAIN);
    }
    telemetry::start(&config.log).map_err(|error| Exit::SOFTWARE.failure(error))?;
    descriptors::fit(&mut config, descriptors::raise());
    let runtime = tokio::runtime::Runtime::new();
    let runtime = runtime.map_err(|error| Exit::SOFTWARE.failure(error.to_string()))?;
    let start = ServeStart {
        config,
        loaded,
        versions,
        source,
        for_agents: args.for_agents,
    };
    runtime.block_on(serve(start, out))
}

/// The prices for the cost metrics.
fn pricing(config: &Config, table: Arc<PriceTable>) -> ModelPricing {
    let hosts = config.upstreams.iter();
    let hosts = hosts.map(|(name, upstream)| (name.clone(), upstream.host()));
    ModelPricing {
        table,
        hosts: hosts.collect(),
    }
}

/// The input for starting a proxy.
struct ServeStart {
    config: Config,
    /// The config before limits were fitted and ports were picked.
    loaded: Config,
    versions: Vec<FileVersion>,
    source: ConfigSource,
    for_agents: bool,
}

async fn serve(start: ServeStart, out: &mut Out) -> Result<(), CommandFailure> {
    let ServeStart {
        mut config,
        loaded,
        versions,
        source,
        for_agents,
    } = start;
    // Installed before anything is printed: a reader of the lines may send a signal at once.
    let stop = stop_on_signal()?;
    let prices = super::prices(config.bill.prices.as_deref())?;
    let metrics = Arc::new(Metrics::priced(pricing(&config, Arc::clone(&prices))));
    let (store, seals) = open_state(&config)?;
    refuse_unfit(&store).await?;
    let (data, admin) = listen(&mut config, for_agents).await?;
    // The bound port; shown to browsers on the data listener.
    config.admin.listen = admin.local_addr()?;
    let service = Service::new(ServiceParts {
        config: config.clone(),
        metrics,
        prices,
        store,
        seals,
        data,
        admin,
    });
    let service = service.map_err(|error| Exit::SOFTWARE.failure(error.to_string()))?;
    let claim = announce(&config, service.addr(), for_agents, out)?;
    let reloader = service.reloader(loaded.clone());
    let reloading = tokio::spawn(reload::watch(source, loaded, versions, reloader));
    let dir = for_agents.then(|| config.state_dir.clone());
    let stop = async move {
        stopped(stop, dir).await;
        reloading.abort();
    };
    service.run(stop, || drop(claim)).await;
    Ok(())
}

/// Binds both listeners. With `any_port`, a listener whose port is in use gets a free one.
async fn listen(config: &mut Config, any_port: bool) -> Result<(server::Bound, TcpListener), CommandFailure> {
    let taken = |error: &io::Error| any_port && error.kind() == io::ErrorKind::AddrInUse;
    let mut bound = server::bind(config);
    if bound.as_ref().is_err_and(taken) {
        config.server.listen.set_port(0);
        bound = server::bind(config);
    }
    let bound = bound.map_err(|error| cannot_listen(&error, config, &DATA))?;
    let mut listener = TcpListener::bind(config.admin.listen).await;
    if listener.as_ref().is_err_and(taken) {
        config.admin.listen.set_port(0);
        listener = TcpListener::bind(config.admin.listen).await;
    }
    let listener = listener.map_err(|error| cannot_listen(&error, config, &ADMIN))?;
    Ok((bound, listener))
}

/// Registers this process in the state directory, and prints where it listens. The address of the admin listener is the
/// config's.
fn announce(
    config: &Config,
    data: SocketAddr,
    for_agents: bool,
    out: &mut Out,
) -> Result<Option<StateDirLock>, CommandFailure> {
    let scheme = if config.server.tls().is_some() {
        "https"
    } else {
        "http"
    };
    let admin = config.admin.listen;
    let here = format!("{scheme}://{}", reachable(data));
    let claim = claim(config, &here, format!("http://{}", reachable(admin)), for_agents);
    if for_agents && claim.is_none() {
        let message = "another proxy serves from this state directory";
        return Err(Exit::UNAVAILABLE.failure(message));
    }
    if let Some(warning) = open_listener(config, data) {
        // Whoever starts a proxy without looking at its log should still see it.
        let _ = Out::stderr().line(warning);
    }
    out.line(format_args!("listening on {scheme}://{data}"))?;
    out.line(format_args!("admin on http://{admin}"))?;
    // A program that reads the lines may have closed the pipe.
    let _ = out.line(format_args!("ANTHROPIC_BASE_URL={here} claude"));
    Ok(claim)
}

/// Waits for a signal to stop. With the state directory of a proxy that `baton run` started, also until no agent is left.
async fn stopped(signal: watch::Receiver<bool>, for_agents: Option<PathBuf>) {
    match for_agents {
        Some(dir) => tokio::select! { () = is_true(signal) => {}, () = sharing::unused(&dir) => {} },
        None => is_true(signal).await,
    }
}

/// Registers this process in the state directory. A failure is logged only.
fn claim(config: &Config, data: &str, admin: String, started_by_run: bool) -> Option<StateDirLock> {
    let process = Process {
        pid: std::process::id(),
        data: data.to_owned(),
        admin,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_ms: now_ms(),
        started_by_run,
    };
    match StateDirLock::of(&config.state_dir, &process) {
        Ok(Some(claim)) => return Some(claim),
        Ok(None) => tracing::warn!(
            target: "baton",
            dir = %config.state_dir.display(),
            "another process serves from this state directory: give each its own"
        ),
        Err(error) => {
            tracing::warn!(target: "baton", %error, "`baton doctor` will not know of this process");
        }
    }
    None
}

/// Opens the store and the seal keys concurrently: at the first start both wait for the disk.
fn open_state(config: &Config) -> Result<(SharedStore, Seals), CommandFailure> {
    thread::scope(|scope| {
        let seals = scope.spawn(|| seals(config));
        let store = store::open(&config.store, &config.state_dir).map_err(|error| {
            let message = format!("the store cannot be opened: {error}");
            Exit::CANNOT_CREATE
                .failure(message)
                .help("choose another folder with --state-dir or `state.dir`")
        });
        let seals = seals.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok((store?, seals?))
    })
}

/// Refuses a server of the store whose settings lose handoffs. One that is offline may come back: `/readyz` reports it.
async fn refuse_unfit(store: &SharedStore) -> Result<(), CommandFailure> {
    match store.settings_problem().await {
        Ok(None) => Ok(()),
        Ok(Some(why)) => {
            let message = format!("the store's server is not suitable for handoffs: {why}");
            Err(Exit::CONFIG.failure(message).help("see `store.durability`"))
        }
        Err(error) => {
            tracing::error!(%error, "serving without the store until it is available");
            Ok(())
        }
    }
}

/// The seal keys: the config's, else those of their folder.
fn seals(config: &Config) -> Result<Seals, CommandFailure> {
    let given = config.handoff.seal_keys.iter();
    let mut given = given.map(|key| SealKey::new(key.reveal().as_bytes()));
    if let Some(newest) = given.next() {
        return Ok(SealKeys::new(newest, given.collect()).into());
    }
    Seals::of_dir(config.seal_key_dir()).map_err(|error| {
        Exit::CANNOT_CREATE.failure(format!("the seal keys cannot be loaded: {error}"),
        )
        .help("choose another folder with `handoff.seal_key_dir`, --state-dir or `state.dir`, or give `handoff.seal_key`")
    })
}

/// Advice for a listener that cannot be opened.
struct Listener {
    key: &'static str,
    flag: &'static str,
    address: fn(&Config) -> SocketAddr,
}

const DATA: Listener = Listener {
    key: "server.listen",
    flag: "--listen",
    address: |config| config.server.listen,
};

const ADMIN: Listener = Listener {
    key: "admin.listen",
    flag: "--admin",
    address: |config| config.admin.listen,
};

fn cannot_listen(error: &io::Error, config: &Config, listener: &Listener) -> CommandFailure {
    let address = (listener.address)(config);
    let (key, flag) = (listener.key, listener.flag);
    match error.kind() {
        io::ErrorKind::AddrInUse => Exit::UNAVAILABLE
            .failure(format!("{address} is in use by {}", holder(address, config)))
            .help(format!(
                "stop that one, or choose another address with {flag} or `{key}`; port 0 picks a free one"
            )),
        // The contents of the certificate files.
        io::ErrorKind::InvalidData => Exit::CONFIG
            .failure(error.to_string())
            .help("fix `server.tls_cert` and `server.tls_key`"),
        _ => Exit::UNAVAILABLE
            .failure(format!("cannot listen on {address}: {error}"))
            .help(format!("choose another address with {flag} or `{key}`")),
    }
}

/// Who listens on an address, as far as the state directory shows.
fn holder(address: SocketAddr, config: &Config) -> String {
    match running::serving_at(&config.state_dir, address) {
        Some(process) => {
            let by = if process.started_by_run {
                ", started by `baton run`"
            } else {
                ""
            };
            format!(
                "the proxy that serves from this state directory (process {}{by})",
                process.pid
            )
        }
        None => "another program".to_owned(),
    }
}

/// Becomes true at the first stop signal. The second one ends the process at once.
fn stop_on_signal() -> Result<watch::Receiver<bool>, CommandFailure> {
    let mut signals = Signals::listen()?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!(target: "baton", "stopping: waiting for open streams to end; another signal stops at once");
        let _ = stop.send(true);
        signals.next().await;
        std::process::exit(INTERRUPTED);
    });
    Ok(stopped)
}

/// Exit code after a second Ctrl-C, as shells report it.
const INTERRUPTED: i32 = 130;

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangups: reload::Hangups,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> Result<Self, CommandFailure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(|error| Exit::SOFTWARE.failure(error.to_string()));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangups: reload::Hangups::listen(),
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = self.hangups.closed() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> Result<Self, CommandFailure> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // Without a console there is no Ctrl-C to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
