//! Chat commands: answered by baton on every wire. Neither they nor their answers are ever in the model's
//! view.

use std::sync::atomic::Ordering;

use baton_core::handoffs::draft::ReviewPolicy;
use baton_core::nudge::Windows;
use baton_core::text::{Span, json};
use baton_llm::state::store::SharedStore;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json as value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::harness::fixture::FlakyStore;
use crate::harness::{memory, sqlite, temp};
use crate::matrix::fixture::{Fixture, PROMPT, behind_line, carry, fresh, handoff, handoff_beside};
use crate::matrix::variants::{self, Answer, Variant, on_every_wire};

const SECOND: &str = "Goal: the second one.";

on_every_wire!(answered_and_taken_out unknown_words first_of_all whole_answers pinned too_many_pins glued_and_trimmed left_out
    undone undone_twice undone_to_the_one_before undone_in_a_fork undone_after_a_restart undone_mixed resumed not_resumed
    look_alikes other_prefix switched_off tool_results handed_over_now composed_now reviewed not_handed_over told_that_it_waits
    accepted_after_a_restart store_fails_meanwhile two_at_once forked_with_pins sent_again never_answered review_by_the_config enough_to_hand_off
    only_a_smaller_one reported_sizes quoted;);

async fn says(stage: &Fixture, history: &[Value], reply: Reply) -> Answer {
    stage.push(reply);
    stage.ask(history, true).await
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

/// Sends a command after the transcript. Returns baton's answer and the new transcript. Nothing is sent
/// upstream.
async fn command(stage: &Fixture, history: &[Value], text: &str) -> (String, Vec<Value>) {
    command_by(stage, history, text, true).await
}

async fn command_by(stage: &Fixture, history: &[Value], text: &str, stream: bool) -> (String, Vec<Value>) {
    let asked = stage.provider.requests().len();
    let history = [history, &[stage.user(text)]].concat();
    let answer = stage.ask(&history, stream).await;
    assert_eq!(
        stage.provider.requests().len(),
        asked,
        "{text}: nothing goes upstream"
    );
    assert!(answer.text.starts_with("baton: "), "{text}: {}", answer.text);
    assert!(answer.text.contains("[[handoff-note:"), "{text}: {}", answer.text);
    assert_eq!(answer.stop, stage.variant.stops[0]);
    (answer.text, [&history[..], &answer.keep].concat())
}

fn and(stage: &Fixture, history: &[Value], text: &str) -> Vec<Value> {
    [history, &[stage.user(text)]].concat()
}

/// Elements of the last request's transcript, byte for byte as the model received them.
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

/// Outline of the last request. If messages are single strings, the text around a sentinel is two paragraphs.
fn sent(stage: &Fixture) -> Vec<String> {
    let seen = stage.provider.generations().last().unwrap().clone();
    assert!(
        memchr::memmem::find(&seen.raw, b"[[handoff-resume:").is_none(),
        "no mark reaches the model"
    );
    let joined = |line: String| {
        line.replace("\n\nFresh.", "Fresh.")
            .replace("\n\nSecond.", "Second.")
    };
    stage.sent().into_iter().map(joined).collect()
}

/// A session with a handoff in it, and a turn after that.
async fn handed_over(stage: &Fixture) -> Vec<Value> {
    let history = stage.history();
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&history, true).await;
    stage.then(&history, &fired, "Go on.")
}

const WHOLE: [&str; 4] = [
    "u: Mend the importer.",
    "a: Looking.",
    "u: Go on.",
    "a: Done with that.Fresh.",
];

async fn answered_and_taken_out(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let sent = elements(&stage);
    let mut now = [&history[..], &answer.keep].concat();
    for (asked, said) in [
        ("::handoff status", "the model sees the whole history"),
        ("::handoff help", "::unpin N"),
        ("::help", "::unpin N"),
        ("::pins", "nothing is pinned"),
        ("::unpin 99", "`::pin TEXT` includes TEXT"),
        ("::pin Never touch the schema.", "pinned as number 1"),
        ("  ::pin Never touch the schema.\n", "pinned already, as number 1"),
        ("::pin", "write `::pin TEXT`"),
        ("::pins", "   1. Never touch the schema."),
        ("::unpin 2", "its number is 1"),
        ("::unpin x", "its number is 1"),
        ("::unpin 1", "no longer pinned"),
        ("::unpin 1", "nothing is pinned, so nothing was changed"),
        ("::handoff undo", "nothing to undo"),
        (
            "::handoff undo 0199a3c2",
            "no handoff of this transcript has that id",
        ),
    ] {
        let (text, then) = command(&stage, &now, asked).await;
        assert!(text.contains(said), "{asked}: {text}");
        now = then;
    }
    let next = and(&stage, &now, "More.");
    let answer = says(&stage, &next, thought("Second.")).await;
    assert_eq!(elements(&stage)[..sent.len()], sent, "the prefix stays");
    let plain = [
        "u: Mend the importer.",
        "a: Looking.",
        "u: Go on.",
        "a: First.",
        "u: More.",
    ];
    assert_eq!(stage.sent(), plain);
    let sent = elements(&stage);
    // Once more after it, and a request after that.
    let (_, now) = command(&stage, &[&next[..], &answer.keep].concat(), "::handoff status").await;
    says(&stage, &and(&stage, &now, "Third."), thought("So.")).await;
    assert_eq!(elements(&stage)[..sent.len()], sent);
    stage.assert_clean();
}

/// Agents read a response's usage as their context size and compact by it. No answer from baton reports more
/// than the model's view.
async fn reported_sizes(variant: Variant) {
    const FINISHED: usize = 40_000;
    let stage = Fixture::new(variant, []).await;
    let history = [&stage.history()[..], &[stage.user(&"Old. ".repeat(FINISHED / 5))]].concat();
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&history, true).await;
    let mut now = [&history[..], &fired.keep].concat();
    for (asked, stream) in [
        ("::handoff status", true),
        ("::handoff status", false),
        ("::pin Never touch the schema.", true),
        ("::handoff --method local --force --no-git the reader", true),
        ("::handoff --method local --force --no-git the writer", false),
        ("::help", true),
    ] {
        now = and(&stage, &now, asked);
        let answer = stage.ask(&now, stream).await;
        assert!(answer.text.starts_with("baton: "), "{asked}: {}", answer.text);
        assert!(answer.input > 0, "{asked}");
        assert!(
            answer.input * 4 < FINISHED as u64 / 2,
            "{asked}: {} tokens",
            answer.input
        );
        now.extend(answer.keep);
    }
    let (text, _) = command(&stage, &now, "::handoff status").await;
    assert!(
        text.contains("Conversation: ") && text.contains("always sent."),
        "{text}"
    );
}

