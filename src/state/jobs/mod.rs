//! Drafts in progress, which outlive the request that started them, and the answers of recall.

pub mod drafts;
pub mod recalls;
