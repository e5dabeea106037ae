//! Records an agent's request: facts of its event with their log lines, and the journal's copy.

use std::sync::Arc;

use super::{RequestContext, headers};
use crate::state::journal::{PackedHeaders, ReceivedRequest, RecordedBody};
use crate::state::session::LiveConversation;
use crate::state::telemetry::ExchangeEvent;
use baton_core::nudge::NudgeOutcome;
use baton_core::record::is_topic;
use baton_core::wire::{LegReport, Operation, View};

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
