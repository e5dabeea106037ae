//! `baton packets recover` and `check`: what a file says, and whether that is still true.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::common::{failure, folder, warn};
use crate::cli::exit::{Exit, Failure};
use crate::cli::handoff_file_args::{CheckArgs, RecoverArgs};
use crate::cli::output::{Out, visible};
use crate::config::Config;
use crate::handoff_files::gather::Asker;
use crate::handoff_files::{Found, HandoffFolder, now, read_file};
use crate::packet::ntm::{Drift, Purpose, names, recover as recovered, score};

/// Time for all that git is asked.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) fn recover(args: &RecoverArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, config) = folder(&args.folder)?;
    let here = match args.here {
        true => session_here(),
        false => args.session.clone(),
    };
    let listing = folder.latest(here.as_deref()).map_err(failure)?;
    warn(&listing.warnings);
    let Some(found) = listing.found else {
        if args.json {
            out.json(&json!({"path": null, "text": "", "drift": null}))?;
        }
        return Ok(());
    };
    let purpose = Purpose::ALL.iter().find(|(name, _)| *name == args.purpose);
    let purpose = purpose.map_or(Purpose::default(), |(_, purpose)| *purpose);
    let text = recovered(&found.file, purpose);
    let drift = drift(&found, args.git_dir.as_ref(), &config);
    if args.json {
        out.json(&json!({"path": found.path, "text": text, "drift": drift, "drifted": drift.is_drift()}))?;
        return Ok(());
    }
    out.line(format_args!("{}", visible(&text)))?;
    if purpose != Purpose::Compact {
        out.line(format_args!("{}", visible(&drift.line())))?;
    }
    Ok(())
}

/// The session that is named after the working directory.
fn session_here() -> Option<String> {
    let dir = std::env::current_dir().ok()?;
    Some(names::session_of(&dir.file_name()?.to_string_lossy()))
}

pub(super) fn run(args: &CheckArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, config) = folder(&args.folder)?;
    let Some(found) = found(&folder, args.what.as_deref())? else {
        return Err(Failure::new(Exit::NO_INPUT, "no handoff file to check"));
    };
    let drift = drift(&found, args.git_dir.as_ref(), &config);
    if args.json {
        let quality = score(&found.file, now()).to_value().to_json();
        out.json(&json!({
            "path": found.path,
            "drifted": drift.is_drift(),
            "drift": drift,
            "quality": quality,
            "errors": found.errors,
        }))?;
    } else {
        out.line(format_args!("{}", visible(&drift.line())))?;
    }
    match drift.is_drift() {
        true => Err(Failure::silent(Exit::DRIFT)),
        false => Ok(()),
    }
}

/// A session's newest file, a file, or the newest of all.
fn found(folder: &HandoffFolder, what: Option<&Path>) -> Result<Option<Found>, Failure> {
    let session = what.and_then(Path::to_str);
    if what.is_some() && !session.is_some_and(names::is_session) {
        let path = folder.named(what.unwrap_or(Path::new("")));
        return read_file(&path).map(Some).map_err(failure);
    }
    let listing = folder.latest(session).map_err(failure)?;
    warn(&listing.warnings);
    Ok(listing.found)
}

fn drift(found: &Found, git_dir: Option<&PathBuf>, config: &Config) -> Drift {
    let here = PathBuf::from(".");
    let dir = git_dir.or(config.packets.git_dir.as_ref()).unwrap_or(&here);
    let asker = Asker {
        dir,
        until: Instant::now() + LIMIT,
    };
    Drift::of(&found.file, asker.since(&found.file).as_ref(), now())
}
