//! Keys for handoffs and their documents.

use std::path::PathBuf;
use std::time::Duration;

use super::key::{MARKER_CHARS, PATTERN_CHARS, SectionKeys, key, wide};
use crate::config::Secret;
use crate::config::raw::{LocatedValue, Raw};
use crate::config::value::{ValueResult, collect, value_error};
use baton_core::handoffs::carry::CarryScope;
use baton_core::handoffs::draft::ReviewPolicy;
use baton_core::nudge::{NudgeWording, Thresholds, Windows};
use baton_core::plan::FreeCutPolicy;

/// Maximum number of seal keys: a prompt under an unknown seal is hashed with each of them.
const MAX_KEYS: usize = 16;

/// Minimum length of a seal key: the output size of HMAC-SHA256.
const SEAL_KEY_CHARS: usize = 32;

/// Minimum length of a preamble tag: one or two letters would match the user's own words.
const TAG_CHARS: usize = 3;

/// Upper bound for token counts, larger than any model's window.
const TOKENS: u64 = 1 << 30;

#[rustfmt::skip]
pub(super) const HANDOFF: SectionKeys = &[
    &key("mode", |c| &mut c.handoff.mode, |v, _| v.choice(HandoffMode::ALL, HandoffMode::name)),
    &key("inject", |c| &mut c.handoff.inject, |v, _| v.choice(InjectPolicy::ALL, InjectPolicy::name)),
    &key("transcript", |c| &mut c.handoff.transcript, |v, _| v.choice(TranscriptDetail::ALL, TranscriptDetail::name)),
    &key("preamble", |c| &mut c.handoff.preamble, |v, _| v.choice(PreambleMode::ALL, PreambleMode::name)),
    &key("preamble_tags", |c| &mut c.handoff.preamble_tags, |v, _| v.texts(TAG_CHARS)),
    &key("description", |c| &mut c.handoff.description, |v, _| v.text().map(Some)).optional(),
    &key("max_chain", |c| &mut c.handoff.max_chain, |v, _| v.count(1, 64)),
    &key("seal_key", |c| &mut c.handoff.seal_keys, |v, e| v.secrets(e, SEAL_KEY_CHARS, MAX_KEYS)).optional().restart(),
    &key("seal_key_dir", |c| &mut c.handoff.seal_key_dir, |v, e| v.path(e).map(Some)).optional().restart(),
    &key("keepalive_secs", |c| &mut c.handoff.keepalive, |v, _| v.secs(0.1, 120.0)),
    &key("retries", |c| &mut c.handoff.retries, |v, _| v.count(0, 10)),
    &key("retry_pause_secs", |c| &mut c.handoff.retry_pauses, |v, _| v.secs(0.0, 3600.0)),
    &wide("nudge_at", |c, v| {
        let thresholds = &mut c.handoff.thresholds;
        let share = v.pays_or(|v| v.share(0.0))?;
        // Either key may choose break-even. A number in the other one does not undo that.
        thresholds.nudge_pays |= share.is_none();
        thresholds.nudge_at = share.unwrap_or_default();
        Ok(())
    }),
    &wide("nudge_tokens", |c, v| {
        let thresholds = &mut c.handoff.thresholds;
        let tokens = v.pays_or(|v| v.count(0, TOKENS))?;
        thresholds.nudge_pays |= tokens.is_none();
        thresholds.nudge_tokens = tokens.unwrap_or_default();
        Ok(())
    }),
    &key("nudge_limit", |c| &mut c.handoff.nudge_limit, |v, _| v.flag()),
    &key("nudge_wording", |c| &mut c.handoff.nudge_wording, |v, _| v.choice(NudgeWording::ALL, NudgeWording::name)),
    &key("subagent_nudge_at", |c| &mut c.handoff.subagents.nudge_at, |v, _| v.share(0.0).map(Some)).optional(),
    &key("subagent_nudge_tokens", |c| &mut c.handoff.subagents.nudge_tokens, |v, _| v.count(0, TOKENS).map(Some)).optional(),
    &key("auto_at", |c| &mut c.handoff.thresholds.auto_at, |v, _| v.share(0.0)),
    &key("subagent_auto_at", |c| &mut c.handoff.subagents.auto_at, |v, _| v.share(0.0).map(Some)).optional(),
    &key("save_dir", |c| &mut c.handoff.save_dir, |v, e| v.path(e).map(Some)).optional(),
    &key("windows", |c| &mut c.handoff.windows, |v, _| v.windows(TOKENS).map(Windows::with)),
    &key("append_missing", |c| &mut c.handoff.append_missing, |v, _| v.choice(CarryScope::ALL, CarryScope::name)),
    &key("append_tokens", |c| &mut c.handoff.append_tokens, |v, _| v.count(0, 10_000)),
    &key("review", |c| &mut c.handoff.review, |v, _| v.choice(ReviewPolicy::ALL, ReviewPolicy::name)),
    &key("when_cache_cold", |c| &mut c.handoff.when_cache_cold, |v, _| v.choice(FreeCutPolicy::ALL, FreeCutPolicy::name)),
    &key("routes", |c| &mut c.handoff.routes, |v, _| v.routes()).optional(),
    &key("cache_lifetime_secs", |c| &mut c.handoff.cache_lifetime, |v, _| v.secs(1.0, 86_400.0).map(Some)).optional(),
    &key("documents", |c| &mut c.documents.enabled, |v, _| v.flag()).restart(),
    &key("at_exit", |c| &mut c.documents.at_exit, |v, _| v.flag()).restart(),
    &key("dir", |c| &mut c.documents.dir, |v, e| v.path(e).map(Some)).optional().restart(),
    &key("git_dir", |c| &mut c.documents.git_dir, |v, e| v.path(e).map(Some)).optional().restart(),
    &key("topic", |c| &mut c.documents.topic, |v, _| v.text().map(Some)).optional().restart(),
    &key("verdict_paths", |c| &mut c.documents.verdict_paths, |v, _| v.texts(PATTERN_CHARS)).restart(),
    &key("archive_days", |c| &mut c.documents.archive_after, |v, _| v.days_or_never(3650.0)).restart(),
    &key("keep_files", |c| &mut c.documents.keep_files, |v, _| v.count(1, 100_000)).restart(),
    &key("assumption_words", |c| &mut c.documents.assumption_words, |v, _| v.texts(MARKER_CHARS)).restart(),
];

