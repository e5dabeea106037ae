//! Closing lines of programs for success and failure, and the precedence of contradictory evidence.

mod claude_code;
mod parts;

use std::sync::LazyLock;

use serde::Deserialize;

use super::exit_lines::RUNNERS;
use super::*;
use crate::agents::commands::CommandPurpose;
use crate::text::table;

/// A program, a command that runs it, and the end of its output for success and for failure.
#[derive(Deserialize)]
struct Closing {
    name: &'static str,
    command: &'static str,
    #[serde(default)]
    passed: &'static str,
    failed: &'static str,
}

static CLOSING: LazyLock<Vec<Closing>> = LazyLock::new(|| table::rows(include_str!("closing.toml")));

fn evidence<'e>(command: &'e str, text: &'e str) -> Evidence<'e> {
    Evidence {
        command: Some(command),
        flag: None,
        code: None,
        silence_is_zero: false,
        text,
    }
}

/// Returns how the first command of a line ended whose output reports its end.
fn end(evidence: &Evidence<'_>) -> RunEnd {
    let runs = commands::runs(evidence.command.unwrap());
    let run = runs.iter().find(|run| run.purpose.reports());
    run.unwrap_or_else(|| panic!("{evidence:?}"))
        .end(&evidence.decide())
}

/// A tool that omits exit code zero, such as Claude Code's `Bash`.
fn silent<'e>(command: &'e str, text: &'e str) -> Evidence<'e> {
    Evidence {
        flag: Some(false),
        silence_is_zero: true,
        ..evidence(command, text)
    }
}

#[test]
fn every_expression_is_one_and_every_program_has_its_closing_lines_here() {
    for runner in RUNNERS.iter() {
        let all = runner
            .opens
            .iter()
            .chain(&runner.passed)
            .chain(&runner.failed)
            .copied();
        // The search falls back to a slow one for a line that is not ASCII, whatever expression has such an edge.
        let has_slow_edge = |line: &str| line.replace(r"(?-u:\b)", "").contains(r"\b");
        assert!(!all.clone().any(has_slow_edge), "{}", runner.name);
        regex::RegexSet::new(all).unwrap_or_else(|why| panic!("{}: {why}", runner.name));
        let lines = CLOSING.iter().find(|closing| closing.name == runner.name);
        assert!(lines.is_some(), "{}", runner.name);
    }
    assert!(CLOSING.len() >= 60);
}

#[test]
fn a_run_is_never_passed_against_its_own_closing_lines() {
    for Closing {
        name,
        command,
        failed,
        ..
    } in CLOSING.iter()
    {
        // Only the text shows whether a missing exit code means zero or unknown.
        for evidence in [evidence(command, failed), silent(command, failed)] {
            assert_eq!(end(&evidence), RunEnd::Failed(None), "{name}: {evidence:?}");
        }
        let with = |code: i32, flag: Option<bool>| Evidence {
            code: Some(code),
            flag,
            ..evidence(command, failed)
        };
        assert_eq!(end(&with(0, None)), RunEnd::Unknown, "{name}: contradicted by 0");
        assert_eq!(end(&with(2, Some(true))), RunEnd::Failed(Some(2)), "{name}");
        for line in [
            format!("{command} 2>&1 | tail -20"),
            format!("{command} || true"),
            format!("{command}; echo done"),
        ] {
            for evidence in [
                silent(&line, failed),
                Evidence {
                    code: Some(0),
                    ..evidence(&line, failed)
                },
            ] {
                assert_eq!(end(&evidence), RunEnd::Failed(None), "{name}: {evidence:?}");
                assert_ne!(evidence.decide().failed, Some(false), "{name}: {evidence:?}");
            }
        }
        // Next to another command, the text may come from that command.
        let two = format!("{command} && ./other.sh");
        assert_eq!(
            end(&Evidence {
                code: Some(0),
                ..evidence(&two, failed)
            }),
            RunEnd::Unknown,
            "{name}"
        );
        let exit_line = format!("Exit code 101\n{failed}");
        assert_eq!(
            end(&silent(command, &exit_line)),
            RunEnd::Failed(Some(101)),
            "{name}"
        );
    }
}

