//! Bulk operations on a store: copying it to another one, and checking its integrity.

use std::collections::{BTreeMap, HashSet};

use uuid::Uuid;

use super::records::{PlacedKind, RecordKind, StoredRecord};
use super::{Store, StoreResult};
use baton_core::record::HandoffId;

/// Maximum passes over a source that changes meanwhile. The copy ends after a second or later pass without
/// changes.
const PASSES: usize = 4;

/// Maximum number of problems listed individually.
const PROBLEMS_LISTED: usize = 100;

/// Number and size of the records of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordAmount {
    /// Number of records.
    pub records: u64,
    /// Bytes of their JSON.
    pub bytes: u64,
}

/// The result of a copy.
#[derive(Debug, Default)]
pub struct CopyReport {
    /// For each kind, the records of the source, and how many of them the target has.
    pub kinds: BTreeMap<RecordKind, (RecordAmount, u64)>,
    /// Records of the source that cannot be read: the id and the reason.
    pub unreadable: Vec<(String, String)>,
}

impl CopyReport {
    /// Whether the target has every record that could be read.
    pub fn is_whole(&self) -> bool {
        let mut kinds = self.kinds.values();
        kinds.all(|(source, target)| source.records == *target)
    }
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct StoreCheck {
    /// Records by kind.
    pub kinds: BTreeMap<RecordKind, RecordAmount>,
    /// Unreadable records and dangling references.
    pub problems: Vec<String>,
    /// Total number of problems. `problems` lists only the first ones.
    pub count: u64,
}

/// Copies all records. Both stores may be in use, and an interrupted copy can be repeated.
///
/// A record replaces an older one, never a newer one. A document superseded by a newer one in the target
/// becomes superseded there.
///
/// # Errors
/// Returns an error if a store cannot be read or written.
pub async fn copy(from: &dyn Store, to: &dyn Store) -> StoreResult<CopyReport> {
    let mut copied = CopyReport::default();
    for pass in 0..PASSES {
        // Each pass counts from zero, and the last one is reported.
        copied = CopyReport::default();
        let mut changed = 0;
        for kind in RecordKind::ALL {
            let (mut amount, mut there) = (RecordAmount::default(), 0);
            let mut next = Some(String::new());
            while let Some(after) = next {
                let page = from.page(kind, &after).await?;
                changed += to.import(&page.records).await?;
                for record in &page.records {
                    amount.records += 1;
                    amount.bytes += record.size();
                }
                // Counted by the target, so that the report does not rely on the result of the import.
                there += to.has(&page.records).await?;
                copied.unreadable.extend(page.unreadable);
                next = page.next;
            }
            copied.kinds.insert(kind, (amount, there));
        }
        // The first pass never ends the copy: records may have been written to pages that were already read.
        if changed == 0 && pass > 0 {
            break;
        }
    }
    Ok(copied)
}

/// Returns the ids of the records of a kind that cannot be read, each with the reason.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn unreadable(store: &dyn Store, kind: RecordKind) -> StoreResult<Vec<(String, String)>> {
    let (mut found, mut next) = (Vec::new(), Some(String::new()));
    while let Some(after) = next {
        let page = store.page(kind, &after).await?;
        found.extend(page.unreadable);
        next = page.next;
    }
    Ok(found)
}

/// Checks that every record is readable and that its references exist.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn check(store: &dyn Store) -> StoreResult<StoreCheck> {
    let mut checked = StoreCheck::default();
    let mut known: HashSet<(RecordKind, Uuid)> = HashSet::new();
    for kind in RecordKind::ALL {
        let mut amount = RecordAmount::default();
        let mut next = Some(String::new());
        while let Some(after) = next {
            let page = store.page(kind, &after).await?;
            for (id, why) in &page.unreadable {
                checked.problem(format!("{} {id} cannot be read: {why}", kind.name()));
            }
            for record in &page.records {
                amount.records += 1;
                amount.bytes += record.size();
                checked.one(record, &mut known);
            }
            next = page.next;
        }
        checked.kinds.insert(kind, amount);
    }
    Ok(checked)
}

impl StoreCheck {
    fn problem(&mut self, text: String) {
        self.count += 1;
        if self.problems.len() < PROBLEMS_LISTED {
            self.problems.push(text);
        }
    }

    /// Checks one record. The order of kinds guarantees that referenced records were seen before.
    fn one(&mut self, record: &StoredRecord, known: &mut HashSet<(RecordKind, Uuid)>) {
        let mut references: Vec<(RecordKind, Uuid, &str)> = Vec::new();
        let of = match record {
            StoredRecord::Handoff(handoff) => {
                known.insert((RecordKind::Handoff, handoff.id));
                return;
            }
            StoredRecord::Placed { record, .. } => {
                let columns = record.columns();
                known.insert((RecordKind::Placed(columns.kind), columns.id));
                if columns.kind != PlacedKind::CutPoint {
                    return;
                }
                references.push((RecordKind::Handoff, columns.id, "its handoff"));
                format!("cut point {}", columns.id)
            }
            StoredRecord::ResponseId { record, .. } => {
                let handoff = record.upstream.strip_prefix("handoff:");
                let handoff: Option<HandoffId> = handoff.and_then(|id| id.parse().ok());
                references.extend(handoff.map(|id| (RecordKind::Handoff, id, "the handoff that ended it")));
                format!("response id {}", record.shown)
            }
            StoredRecord::Conversation(record) => {
                // The active handoff is not checked: its seal may have proved the sentinel without a stored
                // record.
                let mut refers = |kind, ids: &[Uuid], what| {
                    references.extend(ids.iter().map(|id| (kind, *id, what)));
                };
                let placed = RecordKind::Placed;
                refers(placed(PlacedKind::Pair), &record.pairs, "a hidden pair");
                let what = "a handoff that may be left out";
                refers(RecordKind::Handoff, &record.left_out, what);
                refers(placed(PlacedKind::CutPoint), &record.left_out, "a cut point");
                refers(placed(PlacedKind::Insertion), &record.insertions, "an insertion");
                format!("conversation {}", record.key)
            }
            StoredRecord::Document(record) => {
                references.push((RecordKind::Handoff, record.handoff, "its handoff"));
                format!("document {}", record.handoff)
            }
        };
        for (kind, id, what) in references {
            if !known.contains(&(kind, id)) {
                self.problem(format!("{of}: {what} is missing: {id}"));
            }
        }
    }
}
