//! Statements of the working directory and the branch in an agent's system prompts and preambles.

use crate::text::cut::floor;

/// Text before a fact, and the text that ends it.
type Wording = (&'static str, &'static str);

/// Beginning of Claude Code's environment, and of its report that the shell has moved.
const CLAUDE_CODE: Wording = ("Primary working directory: ", "\n");

/// Statements of the directory: the agent, the wording at the start of a line, and the beginning of the element in a
/// user-role message that has it. Without an element it is the system prompt, which also quotes files of the project.
const STATEMENTS: [(&str, Wording, Option<&str>); 11] = [
    (
        "claude-code",
        CLAUDE_CODE,
        Some("<system-reminder>\n# Environment\n"),
    ),
    ("claude-code", CLAUDE_CODE, None),
    ("codex", ("<cwd>", "</cwd>"), Some("<environment_context>\n")),
    ("claude-code", ("Working directory: ", "\n"), None),
    ("opencode", ("Working directory: ", "\n"), None),
    ("pi", ("<cwd>", "</cwd>"), None),
    // An older form of its prompt.
    ("pi", ("Current working directory: ", "\n"), None),
    (
        "gemini-cli",
        // The first directory counts.
        ("**Workspace Directories:**\n  - ", "\n"),
        Some("<session_context>\n"),
    ),
    (
        "qwen-code",
        ("I'm currently working in the directory: ", "\n"),
        Some("<system-reminder>\nThis is the Qwen Code."),
    ),
    ("goose", ("Working directory: ", "\n"), Some("<info-msg>\n")),
    (
        "cline",
        ("# Current Working Directory (", ")"),
        Some("<environment_details>\n"),
    ),
];

/// Wording of the branch, in Claude Code's git status.
const BRANCH: Wording = ("Current branch: ", "\n");

/// Maximum length of a directory or a branch in bytes.
const MAX_VALUE_BYTES: usize = 1024;

/// Working directory that a message of an agent's harness states.
pub fn directory(text: &str) -> Option<&str> {
    let is_path = |path: &str| is_absolute(path) || path.starts_with('~');
    let mut stated = STATEMENTS.iter();
    let path = stated.find_map(|(_, wording, _)| text_after(text, *wording, is_path))?;
    Some(match path.trim_end_matches('/') {
        "" => path,
        path => path,
    })
}

/// Directories that an agent states in its own wording.
///
/// In an element the first one counts. In a system prompt all of them do, because files of the project may
/// come before or after it.
pub fn stated<'a>(agent: &str, text: &'a str, is_system: bool) -> Vec<&'a str> {
    let text = if is_system { text } else { text.trim_start() };
    let mut found = Vec::new();
    for (of, (before, end), element) in STATEMENTS {
        let is_there = match element {
            None => is_system,
            Some(begins) => !is_system && text.starts_with(begins),
        };
        if of != agent || !is_there {
            continue;
        }
        let places = memchr::memmem::find_iter(text.as_bytes(), before.as_bytes());
        // Within a line, the words may be a quotation.
        let own = places.filter(|at| {
            let line = text[..*at].rsplit('\n').next().unwrap_or_default();
            line.trim_start_matches([' ', '-', '\t']).is_empty()
        });
        let values = own.map(|at| value_at(&text[at + before.len()..], end));
        let values =
            values.filter(|value| !value.is_empty() && value.len() <= MAX_VALUE_BYTES && is_absolute(value));
        found.extend(values.take(if is_system { usize::MAX } else { 1 }));
    }
    found
}

/// Whether a path begins at a root.
pub fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || matches!(path.get(1..3), Some(":/" | ":\\"))
}

/// Directory that an agent's shell has moved to, according to a result (Claude Code).
pub fn moved_to(result: &str) -> Option<&str> {
    let at = memchr::memmem::rfind(result.as_bytes(), CLAUDE_CODE.0.as_bytes())?;
    let line = result[at + CLAUDE_CODE.0.len()..].lines().next()?;
    let (path, _) = line.split_once(" (was ")?;
    (path.starts_with('/') && path.len() <= MAX_VALUE_BYTES).then_some(path)
}

/// Branch that a message states as checked out.
pub fn branch(text: &str) -> Option<&str> {
    text_after(text, BRANCH, |name| !name.contains(char::is_whitespace))
}