impl LocatedValue {
    /// Reads the routes after handoffs: a list of tables.
    fn routes(&self) -> ValueResult<Vec<HandoffRoute>> {
        let help = "write [{ from = \"claude-opus*\", to = \"claude-sonnet-5-5\" }]";
        let tables = self.list("routes", help)?;
        collect(tables.iter().map(|table| (&table.origin, table.route())))
    }

    fn route(&self) -> ValueResult<HandoffRoute> {
        let Raw::Table(entries) = &self.raw else {
            let help = "write { from = \"claude-opus*\", to = \"claude-sonnet-5-5\" }";
            return self.expected("a route", help);
        };
        let mut route = HandoffRoute::default();
        for entry in entries {
            let text = entry.value.text()?;
            match entry.key.as_str() {
                "from" => route.from = text,
                "to" => route.to = text,
                "reason" => route.reason = Some(text),
                other => {
                    let message = format!("a route has no key {other:?}");
                    return value_error(message, "its keys are from, to and reason");
                }
            }
        }
        match route.from.is_empty() || route.to.is_empty() {
            true => value_error("a route needs from and to", "name both models"),
            false => Ok(route),
        }
    }
}

/// Handoff settings. `config/baton.toml` describes each key.
#[derive(Debug, Clone, Default)]
pub struct HandoffPolicy {
    /// Whether the next leg continues the same response.
    pub mode: HandoffMode,
    /// Which requests are offered the tool.
    pub inject: InjectPolicy,
    /// How much of a handoff is written into the agent's transcript.
    pub transcript: TranscriptDetail,
    /// Whether a cut keeps the harness's preamble.
    pub preamble: PreambleMode,
    /// Opening tags that identify a preamble.
    pub preamble_tags: Vec<String>,
    /// Replacement for the tool's built-in description.
    pub description: Option<String>,
    /// Maximum number of legs for one agent request.
    pub max_chain: u32,
    /// Seal keys shared by replicas. The first one creates seals.
    ///
    /// If empty, a key is generated in the state directory at the first start.
    pub seal_keys: Vec<Secret>,
    /// Directory of the seal key files. `None` means the state directory.
    pub seal_key_dir: Option<PathBuf>,
    /// Time without output before a keep-alive is sent.
    pub keepalive: Duration,
    /// Maximum attempts to repeat a later leg.
    pub retries: u32,
    /// Maximum sum of the pauses before these attempts, in one response.
    pub retry_pauses: Duration,
    /// When the model is notified that its context fills up, and when its session is handed over.
    pub thresholds: Thresholds,
    /// Whether the model is notified when one of the provider's usage limits is near.
    pub nudge_limit: bool,
    /// Whether the notice of a long context states its length.
    pub nudge_wording: NudgeWording,
    pub subagents: SubagentThresholds,
    /// Context windows of models.
    pub windows: Windows,
    /// Directory where prompts of automatic handoffs are saved.
    pub save_dir: Option<PathBuf>,
    /// Which missing information is appended to a carry-over prompt.
    pub append_missing: CarryScope,
    /// Maximum tokens appended to a carry-over prompt.
    pub append_tokens: usize,
    /// Which drafts wait for the user's approval.
    pub review: ReviewPolicy,
    /// Whether a conversation is cut when the cut costs nothing.
    pub when_cache_cold: FreeCutPolicy,
    /// Models for requests after a handoff. The first matching route wins.
    pub routes: Vec<HandoffRoute>,
    /// Lifetime of the provider's cache. `None` uses the provider's documented rules.
    pub cache_lifetime: Option<Duration>,
}

