//! The last words of a session.

use super::names::AGENT_TYPE;
use crate::agents::speakers::SpeakerSettings;
use crate::transcript::{AgentKind, AnswerContent, AnswerPartKind, SaidPart, Transcript, TranscriptPart};
use crate::wire::Role;

/// The last words of the model and the user; empty if there are none.
#[derive(Debug, Default)]
pub struct LastWords {
    pub model: String,
    /// The user's last request.
    pub user: String,
    pub agent: Option<AgentKind>,
}

impl LastWords {
    /// Finds the last words in a request's transcript and, if given, in the response to it.
    pub fn from_transcript(transcript: &Transcript<'_>, answer: Option<&AnswerContent<'_>>) -> Self {
        let parts = answer.map_or(&[][..], |answer| &answer.parts).iter();
        let texts = parts.filter(|part| part.kind == AnswerPartKind::Text);
        let mut found = Self {
            model: texts.map(|part| part.text()).collect::<Vec<_>>().join("\n"),
            user: String::new(),
            agent: transcript.agent(),
        };
        for at in (0..transcript.len()).rev() {
            let Some(turn) = transcript.turn(at) else { continue };
            match turn.role {
                // A turn of nothing but calls has no words, so an earlier one is read.
                Role::Assistant if found.model.trim().is_empty() => {
                    let speech: Vec<_> = turn.parts().iter().filter_map(TranscriptPart::speech).collect();
                    found.model = speech.join("\n");
                }
                Role::User => {
                    let said = transcript.said_in(at, &SpeakerSettings::default());
                    let own = said
                        .iter()
                        .map(SaidPart::users_words)
                        .filter(|own| !own.is_empty());
                    found.user = own.collect::<Vec<_>>().join("\n");
                    // A user turn may hold nothing but tool results or harness text.
                    if !found.user.is_empty() {
                        break;
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// The agent, in the format's spelling.
    pub(super) fn agent_type(&self) -> &'static str {
        match self.agent {
            Some(AgentKind::ClaudeCode) => AGENT_TYPE[0],
            Some(AgentKind::Codex) => AGENT_TYPE[1],
            Some(AgentKind::GeminiCli) => AGENT_TYPE[2],
            _ => "",
        }
    }
}
