//! Long random conversations through the real proxy, on every wire.
//!
//! No request violates a rule of the provider, the model has the expected view, and every response to the
//! agent is a valid message. In some conversations responses end at a handoff (stop mode).
//!
//! A few run on every change, many in `.ci/full long` ([`Cases`]).

mod agent_quirks;
mod blocks;
mod conversation;
mod drafts;
mod items;
mod oracle;
mod plan;
mod regressions;
pub mod replicas;
mod shown;
mod sim;
mod sim_store;
mod undo;
mod view;
mod wires;

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use baton_core::nudge::{Thresholds, Windows};
use baton_core::record::{HandoffId, HandoffOrigin};
use baton_llm::state::config::{Config, HandoffMode};
use baton_llm::state::store::{HandoffFilter, SharedStore};
use baton_strict::{Endpoint, Model, Options, Received, Reply, Rule, Strict};
use proptest::test_runner::{Config as RunnerConfig, RngSeed, TestCaseError, TestError, TestRunner};
use serde_json::Value;

use self::conversation::AgentConversation;
use self::drafts::{DraftPlan, Drafted};
use self::items::Item;
use self::oracle::{Begins, Bounds, Ended, Outcome};
use self::plan::{Broken, CONVERSATIONS, LegPlan, Plan, Step};
use self::replicas::Replicas;
pub use self::replicas::shared;
use self::shown::Progress;
use self::sim::Sim;
use self::sim_store::SimStore;
use self::wires::WireProfile;
use crate::harness::cases::Cases;
use crate::harness::redis::RedisServer;
use crate::harness::{self, Baton, RawResponse};
use crate::matrix::variants::Answer;

/// Maximum number of attempts of the agent per turn.
const TRIES: usize = 16;

/// Maximum number of legs per agent request. Lower than the default, so that chains reach it.
const MAX_CHAIN: u32 = 4;

/// Maximum number of retries of a later leg.
const RETRIES: u32 = 2;

/// Maximum number of searches per request. Lower than the default, so that conversations reach it.
const RECALLS: usize = 2;

/// Window of every model, large enough never to be exceeded.
const WINDOW: u64 = 1 << 40;

/// The model. It replies with the next leg of the current turn's plan, and records request and reply.
#[derive(Clone)]
struct ScriptedModel {
    profile: WireProfile,
    script: Arc<Mutex<Script>>,
    /// Whether the provider stores the model's output.
    stored: bool,
}

#[derive(Default)]
struct Script {
    legs: VecDeque<LegPlan>,
    log: Vec<(Vec<Item>, Reply)>,
    /// Outcomes of the documents that the model is asked to write.
    drafts: VecDeque<DraftPlan>,
    /// Number of requests for a document before the legs.
    asked: usize,
    ids: usize,
    /// Whether the request is sent only to get its token count.
    measuring: bool,
}

impl Model for ScriptedModel {
    fn reply(&self, seen: &Received) -> Reply {
        let mut script = self.script.lock().unwrap();
        if script.measuring {
            return Reply::text("x");
        }
        if drafts::is_asked(seen) {
            (script.ids, script.asked) = (script.ids + 1, script.asked + 1);
            let plan = script.drafts.pop_front().unwrap_or(DraftPlan::Written);
            let reply = plan.reply(script.ids);
            script.log.push((self.read(seen), reply.clone()));
            return reply;
        }
        let mut ids = script.ids;
        let reply = match script.legs.pop_front() {
            Some(leg) => {
                let recall = seen.tool_names().iter().any(|name| name == "session_recall");
                leg.reply(&self.profile, seen.stream(), &mut ids, (recall, self.stored))
            }
            None => {
                ids += 1;
                Reply::text(format!("All done {ids}."))
            }
        };
        script.ids = ids;
        script.log.push((self.read(seen), reply.clone()));
        reply
    }
}

impl ScriptedModel {
    /// Transcript that upstream received.
    fn read(&self, seen: &Received) -> Vec<Item> {
        let items = (self.profile.read)(&seen.transcript()).into_iter();
        items
            .filter(|i| *i != Item::System("You are an agent.".to_owned()))
            .collect()
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }
}

