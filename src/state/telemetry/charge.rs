//! The brake in an exchange's event: ledgers that it is charged to, budgets, and limits of the account.

use serde::{Deserialize, Serialize};

use super::{ExchangeEvent, ExchangeOutcome};
use crate::clock::millis;
use crate::prices::Prices;
use baton_core::bill::{PriceQuery, TokenCounts};
use baton_core::brake::{Account, BudgetUnit, MICRODOLLARS};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::record::{Amounts, EntryKind};
use baton_core::text::date::rfc3339;
use baton_core::wire::Usage;

/// Bytes of a stream per token of output, roughly: an event has some 130 to 250 bytes and one token or several.
const STREAMED_BYTES_PER_TOKEN: u64 = 64;

/// The ledgers that an exchange is charged to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Charge {
    pub principal: String,
    /// Keys of the ledgers' records.
    pub keys: Vec<String>,
    /// Key of the ledger of the client's subscription, if its use is limited.
    pub plan: Option<String>,
    /// Hash of the request, if it continues the agent's own work.
    pub request: Option<u64>,
    /// Whether the request only fetches a response, so that an earlier one was charged for the estimate of it.
    pub is_fetched: bool,
}

/// A budget and its use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// Owner of the budget: `session`, `day`, `directory` or `plan`.
    pub of: String,
    /// Unit: `dollars`, `tokens`, `calls`, `minutes`, or `share` from 0 to 1.
    pub unit: String,
    pub spent: f64,
    pub limit: f64,
    /// Next start of the budget, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens_ms: Option<u64>,
}

impl BudgetUse {
    /// Returns the budgets of accounts.
    pub fn of_accounts(accounts: &[Account]) -> Vec<Self> {
        let of_account = |account: &Account| {
            let budget = |unit: BudgetUnit| {
                Some(Self {
                    of: account.kind.name().to_owned(),
                    unit: unit.name().to_owned(),
                    spent: unit.in_full(account.spent(unit)),
                    limit: unit.in_full(account.limit(unit)?),
                    opens_ms: account.opens_ms(),
                })
            };
            BudgetUnit::ALL.into_iter().filter_map(budget).collect::<Vec<_>>()
        };
        accounts.iter().flat_map(of_account).collect()
    }

    /// Adds amounts that were spent since.
    pub fn add(&mut self, amounts: &Amounts) {
        let unit = BudgetUnit::ALL.into_iter().find(|unit| unit.name() == self.unit);
        self.spent += unit.map_or(0.0, |unit| unit.in_full(unit.amount(amounts)));
    }

    /// Returns the used share of the limit.
    pub fn share(&self) -> f64 {
        (self.spent / self.limit * 100.0).round() / 100.0
    }
}

/// A provider's refusal because of a limit of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderLimit {
    /// End of the refusal, in milliseconds since the Unix epoch, if the provider states it.
    pub opens_ms: Option<u64>,
}

impl ProviderLimit {
    /// Returns when the provider accepts requests again, or `unknown`.
    pub fn opens(self) -> String {
        self.opens_ms
            .map_or_else(|| "unknown".to_owned(), |opens| rfc3339(opens / 1_000))
    }
}

impl ExchangeEvent {
    /// Returns the entry for all legs of the exchange, including drafts: their tokens, their cost, and the number of
    /// legs without a price.
    ///
    /// `host` selects the prices. Returns `None` if no leg got a response.
    pub fn charged(&self, prices: &Prices, host: &str) -> Option<EntryKind> {
        let (mut amounts, mut unpriced) = (Amounts::default(), 0);
        for leg in 0..self.sent_bytes.len() {
            let Some(usage) = self.leg_usage(leg) else {
                continue;
            };
            let query = PriceQuery {
                host,
                ..self.price_query(leg)
            };
            // A subscription is not billed by tokens, so its legs count as legs without a price.
            let rates = prices.rates(&query).filter(|_| !self.subscription);
            match rates {
                Some(rates) => {
                    let dollars = TokenCounts::from(usage).cost(&rates).total();
                    amounts.microdollars += (dollars * MICRODOLLARS).ceil() as u64;
                }
                None => unpriced += 1,
            }
            amounts.tokens += usage.all_input() + usage.output;
            amounts.calls += u64::from(!self.is_fetched());
        }
        // Only complete responses count as repeats: agents repeat a failed request by themselves.
        let is_complete = self.outcome == ExchangeOutcome::Complete;
        let request = self.charge.as_ref().and_then(|charge| charge.request);
        (amounts != Amounts::default()).then_some(EntryKind::Spent {
            amounts,
            unpriced,
            request: request.filter(|_| is_complete),
        })
    }

