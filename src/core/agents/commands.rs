//! Commands that test, build, lint, or have lasting effects, and the meaning of a shell line's exit code for
//! each.

mod build_goals;
mod coverage;
mod marks;
mod services;
mod shown;
mod single;
mod steps;
mod texts;
mod undone;
mod working_dirs;

pub use self::coverage::{Coverage, coverage, head_of, may_cover};
pub use self::marks::{LinePart, marked_parts};
use self::services::may_stop;
pub use self::services::{asks_services, stops};
pub use self::shown::ShownOutput;
use self::shown::{is_last_program, is_matched, shown};
use self::single::{Purpose, asks, name_of_program, prepares, purpose, step_looks, without_quoted};
pub use self::single::{
    aim, hidden_words, is_by_shell, is_misread, is_probe, is_program, is_read_only, is_silent_if_good,
    may_hide, name_of, program_of, says_if_bad,
};
use self::steps::{CommandJoint, Step, bare, steps};
pub use self::texts::{without_git_directories, without_texts};
pub use self::undone::undone_paths;
pub use self::working_dirs::joined;
use self::working_dirs::{WorkingDirs, unparenthesised};
pub use super::command_table::CommandPurpose;
use super::command_table::WORDS;

/// A command of a shell line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand<'a> {
    /// Index of the command among those of the line.
    pub at: usize,
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
    /// Whether the line's exit code 0 proves that this command ran.
    pub ran_if_zero: bool,
    /// Whether the line ends with this command.
    pub is_last: bool,
    /// Whether the line does not wait for this command.
    pub is_detached: bool,
    /// Whether commands follow whatever the end of this one.
    pub is_followed: bool,
    /// Whether the line itself stops this command.
    pub is_stopped: bool,
    /// Whether the line hides a failure of this command: `|| true`, `2>/dev/null`.
    pub hides_failure: bool,
    /// Whether a later command of the line may change files.
    pub changes_after: bool,
    /// Whether the command itself rewrites files, as formatters do.
    pub rewrites: bool,
    /// Whether the line prints only the output of this command, because the others prepare, filter or are
    /// quiet.
    pub is_alone: bool,
    /// Whether the closing lines of the output are those of this command.
    ///
    /// The other commands format, have another purpose, or print no reports.
    pub closes: bool,
    /// The purpose of a later command of the line that only runs if this one succeeded.
    pub leads_to: Option<CommandPurpose>,
    /// The part of its output that the line shows.
    pub shown: ShownOutput,
    /// Whether a filter selects lines of its output by their words.
    pub is_matched: bool,
    /// Whether no later command of a line for PowerShell is a program.
    pub is_last_program: bool,
}

/// Lists the known commands of a shell line, in order.
pub fn runs(line: &str) -> Vec<ShellCommand<'_>> {
    // A patch is text. Codex passes it as an argument.
    if name_of_program(line) == "apply_patch" {
        return Vec::new();
    }
    let steps = steps(line);
    // With `set -e` a command runs only if those before it succeeded.
    let is_set = |plain: &str| plain.starts_with("set -e") || plain.starts_with("set -o errexit");
    let strict = steps.iter().any(|step| is_set(step.plain));
    let hides = may_hide(line);
    let mut working_dirs = WorkingDirs::default();
    let inner = compounds(&steps);
    let mut found = Vec::new();
    for (at, Step { text, plain, joint }) in steps.iter().copied().enumerate() {
        let directory = working_dirs.of_step(text, plain);
        // The line's code is that of the whole loop or branch, and proves nothing about a command in it.
        if inner[at] {
            continue;
        }
        let Some(Purpose { of: purpose, is_own }) = purpose(plain).filter(|_| !asks(plain)) else {
            continue;
        };
        // With `&&` up to the end, code 0 needs every command from here on. After `;` or `|` the code is that
        // of another command.
        let (tail, after) = (&steps[at..], &steps[at + 1..]);
        let is_joined = |step: &Step<'_>| matches!(step.joint, CommandJoint::And | CommandJoint::End);
        let good_before_pipe = joint == CommandJoint::And && tail.iter().all(is_chain);
        // Commands that never fail, or whose failure does not stop the line, may precede it.
        let before = steps[..at].iter().all(|step| match step.joint {
            CommandJoint::Then => !strict || prepares(step.plain),
            joint => joint == CommandJoint::And && prepares(step.plain),
        });
        let others = |is: &dyn Fn(usize) -> bool| !hides && (0..steps.len()).all(|i| i == at || is(i));
        found.push(ShellCommand {
            at: found.len(),
            purpose,
            text: unparenthesised(text),
            good_if_zero: tail.iter().all(is_joined),
            good_before_pipe,
            bad_if_not: before && joint == CommandJoint::End,
            directory,
            is_chained: at > 0,
            ran_if_zero: ran_if_zero(&steps, at),
            is_last: joint == CommandJoint::End,
            is_detached: joint == CommandJoint::Background,
            is_followed: joint == CommandJoint::Then,
            is_stopped: text.contains("timeout ") || after.iter().any(|step| may_stop(step.plain)),
            hides_failure: hides_failure(tail),
            rewrites: purpose.verifies() && !is_own && !step_looks(plain),
            shown: shown(tail),
            is_matched: is_matched(tail),
            is_last_program: is_last_program(line, after),
            is_alone: others(&|i| adds_nothing(&steps, i)),
            closes: others(&|i| leaves_closing(&steps, i, at, purpose)),
            leads_to: leads_to(tail, purpose)
                .filter(|last| !hides && steps[..at].iter().all(|step| joins_other(step, *last))),
            changes_after: !after.iter().all(|step| step_looks(step.plain)),
        });
    }
    found
}

