//! Anthropic's streams: one message to the agent, however many legs it has. Events:
//! <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use super::Anthropic;
use bytes::Bytes;

use super::usage::{AnthropicUsage, stopped};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::dialect::Dialect;
use crate::wire::error::error_in;
use crate::wire::leg::{HiddenCall, LegReport, StopReason};
use crate::wire::leg_usage::{LegUsage, ProviderUsage};
use crate::wire::stream_state::StreamState;
use crate::wire::{DroppedThinking, Ending, ResponseWatch, Streams, View, sse};

impl Streams for Anthropic {
    fn dialect(&self, _view: &View, watch: ResponseWatch) -> Box<dyn Dialect> {
        Box::new(AnthropicStream::new(watch))
    }
}

/// State of the stream.
#[derive(Default)]
struct AnthropicStream {
    state: StreamState,
    usage: LegUsage<AnthropicUsage>,
    block: OpenBlock,
    /// Index of the next block the agent sees.
    next: usize,
    /// The leg's `message_delta` as it came, and its data.
    delta: Option<(Bytes, Vec<u8>)>,
    /// The leg's `message_stop` as it came.
    stop: Option<Bytes>,
    transformations: Option<String>,
}

#[derive(Default)]
enum OpenBlock {
    #[default]
    None,
    /// A visible block with this index.
    Shown(usize),
    /// Ours.
    Hidden(HiddenCall),
}

/// The spans of an event's members that matter.
#[derive(Default)]
struct AnthropicEvent {
    index: Option<Span>,
    delta: Option<Span>,
    block: Option<Span>,
    message: Option<Span>,
    usage: Option<Span>,
}

fn event(data: &[u8]) -> (AnthropicEvent, &[u8]) {
    let mut found = AnthropicEvent::default();
    let mut kind: &[u8] = b"";
    let _ = json::object(data, json::blank(data, 0), |key, at| {
        let end = json::value_end(data, at)?;
        let value = Span::new(at, end);
        match key.of(data) {
            b"type" => kind = value.inner().of(data),
            b"index" => found.index = Some(value),
            b"delta" => found.delta = Some(value),
            b"content_block" => found.block = Some(value),
            b"message" => found.message = Some(value),
            b"usage" => found.usage = Some(value),
            _ => {}
        }
        Ok(end)
    });
    (found, kind)
}

