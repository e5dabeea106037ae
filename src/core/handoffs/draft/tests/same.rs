//! Checks that a draft and its document agree about the work.

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
    all.extend(ran("cargo test", "test result: ok. 3 passed; 0 failed"));
    all.extend(ran("python3 tools/rewrite.py", "done"));
    let (local, document) = both(&all);
    let line = "- `cargo test`: passed (turn 1, call 1); files may have changed after it\n";
    assert!(local.contains(line), "{local}");
    let markdown = document.markdown();
    assert!(markdown.contains(line), "{markdown}");
    assert_eq!(document.verification[0].stale, None);
}

#[test]
fn a_place_counts_the_calls_before_the_first_message_of_the_user() {
    let mut all = ran("cargo build", "Finished").to_vec();
    all.push(user("Port the parser."));
    all.extend(ran("cargo test", "test result: ok. 3 passed; 0 failed"));
    let (local, document) = both(&all);
    let place = "`cargo test`: passed (turn 1, call 2)";
    assert_contains(&local, place);
    assert_contains(&document.markdown(), place);
}

#[test]
fn a_command_that_passes_in_another_directory_settles_nothing() {
    let npm = |directory: &str, result: &str| {
        let input = json!({"command": "npm test", "workdir": directory});
        called("Bash", input, result)
    };
    let mut all = vec![user("Get both green.")];
    all.extend(npm("/srv/a", "Exit code 1\nerror: login is broken"));
    all.extend(npm("/srv/b", "ok"));
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
    for error in ["cannot find value `x`", "mismatched types"] {
        all.extend(ran("cargo test", &format!("Exit code 101\nerror: {error}")));
    }
    let (local, document) = both(&all);
    let told = "- `cargo test` (exit 101) (turn 1, call 1); not known whether it still fails\n    > error: cannot find value";
    assert!(local.contains(told), "{local}");
    let part = "- `cargo test` (exit 101) (turn 1, call 2)\n    > error: mismatched types";
    assert_contains(&local, part);
    assert_eq!(
        document.failed_attempts.len(),
        1,
        "{:?}",
        document.failed_attempts
    );
    all.extend(ran("cargo test", "test result: ok. 3 passed; 0 failed"));
    let (local, document) = both(&all);
    assert!(!local.contains("Failed, and not yet settled"), "{local}");
    assert!(document.failed_attempts.is_empty());
}

#[test]
fn a_failed_check_outweighs_words_that_all_is_done() {
    let mut all = vec![user("Port the parser.")];
    all.extend(ran("cargo test", "Exit code 101\nerror: mismatched types"));
    all.push(model("I've completed the port, all is done."));
    let (local, _) = both(&all);
    assert_contains(&local, "Goal (the last open request): Port the parser.");
    assert!(!local.contains("Nothing is open"), "{local}");
    all.extend(ran("cargo test", "test result: ok. 3 passed; 0 failed"));
    all.push(model("I've completed the port, all is done."));
    let (local, _) = both(&all);
    assert!(local.contains("Last goal (done): Port the parser."), "{local}");
}

#[test]
fn a_file_is_told_with_the_sentence_that_belongs_to_its_change() {
    let edit = |path: &str, text: &str| {
        let [mut call, result] = called("Edit", json!({"file_path": path}), "ok");
        if !text.is_empty() {
            let said = json!({"type": "text", "text": text});
            call["content"].as_array_mut().unwrap().insert(0, said);
        }
        [call, result]
    };
    let mut all = vec![user("Port the parser.")];
    all.extend(edit(
        "src/lexer.rs",
        "I read the parser. The lexer loses the last token, so it keeps one more:",
    ));
    all.extend(edit("src/parser.rs", ""));
    all.extend(edit("src/tree.rs", "`src/tree.rs` needs a depth. Now the rest."));
    all.extend(ran("git checkout src/lexer.rs", "Updated 1 path from the index"));
    let (local, document) = both(&all);
    for line in [
        "- `src/parser.rs` modified (turn 1, call 2)\n",
        "- `src/tree.rs` modified (turn 1, call 3): `src/tree.rs` needs a depth.\n",
        "Changed by calls, and perhaps not as they left them:\n- `src/lexer.rs` modified (turn 1, call 1): The lexer loses the last token, so it keeps one more\n",
    ] {
        assert!(local.contains(line), "{line}\n{local}");
    }
    assert_eq!(local.matches("src/parser.rs").count(), 1, "{local}");
    let changed: Vec<&str> = document.changed_files.iter().map(|file| &*file.path).collect();
    assert!(!changed.contains(&"src/lexer.rs"), "{changed:?}");
}

