//! A conversation through the proxy, with the transcript as its agent keeps it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use baton_core::text::{Span, json};
use baton_strict::{Received, Reply};
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::fixture::{Fixture, fresh, handoff, thought};
use super::variants::{Answer, Variant};
use crate::agents::CLAUDE_CODE;
use crate::harness::RawResponse;
use crate::harness::texts::{assert_begins, assert_contains};

/// What the model sees of [`Talk::worked`].
pub const WORKED: [&str; 4] = ["u: Mend the importer.", "a: Looking.", "u: Go on.", "a: First."];

pub struct Talk {
    pub stage: Fixture,
    pub history: Vec<Value>,
    /// Whether the agent asks for streams.
    pub stream: bool,
    /// Changes every request.
    pub edit: Box<dyn Fn(&mut Value)>,
}

impl Deref for Talk {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.stage
    }
}

impl DerefMut for Talk {
    fn deref_mut(&mut self) -> &mut Fixture {
        &mut self.stage
    }
}

impl Talk {
    /// Returns a conversation without any message.
    pub fn new(stage: Fixture) -> Self {
        Self {
            stage,
            history: Vec::new(),
            stream: true,
            edit: Box::new(|_| {}),
        }
    }

    /// Returns a conversation whose next user message makes it long enough for a handoff.
    pub fn opened(stage: Fixture) -> Self {
        let history = stage.history()[..2].to_vec();
        Self {
            history,
            ..Self::new(stage)
        }
    }

    /// Starts a proxy, and a conversation of two turns.
    pub async fn worked(variant: Variant) -> Self {
        Self::worked_in(Fixture::new(variant, []).await).await
    }

    pub async fn worked_in(stage: Fixture) -> Self {
        let mut talk = Self::opened(stage);
        talk.says("Go on.", thought("First.")).await;
        talk
    }

    /// Sends a user message. The model replies to it.
    pub async fn says(&mut self, text: &str, reply: impl Into<Reply>) -> Answer {
        self.push(reply.into());
        self.asks(text).await
    }

    /// Sends a user message. The script has the replies.
    pub async fn asks(&mut self, text: &str) -> Answer {
        let message = self.user(text);
        self.history.push(message);
        self.goes_on().await
    }

    /// Sends the transcript as it is.
    pub async fn goes_on(&mut self) -> Answer {
        let answer = self.answer(&self.sends().await, self.stream);
        self.history.extend(answer.keep.clone());
        answer
    }

    /// Sends the transcript, whatever the response is.
    pub async fn sends(&self) -> RawResponse {
        let mut body = (self.variant.body)(&self.history, self.stream);
        (self.edit)(&mut body);
        let path = (self.variant.path)(self.stream);
        let body = body.to_string().into();
        self.baton.post(path, self.variant.headers, body).await
    }

    /// Gives the agent's tool this name.
    pub fn has_tool(&mut self, name: &str) {
        let name = Value::from(name).to_string();
        let before = std::mem::replace(&mut self.edit, Box::new(|_| ()));
        self.edit = Box::new(move |body| {
            before(body);
            let renamed = body.to_string().replace("\"read_file\"", &name);
            *body = serde_json::from_str(&renamed).unwrap();
        });
    }

    /// Introduces the agent as Claude Code, and describes its tool like those of Claude Code.
    pub fn is_claude_code(&mut self) {
        let before = std::mem::replace(&mut self.edit, Box::new(|_| ()));
        self.edit = Box::new(move |body| {
            before(body);
            let told = body.to_string();
            let told = told.replace("You are an agent.", CLAUDE_CODE);
            let told = told.replace("\"Reads.\"", "\"Takes run_in_background, prints like cat -n.\"");
            *body = serde_json::from_str(&told).unwrap();
        });
    }

    /// The last request that the model received.
    pub fn last(&self) -> Arc<Received> {
        self.provider.generations().pop().unwrap()
    }

    /// Sends the transcript. The model calls tools, which the agent runs.
    pub async fn runs(&mut self, reply: Reply, result: &str) -> Answer {
        self.push(reply);
        let answer = self.goes_on().await;
        self.history.extend((self.variant.results)(&answer.calls, result));
        answer
    }

    /// Sends a user message, at which the model hands over.
    pub async fn hands_over(&mut self, text: &str) -> Answer {
        self.push(handoff());
        self.says(text, fresh()).await
    }

    /// Sends a command, which baton answers. Nothing is sent upstream.
    pub async fn command(&mut self, text: &str) -> String {
        let asked = self.provider.requests().len();
        let answer = self.asks(text).await;
        let sent = self.provider.requests().len();
        assert_eq!(sent, asked, "{text}: nothing goes upstream");
        assert_begins(&answer.text, "baton: ");
        assert_contains(&answer.text, "[[handoff-note:");
        assert_eq!(answer.stop, self.variant.stops[0]);
        answer.text
    }

    /// Returns the elements of the last request's transcript, byte for byte as the model received them.
    pub fn elements(&self) -> Vec<String> {
        let seen = self.last();
        let raw: &[u8] = &seen.raw;
        let whole = Span::new(0, raw.len());
        let keys = ["messages", "input", "contents"];
        let list = keys.iter().find_map(|key| json::get(raw, whole, key)).unwrap();
        let all = json::elements(raw, list).into_iter();
        all.map(|span| String::from_utf8(span.of(raw).to_vec()).unwrap())
            .collect()
    }
}
