use serde_json::json;

use super::*;
use crate::agents::commands::CommandPurpose;
use crate::agents::files::FileChange;
use crate::agents::todo::{self, TodoState};
use crate::handoffs::yaml::HandoffFile;
use crate::record::Handoff;
use crate::text::testing::{assert_begins, assert_contains, assert_ends};
use crate::work::{self, SeenFacts};

fn handoff(prompt: &str) -> Handoff {
    Handoff {
        id: "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11".parse().unwrap(),
        principal: "local".into(),
        conversation: "c0ffee".into(),
        prompt: prompt.into(),
        parent: Some("0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e10".parse().unwrap()),
        model: Some("claude".into()),
        created_ms: 1_732_272_000_123,
        history_bytes: 4096,
        ..Handoff::default()
    }
}

fn run(
    purpose: CommandPurpose,
    command: &str,
    exit: Option<i32>,
    stale: Option<bool>,
) -> work::SeenVerification {
    work::SeenVerification {
        purpose,
        command: command.into(),
        exit,
        passed: exit.map(|code| code == 0),
        turn: 3,
        call: 9,
        is_running: false,
        directory_unknown: false,
        stale,
    }
}

fn ran(command: &str, exit: Option<i32>) -> work::SeenCommand {
    let failed = exit.is_some_and(|code| code != 0);
    work::SeenCommand {
        command: command.into(),
        exit,
        turn: 2,
        call: 7,
        by_user: false,
        changes: false,
        ended: None,
        output: if failed {
            vec!["error: no".into(), "## not a heading".into()]
        } else {
            Vec::new()
        },
    }
}

fn full() -> SeenFacts {
    let stated = |text: &str| work::SeenStatement {
        text: text.into(),
        turn: 1,
    };
    SeenFacts {
        turns: 3,
        finished: Vec::new(),
        due_again: Vec::new(),
        done_requests: Vec::new(),
        verification: vec![
            run(CommandPurpose::Lint, "cargo clippy", Some(0), Some(true)),
            run(CommandPurpose::Test, "cargo test", Some(101), Some(false)),
        ],
        commands: vec![
            ran("cargo clippy", Some(0)),
            ran("cargo test", Some(101)),
            ran("ls `pwd`", None),
        ],
        files: vec![work::SeenChange {
            path: "src/a.rs".into(),
            change: FileChange::Modified,
            why: Some("The reader.".into()),
            turn: 2,
            call: 5,
        }],
        doubtful_files: Vec::new(),
        effects: Vec::new(),
        read: vec![stated("docs/plan.md"), stated("src/b.rs")],
        failures: vec![work::SeenFailure {
            command: "cargo test".into(),
            exit: Some(101),
            turn: 3,
            lines: vec!["error: no".into()],
            is_run: true,
            is_reported: true,
            is_certain: true,
            ..work::SeenFailure::default()
        }],
        todos_turn: 3,
        todos: vec![todo::TodoItem {
            text: "Write the parser".into(),
            state: TodoState::Active,
        }],
        questions: vec![stated("Which port?")],
        decisions: vec![stated("Decided to use SQLite.")],
        blockers: vec![stated("Blocked by the missing key.")],
        attempts: vec![stated("The cache did not work.")],
        assumptions: vec![stated("Assuming UTF-8.")],
        secrets: vec![stated(".env (environment file): read in turn 1; it worked")],
        services: vec![stated("docker compose up -d")],
        verdicts: vec![work::VerdictFile {
            path: "docs/review-1.md".into(),
            score: Some(65),
            missing: false,
        }],
        branch: Some("main".into()),
        good_commit: Some("1a2b3c4".into()),
        uncommitted: vec!["src/a.rs".into()],
    }
}

fn document(prompt: &str, seen: &SeenFacts) -> HandoffDocument {
    HandoffDocument::from_source(&HandoffSource {
        handoff: &handoff(prompt),
        seen,
        directory: Some("/home/ada/app"),
        checkout: None,
        is_unread: false,
        topic: None,
        exchange: Some("0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e00"),
        assumptions: &["presumably".to_owned(), "should be".to_owned()],
        context: Some(ContextTokens {
            used: 120_000,
            window: Some(200_000),
        }),
        bytes: HandoffSize {
            before: 8000,
            after: 400,
        },
        clean: &|text| text.replace("hunter2", "[redacted]"),
    })
}

