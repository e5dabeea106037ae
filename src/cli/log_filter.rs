//! The filter of `baton log`, and what its terms are compared with.

use std::path::Path;

use super::exit::{CommandFailure, Exit};
use super::output::visible;
use crate::state::clock::now_ms;
use crate::state::journal::{
    BillFilter, ExchangeFilter, ExchangeRow, FilteredRow, JournalError, JournalReader, RowFilter, RowQuery,
};
use baton_core::bill::PriceTable;
use std::sync::Arc;

/// The filter of the command line, and what its terms are compared with.
pub(super) struct FilterTerms {
    filter: RowFilter,
    prices: Arc<PriceTable>,
    command_prefix: String,
}

impl FilterTerms {
    /// Parses the words of the command line.
    pub(super) fn of(
        words: &[String],
        prices: Option<&Path>,
        command_prefix: &str,
    ) -> Result<Self, CommandFailure> {
        let text = words.join(" ");
        let filter = RowFilter::parse(&text).map_err(|why| {
            let place = format!("{}\n{}^", visible(&text), " ".repeat(why.position - 1));
            Exit::USAGE
                .failure(format!("{}\n{place}", visible(&why.message)))
                .help("`baton log --help` lists the terms")
        })?;
        Ok(Self {
            filter,
            prices: super::prices(prices)?,
            command_prefix: command_prefix.to_owned(),
        })
    }

    /// The exchanges for which the filter holds, newest first.
    pub(super) fn rows(
        &self,
        query: &JournalReader,
        range: ExchangeFilter,
    ) -> Result<Vec<ExchangeRow>, JournalError> {
        let wanted = RowQuery {
            range,
            filter: &self.filter,
            prices: &self.prices,
            command_prefix: &self.command_prefix,
            now_ms: now_ms(),
        };
        query.filtered(&wanted)
    }

    /// Whether the filter holds for an exchange that has just ended.
    pub(super) fn holds(&self, query: &JournalReader, row: &ExchangeRow) -> Result<bool, JournalError> {
        let cost = match self.filter.needs_cost() {
            true => self.cost(query, row)?,
            false => None,
        };
        Ok(self.filter.holds(FilteredRow {
            row,
            cost,
            now_ms: now_ms(),
            command_prefix: &self.command_prefix,
        }))
    }

    fn cost(&self, query: &JournalReader, row: &ExchangeRow) -> Result<Option<f64>, JournalError> {
        let filter = BillFilter {
            conversation: row.conversation.clone(),
            since_ms: row.at_ms,
        };
        let bill = query.bill(&filter, &self.prices)?;
        Ok(bill
            .iter()
            .find(|entry| entry.id == row.id)
            .and_then(|entry| entry.cost))
    }
}
