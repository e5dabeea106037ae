use super::*;

fn commands_of(line: &str) -> Vec<(CommandPurpose, &str, bool, bool)> {
    let runs = runs(line).into_iter();
    runs.map(|run| (run.purpose, run.text, run.good_if_zero, run.bad_if_not))
        .collect()
}

#[test]
fn an_exit_code_is_reported_only_for_its_own_command() {
    use CommandPurpose::{Build, Git, Lint, Test};
    assert_eq!(commands_of("cargo test"), [(Test, "cargo test", true, true)]);
    assert_eq!(
        commands_of("cd app && npm test -- --run"),
        [(Test, "npm test -- --run", true, true)]
    );
    assert_eq!(
        commands_of("cargo test 2>&1 | tail -5"),
        [(Test, "cargo test 2>&1", false, false)]
    );
    assert_eq!(
        commands_of("cargo test || true"),
        [(Test, "cargo test", false, false)]
    );
    assert_eq!(
        commands_of("cargo test; echo done"),
        [(Test, "cargo test", false, false)]
    );
    assert_eq!(commands_of("cargo test &"), [(Test, "cargo test", false, false)]);
    assert_eq!(
        commands_of("cargo build && cargo test"),
        [
            (Build, "cargo build", true, false),
            (Test, "cargo test", true, false)
        ]
    );
    assert_eq!(
        commands_of("cargo clippy; git commit -m 'a && b'\n"),
        [
            (Lint, "cargo clippy", false, false),
            (Git, "git commit -m 'a && b'", true, true)
        ]
    );
    assert_eq!(commands_of("cat > a <<'EOF'\ncargo test\nEOF"), []);
    assert_eq!(commands_of("echo \"cargo test\""), []);
}

#[test]
fn commands_that_change_no_file_are_distinguished_from_those_that_may() {
    for line in [
        "ls -la && cat a | head -5",
        "cargo test 2>&1 | tail -20",
        "cd app && npm test >/dev/null",
        "git status; git diff --stat",
        "git add -A && git commit -m 'x'",
        "cargo fmt --check",
        "sed -n 1,20p a.rs",
        "find . -name '*.rs'",
        "git branch --show-current",
        "npm test -w web",
        "git -C app status",
        "",
    ] {
        assert!(is_read_only(line), "{line}");
    }
    for line in [
        "echo x > a",
        "cat a >> b",
        "cargo fmt",
        "eslint --fix .",
        "sed -i s/a/b/ x",
        "sed -i.bak s/a/b/ x",
        "find . -delete",
        "git checkout main",
        "git stash",
        "git branch new",
        "ls $(touch a)",
        "python build.py",
        "./scripts/check.sh",
        "make migrate",
        "rm a",
        "cat <<EOF",
        "npm install",
        "cargo test | tee log",
    ] {
        assert!(!is_read_only(line), "{line}");
    }
    let purpose = |line: &str| runs(line).first().map(|run| run.purpose);
    assert_eq!(purpose("git checkout release/1.2"), purpose("git checkout main"));
    for line in ["git checkout a.md", "git checkout .", "git checkout main -- a"] {
        assert_ne!(purpose(line), purpose("git checkout main"), "{line}");
    }
    let all = runs("cd app && cargo test; cd ../b && cargo test && cargo fmt");
    assert_eq!(
        all.iter().map(|run| &*run.directory).collect::<Vec<_>>(),
        ["app", "b", "b"]
    );
    assert_eq!(
        all.iter().map(|run| run.changes_after).collect::<Vec<_>>(),
        [true, true, false]
    );
}

