//! What the store keeps: handoffs, insertions (hidden pairs, cut points, texts) and conversations, and the ids by which they
//! refer to each other.
//!
//! Values only. Knows no wire but its id, no transcript, and nothing of where records are kept.

mod behind;
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

pub use behind::{Behind, OpenResponse, OwedResult};
pub use change::{Change, Update, Written};
pub use change::{INSERTIONS_KEPT, LEFT_OUT_KEPT};
pub use conversation::{AskedUndo, Conversation, Repeat, UndoAnswer};
pub use cut_point::CutPoint;
pub use document::{DocumentRecord, HandoffStatus};
pub use handoff::{Handoff, Origin, telling_line};
pub use ids::{HandoffId, LOCAL, Principal, WireId};
pub use insertion::{Content, Insertion, Place, Position};
pub use insertion::{FINGERPRINT, sibling_key};
pub use omission::ThinkingOmission;
pub use pair::{HiddenPair, HiddenResult};
