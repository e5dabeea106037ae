//! How a command ended: the agents' shell tools, and the form of the exit code in their results.
//!
//! The code is evidence in addition to the text and the error flag; `agents::ending` decides. A stated code
//! must be right, so an uncertain one counts as unknown.
//!
//! Taken from requests of Claude Code 2.1.330, Codex 0.169.0, Gemini CLI 0.61.0, goose 1.34.0, OpenCode
//! 1.18.33, pi 0.87.1 and Qwen Code 0.24.4 (`tests/golden/transcripts`). OpenCode's results state no code.

use super::agents::AgentKind;
use super::part::{ToolCall, ToolResult, TranscriptPart, TranscriptPartKind};
use crate::agents::ending::{self, Evidence, LineEnd, MAX_HEAD_LINES, is_still_running};
use crate::agents::may_run_commands;
use crate::agents::tools::{self, ToolKind};
use crate::agents::wordings;
use crate::text::{Span, json};

/// Claude Code's tool on Windows. Its exit code is that of the last program of a line.
const POWERSHELL: &str = "PowerShell";

struct ShellTool {
    agent: AgentKind,
    tools: &'static [&'static str],
    code_form: CodeForm,
    silent: MissingCode,
}

/// Position of the exit code in a result.
#[derive(Clone, Copy)]
enum CodeForm {
    /// After these words, at the start of a failed result.
    AtStart(&'static str),
    /// After `Process exited with code ` or `Exit code: `, on a line before `Output:`.
    InHead,
    /// After `Exit Code: `, on one of the labelled lines at the end.
    InLabels,
    /// After these words, on the last line.
    AtEnd(&'static str),
    /// In the member `exit_code`, if the result's only text is a JSON object.
    AsJson,
    /// The result states no code.
    Never,
}

/// Meaning of a result without an exit code.
#[derive(Clone, Copy)]
enum MissingCode {
    /// The code stays unknown.
    Unknown,
    /// Zero, unless the result is an error or its command still runs.
    Zero,
    /// Zero, except for commands whose exit code 1 the agent does not treat as a failure.
    ZeroUnlessJudged,
    /// Zero if the text begins with these words.
    ZeroAfter(&'static str),
}

const SHELLS: [ShellTool; 8] = {
    use AgentKind::{ClaudeCode, Codex, GeminiCli, Goose, OpenCode, Pi, QwenCode};
    use CodeForm::{AsJson, AtEnd, AtStart, InHead, InLabels, Never};
    use MissingCode::{Unknown, Zero, ZeroAfter, ZeroUnlessJudged};

    const CODEX: &[&str] = &[
        "exec_command",
        "write_stdin",
        "shell",
        "shell_command",
        "container.exec",
        "local_shell",
    ];
    const ENDS: &str = "Command exited with code ";
    [
        shell(
            ClaudeCode,
            &["Bash", POWERSHELL],
            AtStart("Exit code "),
            ZeroUnlessJudged,
        ),
        shell(Codex, CODEX, InHead, Unknown),
        shell(Codex, &["exec"], AsJson, Unknown),
        shell(GeminiCli, &["run_shell_command"], InLabels, ZeroAfter("Output: ")),
        shell(QwenCode, &["run_shell_command"], InLabels, Unknown),
        shell(Goose, &["shell", "developer__shell"], AtEnd(ENDS), Unknown),
        shell(Pi, &["bash"], AtEnd(ENDS), Zero),
        shell(OpenCode, &["bash"], Never, Unknown),
    ]
};

const fn shell(
    agent: AgentKind,
    tools: &'static [&'static str],
    code_form: CodeForm,
    silent: MissingCode,
) -> ShellTool {
    ShellTool {
        agent,
        tools,
        code_form,
        silent,
    }
}

/// Decides how a call ended, from the call and the part that answers it.
pub(super) fn end(
    agent: Option<AgentKind>,
    call: &ToolCall<'_>,
    answer: &TranscriptPart<'_>,
    result: &ToolResult<'_>,
) -> LineEnd {
    let name = call.name.map(|name| name.get()).unwrap_or_default();
    let shell = shell_of(agent, &name);
    let command = match ran(&name, call) {
        CallCommand::Command(command) => Some(command),
        CallCommand::Unknown => None,
        // The text of such a tool is the content of files or pages, which may mention any code.
        CallCommand::Nothing => return LineEnd::flagged(answer.exit(), result.error),
    };
    let texts = answer.texts();
    let all = match texts[..] {
        [text] => text.get(),
        _ => texts.iter().map(|text| text.get()).collect::<String>().into(),
    };
    // The wrapper would hide the first and the last line of the output.
    let text = all.strip_prefix("<untrusted_context>\n").unwrap_or(&all);
    let text = text.trim_end().trim_end_matches("</untrusted_context>");
    let stated = answer.exit();
    let code = match shell.map(|shell| shell.code_form) {
        _ if stated.is_some() => stated,
        // If several results state a code, none of them is certain.
        Some(CodeForm::AsJson) => {
            let mut codes = texts.iter().filter_map(|text| json_code(&text.get()));
            codes.next().filter(|_| codes.next().is_none())
        }
        Some(form) => reported_code(form, text, result),
        None => json_code(text),
    };
    let evidence = Evidence {
        command: command.as_deref(),
        flag: result.error,
        code,
        silence_is_zero: shell.is_some_and(|shell| is_silent_zero(shell.silent, text, call, result)),
        text,
    };
    let end = LineEnd {
        is_of_last_program: name == POWERSHELL,
        ..evidence.decide()
    };
    match command {
        // A tool that runs no command has only its error flag as evidence.
        None if end.failed.is_none() && !end.reads_failed => LineEnd {
            failed: result.error,
            ..end
        },
        _ => end,
    }
}

/// Shell tool of this name.
///
/// Agents share some names but not the form of the result. Without an agent, a shared name is ambiguous:
/// `None`.
fn shell_of(agent: Option<AgentKind>, name: &str) -> Option<&'static ShellTool> {
    let mut known = SHELLS.iter().filter(|shell| shell.tools.contains(&name));
    match agent {
        Some(agent) => known.find(|shell| shell.agent == agent),
        None => known.next().filter(|_| known.next().is_none()),
    }
}

/// Command that a call may have run.
enum CallCommand {
    Command(String),
    /// The tool is in no table and may run anything.
    Unknown,
    /// The tool only reads, writes or searches.
    Nothing,
}

fn ran(name: &str, call: &ToolCall<'_>) -> CallCommand {
    if !may_run_commands(name) {
        return CallCommand::Nothing;
    }
    let (inner, arguments) = tools::called(name.to_owned(), &call.given());
    match ToolKind::from_call(&inner, &arguments) {
        ToolKind::Shell => CallCommand::Command(tools::command(&arguments).unwrap_or_default()),
        ToolKind::Other if may_run_commands(&inner) => CallCommand::Unknown,
        _ => CallCommand::Nothing,
    }
}

fn reported_code(codes: CodeForm, text: &str, result: &ToolResult<'_>) -> Option<i32> {
    match codes {
        // Without the error flag, the words are output of the command.
        CodeForm::AtStart(words) => number(text.strip_prefix(words).filter(|_| result.error == Some(true))?),
        CodeForm::InHead => in_head(text).or_else(|| json_code(text)),
        CodeForm::InLabels => in_labels(text),
        CodeForm::AtEnd(words) => number(text.trim_end().lines().next_back()?.strip_prefix(words)?),
        CodeForm::AsJson | CodeForm::Never => None,
    }
}

fn is_silent_zero(silent: MissingCode, text: &str, call: &ToolCall<'_>, result: &ToolResult<'_>) -> bool {
    let runs = is_still_running(text);
    let failed = result.error == Some(true);
    let zero = match silent {
        MissingCode::Unknown => false,
        MissingCode::Zero => result.error == Some(false),
        MissingCode::ZeroUnlessJudged => result.error == Some(false) && !is_judged(call, text),
        // Gemini CLI reports a signal or a start error in a label, and without a code.
        MissingCode::ZeroAfter(words) => {
            text.starts_with(words) && !has_label(text, &["Signal: ", "Error: "])
        }
    };
    zero && !runs && !failed
}

/// Whether the agent judges the exit code of one of the commands. An unknown command counts as judged.
fn is_judged(call: &ToolCall<'_>, text: &str) -> bool {
    let command = call.arguments.and_then(|all| all.named("command"));
    let is_powershell = call.named() == POWERSHELL;
    command.is_none_or(|command| match is_powershell {
        true => ending::is_judged_in_powershell(&command),
        false => ending::is_judged(&command, wordings::before_reminders(text)),
    })
}

/// The code from the lines before the output, as Codex writes them.
fn in_head(text: &str) -> Option<i32> {
    let head = text
        .lines()
        .take(MAX_HEAD_LINES)
        .take_while(|line| *line != "Output:");
    let words = ["Process exited with code ", "Exit code: "];
    head.filter_map(|line| words.iter().find_map(|words| line.strip_prefix(words)))
        .find_map(number)
}

/// Labels of the lines after the output, as Gemini CLI and its forks write them.
const LABELS: [&str; 5] = [
    "Error: ",
    "Exit Code: ",
    "Signal: ",
    "Background PIDs: ",
    "Process Group PGID: ",
];

fn labelled(text: &str) -> impl Iterator<Item = &str> {
    // From the end: the command's output may contain such a line itself.
    let lines = text.trim_end().lines().rev();
    lines.take_while(|line| LABELS.iter().any(|label| line.starts_with(label)))
}

fn in_labels(text: &str) -> Option<i32> {
    labelled(text).find_map(|line| number(line.strip_prefix("Exit Code: ")?))
}

fn has_label(text: &str, labels: &[&str]) -> bool {
    labelled(text).any(|line| labels.iter().any(|label| line.starts_with(label)))
}

impl TranscriptPart<'_> {
    /// The exit code that the wire itself carries.
    ///
    /// Gemini has a member for it; Responses has the outcome of the last command.
    pub fn exit(&self) -> Option<i32> {
        let TranscriptPartKind::Result(ToolResult { error, .. }) = self.kind else {
            return None;
        };
        let value = self.said[0]?;
        if error.is_some() {
            return of_members(self.body, value);
        }
        let last = json::elements(self.body, value).pop()?;
        let code = json::at_path(self.body, last, &["outcome", "exit_code"])?;
        number(&code.text(self.body))
    }
}

