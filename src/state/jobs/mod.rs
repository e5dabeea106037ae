//! Work that outlives the request that started it: drafts in progress, and the indexes of recall.

pub mod drafts;
mod last_used;
pub mod recalls;
