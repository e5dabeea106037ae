//! The sizes of a journaled conversation's calls, the input of its simulation.

use super::bill::BilledRow;
use super::query::JournalReader;
use super::schema::JournalError;
use baton_core::bill::{BilledExchange, ConversationBill, PriceTable, SessionCall, SessionSizes};

/// A journaled conversation as it is simulated.
#[derive(Debug, Default)]
pub struct JournaledSession {
    /// The sizes of its calls.
    pub sizes: SessionSizes,
    /// The exchange of each call.
    pub exchanges: Vec<String>,
}

/// A session that is being read.
#[derive(Default)]
struct SizeReader {
    bill: ConversationBill,
    session: JournaledSession,
    at_ms: u64,
    model: String,
    received_bytes: u64,
    /// Tokens of the agent's whole history so far.
    tokens: u64,
}

impl JournalReader {
    /// The calls of a conversation with the sizes and pauses that they had, as if nothing had been cut. `None`: the provider counted no
    /// tokens of it.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn session_sizes(
        &self,
        conversation: &str,
        prices: &PriceTable,
    ) -> Result<Option<JournaledSession>, JournalError> {
        let mut reader = SizeReader::default();
        self.each_billed(Some(conversation), prices, |row, exchange| {
            reader.add(&row, &exchange);
        })?;
        Ok(Some(reader.session).filter(|session| !session.exchanges.is_empty()))
    }
}

impl SizeReader {
    fn add(&mut self, row: &BilledRow, exchange: &BilledExchange) {
        let own = exchange.requests.iter().rfind(|request| !request.own);
        let Some(model) = own.map(|request| request.model.clone()) else {
            return;
        };
        // Titles and summaries of pages are side calls: to another model, and much shorter.
        let is_first = self.session.exchanges.is_empty();
        if !is_first && model != self.model && exchange.received_bytes * 2 < self.received_bytes {
            return;
        }
        let Some(without) = self.bill.add(exchange).without else {
            return;
        };
        let whole = without.tokens.whole_input();
        if is_first {
            let share = exchange.fixed_bytes as f64 / exchange.received_bytes.max(1) as f64;
            let sizes = &mut self.session.sizes;
            sizes.prefix = (whole as f64 * share.min(1.0)) as u64;
            sizes.model.clone_from(&model);
            self.tokens = sizes.prefix;
            self.at_ms = exchange.at_ms;
            self.model.clone_from(&model);
        }
        let sizes = &mut self.session.sizes;
        sizes.limit = exchange.limit.or(sizes.limit);
        self.session.exchanges.push(row.id().to_owned());
        sizes.calls.push(SessionCall {
            pause_ms: exchange.at_ms.saturating_sub(self.at_ms),
            new: whole.saturating_sub(self.tokens).max(1),
            output: without.tokens.output,
            model: (model != self.model).then(|| model.clone()),
            handoff: row.has_fired(),
        });
        self.tokens = self.tokens.max(whole);
        (self.at_ms, self.model) = (exchange.at_ms, model);
        self.received_bytes = exchange.received_bytes;
    }
}
