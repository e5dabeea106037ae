//! `baton handoffs list --follow`: a line of JSON for each handoff that is new or has another status.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;

use super::lookup::{HandoffLookup, all, blocking};
use crate::cli::exit::CommandFailure;
use crate::cli::output::Out;
use crate::cli::stored::open;
use crate::state::files::documents::document_of;
use baton_core::handoffs::document::fields::HandoffKind;
use baton_core::record::{DocumentRecord, HandoffId, HandoffStatus};

/// Pause between two reads of the store.
const PAUSE: Duration = Duration::from_millis(500);

/// A handoff whose status is reported. The names are API.
#[derive(Serialize)]
struct StatusReport {
    id: String,
    status: &'static str,
    kind: Option<HandoffKind>,
    created_ms: u64,
    repository: String,
    branch: String,
    topic: String,
    next_action: Option<String>,
    parent: Option<String>,
    folder: String,
}

impl StatusReport {
    fn of(record: &DocumentRecord) -> Self {
        let document = document_of(record);
        Self {
            id: record.handoff.to_string(),
            status: record.status.name(),
            kind: document.as_ref().map(|document| document.kind),
            created_ms: record.created_ms,
            repository: record.repository.clone(),
            branch: record.branch.clone(),
            topic: record.topic.clone(),
            parent: document
                .as_ref()
                .and_then(|document| Some(document.parent?.to_string())),
            next_action: document.and_then(|document| document.next_action),
            folder: record.folder.clone(),
        }
    }
}

pub(super) fn run(lookup: &HandoffLookup, out: &mut Out) -> Result<(), CommandFailure> {
    blocking(&lookup.config, async |mut store| {
        let mut known: Option<HashMap<HandoffId, HandoffStatus>> = None;
        loop {
            let documents = all(&store, false).await?;
            for record in documents.iter().rev() {
                let is_new = known
                    .as_ref()
                    .is_some_and(|known| known.get(&record.handoff) != Some(&record.status));
                if is_new {
                    out.json_line(&StatusReport::of(record))?;
                }
            }
            if documents.is_empty() {
                // If nothing is stored yet, there is no file to open.
                store = open(&lookup.config)?;
            }
            let statuses = documents.iter().map(|record| (record.handoff, record.status));
            known = Some(statuses.collect());
            tokio::time::sleep(PAUSE).await;
        }
    })
}
