//! Commands in the background: their identities, and agents' reports of their end.

use serde_json::Value;

use crate::text::cut::cut;

/// Words before the identity of a command in the background: Claude Code, Codex.
const STARTED: [&str; 3] = [
    "background with ID: ",
    "background (ID: ",
    "Process running with session ID ",
];

/// Beginnings of Claude Code's reports on such a command, each with the element that names it.
const REPORTS: [(&str, &str); 2] = [
    ("<task-notification>", "task-id"),
    ("<retrieval_status>", "task_id"),
];

/// Maximum number of bytes to search, from the start.
const HEAD: usize = 2000;

/// Identity of the command that a result leaves in the background.
pub fn started(text: &str) -> Option<&str> {
    let head = cut(text, HEAD);
    let at = STARTED
        .iter()
        .find_map(|words| Some(head.find(words)? + words.len()))?;
    let id = head[at..]
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
        .next()?;
    Some(id).filter(|id| !id.is_empty())
}

/// Identity of the command whose output a call asks for; empty if the call stops the command.
pub fn asked(tool: &str, arguments: &Value) -> Option<String> {
    /// Tools of Codex and Claude Code, and the members of their arguments.
    const TOOLS: [&str; 5] = ["write_stdin", "TaskOutput", "BashOutput", "TaskStop", "KillShell"];
    const NAMES: [&str; 4] = ["session_id", "task_id", "bash_id", "shell_id"];
    let chars = arguments.get("chars").and_then(Value::as_str);
    let stops =
        matches!(tool, "TaskStop" | "KillShell") || chars.is_some_and(|chars| chars.contains('\u{3}'));
    let id = NAMES
        .iter()
        .find_map(|name| arguments.get(name))
        .filter(|_| TOOLS.contains(&tool))?;
    match id {
        _ if stops => Some(String::new()),
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// The command whose end Claude Code reports, with its exit code.
pub fn ended(text: &str) -> Option<(String, i32)> {
    let text = text.trim_start();
    let (_, name) = REPORTS.iter().find(|(begins, _)| text.starts_with(begins))?;
    let head = cut(text, HEAD);
    let id = head.split_once(&format!("<{name}>"))?.1.split('<').next()?;
    let code = head
        .split_once("<exit_code>")
        .or_else(|| head.split_once("(exit code "))?
        .1;
    let digits = code.split(['<', ')']).next()?;
    Some((id.to_owned(), digits.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_end_of_a_command_have_one_identity() {
        for (text, id) in [
            (
                "Command running in background with ID: b1. Output is being written to: /a.",
                Some("b1"),
            ),
            (
                "Command did not complete within its 9s timeout and was moved to the background (ID: b2).",
                Some("b2"),
            ),
            (
                "Chunk ID: 0\nProcess running with session ID 73\nOutput:\n",
                Some("73"),
            ),
            ("ok", None),
        ] {
            assert_eq!(started(text), id, "{text}");
        }
        for (text, end) in [
            (
                "<task-notification>\n<task-id>b1</task-id>\n<summary>Background command \"Build\" completed (exit code 0)</summary>",
                Some(("b1".to_owned(), 0)),
            ),
            (
                "<retrieval_status>success</retrieval_status>\n\n<task_id>b2</task_id>\n\n<exit_code>3</exit_code>",
                Some(("b2".to_owned(), 3)),
            ),
            (
                "<retrieval_status>timeout</retrieval_status>\n\n<task_id>b2</task_id>\n<status>running</status>",
                None,
            ),
            ("It completed (exit code 0)", None),
        ] {
            assert_eq!(ended(text), end, "{text}");
        }
        for (tool, arguments, id) in [
            (
                "write_stdin",
                serde_json::json!({"session_id": 73, "chars": ""}),
                Some("73"),
            ),
            (
                "write_stdin",
                serde_json::json!({"session_id": 73, "chars": "\u{3}"}),
                Some(""),
            ),
            (
                "TaskOutput",
                serde_json::json!({"task_id": "b1", "block": true}),
                Some("b1"),
            ),
            ("TaskStop", serde_json::json!({"task_id": "b1"}), Some("")),
            (
                "mcp__browser__click",
                serde_json::json!({"session_id": "b1"}),
                None,
            ),
        ] {
            assert_eq!(asked(tool, &arguments).as_deref(), id, "{tool} {arguments}");
        }
    }
}
