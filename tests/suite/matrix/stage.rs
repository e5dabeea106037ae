//! The real proxy before a provider with a script, for any side of the table.

use baton_proxy::config::Config;
use baton_proxy::journal::Tap;
use baton_proxy::store::SharedStore;
use baton_proxy::strict::{Model, Options, Queue, Received, Reply, Role, Strict};
use serde_json::{Value, json};

use super::sides::{Said, Side};
use crate::harness::{self, Baton, Heard, memory};

pub const PROMPT: &str = "Goal: skip BOMs.\nNext: reader.rs.";

pub struct Stage {
    pub side: Side,
    pub script: Queue,
    pub provider: Strict,
    pub baton: Baton,
}

impl Stage {
    pub async fn new(side: Side, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(side, replies, memory(), |_| {}).await
    }

    pub async fn with(
        side: Side,
        replies: impl IntoIterator<Item = Reply>,
        store: SharedStore,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let script = Queue::new(replies.into_iter().map(side.style));
        Self::playing(side, script.clone(), script, store, change).await
    }

    /// With a journal, which `start` starts.
    pub async fn journaled(
        side: Side,
        replies: impl IntoIterator<Item = Reply>,
        start: impl FnOnce(&mut Config) -> Tap,
    ) -> Self {
        let script = Queue::new(replies.into_iter().map(side.style));
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let mut config = config(&side, &provider.url());
        let tap = start(&mut config);
        Self {
            side,
            script,
            baton: Baton::journaled(config, memory(), crate::harness::KEY, tap),
            provider,
        }
    }

    pub async fn playing(
        side: Side,
        model: impl Model + 'static,
        script: Queue,
        store: SharedStore,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let provider = Strict::start(model, Options::default()).await.unwrap();
        let mut config = config(&side, &provider.url());
        change(&mut config);
        Self {
            side,
            script,
            baton: Baton::start(config, store),
            provider,
        }
    }

    /// Another process of the same proxy.
    pub fn restart(&mut self, store: SharedStore) {
        self.baton = Baton::start(config(&self.side, &self.provider.url()), store);
    }

    pub fn push(&self, reply: Reply) {
        self.script.push((self.side.style)(reply));
    }

    /// Sends a turn.
    pub async fn send(&self, history: &[Value], stream: bool) -> Heard {
        let body = (self.side.body)(history, stream).to_string();
        let path = (self.side.path)(stream);
        self.baton.post(path, self.side.headers, body.into()).await
    }

    /// A turn that must be answered well.
    pub async fn ask(&self, history: &[Value], stream: bool) -> Said {
        self.said(&self.send(history, stream).await, stream)
    }

    pub fn said(&self, heard: &Heard, stream: bool) -> Said {
        assert_eq!((heard.status, heard.broken), (200, false), "{}", heard.text());
        assert!(!heard.text().contains("session_handoff"), "{}", heard.text());
        let said = (self.side.hear)(&heard.raw, stream);
        said.unwrap_or_else(|e| panic!("{e}\n{}", heard.text()))
    }

    /// What the model saw last.
    pub fn sent(&self) -> Vec<String> {
        sketch(self.provider.generations().last().unwrap())
    }

    /// A count through the proxy.
    pub async fn count(&self, history: &[Value]) -> u64 {
        let (path, body, number) = (self.side.count.unwrap())(history);
        let heard = self
            .baton
            .post(path, self.side.headers, body.to_string().into())
            .await;
        assert_eq!(heard.status, 200, "{}", heard.text());
        heard.json().pointer(number).and_then(Value::as_u64).unwrap()
    }

    /// What the provider itself says of this request's size.
    pub async fn measured(&self, seen: &Received) -> u64 {
        self.push(Reply::text("x"));
        let url = format!("{}{}", self.provider.url(), seen.path);
        let heard = harness::post(&url, self.side.headers, seen.raw.clone()).await;
        let said = (self.side.hear)(&heard.raw, seen.stream());
        said.unwrap_or_else(|e| panic!("{e}\n{}", heard.text())).input
    }

    pub fn user(&self, text: &str) -> Value {
        (self.side.message)("user", text)
    }

    /// A history long enough to be handed off.
    pub fn history(&self) -> Vec<Value> {
        let message = self.side.message;
        vec![
            message("user", "Mend the importer."),
            message("assistant", "Looking."),
            message("user", "Go on."),
        ]
    }

    /// `history` with an answer behind it, and the next thing said.
    pub fn then(&self, history: &[Value], said: &Said, next: &str) -> Vec<Value> {
        [history, &said.keep, &[self.user(next)]].concat()
    }

    /// `history` with an answer and the results of its calls behind it.
    pub fn ran(&self, history: &[Value], said: &Said) -> Vec<Value> {
        [
            history,
            &said.keep,
            &(self.side.results)(&said.calls, "fn main() {}"),
        ]
        .concat()
    }

    /// Nothing was wrong with what the provider got, and the script was played to its end.
    pub fn at_peace(&self) {
        assert_eq!(self.provider.complaints(), []);
        assert_eq!(self.script.left(), 0);
    }
}

fn config(side: &Side, url: &str) -> Config {
    let mut config = harness::config(url);
    if let Some((name, folder)) = side.place {
        let mut place = config.upstreams["openai"].clone();
        place.base_url = format!("{url}{folder}");
        config.upstreams.insert(name.to_owned(), place);
    }
    config
}

/// A transcript as the model saw it: texts (neighbours joined), calls, results, whatever the wire's blocks and
/// borders are.
pub fn sketch(seen: &Received) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for turn in seen.turns().iter().filter(|t| t.role != Role::System) {
        let who = if turn.role == Role::User { "u: " } else { "a: " };
        for text in turn.texts.iter().filter(|t| !t.is_empty()) {
            match out.last_mut().filter(|last| last.starts_with(who)) {
                Some(last) => last.push_str(text),
                None => out.push(format!("{who}{text}")),
            }
        }
        out.extend(turn.calls.iter().map(|c| format!("call {}", c.name)));
        out.extend(turn.results.iter().map(|_| "result".to_owned()));
    }
    out
}

pub fn handoff() -> Reply {
    handoff_beside(Reply::new().thinking("Is it done?").say("Done with that."))
}

pub fn handoff_beside(reply: Reply) -> Reply {
    reply.call("session_handoff", json!({"prompt": PROMPT, "reason": "done"}))
}

pub fn fresh() -> Reply {
    Reply::new().thinking("What now?").say("Fresh.")
}

/// The carry-over message in a sketch.
pub fn carry() -> String {
    format!("u: {PROMPT}")
}
