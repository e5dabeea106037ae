//! Texts of ours in Ollama's messages.

use super::Ollama;
use crate::text::splice::Edit;
use crate::wire::view::TurnContent;
use crate::wire::{Texts, own_text};

impl Texts for Ollama {
    /// The end of the user's string.
    fn text_inside(&self, content: &TurnContent, text: &str) -> Option<Vec<Edit>> {
        own_text::in_string(content, text)
    }
}