/// A test run.
struct Run {
    profile: WireProfile,
    model: ScriptedModel,
    provider: Strict,
    proxies: Proxies,
    dir: PathBuf,
    temp: tempfile::TempDir,
    conversations: Vec<AgentConversation>,
    counter: usize,
    /// Threshold in tokens for the notice to the model; zero disables it.
    nudge_from: u64,
    /// Threshold in tokens for an automatic handoff; zero disables it.
    auto_from: u64,
    recall: bool,
    /// Whether responses end at a handoff.
    stops: bool,
    /// Handoffs that a threshold began.
    automatic: HashSet<HandoffId>,
    /// Events that each conversation has been through.
    met: [[bool; Met::ALL]; CONVERSATIONS],
    happened: Happened,
}

/// Events that the user's rules must survive.
#[derive(Debug, Clone, Copy)]
enum Met {
    /// A second handoff.
    Chain,
    Fork,
    Undo,
    Restart,
    LostStore,
}

impl Met {
    const ALL: usize = Self::LostStore as usize + 1;
}

/// Target of the conversations.
enum Setting<'a> {
    /// One process with a SQLite file.
    OneProcess,
    /// Replicas with a store in this server.
    Replicas(&'a RedisServer),
    /// Only plan and response machine.
    Pure,
}

/// The running proxies.
#[allow(clippy::large_enum_variant, reason = "each run has one")]
enum Proxies {
    One(Option<(Baton, SharedStore)>),
    Many(Box<Replicas>),
    Pure(Box<Sim>),
}

type Checked = Result<(), String>;

/// Event counts over all conversations of a test. A zero would make a long test meaningless.
#[derive(Debug, Default, Clone, Copy)]
struct Happened {
    /// Handoffs that a threshold began.
    automatic: usize,
    /// Responses in conversations that are cut with rules after the prompt.
    ruled: usize,
    /// Such responses after each event of [`Met`].
    ruled_after: [usize; Met::ALL],
    /// Undos, by whether they undid a handoff or reverted an undo.
    undos: [usize; 2],
}

impl Happened {
    fn add(&mut self, other: Self) {
        self.automatic += other.automatic;
        self.ruled += other.ruled;
        for at in 0..Met::ALL {
            self.ruled_after[at] += other.ruled_after[at];
        }
        for at in 0..2 {
            self.undos[at] += other.undos[at];
        }
    }

    /// Whether every event occurred. If the provider stores most conversations, few can do without the store,
    /// and the context use of few is available.
    fn is_all(&self, stored: bool, setting: &Setting<'_>) -> bool {
        let mut ruled_after = self.ruled_after;
        ruled_after[Met::LostStore as usize] += usize::from(stored);
        if let Setting::Pure = setting {
            ruled_after[Met::Undo as usize] = 1;
            return self.ruled > 0 && ruled_after.into_iter().all(|count| count > 0);
        }
        let each = ruled_after.iter().chain(&self.undos);
        let automatic = self.automatic + usize::from(stored);
        automatic > 0 && self.ruled > 0 && each.into_iter().all(|count| *count > 0)
    }
}