#[test]
fn closing_lines_of_success_are_believed_where_nothing_contradicts_them() {
    for Closing {
        name,
        command,
        passed,
        ..
    } in CLOSING.iter()
    {
        assert_eq!(end(&silent(command, passed)), RunEnd::Passed, "{name}");
        let with = |code: i32| Evidence {
            code: Some(code),
            ..evidence(command, passed)
        };
        assert_eq!(end(&with(0)), RunEnd::Passed, "{name}");
        // Tests may pass and the run still fail, because of coverage or of a script after it.
        assert_eq!(end(&with(1)), RunEnd::Failed(Some(1)), "{name}");
        if passed.is_empty() {
            continue;
        }
        let of_command = commands::runs(command)[0].purpose;
        let mut runners = RUNNERS.iter();
        let of_program = runners.find(|runner| runner.name == *name).unwrap().purpose;
        if of_command == of_program {
            assert_eq!(end(&evidence(command, passed)), RunEnd::Passed, "{name}");
        }
        let flagged = Evidence {
            flag: Some(true),
            ..evidence(command, passed)
        };
        let written = format!("{passed}\n[exit code: 1]");
        if of_command == of_program {
            assert_eq!(end(&flagged), RunEnd::Unknown, "{name}");
            assert_eq!(end(&evidence(command, &written)), RunEnd::Unknown, "{name}");
        }
        // Output that is piped elsewhere or cut off is not evidence.
        for line in [format!("{command} | grep -v x"), format!("{command} || true")] {
            assert_eq!(end(&evidence(&line, passed)), RunEnd::Unknown, "{name}");
        }
        let early = format!("{passed}\n{}", "more output of the run\n".repeat(40));
        assert_eq!(end(&evidence(command, &early)), RunEnd::Unknown, "{name}");
    }
}

#[test]
fn what_was_cut_off_did_not_pass() {
    let passed = "test result: ok. 3 passed; 0 failed; 0 ignored";
    for (text, ended) in [
        (
            format!("{passed}\n(Command timed out after 120 s)"),
            RunEnd::Unknown,
        ),
        (
            format!("Command running in background with id 3\n{passed}"),
            RunEnd::Running,
        ),
        (
            "Chunk ID: a\nProcess running with session ID 7\nOriginal token count: 0\nOutput:\n".to_owned(),
            RunEnd::Running,
        ),
        (format!("{passed}\n[interrupted by the user]"), RunEnd::Unknown),
    ] {
        assert_eq!(end(&evidence("cargo test", &text)), ended, "{text}");
    }
}

#[test]
fn a_text_that_mentions_a_run_is_none() {
    let text =
        "Exit code 101\ntest result: FAILED. 3 passed; 2 failed\nmake: *** [all] Error 2\n[exit code: 2]";
    for line in [
        "cat build.log",
        "grep -rn 'test result' .",
        "git diff HEAD~1",
        "git log -p | head -50",
        "tail -50 ci.log",
        "cat README.md; ls",
        "gh run view 1 --log",
        "sed -n 1,20p notes.md",
    ] {
        let end = silent(line, text).decide();
        assert_eq!((end.code, end.failed), (Some(0), Some(false)), "{line}");
        let end = evidence(line, text).decide();
        assert_eq!(
            (end.code, end.failed, end.reads_failed),
            (None, None, false),
            "{line}"
        );
    }
    // Next to a printed file, the text may come from the file.
    assert_eq!(end(&silent("cargo test && cat old.log", text)), RunEnd::Passed);
    assert_eq!(end(&silent("cargo test; cat old.log", text)), RunEnd::Unknown);
    // A code that the line prints belongs to another command.
    let printed = silent("cargo test; echo \"exit code: $?\"", "x\nexit code: 101").decide();
    assert_eq!(printed.code, Some(0));
    assert_eq!(
        evidence("echo 'Exit code: 5'", "Exit code: 5").decide().code,
        None
    );
    // A failure in the text of an unknown tool is weak evidence.
    let unknown = Evidence {
        command: None,
        ..evidence("", "test result: FAILED. 1 passed; 1 failed")
    }
    .decide();
    assert_eq!((unknown.failed, unknown.reads_failed), (None, true));
}

