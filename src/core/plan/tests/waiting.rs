//! Handoffs beside other calls, which wait for the end of the model's turn.

use super::*;
use crate::response::VerdictInput;
use crate::rewrite::{Rewrite, rewrite};

fn called(id: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "run", "input": {}}]})
}

fn result(id: &str, more: &[Value]) -> Value {
    let result = json!({"type": "tool_result", "tool_use_id": id, "content": "ok"});
    let content = [&[result], more].concat();
    json!({"role": "user", "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A message that the user sends while Claude Code works.
fn interjected() -> Value {
    text(
        "<system-reminder>\nThe user sent a new message while you were working:\nUse tabs.\n\nIMPORTANT: After completing your current task, you MUST address it.\n</system-reminder>",
    )
}

fn waiting(sibling: &str) -> HiddenPair {
    HiddenPair {
        pending: Some((PROMPT.to_owned(), None)),
        ..pair("c", sibling)
    }
}

/// Whether the handoff still waits, and whether it lapses with this request. The hidden call is sent in either case.
fn outcome(script: &Script, messages: &[Value]) -> (bool, bool) {
    let outcome = script.plan(messages);
    let mut found = None;
    outcome.with(|plan| {
        let sent = rewrite(
            plan.reading,
            &Rewrite {
                pairs: &plan.places.pairs,
                ..Rewrite::default()
            },
        );
        assert_eq!(sent.placed.len(), 1);
        let waits = VerdictInput::new(&plan, &sent, true, 8).pending.is_some();
        assert_eq!(plan.waits_for_turn_end(), waits);
        found = Some((waits, plan.places.lapses));
    });
    found.unwrap()
}

#[test]
fn a_waiting_handoff_lapses_with_the_users_next_message() {
    let script = Script {
        pairs: vec![waiting("t1")],
        ..Script::new()
    };
    let before = [user(BEFORE), called("t0"), result("t0", &[]), called("t1")];
    let rows: [(&str, Vec<Value>, (bool, bool)); 9] = [
        ("a result", vec![result("t1", &[])], (true, false)),
        (
            "a reminder",
            vec![result(
                "t1",
                &[text("<system-reminder>\n1 token left\n</system-reminder>")],
            )],
            (true, false),
        ),
        (
            "a message in mid-turn",
            vec![result("t1", &[interjected()])],
            (true, false),
        ),
        (
            "more work",
            vec![result("t1", &[]), called("t2"), result("t2", &[])],
            (true, false),
        ),
        (
            "text beside a result",
            vec![result("t1", &[text("No, tabs.")])],
            (false, true),
        ),
        (
            "a message",
            vec![result("t1", &[]), user("No, tabs.")],
            (false, true),
        ),
        (
            "a message after the turn",
            vec![result("t1", &[]), model("Truncat"), user("No, tabs.")],
            (false, true),
        ),
        (
            "a message before",
            vec![
                result("t1", &[]),
                user("No, tabs."),
                called("t2"),
                result("t2", &[]),
            ],
            (false, false),
        ),
        (
            "a command",
            vec![result("t1", &[]), user("::handoffs")],
            (true, false),
        ),
    ];
    for (what, after, expected) in rows {
        let messages = [&before[..], &after].concat();
        assert_eq!(outcome(&script, &messages), expected, "{what}");
    }
}

#[test]
fn a_later_call_waits_though_an_earlier_one_has_lapsed() {
    let script = Script {
        pairs: vec![waiting("t1")],
        ..Script::new()
    };
    let messages = [user(BEFORE), user("No, tabs."), called("t1"), result("t1", &[])];
    assert_eq!(outcome(&script, &messages), (true, false));
}

#[test]
fn the_calls_that_a_waiting_prompt_lacks_are_counted() {
    let script = Script {
        pairs: vec![waiting("t1")],
        ..Script::new()
    };
    let mut messages = vec![
        user(BEFORE),
        called("t0"),
        result("t0", &[]),
        called("t1"),
        result("t1", &[]),
    ];
    for n in 1..4 {
        script.plan(&messages).with(|plan| {
            assert_eq!(plan.calls_since_queued(PROMPT), n);
            assert_eq!(plan.calls_since_queued("Another."), 0);
        });
        let id = format!("later{n}");
        messages.extend([called(&id), result(&id, &[])]);
    }
}
