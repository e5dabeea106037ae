//! What follows when an answer's end is delivered: a repetition of the request is then a new request, and the agent has
//! the answer's sentinels.

use crate::serve::exchange::Exchange;
use crate::state::session::UnconfirmedEnd;

impl Exchange {
    /// What is to be done when the answer's end was delivered to the connection; `None`: nothing.
    pub(in crate::serve::exchange) fn when_ended(&self) -> Option<impl FnOnce() + Send + use<>> {
        let fired = self.record.fired.take();
        let undo = self.opening.undo().map(|words| words.pending);
        let live = self.offered.agent.live.as_ref();
        let live = live.filter(|l| l.may_repeat() || !fired.is_empty() || undo.is_some())?;
        let live = live.clone();
        let (app, answer, ends) = (self.app.clone(), self.record.id.clone(), self.ctx.ends.clone());
        Some(move || {
            // At once, since a person may request the next one, at any replica.
            if let Some(undo) = undo {
                app.sessions.undo_over(&live, undo);
            }
            let conversation = live.clone();
            let end = UnconfirmedEnd::new(move || {
                live.forget_repeat(&answer);
                if !fired.is_empty() {
                    app.sessions.shown(&live, &fired);
                }
            });
            conversation.waits_for(&end);
            ends.add(end);
        })
    }

    /// Whether it matters that the answer's end was delivered. It does where an answer of the conversation broke off
    /// after its sentinel or may do so, and while an undo is not reported.
    pub(super) fn waits_for_delivery(&self) -> bool {
        let live = self.offered.agent.live.as_ref();
        self.opening.undo().is_some() || live.is_some_and(|live| live.may_repeat())
    }
}
