//! Decides how a command ended. No other module does.
//!
//! The strongest evidence is the exit code of the wire or of the agent's envelope. Then come an exit code in
//! plain text, closing lines of a test runner or compiler, the error flag, and its absence. Evidence of both
//! success and failure gives *unknown*. Only a nonzero code overrides passed tests, because a run may fail
//! for another reason.

mod exit_lines;
mod git;
mod marked;
mod report;

use std::borrow::Cow;

use self::exit_lines::ExitLine;
pub(in crate::agents) use self::exit_lines::number_prefix;
use self::git::GitEnds;
use self::marked::MarkedEnds;
use super::commands::{self, CommandPurpose, ShellCommand, ShownOutput};
use super::outcomes;
use crate::text::prose::count_lines;

use self::report::ClosedPurposes;
pub use self::report::ReportedResult;

/// Evidence about a command and its result.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'e> {
    /// The whole shell line; `None` if the tool takes no command.
    pub command: Option<&'e str>,
    /// Whether the wire or the tool flags the result as an error; `None` if it has no flag.
    pub flag: Option<bool>,
    /// Exit code from the wire or the agent's envelope.
    pub code: Option<i32>,
    /// Whether the agent's tool omits the code if it is zero.
    pub silence_is_zero: bool,
    /// Text of the result.
    pub text: &'e str,
}

/// How a shell line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineEnd {
    /// Exit code; `None` if unknown.
    pub code: Option<i32>,
    /// Whether the line failed; `None` if unknown.
    pub failed: Option<bool>,
    /// Whether something indicates failure, even if other evidence contradicts it.
    pub reads_failed: bool,
    /// Result that the commands of the line report in their own output.
    pub report: ReportedResult,
    /// The purposes of commands whose success the output reports.
    pub(crate) closed: ClosedPurposes,
    /// Whether the line still runs in the background.
    pub is_running: bool,
    /// Number of lines of the result.
    pub lines: usize,
    /// Whether the result is complete, and no line of it reports a failure.
    pub is_clean: bool,
    /// Whether the result is clean and empty, except for the head of a script whose command prints nothing if it
    /// succeeds.
    pub is_quiet: bool,
    /// Whether the exit code is that of the line's last program, even if other commands follow it.
    pub is_of_last_program: bool,
    /// Git's reports about its commands.
    pub(crate) git: GitEnds,
    /// The ends of the commands whose output has a mark before it.
    pub(crate) marked: MarkedEnds,
    /// Whether the line is a part of another one, so that its own code may be unknown.
    pub is_part: bool,
}

/// How one command of a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunEnd {
    /// The command succeeded.
    Passed,
    /// The command failed, with its own exit code if known.
    Failed(Option<i32>),
    /// The command still runs in the background.
    Running,
    /// The evidence is missing or contradictory.
    #[default]
    Unknown,
}

impl RunEnd {
    /// Whether the command succeeded; `None` if unknown.
    pub fn passed(self) -> Option<bool> {
        match self {
            Self::Passed => Some(true),
            Self::Failed(_) => Some(false),
            Self::Running | Self::Unknown => None,
        }
    }
}

impl LineEnd {
    /// An end without evidence from an output.
    pub fn flagged(code: Option<i32>, failed: Option<bool>) -> Self {
        Self {
            code,
            failed,
            reads_failed: failed == Some(true),
            ..Self::default()
        }
    }

    /// Whether there is evidence of both failure and success.
    pub fn is_contradicted(&self) -> bool {
        self.code.is_none() && self.failed.is_none() && self.reads_failed
    }
}

/// Exit code, and whether the line failed, each if known.
type CodeAndFailure = (Option<i32>, Option<bool>);

