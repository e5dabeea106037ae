//! `baton handoffs archive` and `delete`.

use super::documents;
use super::files;
use super::lookup::{HandoffLookup, NamedHandoff, blocking, read_document};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::{ArchiveArgs, DeleteArgs};
use crate::cli::output::{Out, shown};
use crate::cli::stored::wanted;
use crate::state::files::yaml_files::OldFiles;
use baton_core::record::{HandoffId, HandoffStatus};

pub(super) fn run(args: &ArchiveArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let lookup = HandoffLookup::of(&args.folder)?;
    match lookup.find(&args.name)? {
        NamedHandoff::Stored(id) => stored(args, id, &lookup, out),
        NamedHandoff::Document(path) => stored(args, read_document(&path)?.id, &lookup, out),
        NamedHandoff::File(path) => files::archive(&path, args.undo, &lookup, out),
        NamedHandoff::Session(session) => Err(files::is_session(&session)),
    }
}

/// Archives a handoff with its document, or takes both out of the archive.
fn stored(
    args: &ArchiveArgs,
    id: HandoffId,
    lookup: &HandoffLookup,
    out: &mut Out,
) -> Result<(), CommandFailure> {
    let status = match (args.undo, args.activate) {
        (false, _) => HandoffStatus::Archived,
        (true, true) => HandoffStatus::Active,
        // It is found by its id only, until it is resumed.
        (true, false) => HandoffStatus::Superseded,
    };
    let superseded = blocking(&lookup.config, async |store| {
        let handoff = wanted(&store, &id.to_string()).await?;
        if handoff.archived && !args.undo {
            return Err(Exit::USAGE.failure("it is archived already"));
        }
        let done = store.archive(&handoff.principal, handoff.id, !args.undo).await;
        if !done? {
            return Err(Exit::NO_INPUT.failure("it is no longer there"));
        }
        documents::set_status(&store, &handoff, status).await
    })?;
    let done = match (args.undo, args.activate) {
        (false, _) => "archived",
        (true, true) => "active",
        (true, false) => "taken out again",
    };
    out.line(format_args!("{done}: {id}"))?;
    for id in superseded {
        out.line(format_args!("superseded: {id}"))?;
    }
    Ok(())
}

pub(super) fn delete(args: &DeleteArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let lookup = HandoffLookup::of(&args.folder)?;
    let file = match (&args.file, args.older_than) {
        (Some(file), _) => file,
        (None, Some(older_than)) => {
            let old = OldFiles {
                older_than: older_than.as_secs(),
                archived: args.archived,
            };
            return files::clean(old, args.dry_run, &lookup, out);
        }
        (None, None) => {
            let failure = Exit::USAGE.failure("give FILE or --older-than AGE");
            return Err(failure.help("`baton handoffs list --files` lists the files"));
        }
    };
    let path = files::named(
        file,
        &lookup,
        "a handoff of the store is not deleted, since it can be resumed: `baton handoffs archive ID`",
    )?;
    lookup.folder.delete(&path)?;
    out.line(format_args!("deleted {}", shown(&path)))?;
    Ok(())
}
