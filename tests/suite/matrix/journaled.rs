//! A proxy with a journal, over a store in the same directory.

use std::time::Duration;

use baton_llm::state::config::Config;
use baton_llm::state::journal::{self, ExchangeDetail, ExchangeFilter, ExchangeRow, JournalReader, Recorder};
use baton_llm::state::store::SharedStore;
use baton_strict::{Options, Queue, Reply, Strict};

use super::fixture::{Fixture, config};
use super::talk::Talk;
use super::variants::{Answer, Variant};
use crate::harness::{self, Baton};

pub struct Journaled {
    pub fixture: Talk,
    pub dir: tempfile::TempDir,
    config: Config,
    recorder: Recorder,
}

impl Journaled {
    pub async fn new(variant: Variant, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(variant, replies, |_| {}).await
    }

    pub async fn with(
        variant: Variant,
        replies: impl IntoIterator<Item = Reply>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let dir = harness::temp();
        let store = harness::sqlite(dir.path());
        Self::over(variant, replies, store, dir, change).await
    }

    /// Starts a proxy over another store.
    pub async fn over(
        variant: Variant,
        replies: impl IntoIterator<Item = Reply>,
        store: SharedStore,
        dir: tempfile::TempDir,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let script = Queue::new(replies.into_iter().map(variant.style));
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let mut config = config(&variant, &provider.url());
        config.state_dir = dir.path().to_owned();
        config.journal.enabled = true;
        change(&mut config);
        let recorder = journal::start(&config.journal, dir.path(), &config.handoff.preamble_tags).unwrap();
        let baton = Baton::journaled(config.clone(), store, harness::KEY, recorder.clone());
        let fixture = Fixture {
            variant,
            script,
            provider,
            baton,
        };
        Self {
            fixture: Talk::opened(fixture),
            dir,
            config,
            recorder,
        }
    }

    /// Starts another process over this store, with the same journal.
    pub fn replica(&self, store: SharedStore) -> Baton {
        Baton::journaled(self.config.clone(), store, harness::KEY, self.recorder.clone())
    }

    /// Waits until the journal has this many exchanges.
    pub async fn written(&self, exchanges: usize) {
        self.fixture.baton.events(exchanges).await;
        let recorder = self.recorder.clone();
        let flushed = tokio::task::spawn_blocking(move || recorder.flush(Duration::from_secs(30))).await;
        assert!(flushed.unwrap());
    }

    /// Opens the journal once it has this many exchanges.
    pub async fn query(&self, exchanges: usize) -> JournalReader {
        self.written(exchanges).await;
        JournalReader::open(self.dir.path()).unwrap().unwrap()
    }

    /// Sends a conversation. The script has the replies.
    pub async fn sends(&self, stream: bool) -> Answer {
        self.fixture.ask(&self.fixture.history(), stream).await
    }

    /// Returns the last of so many exchanges.
    pub async fn newest(&self, exchanges: usize) -> (JournalReader, ExchangeRow, ExchangeDetail) {
        let query = self.query(exchanges).await;
        let row = query.list(&ExchangeFilter::default()).unwrap().remove(0);
        let exchange = query.exchange(&row.id).unwrap().unwrap();
        (query, row, exchange)
    }
}
