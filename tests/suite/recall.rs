//! Recall on every wire, streamed and in one piece: after a handoff the model may search the removed history.
//!
//! Recall calls are hidden, answered within the same response, and restored on every later request. The list
//! of tools never changes between two cuts. `conversations` has calls beside others, and branches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_core::handoffs::carry::CarryScope;
use baton_core::record::HiddenResult;
use baton_llm::state::config::Config;
use baton_llm::state::jobs::recalls::{AnswerOutcome, CallAnswerer, RecallCall};
use baton_llm::state::store::SharedStore;
use baton_strict::{Reply, Role};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::matrix::fixture::{Fixture, carry, handoff};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{self, Variant, on_every_wire_both_ways};

/// Rules must be found by recall in these sessions, so none is carried.
fn on(config: &mut Config) {
    config.recall.enabled = true;
    config.handoff.append_missing = CarryScope::Off;
}

fn off(config: &mut Config) {
    config.recall.enabled = false;
}

on_every_wire_both_ways!(alone no_more_often_than_it_may bad_arguments nothing_found in_the_leg_of_a_handoff deeper_by_a_handoff
    switched_on_and_off beside_the_agents_own_tool);

fn asks(reply: Reply, query: &str) -> Reply {
    reply.call("session_recall", json!({"query": query}))
}

fn thinks() -> Reply {
    Reply::new().thinking("What was it?")
}

/// Returns a session of some work, before its first handoff.
async fn session(side: Variant, stream: bool, store: &SharedStore, change: impl FnOnce(&mut Config)) -> Talk {
    let mut talk = Talk::new(Fixture::with(side, [], store.clone(), change).await);
    talk.stream = stream;
    talk.history = vec![
        talk.user("Mend the importer. The retention must stay at 45 days."),
        (side.message)("assistant", "I will use the flurbo parser, since it is smaller."),
    ];
    talk
}

/// Returns a session in which a handoff has fired.
async fn handed_over(side: Variant, stream: bool) -> (Talk, SharedStore) {
    let store = memory();
    let mut talk = session(side, stream, &store, on).await;
    talk.hands_over("Go on.").await;
    (talk, store)
}

/// Asks for something. The model searches for it, and replies. Returns the result of the search.
async fn searches(talk: &mut Talk, text: &str, query: &str) -> String {
    talk.push(asks(thinks(), query));
    talk.says(text, "So it is.").await;
    told(talk)
}

fn tools(talk: &Talk, back: usize) -> Vec<String> {
    let legs = talk.provider.generations();
    legs[legs.len() - 1 - back].tool_names()
}

const ONE: [&str; 2] = ["read_file", "session_handoff"];
const BOTH: [&str; 3] = ["read_file", "session_handoff", "session_recall"];

/// Returns the result of the model's last call.
fn told(talk: &Talk) -> String {
    let mut turns = talk.last().turns().into_iter();
    let result = turns.rfind(|turn| !turn.results.is_empty());
    result.map_or(String::new(), |turn| turn.results.last().unwrap().text.clone())
}

