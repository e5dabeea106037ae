//! Reads a message of a transcript into the facts that the index keeps.

use std::collections::HashMap;

use super::excerpt::{self, RESULT, bounded, one_line};
use super::message::{
    IndexedCall, IndexedItem, IndexedMessage, IndexedResult, IndexedText, IndexedTodo, ItemPosition,
};
use super::words::WORDS;
use super::{AnchoredSentence, SentenceClass, markers, requests, said};
use crate::agents::background::{self, BackgroundEnd};
use crate::agents::files::{self, FileChange};
use crate::agents::tools::{self, ToolKind};
use crate::agents::wordings::{self, UserText};
use crate::agents::{commands, secret_files, todo};
use crate::redact::{self, Redactor};
use crate::transcript::{
    AgentKind, AnswerContent, AnswerPartKind as Answer, SaidPart, ToolResult, TranscriptPart,
    TranscriptPartKind, TranscriptTurn,
};
use crate::wire::Role;

/// Maximum size of a block of text in bytes; only the beginning and end of longer ones are kept.
const TEXT: usize = 16 * 1024;
/// Maximum size of a command in bytes. Of a longer one, it is not known how its parts ended.
const COMMAND: usize = 1600;
/// Maximum size of a call's subject in bytes.
const ABOUT: usize = 160;
/// Maximum size of a question to the user in bytes.
const QUESTION: usize = 300;

/// Heading of the user's last message after a document.
pub(crate) const OPEN_MESSAGE: &str = "The user's last message, still to be answered:";

/// Settings of an index, constant for its life.
#[derive(Debug, Clone)]
pub struct DraftIndexSettings {
    /// Beginnings of harness text (`handoff.preamble_tags`).
    pub tags: Vec<String>,
    /// Additional words that make a sentence a constraint, in lower case.
    pub markers: Vec<String>,
    /// Words that make a model's sentence an assumption, in lower case.
    pub assumptions: Vec<String>,
    /// Patterns of files that hold a verification or a review.
    pub verdicts: Vec<String>,
    /// Carry-over prompts of earlier handoffs. In the model's view they stand in a user turn.
    pub carry_overs: Vec<String>,
    /// Whether to keep the text that a draft quotes: lines of results, and the model's sentences.
    pub quotes: bool,
    /// Removes credentials from kept text.
    pub redactor: Redactor,
}

impl Default for DraftIndexSettings {
    fn default() -> Self {
        Self {
            tags: Vec::new(),
            markers: Vec::new(),
            assumptions: WORDS.assumptions.iter().map(|word| (*word).to_owned()).collect(),
            verdicts: Vec::new(),
            carry_overs: Vec::new(),
            quotes: true,
            redactor: Redactor::default(),
        }
    }
}

/// Reads a message of a transcript.
pub(crate) struct MessageReader<'r> {
    pub(crate) settings: &'r DraftIndexSettings,
    pub(crate) agent: Option<AgentKind>,
    pub(crate) before: &'r [IndexedMessage],
}

