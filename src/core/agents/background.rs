//! Commands in the background: their identities, and agents' reports of their end.

use serde_json::Value;

use crate::text::cut::cut;

/// Words before the identity of a command in the background: Claude Code, Codex.
const STARTED: [&str; 3] = [
    "background with ID: ",
    "background (ID: ",
    "Process running with session ID ",
];

/// Beginnings of Claude Code's reports on such a command, each with the element that names it. The last one answers a call,
/// which names it.
const REPORTS: [(&str, &str); 3] = [
    ("<task-notification>", "task-id"),
    ("<retrieval_status>", "task_id"),
    ("<status>", ""),
];

/// Exit codes of commands that a signal stopped: interrupted, killed, terminated.
const SIGNALS: [i32; 3] = [130, 137, 143];

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

/// A call about a command in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundCall {
    /// Identity of the command.
    pub id: String,
    /// Whether the call stops the command. Otherwise it asks for output.
    pub stops: bool,
    /// Whether the call reads all of the file that Claude Code writes the output to.
    pub reads_file: bool,
}

/// Reads a call about a command in the background.
pub fn asked(tool: &str, arguments: &Value) -> Option<BackgroundCall> {
    /// Tools of Codex and Claude Code, and the members of their arguments.
    const TOOLS: [&str; 3] = ["write_stdin", "TaskOutput", "BashOutput"];
    const STOPS: [&str; 3] = ["TaskStop", "KillShell", "KillBash"];
    const NAMES: [&str; 4] = ["session_id", "task_id", "bash_id", "shell_id"];
    if let Some(id) = output_file(tool, arguments) {
        return Some(BackgroundCall {
            id: id.to_owned(),
            stops: false,
            reads_file: true,
        });
    }
    let stops = STOPS.contains(&tool);
    if !stops && !TOOLS.contains(&tool) {
        return None;
    }
    let id = NAMES.iter().find_map(|name| arguments.get(name))?;
    let id = match id {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => return None,
    };
    let chars = arguments.get("chars").and_then(Value::as_str);
    let is_interrupt = chars.is_some_and(|chars| chars.contains('\u{3}'));
    Some(BackgroundCall {
        id,
        stops: stops || is_interrupt,
        reads_file: false,
    })
}

/// Identity of the command whose whole output a call reads: `…/tasks/b1.output`.
fn output_file<'a>(tool: &str, arguments: &'a Value) -> Option<&'a str> {
    if tool != "Read" {
        return None;
    }
    let (directory, name) = arguments.get("file_path")?.as_str()?.rsplit_once(['/', '\\'])?;
    let is_part = || {
        let mut names = ["offset", "limit"].iter();
        names.any(|name| arguments.get(name).is_some())
    };
    name.strip_suffix(".output")
        .filter(|_| directory.ends_with("tasks") && !is_part())
}

/// The end of a command in the background, as Claude Code reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackgroundEnd {
    /// Identity of the command; `None` if only the call names it.
    pub id: Option<String>,
    /// The exit code; `None` if the command was stopped, or the report states no code.
    pub code: Option<i32>,
    /// The output, if the report quotes it.
    pub output: Option<String>,
    /// Whether this is only the output, and the command may still run.
    pub is_output: bool,
}

impl BackgroundEnd {
    /// An end with this code, which may be that of a signal.
    pub fn with(id: Option<String>, code: Option<i32>) -> Self {
        let code = code.filter(|code| !SIGNALS.contains(code));
        Self {
            id,
            code,
            ..Self::default()
        }
    }

