//! A text that baton appends to a request is part of every later request of its transcript, byte for byte, on every
//! wire. This holds after forks and restarts, until a handoff cuts the text off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_core::text::{Span, json};
use baton_llm::serve::exchange::Reminder;
use baton_llm::state::store::{SharedStore, Store};
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::fixture::FlakyStore;
use crate::harness::{memory, sqlite, temp};
use crate::matrix::fixture::{Fixture, carry, fresh, handoff, outline};
use crate::matrix::variants::{self, Answer, Variant, on_every_wire};

const NUDGE: &str = "<note>The \"window\" is\nnearly full.</note>";

on_every_wire!(behind_the_user behind_results restarted forked rewound edited cut_off left_out unwritable;);

/// Puts [`NUDGE`] after each request for which it was switched on, once.
#[derive(Clone, Default)]
struct Switch(Arc<AtomicBool>);

impl Switch {
    fn on(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn reminder(&self) -> Reminder {
        let on = self.0.clone();
        Arc::new(move |_, _| on.swap(false, Ordering::SeqCst).then(|| NUDGE.to_owned()))
    }
}

async fn stage(variant: Variant, store: &SharedStore) -> (Fixture, Switch) {
    let mut stage = Fixture::with(variant, [], store.clone(), |_| {}).await;
    let switch = Switch::default();
    restart(&mut stage, store, &switch);
    (stage, switch)
}

fn restart(stage: &mut Fixture, store: &SharedStore, switch: &Switch) {
    stage.restart_as(store.clone(), |mut app| {
        app.reminder = Some(switch.reminder());
        app
    });
}

/// The elements of the last request's transcript, byte for byte as the model got them.
fn elements(stage: &Fixture) -> Vec<String> {
    let seen = stage.provider.generations().last().unwrap().clone();
    let raw: &[u8] = &seen.raw;
    let whole = Span::new(0, raw.len());
    let keys = ["messages", "input", "contents"];
    let list = keys.iter().find_map(|key| json::get(raw, whole, key)).unwrap();
    let all = json::elements(raw, list).into_iter();
    all.map(|span| String::from_utf8(span.of(raw).to_vec()).unwrap())
        .collect()
}

async fn says(stage: &Fixture, history: &[Value], reply: Reply) -> Answer {
    stage.push(reply);
    stage.ask(history, true).await
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

fn reads() -> Reply {
    Reply::new()
        .thinking("Let me see.")
        .call("read_file", serde_json::json!({"path": "a.rs"}))
}

/// Two turns after the insertion, each of which must have the requests before as its beginning. Returns the transcript of
/// the last one.
async fn goes_on(stage: &Fixture, history: &[Value], answer: &Answer) -> Vec<Value> {
    let first = elements(stage);
    let then = stage.then(history, answer, "More.");
    let second = says(stage, &then, thought("Second.")).await;
    let sent = elements(stage);
    assert_eq!(
        sent[..first.len()],
        first,
        "the second request begins like the first"
    );
    let last = stage.then(&then, &second, "Even more.");
    says(stage, &last, thought("Third.")).await;
    assert_eq!(
        elements(stage)[..sent.len()],
        sent,
        "and the third like the second"
    );
    last
}

async fn behind_the_user(variant: Variant) {
    let (stage, switch) = stage(variant, &memory()).await;
    let history = stage.history();
    switch.on();
    let answer = says(&stage, &history, thought("First.")).await;
    let nudged = |sent: &[String]| sent.iter().filter(|e| e.contains(NUDGE)).count();
    let sent = stage.sent();
    assert_eq!(
        (nudged(&sent), sent.last().unwrap().ends_with(NUDGE)),
        (1, true),
        "{sent:?}"
    );
    let last = goes_on(&stage, &history, &answer).await;
    assert_eq!(nudged(&stage.sent()), 1, "{:?}", stage.sent());
    // The same request once more: the text is there already.
    switch.on();
    let before = elements(&stage);
    let again = says(&stage, &history, thought("Again.")).await;
    assert_eq!(nudged(&stage.sent()), 1);
    assert_eq!(again.text, "Again.");
    // One further down, after the first.
    switch.on();
    says(&stage, &last, thought("Both.")).await;
    assert_eq!(nudged(&stage.sent()), 2, "{:?}", stage.sent());
    assert_eq!(elements(&stage)[..before.len() - 1], before[..before.len() - 1]);
    stage.assert_clean();
}

async fn behind_results(variant: Variant) {
    let (stage, switch) = stage(variant, &memory()).await;
    let history = stage.history();
    let answer = says(&stage, &history, reads()).await;
    let ran = stage.ran(&history, &answer);
    switch.on();
    let answer = says(&stage, &ran, thought("Read.")).await;
    let sent = stage.sent();
    assert!(sent.iter().any(|line| line.contains(NUDGE)), "{sent:?}");
    goes_on(&stage, &ran, &answer).await;
    // Two calls, and a text after both results.
    let two = reads().call("read_file", serde_json::json!({"path": "b.rs"}));
    let history = stage.then(&ran, &answer, "Both, please.");
    let answer = says(&stage, &history, two).await;
    switch.on();
    let ran = stage.ran(&history, &answer);
    let answer = says(&stage, &ran, thought("Both read.")).await;
    assert_eq!(stage.sent().concat().matches(NUDGE).count(), 2);
    goes_on(&stage, &ran, &answer).await;
    stage.assert_clean();
}

async fn restarted(variant: Variant) {
    let dir = temp();
    let (mut stage, switch) = stage(variant, &sqlite(dir.path())).await;
    let history = stage.history();
    switch.on();
    let answer = says(&stage, &history, thought("First.")).await;
    let first = elements(&stage);
    restart(&mut stage, &sqlite(dir.path()), &switch);
    let then = stage.then(&history, &answer, "More.");
    says(&stage, &then, thought("Second.")).await;
    assert_eq!(elements(&stage)[..first.len()], first);
    stage.assert_clean();
}

/// The copy of a session, under another id, after a restart.
async fn forked(variant: Variant) {
    let dir = temp();
    let (mut stage, switch) = stage(variant, &sqlite(dir.path())).await;
    let named = |session: &'static str| -> &'static [(&'static str, &'static str)] {
        let headers = variant.headers.iter().copied().chain([("x-session-id", session)]);
        Box::leak(headers.collect::<Vec<_>>().into_boxed_slice())
    };
    stage.variant.headers = named("one");
    let history = stage.history();
    switch.on();
    let answer = says(&stage, &history, thought("First.")).await;
    let first = elements(&stage);
    stage.variant.headers = named("two");
    let copy = stage.then(&history, &answer, "In the copy.");
    let second = says(&stage, &copy, thought("Copied.")).await;
    assert_eq!(elements(&stage)[..first.len()], first);
    restart(&mut stage, &sqlite(dir.path()), &switch);
    says(&stage, &stage.then(&copy, &second, "Again."), thought("Still.")).await;
    assert_eq!(elements(&stage)[..first.len()], first);
    // Another session, which has nothing of it.
    stage.variant.headers = named("three");
    says(&stage, &[stage.user("Mend the importer.")], thought("Other.")).await;
    assert!(!stage.sent().concat().contains(NUDGE));
    stage.assert_clean();
}

/// A branch that begins before it has it not, and the first one has it still.
async fn rewound(variant: Variant) {
    let (stage, switch) = stage(variant, &memory()).await;
    let history = stage.history();
    switch.on();
    let answer = says(&stage, &history, thought("First.")).await;
    let first = elements(&stage);
    let branch = [&history[..2], &[stage.user("Something else.")]].concat();
    says(&stage, &branch, thought("Else.")).await;
    assert!(!stage.sent().concat().contains(NUDGE), "{:?}", stage.sent());
    says(&stage, &stage.then(&history, &answer, "Back."), thought("Back.")).await;
    assert_eq!(elements(&stage)[..first.len()], first);
    stage.assert_clean();
}

/// An agent that edits its history before the place: left out, and counted once.
async fn edited(variant: Variant) {
    let (stage, switch) = stage(variant, &memory()).await;
    let history = stage.history();
    switch.on();
    let answer = says(&stage, &history, Reply::text("First.")).await;
    let mut edited = stage.then(&history, &answer, "More.");
    edited[0] = stage.user("Mend it.");
    for _ in 0..2 {
        // By its opening this is the same session only where it has a name.
        says(&stage, &edited, Reply::text("Second.")).await;
        assert!(!stage.sent().concat().contains(NUDGE));
    }
    stage.assert_clean();
}

/// A handoff cuts it off with what precedes it; a rewind to before the handoff has it again.
async fn cut_off(variant: Variant) {
    let (stage, switch) = stage(variant, &memory()).await;
    let history = stage.history();
    switch.on();
    let before = says(&stage, &history, thought("First.")).await;
    let first = elements(&stage);
    let then = stage.then(&history, &before, "Hand over.");
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&then, true).await;
    assert_eq!(stage.sent(), [carry()], "leg 2");
    let last = stage.then(&then, &fired, "Go on.");
    // One after the cut, which stays.
    switch.on();
    let answer = says(&stage, &last, thought("Next.")).await;
    let sent = stage.sent();
    assert_eq!(sent[..2], [carry(), "a: Fresh.".to_owned()]);
    assert_eq!(sent.concat().matches(NUDGE).count(), 1, "{sent:?}");
    goes_on(&stage, &last, &answer).await;
    let back = stage.then(&history, &before, "Not that.");
    says(&stage, &back, thought("Well.")).await;
    assert_eq!(elements(&stage)[..first.len()], first);
    stage.assert_clean();
}

/// The store has lost it: the request is sent without it, and that is counted once.
async fn left_out(variant: Variant) {
    let dir = temp();
    let (mut stage, switch) = stage(variant, &sqlite(dir.path())).await;
    let history = stage.history();
    switch.on();
    let answer = says(&stage, &history, Reply::text("First.")).await;
    assert!(stage.sent().concat().contains(NUDGE));
    let db = rusqlite::Connection::open(dir.path().join("baton.db")).unwrap();
    assert_eq!(db.execute("DELETE FROM insertions", []).unwrap(), 1);
    drop(db);
    restart(&mut stage, &sqlite(dir.path()), &switch);
    let then = stage.then(&history, &answer, "More.");
    for _ in 0..2 {
        says(&stage, &then, Reply::text("Second.")).await;
        assert!(!stage.sent().concat().contains(NUDGE));
    }
    let lost: Vec<u32> = stage
        .baton
        .events(2)
        .await
        .iter()
        .map(|e| e.lost_insertions)
        .collect();
    assert_eq!(lost, [1, 0]);
    stage.assert_clean();
}

/// What cannot be written is not sent.
async fn unwritable(variant: Variant) {
    let store = FlakyStore::new(memory());
    let shared: SharedStore = store.clone();
    let (stage, switch) = stage(variant, &shared).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    store.no_writes.store(true, Ordering::SeqCst);
    switch.on();
    let then = stage.then(&history, &answer, "More.");
    says(&stage, &then, thought("Second.")).await;
    assert!(!stage.sent().concat().contains(NUDGE), "{:?}", stage.sent());
    assert!(!store.may_have_insertions() || store.inner.may_have_insertions());
    store.no_writes.store(false, Ordering::SeqCst);
    says(&stage, &then, thought("Second.")).await;
    assert!(!stage.sent().concat().contains(NUDGE));
    stage.assert_clean();
}

/// An edited history under a session's name is reported once as lost, and again after it was found in between.
#[tokio::test]
async fn what_lost_its_place_is_counted_once() {
    const HEADERS: &[(&str, &str)] = &[("authorization", "Bearer sk-agent"), ("x-session-id", "one")];
    let (mut stage, switch) = stage(variants::CHAT, &memory()).await;
    stage.variant.headers = HEADERS;
    let history = stage.history();
    switch.on();
    let answer = says(&stage, &history, Reply::text("First.")).await;
    let then = stage.then(&history, &answer, "More.");
    let mut edited = then.clone();
    edited[0] = stage.user("Mend it.");
    for history in [&edited, &edited, &then, &edited] {
        says(&stage, history, Reply::text("Second.")).await;
    }
    let events = stage.baton.events(5).await;
    let lost: Vec<u32> = events.iter().map(|e| e.lost_insertions).collect();
    assert_eq!(lost, [0, 1, 0, 0, 1]);
    stage.assert_clean();
}

/// Where a conversation has none, nothing of its transcript is hashed and the store gets no query.
#[tokio::test]
async fn conversations_without_any_pay_nothing() {
    let store = FlakyStore::new(memory());
    let shared: SharedStore = store.clone();
    let (stage, _) = stage(variants::ANTHROPIC, &shared).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    says(
        &stage,
        &stage.then(&history, &answer, "More."),
        thought("Second."),
    )
    .await;
    assert_eq!(store.insertion_reads(), 0);
    assert_eq!(outline(stage.provider.generations().last().unwrap()).len(), 5);
    stage.assert_clean();
}
