//! Recall on every wire, streamed and in one piece: after a handoff the model may search the removed history.
//!
//! Recall calls are hidden, answered within the same response, and restored on every later request. The list
//! of tools never changes between two cuts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_core::handoffs::carry::CarryScope;
use baton_core::record::HiddenResult;
use baton_llm::state::config::Config;
use baton_llm::state::jobs::recalls::{AnswerOutcome, CallAnswerer, RecallCall};
use baton_llm::state::store::SharedStore;
use baton_llm::state::telemetry::ExchangeEvent;
use baton_strict::{Reply, Role};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::matrix::fixture::{Fixture, carry, fresh, handoff, handoff_beside, outline};
use crate::matrix::variants::{self, Answer, Variant, on_every_wire_both_ways};

/// Rules must be found by recall in these sessions, so none is carried.
fn on(config: &mut Config) {
    config.recall.enabled = true;
    config.handoff.append_missing = CarryScope::Off;
}

fn off(config: &mut Config) {
    config.recall.enabled = false;
}

on_every_wire_both_ways!(alone beside_calls beside_a_handoff beside_calls_and_a_handoff no_more_often_than_it_may bad_arguments
    nothing_found in_the_leg_of_a_handoff forked_and_rewound deeper_by_a_handoff switched_on_and_off
    beside_the_agents_own_tool);

fn asks(reply: Reply, query: &str) -> Reply {
    reply.call("session_recall", json!({"query": query}))
}

fn thinks() -> Reply {
    Reply::new().thinking("What was it?")
}

/// Returns a session of some work, before its first handoff.
fn session(stage: &Fixture) -> Vec<Value> {
    let message = stage.variant.message;
    vec![
        message("user", "Mend the importer. The retention must stay at 45 days."),
        message("assistant", "I will use the flurbo parser, since it is smaller."),
        message("user", "Go on."),
    ]
}

/// Returns a stage on which a handoff has fired after the session, and the agent's history.
async fn handed_over(
    side: Variant,
    stream: bool,
    replies: impl IntoIterator<Item = Reply>,
) -> (Fixture, SharedStore, Vec<Value>) {
    let store = memory();
    let script = [handoff(), fresh()].into_iter().chain(replies);
    let stage = Fixture::with(side, script, store.clone(), on).await;
    let opening = session(&stage);
    let said = stage.ask(&opening, stream).await;
    let history = stage.then(&opening, &said, "What was the retention?");
    (stage, store, history)
}

/// Starts a new process over the same store.
fn restart(stage: &mut Fixture, store: &SharedStore) {
    stage.restart_with(store.clone(), on);
}

fn tools(stage: &Fixture, back: usize) -> Vec<String> {
    let legs = stage.provider.generations();
    legs[legs.len() - 1 - back].tool_names()
}

const ONE: [&str; 2] = ["read_file", "session_handoff"];
const BOTH: [&str; 3] = ["read_file", "session_handoff", "session_recall"];

/// Returns how the handoff tool's description, in the last request, refers to omitted content.
fn rest(stage: &Fixture) -> &'static str {
    let legs = stage.provider.generations();
    let leg = &legs[legs.len() - 1].raw;
    let said = ["is gone for good", "can only be searched for"];
    let said = said.map(|said| memchr::memmem::find(leg, said.as_bytes()).map(|_| said));
    let ([Some(rest), None] | [None, Some(rest)]) = said else {
        panic!("{said:?}");
    };
    rest
}

/// Returns the result of the model's last call, in the request before the last `back` ones.
fn told(stage: &Fixture, back: usize) -> String {
    let legs = stage.provider.generations();
    let turns = legs[legs.len() - 1 - back].turns();
    let results = turns.iter().flat_map(|turn| &turn.results);
    results
        .last()
        .map(|result| result.text.clone())
        .unwrap_or_default()
}

fn sent(stage: &Fixture, back: usize) -> (Vec<String>, Vec<Value>) {
    let legs = stage.provider.generations();
    let leg = &legs[legs.len() - 1 - back];
    (
        outline(leg),
        leg.transcript().into_iter().map(without_thoughts).collect(),
    )
}

/// Removes the thinking that some agents do not send back.
fn without_thoughts(mut message: Value) -> Value {
    if let Some(members) = message.as_object_mut() {
        members.remove("thinking");
    }
    if let Some(parts) = message.get_mut("parts").and_then(Value::as_array_mut) {
        parts.retain(|part| part["thought"] != true);
    }
    message
}

