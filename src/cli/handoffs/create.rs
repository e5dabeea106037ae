//! The `baton handoffs create` command: writes a handoff file.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::args::{CreateArgs, DocumentFormat};
use super::at_exit::HookedSession;
use super::files::print;
use super::lookup::{HandoffLookup, warn};
use super::sources;
use crate::cli::exit::{CliResult, CommandFailure, Exit};
use crate::cli::output::{self, Out, shown};
use baton_core::handoffs::yaml::time::Time;
use baton_core::handoffs::yaml::{HandoffFile, names, score};
use baton_state::config::Config;
use baton_state::files::yaml_files::gather::GitRunner;
use baton_state::files::yaml_files::{FileError, FileNaming, HandoffDirectory, now, write_text, write_to};

/// Time limit for a file that a user makes.
const LIMIT: Duration = Duration::from_secs(60);

/// Fraction of a time limit that is reserved for writing, as its denominator.
const FOR_WRITING: u32 = 6;

pub(super) fn run(args: &CreateArgs, out: &mut Out) -> CliResult {
    let mut limit = LIMIT;
    if args.auto {
        limit = Duration::from_secs(args.within.into());
        // First, because even reading standard input may never end.
        end_after(limit);
    }
    let until = Instant::now() + limit - limit / FOR_WRITING;
    let has_source = args.output.is_some()
        || args.session_file.is_some()
        || args.conversation.is_some()
        || args.from_file.is_some()
        || args.hook;
    let is_given = args.goal.is_some() && args.now.is_some();
    // A program that reads JSON cannot answer questions.
    if args.json && !has_source && !args.auto && !is_given {
        let message = "--json asks no questions: give --goal and --now, or a source";
        return Err(Exit::USAGE.failure(message));
    }
    let HandoffLookup { directory, config } = HandoffLookup::new(&args.directory)?;
    let mut file = given(args)?;
    let sourced = sources::fill(args, &config, until, &mut file)?;
    let worked_in = sourced.directory.as_deref();
    let session = HookedSession::new(args, &config, sourced.handoff, &mut file);
    // The session's own time, because its document has a file of that time already.
    let at = session.as_ref().map_or_else(now, HookedSession::made);
    if !has_source && !args.auto && !is_given {
        ask(&mut file)?;
    }
    if let Some(max) = args.tokens_max {
        file.set_tokens(args.tokens_used.unwrap_or(file.tokens_used), max);
    }
    if !args.alone {
        enrich(args, &config, worked_in, until, &mut file);
    }
    transfer(args, &config, worked_in, at, &mut file)?;
    file.infer_status();
    if args.auto && !leave_nothing_open(&mut file) {
        // Not an error, because hooks run in sessions without work as well.
        return Out::stderr().line("nothing to hand off yet");
    }
    if file.session.is_empty() {
        file.session = file.session_name().to_owned();
    }
    // Last, so that it covers all sources.
    file.redact(&config.redactor());
    file.prepare(at);
    file.quality = Some(score(&file, at).brief());
    let path = write(args, &directory, &mut file, at, out)?;
    if let Some(session) = session {
        session.leave(&config);
    }
    print_created(args, path.as_deref(), &file, out)
}

/// Ends the process after this time, even if standard input is never closed or a file system does not answer.
///
/// Files are written in one step, so none is left incomplete.
fn end_after(limit: Duration) {
    thread::spawn(move || {
        thread::sleep(limit);
        let late = Exit::UNAVAILABLE.failure(format!("timed out after {} s", limit.as_secs()));
        output::report(&late);
        std::process::exit(Exit::UNAVAILABLE.code());
    });
}

/// Fills goal and next step, because a hook cannot ask the user.
///
/// Returns `false` if the file has no content to fill them from.
fn leave_nothing_open(file: &mut HandoffFile) -> bool {
    if file.goal.is_empty() && file.now.is_empty() && file.blockers.is_empty() {
        return false;
    }
    if file.goal.is_empty() {
        "Work in progress".clone_into(&mut file.goal);
    }
    if file.now.is_empty() {
        "Nothing was left open: ask the user what comes next".clone_into(&mut file.now);
    }
    true
}

