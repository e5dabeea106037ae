//! The model is notified how full its context is: when, where, and how often, on every wire.
//!
//! The provider checks that everything the model once saw is present again. `nudge::tests` has the rules of the
//! state machine.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use baton_core::nudge::{NudgeOutcome, Windows, is_nudge};
use baton_llm::state::config::{Config, InjectPolicy};
use baton_strict::{Options, Queue, Reply, Role, Rule};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::memory;
use crate::harness::texts::{assert_contains, assert_lacks};
use crate::matrix::fixture::{Fixture, carry, handoff, handoff_beside};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{ANTHROPIC, RESPONSES, Variant, WIRES};

/// Number of tokens at which the model is notified. A request with tools and a few words is far smaller.
const FROM: u64 = 4_000;

/// Returns text with this many tokens, as this provider counts them.
pub fn long(tokens: usize) -> String {
    "word ".repeat(tokens * 4 / 5)
}

/// Notifies from [`FROM`] tokens on, without waiting for a step. The models' windows are unknown.
pub fn early(config: &mut Config) {
    config.handoff.thresholds.nudge_at = 0.0;
    config.handoff.thresholds.nudge_tokens = FROM;
    // A tenth of the window is a fifth of a threshold in tokens.
    config.handoff.windows = Windows::default();
}

async fn begun(variant: Variant, change: impl FnOnce(&mut Config)) -> Talk {
    let script = Queue::new([]);
    // The tests call to-do tools that no request lists.
    let options = Options::default().prefixes().without(Rule::UnknownTool);
    let stage = Fixture::under(options, variant, script.clone(), script, memory(), |config| {
        early(config);
        change(config);
    });
    Talk::new(stage.await)
}

/// Returns the turn and the text of each nudge in the model's last request.
fn nudges(talk: &Talk) -> Vec<(usize, String)> {
    let last = talk.provider.generations().pop().unwrap();
    let turns = last.turns().into_iter().enumerate();
    let told = turns.flat_map(|(at, turn)| turn.texts.into_iter().map(move |text| (at, turn.role, text)));
    let told = told.filter_map(|(at, role, text)| {
        let text = text[text.find("<context-notice>")?..].to_owned();
        assert_eq!(role, Role::User);
        Some((at, text))
    });
    told.collect()
}

/// The text of the only nudge.
fn nudge(talk: &Talk) -> String {
    let mut all = nudges(talk);
    assert_eq!(all.len(), 1, "{:?}", talk.sent());
    all.remove(0).1
}

async fn outcomes(talk: &Talk, exchanges: usize) -> Vec<NudgeOutcome> {
    let events = talk.baton.events(exchanges).await;
    events.into_iter().flat_map(|event| event.facts.nudges).collect()
}

#[tokio::test]
async fn the_model_is_told_once_and_sees_it_at_the_same_place_ever_after() {
    for variant in WIRES {
        let mut talk = begun(variant, |_| {}).await;
        talk.says("Mend the importer.", "Looking.").await;
        talk.says(&long(5_500), "Long.").await;
        assert_eq!(nudges(&talk), [], "nothing is known of this request yet");
        let answer = talk.says("Go on.", "Told.").await;
        let told = nudges(&talk);
        let text = nudge(&talk);
        assert!(is_nudge(&text), "{text}");
        assert_contains(&text, "session_handoff");
        assert!(
            talk.sent().last().unwrap().starts_with("u: Go on."),
            "the user's words come first"
        );
        assert_lacks(&answer.text, "context-notice");
        for _ in 0..3 {
            talk.says("And?", Reply::new().thinking("Hm.").say("More.")).await;
            assert_eq!(nudges(&talk), told, "where it stood");
        }
        assert_eq!(outcomes(&talk, 6).await, [NudgeOutcome::Notified]);
        talk.assert_clean();
    }
}

/// A call of the to-do tool with this many of `all` items finished.
fn todo(n: usize, done: usize, all: usize) -> Reply {
    let state = |at: usize| if at < done { "completed" } else { "pending" };
    let item = |at| json!({"content": format!("step {at}"), "status": state(at)});
    let items: Vec<_> = (0..all).map(item).collect();
    Reply::new().call_as(format!("toolu_t{n}d1o"), "TodoWrite", json!({"todos": items}))
}

