//! Sends events on to the agent: under its own indexes of items and its own numbers.

use super::super::event::{ResponsesEvent, number};
use super::{OutputSlot, ResponsesDialect};
use crate::text::splice::Edit;
use crate::wire::leg_state::{Frame, LegState};
use crate::wire::sse;

impl ResponsesDialect {
    /// The agent's index of an item, given now where it is new.
    pub(super) fn slot(&mut self, state: &mut LegState, index: u64) -> usize {
        let known = self.leg.slots.iter().find_map(|(i, slot)| match slot {
            OutputSlot::Shown(shown) if *i == index => Some(*shown),
            _ => None,
        });
        known.unwrap_or_else(|| {
            let shown = self.items.len();
            self.items.push(String::new());
            state.report.parts += 1;
            self.leg.slots.push((index, OutputSlot::Shown(shown)));
            shown
        })
    }

    /// Sends an event of ours, whose members each have a comma in front.
    pub(super) fn own_event(&mut self, state: &mut LegState, kind: &str, members: &str) {
        let n = self.sequence.of_ours();
        let data = format!(r#"{{"type":"{kind}"{members},"sequence_number":{n}}}"#);
        state.out.push(sse::named(kind, &data));
    }

    /// Sends an event on: as it is, or with its numbers moved and its edits made.
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
            let shown = self.slot(state, index);
            edits.extend((shown as u64 != index).then(|| Edit::replace(span, shown.to_string())));
        }
        state.out.push(frame.edited(edits));
    }
}
