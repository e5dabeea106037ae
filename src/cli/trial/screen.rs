//! The answer on one screen.

use super::gather::{Gathered, Unread};
use crate::cli::output::{first_line, plural, short, size, table, visible};
use crate::cli::savings::{bar, dollars, signed_dollars};
use baton_core::bill::{Arm, PriceTable};
use baton_core::text::date::rfc3339;
use baton_core::trial::{ARMS, GroupSum, Outcome, Reckoned, TrialReport};

/// Width of the longest bar.
const BAR: f64 = 24.0;

/// Groups, sessions, rules and files that are named.
const GROUPS: usize = 8;
const NAMED: usize = 3;
const RULES: usize = 5;
const UNREAD: usize = 5;

/// Columns of a title.
const TITLE: usize = 44;

/// Characters of a session's id.
const ID: usize = 13;

/// What the screen is made of.
pub(super) struct Screen<'a> {
    pub(super) report: &'a TrialReport,
    pub(super) sessions: &'a [Reckoned],
    pub(super) rules: &'a [String],
    pub(super) gathered: &'a Gathered,
    pub(super) prices: &'a PriceTable,
    /// The arm that is recommended.
    pub(super) best: Arm,
}

impl Screen<'_> {
    pub(super) fn lines(&self) -> Vec<String> {
        let (report, gathered) = (self.report, self.gathered);
        let mut lines = vec![format!(
            "{} in {}, {}: {} in {} read in {:.1} s; prices of {}",
            counted(report.sessions, "session"),
            plural(report.days, "day"),
            counted(report.calls, "call"),
            size(gathered.bytes),
            counted(gathered.files, "file"),
            gathered.seconds,
            self.prices.date,
        )];
        lines.extend(unread(&gathered.unread));
        lines.push(String::new());
        lines.extend(self.groups());
        lines.push(String::new());
        lines.extend(self.lengths());
        lines.extend(self.named());
        lines.extend(self.rules());
        lines.push(String::new());
        lines.extend(self.certainty());
        lines.push(String::new());
        lines.extend(self.verdict());
        lines
    }

    /// A row for each agent and model, and what each arm would have saved.
    fn groups(&self) -> Vec<String> {
        let row = |group: &GroupSum| {
            let name = format!("  {}", first_line(&group.key, Some(TITLE)));
            let about = [
                name,
                group.sessions.to_string(),
                short(group.input),
                dollars(group.paid),
            ];
            let saved = group.saved[1..].iter().map(|saved| signed_dollars(*saved));
            about.into_iter().chain(saved).collect()
        };
        let head = ["  agent and model", "sessions", "input", "paid"].into_iter();
        let head = head.chain(ARMS[1..].iter().map(|arm| arm.name()));
        let groups = self.report.groups.iter().take(GROUPS);
        let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
        rows.extend(groups.map(row));
        rows.extend(self.report.total.iter().map(row));
        table(&rows)
    }

    /// Sessions by length: what was saved, and what was lost.
    fn lengths(&self) -> Vec<String> {
        let groups = &self.report.lengths;
        let most = groups
            .iter()
            .map(|group| group.won.max(group.lost))
            .fold(0.0, f64::max);
        let name = self.best.name();
        let mut lines = vec![format!(
            "  longest history   sessions   saved █ and lost ▒ by `{name}`"
        )];
        for group in groups {
            let bars = bar(group.won, most, BAR) + &bar(-group.lost, most, BAR);
            let (from, net) = (length(group), group.won - group.lost);
            let sum = if net.abs() <= 0.0 {
                String::new()
            } else {
                signed_dollars(net)
            };
            lines.push(
                format!("  {from:<17} {:>8}   {bars} {sum}", group.sessions)
                    .trim_end()
                    .to_owned(),
            );
        }
        lines
    }

    /// The sessions that would have gained most, and those that would have lost most.
    fn named(&self) -> Vec<String> {
        let saved = |one: &Reckoned| one.arm(self.best).map_or(0.0, |result| result.saved);
        let is_changed = |one: &&Reckoned| one.is_changed(self.best);
        let mut changed: Vec<&Reckoned> = self.sessions.iter().filter(is_changed).collect();
        changed.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
        let row = |one: &&Reckoned| {
            let cost = one.arms.first().map_or(0.0, |none| none.bill.cost);
            let id: String = one.session.id.chars().take(ID).collect();
            let (day, agent) = (rfc3339(one.started_ms / 1000), one.session.agent());
            let title = first_line(&one.session.title, Some(TITLE));
            let share = saved(one) / cost.max(f64::MIN_POSITIVE) * 100.0;
            let amount = match one.session.subscription {
                None => format!("{} of {}", signed_dollars(saved(one)), dollars(cost)),
                Some(_) => format!("{share:+.0} % of its tokens"),
            };
            let (day, id) = (&day[..10], visible(&id));
            format!("    {amount:<20} {day} {agent:<11} {title} ({id})")
        };
        let gained = changed.iter().take_while(|one| saved(one) > 0.0).take(NAMED);
        let lost = changed
            .iter()
            .rev()
            .take_while(|one| saved(one) < 0.0)
            .take(NAMED);
        let mut lines = under("  would have gained most", gained.map(row));
        lines.extend(under("  would have lost", lost.map(row)));
        lines
    }

    fn rules(&self) -> Vec<String> {
        let rules = self.rules.iter().take(RULES);
        let rules = rules.map(|rule| format!("    - {}", first_line(rule, Some(96))));
        let more = self.rules.len().saturating_sub(RULES);
        let more = (more > 0).then(|| format!("    … and {more} more"));
        under(
            "  rules of yours that a cut without carry would have dropped",
            rules.chain(more),
        )
    }

    /// How sure the figures are.
    fn certainty(&self) -> Vec<String> {
        let (report, name) = (self.report, self.best.name());
        let best = report.arm(self.best);
        let error = report.model_error.map(|(median, worst)| {
            let (median, worst) = (median * 100.0, worst * 100.0);
            format!(
                "The model of what was paid is off by {median:.1} % in the median and {worst:.1} % at worst."
            )
        });
        let again = best.filter(|sum| sum.cuts > 0).map(|sum| {
            let (cuts, assumed) = (counted(sum.cuts, "cut"), sum.assumed);
            format!("Read again behind {cuts}: what the session reads again, and files that it changes; in {assumed} of them 20,000 tokens are assumed.")
        });
        let none = report.arm(Arm::None).filter(|none| none.compactions > 0);
        let compacted = none.map(|none| {
            let count = plural(none.compactions.into(), "compaction");
            let left = best.map_or(0, |best| best.compactions);
            format!("The agents compacted: {count}, of which `{name}` leaves {left}.")
        });
        let models = first_line(&report.unpriced.join(", "), None);
        let unpriced = format!("Without a price, and not reckoned: {models} (bill.prices).");
        let estimated = self.sessions.iter().any(|one| one.session.estimated);
        let estimated =
            estimated.then(|| "goose records sums only: its calls are estimated from these.".to_owned());
        let unpriced = Some(unpriced).filter(|_| !models.is_empty());
        let all = [error, again, compacted, unpriced, estimated]
            .into_iter()
            .flatten();
        all.map(|line| format!("  {line}")).collect()
    }

    fn verdict(&self) -> Vec<String> {
        let (report, verdict) = (self.report, &self.report.verdict);
        let Some(sum) = report.arm(self.best) else {
            return Vec::new();
        };
        let (sessions, days) = (counted(report.sessions, "session"), plural(report.days, "day"));
        let would = match self.best {
            Arm::Free => "cuts that cost nothing",
            Arm::Pays => "handoffs where they pay",
            _ => "handoffs at task ends",
        };
        let lost = Some(format!(" by {}", dollars(sum.lost))).filter(|_| sum.lost > 0.0);
        let lost = lost.unwrap_or_default();
        let changes = format!(
            "{} cheaper, {} unchanged, {} dearer{lost}",
            sum.cheaper, sum.unchanged, sum.dearer
        );
        let verb = if sum.saved < 0.0 { "cost" } else { "saved" };
        let (paid, amount, error) = (dollars(report.paid), dollars(sum.saved.abs()), dollars(sum.error));
        let mut text = match report.with_dollars {
            0 => format!(
                "Over {sessions} in {days}: {would} would have sent {} ({changes}).",
                tokens(sum.unsent)
            ),
            _ => format!(
                "Over {sessions} in {days}, {paid}: {would} would have {verb} {amount} ± {error} ({changes})."
            ),
        };
        text.push_str(&match (verdict.outcome, verdict.from_tokens.map(short)) {
            (Outcome::NotForYou, _) => " Not for you: that is no more than the error, or little.".to_owned(),
            (Outcome::Dearer, _) => " Not for you: handoffs would have made it dearer.".to_owned(),
            (Outcome::ForYou, None) => format!(" For you: `{}`.", verdict.setting),
            (Outcome::ForYou, Some(from)) => {
                format!(
                    " For you: `{}`. Sessions under {from} tokens: leave it off.",
                    verdict.setting
                )
            }
        });
        let mut lines = vec![text];
        if verdict.mask_is_better {
            let mask = dollars(report.arm(Arm::Mask).map_or(0.0, |mask| mask.saved));
            lines.push(format!("Leaving out old results (`mask`), as providers' context editing does, would have saved more: {mask}."));
        }
        lines.extend(self.subscription(sum.unsent));
        lines
    }

    fn subscription(&self, unsent: i64) -> Option<String> {
        let count = self.report.subscription;
        let used = |one: &Reckoned| one.session.subscription.as_ref()?.percent;
        let limits: Vec<f64> = self.sessions.iter().filter_map(used).collect();
        let used: f64 = limits.iter().sum();
        let share = match limits.is_empty() {
            true => "the record has no limits".to_owned(),
            false => format!("they used {used:.0} % of the short limit, summed up"),
        };
        let sent = Some(format!("; of all sessions {} of input", tokens(unsent)));
        let sent = sent.filter(|_| self.report.with_dollars > 0).unwrap_or_default();
        let sessions = counted(count, "session");
        (count > 0).then(|| format!("{sessions} on a subscription, without dollars: {share}{sent}."))
    }
}

