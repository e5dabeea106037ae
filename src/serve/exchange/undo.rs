//! An undo that was asked for from outside of the chat. The conversation's next request goes upstream as if it had been done
//! before, and its answer begins with the note of an undo in the chat: so forks and rewinds follow, and nothing else has to be
//! remembered. It waits in the store until that answer was handed over, or a transcript tells it.

use std::sync::Arc;

use super::Exchange;
use super::prepare::prepare;
use super::prepared::Prepared;
use crate::serve::proxy::body::RequestBody;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::{App, BodyScan, RequestContext};
use crate::state::store::StoreError;
use baton_core::mark::note;
use baton_core::record::{HandoffId, PendingUndo};

/// What the answer to the next request begins with, in front of the model's own words.
#[derive(Clone)]
pub(super) struct FirstWords {
    /// Taken out of every later request, by its note.
    text: Arc<str>,
    /// What it tells: it waits no longer when the answer was handed over.
    pub(super) asked: PendingUndo,
}

/// Does what was asked for with this request, where it is one of the transcript that is meant. `None`: it waits on, or there is
/// nothing to be done any more.
pub(super) async fn with_request(
    app: &Arc<App>,
    ctx: &RequestContext,
    (body, scan): (&RequestBody, &BodyScan),
    prepared: &mut Prepared,
    asked: PendingUndo,
) -> Result<Option<FirstWords>, Fault> {
    let exchange = Exchange::new(Arc::clone(app), ctx.clone(), prepared.clone());
    let store_down = |error: StoreError| {
        tracing::error!(%error, "an undo cannot be done");
        Fault::from(Code::STORE)
    };
    let said = match exchange.state_of(asked) {
        Asked::Waits => return Ok(None),
        Asked::Done => {
            exchange.undo_over(asked);
            return Ok(None);
        }
        Asked::Due => exchange.undo(Some(&asked.handoff.to_string())).await,
        Asked::Overtaken => Ok(exchange.overtaken()),
    };
    let said = said.map_err(store_down)?;
    let text = format!("{}{}\n\n{}", note::BEGINS, said.text, note::line(said.note));
    let text = exchange.prepared.wire.sentinel_text(&text);
    let words = FirstWords {
        text: text.trim_start_matches('\n').into(),
        asked,
    };
    let done = said.note == asked.handoff;
    drop(exchange);
    if done {
        // Another transcript, and maybe another cut: all that follows from it is found anew.
        match prepare(app, ctx, body, scan, Some(asked.handoff)).await? {
            Some(again) => *prepared = again,
            None => return Ok(None),
        }
    }
    tracing::info!(exchange = ctx.id, handoff = %asked.handoff, done, "an undo was asked for");
    Ok(Some(words))
}

/// What an undo that was asked for is in the transcript at hand.
enum Asked {
    /// Another transcript is meant, or a later request of this one.
    Waits,
    /// The transcript tells it.
    Done,
    /// It is to be done.
    Due,
    /// Another handoff counts by now.
    Overtaken,
}

impl Exchange {
    fn state_of(&self, asked: PendingUndo) -> Asked {
        let prepared = &self.prepared;
        if prepared.command.is_some() || prepared.unresolved.is_some() || !self.is_safe_point() {
            return Asked::Waits;
        }
        // What upstream holds cannot be told from here: that is said.
        if prepared.request.view().facts.previous.is_some() {
            return Asked::Due;
        }
        let (is_undone, is_active) = (
            prepared.undone.is_undone(asked.handoff),
            self.counts(asked.handoff),
        );
        match (asked.undone, is_undone) {
            (true, true) => Asked::Done,
            (true, false) if is_active => Asked::Due,
            (true, false) if self.stands_here(asked.handoff) => Asked::Overtaken,
            (false, true) => Asked::Due,
            // It was taken back, or the person went back to before the undo.
            (false, false) if is_active || self.stands_here(asked.handoff) => Asked::Done,
            _ => Asked::Waits,
        }
    }

    fn counts(&self, handoff: HandoffId) -> bool {
        let active = self.prepared.active.as_ref();
        active.is_some_and(|active| active.id == handoff)
    }

    /// Whether the transcript has this handoff's sentinel at all.
    fn stands_here(&self, handoff: HandoffId) -> bool {
        let prepared = &self.prepared;
        let reading = prepared.request.reading();
        prepared.undone.ever().contains(&handoff)
            || super::heavy::work(prepared.weight, || {
                let candidates = reading.candidates(prepared.wire);
                candidates.iter().any(|c| c.sentinel.id == handoff)
            })
    }

    /// An undo that was asked for waits no longer.
    pub(super) fn undo_over(&self, asked: PendingUndo) {
        if let Some(live) = &self.prepared.live {
            self.app.sessions.undo_over(live, asked);
        }
    }

    /// What the answer begins with, before anything of upstream's.
    pub(super) fn first_words(&self) -> Option<&str> {
        self.first_words.as_ref().map(|words| &*words.text)
    }
}