#[test]
fn parts_and_reruns_are_distinguished() {
    let parts = "test result: FAILED. 1 passed; 1 failed; 0 ignored\n\ntest result: ok. 3 passed; 0 failed; 0 ignored";
    assert_eq!(ReportedResult::from_text(parts), ReportedResult::Failed);
    let again = "1 failed, 2 passed in 0.12s\n\n3 passed in 0.11s";
    assert_eq!(ReportedResult::from_text(again), ReportedResult::Mixed);
    assert_eq!(end(&silent("pytest", again)), RunEnd::Unknown);
    let coloured = "\u{1b}[1m\u{1b}[31mtest result: \u{1b}[0mFAILED. 1 passed; 1 failed;";
    assert_eq!(ReportedResult::from_text(coloured), ReportedResult::Failed);
    assert_eq!(
        ReportedResult::from_text("OK"),
        ReportedResult::Silent,
        "of what, nobody knows"
    );
    assert_eq!(
        ReportedResult::from_text("Ran 3 tests in 0.001s\n\nOK"),
        ReportedResult::Passed(CommandPurpose::Test)
    );
}

#[test]
fn plain_exit_codes_are_evidence_of_any_tool() {
    for (text, code) in [
        ("x\n[exit code: 3]", 3),
        ("x\nExit Code: 3", 3),
        ("x\nexit status 3", 3),
        ("Command 'make' returned non-zero exit status 3.", 3),
    ] {
        for command in [Some("make"), None] {
            let end = Evidence {
                command,
                ..evidence("", text)
            }
            .decide();
            assert_eq!(
                (end.code, end.failed),
                (Some(code), Some(true)),
                "{command:?} {text}"
            );
        }
    }
    let end = evidence("cargo test -p a", "x\nexit status 3").decide();
    assert_eq!(end.code, Some(3));
    let end = evidence("make", "x\n[exit code: 0]").decide();
    assert_eq!((end.code, end.failed), (Some(0), Some(false)));
    assert_eq!(
        evidence("go run .", "x\nexit status 3").decide().code,
        None,
        "the program's own"
    );
    // A tool that flags every failure did not flag this one.
    let end = silent("./deploy.sh", "x\nexit status 3").decide();
    assert_eq!((end.code, end.failed, end.reads_failed), (None, None, true));
}

#[test]
fn closing_lines_decide_behind_filters_and_behind_what_ran_before() {
    use RunEnd::{Failed, Passed, Unknown};
    let ok = "ok  \texample.org/a\t0.3s\nok  \texample.org/b\t(cached)";
    let bad = "ok  \texample.org/a\t0.3s\nFAIL\texample.org/b\t0.1s\nFAIL";
    for (command, text, expected) in [
        ("go test ./... 2>&1 | tail -5", ok, Passed),
        ("go test ./... 2>&1 | tail -5", bad, Failed(None)),
        ("go test ./... 2>&1 | grep -E '(ok|FAIL)' | head -20", ok, Passed),
        ("go test ./... 2>&1 | grep -E '(ok|FAIL)'", bad, Failed(None)),
        ("go test ./... 2>&1 | grep ok", ok, Unknown),
        ("go test ./... 2>&1 | grep -v FAIL", ok, Unknown),
        ("go test ./... 2>&1 | head -20", ok, Passed),
        ("go test ./... 2>&1 | head -2", ok, Unknown),
        ("go build ./... 2>&1 | head -20", "", Passed),
        ("go build ./... | head -20", "", Unknown),
        ("go build ./... 2>&1 | grep main", "", Unknown),
        (
            "go build ./... 2>&1 | head -20",
            "a.go:3:2: undefined: x",
            Failed(None),
        ),
        (
            "mise run fmt && mise run lint 2>&1 | tail -20",
            "[lint] $ golangci-lint run ./...\n0 issues.\n[fmt] $ gofmt -w .",
            Passed,
        ),
        (
            "mise run fmt && mise run lint 2>&1 | tail -20",
            "a.go:3:2: unused (unused)\n1 issues:\n* unused: 1",
            Unknown,
        ),
        (
            "mise run lint && mise run test 2>&1 | tail -20",
            &format!("0 issues.\n{ok}"),
            Passed,
        ),
        (
            "mise run lint && mise run test 2>&1 | tail -20",
            "a.go:3:2: unused (unused)\n1 issues:\n* unused: 1",
            Unknown,
        ),
    ] {
        assert_eq!(end(&silent(command, text)), expected, "{command}: {text}");
    }
    // The last command of each line.
    let last = |command: &str, text: &str| {
        let evidence = silent(command, text);
        let line = evidence.decide();
        commands::runs(command).last().unwrap().end(&line)
    };
    for (text, expected) in [
        (format!("0 issues.\n{ok}"), Passed),
        (format!("0 issues.\n{bad}"), Unknown),
    ] {
        assert_eq!(
            last("mise run lint && mise run test 2>&1 | tail -20", &text),
            expected,
            "{text}"
        );
    }
    assert_eq!(
        last("mise run fmt && mise run lint 2>&1 | tail -9", "0 issues."),
        Passed
    );
}

