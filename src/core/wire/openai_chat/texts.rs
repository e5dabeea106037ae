//! Texts of ours in a chat transcript.

use super::OpenaiChat;
use crate::text::splice::Edit;
use crate::wire::view::TurnContent;
use crate::wire::{Texts, own_text};

impl Texts for OpenaiChat {
    /// The last part of the user's content, or the end of its string: servers with a template of their own refuse two
    /// messages of the user in a row.
    fn text_inside(&self, content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
        own_text::among_blocks(content, &own_text::block(text)).or_else(|| own_text::in_string(content, text))
    }
}
