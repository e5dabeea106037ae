//! One request of an agent and its outcome.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::ledger::Disturbance;
use crate::matrix::variants::{Answer, Variant};
use crate::provider::{AGENT, Judge};

/// A request that has not ended by then is taken for hanging.
const NEVER: Duration = Duration::from_secs(90);

/// Statuses that the scripted faults have.
const SCRIPTED: [u16; 4] = [429, 500, 502, 529];

/// The violation that a connection was closed without a response.
pub const EMPTY_REPLY: &str = "empty reply";

pub type Http = Client<HttpConnector, Full<Bytes>>;

pub fn http() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(Duration::from_secs(5))
        .build(connector)
}

/// The outcome of a request.
pub enum Outcome {
    Answered(Box<Answer>),
    /// It failed for a known reason; the agent sends it again.
    Failed,
    /// The agent itself has dropped the connection.
    Left,
    /// A violation, which is recorded.
    Wrong,
}

/// One request.
pub struct Sending<'a> {
    pub judge: &'a Judge,
    pub http: &'a Http,
    pub variant: &'a Variant,
    pub agent: usize,
    pub url: &'a str,
    pub body: &'a Value,
    pub stream: bool,
    /// After how many pieces of the answer the agent leaves.
    pub leaves: Option<usize>,
}

/// An answer as it came.
struct RawAnswer {
    status: u16,
    code: String,
    raw: Vec<u8>,
    broken: bool,
}