impl Evidence<'_> {
    /// Decides how the line ended.
    pub fn decide(&self) -> LineEnd {
        if let Some(Cow::Owned(short)) = self.command.map(commands::without_texts) {
            let command = Some(short.as_str());
            return Evidence { command, ..*self }.decide();
        }
        // A line that prints stored text repeats the output of other commands.
        let own_text = !self.command.is_some_and(commands::prints_stored_text);
        let (all, closed) = match own_text {
            true => ReportedResult::with_purposes(self.text),
            false => Default::default(),
        };
        // Without a report, the commands of the line prove nothing.
        let command = self.command.filter(|_| all != ReportedResult::Silent);
        let runs = command.map(commands::runs).unwrap_or_default();
        // A tool without a command may run tests under any name.
        let verifies = self.command.is_none() || runs.iter().any(|run| run.purpose.reports());
        // The output of a line that verifies nothing may report an earlier run, so it only counts for `reads_failed`.
        let report = if verifies { all } else { ReportedResult::Silent };
        let line = match own_text {
            true => exit_lines::read(self.text).filter(|line| self.is_of_line(line)),
            false => None,
        };
        // True if the line's exit code 0 proves that a verifying command succeeded.
        let zero_is_passed = runs.iter().any(|run| run.good_if_zero && run.purpose.reports());
        // A script whose last check passes has ended well, even if an earlier check of it failed on purpose.
        let is_settled = all.has_failed()
            && self.flag != Some(true)
            && line.is_none()
            && (self.code == Some(0) || self.code.is_none() && self.silence_is_zero)
            && self.command.is_some_and(commands::checks_again)
            && ReportedResult::from_last_text(self.text) == ReportedResult::Mixed;
        let (code, failed) = match (self.code, line) {
            _ if is_settled => (Some(0), Some(false)),
            (Some(code), _) => self.reconcile_code(code, report, zero_is_passed),
            (None, Some(line)) => self.written(line, report, zero_is_passed),
            (None, None) => self.silent(report, zero_is_passed),
        };
        let output = outcomes::output(self.text);
        let git = self
            .command
            .map(|command| GitEnds::read(command, self.text))
            .unwrap_or_default();
        let is_clean = match own_text {
            true => self.is_clean(all),
            false => self.is_clean_with_stored_text(),
        };
        LineEnd {
            code,
            failed,
            reads_failed: failed == Some(true)
                || all.has_failed() && !is_settled
                || line.is_some_and(|line| line.code != Some(0))
                || self.flag == Some(true)
                || git.has_failed,
            report,
            closed: if verifies { closed } else { Default::default() },
            is_running: code.is_none() && is_still_running(self.text),
            lines: count_lines(output),
            is_clean,
            is_quiet: is_clean
                && outcomes::script(output)
                    .is_some_and(|command| command.is_empty() || commands::is_silent_if_good(command)),
            is_of_last_program: false,
            git,
            marked: self.marked().unwrap_or_default(),
            is_part: false,
        }
    }

    /// The ends of the commands of a line that prints marks, each by the output of its own part.
    fn marked(&self) -> Option<MarkedEnds> {
        let parts = commands::marked_parts(self.command?);
        let last = parts.len().checked_sub(1).filter(|last| *last > 0)?;
        let outputs = marked::outputs(&parts, self.text)?;
        let (mut ends, mut at) = (MarkedEnds::default(), 0);
        for (i, (part, text)) in parts.iter().zip(outputs).enumerate() {
            let own = Evidence {
                command: Some(part.line),
                // The line's code is that of its last part.
                code: self.code.filter(|_| i == last),
                flag: self.flag.filter(|_| i == last),
                silence_is_zero: self.silence_is_zero && i == last,
                text,
            };
            let end = LineEnd {
                is_part: true,
                ..own.decide()
            };
            for run in commands::runs(part.line) {
                ends.put(at, run.end(&end).passed());
                at += 1;
            }
        }
        // A mark may divide a loop or a branch, whose commands then count differently.
        (commands::runs(self.command?).len() == at).then_some(ends)
    }

    /// Whether a line that prints stored text is clean. Such text may report the failure of another run, but hides none.
    fn is_clean_with_stored_text(&self) -> bool {
        let runs = self.command.map(commands::runs).unwrap_or_default();
        runs.iter().any(|run| commands::says_if_bad(run.text))
            && self.is_clean(ReportedResult::from_text(self.text))
    }

    /// Whether the text is complete, and reports no failure.
    fn is_clean(&self, report: ReportedResult) -> bool {
        let complains = |command| git::complains(command, self.text);
        !report.has_failed()
            && !outcomes::is_cut(self.text)
            && !outcomes::lacks_program(self.text)
            && !self.command.is_some_and(complains)
    }

    /// Whether an exit code in the text belongs to the line, and is not printed for another command.
    fn is_of_line(&self, line: &ExitLine) -> bool {
        let prints_code = self.command.is_some_and(prints_code);
        // `go run` and `go test` print the code of the program that they run, and exit with 1.
        let mut words = self.command.unwrap_or_default().split_whitespace();
        let inner = line.is_status && words.any(|word| word == "go");
        !prints_code && !inner
    }

    /// Decides with a code from the wire or the envelope.
    fn reconcile_code(&self, code: i32, report: ReportedResult, zero_is_passed: bool) -> CodeAndFailure {
        match code {
            0 if self.flag == Some(true) || report.has_failed() && zero_is_passed => (None, None),
            // The exit code 0 of a pipe does not exclude a failed command in it.
            0 if report.has_failed() => (Some(0), None),
            0 => (Some(0), Some(false)),
            code => (Some(code), Some(true)),
        }
    }

    /// Decides with a code in plain text.
    fn written(&self, line: ExitLine, report: ReportedResult, zero_is_passed: bool) -> CodeAndFailure {
        match line.code {
            Some(0) => self.reconcile_code(0, report, zero_is_passed),
            // A code in plain text may be another command's, so it contradicts a passed report.
            _ if matches!(report, ReportedResult::Passed(_)) => (None, None),
            // The tool flags every code but zero, and did not flag this one.
            _ if self.silence_is_zero && !line.is_first && report != ReportedResult::Failed => (None, None),
            code => (code, Some(true)),
        }
    }

    /// Decides without a code.
    fn silent(&self, report: ReportedResult, zero_is_passed: bool) -> CodeAndFailure {
        let flagged = self.flag == Some(true);
        let passed = matches!(report, ReportedResult::Passed(_));
        match report {
            // A flag and a passed report contradict each other.
            _ if flagged => (None, (!passed).then_some(true)),
            ReportedResult::Failed if zero_is_passed => (None, Some(true)),
            // An unknown tool may print stored text, so a reported failure is weak evidence.
            _ if self.command.is_none() => (None, None),
            ReportedResult::Mixed if zero_is_passed => (None, None),
            _ if self.silence_is_zero => (Some(0), (!report.has_failed()).then_some(false)),
            ReportedResult::Failed => (None, Some(true)),
            _ => (None, None),
        }
    }
}

