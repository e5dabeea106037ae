//! The state that the answers of all wires keep of their legs.

use bytes::Bytes;

use super::framing::Framing;
use super::leg::{LegReport, ResponseWatch, StopReason};
use crate::mark::escape::Escaper;
use crate::text::Span;
use crate::text::splice::Edit;

/// The legs of an answer so far, and how the present one is treated.
#[derive(Default)]
pub struct LegState {
    /// What is looked for.
    pub(super) watch: ResponseWatch,
    /// Tools whose calls the leg's first reading has hidden; it is being joined to others.
    pub(super) hid: Vec<&'static str>,
    pub(super) framing: Framing,
    /// Number of the present leg; the first is 0.
    pub(super) leg: usize,
    /// Its result so far.
    pub(super) report: LegReport,
    pub(super) escaper: Escaper,
    /// Whether terminal frames wait even without a hidden call.
    pub(super) hold: bool,
    /// The terminal frames that wait, one of a kind.
    pub(super) held: [Option<HeldFrame>; 3],
    /// Text of ours before upstream's first output, until it is emitted.
    pub(super) opening: Option<String>,
}

/// Which of a leg's terminal frames one is, in the order in which they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldKind {
    /// States the reason to end.
    End,
    /// Usage in a frame of its own.
    Usage,
    /// Nothing follows it.
    Done,
}

/// A terminal frame while it waits: as it came, and its data.
#[derive(Debug)]
pub struct HeldFrame {
    pub(super) kind: HeldKind,
    pub(super) raw: Bytes,
    pub(super) data: Vec<u8>,
    /// The edits by which it holds only what the agent may see.
    pub(super) edits: Vec<Edit>,
    /// What it says besides the end, as a frame of its own: sent in front of a text of ours.
    pub(super) visible: Option<Bytes>,
}

impl HeldFrame {
    pub(super) fn new(kind: HeldKind, raw: &Bytes, data: &[u8]) -> Self {
        Self {
            kind,
            raw: raw.clone(),
            data: data.to_vec(),
            edits: Vec::new(),
            visible: None,
        }
    }
}

impl LegState {
    /// The tool of ours of this name, where its calls are hidden.
    pub(super) fn ours(&self, name: &str) -> Option<&'static str> {
        let again = || self.hid.iter().copied().find(|tool| *tool == name);
        self.watch.hide.find(name).or_else(again)
    }

    /// Whether the end of this leg is buffered: a call was hidden, or its numbers need rewriting.
    pub(super) fn holds(&self) -> bool {
        self.hold || self.leg > 0 || !self.report.hidden.is_empty()
    }

    /// Keeps a terminal frame until the verdict.
    pub(super) fn keep(&mut self, frame: HeldFrame) {
        let kind = frame.kind as usize;
        self.held[kind] = Some(frame);
    }

    /// The frame of this kind that waits.
    pub(super) fn take(&mut self, kind: HeldKind) -> Option<HeldFrame> {
        self.held[kind as usize].take()
    }

    /// Passes a terminal frame on, or keeps it.
    pub(super) fn end(&mut self, kind: HeldKind, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        match self.holds() {
            true => self.keep(HeldFrame::new(kind, raw, data)),
            false => out.push(raw.clone()),
        }
    }

    /// Breaks up what looks like a mark of ours in a piece of the model's text. All texts of a leg are one: agents join
    /// them, and some put them in front of the calls between.
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
}