impl Run {
    async fn new(profile: WireProfile, plan: &Plan, setting: &Setting<'_>) -> Self {
        let model = ScriptedModel {
            profile,
            script: Arc::default(),
            stored: profile.traits.apart && plan.quirks.stored(),
        };
        let conversations: Vec<AgentConversation> = (0..CONVERSATIONS)
            .map(|name| AgentConversation::new(profile, name, plan.opening, plan.forbids, plan.quirks))
            .collect();
        let mut options = Options::default();
        if conversations.iter().any(|t| t.agent().unordered) {
            // Text that the agent moves leads to another prefix, with or without the proxy. If the agent
            // names calls by item id, only the provider can tell which of them hidden calls stood next to.
            options.ignored = vec![Rule::Binding, Rule::ReasoningPrefix];
        }
        let provider = match setting {
            Setting::Pure => Strict::direct(model.clone(), options),
            _ => Strict::start(model.clone(), options).await.unwrap(),
        };
        let temp = harness::temp();
        let mut run = Self {
            profile,
            model,
            provider,
            proxies: Proxies::One(None),
            dir: temp.path().join("0"),
            temp,
            conversations,
            counter: 0,
            nudge_from: plan.nudge_from,
            auto_from: plan.auto_from,
            recall: plan.recall,
            stops: plan.stops,
            automatic: HashSet::new(),
            met: [[false; Met::ALL]; CONVERSATIONS],
            happened: Happened::default(),
        };
        match setting {
            Setting::OneProcess => run.restart(),
            Setting::Replicas(server) => {
                run.proxies = Proxies::Many(Box::new(Replicas::new(server, run.config())))
            }
            Setting::Pure => run.proxies = Proxies::Pure(Box::new(Sim::new(run.config()))),
        }
        run
    }

    fn restart(&mut self) {
        self.all_met(Met::Restart);
        match &mut self.proxies {
            Proxies::Many(replicas) => return replicas.restart_one(),
            // The simulation has no memory other than its store.
            Proxies::Pure(_) => return,
            Proxies::One(_) => {}
        }
        self.proxies = Proxies::One(None);
        let store = harness::sqlite(&self.dir);
        let baton = Baton::start(self.config(), store.clone());
        self.proxies = Proxies::One(Some((baton, store)));
    }

    fn config(&self) -> Config {
        let mut config = harness::config(&self.provider.url());
        config.handoff.max_chain = MAX_CHAIN;
        config.handoff.retries = RETRIES;
        config.handoff.thresholds = Thresholds {
            nudge_tokens: self.nudge_from,
            auto_at: self.auto_from as f64 / WINDOW as f64,
            ..Thresholds::default()
        };
        if self.auto_from > 0 {
            config.handoff.windows = Windows::with(vec![(String::new(), WINDOW)]);
        }
        config.recall.enabled = self.recall;
        if self.stops {
            config.handoff.mode = HandoffMode::Stop;
        }
        config.recall.per_turn = u32::try_from(RECALLS).unwrap();
        if let Some((name, directory)) = self.profile.variant.place {
            let mut place = config.upstreams["openai"].clone();
            place.base_url = format!("{}{directory}", self.provider.url());
            config.upstreams.insert(name.to_owned(), place);
        }
        config
    }

    fn all_met(&mut self, what: Met) {
        for (met, conversation) in self.met.iter_mut().zip(&self.conversations) {
            met[what as usize] |= conversation.begun();
        }
    }

    fn n(&mut self) -> usize {
        self.counter += 1;
        self.counter
    }

    async fn step(&mut self, step: &Step) -> Checked {
        let n = self.n();
        match step {
            Step::Turn {
                who,
                legs,
                stream,
                says,
                broken,
                restart_when_broken,
                drafts,
            } => {
                self.model.script().legs = legs.iter().cloned().collect();
                self.model.script().drafts = drafts.iter().copied().collect();
                self.turn(*who, *stream, *says, *broken, *restart_when_broken)
                    .await
            }
            Step::Undo { who, stream } => self.undo_in_the_chat(*who, *stream).await,
            Step::Count { who } => self.count(*who).await,
            Step::Fork { who, back } => {
                self.conversations[*who].fork(*back);
                self.met[*who][Met::Fork as usize] = true;
                Ok(())
            }
            Step::Compact { who } => {
                self.conversations[*who].compact(n);
                self.met[*who] = Default::default();
                Ok(())
            }
            Step::Restart => {
                self.restart();
                Ok(())
            }
            Step::Lose => {
                if self.conversations.iter().all(AgentConversation::stands_alone) {
                    self.all_met(Met::LostStore);
                    self.conversations
                        .iter_mut()
                        .for_each(AgentConversation::forget_dependent);
                    self.dir = self.temp.path().join(n.to_string());
                    match &mut self.proxies {
                        Proxies::Many(replicas) => replicas.lose_store(),
                        Proxies::Pure(sim) => sim.store = SimStore::default(),
                        Proxies::One(_) => self.restart(),
                    }
                }
                Ok(())
            }
        }
    }