fn says_nothing_of_it(answer: &Answer) {
    assert_lacks(&answer.text, "session_recall");
    assert_lacks(&answer.text, "45 days");
}

async fn recalls(stage: &Fixture) -> Vec<AnswerOutcome> {
    let count = stage.baton.events(1).await.len();
    let events: Vec<ExchangeEvent> = stage.baton.events(count).await;
    events.into_iter().flat_map(|event| event.facts.recalls).collect()
}

async fn alone(side: Variant, stream: bool) {
    let script = [
        asks(thinks().say("Let me look."), "how long is the retention kept"),
        Reply::text("It was said."),
    ];
    let (mut stage, store, history) = handed_over(side, stream, script).await;
    let said = stage.ask(&history, stream).await;
    says_nothing_of_it(&said);
    assert_begins(&said.text, "Let me look.");
    assert_ends(&said.text, "It was said.");
    let answer = told(&stage, 0);
    assert_contains(&answer, "The retention must stay at 45 days.");
    assert_contains(&answer, "Turn 1, before handoff 1: the user said");
    assert!(
        !answer.contains("What was the retention?"),
        "the live part: {answer}"
    );
    for (back, wanted) in [(3, &ONE[..]), (2, &BOTH), (1, &BOTH), (0, &BOTH)] {
        assert_eq!(tools(&stage, back), wanted, "{back}");
    }
    assert_eq!(recalls(&stage).await, [AnswerOutcome::Found]);
    // Later, in another process, the transcript equals the one that the model saw.
    let (seen, before) = sent(&stage, 0);
    assert_eq!(
        seen[..5],
        [
            carry(),
            "a: Fresh.".to_owned(),
            "u: What was the retention?".to_owned(),
            "a: Let me look.".to_owned(),
            "call session_recall".to_owned()
        ]
    );
    let mut history = stage.then(&history, &said, "On.");
    for n in 0..2 {
        restart(&mut stage, &store);
        stage.push(Reply::text(format!("Done {n}.")));
        let said = stage.ask(&history, stream).await;
        assert_eq!(
            sent(&stage, 0).1[..before.len()],
            before,
            "as the model saw it before"
        );
        history = stage.then(&history, &said, "And on.");
    }
    // In another search, the earlier recall is not among the results.
    stage.push(asks(thinks(), "retention days"));
    stage.push(Reply::text("As before."));
    stage.ask(&history, stream).await;
    let again = told(&stage, 0);
    assert!(again.contains("The retention must stay at 45 days."), "{again}");
    assert_eq!(again.matches("45 days").count(), 1, "{again}");
    stage.assert_clean();
}

async fn beside_calls(side: Variant, stream: bool) {
    let both = asks(thinks().say("Both."), "which parser").call("read_file", json!({"path": "a"}));
    let (mut stage, store, history) = handed_over(side, stream, [both, Reply::text("Read.")]).await;
    let said = stage.ask(&history, stream).await;
    says_nothing_of_it(&said);
    let history = stage.ran(&history, &said);
    let said = stage.ask(&history, stream).await;
    let (seen, before) = sent(&stage, 0);
    let calls = [
        "a: Both.",
        "call session_recall",
        "call read_file",
        "result",
        "result",
    ];
    assert_eq!(seen[3..], calls);
    let body = before.iter().map(Value::to_string).collect::<String>();
    assert!(body.contains("flurbo parser"), "{body}");
    restart(&mut stage, &store);
    stage.push(Reply::text("Done."));
    stage.ask(&stage.then(&history, &said, "On."), stream).await;
    assert_eq!(sent(&stage, 0).1[..before.len()], before);
    stage.assert_clean();
}

/// The handoff fires, and the other call is dropped with it.
async fn beside_a_handoff(side: Variant, stream: bool) {
    let both = handoff_beside(asks(thinks(), "retention"));
    let (stage, _, history) = handed_over(side, stream, [both, fresh()]).await;
    let said = stage.ask(&history, stream).await;
    says_nothing_of_it(&said);
    assert_eq!(sent(&stage, 0).0, [carry()]);
    assert_eq!(tools(&stage, 0), BOTH);
    assert_eq!(recalls(&stage).await, []);
    stage.push(Reply::text("Done."));
    stage.ask(&stage.then(&history, &said, "On."), stream).await;
    stage.assert_clean();
}

