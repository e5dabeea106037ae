//! The `baton serve` command: opens the state and the listeners, prints their addresses, and shuts down gracefully.

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use clap::Args as ClapArgs;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::doctor::{self, config::open_listener};
use super::exit::{CliResult, CommandFailure, Exit};
use super::output::Out;
use super::reload::{self, LoadedConfig};
use super::running::{self, Process, StartedWith, StateDirLock, reachable};
use super::sharing;
use super::state_args::CONFIG_HELP;
use baton_core::marker::seal::{SealKey, SealKeys};
use baton_serve::proxy::certificate::Certificate;
use baton_serve::proxy::{descriptors, server};
use baton_serve::service::{Service, ServiceParts, is_true};
use baton_state::clock::now_ms;
use baton_state::config::{Config, Flags};
use baton_state::prices::Prices;
use baton_state::store::seals::Seals;
use baton_state::store::{self, SharedStore};
use baton_state::telemetry::{self, Metrics, ModelPricing};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton serve
  baton serve --listen 127.0.0.1:0 --state-dir /tmp/baton
  BATON_UPSTREAMS__ANTHROPIC__BASE_URL=https://gateway.example baton serve --config team.toml")]
pub(super) struct ServeArgs {
    #[arg(long, value_name = "FILE", help = CONFIG_HELP)]
    config: Option<PathBuf>,
    /// Listen on this address for agents [server.listen]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Listen on this address for the inspector and its API [admin.listen]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Keep the store and the seal key in this directory [state.dir]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
    /// Log at this level: off, error, warn, info, debug or trace [log.level]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Serve for `baton run` (stop with the last agent, and pick a free port if the configured one is in use)
    #[arg(long, hide = true)]
    for_agents: bool,
}

pub(super) fn run(args: &ServeArgs, out: &mut Out) -> CliResult {
    let flags = Flags {
        listen: args.listen.clone(),
        admin: args.admin.clone(),
        state_dir: args.state_dir.clone(),
        log_level: args.log_level.clone(),
        needed_secrets: None,
    };
    let loaded = LoadedConfig::new(args.config.clone(), flags)?;
    let mut config = loaded.config.clone();
    if args.for_agents {
        sharing::detach();
        config.server.drain = config.server.drain.min(sharing::DRAIN);
    }
    telemetry::start(&config.log).map_err(|error| Exit::SOFTWARE.failure(error))?;
    reload::log_refused_clients(&config);
    // Limits above the process's file descriptors would fail only under load.
    descriptors::fit(&mut config, descriptors::raise());
    let runtime = tokio::runtime::Runtime::new();
    let runtime = runtime.map_err(|error| Exit::SOFTWARE.failure(error.to_string()))?;
    let ended = runtime.block_on(serve(config, loaded, args.for_agents, out));
    // Blocked threads are not waited for: everything that must be written has had its time.
    runtime.shutdown_timeout(MAX_REST);
    ended
}

/// Time for blocking work that continues after everything has been flushed.
const MAX_REST: Duration = Duration::from_secs(1);

/// Time after the drain for everything to be written.
const MAX_FLUSH: Duration = Duration::from_secs(30);

/// Prices for the cost metrics.
fn pricing(config: &Config, table: Prices) -> ModelPricing {
    let hosts = config.upstreams.iter();
    let hosts = hosts.map(|(name, upstream)| (name.clone(), upstream.host()));
    ModelPricing {
        table,
        hosts: hosts.collect(),
    }
}

/// Serves until stopped. `loaded` is the config before limits were fitted and ports were picked.
async fn serve(mut config: Config, loaded: LoadedConfig, for_agents: bool, out: &mut Out) -> CliResult {
    // Installed before anything is printed: a reader of the lines may send a signal at once.
    let stop = stop_on_signal(config.server.drain)?;
    let prices = super::prices(config.bill.prices.as_deref())?;
    let metrics = Arc::new(Metrics::priced(pricing(&config, prices.clone())));
    let (store, seals) = open_state(&config)?;
    refuse_unfit(&store).await?;
    let (data, admin) = listen(&mut config, for_agents).await?;
    let certificate = Certificate::configured(config.admin.at.tls());
    let admin_certificate =
        certificate.map_err(|error| cannot_listen(&error, &config, config.admin.at.listen, ADMIN_NAMES))?;
    // The bound port, because browsers on the data listener are shown this address.
    config.admin.at.listen = admin.local_addr()?;
    let service = Service::new(ServiceParts {
        config: config.clone(),
        metrics,
        prices,
        store,
        seals,
        data,
        admin,
        admin_certificate,
    });
    let service = service.map_err(|error| Exit::SOFTWARE.failure(error.to_string()))?;
    let claim = announce(&config, service.addr(), loaded.started_with(), for_agents, out)?;
    let reloader = service.reloader(loaded.config.clone());
    let reloading = tokio::spawn(loaded.watch(reloader));
    let dir = for_agents.then(|| config.state_dir.clone());
    let stop = Box::pin(async move {
        stopped(stop, dir).await;
        reloading.abort();
    });
    service.run(stop, Box::new(|| drop(claim))).await;
    Ok(())
}

