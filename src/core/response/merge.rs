//! Merges the legs of one streamed response, frame by frame.

use std::ops::Range;

use bytes::Bytes;

use crate::limits::LEG_LOG;
use crate::tools::TOOL_NAME;
use crate::transcript::{AnswerContent, AnswerPartKind};
use crate::wire::framer::{FrameBatch, Framer, OversizeFrame};
use crate::wire::framing::{ArrayWriter, Framing};
use crate::wire::{Ending, LegMachine, LegOutput, LegReport, StreamOpening, Wire};
use memchr::memmem;

/// Consumes upstream's frames and emits the agent's.
pub struct StreamMerge {
    framer: Framer,
    /// The array that the agent receives, if that is the framing.
    array: ArrayWriter,
    pub machine: LegMachine,
    /// The current leg's stream, for a follow-up request; `None` once it exceeds the limit.
    ///
    /// A copy, because slices would keep whole reads in memory, and upstream's events are small.
    log: Option<Vec<u8>>,
    logged: usize,
    /// Whether the agent's stream differs from upstream's, so that unread frames would contradict it.
    committed: bool,
    /// Whether the stream can neither be parsed further nor forwarded unchanged.
    pub failed: bool,
    /// Whether any bytes of the current leg were forwarded.
    pub(super) leg_shown: bool,
    /// Whether the last frame is withheld: a part of a hidden call, or the end of a leg.
    withholding: bool,
    /// Whether bytes are forwarded unread until the leg ends, because a frame exceeded the limit.
    blind: bool,
    frame_limit: usize,
}

impl StreamMerge {
    /// Creates the merge of one response.
    ///
    /// Frames longer than `frame_limit` bytes are forwarded unread unless something was hidden. `keep`
    /// retains the leg's output for a follow-up request.
    pub fn new(machine: LegMachine, frame_limit: usize, keep: bool) -> Self {
        Self {
            framer: Framer::new(machine.framing(), frame_limit),
            array: ArrayWriter::default(),
            machine,
            log: keep.then(Vec::new),
            logged: 0,
            committed: false,
            failed: false,
            leg_shown: false,
            withholding: false,
            blind: false,
            frame_limit,
        }
    }

    /// Reads upstream's next bytes and appends the bytes that the agent may have now.
    pub fn feed(&mut self, chunk: Bytes, out: &mut Vec<Bytes>) {
        let sent = out.len();
        self.take(chunk, out);
        self.leg_shown |= out.len() > sent;
    }

    fn take(&mut self, chunk: Bytes, out: &mut Vec<Bytes>) {
        if self.blind {
            out.push(chunk);
            return;
        }
        match self.framer.push(chunk) {
            Ok(batch) if batch.frames.is_empty() => {}
            Ok(batch) => self.batch(&batch, out),
            // After a hidden call or in a later leg, unread frames would make the message invalid.
            Err(OversizeFrame(_)) if self.is_changed() => self.failed = true,
            // Nothing was changed so far, so the rest of the leg may pass unread.
            Err(OversizeFrame(buffered)) => {
                self.blind = true;
                out.push(buffered);
            }
        }
    }

    fn batch(&mut self, batch: &FrameBatch, out: &mut Vec<Bytes>) {
        self.remember(batch.buf.clone());
        let mut read = Vec::new();
        // Gemini's array needs a comma between elements, so no run of frames can be passed on as one slice.
        if self.machine.framing() == Framing::JsonArray {
            for range in &batch.frames {
                self.frame(batch.buf.slice(range.clone()), &mut read);
            }
            self.elements(read, out);
        } else {
            let mut run = OutputRun::new(&batch.buf);
            for range in &batch.frames {
                self.frame(batch.buf.slice(range.clone()), &mut read);
                run.read(range, &mut read, out);
            }
            run.flush(out);
        }
    }

