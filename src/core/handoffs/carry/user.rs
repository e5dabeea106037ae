//! The user's own words in a transcript, without text from the harness, a shell or a paste.

use std::collections::HashSet;

use crate::agents::speakers::SpeakerSettings;
use crate::agents::wordings;
use crate::text::prose::sentences;
use crate::transcript::{AgentKind, SaidPart, Transcript};
use crate::wire::Role;
use crate::work::said::typed;

/// Beginning and end of a pasted sentinel.
const SENTINEL: &str = "[[handoff-resume:";
const SENTINEL_ENDS: &str = "[[/handoff-resume:";

/// A message from the user.
#[derive(Debug)]
pub(super) struct UserMessage {
    /// Index of the turn.
    pub(super) turn: usize,
    pub(super) text: String,
    /// The model's question at the end of its previous turn; empty if there was none.
    pub(super) asked: String,
    /// Sentences of the message that the model or a tool said before.
    pub(super) quoted: HashSet<String>,
}

/// The messages of the user in a transcript, oldest first.
#[derive(Debug, Default)]
pub struct UserMessages(pub(super) Vec<UserMessage>);

impl UserMessages {
    /// Reads a transcript.
    ///
    /// `tags` lists beginnings of harness text. `carry_over` is the prompt that the transcript may begin with, as a
    /// user turn.
    pub fn from_transcript(transcript: &Transcript<'_>, tags: &[String], carry_over: Option<&str>) -> Self {
        let carry_overs: Vec<String> = carry_over.map(str::to_owned).into_iter().collect();
        let mut reader = transcript.said_by(SpeakerSettings {
            tags,
            backslashes: transcript.agent() == Some(AgentKind::GeminiCli),
            carry_overs: &carry_overs,
        });
        let mut messages: Vec<UserMessage> = Vec::new();
        let mut newest = 0;
        let mut asked = String::new();
        for (at, turn) in transcript.turns().enumerate() {
            let said = reader.next_turn(&turn);
            match turn.role {
                Role::User | Role::Tool => {
                    newest = messages.len();
                    let own = said
                        .iter()
                        .map(SaidPart::users_words)
                        .filter(|own| !own.is_empty());
                    let own: Vec<String> = own.map(|own| without_sentinels(&own)).collect();
                    if !own.is_empty() {
                        messages.push(UserMessage {
                            turn: at,
                            text: own.join("\n"),
                            asked: std::mem::take(&mut asked),
                            quoted: HashSet::new(),
                        });
                    }
                }
                Role::Assistant => {
                    // The model's words show that the user text before them was the agent's summary.
                    if messages.len() > newest && is_after_summary(&said) {
                        messages.truncate(newest);
                    }
                    asked = question(&said);
                }
                _ => {}
            }
        }
        find_quoted(transcript, &mut messages);
        Self(messages)
    }

    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Self {
        let (turn, asked) = (0, String::new());
        let text = text.to_owned();
        let quoted = HashSet::new();
        Self(vec![UserMessage {
            turn,
            text,
            asked,
            quoted,
        }])
    }
}

impl UserMessage {
    /// The lines of the message without pastes.
    pub(super) fn lines(&self) -> Vec<&str> {
        typed(&self.text)
    }
}

/// Minimum size in bytes of a sentence that cannot occur twice by chance.
const MIN_QUOTED_BYTES: usize = 40;

/// Finds the sentences that the user copied from the model or from a result.
fn find_quoted(transcript: &Transcript<'_>, messages: &mut [UserMessage]) {
    let mut long: Vec<(usize, usize, String)> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let lines = message.lines();
        let sentences = lines.iter().flat_map(|line| sentences(line));
        let sentences = sentences.filter(|sentence| sentence.len() >= MIN_QUOTED_BYTES);
        long.extend(sentences.map(|sentence| (n, message.turn, sentence.to_owned())));
    }
    let said: Vec<(usize, &str)> = long
        .iter()
        .map(|(_, turn, sentence)| (*turn, &**sentence))
        .collect();
    let before = transcript.said_before(&said);
    for ((n, _, sentence), _) in long.into_iter().zip(before).filter(|(_, before)| *before) {
        // A user who pastes the model's `never do this` states no rule.
        messages[n].quoted.insert(sentence);
    }
}

/// The question that the model's turn ends with.
fn question(said: &[SaidPart<'_>]) -> String {
    let last = said.iter().rev().find(|said| !said.text.trim().is_empty());
    let line = last
        .and_then(|last| last.text.trim().lines().next_back())
        .unwrap_or_default();
    let asks = line.trim_end().ends_with(['?', '？']);
    let sentence = sentences(line).last().filter(|_| asks);
    sentence.unwrap_or_default().to_owned()
}

fn is_after_summary(said: &[SaidPart<'_>]) -> bool {
    said.first()
        .is_some_and(|first| wordings::follows_summary(&first.text))
}

/// The text without sentinels that the user pasted, each with the carry-over prompt after it.
fn without_sentinels(text: &str) -> String {
    // Searched once only, because the text may have any number of beginnings without an end.
    let last_end = text.rfind(SENTINEL_ENDS).unwrap_or_default();
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(SENTINEL) {
        // Also removes a quotation mark before it.
        kept.push_str(before.trim_end_matches(['>', ' ']));
        kept.push('\n');
        let has_end = text.len() - after.len() <= last_end;
        rest = match has_end.then(|| after.split_once(SENTINEL_ENDS)).flatten() {
            Some((_, end)) => end.split_once("]]").map_or("", |(_, rest)| rest),
            None => {
                let below = after.split_once('\n').map_or("", |(_, below)| below);
                // A truncated block: its end is unknown.
                let is_block = below.trim_start().starts_with("*Handed over");
                if is_block { "" } else { below }
            }
        };
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pasted_sentinel_is_none_of_the_users_words() {
        let id = "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]";
        for (text, own) in [
            (
                format!("{id}\n*Handed over.*\n\nNever x.\n[[/handoff-resume:abc]]\nGo on."),
                "Go on.",
            ),
            (format!("> {id}\nGo on."), "Go on."),
            (format!("{id}\n*Handed over.*\n\nNever x."), ""),
            (format!("What is {id}?"), "What is"),
            (
                format!(
                    "See:\n{id}\n*Handed over.*\n\nNever x.\n[[/handoff-resume:abc]]\n\n{id}\n*Handed over.*\n\nNever y."
                ),
                "See:",
            ),
        ] {
            let left = without_sentinels(&text);
            assert!(
                left.trim().starts_with(own) && !left.contains("Never"),
                "{text}: {left}"
            );
        }
    }
}
