//! Commands that the user ran in the agent's own shell, as agents report them to their models:
//! `user_shell.toml`.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;

use super::ending::{Evidence, LineEnd, is_judged, is_still_running, number_prefix};
use crate::text::table;

/// A command that the user ran, with its output. Some agents write the two as separate messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserShell<'t> {
    /// The command; `None` if the message is the output of the command before it.
    pub command: Option<Cow<'t, str>>,
    /// Output of the command; `None` if it is a separate message, or the command was stopped.
    pub printed: Option<Cow<'t, str>>,
    /// Exit code that the agent states.
    code: Option<i32>,
    /// Whether the agent shows that the command failed, without its exit code.
    failed: bool,
    /// Whether a missing exit code means zero.
    silence_is_zero: bool,
}

impl UserShell<'_> {
    /// Whether the agent reports that the command has ended.
    pub fn has_ended(&self) -> bool {
        self.code.is_some() || self.failed
    }

    /// Decides how the command ended.
    pub fn end(&self, command: &str) -> LineEnd {
        let text = self.printed.as_deref().unwrap_or_default();
        Evidence {
            command: Some(command),
            flag: self.failed.then_some(true),
            code: self.code,
            silence_is_zero: self.silence_is_zero && !is_judged(command, text) && !is_still_running(text),
            text,
        }
        .decide()
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Piece {
    Command,
    Code,
    /// Standard output.
    Output,
    /// Error output.
    Errors,
    Ignored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Escapes {
    Xml,
    Backslash,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct FormRow {
    marks: Vec<String>,
    pieces: Vec<Piece>,
    #[serde(default)]
    whole: bool,
    silent: Option<Vec<&'static str>>,
    escapes: Option<Escapes>,
}

/// All forms. The first one that fits counts.
static FORMS: LazyLock<Vec<FormRow>> = LazyLock::new(|| table::rows(include_str!("user_shell.toml")));

/// Reads the command at the start of a user-role message, and returns the text after it.
///
/// `backslashes` tells whether the agent escapes with them.
pub fn read(text: &str, backslashes: bool) -> Option<(UserShell<'_>, &str)> {
    let text = text.trim_start();
    FORMS.iter().find_map(|form| form.read(text, backslashes))
}

impl FormRow {
    fn read<'t>(&self, text: &'t str, backslashes: bool) -> Option<(UserShell<'t>, &'t str)> {
        let (first, marks) = self.marks.split_first()?;
        let mut rest = text.strip_prefix(first.as_str())?;
        let mut found = UserShell::default();
        let (mut output, mut errors) = (None, None);
        let escapes = self
            .escapes
            .filter(|escapes| *escapes == Escapes::Xml || backslashes);
        for (at, (mark, piece)) in marks.iter().zip(&self.pieces).enumerate() {
            let is_last = at + 1 == self.pieces.len();
            let end = match (is_last && self.whole, mark.as_str()) {
                (true, mark) => rest.trim_end().strip_suffix(mark)?.len(),
                (false, "") => rest.len(),
                // Output may contain the mark that ends it, unless it is escaped, so the last occurrence
                // counts.
                (false, mark) if is_last && matches!(piece, Piece::Output) && self.escapes.is_none() => {
                    memchr::memmem::rfind(rest.as_bytes(), mark.as_bytes())?
                }
                (false, mark) => memchr::memmem::find(rest.as_bytes(), mark.as_bytes())?,
            };
            let inside = &rest[..end];
            rest = &rest[end + mark.len()..];
            match piece {
                Piece::Command if escapes == Some(Escapes::Backslash) => {
                    found.command = Some(plain(inside.trim(), escapes));
                }
                Piece::Command => found.command = Some(inside.trim().into()),
                Piece::Code => found.code = Some(number_prefix(inside).0.parse().ok()?),
                Piece::Output => output = Some(plain(inside.trim_end(), escapes)),
                Piece::Errors => errors = Some(plain(inside.trim_end(), escapes)),
                Piece::Ignored => {}
            }
        }
        // An agent that puts errors into an element of their own leaves the output empty only if the command failed.
        let is_empty = |printed: &Option<Cow<'_, str>>| printed.as_deref().is_none_or(str::is_empty);
        found.failed = errors.is_some() && is_empty(&output);
        let is_silent = |all: &Vec<&str>| {
            let text = output.as_deref().unwrap_or_default();
            !all.iter().any(|begins| text.starts_with(begins))
        };
        found.silence_is_zero =
            self.silent.as_ref().is_some_and(is_silent) && is_empty(&errors) && !found.failed;
        found.printed = match (output, errors) {
            (Some(output), Some(errors)) if !output.is_empty() && !errors.is_empty() => {
                Some(format!("{output}\n{errors}").into())
            }
            (output, errors) => output
                .filter(|text| !text.is_empty() || errors.is_none())
                .or(errors),
        };
        let rest = if self.whole { rest.trim_end() } else { rest };
        Some((found, rest))
    }
}

/// Removes the agent's escapes.
fn plain(text: &str, escapes: Option<Escapes>) -> Cow<'_, str> {
    match escapes {
        // The ampersand comes last, because the user may have typed an escape.
        Some(Escapes::Xml) if text.contains('&') => text
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
            .into(),
        Some(Escapes::Backslash) if text.contains('\\') => {
            let mut out = String::with_capacity(text.len());
            let mut chars = text.chars().peekable();
            while let Some(c) = chars.next() {
                match (c, chars.peek()) {
                    ('\\', Some('\\' | '`')) => out.extend(chars.next()),
                    _ => out.push(c),
                }
            }
            out.into()
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages as the agents sent them (the versions of `tests/agents/versions.toml`), with the expected
    /// command, output and exit code.
    #[test]
    fn each_agents_form_is_read() {
        for (text, command, printed, code) in [
            (
                "<bash-input>echo 'a <b>'</bash-input>\n",
                Some("echo 'a <b>'"),
                None,
                None,
            ),
            (
                "<bash-stdout>a &lt;b&gt; &amp; c\nwarn</bash-stdout><bash-stderr></bash-stderr>",
                None,
                Some("a <b> & c\nwarn"),
                Some(0),
            ),
            (
                "<user_shell_command>\n<command>\nsh -c 'echo broken; exit 3'\n</command>\n<result>\nExit code: 3\nDuration: \
                 0.0086 seconds\nOutput:\nbroken\n\n</result>\n</user_shell_command>",
                Some("sh -c 'echo broken; exit 3'"),
                Some("broken"),
                Some(3),
            ),
            (
                "<user_shell_command>\n<command>\ntrue\n</command>\n<result>\nExit code: 0\nDuration: 0.0157 seconds\nOutput:\n\n\
                 </result>\n</user_shell_command>",
                Some("true"),
                Some(""),
                Some(0),
            ),
            (
                "I ran the following shell command:\n```sh\necho \\`date\\` \\\\n\n```\n\nThis produced the following result:\n```\na \
                 <b> & c\nwarn\n```",
                Some("echo `date` \\n"),
                Some("a <b> & c\nwarn"),
                Some(0),
            ),
            (
                "I ran the following shell command:\n```sh\nmake x\n```\n\nThis produced the following result:\n```\nCommand exited \
                 with code 3.\nbroken\n```",
                Some("make x"),
                Some("broken"),
                Some(3),
            ),
            (
                "I ran the following shell command:\n```sh\nmake x\n```\n\nThis produced the following result:\n```\nCommand was \
                 cancelled.\nbroken\n```",
                Some("make x"),
                Some("Command was cancelled.\nbroken"),
                None,
            ),
            (
                "Ran `echo a`\n```\na <b> & c\nwarn\n\n```",
                Some("echo a"),
                Some("a <b> & c\nwarn"),
                Some(0),
            ),
            (
                "Ran `make x`\n```\nbroken\n\n```\n\nCommand exited with code 3\n\n[Output truncated. Full output: /tmp/x]",
                Some("make x"),
                Some("broken"),
                Some(3),
            ),
            ("Ran `true`\n(no output)", Some("true"), Some(""), Some(0)),
            (
                "Ran `make x`\n(no output)\n\nCommand exited with code 1",
                Some("make x"),
                None,
                Some(1),
            ),
            (
                "Ran `make x`\n(no output)\n\n(command cancelled)",
                Some("make x"),
                None,
                None,
            ),
            (
                "I ran this command:\n\nmake x\n\nAnd got this output:\n\nbroken\n",
                Some("make x"),
                Some("broken"),
                None,
            ),
        ] {
            let (found, rest) = read(text, true).unwrap_or_else(|| panic!("{text}"));
            let end = found.end(found.command.as_deref().unwrap_or("echo"));
            assert_eq!(
                (
                    found.command.as_deref(),
                    found.printed.as_deref(),
                    end.code,
                    rest.trim()
                ),
                (command, printed, code, ""),
                "{text}"
            );
        }
    }

    #[test]
    fn claude_codes_failures_are_those_with_nothing_in_front_of_the_errors() {
        for (text, command, failed) in [
            (
                "<bash-stdout></bash-stdout><bash-stderr>broken\n</bash-stderr>",
                "make x",
                Some(true),
            ),
            (
                "<bash-stdout></bash-stdout><bash-stderr></bash-stderr>",
                "make x",
                Some(true),
            ),
            (
                "<bash-stderr>Command failed: no shell</bash-stderr>",
                "make x",
                Some(true),
            ),
            (
                "<bash-stdout>(Bash completed with no output)</bash-stdout><bash-stderr></bash-stderr>",
                "make x",
                Some(false),
            ),
            // The agent does not show exit code 1 of this command as a failure.
            (
                "<bash-stdout>(Bash completed with no output)</bash-stdout><bash-stderr></bash-stderr>",
                "grep x y",
                None,
            ),
            (
                "<bash-stdout>Command running in background with ID: b1</bash-stdout><bash-stderr></bash-stderr>",
                "make x",
                None,
            ),
        ] {
            let (found, _) = read(text, false).unwrap();
            assert_eq!(found.end(command).failed, failed, "{text}");
        }
    }

    #[test]
    fn a_users_words_are_no_command_and_follow_one() {
        for text in [
            "Ran `cargo test` and it fails.",
            "I ran the following shell command: make",
            "<bash-input>never closed",
            "Run `make`.",
            "",
        ] {
            assert_eq!(read(text, false), None, "{text}");
        }
        let both =
            "<bash-input>a</bash-input>\n<bash-stdout>1</bash-stdout><bash-stderr></bash-stderr>\nMend it.";
        let (first, rest) = read(both, false).unwrap();
        let (second, rest) = read(rest, false).unwrap();
        assert_eq!(
            (first.command.as_deref(), second.printed.as_deref()),
            (Some("a"), Some("1"))
        );
        assert_eq!(rest.trim(), "Mend it.");
        let fenced = "Ran `cat a.md`\n```\n```sh\nx\n```\nmore\n```";
        assert_eq!(
            read(fenced, false).unwrap().0.printed.as_deref(),
            Some("```sh\nx\n```\nmore")
        );
    }
}
