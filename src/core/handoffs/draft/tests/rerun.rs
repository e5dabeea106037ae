//! Commands to run again, because they checked something, or changed something that is named.

use super::*;

/// The output of each command, the draft's lines about it, and whether it is a check.
const RUNS: [(&str, &str, &str, bool); 11] = [
    (
        "./scripts/gen.sh",
        "reading api.proto\nwrote src/gen/schema.rs\nok",
        "generated (turn 1, call 1)\n  > wrote src/gen/schema.rs",
        false,
    ),
    (
        "make migrate",
        "checking\napplied migration 0042_users\ndone",
        "migrated (turn 1, call 2)\n  > applied migration 0042_users",
        false,
    ),
    (
        "just deploy staging",
        "deployed release v1.4.2",
        "ran (turn 1, call 3)\n  > deployed release v1.4.2",
        false,
    ),
    ("npm run seed", "ok", "ran (turn 1, call 4)", false),
    (
        "npm run storybook",
        "Listening on http://localhost:6006",
        "ran (turn 1, call 5)\n  > Listening on http://localhost:6006",
        false,
    ),
    (
        "cargo xtask codegen",
        "Generated src/api.rs",
        "generated (turn 1, call 6)\n  > Generated src/api.rs",
        false,
    ),
    (
        "./bin/worker --daemon",
        "started, pid 4242",
        "ran (turn 1, call 7)\n  > started, pid 4242",
        false,
    ),
    (
        "docker compose up -d",
        " Container app-db-1  Started",
        "started (turn 1, call 8)\n  > Container app-db-1  Started",
        false,
    ),
    ("./scripts/check.sh", "all good", "passed (turn 1, call 9)", true),
    ("make verify", "all good", "passed (turn 1, call 10)", true),
    (
        "python tools/test_api.py",
        "3 cases",
        "passed (turn 1, call 11)",
        true,
    ),
];

#[test]
fn scripts_and_targets_that_checked_or_changed_something_are_listed_with_what_they_name() {
    let mut all = vec![user("Get it running.")];
    for (command, printed, ..) in RUNS {
        all.extend(ran(command, printed));
    }
    let index = indexed(&all);
    let local = index.local(&request(4000)).unwrap();
    let bundle = index.bundle(&request(8000)).unwrap();
    let seen = index.seen();
    for (command, printed, listed, verifies) in RUNS {
        // Scripts may have changed files after a check.
        let ends = if verifies {
            ""
        } else {
            "
"
        };
        let line = format!("- `{command}`: {listed}{ends}");
        assert!(local.contains(&line), "{line}\n{local}");
        assert!(bundle.contains(command), "{command}\n{bundle}");
        assert_eq!(
            seen.verification.iter().any(|run| run.command == command),
            verifies,
            "{command}"
        );
        let kept = seen.commands.iter().find(|ran| ran.command == command).unwrap();
        assert_eq!(kept.changes, !verifies, "{command}");
        assert!(
            kept.output.iter().all(|line| printed.contains(line.as_str())),
            "{command}: {:?}",
            kept.output
        );
        assert_eq!(kept.output.is_empty(), !listed.contains('>'), "{command}");
    }
}

#[test]
fn what_failed_only_looked_or_names_nothing_is_no_change() {
    let mut all = vec![user("Get it running.")];
    for (command, printed) in [
        ("make migrate", "Exit code 2\napplied 0041_a\nerror: 0042_b"),
        ("./scripts/report.sh", "12 users"),
        ("cat .cache/log.txt", "applied migration 0042_users"),
        ("cargo xtask ci", "ok"),
    ] {
        all.extend(ran(command, printed));
    }
    let index = indexed(&all);
    let local = index.local(&request(4000)).unwrap();
    assert_lacks(&local, "Left behind by commands");
    assert_lacks(&local, "0042_users");
    let seen = index.seen();
    assert!(
        seen.commands.iter().all(|ran| !ran.changes),
        "{:?}",
        seen.commands
    );
}