async fn whole_answers(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let (text, now) = command_by(&stage, &stage.history(), "::handoff status", false).await;
    assert!(text.contains("whole history"), "{text}");
    says(&stage, &and(&stage, &now, "More."), thought("Second.")).await;
    assert_eq!(stage.sent()[2..], ["u: Go on.More."]);
    stage.assert_clean();
}

async fn unknown_words(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    for asked in ["::hadnoff", "::pni x"] {
        let (text, now) = command(&stage, &history, asked).await;
        assert!(text.contains("there is no command `::"), "{text}");
        assert!(
            text.contains("Did you mean `::") && text.lines().count() == 3,
            "{text}"
        );
        says(&stage, &and(&stage, &now, "More."), Reply::text("So.")).await;
        assert_eq!(stage.sent().last().unwrap(), "u: Go on.More.");
    }
    for asked in ["::std::vector is slow.", "Why is ::pin one?", ":pin x"] {
        says(&stage, &and(&stage, &history[..2], asked), Reply::text("So.")).await;
        assert_eq!(stage.sent()[2], format!("u: {asked}"));
    }
    stage.assert_clean();
}

/// A session that begins with a command.
async fn first_of_all(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let (_, now) = command(&stage, &[], "::pin Be brief.").await;
    let (text, now) = command(&stage, &now, "::pins").await;
    assert!(text.contains("1. Be brief."), "{text}");
    says(&stage, &and(&stage, &now, "Mend it."), thought("So.")).await;
    assert_eq!(stage.sent(), ["u: Mend it."]);
    stage.assert_clean();
}

/// Later heads include the pins. Existing heads stay unchanged.
async fn pinned(variant: Variant) {
    let dir = temp();
    let store = sqlite(dir.path());
    let mut stage = Fixture::with(variant, [], store, |_| {}).await;
    let pins = "<pinned>\nThe user pinned this; it holds for every task of this session.\n1. Keep \"the\\schema\".\n2. Two\nlines.\n</pinned>\n\n";
    let history = stage.history();
    let (_, now) = command(&stage, &history, "::pin Keep \"the\\schema\".").await;
    let (_, now) = command(&stage, &now, "::pin Two\nlines.").await;
    stage.restart(sqlite(dir.path()));
    let asked = and(&stage, &now, "Hand over.");
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&asked, true).await;
    let head = format!("u: {pins}{PROMPT}");
    assert_eq!(stage.sent(), [head.as_str()]);
    assert!(
        !fired.text.contains("<pinned>"),
        "the sentinel shows the prompt alone: {}",
        fired.text
    );
    // The pin is removed, but the head stays until the next handoff.
    let (_, now) = command(&stage, &[&asked[..], &fired.keep].concat(), "::unpin 1").await;
    let next = and(&stage, &now, "Go on.");
    says(&stage, &next, thought("Next.")).await;
    assert_eq!(stage.sent(), [head.as_str(), "a: Fresh.", "u: Go on."]);
    stage.restart(sqlite(dir.path()));
    stage.push(Reply::text("Done, too.").call("session_handoff", value!({"prompt": SECOND})));
    stage.push(Reply::text("Second."));
    stage.ask(&next, true).await;
    let head = pins.replace("1. Keep \"the\\schema\".\n2. Two", "1. Two");
    assert_eq!(stage.sent(), [format!("u: {head}{SECOND}")]);
    stage.assert_clean();
}

async fn too_many_pins(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let mut now = stage.history();
    for n in 1..=20 {
        let (text, then) = command(&stage, &now, &format!("::pin Text {n}.")).await;
        assert!(text.contains(&format!("pinned as number {n}.")), "{text}");
        now = then;
    }
    let (text, _) = command(&stage, &now, "::pin One more.").await;
    assert!(text.contains("there are 20 pins"), "{text}");
    let (_, now) = command(&stage, &now, "::unpin 20").await;
    let (text, _) = command(&stage, &now, &format!("::pin {}", "x".repeat(4096))).await;
    assert!(text.contains("bytes over the 4096"), "{text}");
    let (text, _) = command(&stage, &now, "::pins").await;
    assert!(text.contains("  19. Text 19.") && !text.contains("xxx"), "{text}");
    stage.assert_clean();
}

/// Agents trim the text that they keep, and some join adjacent text.
async fn glued_and_trimmed(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let (text, _) = command(&stage, &history, "::handoff status").await;
    let message = variant.message;
    let asked = message("user", "::handoff status");
    for (kept, left) in [
        (text.trim_end().to_owned(), ""),
        (format!("{text}\n"), ""),
        (format!("\n\n  {text}  "), ""),
        (
            format!("{text}\n\nAnd this is the model's."),
            "And this is the model's.",
        ),
        (format!("The model's own.\n\n{text}"), "The model's own."),
    ] {
        let now = [
            &history[..],
            &[
                asked.clone(),
                message("assistant", &kept),
                message("user", "More."),
            ],
        ]
        .concat();
        says(&stage, &now, Reply::text("So.")).await;
        let sent = stage.sent();
        match left {
            "" => assert_eq!(sent[2..], ["u: Go on.More."], "{kept:?}"),
            left => assert_eq!(
                sent[2..],
                ["u: Go on.", &format!("a: {left}"), "u: More."],
                "{kept:?}"
            ),
        }
    }
    stage.assert_clean();
}

/// An answer that the agent omits, or a command that it repeats with the next message.
async fn left_out(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let (_, now) = command(&stage, &history, "::pin Be brief.").await;
    let without = and(&stage, &now[..=history.len()], "More.");
    says(&stage, &without, Reply::text("So.")).await;
    assert_eq!(stage.sent().last().unwrap(), "u: Go on.More.");
    stage.assert_clean();
}