    /// Runs a turn of the agent. Like a real one, it retries until it has a response.
    async fn turn(&mut self, who: usize, stream: bool, says: u8, broken: Broken, restart: bool) -> Checked {
        let n = self.n();
        if self.conversations[who].may_ask() {
            self.conversations[who].ask(says, n);
        }
        // The provider does not store the partial output of an interrupted response.
        let broken = match self.conversations[who].quirks.stored() {
            true => Broken::Again,
            false => broken,
        };
        let mut repeat: Option<String> = None;
        let mut doubled = Vec::new();
        for _ in 0..TRIES {
            let body = self.conversations[who].body(stream);
            let exchange = self.exchange(who, &body, stream, repeat.as_deref()).await?;
            match exchange.outcome.ended {
                Ended::Stop(ref stop) if stop == "pause_turn" => {
                    self.keep(who, exchange, &mut doubled);
                    repeat = None;
                }
                Ended::Stop(_) => {
                    self.keep(who, exchange, &mut doubled);
                    self.model.script().legs.clear();
                    return Ok(());
                }
                Ended::Broken | Ended::Status(_) => {
                    repeat = self.goes_on(who, exchange, broken, &mut doubled);
                    // The store has a note of the response.
                    if restart {
                        self.restart();
                    }
                }
            }
        }
        Err("the agent gives up".to_owned())
    }

    /// Appends the response to the history. Some agents keep the part of an earlier response that arrived
    /// before it.
    fn keep(&mut self, who: usize, exchange: Exchange, doubled: &mut Vec<Value>) {
        let repeats = exchange.repeated && !doubled.is_empty();
        self.conversations[who].doubled |= repeats;
        let mut messages = match repeats {
            true => std::mem::take(doubled),
            false => Vec::new(),
        };
        messages.extend(exchange.answer.keep);
        self.conversations[who].keep(messages, exchange.answer.calls);
        self.conversations[who].held_as(exchange.id);
    }

    /// Reacts like an agent to an interrupted response. Returns the prompt of the handoff from where a
    /// repeated request continues.
    fn goes_on(
        &mut self,
        who: usize,
        exchange: Exchange,
        broken: Broken,
        doubled: &mut Vec<Value>,
    ) -> Option<String> {
        let repeat = exchange.outcome.repeat.clone();
        let native = (self.profile.partial)(&exchange.answer.keep);
        if broken == Broken::Again || native.is_empty() {
            return repeat;
        }
        if broken == Broken::Doubled {
            if exchange.repeated || repeat.is_some() {
                *doubled = native;
            }
            return repeat;
        }
        let (mut view, from) = exchange.outcome.broken_leg?;
        let shown = &exchange.outcome.shown;
        if exchange.came.whole < from {
            // Possibly no part of a sentinel has arrived.
            return repeat;
        }
        let mut blocks = shown::kept(
            shown,
            &exchange.outcome.answer,
            &exchange.came,
            from,
            &self.profile.traits,
        );
        let conversation = &mut self.conversations[who];
        // A blank of the model after baton's text in the same string belongs to baton's text.
        let is_blank = |block: &Value| block["text"].as_str().is_some_and(|text| text.trim().is_empty());
        let behind_ours = from > 0 && !matches!(shown[from - 1], oracle::Shown::Block(_));
        let traits = &self.profile.traits;
        let one_string = traits.text_first || conversation.quirks.glue && !traits.apart;
        if behind_ours && one_string && blocks.iter().all(is_blank) {
            blocks.clear();
        }
        if conversation.quirks.trim
            && let Some(last) = blocks.last_mut()
        {
            last["text"] = last["text"].as_str().unwrap().trim_end().into();
        }
        if let Some(result) = exchange.outcome.bound.and_then(|call| call.put_into(&mut blocks)) {
            view.owed.push(result);
            view.paired = true;
        }
        view.say(blocks);
        let tail = exchange.answer.text.clone();
        conversation.keep_partial(native, view);
        let n = self.n();
        let conversation = &mut self.conversations[who];
        match broken {
            Broken::Prefilled if self.profile.traits.apart => {}
            Broken::Quoted => conversation.say(&format!(
                "{n} <previous_response_suffix>{tail}</previous_response_suffix>"
            )),
            _ => conversation.say(&format!("{n}: your response above was cut off mid-stream.")),
        }
        None
    }

