//! The brake: an agent that works on its own is stopped at its budget, or in a loop, and nothing is lost.

mod limits;
mod loops;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use baton_core::brake::{BrakeOutcome, repeated_call};
use baton_core::record::WireId;
use baton_core::wire::{Operation, wire};
use baton_llm::state::config::Config;
use baton_llm::state::journal::JournalReader;
use baton_strict::{Autopilot, Options, Reply, Strict};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::conversations::replicas;
use crate::harness::program::{Program, baton, baton_over, config_for, printed};
use crate::harness::redis::RedisServer;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::harness::{Baton, memory, temp};
use crate::matrix::fixture::Fixture;
use crate::matrix::talk::Talk;
use crate::matrix::variants::{ANTHROPIC, Answer, Variant, on_every_wire};

on_every_wire!(stopped_at_the_budget goes_on stopped_in_a_loop the_users_message_passes all_legs_count;);

fn calls(limit: u64) -> impl Fn(&mut Config) + Copy {
    move |config| config.brake.session.calls = limit
}

/// Starts a conversation in which the agent works on a task.
async fn begun(variant: Variant, change: impl FnOnce(&mut Config)) -> Talk {
    let stage = Fixture::with(variant, [], memory(), |config| {
        config.brake.may_raise = Some(true);
        change(config);
    });
    let mut talk = Talk::new(stage.await);
    talk.history.push(talk.user("Mend the importer."));
    talk
}

/// The model calls a tool, and the agent runs it, so many times in all.
async fn works(talk: &mut Talk, steps: std::ops::Range<usize>) {
    for n in steps {
        let (id, path) = (format!("toolu_x{n}y9z"), json!({"path": format!("f{n}")}));
        talk.stream = n.is_multiple_of(2);
        let call = Reply::new().thinking("Hm.").call_as(id, "read_file", path);
        talk.runs(call, &format!("content {n}")).await;
        talk.baton.events(n + 1).await;
    }
    talk.stream = true;
}

/// Returns a conversation with so many model calls, each with its result.
async fn worked(variant: Variant, change: impl FnOnce(&mut Config), steps: usize) -> Talk {
    let mut talk = begun(variant, change).await;
    works(&mut talk, 0..steps).await;
    talk
}

/// Sends a transcript that is not passed on. Returns the answer.
async fn stopped(talk: &mut Talk) -> Answer {
    let asked = talk.provider.requests().len();
    let whole = talk.ask(&talk.history, false).await;
    let ended = talk.goes_on().await;
    for ended in [&whole, &ended] {
        assert_begins(&ended.text, "baton: stopped: ");
        assert_contains(&ended.text, "[[handoff-note:");
        assert_eq!((&*ended.stop, ended.calls.len()), (talk.variant.stops[0], 0));
    }
    assert_eq!(talk.provider.requests().len(), asked, "nothing is sent upstream");
    ended
}

fn notices(talk: &Talk) -> usize {
    let last = talk.provider.generations().pop().unwrap();
    let texts = last.turns().into_iter().flat_map(|turn| turn.texts);
    texts.filter(|text| text.contains("<budget-notice>")).count()
}

async fn stopped_at_the_budget(variant: Variant) {
    let mut talk = worked(variant, calls(5), 4).await;
    assert_eq!(notices(&talk), 0);
    works(&mut talk, 4..5).await;
    assert_eq!(notices(&talk), 1, "at 80 % the model is told");
    let text = stopped(&mut talk).await.text;
    for part in ["5 model calls of 5 model calls", "Spent: ", "`::go`", "`::stop`"] {
        assert_contains(&text, part);
    }
    let events = talk.baton.events(7).await.into_iter();
    let outcomes: Vec<_> = events.filter_map(|event| event.facts.brake).collect();
    use BrakeOutcome::{StoppedBudget, Told};
    assert_eq!(outcomes, [Told, StoppedBudget, StoppedBudget]);
    talk.assert_clean();
}

async fn goes_on(variant: Variant) {
    let mut talk = worked(variant, calls(3), 3).await;
    stopped(&mut talk).await;
    let done = talk
        .says("::go", Reply::new().thinking("So.").say("Done."))
        .await
        .text;
    assert_begins(
        &done,
        "baton: the agent may continue. Budgets: session 3 model calls of 6",
    );
    assert_ends(&done, "Done.");
    // The request that was stopped.
    let mut sent = talk.sent();
    sent.retain(|line| !line.contains("budget-notice"));
    let steps = ["call read_file", "result"].repeat(3);
    assert_eq!(sent, [&["u: Mend the importer."][..], &steps].concat());
    // Three more calls are granted, of which one is used.
    talk.says("More.", Reply::new().thinking("So.").say("Yes.")).await;
    let sent = talk.sent().concat();
    assert_lacks(&sent, "stopped");
    assert_lacks(&sent, "::go");
    assert_contains(&talk.command("::go").await, "nothing is stopped here");
    talk.assert_clean();
}