#[test]
fn credentials_in_names_of_the_repository_are_redacted() {
    let mut seen = full();
    seen.branch = Some("b/hunter2".into());
    seen.uncommitted = vec!["f-hunter2.txt".into()];
    seen.files[0].path = "src/hunter2.rs".into();
    let made = document("Go on.", &seen);
    assert_eq!(made.branch, "b/[redacted]");
    let json = serde_json::to_string(&made).unwrap();
    assert!(!json.contains("hunter2"), "{json}");
    assert!(!HandoffFile::of_document(&made).to_yaml().contains("hunter2"));
}

const PROMPT: &str = "# Goal\nSkip BOMs in the importer (hunter2).\n\n## Done\nThe survey; all tests pass.\n\n\
    ## Next steps\n1. Edit src/a.rs\n2. See docs/plan.md\n\n## Open questions\n- Which files?\n- none of it\n```\n## x\n```";

#[test]
fn a_document_says_what_was_seen_and_what_was_only_claimed() {
    let made = document(PROMPT, &full());
    assert_eq!(made.summary, "Skip BOMs in the importer ([redacted]).");
    assert_eq!(made.next_action.as_deref(), Some("Edit src/a.rs"));
    assert_eq!(
        (made.kind, made.created_at.as_str()),
        (HandoffKind::Handoff, "2024-11-22T10:40:00Z")
    );
    assert_eq!(made.claims.len(), 1);
    assert_eq!(
        (made.claims[0].status, made.claims[0].text.as_str()),
        (work::ClaimStatus::Contradicted, "The survey; all tests pass.")
    );
    let risks: Vec<_> = made
        .open_risks
        .iter()
        .map(|risk| (risk.severity, risk.detail.as_str()))
        .collect();
    assert_eq!(
        risks[0],
        (Severity::Block, "`cargo test` ended with 101 in turn 3")
    );
    let warned = risks.iter().filter(|risk| risk.0 == Severity::Warn).count();
    // The blocker, the uncommitted files, the review, the contradicted claim.
    assert_eq!(warned, 4, "{risks:?}");
    assert_eq!(made.questions_for_human.len(), 2);
    assert_eq!(
        made.verdict_pointer.review.as_ref().unwrap().path,
        "docs/review-1.md"
    );
    let needed: Vec<_> = made
        .prerequisites
        .iter()
        .map(|one| (one.kind.name(), one.what.as_str()))
        .collect();
    assert_eq!(
        needed[1..],
        [
            ("file", "src/a.rs"),
            ("file", "docs/plan.md"),
            ("service", "docker compose up -d"),
            (
                "credentials",
                ".env (environment file): read in turn 1; it worked"
            )
        ]
    );
    assert_eq!((made.topic.as_str(), made.branch.as_str()), ("c0ffee", "main"));
    assert!(!made.json().contains("hunter2"));
}

#[test]
fn without_a_first_step_it_is_a_status_report_and_says_so() {
    let seen = SeenFacts {
        todos: full().todos,
        ..SeenFacts::default()
    };
    assert_eq!(
        document("All is said.", &seen).next_action.as_deref(),
        Some("Write the parser")
    );
    let made = document("All is said.", &SeenFacts::default());
    assert_eq!(
        (made.kind, made.next_action.as_deref()),
        (HandoffKind::StatusReport, None)
    );
    assert_contains(&made.markdown(), &format!("**{NO_NEXT_ACTION}**"));
}

#[test]
fn the_json_counts_and_validate_says_where_the_markdown_differs() {
    let made = document(PROMPT, &full());
    let (json, markdown) = (made.json(), made.markdown());
    assert_eq!(HandoffDocument::read(&json).unwrap().json(), json);
    assert_eq!(validate(&json, Some(&markdown)), []);
    let edited = markdown
        .replacen("- Which files?", "- Which file?", 1)
        .replace("Edit src/a.rs\n\n", "Edit src/b.rs\n\n");
    let found = validate(&json, Some(&edited));
    let fields: Vec<_> = found
        .iter()
        .map(|one| (one.field.as_str(), one.value.as_str()))
        .collect();
    assert_eq!(
        fields,
        [
            ("Next action", "Edit src/b.rs"),
            ("Questions for a human", "- Which file?")
        ]
    );
    let without = markdown.replace("\n## Decisions\n", "\n## Other\n");
    let found = validate(&json, Some(&without));
    assert_eq!(
        found.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(),
        ["Decisions", "Other"]
    );
    let report = json.replacen("\"kind\": \"handoff\"", "\"kind\": \"status_report\"", 1);
    assert_eq!(validate(&report, None)[0].field, "kind");
    assert!(validate("{}", None)[0].message.contains("version"));
}