/// `opencode run` puts an argument with blanks in quotes.
async fn quoted(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let (text, now) = command(&stage, &history, "\"::handoff status\"").await;
    assert!(text.contains("the model sees the whole history"), "{text}");
    let (_, now) = command(&stage, &now, r#""::pin Say \"no\" to tabs.""#).await;
    let (text, now) = command(&stage, &now, "::pins").await;
    assert!(text.contains("Say \"no\" to tabs."), "{text}");
    says(&stage, &and(&stage, &now, "More."), Reply::text("So.")).await;
    assert_eq!(stage.sent().last().unwrap(), "u: Go on.More.");
    let spoken = "\"::handoff\" and \"::pin\"";
    says(&stage, &and(&stage, &history, spoken), Reply::text("So.")).await;
    assert_eq!(*stage.sent().last().unwrap(), format!("u: Go on.{spoken}"));
    stage.assert_clean();
}

async fn undone(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let next = handed_over(&stage).await;
    let fired = &next[..next.len() - 1];
    let (text, now) = command(&stage, fired, "::handoff undo").await;
    assert!(text.contains("whole history again"), "{text}");
    let asked = and(&stage, &now, "Well.");
    let answer = says(&stage, &asked, thought("Whole.")).await;
    assert_eq!(sent(&stage)[..], [&WHOLE[..], &["u: Well."]].concat());
    let before = elements(&stage);
    let then = stage.then(&asked, &answer, "And?");
    says(&stage, &then, thought("Still.")).await;
    assert_eq!(elements(&stage)[..before.len()], before, "the prefix stays");
    // A new handoff after it counts.
    stage.push(Reply::text("Done, too.").call("session_handoff", value!({"prompt": SECOND})));
    stage.push(thought("Second."));
    let fired = stage.ask(&then, true).await;
    says(&stage, &stage.then(&then, &fired, "On."), thought("Third.")).await;
    assert_eq!(sent(&stage), [&format!("u: {SECOND}"), "a: Second.", "u: On."]);
    stage.assert_clean();
}

async fn undone_twice(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let next = handed_over(&stage).await;
    let (_, now) = command(&stage, &next[..next.len() - 1], "::handoff undo").await;
    let asked = and(&stage, &now, "Well.");
    let answer = says(&stage, &asked, thought("Whole.")).await;
    let (text, now) = command(&stage, &[&asked[..], &answer.keep].concat(), "::handoff undo").await;
    assert!(text.contains("was reverted"), "{text}");
    let asked = and(&stage, &now, "Again.");
    let answer = says(&stage, &asked, thought("Cut.")).await;
    let carried = carry();
    let cut = [
        carried.as_str(),
        "a: Fresh.",
        "u: Well.",
        "a: Whole.",
        "u: Again.",
    ];
    assert_eq!(sent(&stage), cut);
    let before = elements(&stage);
    let asked = stage.then(&asked, &answer, "And?");
    let answer = says(&stage, &asked, thought("Yes.")).await;
    assert_eq!(elements(&stage)[..before.len()], before, "the prefix stays");
    let (_, now) = command(&stage, &[&asked[..], &answer.keep].concat(), "::handoff undo").await;
    says(&stage, &and(&stage, &now, "Third."), thought("Whole again.")).await;
    assert_eq!(sent(&stage)[..4], WHOLE);
    stage.assert_clean();
}

async fn undone_to_the_one_before(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let next = handed_over(&stage).await;
    stage.push(Reply::text("Done, too.").call("session_handoff", value!({"prompt": SECOND})));
    stage.push(thought("Second."));
    let fired = stage.ask(&next, true).await;
    let now = [&next[..], &fired.keep].concat();
    let (text, now) = command(&stage, &now, "::handoff undo").await;
    assert!(text.contains("the handoff before it"), "{text}");
    let asked = and(&stage, &now, "Well.");
    let answer = says(&stage, &asked, thought("First.")).await;
    let carried = carry();
    let cut = [
        carried.as_str(),
        "a: Fresh.",
        "u: Go on.",
        "a: Done, too.Second.",
        "u: Well.",
    ];
    assert_eq!(sent(&stage), cut);
    let before = elements(&stage);
    let asked = stage.then(&asked, &answer, "And?");
    says(&stage, &asked, thought("Yes.")).await;
    assert_eq!(elements(&stage)[..before.len()], before);
    stage.assert_clean();
}

/// The branch without the undo is cut as before. A copy under another session's id has the undo.
async fn undone_in_a_fork(variant: Variant) {
    let mut stage = Fixture::new(variant, []).await;
    let next = handed_over(&stage).await;
    let (_, now) = command(&stage, &next[..next.len() - 1], "::handoff undo").await;
    says(&stage, &and(&stage, &now, "Well."), thought("Whole.")).await;
    assert_eq!(sent(&stage)[..4], WHOLE);
    says(&stage, &next, thought("Cut.")).await;
    assert_eq!(sent(&stage), [carry().as_str(), "a: Fresh.", "u: Go on."]);
    let headers = variant.headers.iter().copied().chain([("x-session-id", "copy")]);
    stage.variant.headers = Box::leak(headers.collect::<Vec<_>>().into_boxed_slice());
    says(&stage, &and(&stage, &now, "Copied."), Reply::text("Whole.")).await;
    assert_eq!(sent(&stage)[..4], WHOLE);
    assert_eq!(stage.script.left(), 0);
}

/// The marker in the transcript suffices: neither the process nor the store is needed.
async fn undone_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut stage = Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await;
    let next = handed_over(&stage).await;
    let (_, now) = command(&stage, &next[..next.len() - 1], "::handoff undo").await;
    let lost: [SharedStore; 2] = [sqlite(dir.path()), memory()];
    for store in lost {
        stage.restart(store);
        says(&stage, &and(&stage, &now, "Well."), Reply::text("Whole.")).await;
        assert_eq!(sent(&stage)[..4], WHOLE);
    }
    assert_eq!(stage.script.left(), 0);
}

/// A handoff that waited next to calls. After its undo the call does not take effect again.
async fn undone_mixed(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let reads = Reply::new()
        .thinking("Read.")
        .call("read_file", value!({"path": "a"}));
    stage.push(handoff_beside(reads));
    let answer = stage.ask(&history, true).await;
    let ran = stage.ran(&history, &answer);
    stage.push(thought("Ended."));
    stage.push(fresh());
    let fired = stage.ask(&ran, true).await;
    assert!(fired.text.contains(PROMPT), "{}", fired.text);
    let (_, now) = command(&stage, &[&ran[..], &fired.keep].concat(), "::handoff undo").await;
    let asked = and(&stage, &now, "Well.");
    let answer = says(&stage, &asked, thought("Whole.")).await;
    assert_eq!(answer.text, "Whole.", "nothing fires");
    let seen = sent(&stage);
    assert_eq!(seen[0], "u: Mend the importer.");
    assert_eq!(
        seen[seen.len() - 2..],
        ["a: Ended.Fresh.", "u: Well."],
        "{seen:?}"
    );
    says(&stage, &stage.then(&asked, &answer, "And?"), thought("Still.")).await;
    stage.assert_clean();
}

async fn resumed(variant: Variant) {
    let dir = temp();
    let mut stage = Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await;
    handed_over(&stage).await;
    let id = stage.baton.events(1).await[0].fired[0].clone();
    let other = vec![
        stage.user("Another session."),
        (variant.message)("assistant", "Here."),
    ];
    for given in [
        id.clone(),
        id[..13].to_owned(),
        format!("[[handoff-resume:{id}]]"),
    ] {
        let (text, now) = command(&stage, &other, &format!("::handoff resume {given}")).await;
        assert!(text.contains(&format!("[[handoff-resume:{id}]]")), "{text}");
        let asked = and(&stage, &now, "Go on.");
        let answer = says(&stage, &asked, thought("On it.")).await;
        assert_eq!(sent(&stage), [format!("{}Go on.", carry())]);
        stage.restart(sqlite(dir.path()));
        let asked = stage.then(&asked, &answer, "More.");
        let answer = says(&stage, &asked, thought("More of it.")).await;
        assert_eq!(sent(&stage).len(), 3);
        // And undone again.
        let (text, now) = command(&stage, &[&asked[..], &answer.keep].concat(), "::handoff undo").await;
        assert!(text.contains("whole history again"), "{text}");
        says(&stage, &and(&stage, &now, "Well."), thought("Whole.")).await;
        let seen = sent(&stage);
        assert_eq!(seen[..2], ["u: Another session.", "a: Here."], "{seen:?}");
    }
    stage.assert_clean();
}

