//! Chat streams: one completion to the agent, however many legs it has. Events:
//! <https://platform.openai.com/docs/api-reference/chat-streaming>.

use super::OpenaiChat;
use bytes::Bytes;

use super::calls::{CallListFate, LegCalls};
use super::chunk::{self, ChatChunk, ChunkChoice};
use super::identity::ChatIdentity;
use super::usage::stopped;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::tools::ToolNames;
use crate::wire::dialect::Dialect;
use crate::wire::leg::LegReport;
use crate::wire::leg_usage::{LegUsage, ProviderUsage};
use crate::wire::openai::OpenaiUsage;
use crate::wire::stream_state::StreamState;
use crate::wire::{Ending, ResponseWatch, Streams, View, sse};

impl Streams for OpenaiChat {
    fn dialect(&self, view: &View, watch: ResponseWatch) -> Box<dyn Dialect> {
        Box::new(ChatStream::new(view, watch))
    }
}

const DONE: &[u8] = b"[DONE]";

/// State of the stream.
#[derive(Default)]
struct ChatStream {
    state: StreamState,
    /// The agent requested usage.
    wants_usage: bool,
    /// It did not, and we did: the chunk that holds nothing else is not shown.
    hides_usage: bool,
    /// More than one choice: relayed as it is.
    many: bool,
    usage: LegUsage<OpenaiUsage>,
    identity: ChatIdentity,
    calls: LegCalls,
    /// The leg has a content.
    spoke: bool,
    /// Accumulators glue strings together: a role is shown once.
    role_shown: bool,
    ends: TerminalFrames,
    /// Whether the text of ours before upstream's first output was emitted.
    opened: bool,
}

/// Terminal frames that wait, each with its data.
#[derive(Default)]
struct TerminalFrames {
    finish: Option<(Bytes, Vec<u8>)>,
    usage: Option<(Bytes, Vec<u8>)>,
    done: Option<Bytes>,
}

/// What a chunk becomes.
#[derive(Default)]
struct ChunkShape {
    edits: Vec<Edit>,
    /// Something of its delta was taken out.
    taken: bool,
    /// Something in its delta is left to say.
    left: bool,
    /// Names the role.
    role: bool,
}

impl Dialect for ChatStream {
    fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        if data.trim_ascii() == DONE {
            return self.done(raw, out);
        }
        let Some(chunk) = ChatChunk::read(data) else {
            return out.push(raw.clone());
        };
        if chunk.error {
            let shown = self.state.report.parts > 0 || !self.state.report.id.is_empty();
            return self.state.pass_error(shown, raw, out);
        }
        self.note(data, &chunk);
        match &chunk.choice {
            _ if self.many => out.push(raw.clone()),
            Some(choice) => self.choice(raw, data, &chunk, choice, out),
            None if chunk.usage.is_some() => self.usage_chunk(raw, data, out),
            None => {
                let edits = self.identity_edits(data, &chunk);
                out.push(sse::edited(raw, data, edits));
            }
        }
    }

    fn state(&self) -> &StreamState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut StreamState {
        &mut self.state
    }

    fn holds_end(&self) -> bool {
        self.ends.finish.is_some() || self.ends.usage.is_some() || self.ends.done.is_some()
    }

    fn hide(&mut self, tools: ToolNames) {
        self.calls.hide(tools);
    }

    fn next_leg(&mut self) {
        // A later leg carries the tool, and so our wish.
        self.hides_usage = !self.wants_usage;
        self.spoke = false;
        self.usage.next_leg();
        self.calls.next_leg();
        self.ends = TerminalFrames::default();
        self.state.next_leg();
    }

    fn forget_leg(&mut self) {
        self.state.report = LegReport::default();
        self.usage.forget();
        self.ends = TerminalFrames::default();
    }

    fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        let delta = format!(r#"{{"content":{}}}"#, json::quote(text));
        out.push(self.own(&delta, "null"));
    }

    fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        // Not a data event: the TypeScript SDK throws on one without choices.
        out.push(Bytes::from_static(b": keep-alive\n\n"));
    }

    fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        let ends = std::mem::take(&mut self.ends);
        match ending {
            Ending::Own | Ending::WithoutCall => {
                // Usage goes last: accumulators take it from whatever chunk comes last.
                out.extend(ends.finish.map(|(raw, data)| self.last(&raw, &data, ending)));
                let usage = ends.usage.filter(|_| !self.hides_usage);
                out.extend(usage.map(|(raw, data)| self.last(&raw, &data, ending)));
                out.extend(ends.done);
            }
            Ending::Stopped { next_input } | Ending::Lost { next_input } => {
                out.push(self.own("{}", r#""stop""#));
                if self.wants_usage {
                    let usage = stopped(&self.usage.all(), next_input);
                    out.push(self.bare("[]", &usage));
                }
                out.push(sse::unnamed("[DONE]"));
            }
        }
    }
}

