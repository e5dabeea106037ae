use super::super::with_open_message;
use super::*;

fn local(messages: &[Value]) -> String {
    indexed(messages).local(&request(4000)).unwrap()
}

#[test]
fn a_document_lists_goal_runs_files_and_what_is_done() {
    let mut all = vec![
        user("Port the parser to Rust. It must stay under 3 MB."),
        model("Decided to use nom because it is small."),
    ];
    all.extend(ran(
        "cargo test",
        "Exit code 101\nerror[E0425]: cannot find value `x`",
    ));
    all.extend(ran("cargo test", "test result: ok. 3 passed; 0 failed"));
    all.push(model("Done: the parser is ported."));
    all.push(user("Now write the exporter."));
    all.extend(called(
        "TodoWrite",
        json!({"todos": [{"content": "Write the writer", "status": "in_progress"}]}),
        "ok",
    ));
    all.push(model("The writer goes into a file of its own."));
    all.extend(called(
        "Write",
        json!({"file_path": "src/writer.rs", "content": "x"}),
        "ok",
    ));
    all.extend(called("Read", json!({"file_path": "src/lib.rs"}), "a\nb"));
    all.extend(ran("cargo clippy", "Exit code 101\nerror: unused import"));
    let document = local(&all);
    let expected = "\
## Task
Goal (the last open request): Now write the exporter.

Steps:
1. Write the writer

In the user's words:
- Now write the exporter. (turn 2)

To-do list as last written:
- [in progress] Write the writer

What the model said last:
- The writer goes into a file of its own. (turn 2)

## Context
Under way after 2 turns.
It began with (done): Port the parser to Rust. It must stay under 3 MB.

Constraints:
- It must stay under 3 MB. (turn 1)

Decisions:
- Decided to use nom because it is small. (turn 1)

Before this task the model ended with:
- Done: the parser is ported. (turn 1)

## Operational context

Last runs:
- `cargo test`: passed (turn 1, call 2); files changed after it
- `cargo clippy`: **exit 101** (turn 2, call 6)

Failed, and not yet settled:
- `cargo clippy` (exit 101) (turn 2, call 6)
    > error: unused import

## Files
- `src/writer.rs` written (turn 2, call 4): The writer goes into a file of its own.

<read-files>
src/lib.rs
</read-files>
";
    pretty_assertions::assert_eq!(document, expected);
    assert_eq!(local(&all), document, "the same bytes");
}

#[test]
fn a_finished_request_is_not_open_and_a_question_keeps_it_open() {
    let finished = local(&[user("Add a flag."), model("Done, all tests pass.")]);
    assert_contains(&finished, "Nothing is open");
    assert_lacks(&finished, "Goal (the last open");
    let question = local(&[
        user("Add a flag."),
        model("Shall it be long or short?"),
        user("long"),
    ]);
    assert_contains(&question, "Goal (the last open request): Add a flag.");
}

#[test]
fn what_must_be_kept_and_does_not_fit_is_an_error_with_the_number() {
    let wishes: Vec<Value> = (0..200)
        .flat_map(|n| {
            [
                user(&format!("Do {n}. The limit of part {n} must stay at {n} bytes.")),
                model("Done."),
            ]
        })
        .collect();
    let index = indexed(&wishes);
    let error = index.local(&request(1000)).unwrap_err();
    assert!(error.needed > 1000 && error.given == 1000, "{error}");
    assert!(index.local(&request(error.needed)).is_ok());
    let error = index.bundle(&request(1000)).unwrap_err();
    assert!(index.bundle(&request(error.needed)).is_ok());
}

#[test]
fn files_with_credentials_are_never_quoted() {
    let words = "alpha-bravo-plain";
    let mut all = vec![user("Look at the config.")];
    all.extend(failing(called(
        "Read",
        json!({"file_path": "/app/.env.local"}),
        &format!("NAME={words}"),
    )));
    all.extend(ran(
        "cat tls/server.pem && false",
        &format!("Exit code 1\nerror: {words}"),
    ));
    let index = indexed(&all);
    for text in [
        index.local(&request(4000)).unwrap(),
        index.bundle(&request(8000)).unwrap(),
    ] {
        assert!(!text.contains(words), "{text}");
    }
}

#[test]
fn an_earlier_carry_over_is_no_request() {
    let settings = DraftIndexSettings {
        carry_overs: vec!["Goal: port the parser.".to_owned()],
        ..DraftIndexSettings::default()
    };
    let view = view(&[user("Goal: port the parser.\n\nNow go on."), model("Working.")]);
    let index = DraftIndex::from_transcript(settings, &Transcript::from_view(&view));
    let document = index.local(&request(4000)).unwrap();
    let part = "From an earlier session or summary:\n- Goal: port the parser.";
    assert_contains(&document, part);
    assert_contains(&document, "Goal (the last open request): Now go on.");
}

#[test]
fn what_an_earlier_carry_over_left_open_is_not_told_as_open() {
    let carried = with_open_message("Goal: port the parser.", "Port the lexer, too.");
    let settings = DraftIndexSettings {
        carry_overs: vec![carried.clone()],
        ..DraftIndexSettings::default()
    };
    let view = view(&[user(&carried), model("Both are ported."), user("Now the docs.")]);
    let index = DraftIndex::from_transcript(settings, &Transcript::from_view(&view));
    for document in [index.local(&request(4000)), index.bundle(&request(8000))] {
        let document = document.unwrap();
        assert!(document.contains("Port the lexer, too."), "{document}");
        assert!(!document.contains("still to be answered"), "{document}");
    }
}

