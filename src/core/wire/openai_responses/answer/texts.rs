//! Text parts of a leg's items, and where they are escaped.

use super::super::response_object;
use crate::marker::escape::Escaper;
use crate::text::Span;
use crate::text::splice::Edit;

pub(super) struct PartText {
    /// Upstream's index of the item and of the part.
    pub(super) key: (u64, u64),
    /// Scanner state before the part. All parts of a leg's items count as one string, because agents join
    /// them.
    pub(super) before: Escaper,
    /// Scanner state after the part so far.
    pub(super) now: Escaper,
}

/// All text parts, in the order of their beginnings.
#[derive(Default)]
pub(super) struct PartTexts(Vec<PartText>);

impl PartTexts {
    /// Forgets the text of a part that starts again.
    pub(super) fn forget(&mut self, key: (u64, u64)) {
        self.0.retain(|text| text.key != key);
    }

    /// Returns the edits that escape the next piece of a part's text.
    pub(super) fn follow(&mut self, key: (u64, u64), data: &[u8], literal: Option<Span>) -> Vec<Edit> {
        let Some(literal) = literal.filter(|l| l.len() >= 2) else {
            return Vec::new();
        };
        self.text(key).now.breaks(data, literal.inner())
    }

    /// Scanner state after the last part.
    pub(super) fn so_far(&self) -> Escaper {
        self.0.last().map_or_else(Escaper::default, |text| text.now)
    }

    /// Returns the edits that escape the text of a finished item, and how many of them concern text that was
    /// not streamed.
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

    /// Returns the state of a part. A new part continues the last one.
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
