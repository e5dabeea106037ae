//! A draft that is being written: held by who writes it. However that ends, the conversation is free for another one.

use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use super::{Drafting, Made, State, Wanted};
use baton_core::handoffs::draft::{DraftEnd, DraftFailure, DraftMethod};
use baton_core::record::HandoffId;

/// A draft that is being written. Dropped before its end is told, it counts as cancelled: the agent has left.
#[derive(Debug)]
pub struct Job {
    drafting: Arc<Drafting>,
    id: Uuid,
    wanted: Wanted,
    accepted: Option<Accepted>,
    cancelled: watch::Receiver<bool>,
    over: bool,
}

/// A document that a person said yes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The document, as it is now.
    pub document: String,
    /// How it was made; `None`: it was given.
    pub method: Option<DraftMethod>,
}

impl Job {
    pub(super) fn new(
        drafting: Arc<Drafting>,
        id: Uuid,
        (wanted, accepted): (Wanted, Option<Accepted>),
        cancelled: watch::Receiver<bool>,
    ) -> Self {
        Self {
            drafting,
            id,
            wanted,
            accepted,
            cancelled,
            over: false,
        }
    }

    /// The draft's id.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// What was asked for.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The document, where it is written already and a person said yes.
    pub fn accepted(&self) -> Option<&Accepted> {
        self.accepted.as_ref()
    }

    /// It is written and stored under the draft's id, and waits for a person.
    pub fn review(mut self, method: Option<DraftMethod>, document: String) {
        let made = Made {
            handoff: Some(self.id),
            method,
            document: Some(document),
            failure: None,
        };
        self.finish(State::Review, None, made);
    }

    /// Is done when somebody cancels it.
    pub async fn cancelled(&self) {
        let mut cancelled = self.cancelled.clone();
        if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            // Nobody is left who could.
            std::future::pending::<()>().await;
        }
    }

    /// It is a handoff.
    pub fn done(mut self, method: Option<DraftMethod>, document: String, handoff: HandoffId) {
        let made = Made {
            handoff: Some(handoff),
            method,
            document: Some(document),
            failure: None,
        };
        self.finish(State::Done, None, made);
    }

    /// It came to nothing.
    pub fn ended(mut self, end: &DraftEnd) {
        let (state, failure) = match end {
            DraftEnd::Complete(_) => (State::Done, None),
            DraftEnd::Empty => (State::Empty, None),
            DraftEnd::Cancelled | DraftEnd::Review => (State::Cancelled, None),
            DraftEnd::Failed(why) => (State::Failed, Some(why.name())),
        };
        let made = Made {
            failure,
            ..Made::default()
        };
        self.finish(state, Some(end.to_string()), made);
    }

    fn finish(&mut self, state: State, why: Option<String>, made: Made) {
        self.over = true;
        self.drafting.finish(self.id, state, why, made);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if std::thread::panicking() {
            let why = DraftFailure::Internal;
            let made = Made {
                failure: Some(why.name()),
                ..Made::default()
            };
            self.finish(State::Failed, Some(why.to_string()), made);
        } else {
            self.finish(
                State::Cancelled,
                Some("the agent left".to_owned()),
                Made::default(),
            );
        }
    }
}