/// Whether a line itself prints an exit code, or similar words.
fn prints_code(line: &str) -> bool {
    let small = line.to_ascii_lowercase();
    let words = ["exit code", "exit status", "exit_code", "exitcode"];
    line.contains("$?") || line.contains("$LASTEXITCODE") || words.iter().any(|word| small.contains(word))
}

impl ShellCommand<'_> {
    /// Decides how this command ended, from the end of its whole line.
    pub fn end(&self, line: &LineEnd) -> RunEnd {
        // `Select-Object -First` stops the program before it.
        let is_whole = !matches!(self.shown, ShownOutput::First(most) if line.lines >= most);
        let is_last_program = line.is_of_last_program && self.is_last_program && is_whole;
        let is_good_if_zero = self.good_if_zero || is_last_program;
        // Reports in the output of git come from hooks.
        let is_contradicted = line.report.has_failed() && self.purpose != CommandPurpose::Git;
        // A line that failed at its end never got past its last command.
        let closes = self.purpose.reports() && self.purpose != CommandPurpose::Migrate;
        let is_blamed = self.bad_if_not || self.is_last && !closes;
        let by_code = match line.code {
            Some(0) if (is_good_if_zero || self.good_before_pipe) && !is_contradicted => Some(RunEnd::Passed),
            // The command's code and its text contradict each other.
            Some(0) if is_good_if_zero => Some(RunEnd::Unknown),
            Some(code) if code != 0 && is_blamed => Some(RunEnd::Failed(Some(code))),
            _ => None,
        };
        match (line.marked.passed(self.at), by_code) {
            (Some(true), _) => return RunEnd::Passed,
            (Some(false), None | Some(RunEnd::Unknown)) => return RunEnd::Failed(None),
            _ => {}
        }
        let is_git = self.purpose == CommandPurpose::Git;
        by_code.unwrap_or_else(|| match line.report {
            _ if is_git && line.git.has_passed(self.text) => RunEnd::Passed,
            _ if is_git && line.git.has_failed && line.failed != Some(false) => RunEnd::Failed(None),
            ReportedResult::Failed if self.is_alone && !line.is_contradicted() => RunEnd::Failed(None),
            ReportedResult::Passed(_) if self.may_pass(line) && line.closed.has(self.purpose) => {
                RunEnd::Passed
            }
            // A command that only runs after this one has passed.
            ReportedResult::Passed(purpose)
                if self.leads_to == Some(purpose) && line.code.unwrap_or(0) == 0 =>
            {
                RunEnd::Passed
            }
            _ if self.is_silent(line) => RunEnd::Passed,
            _ if line.is_running => RunEnd::Running,
            // A call that timed out or was stopped has a flag, and no code.
            _ if line.failed == Some(true) && line.code.is_none() && is_blamed => RunEnd::Failed(None),
            _ => RunEnd::Unknown,
        })
    }

    /// Whether the command's closing line is enough to prove success.
    ///
    /// Nothing else may contradict it, and nothing may be cut off. `tail` shows the end of the output, and
    /// its own exit code proves nothing.
    fn may_pass(&self, line: &LineEnd) -> bool {
        let is_piped = matches!(line.code, None | Some(0));
        let ends = match self.shown {
            ShownOutput::All => self.good_if_zero && line.code.is_none() || self.is_followed && is_piped,
            ShownOutput::Closing => is_piped,
            ShownOutput::First(most) => is_piped && line.lines < most,
            ShownOutput::Other => false,
        };
        self.closes && ends && !line.reads_failed
    }

    /// Whether the command surely succeeded, because its output reports no failure and the line's exit code is 0.
    ///
    /// The end of the output must be shown, with the errors in it.
    fn is_silent(&self, line: &LineEnd) -> bool {
        /// Number of blank lines at the end of an output that are allowed for.
        const BLANK: usize = 4;
        // Each error of `tsc` has the word that failures are selected by.
        let is_matched = self.is_matched && !self.text.contains("tsc");
        let is_shown = match self.shown {
            ShownOutput::All => !self.hides_failure,
            ShownOutput::Closing => !is_matched,
            // An agent may have removed blank lines at the end.
            ShownOutput::First(most) => !is_matched && line.lines + BLANK < most,
            ShownOutput::Other => false,
        };
        let has_errors = self.shown == ShownOutput::All || self.text.contains("2>&1");
        // The head of a script names a command that prints nothing if it succeeds.
        let is_quiet = || line.lines > 0 || commands::is_silent_if_good(self.text);
        let is_silent = self.is_alone && line.is_quiet && is_quiet()
            || self.ran_if_zero && commands::says_if_bad(self.text);
        let may_be_good = line.code == Some(0) || line.is_part && line.code.is_none();
        may_be_good && line.is_clean && is_shown && has_errors && is_silent
    }
}

