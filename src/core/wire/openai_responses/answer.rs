//! Reads responses: one response for the agent, whatever the number of legs.
//!
//! Events: <https://platform.openai.com/docs/api-reference/responses-streaming>.

mod end;

use bytes::Bytes;

use super::event::{ResponsesEvent, Sequence, broken, event, number};
use super::own_message::InjectedMessage;
use super::response_object::{self, ObjectOverrides, ResponseIdentity};
use crate::marker::escape::Escaper;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::tools::ToolNames;
use crate::wire::error::error_in;
use crate::wire::leg::HiddenCall;
use crate::wire::leg_state::{Dialect, Frame, HeldFrame, HeldKind, LegState, LegUsage, ProviderUsage};
use crate::wire::openai::{OpenaiUsage, stopped_response as stopped};
use crate::wire::{Ending, View, sse};

/// Payload that some servers send after the last event.
const DONE: &[u8] = b"[DONE]";

/// Removes baton's tool from a reply, and restores the `previous_response_id` that the agent knows.
pub(super) fn shaped_for(view: &View, reply: Bytes) -> Bytes {
    let literal = view.facts.previous.as_ref().map(|p| json::quote(&p.id));
    let now = ObjectOverrides {
        previous: literal.as_deref(),
        offered: match view.tools {
            Some(tools) if !tools.taken && view.facts.ours.any() => view.facts.ours,
            Some(tools) if !tools.taken => ToolNames::HANDOFF,
            _ => ToolNames::NONE,
        },
        ..ObjectOverrides::default()
    };
    let edits = response_object::edits(&reply, json::root(&reply), &now);
    splice::edited(&reply, edits)
}

/// State of a response.
#[derive(Default)]
pub(super) struct ResponsesDialect {
    /// The agent's `previous_response_id`, as a literal.
    previous: Option<String>,
    /// Identity of the first leg, repeated in every response object.
    identity: ResponseIdentity,
    /// Latest response object that can serve as the basis of an end.
    object: Option<String>,
    leg: ResponsesLeg,
    /// Items shown to the agent, in order.
    items: Vec<String>,
    /// Number of items from earlier legs.
    earlier: usize,
    /// Next item index of the agent.
    next: u64,
    /// Whether the model's messages have a `phase`, which injected messages then need as well.
    phase: bool,
    /// Whether the items differ from upstream's, because one is injected, escaped or hidden.
    changed: bool,
    sequence: Sequence,
    usage: LegUsage<OpenaiUsage>,
}

/// State of a single leg.
#[derive(Default)]
struct ResponsesLeg {
    /// Items by upstream's index.
    slots: Vec<(u64, OutputSlot)>,
    /// Text parts by upstream's index of the item and of the part.
    texts: PartTexts,
}

/// An output item from upstream.
enum OutputSlot {
    /// Visible: its position in `items`, and the agent's index.
    Shown(usize, u64),
    /// A call of one of baton's tools.
    Hidden(HiddenCall),
    /// A hidden call that is complete.
    Gone,
}

impl OutputSlot {
    /// Position of a visible item.
    fn place(&self) -> Option<usize> {
        match self {
            Self::Shown(place, _) => Some(*place),
            Self::Hidden(_) | Self::Gone => None,
        }
    }
}

