//! The comparable parts of an answer.

use bytes::Bytes;
use serde::Serialize;

use super::request::ReplayRequest;
use baton_core::bill::{PriceQuery, PriceTable, TokenCounts};
use baton_core::course::StreamMerge;
use baton_core::tools::ToolNames;
use baton_core::transcript::AnswerContent;
use baton_core::wire::{LegReport, Operation, ResponseWatch, wire};

/// Maximum bytes of a frame that are read.
const FRAME_BYTES: usize = 16 << 20;

/// A summary of an answer. The names are API.
#[derive(Debug, Default, Serialize)]
pub(super) struct ReplayAnswer {
    pub(super) status: u16,
    /// The model that answered, where it says so.
    pub(super) model: String,
    /// Why it ended.
    pub(super) stop: &'static str,
    pub(super) tokens: TokenCounts,
    /// In US dollars; none for a model without a price.
    pub(super) cost: Option<f64>,
    /// Its texts and calls, a line for each string.
    pub(super) text: String,
}

/// What chooses the price of an answer.
#[derive(Clone, Copy)]
pub(super) struct PricedAt<'a> {
    pub(super) table: &'a PriceTable,
    pub(super) at_ms: u64,
}

impl ReplayAnswer {
    /// Reads the body of a response with this status.
    pub(super) fn read(request: &ReplayRequest, status: u16, body: &Bytes, prices: PricedAt<'_>) -> Self {
        let report = report(request, body).unwrap_or_default();
        let usage = report.usage;
        let tokens = TokenCounts::from(usage);
        let query = PriceQuery {
            model: &report.served.model,
            at_ms: prices.at_ms,
            service: report.served.service.as_deref(),
            ..PriceQuery::default()
        };
        let rates = prices.table.rates(&query);
        let understood = AnswerContent::of(body).as_read();
        Self {
            status,
            stop: report.stop.name(),
            tokens,
            cost: rates.map(|rates| tokens.cost(&rates).total()),
            text: understood.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned()),
            model: report.served.model,
        }
    }
}

/// The answer as the wire's own reader parses it, streamed or whole.
fn report(request: &ReplayRequest, body: &Bytes) -> Option<LegReport> {
    let wire = wire(request.wire);
    let view = wire.read(&request.body, Operation::Generate).ok()?;
    let watch = ResponseWatch {
        hide: ToolNames::default(),
        buffered_bytes: 0,
    };
    if let Some(report) = wire.reply_to(&view, body, watch) {
        return Some(report);
    }
    let mut merge = StreamMerge::new(wire.dialect(&view, watch), FRAME_BYTES, false);
    let mut shown = Vec::new();
    merge.feed(body.clone(), &mut shown);
    merge.finish_leg(&mut shown);
    Some(merge.report().clone())
}
