//! The conversations of this module with three replicas that share one Redis or Valkey server, request by
//! request.
//!
//! Knowledge of one replica is available to all, and every view is the same as with a single process. Their
//! clocks differ by minutes, and they are stopped and restarted.
//!
//! For 10,000 of them: `BATON_CASES=2000 .ci/full replicas`.

use std::sync::Arc;

use baton_llm::state::clock::Clock;
use baton_llm::state::config::{Config, ServerDurability, StoreAddress, StoreKind};
use baton_llm::state::journal::Recorder;
use baton_llm::state::store::SharedStore;
use baton_llm::state::store::redis::RedisStore;
use uuid::Uuid;

use super::wires;
use super::{Setting, whatever_happens_the_model_sees_what_it_should};
use crate::harness::Baton;
use crate::harness::cases::Cases;
use crate::harness::redis::RedisServer;

/// Replicas, by the offset of their clocks in milliseconds.
const CLOCKS: [i64; 3] = [0, 4 * 60_000, -4 * 60_000];

/// Seal key, as in a configuration.
const KEY: &str = "the-seal-key-of-all-replicas-of-a-test";

/// Replicas behind a balancer that does not recognize conversations.
pub struct Replicas {
    url: String,
    prefix: String,
    config: Config,
    all: Vec<Baton>,
    turns: u64,
}

impl Replicas {
    pub fn new(server: &RedisServer, config: Config) -> Self {
        let mut this = Self {
            url: server.url(),
            prefix: Uuid::now_v7().to_string(),
            config,
            all: Vec::new(),
            turns: 0,
        };
        this.start_all();
        this
    }

    /// Store that all replicas share.
    pub fn store(&self) -> SharedStore {
        shared(&self.url, &self.prefix)
    }

    fn start_all(&mut self) {
        self.all = CLOCKS.map(|ahead| self.started(ahead)).into();
    }

    fn started(&self, ahead: i64) -> Baton {
        let clock = |mut app: baton_llm::serve::app::App| {
            app.clock = Clock::ahead(ahead);
            app
        };
        let store = shared(&self.url, &self.prefix);
        Baton::changed(self.config.clone(), store, KEY.as_bytes(), Recorder::off(), clock)
    }

    /// The replica for the next request.
    pub fn next(&mut self) -> &Baton {
        let replica = self.draw();
        &self.all[replica]
    }

    /// Restarts one replica with empty memory.
    pub fn restart_one(&mut self) {
        let replica = self.draw();
        self.all[replica] = self.started(CLOCKS[replica]);
    }

    /// Loses the store: all replicas restart with an empty one.
    pub fn lose_store(&mut self) {
        self.prefix = Uuid::now_v7().to_string();
        self.start_all();
    }

    /// Picks a replica pseudo-randomly, in the same order in each run.
    fn draw(&mut self) -> usize {
        self.turns += 1;
        let mixed = self.turns.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 33) as usize % CLOCKS.len()
    }
}

/// Opens a store in this server.
pub fn shared(url: &str, prefix: &str) -> SharedStore {
    let mut settings = baton_llm::state::config::StoreConfig::from(StoreKind::Redis);
    settings.address = Some(StoreAddress::parse(url).unwrap());
    settings.durability = ServerDurability::Memory;
    prefix.clone_into(&mut settings.prefix);
    settings.timeout = std::time::Duration::from_secs(20);
    Arc::new(RedisStore::new(&settings).unwrap())
}

macro_rules! replicas {
    ($($name:ident = $profile:ident;)*) => {
        $(#[test]
        #[ignore = "needs Redis: .ci/full replicas"]
        fn $name() {
            let server = RedisServer::start(&[]);
            let setting = Setting::Replicas(&server);
            whatever_happens_the_model_sees_what_it_should(wires::$profile, &setting, Cases::long());
        })*
    };
}

replicas! {
    anthropic = ANTHROPIC;
    openai_chat = CHAT;
    openai_responses = RESPONSES;
    gemini = GEMINI;
    ollama = OLLAMA;
}
