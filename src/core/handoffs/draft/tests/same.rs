//! What a draft says of the work is what its document says.

use super::*;

/// A draft, and the document of the same work.
fn both(messages: &[Value]) -> (String, HandoffDocument) {
    let index = indexed(messages);
    let local = index.local(&request(4000)).unwrap();
    (local, document(&index))
}

#[test]
fn a_check_before_a_script_that_may_change_files_is_stale_perhaps_in_both() {
    let mut all = vec![user("Port the parser.")];
    all.extend(ran(
        "a",
        "cargo test",
        "test result: ok. 3 passed; 0 failed",
        false,
    ));
    all.extend(ran("b", "python3 tools/rewrite.py", "done", false));
    let (local, document) = both(&all);
    let line = "- `cargo test`: passed (turn 1); files may have changed after it\n";
    assert!(local.contains(line), "{local}");
    let markdown = document.markdown();
    assert!(markdown.contains(line), "{markdown}");
    assert_eq!(document.verification[0].stale, None);
}

#[test]
fn a_command_that_passes_in_another_directory_settles_nothing() {
    let npm = |id: &str, directory: &str, result: &str, failed| {
        let input = json!({"command": "npm test", "workdir": directory});
        called(id, "Bash", input, result, failed)
    };
    let mut all = vec![user("Get both green.")];
    all.extend(npm("a", "/srv/a", "Exit code 1\nerror: login is broken", true));
    all.extend(npm("b", "/srv/b", "ok", false));
    let (local, document) = both(&all);
    let (_, failures) = local.split_once("Failed, and not yet settled:").unwrap();
    assert!(failures.contains("error: login is broken"), "{local}");
    let tried: Vec<&str> = document
        .failed_attempts
        .iter()
        .map(|attempt| &*attempt.tried)
        .collect();
    assert_eq!(tried, ["npm test"]);
}

#[test]
fn an_error_that_a_later_failing_run_no_longer_shows_is_not_known_to_be_settled() {
    let mut all = vec![user("Port the parser.")];
    for (id, error) in [("a", "cannot find value `x`"), ("b", "mismatched types")] {
        all.extend(ran(
            id,
            "cargo test",
            &format!("Exit code 101\nerror: {error}"),
            true,
        ));
    }
    let (local, document) = both(&all);
    let told = "- `cargo test` (exit 101); not known whether it still fails\n    > error: cannot find value";
    assert!(local.contains(told), "{local}");
    assert!(
        local.contains("- `cargo test` (exit 101)\n    > error: mismatched types"),
        "{local}"
    );
    assert_eq!(
        document.failed_attempts.len(),
        1,
        "{:?}",
        document.failed_attempts
    );
    all.extend(ran(
        "c",
        "cargo test",
        "test result: ok. 3 passed; 0 failed",
        false,
    ));
    let (local, document) = both(&all);
    assert!(!local.contains("Failed, and not yet settled"), "{local}");
    assert!(document.failed_attempts.is_empty());
}
