//! The index of a conversation: redacted excerpts of each message.

use super::message::{IndexedItem, IndexedMessage};
use super::pairs::CallLookup;
use super::reader::{DraftIndexSettings, MessageReader, PartCache};
use crate::agents::wordings::UserText;
use crate::transcript::{AgentKind, AnswerContent, Transcript};
use crate::wire::Role;

/// Indexed messages of a conversation.
///
/// It holds no part of the request; what it holds is redacted and bounded for each message.
#[derive(Debug, Default)]
pub struct DraftIndex {
    settings: DraftIndexSettings,
    agent: Option<AgentKind>,
    pub(super) messages: Vec<IndexedMessage>,
    pairs: CallLookup,
}

impl DraftIndex {
    /// The index of a request that has no message.
    pub fn new(settings: DraftIndexSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// The index of a request.
    pub fn of(settings: DraftIndexSettings, transcript: &Transcript<'_>) -> Self {
        let mut index = Self::new(settings);
        index.agent = transcript.agent();
        let parts = PartCache::default();
        for turn in transcript.turns() {
            let message = index.reader(Some(transcript), &parts).message(&turn);
            index.push(message);
        }
        index
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

    fn push(&mut self, message: IndexedMessage) {
        self.pairs.add(self.messages.len(), &message);
        if message.summary_before {
            self.mark_summary();
        }
        self.messages.push(message);
    }

    /// The last text of the person's is a summary, where it is right before.
    fn mark_summary(&mut self) {
        /// Number of messages that are searched: what marks a summary follows it closely.
        const NEAR: usize = 4;
        let users = self.messages.iter_mut().rev().take(NEAR);
        let items = users
            .filter(|message| message.role == Role::User)
            .flat_map(|message| message.items.iter_mut().rev());
        let mut texts = items.filter_map(|item| match item {
            IndexedItem::Text(words) if words.kind == UserText::Person => Some(words),
            _ => None,
        });
        if let Some(words) = texts.next() {
            words.kind = UserText::Summary;
        }
    }
}
