//! `baton seal-key`: shows, rotates and retires the keys of the seals.

use std::path::Path;

use serde::Serialize;

use super::exit::{CommandFailure, Exit};
use super::load_state;
use super::output::{Out, age, first_line, plural, table, visible};
use super::seal_key_args::{ALL, SealKeyArgs};
use crate::state::clock::now_ms;
use crate::state::config::Config;
use crate::state::store::StoreError;
use crate::state::store::seal_key::{self, FILE, StoredKeys};
use baton_core::mark::seal::SealKey;

/// The output of `--json`; the names are API.
#[derive(Serialize)]
struct Shown {
    /// `file` or `config`.
    from: &'static str,
    /// The file with the key that makes seals.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    keys: Vec<ShownKey>,
}

#[derive(Serialize)]
struct ShownKey {
    id: String,
    /// Whether new seals are made with it.
    makes: bool,
    /// When it was made, as far as its file shows.
    made_ms: Option<u64>,
}

pub(super) fn run(args: &SealKeyArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let config = load_state(&args.state)?;
    match &args.retire {
        Some(wanted) => retire(&config, wanted, out),
        None if args.rotate => rotate(&config, out),
        None => show(&config, args.json, out),
    }
}

fn show(config: &Config, json: bool, out: &mut Out) -> Result<(), CommandFailure> {
    let shown = shown(config)?;
    if json {
        return Ok(out.json(&shown)?);
    }
    let place = match &shown.file {
        Some(file) => first_line(file, None),
        None => "the config (handoff.seal_key)".to_owned(),
    };
    out.line(format_args!(
        "{} in {place}",
        plural(shown.keys.len() as u64, "seal key")
    ))?;
    Ok(out.lines(rows(&shown.keys, now_ms()))?)
}

fn shown(config: &Config) -> Result<Shown, CommandFailure> {
    let given = &config.handoff.seal_keys;
    if !given.is_empty() {
        let keys = given.iter().enumerate().map(|(at, key)| ShownKey {
            id: SealKey::new(key.reveal().as_bytes()).id(),
            makes: at == 0,
            made_ms: None,
        });
        return Ok(Shown {
            from: "config",
            file: None,
            keys: keys.collect(),
        });
    }
    let dir = config.seal_key_dir();
    let Some(stored) = seal_key::load(dir).map_err(unreadable)? else {
        let message = format!("there is no seal key in {} yet", super::output::shown(dir));
        return Err(Exit::NO_INPUT
            .failure(message)
            .help("it is made when baton first needs one: by `baton serve`, `baton run AGENT` or `baton seal-key --rotate`"));
    };
    Ok(Shown {
        from: "file",
        file: Some(dir.join(FILE).display().to_string()),
        keys: described(&stored),
    })
}

fn described(keys: &StoredKeys) -> Vec<ShownKey> {
    let all = keys.all().enumerate().map(|(at, stored)| ShownKey {
        id: stored.key.id(),
        makes: at == 0,
        made_ms: stored.made_ms,
    });
    all.collect()
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

fn rotate(config: &Config, out: &mut Out) -> Result<(), CommandFailure> {
    let dir = of_files(
        config,
        "put the new key in front of the list, and leave the others in it",
    )?;
    let keys = seal_key::rotate(dir).map_err(unwritten)?;
    let older = keys.older.len() as u64;
    out.line(format_args!(
        "new seals are made with key {}",
        keys.newest.key.id()
    ))?;
    out.line(format_args!(
        "seals of {} stay valid until `baton seal-key --retire`",
        plural(older, "older key")
    ))?;
    Ok(())
}

fn retire(config: &Config, wanted: &str, out: &mut Out) -> Result<(), CommandFailure> {
    let dir = of_files(config, "remove the key from the list")?;
    let keys = seal_key::load_or_make(dir).map_err(unreadable)?;
    let ids = match wanted {
        ALL => keys.older.iter().map(|stored| stored.key.id()).collect(),
        id => vec![older(&keys, id)?],
    };
    if seal_key::retire(dir, &ids).map_err(unwritten)?.is_none() {
        return Err(Exit::NO_INPUT
            .failure("the keys have changed meanwhile")
            .help("try again"));
    }
    match ids.len() {
        0 => out.line("there is no older key to retire")?,
        _ => out.line(format_args!("retired: {}", ids.join(", ")))?,
    }
    Ok(())
}

/// The id of the older key that begins so.
fn older(keys: &StoredKeys, wanted: &str) -> Result<String, CommandFailure> {
    let wanted = wanted.trim().to_lowercase();
    let begins = |id: &String| !wanted.is_empty() && id.starts_with(&wanted);
    let older = keys.older.iter().map(|stored| stored.key.id());
    let mut matching = older.filter(begins);
    match (matching.next(), matching.next()) {
        (Some(id), None) => Ok(id),
        (Some(_), Some(_)) => Err(Exit::USAGE
            .failure(format!("more than one key begins with {}", visible(&wanted)))
            .help("give more of the id")),
        (None, _) if begins(&keys.newest.key.id()) => Err(Exit::USAGE
            .failure(format!("key {} makes the new seals", keys.newest.key.id()))
            .help("make another one first: `baton seal-key --rotate`")),
        (None, _) => Err(Exit::NO_INPUT
            .failure(format!("there is no older key {}", visible(&wanted)))
            .help("`baton seal-key` lists the ids")),
    }
}

/// The folder of the keys, where the config gives none.
fn of_files<'a>(config: &'a Config, instead: &str) -> Result<&'a Path, CommandFailure> {
    if config.handoff.seal_keys.is_empty() {
        return Ok(config.seal_key_dir());
    }
    let message = "the seal keys are given in the config (handoff.seal_key)";
    Err(Exit::USAGE
        .failure(message)
        .help(format!("{instead}, then restart each proxy in turn")))
}

fn unreadable(error: StoreError) -> CommandFailure {
    Exit::NO_INPUT.failure(visible(&error.message))
}

fn unwritten(error: StoreError) -> CommandFailure {
    Exit::CANNOT_CREATE.failure(visible(&error.message))
}