/// Members that hold an exit code.
const CODE_MEMBERS: [&str; 4] = ["exit_code", "exitCode", "returncode", "return_code"];

/// The code in a member of Gemini's `response`, an object that the agent's tool defines.
fn of_members(body: &[u8], object: Span) -> Option<i32> {
    let named = json::pick(body, object, CODE_MEMBERS);
    let code = named.into_iter().flatten().next()?;
    number(&code.text(body))
}

/// The code in a JSON object or in its metadata.
fn json_code(text: &str) -> Option<i32> {
    let json = text.trim().as_bytes();
    let whole: Span = json::whole(json).ok().filter(|_| json.first() == Some(&b'{'))?;
    let named = json::pick(json, whole, CODE_MEMBERS);
    let code = named.into_iter().flatten().next();
    let code = code.or_else(|| json::at_path(json, whole, &["metadata", "exit_code"]))?;
    number(&code.text(json))
}

/// The number on the first line of `text`, if the line has nothing else.
fn number(text: &str) -> Option<i32> {
    text.lines().next()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_from_head_labels_and_last_line_and_nowhere_else() {
        assert_eq!(
            in_head("Chunk ID: 1\nProcess exited with code 3\nOutput:\nx"),
            Some(3)
        );
        assert_eq!(in_head("Chunk ID: 1\nOutput:\nProcess exited with code 3"), None);
        assert_eq!(
            in_head("Exit code: 127\nWall time: 0 seconds\nOutput:\n"),
            Some(127)
        );
        assert_eq!(
            in_labels("Output: a\nError: (none)\nExit Code: -1\nSignal: (none)"),
            Some(-1)
        );
        assert_eq!(in_labels("Exit Code: 3\nof another program"), None);
        assert_eq!(in_labels("Output: x\nExit Code: (none)\nSignal: 9"), None);
        assert_eq!(json_code(r#"{"output":"x","metadata":{"exit_code":2}}"#), Some(2));
        assert_eq!(json_code(r#"{"exit_code":null}"#), None);
        assert_eq!(number("3 of 4"), None);
    }
}
