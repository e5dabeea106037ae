//! Recorder of an exchange: many parts write into one event, which is emitted however the exchange ends.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{RequestContext, headers};
use crate::state::journal::{PackedHeaders, ReceivedRequest, RecordedBody};
use crate::state::session::LiveConversation;
use crate::state::sync::locked;
use crate::state::telemetry::{ExchangeEvent, ExchangeOutcome, millis};
use baton_core::nudge::NudgeOutcome;
use baton_core::record::is_topic;
use baton_core::wire::{LegReport, Operation, View};

/// Receiver of the events of ended exchanges: log, metrics, journal.
///
/// Called once per exchange on a worker of the runtime, so it must not block.
pub type EventHook = Arc<dyn Fn(Box<ExchangeEvent>) + Send + Sync>;

/// Recorder of one exchange. Clones share it.
///
/// The hook gets the event when the last clone is dropped, even if the agent leaves and the whole exchange is
/// dropped.
#[derive(Clone)]
pub struct ExchangeRecorder(Arc<Inner>);

struct Inner {
    started: Instant,
    /// Arrival time of the last byte of the agent's request.
    read: OnceLock<Instant>,
    /// Counter of a request that is streamed through.
    streamed: OnceLock<Arc<Progress>>,
    state: Mutex<RecorderState>,
    hook: EventHook,
}

struct RecorderState {
    /// Boxed, because it is large and passes through several hands.
    event: Option<Box<ExchangeEvent>>,
    decided: bool,
}

impl ExchangeRecorder {
    /// Creates the recorder of an exchange with `upstream`, and starts its clock.
    pub fn start(id: String, route: String, upstream: String, hook: EventHook) -> Self {
        let mut event = Box::new(ExchangeEvent::new(id, upstream, route));
        // Holds unless something else is decided: an exchange that is simply dropped was cancelled by its agent.
        event.outcome = ExchangeOutcome::Cancelled;
        event.started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Arc::new(Inner {
            started: Instant::now(),
            read: OnceLock::new(),
            streamed: OnceLock::new(),
            state: Mutex::new(RecorderState {
                event: Some(event),
                decided: false,
            }),
            hook,
        }))
    }

    /// Discards the event, so that the exchange is not reported.
    pub fn forget(&self) {
        locked(&self.0.state).event = None;
    }

    /// Writes into the event.
    pub fn note(&self, write: impl FnOnce(&mut ExchangeEvent)) {
        let mut state = locked(&self.0.state);
        if let Some(event) = &mut state.event {
            write(event);
        }
    }

    /// Reads the event as written so far. Returns the default after [`Self::forget`].
    pub fn read<T: Default>(&self, read: impl FnOnce(&ExchangeEvent) -> T) -> T {
        locked(&self.0.state)
            .event
            .as_deref()
            .map(read)
            .unwrap_or_default()
    }

    /// Records that the agent's whole request has arrived, with `bytes` after decoding.
    pub fn request_read(&self, bytes: u64) {
        let _ = self.0.read.set(Instant::now());
        self.note(|e| e.received_bytes = bytes);
    }

    /// Sets the counter of a request that is passed on while it arrives.
    pub(super) fn request_streams(&self, progress: Arc<Progress>) {
        let _ = self.0.streamed.set(progress);
    }

    /// Records that a leg of `bytes` is being sent. The time until the first leg is baton's overhead.
    pub fn leg_sent(&self, bytes: u64) {
        let since = self.0.read.get().copied().unwrap_or(self.0.started);
        self.note(|e| {
            if e.sent_bytes.is_empty() {
                e.added_ms = millis(since.elapsed());
            }
            e.sent_bytes.push(bytes);
            e.leg_starts.push(self.0.started.elapsed());
        });
    }

    /// Records the arrival of upstream's first response head. Later calls have no effect.
    pub fn first_byte(&self) {
        let since = self.0.read.get().copied();
        let since = since
            // For a request that is streamed through, the last byte sent counts.
            .or_else(|| self.0.streamed.get().map(|p| p.last()))
            .unwrap_or(self.0.started);
        self.note(|e| {
            e.first_byte_ms.get_or_insert_with(|| millis(since.elapsed()));
        });
    }

    /// Sets the outcome. The first call wins. Without any, the outcome is `Cancelled`.
    pub fn decide(&self, outcome: ExchangeOutcome) {
        let mut state = locked(&self.0.state);
        if !std::mem::replace(&mut state.decided, true)
            && let Some(event) = &mut state.event
        {
            event.outcome = outcome;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(mut event) = locked(&self.state).event.take() else {
            return;
        };
        event.total_ms = millis(self.started.elapsed());
        // A request that was streamed through has one size on both sides.
        if let Some(progress) = self.streamed.get() {
            event.received_bytes = progress.bytes();
            event.sent_bytes = vec![progress.bytes()];
        }
        // A panic in the handler drops the recorder during unwinding, and the server answers with a 500.
        if std::thread::panicking() && !locked(&self.state).decided {
            (event.outcome, event.status) = (ExchangeOutcome::Refused, 500);
        }
        // A panic of the hook during unwinding would abort the process.
        let given = std::panic::catch_unwind(AssertUnwindSafe(|| (self.hook)(event)));
        if given.is_err() {
            tracing::error!("hook for ended exchanges panicked; continuing without its report");
        }
    }
}

