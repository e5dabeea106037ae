//! An agent's own session file: one JSON object a line, as Claude Code, Codex, pi, Gemini CLI and Qwen Code write them, and the
//! plain form `{"role": …, "content": …}`. Lines come one at a time, and what is not JSON is counted and skipped.
//!
//! The *last* words of the model are what the text rules read. Calls tell which files were changed, and results which
//! checks failed and have not passed since.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::model::HandoffFile;
use super::session_usage::{self, SessionUsage};
use super::text::{one_line, shortened};
use super::text_rules::analyze;
use crate::agents::commands::{self, CommandPurpose};
use crate::agents::ending::{Evidence, LineEnd};
use crate::agents::files::{FileChange, patched};
use crate::agents::todo::{self, TodoState};
use crate::agents::tools::{self, ToolKind};
use crate::agents::wordings::{self, UserText};
use crate::redact::Redactor;

/// Bytes of a line that is read; longer ones are skipped.
pub const MAX_LINE_BYTES: usize = 10 << 20;

/// Blockers that errors make.
const BLOCKERS: usize = 3;

const ERROR_BYTES: usize = 200;

/// Files of a kind that are named, and items of a to-do list: a file has about 400 tokens, and the repository has the
/// rest.
const FILES: usize = 8;
const TODOS: usize = 5;

/// Bytes of an item of a to-do list.
const TODO_BYTES: usize = 120;

/// Reads a session file.
pub struct SessionReader<'r> {
    redactor: &'r Redactor,
    /// The folder that the session works in, where the file says so.
    pub folder: Option<String>,
    /// The agent, as the format has it: `cc`, `cod`, or empty.
    pub agent_type: &'static str,
    /// Lines that are not JSON or too long.
    pub skipped: usize,
    /// The use of the model's context at its end.
    pub usage: SessionUsage,
    last_reply: String,
    last_request: String,
    todos: Vec<todo::TodoItem>,
    calls: HashMap<String, PendingCall>,
    files: Vec<(String, FileChange)>,
    /// What failed and has not passed since: what it was about, with the error.
    failing: Vec<(String, String)>,
    test: Option<String>,
    /// The error that the session itself ended with.
    error: Option<String>,
}

/// A call that waits for its result.
struct PendingCall {
    kind: ToolKind,
    command: Option<String>,
    changed: Vec<(String, FileChange)>,
}

impl<'r> SessionReader<'r> {
    /// A reader that takes credentials out of whatever it keeps.
    pub fn new(redactor: &'r Redactor) -> Self {
        Self {
            redactor,
            folder: None,
            agent_type: "",
            skipped: 0,
            usage: SessionUsage::default(),
            last_reply: String::new(),
            last_request: String::new(),
            todos: Vec::new(),
            calls: HashMap::new(),
            files: Vec::new(),
            failing: Vec::new(),
            test: None,
            error: None,
        }
    }