impl Dialect for ResponsesDialect {
    fn frame(&mut self, state: &mut LegState, frame: Frame<'_>) {
        let data = frame.data;
        if data == DONE {
            return state.end(HeldKind::Done, frame.raw);
        }
        let (event, mut kind) = event(data);
        // Gateways have error shapes of their own.
        if kind.is_empty() && error_in(data, json::root(data)).is_some() {
            kind = b"error";
        }
        let opens = matches!(
            kind,
            b"response.created" | b"response.queued" | b"response.in_progress"
        );
        // The opening text must follow `response.created` and precede all other events.
        if !opens {
            self.say_opening(state);
        }
        let edits = match kind {
            b"response.completed" | b"response.failed" | b"response.incomplete" => {
                return self.terminal(state, frame, &event);
            }
            b"response.output_item.added" => self.item_added(state, data, &event),
            b"response.output_item.done" => self.item_done(state, data, &event),
            b"error" => state.fail(state.report.parts > 0, frame.raw).then(Vec::new),
            _ if opens => self.lifecycle(state, data, &event),
            _ => self.item_event(state, data, &event, kind),
        };
        match edits {
            Some(edits) => self.send(state, frame, &event, edits),
            // A hidden event leaves a gap, so baton numbers the events from here on.
            None => self.sequence.count(),
        }
    }

    fn whole(&mut self, state: &mut LegState, body: &Bytes) -> Option<()> {
        let data: &[u8] = body;
        let response = json::whole(data).ok()?;
        // Any other value of `output` cannot be extended.
        json::get(data, response, "output").filter(|output| data[output.start] == b'[')?;
        json::get_string(data, response, "id")?;
        self.take_output(state, data, response);
        self.take_end(state, data, response);
        Some(())
    }

    fn end_leg(&mut self, _state: &LegState, counts: bool) {
        self.usage.end_leg(counts);
        self.leg = ResponsesLeg::default();
        self.earlier = self.items.len();
        self.sequence.count();
    }

    fn say(&mut self, state: &mut LegState, text: &str) {
        let index = self.next;
        let message = InjectedMessage::new(text, &state.report.id, index, self.phase);
        for (event, members) in message.events(index) {
            self.own_event(state, event, &format!(",{members}"));
        }
        self.add(&message);
    }

    fn say_whole(&mut self, state: &LegState, text: &str) {
        self.add(&InjectedMessage::new(
            text,
            &state.report.id,
            self.next,
            self.phase,
        ));
    }

    /// Emits an event, because idle timers do not notice comments. Before the response's first event it emits
    /// a comment, because clients accept no other event there.
    fn keepalive(&mut self, state: &mut LegState) {
        match self.object {
            Some(_) => self.own_event(state, "keepalive", ""),
            None => state.out.push(Bytes::from_static(b": keepalive\n\n")),
        }
    }

    fn last(&mut self, state: &mut LegState, held: HeldFrame, _ending: Ending) {
        let (raw, data) = (&held.raw, &sse::data(&held.raw)[..]);
        match held.kind {
            HeldKind::End => self.end_with(state, Frame { raw, data }),
            _ => state.pass(raw),
        }
    }

    fn own_end(&mut self, state: &mut LegState, _ending: Ending, next_input: u64) {
        self.completed(state, next_input);
        let done = state.held[HeldKind::Done as usize].take();
        state.out.extend(done.map(|done| done.raw));
    }

    fn joined(&mut self, state: &LegState, last: &[u8], ending: Ending) -> Vec<Edit> {
        let later = state.leg > 0;
        let next_input = ending.next_input();
        let stopped = next_input.map(|next_input| stopped(&self.usage.all(), next_input));
        let now = ObjectOverrides {
            identity: later.then_some(&self.identity),
            previous: None,
            output: (later || self.changed).then(|| self.output()),
            completed: stopped.is_some(),
            usage: stopped.or_else(|| OpenaiUsage::merged(&self.usage.all()).filter(|_| later)),
            offered: match later || !state.report.hidden.is_empty() {
                true => ToolNames::HANDOFF,
                false => ToolNames::NONE,
            },
        };
        response_object::edits(last, json::root(last), &now)
    }
}

impl ResponsesDialect {
    pub(super) fn new(view: &View) -> Self {
        Self {
            previous: view.facts.previous.as_ref().map(|p| json::quote(&p.id)),
            ..Self::default()
        }
    }

