//! Texts of ours in Gemini's contents.

use super::Gemini;
use super::request::text_part;
use crate::text::splice::Edit;
use crate::wire::view::{Role, View};
use crate::wire::{Requests, Texts, Turns, own_text};

impl Texts for Gemini {
    /// The last part of the content, also after responses: their number counts, not the parts'.
    fn put_text(&self, view: &View, turn: usize, text: &str) -> Vec<Edit> {
        let Some(whole) = view.turns.get(turn) else {
            return Vec::new();
        };
        match whole.role {
            Role::User => {
                let (content, part) = (self.content(view, turn), text_part(text));
                own_text::among_blocks(&content, &part)
                    .or_else(|| own_text::after_lone_block(&content, &part))
                    .unwrap_or_default()
            }
            Role::Tool => own_text::message(whole, self.user_text(text)),
            _ => Vec::new(),
        }
    }
}
