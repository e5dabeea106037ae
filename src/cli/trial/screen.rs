//! The result on one screen.

use std::iter;

use super::gather::Gathered;
use super::layout::{clipped, money, percent, saving, table, wrapped};
use crate::cli::output::{first_line, plural, short, size, visible};
use crate::cli::savings::bar;
use baton_core::bill::PriceTable;
use baton_core::text::date::rfc3339;
use baton_core::trial::{ArmSum, GroupSum, LengthSum, Outcome, Reckoned, TrialReport};

/// Width of the longest bar.
const BAR: f64 = 24.0;

/// Maximum numbers of displayed groups, settings, sessions, rules and files.
const GROUPS: usize = 8;
const SETTINGS: usize = 3;
const NAMED: usize = 3;
const RULES: usize = 5;
const UNREAD: usize = 5;

/// Number of printed characters of a session's id, which `--session` accepts.
const ID: usize = 8;

/// Input of the screen.
pub(super) struct Screen<'a> {
    pub(super) report: &'a TrialReport,
    pub(super) sessions: &'a [Reckoned],
    pub(super) rules: &'a [String],
    pub(super) gathered: &'a Gathered,
    pub(super) prices: &'a PriceTable,
    pub(super) columns: usize,
}

impl Screen<'_> {
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = self.head();
        lines.extend(unread(&self.gathered.unread));
        let mut parts = vec![self.groups(), self.policies(), self.lengths()];
        parts.extend(self.named());
        parts.extend([self.rules(), self.notes(), self.verdict()]);
        for part in parts.iter().filter(|part| !part.is_empty()) {
            lines.push(String::new());
            lines.extend_from_slice(part);
        }
        lines
    }

    fn head(&self) -> Vec<String> {
        let (report, gathered) = (self.report, self.gathered);
        let behind = match (report.behind_baton, counted(report.behind_baton, "session")) {
            (0, _) => String::new(),
            (1, one) => format!(" {one} that ran through baton is not judged."),
            (_, many) => format!(" {many} that ran through baton are not judged."),
        };
        let (files, bytes) = (counted(gathered.files, "file"), size(gathered.bytes));
        let (seconds, date) = (gathered.seconds, &self.prices.date);
        let (sessions, span, calls) = (sessions(report), span(report), counted(report.calls, "call"));
        let text = format!(
            "{sessions}, {span} (UTC): {calls}.{behind} {files}, {bytes}, read in {seconds:.1} s; prices of {date}."
        );
        wrapped(&text, self.columns, 0)
    }

    /// Whether to show dollars: not if all sessions are on a subscription.
    fn has_dollars(&self) -> bool {
        self.report.with_dollars > 0
    }

    /// A row for each agent and model, by call.
    fn groups(&self) -> Vec<String> {
        let report = self.report;
        let verdict = &report.verdict;
        let shown = [verdict.default.arm.as_str(), verdict.best.arm.as_str()];
        // If no setting does better than the defaults, both columns would be the same.
        let shown = if shown[0] == shown[1] { &shown[..1] } else { &shown };
        let is_shown = |sum: &&ArmSum| shown.contains(&sum.arm.as_str()) || sum.hindsight;
        let columns = report.arms.iter().enumerate().filter(|(_, sum)| is_shown(sum));
        let columns: Vec<usize> = columns.map(|(at, _)| at).collect();
        let row = |name: String, calls: usize, input: u64, paid: f64, saved: &dyn Fn(usize) -> f64| {
            let mut row = vec![name, calls.to_string(), short(input)];
            if self.has_dollars() {
                row.push(money(paid));
                row.extend(columns.iter().map(|at| saving(saved(*at))));
            }
            row
        };
        let of_group = |group: &GroupSum| {
            let name = format!("    {}", group.model);
            let saved = |at: usize| group.saved.get(at).copied().unwrap_or_default();
            row(name, group.calls, group.input, group.paid, &saved)
        };
        let head = ["  agent and model", "calls", "input"];
        let mut head = head.map(str::to_owned).to_vec();
        if self.has_dollars() {
            head.push("paid".to_owned());
            head.extend(columns.iter().map(|at| match &report.arms[*at] {
                sum if sum.hindsight => "hindsight".to_owned(),
                sum if sum.arm == shown[0] => "default".to_owned(),
                _ => "best".to_owned(),
            }));
        }
        let input = report.groups.iter().map(|group| group.input).sum();
        let saved = |at: usize| report.arms[at].saved;
        let all = row("  all".to_owned(), report.calls, input, report.paid, &saved);
        let mut rows = vec![head];
        let mut agents: Vec<&str> = Vec::new();
        for group in &report.groups {
            if !agents.contains(&group.agent) {
                agents.push(group.agent);
                let own = report.groups.iter().filter(|other| other.agent == group.agent);
                rows.push(vec![format!("  {}", group.agent)]);
                rows.extend(own.take(GROUPS).map(of_group));
            }
        }
        rows.push(all);
        table(&rows, self.columns)
    }

    /// Renders a row for each policy: its savings, and their share of the recorded cost.
    fn policies(&self) -> Vec<String> {
        let report = self.report;
        let whole = report.weight;
        let row = |sum: &ArmSum| {
            let name = format!("  {}", sum.title);
            let mut row = vec![name];
            match self.has_dollars() {
                true if sum.hindsight => row.extend([saving(sum.saved), String::new()]),
                true => row.extend([saving(sum.saved), money(sum.error)]),
                false => row.push(tokens(sum.unsent)),
            }
            let (cuts, compactions) = (sum.cuts.to_string(), sum.compactions.to_string());
            row.extend([percent(sum.saved, whole), cuts, compactions]);
            row
        };
        let fixed = ["default", "masked", "only_cold"];
        let named = fixed.iter().filter_map(|name| report.arm(name));
        let mut settings: Vec<&ArmSum> = report.arms.iter().filter(|sum| !sum.setting.is_empty()).collect();
        // Sorted by the saving minus its error, so that an uncertain setting is not listed first.
        settings.sort_by(|a, b| b.at_least().total_cmp(&a.at_least()));
        let bound = report.bound();
        let sums = named.chain(settings.into_iter().take(SETTINGS)).chain(bound);
        let amounts = if self.has_dollars() { "dollars ±" } else { "input" };
        let head = ["  would have saved"].into_iter().chain(amounts.split(' '));
        let head = head.chain(["share", "cuts", "compactions"]);
        let head = head.map(str::to_owned).collect();
        let rows: Vec<_> = iter::once(head).chain(sums.map(row)).collect();
        let mut lines = table(&rows, self.columns);
        let followed = report.follow_share * 100.0;
        let legend = format!(
            "  The model hands over at {followed:.0} % of task ends and notices (--follow-share). masked: old results are left out, as providers do. hindsight: with the future known."
        );
        lines.extend(wrapped(&legend, self.columns, 0));
        lines
    }

    /// Renders sessions by length with the savings and losses of the best setting.
    fn lengths(&self) -> Vec<String> {
        let lengths = &self.report.lengths;
        let most = lengths.iter().map(|length| length.won.max(length.lost));
        let most = most.fold(0.0, f64::max);
        // No group differs by a cent, so bars would show only noise.
        if most < 0.01 {
            return Vec::new();
        }
        let whole = self.report.weight;
        let row = |length: &LengthSum| {
            let bars = bar(length.won, most, BAR) + &bar(-length.lost, most, BAR);
            let net = match self.has_dollars() {
                true => saving(length.won - length.lost),
                false => percent(length.won - length.lost, whole),
            };
            let name = length_name(length);
            format!("  {name:<15}  {:>8}   {bars} {net}", length.sessions)
        };
        let best = self.report.arm(&self.report.verdict.best.arm);
        let best = best.map_or("", |sum| sum.title.as_str());
        let head = format!("  longest history  sessions   saved █ and lost ▒ by {best}");
        let head = iter::once(clipped(&head, self.columns));
        head.chain(lengths.iter().map(row)).collect()
    }

    /// The sessions with the highest savings, and those with the highest losses.
    fn named(&self) -> [Vec<String>; 2] {
        let arm = self.report.verdict.best.arm.as_str();
        let saved = |one: &Reckoned| one.arm(arm).map_or(0.0, |result| result.saved);
        let is_changed = |one: &&Reckoned| one.is_judged() && one.is_changed(arm);
        let mut changed: Vec<&Reckoned> = self.sessions.iter().filter(is_changed).collect();
        changed.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
        let row = |one: &&Reckoned| {
            let amount = match one.has_dollars() {
                true => format!("{} of {}", saving(saved(one)), money(one.cost())),
                false => format!("{} of its tokens", percent(saved(one), one.cost())),
            };
            let day = &rfc3339(one.started_ms / 1000)[..10];
            let (id, title) = (short_id(one), visible(&one.session.title));
            clipped(&format!("    {amount:<19} {day} {id} {title}"), self.columns)
        };
        let gained = changed.iter().take_while(|one| saved(one) > 0.0);
        let lost = changed.iter().rev().take_while(|one| saved(one) < 0.0);
        [
            under("  would have gained most", gained.take(NAMED).map(row)),
            under("  would have lost", lost.take(NAMED).map(row)),
        ]
    }

    fn rules(&self) -> Vec<String> {
        let width = self.columns - 6;
        let rules = self.rules.iter().take(RULES);
        let rules = rules.map(|rule| format!("    - {}", first_line(rule, Some(width))));
        let more = self.rules.len().saturating_sub(RULES);
        let more = (more > 0).then(|| format!("    … and {more} more"));
        let head = "  your rules that a prompt without additions would have dropped";
        under(head, rules.chain(more))
    }

    /// Renders notes on the sources of the figures.
    fn notes(&self) -> Vec<String> {
        let report = self.report;
        let off = report.model_error.map(|(all, worst)| {
            let [all, worst] = [all, worst].map(|share| share * 100.0);
            format!("Without cuts the replay differs from the record by {all:.1} %, in the worst session by {worst:.1} %.")
        });
        let lost = report.lost.iter().map(|lost| {
            let cost = self.has_dollars().then(|| format!(", {}", money(lost.cost)));
            let (calls, tokens) = (counted(lost.calls, "call"), short(lost.tokens));
            let (cause, cost) = (lost.cause.name(), cost.unwrap_or_default());
            format!("{calls} by {cause} ({tokens} tokens{cost})")
        });
        let lost: Vec<String> = lost.collect();
        let models = first_line(&report.unpriced.join(", "), None);
        let is_estimated = self.sessions.iter().any(|one| one.session.estimated);
        let unpriced = || format!("Without a price, and not judged: {models} (bill.prices).");
        let all = [
            off,
            (!lost.is_empty()).then(|| format!("Stored again: {}.", lost.join(", "))),
            (!models.is_empty()).then(unpriced),
            is_estimated.then(|| "goose records sums only: its calls are estimated from these.".to_owned()),
        ];
        let all = all.into_iter().flatten().map(|line| format!("  {line}"));
        all.flat_map(|line| wrapped(&line, self.columns, 2)).collect()
    }

    /// Renders the verdict: the defaults, the best setting, and the upper bound.
    fn verdict(&self) -> Vec<String> {
        let (report, verdict) = (self.report, &self.report.verdict);
        let default = report.arm(&verdict.default.arm).map(|sum| {
            let what = self.would(sum, true);
            format!("With the defaults: {what}. {}", outcome(verdict.default.outcome))
        });
        let best = report
            .arm(&verdict.best.arm)
            .map(|sum| match verdict.best.setting.as_str() {
                "" => "Without knowing the future: no setting does better than the defaults.".to_owned(),
                setting => {
                    let (what, outcome) = (self.would(sum, true), outcome(verdict.best.outcome));
                    format!("Without knowing the future, at best: {what}, by `{setting}`. {outcome}")
                }
            });
        let bound = report.bound().map(|sum| {
            let what = self.would(sum, false);
            format!("In hindsight, with every cut at its best moment: {what}. No setting reaches that.")
        });
        let masked = report.arm("masked").filter(|_| verdict.masked_is_better);
        let masked = masked.map(|sum| {
            let what = self.would(sum, true);
            format!("Leaving out old results, as providers' context editing does: {what}.")
        });
        let all = [default, best, bound, masked, self.subscription()];
        let all = all.into_iter().flatten();
        all.flat_map(|line| wrapped(&line, self.columns, 2)).collect()
    }

    /// `$2.10 ± $0.80 less (7 % of $28.91; 2 of 3 sessions cheaper, 1 dearer)`.
    fn would(&self, sum: &ArmSum, has_error: bool) -> String {
        let word = if sum.saved < 0.0 { "more" } else { "less" };
        let share = percent(sum.saved.abs(), self.report.weight);
        let error = match has_error {
            true => format!(" ± {}", money(sum.error)),
            false => String::new(),
        };
        let (cheaper, dearer) = (sum.cheaper, sum.dearer);
        match self.has_dollars() {
            true => {
                let (saved, paid) = (money(sum.saved.abs()), money(self.report.paid));
                format!("{saved}{error} {word} ({share} of {paid}; {cheaper} cheaper, {dearer} dearer)")
            }
            false => {
                let tokens = tokens(sum.unsent);
                format!("{share} {word} by weight, {tokens} of input ({cheaper} cheaper, {dearer} dearer)")
            }
        }
    }

    fn subscription(&self) -> Option<String> {
        let count = self.report.subscription;
        let used = |one: &Reckoned| one.session.subscription.as_ref()?.percent;
        let limits: Vec<f64> = self.sessions.iter().filter_map(used).collect();
        let used: f64 = limits.iter().sum();
        let limits = match limits.is_empty() {
            true => "their records have no limits".to_owned(),
            false => {
                let default = self.report.arm("default").map_or(0.0, |sum| sum.saved);
                let whole = self.report.weight;
                let share = if whole > 0.0 { default / whole } else { 0.0 };
                let less = used * (1.0 - share);
                format!("they used {used:.0} % of the short limit, summed up; with the defaults {less:.0} %")
            }
        };
        let text = format!(
            "{} on a subscription, weighed by list prices: {limits}.",
            counted(count, "session")
        );
        Some(text).filter(|_| count > 0)
    }
}