#[test]
fn failures_are_kept_and_many_commands_are_counted() {
    let mut seen = SeenFacts {
        commands: (0..60)
            .map(|n| ran(&format!("run {n}"), Some(i32::from(n % 2 == 0))))
            .collect(),
        ..SeenFacts::default()
    };
    let made = document("x", &seen);
    assert_eq!((made.commands_run.len(), made.commands_left_out), (30, 30));
    assert!(
        made.commands_run
            .iter()
            .all(|run| run.exit == Some(1) && !run.output.is_empty())
    );
    seen.commands.retain(|ran| ran.exit == Some(0));
    let made = document("x", &seen);
    assert_eq!((made.commands_run.len(), made.commands_left_out), (5, 25));
    for (at, set) in [
        (
            0,
            work::SeenCommand {
                changes: true,
                ..ran("make migrate", Some(0))
            },
        ),
        (
            1,
            work::SeenCommand {
                by_user: true,
                ..ran("ls", Some(0))
            },
        ),
    ] {
        let mut seen = seen.clone();
        seen.commands[at] = set.clone();
        let first = &document("x", &seen).commands_run[0];
        assert_eq!((&first.command, first.by_user), (&set.command, set.by_user));
    }
    assert!(made.commands_run.iter().all(|run| run.output.is_empty()));
}

#[test]
fn every_document_fits_the_schema_and_the_schema_is_no_rubber_stamp() {
    let schema = serde_json::from_str(include_str!("../../../../docs/handoff.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut all = vec![
        document(PROMPT, &full()),
        document("x", &SeenFacts::default()),
        document("", &full()),
    ];
    let mut by_user = full();
    by_user.commands[0].by_user = true;
    all.push(document("x", &by_user));
    all.push(document("x", &full()).with_status(HandoffStatus::Archived));
    for document in all {
        let json = serde_json::from_str(&document.json()).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&json)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        for (member, value) in [
            ("status", json!("open")),
            ("next_action", json!(3)),
            ("more", json!(1)),
            ("version", json!(2)),
            ("parent", json!("x")),
        ] {
            let mut wrong = json.clone();
            wrong[member] = value;
            assert!(!validator.is_valid(&wrong), "{member}");
        }
    }
}

#[test]
fn a_document_that_was_stored_still_says_where_each_call_is() {
    let stored = HandoffDocument::read(&document("x", &full()).json()).unwrap();
    let markdown = stored.markdown();
    for place in [
        "`cargo test`: **exit 101** (turn 3, call 9)",
        "`src/a.rs` modified (turn 2, call 5)",
        "`cargo test`: **exit 101** (turn 2, call 7)",
        "`cargo test` (turn 3): error: no",
    ] {
        assert!(markdown.contains(place), "{place} in {markdown}");
    }
}

#[test]
fn the_same_handoff_and_transcript_make_the_same_bytes() {
    let (one, two) = (document(PROMPT, &full()), document(PROMPT, &full()));
    assert_eq!((one.json(), one.markdown()), (two.json(), two.markdown()));
}

#[test]
fn assumptions_of_the_prompt_are_listed_once() {
    let prompt = "# Goal\nShip it. Presumably the port is free.\n\n## Assumptions\n- The cache should be warm.\n- CI runs on Linux\n\n\
        ## Next\n1. Deploy\n";
    let document = document(prompt, &SeenFacts::default());
    let assumed: Vec<_> = document
        .assumptions_to_validate
        .iter()
        .map(|stated| (stated.text.as_str(), stated.turn))
        .collect();
    assert_eq!(
        assumed,
        [
            ("The cache should be warm.", 0),
            ("CI runs on Linux", 0),
            ("Presumably the port is free.", 0)
        ]
    );
}

