//! A leg's last event, and the response's.

use bytes::Bytes;

use super::super::event::{ResponsesEvent, event};
use super::super::response_object::{self, ObjectOverrides};
use super::super::{own_message, usage};
use super::{OutputSlot, ResponsesStream};
use crate::text::json;
use crate::wire::DroppedThinking;
use crate::wire::leg::StopReason;

impl ResponsesStream {
    /// `completed`, `failed`, `incomplete`.
    pub(super) fn terminal(
        &mut self,
        raw: &Bytes,
        data: &[u8],
        event: &ResponsesEvent,
        out: &mut Vec<Bytes>,
    ) {
        let response = event.response.unwrap_or_default();
        for (_, slot) in self.slots.drain(..) {
            if let OutputSlot::Hidden(call) = slot {
                let call =
                    response_object::finished(data, response, &call, self.buffered_bytes).unwrap_or(call);
                self.report.hidden.push(call);
            }
        }
        // A server that streams no items.
        let (hide, buffered_bytes) = (self.hide, self.buffered_bytes);
        if self.items.len() == self.earlier && self.report.hidden.is_empty() {
            self.items.extend(response_object::take_output(
                data,
                response,
                &mut self.report,
                |name| hide.find(name),
                buffered_bytes,
            ));
        }
        if let Some(id) = json::get_string(data, response, "id") {
            self.report.id = id.into_owned();
        }
        self.usage = usage::of(data, response);
        self.report.usage = self.usage.as_deref().map(usage::read).unwrap_or_default();
        self.report.stop = response_object::stop(data, response, !self.report.calls.is_empty());
        self.report.ended = true;
        self.report.served.take(data, response);
        self.report.dropped_thinking = DroppedThinking::of_member(data, response).unwrap_or_default();
        self.report.again = self.report.stop == StopReason::Error && self.leg > 0 && self.report.parts == 0;
        if self.leg == 0 {
            self.identity.take(data, response);
        }
        if self.report.stop != StopReason::Error {
            self.object = event.response.map(|r| response_object::raw(data, r));
        }
        if self.holding() {
            self.end = Some((raw.clone(), data.to_vec()));
        } else {
            self.end_with(raw, data, out);
        }
    }

    /// The leg's own end, as the end of the whole response.
    pub(super) fn end_with(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        let (event, _) = event(data);
        let mut all = self.spent.clone();
        all.extend(self.usage.clone());
        let hidden = !self.report.hidden.is_empty();
        let changed = self.leg > 0 || self.has_own_item || hidden || self.report.broken_up > 0;
        let now = ObjectOverrides {
            identity: (self.leg > 0).then_some(&self.identity),
            previous: self.previous.as_deref(),
            output: changed.then(|| self.output()),
            usage: usage::merged(&all).filter(|_| self.leg > 0 && self.usage.is_some()),
            offered: self.hide,
            completed: false,
        };
        let edits = response_object::edits(data, event.response.unwrap_or_default(), &now);
        self.send(raw, data, &event, edits, out);
    }

    /// An end of our own: made of the newest response object there is.
    pub(super) fn own_end(&mut self, next_input: u64, out: &mut Vec<Bytes>) {
        if self.object.is_none() {
            let object = own_message::made_up(self.opening.as_deref().unwrap_or_default());
            self.identity
                .take(object.as_bytes(), response_object::whole(object.as_bytes()));
            self.own_event("response.created", &format!(r#""response":{object}"#), out);
            self.object = Some(object);
        }
        self.say_opening(out);
        let mut all = self.spent.clone();
        all.extend(self.usage.clone());
        let now = ObjectOverrides {
            identity: Some(&self.identity),
            previous: self.previous.as_deref(),
            output: Some(self.output()),
            usage: Some(usage::stopped(&all, next_input)),
            offered: self.hide,
            completed: true,
        };
        let object = response_object::edited(self.object.as_deref().unwrap_or_default(), &now);
        self.own_event("response.completed", &format!(r#""response":{object}"#), out);
        self.end = None;
    }

    fn output(&self) -> String {
        let all: Vec<&str> = self
            .items
            .iter()
            .map(String::as_str)
            .filter(|i| !i.is_empty())
            .collect();
        format!("[{}]", all.join(","))
    }
}