async fn stopped_in_a_loop(variant: Variant) {
    let mut talk = begun(variant, |config| config.brake.no_progress = Some(true)).await;
    for n in 0..4 {
        let (id, path) = (format!("toolu_l{n}p7q"), json!({"path": "a.rs"}));
        let call = Reply::new().thinking("Hm.").call_as(id, "read_file", path);
        talk.runs(call, "fn main() {}").await;
        // The third time the model is told.
        assert_eq!(notices(&talk), usize::from(n == 3));
    }
    assert_contains(&stopped(&mut talk).await.text, "the same result 4 times");
    let go = talk
        .says("::go", Reply::new().thinking("So.").say("I see."))
        .await;
    assert_ends(&go.text, "I see.");
    talk.assert_clean();
}

async fn the_users_message_passes(variant: Variant) {
    let mut talk = worked(variant, calls(2), 2).await;
    stopped(&mut talk).await;
    let said = Reply::new().thinking("So.").say("The tests.");
    let told = talk.says("What is left?", said).await.text;
    assert_begins(&told, "baton: the budget of this session is used up");
    assert_ends(&told, "The tests.");
    talk.says("Go on.", "Well.").await;
    assert_lacks(&talk.sent().concat(), "used up");
    talk.assert_clean();
}

/// The leg after a handoff counts, and a handoff resets nothing.
async fn all_legs_count(variant: Variant) {
    let mut talk = begun(variant, calls(4)).await;
    talk.history.push((variant.message)("assistant", "Looking."));
    talk.hands_over("Go on.").await;
    let status = talk.command("::handoff status").await;
    assert_contains(&status, "session 2 model calls of 4 model calls");
    talk.history.push(talk.user("Go on."));
    works(&mut talk, 2..4).await;
    stopped(&mut talk).await;
    talk.assert_clean();
}

#[tokio::test]
async fn the_user_stops_a_session_and_lets_it_go_on() {
    let mut talk = worked(ANTHROPIC, calls(100), 1).await;
    let history = talk.history.clone();
    assert_contains(&talk.command("::stop").await, "the session is stopped");
    let commanded = std::mem::replace(&mut talk.history, history.clone());
    stopped(&mut talk).await;
    talk.history = commanded;
    assert_ends(&talk.says("::go", "On.").await.text, "On.");
    talk.history = history;
    talk.push(Reply::text("On."));
    talk.goes_on().await;
    talk.assert_clean();
}

#[tokio::test]
async fn commands_say_why_they_change_nothing() {
    let mut talk = Talk::worked(ANTHROPIC).await;
    for command in ["::go", "::go 10", "::stop"] {
        assert_contains(&talk.command(command).await, "the brake is off");
    }
    let mut talk = begun(ANTHROPIC, calls(5)).await;
    talk.history.clear();
    for (command, part) in [
        ("::go", "nothing is stopped here"),
        ("::go 10", "nothing is stopped here"),
        ("::go 0", "a number of US dollars from 0.01"),
        ("::go 5 EUR", "a number of US dollars"),
    ] {
        assert_contains(&talk.command(command).await, part);
    }
    talk.assert_clean();
}

/// An exchange is written to its ledgers in the background, and read by its own process at once.
async fn written() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

mod redis {
    use super::*;

    /// `a_killed_program_keeps_its_budget` has the same of one process after another.
    #[tokio::test]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn a_budget_holds_for_replicas() {
        let server = RedisServer::start(&[]);
        let shared = || replicas::shared(&server.url(), "brake");
        let change = |config: &mut Config| {
            config.brake.may_raise = Some(true);
            config.brake.session.calls = 3;
        };
        let mut talk = Talk::new(Fixture::with(ANTHROPIC, [], shared(), change).await);
        talk.history.push(talk.user("Mend the importer."));
        for n in 0..3 {
            let call = Reply::new().call_as(format!("toolu_x{n}y9z"), "read_file", json!({"path": "f"}));
            talk.runs(call, "content").await;
            written().await;
            talk.restart_with(shared(), change);
        }
        stopped(&mut talk).await;
        talk.assert_clean();
    }
}

