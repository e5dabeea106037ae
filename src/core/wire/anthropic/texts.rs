//! Texts of ours in Anthropic's messages.

use super::Anthropic;
use crate::text::splice::Edit;
use crate::wire::view::TurnContent;
use crate::wire::{Texts, own_text};

impl Texts for Anthropic {
    /// The last block of the message, after all results: those come first. A string becomes a block.
    fn text_inside(&self, content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
        let block = own_text::block(text);
        own_text::among_blocks(content, &block)
            .or_else(|| own_text::as_blocks(content, r#"{"type":"text","text":"#, &block))
            .or_else(|| Some(Vec::new()))
    }
}
