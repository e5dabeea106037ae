//! `baton packets recover` and `check`: what a file says, and whether that is still true.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::cli::exit::{Exit, Failure};
use crate::cli::handoff_file_args::{CheckArgs, RecoverArgs};
use crate::cli::output::{Out, visible};
use crate::cli::packet_names::Names;
use crate::cli::packet_names::{failure, warn};
use crate::state::config::Config;
use crate::state::files::yaml_files::gather::still_true;
use crate::state::files::yaml_files::{Found, now};
use baton_core::handoffs::yaml::{Drift, RecoveryPurpose, names, recover as recovered, score};

/// Time for all that git is asked.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) fn recover(args: &RecoverArgs, out: &mut Out) -> Result<(), Failure> {
    let names = Names::of(&args.folder)?;
    let found = match args.here {
        true => newest(&names, session_here().as_deref())?,
        false => found(&names, args.session.as_deref())?,
    };
    let Some(found) = found else {
        if args.json {
            out.json(&json!({"path": null, "text": "", "drift": null}))?;
        }
        return Ok(());
    };
    let purpose = RecoveryPurpose::ALL
        .iter()
        .find(|(name, _)| *name == args.purpose);
    let purpose = purpose.map_or(RecoveryPurpose::default(), |(_, purpose)| *purpose);
    let text = recovered(&found.file, purpose);
    let drift = drift(&found, args.git_dir.as_ref(), &names.config);
    if args.json {
        out.json(&json!({"path": found.path, "text": text, "drift": drift, "drifted": drift.is_drift()}))?;
        return Ok(());
    }
    out.line(format_args!("{}", visible(&text)))?;
    if purpose != RecoveryPurpose::Compact {
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
    let names = Names::of(&args.folder)?;
    let Some(found) = found(&names, args.what.as_deref())? else {
        return Err(Failure::new(Exit::NO_INPUT, "nothing to check")
            .help("`baton packets list` lists packets, `baton packets list --files` handoff files"));
    };
    let drift = drift(&found, args.git_dir.as_ref(), &names.config);
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

/// A session's newest file, a file, a packet as the file that it makes, or the newest file of all.
fn found(names: &Names, what: Option<&str>) -> Result<Option<Found>, Failure> {
    match what {
        Some(what) => names.find_file(what),
        None => newest(names, None),
    }
}

fn newest(names: &Names, session: Option<&str>) -> Result<Option<Found>, Failure> {
    let listing = names.folder.latest(session).map_err(failure)?;
    warn(&listing.warnings);
    Ok(listing.found)
}

fn drift(found: &Found, git_dir: Option<&PathBuf>, config: &Config) -> Drift {
    let here = PathBuf::from(".");
    let dir = git_dir.or(config.packets.git_dir.as_ref()).unwrap_or(&here);
    still_true(&found.file, Some(dir), LIMIT)
}
