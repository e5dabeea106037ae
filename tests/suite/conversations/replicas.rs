//! The same conversations, request by request over three replicas over one Redis or Valkey server. Whatever one of
//! them knows, the others know, and every view is the one that a single process gives. Their clocks are minutes apart,
//! and they are stopped and started.
//!
//! `BATON_REPLICA_CASES` sets how many conversations are tried on each wire. 10,000 in all:
//! `BATON_REPLICA_CASES=2000 BATON_SEED=random cargo nextest run --test suite conversations::replicas`.
//!
//! With `BATON_OLDER=FILE`, a `baton` of an older version, one of the replicas is that program: both versions side by side over
//! one store, as in a rolling upgrade. Recall is off then, which the older one may not know.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use baton_llm::serve::exchange::Clock;
use baton_llm::state::config::{Config, ServerDurability, StoreKind};
use baton_llm::state::journal::Recorder;
use baton_llm::state::store::SharedStore;
use baton_llm::state::store::redis::RedisStore;
use bytes::Bytes;
use uuid::Uuid;

use super::wires;
use super::{Setting, whatever_happens_the_model_sees_what_it_should};
use crate::harness::program::Program;
use crate::harness::redis::RedisServer;
use crate::harness::{self, Baton, RawResponse};

/// Conversations on each wire, unless `BATON_REPLICA_CASES` says otherwise.
const CASES: u32 = 50;

/// The replicas, by how far their clocks are ahead; milliseconds.
const CLOCKS: [i64; 3] = [0, 4 * 60_000, -4 * 60_000];

/// The key of their seals, as a config may give it.
const KEY: &str = "the-seal-key-of-all-replicas-of-a-test";

/// Replicas behind a balancer that knows nothing of conversations.
pub struct Replicas {
    url: String,
    prefix: String,
    config: Config,
    all: Vec<Replica>,
    turns: u64,
}

/// One of them.
#[allow(clippy::large_enum_variant, reason = "there are three")]
pub enum Replica {
    /// This version, in this process.
    Current(Baton),
    /// An older program.
    Older {
        program: Program,
        _dir: tempfile::TempDir,
    },
}

/// The older program that one of the replicas is.
pub fn older() -> Option<PathBuf> {
    std::env::var_os("BATON_OLDER").map(PathBuf::from)
}

impl Replica {
    /// Sends a request, and reads its answer.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> RawResponse {
        match self {
            Self::Current(baton) => baton.post(path, headers, body).await,
            Self::Older { program, .. } => {
                harness::post(&format!("{}{path}", program.data), headers, body).await
            }
        }
    }
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

    /// The store that all have.
    pub fn store(&self) -> SharedStore {
        shared(&self.url, &self.prefix)
    }

    fn start_all(&mut self) {
        self.all = (0..CLOCKS.len()).map(|which| self.started(which)).collect();
    }

    fn started(&self, which: usize) -> Replica {
        match older() {
            Some(program) if which == 0 => self.started_older(program),
            _ => Replica::Current(self.started_current(CLOCKS[which])),
        }
    }

    fn started_older(&self, program: PathBuf) -> Replica {
        let dir = harness::temp();
        let mut config = format!(
            "server.listen = '127.0.0.1:0'\nadmin.listen = '127.0.0.1:0'\nserver.drain_secs = 0\n\
             store = {{ kind = 'redis', url = '{}', prefix = '{}', durability = 'memory', timeout_secs = 20 }}\n\
             [handoff]\nseal_key = '{KEY}'\nmax_chain = {}\nretries = {}\nnudge_at = 0\nnudge_tokens = {}\n",
            self.url,
            self.prefix,
            self.config.handoff.max_chain,
            self.config.handoff.retries,
            self.config.handoff.thresholds.nudge_tokens,
        );
        for (name, upstream) in &self.config.upstreams {
            config.push_str(&format!(
                "[upstreams.{name}]\nbase_url = '{}'\n",
                upstream.base_url
            ));
        }
        let file = dir.path().join("baton.toml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(program);
        command
            .args(["serve", "--log-level", "error", "--config"])
            .arg(&file);
        command.arg("--state-dir").arg(dir.path().join("state"));
        Replica::Older {
            program: Program::launch(&mut command),
            _dir: dir,
        }
    }

    fn started_current(&self, ahead: i64) -> Baton {
        let clock = |mut app: baton_llm::serve::exchange::App| {
            app.clock = Clock::ahead(ahead);
            app
        };
        let store = shared(&self.url, &self.prefix);
        Baton::changed(self.config.clone(), store, KEY.as_bytes(), Recorder::off(), clock)
    }

    /// The replica that the next request comes to.
    pub fn next(&mut self) -> &Replica {
        let replica = self.draw();
        &self.all[replica]
    }

    /// Stops one, and starts it again with empty memory.
    pub fn restart_one(&mut self) {
        let replica = self.draw();
        self.all[replica] = self.started(replica);
    }

    /// The store is lost: all begin anew over an empty one.
    pub fn lose_store(&mut self) {
        self.prefix = Uuid::now_v7().to_string();
        self.start_all();
    }

    /// In an order without a rule, the same in each run.
    fn draw(&mut self) -> usize {
        self.turns += 1;
        let mixed = self.turns.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 33) as usize % CLOCKS.len()
    }
}

/// A store in that server.
pub fn shared(url: &str, prefix: &str) -> SharedStore {
    shared_within(url, prefix, std::time::Duration::from_secs(20))
}

/// The same, with a limit of a call's time.
pub fn shared_within(url: &str, prefix: &str, time: std::time::Duration) -> SharedStore {
    let mut settings = baton_llm::state::config::StoreConfig::from(StoreKind::Redis);
    settings.address = Some(url.parse().unwrap());
    settings.durability = ServerDurability::Memory;
    prefix.clone_into(&mut settings.prefix);
    settings.timeout = time;
    Arc::new(RedisStore::of(&settings).unwrap())
}

macro_rules! replicas {
    ($($name:ident = $profile:ident;)*) => {
        $(#[test]
        #[cfg_attr(not(has_redis), ignore = "needs redis-server or valkey-server on the PATH")]
        fn $name() {
            let server = RedisServer::start(&[]);
            let cases = std::env::var("BATON_REPLICA_CASES").ok().and_then(|c| c.parse().ok());
            let setting = Setting::Replicas(&server);
            whatever_happens_the_model_sees_what_it_should(wires::$profile, &setting, cases.unwrap_or(CASES));
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
