//! The answer on one screen.

use std::iter;

use super::gather::Gathered;
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
}

impl Screen<'_> {
    pub(super) fn lines(&self) -> Vec<String> {
        let (report, gathered) = (self.report, self.gathered);
        let (sessions, days) = (counted(report.sessions, "session"), plural(report.days, "day"));
        let (files, bytes) = (counted(gathered.files, "file"), size(gathered.bytes));
        let (calls, seconds) = (counted(report.calls, "call"), gathered.seconds);
        let date = &self.prices.date;
        let mut lines = vec![format!(
            "{sessions} in {days}, {calls}: {bytes} in {files} read in {seconds:.1} s; prices of {date}"
        )];
        lines.extend(unread(&gathered.unread));
        let mut parts = vec![self.groups(), self.lengths()];
        parts.extend(self.named());
        parts.extend([self.rules(), self.certainty(), self.verdict()]);
        for part in parts.iter().filter(|part| !part.is_empty()) {
            lines.push(String::new());
            lines.extend_from_slice(part);
        }
        lines
    }

    /// A row for each agent and model, and what each arm would have saved.
    fn groups(&self) -> Vec<String> {
        let row = |group: &GroupSum| {
            let (name, paid) = (first_line(&group.key, Some(TITLE)), dollars(group.paid));
            let sessions = group.sessions.to_string();
            let about = [format!("  {name}"), sessions, short(group.input), paid];
            let saved = group.saved[1..].iter().map(|saved| signed_dollars(*saved));
            about.into_iter().chain(saved).collect()
        };
        let about = ["  agent and model", "sessions", "input", "paid"].map(str::to_owned);
        let saved = ARMS[1..].iter().map(|arm| format!("{} saves", arm.name()));
        let head = about.into_iter().chain(saved).collect();
        let groups = self.report.groups.iter().take(GROUPS).chain(&self.report.total);
        table(&iter::once(head).chain(groups.map(row)).collect::<Vec<_>>())
    }

    /// Sessions by length: what was saved, and what was lost.
    fn lengths(&self) -> Vec<String> {
        let (groups, name) = (&self.report.lengths, self.report.best.name());
        let most = self.report.most();
        let head = format!("  longest history   sessions   saved █ and lost ▒ by `{name}`");
        let row = |group: &GroupSum| {
            let bars = bar(group.won, most, BAR) + &bar(-group.lost, most, BAR);
            let (from, net) = (length(group), signed_dollars(group.won - group.lost));
            format!("  {from:<17} {:>8}   {bars} {net}", group.sessions)
        };
        iter::once(head).chain(groups.iter().map(row)).collect()
    }

    /// The sessions that would have gained most, and those that would have lost most.
    fn named(&self) -> [Vec<String>; 2] {
        let saved = |one: &Reckoned| one.arm(self.report.best).map_or(0.0, |result| result.saved);
        let is_changed = |one: &&Reckoned| one.is_changed(self.report.best);
        let mut changed: Vec<&Reckoned> = self.sessions.iter().filter(is_changed).collect();
        changed.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
        let row = |one: &&Reckoned| {
            let cost = one.arms.first().map_or(0.0, |none| none.bill.cost);
            let amount = match one.session.subscription {
                None => format!("{} of {}", signed_dollars(saved(one)), dollars(cost)),
                Some(_) => format!("{:+.0} % of its tokens", saved(one) / cost * 100.0),
            };
            let (agent, title) = (one.session.agent(), first_line(&one.session.title, Some(TITLE)));
            let day = rfc3339(one.started_ms / 1000);
            let id = first_line(&one.session.id, Some(ID));
            format!("    {amount:<20} {} {agent:<11} {title} ({id})", &day[..10])
        };
        let gained = changed.iter().take_while(|one| saved(one) > 0.0);
        let lost = changed.iter().rev().take_while(|one| saved(one) < 0.0);
        [
            under("  would have gained most", gained.take(NAMED).map(row)),
            under("  would have lost", lost.take(NAMED).map(row)),
        ]
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
        let (report, name) = (self.report, self.report.best.name());
        let (none, best) = (report.arm(Arm::None), report.arm(self.report.best));
        let error = report.model_error.map(|(median, worst)| {
            let (median, worst) = (median * 100.0, worst * 100.0);
            format!(
                "The model of what was paid is off by {median:.1} % in the median and {worst:.1} % at worst."
            )
        });
        let (cuts, assumed) = (counted(best.cuts, "cut"), best.assumed);
        let again = format!(
            "Read again behind {cuts}: what the session reads again, and files that it changes; in {assumed} of them 20,000 tokens are assumed."
        );
        let (count, left) = (plural(none.compactions.into(), "compaction"), best.compactions);
        let compacted = format!("The agents compacted: {count}, of which `{name}` leaves {left}.");
        let models = first_line(&report.unpriced.join(", "), None);
        let unpriced = format!("Without a price, and not reckoned: {models} (bill.prices).");
        let sums = "goose records sums only: its calls are estimated from these.".to_owned();
        let is_estimated = self.sessions.iter().any(|one| one.session.estimated);
        let all = [
            error,
            Some(again).filter(|_| best.cuts > 0),
            Some(compacted).filter(|_| none.compactions > 0),
            Some(unpriced).filter(|_| !models.is_empty()),
            Some(sums).filter(|_| is_estimated),
        ];
        let all = all.into_iter().flatten();
        all.map(|line| format!("  {line}")).collect()
    }

    fn verdict(&self) -> Vec<String> {
        let (report, verdict) = (self.report, &self.report.verdict);
        let sum = report.arm(self.report.best);
        let (sessions, days) = (counted(report.sessions, "session"), plural(report.days, "day"));
        let rule = match self.report.best {
            Arm::Free => "cuts that cost nothing",
            Arm::Pays => "handoffs where they pay",
            _ => "handoffs at task ends",
        };
        let lost = Some(format!(" by {}", dollars(sum.lost))).filter(|_| sum.lost > 0.0);
        let (cheaper, unchanged, dearer) = (sum.cheaper, sum.unchanged, sum.dearer);
        let lost = lost.unwrap_or_default();
        let changes = format!("{cheaper} cheaper, {unchanged} unchanged, {dearer} dearer{lost}");
        let verb = if sum.saved < 0.0 { "cost" } else { "saved" };
        let (paid, amount, error) = (dollars(report.paid), dollars(sum.saved.abs()), dollars(sum.error));
        let unsent = tokens(sum.unsent);
        let (over, would) = match report.with_dollars {
            0 => (String::new(), format!("sent {unsent}")),
            _ => (format!(", {paid}"), format!("{verb} {amount} ± {error}")),
        };
        let advice = match (verdict.outcome, verdict.from_tokens.map(short)) {
            (Outcome::NotForYou, _) if sum.cuts == 0 => {
                "Not for you: nothing would have been cut; the tool in each request costs that.".to_owned()
            }
            (Outcome::NotForYou, _) => "Not for you: that is no more than the error, or little.".to_owned(),
            (Outcome::Dearer, _) => "Not for you: handoffs would have made it dearer.".to_owned(),
            (Outcome::ForYou, None) => format!("For you: `{}`.", verdict.setting),
            (Outcome::ForYou, Some(from)) => {
                let setting = verdict.setting;
                format!("For you: `{setting}`. Sessions under {from} tokens: leave it off.")
            }
        };
        let mask = dollars(report.arm(Arm::Mask).saved);
        let mask = format!(
            "Leaving out old results (`mask`), as providers' context editing does, would have saved more: {mask}."
        );
        let all = [
            Some(format!(
                "Over {sessions} in {days}{over}: {rule} would have {would} ({changes}). {advice}"
            )),
            Some(mask).filter(|_| verdict.mask_is_better),
            self.subscription(&unsent),
        ];
        all.into_iter().flatten().collect()
    }

    fn subscription(&self, unsent: &str) -> Option<String> {
        let count = self.report.subscription;
        let used = |one: &Reckoned| one.session.subscription.as_ref()?.percent;
        let limits: Vec<f64> = self.sessions.iter().filter_map(used).collect();
        let used: f64 = limits.iter().sum();
        let share = match limits.is_empty() {
            true => "the record has no limits".to_owned(),
            false => format!("they used {used:.0} % of the short limit, summed up"),
        };
        let sessions = counted(count, "session");
        let text = format!(
            "{sessions} on a subscription, without dollars: {share}; of all sessions {unsent} of input."
        );
        Some(text).filter(|_| count > 0)
    }
}

/// Lines under a head, if there are any.
fn under(head: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines = lines.peekable();
    let head = lines.peek().map(|_| head.to_owned());
    head.into_iter().chain(lines).collect()
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
pub(super) fn unread(files: &[String]) -> Vec<String> {
    let row = |file: &String| format!("  {}", visible(file));
    let more = files.len().saturating_sub(UNREAD);
    let more = (more > 0).then(|| format!("  … and {more} more (--json lists all)"));
    let head = format!("not read, or not all of it: {}", counted(files.len(), "file"));
    under(&head, files.iter().take(UNREAD).map(row).chain(more))
}