impl Dialect for AnthropicStream {
    fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        let (event, mut kind) = event(data);
        // Gateways have error shapes of their own.
        if kind.is_empty() && error_in(data, json::root(data)).is_some() {
            kind = b"error";
        }
        match kind {
            b"message_start" => self.message_start(raw, data, &event, out),
            b"content_block_start" => self.block_start(raw, data, &event, out),
            b"content_block_delta" => self.block_delta(raw, data, &event, out),
            b"content_block_stop" => self.block_stop(raw, data, &event, out),
            b"message_delta" => self.message_delta(raw, data, &event, out),
            b"message_stop" => {
                self.state.report.ended = true;
                match self.state.holds() {
                    true => self.stop = Some(raw.clone()),
                    false => out.push(raw.clone()),
                }
            }
            b"error" => {
                let shown = self.state.report.parts > 0;
                self.state.pass_error(shown, raw, out);
            }
            _ => out.push(raw.clone()),
        }
    }

    fn state(&self) -> &StreamState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut StreamState {
        &mut self.state
    }

    fn holds_end(&self) -> bool {
        self.delta.is_some() || self.stop.is_some()
    }

    fn next_leg(&mut self) {
        self.usage.next_leg();
        self.block = OpenBlock::None;
        (self.delta, self.stop) = (None, None);
        self.state.next_leg();
    }

    fn forget_leg(&mut self) {
        self.state.report = LegReport::default();
        self.usage.forget();
        self.block = OpenBlock::None;
        (self.delta, self.stop) = (None, None);
    }

    fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        let (at, text) = (self.next, json::quote(text));
        let block = r#""content_block":{"type":"text","text":""}"#;
        let delta = format!(r#""delta":{{"type":"text_delta","text":{text}}}"#);
        for (event, rest) in [
            ("content_block_start", format!(",{block}")),
            ("content_block_delta", format!(",{delta}")),
            ("content_block_stop", String::new()),
        ] {
            let data = format!(r#"{{"type":"{event}","index":{at}{rest}}}"#);
            out.push(sse::named(event, &data));
        }
        self.next += 1;
    }

    fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        // Nothing but a comment may be in front of the message's start.
        out.push(match self.state.leg == 0 && self.state.report.id.is_empty() {
            true => Bytes::from_static(b": keep-alive\n\n"),
            false => sse::named("ping", r#"{"type":"ping"}"#),
        });
    }

    fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        let pending = self.delta.take();
        match (ending, pending) {
            (Ending::Own, Some((raw, _))) if self.state.leg == 0 => out.push(raw),
            (Ending::Own | Ending::WithoutCall, Some((raw, data))) => {
                let edits = self.final_edits(&data, ending);
                out.push(sse::edited(&raw, &data, edits));
            }
            (Ending::Own | Ending::WithoutCall, None) => {}
            (Ending::Stopped { next_input }, _) => out.push(self.own_delta("end_turn", next_input)),
            (Ending::Lost { next_input }, _) => out.push(self.own_delta("pause_turn", next_input)),
        }
        match self.stop.take() {
            Some(raw) => out.push(raw),
            None if matches!(ending, Ending::Stopped { .. } | Ending::Lost { .. }) => {
                out.push(sse::named("message_stop", r#"{"type":"message_stop"}"#));
            }
            None => {}
        }
    }
}

impl AnthropicStream {
    fn new(watch: ResponseWatch) -> Self {
        Self {
            state: StreamState::new(watch),
            ..Self::default()
        }
    }

    fn message_start(&mut self, raw: &Bytes, data: &[u8], event: &AnthropicEvent, out: &mut Vec<Bytes>) {
        let mut prefilled = Vec::new();
        if let Some(message) = event.message {
            self.state.report.id = json::get_owned(data, message, "id");
            if let Some(usage) = json::get(data, message, "usage") {
                self.usage.take(data, usage, &mut self.state.report);
            }
            self.state.report.served.take(data, message);
            self.state.report.dropped_thinking =
                DroppedThinking::of_member(data, message).unwrap_or_default();
            self.transformations = json::get(data, message, "input_transformations").map(|s| s.text(data));
            prefilled = json::get(data, message, "content").map_or(Vec::new(), |c| json::elements(data, c));
        }
        if self.state.leg == 0 {
            self.next += prefilled.len();
            self.state.report.parts += prefilled.len();
            out.push(raw.clone());
            if let Some(text) = self.state.opening.take() {
                self.say(&text, out);
            }
            return;
        }
        for block in prefilled {
            let i = self.next;
            self.next += 1;
            self.state.report.parts += 1;
            let block = block.text(data);
            let start = format!(r#"{{"type":"content_block_start","index":{i},"content_block":{block}}}"#);
            out.push(sse::named("content_block_start", &start));
            out.push(sse::named(
                "content_block_stop",
                &format!(r#"{{"type":"content_block_stop","index":{i}}}"#),
            ));
        }
    }

    fn block_start(&mut self, raw: &Bytes, data: &[u8], event: &AnthropicEvent, out: &mut Vec<Bytes>) {
        let block = event.block.unwrap_or_default();
        let kind = json::get_string(data, block, "type").unwrap_or_default();
        let is_call = kind == "tool_use";
        let id = || json::get_owned(data, block, "id");
        let name = json::get_string(data, block, "name").filter(|_| is_call);
        if let Some(tool) = name.and_then(|name| self.state.watch.hide.find(&name)) {
            let input = json::get(data, block, "input")
                .map(|s| s.of(data))
                .filter(|raw| raw.len() > 2);
            self.block = OpenBlock::Hidden(HiddenCall {
                id: id(),
                tool,
                arguments: input
                    .map(|raw| String::from_utf8_lossy(raw).into_owned())
                    .unwrap_or_default(),
                after: self.state.report.parts,
                ..HiddenCall::default()
            });
            return;
        }
        let shown = self.next;
        self.next += 1;
        if is_call {
            self.state.report.call(id());
        }
        self.state.report.parts += 1;
        self.state.report.unfit = matches!(&*kind, "thinking" | "redacted_thinking");
        self.block = OpenBlock::Shown(shown);
        let text = json::get(data, block, "text").filter(|_| kind == "text");
        self.show(raw, data, event, text, out);
    }

    fn block_delta(&mut self, raw: &Bytes, data: &[u8], event: &AnthropicEvent, out: &mut Vec<Bytes>) {
        let delta = event.delta.unwrap_or_default();
        if let OpenBlock::Hidden(call) = &mut self.block {
            if let Some(piece) = json::get_string(data, delta, "partial_json") {
                call.collect(&piece, self.state.watch.buffered_bytes);
            }
            return;
        }
        let is_text = json::get(data, delta, "type").is_some_and(|t| t.of(data) == b"\"text_delta\"");
        let text = json::get(data, delta, "text").filter(|_| is_text);
        let edits = self.moved(data, event, text);
        out.push(sse::edited(raw, data, edits));
    }

    fn block_stop(&mut self, raw: &Bytes, data: &[u8], event: &AnthropicEvent, out: &mut Vec<Bytes>) {
        match std::mem::take(&mut self.block) {
            OpenBlock::Hidden(mut call) => {
                call.complete = true;
                self.state.report.hidden.push(call);
            }
            shown => {
                self.block = shown;
                self.show(raw, data, event, None, out);
                self.block = OpenBlock::None;
            }
        }
    }

    /// Sends an event of a visible block on: as it is, or with its index moved and its text escaped.
    fn show(
        &mut self,
        raw: &Bytes,
        data: &[u8],
        event: &AnthropicEvent,
        text: Option<Span>,
        out: &mut Vec<Bytes>,
    ) {
        let edits = self.moved(data, event, text);
        out.push(sse::edited(raw, data, edits));
    }

    fn moved(&mut self, data: &[u8], event: &AnthropicEvent, text: Option<Span>) -> Vec<Edit> {
        let mut edits = Vec::new();
        if let (OpenBlock::Shown(shown), Some(index)) = (&self.block, event.index)
            && json::number(index.of(data)) != Some(*shown as u64)
        {
            edits.push(Edit::replace(index, shown.to_string()));
        }
        if let Some(text) = text.filter(|t| t.len() >= 2) {
            edits.extend(self.state.break_up(data, text.inner()));
        }
        edits
    }

    fn message_delta(&mut self, raw: &Bytes, data: &[u8], event: &AnthropicEvent, out: &mut Vec<Bytes>) {
        // After a fallback it is the list of the model that answered.
        let whole = json::root(data);
        if let Some(dropped) = DroppedThinking::of_member(data, whole) {
            self.state.report.dropped_thinking = dropped;
        }
        if let OpenBlock::Hidden(call) = std::mem::take(&mut self.block) {
            self.state.report.hidden.push(call);
        }
        if let Some(usage) = event.usage {
            self.usage.take(data, usage, &mut self.state.report);
        }
        let reason = event.delta.and_then(|d| json::get_string(data, d, "stop_reason"));
        self.state.report.stop = stop(reason.as_deref());
        if self.state.holds() {
            self.delta = Some((raw.clone(), data.to_vec()));
        } else {
            out.push(raw.clone());
        }
    }

    /// What the last `message_delta` says in place of the leg's own.
    fn final_edits(&mut self, data: &[u8], ending: Ending) -> Vec<Edit> {
        let (event, _) = event(data);
        let mut edits = Vec::new();
        if let Some(delta) = event.delta {
            let reason = json::get(data, delta, "stop_reason");
            if ending == Ending::WithoutCall
                && let Some(reason) = reason.filter(|r| r.of(data) == b"\"tool_use\"")
            {
                edits.push(Edit::replace(reason, r#""end_turn""#));
            }
            // Valid only with the body of a leg that the agent never received.
            if self.state.leg > 0
                && let Some(token) = json::at_path(data, delta, &["stop_details", "fallback_credit_token"])
            {
                edits.push(Edit::replace(token, "null"));
            }
        }
        if self.state.leg > 0 {
            let usage_now = AnthropicUsage::merged(&self.usage.all()).unwrap_or_default();
            let close = data.iter().rposition(|&b| b == b'}').unwrap_or(data.len());
            match event.usage {
                Some(span) => edits.push(Edit::replace(span, usage_now)),
                None => edits.push(Edit::insert(close, format!(r#","usage":{usage_now}"#))),
            }
            let is_reported = memchr::memmem::find(data, b"\"input_transformations\"").is_some();
            if let Some(list) = self.transformations.take().filter(|_| !is_reported) {
                edits.push(Edit::insert(close, format!(r#","input_transformations":{list}"#)));
            }
        }
        edits
    }

    fn own_delta(&mut self, reason: &str, next_input: u64) -> Bytes {
        let usage = stopped(&self.usage.all(), next_input);
        let data = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{usage}}}"#
        );
        sse::named("message_delta", &data)
    }
}

/// A stop reason's meaning.
pub(super) fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("end_turn" | "stop_sequence") => StopReason::Done,
        Some("tool_use") => StopReason::Calls,
        Some("pause_turn" | "compaction") => StopReason::Paused,
        Some("refusal") => StopReason::Refused,
        Some(_) => StopReason::Truncated,
        None => StopReason::Open,
    }
}
