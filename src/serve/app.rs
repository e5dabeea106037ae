//! What all exchanges share.

use std::io;
use std::sync::Arc;

use tokio::sync::Semaphore;

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

/// Maximum watched pauses: each keeps its request, mostly in a file.
const PAUSES: usize = 64;

/// What all exchanges share.
pub struct App {
    /// The checked config.
    pub config: Arc<Config>,
    /// The conversations, in front of the store.
    pub sessions: Arc<Sessions>,
    /// The keys of the sentinels' seals.
    pub seals: Arc<Seals>,
    /// The time of what is recorded.
    pub clock: Clock,
    /// Our tools, as requests are offered them.
    pub tools: OurTools,
    /// Answers the tools that are answered with a text.
    pub answers: Arc<dyn CallAnswerer>,
    /// The drafts of all conversations.
    pub drafting: Arc<DraftQueue>,
    /// The prompts that ask a model for a draft.
    pub prompts: Prompts,
    /// Gets a copy of what goes by.
    pub journal: Recorder,
    /// Writes documents of handoffs.
    pub documents: DocumentWriter,
    /// Keeps requests while their responses stream.
    pub(crate) spill: Spill,
    /// The memory of requests' bodies.
    pub bodies: Budget,
    /// Permits for the watched pauses.
    pub(crate) pauses: Arc<Semaphore>,
    /// Models of routes that upstream does not know.
    pub(crate) refused_models: OnceLog,
    /// The prices by which a cut pays or not.
    pub prices: Prices,
    /// Knows the config's keys and patterns, and removes them from events and logs.
    pub redactor: Redactor,
}

impl App {
    /// Whether baton only watches: by the config, or by the request.
    pub(crate) fn is_shadow(&self, ctx: &RequestContext) -> bool {
        self.config.handoff.inject == InjectPolicy::Shadow
            || headers::text(&ctx.headers, headers::HANDOFF) == Some(headers::SHADOW)
    }

    /// The parts that depend on the config, over this store.
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
            spill: Spill::new(config.state_dir.clone(), config.limits.request_buffer_bytes),
            sessions: Arc::new(Sessions::caching(store, config.limits.cache_bytes)),
            config: Arc::new(config),
            pauses: Arc::new(Semaphore::new(PAUSES)),
            refused_models: OnceLog::new(),
            seals,
            clock: Clock::default(),
            journal: Recorder::off(),
            documents: DocumentWriter::off(),
        })
    }

    /// The same with another config. What outlives a request is shared: the conversations, the store, the keys of the seals,
    /// the journal, drafts, documents, and the memory of bodies.
    ///
    /// # Errors
    /// As [`App::new`].
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
            pauses: Arc::clone(&self.pauses),
            ..new
        })
    }

    /// What plans of requests depend on.
    pub(crate) fn policy(&self) -> Policy<'_> {
        let may_have_insertions = self.sessions.store().may_have_insertions();
        self.config
            .policy(&self.tools, &self.refused_models, may_have_insertions)
    }
}
