//! State that the responses of all wires share.

use super::framing::Framing;
use super::leg::{Ending, LegReport, ResponseWatch, StopReason, Usage};
use super::sse;
use crate::marker::escape::Escaper;
use crate::text::Span;
use crate::text::splice::Edit;
use bytes::Bytes;

/// Legs of a response so far, and the settings of the current leg.
#[derive(Default)]
pub(super) struct LegState {
    /// Configuration for reading the response.
    pub(super) watch: ResponseWatch,
    /// Tools whose calls an earlier reading of this leg has hidden. Set only while complete replies are
    /// joined.
    pub(super) hid: Vec<&'static str>,
    pub(super) framing: Framing,
    /// Number of the current leg, starting at 0.
    pub(super) leg: usize,
    /// Report of the current leg so far.
    pub(super) report: LegReport,
    pub(super) escaper: Escaper,
    /// Whether terminal frames are held even without a hidden call.
    pub(super) hold: bool,
    /// Held terminal frames, one per kind.
    pub(super) held: [Option<HeldFrame>; 3],
    /// Frames for the agent.
    pub(super) out: Vec<Bytes>,
    /// Text to emit before upstream's first output; taken when emitted.
    pub(super) opening: Option<String>,
}

/// Kinds of terminal frames, in sending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldKind {
    /// States the reason for the end.
    End,
    /// Usage in a frame of its own.
    Usage,
    /// The last frame of a stream.
    Done,
}

/// A frame from upstream.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Unchanged bytes of the frame.
    pub(super) raw: &'a Bytes,
    /// Payload of the frame.
    pub(super) data: &'a [u8],
}

impl Frame<'_> {
    /// Applies edits to the payload and returns the whole frame.
    pub(super) fn edited(self, edits: Vec<Edit>) -> Bytes {
        sse::edited(self.raw, self.data, edits)
    }
}

/// A terminal frame that is held.
#[derive(Debug)]
pub(super) struct HeldFrame {
    pub(super) kind: HeldKind,
    pub(super) raw: Bytes,
    /// Edits that remove everything the agent must not see.
    pub(super) edits: Vec<Edit>,
    /// Visible content of the frame without the end, as a frame of its own. Sent before text from baton.
    pub(super) visible: Option<Bytes>,
}

impl HeldFrame {
    pub(super) fn new(kind: HeldKind, raw: &Bytes) -> Self {
        Self {
            kind,
            raw: raw.clone(),
            edits: Vec::new(),
            visible: None,
        }
    }
}

impl LegState {
    /// Returns baton's tool of this name if its calls are hidden.
    pub(super) fn ours(&self, name: &str) -> Option<&'static str> {
        let again = || self.hid.iter().copied().find(|tool| *tool == name);
        self.watch.hide.find(name).or_else(again)
    }

    /// Whether the end of this leg is held: a call was hidden, a handoff is pending, or a later leg needs
    /// other numbers.
    pub(super) fn holds(&self) -> bool {
        self.hold || self.leg > 0 || !self.report.hidden.is_empty()
    }

    /// Holds a terminal frame until the verdict.
    pub(super) fn keep(&mut self, frame: HeldFrame) {
        let kind = frame.kind as usize;
        self.held[kind] = Some(frame);
    }

    /// Forwards a frame unchanged.
    pub(super) fn pass(&mut self, raw: &Bytes) {
        self.out.push(raw.clone());
    }

    /// Forwards or holds a terminal frame.
    pub(super) fn end(&mut self, kind: HeldKind, raw: &Bytes) {
        match self.holds() {
            true => self.keep(HeldFrame::new(kind, raw)),
            false => self.pass(raw),
        }
    }

    /// Emits the visible content of a held frame that will not be sent itself.
    pub(super) fn show_end(&mut self) {
        let end = self.held[HeldKind::End as usize].as_mut();
        self.out.extend(end.and_then(|end| end.visible.take()));
    }

    /// Escapes sentinel-like strings in a piece of the model's text.
    ///
    /// The text of a leg counts as one string, because agents join it, and some move it before the calls in
    /// between.
    pub(super) fn break_up(&mut self, data: &[u8], inside: Span) -> Vec<Edit> {
        let edits = self.escaper.breaks(data, inside);
        self.report.escaped_sentinels += edits.len();
        edits
    }

    /// Records an upstream error. Returns whether to forward its frame.
    ///
    /// A later leg without visible output may be retried, so its error is withheld.
    pub(super) fn fail(&mut self, shown: bool, raw: &[u8]) -> bool {
        self.report.stop = StopReason::Error;
        // The first leg's errors belong to the agent, which has its own rules for retries.
        let again = self.leg > 0 && !shown;
        // The driver stops reading a leg that it will retry.
        self.report.ended |= again;
        self.report.again |= again;
        if again {
            self.report.error = Bytes::copy_from_slice(&self.framing.data(raw));
        }
        !again
    }

    /// Forwards an error frame unless the leg may be retried.
    pub(super) fn pass_error(&mut self, shown: bool, raw: &Bytes) {
        if self.fail(shown, raw) {
            self.pass(raw);
        }
    }
}

