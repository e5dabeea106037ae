//! Reads Gemini's responses: one response for the agent, whatever the number of legs.
//!
//! Events: <https://ai.google.dev/api/generate-content>.

use bytes::Bytes;

use super::chunk::{ChunkParts, GeminiChunk, GeminiIdentity, NO_PARTS};
use super::part::PartMembers;
use super::request::text_part;
use super::streamed_call::{self, StreamedCall, StreamingCall};
use super::usage::{GeminiUsage, stopped};
use crate::text::json;
use crate::text::splice::Edit;
use crate::wire::call_fingerprint::{Fingerprints, MessageNumber};
use crate::wire::error::error_in;
use crate::wire::fingerprints::FingerprintedCalls;
use crate::wire::leg::StopReason;
use crate::wire::leg_state::{Dialect, Frame, HeldFrame, HeldKind, LegState, LegUsage, ProviderUsage};
use crate::wire::view::{self, TurnPartKind};
use crate::wire::{Ending, Framing, View, sse};

/// State of a response.
#[derive(Default)]
pub(super) struct GeminiDialect {
    /// Position of this response in the agent's transcript.
    place: MessageNumber,
    usage: LegUsage<GeminiUsage>,
    /// Identity of the first leg, repeated in every chunk.
    identity: GeminiIdentity,
    leg: GeminiLeg,
    /// The agent's parts of complete replies.
    shown: Vec<String>,
    /// Number of these parts that precede the last leg.
    earlier: usize,
    /// Whether upstream's frames end in line feeds only. Injected frames end the same way.
    bare: bool,
}

/// State of a single leg.
#[derive(Default)]
struct GeminiLeg {
    /// Whether any output of the leg was shown.
    spoke: bool,
    fingerprints: Fingerprints,
    run: StreamingCall,
    /// Whether the last visible part was text. Agents join adjacent text parts.
    in_text: bool,
}

impl Dialect for GeminiDialect {
    fn frame(&mut self, state: &mut LegState, frame: Frame<'_>) {
        let Frame { raw, data } = frame;
        let Some(chunk) = GeminiChunk::read(data) else {
            return state.pass(raw);
        };
        self.bare = !raw.ends_with(b"\r\n");
        if error_in(data, chunk.root).is_some() {
            return state.pass_error(self.leg.spoke, raw);
        }
        self.learn(state, data, &chunk);
        if let Some(text) = state.opening.take() {
            self.say(state, &text);
        }
        let seen = self.parts(state, data, &chunk);
        let stop = self.stop(state, data, &chunk);
        if stop == StopReason::Open {
            return self.go_on(state, frame, &chunk, &seen);
        }
        self.ends(state, stop);
        if !state.holds() {
            return state.out.push(frame.edited(seen.breaks));
        }
        // Visible parts of the last chunk must precede baton's text, and so become a chunk without the end.
        let visible = seen.visible().then(|| {
            let parts = format!("[{}]", seen.texts(data).join(","));
            self.own(state, &parts, "", "")
        });
        state.keep(HeldFrame {
            visible,
            edits: seen.edits().unwrap_or_default(),
            ..HeldFrame::new(HeldKind::End, raw)
        });
    }

    fn whole(&mut self, state: &mut LegState, body: &Bytes) -> Option<()> {
        let data: &[u8] = body;
        let chunk = GeminiChunk::read(data)?;
        if chunk.candidate.is_none() && chunk.get(data, "promptFeedback").is_none() {
            return None;
        }
        self.learn(state, data, &chunk);
        // Grounding counts the parts of its own reply, so its indexes move by the parts of the legs before.
        self.earlier = self.shown.len();
        let seen = self.parts(state, data, &chunk);
        self.shown.extend(seen.texts(data));
        let stop = self.stop(state, data, &chunk);
        self.ends(state, stop);
        Some(())
    }

    fn end_leg(&mut self, _state: &LegState, counts: bool) {
        self.usage.end_leg(counts);
        self.leg = GeminiLeg::default();
    }

    fn say(&mut self, state: &mut LegState, text: &str) {
        let parts = format!("[{}]", text_part(text));
        state.out.push(self.own(state, &parts, "", ""));
    }

    fn say_whole(&mut self, _state: &LegState, text: &str) {
        self.shown.push(text_part(text));
    }

    /// Emits an empty line between events, or whitespace between elements. Both SDKs fail on comments.
    fn keepalive(&mut self, state: &mut LegState) {
        state.out.push(Bytes::from_static(b"\n"));
    }