    /// Sends one request of the agent and checks everything about it.
    async fn exchange(
        &mut self,
        who: usize,
        body: &Value,
        stream: bool,
        repeat: Option<&str>,
    ) -> Result<Exchange, String> {
        self.model.script().log.clear();
        self.model.script().asked = 0;
        let before = self.provider.requests().len();
        let pinned = self.conversations[who].is_pinned();
        let recalls_there = pinned && self.recall && !self.conversations[who].quirks.stored();
        let response = self.send(who, (self.profile.variant.path)(stream), body).await;
        self.no_complaints()?;
        let seen = self.provider.requests()[before..].to_vec();
        let log = std::mem::take(&mut self.model.script().log);
        let asked = self.model.script().asked;
        let drafted = match asked {
            0 => None,
            _ => Some(self.drafted(log[..asked].to_vec()).await?),
        };
        let bounds = Bounds {
            max_chain: MAX_CHAIN,
            retries: RETRIES as usize,
            nudge_from: self.nudge_from,
            recalls: RECALLS,
            stops: self.stops,
        };
        let begins = Begins {
            repeat,
            drafted: drafted.as_ref(),
            rules: &self.conversations[who].rules.clone(),
        };
        let agent = self.conversations[who].agent();
        let before_it = self.conversations[who].view.cut.clone();
        let outcome = oracle::replay(
            agent,
            &mut self.conversations[who].view,
            begins,
            &log,
            (stream, response.broken),
            bounds,
        )
        .map_err(|e| format!("{e}\nheard {} {}", response.status, response.text()))?;
        let cut = self.conversations[who].view.cut.as_deref();
        self.met[who][Met::Chain as usize] |= before_it.is_some() && before_it.as_deref() != cut;
        if cut.is_some_and(|prompt| prompt.ends_with("</carried-over>")) {
            self.happened.ruled += 1;
            for (count, met) in self.happened.ruled_after.iter_mut().zip(self.met[who]) {
                *count += usize::from(met);
            }
        }
        if let (Ended::Broken | Ended::Status(_), Some(text)) = (&outcome.ended, &outcome.told) {
            self.conversations[who].view.tell(text);
        }
        for (n, request) in seen.iter().enumerate().skip(asked) {
            let recalls = is_the_agents_own(self.profile.transcript, body, &request.body)?;
            if n == 0 && repeat.is_none() && recalls != recalls_there {
                return Err(format!("pinned: {pinned}, recall offered: {recalls}"));
            }
        }
        if drafted.is_none() && pinned != response.headers.contains_key("x-baton-handoff") {
            return Err(format!("pinned: {pinned}, headers {:?}", response.headers));
        }
        // The response to a repeated request begins with the sentinel, which waits for the leg after it.
        let opening = match drafted {
            Some(_) => 2,
            None => usize::from(repeat.is_some()),
        };
        let (answer, came) = self.check_shown(&response, stream, &outcome, opening)?;
        let own = self.stops && drafted.is_some();
        if matches!(outcome.ended, Ended::Stop(_)) && !own {
            self.check_usage(&answer, &outcome, seen.last().unwrap()).await?;
        }
        Ok(Exchange {
            id: response_id(&response.raw),
            repeated: repeat.is_some(),
            outcome,
            answer,
            came,
        })
    }

