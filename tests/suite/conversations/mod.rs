//! Long random conversations through the real proxy: the provider never complains, the model sees what
//! DESIGN.md says it sees, and the agent is always shown one valid message.
//!
//! `BATON_CASES` sets how many conversations are tried, `BATON_SEED` which ones: a number, or `random`.

mod oracle;
mod plan;
mod regressions;
mod spelling;
mod talk;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use baton_proxy::strict::{Endpoint, Model, Options, Reply, Seen, Strict};
use proptest::test_runner::{Config as Cases, RngSeed, TestCaseError, TestError, TestRunner};
use serde_json::{Value, json};

use self::oracle::{Ended, Outcome};
use self::plan::{LegPlan, Plan, Step, TALKS};
use self::spelling::plain;
use self::talk::Talk;
use crate::harness::anthropic::Anthropic;
use crate::harness::{self, AgentSide, Baton, Heard};

/// Conversations tried where `BATON_CASES` says nothing: about a minute on two slow cores.
const CASES: u32 = 150;

/// Tries of the agent for one turn.
const TRIES: usize = 16;

/// Legs of one agent request: fewer than the default, so that the end of a chain is met.
const MAX_CHAIN: u32 = 4;

/// Tries again of a later leg.
const RETRIES: u32 = 2;

/// The model: says what the present turn's plan has next, and writes down what it said to what.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    legs: VecDeque<LegPlan>,
    log: Vec<(Vec<Value>, Reply)>,
    ids: usize,
}

impl Model for Desk {
    fn reply(&self, seen: &Seen) -> Reply {
        let mut script = self.0.lock().unwrap();
        let mut ids = script.ids;
        let reply = match script.legs.pop_front() {
            Some(leg) => leg.reply(seen.stream(), &mut ids),
            None => {
                ids += 1;
                Reply::text(format!("All done {ids}."))
            }
        };
        script.ids = ids;
        script.log.push((seen.messages().to_vec(), reply.clone()));
        reply
    }
}

/// One run.
struct Run {
    desk: Desk,
    provider: Strict,
    baton: Option<Baton>,
    dir: PathBuf,
    temp: tempfile::TempDir,
    talks: Vec<Talk>,
    counter: usize,
}

type Checked = Result<(), String>;

impl Run {
    async fn new(plan: &Plan) -> Self {
        let desk = Desk::default();
        let provider = Strict::start(desk.clone(), Options::default()).await.unwrap();
        let temp = harness::temp();
        let talks = (0..TALKS).map(|name| Talk::new(name, plan.opening, plan.quirks));
        let mut run = Self {
            desk,
            provider,
            baton: None,
            dir: temp.path().join("0"),
            temp,
            talks: talks.collect(),
            counter: 0,
        };
        run.restart();
        run
    }

