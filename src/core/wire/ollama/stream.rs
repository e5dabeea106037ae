//! Ollama's streams: one response to the agent, however many legs it has. Events:
//! <https://github.com/ollama/ollama/blob/main/docs/api.md>.

use super::Ollama;
use crate::wire::fingerprints;
use bytes::Bytes;
use std::borrow::Cow;

use super::turns::{name, traits};
use super::usage;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::call_fingerprint::{Fingerprints, MessageNumber};
use crate::wire::dialect::Dialect;
use crate::wire::error::error_in;
use crate::wire::leg::{HiddenCall, LegReport, StopReason};
use crate::wire::stream_state::StreamState;
use crate::wire::view;
use crate::wire::{Ending, Framing, ResponseWatch, Streams, View, sse};

impl Streams for Ollama {
    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn dialect(&self, view: &View, watch: ResponseWatch) -> Box<dyn Dialect> {
        let place = fingerprints::place_of_answer(self, view);
        Box::new(OllamaStream::new(watch, place))
    }
}

/// State of the stream.
#[derive(Default)]
struct OllamaStream {
    state: StreamState,
    /// Where the agent's transcript will have this response.
    place: MessageNumber,
    /// Whether anything of this leg was shown.
    spoke: bool,
    /// Whether the model wrote any text in it.
    has_text: bool,
    /// Output tokens of earlier legs.
    spent: u64,
    fingerprints: Fingerprints,
    end: Option<LastLine>,
    /// `model` and `created_at` of the first line, as members with their commas.
    identity: String,
}

/// A leg's last line, while it waits.
struct LastLine {
    raw: Bytes,
    edits: Vec<Edit>,
    /// Members of its message that the agent may see and has not, as one line's message.
    visible: Option<String>,
}

/// One line's spans.
#[derive(Default)]
pub(super) struct LineMembers {
    pub(super) root: Span,
    pub(super) message: Option<Span>,
    pub(super) content: Option<Span>,
    pub(super) thinking: Option<Span>,
    pub(super) calls: Option<Span>,
}

impl LineMembers {
    /// Reads a line or a reply; `None` where it is no JSON object.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let root = json::whole(data).ok().filter(|r| data[r.start] == b'{')?;
        let message = json::get(data, root, "message").filter(|m| data[m.start] == b'{');
        let member = |name: &str| json::get(data, message?, name);
        let literal = |span: &Span| data[span.start] == b'"';
        Some(Self {
            root,
            message,
            content: member("content").filter(literal),
            thinking: member("thinking").filter(literal),
            calls: member("tool_calls").filter(|c| data[c.start] == b'['),
        })
    }

    /// What its reason to be done means.
    pub(super) fn stop(&self, data: &[u8], calls: bool) -> StopReason {
        if !json::get(data, self.root, "done").is_some_and(|d| json::is_true(d.of(data))) {
            return StopReason::Open;
        }
        match json::get_string(data, self.root, "done_reason").as_deref() {
            Some("length") => StopReason::Truncated,
            Some("load" | "unload") => StopReason::Paused,
            _ if calls => StopReason::Calls,
            _ => StopReason::Done,
        }
    }
}

/// Our call, with the element that it is; arguments of more than `limit` bytes are not kept.
pub(super) fn hidden(data: &[u8], call: Span, tool: &'static str, after: usize, limit: usize) -> HiddenCall {
    let known = traits(data, call);
    let id = known.id.map_or(Cow::default(), |id| json::unescape(id.of(data)));
    let arguments = known
        .arguments
        .map_or(Cow::from("{}"), |arguments| arguments.text(data).into());
    let mut hidden = HiddenCall::whole(id.into_owned(), tool, after, &arguments, limit);
    hidden.raw = (!hidden.oversize && arguments.starts_with('{')).then(|| call.text(data));
    hidden
}

