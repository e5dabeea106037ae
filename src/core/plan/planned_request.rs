//! A planned request: the input for building upstream requests and for choosing the responder.

use super::call::CallFacts;
use super::{CutTarget, InsertionPoints, Policy, ToolOffer, is_agent_loop, is_model_call, resends};
use crate::bill::{Rates, RequestCosts};
use crate::record::{HandoffId, ResponseOrigin};
use crate::rewrite::RequestReading;
use crate::rewrite::untooled::ToolOmission;
use crate::transcript::Transcript;
use crate::wire::{Role, Turn, View};
use std::time::Duration;

/// A planned request.
#[derive(Clone, Copy)]
pub struct PlannedRequest<'a> {
    pub reading: &'a RequestReading,
    pub call: CallFacts,
    pub pin: &'a CutTarget,
    pub places: &'a InsertionPoints,
    pub offer: &'a ToolOffer,
    pub policy: Policy<'a>,
}

impl PlannedRequest<'_> {
    /// Whether the conversation may be cut before the response to this request.
    ///
    /// The request must be of an agent's loop, the model must have no unanswered call, and the response must
    /// be able to show a sentinel.
    pub fn is_safe_point(&self) -> bool {
        let view = &self.reading.view;
        let facts = &view.facts;
        is_model_call(self.call.operation)
            && view.tools.is_some_and(|tools| tools.client)
            && !(self.call.side_call || facts.structured || facts.many || facts.server_side)
            // The request's header rules out every handoff, whoever begins it.
            && self.call.forbidden != Some(ToolOmission::OffByHeader)
            && self.is_at_rest()
    }

    /// Whether the turn may end here without the model: the agent's own loop sent the request with its whole history, and no
    /// call is unanswered.
    pub fn may_end_here(&self) -> bool {
        let (view, call) = (&self.reading.view, &self.call);
        let is_special = call.side_call || view.facts.structured || view.facts.many;
        is_agent_loop(view, call.operation) && !is_special && resends(view) && self.is_at_rest()
    }

    /// Stored origin of a response that baton generates: the handoff it follows, or the previous response.
    ///
    /// `None` if the agent sends its whole history with each request, and never continues by an id.
    pub fn answer_origin(&self, handoff: Option<HandoffId>) -> Option<String> {
        let view = &self.reading.view;
        if resends(view) {
            return None;
        }
        Some(match (handoff, &self.pin.previous, &view.facts.previous) {
            (Some(handoff), ..) => ResponseOrigin::Handoff(handoff).written(),
            (None, Some(origin), _) => origin.written(),
            (None, None, Some(previous)) => previous.id.clone(),
            (None, None, None) => String::new(),
        })
    }

    /// Whether every tool call in the model's last turn has a result, so that only the last message is
    /// pending.
    fn is_at_rest(&self) -> bool {
        let view = &self.reading.view;
        let of_model = |turn: &Turn| turn.role == Role::Assistant;
        let mut back = view.turns.iter().rev();
        // A request that ends with the model's own turn continues that turn (prefill).
        let last = back.find(|turn| !matches!(turn.role, Role::System | Role::Tools));
        if last.is_none_or(of_model) {
            return false;
        }
        let Some(end) = view.turns.iter().rposition(of_model) else {
            return true;
        };
        // The model's last message may consist of several turns.
        let before = view.turns[..end].iter().rposition(|turn| !of_model(turn));
        let begin = before.map_or(0, |before| before + 1);
        let uses = Transcript::from_view(view).tool_uses();
        let mut last = uses.iter().filter(|call| call.turn >= begin);
        last.all(|call| call.answer.is_some())
    }

    /// Returns the billing data of this request. For `limit` and `lifetime` see [`RequestCosts`].
    pub fn costs(
        &self,
        rates: Rates,
        limit: Option<u64>,
        lifetime: Option<Duration>,
        at_ms: u64,
    ) -> RequestCosts {
        let view = &self.reading.view;
        let lifetime = lifetime.map(|lifetime| lifetime.as_millis());
        RequestCosts {
            rates,
            model: self.model().to_owned(),
            effort: view.effort(),
            at_ms,
            fixed_bytes: fixed_bytes(view),
            limit,
            lifetime_ms: lifetime.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        }
    }
}

/// Bytes outside the turns, and of the system turns before them.
fn fixed_bytes(view: &View) -> u64 {
    let leading = view.turns[..view.leading()].iter();
    let leading: usize = leading.map(|turn| turn.span.len()).sum();
    // Leading system turns stay after a cut, like the system prompt of other wires.
    (view.body.len() - view.list.len() + leading) as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::WireId;
    use crate::wire::{Operation, wire};

    #[test]
    fn what_stands_beside_the_work_is_fixed() {
        let chat = |system: &str, work: &str| {
            let messages = json!([{"role": "system", "content": system}, {"role": "user", "content": work}]);
            let body = json!({"model": "m", "messages": messages}).to_string();
            let view = wire(WireId::OpenaiChat)
                .read(&body.into(), Operation::Generate)
                .unwrap();
            fixed_bytes(&view)
        };
        let short = chat("s", "w");
        assert_eq!(chat("s", &"w".repeat(100)), short, "the work does not count");
        assert_eq!(
            chat(&"s".repeat(100), "w"),
            short + 99,
            "a leading system turn does"
        );
        let anthropic = json!({"model": "m", "max_tokens": 9, "system": "s".repeat(50), "messages": [{"role": "user", "content": "w"}]});
        let body = anthropic.to_string();
        let view = wire(WireId::Anthropic)
            .read(&body.clone().into(), Operation::Generate)
            .unwrap();
        assert_eq!(fixed_bytes(&view), (body.len() - view.list.len()) as u64);
    }
}