/// Creates a file with the fields that the arguments give.
fn given(args: &CreateArgs) -> CliResult<HandoffFile> {
    let text = |given: &Option<String>| given.clone().unwrap_or_default();
    let mut file = HandoffFile {
        session: args.session.clone(),
        goal: text(&args.goal),
        now: text(&args.now),
        test: text(&args.test),
        status: text(&args.status),
        outcome: text(&args.outcome),
        blockers: args.blocker.clone(),
        next: args.next.clone(),
        questions: args.question.clone(),
        agent_id: text(&args.agent),
        agent_type: text(&args.agent_type),
        pane_id: text(&args.pane),
        ..HandoffFile::default()
    };
    for decision in &args.decision {
        let Some((what, why)) = pair(decision) else {
            let message = format!("--decision {decision:?} is not WHAT=WHY");
            return Err(Exit::USAGE.failure(message));
        };
        file.decisions.insert(what, why);
    }
    Ok(file)
}

fn pair(text: &str) -> Option<(String, String)> {
    let (what, why) = text.split_once('=')?;
    let (what, why) = (what.trim(), why.trim());
    (!what.is_empty() && !why.is_empty()).then(|| (what.to_owned(), why.to_owned()))
}

/// Asks the user for the most important fields.
fn ask(file: &mut HandoffFile) -> CliResult {
    let mut err = Out::stderr();
    let mut lines = std::io::stdin().lock().lines();
    let mut answer = |question: &str| -> CliResult<String> {
        err.line(question)?;
        let line = lines.next().transpose()?.unwrap_or_default();
        Ok(line.trim().to_owned())
    };
    if file.goal.is_empty() {
        file.goal = answer("What was accomplished?")?;
    }
    if file.now.is_empty() {
        file.now = answer("What should the next session do first?")?;
    }
    if file.blockers.is_empty() {
        loop {
            match answer("What blocks the work? (empty line to continue)")? {
                line if line.is_empty() => break,
                line => file.blockers.push(line),
            }
        }
    }
    loop {
        match answer("What was decided, and why? (what=why; empty line to continue)")? {
            line if line.is_empty() => return Ok(()),
            line => file.decisions.extend(pair(&line)),
        }
    }
}

/// Sets how the agent's reservations are transferred. Agent Mail adds the reservations themselves.
fn transfer(
    args: &CreateArgs,
    config: &Config,
    worked_in: Option<&Path>,
    at: Time,
    file: &mut HandoffFile,
) -> CliResult {
    if args.project.is_none() && args.transfer_ttl.is_none() && args.transfer_grace.is_none() {
        return Ok(());
    }
    let mut transfer = file.reservation_transfer.take().unwrap_or_default();
    if transfer.from_agent.is_empty() {
        transfer.from_agent.clone_from(&file.agent_id);
    }
    if let Some(project) = &args.project {
        transfer.project_key.clone_from(project);
    } else if transfer.project_key.is_empty() {
        let dir = git_dir(args, config, worked_in).map_or_else(std::env::current_dir, std::path::absolute)?;
        transfer.project_key = dir.to_string_lossy().into_owned();
    }
    transfer.ttl_seconds = args.transfer_ttl.unwrap_or(transfer.ttl_seconds);
    transfer.grace_period_seconds = args.transfer_grace.unwrap_or(transfer.grace_period_seconds);
    if transfer.created_at.is_empty() {
        transfer.created_at = at.rfc3339();
    }
    file.reservation_transfer = Some(transfer);
    Ok(())
}

