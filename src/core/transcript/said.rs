//! The speakers in each text of a turn: `agents::speakers`, applied to the parts of a transcript.

use std::borrow::Cow;

use super::part::{ToolCall, TranscriptPart, TranscriptPartKind, TranscriptTurn};
use super::tool_use::{CallPairing, ToolUse};
use crate::agents::speakers::{
    self, AgentsCall, REPLY_BEGINNING, RESULT_BEGINNING, SpeakerSettings, Speakers, Spoken, TurnPiece,
};
use crate::agents::wordings::UserText;
use crate::redact;
use crate::wire::Role;

/// Maximum size of a result that announces a skill, in bytes.
const MAX_LAUNCH_BYTES: usize = 1024;

/// A part of a turn with its text and, in a user turn, the speakers of that text.
#[derive(Debug, Clone)]
pub struct SaidPart<'a> {
    pub part: TranscriptPart<'a>,
    /// The text of the part.
    ///
    /// The text of a result is only set if it ends in a message from the user. If it consists of the user's replies, only
    /// these are set. For other kinds it is empty.
    pub text: Cow<'a, str>,
    /// The ranges of the text with their speakers, in order.
    pub spoken: Vec<Spoken>,
    /// The model's questions that the ranges answer, for a result with answers of the user; empty otherwise.
    pub asked: Vec<String>,
    /// The call that a result answers, if a [`SaidReader`] has read it.
    pub used: Option<ToolUse<'a>>,
}

impl SaidPart<'_> {
    /// The part of the text in the range of one speaker.
    pub fn of(&self, spoken: &Spoken) -> &str {
        &self.text[spoken.range.clone()]
    }

    /// The user's own words, without injected text around and between them; empty if there are none.
    pub fn users_words(&self) -> String {
        let own = self.spoken.iter().filter(|spoken| spoken.by == UserText::User);
        let own: Vec<&str> = own.map(|spoken| self.of(spoken).trim()).collect();
        own.join("\n")
    }
}

/// Reads the turns of a transcript in order.
pub struct SaidReader<'s, 'a> {
    settings: SpeakerSettings<'s>,
    speakers: Speakers,
    /// Number of turns read so far.
    read: usize,
    pairing: CallPairing<'a>,
    /// How results of this transcript may have the user's words.
    results: UsersResults,
}

/// How results may have the user's words.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UsersResults {
    /// At the end of a tool's output.
    pub(super) interjected: bool,
    /// In place of a tool's output.
    pub(super) replied: bool,
    /// Name of the agent; empty in doubt.
    pub(super) agent: &'static str,
}

impl<'s, 'a> SaidReader<'s, 'a> {
    /// Creates a reader that begins at the first turn.
    pub(super) fn new(settings: SpeakerSettings<'s>, results: UsersResults) -> Self {
        Self {
            settings,
            speakers: Speakers::default(),
            read: 0,
            pairing: CallPairing::default(),
            results,
        }
    }

