//! The sections about handoffs: when and how they happen, drafts and documents of them, and the search of what they
//! cut.

use std::path::PathBuf;
use std::time::Duration;

use super::Secret;
use baton_core::handoffs::carry::CarryScope;
use baton_core::handoffs::draft::DraftMethod;
use baton_core::nudge::{NudgeWording, Thresholds, Windows};

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
    /// `seal_key_dir`: the folder with the files of the seal keys; `None`: the state directory.
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
    /// The folder for the prompts of automatic handoffs.
    pub save_dir: Option<PathBuf>,
    /// What is put behind a carry-over prompt where the prompt lacks it.
    pub carry: CarryScope,
    /// Tokens of it.
    pub carry_tokens: usize,
    /// Which drafts wait for a person's approval.
    pub review: ReviewPolicy,
    /// Whether a conversation is cut where that costs nothing.
    pub free: FreeCutPolicy,
    /// The models that requests go to after a handoff; the first that matches counts.
    pub routes: Vec<HandoffRoute>,
    /// How long the provider's cache lives; `None`: as the provider's rules say.
    pub cache_lifetime: Option<Duration>,
}

impl HandoffPolicy {
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

/// `handoff.review`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReviewPolicy {
    /// Drafts take effect by themselves.
    #[default]
    Never,
    /// Handoffs that a person or the API requests wait for a person's approval.
    Manual,
    /// All of them do.
    Always,
}

/// `handoff.free`: whether a conversation is cut at a moment at which the provider's cache is lost anyway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FreeCutPolicy {
    /// No.
    #[default]
    Off,
    /// A person is offered it in the chat first.
    Ask,
    /// Yes.
    On,
}

/// `handoff.mode`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HandoffMode {
    /// The next leg's answer continues the same response.
    #[default]
    Continue,
    /// The response ends after the sentinel.
    Stop,
}

/// `handoff.inject`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InjectPolicy {
    /// Requests of agent loops get the tool, unless the agent has one that starts a new context.
    #[default]
    Auto,
    /// Requests of agents that have such a tool get baton's, too.
    Always,
    /// No request gets it.
    Never,
    /// Nothing is changed at all; what would have been done is noted.
    Shadow,
}

/// `handoff.transcript`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TranscriptDetail {
    /// Opening line, prompt, and closing line with the seal.
    #[default]
    Full,
    /// The opening line and the line for people.
    Sentinel,
}

/// `handoff.preamble`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PreambleMode {
    /// Kept in front of the prompt.
    #[default]
    Keep,
    /// Removed like the rest.
    Drop,
}

/// Documents of handoffs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentPolicy {
    /// Whether any is written.
    pub enabled: bool,
    /// Whether a session of `baton run` leaves a handoff when its agent exits.
    pub at_exit: bool,
    /// The folder; `None`: `handoffs` in the state directory.
    pub dir: Option<PathBuf>,
    /// The repository of sessions that name no folder: a document states its branch, commit and uncommitted files.
    pub git_dir: Option<PathBuf>,
    /// The topic of documents; `None`: the session.
    pub topic: Option<String>,
    /// Patterns of files that hold a verification or a review.
    pub verdict_paths: Vec<String>,
    /// Age from which a superseded document is archived; `None`: never.
    pub archive_after: Option<Duration>,
    /// Handoff files in a session's folder; the oldest beyond them are archived.
    pub keep_files: usize,
    /// Words by which a sentence of the model's is an assumption.
    pub assumption_words: Vec<String>,
}

/// Commands in the chat.
#[derive(Debug, Clone, Default)]
pub struct ChatCommandPolicy {
    /// The prefix of chat commands; empty: there are none.
    pub prefix: String,
}

/// How drafts are made: documents of a conversation that baton writes.
#[derive(Debug, Clone, Default)]
pub struct DraftPolicy {
    /// The repository whose state a draft describes.
    pub git_dir: Option<PathBuf>,
    /// Further words that make a sentence a constraint.
    pub markers: Vec<String>,
    /// Tokens of a draft that is composed without a model, estimated.
    pub facts_tokens: usize,
    /// Tokens of what a model is shown that writes one, estimated.
    pub bundle_tokens: usize,
    /// How one is made unless a request says otherwise.
    pub method: DraftMethod,
    /// The model that writes one, of the same upstream; `None`: the conversation's own.
    pub model: Option<String>,
    /// Most tokens of output of the request for one.
    pub max_tokens: u64,
    /// Longest time to make one.
    pub timeout: Duration,
    /// Folder with texts in place of the built-in prompts.
    pub prompts_dir: Option<PathBuf>,
    /// How long one waits for a person's approval.
    pub expires: Duration,
    /// Patterns of files of which nothing is quoted, in addition to those that are identified by name.
    pub secret_files: Vec<String>,
}

/// The tool that searches what was cut.
#[derive(Debug, Clone, Default)]
pub struct RecallPolicy {
    /// Whether conversations get it at their next handoff.
    pub enabled: bool,
    /// How many calls are answered in one agent request.
    pub per_turn: u32,
}