/// Finds the first valid value of a wording. Other text may contain the same words.
fn text_after(text: &str, (before, end): Wording, fits: impl Fn(&str) -> bool) -> Option<&str> {
    let places = memchr::memmem::find_iter(text.as_bytes(), before.as_bytes());
    let mut values = places.map(|at| value_at(&text[at + before.len()..], end));
    values.find(|value| !value.is_empty() && value.len() <= MAX_VALUE_BYTES && fits(value))
}

/// Value before `end`. The search is limited to the longest value, so that each occurrence costs constant
/// time.
fn value_at<'a>(rest: &'a str, end: &str) -> &'a str {
    let near = &rest[..floor(rest, MAX_VALUE_BYTES + end.len() + 2)];
    near[..near.find(end).unwrap_or(near.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_say_where_they_work() {
        for (text, path) in [
            (
                "# Environment\n - Primary working directory: /home/dev/project\n - Is a git",
                "/home/dev/project",
            ),
            (
                "<environment_context>\n  <cwd>/home/dev/project/</cwd>",
                "/home/dev/project",
            ),
            ("<info-msg>\nIt is now\nWorking directory: /srv/a\n", "/srv/a"),
            ("Working directory: C:\\src", "C:\\src"),
            ("docs\n\n<cwd>\n/home/dev/project\n</cwd>", "/home/dev/project"),
            (
                "Give a Working directory: for each.\n<env>\n  Working directory: /srv/a\n</env>",
                "/srv/a",
            ),
            (
                "<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n  - /home/dev/project\n  - /srv/b\n- **Directory Structure:**\n",
                "/home/dev/project",
            ),
            (
                "<system-reminder>\nI'm currently working in the directory: /home/dev/project\nHere is",
                "/home/dev/project",
            ),
            (
                "# Current Working Directory (/home/dev/project) Files\na.rs",
                "/home/dev/project",
            ),
        ] {
            assert_eq!(directory(text), Some(path), "{text}");
        }
        assert_eq!(
            directory("Execute a command in the current working directory. Ret"),
            None
        );
        assert_eq!(directory("Working directory: a:\n"), None);
        let moved = "ok\n\n<system-reminder>\n# Environment update\n - Primary working directory: /a/b (was /a)\n</system-reminder>";
        assert_eq!(moved_to(moved), Some("/a/b"));
        assert_eq!(moved_to(" - Primary working directory: /a\n"), None);
        assert_eq!(
            branch("gitStatus: x\nCurrent branch: feat/a\n\nMain branch: main"),
            Some("feat/a")
        );
    }

    #[test]
    fn an_agent_states_its_directory_in_its_own_place_alone() {
        let claude = "<system-reminder>\n# Environment\n - Primary working directory: /a\n - Primary working directory: /b\n";
        #[rustfmt::skip]
        let table: &[(&str, &str, bool, &[&str])] = &[
            ("claude-code", claude, false, &["/a"]),
            ("claude-code", "<system-reminder>\nContents of CLAUDE.md:\n# Environment\n - Primary working directory: /b\n", false, &[]),
            ("claude-code", "<system-reminder>\n# Environment\nsay Primary working directory: /b\n", false, &[]),
            ("codex", claude, false, &[]),
            ("codex", "<environment_context>\n  <cwd>/a</cwd>\n", false, &["/a"]),
            ("codex", "<skills_instructions>\n  <cwd>/b</cwd>\n", false, &[]),
            ("codex", "<environment_context>\n  <cwd>/a</cwd>\n", true, &[]),
            ("opencode", "You are OpenCode\n<env>\n  Working directory: /a\n</env>\nPrimary working directory: /b\n", true, &["/a"]),
            ("opencode", "<env>\n  Working directory: /a\n</env>\nWorking directory: /b\n", true, &["/a", "/b"]),
            ("opencode", "Working directory: a:\nWorking directory: src\n", true, &[]),
            ("pi", "Primary working directory: /b\n<cwd>\n/a\n</cwd>", true, &["/a"]),
            ("gemini-cli", "<session_context>\n- **Workspace Directories:**\n  - /a\n", false, &["/a"]),
            ("qwen-code", "<system-reminder>\nThis is the Qwen Code. We\nI'm currently working in the directory: /a\n", false, &["/a"]),
            ("goose", "<info-msg>\nIt is now\nWorking directory: /a\n", false, &["/a"]),
            ("cline", "<environment_details>\n# Current Working Directory (/a) Files\n", false, &["/a"]),
            ("", claude, false, &[]),
        ];
        for (agent, text, is_system, expected) in table {
            assert_eq!(stated(agent, text, *is_system), *expected, "{agent}: {text}");
        }
    }
}
