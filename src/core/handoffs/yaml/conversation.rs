//! A proxied conversation, read like a session file.

use serde_json::Value as Json;

use super::session_file::SessionReader;
use crate::transcript::{AnswerContent, AnswerPartKind, Transcript, TranscriptPartKind};
use crate::wire::Role;

impl SessionReader<'_> {
    /// Takes a request's transcript, and the answer to it where there is one.
    pub fn conversation(&mut self, transcript: &Transcript<'_>, answer: Option<&AnswerContent<'_>>) {
        for turn in transcript.turns() {
            let mut replies = Vec::new();
            let mut answers = false;
            for part in turn.parts() {
                match part.kind {
                    TranscriptPartKind::Text(text) => replies.push(text.get().into_owned()),
                    TranscriptPartKind::Call(call) => {
                        let id = call.id.map(|id| id.get()).unwrap_or_default();
                        let arguments = call.arguments.map(|_| Json::String(call.given()));
                        self.call(&id, &call.named(), arguments.as_ref());
                    }
                    TranscriptPartKind::Result(result) => {
                        answers = true;
                        let id = result.call.map(|id| id.get()).unwrap_or_default();
                        let failed = result.error.or(result.exit.map(|exit| exit != 0));
                        self.result(&id, &part.text(), failed);
                    }
                    _ => {}
                }
            }
            let replies = replies.join("\n");
            match turn.role {
                Role::Assistant => self.reply(replies),
                Role::User if !answers => self.question(&replies),
                _ => {}
            }
        }
        let last = answer.map(|answer| {
            answer
                .parts
                .iter()
                .filter(|part| part.kind == AnswerPartKind::Text)
        });
        let last: Vec<_> = last.into_iter().flatten().map(|part| part.text()).collect();
        self.reply(last.join("\n"));
    }
}
