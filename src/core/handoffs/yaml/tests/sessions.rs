use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};

use super::super::{HandoffFile, LastWords, SessionReader};
use crate::handoffs::draft::carried;
use crate::handoffs::draft::tests::document;
use crate::handoffs::testing::draft_request;
use crate::redact::Redactor;
use crate::transcript::Transcript;
use crate::wire::{self, Operation};
use crate::work::{DraftIndex, DraftIndexSettings};

fn reader(lines: &[Json]) -> SessionReader {
    let mut reader = SessionReader::default();
    for line in lines {
        reader.entry(line);
    }
    reader
}

/// The file of a session, as `baton handoffs create --session-file` makes it.
fn read(lines: &[Json]) -> HandoffFile {
    let reader = reader(lines);
    let (wire, body) = reader.request();
    let mut file = HandoffFile::default();
    file.blockers.extend(reader.error);
    if let Ok(view) = wire::wire(wire).read(&body, Operation::Generate) {
        let transcript = Transcript::from_view(&view);
        let index = DraftIndex::from_transcript(DraftIndexSettings::default(), &transcript);
        let mut words = LastWords::from_transcript(&transcript, None);
        for words in [&mut words.model, &mut words.user] {
            *words = Redactor::new(&[]).cleaned(words);
        }
        let document = document(&index);
        file.fill_from_session(&words, Some(&document));
    }
    file.infer_status();
    file
}

/// A line of Claude Code.
fn claude(role: &str, content: Json) -> Json {
    json!({
        "type": role, "sessionId": "s", "cwd": "/src/app", "isSidechain": false, "timestamp": "2026-01-01T00:00:00Z",
        "message": {"role": role, "content": content},
    })
}

fn used(id: &str, name: &str, input: Json) -> Json {
    claude(
        "assistant",
        json!([{"type": "tool_use", "id": id, "name": name, "input": input}]),
    )
}

fn answered(id: &str, text: &str, failed: bool) -> Json {
    claude(
        "user",
        json!([{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}]),
    )
}

#[test]
fn a_claude_code_session_yields_files_checks_and_the_last_reply() {
    let file = read(&[
        json!({"type": "summary", "summary": "x", "leafUuid": "y"}),
        claude("user", json!("<system-reminder>x</system-reminder>")),
        claude("user", json!("Write the login")),
        claude(
            "assistant",
            json!([{"type": "text", "text": "Done: nothing yet"}]),
        ),
        used(
            "1",
            "Write",
            json!({"file_path": "/src/app/src/auth.rs", "content": "x"}),
        ),
        answered("1", "File created successfully at: /src/app/src/auth.rs", false),
        used(
            "2",
            "Edit",
            json!({"file_path": "/src/app/src/lib.rs", "old_string": "a", "new_string": "b"}),
        ),
        answered("2", "The file has been updated.", false),
        used(
            "3",
            "Edit",
            json!({"file_path": "/src/app/src/auth.rs", "old_string": "a", "new_string": "b"}),
        ),
        answered("3", "String to replace not found", true),
        used("4", "Bash", json!({"command": "cargo test auth"})),
        answered(
            "4",
            "Exit code 101\nrunning 2 tests\ntest login ... FAILED\n",
            true,
        ),
        used("5", "Bash", json!({"command": "cargo clippy"})),
        answered("5", "Finished", false),
        json!({"type": "assistant", "isSidechain": true, "sessionId": "s",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Done: a sub-agent's"}]}}),
        claude(
            "assistant",
            json!([{"type": "thinking", "thinking": "Done: thought"}, {"type": "text", "text": "Done: the form.\nNext: the cookie"}]),
        ),
    ]);
    assert_eq!(
        (file.goal.as_str(), file.now.as_str()),
        ("the form.", "the cookie")
    );
    assert_eq!(file.agent_type, "cc");
    assert_eq!(file.files.created, ["src/auth.rs"]);
    assert_eq!(file.files.modified, ["src/lib.rs"]);
    assert_eq!(file.blockers, ["`cargo test auth` ended with 101 in turn 1"]);
    assert_eq!(
        (file.status.as_str(), file.outcome.as_str()),
        ("blocked", "PARTIAL_MINUS")
    );
    assert_eq!(file.test, "cargo clippy");
}

#[test]
fn what_failed_and_passed_later_is_no_blocker() {
    let file = read(&[
        claude("user", json!("Write the login")),
        used("1", "Bash", json!({"command": "cargo test auth"})),
        answered("1", "Exit code 101\nerror: no", true),
        used("2", "Bash", json!({"command": "cargo test"})),
        answered("2", "ok", false),
        used("3", "Bash", json!({"command": "grep nothing here"})),
        answered("3", "Exit code 1", true),
        claude("assistant", json!("I've completed the login. Bye")),
    ]);
    assert_eq!(file.blockers, Vec::<String>::new());
    assert_eq!(
        (file.status.as_str(), file.test.as_str()),
        ("complete", "cargo test")
    );
    let mut many = vec![claude("user", json!("Write the login"))];
    for n in 0..6 {
        let id = n.to_string();
        many.push(used(&id, "Bash", json!({"command": format!("cargo test t{n}")})));
        many.push(answered(&id, &format!("Exit code 101\nerror: {n}"), true));
    }
    let blockers = read(&many).blockers;
    assert_eq!(blockers.len(), 3);
    assert_eq!(blockers[2], "`cargo test t5` ended with 101 in turn 1");
}

#[test]
fn a_session_of_codex_is_read() {
    let item = |payload: Json| json!({"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload});
    let file = read(&[
        json!({"type": "session_meta", "payload": {"id": "x", "cwd": "/src/app", "git": {"branch": "main"}}}),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]}),
        ),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mend the parser"}]}),
        ),
        item(json!({"type": "function_call", "name": "shell", "call_id": "1",
            "arguments": "{\"command\":[\"bash\",\"-lc\",\"cargo test\"]}"})),
        item(json!({"type": "function_call_output", "call_id": "1",
            "output": "{\"output\":\"test a ... FAILED\",\"metadata\":{\"exit_code\":101}}"})),
        item(
            json!({"type": "custom_tool_call", "name": "apply_patch", "call_id": "2",
            "input": "*** Begin Patch\n*** Add File: src/new.rs\n+x\n*** Delete File: src/old.rs\n*** Update File: a.rs\n*** End Patch"}),
        ),
        item(json!({"type": "custom_tool_call_output", "call_id": "2", "output": "Success"})),
        item(
            json!({"type": "function_call", "name": "update_plan", "call_id": "3",
            "arguments": "{\"plan\":[{\"step\":\"read\",\"status\":\"completed\"},{\"step\":\"mend\",\"status\":\"in_progress\"},{\"step\":\"test\",\"status\":\"pending\"}]}"}),
        ),
        item(json!({"type": "reasoning", "summary": []})),
        json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
            "last_token_usage": {"total_tokens": 50_000}, "model_context_window": 200_000}}}),
        json!({"type": "event_msg", "payload": {"type": "agent_message", "message": "Done: twice"}}),
        item(
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I am at it."}]}),
        ),
    ]);
    assert_eq!(file.agent_type, "cod");
    assert_eq!(file.files.created, ["src/new.rs"]);
    assert_eq!(file.files.deleted, ["src/old.rs"]);
    assert_eq!(file.files.modified, ["a.rs"]);
    assert_eq!(
        file.blockers,
        ["`cargo test` ended with 101 in turn 1; files changed after it"]
    );
    assert_eq!(file.next, ["mend (in progress)", "test"]);
    assert_eq!(file.now, "mend");
    assert_eq!(file.done_this_session[0].task, "read");
    // The session file does not state it.
    assert_eq!(file.goal, "Asked for: Mend the parser");
}

