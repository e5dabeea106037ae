//! An undo that was requested from outside of the chat. The conversation's next request goes upstream as if the undo
//! had been done before. Its answer begins with the note of an undo in the chat, so forks and rewinds follow, and
//! nothing else has to be stored. It is pending in the store until that answer was handed over, or a transcript shows
//! it.

use super::commands::UndoSubject;

use super::opening::UndoReport;
use super::pin::{Pinned, pin, store_down};
use super::read::Received;
use crate::serve::exchange::app::App;
use crate::serve::proxy::RequestContext;
use crate::serve::proxy::fault::Fault;
use baton_core::mark::note;
use baton_core::record::{HandoffId, PendingUndo};

/// A pinned request after its pending undo.
pub(super) struct AfterUndo {
    pub(super) pinned: Pinned,
    /// `None`: the undo is still pending, or nothing was left to do.
    pub(super) report: Option<UndoReport>,
}

/// Pins a request, and does the conversation's pending undo with it where the request's transcript is the one that is meant.
/// Only the pin is computed a second time.
///
/// # Errors
/// The store cannot be read or written.
pub(super) async fn pin_with_undo(
    app: &App,
    ctx: &RequestContext,
    received: Received,
    pending: PendingUndo,
) -> Result<AfterUndo, Fault> {
    let copy = received.copy();
    let pinned = pin(app, ctx, received, None).await?;
    let subject = UndoSubject {
        app,
        ctx,
        agent: &pinned.agent,
        pin: &pinned.pin,
    };
    let reply = match UndoEvidence::of(subject, pending).step(pending.undone) {
        UndoStep::Wait => {
            return Ok(AfterUndo { pinned, report: None });
        }
        UndoStep::Forget => {
            if let Some(live) = &pinned.agent.live {
                app.sessions.undo_over(live, pending);
            }
            return Ok(AfterUndo { pinned, report: None });
        }
        UndoStep::Perform => subject
            .undo(Some(&pending.handoff.to_string()))
            .await
            .map_err(store_down)?,
        UndoStep::Decline => subject.overtaken(),
    };
    let text = note::answer(&reply.text, reply.note);
    let text = pinned.agent.wire.sentinel_text(&text);
    let report = UndoReport {
        text: text.trim_start_matches('\n').into(),
        pending,
    };
    let done = reply.note == pending.handoff;
    let pinned = match done {
        // The transcript differs, and maybe the cut.
        true => pin(app, ctx, copy, Some(pending.handoff)).await?,
        false => pinned,
    };
    tracing::info!(exchange = ctx.id, handoff = %pending.handoff, done, "an undo was requested");
    Ok(AfterUndo {
        pinned,
        report: Some(report),
    })
}

/// What is done about a pending undo with the current request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UndoStep {
    /// Another transcript is meant, or a later request of this one.
    Wait,
    /// The transcript shows it: it is no longer pending.
    Forget,
    Perform,
    /// Another handoff is active by now: the answer says so.
    Decline,
}

/// What a request shows of the handoff of a pending undo.
#[derive(Debug, Clone, Copy)]
struct UndoEvidence {
    /// The answer may begin with the note of an undo.
    is_safe_point: bool,
    /// Upstream stores the transcript, so it cannot be read here.
    is_upstream: bool,
    is_undone: bool,
    is_active: bool,
    /// The transcript has the handoff's sentinel, or had it before its undo.
    is_present: bool,
}

impl UndoEvidence {
    fn of(subject: UndoSubject<'_>, pending: PendingUndo) -> Self {
        let UndoSubject { ctx, agent, pin, .. } = subject;
        let is_active = pin.active_id() == Some(pending.handoff);
        let is_safe_point =
            pin.command.is_none() && pin.unresolved.is_none() && agent.is_safe_point(ctx.operation);
        let is_upstream = agent.request.view().facts.previous.is_some();
        let is_decided = !is_safe_point || is_upstream || is_active;
        Self {
            is_safe_point,
            is_upstream,
            is_undone: pin.undone.is_undone(pending.handoff),
            is_active,
            is_present: !is_decided && is_present(subject, pending.handoff),
        }
    }

    /// The step for a handoff that is to be undone, or whose undo is to be reverted.
    fn step(self, undone: bool) -> UndoStep {
        if !self.is_safe_point {
            return UndoStep::Wait;
        }
        // A conversation that upstream stores cannot be checked here; the attempt reports a failure.
        if self.is_upstream {
            return UndoStep::Perform;
        }
        match (undone, self.is_undone) {
            (true, true) => UndoStep::Forget,
            (true, false) if self.is_active => UndoStep::Perform,
            (true, false) if self.is_present => UndoStep::Decline,
            (false, true) => UndoStep::Perform,
            // It was reverted, or the person went back to before the undo.
            (false, false) if self.is_active || self.is_present => UndoStep::Forget,
            _ => UndoStep::Wait,
        }
    }
}

/// Whether the transcript has this handoff's sentinel at all.
fn is_present(subject: UndoSubject<'_>, handoff: HandoffId) -> bool {
    let agent = subject.agent;
    let is_in_transcript = || {
        let candidates = agent.request.reading().candidates(agent.wire);
        candidates.iter().any(|c| c.sentinel.id == handoff)
    };
    subject.pin.undone.ever().contains(&handoff) || is_in_transcript()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of a loop that shows no trace of the handoff.
    const ABSENT: UndoEvidence = UndoEvidence {
        is_safe_point: true,
        is_upstream: false,
        is_undone: false,
        is_active: false,
        is_present: false,
    };
    const ACTIVE: UndoEvidence = UndoEvidence {
        is_active: true,
        ..ABSENT
    };
    const PRESENT: UndoEvidence = UndoEvidence {
        is_present: true,
        ..ABSENT
    };
    const UNDONE: UndoEvidence = UndoEvidence {
        is_undone: true,
        is_present: true,
        ..ABSENT
    };

    #[test]
    fn an_undo_is_done_where_its_handoff_is_active() {
        assert_eq!(ACTIVE.step(true), UndoStep::Perform);
        assert_eq!(UNDONE.step(true), UndoStep::Forget);
        assert_eq!(PRESENT.step(true), UndoStep::Decline);
        assert_eq!(ABSENT.step(true), UndoStep::Wait);
    }

    #[test]
    fn an_undo_is_taken_back_where_the_transcript_has_it() {
        assert_eq!(UNDONE.step(false), UndoStep::Perform);
        assert_eq!(ACTIVE.step(false), UndoStep::Forget);
        assert_eq!(PRESENT.step(false), UndoStep::Forget);
        assert_eq!(ABSENT.step(false), UndoStep::Wait);
    }

    #[test]
    fn a_request_that_cannot_show_the_note_leaves_the_undo_pending() {
        for evidence in [ACTIVE, PRESENT, UNDONE] {
            let unsafe_point = UndoEvidence {
                is_safe_point: false,
                is_upstream: true,
                ..evidence
            };
            assert_eq!(unsafe_point.step(true), UndoStep::Wait);
            assert_eq!(unsafe_point.step(false), UndoStep::Wait);
        }
    }

    #[test]
    fn an_undo_in_a_transcript_that_upstream_stores_is_answered_at_once() {
        let upstream = UndoEvidence {
            is_upstream: true,
            ..ABSENT
        };
        assert_eq!(upstream.step(true), UndoStep::Perform);
        assert_eq!(upstream.step(false), UndoStep::Perform);
    }
}
