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
    all.extend(background("uvicorn shop.main:app --port 4009", "b5"));
    let told = local(&all);
    assert_lacks(&told, "Failed, and not yet settled");
    assert_lacks(&told, "gunicorn");
    assert_contains(
        &told,
        "- `uvicorn shop.main:app --port 4009`: started in the background (turn 1, call 9)",
    );
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
