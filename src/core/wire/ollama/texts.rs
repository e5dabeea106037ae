//! Texts of ours in Ollama's messages.

use super::Ollama;
use crate::text::splice::Edit;
use crate::wire::view::{Role, View};
use crate::wire::{Requests, Texts, Turns, own_text};

impl Texts for Ollama {
    /// The end of the user's string; after results, a message.
    fn put_text(&self, view: &View, turn: usize, text: &str) -> Vec<Edit> {
        let Some(whole) = view.turns.get(turn) else {
            return Vec::new();
        };
        let message = || own_text::message(whole, self.user_text(text));
        match whole.role {
            Role::User => own_text::in_string(&self.content(view, turn), text).unwrap_or_else(message),
            Role::Tool => message(),
            _ => Vec::new(),
        }
    }
}
