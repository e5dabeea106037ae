//! Wordings of tool results.
//!
//! The lists cover calls that never ran, files that were changed or created, and the state that git reports.
//! Tools put such words at the start of a result or of a line.

use std::sync::LazyLock;

use serde::Deserialize;

use super::commands::without_git_directories;
use crate::text::cut::cut;
use crate::text::phrases::{Beginnings, Wordings};
use crate::text::table;

/// Lists of `outcomes.toml`, which explains each of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct OutcomeWordings {
    not_run: Beginnings,
    changed: Wordings,
    unchanged: Wordings,
    made: Wordings,
    overwritten: Wordings,
    unprepared: Wordings,
    preparing: Wordings,
    pub(super) cut_off: Wordings,
    pub(super) exit_names: Vec<&'static str>,
    pub(super) before_exit: Vec<&'static str>,
    head_lines: Vec<&'static str>,
    shortened: Vec<&'static str>,
    no_output: Vec<&'static str>,
    not_found: Vec<&'static str>,
    refused: Vec<&'static str>,
}

pub(super) static WORDINGS: LazyLock<OutcomeWordings> =
    LazyLock::new(|| table::read(include_str!("outcomes.toml")));

/// Number of bytes at the start of a result that are searched for such words.
const BEGINNING: usize = 400;

/// Whether a result reports a failed preparing command. The commands after it then did not run, or ran
/// elsewhere.
pub fn is_unprepared(text: &str) -> bool {
    /// Number of lines at each end that are searched, because shells report it at the start or at the end.
    const LINES: usize = 20;
    // A complaint comes after a colon, and few lines have one, so most are skipped cheaply.
    let says = |line: &str| {
        line.contains(": ") && WORDINGS.preparing.occur_in(line) && WORDINGS.unprepared.occur_in(line)
    };
    let lines = || text.lines().filter(|line| line.len() < 400);
    lines().take(LINES).any(says) || lines().rev().take(LINES).any(says)
}

/// A result without the lines that Codex puts before the output of a command, and Claude Code after it.
pub fn output(text: &str) -> &str {
    const RESET: &str = "Shell cwd was reset to ";
    let is_head = |line: &str| WORDINGS.head_lines.iter().any(|begins| line.starts_with(begins));
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap_or(("", text));
    let text = if last.starts_with(RESET) { before } else { text };
    if WORDINGS.no_output.contains(&text.trim()) {
        return "";
    }
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        match line.trim_end() {
            "Output:" if rest.len() < text.len() => return after,
            line if is_head(line) && !after.is_empty() => rest = after,
            _ => return text,
        }
    }
}

/// Whether a result lacks a part of the command's output, or reports that the command was stopped.
pub fn is_cut(text: &str) -> bool {
    /// Number of lines at the end that report it.
    const LAST: usize = 12;
    WORDINGS.shortened.iter().any(|words| text.contains(words))
        || WORDINGS.cut_off.occur_in(last_lines(text, LAST))
}

/// The last lines of a string.
fn last_lines(text: &str, count: usize) -> &str {
    let lines = text.strip_suffix('\n').unwrap_or(text);
    let mut breaks = memchr::memrchr_iter(b'\n', lines.as_bytes());
    let start = breaks.nth(count - 1).map_or(0, |at| at + 1);
    &text[start..]
}

/// Whether a program reports that a server did not answer.
pub fn refuses(text: &str) -> bool {
    WORDINGS.refused.iter().any(|words| text.contains(words))
}

/// Whether a shell reports that it did not find a program.
pub fn lacks_program(text: &str) -> bool {
    WORDINGS.not_found.iter().any(|words| text.contains(words))
}

/// The command of a script, if an output has nothing but the head that script runners print. An empty output has an empty
/// one.
pub fn script(output: &str) -> Option<&str> {
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    // `$ tsc --noEmit`, or `> name@1.0.0 lint` before `> tsc --noEmit`
    lines.try_fold("", |_, line| {
        line.strip_prefix("$ ").or_else(|| line.strip_prefix("> "))
    })
}

/// Whether a result reports that the call did not run.
pub fn is_not_run(text: &str) -> bool {
    let mut text = text.trim_start();
    while let Some(inside) = text.strip_prefix("<tool_use_error>") {
        text = inside;
    }
    WORDINGS.not_run.begin(text)
}

