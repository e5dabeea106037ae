//! Undos that are requested from outside of the chat: done by the conversation's next request, reported in its answer,
//! and never more than once.

use std::process::{Command, Output};
use std::sync::Arc;

use baton_core::nudge::Windows;
use baton_core::record::{Handoff, HandoffId, UndoAnswer};
use baton_llm::state::session::{Sessions, UndoRefused};
use baton_llm::state::store::{HandoffFilter, SharedStore};
use baton_strict::{Fault, Options, Queue, Reply, Strict};
use pretty_assertions::assert_eq;
use serde_json::{Value, json as value};

use crate::conversations::shared;
use crate::harness::anthropic::Anthropic;
use crate::harness::program::{Program, config_for};
use crate::harness::redis::RedisServer;
use crate::harness::{AgentWire, Message, memory, post, sqlite, temp};
use crate::matrix::fixture::{Fixture, carry, fresh, handoff};
use crate::matrix::variants::{self, Answer, Variant, on_every_wire};

on_every_wire!(done_once_and_told_in_the_answer taken_back_and_done_again withdrawn inside_a_loop in_one_piece
    told_again_where_the_answer_broke_off after_a_restart_and_by_another_process back_with_a_rewind before_a_repeated_request
    overtaken_by_a_handoff keeps_the_tool_where_the_store_is_lost;);

/// A proxy over a store, with a handoff in its conversation.
struct Stage {
    fixture: Fixture,
    store: SharedStore,
    id: HandoffId,
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

impl Stage {
    /// The transcript after the handoff ends with the person's next message.
    async fn new(variant: Variant, store: SharedStore) -> (Self, Vec<Value>) {
        let fixture = Fixture::with(variant, [handoff(), fresh()], Arc::clone(&store), |_| {}).await;
        let history = fixture.history();
        let fired = fixture.ask(&history, true).await;
        let history = fixture.then(&history, &fired, "Go on.");
        let id = fixture.baton.events(1).await[0].fired[0].parse().unwrap();
        (Self { fixture, store, id }, history)
    }

    async fn ask(&self, history: &[Value], reply: Reply) -> Answer {
        self.fixture.push(reply);
        self.fixture.ask(history, true).await
    }

    async fn undo(&self) -> Result<UndoAnswer, UndoRefused> {
        undo_by(&self.fixture.baton.sessions, &self.store, self.id).await
    }

    /// The outline of the last request. Where texts are one string, the text around a sentinel is two paragraphs.
    fn sent(&self) -> Vec<String> {
        let joined = |line: String| line.replace("\n\nFresh.", "Fresh.");
        self.fixture.sent().into_iter().map(joined).collect()
    }