async fn not_resumed(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    for given in ["0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11", "x", ""] {
        let (text, now) = command(&stage, &history, &format!("::handoff resume {given}")).await;
        assert!(text.contains("not known here"), "{text}");
        says(&stage, &and(&stage, &now, "More."), Reply::text("So.")).await;
        assert_eq!(stage.sent().last().unwrap(), "u: Go on.More.");
    }
    stage.assert_clean();
}

/// A marker quoted by a model is escaped for the agent, and removes nothing.
async fn look_alikes(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |_| {}).await;
    let quoted = "It says:\n[[handoff-note:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\nSo.";
    let history = stage.history();
    stage.push(Reply::text(quoted));
    let answer = stage.ask(&history, true).await;
    assert!(answer.text.contains("[[handoff-note\\:"), "{}", answer.text);
    says(
        &stage,
        &stage.then(&history, &answer, "More."),
        Reply::text("So."),
    )
    .await;
    let sent = stage.sent();
    assert_eq!(sent[2..], ["u: Go on.", &format!("a: {quoted}"), "u: More."]);
    // The provider sees the model's own words, on Gemini in pieces.
    assert!(stage.provider.complaints().len() <= 1);
}

async fn other_prefix(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |config| {
        config.commands.prefix = "!!".to_owned();
    })
    .await;
    let (text, now) = command(&stage, &stage.history(), "!!handoff help").await;
    assert!(text.contains("!!unpin N"), "{text}");
    says(&stage, &and(&stage, &now, "!pin x"), Reply::text("So.")).await;
    assert_eq!(stage.sent().last().unwrap(), "u: Go on.!pin x");
    stage.assert_clean();
}

/// If commands are disabled, nothing is a command, but earlier answers stay out of the model's view.
async fn switched_off(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |config| config.commands.prefix.clear()).await;
    let history = stage.history();
    says(&stage, &and(&stage, &history[..2], "::pins"), Reply::text("So.")).await;
    assert_eq!(stage.sent()[2], "u: ::pins");
    let id = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    let note = (variant.message)(
        "assistant",
        &format!("baton: nothing is pinned.\n\n[[handoff-note:{id}]]"),
    );
    let now = [&history[..], &[stage.user("::pins"), note, stage.user("More.")]].concat();
    says(&stage, &now, Reply::text("So.")).await;
    assert_eq!(stage.sent().last().unwrap(), "u: Go on.More.");
    assert_eq!(stage.script.left(), 0);
}

/// The prefix in a tool result, and in a file after the user's own words, is plain text.
async fn tool_results(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let reads = Reply::new()
        .thinking("Read.")
        .call("read_file", value!({"path": "a"}));
    let answer = says(&stage, &history, reads).await;
    let results = (variant.results)(&answer.calls, "::pin x\n::handoff undo");
    let ran = [&history[..], &answer.keep, &results].concat();
    let answer = says(&stage, &ran, thought("Read.")).await;
    assert_eq!(answer.text, "Read.");
    let (_, now) = command(&stage, &[&ran[..], &answer.keep].concat(), "::pins").await;
    says(&stage, &and(&stage, &now, "And so:\n::pin x"), thought("So.")).await;
    assert_eq!(stage.sent().last().unwrap(), "u: And so:\n::pin x");
    stage.assert_clean();
}

const DOCUMENT: &str = "## Goal\nMend the importer.\n\n## Next steps\n1. reader.rs.";

/// After `::handoff`, the model is asked to write the document after its own history, and the answer ends
/// with the sentinel.
async fn handed_over_now(variant: Variant) {
    for stream in [true, false] {
        let stage = Fixture::new(variant, []).await;
        let history = stage.history();
        let answer = says(&stage, &history, thought("First.")).await;
        let sent = elements(&stage);
        let now = stage.then(&history, &answer, "::handoff --force --no-git the reader");
        stage.push(Reply::new().thinking("What matters?").say(DOCUMENT));
        let answer = stage.ask(&now, stream).await;
        let asked = stage.provider.generations();
        assert_eq!(asked.len(), 2);
        assert_eq!(
            elements(&stage)[..sent.len()],
            sent,
            "the live prefix, byte for byte"
        );
        let outline = stage.sent();
        assert!(outline.last().unwrap().contains("the reader"), "{outline:?}");
        let told = behind_line(&answer.text);
        assert_eq!(told.is_some(), stream, "{}", answer.text);
        assert!(
            told.unwrap_or(&answer.text)
                .starts_with("baton: handed over (written by the model)"),
            "{}",
            answer.text
        );
        assert!(answer.text.contains("`::handoff undo`"), "{}", answer.text);
        assert!(
            answer.text.contains("Mend the importer."),
            "the sentinel shows it: {}",
            answer.text
        );
        let next = stage.then(&now, &answer, "Go on.");
        let answer = says(&stage, &next, thought("Next.")).await;
        let sent = stage.sent();
        assert!(
            sent.len() == 1
                && sent[0].starts_with(&format!("u: <handoff-context>\nGoal: the reader\n\n{DOCUMENT}"))
                && sent[0].ends_with("Go on."),
            "{sent:?}"
        );
        let before = elements(&stage);
        let next = stage.then(&next, &answer, "More.");
        let answer = says(&stage, &next, thought("More.")).await;
        assert_eq!(elements(&stage)[..before.len()], before);
        // After the undo, neither the command nor its answer remains.
        let (_, now) = command(&stage, &[&next[..], &answer.keep].concat(), "::handoff undo").await;
        says(&stage, &and(&stage, &now, "Well."), thought("Whole.")).await;
        let whole = [
            "u: Mend the importer.",
            "a: Looking.",
            "u: Go on.",
            "a: First.",
            "u: Go on.",
            "a: Next.",
        ];
        assert_eq!(stage.sent()[..6], whole);
        stage.assert_clean();
    }
}

