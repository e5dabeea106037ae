//! Services that have ended since, and failures that a differently written command settled.

use super::*;

fn local(messages: &[Value]) -> String {
    indexed(messages).local(&request(4000)).unwrap()
}

fn background(line: &str, id: &str) -> Vec<Value> {
    let text = format!("Command running in background with ID: {id}");
    ran(line, &text).into()
}

#[test]
fn a_git_command_that_had_nothing_to_do_changed_nothing() {
    let mut all = vec![user("Push it.")];
    for (line, text) in [
        ("git push", "Everything up-to-date"),
        ("git merge main", "Already up to date."),
        ("git add -A && git stash", "No local changes to save"),
        ("git tag v1", ""),
    ] {
        all.extend(ran(line, text));
    }
    let told = indexed(&all).local(&request(4000)).unwrap();
    assert_eq!(told.matches(": changed nothing (turn 1").count(), 3, "{told}");
    assert_contains(&told, "`git tag v1`: repository changed");
}

#[test]
fn the_last_change_of_the_branch_is_told() {
    let mut all = vec![user("Mend it.")];
    for (line, text) in [
        ("git checkout -b mend", "Switched to a new branch 'mend'"),
        ("git checkout old", "Switched to branch 'old'"),
        ("git checkout -- a.rs", ""),
        (
            "git checkout main && git pull",
            "Switched to branch 'main'\nAlready up to date.",
        ),
    ] {
        all.extend(ran(line, text));
    }
    let told = indexed(&all).local(&request(4000)).unwrap();
    assert_contains(&told, "`git checkout main`: repository changed");
    assert_lacks(&told, "git checkout old");
    assert_lacks(&told, "git checkout --");
    assert_eq!(indexed(&all).seen().branch.as_deref(), Some("main"));
}

#[test]
fn a_tool_that_only_fetches_has_not_failed_with_what_it_fetched() {
    let mut all = vec![user("Try the page.")];
    let text = "Total messages: 2 (Errors: 1)\n[ERROR] Failed to load resource: net::ERR_FAILED";
    all.extend(called(
        "mcp__browser__console_messages",
        json!({"level": "error"}),
        text,
    ));
    assert_lacks(&indexed(&all).local(&request(4000)).unwrap(), "not yet settled");
}

#[test]
fn the_reason_of_a_change_says_something_of_it() {
    let edit = |path: &str| json!({"file_path": path, "old_string": "a", "new_string": "b"});
    let mut all = vec![user("Mend the door.")];
    for (said, path) in [
        ("The hinge is wrong. Fix it.", "/w/hinge.rs"),
        (
            "1. Read it\n2. Register the hook of the door in settings.json",
            "/w/hook.sh",
        ),
        (
            "The lock opened on the second turn of the key only.",
            "/w/lock.rs",
        ),
        ("Oil in oil.rs.", "/w/oil.rs"),
    ] {
        let mut call = called("Edit", edit(path), "The file has been updated.");
        let content = call[0]["content"].as_array_mut().unwrap();
        content.insert(0, json!({"type": "text", "text": said}));
        all.extend(call);
    }
    let files = indexed(&all).seen().files;
    let why: Vec<_> = files.iter().map(|file| file.why.as_deref()).collect();
    let lock = "The lock opened on the second turn of the key only.";
    assert_eq!(why, [None, None, Some(lock), Some("Oil in oil.rs.")]);
}

