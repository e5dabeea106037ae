//! Cuts without cost on every wire, with a scripted clock: a pause that outlives the cache, another model,
//! and events that must change nothing.

use std::time::Duration;

use baton_core::plan::FreeCutPolicy;
use baton_core::record::HandoffOrigin;
use baton_llm::state::clock::Clock;
use baton_llm::state::config::Config;
use baton_llm::state::store::SharedStore;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::automatic::origins;
use crate::harness::memory;
use crate::harness::texts::{assert_contains, assert_lacks};
use crate::matrix::fixture::Fixture;
use crate::matrix::talk::Talk;
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, RESPONSES, Variant};

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
    talk: Talk,
    clock: Clock,
    store: SharedStore,
    _directory: tempfile::TempDir,
}

impl Scene {
    /// Runs the agent's loop: file reads, then a response, after which the user is away.
    async fn new(variant: Variant, change: impl Fn(&mut Config)) -> Self {
        let (store, clock) = (memory(), Clock::default());
        let directory = tempfile::tempdir().unwrap();
        let prices = directory.path().join("prices.toml");
        std::fs::write(&prices, PRICES).unwrap();
        let mut talk = Talk::new(Fixture::with(variant, [], store.clone(), |_| ()).await);
        let config = |config: &mut Config| {
            config.handoff.when_cache_cold = FreeCutPolicy::On;
            config.handoff.cache_lifetime = Some(Duration::from_secs(300));
            config.commands.prefix = "::".to_owned();
            config.bill.prices = Some(prices);
            change(config);
        };
        let ticks = clock.clone();
        talk.restart_by(store.clone(), config, |mut app| {
            app.clock = ticks;
            app
        });
        talk.history.push(talk.user("Mend the importer."));
        for n in 0..6 {
            let call = Reply::new().call_as(format!("toolu_f{n}u1l9"), "read_file", json!({"path": "f"}));
            talk.runs(call, &"word ".repeat(10_000)).await;
            clock.advance(MINUTE / 10);
        }
        talk.push(Reply::text("Mended, but for one test."));
        talk.goes_on().await;
        Self {
            talk,
            clock,
            store,
            _directory: directory,
        }
    }

    /// The user returns, and the model writes a document first.
    async fn hands_over(&mut self) -> String {
        self.talk.push(Reply::text(DOCUMENT));
        self.talk.says("And the exporter?", "Went on.").await.text
    }
}

#[tokio::test]
async fn a_pause_that_outlives_the_cache_is_used_for_a_handoff() {
    for variant in WIRES {
        let mut scene = Scene::new(variant, |config| config.draft.max_tokens = 4_096).await;
        scene.clock.advance(12 * MINUTE);
        let text = scene.hands_over().await;
        assert_contains(&text, "[[handoff-resume:");
        assert_contains(&text, "the cache had gone cold: 12 minutes without a request");
        assert_eq!(origins(&scene.store).await, [HandoffOrigin::Auto]);
        let [sent] = &scene.talk.sent()[..] else { panic!() };
        assert_contains(sent, "Open exporter.rs.");
        // The open message goes on.
        assert_contains(sent, "And the exporter?");
        // The cache is warm again, and nothing else happens.
        assert_eq!(scene.talk.says("Thanks.", "Done.").await.text, "Done.");
        assert_eq!(origins(&scene.store).await.len(), 1);
        scene.talk.assert_clean();
    }
}

#[tokio::test]
async fn a_user_is_asked_first_where_the_config_wants_that() {
    let ask = |config: &mut Config| config.handoff.when_cache_cold = FreeCutPolicy::Ask;
    for (variant, yes) in WIRES
        .into_iter()
        .flat_map(|variant| [(variant, true), (variant, false)])
    {
        let mut scene = Scene::new(variant, ask).await;
        scene.clock.advance(12 * MINUTE);
        let talk = &mut scene.talk;
        // Nothing is sent before the user decides.
        let offered = talk.command("And the exporter?").await;
        assert_contains(&offered, "the cache had gone cold");
        assert_contains(&offered, "`::handoff`");
        assert_eq!(origins(&scene.store).await, []);
        if yes {
            let text = talk.says("::handoff --force", DOCUMENT).await.text;
            assert_contains(&text, "[[handoff-resume:");
            talk.says("Go on.", "Went on.").await;
            let [sent] = &talk.sent()[..] else { panic!() };
            assert_contains(sent, "And the exporter?");
        } else {
            assert_eq!(talk.says("No, as it is.", "Went on.").await.text, "Went on.");
            let sent = talk.sent();
            assert_eq!(sent[0], "u: Mend the importer.");
            assert_contains(sent.last().unwrap(), "And the exporter?");
            assert_lacks(sent.last().unwrap(), "gone cold");
        }
        talk.assert_clean();
    }
}

#[tokio::test]
async fn a_free_cut_is_undone_like_any_other() {
    for variant in WIRES {
        let mut scene = Scene::new(variant, |_| ()).await;
        scene.clock.advance(12 * MINUTE);
        scene.hands_over().await;
        scene.talk.command("::handoff undo").await;
        scene.talk.says("Go on.", "Whole.").await;
        assert_eq!(scene.talk.sent()[0], "u: Mend the importer.");
        assert_eq!(
            origins(&scene.store).await.len(),
            1,
            "nothing is cut at once again"
        );
        scene.talk.assert_clean();
    }
}

#[tokio::test]
async fn another_model_is_a_moment_at_once() {
    for variant in WIRES.into_iter().filter(|variant| variant.model != GEMINI.model) {
        let mut scene = Scene::new(variant, |_| ()).await;
        let talk = &mut scene.talk;
        talk.push(Reply::text(DOCUMENT));
        talk.push(Reply::text("Went on."));
        talk.history.push(talk.user("And the exporter?"));
        let mut body = (variant.body)(&talk.history, true);
        body["model"] = json!(format!("{}-large", variant.model));
        let body = body.to_string().into();
        let response = talk.baton.post((variant.path)(true), variant.headers, body).await;
        assert_contains(&talk.answer(&response, true).text, "the model changed");
        talk.assert_clean();
    }
}

#[tokio::test]
async fn a_subscription_pays_for_no_tokens() {
    let mut scene = Scene::new(ANTHROPIC, |_| ()).await;
    scene.clock.advance(60 * MINUTE);
    scene.talk.variant.headers = &[
        ("anthropic-version", "2023-06-01"),
        ("authorization", "Bearer sk-ant-oat01-strict"),
    ];
    let answer = scene.talk.says("And the exporter?", "Went on.").await;
    assert_eq!(answer.text, "Went on.");
    assert_eq!(origins(&scene.store).await, []);
}
