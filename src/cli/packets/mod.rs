//! `baton packets`: the documents of handoffs, read from the store, and handoff files. What a name means is looked up in
//! [`super::packet_names`], so that every command takes either kind or says what to type.

mod list;
mod validate;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use self::list::Row;
use super::exit::{Exit, Failure};
use super::handoff_file_args::Format;
use super::handoff_files;
use super::load_state;
use super::output::{Out, plural, visible};
use super::packet_args::{
    PacketArchiveArgs, PacketForm, PacketLatestArgs, PacketShowArgs, PacketWatchArgs, PacketsCommand,
};
use super::packet_names::{Named, Names, all, blocking, is_session, one, other_version, read_packet};
use super::stored::{open, unanswered};
use crate::state::files::documents::{self, packet_of};
use crate::state::store::{PacketFilter, SharedStore};
use baton_core::handoffs::document::fields::Packet;
use baton_core::handoffs::yaml::HandoffFile;
use baton_core::record::{Handoff, HandoffId, PacketRecord, PacketStatus};

pub(super) fn run(command: &PacketsCommand, out: &mut Out) -> Result<(), Failure> {
    match command {
        PacketsCommand::List(args) => {
            let names = Names::of(&args.folder)?;
            match args.files || args.sessions || args.session.is_some() {
                true => handoff_files::list(args, &names, out),
                false => list::list(args, &names, out),
            }
        }
        PacketsCommand::Show(args) => show(args, out),
        PacketsCommand::Latest(args) => latest(args, out),
        PacketsCommand::Validate(args) => validate::run(args, out),
        PacketsCommand::Archive(args) => archive(args, out),
        PacketsCommand::Watch(args) => watch(args, out),
        PacketsCommand::Create(_)
        | PacketsCommand::Recover(_)
        | PacketsCommand::Line(_)
        | PacketsCommand::Check(_)
        | PacketsCommand::Delete(_)
        | PacketsCommand::Clean(_)
        | PacketsCommand::Ledger(_)
        | PacketsCommand::Transfer(_) => handoff_files::run(command, out),
    }
}

fn show(args: &PacketShowArgs, out: &mut Out) -> Result<(), Failure> {
    let names = Names::of(&args.folder)?;
    let (form, format) = (args.form, args.format);
    match names.find(&args.id)? {
        Named::Packet(record) => print_record(&record, form, format, out),
        Named::Json(path) => print(
            path.parent().unwrap_or(&path),
            &read_packet(&path)?,
            form,
            format,
            out,
        ),
        Named::File(path) => handoff_files::show(&path, form, format, out),
        Named::Session(session) => Err(is_session(&session)),
    }
}

fn latest(args: &PacketLatestArgs, out: &mut Out) -> Result<(), Failure> {
    let names = Names::of(&args.folder)?;
    if args.files || args.session.is_some() {
        return handoff_files::latest(args, &names, out);
    }
    let newest = PacketFilter {
        status: Some(PacketStatus::Active),
        topic: args.topic.clone(),
        limit: 1,
        ..PacketFilter::default()
    };
    let (newest, stored) = blocking(&names.config, async |store| {
        let newest = store.packets(&newest).await.map_err(unanswered)?.pop();
        Ok((newest, all(&store, true).await?.len()))
    })?;
    let Some(newest) = newest else {
        let mut help = Vec::new();
        if stored > 0 {
            help.push(format!(
                "all {}: baton packets list --all",
                plural(stored as u64, "packet")
            ));
        }
        help.extend(
            names
                .files_told()
                .map(|told| format!("{told}, or latest --files")),
        );
        let failure = Failure::new(Exit::NO_INPUT, "no active packet");
        return Err(match help.is_empty() {
            true => failure,
            false => failure.help(help.join("; ")),
        });
    };
    print_record(&newest, args.form, args.format, out)
}

fn print_record(
    record: &PacketRecord,
    form: PacketForm,
    format: Option<Format>,
    out: &mut Out,
) -> Result<(), Failure> {
    if form.path {
        return Ok(out.line(format_args!("{}", visible(&record.folder)))?);
    }
    let packet = packet_of(record).ok_or_else(|| other_version(record))?;
    print(Path::new(&record.folder), &packet, form, format, out)
}

/// Prints a packet: as Markdown, unless another form is asked for. Its YAML is the handoff file that it makes.
fn print(
    folder: &Path,
    packet: &Packet,
    form: PacketForm,
    format: Option<Format>,
    out: &mut Out,
) -> Result<(), Failure> {
    if form.path {
        return Ok(out.line(format_args!("{}", visible(&folder.display().to_string())))?);
    }
    match (form.json, format) {
        (true, _) | (_, Some(Format::Json)) => out.document_json(&packet.json())?,
        (_, Some(Format::Yaml)) => out.document(&HandoffFile::of_packet(packet).to_yaml())?,
        (_, Some(Format::Markdown) | None) => out.document(&packet.markdown())?,
    }
    Ok(())
}

