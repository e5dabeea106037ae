//! Responses streams: one response to the agent, however many legs it has. Events:
//! <https://platform.openai.com/docs/api-reference/responses-streaming>.

mod end;
mod send;
mod sequence;
mod texts;

use super::OpenaiResponses;
use bytes::Bytes;

use self::sequence::Sequence;
use self::texts::PartTexts;
use super::event::{ResponsesEvent, broken, event, number};
use super::own_message::OwnMessage;
use super::response_object::{self, ObjectOverrides, ResponseIdentity};
use crate::text::json;
use crate::wire::dialect::Dialect;
use crate::wire::error::error_in;
use crate::wire::leg::{HiddenCall, LegReport};
use crate::wire::leg_usage::LegUsage;
use crate::wire::openai::OpenaiUsage;
use crate::wire::stream_state::StreamState;
use crate::wire::{Ending, ResponseWatch, Streams, View, sse};

impl Streams for OpenaiResponses {
    fn dialect(&self, view: &View, watch: ResponseWatch) -> Box<dyn Dialect> {
        Box::new(ResponsesStream::new(view, watch))
    }
}

/// What some servers send after the last event.
const DONE: &[u8] = b"[DONE]";

/// State of the stream.
#[derive(Default)]
struct ResponsesStream {
    state: StreamState,
    /// The agent's own `previous_response_id`, as a literal.
    previous: Option<String>,
    /// What every response object says: the first leg's.
    identity: ResponseIdentity,
    /// The newest response object of which an end can be made.
    object: Option<String>,
    /// This leg's items by upstream's index.
    slots: Vec<(u64, OutputSlot)>,
    /// Texts by upstream's index of the item and of the part.
    texts: PartTexts,
    /// Every item the agent has seen, in its order.
    items: Vec<String>,
    /// How many of them are of earlier legs.
    earlier: usize,
    phase: bool,
    /// Whether any item is ours.
    has_own_item: bool,
    sequence: Sequence,
    usage: LegUsage<OpenaiUsage>,
    /// The leg's last event as it came, and its data.
    end: Option<(Bytes, Vec<u8>)>,
    done: Option<Bytes>,
}

/// An output item of upstream's.
enum OutputSlot {
    /// A visible block with this index.
    Shown(usize),
    /// Ours.
    Hidden(HiddenCall),
    /// Ours, and complete.
    Gone,
}

impl Dialect for ResponsesStream {
    fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        if data == DONE {
            match self.state.holds() {
                true => self.done = Some(raw.clone()),
                false => out.push(raw.clone()),
            }
            return;
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
        if opens {
            return self.lifecycle(raw, data, &event, out);
        }
        self.say_opening(out);
        match kind {
            b"response.completed" | b"response.failed" | b"response.incomplete" => {
                self.terminal(raw, data, &event, out)
            }
            b"response.output_item.added" => self.item_added(raw, data, &event, out),
            b"response.output_item.done" => self.item_done(raw, data, &event, out),
            b"error" => {
                let shown = self.state.report.parts > 0;
                if self.state.fail(shown) {
                    self.send(raw, data, &event, Vec::new(), out);
                }
            }
            _ => self.item_event(raw, data, &event, kind, out),
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
        self.slots.clear();
        self.texts.clear();
        self.earlier = self.items.len();
        self.sequence.count();
        self.end = None;
        self.done = None;
        self.state.next_leg();
    }

    fn forget_leg(&mut self) {
        self.state.report = LegReport::default();
        self.usage.forget();
        self.slots.clear();
        (self.end, self.done) = (None, None);
    }

    fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        let index = self.items.len();
        let message = OwnMessage::new(text, &self.state.report.id, self.phase);
        for (event, members) in message.events(index) {
            self.own_event(event, &members, out);
        }
        self.items.push(message.done());
        self.has_own_item = true;
    }

    /// An event, since idle timers do not see comments; before the response's own first event a comment all
    /// the same, since readers take no other event first.
    fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        if self.object.is_some() {
            let n = self.sequence.of_ours();
            out.push(sse::named(
                "keepalive",
                &format!(r#"{{"type":"keepalive","sequence_number":{n}}}"#),
            ));
        } else {
            out.push(Bytes::from_static(b": keepalive\n\n"));
        }
    }

    fn close(&mut self, ending: Ending, out: &mut Vec<Bytes>) {
        match ending {
            Ending::Own | Ending::WithoutCall => {
                if let Some((raw, data)) = self.end.take() {
                    self.end_with(&raw, &data, out);
                }
            }
            Ending::Stopped { next_input } | Ending::Lost { next_input } => self.own_end(next_input, out),
        }
        out.extend(self.done.take());
    }
}

impl ResponsesStream {
    fn new(view: &View, watch: ResponseWatch) -> Self {
        Self {
            state: StreamState::new(watch),
            previous: view.facts.previous.as_ref().map(|p| json::quote(&p.id)),
            ..Self::default()
        }
    }

