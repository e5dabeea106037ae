//! `baton handoffs archive` and `baton handoffs delete`.

use super::args::{ArchiveArgs, DeleteArgs};
use super::files;
use super::lookup::{HandoffLookup, NamedHandoff, blocking, read_document};
use crate::cli::exit::{CliResult, Exit};
use crate::cli::output::{Out, shown};
use crate::cli::stored::wanted;
use baton_core::record::{HandoffId, HandoffStatus};
use baton_state::clock::now_ms;
use baton_state::files::documents;

pub(super) fn run(args: &ArchiveArgs, out: &mut Out) -> CliResult {
    let lookup = HandoffLookup::new(&args.directory)?;
    match lookup.find(&args.name)? {
        NamedHandoff::Stored(id) => stored(args, id, &lookup, out),
        NamedHandoff::Document(path) => stored(args, read_document(&path)?.id, &lookup, out),
        NamedHandoff::File(path) => files::archive(&path, args.undo, &lookup, out),
        NamedHandoff::Session(session) => Err(files::is_session(&session)),
    }
}

/// Archives a handoff with its document, or takes both out of the archive.
fn stored(args: &ArchiveArgs, id: HandoffId, lookup: &HandoffLookup, out: &mut Out) -> CliResult {
    let (status, done) = match (args.undo, args.activate) {
        (false, _) => (HandoffStatus::Archived, "archived"),
        (true, true) => (HandoffStatus::Active, "active"),
        // Superseded, so that only its id finds it until it is resumed.
        (true, false) => (HandoffStatus::Superseded, "restored"),
    };
    let superseded = blocking(&lookup.config, async |store| {
        let handoff = wanted(&store, &id.to_string()).await?;
        if handoff.archived && !args.undo {
            return Err(Exit::USAGE.failure("the handoff is already archived"));
        }
        if !store.archive(&handoff.principal, handoff.id, !args.undo).await? {
            return Err(Exit::NO_INPUT.failure("the handoff no longer exists"));
        }
        let changed = documents::set_status(&store, &handoff.principal, handoff.id, status).await?;
        Ok(changed.map_or_else(Vec::new, |changed| changed.superseded))
    })?;
    out.line(format_args!("{done}: {id}"))?;
    for id in superseded {
        out.line(format_args!("superseded: {id}"))?;
    }
    Ok(())
}

pub(super) fn delete(args: &DeleteArgs, out: &mut Out) -> CliResult {
    let lookup = HandoffLookup::new(&args.directory)?;
    let file = match (&args.file, args.older_than) {
        (Some(file), _) => file,
        (None, Some(older_than)) => {
            let before = i64::try_from(older_than.at_ms(now_ms()) / 1000).unwrap_or(i64::MAX);
            return files::clean(before, args, &lookup, out);
        }
        (None, None) => {
            let failure = Exit::USAGE.failure("give FILE or --older-than AGE");
            return Err(failure.help("`baton handoffs list --files` lists the files"));
        }
    };
    let path = files::deletable(file, &lookup)?;
    lookup.directory.delete(&path)?;
    out.line(format_args!("deleted {}", shown(&path)))
}
