//! The user's goal leads every document, and the first request of a conversation is kept whole.

use super::*;
use crate::handoffs::draft::{Prompts, carried, goal_of};

const GOAL: &str = "implement the importer next";

fn with_goal(focus: &str) -> DraftSpec<'_> {
    DraftSpec {
        focus,
        ..request(4000)
    }
}

/// A finished request, or one that is open with a to-do list.
fn exporter(is_done: bool) -> DraftIndex {
    let mut all = vec![user("Port the exporter. It must keep the public API.")];
    if is_done {
        all.push(model("Done: the exporter is ported, all tests pass."));
    } else {
        let todos = json!({"todos": [{"content": "Write the writer", "status": "in_progress"}]});
        all.extend(called("TodoWrite", todos, "ok"));
    }
    indexed(&all)
}

#[test]
fn a_document_without_a_model_begins_with_the_goal_and_its_step_and_tells_the_request_before_as_it_is() {
    let document = exporter(true).local(&with_goal(GOAL)).unwrap();
    let expected = "\
Goal: implement the importer next

## Task

Steps:
1. implement the importer next

## Context
Before this goal: 1 turn.

The request before this goal, done:
- Port the exporter. It must keep the public API. (turn 1)

Before this task the model ended with:
- Done: the exporter is ported, all tests pass. (turn 1)
";
    assert!(document.starts_with(expected), "{document}");
    let document = exporter(false).local(&with_goal(GOAL)).unwrap();
    let expected = "\
Goal: implement the importer next

## Task

Steps:
1. implement the importer next

## Context
Before this goal: 1 turn.

The request before this goal, open:
- Port the exporter. It must keep the public API. (turn 1)

To-do list before this goal, as last written:
- [in progress] Write the writer
";
    assert!(document.starts_with(expected), "{document}");
    assert!(!document.contains("the last open request"), "{document}");
}

#[test]
fn a_models_document_begins_with_the_goal() {
    let (index, prompts) = (exporter(true), Prompts::default());
    let document = index.completed("## Goal\nPort the exporter.", &with_goal(GOAL));
    let part = "Goal: implement the importer next\n\n## Goal\nPort the exporter.\n\n## Also known\n";
    assert_begins(&document, part);
    let part = "\n- The request before this goal (done): Port the exporter. It must keep the public API.\n";
    assert_contains(&document, part);
    assert_eq!(goal_of(&carried(&document)), Some(GOAL));
    let asked = [
        index.after_history(&with_goal(GOAL), &prompts),
        index.with_bundle(&with_goal(GOAL), &prompts).unwrap(),
    ];
    for asked in asked {
        assert_eq!(asked.matches(GOAL).count(), 1, "{asked}");
    }
}

#[test]
fn an_empty_goal_is_none() {
    let (index, prompts) = (exporter(false), Prompts::default());
    for empty in ["", " \n "] {
        let spec = with_goal(empty);
        let local = index.local(&spec).unwrap();
        let part = "## Task\nGoal (the last open request): Port the exporter.";
        assert_begins(&local, part);
        let stated = "Port the exporter. It must keep the public API.";
        assert_eq!(goal_of(&carried(&local)), Some(stated));
        let document = index.completed("## Goal\nPort it.", &spec);
        assert!(document.starts_with("## Goal\nPort it."), "{document}");
        assert_eq!(
            index.after_history(&spec, &prompts),
            index.after_history(&with_goal(""), &prompts)
        );
    }
}

