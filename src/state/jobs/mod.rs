//! Drafts in progress, which outlive the request that started them, and the results of recall calls.

pub mod drafts;
pub mod recalls;
