//! The `baton store forget` command: deletes all that is kept of a client, a conversation or a handoff.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs};
use serde::Serialize;
use uuid::Uuid;

use super::exit::CliResult;
use super::journal::{full_key, open_existing};
use super::output::{Out, plural, shown};
use super::running::{self, RunState};
use super::state_args::StateArgs;
use super::stored::{bare_id, find_id};
use super::{STORE_SECRETS, block_on, load_state};
use baton_core::record::HandoffId;
use baton_state::config::Config;
use baton_state::files::documents::{FiledHandoff, delete_files, filed};
use baton_state::files::yaml_files::HandoffDirectory;
use baton_state::journal::{self, ForgottenExchanges};
use baton_state::store::forget::{self, ForgetScope, ForgottenRecords};
use baton_state::store::{self, HandoffFilter, SharedStore};

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("scope").required(true)))]
#[command(after_help = "\
Deletes records of the store, documents and YAML files with their entries in ledgers, and exchanges of the journal. With \
--handoff it deletes the journal's exchanges that name the handoff, and those of its conversation since then.

Files and journal are those of this state directory: with several replicas, run it on each. A proxy that still serves the \
session records it again, and an agent's own session files stay.

Examples:
  baton store forget --client ada --dry-run
  baton store forget --conversation 9c1e52aa
  baton store forget --handoff 01a223b0-7c11-7000-8000-000000000000")]
pub(super) struct StoreForgetArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Delete everything of this client (`local` without clients)
    #[arg(long, value_name = "NAME", group = "scope")]
    client: Option<String>,
    /// Delete the conversation with this key or unique beginning (column KEY of `baton log`)
    #[arg(long, value_name = "KEY", group = "scope")]
    conversation: Option<String>,
    /// Delete the handoff with this id or unique beginning
    #[arg(long, value_name = "ID", group = "scope")]
    handoff: Option<String>,
    /// List what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Deleted items, or those that a dry run found. The field names are public API.
#[derive(Serialize)]
struct ForgetReport {
    dry_run: bool,
    /// Deleted records by kind.
    records: BTreeMap<&'static str, u64>,
    files: Vec<PathBuf>,
    exchanges: u64,
    /// Whether a proxy serves from the state directory.
    is_serving: bool,
}

pub(super) fn run(args: &StoreForgetArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, STORE_SECRETS)?;
    let report = block_on(async {
        // A store in memory is empty here: its records end with their proxy.
        let store = store::open_for_reading(&config.store, &config.state_dir)?;
        let scope = scope(args, &config, &store).await?;
        forget(&config, &store, &scope, args.dry_run).await
    })?;
    match args.json {
        true => out.json(&report),
        false => print(&report, out),
    }
}

/// Number of digits of a conversation's key.
const KEY_DIGITS: usize = 32;

/// Resolves the prefix of a key or id that the user gave.
///
/// A complete one need not exist in the store, because another replica may have deleted its records already.
async fn scope(args: &StoreForgetArgs, config: &Config, store: &SharedStore) -> CliResult<ForgetScope> {
    if let Some(name) = &args.client {
        return Ok(ForgetScope::Client(name.clone()));
    }
    if let Some(id) = &args.handoff {
        if let Ok(id) = Uuid::parse_str(&bare_id(id)) {
            return Ok(ForgetScope::Handoff(id));
        }
        let handoffs = store.handoffs(&HandoffFilter::everything()).await?;
        return find_id(handoffs.iter().map(|handoff| handoff.id), id).map(ForgetScope::Handoff);
    }
    let key = bare_id(args.conversation.as_deref().unwrap_or_default());
    if key.len() == KEY_DIGITS {
        return Ok(ForgetScope::Conversation(key));
    }
    let journal = open_existing(&config.state_dir)?;
    full_key(&journal, &key).map(ForgetScope::Conversation)
}

async fn forget(
    config: &Config,
    store: &SharedStore,
    scope: &ForgetScope,
    dry_run: bool,
) -> CliResult<ForgetReport> {
    let selected = forget::select(&**store, scope).await?;
    let is_serving = matches!(running::find(&config.state_dir), RunState::Running(_));
    // The store comes last: its records determine which files and exchanges to delete, so an interrupted deletion
    // can be repeated.
    let exchanges = exchanges(config, scope, &selected, is_serving, dry_run)?;
    let files = files(config, scope, &selected, dry_run)?;
    if !dry_run {
        forget::delete(&**store, &selected).await?;
    }
    let records = selected.records.iter();
    let records = records.map(|(kind, records)| (kind.name(), records.len() as u64));
    Ok(ForgetReport {
        dry_run,
        records: records.collect(),
        files,
        exchanges,
        is_serving,
    })
}

