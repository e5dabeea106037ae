//! A single command: its name, its purpose, and whether it only reads, lists or asks.

use std::borrow::Cow;

use super::build_goals::by_main_goal;
use super::steps::{Step, bare, program, steps};
use crate::agents::command_table::{self, CommandPurpose, WORDS};
use crate::agents::targets;

/// Whether a shell line certainly changes no file of the work: it only reads, tests, builds or lints, and has
/// no redirection to a file. Unknown commands may change files.
pub fn is_read_only(line: &str) -> bool {
    // Commands inside words are not followed, and the reader of a here-document is unknown.
    let hidden = ["$(", "`", "<(", ">(", "<<"];
    !hidden.iter().any(|mark| line.contains(mark))
        && !redirects(line)
        && steps(line).iter().all(|step| step_looks(bare(step.text)))
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
pub(super) fn step_looks(command: &str) -> bool {
    let command = &*without_options(command);
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or(first);
    // This option of npm selects a workspace.
    let rest: Vec<&str> = words.filter(|word| name != "npm" || *word != "-w").collect();
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
    if name == "git" {
        return git_lists(command) || rest.first().is_some_and(|word| WORDS.git_looks.contains(word));
    }
    match purpose(command) {
        // A script of the project may have other effects.
        Some(Purpose { of, is_own: false }) if of.verifies() => {
            !(WORDS.rewrites.contains(&name) || has(&WORDS.rewrites)) || has(&WORDS.checks)
        }
        _ => WORDS.looks.contains(&name) || command.trim().is_empty(),
    }
}

/// Whether a git command only lists, or tries out a change.
fn git_lists(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let form = words.next().filter(|program| *program == "git").and_then(|_| {
        let name = words.next()?;
        WORDS.git_lists.iter().find(|form| form.name == name)
    });
    form.is_some_and(|form| {
        // An argument in quotes is a message or a name.
        let quoteless = without_quoted(command);
        let arguments: Vec<&str> = quoteless.split_whitespace().skip(2).collect();
        form.lists(&arguments) || form.bare && name_of(command).split(' ').nth(2).is_none()
    })
}

/// Whether a line only asks whether something is there, so that its failure is an answer.
///
/// The exit code is that of the last command: `… | grep` found nothing.
pub fn is_probe(line: &str) -> bool {
    let steps = steps(line);
    let plain = || {
        let texts = steps.iter().map(|step| step.text.trim());
        texts.map(|text| text.trim_start_matches(['(', '{', '!', ' ']))
    };
    let first = plain().find(|step| !prepares(step));
    // A recognized command after a probe may be the one that failed.
    let first = first.filter(|_| {
        !plain().any(|step| purpose(step).is_some_and(|purpose| purpose.of != CommandPurpose::Script))
    });
    let mut ends = first.into_iter().chain(plain().next_back());
    ends.any(probes)
}

fn probes(command: &str) -> bool {
    let plain = bare(command);
    // `command` is a prefix of others, and asks with an option.
    let command = if plain.starts_with('-') { command } else { plain };
    let name = name_of_program(command);
    let is_asked = match name {
        "command" => command
            .split_whitespace()
            .nth(1)
            .is_some_and(|word| matches!(word, "-v" | "-V")),
        "sed" => step_looks(command),
        _ => true,
    };
    let mut forms = WORDS.probes_with.iter().filter(|form| form.name == name);
    let mut words = command.split_whitespace().skip(1);
    is_asked && WORDS.probes.contains(&name)
        || words.next().is_some_and(|word| WORDS.probing.contains(&word))
        || forms.any(|form| command.split_whitespace().any(|word| form.words.contains(&word)))
        || asks(command)
}

/// The program of a line's first command that does not only prepare others, with its subcommand.
pub fn program_of(line: &str) -> Option<(&str, Option<&str>)> {
    let plain = steps(line)
        .into_iter()
        .map(|step| bare(step.text))
        .find(|text| !prepares(text))?;
    let is_name = |word: &&str| !word.starts_with('-');
    Some((
        program(plain.split_whitespace().next().unwrap_or_default()),
        plain.split_whitespace().nth(1).filter(is_name),
    ))
}

/// Whether a line passes a program to its interpreter: `python -c "…"`, `node - <<EOF`.
pub fn is_program(line: &str) -> bool {
    let is_inline = |step: &Step<'_>| {
        let mut words = bare(step.text).split_whitespace();
        words
            .next()
            .is_some_and(|word| WORDS.interpreters.contains(&program(word)))
            && words
                .next()
                .is_some_and(|word| matches!(word, "-c" | "-e" | "-" | "-r") || word.starts_with("<<"))
    };
    steps(line).iter().any(is_inline)
}

