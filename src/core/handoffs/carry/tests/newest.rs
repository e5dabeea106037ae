//! Tests of the newest message as the block quotes it.

use super::said::{behind, said_in};
use super::*;
use crate::handoffs::testing::view;
use crate::work::DraftIndexSettings;

#[test]
fn an_accepted_plan_is_quoted_as_far_as_there_is_room() {
    let steps: Vec<String> = (0..90)
        .map(|n| format!("- Paint the door of hall {n} in the color of its lamp."))
        .collect();
    let plan = format!(
        "Implement the following plan:\n\n# Halls\n\nThe windows must stay as they are.\n\n{}\n\nIf you need specific details from before \
         exiting plan mode, read it.\n\nUser feedback on this plan: Begin at the gate.",
        steps.join("\n")
    );
    let painted = |tokens: usize| {
        let block = behind(&[user(&plan)], tokens);
        assert_contains(&block, "The windows must stay");
        assert!(crate::handoffs::draft::tokens(&block) <= tokens, "{block}");
        block.matches("Paint the door").count()
    };
    let few = painted(600);
    assert!(few > 10 && painted(2000) > few, "{few}");
    assert_contains(&behind(&[user(&plan)], 2000), "Begin at the gate.");
}

#[test]
fn a_long_message_has_its_typed_lines_and_both_ends_of_the_paste() {
    let lines: Vec<String> = (10..70)
        .map(|n| format!("[12:00:{n}] step {n} of the build has nothing to say in this line"))
        .collect();
    let log = lines.join("\n");
    let block = behind(
        &[user(&format!(
            "please see the log and mend it:\n\n{log}\n[12:01:10] No hall was found.\n\nIt may be the lamp."
        ))],
        2000,
    );
    for part in [
        "please see the log",
        "step 10",
        "No hall was found.",
        "It may be the lamp.",
    ] {
        assert_contains(&block, part);
    }
    assert!(!block.contains("step 40") && block.len() < 2000, "{block}");
    // A line of the request that looks like code.
    let fields = "    field: #Lamp<the lamp is not loaded>,\n".repeat(60);
    let block = behind(
        &[user(&format!(
            "Some halls fail with: key :lamp not found in: %{{\n{fields}\nWhy?"
        ))],
        2000,
    );
    assert_contains(&block, "key :lamp not found");
}

#[test]
fn an_accepted_offer_is_quoted_with_the_answer_that_accepts_it() {
    let offer = "Say the word and I'll go back to the lamps of the hall.";
    let messages = |next: &str| {
        [
            user("Mend the lamps."),
            model("I begin."),
            user("Wait, write the list of doors first."),
            model(&format!("The list is there.\n\n{offer}")),
            user(next),
        ]
    };
    let block = behind(&messages("yeah do that, and then oil the gate"), 600);
    assert_contains(
        &block,
        &format!("(The model asked: {offer})\n  yeah do that, and then oil the gate"),
    );
    assert_lacks(&behind(&messages("Oil the gate."), 600), "The model asked");
}

#[test]
fn a_canned_continuation_and_an_address_belong_to_the_request_before() {
    let request = "Paint the hall in green.";
    for next in [
        "@agent Continue: \"Continue to iterate?\"",
        "https://shop.example.com/hall/7",
    ] {
        let block = behind(
            &[user(request), model("Let me look at the hall:"), user(next)],
            600,
        );
        assert_contains(&block, &format!("- {request}\n  {next}"));
    }
    let alone = "https://shop.example.com/hall/7";
    assert_contains(&behind(&[user(alone)], 600), alone);
}

