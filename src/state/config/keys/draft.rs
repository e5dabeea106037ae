//! Commands in the chat, drafts, and the search of what was cut.

use std::path::PathBuf;
use std::time::Duration;

use super::key::{KeySection, MARKER_CHARS, PATTERN_CHARS, key};
use baton_core::bill::DraftCost;
use baton_core::handoffs::draft::DraftMethod;

#[rustfmt::skip]
pub(super) const COMMANDS: KeySection = KeySection {
    name: "commands",
    keys: &[
        &key("prefix", |c| &mut c.commands.prefix, |v, _| v.prefix()),
    ],
};

#[rustfmt::skip]
pub(super) const DRAFT: KeySection = KeySection {
    name: "draft",
    keys: &[
        &key("git_dir", |c| &mut c.draft.git_dir, |v, e| v.path(e).map(Some)).optional(),
        &key("markers", |c| &mut c.draft.markers, |v, _| v.texts(MARKER_CHARS)),
        &key("facts_tokens", |c| &mut c.draft.facts_tokens, |v, _| v.count(500, 100_000)),
        &key("bundle_tokens", |c| &mut c.draft.bundle_tokens, |v, _| v.count(500, 100_000)),
        &key("method", |c| &mut c.draft.method, |v, _| v.choice(DraftMethod::ALL, DraftMethod::name)),
        &key("model", |c| &mut c.draft.model, |v, _| v.text().map(Some)).optional(),
        &key("max_tokens", |c| &mut c.draft.max_tokens, |v, _| v.count(1024, 1_000_000)),
        &key("timeout_secs", |c| &mut c.draft.timeout, |v, _| v.secs(1.0, 3600.0)),
        &key("prompts_dir", |c| &mut c.draft.prompts_dir, |v, e| v.path(e).map(Some)).optional(),
        &key("expire_hours", |c| &mut c.draft.expires, |v, _| v.hours(1, 8760)).restart(),
        &key("secret_files", |c| &mut c.draft.secret_files, |v, _| v.texts(PATTERN_CHARS)),
    ],
};

#[rustfmt::skip]
pub(super) const RECALL: KeySection = KeySection {
    name: "recall",
    keys: &[
        &key("enabled", |c| &mut c.recall.enabled, |v, _| v.flag()),
        &key("per_turn", |c| &mut c.recall.per_turn, |v, _| v.count(1, 100)),
    ],
};

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
    /// Directory with texts in place of the built-in prompts.
    pub prompts_dir: Option<PathBuf>,
    /// How long one waits for a user's approval.
    pub expires: Duration,
    /// Patterns of files of which nothing is quoted, in addition to those that are identified by name.
    pub secret_files: Vec<String>,
}

impl DraftPolicy {
    /// What a draft costs.
    pub fn cost(&self) -> DraftCost {
        let selection = self.bundle_tokens as u64;
        match (self.method, &self.model) {
            (DraftMethod::Local, _) => DraftCost::Nothing,
            (DraftMethod::Bundle, _) | (_, Some(_)) => DraftCost::Selection(selection),
            (DraftMethod::Oneshot, None) => DraftCost::Cheapest(selection),
        }
    }
}

/// The tool that searches what was cut.
#[derive(Debug, Clone, Default)]
pub struct RecallPolicy {
    /// Whether conversations get it at their next handoff.
    pub enabled: bool,
    /// How many calls are answered in one agent request.
    pub per_turn: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_costs_what_its_method_sends() {
        let rows = [
            (DraftMethod::Oneshot, None, DraftCost::Cheapest(8_000)),
            (DraftMethod::Oneshot, Some("small"), DraftCost::Selection(8_000)),
            (DraftMethod::Bundle, None, DraftCost::Selection(8_000)),
            (DraftMethod::Local, None, DraftCost::Nothing),
        ];
        for (method, model, cost) in rows {
            let policy = DraftPolicy {
                method,
                model: model.map(str::to_owned),
                bundle_tokens: 8_000,
                ..DraftPolicy::default()
            };
            assert_eq!(policy.cost(), cost, "{method:?} {model:?}");
        }
    }
}
