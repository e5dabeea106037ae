//! Commands that test, build, lint, or have lasting effects, and the meaning of a shell line's exit code for
//! each.

mod steps;
mod working_dirs;

use std::borrow::Cow;

use self::steps::{CommandJoint, steps};
pub use self::working_dirs::joined;
use self::working_dirs::{WorkingDirs, unparenthesised};
pub use super::command_table::CommandPurpose;
use super::command_table::WORDS;
use super::{command_table, targets};

/// A command of a shell line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand<'a> {
    /// Purpose of the command.
    pub purpose: CommandPurpose,
    /// The command as it was typed.
    pub text: &'a str,
    /// Whether the line's exit code 0 proves that this command succeeded.
    pub good_if_zero: bool,
    /// Whether it does although the output of a later command is filtered: `fmt && test | tail`.
    pub good_before_pipe: bool,
    /// Whether any other exit code proves that this command failed.
    pub bad_if_not: bool,
    /// Directory of the command, relative to that of the line's beginning; empty if they are the same.
    pub directory: String,
    /// Whether an earlier command of the line may have kept this one from running.
    pub is_chained: bool,
    /// Whether a later command of the line may change files.
    pub changes_after: bool,
    /// Whether the command itself rewrites files, as formatters do.
    pub rewrites: bool,
    /// Whether the line prints only the output of this command, because the others prepare, filter or are
    /// quiet.
    pub is_alone: bool,
    /// Whether the closing lines of the output are those of this command.
    ///
    /// The commands before it format, or have another purpose.
    pub closes: bool,
    /// The purpose of a later command of the line that only runs if this one succeeded.
    pub leads_to: Option<CommandPurpose>,
    /// The part of its output that the line shows.
    pub shown: ShownOutput,
}

/// The part of an output that the filters after it show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownOutput {
    /// All of it, with the exit code of the command.
    All,
    /// The end of it, or its lines of success and failure.
    Closing,
    /// All of it, if fewer than this many lines are shown.
    First(usize),
    /// Other lines.
    Other,
}

/// Lists the known commands of a shell line, in order.
pub fn runs(line: &str) -> Vec<ShellCommand<'_>> {
    let steps = steps(line);
    let plain = steps.iter().map(|(text, _)| bare(unparenthesised(text)));
    let plain: Vec<&str> = plain.collect();
    // With `set -e` a command runs only if those before it succeeded.
    let strict = plain
        .iter()
        .any(|step| step.starts_with("set -e") || step.starts_with("set -o errexit"));
    let hides = may_hide(line);
    let mut working_dirs = WorkingDirs::default();
    let mut found = Vec::new();
    for (at, (text, _)) in steps.iter().enumerate() {
        let directory = working_dirs.of_step(text, plain[at]);
        let Some(Purpose { of: purpose, is_own }) = purpose(plain[at]) else {
            continue;
        };
        // With `&&` up to the end, code 0 needs every command from here on. After `;` or `|` the code is that
        // of another command.
        let tail = &steps[at..];
        let good_if_zero = tail
            .iter()
            .all(|(_, joint)| matches!(joint, CommandJoint::And | CommandJoint::End));
        let is_filtered = |joint| matches!(joint, CommandJoint::And | CommandJoint::Pipe | CommandJoint::End);
        let good_before_pipe =
            steps[at].1 == CommandJoint::And && tail.iter().all(|(_, joint)| is_filtered(*joint));
        // Commands that never fail, or whose failure does not stop the line, may precede it.
        let before = (0..at).all(|i| match steps[i].1 {
            CommandJoint::Then => !strict || prepares(plain[i]),
            joint => joint == CommandJoint::And && prepares(plain[i]),
        });
        found.push(ShellCommand {
            purpose,
            text: unparenthesised(text),
            good_if_zero,
            good_before_pipe,
            bad_if_not: before && steps[at].1 == CommandJoint::End,
            directory,
            is_chained: at > 0,
            rewrites: purpose.verifies() && !is_own && !step_looks(plain[at]),
            shown: shown(&steps[at..], &plain[at + 1..]),
            is_alone: !hides && (0..steps.len()).all(|i| i == at || adds_nothing(&steps, i, plain[i])),
            closes: !hides
                && (0..steps.len()).all(|i| {
                    let is_other = || purpose_of(plain[i]).is_some_and(|of| of != purpose && of.verifies());
                    let leads =
                        i < at && steps[i].1 == CommandJoint::And && (formats(plain[i]) || is_other());
                    i == at || leads || adds_nothing(&steps, i, plain[i])
                }),
            leads_to: leads_to(&steps[at..], &plain[at..], purpose)
                .filter(|_| !hides && (0..at).all(|i| prepares(plain[i]) && steps[i].1 == CommandJoint::And)),
            changes_after: !plain[at + 1..].iter().all(|step| step_looks(step)),
        });
    }
    found
}