fn archive(args: &PacketArchiveArgs, out: &mut Out) -> Result<(), Failure> {
    let names = Names::of(&args.folder)?;
    let id = match names.find(&args.id)? {
        Named::Packet(record) => record.handoff,
        Named::Json(path) => read_packet(&path)?.id,
        Named::File(path) => return handoff_files::archive(&path, args.undo, &names, out),
        Named::Session(session) => return Err(is_session(&session)),
    };
    let status = match args.undo {
        true => PacketStatus::Active,
        false => PacketStatus::Archived,
    };
    let superseded = blocking(&names.config, async |store| {
        let record = one(&store, id).await?;
        if !args.undo && record.status == PacketStatus::Archived {
            return Err(Failure::new(Exit::USAGE, "it is archived already"));
        }
        let done = documents::set_status(&store, &record.principal, id, status).await;
        let done = done.map_err(|error| Failure::new(Exit::UNAVAILABLE, visible(&error.to_string())))?;
        let done = done.ok_or_else(|| Failure::new(Exit::NO_INPUT, "it is no longer there"))?;
        Ok(done.superseded)
    })?;
    out.line(format_args!("{}: {id}", status.name()))?;
    for id in superseded {
        out.line(format_args!("superseded: {id}"))?;
    }
    Ok(())
}

fn watch(args: &PacketWatchArgs, out: &mut Out) -> Result<(), Failure> {
    let config = load_state(&args.state)?;
    let pause = Duration::try_from_secs_f64(args.every.clamp(0.05, 3600.0)).unwrap_or(Duration::from_secs(1));
    blocking(&config, async |mut store| {
        let mut known: Option<HashMap<HandoffId, PacketStatus>> = None;
        loop {
            let packets = all(&store, false).await?;
            for record in packets.iter().rev() {
                let is_new = known
                    .as_ref()
                    .is_some_and(|known| known.get(&record.handoff) != Some(&record.status));
                if is_new {
                    out.json_line(&Row::of(record))?;
                }
            }
            if packets.is_empty() {
                // Nothing may be stored yet: then what was opened is no file.
                store = open(&config)?;
            }
            let statuses = packets.iter().map(|record| (record.handoff, record.status));
            known = Some(statuses.collect());
            tokio::time::sleep(pause).await;
        }
    })
}

/// The packet as its handoff's commands show it: status and folder.
pub(super) async fn of_handoff(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
) -> Option<(PacketRecord, Option<Packet>)> {
    let record = documents::find(store, principal, id).await.ok()??;
    let packet = packet_of(&record);
    Some((record, packet))
}

/// All packets by their handoffs, without their documents.
pub(super) async fn of_all(store: &SharedStore) -> Result<HashMap<HandoffId, PacketRecord>, Failure> {
    let all = PacketFilter {
        without_documents: true,
        ..PacketFilter::default()
    };
    let packets = store.packets(&all).await.map_err(unanswered)?;
    Ok(packets
        .into_iter()
        .map(|packet| (packet.handoff, packet))
        .collect())
}

/// What archiving a handoff, or taking it out again, does to its packet. One that is taken out again comes up by its id
/// alone, until somebody resumes it.
pub(super) async fn follow_archiving(
    store: &SharedStore,
    handoff: &Handoff,
    undo: bool,
) -> Result<(), Failure> {
    let status = match undo {
        true => PacketStatus::Superseded,
        false => PacketStatus::Archived,
    };
    let done = documents::set_status(store, &handoff.principal, handoff.id, status).await;
    done.map_err(|error| Failure::new(Exit::UNAVAILABLE, visible(&error.to_string())))?;
    Ok(())
}

/// Makes the packet of a handoff that is resumed active again, and says so.
pub(super) async fn resume(store: &SharedStore, handoff: &Handoff) -> Result<(), Failure> {
    let active = PacketStatus::Active;
    let done = documents::set_status(store, &handoff.principal, handoff.id, active).await;
    let done = done.map_err(|error| Failure::new(Exit::UNAVAILABLE, visible(&error.to_string())))?;
    if let Some(done) = done.filter(|done| done.before != active) {
        let mut out = Out::stderr();
        out.line(format_args!(
            "baton: its packet was {}; it is active again",
            done.before.name()
        ))?;
        for id in done.superseded {
            out.line(format_args!("baton: superseded: {id}"))?;
        }
    }
    Ok(())
}