#[test]
fn commands_are_recognised_after_prefixes_and_in_other_spellings() {
    for (line, purpose) in [
        (
            "RUST_LOG=debug timeout 60 cargo +nightly test",
            CommandPurpose::Test,
        ),
        ("./gradlew test", CommandPurpose::Test),
        ("python3 -m pytest -q", CommandPurpose::Test),
        ("uv run pytest", CommandPurpose::Test),
        ("pnpm lint", CommandPurpose::Lint),
        ("yarn build", CommandPurpose::Build),
        ("npx tsc --noEmit", CommandPurpose::Lint),
        ("npx prisma migrate dev", CommandPurpose::Migrate),
        ("npm i zod", CommandPurpose::Install),
        ("nice -n 8 cargo nextest run", CommandPurpose::Test),
        ("make", CommandPurpose::Build),
        ("make test-unit", CommandPurpose::Test),
        ("make migrate", CommandPurpose::Migrate),
        ("npm run db:seed", CommandPurpose::Change),
        ("yarn db:seed", CommandPurpose::Change),
        ("./manage.py migrate", CommandPurpose::Migrate),
        ("cargo xtask ci", CommandPurpose::Script),
        ("vendor/bin/phpunit", CommandPurpose::Test),
        ("pnpm --filter @shop/web test", CommandPurpose::Test),
        ("pnpm -F web run build", CommandPurpose::Build),
        ("pnpm --filter web exec tsc --noEmit", CommandPurpose::Lint),
        ("pnpm -w lint", CommandPurpose::Lint),
        ("pnpm -r test", CommandPurpose::Test),
        ("pnpm vitest run", CommandPurpose::Test),
        ("npm -w web test", CommandPurpose::Test),
        ("npm run test --workspace web", CommandPurpose::Test),
        ("npm -g install jq", CommandPurpose::Install),
        ("yarn workspace web build", CommandPurpose::Build),
        ("yarn jest", CommandPurpose::Test),
        ("git -C app commit -m x", CommandPurpose::Git),
        ("mix format --check-formatted", CommandPurpose::Lint),
        ("bash -n run.sh", CommandPurpose::Lint),
        ("npx turbo run test", CommandPurpose::Test),
        ("mvn -q test", CommandPurpose::Test),
        ("./mvnw -B clean verify", CommandPurpose::Test),
        ("mvn -q verify -DskipTests", CommandPurpose::Build),
        ("./gradlew :app:test --info", CommandPurpose::Test),
        ("terraform -chdir=infra apply", CommandPurpose::Change),
        ("kubectl -n prod apply -f k8s/", CommandPurpose::Change),
        ("npm publish", CommandPurpose::Change),
        ("psql shop -c 'drop table users'", CommandPurpose::Change),
        ("helm upgrade web ./chart", CommandPurpose::Change),
        ("docker push shop/web:1", CommandPurpose::Change),
        ("gh pr merge 12 --squash", CommandPurpose::Change),
    ] {
        assert_eq!(runs(line).first().map(|run| run.purpose), Some(purpose), "{line}");
    }
    for line in [
        "kubectl apply --dry-run=client -f k8s/",
        "npm publish --dry-run",
        "psql shop -c 'select * from updates'",
        "mysql -e 'show create table users'",
        "gh pr view 12",
    ] {
        assert_eq!(runs(line), [], "{line}");
    }
    for line in [
        "ls -la",
        "cargo --version",
        "npx jest --listTests",
        "BROWSER=\"/opt/A B/build.sh\"",
        "npm run",
        "git status",
        "git log -5",
        "git tag",
        "git tag 2>/dev/null",
        "git tag -l 'v1*'",
        "git tag --sort=-creatordate",
        "git tag --contains 1a2b3c4",
        "git -C app tag -l",
        "git push --dry-run origin main",
        "git push -n",
        "git stash list",
        "git stash show -p",
        "git branch --list",
        "git worktree list",
        "git fetch --dry-run",
        "git commit --dry-run",
        "git remote -v",
        "",
    ] {
        assert_eq!(runs(line), [], "{line}");
        assert!(
            is_read_only(line)
                || matches!(line, "cargo --version" | "npm run")
                || line.starts_with("BROWSER"),
            "{line}"
        );
        assert_eq!(undone_paths(line), Vec::<String>::new(), "{line}");
    }
    for line in [
        "git tag v1",
        "git tag \"$NAME\"",
        "git tag -a v1 -m 'as --list shows'",
        "git stash",
        "git stash push -m list",
        "git push origin main",
        "git cherry-pick -n 1a2b3c4",
    ] {
        assert_eq!(
            runs(line).first().map(|run| run.purpose),
            Some(CommandPurpose::Git),
            "{line}"
        );
    }
}

