//! The `baton store` command: copies one store to another, checks a store, and deletes from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};

use serde::Serialize;

use super::exit::{CliResult, Exit};
use super::forget::{self, StoreForgetArgs};
use super::output::{Out, plural, shown, size, visible};
use super::state_args::StateArgs;
use super::{STORE_SECRETS, block_on, load_state};
use baton_state::config::{Config, StoreAddress, StoreConfig, StoreKind};
use baton_state::store::copy_and_check::{self, RecordAmount};
use baton_state::store::records::RecordKind;
use baton_state::store::{self, SharedStore};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton store check
  baton store copy --to sqlite:/var/backups/baton
  baton store forget --client ada --dry-run")]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Copy all records to another store, to move, back up or restore it
    Copy(StoreCopyArgs),
    /// Check that every record can be read, and that the records it refers to exist
    Check(StoreCheckArgs),
    /// Delete all that is kept of a client, a conversation or a handoff: records, files, journal
    Forget(StoreForgetArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Both stores may be in use, and an interrupted copy may be started again: existing records stay, \
unless they are older. Records written meanwhile are copied as well. Exits with 65 if the target then lacks a record.

To move to another store, stop the proxies before the last copy. Then set `store.kind` and `store.url` in \
the config, or `state.dir` for sqlite:DIR. The seal keys are separate files (`baton seal-key`).

Examples:
  baton store copy --to redis://127.0.0.1:6379
  baton store copy --to sqlite:/var/backups/baton
  baton store copy --from sqlite:/var/backups/baton --to redis://127.0.0.1:6379")]
pub(super) struct StoreCopyArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Copy from sqlite:DIR or a server's URL [default: the config's store] [env: BATON_COPY_FROM]
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Copy to sqlite:DIR or a server's URL [default: the config's store] [env: BATON_COPY_TO]
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exits with 65 if a record cannot be read, or refers to one that does not exist.

Examples:
  baton store check
  baton store check sqlite:/var/backups/baton
  baton store check --json | jq .kinds")]
pub(super) struct StoreCheckArgs {
    /// Store to check: sqlite:DIR or a server's URL [default: the config's store]
    url: Option<String>,
    #[command(flatten)]
    state: StateArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A kind of record in a report. The field names are public API.
#[derive(Serialize)]
struct KindRow {
    kind: &'static str,
    records: u64,
    bytes: u64,
    /// Number of these records that the target of a copy has.
    #[serde(skip_serializing_if = "Option::is_none")]
    copied: Option<u64>,
}

/// Config keys that put a store into use, and their values.
///
/// A value that may hold a password is left out.
type StoreKeys = BTreeMap<&'static str, String>;

#[derive(Serialize)]
struct StoreReport {
    ok: bool,
    kinds: Vec<KindRow>,
    problems: Vec<String>,
    /// Number of problems. Only the first ones are listed.
    count: u64,
    /// Keys to set for the target of a copy, if another store is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<StoreKeys>,
}

pub(super) fn run(args: &StoreArgs, out: &mut Out) -> CliResult {
    let (report, json) = match &args.command {
        StoreCommand::Copy(args) => (block_on(copy(args))?, args.json),
        StoreCommand::Check(args) => (block_on(check(args))?, args.json),
        StoreCommand::Forget(args) => return forget::run(args, out),
    };
    match json {
        true => out.json(&report)?,
        false => print(&report, out)?,
    }
    Exit::DATA.unless(report.ok)
}

async fn copy(args: &StoreCopyArgs) -> CliResult<StoreReport> {
    let config = load_state(&args.state, STORE_SECRETS)?;
    // Read from variables as well: URLs may hold passwords, which other users see in a command line.
    let url = |given: &Option<String>, variable| given.clone().or_else(|| std::env::var(variable).ok());
    let source = StoreLocation::new(&config, url(&args.from, "BATON_COPY_FROM").as_deref())?;
    let target = StoreLocation::new(&config, url(&args.to, "BATON_COPY_TO").as_deref())?;
    if source.is_same(&target) {
        let failure = Exit::USAGE.failure("the source and the target are the same store");
        return Err(failure.help("give --from or --to, the URL of another store"));
    }
    // Both answer before the first record is copied, so that no target is created for a missing source.
    let from = source.existing().await?;
    let to = store::open(&target.settings, &target.dir)?;
    to.ping().await?;
    let copied = copy_and_check::copy(&*from, &*to).await?;
    let row = |(kind, (amount, there)): (&RecordKind, &(RecordAmount, u64))| KindRow {
        copied: Some(*there),
        ..row(*kind, *amount)
    };
    let unreadable = copied.unreadable.iter();
    let problems: Vec<String> = unreadable
        .map(|(id, why)| format!("{id} cannot be read and was not copied: {why}"))
        .collect();
    let configured = StoreLocation::new(&config, None);
    // A config without a copyable store (in memory) does not name the target either.
    let is_in_use = configured.is_ok_and(|configured| configured.is_same(&target));
    Ok(StoreReport {
        ok: copied.is_whole() && problems.is_empty(),
        kinds: copied.kinds.iter().map(row).collect(),
        count: problems.len() as u64,
        problems,
        config: (!is_in_use).then(|| target.keys()),
    })
}

async fn check(args: &StoreCheckArgs) -> CliResult<StoreReport> {
    let config = load_state(&args.state, STORE_SECRETS)?;
    let location = StoreLocation::new(&config, args.url.as_deref())?;
    let store = location.existing().await?;
    let checked = copy_and_check::check(&*store).await?;
    let kinds = checked.kinds.iter().map(|(kind, amount)| row(*kind, *amount));
    Ok(StoreReport {
        ok: checked.count == 0,
        kinds: kinds.collect(),
        problems: checked.problems,
        count: checked.count,
        config: None,
    })
}

/// Location of a store.
struct StoreLocation {
    settings: StoreConfig,
    /// Directory of a store in a file.
    dir: PathBuf,
}

impl StoreLocation {
    /// Parses `sqlite:DIR` or a server's URL; without one, takes the config's store.
    fn new(config: &Config, url: Option<&str>) -> CliResult<Self> {
        let mut settings = config.store.clone();
        let mut dir = config.state_dir.clone();
        match url {
            None if settings.kind == StoreKind::Memory => {
                let message = "store.kind is \"memory\": its records exist only inside the running proxy";
                return Err(Exit::UNAVAILABLE.with_help(message, "give a URL"));
            }
            None => {}
            Some(url) => match url.strip_prefix("sqlite:") {
                Some(path) => {
                    settings.kind = StoreKind::Sqlite;
                    // `sqlite://DIR` works as well, because other URLs have this form.
                    dir = path.strip_prefix("//").unwrap_or(path).into();
                    if dir.exists() && !dir.is_dir() {
                        let message = format!("{} is a file, but a store is a directory", dir.display());
                        let help = "write sqlite:DIR with the directory that holds baton.db";
                        return Err(Exit::NO_INPUT.with_help(message, help));
                    }
                }
                None => {
                    let address = StoreAddress::parse(url).map_err(|why| {
                        // Without the URL itself, because it may hold a password.
                        Exit::USAGE.with_help(
                            format!("not the URL of a store: {why}"),
                            "write sqlite:DIR, or a URL in the form of `store.url`",
                        )
                    })?;
                    (settings.kind, settings.address) = (StoreKind::Redis, Some(address));
                }
            },
        }
        Ok(Self { settings, dir })
    }

