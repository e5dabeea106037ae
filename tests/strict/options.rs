//! How a provider is started.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::complaint::{Complaint, Rule};
use super::dialect::Received;
use super::reply::Reply;
use super::usage::Usage;

pub(crate) type Watch = Arc<dyn Fn(&Received, &[Complaint]) + Send + Sync>;
pub(crate) type WatchReplies = Arc<dyn Fn(&Received, &Reply, &Usage) + Send + Sync>;

/// How a provider runs.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The address to bind; by default a free port on the loopback.
    pub listen: SocketAddr,
    /// Rules that are neither enforced nor recorded.
    pub ignored: Vec<Rule>,
    /// How many of the last requests are kept at least; by default all.
    pub kept_requests: usize,
    pub(crate) prefixes: bool,
    pub(crate) watch: Option<Watch>,
    pub(crate) watch_replies: Option<WatchReplies>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            ignored: Vec::new(),
            kept_requests: usize::MAX,
            prefixes: false,
            watch: None,
            watch_replies: None,
        }
    }
}

impl Options {
    /// Binds this address.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Neither enforces nor records this rule.
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Self {
        self.ignored.push(rule);
        self
    }

    /// Keeps this many of the last requests, for a provider that runs for a long time.
    #[must_use]
    pub fn keep_requests(mut self, count: usize) -> Self {
        self.kept_requests = count;
        self
    }

    /// Records requests in which a reply follows another prefix than it was made for ([`Rule::Prefix`]).
    #[must_use]
    pub fn prefixes(mut self) -> Self {
        self.prefixes = true;
        self
    }

    /// Calls `watch` for every request, with the rules that it breaks, before it is answered.
    #[must_use]
    pub fn watch(mut self, watch: impl Fn(&Received, &[Complaint]) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// Calls `watch` for every reply of the model, with the tokens that it reports, before the reply is written.
    #[must_use]
    pub fn watch_replies(
        mut self,
        watch: impl Fn(&Received, &Reply, &Usage) + Send + Sync + 'static,
    ) -> Self {
        self.watch_replies = Some(Arc::new(watch));
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("ignored", &self.ignored)
            .finish()
    }
}
