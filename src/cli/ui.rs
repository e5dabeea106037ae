//! The `baton ui` command: serves the inspector for a state directory, read-only and without a proxy.
//!
//! If a proxy is running, prints the address of its page instead.

use std::io::{self, IsTerminal};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;

use super::exit::{CliResult, Exit};
use super::output::{Out, visible};
use super::running::{self, RunState, reachable};
use super::state_args::StateArgs;
use super::{load_state, stored};
use baton_serve::admin::readiness::Report;
use baton_serve::admin::{self, AdminState};
use baton_serve::proxy::certificate::Certificate;
use baton_state::config::Config;
use baton_state::jobs::drafts::DraftQueue;
use baton_state::journal::Recorder;
use baton_state::session::Sessions;
use baton_state::telemetry::Metrics;
use baton_state::{prices, store};

/// Programs that open a page in the browser, by platform.
const OPENERS: [(&str, &[&str]); 3] = [
    ("macos", &["open"]),
    ("windows", &["cmd", "/C", "start"]),
    ("linux", &["xdg-open"]),
];

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
If a proxy is running from this state directory, prints the address of its page instead.

Examples:
  baton ui
  baton ui --no-browser --state-dir ~/copy-of-a-journal")]
pub(super) struct UiArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Print the page's address without opening a browser
    #[arg(long)]
    no_browser: bool,
}

pub(super) fn run(args: &UiArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &["store.url", "admin.token"])?;
    if let RunState::Running(Some(process)) = running::find(&config.state_dir) {
        out.line(format_args!(
            "a proxy is running; its page is {}",
            visible(&process.admin)
        ))?;
        open_browser(args, &process.admin);
        return Ok(());
    }
    stored::check_named(&args.state, &config.state_dir)?;
    let runtime = tokio::runtime::Runtime::new();
    let runtime = runtime.map_err(|error| Exit::SOFTWARE.failure(error.to_string()))?;
    runtime.block_on(serve(args, &config, out))
}

async fn serve(args: &UiArgs, config: &Config, out: &mut Out) -> CliResult {
    let state = read_only(config)?;
    let wanted = config.admin.at.listen;
    let listener = running::listen(wanted, true).await;
    let listener = listener
        .map_err(|error| Exit::UNAVAILABLE.failure(format!("failed to listen on {wanted}: {error}")))?;
    // A listener on all addresses has none that a browser can open.
    let page = running::admin_url(config, reachable(listener.local_addr()?));
    let certificate = Certificate::configured(config.admin.at.tls());
    let certificate = certificate.map_err(|error| Exit::CONFIG.failure(error.to_string()))?;
    out.line(format_args!("inspector on {page}, read-only; Ctrl-C stops it"))?;
    open_browser(args, &page);
    let stop = Box::pin(async {
        let _ = tokio::signal::ctrl_c().await;
    });
    admin::serve(listener, certificate, Arc::new(state), stop).await?;
    Ok(())
}

/// Creates the inspector's state from the files only.
fn read_only(config: &Config) -> CliResult<AdminState> {
    let store = store::open_for_reading(&config.store, &config.state_dir);
    let store = store.map_err(|error| Exit::UNAVAILABLE.failure(error.to_string()))?;
    let prices = prices::table(config.bill.prices.as_deref());
    Ok(AdminState {
        metrics: Arc::new(Metrics::new()),
        ready: Arc::new(|| Box::pin(async { Report::default() })),
        config: Arc::new(config.clone()),
        // Placeholders: without a proxy nothing is recorded, drafted or kept in memory.
        journal: Recorder::off(),
        drafting: Arc::new(DraftQueue::expiring_after(Duration::ZERO)),
        sessions: Arc::new(Sessions::new(Arc::clone(&store), 1)),
        store,
        prices: prices.map_err(|error| Exit::CONFIG.failure(error))?,
        data_listener: None,
        instance: String::new(),
        started: Instant::now(),
    })
}

/// Opens the page in a browser if a user is at a terminal.
///
/// A missing browser is not an error, because the address is printed anyway.
fn open_browser(args: &UiArgs, page: &str) {
    if args.no_browser || !io::stdout().is_terminal() {
        return;
    }
    let found = OPENERS
        .iter()
        .find(|(platform, _)| *platform == std::env::consts::OS);
    if let Some((_, [program, first @ ..])) = found {
        // Not waited for: some openers run as long as the browser does.
        let mut command = Command::new(program);
        let _ = command
            .args(first.iter())
            .arg(page)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}
