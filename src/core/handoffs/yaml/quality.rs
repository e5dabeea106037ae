//! Quality of a file as a starting point: coverage, recency, actionability, traceability, each 0 to 100. Violations of the
//! format are listed apart.

use std::collections::HashSet;

use super::lenient::violation;
use super::model::{Dimension, HandoffFile, QualityReport};
use super::names::{self, AGENT_TYPE, OUTCOME, STATUS, VERSION};
use super::time::{Time, is_date};
use crate::handoffs::field_error::FieldError;

/// Minimum scores for `high` and `medium`.
const HIGH: i64 = 80;
const MEDIUM: i64 = 60;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// A criterion of a dimension: its points, the code reported if it is not met, and whether it is met.
type QualityCriterion = (i64, &'static str, bool);

/// How to fix a reason.
fn hint(reason: &str) -> &'static str {
    match reason {
        "missing_goal" => "state what the session accomplished",
        "missing_now" => "state what to do first",
        "missing_test" => "name the command that verifies the work",
        "no_tasks" => "list what was done",
        "no_files" => "list the files that were touched",
        "no_decisions_or_findings" => "note decisions with their reasons, and findings",
        "no_outlook" | "no_next_steps" => "list next steps, blockers or open questions",
        "no_active_beads" | "no_beads" => "name the tasks in progress",
        "blockers_not_named" => "name the blockers",
        "no_threads" => "name the threads of Agent Mail",
        "no_memories" => "carry memories along",
        "no_agent" => "name the agent",
        _ => "",
    }
}

/// Rates a file at a point in time.
pub fn score(file: &HandoffFile, now: Time) -> QualityReport {
    let dimensions = vec![
        sum("coverage", &coverage(file)),
        recency(file, now),
        sum("actionability", &actionability(file)),
        sum("traceability", &traceability(file)),
    ];
    let total: i64 = dimensions.iter().map(|dimension| dimension.score).sum();
    let count = dimensions.len() as i64;
    let score = ((total + count / 2) / count).clamp(0, 100);
    let all = |list: fn(&Dimension) -> &Vec<String>| {
        let mut seen = HashSet::new();
        let once = dimensions.iter().flat_map(list).filter(|text| seen.insert(*text));
        once.cloned().collect()
    };
    QualityReport {
        score,
        status: status(score).to_owned(),
        scored_at: now.rfc3339(),
        reasons: all(|dimension| &dimension.reasons),
        hints: all(|dimension| &dimension.hints),
        dimensions,
        extra: Vec::new(),
    }
}

impl QualityReport {
    /// The part of a report that is written into a file: the score and the reasons. The hints follow from those.
    pub fn brief(self) -> Self {
        Self {
            dimensions: Vec::new(),
            hints: Vec::new(),
            ..self
        }
    }
}

/// The word for a score.
fn status(score: i64) -> &'static str {
    match score {
        HIGH.. => "high",
        MEDIUM.. => "medium",
        _ => "low",
    }
}

fn sum(name: &str, all: &[QualityCriterion]) -> Dimension {
    let (there, missing): (Vec<_>, Vec<_>) = all.iter().partition(|(.., there)| *there);
    let missing = missing.iter().map(|(_, reason, _)| *reason);
    Dimension {
        name: name.to_owned(),
        score: there.iter().map(|(points, ..)| points).sum(),
        reasons: missing.clone().map(|reason| format!("{name}.{reason}")).collect(),
        hints: missing.map(|reason| hint(reason).to_owned()).collect(),
        extra: Vec::new(),
    }
}

fn has_text(text: &str) -> bool {
    !text.trim().is_empty()
}

fn coverage(file: &HandoffFile) -> [QualityCriterion; 7] {
    let found = !file.decisions.is_empty() || !file.findings.is_empty();
    let ahead = !file.next.is_empty() || !file.blockers.is_empty() || !file.questions.is_empty();
    [
        (20, "missing_goal", has_text(&file.goal)),
        (20, "missing_now", has_text(&file.now)),
        (15, "missing_test", has_text(&file.test)),
        (15, "no_tasks", !file.done_this_session.is_empty()),
        (10, "no_files", file.file_count() > 0),
        (10, "no_decisions_or_findings", found),
        (10, "no_outlook", ahead),
    ]
}

