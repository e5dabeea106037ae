//! `baton packets list`: packets, and what else there is.

use serde::Serialize;

use crate::cli::exit::Failure;
use crate::cli::output::{Out, age, first_line, table};
use crate::cli::packet_args::PacketListArgs;
use crate::cli::packet_names::{Names, all, blocking};
use crate::cli::stored::{now_ms, unanswered};
use crate::state::files::documents::packet_of;
use crate::state::store::PacketFilter;
use baton_core::handoffs::document::fields::{NO_NEXT_ACTION, PacketKind};
use baton_core::record::{PacketRecord, PacketStatus};

/// Packets of a list.
const LISTED: usize = 20;

/// A packet in a list. The names are API.
#[derive(Serialize)]
pub(super) struct Row {
    id: String,
    status: &'static str,
    kind: Option<PacketKind>,
    created_ms: u64,
    repository: String,
    branch: String,
    topic: String,
    next_action: Option<String>,
    parent: Option<String>,
    folder: String,
}

impl Row {
    pub(super) fn of(record: &PacketRecord) -> Self {
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

pub(super) fn list(args: &PacketListArgs, names: &Names, out: &mut Out) -> Result<(), Failure> {
    let filter = PacketFilter {
        status: (!args.all).then_some(PacketStatus::Active),
        topic: args.topic.clone(),
        limit: args.limit.unwrap_or(LISTED),
        ..PacketFilter::default()
    };
    let (packets, stored) = blocking(&names.config, async |store| {
        let packets = store.packets(&filter).await.map_err(unanswered)?;
        Ok((packets, all(&store, true).await?.len()))
    })?;
    let rows: Vec<Row> = packets.iter().map(Row::of).collect();
    if args.format.is_for_programs() {
        return Ok(out.rows(&rows, args.format)?);
    }
    for line in lines(&rows) {
        out.line(format_args!("{line}"))?;
    }
    // To standard error: scripts read packets from standard output.
    let mut beside = Out::stderr();
    match (rows.is_empty(), stored) {
        (false, _) => {}
        (true, 0) => beside.line(format_args!("no packets yet"))?,
        (true, n) => beside.line(format_args!(
            "no packet of that kind is active; all {n}: baton packets list --all"
        ))?,
    }
    if let Some(files) = names.files_told() {
        beside.line(format_args!("{files}"))?;
    }
    Ok(())
}

fn lines(rows: &[Row]) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let heading = ["ID", "AGE", "STATUS", "BRANCH", "NEXT ACTION"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for row in rows {
        let next = row.next_action.as_deref().unwrap_or(NO_NEXT_ACTION);
        lines.push(vec![
            row.id.clone(),
            age(row.created_ms, now_ms()),
            row.status.to_owned(),
            first_line(if row.branch.is_empty() { "-" } else { &row.branch }, Some(24)),
            first_line(next, Some(80)),
        ]);
    }
    table(&lines)
}