#[tokio::test]
async fn subagents_count_for_their_parent() {
    let mut talk = begun(ANTHROPIC, calls(2)).await;
    for (n, (session, agent)) in [("s", ""), ("s", "a1"), ("s", "a2"), ("t", "a3")]
        .into_iter()
        .enumerate()
    {
        let ids = [
            ("x-claude-code-session-id", session),
            ("x-claude-code-agent-id", agent),
        ];
        talk.variant = ANTHROPIC.with_headers(&ids[..if agent.is_empty() { 1 } else { 2 }]);
        talk.history = vec![talk.user(&format!("Task {n}."))];
        if agent == "a2" {
            assert_contains(&talk.goes_on().await.text, "Report to your caller");
        } else {
            talk.push(Reply::text("Done."));
            assert_eq!(talk.goes_on().await.text, "Done.");
        }
        talk.baton.events(n + 1).await;
    }
    talk.assert_clean();
}

#[tokio::test]
async fn a_request_declares_a_budget_in_dollars() {
    let mut talk = Talk::new(Fixture::new(ANTHROPIC, []).await);
    for bad in ["0", "5 EUR", ""] {
        talk.variant = ANTHROPIC.with_headers(&[("x-baton-budget", bad)]);
        let refused = talk.send(&[talk.user("Go.")], false).await;
        let told = (refused.status, refused.header("x-baton-error"));
        assert_eq!(told, (400, Some("bad_budget")), "{bad}");
    }
    assert_eq!(talk.provider.requests().len(), 0);
    let in_header = ANTHROPIC.with_headers(&[("x-baton-budget", "0.01")]);
    let in_path = Variant {
        path: |_| "/b/0.50/v1/messages",
        ..ANTHROPIC
    };
    for variant in [in_header, in_path] {
        talk.variant = variant;
        talk.says("Go.", "Gone.").await;
        let seen = talk.provider.requests().pop().unwrap();
        assert_eq!(seen.header("x-baton-budget"), None);
    }
    talk.assert_clean();
}

/// A priced model: the ledger counts dollars.
#[tokio::test]
async fn dollars_are_counted_and_granted() {
    // Less than one request costs.
    let mut talk = begun(ANTHROPIC, |config| config.brake.session.microdollars = 1).await;
    talk.variant.body = |history, stream| {
        let mut body = (ANTHROPIC.body)(history, stream);
        body["model"] = json!("claude-opus-5-5");
        body
    };
    works(&mut talk, 0..1).await;
    let ended = stopped(&mut talk).await.text;
    assert_contains(&ended, "`::go 10` continues for 10 dollars more");
    assert_ends(&talk.says("::go 10", "On.").await.text, "On.");
    talk.assert_clean();
}

/// Two proxies at the limit overshoot by one request each, at most.
#[tokio::test]
async fn two_replicas_at_the_limit_send_one_request_each_at_most() {
    let store = memory();
    let stage = Fixture::with(ANTHROPIC, [], store.clone(), calls(2)).await;
    let mut config = crate::harness::config(&stage.provider.url());
    calls(2)(&mut config);
    let other = Baton::start(config, store);
    let mut talk = Talk::new(stage);
    talk.history.push(talk.user("Mend the importer."));
    works(&mut talk, 0..1).await;
    written().await;
    for _ in 0..2 {
        talk.push(Reply::text("Done."));
    }
    let send = async |baton: &Baton| {
        let body = (ANTHROPIC.body)(&talk.history, false).to_string();
        let response = baton.post("/v1/messages", ANTHROPIC.headers, body.into());
        response.await.text()
    };
    tokio::join!(send(&talk.baton), send(&other));
    talk.baton.events(2).await;
    other.events(1).await;
    written().await;
    for _ in 0..5 {
        for baton in [&talk.baton, &other] {
            assert_contains(&send(baton).await, "stopped: the budget");
        }
    }
    // Two if one replica had entered its request before the other one looked.
    let sent = talk.provider.generations().len();
    assert!((2..=3).contains(&sent), "{sent}");
}

