//! Responses replies in one piece: read, and joined.

use super::OpenaiResponses;
use bytes::Bytes;

use super::own_message::OwnMessage;
use super::response_object::{self, ObjectOverrides, ResponseIdentity};
use super::usage;
use crate::text::json;
use crate::text::splice;
use crate::tools::ToolNames;
use crate::wire::leg::LegReport;
use crate::wire::leg_usage::ProviderUsage;
use crate::wire::openai::OpenaiUsage;
use crate::wire::served::ServedBy;
use crate::wire::{DroppedThinking, Ending, Leg, Replies, ResponseWatch, View};

impl Replies for OpenaiResponses {
    fn reply(&self, body: &Bytes, watch: ResponseWatch) -> Option<LegReport> {
        let response = json::whole(body).ok()?;
        // Any other value in its place cannot be extended.
        json::get(body, response, "output").filter(|o| body[o.start] == b'[')?;
        let mut report = LegReport {
            id: json::get_string(body, response, "id")?.into_owned(),
            usage: OpenaiUsage::read(body, response_object::usage(body, response)).usage(),
            ended: true,
            served: ServedBy::of(body, response),
            dropped_thinking: DroppedThinking::of_member(body, response).unwrap_or_default(),
            ..LegReport::default()
        };
        let hide = |name: &str| watch.hide.find(name);
        response_object::take_output(body, response, &mut report, hide, watch.buffered_bytes);
        report.stop = response_object::stop(body, response, !report.calls.is_empty());
        Some(report)
    }

    fn join(&self, legs: &[Leg], opening: Option<&str>, ending: Ending) -> Bytes {
        let (Some(first), Some(last)) = (legs.first(), legs.last()) else {
            return Bytes::new();
        };
        let mut identity = ResponseIdentity::default();
        identity.take(&first.body, json::root(&first.body));
        let (mut all, mut phase) = (Vec::new(), false);
        let mut items: Vec<String> = opening
            .map(|text| OwnMessage::new(text, "", phase).done())
            .into_iter()
            .collect();
        for leg in legs {
            let response = json::root(&leg.body);
            phase |= response_object::output(&leg.body, response)
                .into_iter()
                .any(|item| response_object::has_phase(&leg.body, item));
            let hide = |name: &str| {
                let mut ours = leg.report.hidden.iter().map(|call| call.tool);
                ours.find(|tool| *tool == name)
            };
            let mut again = LegReport::default();
            items.extend(response_object::take_output(
                &leg.body, response, &mut again, hide, 0,
            ));
            if let Some(text) = &leg.then {
                items.push(OwnMessage::new(text, &leg.report.id, phase).done());
            }
            let usage = response_object::usage(&leg.body, response);
            all.extend(usage.map(|usage| OpenaiUsage::read(&leg.body, Some(usage))));
        }
        let later = legs.len() > 1;
        let changed = later
            || opening.is_some()
            || last.then.is_some()
            || legs
                .iter()
                .any(|l| l.report.broken_up > 0 || !l.report.hidden.is_empty());
        let stopped = ending.next_input();
        let now = ObjectOverrides {
            identity: later.then_some(&identity),
            previous: None,
            output: changed.then(|| format!("[{}]", items.join(","))),
            usage: match stopped {
                Some(next_input) => Some(usage::stopped(&all, next_input)),
                None => OpenaiUsage::merged(&all).filter(|_| later),
            },
            offered: match later || legs.iter().any(|l| !l.report.hidden.is_empty()) {
                true => ToolNames::HANDOFF,
                false => ToolNames::NONE,
            },
            completed: stopped.is_some(),
        };
        let body = &last.body;
        let edits = response_object::edits(body, json::root(body), &now);
        splice::edited(body, edits)
    }

    /// The reply without our tool, and with the `previous_response_id` that the agent knows.
    fn shaped_for(&self, view: &View, reply: Bytes) -> Bytes {
        let literal = view.facts.previous.as_ref().map(|p| json::quote(&p.id));
        let now = ObjectOverrides {
            previous: literal.as_deref(),
            offered: match view.tools {
                Some(tools) if !tools.taken && view.facts.ours.any() => view.facts.ours,
                Some(tools) if !tools.taken => ToolNames::HANDOFF,
                _ => ToolNames::NONE,
            },
            ..ObjectOverrides::default()
        };
        let edits = response_object::edits(&reply, json::root(&reply), &now);
        splice::edited(&reply, edits)
    }
}