/// Checks that the user's words do not count against the budget of the selection.
#[test]
fn a_long_goal_stands_there_whole_and_leaves_the_budget_as_it_is() {
    let (index, prompts) = (exporter(true), Prompts::default());
    let long = format!(
        "Port these:\n{}",
        "- importer_97 of the süd module\n".repeat(3_200)
    );
    assert!(long.len() > 100_000);
    let goal = format!("Goal: {}\n\n", long.trim());
    let spec = with_goal(&long);
    let local = index.local(&spec).unwrap();
    assert!(local.starts_with(&goal) && local.contains("\nSteps:\n1. Port these: - importer_97"));
    let rest = &local[goal.len()..];
    assert!(crate::handoffs::draft::tokens(rest) <= 4000, "{rest}");
    assert!(index.completed("## Goal\nx", &spec).starts_with(&goal));
    assert!(index.after_history(&spec, &prompts).ends_with(long.trim()));
    assert!(index.with_bundle(&spec, &prompts).unwrap().contains(long.trim()));
}

#[test]
fn a_credential_in_a_goal_is_left_out() {
    let (index, prompts) = (exporter(true), Prompts::default());
    let key = ["sk-ant-api03-", &"q7Xp2".repeat(18), "-AA"].concat();
    let goal = format!("deploy with {key} to the host");
    let texts = [
        index.local(&with_goal(&goal)).unwrap(),
        index.completed("## Goal\nx", &with_goal(&goal)),
        index.after_history(&with_goal(&goal), &prompts),
        index.with_bundle(&with_goal(&goal), &prompts).unwrap(),
    ];
    for text in texts {
        assert_contains(&text, "deploy with [redacted:");
        assert_lacks(&text, &key);
    }
}

#[test]
fn the_repositorys_state_is_in_what_a_model_is_asked_within_its_bound() {
    let index = exporter(true);
    let state = format!("## main\n{}", " M src/importer.rs\n".repeat(2_000));
    let spec = DraftSpec {
        repository: &state,
        ..request(0)
    };
    let asked = index.after_history(&spec, &Prompts::default());
    let (before, after) = asked.split_once("```\n").unwrap();
    let (state, _) = after.split_once("\n```").unwrap();
    assert_ends(before, "The repository now, as git reports it:\n");
    assert!(state.starts_with("## main\n M src/importer.rs\n"), "{state}");
    let tokens = crate::handoffs::draft::tokens(state);
    assert!((350..=410).contains(&tokens), "{tokens}");
}

/// The scope of the work in the user's words: 1,900 bytes after the first sentence.
fn scope() -> String {
    let items: String = (0..50)
        .map(|n| format!("- part {n:02} keeps its own format 0x{n:04x}\n"))
        .collect();
    let text = format!("Port these, and no others:\n{}", items.trim_end());
    assert!((1_800..2_000).contains(&text.len()), "{}", text.len());
    text
}