/// A draft without a model appends the turn to each sentence that was seen there.
#[test]
fn a_sentence_stands_once_after_a_draft_without_a_model() {
    let prompt = "<handoff-context>\nGoal: port the importer\n\n## Task\n\nSteps:\n1. port the importer\n\n## Context\n\nDecisions:\n\
        - Decided to use SQLite. (turn 1)\n- Decided to keep CSV (RFC 4180). (turn 2)\n\n## Notes\n\nBlockers:\n\
        - Blocked by the missing key. (turn 1)\n\nTaken for granted, not confirmed:\n- Assuming UTF-8. (turn 1)\n\
        - The port should be free (turn 2)\n</handoff-context>\n";
    let made = document(prompt, &full());
    let stated = |all: &[work::SeenStatement]| -> Vec<(String, usize)> {
        all.iter()
            .map(|stated| (stated.text.clone(), stated.turn))
            .collect()
    };
    let decisions = [
        ("Decided to use SQLite.", 1),
        ("Decided to keep CSV (RFC 4180).", 2),
    ];
    assert_eq!(
        stated(&made.decisions),
        decisions.map(|(text, turn)| (text.to_owned(), turn))
    );
    let assumed = [("Assuming UTF-8.", 1), ("The port should be free", 2)];
    assert_eq!(
        stated(&made.assumptions_to_validate),
        assumed.map(|(text, turn)| (text.to_owned(), turn))
    );
    let blocked = made
        .open_risks
        .iter()
        .filter(|risk| risk.detail.contains("missing key"));
    assert_eq!(blocked.count(), 1, "{:?}", made.open_risks);
    let (above, _) = made
        .markdown()
        .split_once("## Carry-over prompt")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert_eq!(above.matches("Decided to use SQLite.").count(), 1, "{above}");
    assert_eq!(made.summary, "port the importer");
    assert_eq!(made.next_action.as_deref(), Some("port the importer"));
}

/// If a model wrote no step, the goal is the next action, and not the to-do list of earlier work.
#[test]
fn a_goal_comes_before_the_to_do_list_of_the_work_before() {
    let prompt = "<handoff-context>\nGoal: port the importer\n\n## Progress\nx\n</handoff-context>\n";
    let made = document(prompt, &full());
    assert_eq!(made.next_action.as_deref(), Some("port the importer"));
}

#[test]
fn a_step_that_a_draft_only_quotes_is_not_the_next_action() {
    let quoting = |goal: &str| {
        let prompt = format!(
            "<handoff-context>\n## Task\n{goal}: Port the reader.\n\nWhat the model said last:\n- Next: write the docs. \
             (turn 2)\n\n## Context\nTwo turns.\n\nFrom an earlier session or summary:\n- Goal: skip BOMs.\n  ## Next \
             steps\n  - See a.md\n  Next: reader.rs. (turn 1)\n</handoff-context>\n"
        );
        let made = document(&prompt, &SeenFacts::default());
        (made.summary, made.next_action)
    };
    assert_eq!(quoting("Last goal (done)"), ("Two turns.".to_owned(), None));
    let open = "Port the reader.".to_owned();
    let (summary, next) = quoting("Goal (the last open request)");
    assert_eq!((summary, next), (open.clone(), Some(open)));
}

#[test]
fn nine_stale_builds_are_one_risk() {
    let build = |n: usize| {
        run(
            CommandPurpose::Build,
            &format!("cargo build -p part{n}"),
            Some(0),
            Some(true),
        )
    };
    let seen = SeenFacts {
        verification: (0..9).map(build).collect(),
        ..SeenFacts::default()
    };
    let risks = document("x", &seen).open_risks;
    assert_eq!(risks.len(), 1, "{risks:?}");
    let detail = &risks[0].detail;
    let part = "files changed after `cargo build -p part8` passed in turn 3, `cargo build -p part7` passed";
    assert_begins(detail, part);
    assert_ends(detail, "`cargo build -p part1` passed in turn 3, and 1 more");
}

#[test]
fn what_stands_behind_a_prompt_is_in_none_of_its_sections() {
    let plain = "# Goal\nIt.\n\n## Decisions\n- SQLite.";
    let behind = "<carried-over>\nThe user's rules and decisions, quoted word for word. They hold unless the text above says otherwise:\n- Never \
                  push.\n</carried-over>";
    let made = document(&format!("{plain}\n\n{behind}"), &full());
    assert!(made.prompt.ends_with(behind));
    let without = HandoffDocument {
        prompt: plain.to_owned(),
        ..made
    };
    assert_eq!(without, document(plain, &full()));
}
