//! Reads Anthropic's responses: one message for the agent, whatever the number of legs.
//!
//! Events: <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use super::usage::{AnthropicUsage, stopped};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::error::error_in;
use crate::wire::leg::{HiddenCall, ServedBy, StopReason};
use crate::wire::leg_state::{Dialect, Frame, HeldFrame, HeldKind, LegState, LegUsage, ProviderUsage};
use crate::wire::{DroppedThinking, Ending, own_text, sse, view};
use bytes::Bytes;

/// State of a response.
#[derive(Default)]
pub(super) struct AnthropicDialect {
    usage: LegUsage<AnthropicUsage>,
    block: OpenBlock,
    /// Next block index of the agent.
    next: usize,
    /// Whether block indices differ from upstream's, because a block is injected, hidden or part of a later
    /// leg.
    moved: bool,
    /// Members of a later leg's `message_start` that describe the end of the message; empty if it has not
    /// ended.
    started: String,
    transformations: Option<String>,
    /// The agent's blocks of complete replies.
    shown: Vec<String>,
    /// Id and model of the first leg, as literals.
    identity: [Option<String>; 2],
}

#[derive(Default)]
enum OpenBlock {
    #[default]
    None,
    /// A visible block with this index.
    Shown(usize),
    /// A call of one of baton's tools, the last one in the report.
    Hidden,
}

impl Dialect for AnthropicDialect {
    fn frame(&mut self, state: &mut LegState, frame: Frame<'_>) {
        let data = frame.data;
        let (event, mut kind) = event(data);
        // Gateways have error shapes of their own.
        if kind.is_empty() && error_in(data, json::root(data)).is_some() {
            kind = b"error";
        }
        match kind {
            b"message_start" => self.message_start(state, frame, &event),
            b"content_block_start" => {
                let block = event.block.unwrap_or_default();
                // Upstream's indices are kept, even with gaps, until baton injects or hides a block.
                if !self.moved {
                    let index = event.index.and_then(|index| json::number(index.of(data)));
                    self.next = index.map_or(self.next, |index| index as usize);
                }
                if let Some(text) = self.begin(state, data, block, false) {
                    self.show(state, frame, &event, text);
                }
            }
            b"content_block_delta" => self.block_delta(state, frame, &event),
            b"content_block_stop" => match std::mem::take(&mut self.block) {
                OpenBlock::Hidden => complete(state),
                // The stop event still needs the index of the open block.
                shown => {
                    self.block = shown;
                    self.show(state, frame, &event, None);
                    self.block = OpenBlock::None;
                }
            },
            b"message_delta" => self.message_delta(state, frame, &event),
            b"message_stop" => {
                // No `message_delta` arrived, because the start of the message already described its end.
                if state.held[HeldKind::End as usize].is_none() && !self.started.is_empty() {
                    self.end_as_started(state);
                }
                state.report.ended = true;
                state.end(HeldKind::Done, frame.raw);
            }
            b"error" => state.pass_error(state.report.parts > 0, frame.raw),
            _ => state.pass(frame.raw),
        }
    }

    fn whole(&mut self, state: &mut LegState, body: &Bytes) -> Option<()> {
        let data: &[u8] = body;
        let message = json::whole(data).ok()?;
        let message = MessageMembers::read(data, message);
        let MessageMembers {
            id, content, reason, ..
        } = message;
        let [model, ..] = message.served;
        id.and_then(|id| json::string(data, id))?;
        // Any other value of `content` cannot be extended.
        let content = content.filter(|content| data[content.start] == b'[')?;
        if state.leg == 0 {
            self.identity = [id, model].map(|own| own.map(|own| own.text(data)));
        }
        self.learn(state, data, &message);
        for block in json::elements(data, content) {
            let text = self.begin(state, data, block, true);
            match (std::mem::take(&mut self.block), text) {
                (OpenBlock::Hidden, _) => complete(state),
                // Escaped before the block is stored, because `joined` writes the stored blocks as they are.
                (_, text) => {
                    let edits = text.flatten().map(|text| state.break_up(data, text));
                    let shown = view::edited_part(data, block, &edits.unwrap_or_default());
                    self.shown.push(shown);
                }
            }
        }
        state.report.stop = stop(reason.and_then(|reason| json::string(data, reason)).as_deref());
        state.report.ended = true;
        Some(())
    }

    fn end_leg(&mut self, _state: &LegState, counts: bool) {
        self.usage.end_leg(counts);
        self.block = OpenBlock::None;
        // Upstream counts the blocks of every leg from 0, but the agent's SDK addresses the blocks of one message.
        self.moved = true;
    }

    fn say(&mut self, state: &mut LegState, text: &str) {
        // The text takes the next index, so every later block of upstream moves by one.
        self.moved = true;
        state.out.extend(said(self.next, text));
        self.next += 1;
    }