    fn restart(&mut self) {
        self.baton = None;
        let mut config = harness::config(&self.provider.url());
        config.handoff.max_chain = MAX_CHAIN;
        config.handoff.retries = RETRIES;
        self.baton = Some(Baton::start(config, harness::sqlite(&self.dir)));
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
                restart_when_broken,
            } => {
                self.desk.0.lock().unwrap().legs = legs.iter().cloned().collect();
                self.turn(*who, *stream, *says, *restart_when_broken).await
            }
            Step::Count { who } => self.count(*who).await,
            Step::Fork { who, back } => {
                self.talks[*who].fork(*back);
                Ok(())
            }
            Step::Compact { who } => {
                self.talks[*who].compact(n);
                Ok(())
            }
            Step::Restart => {
                self.restart();
                Ok(())
            }
            Step::Lose => {
                if self.talks.iter().all(Talk::stands_alone) {
                    self.talks.iter_mut().for_each(Talk::forget_dependent);
                    self.dir = self.temp.path().join(n.to_string());
                    self.restart();
                }
                Ok(())
            }
        }
    }

    /// A turn of the agent: it asks until it is answered, as agents do.
    async fn turn(&mut self, who: usize, stream: bool, says: u8, restart: bool) -> Checked {
        let n = self.n();
        if self.talks[who].may_ask() {
            self.talks[who].ask(says, n);
        }
        let mut repeat: Option<String> = None;
        for _ in 0..TRIES {
            let body = Anthropic.body(&self.talks[who].sent(), stream);
            let outcome = self.exchange(who, &body, repeat.as_deref()).await?;
            match outcome.ended {
                Ended::Stop(stop) if stop == "pause_turn" => repeat = None,
                Ended::Stop(_) => {
                    self.desk.0.lock().unwrap().legs.clear();
                    return Ok(());
                }
                Ended::Broken | Ended::Status(_) => {
                    repeat = outcome.repeat;
                    if restart {
                        self.restart();
                        repeat = None;
                    }
                }
            }
        }
        Err("the agent gives up".to_owned())
    }

    /// One request of the agent, with all that must hold of it.
    async fn exchange(&mut self, who: usize, body: &Value, repeat: Option<&str>) -> Result<Outcome, String> {
        self.desk.0.lock().unwrap().log.clear();
        let before = self.provider.requests().len();
        let pinned = self.talks[who].view.cut.is_some();
        let heard = self.send(who, Anthropic.path(), body).await;
        self.no_complaints()?;
        let seen = self.provider.requests()[before..].to_vec();
        let log = std::mem::take(&mut self.desk.0.lock().unwrap().log);
        let stream = body["stream"] == true;
        let limits = (MAX_CHAIN, RETRIES as usize);
        let outcome = oracle::replay(&mut self.talks[who].view, repeat, &log, stream, limits)
            .map_err(|e| format!("{e}\nheard {} {}", heard.status, heard.text()))?;
        for request in &seen {
            is_the_agents_own(body, &request.body)?;
        }
        if pinned != heard.headers.contains_key("x-baton-handoff") {
            return Err(format!("pinned: {pinned}, headers {:?}", heard.headers));
        }
        let told = check_heard(&heard, stream, &outcome)?;
        if let (Ended::Stop(_), Some(told)) = (&outcome.ended, told) {
            self.check_usage(&told.usage, &outcome, seen.last().unwrap())
                .await?;
            self.talks[who].keep(told.content);
        }
        Ok(outcome)
    }

    async fn send(&self, who: usize, path: &str, body: &Value) -> Heard {
        let mut headers = Anthropic.headers().to_vec();
        headers.extend(self.talks[who].session());
        let baton = self.baton.as_ref().unwrap();
        baton.post(path, &headers, body.to_string().into()).await
    }

    /// Input side of the last leg, output of all: DESIGN.md, section 7.
    async fn check_usage(&self, usage: &Value, outcome: &Outcome, last: &Seen) -> Checked {
        let of = |key: &str| usage[key].as_u64().unwrap_or_default();
        if of("output_tokens") != outcome.output as u64 {
            return Err(format!("{usage}: output is {}", outcome.output));
        }
        if outcome.lost {
            return Ok(());
        }
        let url = format!("{}/v1/messages/count_tokens", self.provider.url());
        let counted = harness::post(&url, Anthropic.headers(), last.raw.clone())
            .await
            .json();
        let input = of("input_tokens") + of("cache_creation_input_tokens") + of("cache_read_input_tokens");
        if json!(input) != counted["input_tokens"] {
            return Err(format!("{usage}: the last leg has {counted}"));
        }
        if usage.get("iterations").is_some() {
            return Err(format!("{usage}: an agent that adds up the legs would compact"));
        }
        Ok(())
    }

    /// A token count sees what the turn would see.
    async fn count(&mut self, who: usize) -> Checked {
        let mut talk = self.talks[who].clone();
        if talk.may_ask() {
            talk.ask(0, self.n());
        }
        let body = Anthropic.body(&talk.sent(), true);
        let heard = self.send(who, "/v1/messages/count_tokens", &body).await;
        self.no_complaints()?;
        let requests = self.provider.requests();
        let seen = requests.last().unwrap();
        let wanted = talk.view.messages();
        if heard.status != 200 || seen.endpoint != Endpoint::CountTokens || plain(seen.messages()) != wanted {
            return Err(format!("counted {:?}, wanted {wanted:?}", seen.messages()));
        }
        is_the_agents_own(&body, &seen.body)
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

/// Everything but the messages is the agent's own, with the tool at the end of the list.
fn is_the_agents_own(agent: &Value, sent: &Value) -> Checked {
    let mut bare = sent.clone();
    let last = bare["tools"].as_array_mut().and_then(Vec::pop);
    bare["messages"] = agent["messages"].clone();
    let ours = last
        .as_ref()
        .map(|t| (&t["name"], t.get("cache_control"), t.get("strict")));
    if ours != Some((&json!("session_handoff"), None, None)) || bare != *agent {
        return Err(format!("sent {sent}"));
    }
    Ok(())
}

fn check_heard(heard: &Heard, stream: bool, outcome: &Outcome) -> Result<Option<harness::Told>, String> {
    let text = heard.text();
    if text.contains("session_handoff") || text.contains("\"hid_") {
        return Err(format!("the hidden call shows: {text}"));
    }
    if let Ended::Status(status) = outcome.ended {
        return if heard.status == status {
            Ok(None)
        } else {
            Err(format!("{} instead of {status}", heard.status))
        };
    }
    let broken = outcome.ended == Ended::Broken;
    let told = Anthropic
        .hear(&heard.raw, stream, heard.broken)
        .map_err(|e| format!("{e}\n{text}"))?;
    talk::matches(&outcome.shown, &told.content, broken).map_err(|e| format!("{e}\n{text}"))?;
    if let Ended::Stop(stop) = &outcome.ended
        && (told.stop.as_ref() != Some(stop) || !told.ended || heard.broken)
    {
        return Err(format!("ended in {:?}, not {stop}: {text}", told.stop));
    }
    if broken && told.ended {
        return Err(format!("a broken answer looks whole: {text}"));
    }
    Ok(Some(told))
}

fn run(plan: &Plan) -> Checked {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run::new(plan).await;
        for (at, step) in plan.steps.iter().enumerate() {
            run.step(step).await.map_err(|e| format!("step {at}: {e}"))?;
        }
        Ok(())
    })
}

#[test]
fn whatever_happens_the_model_sees_what_it_should() {
    let cases = std::env::var("BATON_CASES").ok().and_then(|c| c.parse().ok());
    let mut config = Cases::with_cases(cases.unwrap_or(CASES));
    config.failure_persistence = None;
    config.rng_seed = match std::env::var("BATON_SEED") {
        Ok(seed) if seed == "random" => RngSeed::Random,
        Ok(seed) => RngSeed::Fixed(seed.parse().expect("BATON_SEED is a number, or `random`")),
        Err(_) => RngSeed::Fixed(1),
    };
    config.max_shrink_iters = 400;
    let checked = TestRunner::new(config).run(&plan::plan(), |plan| run(&plan).map_err(TestCaseError::fail));
    if let Err(error) = checked {
        match error {
            TestError::Fail(why, plan) => panic!("{why}\nby {plan:?}"),
            TestError::Abort(why) => panic!("{why}"),
        }
    }
}
