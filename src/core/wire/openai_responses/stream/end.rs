//! A leg's last event, and the response's.

use bytes::Bytes;

use super::super::event::{ResponsesEvent, event};
use super::super::own_message;
use super::super::response_object::{self, ObjectOverrides};
use super::super::usage::stopped;
use super::{OutputSlot, ResponsesStream};
use crate::text::json;
use crate::wire::DroppedThinking;
use crate::wire::leg::StopReason;
use crate::wire::leg_usage::ProviderUsage;
use crate::wire::openai::OpenaiUsage;

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
                let call = response_object::finished(data, response, &call, self.state.watch.buffered_bytes)
                    .unwrap_or(call);
                self.state.report.hidden.push(call);
            }
        }
        // A server that streams no items.
        let (hide, buffered_bytes) = (self.state.watch.hide, self.state.watch.buffered_bytes);
        if self.items.len() == self.earlier && self.state.report.hidden.is_empty() {
            self.items.extend(response_object::take_output(
                data,
                response,
                &mut self.state.report,
                |name| hide.find(name),
                buffered_bytes,
            ));
        }
        if let Some(id) = json::get_string(data, response, "id") {
            self.state.report.id = id.into_owned();
        }
        if let Some(usage) = response_object::usage(data, response) {
            self.usage.take(data, usage, &mut self.state.report);
        }
        self.state.report.stop = response_object::stop(data, response, !self.state.report.calls.is_empty());
        self.state.report.ended = true;
        self.state.report.served.take(data, response);
        self.state.report.dropped_thinking = DroppedThinking::of_member(data, response).unwrap_or_default();
        self.state.report.again =
            self.state.report.stop == StopReason::Error && self.state.leg > 0 && self.state.report.parts == 0;
        if self.state.leg == 0 {
            self.identity.take(data, response);
        }
        if self.state.report.stop != StopReason::Error {
            self.object = event.response.map(|r| r.text(data));
        }
        if self.state.holds() {
            self.end = Some((raw.clone(), data.to_vec()));
        } else {
            self.end_with(raw, data, out);
        }
    }

    /// The leg's own end, as the end of the whole response.
    pub(super) fn end_with(&mut self, raw: &Bytes, data: &[u8], out: &mut Vec<Bytes>) {
        let (event, _) = event(data);
        let hidden = !self.state.report.hidden.is_empty();
        let changed = self.state.leg > 0 || self.has_own_item || hidden || self.state.report.broken_up > 0;
        let now = ObjectOverrides {
            identity: (self.state.leg > 0).then_some(&self.identity),
            previous: self.previous.as_deref(),
            output: changed.then(|| self.output()),
            usage: OpenaiUsage::merged(&self.usage.all())
                .filter(|_| self.state.leg > 0 && self.usage.is_reported()),
            offered: self.state.watch.hide,
            completed: false,
        };
        let edits = response_object::edits(data, event.response.unwrap_or_default(), &now);
        self.send(raw, data, &event, edits, out);
    }

    /// An end of our own: made of the newest response object there is.
    pub(super) fn own_end(&mut self, next_input: u64, out: &mut Vec<Bytes>) {
        if self.object.is_none() {
            let object = own_message::made_up(self.state.opening.as_deref().unwrap_or_default());
            self.identity
                .take(object.as_bytes(), json::root(object.as_bytes()));
            self.own_event("response.created", &format!(r#""response":{object}"#), out);
            self.object = Some(object);
        }
        self.say_opening(out);
        let now = ObjectOverrides {
            identity: Some(&self.identity),
            previous: self.previous.as_deref(),
            output: Some(self.output()),
            usage: Some(stopped(&self.usage.all(), next_input)),
            offered: self.state.watch.hide,
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