    /// Returns the query for the price of a leg. Upstream bills the model that responded, which may differ from the
    /// requested one.
    pub(super) fn price_query(&self, leg: usize) -> PriceQuery<'_> {
        let served = self.served.get(leg).and_then(Option::as_ref);
        let answered = served.map(|served| served.model.as_str());
        let answered = answered.filter(|model| !model.is_empty());
        let model = answered.or(self.model.as_deref());
        PriceQuery {
            model: model.unwrap_or_default(),
            at_ms: millis(self.started),
            service: served.and_then(|served| served.service.as_deref()),
            ..PriceQuery::default()
        }
    }

    /// Returns the usage of a leg.
    ///
    /// If the response of the last leg reported none, or broke off, it is estimated from the sizes of request and stream.
    /// Other legs without usage count as not answered.
    fn leg_usage(&self, leg: usize) -> Option<Usage> {
        let reported = self.tokens.get(leg).copied().flatten();
        if let Some(usage) = reported.filter(|usage| usage.all_input() > 0) {
            let estimate = self.background_output(usage.all_input());
            let beyond = || Usage {
                output: usage.output.saturating_sub(estimate),
                ..Usage::default()
            };
            return Some(if self.is_fetched() { beyond() } else { usage });
        }
        let is_last = leg + 1 == self.sent_bytes.len();
        let is_answered =
            (200..400).contains(&self.status) && !matches!(self.outcome, ExchangeOutcome::InBandError);
        let sent = *self.sent_bytes.get(leg).filter(|_| is_last && is_answered)?;
        let reported = reported.unwrap_or_default();
        // An agent may leave before the last event, which states the usage.
        let is_open = self.streamed && self.outcome != ExchangeOutcome::Complete;
        let seen = self.response_bytes / STREAMED_BYTES_PER_TOKEN * u64::from(is_open);
        let input = (sent / BYTES_PER_TOKEN).max(1);
        Some(Usage {
            input,
            output: reported.output.max(self.background_output(input)).max(seen),
            ..reported
        })
    }

    /// Estimates the output of a background request, which upstream answers before any: its limit, or as much as its
    /// input.
    fn background_output(&self, input: u64) -> u64 {
        match self.background {
            None => 0,
            Some(0) => input,
            Some(limit) => limit,
        }
    }

    fn is_fetched(&self) -> bool {
        self.charge.as_ref().is_some_and(|charge| charge.is_fetched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices;

    /// A response in the background comes before any output, and reports no usage.
    #[test]
    fn a_response_without_usage_counts_as_its_estimate() {
        for (reported, background, tokens) in [
            (None, None, 100),
            (None, Some(0), 200),
            (None, Some(5_000), 5_100),
            (Some(Usage::default()), Some(5_000), 5_100),
            (
                Some(Usage {
                    input: 7,
                    output: 3,
                    ..Usage::default()
                }),
                Some(5_000),
                10,
            ),
        ] {
            let mut event = ExchangeEvent::new("x", "openai", "POST /v1/responses");
            event.status = 200;
            event.background = background;
            event.sent_bytes = vec![100 * BYTES_PER_TOKEN];
            event.tokens = vec![reported];
            let Some(EntryKind::Spent { amounts, .. }) = event.charged(&prices::table(None).unwrap(), "")
            else {
                panic!("nothing was charged");
            };
            assert_eq!(amounts.tokens, tokens, "{reported:?} {background:?}");
            // The agent leaves a stream before its end.
            event.outcome = ExchangeOutcome::Cancelled;
            event.streamed = true;
            event.response_bytes = 9_000 * STREAMED_BYTES_PER_TOKEN;
            let Some(EntryKind::Spent { amounts, .. }) = event.charged(&prices::table(None).unwrap(), "")
            else {
                panic!("nothing was charged");
            };
            let is_reported = reported.is_some_and(|usage| usage.input > 0);
            assert_eq!(amounts.tokens, if is_reported { tokens } else { 9_100 });
        }
    }
}