/// A wire's part of [`LegMachine`](super::LegMachine): it decodes frames and whole replies, and creates those
/// that baton inserts.
///
/// Visible output is never buffered. The terminal frames of a leg go through [`LegState::end`], which holds
/// them if the leg is not the whole response.
pub(super) trait Dialect: Send {
    /// Reads a frame.
    fn frame(&mut self, state: &mut LegState, frame: Frame<'_>);

    /// Reads a complete reply. Returns `None` if it does not have this wire's shape.
    fn whole(&mut self, state: &mut LegState, body: &Bytes) -> Option<()>;

    /// Resets the state of the current leg. Keeps its usage only if `counts` is set.
    fn end_leg(&mut self, state: &LegState, counts: bool);

    /// Emits assistant text from baton in a stream, as a block of its own if the wire has blocks.
    fn say(&mut self, state: &mut LegState, text: &str);

    /// Inserts assistant text from baton between the legs of a complete reply.
    fn say_whole(&mut self, state: &LegState, text: &str);

    /// Emits a keep-alive in the wire's own form.
    fn keepalive(&mut self, state: &mut LegState);

    /// Emits a held terminal frame as the end of the response.
    fn last(&mut self, state: &mut LegState, held: HeldFrame, ending: Ending);

    /// Emits an end that replaces the leg's end. `next_input` estimates the tokens of the next request.
    fn own_end(&mut self, state: &mut LegState, ending: Ending, next_input: u64);

    /// Returns the edits that turn the last leg's reply into the reply of all legs.
    fn joined(&mut self, state: &LegState, last: &[u8], ending: Ending) -> Vec<Edit>;
}

/// Usage of one leg in the provider's terms.
pub(super) trait ProviderUsage: Clone + Default {
    /// Reads a usage object.
    fn take(&mut self, data: &[u8], usage: Span);

    /// Converts to baton's terms.
    fn usage(&self) -> Usage;

    /// Whether upstream reported any usage.
    fn is_reported(&self) -> bool;

    /// Usage of the whole response: input of the last leg, output of all legs. `None` if upstream reported
    /// none.
    fn merged(legs: &[Self]) -> Option<String>;
}

/// Usage of a response's legs.
#[derive(Default)]
pub(super) struct LegUsage<U> {
    earlier: Vec<U>,
    now: U,
}

impl<U: ProviderUsage> LegUsage<U> {
    /// Reads a usage object of the current leg.
    pub(super) fn take(&mut self, data: &[u8], usage: Span, report: &mut LegReport) {
        self.now.take(data, usage);
        report.usage = self.now.usage();
    }

    /// Ends the current leg. Its usage is kept only if `counts` is set.
    pub(super) fn end_leg(&mut self, counts: bool) {
        let leg = std::mem::take(&mut self.now);
        // A leg that is retried would otherwise count twice.
        self.earlier.extend(Some(leg).filter(|_| counts));
    }

    /// Whether the current leg reported usage.
    pub(super) fn is_reported(&self) -> bool {
        self.now.is_reported()
    }

    /// Returns the usage of a joined reply, or `None` if the last leg's stands.
    ///
    /// `stopped` formats the usage of a response that baton ends at the sentinel.
    pub(super) fn joined(&self, ending: Ending, stopped: fn(&[U], u64) -> String) -> Option<String> {
        match ending.next_input() {
            Some(next_input) => Some(stopped(&self.all(), next_input)),
            // The reply of a single leg already states its usage.
            None if self.earlier.is_empty() => None,
            None => U::merged(&self.all()),
        }
    }

    /// Usage of each leg that reported any.
    pub(super) fn all(&self) -> Vec<U> {
        let all = self.earlier.iter().chain([&self.now]);
        all.filter(|leg| leg.is_reported()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::tools::ToolNames;
    use crate::wire::{Leg, ResponseWatch, View, WIRES};

    const REPLIES: [&str; 5] = [
        r#"{"id":"a","type":"message","content":[],"usage":{"input_tokens":N,"output_tokens":N}}"#,
        r#"{"id":"a","choices":[{"index":0,"message":{"content":""}}],"usage":{"prompt_tokens":N,"completion_tokens":N}}"#,
        r#"{"id":"a","object":"response","status":"completed","output":[],"usage":{"input_tokens":N,"output_tokens":N}}"#,
        r#"{"candidates":[{"content":{"parts":[]}}],"usageMetadata":{"promptTokenCount":N,"candidatesTokenCount":N}}"#,
        r#"{"message":{"role":"assistant","content":""},"done":true,"prompt_eval_count":N,"eval_count":N}"#,
    ];

    #[test]
    fn counters_of_any_size_are_summed() {
        let watch = ResponseWatch {
            hide: ToolNames::HANDOFF,
            buffered_bytes: 4096,
        };
        for (wire, reply) in WIRES.iter().zip(REPLIES) {
            let body = Bytes::from(reply.replace('N', &u64::MAX.to_string()));
            let report = wire.reply(&View::empty(wire.id()), &body, watch).unwrap();
            assert!(report.usage.output > 0, "{reply}");
            let leg = Leg {
                body,
                report,
                then: Vec::new(),
            };
            for ending in [Ending::Own, Ending::Stopped { next_input: 7 }] {
                let joined = wire.join(&[leg.clone(), leg.clone(), leg.clone()], None, ending);
                let joined = String::from_utf8_lossy(&joined);
                assert!(joined.contains("3000000000000"), "{joined}");
            }
        }
    }
}