    fn frame(&mut self, raw: Bytes, out: &mut Vec<Bytes>) {
        let data = self.machine.framing().data(&raw);
        if data.is_empty() {
            return out.push(raw.clone());
        }
        let sent = out.len();
        match self.machine.framing() {
            Framing::JsonArray => self.machine.frame(&raw.slice_ref(&data), &data, out),
            _ => self.machine.frame(&raw, &data, out),
        }
        self.withholding = out.len() == sent;
    }

    /// Writes pieces as elements of the array.
    fn elements(&mut self, pieces: Vec<Bytes>, out: &mut Vec<Bytes>) {
        for piece in pieces {
            self.array.element(piece, out);
        }
    }

    /// Appends frames that baton created.
    fn show(&mut self, made: Vec<Bytes>, out: &mut Vec<Bytes>) {
        match self.machine.framing() {
            Framing::JsonArray => self.elements(made, out),
            _ => out.extend(made),
        }
    }

    /// Ends upstream's stream.
    ///
    /// A last frame without its terminator counts if its data is complete JSON. Anything else is forwarded
    /// unchanged.
    pub fn finish_leg(&mut self, out: &mut Vec<Bytes>) {
        let rest = self.framer.finish();
        if rest.is_empty() {
            return;
        }
        let data = self.machine.framing().data(&rest);
        let sent = out.len();
        if crate::text::json::whole(&data).is_ok() {
            let framed = Bytes::from([&rest[..], self.machine.framing().terminator()].concat());
            let mut passed = Vec::new();
            self.frame(framed.clone(), &mut passed);
            self.remember(framed);
            self.show(passed, out);
        } else if self.is_changed() {
            // Half a frame before one of baton's frames would corrupt both.
        } else if self.machine.framing() != Framing::JsonArray || !matches!(&data[..], b"" | b"]") {
            // Only a closing bracket is left out, because `close` writes it.
            out.push(rest);
        }
        self.leg_shown |= out.len() > sent;
    }

    fn remember(&mut self, bytes: Bytes) {
        self.logged += bytes.len();
        if self.logged > LEG_LOG {
            self.log = None;
        }
        if let Some(log) = self.log.as_mut().filter(|_| !bytes.is_empty()) {
            log.extend_from_slice(&bytes);
        }
    }

    /// Report of the current leg so far.
    pub fn report(&self) -> &LegReport {
        self.machine.report()
    }

    /// Whether the leg's own last event arrived.
    pub fn leg_ended(&self) -> bool {
        self.report().ended
    }

    /// Whether upstream's last frames are withheld, so that the agent receives nothing.
    pub fn withholding(&self) -> bool {
        self.withholding || self.machine.holds_end()
    }

    /// Whether the agent's frames differ from upstream's: in a later leg, or after a hidden call.
    pub(super) fn is_changed(&self) -> bool {
        self.committed || self.withholding() || !self.report().hidden.is_empty()
    }

    /// Ends the response with an error in the protocol's own form.
    ///
    /// An unchanged response ends abruptly, like upstream's, and so does one whose bytes are forwarded
    /// unread.
    pub fn fail(&mut self, wire: &Wire, error: &str, out: &mut Vec<Bytes>) {
        if self.is_changed() && !self.blind {
            // A leg that has only begun has not emitted its opening text yet.
            if let Some(opening) = self.machine.take_opening().filter(|_| self.leg_shown) {
                self.say(&opening, out);
            }
            let event = wire.stream_error(self.machine.framing(), error, self.array.is_open());
            out.push(event.into());
        }
    }

    /// Ends the response with an error although upstream has not failed. Returns `false` if its bytes are
    /// forwarded unread, so that they may end within a frame.
    pub fn stop(&mut self, wire: &Wire, error: &str, out: &mut Vec<Bytes>) -> bool {
        if !self.blind {
            let event = wire.stream_error(self.machine.framing(), error, self.array.is_open());
            out.push(event.into());
        }
        !self.blind
    }