fn actionability(file: &HandoffFile) -> [QualityCriterion; 5] {
    let clear = !file.is_blocked() || !file.blockers.is_empty();
    [
        (30, "missing_now", has_text(&file.now)),
        (20, "no_next_steps", !file.next.is_empty()),
        (20, "missing_test", has_text(&file.test)),
        (15, "no_active_beads", !file.active_beads.is_empty()),
        (15, "blockers_not_named", clear),
    ]
}

fn traceability(file: &HandoffFile) -> [QualityCriterion; 5] {
    let agent = has_text(&file.agent_id) || has_text(&file.agent_type);
    [
        (25, "no_files", !file.paths().is_empty() || file.file_count() > 0),
        (20, "no_beads", !file.active_beads.is_empty()),
        (20, "no_threads", !file.agent_mail_threads.is_empty()),
        (20, "no_memories", !file.cm_memories.is_empty()),
        (15, "no_agent", agent),
    ]
}

fn recency(file: &HandoffFile, now: Time) -> Dimension {
    const LOOK: &str = "check it against the repository";
    let (score, reason, hint) = match file.written_at().map(|at| now.since(at)) {
        None => (35, "unknown", "state when it was written"),
        Some(..0) => (85, "in_the_future", ""),
        Some(0..=HOUR) => (100, "", ""),
        Some(0..=DAY) => (85, "", ""),
        Some(0..=WEEK) => (60, "older_than_a_day", LOOK),
        Some(_) => (25, "stale_week_plus", LOOK),
    };
    let given = |text: String, of: &str| (!of.is_empty()).then_some(text).into_iter().collect();
    Dimension {
        name: "recency".to_owned(),
        score,
        reasons: given(format!("recency.{reason}"), reason),
        hints: given(hint.to_owned(), hint),
        extra: Vec::new(),
    }
}

impl HandoffFile {
    /// When the file was last written, else first written, else the beginning of its date.
    pub fn written_at(&self) -> Option<Time> {
        let midnight = format!("{}T00:00:00Z", self.date);
        let mut times = [&self.updated_at, &self.created_at, &midnight].into_iter();
        times.find_map(|text| Time::parse(text))
    }

    /// All violations; empty for a valid file.
    pub fn errors(&self) -> Vec<FieldError> {
        let mut broken = Vec::new();
        let mut rule = |field, value: &str, holds: bool, rule: &str| {
            broken.extend((!holds).then(|| violation(field, rule, value)));
        };
        for (field, value) in [("goal", &self.goal), ("now", &self.now)] {
            rule(field, value, !value.trim().is_empty(), "required");
        }
        let is_named = names::is_session(self.session_name());
        let name = "only letters, digits, `_` and `-`, or empty";
        rule("session", &self.session, is_named, name);
        let is_day = self.date.is_empty() || is_date(&self.date);
        rule("date", &self.date, is_day, "an existing date, YYYY-MM-DD");
        for (field, value) in [("created_at", &self.created_at), ("updated_at", &self.updated_at)] {
            let is_time = value.is_empty() || Time::parse(value).is_some();
            rule(field, value, is_time, "a time as in RFC 3339");
        }
        for (field, value, choices) in [
            ("status", &self.status, &STATUS[..]),
            ("outcome", &self.outcome, &OUTCOME),
            ("agent_type", &self.agent_type, &AGENT_TYPE),
        ] {
            let is_one = value.is_empty() || choices.contains(&value.as_str());
            let one_of = format!("one of {}, or empty", choices.join(", "));
            rule(field, value, is_one, &one_of);
        }
        let (used, max, share) = (self.tokens_used, self.tokens_max, self.tokens_pct);
        let most = format!("at most tokens_max, which is {max}");
        rule("tokens_used", &used.to_string(), used >= 0, "at least 0");
        rule("tokens_max", &max.to_string(), max >= 0, "at least 0");
        rule("tokens_used", &used.to_string(), max <= 0 || used <= max, &most);
        let is_share = (0.0..=100.0).contains(&share);
        rule("tokens_pct", &share.to_string(), is_share, "0 to 100");
        broken
    }

