//! Drafts: turns a conversation into the document that hands its work over. Pure.
//!
//! ```text
//! transcript ─► the account of its work ─► required content, then whatever fits
//!                                        local: a document, composed without a model ◄─┤
//!                              bundle: the input of a model that writes the document ◄─┘
//! ```
//! Depends on transcripts and the tables of `agents`. Must not depend on stores, clocks, git or the trigger of the
//! draft. The same conversation and the same request give the same bytes.

mod ask;
mod bundle;
mod carried;
mod drafting;
mod ends;
mod fill;
mod keeps;
mod local;
mod prompts;
mod report;
mod request;
mod terms;

#[cfg(test)]
pub(crate) mod tests;

pub use ask::{AcceptedDraft, DraftMethod, DraftRequest, FLAGS, OWN_MODEL, ReviewPolicy};
pub(crate) use carried::{DONE, summed_goal};
pub use carried::{carried, document_of, goal_of, is_done, open_message, with_open_message, without_done};
pub use ends::{DraftEnd, draft_of};
pub use fill::BudgetTooSmall;
pub use local::{without_earlier, without_quotes};
pub use prompts::Prompts;
pub use report::{frees_little, handoff_report, not_made, still_waits, waits_for_approval};
pub use request::{DraftSpec, Preset};

pub use crate::text::tokens::tokens;

use self::drafting::Drafting;
use crate::limits;
use crate::text::cut::floor;
use crate::text::visible::without_controls;
use crate::work::turns::IndexedTurn;
use crate::work::{DraftIndex, Work, excerpt};

/// Maximum tokens of the repository's state.
const REPOSITORY: usize = 400;

/// Maximum size of a goal that selects turns and results, in bytes: each of its words is looked up in each turn.
const QUESTION: usize = 8 << 10;

/// Maximum tokens appended to a model's document, in addition to the first request.
const ALSO_KNOWN: usize = 800;

impl DraftIndex {
    /// The document, composed without a model.
    ///
    /// # Errors
    /// The required pieces do not fit.
    pub fn local(&self, spec: &DraftSpec<'_>) -> Result<String, BudgetTooSmall> {
        let document = self.written(spec, local::document)?;
        let document = carried::led(&document, &self.clean(spec.focus));
        // The user sees it in the transcript, and commits and names of a repository may hold anything.
        Ok(without_controls(&document).into_owned())
    }

    /// The request to a model that writes the document after its own history.
    pub fn after_history(&self, spec: &DraftSpec<'_>, prompts: &Prompts) -> String {
        self.cleaned(spec, |spec| prompts.after_history(spec))
    }

    /// The selection for a model that writes the document without the conversation.
    ///
    /// # Errors
    /// The required pieces do not fit.
    pub fn bundle(&self, spec: &DraftSpec<'_>) -> Result<String, BudgetTooSmall> {
        self.written(spec, bundle::text)
    }

    /// The request to a model that writes the document from the bundle.
    ///
    /// # Errors
    /// The required pieces do not fit.
    pub fn with_bundle(&self, spec: &DraftSpec<'_>, prompts: &Prompts) -> Result<String, BudgetTooSmall> {
        let bundle = self.bundle(spec)?;
        Ok(self.cleaned(spec, |spec| prompts.with_bundle(&bundle, spec)))
    }

    /// Completes a model's document: the user's goal first, and missing required content under "Also known".
    ///
    /// The document is unchanged if it lacks nothing.
    pub fn completed(&self, document: &str, spec: &DraftSpec<'_>) -> String {
        let lacking = keeps::lacking(&Work::from_index(self), document, spec, ALSO_KNOWN);
        let document = carried::led(document, &self.clean(spec.focus));
        match lacking.is_empty() {
            true => document,
            false => format!(
                "{}\n\n## Also known\n{}",
                document.trim_end(),
                without_controls(&lacking)
            ),
        }
    }

    /// Writes a document or bundle from the facts, with a redacted specification.
    fn written(
        &self,
        spec: &DraftSpec<'_>,
        write: fn(Drafting<'_, '_>) -> Result<String, BudgetTooSmall>,
    ) -> Result<String, BudgetTooSmall> {
        let work = Work::from_index(self);
        self.cleaned(spec, |spec| {
            let focus = &spec.focus[..floor(spec.focus, QUESTION)];
            write(Drafting {
                work: &work,
                relevance: &self.relevance(&work, focus),
                request: &DraftSpec { focus, ..*spec },
                pieces: Vec::new(),
            })
        })
    }

    /// Passes on a redacted specification with a bounded state of the repository.
    fn cleaned<T>(&self, spec: &DraftSpec<'_>, pass: impl FnOnce(&DraftSpec<'_>) -> T) -> T {
        let (focus, repository) = (self.clean(spec.focus), self.clean(spec.repository));
        pass(&DraftSpec {
            focus: &focus,
            repository: &excerpt::within(&repository, REPOSITORY),
            ..*spec
        })
    }

    /// Relevance of each turn to the focus, or to the current task if there is no focus.
    fn relevance(&self, work: &Work<'_>, focus: &str) -> Vec<f32> {
        let task = || work.of_task().map(IndexedTurn::user_text);
        let question = match focus.trim() {
            "" => task().collect::<Vec<_>>().join("\n"),
            _ => focus.to_owned(),
        };
        let texts = |turn: &IndexedTurn<'_>| {
            let messages = self.messages[turn.messages.clone()].iter();
            messages
                .flat_map(|message| message.items.iter().flat_map(terms::of_item))
                .collect()
        };
        terms::ranked(&question, work.turns.iter().map(texts))
    }
}

/// Whether there is enough to hand off, given the number of messages since the last handoff.
///
/// System messages and the preamble do not count. Every trigger uses this test.
pub fn enough(messages: usize) -> bool {
    messages >= limits::LEAST_MESSAGES
}
