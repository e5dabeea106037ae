//! The index of a conversation: redacted excerpts of each message, extended by new messages.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::message::{IndexedItem, IndexedMessage, ItemPosition};
use super::pairs::CallLookup;
use super::reader::{DraftIndexSettings, MessageReader, PartCache};
use crate::agents::wordings::UserText;
use crate::transcript::{AgentKind, AnswerContent, Transcript, TranscriptTurn};
use crate::wire::Role;

/// Indexed messages of a conversation.
///
/// It holds no part of a request, so that it outlives one; what it holds is redacted and bounded for each message.
#[derive(Debug, Default)]
pub struct DraftIndex {
    settings: DraftIndexSettings,
    agent: Option<AgentKind>,
    pub(super) messages: Vec<IndexedMessage>,
    pairs: CallLookup,
}

impl DraftIndex {
    /// An empty one.
    pub fn new(settings: DraftIndexSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Extends the index to a later request of the conversation, and returns the number of newly read messages. After a
    /// rewind, messages beyond the common prefix are dropped.
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
        let parts = PartCache::default();
        for turn in transcript.turns().skip(same) {
            let message = self
                .reader(Some(transcript), &parts)
                .message(&turn, Some(digest(&turn)));
            self.push(message);
        }
        transcript.len() - same
    }

    /// Adds the model's answer to the last request, which the next request will hold as a message of its own.
    pub fn answered(&mut self, answer: &AnswerContent<'_>) {
        let message = self.reader(None, &PartCache::default()).answer(answer);
        if !message.items.is_empty() {
            self.push(message);
        }
    }

    /// Number of messages with content, without summaries and carry-over prompts: the work to hand off.
    pub fn spoken(&self) -> usize {
        let counts = |item: &IndexedItem| match item {
            IndexedItem::Text(words) => !matches!(
                words.kind,
                UserText::Summary | UserText::Branch | UserText::Harness
            ),
            IndexedItem::Call(_) | IndexedItem::Result(_) | IndexedItem::Task(_) => true,
            IndexedItem::Gap => false,
        };
        let counts = |message: &&IndexedMessage| message.items.iter().any(counts);
        self.messages.iter().filter(counts).count()
    }

    /// About how much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.messages.iter().map(IndexedMessage::bytes).sum()
    }

    /// Patterns of files that hold a verification or a review.
    pub(super) fn verdicts(&self) -> &[String] {
        &self.settings.verdicts
    }

    /// Without credentials.
    pub fn clean(&self, text: &str) -> String {
        self.settings.redactor.cleaned(text)
    }

    fn reader<'r, 'a>(
        &'r mut self,
        transcript: Option<&'r Transcript<'a>>,
        parts: &'r PartCache<'a>,
    ) -> MessageReader<'r, 'a> {
        MessageReader {
            settings: &self.settings,
            agent: self.agent,
            transcript,
            parts,
            pairs: &mut self.pairs,
            before: &self.messages,
        }
    }

    fn push(&mut self, mut message: IndexedMessage) {
        self.pairs.add(self.messages.len(), &message);
        if message.summary_before {
            message.summary = self.last_of_person();
            self.mark(message.summary, UserText::Summary);
        }
        self.messages.push(message);
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.messages.len() {
            return;
        }
        // A dropped message no longer marks a kept one as a summary.
        let gone: Vec<_> = self
            .messages
            .drain(len..)
            .map(|message| message.summary)
            .collect();
        for place in gone {
            self.mark(place, UserText::Person);
        }
        self.pairs = CallLookup::of(&self.messages);
    }

    /// The last text of the person's, where it is right before.
    fn last_of_person(&self) -> Option<ItemPosition> {
        /// Number of messages that are searched: what marks a summary follows it closely.
        const NEAR: usize = 4;
        let users = self.messages.iter().enumerate().rev().take(NEAR);
        let mut users = users.filter(|(_, message)| message.role == Role::User);
        users.find_map(|(at, message)| {
            let is_person =
                |item: &IndexedItem| matches!(item, IndexedItem::Text(words) if words.kind == UserText::Person);
            Some((at, message.items.iter().rposition(is_person)?))
        })
    }

    /// Says what the text at this place is.
    fn mark(&mut self, place: Option<ItemPosition>, kind: UserText) {
        let Some((message, item)) = place else { return };
        let message = self.messages.get_mut(message);
        if let Some(IndexedItem::Text(words)) = message.and_then(|message| message.items.get_mut(item)) {
            words.kind = kind;
        }
    }
}

/// Digest of a message. Agents move their cache breakpoints, so the last messages of a request mostly differ from the
/// same ones in the next: those are read again.
fn digest(turn: &TranscriptTurn<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    turn.raw().hash(&mut hasher);
    hasher.finish()
}
