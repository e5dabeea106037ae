//! Finds user sentences that only repeat earlier words of the model or of a tool.

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::Transcript;
use super::part::TranscriptPartKind;
use crate::wire::Role;

/// Maximum bytes of sentences that are compiled to a table of all transitions.
///
/// The table searches fastest, but takes some hundred bytes per byte of a sentence, and a pasted line may be
/// as long as a request.
const MAX_TABLE_BYTES: usize = 16 << 10;

impl Transcript<'_> {
    /// For each sentence with its turn, whether the model or a tool said it verbatim in an earlier turn.
    pub fn said_before(&self, sentences: &[(usize, &str)]) -> Vec<bool> {
        let mut found = vec![false; sentences.len()];
        let needles = sentences.iter().map(|(_, sentence)| {
            // The raw body is searched, which has the sentence with its JSON escapes.
            let literal = serde_json::Value::from(*sentence).to_string();
            literal[1..literal.len() - 1].to_owned()
        });
        if sentences.is_empty() {
            return found;
        }
        let bytes: usize = sentences.iter().map(|(_, sentence)| sentence.len()).sum();
        let compact = (bytes > MAX_TABLE_BYTES).then_some(AhoCorasickKind::ContiguousNFA);
        let Ok(all) = AhoCorasick::builder().kind(compact).build(needles) else {
            return found;
        };
        // Caches one turn: most matches are in the sentences' own turns, or in consecutive turns.
        let mut last: Option<(usize, Vec<std::ops::Range<usize>>)> = None;
        for place in all.find_overlapping_iter(&self.view.body[..]) {
            let sentence = place.pattern().as_usize();
            let Some(turn) = self.view.turn_at(place.start()) else {
                continue;
            };
            // Only earlier turns count, because the sentence itself matches in its own turn.
            if found[sentence] || turn >= sentences[sentence].0 {
                continue;
            }
            if last.as_ref().is_none_or(|(known, _)| *known != turn) {
                last = Some((turn, self.others_words(turn)));
            }
            let spans = last.iter().flat_map(|(_, spans)| spans);
            found[sentence] = spans.into_iter().any(|span| span.contains(&place.start()));
        }
        found
    }

    /// Ranges of a turn that hold words of the model or of tools.
    fn others_words(&self, at: usize) -> Vec<std::ops::Range<usize>> {
        let Some(turn) = self.turn(at) else {
            return Vec::new();
        };
        match turn.role {
            Role::Assistant | Role::Tool => std::iter::once(turn.span.start..turn.span.end).collect(),
            _ => {
                let results = turn.parts().into_iter();
                let results = results.filter(|part| matches!(part.kind, TranscriptPartKind::Result(_)));
                results.map(|part| part.span.start..part.span.end).collect()
            }
        }
    }
}
