//! How agents state the working directory and the branch to their model, in system prompts and preambles.

/// What is in front of the folder, and what ends it. Claude Code, Codex, goose, OpenCode, pi, Gemini CLI, Qwen
/// Code.
const FOLDERS: [(&str, &str); 6] = [
    ("Primary working directory: ", "\n"),
    ("<cwd>", "</cwd>"),
    ("Working directory: ", "\n"),
    ("Current working directory: ", "\n"),
    ("I'm currently working in the directory: ", "\n"),
    ("Current Working Directory (", ")"),
];

/// The same of the branch: Claude Code's state of git.
const BRANCHES: [(&str, &str); 1] = [("Current branch: ", "\n")];

/// The longest of either, in bytes.
const MOST: usize = 1024;

/// The folder that a text of an agent's harness says the work is in.
pub fn folder(text: &str) -> Option<&str> {
    let is_path = |path: &&str| path.starts_with('/') || path.starts_with('~') || path.get(1..2) == Some(":");
    text_after(text, &FOLDERS)
        .filter(is_path)
        .map(|path| match path.trim_end_matches('/') {
            "" => path,
            path => path,
        })
}

/// The folder that an agent's shell has moved to, as a result says (Claude Code).
pub fn moved_to(result: &str) -> Option<&str> {
    let at = memchr::memmem::rfind(result.as_bytes(), FOLDERS[0].0.as_bytes())?;
    let line = result[at + FOLDERS[0].0.len()..].lines().next()?;
    let (path, _) = line.split_once(" (was ")?;
    (path.starts_with('/') && path.len() <= MOST).then_some(path)
}

/// The branch that it says is checked out.
pub fn branch(text: &str) -> Option<&str> {
    text_after(text, &BRANCHES).filter(|name| !name.contains(char::is_whitespace))
}

fn text_after<'a>(text: &'a str, words: &[(&str, &str)]) -> Option<&'a str> {
    words.iter().find_map(|(before, end)| {
        let at = memchr::memmem::find(text.as_bytes(), before.as_bytes())?;
        let rest = &text[at + before.len()..];
        let found = rest[..rest.find(end).unwrap_or(rest.len())].trim();
        (!found.is_empty() && found.len() <= MOST).then_some(found)
    })
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
        ] {
            assert_eq!(folder(text), Some(path), "{text}");
        }
        assert_eq!(
            folder("Execute a command in the current working directory. Ret"),
            None
        );
        let moved = "ok\n\n<system-reminder>\n# Environment update\n - Primary working directory: /a/b (was /a)\n</system-reminder>";
        assert_eq!(moved_to(moved), Some("/a/b"));
        assert_eq!(moved_to(" - Primary working directory: /a\n"), None);
        assert_eq!(
            branch("gitStatus: x\nCurrent branch: feat/a\n\nMain branch: main"),
            Some("feat/a")
        );
    }
}