/// Lines under a head, if there are any.
fn under(head: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let lines: Vec<String> = lines.collect();
    let head = [String::new(), head.to_owned()]
        .into_iter()
        .filter(|_| !lines.is_empty());
    head.chain(lines.clone()).collect()
}

/// `12.3M tokens less`, or more.
fn tokens(unsent: i64) -> String {
    let word = if unsent < 0 { "more" } else { "less" };
    format!("{} tokens {word}", short(unsent.unsigned_abs()))
}

/// The shortest history of a group's sessions.
pub(super) fn length(group: &GroupSum) -> String {
    let tokens = group.key.parse().unwrap_or_default();
    match tokens {
        0 => "short".to_owned(),
        tokens => format!("from {}", short(tokens)),
    }
}

/// `3 calls`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    plural(count as u64, noun)
}

/// The files that were not read, or not all of each.
pub(super) fn unread(files: &[Unread]) -> Vec<String> {
    let mut lines = Vec::new();
    if files.is_empty() {
        return lines;
    }
    lines.push(format!(
        "not read, or not all of it: {}",
        counted(files.len(), "file")
    ));
    let named = files.iter().take(UNREAD);
    lines.extend(named.map(|file| format!("  {}: {}", visible(&file.file), visible(&file.reason))));
    if files.len() > UNREAD {
        lines.push(format!(
            "  … and {} more (--json lists all)",
            files.len() - UNREAD
        ));
    }
    lines
}
