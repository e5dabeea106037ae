//! Work that no message of the user begins: that of a teammate, and that after the agent's own summary.

use super::super::without_earlier;
use super::*;

fn local(messages: &[Value]) -> String {
    indexed(messages).local(&request(4000)).unwrap()
}

fn work() -> Vec<Value> {
    let mut all = called("Edit", json!({"file_path": "src/lexer.rs"}), "ok").to_vec();
    all.extend(ran("cargo test", "test result: ok. 3 passed; 0 failed"));
    all.extend(ran("cargo clippy", "Exit code 101\nerror: unused import"));
    all
}

#[test]
fn a_teammate_works_on_the_task_in_its_first_message() {
    let task =
        "<teammate-message teammate_id=\"lead\">\nPort the lexer.\nRun its tests.\n</teammate-message>";
    let mut all = vec![user(task)];
    all.extend(work());
    let report = "<teammate-message teammate_id=\"docs\">\nThe pages are written.\n</teammate-message>";
    all.extend([user(report), model("The lint is left.")]);
    let index = indexed(&all);
    let text = index.local(&request(4000)).unwrap();
    for part in [
        "Goal (as stated before): Port the lexer.",
        "Under way after 1 turn.",
        "- Port the lexer.\n  Run its tests. (turn 1)",
        "- `cargo test`: passed (turn 1, call 2)",
        "- `cargo clippy` (exit 101) (turn 1, call 3)",
        "- `src/lexer.rs` modified (turn 1, call 1)",
    ] {
        assert_contains(&text, part);
    }
    assert_lacks(&text, "teammate");
    let seen = index.seen();
    assert_eq!((seen.files.len(), seen.verification.len()), (1, 2));
    all.push(user("Now port the parser."));
    assert_contains(&local(&all), "Goal (the last open request): Now port the parser.");
}

#[test]
fn calls_before_the_users_first_text_are_told_and_belong_to_its_turn() {
    let mut all = vec![user("<system-reminder>\nBe brief.\n</system-reminder>")];
    all.extend(work());
    all.push(model("The lint is left."));
    let text = local(&all);
    assert_contains(&text, "- `src/lexer.rs` modified (turn 1, call 1)");
    all.push(user("Mend the lint."));
    let text = local(&all);
    assert_contains(&text, "Under way after 1 turn.");
    assert_contains(&text, "Goal (the last open request): Mend the lint.");
}

#[test]
fn after_a_summary_of_the_agent_the_goal_is_the_request_in_it() {
    let summary = "This session is being continued from a previous conversation that ran out of context. The summary below covers \
                   the earlier part.\n\nSummary:\n1. Primary Request and Intent:\n   Port all four readers.\n2. What was done:\n   \
                   - The CSV reader. All tests pass.";
    let mut all = vec![user(summary)];
    all.extend(ran("cargo test", "Exit code 101\nerror: mismatched types"));
    all.push(model("Looking at it."));
    let text = local(&all);
    assert_contains(&text, "Goal (as stated before): Port all four readers.\n");
    let seen = indexed(&all).seen();
    assert_eq!(seen.claims(&text).len(), 1);
    assert_eq!(seen.claims(&without_earlier(&text)), [], "older than the run");
    let untitled =
        "Another language model started to solve this problem. Here is its summary:\nPort the readers.";
    let text = local(&[user(untitled), model("Looking at it.")]);
    assert_contains(&text, "Goal (as stated before): Port the readers.\n");
}

#[test]
fn a_failure_without_code_or_directory_keeps_the_work_open() {
    let commit = ran("git add -A && git commit -m x", "The format check failed.");
    let mut test = ran("cd web && npm ci", "added 3 packages").to_vec();
    test.extend(ran("npm test", "Exit code 1\nTests: 1 failed, 3 passed, 4 total"));
    for (lines, risk) in [
        (
            failing(commit).to_vec(),
            "- **warn** failed: `git add -A && git commit -m x` (turn 1, call 1)",
        ),
        (test, "- **block** `npm test` ended with 1 in turn 1"),
    ] {
        let mut all = vec![user("Mend the client.")];
        all.extend(lines);
        all.push(model("I've completed the fix."));
        let index = indexed(&all);
        let text = index.local(&request(4000)).unwrap();
        assert_contains(&text, "Goal (the last open request): Mend the client.");
        assert_contains(&document(&index).markdown(), risk);
    }
}

#[test]
fn a_commit_does_not_act_on_a_terminal() {
    let mut all = vec![user("Port the lexer.")];
    all.extend(work());
    let spec = DraftSpec {
        repository: "Branch: main\n1a2b3c4 first\u{1b}[2J\u{1b}]0;title\u{7} subject",
        ..request(4000)
    };
    let text = indexed(&all).local(&spec).unwrap();
    assert_contains(&text, "first\\u{1b}[2J\\u{1b}]0;title\\u{7} subject");
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
}
