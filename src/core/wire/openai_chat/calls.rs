//! Decides which calls of a stream belong to baton's tools.
//!
//! OpenAI names a call in its first delta. Compatible servers send the id first and the name later, split the
//! name, send whole calls, or give every call index 0 or none. A call's deltas are therefore buffered while
//! its name could still become that of a tool of baton. Nothing else is buffered.

use bytes::Bytes;

use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::wire::leg::{HiddenCall, LegReport};
use crate::wire::leg_state::LegState;

/// Calls of one leg, and the number of visible calls over all legs.
#[derive(Default)]
pub(super) struct LegCalls {
    slots: Vec<CallSlot>,
    /// Next call index of the agent.
    next: usize,
}

struct CallSlot {
    index: Option<u64>,
    id: String,
    state: CallState,
}

enum CallState {
    /// The name could still become that of a tool of baton. Contains the deltas so far.
    Undecided { name: String, buffered: Vec<String> },
    /// Visible with this index. `entry` is its position in `LegReport::calls`.
    Shown { index: usize, entry: usize },
    /// Hidden. Contains its position in `LegReport::hidden`.
    Hidden(usize),
}

/// Visible part of a `tool_calls` list.
pub(super) enum CallListFate {
    /// The whole list, with these edits.
    Shown(Vec<Edit>),
    /// Only these elements.
    Rebuilt(String),
    /// Nothing.
    Gone,
}

/// An element of `tool_calls` in a delta.
struct CallElement {
    span: Span,
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    custom: bool,
}

impl CallElement {
    fn read(data: &[u8], span: Span) -> Self {
        let custom = json::get(data, span, "custom").is_some_and(|c| data[c.start] == b'{');
        let function = json::get(data, span, "function").unwrap_or_default();
        Self {
            span,
            index: json::get_u64(data, span, "index"),
            id: json::get_owned(data, span, "id"),
            name: json::get_owned(data, function, "name"),
            arguments: arguments(data, function),
            custom,
        }
    }
}

/// Arguments of a call: the string, or the raw value that a non-conforming server sends instead.
fn arguments(data: &[u8], function: Span) -> String {
    match json::get(data, function, "arguments") {
        Some(v) if data[v.start] == b'"' => json::unescape(v.inner().of(data)).into_owned(),
        Some(v) if v.of(data) != b"null" => v.text(data),
        _ => String::new(),
    }
}

/// Reads a call of a complete reply. Positions count only calls, because content is a separate member on this
/// wire.
pub(super) fn whole(state: &mut LegState, data: &[u8], call: Span) {
    let [id, function] = json::pick(data, call, ["id", "function"]);
    let id = json::string_or_empty(data, id).into_owned();
    let function = function.unwrap_or_default();
    let after = state.report.calls.len();
    let name = json::get_string(data, function, "name");
    let Some(tool) = name.and_then(|name| state.ours(&name)) else {
        return state.report.calls.push((id, after));
    };
    let arguments = arguments(data, function);
    let mut hidden = HiddenCall::whole(id, tool, after, &arguments, state.watch.buffered_bytes);
    // Gemini refuses a call that returns without its signature, on this API as well.
    hidden.raw = Some(extras(data, call)).filter(|extras| !extras.is_empty());
    state.report.hidden.push(hidden);
}

/// Other members of a call's element that must be returned with it, such as Gemini's thought signature. Raw.
fn extras(data: &[u8], element: Span) -> String {
    let own: [&[u8]; 4] = [b"index", b"id", b"type", b"function"];
    let members = json::members(data, element);
    let members = members.iter();
    let others = members.filter(|(k, v)| !own.contains(&k.of(data)) && v.of(data) != b"null");
    let texts = others.map(|(k, v)| format!("\"{}\":{}", k.text(data), v.text(data)));
    texts.collect::<Vec<_>>().join(",")
}

impl LegCalls {
    /// Forgets the calls of a leg. Numbering continues.
    pub(super) fn next_leg(&mut self) {
        self.slots.clear();
    }