    /// Remarks that are not errors: a version that this program does not support.
    pub fn notes(&self) -> Vec<FieldError> {
        let is_known = self.version.is_empty() || self.version == VERSION;
        let another = format!("another version than {VERSION}");
        let note = (!is_known).then(|| violation("version", another, &self.version));
        note.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::full;
    use super::*;

    fn of<'r>(report: &'r QualityReport, name: &str) -> &'r Dimension {
        report
            .dimensions
            .iter()
            .find(|dimension| dimension.name == name)
            .unwrap()
    }

    #[test]
    fn a_full_file_is_high_and_an_empty_one_low() {
        let file = full();
        let now = Time::parse(&file.updated_at).unwrap();
        let report = score(&file, now);
        assert_eq!((report.score, report.status.as_str()), (100, "high"));
        assert_eq!(report.reasons, Vec::<String>::new());
        let nothing = score(&HandoffFile::default(), now);
        assert_eq!((nothing.score, nothing.status.as_str()), (13, "low"));
        for reason in [
            "coverage.missing_goal",
            "actionability.no_next_steps",
            "traceability.no_beads",
            "recency.unknown",
        ] {
            assert!(
                nothing.reasons.iter().any(|found| found == reason),
                "{reason}: {:?}",
                nothing.reasons
            );
        }
        assert!(!nothing.hints.is_empty() && nothing.brief().hints.is_empty());
    }

    #[test]
    fn every_point_of_each_dimension_counts() {
        let file = full();
        let now = Time::parse(&file.updated_at).unwrap();
        type FileEdit = fn(&mut HandoffFile);
        let takes: [(FileEdit, [i64; 3]); 11] = [
            (|f| f.goal.clear(), [80, 100, 100]),
            (|f| f.now.clear(), [80, 70, 100]),
            (|f| f.test.clear(), [85, 80, 100]),
            (|f| f.done_this_session.clear(), [85, 100, 100]),
            (
                |f| {
                    f.files = Default::default();
                    f.done_this_session.clear();
                },
                [75, 100, 75],
            ),
            (
                |f| {
                    f.decisions.clear();
                    f.findings.clear();
                },
                [90, 100, 100],
            ),
            (
                |f| {
                    f.next.clear();
                    f.blockers.clear();
                    f.questions.clear();
                },
                [90, 80, 100],
            ),
            (|f| f.active_beads.clear(), [100, 85, 80]),
            (|f| f.agent_mail_threads.clear(), [100, 100, 80]),
            (|f| f.cm_memories.clear(), [100, 100, 80]),
            (
                |f| {
                    f.agent_id.clear();
                    f.agent_type.clear();
                },
                [100, 100, 85],
            ),
        ];
        for (at, (take, expected)) in takes.into_iter().enumerate() {
            let mut less = file.clone();
            take(&mut less);
            let report = score(&less, now);
            let found = ["coverage", "actionability", "traceability"].map(|name| of(&report, name).score);
            assert_eq!(found, expected, "{at}");
        }
        let mut blocked = file;
        blocked.status = "blocked".to_owned();
        blocked.blockers.clear();
        assert_eq!(of(&score(&blocked, now), "actionability").score, 85);
    }

    #[test]
    fn age_has_steps_and_the_mean_is_rounded() {
        let file = full();
        let at = Time::parse(&file.updated_at).unwrap();
        for (age, points) in [
            (0, 100),
            (3600, 100),
            (3601, 85),
            (86_400, 85),
            (86_401, 60),
            (604_800, 60),
            (604_801, 25),
            (-5, 85),
        ] {
            let report = score(&file, Time::of_seconds(at.seconds + age));
            assert_eq!(of(&report, "recency").score, points, "{age}");
        }
        // (100 + 85 + 100 + 100) / 4 is 96.25, and with 85 twice 92.5.
        assert_eq!(score(&file, Time::of_seconds(at.seconds + 4000)).score, 96);
        let mut less = file;
        less.agent_id.clear();
        less.agent_type.clear();
        assert_eq!(score(&less, Time::of_seconds(at.seconds + 4000)).score, 93);
        assert_eq!([79, 80, 59, 60].map(status), ["medium", "high", "low", "medium"]);
    }
}