impl ChatStream {
    fn new(view: &View, watch: ResponseWatch) -> Self {
        let wants_usage = view.facts.wants_usage;
        Self {
            state: StreamState::new(watch),
            wants_usage,
            hides_usage: !wants_usage && watch.hide.any(),
            calls: LegCalls::new(watch),
            many: view.facts.many,
            ..Self::default()
        }
    }

    /// Notes what every chunk states: its identity, its usage, its finish reason.
    fn note(&mut self, data: &[u8], chunk: &ChatChunk) {
        if self.state.report.served.model.is_empty() || chunk.usage.is_some() {
            self.state.report.served.take(data, chunk.root);
        }
        if chunk.named && self.state.report.id.is_empty() {
            let own = chunk.members.iter().find(|(key, _)| key.of(data) == b"id");
            self.state.report.id = own.map(|(_, id)| id.inner().text(data)).unwrap_or_default();
        }
        self.identity.take(data, chunk);
        if let Some(usage) = chunk.usage {
            self.usage.take(data, usage, &mut self.state.report);
        }
        if let Some(reason) = chunk.choice.as_ref().and_then(|c| c.finish) {
            self.state.report.stop = chunk::stop(json::string(data, reason).as_deref());
        }
    }

    fn choice(
        &mut self,
        raw: &Bytes,
        data: &[u8],
        chunk: &ChatChunk,
        choice: &ChunkChoice,
        out: &mut Vec<Bytes>,
    ) {
        if let Some(text) = self.state.opening.take() {
            out.push(self.own(r#"{"role":"assistant","content":""}"#, "null"));
            self.role_shown = true;
            self.opened = true;
            self.say(&text, out);
        }
        let shape = self.shape(data, chunk, choice);
        if choice.finish.is_some() {
            self.finish(raw, data, chunk, choice, shape, out);
        } else if shape.left || !shape.taken {
            out.push(sse::edited(raw, data, shape.edits));
        }
    }

    /// The chunk that ends the choice. Its other content is not buffered with it.
    fn finish(
        &mut self,
        raw: &Bytes,
        data: &[u8],
        chunk: &ChatChunk,
        choice: &ChunkChoice,
        shape: ChunkShape,
        out: &mut Vec<Bytes>,
    ) {
        // A call cut off by the end of its leg is not whole.
        let natural = self.state.report.stop.natural();
        let last = self.state.report.hidden.len();
        for (i, call) in self.state.report.hidden.iter_mut().enumerate() {
            call.complete = natural || i + 1 < last;
        }
        let waiting = self.calls.flush(self.state.leg > 0, &mut self.state.report);
        if !self.state.holds() {
            self.release(waiting, out);
            return out.push(sse::edited(raw, data, shape.edits));
        }
        if shape.left {
            let mut edits = shape.edits;
            edits.extend(choice.finish.map(|f| Edit::replace(f, "null")));
            edits.extend(chunk.usage.map(|u| Edit::replace(u, "null")));
            out.push(sse::edited(raw, data, edits));
        }
        self.release(waiting, out);
        let rest = choice.delta.filter(|_| shape.left || shape.taken);
        let buffered = sse::edited(
            raw,
            data,
            rest.map(|d| Edit::replace(d, "{}")).into_iter().collect(),
        );
        let end_data = sse::data(&buffered).into_owned();
        self.ends.finish = Some((buffered, end_data));
    }

    /// Calls that waited for a name until the end.
    fn release(&mut self, elements: Option<String>, out: &mut Vec<Bytes>) {
        if let Some(elements) = elements {
            out.push(self.own(&format!(r#"{{"tool_calls":[{elements}]}}"#), "null"));
        }
    }

    fn shape(&mut self, data: &[u8], chunk: &ChatChunk, choice: &ChunkChoice) -> ChunkShape {
        let mut shape = ChunkShape {
            edits: self.identity_edits(data, chunk),
            ..ChunkShape::default()
        };
        // Running totals (Gemini, vLLM) are this leg's alone.
        if let Some(usage) = chunk
            .usage
            .filter(|_| self.state.leg > 0 && choice.finish.is_none())
        {
            let now = OpenaiUsage::merged(&self.usage.all());
            shape.edits.extend(now.map(|n| Edit::replace(usage, n)));
        }
        let members = choice.delta.map_or(Vec::new(), |d| json::members(data, d));
        let mut gone = Vec::new();
        for &(key, value) in &members {
            let goes = match key.of(data) {
                b"role" => self.role(&mut shape),
                b"tool_calls" => self.tool_calls(data, value, &mut shape),
                b"content" => self.content(data, value, &mut shape),
                _ => {
                    shape.left |= chunk::says_something(value.of(data));
                    false
                }
            };
            gone.extend(goes.then_some(key));
        }
        shape.taken = !gone.is_empty();
        shape.edits.extend(chunk::without(&members, &gone));
        shape
    }

    fn role(&mut self, shape: &mut ChunkShape) -> bool {
        let shown = std::mem::replace(&mut self.role_shown, true);
        shape.role = true;
        shape.left |= !shown;
        // Some servers repeat it in every chunk; on the first leg that is their own business.
        shown && (self.state.leg > 0 || self.opened)
    }

    fn content(&mut self, data: &[u8], value: Span, shape: &mut ChunkShape) -> bool {
        if chunk::says_something(value.of(data)) {
            shape.left = true;
            self.state.report.parts += usize::from(!std::mem::replace(&mut self.spoke, true));
        }
        for inside in chunk::texts(data, value) {
            shape.edits.extend(self.state.break_up(data, inside));
        }
        false
    }

    fn tool_calls(&mut self, data: &[u8], value: Span, shape: &mut ChunkShape) -> bool {
        if json::elements(data, value).is_empty() {
            return false;
        }
        match self
            .calls
            .take(data, value, self.state.leg > 0, &mut self.state.report)
        {
            CallListFate::Shown(edits) => shape.edits.extend(edits),
            CallListFate::Rebuilt(list) => shape.edits.push(Edit::replace(value, list)),
            CallListFate::Gone => return true,
        }
        shape.left = true;
        false
    }

    fn usage_chunk(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        if self.state.holds() {
            self.ends.usage = Some((raw.clone(), data.to_vec()));
        } else if !self.hides_usage {
            out.push(raw.clone());
        }
    }

    fn done(&mut self, raw: &Bytes, out: &mut Vec<Bytes>) {
        self.state.report.ended = true;
        let waiting = self.calls.flush(self.state.leg > 0, &mut self.state.report);
        self.release(waiting, out);
        if self.state.holds() {
            self.ends.done = Some(raw.clone());
        } else {
            out.push(raw.clone());
        }
    }

    /// A terminal frame as it is sent at last.
    fn last(&self, raw: &Bytes, data: &[u8], ending: Ending) -> Bytes {
        let Some(chunk) = ChatChunk::read(data) else {
            return raw.clone();
        };
        let mut edits = self.identity_edits(data, &chunk);
        let reason = chunk.choice.as_ref().and_then(|c| c.finish);
        if ending == Ending::WithoutCall
            && let Some(reason) = reason.filter(|r| r.of(data) == b"\"tool_calls\"")
        {
            edits.push(Edit::replace(reason, r#""stop""#));
        }
        if let Some(usage) = chunk.usage.filter(|_| self.state.leg > 0) {
            let merged = OpenaiUsage::merged(&self.usage.all());
            edits.extend(merged.map(|m| Edit::replace(usage, m)));
        }
        sse::edited(raw, data, edits)
    }

    /// A later leg's chunk under leg 1's name.
    fn identity_edits(&self, data: &[u8], chunk: &ChatChunk) -> Vec<Edit> {
        if self.state.leg == 0 {
            return Vec::new();
        }
        self.identity.edits(data, chunk)
    }

    /// A chunk of our own.
    fn own(&self, delta: &str, finish: &str) -> Bytes {
        let choice = format!(r#"[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]"#);
        self.bare(&choice, "null")
    }

    fn bare(&self, choices: &str, usage: &str) -> Bytes {
        self.identity
            .chunk(choices, Some(usage).filter(|_| self.wants_usage))
    }
}
