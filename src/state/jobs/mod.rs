//! Work that outlives the request that started it: drafts in progress, and the indexes of recall.

pub mod drafts;
pub mod recalls;
