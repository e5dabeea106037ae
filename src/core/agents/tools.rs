//! Tools of the known agents, by their effect: `tools.toml`.

use crate::text::table;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Effect of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolKind {
    /// Runs a command.
    Shell,
    /// Reads files.
    Read,
    /// Writes a whole file.
    Write,
    /// Changes a file in places.
    Edit,
    /// Applies a patch, which names its files.
    Patch,
    /// Deletes a file.
    Delete,
    /// Searches for files, text or pages.
    Search,
    /// Keeps the to-do list.
    Todo,
    /// Asks the user.
    Ask,
    /// Lets another agent work.
    Agent,
    /// A tool of baton, which is not work on the task.
    Own,
    /// Reads, writes or edits, depending on an argument.
    Editor,
    /// Anything else.
    Other,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct ToolRow {
    kind: ToolKind,
    names: Vec<&'static str>,
}

/// Kind of each tool by its name.
static TOOLS: LazyLock<HashMap<&'static str, ToolKind>> = LazyLock::new(|| {
    let rows = table::rows::<ToolRow>(include_str!("tools.toml")).into_iter();
    let kinds = rows.flat_map(|row| row.names.into_iter().map(move |name| (name, row.kind)));
    kinds.collect()
});

/// Arguments that name one file, or a list of them.
const PATHS: [&str; 10] = [
    "file_path",
    "path",
    "absolute_path",
    "filePath",
    "notebook_path",
    "target_file",
    "filename",
    "paths",
    "file_paths",
    "files",
];

/// Arguments that hold a command.
const COMMANDS: [&str; 4] = ["command", "cmd", "commands", "script"];

/// Arguments that hold a patch.
const PATCHES: [&str; 4] = ["input", "patch", "patchText", "diff"];

/// Arguments that hold a search query.
const QUERIES: [&str; 5] = ["pattern", "query", "url", "regex", "prompt"];

/// Tools that ask the user to accept the model's plan.
pub const PLANS: [&str; 4] = ["ExitPlanMode", "exit_plan_mode", "plan_exit", "exitplanmode"];

impl ToolKind {
    /// Effect of the tool with this name and these arguments.
    ///
    /// Extensions and servers put their own name before it (`developer__shell`, `mcp__files__read_file`).
    pub fn from_call(name: &str, arguments: &Value) -> Self {
        let last = name.rsplit("__").next().unwrap_or(name);
        // goose keeps its list with `todo__write`, but a plain `write` is another tool.
        if name.starts_with("todo__") {
            return Self::Todo;
        }
        let Some(kind) = TOOLS.get(name).or_else(|| TOOLS.get(last)) else {
            return match takes_command(arguments) {
                true => Self::Shell,
                false => Self::Other,
            };
        };
        match *kind {
            Self::Editor => match arguments.get("command").and_then(Value::as_str) {
                Some("view") => Self::Read,
                Some("create" | "write") => Self::Write,
                Some("str_replace" | "insert" | "undo_edit" | "edit_file") => Self::Edit,
                _ => Self::Other,
            },
            kind => kind,
        }
    }

    /// Whether the tool changes files.
    pub fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Edit | Self::Patch | Self::Delete)
    }
}

/// Whether an unknown tool is called like a shell: with a command and without a file.
fn takes_command(arguments: &Value) -> bool {
    let command = ["command", "cmd"].iter().find_map(|key| arguments.get(key));
    let is_line =
        |value: &Value| value.is_string() || value.as_array().is_some_and(|words| !words.is_empty());
    command.is_some_and(is_line) && !PATHS.iter().any(|key| arguments.get(key).is_some())
}

/// Returns the tool of a call and its arguments, unwrapped from another tool that carries them.
///
/// Qwen Code calls the tools that it lists only on demand through `tool_call`.
pub fn called(name: String, arguments: &str) -> (String, Value) {
    let arguments = self::arguments(arguments);
    let inner = arguments.get("name").and_then(Value::as_str);
    let given = arguments.get("arguments").filter(|given| given.is_object());
    match (inner, given) {
        (Some(inner), Some(given)) if calls_through(&name) => (inner.to_owned(), given.clone()),
        _ => (name, arguments),
    }
}

