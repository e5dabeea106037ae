//! The record of a handoff's document, and whether it is active.

use serde::{Deserialize, Serialize};

use super::ids::{HandoffId, Principal};

named! {
    /// Whether a document is the newest of its repository, branch and topic.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum HandoffStatus {
        #[default]
        Active = "active",
        /// Superseded by a later one.
        Superseded = "superseded",
        /// Archived by a person.
        Archived = "archived",
    }
}

/// A document as the store keeps it. At most one of a principal's documents with the same repository, branch and topic
/// is active. As JSON it is without principal and status, which change by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRecord {
    pub handoff: HandoffId,
    /// The role of its speaker.
    #[serde(skip)]
    pub principal: Principal,
    /// The folder of the work; empty where it is unknown.
    pub repository: String,
    /// The branch; empty where it is unknown.
    pub branch: String,
    /// What it is about.
    pub topic: String,
    /// Which of the three it is; this counts, and not what the document says.
    #[serde(skip)]
    pub status: HandoffStatus,
    /// When the handoff was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// The folder with its files.
    pub folder: String,
    /// The JSON document.
    pub document: String,
}