    /// Returns the model's output of this leg, or `None` if it was too large to keep.
    pub fn spoken(&self) -> Option<LegOutput> {
        let log = self.log.as_ref()?;
        let mut framer = Framer::new(self.machine.framing(), self.frame_limit);
        let batch = framer.push(Bytes::copy_from_slice(log)).ok()?;
        let frames = batch.frames.iter().map(|r| batch.buf.slice(r.clone()));
        Some(LegOutput::Stream(frames.collect()))
    }

    /// Whether the model wrote a call of baton's tool as text. Unknown, and so `false`, if the leg was too
    /// large to keep.
    pub fn writes_call(&self) -> bool {
        let Some(log) = self.log.as_deref() else {
            return false;
        };
        // The end of an array may arrive after the leg's last element.
        let is_open = self.machine.framing() == Framing::JsonArray && crate::text::json::whole(log).is_err();
        match is_open {
            true => writes_call(&[log, b"]"].concat()),
            false => writes_call(log),
        }
    }

    /// Starts reading the bytes of another leg.
    pub fn next_leg(&mut self) {
        self.framer = Framer::new(self.machine.framing(), self.frame_limit);
        self.committed = true;
        self.failed = false;
        self.leg_shown = false;
        // A later leg is always kept: its calls may have to be answered as well.
        self.log = Some(Vec::new());
        self.logged = 0;
        self.blind = false;
        // This leg has shown no output yet.
        self.withholding = true;
        self.machine.next_leg();
    }

    /// Begins the response with text from baton: a note, or the sentinel of the handoff before the first leg.
    pub fn open_with(&mut self, text: String) {
        self.committed = true;
        self.machine.open_with(text);
    }

    /// Begins a response before any leg.
    ///
    /// Text from baton follows, and after [`next_leg`](Self::next_leg) a leg.
    pub fn begin(&mut self, begun: &StreamOpening, out: &mut Vec<Bytes>) {
        let mut first = Vec::new();
        self.feed(begun.frames.clone(), &mut first);
        match begun.is_shown {
            true => out.append(&mut first),
            // The opening is not shown, so the array has not begun.
            false => self.array = ArrayWriter::default(),
        }
    }

    /// Emits assistant text from baton.
    pub fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        let mut made = Vec::new();
        self.machine.say(text, &mut made);
        self.show(made, out);
    }

    /// Emits a keep-alive, except while bytes are forwarded unread: it could land in the middle of a frame.
    pub fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        if !self.blind {
            self.machine.keepalive(out);
        }
    }

    /// Ends the response.
    pub fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        let mut made = Vec::new();
        self.machine.close(ending, &mut made);
        self.show(made, out);
        // Bytes that passed unread already contain the end.
        if self.machine.framing() == Framing::JsonArray && !self.blind {
            self.array.end(out);
        }
    }
}

/// Adjacent unchanged frames from one read, forwarded as a single slice.
struct OutputRun<'a> {
    buf: &'a Bytes,
    same: Range<usize>,
}

impl<'a> OutputRun<'a> {
    fn new(buf: &'a Bytes) -> Self {
        Self { buf, same: 0..0 }
    }

    /// Adds a frame and the pieces that it became.
    fn read(&mut self, frame: &Range<usize>, pieces: &mut Vec<Bytes>, out: &mut Vec<Bytes>) {
        let raw = &self.buf[frame.clone()];
        match &pieces[..] {
            // An unchanged frame is the same slice, which costs no comparison of bytes.
            [piece] if piece.as_ptr() == raw.as_ptr() && piece.len() == raw.len() => {
                pieces.clear();
                if self.same.end != frame.start {
                    self.flush(out);
                    self.same.start = frame.start;
                }
                self.same.end = frame.end;
            }
            _ => {
                self.flush(out);
                out.append(pieces);
            }
        }
    }

    fn flush(&mut self, out: &mut Vec<Bytes>) {
        if !self.same.is_empty() {
            out.push(self.buf.slice(self.same.clone()));
        }
        self.same = 0..0;
    }
}

