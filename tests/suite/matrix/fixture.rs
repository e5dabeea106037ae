//! The real proxy before a scripted provider, for any variant of a wire.

use baton_llm::serve::app::App;
use baton_llm::state::config::Config;
use baton_llm::state::journal::Recorder;
use baton_llm::state::store::SharedStore;
use baton_strict::{Model, Options, Queue, Received, Reply, Role, Strict};
use serde_json::{Value, json};

use super::variants::{Answer, Variant};
use crate::harness::texts::assert_lacks;
use crate::harness::{self, Baton, RawResponse, memory};

pub const PROMPT: &str = "Goal: skip BOMs.\nNext: reader.rs.";

/// Beginning of a streamed response while a model writes a draft.
const LINE: &str = "baton: please wait: a handoff is being written.";

/// Returns the text after that line, or `None` if the response does not begin with it.
pub fn behind_line(text: &str) -> Option<&str> {
    text.strip_prefix(LINE).map(|rest| rest.trim_start_matches('\n'))
}

pub struct Fixture {
    pub variant: Variant,
    pub script: Queue,
    pub provider: Strict,
    pub baton: Baton,
}

impl Fixture {
    pub async fn new(variant: Variant, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(variant, replies, memory(), |_| {}).await
    }

    pub async fn with(
        variant: Variant,
        replies: impl IntoIterator<Item = Reply>,
        store: SharedStore,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let script = Queue::new(replies.into_iter().map(variant.style));
        Self::playing(variant, script.clone(), script, store, change).await
    }

    pub async fn playing(
        variant: Variant,
        model: impl Model + 'static,
        script: Queue,
        store: SharedStore,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        Self::under(Options::default(), variant, model, script, store, change).await
    }

    /// Starts a fixture before a provider with these options.
    pub async fn under(
        options: Options,
        variant: Variant,
        model: impl Model + 'static,
        script: Queue,
        store: SharedStore,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let provider = Strict::start(model, options).await.unwrap();
        let mut config = config(&variant, &provider.url());
        change(&mut config);
        Self {
            variant,
            script,
            baton: Baton::start(config, store),
            provider,
        }
    }

    /// Replaces the proxy by a new one over `store`.
    pub fn restart(&mut self, store: SharedStore) {
        self.baton = Baton::start(config(&self.variant, &self.provider.url()), store);
    }

    /// Starts another proxy over `store`, in addition to the present one.
    pub fn replica(&self, store: SharedStore) -> Baton {
        Baton::start(config(&self.variant, &self.provider.url()), store)
    }

    /// Replaces the proxy by one with another config.
    pub fn restart_with(&mut self, store: SharedStore, change: impl FnOnce(&mut Config)) {
        let mut config = config(&self.variant, &self.provider.url());
        change(&mut config);
        self.baton = Baton::start(config, store);
    }

    /// Replaces the proxy by one with settings that no config key sets.
    pub fn restart_as(&mut self, store: SharedStore, change: impl FnOnce(App) -> App) {
        let config = config(&self.variant, &self.provider.url());
        self.baton = Baton::changed(config, store, harness::KEY, Recorder::off(), change);
    }

    /// Replaces the proxy by one with another config, and with settings that no config key sets.
    pub fn restart_by(
        &mut self,
        store: SharedStore,
        change: impl FnOnce(&mut Config),
        more: impl FnOnce(App) -> App,
    ) {
        let mut config = config(&self.variant, &self.provider.url());
        change(&mut config);
        self.baton = Baton::changed(config, store, harness::KEY, Recorder::off(), more);
    }

    pub fn push(&self, reply: Reply) {
        self.script.push((self.variant.style)(reply));
    }

    /// Sends a turn.
    pub async fn send(&self, history: &[Value], stream: bool) -> RawResponse {
        let body = (self.variant.body)(history, stream).to_string();
        let path = (self.variant.path)(stream);
        self.baton.post(path, self.variant.headers, body.into()).await
    }

    /// Sends a turn. Panics unless the response is correct and complete.
    pub async fn ask(&self, history: &[Value], stream: bool) -> Answer {
        self.answer(&self.send(history, stream).await, stream)
    }

    pub fn answer(&self, response: &RawResponse, stream: bool) -> Answer {
        assert_eq!(
            (response.status, response.broken),
            (200, false),
            "{}",
            response.text()
        );
        assert_lacks(&response.text(), "session_handoff");
        let answer = (self.variant.parse)(&response.raw, stream);
        answer.unwrap_or_else(|e| panic!("{e}\n{}", response.text()))
    }

    /// Returns the outline of the last request that the model received.
    pub fn sent(&self) -> Vec<String> {
        outline(self.provider.generations().last().unwrap())
    }

    /// Returns the token count of a turn, through the proxy.
    pub async fn count(&self, history: &[Value]) -> u64 {
        let (path, body, number) = (self.variant.count.unwrap())(history);
        let response = self
            .baton
            .post(path, self.variant.headers, body.to_string().into())
            .await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json().pointer(number).and_then(Value::as_u64).unwrap()
    }

    /// Returns the input tokens that the provider counts for this request.
    pub async fn measured(&self, seen: &Received) -> u64 {
        self.push(Reply::text("x"));
        let url = format!("{}{}", self.provider.url(), seen.path);
        let response = harness::post(&url, self.variant.headers, seen.raw.clone()).await;
        let answer = (self.variant.parse)(&response.raw, seen.stream());
        answer
            .unwrap_or_else(|e| panic!("{e}\n{}", response.text()))
            .input
    }

    pub fn user(&self, text: &str) -> Value {
        (self.variant.message)("user", text)
    }

    /// Returns a history that is long enough for a handoff.
    pub fn history(&self) -> Vec<Value> {
        let message = self.variant.message;
        vec![
            message("user", "Mend the importer."),
            message("assistant", "Looking."),
            message("user", "Go on."),
        ]
    }

    /// Returns `history`, followed by a response and the next user message.
    pub fn then(&self, history: &[Value], answer: &Answer, next: &str) -> Vec<Value> {
        [history, &answer.keep, &[self.user(next)]].concat()
    }

    /// Returns `history`, followed by a response and the results of its calls.
    pub fn ran(&self, history: &[Value], answer: &Answer) -> Vec<Value> {
        [
            history,
            &answer.keep,
            &(self.variant.results)(&answer.calls, "fn main() {}"),
        ]
        .concat()
    }

    /// Asserts that the requests were valid and the script is used up.
    ///
    /// Panics if a request broke a rule of the provider, if it requests other storage than the agent's first
    /// request, or if the script has replies left.
    pub fn assert_clean(&self) {
        assert_eq!(self.provider.complaints(), []);
        assert_eq!(self.script.left(), 0);
        let store = |seen: &Received| {
            seen.body
                .get("request")
                .unwrap_or(&seen.body)
                .get("store")
                .cloned()
        };
        let all = self.provider.generations();
        for seen in &all {
            assert_eq!(store(seen), store(&all[0]), "request {}", seen.number);
        }
    }
}

pub fn config(variant: &Variant, url: &str) -> Config {
    let mut config = harness::config(url);
    if let Some((name, directory)) = variant.place {
        let mut place = config.upstreams["openai"].clone();
        place.base_url = format!("{url}{directory}");
        config.upstreams.insert(name.to_owned(), place);
    }
    config
}

/// Returns a transcript as the model saw it: text (consecutive pieces joined), calls and results.
///
/// Omits the wire's division into messages and blocks.
pub fn outline(seen: &Received) -> Vec<String> {
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

pub fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

/// Returns the carry-over message in an outline.
pub fn carry() -> String {
    format!("u: {PROMPT}")
}
