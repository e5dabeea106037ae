//! Lines of several checks: parts with a mark before their output, and closing lines of different kinds.

use super::*;

/// How the commands of a line without any code ended.
fn ends(line: &str, text: &str) -> Vec<RunEnd> {
    let end = evidence(line, text).decide();
    commands::runs(line).iter().map(|run| run.end(&end)).collect()
}

#[test]
fn a_part_with_a_mark_is_read_by_its_own_output() {
    use RunEnd::{Failed, Passed, Unknown};
    let line = "cd app; npx tsc --noEmit 2>&1 | head; echo \"== lint ==\"; npm run lint 2>&1 | tail -5; \
                echo '== tests =='; npm test 2>&1 | tail -3";
    let lint = "> app@1.0.0 lint\n> eslint .\n";
    let green = "Tests:       3 passed, 3 total";
    let text = |first: &str, last: &str| format!("{first}== lint ==\n{lint}== tests ==\n{last}");
    assert_eq!(ends(line, &text("", green)), [Passed, Passed, Passed]);
    let broken = "a.ts(3,4): error TS2304: Cannot find name 'x'.\n";
    assert_eq!(ends(line, &text(broken, green)), [Failed(None), Passed, Passed]);
    let red = "Tests:       1 failed, 2 passed, 3 total";
    assert_eq!(ends(line, &text("", red)), [Passed, Passed, Failed(None)]);
    // A mark is missing, or there twice.
    assert_eq!(
        ends(line, &format!("== lint ==\n{lint}")),
        [Unknown, Unknown, Unknown]
    );
    let twice = format!("== tests ==\n{}", text("", green));
    assert_eq!(ends(line, &twice)[0], Unknown);
}

#[test]
fn closing_lines_of_different_kinds_belong_to_different_checks() {
    use RunEnd::{Passed, Unknown};
    let both = "3 passed in 0.1s\nAll checks passed!";
    assert_eq!(
        ends("pytest -q | tail -1 && ruff check . | tail -1", both),
        [Passed, Passed]
    );
    assert_eq!(
        ends("pytest -q | tail -1; pytest b | tail -1; ruff check .", both)[..2],
        [Unknown, Unknown]
    );
    assert_eq!(
        ends(
            "pytest -q; git log --oneline -2",
            "3 passed in 0.1s\n1a2b3c4 Add a page"
        ),
        [Passed]
    );
    assert_eq!(ends("pytest -q; git log -2", "3 passed in 0.1s"), [Unknown]);
    // Maven words the success of a build like that of tests.
    assert_eq!(ends("mvn test; mvn package", "[INFO] BUILD SUCCESS")[0], Unknown);
    let jest = "> lint\n> eslint .\n\nTests:       3 passed, 3 total";
    assert_eq!(
        ends("npx tsc --noEmit && npm run lint && npm test", jest),
        [Passed, Passed, Passed]
    );
}

#[test]
fn a_command_that_checks_nothing_leaves_the_closing_lines_to_the_one_after_it() {
    use RunEnd::{Passed, Unknown};
    let passed = "> vitest run\n\n Test Files  7 passed (7)\n      Tests  22 passed (22)";
    for (before, expected) in [
        ("nvm use >/dev/null", Passed),
        ("rm -rf dist", Passed),
        ("docker compose up -d", Passed),
        ("npm ci", Passed),
        ("docker compose exec app pnpm test", Unknown),
        ("ssh host pnpm test", Unknown),
        ("cat last.log", Unknown),
        ("./run.sh", Unknown),
    ] {
        let line = format!("{before} && pnpm test");
        assert_eq!(ends(&line, passed).last(), Some(&expected), "{line}");
    }
}

#[test]
fn the_second_of_two_checks_is_not_blamed_for_the_first() {
    let text = "Tests:       1 failed, 2 passed, 3 total\nTests:       3 passed, 3 total";
    for line in [
        "(cd a && npm test); (cd b && npm test)",
        "(cd a && npm test)\n(cd b && npm test)",
    ] {
        let end = silent(line, text).decide();
        let ends: Vec<RunEnd> = commands::runs(line).iter().map(|run| run.end(&end)).collect();
        assert_eq!(ends, [RunEnd::Unknown, RunEnd::Unknown], "{line}");
    }
}