    fn is_same(&self, other: &Self) -> bool {
        if self.settings.kind != other.settings.kind {
            return false;
        }
        match self.settings.kind {
            StoreKind::Redis => self.settings.address == other.settings.address,
            _ => real(&self.dir) == real(&other.dir),
        }
    }

    /// Opens the store, which must exist and answer.
    async fn existing(&self) -> CliResult<SharedStore> {
        let store = store::open_existing(&self.settings, &self.dir)?;
        let store = store.ok_or_else(|| {
            let message = format!("there is no store in {}", shown(&self.dir));
            let help = "name the directory that holds baton.db: sqlite:DIR, or --state-dir DIR";
            Exit::NO_INPUT.with_help(message, help)
        })?;
        store.ping().await?;
        Ok(store)
    }

    fn keys(&self) -> StoreKeys {
        let kind = |kind: &str| ("store.kind", kind.to_owned());
        match self.settings.kind {
            // Without the URL, which may hold a password.
            StoreKind::Redis => StoreKeys::from([kind("redis")]),
            _ => StoreKeys::from([
                kind("sqlite"),
                ("state.dir", real(&self.dir).display().to_string()),
            ]),
        }
    }
}

/// Resolves a directory to one name, as far as it exists, for comparison.
fn real(dir: &Path) -> PathBuf {
    let real = dir.canonicalize().or_else(|_| std::path::absolute(dir));
    real.unwrap_or_else(|_| dir.to_owned())
}

fn row(kind: RecordKind, amount: RecordAmount) -> KindRow {
    KindRow {
        kind: kind.name(),
        records: amount.records,
        bytes: amount.bytes,
        copied: None,
    }
}

fn print(report: &StoreReport, out: &mut Out) -> CliResult {
    for row in &report.kinds {
        let copied = row.copied.map(|copied| format!(", {copied} in the target"));
        let copied = copied.unwrap_or_default();
        let (kind, records, bytes) = (row.kind, row.records, size(row.bytes));
        out.line(format_args!("{kind:<14} {records:>8}  {bytes:>10}{copied}"))?;
    }
    for problem in &report.problems {
        out.line(visible(problem))?;
    }
    match (report.ok, report.count) {
        (true, _) => out.line("no problems")?,
        (false, 0) => out.line("the target lacks records: copy again")?,
        (false, count) => out.line(plural(count, "problem"))?,
    }
    if let Some(keys) = &report.config {
        let keys = keys.iter().rev();
        let mut set: Vec<_> = keys.map(|(key, value)| format!("{key} = {value:?}")).collect();
        if set.len() == 1 {
            set.push("store.url = its URL".to_owned());
        }
        out.line(format_args!(
            "the config still names the other store; to serve from the target, set {}",
            visible(&set.join(" and "))
        ))?;
    }
    Ok(())
}
