//! Risks, the worst first.

use super::prompt::{PromptSection, SENTENCE, listed, merged};
use super::value::HandoffSource;
use super::{Risk, Severity};
use crate::text::prose::one_line;
use crate::work::{self, SeenFacts};

/// Maximum number of files or runs that a risk names.
const NAMED: usize = 8;

/// Minimum score of a good review, in tenths. A review below it is a risk.
const GOOD_REVIEW: u32 = 70;

/// Risks without duplicates.
#[derive(Default)]
struct Risks(Vec<Risk>);

impl Risks {
    fn add(&mut self, severity: Severity, detail: String) {
        if !self.0.iter().any(|risk| risk.detail == detail) {
            self.0.push(Risk { severity, detail });
        }
    }
}

pub(super) fn of(
    source: &HandoffSource<'_>,
    sections: &[PromptSection<'_>],
    claims: &[work::SeenClaim],
) -> Vec<Risk> {
    let seen = source.seen;
    let mut risks = Risks::default();
    checks_that_failed(seen, &mut risks);
    for stated in merged(&seen.blockers, listed(sections, &["blocker", "blocked"])) {
        risks.add(Severity::Warn, stated.text);
    }
    uncommitted(source, &mut risks);
    poor_reviews(seen, &mut risks);
    let contradicted = work::ClaimStatus::Contradicted;
    for claim in claims.iter().filter(|claim| claim.status == contradicted) {
        let detail = format!("claimed, and contradicted: {}", claim.text);
        risks.add(Severity::Warn, detail);
    }
    other_failures(seen, &mut risks);
    stale_checks(seen, &mut risks);
    // A stable sort: risks of one severity keep the order above.
    risks.0.sort_by_key(|risk| risk.severity);
    risks.0
}

fn checks_that_failed(seen: &SeenFacts, risks: &mut Risks) {
    for (at, run) in seen.verification.iter().enumerate() {
        // A wider check that passes later covers this one.
        let covers = |later: &work::SeenVerification| {
            let rest = run.command.strip_prefix(&later.command);
            later.passed == Some(true) && rest.is_some_and(|rest| rest.starts_with(' '))
        };
        if run.passed != Some(false) || seen.verification[at..].iter().any(covers) {
            continue;
        }
        let since = match run.stale {
            Some(true) => "; files changed after it",
            _ => "",
        };
        risks.add(
            Severity::Block,
            format!("`{}` {}{since}", run.command, run.failure()),
        );
    }
}

/// Adds uncommitted files as git reports them, or else as the transcript shows them.
fn uncommitted(source: &HandoffSource<'_>, risks: &mut Risks) {
    if source.is_unread {
        let detail = "the state of the repository was not looked at";
        risks.add(Severity::Warn, detail.to_owned());
    }
    let (changed, what) = match source.checkout {
        Some(checkout) => (&checkout.changed, "not committed"),
        None => (
            &source.seen.uncommitted,
            "changed after the last commit that was seen",
        ),
    };
    if !changed.is_empty() {
        let named = changed[..changed.len().min(NAMED)].join(", ");
        let more = if changed.len() > NAMED { ", …" } else { "" };
        let detail = format!("{what}: {named}{more} ({} in all)", changed.len());
        risks.add(Severity::Warn, detail);
    }
}

fn poor_reviews(seen: &SeenFacts, risks: &mut Risks) {
    for verdict in seen.verdicts.iter().filter(|verdict| is_review(&verdict.path)) {
        if let Some(score) = verdict.score.filter(|score| *score < GOOD_REVIEW) {
            let (whole, tenth) = (score / 10, score % 10);
            let detail = format!("the review {} gives {whole}.{tenth} of 10", verdict.path);
            risks.add(Severity::Warn, detail);
        }
    }
}

/// Failed commands that are not listed as checks.
fn other_failures(seen: &SeenFacts, risks: &mut Risks) {
    let is_listed = |failed: &work::SeenFailure| {
        let mut runs = seen.verification.iter();
        runs.any(|run| {
            run.turn == failed.turn && run.exit == failed.exit && failed.command.contains(&run.command)
        })
    };
    for failed in seen.failed().filter(|failed| !is_listed(failed)) {
        let command = one_line(&failed.command, SENTENCE);
        let (exit, turn) = (failed.exit.unwrap_or_default(), failed.turn);
        let detail =
            format!("`{command}` ended with {exit} in turn {turn}, and was not run again with success");
        risks.add(Severity::Info, detail);
    }
}

/// Checks that passed before files changed: a single risk, the newest first.
fn stale_checks(seen: &SeenFacts, risks: &mut Risks) {
    let runs = seen.verification.iter().rev();
    let stale = runs.filter(|run| run.passed == Some(true) && run.stale == Some(true));
    let stale = stale.map(|run| format!("`{}` passed in turn {}", run.command, run.turn));
    let stale: Vec<String> = stale.collect();
    if !stale.is_empty() {
        let named = stale[..stale.len().min(NAMED)].join(", ");
        let more = match stale.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        risks.add(Severity::Info, format!("files changed after {named}{more}"));
    }
}

pub(super) fn is_review(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.to_ascii_lowercase().contains("review")
}
