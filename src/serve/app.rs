//! State shared by all exchanges.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;

use crate::proxy::spill::Spill;
use crate::proxy::{Budget, RequestContext, headers};
use crate::state::clock::Clock;
use crate::state::config::{Config, InjectPolicy};
use crate::state::files::documents::DocumentWriter;
use crate::state::jobs::drafts::DraftQueue;
use crate::state::jobs::recalls::{CallAnswerer, Recaller};
use crate::state::journal::Recorder;
use crate::state::prices::{self, Prices};
use crate::state::session::Sessions;
use crate::state::store::SharedStore;
use crate::state::store::seals::Seals;
use crate::state::sync::OnceLog;
use baton_core::handoffs::draft::Prompts;
use baton_core::plan::Policy;
use baton_core::redact::Redactor;
use baton_core::tools::OurTools;

/// State shared by all exchanges.
pub struct App {
    /// Checked config.
    pub config: Arc<Config>,
    /// Conversations, backed by the store.
    pub sessions: Arc<Sessions>,
    /// Keys of the sentinels' seals.
    pub seals: Arc<Seals>,
    /// Clock for recorded times.
    pub clock: Clock,
    /// baton's tools, as requests are offered them.
    pub tools: OurTools,
    /// Executes calls of the tools whose result is text.
    pub answers: Arc<dyn CallAnswerer>,
    /// Drafts of all conversations.
    pub drafting: Arc<DraftQueue>,
    /// Prompts that ask a model for a draft.
    pub prompts: Prompts,
    /// Journal that receives a copy of the traffic.
    pub journal: Recorder,
    /// Writer of handoffs' documents.
    pub documents: DocumentWriter,
    /// Storage of requests while their responses stream.
    pub(crate) spill: Spill,
    /// Memory budget of request bodies.
    pub bodies: Budget,
    /// Becomes true when the drain time is over, to end open streams.
    pub closing: Arc<watch::Sender<bool>>,
    /// Routed models that upstream does not know.
    pub(crate) refused_models: OnceLog,
    /// Prices that decide whether a cut pays off.
    pub prices: Prices,
    /// Removes the config's keys and patterns from events and logs.
    pub redactor: Redactor,
}

impl App {
    /// Whether a request is in shadow mode, by the config or by its own header.
    pub(crate) fn is_shadow(&self, ctx: &RequestContext) -> bool {
        self.config.handoff.inject == InjectPolicy::Shadow
            || headers::text(&ctx.headers, headers::HANDOFF) == Some(headers::SHADOW)
    }

    /// Creates the parts that depend on the config, over this store.
    ///
    /// # Errors
    /// A file of `draft.prompts_dir`, or that of `bill.prices`, cannot be read.
    pub fn new(config: Config, store: SharedStore, seals: impl Into<Seals>) -> io::Result<Self> {
        Self::with_seals(config, store, Arc::new(seals.into()))
    }

    fn with_seals(config: Config, store: SharedStore, seals: Arc<Seals>) -> io::Result<Self> {
        let redactor = config.redactor();
        let settings = config.recall_settings(redactor.clone());
        Ok(Self {
            redactor,
            tools: config.tools(),
            answers: Arc::new(Recaller { settings }),
            drafting: Arc::new(DraftQueue::expiring_after(config.draft.expires)),
            prompts: config.prompts()?,
            prices: prices::table(config.bill.prices.as_deref()).map_err(io::Error::other)?,
            bodies: Budget::new(&config.limits),
            spill: Spill::new(config.state_dir.clone(), &config.limits),
            sessions: Arc::new(
                Sessions::caching(store, config.limits.cache_bytes)
                    .guarding_ids(config.server.is_shared())
                    .limiting_writes(config.limits.client_bytes_per_day),
            ),
            config: Arc::new(config),
            closing: Arc::default(),
            refused_models: OnceLog::new(),
            seals,
            clock: Clock::default(),
            journal: Recorder::off(),
            documents: DocumentWriter::off(),
        })
    }

    /// Creates an app with another config that shares everything that outlives a request.
    ///
    /// These are the conversations, the store, the keys of the seals, the journal, drafts, documents, and the
    /// storage and memory budget of bodies.
    ///
    /// # Errors
    /// Fails like [`App::new`].
    pub fn reloaded(&self, config: Config) -> io::Result<Self> {
        let new = Self::with_seals(config, Arc::clone(self.sessions.store()), Arc::clone(&self.seals))?;
        Ok(Self {
            sessions: Arc::clone(&self.sessions),
            clock: self.clock.clone(),
            drafting: Arc::clone(&self.drafting),
            journal: self.journal.clone(),
            documents: self.documents.clone(),
            spill: self.spill.clone(),
            bodies: self.bodies.clone(),
            closing: Arc::clone(&self.closing),
            // Everything else follows the new config.
            ..new
        })
    }

    /// Returns the inputs of request planning.
    pub(crate) fn policy(&self) -> Policy<'_> {
        let may_have_insertions = self.sessions.store().may_have_insertions();
        self.config
            .policy(&self.tools, &self.refused_models, may_have_insertions)
    }
}