async fn beside_calls_and_a_handoff(side: Variant, stream: bool) {
    let all = handoff_beside(asks(thinks().say("All."), "retention")).call("read_file", json!({"path": "a"}));
    let (mut stage, store, history) =
        handed_over(side, stream, [all, Reply::text("The turn ends."), fresh()]).await;
    let said = stage.ask(&history, stream).await;
    says_nothing_of_it(&said);
    restart(&mut stage, &store);
    let fired = stage.ask(&stage.ran(&history, &said), stream).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let calls = ["call session_recall", "call session_handoff", "call read_file"];
    let wanted = [&["a: All."], &calls[..], &["result"; 3]].concat();
    assert_eq!(sent(&stage, 1).0[3..], wanted);
    assert_eq!(sent(&stage, 0).0, [carry()]);
    stage.assert_clean();
}

async fn no_more_often_than_it_may(side: Variant, stream: bool) {
    let mut script: Vec<Reply> = (0..4).map(|_| asks(thinks(), "retention")).collect();
    script.push(Reply::text("Enough."));
    let (stage, _, history) = handed_over(side, stream, script).await;
    let said = stage.ask(&history, stream).await;
    assert!(said.text.ends_with("Enough."), "{}", said.text);
    assert_contains(&told(&stage, 0), "Not run: this tool was called as often");
    let outcomes = [
        AnswerOutcome::Found,
        AnswerOutcome::Found,
        AnswerOutcome::Found,
        AnswerOutcome::TooOften,
    ];
    assert_eq!(recalls(&stage).await, outcomes);
    // The next request starts with a new limit.
    stage.push(asks(thinks(), "retention"));
    stage.push(Reply::text("Done."));
    stage.ask(&stage.then(&history, &said, "On."), stream).await;
    assert!(told(&stage, 0).contains("45 days"));
    stage.assert_clean();
}

async fn bad_arguments(side: Variant, stream: bool) {
    let script = [
        thinks().call("session_recall", json!({"words": 7})),
        Reply::text("So not."),
    ];
    let (stage, _, history) = handed_over(side, stream, script).await;
    let said = stage.ask(&history, stream).await;
    assert!(said.text.ends_with("So not."), "{}", said.text);
    assert_contains(&told(&stage, 0), "Not searched: the arguments");
    assert_eq!(recalls(&stage).await, [AnswerOutcome::BadArguments]);
    stage.push(Reply::text("Done."));
    stage.ask(&stage.then(&history, &said, "On."), stream).await;
    stage.assert_clean();
}

async fn nothing_found(side: Variant, stream: bool) {
    let script = [asks(thinks(), "flurbu xyzzy"), Reply::text("So not.")];
    let (stage, _, history) = handed_over(side, stream, script).await;
    stage.ask(&history, stream).await;
    let answer = told(&stage, 0);
    assert_begins(&answer, "Nothing found for \"flurbu xyzzy\". Searched:");
    assert_contains(&answer, "The nearest words there: flurbo");
    assert_eq!(recalls(&stage).await, [AnswerOutcome::Nothing]);
    stage.assert_clean();
}

/// The leg after a handoff has the tool immediately, and searches everything in the request.
async fn in_the_leg_of_a_handoff(side: Variant, stream: bool) {
    let store = memory();
    let script = [
        handoff(),
        asks(thinks(), "the parser that was chosen"),
        Reply::text("Found."),
    ];
    let mut stage = Fixture::with(side, script, store.clone(), on).await;
    let opening = session(&stage);
    let said = stage.ask(&opening, stream).await;
    assert!(said.text.ends_with("Found."), "{}", said.text);
    assert!(told(&stage, 0).contains("flurbo parser"), "{}", told(&stage, 0));
    let (_, before) = sent(&stage, 0);
    restart(&mut stage, &store);
    stage.push(Reply::text("Done."));
    stage.ask(&stage.then(&opening, &said, "On."), stream).await;
    assert_eq!(sent(&stage, 0).1[..before.len()], before);
    assert_eq!(tools(&stage, 0), BOTH);
    stage.assert_clean();
}

