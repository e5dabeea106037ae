//! Verdict in the output of a test, build or lint, by the closing lines of the programs that may have written
//! it.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::RegexSet;

use super::exit_lines::RUNNERS;
use crate::agents::commands::{self, CommandPurpose};
use crate::agents::outcomes::{self, WORDINGS};
use crate::text::prose::count_lines;

/// Number of lines at the start that are examined. Lines between the two ends are skipped, to bound the work.
const FIRST: usize = 200;
/// Number of lines at the end that are examined.
const LAST: usize = 400;

/// Maximum length of an examined line in bytes. A longer line is output.
const LONGEST: usize = 600;

/// Number of lines at the end that contain the closing line of a completed run.
const CLOSING: usize = 12;

/// Verdict that an output states about its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReportedResult {
    /// The output states nothing.
    #[default]
    Silent,
    /// The output closes with the success of a run for this purpose.
    Passed(CommandPurpose),
    /// The output closes with a failure, or one of its parts does.
    Failed,
    /// Something failed, and something passed after it.
    Mixed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClosingLine {
    Opens,
    Passed,
    Failed,
}

struct RunnerTable {
    set: RegexSet,
    /// For each expression, its program and the meaning of its lines.
    rows: Vec<(usize, ClosingLine)>,
}

static TABLE: LazyLock<RunnerTable> = LazyLock::new(|| {
    let (mut expressions, mut rows) = (Vec::new(), Vec::new());
    for (at, runner) in RUNNERS.iter().enumerate() {
        let mut add = |all: &[&'static str], line| {
            expressions.extend_from_slice(all);
            rows.extend(all.iter().map(|_| (at, line)));
        };
        add(runner.opens.as_slice(), ClosingLine::Opens);
        add(&runner.passed, ClosingLine::Passed);
        add(&runner.failed, ClosingLine::Failed);
    }
    // Cannot fail, because the tests compile every expression.
    let set = RegexSet::new(expressions).unwrap_or_default();
    RunnerTable { set, rows }
});

/// The purposes of successful runs whose closing lines an output has, if it reports no failure: bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClosedPurposes(u16);

impl ClosedPurposes {
    pub(super) fn has(self, purpose: CommandPurpose) -> bool {
        self.0 & (1 << purpose as u16) != 0
    }
}

impl ReportedResult {
    /// Reads the verdict in the output of a command that tests, builds or lints.
    pub(super) fn from_text(text: &str) -> Self {
        Self::with_purposes(text).0
    }

    /// Reads the verdict, and the purposes of the runs that the output closes.
    pub(super) fn with_purposes(text: &str) -> (Self, ClosedPurposes) {
        let closing = ClosingLines::of(text);
        let report = closing.report(text);
        let closed = match report {
            Self::Passed(_) => closing.closed,
            _ => ClosedPurposes::default(),
        };
        (report, closed)
    }

    /// Reads the verdict in the output of a line that checks more than once: its last check decides.
    pub(super) fn from_last_text(text: &str) -> Self {
        let closing = ClosingLines::of(text);
        match closing.passed {
            Some(_) if !closing.last_failed && !closing.failed.is_empty() => Self::Mixed,
            _ => closing.report(text),
        }
    }

    /// Whether something failed.
    pub fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Mixed)
    }
}

/// Closing lines found so far.
#[derive(Default)]
struct ClosingLines {
    opened: Vec<usize>,
    failed: Vec<usize>,
    /// Program and line number of the last success.
    passed: Option<(usize, usize)>,
    closed: ClosedPurposes,
    last_failed: bool,
}

impl ClosingLines {
    fn of(text: &str) -> Self {
        let mut closing = Self::default();
        let lines = count_lines(text);
        for (at, line) in text.lines().enumerate() {
            if at >= FIRST && at + LAST < lines || line.len() > LONGEST {
                continue;
            }
            closing.take(at, &plain(line));
        }
        closing
    }

    fn take(&mut self, at: usize, line: &str) {
        // Most lines close nothing, and need no list of matches.
        if line.is_empty() || !TABLE.set.is_match(line) {
            return;
        }
        // A line may match several programs. A failure of one of them decides.
        let found = TABLE.set.matches(line);
        let rows = || found.iter().map(|row| TABLE.rows[row]);
        self.opened
            .extend(rows().filter(|row| row.1 == ClosingLine::Opens).map(|row| row.0));
        let mut failed = rows().filter(|row| row.1 == ClosingLine::Failed).map(|row| row.0);
        if let Some(runner) = failed.next() {
            self.failed.push(runner);
            self.last_failed = true;
            return;
        }
        let opened = |runner: usize| {
            let row = RUNNERS.get(runner);
            row.is_some_and(|row| row.opens.is_none() || self.opened.contains(&runner))
        };
        let passed = rows().find(|row| row.1 == ClosingLine::Passed && opened(row.0));
        if let Some((runner, _)) = passed {
            self.passed = Some((runner, at));
            self.closed.0 |= RUNNERS.get(runner).map_or(0, |row| 1 << row.purpose as u16);
            self.last_failed = false;
        }
    }

    fn report(&self, text: &str) -> ReportedResult {
        let passed = self
            .passed
            .and_then(|(at, line)| Some((at, RUNNERS.get(at)?, line)));
        match passed {
            None if self.failed.is_empty() && !only_lacks_program(text) => ReportedResult::Silent,
            None => ReportedResult::Failed,
            Some(_) if self.last_failed => ReportedResult::Failed,
            Some((at, runner, _)) if runner.by_parts && self.failed.contains(&at) => ReportedResult::Failed,
            Some(_) if !self.failed.is_empty() => ReportedResult::Mixed,
            Some((_, runner, line)) => {
                let following = || {
                    let lines = text.lines().skip(line + 1);
                    lines.filter(|line| !line.trim().is_empty())
                };
                // The success must be near the end: after many more lines it is not the close of the run.
                let closes = count_lines(text) - line <= CLOSING * 4 && following().count() < CLOSING;
                let mut around = text.lines().take(1).chain(following());
                match closes && !around.any(|line| WORDINGS.cut_off.occur_in(line)) {
                    true => ReportedResult::Passed(runner.purpose),
                    false => ReportedResult::Silent,
                }
            }
        }
    }
}

/// Whether an output is nothing but the complaint of a shell that it did not find the program.
fn only_lacks_program(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let is_lacking = |line: &str| commands::is_by_shell(line) && outcomes::lacks_program(line);
    lines.next().is_some_and(is_lacking) && lines.next().is_none()
}

/// Removes colors, margins and double spaces from a line.
fn plain(line: &str) -> Cow<'_, str> {
    let line = line.trim();
    if memchr::memchr2(b'\x1b', b'\t', line.as_bytes()).is_none() && !line.contains("  ") {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // An escape sequence such as `ESC [ 31 m` ends with a letter.
            let _ = chars.by_ref().find(char::is_ascii_alphabetic);
        } else if !c.is_whitespace() {
            out.push(c);
        } else if !out.ends_with(' ') && !out.is_empty() {
            out.push(' ');
        }
    }
    Cow::Owned(out.trim_end().to_owned())
}
