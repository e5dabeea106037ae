//! Texts of ours among the items.

use super::OpenaiResponses;
use crate::text::splice::Edit;
use crate::wire::view::{Role, View};
use crate::wire::{Requests, Texts, own_text};

impl Texts for OpenaiResponses {
    /// A message item of its own. A transcript that is a lone string was made a list before.
    fn put_text(&self, view: &View, turn: usize, text: &str) -> Vec<Edit> {
        match view.turns.get(turn) {
            Some(whole) if matches!(whole.role, Role::User | Role::Tool) => {
                own_text::message(whole, self.user_text(text))
            }
            _ => Vec::new(),
        }
    }
}