#[test]
fn a_service_that_was_stopped_or_ended_is_not_told_as_started() {
    let stop = |id: &str| called("KillBash", json!({"shell_id": id}), "{\"success\":true}");
    let output = |id: &str, text: &str| called("BashOutput", json!({"bash_id": id}), text);
    let mut all = vec![user("Try the page.")];
    all.extend(background("npm run dev -- --port 4001", "b1"));
    all.extend(background("uvicorn shop:app --reload", "b2"));
    all.extend(background("python3 -m http.server 4003", "b3"));
    all.extend(background("gunicorn shop.wsgi", "b4"));
    all.extend(output(
        "b1",
        "<status>running</status>\n\n<stdout>\nready\n</stdout>",
    ));
    assert_eq!(local(&all).matches("started in the background").count(), 4);
    all.extend(stop("b1"));
    all.extend(output(
        "b2",
        "<status>failed</status>\n\n<exit_code>1</exit_code>\n\n<stderr>\nno module shop\n</stderr>",
    ));
    all.extend(ran("pkill -f \"http.server 4003\"", ""));
    let told = local(&all);
    assert_contains(
        &told,
        "- `gunicorn shop.wsgi`: started in the background (turn 1, call 4); not known whether it still runs",
    );
    for gone in [
        "`npm run dev",
        "`uvicorn shop:app --reload`: started",
        "http.server 4003`: started",
    ] {
        assert_lacks(&told, gone);
    }
    // The code of a signal is no failure, and a new start settles an old one.
    all.push(user(
        "<task-notification>\n<task-id>b4</task-id>\n<status>failed</status>\n<summary>Background command \"Serve\" failed with exit code 143</summary>\n</task-notification>",
    ));
    assert_contains(
        &local(&all),
        "Failed, and not yet settled:\n- `uvicorn shop:app --reload` (exit 1)",
    );
    all.extend(background("make run-uvicorn", "b6"));
    let ended = "<status>failed</status>\n\n<exit_code>2</exit_code>";
    all.extend(output("b6", ended));
    assert_contains(&local(&all), "`make run-uvicorn` (exit 2)");
    all.extend(background("uvicorn shop.main:app --port 4009", "b5"));
    let told = local(&all);
    assert_lacks(&told, "Failed, and not yet settled");
    assert_lacks(&told, "gunicorn");
    assert_contains(
        &told,
        "- `uvicorn shop.main:app --port 4009`: started in the background (turn 1, call 11)",
    );
    // It had run until it was stopped.
    all.extend(stop("b5"));
    assert_lacks(&local(&all), "Failed, and not yet settled");
}

#[test]
fn a_service_that_does_not_answer_may_have_ended() {
    let mut all = vec![user("Try the page.")];
    all.extend(ran("npm run dev > log 2>&1 &", ""));
    all.extend(ran("timeout 5 npm start & sleep 1", ""));
    all.extend(ran("make list; npm run serve & sleep 3; kill $!", ""));
    let started = "- `npm run dev > log 2>&1`: started in the background (turn 1, call 1)";
    assert_contains(&local(&all), started);
    assert_lacks(&local(&all), "npm start");
    assert_lacks(&local(&all), "npm run serve");
    let refused = "Exit code 7\ncurl: (7) Failed to connect to localhost port 4001";
    all.extend(ran("curl -s http://localhost:4001/", refused));
    assert_contains(
        &local(&all),
        &format!("{started}; not known whether it still runs"),
    );
    all.extend(ran("curl -s http://localhost:4001/", "<html>"));
    assert_lacks(&local(&all), "still runs");
    // The same service again, with another option.
    all.extend(ran("npm run dev -- --host &", ""));
    let told = local(&all);
    assert_lacks(&told, started);
    assert_contains(
        &told,
        "- `npm run dev -- --host`: started in the background (turn 1, call 6)",
    );
}

#[test]
fn the_call_that_started_a_session_ends_with_it() {
    let running = "Chunk ID: a\nProcess running with session ID 7\nOutput:\n[sudo] password: ";
    let input = |chars: &str| json!({"session_id": 7, "chars": chars});
    let mut all = vec![user("Install it.")];
    all.extend(ran("sudo apt-get install -y jq", running));
    all.extend(called("write_stdin", input("x\n"), running));
    assert_contains(&local(&all), "jq`: started in the background");
    let ended = "Chunk ID: b\nProcess exited with code 100\nOutput:\nE: cannot fetch";
    all.extend(called("write_stdin", input(""), ended));
    let told = local(&all);
    assert_lacks(&told, "started in the background");
    assert_contains(&told, "`sudo apt-get install -y jq` (exit 100)");
}