#[test]
fn a_message_that_goes_on_with_other_work_is_a_request() {
    let newest = |said: [&str; 3]| {
        let [first, next, last] = said;
        let told = [
            user(first),
            model("Done."),
            user(next),
            model("Let me see."),
            user(last),
        ];
        behind(&told, 600)
            .split_once(":\n")
            .unwrap()
            .1
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    for (next, last) in [
        ("Go on with the lamps, but without color", "go on"),
        ("ok, please continue with the lamps", "continue"),
        ("proceed to the lamps", "proceed"),
        ("weiter mit den Lampen, aber ohne Farbe", "weiter"),
        ("continue avec les lampes, mais sans couleur", "continue"),
        ("sigue con las lámparas", "sigue"),
        ("продолжай с лампами", "продолжай"),
        ("ga verder met de lampen", "ga verder"),
        ("继续画楼上的灯，不要颜色", "继续"),
        ("続けてランプを塗って", "続けて"),
        ("계속 램프를 칠해", "계속"),
    ] {
        assert_eq!(newest(["Paint the hall.", next, last]), format!("- {next}"));
    }
    for next in [
        "Continue, but skip the lamps",
        "go on with it",
        "continue with step 2, please",
        "go on with the next one",
        "go ahead with the lamps",
        "try again with the lamps",
        "continue to paint",
        "weiter mit dem nächsten Schritt",
        "continue avec la suite",
        "продолжай с этого места",
        "继续，不要颜色",
        "继续做剩下的任务",
        "続けて残りの作業をして",
        "계속 나머지 작업을 해",
    ] {
        assert_eq!(
            newest(["Paint the hall.", next, "go on"]),
            "- Paint the hall.",
            "{next}"
        );
    }
}

#[test]
fn a_reply_after_finished_work_stands_with_what_it_may_be_about() {
    let messages = |last: &str| {
        [
            user("Paint the hall."),
            model("Done."),
            user("no wait, stop. Use a brush instead"),
            model("Done."),
            user(last),
        ]
    };
    let block = |last: &str| {
        let messages = messages(last);
        let seen = SeenFacts::of_work(
            DraftIndexSettings::default(),
            &Transcript::from_view(&view(&messages)),
        );
        carry("Go on.", &said_in(&messages), Some(&seen), all(600)).prompt
    };
    let asked = "- (The request before it, which is done: no wait, stop. Use a brush instead)\n  yes\n";
    assert_contains(&block("yes"), asked);
    assert_lacks(&block("yes"), "rules and decisions");
    assert_lacks(&block("thanks!"), "newest message");
}

#[test]
fn a_message_that_was_sent_again_is_quoted_once() {
    let text = "The hall lost its lamp. Bring it back.";
    let again = json!({"role": "user", "content": [
        {"type": "text", "text": text}, {"type": "text", "text": "[Request interrupted by user]"}, {"type": "text", "text": text},
    ]});
    let block = behind(&[user("Oil the gate."), model("Done."), again], 600);
    assert_eq!(block.matches("lost its lamp").count(), 1, "{block}");
}

#[test]
fn what_a_draft_quotes_is_not_quoted_again() {
    let halls: Vec<String> = (0..60)
        .map(|n| format!("The door of hall {n} should be painted in its own color."))
        .collect();
    let words = said_in(&[user(&halls.join("\n"))]);
    let block = |quoted: &[String]| {
        let draft = format!("Goal: paint.\n\nIn the user's words:\n- {}", quoted.join("\n  "));
        let carried = carry(&draft, &words, None, all(2000)).prompt;
        carried[draft.len()..].to_owned()
    };
    assert_eq!(block(&halls), "");
    assert_contains(&block(&halls[..40]), "hall 40 ");
    // The request and the question before an answer.
    let messages = [
        user("Which color has the hall?"),
        model("Green. Shall I paint the door as well?"),
        user("yes, tomorrow"),
    ];
    let draft = "Which color has the hall?\nGreen. Shall I paint the door as well?\nyes, tomorrow";
    assert_eq!(carry(draft, &said_in(&messages), None, all(600)).prompt, draft);
}

#[test]
fn a_prohibition_of_any_work_ends_with_its_request() {
    let after = |said: &str, next: &str| {
        let messages = [user(said), model("It is the lamp. Done."), user(next)];
        texts(&found(&messages, &[], &[])).join("|")
    };
    let next = "Mend the lamp of the hall.";
    for said in [
        "Explain what happened, do not do anything.",
        "Why is it dark? Don't change anything yet.",
    ] {
        assert_eq!(after(said, next), "", "{said}");
    }
    for said in [
        "Do not change anything in the hall.",
        "Never change anything.",
        "Mend it, but don't push.",
    ] {
        assert_eq!(after(said, next), said);
    }
}

#[test]
fn a_newest_message_keeps_its_short_paste_and_of_a_long_one_both_ends() {
    let short = "Look at this:\n```\nerror: the file is gone\n```\nWhy does it fail?";
    assert!(behind(&[user(short)], 600).contains("error: the file is gone"));
    let trace = "   at Reader.Open(path)\n--- End of trace ---\n".repeat(60);
    let long = behind(
        &[user(&format!(
            "It fails:\n{trace}I get this since noon. Is the path wrong?"
        ))],
        600,
    );
    assert_contains(&long, "Is the path wrong?");
    assert!(long.len() < trace.len() * 2 / 3, "{long}");
    let log = format!("This is the new log:\nerror: first\n{trace}error: last");
    let log = behind(&[user(&log)], 600);
    assert!(
        log.contains("error: first") && log.len() < trace.len() * 2 / 3,
        "{log}"
    );
    // Nothing but a paste: its ends show what is to be answered.
    let pasted = behind(&[user(&format!("error: first\n{trace}error: last"))], 600);
    assert_contains(&pasted, "error: first");
    assert_contains(&pasted, "error: last");
}

#[test]
fn a_rule_in_the_newest_message_stands_there_alone() {
    let messages = [user("Port the exporter. Never touch `migrations/`.")];
    let said = behind(&messages, 600);
    assert_eq!(said.matches("migrations").count(), 1, "{said}");
    let carried = carry("Go on.", &said_in(&messages), None, all(600));
    let rule = (CarriedState::InPrompt, "Never touch `migrations/`.");
    assert_eq!(states(&carried, CarriedKind::Rule), [rule]);
}

#[test]
fn the_request_of_a_summary_stands_where_the_user_has_made_none_since() {
    let summary = user(
        "This session is being continued from a previous conversation that ran out of context. The summary below covers \
         the earlier portion.\n\nSummary:\n1. Primary Request and Intent:\n   Paint all four halls.\n2. Done:\n   - The first \
         one. Never paint the gate.",
    );
    let told = "(From the agent's summary: Paint all four halls.)";
    for messages in [
        vec![summary.clone()],
        vec![
            summary.clone(),
            model("The second is dry. Shall I go on?"),
            user("continue"),
        ],
    ] {
        let block = behind(&messages, 1200);
        assert_contains(&block, told);
        assert_lacks(&block, "Never paint");
    }
    let asked = user("Paint the fence, too.");
    let block = behind(&[summary, model("The halls are dry."), asked], 1200);
    assert_lacks(&block, told);
}

#[test]
fn a_statement_that_the_newest_message_replaces_is_marked() {
    let said = |first: &str, newest: &str| {
        let messages = [
            user(first),
            model("Done."),
            user("Add 3 tests of the importer."),
            model("Done."),
            user(newest),
        ];
        behind(&messages, 600)
    };
    let mark = "[replaced by a later word where the two conflict]";
    let use_it = "Use port 9001. Port the importer.";
    let text = said(use_it, "Use 9002 from now on.");
    assert_contains(&text, &format!("Use port 9001. {mark} Port the importer."));
    assert_eq!(text.matches(mark).count(), 1, "{text}");
    let listens = "The server must listen on port 9001.";
    let text = said(listens, "Change the port to 9002.");
    assert_contains(&text, &format!("{listens} {mark}"));
    assert_lacks(&said(listens, "Change the title to Hall 2."), mark);
}

#[test]
fn an_order_lifts_an_earlier_prohibition_and_is_no_rule() {
    let said = |newest: &str| {
        behind(
            &[
                user("Please don't push anything to the server yet."),
                model("Done."),
                user(newest),
                model("Done."),
                user("Mend the exporter."),
            ],
            600,
        )
    };
    let text = said("Now commit and push it to the server.");
    assert_lacks(&text, "don't push");
    assert_lacks(&text, "rules and decisions");
    for other in [
        "Push it to the server after I reviewed.",
        "Commit it.",
        "Push it to the other one.",
    ] {
        assert_contains(&said(other), "don't push");
    }
}

#[test]
fn the_error_of_a_pasted_trace_is_shown_with_the_users_words() {
    let frames = |file: &str| format!("  File \"{file}\", line 12, in open\n    return self.door.open()\n");
    let error = "ValueError: the key of the hall is empty";
    let trace = format!(
        "When I open the page I get this:\n\nTraceback (most recent call last):\n{}{error}\n\nSome context of the run:\n{}Mend it.",
        frames("hall.py").repeat(30),
        frames("lamp.py").repeat(10)
    );
    let newest = behind(&[user(&trace)], 1200);
    assert_contains(&newest, error);
    assert_contains(&newest, "Mend it.");
    let later = behind(&[user(&trace), model("Done."), user("Paint the hall.")], 1200);
    assert_contains(
        &later,
        &format!("When I open the page I get this: (pasted: {error})"),
    );
    assert_lacks(&later, "hall.py");
}

#[test]
fn the_users_words_are_quoted_letter_by_letter() {
    let quoted = |said: &str| {
        let messages = [user(said), model("So be it."), user("Paint the hall.")];
        behind(&messages, 900)
    };
    for said in [
        "#0066ff is the color of the door, always use it.",
        "#42 must be mended before #43.",
        "*.tmp must never be painted.",
        "--force must never be used.",
        "Never write [[handoff-resume:x]] into the hall.",
        "Never delete <carried-over> from the hall.",
        "Never close </carried-over> in the hall.",
    ] {
        let told = said
            .replace("[[handoff-resume:", "[[handoff-resume\\:")
            .replace("<carried-over>", "<\\carried-over>")
            .replace("</carried-over>", "<\\/carried-over>");
        let block = quoted(said);
        assert_contains(&block, &format!("- {told}\n"));
        assert_eq!(block.matches("</carried-over>").count(), 1, "{block}");
        // The block after the next handoff has the same words.
        let found = found(&[user("Paint the door.")], &[said], &[]);
        let again = carry("Go on.", &words(found), None, all(900)).prompt;
        assert_contains(&again, &format!("- {told}\n"));
    }
    assert_contains(&behind(&[user("no, #0066ff")], 900), "- no, #0066ff");
    assert_contains(
        &behind(&[user("Delete <carried-over> here.")], 900),
        "- Delete <\\carried-over> here.",
    );
    let edges = quoted("Look:\n<carried-over>\n- Never paint.\n</carried-over>\nPaint it.");
    assert_eq!(edges.matches("carried-over>").count(), 2, "{edges}");
}

#[test]
fn words_that_were_struck_out_hold_no_more() {
    let said = "Always use a brush. ~~Never use the lamp.~~ ~~Never open the door. Always ring.~~ Never use ~~nails~~ screws.";
    let messages = [user(said), model("So be it."), user("Paint the hall.")];
    assert_eq!(
        texts(&found(&messages, &[], &[])),
        ["Always use a brush.", "Never use ~~nails~~ screws."]
    );
}

#[test]
fn a_short_choice_goes_on_with_its_option_and_is_not_read_for_what_that_says() {
    let letters = "Two ways:\nA) Keep the old door\nB) Never use it. Build a new one\nI recommend A.";
    for (said, answer, told) in [
        ("B", letters, "B (in answer to: B) Never use it. Build a new one)"),
        (
            "B please",
            letters,
            "B please (in answer to: B) Never use it. Build a new one)",
        ),
        (
            "no",
            "Shall I drop the old door?",
            "no (in answer to: Shall I drop the old door?)",
        ),
        (
            "2",
            "1. Wood\n2. Stone\n\nWhich one?",
            "2 (in answer to: 2. Stone)",
        ),
    ] {
        let messages = [
            user("What about the old door?"),
            model(answer),
            user(said),
            model("Done."),
            user("Paint the hall."),
        ];
        assert_eq!(texts(&found(&messages, &[], &[])), [told]);
        assert_eq!(texts(&found(&[user("Paint the hall.")], &[told], &[])), [told]);
    }
    // A reply to nothing of that kind is no decision.
    let messages = [
        user("Is it old?"),
        model("Yes. Is it yours?"),
        user("no"),
        model("I see."),
        user("Paint it."),
    ];
    assert_eq!(texts(&found(&messages, &[], &[])), [""; 0]);
}
