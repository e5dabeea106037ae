//! Rows of `baton doctor`. Each examines one part of an installation. None opens a file with an agent's credentials.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::config;
use super::finding::Finding;
use super::installation::{Installation, UpstreamProbe, damaged};
use crate::cli::agents::{self, AgentSetup};
use crate::cli::declared::{self, OwnUrl};
use crate::cli::output::{age, first_line, plural, size, unsent};
use crate::cli::run;
use crate::cli::running::{self, RunState};
use crate::cli::stored::DAMAGED_HELP;
use baton_core::brake::{BrakeOutcome, provider_limit};
use baton_core::record::PlanWindow;
use baton_core::text::units;
use baton_state::clock::now_ms;
use baton_state::config::{Config, Environment, Flags, StoreKind};
use baton_state::disk;
use baton_state::journal::ExchangeRow;
use baton_state::store::{self, seal_key, sqlite};

/// Name of the only check that runs with an invalid config.
pub(super) const CONFIG: &str = "config";

/// Name of a check, and its function.
type DoctorCheck = (&'static str, fn(&Installation) -> Vec<Finding>);

/// Checks of an installation with a valid config, in print order.
pub(super) const CHECKS: &[DoctorCheck] = &[
    (CONFIG, |installation| config::warnings(&installation.config)),
    ("proxy", proxy),
    ("ports", ports),
    ("store", store),
    ("keys", keys),
    ("journal", journal),
    ("upstreams", upstreams),
    ("agents", agents),
    ("sign-ins", sign_ins),
    ("budget", budget),
];

/// Checks that apply only to a user's machine, and that a server skips.
pub(super) const USERS_CHECKS: &[&str] = &["agents", "sign-ins"];

/// Reports whether a proxy serves, its addresses, and the failures that its `/readyz` names.
fn proxy(installation: &Installation) -> Vec<Finding> {
    let subject = "agents at";
    let process = match &installation.running {
        RunState::Running(Some(process)) => process,
        RunState::Running(None) => return vec![Finding::ok(subject, "a proxy is starting")],
        RunState::Stale(process) => {
            let pid = process.pid;
            let message = format!(
                "not running; the last proxy (process {pid}) was killed, and what it had not written is lost"
            );
            let help = "start `baton serve`; ignore this if the kill was intended";
            return vec![Finding::warning(subject, message, help)];
        }
        RunState::Nobody => {
            let listen = installation.config.server.at.listen;
            let message = format!("not running; `baton serve` would listen at {listen}");
            return vec![Finding::ok(subject, message)];
        }
    };
    let (pid, version) = (process.pid, &process.version);
    let started = ago(process.started_ms);
    let about = format!("process {pid}, version {version}, started {started}");
    let mut findings = vec![
        Finding::ok(subject, format!("{} ({about})", process.data)),
        Finding::ok("inspector", &process.admin),
    ];
    match running::failed_checks(process) {
        Err(why) => {
            let help = "find out whether the proxy hangs; see its log";
            findings.push(Finding::error("readyz", why, help));
        }
        Ok(failed) if failed.is_empty() => findings.push(Finding::ok("readyz", "the proxy is ready")),
        Ok(failed) => findings.extend(failed.into_iter().map(|(name, is_required)| {
            let message = "the running proxy reports that it fails";
            let help = "its log has the reason";
            match is_required {
                true => Finding::error(name, message, help),
                false => Finding::warning(name, message, help),
            }
        })),
    }
    findings
}

fn ago(then_ms: u64) -> String {
    units::ago(now_ms().saturating_sub(then_ms) / 1000)
}

/// Reports whether the address of each listener is free, or in use by this proxy.
fn ports(installation: &Installation) -> Vec<Finding> {
    let config = &installation.config;
    let rows = [
        ("server.listen", config.server.at.listen),
        ("admin.listen", config.admin.at.listen),
    ];
    rows.map(|(key, address)| port(key, address, &config.state_dir))
        .into()
}

fn port(key: &str, address: SocketAddr, state_dir: &Path) -> Finding {
    if address.port() == 0 {
        return Finding::ok(key, "a free port is picked at start");
    }
    if let Some(process) = running::serving_at(state_dir, address) {
        let pid = process.pid;
        return Finding::ok(key, format!("{address} is in use by baton (process {pid})"));
    }
    // Binding is the only reliable test. The port is released at once.
    let why = match TcpListener::bind(address) {
        Ok(_) => return Finding::ok(key, format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            "it is in use by another program, or by a baton with another state directory".to_owned()
        }
        Err(error) => error.to_string(),
    };
    let help = format!("stop the other program, or choose another address with `{key}`");
    Finding::error(key, format!("failed to listen on {address}: {why}"), help)
}

/// Reports whether the store can be opened and written, and whether it is closed to other users.
fn store(installation: &Installation) -> Vec<Finding> {
    let config = &installation.config;
    match config.store.kind {
        StoreKind::Memory => {
            let message = "the store is in memory, so handoffs are lost when the proxy stops";
            let help = "set `store.kind = \"sqlite\"`, unless that is intended";
            vec![Finding::warning("store.kind", message, help)]
        }
        StoreKind::Redis => config::store_server(config).into_iter().collect(),
        StoreKind::Sqlite => {
            let mut findings = vec![store_file(installation)];
            findings.extend(open_to_others(&config.state_dir));
            findings
        }
    }
}

fn store_file(installation: &Installation) -> Finding {
    let path = installation.config.state_dir.join(sqlite::FILE);
    let subject = path.display().to_string();
    if !path.exists() {
        return missing(
            subject,
            &installation.config.state_dir,
            "choose another `state.dir`",
        );
    }
    // Opening for append tests the permission and changes nothing.
    let opened = disk::open_named(&path).and_then(|_| OpenOptions::new().append(true).open(&path));
    if let Err(error) = opened {
        let help = "give its owner write permission, or choose another `state.dir`";
        return Finding::error(subject, format!("cannot be written: {error}"), help);
    }
    let damaged = damaged(&installation.config);
    match installation
        .handoffs
        .as_ref()
        .and_then(|found| Ok((found, damaged.as_ref()?)))
    {
        Ok((handoffs, damaged)) => {
            let last = handoffs.first().map_or_else(String::new, |last| {
                let title = first_line(&crate::cli::handoffs::named(last), Some(60));
                format!("; the last {}: {}  {title}", ago(last.created_ms), last.id)
            });
            let count = plural(handoffs.len() as u64, "handoff");
            let message = format!("can be opened, {count}{last}");
            match damaged {
                0 => Finding::ok(subject, message),
                damaged => {
                    let damaged = plural(*damaged as u64, "record");
                    let message = format!("{message}; {damaged} damaged, named by `baton store check`");
                    Finding::warning(subject, message, DAMAGED_HELP)
                }
            }
        }
        Err(error) => {
            let other =
                || "restore a backup (`baton store copy --from`), or choose another `state.dir`".to_owned();
            Finding::error(subject, &error.message, error.help.clone().unwrap_or_else(other))
        }
    }
}

/// Reports on a file that does not exist: whether a start can create it in `dir`.
fn missing(subject: String, dir: &Path, help: &str) -> Finding {
    match disk::check_writable(dir) {
        Ok(()) => Finding::ok(subject, "does not exist yet; the first start creates it"),
        Err(error) => Finding::error(subject, format!("cannot be created there: {error}"), help),
    }
}

/// Remedy for seal keys that cannot be read or created.
pub(in crate::cli) const OTHER_KEYS: &str = "choose another directory with `handoff.seal_key_dir`, --state-dir or `state.dir`, or give `handoff.seal_key`";

/// Reports whether the seal keys can be read. Without them no proxy starts.
fn keys(installation: &Installation) -> Vec<Finding> {
    let config = &installation.config;
    if !config.handoff.seal_keys.is_empty() {
        return vec![Finding::ok("handoff.seal_key", "given in the config")];
    }
    let directory = config.seal_key_dir();
    let subject = directory.join(seal_key::FILE).display().to_string();
    vec![match seal_key::load(directory) {
        Ok(Some(keys)) => Finding::ok(
            subject,
            format!("can be read, {}", plural(keys.all().count() as u64, "key")),
        ),
        Ok(None) => missing(subject, directory, OTHER_KEYS),
        Err(error) => {
            let help = error.help.unwrap_or_else(|| OTHER_KEYS.to_owned());
            Finding::error(subject, error.message, help)
        }
    }]
}

/// Warns of files with transcripts or keys that other users may read.
fn open_to_others(state_dir: &Path) -> Option<Finding> {
    let is_open = |path: &Path| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
    // A closed directory protects its files, whatever their modes.
    if !is_open(state_dir) {
        return None;
    }
    let help = format!("chmod 700 {}", state_dir.display());
    // Whoever may write into it can replace its files.
    if fs::metadata(state_dir).is_ok_and(|found| found.permissions().mode() & 0o022 != 0) {
        let message = "other users of this machine may replace its files";
        return Some(Finding::warning(state_dir.display().to_string(), message, help));
    }
    let open = store::open_to_others(state_dir)?;
    let subject = open.display().to_string();
    let message = "other users of this machine may open it";
    Some(Finding::warning(subject, message, help))
}

/// Reports whether the journal can be read, and whether a running proxy writes it.
fn journal(installation: &Installation) -> Vec<Finding> {
    let subject = "journal.db";
    let is_running = matches!(installation.running, RunState::Running(_));
    vec![match &installation.journal {
        _ if !installation.config.journal.enabled => Finding::ok(subject, "off (journal.enabled)"),
        Err(error) => {
            let help = "move the file away; the next start creates a new one";
            Finding::error(subject, error.to_string(), help)
        }
        Ok(None) if is_running => {
            let help = "look for `the journal is off` in its log";
            Finding::warning(subject, "a proxy is running without a journal", help)
        }
        Ok(None) => Finding::ok(subject, "does not exist yet; the first start creates it"),
        Ok(Some(summary)) => {
            let totals = &summary.totals;
            let newest = summary.newest.first().map(|row| age(row.at_ms, now_ms()));
            let message = format!(
                "{}, {}, {}, newest: {}; input saved: {} (estimated)",
                plural(totals.exchanges, "exchange"),
                plural(totals.conversations, "conversation"),
                size(totals.bytes),
                newest.as_deref().unwrap_or("none yet"),
                unsent(totals.unsent_tokens)
            );
            Finding::ok(subject, message)
        }
    }]
}

/// Reports whether each upstream answers.
fn upstreams(installation: &Installation) -> Vec<Finding> {
    let journal = installation.journal.as_ref().ok().and_then(Option::as_ref);
    // On a server, the upstream of a client may not be one that the operator wants.
    let journal = journal.filter(|_| !installation.is_server());
    let recorded = journal.map(|summary| summary.upstreams()).unwrap_or_default();
    let used = used(&installation.config, recorded);
    judged(&installation.probes, &used)
}

/// Judges the responses. If none of several upstreams can be reached, the likely cause is the network, which is one
/// finding.
pub(super) fn judged(probes: &[UpstreamProbe], used: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings: Vec<_> = probes.iter().map(|probe| upstream(probe, used)).collect();
    if probes.len() > 1 && probes.iter().all(|probe| probe.answer.is_err()) {
        findings.sort_by_key(|finding| Reverse(finding.severity));
        findings.truncate(1);
        let first = &mut findings[0];
        first.subject = "network".to_owned();
        let count = probes.len();
        first.message = format!("none of {count} upstreams can be reached; {}", first.message);
        first.help = Some("check network, DNS and firewall, or the base URLs".to_owned());
    }
    findings
}

/// Returns the upstreams that are in use according to the journal or the config.
///
/// A built-in upstream is not enough, because nobody uses all of them.
pub(super) fn used(config: &Config, recorded: BTreeSet<String>) -> BTreeSet<String> {
    let built_in = Config::from_text(None, &Environment::default(), &Flags::default());
    let built_in = built_in.map(|config| config.upstreams).unwrap_or_default();
    // A changed URL or a key shows that the owner wants this upstream.
    let wanted = config.upstreams.iter().filter(|(name, upstream)| {
        let known = built_in.get(*name);
        upstream.api_key.is_some() || known.is_none_or(|known| known.base_url != upstream.base_url)
    });
    wanted.map(|(name, _)| name.clone()).chain(recorded).collect()
}

/// Judges the response of an upstream. Any status below 500 counts as one, because most upstreams refuse a request
/// without a credential.
fn upstream(probe: &UpstreamProbe, used: &BTreeSet<String>) -> Finding {
    let (subject, url) = (probe.name.as_str(), &probe.base_url);
    match &probe.answer {
        Ok(status) if status.is_server_error() => {
            let message = format!("{url} answers with status {}", status.as_u16());
            let help = "check the provider's status page, or the gateway of that URL";
            Finding::warning(subject, message, help)
        }
        Ok(status) => Finding::ok(subject, format!("{url} answers (status {})", status.as_u16())),
        Err(why) => {
            let message = format!("{url} cannot be reached: {why}");
            let help = format!("check network, DNS and firewall, or `upstreams.{subject}.base_url`");
            match used.contains(subject) {
                true => Finding::error(subject, message, help),
                false => {
                    let help = format!("ignore this if you do not use it; otherwise {help}");
                    Finding::warning(subject, message, help)
                }
            }
        }
    }
}

/// Reports where the settings of each agent on the PATH send its requests.
fn agents(installation: &Installation) -> Vec<Finding> {
    let findings = installed().map(|(agent, path)| destination(installation, agent, &path));
    let findings: Vec<_> = findings.collect();
    if !findings.is_empty() {
        return findings;
    }
    let names: Vec<_> = agents::known().iter().map(|agent| agent.name.as_str()).collect();
    let names = names.join(", ");
    let help = format!("install one of {names}, or point another at baton (`baton env AGENT`)");
    vec![Finding::warning("PATH", "contains no known agent", help)]
}

fn installed() -> impl Iterator<Item = (&'static AgentSetup, PathBuf)> {
    let is_executable = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let known = agents::known().iter();
    known.filter_map(move |agent| Some((agent, agents::on_path(agent.name.as_ref()).find(is_executable)?)))
}

/// Judges the base URL that an agent's own settings name.
fn destination(installation: &Installation, agent: &'static AgentSetup, path: &Path) -> Finding {
    let (subject, path) = (agent.title.as_str(), path.display());
    let url = proxy_url(installation);
    let overriding = declared::overriding_values(agent, &[]);
    if let Some(value) = overriding.iter().find(|value| value.bypasses(&url)) {
        let (message, help) = value.problem(&url);
        return Finding::warning(subject, message, help);
    }
    let is_baton = |theirs: &&OwnUrl| declared::place(&theirs.url) == declared::place(&url);
    let replaced = replaced_urls(agent, &url);
    let is_elsewhere = |theirs: &&OwnUrl| !is_baton(theirs) && !is_upstream(&installation.config, theirs);
    if let Some(theirs) = replaced.iter().find(is_elsewhere) {
        let help = match theirs.upstreams.first() {
            Some(name) => {
                format!("to go there through baton, set `upstreams.{name}.base_url` to it; else unset it")
            }
            None => "unset it".to_owned(),
        };
        let OwnUrl { setting, url, .. } = theirs;
        let message = format!("{setting} is {url}, which is not an upstream of baton");
        return Finding::warning(subject, message, help);
    }
    let is_running = matches!(installation.running, RunState::Running(_));
    let replaced = replaced.iter().filter(is_baton).map(|theirs| &theirs.setting);
    match overriding
        .iter()
        .map(|value| &value.setting)
        .chain(replaced)
        .next()
    {
        None => {
            let message = format!("{path}; goes through baton with `baton run {}`", agent.name);
            Finding::ok(subject, message)
        }
        Some(setting) if is_running => Finding::ok(subject, format!("{path}; pointed at baton by {setting}")),
        Some(setting) => {
            let message = format!("pointed at baton by {setting}, but no proxy is running");
            let help = "start `baton serve`, or have it started at login: `baton service install`";
            Finding::warning(subject, message, help)
        }
    }
}

/// Returns the settings that `baton run` replaces: environment variables, and keys of the agent's own files.
fn replaced_urls(agent: &'static AgentSetup, url: &str) -> Vec<OwnUrl> {
    let set = agent.setup(url, url, "").variables;
    // Other variables do not direct requests.
    let directing = set.iter().filter(|(_, value)| value.starts_with(url));
    let variables = directing.filter_map(|(name, _)| run::own_variable(name));
    variables.chain(declared::own_urls(agent)).collect()
}

/// Whether a URL is one that baton sends to, so that `baton run` replaces it.
fn is_upstream(config: &Config, theirs: &OwnUrl) -> bool {
    let named = theirs.upstreams.iter();
    let mut known = named.filter_map(|name| config.upstreams.get(*name));
    known.any(|upstream| declared::place(&upstream.base_url) == declared::place(&theirs.url))
}

/// URL of the running proxy, else the configured one.
fn proxy_url(installation: &Installation) -> String {
    if let RunState::Running(Some(process)) = &installation.running {
        return process.data.clone();
    }
    let config = &installation.config;
    running::url(config, running::reachable(config.server.at.listen))
}

/// Warns of a chosen sign-in that does not reach baton, and of one that its provider's terms exclude.
fn sign_ins(installation: &Installation) -> Vec<Finding> {
    let url = proxy_url(installation);
    let rows = |agent: &'static AgentSetup| {
        let reaches = match declared::unreached(agent, &[], &url) {
            Some((message, help)) => Finding::warning(&agent.title, message, help),
            None => Finding::ok(&agent.title, format!("works with {}", agent.sign_ins)),
        };
        let terms = agent.terms();
        std::iter::once(reaches).chain(terms.map(|why| Finding::warning(&agent.title, why, "use an API key")))
    };
    installed().flat_map(|(agent, _)| rows(agent)).collect()
}