fn purpose_of(plain: &str) -> Option<CommandPurpose> {
    purpose(plain).map(|purpose| purpose.of)
}

/// Whether a command only formats files. It prints no closing line of success.
fn formats(plain: &str) -> bool {
    let mut first = plain.split_whitespace().take(3);
    first.any(|word| matches!(word, "fmt" | "format" | "gofmt"))
}

/// Purpose of the last command that `&&` joins to the first one, if its closing lines prove the first one's success.
///
/// They do not if the first command, or one in between, prints closing lines of the same kind.
fn leads_to(
    steps: &[(&str, CommandJoint)],
    plain: &[&str],
    purpose: CommandPurpose,
) -> Option<CommandPurpose> {
    let chained = steps.iter().take_while(|(_, joint)| *joint == CommandJoint::And);
    let and = chained.count();
    let last = purpose_of(plain.get(and).filter(|_| and > 0)?)?;
    let between = plain[1..and].iter().any(|step| purpose_of(step) == Some(last));
    let is_own = last == purpose && !formats(plain[0]);
    (!between && !is_own && last.verifies()).then_some(last)
}

/// How much the filters after a command show of its output. `steps` begins with the command.
fn shown(steps: &[(&str, CommandJoint)], filters: &[&str]) -> ShownOutput {
    let mut shown = ShownOutput::All;
    for ((_, joint), filter) in steps.iter().zip(filters) {
        let mut words = filter.split_whitespace();
        shown = match (joint, words.next().unwrap_or_default(), shown) {
            (CommandJoint::Pipe, _, ShownOutput::Other) => return shown,
            (CommandJoint::Pipe, "tail", ShownOutput::All | ShownOutput::Closing) => ShownOutput::Closing,
            (CommandJoint::Pipe, "grep" | "egrep" | "rg", ShownOutput::All | ShownOutput::Closing)
                if !filter.contains(" -v") && ["FAIL", "fail"].iter().any(|word| filter.contains(word)) =>
            {
                ShownOutput::Closing
            }
            (CommandJoint::Pipe, "head", ShownOutput::All | ShownOutput::Closing) => {
                let lines = words.find_map(|word| word.trim_start_matches(['-', 'n']).parse().ok());
                // Without a number, `head` shows ten lines.
                ShownOutput::First(lines.unwrap_or(10))
            }
            (CommandJoint::Pipe, ..) => ShownOutput::Other,
            _ => return shown,
        };
    }
    shown
}

/// Whether a command of a line prints only what another command of the line piped to it.
fn adds_nothing(steps: &[(&str, CommandJoint)], at: usize, plain: &str) -> bool {
    let name = name_of_program(plain);
    prepares(plain)
        || WORDS.quiet.contains(&name)
        || is_piped_into(steps, at) && WORDS.filters.contains(&name)
}

fn is_piped_into(steps: &[(&str, CommandJoint)], at: usize) -> bool {
    at.checked_sub(1)
        .is_some_and(|before| steps[before].1 == CommandJoint::Pipe)
}

fn name_of_program(plain: &str) -> &str {
    let first = plain.split_whitespace().next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first)
}

/// Whether a line prints stored text (files, logs, patches), which may mention any command.
pub fn prints_stored_text(line: &str) -> bool {
    let steps = steps(line);
    let prints = |(at, (text, _)): (usize, &(&str, CommandJoint))| {
        let plain = bare(unparenthesised(text));
        let name = name_of_program(plain);
        // These programs print stored text only with some of their subcommands.
        let stored = match name {
            "git" => plain
                .split_whitespace()
                .any(|word| WORDS.git_prints.contains(&word)),
            "docker" | "kubectl" | "podman" => plain.split_whitespace().any(|word| word == "logs"),
            _ => WORDS.prints.contains(&name) || WORDS.filters.contains(&name),
        };
        // At the end of a pipe, a program prints the output of the command before it.
        stored && !is_piped_into(&steps, at)
    };
    steps.iter().enumerate().any(prints)
}

/// Lists the program of each command of a line with its first argument, which is empty if absent.
pub fn programs(line: &str) -> Vec<[&str; 2]> {
    let steps = steps(line);
    let plain = steps.into_iter().map(|(text, _)| bare(unparenthesised(text)));
    let named = plain.map(|plain| {
        [
            name_of_program(plain),
            plain.split_whitespace().nth(1).unwrap_or_default(),
        ]
    });
    named.collect()
}