/// Whether a line of output is the complaint of a shell that could not read its command, and so ran nothing of it.
pub fn is_misread(line: &str) -> bool {
    let small = line.to_lowercase();
    is_by_shell(line) && WORDS.misread.iter().any(|words| small.contains(words))
        || small.contains("parsererror")
}

/// Whether a line of output begins with the name of a shell, as its complaints do.
pub fn is_by_shell(line: &str) -> bool {
    let name = program(line.split(':').next().unwrap_or_default());
    WORDS.shells.contains(&name)
}

/// The last command of a line that does more than print, filter or prepare, as [`name_of`] it.
///
/// `None` if it reads its program from the line, and so may be any.
pub fn aim(line: &str) -> Option<String> {
    const SHELLS: [&str; 4] = ["bash -lc ", "bash -c ", "sh -c ", "zsh -lc "];
    let plain = |text| {
        let plain = bare(text);
        let inner = SHELLS.iter().find_map(|shell| plain.strip_prefix(shell));
        inner.map_or(plain, |inner| inner.trim().trim_matches(['\'', '"']))
    };
    let acts = |text: &&str| {
        let name = name_of_program(text);
        !prepares(text) && !WORDS.quiet.contains(&name) && !WORDS.filters.contains(&name)
    };
    let all = steps(line);
    let outer = all.iter().map(|step| plain(step.text)).rfind(&acts)?;
    let inner = steps(outer).into_iter().map(|step| bare(step.text)).rfind(acts)?;
    let is_known = !line.contains("<<")
        && !inner
            .split_whitespace()
            .any(|word| matches!(word, "-c" | "-e" | "-"));
    is_known.then(|| name_of(inner))
}

/// Purpose of a single command.
pub(super) struct Purpose {
    pub(super) of: CommandPurpose,
    /// Whether the command is a script or a target of the project, recognized only by its name.
    pub(super) is_own: bool,
}

pub(super) fn purpose(command: &str) -> Option<Purpose> {
    let command = &*without_options(command);
    if git_lists(command) || restores_files(command) {
        return None;
    }
    let own = targets::purpose(command).map(|of| Purpose { of, is_own: true });
    // A target named after its purpose is more certain than the program, and the program more than a script
    // with an unknown purpose.
    match (own, table_purpose(command).or_else(|| changes_database(command))) {
        // A trial run changes nothing.
        (_, Some(CommandPurpose::Change | CommandPurpose::Migrate)) if tries_out(command) => None,
        (Some(own), known) if own.of != CommandPurpose::Script && known != Some(own.of) => Some(own),
        (_, Some(of)) => Some(Purpose { of, is_own: false }),
        (own, None) => own.or_else(|| run_by_manager(command)),
    }
}

/// Whether an option makes the command list its changes without making them.
fn tries_out(command: &str) -> bool {
    let is_trial = |word: &str| WORDS.tries_out.iter().any(|option| word.starts_with(option));
    command.split_whitespace().any(is_trial)
}

/// Whether the client of a database gets a statement that changes it, or a file of statements.
fn changes_database(command: &str) -> Option<CommandPurpose> {
    if !WORDS.databases.contains(&name_of_program(command)) {
        return None;
    }
    let reads_file = command.contains(" < ")
        || command
            .split_whitespace()
            .any(|word| matches!(word, "-f" | "--file"));
    let small = command.to_lowercase();
    let mut words = small.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    // MySQL shows the definition of a table with the words that make one.
    let changes = reads_file
        || !small.contains("show create") && words.any(|word| WORDS.database_changes.contains(&word));
    changes.then_some(CommandPurpose::Change)
}

/// Whether a git command brings back files instead of a branch.
fn restores_files(command: &str) -> bool {
    let arguments = command.strip_prefix("git checkout ").unwrap_or_default();
    let mut words = arguments.split_whitespace();
    // A version ends in a number and not in an extension: `git checkout release/1.2`.
    let is_file = |word: &str| {
        let extension = word
            .rsplit_once('.')
            .and_then(|(_, extension)| extension.chars().next());
        extension.is_some_and(char::is_alphabetic)
    };
    let is_all = |word: &str| matches!(word, "." | "--");
    !arguments.starts_with("-b") && words.any(|word| is_all(word) || is_file(word))
}

/// A command without options between its program and its subcommand, and with its main goal there: `git -C app commit`,
/// `pnpm --filter web test`, `mvn -q test`.
pub(super) fn without_options(command: &str) -> Cow<'_, str> {
    let by_goal = by_main_goal(command);
    let (first, rest) = by_goal.trim().split_once(char::is_whitespace).unwrap_or_default();
    let takes_options = WORDS.option_first.contains(&first);
    let (mut words, mut is_shorter) = (rest.split_whitespace().peekable(), false);
    // For pnpm, `-w` is an option without a value.
    let has_value = |word: &str| {
        let is_of_first = takes_options && WORDS.option_values.contains(&word);
        targets::takes_next(word) || is_of_first || first == "npm" && word == "-w"
    };
    // A name after a plus selects a toolchain of Rust.
    let is_option = |word: &str| word.starts_with('+') || takes_options && word.starts_with('-');
    while let Some(word) = words.next_if(|word| has_value(word) || is_option(word)) {
        is_shorter = true;
        if has_value(word) {
            words.next();
        }
    }
    match is_shorter && words.peek().is_some() {
        true => words.fold(first.to_owned(), |all, word| all + " " + word).into(),
        false => by_goal,
    }
}

