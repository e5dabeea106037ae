//! Reads Ollama's responses: one response for the agent, whatever the number of legs.
//!
//! Events: <https://github.com/ollama/ollama/blob/main/docs/api.md>.

use crate::marker::escape;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::call_fingerprint::{Fingerprints, MessageNumber};
use crate::wire::error::error_in;
use crate::wire::fingerprints::FingerprintedCalls;
use crate::wire::leg::{HiddenCall, LegReport, StopReason, Usage};
use crate::wire::leg_state::{Dialect, Frame, HeldFrame, HeldKind, LegState};
use crate::wire::{Ending, Framing, TurnPart, View, parts, sse, view};
use bytes::Bytes;

/// State of a response.
#[derive(Default)]
pub(super) struct OllamaDialect {
    /// Position of this response in the agent's transcript.
    place: MessageNumber,
    /// Whether any output of this leg was shown.
    spoke: bool,
    /// Whether the leg contains text.
    has_text: bool,
    /// Output tokens of earlier legs.
    spent: u64,
    fingerprints: Fingerprints,
    /// Members `model` and `created_at` of the first line, each with a trailing comma.
    identity: String,
    /// The agent's message, joined from complete replies.
    shown: OllamaMessage,
}

/// A model message under construction.
#[derive(Default)]
pub(super) struct OllamaMessage {
    pub(super) content: String,
    pub(super) thinking: String,
    pub(super) calls: Vec<String>,
}

