//! What the streams of all wires know of their legs.

use super::frame_template::FrameTemplate;
use super::leg::{LegReport, ResponseWatch};
use crate::mark::escape::Escaper;

/// The legs of a stream so far, and how the present one is treated.
#[derive(Default)]
pub struct StreamState {
    /// What is looked for.
    pub(super) watch: ResponseWatch,
    /// Number of the present leg; the first is 0.
    pub(super) leg: usize,
    /// What it has come to so far.
    pub(super) report: LegReport,
    pub(super) escaper: Escaper,
    /// Whether terminal frames wait even without a hidden call.
    pub(super) hold: bool,
    /// Text of ours before upstream's first output, until it is emitted.
    pub(super) opening: Option<String>,
    /// Template of the frames of the text or call that continues.
    pub(super) template: FrameTemplate,
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

    /// Begins the next leg.
    pub(super) fn next_leg(&mut self) {
        self.leg += 1;
        self.report = LegReport::default();
        self.escaper = Escaper::default();
        self.template.forget();
    }
}