/// Whether a command only asks a program about itself or its work.
pub(super) fn asks(command: &str) -> bool {
    command.split_whitespace().any(|word| WORDS.asks.contains(&word))
}

/// Purpose of the program or the script that a package manager runs: `pnpm vitest`, `yarn build`, `pnpm -r exec tsc`.
fn run_by_manager(command: &str) -> Option<Purpose> {
    let plain = bare(command);
    if plain.len() < command.len() {
        return purpose(plain);
    }
    let (first, rest) = plain.split_once(char::is_whitespace)?;
    let second = rest.split_whitespace().next()?;
    if !matches!(first, "yarn" | "pnpm") || matches!(second, "run" | "add" | "install" | "test") {
        return None;
    }
    let of = table_purpose(rest).map(|of| Purpose { of, is_own: false });
    of.or_else(|| purpose(&format!("npm run {rest}")))
}

/// Purpose of a command in the table.
fn table_purpose(command: &str) -> Option<CommandPurpose> {
    let mut words: Vec<&str> = command.split_whitespace().collect();
    let first = words.first_mut()?;
    *first = match program(first) {
        "gradlew" => "gradle",
        "mvnw" => "mvn",
        "pnpm" | "yarn" => "npm",
        other => other,
    };
    command_table::purpose(&words)
}

/// Whether a compiler or linter prints nothing if it finds no error.
pub fn is_silent_if_good(command: &str) -> bool {
    let mut words = bare(command).split_whitespace();
    let program = words
        .next()
        .map(|program| program.rsplit('/').next().unwrap_or(program));
    // A program that is stopped reports nothing either.
    !command.contains("timeout ")
        && matches!(
            (program, words.next()),
            (Some("go"), Some("build" | "vet"))
                | (Some("mix"), Some("compile"))
                | (Some("tsc" | "eslint" | "shellcheck"), _)
        )
}

/// Whether a command that fails always ends its output with a line that reports it, and that the tables know.
pub fn says_if_bad(command: &str) -> bool {
    let words: Vec<&str> = bare(command).split_whitespace().collect();
    // A program that is stopped reports nothing.
    if command.contains("timeout ") {
        return false;
    }
    let has = |some: &[&str]| words.iter().any(|word| some.contains(word));
    // The name of a file or of an installed program would run it without a word about its end.
    let is_script = |name: &str| {
        name.contains(':')
            || targets::purpose(&format!("npm run {name}")).is_some_and(|of| of != CommandPurpose::Script)
    };
    match words[..] {
        ["git", name, ..] => WORDS.git_complains.contains(&name),
        ["make" | "gmake", ..] => !has(&["-q", "--question"]),
        ["bun", "run", name, ..] => {
            !has(&["--silent"]) && !name.starts_with('-') && !name.contains(['.', '/'])
        }
        ["pnpm", name, ..] if !has(&["-s", "--silent", "exec", "dlx"]) => {
            name.starts_with('-') || matches!(name, "run" | "test") || is_script(name)
        }
        _ => false,
    }
}

/// Whether a command only prepares others. Without a message of its own, its failure cannot be distinguished
/// from that of the prepared command.
pub(super) fn prepares(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    WORDS.prepare.contains(&first) && !command.contains('>') || first.is_empty()
}

pub(super) fn name_of_program(plain: &str) -> &str {
    let first = plain.split_whitespace().next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first)
}

/// Identity of a command: its words without assignments and prefixes before it and redirections after it.
///
/// Neither the directory of its program nor `python -m` before it counts.
pub fn name_of(command: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let by_goal = by_main_goal(bare(command));
    let mut words = by_goal.split_whitespace().peekable();
    let first = words.next().map(program);
    match (first, words.peek()) {
        (Some("python"), Some(&"-m")) => drop(words.next()),
        (first, _) => kept.extend(first),
    }
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

/// Splits a line into words, including those inside quotes.
pub fn hidden_words(line: &str) -> impl Iterator<Item = &str> {
    let cut =
        |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '\'' | '"' | '`' | '$');
    line.split(cut).filter(|word| !word.is_empty()).map(program)
}

/// A line without the text in quotes.
pub(super) fn without_quoted(line: &str) -> Cow<'_, str> {
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