/// Config key and option of the admin listener's address.
const ADMIN_NAMES: [&str; 2] = ["admin.listen", "--admin"];

/// Binds both listeners. With `any_port`, a listener whose port is in use gets a free one.
async fn listen(config: &mut Config, any_port: bool) -> CliResult<(server::Bound, TcpListener)> {
    let taken = |error: &io::Error| any_port && error.kind() == io::ErrorKind::AddrInUse;
    let mut bound = server::bind(config);
    if bound.as_ref().is_err_and(taken) {
        config.server.at.listen.set_port(0);
        bound = server::bind(config);
    }
    let (data, names) = (config.server.at.listen, ["server.listen", "--listen"]);
    let bound = bound.map_err(|error| cannot_listen(&error, config, data, names))?;
    let admin = config.admin.at.listen;
    let listener = running::listen(admin, any_port).await;
    let listener = listener.map_err(|error| cannot_listen(&error, config, admin, ADMIN_NAMES))?;
    Ok((bound, listener))
}

/// Registers this process in the state directory, and prints the addresses of its listeners.
///
/// `config` must hold the bound address of the admin listener.
fn announce(
    config: &Config,
    data: SocketAddr,
    started_with: StartedWith,
    for_agents: bool,
    out: &mut Out,
) -> CliResult<Option<StateDirLock>> {
    let admin = config.admin.at.listen;
    let here = running::url(config, reachable(data));
    let claim = claim(
        config,
        &here,
        running::admin_url(config, reachable(admin)),
        started_with,
        for_agents,
    );
    // Runs find a shared proxy through its claim. A `baton serve` also works without one.
    if for_agents && claim.is_none() {
        let message = "another proxy serves from this state directory";
        return Err(Exit::UNAVAILABLE.failure(message));
    }
    if let Some(warning) = open_listener(config, data) {
        // For users who do not look at the proxy's log.
        let _ = Out::stderr().line(warning);
    }
    out.line(format_args!("listening on {}", running::url(config, data)))?;
    out.line(format_args!("admin on {}", running::admin_url(config, admin)))?;
    // Ignored: a program that reads the lines may have closed the pipe.
    let _ = out.line(format_args!("ANTHROPIC_BASE_URL={here} claude"));
    Ok(claim)
}

/// Waits for a signal to stop.
///
/// For a proxy that `baton run` started, takes its state directory, and returns when no agent is left either.
async fn stopped(signal: watch::Receiver<bool>, for_agents: Option<PathBuf>) {
    match for_agents {
        Some(dir) => tokio::select! { () = is_true(signal) => {}, () = sharing::unused(&dir) => {} },
        None => is_true(signal).await,
    }
}

