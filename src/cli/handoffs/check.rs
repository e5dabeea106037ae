//! `baton handoffs check`, and the summary of `show --for`: the contents of a file, and whether they are still true.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::files::session_here;
use super::lookup::{HandoffLookup, warn};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::{CheckHandoffArgs, ShowArgs};
use crate::cli::output::{Out, shown, visible};
use crate::state::config::Config;
use crate::state::files::yaml_files::gather::compared;
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
    let purpose = args
        .purpose
        .as_deref()
        .and_then(RecoveryPurpose::named)
        .unwrap_or_default();
    let text = recovered(&found.file, purpose);
    let dir = repository(args.git_dir.as_deref(), &names.config);
    let (drift, is_compared) = compared(&found.file, Some(dir), LIMIT);
    if args.json {
        out.json(&json!({
            "path": found.path,
            "text": text,
            "drift": drift,
            "drifted": drift.is_drift(),
            "compared": is_compared,
        }))?;
        return Ok(());
    }
    out.line(visible(&text))?;
    if purpose != RecoveryPurpose::Compact {
        let line = match is_compared {
            true => drift.line(),
            false => uncompared(&drift, dir),
        };
        out.line(visible(&line))?;
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
        return Err(names.nothing(name));
    };
    let dir = repository(args.git_dir.as_deref(), &names.config);
    let (drift, is_compared) = compared(&found.file, Some(dir), LIMIT);
    if !is_compared {
        let failure = Exit::NO_INPUT.failure(format!("{}; nothing was compared", no_repository(dir)));
        return Err(failure.help("give the repository that the handoff is about: --git-dir DIR"));
    }
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
        out.line(visible(&drift.line()))?;
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
    let listing = names.folder.latest(session)?;
    warn(&listing.warnings);
    Ok(listing.found)
}

/// The folder that a handoff is compared with.
fn repository<'a>(git_dir: Option<&'a Path>, config: &'a Config) -> &'a Path {
    let dir = git_dir.or(config.documents.git_dir.as_deref());
    dir.unwrap_or(Path::new("."))
}

fn no_repository(dir: &Path) -> String {
    match dir == Path::new(".") {
        true => "the working directory is no Git repository".to_owned(),
        false => format!("{} is no Git repository", shown(dir)),
    }
}

/// The line that says that the handoff was compared with nothing.
fn uncompared(drift: &Drift, dir: &Path) -> String {
    let why = no_repository(dir);
    match drift.age() {
        Some(age) => format!("Not compared: {why}; {age}"),
        None => format!("Not compared: {why}"),
    }
}
