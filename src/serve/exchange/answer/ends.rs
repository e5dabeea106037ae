//! What follows when an answer's end is delivered: a repetition of the request is then a new request, and the agent has
//! the answer's sentinels.

use crate::serve::exchange::Exchange;
use crate::state::session::UnconfirmedEnd;

impl Exchange {
    /// What is to be done when the answer's end was delivered to the connection; `None`: nothing.
    pub(in crate::serve::exchange) fn when_ended(&self) -> Option<impl FnOnce() + Send + use<>> {
        let fired = self.record.fired.take();
        let live = self.offered.agent.live.as_ref();
        let live = live.filter(|l| l.may_repeat() || !fired.is_empty())?;
        let live = live.clone();
        let (app, answer, ends) = (self.app.clone(), self.record.id.clone(), self.ctx.ends.clone());
        Some(move || {
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
    /// after its sentinel or may do so.
    pub(super) fn waits_for_delivery(&self) -> bool {
        let live = self.offered.agent.live.as_ref();
        live.is_some_and(|live| live.may_repeat())
    }
}
