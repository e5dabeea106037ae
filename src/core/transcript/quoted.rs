//! Finds user sentences that only repeat earlier words of the model or of a tool.

use std::borrow::Cow;
use std::ops::Range;

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
    ///
    /// Marks of emphasis and code do not count: a terminal shows the model's text without them.
    pub fn said_before(&self, sentences: &[(usize, &str)]) -> Vec<bool> {
        let mut found = vec![false; sentences.len()];
        let needles = sentences.iter().map(|(_, sentence)| {
            // The raw body is searched, which has the sentence with its JSON escapes.
            let literal = serde_json::Value::from(*sentence).to_string();
            without_marks(&literal.as_bytes()[1..literal.len() - 1]).into_owned()
        });
        if sentences.is_empty() {
            return found;
        }
        let bytes: usize = sentences.iter().map(|(_, sentence)| sentence.len()).sum();
        let compact = (bytes > MAX_TABLE_BYTES).then_some(AhoCorasickKind::ContiguousNFA);
        let Ok(all) = AhoCorasick::builder().kind(compact).build(needles) else {
            return found;
        };
        // Only earlier turns count, because the sentence itself matches in its own turn.
        let last = sentences.iter().map(|(turn, _)| *turn).max().unwrap_or_default();
        for (at, turn) in self.view.turns.iter().enumerate().take(last) {
            let said_in = |span: Range<usize>, found: &[bool]| -> Vec<usize> {
                let text = without_marks(&self.view.text_of(at)[span]);
                let places = all.find_overlapping_iter(&*text);
                let all = places.map(|place| place.pattern().as_usize());
                all.filter(|sentence| at < sentences[*sentence].0 && !found[*sentence])
                    .collect()
            };
            // Most turns have none. Only in others are the model's and the tools' words told from the user's.
            if !said_in(turn.span.start..turn.span.end, &found).is_empty() {
                for span in self.others_words(at) {
                    said_in(span, &found)
                        .into_iter()
                        .for_each(|sentence| found[sentence] = true);
                }
            }
        }
        found
    }

    /// Ranges of a turn that hold words of the model or of tools.
    fn others_words(&self, at: usize) -> Vec<Range<usize>> {
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

/// Removes the marks of emphasis and code in Markdown.
fn without_marks(text: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let mut copied = 0;
    for at in memchr::memchr2_iter(b'*', b'`', text) {
        out.extend_from_slice(&text[copied..at]);
        copied = at + 1;
    }
    match copied {
        0 => text.into(),
        _ => {
            out.extend_from_slice(&text[copied..]);
            out.into()
        }
    }
}
