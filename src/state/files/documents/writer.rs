//! The task that writes the documents of stored handoffs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use super::steps::{
    self, JSON, MARKDOWN, StatusChange, archive_old, document_of, set_status, write, write_files, write_yaml,
};
use super::value::{DocumentError, DocumentSettings, StoredHandoff, document_error};
use crate::clock::ago_ms;
use crate::store::{DocumentFilter, SharedStore};
use baton_core::record::{HandoffId, HandoffStatus};

/// Maximum number of queued handoffs. Each holds its request in memory, and handoffs are minutes apart.
const QUEUE_CAPACITY: usize = 16;

/// Number of newest documents whose files are checked at start.
const REPAIRED_AT_START: usize = 200;

/// Interval between two checks for old documents.
const ARCHIVE_INTERVAL: Duration = Duration::from_secs(3600);

/// Counts of handoffs: document written, document failed, and dropped because the queue was full.
#[derive(Debug, Default)]
struct DocumentCounters {
    written: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

enum DocumentJob {
    Handoff(Box<StoredHandoff>),
    Resumed(String, HandoffId),
    Flush(oneshot::Sender<()>),
}

/// Queue of stored handoffs that await their documents. Sending never waits.
#[derive(Clone, Default)]
pub struct DocumentWriter(Option<DocumentQueue>);

#[derive(Clone)]
struct DocumentQueue {
    queue: mpsc::Sender<DocumentJob>,
    counters: Arc<DocumentCounters>,
}

impl DocumentWriter {
    /// Creates a writer that discards every handoff.
    pub fn off() -> Self {
        Self::default()
    }

    /// Starts the task within the current runtime. Without settings the writer is off.
    pub fn start(settings: Option<DocumentSettings>, store: SharedStore) -> Self {
        let Some(settings) = settings else {
            return Self::off();
        };
        let (queue, waiting) = mpsc::channel(QUEUE_CAPACITY);
        let counters = Arc::new(DocumentCounters::default());
        tokio::spawn(run(Arc::new(settings), store, waiting, Arc::clone(&counters)));
        Self(Some(DocumentQueue { queue, counters }))
    }

    /// Whether documents are written.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Queues the document of a stored handoff. A full queue drops it and logs a warning.
    pub fn handoff(&self, stored: StoredHandoff) {
        let id = stored.handoff.id;
        if !self.enqueue(DocumentJob::Handoff(Box::new(stored)))
            && let Some(shared) = &self.0
        {
            shared.counters.dropped.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(target: "baton", handoff = %id, "failed to queue a document, because too many wait; the handoff has none");
        }
    }

    /// Queues the document of a handoff that a user resumed by its line, to make it active again.
    pub fn resumed(&self, principal: &str, id: HandoffId) {
        // If the queue is full, only the status stays as it was.
        let _ = self.enqueue(DocumentJob::Resumed(principal.to_owned(), id));
    }

    fn enqueue(&self, message: DocumentJob) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| shared.queue.try_send(message).is_ok())
    }

    /// Waits at most `most` until everything queued so far is written. Returns whether it is.
    pub async fn flush(&self, most: Duration) -> bool {
        let Some(shared) = &self.0 else { return true };
        let (done, written) = oneshot::channel();
        let flushed =
            async { shared.queue.send(DocumentJob::Flush(done)).await.is_ok() && written.await.is_ok() };
        tokio::time::timeout(most, flushed).await.unwrap_or(false)
    }

    /// Returns how many documents were written, failed and dropped since the start.
    pub fn counts(&self) -> [u64; 3] {
        let Some(shared) = &self.0 else { return [0; 3] };
        let DocumentCounters {
            written,
            failed,
            dropped,
        } = &*shared.counters;
        [written, failed, dropped].map(|counter| counter.load(Ordering::Relaxed))
    }
}

