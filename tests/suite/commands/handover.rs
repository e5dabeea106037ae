//! `::handoff`: a handoff by the user, written by the model or composed.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json as value;

use super::{DOCUMENT, and, command, elements, says, thought};
use crate::harness::texts::assert_contains;
use crate::matrix::fixture::{Fixture, behind_line, fresh};
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(handed_over_now enough_to_hand_off only_a_smaller_one not_handed_over;);

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
    assert_contains(&answer.text, "no handoff was made: the model wrote nothing");
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