/// A part of the tool's name that tokenizers do not split. The rest of the name may arrive in another frame.
const SYLLABLE: &[u8] = b"hand";

/// Members of a written call that name the tool.
const KEYS: [&str; 4] = ["\"name\"", "\"tool\"", "\"tool_name\"", "\"function\""];

/// Whether a response, streamed or complete, has no call but contains a call of the tool as JSON in its text.
///
/// Small local models write calls so, and no server parses them. The exchange records it, but the call is never
/// executed.
pub fn writes_call(answer: &[u8]) -> bool {
    let name = memmem::Finder::new(TOOL_NAME);
    // Many responses contain the syllable and few the name, so most are never parsed.
    if memmem::find(answer, SYLLABLE).is_none()
        || !AnswerContent::may_hold(answer, |text| name.find(text).is_some())
    {
        return false;
    }
    let content = AnswerContent::from_body(answer);
    let calls = content.parts.iter().any(|part| part.kind == AnswerPartKind::Call);
    let parts = content.parts.iter();
    let mut texts = parts.filter(|part| part.kind == AnswerPartKind::Text);
    !calls && texts.any(|part| names_tool(&part.text()))
}

fn names_tool(text: &str) -> bool {
    let name = format!("\"{TOOL_NAME}\"");
    memmem::find_iter(text.as_bytes(), name.as_bytes()).any(|at| {
        let key = text[..at].trim_end().strip_suffix(':');
        key.is_some_and(|key| KEYS.iter().any(|word| key.trim_end().ends_with(word)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const WRITTEN: &str =
        "```json\n{\"name\": \"session_handoff\", \"arguments\": {\"prompt\": \"Go on.\"}}\n```";

    fn sse(events: &[Value]) -> String {
        let frames = events.iter().map(|event| format!("data: {event}\n\n"));
        frames.collect()
    }

    /// Splits text like tokens, with the tool's name in several of them.
    fn pieces(text: &str) -> Vec<&str> {
        text.split_inclusive(['_', ' ']).collect()
    }

    #[test]
    fn a_call_in_the_text_of_any_wire_is_noticed() {
        let chat = |text: &str| json!({"choices": [{"delta": {"content": text}, "index": 0}]});
        let streamed: Vec<Value> = pieces(WRITTEN).into_iter().map(chat).collect();
        let delta = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
        let claude: Vec<Value> = pieces(WRITTEN).into_iter().map(delta).collect();
        let response = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text});
        let responses: Vec<Value> = pieces(WRITTEN).into_iter().map(response).collect();
        let line = |text: &str| {
            json!({"message": {"role": "assistant", "content": text}, "done": false}).to_string()
        };
        let ollama: Vec<String> = pieces(WRITTEN).into_iter().map(line).collect();
        let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": WRITTEN}]}}]});
        for answer in [
            sse(&streamed),
            sse(&claude),
            sse(&responses),
            ollama.join("\n"),
            sse(&[gemini]),
            json!({"choices": [{"message": {"role": "assistant", "content": WRITTEN}}]}).to_string(),
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": WRITTEN}]})
                .to_string(),
        ] {
            assert!(writes_call(answer.as_bytes()), "{answer}");
        }
    }

    #[test]
    fn what_only_speaks_of_the_tool_is_no_call() {
        let said = |content: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": content}]});
        for text in [
            "I will call session_handoff.",
            "The tool \"session_handoff\" exists.",
            "On the other hand: no.",
        ] {
            assert!(!writes_call(said(text).to_string().as_bytes()), "{text}");
        }
        let mut called = said(WRITTEN);
        let call = json!({"type": "tool_use", "id": "t", "name": "Read", "input": {}});
        called["content"].as_array_mut().unwrap().push(call);
        assert!(!writes_call(called.to_string().as_bytes()));
    }
}