#[test]
fn a_command_in_the_background_still_runs() {
    let mut all = vec![user("Start it.")];
    all.extend(ran("npm run dev", "Command running in background with ID: b1"));
    let (local, document) = both(&all);
    let part = "- `npm run dev`: started in the background (turn 1, call 1)";
    assert_contains(&local, part);
    assert_eq!(document.commands_run[0].exit, None);
}

#[test]
fn what_was_corrected_at_once_or_only_asked_is_no_open_failure() {
    let failed = |line: &str, error: &str| ran(line, &format!("Exit code 2\nerror: {error}"));
    let mut all = vec![user("Get it out.")];
    all.extend(failed("rtk deploy web", "unknown word"));
    all.extend(ran("deploy web", "out"));
    all.extend(failed("seed --all", "which one"));
    all.extend(ran("seed users", "done"));
    all.extend(failing(called(
        "Read",
        json!({"file_path": "gone.md"}),
        "error: gone",
    )));
    all.extend(failing(called(
        "Skill",
        json!({"skill": "x"}),
        "<tool_use_error>Unknown skill: x</tool_use_error>",
    )));
    all.extend(failing(called(
        "write_stdin",
        json!({"session_id": 7, "chars": "\u{3}"}),
        "error: stopped",
    )));
    let (local, _) = both(&all);
    assert_lacks(&local, "Failed, and not yet settled");
    // Another check settles nothing, and a correction follows at once.
    all.extend(failed("npm test a", "login"));
    all.extend(ran("npm test b", "ok"));
    all.extend(failed("python3 tools/move.py", "half"));
    all.extend(ran("python3 -c 'print(1)'", "1"));
    all.extend(failed("publish --now", "no token"));
    for _ in 0..5 {
        all.extend(ran("ls", "a"));
    }
    all.extend(ran("publish --dry-run", "ok"));
    let (local, _) = both(&all);
    assert_contains(&local, "> error: login");
    assert_contains(&local, "> error: half");
    assert_contains(&local, "> error: no token");
}

#[test]
fn a_command_in_the_background_ends_with_the_code_that_is_reported_later() {
    let running = |id: u32| format!("Chunk ID: a\nProcess running with session ID {id}\nOutput:\n");
    let mut all = vec![user("Get it green.")];
    all.extend(ran("make test", &running(7)));
    all.extend(ran("git commit -m 'Add it'", &running(8)));
    for (line, id) in [
        ("make lint", "b1"),
        ("npm test | tail", "b2"),
        ("go test ./... | tail", "b3"),
    ] {
        all.extend(ran(line, &format!("Command running in background with ID: {id}")));
    }
    for (id, output) in [
        ("b2", "Tests:  1 failed, 8 passed, 9 total"),
        ("b3", "ok  \texample.org/a\t0.2s"),
    ] {
        let report = format!(
            "<retrieval_status>success</retrieval_status>\n\n<task_id>{id}</task_id>\n\n<status>completed</status>\n\n\
             <exit_code>0</exit_code>\n\n<output>\n{output}\n</output>"
        );
        all.extend(called(
            "TaskOutput",
            json!({"task_id": id, "block": true}),
            &report,
        ));
    }
    for (session, code) in [(7, 2), (8, 0)] {
        let result = format!("Chunk ID: b\nProcess exited with code {code}\nOutput:\n");
        all.extend(called(
            "write_stdin",
            json!({"session_id": session, "chars": ""}),
            &result,
        ));
    }
    all.push(user(
        "<task-notification>\n<task-id>b1</task-id>\n<summary>Background command \"Lint\" completed (exit code 0)</summary>\n</task-notification>",
    ));
    let (local, _) = both(&all);
    for part in [
        "- `make test`: **exit 2** (turn 1, call 1)",
        "- `git commit -m 'Add it'`: repository changed (turn 1, call 2)",
        "- `make lint`: passed (turn 1, call 3)",
        "- `npm test`: **failed**, exit code unknown (turn 1, call 4)",
        "- `go test ./...`: passed (turn 1, call 5)",
    ] {
        assert_contains(&local, part);
    }
}

