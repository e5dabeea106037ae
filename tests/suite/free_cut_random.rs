//! Conversations with random pauses, models and handoffs, on every wire, with a scripted clock.
//!
//! They run over a process that is killed and restarted, or over two replicas with one Redis or Valkey. In
//! every case the provider finds no violation, and the user's last message reaches the model. No request
//! contains a draft that did not become a handoff.
//!
//! A few run on every change, many in `.ci/full long` and `replicas` ([`Cases`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use baton_core::plan::FreeCutPolicy;
use baton_core::record::HandoffOrigin;
use baton_llm::state::clock::Clock;
use baton_llm::state::config::Config;
use baton_llm::state::journal::Recorder;
use baton_llm::state::store::{HandoffFilter, SharedStore};
use baton_strict::{Options, Received, Reply, Strict};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::conversations::shared;
use crate::harness::cases::Cases;
use crate::harness::redis::RedisServer;
use crate::harness::{self, Baton, memory};
use crate::matrix::fixture::outline;
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

const WIRES: [Variant; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

const STEPS: usize = 24;

/// Enough work to be cut.
const WORDS: usize = 10_000;

const MINUTE: i64 = 60_000;

/// Words that occur only in documents of this test.
const WRITTEN: &str = "Document of the work";

const PRICES: &str = "source = \"test\"\ndate = \"2026-11-24\"\n[[provider]]\nid = \"t\"\n[[provider.model]]\nid = \"m\"\nnames = [\"*strict*\"]\n\
                      price = [{ input = 4.0, cache_read = 0.01, cache_write = 5.0, output = 0.01 }]\n";

/// Pseudo-random numbers, determined by a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The model's next action, set before its request is sent.
#[derive(Clone, Default)]
struct NextReply(Arc<AtomicU64>);

impl NextReply {
    fn reply(&self, seen: &Received) -> Reply {
        let text = String::from_utf8_lossy(&seen.raw);
        let n = self.0.fetch_add(10, Relaxed);
        if text.contains("Stop here: do not go on with the work")
            || text.contains("You were not in the session.")
        {
            return match n / 10 % 7 {
                0 => Reply::status(500, "no"),
                _ => Reply::text(format!("## Goal\n{WRITTEN} {n}.\n\n## Next steps\n1. Go on.")),
            };
        }
        let can_hand_over = seen.tool_names().iter().any(|name| name == "session_handoff");
        match n % 10 {
            1 => Reply::new().call_as(format!("toolu_r{n}x0y"), "read_file", json!({"path": "f"})),
            // The leg after it has different text.
            2 if can_hand_over => {
                self.0.fetch_sub(2, Relaxed);
                let call = json!({"prompt": format!("Carried over {n}."), "reason": "done"});
                Reply::new().say("Done.").call("session_handoff", call)
            }
            _ => Reply::text(format!("Answer {n}.")),
        }
    }

    fn set(&self, kind: u64) {
        let now = self.0.load(Relaxed);
        self.0.store(now / 10 * 10 + kind, Relaxed);
    }
}

fn is_for_a_draft(seen: &Received) -> bool {
    let text = String::from_utf8_lossy(&seen.raw);
    text.contains("Stop here: do not go on with the work") || text.contains("You were not in the session.")
}

/// A conversation and the processes that serve it.
struct Walk {
    variant: Variant,
    provider: Strict,
    next: NextReply,
    clock: Clock,
    stores: Vec<SharedStore>,
    /// The proxies, one per store.
    proxies: Vec<Baton>,
    config: Config,
    history: Vec<Value>,
    model: String,
    dice: Dice,
    cuts: usize,
}

impl Walk {
    async fn new(
        variant: Variant,
        seed: u64,
        stores: Vec<SharedStore>,
        directory: &tempfile::TempDir,
    ) -> Self {
        let next = NextReply::default();
        let model = next.clone();
        let provider = Strict::start(move |seen: &Received| model.reply(seen), Options::default())
            .await
            .unwrap();
        let prices = directory.path().join("prices.toml");
        std::fs::write(&prices, PRICES).unwrap();
        let mut config = harness::config(&provider.url());
        config.handoff.when_cache_cold = FreeCutPolicy::On;
        config.handoff.cache_lifetime = Some(Duration::from_secs(300));
        config.commands.prefix = "::".to_owned();
        config.bill.prices = Some(prices);
        let clock = Clock::default();
        let proxies = stores.iter().map(|store| start(&config, store, &clock));
        Self {
            proxies: proxies.collect(),
            variant,
            provider,
            next,
            clock,
            stores,
            history: Vec::new(),
            model: variant.model.to_owned(),
            dice: Dice(seed),
            cuts: 0,
            config,
        }
    }

    /// Sends a user message, reads the response, and runs the agent's loop after it.
    async fn turn(&mut self, text: &str, kind: u64) {
        self.history.push((self.variant.message)("user", text));
        self.next.set(kind);
        for call in 0..4 {
            let stream = self.dice.below(2) == 0;
            let mut body = (self.variant.body)(&self.history, stream);
            if body.get("model").is_some() {
                body["model"] = json!(self.model);
            }
            let path = (self.variant.path)(stream);
            // Mostly the same replica, like behind a sticky balancer.
            let which = usize::from(self.dice.below(6) == 0).min(self.proxies.len() - 1);
            let before = self.provider.generations().len();
            let response = self.proxies[which]
                .post(path, self.variant.headers, body.to_string().into())
                .await;
            assert_eq!(
                (response.status, response.broken),
                (200, false),
                "{}",
                response.text()
            );
            let answer = (self.variant.parse)(&response.raw, stream);
            let answer = answer.unwrap_or_else(|error| panic!("{error}\n{}", response.text()));
            assert!(
                answer.text.matches("[[handoff-resume:").count() <= 2,
                "{}",
                answer.text
            );
            self.check_view(text, before, call == 0).await;
            self.history.extend(answer.keep.clone());
            if answer.calls.is_empty() {
                return;
            }
            self.history
                .extend((self.variant.results)(&answer.calls, "fn main() {}"));
            self.next.set(0);
        }
    }

    /// Checks that the model's last request has the user's message, and no document that is not a handoff.
    async fn check_view(&mut self, text: &str, before: usize, is_first: bool) {
        let sent = self.provider.generations();
        // A draft may be in progress at this moment.
        let new = sent.get(before..).unwrap_or_default();
        let Some(last) = new.iter().rfind(|seen| !is_for_a_draft(seen)) else {
            // A command, which baton answers.
            assert!(text.starts_with("::"), "{text} was not sent");
            return;
        };
        let view = outline(last).join("\n");
        let is_cut = !view.starts_with("u: Mend the importer.");
        let is_carried = view.contains("<handoff-context>") || view.contains("Carried over");
        assert!(!is_cut || is_carried, "{view}");
        // A cut inside the agent's loop carries the message as the document has it.
        if is_first && !text.starts_with("::") && !view.contains("Carried over") {
            assert!(
                view.contains(text.trim()),
                "{text:.30} is not in {}",
                view.replace("word ", "")
            );
        }
        let filter = HandoffFilter {
            limit: 99,
            archived: true,
            ..HandoffFilter::default()
        };
        let all = self.stores[0].handoffs(&filter).await.unwrap();
        let drafted = all
            .iter()
            .filter(|handoff| handoff.origin != HandoffOrigin::Model);
        let documents: Vec<&str> = drafted.map(|handoff| handoff.prompt.as_str()).collect();
        self.cuts = documents.len();
        for line in view.lines().filter(|line| line.contains(WRITTEN)) {
            let line = line.trim_start_matches("u: ");
            assert!(documents.iter().any(|prompt| prompt.contains(line)), "{line}");
        }
    }

    async fn step(&mut self, n: usize) {
        match self.dice.below(12) {
            0..=2 => {
                let kind = self.dice.below(2);
                self.turn(&format!("Message {n}."), kind).await;
            }
            3 => {
                let log = "word ".repeat(WORDS);
                self.turn(&format!("Message {n}. {log}"), 1).await;
            }
            4 => self.clock.advance(2 * MINUTE),
            5..=6 => self.clock.advance(4 * MINUTE + 30_000),
            7 => self.clock.advance(11 * MINUTE),
            8 => {
                let to = ["", "-b"][self.dice.below(2) as usize];
                self.model = format!("{}{to}", self.variant.model);
            }
            9 => {
                let which = self.dice.below(self.proxies.len() as u64) as usize;
                self.proxies[which] = start(&self.config, &self.stores[which], &self.clock);
            }
            10 => self.turn("::handoff undo", 0).await,
            _ if self.dice.below(3) == 0 => {
                self.turn(&format!("Message {n}, and hand over."), 2).await;
            }
            _ => self.clock.advance(30 * MINUTE),
        }
    }
}

fn start(config: &Config, store: &SharedStore, clock: &Clock) -> Baton {
    let clock = clock.clone();
    Baton::changed(
        config.clone(),
        store.clone(),
        harness::KEY,
        Recorder::off(),
        |mut app| {
            app.clock = clock;
            app
        },
    )
}

#[tokio::test]
async fn whatever_the_pauses_are_the_model_sees_what_it_should() {
    walk(Cases::QUICK, || vec![memory()]).await;
}

#[tokio::test]
#[ignore = "takes minutes: .ci/full long"]
async fn long() {
    walk(Cases::long(), || vec![memory()]).await;
}

mod replicas {
    use super::*;

    #[tokio::test]
    #[ignore = "needs Redis: .ci/full replicas"]
    async fn share_a_conversation() {
        let server = RedisServer::start(&[]);
        walk(Cases::long(), || {
            let prefix = uuid::Uuid::now_v7().to_string();
            [(); 2].map(|()| shared(&server.url(), &prefix)).into()
        })
        .await;
    }
}

async fn walk(cases: Cases, stores: impl Fn() -> Vec<SharedStore>) {
    let on_wire = async |variant: Variant| {
        let mut cuts = 0;
        for case in 0..u64::from(cases.count) / 8 {
            let directory = tempfile::tempdir().unwrap();
            let mut walk = Walk::new(variant, cases.seed * 1_000 + case, stores(), &directory).await;
            let log = format!("Mend the importer. {}", "word ".repeat(WORDS));
            walk.turn(&log, 0).await;
            walk.turn("Go on.", 1).await;
            for n in 0..STEPS {
                walk.step(n).await;
            }
            cuts += walk.cuts;
            let complaints = walk.provider.complaints();
            assert!(
                complaints.is_empty(),
                "{} case {case}: {complaints:?}",
                variant.model
            );
        }
        cuts
    };
    let cuts = join_all(WIRES.map(on_wire)).await.into_iter().sum::<usize>();
    assert!(cuts > 5, "without cuts the test says nothing: {cuts}");
}
