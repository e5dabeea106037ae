//! Work that outlives the request that began it: drafts being written, and the indexes that recalls search.

pub mod drafts;
mod last_used;
pub mod recalls;
