//! `baton packets`: the documents of handoffs. Reads the store directly.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::exit::{Exit, Failure};
use super::handoff_files;
use super::load_state;
use super::output::{Out, age, first_line, table, visible};
use super::packet_args::{
    PacketArchiveArgs, PacketForm, PacketLatestArgs, PacketListArgs, PacketShowArgs, PacketValidateArgs,
    PacketWatchArgs, PacketsCommand,
};
use super::stored::{find_id, now_ms, open, unanswered};
use crate::packet::fields::{Difference, Kind, NO_NEXT_ACTION, Packet, validate};
use crate::packet_files::{self, JSON, MARKDOWN, packet_of};
use crate::record::{Handoff, HandoffId, PacketRecord, PacketStatus};
use crate::store::{PacketFilter, SharedStore};

/// Packets of a list.
const LISTED: usize = 20;

pub(super) fn run(command: &PacketsCommand, out: &mut Out) -> Result<(), Failure> {
    if let Some(done) = handoff_files::run(command, out) {
        return done;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::SOFTWARE, error.to_string()))?;
    match command {
        PacketsCommand::List(args) => runtime.block_on(list(args, out)),
        PacketsCommand::Show(args) => runtime.block_on(show(args, out)),
        PacketsCommand::Latest(args) => runtime.block_on(latest(args, out)),
        PacketsCommand::Validate(args) => runtime.block_on(check(args, out)),
        PacketsCommand::Archive(args) => runtime.block_on(archive(args, out)),
        PacketsCommand::Watch(args) => runtime.block_on(watch(args, out)),
        // The others are about files alone.
        _ => Ok(()),
    }
}

/// A packet in a list. The names are API.
#[derive(Serialize)]
struct Row {
    id: String,
    status: &'static str,
    kind: Option<Kind>,
    created_ms: u64,
    repository: String,
    branch: String,
    topic: String,
    next_action: Option<String>,
    parent: Option<String>,
    folder: String,
}

impl Row {
    fn of(record: &PacketRecord) -> Self {
        let packet = packet_of(record);
        Self {
            id: record.handoff.to_string(),
            status: record.status.name(),
            kind: packet.as_ref().map(|packet| packet.kind),
            created_ms: record.created_ms,
            repository: record.repository.clone(),
            branch: record.branch.clone(),
            topic: record.topic.clone(),
            parent: packet
                .as_ref()
                .and_then(|packet| Some(packet.parent?.to_string())),
            next_action: packet.and_then(|packet| packet.next_action),
            folder: record.folder.clone(),
        }
    }
}

async fn list(args: &PacketListArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.folder.state)?)?;
    let filter = PacketFilter {
        status: (!args.all).then_some(PacketStatus::Active),
        topic: args.topic.clone(),
        limit: args.limit.unwrap_or(LISTED),
        ..PacketFilter::default()
    };
    let packets = store.packets(&filter).await.map_err(unanswered)?;
    let rows: Vec<Row> = packets.iter().map(Row::of).collect();
    if args.json {
        return Ok(out.json(&rows)?);
    }
    if rows.is_empty() {
        Out::stderr().line(format_args!("no packets yet"))?;
        return Ok(());
    }
    let mut lines = vec![
        ["ID", "AGE", "STATUS", "BRANCH", "NEXT ACTION"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for row in &rows {
        let next = row.next_action.as_deref().unwrap_or(NO_NEXT_ACTION);
        lines.push(vec![
            row.id.clone(),
            age(row.created_ms, now_ms()),
            row.status.to_owned(),
            first_line(if row.branch.is_empty() { "-" } else { &row.branch }, Some(24)),
            first_line(next, Some(80)),
        ]);
    }
    for line in table(&lines) {
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

async fn show(args: &PacketShowArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.folder.state)?)?;
    print(&wanted(&store, &args.id).await?, args.form, out)
}

async fn latest(args: &PacketLatestArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.folder.state)?)?;
    let newest = PacketFilter {
        status: Some(PacketStatus::Active),
        topic: args.topic.clone(),
        limit: 1,
        ..PacketFilter::default()
    };
    let newest = store.packets(&newest).await.map_err(unanswered)?.pop();
    let newest = newest.ok_or_else(|| Failure::new(Exit::NO_INPUT, "no active packet"))?;
    print(&newest, args.form, out)
}

fn print(record: &PacketRecord, form: PacketForm, out: &mut Out) -> Result<(), Failure> {
    if form.path {
        return Ok(out.line(format_args!("{}", visible(&record.folder)))?);
    }
    let packet = packet_of(record).ok_or_else(|| {
        Failure::new(
            Exit::DATA,
            format!("the packet {} is of another version", record.handoff),
        )
    })?;
    let text = match form.json {
        true => packet.json(),
        false => packet.markdown(),
    };
    Ok(out.body(text.as_bytes())?)
}

/// The packet with this id or unique id prefix.
async fn wanted(store: &SharedStore, id: &str) -> Result<PacketRecord, Failure> {
    let all = store
        .packets(&PacketFilter::default())
        .await
        .map_err(unanswered)?;
    let found = find_id(all.iter().map(|packet| packet.handoff), id, "packet")?;
    let mut matching = all.into_iter().filter(|packet| packet.handoff == found);
    matching
        .next()
        .ok_or_else(|| Failure::new(Exit::NO_INPUT, "it is no longer there"))
}

