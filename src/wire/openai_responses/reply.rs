//! Responses replies in one piece: read, joined, and told back to the model.

use bytes::Bytes;

use super::back;
use super::echo::{self, Identity, Now};
use super::own::OwnMessage;
use super::usage;
use crate::handoff::record::HiddenPair;
use crate::json::{self, Span};
use crate::splice;
use crate::wire::leg::LegReport;
use crate::wire::{Ending, Leg, Spoken, View, Watch, sse};

pub(super) fn read(body: &Bytes, watch: Watch) -> Option<LegReport> {
    let response = json::whole(body).ok()?;
    // Whatever else stands in its place, nothing can be put into it.
    json::get(body, response, "output").filter(|o| body[o.start] == b'[')?;
    let mut report = LegReport {
        id: json::get_string(body, response, "id")?.into_owned(),
        usage: usage::of(body, response)
            .map(|u| usage::read(&u))
            .unwrap_or_default(),
        ended: true,
        ..LegReport::default()
    };
    echo::take_output(body, response, &mut report, watch);
    report.stop = echo::stop(body, response, !report.calls.is_empty());
    Some(report)
}

pub(super) fn join(legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes {
    let (Some(first), Some(last)) = (legs.first(), legs.last()) else {
        return Bytes::new();
    };
    let mut identity = Identity::default();
    identity.take(&first.body, echo::whole(&first.body));
    let (mut all, mut phase) = (Vec::new(), false);
    let mut items: Vec<String> = opening
        .map(|text| OwnMessage::new(text, 0, phase).done())
        .into_iter()
        .collect();
    for leg in legs {
        let response = echo::whole(&leg.body);
        phase |= echo::output(&leg.body, response)
            .into_iter()
            .any(|item| echo::has_phase(&leg.body, item));
        let watch = Watch {
            hide: !leg.report.hidden.is_empty(),
            held_bytes: 0,
        };
        let mut again = LegReport::default();
        items.extend(echo::take_output(&leg.body, response, &mut again, watch));
        if let Some(text) = &leg.then {
            items.push(OwnMessage::new(text, items.len(), phase).done());
        }
        all.extend(usage::of(&leg.body, response));
    }
    let later = legs.len() > 1;
    let changed = later
        || opening.is_some()
        || last.then.is_some()
        || legs
            .iter()
            .any(|l| l.report.broken_up > 0 || !l.report.hidden.is_empty());
    let stopped = match ending {
        Ending::Own | Ending::WithoutCall => None,
        Ending::Stopped { next_input } | Ending::Lost { next_input } => Some(next_input),
    };
    let now = Now {
        identity: later.then_some(&identity),
        previous: None,
        output: changed.then(|| format!("[{}]", items.join(","))),
        usage: match stopped {
            Some(next_input) => Some(usage::stopped(&all, next_input)),
            None => usage::merged(&all).filter(|_| later),
        },
        offered: later || legs.iter().any(|l| !l.report.hidden.is_empty()),
        completed: stopped.is_some(),
    };
    let body = &last.body;
    let edits = echo::edits(body, echo::whole(body), &now);
    splice::flat(splice::splice(body, edits))
}

/// The reply without our tool, and with the `previous_response_id` that the agent knows.
pub(super) fn as_asked(view: &View, reply: Bytes) -> Bytes {
    let literal = view.facts.previous.as_ref().map(|p| json::quote(&p.id));
    let now = Now {
        previous: literal.as_deref(),
        offered: view.tools.is_some_and(|t| !t.taken),
        ..Now::default()
    };
    let edits = echo::edits(&reply, echo::whole(&reply), &now);
    splice::flat(splice::splice(&reply, edits))
}

/// The model's own items, as it said them, then the results of its calls.
pub(super) fn ask_again(spoken: &Spoken, pairs: &[HiddenPair]) -> Option<String> {
    let (items, stored) = match spoken {
        Spoken::Reply(body) => {
            let response = json::whole(body).ok()?;
            let items = echo::output(body, response);
            let items: Vec<String> = items.into_iter().map(|i| echo::raw(body, i)).collect();
            (items, stored(body, response))
        }
        Spoken::Stream(frames) => told(frames),
    };
    let known = stored || items.iter().all(|i| resendable(i));
    let mut all: Vec<String> = items
        .into_iter()
        .filter_map(|i| canonical(i, pairs))
        .filter(|i| known || resendable(i))
        .map(|i| match known {
            true => i,
            // Its reasoning cannot be sent, and an id without it is refused.
            false => json::without(&i, "id").into_owned(),
        })
        .collect();
    if !pairs.iter().all(|p| all.iter().any(|i| answers(i, p))) {
        return None;
    }
    all.extend(pairs.iter().map(back::result));
    Some(all.join(","))
}

fn answers(item: &str, pair: &HiddenPair) -> bool {
    let text = item.as_bytes();
    json::get_string(text, echo::whole(text), "call_id").is_some_and(|id| id == pair.call_id)
}

/// Whether the provider keeps the response's items, so that they can be named by id.
fn stored(text: &[u8], response: Span) -> bool {
    json::get(text, response, "store").is_none_or(|s| s.of(text) != b"false")
}

/// Reasoning that the provider does not keep can be sent back only where it is encrypted.
fn resendable(item: &str) -> bool {
    let text = item.as_bytes();
    let whole = echo::whole(text);
    json::get_string(text, whole, "type").is_none_or(|t| t != "reasoning")
        || json::get_string(text, whole, "encrypted_content").is_some_and(|e| !e.is_empty())
}

/// Our call as it will be put back on every later request; others of ours in the same response are left out.
fn canonical(item: String, pairs: &[HiddenPair]) -> Option<String> {
    let text = item.as_bytes();
    if !echo::is_ours(text, echo::whole(text)) {
        return Some(item);
    }
    pairs.iter().find(|p| answers(&item, p)).map(|p| p.call.clone())
}

/// Finished items from the frames that streamed them, and whether the provider keeps them.
fn told(frames: &[Bytes]) -> (Vec<String>, bool) {
    let (mut items, mut kept) = (Vec::new(), true);
    for frame in frames {
        let data = sse::data(frame);
        let whole = echo::whole(&data);
        if let Some(response) = json::get(&data, whole, "response") {
            kept = stored(&data, response);
        }
        let done = json::get_string(&data, whole, "type").is_some_and(|t| t == "response.output_item.done");
        if let Some(item) = json::get(&data, whole, "item").filter(|_| done) {
            items.push(echo::raw(&data, item));
        }
    }
    (items, kept)
}