/// Composed without a model, so nothing is sent upstream. A session that continues elsewhere in its
/// transcript is not cut.
async fn composed_now(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = [&history[..], &answer.keep].concat();
    let (text, then) = command(&stage, &now, "::handoff --force --method local --no-git").await;
    assert!(text.contains("composed without a model"), "{text}");
    says(&stage, &and(&stage, &then, "Go on."), thought("Next.")).await;
    let sent = stage.sent();
    assert!(
        sent.len() == 1 && sent[0].contains("Mend the importer."),
        "{sent:?}"
    );
    // The user goes back to before the command.
    says(&stage, &and(&stage, &now, "Rather this."), thought("This.")).await;
    assert_eq!(stage.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    stage.assert_clean();
}

/// A draft waits for the user's approval, and nothing is cut before. After a rejection another one can be
/// requested.
async fn reviewed(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = [&history[..], &answer.keep].concat();
    let (text, then) = command(&stage, &now, "::handoff accept").await;
    assert!(text.contains("no draft waits"), "{text}");
    let (text, then) = command(
        &stage,
        &then,
        "::handoff --force --review --method local --no-git",
    )
    .await;
    assert!(
        text.contains("waits for your approval") && text.contains("## Task"),
        "{text}"
    );
    assert!(!text.contains("[[handoff-resume"), "{text}");
    let (text, then) = command(&stage, &then, "::handoff --force another").await;
    assert!(text.contains("already waits for your approval"), "{text}");
    let (text, then) = command(&stage, &then, "::handoff reject").await;
    assert!(text.contains("rejected"), "{text}");
    let (_, then) = command(
        &stage,
        &then,
        "::handoff --force --review --method local --no-git",
    )
    .await;
    // Another message leaves the draft pending.
    let then = and(&stage, &then, "Go on.");
    let answer = says(&stage, &then, thought("Next.")).await;
    assert!(answer.text.ends_with("Next."), "{}", answer.text);
    assert_eq!(stage.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    let then = [&then[..], &answer.keep].concat();
    let (text, then) = command(&stage, &then, "::handoff edit ## Goal\nOnly the tests.").await;
    assert!(text.contains("handed over (composed without a model)"), "{text}");
    says(&stage, &and(&stage, &then, "Well."), thought("So.")).await;
    let sent = stage.sent();
    let begins = "u: <handoff-context>\n## Goal\nOnly the tests.";
    assert!(
        sent[0].starts_with(begins) && sent[0].ends_with("Go on."),
        "{sent:?}"
    );
    // The work since the draft.
    assert_eq!(sent[1..], ["a: Next.", "u: Well."]);
    assert!(stage.baton.drafting.all_open().is_empty());
    stage.assert_clean();
}

/// `handoff.review`: a user's request waits with "manual" and with "always".
async fn review_by_the_config(variant: Variant) {
    for (review, waits) in [
        (ReviewPolicy::Never, false),
        (ReviewPolicy::Manual, true),
        (ReviewPolicy::Always, true),
    ] {
        let stage = Fixture::with(variant, [], memory(), |config| config.handoff.review = review).await;
        let history = stage.history();
        let answer = says(&stage, &history, thought("First.")).await;
        let now = [&history[..], &answer.keep].concat();
        let (text, then) = command(&stage, &now, "::handoff --force --method local --no-git").await;
        assert_eq!(
            text.contains("the draft waits for your approval"),
            waits,
            "{text}"
        );
        assert_eq!(text.contains("[[handoff-resume:"), !waits, "{text}");
        if waits {
            let (text, _) = command(&stage, &then, "::handoff accept").await;
            assert!(text.contains("[[handoff-resume:"), "{text}");
        }
        stage.assert_clean();
    }
}

/// Two messages before the command are enough; one or none is not.
async fn enough_to_hand_off(variant: Variant) {
    for (messages, enough) in [(0, false), (1, false), (2, true)] {
        let stage = Fixture::new(variant, []).await;
        let history = &stage.history()[..messages];
        let (text, _) = command(&stage, history, "::handoff --force --method local --no-git").await;
        assert_eq!(text.contains("[[handoff-resume:"), enough, "{messages}: {text}");
        assert_eq!(
            text.contains("nothing to hand off yet"),
            !enough,
            "{messages}: {text}"
        );
        assert!(stage.baton.drafting.all_open().is_empty());
    }
}

/// A draft larger than the part that it replaces cuts nothing, whoever writes it. The answer states the sizes
/// and the alternatives.
async fn only_a_smaller_one(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let mut now = [&history[..], &answer.keep].concat();
    let long = "The importer skips the mark.\n".repeat(100);
    for flags in [
        "--method local",
        "--review --method local",
        "--method oneshot",
        "--method bundle",
    ] {
        if !flags.ends_with("local") {
            stage.push(Reply::text(&long));
        }
        let asked = and(&stage, &now, &format!("::handoff {flags} --no-git"));
        let answer = stage.ask(&asked, true).await;
        let text = &answer.text;
        assert!(
            text.contains("no handoff was made: the draft is larger than what it replaces ("),
            "{flags}: {text}"
        );
        assert!(text.contains("(`::handoff --force`)"), "{flags}: {text}");
        let sizes = text.split("replaces (").nth(1).unwrap().split(" bytes before, ");
        let sizes: Vec<u64> = sizes
            .map(|size| {
                size.split(" after")
                    .next()
                    .unwrap()
                    .replace(',', "")
                    .parse()
                    .unwrap()
            })
            .collect();
        assert!(sizes[0] < sizes[1], "{flags}: {sizes:?}");
        assert!(!text.contains("[[handoff-resume:"), "{flags}: {text}");
        assert!(stage.baton.drafting.all_open().is_empty());
        now = [&asked[..], &answer.keep].concat();
    }
    let next = and(&stage, &now, "Go on.");
    let answer = says(&stage, &next, thought("Next.")).await;
    assert_eq!(stage.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    let now = [&next[..], &answer.keep].concat();
    let (text, _) = command(&stage, &now, "::handoff --force --method local --no-git").await;
    assert!(text.contains("handed over (composed without a model)"), "{text}");
    // A user who states a goal wants the new context.
    let (text, _) = command(
        &stage,
        &now,
        "::handoff --method local --no-git Mend the exporter.",
    )
    .await;
    assert!(text.contains("handed over (composed without a model)"), "{text}");
    // The model's own call is never refused for this reason.
    stage.push(Reply::new().call("session_handoff", value!({"prompt": long})));
    stage.push(fresh());
    let answer = stage.ask(&and(&stage, &now, "Hand over."), true).await;
    assert!(answer.text.contains("[[handoff-resume:"), "{}", answer.text);
    // With more to replace there is no flag.
    let read = and(&stage, &now, &"A page of the log.\n".repeat(1000));
    let answer = says(&stage, &read, thought("Read.")).await;
    let read = [&read[..], &answer.keep].concat();
    let (text, _) = command(&stage, &read, "::handoff --method local --no-git the log").await;
    assert!(text.contains("handed over (composed without a model)"), "{text}");
    stage.assert_clean();
}

/// A user who continues while a draft is pending is notified once, before the model's output. The model never
/// sees the notice.
async fn told_that_it_waits(variant: Variant) {
    for stream in [true, false] {
        let stage = Fixture::new(variant, []).await;
        let history = stage.history();
        let answer = says(&stage, &history, thought("First.")).await;
        let now = [&history[..], &answer.keep].concat();
        let (_, now) = command(&stage, &now, "::handoff --force --review --method local --no-git").await;
        let now = and(&stage, &now, "Go on.");
        stage.push(thought("Next."));
        let answer = stage.ask(&now, stream).await;
        let told = answer
            .text
            .strip_suffix("Next.")
            .unwrap_or_else(|| panic!("{}", answer.text));
        assert!(
            told.starts_with("baton: a draft of a handoff waits for your approval: `::handoff accept`"),
            "{told}"
        );
        assert!(told.contains("[[handoff-note:"), "{told}");
        let now = stage.then(&now, &answer, "More.");
        stage.push(thought("And on."));
        let answer = stage.ask(&now, stream).await;
        assert_eq!(answer.text, "And on.", "once");
        let seen = ["u: Go on.", "a: First.", "u: Go on.", "a: Next.", "u: More."];
        assert_eq!(stage.sent()[2..], seen);
        says(&stage, &stage.then(&now, &answer, "Well."), thought("So.")).await;
        assert_eq!(stage.sent()[2..7], seen);
        stage.assert_clean();
    }
}

/// The draft is in the store, so any process that serves the session next knows the draft and its outcome.
async fn accepted_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut stage = Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = [&history[..], &answer.keep].concat();
    let (_, now) = command(&stage, &now, "::handoff --force --review --method local --no-git").await;
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff status").await;
    assert!(text.contains("A draft waits for your approval"), "{text}");
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff reject").await;
    assert!(text.contains("rejected"), "{text}");
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff accept").await;
    assert!(text.contains("no draft waits"), "{text}");
    let (_, now) = command(&stage, &now, "::handoff --force --review --method local --no-git").await;
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff accept").await;
    assert!(text.contains("handed over (composed without a model)"), "{text}");
    // After its undo it is an undone handoff, no longer a draft.
    let (_, now) = command(&stage, &now, "::handoff undo").await;
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff accept").await;
    assert!(text.contains("no draft waits"), "{text}");
    let (_, now) = command(&stage, &now, "::handoff undo").await;
    says(&stage, &and(&stage, &now, "Well."), thought("So.")).await;
    let sent = stage.sent();
    assert!(sent.len() == 1 && sent[0].ends_with("Well."), "{sent:?}");
    stage.assert_clean();
}

/// Beginning of baton's answer to a handoff, after the progress line.
const SHOWN: &[u8] = b"baton: handed over";

/// Sends a request, reads the beginning of the response, and disconnects.
async fn leaves(stage: &Fixture, path: &str, headers: &[(&str, &str)], body: &str) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(stage.baton.addr).await.unwrap();
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    // The progress line and keep-alives precede it.
    while !seen.windows(SHOWN.len() + 40).any(|some| some.starts_with(SHOWN)) {
        let mut some = [0; 64];
        let read = stream.read(&mut some).await.unwrap();
        seen.extend_from_slice(&some[..read]);
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
    }
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        seen.starts_with("HTTP/1.1 200") && seen.contains("baton: handed over"),
        "{seen}"
    );
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

/// A command without an answer or a trace, because the process was killed or baton was not in use. The user's
/// next message is sent without it.
async fn never_answered(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = stage.then(&history, &answer, "::handoff --force the reader");
    let next = and(&stage, &now, "More.");
    let answer = says(&stage, &next, thought("Second.")).await;
    let all = [
        "u: Mend the importer.",
        "a: Looking.",
        "u: Go on.",
        "a: First.",
        "u: More.",
    ];
    assert_eq!(stage.sent(), all);
    let sent = elements(&stage);
    // Two in a row, and one that is answered after them.
    let mut now = [&next[..], &answer.keep].concat();
    for text in ["::pin Be brief.", "  ::handoff undo"] {
        now = and(&stage, &now, text);
    }
    let (text, now) = command(&stage, &now, "::pins").await;
    assert!(text.contains("nothing is pinned"), "{text}");
    says(&stage, &and(&stage, &now, "Third."), thought("So.")).await;
    assert_eq!(elements(&stage)[..sent.len()], sent, "the prefix stays");
    assert_eq!(stage.sent()[5..], ["a: Second.", "u: Third."]);
    // A command that the user only mentions is plain text.
    let said = and(&stage, &and(&stage, &history, "See ::pin there."), "More.");
    says(&stage, &said, Reply::text("So.")).await;
    assert!(stage.sent().last().unwrap().contains("See ::pin there."));
    stage.assert_clean();
}

/// An agent whose connection broke repeats the request. It gets the existing handoff, and no second one is
/// written.
async fn sent_again(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = stage.then(&history, &answer, "::handoff --force the reader");
    // More than an unread connection buffers, and within the limits of a prompt and a leg. Each character is
    // six bytes of JSON, and occurs five times in a stream of Responses.
    let characters = if (variant.path)(true) == (variants::RESPONSES.path)(true) {
        220_000
    } else {
        700_000
    };
    let long = format!("{DOCUMENT}\n{}", "\u{1}".repeat(characters));
    stage.push(Reply::text(&long).deltas(50_000));
    let body = (variant.body)(&now, true).to_string();
    leaves(&stage, (variant.path)(true), variant.headers, &body).await;
    // The proxy notices it.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(stage.baton.drafting.all_open().is_empty());
    let legs = stage.provider.generations().len();
    let again = stage.ask(&now, true).await;
    assert_eq!(
        stage.provider.generations().len(),
        legs,
        "nothing was written again"
    );
    assert!(
        again
            .text
            .starts_with("baton: handed over (written by the model), "),
        "{}",
        again.text
    );
    assert!(!again.text.contains(" 0 B"), "{}", again.text);
    let next = stage.then(&now, &again, "Go on.");
    let answer = says(&stage, &next, thought("Next.")).await;
    let sent = stage.sent();
    assert!(sent.len() == 1 && sent[0].contains(DOCUMENT), "{sent:?}");
    // The same words later lead to another handoff.
    stage.push(Reply::text(DOCUMENT));
    let later = stage
        .ask(&stage.then(&next, &answer, "::handoff --force the reader"), true)
        .await;
    let id = |text: &str| text.split("[[handoff-resume:").nth(1).unwrap()[..36].to_owned();
    assert_ne!(id(&later.text), id(&again.text));
    stage.assert_clean();
}

/// Waits until a draft's request is upstream.
async fn until_asked(stage: &Fixture, requests: usize) {
    while stage.provider.requests().len() < requests {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// The store fails while the model writes. Nothing is cut, the user is notified, and the next request is
/// whole.
async fn store_fails_meanwhile(variant: Variant) {
    let store = FlakyStore::new(memory());
    let stage = Fixture::with(variant, [], store.clone(), |_| {}).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = stage.then(&history, &answer, "::handoff --force");
    let slow = std::time::Duration::from_millis(150);
    stage.push(Reply::text(DOCUMENT).head_delay(slow));
    let fails = async {
        until_asked(&stage, 2).await;
        store.no_writes.store(true, Ordering::SeqCst);
    };
    let (answer, ()) = tokio::join!(stage.ask(&now, true), fails);
    let text = &answer.text;
    assert!(
        text.contains("no handoff was made: the store of handoffs cannot be written."),
        "{text}"
    );
    assert!(!text.contains("[[handoff-resume"), "{text}");
    store.no_writes.store(false, Ordering::SeqCst);
    assert!(stage.baton.drafting.all_open().is_empty());
    says(&stage, &stage.then(&now, &answer, "Well."), thought("So.")).await;
    assert_eq!(stage.sent()[2..], ["u: Go on.", "a: First.", "u: Well."]);
    stage.assert_clean();
}

/// If two arrive at once, the second learns of the first, and may cancel it.
async fn two_at_once(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = [&history[..], &answer.keep].concat();
    let slow = std::time::Duration::from_secs(20);
    stage.push(Reply::text(DOCUMENT).head_delay(slow));
    let first = and(&stage, &now, "::handoff --force");
    let others = async {
        until_asked(&stage, 2).await;
        let (busy, _) = command(&stage, &now, "::handoff --force the tests").await;
        let (status, _) = command(&stage, &now, "::handoff status").await;
        let (cancelled, _) = command(&stage, &now, "::handoff cancel").await;
        (busy, status, cancelled)
    };
    let (answer, (busy, status, cancelled)) = tokio::join!(stage.ask(&first, true), others);
    assert!(busy.contains("a handoff is already being written ("), "{busy}");
    let id = busy.split('(').nth(1).unwrap().split(')').next().unwrap();
    assert!(
        status.contains(&format!("A handoff is being written ({id})")),
        "{status}"
    );
    assert!(cancelled.contains("was cancelled"), "{cancelled}");
    assert!(
        answer.text.contains("no handoff was made: cancelled."),
        "{}",
        answer.text
    );
    assert!(stage.baton.drafting.all_open().is_empty());
    says(&stage, &stage.then(&first, &answer, "Well."), thought("So.")).await;
    assert_eq!(stage.sent()[2..], ["u: Go on.", "a: First.", "u: Well."]);
    assert_eq!(stage.script.left(), 0);
}

/// Pins belong to the session, whatever branch a handoff is made in; an undo belongs to its branch. A copy
/// under another session's id has the handoffs of its transcript with their pins, but no pins of its own.
async fn forked_with_pins(variant: Variant) {
    let mut stage = Fixture::new(variant, []).await;
    let named = |session: &'static str| {
        let headers = variant.headers.iter().copied().chain([("x-session-id", session)]);
        Box::leak(headers.collect::<Vec<_>>().into_boxed_slice()) as &'static [_]
    };
    stage.variant.headers = named("one");
    let (_, pinned) = command(&stage, &stage.history(), "::pin Keep the schema.").await;
    let asked = and(&stage, &pinned, "Hand over.");
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&asked, true).await;
    let cut = [&asked[..], &fired.keep].concat();
    let (_, undone) = command(&stage, &cut, "::handoff undo").await;
    let pin = "Keep the schema.";
    // Both the branch with the undo and the one without carry the pin over.
    says(&stage, &and(&stage, &undone, "Whole?"), thought("Whole.")).await;
    assert_eq!(sent(&stage)[..2], ["u: Mend the importer.", "a: Looking."]);
    says(&stage, &and(&stage, &cut, "Cut?"), thought("Cut.")).await;
    assert!(sent(&stage)[0].contains(pin) && sent(&stage)[0].contains(PROMPT));
    for branch in [&undone, &cut] {
        let next = and(&stage, branch, "And again.");
        let again = says(&stage, &next, thought("Again.")).await;
        let (text, then) = command(
            &stage,
            &[&next[..], &again.keep].concat(),
            "::handoff --force --method local",
        )
        .await;
        assert!(text.contains("handed over"), "{text}");
        says(&stage, &and(&stage, &then, "On."), Reply::text("On.")).await;
        assert_eq!(sent(&stage)[0].matches(pin).count(), 1, "{:?}", sent(&stage));
    }
    // A copy has the handoff as it was made, and no later pins.
    stage.variant.headers = named("two");
    let next = and(&stage, &cut, "Copied.");
    let copied = says(&stage, &next, Reply::text("Copied.")).await;
    assert!(sent(&stage)[0].contains(pin));
    let (text, then) = command(&stage, &[&next[..], &copied.keep].concat(), "::pins").await;
    assert!(text.contains("nothing is pinned"), "{text}");
    let (_, then) = command(&stage, &then, "::handoff --force --method local").await;
    says(&stage, &and(&stage, &then, "On."), Reply::text("On.")).await;
    assert!(!sent(&stage)[0].contains("<pinned>"), "{:?}", sent(&stage));
    assert_eq!(stage.script.left(), 0);
}

/// Nothing is handed over, and the conversation is unchanged.
async fn not_handed_over(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    for (asked, said) in [
        ("::handoff", "nothing to hand off yet"),
        ("::handoff --methd local", "--methd: there is no such flag"),
        (
            "::handoff --method best",
            "--method: its value is one of oneshot, bundle, local",
        ),
        ("::handoff --model", "--model: its value is missing"),
        ("::handoff cancel", "no handoff is being written"),
    ] {
        let (text, _) = command(&stage, &[], asked).await;
        assert!(text.contains(said), "{asked}: {text}");
    }
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = [&history[..], &answer.keep].concat();
    stage.push(Reply::new());
    let answer = stage.ask(&and(&stage, &now, "::handoff --force"), true).await;
    assert!(
        answer
            .text
            .contains("no handoff was made: the model wrote nothing"),
        "{}",
        answer.text
    );
    let then = [
        &now[..],
        &[stage.user("::handoff --force")],
        &answer.keep,
        &[stage.user("More.")],
    ]
    .concat();
    says(&stage, &then, thought("So.")).await;
    assert_eq!(stage.sent()[2..], ["u: Go on.", "a: First.", "u: More."]);
    assert!(stage.baton.drafting.all_open().is_empty());
    stage.assert_clean();
}

/// Text that the agent's harness puts before the user's words is not part of a command, and stays.
#[tokio::test]
async fn a_reminder_in_front_of_a_command_stays() {
    let stage = Fixture::new(variants::ANTHROPIC, []).await;
    let block = |text: &str| value!({"type": "text", "text": text});
    let reminder = "<system-reminder>\nCLAUDE.md says so.\n</system-reminder>";
    let first = value!({"role": "user", "content": [block(reminder), block("::pin Be brief.")]});
    let asked = stage.provider.requests().len();
    let answer = stage.ask(std::slice::from_ref(&first), true).await;
    assert_eq!(stage.provider.requests().len(), asked);
    let now = [&[first][..], &answer.keep, &[stage.user("Mend it.")]].concat();
    says(&stage, &now, thought("So.")).await;
    assert_eq!(stage.sent(), [format!("u: {reminder}Mend it.")]);
    stage.assert_clean();
}

/// A request for a title has the session's id and messages, but no tools; one that classifies the user's
/// words asks for JSON. Commands quoted in them are neither executed nor forwarded.
#[tokio::test]
async fn a_request_beside_the_session_does_nothing() {
    let mut stage = Fixture::new(variants::CHAT, []).await;
    stage.variant.headers = &[("authorization", "Bearer sk-agent"), ("x-session-id", "one")];
    let history = stage.history();
    let answer = says(&stage, &history, Reply::text("First.")).await;
    assert_eq!(answer.text, "First.");
    let alone = vec![stage.user("::pin Be brief.")];
    let title = vec![value!({"role": "user", "content": [
        {"type": "text", "text": "A title for this:"}, {"type": "text", "text": "::pin Be brief."}]})];
    let named = vec![stage.user("Name this task in a few words.\n\nUser prompt:\n::pin Be brief.")];
    let json = || value!({"type": "json_object"});
    for (messages, format, has_tools) in [
        (&alone, Value::Null, false),
        (&title, Value::Null, false),
        (&title, json(), false),
        (&named, json(), false),
        // Codex 0.169 lists its tools in that request as well.
        (&named, json(), true),
    ] {
        let mut body = (variants::CHAT.body)(messages, false);
        let all = body.as_object_mut().unwrap();
        if !has_tools {
            all.remove("tools");
        }
        if !format.is_null() {
            all.insert("response_format".to_owned(), format);
        }
        stage.push(Reply::text("A title."));
        let reply = stage
            .baton
            .post(
                "/v1/chat/completions",
                stage.variant.headers,
                body.to_string().into(),
            )
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(
            stage.sent().last().unwrap().ends_with("(a command)"),
            "{:?}",
            stage.sent()
        );
    }
    let (text, _) = command(&stage, &history, "::pins").await;
    assert!(text.contains("nothing is pinned"), "{text}");
    stage.assert_clean();
}

/// A history that no longer fits is not restored.
#[tokio::test]
async fn an_undo_over_the_window_is_refused() {
    let stage = Fixture::with(variants::ANTHROPIC, [], memory(), |config| {
        config.handoff.windows = Windows::with(vec![("claude-strict".to_owned(), 2_000)]);
        config.handoff.thresholds.nudge_at = 0.0;
    })
    .await;
    let mut history = stage.history();
    history[0] = stage.user(&"Mend the importer. ".repeat(1_000));
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&history, true).await;
    let (text, now) = command(&stage, &[&history[..], &fired.keep].concat(), "::handoff undo").await;
    assert!(
        text.contains("nothing was undone") && text.contains("more than its window holds"),
        "{text}"
    );
    says(&stage, &and(&stage, &now, "Go on."), thought("Next.")).await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: Go on."]);
    stage.assert_clean();
}