#[test]
fn a_session_of_pi_and_the_plain_form_are_read() {
    let file = read(&[
        json!({"type": "session", "version": 3, "id": "x", "cwd": "/src/app"}),
        json!({"type": "message", "id": "1", "message": {"role": "user", "content": [{"type": "text", "text": "go"}]}}),
        json!({"type": "message", "id": "2", "message": {"role": "assistant", "content": [
            {"type": "toolCall", "id": "c", "name": "write", "arguments": {"path": "/src/app/a.md", "content": "x"}},
            {"type": "toolCall", "id": "d", "name": "bash", "arguments": {"command": "npm test"}}]}}),
        json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "c", "toolName": "write", "isError": false,
            "content": [{"type": "text", "text": "ok"}]}}),
        json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "d", "toolName": "bash", "isError": true,
            "content": [{"type": "text", "text": "2 failed\n\nCommand exited with code 1"}]}}),
        json!({"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "✓ written"}]}}),
    ]);
    assert_eq!(file.goal, "written");
    assert_eq!(file.files.modified, ["a.md"]);
    assert_eq!(file.blockers, ["`npm test` ended with 1 in turn 1"]);
    let plain = read(&[
        json!({"role": "user", "content": "x"}),
        json!({"role": "assistant", "content": "Finished: a"}),
        json!({"error": "rate limited"}),
    ]);
    assert_eq!((plain.goal.as_str(), plain.blockers.len()), ("a", 1));
}

#[test]
fn a_session_works_in_the_directory_that_it_began_in() {
    let lines = ["/src/app", "/src/app/web"].map(|directory| json!({"cwd": directory}));
    assert_eq!(reader(&lines).directory.as_deref(), Some("/src/app"));
}

#[test]
fn a_session_that_ends_early_is_not_reported_as_done() {
    let file = read(&[claude("user", json!("Add retries"))]);
    assert_eq!(file.goal, "Asked for: Add retries");
    assert_eq!(file.now, "Go on with: Add retries");
    assert_eq!(file.status, "partial");
    let ran = claude("user", json!("Ran `make`\n```\nok\n```"));
    assert_eq!(read(&[claude("user", json!("Add retries")), ran]).goal, file.goal);
    assert_eq!(read(&[]), {
        let mut empty = HandoffFile::default();
        empty.infer_status();
        empty
    });
}