impl Dialect for OllamaStream {
    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        let Some(line) = LineMembers::read(data) else {
            return out.push(raw.clone());
        };
        if error_in(data, line.root).is_some() {
            return self.state.pass_error(self.spoke, raw, out);
        }
        self.learn(data, &line);
        if let Some(text) = self.state.opening.take() {
            self.say(&text, out);
        }
        let mut edits = self.broken_up(data, &line);
        let (calls, hid) = self.calls(data, &line);
        edits.extend(calls);
        let stop = line.stop(
            data,
            !self.state.report.calls.is_empty() || !self.state.report.hidden.is_empty(),
        );
        if stop == StopReason::Open {
            if !hid || self.says(data, &line) {
                self.spoke = true;
                out.push(sse::edited(raw, data, edits));
            }
            return;
        }
        self.state.report.stop = stop;
        self.state.report.ended = true;
        // Calls are counted among themselves, and the one text once they are all there.
        self.state.report.parts += usize::from(self.has_text);
        self.state.report.usage = usage::of(data, line.root);
        self.state.report.served.take(data, line.root);
        if !self.state.holds() {
            out.push(sse::edited(raw, data, edits));
            return;
        }
        self.end = Some(LastLine {
            visible: message(data, &line, &edits).filter(|_| self.says(data, &line)),
            edits: edits
                .into_iter()
                .chain(usage::summed(data, line.root, self.spent))
                .collect(),
            raw: raw.clone(),
        });
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
        self.spent += self.state.report.usage.output;
        self.spoke = false;
        self.has_text = false;
        self.fingerprints = Fingerprints::default();
        self.end = None;
        self.state.next_leg();
    }

    fn forget_leg(&mut self) {
        self.state.report = LegReport::default();
        self.end = None;
    }

    fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        self.show_end(out);
        let message = format!(r#"{{"role":"assistant","content":{}}}"#, json::quote(text));
        out.push(self.own(&message, "false"));
    }

    /// Blank lines break clients that parse each one; an empty piece of text does not.
    fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        if !self.identity.is_empty() {
            out.push(self.own(EMPTY, "false"));
        }
    }

    fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        match ending {
            Ending::Own | Ending::WithoutCall => {
                if let Some(end) = self.end.take() {
                    let data = Framing::Lines.data(&end.raw);
                    out.push(sse::edited(&end.raw, &data, end.edits));
                }
            }
            Ending::Stopped { next_input } | Ending::Lost { next_input } => {
                self.show_end(out);
                let usage = usage::stopped(self.spent + self.state.report.usage.output, next_input);
                out.push(self.own(EMPTY, &format!(r#"true,"done_reason":"stop",{usage}"#)));
            }
        }
    }
}

/// An empty message.
const EMPTY: &str = r#"{"role":"assistant","content":""}"#;

impl OllamaStream {
    fn new(watch: ResponseWatch, place: MessageNumber) -> Self {
        Self {
            state: StreamState::new(watch),
            place,
            ..Self::default()
        }
    }

    fn learn(&mut self, data: &[u8], line: &LineMembers) {
        if !self.identity.is_empty() {
            return;
        }
        let members = ["model", "created_at"].map(|key| {
            let value = json::get(data, line.root, key);
            value.map_or(String::new(), |v| format!(r#""{key}":{},"#, v.text(data)))
        });
        self.identity = members.concat();
    }

    fn broken_up(&mut self, data: &[u8], line: &LineMembers) -> Vec<Edit> {
        let Some(inside) = line.content.map(Span::inner) else {
            return Vec::new();
        };
        self.has_text |= !inside.is_empty();
        self.state.break_up(data, inside)
    }

    /// The tool of ours that is called.
    fn ours(&self, data: &[u8], call: Span) -> Option<&'static str> {
        name(data, call).and_then(|name| self.state.watch.hide.find(&name))
    }

    /// Hides our calls of a line: the edits, and whether there were any.
    fn calls(&mut self, data: &[u8], line: &LineMembers) -> (Vec<Edit>, bool) {
        let all = line.calls.map_or(Vec::new(), |c| json::elements(data, c));
        let mut lost = Vec::with_capacity(all.len());
        for call in &all {
            let after = self.state.report.parts;
            let tool = self.ours(data, *call);
            lost.push(tool.is_some());
            if let Some(tool) = tool {
                let call = hidden(data, *call, tool, after, self.state.watch.buffered_bytes);
                self.state.report.hidden.push(call);
                continue;
            }
            let fingerprint = self.fingerprints.next(data, traits(data, *call), self.place);
            self.state.report.call(fingerprint.text());
            self.state.report.parts += 1;
        }
        let hid = lost.contains(&true);
        let edits = match view::kept(&all, &lost) {
            Some(edits) => edits,
            None if hid => line
                .message
                .and_then(|m| view::without_member(data, m, "tool_calls"))
                .into_iter()
                .collect(),
            None => Vec::new(),
        };
        (edits, hid)
    }

    /// What a last line says, where the line itself will not be sent.
    fn show_end(&mut self, out: &mut Vec<Bytes>) {
        if let Some(visible) = self.end.as_mut().and_then(|e| e.visible.take()) {
            out.push(self.own(&visible, "false"));
        }
    }

    /// Whether a line says anything besides our calls.
    fn says(&self, data: &[u8], line: &LineMembers) -> bool {
        let text = |span: Option<Span>| span.is_some_and(|s| s.len() > 2);
        let calls = line.calls.map_or(Vec::new(), |c| json::elements(data, c));
        let visible = |call: &Span| self.ours(data, *call).is_none();
        text(line.content) || text(line.thinking) || calls.iter().any(visible)
    }

    /// A line of our own: `done` is that member's value, and what follows it.
    fn own(&self, message: &str, done: &str) -> Bytes {
        Bytes::from(format!(
            "{{{}\"message\":{message},\"done\":{done}}}\n",
            self.identity
        ))
    }
}

/// A line's message with those edits made that lie in it.
fn message(data: &[u8], line: &LineMembers, edits: &[Edit]) -> Option<String> {
    Some(view::edited_part(data, line.message?, edits))
}
