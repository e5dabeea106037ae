//! Gemini's streams: one response to the agent, however many legs it has. Events:
//! <https://ai.google.dev/api/generate-content>.

use super::Gemini;
use crate::wire::fingerprints;
use bytes::Bytes;

use super::chunk::{GeminiChunk, NO_PARTS};
use super::identity::{ChunkParts, GeminiIdentity};
use super::part::PartMembers;
use super::request::text_part;
use super::streamed_call::{self, StreamedCall, StreamingCall};
use super::usage::{GeminiUsage, stopped};
use crate::text::splice::Edit;
use crate::wire::call_fingerprint::{Fingerprints, MessageNumber};
use crate::wire::dialect::Dialect;
use crate::wire::error::error_in;
use crate::wire::leg::{LegReport, StopReason};
use crate::wire::leg_usage::{LegUsage, ProviderUsage};
use crate::wire::stream_state::StreamState;
use crate::wire::view::TurnPartKind;
use crate::wire::{Ending, Framing, ResponseWatch, Streams, View, sse};

impl Streams for Gemini {
    fn dialect(&self, view: &View, watch: ResponseWatch) -> Box<dyn Dialect> {
        let place = fingerprints::place_of_answer(self, view);
        Box::new(GeminiStream::new(watch, place))
    }
}

/// State of the stream.
#[derive(Default)]
struct GeminiStream {
    state: StreamState,
    framing: Framing,
    /// Where the agent's transcript will have this response.
    place: MessageNumber,
    usage: LegUsage<GeminiUsage>,
    /// Leg 1's, for every chunk: JSON values.
    identity: GeminiIdentity,
    /// Whether anything of this leg was shown.
    spoke: bool,
    fingerprints: Fingerprints,
    run: StreamingCall,
    /// Whether the last visible part was a text: agents join neighbouring ones.
    in_text: bool,
    end: Option<LastChunk>,
    /// The end of upstream's frames: ours end the same way.
    terminator: &'static str,
}

/// A leg's last chunk, while it waits.
struct LastChunk {
    raw: Bytes,
    chunk: GeminiChunk,
    seen: ChunkParts,
    /// Whether its visible parts were sent on their own.
    shown: bool,
}

impl Dialect for GeminiStream {
    fn framing(&self) -> Framing {
        self.framing
    }

    fn frame_as(&mut self, framing: Framing) {
        self.framing = framing;
    }

    fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        let Some(chunk) = GeminiChunk::read(data) else {
            return out.push(raw.clone());
        };
        self.terminator = if raw.ends_with(b"\r\n") {
            "\r\n\r\n"
        } else {
            "\n\n"
        };
        if error_in(data, chunk.root).is_some() {
            return self.state.pass_error(self.spoke, raw, out);
        }
        self.learn(data, &chunk);
        if let Some(text) = self.state.opening.take() {
            self.say(&text, out);
        }
        let seen = self.parts(data, &chunk);
        let stop = chunk.stop(data, !self.state.report.calls.is_empty() || self.hides());
        if stop == StopReason::Open {
            self.go_on(raw, data, &chunk, &seen, out);
            return;
        }
        if let StreamingCall::Hidden(streamed) = std::mem::take(&mut self.run) {
            self.state.report.hidden.push(streamed.finish(false));
        }
        self.state.report.stop = stop;
        self.state.report.ended = true;
        if self.holding() {
            self.end = Some(LastChunk {
                raw: raw.clone(),
                chunk,
                seen,
                shown: false,
            });
        } else {
            out.push(sse::edited(raw, data, seen.breaks));
        }
    }

    fn state(&self) -> &StreamState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut StreamState {
        &mut self.state
    }

    fn holds_end(&self) -> bool {
        self.end.is_some()
    }

    fn next_leg(&mut self) {
        self.usage.next_leg();
        self.fingerprints = Fingerprints::default();
        self.run = StreamingCall::None;
        self.in_text = false;
        self.spoke = false;
        self.end = None;
        self.state.next_leg();
    }

    fn forget_leg(&mut self) {
        self.state.report = LegReport::default();
        self.usage.forget();
        self.run = StreamingCall::None;
        self.end = None;
    }

    fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        self.show_end(out);
        let parts = format!("[{}]", text_part(text));
        out.push(self.own(&parts, "", ""));
    }

    /// An empty line between events, whitespace between elements; both SDKs choke on comments.
    fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        out.push(Bytes::from_static(b"\n"));
    }

    fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        let end = self.end.take();
        match (ending, end) {
            (Ending::Own | Ending::WithoutCall, Some(end)) => out.push(self.last(end)),
            (Ending::Own | Ending::WithoutCall, None) => {}
            (Ending::Stopped { next_input } | Ending::Lost { next_input }, end) => {
                self.end = end;
                self.show_end(out);
                let usage = stopped(&self.usage.all(), next_input);
                let usage = format!(r#","usageMetadata":{usage}"#);
                out.push(self.own(NO_PARTS, r#","finishReason":"STOP""#, &usage));
            }
        }
    }
}

impl GeminiStream {
    fn new(watch: ResponseWatch, place: MessageNumber) -> Self {
        Self {
            state: StreamState::new(watch),
            place,
            terminator: "\r\n\r\n",
            ..Self::default()
        }
    }

    /// Whether the end of this leg is buffered: a call was hidden, or its numbers need rewriting.
    fn holding(&self) -> bool {
        self.state.holds() || self.hides()
    }

    fn hides(&self) -> bool {
        !self.state.report.hidden.is_empty() || matches!(self.run, StreamingCall::Hidden(_))
    }

    fn learn(&mut self, data: &[u8], chunk: &GeminiChunk) {
        if let Some(usage) = chunk.get(data, "usageMetadata") {
            self.usage.take(data, usage, &mut self.state.report);
        }
        if self.state.report.served.model.is_empty() {
            self.state.report.served.take(data, chunk.root);
        }
        let id = chunk.get(data, "responseId");
        if let Some(id) = id.and_then(|i| crate::text::json::string(data, i)) {
            self.state.report.id = id.into_owned();
        }
        self.identity.learn(data, chunk);
    }

    /// Goes through a chunk's parts: ours are hidden, calls are named, text is escaped.
    fn parts(&mut self, data: &[u8], chunk: &GeminiChunk) -> ChunkParts {
        let mut seen = ChunkParts::default();
        for piece in chunk.pieces(data) {
            let hidden = piece.part.kind == TurnPartKind::Call && self.call(data, &piece);
            if !hidden {
                let text = piece.part.text.map(|inside| self.state.break_up(data, inside));
                seen.breaks.extend(text.into_iter().flatten());
                self.count(&piece);
            }
            seen.parts.push(piece.part.span);
            seen.hidden.push(hidden);
        }
        seen
    }

    /// One call part; whether it is hidden.
    fn call(&mut self, data: &[u8], piece: &PartMembers) -> bool {
        let goes_on = streamed_call::goes_on(data, piece);
        if piece.name.is_none() {
            return self.more_arguments(data, piece, goes_on);
        }
        // An unfinished run ends here.
        if let StreamingCall::Hidden(streamed) = std::mem::take(&mut self.run) {
            self.state.report.hidden.push(streamed.finish(false));
        }
        let (after, limit) = (self.state.report.parts, self.state.watch.buffered_bytes);
        let tool = piece
            .called(data)
            .and_then(|name| self.state.watch.hide.find(&name));
        let Some(tool) = tool else {
            let fingerprint = self.fingerprints.next(data, piece.traits(), self.place);
            self.state.report.calls.push((fingerprint.text(), after));
            self.state.report.parts += 1;
            self.run = if goes_on {
                StreamingCall::Shown
            } else {
                StreamingCall::None
            };
            return false;
        };
        if goes_on {
            self.run = StreamingCall::Hidden(Box::new(StreamedCall::new(data, piece, tool, after, limit)));
        } else {
            self.state
                .report
                .hidden
                .push(streamed_call::whole(data, piece, tool, after, limit));
        }
        true
    }

    fn more_arguments(&mut self, data: &[u8], piece: &PartMembers, goes_on: bool) -> bool {
        match std::mem::take(&mut self.run) {
            StreamingCall::Hidden(mut streamed) => {
                streamed.take(data, piece);
                if goes_on {
                    self.run = StreamingCall::Hidden(streamed);
                } else {
                    self.state.report.hidden.push(streamed.finish(true));
                }
                true
            }
            StreamingCall::Shown if goes_on => {
                self.run = StreamingCall::Shown;
                false
            }
            _ => false,
        }
    }

    /// Counts a visible part the way agents echo them: calls are counted already, neighbouring texts are one,
    /// thinking and empty texts may be dropped.
    fn count(&mut self, piece: &PartMembers) {
        match piece.part.kind {
            TurnPartKind::Thinking => {}
            TurnPartKind::Call => self.in_text = false,
            TurnPartKind::Text if piece.is_empty_text() => {}
            TurnPartKind::Text => {
                self.state.report.parts += usize::from(!self.in_text);
                self.in_text = true;
            }
            _ => {
                self.state.report.parts += 1;
                self.in_text = false;
            }
        }
    }

    /// Sends a chunk on that is not the leg's last: without its usage, which is a running total of this leg
    /// alone, and only with parts.
    fn go_on(
        &mut self,
        raw: &Bytes,
        data: &[u8],
        chunk: &GeminiChunk,
        seen: &ChunkParts,
        out: &mut Vec<Bytes>,
    ) {
        if self.state.leg == 0 && !self.state.watch.hide.any() {
            // Nothing can be hidden in it: the stream stays as upstream shapes it.
            return out.push(sse::edited(raw, data, seen.breaks.clone()));
        }
        let mut edits = match seen.edits() {
            Some(edits) => edits,
            None if !seen.parts.is_empty() || !chunk.says_more(data) => return,
            None => vec![chunk.with_parts(data, NO_PARTS)],
        };
        edits.extend(chunk.without(data, "usageMetadata"));
        edits.extend(self.same_identity(data, chunk));
        self.spoke = true;
        out.push(sse::edited(raw, data, edits));
    }

    /// Edits that give a later leg's chunk the first one's identity.
    fn same_identity(&self, data: &[u8], chunk: &GeminiChunk) -> Vec<Edit> {
        if self.state.leg == 0 {
            return Vec::new();
        }
        self.identity.edits(data, chunk)
    }

    /// The chunk that ends the response, in place of the leg's own last one.
    fn last(&self, end: LastChunk) -> Bytes {
        let data = &self.framing.data(&end.raw)[..];
        let mut edits = match end.seen.edits().filter(|_| !end.shown) {
            Some(edits) => edits,
            // Untouched, a leg's own end is the provider's to shape.
            None if self.state.leg == 0 && end.seen.parts.is_empty() && !self.hides() => Vec::new(),
            None => vec![end.chunk.with_parts(data, NO_PARTS)],
        };
        if self.state.leg > 0 {
            let usage = GeminiUsage::merged(&self.usage.all());
            edits.extend(usage.and_then(|u| end.chunk.with(data, "usageMetadata", u)));
            edits.extend(self.same_identity(data, &end.chunk));
        }
        sse::edited(&end.raw, data, edits)
    }

    /// Visible parts of a last chunk that will not be sent itself.
    fn show_end(&mut self, out: &mut Vec<Bytes>) {
        let Some(mut end) = self.end.take() else { return };
        if !end.shown && end.seen.visible() {
            end.shown = true;
            let parts = end.seen.texts(&self.framing.data(&end.raw));
            let parts = format!("[{}]", parts.join(","));
            out.push(self.own(&parts, "", ""));
        }
        self.end = Some(end);
    }

    /// A chunk of our own.
    fn own(&self, parts: &str, finish: &str, usage: &str) -> Bytes {
        let json = self.identity.chunk(parts, finish, usage);
        match self.framing {
            Framing::Sse => Bytes::from(format!("data: {json}{}", self.terminator)),
            _ => Bytes::from(json),
        }
    }
}