impl OllamaMessage {
    pub(super) fn members(&self) -> String {
        let mut out = format!(r#""role":"assistant","content":{}"#, json::quote(&self.content));
        if !self.thinking.is_empty() {
            out.push_str(&format!(r#","thinking":{}"#, json::quote(&self.thinking)));
        }
        if !self.calls.is_empty() {
            out.push_str(&format!(r#","tool_calls":[{}]"#, self.calls.join(",")));
        }
        out
    }
}

/// Spans of a line.
#[derive(Default)]
pub(super) struct LineMembers {
    pub(super) root: Span,
    pub(super) message: Option<Span>,
    pub(super) content: Option<Span>,
    pub(super) thinking: Option<Span>,
    pub(super) calls: Option<Span>,
}

impl LineMembers {
    /// Parses a line or a reply, or returns `None` if it is not a JSON object.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let root = json::whole(data).ok().filter(|r| data[r.start] == b'{')?;
        let message = json::get(data, root, "message").filter(|m| data[m.start] == b'{');
        let keys = ["content", "thinking", "tool_calls"];
        let [content, thinking, calls] = message.map_or([None; 3], |message| json::pick(data, message, keys));
        let literal = |span: &Span| data[span.start] == b'"';
        Some(Self {
            root,
            message,
            content: content.filter(literal),
            thinking: thinking.filter(literal),
            calls: calls.filter(|c| data[c.start] == b'['),
        })
    }

    /// Elements of the list of calls.
    pub(super) fn calls(&self, data: &[u8]) -> Vec<TurnPart> {
        self.calls.map_or(Vec::new(), |calls| parts::calls(data, calls))
    }

    /// Meaning of `done_reason`.
    fn stop(&self, data: &[u8], report: &LegReport) -> StopReason {
        if !json::get(data, self.root, "done").is_some_and(|d| json::is_true(d.of(data))) {
            return StopReason::Open;
        }
        match json::get_string(data, self.root, "done_reason").as_deref() {
            Some("length") => StopReason::Truncated,
            // A request without messages only loads or unloads the model.
            Some("load" | "unload") => StopReason::Paused,
            // Ollama reports `stop` even if the model calls tools.
            _ if report.calls.is_empty() && report.hidden.is_empty() => StopReason::Done,
            _ => StopReason::Calls,
        }
    }
}

/// Creates a hidden call with its raw element. Arguments longer than `limit` bytes are dropped.
fn hidden(data: &[u8], call: &TurnPart, tool: &'static str, after: usize, limit: usize) -> HiddenCall {
    let id = json::string_or_empty(data, call.id.map(Span::outer)).into_owned();
    let arguments = call
        .value
        .map_or("{}".to_owned(), |arguments| arguments.text(data));
    let mut hidden = HiddenCall::whole(id, tool, after, &arguments, limit);
    // Only an object can be returned unchanged.
    hidden.raw = (!hidden.oversize && arguments.starts_with('{')).then(|| call.span.text(data));
    hidden
}

impl Dialect for OllamaDialect {
    fn frame(&mut self, state: &mut LegState, frame: Frame<'_>) {
        let Frame { raw, data } = frame;
        let Some(line) = LineMembers::read(data) else {
            return state.pass(raw);
        };
        if error_in(data, line.root).is_some() {
            return state.pass_error(self.spoke, raw);
        }
        self.learn(data, &line);
        // The lines from baton repeat the identity that this line has stated.
        if let Some(text) = state.opening.take() {
            self.say(state, &text);
        }
        let mut edits = self.escaped_sentinels(state, data, &line);
        let (calls, lost) = self.calls(state, data, &line);
        edits.extend(calls_edits(data, &line, &calls, &lost));
        let hid = lost.contains(&true);
        let says = says(&line, &lost);
        let stop = line.stop(data, &state.report);
        if stop == StopReason::Open {
            // A line with only hidden calls is dropped.
            if !hid || says {
                self.spoke = true;
                state.out.push(frame.edited(edits));
            }
            return;
        }
        self.ends(state, data, &line, stop);
        if !state.holds() {
            return state.out.push(frame.edited(edits));
        }
        let visible = line.message.filter(|_| says);
        let visible = visible.map(|message| self.own(&view::edited_part(data, message, &edits), "false"));
        edits.extend(summed(data, line.root, self.spent));
        state.keep(HeldFrame {
            edits,
            visible,
            ..HeldFrame::new(HeldKind::End, raw)
        });
    }

    fn whole(&mut self, state: &mut LegState, body: &Bytes) -> Option<()> {
        let data: &[u8] = body;
        let line = LineMembers::read(data)?;
        line.message?;
        self.escaped_sentinels(state, data, &line);
        let (calls, lost) = self.calls(state, data, &line);
        let stop = line.stop(data, &state.report);
        self.ends(state, data, &line, stop);
        let content = json::string_or_empty(data, line.content);
        self.shown.content.push_str(&escape::break_up(&content));
        self.shown
            .thinking
            .push_str(&json::string_or_empty(data, line.thinking));
        let visible = calls.iter().zip(lost).filter(|(_, lost)| !lost);
        self.shown.calls.extend(visible.map(|(call, _)| call.text(data)));
        Some(())
    }

    fn end_leg(&mut self, state: &LegState, counts: bool) {
        if counts {
            self.spent += state.report.usage.output;
        }
        (self.spoke, self.has_text) = (false, false);
        self.fingerprints = Fingerprints::default();
    }

    fn say(&mut self, state: &mut LegState, text: &str) {
        let message = format!(r#"{{"role":"assistant","content":{}}}"#, json::quote(text));
        state.out.push(self.own(&message, "false"));
    }

    fn say_whole(&mut self, _state: &LegState, text: &str) {
        self.shown.content.push_str(text);
    }

    /// Emits an empty piece of text, because blank lines break clients that parse every line.
    fn keepalive(&mut self, state: &mut LegState) {
        if !self.identity.is_empty() {
            state.out.push(self.own(EMPTY, "false"));
        }
    }

    fn last(&mut self, state: &mut LegState, held: HeldFrame, _ending: Ending) {
        let data = Framing::Lines.data(&held.raw);
        state.out.push(sse::edited(&held.raw, &data, held.edits));
    }

    fn own_end(&mut self, state: &mut LegState, _ending: Ending, next_input: u64) {
        let usage = stopped(self.spent + state.report.usage.output, next_input);
        let done = format!(r#"true,"done_reason":"stop",{usage}"#);
        state.out.push(self.own(EMPTY, &done));
    }

    /// Keeps all members of the last leg that are not edited here.
    fn joined(&mut self, state: &LegState, last: &[u8], ending: Ending) -> Vec<Edit> {
        let Some(line) = LineMembers::read(last) else {
            return Vec::new();
        };
        let own = format!("{{{}}}", self.shown.members());
        let mut edits: Vec<Edit> = line.message.map(|m| Edit::replace(m, own)).into_iter().collect();
        match ending.next_input() {
            None => edits.extend(summed(last, line.root, self.spent)),
            Some(next_input) => {
                let output = self.spent + state.report.usage.output;
                edits.extend(stopped_edits(last, line.root, output, next_input));
            }
        }
        edits
    }
}

/// An empty message.
const EMPTY: &str = r#"{"role":"assistant","content":""}"#;

impl OllamaDialect {
    pub(super) fn new(view: &View) -> Self {
        Self {
            place: FingerprintedCalls { view }.place_of_answer(),
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

    fn escaped_sentinels(&mut self, state: &mut LegState, data: &[u8], line: &LineMembers) -> Vec<Edit> {
        let Some(inside) = line.content.map(Span::inner) else {
            return Vec::new();
        };
        self.has_text |= !inside.is_empty();
        state.break_up(data, inside)
    }

    /// Records the calls of a line. Returns their spans, and for each whether it is hidden.
    fn calls(&mut self, state: &mut LegState, data: &[u8], line: &LineMembers) -> (Vec<Span>, Vec<bool>) {
        let all = line.calls(data);
        let mut lost = Vec::with_capacity(all.len());
        for call in &all {
            let after = state.report.parts;
            let tool = call
                .name
                .and_then(|name| state.ours(&json::unescape(name.of(data))));
            lost.push(tool.is_some());
            if let Some(tool) = tool {
                let call = hidden(data, call, tool, after, state.watch.buffered_bytes);
                state.report.hidden.push(call);
                continue;
            }
            let fingerprint = self.fingerprints.next(data, call, self.place);
            state.report.call(fingerprint.text());
            state.report.parts += 1;
        }
        (all.iter().map(|call| call.span).collect(), lost)
    }

    /// Records the data of the leg's last line.
    fn ends(&self, state: &mut LegState, data: &[u8], line: &LineMembers, stop: StopReason) {
        let report = &mut state.report;
        report.stop = stop;
        report.ended = true;
        // Text counts as one part, after the calls: both are separate members of the message.
        report.parts += usize::from(self.has_text);
        report.usage = usage_of(data, line.root);
        report.served.take(data, line.root);
    }

    /// Creates a line. `done` is the value of that member, with any members after it.
    fn own(&self, message: &str, done: &str) -> Bytes {
        Bytes::from(format!(
            "{{{}\"message\":{message},\"done\":{done}}}\n",
            self.identity
        ))
    }
}

/// Returns the edits that remove the hidden calls of a line.
fn calls_edits(data: &[u8], line: &LineMembers, calls: &[Span], lost: &[bool]) -> Vec<Edit> {
    let without = || view::without_member(data, line.message?, "tool_calls");
    view::kept(calls, lost).unwrap_or_else(|| match calls {
        [] => Vec::new(),
        _ => without().into_iter().collect(),
    })
}

/// Whether a line contains anything except hidden calls.
fn says(line: &LineMembers, lost: &[bool]) -> bool {
    let text = |span: Option<Span>| span.is_some_and(|s| s.len() > 2);
    text(line.content) || text(line.thinking) || lost.contains(&false)
}

const INPUT: &str = "prompt_eval_count";
const OUTPUT: &str = "eval_count";

/// Counters of a last line or a reply. Ollama omits the count of a cached prompt, so absent counters are
/// zero.
fn usage_of(text: &[u8], object: Span) -> Usage {
    Usage {
        input: json::get_u64(text, object, INPUT).unwrap_or_default(),
        output: json::get_u64(text, object, OUTPUT).unwrap_or_default(),
        ..Usage::default()
    }
}

/// Returns the edit that adds the output tokens of earlier legs.
fn summed(text: &[u8], object: Span, spent: u64) -> Option<Edit> {
    let now = json::get_u64(text, object, OUTPUT).unwrap_or_default() + spent;
    (spent > 0).then(|| view::set_member(text, object, OUTPUT, now.to_string()))
}

/// Counters of a response that baton ends at the sentinel, as members.
fn stopped(output: u64, next_input: u64) -> String {
    format!(r#""{INPUT}":{next_input},"{OUTPUT}":{output}"#)
}

/// Like [`stopped`], as edits of a reply.
fn stopped_edits(text: &[u8], root: Span, output: u64, next_input: u64) -> Vec<Edit> {
    let set = |key: &str, value: String| view::set_member(text, root, key, value);
    vec![
        set("done_reason", r#""stop""#.to_owned()),
        set(INPUT, next_input.to_string()),
        set(OUTPUT, output.to_string()),
    ]
}