/// Whether calls of this tool may wrap calls of another one.
pub fn calls_through(name: &str) -> bool {
    name == "tool_call"
}

/// Parses the arguments of a call: JSON, or the string of a tool that takes free text.
pub fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Files that a call names.
pub fn paths(kind: ToolKind, arguments: &Value) -> Vec<String> {
    let named = PATHS.iter().filter_map(|key| arguments.get(key));
    match kind {
        ToolKind::Shell | ToolKind::Search | ToolKind::Todo | ToolKind::Own => Vec::new(),
        _ => named.flat_map(strings).filter(|path| !path.is_empty()).collect(),
    }
}

fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(all) => {
            let text = |one: &Value| Some(one.as_str().or_else(|| one.get("path")?.as_str())?.to_owned());
            all.iter().filter_map(text).collect()
        }
        _ => Vec::new(),
    }
}

/// Command that a call runs, as a user would type it.
pub fn command(arguments: &Value) -> Option<String> {
    match COMMANDS.iter().find_map(|key| arguments.get(key))? {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words[..] {
                // `["bash", "-lc", "make"]` runs the last word.
                [shell, flag, command]
                    if shell.ends_with("sh") && flag.starts_with('-') && flag.ends_with('c') =>
                {
                    Some(command.to_owned())
                }
                [] => None,
                _ => Some(words.join(" ")),
            }
        }
        _ => None,
    }
}

/// Patch that a call applies.
pub fn patch(arguments: &Value) -> Option<&str> {
    let named = || PATCHES.iter().find_map(|key| arguments.get(key)?.as_str());
    // Codex passes a patch as free text.
    arguments.as_str().or_else(named)
}

/// Search query of a call, or its task for another agent.
pub fn query(arguments: &Value) -> Option<&str> {
    QUERIES.iter().find_map(|key| arguments.get(key)?.as_str())
}

/// Questions of a call to the user.
pub fn questions(arguments: &Value) -> Vec<String> {
    let one = |value: &Value| {
        let text = value.as_str().or_else(|| value.get("question")?.as_str())?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    match (arguments.get("questions"), arguments.get("question")) {
        (Some(Value::Array(all)), _) => all.iter().filter_map(one).collect(),
        (Some(text), _) | (None, Some(text)) => one(text).into_iter().collect(),
        (None, None) => Vec::new(),
    }
}

/// Arguments that name the directory of a command.
const FOLDERS: [&str; 5] = ["workdir", "cwd", "directory", "dir_path", "working_directory"];

/// Directory that a command runs in, if the call names it.
pub fn directory(arguments: &Value) -> Option<&str> {
    let named = FOLDERS.iter().find_map(|key| arguments.get(key)?.as_str());
    named.filter(|path| !path.is_empty())
}

/// Whole content that a call writes to a file.
pub fn contents(arguments: &Value) -> Option<&str> {
    let mut keys = ["content", "contents", "file_text"].iter();
    keys.find_map(|key| arguments.get(key)?.as_str())
}

/// Tools that start a new context. The agent omits earlier messages afterwards.
///
/// The names are those of Codex with its token budget (openai/codex#43709), of pi plugins that follow it, of
/// another pi plugin, and of Deep Agents.
///
/// Cline's `new_task` is not among them, because Roo Code and Kilo Code delegate a part of the work with a
/// tool of that name. Nor is `handoff`, which passes the conversation on to another agent in most frameworks.
const RESETS: [&str; 3] = [
    "new_context",
    "context_management_start_new_context",
    "compact_conversation",
];

/// Whether a tool of this name starts a new context.
pub fn resets_context(name: &str) -> bool {
    RESETS.contains(&name)
}

/// Names of the tools that start a new context.
pub fn context_resets() -> impl Iterator<Item = &'static str> {
    RESETS.into_iter()
}

/// Words in the names of tools that fetch stored data. Their results may mention any command.
const FETCHES: [&str; 22] = [
    "read", "view", "get", "show", "list", "search", "find", "fetch", "open", "log", "logs", "cat", "grep",
    "query", "load", "lookup", "browse", "download", "console", "messages", "requests", "snapshot",
];

