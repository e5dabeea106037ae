//! The user's own words in a transcript, without text from the harness, a shell or a paste.

use std::collections::{HashMap, HashSet};

use super::choice::choices;
use crate::agents::speakers::SpeakerSettings;
use crate::agents::wordings::{self, UserText};
use crate::handoffs::draft;
use crate::redact;
use crate::text::Span;
use crate::text::cut::floor;
use crate::text::prose::sentences;
use crate::transcript::{
    AgentKind, SaidPart, Transcript, TranscriptPart, TranscriptPartKind, TranscriptTurn,
};
use crate::wire::Role;
use crate::work::requests;
use crate::work::said::{PastedError, TypedMessage, quoted, typed};

/// Beginning and end of a pasted sentinel.
const SENTINEL: &str = "[[handoff-resume:";
const SENTINEL_ENDS: &str = "[[/handoff-resume:";

/// A message from the user.
#[derive(Debug, Default)]
pub(super) struct UserMessage {
    /// Index of the turn.
    pub(super) turn: usize,
    pub(super) text: String,
    /// The lines of the message without pastes; empty if most of them repeat words of the model or of a tool.
    pub(super) typed: String,
    /// The error that a paste in the message is about.
    pub(super) error: Option<PastedError>,
    /// For the newest message: the last question in the model's previous turn, or the offer that it accepts. Empty if the model
    /// made neither.
    pub(super) asked: String,
    /// Sentences of the message that the model or a tool said before.
    pub(super) quoted: HashSet<String>,
    /// Sentences that choose or answer, with the model's words that they refer to.
    pub(super) choices: HashMap<String, String>,
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
        // The model's turns before the next message and before the newest one.
        let (mut answer, mut answered): (Option<TranscriptTurn<'_>>, Option<TranscriptTurn<'_>>) =
            (None, None);
        // Words of the model and of tools, by their turns.
        let mut others: Vec<(usize, Span)> = Vec::new();
        for (at, turn) in transcript.turns().enumerate() {
            if turn.role == Role::Assistant {
                // The model's words show that the user text before them was the agent's summary.
                if messages.len() > newest && is_after_summary(&turn) {
                    messages.truncate(newest);
                    answered = None;
                }
                reader.pass(&turn);
                others.push((at, turn.span));
                answer = Some(turn);
                continue;
            }
            let said = reader.next_turn(&turn);
            let is_result = |said: &&SaidPart<'_>| matches!(said.part.kind, TranscriptPartKind::Result(_));
            let results = said.iter().filter(is_result);
            others.extend(results.map(|said| (at, said.part.span)));
            if !matches!(turn.role, Role::User | Role::Tool) {
                continue;
            }
            messages.extend(
                said.iter()
                    .filter_map(|said| UserMessage::of_summary(said, carry_over)),
            );
            newest = messages.len();
            let own = said
                .iter()
                .map(SaidPart::users_words)
                .filter(|own| !own.is_empty());
            let mut own: Vec<String> = own.map(|own| without_sentinels(&own)).collect();
            // Sent again after an interruption.
            own.dedup();
            if !own.is_empty() {
                answered = answer.take();
                let text = own.join("\n");
                let is_secret = answered.as_ref().is_some_and(|asked| is_secret(&text, asked));
                let own = if is_secret {
                    vec![redact::mark("password")]
                } else {
                    own
                };
                let mut message = UserMessage::new(&own);
                message.turn = at;
                if let Some(answered) = &answered {
                    message.choices = choices(&message.typed, || last_text(answered));
                }
                said.iter().for_each(|said| message.answer(said));
                messages.push(message);
            }
        }
        if let (Some(last), Some(answered)) = (messages.last_mut(), answered) {
            last.find_asked(&answered);
        }
        find_quoted(transcript, &others, &mut messages);
        Self(messages)
    }

    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Self {
        Self(vec![UserMessage::new(&[text.to_owned()])])
    }
}

impl UserMessage {
    /// A message of some text blocks. A paste in one of them does not reach into the others.
    fn new(texts: &[String]) -> Self {
        let typed: Vec<Vec<&str>> = texts.iter().map(|text| typed(text)).collect();
        let pairs = texts.iter().zip(&typed).rev();
        Self {
            error: pairs
                .filter_map(|(text, typed)| PastedError::find(text, typed))
                .next(),
            typed: typed.concat().join("\n"),
            text: texts.join("\n"),
            ..Self::default()
        }
    }

    /// The request that the agent's summary states. It stands for those before it, in other words than the user's.
    fn of_summary(said: &SaidPart<'_>, carry_over: Option<&str>) -> Option<Self> {
        let mut spoken = said.spoken.iter().filter(|spoken| spoken.by == UserText::Summary);
        let text = said.of(spoken.next()?);
        let is_handed_over = carry_over.is_some_and(|prompt| prompt.contains(text.trim()));
        let goal = draft::summed_goal(text).filter(|_| !is_handed_over)?;
        Some(Self {
            text: format!("(From the agent's summary: {goal})"),
            ..Self::default()
        })
    }

