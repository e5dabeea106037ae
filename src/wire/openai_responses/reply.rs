//! Responses replies in one piece: read, joined, and told back to the model.

use bytes::Bytes;

use super::back;
use super::echo::{self, Identity, Now};
use super::own::OwnMessage;
use super::usage;
use crate::record::HiddenPair;
use crate::text::splice;
use crate::text::{Span, json};
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
        .map(|text| OwnMessage::new(text, "", phase).done())
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
            items.push(OwnMessage::new(text, &leg.report.id, phase).done());
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

/// The model's own items, as it said them, our calls behind them, then the results.
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
    if !pairs.iter().all(|p| items.iter().any(|i| answers(i, p))) {
        return None;
    }
    let known = stored || items.iter().all(|i| resendable(i));
    let ours = |item: &String| echo::is_ours(item.as_bytes(), echo::whole(item.as_bytes()));
    let items: Vec<String> = items.into_iter().filter(|i| !ours(i)).collect();
    let last_thought = items.iter().rposition(|i| is_reasoning(i));
    let others = items
        .into_iter()
        .enumerate()
        .filter(|(_, i)| known || resendable(i));
    let mut all: Vec<String> = others
        .map(|(at, item)| {
            // Reasoning that cannot be sent, or that our call followed: an id without it, or in its place, is refused.
            let bare = !known || last_thought.is_some_and(|thought| at > thought);
            if bare {
                json::without(&item, "id").into_owned()
            } else {
                item
            }
        })
        .collect();
    let calls = pairs.iter().map(|p| match known {
        true => p.call.clone(),
        false => json::without(&p.call, "id").into_owned(),
    });
    all.extend(calls);
    all.extend(pairs.iter().map(back::result));
    Some(all.join(","))
}

fn is_reasoning(item: &str) -> bool {
    json::get_string(item.as_bytes(), echo::whole(item.as_bytes()), "type").is_some_and(|t| t == "reasoning")
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
    !is_reasoning(item) || json::get_string(text, whole, "encrypted_content").is_some_and(|e| !e.is_empty())
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
