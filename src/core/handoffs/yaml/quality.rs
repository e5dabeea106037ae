//! Quality of a file as a starting point: coverage, recency, actionability, traceability, each 0 to 100.

use super::model::{Dimension, HandoffFile, QualityReport};
use super::time::Time;
use crate::text::date;

/// From here on a score is high, or medium.
const HIGH: i64 = 80;
const MEDIUM: i64 = 60;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// One thing that a dimension asks for.
struct QualityCriterion {
    points: i64,
    there: bool,
    reason: &'static str,
    hint: &'static str,
}

const fn criterion(points: i64, there: bool, reason: &'static str, hint: &'static str) -> QualityCriterion {
    QualityCriterion {
        points,
        there,
        reason,
        hint,
    }
}

/// Judges a file at a time.
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
        let mut all: Vec<String> = Vec::new();
        for text in dimensions.iter().flat_map(list) {
            if !all.contains(text) {
                all.push(text.clone());
            }
        }
        all
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
    /// What of a report is written into a file: the score and what is missing. Hints follow from that.
    pub fn brief(&self) -> Self {
        Self {
            score: self.score,
            status: self.status.clone(),
            scored_at: self.scored_at.clone(),
            reasons: self.reasons.clone(),
            ..Self::default()
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
    let missing = || all.iter().filter(|criterion| !criterion.there);
    Dimension {
        name: name.to_owned(),
        score: all
            .iter()
            .filter(|criterion| criterion.there)
            .map(|criterion| criterion.points)
            .sum(),
        reasons: missing()
            .map(|criterion| format!("{name}.{}", criterion.reason))
            .collect(),
        hints: missing().map(|criterion| criterion.hint.to_owned()).collect(),
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
        criterion(
            20,
            has_text(&file.goal),
            "missing_goal",
            "say what the session accomplished",
        ),
        criterion(20, has_text(&file.now), "missing_now", "say what to do first"),
        criterion(
            15,
            has_text(&file.test),
            "missing_test",
            "name the command that verifies the work",
        ),
        criterion(
            15,
            !file.done_this_session.is_empty(),
            "no_tasks",
            "list what was done",
        ),
        criterion(
            10,
            file.file_count() > 0,
            "no_files",
            "list the files that were touched",
        ),
        criterion(
            10,
            found,
            "no_decisions_or_findings",
            "note decisions with their reasons, and findings",
        ),
        criterion(
            10,
            ahead,
            "no_outlook",
            "list next steps, blockers or open questions",
        ),
    ]
}

fn actionability(file: &HandoffFile) -> [QualityCriterion; 5] {
    let clear = !file.is_blocked() || !file.blockers.is_empty();
    [
        criterion(30, has_text(&file.now), "missing_now", "say what to do first"),
        criterion(
            20,
            !file.next.is_empty(),
            "no_next_steps",
            "list next steps, blockers or open questions",
        ),
        criterion(
            20,
            has_text(&file.test),
            "missing_test",
            "name the command that verifies the work",
        ),
        criterion(
            15,
            !file.active_beads.is_empty(),
            "no_active_beads",
            "name the tasks in progress",
        ),
        criterion(15, clear, "blockers_not_named", "name what stands in the way"),
    ]
}

fn traceability(file: &HandoffFile) -> [QualityCriterion; 5] {
    [
        criterion(
            25,
            !file.paths().is_empty() || file.file_count() > 0,
            "no_files",
            "list the files that were touched",
        ),
        criterion(
            20,
            !file.active_beads.is_empty(),
            "no_beads",
            "name the tasks in progress",
        ),
        criterion(
            20,
            !file.agent_mail_threads.is_empty(),
            "no_threads",
            "name the threads of Agent Mail",
        ),
        criterion(
            20,
            !file.cm_memories.is_empty(),
            "no_memories",
            "carry memories along",
        ),
        criterion(
            15,
            has_text(&file.agent_id) || has_text(&file.agent_type),
            "no_agent",
            "say which agent it was",
        ),
    ]
}

fn recency(file: &HandoffFile, now: Time) -> Dimension {
    let at = file.written_at();
    let (score, reason, hint) = match at.map(|at| now.since(at)) {
        None => (35, Some("unknown"), Some("say when it was written")),
        Some(age) if age < 0 => (85, Some("in_the_future"), None),
        Some(0..=HOUR) => (100, None, None),
        Some(0..=DAY) => (85, None, None),
        Some(0..=WEEK) => (
            60,
            Some("older_than_a_day"),
            Some("check it against the repository"),
        ),
        Some(_) => (
            25,
            Some("stale_week_plus"),
            Some("check it against the repository"),
        ),
    };
    Dimension {
        name: "recency".to_owned(),
        score,
        reasons: reason
            .map(|reason| format!("recency.{reason}"))
            .into_iter()
            .collect(),
        hints: hint.map(str::to_owned).into_iter().collect(),
        extra: Vec::new(),
    }
}

impl HandoffFile {
    /// When it was last written, else first written, else the beginning of its date.
    pub fn written_at(&self) -> Option<Time> {
        let date = || {
            let midnight = date::day(&self.date)?.midnight().assume_utc();
            Some(Time::of_seconds(midnight.unix_timestamp()))
        };
        Time::parse(&self.updated_at)
            .or_else(|| Time::parse(&self.created_at))
            .or_else(date)
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
