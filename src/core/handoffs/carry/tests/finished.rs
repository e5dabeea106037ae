//! Tests of the user's words whose request is finished.

use super::said::{NEWEST, SAID, behind, said_in};
use super::*;
use crate::handoffs::draft;
use crate::handoffs::testing::{called, ran, view};
use crate::work::DraftIndexSettings;

#[test]
fn a_rule_that_was_said_with_a_finished_request_goes_on_with_it() {
    let asked = "Port the reader. Never touch `migrations/`.";
    let messages = [
        user(asked),
        model("Done: it is ported."),
        user("Now the exporter."),
    ];
    let seen = SeenFacts {
        finished: vec![SeenStatement {
            text: asked.to_owned(),
            turn: 1,
        }],
        ..SeenFacts::default()
    };
    let carried = carry("Go on.", &said_in(&messages), Some(&seen), all(600));
    let line = "- Never touch `migrations/`. [said with: Port the reader. That is done.]\n";
    assert!(carried.prompt.contains(line), "{}", carried.prompt);
    assert_eq!(
        EarlierWords::behind_prompt(&carried.prompt).rules,
        ["Never touch `migrations/`."]
    );
    // Without evidence that its request is done, a rule has no mark.
    let carried = carry("Go on.", &said_in(&messages), None, all(600));
    assert_contains(&carried.prompt, "- Never touch `migrations/`.\n");
}

#[test]
fn a_request_without_a_full_stop_gets_one_in_the_mark_of_its_rule() {
    let asked = "Never touch the door.\nPort the hall";
    let messages = [user(asked), model("Done."), user("Now the exporter.")];
    let seen = SeenFacts::of_work(
        DraftIndexSettings::default(),
        &Transcript::from_view(&view(&messages)),
    );
    let carried = carry("Go on.", &said_in(&messages), Some(&seen), all(600)).prompt;
    assert_contains(
        &carried,
        "- Never touch the door. [said with: Port the hall. That is done.]\n",
    );
    assert_eq!(
        EarlierWords::behind_prompt(&carried).rules,
        ["Never touch the door."]
    );
}

#[test]
fn earlier_requests_that_are_done_stand_apart() {
    let messages = [
        user("Look at the exporter."),
        model("I did."),
        user("Can you rename the columns? The staging host sits behind a proxy."),
        model("They are renamed."),
        user("Should the writer use the small format instead of the large one?"),
        model("It could."),
        user("Port the parser."),
        model("The grammar is ported; the error paths are still missing."),
        user("Now write the changelog."),
    ];
    let body = json!({"model": "m", "messages": messages}).to_string();
    let view = wire::wire(WireId::Anthropic)
        .read(&body.into(), Operation::Generate)
        .unwrap();
    let seen = SeenFacts::of_work(DraftIndexSettings::default(), &Transcript::from_view(&view));
    let carried = carry("Go on.", &said_in(&messages), Some(&seen), all(600));
    let block = carried.prompt.split_once("<carried-over>").unwrap().1;
    // A question that turns something down may hold, and so may a request of which something is left.
    let expected = format!(
        "\n{NEWEST}\n- Now write the changelog.\n{SAID}\n- Port the parser.\n- Should the writer use the small format instead of the \
         large one?\n- The staging host sits behind a proxy.\n{}\n- Can you rename the columns?\n- Look at the exporter.\n</carried-over>",
        draft::DONE
    );
    assert_eq!(block, expected);
    // The next handoff adds the list anew.
    let again = carry(&carried.prompt, &said_in(&messages), Some(&seen), all(600));
    assert_eq!(again.prompt, carried.prompt);
}

#[test]
fn a_statement_of_a_finished_request_is_not_told_as_done() {
    let (statement, request) = ("The names should fit the small screens.", "Shorten the names.");
    let messages = [
        user(&format!("{request} {statement}")),
        model("Done."),
        user("Now write the changelog."),
    ];
    let done = [statement, request].map(|text| SeenStatement {
        text: text.to_owned(),
        turn: 1,
    });
    let seen = SeenFacts {
        done_requests: done.to_vec(),
        ..SeenFacts::default()
    };
    let carried = carry("Go on.", &said_in(&messages), Some(&seen), all(600)).prompt;
    let (live, over) = carried.split_once(draft::DONE).unwrap();
    assert!(live.contains(statement) && !over.contains(statement), "{carried}");
    assert!(over.contains(request), "{carried}");
}

#[test]
fn a_request_that_may_be_open_comes_before_statements() {
    let asked = "Can you rename the columns?";
    let stated = (0..40).map(|n| format!("Hall {n} has a printer of its own, and its doors are green."));
    let mut messages = vec![user(asked), model("The columns are these.")];
    messages.extend(stated.flat_map(|text| [user(&text), model("I see.")]));
    messages.push(user("Now write the changelog."));
    let carried = carry("Go on.", &said_in(&messages), None, all(250)).prompt;
    assert_contains(&carried, asked);
    assert_contains(&carried, "has a printer of its own");
}

#[test]
fn a_report_that_a_request_is_not_done_stands_with_it() {
    let open = "Open the page in a new tab after the upload.";
    for report in [
        "It still opens in the same tab.",
        "same error",
        "Es geht immer noch nicht.",
        "还是不行",
    ] {
        let messages = [user(open), model("Done."), user(report)];
        let expected = format!("<carried-over>\n{NEWEST}\n- {open}\n  {report}\n</carried-over>");
        assert_eq!(behind(&messages, 600), expected);
    }
    let messages = [user(open), model("Done."), user("Now print the index again.")];
    assert_contains(
        &behind(&messages, 600),
        &format!("{NEWEST}\n- Now print the index again.\n{SAID}"),
    );
}

#[test]
fn a_step_that_later_work_makes_due_again_is_not_finished() {
    let edit = |path: &str| {
        called(
            "Edit",
            json!({"file_path": path, "old_string": "a", "new_string": "b"}),
            "updated",
        )
    };
    let mut messages = vec![user("Oil the north door."), model("It is oiled. Done.")];
    messages.splice(1..1, edit("/w/north.rs"));
    messages.push(user("Commit and push."));
    messages.extend(ran("git commit -am x && git push", "[main 1a2b3c4] x"));
    messages.push(model("Done."));
    let wrong = |messages: &[Value]| {
        let prompt = "Next:\n- Oil the north door.\n- Commit and push.";
        let view = view(messages);
        let seen = SeenFacts::of_work(DraftIndexSettings::default(), &Transcript::from_view(&view));
        let carried = carry(prompt, &said_in(messages), Some(&seen), all(600)).prompt;
        carried.lines().filter(|line| line.starts_with("- lists")).count()
    };
    assert_eq!(wrong(&messages), 2);
    // A later request that asks for it again, and later work.
    let mut again = messages.clone();
    again.push(user("Paint the south door, then commit and push."));
    assert_eq!(wrong(&again), 1);
    messages.push(user("Paint the south door."));
    messages.extend(edit("/w/south.rs"));
    assert_eq!(wrong(&messages), 1);
}
