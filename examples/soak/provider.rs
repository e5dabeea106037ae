//! The model and the judge: what upstream answers, which faults it has, and whether each request is what it must be.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_strict::{CallStyle, Complaint, Endpoint, Fault, Model, Options, Received, Reply, Rule, Strict};
use bytes::Bytes;
use serde_json::json;

use crate::ledger::{Disturbance, Ledger};
use crate::random::Random;
use crate::view::{Expected, Marker, Seen, Verdict, marker};

/// The header by which upstream knows whose request it has.
pub const AGENT: &str = "x-soak-agent";

/// Share of answers with a fault, in percent, and in a storm.
const FAULTY: u64 = 4;
const STORM: u64 = 45;

/// Requests that the provider keeps, for what it prints of a violation.
const REQUESTS: usize = 64;

/// How baton requests the document of a handoff: after the history, or over a selection of it.
const DOCUMENT: [&str; 2] = [
    "Stop here: do not go on with the work",
    "You were not in the session.",
];

/// Requests of an agent that are kept as evidence, should the newest break a rule.
const RECENT: usize = 24;

/// While these last, conversations are served without their hidden calls.
const OUTAGES: [Disturbance; 2] = [Disturbance::Store, Disturbance::Disk];

/// What provider and agents share.
pub struct Judge {
    pub ledger: Arc<Ledger>,
    random: Mutex<Random>,
    /// Faults that each agent's requests met.
    faults: Vec<AtomicU64>,
    /// By the number of the marker that is last in the agent's request.
    expected: Mutex<HashMap<u64, Expected>>,
    /// The numbers of the markers that were last in a request during an outage.
    asked_in_outage: Mutex<HashSet<u64>>,
    /// The newest requests of each agent: number and body.
    recent: Mutex<HashMap<String, VecDeque<(usize, Bytes)>>>,
    faulty: AtomicU64,
    slow: AtomicU64,
}

impl Judge {
    pub fn new(ledger: Arc<Ledger>, random: Random, agents: usize) -> Self {
        Self {
            ledger,
            random: Mutex::new(random),
            faults: (0..agents).map(|_| AtomicU64::new(0)).collect(),
            expected: Mutex::default(),
            asked_in_outage: Mutex::default(),
            recent: Mutex::default(),
            faulty: AtomicU64::new(FAULTY),
            slow: AtomicU64::new(0),
        }
    }

    /// Starts the provider that it judges for.
    pub async fn start(self: &Arc<Self>) -> std::io::Result<Strict> {
        let judge = Arc::clone(self);
        let watch = move |request: &Received, complaints: &[Complaint]| judge.watch(request, complaints);
        let options = Options::default().keep_requests(REQUESTS).watch(watch);
        Strict::start(ScriptedModel(Arc::clone(self)), options).await
    }

    pub fn storm(&self, on: bool) {
        self.faulty
            .store(if on { STORM } else { FAULTY }, Ordering::SeqCst);
    }

    pub fn slow(&self, on: bool) {
        self.slow.store(u64::from(on), Ordering::SeqCst);
    }

    /// Faults of this agent's requests so far.
    pub fn faults_of(&self, agent: usize) -> u64 {
        self.faults[agent].load(Ordering::SeqCst)
    }

    pub fn expect(&self, number: u64, expected: Expected) {
        self.expectations().insert(number, expected);
    }

    /// Ends it; whether upstream has received it.
    pub fn arrived(&self, number: u64) -> bool {
        let expected = self.expectations().remove(&number);
        expected.is_some_and(|expected| expected.arrived)
    }

