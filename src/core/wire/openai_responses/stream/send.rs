//! Sends events on to the agent: under its own indexes of items and its own numbers.

use bytes::Bytes;

use super::super::event::{ResponsesEvent, number};
use super::{OutputSlot, ResponsesStream};
use crate::text::splice::Edit;
use crate::wire::sse;

impl ResponsesStream {
    /// The agent's index of an item, given now where it is new.
    pub(super) fn slot(&mut self, index: u64) -> usize {
        let known = self.slots.iter().find_map(|(i, slot)| match slot {
            OutputSlot::Shown(shown) if *i == index => Some(*shown),
            _ => None,
        });
        known.unwrap_or_else(|| {
            let shown = self.items.len();
            self.items.push(String::new());
            self.state.report.parts += 1;
            self.slots.push((index, OutputSlot::Shown(shown)));
            shown
        })
    }

    pub(super) fn own_event(&mut self, kind: &str, members: &str, out: &mut Vec<Bytes>) {
        let n = self.sequence.of_ours();
        let data = format!(r#"{{"type":"{kind}",{members},"sequence_number":{n}}}"#);
        out.push(sse::named(kind, &data));
    }

    /// Sends an event on: as it is, or with its numbers moved and its edits made.
    pub(super) fn send(
        &mut self,
        raw: &Bytes,
        data: &[u8],
        event: &ResponsesEvent,
        mut edits: Vec<Edit>,
        out: &mut Vec<Bytes>,
    ) {
        if let Some(span) = event.sequence {
            let given = number(data, event.sequence);
            let shown = self.sequence.of_given(given);
            if given != shown {
                edits.push(Edit::replace(span, shown.to_string()));
            }
        }
        edits.extend(self.index_edit(data, event));
        out.push(sse::edited(raw, data, edits));
    }

    /// The edit that moves an event to the agent's index of its item.
    pub(super) fn index_edit(&mut self, data: &[u8], event: &ResponsesEvent) -> Option<Edit> {
        let span = event.index?;
        let index = number(data, event.index);
        let shown = self.slot(index);
        (shown as u64 != index).then(|| Edit::replace(span, shown.to_string()))
    }
}