    /// The pending undo in the record, after background writes.
    async fn waits(&self) -> bool {
        let key = self.fixture.baton.events(1).await[0]
            .conversation
            .clone()
            .unwrap();
        let mut waits = true;
        for _ in 0..100 {
            waits = self
                .store
                .conversation(&key)
                .await
                .unwrap()
                .unwrap()
                .pending_undo
                .is_some();
            if !waits {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        waits
    }
}

async fn undo_by(sessions: &Sessions, store: &SharedStore, id: HandoffId) -> Result<UndoAnswer, UndoRefused> {
    let handoff = store.handoff("local", id).await.unwrap().unwrap();
    undo_of(sessions, &handoff).await
}

async fn undo_of(sessions: &Sessions, handoff: &Handoff) -> Result<UndoAnswer, UndoRefused> {
    let windows = Windows::default();
    let asked = sessions.request_undo(handoff, None, &windows, 1);
    asked.await.unwrap()
}

const WHOLE: [&str; 4] = [
    "u: Mend the importer.",
    "a: Looking.",
    "u: Go on.",
    "a: Done with that.Fresh.",
];

fn whole(more: &[&str]) -> Vec<String> {
    let all = WHOLE.iter().chain(more);
    all.map(|line| (*line).to_owned()).collect()
}

fn is_undone(answer: &Answer, id: HandoffId, says: &str) {
    let told = format!("baton: the handoff {id} was undone.");
    assert!(answer.text.starts_with(&told), "{}", answer.text);
    let rest = answer
        .text
        .split_once(&format!("[[handoff-note:{id}]]"))
        .unwrap()
        .1;
    assert_eq!(rest.trim(), says);
}

async fn done_once_and_told_in_the_answer(variant: Variant) {
    let (stage, history) = Stage::new(variant, memory()).await;
    assert!(matches!(stage.undo().await, Ok(UndoAnswer::Requested(asked)) if asked.undone));
    let answer = stage.ask(&history, thought("Whole.")).await;
    is_undone(&answer, stage.id, "Whole.");
    assert_eq!(stage.sent(), whole(&["u: Go on."]));
    assert!(!stage.waits().await);
    let undone = stage.fixture.baton.events(2).await[1]
        .undo
        .map(|undo| undo.name());
    assert_eq!(undone, Some("undone"));
    // From here on only the mark in the transcript shows it.
    let history = stage.fixture.then(&history, &answer, "And?");
    let answer = stage.ask(&history, thought("Still.")).await;
    assert_eq!(answer.text, "Still.");
    assert_eq!(stage.sent(), whole(&["u: Go on.", "a: Whole.", "u: And?"]));
    let history = stage.fixture.then(&history, &answer, "Next.");
    stage.ask(&history, thought("Yes.")).await;
    assert_eq!(
        stage.sent(),
        whole(&["u: Go on.", "a: Whole.", "u: And?", "a: Still.", "u: Next."])
    );
    stage.fixture.assert_clean();
}

async fn in_one_piece(variant: Variant) {
    let (stage, history) = Stage::new(variant, memory()).await;
    stage.undo().await.unwrap();
    stage.fixture.push(thought("Whole."));
    let answer = stage.fixture.ask(&history, false).await;
    is_undone(&answer, stage.id, "Whole.");
    assert!(!stage.waits().await);
    let history = stage.fixture.then(&history, &answer, "And?");
    stage.ask(&history, thought("Still.")).await;
    assert_eq!(stage.sent(), whole(&["u: Go on.", "a: Whole.", "u: And?"]));
    stage.fixture.assert_clean();
}

async fn taken_back_and_done_again(variant: Variant) {
    let (stage, mut history) = Stage::new(variant, memory()).await;
    let mut said = vec!["u: Go on.".to_owned()];
    for round in 0..4 {
        let asked = stage.undo().await.unwrap();
        let undoes = round % 2 == 0;
        assert!(
            matches!(asked, UndoAnswer::Requested(asked) if asked.undone == undoes),
            "{round}: {asked:?}"
        );
        let answer = stage.ask(&history, thought(&format!("Round {round}."))).await;
        let told = match undoes {
            true => "was undone.",
            false => "baton: the undo was reverted.",
        };
        assert!(answer.text.contains(told), "{}", answer.text);
        let begins = match undoes {
            true => whole(&[]),
            false => vec![carry(), "a: Fresh.".to_owned()],
        };
        assert_eq!(stage.sent(), [&begins[..], &said[..]].concat());
        assert!(!stage.waits().await, "round {round}");
        history = stage.fixture.then(&history, &answer, "And?");
        said.extend([format!("a: Round {round}."), "u: And?".to_owned()]);
    }
    stage.fixture.assert_clean();
}

async fn withdrawn(variant: Variant) {
    let (stage, history) = Stage::new(variant, memory()).await;
    stage.undo().await.unwrap();
    assert!(matches!(stage.undo().await, Ok(UndoAnswer::Withdrawn(_))));
    let answer = stage.ask(&history, thought("Cut.")).await;
    assert_eq!(answer.text, "Cut.");
    assert_eq!(stage.sent(), [&carry(), "a: Fresh.", "u: Go on."]);
    stage.fixture.assert_clean();
}

/// The agent sends results, and the answer is calls: the note precedes them, and the thinking stays with its calls.
async fn inside_a_loop(variant: Variant) {
    let (stage, history) = Stage::new(variant, memory()).await;
    let reads = || {
        Reply::new()
            .thinking("Read.")
            .say("Reading.")
            .call("read_file", value!({"path": "a"}))
    };
    let answer = stage.ask(&history, reads()).await;
    let history = stage.fixture.ran(&history, &answer);
    stage.undo().await.unwrap();
    let answer = stage.ask(&history, reads()).await;
    assert!(answer.text.starts_with("baton: the handoff"), "{}", answer.text);
    let before = ["u: Go on.", "a: Reading.", "call read_file", "result"];
    assert_eq!(stage.sent(), whole(&before));
    let history = stage.fixture.ran(&history, &answer);
    let answer = stage.ask(&history, reads()).await;
    assert_eq!(stage.sent(), whole(&[&before[..], &before[1..]].concat()));
    // Reverted in the middle of the loop, by a request that answers no person either.
    stage.undo().await.unwrap();
    let history = stage.fixture.ran(&history, &answer);
    let answer = stage.ask(&history, reads()).await;
    assert!(answer.text.contains("was reverted"), "{}", answer.text);
    let carried = carry();
    let cut = [
        &[carried.as_str(), "a: Fresh."],
        &before[..],
        &before[1..],
        &before[1..],
    ]
    .concat();
    assert_eq!(stage.sent(), cut);
    let history = stage.fixture.ran(&history, &answer);
    stage.ask(&history, thought("Done.")).await;
    assert_eq!(stage.sent(), [&cut[..], &before[1..]].concat());
    stage.fixture.assert_clean();
}

/// An answer that breaks off reports it as often as it is requested; the transcript has one of them.
async fn told_again_where_the_answer_broke_off(variant: Variant) {
    let (stage, history) = Stage::new(variant, memory()).await;
    stage.undo().await.unwrap();
    for _ in 0..2 {
        let reply = thought("Whole, and more of it, until it breaks.").deltas(3);
        stage.fixture.push(reply.fault(Fault::CutAfterEvents(6)));
        let broken = stage.fixture.send(&history, true).await;
        assert!(broken.broken, "{}", broken.text());
        assert_eq!(stage.sent(), whole(&["u: Go on."]));
    }
    let answer = stage.ask(&history, thought("Whole.")).await;
    is_undone(&answer, stage.id, "Whole.");
    assert!(!stage.waits().await);
    let history = stage.fixture.then(&history, &answer, "And?");
    let answer = stage.ask(&history, thought("Still.")).await;
    assert_eq!(answer.text, "Still.");
    assert_eq!(stage.sent(), whole(&["u: Go on.", "a: Whole.", "u: And?"]));
    // So does one that upstream refuses.
    stage.undo().await.unwrap();
    let history = stage.fixture.then(&history, &answer, "Back.");
    stage.fixture.push(Reply::status(529, "busy"));
    assert_ne!(stage.fixture.send(&history, true).await.status, 200);
    let answer = stage.ask(&history, thought("Cut.")).await;
    assert!(answer.text.contains("was reverted"), "{}", answer.text);
    stage.fixture.assert_clean();
}

async fn after_a_restart_and_by_another_process(variant: Variant) {
    let dir = temp();
    let (mut stage, history) = Stage::new(variant, sqlite(dir.path())).await;
    // It is requested while no process serves.
    stage.store = memory();
    stage.fixture.restart(memory());
    let other = sqlite(dir.path());
    let asked = undo_by(&Sessions::new(Arc::clone(&other), 1), &other, stage.id).await;
    assert!(matches!(asked, Ok(UndoAnswer::Requested(_))), "{asked:?}");
    drop(other);
    stage.store = sqlite(dir.path());
    stage.fixture.restart(Arc::clone(&stage.store));
    let answer = stage.ask(&history, thought("Whole.")).await;
    is_undone(&answer, stage.id, "Whole.");
    assert_eq!(stage.sent(), whole(&["u: Go on."]));
    assert!(!stage.waits().await);
    // The mark in the transcript shows it to any process.
    let history = stage.fixture.then(&history, &answer, "And?");
    stage.fixture.restart(sqlite(dir.path()));
    stage.ask(&history, thought("Still.")).await;
    assert_eq!(stage.sent(), whole(&["u: Go on.", "a: Whole.", "u: And?"]));
    stage.fixture.assert_clean();
}

/// The branch without the mark is cut as before.
async fn back_with_a_rewind(variant: Variant) {
    let (stage, history) = Stage::new(variant, memory()).await;
    stage.undo().await.unwrap();
    let answer = stage.ask(&history, thought("Whole.")).await;
    let branch = stage.fixture.then(&history, &answer, "And?");
    stage.ask(&history, thought("Cut.")).await;
    assert_eq!(stage.sent(), [&carry(), "a: Fresh.", "u: Go on."]);
    stage.ask(&branch, thought("Whole again.")).await;
    assert_eq!(stage.sent(), whole(&["u: Go on.", "a: Whole.", "u: And?"]));
    assert_eq!(stage.fixture.script.left(), 0);
}

/// The answer that showed the handoff broke off, and the agent sends its request again: it is answered as if nothing had fired.
async fn before_a_repeated_request(variant: Variant) {
    let fixture = Fixture::with(variant, [handoff()], memory(), |_| {}).await;
    let history = fixture.history();
    fixture.push(
        Reply::text("Behind it, until it breaks.")
            .deltas(2)
            .fault(Fault::CutAfterEvents(5)),
    );
    let broken = fixture.send(&history, true).await;
    assert!(
        broken.broken && broken.text().contains("handoff-resume:"),
        "{}",
        broken.text()
    );
    let id: HandoffId = fixture.baton.events(1).await[0].fired[0].parse().unwrap();
    let handoff = fixture
        .baton
        .sessions
        .handoff("local", id)
        .await
        .unwrap()
        .unwrap();
    undo_of(&fixture.baton.sessions, &handoff).await.unwrap();
    fixture.push(thought("Not handed over."));
    let answer = fixture.ask(&history, true).await;
    assert_eq!(answer.text, "Not handed over.");
    fixture.push(thought("Next."));
    fixture.ask(&fixture.then(&history, &answer, "And?"), true).await;
    assert_eq!(fixture.sent()[3..], ["a: Not handed over.", "u: And?"]);
    fixture.assert_clean();
}

/// A handoff that takes effect first makes an undo that waits void; one of an earlier handoff is refused.
async fn overtaken_by_a_handoff(variant: Variant) {
    let (stage, history) = Stage::new(variant, memory()).await;
    stage.undo().await.unwrap();
    let answer = stage.ask(&history, thought("Whole.")).await;
    stage.undo().await.unwrap();
    let history = stage
        .fixture
        .then(&history, &answer, "::handoff --force --method local --no-git");
    let answer = stage.fixture.ask(&history, true).await;
    assert!(answer.text.contains("handed over"), "{}", answer.text);
    assert!(!stage.waits().await);
    let refused = stage.undo().await.unwrap_err();
    assert!(
        matches!(refused, UndoRefused::NotActive { active: Some(id) } if id != stage.id),
        "{refused}"
    );
    let history = stage.fixture.then(&history, &answer, "Go.");
    let answer = stage.ask(&history, thought("Going.")).await;
    assert_eq!(answer.text, "Going.");
    assert_eq!(stage.sent().len(), 1, "cut at the new one");
    stage.fixture.assert_clean();
}

/// The seal of the undone handoff proves that the conversation has the tool: the model's thinking follows it.
async fn keeps_the_tool_where_the_store_is_lost(variant: Variant) {
    let store = memory();
    let script = [thought("Looked."), handoff(), fresh()];
    let fixture = Fixture::with(variant, script, Arc::clone(&store), |_| {}).await;
    let mut history = fixture.history();
    for next in ["Go on.", "::handoff undo"] {
        let answer = fixture.ask(&history, true).await;
        history = fixture.then(&history, &answer, next);
    }
    let undone = fixture.ask(&history, true).await;
    assert!(undone.text.contains("was undone"), "{}", undone.text);
    history = fixture.then(&history, &undone, "And?");
    let mut fixture = fixture;
    fixture.restart(memory());
    for n in 0..2 {
        fixture.push(thought(&format!("Whole {n}.")));
        let answer = fixture.ask(&history, true).await;
        let offered = fixture.provider.generations().last().unwrap().tool_names();
        assert_eq!(offered, ["read_file", "session_handoff"]);
        history = fixture.then(&history, &answer, "Next.");
    }
    fixture.assert_clean();
}

/// A history that no longer fits is not brought back: where that is sure, nothing is requested, else the answer reports
/// it.
#[tokio::test]
async fn over_the_window() {
    let (stage, history) = Stage::new(variants::ANTHROPIC, memory()).await;
    let handoff = stage.store.handoff("local", stage.id).await.unwrap().unwrap();
    let small = Windows::with(vec![("claude-strict".to_owned(), 20)]);
    let refused = stage
        .fixture
        .baton
        .sessions
        .request_undo(&handoff, None, &small, 1);
    let refused = refused.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("more than its window holds"), "{refused}");
    assert!(
        stage
            .store
            .conversation(&handoff.conversation)
            .await
            .unwrap()
            .unwrap()
            .pending_undo
            .is_none()
    );
    // Requested while the window was not known.
    stage.undo().await.unwrap();
    let mut stage = stage;
    stage.fixture.restart_with(Arc::clone(&stage.store), |config| {
        config.handoff.windows = Windows::with(vec![("claude-strict".to_owned(), 20)]);
        config.handoff.thresholds.nudge_at = 0.0;
    });
    let answer = stage.ask(&history, thought("Cut.")).await;
    assert!(
        answer
            .text
            .starts_with("baton: nothing was undone: the model would see about")
            && answer.text.contains("more than its window holds")
            && answer.text.ends_with("Cut."),
        "{}",
        answer.text
    );
    assert_eq!(stage.sent(), [&carry(), "a: Fresh.", "u: Go on."]);
    assert!(!stage.waits().await);
    assert_eq!(
        stage.fixture.baton.events(1).await[0]
            .undo
            .map(|undo| undo.name()),
        Some("refused")
    );
    let history = stage.fixture.then(&history, &answer, "And?");
    let answer = stage.ask(&history, thought("Next.")).await;
    assert_eq!(answer.text, "Next.");
    assert_eq!(
        stage.sent(),
        [&carry(), "a: Fresh.", "u: Go on.", "a: Cut.", "u: And?"]
    );
    stage.fixture.assert_clean();
}

/// Over a server.
mod redis {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Two replicas over one store, and an undo that a third process requests: both answer the same request alike, and the
    /// transcript has it once.
    #[tokio::test]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn over_two_replicas() {
        let server = RedisServer::start(&[]);
        let store = || shared(&server.url(), "undo");
        let (mut stage, history) = Stage::new(variants::ANTHROPIC, store()).await;
        let third = store();
        let sessions = Sessions::new(Arc::clone(&third), 1);
        undo_by(&sessions, &third, stage.id).await.unwrap();
        let other = Fixture::with(variants::ANTHROPIC, [], store(), |_| {}).await;
        let to_other = std::mem::replace(&mut stage.fixture.baton, other.baton);
        // The agent's connection breaks after the first replica's answer, and it sends its request to the second one.
        stage.fixture.restart(store());
        let reply = thought("Whole, and more of it.")
            .deltas(2)
            .fault(Fault::CutAfterEvents(6));
        stage.fixture.push(reply);
        assert!(stage.fixture.send(&history, true).await.broken);
        stage.fixture.restart(store());
        let answer = stage.ask(&history, thought("Whole.")).await;
        is_undone(&answer, stage.id, "Whole.");
        assert!(!stage.waits().await);
        stage.fixture.baton = to_other;
        let history = stage.fixture.then(&history, &answer, "And?");
        let answer = stage.ask(&history, thought("Still.")).await;
        assert_eq!(answer.text, "Still.");
        assert_eq!(stage.sent(), whole(&["u: Go on.", "a: Whole.", "u: And?"]));
        // Reverted by the third, which has read the second's transcript.
        for _ in 0..100 {
            if undo_by(&sessions, &third, stage.id).await.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let history = stage.fixture.then(&history, &answer, "Back.");
        let answer = stage.ask(&history, thought("Cut.")).await;
        assert!(answer.text.contains("was reverted"), "{}", answer.text);
        assert_eq!(stage.fixture.provider.complaints(), []);
    }
}

/// The program: `baton handoffs undo` while it serves and while it does not, the page's call, and what is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_the_command() {
    let script = Queue::new([
        crate::harness::fixture::handoff(),
        Reply::text("Fresh."),
        Reply::text("Cut."),
    ]);
    let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
    let dir = temp();
    let token = "admin.token = '0123456789abcdef-undo'\n";
    let (config, state) = (config_for(&provider, dir.path(), token), dir.path().join("state"));
    let undo = |id: &str| {
        Command::new(env!("CARGO_BIN_EXE_baton"))
            .args(["handoffs", "undo", id, "--json", "--config"])
            .arg(&config)
            .arg("--state-dir")
            .arg(&state)
            .output()
            .unwrap()
    };
    let program = Program::start(&config, &state);
    let mut history = crate::harness::fixture::history();
    let fired = turn(&program, &history).await;
    history = crate::harness::fixture::then(&history, &fired, "Go on.");
    let id = {
        let store = sqlite(&state);
        let all = store.handoffs(&HandoffFilter::default()).await.unwrap();
        all[0].id.to_string()
    };
    let said = |output: &Output| {
        String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
    };
    let asked = |output: &Output| -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)))
    };
    let unknown = undo("0199a3c2-7d1e-7c3a");
    assert!(
        !unknown.status.success() && said(&unknown).contains("there is no handoff"),
        "{}",
        said(&unknown)
    );
    // While it serves.
    assert_eq!(asked(&undo(&id[..13]))["asked"], "undone");
    assert_eq!(asked(&undo(&id))["asked"], "withdrawn");
    assert_eq!(asked(&undo(&id))["asked"], "undone");
    let answer = turn(&program, &history).await;
    assert!(
        text(&answer).starts_with(&format!("baton: the handoff {id} was undone.")),
        "{}",
        text(&answer)
    );
    history = crate::harness::fixture::then(&history, &answer, "And?");
    script.push(Reply::text("Still."));
    let answer = turn(&program, &history).await;
    assert_eq!(text(&answer), "Still.");
    // While it does not: the mark is in the transcript, and the record knows it.
    drop(program);
    assert_eq!(asked(&undo(&id))["asked"], "taken_back");
    let program = Program::start(&config, &state);
    history = crate::harness::fixture::then(&history, &answer, "Back.");
    script.push(Reply::text("Cut again."));
    let answer = turn(&program, &history).await;
    assert!(
        text(&answer).starts_with("baton: the undo was reverted."),
        "{}",
        text(&answer)
    );
    // Another one is the active one.
    script.push(Reply::text("More.").call("session_handoff", value!({"prompt": "Goal: the second one."})));
    script.push(Reply::text("Second."));
    history = crate::harness::fixture::then(&history, &answer, "Hand over.");
    turn(&program, &history).await;
    let refused = undo(&id);
    assert!(
        !refused.status.success()
            && said(&refused).contains("nothing was undone: the active handoff of its conversation is"),
        "{}",
        said(&refused)
    );
    assert_eq!(provider.complaints(), []);
}

async fn turn(program: &Program, history: &[Value]) -> Message {
    let body = Anthropic.body(history, true).to_string().into();
    let url = format!("{}/v1/messages", program.data);
    let response = post(&url, Anthropic.headers(), body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    Anthropic.parse(&response.raw, true, false).unwrap()
}

fn text(message: &Message) -> String {
    let texts = message.content.iter().filter_map(|block| block["text"].as_str());
    texts.collect()
}