/// The last request's transcript.
fn transcript(talk: &Talk) -> Vec<Value> {
    talk.last()
        .transcript()
        .into_iter()
        .map(without_thoughts)
        .collect()
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

async fn recalls(talk: &Talk) -> Vec<AnswerOutcome> {
    let events = talk.baton.events(2).await;
    events.into_iter().flat_map(|event| event.facts.recalls).collect()
}

async fn alone(side: Variant, stream: bool) {
    let (mut talk, store) = handed_over(side, stream).await;
    talk.push(asks(
        thinks().say("Let me look."),
        "how long is the retention kept",
    ));
    let said = talk.says("What was the retention?", "It was said.").await.text;
    assert_lacks(&said, "session_recall");
    assert_lacks(&said, "45 days");
    assert_begins(&said, "Let me look.");
    assert_ends(&said, "It was said.");
    let answer = told(&talk);
    assert_contains(&answer, "The retention must stay at 45 days.");
    assert_contains(&answer, "Turn 1, before handoff 1: the user said");
    // The live part.
    assert_lacks(&answer, "What was the retention?");
    for (back, wanted) in [(3, &ONE[..]), (2, &BOTH), (1, &BOTH), (0, &BOTH)] {
        assert_eq!(tools(&talk, back), wanted, "{back}");
    }
    assert_eq!(recalls(&talk).await, [AnswerOutcome::Found]);
    // Later, in another process, the transcript equals the one that the model saw.
    let asked = [
        "a: Fresh.",
        "u: What was the retention?",
        "a: Let me look.",
        "call session_recall",
    ];
    assert_eq!(talk.sent()[..5], [&[&*carry()], &asked[..]].concat());
    let before = transcript(&talk);
    for text in ["On.", "And on."] {
        talk.restart_with(store.clone(), on);
        talk.says(text, "Done.").await;
        assert_eq!(
            transcript(&talk)[..before.len()],
            before,
            "as the model saw it before"
        );
    }
    // In another search, the earlier recall is not among the results.
    let again = searches(&mut talk, "And on.", "retention days").await;
    assert_contains(&again, "The retention must stay at 45 days.");
    assert_eq!(again.matches("45 days").count(), 1, "{again}");
    talk.assert_clean();
}

async fn no_more_often_than_it_may(side: Variant, stream: bool) {
    let (mut talk, _) = handed_over(side, stream).await;
    (0..4).for_each(|_| talk.push(asks(thinks(), "retention")));
    assert_ends(&talk.says("What was it?", "Enough.").await.text, "Enough.");
    assert_contains(&told(&talk), "Not run: this tool was called as often");
    use AnswerOutcome::{Found, TooOften};
    assert_eq!(recalls(&talk).await, [Found, Found, Found, TooOften]);
    // The next request starts with a new limit.
    assert_contains(&searches(&mut talk, "On.", "retention").await, "45 days");
    talk.assert_clean();
}

async fn bad_arguments(side: Variant, stream: bool) {
    let (mut talk, _) = handed_over(side, stream).await;
    talk.push(thinks().call("session_recall", json!({"words": 7})));
    assert_ends(&talk.says("What was it?", "So not.").await.text, "So not.");
    assert_contains(&told(&talk), "Not searched: the arguments");
    assert_eq!(recalls(&talk).await, [AnswerOutcome::BadArguments]);
    talk.says("On.", "Done.").await;
    talk.assert_clean();
}

async fn nothing_found(side: Variant, stream: bool) {
    let (mut talk, _) = handed_over(side, stream).await;
    let answer = searches(&mut talk, "What was it?", "flurbu xyzzy").await;
    assert_begins(&answer, "Nothing found for \"flurbu xyzzy\". Searched:");
    assert_contains(&answer, "The nearest words there: flurbo");
    assert_eq!(recalls(&talk).await, [AnswerOutcome::Nothing]);
    talk.assert_clean();
}

/// The leg after a handoff has the tool immediately, and searches everything in the request.
async fn in_the_leg_of_a_handoff(side: Variant, stream: bool) {
    let store = memory();
    let mut talk = session(side, stream, &store, on).await;
    talk.push(handoff());
    let answer = searches(&mut talk, "Go on.", "the parser that was chosen").await;
    assert_contains(&answer, "flurbo parser");
    let before = transcript(&talk);
    talk.restart_with(store, on);
    talk.says("On.", "Done.").await;
    assert_eq!(transcript(&talk)[..before.len()], before);
    assert_eq!(tools(&talk, 0), BOTH);
    talk.assert_clean();
}

/// After a second handoff the first one's part is searched as well, and each excerpt states its position.
async fn deeper_by_a_handoff(side: Variant, stream: bool) {
    let (mut talk, store) = handed_over(side, stream).await;
    talk.says("What was the retention?", "I moved it to 90 days.")
        .await;
    talk.hands_over("Then the next task: the retention is 60 days now.")
        .await;
    talk.restart_with(store, on);
    let answer = searches(&mut talk, "How long?", "retention days").await;
    let places = ["60 days now", "stay at 45 days"].map(|part| answer.find(part));
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{answer}"
    );
    assert_contains(&answer, "Turn 1, before handoff 1");
    assert_contains(&answer, "Turn 4, before handoff 2");
    assert_contains(&answer, "changed later in turn 4");
    talk.assert_clean();
}