    async fn send(&mut self, who: usize, path: &str, body: &Value) -> RawResponse {
        let mut headers = self.profile.variant.headers.to_vec();
        headers.extend(self.conversations[who].session());
        let body = body.to_string().into();
        match &mut self.proxies {
            Proxies::One(one) => one.as_ref().unwrap().0.post(path, &headers, body).await,
            Proxies::Many(replicas) => replicas.next().post(path, &headers, body).await,
            Proxies::Pure(sim) => {
                sim.answer(sim::wire_of(path), &self.provider, path, &headers, body)
                    .await
            }
        }
    }

    /// Store that all proxies share.
    fn store(&self) -> SharedStore {
        match &self.proxies {
            Proxies::One(one) => one.as_ref().unwrap().1.clone(),
            Proxies::Many(replicas) => replicas.store(),
            Proxies::Pure(_) => unreachable!("no handoff begins by a threshold there"),
        }
    }

    /// The handoff that a threshold has just begun.
    async fn drafted(&mut self, asked: Vec<(Vec<Item>, Reply)>) -> Result<Drafted, String> {
        let all = self.store().handoffs(&HandoffFilter::default()).await;
        let all = all.map_err(|error| error.to_string())?.into_iter();
        let mut new = all
            .filter(|h| h.origin == HandoffOrigin::Auto)
            .filter(|h| self.automatic.insert(h.id));
        self.happened.automatic += 1;
        match (new.next(), new.next()) {
            (Some(handoff), None) => Ok(Drafted {
                prompt: handoff.prompt,
                reason: handoff.reason.unwrap_or_default(),
                asked,
                from: self.auto_from,
            }),
            other => Err(format!("the model was asked for a document: {other:?}")),
        }
    }

    /// Checks the response shown to the agent. Returns how much of the expected response it is.
    fn check_shown(
        &self,
        response: &RawResponse,
        stream: bool,
        outcome: &Outcome,
        opening: usize,
    ) -> Result<(Answer, Progress), String> {
        let text = response.text();
        if text.contains("session_handoff") || text.contains("session_recall") || text.contains("\"hid_") {
            return Err(format!("the hidden call shows: {text}"));
        }
        let status = match outcome.ended {
            Ended::Status(status) => status,
            _ => 200,
        };
        let silent = outcome
            .broken_leg
            .as_ref()
            .is_some_and(|(_, from)| *from <= opening);
        if response.status == 502 && outcome.ended == Ended::Broken && silent {
            // The response was interrupted before any output.
            return Ok(Default::default());
        }
        // If the provider stores the responses, no line announces a draft.
        let tells = !self.conversations[0].quirks.stored();
        if tells && stream && status != 200 && outcome.shown.first() == Some(&oracle::Shown::Told) {
            // The response began while the draft was written.
            let is_error = response.status == 200 && text.contains("a handoff is being written.");
            return match is_error && text.contains("error") {
                true => Ok(Default::default()),
                false => Err(format!(
                    "{} instead of an error in the stream: {text}",
                    response.status
                )),
            };
        }
        if response.status != status {
            return Err(format!("{} instead of {status}: {text}", response.status));
        }
        if status != 200 {
            return Ok(Default::default());
        }
        let broken = outcome.ended == Ended::Broken;
        let parse = self.profile.variant.parse;
        let message = if broken {
            if !response.broken && parse(&response.raw, stream).is_ok() {
                return Err(format!("a broken answer looks whole: {text}"));
            }
            let Some(patched) = (self.profile.patched)(before_error(&response.raw)) else {
                return Ok(Default::default());
            };
            parse(&patched, stream).map_err(|e| format!("{e}\n{text}"))?
        } else {
            parse(&response.raw, stream).map_err(|e| format!("{e}\n{text}"))?
        };
        let items = (self.profile.read)(&message.keep);
        let came = shown::matches(&outcome.shown, items, &self.profile.traits, broken)
            .map_err(|e| format!("{e}\n{text}"))?;
        match &outcome.ended {
            Ended::Stop(stop) if message.stop != *stop || response.broken => {
                Err(format!("ended in {:?}, not {stop}: {text}", message.stop))
            }
            _ => Ok((message, came)),
        }
    }

