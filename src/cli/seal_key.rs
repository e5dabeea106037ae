//! The `baton seal-key` command: lists, rotates and retires the keys that seals are made with.

use std::path::Path;

use clap::Args as ClapArgs;

use serde::Serialize;
use serde_json::json;

use super::exit::{CliResult, CommandFailure, Exit};
use super::load_state;
use super::output::{Out, age, first_line, plural, shown, table, visible};
use super::state_args::StateArgs;
use super::stored::only;
use baton_core::marker::seal::SealKey;
use baton_state::clock::now_ms;
use baton_state::config::Config;
use baton_state::store::StoreError;
use baton_state::store::seal_key::{self, FILE, StoredKeys};

/// Argument of `--retire` for every key except the one that makes seals.
pub(super) const ALL: &str = "all";

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without an option, lists the keys. Each has an id that reveals nothing about it; a key's age is \
that of its file. The first key is made when baton first needs one: by `baton serve`, `baton run AGENT` or \
--rotate.

Running proxies that use this directory (the state directory, or handoff.seal_key_dir) follow at once. Keys that \
are given in the config (handoff.seal_key) are changed there.

A handoff that is in the store stays valid without its seal. A retired key only invalidates the proof in \
transcripts whose handoff is no longer in any store.

Examples:
  baton seal-key
  baton seal-key --json | jq -r '.keys[].id'
  baton seal-key --rotate
  baton seal-key --retire 3f9c0a12
  baton seal-key --retire all")]
pub(super) struct SealKeyArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Make a new key for new seals (older seals stay valid)
    #[arg(long, conflicts_with = "retire")]
    rotate: bool,
    /// Invalidate the seals of this older key, by its id, a unique prefix of it, or `all`
    #[arg(long, value_name = "ID")]
    retire: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with_all = ["rotate", "retire"])]
    json: bool,
}

/// A key in the output of `--json`. The names are public API.
#[derive(Serialize)]
struct ShownKey {
    id: String,
    /// Whether this key makes new seals.
    makes: bool,
    /// Creation time in milliseconds, as far as the key's file shows it.
    made_ms: Option<u64>,
}

pub(super) fn run(args: &SealKeyArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &["handoff.seal_key"])?;
    match &args.retire {
        Some(wanted) => retire(&config, wanted, out),
        None if args.rotate => rotate(&config, out),
        None => show(&config, args.json, out),
    }
}

fn show(config: &Config, json: bool, out: &mut Out) -> CliResult {
    let (file, keys) = keys(config)?;
    if json {
        // These names are public API. The file is the one with the key that makes seals.
        let mut shown = json!({"from": if file.is_some() { "file" } else { "config" }, "keys": keys});
        if let Some(file) = file {
            shown["file"] = file.into();
        }
        return out.json(&shown);
    }
    let place = file.map_or("the config (handoff.seal_key)".to_owned(), |file| {
        first_line(&file, None)
    });
    let count = plural(keys.len() as u64, "seal key");
    out.line(format_args!("{count} in {place}"))?;
    out.lines(rows(&keys, now_ms()))
}

/// Returns the keys, and the file with the one that makes seals; no file if the keys are in the config.
fn keys(config: &Config) -> CliResult<(Option<String>, Vec<ShownKey>)> {
    let given = &config.handoff.seal_keys;
    if !given.is_empty() {
        let ids = given.iter().map(|key| SealKey::new(key.reveal().as_bytes()).id());
        return Ok((None, shown_keys(ids.map(|id| (id, None)))));
    }
    let dir = config.seal_key_dir();
    let stored = seal_key::load(dir).map_err(unreadable)?.ok_or_else(|| {
        Exit::NO_INPUT.with_help(
            format!("there is no seal key in {} yet", shown(dir)),
            "it is made when baton first needs one: by `baton serve`, `baton run AGENT` or `baton seal-key --rotate`",
        )
    })?;
    let made = stored.all().map(|stored| (stored.key.id(), stored.made_ms));
    Ok((Some(dir.join(FILE).display().to_string()), shown_keys(made)))
}