/// Whether a result begins with words of the one kind or of the other; `None` for neither or both.
fn says(text: &str, yes: &Wordings, no: &Wordings) -> Option<bool> {
    let text = cut(text, BEGINNING);
    match (yes.occur_in(text), no.occur_in(text)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// Whether the result of a file-changing tool reports a change; `None` if unclear.
pub fn changed(text: &str) -> Option<bool> {
    says(text, &WORDINGS.changed, &WORDINGS.unchanged)
}

/// Whether the write created a new file; `None` if the result does not tell.
pub fn made(text: &str) -> Option<bool> {
    says(text, &WORDINGS.made, &WORDINGS.overwritten)
}

/// Fact that git reported about the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitReport {
    /// The branch that is checked out.
    Branch(String),
    /// A commit was made and is checked out. The hash is as git wrote it.
    Committed(String),
    /// The commit that is checked out.
    Head(String),
    /// The working tree does not differ from the commit.
    Clean,
    /// Another branch may be checked out.
    Left,
}

/// Branch that a line of `git status` names.
fn status_branch(line: &str) -> Option<&str> {
    line.strip_prefix("On branch ").or_else(|| {
        let named = line.strip_prefix("## ")?;
        Some(named.split("...").next().unwrap_or(named))
    })
}

/// Branch that a line of `git checkout` or `git switch` names.
fn entered_branch(line: &str) -> Option<&str> {
    let switched = line.strip_prefix("Switched to a new branch '");
    let switched = switched.or_else(|| line.strip_prefix("Switched to branch '"));
    switched
        .or_else(|| line.strip_prefix("Already on '"))?
        .strip_suffix('\'')
}

/// Extracts the facts about the repository from a shell line's result, in order.
///
/// Only lines that git itself writes for these commands count.
pub fn git_reports(command: &str, text: &str) -> Vec<GitReport> {
    /// Maximum number of lines that are examined.
    const LINES: usize = 400;
    let command = &*without_git_directories(command);
    let mut found = Vec::new();
    // Lines count only for the command that prints them, because files and logs may quote them.
    let asks = |what: &str| command.contains(what);
    if !asks("git ") {
        return found;
    }
    // Gemini CLI and Qwen Code put this prefix before the first line.
    let lines = text
        .lines()
        .map(|line| line.strip_prefix("Output: ").unwrap_or(line));
    let moves = asks("git checkout") || asks("git switch");
    let (shows_status, commits) = (asks("git status"), asks("git commit"));
    let branch = |name: Option<&str>| {
        let name = name.filter(|name| is_name(name));
        name.map(|name| GitReport::Branch(name.to_owned()))
    };
    let may_report = shows_status || moves || commits;
    for line in lines.take(if may_report { LINES } else { 0 }) {
        if shows_status {
            found.extend(branch(status_branch(line)));
            if line.starts_with("nothing to commit, working tree clean") {
                found.push(GitReport::Clean);
            }
        }
        if moves {
            found.extend(branch(entered_branch(line)));
        }
        if commits && let Some((branch, hash)) = committed(line) {
            found.push(GitReport::Branch(branch));
            found.push(GitReport::Committed(hash));
        }
    }
    let has_branch = found.iter().any(|report| matches!(report, GitReport::Branch(_)));
    // `git checkout` of files reports paths and does not change the branch.
    let files = text.contains(" path from ") || text.contains(" paths from ");
    if moves && !has_branch && !files {
        found.push(GitReport::Left);
    }
    match command.trim() {
        "git rev-parse HEAD" => {
            let mut hashes = text
                .lines()
                .map(str::trim)
                // Only full hashes: other output may look like a short one.
                .filter(|line| line.len() == 40 && is_hash(line));
            found.extend(hashes.next().map(|hash| GitReport::Head(hash.to_owned())));
        }
        "git branch --show-current" => {
            found.extend(branch(text.lines().map(str::trim).rfind(|line| !line.is_empty())));
        }
        _ => {}
    }
    found
}

/// Parses `[main 1a2b3c4] subject` or `[main (root-commit) 1a2b3c4] subject`.
fn committed(line: &str) -> Option<(String, String)> {
    let (inside, _) = line.strip_prefix('[')?.split_once("] ")?;
    let mut words = inside.split(' ').filter(|word| *word != "(root-commit)");
    let (branch, hash) = (words.next()?, words.next()?);
    // Git abbreviates hashes to seven digits or more.
    (words.next().is_none() && is_name(branch) && hash.len() >= 7 && is_hash(hash))
        .then(|| (branch.to_owned(), hash.to_owned()))
}

/// Whether git reports a new commit in this line.
pub(super) fn names_commit(line: &str) -> bool {
    committed(line).is_some()
}

fn is_hash(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '#' | '+');
    !text.is_empty() && text.len() <= 200 && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_say_whether_a_file_was_changed_and_whether_it_is_new() {
        for (text, report, new) in [
            (
                "The file /a/b.rs has been updated successfully.",
                Some(true),
                Some(false),
            ),
            ("File created successfully at: /a/b.rs", Some(true), Some(true)),
            (
                "Successfully created and wrote to new file: /a",
                Some(true),
                Some(true),
            ),
            (
                "Exit code: 0\nOutput:\nSuccess. Updated the following files:\nM a",
                Some(true),
                None,
            ),
            (
                "apply_patch verification failed: no such lines",
                Some(false),
                None,
            ),
            ("Error: old_string not found", Some(false), None),
            ("ok", None, None),
        ] {
            assert_eq!((changed(text), made(text)), (report, new), "{text}");
        }
        assert!(is_not_run(
            "The user doesn't want to proceed with this tool use. It was rejected."
        ));
        assert!(!is_not_run("error: rejected by user input validation"));
    }

    #[test]
    fn the_lines_before_an_output_are_no_part_of_it() {
        let head = "Chunk ID: 3f\nWall time: 0.2 seconds\nProcess exited with code 2\nOriginal token count: 9\nOutput:";
        for (text, expected) in [
            (format!("{head}\nno such option"), "no such option"),
            (head.to_owned(), ""),
            ("Exit code: 1\nOutput:\nOutput:\nx".to_owned(), "Output:\nx"),
        ] {
            assert_eq!(output(&text), expected, "{text}");
        }
        for text in [
            "Output:\nx",
            "Wall time: 3 s\nx",
            "x\nExit code: 1\nOutput:\ny",
            "",
        ] {
            assert_eq!(output(text), text);
        }
    }

    #[test]
    fn a_failed_preparation_is_distinguished_from_a_failed_run() {
        for text in [
            "Exit code 1\n/bin/bash: line 3: cd: nowhere: No such file or directory",
            "sh: 1: cd: can't cd to nowhere",
            "zsh:cd:1: no such file or directory: x\ncd: no such file or directory: x",
            "mkdir: cannot create directory ‘build’: File exists",
            "bash: line 1: venv/bin/activate: No such file or directory",
        ] {
            assert!(is_unprepared(text), "{text}");
        }
        for text in [
            "bash: line 1: ruff: command not found",
            "E   FileNotFoundError: No such file or directory: 'a'",
            "1 failed in 0.02s",
        ] {
            assert!(!is_unprepared(text), "{text}");
        }
    }

    #[test]
    fn git_is_believed_where_it_speaks_for_itself() {
        use GitReport::{Branch, Clean, Committed, Head};
        let branch = |name: &str| Branch(name.to_owned());
        let status = "On branch main\nnothing to commit, working tree clean";
        assert_eq!(git_reports("git status", status), [branch("main"), Clean]);
        assert_eq!(
            git_reports("git status -sb", "## a/b...origin/a/b [ahead 1]\n M x"),
            [branch("a/b")]
        );
        assert_eq!(
            git_reports(
                "git add -A && git commit -m x",
                "[main (root-commit) 1a2b3c4] x\n 1 file changed"
            ),
            [branch("main"), Committed("1a2b3c4".to_owned())]
        );
        assert_eq!(
            git_reports("git checkout -b new", "Switched to a new branch 'new'"),
            [branch("new")]
        );
        assert_eq!(
            git_reports("git -C app switch -c new", "Switched to a new branch 'new'"),
            [branch("new")]
        );
        let hash = "a".repeat(40);
        assert_eq!(git_reports("git rev-parse HEAD", &hash), [Head(hash.clone())]);
        assert_eq!(
            git_reports(
                "git checkout -b x",
                "Directory: (root)\nOutput: Switched to a new branch 'x'"
            ),
            [branch("x")]
        );
        assert_eq!(git_reports("git checkout -q main", ""), [GitReport::Left]);
        assert!(git_reports("git checkout a.md", "Updated 1 path from the index").is_empty());
        assert!(git_reports("cat notes", status).is_empty());
        assert!(git_reports("git log", "[main 1a2b3c4] x").is_empty());
    }
}
