//! Texts of ours in a chat transcript.

use super::OpenaiChat;
use crate::text::splice::Edit;
use crate::wire::view::{Role, View};
use crate::wire::{Requests, Texts, Turns, own_text};

impl Texts for OpenaiChat {
    /// The last part of the user's content, or the end of its string: servers with a template of their own refuse two
    /// messages of the user in a row. After results, a message.
    fn put_text(&self, view: &View, turn: usize, text: &str) -> Vec<Edit> {
        let Some(whole) = view.turns.get(turn) else {
            return Vec::new();
        };
        let message = || own_text::message(whole, self.user_text(text));
        match whole.role {
            Role::User => {
                let content = self.content(view, turn);
                own_text::among_blocks(&content, &own_text::block(text))
                    .or_else(|| own_text::in_string(&content, text))
                    .unwrap_or_else(message)
            }
            Role::Tool => message(),
            _ => Vec::new(),
        }
    }
}
