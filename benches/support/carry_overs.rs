//! How much of what must be kept is in a carry-over prompt, compared with what else would have been kept.

use baton_core::handoffs::draft::{DraftIndex, DraftIndexSettings, DraftSpec, Preset};
use baton_core::redact::Redactor;
use baton_core::transcript::Transcript;
use baton_core::wire::View;

/// Shares of all that must be kept.
#[derive(Default, Clone, Copy)]
pub(crate) struct Shares {
    /// How much there is.
    pub(crate) all: usize,
    /// In the carry-over prompt.
    pub(crate) prompt: f64,
    /// In the last texts of the request, as many bytes as the prompt has.
    pub(crate) last_turns: f64,
    /// In a draft without a model.
    pub(crate) local: f64,
}

/// A carry-over prompt against the request in which it was written; `None` where nothing had to be kept.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn shares(view: &View, prompt: &str) -> Option<Shares> {
    let settings = DraftIndexSettings {
        redactor: Redactor::new(&[]),
        ..DraftIndexSettings::default()
    };
    let transcript = Transcript::of(view);
    let index = DraftIndex::of(settings, &transcript);
    let (there, all) = index.kept_in(prompt);
    if all == 0 {
        return None;
    }
    let share = |there: usize| there as f64 / all as f64;
    let request = DraftSpec {
        focus: "",
        preset: Preset::Implement,
        tokens: 3000,
        repository: "",
        git: true,
        commands: true,
        why: true,
    };
    let kept = |text: &str| share(index.kept_in(text).0);
    Some(Shares {
        all,
        prompt: share(there),
        last_turns: kept(&last(&transcript, prompt.len())),
        local: index.local(&request).map_or(0.0, |local| kept(&local)),
    })
}

/// The last texts of a transcript, of about so many bytes.
fn last(transcript: &Transcript<'_>, bytes: usize) -> String {
    let mut texts = Vec::new();
    let mut left = bytes;
    for turn in transcript.turns().rev() {
        for part in turn.parts().iter().rev() {
            for text in part.texts().iter().rev() {
                let text = text.get().into_owned();
                if text.len() > left {
                    texts.reverse();
                    return texts.join("\n");
                }
                left -= text.len();
                texts.push(text);
            }
        }
    }
    texts.reverse();
    texts.join("\n")
}
