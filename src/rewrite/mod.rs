//! From the agent's request to what goes upstream: cut, hidden pairs, text given back, tool.
//!
//! Two steps, so that whoever calls can ask the store between them: `Reading` finds what might be ours,
//! `rewrite` applies what turned out to be. Both are pure. Knows a wire only by its trait, and no socket, store or clock.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod count;
mod cut;
pub mod flattened;
mod give_back;
pub mod left_out;
mod orphans;
mod pairs;
pub mod preamble;
mod reading;
#[cfg(test)]
mod straight;
mod texts;
pub mod untooled;

use bytes::Bytes;

pub use self::reading::{Candidate, Reading};
use crate::record::{HandoffId, HiddenPair};
use crate::text::Span;
use crate::text::splice::{self, Edit};
use crate::wire::Wire;
use crate::wire::view::View;

/// Where the transcript is cut.
#[derive(Debug, Clone, Copy)]
pub enum Cut<'a> {
    /// Nowhere.
    None,
    /// At a sentinel in it: `head`, then what follows.
    At {
        /// The sentinel.
        candidate: &'a Candidate,
        /// The handoff's prompt where the transcript showed it: what is left of it behind a sentinel that lost its
        /// closing line is not the model's work.
        prompt: Option<&'a str>,
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// In front of a turn: the answer that showed the sentinel was left out by the agent.
    Behind {
        /// The first turn that is kept.
        turn: usize,
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// Inside a text that holds a flattened transcript: a summary is asked for.
    Text {
        /// What goes.
        span: Span,
        /// What takes its place, as inside of a JSON string.
        with: &'a str,
    },
    /// In front of all that is not the system's: the request goes on from a response that ended with a
    /// handoff, and upstream's own memory of it is left behind (Responses).
    Before {
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// Behind its end: a leg that starts afresh.
    Fresh {
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
}

/// What to do to a request.
#[derive(Debug, Clone, Copy)]
pub struct Rewrite<'a> {
    /// The cut.
    pub cut: Cut<'a>,
    /// The tool's description as a JSON string literal, where the tool goes in.
    pub tool: Option<&'a str>,
    /// Hidden pairs that may have their place in the transcript.
    pub pairs: &'a [HiddenPair],
    /// Elements to append: the model is asked again.
    pub more: &'a [String],
    /// Upstream's id of the response that the request goes on from, where the agent knows another. A cut drops
    /// the reference.
    pub previous: Option<&'a str>,
    /// Tags by which a preamble is recognised, for counting.
    pub tags: &'a [String],
}

/// Why bytes were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// History before the active handoff gave way to preamble and carry-over prompt.
    Cut,
    /// A hidden pair was put back, or what stands in for one that is lost.
    Pair,
    /// A model's own text, broken up on its way down, was given back whole.
    GivenBack,
    /// The tool was added, with what it needs.
    Tool,
    /// The model is asked again behind a refused call.
    AskAgain,
    /// References to items of ours were taken out, of which upstream has never heard.
    Reference,
    /// The response that it goes on from has another name upstream, or was left behind.
    Previous,
    /// Only of a message, where a transcript is cut: what the agent's harness puts first, kept in front of the
    /// carry-over prompt.
    Preamble,
}

/// What one reason changed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Change {
    /// The reason.
    pub why: Why,
    /// Bytes that went.
    pub removed: usize,
    /// Bytes that came.
    pub added: usize,
    /// The handoff that a cut is at, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffId>,
}