#[tokio::test]
async fn it_waits_for_the_end_of_a_step_and_not_for_ever() {
    for (variant, done) in WIRES.into_iter().flat_map(|variant| [(variant, 0), (variant, 1)]) {
        let mut talk = begun(variant, |config| config.handoff.thresholds.nudge_tokens = 20_000).await;
        talk.history.push(talk.user(&long(20_000)));
        for n in 0..2 {
            talk.runs(todo(n, n * done, 3), "ok").await;
            assert_eq!(nudges(&talk), [], "no step is done before request {n}");
        }
        talk.push(Reply::text("Next."));
        talk.goes_on().await;
        assert_eq!(nudges(&talk).len(), done, "with {done} steps done");
        // A tenth of the window later it no longer waits. On this scale that is 4,000 tokens.
        talk.says(&long(5_000), "So.").await;
        talk.says("And?", "Yes.").await;
        assert_eq!(nudges(&talk).len(), 1);
        talk.assert_clean();
    }
}

/// The program's log, in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// For a model with an unknown window only the thresholds in tokens apply, and the log reports that once.
#[tokio::test]
async fn a_model_without_a_known_window_is_told_of_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    // With a share of 0 an unknown window has no effect, and nothing is logged.
    for (share, lines) in [(0.0, 0), (0.5, 1)] {
        let mut talk = begun(ANTHROPIC, |config| config.handoff.thresholds.nudge_at = share).await;
        talk.variant.body = |history, stream| {
            let mut body = (ANTHROPIC.body)(history, stream);
            body["model"] = json!("unheard-of");
            body
        };
        for next in ["Mend the importer.", &long(5_500), "Go on.", "And?"] {
            talk.says(next, "So.").await;
        }
        assert_contains(&nudge(&talk), " tokens");
        assert_lacks(&nudge(&talk), "%");
        assert_eq!(outcomes(&talk, 4).await, [NudgeOutcome::Notified]);
        talk.assert_clean();
        let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let unknown =
            |line: &&str| line.contains("the window of this model is unknown") && line.contains("unheard-of");
        assert_eq!(logged.lines().filter(unknown).count(), lines, "{logged}");
    }
}

/// Also if handoffs come in close succession.
#[tokio::test]
async fn it_stops_where_what_is_left_is_too_large_by_itself() {
    for variant in WIRES {
        let mut talk = begun(variant, |config| config.handoff.thresholds.nudge_tokens = 1).await;
        talk.says("Mend the importer.", "Looking.").await;
        talk.says("Go on.", "Told.").await;
        assert_eq!(nudges(&talk).len(), 1);
        for _ in 0..2 {
            talk.hands_over("Go on.").await;
            for _ in 0..3 {
                talk.says("More.", "A turn.").await;
                assert_eq!(nudges(&talk), []);
            }
        }
        use NudgeOutcome::{CloseHandoffs, Followed, LargeCut, Notified};
        assert_eq!(
            outcomes(&talk, 10).await,
            [Notified, Followed, LargeCut, CloseHandoffs]
        );
        talk.assert_clean();
    }
}

