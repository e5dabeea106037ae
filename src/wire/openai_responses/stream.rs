//! Responses streams: one response to the agent, however many legs it has. Events: <https://platform.openai.com/docs/api-reference/responses-streaming>.

mod end;

use super::OpenaiResponses;
use crate::tools::Names;
use bytes::Bytes;

use super::event::{Event, broken, event, number};
use super::own_message::OwnMessage;
use super::response_object::{self, Identity, Now};
use crate::mark::escape::Escaper;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::error::error_in;
use crate::wire::frame_template::{FrameTemplate, Hole, Pass};
use crate::wire::leg::{Dialect, HiddenCall, LegReport, Stop};
use crate::wire::{Ending, Streams, View, Watch, sse};

impl Streams for OpenaiResponses {
    fn dialect(&self, view: &View, watch: Watch) -> Box<dyn Dialect> {
        Box::new(Stream::new(view, watch))
    }
}

/// What some servers send behind the last event.
const DONE: &[u8] = b"[DONE]";

/// Where the stream is.
#[derive(Default)]
struct Stream {
    /// The tools whose calls are ours to hide.
    hide: Names,
    /// Bytes of a hidden call's arguments that are collected.
    held_bytes: usize,
    leg: usize,
    report: LegReport,
    /// The agent's own `previous_response_id`, as a literal.
    previous: Option<String>,
    /// What every response object says: the first leg's.
    identity: Identity,
    /// The newest response object of which an end can be made.
    object: Option<String>,
    /// This leg's items by upstream's index.
    slots: Vec<(u64, Slot)>,
    /// Texts by upstream's index of the item and of the part.
    texts: Vec<Text>,
    /// Every item the agent has seen, in its order.
    items: Vec<String>,
    /// How many of them are of earlier legs.
    earlier: usize,
    phase: bool,
    /// Whether any item is ours.
    said: bool,
    /// The number of the next event, and whether numbers are ours: from the first event on that was
    /// swallowed or put in.
    sequence: u64,
    counting: bool,
    /// Usage of earlier legs, then of this one.
    spent: Vec<String>,
    usage: Option<String>,
    hold: bool,
    /// The leg's last event as it came, and its data.
    end: Option<(Bytes, Vec<u8>)>,
    done: Option<Bytes>,
    opening: Option<String>,
    /// Template of the deltas of the text that continues, and which text that is.
    spelling: FrameTemplate,
    spelled: (u64, u64),
}

/// The text of a part.
struct Text {
    /// Upstream's index of the item and of the part.
    key: (u64, u64),
    /// What was seen before it: the parts of all items of a leg are one text, since agents join them.
    before: Escaper,
    /// What was seen with it.
    now: Escaper,
}

/// An output item of upstream's.
enum Slot {
    /// Shown under this index.
    Shown(usize),
    /// Ours.
    Hidden(HiddenCall),
    /// Ours, and complete.
    Gone,
}