/// Returns the repository of the session.
///
/// The first of these that is set: the argument, the directory that the session worked in, the configured repository,
/// the working directory.
fn git_dir<'a>(args: &'a CreateArgs, config: &'a Config, worked_in: Option<&'a Path>) -> Option<&'a Path> {
    let configured = config.documents.git_dir.as_deref();
    match (&args.git_dir, worked_in) {
        (Some(dir), _) => Some(dir),
        // A directory that is not on this machine gives none: another repository's state would be wrong.
        (None, Some(dir)) => Some(dir).filter(|dir| dir.is_dir()),
        (None, None) => Some(configured.unwrap_or(Path::new("."))),
    }
}

/// Adds the state that git and beads report. Both are queried concurrently.
fn enrich(
    args: &CreateArgs,
    config: &Config,
    worked_in: Option<&Path>,
    until: Instant,
    file: &mut HandoffFile,
) {
    let dir = git_dir(args, config, worked_in);
    let agent = Some(file.agent_id.as_str()).filter(|name| !name.is_empty());
    let (git, beads) = thread::scope(|scope| {
        let asker = |dir| GitRunner { dir, until };
        let git = scope.spawn(move || dir.and_then(|dir| asker(dir).git_state()));
        let beads = asker(dir.unwrap_or(Path::new("."))).beads(agent);
        (git.join().ok().flatten(), beads)
    });
    if let Some(git) = git {
        git.add_to(file);
    }
    if file.active_beads.is_empty() {
        file.active_beads = beads;
    }
}

/// Writes the file, and returns its path unless it was printed.
fn write(
    args: &CreateArgs,
    directory: &HandoffDirectory,
    file: &mut HandoffFile,
    at: Time,
    out: &mut Out,
) -> CliResult<Option<PathBuf>> {
    let Some(place) = &args.out else {
        let naming = match (args.auto, &args.description) {
            // Hooks may run more than once a minute, so their files are named by the second.
            (true, _) => FileNaming::Automatic,
            (false, Some(description)) => FileNaming::Manual(description.clone()),
            (false, None) => FileNaming::Manual(names::description_of_goal(&file.goal)),
        };
        let written = directory.write(file, &naming, at).map_err(unwritten)?;
        warn(&written.warnings);
        return Ok(Some(written.path));
    };
    if place.as_os_str() == "-" {
        // Writing to a file checks this as well.
        let errors = file.errors();
        if !errors.is_empty() {
            return Err(unwritten(FileError::Invalid(errors)));
        }
        print(file, args.format, out)?;
        return Ok(None);
    }
    match args.format {
        DocumentFormat::Yaml => write_to(file, place, at),
        DocumentFormat::Json => {
            let json = serde_json::to_string_pretty(&file.to_value().to_json()).unwrap_or_default();
            write_text(file, &(json + "\n"), place)
        }
        DocumentFormat::Md => write_text(file, &file.to_markdown(), place),
    }
    .map_err(unwritten)?;
    Ok(Some(place.clone()))
}

/// Failure to write a file, with the arguments for its missing fields.
fn unwritten(error: FileError) -> CommandFailure {
    let lacks = |name: &str| matches!(&error, FileError::Invalid(errors) if errors.iter().any(|one| one.field == name));
    let missing: Vec<_> = ["goal", "now"].into_iter().filter(|name| lacks(name)).collect();
    let failed = CommandFailure::from(error);
    match missing.is_empty() {
        true => failed,
        false => failed.help(format!("give --{}", missing.join(" and --"))),
    }
}

fn print_created(args: &CreateArgs, path: Option<&Path>, file: &HandoffFile, out: &mut Out) -> CliResult {
    if args.json {
        // These member names are public API.
        out.json(&json!({
            "success": true,
            "path": path,
            "session": file.session_name(),
            "goal": file.goal,
            "now": file.now,
            "status": file.status,
            "file_count": file.file_count(),
            "blocker_count": file.blockers.len(),
        }))?;
    } else if let Some(path) = path {
        out.line(shown(path))?;
    }
    Ok(())
}