impl HandoffPolicy {
    /// Whether handoffs are impossible, so that no request gets the tool.
    ///
    /// With `max_chain` below 2 only the first leg is allowed, and a handoff would have no leg to continue
    /// in.
    pub fn is_off(&self) -> bool {
        self.inject == InjectPolicy::Never || self.max_chain < 2
    }

    /// Returns the thresholds that apply to an agent or to a subagent.
    pub fn thresholds_of(&self, subagent: bool) -> Thresholds {
        if !subagent {
            return self.thresholds;
        }
        let (own, all) = (self.subagents, self.thresholds);
        Thresholds {
            nudge_at: own.nudge_at.unwrap_or(all.nudge_at),
            nudge_tokens: own.nudge_tokens.unwrap_or(all.nudge_tokens),
            auto_at: own.auto_at.unwrap_or(all.auto_at),
            // A subagent's own `nudge_at` is a number, which replaces "break-even" as well.
            nudge_pays: all.nudge_pays && own.nudge_at.is_none(),
        }
    }
}

/// Route to another model after a handoff, from `handoff.routes`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandoffRoute {
    /// Requested model. A trailing `*` matches any name with this prefix.
    pub from: String,
    /// Word that the handoff's reason must contain, ignoring case. `None` matches any reason, or none.
    pub reason: Option<String>,
    /// Model that replaces it, of the same wire.
    pub to: String,
}

impl HandoffRoute {
    /// Whether this route applies to a handoff with this reason in a conversation with this model.
    pub fn matches(&self, model: &str, reason: Option<&str>) -> bool {
        let is_from = match self.from.strip_suffix('*') {
            Some(beginning) => model.starts_with(beginning),
            None => model == self.from,
        };
        let has_reason = |word: &String| {
            // A handoff without a reason matches no route that requires a word.
            let reason = reason.unwrap_or_default().to_lowercase();
            reason.contains(&word.to_lowercase())
        };
        is_from && self.reason.as_ref().is_none_or(has_reason)
    }
}

/// Thresholds for subagents. `None` means the same threshold as for agents.
#[derive(Debug, Clone, Copy, Default)]
pub struct SubagentThresholds {
    /// `handoff.subagent_nudge_at`
    pub nudge_at: Option<f64>,
    /// `handoff.subagent_nudge_tokens`
    pub nudge_tokens: Option<u64>,
    /// `handoff.subagent_auto_at`
    pub auto_at: Option<f64>,
}

baton_core::named! {
    /// `handoff.mode`
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum HandoffMode {
        /// The next leg's output continues the same response.
        #[default]
        Continue = "continue",
        /// The response ends after the sentinel.
        Stop = "stop",
    }
}

baton_core::named! {
    /// `handoff.inject`
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum InjectPolicy {
        /// Requests of agent loops get the tool, unless the agent has a tool that starts a new context.
        #[default]
        Auto = "auto",
        /// Requests of agent loops get the tool even if the agent has such a tool.
        Always = "always",
        /// No request gets the tool.
        Never = "never",
        /// Shadow mode: requests stay unchanged, and baton only records the changes that it would have made.
        Shadow = "shadow",
    }
}

baton_core::named! {
    /// `handoff.transcript`
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum TranscriptDetail {
        /// Opening line, prompt, and closing line with the seal.
        #[default]
        Full = "full",
        /// Opening line, and the line for users.
        Sentinel = "sentinel",
    }
}

baton_core::named! {
    /// `handoff.preamble`
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum PreambleMode {
        /// The preamble stays before the prompt.
        #[default]
        Keep = "keep",
        /// The preamble is removed with the rest of the history.
        Drop = "drop",
    }
}

/// Settings of handoff documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentPolicy {
    /// Whether documents are written.
    pub enabled: bool,
    /// Whether a session of `baton run` leaves a handoff when its agent exits.
    pub at_exit: bool,
    /// Directory of the documents. `None` means `handoffs` in the state directory.
    pub dir: Option<PathBuf>,
    /// Repository for sessions that name no directory. A document states its branch, commit and uncommitted
    /// files.
    pub git_dir: Option<PathBuf>,
    /// Topic of documents. `None` uses the session.
    pub topic: Option<String>,
    /// Patterns of files that contain a verification or a review.
    pub verdict_paths: Vec<String>,
    /// Age at which a superseded document is archived. `None` means never.
    pub archive_after: Option<Duration>,
    /// Maximum number of handoff files in a session's directory. The oldest ones beyond it are archived.
    pub keep_files: usize,
    /// Words that mark a model's sentence as an assumption.
    pub assumption_words: Vec<String>,
}
