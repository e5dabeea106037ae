//! Keys for chat commands, drafts, and the search in removed history.

use std::path::PathBuf;
use std::time::Duration;

use super::key::{MARKER_CHARS, PATTERN_CHARS, SectionKeys, key};
use baton_core::bill::DraftCost;
use baton_core::handoffs::draft::DraftMethod;

#[rustfmt::skip]
pub(super) const COMMANDS: SectionKeys = &[
    &key("prefix", |c| &mut c.commands.prefix, |v, _| v.prefix()),
];

#[rustfmt::skip]
pub(super) const DRAFT: SectionKeys = &[
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
];

#[rustfmt::skip]
pub(super) const RECALL: SectionKeys = &[
    &key("enabled", |c| &mut c.recall.enabled, |v, _| v.flag()),
    &key("per_turn", |c| &mut c.recall.per_turn, |v, _| v.count(1, 100)),
];

/// Settings of chat commands, which a user writes in a message.
#[derive(Debug, Clone, Default)]
pub struct ChatCommandPolicy {
    /// Prefix of chat commands. If empty, chat commands are off.
    pub prefix: String,
}

/// Settings of drafts: documents about a conversation that baton writes.
#[derive(Debug, Clone, Default)]
pub struct DraftPolicy {
    /// Repository whose state a draft describes.
    pub git_dir: Option<PathBuf>,
    /// Additional words that make a sentence a constraint.
    pub markers: Vec<String>,
    /// Maximum size of a draft composed without a model, in estimated tokens.
    pub facts_tokens: usize,
    /// Maximum size of the excerpt shown to the model that writes a draft, in estimated tokens.
    pub bundle_tokens: usize,
    /// Method used unless a request chooses another.
    pub method: DraftMethod,
    /// Model that writes drafts, from the same upstream. `None` uses the conversation's model.
    pub model: Option<String>,
    /// Maximum output tokens of a draft request.
    pub max_tokens: u64,
    /// Maximum time to make a draft.
    pub timeout: Duration,
    /// Directory with replacements for the built-in prompts.
    pub prompts_dir: Option<PathBuf>,
    /// How long a draft waits for the user's approval.
    pub expires: Duration,
    /// Patterns of files whose contents are never quoted, in addition to those recognized by name.
    pub secret_files: Vec<String>,
}

impl DraftPolicy {
    /// Returns the cost model of a draft made with these settings.
    pub fn cost(&self) -> DraftCost {
        let selection = self.bundle_tokens as u64;
        match (self.method, &self.model) {
            (DraftMethod::Local, _) => DraftCost::Nothing,
            // A bundle, or another model, cannot use the conversation's provider cache: it pays for the
            // excerpt.
            (DraftMethod::Bundle, _) | (_, Some(_)) => DraftCost::Selection(selection),
            (DraftMethod::Oneshot, None) => DraftCost::Cheapest(selection),
        }
    }
}

/// Settings of the tool that searches the removed history.
#[derive(Debug, Clone, Default)]
pub struct RecallPolicy {
    /// Whether conversations get the tool at their next handoff.
    pub enabled: bool,
    /// Maximum number of calls answered within one agent request.
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
