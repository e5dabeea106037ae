//! The last words of a session.

use super::names::AGENT_TYPE;
use crate::agents::wordings::{self, UserText};
use crate::transcript::{AgentKind, AnswerContent, AnswerPartKind, Transcript, TranscriptPartKind};
use crate::wire::Role;

/// What was said last; empty where nothing was.
#[derive(Debug, Default)]
pub struct LastWords {
    pub model: String,
    /// The person's last request.
    pub person: String,
    pub agent: Option<AgentKind>,
}

impl LastWords {
    /// Those of a request's transcript, and of the answer to it where there is one.
    pub fn of(transcript: &Transcript<'_>, answer: Option<&AnswerContent<'_>>) -> Self {
        let parts = answer.map_or(&[][..], |answer| &answer.parts).iter();
        let texts = parts.filter(|part| part.kind == AnswerPartKind::Text);
        let mut found = Self {
            model: texts.map(|part| part.text()).collect::<Vec<_>>().join("\n"),
            person: String::new(),
            agent: transcript.agent(),
        };
        for turn in transcript.turns().rev() {
            let mut texts = Vec::new();
            let mut answers = false;
            for part in turn.parts() {
                match part.kind {
                    TranscriptPartKind::Text(text) => texts.push(text.get().into_owned()),
                    TranscriptPartKind::Result(_) => answers = true,
                    _ => {}
                }
            }
            let text = texts.join("\n");
            match turn.role {
                Role::Assistant if found.model.trim().is_empty() => found.model = text,
                Role::User if !answers && is_request(text.trim()) => {
                    found.person = text.trim().to_owned();
                    break;
                }
                _ => {}
            }
        }
        found
    }

    /// The agent, as the format has it.
    pub(super) fn agent_type(&self) -> &'static str {
        match self.agent {
            Some(AgentKind::ClaudeCode) => AGENT_TYPE[0],
            Some(AgentKind::Codex) => AGENT_TYPE[1],
            Some(AgentKind::GeminiCli) => AGENT_TYPE[2],
            _ => "",
        }
    }
}

/// What a harness puts there begins with a tag.
fn is_request(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['<', '#']) && wordings::user_text(text, &[]) == UserText::Person
}
