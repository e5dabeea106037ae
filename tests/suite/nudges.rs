//! The model is notified how full its context is: when, where, and how often, on every wire.
//!
//! The provider checks that everything the model once saw is present again.

use std::io::Write;
use std::sync::{Arc, Mutex};

use baton_core::nudge::{NudgeOutcome, Windows, is_nudge};
use baton_llm::state::config::Config;
use baton_llm::state::store::SharedStore;
use baton_strict::{Options, Queue, Reply, Role, Rule};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{RawResponse, memory};
use crate::matrix::fixture::{Fixture, PROMPT, carry, handoff};
use crate::matrix::variants::{ANTHROPIC, Answer, CHAT, GEMINI, OLLAMA, RESPONSES, Variant};

const WIRES: [Variant; 5] = [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA];

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

async fn fixture(variant: Variant, store: SharedStore, change: impl FnOnce(&mut Config)) -> Fixture {
    let script = Queue::new([]);
    // The tests call to-do tools that no request lists.
    let options = Options::default().prefixes().without(Rule::UnknownTool);
    Fixture::under(options, variant, script.clone(), script, store, |config| {
        early(config);
        change(config);
    })
    .await
}

/// Returns the turn of each nudge in the model's last request.
fn nudges(fixture: &Fixture) -> Vec<usize> {
    let last = fixture.provider.generations().pop().unwrap();
    let turns = last.turns().into_iter().enumerate();
    let told = turns.filter(|(_, turn)| turn.texts.iter().any(|text| text.contains("<context-notice>")));
    told.map(|(at, turn)| {
        assert_eq!(turn.role, Role::User);
        at
    })
    .collect()
}

/// Returns the text of the nudge.
fn text(fixture: &Fixture) -> String {
    let last = fixture.provider.generations().pop().unwrap();
    let texts = last.turns().into_iter().flat_map(|turn| turn.texts);
    let told = texts
        .into_iter()
        .find(|text| text.contains("<context-notice>"))
        .unwrap();
    told[told.find("<context-notice>").unwrap()..].to_owned()
}

async fn outcomes(fixture: &Fixture, exchanges: usize) -> Vec<NudgeOutcome> {
    let events = fixture.baton.events(exchanges).await;
    events.into_iter().flat_map(|event| event.facts.nudges).collect()
}

/// Sends a user message, and adds the response to the history.
pub async fn say(fixture: &Fixture, history: &mut Vec<Value>, next: &str, reply: Reply) -> Answer {
    fixture.push(reply);
    history.push(fixture.user(next));
    let answer = fixture.ask(history, true).await;
    history.extend(answer.keep.clone());
    answer
}

/// Adds a task's first turn, and one so long that the next request is over the threshold.
async fn fill(fixture: &Fixture, history: &mut Vec<Value>) {
    say(fixture, history, "Mend the importer.", Reply::text("Looking.")).await;
    say(fixture, history, &long(5_500), Reply::text("Long.")).await;
}

#[tokio::test]
async fn the_model_is_told_once_and_sees_it_at_the_same_place_ever_after() {
    for variant in WIRES {
        let fixture = fixture(variant, memory(), |_| {}).await;
        let mut history = Vec::new();
        fill(&fixture, &mut history).await;
        assert_eq!(nudges(&fixture), [0; 0], "nothing is known of this request yet");
        let answer = say(&fixture, &mut history, "Go on.", Reply::text("Told.")).await;
        let [at] = nudges(&fixture)[..] else {
            panic!("{:?}", fixture.sent());
        };
        let told = text(&fixture);
        assert!(is_nudge(&told) && told.contains("session_handoff"), "{told}");
        assert!(
            fixture.sent().last().unwrap().starts_with("u: Go on."),
            "the user's words come first"
        );
        assert!(
            !answer.text.contains("context-notice"),
            "the agent does not see it"
        );
        for n in 0..3 {
            let reply = Reply::new().thinking("Hm.").say(format!("More {n}."));
            say(&fixture, &mut history, "And?", reply).await;
            assert_eq!(
                (nudges(&fixture), text(&fixture)),
                (vec![at], told.clone()),
                "where it stood"
            );
        }
        assert_eq!(outcomes(&fixture, 6).await, [NudgeOutcome::Notified]);
        fixture.assert_clean();
    }
}

/// A to-do call with this many finished items, and its result.
fn todo(fixture: &Fixture, n: usize, done: usize) -> (Reply, impl Fn(&Answer) -> Vec<Value> + use<>) {
    let state = |at: usize| if at < done { "completed" } else { "pending" };
    let items: Vec<Value> = (0..3)
        .map(|at| json!({"content": format!("step {at}"), "status": state(at)}))
        .collect();
    let reply = Reply::new().call_as(format!("toolu_t{n}d7q"), "TodoWrite", json!({"todos": items}));
    let results = fixture.variant.results;
    (reply, move |answer| {
        [&answer.keep[..], &results(&answer.calls, "ok")].concat()
    })
}

