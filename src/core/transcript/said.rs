//! Who speaks in each text of a turn: `agents::speakers`, over the parts of a transcript.

use std::borrow::Cow;

use super::part::{ToolCall, TranscriptPart, TranscriptPartKind};
use super::tool_use::AnsweredCalls;
use super::turn::TranscriptTurn;
use crate::agents::speakers::{self, RESULT_BEGINNING, SpeakerSettings, Speakers, Spoken, TurnPiece};
use crate::agents::wordings::UserText;
use crate::wire::Role;

/// Bytes of a result that announces a skill.
const MAX_LAUNCH_BYTES: usize = 1024;

/// A part of a turn with its text and, in a user's place, who speaks in it.
#[derive(Debug, Clone)]
pub struct SaidPart<'a> {
    pub part: TranscriptPart<'a>,
    /// Empty for a part that is not a text; that of a result with a message of the user's.
    pub text: Cow<'a, str>,
    /// The stretches of the text, in order.
    pub spoken: Vec<Spoken>,
}

impl SaidPart<'_> {
    /// The text of a stretch.
    pub fn of(&self, spoken: &Spoken) -> &str {
        &self.text[spoken.range.clone()]
    }

    /// The user's own words, without what is around and between them; empty if there are none.
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
    /// The turns that were read.
    read: usize,
    calls: Option<AnsweredCalls<'a>>,
}

impl<'s, 'a> SaidReader<'s, 'a> {
    /// A reader from the first turn on. `calls`: calls by their results, if a result may hold a message of the user's.
    pub(super) fn new(settings: SpeakerSettings<'s>, calls: Option<AnsweredCalls<'a>>) -> Self {
        Self {
            settings,
            speakers: Speakers::default(),
            read: 0,
            calls,
        }
    }

    /// The parts of the next turn.
    pub fn next_turn(&mut self, turn: &TranscriptTurn<'a>) -> Vec<SaidPart<'a>> {
        let mut all = said(&mut self.speakers, &self.settings, turn);
        let at = self.read;
        self.read += 1;
        let is_result = |said: &&mut SaidPart<'a>| matches!(said.part.kind, TranscriptPartKind::Result(_));
        if let Some(calls) = &self.calls
            && let Some(result) = all.iter_mut().rfind(is_result)
            && let Some(used) = calls.get(&(at, result.part.span.start))
        {
            interject(result, &used.call);
        }
        all
    }
}

/// Adds the user's messages at the end of a result, unless its own text could end in the same words.
fn interject(result: &mut SaidPart<'_>, call: &ToolCall<'_>) {
    let text = result.part.text();
    let typed = speakers::interjected(&text);
    if !typed.is_empty() && !speakers::may_print_stored_text(&call.named(), &call.given(), &text) {
        let by = UserText::User;
        let ranges = typed.into_iter().map(|one| one.typed);
        result.spoken = ranges.map(|range| Spoken { by, range }).collect();
        result.text = text.into();
    }
}

/// The parts of the next turn of which no calls are known. In the turns of the model and of the system nobody is told apart.
pub fn said<'a>(
    speakers: &mut Speakers,
    settings: &SpeakerSettings<'_>,
    turn: &TranscriptTurn<'a>,
) -> Vec<SaidPart<'a>> {
    let parts = turn.parts();
    let text = |part: &TranscriptPart<'a>| match part.kind {
        TranscriptPartKind::Text(text) => text.get(),
        _ => Cow::default(),
    };
    let texts: Vec<Cow<'a, str>> = parts.iter().map(text).collect();
    let spoken = match turn.role {
        Role::User | Role::Tool => {
            let beginnings: Vec<Cow<'a, str>> = parts.iter().map(result_beginning).collect();
            let pieces = parts
                .iter()
                .zip(&texts)
                .zip(&beginnings)
                .map(|((part, text), begins)| match part.kind {
                    TranscriptPartKind::Text(_) => TurnPiece::Text(text),
                    TranscriptPartKind::Result(_) => TurnPiece::Result(begins),
                    _ => TurnPiece::Other,
                });
            speakers.turn(settings, &pieces.collect::<Vec<_>>())
        }
        role => {
            if role == Role::Assistant {
                speakers.model_spoke();
            }
            vec![Vec::new(); parts.len()]
        }
    };
    let all = parts.into_iter().zip(texts).zip(spoken);
    all.map(|((part, text), spoken)| SaidPart { part, text, spoken })
        .collect()
}

fn result_beginning<'a>(part: &TranscriptPart<'a>) -> Cow<'a, str> {
    match part.kind {
        // A longer one is a tool's own output, which need not be searched for its texts.
        TranscriptPartKind::Result(_) if part.raw().len() <= MAX_LAUNCH_BYTES => part
            .texts()
            .first()
            .map_or_else(Cow::default, |text| text.beginning(RESULT_BEGINNING)),
        _ => Cow::default(),
    }
}