/// Work that agents really did: nothing of it is a loop.
#[test]
fn recorded_work_is_never_stopped() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut examined = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !path.with_extension("truth.json").is_file() {
            continue;
        }
        let body: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let truth = path.with_extension("truth.json");
        let truth: Value = serde_json::from_slice(&std::fs::read(truth).unwrap()).unwrap();
        let id = WireId::named(truth["wire"].as_str().unwrap()).unwrap();
        let mut lists = ["messages", "input", "contents"].into_iter();
        let list = lists.rfind(|list| body[*list].is_array()).unwrap();
        examined += assert_no_loop(id, &body, list, &name);
    }
    assert!(examined > 100, "{examined}");
}

/// Messages of a session that are examined together.
const WINDOW: usize = 60;

/// Examines each request of a session. Returns their number.
fn assert_no_loop(id: WireId, body: &Value, list: &str, name: &str) -> usize {
    let mut part = body.clone();
    let Value::Array(all) = part[list].take() else {
        panic!("{name}");
    };
    for end in 1..=all.len() {
        // Further back there is a change of files, or a message of the user's.
        let from = end.saturating_sub(WINDOW);
        part[list] = json!(all[from..end]);
        let Ok(view) = wire(id).read(&part.to_string().into(), Operation::Generate) else {
            continue;
        };
        let found = repeated_call(&view, &[], 0);
        assert_eq!(found, None, "{name}, after {end} of {}", all.len());
    }
    all.len()
}

/// The real program, killed after each response, never forgets what was spent before the last one.
#[tokio::test]
async fn a_killed_program_keeps_its_budget() {
    let dir = temp();
    let provider = Strict::start(Autopilot, Options::default()).await.unwrap();
    let config = config_for(&provider, dir.path(), "brake.session_calls = 3\n");
    let results = json!([{"type": "tool_result", "tool_use_id": "toolu_k1ll3d", "content": "x"}]);
    let working = [
        (ANTHROPIC.message)("user", "Mend the importer."),
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_k1ll3d", "name": "read_file", "input": {"path": "a"}}]}),
        json!({"role": "user", "content": results}),
    ];
    let mut stopped = 0;
    let run = Uuid::now_v7().to_string();
    for _ in 0..8 {
        let program = Program::start(&config, &dir.path().join("state"));
        let url = format!("{}/r/{run}/v1/messages", program.data);
        let body = (ANTHROPIC.body)(&working, false).to_string().into();
        let response = crate::harness::post(&url, ANTHROPIC.headers, body).await;
        stopped += u32::from(response.text().contains("stopped: the budget"));
        written().await;
        // Dropping it is a SIGKILL.
    }
    let sent = provider.generations().len();
    assert_eq!((sent, stopped), (3, 5));
    let journal = JournalReader::open(&dir.path().join("state")).unwrap().unwrap();
    let last = journal.last_of_run(&run).unwrap().unwrap();
    // `baton run` says so at the end.
    assert_eq!(last.brake, Some(BrakeOutcome::StoppedBudget));
    let budgets = json!([{"of": "session", "unit": "calls", "spent": 3.0, "limit": 3.0}]);
    assert_eq!(serde_json::to_value(&last.budgets).unwrap(), budgets);
    let another = Uuid::now_v7().to_string();
    assert!(journal.last_of_run(&another).unwrap().is_none());
    let output = baton_over(&config, &dir.path().join("state"), &["savings", "--json"]);
    let report: Value = serde_json::from_str(&printed(output)).unwrap();
    assert_eq!([&report["stopped"], &report["total"]["exchanges"]], [5, 3]);
}

/// Runs a command that fails, and says these words.
#[track_caller]
fn assert_fails(command: &mut Command, words: &[&str]) {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let all = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    words.iter().for_each(|words| assert_contains(&all, words));
}

#[test]
fn bad_budgets_are_refused_with_what_is_expected() {
    let dir = temp();
    let config = dir.path().join("baton.toml");
    for (key, value) in [
        ("session_dollars", "0"),
        ("day_tokens", "99999999999999999999999999999999"),
        ("plan_window_share", "1.5"),
        ("directory_dollars", "\"5 EUR\""),
        ("session_minutes", "1.5"),
        ("no_progress", "\"yes\""),
    ] {
        std::fs::write(&config, format!("[brake]\n{key} = {value}\n")).unwrap();
        let mut check = baton(dir.path(), &["check", "--config"]);
        assert_fails(check.arg(&config), &[&format!("brake.{key}"), "do: write"]);
    }
    let mut run = baton(dir.path(), &["run", "--budget=1e99", "true"]);
    assert_fails(&mut run, &["a budget is a number of US dollars"]);
}