    /// Reads the `tool_calls` of a delta.
    pub(super) fn take(&mut self, data: &[u8], list: Span, state: &mut LegState) -> CallListFate {
        let mut shown = Vec::new();
        let mut rebuilt = false;
        for span in json::elements(data, list) {
            let element = CallElement::read(data, span);
            let slot = self.slot(&element);
            let released = self.follow(slot, &element, data, state);
            // A hidden or formerly buffered element changes the list, which is then written anew.
            rebuilt |= released.as_ref().is_none_or(|buffered| !buffered.is_empty());
            if let (Some(buffered), CallState::Shown { index, .. }) = (released, &self.slots[slot].state) {
                shown.push((buffered, span, *index));
            }
        }
        // Elements without an index stay so, unless the stream is numbered by baton.
        let number = state.leg > 0 || !state.report.hidden.is_empty();
        if !rebuilt {
            let shown = shown.iter();
            let edits = shown.filter_map(|(_, s, i)| index_edit(data, *s, *i, number));
            return CallListFate::Shown(edits.collect());
        }
        let all = shown.into_iter().flat_map(|(buffered, span, index)| {
            let elements = buffered.into_iter().chain([span.text(data)]);
            elements.map(move |e| numbered(&e, index, number))
        });
        match all.collect::<Vec<_>>().join(",") {
            all if all.is_empty() => CallListFate::Gone,
            all => CallListFate::Rebuilt(format!("[{all}]")),
        }
    }

    /// Finds or creates the slot of an element's call.
    fn slot(&mut self, element: &CallElement) -> usize {
        let found = match element.index {
            // Several calls may share an index; the last one is current.
            Some(i) => self.slots.iter().rposition(|s| s.index == Some(i)),
            // Without index and id, the element continues the last call.
            None if element.id.is_empty() => self.slots.len().checked_sub(1),
            None => self.slots.iter().rposition(|s| s.id == element.id),
        };
        let last = self.slots.len().checked_sub(1);
        // A new id without a name continues the same call; with a name it begins another one.
        let found = found.or(last.filter(|_| element.index.is_none() && element.name.is_empty()));
        if let Some(i) = found.filter(|i| !self.slots[*i].is_other(element)) {
            return i;
        }
        self.slots.push(CallSlot {
            index: element.index,
            id: element.id.clone(),
            state: CallState::Undecided {
                name: String::new(),
                buffered: Vec::new(),
            },
        });
        self.slots.len() - 1
    }

    /// Advances a call by one element. Returns `None` while the element must be withheld, or else the
    /// buffered elements to show before it.
    fn follow(
        &mut self,
        slot: usize,
        element: &CallElement,
        data: &[u8],
        state: &mut LegState,
    ) -> Option<Vec<String>> {
        let slot = &mut self.slots[slot];
        if slot.id.is_empty() {
            slot.id.clone_from(&element.id);
        }
        match &mut slot.state {
            CallState::Shown { entry, .. } => {
                // The id may arrive late.
                if let Some(call) = state.report.calls.get_mut(*entry).filter(|c| c.0.is_empty()) {
                    call.0.clone_from(&slot.id);
                }
                return Some(Vec::new());
            }
            CallState::Hidden(at) => {
                if let Some(call) = state.report.hidden.get_mut(*at) {
                    collect(call, element, data, &slot.id, state.watch.buffered_bytes);
                }
                return None;
            }
            CallState::Undecided { .. } => {}
        }
        slot.decide(element, data, &mut self.next, state)
    }

    /// Ends the calls of a leg. Undecided ones belong to the agent, and their elements are returned to be
    /// shown.
    pub(super) fn flush(&mut self, state: &mut LegState) -> Option<String> {
        let number = state.leg > 0 || !state.report.hidden.is_empty();
        let mut all = Vec::new();
        for slot in &mut self.slots {
            // The name is a mere beginning of a tool's name, so the call is the agent's.
            if matches!(slot.state, CallState::Undecided { .. }) {
                let buffered = slot.show(&mut self.next, &mut state.report);
                let CallState::Shown { index, .. } = slot.state else {
                    continue;
                };
                all.extend(buffered.iter().map(|e| numbered(e, index, number)));
            }
        }
        (!all.is_empty()).then(|| all.join(","))
    }
}