/// Whether a line certainly prints only its own words or none.
///
/// Builds and tests run code of the repository, which may print anything.
pub fn prints_own_text(line: &str) -> bool {
    // A line with one of these may print words that it does not contain as such, or the words of a reminder.
    const MAY_SPELL: [&str; 5] = ["$", "`", "\\", "<", "reminder"];
    let own = |text: &str| {
        let name = name_of_program(bare(unparenthesised(text)));
        matches!(name, "" | "cd") || WORDS.quiet.contains(&name)
    };
    let steps = steps(line);
    !may_hide(line)
        && !prints_stored_text(line)
        && !MAY_SPELL.iter().any(|sign| line.contains(sign))
        && steps.iter().all(|(text, _)| own(text))
}

/// Identity of a command: its words without assignments and prefixes before it and redirections after it.
pub fn name_of(command: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut words = bare(command).split_whitespace();
    while let Some(word) = words.next() {
        // The name of the file follows as a word of its own.
        if word.ends_with(['>', '<']) {
            words.next();
        } else if !word.contains(['>', '<']) && word != "&1" {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// Whether a line may run commands that are not recognised: in words, loops and branches, by another shell,
/// after a here-document.
pub fn may_hide(line: &str) -> bool {
    // In quotes, `for` and `if` are words of a message.
    WORDS.hiding.iter().any(|mark| line.contains(mark))
        || hidden_words(&without_quoted(line)).any(|word| WORDS.hides.contains(&word))
}

/// A line without the text in quotes.
fn without_quoted(line: &str) -> Cow<'_, str> {
    if !line.contains(['\'', '"']) {
        return line.into();
    }
    let (mut out, mut quote, mut is_escaped) = (String::with_capacity(line.len()), None, false);
    for c in line.chars() {
        match (c, quote) {
            _ if std::mem::take(&mut is_escaped) => {}
            ('\\', None | Some('"')) => is_escaped = true,
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) => quote = (c != open).then_some(open),
            (c, None) => out.push(c),
        }
    }
    // An open quote is a misread line, so nothing of it is left out.
    if quote.is_some() { line.into() } else { out.into() }
}

/// Replaces each quoted here-document that `cat` reads into a word (`git commit -m "$(cat <<'EOF' …`) by its first line
/// that is not blank.
///
/// The content of such a document is data. It may name commands that are not run.
pub fn without_texts(line: &str) -> Cow<'_, str> {
    const OPENS: &str = "$(cat <<'";
    let (mut out, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once(OPENS) {
        let parts = after.split_once("'\n").and_then(|(name, text)| {
            let (text, end) = text.split_once(&format!("\n{name}\n"))?;
            Some((text, end.trim_start().strip_prefix(')')?))
        });
        let Some((text, end)) = parts else { break };
        let first = text.lines().map(str::trim).find(|line| !line.is_empty());
        out.push_str(before);
        out.extend(
            first
                .unwrap_or_default()
                .chars()
                .filter(|c| !"\"'`$\\".contains(*c)),
        );
        rest = end;
    }
    match out.is_empty() {
        true => Cow::Borrowed(line),
        false => Cow::Owned(out + rest),
    }
}

/// Splits a line into words, including those inside quotes.
pub fn hidden_words(line: &str) -> impl Iterator<Item = &str> {
    let cut =
        |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '\'' | '"' | '`' | '$');
    line.split(cut).filter(|word| !word.is_empty())
}

/// Directory at the end of a line, relative to that at its beginning.
pub fn ends_in(line: &str) -> String {
    let mut working_dirs = WorkingDirs::default();
    for (text, _) in steps(line) {
        working_dirs.of_step(text, bare(text));
    }
    working_dirs.here
}

/// Name of the last command of a line, whose exit code is the line's.
pub fn last_command(line: &str) -> Option<&str> {
    let steps = steps(line);
    let (last, _) = steps.last()?;
    bare(last).split_whitespace().next()
}

/// Whether a shell line may remove files or restore older ones, by its words.
pub fn may_undo(line: &str) -> bool {
    let mut words = line.split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '/'));
    words.any(|word| WORDS.undoes.contains(&word))
}

/// Whether a shell line certainly changes no file of the work: it only reads, tests, builds or lints, and has
/// no redirection to a file. Unknown commands may change files.
pub fn is_read_only(line: &str) -> bool {
    // Commands inside words are not followed, and the reader of a here-document is unknown.
    let hidden = ["$(", "`", "<(", ">(", "<<"];
    !hidden.iter().any(|mark| line.contains(mark))
        && !redirects(line)
        && steps(line).iter().all(|(step, _)| step_looks(bare(step)))
}

/// Whether a line redirects output to a file.
fn redirects(line: &str) -> bool {
    let mut rest = line;
    while let Some(at) = rest.find('>') {
        rest = rest[at + 1..].trim_start_matches(['>', ' ']);
        // These redirections write no file.
        if !(rest.starts_with("&1") || rest.starts_with("&2") || rest.starts_with("/dev/null")) {
            return true;
        }
    }
    false
}