/// The document with unindented lines, for finding the first request in it.
fn flat(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_first_request_is_kept_whole() {
    let scope = scope();
    let task = [user(&scope), model("Working on part 00.")];
    let mut earlier = vec![user(&scope), model("Done, all of it.")];
    for n in 0..40 {
        earlier.push(user(&format!(
            "Now look at file {n}. It must never use more than {n} MB."
        )));
        earlier.push(model(&format!(
            "Decided to keep part {n} because it is small. The old way {n} did not work."
        )));
    }
    for messages in [&task[..], &earlier] {
        let index = indexed(messages);
        for goal in ["", GOAL] {
            let spec = DraftSpec {
                focus: goal,
                ..request(3000)
            };
            let texts = [
                index.local(&spec).unwrap(),
                index.bundle(&spec).unwrap(),
                index.completed("## Goal\nPort parts of formats.", &spec),
            ];
            for text in texts {
                assert!(flat(&text).contains(&scope), "{goal:?} {text}");
            }
        }
        // If a document quotes it, it is not repeated.
        let quoted = index.completed(&format!("## Goal\n{scope}"), &request(0));
        assert_eq!(flat(&quoted).matches(&scope).count(), 1, "{quoted}");
    }
}

/// Beyond a third of the budget the beginning is kept. If the required content leaves no room, a few words of it are.
#[test]
fn a_first_request_is_cut_where_it_is_longer_or_there_is_no_room() {
    let long = scope().repeat(3);
    let index = indexed(&[
        user(&long),
        model("Done."),
        user("And the docs?"),
        model("Written."),
    ]);
    let local = index.local(&request(3000)).unwrap();
    let (_, began) = local.split_once("It began with (done): ").unwrap();
    let (began, _) = began.split_once(" […]").unwrap();
    let tokens = crate::handoffs::draft::tokens(began);
    assert!((900..=1_100).contains(&tokens), "{tokens}: {began}");
    let small = index.local(&request(500)).unwrap();
    assert_contains(&small, "It began with (done): Port these, and no others:");
    assert!(crate::handoffs::draft::tokens(&small) <= 500, "{small}");
}

pub(super) fn local(messages: &[Value]) -> String {
    indexed(messages).local(&request(4000)).unwrap()
}

#[test]
fn the_goal_is_what_the_newest_message_asks() {
    let report = "The importer prints its progress on the wrong stream, and the log has it twice. ".repeat(4);
    for (message, goal) in [
        ("Great! Now write the exporter.", "Now write the exporter."),
        (
            "For the exporter:\nit loses the last line. Fix it.",
            "it loses the last line. Fix it.",
        ),
        (
            "Look at this error:\nthe last line is lost.",
            "Look at this error: the last line is lost.",
        ),
        (
            &*format!("{report}Find out since when, and fix it."),
            "Find out since when, and fix it.",
        ),
    ] {
        let local = local(&[user("Port it."), model("Done."), user(message)]);
        let line = format!("Goal (the last open request): {goal}\n");
        assert!(local.contains(&line), "{line}{local}");
    }
}

#[test]
fn a_request_after_a_closing_question_leaves_it_behind() {
    let local = local(&[
        user("Can you commit the exporter?"),
        model("It is committed. Shall I push it as well?"),
        user("Would it make sense to keep the config as code?"),
    ]);
    let (task, rest) = local.split_once("## Context").unwrap();
    assert!(!task.contains("commit the exporter"), "{local}");
    let (_, done) = rest
        .split_once("Earlier requests. They are done")
        .unwrap_or_default();
    assert!(
        done.contains("Can you commit the exporter?") || rest.contains("It began with (done)"),
        "{local}"
    );
}

#[test]
fn a_request_of_which_something_is_left_is_not_told_as_done() {
    let local = local(&[
        user("Port the reader."),
        model("Done."),
        user("Port the writer."),
        model("Done."),
        user("Port the parser."),
        model("The grammar is ported; the error paths are still missing."),
        user("Look at the docs."),
    ]);
    let (before, done) = local.split_once("Earlier requests. They are done").unwrap();
    assert!(!done.contains("Port the parser"), "{local}");
    let (_, left) = before
        .split_once("Earlier requests that may not be done")
        .unwrap();
    assert!(left.contains("Port the parser. (turn 3)"), "{local}");
}

#[test]
fn the_goal_is_the_last_of_the_messages_that_waited() {
    let content: Vec<Value> = ["Print the index.", "Now write the changelog.", "continue please"]
        .iter()
        .map(|text| json!({"type": "text", "text": text}))
        .collect();
    let local = local(&[json!({"role": "user", "content": content})]);
    assert_contains(&local, "Goal (the last open request): Now write the changelog.\n");
}

#[test]
fn a_first_request_that_states_nothing_else_is_one_of_the_finished_ones() {
    let long =
        "Look at the exporter, the importer, the reader, the writer and the pages about them. ".repeat(5);
    let after = [model("I did."), user("Now write the changelog.")];
    let only_asks = local(&[&[user(&long)], &after[..]].concat());
    let (live, done) = only_asks.split_once("Earlier requests. They are done").unwrap();
    assert!(
        done.contains(long.trim()) && !live.contains("importer"),
        "{only_asks}"
    );
    let states = local(&[&[user("Look at the exporter. It must stay small.")], &after[..]].concat());
    assert!(
        states.contains("It began with (done): Look at the exporter. It must"),
        "{states}"
    );
    let left = model("The reader is ported; the rest is still missing.");
    let left = local(&[
        user("Port the exporter. It must stay small."),
        left,
        user("Look at the docs."),
    ]);
    assert!(left.contains("It began with: Port the exporter."), "{left}");
}

#[test]
fn a_short_answer_goes_on_with_the_request_that_the_model_asked_about() {
    let answer = |text: &str| {
        local(&[
            user("Look at the importer."),
            model("I did."),
            user("Now copy the archive to the server, would that work?"),
            model(
                "It would. **Where is the key?**\n\nLook for it like this:\n1. Open the folder.\n2. Sort it.",
            ),
            user(text),
        ])
    };
    let goes_on = answer("D:\\keys\\old, in this folder");
    let (task, _) = goes_on.split_once("## Context").unwrap();
    assert!(
        task.contains("copy the archive") && task.contains("in this folder"),
        "{goes_on}"
    );
    let other = answer("Write a page about the server.");
    let (task, _) = other.split_once("## Context").unwrap();
    assert!(!task.contains("copy the archive"), "{other}");
}

#[test]
fn a_reply_goes_on_with_the_request_before_it() {
    for reply in ["ok, let's do this", "2", "Thanks!", "weiter"] {
        let local = local(&[
            user("Look at the importer."),
            model("I did."),
            user("Could the page be split?"),
            model("Two files would do."),
            user(reply),
        ]);
        let part = "## Task\nGoal (the last open request): Could the page be split?";
        assert_begins(&local, part);
    }
}

#[test]
fn a_question_about_the_request_before_it_keeps_that() {
    let report = "The importer reads binary archives as text.";
    let messages = |question: &str| {
        let mut all = vec![user("Look at the importer."), model("I did."), user(report)];
        all.extend(called("Edit", json!({"file_path": "reader.rs"}), "ok"));
        all.extend([model("Fixed."), user(question)]);
        all
    };
    let followed = local(&messages(
        "Can the importer not tell by itself that an archive is binary?",
    ));
    assert_contains(
        &followed,
        &format!(
            "newest first:
- {report} (turn 2)"
        ),
    );
    let wish = report.replace("reads", "should read");
    let mut wished = messages("Now write the changelog.");
    wished[2] = user(&wish);
    assert_contains(
        &local(&wished),
        &format!(
            "newest first:
- {wish} (turn 2)"
        ),
    );
    let other = local(&messages("Now write the changelog."));
    let part = "What they say of how to work holds:
- Look at the importer. (turn 1)";
    assert_contains(
        &other,
        &format!(
            "{part}
- {report} (turn 2)"
        ),
    );
}

#[test]
fn after_a_handoff_the_goal_is_that_of_its_prompt() {
    let prompt = "## Task\nGoal: port the parser to the new grammar.\n\nNever touch the API.";
    let settings = DraftIndexSettings {
        carry_overs: vec![prompt.to_owned()],
        ..DraftIndexSettings::default()
    };
    let view = view(&[user(prompt), model("I read the grammar.")]);
    let index = DraftIndex::from_transcript(settings, &Transcript::from_view(&view));
    let local = index.local(&request(4000)).unwrap();
    let part = "Goal (as stated before): port the parser to the new grammar.\n";
    assert_contains(&local, part);
}

#[test]
fn nothing_is_told_that_nobody_stated() {
    let local = local(&[
        user("Port the parser."),
        model("Let me look at the grammar first:"),
    ]);
    assert!(!local.contains("Steps:"), "{local}");
    let lines: Vec<&str> = local.lines().filter(|line| !line.is_empty()).collect();
    for pair in lines.windows(2) {
        assert!(
            !(pair[0].starts_with("## ") && pair[1].starts_with("## ")),
            "{local}"
        );
    }
    assert!(!lines.last().unwrap().starts_with("## "), "{local}");
}