#[test]
fn a_loop_and_a_branch_prove_nothing_about_a_command_in_them() {
    let line = "for c in a b; do\n  git cherry-pick $c\n  make check\ndone\nmake lint";
    assert_eq!(
        commands_of(line),
        [(CommandPurpose::Lint, "make lint", true, true)]
    );
    let branch = "if test -f a; then\n  if test -f b; then\n  make\n  fi\n  make check\nfi";
    assert_eq!(commands_of(branch), []);
}

#[test]
fn a_question_that_fails_is_an_answer() {
    for line in [
        "command -v jq",
        "which jq",
        "test -f a.txt",
        "[ -d build ]",
        "ls missing",
        "cd app && sed -n '1,9p' a.rs",
        "cat a.txt",
        "Get-Content a.txt",
        "make list | grep x",
        "gh pr checks 7 2>&1",
        "git log --oneline",
        "npx deploy --help",
        "docker ps",
        "sudo -n true",
        "pip show jq",
        "systemctl status shop",
    ] {
        assert!(is_probe(line), "{line}");
    }
    for line in [
        "command npm test",
        "sed -i s/a/b/ a.rs",
        "ls && make check",
        "gh pr create",
        "git merge a",
        "sudo make list",
        "make",
    ] {
        assert!(!is_probe(line), "{line}");
    }
}

#[test]
fn commands_run_in_the_directory_that_the_line_has_changed_to() {
    let directories = |line: &str| -> Vec<(String, String)> {
        let runs = runs(line).into_iter();
        runs.map(|run| (run.directory, run.text.to_owned())).collect()
    };
    let one = |directory: &str, text: &str| (directory.to_owned(), text.to_owned());
    assert_eq!(
        directories("cd app && npm test && cd .. && make check"),
        [one("app", "npm test"), one("", "make check")]
    );
    assert_eq!(
        directories("(cd app && npm test --silent) && make"),
        [one("app", "npm test --silent"), one("", "make")]
    );
    assert_eq!(directories("(make)"), [one("", "make")]);
    assert_eq!(
        directories("cd \"$ROOT/a\" && cd b && make"),
        [one("$ROOT/a/b", "make")]
    );
    assert_eq!(
        directories("cd /a/b/.. ; make # all of it\nmake lint"),
        [one("/a", "make"), one("/a", "make lint")]
    );
    assert_eq!(ends_in("cd app; (cd x; ls); cd ./y"), "app/y");
    assert_eq!(joined("", ".."), "..");
    assert_eq!(joined("a", "../.."), "..");
}

#[test]
fn no_code_is_reported_for_a_command_that_may_not_have_run() {
    // The first two may have ended the line.
    assert!(!commands_of("set -e; make check; make lint")[1].3);
    assert!(!commands_of("cd app 2>/dev/null && make")[0].3);
    assert!(commands_of("cd app && make")[0].3 && runs("cd app && make")[0].is_chained);
}

#[test]
fn one_command_has_one_name() {
    for line in [
        "python3 -m pytest -q",
        "python3 -m pytest -q > report.txt 2>&1",
        "CI=1 python3 -m pytest -q < /dev/null",
        "python3 -m pytest -q >/dev/null",
        "python3 -m pytest -q # all of them",
        "(python3 -m pytest -q)",
        "pytest -q",
        ".venv/bin/python -m pytest -q",
        "..\\.venv\\Scripts\\python.exe -m pytest -q",
    ] {
        let runs = runs(line);
        let name = name_of(runs.first().map_or(line, |run| run.text));
        assert_eq!(name, "pytest -q", "{line}");
    }
}