fn exchanges(
    config: &Config,
    scope: &ForgetScope,
    selected: &ForgottenRecords,
    is_serving: bool,
    dry_run: bool,
) -> CliResult<u64> {
    let id;
    let wanted = match scope {
        ForgetScope::Client(name) => ForgottenExchanges::Client(name),
        ForgetScope::Conversation(key) => ForgottenExchanges::Conversation(key),
        ForgetScope::Handoff(handoff) => {
            id = handoff.to_string();
            let known = selected.handoff.as_ref();
            ForgottenExchanges::Handoff {
                id: &id,
                conversation: known.map_or("", |handoff| &handoff.conversation),
                from_ms: made_ms(*handoff),
            }
        }
    };
    Ok(journal::forget(&config.state_dir, wanted, is_serving, dry_run)?)
}

/// Returns the time in a handoff's id, in milliseconds since the Unix epoch.
fn made_ms(id: HandoffId) -> u64 {
    let (seconds, nanos) = id.get_timestamp().map_or((u64::MAX, 0), |at| at.to_unix());
    let ms = u64::from(nanos / 1_000_000);
    seconds.saturating_mul(1000).saturating_add(ms)
}

/// Deletes files in the configured directory, and in those that documents name and that exist here.
fn files(
    config: &Config,
    scope: &ForgetScope,
    selected: &ForgottenRecords,
    dry_run: bool,
) -> CliResult<Vec<PathBuf>> {
    let records = selected.records.values().flatten();
    let parents = records.filter_map(|record| Some(record.directory()?.parent()?.to_owned()));
    let mut dirs: BTreeSet<PathBuf> = parents.collect();
    // Documents may name directories of another machine that uses the same store.
    dirs.retain(|dir| dir.is_dir());
    dirs.insert(config.handoffs_dir());
    let client = match scope {
        ForgetScope::Client(name) => Some(name.as_str()),
        _ => None,
    };
    let mut deleted = Vec::new();
    for dir in dirs {
        let directory = HandoffDirectory::new(&dir)?;
        let here = filed(&directory)?.into_iter();
        let here = here.filter(|filed| is_in_scope(filed, scope));
        let here = here.map(|filed| filed.id);
        let ids: HashSet<_> = here.chain(selected.handoffs.iter().copied()).collect();
        deleted.extend(delete_files(&directory, &ids, client, dry_run)?);
    }
    Ok(deleted)
}

/// Whether a handoff is in the scope by its files, for a replica whose store no longer has it.
fn is_in_scope(filed: &FiledHandoff, scope: &ForgetScope) -> bool {
    match (scope, &filed.owner) {
        (ForgetScope::Handoff(id), _) => filed.id == *id,
        (ForgetScope::Client(name), Some((client, _))) => client == name,
        (ForgetScope::Conversation(key), Some((_, conversation))) => conversation == key,
        (_, None) => false,
    }
}

fn print(report: &ForgetReport, out: &mut Out) -> CliResult {
    for file in &report.files {
        out.line(shown(file))?;
    }
    let files = [
        ("files", report.files.len() as u64),
        ("exchanges", report.exchanges),
    ];
    let records = report.records.iter().map(|(kind, count)| (*kind, *count));
    let all: Vec<_> = records.chain(files).collect();
    for (kind, count) in all.iter().filter(|(_, count)| *count > 0) {
        out.line(format_args!("{kind:<14} {count:>8}"))?;
    }
    let sum = all.iter().map(|(_, count)| count).sum();
    match (sum, report.dry_run) {
        (0, _) => return out.line("nothing of it is kept here"),
        (_, true) => out.line(format_args!("{} would be deleted", plural(sum, "item")))?,
        (_, false) => out.line(format_args!("{} deleted", plural(sum, "item")))?,
    }
    if report.is_serving {
        out.line(
            "a proxy serves from this directory: its open exchanges stay, so end the session and repeat this",
        )?;
    }
    Ok(())
}