/// For each command, whether a loop or a branch contains it.
fn compounds(steps: &[Step<'_>]) -> Vec<bool> {
    let mut depth = 0_usize;
    let is_inner = |step: &Step<'_>| {
        match step.plain.split_whitespace().next().unwrap_or_default() {
            "for" | "while" | "until" | "if" | "case" | "select" => depth += 1,
            "done" | "fi" | "esac" => depth = depth.saturating_sub(1),
            _ => return depth > 0,
        }
        true
    };
    steps.iter().map(is_inner).collect()
}

/// Whether the command at `i` leaves the closing lines of the output to the one at `at`.
fn leaves_closing(steps: &[Step<'_>], i: usize, at: usize, purpose: CommandPurpose) -> bool {
    let Step { plain, joint, .. } = steps[i];
    let leads = i < at && joint == CommandJoint::And && (formats(plain) || checks_nothing(plain));
    leads || is_other_check(plain, purpose) || adds_nothing(steps, i)
}

/// Whether `&&` joins a command to the next one, and it prints no closing lines of a check with this purpose.
fn joins_other(step: &Step<'_>, purpose: CommandPurpose) -> bool {
    step.joint == CommandJoint::And && (prepares(step.plain) || is_other_check(step.plain, purpose))
}

/// Whether a command checks something else, so that its closing lines are not those of a check with this purpose.
fn is_other_check(plain: &str, purpose: CommandPurpose) -> bool {
    purpose_of(plain).is_some_and(|of| of != purpose && of.verifies())
        && !WORDS.alike.contains(&name_of_program(plain))
}

fn purpose_of(plain: &str) -> Option<CommandPurpose> {
    purpose(plain).map(|purpose| purpose.of)
}

/// Whether a command only formats files. It prints no closing line of success.
fn formats(plain: &str) -> bool {
    let mut first = plain.split_whitespace().take(3);
    first.any(|word| matches!(word, "fmt" | "format" | "gofmt"))
}

/// Whether a command surely runs no check, and prints no stored text.
fn checks_nothing(plain: &str) -> bool {
    const OTHERS: [&str; 3] = ["exec", "run", "ssh"];
    use CommandPurpose::{Install, Serve};
    let is_plain = purpose_of(plain).is_none_or(|of| matches!(of, Install | Serve));
    let runs_other = || plain.split_whitespace().any(|word| OTHERS.contains(&word));
    is_plain && !runs_other() && !prints_stored(name_of_program(plain), plain)
}

/// Purpose of the last command that `&&` joins to the first one, if its closing lines prove the first one's success.
///
/// They do not if the first command, or one in between, prints closing lines of the same kind.
fn leads_to(steps: &[Step<'_>], purpose: CommandPurpose) -> Option<CommandPurpose> {
    let chained = steps.iter().take_while(|step| step.joint == CommandJoint::And);
    let and = chained.count();
    let last = purpose_of(steps.get(and).filter(|_| and > 0)?.plain)?;
    let mut between = steps[1..and].iter().map(|step| purpose_of(step.plain));
    let between = between.any(|of| of == Some(last));
    let is_own = last == purpose && !formats(steps[0].plain);
    (!between && !is_own && last.verifies()).then_some(last)
}

/// Whether a command certainly ran if the line's exit code is 0.
///
/// It did if nothing before it decides, or if `&&` joins it to the end of the line.
fn ran_if_zero(steps: &[Step<'_>], at: usize) -> bool {
    let list = steps[..at].iter().rev();
    let list = list.take_while(|step| step.joint != CommandJoint::Then);
    let (mut before, after) = (list.peekable(), &steps[at..]);
    before.peek().is_none() || before.chain(after).all(is_chain)
}

/// Whether the line's exit code 0 proves that the next command ran, or that this is the last one.
fn is_chain(step: &Step<'_>) -> bool {
    matches!(
        step.joint,
        CommandJoint::And | CommandJoint::Pipe | CommandJoint::End
    )
}

/// Whether a line hides a failure of its first command: its errors, or its exit code.
fn hides_failure(steps: &[Step<'_>]) -> bool {
    const DROPS: [&str; 4] = ["2>/dev/null", "2> /dev/null", "&>/dev/null", ">/dev/null 2>&1"];
    let is_quiet = |next: &Step<'_>| WORDS.quiet.contains(&name_of_program(next.plain));
    DROPS.iter().any(|drops| steps[0].text.contains(drops))
        || steps[0].joint == CommandJoint::Other && steps.get(1).is_some_and(is_quiet)
}

/// Whether a command of a line prints only what another command of the line piped to it.
fn adds_nothing(steps: &[Step<'_>], at: usize) -> bool {
    let plain = steps[at].plain;
    let name = name_of_program(plain);
    prepares(plain)
        || WORDS.quiet.contains(&name)
        || reports_nothing(plain)
        || is_piped_into(steps, at) && WORDS.filters.contains(&name)
}

/// Whether a command certainly prints neither stored text nor the report of a check. Hooks may run checks.
fn reports_nothing(plain: &str) -> bool {
    const HOOKED: [&str; 6] = ["commit", "push", "rebase", "am", "cherry-pick", "revert"];
    let name = name_of_program(plain);
    let is_hooked = || plain.split_whitespace().any(|word| HOOKED.contains(&word));
    match name {
        "git" => !is_hooked() && !prints_stored(name, plain),
        _ => WORDS.looks.contains(&name) && !prints_stored(name, plain),
    }
}

fn is_piped_into(steps: &[Step<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| steps[before].joint);
    before == Some(CommandJoint::Pipe)
}

/// Whether a line prints stored text (files, logs, patches), which may mention any command.
pub fn prints_stored_text(line: &str) -> bool {
    let steps = steps(line);
    let mut all = steps.iter().enumerate();
    // At the end of a pipe, a program prints the output of the command before it.
    all.any(|(at, Step { plain, .. })| {
        prints_stored(name_of_program(plain), plain) && !is_piped_into(&steps, at)
    })
}

/// Whether a command prints stored text, and more of it than names.
fn prints_stored(name: &str, plain: &str) -> bool {
    let has = |some: &[&str]| plain.split_whitespace().any(|word| some.contains(&word));
    match name {
        // These programs print stored text only with some of their subcommands.
        "git" => has(&WORDS.git_prints) && !(has(&["log", "diff"]) && has(&WORDS.git_names)),
        "docker" | "kubectl" | "podman" => has(&["logs"]),
        _ => WORDS.prints.contains(&name) || WORDS.filters.contains(&name),
    }
}

/// The last command of a line that only changes the directory before it.
pub fn after_moves(line: &str) -> Option<&str> {
    let steps = steps(line);
    let (last, before) = steps.split_last().filter(|_| !may_hide(line))?;
    let is_move = |step: &Step<'_>| step.plain.starts_with("cd ");
    before.iter().all(is_move).then_some(last.plain)
}

/// Whether an agent may take a command with such words for the last one of a line. Text in quotes is left out.
///
/// An agent may misread a line with commands that are not parsed here.
pub fn may_end_with(line: &str, is: impl Fn(&[&str]) -> bool) -> bool {
    const SEPARATORS: [char; 6] = ['\n', ';', '|', '&', '(', '`'];
    let last = steps(line).pop().map(|step| step.text);
    let mut pieces = line.split(SEPARATORS).filter(|text| !text.trim().is_empty());
    let (first, end) = match may_hide(line) {
        true => (pieces.next(), pieces.next_back()),
        false => (None, None),
    };
    [last, first, end].into_iter().flatten().any(|text| {
        let words = without_quoted(bare(unparenthesised(text)));
        is(&words.split_whitespace().collect::<Vec<_>>())
    })
}

/// Whether a line runs checks of one purpose more than once, even after a here-document or in a loop.
pub fn checks_again(line: &str) -> bool {
    let steps = line.split(['\n', ';', '&', '|']);
    let mut seen = Vec::new();
    let purpose = |step| purpose_of(bare(unparenthesised(step))).filter(|of| of.verifies());
    let mut purposes = steps.filter_map(purpose);
    purposes.any(|purpose| {
        let is_again = seen.contains(&purpose);
        seen.push(purpose);
        is_again
    })
}

/// Directory at the end of a line, relative to that at its beginning.
pub fn ends_in(line: &str) -> String {
    let mut working_dirs = WorkingDirs::default();
    for step in steps(line) {
        working_dirs.of_step(step.text, bare(step.text));
    }
    working_dirs.here
}

/// Whether a shell line does nothing but change the directory.
pub fn only_moves(line: &str) -> bool {
    steps(line).iter().all(|step| bare(step.text).starts_with("cd "))
}

#[cfg(test)]
mod tests;