#[test]
fn lines_that_may_hide_a_command_are_known() {
    for line in [
        "for f in a b; do pytest $f; done",
        "if make; then echo good; fi",
        "! make check",
        "bash -c 'make check'",
        "out=$(pytest); echo $out",
        "cat > a <<EOF\nx\nEOF\nmake",
        "ls | xargs -n1 pytest",
    ] {
        assert!(may_hide(line), "{line}");
    }
    for line in [
        "make check",
        "cd app && npm test",
        "pytest -q || true",
        "git commit -m 'a for b'",
    ] {
        assert!(!may_hide(line), "{line}");
    }
}

#[test]
fn git_prints_stored_text_with_some_of_its_subcommands() {
    for (line, prints) in [
        ("git log -5", true),
        ("git diff a.rs", true),
        ("git diff --stat", false),
        ("git log --oneline -3", false),
        ("git show --stat", true),
        ("git status", false),
        ("git commit -m x", false),
    ] {
        assert_eq!(prints_stored_text(line), prints, "{line}");
    }
}

#[test]
fn a_check_covers_one_of_a_part() {
    let covers = |later: &str, earlier: &str| {
        let named = |command| {
            let name = name_of(command);
            let head = head_of(&name, CommandPurpose::Test);
            (name, head)
        };
        let ((later, later_head), (earlier, earlier_head)) = (named(later), named(earlier));
        coverage((&later, later_head), (&earlier, earlier_head))
    };
    for (earlier, later) in [
        ("cargo test parser", "cargo test"),
        ("cargo test -p core parser", "cargo test --workspace"),
        ("go test -run TestRead ./hall", "go test ./hall"),
        ("go test -v ./hall -timeout 60s", "go test ./... -timeout 5m"),
        ("go test ./hall", "go test -v ./hall"),
        (
            "pytest tests/test_door.py::test_oil -x",
            "pytest -q tests/test_door.py",
        ),
        ("pytest -k oil tests", "pytest tests"),
        ("npx vitest run src/door.test.ts", "vitest run"),
        ("npm test -- door.test.ts", "npm test"),
    ] {
        assert_eq!(covers(later, earlier), Coverage::Yes, "{later} after {earlier}");
    }
    for (earlier, later) in [
        ("vitest run src/door.test.ts", "npm test"),
        (
            "go test -run 'TestReadAll' ./hall",
            "go test -run 'TestRead' ./hall",
        ),
        ("cargo test -- --ignored", "cargo test"),
        ("cargo test", "cargo test --release"),
    ] {
        assert_eq!(covers(later, earlier), Coverage::Maybe, "{later} after {earlier}");
    }
    for (earlier, later) in [
        ("cargo test", "cargo test parser"),
        ("cargo test parser", "cargo test printer"),
        ("go test ./hall ./door", "go test ./hall"),
        ("go test ./hall", "go test -run TestRead ./hall"),
        ("cargo test", "npm test"),
        ("npm --prefix hall test", "npm --prefix door test"),
        ("pytest tests/test_door.py", "pytest tests/test_hall.py"),
    ] {
        assert_eq!(covers(later, earlier), Coverage::No, "{later} after {earlier}");
    }
}

#[test]
fn a_build_tool_covers_its_run_with_other_options_or_for_one_project() {
    let covers = |later: &str, earlier: &str| {
        let of = |line: &str| {
            let name = name_of(line);
            let head = head_of(&name, CommandPurpose::Test);
            (name, head)
        };
        let (later, earlier) = (of(later), of(earlier));
        coverage((&later.0, later.1), (&earlier.0, earlier.1))
    };
    assert_eq!(covers("mvn test", "mvn -q test"), Coverage::Yes);
    assert_eq!(covers("mvn -B clean test", "mvn test -pl app"), Coverage::Yes);
    assert_eq!(
        covers("./gradlew test", "./gradlew :app:test --info"),
        Coverage::Yes
    );
    assert_eq!(covers("./gradlew :app:test", "./gradlew test"), Coverage::No);
}
