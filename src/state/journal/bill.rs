//! The bill over the journal: each exchange with its cost, and its estimated cost without baton.
//!
//! A conversation is always read from its first exchange, even if only a part is requested: the cost without
//! baton depends on everything before.

use rusqlite::{Row as SqlRow, params};
use serde::Serialize;

use super::query::JournalReader;
use super::row::{LegDetail, LegResponse, json, legs, size_of};
use super::schema::JournalResult;
use crate::telemetry::ExchangeFacts;
use baton_core::bill::{
    BilledExchange, BilledRequest, ConversationBill, ExchangeBill, PriceQuery, PriceTable, TokenCounts,
};
use baton_core::nudge::{ShadowMoment, Windows, compaction_point};

/// Selects the exchanges to bill.
#[derive(Debug, Clone, Default)]
pub struct BillFilter {
    /// Conversation to bill. `None` bills all.
    pub conversation: Option<String>,
    /// Earliest beginning, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// Line of the bill for one exchange. The field names are part of the API.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BillEntry {
    /// Id of the exchange.
    pub id: String,
    /// Key of its conversation.
    pub conversation: Option<String>,
    /// When the exchange began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Model that responded. The requested model if upstream does not name one.
    pub model: Option<String>,
    /// Name of the client, or `local`.
    pub client: Option<String>,
    /// Name and version of the agent.
    pub agent: Option<String>,
    /// Handoff that fired in the exchange, or that cut its history.
    pub handoff: Option<String>,
    /// Whether a subscription paid for the exchange, so its tokens have no price.
    pub subscription: bool,
    /// Token counts reported by the provider, over all requests of the exchange.
    pub tokens: TokenCounts,
    /// Cost in dollars. `None` if a price is unknown.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub cost: Option<f64>,
    /// Estimated token counts without baton.
    pub without_tokens: Option<TokenCounts>,
    /// Estimated cost without baton, in dollars.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub without_cost: Option<f64>,
    /// Savings, `without_cost - cost`. Negative if baton cost more than it saved.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub saved: Option<f64>,
    /// Expected error of `saved`, in dollars.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub saved_error: Option<f64>,
    /// Whether the agent would have had to compact its history first.
    pub compacted: bool,
    /// Change that shadow mode would have made here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowMoment>,
}

/// Columns of an exchange, in query order.
pub(super) struct BilledRow {
    seq: i64,
    head: i64,
    entry: BillEntry,
    event: ExchangeFacts,
    received_bytes: u64,
}