    fn say_whole(&mut self, _state: &LegState, text: &str) {
        self.shown.push(own_text::block(text));
    }

    fn keepalive(&mut self, state: &mut LegState) {
        // Before `message_start`, SDKs accept nothing but comments.
        state
            .out
            .push(match state.leg == 0 && state.report.id.is_empty() {
                true => Bytes::from_static(b": keep-alive\n\n"),
                false => sse::named("ping", r#"{"type":"ping"}"#),
            });
    }

    fn last(&mut self, state: &mut LegState, held: HeldFrame, ending: Ending) {
        // Only `message_delta` states reason and usage. In a response of a single leg, upstream's values are kept.
        if held.kind != HeldKind::End || (ending == Ending::Own && state.leg == 0) {
            return state.pass(&held.raw);
        }
        let data = sse::data(&held.raw);
        let edits = self.final_edits(state, &data, ending);
        state.out.push(sse::edited(&held.raw, &data, edits));
    }

    fn own_end(&mut self, state: &mut LegState, ending: Ending, next_input: u64) {
        let (reason, usage) = (own_reason(ending), stopped(&self.usage.all(), next_input));
        let delta = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":{reason},"stop_sequence":null}},"usage":{usage}}}"#
        );
        state.out.push(sse::named("message_delta", &delta));
        // Upstream's own frame is reused if it arrived.
        let made = || sse::named("message_stop", r#"{"type":"message_stop"}"#);
        let done = state.held[HeldKind::Done as usize]
            .take()
            .map_or_else(made, |done| done.raw);
        state.out.push(done);
    }

    /// Keeps the identity of the first leg. All other members are those of the last leg.
    fn joined(&mut self, state: &LegState, last: &[u8], ending: Ending) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (key, value) in json::members(last, json::root(last)) {
            let now = match key.of(last) {
                // Blocks of all legs with baton's text between them.
                b"content" => Some(format!("[{}]", self.shown.join(","))),
                b"id" if state.leg > 0 => self.identity[0].clone(),
                b"model" if state.leg > 0 => self.identity[1].clone(),
                b"stop_reason" => ends_otherwise(value.of(last), ending).map(str::to_owned),
                b"usage" => self.usage.joined(ending, stopped),
                _ => None,
            };
            edits.extend(now.map(|now| Edit::replace(value, now)));
        }
        edits
    }
}

/// Ends the arguments of the last hidden call.
fn complete(state: &mut LegState) {
    let call = state.report.hidden.last_mut();
    call.into_iter().for_each(|call| call.complete = true);
}

impl AnthropicDialect {
    /// Records the data of a message object.
    fn learn(&mut self, state: &mut LegState, data: &[u8], message: &MessageMembers) {
        let report = &mut state.report;
        let [.., usage, _] = message.served;
        let transformations = message.transformations;
        report.id = json::string_or_empty(data, message.id).into_owned();
        if let Some(usage) = usage.filter(|usage| data[usage.start] == b'{') {
            self.usage.take(data, usage, report);
        }
        report.served.take_members(data, message.served);
        let dropped = transformations.and_then(|list| DroppedThinking::of_list(data, list));
        report.dropped_thinking = dropped.unwrap_or_default();
        self.transformations = transformations.map(|s| s.text(data));
    }