/// Progress of a request body on its way upstream.
///
/// Shared by the body, which the client library owns, and the task that waits for the response.
#[derive(Debug)]
pub struct Progress {
    started: Instant,
    bytes: AtomicU64,
    last_nanos: AtomicU64,
}

impl Progress {
    /// Starts a counter at zero bytes.
    pub fn start() -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            bytes: AtomicU64::new(0),
            last_nanos: AtomicU64::new(0),
        })
    }

    /// Counts `bytes` that were sent just now.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last_nanos.store(nanos, Relaxed);
    }

    /// Bytes sent so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Time of the last byte sent, or of the start if none was.
    pub fn last(&self) -> Instant {
        self.started + Duration::from_nanos(self.last_nanos.load(Relaxed))
    }
}

impl RequestContext {
    /// Valid topic that the request declares.
    pub(crate) fn declared_topic(&self) -> Option<&str> {
        headers::text(&self.headers, headers::DECLARED_TOPIC).filter(|name| is_topic(name))
    }

    /// Records the topic of the request's conversation.
    pub(crate) fn note_topic(&self, live: &LiveConversation) {
        let topic = live.topic(self.declared_topic());
        self.recorder.note(|e| e.topic = topic);
    }

    /// Records the outcome of a notice about a full context.
    pub(crate) fn note_nudge(&self, outcome: NudgeOutcome) {
        self.recorder.note(|e| e.nudges.push(outcome));
        if outcome.stops() {
            let why = outcome.name();
            tracing::warn!(exchange = self.id, why, "stopping nudges for this task");
        }
    }

    /// Records that `lost` inserted items had to be left out. `field` selects their number in the event.
    pub(crate) fn note_lost(
        &self,
        what: &str,
        lost: usize,
        field: impl FnOnce(&mut ExchangeEvent) -> &mut u32,
    ) {
        if lost > 0 {
            tracing::warn!(
                exchange = self.id,
                lost,
                "dropped {what}: their anchor is no longer in the transcript"
            );
            self.recorder
                .note(|e| *field(e) = u32::try_from(lost).unwrap_or(u32::MAX));
        }
    }

    /// Counts an ended leg.
    pub(crate) fn count_leg(&self, report: &LegReport) {
        let dropped = report.dropped_thinking;
        self.recording.counted(report.usage, report.stop);
        self.recorder.note(|e| e.count_leg(report));
        if dropped.some().is_some() {
            tracing::warn!(
                exchange = self.id,
                prefix = dropped.prefix,
                other = dropped.other,
                "upstream dropped thinking from the model's input"
            );
        }
    }

    /// Builds the journal's copy of the request.
    ///
    /// `received` is the transcript as the agent sent it, and `view` as it is passed on.
    pub(crate) fn received(
        &self,
        view: &View,
        conversation: Option<String>,
        received: Arc<RecordedBody>,
        at_ms: u64,
    ) -> ReceivedRequest {
        // Without the query, which may hold a key.
        let path = self.target.split('?').next().unwrap_or_default();
        ReceivedRequest {
            id: self.id.clone(),
            at_ms,
            principal: self.principal.clone(),
            conversation,
            wire: view.wire,
            operation: self.operation.unwrap_or(Operation::Generate),
            upstream: self.upstream.name.clone(),
            route: format!("{} {path}", self.method),
            model: view.facts.model.clone(),
            headers: PackedHeaders::new(&self.headers),
            received,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> (ExchangeRecorder, Arc<Mutex<Vec<ExchangeEvent>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let hook: EventHook = Arc::new(move |e| sink.lock().unwrap().push(*e));
        (
            ExchangeRecorder::start("id".into(), "GET /".into(), "openai".into(), hook),
            seen,
        )
    }

    #[test]
    fn one_event_when_the_last_handle_goes() {
        let (recorder, seen) = recorder();
        let other = recorder.clone();
        recorder.request_read(3);
        recorder.leg_sent(4);
        other.decide(ExchangeOutcome::Truncated);
        recorder.decide(ExchangeOutcome::Complete);
        drop(recorder);
        assert!(seen.lock().unwrap().is_empty());
        drop(other);
        let events = seen.lock().unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].outcome, ExchangeOutcome::Truncated);
        assert_eq!(
            (events[0].received_bytes, events[0].sent_bytes.as_slice()),
            (3, &[4][..])
        );
    }

    #[test]
    fn nobody_decided_means_the_agent_left() {
        let (recorder, seen) = recorder();
        drop(recorder);
        assert_eq!(seen.lock().unwrap()[0].outcome, ExchangeOutcome::Cancelled);
    }
}
