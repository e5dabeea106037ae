//! The last event of a leg and of the response, and the forwarding of events with the agent's own item
//! indices and sequence numbers.

use super::super::event::{ResponsesEvent, event, number};
use super::super::own_message::{self, InjectedMessage};
use super::super::response_object::{self, ObjectOverrides};
use super::{OutputSlot, ResponsesDialect};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::leg::{HiddenCall, StopReason};
use crate::wire::leg_state::{Frame, HeldFrame, HeldKind, LegState, ProviderUsage};
use crate::wire::openai::{OpenaiUsage, stopped_response as stopped};
use crate::wire::{DroppedThinking, sse};
use bytes::Bytes;

impl ResponsesDialect {
    /// Handles `completed`, `failed` and `incomplete`.
    pub(super) fn terminal(&mut self, state: &mut LegState, frame: Frame<'_>, event: &ResponsesEvent) {
        let data = frame.data;
        let response = event.response.unwrap_or_default();
        for (_, slot) in &mut self.leg.slots {
            if let OutputSlot::Hidden(call) = slot {
                let limit = state.watch.buffered_bytes;
                // A call that was still streaming is completed from the response object, if that contains it.
                let finished = response_object::finished(data, response, call, limit);
                state
                    .report
                    .hidden
                    .push(finished.unwrap_or_else(|| std::mem::take(call)));
            }
        }
        let is_changed = state.holds() || self.changed || state.report.escaped_sentinels > 0;
        // An unchanged response is forwarded as it is, unless its server streams no items.
        if is_changed || self.items.len() == self.earlier {
            self.take_output(state, data, response);
        }
        self.leg.slots.clear();
        self.take_end(state, data, response);
        let report = &mut state.report;
        report.again = report.stop == StopReason::Error && state.leg > 0 && report.parts == 0;
        if report.again {
            report.error = Bytes::copy_from_slice(data);
        }
        // A failed response object is not a basis for a successful end.
        if report.stop != StopReason::Error {
            self.object = event.response.map(|r| r.text(data));
        }
        match state.holds() {
            true => state.keep(HeldFrame::new(HeldKind::End, frame.raw)),
            false => self.end_with(state, frame),
        }
    }

    /// Merges the items of a response object into those that were streamed.
    ///
    /// A streamed item is read again, because the object may contain more. Other items are new, unless the
    /// object uses different ids: then they are the streamed items under other names.
    pub(super) fn take_output(&mut self, state: &mut LegState, data: &[u8], response: Span) {
        let output = response_object::output(data, response);
        let streamed: Vec<_> = output.iter().map(|item| self.streamed(data, *item)).collect();
        let slots = || self.leg.slots.iter().map(|(_, slot)| slot);
        let places = || slots().filter_map(OutputSlot::place);
        let repeats_ids = streamed.iter().flatten().count() == places().count();
        let has_hidden = slots().count() > places().count();
        let is_streamed = slots().next().is_some();
        let (mut at, mut added) = (places().min().unwrap_or(self.items.len()), 0);
        let mut before: Option<Span> = None;
        for (item, streamed) in output.into_iter().zip(streamed) {
            let before = before.replace(item);
            if let Some((place, index)) = streamed {
                let (edits, unseen) = self.leg.texts.item_breaks(index, data, item);
                state.report.escaped_sentinels += unseen;
                self.items[place + added] = response_object::shown(data, item, edits);
                at = place + added + 1;
                continue;
            }
            let tool = response_object::ours(data, item, state);
            // Without an id, an item cannot be distinguished from the streamed ones, so it counts as one of
            // them.
            let is_unnamed = is_streamed && json::get(data, item, "id").is_none();
            if !repeats_ids || is_unnamed || tool.is_some() && has_hidden {
                continue;
            }
            self.phase |= json::get(data, item, "phase").is_some_and(|phase| data[phase.start] == b'"');
            if let Some(tool) = tool {
                let limit = state.watch.buffered_bytes;
                let call = response_object::hidden(data, item, tool, state.report.parts, limit);
                let bound_to = before.and_then(|before| response_object::binds(data, before));
                state.report.hidden.push(HiddenCall { bound_to, ..call });
                self.changed = true;
                continue;
            }
            if let Some(id) = response_object::call_id(data, item) {
                state.report.call(id);
            }
            state.report.parts += 1;
            // The text of all items counts as one string, because agents join it.
            let edits = response_object::breaks(data, item, &mut state.escaper);
            state.report.escaped_sentinels += edits.len();
            self.changed |= !edits.is_empty();
            self.items.insert(at, response_object::shown(data, item, edits));
            (at, added, self.next) = (at + 1, added + 1, self.next + 1);
        }
    }

    /// Position of an item that was streamed in this leg, and upstream's index of it.
    fn streamed(&self, data: &[u8], item: Span) -> Option<(usize, u64)> {
        let id = json::get_string(data, item, "id").filter(|id| !id.is_empty())?;
        self.leg.slots.iter().find_map(|(index, slot)| match slot {
            OutputSlot::Shown(shown, _) => {
                let item = self.items[*shown].as_bytes();
                let known = json::get_string(item, json::root(item), "id")?;
                (known == id).then_some((*shown, *index))
            }
            _ => None,
        })
    }

