//! The index of a conversation: redacted excerpts of each message.

use std::collections::HashMap;

use super::message::{IndexedItem, IndexedMessage, IndexedResult, IndexedText, ItemPosition};
use super::reader::{DraftIndexSettings, MessageReader};
use super::said::{self, TypedMessage};
use super::whereabouts::Whereabouts;
use crate::agents::background::BackgroundEnd;
use crate::agents::speakers::SpeakerSettings;
use crate::agents::wordings::UserText;
use crate::text::Span;
use crate::transcript::{AgentKind, AnswerContent, SaidPart, Transcript, TranscriptPartKind};
use crate::wire::Role;

/// Index of a conversation's messages.
///
/// The index borrows nothing from the request. Its content is redacted, and bounded for each message.
#[derive(Debug, Default)]
pub struct DraftIndex {
    pub(crate) settings: DraftIndexSettings,
    agent: Option<AgentKind>,
    whereabouts: Whereabouts,
    pub(crate) messages: Vec<IndexedMessage>,
    /// Results of commands that still run in the background, by the identities of the commands.
    running: HashMap<String, Vec<ItemPosition>>,
    /// Results of commands that ended with a code but without their output, by the identities of the commands.
    ended: HashMap<String, (Vec<ItemPosition>, i32)>,
}

impl DraftIndex {
    /// Creates an index without messages.
    pub fn new(settings: DraftIndexSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Indexes a request.
    pub fn from_transcript(settings: DraftIndexSettings, transcript: &Transcript<'_>) -> Self {
        let mut index = Self::new(settings);
        index.agent = transcript.agent();
        index.whereabouts = Whereabouts::from_transcript(transcript);
        // Keyed by the message and the start of the call's part.
        let mut calls: HashMap<(usize, usize), ItemPosition> = HashMap::new();
        let settings = index.settings.clone();
        let mut reader = transcript.said_by(SpeakerSettings {
            tags: &settings.tags,
            backslashes: index.agent == Some(AgentKind::GeminiCli),
            carry_overs: &settings.carry_overs,
        });
        // Words of the model and of tools, by their turns.
        let mut others: Vec<(usize, Span)> = Vec::new();
        for turn in transcript.turns() {
            let at = index.messages.len();
            let said = reader.next_turn(&turn);
            let is_result = |said: &&SaidPart<'_>| matches!(said.part.kind, TranscriptPartKind::Result(_));
            match turn.role {
                Role::Assistant => others.push((at, turn.span)),
                _ => others.extend(said.iter().filter(is_result).map(|said| (at, said.part.span))),
            }
            // The reader sees the messages so far, because the meaning of a result depends on its call.
            let (message, parts) = index.reader().message(&turn, &said, &calls);
            calls.extend(parts.into_iter().map(|(part, item)| ((at, part), (at, item))));
            index.push(message);
        }
        // The facts need no sentences.
        if index.settings.quotes {
            index.drop_quoted(transcript, &others);
        }
        index
    }

    /// Drops the user's sentences that the model or a tool said before: a user who repeats a rule of theirs states none.
    fn drop_quoted(&mut self, transcript: &Transcript<'_>, others: &[(usize, Span)]) {
        let messages = self.messages.iter().enumerate();
        let texts = messages.flat_map(|(turn, message)| {
            let texts = message.items.iter().filter_map(typed_text);
            texts.map(move |text| (turn, said::typed(&text.text).join("\n")))
        });
        let texts: Vec<(usize, String)> = texts.collect();
        let typed = texts
            .iter()
            .map(|(turn, typed)| TypedMessage { turn: *turn, typed });
        let found = said::quoted(transcript, others, &typed.collect::<Vec<_>>(), |_, _| false);
        let items = self.messages.iter_mut().flat_map(|message| &mut message.items);
        let items = items.filter(|item| typed_text(item).is_some());
        for (item, quoted) in items.zip(found) {
            if let IndexedItem::Text(text) = item {
                let is_quoted = |text: &str| quoted.is_copy || quoted.sentences.contains(text.trim());
                text.anchors.retain(|anchor| !is_quoted(&anchor.text));
            }
        }
    }

    /// Adds the model's response to the last request. The next request will have it as a message.
    pub fn answered(&mut self, answer: &AnswerContent<'_>) {
        let message = self.reader().answer(answer);
        if !message.items.is_empty() {
            self.push(message);
        }
    }

    /// The directory and branch that the agent states; otherwise the directory that most of its calls name.
    pub fn whereabouts(&self) -> Whereabouts {
        self.whereabouts.clone().or_of_calls(&self.messages)
    }

    /// Number of messages with content, without summaries and carry-over prompts: the work to hand off.
    pub fn spoken(&self) -> usize {
        let counts = |item: &IndexedItem| match item {
            IndexedItem::Text(words) => !matches!(
                words.kind,
                UserText::Summary | UserText::Branch | UserText::Harness
            ),
            IndexedItem::Call(_)
            | IndexedItem::Result(_)
            | IndexedItem::Task(_)
            | IndexedItem::TaskList(_) => true,
            IndexedItem::Gap => false,
        };
        let counts = |message: &&IndexedMessage| message.items.iter().any(counts);
        self.messages.iter().filter(counts).count()
    }

    /// Redacts credentials.
    pub fn clean(&self, text: &str) -> String {
        self.settings.redactor.cleaned(text)
    }

    fn reader(&self) -> MessageReader<'_> {
        MessageReader {
            settings: &self.settings,
            agent: self.agent,
            before: &self.messages,
        }
    }

