//! Undos that are requested from outside of the chat: decided by the record, written into it, and done by the
//! conversation's next request.

use std::fmt;
use std::sync::Arc;

use super::live::CacheUpdate;
use super::{LiveConversation, Sessions, put_record};
use crate::state::store::StoreError;
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::nudge::Windows;
use baton_core::record::{Handoff, HandoffId, PendingUndo, RecordChange, UndoAnswer};

/// Why an undo cannot be requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoRefused {
    /// The conversation is unknown.
    UnknownConversation,
    /// The handoff is not the one that counts in the conversation's newest transcript. `active`: that one.
    NotActive {
        /// The handoff that counts.
        active: Option<HandoffId>,
    },
    /// The model would see more than its window holds, both in tokens.
    OverWindow {
        /// Tokens that the model would see.
        tokens: u64,
        /// Tokens over the window.
        over: u64,
    },
}

impl UndoRefused {
    /// The name in errors of the API.
    pub fn name(&self) -> &'static str {
        match self {
            Self::UnknownConversation => "not_found",
            Self::NotActive { .. } => "not_active",
            Self::OverWindow { .. } => "over_window",
        }
    }
}

impl fmt::Display for UndoRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownConversation => f.write_str("nothing was undone: there is no such conversation"),
            Self::NotActive { active: Some(id) } => {
                write!(
                    f,
                    "nothing was undone: the active handoff of its conversation is {id}"
                )
            }
            Self::NotActive { active: None } => {
                f.write_str("nothing was undone: its conversation has no active handoff")
            }
            Self::OverWindow { tokens, over } => write!(
                f,
                "nothing was undone: the model would see about {tokens} tokens, {over} more than its window holds"
            ),
        }
    }
}

impl Sessions {
    /// Asks that a handoff be undone with the next request of its conversation, or of the one with this key, or that
    /// its undo be reverted. Durable. Requested again before that request, it is withdrawn.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn request_undo(
        &self,
        handoff: &Handoff,
        key: Option<&str>,
        windows: &Windows,
        now_ms: u64,
    ) -> Result<Result<UndoAnswer, UndoRefused>, StoreError> {
        let key = key.unwrap_or(&handoff.conversation);
        let known = self.store.conversation(key).await?;
        let Some(known) = known.filter(|known| known.principal == handoff.principal) else {
            return Ok(Err(UndoRefused::UnknownConversation));
        };
        let live = self.open(key, &known.principal, now_ms).await?;
        let answer = live.record().request_undo(handoff.id, now_ms);
        let change = match answer {
            UndoAnswer::Requested(request) if request.undone => {
                let parent = match handoff.parent {
                    Some(id) => self.handoff(&handoff.principal, id).await?,
                    None => None,
                };
                if let Some(refused) = over_window(handoff, parent.as_deref(), windows) {
                    return Ok(Err(refused));
                }
                RecordChange::UndoRequested(request)
            }
            UndoAnswer::Requested(request) => RecordChange::UndoRequested(request),
            UndoAnswer::Withdrawn(request) => RecordChange::UndoOver(request),
            UndoAnswer::NotActive { active } => return Ok(Err(UndoRefused::NotActive { active })),
        };
        self.write(&live, change, CacheUpdate::Nothing, now_ms, put_record)
            .await?;
        Ok(Ok(answer))
    }

    /// A requested undo is in the transcript, or cannot be done: it is no longer pending. Written in the
    /// background. Call it within the runtime.
    pub fn undo_over(&self, live: &Arc<LiveConversation>, request: PendingUndo) {
        let mut state = live.state();
        if state.record.pending_undo.as_deref() == Some(&request) {
            state.change_in_background(RecordChange::UndoOver(request));
        }
        self.save_in_background(live, &mut state);
    }
}

/// Whether the history before the handoff is surely larger than any window that its model may have. Then nobody has to
/// wait for the next request, which knows exactly.
fn over_window(handoff: &Handoff, parent: Option<&Handoff>, windows: &Windows) -> Option<UndoRefused> {
    let earlier = parent.map_or(0, |parent| parent.history_bytes);
    let head = parent.map_or(0, |parent| parent.head.len() as u64);
    let tokens = (handoff.history_bytes.saturating_sub(earlier) + head) / BYTES_PER_TOKEN;
    let window = windows.widest(handoff.model.as_deref()?)?;
    let over = tokens.checked_sub(window).filter(|over| *over > 0)?;
    Some(UndoRefused::OverWindow { tokens, over })
}