#[test]
fn credentials_stay_out() {
    let key = format!("sk-ant-{}-{}", "api03", "A1b2C3d4".repeat(12));
    let file = read(&[
        claude("user", json!(format!("use {key}"))),
        used(
            "1",
            "Bash",
            json!({"command": format!("API_KEY={key} cargo test")}),
        ),
        answered("1", &format!("Exit code 101\nerror: {key} refused"), true),
        claude(
            "assistant",
            json!(format!("Done: set {key}\nNext: rotate {key}\nError: {key}")),
        ),
    ]);
    assert!(!file.to_yaml().contains(&key), "{}", file.to_yaml());
    assert!(!file.blockers.is_empty() && file.goal.starts_with("set "));
}

/// A repeated message replaces itself; a list of messages replaces all.
#[test]
fn sessions_of_gemini_cli_and_qwen_code_are_read() {
    let call = json!({"id": "c", "name": "run_shell_command", "args": {"command": "cargo test"}});
    let answer = |failed: &str| {
        json!([{"functionResponse": {"id": "c", "name": "run_shell_command",
            "response": {"output": format!("Output: test a ... {failed}\nExit Code: 101")}}}])
    };
    let said = |id: &str, kind: &str, content: Json| json!({"id": id, "type": kind, "content": content});
    let asked = |text: &str| json!([{"text": text}]);
    let mut again = said("2", "gemini", json!("I test."));
    again["toolCalls"] = json!([call]);
    let lines = [
        json!({"sessionId": "s", "kind": "main"}),
        said("0", "user", asked("dropped")),
        json!({"$set": {"messages": [said("1", "user", asked("<session_context>\nThis is the Gemini CLI."))]}}),
        said("1", "user", asked("Mend the parser")),
        said("2", "gemini", json!("I test.")),
        again,
        said("3", "user", answer("FAILED")),
    ];
    let file = read(&lines);
    assert_eq!(file.goal, "Asked for: Mend the parser");
    assert_eq!(file.agent_type, "gmi");
    assert_eq!(file.blockers, ["`cargo test` ended with 101 in turn 1"]);
    let (_, request) = reader(&lines).request();
    let request = String::from_utf8(request.to_vec()).unwrap();
    assert_eq!(
        (request.matches("I test.").count(), request.contains("dropped")),
        (1, false)
    );
    let qwen = |role: &str, parts: Json| json!({"type": role, "message": {"role": role, "parts": parts}});
    let file = read(&[
        qwen("user", asked("Mend the parser")),
        qwen("model", json!([{"functionCall": call}])),
        qwen("user", answer("FAILED")),
        qwen("model", json!([{"text": "Done: the parser"}])),
    ]);
    assert_eq!((file.goal.as_str(), file.blockers.len()), ("the parser", 1));
}

#[test]
fn a_session_is_complete_if_its_draft_states_so() {
    let read = |closing: &[(&str, &str)]| {
        let (ask, path) = ("Oil both doors.", "/src/app/door.rs");
        let edit = json!({"file_path": path, "old_string": "a", "new_string": "b"});
        let mut lines = vec![
            claude("user", json!(ask)),
            used("1", "Edit", edit),
            answered("1", "updated", false),
        ];
        let said = |(role, text): &(&str, &str)| claude(role, json!([{"type": "text", "text": text}]));
        lines.extend(closing.iter().map(said));
        let reader = reader(&lines);
        let (wire, body) = reader.request();
        let view = wire::wire(wire).read(&body, Operation::Generate).unwrap();
        let transcript = Transcript::from_view(&view);
        let index = DraftIndex::from_transcript(DraftIndexSettings::default(), &transcript);
        let mut document = document(&index);
        document.prompt = carried(&index.local(&draft_request(4000)).unwrap());
        let mut file = HandoffFile::default();
        file.fill_from_session(&LastWords::from_transcript(&transcript, None), Some(&document));
        (file.status, file.outcome, file.now)
    };
    let now = |text: &str| text.to_owned();
    let open = (
        now("partial"),
        now("PARTIAL_PLUS"),
        now("Go on with: Oil both doors."),
    );
    let part = ("assistant", "I've completed the first door. One door remains.");
    assert_eq!(read(&[part]), open);
    // An acknowledgement is not the request.
    let part = ("assistant", "The second hinge is oiled.");
    assert_eq!(read(&[part, ("user", "continue"), part]), open);
    let (status, outcome, now) = read(&[("assistant", "I've completed both doors.")]);
    assert_eq!((&*status, &*outcome), ("complete", "SUCCEEDED"));
    assert!(!now.contains("Oil both doors"), "{now}");
}
