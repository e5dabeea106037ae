//! What follows when an agent has read an answer's end: a repetition of the request is then a new request, and the agent
//! has the answer's sentinels.

use std::time::Duration;

use crate::serve::exchange::Exchange;

impl Exchange {
    /// What is to be done when the server has taken the answer's end; `None`: nothing. It takes effect when the agent counts
    /// as having read that end. Call it within the runtime.
    pub(in crate::serve::exchange) fn when_ended(&self) -> Option<impl FnOnce() + Send + use<>> {
        let fired = self.record.fired.take();
        let live = self.offered.agent.live.as_ref();
        let live = live.filter(|l| l.may_repeat() || !fired.is_empty())?.clone();
        let (app, answer) = (self.app.clone(), self.record.id.clone());
        let wait = app.config.limits.waits.unread;
        let read = move || {
            live.forget_repeat(&answer);
            if !fired.is_empty() {
                app.sessions.shown(&live, &fired);
            }
        };
        Some(move || match wait {
            Duration::ZERO => read(),
            wait => {
                let due = tokio::time::sleep(wait);
                tokio::spawn(async move {
                    due.await;
                    read();
                });
            }
        })
    }
}