#[tokio::test]
async fn subagents_have_thresholds_of_their_own() {
    for (sub, told) in [(None, 1), (Some(1_000_000), 0)] {
        let mut talk = begun(ANTHROPIC, |config| config.handoff.subagents.nudge_tokens = sub).await;
        let ids = [("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "a")];
        talk.variant = ANTHROPIC.with_headers(&ids);
        talk.says(&long(5_500), "Long.").await;
        talk.says("Go on.", "Yes.").await;
        assert_eq!(nudges(&talk).len(), told);
        talk.assert_clean();
    }
}

#[tokio::test]
async fn nothing_is_said_without_thresholds_or_without_the_tool() {
    for (variant, off) in WIRES
        .into_iter()
        .flat_map(|variant| [(variant, true), (variant, false)])
    {
        let mut talk = begun(variant, |config| match off {
            true => config.handoff.thresholds.nudge_tokens = 0,
            false => config.handoff.inject = InjectPolicy::Never,
        })
        .await;
        talk.says(&long(5_500), "Long.").await;
        talk.says("Go on.", "Fine.").await;
        assert_eq!(nudges(&talk), []);
        talk.assert_clean();
    }
}

/// With a pending handoff call, the model is not prompted for a handoff again.
#[tokio::test]
async fn nothing_is_said_while_a_handoff_waits() {
    for variant in WIRES {
        let mut talk = begun(variant, |_| {}).await;
        talk.history = talk.history();
        talk.history.push((variant.message)("assistant", "So."));
        talk.history.push(talk.user(&long(5_500)));
        let call = Reply::new().call_as("toolu_m1x3d", "read_file", json!({"path": "x"}));
        talk.runs(handoff_beside(call), "fn main() {}").await;
        talk.push(Reply::text("That was it."));
        talk.push(Reply::text("Fresh."));
        talk.goes_on().await;
        let all = talk.provider.generations();
        let waiting = all[all.len() - 2].turns();
        let mut texts = waiting.iter().flat_map(|turn| &turn.texts);
        assert!(texts.all(|text| !text.contains("<context-notice>")));
        assert_eq!(talk.sent()[0], carry());
        talk.assert_clean();
    }
}

/// Codex's `new_context` tool begins a context without a history in the same session.
///
/// The handoff no longer applies, which is reported once, and the state of the old context is void.
#[tokio::test]
async fn a_context_that_the_agent_begins_anew_is_unpinned_once() {
    let mut talk = begun(RESPONSES, |_| {}).await;
    talk.variant = RESPONSES.with_headers(&[("session-id", "s"), ("thread-id", "s")]);
    talk.history = talk.history()[..2].to_vec();
    talk.hands_over("Go on.").await;
    talk.history.push(talk.user(&long(5_500)));
    let call = Reply::new().call_as("call_n3wc0nt3xt", "new_context", json!({}));
    talk.runs(call, "ok").await;
    assert_eq!(talk.sent()[0], carry());
    // The next request contains neither the call nor the sentinel.
    talk.history.clear();
    for next in ["Where were we?", "And?", "And?"] {
        talk.says(next, "Here.").await;
        assert_eq!(nudges(&talk), []);
    }
    let events = talk.baton.events(5).await;
    let lost_sentinel: Vec<bool> = events.iter().map(|event| event.lost_sentinel).collect();
    assert_eq!(lost_sentinel, [false, false, true, false, false]);
    talk.assert_clean();
}

/// Sets prices of every model: writes cost 25 times as much as reads.
fn priced(config: &mut Config, directory: &tempfile::TempDir) {
    let file = directory.path().join("prices.toml");
    let table = "source = \"test\"\ndate = \"2026-11-24\"\n[[provider]]\nid = \"t\"\n[[provider.model]]\nid = \"m\"\nnames = [\"*strict*\"]\n\
                 price = [{ input = 4.0, cache_read = 0.2, cache_write = 5.0, output = 20.0 }]\n";
    std::fs::write(&file, table).unwrap();
    config.bill.prices = Some(file);
    config.handoff.thresholds.nudge_tokens = 0;
    config.handoff.thresholds.nudge_pays = true;
}

#[tokio::test]
async fn a_notice_comes_where_a_handoff_pays_within_the_steps_that_are_left() {
    // In the same context a handoff does not pay with few items left, and pays with many.
    let rows = [(4, 100_000, false), (60, 100_000, true), (60, 10_000, false)];
    for (variant, (items, tokens, is_due)) in WIRES
        .into_iter()
        .flat_map(|variant| rows.map(|row| (variant, row)))
    {
        let directory = tempfile::tempdir().unwrap();
        let mut talk = begun(variant, |config| priced(config, &directory)).await;
        talk.history.push(talk.user(&long(tokens)));
        for n in 0..3 {
            talk.runs(todo(n, n, items), &long(500)).await;
        }
        talk.push(Reply::text("Went on."));
        talk.goes_on().await;
        assert_eq!(nudges(&talk).len(), usize::from(is_due), "{items} {tokens}");
        if is_due {
            assert_contains(&nudge(&talk), "open items of your to-do list need some");
        }
        talk.assert_clean();
    }
}

#[tokio::test]
async fn a_notice_comes_before_a_usage_limit_once() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let near = || {
        let [used, reset] =
            ["utilization", "reset"].map(|name| format!("anthropic-ratelimit-unified-5h-{name}"));
        Reply::text("On.")
            .header(used, "0.96")
            .header(reset, (now + 3_600).to_string())
    };
    for variant in WIRES {
        let mut talk = begun(variant, |config| {
            config.handoff.thresholds.nudge_tokens = 0;
            config.handoff.nudge_limit = true;
        })
        .await;
        talk.says("Mend the importer.", near()).await;
        talk.says("Go on.", near()).await;
        assert_contains(&nudge(&talk), "usage limit of this account is at 96%");
        talk.push(handoff());
        for next in ["And?", "More.", "More."] {
            talk.says(next, near()).await;
        }
        assert_eq!(nudges(&talk), [], "the next task is not told of the same limit");
    }
}
