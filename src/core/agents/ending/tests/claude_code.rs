//! Ends of lines in Claude Code, which flags every exit code but 0.

use super::*;

#[test]
fn only_the_last_program_of_a_line_hides_its_exit_code() {
    for line in [
        "grep x y",
        "make && grep x y",
        "cd a && rg x",
        "[ -f a ]",
        "make list | grep x",
        "bash -c 'ls' | sudo grep x",
        "echo $(git log | grep x)",
        "grep -f - x <<'EOF'\na\nEOF",
        "git diff --exit-code",
        "git -C a grep x",
    ] {
        assert!(is_judged(line, ""), "{line}");
    }
    for line in [
        "mix test --seed 0",
        "npm run find",
        "git status",
        "git push",
        "git commit -q -m x",
        "git add -A && git commit -m 'find and test it'",
        "git commit -m \"Make room for the diff, if it's large\"",
        "grep x y; make",
        "for a in b; do test -f a && git commit -m x; done",
        "git commit -q -F - <<'EOF'\ngrep x\nEOF",
    ] {
        assert!(!is_judged(line, ""), "{line}");
    }
}

#[test]
fn what_a_search_found_shows_its_exit_code() {
    let reset = "Shell cwd was reset to /hall";
    for (line, output) in [
        ("grep -c lamp a.rs", "3"),
        ("cd hall && grep -rn lamp .", "a.rs:1: lamp"),
        ("find . -maxdepth 2 -name '*.rs'", ""),
        ("git diff --stat", ""),
    ] {
        assert!(!is_judged(line, output), "{line}");
    }
    for (line, output) in [
        ("grep -c lamp a.rs", "0"),
        ("grep lamp a.rs", "(Bash completed with no output)"),
        ("cd hall && grep lamp a.rs", reset),
        (
            "cd hall; grep lamp a.rs",
            "bash: line 1: cd: hall: No such file or directory",
        ),
        ("cat b.rs | grep lamp", "cat: b.rs: No such file or directory"),
        ("make && grep lamp a.rs", "make: *** [all] Error 1"),
        ("pnpm run tsc 2>&1 | grep -c error", "3"),
        ("grep -rL lamp hall", "hall/a.rs"),
        ("grep -q lamp a.rs", "a.rs: is odd"),
        ("find hall", "find: 'hall': No such file or directory"),
        ("find . -exec test -f {} +", "a"),
    ] {
        assert!(is_judged(line, output), "{line}: {output}");
    }
}

/// How each command of a line ended.
fn ends_of(command: &str, text: &str, failed: Option<i32>) -> Vec<RunEnd> {
    let line = Evidence {
        flag: Some(failed.is_some()),
        code: failed,
        silence_is_zero: failed.is_none() && !is_judged(command, text),
        ..evidence(command, text)
    }
    .decide();
    commands::runs(command).iter().map(|run| run.end(&line)).collect()
}

#[test]
fn without_a_flag_every_part_of_a_chain_passed() {
    use RunEnd::{Failed, Passed, Unknown};
    for line in [
        "git commit -q -m 'Add a page'",
        "git add a.md && git commit -q -m 'Add a page' && git log --oneline -2 | cat && git status --short",
        "git commit -q -m \"$(cat <<'EOF'\nAdd a page\nEOF\n)\" && git push origin main 2>&1 | tail -4",
        "cd a; grep x y\ngit add -A && git commit -q -m 'Add a page'",
        "git worktree add ../b -b b 2>&1",
    ] {
        assert_eq!(ends_of(line, "", None)[0], Passed, "{line}");
    }
    // The hooks of git may print anything.
    let hook = "test result: FAILED. 3 passed; 2 failed";
    assert_eq!(ends_of("git push", hook, None), [Passed]);
    for (line, expected) in [
        ("git commit -q -m x; ls", Unknown),
        ("git commit -q -m x && git log | grep x", Unknown),
        ("git commit -q -m x || true", Unknown),
    ] {
        assert_eq!(ends_of(line, "", None)[0], expected, "{line}");
    }
    // The hook's words look like those of a commit.
    let stopped = "[main 1a2b3c4] Add a page\npre-commit script failed (code 1)";
    let line = "git add a.md && git commit -m 'Add a page'";
    assert_eq!(ends_of(line, stopped, Some(1)), [Failed(Some(1))]);
    let pushed = "git commit -m 'Add a page' && git push";
    let rejected = "[main 1a2b3c4] Add a page\nTo a.git\n ! [rejected] main -> main (fetch first)";
    assert_eq!(ends_of(pushed, rejected, Some(1))[1], Failed(Some(1)));
    assert_eq!(
        ends_of("make lint && make test", "x", Some(2)),
        [Unknown, Unknown]
    );
}

