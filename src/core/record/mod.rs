//! Stored records: handoffs, insertions (hidden pairs, cut points, notices) and conversations, and the ids
//! that connect them.
//!
//! These are plain values, independent of transcripts and of the storage. They refer to a wire by its id only.

mod change;
mod conversation;
mod handoff;
mod ids;
mod insertion;
mod ledger;
pub mod lineage;
mod pair;
mod response_origin;

pub use change::{INSERTIONS_KEPT, LEFT_OUT_KEPT, RecordChange, Update, UpdateOutcome};
pub use conversation::{Conversation, NamedTopic, RepeatedAnswer, is_topic};
pub(crate) use handoff::without_label;
pub use handoff::{
    CarriedItem, CarriedKind, CarriedState, DocumentRecord, Handoff, HandoffOrigin, HandoffStatus, KeptTurns,
    distinctive_line,
};
pub use ids::{HandoffId, LOCAL, Principal, WireId};
pub use insertion::{
    CutPoint, FINGERPRINT, Insertion, InsertionContent, InsertionPoint, Position, ThinkingOmission,
    sibling_key,
};
pub use ledger::{Amounts, EntryKind, Ledger, LedgerEntry, LoopMark, PlanWindow};
pub use pair::{HiddenPair, HiddenResult};
pub use response_origin::{OpenResponse, PendingResult, ResponseOrigin};