#[test]
fn the_file_of_a_command_that_ended_in_the_background_shows_its_outcome() {
    let mut all = vec![user("Get it green.")];
    let reads = |id: &str, output: &str| {
        let path = json!({"file_path": format!("/tmp/claude/-work/tasks/{id}.output")});
        called("Read", path, output)
    };
    let ids = ["b1", "b2", "b3", "b4"];
    for (line, id) in ["npm test", "go test ./...", "vitest run", "pytest"]
        .iter()
        .zip(ids)
    {
        let started =
            format!("Command running in background with ID: {id}. Output is being written to: /tmp/x");
        all.extend(ran(&format!("{line} | tail -20"), &started));
    }
    // What was read before the end may be a part, and a command without a known end may still run.
    all.extend(reads("b3", "     1→ Tests  9 passed (9)"));
    all.extend(reads("b4", "1\t===== 3 passed in 0.2s ====="));
    for id in &ids[..3] {
        all.push(user(&format!(
            "<task-notification>\n<task-id>{id}</task-id>\n<status>completed</status>\n<summary>Background command \"Run\" completed (exit \
             code 0)</summary>\n</task-notification>"
        )));
    }
    all.extend(reads("b1", "     1→Tests:  1 failed, 8 passed, 9 total"));
    all.extend(reads("b2", "     1→ok  \texample.org/a\t0.2s"));
    let (local, _) = both(&all);
    for part in [
        "- `npm test`: **failed**, exit code unknown (turn 1, call 1)",
        "- `go test ./...`: passed (turn 1, call 2)",
        "- `vitest run`: exit code unknown",
        "- `pytest`: started in the background",
    ] {
        assert_contains(&local, part);
    }
}

#[test]
fn a_later_commit_settles_one_that_failed() {
    let mut all = vec![user("Add the page.")];
    let failed = "Exit code 1\nerror: the hook is missing";
    all.extend(ran("git add a.md && git commit -m 'Add it'", failed));
    let (local, _) = both(&all);
    let (_, failures) = local.split_once("Failed, and not yet settled:").unwrap();
    assert_contains(failures, "the hook is missing");
    assert_lacks(&local, "Last runs");
    all.extend(ran("git add a.md b.md && git commit -q -m 'Add the page'", ""));
    let (local, _) = both(&all);
    let part = "Last runs:\n- `git commit -q -m 'Add the page'`: repository changed (turn 1, call 2)";
    assert_contains(&local, part);
    assert_lacks(&local, "Failed, and not yet settled");
}

#[test]
fn an_unknown_end_that_its_line_hides_is_not_told() {
    let mut all = vec![user("Clean up.")];
    all.extend(ran("git stash 2>/dev/null; ls", "a"));
    all.extend(ran("npm run dev & sleep 2; ls", "a"));
    all.extend(ran(
        "for a in b c; do\ncat $a\ndone; ./step.sh",
        "Exit code 1\nerror: b",
    ));
    let (local, _) = both(&all);
    assert_lacks(&local, "git stash");
    assert_contains(
        &local,
        "- `npm run dev`: started in the background (turn 1, call 2)",
    );
    assert_contains(&local, "> error: b");
    all.extend(ran("for a in c; do cat $a; done; ./step.sh || true", "c"));
    let (local, _) = both(&all);
    assert_lacks(&local, "> error: b");
}

#[test]
fn a_question_that_fails_and_the_head_of_a_result_are_no_errors() {
    let option = "Exit code: 2\nWall time: 0.2 seconds\nOriginal token count: 9\nOutput:\nunexpected option";
    let mut all = vec![user("Mend the page.")];
    all.extend(ran("command -v jq", "Exit code 1"));
    all.extend(ran(
        "sed -n '1,9p' gone.md",
        "Exit code 2\nsed: can't read gone.md",
    ));
    all.extend(ran("mdpage --strict", option));
    let (local, _) = both(&all);
    let (_, failures) = local.split_once("Failed, and not yet settled:").unwrap();
    assert_contains(failures, "> unexpected option");
    for absent in ["Original token", "Wall time", "jq", "gone.md"] {
        assert_lacks(failures, absent);
    }
}

