//! Texts of ours in Anthropic's messages.

use super::Anthropic;
use crate::text::splice::Edit;
use crate::wire::view::{Role, View};
use crate::wire::{Texts, Turns, own_text};

impl Texts for Anthropic {
    /// The last block of the message, after all results: those come first. A string becomes a block.
    fn put_text(&self, view: &View, turn: usize, text: &str) -> Vec<Edit> {
        let block = own_text::block(text);
        match view.turns.get(turn) {
            Some(turn_of) if turn_of.role == Role::User => {
                let content = self.content(view, turn);
                own_text::among_blocks(&content, &block)
                    .or_else(|| own_text::as_blocks(&content, r#"{"type":"text","text":"#, &block))
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }
}