/// The config at the cut decides, not the present one. The list of tools stays the same until the next cut.
async fn switched_on_and_off(side: Variant, stream: bool) {
    /// The list of tools, and how the handoff tool's description refers to omitted content.
    fn assert_offered(talk: &Talk, wanted: &[&str]) {
        assert_eq!(tools(talk, 0), wanted);
        let rest = match wanted.len() {
            2 => "is gone for good",
            _ => "can only be searched for",
        };
        assert_contains(&String::from_utf8_lossy(&talk.last().raw), rest);
    }
    let store = memory();
    let mut talk = session(side, stream, &store, off).await;
    talk.hands_over("Go on.").await;
    talk.restart_with(store.clone(), on);
    talk.says("On.", Reply::new().thinking("Hm.").say("Still without."))
        .await;
    assert_offered(&talk, &ONE);
    talk.hands_over("Next.").await;
    assert_offered(&talk, &BOTH);
    talk.restart_with(store, off);
    assert_contains(&searches(&mut talk, "On.", "retention").await, "45 days");
    assert_offered(&talk, &BOTH);
    talk.hands_over("Next.").await;
    assert_offered(&talk, &ONE);
    talk.assert_clean();
}

/// An agent with its own tool of that name keeps it. Handoffs work, and baton's recall is not offered.
async fn beside_the_agents_own_tool(side: Variant, stream: bool) {
    let mut talk = session(side, stream, &memory(), on).await;
    talk.has_tool("session_recall");
    talk.hands_over("Go on.").await;
    let call = Reply::new()
        .thinking("Mine.")
        .call("session_recall", json!({"path": "a"}));
    let said = talk.says("Call it.", call).await;
    assert_eq!(said.calls.len(), 1, "the agent's own call is shown");
    for back in 0..3 {
        assert_eq!(tools(&talk, back), ["session_recall", "session_handoff"]);
    }
    assert_eq!(recalls(&talk).await, []);
    talk.assert_clean();
}

/// If a later request can refer to the response only by id, its tools would be unknown.
#[tokio::test]
async fn a_stored_response_is_followed_without_it() {
    let mut talk = session(variants::RESPONSES, true, &memory(), on).await;
    talk.edit = Box::new(|body| body["store"] = true.into());
    talk.hands_over("Go on.").await;
    talk.says("What was it?", "So it is.").await;
    assert_eq!(tools(&talk, 0), ONE);
    talk.assert_clean();
}

/// If the store is lost, the sealed handoff still cuts, and the tool is still present.
#[tokio::test]
async fn the_store_may_be_lost() {
    let (mut talk, _) = handed_over(variants::ANTHROPIC, true).await;
    talk.restart_with(memory(), on);
    assert_contains(&searches(&mut talk, "What was it?", "retention").await, "45 days");
    let mut turns = talk.last().turns().into_iter();
    assert!(turns.any(|turn| turn.role == Role::Assistant));
    talk.assert_clean();
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
    let mut talk = session(variants::CHAT, true, &memory(), on).await;
    let count = Arc::clone(&asked);
    talk.restart_as(memory(), |mut app| {
        on(Arc::make_mut(&mut app.config));
        app.answers = Arc::new(Counted(count));
        app
    });
    talk.hands_over("Go on.").await;
    for n in 0..10 {
        talk.stream = n % 2 == 0;
        talk.says("On.", "Done.").await;
        assert_ne!(tools(&talk, 0), ONE, "it may ask");
        assert_eq!(asked.load(Ordering::SeqCst), 0, "turn {n}");
    }
    searches(&mut talk, "How long?", "retention").await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    talk.assert_clean();
}

/// By default a conversation has the tool from its first handoff on. If recall is off, nothing of it is
/// offered.
#[tokio::test]
async fn on_as_it_comes_and_off_by_the_config() {
    for (change, then) in [((|_| {}) as fn(&mut Config), &BOTH[..]), (off, &ONE)] {
        let mut talk = session(variants::CHAT, true, &memory(), change).await;
        talk.hands_over("Go on.").await;
        talk.says("On.", "On.").await;
        for (back, wanted) in [(2, &ONE[..]), (1, then), (0, then)] {
            assert_eq!(tools(&talk, back), wanted, "{back}");
        }
        talk.assert_clean();
    }
}