impl MessageReader<'_> {
    /// Reads a message, and returns the start of each call's part with the index of its item.
    ///
    /// `said` has the parts of the message, and `calls` the positions of earlier calls.
    pub(crate) fn message(
        &self,
        turn: &TranscriptTurn<'_>,
        said: &[SaidPart<'_>],
        calls: &HashMap<(usize, usize), ItemPosition>,
    ) -> (IndexedMessage, Vec<(usize, usize)>) {
        let mut items = Vec::new();
        let mut parts = Vec::new();
        let mut ended = Vec::new();
        let mut summary_before = false;
        if turn.role.is_spoken() {
            let mut texts = 0;
            for said in said {
                let part = &said.part;
                texts = match part.kind {
                    TranscriptPartKind::Text(_) => texts + 1,
                    _ => 0,
                };
                // When goose continues in another process, it omits calls without output and joins the text around
                // them.
                if texts == 2 && turn.role == Role::Assistant && self.agent == Some(AgentKind::Goose) {
                    items.push(IndexedItem::Gap);
                }
                match part.kind {
                    TranscriptPartKind::Text(_) if turn.role == Role::User => {
                        ended.extend(BackgroundEnd::read(&said.text));
                        self.spoken(said, &mut items);
                    }
                    TranscriptPartKind::Text(_) => self.models(&said.text, &mut items),
                    TranscriptPartKind::Call(call) => {
                        parts.push((part.span.start, items.len()));
                        let called = self.called(call.named(), &call.given());
                        // OpenCode announces a call that the user ran.
                        let is_users = || self.follows(UserText::UserShell);
                        items.push(IndexedItem::Call(IndexedCall {
                            by_user: called.kind == ToolKind::Shell && is_users(),
                            ..called
                        }));
                    }
                    TranscriptPartKind::Result(result) => {
                        let used = said.used.as_ref();
                        let place = used.and_then(|used| calls.get(&(used.turn, used.part.span.start)));
                        let text = part.text();
                        let item = self.result(said, &result, place.copied(), &text);
                        ended.extend(item.as_ref().and_then(|item| self.ended(item, &text)));
                        items.extend(item);
                        self.spoken(said, &mut items);
                    }
                    _ => {}
                }
            }
            summary_before = turn.role == Role::Assistant
                && matches!(items.first(), Some(IndexedItem::Text(words)) if wordings::follows_summary(&words.text));
        }
        let message = IndexedMessage {
            role: turn.role,
            time: self
                .settings
                .quotes
                .then(|| turn.time().map(str::to_owned))
                .flatten(),
            items,
            summary_before,
            ended,
        };
        (message, parts)
    }

    pub(crate) fn answer(&self, answer: &AnswerContent<'_>) -> IndexedMessage {
        let mut items = Vec::new();
        for part in &answer.parts {
            match part.kind {
                Answer::Text | Answer::Refusal => self.models(&part.text(), &mut items),
                Answer::Call => {
                    let name = part.name.map(|name| name.get().into_owned()).unwrap_or_default();
                    items.push(IndexedItem::Call(self.called(name, &part.text())));
                }
                Answer::Thinking | Answer::Error => {}
            }
        }
        IndexedMessage {
            role: Role::Assistant,
            time: None,
            items,
            summary_before: false,
            ended: Vec::new(),
        }
    }

    /// Redacts credentials; all kept text passes through here.
    pub(super) fn clean(&self, text: &str) -> String {
        self.settings.redactor.cleaned(text)
    }

    /// Adds the text of a user turn.
    fn spoken(&self, said: &SaidPart<'_>, items: &mut Vec<IndexedItem>) {
        if said.asked.iter().any(|asked| !asked.is_empty()) {
            let answers = said.spoken.iter().zip(&said.asked);
            return answers.for_each(|(spoken, asked)| self.answered(said.of(spoken), asked, items));
        }
        let mut own = Some(said.users_words()).filter(|own| !own.is_empty());
        for spoken in &said.spoken {
            let text = said.of(spoken);
            match spoken.by {
                // The user's words in a part form one text, even with injected text in between.
                UserText::User => {
                    if let Some(own) = own.take() {
                        self.text(UserText::User, &own, true, items);
                    }
                }
                UserText::UserShell if self.user_ran(text, items) => {}
                // For the agent's request for a summary, its presence is all that matters.
                UserText::Harness if wordings::asks_for_summary(text) => {
                    items.push(IndexedItem::Text(IndexedText {
                        kind: UserText::Harness,
                        text: text.trim().to_owned(),
                        anchors: Vec::new(),
                        answers: false,
                    }))
                }
                UserText::Harness | UserText::Expansion | UserText::Attached => {}
                by => self.text(by, text, true, items),
            }
        }
    }

    /// Adds the user's answer to a question of the model, which the answer needs to be understood.
    fn answered(&self, typed: &str, asked: &str, items: &mut Vec<IndexedItem>) {
        self.text(UserText::User, typed, true, items);
        if let Some(IndexedItem::Text(answer)) = items.last_mut() {
            answer.answers = true;
            let first = answer.anchors.first().map(|anchor| anchor.text.clone());
            let first = first.unwrap_or_else(|| one_line(&answer.text, said::MAX_SENTENCE_BYTES));
            let text = said::in_answer(&first, &self.clean(asked));
            let class = SentenceClass::Decision;
            match answer.anchors.first_mut() {
                Some(anchor) => {
                    anchor.text = text;
                    anchor.class = class;
                }
                None => answer.anchors.push(AnchoredSentence {
                    class,
                    by_user: true,
                    text,
                }),
            }
        }
    }

    /// Adds the model's text.
    fn models(&self, text: &str, items: &mut Vec<IndexedItem>) {
        // No other words of the harness are kept than requests for a summary.
        let is_summary =
            self.follows(UserText::Harness) || text.trim_start().starts_with("[[handoff-resume:");
        let kind = if is_summary {
            UserText::Summary
        } else {
            UserText::User
        };
        self.text(kind, text, false, items);
    }

    fn text(&self, kind: UserText, text: &str, by_user: bool, items: &mut Vec<IndexedItem>) {
        if text.trim().is_empty() {
            return;
        }
        let text = match kind {
            UserText::Summary => self.clean(&bounded(&as_quoted(text), TEXT)),
            UserText::User if by_user && self.is_asked_for(text) => redact::mark("password"),
            _ => self.clean(&bounded(text, TEXT)),
        };
        let anchors = match kind {
            UserText::User if self.settings.quotes || by_user => {
                let (constraints, assumptions) = (&self.settings.markers, &self.settings.assumptions);
                match by_user {
                    true => said::anchors(&text, constraints),
                    false => markers::anchors(&text, constraints, assumptions),
                }
            }
            _ => Vec::new(),
        };
        items.push(IndexedItem::Text(IndexedText {
            kind,
            text,
            anchors,
            answers: false,
        }));
    }

    /// Whether the user's words are a secret that the model asked for.
    fn is_asked_for(&self, text: &str) -> bool {
        let mut earlier = self.before.iter().rev();
        let asked = earlier.find(|message| message.role == Role::Assistant);
        let asked = asked.and_then(|message| match message.items.last() {
            Some(IndexedItem::Text(words)) => Some(&words.text),
            _ => None,
        });
        asked.is_some_and(|asked| redact::is_asked_for(text, asked) && !requests::is_reply(text))
    }

    /// Whether the previous message ends with words of this kind.
    fn follows(&self, kind: UserText) -> bool {
        let last = self.before.last().and_then(|message| message.items.last());
        matches!(last, Some(IndexedItem::Text(words)) if words.kind == kind)
    }

    pub(crate) fn called(&self, name: String, text: &str) -> IndexedCall {
        let (name, arguments) = tools::called(name, text);
        let kind = ToolKind::from_call(&name, &arguments);
        let command = tools::command(&arguments).filter(|_| kind == ToolKind::Shell);
        let paths = files::named(kind, &arguments, command.as_deref());
        let more = self.settings.redactor.secret_files();
        let mut secrets = secret_files::of_call(kind, &paths, command.as_deref(), more);
        for file in &mut secrets {
            // A path may itself contain a credential.
            file.path = one_line(&self.clean(&file.path), ABOUT);
        }
        let about = match (&command, paths.first()) {
            (Some(command), _) => self.clean(&bounded(&commands::without_texts(command), RESULT)),
            (None, Some((path, _))) => path.clone(),
            (None, None) => match tools::query(&arguments) {
                Some(query) => self.clean(&bounded(query, TEXT)),
                None => self.clean(&String::from_utf8_lossy(
                    &self.settings.redactor.json(bounded(text, TEXT).as_bytes()),
                )),
            },
        };
        let mut todos = match kind {
            ToolKind::Todo => todo::list(&arguments),
            _ => Vec::new(),
        };
        for item in &mut todos {
            item.text = self.clean(&item.text);
        }
        let questions = match kind {
            ToolKind::Ask => tools::questions(&arguments),
            _ => Vec::new(),
        };
        let questions = questions
            .iter()
            .map(|question| one_line(&self.clean(question), QUESTION));
        IndexedCall {
            is_read_only: command.as_deref().is_some_and(commands::is_read_only),
            directory: tools::directory(&arguments)
                .filter(|_| kind == ToolKind::Shell)
                .map(str::to_owned),
            // Only Claude Code's shell keeps its directory from call to call.
            stays: self.agent == Some(AgentKind::ClaudeCode),
            questions: questions.collect(),
            score: match tools::contents(&arguments) {
                Some(text) if kind == ToolKind::Write && self.is_verdict(&paths) => excerpt::score(text),
                _ => None,
            },
            by_user: false,
            // Exact conclusions need the whole command: a cut one may lack its `|| true`.
            whole: about.trim().len() <= COMMAND,
            command: command.map(|_| excerpt::cut(about.trim(), COMMAND).to_owned()),
            about: one_line(&about, ABOUT),
            background: background::asked(&name, &arguments),
            name,
            kind,
            paths,
            todo_state: todo::state_of_one(&arguments).filter(|_| kind == ToolKind::Todo),
            todos,
            secrets,
        }
    }

    /// Reads a result with its text. `place` is the position of the call that it answers.
    fn result(
        &self,
        said: &SaidPart<'_>,
        result: &ToolResult<'_>,
        place: Option<ItemPosition>,
        text: &str,
    ) -> Option<IndexedItem> {
        let part = &said.part;
        let call = place.and_then(|place| self.call_at(place));
        match call {
            Some(call) if call.kind == ToolKind::Todo => {
                return self.task(part, result, call);
            }
            // Results of baton's tools are not part of the work.
            Some(call) if call.kind == ToolKind::Own => return None,
            _ => {}
        }
        let used = said.used.filter(|_| call.is_some());
        let end = used.map(|used| used.end(self.agent));
        Some(IndexedItem::Result(IndexedResult {
            call: place,
            bytes: part.texts().iter().map(|text| text.raw().len()).sum(),
            ..self.outcome(call, end.unwrap_or_default(), text)
        }))
    }

    /// The end of a command in the background that a result reports.
    fn ended(&self, item: &IndexedItem, text: &str) -> Option<BackgroundEnd> {
        let IndexedItem::Result(result) = item else {
            return None;
        };
        let call = result.call.and_then(|place| self.call_at(place))?;
        let id = call.background.as_ref().map(|call| call.id.clone());
        match &call.background {
            _ if result.not_run || result.end.is_running => None,
            Some(asked) if asked.reads_file => {
                let shown = wordings::before_reminders(text);
                id.filter(|_| !result.is_error())
                    .and_then(|id| BackgroundEnd::with_file(id, shown))
            }
            Some(call) if call.stops => Some(BackgroundEnd::with(id, None)),
            Some(_) if result.end.code.is_some() => Some(BackgroundEnd::with(id, result.end.code)),
            _ => BackgroundEnd::read(text).map(|end| BackgroundEnd {
                id: end.id.or(id),
                ..end
            }),
        }
    }

    /// The item of the to-do list that a call created or changed, or the list that it showed.
    fn task(
        &self,
        part: &TranscriptPart<'_>,
        result: &ToolResult<'_>,
        call: &IndexedCall,
    ) -> Option<IndexedItem> {
        let texts = part.texts();
        let text = texts.first().filter(|_| result.error != Some(true))?.get();
        let mut shown = todo::shown_list(&text);
        if !shown.is_empty() {
            shown
                .iter_mut()
                .for_each(|todo| todo.item.text = self.clean(&todo.item.text));
            return Some(IndexedItem::TaskList(shown));
        }
        let (number, new) = todo::single_item(&text)?;
        Some(IndexedItem::Task(IndexedTodo {
            number: number.to_owned(),
            text: new.map(|text| self.clean(text)),
            state: call.todo_state,
        }))
    }

    /// Whether one of these files holds a verification or a review.
    pub(super) fn is_verdict(&self, paths: &[(String, Option<FileChange>)]) -> bool {
        let is_one = |path: &str| {
            self.settings
                .verdicts
                .iter()
                .any(|pattern| files::fits(pattern, path))
        };
        paths.iter().any(|(path, _)| is_one(path))
    }

    pub(super) fn call_at(&self, (message, item): ItemPosition) -> Option<&IndexedCall> {
        match self.before.get(message)?.items.get(item)? {
            IndexedItem::Call(call) => Some(call),
            _ => None,
        }
    }
}

/// A carry-over prompt as a later document quotes it: its last message has been answered since.
fn as_quoted(prompt: &str) -> std::borrow::Cow<'_, str> {
    match prompt.contains(OPEN_MESSAGE) {
        true => prompt
            .replace(OPEN_MESSAGE, "The user's last message at that time:")
            .into(),
        false => prompt.into(),
    }
}
