//! The state that the answers of all wires keep of their legs.

use super::error::quota_error;
use super::framing::Framing;
use super::leg::{Ending, LegReport, ResponseWatch, StopReason, Usage};
use super::sse;
use crate::marker::escape::Escaper;
use crate::text::Span;
use crate::text::splice::Edit;
use bytes::Bytes;

/// The legs of an answer so far, and how the present one is treated.
#[derive(Default)]
pub(super) struct LegState {
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
    /// What the agent gets.
    pub(super) out: Vec<Bytes>,
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

/// A frame of upstream's.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    /// The bytes as they came.
    pub(super) raw: &'a Bytes,
    /// The payload in them.
    pub(super) data: &'a [u8],
}

impl Frame<'_> {
    /// The frame with these edits made in its payload.
    pub(super) fn edited(self, edits: Vec<Edit>) -> Bytes {
        sse::edited(self.raw, self.data, edits)
    }
}

/// A terminal frame while it waits.
#[derive(Debug)]
pub(super) struct HeldFrame {
    pub(super) kind: HeldKind,
    pub(super) raw: Bytes,
    /// The edits by which it holds only what the agent may see.
    pub(super) edits: Vec<Edit>,
    /// What it says besides the end, as a frame of its own: sent in front of a text of ours.
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

    /// Passes a frame on as it is.
    pub(super) fn pass(&mut self, raw: &Bytes) {
        self.out.push(raw.clone());
    }

    /// Passes a terminal frame on, or keeps it.
    pub(super) fn end(&mut self, kind: HeldKind, raw: &Bytes) {
        match self.holds() {
            true => self.keep(HeldFrame::new(kind, raw)),
            false => self.pass(raw),
        }
    }

    /// Shows what a last frame says besides the end, where the frame itself will not be sent.
    pub(super) fn show_end(&mut self) {
        let end = self.held[HeldKind::End as usize].as_mut();
        self.out.extend(end.and_then(|end| end.visible.take()));
    }

    /// Breaks up what looks like a mark of ours in a piece of the model's text. All texts of a leg are one: agents join
    /// them, and some put them in front of the calls between.
    pub(super) fn break_up(&mut self, data: &[u8], inside: Span) -> Vec<Edit> {
        let edits = self.escaper.breaks(data, inside);
        self.report.escaped_sentinels += edits.len();
        edits
    }

    /// Notes an error of upstream's; whether its frame is passed on. A later leg of which nothing was shown may be retried.
    pub(super) fn fail(&mut self, shown: bool, raw: &[u8]) -> bool {
        self.report.stop = StopReason::Error;
        let again = self.leg > 0 && !shown;
        self.report.ended |= again;
        self.report.again |= again;
        if again {
            self.report.quota = quota_error(&self.framing.data(raw));
        }
        !again
    }

    /// Passes on the frame of an error of upstream's, unless the leg may be retried.
    pub(super) fn pass_error(&mut self, shown: bool, raw: &Bytes) {
        if self.fail(shown, raw) {
            self.pass(raw);
        }
    }
}

/// A wire's part of [`LegMachine`](super::LegMachine): it decodes frames and whole replies, and makes those of our own.
///
/// Nothing visible is buffered. The terminal frames of a leg go through [`LegState::end`], which holds them where the
/// leg is not the whole response.
pub(super) trait Dialect: Send {
    /// Takes a frame.
    fn frame(&mut self, state: &mut LegState, frame: Frame<'_>);

    /// A leg in one piece; `None` where it is no reply of this wire's.
    fn whole(&mut self, state: &mut LegState, body: &Bytes) -> Option<()>;

    /// Forgets what is the present leg's alone; its tokens count where `counts`.
    fn end_leg(&mut self, state: &LegState, counts: bool);

    /// Assistant text of our own in a stream, in a block of its own where the wire has such a thing.
    fn say(&mut self, state: &mut LegState, text: &str);

    /// Assistant text of our own between the legs of a whole reply.
    fn say_whole(&mut self, state: &LegState, text: &str);

    /// A keep-alive in the wire's own form.
    fn keepalive(&mut self, state: &mut LegState);

    /// A terminal frame that was held, as the response's.
    fn last(&mut self, state: &mut LegState, held: HeldFrame, ending: Ending);

    /// An end of our own in place of the leg's. The next request will have `next_input` tokens.
    fn own_end(&mut self, state: &mut LegState, ending: Ending, next_input: u64);

    /// The edits that make the last leg's reply that of all legs.
    fn joined(&mut self, state: &LegState, last: &[u8], ending: Ending) -> Vec<Edit>;
}

/// What a provider counts of one leg.
pub(super) trait ProviderUsage: Clone + Default {
    /// Takes what a usage object says.
    fn take(&mut self, data: &[u8], usage: Span);

    /// The counters in baton's terms.
    fn usage(&self) -> Usage;

    /// Whether upstream reported any.
    fn is_reported(&self) -> bool;

    /// The usage of the whole response: input side of the last leg, output of all. `None` where nothing was counted.
    fn merged(legs: &[Self]) -> Option<String>;
}

/// The counters of an answer's legs.
#[derive(Default)]
pub(super) struct LegUsage<U> {
    earlier: Vec<U>,
    now: U,
}

impl<U: ProviderUsage> LegUsage<U> {
    /// Takes a usage object of the present leg.
    pub(super) fn take(&mut self, data: &[u8], usage: Span, report: &mut LegReport) {
        self.now.take(data, usage);
        report.usage = self.now.usage();
    }

    /// The present leg is over. Where it does not count, what it cost is forgotten.
    pub(super) fn end_leg(&mut self, counts: bool) {
        let leg = std::mem::take(&mut self.now);
        self.earlier.extend(Some(leg).filter(|_| counts));
    }

    /// Whether the present leg was counted.
    pub(super) fn is_reported(&self) -> bool {
        self.now.is_reported()
    }

    /// What a joined reply has in place of its last leg's usage; `stopped` makes that of a response which ends with its
    /// sentinel.
    pub(super) fn joined(&self, ending: Ending, stopped: fn(&[U], u64) -> String) -> Option<String> {
        match ending.next_input() {
            Some(next_input) => Some(stopped(&self.all(), next_input)),
            None if self.earlier.is_empty() => None,
            None => U::merged(&self.all()),
        }
    }

    /// The usage of each leg that was counted.
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
                then: None,
            };
            for ending in [Ending::Own, Ending::Stopped { next_input: 7 }] {
                let joined = wire.join(&[leg.clone(), leg.clone(), leg.clone()], None, ending);
                let joined = String::from_utf8_lossy(&joined);
                assert!(joined.contains("3000000000000"), "{joined}");
            }
        }
    }
}
