//! What the store keeps: handoffs, insertions (hidden pairs, cut points, texts) and conversations, and the ids by which
//! they refer to each other.
//!
//! Values only. Knows no wire but its id, no transcript, and nothing of where records are kept.

mod carried;
mod change;
mod conversation;
mod cut_point;
mod document;
mod handoff;
mod ids;
mod insertion;
pub mod lineage;
mod omission;
mod pair;
mod ready_draft;
mod response_origin;

pub use carried::{CarriedItem, CarriedKind, CarriedState};
pub use change::{INSERTIONS_KEPT, LEFT_OUT_KEPT};
pub use change::{RecordChange, Update, UpdateOutcome};
pub use conversation::{Conversation, NamedTopic, RepeatedAnswer, is_topic};
pub use cut_point::CutPoint;
pub use document::{DocumentRecord, HandoffStatus};
pub use handoff::{Handoff, HandoffOrigin, distinctive_line};
pub use ids::{HandoffId, LOCAL, Principal, WireId};
pub use insertion::{FINGERPRINT, sibling_key};
pub use insertion::{Insertion, InsertionContent, InsertionPlace, Position};
pub use omission::ThinkingOmission;
pub use pair::{HiddenPair, HiddenResult};
pub use ready_draft::{CachedHistory, ReadyDraft};
pub use response_origin::{OpenResponse, PendingResult, ResponseOrigin};