    /// `created`, `queued`, `in_progress`: a response has them once.
    fn lifecycle(&mut self, raw: &Bytes, data: &[u8], event: &ResponsesEvent, out: &mut Vec<Bytes>) {
        let response = event.response.unwrap_or_default();
        if let Some(id) = json::get_string(data, response, "id") {
            self.state.report.id = id.into_owned();
        }
        if self.state.leg > 0 && self.object.is_some() {
            self.sequence.count();
            return;
        }
        self.identity.take(data, response);
        self.object = event.response.map(|r| r.text(data));
        let now = ObjectOverrides {
            previous: self.previous.as_deref(),
            offered: self.state.watch.hide,
            ..ObjectOverrides::default()
        };
        let edits = response_object::edits(data, response, &now);
        self.send(raw, data, event, edits, out);
    }

    fn say_opening(&mut self, out: &mut Vec<Bytes>) {
        if let Some(text) = self.state.opening.take() {
            self.say(&text, out);
        }
    }

    fn item_added(&mut self, raw: &Bytes, data: &[u8], event: &ResponsesEvent, out: &mut Vec<Bytes>) {
        let (index, item) = (number(data, event.index), event.item.unwrap_or_default());
        if let Some(tool) = response_object::ours(data, item, self.state.watch.hide) {
            let call = HiddenCall {
                raw: None,
                complete: false,
                bound_to: self.bound_to(),
                ..response_object::hidden(
                    data,
                    item,
                    tool,
                    self.state.report.parts,
                    self.state.watch.buffered_bytes,
                )
            };
            self.slots.push((index, OutputSlot::Hidden(call)));
            self.sequence.count();
            return;
        }
        self.phase |= response_object::has_phase(data, item);
        if let Some(id) = response_object::call_id(data, item) {
            self.state.report.call(id);
        }
        let shown = self.slot(index);
        let edits = response_object::breaks(data, item, &mut self.texts.so_far());
        self.items[shown] = response_object::shown(data, item, edits.clone());
        self.send(raw, data, event, edits, out);
    }

    fn item_done(&mut self, raw: &Bytes, data: &[u8], event: &ResponsesEvent, out: &mut Vec<Bytes>) {
        let (index, item) = (number(data, event.index), event.item.unwrap_or_default());
        let known = self.slots.iter_mut().find(|(i, _)| *i == index);
        let ours = match known {
            Some((_, slot @ (OutputSlot::Hidden(_) | OutputSlot::Gone))) => {
                match std::mem::replace(slot, OutputSlot::Gone) {
                    OutputSlot::Hidden(begun) => Some((begun.tool, begun.after, begun.bound_to)),
                    _ => return,
                }
            }
            // Never announced.
            None => response_object::ours(data, item, self.state.watch.hide).map(|tool| {
                let bound_to = self.bound_to();
                self.slots.push((index, OutputSlot::Gone));
                (tool, self.state.report.parts, bound_to)
            }),
            _ => None,
        };
        if let Some((tool, after, bound_to)) = ours {
            self.sequence.count();
            let call = response_object::hidden(data, item, tool, after, self.state.watch.buffered_bytes);
            self.state.report.hidden.push(HiddenCall { bound_to, ..call });
            return;
        }
        let shown = self.slot(index);
        let (edits, unseen) = self.texts.item_breaks(index, data, item);
        self.state.report.broken_up += unseen;
        self.items[shown] = response_object::shown(data, item, edits.clone());
        self.send(raw, data, event, edits, out);
    }

    /// What a hidden call that comes now is bound to: the reasoning right before it.
    fn bound_to(&self) -> Option<String> {
        let before = match self.slots.last()? {
            (_, OutputSlot::Shown(shown)) => self.items.get(*shown)?.as_bytes(),
            _ => return None,
        };
        response_object::binds(before, json::root(before))
    }

    /// Any other event: of an item, or of none.
    fn item_event(
        &mut self,
        raw: &Bytes,
        data: &[u8],
        event: &ResponsesEvent,
        kind: &[u8],
        out: &mut Vec<Bytes>,
    ) {
        if event.index.is_none() {
            return self.send(raw, data, event, Vec::new(), out);
        }
        let index = number(data, event.index);
        match self.slots.iter_mut().find(|(i, _)| *i == index) {
            Some((_, OutputSlot::Hidden(call))) => {
                let is_piece = kind == b"response.function_call_arguments.delta";
                let piece = event.delta.filter(|_| is_piece);
                if let Some(piece) = piece.and_then(|d| json::string(data, d)) {
                    call.collect(&piece, self.state.watch.buffered_bytes);
                }
                self.sequence.count();
                return;
            }
            Some((_, OutputSlot::Gone)) => {
                self.sequence.count();
                return;
            }
            _ => {}
        }
        self.slot(index);
        let key = (index, number(data, event.content));
        let edits = match kind {
            b"response.output_text.delta" => {
                let edits = self.texts.follow(key, data, event.delta);
                self.state.report.broken_up += edits.len();
                edits
            }
            b"response.content_part.added" => {
                self.texts.forget(key);
                let text = event.part.and_then(|p| response_object::part_text(data, p));
                self.texts.follow(key, data, text)
            }
            b"response.content_part.done" => {
                let text = event.part.and_then(|p| response_object::part_text(data, p));
                broken(data, text, self.texts.text(key).before)
            }
            b"response.output_text.done" => broken(data, event.text, self.texts.text(key).before),
            _ => Vec::new(),
        };
        self.send(raw, data, event, edits, out);
    }
}