    /// Checks the usage: input of the last leg, output of all legs.
    async fn check_usage(&self, answer: &Answer, outcome: &Outcome, last: &Received) -> Checked {
        if answer.output != outcome.output as u64 {
            return Err(format!(
                "{} tokens put out, told {}",
                outcome.output, answer.output
            ));
        }
        if outcome.lost {
            return Ok(());
        }
        self.model.script().measuring = true;
        let (headers, body) = (self.profile.variant.headers, last.raw.clone());
        let raw = match &self.proxies {
            Proxies::Pure(_) => {
                let answer = self.provider.answer(&last.path, headers, body).await.unwrap();
                answer.pieces.concat()
            }
            _ => {
                let url = format!("{}{}", self.provider.url(), last.path);
                harness::post(&url, headers, body).await.raw
            }
        };
        self.model.script().measuring = false;
        let measured = (self.profile.variant.parse)(&raw, last.stream())
            .map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&raw)))?;
        if answer.input != measured.input {
            return Err(format!(
                "the last leg has {}, told {}",
                measured.input, answer.input
            ));
        }
        Ok(())
    }

    /// Checks that a token count has the view that the turn would have.
    async fn count(&mut self, who: usize) -> Checked {
        let Some(count) = self.profile.variant.count else {
            return Ok(());
        };
        if self.conversations[who].quirks.stored() {
            return Ok(());
        }
        let mut conversation = self.conversations[who].clone();
        if conversation.may_ask() {
            conversation.ask(0, self.n());
        }
        let (path, body, _) = count(&conversation.sent());
        let response = self.send(who, path, &body).await;
        self.no_complaints()?;
        let requests = self.provider.requests();
        let seen = requests.last().unwrap();
        let wanted = conversation.agent().wanted(&conversation.view);
        let mut counted = seen.body.clone();
        for wrapper in ["generateContentRequest", "request"] {
            if let Some(inside) = counted.get(wrapper) {
                counted = inside.clone();
            }
        }
        let messages = counted[self.profile.transcript]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let agent = conversation.agent();
        let sent = agent.seen(&conversation.view, (self.profile.read)(&messages));
        if response.status != 200 || seen.endpoint != Endpoint::CountTokens || sent != wanted {
            return Err(format!(
                "counted\n{}\nwanted\n{}",
                items::lines(&sent),
                items::lines(&wanted)
            ));
        }
        Ok(())
    }

    fn no_complaints(&self) -> Checked {
        match self.provider.complaints().first() {
            Some(complaint) => {
                let requests = self.provider.requests();
                let seen = requests.iter().find(|s| s.number == complaint.request).unwrap();
                Err(format!("{complaint}\n{}", seen.body))
            }
            None => Ok(()),
        }
    }
}

/// An exchange: the expected outcome, and the response shown to the agent.
struct Exchange {
    outcome: Outcome,
    answer: Answer,
    came: Progress,
    /// Whether the exchange answered a repeated request.
    repeated: bool,
    /// Id of the response, if the wire has one (Responses).
    id: String,
}

/// Id for continuing a response.
fn response_id(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let id = text
        .split("\"resp_")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    id.map_or_else(String::new, |id| format!("resp_{id}"))
}

/// Checks that everything except the transcript and the tools at the end of the list is unchanged. Returns
/// whether recall is one of them.
fn is_the_agents_own(transcript: &str, agent: &Value, sent: &Value) -> Result<bool, String> {
    let mut bare = sent.clone();
    bare[transcript] = agent[transcript].clone();
    if let Some(previous) = agent.get("previous_response_id") {
        bare["previous_response_id"] = previous.clone();
    }
    let tools = match bare["tools"].get(0).and_then(|t| t.get("functionDeclarations")) {
        Some(_) => &mut bare["tools"][0]["functionDeclarations"],
        None => &mut bare["tools"],
    };
    let mut pop = || tools.as_array_mut().and_then(Vec::pop).unwrap_or_default();
    let name = |tool: &Value| tool.pointer("/function/name").unwrap_or(&tool["name"]).clone();
    let mut last = pop();
    let recalls = name(&last) == "session_recall";
    if recalls {
        last = pop();
    }
    let name = name(&last);
    let bare_tool = last.get("cache_control").is_none() && last["strict"] != true;
    if name != "session_handoff" || !bare_tool || bare != *agent {
        return Err(format!("sent {sent}"));
    }
    Ok(recalls)
}

