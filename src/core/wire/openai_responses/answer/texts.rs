//! The texts of a leg's items, and where they are escaped.

use super::super::response_object;
use crate::marker::escape::Escaper;
use crate::text::Span;
use crate::text::splice::Edit;

pub(super) struct PartText {
    /// Upstream's index of the item and of the part.
    pub(super) key: (u64, u64),
    /// What was seen before it: the parts of all items of a leg are one text, since agents join them.
    pub(super) before: Escaper,
    /// What was seen with it.
    pub(super) now: Escaper,
}

/// All of them, in the order in which they began.
#[derive(Default)]
pub(super) struct PartTexts(Vec<PartText>);

impl PartTexts {
    /// Forgets the text of a part, which starts again.
    pub(super) fn forget(&mut self, key: (u64, u64)) {
        self.0.retain(|text| text.key != key);
    }

    /// Where the next piece of a text is escaped.
    pub(super) fn follow(&mut self, key: (u64, u64), data: &[u8], literal: Option<Span>) -> Vec<Edit> {
        let Some(literal) = literal.filter(|l| l.len() >= 2) else {
            return Vec::new();
        };
        self.text(key).now.breaks(data, literal.inner())
    }

    /// What was seen with the last text.
    pub(super) fn so_far(&self) -> Escaper {
        self.0.last().map_or_else(Escaper::default, |text| text.now)
    }

    /// Where the texts of a finished item are escaped, and how many of these places were not streamed.
    pub(super) fn item_breaks(&mut self, index: u64, data: &[u8], item: Span) -> (Vec<Edit>, usize) {
        let (mut edits, mut unseen) = (Vec::new(), 0);
        for (part, literal) in response_object::texts(data, item) {
            let streamed = self.0.iter().any(|text| text.key == (index, part));
            let text = self.text((index, part));
            text.now = text.before;
            let broken = text.now.breaks(data, literal.inner());
            if !streamed {
                unseen += broken.len();
            }
            edits.extend(broken);
        }
        (edits, unseen)
    }

    /// The text of a part; a new one continues the last.
    pub(super) fn text(&mut self, key: (u64, u64)) -> &mut PartText {
        let known = self.0.iter().position(|text| text.key == key);
        let i = known.unwrap_or_else(|| {
            let before = self.so_far();
            self.0.push(PartText {
                key,
                before,
                now: before,
            });
            self.0.len() - 1
        });
        &mut self.0[i]
    }
}
