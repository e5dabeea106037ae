//! A random agent: it keeps its own history, as it sees it, and resends all of it with each request.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::exchange::{Http, Outcome, Sending};
use crate::matrix::variants::{Answer, Call, Variant};
use crate::provider::Judge;
use crate::random::Random;
use crate::view::{Expected, marker};

/// How often a request is sent until the agent gives up.
const TRIES: u64 = 60;

/// Histories that it can go back to.
const SNAPSHOTS: usize = 6;

pub struct Agent {
    pub judge: Arc<Judge>,
    pub http: Http,
    pub variant: Variant,
    pub number: usize,
    pub random: Random,
    /// The addresses that it connects to: any of these.
    pub urls: Vec<String>,
    pub conversation: Conversation,
}

#[derive(Clone, Default)]
pub struct Conversation {
    history: Vec<Value>,
    /// Calls without results.
    calls: Vec<Call>,
    snapshots: Vec<Vec<Value>>,
    /// Messages after which the agent begins anew.
    length: usize,
    /// The last number when an answer was first lost: a handoff in it may count all the same.
    lost_from: Option<u64>,
}

impl Agent {
    /// Works until the soak's phase ends.
    pub async fn work(mut self) {
        while !self.judge.ledger.is_ending() {
            self.step().await;
            let pause = self.random.between(10, 250);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn step(&mut self) {
        if self.conversation.history.len() >= self.conversation.length {
            self.begin();
        }
        if self.conversation.calls.is_empty() && !self.conversation.history.is_empty() {
            match self.random.below(100) {
                0..5 => self.fork(),
                5..12 => return self.command().await,
                _ => {}
            }
        }
        let asked = self.conversation.history.clone();
        let number = self.ask();
        let Some(answer) = self.exchange(Some(number)).await else {
            // Given up: the user takes the message back.
            self.conversation.history = asked;
            self.conversation.calls.clear();
            return self.fork();
        };
        let answer = match self.random.percent(3) {
            true => self.repeat(answer).await,
            false => answer,
        };
        self.keep(answer);
    }

    /// A new conversation.
    fn begin(&mut self) {
        let length = usize::try_from(self.random.between(8, 120)).unwrap_or(40);
        self.conversation = Conversation {
            length,
            ..Conversation::default()
        };
        self.judge.ledger.count("conversations");
    }

    /// What the user says, or the results of the calls; its number.
    fn ask(&mut self) -> u64 {
        let number = self.judge.ledger.next_number();
        let calls = std::mem::take(&mut self.conversation.calls);
        let filler = "fn read(line: &str) -> Option<&str> { line.strip_prefix(BOM) }\n";
        let filler = filler.repeat(self.random.below(40));
        let messages = match calls.is_empty() {
            true => {
                let text = format!("{} Port the next part, and look first.", marker('u', number));
                vec![(self.variant.message)("user", &text)]
            }
            false => (self.variant.results)(&calls, &format!("{} {filler}", marker('r', number))),
        };
        self.conversation.history.extend(messages);
        number
    }

    fn keep(&mut self, answer: Answer) {
        self.conversation.calls = answer.calls;
        self.conversation.history.extend(answer.keep);
        if self.conversation.calls.is_empty() {
            self.conversation
                .snapshots
                .push(self.conversation.history.clone());
        }
        if self.conversation.snapshots.len() > SNAPSHOTS {
            self.conversation.snapshots.remove(0);
        }
    }

    /// Back to an earlier history.
    fn fork(&mut self) {
        self.judge.ledger.count("forks");
        self.conversation.calls.clear();
        let snapshots = &self.conversation.snapshots;
        self.conversation.history = match snapshots.is_empty() {
            true => Vec::new(),
            false => snapshots[self.random.below(snapshots.len())].clone(),
        };
    }

    async fn command(&mut self) {
        let number = self.judge.ledger.next_number();
        let pin = format!("::pin Never touch the public API of part {number}.");
        let text = match self.random.below(10) {
            0..3 => "::handoff --force --no-git",
            3 => "::handoff --force --method local --no-git",
            4..7 => "::handoff undo",
            7 => "::handoff status",
            8 => "::unpin 1",
            _ => &pin,
        };
        let before = self.conversation.history.clone();
        self.conversation
            .history
            .push((self.variant.message)("user", text));
        match self.exchange(None).await {
            Some(answer) if answer.text.contains("baton: ") => {
                self.judge.ledger.count("commands");
                if answer.text.contains("was undone") {
                    self.judge.ledger.count("undos");
                }
                self.keep(answer);
            }
            Some(answer) => {
                let text = format!("agent {}: {text} was answered {:?}", self.number, answer.text);
                self.judge.ledger.violation("command not answered", text);
                self.conversation.history = before;
            }
            None => self.conversation.history = before,
        }
    }

    /// Sends the same request again after its answer was read; the second answer counts.
    async fn repeat(&mut self, first: Answer) -> Answer {
        self.judge.ledger.count("repeats");
        let mut newest_first = self.conversation.history.iter().rev();
        let before = newest_first.find_map(crate::view::last_marker);
        let before = before.map_or(0, |(_, number)| number);
        self.conversation.lost_from.get_or_insert(before);
        self.exchange(None).await.unwrap_or(first)
    }

    /// Sends the history until it is answered, as agents do. `number`: of the marker that is new in it.
    async fn exchange(&mut self, number: Option<u64>) -> Option<Answer> {
        let stream = self.random.percent(85);
        let body = self.body(stream);
        let last = self.judge.ledger.last_number();
        if let Some(number) = number {
            let made_since = self.conversation.lost_from.unwrap_or(last);
            let expected = Expected::new(&self.conversation.history, made_since);
            self.judge.expect(number, expected);
        }
        let answer = self.tries(&body, stream).await;
        if answer.as_ref().is_none_or(|(tries, _)| *tries > 1) {
            self.conversation.lost_from.get_or_insert(last);
        }
        let Some((tries, answer)) = answer else {
            number.map(|number| self.judge.arrived(number));
            return None;
        };
        if let Some(number) = number
            && !self.judge.arrived(number)
            && tries == 1
        {
            let text = format!(
                "agent {}, {}, stream {stream}: ~{number}~ was answered {:?}",
                self.number, self.variant.model, answer.text
            );
            self.judge.ledger.violation("never sent upstream", text);
        }
        self.judge.ledger.count("answered");
        if answer.text.contains("[[handoff-resume:") {
            self.judge.ledger.count("answers with a handoff shown");
        }
        if answer.text.contains("[[handoff-aside:") {
            self.judge.ledger.count("answers with an aside");
        }
        Some(answer)
    }

    /// The answer, and the number of its attempt.
    async fn tries(&mut self, body: &Value, stream: bool) -> Option<(u64, Answer)> {
        let mut tries = 0;
        while tries < TRIES {
            tries += 1;
            let url = self.urls[self.random.below(self.urls.len())].clone();
            let leaves = (tries == 1 && stream && self.random.percent(5)).then(|| 1 + self.random.below(12));
            let sending = Sending {
                judge: &self.judge,
                http: &self.http,
                variant: &self.variant,
                agent: self.number,
                url: &url,
                body,
                stream,
                leaves,
            };
            match sending.outcome().await {
                Outcome::Answered(answer) => return Some((tries, *answer)),
                Outcome::Left => self.judge.ledger.count("connections dropped"),
                Outcome::Wrong => return None,
                Outcome::Failed => {}
            }
            let pause = self.random.between(50, 100 + 30 * tries);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            if self.judge.ledger.is_ending() {
                return None;
            }
        }
        let text = format!("agent {}, {}: {TRIES} tries", self.number, self.variant.model);
        self.judge.ledger.violation("never answered", text);
        None
    }

    fn body(&self, stream: bool) -> Value {
        let mut body = (self.variant.body)(&self.conversation.history, stream);
        if self.variant.model == "claude-strict-1" {
            body["metadata"] = json!({"user_id": format!("soak-{}", self.number)});
        }
        body
    }
}
