//! The bill over the journal: each exchange with its cost, and with what it would have cost without baton.
//!
//! A conversation is read from its first exchange on, whatever part of it is wanted: what an exchange would have cost depends
//! on what came before it.

use rusqlite::{Row as SqlRow, params};
use serde::Serialize;

use super::leg::{json, legs};
use super::query::JournalReader;
use super::row::size_of;
use super::schema::JournalError;
use crate::telemetry::ExchangeFacts;
use baton_core::bill::{
    BilledExchange, BilledRequest, ConversationBill, ExchangeBill, PriceQuery, PriceTable, TokenCounts,
};
use baton_core::nudge::{ShadowMoment, WindowQuery, Windows, compaction_point};

/// Which exchanges are billed.
#[derive(Debug, Clone, Default)]
pub struct BillFilter {
    /// Only this conversation's.
    pub conversation: Option<String>,
    /// Only those that began at this time or later, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// One exchange's line of the bill. The names are API.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BillEntry {
    /// Id of the exchange.
    pub id: String,
    /// Key of its conversation.
    pub conversation: Option<String>,
    /// When it began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The model that answered; the requested one where upstream names none.
    pub model: Option<String>,
    /// The client, or `local`.
    pub client: Option<String>,
    /// The agent's name and version.
    pub agent: Option<String>,
    /// The handoff at which its history was cut, or that fired in it.
    pub handoff: Option<String>,
    /// Whether a subscription paid for it, so that its tokens have no price.
    pub subscription: bool,
    /// The provider's counts of all its requests.
    pub tokens: TokenCounts,
    /// The cost in dollars; none where a price is unknown.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub cost: Option<f64>,
    /// The part of the cost that is for input.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub input_cost: Option<f64>,
    /// Estimated counts without baton.
    pub without_tokens: Option<TokenCounts>,
    /// The estimated cost without baton.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub without_cost: Option<f64>,
    /// `without_cost - cost`: negative where baton cost more than it saved.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub saved: Option<f64>,
    /// Expected error of `saved`, in dollars.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub saved_error: Option<f64>,
    /// Whether the agent would have had to compact its history first.
    pub compacted: bool,
    /// What would have been sent here in its shadow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowMoment>,
}

/// The columns of an exchange, in the order of the query.
pub(super) struct BilledRow {
    seq: i64,
    head: i64,
    entry: BillEntry,
    event: ExchangeFacts,
    received_bytes: u64,
}

impl JournalReader {
    /// The bill, oldest exchange first; exchanges of one conversation follow each other.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn bill(&self, filter: &BillFilter, prices: &PriceTable) -> Result<Vec<BillEntry>, JournalError> {
        let mut bill = Vec::new();
        let mut running: (Option<String>, ConversationBill) = Default::default();
        self.each_billed(filter.conversation.as_deref(), prices, |row, exchange| {
            let (key, conversation) = &mut running;
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

    /// Every exchange that is billed, of one conversation or of all, oldest first.
    pub(super) fn each_billed(
        &self,
        conversation: Option<&str>,
        prices: &PriceTable,
        mut each: impl FnMut(BilledRow, BilledExchange),
    ) -> Result<(), JournalError> {
        let mut ask = self.conn.prepare_cached(
            "SELECT seq, id, conversation, at_ms, model, principal, received_bytes, head, event FROM exchanges
             WHERE (?1 IS NULL OR conversation = ?1) AND (call IS NULL OR call = 'generate')
             ORDER BY conversation, id",
        )?;
        let mut rows = ask.query(params![conversation])?;
        while let Some(row) = rows.next()? {
            let row = BilledRow::read(row)?;
            let exchange = self.billed_exchange(&row, prices)?;
            each(row, exchange);
        }
        Ok(())
    }

    fn billed_exchange(&self, row: &BilledRow, prices: &PriceTable) -> Result<BilledExchange, JournalError> {
        let requested = row.entry.model.as_deref().unwrap_or_default();
        let agent = row.entry.agent.as_deref().unwrap_or_default();
        let query = WindowQuery {
            model: requested,
            user_agent: agent,
            ..WindowQuery::default()
        };
        let limit = Windows::default()
            .of(&query)
            .map(|window| compaction_point(agent, window));
        let requests = legs(&self.conn, row.seq)?.into_iter().map(|leg| {
            let served = row.event.served.get(leg.n as usize).and_then(Option::as_ref);
            let model = served
                .map(|served| served.model.as_str())
                .filter(|model| !model.is_empty());
            let model = model.unwrap_or(requested);
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
        let answered = exchange
            .requests
            .iter()
            .rev()
            .find(|request| request.usage.is_some() && !request.own);
        let without = bill.without.as_ref();
        BillEntry {
            model: answered.map(|request| request.model.clone()).or(self.entry.model),
            tokens: bill.tokens,
            cost: bill.cost.map(|cost| cost.total()),
            input_cost: bill.cost.map(|cost| cost.total() - cost.output),
            without_tokens: without.map(|without| without.tokens),
            without_cost: without.and_then(|without| Some(without.cost?.total())),
            saved: bill.saved(),
            saved_error: bill.error(),
            compacted: without.is_some_and(|without| without.compacted),
            ..self.entry
        }
    }
}

/// The host of a URL, without its port.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}