    /// Emits the final chunk of the response, based on the leg's last one.
    fn last(&mut self, state: &mut LegState, held: HeldFrame, _ending: Ending) {
        let data = &state.framing.data(&held.raw)[..];
        let Some(chunk) = GeminiChunk::read(data) else {
            return;
        };
        let mut edits = match held.visible {
            Some(_) => held.edits,
            // Nothing was changed, so the leg's end stays exactly as the provider sent it.
            None if state.leg == 0 && chunk.pieces(data).is_empty() && state.report.hidden.is_empty() => {
                Vec::new()
            }
            // All parts are hidden, or baton has already sent them as a chunk of their own.
            None => vec![chunk.with_parts(data, NO_PARTS)],
        };
        if state.leg > 0 {
            let usage = GeminiUsage::merged(&self.usage.all());
            edits.extend(usage.and_then(|u| chunk.with(data, "usageMetadata", u)));
            edits.extend(self.identity.edits(data, &chunk));
        }
        state.out.push(sse::edited(&held.raw, data, edits));
    }

    fn own_end(&mut self, state: &mut LegState, _ending: Ending, next_input: u64) {
        let usage = stopped(&self.usage.all(), next_input);
        let usage = format!(r#","usageMetadata":{usage}"#);
        state
            .out
            .push(self.own(state, NO_PARTS, r#","finishReason":"STOP""#, &usage));
    }

    /// Keeps the identity of the first leg. All other members are those of the last leg.
    fn joined(&mut self, state: &LegState, last: &[u8], ending: Ending) -> Vec<Edit> {
        let Some(chunk) = GeminiChunk::read(last) else {
            return Vec::new();
        };
        let list = match self.shown.is_empty() {
            true => NO_PARTS.to_owned(),
            false => format!("[{}]", self.shown.join(",")),
        };
        let mut edits = vec![chunk.with_parts(last, &list)];
        if let Some(reason) = chunk.finish.filter(|_| ending.next_input().is_some()) {
            edits.push(Edit::replace(reason, r#""STOP""#));
        }
        if let Some(usage) = self.usage.joined(ending, stopped) {
            edits.extend(chunk.with(last, "usageMetadata", usage));
        }
        edits.extend(grounding(last, &chunk, self.earlier));
        if state.leg > 0 {
            edits.extend(self.identity.edits(last, &chunk));
        }
        edits
    }
}

impl GeminiDialect {
    pub(super) fn new(view: &View) -> Self {
        Self {
            place: FingerprintedCalls { view }.place_of_answer(),
            ..Self::default()
        }
    }

    fn learn(&mut self, state: &mut LegState, data: &[u8], chunk: &GeminiChunk) {
        if let Some(usage) = chunk.get(data, "usageMetadata") {
            self.usage.take(data, usage, &mut state.report);
        }
        if state.report.served.model.is_empty() {
            state.report.served.take(data, chunk.root);
        }
        let id = chunk.get(data, "responseId");
        if let Some(id) = id.and_then(|i| json::string(data, i)) {
            state.report.id = id.into_owned();
        }
        self.identity.learn(data, chunk);
    }

    fn hides(&self, state: &LegState) -> bool {
        !state.report.hidden.is_empty() || matches!(self.leg.run, StreamingCall::Hidden(_))
    }

    fn stop(&self, state: &LegState, data: &[u8], chunk: &GeminiChunk) -> StopReason {
        chunk.stop(data, !state.report.calls.is_empty() || self.hides(state))
    }

    /// Ends the leg after its last chunk.
    fn ends(&mut self, state: &mut LegState, stop: StopReason) {
        self.cut_short(state);
        state.report.stop = stop;
        state.report.ended = true;
    }

    /// Ends a hidden call whose arguments are incomplete.
    fn cut_short(&mut self, state: &mut LegState) {
        if let StreamingCall::Hidden(streamed) = std::mem::take(&mut self.leg.run) {
            state.report.hidden.push(streamed.finish(false));
        }
    }

    /// Reads the parts of a chunk: hides baton's calls, fingerprints the agent's calls, and escapes text.
    fn parts(&mut self, state: &mut LegState, data: &[u8], chunk: &GeminiChunk) -> ChunkParts {
        let mut seen = ChunkParts::default();
        for piece in chunk.pieces(data) {
            let hidden = piece.part.kind == TurnPartKind::Call && self.call(state, data, &piece);
            if !hidden {
                let text = piece.part.text.map(|inside| state.break_up(data, inside));
                seen.breaks.extend(text.into_iter().flatten());
                self.count(state, &piece);
            }
            seen.parts.push(piece.part.span);
            seen.hidden.push(hidden);
        }
        seen
    }

    /// Reads a call part. Returns whether it is hidden.
    fn call(&mut self, state: &mut LegState, data: &[u8], piece: &PartMembers) -> bool {
        let goes_on = streamed_call::goes_on(data, piece);
        if piece.part.name.is_none() {
            return self.more_arguments(state, data, piece, goes_on);
        }
        // A new call ends the one before it, whose arguments cannot continue any more.
        self.cut_short(state);
        let (after, limit) = (state.report.parts, state.watch.buffered_bytes);
        let Some(tool) = piece.called(data).and_then(|name| state.ours(&name)) else {
            let fingerprint = self.leg.fingerprints.next(data, &piece.part, self.place);
            state.report.call(fingerprint.text());
            state.report.parts += 1;
            self.leg.run = match goes_on {
                true => StreamingCall::Shown,
                false => StreamingCall::None,
            };
            return false;
        };
        if goes_on {
            let streamed = StreamedCall::new(data, piece, tool, after, limit);
            self.leg.run = StreamingCall::Hidden(Box::new(streamed));
        } else {
            let call = streamed_call::whole(data, piece, tool, after, limit);
            state.report.hidden.push(call);
        }
        true
    }

    fn more_arguments(
        &mut self,
        state: &mut LegState,
        data: &[u8],
        piece: &PartMembers,
        goes_on: bool,
    ) -> bool {
        match std::mem::take(&mut self.leg.run) {
            StreamingCall::Hidden(mut streamed) => {
                streamed.take(data, piece);
                if goes_on {
                    self.leg.run = StreamingCall::Hidden(streamed);
                } else {
                    state.report.hidden.push(streamed.finish(true));
                }
                true
            }
            StreamingCall::Shown if goes_on => {
                self.leg.run = StreamingCall::Shown;
                false
            }
            _ => false,
        }
    }

    /// Counts a visible part in the way that agents return it.
    ///
    /// Adjacent text parts count as one, and thinking and empty text may be dropped. Calls are not counted
    /// here.
    fn count(&mut self, state: &mut LegState, piece: &PartMembers) {
        match piece.part.kind {
            TurnPartKind::Thinking => {}
            TurnPartKind::Call => self.leg.in_text = false,
            TurnPartKind::Text if piece.is_empty_text() => {}
            TurnPartKind::Text => {
                state.report.parts += usize::from(!self.leg.in_text);
                self.leg.in_text = true;
            }
            _ => {
                state.report.parts += 1;
                self.leg.in_text = false;
            }
        }
    }

    /// Forwards a chunk other than the leg's last one, if it has visible content.
    ///
    /// The chunk loses its usage, which is a running total of only this leg.
    fn go_on(&mut self, state: &mut LegState, frame: Frame<'_>, chunk: &GeminiChunk, seen: &ChunkParts) {
        let data = frame.data;
        if state.leg == 0 && !state.watch.hide.any() {
            // Nothing can be hidden in this stream, so it stays as upstream sent it.
            return state.out.push(frame.edited(seen.breaks.clone()));
        }
        let mut edits = match seen.edits() {
            Some(edits) => edits,
            // Only hidden parts, or no content at all. Other content without parts gets an empty part below.
            None if !seen.parts.is_empty() || !chunk.says_more(data) => return,
            None => vec![chunk.with_parts(data, NO_PARTS)],
        };
        // Totals that fall from one leg to the next make LangChain add up wrong numbers.
        edits.extend(view::without_member(data, chunk.root, "usageMetadata"));
        if state.leg > 0 {
            edits.extend(self.identity.edits(data, chunk));
        }
        self.leg.spoke = true;
        state.out.push(frame.edited(edits));
    }

    /// Creates a chunk.
    fn own(&self, state: &LegState, parts: &str, finish: &str, usage: &str) -> Bytes {
        let json = self.identity.chunk(parts, finish, usage);
        let end = if self.bare { "\n\n" } else { "\r\n\r\n" };
        match state.framing {
            Framing::Sse => Bytes::from(format!("data: {json}{end}")),
            _ => Bytes::from(json),
        }
    }
}

/// Returns the edits that move the part indices of the last leg's grounding by `by`.
fn grounding(text: &[u8], chunk: &GeminiChunk, by: usize) -> Vec<Edit> {
    let supports = chunk
        .candidate
        .filter(|_| by > 0)
        .and_then(|c| json::at_path(text, c, &["groundingMetadata", "groundingSupports"]));
    let supports = supports.map_or(Vec::new(), |s| json::elements(text, s));
    let segments = supports.into_iter().filter_map(|s| json::get(text, s, "segment"));
    let shifted = segments.map(|segment| match json::get(text, segment, "partIndex") {
        Some(index) => {
            let now = json::number(index.of(text)).unwrap_or_default() + by as u64;
            Edit::replace(index, now.to_string())
        }
        None if json::members(text, segment).is_empty() => {
            Edit::replace(segment, format!(r#"{{"partIndex":{by}}}"#))
        }
        None => Edit::insert(segment.start + 1, format!(r#""partIndex":{by},"#)),
    });
    shifted.collect()
}
