//! `::handoff resume`: a handoff of another session.

use pretty_assertions::assert_eq;

use super::{opened, sent};
use crate::harness::texts::assert_contains;
use crate::harness::{sqlite, temp};
use crate::matrix::fixture::{Fixture, carry, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(resumed not_resumed;);

async fn resumed(variant: Variant) {
    let dir = temp();
    let mut talk = Talk::opened(Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await);
    talk.hands_over("Go on.").await;
    let id = talk.baton.events(1).await[0].fired[0].clone();
    let line = format!("[[handoff-resume:{id}]]");
    for given in [&id, &id[..13], &line] {
        talk.history = vec![
            talk.user("Another session."),
            (variant.message)("assistant", "Here."),
        ];
        assert_contains(&talk.command(&format!("::handoff resume {given}")).await, &line);
        talk.says("Go on.", thought("On it.")).await;
        assert_eq!(sent(&talk), [format!("{}Go on.", carry())]);
        talk.restart(sqlite(dir.path()));
        talk.says("More.", thought("More of it.")).await;
        assert_eq!(sent(&talk).len(), 3);
        assert_contains(&talk.command("::handoff undo").await, "whole history again");
        talk.says("Well.", thought("Whole.")).await;
        assert_eq!(sent(&talk)[..2], ["u: Another session.", "a: Here."]);
    }
    talk.assert_clean();
}

async fn not_resumed(variant: Variant) {
    let mut talk = opened(variant).await;
    for given in ["0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11", "x", ""] {
        talk.history.truncate(2);
        let text = talk.command(&format!("::handoff resume {given}")).await;
        assert_contains(&text, "not known here");
        talk.says("More.", "So.").await;
        assert_eq!(talk.sent()[2..], ["u: More."]);
    }
    talk.assert_clean();
}