async fn run(
    settings: Arc<DocumentSettings>,
    store: SharedStore,
    mut waiting: mpsc::Receiver<DocumentJob>,
    counters: Arc<DocumentCounters>,
) {
    repair_files(&settings, &store).await;
    let mut due = tokio::time::interval(ARCHIVE_INTERVAL);
    // One check is enough after a suspended machine wakes.
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            // Handoffs come before archiving, which may wait an hour without harm.
            biased;
            message = waiting.recv() => message,
            _ = due.tick(), if settings.archive_after.is_some() => {
                archive(&settings, &store).await;
                continue;
            }
        };
        let Some(message) = message else { return };
        match message {
            DocumentJob::Handoff(stored) => {
                let id = stored.handoff.id;
                match within(settings.limit, write(&settings, &store, *stored)).await {
                    Ok(_) => counters.written.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        tracing::warn!(target: "baton", handoff = %id, %error, "failed to write a document; the handoff itself is stored");
                        counters.failed.fetch_add(1, Ordering::Relaxed)
                    }
                };
            }
            DocumentJob::Resumed(principal, id) => resume(&store, &principal, id).await,
            DocumentJob::Flush(done) => _ = done.send(()),
        }
    }
}

/// Limits the time for writing a document.
async fn within<T>(
    limit: Duration,
    written: impl Future<Output = Result<T, DocumentError>>,
) -> Result<T, DocumentError> {
    let late = || {
        let over = format!("over {} s", limit.as_secs());
        document_error("the document took too long", over)
    };
    let written = tokio::time::timeout(limit, written).await;
    written.unwrap_or_else(|_| Err(late()))
}

/// Archives documents superseded long ago.
async fn archive(settings: &DocumentSettings, store: &SharedStore) {
    let Some(age) = settings.archive_after else { return };
    match archive_old(store, ago_ms(age)).await {
        Ok(0) => {}
        Ok(documents) => {
            tracing::info!(target: "baton", documents, "archived old superseded documents")
        }
        Err(error) => {
            tracing::warn!(target: "baton", %error, "failed to archive old superseded documents; trying again later")
        }
    }
}

/// Rewrites files of stored documents that are missing or outdated.
///
/// Such files remain if a process was killed, or if the directory was not writable. Documents in another directory
/// are skipped: they belong to another process, or to a state directory that was moved.
async fn repair_files(settings: &DocumentSettings, store: &SharedStore) {
    let newest = DocumentFilter {
        limit: REPAIRED_AT_START,
        ..DocumentFilter::default()
    };
    let Ok(documents) = store.documents(&newest).await else {
        return;
    };
    for record in documents {
        let directory = PathBuf::from(&record.directory);
        // A document of another version stays as it is.
        let Some(document) = document_of(&record) else {
            continue;
        };
        if directory.parent() != Some(&settings.dir) {
            continue;
        }
        let limit = settings.limit;
        let state = tokio::task::spawn_blocking(move || {
            let is_there = directory.join(JSON).is_file() && directory.join(MARKDOWN).is_file();
            (is_there, is_there && steps::are_current(&directory, &document))
        });
        // If the check itself failed, the files stay as they are.
        let (is_there, is_current) = state.await.unwrap_or((true, true));
        if is_current {
            continue;
        }
        let id = record.handoff;
        if !is_there {
            let written = write_yaml(record.clone(), settings.keep_files);
            let _ = tokio::time::timeout(limit, written).await;
        }
        if let Err(error) = within(limit, write_files(record)).await {
            tracing::warn!(target: "baton", handoff = %id, %error, "failed to rewrite a document's files; the next start tries again");
        }
    }
}

async fn resume(store: &SharedStore, principal: &str, id: HandoffId) {
    match set_status(store, principal, id, HandoffStatus::Active).await {
        Ok(Some(StatusChange { before, superseded })) if before != HandoffStatus::Active => tracing::info!(
            target: "baton",
            handoff = %id,
            before = before.name(),
            superseded = superseded.len(),
            "made the document of a resumed handoff active again"
        ),
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(target: "baton", handoff = %id, %error, "failed to make the document of a resumed handoff active; leaving its status unchanged")
        }
    }
}