#[test]
fn an_offer_of_help_is_no_step() {
    let offers = "The page is up. Let me know if a link is broken.";
    let (local, _) = both(&[user("Put up the page."), model(offers)]);
    assert_lacks(&local, "Steps:");
}

#[test]
fn a_document_lists_the_ends_and_the_files_that_the_draft_lists() {
    let mut all = vec![user("Port the parser.")];
    all.extend(called("Edit", json!({"file_path": "src/a.rs"}), "ok"));
    all.extend(ran("git checkout main && git pull", "Switched to branch 'main'"));
    all.extend(failing(ran("git commit -m x", "The format check failed.")));
    all.extend(ran("npm test", "Command running in background with ID: b1"));
    let (local, document) = both(&all);
    for part in [
        "- `src/a.rs` modified (turn 1, call 1)\n",
        "`npm test`: started in the background",
    ] {
        assert_contains(&local, part);
    }
    let markdown = document.markdown();
    for part in [
        "## Files that may have changed since\n\n- `src/a.rs` modified (turn 1, call 1)\n",
        "- `git commit -m x`: **failed**, exit code unknown (turn 1, call 3)\n",
        "- `npm test`: started in the background (turn 1, call 4)\n",
    ] {
        assert_contains(&markdown, part);
    }
    assert_eq!(
        markdown.matches("started in the background").count(),
        2,
        "{markdown}"
    );
    let read = HandoffDocument::read(&serde_json::to_string(&document).unwrap()).unwrap();
    pretty_assertions::assert_eq!(read.markdown(), markdown);
}

#[test]
fn items_of_an_earlier_to_do_list_are_open_in_both() {
    let todos = json!({"todos": [{"content": "Wire the list", "status": "in_progress"}]});
    let mut all = vec![user("Build the page.")];
    all.extend(called("TodoWrite", todos, "ok"));
    all.extend([model("The table is there."), user("Commit it.")]);
    all.extend(ran("git commit -m x", "[main abc1234] x\n 3 files changed"));
    all.push(model("Done, it is committed."));
    let (local, document) = both(&all);
    assert_contains(
        &local,
        "The last request is done after 2 turns; items of the to-do list are open.",
    );
    assert_eq!(document.next_action.as_deref(), Some("Wire the list"));
}

#[test]
fn a_to_do_list_that_the_agent_looked_at_is_known_in_both() {
    // The calls that created the items were cut.
    let mut all = vec![user("Build the page.")];
    let shown = "#1 [completed] Draw the page\n#2 [in_progress] Wire the list (ada) [blocked by #1]";
    all.extend(called("TaskList", json!({}), shown));
    all.push(model("The table is there."));
    let (local, document) = both(&all);
    assert_contains(&local, "Wire the list (ada)");
    assert_lacks(&local, "blocked by");
    assert_eq!(document.next_action.as_deref(), Some("Wire the list (ada)"));
}

#[test]
fn the_next_action_of_a_draft_is_no_sentence_of_its_request() {
    let mut all = vec![user("Port all readers, one by one. Start with the first one.")];
    all.extend(called("Edit", json!({"file_path": "src/a.rs"}), "ok"));
    all.push(model("The third reader is ported. Let me think about the rest."));
    let index = indexed(&all);
    let local = index.local(&request(4000)).unwrap();
    assert_lacks(&local, "Steps:");
    let next = document_of(&index, &super::super::carried(&local), &[]).next_action;
    assert_begins(&next.unwrap(), "Port all readers");
}

#[test]
fn a_message_that_a_prompt_leaves_unanswered_is_the_next_action() {
    let index = indexed(&[user("Port the exporter."), model("Looking at it.")]);
    let newest = CarriedItem {
        kind: CarriedKind::Newest,
        state: CarriedState::Added,
        text: "Port the exporter.".into(),
    };
    let next = |prompt: &str| document_of(&index, prompt, std::slice::from_ref(&newest)).next_action;
    assert_eq!(
        next("The importer was looked at.").as_deref(),
        Some("Port the exporter.")
    );
    assert_eq!(next("All is done."), None);
}
