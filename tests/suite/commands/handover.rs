//! `::handoff`: a handoff by the user, written by the model or composed.
//!
//! `oneshot::handed_over` has the requests of one that the model writes, and `draft_shown` its command and its undo.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json as value;

use super::{DOCUMENT, opened};
use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::matrix::fixture::{Fixture, fresh, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(enough_to_hand_off only_a_smaller_one not_handed_over rewound;);

/// Two messages before the command are enough; one or none is not.
async fn enough_to_hand_off(variant: Variant) {
    for (messages, enough) in [(0, false), (1, false), (2, true)] {
        let mut talk = opened(variant).await;
        talk.history.truncate(messages);
        let text = talk.command("::handoff --force --method local --no-git").await;
        assert_eq!(text.contains("[[handoff-resume:"), enough, "{messages}: {text}");
        assert_eq!(
            text.contains("nothing to hand off yet"),
            !enough,
            "{messages}: {text}"
        );
        assert!(talk.baton.drafting.all_open().is_empty());
    }
}

/// A draft larger than the part that it replaces cuts nothing, whoever writes it. The answer states the sizes
/// and the alternatives.
async fn only_a_smaller_one(variant: Variant) {
    let mut talk = Talk::worked(variant).await;
    let long = "The importer skips the mark.\n".repeat(100);
    for flags in [
        "--method local",
        "--review --method local",
        "--method oneshot",
        "--method bundle",
    ] {
        if !flags.ends_with("local") {
            talk.push(Reply::text(&long));
        }
        let text = talk.asks(&format!("::handoff {flags} --no-git")).await.text;
        assert_contains(
            &text,
            "no handoff was made: the draft is larger than what it replaces (",
        );
        assert_contains(&text, "(`::handoff --force`)");
        let (_, sizes) = text.split_once("replaces (").unwrap();
        let (sizes, _) = sizes.split_once(" after").unwrap();
        let sizes = sizes.replace(',', "");
        let (before, after) = sizes.split_once(" bytes before ").unwrap();
        assert!(
            before.parse::<u64>().unwrap() < after.parse().unwrap(),
            "{flags}: {sizes}"
        );
        assert_lacks(&text, "[[handoff-resume:");
        assert!(talk.baton.drafting.all_open().is_empty());
    }
    talk.says("Go on.", thought("Next.")).await;
    assert_eq!(talk.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    let uncut = talk.history.clone();
    // By the flag. A user who states a goal wants the new context.
    for words in [
        "--force --method local --no-git",
        "--method local --no-git Mend the exporter.",
    ] {
        talk.history.clone_from(&uncut);
        let text = talk.command(&format!("::handoff {words}")).await;
        assert_contains(&text, "handed over (composed without a model)");
    }
    // The model's own call is never refused for this reason.
    talk.history.clone_from(&uncut);
    talk.push(Reply::new().call("session_handoff", value!({"prompt": long})));
    let answer = talk.says("Hand over.", fresh()).await;
    assert_contains(&answer.text, "[[handoff-resume:");
    // With more to replace there is no flag.
    talk.history = uncut;
    talk.says(&"A page of the log.\n".repeat(1000), thought("Read."))
        .await;
    let text = talk.command("::handoff --method local --no-git the log").await;
    assert_contains(&text, "handed over (composed without a model)");
    talk.assert_clean();
}

/// Nothing is handed over, and the conversation is unchanged.
async fn not_handed_over(variant: Variant) {
    let mut talk = Talk::new(Fixture::new(variant, []).await);
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
        talk.history.clear();
        assert_contains(&talk.command(asked).await, said);
    }
    let mut talk = Talk::worked_in(talk.stage).await;
    let answer = talk.says("::handoff --force", Reply::new()).await;
    assert_contains(&answer.text, "no handoff was made: the model wrote nothing");
    talk.says("More.", thought("So.")).await;
    assert_eq!(talk.sent()[2..], ["u: Go on.", "a: First.", "u: More."]);
    assert!(talk.baton.drafting.all_open().is_empty());
    talk.assert_clean();
}

/// A rewind to before the command shows the history again.
async fn rewound(variant: Variant) {
    let command = "::handoff --force --method local --no-git";
    let mut talk = Talk::worked(variant).await;
    let before = talk.history.clone();
    assert_contains(
        &talk.command(command).await,
        "handed over (composed without a model)",
    );
    talk.says("On with it.", thought("Next.")).await;
    assert_begins(&talk.sent()[0], "u: <handoff-context>\n");
    talk.history = before;
    talk.says("Something else.", thought("Well.")).await;
    let sent = talk.sent();
    assert_eq!(sent[..2], ["u: Mend the importer.", "a: Looking."]);
    assert_ends(sent.last().unwrap(), "Something else.");
    talk.says("More.", thought("So.")).await;
    assert_eq!(talk.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    talk.assert_clean();
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
    let escaped = quotes.replace("handoff-resume:", "handoff-resume\\:");
    let escaped = escaped.replace("handoff-note:", "handoff-note\\:");
    let escaped = escaped.replace("</handoff-context>", r"<\/handoff-context>");
    let goals = [
        (long.trim(), Some(long.trim())),
        (&quotes, Some(&*escaped)),
        ("", None),
        (" \n ", None),
    ];
    for ((goal, carried), method) in goals
        .into_iter()
        .flat_map(|goal| ["oneshot", "bundle", "local"].map(|m| (goal, m)))
    {
        let mut talk = Talk::worked(variants::CHAT).await;
        if method != "local" {
            talk.push(Reply::text(DOCUMENT));
        }
        let answer = talk
            .asks(&format!("::handoff --force --method {method} {goal}"))
            .await;
        assert_contains(&answer.text, "baton: handed over");
        talk.says("Go on.", thought("Next.")).await;
        let [sent] = &talk.sent()[..] else {
            panic!("{:?}", talk.sent())
        };
        let begins = match (carried, method) {
            (Some(goal), _) => format!("Goal: {goal}\n\n"),
            (None, "local") => "## Task\nGoal (the last open request): ".to_owned(),
            (None, _) => DOCUMENT.to_owned(),
        };
        assert_begins(sent, &format!("u: <handoff-context>\n{begins}"));
        assert_ends(sent, "Go on.");
        talk.assert_clean();
    }
}