impl Dialect for Stream {
    fn frame(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        self.spelling.forget();
        if data == DONE {
            match self.holding() {
                true => self.done = Some(raw.clone()),
                false => out.push(raw.clone()),
            }
            return;
        }
        let (event, mut kind) = event(data);
        // Gateways tell errors in shapes of their own.
        if kind.is_empty() && error_in(data, response_object::whole(data)).is_some() {
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
                self.report.stop = Stop::Error;
                if self.leg > 0 && self.report.parts == 0 {
                    // Nothing of this leg was shown: it may be tried again.
                    self.report.ended = true;
                    self.report.again = true;
                } else {
                    self.send(raw, data, &event, Vec::new(), out);
                }
            }
            _ => self.item_event(raw, data, &event, kind, out),
        }
    }

    fn pass(&mut self, raw: &[u8], changed: &mut Vec<u8>) -> Pass {
        let text = self.texts.iter().find(|text| text.key == self.spelled);
        if text.is_some_and(|text| !text.now.is_clear()) {
            return Pass::Unread;
        }
        let (sequence, counting) = (&mut self.sequence, self.counting);
        self.spelling
            .pass(raw, |given| next_in_order(sequence, counting, given), changed)
    }

    fn report(&self) -> &LegReport {
        &self.report
    }

    fn hold_ends(&mut self, hold: bool) {
        self.hold = hold;
    }

    fn holds_end(&self) -> bool {
        self.end.is_some()
    }

    fn hide(&mut self, tools: Names) {
        self.hide = tools;
    }

    fn next_leg(&mut self) {
        self.leg += 1;
        self.spent.extend(self.usage.take());
        self.report = LegReport::default();
        self.slots.clear();
        self.texts.clear();
        self.earlier = self.items.len();
        self.counting = true;
        self.end = None;
        self.done = None;
        self.spelling.forget();
    }

    fn forget_leg(&mut self) {
        self.report = LegReport::default();
        self.usage = None;
        self.slots.clear();
        (self.end, self.done) = (None, None);
    }

    fn open_with(&mut self, text: String) {
        self.opening = Some(text);
    }

    fn say(&mut self, text: &str, out: &mut Vec<Bytes>) {
        let index = self.items.len();
        let message = OwnMessage::new(text, &self.report.id, self.phase);
        for (event, members) in message.events(index) {
            self.own_event(event, &members, out);
        }
        self.items.push(message.done());
        self.said = true;
    }

    /// An event, since idle timers do not see comments; before the response's own first event a comment all
    /// the same, since readers take no other event first.
    fn keepalive(&mut self, out: &mut Vec<Bytes>) {
        if self.object.is_some() {
            let n = self.next_number();
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

impl Stream {
    fn new(view: &View, watch: Watch) -> Self {
        Self {
            hide: watch.hide,
            held_bytes: watch.held_bytes,
            previous: view.facts.previous.as_ref().map(|p| json::quote(&p.id)),
            ..Self::default()
        }
    }

    /// Whether the end of this leg waits: something was hidden, or its object needs rewriting.
    fn holding(&self) -> bool {
        self.hold || self.leg > 0 || !self.report.hidden.is_empty()
    }

    /// `created`, `queued`, `in_progress`: a response has them once.
    fn lifecycle(&mut self, raw: &Bytes, data: &[u8], event: &Event, out: &mut Vec<Bytes>) {
        let response = event.response.unwrap_or_default();
        if let Some(id) = json::get_string(data, response, "id") {
            self.report.id = id.into_owned();
        }
        if self.leg > 0 && self.object.is_some() {
            self.counting = true;
            return;
        }
        self.identity.take(data, response);
        self.object = event.response.map(|r| response_object::raw(data, r));
        let now = Now {
            previous: self.previous.as_deref(),
            offered: self.hide,
            ..Now::default()
        };
        let edits = response_object::edits(data, response, &now);
        self.send(raw, data, event, edits, out);
    }

    fn say_opening(&mut self, out: &mut Vec<Bytes>) {
        if let Some(text) = self.opening.take() {
            self.say(&text, out);
        }
    }

    fn item_added(&mut self, raw: &Bytes, data: &[u8], event: &Event, out: &mut Vec<Bytes>) {
        let (index, item) = (number(data, event.index), event.item.unwrap_or_default());
        if let Some(tool) = response_object::ours(data, item, self.hide) {
            let call = HiddenCall {
                raw: None,
                complete: false,
                ..response_object::hidden(data, item, tool, self.report.parts, self.held_bytes)
            };
            self.slots.push((index, Slot::Hidden(call)));
            self.counting = true;
            return;
        }
        self.phase |= response_object::has_phase(data, item);
        if let Some(id) = response_object::call_id(data, item) {
            self.report.calls.push((id, self.report.parts));
        }
        let shown = self.slot(index);
        let edits = response_object::breaks(data, item, &mut self.so_far());
        self.items[shown] = response_object::shown(data, item, edits.clone());
        self.send(raw, data, event, edits, out);
    }

    fn item_done(&mut self, raw: &Bytes, data: &[u8], event: &Event, out: &mut Vec<Bytes>) {
        let (index, item) = (number(data, event.index), event.item.unwrap_or_default());
        let known = self.slots.iter_mut().find(|(i, _)| *i == index);
        let ours = match known {
            Some((_, slot @ (Slot::Hidden(_) | Slot::Gone))) => match std::mem::replace(slot, Slot::Gone) {
                Slot::Hidden(begun) => Some((begun.tool, begun.after)),
                _ => return,
            },
            // Never announced.
            None => response_object::ours(data, item, self.hide).map(|tool| {
                self.slots.push((index, Slot::Gone));
                (tool, self.report.parts)
            }),
            _ => None,
        };
        if let Some((tool, after)) = ours {
            self.counting = true;
            let call = response_object::hidden(data, item, tool, after, self.held_bytes);
            self.report.hidden.push(call);
            return;
        }
        let shown = self.slot(index);
        let edits = self.item_breaks(index, data, item);
        self.items[shown] = response_object::shown(data, item, edits.clone());
        self.send(raw, data, event, edits, out);
    }

    /// Any other event: of an item, or of none.
    fn item_event(&mut self, raw: &Bytes, data: &[u8], event: &Event, kind: &[u8], out: &mut Vec<Bytes>) {
        if event.index.is_none() {
            return self.send(raw, data, event, Vec::new(), out);
        }
        let index = number(data, event.index);
        match self.slots.iter_mut().find(|(i, _)| *i == index) {
            Some((_, Slot::Hidden(call))) => {
                let is_piece = kind == b"response.function_call_arguments.delta";
                let piece = event.delta.filter(|_| is_piece);
                if let Some(piece) = piece.and_then(|d| json::string(data, d)) {
                    call.collect(&piece, self.held_bytes);
                }
                self.counting = true;
                return;
            }
            Some((_, Slot::Gone)) => {
                self.counting = true;
                return;
            }
            _ => {}
        }
        self.slot(index);
        let key = (index, number(data, event.content));
        let edits = match kind {
            b"response.output_text.delta" => {
                let edits = self.follow(key, data, event.delta);
                self.report.broken_up += edits.len();
                edits
            }
            b"response.content_part.added" => {
                self.texts.retain(|text| text.key != key);
                let text = event.part.and_then(|p| response_object::part_text(data, p));
                self.follow(key, data, text)
            }
            b"response.content_part.done" => {
                let text = event.part.and_then(|p| response_object::part_text(data, p));
                broken(data, text, self.text(key).before)
            }
            b"response.output_text.done" => broken(data, event.text, self.text(key).before),
            _ => Vec::new(),
        };
        let piece = event
            .delta
            .filter(|d| kind.ends_with(b".delta") && d.len() >= 2 && data[d.start] == b'"');
        if let Some(piece) = piece {
            let hole = match kind {
                b"response.output_text.delta" => Hole::Text,
                _ => Hole::String,
            };
            let mut same = edits.clone();
            same.extend(self.index_edit(data, event));
            self.spelled = key;
            self.spelling
                .learn(raw, data, &event.holes(data, piece, hole), &same);
        }
        self.send(raw, data, event, edits, out);
    }

    /// Where the next piece of a text is broken up.
    fn follow(&mut self, key: (u64, u64), data: &[u8], literal: Option<Span>) -> Vec<Edit> {
        let Some(literal) = literal.filter(|l| l.len() >= 2) else {
            return Vec::new();
        };
        response_object::break_edits(data, literal, &mut self.text(key).now)
    }

    /// What was seen with the last text.
    fn so_far(&self) -> Escaper {
        self.texts.last().map_or_else(Escaper::default, |text| text.now)
    }

    /// Where the texts of a finished item are broken up.
    fn item_breaks(&mut self, index: u64, data: &[u8], item: Span) -> Vec<Edit> {
        let mut edits = Vec::new();
        for (part, literal) in response_object::texts(data, item) {
            let streamed = self.texts.iter().any(|text| text.key == (index, part));
            let text = self.text((index, part));
            text.now = text.before;
            let broken = response_object::break_edits(data, literal, &mut text.now);
            if !streamed {
                self.report.broken_up += broken.len();
            }
            edits.extend(broken);
        }
        edits
    }

    /// The text of a part; a new one goes on from the last.
    fn text(&mut self, key: (u64, u64)) -> &mut Text {
        let known = self.texts.iter().position(|text| text.key == key);
        let i = known.unwrap_or_else(|| {
            let before = self.so_far();
            self.texts.push(Text {
                key,
                before,
                now: before,
            });
            self.texts.len() - 1
        });
        &mut self.texts[i]
    }

    /// The agent's index of an item, given now where it is new.
    fn slot(&mut self, index: u64) -> usize {
        let known = self.slots.iter().find_map(|(i, slot)| match slot {
            Slot::Shown(shown) if *i == index => Some(*shown),
            _ => None,
        });
        known.unwrap_or_else(|| {
            let shown = self.items.len();
            self.items.push(String::new());
            self.report.parts += 1;
            self.slots.push((index, Slot::Shown(shown)));
            shown
        })
    }

    fn own_event(&mut self, kind: &str, members: &str, out: &mut Vec<Bytes>) {
        let n = self.next_number();
        let data = format!(r#"{{"type":"{kind}",{members},"sequence_number":{n}}}"#);
        out.push(sse::named(kind, &data));
    }

    /// The number of an event of ours; all that follow are ours to count.
    fn next_number(&mut self) -> u64 {
        self.counting = true;
        self.sequence += 1;
        self.sequence - 1
    }

    /// Sends an event on: as it is, or with its numbers moved and its edits made.
    fn send(&mut self, raw: &Bytes, data: &[u8], event: &Event, mut edits: Vec<Edit>, out: &mut Vec<Bytes>) {
        if let Some(span) = event.sequence {
            let given = number(data, event.sequence);
            let shown = next_in_order(&mut self.sequence, self.counting, given);
            if given != shown {
                edits.push(Edit::replace(span, shown.to_string()));
            }
        }
        edits.extend(self.index_edit(data, event));
        out.push(if edits.is_empty() {
            raw.clone()
        } else {
            sse::edited(raw, data, edits)
        });
    }

    /// The edit that moves an event to the agent's index of its item.
    fn index_edit(&mut self, data: &[u8], event: &Event) -> Option<Edit> {
        let span = event.index?;
        let index = number(data, event.index);
        let shown = self.slot(index);
        (shown as u64 != index).then(|| Edit::replace(span, shown.to_string()))
    }
}

/// The number of an event that is sent on: upstream's own as long as nothing was swallowed or put in.
fn next_in_order(sequence: &mut u64, counting: bool, given: u64) -> u64 {
    if !counting {
        *sequence = given;
    }
    *sequence += 1;
    *sequence - 1
}