#[test]
fn a_program_that_always_reports_its_failure_passed_without_a_word() {
    use RunEnd::{Failed, Passed, Unknown};
    let scripts =
        "bun run test 2>&1 | tail -4 && bun run lint 2>&1 | tail -3 && bun run typecheck 2>&1 | tail -3";
    let text = " 0 fail\nRan 9 tests\nChecked 2 files in 1ms. No fixes applied.\n$ tsc --noEmit";
    assert_eq!(ends_of(scripts, text, None), [Passed; 3]);
    let failed =
        "$ tsc --noEmit\na.ts(1,2): error TS2304: no\nerror: script \"typecheck\" exited with code 2";
    for (line, text, expected) in [
        ("bun run typecheck 2>&1 | tail -5", "$ tsc --noEmit", Passed),
        ("bun run typecheck 2>&1 | tail -5", failed, Failed(None)),
        ("bun run check.ts 2>&1 | tail -5", "x", Unknown),
        ("bun run typecheck 2>&1 | grep x", "", Unknown),
        ("bun run typecheck 2>&1 | head -5", "a\nb", Unknown),
        ("bun run typecheck | tail -5", "x", Unknown),
        ("pnpm --filter a test 2>&1 | tail -20", "ok", Passed),
        ("pnpm exec jest 2>&1 | tail -20", "ok", Unknown),
        ("pnpm eslint . 2>&1 | tail -20", "ok", Unknown),
        ("make lint 2>&1 | tail -3", "checked", Passed),
        ("make lint; ls", "checked\na b", Passed),
        (
            "make lint; ls",
            "make: *** [Makefile:3: lint] Error 1\na b",
            Failed(None),
        ),
        (
            "make lint; cat log",
            "make: *** [Makefile:3: lint] Error 1",
            Unknown,
        ),
        ("make lint 2>/dev/null; ls", "a b", Unknown),
        ("true || make lint; ls", "a b", Unknown),
        ("make lint 2>&1 | tail -3", "checked\n[output truncated]", Unknown),
        (
            "npm run typecheck 2>&1 | tail -5",
            "> a@1.0.0 typecheck\n> tsc --noEmit\n",
            Passed,
        ),
        (
            "npm run typecheck 2>&1 | tail -5",
            "> a@1.0.0 typecheck\n> ./check.sh\n",
            Unknown,
        ),
        (
            "npx tsc --noEmit 2>&1 | head -50",
            "Shell cwd was reset to /a",
            Passed,
        ),
        (
            "npx tsc --noEmit 2>&1 | tail -5",
            "(Bash completed with no output)",
            Passed,
        ),
        ("npx tsc --noEmit 2>&1 | grep -i quality", "", Unknown),
        ("go vet ./... 2>&1 | grep -i error", "", Unknown),
        ("mix compile 2>&1 | tail -5", "", Passed),
        (
            "make lint 2>&1 | tail -5",
            "bash: make: command not found",
            Failed(None),
        ),
        ("timeout 9 make lint 2>&1 | tail -5", "checked", Unknown),
        (
            "bunx biome check . 2>&1 | tail -5",
            "Checked 2 files in 1ms. No fixes applied.",
            Passed,
        ),
    ] {
        assert_eq!(ends_of(line, text, None)[0], expected, "{line}: {text}");
    }
    for (line, expected) in [
        ("git cherry-pick --abort; git reset -q --hard\nls", Passed),
        ("git cherry-pick --abort 2>/dev/null; ls", Unknown),
        ("test -f a && git reset -q --hard; ls", Unknown),
        ("git commit -q -m x; ls", Unknown),
        ("git rebase -q main 2>&1 | tail -3; git log --oneline", Passed),
        ("make lint; git log --oneline", Passed),
    ] {
        assert_eq!(ends_of(line, "a b", None)[0], expected, "{line}");
    }
    for complaint in [
        "Schwerwiegend: Tag 'v1' existiert bereits",
        "Please commit your changes\nAborting",
    ] {
        assert_eq!(ends_of("git tag v1; ls", complaint, None), [Unknown]);
    }
    assert_eq!(ends_of("git tag v1; true", "", None), [Passed]);
    assert_eq!(
        ends_of("git tag v1; ls", "fatal: tag 'v1' already exists\na", None),
        [Unknown]
    );
}

#[test]
fn in_powershell_the_last_program_decides() {
    use RunEnd::{Passed, Unknown};
    let ends = |line: &str, text: &str| -> Vec<RunEnd> {
        let end = LineEnd {
            is_of_last_program: true,
            ..silent(line, text).decide()
        };
        commands::runs(line).iter().map(|run| run.end(&end)).collect()
    };
    for (line, expected) in [
        (
            "Set-Location D:\\a; npm run build 2>&1 | Select-String 'x' | Select-Object -Last 3",
            vec![Passed],
        ),
        (
            "npm run themes | Select-String 'x'; npm run build | Select-String 'x'",
            vec![Unknown, Passed],
        ),
        (
            "npm run build; $size = (Get-Item a).Length; \"size: $([math]::Round($size))\"",
            vec![Passed],
        ),
        ("npm run build; \"on: $(git branch)\"", vec![Unknown]),
        ("npm run build; & \"C:\\a.exe\"", vec![Unknown]),
        ("npm run build 2>&1 | Select-Object -First 2", vec![Unknown]),
        ("npm run build 2>&1 | Select-Object -First 9", vec![Passed]),
    ] {
        assert_eq!(ends(line, "a\nb\nc"), expected, "{line}");
    }
    assert!(is_judged_in_powershell("findstr x a; npm run build"));
    assert!(!is_judged_in_powershell("npm run build | Select-String x"));
}