    /// The parts of the next turn.
    pub fn next_turn(&mut self, turn: &TranscriptTurn<'a>) -> Vec<SaidPart<'a>> {
        let mut all = said(&mut self.speakers, &self.settings, turn);
        for said in &mut all {
            said.used = self.pairing.take(self.read, said.part);
        }
        self.read += 1;
        let is_result = |said: &&mut SaidPart<'a>| matches!(said.part.kind, TranscriptPartKind::Result(_));
        if self.results.interjected
            // Agents append the user's message to the last result of a turn.
            && let Some(result) = all.iter_mut().rfind(is_result)
            && let Some(used) = result.used
        {
            interject(self.results.agent, result, &used.call);
        }
        for result in all.iter_mut().filter(|_| self.results.replied) {
            if let (TranscriptPartKind::Result(answer), Some(used)) = (result.part.kind, result.used) {
                reply(self.results.agent, result, &used.call, answer.error);
            }
        }
        all
    }

    /// Passes over the next turn, without its text.
    pub fn pass(&mut self, turn: &TranscriptTurn<'a>) {
        self.speakers.model_spoke();
        // Calls only matter to the user's words in their results.
        let is_read = self.results.interjected || self.results.replied;
        let parts = is_read.then(|| turn.parts());
        for part in parts.into_iter().flatten() {
            self.pairing.take(self.read, part);
        }
        self.read += 1;
    }
}

/// Adds the user's messages at the end of a result, unless the tool's output could itself end in those words.
fn interject(agent: &str, result: &mut SaidPart<'_>, call: &ToolCall<'_>) {
    let [text] = result.part.texts()[..] else {
        return;
    };
    let text = text.get();
    let (name, arguments) = (call.named(), call.given());
    let call = AgentsCall {
        agent,
        name: &name,
        arguments: &arguments,
    };
    let typed = speakers::interjected(&call, &text).into_iter();
    let typed = typed.filter(|one| one.is_certain).map(|one| Spoken {
        by: UserText::User,
        range: one.typed,
    });
    result.spoken.extend(typed);
    if !result.spoken.is_empty() {
        result.text = text;
    }
}

/// Sets the user's words in a result that the agent wrote in place of the tool's output.
fn reply(agent: &str, result: &mut SaidPart<'_>, call: &ToolCall<'_>, failed: Option<bool>) {
    let texts = result.part.texts();
    let beginning = texts.first().map(|text| text.beginning(REPLY_BEGINNING));
    if !beginning.is_some_and(|beginning| speakers::may_be_reply(&beginning)) {
        return;
    }
    let (name, arguments) = (call.named(), call.given());
    let call = AgentsCall {
        agent,
        name: &name,
        arguments: &arguments,
    };
    let replies = speakers::replies(&call, failed, &result.part.text());
    if replies.is_empty() {
        return;
    }
    let mut text = String::new();
    result.spoken.clear();
    for reply in replies {
        let start = text.len();
        match redact::is_asked_for(&reply.typed, &reply.asked) {
            true => text.push_str(&redact::mark("password")),
            false => text.push_str(&reply.typed),
        }
        let range = start..text.len();
        result.spoken.push(Spoken {
            by: UserText::User,
            range,
        });
        result.asked.push(reply.asked);
        text.push('\n');
    }
    result.text = text.into();
}

/// The parts of the next turn, without knowledge of the calls.
///
/// Speakers are only told apart in turns of users and tools, not in those of the model and the system.
pub fn said<'a>(
    speakers: &mut Speakers,
    settings: &SpeakerSettings<'_>,
    turn: &TranscriptTurn<'a>,
) -> Vec<SaidPart<'a>> {
    let parts = turn.parts().into_iter();
    let all = parts.map(|part| SaidPart {
        text: part.speech().unwrap_or_default(),
        part,
        spoken: Vec::new(),
        asked: Vec::new(),
        used: None,
    });
    let mut all: Vec<SaidPart<'a>> = all.collect();
    match turn.role {
        Role::User | Role::Tool => {
            let beginnings: Vec<_> = all.iter().map(|said| result_beginning(&said.part)).collect();
            let pieces = all.iter().zip(&beginnings);
            let pieces = pieces.map(|(said, begins)| match said.part.kind {
                TranscriptPartKind::Text(_) => TurnPiece::Text(&said.text),
                TranscriptPartKind::Result(_) => TurnPiece::Result(begins),
                _ => TurnPiece::Other,
            });
            let spoken = speakers.turn(settings, &pieces.collect::<Vec<_>>());
            all.iter_mut()
                .zip(spoken)
                .for_each(|(said, spoken)| said.spoken = spoken);
        }
        Role::Assistant => speakers.model_spoke(),
        _ => {}
    }
    all
}

fn result_beginning<'a>(part: &TranscriptPart<'a>) -> Cow<'a, str> {
    match part.kind {
        // A longer result is the output of a tool, and not searched for an announcement.
        TranscriptPartKind::Result(_) if part.raw().len() <= MAX_LAUNCH_BYTES => part
            .texts()
            .first()
            .map_or_else(Cow::default, |text| text.beginning(RESULT_BEGINNING)),
        _ => Cow::default(),
    }
}