/// Upstream stores the transcript, so the request after a command continues from the response before it.
#[tokio::test]
async fn a_transcript_that_the_provider_holds_goes_on_behind_a_command() {
    let stage = Fixture::new(variants::RESPONSES, [Reply::text("One.")]).await;
    let send = async |input: Value, previous: &Value| {
        let mut body = (variants::RESPONSES.body)(&[], false);
        (body["input"], body["store"]) = (input, value!(true));
        if !previous.is_null() {
            body["previous_response_id"] = previous.clone();
        }
        let reply = stage
            .baton
            .post(
                "/v1/responses",
                variants::RESPONSES.headers,
                body.to_string().into(),
            )
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["id"].clone()
    };
    let none = send(value!("::pins"), &Value::Null).await;
    let first = send(value!("Mend it."), &none).await;
    let last = || stage.provider.generations().last().unwrap().body.clone();
    assert!(last().get("previous_response_id").is_none_or(Value::is_null));
    let note = send(value!([stage.user("::handoff status")]), &first).await;
    let undo = send(value!([stage.user("::handoff undo")]), &note).await;
    stage.push(Reply::text("Two."));
    send(value!([stage.user("More.")]), &undo).await;
    assert_eq!(last()["previous_response_id"], first);
    assert_eq!(last()["input"], value!([stage.user("More.")]));
    stage.assert_clean();
}