/// Lists keys by id and creation time. The first one makes seals.
fn shown_keys(keys: impl Iterator<Item = (String, Option<u64>)>) -> Vec<ShownKey> {
    let shown = keys.enumerate().map(|(at, (id, made_ms))| ShownKey {
        id,
        makes: at == 0,
        made_ms,
    });
    shown.collect()
}

fn rows(keys: &[ShownKey], now_ms: u64) -> Vec<String> {
    let heading = ["ID", "AGE", "USE"].map(str::to_owned).to_vec();
    let rows = keys.iter().map(|key| {
        let does = if key.makes {
            "makes new seals, and verifies"
        } else {
            "verifies"
        };
        let age = key.made_ms.map_or("-".to_owned(), |made| age(made, now_ms));
        vec![key.id.clone(), age, does.to_owned()]
    });
    table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
}

fn rotate(config: &Config, out: &mut Out) -> CliResult {
    let help = "put the new key after the others in the list, restart each proxy in turn, put it first";
    let dir = of_files(config, help)?;
    let keys = seal_key::rotate(dir).map_err(unwritten)?;
    let older = keys.older.len() as u64;
    out.line(format_args!(
        "new seals are made with key {}",
        keys.newest.key.id()
    ))?;
    out.line(format_args!(
        "seals of {} stay valid until `baton seal-key --retire`",
        plural(older, "older key")
    ))
}

fn retire(config: &Config, wanted: &str, out: &mut Out) -> CliResult {
    let dir = of_files(config, "remove the key from the list")?;
    let keys = seal_key::load_or_make(dir).map_err(unreadable)?;
    let ids = match wanted {
        ALL => keys.older.iter().map(|stored| stored.key.id()).collect(),
        id => vec![older(&keys, id)?],
    };
    // Another process may have rotated or retired keys since they were read.
    if seal_key::retire(dir, &ids).map_err(unwritten)?.is_none() {
        return Err(Exit::NO_INPUT.with_help("the keys have changed meanwhile", "try again"));
    }
    match ids.len() {
        0 => out.line("there is no older key to retire")?,
        _ => out.line(format_args!("retired: {}", ids.join(", ")))?,
    }
    Ok(())
}

/// Returns the id of the only older key that begins with `wanted`.
fn older(keys: &StoredKeys, wanted: &str) -> CliResult<String> {
    let wanted = wanted.trim().to_lowercase();
    let begins = |id: &String| !wanted.is_empty() && id.starts_with(&wanted);
    let older = keys.older.iter().map(|stored| stored.key.id());
    only(older.filter(begins), ["key", "the id"], &wanted, || {
        let newest = keys.newest.key.id();
        // Retiring the newest key would leave none to make seals with.
        if begins(&newest) {
            let failure = Exit::USAGE.failure(format!("key {newest} makes the new seals"));
            return failure.help("make another one first: `baton seal-key --rotate`");
        }
        let message = format!("there is no older key {}", visible(&wanted));
        Exit::NO_INPUT.with_help(message, "`baton seal-key` lists the ids")
    })
}

/// Returns the directory of the key files.
///
/// Fails if the keys are in the config, because baton does not edit that. `instead` is the hint for that
/// case.
fn of_files<'a>(config: &'a Config, instead: &str) -> CliResult<&'a Path> {
    if config.handoff.seal_keys.is_empty() {
        return Ok(config.seal_key_dir());
    }
    let message = "the seal keys are given in the config (handoff.seal_key)";
    Err(Exit::USAGE.with_help(message, format!("{instead}, then restart each proxy in turn")))
}

fn unreadable(error: StoreError) -> CommandFailure {
    Exit::NO_INPUT.failure(visible(&error.to_string()))
}

fn unwritten(error: StoreError) -> CommandFailure {
    Exit::CANNOT_CREATE.failure(visible(&error.to_string()))
}