    fn expectations(&self) -> MutexGuard<'_, HashMap<u64, Expected>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, request: &Received, complaints: &[Complaint]) {
        let seen = Seen::from_request(request);
        self.remember(request);
        for complaint in complaints {
            self.complaint(request, &seen, complaint);
        }
        if request.endpoint != Endpoint::Generate {
            return;
        }
        self.ledger.count("upstream requests");
        let asked = seen.all.iter().filter(|(kind, _)| matches!(kind, b'u' | b'r'));
        let asked = asked.map(|(_, number)| *number);
        if self.is_outage() {
            // A leg after a handoff has the carry-over prompt alone.
            let not_models = seen.all.iter().filter(|(kind, _)| *kind != b'a');
            self.asked_in_outage()
                .extend(not_models.map(|(_, number)| *number).max());
        }
        let mut all = self.expectations();
        let newest = asked.filter(|number| all.contains_key(number)).max();
        if is_document(request) {
            // Where a threshold has it written, the agent's request goes on from it.
            let expected = newest.and_then(|number| all.get_mut(&number));
            expected.into_iter().for_each(|expected| expected.arrived = true);
            return self.ledger.count("documents requested");
        }
        if seen.user.contains("<context-notice>") {
            self.ledger.count("requests with a notice");
        }
        let Some(expected) = newest.and_then(|number| all.get_mut(&number)) else {
            return self.ledger.count("later legs");
        };
        expected.arrived = true;
        let verdict = expected.verdict(&seen);
        let is_cut = expected.cut.is_some();
        drop(all);
        let agent = request.header(AGENT).unwrap_or("?");
        let place = |text: &str| {
            format!(
                "agent {agent}, {} request {}: {text}",
                request.wire, request.number
            )
        };
        match &verdict {
            Verdict::Right if is_cut => self.ledger.count("cuts checked"),
            Verdict::Right => self.ledger.count("whole views checked"),
            Verdict::CutSince => self.ledger.count("later legs"),
            Verdict::Lost(text) => self.ledger.violation("lost shown handoff", place(text)),
            Verdict::Missing(text) => self.ledger.violation("missing upstream", place(text)),
        }
        if matches!(verdict, Verdict::Lost(_) | Verdict::Missing(_)) {
            self.evidence(request);
        }
    }

    fn recent(&self) -> MutexGuard<'_, HashMap<String, VecDeque<(usize, Bytes)>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, request: &Received) {
        let agent = request.header(AGENT).unwrap_or_default().to_owned();
        let mut all = self.recent();
        let recent = all.entry(agent).or_default();
        recent.push_back((request.number, request.raw.clone()));
        if recent.len() > RECENT {
            recent.pop_front();
        }
    }

    /// Keeps a request that broke a rule, and those of its agent before it.
    fn evidence(&self, request: &Received) {
        let agent = request.header(AGENT).unwrap_or_default();
        for (number, body) in self.recent().get(agent).into_iter().flatten() {
            self.ledger.evidence(*number, body);
        }
    }

    fn is_outage(&self) -> bool {
        self.ledger.was_disturbed(&OUTAGES, Instant::now())
    }

    fn asked_in_outage(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.asked_in_outage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A conversation that is served while the store is offline has no tool, and its hidden calls are not put back. Its list of
    /// tools changes then, and OpenAI and Gemini drop the reasoning after it. Its thinking is refused then, and thinking of that
    /// time whenever it comes back; the request is sent again without it.
    fn complaint(&self, request: &Received, seen: &Seen, complaint: &Complaint) {
        let by_tools = matches!(complaint.rule, Rule::ToolsChanged | Rule::ReasoningPrefix);
        if by_tools && self.ledger.has_been(&OUTAGES) {
            return self.ledger.fault("tools changed by an outage");
        }
        let is_refused = matches!(complaint.rule, Rule::Binding | Rule::Signature);
        let is_of_outage = |(_, number): &Marker| self.asked_in_outage().contains(number);
        if is_refused && (self.is_outage() || seen.all.iter().any(is_of_outage)) {
            return self.ledger.fault("refused upstream for an outage");
        }
        let agent = request.header(AGENT).unwrap_or("?");
        self.ledger
            .violation("provider", format!("agent {agent}: {complaint}"));
        self.evidence(request);
    }

    fn random(&self) -> Random {
        self.random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .branch()
    }
}

/// The model, of which the judge has the state.
struct ScriptedModel(Arc<Judge>);

impl Model for ScriptedModel {
    fn reply(&self, request: &Received) -> Reply {
        let judge = &self.0;
        let mut random = judge.random();
        let reply = match is_document(request) {
            true => judge.document(),
            false => judge.turn(request, &mut random),
        };
        let reply = delivered(reply, &mut random, judge.slow.load(Ordering::SeqCst) > 0);
        if !random.percent(judge.faulty.load(Ordering::SeqCst)) {
            return reply;
        }
        let agent = request
            .header(AGENT)
            .and_then(|agent| agent.parse::<usize>().ok());
        if let Some(faults) = agent.and_then(|agent| judge.faults.get(agent)) {
            faults.fetch_add(1, Ordering::SeqCst);
        }
        let (kind, reply) = faulty(reply, request.stream(), &mut random);
        judge.ledger.fault(kind);
        reply
    }
}

