//! Checks of a part that a wider one settles, and checks whose directory is unknown.

use super::*;
use crate::handoffs::document::Severity;

const FAILED: &str = "Exit code 1\nerror: the door squeaks";

fn local(messages: &[Value]) -> String {
    indexed(messages).local(&request(4000)).unwrap()
}

fn checked(lines: &[(&str, bool)]) -> Vec<Value> {
    let mut all = vec![user("Oil the doors.")];
    for (line, passes) in lines {
        match (passes, line.starts_with("cd ") && !line.contains("&&")) {
            (false, _) => all.extend(failing(ran(line, FAILED))),
            (true, true) => all.extend(ran(line, "")),
            (true, false) => all.extend(ran(line, "test result: ok. 3 passed; 0 failed")),
        }
    }
    all.push(model("I've oiled the doors. All tests pass."));
    all
}

#[test]
fn a_wider_check_that_passes_later_leaves_no_contradiction() {
    for (part, whole, risks) in [
        ("cargo test door", "cargo test", 0),
        ("go test -run TestDoor ./hall", "go test ./hall", 0),
        // Nobody knows whether it runs that file.
        ("npx vitest run src/door.test.ts", "npm test", 1),
    ] {
        let index = indexed(&checked(&[(part, false), (whole, true)]));
        let (seen, told) = (index.seen(), index.local(&request(4000)).unwrap());
        assert_eq!(seen.claims("All tests pass."), [], "{told}");
        assert_contains(&told, "Last goal (done): Oil the doors.");
        assert_eq!(document(&index).open_risks.len(), risks, "{told}");
    }
    for (whole, other) in [
        ("cargo test", "cargo test door"),
        ("go test ./hall ./yard", "go test ./hall"),
        ("cargo test", "npm test"),
    ] {
        let index = indexed(&checked(&[(whole, false), (other, true)]));
        let claims = index.seen().claims("All tests pass.");
        assert_eq!(claims.len(), 1, "{whole}: {claims:?}");
        assert_eq!(claims[0].status, crate::work::ClaimStatus::Contradicted);
        assert_contains(
            &index.local(&request(4000)).unwrap(),
            "Failed, and not yet settled:",
        );
    }
}

#[test]
fn a_check_in_an_unknown_directory_settles_nothing() {
    let (pass, fail) = (true, false);
    let open = "(turn 1, call 1); not known whether it still fails";
    for (lines, told) in [
        // Only a line that does nothing else shows where the shell stays.
        (
            &[
                ("npm test", fail),
                ("cd hall && npm install", pass),
                ("npm test", pass),
            ][..],
            Some(open),
        ),
        (
            &[("npm test", fail), ("cd -", pass), ("npm test", pass)],
            Some(open),
        ),
        (
            &[("npm test", fail), ("cd hall", pass), ("npm test", pass)],
            Some("(turn 1, call 1)\n"),
        ),
        (
            &[("npm --prefix hall test", fail), ("npm --prefix door test", pass)],
            Some("(turn 1, call 1)\n"),
        ),
        (
            &[
                ("cd hall", pass),
                ("npm test", fail),
                ("cd ../hall", pass),
                ("npm test", pass),
            ],
            None,
        ),
        (&[("cd -", pass), ("npm test", fail), ("npm test", pass)], None),
    ] {
        let text = local(&checked(lines));
        match told {
            Some(told) => {
                let (_, failures) = text.split_once("Failed, and not yet settled:").expect(&text);
                assert!(failures.contains(told), "{lines:?}: {text}");
            }
            None => assert_lacks(&text, "Failed, and not yet settled"),
        }
    }
}

#[test]
fn a_check_in_an_unknown_directory_is_told_and_counts() {
    let install = ("cd hall && npm install", true);
    let told = local(&checked(&[install, ("npm test", true)]));
    assert_contains(
        &told,
        "- `npm test`: passed (turn 1, call 2); in a directory that is not known\n",
    );
    let told = local(&checked(&[install, ("cd yard && npm test", true)]));
    assert_contains(
        &told,
        "- `cd yard && npm test`: passed (turn 1, call 2); in a directory",
    );
    // The later run may be the same one.
    let told = local(&checked(&[("npm test", true), install, ("npm test", true)]));
    assert_eq!(told.matches("`npm test`: passed").count(), 1, "{told}");
    let index = indexed(&checked(&[install, ("npm test", false)]));
    assert_contains(
        &index.local(&request(4000)).unwrap(),
        "Goal (the last open request)",
    );
    assert_eq!(document(&index).open_risks[0].severity, Severity::Block);
}

#[test]
fn a_sentence_that_the_user_copied_is_none_of_their_rules() {
    let copied = "The importer keeps a cache of nine hundred rows and must never be flushed by hand.";
    let own = "Never touch the door of the northern hall, whatever the plan says about it.";
    let mut all = vec![user("Build the importer.")];
    all.extend(ran("cat NOTES", &format!("Notes\n{copied}\nEnd.")));
    all.extend([
        model("Read."),
        user(&format!("{own} {copied}")),
        model(&format!("As you said: {own}")),
        user(&format!("Again: {own}")),
        model("ok"),
        user("Now the exporter."),
    ]);
    let told = local(&all);
    assert!(!told.contains("nine hundred rows"), "{told}");
    assert!(told.contains(own), "{told}");
}

#[test]
fn a_rebase_or_merge_that_was_continued_or_ended_is_settled() {
    let stopped = "Exit code 1\nCONFLICT (content): Merge conflict in a.rs";
    let unknown = "Exit code 1\nmerge: nosuch - not something we can merge";
    for (line, text, then, is_open) in [
        (
            "git fetch && git rebase origin/main",
            stopped,
            "git rebase --continue",
            false,
        ),
        ("git merge next", stopped, "git commit --no-edit", false),
        ("git merge next", stopped, "git merge --abort", false),
        ("git merge next", stopped, "git status", true),
        ("git merge nosuch", unknown, "git commit -am x", true),
    ] {
        let mut all = vec![user("Join the branches.")];
        all.extend(failing(ran(line, text)));
        all.extend(called("Edit", json!({"file_path": "a.rs"}), "ok"));
        all.extend(ran(
            &format!("git add a.rs && GIT_EDITOR=true {then}"),
            "[main 1f2e3d4] Join",
        ));
        assert_eq!(local(&all).contains("not yet settled"), is_open, "{line}; {then}");
    }
}
