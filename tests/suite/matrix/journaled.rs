//! A proxy with a journal, over a store in the same directory.

use std::time::Duration;

use baton_llm::state::config::Config;
use baton_llm::state::journal::{self, JournalReader, Recorder};
use baton_strict::{Options, Queue, Reply, Strict};

use super::fixture::{Fixture, config};
use super::variants::Variant;
use crate::harness::{self, Baton};

pub struct Journaled {
    pub fixture: Fixture,
    pub dir: tempfile::TempDir,
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
        let script = Queue::new(replies.into_iter().map(variant.style));
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let mut config = config(&variant, &provider.url());
        config.state_dir = dir.path().to_owned();
        config.journal.enabled = true;
        change(&mut config);
        let recorder = journal::start(&config.journal, dir.path(), &config.handoff.preamble_tags).unwrap();
        let store = harness::sqlite(dir.path());
        let baton = Baton::journaled(config, store, harness::KEY, recorder.clone());
        let fixture = Fixture {
            variant,
            script,
            provider,
            baton,
        };
        Self {
            fixture,
            dir,
            recorder,
        }
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
}
