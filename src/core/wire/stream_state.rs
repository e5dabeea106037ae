//! The state that the streams of all wires keep of their legs.

use bytes::Bytes;

use super::leg::{LegReport, ResponseWatch, StopReason};
use crate::mark::escape::Escaper;
use crate::text::Span;
use crate::text::splice::Edit;

/// The legs of a stream so far, and how the present one is treated.
#[derive(Default)]
pub struct StreamState {
    /// What is looked for.
    pub(super) watch: ResponseWatch,
    /// Number of the present leg; the first is 0.
    pub(super) leg: usize,
    /// Its result so far.
    pub(super) report: LegReport,
    pub(super) escaper: Escaper,
    /// Whether terminal frames wait even without a hidden call.
    pub(super) hold: bool,
    /// Text of ours before upstream's first output, until it is emitted.
    pub(super) opening: Option<String>,
}

impl StreamState {
    pub(super) fn new(watch: ResponseWatch) -> Self {
        Self {
            watch,
            ..Self::default()
        }
    }

    /// Whether the end of this leg is buffered: a call was hidden, or its numbers need rewriting.
    pub(super) fn holds(&self) -> bool {
        self.hold || self.leg > 0 || !self.report.hidden.is_empty()
    }

    /// Breaks up what looks like a mark of ours in a piece of the model's text.
    pub(super) fn break_up(&mut self, data: &[u8], inside: Span) -> Vec<Edit> {
        let edits = self.escaper.breaks(data, inside);
        self.report.broken_up += edits.len();
        edits
    }

    /// Notes an error of upstream's; whether its frame is passed on. A later leg of which nothing was shown may be retried.
    pub(super) fn fail(&mut self, shown: bool) -> bool {
        self.report.stop = StopReason::Error;
        let again = self.leg > 0 && !shown;
        self.report.ended |= again;
        self.report.again |= again;
        !again
    }

    /// Passes on the frame of an error of upstream's, unless the leg may be retried.
    pub(super) fn pass_error(&mut self, shown: bool, raw: &Bytes, out: &mut Vec<Bytes>) {
        if self.fail(shown) {
            out.push(raw.clone());
        }
    }

    /// Begins the next leg.
    pub(super) fn next_leg(&mut self) {
        self.leg += 1;
        self.report = LegReport::default();
        self.escaper = Escaper::default();
    }
}