    /// Takes a line.
    pub fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let entry = (line.len() <= MAX_LINE_BYTES).then(|| serde_json::from_slice::<Json>(line).ok());
        match entry.flatten() {
            Some(entry) if entry.is_object() => self.entry(&entry),
            _ => self.skipped += 1,
        }
    }

    /// Counts a line that was too long to buffer.
    pub fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Fills a file from the session. Values that the file has stay.
    pub fn finish(self, file: &mut HandoffFile) {
        let mut analysis = analyze(&self.redactor.cleaned(&self.last_reply));
        let mut errors: Vec<_> = self
            .failing
            .iter()
            .map(|(_, error)| self.redactor.cleaned(error))
            .collect();
        errors.extend(self.error.iter().map(|error| self.redactor.cleaned(error)));
        // The newest matter most.
        let old = errors.len().saturating_sub(BLOCKERS);
        for error in errors.drain(old..) {
            if !analysis.blockers.contains(&error) {
                analysis.blockers.push(error);
            }
        }
        let open = self
            .todos
            .iter()
            .filter(|todo| matches!(todo.state, TodoState::Active | TodoState::Pending));
        let mut open: Vec<_> = open.collect();
        open.sort_by_key(|todo| todo.state != TodoState::Active);
        let open: Vec<_> = open.iter().take(TODOS).map(|todo| self.item(todo)).collect();
        if analysis.next.is_empty() {
            analysis.next.clone_from(&open);
        }
        if analysis.now.is_empty() {
            analysis.now = open.first().cloned().unwrap_or_default();
        }
        if analysis.done.is_empty() {
            let done = self.todos.iter().filter(|todo| todo.state == TodoState::Done);
            // The last ones are the newest.
            let done: Vec<_> = done.map(|todo| self.item(todo)).collect();
            analysis.done = done[done.len().saturating_sub(TODOS)..].to_vec();
        }
        file.fill(analysis);
        if file.test.is_empty() {
            file.test = self
                .test
                .as_deref()
                .map(|test| self.redactor.cleaned(test))
                .unwrap_or_default();
        }
        if file.agent_type.is_empty() {
            self.agent_type.clone_into(&mut file.agent_type);
        }
        if (file.tokens_used, file.tokens_max) == (0, 0) {
            file.set_context(self.usage.tokens, self.usage.window);
        }
        self.name_files(file);
        file.infer_status();
        file.fall_back_to(&self.redactor.cleaned(&self.last_request));
    }

    fn name_files(&self, file: &mut HandoffFile) {
        for (path, change) in &self.files {
            let list = file.files.of(Some(*change));
            let path = self.relative(path);
            if list.len() < FILES && !list.contains(&path) {
                list.push(path);
            }
        }
        // A file that was made in the session is new, however often it was changed since.
        let created = file.files.created.clone();
        file.files.modified.retain(|path| !created.contains(path));
    }

    fn relative(&self, path: &str) -> String {
        let inside = self
            .folder
            .as_deref()
            .and_then(|folder| path.strip_prefix(folder)?.strip_prefix('/'));
        self.redactor.path(inside.unwrap_or(path)).into_owned()
    }

    fn item(&self, todo: &todo::TodoItem) -> String {
        shortened(&self.redactor.cleaned(&one_line(&todo.text)), TODO_BYTES)
    }

    fn entry(&mut self, entry: &Json) {
        let text = |key: &str| entry.get(key).and_then(Json::as_str);
        // A sub-agent's turns are not the session's.
        if entry.get("isSidechain") == Some(&Json::Bool(true)) {
            return;
        }
        if text("sessionId").is_some() && entry.pointer("/message/content").is_some() {
            self.agent_type = "cc";
        }
        if text("type") == Some("gemini") {
            self.agent_type = "gmi";
        }
        if let Some(error) = text("error") {
            self.error = Some(shortened(&one_line(error), ERROR_BYTES));
        }
        let payload = entry.get("payload").filter(|payload| payload.is_object());
        for place in [Some(entry), payload].into_iter().flatten() {
            if let Some(folder) = place.get("cwd").and_then(Json::as_str) {
                self.folder = Some(folder.trim_end_matches('/').to_owned());
            }
        }
        if payload.is_some() {
            self.agent_type = "cod";
        }
        if let Some(usage) = session_usage::of_line(entry) {
            self.usage = usage;
        }
        // Codex writes each message twice, the second time as an event.
        if text("type") == Some("event_msg") {
            return;
        }
        let message = entry.get("message").filter(|message| message.is_object());
        self.message(message.or(payload).unwrap_or(entry));
    }

    fn message(&mut self, message: &Json) {
        let text = |key: &str| message.get(key).and_then(Json::as_str).unwrap_or_default();
        let kind = text("type");
        if kind.ends_with("_call_output") {
            let output = message.get("output").unwrap_or(&Json::Null);
            return self.result(text("call_id"), &texts(output), None);
        }
        if kind.ends_with("_call") {
            let arguments = ["arguments", "input", "action"]
                .iter()
                .find_map(|key| message.get(key));
            let name = match text("name") {
                "" => kind.trim_end_matches("_call"),
                name => name,
            };
            return self.call(text("call_id"), name, arguments);
        }
        // Gemini CLI has the speaker as the type.
        match (text("role"), kind) {
            ("assistant" | "model", _) | ("", "gemini") => self.assistant(message),
            ("user", _) | ("", "user") => self.user(message),
            ("tool" | "toolResult", _) => {
                let id = [text("tool_call_id"), text("toolCallId")].concat();
                let failed = message.get("isError").and_then(Json::as_bool);
                let words = texts(message.get("content").unwrap_or(&Json::Null));
                self.result(&id, &words, failed);
            }
            _ => {}
        }
    }

    fn assistant(&mut self, message: &Json) {
        let content = content_of(message);
        let words = texts(content);
        self.reply(words);
        for block in content.as_array().into_iter().flatten() {
            if matches!(kind_of(block), "tool_use" | "toolCall" | "tool_call") {
                let arguments = ["input", "arguments"].iter().find_map(|key| block.get(key));
                self.call(member(block, "id"), member(block, "name"), arguments);
            }
        }
        let calls = message.get("tool_calls").and_then(Json::as_array);
        for call in calls.into_iter().flatten() {
            let inner = call.get("function").unwrap_or(call);
            self.call(member(call, "id"), member(inner, "name"), inner.get("arguments"));
        }
    }

    fn user(&mut self, message: &Json) {
        let content = content_of(message);
        let mut answers = false;
        for block in content.as_array().into_iter().flatten() {
            if kind_of(block) == "tool_result" {
                answers = true;
                let failed = block.get("is_error").and_then(Json::as_bool);
                let words = texts(block.get("content").unwrap_or(&Json::Null));
                self.result(member(block, "tool_use_id"), &words, failed.or(Some(false)));
            }
        }
        if !answers {
            self.question(&texts(content));
        }
    }

    /// Notes what the model wrote.
    pub(super) fn reply(&mut self, words: String) {
        if !words.trim().is_empty() {
            self.last_reply = words;
            self.error = None;
        }
    }

    /// Notes what the person requested.
    pub(super) fn question(&mut self, text: &str) {
        let text = text.trim();
        // What a harness puts there begins with a tag.
        let is_request = !text.starts_with(['<', '#']) && wordings::user_text(text, &[]) == UserText::Person;
        if !text.is_empty() && is_request {
            text.clone_into(&mut self.last_request);
        }
    }

    pub(super) fn call(&mut self, id: &str, name: &str, arguments: Option<&Json>) {
        let arguments = match arguments {
            Some(Json::String(text)) => tools::arguments(text),
            Some(arguments) => arguments.clone(),
            None => Json::Null,
        };
        let kind = ToolKind::of(name, &arguments);
        if kind == ToolKind::Todo {
            let list = todo::list(&arguments);
            if !list.is_empty() {
                self.todos = list;
            }
        }
        let command = tools::command(&arguments).filter(|_| kind == ToolKind::Shell);
        let mut changed = match kind {
            ToolKind::Shell => command.as_deref().map_or(Vec::new(), patched),
            ToolKind::Patch => tools::patch(&arguments).map_or(Vec::new(), patched),
            _ => Vec::new(),
        };
        if kind.changes() && changed.is_empty() {
            let change = match kind {
                ToolKind::Delete => FileChange::Deleted,
                _ => FileChange::Modified,
            };
            let paths = tools::paths(kind, &arguments);
            changed = paths.into_iter().map(|path| (path, change)).collect();
        }
        let call = PendingCall {
            kind,
            command,
            changed,
        };
        if id.is_empty() {
            // No result can name it.
            self.files.extend(call.changed);
        } else {
            self.calls.insert(id.to_owned(), call);
        }
    }

    pub(super) fn result(&mut self, id: &str, output: &str, failed: Option<bool>) {
        let Some(call) = self.calls.remove(id) else {
            return;
        };
        let evidence = Evidence {
            command: call.command.as_deref(),
            flag: failed,
            code: exit_of(output).filter(|_| call.kind == ToolKind::Shell),
            silence_is_zero: failed == Some(false),
            text: output,
        };
        let end = match call.kind {
            ToolKind::Shell => evidence.decide(),
            _ => LineEnd::default(),
        };
        if let Some(command) = &call.command {
            for run in commands::runs(command)
                .iter()
                .filter(|run| run.purpose.verifies())
            {
                self.checked(run.purpose, run.text, run.passed_or_flagged(&end), output);
            }
        }
        let failed = failed.unwrap_or(exit_of(output).is_some_and(|exit| exit != 0));
        for (path, change) in call.changed {
            self.failing.retain(|(about, _)| *about != path);
            if failed {
                let error = error_line(output);
                self.failing.push((path.clone(), format!("{path}: {error}")));
                continue;
            }
            let is_new = call.kind == ToolKind::Write && output.contains("created");
            self.files
                .push((path, if is_new { FileChange::Created } else { change }));
        }
    }

    /// Notes how a test, a build or a lint went.
    fn checked(&mut self, purpose: CommandPurpose, command: &str, passed: Option<bool>, output: &str) {
        match passed {
            Some(true) => {
                // A wider run that passes covers the narrower ones.
                self.failing.retain(|(about, _)| !about.starts_with(command));
                if purpose == CommandPurpose::Test || self.test.is_none() {
                    self.test = Some(command.to_owned());
                }
            }
            Some(false) => {
                self.failing.retain(|(about, _)| about != command);
                let error = error_line(output);
                self.failing
                    .push((command.to_owned(), format!("`{command}` failed: {error}")));
            }
            None => {}
        }
    }
}

