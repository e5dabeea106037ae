//! The part of a command's output that a line shows.

use super::single::name_of_program;
use super::steps::{CommandJoint, Step};

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

/// Words of a filter that shows the lines of a failure.
const SHOWS_FAILURES: [&str; 5] = ["FAIL", "fail", "ERROR", "Error", "error"];

/// Words of a filter that leaves out lines about packages without tests.
const SELECTS_OTHERS: &str = "-v 'no test files'";

/// Filters that select lines by their words.
const MATCHERS: [&str; 4] = ["grep", "egrep", "rg", "Select-String"];

/// The commands that the output of the first one is piped through.
fn filters<'l>(steps: &[Step<'l>]) -> impl Iterator<Item = &'l str> {
    let piped = steps.windows(2);
    let piped = piped.take_while(|pair| pair[0].joint == CommandJoint::Pipe);
    piped.map(|pair| pair[1].plain)
}

/// Whether a filter after the first command selects lines by their words.
pub(super) fn is_matched(steps: &[Step<'_>]) -> bool {
    filters(steps).any(|filter| MATCHERS.contains(&name_of_program(filter)))
}

/// How much the filters after the first command show of its output.
pub(super) fn shown(steps: &[Step<'_>]) -> ShownOutput {
    filters(steps).fold(ShownOutput::All, |shown, filter| {
        let mut words = filter.split_whitespace();
        let program = words.next().unwrap_or_default();
        let is_closing = match program {
            "tail" => true,
            // Both print all of their input, unless other files are named.
            "cat" => words.next().is_none(),
            "tee" => !filter.contains(['(', '<', '>']),
            "Select-Object" => filter.contains("-Last"),
            _ if MATCHERS.contains(&program) => {
                filter.contains(SELECTS_OTHERS)
                    || !filter.contains(" -v") && SHOWS_FAILURES.iter().any(|word| filter.contains(word))
            }
            _ => false,
        };
        match (program, shown) {
            (_, ShownOutput::Other | ShownOutput::First(_)) => ShownOutput::Other,
            _ if is_closing => ShownOutput::Closing,
            _ if program == "head" || filter.contains("Select-Object -First") => {
                let lines = words.find_map(|word| word.trim_start_matches(['-', 'n']).parse().ok());
                // Without a number, `head` shows ten lines.
                ShownOutput::First(lines.unwrap_or(10))
            }
            _ => ShownOutput::Other,
        }
    })
}

/// Whether a line for PowerShell has no program after a command, whose exit code is then that of the line.
pub(super) fn is_last_program(line: &str, after: &[Step<'_>]) -> bool {
    // After `&`, a string or a variable is a program.
    !line.contains("& ") && after.iter().all(|step| is_expression(step.plain))
}

/// Whether a command for PowerShell is an expression or a cmdlet.
fn is_expression(text: &str) -> bool {
    let text = text.trim_start_matches(['(', '@', '{', '}', ' ']);
    let is_cmdlet = || {
        let (verb, noun) = text.split_once('-')?;
        let mut words = [verb, noun].into_iter().map(|word| word.chars().next());
        Some(
            verb.bytes().all(|b| b.is_ascii_alphabetic())
                && words.all(|c| c.is_some_and(|c| c.is_ascii_uppercase())),
        )
    };
    let is_plain = match text.chars().next() {
        None | Some('"' | '\'' | '[') => true,
        Some('$') => text
            .split_once(" = ")
            .is_none_or(|(_, value)| is_expression(value)),
        Some(_) => is_cmdlet() == Some(true),
    };
    is_plain && text.split("$(").skip(1).all(is_expression)
}