/// Registers this process in the state directory. Only logs a failure.
fn claim(
    config: &Config,
    data: &str,
    admin: String,
    started_with: StartedWith,
    started_by_run: bool,
) -> Option<StateDirLock> {
    let process = Process {
        pid: std::process::id(),
        data: data.to_owned(),
        admin,
        admin_certificate: config
            .admin
            .at
            .tls()
            .and_then(|(chain, _)| std::path::absolute(chain).ok()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_ms: now_ms(),
        started_by_run,
    };
    match StateDirLock::from_process(&config.state_dir, process, started_with) {
        Ok(Some(claim)) => return Some(claim),
        Ok(None) => tracing::warn!(
            target: "baton",
            dir = %config.state_dir.display(),
            "another process serves from this state directory; give each process its own"
        ),
        Err(error) => {
            tracing::warn!(target: "baton", %error, "failed to register this process; `baton doctor` will not find it");
        }
    }
    None
}

/// Opens the store and the seal keys concurrently: at the first start both wait for the disk.
fn open_state(config: &Config) -> CliResult<(SharedStore, Seals)> {
    if let Some(open) = store::open_to_others(&config.state_dir) {
        let path = open.display();
        tracing::warn!(target: "baton", %path, "other users of this machine may open it; close the state directory with `chmod 700`");
    }
    thread::scope(|scope| {
        let seals = scope.spawn(|| seals(config));
        let store = store::open(&config.store, &config.state_dir).map_err(|error| {
            let message = format!("failed to open the store: {}", error.message);
            let other = || "choose another directory with --state-dir or `state.dir`".to_owned();
            Exit::CANNOT_CREATE.with_help(message, error.help.unwrap_or_else(other))
        });
        let seals = seals.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok((store?, seals?))
    })
}

/// Refuses a store server whose settings lose handoffs.
///
/// A server that is offline may come back, and `/readyz` reports it.
async fn refuse_unfit(store: &SharedStore) -> CliResult {
    match store.settings_problem().await {
        Ok(None) => Ok(()),
        Ok(Some(why)) => {
            let message = format!("the store's server is not suitable for handoffs: {why}");
            Err(Exit::CONFIG.with_help(message, "see `store.durability`"))
        }
        Err(error) => {
            tracing::error!(%error, "failed to reach the store; serving without it until it is available");
            Ok(())
        }
    }
}

/// Returns the configured seal keys, else those in their directory.
fn seals(config: &Config) -> CliResult<Seals> {
    let given = config.handoff.seal_keys.iter();
    let mut given = given.map(|key| SealKey::new(key.reveal().as_bytes()));
    if let Some(newest) = given.next() {
        return Ok(SealKeys::new(newest, given.collect()).into());
    }
    Seals::of_dir(config.seal_key_dir()).map_err(|error| {
        let message = format!("failed to load the seal keys: {}", error.message);
        Exit::CANNOT_CREATE.with_help(
            message,
            error.help.unwrap_or_else(|| doctor::OTHER_KEYS.to_owned()),
        )
    })
}

/// Failure to open a listener. Names the config key and the option of its address.
fn cannot_listen(
    error: &io::Error,
    config: &Config,
    address: SocketAddr,
    [key, flag]: [&str; 2],
) -> CommandFailure {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let message = format!("{address} is in use by {}", holder(address, config));
            let help = format!(
                "stop that one, or choose another address with {flag} or `{key}`; port 0 picks a free one"
            );
            Exit::UNAVAILABLE.with_help(message, help)
        }
        // The certificate files can be read, but their content is invalid.
        io::ErrorKind::InvalidData => {
            let section = key.trim_end_matches(".listen");
            let help = format!("fix `{section}.tls_cert` and `{section}.tls_key`");
            Exit::CONFIG.with_help(error.to_string(), help)
        }
        _ => {
            let help = format!("choose another address with {flag} or `{key}`");
            Exit::UNAVAILABLE.with_help(format!("failed to listen on {address}: {error}"), help)
        }
    }
}

/// Describes who listens on an address, as far as the state directory shows.
fn holder(address: SocketAddr, config: &Config) -> String {
    let here = "the proxy that serves from this state directory";
    match running::serving_at(&config.state_dir, address) {
        Some(Process {
            pid,
            started_by_run: true,
            ..
        }) => {
            format!("{here} (process {pid}, started by `baton run`)")
        }
        Some(Process { pid, .. }) => format!("{here} (process {pid})"),
        None => "another program".to_owned(),
    }
}

/// Returns a flag that becomes true at the first stop signal. A second signal exits the process at once, and
/// so does a shutdown that hangs.
///
/// A thread waits for signals, so that nothing that hangs in the proxy can delay them.
fn stop_on_signal(drain: Duration) -> CliResult<watch::Receiver<bool>> {
    let cannot = |error: io::Error| Exit::SOFTWARE.failure(error.to_string());
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(cannot)?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::listen()?
    };
    let (stop, stopped) = watch::channel(false);
    let wait = async move {
        signals.next().await;
        tracing::info!(target: "baton", "stopping: waiting for open streams to end; another signal stops at once");
        let _ = stop.send(true);
        let next = tokio::time::timeout(drain + MAX_FLUSH, signals.next());
        if next.await.is_err() {
            tracing::error!(target: "baton", "failed to shut down in time; exiting without flushing pending writes");
        }
        // Not a return, because the thread that serves may hang.
        std::process::exit(INTERRUPTED);
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || runtime.block_on(wait)).map_err(cannot)?;
    Ok(stopped)
}

/// Exit code after a second Ctrl-C, as shells report it.
const INTERRUPTED: i32 = 130;

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangups: reload::Hangups,
}

impl Signals {
    fn listen() -> CliResult<Self> {
        let listen = |kind| signal(kind).map_err(|error| Exit::SOFTWARE.failure(error.to_string()));
        // With a handler, a write beyond `ulimit -f` fails like one on a full disk. Otherwise it kills the process.
        drop(listen(SignalKind::from_raw(
            rustix::process::Signal::XFSZ.as_raw(),
        ))?);
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