impl JournalReader {
    /// Counts the requests that the brake did not send. They are not in the bill, because they cost nothing.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn stopped(&self, filter: &BillFilter) -> JournalResult<u64> {
        let sql = "SELECT COUNT(*) FROM exchanges WHERE at_ms >= ?1 AND (?2 IS NULL OR conversation = ?2)
                   AND json_valid(event) AND json_extract(event, '$.brake') LIKE 'stopped%'";
        let parameters = params![filter.since_ms, filter.conversation];
        Ok(self.conn.query_row(sql, parameters, |row| row.get(0))?)
    }

    /// Returns the bill, oldest exchange first within each conversation. Exchanges of one conversation are
    /// adjacent.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn bill(&self, filter: &BillFilter, prices: &PriceTable) -> JournalResult<Vec<BillEntry>> {
        let mut bill = Vec::new();
        let mut running: (Option<String>, ConversationBill) = Default::default();
        self.each_billed(filter.conversation.as_deref(), prices, |row, exchange| {
            let (key, conversation) = &mut running;
            // An exchange without a conversation has no history to compare with, so each one starts a new
            // bill.
            if row.entry.conversation.is_none() || *key != row.entry.conversation {
                (*key, *conversation) = (row.entry.conversation.clone(), ConversationBill::default());
            }
            let added = conversation.add(&exchange);
            if row.entry.at_ms >= filter.since_ms && added != ExchangeBill::default() {
                bill.push(row.entry(&exchange, &added));
            }
        })?;
        Ok(bill)
    }

    /// Calls `each` for every billed exchange, of one conversation or of all, oldest first within a
    /// conversation.
    pub(super) fn each_billed(
        &self,
        conversation: Option<&str>,
        prices: &PriceTable,
        mut each: impl FnMut(BilledRow, BilledExchange),
    ) -> JournalResult<()> {
        let mut ask = self.conn.prepare_cached(
            "SELECT seq, id, conversation, at_ms, model, principal, received_bytes, head, event FROM exchanges
             WHERE (?1 IS NULL OR conversation = ?1) AND (call IS NULL OR call <> 'count')
             ORDER BY conversation, seq",
        )?;
        let mut rows = ask.query(params![conversation])?;
        while let Some(row) = rows.next()? {
            let row = BilledRow::read(row)?;
            let exchange = self.billed_exchange(&row, prices)?;
            each(row, exchange);
        }
        Ok(())
    }

    fn billed_exchange(&self, row: &BilledRow, prices: &PriceTable) -> JournalResult<BilledExchange> {
        let requested = row.entry.model.as_deref().unwrap_or_default();
        let agent = row.entry.agent.as_deref().unwrap_or_default();
        // At this size the agent would have compacted its history.
        let window = Windows::default().in_agent(requested, agent);
        let limit = window.map(|window| compaction_point(agent, window));
        let mut legs = legs(&self.conn, row.seq)?;
        if legs.is_empty() {
            // A relayed request has no rows of legs.
            legs.extend((0..).zip(&row.event.tokens).map(|(n, usage)| {
                let usage = *usage;
                let response = LegResponse {
                    usage,
                    ..LegResponse::default()
                };
                LegDetail {
                    n,
                    response,
                    ..LegDetail::default()
                }
            }));
        }
        let requests = legs.into_iter().map(|leg| {
            let served = row.event.served.get(leg.n as usize).and_then(Option::as_ref);
            let model = served.map(|served| served.model.as_str());
            let model = model.filter(|model| !model.is_empty()).unwrap_or(requested);
            let price = PriceQuery {
                model,
                host: host(&leg.sent.url),
                at_ms: row.entry.at_ms,
                service: served.and_then(|served| served.service.as_deref()),
            };
            BilledRequest {
                bytes: leg.bytes,
                usage: leg.response.tokens().map(TokenCounts::from),
                model: model.to_owned(),
                // Tokens of a subscription have no price.
                rates: prices.rates(&price).filter(|_| !row.event.subscription),
                cache_miss: served.and_then(|served| served.cache_miss),
                own: row.event.draft_legs.contains(&leg.n),
            }
        });
        Ok(BilledExchange {
            at_ms: row.entry.at_ms,
            received_bytes: row.received_bytes,
            fixed_bytes: size_of(&self.conn, row.head)?,
            handoff: row.entry.handoff.clone(),
            prompt_bytes: row.event.prompt_bytes,
            limit,
            requests: requests.collect(),
        })
    }
}

impl BilledRow {
    fn read(row: &SqlRow<'_>) -> rusqlite::Result<Self> {
        let event: ExchangeFacts = json(row, 8)?.unwrap_or_default();
        let entry = BillEntry {
            id: row.get(1)?,
            conversation: row.get(2)?,
            at_ms: row.get(3)?,
            model: row.get(4)?,
            client: row.get(5)?,
            agent: event.agent.clone(),
            handoff: event.fired.last().or(event.pinned.as_ref()).cloned(),
            subscription: event.subscription,
            shadow: event.shadow.clone(),
            ..BillEntry::default()
        };
        Ok(Self {
            seq: row.get(0)?,
            received_bytes: row.get(6)?,
            head: row.get(7)?,
            entry,
            event,
        })
    }

    fn entry(self, exchange: &BilledExchange, bill: &ExchangeBill) -> BillEntry {
        // The last leg with usage names the model that the agent's response came from.
        let mut newest_first = exchange.requests.iter().rev();
        let answered = newest_first.find(|request| request.usage.is_some() && !request.own);
        let without = bill.without.as_ref();
        BillEntry {
            model: answered.map(|request| request.model.clone()).or(self.entry.model),
            tokens: bill.tokens,
            cost: bill.cost.map(|cost| cost.total()),
            without_tokens: without.map(|without| without.tokens),
            without_cost: without.and_then(|without| Some(without.cost?.total())),
            saved: bill.saved(),
            saved_error: bill.error(),
            compacted: without.is_some_and(|without| without.compacted),
            ..self.entry
        }
    }
}

/// Returns the host of a URL, without its port.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}
