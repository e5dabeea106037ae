//! The cost of carrying: which tool results of a conversation were sent again, how often, and at what cost.
//!
//! The input cost of an exchange is distributed over the bytes of its requests, and each result pays for its
//! bytes. Sending a result for the first time does not count as carrying. Every further time does.

use std::collections::HashMap;

use rusqlite::params;
use serde::Serialize;

use super::answer_summary::CallSummary;
use super::bill::BillFilter;
use super::chunk_store::unpack;
use super::query::JournalReader;
use super::schema::JournalError;
use super::summary::role_named;
use baton_core::bill::PriceTable;
use baton_core::transcript::{TranscriptPartKind, TranscriptTurn};

/// Maximum number of results listed individually.
const MOST_RESULTS: usize = 20;

/// Cost of carrying in one conversation. Costs are in dollars. The field names are part of the API.
#[derive(Debug, Default, Serialize)]
pub struct CarriedReport {
    /// Cost of all input of the conversation. `None` if a price is unknown.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub input_cost: Option<f64>,
    /// Part of the input cost that paid for results sent before.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub carried_cost: Option<f64>,
    /// Bytes of all upstream requests.
    pub sent_bytes: u64,
    /// Part of these bytes that consists of results sent before.
    pub carried_bytes: u64,
    /// Tools, sorted by carried bytes.
    pub tools: Vec<CarriedGroup>,
    /// Most carried results. Calls with the same main argument are combined.
    pub results: Vec<CarriedGroup>,
}

/// Results of one tool, or of one tool with one argument. The field names are part of the API.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct CarriedGroup {
    pub tool: String,
    /// Main argument of the calls, if the group is for one argument.
    pub argument: Option<String>,
    /// Number of results.
    pub results: u64,
    /// Bytes of the results.
    pub bytes: u64,
    /// How often a result was sent after its first time.
    pub again: u64,
    /// Bytes of these repetitions.
    pub again_bytes: u64,
    /// Cost of these repetitions. `None` if a price is unknown.
    #[serde(serialize_with = "baton_core::bill::dollars")]
    pub again_cost: Option<f64>,
}

/// How often a node was sent, and the sum of its prices per byte.
#[derive(Debug, Default, Clone, Copy)]
struct SendCount {
    times: u64,
    price: f64,
    /// Number of the first request with this node, and its price per byte.
    first: Option<(usize, f64)>,
}

impl SendCount {
    fn add(&mut self, other: Self) {
        self.times += other.times;
        self.price += other.price;
        self.first = match (self.first, other.first) {
            (Some(own), Some(others)) => Some(if others.0 < own.0 { others } else { own }),
            (own, others) => own.or(others),
        };
    }
}

/// A stored message of the conversation.
struct StoredMessage {
    node: i64,
    parent: i64,
    chunk: i64,
}

