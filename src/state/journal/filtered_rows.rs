//! Lists the exchanges that match a filter.

use std::collections::HashMap;

use super::bill::BillFilter;
use super::filter::RowFilter;
use super::filter_terms::FilteredRow;
use super::query::{ExchangeFilter, JournalReader, rows_of};
use super::row::ExchangeRow;
use super::schema::JournalError;
use baton_core::bill::PriceTable;

/// Number of exchanges read at once.
const BATCH: usize = 500;

/// Selects exchanges, with the values that the filter's terms are compared with.
#[derive(Debug, Clone)]
pub struct RowQuery<'a> {
    /// Conversation, position in the list, and maximum number.
    pub range: ExchangeFilter,
    pub filter: &'a RowFilter,
    /// Prices for filters by cost.
    pub prices: &'a PriceTable,
    /// Prefix of chat commands.
    pub command_prefix: &'a str,
    /// Current time in milliseconds since the Unix epoch.
    pub now_ms: u64,
}

impl RowQuery<'_> {
    fn holds(&self, row: &ExchangeRow, costs: &HashMap<String, f64>) -> bool {
        self.filter.holds(FilteredRow {
            row,
            cost: costs.get(&row.id).copied(),
            now_ms: self.now_ms,
            command_prefix: self.command_prefix,
        })
    }
}

impl JournalReader {
    /// Returns the exchanges that match the filter, newest first.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn filtered(&self, query: &RowQuery<'_>) -> Result<Vec<ExchangeRow>, JournalError> {
        if query.filter.is_empty() {
            return self.list(&query.range);
        }
        let limit = rows_of(query.range.limit);
        let oldest = query.filter.oldest_ms(query.now_ms);
        let costs = self.costs(query)?;
        let mut range = ExchangeFilter {
            failed: query.filter.is_of_failures(),
            limit: BATCH,
            ..query.range.clone()
        };
        let mut found = Vec::new();
        loop {
            let rows = self.list(&range)?;
            let more = rows.len() == BATCH;
            range.before = rows.last().map(|row| row.id.clone());
            for row in rows {
                // Rows are sorted by id, and so by time: no later row can match.
                if row.at_ms < oldest {
                    return Ok(found);
                }
                if query.holds(&row, &costs) {
                    found.push(row);
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
            if !more {
                return Ok(found);
            }
        }
    }

    /// Whether an exchange matches the filter.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn is_filtered(&self, query: &RowQuery<'_>, row: &ExchangeRow) -> Result<bool, JournalError> {
        let mut of_row = query.clone();
        // Billing one conversation instead of the whole journal: the page asks this for every new exchange.
        of_row.range.conversation.clone_from(&row.conversation);
        Ok(query.holds(row, &self.costs(&of_row)?))
    }

    /// Returns the cost of each exchange if the filter uses costs.
    fn costs(&self, query: &RowQuery<'_>) -> Result<HashMap<String, f64>, JournalError> {
        if !query.filter.needs_cost() {
            return Ok(HashMap::new());
        }
        let filter = BillFilter {
            conversation: query.range.conversation.clone(),
            since_ms: query.filter.oldest_ms(query.now_ms),
        };
        let bill = self.bill(&filter, query.prices)?.into_iter();
        Ok(bill.filter_map(|entry| Some((entry.id, entry.cost?))).collect())
    }
}
