//! Splits a shell line into its commands.

use super::working_dirs::unparenthesised;
use crate::agents::command_table::WORDS;

/// Operator between a command and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandJoint {
    /// `&&`
    And,
    /// `;`, or a new line
    Then,
    /// `|`: the next command reads the output of this one.
    Pipe,
    /// `&`: the line does not wait for the command.
    Background,
    /// `||`, or a here-document: the code belongs to another command.
    Other,
    /// The end of the line.
    End,
}

/// A command of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'l> {
    pub(super) text: &'l str,
    /// The command without parentheses, assignments and prefixes.
    pub(super) plain: &'l str,
    /// The operator after the command.
    pub(super) joint: CommandJoint,
}

/// Splits a line into commands. Quotes are skipped and comments dropped. A here-document ends the line.
pub(super) fn steps(line: &str) -> Vec<Step<'_>> {
    let bytes = line.as_bytes();
    let mut out = Vec::new();
    let (mut start, mut at, mut quote) = (0, 0, None);
    let mut push = |from: usize, to: usize, joint| {
        let text = &line[from..to];
        if !text.trim().is_empty() {
            let plain = bare(unparenthesised(text));
            out.push(Step { text, plain, joint });
        }
    };
    while at < bytes.len() {
        let (b, next) = (bytes[at], bytes.get(at + 1).copied());
        let (joint, len) = match (quote, b, next) {
            (Some(open), ..) => {
                quote = (b != open).then_some(open);
                at += if b == b'\\' && open == b'"' { 2 } else { 1 };
                continue;
            }
            (None, b'\'' | b'"', _) => {
                quote = Some(b);
                at += 1;
                continue;
            }
            (_, b'\\', _) => {
                at += 2;
                continue;
            }
            // A comment reaches to the end of its line.
            (_, b'#', _) if at == start || bytes[at - 1].is_ascii_whitespace() => {
                push(start, at, CommandJoint::Then);
                at += memchr::memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
                start = at;
                continue;
            }
            // The text of a here-document is not a command, and its end is not searched for.
            (_, b'<', Some(b'<')) => {
                push(start, at, CommandJoint::Other);
                return out;
            }
            (_, b'&', Some(b'&')) => (CommandJoint::And, 2),
            (_, b'|', Some(b'|')) => (CommandJoint::Other, 2),
            (_, b'|', Some(b'&')) => (CommandJoint::Pipe, 2),
            (_, b'|', _) => (CommandJoint::Pipe, 1),
            // `2>&1`, `&>`
            (_, b'&', _) if at > 0 && bytes[at - 1] == b'>' || next == Some(b'>') => {
                at += 1;
                continue;
            }
            (_, b'&', _) => (CommandJoint::Background, 1),
            (_, b';' | b'\n', _) => (CommandJoint::Then, 1),
            _ => {
                at += 1;
                continue;
            }
        };
        push(start, at, joint);
        at += len;
        start = at;
    }
    push(start, line.len(), CommandJoint::End);
    // A separator at the end of the line joins nothing.
    if let Some(last) = out.last_mut()
        && last.joint == CommandJoint::Then
    {
        last.joint = CommandJoint::End;
    }
    out
}

/// Removes assignments and prefixes from a command.
pub(super) fn bare(command: &str) -> &str {
    let mut rest = command.trim().trim_start_matches(['(', '{', ' ']);
    loop {
        let word = rest.split_whitespace().next().unwrap_or_default();
        // `CI=1 make` runs `make`.
        if let Some((name, value)) = rest.split_once('=')
            && !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let quoted = quote.and_then(|quote| Some(value[1..].find(quote)? + 2));
            rest = value[quoted.unwrap_or(word.len() - name.len() - 1)..].trim_start();
            continue;
        }
        let first = word.bytes().next();
        let mut prefixes = WORDS
            .prefixes
            .iter()
            .filter(|prefix| prefix.bytes().next() == first);
        match prefixes.find_map(|prefix| after_words(rest, prefix)) {
            Some(tail) => rest = tail,
            None => return rest,
        }
    }
}

/// A program's name without its directory, its ending and its version: `.venv/bin/python3.12` is `python`.
pub(super) fn program(word: &str) -> &str {
    let name = word
        .trim_matches(['"', '\''])
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(word);
    let name = name
        .strip_suffix(".exe")
        .or(name.strip_suffix(".cmd"))
        .unwrap_or(name);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match plain {
        "python" | "pip" => plain,
        _ => name,
    }
}

fn after_words<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    words.split(' ').try_fold(text, |rest, word| {
        let after = match word {
            "*" => &rest[rest.find(char::is_whitespace)?..],
            word => rest.strip_prefix(word)?,
        };
        after.starts_with(char::is_whitespace).then(|| after.trim_start())
    })
}