/// An outcome as a sentence.
fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::ForYou => "Handoffs are for you.",
        Outcome::NoDifference => "It makes no difference.",
        Outcome::NotForYou => "Handoffs are not for you.",
    }
}

/// `3 sessions and 7 subagents`.
pub(super) fn sessions(report: &TrialReport) -> String {
    let subagents = match report.subagents {
        0 => String::new(),
        count => format!(" and {}", counted(count, "subagent")),
    };
    format!("{}{subagents}", counted(report.sessions, "session"))
}

/// `2026-02-11 to 2026-02-24`.
pub(super) fn span(report: &TrialReport) -> String {
    let [from, to] = [report.started_ms, report.ended_ms].map(|ms| rfc3339(ms / 1000)[..10].to_owned());
    if from == to {
        from
    } else {
        format!("{from} to {to}")
    }
}

/// Shortens an id so that `--session` still opens it: the first characters of a session's id, and the whole
/// name of a subagent.
pub(super) fn short_id(one: &Reckoned) -> String {
    let id = visible(&one.session.id);
    let subagent = id.split_once('/').map(|(session, agent)| (session, Some(agent)));
    let (session, agent) = subagent.unwrap_or((&*id, None));
    let beginning: String = session.chars().take(ID).collect();
    agent.map_or(beginning.clone(), |agent| format!("{beginning}/{agent}"))
}

/// Lines below a head; nothing if there are no lines.
fn under(head: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines = lines.peekable();
    let head = lines.peek().map(|_| head.to_owned());
    head.into_iter().chain(lines).collect()
}

/// `12.3 M less`, or more.
fn tokens(unsent: i64) -> String {
    let word = if unsent < 0 { "more" } else { "less" };
    format!("{} tokens {word}", short(unsent.unsigned_abs()))
}

/// Name of a group of session lengths.
pub(super) fn length_name(length: &LengthSum) -> String {
    match length.from {
        0 => "under 25 k".to_owned(),
        from => format!("from {} k", from / 1000),
    }
}

/// `3 calls`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    plural(count as u64, noun)
}

/// The files that were not read completely.
pub(super) fn unread(files: &[String]) -> Vec<String> {
    let row = |file: &String| format!("  {}", visible(file));
    let more = files.len().saturating_sub(UNREAD);
    let more = (more > 0).then(|| format!("  … and {more} more (--json lists all)"));
    let head = format!("not read, or not all of it: {}", counted(files.len(), "file"));
    under(&head, files.iter().take(UNREAD).map(row).chain(more))
}