    /// The output of a command, as `Read` shows its file with line numbers. `None` if it may be incomplete.
    pub fn with_file(id: String, shown: &str) -> Option<Self> {
        /// Number of lines that `Read` shows at most.
        const MAX_LINES: usize = 2000;
        let plain = |line: &'_ str| {
            let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
            rest.strip_prefix(['→', '\t']).unwrap_or(line).to_owned()
        };
        let lines: Vec<String> = shown.lines().map(plain).collect();
        (lines.len() < MAX_LINES).then(|| Self {
            id: Some(id),
            code: None,
            output: Some(lines.join("\n")),
            is_output: true,
        })
    }

    /// Reads a report. Returns `None` for any other text, and if the command still runs.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim_start();
        let (_, name) = REPORTS.iter().find(|(begins, _)| text.starts_with(begins))?;
        let head = cut(text, HEAD);
        let element = |name: &str| {
            let (_, inside) = head.split_once(&format!("<{name}>"))?;
            inside.split('<').next().map(str::trim)
        };
        let code = element("exit_code").or_else(|| {
            let (_, after) = head.split_once("exit code ")?;
            after.split([')', '<', '\n']).next().map(str::trim)
        });
        let code = code.and_then(|digits| digits.parse().ok());
        let has_ended = matches!(
            element("status"),
            Some("completed" | "failed" | "killed" | "stopped")
        );
        let output = text.split_once("<output>\n");
        let output = output.and_then(|(_, output)| output.rsplit_once("</output>"));
        (code.is_some() || has_ended).then(|| Self {
            output: output.map(|(output, _)| output.to_owned()),
            ..Self::with(element(name).map(str::to_owned), code)
        })
    }
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
                Some((Some("b1"), Some(0))),
            ),
            (
                "<retrieval_status>success</retrieval_status>\n\n<task_id>b2</task_id>\n\n<exit_code>3</exit_code>",
                Some((Some("b2"), Some(3))),
            ),
            (
                "<retrieval_status>timeout</retrieval_status>\n\n<task_id>b2</task_id>\n<status>running</status>",
                None,
            ),
            (
                "<task-notification>\n<task-id>b3</task-id>\n<status>killed</status>\n</task-notification>",
                Some((Some("b3"), None)),
            ),
            (
                "<task-notification>\n<task-id>b4</task-id>\n<status>failed</status>\n<summary>Background command \"Serve\" failed with exit code 143</summary>",
                Some((Some("b4"), None)),
            ),
            (
                "<status>failed</status>\n\n<exit_code>1</exit_code>\n\n<stderr>\nno such port\n</stderr>",
                Some((None, Some(1))),
            ),
            ("<status>running</status>\n\n<stdout>\nready\n</stdout>", None),
            ("It completed (exit code 0)", None),
        ] {
            let read = BackgroundEnd::read(text);
            let read = read.as_ref().map(|end| (end.id.as_deref(), end.code));
            assert_eq!(read, end, "{text}");
        }
        for (tool, arguments, id) in [
            (
                "write_stdin",
                serde_json::json!({"session_id": 73, "chars": ""}),
                Some(("73", false)),
            ),
            (
                "write_stdin",
                serde_json::json!({"session_id": 73, "chars": "\u{3}"}),
                Some(("73", true)),
            ),
            (
                "TaskOutput",
                serde_json::json!({"task_id": "b1", "block": true}),
                Some(("b1", false)),
            ),
            (
                "TaskStop",
                serde_json::json!({"task_id": "b1"}),
                Some(("b1", true)),
            ),
            (
                "KillBash",
                serde_json::json!({"shell_id": "b1"}),
                Some(("b1", true)),
            ),
            (
                "Read",
                serde_json::json!({"file_path": "/tmp/claude/-home-ada/tasks/b1.output"}),
                Some(("b1", false)),
            ),
            (
                "Read",
                serde_json::json!({"file_path": "/tmp/claude/-home-ada/tasks/b1.output", "limit": 9}),
                None,
            ),
            (
                "Read",
                serde_json::json!({"file_path": "/home/ada/b1.output"}),
                None,
            ),
            (
                "mcp__browser__click",
                serde_json::json!({"session_id": "b1"}),
                None,
            ),
        ] {
            let call = asked(tool, &arguments);
            let call = call.as_ref().map(|call| (&*call.id, call.stops));
            assert_eq!(call, id, "{tool} {arguments}");
        }
    }
}