#[test]
fn git_reports_each_of_its_commands_without_a_code() {
    use RunEnd::{Failed, Passed, Unknown};
    let committed = "[main 1a2b3c4] Add a page\n 1 file changed, 2 insertions(+)\n create mode 100644 a.md";
    let lost = "fatal: could not read from the remote";
    for (line, text, expected) in [
        (
            "git add . && git commit -m a && git push",
            format!("{committed}\n{lost}"),
            vec![Passed, Unknown],
        ),
        ("cd a && git push", lost.to_owned(), vec![Failed(None)]),
        ("git push || git push -f", lost.to_owned(), vec![Unknown, Unknown]),
        (
            "git commit -m a | Select-Object -Last 1",
            " create mode 100644 a.md".to_owned(),
            vec![Passed],
        ),
        (
            "git merge b; git commit -m a | tail -1",
            " create mode 100644 a.md".to_owned(),
            vec![Unknown, Unknown],
        ),
        (
            "git push -u origin main 2>&1 | Select-Object -Last 4",
            "git : To https://example.com/a.git\n+ CategoryInfo : NotSpecified\n * [new branch] main -> main"
                .to_owned(),
            vec![Passed],
        ),
        (
            "git push | tail -1",
            "   1a2b3c4..2b3c4d5  main -> main".to_owned(),
            vec![Passed],
        ),
        (
            "git push | tail -1",
            " ! [rejected] main -> main (fetch first)".to_owned(),
            vec![Failed(None)],
        ),
        (
            "git worktree add w -b n; ls w",
            "HEAD is now at 1a2b3c4 Add it\na.md".to_owned(),
            vec![Passed],
        ),
        (
            "git worktree add w -b n; ls w",
            "fatal: 'w' already exists".to_owned(),
            vec![Failed(None)],
        ),
    ] {
        assert_eq!(ends(line, &text), expected, "{line}: {text}");
    }
}

#[test]
fn a_long_message_of_powershell_is_shortened() {
    let line = "git commit -m \"$(@'\nAdd a page\n\nAnd if so, more.\n'@)\"; git push";
    assert_eq!(
        commands::without_texts(line),
        "git commit -m \"Add a page\"; git push"
    );
}

#[test]
fn a_patch_is_no_command() {
    let patch = "apply_patch *** Begin Patch\n*** Update File: a.sh\n+cargo test\n*** End Patch";
    assert!(commands::runs(patch).is_empty());
}

#[test]
fn behind_a_tail_the_closing_lines_decide() {
    let ended = |line: &str, text: &str| {
        let end = Evidence {
            command: Some(line),
            flag: Some(false),
            code: None,
            silence_is_zero: true,
            text,
        }
        .decide();
        commands::runs(line)[0].end(&end)
    };
    let passed = "ok  \texample.com/a\t0.012s";
    let failed = "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/a\t0.012s\nFAIL";
    assert_eq!(ended("go test ./... 2>&1 | tail -5", passed), RunEnd::Passed);
    assert_eq!(
        ended("go test ./... 2>&1 | tail -5", failed),
        RunEnd::Failed(None)
    );
    assert_eq!(ended("go test ./... 2>&1 | tail -5", "PASS"), RunEnd::Unknown);
    // What shows all of the output decides as well, and what leaves out packages without tests.
    for all in [
        "tee out.txt",
        "tee -a out.txt | tail -3",
        "cat",
        "grep -v 'no test files'",
    ] {
        let line = format!("go test ./... 2>&1 | {all}");
        assert_eq!(ended(&line, passed), RunEnd::Passed, "{all}");
        assert_eq!(ended(&line, failed), RunEnd::Failed(None), "{all}");
    }
    for other in [
        "cat old.txt",
        "grep -v FAIL",
        "tee >(tail -1)",
        "head -3 | tee out.txt",
    ] {
        let line = format!("go test ./... 2>&1 | {other}");
        assert_eq!(ended(&line, passed), RunEnd::Unknown, "{other}");
    }
    let missing = "bash: line 1: pytest: command not found";
    assert_eq!(ended("pytest 2>&1 | tail -5", missing), RunEnd::Failed(None));
    // A stopped compiler is as silent as one that found nothing.
    assert_eq!(ended("npx tsc -b 2>&1 | tail -5", ""), RunEnd::Passed);
    assert_eq!(ended("timeout 9 npx tsc -b 2>&1 | tail -5", ""), RunEnd::Unknown);
    // The filter may have removed a failure.
    assert_eq!(ended("go test ./... 2>&1 | grep ok", passed), RunEnd::Unknown);
    assert_eq!(ended("go test ./... | tail -5; ./other", passed), RunEnd::Unknown);
    // Git runs no tests, but for its hooks.
    assert_eq!(
        ended("go test ./... | tail -5; git status", passed),
        RunEnd::Passed
    );
    assert_eq!(
        ended("go test ./... | tail -5; git commit -m x", passed),
        RunEnd::Unknown
    );
}

#[test]
fn the_goals_of_a_build_tool_may_follow_its_options() {
    let maven = "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE";
    let gradle = "> Task :app:test FAILED\n\nFAILURE: Build failed with an exception.\n\nBUILD FAILED in 3s";
    for (line, text) in [
        ("mvn -q test | tail -20", maven),
        ("mvn -B verify 2>&1 | tail -5", maven),
        ("./gradlew :app:test --info | tail", gradle),
    ] {
        assert_eq!(ends(line, text), [RunEnd::Failed(None)], "{line}");
    }
    let passed = "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS";
    assert_eq!(ends("mvn -B verify | tail -5", passed), [RunEnd::Passed]);
}