/// What is wrong with one packet's files. The names are API.
#[derive(Serialize)]
struct Checked {
    path: String,
    valid: bool,
    errors: Vec<Difference>,
}

async fn check(args: &PacketValidateArgs, out: &mut Out) -> Result<(), Failure> {
    let mut folders = Vec::new();
    for what in &args.what {
        if Path::new(what).exists() {
            folders.push(PathBuf::from(what));
        } else {
            let store = open(&load_state(&args.state)?)?;
            folders.push(PathBuf::from(wanted(&store, what).await?.folder));
        }
    }
    if args.what.is_empty() {
        let store = open(&load_state(&args.state)?)?;
        let all = store
            .packets(&PacketFilter::default())
            .await
            .map_err(unanswered)?;
        folders.extend(all.iter().map(|record| PathBuf::from(&record.folder)));
    }
    let checked: Vec<Checked> = folders.iter().map(|folder| checked(folder)).collect();
    if args.json {
        out.json(&checked)?;
    } else {
        for one in &checked {
            let path = visible(&one.path);
            match one.valid {
                true => out.line(format_args!("{path}: valid"))?,
                false => out.line(format_args!("{path}:"))?,
            }
            for error in &one.errors {
                let (field, message) = (visible(&error.field), visible(&error.message));
                out.line(format_args!("  {field}: {message}: {}", visible(&error.value)))?;
            }
        }
    }
    match checked.iter().filter(|one| !one.valid).count() {
        0 => Ok(()),
        count => Err(Failure::new(
            Exit::DATA,
            format!("{count} of {} are not valid", checked.len()),
        )),
    }
}

fn checked(path: &Path) -> Checked {
    let json = match path.is_dir() {
        true => path.join(JSON),
        false => path.to_owned(),
    };
    let errors = match fs::read_to_string(&json) {
        Ok(text) => {
            let markdown = fs::read_to_string(json.with_file_name(MARKDOWN));
            // A JSON file of another name stands alone.
            let beside = json.file_name().is_some_and(|name| name == JSON);
            let markdown = match markdown {
                Ok(text) if beside => Some(text),
                _ if beside => Some(String::new()),
                _ => None,
            };
            validate(&text, markdown.as_deref())
        }
        Err(error) => vec![Difference {
            field: JSON.to_owned(),
            message: error.to_string(),
            value: String::new(),
        }],
    };
    Checked {
        path: path.display().to_string(),
        valid: errors.is_empty(),
        errors,
    }
}

async fn archive(args: &PacketArchiveArgs, out: &mut Out) -> Result<(), Failure> {
    let store = open(&load_state(&args.folder.state)?)?;
    let record = wanted(&store, &args.id).await?;
    if !args.undo && record.status == PacketStatus::Archived {
        return Err(Failure::new(Exit::USAGE, "it is archived already"));
    }
    let status = match args.undo {
        true => PacketStatus::Active,
        false => PacketStatus::Archived,
    };
    let done = packet_files::set_status(&store, &record.principal, record.handoff, status).await;
    let done = done.map_err(|error| Failure::new(Exit::UNAVAILABLE, visible(&error.to_string())))?;
    let done = done.ok_or_else(|| Failure::new(Exit::NO_INPUT, "it is no longer there"))?;
    out.line(format_args!("{}: {}", status.name(), record.handoff))?;
    for id in done.superseded {
        out.line(format_args!("superseded: {id}"))?;
    }
    Ok(())
}

async fn watch(args: &PacketWatchArgs, out: &mut Out) -> Result<(), Failure> {
    let config = load_state(&args.state)?;
    let pause = Duration::try_from_secs_f64(args.every.clamp(0.05, 3600.0)).unwrap_or(Duration::from_secs(1));
    let mut known: Option<HashMap<HandoffId, PacketStatus>> = None;
    let mut store = open(&config)?;
    loop {
        let packets = store
            .packets(&PacketFilter::default())
            .await
            .map_err(unanswered)?;
        for record in packets.iter().rev() {
            let is_new = known
                .as_ref()
                .is_some_and(|known| known.get(&record.handoff) != Some(&record.status));
            if is_new {
                let line = serde_json::to_string(&Row::of(record));
                out.line(format_args!("{}", line.unwrap_or_default()))?;
            }
        }
        if packets.is_empty() {
            // Nothing may be stored yet: then what was opened is no file.
            store = open(&config)?;
        }
        known = Some(
            packets
                .iter()
                .map(|record| (record.handoff, record.status))
                .collect(),
        );
        tokio::time::sleep(pause).await;
    }
}

/// The packet as its handoff's commands show it: status and folder.
pub(super) async fn of_handoff(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
) -> Option<(PacketRecord, Option<Packet>)> {
    let record = packet_files::find(store, principal, id).await.ok()??;
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
    let done = packet_files::set_status(store, &handoff.principal, handoff.id, status).await;
    done.map_err(|error| Failure::new(Exit::UNAVAILABLE, visible(&error.to_string())))?;
    Ok(())
}

/// Makes the packet of a handoff that is resumed active again, and says so.
pub(super) async fn resume(store: &SharedStore, handoff: &Handoff) -> Result<(), Failure> {
    let active = PacketStatus::Active;
    let done = packet_files::set_status(store, &handoff.principal, handoff.id, active).await;
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