    fn message_start(&mut self, state: &mut LegState, frame: Frame<'_>, event: &AnthropicEvent) {
        let data = frame.data;
        let mut prefilled = Vec::new();
        if let Some(message) = event.message {
            let members = MessageMembers::read(data, message);
            self.learn(state, data, &members);
            if state.leg > 0 {
                // The agent has its `message_start` already, and SDKs fail at a second one.
                self.started = started(data, message).unwrap_or_default();
            }
            prefilled = members.content.map_or(Vec::new(), |c| json::elements(data, c));
        }
        // Blocks inside `message_start` are visible output; a later leg needs events of their own for them.
        state.report.parts += prefilled.len();
        if state.leg == 0 {
            self.next += prefilled.len();
            state.pass(frame.raw);
            // Text needs the message that this frame has just started.
            if let Some(text) = state.opening.take() {
                self.say(state, &text);
            }
            return;
        }
        for block in prefilled {
            let i = self.next;
            self.next += 1;
            let block = block.text(data);
            let start = format!(r#"{{"type":"content_block_start","index":{i},"content_block":{block}}}"#);
            state.out.push(sse::named("content_block_start", &start));
            let stop = format!(r#"{{"type":"content_block_stop","index":{i}}}"#);
            state.out.push(sse::named("content_block_stop", &stop));
        }
    }

    /// Begins a block. Returns `None` if it is hidden, or else the inside of its text, if it has any.
    ///
    /// `whole` means that no deltas follow, so an empty input is the real one and not a placeholder.
    fn begin(&mut self, state: &mut LegState, data: &[u8], block: Span, whole: bool) -> Option<Option<Span>> {
        let [kind, id, name, input, text] = json::pick(data, block, ["type", "id", "name", "input", "text"]);
        let kind = json::string_or_empty(data, kind);
        let is_call = kind == "tool_use";
        let id = || json::string_or_empty(data, id).into_owned();
        if let Some(tool) = state.ours(&json::string_or_empty(data, name)).filter(|_| is_call) {
            let mut call = HiddenCall {
                id: id(),
                tool,
                after: state.report.parts,
                ..HiddenCall::default()
            };
            // A stream opens every call with the placeholder `{}`, which is not part of the arguments.
            let input = input.filter(|input| whole || input.len() > 2);
            call.collect(&input.unwrap_or_default().text(data), state.watch.buffered_bytes);
            state.report.hidden.push(call);
            self.block = OpenBlock::Hidden;
            self.moved = true;
            return None;
        }
        self.block = OpenBlock::Shown(self.next);
        self.next += 1;
        if is_call {
            state.report.call(id());
        }
        state.report.parts += 1;
        // The API rejects a message that ends in thinking.
        state.report.unfit = matches!(&*kind, "thinking" | "redacted_thinking");
        Some(
            text.filter(|text| kind == "text" && text.len() >= 2)
                .map(Span::inner),
        )
    }

    fn block_delta(&mut self, state: &mut LegState, frame: Frame<'_>, event: &AnthropicEvent) {
        let data = frame.data;
        let delta = event.delta.unwrap_or_default();
        if let OpenBlock::Hidden = self.block {
            let piece = json::get_string(data, delta, "partial_json").unwrap_or_default();
            if let Some(call) = state.report.hidden.last_mut() {
                call.collect(&piece, state.watch.buffered_bytes);
            }
            return;
        }
        let [kind, text] = json::pick(data, delta, ["type", "text"]);
        let is_text = kind.is_some_and(|kind| kind.of(data) == b"\"text_delta\"");
        let text = text.filter(|text| is_text && data[text.start] == b'"');
        self.show(state, frame, event, text.map(Span::inner));
    }

    /// Emits an event of a visible block, with its index and text adjusted if necessary.
    fn show(&self, state: &mut LegState, frame: Frame<'_>, event: &AnthropicEvent, text: Option<Span>) {
        let mut edits = Vec::new();
        if let (OpenBlock::Shown(shown), Some(index), true) = (&self.block, event.index, self.moved)
            && json::number(index.of(frame.data)) != Some(*shown as u64)
        {
            edits.push(Edit::replace(index, shown.to_string()));
        }
        if let Some(text) = text {
            edits.extend(state.break_up(frame.data, text));
        }
        state.out.push(frame.edited(edits));
    }

    fn message_delta(&mut self, state: &mut LegState, frame: Frame<'_>, event: &AnthropicEvent) {
        let data = frame.data;
        // After a fallback, this list belongs to the model that responded.
        let whole = json::root(data);
        if let Some(dropped) = DroppedThinking::of_member(data, whole) {
            state.report.dropped_thinking = dropped;
        }
        // If the leg ended inside a call, it stays incomplete, because `content_block_stop` is missing.
        self.block = OpenBlock::None;
        if let Some(usage) = event.usage {
            self.usage.take(data, usage, &mut state.report);
        }
        let reason = event.delta.and_then(|d| json::get_string(data, d, "stop_reason"));
        // A message may have several such events. The one with the reason is the end.
        match (&reason, state.held[HeldKind::End as usize].take()) {
            (None, Some(end)) => {
                state.keep(end);
                return state.pass(frame.raw);
            }
            (Some(_), Some(other)) => state.pass(&other.raw),
            (_, None) => {}
        }
        state.report.stop = stop(reason.as_deref());
        state.end(HeldKind::End, frame.raw);
    }

    /// Ends a later leg without `message_delta` by creating one from its `message_start`.
    ///
    /// Providers send such a leg when they resume a program in a container.
    fn end_as_started(&mut self, state: &mut LegState) {
        let delta = format!(r#"{{"type":"message_delta","delta":{{{}}}}}"#, self.started);
        let raw = sse::named("message_delta", &delta);
        let data = sse::data(&raw);
        let (event, _) = event(&data);
        let (raw, data) = (&raw, &data);
        self.message_delta(state, Frame { raw, data }, &event);
    }

    /// Edits of the final `message_delta` that replace the leg's own end.
    fn final_edits(&mut self, state: &LegState, data: &[u8], ending: Ending) -> Vec<Edit> {
        let (event, _) = event(data);
        let mut edits = Vec::new();
        if let Some(delta) = event.delta {
            let reason = json::get(data, delta, "stop_reason");
            let now = reason.and_then(|reason| Some((reason, ends_otherwise(reason.of(data), ending)?)));
            edits.extend(now.map(|(reason, now)| Edit::replace(reason, now)));
            // The token is valid only together with the body of this leg, which the agent never received.
            if state.leg > 0
                && let Some(token) = json::at_path(data, delta, &["stop_details", "fallback_credit_token"])
            {
                edits.push(Edit::replace(token, "null"));
            }
        }
        if state.leg > 0 {
            let usage_now = AnthropicUsage::merged(&self.usage.all()).unwrap_or_default();
            // Missing members are inserted before the closing brace.
            let close = data.iter().rposition(|&b| b == b'}').unwrap_or(data.len());
            match event.usage {
                Some(span) => edits.push(Edit::replace(span, usage_now)),
                None => edits.push(Edit::insert(close, format!(r#","usage":{usage_now}"#))),
            }
            // The `message_start` of a later leg is not forwarded, so its list moves to the end of the message.
            let is_reported = memchr::memmem::find(data, b"\"input_transformations\"").is_some();
            if let Some(list) = self.transformations.take().filter(|_| !is_reported) {
                edits.push(Edit::insert(close, format!(r#","input_transformations":{list}"#)));
            }
        }
        edits
    }
}

/// Members of a message object, from one walk.
struct MessageMembers {
    id: Option<Span>,
    content: Option<Span>,
    reason: Option<Span>,
    transformations: Option<Span>,
    /// Values of [`ServedBy::MEMBERS`].
    served: [Option<Span>; 5],
}

impl MessageMembers {
    fn read(data: &[u8], message: Span) -> Self {
        let [a, b, c, d, e] = ServedBy::MEMBERS;
        let keys = [
            "id",
            "content",
            "stop_reason",
            "input_transformations",
            a,
            b,
            c,
            d,
            e,
        ];
        let [id, content, reason, transformations, served @ ..] = json::pick(data, message, keys);
        Self {
            id,
            content,
            reason,
            transformations,
            served,
        }
    }
}

/// Frames of a block with baton's text.
pub(super) fn said(at: usize, text: &str) -> [Bytes; 3] {
    let delta = format!(r#","delta":{{"type":"text_delta","text":{}}}"#, json::quote(text));
    [
        (
            "content_block_start",
            r#","content_block":{"type":"text","text":""}"#,
        ),
        ("content_block_delta", &delta),
        ("content_block_stop", ""),
    ]
    .map(|(event, rest)| sse::named(event, &format!(r#"{{"type":"{event}","index":{at}{rest}}}"#)))
}

/// Members for a `message_delta` taken from the message of a `message_start`, or `None` if the message has
/// not ended.
fn started(data: &[u8], message: Span) -> Option<String> {
    json::get_string(data, message, "stop_reason")?;
    let members = ["stop_reason", "stop_sequence", "container"].map(|key| {
        let value = json::get(data, message, key)?;
        Some(format!(r#""{key}":{}"#, value.text(data)))
    });
    Some(members.into_iter().flatten().collect::<Vec<_>>().join(","))
}

/// Stop reason of an end that baton creates, as a literal.
fn own_reason(ending: Ending) -> &'static str {
    match ending {
        // Agents that know `pause_turn` send the message back at once, and that request continues after the
        // handoff.
        Ending::Lost { .. } => r#""pause_turn""#,
        _ => r#""end_turn""#,
    }
}

/// Literal that replaces a leg's stop reason, or `None` to keep it.
fn ends_otherwise(reason: &[u8], ending: Ending) -> Option<&'static str> {
    match ending {
        Ending::Own => None,
        Ending::WithoutCall if reason != b"\"tool_use\"" => None,
        _ => Some(own_reason(ending)),
    }
}

/// Meaning of a stop reason.
fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("end_turn" | "stop_sequence") => StopReason::Done,
        Some("tool_use") => StopReason::Calls,
        Some("pause_turn" | "compaction") => StopReason::Paused,
        Some("refusal") => StopReason::Refused,
        // Includes unknown reasons, so that no handoff follows from them.
        Some(_) => StopReason::Truncated,
        None => StopReason::Open,
    }
}

/// Spans of an event's relevant members.
#[derive(Default)]
struct AnthropicEvent {
    index: Option<Span>,
    delta: Option<Span>,
    block: Option<Span>,
    message: Option<Span>,
    usage: Option<Span>,
}

/// Parses an event. Returns its members and its type.
fn event(data: &[u8]) -> (AnthropicEvent, &[u8]) {
    let keys = ["type", "index", "delta", "content_block", "message", "usage"];
    let [kind, index, delta, block, message, usage] = json::pick_begun(data, keys);
    let event = AnthropicEvent {
        index,
        delta,
        block,
        message,
        usage,
    };
    (event, kind.map_or(b"", |kind| kind.inner().of(data)))
}
