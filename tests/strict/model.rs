//! Who decides what the provider answers: the scripted model.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::dialect::Received;
use super::faults::Fault;
use super::reply::Reply;

/// Decides the reply to each request that passed the rules. Closures are models too.
pub trait Model: Send + Sync {
    /// The reply to `request`.
    fn reply(&self, request: &Received) -> Reply;
}

impl<F: Fn(&Received) -> Reply + Send + Sync> Model for F {
    fn reply(&self, request: &Received) -> Reply {
        self(request)
    }
}

/// A script: one reply per request, in order. Clones share the script, so that a test can add to it later. A
/// request past its end is answered with an error and a [`Rule::Script`](super::Rule) complaint.
#[derive(Clone, Debug, Default)]
pub struct Queue(Arc<Mutex<VecDeque<Reply>>>);

impl Queue {
    /// A script of these replies.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Queue(Arc::new(Mutex::new(replies.into_iter().collect())))
    }

    /// Appends a reply.
    pub fn push(&self, reply: Reply) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(reply);
    }

    /// How many replies are left.
    pub fn left(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Model for Queue {
    fn reply(&self, _: &Received) -> Reply {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.unwrap_or_else(|| Reply::failing(Fault::OutOfScript))
    }
}
