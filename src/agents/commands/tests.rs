use super::*;

fn told(line: &str) -> Vec<(Purpose, &str, bool, bool)> {
    let runs = runs(line).into_iter();
    runs.map(|run| (run.purpose, run.text, run.good_if_zero, run.bad_if_not))
        .collect()
}

#[test]
fn an_exit_code_is_only_said_of_the_command_that_it_belongs_to() {
    use Purpose::{Build, Git, Lint, Test};
    assert_eq!(told("cargo test"), [(Test, "cargo test", true, true)]);
    assert_eq!(
        told("cd app && npm test -- --run"),
        [(Test, "npm test -- --run", true, true)]
    );
    assert_eq!(
        told("cargo test 2>&1 | tail -5"),
        [(Test, "cargo test 2>&1", false, false)]
    );
    assert_eq!(told("cargo test || true"), [(Test, "cargo test", false, false)]);
    assert_eq!(
        told("cargo test; echo done"),
        [(Test, "cargo test", false, false)]
    );
    assert_eq!(told("cargo test &"), [(Test, "cargo test", false, false)]);
    assert_eq!(
        told("cargo build && cargo test"),
        [
            (Build, "cargo build", true, false),
            (Test, "cargo test", true, false)
        ]
    );
    assert_eq!(
        told("cargo clippy; git commit -m 'a && b'\n"),
        [
            (Lint, "cargo clippy", false, false),
            (Git, "git commit -m 'a && b'", true, true)
        ]
    );
    assert_eq!(told("cat > a <<'EOF'\ncargo test\nEOF"), []);
    assert_eq!(told("echo \"cargo test\""), []);
}

#[test]
fn what_surely_changes_no_file_is_told_from_what_may() {
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
        "",
    ] {
        assert!(only_looks(line), "{line}");
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
        "rm a",
        "cat <<EOF",
        "npm install",
        "cargo test | tee log",
    ] {
        assert!(!only_looks(line), "{line}");
    }
    let all = runs("cd app && cargo test; cd ../b && cargo test && cargo fmt");
    assert_eq!(
        all.iter().map(|run| run.folder).collect::<Vec<_>>(),
        [Some("app"), Some("../b"), Some("../b")]
    );
    assert_eq!(
        all.iter().map(|run| run.changes_behind).collect::<Vec<_>>(),
        [true, true, false]
    );
}

#[test]
fn commands_are_known_behind_prefixes_and_in_other_spellings() {
    for (line, purpose) in [
        ("RUST_LOG=debug timeout 60 cargo +nightly test", Purpose::Test),
        ("./gradlew test", Purpose::Test),
        ("python3 -m pytest -q", Purpose::Test),
        ("uv run pytest", Purpose::Test),
        ("pnpm lint", Purpose::Lint),
        ("yarn build", Purpose::Build),
        ("npx tsc --noEmit", Purpose::Lint),
        ("npx prisma migrate dev", Purpose::Migrate),
        ("npm i zod", Purpose::Install),
        ("nice -n 8 cargo nextest run", Purpose::Test),
        ("make", Purpose::Build),
        ("make test-unit", Purpose::Test),
    ] {
        assert_eq!(runs(line).first().map(|run| run.purpose), Some(purpose), "{line}");
    }
    for line in [
        "ls -la",
        "cargo --version",
        "npm run",
        "git status",
        "git log -5",
        "",
    ] {
        assert_eq!(runs(line), [], "{line}");
    }
}
