//! Billing data of a branch's requests that the cut decision depends on.

use std::time::Duration;

use super::PlannedRequest;
use crate::bill::{Rates, RequestCosts};
use crate::wire::View;

impl PlannedRequest<'_> {
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