/// Whether a single command changes no file.
fn step_looks(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or(first);
    let rest: Vec<&str> = words.collect();
    let has = |some: &[&str]| rest.iter().any(|word| some.iter().any(|one| word == one));
    if let Some(row) = WORDS.looks_without.iter().find(|row| row.name == name) {
        // The suffix of the backup may follow the option without a blank, so the words are compared by their
        // beginning.
        let in_place = name == "sed"
            && rest
                .iter()
                .any(|word| word.starts_with("-i") || word.starts_with("--in-place"));
        return !has(&row.words) && !in_place;
    }
    match (name, purpose(command)) {
        ("git", _) => {
            let branches = rest.first() == Some(&"branch")
                && rest[1..].iter().all(|word| {
                    word.starts_with("-a") || word.starts_with("-v") || *word == "--show-current"
                });
            branches || rest.first().is_some_and(|word| WORDS.git_looks.contains(word))
        }
        // A script of the project may have other effects.
        (_, Some(Purpose { of, is_own: false })) if of.verifies() => {
            !(WORDS.rewrites.contains(&name) || has(&WORDS.rewrites)) || has(&WORDS.checks)
        }
        _ => WORDS.looks.contains(&name) || command.trim().is_empty(),
    }
}

/// Purpose of a single command.
struct Purpose {
    of: CommandPurpose,
    /// Whether the command is a script or a target of the project, recognized only by its name.
    is_own: bool,
}

fn purpose(command: &str) -> Option<Purpose> {
    let own = targets::purpose(command).map(|of| Purpose { of, is_own: true });
    // A target named after its purpose is more certain than the program, and the program more than a script
    // with an unknown purpose.
    match (own, table_purpose(command)) {
        (Some(own), known) if own.of != CommandPurpose::Script && known != Some(own.of) => Some(own),
        (_, Some(of)) => Some(Purpose { of, is_own: false }),
        (own, None) => own.or_else(|| purpose(&as_npm_script(command)?)),
    }
}

/// Rewrites `yarn build` and `pnpm lint` as `npm run build` and `npm run lint`.
fn as_npm_script(command: &str) -> Option<String> {
    let (first, rest) = command.trim().split_once(char::is_whitespace)?;
    let second = rest.split_whitespace().next()?;
    let is_script = matches!(first, "yarn" | "pnpm") && !matches!(second, "run" | "add" | "install" | "test");
    is_script.then(|| format!("npm run {rest}"))
}

/// Purpose of a command in the table.
fn table_purpose(command: &str) -> Option<CommandPurpose> {
    let mut words: Vec<&str> = command.split_whitespace().collect();
    let first = words.first_mut()?;
    *first = match first.rsplit('/').next().unwrap_or(first) {
        "gradlew" => "gradle",
        "mvnw" => "mvn",
        "pnpm" | "yarn" => "npm",
        "python3" => "python",
        other => other,
    };
    // `cargo +nightly test`
    if words.get(1).is_some_and(|word| word.starts_with('+')) {
        words.remove(1);
    }
    command_table::purpose(&words)
}

/// Whether a compiler prints nothing if it finds no error.
pub fn is_silent_if_good(command: &str) -> bool {
    let mut words = bare(command).split_whitespace();
    matches!(
        (words.next(), words.next()),
        (Some("go"), Some("build" | "vet")) | (Some("tsc"), _)
    )
}

/// Whether a command only prepares others. Without a message of its own, its failure cannot be distinguished
/// from that of the prepared command.
fn prepares(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    WORDS.prepare.contains(&first) && !command.contains('>') || first.is_empty()
}

/// Removes assignments and prefixes from a command.
fn bare(command: &str) -> &str {
    let mut rest = command.trim().trim_start_matches(['(', '{', ' ']);
    'again: loop {
        let word = rest.split_whitespace().next().unwrap_or_default();
        // `CI=1 make` runs `make`.
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        if is_assignment {
            rest = rest[word.len()..].trim_start();
            continue;
        }
        for prefix in &WORDS.prefixes {
            if let Some(tail) = after_words(rest, &prefix.words, prefix.more) {
                rest = tail;
                continue 'again;
            }
        }
        return rest;
    }
}

fn after_words<'a>(text: &'a str, words: &[&str], more: usize) -> Option<&'a str> {
    let mut rest = text;
    for word in words {
        rest = rest.strip_prefix(word)?;
        if !rest.starts_with(char::is_whitespace) {
            return None;
        }
        rest = rest.trim_start();
    }
    for _ in 0..more {
        rest = rest.split_once(char::is_whitespace)?.1.trim_start();
    }
    Some(rest)
}

#[cfg(test)]
mod tests;
