//! The bill: the cost of requests by a table of prices, and the estimated cost with the agent's whole history.
//!
//! Knows prices, token counts, the providers' cache rules and how agents compact. Must not know exchanges, stores,
//! clocks.
//! Sizes, times and usage come in, and dollars and tokens come out. `docs/savings.md` has the formula, and `tests` has
//! cases computed by hand.

mod arms;
mod cache;
mod cache_miss;
mod conversation;
mod cost;
mod free_cut;
mod prices;
mod session_sizes;
mod simulation;

#[cfg(test)]
mod tests;

pub use arms::{Arm, ArmBill, ArmCut};
pub use cache::CacheRule;
pub use cache_miss::{CacheMiss, CacheMissReason};
pub use conversation::{BilledExchange, BilledRequest, ConversationBill, ExchangeBill, WithoutBaton};
pub use cost::{Cost, TokenCounts, dollars};
pub use free_cut::{CutLedger, DraftCost, FreeCut, FreeCutReason, RequestCosts};
pub(crate) use free_cut::{PROMPT, READ, READ_AGAIN, READ_OUTPUT};
pub use prices::{ModelPrices, PriceQuery, PriceTable, PriceTableError, Rates};
pub use session_sizes::{Caching, SeenCall, SessionCall, SessionSizes, TaskEnd};
pub use simulation::{RequestSegment, SimulatedCache};
