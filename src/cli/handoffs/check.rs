//! `baton handoffs check`, and the summary of `show --for`: the contents of a file, and whether they are still true.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::files::session_here;
use super::lookup::{HandoffLookup, failure, warn};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::{CheckHandoffArgs, ShowArgs};
use crate::cli::output::{Out, visible};
use crate::state::config::Config;
use crate::state::files::yaml_files::gather::drift_in;
use crate::state::files::yaml_files::{HandoffYaml, now};
use baton_core::handoffs::yaml::{Drift, RecoveryPurpose, recover as recovered, score};

/// Time for all queries to git.
const LIMIT: Duration = Duration::from_secs(20);

/// Prints a summary of a handoff file, and whether it is still true.
pub(super) fn summary(args: &ShowArgs, names: &HandoffLookup, out: &mut Out) -> Result<(), CommandFailure> {
    let found = match (args.here, &args.name) {
        (true, _) => newest(names, session_here().as_deref())?,
        (false, name) => found(names, name.as_deref())?,
    };
    let Some(found) = found else {
        if args.json {
            out.json(&json!({"path": null, "text": "", "drift": null}))?;
        }
        return Ok(());
    };
    let purpose = RecoveryPurpose::ALL
        .iter()
        .find(|(name, _)| Some(*name) == args.purpose.as_deref());
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

pub(super) fn run(args: &CheckHandoffArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let names = HandoffLookup::of(&args.folder)?;
    let name = match &args.names[..] {
        [] => None,
        [name] => Some(name.as_str()),
        _ => {
            let message = "one handoff at a time is compared with the repository";
            return Err(Exit::USAGE.failure(message).help("--syntax checks any number"));
        }
    };
    let Some(found) = found(&names, name)? else {
        return Err(Exit::NO_INPUT
            .failure("nothing to check")
            .help("`baton handoffs list` lists handoffs, `baton handoffs list --files` their files"));
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
        true => Err(Exit::DRIFT.silent()),
        false => Ok(()),
    }
}

/// A session's newest file, a file, a handoff of the store as the file that it makes, or the newest file of all.
fn found(names: &HandoffLookup, what: Option<&str>) -> Result<Option<HandoffYaml>, CommandFailure> {
    match what {
        Some(what) => names.find_file(what),
        None => newest(names, None),
    }
}

fn newest(names: &HandoffLookup, session: Option<&str>) -> Result<Option<HandoffYaml>, CommandFailure> {
    let listing = names.folder.latest(session).map_err(failure)?;
    warn(&listing.warnings);
    Ok(listing.found)
}

fn drift(found: &HandoffYaml, git_dir: Option<&PathBuf>, config: &Config) -> Drift {
    let here = PathBuf::from(".");
    let dir = git_dir.or(config.documents.git_dir.as_ref()).unwrap_or(&here);
    drift_in(&found.file, Some(dir), LIMIT)
}