fn run(profile: WireProfile, plan: &Plan, setting: &Setting<'_>) -> Result<Happened, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run::new(profile, plan, setting).await;
        for (at, step) in plan.steps.iter().enumerate() {
            run.step(step).await.map_err(|e| format!("step {at}: {e}"))?;
        }
        Ok(run.happened)
    })
}

fn whatever_happens_the_model_sees_what_it_should(profile: WireProfile, setting: &Setting<'_>, cases: Cases) {
    let mut config = RunnerConfig::with_cases(cases.count);
    config.failure_persistence = None;
    config.rng_seed = RngSeed::Fixed(cases.seed);
    config.max_shrink_iters = 400;
    let happened = Cell::new(Happened::default());
    let checked = TestRunner::new(config).run(&plan::plan(), |mut plan| {
        plan.quirks.no_ids &= profile.traits.drops_ids;
        if plan.quirks.no_ids && profile.traits.drops_call_ids {
            plan.all_different();
        }
        if profile.traits.apart && plan.quirks.chained {
            // Only the provider has the transcript that shows who was notified.
            (plan.nudge_from, plan.auto_from) = (0, 0);
        }
        if let Setting::Pure = setting {
            (plan.nudge_from, plan.auto_from) = (0, 0);
        }
        let in_this = run(profile, &plan, setting).map_err(TestCaseError::fail)?;
        let mut so_far = happened.get();
        so_far.add(in_this);
        happened.set(so_far);
        Ok(())
    });
    if let Err(error) = checked {
        match error {
            TestError::Fail(why, plan) => panic!("{why}\nby {plan:?}"),
            TestError::Abort(why) => panic!("{why}"),
        }
    }
    let happened = happened.get();
    assert!(
        happened.is_all(profile.traits.apart, setting) || cases.count < Cases::MANY,
        "{happened:?}"
    );
}

macro_rules! conversations {
    ($($name:ident = $profile:ident;)*) => {
        $(#[test]
        fn $name() {
            let setting = Setting::OneProcess;
            whatever_happens_the_model_sees_what_it_should(wires::$profile, &setting, Cases::QUICK);
        })*

        /// With only plan and response machine.
        mod pure {
            use super::*;

            $(#[test]
            fn $name() {
                let setting = Setting::Pure;
                whatever_happens_the_model_sees_what_it_should(wires::$profile, &setting, Cases::PURE);
            })*
        }

        mod pure_long {
            use super::*;

            $(#[test]
            #[ignore = "5,000 cases: .ci/full random"]
            fn $name() {
                let setting = Setting::Pure;
                whatever_happens_the_model_sees_what_it_should(wires::$profile, &setting, Cases::long_pure());
            })*
        }

        mod long {
            use super::*;

            $(#[test]
            #[ignore = "takes minutes: .ci/full long"]
            fn $name() {
                let setting = Setting::OneProcess;
                whatever_happens_the_model_sees_what_it_should(wires::$profile, &setting, Cases::long());
            })*
        }
    };
}

conversations! {
    anthropic = ANTHROPIC;
    openai_chat = CHAT;
    openai_responses = RESPONSES;
    gemini = GEMINI;
    ollama = OLLAMA;
}

/// Bytes before the error with which baton ends an interrupted response that it has changed.
fn before_error(raw: &[u8]) -> &[u8] {
    let begins: [&[u8]; 3] = [b"event: error\n", b"data: {\"error\":", b"{\"error\":"];
    let found = begins
        .iter()
        .filter_map(|begin| memchr::memmem::rfind(raw, begin));
    let of_baton = |at: &usize| memchr::memmem::find(&raw[*at..], b"baton: upstream").is_some();
    &raw[..found.filter(of_baton).min().unwrap_or(raw.len())]
}