    /// Handles `created`, `queued` and `in_progress`, which the agent receives only once.
    ///
    /// Like `item_added`, `item_done` and `item_event`, returns the edits of a forwarded event, or `None` for a hidden
    /// one.
    fn lifecycle(&mut self, state: &mut LegState, data: &[u8], event: &ResponsesEvent) -> Option<Vec<Edit>> {
        let response = event.response.unwrap_or_default();
        if let Some(id) = json::get_string(data, response, "id") {
            state.report.id = id.into_owned();
        }
        // SDKs fail if the id of a response changes within its stream, so the agent keeps that of the first leg.
        if state.leg > 0 && self.object.is_some() {
            return None;
        }
        self.identity.take(data, response);
        self.object = event.response.map(|r| r.text(data));
        let now = ObjectOverrides {
            previous: self.previous.as_deref(),
            offered: state.watch.hide,
            ..ObjectOverrides::default()
        };
        let edits = response_object::edits(data, response, &now);
        Some(edits)
    }

    fn say_opening(&mut self, state: &mut LegState) {
        if let Some(text) = state.opening.take() {
            self.say(state, &text);
        }
    }

    fn item_added(&mut self, state: &mut LegState, data: &[u8], event: &ResponsesEvent) -> Option<Vec<Edit>> {
        let (index, item) = (number(data, event.index), event.item.unwrap_or_default());
        if let Some(tool) = response_object::ours(data, item, state) {
            let call = HiddenCall {
                raw: None,
                complete: false,
                bound_to: self.bound_to(),
                ..response_object::hidden(data, item, tool, state.report.parts, state.watch.buffered_bytes)
            };
            self.leg.slots.push((index, OutputSlot::Hidden(call)));
            return None;
        }
        // Injected messages state a phase if the model's messages do.
        self.phase |= json::get(data, item, "phase").is_some_and(|phase| data[phase.start] == b'"');
        if let Some(id) = response_object::call_id(data, item) {
            state.report.call(id);
        }
        let (shown, _) = self.slot(state, index);
        let edits = response_object::breaks(data, item, &mut self.leg.texts.so_far());
        self.items[shown] = response_object::shown(data, item, edits.clone());
        Some(edits)
    }

    fn item_done(&mut self, state: &mut LegState, data: &[u8], event: &ResponsesEvent) -> Option<Vec<Edit>> {
        let (index, item) = (number(data, event.index), event.item.unwrap_or_default());
        let known = self.leg.slots.iter_mut().find(|(i, _)| *i == index);
        let ours = match known {
            Some((_, slot @ (OutputSlot::Hidden(_) | OutputSlot::Gone))) => {
                match std::mem::replace(slot, OutputSlot::Gone) {
                    OutputSlot::Hidden(begun) => Some((begun.tool, begun.after, begun.bound_to)),
                    _ => return None,
                }
            }
            // The item was never announced.
            None => response_object::ours(data, item, state).map(|tool| {
                let bound_to = self.bound_to();
                self.leg.slots.push((index, OutputSlot::Gone));
                (tool, state.report.parts, bound_to)
            }),
            _ => None,
        };
        if let Some((tool, after, bound_to)) = ours {
            let call = response_object::hidden(data, item, tool, after, state.watch.buffered_bytes);
            state.report.hidden.push(HiddenCall { bound_to, ..call });
            return None;
        }
        let (shown, _) = self.slot(state, index);
        let (edits, unseen) = self.leg.texts.item_breaks(index, data, item);
        state.report.escaped_sentinels += unseen;
        self.items[shown] = response_object::shown(data, item, edits.clone());
        Some(edits)
    }

    /// Id of the reasoning item right before a hidden call that begins now, because that reasoning is bound
    /// to the call.
    fn bound_to(&self) -> Option<String> {
        let before = match self.leg.slots.last()? {
            (_, OutputSlot::Shown(shown, _)) => self.items.get(*shown)?.as_bytes(),
            _ => return None,
        };
        response_object::binds(before, json::root(before))
    }