#[test]
fn a_failure_is_settled_by_the_same_command_in_other_words() {
    let missing = "Exit code 127\nbash: line 1: python: command not found";
    let mut all = vec![user("Get it green.")];
    all.extend(ran("python -m pytest -q tests", missing));
    all.extend(ran(
        "bash -lc 'timeout 3 ./walk --slow'",
        "Exit code 254\nno permission",
    ));
    all.extend(ran("python tools/seed.py 2>&1", missing));
    assert_eq!(local(&all).matches("(exit ").count(), 3);
    all.extend(ran("ls", "a"));
    all.extend(ran(".venv/bin/python3.12 -m pytest -q tests", "3 passed in 0.1s"));
    all.extend(ran("cd . && sudo ./walk --slow", "walked"));
    all.extend(ran("python3 tools/seed.py", "seeded"));
    let told = local(&all);
    assert_lacks(&told, "Failed, and not yet settled");
    assert_eq!(told.matches("pytest").count(), 1, "{told}");
    // Questions to a program, or for permission, leave nothing open.
    for line in [
        "sudo -n true",
        "rospack find walker",
        "pip show walker",
        "systemctl status walker",
    ] {
        all.extend(ran(line, "Exit code 1\nnone"));
    }
    assert_lacks(&local(&all), "Failed, and not yet settled");
    // Other arguments, another program, and inline code are not the same.
    all.extend(ran("./walk --fast", "Exit code 1\nerror: too fast"));
    all.extend(ran("python3 -c 'import a'", "Exit code 1\nno module a"));
    for _ in 0..5 {
        all.extend(ran("ls", "a"));
    }
    all.extend(ran("./walk --slow", "walked"));
    all.extend(ran("python3 -c 'import b'", ""));
    let told = local(&all);
    assert_contains(&told, "> error: too fast");
    assert_contains(&told, "> no module a");
}

#[test]
fn an_attempt_is_over_when_others_succeeded_or_the_model_reported() {
    let edit = |path: &str, output: &str| {
        called(
            "Edit",
            json!({"file_path": path, "old_string": "a", "new_string": "b"}),
            output,
        )
    };
    let missing = "<tool_use_error>String to replace not found in file.</tool_use_error>";
    let open = |all: &[Value], name: &str| local(all).contains(name);
    // Another tool or a command changed the file, or three other edits succeeded.
    let mut all = vec![user("Rename it.")];
    all.extend(failing(edit("/w/shop.rs", missing)));
    assert!(open(&all, "- Edit /w/shop.rs: "));
    let mut by_command = all.clone();
    by_command.extend(ran("sed -i s/a/b/ shop.rs", ""));
    assert!(!open(&by_command, "- Edit /w/shop.rs: "));
    for n in 0..3 {
        assert!(open(&all, "- Edit /w/shop.rs: "), "{n}");
        all.extend(edit(&format!("/w/other{n}.rs"), "The file has been updated."));
    }
    assert!(!open(&all, "- Edit /w/shop.rs: "));
    // The shell ran nothing of a line that it could not read.
    all.extend(ran(
        "echo \"it's",
        "Exit code 2\nbash: -c: line 1: unexpected EOF while looking for matching `\"'",
    ));
    assert!(open(&all, "unexpected EOF"));
    all.extend(ran("ls", "a"));
    assert!(!open(&all, "unexpected EOF"));
    for line in ["hostname -I", "curl -sI http://localhost:4001/", "lsblk /dev/sda"] {
        all.extend(ran(line, "Exit code 1\nnone"));
    }
    assert!(!open(&all, "Failed, and not yet settled"));
    all.extend(failing(edit("/w/last.rs", missing)));
    all.extend(ran("python3 -c 'import zz'", "Exit code 1\nno module zz"));
    all.extend(ran("./walk.sh --all", "Exit code 3\nno route"));
    all.extend(ran(
        "cat Cargo.toml && cargo test",
        "Exit code 101\nerror: test failed",
    ));
    all.push(model("Nearly done: walk.sh finds no route."));
    let told = local(&all);
    assert_lacks(&told, "last.rs");
    assert_lacks(&told, "no module zz");
    for line in ["./walk.sh --all", "cargo test"] {
        assert_contains(&told, &format!("{line}` (exit "));
    }
    // Later only known commands and those that the last report names stay.
    all.extend(ran("./climb.sh", "Exit code 4\nno disk"));
    for words in ["And the page?", "And the logo?", "And the menu?"] {
        all.push(user(words));
        all.push(model("It is done; only walk.sh has to wait."));
    }
    let told = local(&all);
    assert_lacks(&told, "climb.sh");
    assert_contains(&told, "./walk.sh --all` (exit 3)");
    all.push(user("Thanks."));
    all.push(model("With pleasure."));
    let told = local(&all);
    assert_lacks(&told, "walk.sh --all");
    assert_contains(&told, "cargo test` (exit 101)");
}

#[test]
fn a_command_in_the_background_of_an_earlier_turn_may_have_ended() {
    let mut all = vec![user("Fill it.")];
    all.extend(background("npm install", "b1"));
    assert_lacks(&local(&all), "still runs");
    all.push(user("And the page?"));
    assert_contains(
        &local(&all),
        "`npm install`: started in the background (turn 1, call 1); not known whether it still runs",
    );
}