#[tokio::test]
async fn it_waits_for_the_end_of_a_step_and_not_for_ever() {
    for variant in WIRES {
        for done in [0, 1] {
            let fixture = fixture(variant, memory(), |config| {
                config.handoff.thresholds.nudge_tokens = 20_000;
            })
            .await;
            let mut history = vec![fixture.user(&long(20_000))];
            for n in 0..2 {
                let (reply, then) = todo(&fixture, n, n * done);
                fixture.push(reply);
                let answer = fixture.ask(&history, true).await;
                assert_eq!(nudges(&fixture), [0; 0], "no step is done before request {n}");
                history.extend(then(&answer));
            }
            fixture.push(Reply::text("Next."));
            let answer = fixture.ask(&history, true).await;
            assert_eq!(nudges(&fixture).len(), done, "with {done} steps done");
            history.extend(answer.keep.clone());
            // A tenth of the window later it no longer waits. On this scale that is 4,000 tokens.
            say(&fixture, &mut history, &long(5_000), Reply::text("So.")).await;
            say(&fixture, &mut history, "And?", Reply::text("Yes.")).await;
            assert_eq!(nudges(&fixture).len(), 1);
            fixture.assert_clean();
        }
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
    for (n, variant) in WIRES.into_iter().enumerate() {
        // With a share of 0 an unknown window has no effect, and nothing is logged.
        for (share, model) in [(0.5, "unheard-of"), (0.0, "unsaid")] {
            let model = format!("{model}-{n}");
            let fixture = fixture(variant, memory(), |config| {
                config.handoff.thresholds.nudge_at = share;
            })
            .await;
            let mut history = Vec::new();
            for next in ["Mend the importer.", &long(5_500), "Go on.", "And?"] {
                fixture.push(Reply::text("So."));
                history.push(fixture.user(next));
                let body = (variant.body)(&history, true)
                    .to_string()
                    .replace(variant.model, &model);
                let path = (variant.path)(true).replace(variant.model, &model);
                let response = fixture.baton.post(&path, variant.headers, body.into()).await;
                history.extend(fixture.answer(&response, true).keep);
            }
            let told = text(&fixture);
            assert!(told.contains(" tokens") && !told.contains('%'), "{told}");
            assert_eq!(outcomes(&fixture, 4).await, [NudgeOutcome::Notified]);
            fixture.assert_clean();
            let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
            let unknown =
                |line: &&str| line.contains("the window of this model is unknown") && line.contains(&model);
            let said = logged.lines().filter(unknown).count();
            assert_eq!(said, usize::from(share > 0.0), "{model}: {logged}");
        }
    }
}

#[tokio::test]
async fn it_stops_where_what_is_left_is_too_large_by_itself() {
    for variant in WIRES {
        let fixture = fixture(variant, memory(), |config| {
            config.handoff.thresholds.nudge_tokens = 1;
        })
        .await;
        let mut history = Vec::new();
        say(
            &fixture,
            &mut history,
            "Mend the importer.",
            Reply::text("Looking."),
        )
        .await;
        say(&fixture, &mut history, "Go on.", Reply::text("Told.")).await;
        assert_eq!(nudges(&fixture).len(), 1);
        fixture.push(handoff());
        say(&fixture, &mut history, "Go on.", Reply::text("Fresh.")).await;
        for n in 0..4 {
            say(&fixture, &mut history, "More.", Reply::text(format!("Turn {n}."))).await;
            assert_eq!(nudges(&fixture), [0; 0]);
        }
        let stopped = NudgeOutcome::LargeCut;
        assert_eq!(
            outcomes(&fixture, 7).await,
            [NudgeOutcome::Notified, NudgeOutcome::Followed, stopped]
        );
        fixture.assert_clean();
    }
}

#[tokio::test]
async fn it_stops_where_handoffs_come_in_close_succession() {
    for variant in WIRES {
        let fixture = fixture(variant, memory(), |_| {}).await;
        let mut history = fixture.history();
        history.pop();
        for n in 0..2 {
            fixture.push(handoff());
            say(
                &fixture,
                &mut history,
                "Go on.",
                Reply::text(format!("Fresh {n}.")),
            )
            .await;
            say(&fixture, &mut history, "Then?", Reply::text(format!("Next {n}."))).await;
        }
        say(&fixture, &mut history, &long(6_000), Reply::text("Long.")).await;
        say(&fixture, &mut history, "Go on.", Reply::text("Not told.")).await;
        assert_eq!(nudges(&fixture), [0; 0]);
        let stopped = NudgeOutcome::CloseHandoffs;
        assert_eq!(outcomes(&fixture, 6).await, [stopped]);
        fixture.assert_clean();
    }
}

/// An earlier notice is present after a restart and is not repeated. The context use is unknown until the
/// next response.
#[tokio::test]
async fn it_survives_a_restart() {
    for variant in WIRES {
        let store = memory();
        let mut fixture = fixture(variant, store.clone(), |_| {}).await;
        let mut history = Vec::new();
        say(&fixture, &mut history, &long(5_500), Reply::text("Long.")).await;
        say(&fixture, &mut history, "Go on.", Reply::text("Told.")).await;
        let told = (nudges(&fixture), text(&fixture));
        fixture.restart_with(store.clone(), early);
        for n in 0..3 {
            say(&fixture, &mut history, "And?", Reply::text(format!("More {n}."))).await;
            assert_eq!((nudges(&fixture), text(&fixture)), told);
        }
        // A conversation that had not been notified is notified once a response has reported the use.
        let mut other = vec![fixture.user("Another task.")];
        say(&fixture, &mut other, &long(5_500), Reply::text("Long, too.")).await;
        fixture.restart_with(store, early);
        say(&fixture, &mut other, "Go on.", Reply::text("Not yet.")).await;
        assert_eq!(nudges(&fixture), [0; 0]);
        say(&fixture, &mut other, "Go on.", Reply::text("Told.")).await;
        assert_eq!(nudges(&fixture).len(), 1);
        fixture.assert_clean();
    }
}

fn of_subagent(variant: &Variant) -> Vec<(&'static str, &'static str)> {
    let mut headers = variant.headers.to_vec();
    headers.extend([("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "a")]);
    headers
}

#[tokio::test]
async fn subagents_have_thresholds_of_their_own() {
    for (sub, told) in [(None, 1), (Some(1_000_000), 0)] {
        let fixture = fixture(ANTHROPIC, memory(), |config| {
            config.handoff.subagents.nudge_tokens = sub
        })
        .await;
        let headers = of_subagent(&ANTHROPIC);
        let send = async |history: &[Value], words: &str| -> RawResponse {
            fixture.push(Reply::text(words));
            let body = (ANTHROPIC.body)(history, false).to_string();
            fixture.baton.post("/v1/messages", &headers, body.into()).await
        };
        let mut history = vec![fixture.user(&long(5_500))];
        let answer = fixture.answer(&send(&history, "Long.").await, false);
        history.extend(answer.keep.clone());
        history.push(fixture.user("Go on."));
        send(&history, "Yes.").await;
        assert_eq!(nudges(&fixture).len(), told);
        fixture.assert_clean();
    }
}

#[tokio::test]
async fn nothing_is_said_without_thresholds_or_without_the_tool() {
    for variant in WIRES {
        for off in [true, false] {
            let fixture = fixture(variant, memory(), |config| match off {
                true => config.handoff.thresholds.nudge_tokens = 0,
                false => config.handoff.inject = baton_llm::state::config::InjectPolicy::Never,
            })
            .await;
            let mut history = Vec::new();
            say(&fixture, &mut history, &long(5_500), Reply::text("Long.")).await;
            say(&fixture, &mut history, "Go on.", Reply::text("Fine.")).await;
            assert_eq!(nudges(&fixture), [0; 0]);
            fixture.assert_clean();
        }
    }
}

/// With a pending handoff call, the model is not prompted for a handoff again.
#[tokio::test]
async fn nothing_is_said_while_a_handoff_waits() {
    for variant in WIRES {
        let fixture = fixture(variant, memory(), |_| {}).await;
        let mut history = fixture.history();
        history.push((variant.message)("assistant", "So."));
        history.push(fixture.user(&long(5_500)));
        let reply = Reply::new()
            .call_as("toolu_m1x3d".to_owned(), "read_file", json!({"path": "x"}))
            .call("session_handoff", json!({"prompt": PROMPT}));
        fixture.push(reply);
        let answer = fixture.ask(&history, true).await;
        let history = fixture.ran(&history, &answer);
        fixture.push(Reply::text("That was it."));
        fixture.push(Reply::text("Fresh."));
        fixture.ask(&history, true).await;
        let all = fixture.provider.generations();
        let waiting = all[all.len() - 2].turns();
        let texts = waiting.iter().flat_map(|turn| &turn.texts);
        assert!(texts.into_iter().all(|text| !text.contains("<context-notice>")));
        assert_eq!(fixture.sent()[0], carry());
        fixture.assert_clean();
    }
}

/// Codex's `new_context` tool begins a context without a history in the same session.
///
/// The handoff no longer applies, which is reported once, and the state of the old context is void.
#[tokio::test]
async fn a_context_that_the_agent_begins_anew_is_unpinned_once() {
    let fixture = fixture(RESPONSES, memory(), |_| {}).await;
    let mut headers = RESPONSES.headers.to_vec();
    headers.extend([("session-id", "s"), ("thread-id", "s")]);
    let send = async |history: &[Value], replies: Vec<Reply>| -> Answer {
        replies.into_iter().for_each(|reply| fixture.push(reply));
        let body = (RESPONSES.body)(history, true).to_string();
        fixture.answer(
            &fixture.baton.post("/v1/responses", &headers, body.into()).await,
            true,
        )
    };
    let history = fixture.history();
    let answer = send(&history, vec![handoff(), Reply::text("Fresh.")]).await;
    let mut pinned = fixture.then(&history, &answer, &long(5_500));
    let call = Reply::new().call_as("call_n3wc0nt3xt".to_owned(), "new_context", json!({}));
    let answer = send(&pinned, vec![call]).await;
    assert_eq!(fixture.sent()[0], carry());
    pinned.extend(answer.keep.clone());
    // The next request contains neither the call nor the sentinel.
    let mut fresh = vec![fixture.user("Where were we?")];
    for n in 0..3 {
        let answer = send(&fresh, vec![Reply::text(format!("Here {n}."))]).await;
        assert_eq!(nudges(&fixture), [0; 0]);
        fresh.extend(answer.keep.clone());
        fresh.push(fixture.user("And?"));
    }
    let events = fixture.baton.events(5).await;
    let lost_sentinel: Vec<bool> = events.iter().map(|event| event.lost_sentinel).collect();
    assert_eq!(lost_sentinel, [false, false, true, false, false]);
    fixture.assert_clean();
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

/// A call of the to-do tool with this many of `all` items finished.
fn todo_call(n: usize, done: usize, all: usize) -> Reply {
    let state = |at: usize| if at < done { "completed" } else { "pending" };
    let item = |at| json!({"content": format!("step {at}"), "status": state(at)});
    let items: Vec<_> = (0..all).map(item).collect();
    Reply::new().call_as(format!("toolu_t{n}d1o"), "TodoWrite", json!({"todos": items}))
}

#[tokio::test]
async fn a_notice_comes_where_a_handoff_pays_within_the_steps_that_are_left() {
    for variant in WIRES {
        // In the same context a handoff does not pay with few items left, and pays with many.
        for (items, tokens, is_due) in [(4, 100_000, false), (60, 100_000, true), (60, 10_000, false)] {
            let directory = tempfile::tempdir().unwrap();
            let fixture = fixture(variant, memory(), |config| priced(config, &directory)).await;
            let mut history = vec![fixture.user(&long(tokens))];
            for n in 0..3 {
                fixture.push(todo_call(n, n, items));
                let answer = fixture.ask(&history, true).await;
                history.extend(answer.keep.clone());
                history.extend((variant.results)(&answer.calls, &long(500)));
            }
            fixture.push(Reply::text("Went on."));
            fixture.ask(&history, true).await;
            assert_eq!(nudges(&fixture).len(), usize::from(is_due), "{items} {tokens}");
            if is_due {
                let told = text(&fixture);
                assert!(told.contains("open items of your to-do list need some"), "{told}");
            }
            fixture.assert_clean();
        }
    }
}

#[tokio::test]
async fn a_notice_comes_before_a_usage_limit_once() {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for variant in WIRES {
        let fixture = fixture(variant, memory(), |config| {
            config.handoff.thresholds.nudge_tokens = 0;
            config.handoff.nudge_limit = true;
        })
        .await;
        let near = |text: &str| {
            Reply::text(text)
                .header("anthropic-ratelimit-unified-5h-utilization", "0.96")
                .header(
                    "anthropic-ratelimit-unified-5h-reset",
                    (since + 3_600).to_string(),
                )
        };
        let mut history = Vec::new();
        say(&fixture, &mut history, "Mend the importer.", near("Looking.")).await;
        say(&fixture, &mut history, "Go on.", near("Told.")).await;
        let told = text(&fixture);
        assert!(told.contains("usage limit of this account is at 96%"), "{told}");
        say(&fixture, &mut history, "And?", handoff()).await;
        say(&fixture, &mut history, "More.", near("On.")).await;
        say(&fixture, &mut history, "More.", near("On.")).await;
        assert_eq!(
            nudges(&fixture),
            [0; 0],
            "the next task is not told of the same limit"
        );
    }
}
