//! The steps from a stored handoff to its packet's files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::value::{NotWritten, PacketSettings, Step, Stored, not_written};
use super::{files, make};
use crate::state::files::yaml_files::{HandoffFolder, gather};
use crate::state::store::{PacketFilter, SharedStore};
use baton_core::handoffs::document::fields::Packet;
use baton_core::handoffs::yaml::{Drift, HandoffFile};
use baton_core::record::{HandoffId, PacketRecord, PacketStatus};

/// Makes the packet of a handoff, stores it, and writes its files. Returns its folder.
///
/// # Errors
/// It cannot be stored or written; where it is stored, the next start writes the files.
pub async fn write(
    settings: &Arc<PacketSettings>,
    store: &SharedStore,
    stored: Stored,
) -> Result<PathBuf, NotWritten> {
    write_in_steps(settings, store, stored, at_no_step()).await
}

/// What is called at each step; tests kill the process there.
pub(super) type AtStep = Arc<dyn Fn(Step) + Send + Sync>;

pub(super) fn at_no_step() -> AtStep {
    Arc::new(|_| {})
}

pub(super) async fn write_in_steps(
    settings: &Arc<PacketSettings>,
    store: &SharedStore,
    stored: Stored,
    step: AtStep,
) -> Result<PathBuf, NotWritten> {
    let (principal, created_ms) = (stored.handoff.principal.clone(), stored.handoff.created_ms);
    let made = Arc::clone(settings);
    let packet = tokio::task::spawn_blocking(move || make::packet(&made, stored)).await;
    let packet = packet.map_err(|error| not_written("the packet was not made", error))?;
    let folder = settings.dir.join(packet.id.to_string());
    let record = PacketRecord {
        handoff: packet.id,
        principal,
        repository: packet.repository.clone(),
        branch: packet.branch.clone(),
        topic: packet.topic.clone(),
        status: PacketStatus::Active,
        created_ms,
        folder: folder.to_string_lossy().into_owned(),
        document: packet.json(),
    };
    let superseded = store.put_packet(&record).await;
    let superseded = superseded.map_err(|error| not_written("the packet was not stored", error))?;
    step(Step::Stored);
    // Before the two files: while one of those is missing, the next start looks for this one too.
    beside(record.clone()).await;
    step(Step::Beside);
    put_in_steps(record.clone(), Arc::clone(&step)).await?;
    again(store, &record.principal, &superseded, &step).await;
    step(Step::Superseded);
    Ok(folder)
}

/// Writes the handoff file of a packet into the folder of its session, once. A failure is logged: the packet is there.
pub(super) async fn beside(record: PacketRecord) {
    let id = record.handoff;
    let written = tokio::task::spawn_blocking(move || {
        let Some(packet) = packet_of(&record) else {
            return Ok(());
        };
        // Beside the packet's own folder.
        let dir = Path::new(&record.folder).parent().unwrap_or(Path::new("."));
        let folder = HandoffFolder::new(dir)?;
        folder.write_packet(&packet).map(|_| ())
    });
    let error = match written.await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(target: "baton", handoff = %id, %error, "a packet has no handoff file");
}

/// Gives a packet another status, in the store and in its files, and in those of the packets that it supersedes. `None`
/// for an unknown id; else whether it had another one before, and which it superseded.
///
/// # Errors
/// The store cannot be read or written.
pub async fn set_status(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
    status: PacketStatus,
) -> Result<Option<Changed>, NotWritten> {
    let failed = |error| not_written("the packet's status was not changed", error);
    let Some(record) = find(store, principal, id).await? else {
        return Ok(None);
    };
    let superseded = store
        .set_packet_status(principal, id, status)
        .await
        .map_err(failed)?;
    let superseded = superseded.unwrap_or_default();
    let all: Vec<HandoffId> = superseded.iter().copied().chain([id]).collect();
    again(store, principal, &all, &at_no_step()).await;
    Ok(Some(Changed {
        before: record.status,
        superseded,
    }))
}

/// What a change of a status came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The status before.
    pub before: PacketStatus,
    /// The handoffs whose packets it superseded.
    pub superseded: Vec<HandoffId>,
}

/// The packet of a handoff.
///
/// # Errors
/// The store cannot be read.
pub async fn find(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
) -> Result<Option<PacketRecord>, NotWritten> {
    let filter = PacketFilter {
        principal: Some(principal.to_owned()),
        handoff: Some(id),
        ..PacketFilter::default()
    };
    let found = store.packets(&filter).await;
    Ok(found
        .map_err(|error| not_written("the packets were not read", error))?
        .pop())
}

/// A packet, compared with a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// What has moved since.
    pub drift: Drift,
    /// Whether there is a repository; without one the age is all that is known.
    pub repository: bool,
}

/// Compares the packet of a handoff with the repository in a folder: the one given, else the packet's own where that is
/// here. Any other folder may be another project's. `None` where there is no packet.
///
/// # Errors
/// The store cannot be read.
pub async fn still_true(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
    dir: Option<PathBuf>,
    limit: Duration,
) -> Result<Option<Compared>, NotWritten> {
    let Some(packet) = find(store, principal, id)
        .await?
        .and_then(|record| packet_of(&record))
    else {
        return Ok(None);
    };
    let compared = tokio::task::spawn_blocking(move || {
        let own = Some(PathBuf::from(&packet.repository)).filter(|dir| dir.is_dir());
        let file = HandoffFile::of_whole_packet(&packet);
        let (drift, repository) = gather::compared(&file, dir.or(own).as_deref(), limit);
        Compared { drift, repository }
    });
    let compared = compared.await;
    compared
        .map(Some)
        .map_err(|error| not_written("the packet was not compared", error))
}

/// The packet of a record, with the status that counts; `None` where a later version wrote it.
pub fn packet_of(record: &PacketRecord) -> Option<Packet> {
    let packet = Packet::read(&record.document).ok()?;
    Some(packet.with_status(record.status))
}

/// Writes the files of these packets again, with their status, where they are in this machine's folders: a store may be
/// shared. A failure is logged.
async fn again(store: &SharedStore, principal: &str, ids: &[HandoffId], step: &AtStep) {
    for id in ids {
        let written = match find(store, principal, *id).await {
            Ok(Some(record)) if Path::new(&record.folder).is_dir() => {
                put_in_steps(record, Arc::clone(step)).await
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!(target: "baton", handoff = %id, %error, "a packet's files do not have its new status");
        }
    }
}

/// Archives the packets that were superseded and are of handoffs made before this time, in the store and in their files.
/// Returns how many.
///
/// # Errors
/// The store cannot be read or written.
pub async fn archive_old(store: &SharedStore, before_ms: u64) -> Result<usize, NotWritten> {
    let archived = store.archive_packets(before_ms).await;
    let archived = archived.map_err(|error| not_written("old packets were not archived", error))?;
    for (principal, id) in &archived {
        again(store, principal, &[*id], &at_no_step()).await;
    }
    Ok(archived.len())
}

/// Writes a packet's files.
pub(super) async fn put(record: PacketRecord) -> Result<(), NotWritten> {
    put_in_steps(record, at_no_step()).await
}

async fn put_in_steps(record: PacketRecord, step: AtStep) -> Result<(), NotWritten> {
    let done = tokio::task::spawn_blocking(move || {
        let Some(packet) = packet_of(&record) else {
            return Err(not_written(&record.folder, "another version wrote this packet"));
        };
        let written = files::write(record.folder.as_ref(), &packet, &*step);
        written.map_err(|error| not_written(&record.folder, error))
    });
    done.await
        .map_err(|error| not_written("the packet was not written", error))?
}