impl CallSlot {
    /// Whether an element with this call's index begins another call, as with servers that number every call
    /// 0.
    fn is_other(&self, element: &CallElement) -> bool {
        let decided = !matches!(self.state, CallState::Undecided { .. });
        let renamed = !element.id.is_empty() && !self.id.is_empty() && element.id != self.id;
        let unnumbered = element.index.is_none() && element.id.is_empty();
        decided && !element.name.is_empty() && (renamed || unnumbered)
    }

    fn decide(
        &mut self,
        element: &CallElement,
        data: &[u8],
        next: &mut usize,
        state: &mut LegState,
    ) -> Option<Vec<String>> {
        let CallState::Undecided { name, buffered } = &mut self.state else {
            return None;
        };
        name.push_str(&element.name);
        // Tools of baton are functions, never custom tools.
        if let Some(tool) = state.watch.hide.find(name).filter(|_| !element.custom) {
            let mut call = HiddenCall {
                tool,
                after: state.report.calls.len(),
                ..HiddenCall::default()
            };
            for before in buffered.iter() {
                let text = before.as_bytes();
                let earlier = CallElement::read(text, Span::new(0, text.len()));
                collect(&mut call, &earlier, text, &self.id, state.watch.buffered_bytes);
            }
            collect(&mut call, element, data, &self.id, state.watch.buffered_bytes);
            state.report.hidden.push(call);
            self.state = CallState::Hidden(state.report.hidden.len() - 1);
            return None;
        }
        let may_be = state.watch.hide.may_become(name);
        // A name that is followed by arguments is complete.
        if may_be && !element.custom && element.arguments.is_empty() {
            buffered.push(element.span.text(data));
            return None;
        }
        Some(self.show(next, &mut state.report))
    }

    /// Makes the call visible. Returns its buffered elements.
    fn show(&mut self, next: &mut usize, report: &mut LegReport) -> Vec<String> {
        let shown = CallState::Shown {
            index: *next,
            entry: report.calls.len(),
        };
        // SDKs fail at a gap in the indexes, so hidden calls take none.
        *next += 1;
        // Positions count only calls, because content is a separate member on this wire.
        report.calls.push((self.id.clone(), report.calls.len()));
        report.parts += 1;
        match std::mem::replace(&mut self.state, shown) {
            CallState::Undecided { buffered, .. } => buffered,
            _ => Vec::new(),
        }
    }
}

fn collect(call: &mut HiddenCall, element: &CallElement, data: &[u8], id: &str, limit: usize) {
    if call.id.is_empty() {
        id.clone_into(&mut call.id);
    }
    call.collect(&element.arguments, limit);
    let extras = extras(data, element.span);
    if !extras.is_empty() && call.raw.is_none() {
        call.raw = Some(extras);
    }
}

/// Returns the edit that gives an element the index `shown`. An element without an index gets one only if
/// `number` is set.
fn index_edit(data: &[u8], element: Span, shown: usize, number: bool) -> Option<Edit> {
    let Some(index) = json::get(data, element, "index") else {
        return number.then(|| Edit::insert(element.start + 1, format!(r#""index":{shown},"#)));
    };
    let same = json::number(index.of(data)) == Some(shown as u64);
    (!same).then(|| Edit::replace(index, shown.to_string()))
}

fn numbered(element: &str, shown: usize, number: bool) -> String {
    let data = element.as_bytes();
    let Some(edit) = index_edit(data, Span::new(0, data.len()), shown, number) else {
        return element.to_owned();
    };
    let edited = splice::edited(&Bytes::copy_from_slice(data), vec![edit]);
    String::from_utf8_lossy(&edited).into_owned()
}
