//! Texts of ours among the items.

use super::OpenaiResponses;
use crate::text::splice::Edit;
use crate::wire::Texts;
use crate::wire::view::TurnContent;

impl Texts for OpenaiResponses {
    /// A message item of its own. A transcript that is a lone string was made a list before.
    fn text_inside(&self, _content: &TurnContent, _text: &str) -> Option<Vec<Edit>> {
        None
    }
}