    /// Finds the question or the offer in the model's turn before the message, unless the message has one.
    fn find_asked(&mut self, answered: &TranscriptTurn<'_>) {
        if self.asked.is_empty() {
            let text = last_text(answered);
            let offered = requests::last_offer(&text).filter(|_| requests::accepts(&self.text));
            let asked = requests::last_question(&text).or(offered);
            self.asked = asked.unwrap_or_default().to_owned();
        }
    }

    /// Adds the questions that a result with the user's answers repeats.
    fn answer(&mut self, said: &SaidPart<'_>) {
        for (spoken, asked) in said.spoken.iter().zip(&said.asked) {
            let first = said.of(spoken).lines().flat_map(sentences).next();
            if let Some(first) = first.filter(|_| !asked.is_empty()) {
                self.choices.insert(first.trim().to_owned(), asked.clone());
            }
            self.asked.clone_from(asked);
        }
    }
}

/// Finds the sentences that the user copied from the model or from a result.
fn find_quoted(transcript: &Transcript<'_>, others: &[(usize, Span)], messages: &mut [UserMessage]) {
    let typed = messages.iter().map(|message| TypedMessage {
        turn: message.turn,
        typed: &message.typed,
    });
    let typed: Vec<TypedMessage<'_>> = typed.collect();
    // The words of a chosen option are the model's, but the choice is the user's.
    let is_own = |n: usize, sentence: &str| messages[n].choices.contains_key(sentence.trim());
    let found = quoted(transcript, others, &typed, is_own);
    for (message, quoted) in messages.iter_mut().zip(found) {
        message.quoted = quoted.sentences;
        if quoted.is_copy {
            message.typed.clear();
        }
    }
}

/// Whether a message is a secret that the model asked for.
fn is_secret(text: &str, asked: &TranscriptTurn<'_>) -> bool {
    redact::may_be_asked_for(text)
        && !requests::is_reply(text)
        && redact::is_asked_for(text, &last_text(asked))
}

fn last_text(turn: &TranscriptTurn<'_>) -> String {
    let mut texts = turn.parts().into_iter().rev().filter_map(|part| part.speech());
    let last = texts.find(|text| !text.trim().is_empty());
    last.unwrap_or_default().to_string()
}

fn is_after_summary(turn: &TranscriptTurn<'_>) -> bool {
    let text = turn.parts().first().and_then(TranscriptPart::speech);
    text.is_some_and(|text| wordings::follows_summary(&text))
}

/// The text without sentinels that the user pasted, each with the carry-over prompt after it.
///
/// A sentinel within a sentence is the user's word, and stays.
fn without_sentinels(text: &str) -> String {
    /// Maximum size in bytes of an id with the brackets after it.
    const MAX_ID_BYTES: usize = 64;
    if !text.contains(SENTINEL) {
        return text.to_owned();
    }
    let is_block = |below: &str| below.trim_start().starts_with("*Handed over");
    // Searched once only, because the text may have any number of beginnings without an end.
    let last_end = text.rfind(SENTINEL_ENDS).unwrap_or_default();
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(SENTINEL) {
        // An id has 36 characters, and a search in the whole line would begin again for each sentinel.
        let near = &after[..floor(after, MAX_ID_BYTES)];
        let end = near.find("]]").map(|end| end + "]]".len());
        kept.push_str(before);
        // Also removes a quotation mark before it.
        let before_it = kept.trim_end_matches(['>', ' ']);
        let is_within = !before_it.is_empty() && !before_it.ends_with('\n');
        let is_mention = |end: &usize| is_within && !near[..*end].contains('\n') && !is_block(&after[*end..]);
        if let Some(end) = end.filter(is_mention) {
            kept.extend([SENTINEL, &after[..end]]);
            rest = &after[end..];
            continue;
        }
        kept.truncate(before_it.len());
        kept.push('\n');
        let has_end = text.len() - after.len() <= last_end;
        rest = match has_end.then(|| after.split_once(SENTINEL_ENDS)).flatten() {
            Some((_, end)) => end.split_once("]]").map_or("", |(_, rest)| rest),
            None => {
                let below = after.split_once('\n').map_or("", |(_, below)| below);
                // A truncated block: its end is unknown.
                if is_block(below) { "" } else { below }
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
            (format!("See: {id}\n*Handed over.*\n\nNever x."), "See:"),
            (format!("What is {id}?"), &format!("What is {id}?")),
            (
                format!("Look at {id} first.\n{id}\nGo on."),
                &format!("Look at {id} first.\n\nGo on."),
            ),
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