impl Judge {
    fn document(&self) -> Reply {
        let number = marker('c', self.ledger.next_number());
        Reply::text(format!(
            "## Goal\n{number} The steps that the user asked for.\n\n## Constraints and preferences\nStep by step.\n\n\
             ## Progress\nDone: some steps.\n\n## Decisions\nOne command a step.\n\n## Failed attempts\nNone.\n\n\
             ## Critical context\nThe repository is the working directory.\n\n## Next steps\n1. The next step."
        ))
    }

    /// Mostly a call of the agent's tool. At times the end of a turn, a handoff, one next to a call or without a prompt, or a
    /// search of what was cut.
    fn turn(&self, request: &Received, random: &mut Random) -> Reply {
        let number = self.ledger.next_number();
        let mut reply = Reply::new().reasoning();
        if random.percent(40) {
            reply = reply.thinking("What comes next? — “step by step”.");
        }
        let text = format!(
            "{} Step by step: naïve “quotes” 🦀 \\ \" \t tab.",
            marker('a', number)
        );
        let carried = self.ledger.next_number();
        let prompt = format!(
            "{} Goal: skip BOMs.\nNext: reader.rs, C:\\tmp\\x, {{\"json\": [1]}}.",
            marker('c', carried)
        );
        let handoff = json!({"prompt": prompt, "reason": format!("task {carried} done")});
        let path = json!({"path": format!("src/f{number}.rs")});
        let tools = request.tool_names();
        let has = |name: &str| tools.iter().any(|tool| tool == name);
        let choice = random.below(100);
        let reply = match choice {
            0..12 if has("session_handoff") => {
                self.ledger.count("handoffs called");
                reply.say(text).call("session_handoff", handoff)
            }
            12..16 if has("session_handoff") => {
                self.ledger.count("handoffs called beside a call");
                reply
                    .say(text)
                    .call("session_handoff", handoff)
                    .call("read_file", path)
            }
            16..19 if has("session_handoff") => {
                reply.say(text).call("session_handoff", json!({"prompt": " "}))
            }
            19..25 if has("session_recall") => {
                self.ledger.count("recalls called");
                reply
                    .say(text)
                    .call("session_recall", json!({"query": format!("reader {number}")}))
            }
            25..50 => reply.say(text),
            50..55 => reply.call("read_file", path),
            _ => reply.say(text).call("read_file", path),
        };
        self.ledger.count("answers");
        reply
    }
}

fn is_document(request: &Received) -> bool {
    let last = request.last_user_text().unwrap_or_default();
    DOCUMENT.iter().any(|words| last.contains(words))
}

fn delivered(reply: Reply, random: &mut Random, slow: bool) -> Reply {
    let style = random.pick(&[
        CallStyle::Standard,
        CallStyle::OneChunk,
        CallStyle::SplitName,
        CallStyle::IdFirst,
    ]);
    let reply = reply.call_style(style).deltas(random.pick(&[20, 20, 7, 200]));
    let reply = match random.below(10) {
        // Without pauses, of which there would be thousands.
        0 => return reply.in_bytes(7),
        1 | 2 => reply.whole(),
        _ => reply,
    };
    match slow || random.percent(5) {
        true => reply.delay(Duration::from_millis(random.between(5, 40))),
        false => reply,
    }
}

/// The same reply with a fault, and its name.
fn faulty(reply: Reply, stream: bool, random: &mut Random) -> (&'static str, Reply) {
    let events = 1 + random.below(12);
    let error = Fault::ErrorEvent {
        events,
        kind: "server_error".to_owned(),
        message: "an error in the stream".to_owned(),
    };
    let stall = Fault::Stall {
        events,
        time: Some(Duration::from_millis(random.between(200, 1500))),
    };
    match random.below(10) {
        0 => (
            "upstream 429",
            Reply::status(429, "slow down").retry_after(random.between(0, 1)),
        ),
        1 => ("upstream 500", Reply::status(500, "broken")),
        2 => ("upstream 529", Reply::status(529, "overloaded")),
        3 => ("upstream 502, a page of HTML", Reply::failing(Fault::html(502))),
        4 => ("upstream without an answer", Reply::failing(Fault::NoAnswer)),
        5 => (
            "upstream late",
            reply.head_delay(Duration::from_millis(random.between(200, 2000))),
        ),
        6 if stream => (
            "upstream stream ends early",
            reply.fault(Fault::EndAfterEvents(events)),
        ),
        7 if stream => ("upstream stream with an error", reply.fault(error)),
        8 if stream => ("upstream stream stalls", reply.fault(stall)),
        _ if stream => ("upstream stream cut", reply.fault(Fault::CutAfterEvents(events))),
        _ => ("upstream answer cut", reply.fault(Fault::CutAfterBytes(20))),
    }
}
