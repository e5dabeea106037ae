//! The index of a conversation: of each message what may be quoted of it, redacted. It is extended by what is new.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::message::{Item, Message, Said};
use super::pairs::Pairs;
use super::reader::{PartsRead, Reader, Settings};
use crate::agents::wordings::UserText;
use crate::redact::unnamed;
use crate::transcript::{Agent, Answered, Transcript, Turn};
use crate::wire::Role;

/// What is known of a conversation's messages.
///
/// It holds no part of a request, so that it outlives one; what it holds is redacted and bounded for each message.
#[derive(Debug, Default)]
pub struct Index {
    settings: Settings,
    agent: Option<Agent>,
    pub(super) messages: Vec<Message>,
    pairs: Pairs,
}

impl Index {
    /// An empty one.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Goes on to a later request of the conversation, and returns how many messages were read: those that are not
    /// there already. Of a conversation that went on from an earlier point, what came behind that point goes.
    pub fn extend(&mut self, transcript: &Transcript<'_>) -> usize {
        let agent = transcript.agent();
        if agent != self.agent {
            self.truncate(0);
            self.agent = agent;
        }
        let known = self.messages.iter().zip(transcript.turns());
        let same = known
            .take_while(|(message, turn)| message.digest == Some(digest(turn)))
            .count();
        self.truncate(same);
        let parts = PartsRead::default();
        for turn in transcript.turns().skip(same) {
            let mut reader = Reader {
                settings: &self.settings,
                agent: self.agent,
                transcript: Some(transcript),
                parts: &parts,
                pairs: &mut self.pairs,
                before: &self.messages,
            };
            let message = reader.message(&turn, Some(digest(&turn)));
            self.push(message);
        }
        transcript.len() - same
    }

    /// Adds the model's answer to the last request, which the next request will hold as a message of its own.
    pub fn answered(&mut self, answer: &Answered<'_>) {
        let reader = Reader {
            settings: &self.settings,
            agent: self.agent,
            transcript: None,
            parts: &PartsRead::default(),
            pairs: &mut self.pairs,
            before: &self.messages,
        };
        let message = reader.answer(answer);
        if !message.items.is_empty() {
            self.push(message);
        }
    }

    /// How many messages say or do something, summaries and carry-over prompts not counted: what there is to hand off.
    pub fn spoken(&self) -> usize {
        let counts = |item: &Item| match item {
            Item::Said(said) => !matches!(
                said.kind,
                UserText::Summary | UserText::Branch | UserText::Harness
            ),
            Item::Call(_) | Item::Result(_) => true,
        };
        let messages = self.messages.iter();
        messages
            .filter(|message| message.items.iter().any(counts))
            .count()
    }

    /// Without credentials.
    pub(super) fn clean(&self, text: &str) -> String {
        let known = self.settings.redactor.text(text);
        unnamed::redacted(&known).into_owned()
    }

    fn push(&mut self, message: Message) {
        self.pairs.add(self.messages.len(), &message);
        if message.summary_before
            && let Some(Item::Said(said)) = self.messages.iter_mut().rev().find_map(last_user)
        {
            said.kind = UserText::Summary;
        }
        self.messages.push(message);
    }

    fn truncate(&mut self, len: usize) {
        if len < self.messages.len() {
            self.messages.truncate(len);
            self.pairs = Pairs::of(&self.messages);
        }
    }
}

/// The last text in a user's place of a message.
fn last_user(message: &mut Message) -> Option<&mut Item> {
    let is_user = message.role == Role::User;
    let said = |item: &&mut Item| {
        matches!(
            item,
            Item::Said(Said {
                kind: UserText::Person,
                ..
            })
        )
    };
    message.items.iter_mut().rev().find(said).filter(|_| is_user)
}

/// Tells one message from another. Agents move their cache breakpoints, so the last messages of a request mostly differ
/// from the same ones in the next: those are read again.
fn digest(turn: &Turn<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    turn.raw().hash(&mut hasher);
    hasher.finish()
}
