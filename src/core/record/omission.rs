//! An omission: thinking that upstream refused to take back, and that later requests therefore leave out.

use serde::{Deserialize, Serialize};

use uuid::Uuid;

use super::ids::HandoffId;
use super::insertion::Position;

/// Thinking in a request that upstream refused because its thinking did not fit its prefix.
///
/// The thinking that the model produced afterwards is bound to a transcript without it. So every later request that is
/// cut at the same handoff leaves out the thinking in front of this position, and no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkingOmission {
    /// The handoff at which the refused request was cut; [`Self::UNCUT`] where it was not cut.
    pub handoff: HandoffId,
    /// The end of the refused request's transcript.
    #[serde(flatten)]
    pub position: Position,
}

impl ThinkingOmission {
    /// In place of a handoff, for requests that are not cut.
    pub const UNCUT: HandoffId = Uuid::nil();
}
