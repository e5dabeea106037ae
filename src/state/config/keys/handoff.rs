//! When and how handoffs happen, and documents of them.

use std::path::PathBuf;
use std::time::Duration;

use super::key::{KeySection, MARKER_CHARS, PATTERN_CHARS, key, wide};
use crate::config::Secret;
use crate::config::raw::{LocatedValue, Raw};
use crate::config::value::{ValueResult, collect, value_error};
use baton_core::handoffs::carry::CarryScope;
use baton_core::handoffs::draft::ReviewPolicy;
use baton_core::nudge::{NudgeWording, Thresholds, Windows};
use baton_core::plan::FreeCutPolicy;

/// Most seal keys: a prompt under an unknown seal is hashed with each of them.
const MOST_KEYS: usize = 16;

/// Minimum length of a seal key: the output size of HMAC-SHA256.
const SEAL_KEY_CHARS: usize = 32;

/// Minimum length of a preamble tag: one or two letters would match a user's own words.
const TAG_CHARS: usize = 3;

/// More tokens than any model takes.
const TOKENS: u64 = 1 << 30;

#[rustfmt::skip]
pub(super) const HANDOFF: KeySection = KeySection {
    name: "handoff",
    keys: &[
        &key("mode", |c| &mut c.handoff.mode, |v, _| v.choice(HandoffMode::ALL, HandoffMode::name)),
        &key("inject", |c| &mut c.handoff.inject, |v, _| v.choice(InjectPolicy::ALL, InjectPolicy::name)),
        &key("transcript", |c| &mut c.handoff.transcript, |v, _| v.choice(TranscriptDetail::ALL, TranscriptDetail::name)),
        &key("preamble", |c| &mut c.handoff.preamble, |v, _| v.choice(PreambleMode::ALL, PreambleMode::name)),
        &key("preamble_tags", |c| &mut c.handoff.preamble_tags, |v, _| v.texts(TAG_CHARS)),
        &key("description", |c| &mut c.handoff.description, |v, _| v.text().map(Some)).optional(),
        &key("max_chain", |c| &mut c.handoff.max_chain, |v, _| v.count(1, 64)),
        &key("seal_key", |c| &mut c.handoff.seal_keys, |v, e| v.secrets(e, SEAL_KEY_CHARS, MOST_KEYS)).optional().restart(),
        &key("seal_key_dir", |c| &mut c.handoff.seal_key_dir, |v, e| v.path(e).map(Some)).optional().restart(),
        &key("keepalive_secs", |c| &mut c.handoff.keepalive, |v, _| v.secs(0.1, 120.0)),
        &key("retries", |c| &mut c.handoff.retries, |v, _| v.count(0, 10)),
        &wide("nudge_at", |c, v| {
            let thresholds = &mut c.handoff.thresholds;
            let share = v.pays_or(LocatedValue::share)?;
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
        &key("subagent_nudge_at", |c| &mut c.handoff.subagents.nudge_at, |v, _| v.share().map(Some)).optional(),
        &key("subagent_nudge_tokens", |c| &mut c.handoff.subagents.nudge_tokens, |v, _| v.count(0, TOKENS).map(Some)).optional(),
        &key("auto_at", |c| &mut c.handoff.thresholds.auto_at, |v, _| v.share()),
        &key("subagent_auto_at", |c| &mut c.handoff.subagents.auto_at, |v, _| v.share().map(Some)).optional(),
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
    ],
};

impl LocatedValue {
    /// Routes after handoffs: a list of tables.
    fn routes(&self) -> ValueResult<Vec<HandoffRoute>> {
        let help = "write [{ from = \"claude-opus*\", to = \"claude-sonnet-5-5\" }]";
        let tables = self.list("routes", help)?;
        collect(tables.iter().map(|table| (&table.origin, table.route())))
    }

    fn route(&self) -> ValueResult<HandoffRoute> {
        let Raw::Table(entries) = &self.raw else {
            return value_error(
                format!("expected a route, found {}", self.raw.kind()),
                "write { from = \"claude-opus*\", to = \"claude-sonnet-5-5\" }",
            );
        };
        let mut route = HandoffRoute::default();
        for entry in entries {
            let text = entry.value.text()?;
            match entry.key.as_str() {
                "from" => route.from = text,
                "to" => route.to = text,
                "reason" => route.reason = Some(text),
                other => {
                    return value_error(
                        format!("a route has no key {other:?}"),
                        "its keys are from, to and reason",
                    );
                }
            }
        }
        match route.from.is_empty() || route.to.is_empty() {
            true => value_error("a route needs from and to", "name both models"),
            false => Ok(route),
        }
    }
}

/// Handoff settings; `config/baton.toml` describes each key.
#[derive(Debug, Clone, Default)]
pub struct HandoffPolicy {
    /// Whether the next leg continues the same response.
    pub mode: HandoffMode,
    /// Whether the tool is offered.
    pub inject: InjectPolicy,
    /// The text that is written into the agent's transcript.
    pub transcript: TranscriptDetail,
    /// Whether the harness's preamble is kept at a cut.
    pub preamble: PreambleMode,
    /// Opening tags that identify a preamble.
    pub preamble_tags: Vec<String>,
    /// Replaces the built-in description of the tool.
    pub description: Option<String>,
    /// Maximum number of legs for one agent request.
    pub max_chain: u32,
    /// `seal_key`: the seal keys shared by replicas, the one that makes seals first; none: generated at first start in the
    /// state directory.
    pub seal_keys: Vec<Secret>,
    /// `seal_key_dir`: the directory with the files of the seal keys; `None`: the state directory.
    pub seal_key_dir: Option<PathBuf>,
    /// Time without output after which a keep-alive is sent.
    pub keepalive: Duration,
    /// Maximum retries of a later leg.
    pub retries: u32,
    /// When the model is notified that its context fills up, and when its session is handed over.
    pub thresholds: Thresholds,
    /// Whether the model is notified where a usage limit of the provider's is near.
    pub nudge_limit: bool,
    /// Whether the notice of a long context says how long it is.
    pub nudge_wording: NudgeWording,
    /// Other thresholds for subagents.
    pub subagents: SubagentThresholds,
    /// Windows of models.
    pub windows: Windows,
    /// The directory for the prompts of automatic handoffs.
    pub save_dir: Option<PathBuf>,
    /// What is put behind a carry-over prompt where the prompt lacks it.
    pub append_missing: CarryScope,
    /// Tokens of it.
    pub append_tokens: usize,
    /// Which drafts wait for a user's approval.
    pub review: ReviewPolicy,
    /// Whether a conversation is cut where that costs nothing.
    pub when_cache_cold: FreeCutPolicy,
    /// The models that requests go to after a handoff; the first that matches counts.
    pub routes: Vec<HandoffRoute>,
    /// How long the provider's cache lives; `None`: as the provider's rules say.
    pub cache_lifetime: Option<Duration>,
}

impl HandoffPolicy {
    /// Whether no request gets the tool. A chain of one leg is the first leg alone: a handoff would have none to continue in.
    pub fn is_off(&self) -> bool {
        self.inject == InjectPolicy::Never || self.max_chain < 2
    }

    /// The thresholds of an agent, or of a subagent.
    pub fn thresholds_of(&self, subagent: bool) -> Thresholds {
        if !subagent {
            return self.thresholds;
        }
        Thresholds {
            nudge_at: self.subagents.nudge_at.unwrap_or(self.thresholds.nudge_at),
            nudge_tokens: self
                .subagents
                .nudge_tokens
                .unwrap_or(self.thresholds.nudge_tokens),
            auto_at: self.subagents.auto_at.unwrap_or(self.thresholds.auto_at),
            nudge_pays: self.thresholds.nudge_pays && self.subagents.nudge_at.is_none(),
        }
    }
}

/// `handoff.routes`: the model that requests go to after a handoff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandoffRoute {
    /// The requested model; with a `*` at its end, how its name begins.
    pub from: String,
    /// A word of the handoff's reason, case ignored; `None`: any reason, or none.
    pub reason: Option<String>,
    /// The model in its place: of the same wire.
    pub to: String,
}

impl HandoffRoute {
    /// Whether a handoff for this reason, from requests to this model, takes it.
    pub fn matches(&self, model: &str, reason: Option<&str>) -> bool {
        let is_from = match self.from.strip_suffix('*') {
            Some(beginning) => model.starts_with(beginning),
            None => model == self.from,
        };
        let has_reason = |word: &String| {
            let reason = reason.unwrap_or_default().to_lowercase();
            reason.contains(&word.to_lowercase())
        };
        is_from && self.reason.as_ref().is_none_or(has_reason)
    }
}

/// Thresholds of subagents, where they differ.
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
        /// The next leg's answer continues the same response.
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
        /// Requests of agent loops get the tool, unless the agent has one that starts a new context.
        #[default]
        Auto = "auto",
        /// Requests of agents that have such a tool get baton's, too.
        Always = "always",
        /// No request gets it.
        Never = "never",
        /// Nothing is changed at all; what would have been done is noted.
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
        /// The opening line and the line for people.
        Sentinel = "sentinel",
    }
}

baton_core::named! {
    /// `handoff.preamble`
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum PreambleMode {
        /// Kept in front of the prompt.
        #[default]
        Keep = "keep",
        /// Removed like the rest.
        Drop = "drop",
    }
}

/// Documents of handoffs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentPolicy {
    /// Whether any is written.
    pub enabled: bool,
    /// Whether a session of `baton run` leaves a handoff when its agent exits.
    pub at_exit: bool,
    /// The directory; `None`: `handoffs` in the state directory.
    pub dir: Option<PathBuf>,
    /// The repository of sessions that name no directory: a document states its branch, commit and uncommitted files.
    pub git_dir: Option<PathBuf>,
    /// The topic of documents; `None`: the session.
    pub topic: Option<String>,
    /// Patterns of files that hold a verification or a review.
    pub verdict_paths: Vec<String>,
    /// Age from which a superseded document is archived; `None`: never.
    pub archive_after: Option<Duration>,
    /// Handoff files in a session's directory; the oldest beyond them are archived.
    pub keep_files: usize,
    /// Words by which a sentence of the model's is an assumption.
    pub assumption_words: Vec<String>,
}
