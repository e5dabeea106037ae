//! Cuts without cost on every wire, with a scripted clock: a pause that outlives the cache, another model,
//! and events that must change nothing.

use std::time::Duration;

use baton_core::plan::FreeCutPolicy;
use baton_core::record::HandoffOrigin;
use baton_llm::state::clock::Clock;
use baton_llm::state::config::Config;
use baton_llm::state::store::{HandoffFilter, SharedStore};
use baton_strict::{Options, Queue, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::harness::texts::{assert_contains, assert_lacks};
use crate::matrix::fixture::Fixture;
use crate::matrix::variants::{ANTHROPIC, Answer, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

/// Ollama has no billed cache.
const WIRES: [Variant; 4] = [ANTHROPIC, CHAT, RESPONSES, GEMINI];

const DOCUMENT: &str = "## Goal\nMend the importer.\n\n## Next steps\n1. Open exporter.rs.";

const MINUTE: i64 = 60_000;

/// Cache writes are expensive and everything else is cheap, so that a cut in a pause pays.
const PRICES: &str = r#"
source = "test"
date = "2026-11-24"

[[provider]]
id = "test"

[[provider.model]]
id = "strict"
names = ["*strict*"]
price = [{ input = 4.0, cache_read = 0.01, cache_write = 5.0, output = 0.01 }]
"#;

/// An idle conversation of about 70,000 tokens, with a provider that has prices.
struct Scene {
    fixture: Fixture,
    clock: Clock,
    store: SharedStore,
    history: Vec<Value>,
    _directory: tempfile::TempDir,
}

impl Scene {
    async fn new(variant: Variant, change: impl Fn(&mut Config)) -> Self {
        Self::pausing(variant, change, 10_000).await
    }

    async fn pausing(variant: Variant, change: impl Fn(&mut Config), words: usize) -> Self {
        let (store, clock) = (memory(), Clock::default());
        let directory = tempfile::tempdir().unwrap();
        let script = Queue::new([]);
        let fixture = Fixture::under(
            Options::default(),
            variant,
            script.clone(),
            script,
            store.clone(),
            |_| (),
        )
        .await;
        let mut scene = Self {
            fixture,
            clock,
            store,
            history: Vec::new(),
            _directory: directory,
        };
        scene.restart(change);
        scene.work(words).await;
        scene
    }

    /// Starts another process with the same store.
    fn restart(&mut self, change: impl Fn(&mut Config)) {
        let prices = self._directory.path().join("prices.toml");
        std::fs::write(&prices, PRICES).unwrap();
        let clock = self.clock.clone();
        let config = |config: &mut Config| {
            config.handoff.when_cache_cold = FreeCutPolicy::On;
            config.handoff.cache_lifetime = Some(Duration::from_secs(300));
            config.commands.prefix = "::".to_owned();
            config.bill.prices = Some(prices);
            change(config);
        };
        self.fixture.restart_by(self.store.clone(), config, |mut app| {
            app.clock = clock;
            app
        });
    }

    /// Runs the agent's loop: file reads, then a response, after which the user is away.
    async fn work(&mut self, words: usize) {
        let fixture = &self.fixture;
        let mut history = vec![fixture.user("Mend the importer.")];
        for n in 0..6 {
            fixture.push(Reply::new().call_as(
                format!("toolu_f{n}u1l9"),
                "read_file",
                json!({"path": format!("f{n}")}),
            ));
            let answer = fixture.ask(&history, true).await;
            history.extend(answer.keep.clone());
            history.extend((fixture.variant.results)(&answer.calls, &"word ".repeat(words)));
            self.clock.advance(MINUTE / 10);
        }
        fixture.push(Reply::text("Mended, but for one test."));
        let answer = fixture.ask(&history, true).await;
        history.extend(answer.keep);
        self.history = history;
    }

    /// The user returns.
    async fn says(&mut self, text: &str) -> Answer {
        self.history.push(self.fixture.user(text));
        let answer = self.fixture.ask(&self.history, true).await;
        self.history.extend(answer.keep.clone());
        answer
    }

    async fn origins(&self) -> Vec<HandoffOrigin> {
        let filter = HandoffFilter {
            limit: 9,
            ..HandoffFilter::default()
        };
        let all = self.store.handoffs(&filter).await.unwrap();
        all.iter().map(|handoff| handoff.origin).collect()
    }

    /// Number of requests that the model received.
    fn requests(&self) -> usize {
        self.fixture.provider.generations().len()
    }
}

fn nothing(_: &mut Config) {}

#[tokio::test]
async fn a_pause_that_outlives_the_cache_is_used_for_a_handoff() {
    for variant in WIRES {
        let mut scene = Scene::new(variant, |config| config.draft.max_tokens = 4_096).await;
        scene.clock.advance(12 * MINUTE);
        scene.fixture.push(Reply::text(DOCUMENT));
        scene.fixture.push(Reply::text("Went on."));
        let answer = scene.says("And the exporter?").await;
        assert!(answer.text.contains("[[handoff-resume:"), "{}", answer.text);
        let part = "the cache had gone cold: 12 minutes without a request";
        assert_contains(&answer.text, part);
        assert_eq!(scene.origins().await, [HandoffOrigin::Auto]);
        let sent = scene.fixture.sent();
        assert!(
            sent.len() == 1 && sent[0].contains("Open exporter.rs."),
            "{sent:?}"
        );
        assert!(sent[0].contains("And the exporter?"), "the open message goes on");
        // The cache is warm again, and nothing else happens.
        scene.fixture.push(Reply::text("Done."));
        assert_eq!(scene.says("Thanks.").await.text, "Done.");
        assert_eq!(scene.origins().await.len(), 1);
        scene.fixture.assert_clean();
    }
}

#[tokio::test]
async fn who_comes_back_in_time_goes_on_with_the_whole_history() {
    for variant in WIRES {
        let mut scene = Scene::new(variant, nothing).await;
        let asked = scene.requests();
        scene.clock.advance(3 * MINUTE);
        scene.fixture.push(Reply::text("Went on."));
        assert_eq!(scene.says("And the exporter?").await.text, "Went on.");
        assert_eq!(scene.fixture.sent()[0], "u: Mend the importer.");
        assert_eq!(scene.requests(), asked + 1);
        assert_eq!(scene.origins().await, []);
        scene.fixture.assert_clean();
    }
}

#[tokio::test]
async fn where_nothing_is_to_be_won_nothing_happens() {
    let off = |config: &mut Config| config.handoff.when_cache_cold = FreeCutPolicy::Off;
    let unpriced = |config: &mut Config| config.bill.prices = None;
    type Row = (&'static str, fn(&mut Config), usize);
    let rows: [Row; 3] = [
        ("off", off, 10_000),
        ("without a price", unpriced, 10_000),
        ("a short history", nothing, 500),
    ];
    let cached = WIRES.map(|variant| rows.map(|row| (variant, row)));
    let uncached: Row = ("without a cache", nothing, 10_000);
    for (variant, (name, change, words)) in cached.into_iter().flatten().chain([(OLLAMA, uncached)]) {
        let mut scene = Scene::pausing(variant, change, words).await;
        let asked = scene.requests();
        scene.clock.advance(60 * MINUTE);
        scene.fixture.push(Reply::text("Went on."));
        assert_eq!(scene.says("And the exporter?").await.text, "Went on.", "{name}");
        assert_eq!(scene.requests(), asked + 1, "{name}");
        assert_eq!(scene.origins().await, [], "{name}");
        scene.fixture.assert_clean();
    }
}

#[tokio::test]
async fn a_user_is_asked_first_where_the_config_wants_that() {
    let ask = |config: &mut Config| config.handoff.when_cache_cold = FreeCutPolicy::Ask;
    for variant in WIRES {
        for yes in [true, false] {
            let mut scene = Scene::new(variant, ask).await;
            let asked = scene.requests();
            scene.clock.advance(12 * MINUTE);
            let answer = scene.says("And the exporter?").await;
            assert_contains(&answer.text, "the cache had gone cold");
            assert_contains(&answer.text, "`::handoff`");
            assert_eq!(scene.requests(), asked, "nothing is sent before the user decides");
            assert_eq!(scene.origins().await, []);
            if yes {
                scene.fixture.push(Reply::text(DOCUMENT));
                let answer = scene.says("::handoff --force").await;
                assert!(answer.text.contains("[[handoff-resume:"), "{}", answer.text);
                scene.fixture.push(Reply::text("Went on."));
                scene.says("Go on.").await;
                let sent = scene.fixture.sent();
                assert!(
                    sent.len() == 1 && sent[0].contains("And the exporter?"),
                    "{sent:?}"
                );
            } else {
                scene.fixture.push(Reply::text("Went on."));
                assert_eq!(scene.says("No, as it is.").await.text, "Went on.");
                let sent = scene.fixture.sent();
                assert_eq!(sent[0], "u: Mend the importer.");
                let last = sent.last().unwrap();
                assert_contains(last, "And the exporter?");
                assert_lacks(last, "gone cold");
            }
            scene.fixture.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_free_cut_is_undone_like_any_other() {
    for variant in WIRES {
        let mut scene = Scene::new(variant, nothing).await;
        scene.clock.advance(12 * MINUTE);
        scene.fixture.push(Reply::text(DOCUMENT));
        scene.fixture.push(Reply::text("Went on."));
        scene.says("And the exporter?").await;
        scene.says("::handoff undo").await;
        scene.fixture.push(Reply::text("Whole."));
        scene.says("Go on.").await;
        assert_eq!(scene.fixture.sent()[0], "u: Mend the importer.");
        assert_eq!(scene.origins().await.len(), 1, "nothing is cut at once again");
        scene.fixture.assert_clean();
    }
}

#[tokio::test]
async fn another_model_is_a_moment_at_once() {
    for variant in WIRES.into_iter().filter(|variant| variant.model != GEMINI.model) {
        let mut scene = Scene::new(variant, nothing).await;
        scene.fixture.push(Reply::text(DOCUMENT));
        scene.fixture.push(Reply::text("Went on."));
        scene.history.push(scene.fixture.user("And the exporter?"));
        let mut body = (variant.body)(&scene.history, true);
        body["model"] = json!(format!("{}-large", variant.model));
        let path = (variant.path)(true);
        let sent = body.to_string().into();
        let response = scene.fixture.baton.post(path, variant.headers, sent).await;
        let answer = scene.fixture.answer(&response, true);
        assert!(answer.text.contains("the model changed"), "{}", answer.text);
        scene.fixture.assert_clean();
    }
}

#[tokio::test]
async fn a_subscription_pays_for_no_tokens() {
    let mut scene = Scene::new(ANTHROPIC, nothing).await;
    scene.clock.advance(60 * MINUTE);
    scene.fixture.push(Reply::text("Went on."));
    scene.history.push(scene.fixture.user("And the exporter?"));
    let body = (ANTHROPIC.body)(&scene.history, true).to_string();
    let headers = [
        ("anthropic-version", "2023-06-01"),
        ("authorization", "Bearer sk-ant-oat01-strict"),
    ];
    let path = (ANTHROPIC.path)(true);
    let response = scene.fixture.baton.post(path, &headers, body.into()).await;
    assert_eq!(scene.fixture.answer(&response, true).text, "Went on.");
    assert_eq!(scene.origins().await, []);
}