/// A goal may be long, and quote markers that would cut or end a transcript elsewhere.
#[tokio::test]
async fn a_goal_is_carried_whatever_it_is() {
    let id = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
    let long = format!(
        "Port these:\n{}",
        "- the importer of the süd module\n".repeat(3_200)
    );
    assert!(long.len() > 100_000);
    let quotes = format!(
        "go on behind [[handoff-resume:{id}]]\n[[handoff-resume:{id}]]\n[[/handoff-resume:x]]\nbaton: x\n[[handoff-note:{id}]]\n\
         </handoff-context>\n::handoff undo"
    );
    let escaped = quotes
        .replace("handoff-resume:", "handoff-resume\\:")
        .replace("handoff-note:", "handoff-note\\:");
    for (goal, carried) in [
        (long.trim(), Some(long.trim())),
        (&quotes, Some(&*escaped)),
        ("", None),
        (" \n ", None),
    ] {
        for method in ["oneshot", "bundle", "local"] {
            let stage = Fixture::new(variants::CHAT, []).await;
            let history = stage.history();
            let answer = says(&stage, &history, thought("First.")).await;
            let now = stage.then(
                &history,
                &answer,
                &format!("::handoff --force --method {method} {goal}"),
            );
            if method != "local" {
                stage.push(Reply::text(DOCUMENT));
            }
            let answer = stage.ask(&now, true).await;
            assert!(
                answer.text.contains("baton: handed over"),
                "{method}: {}",
                answer.text
            );
            let next = stage.then(&now, &answer, "Go on.");
            says(&stage, &next, thought("Next.")).await;
            let sent = stage.sent();
            assert_eq!(sent.len(), 1, "{sent:?}");
            let begins = match (carried, method) {
                (Some(goal), _) => format!("Goal: {goal}\n\n"),
                (None, "local") => "## Task\nGoal (the last open request): ".to_owned(),
                (None, _) => DOCUMENT.to_owned(),
            };
            let begins = format!("u: <handoff-context>\n{begins}");
            assert!(sent[0].starts_with(&begins), "{method}: {}", sent[0]);
            assert!(sent[0].ends_with("Go on."), "{method}: {}", sent[0]);
            stage.assert_clean();
        }
    }
}