    /// Records the leg's end from a response object.
    pub(super) fn take_end(&mut self, state: &mut LegState, data: &[u8], response: Span) {
        let report = &mut state.report;
        if let Some(id) = json::get_string(data, response, "id") {
            report.id = id.into_owned();
        }
        if let Some(usage) = json::get(data, response, "usage").filter(|usage| data[usage.start] == b'{') {
            self.usage.take(data, usage, report);
        }
        let is_background =
            json::get(data, response, "background").is_some_and(|v| json::is_true(v.of(data)));
        let limit = json::get_u64(data, response, "max_output_tokens");
        report.background = is_background.then(|| limit.unwrap_or_default());
        report.stop = response_object::stop(data, response, !report.calls.is_empty());
        report.ended = true;
        report.served.take(data, response);
        report.dropped_thinking = DroppedThinking::of_member(data, response).unwrap_or_default();
        if state.leg == 0 {
            self.identity.take(data, response);
        }
    }

    /// Adds an injected item to the agent's items.
    pub(super) fn add(&mut self, message: &InjectedMessage) {
        self.items.push(message.done());
        self.next += 1;
        self.changed = true;
    }

    /// Emits the leg's own end as the end of the whole response.
    pub(super) fn end_with(&mut self, state: &mut LegState, frame: Frame<'_>) {
        let (event, _) = event(frame.data);
        let hidden = !state.report.hidden.is_empty();
        let changed = state.leg > 0 || self.changed || hidden || state.report.escaped_sentinels > 0;
        let now = ObjectOverrides {
            identity: (state.leg > 0).then_some(&self.identity),
            previous: self.previous.as_deref(),
            // SDKs take this list for the final result, so it has the items of all legs.
            output: changed.then(|| self.output()),
            usage: OpenaiUsage::merged(&self.usage.all())
                .filter(|_| state.leg > 0 && self.usage.is_reported()),
            offered: state.watch.hide,
            completed: false,
        };
        let edits = response_object::edits(frame.data, event.response.unwrap_or_default(), &now);
        self.send(state, frame, &event, edits);
    }

    /// Emits an end created from the latest response object.
    pub(super) fn completed(&mut self, state: &mut LegState, next_input: u64) {
        // No response object arrived, so one is made up.
        if self.object.is_none() {
            let object = own_message::made_up(state.opening.as_deref().unwrap_or_default());
            self.identity
                .take(object.as_bytes(), json::root(object.as_bytes()));
            self.own_event(state, "response.created", &format!(r#","response":{object}"#));
            self.object = Some(object);
        }
        self.say_opening(state);
        let now = ObjectOverrides {
            identity: Some(&self.identity),
            previous: self.previous.as_deref(),
            output: Some(self.output()),
            usage: Some(stopped(&self.usage.all(), next_input)),
            offered: state.watch.hide,
            completed: true,
        };
        let object = response_object::edited(self.object.as_deref().unwrap_or_default(), &now);
        self.own_event(state, "response.completed", &format!(r#","response":{object}"#));
    }

    pub(super) fn output(&self) -> String {
        let all: Vec<&str> = self
            .items
            .iter()
            .map(String::as_str)
            // Empty if events about an item arrived, but never the item.
            .filter(|i| !i.is_empty())
            .collect();
        format!("[{}]", all.join(","))
    }

    /// Returns the position of a visible item and the agent's index, assigning both to a new one.
    ///
    /// The index is upstream's until baton has changed the items before it.
    pub(super) fn slot(&mut self, state: &mut LegState, index: u64) -> (usize, u64) {
        let mut is_moved = state.leg > 0 || self.changed;
        for (known, slot) in &self.leg.slots {
            match slot {
                OutputSlot::Shown(shown, moved) if *known == index => return (*shown, *moved),
                OutputSlot::Shown(..) => {}
                OutputSlot::Hidden(_) | OutputSlot::Gone => is_moved = true,
            }
        }
        // Older SDKs fail at a gap in the indexes, so a hidden item takes none.
        let shown = (self.items.len(), if is_moved { self.next } else { index });
        self.next = self.next.max(shown.1 + 1);
        self.items.push(String::new());
        state.report.parts += 1;
        self.leg.slots.push((index, OutputSlot::Shown(shown.0, shown.1)));
        shown
    }

    /// Emits an injected event. Each of its members begins with a comma.
    pub(super) fn own_event(&mut self, state: &mut LegState, kind: &str, members: &str) {
        let n = self.sequence.of_ours();
        let data = format!(r#"{{"type":"{kind}"{members},"sequence_number":{n}}}"#);
        state.out.push(sse::named(kind, &data));
    }

    /// Forwards an event with its numbers and edits applied.
    pub(super) fn send(
        &mut self,
        state: &mut LegState,
        frame: Frame<'_>,
        event: &ResponsesEvent,
        mut edits: Vec<Edit>,
    ) {
        let data = frame.data;
        if let Some(span) = event.sequence {
            let given = number(data, event.sequence);
            let shown = self.sequence.of_given(given);
            if given != shown {
                edits.push(Edit::replace(span, shown.to_string()));
            }
        }
        if let Some(span) = event.index {
            let index = number(data, event.index);
            let (_, shown) = self.slot(state, index);
            edits.extend((shown != index).then(|| Edit::replace(span, shown.to_string())));
        }
        state.out.push(frame.edited(edits));
    }
}
