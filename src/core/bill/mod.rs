//! The bill: the cost of requests by a table of prices, and the estimated cost with the agent's whole history.
//!
//! Depends on prices, token counts, the providers' cache rules and how agents compact. Must not depend on exchanges,
//! stores or clocks. Sizes, times and usage come in, and dollars and tokens come out. `docs/savings.md` has
//! the formula, and `tests` has cases computed by hand.

mod cache;
mod conversation;
mod cost;
mod free_cut;
mod prices;
mod simulation;

#[cfg(test)]
mod tests;

pub use cache::{CacheMiss, CacheMissReason, CacheRule};
pub use conversation::{BilledExchange, BilledRequest, ConversationBill, ExchangeBill, WithoutBaton};
pub use cost::{Cost, TokenCounts, dollars};
pub use free_cut::{
    CutLedger, DraftCost, FreeCut, FreeCutReason, PROMPT, READ, READ_AGAIN, READ_OUTPUT, RequestCosts,
    SUMMARY,
};
pub use prices::{ModelPrices, PriceQuery, PriceTable, Rates};
pub use simulation::{RequestSegment, SimulatedCache};
