//! Which tools may run commands, by their names alone: an unknown tool may, unless it only fetches stored data.

use serde_json::Value;

use super::tools::{ToolKind, calls_through};

/// Words in the names of tools that fetch stored data: their results may mention any command.
const FETCHES: [&str; 18] = [
    "read", "view", "get", "show", "list", "search", "find", "fetch", "open", "log", "logs", "cat", "grep",
    "query", "load", "lookup", "browse", "download",
];

/// Whether a tool of this name may run commands: a shell, or one that no table knows and that does not fetch.
pub fn may_run_commands(name: &str) -> bool {
    if calls_through(name) {
        return true;
    }
    match ToolKind::of(name, &Value::Null) {
        ToolKind::Shell => true,
        ToolKind::Other => {
            let last = name.rsplit("__").next().unwrap_or(name);
            let mut words = last.split(|c: char| !c.is_ascii_alphanumeric());
            !words.any(|word| FETCHES.contains(&word.to_ascii_lowercase().as_str()))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fetches_runs_nothing() {
        for name in ["Bash", "run_thing", "mcp__x__exec", "tool_call", "workspace.run"] {
            assert!(may_run_commands(name), "{name}");
        }
        for name in [
            "Read",
            "get_job_log",
            "mcp__ci__fetch",
            "Grep",
            "TodoWrite",
            "search_docs",
        ] {
            assert!(!may_run_commands(name), "{name}");
        }
    }
}