    fn push(&mut self, mut message: IndexedMessage) {
        // Only the message after a summary shows that the text before it was one.
        if message.summary_before {
            self.mark_summary();
        }
        for end in std::mem::take(&mut message.ended) {
            self.end_background(&end);
        }
        let at = self.messages.len();
        for (i, item) in message.items.iter().enumerate() {
            if let IndexedItem::Result(IndexedResult {
                session: Some(id), ..
            }) = item
            {
                self.running.entry(id.clone()).or_default().push((at, i));
            }
        }
        self.messages.push(message);
    }

    /// Records how a command ended that earlier results left in the background: that of its start, and those of calls that
    /// asked for its output.
    fn end_background(&mut self, end: &BackgroundEnd) {
        let Some(id) = &end.id else { return };
        let mut end = end.clone();
        let started = match end.is_output {
            // Output that was read before the end may be incomplete, and proves nothing.
            true => {
                let Some((started, code)) = self.ended.remove(id) else {
                    return;
                };
                end.code = Some(code);
                started
            }
            false => self.running.remove(id).unwrap_or_default(),
        };
        if let Some(code) = end.code.filter(|_| end.output.is_none() && !started.is_empty()) {
            self.ended.insert(id.clone(), (started.clone(), code));
        }
        for (at, i) in started {
            if let Some(IndexedItem::Result(result)) = self.messages[at].items.get(i) {
                let ended = self.reader().ended_later(result.call, &end);
                self.messages[at].items[i] = IndexedItem::Result(ended);
            }
        }
    }

    /// Marks the user's last text as a summary, if it directly precedes.
    fn mark_summary(&mut self) {
        /// Number of messages to search; the message that reveals a summary follows it closely.
        const NEAR: usize = 4;
        let users = self.messages.iter_mut().rev().take(NEAR);
        let items = users
            .filter(|message| message.role == Role::User)
            .flat_map(|message| message.items.iter_mut().rev());
        let mut texts = items.filter_map(|item| match item {
            IndexedItem::Text(words) if words.kind == UserText::User => Some(words),
            _ => None,
        });
        if let Some(words) = texts.next() {
            words.kind = UserText::Summary;
        }
    }
}

/// The user's own words in an item, unless they answer a question: the words of a chosen option are the model's.
fn typed_text(item: &IndexedItem) -> Option<&IndexedText> {
    match item {
        IndexedItem::Text(text) if !text.answers && text.anchors.iter().any(|anchor| anchor.by_user) => {
            Some(text)
        }
        _ => None,
    }
}