/// Whether a tool of this name may run commands: a shell, or an unknown tool that does not fetch data.
pub fn may_run_commands(name: &str) -> bool {
    if calls_through(name) {
        return true;
    }
    match ToolKind::from_call(name, &Value::Null) {
        ToolKind::Shell => true,
        ToolKind::Other => {
            let last = name.rsplit("__").next().unwrap_or(name);
            let mut words = last.split(|c: char| !c.is_ascii_alphanumeric());
            !words.any(|word| FETCHES.contains(&word.to_ascii_lowercase().as_str()))
        }
        _ => false,
    }
}

/// Name of the tool that loads definitions (Claude Code since 2.1.304).
const SEARCH: &str = "ToolSearch";
/// Beginning of a query that names the tools.
const SELECT: &str = "select:";

/// Formats the line after a carry-over prompt that names the loaded tools; empty if there are none.
///
/// Their definitions were loaded only after a search, and a cut loses them.
pub fn line(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(",");
    format!(
        "\n\n<loaded-tools>Used before and not loaded now. One {SEARCH} call loads them: {SELECT}{names}</loaded-tools>"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_are_known_with_and_without_the_name_of_their_server() {
        for (name, arguments, kind) in [
            ("Bash", json!({}), ToolKind::Shell),
            ("developer__shell", json!({}), ToolKind::Shell),
            ("mcp__files__read_file", json!({}), ToolKind::Read),
            (
                "developer__text_editor",
                json!({"command": "view"}),
                ToolKind::Read,
            ),
            (
                "developer__text_editor",
                json!({"command": "str_replace"}),
                ToolKind::Edit,
            ),
            ("todo__write", json!({}), ToolKind::Todo),
            ("session_handoff", json!({}), ToolKind::Own),
            ("deploy", json!({}), ToolKind::Other),
        ] {
            assert_eq!(ToolKind::from_call(name, &arguments), kind, "{name}");
        }
    }

    #[test]
    fn a_call_through_another_tool_is_of_the_tool_that_it_names() {
        let call = json!({"name": "todo_write", "arguments": {"todos": []}});
        let called = |tool: &str, given: &Value| called(tool.to_owned(), &given.to_string());
        assert_eq!(
            called("tool_call", &call),
            ("todo_write".to_owned(), json!({"todos": []}))
        );
        assert_eq!(called("deploy", &call), ("deploy".to_owned(), call));
        let nameless = json!({"name": "todo_write"});
        assert_eq!(called("tool_call", &nameless), ("tool_call".to_owned(), nameless));
    }

    #[test]
    fn commands_and_paths_are_read_in_every_spelling() {
        let codex = json!({"command": ["bash", "-lc", "cargo test && ls"]});
        assert_eq!(command(&codex).unwrap(), "cargo test && ls");
        assert_eq!(command(&json!({"cmd": "ls -l"})).unwrap(), "ls -l");
        assert_eq!(command(&json!({"command": ["ls", "-l"]})).unwrap(), "ls -l");
        assert_eq!(command(&json!({"path": "x"})), None);
        assert_eq!(paths(ToolKind::Read, &json!({"paths": ["a", "b"]})), ["a", "b"]);
        assert_eq!(paths(ToolKind::Read, &json!({"files": [{"path": "a"}]})), ["a"]);
        assert_eq!(paths(ToolKind::Edit, &json!({"filePath": "x.rs"})), ["x.rs"]);
        assert_eq!(patch(&json!("*** Begin Patch")), Some("*** Begin Patch"));
        assert_eq!(
            questions(&json!({"questions": [{"question": "A?"}, {"question": "B?"}]})),
            ["A?", "B?"]
        );
        assert_eq!(questions(&json!({"question": "A?"})), ["A?"]);
        assert_eq!(directory(&json!({"cmd": "ls", "workdir": "/a"})), Some("/a"));
    }

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

    #[test]
    fn one_search_loads_all() {
        let names = ["WebFetch".to_owned(), "TodoWrite".to_owned()];
        assert!(line(&names).contains("ToolSearch call loads them: select:WebFetch,TodoWrite<"));
        assert_eq!(line(&[]), "");
    }
}
