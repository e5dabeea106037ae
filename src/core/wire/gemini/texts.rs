//! Texts of ours in Gemini's contents.

use super::Gemini;
use super::request::text_part;
use crate::text::splice::Edit;
use crate::wire::view::TurnContent;
use crate::wire::{Texts, own_text};

impl Texts for Gemini {
    /// The last part of the content, also after responses: their number counts, not the parts'.
    fn text_inside(&self, content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
        let part = text_part(text);
        own_text::among_blocks(content, &part)
            .or_else(|| own_text::after_lone_block(content, &part))
            .or_else(|| Some(Vec::new()))
    }
}
