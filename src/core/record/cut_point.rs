//! A cut point: finds where a handoff is in a transcript that lacks its sentinel.

use serde::{Deserialize, Serialize};

use super::ids::{HandoffId, Principal};
use super::insertion::Position;

/// The position of a handoff in the agent's transcript, for when its sentinel is missing. An agent may abort the answer
/// with the sentinel, and omit that answer from its next request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutPoint {
    pub handoff: HandoffId,
    /// Who may see it.
    pub principal: Principal,
    /// Key of the conversation.
    pub conversation: String,
    /// The end of the transcript at that time.
    #[serde(flatten)]
    pub position: Position,
    /// Fingerprints of the texts since the cut before, for transcripts that come back as one text.
    pub texts: Vec<u32>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}
