//! The kept facts of a result: how its call ended, and an excerpt of its text.

use super::excerpt::{self, RESULT, bounded};
use super::message::{IndexedCall, IndexedResult, ItemPosition};
use super::reader::MessageReader;
use crate::agents::background::BackgroundEnd;
use crate::agents::ending::{Evidence, LineEnd};
use crate::agents::tools::ToolKind;
use crate::agents::{background, commands, may_run_commands, outcomes, surroundings, wordings};
use crate::text::prose::count_lines;

/// Maximum size of a kept error, patch or trace in bytes: about 600 tokens.
const DETAIL: usize = 2400;

impl MessageReader<'_> {
    /// The kept facts of a result: its text, and how its call ended.
    pub(crate) fn outcome(&self, call: Option<&IndexedCall>, end: LineEnd, text: &str) -> IndexedResult {
        let kind = call.map_or(ToolKind::Other, |call| call.kind);
        let reads_failed = || excerpt::looks_failed(&bounded(outcomes::output(text), RESULT));
        // For a tool that no table lists, a result that reads like a failure outweighs a success, so the end is unknown.
        let may_run = || call.is_some_and(|call| may_run_commands(&call.name));
        let is_doubtful = || kind == ToolKind::Other && may_run() && reads_failed();
        let failed = end.failed.filter(|failed| *failed || !is_doubtful());
        let changed = match failed {
            _ if !kind.changes() => None,
            Some(failed) => Some(!failed),
            None => outcomes::changed(text),
        };
        let command = call.and_then(|call| call.command.as_deref());
        let reporting = command
            // The output of a failed git command proves no state of the repository.
            .filter(|_| failed != Some(true));
        let mut outcome = IndexedResult {
            not_run: outcomes::is_not_run(text),
            moved_to: call
                .filter(|call| call.stays && call.kind == ToolKind::Shell)
                .and_then(|_| surroundings::moved_to(text))
                .map(|path| self.clean(path)),
            // A single command has no other that prepares it.
            unprepared: command.is_some_and(|line| line.contains(['&', '|', ';', '\n']))
                && outcomes::is_unprepared(text),
            changed,
            made: match kind {
                ToolKind::Write | ToolKind::Edit => outcomes::made(text),
                _ => None,
            },
            git: reporting.map_or(Vec::new(), |command| outcomes::git_reports(command, text)),
            score: match call {
                Some(call) if kind == ToolKind::Read && self.is_verdict(&call.paths) => excerpt::score(text),
                _ => None,
            },
            failed,
            session: Some(text)
                .filter(|_| end.is_running)
                .and_then(background::started)
                .map(str::to_owned),
            refuses: command
                .is_some_and(|command| commands::asks_services(command) && outcomes::refuses(text)),
            end,
            // The text of a tool that only fetches may be about failures of others.
            looks_failed: failed.is_none()
                && (kind != ToolKind::Other || may_run())
                && (end.reads_failed || reads_failed()),
            bytes: text.len(),
            ..IndexedResult::default()
        };
        // Later calls are compared with the lines of an error.
        if self.settings.quotes || outcome.is_error() {
            self.excerpt(call, text, &mut outcome);
        }
        outcome
    }

    /// The result of a call whose command was left in the background and has ended. `place` is the position of the call.
    pub(crate) fn ended_later(&self, place: Option<ItemPosition>, end: &BackgroundEnd) -> IndexedResult {
        let call = place.and_then(|place| self.call_at(place));
        let (code, flag) = (end.code, end.code.map(|code| code != 0));
        // The output of a stopped command, or of one that is known in part, does not show its end.
        let call_is_whole = || call.is_some_and(|call| call.whole);
        let output = end
            .output
            .as_deref()
            .filter(|_| code.is_some() && call_is_whole());
        let evidence = output.map(|text| Evidence {
            command: call.and_then(|call| call.command.as_deref()),
            flag,
            code,
            silence_is_zero: false,
            text,
        });
        let end = evidence.map_or(LineEnd::flagged(code, flag), |evidence| evidence.decide());
        IndexedResult {
            call: place,
            is_over: true,
            ..self.outcome(call, end, output.unwrap_or_default())
        }
    }

    /// Adds the excerpt that a draft quotes: lines of a run or an error, otherwise only the number of lines.
    fn excerpt(&self, call: Option<&IndexedCall>, text: &str, outcome: &mut IndexedResult) {
        const SECRET: &str = "(a file with credentials: its contents are left out)";
        let kind = call.map_or(ToolKind::Other, |call| call.kind);
        let quoted = [ToolKind::Shell, ToolKind::Agent, ToolKind::Ask, ToolKind::Other];
        if call.is_some_and(|call| !call.secrets.is_empty()) {
            outcome.lines.push(SECRET.to_owned());
        } else if outcome.is_error() || quoted.contains(&kind) {
            let command = call.and_then(|call| call.command.as_deref()).unwrap_or_default();
            self.quote(
                command,
                outcomes::output(wordings::before_reminders(text)),
                outcome,
            );
        } else {
            outcome.lines.push(format!("{} lines", count_lines(text)));
        }
    }

    fn quote(&self, command: &str, text: &str, outcome: &mut IndexedResult) {
        let clean = self.clean(&bounded(text, RESULT));
        outcome.lines = match outcome.is_error() {
            true => excerpt::quoted(&clean),
            false => excerpt::outcome(&clean),
        };
        if outcome.failed == Some(true) {
            outcome.tail = excerpt::tail(&clean);
        }
        if !outcome.is_error() && commands::runs(command).iter().any(|run| run.purpose.changes()) {
            outcome.effects = excerpt::named(&clean);
        }
        if outcome.is_error() || excerpt::is_diff(&clean) || excerpt::is_trace(&clean) {
            outcome.detail = Some(excerpt::both_ends(&clean, DETAIL));
        }
    }
}
