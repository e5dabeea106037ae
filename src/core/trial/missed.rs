//! Look-ups that a session repeated after a cut.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::handoffs::carry::{LookUp, REQUESTS, look_ups};
use crate::handoffs::yaml;
use crate::transcript::TranscriptTurn;

/// Reads the entries of a session around a cut.
#[derive(Debug, Default)]
pub struct MissedReader {
    before: HashSet<LookUp>,
    again: Vec<String>,
    answers: usize,
}

impl MissedReader {
    /// Takes an entry of the session, from before or after the cut.
    pub fn entry(&mut self, entry: &Json, is_before: bool) {
        // Later look-ups are no longer a consequence of the cut.
        if self.answers > REQUESTS {
            return;
        }
        let messages = yaml::messages(entry);
        self.answers += usize::from(!is_before && messages.iter().any(yaml::SessionMessage::is_models));
        for message in messages {
            let text = message.message.to_string();
            let turn = TranscriptTurn::alone(text.as_bytes(), message.role());
            look_ups(&turn, &mut |look_up| {
                if is_before {
                    self.before.insert(look_up);
                } else if self.before.remove(&look_up) {
                    self.again.push(look_up.into_text());
                }
            });
        }
    }

    /// Files read again and commands run again within the next requests that this prompt does not name.
    pub fn beyond(self, prompt: &str) -> Vec<String> {
        let is_named = |text: &String| {
            // A prompt may name a file without its directories.
            let name = text.rsplit('/').next().unwrap_or(text);
            prompt.contains(name.trim_matches('`'))
        };
        self.again.into_iter().filter(|text| !is_named(text)).collect()
    }
}