/// Number of lines that Codex writes before the output at most: five, and in some versions an additional warning.
pub const MAX_HEAD_LINES: usize = 8;

/// Beginnings of results whose command is still running.
const STILL_RUNNING: [&str; 5] = [
    "Command running in background",
    "Command is running in background",
    "Command was moved to the background",
    "Command moved to background",
    "Command did not complete",
];

/// Programs whose exit code 1 Claude Code does not treat as a failure, if a line ends with one.
const JUDGED: [&str; 8] = ["grep", "egrep", "fgrep", "rg", "find", "diff", "test", "["];
const JUDGED_IN_POWERSHELL: [&str; 9] = [
    "grep", "egrep", "fgrep", "rg", "findstr", "robocopy", "where", "fc", "diff",
];

/// Whether a result reports that its command is still running.
pub fn is_still_running(text: &str) -> bool {
    /// Codex writes this among the lines before the output.
    const SESSION: &str = "Process running with session ID ";
    let mut head = text
        .lines()
        .take(MAX_HEAD_LINES)
        .take_while(|line| *line != "Output:");
    STILL_RUNNING.iter().any(|words| text.starts_with(words)) || head.any(|line| line.starts_with(SESSION))
}

/// Whether the agent judges the exit code of this line itself, by its last program.
///
/// The absence of a flag then proves nothing, unless the output has the matches of a search.
pub fn is_judged(line: &str, output: &str) -> bool {
    let line = &*commands::without_texts(line);
    let may_be_judged = commands::may_end_with(line, |words| match words {
        // Differences only change its exit code with an option.
        ["git", words @ ..] => {
            let has = |some: &[&str]| words.iter().any(|word| some.contains(word));
            has(&["grep"]) || has(&["diff"]) && has(&["--exit-code", "--quiet", "--no-index"])
        }
        [program, ..] => JUDGED.contains(program),
        [] => false,
    });
    may_be_judged && !commands::after_moves(line).is_some_and(|search| has_found(search, output))
}

/// Whether the output of a search proves exit code 0: it has matches, and no complaint of the program or the shell.
fn has_found(search: &str, output: &str) -> bool {
    let output = outcomes::output(output);
    let is_complaint = |line: &str| {
        let program = line.split(':').next().unwrap_or_default();
        commands::is_by_shell(line) || JUDGED.contains(&program)
    };
    // A search that counts also prints zero.
    let is_match = |line: &str| !line.trim().is_empty() && line != "0" && !line.ends_with(":0");
    let has = |marks: [char; 2]| {
        search
            .split(' ')
            .any(|word| word.starts_with('-') && word.contains(marks))
    };
    let is_plain = match search.split(' ').next() {
        Some("find") => !search.contains("-exec") && !search.contains("2>"),
        Some("grep" | "egrep" | "fgrep" | "rg") => !has(['q', 'L']) && output.lines().any(is_match),
        _ => false,
    };
    is_plain && !output.lines().any(is_complaint)
}

/// Whether the agent may judge the exit code of this line for PowerShell itself.
pub fn is_judged_in_powershell(line: &str) -> bool {
    commands::hidden_words(line).any(|word| JUDGED_IN_POWERSHELL.contains(&word))
}

#[cfg(test)]
mod tests;