fn member<'j>(value: &'j Json, key: &str) -> &'j str {
    value.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// The content of a message; Qwen Code's has parts.
fn content_of(message: &Json) -> &Json {
    let content = message.get("content").or_else(|| message.get("parts"));
    content.unwrap_or(&Json::Null)
}

fn kind_of(block: &Json) -> &str {
    member(block, "type")
}

/// The texts of a content: a string, or blocks.
fn texts(content: &Json) -> String {
    match content {
        Json::String(text) => text.clone(),
        Json::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| match block {
                Json::String(text) => Some(text.as_str()),
                block => match kind_of(block) {
                    "text" | "output_text" | "input_text" | "" => block.get("text").and_then(Json::as_str),
                    _ => None,
                },
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Json::Object(_) => ["content", "output", "text"]
            .iter()
            .find_map(|key| content.get(key))
            .map_or(String::new(), texts),
        _ => String::new(),
    }
}

/// The exit code in a result.
fn exit_of(output: &str) -> Option<i32> {
    /// How the agents say it, at the beginning of a line.
    const WORDS: [&str; 4] = [
        "Exit code ",
        "Exit code: ",
        "Process exited with code ",
        "exit code: ",
    ];
    let number = output.lines().take(5).find_map(|line| {
        let rest = WORDS.iter().find_map(|words| line.strip_prefix(words))?;
        rest.trim().parse().ok()
    });
    // Older versions of Codex have the output in a JSON object.
    let in_json = || {
        let value: Json = serde_json::from_str(output).ok()?;
        let code = value.pointer("/metadata/exit_code")?.as_i64()?;
        i32::try_from(code).ok()
    };
    number.or_else(in_json)
}

/// The line of an output that says what went wrong.
fn error_line(output: &str) -> String {
    let is_head = |line: &&str| !line.starts_with("Exit code") && !line.trim().is_empty();
    let has_error = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["error", "failed", "panicked", "fail:"]
            .iter()
            .any(|word| line.contains(word))
    };
    let mut lines = output.lines().filter(is_head);
    let line = lines.clone().find(has_error).or_else(|| lines.next());
    shortened(&one_line(line.unwrap_or("no output")), ERROR_BYTES)
}