impl Sending<'_> {
    pub async fn outcome(&self) -> Outcome {
        let (began, faults) = (Instant::now(), self.judge.faults_of(self.agent));
        self.judge.ledger.count("requests");
        let answer = match tokio::time::timeout(NEVER, self.answer()).await {
            Ok(Ok(Some(answer))) => answer,
            Ok(Ok(None)) => return Outcome::Left,
            Ok(Err(error)) => return self.unconnected(began, &error),
            Err(_) => return self.wrong("never ended", format!("no end after {NEVER:?}")),
        };
        let faulty = self.judge.faults_of(self.agent) > faults;
        let disturbed = |kinds: &[Disturbance]| self.judge.ledger.was_disturbed(kinds, began);
        if answer.status != 200 {
            return self.refused(&answer, faulty, disturbed);
        }
        if answer.broken {
            return match faulty || disturbed(&[Disturbance::Process]) {
                true => self.failed("agent: answer broken off"),
                false => self.wrong("broken answer", tail(&answer.raw)),
            };
        }
        match (self.variant.parse)(&answer.raw, self.stream) {
            Ok(answer) => self.checked(answer),
            Err(_) if faulty => self.failed("agent: answer with an error"),
            // After keep-alives have begun the stream, the error can only be an event of it.
            Err(_) if is_outage(&answer.raw) && disturbed(&[Disturbance::Store, Disturbance::Disk]) => {
                self.failed("agent: store_unavailable within a stream")
            }
            Err(error) => self.wrong(
                "invalid answer",
                format!("{error}; it ends {}", tail(&answer.raw)),
            ),
        }
    }

    /// Sends it and reads the answer; `None`: the agent has left.
    async fn answer(&self) -> Result<Option<RawAnswer>, hyper_util::client::legacy::Error> {
        let url = format!("{}{}", self.url, (self.variant.path)(self.stream));
        let mut request = Request::post(url)
            .header("content-type", "application/json")
            .header(AGENT, self.agent.to_string());
        for (name, value) in self.variant.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(self.body.to_string().into())).unwrap();
        let (head, mut body) = self.http.request(request).await?.into_parts();
        let code = head
            .headers
            .get("x-baton-error")
            .and_then(|code| code.to_str().ok());
        let mut answer = RawAnswer {
            status: head.status.as_u16(),
            code: code.unwrap_or_default().to_owned(),
            raw: Vec::new(),
            broken: false,
        };
        let mut pieces = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                answer.broken = true;
                break;
            };
            answer.raw.extend(frame.into_data().unwrap_or_default());
            pieces += 1;
            if self.leaves.is_some_and(|leaves| pieces >= leaves) {
                return Ok(None);
            }
        }
        Ok(Some(answer))
    }

    fn unconnected(&self, began: Instant, error: &(dyn Error + 'static)) -> Outcome {
        if self.judge.ledger.was_disturbed(&[Disturbance::Process], began) {
            return self.failed("agent: no connection");
        }
        let causes = std::iter::successors(Some(error), |error| (**error).source());
        let text: Vec<String> = causes.map(ToString::to_string).collect();
        let took = began.elapsed();
        if is_empty_reply(error) {
            return self.wrong(EMPTY_REPLY, format!("{} after {took:?}", text.join(": ")));
        }
        self.wrong("no connection", format!("{} after {took:?}", text.join(": ")))
    }

    fn refused(
        &self,
        answer: &RawAnswer,
        faulty: bool,
        disturbed: impl Fn(&[Disturbance]) -> bool,
    ) -> Outcome {
        let text = || format!("{} {} {}", answer.status, answer.code, tail(&answer.raw));
        let is_html = answer.raw.starts_with(b"<html>");
        let has_shape = is_html && faulty || self.has_shape(&answer.raw);
        if !has_shape {
            return self.wrong("error of another shape", text());
        }
        let known = match answer.code.as_str() {
            "" => faulty && SCRIPTED.contains(&answer.status),
            "upstream_closed" | "upstream_unreadable" => faulty,
            "store_unavailable" => disturbed(&[Disturbance::Store, Disturbance::Disk]),
            _ => false,
        };
        match known {
            true if answer.code == "store_unavailable" => self.failed("agent: 503 store_unavailable"),
            true => self.failed("agent: error of upstream's"),
            false => self.wrong("unexpected status", text()),
        }
    }

    /// Whether an error has the shape of the wire.
    fn has_shape(&self, raw: &[u8]) -> bool {
        let Ok(body) = serde_json::from_slice::<Value>(raw) else {
            return false;
        };
        let error = &body["error"];
        match self.variant.model {
            "claude-strict-1" => {
                body["type"] == "error" && error["type"].is_string() && error["message"].is_string()
            }
            "gemini-strict-3" => {
                error["status"].is_string() && error["code"].is_u64() && error["message"].is_string()
            }
            "llama-strict" => error.is_string(),
            _ => error["message"].is_string() && error.get("type").is_some(),
        }
    }

    /// What an agent must never see in an answer.
    fn checked(&self, answer: Answer) -> Outcome {
        let own = |(_, name): &&(String, String)| name != "read_file";
        if let Some((_, name)) = answer.calls.iter().find(own) {
            return self.wrong("hidden call shown", name);
        }
        if answer.text.contains("<context-notice>") {
            return self.wrong("notice shown", &answer.text);
        }
        Outcome::Answered(Box::new(answer))
    }

    fn failed(&self, kind: &'static str) -> Outcome {
        self.judge.ledger.fault(kind);
        Outcome::Failed
    }

    fn wrong(&self, kind: &'static str, text: impl AsRef<str>) -> Outcome {
        let (agent, model) = (self.agent, self.variant.model);
        let text = format!(
            "agent {agent}, {model}, stream {}: {}",
            self.stream,
            text.as_ref()
        );
        self.judge.ledger.violation(kind, text);
        Outcome::Wrong
    }
}

/// Whether the connection was closed without a response.
fn is_empty_reply(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.any(|cause| {
        let cause = cause.downcast_ref::<hyper::Error>();
        cause.is_some_and(hyper::Error::is_incomplete_message)
    })
}

/// Whether a stream without any content ends with the error that the store cannot be reached.
fn is_outage(raw: &[u8]) -> bool {
    let text = String::from_utf8_lossy(raw);
    let mut lines = text
        .lines()
        .filter(|line| line.starts_with("data:") || line.starts_with('{'))
        .filter(|line| !line.contains("\"ping\""));
    let error = lines
        .next()
        .is_some_and(|line| line.contains("baton: the store of handoffs cannot be reached"));
    error && lines.next().is_none()
}

/// The end of a body, for a violation's text.
fn tail(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let skipped = text.chars().count().saturating_sub(400);
    format!("{:?}", text.chars().skip(skipped).collect::<String>())
}
