//! `::handoff resume`: a handoff of another session.

use baton_strict::Reply;
use pretty_assertions::assert_eq;

use super::{and, command, handed_over, says, sent, thought};
use crate::harness::{sqlite, temp};
use crate::matrix::fixture::{Fixture, carry};
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(resumed not_resumed;);

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
