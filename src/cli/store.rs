//! `baton store`: copies a store to another one, and checks one.

use serde::Serialize;

use super::args::{StoreCheckArgs, StoreCommand, StoreCopyArgs};
use super::exit::{CommandFailure, Exit};
use super::output::{Out, plural, size, visible};
use super::stored::unanswered;
use super::{load_state, runtime};
use crate::state::config::{Config, StoreKind};
use crate::state::store::copy_and_check::{self, RecordAmount};
use crate::state::store::records::RecordKind;
use crate::state::store::{self, SharedStore};

/// A kind of record in a report. The field names are API.
#[derive(Serialize)]
struct KindRow {
    kind: &'static str,
    records: u64,
    bytes: u64,
    /// For a copy: how many of them the target has.
    #[serde(skip_serializing_if = "Option::is_none")]
    copied: Option<u64>,
}

#[derive(Serialize)]
struct StoreReport {
    ok: bool,
    kinds: Vec<KindRow>,
    problems: Vec<String>,
    /// How many problems there are; the first ones are listed.
    count: u64,
}

pub(super) fn run(command: &StoreCommand, out: &mut Out) -> Result<(), CommandFailure> {
    let runtime = runtime()?;
    let (report, json) = match command {
        StoreCommand::Copy(args) => (runtime.block_on(copy(args))?, args.json),
        StoreCommand::Check(args) => (runtime.block_on(check(args))?, args.json),
    };
    match json {
        true => out.json(&report)?,
        false => print(&report, out)?,
    }
    match report.ok {
        true => Ok(()),
        false => Err(Exit::DATA.silent()),
    }
}

async fn copy(args: &StoreCopyArgs) -> Result<StoreReport, CommandFailure> {
    let config = load_state(&args.state)?;
    // URLs may hold passwords, which other users see in a command line.
    let url = |given: &Option<String>, variable| given.clone().or_else(|| std::env::var(variable).ok());
    let from = url(&args.from, "BATON_COPY_FROM");
    let from = open_store(&config, from.as_deref(), store::open_for_reading)?;
    let to = open_store(&config, url(&args.to, "BATON_COPY_TO").as_deref(), store::open)?;
    let copied = copy_and_check::copy(&*from, &*to).await.map_err(unanswered)?;
    let row = |(kind, (amount, there)): (&RecordKind, &(RecordAmount, u64))| KindRow {
        copied: Some(*there),
        ..row(*kind, *amount)
    };
    let unreadable = copied.unreadable.iter();
    let problems: Vec<String> = unreadable
        .map(|(id, why)| format!("{id} cannot be read and was not copied: {why}"))
        .collect();
    Ok(StoreReport {
        ok: copied.is_whole() && problems.is_empty(),
        kinds: copied.kinds.iter().map(row).collect(),
        count: problems.len() as u64,
        problems,
    })
}

async fn check(args: &StoreCheckArgs) -> Result<StoreReport, CommandFailure> {
    let config = load_state(&args.state)?;
    let store = open_store(&config, args.url.as_deref(), store::open_for_reading)?;
    let checked = copy_and_check::check(&*store).await.map_err(unanswered)?;
    let kinds = checked.kinds.iter().map(|(kind, amount)| row(*kind, *amount));
    Ok(StoreReport {
        ok: checked.count == 0,
        kinds: kinds.collect(),
        problems: checked.problems,
        count: checked.count,
    })
}

type OpenStore =
    fn(&crate::state::config::StoreConfig, &std::path::Path) -> Result<SharedStore, store::StoreError>;

/// The store of a URL: `sqlite:DIR`, or a server's; without one the config's.
fn open_store(config: &Config, url: Option<&str>, open: OpenStore) -> Result<SharedStore, CommandFailure> {
    let mut settings = config.store.clone();
    let mut dir = config.state_dir.clone();
    match url {
        None if settings.kind == StoreKind::Memory => {
            let message = "store.kind is \"memory\": its records exist only inside the running proxy";
            return Err(Exit::UNAVAILABLE.failure(message).help("give a URL"));
        }
        None => {}
        Some(url) => match url.strip_prefix("sqlite:") {
            Some(path) => {
                settings.kind = StoreKind::Sqlite;
                dir = path.strip_prefix("//").unwrap_or(path).into();
                if dir.exists() && !dir.is_dir() {
                    let message = format!("{} is a file, and a store is a folder", dir.display());
                    return Err(Exit::NO_INPUT
                        .failure(message)
                        .help("write sqlite:DIR with the folder that holds baton.db"));
                }
            }
            None => {
                let address = url.parse().map_err(|why: String| {
                    // Not the URL itself: it may hold a password.
                    Exit::USAGE
                        .failure(format!("not the URL of a store: {why}"))
                        .help("write sqlite:DIR, or a URL in the form of `store.url`")
                })?;
                (settings.kind, settings.address) = (StoreKind::Redis, Some(address));
            }
        },
    }
    open(&settings, &dir).map_err(unanswered)
}

fn row(kind: RecordKind, amount: RecordAmount) -> KindRow {
    KindRow {
        kind: kind.name(),
        records: amount.records,
        bytes: amount.bytes,
        copied: None,
    }
}

fn print(report: &StoreReport, out: &mut Out) -> Result<(), CommandFailure> {
    for row in &report.kinds {
        let copied = row
            .copied
            .map_or(String::new(), |copied| format!(", {copied} in the target"));
        let (kind, records, bytes) = (row.kind, row.records, size(row.bytes));
        out.line(format_args!("{kind:<14} {records:>8}  {bytes:>10}{copied}"))?;
    }
    for problem in &report.problems {
        out.line(format_args!("{}", visible(problem)))?;
    }
    match (report.ok, report.count) {
        (true, _) => out.line(format_args!("no problems"))?,
        (false, 0) => out.line(format_args!("the target lacks records: copy again"))?,
        (false, count) => out.line(format_args!("{}", plural(count, "problem")))?,
    }
    Ok(())
}