#[test]
fn a_models_document_is_completed_with_what_it_lacks() {
    let mut all = vec![user("Port it. The cache_limit must stay at 37 entries.")];
    all.extend(ran(
        "cargo test -p exporter",
        "Exit code 101\nerror: symbol_q9 is missing",
    ));
    all.push(model("Blocked: the exporter needs symbol_q9."));
    all.push(user("Go on with the exporter."));
    let index = indexed(&all);
    let reply = "Port it. The cache_limit must stay at 37 entries. The exporter is blocked: `cargo test -p exporter` says that \
                symbol_q9 is missing (exit 101). The exporter needs symbol_q9; go on with it.";
    let spec = request(0);
    assert_eq!(index.completed(reply, &spec), reply);
    let lacking = index.completed("## Goal\nPort it.", &spec);
    assert!(lacking.contains("\n\n## Also known\n- "), "{lacking}");
    assert!(!lacking.contains("Nothing is said"), "{lacking}");
    assert_contains(&lacking, "cache_limit must stay at 37");
    assert_contains(&lacking, "symbol_q9 is missing");
    let also = &lacking[lacking.find("## Also known").unwrap()..];
    assert!(crate::handoffs::draft::tokens(also) <= 810);
    let quiet = DraftSpec {
        commands: false,
        ..spec
    };
    let quiet = index.completed("## Goal\nPort it.", &quiet);
    assert!(!quiet.contains("cargo test"), "{quiet}");
}

#[test]
fn presets_weigh_sections_where_there_is_not_room_for_all() {
    let mut all = Vec::new();
    for n in 0..40 {
        all.push(user(&format!("Do part {n}.")));
        all.extend(called(
            "Edit",
            json!({"file_path": format!("src/part_{n}.rs")}),
            "ok",
        ));
        all.extend(ran(&format!("cargo test -p part_{n}"), "ok"));
        all.push(model(&format!("Done. The old way {n} did not work.")));
    }
    let index = indexed(&all);
    let count = |preset: Preset, what: &str| {
        let made = index
            .local(&DraftSpec {
                preset,
                ..request(700)
            })
            .unwrap();
        made.matches(what).count()
    };
    assert!(count(Preset::Debug, "`cargo test -p") > count(Preset::Docs, "`cargo test -p"));
    assert!(count(Preset::Docs, "did not work") > count(Preset::Debug, "did not work"));
}

/// Checks that files which only the config names as secret are not quoted.
#[test]
fn files_that_the_config_calls_secret_are_not_quoted() {
    let line = "db_pass = hunter2-and-more";
    let mut messages = vec![user("Deploy it. It must stay up.")];
    messages.extend(called("Read", json!({"file_path": "infra/prod.tfvars"}), line));
    messages.extend(failing(ran("cat infra/prod.tfvars", &format!("error: {line}"))));
    messages.extend([model("Read."), user("And now?")]);
    let draft_of = |redactor: Redactor| {
        let settings = DraftIndexSettings {
            redactor,
            ..DraftIndexSettings::default()
        };
        let index = DraftIndex::from_transcript(settings, &Transcript::from_view(&view(&messages)));
        [
            index.local(&request(4000)).unwrap(),
            index.bundle(&request(4000)).unwrap(),
        ]
        .concat()
    };
    let patterns = ["*.tfvars".to_owned()];
    assert!(draft_of(Redactor::default()).contains("hunter2"));
    let quiet = draft_of(Redactor::default().with_secret_files(&patterns));
    assert_lacks(&quiet, "hunter2");
    assert_contains(&quiet, "infra/prod.tfvars");
}

/// Checks that baton's notice about the context does not count as the user's text.
#[test]
fn a_notice_of_our_own_is_not_the_users() {
    let notice = "<context-notice>\nThis notice comes from the session's proxy, not from the user. You must hand over.\n</context-notice>";
    let mut opening = user("Port it. It must stay small.");
    let part = json!({"type": "text", "text": notice});
    opening["content"].as_array_mut().unwrap().push(part);
    let messages = [opening, model("Ported."), user("Now the tests.")];
    let index = indexed(&messages);
    let texts = [
        index.local(&request(4000)).unwrap(),
        index.bundle(&request(4000)).unwrap(),
        index.completed("## Goal\nThe tests.", &request(0)),
    ];
    for text in texts {
        assert_lacks(&text, "notice");
        assert_lacks(&text, "must hand over");
    }
}

#[test]
fn of_more_failures_than_there_is_room_for_the_newest_are_kept() {
    let mut messages = vec![user("Port all of it.")];
    for n in 0..120 {
        let error =
            format!("error[E0277]: `Part{n}` is not Send, and neither is anything that holds one of them");
        messages.extend(called("run_thing", json!({"target": format!("part{n}")}), &error));
    }
    let index = indexed(&messages);
    for document in [
        index.local(&request(2500)).unwrap(),
        index.bundle(&request(2500)).unwrap(),
    ] {
        assert!(document.contains("`Part119`"), "{document}");
    }
}

/// Checks the notice inside a message that is one string.
#[test]
fn a_notice_after_a_users_text_is_not_quoted() {
    let notice = crate::nudge::text(5_000, Some(9_000), crate::nudge::NudgeWording::Numbers);
    let string = |text: &str| json!({"role": "user", "content": format!("{text}\n\n{notice}")});
    let document = local(&[
        string("Port the parser. It must stay under 3 MB."),
        model("Done: the parser is ported."),
        string("Now write the exporter."),
        model("The writer goes into a file of its own."),
    ]);
    assert!(document.contains("Now write the exporter."), "{document}");
    assert!(document.contains("It must stay under 3 MB."), "{document}");
    assert!(!document.contains("context-notice"), "{document}");
}
