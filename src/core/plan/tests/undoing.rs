//! Undo in the chat: the affected handoff, and the reply.

use super::*;
use crate::commands::{CommandReply, UndoOutcome};
use crate::text::units::brief;

/// The reply to an undo after responses that showed these strings.
fn undo(script: &Script, shown: &[String], id: Option<&str>, window: Option<u64>) -> CommandReply {
    let mut messages = after(shown);
    messages.push(user("::handoff undo"));
    let mut reply = None;
    script.plan(&messages).with(|plan| {
        let mut records = Records::default();
        reply = loop {
            let query = UndoQuery {
                id,
                principal: "local",
                records: &records,
                window,
            };
            match plan.undo(&query) {
                Ok(reply) => break Some(reply),
                Err(needs) => {
                    for need in needs {
                        let answer = script.answer(&need);
                        records.add(need, answer);
                    }
                }
            }
        };
    });
    reply.unwrap()
}

/// A response that undid a handoff, or reverted its undo.
fn noted(reply: &CommandReply) -> String {
    reply.shown()
}

#[test]
fn the_last_handoff_is_undone_and_the_same_command_reverts_it() {
    let mut script = Script::new();
    let first = script.handoff(None);
    let second = script.handoff(Some(first));
    let mut shown = vec![short(first), short(second)];
    let undone = undo(&script, &shown, None, None);
    assert_eq!(
        (undone.undo, undone.note),
        (Some(UndoOutcome::Undone), Some(second))
    );
    assert_contains(&undone.text, &format!("before it, {},", brief(first)));
    shown.push(noted(&undone));
    let reverted = undo(&script, &shown, None, None);
    let expected = (Some(UndoOutcome::TakenBack), Some(second));
    assert_eq!((reverted.undo, reverted.note), expected);
    let named = undo(&script, &shown, Some(&first.to_string()), None);
    assert_eq!((named.undo, named.note), (Some(UndoOutcome::Undone), Some(first)));
    assert!(named.text.contains("the whole history again"), "{}", named.text);
}

#[test]
fn what_cannot_be_undone_is_refused() {
    let mut script = Script::new();
    let id = script.handoff(None);
    let shown = [short(id)];
    let rows = [
        (undo(&script, &[], None, None), "nothing to undo"),
        (
            undo(&script, &shown, Some("x"), None),
            "no handoff of this transcript",
        ),
        (
            undo(&script, &shown, Some(""), None),
            "no handoff of this transcript",
        ),
        (undo(&script, &shown, None, Some(1)), "more than its window holds"),
    ];
    for (reply, why) in rows {
        assert_eq!((reply.undo, reply.note), (Some(UndoOutcome::Refused), None));
        assert!(reply.text.contains(why), "{}", reply.text);
    }
    // The transcript of another client, or of another store.
    let foreign = Uuid::now_v7();
    let copied = undo(&script, &[short(foreign)], Some(&foreign.to_string()), None);
    assert_eq!((copied.undo, copied.note), (Some(UndoOutcome::Refused), None));
    assert_contains(&copied.text, "no handoff with that id is active here");
    let roomy = undo(&script, &shown, None, Some(1 << 20));
    assert_eq!(roomy.undo, Some(UndoOutcome::Undone));
}