async fn forked_and_rewound(side: Variant, stream: bool) {
    let script = [
        asks(thinks().say("Hm."), "retention"),
        Reply::text("It was said."),
    ];
    let (stage, _, history) = handed_over(side, stream, script).await;
    let said = stage.ask(&history, stream).await;
    let (_, before) = sent(&stage, 0);
    // A branch from after the recall contains it.
    stage.push(Reply::text("Well."));
    stage
        .ask(&stage.then(&history, &said, "Another way."), stream)
        .await;
    assert_eq!(sent(&stage, 0).1[..before.len()], before);
    // A branch from before the recall does not contain it, and may call it again.
    let mut earlier = history.clone();
    *earlier.last_mut().unwrap() = stage.user("Which parser?");
    stage.push(asks(thinks(), "parser"));
    stage.push(Reply::text("That one."));
    stage.ask(&earlier, stream).await;
    assert!(told(&stage, 0).contains("flurbo"));
    assert!(!sent(&stage, 0).0.contains(&"a: Hm.".to_owned()));
    // A branch from before the handoff has lost the tool with its prefix.
    let mut rewound = session(&stage);
    rewound[2] = stage.user("Try it otherwise.");
    stage.push(Reply::text("I will."));
    stage.ask(&rewound, stream).await;
    assert_eq!(tools(&stage, 0), ONE);
    stage.assert_clean();
}

/// After a second handoff the first one's part is searched as well, and each excerpt states its position.
async fn deeper_by_a_handoff(side: Variant, stream: bool) {
    let (mut stage, store, history) =
        handed_over(side, stream, [Reply::text("I moved it to 90 days.")]).await;
    let said = stage.ask(&history, stream).await;
    let history = stage.then(
        &history,
        &said,
        "Then the next task: the retention is 60 days now.",
    );
    stage.push(handoff());
    stage.push(fresh());
    let said = stage.ask(&history, stream).await;
    restart(&mut stage, &store);
    stage.push(asks(thinks(), "retention days"));
    stage.push(Reply::text("60."));
    stage.ask(&stage.then(&history, &said, "How long?"), stream).await;
    let answer = told(&stage, 0);
    let newest = answer.find("60 days now").unwrap_or_else(|| panic!("{answer}"));
    let oldest = answer
        .find("stay at 45 days")
        .unwrap_or_else(|| panic!("{answer}"));
    assert!(newest < oldest, "{answer}");
    assert_contains(&answer, "Turn 1, before handoff 1");
    assert_contains(&answer, "Turn 4, before handoff 2");
    assert!(answer.contains("changed later in turn 4"), "{answer}");
    stage.assert_clean();
}

/// The config at the cut decides, not the present one. The list of tools stays the same until the next cut.
async fn switched_on_and_off(side: Variant, stream: bool) {
    let store = memory();
    let mut stage = Fixture::with(side, [handoff(), fresh()], store.clone(), off).await;
    let opening = session(&stage);
    let said = stage.ask(&opening, stream).await;
    let mut history = stage.then(&opening, &said, "On.");
    restart(&mut stage, &store);
    stage.push(Reply::new().thinking("Hm.").say("Still without."));
    let said = stage.ask(&history, stream).await;
    assert_eq!(
        (tools(&stage, 0), rest(&stage)),
        (ONE.map(str::to_owned).to_vec(), "is gone for good")
    );
    history = stage.then(&history, &said, "Next.");
    stage.push(handoff());
    stage.push(fresh());
    let said = stage.ask(&history, stream).await;
    assert_eq!(
        (tools(&stage, 0), rest(&stage)),
        (BOTH.map(str::to_owned).to_vec(), "can only be searched for")
    );
    history = stage.then(&history, &said, "On.");
    stage.restart_with(store.clone(), off);
    stage.push(asks(thinks(), "retention"));
    stage.push(Reply::text("Still there."));
    let said = stage.ask(&history, stream).await;
    assert!(told(&stage, 0).contains("45 days"));
    assert_eq!(rest(&stage), "can only be searched for");
    history = stage.then(&history, &said, "Next.");
    stage.push(handoff());
    stage.push(fresh());
    stage.ask(&history, stream).await;
    assert_eq!(
        (tools(&stage, 0), rest(&stage)),
        (ONE.map(str::to_owned).to_vec(), "is gone for good")
    );
    stage.assert_clean();
}

/// An agent with its own tool of that name keeps it. Handoffs work, and baton's recall is not offered.
async fn beside_the_agents_own_tool(side: Variant, stream: bool) {
    let side = Variant {
        body: own_tool(side),
        ..side
    };
    let mut call = Reply::new().thinking("Mine.");
    call = call.call("session_recall", json!({"path": "a"}));
    let store = memory();
    let stage = Fixture::with(side, [handoff(), fresh(), call], store, on).await;
    let opening = session(&stage);
    let said = stage.ask(&opening, stream).await;
    let said = stage.ask(&stage.then(&opening, &said, "Call it."), stream).await;
    assert_eq!(said.calls.len(), 1, "the agent's own call is shown");
    for back in 0..3 {
        assert_eq!(tools(&stage, back), ["session_recall", "session_handoff"]);
    }
    assert_eq!(recalls(&stage).await, []);
    stage.assert_clean();
}