    /// Handles any other event, with or without an item.
    fn item_event(
        &mut self,
        state: &mut LegState,
        data: &[u8],
        event: &ResponsesEvent,
        kind: &[u8],
    ) -> Option<Vec<Edit>> {
        if event.index.is_none() {
            return Some(Vec::new());
        }
        let index = number(data, event.index);
        match self.leg.slots.iter_mut().find(|(i, _)| *i == index) {
            Some((_, OutputSlot::Hidden(call))) => {
                let is_piece = kind == b"response.function_call_arguments.delta";
                let piece = event.delta.filter(|_| is_piece);
                if let Some(piece) = piece.and_then(|d| json::string(data, d)) {
                    call.collect(&piece, state.watch.buffered_bytes);
                }
                return None;
            }
            Some((_, OutputSlot::Gone)) => return None,
            _ => {}
        }
        self.slot(state, index);
        let key = (index, number(data, event.content));
        let edits = match kind {
            b"response.output_text.delta" => {
                let edits = self.leg.texts.follow(key, data, event.delta);
                state.report.escaped_sentinels += edits.len();
                edits
            }
            b"response.content_part.added" => {
                // A part that starts again replaces its earlier text.
                self.leg.texts.forget(key);
                let text = event.part.and_then(|p| response_object::part_text(data, p));
                self.leg.texts.follow(key, data, text)
            }
            b"response.content_part.done" => {
                let text = event.part.and_then(|p| response_object::part_text(data, p));
                broken(data, text, self.leg.texts.text(key).before)
            }
            b"response.output_text.done" => broken(data, event.text, self.leg.texts.text(key).before),
            _ => Vec::new(),
        };
        Some(edits)
    }
}

struct PartText {
    /// Upstream's index of the item and of the part.
    key: (u64, u64),
    /// Scanner state before the part. All parts of a leg's items count as one string, because agents join
    /// them.
    before: Escaper,
    /// Scanner state after the part so far.
    now: Escaper,
}

/// All text parts, in the order of their beginnings.
#[derive(Default)]
struct PartTexts(Vec<PartText>);

impl PartTexts {
    /// Forgets the text of a part that starts again.
    fn forget(&mut self, key: (u64, u64)) {
        self.0.retain(|text| text.key != key);
    }

    /// Returns the edits that escape the next piece of a part's text.
    fn follow(&mut self, key: (u64, u64), data: &[u8], literal: Option<Span>) -> Vec<Edit> {
        let Some(literal) = literal.filter(|l| l.len() >= 2) else {
            return Vec::new();
        };
        self.text(key).now.breaks(data, literal.inner())
    }

    /// Scanner state after the last part.
    fn so_far(&self) -> Escaper {
        self.0.last().map_or_else(Escaper::default, |text| text.now)
    }

    /// Returns the edits that escape the text of a finished item, and how many of them concern text that was
    /// not streamed.
    fn item_breaks(&mut self, index: u64, data: &[u8], item: Span) -> (Vec<Edit>, usize) {
        let (mut edits, mut unseen) = (Vec::new(), 0);
        for (part, literal) in response_object::texts(data, item) {
            let streamed = self.0.iter().any(|text| text.key == (index, part));
            let text = self.text((index, part));
            text.now = text.before;
            let broken = text.now.breaks(data, literal.inner());
            if !streamed {
                unseen += broken.len();
            }
            edits.extend(broken);
        }
        (edits, unseen)
    }

    /// Returns the state of a part. A new part continues the last one.
    fn text(&mut self, key: (u64, u64)) -> &mut PartText {
        let known = self.0.iter().position(|text| text.key == key);
        let i = known.unwrap_or_else(|| {
            let before = self.so_far();
            self.0.push(PartText {
                key,
                before,
                now: before,
            });
            self.0.len() - 1
        });
        &mut self.0[i]
    }
}