#[test]
fn a_commit_with_its_message_in_a_here_document_is_read_like_any_other() {
    let line = "git add a.rs && git commit -m \"$(cat <<'EOF'\nMend the reader\n\nIf the tests of `find` grep for \"x\", run sh.\nEOF\n)\" && git push";
    assert_eq!(
        commands::without_texts(line),
        "git add a.rs && git commit -m \"Mend the reader\" && git push"
    );
    let text = "[main 1f2e3d4] Mend the reader\n 1 file changed, 2 insertions(+)\nTo example.org:a.git\n   1a2b3c4..1f2e3d4  main -> main";
    for (line, text) in [
        (line, text),
        ("git commit --no-edit", "[main 1f2e3d4] Merge branch 'a'"),
        (
            "git fetch origin && git reset --hard origin/main",
            "HEAD is now at 1f2e3d4 Mend it",
        ),
    ] {
        assert!(!is_judged(line, ""), "{line}");
        assert_eq!(silent(line, text).decide().code, Some(0), "{line}");
    }
    for (line, short) in [
        (
            "git commit -F - <<'EOF' && git push\nMend it\n\nRun sh.\nEOF\ngit log -1",
            "git commit -F -  && git push\ngit log -1",
        ),
        ("cat > a.sh <<'EOF'\nrm b\nEOF", "cat > a.sh \n"),
        (
            "git commit -m \"Mend \\\"it\\\"\n\nIf so.\" && ls",
            "git commit -m \"Mend it\" && ls",
        ),
        (
            "gh pr create --body 'A\n`b`' -t x",
            "gh pr create --body 'A' -t x",
        ),
    ] {
        assert_eq!(commands::without_texts(line), short);
        assert_eq!(commands::without_texts(short), short);
    }
    for unclosed in [
        "git commit -m \"$(cat <<'EOF'\nMend it",
        "python3 - <<'EOF'\nprint(1)\nEOF",
        "git commit -m \"Mend $(date)\nit\"",
        "cat <<EOF > a.sh\nrm b\nEOF",
    ] {
        assert_eq!(commands::without_texts(unclosed), unclosed);
    }
}

/// How the first command of a line ended, with exit code 0 of the line.
fn first_after_zero(command: &str, text: &str) -> RunEnd {
    let end = Evidence {
        code: Some(0),
        ..evidence(command, text)
    }
    .decide();
    commands::runs(command)[0].end(&end)
}

#[test]
fn git_shows_its_success_in_a_line_whose_code_proves_nothing() {
    let pushed = "To https://example.com/a.git\n   1a2b3c4..2b3c4d5  main -> main\n## main";
    let committed = "[main 1a2b3c4] Add a page\n 1 file changed, 2 insertions(+)";
    for (command, text) in [
        ("git push origin main; git ls-remote | rg x || true", pushed),
        ("git commit -m 'Add a page'; git status", committed),
        (
            "git stash; make list || true",
            "Saved working directory and index state WIP on main",
        ),
    ] {
        assert_eq!(first_after_zero(command, text), RunEnd::Passed, "{command}");
    }
    for (command, text) in [
        (
            "git push; git status",
            " ! [rejected] main -> main (fetch first)\nTo a.git",
        ),
        ("git commit -m a; git commit -m b; true", committed),
        ("git commit -m a; git log -1 | cat", "commit 1a2b3c4"),
    ] {
        assert_eq!(first_after_zero(command, text), RunEnd::Unknown, "{command}");
    }
}

#[test]
fn a_script_whose_last_check_passes_has_not_failed() {
    let text =
        "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/a\t0.1s\n--- restored\nok  \texample.com/a\t0.2s";
    let twice =
        "cp a.go b && python3 - <<'PY'\nx\nPY\ngo test ./a | grep FAIL\ncp b a.go\ngo test ./a | tail -1";
    let end = silent(twice, text).decide();
    assert_eq!((end.failed, end.reads_failed), (Some(false), false));
    for (line, text) in [
        ("go test ./... | tail -5", text),
        (twice, "ok  \texample.com/a\t0.2s\n--- FAIL: TestA (0.00s)\nFAIL"),
    ] {
        assert!(silent(line, text).decide().reads_failed, "{line}");
    }
}