/// Returns the same requests with the agent's tool renamed.
fn own_tool(side: Variant) -> fn(&[Value], bool) -> Value {
    fn renamed(body: Value) -> Value {
        serde_json::from_str(&body.to_string().replace("\"read_file\"", "\"session_recall\"")).unwrap()
    }
    match side.model {
        "claude-strict-1" => |history, stream| renamed((variants::ANTHROPIC.body)(history, stream)),
        "gemini-strict-3" => |history, stream| renamed((variants::GEMINI.body)(history, stream)),
        "llama-strict" => |history, stream| renamed((variants::OLLAMA.body)(history, stream)),
        _ if (side.path)(true).ends_with("responses") => {
            |history, stream| renamed((variants::RESPONSES.body)(history, stream))
        }
        _ => |history, stream| renamed((variants::CHAT.body)(history, stream)),
    }
}

/// If a later request can refer to the response only by id, its tools would be unknown.
#[tokio::test]
async fn a_stored_response_is_followed_without_it() {
    let side = Variant {
        body: |history, stream| {
            let mut body = (variants::RESPONSES.body)(history, stream);
            body["store"] = true.into();
            body
        },
        ..variants::RESPONSES
    };
    let (stage, _, history) = handed_over(side, true, [Reply::text("So it is.")]).await;
    stage.ask(&history, true).await;
    assert_eq!(tools(&stage, 0), ONE);
    stage.assert_clean();
}

/// If the store is lost, the sealed handoff still cuts, and the tool is still present.
#[tokio::test]
async fn the_store_may_be_lost() {
    let (mut stage, _, history) = handed_over(variants::ANTHROPIC, true, []).await;
    restart(&mut stage, &memory());
    stage.push(asks(Reply::new(), "retention"));
    stage.push(Reply::text("Found."));
    stage.ask(&history, true).await;
    assert!(told(&stage, 0).contains("45 days"));
    let turns = stage.provider.generations().last().unwrap().turns();
    assert!(turns.iter().any(|turn| turn.role == Role::Assistant));
    stage.assert_clean();
}

/// Counts the searches and finds nothing.
struct Counted(Arc<AtomicUsize>);

impl CallAnswerer for Counted {
    fn answer(&self, _: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome) {
        self.0.fetch_add(1, Ordering::SeqCst);
        (HiddenResult::from_text("Nothing."), AnswerOutcome::Nothing)
    }
}

/// The removed history is read only when the model searches.
#[tokio::test]
async fn nothing_is_spent_while_nobody_asks() {
    let asked: Arc<AtomicUsize> = Arc::default();
    let mut stage = Fixture::new(variants::CHAT, [handoff(), fresh()]).await;
    let count = Arc::clone(&asked);
    stage.restart_as(memory(), |mut app| {
        on(Arc::make_mut(&mut app.config));
        app.answers = Arc::new(Counted(count));
        app
    });
    let mut history = session(&stage);
    let mut said = stage.ask(&history, true).await;
    for n in 0..10 {
        stage.push(Reply::text(format!("Done {n}.")));
        history = stage.then(&history, &said, "On.");
        said = stage.ask(&history, n % 2 == 0).await;
        assert_ne!(tools(&stage, 0), ONE, "it may ask");
        assert_eq!(asked.load(Ordering::SeqCst), 0, "turn {n}");
    }
    stage.push(asks(Reply::new(), "retention"));
    stage.push(Reply::text("I do not know."));
    stage.ask(&stage.then(&history, &said, "How long?"), true).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    stage.assert_clean();
}

/// By default a conversation has the tool from its first handoff on. If recall is off, nothing of it is
/// offered.
#[tokio::test]
async fn on_as_it_comes_and_off_by_the_config() {
    for (change, then) in [((|_| {}) as fn(&mut Config), &BOTH[..]), (off, &ONE)] {
        let script = [handoff(), fresh(), Reply::text("On.")];
        let stage = Fixture::with(variants::CHAT, script, memory(), change).await;
        let opening = session(&stage);
        let said = stage.ask(&opening, true).await;
        stage.ask(&stage.then(&opening, &said, "On."), true).await;
        for (back, wanted) in [(2, &ONE[..]), (1, then), (0, then)] {
            assert_eq!(tools(&stage, back), wanted, "{back}");
        }
        stage.assert_clean();
    }
}