impl Change {
    fn of(why: Why, edits: &[Edit]) -> Option<Self> {
        let removed = edits.iter().map(|e| e.span.len()).sum();
        let added = edits.iter().map(|e| e.with.len()).sum();
        (!edits.is_empty()).then_some(Self {
            why,
            removed,
            added,
            handoff: None,
        })
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The body to send.
    pub rope: Vec<Bytes>,
    /// Messages in the model's view behind the carry-over prompt; system messages and preamble not counted.
    pub messages: usize,
    /// Pairs that found their place, in the transcript's order.
    pub placed: Vec<uuid::Uuid>,
    /// Carry-over prompt and reason of a handoff that waits for the turn's end.
    pub pending: Option<(String, Option<String>)>,
    /// What was changed, by reason.
    pub changes: Vec<Change>,
}

impl Rewritten {
    /// The same, its cut named by the handoff that it is at.
    #[must_use]
    pub fn cut_at(mut self, handoff: Option<HandoffId>) -> Self {
        for change in self.changes.iter_mut().filter(|change| change.why == Why::Cut) {
            change.handoff = handoff;
        }
        self
    }
}

/// Rewrites a request. A rewrite that does nothing returns the same bytes.
pub fn rewrite(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> Rewritten {
    match listed(wire, reading, what) {
        Some(listed) => {
            let (found, cut) = (listed.candidates(wire), what.cut);
            let cut = match cut {
                Cut::At {
                    candidate,
                    prompt,
                    head,
                } => {
                    let again = found
                        .iter()
                        .find(|c| c.sentinel.id == candidate.sentinel.id || c.by_user && candidate.by_user);
                    again.map_or(Cut::Before { head }, |candidate| Cut::At {
                        candidate,
                        prompt,
                        head,
                    })
                }
                cut => cut,
            };
            rewrite_list(wire, &listed, &Rewrite { cut, ..*what })
        }
        None => rewrite_list(wire, reading, what),
    }
}

/// The request with its lone string made a list, where elements are to go into it.
fn listed(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> Option<Reading> {
    if matches!(what.cut, Cut::None | Cut::Text { .. }) && what.more.is_empty() {
        return None;
    }
    let edits = wire.listed(&reading.view);
    if edits.is_empty() {
        return None;
    }
    let body = splice::flat(splice::splice(&reading.view.body, edits));
    reading.again(wire, &body)
}

fn rewrite_list(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> Rewritten {
    let cut = cut::cut_edits(wire, &reading.view, what.cut);
    let mut placed = Vec::new();
    let mut changes: Vec<Change> = Change::of(Why::Cut, &cut).into_iter().collect();
    let with_asides = (!what.pairs.is_empty() && !matches!(what.cut, Cut::Fresh { .. }))
        .then(|| pairs::put_asides(wire, reading, &cut, what, &mut placed, &mut changes))
        .flatten();
    // Behind these edits the transcript is another one, and places in it are others.
    let settled = with_asides
        .as_ref()
        .map(|_| pairs::settled(wire, &reading.view, what));
    let pairs = settled.as_deref().unwrap_or(what.pairs);
    let what = &Rewrite { pairs, ..*what };
    let (reading, from) = match &with_asides {
        Some(again) => (again, 0),
        None => (reading, cut::kept_from(&reading.view, what.cut)),
    };
    let view = &reading.view;
    let mut edits = if with_asides.is_some() {
        Vec::new()
    } else {
        cut.clone()
    };
    let mut add = |why: Why, some: Vec<Edit>| {
        changes.extend(Change::of(why, &some));
        edits.extend(some);
    };
    let mut beside = Vec::new();
    let pending = pairs::put_besides(wire, view, what, from, &mut beside, &mut placed);
    if what.tool.is_some() {
        let repairs = wire.repairs(view, from, &beside);
        beside.extend(repairs);
    }
    add(Why::Pair, beside);
    add(Why::GivenBack, give_back::edits(wire, reading, from));
    add(Why::Reference, pairs::drop_references(reading, from));
    if let Some(description) = what.tool {
        let mut tool: Vec<Edit> = wire.tool(view, description).into_iter().collect();
        tool.extend(wire.companions(view));
        add(Why::Tool, tool);
    }
    add(Why::Previous, previous(wire, view, what));
    add(Why::AskAgain, more(view, what));
    let messages = count::messages(wire, reading, what, &cut, with_asides.is_some());
    Rewritten {
        rope: splice::splice(&view.body, edits),
        messages,
        placed,
        pending,
        changes,
    }
}

/// The earlier response by the name that upstream knows; a cut leaves it behind.
fn previous(wire: &dyn Wire, view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    match (what.cut, what.previous) {
        (Cut::None | Cut::Text { .. }, Some(id)) => wire.previous(view, Some(id)),
        (Cut::None | Cut::Text { .. }, None) => Vec::new(),
        _ => wire.previous(view, None),
    }
}

/// The elements to append.
fn more(view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    let empty = view.turns.is_empty() && matches!(what.cut, Cut::None);
    let comma = |i: usize| if empty && i == 0 { "" } else { "," };
    let elements = what.more.iter().enumerate();
    elements
        .map(|(i, element)| Edit::insert(view.list.end - 1, format!("{}{element}", comma(i))))
        .collect()
}