impl JournalReader {
    /// Returns the cost of carrying in a conversation.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn carried(&self, conversation: &str, prices: &PriceTable) -> Result<CarriedReport, JournalError> {
        let filter = BillFilter {
            conversation: Some(conversation.to_owned()),
            ..BillFilter::default()
        };
        let bill = self.bill(&filter, prices)?;
        let costs: HashMap<_, _> = bill
            .iter()
            .filter_map(|entry| Some((entry.id.as_str(), entry.input_cost?)))
            .collect();
        let priced = !bill.is_empty() && bill.iter().all(|entry| entry.input_cost.is_some());
        let (mut counts, sent_bytes) = self.sends(conversation, &costs)?;
        let mut by_chunk = HashMap::<i64, SendCount>::new();
        // Children first: a node is written after its parent and has a larger id. Each message passes its
        // count to the message before it.
        for message in self.stored_messages(conversation)? {
            let count = counts.get(&message.node).copied().unwrap_or_default();
            counts.entry(message.parent).or_default().add(count);
            by_chunk.entry(message.chunk).or_default().add(count);
        }
        let mut report = self.grouped(&by_chunk)?;
        report.sent_bytes = sent_bytes;
        report.input_cost = priced.then(|| costs.values().sum());
        if !priced {
            report.forget_costs();
        }
        Ok(report)
    }

    /// Returns the last message of each request with the request's price per byte, and the bytes of all
    /// requests.
    fn sends(
        &self,
        conversation: &str,
        costs: &HashMap<&str, f64>,
    ) -> Result<(HashMap<i64, SendCount>, u64), JournalError> {
        let mut ask = self.conn.prepare_cached(
            "SELECT e.id, l.list, l.bytes, (SELECT SUM(m.bytes) FROM legs m WHERE m.exchange = e.seq)
             FROM legs l JOIN exchanges e ON e.seq = l.exchange WHERE e.conversation = ?1 ORDER BY e.id, l.n",
        )?;
        let mut rows = ask.query([conversation])?;
        let (mut counts, mut sent, mut number) = (HashMap::<i64, SendCount>::new(), 0, 0);
        while let Some(row) = rows.next()? {
            let id: String = row.get(0)?;
            let (bytes, all): (u64, u64) = (row.get(2)?, row.get(3)?);
            // All legs of an exchange share its cost by their bytes.
            let price = costs
                .get(id.as_str())
                .map_or(0.0, |cost| cost / all.max(1) as f64);
            sent += bytes;
            number += 1;
            counts.entry(row.get(1)?).or_default().add(SendCount {
                times: 1,
                price,
                first: Some((number, price)),
            });
        }
        Ok((counts, sent))
    }

    /// Returns the distinct messages of all requests of a conversation, newest first.
    fn stored_messages(&self, conversation: &str) -> Result<Vec<StoredMessage>, JournalError> {
        let mut ask = self.conn.prepare_cached(
            "WITH RECURSIVE sent (id) AS (
                SELECT l.list FROM legs l JOIN exchanges e ON e.seq = l.exchange WHERE e.conversation = ?1
                UNION SELECT n.parent FROM nodes n JOIN sent s ON n.id = s.id
             ) SELECT n.id, n.parent, n.piece FROM sent s JOIN nodes n ON n.id = s.id ORDER BY n.id DESC",
        )?;
        let messages = ask.query_map([conversation], |row| {
            Ok(StoredMessage {
                node: row.get(0)?,
                parent: row.get(1)?,
                chunk: row.get(2)?,
            })
        })?;
        Ok(messages.collect::<Result<_, _>>()?)
    }

    fn grouped(&self, by_chunk: &HashMap<i64, SendCount>) -> Result<CarriedReport, JournalError> {
        let mut ask = self
            .conn
            .prepare_cached("SELECT body, packed, size, role FROM pieces WHERE id = ?1")?;
        let mut calls = HashMap::<String, CallSummary>::new();
        let mut results = Vec::new();
        for (chunk, count) in by_chunk {
            let (message, role): (Vec<u8>, Option<String>) = ask.query_row(params![chunk], |row| {
                Ok((unpack(row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?))
            })?;
            let role = role_named(role.as_deref().unwrap_or_default());
            for part in TranscriptTurn::alone(&message, role).parts() {
                match part.kind {
                    TranscriptPartKind::Call(call) => {
                        let id = call.id.map(|id| id.get().into_owned()).unwrap_or_default();
                        calls.insert(id, CallSummary::of_call(&call));
                    }
                    TranscriptPartKind::Result(result) => results.push(SentResult {
                        call: result.call.map(|id| id.get().into_owned()),
                        tool: result.name.map(|name| name.get().into_owned()),
                        group: CarriedGroup::new(part.raw().len() as u64, *count),
                    }),
                    _ => {}
                }
            }
        }
        // Joined only at the end: a message edited at a cut is stored after the results of its calls.
        let mut by_tool = HashMap::<String, CarriedGroup>::new();
        let mut by_argument = HashMap::<(String, Option<String>), CarriedGroup>::new();
        for result in results {
            let call = result.call.as_ref().and_then(|id| calls.get(id));
            let named = call.map(|call| call.name.clone()).or(result.tool);
            // The message with the call may have been cut or deleted.
            let tool = named.unwrap_or_else(|| "?".to_owned());
            let argument = call.and_then(|call| call.argument.clone());
            by_tool.entry(tool.clone()).or_default().add(&result.group);
            by_argument
                .entry((tool, argument))
                .or_default()
                .add(&result.group);
        }
        Ok(CarriedReport::new(by_tool, by_argument))
    }
}

/// A tool result among the sent messages.
struct SentResult {
    /// Id of the call.
    call: Option<String>,
    /// Tool, if the result names it.
    tool: Option<String>,
    group: CarriedGroup,
}

impl CarriedReport {
    fn new(
        tools: HashMap<String, CarriedGroup>,
        results: HashMap<(String, Option<String>), CarriedGroup>,
    ) -> Self {
        let tools = tools
            .into_iter()
            .map(|(tool, group)| CarriedGroup { tool, ..group });
        let results = results.into_iter().map(|((tool, argument), group)| CarriedGroup {
            tool,
            argument,
            ..group
        });
        let (tools, mut results) = (CarriedGroup::sorted(tools), CarriedGroup::sorted(results));
        // A result that was sent once was not carried.
        results.retain(|group| group.again > 0);
        results.truncate(MOST_RESULTS);
        Self {
            carried_bytes: tools.iter().map(|group| group.again_bytes).sum(),
            carried_cost: tools.iter().map(|group| group.again_cost).sum(),
            tools,
            results,
            ..Self::default()
        }
    }

    fn forget_costs(&mut self) {
        self.carried_cost = None;
        for group in self.tools.iter_mut().chain(&mut self.results) {
            group.again_cost = None;
        }
    }
}

impl CarriedGroup {
    fn new(bytes: u64, count: SendCount) -> Self {
        let again = count.times.saturating_sub(1);
        let first = count.first.map_or(0.0, |(_, price)| price);
        Self {
            results: 1,
            bytes,
            again,
            again_bytes: bytes * again,
            // Rounding may make the difference slightly negative.
            again_cost: Some((count.price - first).max(0.0) * bytes as f64),
            ..Self::default()
        }
    }

    fn add(&mut self, other: &Self) {
        self.results += other.results;
        self.bytes += other.bytes;
        self.again += other.again;
        self.again_bytes += other.again_bytes;
        self.again_cost = Some(self.again_cost.unwrap_or(0.0) + other.again_cost.unwrap_or(0.0));
    }

    /// Sorts groups by carried bytes, the most first, and equal ones by name.
    fn sorted(groups: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut all: Vec<_> = groups.collect();
        all.sort_by(|a, b| (b.again_bytes, &a.tool, &a.argument).cmp(&(a.again_bytes, &b.tool, &b.argument)));
        all
    }
}