/// Reports whether a budget is set, whether the brake stopped one of the newest exchanges, and the provider's limits.
fn budget(installation: &Installation) -> Vec<Finding> {
    let summary = installation.journal.as_ref().ok().and_then(Option::as_ref);
    let newest = summary.map_or(&[][..], |summary| &summary.newest);
    let is_braked = |row: &&ExchangeRow| {
        let outcome = row.event.brake;
        outcome.is_some_and(|outcome| outcome.is_stop() && outcome != BrakeOutcome::StoppedUser)
    };
    let braked = match newest.iter().find(is_braked) {
        Some(row) => {
            let message = format!("stopped an agent {}: {}", ago(row.at_ms), row.id);
            let stop = row.event.brake.unwrap_or(BrakeOutcome::StoppedBudget);
            let go = run::go_command(&installation.config, row.event.client.as_deref(), stop);
            let go = go.map_or(String::new(), |go| {
                format!("let it continue with `{go}` in its chat, or ")
            });
            let help = format!("{go}raise the limit; `baton log brake:stopped*` lists all");
            Finding::warning("brake", message, help)
        }
        None if installation.config.is_brake_off() => Finding::ok("brake", "no budget is set"),
        None => Finding::ok("brake", "no agent was stopped recently"),
    };
    let mut windows = newest.iter().map(|row| &row.event.plan_windows);
    let windows = windows.find(|windows| !windows.is_empty()).map(|windows| {
        let used = |window: &PlanWindow| format!("{} {}%", window.name, window.used as f64 / 100.0);
        let used: Vec<_> = windows.iter().map(used).collect();
        Finding::ok("subscription", format!("used: {}", used.join(", ")))
    });
    let refusal = newest.iter().find_map(|row| {
        let opens_ms = row.event.provider_limit?.opens_ms?;
        let help = "wait until then, or use another account; `baton log provider_limit` lists all";
        let subject = row.upstream.clone().unwrap_or_default();
        (opens_ms > now_ms()).then(|| Finding::warning(subject, provider_limit(Some(opens_ms)), help))
    });
    [braked].into_iter().chain(windows).chain(refusal).collect()
}
